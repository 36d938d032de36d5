// hashtable.h: built in chapter 08
//
// A hashtable with chaining that grows without stalling. Nodes are embedded in the payload.
//
//   newer:  [ | | | | | | | ]            every insertion goes here
//                |
//               node -> node
//   older:  [ | | | ]                    while the table grows: what has not been moved yet
//            x x ^
//                resizing_pos            the buckets before it are empty
//
// When the nodes outnumber the buckets by k_max_load_factor, a table of twice the size becomes the
// newer one, and every later operation moves a bounded amount over: k_resizing_work nodes or empty
// buckets, so that no single call pays for the whole table.
//
// Invariants: a node is in the bucket of its hcode, in exactly one of the two tables; the older
// table is empty below resizing_pos, and the call that moves its last node frees it.
//
// The table neither allocates nor frees nodes. The user sets hcode and key_len before a node is
// inserted and leaves them alone while it is in the table, and never inserts an equal key twice.
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "mem.h"

enum {
    // Nodes per bucket at which the table doubles. A lower limit spends memory on buckets, a higher
    // one time on chains.
    k_max_load_factor = 2,
    // Nodes moved or buckets passed in a call. So a move ends long before the next one begins:
    // n buckets mean 2n nodes to move, n buckets to pass, and 2n insertions until the next.
    k_resizing_work = 8,
    k_min_buckets = 4,
};

// Embedded in the payload. key_len takes the place of padding; comparing it first saves a look at
// the key.
struct hnode {
    struct hnode *next;
    uint32_t hcode;
    uint32_t key_len;
};

// One array of chains. The number of buckets is a power of two, mask + 1; tab is NULL for none.
struct htab {
    struct hnode **tab;
    size_t mask;
    size_t size;
};

// The table. Zeroed is empty.
struct hmap {
    struct htab newer;
    struct htab older;
    size_t resizing_pos;
};

// Tells whether `node` holds the key that is looked for. The hash codes and the lengths of the two
// are already known to be equal.
typedef bool hnode_eq(const struct hnode *node, const struct hnode *key);

// An hnode_eq for looking up a node that is in the table already.
static inline bool hnode_same(const struct hnode *node, const struct hnode *key) {
    return node == key;
}

// Makes `htab` empty, with `n` buckets, a power of two. It owns them: free(htab->tab).
static inline void h_init(struct htab *htab, size_t n) {
    assert(n > 0 && (n & (n - 1)) == 0);
    htab->tab = mem_calloc(n, sizeof(struct hnode *));
    htab->mask = n - 1;
    htab->size = 0;
}

// Puts `node` at the head of its chain. Cost: O(1).
static inline void h_insert(struct htab *htab, struct hnode *node) {
    struct hnode **bucket = &htab->tab[node->hcode & htab->mask];
    node->next = *bucket;
    *bucket = node;
    htab->size++;
}

// Returns the address of the pointer that owns the node with the key, NULL where there is none.
// That pointer, and not the node, is what a removal or a replacement has to change.
// Cost: O(1) on average.
static inline struct hnode **h_lookup(struct htab *htab, const struct hnode *key, hnode_eq *eq) {
    if (!htab->tab) {
        return NULL;
    }
    struct hnode **link = &htab->tab[key->hcode & htab->mask];
    for (struct hnode *cur; (cur = *link) != NULL; link = &cur->next) {
        if (cur->hcode == key->hcode && cur->key_len == key->key_len && eq(cur, key)) {
            return link;
        }
    }
    return NULL;
}

// Takes the node that `link` owns out of its chain and returns it. Cost: O(1).
static inline struct hnode *h_detach(struct htab *htab, struct hnode **link) {
    struct hnode *node = *link;
    *link = node->next;
    htab->size--;
    return node;
}

// Calls f(node, arg) for every node until f returns false. f may free the node. Returns whether it
// came to the end. Cost: O(buckets + nodes).
static inline bool h_scan(const struct htab *htab, bool (*f)(struct hnode *, void *), void *arg) {
    for (size_t i = 0; htab->tab && i <= htab->mask; i++) {
        for (struct hnode *node = htab->tab[i], *next; node; node = next) {
            next = node->next;
            if (!f(node, arg)) {
                return false;
            }
        }
    }
    return true;
}

// Begins to grow: all nodes are in the older table now, the newer one is empty and twice as large.
static inline void hm_start_resizing(struct hmap *hmap) {
    assert(!hmap->older.tab);
    hmap->older = hmap->newer;
    h_init(&hmap->newer, (hmap->older.mask + 1) * 2);
    hmap->resizing_pos = 0;
}

