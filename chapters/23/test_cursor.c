// test_cursor.c, chapter 23: does a walk keep its promise while the table changes its size?
//
// Some nodes stay in the table from the first step of a walk to the last: each must be seen. Others
// come and go between the steps, so that the table doubles or shrinks in the middle of the walk, and
// at every place of it. Prints a line for each part; where something is wrong, the place in this file
// and what it is, with exit status 1.

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hashtable_cursor.h"
#include "intrusive.h"
#include "mem.h"

enum {
    k_stay = 150,      // nodes that stay during a walk
    k_come_go = 20000, // others, at most
    k_walks = 3000,    // random ones
};

// What we are trying, for the message.
static struct {
    size_t stay, others; // nodes when the walk begins
    size_t step;         // before which the others come or go
} g_trying;

#define CHECK(cond) ((cond) ? (void)0 : wrong(__LINE__, #cond))

static void wrong(int line, const char *cond) {
    printf("test_cursor.c:%d: this does not hold: %s\n", line, cond);
    printf("  nodes that stay: %zu; others: %zu; they come or go before step %zu\n",
           g_trying.stay,
           g_trying.others,
           g_trying.step);
    exit(1);
}

// ---- a table and its nodes ----

struct item {
    struct hnode node;
    size_t seen; // in this walk
};

// Nodes of which the first `n` are in the table.
struct group {
    struct item *items;
    size_t n;
};

static struct hmap g_map;
static struct item g_items[k_stay + k_come_go];
static struct group g_stay = {g_items, 0}, g_others = {g_items + k_stay, 0};

// Returns the next of a sequence of numbers that look random; the high bits are the better ones.
static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8 ^ *state << 17;
}

// Puts nodes of the group into the table, or takes some out, until there are `n`.
static void set_size(struct group *group, size_t n) {
    for (; group->n < n; group->n++) {
        hm_insert(&g_map, &group->items[group->n].node);
    }
    for (; group->n > n; group->n--) {
        struct hnode *node = &group->items[group->n - 1].node;
        CHECK(hm_pop(&g_map, node, hnode_same) == node);
        hm_shrink(&g_map);
    }
}

// Takes part in moving until the table is in one piece.
static void settle(void) {
    while (g_map.older.tab) {
        hm_help_resizing(&g_map);
    }
}

static void see(struct hnode *node, void *arg) {
    size_t *seen = arg;
    container_of(node, struct item, node)->seen++;
    ++*seen;
}

static void forget_seen(void) {
    for (size_t i = 0; i < k_stay; i++) {
        g_stay.items[i].seen = 0;
    }
}

static void check_seen(size_t n) {
    for (size_t i = 0; i < n; i++) {
        CHECK(g_stay.items[i].seen > 0);
    }
}

// ---- the order of the buckets ----

static void test_order(void) {
    const uint64_t four[] = {2, 1, 3, 0}, eight[] = {4, 2, 6, 1, 5, 3, 7, 0};
    uint64_t cursor = 0;
    for (size_t i = 0; i < 4; i++) {
        cursor = cursor_next(cursor, 3);
        CHECK(cursor == four[i]);
    }
    for (size_t i = 0; i < 8; i++) {
        cursor = cursor_next(cursor, 7);
        CHECK(cursor == eight[i]);
    }
    CHECK(cursor_next(0, 0) == 0); // one bucket
    CHECK(reverse_bits(1) == UINT64_C(1) << 63);
    CHECK(reverse_bits(UINT64_C(0xf0) << 32) == UINT64_C(0xf) << 24);
    printf("order: as the picture in hashtable_cursor.h has it\n");
}

// ---- a table that stands still ----

static void test_still(void) {
    for (size_t n = 0; n <= k_stay; n++) {
        for (int moving = 0; moving < 2; moving++) {
            g_trying.stay = n;
            set_size(&g_stay, n);
            if (!moving) {
                settle();
            }
            forget_seen();
            size_t seen = 0, steps = 0;
            uint64_t cursor = 0;
            do {
                cursor = hm_scan_step(&g_map, cursor, see, &seen);
                steps++;
            } while (cursor != 0);
            CHECK(seen == n); // each node once
            check_seen(n);
            CHECK(n == 0 || steps <= g_map.newer.mask + 1 || g_map.older.tab);
        }
    }
    set_size(&g_stay, 0);
    printf("still: tables of 0 to %d nodes, each node once\n", (int)k_stay);
}

