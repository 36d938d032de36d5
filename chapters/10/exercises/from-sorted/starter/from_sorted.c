// from_sorted.c: a tree of the numbers 1, 2, 3, ... made at once
//
//   ./from_sorted 12
//
// makes a tree of 12 numbers, and prints it level by level: behind each number stand the depth of
// its subtree and how many nodes that has.

#include <stdio.h>
#include <stdlib.h>

#include "avl_build.h"
#include "intrusive.h"
#include "mem.h"

struct item {
    struct avl_node node;
    unsigned val;
};

static void print_level(struct avl_node *node, unsigned level) {
    if (node && level > 0) {
        print_level(node->left, level - 1);
        print_level(node->right, level - 1);
    } else if (node) {
        printf("%u(%u,%u) ", container_of(node, struct item, node)->val, node->depth, node->cnt);
    }
}

int main(int argc, char **argv) {
    size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if (n < 1 || n > 1000) {
        fprintf(stderr, "usage: ./from_sorted NUMBER, from 1 to 1000\n");
        return 1;
    }
    struct item *items = mem_calloc(n, sizeof(*items));
    struct avl_node **nodes = mem_alloc(n * sizeof(struct avl_node *));
    for (size_t i = 0; i < n; i++) {
        items[i].val = (unsigned)i + 1;
        nodes[i] = &items[i].node;
    }
    struct avl_node *root = avl_build(nodes, n);
    for (unsigned level = 0; level < avl_depth(root); level++) {
        print_level(root, level);
        printf("\n");
    }
    printf("the invariants %s\n", root && avl_check(NULL, root) ? "hold" : "do not hold");
    free(nodes);
    free(items);
}