// Moves some nodes from the older table to the newer one, if the table is growing.
// Cost: at most k_resizing_work nodes moved or empty buckets passed.
static inline void hm_help_resizing(struct hmap *hmap) {
    struct htab *older = &hmap->older;
    for (int work = 0; work < k_resizing_work && older->size > 0; work++) {
        struct hnode **link = &older->tab[hmap->resizing_pos];
        if (*link) {
            h_insert(&hmap->newer, h_detach(older, link));
        } else {
            hmap->resizing_pos++;
        }
    }
    if (older->size == 0 && older->tab) {
        free(older->tab);
        *older = (struct htab){0};
    }
}

// Returns the address of the pointer that owns the node with the key, NULL where there is none.
// It is valid until the next call with this table. Cost: O(1) on average; helps resizing.
static inline struct hnode **hm_lookup(struct hmap *hmap, const struct hnode *key, hnode_eq *eq) {
    hm_help_resizing(hmap);
    struct hnode **link = h_lookup(&hmap->newer, key, eq);
    return link ? link : h_lookup(&hmap->older, key, eq);
}

// Puts `node` in; its key is not in the table yet. The table borrows the node until it is popped.
// Cost: O(1); starts or helps resizing.
static inline void hm_insert(struct hmap *hmap, struct hnode *node) {
    if (!hmap->newer.tab) {
        h_init(&hmap->newer, k_min_buckets);
    }
    h_insert(&hmap->newer, node);
    if (!hmap->older.tab && hmap->newer.size > (hmap->newer.mask + 1) * k_max_load_factor) {
        hm_start_resizing(hmap);
    }
    hm_help_resizing(hmap);
}

// Takes the node with the key out and returns it, NULL where there is none.
// Cost: O(1) on average; helps resizing.
static inline struct hnode *hm_pop(struct hmap *hmap, const struct hnode *key, hnode_eq *eq) {
    hm_help_resizing(hmap);
    struct hnode **link = h_lookup(&hmap->newer, key, eq);
    if (link) {
        return h_detach(&hmap->newer, link);
    }
    link = h_lookup(&hmap->older, key, eq);
    return link ? h_detach(&hmap->older, link) : NULL;
}

// Returns the number of nodes.
static inline size_t hm_size(const struct hmap *hmap) {
    return hmap->newer.size + hmap->older.size;
}

// Calls f(node, arg) for every node, in no particular order, until f returns false. f may free the
// node, and must not use the table otherwise. Cost: hm_scan_cost().
static inline void hm_scan(const struct hmap *hmap, bool (*f)(struct hnode *, void *), void *arg) {
    if (h_scan(&hmap->newer, f, arg)) {
        h_scan(&hmap->older, f, arg);
    }
}

// Returns how many buckets and nodes there are: hm_scan() looks at each of them. Cost: O(1).
static inline size_t hm_scan_cost(const struct hmap *hmap) {
    size_t newer = hmap->newer.tab ? hmap->newer.mask + 1 : 0;
    size_t older = hmap->older.tab ? hmap->older.mask + 1 : 0;
    return newer + older + hm_size(hmap);
}

// Frees the buckets and makes the table empty. The nodes are left to the caller.
static inline void hm_destroy(struct hmap *hmap) {
    free(hmap->newer.tab);
    free(hmap->older.tab);
    *hmap = (struct hmap){0};
}

// Tells whether `htab` is sound from bucket `first` on, and empty below. For tests.
static inline bool h_check(const struct htab *htab, size_t first) {
    if (!htab->tab) {
        return htab->size == 0 && htab->mask == 0;
    }
    size_t count = 0;
    for (size_t i = 0; i <= htab->mask; i++) {
        for (const struct hnode *node = htab->tab[i]; node; node = node->next) {
            if ((node->hcode & htab->mask) != i || i < first || ++count > htab->size) {
                return false;
            }
        }
    }
    return (htab->mask & (htab->mask + 1)) == 0 && count == htab->size;
}

// Tells whether every invariant holds. For tests. Cost: O(buckets + nodes).
static inline bool hm_check(const struct hmap *hmap) {
    bool growing = hmap->older.tab != NULL;
    if (growing && hmap->older.mask * 2 + 1 != hmap->newer.mask) {
        return false;
    }
    return h_check(&hmap->newer, 0) && h_check(&hmap->older, hmap->resizing_pos);
}
