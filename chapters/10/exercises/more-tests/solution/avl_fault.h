// avl.h: built in chapter 10
//
// A balanced binary tree. Nodes are embedded in the payload, and the order is the user's: the user
// walks down from the root, comparing payloads, and links a new node where the walk ends.
//
//            d                 depth: levels of the subtree, here 3
//          /   \               cnt:   nodes of the subtree, here 5
//         b     e
//        / \                   Invariant: the depths of the two children of a node differ by at
//       a   c                  most 1. So a tree of n nodes is at most 1.44 log2(n) levels deep.
//
// The tree of Adelson-Velsky and Landis, 1962. Subtree counts are not theirs; they make ranks and
// offsets cheap. The tree is a pointer to its root, NULL when empty; it neither allocates nor frees.
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct avl_node {
    struct avl_node *parent;
    struct avl_node *left;
    struct avl_node *right;
    uint16_t depth;
    uint16_t cnt;
};

// Makes `node` a tree of its own.
static inline void avl_init(struct avl_node *node) {
    *node = (struct avl_node){.depth = 1, .cnt = 1};
}

// Returns the depth of a subtree, 0 for none.
static inline uint32_t avl_depth(const struct avl_node *node) {
    return node ? node->depth : 0;
}

// Returns the number of nodes in a subtree, 0 for none.
static inline uint32_t avl_cnt(const struct avl_node *node) {
    return node ? node->cnt : 0;
}

// Computes depth and cnt of `node` from its children.
static inline void avl_update(struct avl_node *node) {
    uint32_t left = avl_depth(node->left), right = avl_depth(node->right);
    node->depth = 1 + (left > right ? left : right);
    node->cnt = 1 + avl_cnt(node->left) + avl_cnt(node->right);
}

// Lifts the right child above `node`. Returns it; the caller hangs it where node was.
//
//     node               new
//     /  \              /   \.
//    a   new    ->    node   c
//       /   \         /  \.
//   inner    c       a  inner
static inline struct avl_node *rot_left(struct avl_node *node) {
    struct avl_node *new = node->right, *inner = new->left;
    node->right = inner;
    if (inner) {
        inner->parent = node;
    }
    new->parent = node->parent;
    new->left = node;
    node->parent = new;
    avl_update(node);
    avl_update(new);
    return new;
}

// Lifts the left child above `node`: the mirror image of rot_left().
static inline struct avl_node *rot_right(struct avl_node *node) {
    struct avl_node *new = node->left, *inner = new->right;
    node->left = inner;
    if (inner) {
        inner->parent = node;
    }
    new->parent = node->parent;
    new->right = node;
    node->parent = new;
    avl_update(node);
    avl_update(new);
    return new;
}

// Mends `node`, whose left side is too deep by one. Returns the root of the mended subtree.
static inline struct avl_node *avl_fix_left(struct avl_node *node) {
    if (avl_depth(node->left->left) < avl_depth(node->left->right)) {
        node->left = rot_left(node->left);
    }
    return rot_right(node);
}

// Mends `node`, whose right side is too deep by one: the mirror image of avl_fix_left().
static inline struct avl_node *avl_fix_right(struct avl_node *node) {
    if (avl_depth(node->right->right) < avl_depth(node->right->left)) {
        node->right = rot_right(node->right);
    }
    return rot_left(node);
}

// Restores every invariant from `node` upwards after one of its children has changed; node may be
// NULL. Stops where a subtree has come out as deep and as large as it was before: nothing above it
// can tell the difference. Cost: O(log n).
static inline void avl_fix(struct avl_node **root, struct avl_node *node) {
    while (node) {
        struct avl_node *parent = node->parent;
        struct avl_node **link = root;
        if (parent) {
            link = parent->left == node ? &parent->left : &parent->right;
        }
        uint32_t old_depth = node->depth, old_cnt = node->cnt;
        avl_update(node);
        uint32_t left = avl_depth(node->left), right = avl_depth(node->right);
        if (left == right + 2) {
            *link = avl_fix_left(node);
        } else if (left + 2 == right) {
            *link = avl_fix_right(node);
        }
        if ((*link)->depth == old_depth && (*link)->cnt == old_cnt) {
            return;
        }
        node = parent;
    }
}

// Adds `node` below `parent`, at the child pointer `link` where the user's walk ended; in an empty
// tree these are NULL and root. The tree borrows the node until avl_del(). Cost: O(log n), and O(1)
// on average where the walk has already counted the node: parent->cnt++ at every step down.
static inline void avl_link(struct avl_node **root, struct avl_node *parent, struct avl_node **link,
                            struct avl_node *node) {
    avl_init(node);
    node->parent = parent;
    *link = node;
    avl_fix(root, parent);
}

// Takes out `node`, which has at most one child: the child takes its place.
static inline void avl_del_easy(struct avl_node **root, struct avl_node *node) {
    struct avl_node *parent = node->parent;
    struct avl_node *child = node->left ? node->left : node->right;
    if (child) {
        child->parent = parent;
    }
    if (!parent) {
        *root = child;
    } else if (parent->left == node) {
        parent->left = child;
    } else {
        parent->right = child;
    }
    avl_fix(root, parent);
}

// Takes `node` out of its tree; the caller owns it again. A node with two children changes places
// with the next larger one, which has no left child. Cost: O(log n).
static inline void avl_del(struct avl_node **root, struct avl_node *node) {
    if (!node->left || !node->right) {
        avl_del_easy(root, node);
        return;
    }
    struct avl_node *next = node->right;
    while (next->left) {
        next = next->left;
    }
    avl_del_easy(root, next);
    *next = *node;
    if (next->left) {
        next->left->parent = next;
    }
    if (next->right) {
        next->right->parent = next;
    }
    if (!next->parent) {
        *root = next;
    } else if (next->parent->left == node) {
        next->parent->left = next;
    } else {
        next->parent->right = next;
    }
}

// Tells whether the subtree of `node` below `parent` holds every invariant but the order, which is
// the user's. For tests. Cost: O(n).
static inline bool avl_check(const struct avl_node *parent, const struct avl_node *node) {
    if (!node) {
        return true;
    }
    uint32_t left = avl_depth(node->left), right = avl_depth(node->right);
    return node->parent == parent && avl_check(node, node->left) && avl_check(node, node->right) &&
           node->depth == 1 + (left > right ? left : right) && left <= right + 1 &&
           right <= left + 1 && node->cnt == 1 + avl_cnt(node->left) + avl_cnt(node->right);
}
