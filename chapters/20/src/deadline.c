// deadline.c: when keys expire
//
// Owns the deadlines of all keys, and the time that commands go by.

#include <stdlib.h>
#include <time.h>

#include "heap.h"
#include "intrusive.h"

#include "server.h"

static struct heap heap; // the deadlines of keys, in milliseconds of the monotonic clock
static int64_t now_ms;   // the time that commands go by: read before each batch of requests

// Sets the time that commands go by.
void set_now(int64_t ms) {
    now_ms = ms;
}

// Returns the time that commands go by.
int64_t get_now(void) {
    return now_ms;
}

// Returns the deadline of the entry, INT64_MAX where it has none.
int64_t entry_deadline(const struct entry *ent) {
    return ent->heap_idx == k_heap_none ? INT64_MAX : heap.items[ent->heap_idx].val;
}

// Tells whether the entry is past its deadline: gone, but for the memory that it takes.
bool entry_expired(const struct entry *ent) {
    return now_ms > entry_deadline(ent);
}

// Tells whether there is a deadline `ttl_ms` from now, in 64 bits. Those of Redis are times of day:
// what is too late there is refused here, too, though our clock has begun later.
bool ttl_fits(int64_t ttl_ms) {
    int64_t wall_ms = (int64_t)time(NULL) * 1000;
    return ttl_ms <= INT64_MAX - now_ms && ttl_ms <= INT64_MAX - wall_ms;
}

// Gives the entry `ttl_ms` to live from now on. The caller has checked that now_ms + ttl_ms fits.
void entry_set_ttl(struct entry *ent, int64_t ttl_ms) {
    heap_upsert(&heap, &ent->heap_idx, now_ms + ttl_ms);
}

// Lets the entry live for ever. Returns whether it had a TTL.
bool entry_clear_ttl(struct entry *ent) {
    if (ent->heap_idx == k_heap_none) {
        return false;
    }
    heap_delete(&heap, ent->heap_idx);
    return true;
}

// Returns the entry with the earliest deadline, borrowed; NULL where none has one. Cost: O(1).
struct entry *first_to_expire(void) {
    return heap.len > 0 ? container_of(heap.items[0].ref, struct entry, heap_idx) : NULL;
}

// Returns how many bytes `keys` would write for the keys that have expired and are still there.
// Cost: O(keys with a TTL); reads only the entries that have expired.
size_t expired_listed_size(void) {
    size_t size = 0;
    for (size_t i = 0; i < heap.len; i++) {
        struct heap_item item = heap.items[i];
        if (now_ms > item.val) {
            size += entry_listed_size(container_of(item.ref, struct entry, heap_idx));
        }
    }
    return size;
}

// Frees all deadlines. The entries are not told: see entry_clear().
void deadlines_free(void) {
    free(heap.items);
    heap = (struct heap){0};
}
