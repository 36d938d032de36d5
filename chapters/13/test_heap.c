// test_heap.c, chapter 13: does the heap do what heap.h says?
//
// After every step the heap is compared with a plain model: payloads that know their value, the
// least of which is found by looking at all of them. Prints a line for each part; where something
// is wrong, the place in this file and what it is, with exit status 1.

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "intrusive.h"
#include "mem.h"

enum {
    k_sizes = 32,     // every size up to this one
    k_items = 200,    // the most that a model holds
    k_many = 200000,  // items of the largest heap
    k_rounds = 40000, // steps of a random run
};

// ---- what is wrong, and where ----

// What we are trying, for the message.
static struct {
    const char *values; // the kind of values
    size_t n;           // items in the heap
    size_t pos;         // the one that is changed or deleted
} g_trying;

#define CHECK(cond)          ((cond) ? (void)0 : wrong(__LINE__, #cond))
#define CHECK_AT(line, cond) ((cond) ? (void)0 : wrong(line, #cond))

static void wrong(int line, const char *cond) {
    printf("test_heap.c:%d: this does not hold: %s\n", line, cond);
    if (g_trying.values) {
        printf("  values: %s; items: %zu; at: %zu\n", g_trying.values, g_trying.n, g_trying.pos);
    }
    exit(1);
}

// ---- values ----

static int64_t val_rising(size_t i) {
    return (int64_t)i * 10;
}

static int64_t val_falling(size_t i) {
    return -(int64_t)i * 10;
}

static int64_t val_equal(size_t i) {
    (void)i;
    return 7;
}

static int64_t val_few(size_t i) {
    return (int64_t)(i * 5 % 3);
}

static int64_t val_mixed(size_t i) {
    return (int64_t)(i * 7919 % 1009);
}

static int64_t val_extreme(size_t i) {
    const int64_t vals[] = {INT64_MAX, 0, INT64_MIN, -1, INT64_MAX - 1, INT64_MIN + 1, 1};
    return vals[i % 7];
}

static const struct kind {
    const char *name;
    int64_t (*val)(size_t i);
} k_kinds[] = {
    {"rising", val_rising},
    {"falling", val_falling},
    {"all equal", val_equal},
    {"three different ones", val_few},
    {"mixed", val_mixed},
    {"from INT64_MIN to INT64_MAX", val_extreme},
};

enum {
    k_num_kinds = sizeof(k_kinds) / sizeof(k_kinds[0]),
};

// ---- a heap and its model ----

// The payload. The record is not its first member, so that an address alone does not do.
struct item {
    int64_t val; // the model: what the heap has to say
    bool there;  // the model: is it in the heap?
    uint32_t heap_idx;
};

struct both {
    struct heap heap;
    struct item *items[k_items]; // one allocation each: an item can move
};

static void both_init(struct both *both) {
    both->heap = (struct heap){0};
    for (size_t i = 0; i < k_items; i++) {
        both->items[i] = mem_calloc(1, sizeof(struct item));
        both->items[i]->heap_idx = k_heap_none;
    }
}

static void both_dispose(struct both *both) {
    free(both->heap.items);
    for (size_t i = 0; i < k_items; i++) {
        free(both->items[i]);
    }
}

static void upsert(struct both *both, struct item *item, int64_t val) {
    item->val = val;
    item->there = true;
    heap_upsert(&both->heap, &item->heap_idx, val);
}

static void take_out(struct both *both, struct item *item) {
    item->there = false;
    heap_delete(&both->heap, item->heap_idx);
}

// Returns the item whose place in the heap is `pos`.
static struct item *item_at(struct both *both, size_t pos) {
    return container_of(both->heap.items[pos].ref, struct item, heap_idx);
}

// Does the heap hold exactly what the model holds, and does each record say where?
#define CHECK_ALL(both) check_all(__LINE__, both)

