// avl_offset.h: built in chapter 11
//
// Moving by rank. The counts say how many nodes a subtree holds, so a walk from one node to another
// `offset` places away goes up only until the target is below, and then straight down.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "avl.h"

// Returns the node that comes `offset` places after `node` in the order of the tree, before it
// where offset is negative; NULL where the tree ends before that. Any offset is safe.
// Cost: O(log n), however far.
static inline struct avl_node *avl_offset(struct avl_node *node, int64_t offset) {
    if (offset > UINT32_MAX || offset < -(int64_t)UINT32_MAX) {
        return NULL; // no tree is that large, and the sums below cannot overflow
    }
    int64_t pos = 0; // of node, seen from where we began
    while (pos != offset) {
        if (pos < offset && offset - pos <= avl_cnt(node->right)) {
            node = node->right;
            pos += (int64_t)avl_cnt(node->left) + 1;
        } else if (pos > offset && pos - offset <= avl_cnt(node->left)) {
            node = node->left;
            pos -= (int64_t)avl_cnt(node->right) + 1;
        } else {
            struct avl_node *parent = node->parent;
            if (!parent) {
                return NULL;
            }
            if (parent->right == node) {
                pos -= (int64_t)avl_cnt(node->left) + 1;
            } else {
                pos += (int64_t)avl_cnt(node->right) + 1;
            }
            node = parent;
        }
    }
    return node;
}
