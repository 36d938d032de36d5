"""10-leaner: nodes know which side is deeper, and no depths; insertions and removals keep that right."""
from __future__ import annotations

import re

from grading import Submission, points
from harness.process import status_text
from lab import passes

FIELDS = ["balance", "cnt", "left", "parent", "right"]
TREE = r"""
enum { k_items = 100000 };
struct item {
    struct avl_node node;
    unsigned val;
};
static struct item g_items[k_items];
static struct avl_node *g_root;
static const char *g_step;
static unsigned g_step_n, g_step_val;

static unsigned val_of(const struct avl_node *node) {
    return ((const struct item *)node)->val;
}

// counted: the walk counts the node at every step down, as that of zset.h does.
static void insert(unsigned val, bool counted) {
    struct avl_node *parent = NULL, **link = &g_root;
    struct item *item = &g_items[val];
    memset(item, 0xdd, sizeof(*item));
    item->val = val;
    while (*link) {
        parent = *link;
        parent->cnt += counted;
        link = val < val_of(parent) ? &parent->left : &parent->right;
    }
    avl_link(&g_root, parent, link, &item->node);
}

static void where(void) {
    printf("trying: %s %u, in a tree of %u nodes\n", g_step, g_step_val, g_step_n);
}

// Looks at all that a subtree must hold. Returns its depth.
static int look_at(const struct avl_node *parent, const struct avl_node *node, long *before) {
    if (!node) {
        return 0;
    }
    if (node < &g_items[0].node || node > &g_items[k_items - 1].node || val_of(node) >= k_items) {
        where();
        CAME("a pointer leads to a node that is not in the tree any more, or to none");
        EXPECTED("each pointer leads to a node of the tree, or is NULL");
    }
    int left = look_at(node, node->left, before);
    if ((long)val_of(node) <= *before) {
        where();
        CAME("%u comes behind %ld", val_of(node), *before);
        EXPECTED("all in order, each once");
    }
    *before = val_of(node);
    int right = look_at(node, node->right, before);
    if (node->parent != parent) {
        where();
        CAME("%u has another parent than the node that it hangs on", val_of(node));
        EXPECTED("that one; NULL for the root");
    }
    if (right - left > 1 || left - right > 1) {
        where();
        CAME("the sides of %u are %d and %d levels deep", val_of(node), left, right);
        EXPECTED("they differ by 1 at most");
    }
    if (node->balance != right - left) {
        where();
        CAME("the balance of %u is %d, and its sides are %d and %d levels deep", val_of(node), node->balance, left,
            right);
        EXPECTED("a balance of %d", right - left);
    }
    if (node->cnt != 1 + avl_cnt(node->left) + avl_cnt(node->right)) {
        where();
        CAME("the count of %u is %u, those of its sides are %u and %u", val_of(node), node->cnt,
             avl_cnt(node->left), avl_cnt(node->right));
        EXPECTED("a count of %u", 1 + avl_cnt(node->left) + avl_cnt(node->right));
    }
    return 1 + (left > right ? left : right);
}

static void look(const char *step, unsigned val, unsigned n) {
    g_step = step;
    g_step_val = val;
    g_step_n = n;
    long before = -1;
    look_at(NULL, g_root, &before);
    if (avl_cnt(g_root) != n) {
        where();
        CAME("%u nodes are in the tree", avl_cnt(g_root));
        EXPECTED("%u", n);
    }
}

// A tree of n nodes, with the values 1, 3, 5 ... inserted in one of several orders.
static void fill(unsigned n, unsigned way) {
    static const unsigned factors[] = {1, 7, 37};
    g_root = NULL;
    for (unsigned i = 0; i < n; i++) {
        unsigned at = way == 0 ? n - 1 - i : i * factors[way - 1] % n;
        insert(2 * at + 1, i % 2);
        look("inserting", 2 * at + 1, i + 1);
    }
}

static bool right_way(unsigned n, unsigned way) {
    return way < 2 || n % (way == 2 ? 7 : 37) != 0;
}

static unsigned next_random(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}
"""


