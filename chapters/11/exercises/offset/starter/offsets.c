// offsets.c: how many moves does an offset cost, at once and step by step?
//
//   ./offsets 1000
//
// makes a tree of 1000 nodes and moves by several offsets, from a hundred places each. A move is a
// step from one node of the tree to another; avl_offset() counts them in g_moves.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "avl_offset.h"
#include "mem.h"

enum {
    k_starts = 100,
    k_most = 1000000,
};

struct item {
    struct avl_node node;
    uint32_t val;
};

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static void insert(struct avl_node **root, struct item *item, uint32_t val) {
    struct avl_node *parent = NULL, **link = root;
    item->val = val;
    while (*link) {
        parent = *link;
        parent->cnt++;
        link = val < ((struct item *)parent)->val ? &parent->left : &parent->right;
    }
    avl_link(root, parent, link, &item->node);
}

// Goes `offset` places from `start`, at once or one by one. Returns how many moves that were.
static uint64_t moves(struct item *start, uint32_t offset, uint32_t one_step) {
    struct avl_node *node = &start->node;
    uint64_t before = g_moves;
    for (uint32_t gone = 0; node && gone < offset; gone += one_step) {
        node = avl_offset(node, one_step);
    }
    if (!node || ((struct item *)node)->val != start->val + offset) {
        printf("from %u by %u: the wrong node\n", start->val, offset);
        exit(1);
    }
    return g_moves - before;
}

int main(int argc, char **argv) {
    uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    if (n < 10 || n > k_most) {
        fprintf(stderr, "usage: ./offsets NODES, from 10 to %d\n", (int)k_most);
        return 1;
    }
    struct item *items = mem_calloc(n, sizeof(*items));
    struct avl_node *root = NULL;
    for (uint64_t i = 0; i < n; i++) { // each number once, in another order
        uint32_t val = (uint32_t)(n % 7919 ? i * 7919 % n : i);
        insert(&root, &items[val], val);
    }
    printf("%u nodes, %u levels\n", n, root->depth);
    printf(" offset     at once   step by step   (moves on average)\n");
    uint32_t state = 11;
    for (uint32_t offset = 1; offset < n; offset *= 10) {
        uint64_t at_once = 0, steps = 0;
        for (int i = 0; i < k_starts; i++) {
            struct item *start = &items[next_random(&state) % (n - offset)];
            at_once += moves(start, offset, offset);
            steps += moves(start, offset, 1);
        }
        printf("%7u %11.1f %14.1f\n", offset, (double)at_once / k_starts, (double)steps / k_starts);
    }
    free(items);
}
