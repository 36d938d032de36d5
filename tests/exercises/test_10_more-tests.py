"""10-more-tests: a test of the tree that notices more faults, and no faults where there are none."""
from __future__ import annotations

from typing import Dict, List, Set, Tuple

import pytest

from grading import Ran, Submission, edited, points
from harness.process import status_text

Edits = List[Tuple[str, str]]

STOPS = "        if ((*link)->depth == old_depth && (*link)->cnt == old_cnt) {\n            return;\n        }\n"
BROKEN: Dict[str, Edits] = {
    "10-balanced-too-late": [("left == right + 2", "left == right + 3"), ("left + 2 == right", "left + 3 == right")],
    "10-counts-left-behind": [
        (
            "if ((*link)->depth == old_depth && (*link)->cnt == old_cnt)",
            "(void)old_cnt;\n        if ((*link)->depth == old_depth)",
        )
    ],
    "10-removal-keeps-an-old-parent": [("    if (next->right) {\n        next->right->parent = next;\n    }\n", "")],
    "10-rotation-loses-a-parent": [
        (
            "    node->right = inner;\n    if (inner) {\n        inner->parent = node;\n    }\n",
            "    node->right = inner;\n",
        )
    ],
    "10-single-rotation": [
        (
            (
                "    if (avl_depth(node->left->left) < avl_depth(node->left->right)) {\n        node->left ="
                " rot_left(node->left);\n    }\n"
            ),
            "",
        )
    ],
}
ONE_ROOT: Edits = [
    ("// Restores every", "static struct avl_node **g_only_root;\n\n// Restores every"),
    (
        "        struct avl_node **link = root;\n",
        "        struct avl_node **link = g_only_root;\n        (void)root;\n",
    ),
    (
        "    avl_init(node);\n    node->parent = parent;\n",
        "    avl_init(node);\n    if (!parent) {\n        g_only_root = root;\n    }\n    node->parent = parent;\n",
    ),
]
FEW_BITS: Edits = [("    uint32_t depth;\n    uint32_t cnt;\n", "    uint16_t depth;\n    uint16_t cnt;\n")]
NO_STOP: Edits = [(STOPS, "        (void)old_depth, (void)old_cnt;\n")]
# As right as avl.h: other fields first, and a loop that is written in another way.
WRITTEN_DIFFERENTLY: Edits = [
    (
        (
            "    struct avl_node *parent;\n    struct avl_node *left;\n    struct avl_node *right;\n    uint32_t"
            " depth;\n    uint32_t cnt;\n"
        ),
        (
            "    uint32_t cnt;\n    uint32_t depth;\n    struct avl_node *right;\n    struct avl_node *left;\n   "
            " struct avl_node *parent;\n"
        ),
    ),
    (
        "    while (node) {\n        struct avl_node *parent = node->parent;\n",
        "    for (struct avl_node *parent; node; node = parent) {\n        parent = node->parent;\n",
    ),
    ("            return;\n        }\n        node = parent;\n", "            break;\n        }\n"),
    (
        "    if (!node->left || !node->right) {\n        avl_del_easy(root, node);\n        return;\n    }\n",
        (
            "    bool easy = !node->left || !node->right;\n    if (easy) {\n        avl_del_easy(root, node);\n       "
            " return;\n    }\n"
        ),
    ),
]


_passed: Set[str] = set()  # headers with which the learner's test has passed


def run(work: Submission, header: str, test: str = "") -> Ran:
    """Runs a test_avl with this avl.h: the learner's, or another one."""
    files = {"avl.h": header, "test_avl.c": test or work.source("test_avl.c")}
    return work.run([work.build(files, "test_avl", flags=["-O0"])], seconds=10)  # it is built eleven times


def right(work: Submission) -> str:
    return work.source("avl.h")


