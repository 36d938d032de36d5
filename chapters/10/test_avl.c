// test_avl.c, chapter 10: does the tree do what avl.h says?
//
// The tree is compared with a plain model, a sorted array, after every step: the same values in the
// same order, and every invariant holds. A node that was taken out is filled with junk, so that a
// pointer to it that was left behind shows. Prints a line for each part; where something is wrong,
// the place in this file and what it is, with exit status 1.

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "avl.h"
#include "intrusive.h"
#include "mem.h"

enum {
    k_sizes = 200,    // every size up to this one
    k_shapes = 9,     // every shape of a tree of up to so many nodes
    k_items = 400,    // the most that a model holds
    k_rounds = 60000, // steps of a random run
    k_many = 200000,  // nodes of the largest tree
};

// ---- what is wrong, and where ----

// What we are trying, for the message.
static struct {
    const char *what;
    unsigned n;   // nodes in the tree
    unsigned pos; // the place where one is added or taken out
} g_trying;

#define CHECK(cond) ((cond) ? (void)0 : wrong(__LINE__, #cond))

static void wrong(int line, const char *cond) {
    printf("test_avl.c:%d: this does not hold: %s\n", line, cond);
    if (g_trying.what) {
        printf("  %s; nodes: %u; place: %u\n", g_trying.what, g_trying.n, g_trying.pos);
    }
    exit(1);
}

static void trying(const char *what, unsigned n, unsigned pos) {
    g_trying.what = what;
    g_trying.n = n;
    g_trying.pos = pos;
}

// ---- a tree and its model ----

// The payload.
struct item {
    struct avl_node node;
    uint32_t val;
};

// Two ways to add a node: the walk may count it at every step down, or leave that to avl_link().
enum adding {
    COUNTED,
    NOT_COUNTED,
};

struct both {
    struct avl_node *root;
    unsigned n;
    uint32_t vals[k_items];      // the model: the values in order
    struct item *items[k_items]; // all there are; the first n are in the tree, in any order
    struct item store[k_items];
};

static struct item *item_of(struct avl_node *node) {
    return container_of(node, struct item, node);
}

// Puts an item into a tree, behind those of the same value.
static void tree_add(struct avl_node **root, struct item *item, enum adding adding) {
    struct avl_node *parent = NULL, **link = root;
    while (*link) {
        parent = *link;
        parent->cnt += adding == COUNTED;
        link = item->val < item_of(parent)->val ? &parent->left : &parent->right;
    }
    avl_link(root, parent, link, &item->node);
}

static void clear(struct both *both) {
    both->root = NULL;
    both->n = 0;
}

// Adds a value to the model.
static void model_add(struct both *both, uint32_t val) {
    unsigned pos = both->n;
    while (pos > 0 && both->vals[pos - 1] > val) {
        both->vals[pos] = both->vals[pos - 1];
        pos--;
    }
    both->vals[pos] = val;
    both->n++;
}

// Adds a value to both.
static void add(struct both *both, uint32_t val, enum adding adding) {
    CHECK(both->n < k_items);
    struct item *item = both->items[both->n];
    item->val = val;
    tree_add(&both->root, item, adding);
    model_add(both, val);
}

// Takes item number `i` out of both. The last item takes its number.
static void take_out(struct both *both, unsigned i) {
    struct item *item = both->items[i];
    avl_del(&both->root, &item->node);
    unsigned pos = 0;
    while (both->vals[pos] != item->val) {
        pos++;
    }
    both->n--;
    memmove(&both->vals[pos], &both->vals[pos + 1], (both->n - pos) * sizeof(both->vals[0]));
    both->items[i] = both->items[both->n];
    both->items[both->n] = item;
    memset(item, 0xdd, sizeof(*item));
}

// Compares a subtree with the model from position `pos` on. Returns the position behind it.
static unsigned compare(const struct both *both, struct avl_node *node, unsigned pos) {
    if (!node) {
        return pos;
    }
    pos = compare(both, node->left, pos);
    CHECK(pos < both->n);
    CHECK(item_of(node)->val == both->vals[pos]);
    return compare(both, node->right, pos + 1);
}

static void check(const struct both *both) {
    CHECK(avl_check(NULL, both->root));
    CHECK(avl_cnt(both->root) == both->n);
    CHECK(compare(both, both->root, 0) == both->n);
}

// ---- avl_check() ----

