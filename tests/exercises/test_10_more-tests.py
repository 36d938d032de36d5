"""10-more-tests: a test of the tree that notices more faults, and no faults where there are none."""
from __future__ import annotations

from typing import Set

import pytest

from grading import Ran, Submission, edited, points
from harness.process import status_text

BROKEN = {
    "10-balanced-too-late": """\
@@ avl.h, avl_fix()
-        if (left == right + 2) {
+        if (left == right + 3) {
             *link = avl_fix_left(node);
-        } else if (left + 2 == right) {
+        } else if (left + 3 == right) {
""",
    "10-counts-left-behind": """\
@@ avl.h, avl_fix()
-        if ((*link)->depth == old_depth && (*link)->cnt == old_cnt) {
+        (void)old_cnt;
+        if ((*link)->depth == old_depth) {
""",
    "10-removal-keeps-an-old-parent": """\
@@ avl.h, avl_del()
-    if (next->right) {
-        next->right->parent = next;
-    }
""",
    "10-rotation-loses-a-parent": """\
@@ avl.h, rot_left()
-    if (inner) {
-        inner->parent = node;
-    }
""",
    "10-single-rotation": """\
@@ avl.h, avl_fix_left()
-    if (avl_depth(node->left->left) < avl_depth(node->left->right)) {
-        node->left = rot_left(node->left);
-    }
""",
}
ONE_ROOT = """\
@@ avl.h, after avl_fix_right()
+static struct avl_node **g_only_root;

@@ avl.h, avl_fix()
-        struct avl_node **link = root;
+        struct avl_node **link = g_only_root;
+        (void)root;

@@ avl.h, avl_link()
     avl_init(node);
+    if (!parent) {
+        g_only_root = root;
+    }
"""
FEW_BITS = """\
@@ avl.h, avl_node
-    uint32_t depth;
-    uint32_t cnt;
+    uint16_t depth;
+    uint16_t cnt;
"""
NO_STOP = """\
@@ avl.h, avl_fix()
-        if ((*link)->depth == old_depth && (*link)->cnt == old_cnt) {
-            return;
-        }
+        (void)old_depth, (void)old_cnt;
"""
# As right as avl.h: other fields first, and a loop that is written in another way.
WRITTEN_DIFFERENTLY = """\
@@ avl.h, avl_node
 struct avl_node {
+    uint32_t cnt;
+    uint32_t depth;
+    struct avl_node *right;
+    struct avl_node *left;
     struct avl_node *parent;
-    struct avl_node *left;
-    struct avl_node *right;
-    uint32_t depth;
-    uint32_t cnt;

@@ avl.h, avl_fix()
-    while (node) {
-        struct avl_node *parent = node->parent;
+    for (struct avl_node *parent; node; node = parent) {
+        parent = node->parent;
             // ...
-            return;
+            break;
         }
-        node = parent;

@@ avl.h, avl_del()
-    if (!node->left || !node->right) {
+    bool easy = !node->left || !node->right;
+    if (easy) {
"""


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


def notices(work: Submission, change: str, what: str, cause: str = "") -> None:
    """The learner's test passes with the right header, and fails with the wrong one."""
    passes_with(work, right(work), "the right avl.h")
    header = edited({"avl.h": right(work)}, change)["avl.h"]
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
    other = edited({"avl.h": right(work)}, WRITTEN_DIFFERENTLY)["avl.h"]
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
    for name, change in BROKEN.items():
        notices(work, change, f"avl.h has the fault of {name}.fault", "was a part of the test left out that is needed?")


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