def passes_with(work: Submission, header: str, what: str) -> None:
    if header in _passed:
        return
    ran = run(work, header)
    last = "\n".join((ran.out + ran.err).splitlines()[-3:])
    work.expect(
        ran.status == 0,
        came=f"your test_avl with {what} ended with {status_text(ran.status)}, and its last lines are\n{last}",
        expected="exit status 0: this header is right",
        cause="does a test ask for something that avl.h does not promise?",
    )
    _passed.add(header)


def notices(work: Submission, edits: Edits, what: str, cause: str = "") -> None:
    """The learner's test passes with the right header, and fails with the wrong one."""
    passes_with(work, right(work), "the right avl.h")
    header = edited({"avl.h": right(work)}, {"avl.h": edits})["avl.h"]
    work.expect(
        run(work, header).status != 0,
        came=f"your test_avl passes, although {what}",
        expected="an exit status other than 0",
        cause=cause,
    )


@points(2, "right headers pass")
def test_right_headers(work: Submission) -> None:
    """Your test_avl with the right avl.h, and with one that is as right but written a little differently."""
    passes_with(work, right(work), "the right avl.h")
    other = edited({"avl.h": right(work)}, {"avl.h": WRITTEN_DIFFERENTLY})["avl.h"]
    passes_with(work, other, "an avl.h whose fields come in another order")


@pytest.mark.time_limit(60)
@points(3, "a fault of your own")
def test_own_fault(work: Submission) -> None:
    """avl_fault.h with the test_avl that you were given, and with yours."""
    fault = work.source("avl_fault.h")
    work.expect(fault, came="there is no avl_fault.h", expected="a copy of avl.h with one fault in it")
    ran = run(work, fault, work.starter("test_avl.c"))
    last = "\n".join((ran.out + ran.err).splitlines()[-3:])
    work.expect(
        ran.status == 0,
        came=f"the test_avl that you were given notices your fault: it ended with {status_text(ran.status)}\n{last}",
        expected="all tests passed: a fault that it does not notice",
    )
    passes_with(work, right(work), "the right avl.h")
    work.expect(
        run(work, fault).status != 0,
        came="your test_avl passes with avl_fault.h",
        expected="an exit status other than 0",
        cause="is it a fault at all? If so, what would somebody notice of it who uses the tree?",
    )


@pytest.mark.time_limit(60)
@points(2, "the five faults of answers.md")
def test_broken(work: Submission) -> None:
    """Your test_avl with each of the five faults that the workbook knows of."""
    for name, edits in BROKEN.items():
        notices(work, edits, f"avl.h has the fault of {name}.fault", "was a part of the test left out that is needed?")


@points(2, "two trees")
def test_two_trees(work: Submission) -> None:
    """Your test_avl with a fault that shows where there are two trees."""
    notices(
        work, ONE_ROOT, "with this header a tree goes wrong as soon as a second one is begun",
        "how many trees does the test have at one time?",
    )  # fmt: skip


@points(1, "many nodes")
def test_many_nodes(work: Submission) -> None:
    """Your test_avl with a fault that shows in a tree of more than 65,535 nodes."""
    notices(
        work, FEW_BITS, "with this header a tree of 65,536 nodes says that it has none",
        "how large is the largest tree of the test?",
    )  # fmt: skip


@points(2, "where mending stops")
def test_stops(work: Submission) -> None:
    """Your test_avl with a header whose trees are right, but whose avl_fix goes up to the root each time."""
    notices(
        work, NO_STOP, "with this header each insertion costs O(log n), also where the walk has counted the node",
        "avl_fix promises not to touch what is above. What could a test leave there, to see whether it was touched?",
    )  # fmt: skip


@points(1, "question 1")
def test_parts(work: Submission) -> None:
    """How many parts are needed to notice the five faults?"""
    work.expect_answer(1, 1, form="a number from 0 to 5", cause="try each part alone, before you try them in pairs")


@points(1, "question 2")
def test_which(work: Submission) -> None:
    """A part that is among them."""
    work.expect_answer(
        2, ["test_every_shape", "test_random", "every_shape", "random"], form="the name of a part",
        cause="try each part alone against each fault",
    )  # fmt: skip
