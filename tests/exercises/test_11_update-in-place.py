"""11-update-in-place: a score is written in place where the pair stays between its neighbours."""
from __future__ import annotations

from grading import Submission, points
from harness.process import status_text
from lab import passes

COUNTED = """\
@@ avl.h, before avl_node
+static unsigned g_linked, g_deleted;

@@ avl.h, avl_link()
     avl_init(node);
+    g_linked++;

@@ avl.h, avl_del()
 static inline void avl_del(struct avl_node **root, struct avl_node *node) {
+    g_deleted++;
"""
SET = r"""
static const struct hash_key k_key = {11, 12};
static struct zset g_set;

static void add(double score, const char *name) {
    zset_add(&g_set, (const uint8_t *)name, strlen(name), score);
}

static struct znode *find(const char *name) {
    return zset_lookup(&g_set, (const uint8_t *)name, strlen(name));
}

// Gives a name another score. moves: whether the pair has to be moved.
static void update(const char *name, double score, bool moves) {
    TRYING("(%g, %s) becomes (%g, %s)", find(name)->score, name, score, name);
    g_linked = g_deleted = 0;
    add(score, name);
    if (g_linked != moves || g_deleted != moves) {
        CAME("the pair was taken out of the tree %u times and put in %u times", g_deleted, g_linked);
        if (moves) {
            EXPECTED("once each: it does not stay between its neighbours");
        }
        EXPECTED("not at all: it stays between its neighbours");
    }
    if (find(name)->score != score) {
        CAME("the score is %g", find(name)->score);
        EXPECTED("%g", score);
    }
    if (!zset_check(&g_set)) {
        CAME("the set is out of order");
        EXPECTED("by score, and by name where scores are equal");
    }
}
"""
HEADERS = ["zset.h"]


@points(2, "what was there before")
def test_as_before(work: Submission) -> None:
    """The chapter's tests: pairs come, change and go; equal scores; -0; random steps."""
    work.chapter_tests("pairs_come_change_and_go or equal_scores_go_by_name or minus_zero or random_pairs_pipelined")


@points(2, "the set alone")
def test_set_alone(work: Submission) -> None:
    """test_zset.c of chapter 11, built with your header: orders, scores, ranks, queries, random runs."""
    lab = work.build({}, "test_zset", chapter=11)
    out, err, status = work.run([lab], seconds=20)
    last = "\n".join((out + err).splitlines()[-3:])
    work.expect(
        status == 0,
        came=f"it ended with {status_text(status)}" + (f", and its last lines are\n{last}" if last else ""),
        expected="all tests passed",
        cause="a pair may stay only where all invariants at the top of zset.h hold afterwards",
    )


@points(3, "pairs that stay")
def test_stay(work: Submission) -> None:
    """Updates that leave the pair where it is: in between, at both ends, at the score of a neighbour, in a set of
    one."""
    passes(
        work, "stay", SET + r"""
int main(void) {
    zset_init(&g_set, &k_key);
    add(1, "only");
    update("only", 5, false);
    update("only", -5, false);
    zset_dispose(&g_set);
    add(10, "b");
    add(20, "d");
    add(30, "f");
    add(40, "h");
    update("d", 21, false);
    update("d", 29.5, false);
    update("d", 10.5, false);
    update("b", -1e300, false); // the first one falls
    update("h", 1e300, false);  // the last one rises
    update("h", 30.5, false);
    update("d", 30, false);     // the score of f, and d comes before f
    update("f", 30.25, false);
    update("d", 20, false);
    update("f", 20, false);     // the score of d
    for (unsigned i = 0; i < 500; i++) {
        char name[8];
        snprintf(name, sizeof(name), "n%03u", i);
        add(1000 + 10 * i, name);
    }
    for (unsigned i = 0; i < 500; i++) {
        char name[8];
        snprintf(name, sizeof(name), "n%03u", i);
        update(name, 1000 + 10 * i + i % 10, false);
    }
    printf("all well\n");
}
""",
        "at an end there is no neighbour to pass; at equal scores the names decide",
        headers=HEADERS, change=COUNTED,
    )  # fmt: skip


@points(2, "pairs that move")
def test_move(work: Submission) -> None:
    """Updates that do not: past one neighbour, past many, to the score of a neighbour whose name is on the other
    side."""
    passes(
        work, "move", SET + r"""
int main(void) {
    zset_init(&g_set, &k_key);
    add(10, "h");
    add(20, "f");
    add(30, "d");
    add(40, "b");
    update("h", 20, true); // (20, f) comes before (20, h)
    update("b", 30, true); // (30, b) comes before (30, d)
    update("d", 25, true);
    update("f", 1e300, true);
    update("h", 1e301, true);
    update("f", -1, true);
    update("f", 26, true);
    for (unsigned i = 0; i < 300; i++) {
        char name[8];
        snprintf(name, sizeof(name), "n%03u", i);
        add(1000 + 10 * i, name);
    }
    for (unsigned i = 1; i < 299; i++) {
        char name[8];
        snprintf(name, sizeof(name), "n%03u", i);
        update(name, 1000 + 10 * i + (i % 2 ? 15 : -1500), true);
        update(name, 1000 + 10 * i, true);
    }
    printf("all well\n");
}
""",
        "may a pair have the score of its neighbour, and still stand on the wrong side of it?",
        headers=HEADERS, change=COUNTED,
    )  # fmt: skip


@points(1, "question 1")
def test_measured(work: Submission) -> None:
    """How many updates left the pair where it is, with steps of up to 10 points?"""
    work.expect_answer(1, 94988, form="the number that ./players 10 prints", cause="was it another step?")


@points(1, "question 2")
def test_least_step(work: Submission) -> None:
    """The least step with which fewer than half of the updates leave the pair where it is."""
    work.expect_answer(
        2, "c", form="a letter from a to e", cause="run it with each of the five, and compare with 50000"
    )


@points(1, "question 3", instructor=True)
def test_worth_it(work: Submission) -> None:
    """Is it worth it where scores come from anywhere?"""
    work.expect_text(3, words=30)