static void check_all(int line, const struct both *both) {
    const struct heap *heap = &both->heap;
    CHECK_AT(line, heap_check(heap));
    size_t len = 0;
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < k_items; i++) {
        const struct item *item = both->items[i];
        if (!item->there) {
            CHECK_AT(line, item->heap_idx == k_heap_none);
            continue;
        }
        CHECK_AT(line, item->heap_idx < heap->len);
        CHECK_AT(line, heap->items[item->heap_idx].ref == &item->heap_idx);
        CHECK_AT(line, heap->items[item->heap_idx].val == item->val);
        least = item->val < least ? item->val : least;
        len++;
    }
    CHECK_AT(line, heap->len == len);
    CHECK_AT(line, len == 0 || heap->items[0].val == least);
    for (size_t pos = 1; pos < len; pos++) {
        CHECK_AT(line, heap->items[heap_parent(pos)].val <= heap->items[pos].val);
    }
}

static void clear(struct both *both) {
    for (size_t i = 0; i < k_items; i++) {
        both->items[i]->there = false;
        both->items[i]->heap_idx = k_heap_none;
    }
    both->heap.len = 0;
}

// Begins anew with `n` items.
static void build(struct both *both, const struct kind *kind, size_t n) {
    clear(both);
    g_trying.values = kind->name;
    for (size_t i = 0; i < n; i++) {
        g_trying.n = i;
        g_trying.pos = i;
        upsert(both, both->items[i], kind->val(i));
    }
    g_trying.n = n;
}

// ---- places ----

static void test_places(void) {
    CHECK(heap_left(0) == 1 && heap_right(0) == 2);
    for (size_t pos = 0; pos < 10000; pos++) {
        CHECK(heap_left(pos) == 2 * pos + 1 && heap_right(pos) == 2 * pos + 2);
        CHECK(heap_parent(heap_left(pos)) == pos && heap_parent(heap_right(pos)) == pos);
    }
    printf("places: parents and children agree\n");
}

// ---- every size, every place ----

// What item `pos` of `n` is updated to: the same, a little less and more, the value of each of the
// others and its neighbours, the extremes.
static int64_t new_val(const struct both *both, const struct kind *kind, size_t n, size_t pos,
                       size_t i) {
    int64_t val = both->heap.items[pos].val;
    if (i < n) {
        return kind->val(i);
    }
    const int64_t vals[] = {
        val,
        val > INT64_MIN ? val - 1 : val,
        val < INT64_MAX ? val + 1 : val,
        INT64_MIN,
        INT64_MAX,
    };
    return vals[i - n];
}

static void test_update(struct both *both) {
    for (const struct kind *kind = k_kinds; kind < k_kinds + k_num_kinds; kind++) {
        for (size_t n = 1; n <= k_sizes; n++) {
            for (size_t i = 0; i < n * (n + 5); i++) {
                build(both, kind, n);
                g_trying.pos = i % n;
                struct item *item = item_at(both, g_trying.pos);
                item->val = new_val(both, kind, n, g_trying.pos, i / n);
                if (i % 2) {
                    upsert(both, item, item->val);
                } else {
                    both->heap.items[g_trying.pos].val = item->val;
                    heap_update(both->heap.items, g_trying.pos, n);
                }
                CHECK_ALL(both);
            }
        }
    }
    printf("update: less, equal, greater, at every place, in every size up to %d\n", (int)k_sizes);
}

static void test_delete(struct both *both) {
    for (const struct kind *kind = k_kinds; kind < k_kinds + k_num_kinds; kind++) {
        for (size_t n = 1; n <= k_sizes; n++) {
            for (size_t pos = 0; pos < n; pos++) {
                build(both, kind, n);
                CHECK_ALL(both);
                g_trying.pos = pos;
                struct item *item = item_at(both, pos);
                take_out(both, item);
                CHECK_ALL(both);
                upsert(both, item, item->val);
                CHECK_ALL(both);
            }
        }
    }
    printf("delete: the first, the last, any other, and put back\n");
}

// ---- all of them ----

// The place that is deleted next of `n`: the first, the last, one in the middle, any.
static size_t next_place(size_t how, size_t n) {
    const size_t places[] = {0, n - 1, n / 2, n * 7919 % 101 % n};
    return places[how];
}

static void test_drain(struct both *both) {
    for (size_t i = 0; i < 4 * k_num_kinds; i++) {
        size_t how = i % 4;
        build(both, &k_kinds[i / 4], k_items);
        int64_t before = INT64_MIN;
        for (size_t n = k_items; n > 0; n--) {
            g_trying.n = n;
            g_trying.pos = next_place(how, n);
            CHECK(how != 0 || both->heap.items[0].val >= before);
            before = both->heap.items[0].val;
            take_out(both, item_at(both, g_trying.pos));
            CHECK_ALL(both);
        }
        upsert(both, both->items[0], 1);
        CHECK_ALL(both);
    }
    printf("drain: from the front in order, from the back, from the middle, to the last item\n");
}

