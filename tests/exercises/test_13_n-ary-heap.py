"""13-n-ary-heap: heap.h with four children for each item, and a test program that knows it."""
from __future__ import annotations

from grading import ROOT, Submission, points

PLACES = """
#include <stdio.h>

#include "heap.h"

int main(void) {
    for (size_t pos = 0; pos < 5000; pos++) {
        for (size_t k = 0; k < 4; k++) {
            size_t child = heap_child(pos, k);
            if (child != heap_child(pos, 0) + k) {
                printf("child %zu of item %zu is at %zu, and child 0 at %zu\\n", k, pos, child, heap_child(pos, 0));
                return 1;
            }
            if (heap_parent(child) != pos) {
                printf("child %zu of item %zu is at %zu, and its parent at %zu\\n", k, pos, child, heap_parent(child));
                return 1;
            }
            if (child != pos * 4 + k + 1) {
                printf("child %zu of item %zu is at %zu; a place is lost or taken twice\\n", k, pos, child);
                return 1;
            }
        }
    }
    return 0;
}
"""

LEVELS = """
#include <stdio.h>

#include "heap.h"

static uint32_t g_refs[100000];

int main(void) {
    struct heap heap = {0};
    for (size_t i = 0; i < 100000; i++) {
        g_refs[i] = k_heap_none;
        heap_upsert(&heap, &g_refs[i], (int64_t)(i * 7919 % 100003));
    }
    int levels = 0;
    for (size_t pos = heap.len - 1; pos > 0; pos = heap_parent(pos)) {
        levels++;
    }
    printf("%d\\n", levels);
    free(heap.items);
    return 0;
}
"""

FORMULAS = [
    ("    return (pos - 1) / 2;\n", "    return (pos - 1) / {n};\n"),
    ("    return pos * 2 + 1;\n", "    return pos * {n} + 1;\n"),
    ("    return pos * 2 + 2;\n", "    return pos * {n} + 2;\n"),
    ("        if (heap_right(pos) < len &&", "        for (size_t k = 2; k < {n} && pos * {n} + 1 + k < len; k++) {{\n"
     "            child = items[pos * {n} + 1 + k].val < items[child].val ? pos * {n} + 1 + k : child;\n"
     "        }}\n        if (heap_right(pos) < len &&"),
]


def header(children: int) -> str:
    """The heap of the chapter, in which items have so many children, with heap_child()."""
    text = (ROOT / "common" / "heap.h").read_text(encoding="utf-8")
    for old, new in FORMULAS:
        assert text.count(old) == 1
        text = text.replace(old, new.format(n=children))
    more = f"static inline size_t heap_child(size_t pos, size_t k) {{\n    return pos * {children} + 1 + k;\n}}\n"
    return text.replace("// Puts `item` at", more + "\n// Puts `item` at", 1)


@points(2, "places")
def test_places(work: Submission) -> None:
    """heap_child() and heap_parent() for the first five thousand items, and each of their four children."""
    ran = work.run([work.build({"places.c": PLACES}, "places")])
    work.expect(
        ran.status == 0,
        came=ran.out,
        expected="four children side by side, each of which has this parent; all places from 1 on are somebody's",
        cause="write the indices of 21 items into a drawing",
    )


@points(4, "the heap")
def test_heap(work: Submission) -> None:
    """test_heap.c of chapter 13 with your heap.h, all but its test of places."""
    text = (ROOT / "chapters" / "13" / "test_heap.c").read_text(encoding="utf-8")
    begin, end = text.index("// ---- places ----"), text.index("// ---- every size, every place ----")
    text = (text[:begin] + text[end:]).replace("    test_places();\n", "")
    ran = work.run([work.build({"lab.c": text}, "lab")], seconds=30)
    last = "\n".join((ran.out + ran.err).splitlines()[-3:])
    work.expect(
        ran.status == 0,
        came=f"it ended with {'exit status' if ran.status >= 0 else 'signal'} {abs(ran.status)}"
        + (f", and its last lines are\n{last}" if last else ""),
        expected="all tests passed",
        cause="is the least of all children found, however many there are, and none behind the end looked at?",
    )


@points(1, "levels")
def test_levels(work: Submission) -> None:
    """A hundred thousand items are added. How many levels are above the last one?"""
    ran = work.run_ok([work.build({"levels.c": LEVELS}, "levels")])
    work.expect(
        ran.out.strip() in ("8", "9"),
        came=f"{ran.out.strip()} levels",
        expected="8 or 9; with two children it would be 16",
        cause="does heap_parent() still divide by 2?",
    )


@points(2, "your test program")
def test_your_tests(work: Submission) -> None:
    """Your test_heap.c, built with your heap.h, with a heap of two children, and with one of five."""
    ran = work.run([work.program("test_heap")], seconds=30)
    work.expect(
        ran.status == 0,
        tried="your test_heap.c with your heap.h",
        came=f"it ended with {ran.status}; it printed last\n" + "\n".join((ran.out + ran.err).splitlines()[-3:]),
        expected="exit status 0",
    )
    for children in (2, 5):
        ran = work.run([work.build({"heap.h": header(children)}, "test_heap")], seconds=30)
        work.expect(
            ran.status != 0,
            tried=f"your test_heap.c with a heap in which items have {children} children",
            came="it says that all is well",
            expected="it notices, and ends with another status than 0",
            cause="are the places of all four children compared with numbers, and not only with the parent?",
        )


@points(1, "the server")
def test_server(work: Submission) -> None:
    """The chapter's tests of deadlines: many at the same time, moved ones, and those that were taken away."""
    work.chapter_tests("deadlines_that_were_taken_away or keys_come_back_while_others_expire")
