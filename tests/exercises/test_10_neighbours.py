"""10-neighbours: the next node and the one before, by the pointers of the tree."""
from __future__ import annotations

from grading import Submission, points
from lab import TREES, passes


@points(4, "every node, both ways")
def test_every_node(work: Submission) -> None:
    """avl_next() and avl_prev() of each node, in trees of up to 300 nodes that were inserted in rising, falling and
    mixed order."""
    passes(
        work, "neighbours", TREES + r"""
static void check(unsigned n, unsigned i, const char *function, struct avl_node *came, unsigned expected) {
    if (came == (expected < n ? &g_items[expected].node : NULL)) {
        return;
    }
    if (came) {
        CAME("%s() of node %u, counted from 0, is node %ld", function, i, (long)((struct item *)came - g_items));
    } else {
        CAME("%s() of node %u, counted from 0, is NULL", function, i);
    }
    if (expected < n) {
        EXPECTED("node %u", expected);
    }
    EXPECTED("NULL: none is there");
}

int main(void) {
    for (unsigned n = 1; n <= k_most; n += n < 40 ? 1 : 13) {
        for (unsigned way = 0; way < 4; way++) {
            make(n, way);
            TRYING("a tree of %u nodes", n);
            for (unsigned i = 0; i < n; i++) {
                check(n, i, "avl_next", avl_next(&g_items[i].node), i + 1);
                check(n, i, "avl_prev", avl_prev(&g_items[i].node), i > 0 ? i - 1 : n);
            }
        }
    }
    printf("all well\n");
}
""",
        "with a child on that side, the neighbour is below it, at the far end; "
        "without one, it is above, but not always the parent",
        headers=["avl.h", "avl_neighbours.h"],
    )  # fmt: skip


@points(4, "no further than needed")
def test_no_further(work: Submission) -> None:
    """For each node of a tree, all pointers that need not be followed are made to lead to a node that is not of the
    tree."""
    passes(
        work, "astray", TREES + r"""
static struct avl_node g_astray;
static struct item g_saved[k_most];

// What has to be passed from `node` on: marks it in `passed`. side: 1 for the next, 0 for the one before.
static void mark(bool *passed, struct avl_node *node, int side) {
    passed[(struct item *)node - g_items] = true;
    struct avl_node *child = side ? node->right : node->left;
    if (child) {
        for (; child; child = side ? child->left : child->right) {
            passed[(struct item *)child - g_items] = true;
        }
        return;
    }
    while (node->parent && node == (side ? node->parent->right : node->parent->left)) {
        node = node->parent;
        passed[(struct item *)node - g_items] = true;
    }
    if (node->parent) {
        passed[(struct item *)node->parent - g_items] = true;
    }
}

// Leads each pointer to a node that need not be passed astray; counts say nothing any more.
static void lead_astray(const bool *passed, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        struct avl_node *node = &g_items[i].node, **pointers[] = {&node->parent, &node->left, &node->right};
        for (int j = 0; j < 3; j++) {
            if (*pointers[j] && !passed[(struct item *)*pointers[j] - g_items]) {
                *pointers[j] = &g_astray;
            }
        }
        node->cnt = 7;
        node->depth = 3;
    }
}

int main(void) {
    enum { k_n = 150 };
    avl_init(&g_astray);
    for (unsigned way = 0; way < 4; way++) {
        make(k_n, way);
        memcpy(g_saved, g_items, sizeof(g_items));
        for (unsigned i = 0; i < k_n; i++) {
            for (int side = 0; side < 2; side++) {
                bool passed[k_most] = {false};
                TRYING("%s() of node %u", side ? "avl_next" : "avl_prev", i);
                mark(passed, &g_items[i].node, side);
                lead_astray(passed, k_n);
                struct avl_node *came = side ? avl_next(&g_items[i].node) : avl_prev(&g_items[i].node);
                unsigned expected = side ? i + 1 : i > 0 ? i - 1 : k_n;
                if (came != (expected < k_n ? &g_items[expected].node : NULL)) {
                    CAME("it did not get there");
                    EXPECTED("the neighbour is found although nothing can be seen but the nodes on the way to it");
                }
                memcpy(g_items, g_saved, sizeof(g_items));
            }
        }
    }
    printf("all well\n");
}
""",
        "does it go up to the root, or look at counts?",
        headers=["avl.h", "avl_neighbours.h"],
    )  # fmt: skip


@points(1, "question 1")
def test_moves(work: Submission) -> None:
    """How many moves does a walk through a full tree of fifteen nodes make?"""
    work.expect_answer(
        1, 25, form="a number of moves", cause="each edge is passed twice at most. Which ones are passed once?"
    )


@points(1, "question 2")
def test_bound(work: Submission) -> None:
    """What bounds the moves of a whole walk?"""
    work.expect_answer(
        2, "b", form="a letter from a to d", cause="a tree of n nodes has n - 1 edges. How often is each one used?"
    )
