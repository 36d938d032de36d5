// walk.c: a walk through a tree and back
//
//   ./walk 5 1 4 2 3
//
// inserts the numbers, then prints them from the smallest to the largest and from the largest to
// the smallest.

#include <stdio.h>
#include <stdlib.h>

#include "avl_neighbours.h"
#include "intrusive.h"
#include "mem.h"

struct item {
    struct avl_node node;
    long val;
};

static struct item *item_of(struct avl_node *node) {
    return container_of(node, struct item, node);
}

static void insert_val(struct avl_node **root, long val) {
    struct avl_node *parent = NULL, **link = root;
    while (*link) {
        parent = *link;
        link = val < item_of(parent)->val ? &parent->left : &parent->right;
    }
    struct item *item = mem_alloc(sizeof(*item));
    item->val = val;
    avl_link(root, parent, link, &item->node);
}

int main(int argc, char **argv) {
    struct avl_node *root = NULL;
    for (int i = 1; i < argc; i++) {
        insert_val(&root, strtol(argv[i], NULL, 10));
    }
    struct avl_node *first = root, *last = root;
    while (first && first->left) {
        first = first->left;
    }
    while (last && last->right) {
        last = last->right;
    }
    for (struct avl_node *node = first; node; node = avl_next(node)) {
        printf("%ld ", item_of(node)->val);
    }
    printf("\n");
    for (struct avl_node *node = last; node; node = avl_prev(node)) {
        printf("%ld ", item_of(node)->val);
    }
    printf("\n");
    while (root) {
        struct item *item = item_of(root);
        avl_del(&root, root);
        free(item);
    }
}
