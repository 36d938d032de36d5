"""11-offset: the moves of avl_offset() are counted, measured, and judged."""
from __future__ import annotations

from typing import List

from grading import Submission, points
from harness.process import status_text
from lab import TREES, passes


@points(3, "the counter")
def test_counter(work: Submission) -> None:
    """From each node to each node in trees of up to 60 nodes, and beyond both ends: how many moves are counted?"""
    passes(
        work, "counter", TREES + r"""
static unsigned level(const struct avl_node *node) {
    unsigned n = 0;
    for (; node->parent; node = node->parent) {
        n++;
    }
    return n;
}

// Returns the number of edges between two nodes.
static unsigned edges(const struct avl_node *a, const struct avl_node *b) {
    unsigned n = 0;
    for (; a != b; n++) {
        if (level(a) > level(b)) {
            a = a->parent;
        } else {
            b = b->parent;
        }
    }
    return n;
}

static void try(unsigned n, unsigned from, int64_t to) {
    struct avl_node *start = &g_items[from].node;
    bool inside = to >= 0 && to < n;
    unsigned long expected = inside ? edges(start, &g_items[to].node) : level(start);
    unsigned long long before = g_moves;
    struct avl_node *came = avl_offset(start, to - from);
    if (came != (inside ? &g_items[to].node : NULL)) {
        CAME("another node for an offset of %lld from node %u of %u, counted from 0", (long long)to - from, from, n);
        EXPECTED("%s", inside ? "the node at that place" : "NULL");
    }
    if (g_moves - before != expected) {
        CAME("%llu moves were counted for an offset of %lld from node %u of %u, counted from 0",
             (unsigned long long)g_moves - before, (long long)to - from, from, n);
        EXPECTED("%lu: %s", expected, inside ? "the edges between the two nodes" : "up to the root, where it ends");
    }
}

int main(void) {
    for (unsigned n = 1; n <= 60; n++) {
        for (unsigned way = 0; way < 4; way++) {
            make(n, way);
            TRYING("a tree of %u nodes", n);
            for (unsigned from = 0; from < n; from++) {
                for (int64_t to = -2; to < (int64_t)n + 2; to++) {
                    try(n, from, to);
                }
            }
        }
    }
    printf("all well\n");
}
""",
        "each time that node becomes another node is one move, upwards and downwards; "
        "a call is none, and a look is none",
        headers=["avl_offset.h"],
    )  # fmt: skip


@points(2, "avl_offset as it was")
def test_as_before(work: Submission) -> None:
    """test_zset.c of chapter 11, built with your header."""
    lab = work.build({}, "test_zset", chapter=11)
    out, err, status = work.run([lab], seconds=20)
    last = "\n".join((out + err).splitlines()[-3:])
    work.expect(
        status == 0,
        came=f"it ended with {status_text(status)}" + (f", and its last lines are\n{last}" if last else ""),
        expected="all tests passed",
    )


def table(text: str) -> List[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@points(2, "measured.txt")
def test_measured(work: Submission) -> None:
    """offsets is run again, with your counter, for a thousand nodes and for a million."""
    work.expect(
        work.source("measured.txt").strip() != work.starter("measured.txt").strip(),
        came="measured.txt is not there, or empty",
        expected="the output of ./offsets 1000, and behind it that of ./offsets 1000000",
    )
    measured = table(work.source("measured.txt"))
    printed: List[str] = []
    for nodes in ("1000", "1000000"):
        printed += table(work.run_ok([work.program("offsets"), nodes], seconds=20).out)
    work.expect(any(int(float(line.split()[1])) for line in printed if line[0].isdigit() and "nodes" not in line),
                came="offsets counts no moves", expected="a counter that counts")  # fmt: skip
    for i, line in enumerate(printed):
        came = measured[i] if i < len(measured) else "nothing"
        work.expect(
            came == line,
            came=f"line {i + 1} of measured.txt: {came}",
            expected=line,
            cause="was it measured with another counter, with other numbers of nodes, or not at all?",
        )


@points(1, "question 1")
def test_at_once(work: Submission) -> None:
    """The moves of an offset of 10,000 in the tree of a million nodes."""
    work.expect_answer(
        1, 26.3, form="a number, as it stands in the table", within=0.051,
        cause="is it the right line, and the right table?",
    )  # fmt: skip


@points(1, "question 2")
def test_times(work: Submission) -> None:
    """How many times as many it is step by step."""
    work.expect_answer(
        2, 760, form="a number, rounded to a multiple of ten", within=10,
        cause="divide one number of the line by the other",
    )  # fmt: skip


@points(1, "question 3")
def test_ten_times(work: Submission) -> None:
    """How many moves more an offset costs that is ten times as large."""
    work.expect_answer(
        3, "c", form="a letter from a to d", cause="compare each line of the table with the one above it"
    )


@points(1, "question 4")
def test_larger_tree(work: Submission) -> None:
    """The same offset in a tree that is a thousand times as large."""
    work.expect_answer(4, "a", form="a letter from a to d", cause="compare the lines of one offset in the two tables")


@points(2, "question 5", instructor=True)
def test_claim(work: Submission) -> None:
    """A claim about the average that follows from the table."""
    work.expect_text(5, words=40)
