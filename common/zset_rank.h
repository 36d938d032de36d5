// zset_rank.h: built in chapter 20
//
// Places in a sorted set, counted from 0. A range of scores is a range of places: from the number
// of pairs below it to the number of pairs not above it. So it is counted, entered in the middle
// and walked backwards without a look at what lies before.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "avl.h"
#include "avl_offset.h"
#include "zset.h"

// Returns how many pairs come before `znode`, which is in the set. Cost: O(log n).
static inline size_t zset_rank(const struct znode *znode) {
    const struct avl_node *node = &znode->tree;
    size_t rank = avl_cnt(node->left);
    for (; node->parent; node = node->parent) {
        if (node->parent->right == node) {
            rank += avl_cnt(node->parent->left) + 1;
        }
    }
    return rank;
}

// Returns the pair that `rank` others come before, NULL where there are no more. Borrowed.
// Cost: O(log n).
static inline struct znode *zset_at(const struct zset *zset, size_t rank) {
    struct avl_node *node = zset->root;
    while (node && rank != avl_cnt(node->left)) {
        if (rank < avl_cnt(node->left)) {
            node = node->left;
        } else {
            rank -= avl_cnt(node->left) + 1;
            node = node->right;
        }
    }
    return znode_of(node);
}

// Returns how many pairs have a score below `score`, or, with `equal`, not above it.
// Cost: O(log n).
static inline size_t zset_count_below(const struct zset *zset, double score, bool equal) {
    size_t count = 0;
    for (const struct avl_node *node = zset->root; node;) {
        double cur = container_of(node, struct znode, tree)->score;
        if (cur < score || (equal && cur == score)) {
            count += avl_cnt(node->left) + 1;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    return count;
}

// Returns the pair that comes before `znode`, NULL before the first. Borrowed. Cost: O(1) on
// average.
static inline struct znode *znode_prev(struct znode *znode) {
    return znode_of(avl_offset(&znode->tree, -1));
}
