// lookahead.h: built in chapter 17
//
// To find a key is to wait for memory: for its bucket, for the first node of the chain, for the next.
// No step can begin before the one before has brought its address, so a single lookup cannot be
// hurried. But several lookups can wait at the same time:
//
//   one after the other               side by side               = waits
//
//   a: ===bucket===node===node        a: ===bucket===node===node
//   b:                        ===...  b:  ===bucket===node===node
//                                     c:   ===bucket===node===node
//
// A walk is a lookup that has not come to its end. Each round takes every walk a step further, and
// has the processor fetch what the next step of that walk will look at: it comes while the others
// have their turns. The lookups that are made after that, one by one, find all of it in the cache.
//
// A walk changes nothing, and where it ends is a hint: two keys may have the same hash code. It is
// void as soon as the structure changes.
//
// The functions are inlined by force. To a compiler, a function that only prefetches has no effect,
// and gcc drops calls of such a function.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "avl.h"
#include "hashtable.h"
#include "intrusive.h"
#include "zset.h"

#define LOOKAHEAD static inline __attribute__((always_inline))

// A lookup in a hashtable. It has come as far as `node`. Zeroed, it leads nowhere.
struct hwalk {
    struct hnode **bucket;
    const struct hnode *node;
    uint32_t hcode;
};

// A way from the root of a sorted set down to where a score belongs. It has come as far as `tree`.
struct zwalk {
    const struct avl_node *tree;
    double score;
};

// Returns a walk to the key with the hash code, and fetches its bucket: in the older table, where
// that bucket has not been moved yet. Borrows the table. Cost: O(1).
LOOKAHEAD struct hwalk hwalk_begin(const struct hmap *hmap, uint32_t hcode) {
    const struct htab *htab = &hmap->newer;
    if (!htab->tab) {
        return (struct hwalk){0};
    }
    __builtin_prefetch(&htab->tab[hcode & htab->mask]); // a lookup begins here in any case
    if (hmap->older.tab && (hcode & hmap->older.mask) >= hmap->resizing_pos) {
        htab = &hmap->older;
        __builtin_prefetch(&htab->tab[hcode & htab->mask]);
    }
    return (struct hwalk){.bucket = &htab->tab[hcode & htab->mask], .hcode = hcode};
}

// Takes `n` walks to their ends, a step of each in turn. Each ends at the first node of its chain
// that has the hash code, most likely that of the key, or at NULL. Cost: O(n) on average, with the
// waits side by side.
LOOKAHEAD void hwalk_all(struct hwalk *walks, int n) {
    for (int i = 0; i < n; i++) {
        walks[i].node = walks[i].bucket ? *walks[i].bucket : NULL;
        __builtin_prefetch(walks[i].node);
    }
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < n; i++) {
            const struct hnode *node = walks[i].node;
            if (node && node->hcode != walks[i].hcode) {
                walks[i].node = node->next;
                __builtin_prefetch(walks[i].node);
                more = true;
            }
        }
    }
}

// Takes `n` walks to their ends, a step of each in turn. Names do not count here: the way to a pair
// among others of its score may be another one. Cost: O(n log size), with the waits side by side.
LOOKAHEAD void zwalk_all(struct zwalk *walks, int n) {
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < n; i++) {
            const struct avl_node *tree = walks[i].tree;
            if (tree) {
                double score = container_of(tree, struct znode, tree)->score;
                walks[i].tree = score < walks[i].score ? tree->right : tree->left;
                __builtin_prefetch(walks[i].tree);
                more = true;
            }
        }
    }
}