@points(1, "the fields of a node")
def test_fields(work: Submission) -> None:
    """The fields of struct avl_node."""
    struct = re.search(r"struct\s+avl_node\s*\{([^}]*)\}", work.code("avl.h"))
    found = sorted(re.findall(r"(\w+)\s*(?:\[[^]]*\]\s*)?(?::\s*\w+\s*)?(?=[;,])", struct[1])) if struct else []
    work.expect(
        found == FIELDS,
        came=", ".join(found) or "none found",
        expected=", ".join(FIELDS),
        cause="the balance comes instead of the depth, not beside it",
    )


@points(4, "insertions")
def test_insertions(work: Submission) -> None:
    """Insertions at every place of trees of up to 60 nodes that came about in several ways, each looked at in full."""
    passes(
        work, "insertions", TREE + r"""
int main(void) {
    for (unsigned n = 0; n <= 60; n++) {
        for (unsigned way = 0; way < 4; way++) {
            for (unsigned at = 0; right_way(n, way) && at <= n; at += n < 20 ? 1 : 7) {
                fill(n, way);
                insert(2 * at, at % 2);
                look("inserting", 2 * at, n + 1);
            }
        }
    }
    unsigned state = 10, n = 0;
    g_root = NULL;
    memset(g_items, 0, sizeof(g_items));
    for (unsigned i = 0; i < 1500; i++) {
        unsigned val = 1 + next_random(&state) % 5000;
        if (g_items[val].val != val) {
            insert(val, i % 3);
            look("inserting", val, ++n);
        }
    }
    printf("all well\n");
}
""",
        "after an insertion, which balances change, and how far up? "
        "In a double rotation, where do the two inner sides go?",
        headers=["avl.h"],
    )  # fmt: skip


@points(4, "removals")
def test_removals(work: Submission) -> None:
    """Each node of trees of up to 60 nodes is taken out; large trees are emptied in any order."""
    passes(
        work, "removals", TREE + r"""
int main(void) {
    for (unsigned n = 1; n <= 60; n++) {
        for (unsigned way = 0; way < 4; way++) {
            for (unsigned at = 0; right_way(n, way) && at < n; at += n < 20 ? 1 : 5) {
                fill(n, way);
                avl_del(&g_root, &g_items[2 * at + 1].node);
                memset(&g_items[2 * at + 1], 0xdd, sizeof(g_items[0]));
                look("taking out", 2 * at + 1, n - 1);
            }
        }
    }
    unsigned state = 10;
    for (unsigned turn = 0; turn < 20; turn++) {
        unsigned n = 151;
        fill(n, turn % 4);
        for (unsigned left = n; left > 0; left--) {
            unsigned skip = next_random(&state) % left, val = 1;
            for (;; val += 2) { // the one at the place `skip` of those that are left
                if (g_items[val].val == val && skip-- == 0) {
                    break;
                }
            }
            avl_del(&g_root, &g_items[val].node);
            memset(&g_items[val], 0xdd, sizeof(g_items[0]));
            look("taking out", val, left - 1);
        }
    }
    printf("all well\n");
}
""",
        "when is a subtree less deep after a removal? Not each rotation makes it so. And who tells the counts above?",
        headers=["avl.h"],
    )  # fmt: skip