// ---- every small heap ----

// Every heap of seven items with values from 0 to 3 comes about in one of these 4^7 ways. Each place
// is deleted: what was last takes it, and may have to go up from there, or down.
static void test_small(struct both *both) {
    g_trying.values = "from 0 to 3, in every order";
    g_trying.n = 7;
    for (unsigned code = 0; code < 1u << 14; code++) {
        g_trying.pos = code % 7;
        clear(both);
        for (size_t i = 0; i < 7; i++) {
            upsert(both, both->items[i], code >> 2 * i & 3);
        }
        take_out(both, item_at(both, g_trying.pos));
        CHECK_ALL(both);
        upsert(both, both->items[6], code % 5); // changed, or put back
        CHECK_ALL(both);
    }
    printf("small heaps: every one of seven items with four values\n");
}

// ---- random runs ----

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

// The item moves in memory, as an entry may whose value has another length. Whoever moves it tells
// the heap.
static void move_item(struct both *both, size_t i) {
    struct item *old = both->items[i], *heir = mem_alloc(sizeof(*heir));
    *heir = *old;
    both->items[i] = heir;
    if (heir->there) {
        both->heap.items[heir->heap_idx].ref = &heir->heap_idx;
    }
    memset(old, 0xee, sizeof(*old));
    free(old);
}

// Two heaps at once, which must not know of each other.
static void test_random(struct both *boths) {
    uint32_t state = 13;
    g_trying.values = "random";
    clear(&boths[0]);
    clear(&boths[1]);
    for (unsigned round = 0; round < k_rounds; round++) {
        struct both *both = &boths[next_random(&state) % 2];
        size_t i = next_random(&state) % k_items;
        struct item *item = both->items[i];
        uint32_t what = next_random(&state) % 8;
        bool shrinking = round / 5000 % 2;
        g_trying.n = both->heap.len;
        g_trying.pos = item->heap_idx;
        if (what < 4 && item->there == shrinking) {
            upsert(both, item, next_random(&state) % 50); // many are equal
        } else if (what < 5) {
            upsert(both, item, next_random(&state));
        } else if (what < 6) {
            move_item(both, i);
        } else if (item->there) {
            take_out(both, shrinking ? item : item_at(both, both->heap.len - 1));
        }
        CHECK_ALL(both);
    }
    printf("random: %d steps in two heaps, with items that move\n", (int)k_rounds);
}

// ---- many ----

static void test_many(void) {
    g_trying.values = NULL;
    struct heap heap = {0};
    uint32_t state = 14, *refs = mem_alloc(k_many * sizeof(refs[0]));
    for (size_t i = 0; i < k_many; i++) {
        refs[i] = k_heap_none;
        heap_upsert(&heap, &refs[i], next_random(&state) % 1000 * 1000);
    }
    CHECK(heap.len == k_many && heap_check(&heap));
    for (size_t i = 0; i < k_many; i += 2) {
        heap_delete(&heap, refs[i]);
        CHECK(refs[i] == k_heap_none);
    }
    CHECK(heap.len == k_many / 2 && heap_check(&heap));
    for (int64_t before = 0; heap.len > 0; heap_delete(&heap, 0)) {
        CHECK(heap.items[0].val >= before && *heap.items[0].ref == 0);
        before = heap.items[0].val;
    }
    for (size_t i = 0; i < k_many; i++) {
        CHECK(refs[i] == k_heap_none);
    }
    free(heap.items);
    free(refs);
    printf("many: %d items, one of two deleted, the rest in order\n", (int)k_many);
}

int main(void) {
    struct both boths[2];
    both_init(&boths[0]);
    both_init(&boths[1]);
    test_places();
    CHECK_ALL(&boths[0]);
    test_update(&boths[0]);
    test_delete(&boths[0]);
    test_drain(&boths[0]);
    test_small(&boths[0]);
    test_random(boths);
    test_many();
    both_dispose(&boths[0]);
    both_dispose(&boths[1]);
    printf("all tests passed\n");
}
