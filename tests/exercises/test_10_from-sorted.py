"""10-from-sorted: a balanced tree of nodes that are in order already, in O(n)."""
from __future__ import annotations

from grading import Submission, points
from lab import passes

HEADERS = ["avl.h", "avl_build.h"]
NODES = r"""
enum { k_most = 100000 };
struct item {
    struct avl_node node;
    unsigned val;
};
static struct item g_items[k_most + 1];
static struct avl_node *g_nodes[k_most + 1];

// n nodes full of junk, and the array of them; behind it there is nothing.
static void fill(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        memset(&g_items[i], 0xdd, sizeof(g_items[i]));
        g_items[i].val = i;
        g_nodes[i] = &g_items[i].node;
    }
    g_nodes[n] = NULL;
}

// Compares a subtree with the values from `val` on. Returns the value behind it.
static unsigned in_order(struct avl_node *node, unsigned n, unsigned val) {
    if (!node) {
        return val;
    }
    val = in_order(node->left, n, val);
    if (((struct item *)node)->val != val) {
        CAME("from left to right, node %u, counted from 0, is where node %u should be", ((struct item *)node)->val,
            val);
        EXPECTED("all %u nodes in order", n);
    }
    return in_order(node->right, n, val + 1);
}

// Looks at links, depths and counts of a subtree, as avl_check() does, but says what is wrong.
static void look_at(struct avl_node *parent, struct avl_node *node) {
    if (!node) {
        return;
    }
    unsigned val = ((struct item *)node)->val;
    struct avl_node *sides[] = {node->left, node->right};
    for (int i = 0; i < 2; i++) {
        if (sides[i] && (sides[i] < &g_items[0].node || sides[i] > &g_items[k_most].node)) {
            CAME("the %s side of node %u is no node of the array", i ? "right" : "left", val);
            EXPECTED("each field is set, whatever the node held before");
        }
        look_at(node, sides[i]);
    }
    unsigned left = avl_depth(node->left), right = avl_depth(node->right);
    if (node->parent != parent) {
        CAME("the parent of node %u is not the one that it hangs on", val);
        EXPECTED("the parent of the root is NULL, that of each other node the one above it");
    }
    if (node->depth != 1 + (left > right ? left : right) ||
        node->cnt != 1 + avl_cnt(node->left) + avl_cnt(node->right)) {
        CAME("node %u has the depth %u and the count %u, its children %u and %u, %u and %u", val, node->depth,
             node->cnt, left, right, avl_cnt(node->left), avl_cnt(node->right));
        EXPECTED("depth and count as avl_update() has them");
    }
    if (left > right + 1 || right > left + 1) {
        CAME("the sides of node %u are %u and %u levels deep", val, left, right);
        EXPECTED("they differ by 1 at most");
    }
}
"""

STEPS = """\
@@ avl.h, rot_left()
 static inline struct avl_node *rot_left(struct avl_node *node) {
+    g_rotations++;

@@ avl.h, rot_right()
 static inline struct avl_node *rot_right(struct avl_node *node) {
+    g_rotations++;

@@ avl.h
 #include <stdint.h>

+static unsigned long g_rotations;
"""


@points(5, "every size")
def test_every_size(work: Submission) -> None:
    """Trees of 0 to 300 nodes that were full of junk: order, links, depths, counts, and as few levels as can be."""
    passes(
        work, "sizes", NODES + r"""
int main(void) {
    unsigned fewest = 0;
    for (unsigned n = 0; n <= 300; n++) {
        TRYING("%u nodes", n);
        fewest += (n & (n - 1)) == 0 && n > 0; // one level more from each power of 2 on
        fill(n);
        struct avl_node *root = avl_build(g_nodes, n);
        if (!root != (n == 0)) {
            CAME("the root is %s", root ? "not NULL" : "NULL");
            EXPECTED("NULL for no nodes, and only then");
        }
        look_at(NULL, root);
        unsigned found = in_order(root, n, 0);
        if (found != n) {
            CAME("%u nodes are in the tree", found);
            EXPECTED("%u", n);
        }
        if (avl_depth(root) != fewest) {
            CAME("the tree is %u levels deep", avl_depth(root));
            EXPECTED("%u, the least that is possible", fewest);
        }
    }
    printf("all well\n");
}
""",
        headers=HEADERS,
    )  # fmt: skip


@points(3, "the work")
def test_work(work: Submission) -> None:
    """A tree of a hundred thousand nodes. How many rotations, allocations and calls of functions, inline ones too?"""
    with work.count("malloc") as counted:
        passes(
            work, "work", r"""
#define HIDDEN __attribute__((no_instrument_function))
static unsigned long g_entered;
HIDDEN void __cyg_profile_func_enter(void *function, void *caller);
HIDDEN void __cyg_profile_func_exit(void *function, void *caller);
void __cyg_profile_func_enter(void *function, void *caller) {
    (void)function, (void)caller;
    g_entered++;
}
void __cyg_profile_func_exit(void *function, void *caller) {
    (void)function, (void)caller;
}
""" + NODES + r"""
int main(void) {
    fill(k_most);
    TRYING("%d nodes", k_most);
    unsigned long before = g_entered;
    struct avl_node *root = avl_build(g_nodes, k_most);
    unsigned long entered = g_entered - before;
    if (g_rotations > 0) {
        CAME("%lu rotations", g_rotations);
        EXPECTED("none: where each node belongs is known before");
    }
    if (entered > 20ul * k_most) {
        CAME("%lu calls of functions, %lu a node", entered, entered / k_most);
        EXPECTED("a number that does not depend on how many nodes there are, say 10 a node");
    }
    if (avl_cnt(root) != k_most || in_order(root, k_most, 0) != k_most) {
        CAME("not all nodes are in the tree");
        EXPECTED("%d", k_most);
    }
    printf("all well\n");
}
""",
            "is each node inserted from the root on, or walked to again and again?",
            headers=HEADERS, change=STEPS, flags=["-finstrument-functions"],
        )  # fmt: skip
    work.expect(
        counted["malloc"] <= 3,
        came=f"{counted['malloc']} allocations for a tree of a hundred thousand nodes",
        expected="none: the nodes are there, and the array too",
    )


@points(2, "the tree afterwards")
def test_afterwards(work: Submission) -> None:
    """A tree is built, its array is overwritten, every third node is taken out, and each of these is added again."""
    passes(
        work, "afterwards", NODES + r"""
int main(void) {
    for (unsigned n = 1; n < 400; n += 7) {
        TRYING("%u nodes", n);
        fill(n);
        struct avl_node *root = avl_build(g_nodes, n);
        memset(g_nodes, 0, sizeof(g_nodes));
        if (avl_cnt(root) != n) {
            CAME("the root counts %u nodes", avl_cnt(root));
            EXPECTED("%u", n);
        }
        for (unsigned i = 0; i < n; i += 3) {
            avl_del(&root, &g_items[i].node);
            look_at(NULL, root);
        }
        for (unsigned i = 0; i < n; i += 3) {
            struct avl_node *parent = NULL, **link = &root;
            while (*link) {
                parent = *link;
                link = i < ((struct item *)parent)->val ? &parent->left : &parent->right;
            }
            avl_link(&root, parent, link, &g_items[i].node);
            look_at(NULL, root);
        }
        if (in_order(root, n, 0) != n) {
            CAME("not all nodes are in the tree");
            EXPECTED("%u", n);
        }
    }
    printf("all well\n");
}
""",
        "removals go up by the parent pointers, and stop where depth and count are as before",
        headers=HEADERS,
    )  # fmt: skip