@points(2, "avl_check")
def test_check(work: Submission) -> None:
    """avl_check() is given trees that are right, and trees in which one thing is wrong."""
    passes(
        work, "checked", TREE + r"""
static void verdict(const char *what, bool right) {
    if (avl_check(NULL, g_root) != right) {
        CAME("avl_check() says that %s is %s", what, right ? "wrong" : "right");
        EXPECTED("it is %s", right ? "right" : "wrong");
    }
}

int main(void) {
    g_root = NULL;
    verdict("a tree of no nodes", true);
    for (unsigned n = 1; n < 60; n++) {
        fill(n, n % 2);
        verdict("a tree that was built by insertions", true);
    }
    for (int kind = 0; kind < 8; kind++) {
        fill(12, 1);
        struct avl_node *root = g_root, *node = root->left;
        switch (kind) {
        case 0:
            root->balance = root->balance == 0 ? 1 : 0;
            verdict("a wrong balance", false);
            break;
        case 1:
            node->left->balance = -node->left->balance + 1;
            verdict("a wrong balance in a deeper level", false);
            break;
        case 2:
            root->cnt++;
            verdict("a wrong count", false);
            break;
        case 3:
            node->left->cnt = 77;
            verdict("a wrong count in a deeper level", false);
            break;
        case 4:
            node->parent = NULL;
            verdict("a wrong parent", false);
            break;
        case 5:
            node->left->parent = root;
            verdict("a wrong parent in a deeper level", false);
            break;
        case 6: { // a list of three, whose balances tell the truth
            for (int i = 0; i < 3; i++) {
                avl_init(&g_items[i].node);
                g_items[i].node.cnt = 3 - (unsigned)i;
                g_items[i].node.balance = (signed char)(2 - i);
                g_items[i].node.parent = i > 0 ? &g_items[i - 1].node : NULL;
                g_items[i].node.right = i < 2 ? &g_items[i + 1].node : NULL;
            }
            g_root = &g_items[0].node;
            verdict("a list of three nodes", false);
            break;
        }
        case 7: // the same, and all balances say that it is in order
            for (int i = 0; i < 3; i++) {
                avl_init(&g_items[i].node);
                g_items[i].node.cnt = 3 - (unsigned)i;
                g_items[i].node.balance = i < 2;
                g_items[i].node.parent = i > 0 ? &g_items[i - 1].node : NULL;
                g_items[i].node.right = i < 2 ? &g_items[i + 1].node : NULL;
            }
            g_root = &g_items[0].node;
            verdict("a list of three nodes", false);
            break;
        }
    }
    printf("all well\n");
}
""",
        "are depths computed, or are the balances believed?",
        headers=["avl.h"],
    )  # fmt: skip


@points(2, "test_avl")
def test_lab(work: Submission) -> None:
    """test_avl.c: every size, every shape of few nodes, random runs, many nodes."""
    out, err, status = work.run([work.program("test_avl")], seconds=20)
    last = "\n".join((out + err).splitlines()[-3:])
    work.expect(
        status == 0,
        came=f"it ended with {status_text(status)}" + (f", and its last lines are\n{last}" if last else ""),
        expected="all tests passed",
    )


@points(2, "the work")
def test_work(work: Submission) -> None:
    """A hundred thousand insertions by walks that count. How many functions does avl_link() enter, inline ones and
    all?"""
    passes(
        work, "effort", r"""
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
""" + TREE + r"""
int main(void) {
    unsigned long entered = 0;
    for (unsigned i = 0; i < k_items; i++) {
        unsigned val = i * 7919 % k_items;
        struct avl_node *parent = NULL, **link = &g_root;
        g_items[val].val = val;
        while (*link) {
            parent = *link;
            parent->cnt++;
            link = val < ((struct item *)parent)->val ? &parent->left : &parent->right;
        }
        unsigned long before = g_entered;
        avl_link(&g_root, parent, link, &g_items[val].node);
        entered += g_entered - before;
    }
    if (entered > 40ul * k_items) {
        CAME("%lu, on average", entered / k_items);
        EXPECTED("40 at most: after an insertion most subtrees are soon as deep as before");
    }
    look("inserting", 0, k_items);
    printf("all well\n");
}
""",
        "is the way always gone up to the root, or are depths computed from the nodes below?",
        headers=["avl.h"], flags=["-finstrument-functions"],
    )  # fmt: skip
