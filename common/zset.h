// zset.h: built in chapter 11
//
// A sorted set: pairs of a score and a name, each name once. Every pair is one allocation that is
// in two structures at once:
//
//   struct znode:  [ avl_node | hnode | score | name ... ]
//                    |          |
//                    |          in a hashtable by name:       what score has K2?
//                    in a tree by (score, name):              which pairs come after 1.5?
//
// The order is by score; equal scores are ordered by the bytes of the name, a shorter name before
// a longer one that begins with it.
//
// Invariants: both structures hold the same znodes; scores are never NaN, and never -0.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "avl.h"
#include "avl_offset.h"
#include "hash.h"
#include "hashtable.h"
#include "intrusive.h"
#include "mem.h"

struct zset {
    struct avl_node *root;
    struct hmap names;
    const struct hash_key *hash_key;
};

// One pair. The length of the name is node.key_len.
struct znode {
    struct avl_node tree;
    struct hnode node;
    double score;
    uint8_t name[];
};

// What a name is looked up by.
struct zname {
    struct hnode node;
    const uint8_t *name;
};

// Makes `zset` empty. Borrows the hash key for as long as the set lives.
static inline void zset_init(struct zset *zset, const struct hash_key *hash_key) {
    *zset = (struct zset){.hash_key = hash_key};
}

// Returns the number of pairs.
static inline size_t zset_size(const struct zset *zset) {
    return avl_cnt(zset->root);
}

// Returns the pair of a tree node, NULL for NULL.
static inline struct znode *znode_of(struct avl_node *tree) {
    return tree ? container_of(tree, struct znode, tree) : NULL;
}

// Tells whether the pair of `tree` comes before (score, name).
static inline bool zless(const struct avl_node *tree, double score, const uint8_t *name,
                         size_t len) {
    const struct znode *znode = container_of(tree, struct znode, tree);
    if (znode->score != score) {
        return znode->score < score;
    }
    size_t znode_len = znode->node.key_len;
    int rv = memcmp(znode->name, name, znode_len < len ? znode_len : len);
    return rv != 0 ? rv < 0 : znode_len < len;
}

// An hnode_eq for names.
static inline bool zname_eq(const struct hnode *node, const struct hnode *key) {
    const struct znode *znode = container_of(node, struct znode, node);
    const struct zname *zname = container_of(key, struct zname, node);
    return memcmp(znode->name, zname->name, node->key_len) == 0;
}

// Returns what to look the name up by. Borrows the name. Cost: O(len).
static inline struct zname zset_key(const struct zset *zset, const uint8_t *name, size_t len) {
    return (struct zname){
        .node = {.hcode = str_hash(zset->hash_key, name, len), .key_len = (uint32_t)len},
        .name = name,
    };
}

// Returns the pair with the name, NULL where there is none; borrowed from the set.
// Cost: O(1) on average.
static inline struct znode *zset_lookup_key(struct zset *zset, const struct zname *key) {
    struct hnode **link = hm_lookup(&zset->names, &key->node, zname_eq);
    return link ? container_of(*link, struct znode, node) : NULL;
}

// Returns the pair with the name, as zset_lookup_key() does.
static inline struct znode *zset_lookup(struct zset *zset, const uint8_t *name, size_t len) {
    struct zname key = zset_key(zset, name, len);
    return zset_lookup_key(zset, &key);
}

// Puts `znode` into the tree, counting it on the way down. Cost: O(log n).
static inline void tree_add(struct zset *zset, struct znode *znode) {
    struct avl_node *parent = NULL, **link = &zset->root;
    while (*link) {
        parent = *link;
        parent->cnt++;
        bool less = zless(parent, znode->score, znode->name, znode->node.key_len);
        link = less ? &parent->right : &parent->left;
    }
    avl_link(&zset->root, parent, link, &znode->tree);
}

// Returns a pair that is in no set yet, with a copy of the name; owned by the caller: free().
static inline struct znode *znode_new(const struct zname *key, double score) {
    size_t len = key->node.key_len;
    struct znode *znode = mem_alloc(sizeof(*znode) + len);
    znode->node = key->node;
    znode->score = score + 0.0; // -0 becomes 0
    memcpy(znode->name, key->name, len);
    return znode;
}

// Gives `znode` another score. Cost: O(log n), O(1) where the score is the same.
static inline void zset_update(struct zset *zset, struct znode *znode, double score) {
    if (znode->score != score) {
        avl_del(&zset->root, &znode->tree);
        znode->score = score + 0.0;
        tree_add(zset, znode);
    }
}

// Adds (score, name), or gives the name another score. score is not NaN; the name is copied.
// Returns whether the name is new. Cost: O(log n).
static inline bool zset_add(struct zset *zset, const uint8_t *name, size_t len, double score) {
    struct zname key = zset_key(zset, name, len);
    struct znode *znode = zset_lookup_key(zset, &key);
    if (znode) {
        zset_update(zset, znode, score);
        return false;
    }
    znode = znode_new(&key, score);
    hm_insert(&zset->names, &znode->node);
    tree_add(zset, znode);
    return true;
}

// Removes `znode`, which is in the set, and frees it. Cost: O(log n).
static inline void zset_del(struct zset *zset, struct znode *znode) {
    hm_pop(&zset->names, &znode->node, hnode_same);
    avl_del(&zset->root, &znode->tree);
    free(znode);
}

// Returns the pair `offset` places after the first one that is not less than (score, name); where
// all are less, counts from the place behind the last. NULL where no pair is there. Borrowed.
// Cost: O(log n), whatever the offset.
static inline struct znode *zset_query(struct zset *zset, double score, const uint8_t *name,
                                       size_t len, int64_t offset) {
    struct avl_node *first = NULL, *last = NULL;
    for (struct avl_node *cur = zset->root; cur;) {
        if (zless(cur, score, name, len)) {
            last = cur;
            cur = cur->right;
        } else {
            first = cur;
            cur = cur->left;
        }
    }
    if (first) {
        return znode_of(avl_offset(first, offset));
    }
    return last && offset < 0 ? znode_of(avl_offset(last, offset + 1)) : NULL;
}

// Returns the pair that comes next, NULL after the last. Borrowed. Cost: O(1) on average.
static inline struct znode *znode_next(struct znode *znode) {
    return znode_of(avl_offset(&znode->tree, 1));
}

// Frees a subtree. Its depth, and so that of the recursion, is O(log n).
static inline void tree_dispose(struct avl_node *tree) {
    if (tree) {
        tree_dispose(tree->left);
        tree_dispose(tree->right);
        free(znode_of(tree));
    }
}

// Frees all pairs and makes the set empty. Cost: O(n).
static inline void zset_dispose(struct zset *zset) {
    tree_dispose(zset->root);
    hm_destroy(&zset->names);
    zset->root = NULL;
}

// Tells whether every invariant holds. For tests. Cost: O(n log n).
static inline bool zset_check(struct zset *zset) {
    if (!avl_check(NULL, zset->root) || !hm_check(&zset->names) ||
        hm_size(&zset->names) != zset_size(zset)) {
        return false;
    }
    struct avl_node *cur = zset->root;
    while (cur && cur->left) {
        cur = cur->left;
    }
    for (struct znode *znode = znode_of(cur), *prev = NULL; znode; znode = znode_next(znode)) {
        if (zset_lookup(zset, znode->name, znode->node.key_len) != znode) {
            return false;
        }
        if (prev && !zless(&prev->tree, znode->score, znode->name, znode->node.key_len)) {
            return false;
        }
        prev = znode;
    }
    return true;
}
