// hashtable_cursor.h: built in chapter 23
//
// A table that shrinks, and a walk through a table that changes meanwhile.
//
// The walk is resumed with a number, the cursor, which says which buckets are left. Counting up will
// not do: where the table doubles after bucket 2 of 4, what was in 0, 1 and 2 is also in 4, 5 and 6,
// and comes again; where it shrinks, what is left of 5 and 6 is in 1 and 2, and is missed. So the
// cursor counts with its bits reversed, the highest one first:
//
//   4 buckets:      0       2       1       3          00      10      01      11
//   8 buckets:    0   4   2   6   1   5   3   7     000 100 010 110 001 101 011 111
//
// In this order the buckets into which a bucket is split, or from which it is joined, are next to
// each other. A cursor means the same place in every size, and what lies behind it stays behind it.
// (Pieter Noordhuis, for SCAN in Redis, 2012.)
//
// What is promised: a node that is in the table from the first step to the last is seen at least
// once; the walk comes to its end. A node may be seen twice where the table changes its size.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hashtable.h"

enum {
    // A table with fewer nodes than a sixteenth of its buckets shrinks to an eighth of them. While the
    // nodes are moved, which takes a call for every k_resizing_work nodes and buckets, others may
    // come: there is room for them, and the table need not grow before its older one is gone.
    k_shrink_at = 16,
    k_shrink_by = 8,
    k_min_shrink = 64, // buckets up to which a table stays as it is
};

// Begins to shrink, if there are few nodes. To be called when nodes have been removed. The older
// table is the large one now; growing or shrinking, its nodes are moved in the same way.
// Cost: O(1), and that of allocating the buckets.
static inline void hm_shrink(struct hmap *hmap) {
    size_t buckets = hmap->newer.mask + 1;
    if (hmap->older.tab || buckets <= k_min_shrink || hmap->newer.size >= buckets / k_shrink_at) {
        return;
    }
    hmap->older = hmap->newer;
    h_init(&hmap->newer, buckets / k_shrink_by);
    hmap->resizing_pos = 0;
}

// Returns `bits` with the lowest bit first.
static inline uint64_t reverse_bits(uint64_t bits) {
    bits = (bits >> 1 & 0x5555555555555555) | (bits & 0x5555555555555555) << 1;
    bits = (bits >> 2 & 0x3333333333333333) | (bits & 0x3333333333333333) << 2;
    bits = (bits >> 4 & 0x0f0f0f0f0f0f0f0f) | (bits & 0x0f0f0f0f0f0f0f0f) << 4;
    return __builtin_bswap64(bits);
}

// Returns the cursor behind `cursor` in a table with `mask`, 0 behind the last. The bits above the
// mask are set first, so that the 1 we add is carried into those below.
static inline uint64_t cursor_next(uint64_t cursor, size_t mask) {
    return reverse_bits(reverse_bits(cursor | ~(uint64_t)mask) + 1);
}

// Calls f(node, arg) for the nodes of one bucket, none of which is touched after its call: f may free it.
static inline void h_scan_bucket(const struct htab *htab, size_t pos,
                                 void (*f)(struct hnode *, void *), void *arg) {
    for (struct hnode *node = htab->tab[pos & htab->mask], *next; node; node = next) {
        next = node->next;
        f(node, arg);
    }
}

// Takes a walk one step further: calls f(node, arg) for the nodes of the bucket at `cursor`, which
// is 0 at first, and of the buckets of the other table that are joined in it or split from it. f must
// call nothing that uses the table, for even a lookup may move nodes. If the whole table is thrown
// away after the walk, f may free the node. Returns the cursor of the next step, 0 at the end.
// Cost: O(1) on average.
static inline uint64_t hm_scan_step(const struct hmap *hmap, uint64_t cursor,
                                    void (*f)(struct hnode *, void *), void *arg) {
    const struct htab *small = &hmap->newer, *large = &hmap->older;
    if (!small->tab) {
        return 0;
    }
    if (!large->tab) {
        h_scan_bucket(small, cursor, f, arg);
        return cursor_next(cursor, small->mask);
    }
    if (small->mask > large->mask) {
        small = &hmap->older;
        large = &hmap->newer;
    }
    h_scan_bucket(small, cursor, f, arg);
    do {
        h_scan_bucket(large, cursor, f, arg);
        cursor = cursor_next(cursor, large->mask);
    } while (cursor & (small->mask ^ large->mask));
    return cursor;
}