// ---- shrinking ----

static void test_shrink(void) {
    for (size_t n = 10; n <= k_come_go; n = n * 3 / 2) {
        g_trying.others = n;
        set_size(&g_others, n);
        settle();
        size_t buckets = g_map.newer.mask + 1;
        while (g_others.n > 0) {
            set_size(&g_others, g_others.n - 1);
            size_t now = g_map.newer.mask + 1;
            CHECK(now <= buckets && g_map.newer.size <= now * k_max_load_factor);
            buckets = now;
        }
        for (size_t i = 0; i < buckets; i++) { // all calls help
            set_size(&g_others, 1);
            set_size(&g_others, 0);
        }
        CHECK(g_map.newer.mask + 1 <= k_min_shrink && hm_size(&g_map) == 0);
    }
    printf("shrink: from up to %d nodes to none\n", (int)k_come_go);
}

// A table that shrinks while as many nodes come as can must not be overfull.
static void test_shrink_and_grow(void) {
    set_size(&g_others, k_come_go);
    settle();
    size_t n = g_trying.others = k_come_go;
    while (!g_map.older.tab) {
        set_size(&g_others, --n);
    }
    CHECK(g_map.older.mask > g_map.newer.mask);
    CHECK(h_check(&g_map.newer, 0) && h_check(&g_map.older, g_map.resizing_pos));
    while (g_map.older.tab) {
        set_size(&g_others, ++n);
        CHECK(g_map.newer.size <= (g_map.newer.mask + 1) * k_max_load_factor);
    }
    set_size(&g_others, 0);
    printf("shrink and grow: never more than %d nodes a bucket\n", (int)k_max_load_factor);
}

// ---- a table that changes its size in the middle of a walk ----

// Walks with `stay` nodes that stay and `before` others, of which there are `after` from step `at` on.
// Returns the number of steps.
static size_t walk(size_t stay, size_t before, size_t after, size_t at) {
    g_trying.stay = stay;
    g_trying.others = before;
    g_trying.step = at;
    set_size(&g_stay, stay);
    set_size(&g_others, before);
    settle();
    forget_seen();
    uint64_t cursor = 0;
    size_t seen = 0, steps = 0;
    do {
        if (steps == at) {
            set_size(&g_others, after);
        }
        cursor = hm_scan_step(&g_map, cursor, see, &seen);
        CHECK(++steps < 4 * k_come_go); // it comes to its end
    } while (cursor != 0);
    check_seen(stay);
    return steps;
}

static void test_middle(void) {
    const size_t sizes[] = {0, 40, 300, 700, 1500};
    size_t n = sizeof(sizes) / sizeof(sizes[0]), walks = 0;
    for (size_t i = 0; i < n * n; i++) {
        for (size_t at = 0, steps = 1; at <= steps; at += 1 + at / 16) {
            steps = walk(k_stay, sizes[i % n], sizes[i / n], at);
            walks++;
        }
    }
    printf("middle: %zu walks, all nodes that stay are seen\n", walks);
}

static void test_random(void) {
    uint32_t state = 18;
    for (int i = 0; i < k_walks; i++) {
        g_trying.stay = next_random(&state) % (k_stay + 1);
        g_trying.others = next_random(&state) % 1000;
        g_trying.step = 0;
        set_size(&g_stay, g_trying.stay);
        forget_seen();
        uint64_t cursor = 0;
        size_t seen = 0, steps = 0;
        do {
            if (next_random(&state) % 8 == 0) {
                g_trying.step = steps;
                set_size(&g_others, next_random(&state) % 1000);
            }
            cursor = hm_scan_step(&g_map, cursor, see, &seen);
            CHECK(++steps < 4 * k_come_go);
        } while (cursor != 0);
        check_seen(g_trying.stay);
    }
    set_size(&g_stay, 0);
    set_size(&g_others, 0);
    printf("random: %d walks, with nodes that come and go between the steps\n", (int)k_walks);
}

int main(void) {
    uint32_t state = 7;
    for (size_t i = 0; i < k_stay + k_come_go; i++) {
        g_items[i].node.hcode = next_random(&state);
    }
    test_order();
    test_still();
    test_shrink();
    test_shrink_and_grow();
    test_middle();
    test_random();
    hm_destroy(&g_map);
    printf("all tests passed\n");
}
