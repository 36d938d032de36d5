"""11-zrank: the place of a pair, by one walk up the tree."""
from __future__ import annotations

import random

from cases.zsets import Pairs, add_all
from grading import Submission, points
from harness import Err, Server
from harness.wire import ERR_ARG, ERR_TYPE
from lab import TREES, counting_server, passes


@points(2, "what was there before")
def test_as_before(work: Submission) -> None:
    """The chapter's tests: pairs come, change and go; the order of equal scores; types; a set that is emptied."""
    work.chapter_tests("pairs_come_change_and_go or equal_scores_go_by_name or on_every_type or emptied_set")


@points(3, "avl_rank at every place")
def test_every_place(work: Submission) -> None:
    """avl_rank() of every node, in trees of up to 300 nodes that were inserted in rising, falling and mixed order."""
    passes(
        work, "places", TREES + r"""
int main(void) {
    for (unsigned n = 1; n <= k_most; n += n < 40 ? 1 : 13) {
        for (unsigned way = 0; way < 4; way++) {
            make(n, way);
            TRYING("a tree of %u nodes", n);
            for (unsigned i = 0; i < n; i++) {
                long rank = (long)avl_rank(&g_items[i].node);
                if (rank != (long)i) {
                    CAME("avl_rank() of the node number %u, counted from 0, is %ld", i, rank);
                    EXPECTED("%u", i);
                }
            }
        }
    }
    printf("all well\n");
}
""",
        "at a step up from a right child, the parent itself and its left side come before; from a left child, none do",
        headers=["avl.h", "avl_rank.h"],
    )  # fmt: skip


@points(2, "no more nodes than it has to")
def test_only_the_way_up(work: Submission) -> None:
    """A tree in which each left side is one node that says it stands for a thousand. Only its count can be used."""
    passes(
        work, "stubs", r"""
enum { k_levels = 30 };
static struct avl_node g_path[k_levels], g_left[k_levels];

int main(void) {
    // g_path[0] is the root. Where the path goes to the right, and at its end, a stub hangs on the left.
    TRYING("a path of %d nodes", k_levels);
    uint32_t expected = 0;
    for (int i = 0; i < k_levels; i++) {
        struct avl_node *node = &g_path[i];
        avl_init(node);
        node->cnt = 500000;
        node->parent = i > 0 ? &g_path[i - 1] : NULL;
        bool to_left = i % 3 == 0;
        if (!to_left || i == k_levels - 1) {
            avl_init(&g_left[i]);
            g_left[i].cnt = 1000 + (unsigned)i;
            g_left[i].parent = node;
            node->left = &g_left[i];
            expected += g_left[i].cnt + (i < k_levels - 1);
        }
        if (i + 1 < k_levels) {
            *(to_left ? &node->left : &node->right) = &g_path[i + 1];
        }
    }
    long rank = (long)avl_rank(&g_path[k_levels - 1]);
    if (rank != (long)expected) {
        CAME("the rank is %ld", rank);
        EXPECTED("%u: what the counts of the left sides say, and the nodes of the way themselves", expected);
    }
    printf("all well\n");
}
""",
        "are nodes counted one by one, or does the walk begin at the root?",
        headers=["avl.h", "avl_rank.h"],
    )  # fmt: skip


@points(3, "zrank")
def test_zrank(work: Submission) -> None:
    """zrank after each of many steps in which pairs come, get another score, and go; then what is not there, and
    errors."""
    rng = random.Random(11)
    pairs = Pairs()
    names = [b"n%d" % i for i in range(60)]
    with Server(11) as server, server.connect() as conn:
        conn.ask("zrank", "none", "n", expect=None)
        for _ in range(400):
            name = rng.choice(names)
            if rng.random() < 0.7:
                score = rng.choice([-1.5, 0, 0, 1, 2, rng.random()])
                conn.ask("zadd", "z", score, name, expect=pairs.add(score, name))
            else:
                conn.ask("zrem", "z", name, expect=pairs.remove(name))
            places = {pair[1]: place for place, pair in enumerate(pairs.pairs)}
            asked = [name, *rng.sample(names, 4)]
            conn.pipeline([("zrank", "z", each) for each in asked], [places.get(each) for each in asked])
        conn.ask("zrank", "z", "N1", expect=None)
        conn.ask("keys", expect=[b"z"])
        conn.ask("set", "s", "text", expect=None)
        conn.ask("zrank", "s", "n", expect=Err(ERR_TYPE))
        conn.ask("zrank", "z", expect=Err(ERR_ARG))
        conn.ask("zrank", "z", "n1", "n2", expect=Err(ERR_ARG))


@points(2, "the work of a rank")
def test_work(work: Submission) -> None:
    """Twenty thousand pairs. How many functions does the server enter for a rank, inline ones and all?"""
    n = 20_000
    with work.count("strcmp") as counted, counting_server(work).server() as server, server.connect() as conn:
        add_all(conn, "z", [(i, f"n{i}") for i in range(n)])
        counted.reset()
        conn.pipeline([("zscore", "z", f"n{i}") for i in range(0, n, 500)], [float(i) for i in range(0, n, 500)])
        score = counted["strcmp"] // 40
        counted.reset()
        conn.pipeline([("zrank", "z", f"n{i}") for i in range(0, n, 500)], list(range(0, n, 500)))
        rank = counted["strcmp"] // 40
    work.expect(
        rank <= score + 200,
        came=f"{score} for a zscore, {rank} for a zrank, on average",
        expected="at most 200 more: the tree has some 16 levels",
        cause="does it go from pair to pair until it has found this one?",
    )