// What damage there is. Each is one that a broken tree of ours would have.
static void damage(struct both *both, int kind) {
    struct avl_node *root = both->root, *left = root->left;
    switch (kind) {
    case 0:
        root->depth++;
        break;
    case 1:
        root->cnt--;
        break;
    case 2:
        root->parent = left;
        break;
    case 3:
        left->parent = NULL;
        break;
    case 4:
        left->left->parent = root;
        break;
    case 5:
        left->right->cnt = 0;
        break;
    case 6: // a leaf is lost
        left->left = NULL;
        break;
    case 7: // the right side is lost, and everything is counted anew
        root->right = NULL;
        avl_update(root);
        break;
    }
}

// The tree of seven nodes is full. First of all, avl_check() has to see what is wrong.
static void test_check(struct both *both) {
    int kinds = 8;
    for (int kind = -1; kind < kinds; kind++) {
        trying("damage", 7, (unsigned)kind);
        clear(both);
        for (uint32_t val = 0; val < 7; val++) {
            add(both, val, NOT_COUNTED);
        }
        CHECK(avl_check(NULL, both->root));
        if (kind >= 0) {
            damage(both, kind);
            CHECK(!avl_check(NULL, both->root));
        }
    }
    CHECK(avl_check(NULL, NULL));
    printf("check: sees %d kinds of damage\n", kinds);
}

// ---- every size ----

// A tree of n values, 1 3 5 ..., which leaves room for one more at every place.
static void fill(struct both *both, unsigned n, enum adding adding) {
    clear(both);
    for (unsigned i = 0; i < n; i++) {
        add(both, 2 * i + 1, adding);
    }
}

static void test_every_size(struct both *both) {
    unsigned steps = 0;
    for (unsigned n = 0; n <= k_sizes; n++) {
        trying("growing", n, n);
        fill(both, n, n % 2 ? COUNTED : NOT_COUNTED);
        check(both);
        for (unsigned pos = 0; pos <= n; pos++) {
            trying("adding to every size", n, pos);
            fill(both, n, COUNTED);
            add(both, 2 * pos, pos % 2 ? COUNTED : NOT_COUNTED);
            check(both);
            steps++;
        }
        for (unsigned pos = 0; pos < n; pos++) {
            trying("taking from every size", n, pos);
            fill(both, n, COUNTED);
            take_out(both, pos);
            check(both);
            steps++;
        }
    }
    printf("sizes: up to %d, %u insertions and removals at every position\n", (int)k_sizes, steps);
}

// ---- every shape ----

// A shape is a list of choices, one for each node from the root down, left before right: how many
// nodes are on its left side? Counting through the lists goes through all shapes.
struct shape {
    unsigned choice[k_shapes];
    unsigned options[k_shapes];
    unsigned n; // choices so far
};

// Hangs `n` items, from `items` on, below `parent` as the shape has it. Returns their root.
static struct avl_node *build(struct shape *shape, struct item **items, unsigned n,
                              struct avl_node *parent) {
    if (n == 0) {
        return NULL;
    }
    unsigned i = shape->n++;
    shape->options[i] = n;
    unsigned left = shape->choice[i];
    struct avl_node *root = &items[left]->node;
    root->parent = parent;
    root->left = build(shape, items, left, root);
    root->right = build(shape, items + left + 1, n - left - 1, root);
    avl_update(root);
    return root;
}

static void build_both(struct both *both, struct shape *shape, unsigned n) {
    shape->n = 0;
    both->n = n;
    for (unsigned i = 0; i < n; i++) {
        both->vals[i] = both->items[i]->val = 2 * i + 1;
    }
    both->root = build(shape, both->items, n, NULL);
}

// Goes on to the next shape. Returns whether there is one. The choices behind the one that changes
// begin anew.
static bool next_shape(struct shape *shape) {
    for (unsigned i = shape->n; i-- > 0;) {
        if (shape->choice[i] + 1 < shape->options[i]) {
            shape->choice[i]++;
            memset(&shape->choice[i + 1], 0, (k_shapes - i - 1) * sizeof(shape->choice[0]));
            return true;
        }
    }
    return false;
}

