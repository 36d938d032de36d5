// t_expire.c: commands for the time that keys have to live
//
// Has no state.

#include "clock.h"
#include "heap.h"
#include "serial.h"

#include "server.h"

// Lets the key live for `ttl_ms` from now; deletes it if that is not positive. Reads the clock
// again, for itself and the requests behind it: those before it in this batch may have taken long.
static void expire_key(const struct slice *key, int64_t ttl_ms, struct buf *out) {
    set_now(get_monotonic_msec());
    if (ttl_ms > INT64_MAX - get_now()) {
        out_err(out, ERR_ARG, "the time to live is too large");
        return;
    }
    struct entry *ent = entry_lookup(key);
    out_int(out, ent != NULL);
    if (ent && ttl_ms > 0) {
        entry_set_ttl(ent, ttl_ms);
    } else if (ent) {
        entry_drop(ent);
    }
}

// expire key seconds
void do_expire(const struct slice *args, struct buf *out) {
    int64_t ttl_s, ttl_ms;
    if (!parse_int(&args[2], &ttl_s)) {
        out_bad_int(out);
        return;
    }
    if (__builtin_mul_overflow(ttl_s, 1000, &ttl_ms)) {
        ttl_ms = ttl_s > 0 ? INT64_MAX : INT64_MIN; // too late: refused; too early: deleted
    }
    expire_key(&args[1], ttl_ms, out);
}

// pexpire key milliseconds
void do_pexpire(const struct slice *args, struct buf *out) {
    int64_t ttl_ms;
    if (!parse_int(&args[2], &ttl_ms)) {
        out_bad_int(out);
        return;
    }
    expire_key(&args[1], ttl_ms, out);
}

// Returns how many milliseconds the key has left: -1 for ever, -2 where there is no such key.
static int64_t ttl_of(const struct slice *key) {
    const struct entry *ent = entry_lookup(key);
    if (!ent) {
        return -2;
    }
    return ent->heap_idx == k_heap_none ? -1 : entry_deadline(ent) - get_now();
}

void do_ttl(const struct slice *args, struct buf *out) {
    int64_t ttl_ms = ttl_of(&args[1]);
    out_int(out, ttl_ms < 0 ? ttl_ms : ttl_ms / 1000 + (ttl_ms % 1000 >= 500));
}

void do_pttl(const struct slice *args, struct buf *out) {
    out_int(out, ttl_of(&args[1]));
}

void do_persist(const struct slice *args, struct buf *out) {
    struct entry *ent = entry_lookup(&args[1]);
    out_int(out, ent && entry_clear_ttl(ent));
}
