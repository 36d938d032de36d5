// avl_show.c, chapter 10: watch the tree at work
//
//   ./avl_show 1 2 3 -2
//
// inserts 1, 2 and 3, deletes 2, and draws the tree after each step. Behind each number stand the
// depth of its subtree and how many nodes that has.

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "avl.h"
#include "intrusive.h"
#include "mem.h"

enum {
    k_max_val = 999999,
    k_max_label = 32,
};

struct item {
    struct avl_node node;
    long val;
};

static struct item *item_of(struct avl_node *node) {
    return container_of(node, struct item, node);
}

// ---- the drawing ----

//            2(2,3)         A node stands above its children. From left to right the columns are
//       .------+------.     taken in the order of the tree, so that nothing can overlap.
//    1(1,1)        3(1,1)
struct drawing {
    char *cells;
    size_t width;  // of a line
    size_t column; // the next one that is free, from left to right
};

static size_t write_label(struct avl_node *node, char *label) {
    int len =
        snprintf(label, k_max_label, "%ld(%u,%u)", item_of(node)->val, node->depth, node->cnt);
    return (size_t)len;
}

// Returns how many columns a subtree takes.
static size_t width_of(struct avl_node *node) {
    char label[k_max_label];
    return node ? width_of(node->left) + write_label(node, label) + width_of(node->right) : 0;
}

// Draws the branch from the middle of a node, column `from`, to that of a child, column `to`.
static void draw_branch(char *line, size_t from, size_t to) {
    size_t left = from < to ? from : to, right = from < to ? to : from;
    memset(line + left, '-', right - left + 1);
    line[to] = '.';
}

// Draws a subtree, its root on line `line`. Returns the column of the root's middle.
static size_t draw(struct drawing *drawing, struct avl_node *node, size_t line) {
    char label[k_max_label];
    size_t len = write_label(node, label);
    char *branches = drawing->cells + (line + 1) * drawing->width;
    size_t left = node->left ? draw(drawing, node->left, line + 2) : 0;
    memcpy(drawing->cells + line * drawing->width + drawing->column, label, len);
    size_t middle = drawing->column + len / 2;
    drawing->column += len;
    if (node->left) {
        draw_branch(branches, middle, left);
    }
    if (node->right) {
        draw_branch(branches, middle, draw(drawing, node->right, line + 2));
    }
    if (node->left || node->right) {
        branches[middle] = '+';
    }
    return middle;
}

static void show(struct avl_node *root) {
    if (!root) {
        printf("(empty)\n");
        return;
    }
    size_t lines = root->depth * 2 - 1;
    struct drawing drawing = {.width = width_of(root)};
    drawing.cells = mem_alloc((lines + 1) * drawing.width);
    memset(drawing.cells, ' ', (lines + 1) * drawing.width);
    draw(&drawing, root, 0);
    for (size_t i = 0; i < lines; i++) {
        const char *line = drawing.cells + i * drawing.width;
        size_t len = drawing.width;
        while (len > 0 && line[len - 1] == ' ') {
            len--;
        }
        printf("%.*s\n", (int)len, line);
    }
    free(drawing.cells);
}

// ---- the steps ----

static void insert_val(struct avl_node **root, long val) {
    struct avl_node *parent = NULL, **link = root;
    while (*link) {
        parent = *link;
        if (item_of(parent)->val == val) {
            printf("insert %ld: it is there already\n", val);
            return;
        }
        link = val < item_of(parent)->val ? &parent->left : &parent->right;
    }
    struct item *item = mem_alloc(sizeof(*item));
    item->val = val;
    avl_link(root, parent, link, &item->node);
    printf("insert %ld\n", val);
}

static void delete_val(struct avl_node **root, long val) {
    struct avl_node *node = *root;
    while (node && item_of(node)->val != val) {
        node = val < item_of(node)->val ? node->left : node->right;
    }
    if (!node) {
        printf("delete %ld: it is not there\n", val);
        return;
    }
    avl_del(root, node);
    free(item_of(node));
    printf("delete %ld\n", val);
}

// Reads a step: "7" is insert 7, "-7" is delete 7. Returns whether `text` is one.
static bool read_step(const char *text, bool *deleting, long *val) {
    *deleting = text[0] == '-';
    text += *deleting;
    size_t len = strlen(text);
    if (len < 1 || len > 6 || strspn(text, "0123456789") != len) {
        return false;
    }
    *val = strtol(text, NULL, 10);
    return true;
}

int main(int argc, char **argv) {
    bool deleting;
    long val;
    for (int i = 1; i < argc; i++) {
        if (!read_step(argv[i], &deleting, &val)) {
            fprintf(stderr, "%s: not a number from 0 to %d, or -NUMBER\n", argv[i], (int)k_max_val);
            return 1;
        }
    }
    if (argc < 2) {
        printf("usage: ./avl_show NUMBER... inserts each NUMBER, -NUMBER deletes it: "
               "./avl_show 1 2 3 -2\n");
    }
    struct avl_node *root = NULL;
    for (int i = 1; i < argc; i++) {
        read_step(argv[i], &deleting, &val);
        printf("%s", i > 1 ? "\n" : "");
        if (deleting) {
            delete_val(&root, val);
        } else {
            insert_val(&root, val);
        }
        show(root);
    }
    while (root) {
        struct item *item = item_of(root);
        avl_del(&root, root);
        free(item);
    }
}