// Adds at every place of a shape, and takes every node out.
static void try_shape(struct both *both, struct shape *shape, unsigned n) {
    for (unsigned pos = 0; pos <= n; pos++) {
        for (enum adding adding = COUNTED; adding <= NOT_COUNTED; adding++) {
            trying("adding to every shape", n, pos);
            build_both(both, shape, n);
            add(both, 2 * pos, adding);
            check(both);
        }
    }
    for (unsigned pos = 0; pos < n; pos++) {
        trying("taking from every shape", n, pos);
        build_both(both, shape, n);
        take_out(both, pos);
        check(both);
    }
}

static void test_every_shape(struct both *both) {
    // How many shapes of n nodes are balanced: known to the Encyclopedia of Integer Sequences as
    // A006265. So avl_check() takes neither too many nor too few.
    static const unsigned balanced[k_shapes + 1] = {1, 1, 2, 1, 4, 6, 4, 17, 32, 44};
    unsigned sum = 0;
    for (unsigned n = 0; n <= k_shapes; n++) {
        struct shape shape = {0};
        unsigned found = 0;
        do {
            build_both(both, &shape, n);
            if (avl_check(NULL, both->root)) {
                try_shape(both, &shape, n);
                found++;
            }
        } while (next_shape(&shape));
        trying("every shape", n, found);
        CHECK(found == balanced[n]);
        sum += found;
    }
    printf("shapes: all %u of up to %d nodes, insertion and removal at every position\n",
           sum,
           (int)k_shapes);
}

// ---- random runs ----

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

// Grows and shrinks by turns. One half of the run has many equal values.
static void test_random(struct both *both) {
    uint32_t state = 10;
    clear(both);
    for (unsigned round = 0; round < k_rounds; round++) {
        bool growing = round / 3000 % 2 == 0;
        uint32_t vals = round < k_rounds / 2 ? 50 : 1000000;
        bool adding = next_random(&state) % 16 < (growing ? 10 : 6);
        trying("random", both->n, round);
        if (both->n == 0 || (adding && both->n < k_items)) {
            add(both, next_random(&state) % vals, round % 2 ? COUNTED : NOT_COUNTED);
        } else {
            take_out(both, next_random(&state) % both->n);
        }
        check(both);
    }
    printf("random: %d steps\n", (int)k_rounds);
}

// ---- many ----

// Returns how few nodes a tree of this depth can have.
static uint32_t fewest(uint32_t depth) {
    return depth == 0 ? 0 : depth == 1 ? 1 : 1 + fewest(depth - 1) + fewest(depth - 2);
}

// A value for the i-th node: rising, falling, from both ends inwards, in any order.
static uint32_t many_val(int order, uint32_t i) {
    switch (order) {
    case 0:
        return i;
    case 1:
        return k_many - 1 - i;
    case 2:
        return i % 2 ? k_many - 1 - i / 2 : i / 2;
    default:
        return i * 7919 % k_many; // 7919 is a prime that does not divide k_many
    }
}

static void try_many(struct item *items, int order) {
    struct avl_node *root = NULL;
    for (uint32_t i = 0; i < k_many; i++) {
        items[i].val = many_val(order, i);
        tree_add(&root, &items[i], COUNTED);
    }
    trying("many", k_many, (unsigned)order);
    CHECK(avl_cnt(root) == k_many && avl_check(NULL, root));
    CHECK(fewest(root->depth) <= k_many);
    for (uint32_t i = 0; i < k_many / 2; i++) {
        avl_del(&root, root); // the root has two children for long
    }
    CHECK(avl_cnt(root) == k_many / 2 && avl_check(NULL, root));
    CHECK(fewest(root->depth) <= k_many / 2);
    for (uint32_t before = 0; root;) {
        struct avl_node *least = root;
        while (least->left) {
            least = least->left;
        }
        CHECK(item_of(least)->val >= before);
        before = item_of(least)->val;
        avl_del(&root, least);
    }
}

static void test_many(void) {
    int orders = 4;
    struct item *items = mem_calloc(k_many, sizeof(*items));
    for (int order = 0; order < orders; order++) {
        try_many(items, order);
    }
    free(items);
    printf("many: %d nodes in %d orders, half of them taken from the top, half from the left\n",
           (int)k_many,
           orders);
}

int main(void) {
    struct both *both = mem_calloc(1, sizeof(*both));
    for (unsigned i = 0; i < k_items; i++) {
        both->items[i] = &both->store[i];
    }
    test_check(both);
    test_every_size(both);
    test_every_shape(both);
    test_random(both);
    test_many();
    free(both);
    printf("all tests passed\n");
}
