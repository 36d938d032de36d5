"""08-shrink: the table gives buckets back, a bounded amount of work in each call, and does not go to and fro."""
from __future__ import annotations

from grading import Submission, points
from harness.process import status_text

# Nodes 0 to k_most - 1, a flag for each, and the table. Every call is watched: the work that it does, and whether it
# begins to resize.
LAB = r"""
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hashtable.h"

enum { k_most = 40000, k_work = 8, k_load = 2, k_least = 4, k_buckets_a_node = 16 };

static struct hmap g_map;
static struct hnode g_nodes[k_most];
static bool g_there[k_most];
static size_t g_n, g_starts;
static bool g_watch_work;

#define CAME(...) (printf("came: " __VA_ARGS__), printf("\n"))
#define EXPECTED(...) (printf("expected: " __VA_ARGS__), printf("\n"), exit(1))

static struct hmap g_before;

static void begin(void) {
    g_before = g_map;
}

static void end(const char *what) {
    bool started = g_map.newer.tab != g_before.newer.tab && g_before.newer.tab;
    g_starts += started;
    if (!g_watch_work) {
        return;
    }
    size_t moved = 0, passed = 0;
    if (started) {
        moved = g_before.older.size + g_map.newer.size;
        passed = g_map.resizing_pos;
    } else {
        if (g_map.newer.size > g_before.newer.size) {
            moved = g_map.newer.size - g_before.newer.size;
        }
        if (g_map.older.tab && g_map.resizing_pos > g_before.resizing_pos) {
            passed = g_map.resizing_pos - g_before.resizing_pos;
        }
    }
    if (moved + passed > k_work + 1) { // and the node that the call itself is about
        CAME("%s, with %zu nodes in the table, moved %zu nodes and passed %zu buckets in one call", what, g_n, moved,
            passed);
        EXPECTED("%d together", (int)k_work);
    }
}

static void insert(unsigned id) {
    g_nodes[id] = (struct hnode){.hcode = id * 2654435761u, .key_len = 4};
    begin();
    hm_insert(&g_map, &g_nodes[id]);
    end("hm_insert()");
    g_there[id] = true;
    g_n++;
}

static void take_out(unsigned id) {
    begin();
    struct hnode *node = hm_pop(&g_map, &g_nodes[id], hnode_same);
    end("hm_pop()");
    if (node != &g_nodes[id]) {
        CAME("with %zu nodes in the table, one that is in it cannot be found by hm_pop()", g_n);
        EXPECTED("every node is found as long as it is in the table");
    }
    g_there[id] = false;
    g_n--;
}

static void find(unsigned id) {
    begin();
    struct hnode **link = hm_lookup(&g_map, &g_nodes[id], hnode_same);
    end("hm_lookup()");
    if (g_there[id] != (link && *link == &g_nodes[id])) {
        CAME("with %zu nodes in the table, one that %s", g_n, g_there[id] ? "is in it cannot be found by hm_lookup()"
            : "was removed is found by hm_lookup()");
        EXPECTED("a node is found as long as it is in the table");
    }
}

static size_t buckets(void) {
    return (g_map.newer.tab ? g_map.newer.mask + 1 : 0) + (g_map.older.tab ? g_map.older.mask + 1 : 0);
}

static void clear(void) {
    hm_destroy(&g_map);
    memset(g_there, 0, sizeof(g_there));
    g_n = g_starts = 0;
}

// n nodes are inserted, all but `keep` removed, and then the table is used as long as it likes.
static void shrinks(unsigned n, unsigned keep) {
    for (unsigned id = 0; id < n; id++) {
        insert(id);
    }
    for (unsigned id = keep; id < n; id++) {
        take_out(id);
    }
    for (unsigned i = 0; i < 2 * n + 100; i++) {
        insert(n);
        take_out(n);
        if (g_map.newer.tab && g_map.newer.mask + 1 < k_least) {
            CAME("%u nodes, all but %u removed: %zu buckets, which is fewer than k_min_buckets", n, keep, buckets());
            EXPECTED("%d buckets at least", (int)k_least);
        }
    }
    size_t most = keep * k_buckets_a_node < k_least ? k_least : keep * k_buckets_a_node;
    if (buckets() > most) {
        CAME("%u nodes, all but %u removed, and then one inserted and removed %u times: there are still %zu buckets",
            n, keep, 2 * n + 100, buckets());
        EXPECTED("%zu buckets at most", most);
    }
    for (unsigned id = 0; id <= n; id++) {
        find(id);
    }
    for (unsigned id = keep; id < n; id++) {
        insert(id);
        find(id);
        find(id / 2);
    }
    clear();
}

static void test_shrinks(void) {
    for (unsigned n = 9; n <= 120; n += 3) {
        for (unsigned keep = 0; keep <= n; keep += 1 + n / 5) {
            shrinks(n, keep);
        }
    }
    shrinks(3000, 0);
    shrinks(3000, 100);
    shrinks(30000, 7);
    shrinks(30000, 1000);
}

static void test_work(void) {
    g_watch_work = true;
    test_shrinks();
}

// The number of nodes swings; it comes to n from below, or from far above.
static void swing(unsigned n, unsigned top, unsigned from) {
    for (unsigned id = 0; id < from; id++) {
        insert(id);
    }
    for (unsigned id = n; id < from; id++) {
        take_out(id);
    }
    for (unsigned round = 0; round < 200; round++) {
        for (unsigned id = n; id < top; id++) {
            insert(id);
        }
        for (unsigned id = n; id < top; id++) {
            take_out(id);
        }
        if (round == 99) {
            g_starts = 0;
        }
    }
    if (g_starts > 0) {
        CAME("while the number of nodes swings between %u and %u, in 100 rounds the table begins to resize %zu times",
            n, top, g_starts);
        EXPECTED("it has found its size long before");
    }
    clear();
}

static void test_fro(void) {
    for (unsigned n = 1; n <= 150; n++) {
        swing(n, n + 1, n);
        swing(n, n + 1, 20 * n);
        swing(n, n + n / 2, n);
    }
    swing(1024, 1536, 1024);
}

static void check(void) {
    if (!hm_check(&g_map)) {
        CAME("hm_check() says that an invariant does not hold, with %zu nodes in the table "
            "(older: %zu buckets, newer: %zu)", g_n,
             g_map.older.tab ? g_map.older.mask + 1 : 0, g_map.newer.mask + 1);
        EXPECTED("the invariants hold after each call, and hm_check() knows them");
    }
    if (hm_size(&g_map) != g_n) {
        CAME("some nodes cannot be found: hm_size() says %zu of %zu", hm_size(&g_map), g_n);
        EXPECTED("every node is in one of the two tables");
    }
    if (g_map.newer.tab && g_map.newer.size > (g_map.newer.mask + 1) * k_load) {
        CAME("the newer table is overfull: %zu nodes in %zu buckets", g_map.newer.size, g_map.newer.mask + 1);
        EXPECTED("at most %d for a bucket, whatever is inserted while the table is resizing", (int)k_load);
    }
}

// Random steps in a range of ids; `bias` of 8 are insertions.
static void steps(unsigned n, unsigned range, unsigned bias) {
    static uint32_t state = 8;
    for (unsigned i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        unsigned id = (state >> 8) % range, way = state >> 29;
        if (!g_there[id] && way < bias) {
            insert(id);
        } else if (g_there[id] && way >= bias) {
            take_out(id);
        } else {
            find(id);
        }
        check();
    }
}

static void test_model(void) {
    for (unsigned round = 0; round < 6; round++) {
        steps(3000, 700, 7);
        steps(5000, 700, 1);
        steps(200, 700, 4);
        steps(3000, 700, 0);
    }
    clear();
    // From the moment when it begins to shrink nodes are inserted, and nothing else is done.
    for (unsigned n = 64; n <= 2048; n *= 2) {
        for (unsigned id = 0; id < n; id++) {
            insert(id);
        }
        g_starts = 0;
        for (unsigned id = 0; id < n; id++) {
            find(id);
            take_out(id);
            check();
            if (g_starts > 0) {
                g_starts = 0;
                for (unsigned i = 0; i < n; i++) {
                    insert(n + i);
                    check();
                }
                for (unsigned i = 0; i < n; i++) {
                    find(n + i);
                    take_out(n + i);
                    check();
                }
                g_starts = 0;
            }
        }
        clear();
    }
}

int main(int argc, char **argv) {
    (void)argc;
    switch (argv[1][0]) {
    case 's': test_shrinks(); break;
    case 'w': test_work(); break;
    case 'f': test_fro(); break;
    case 'm': test_model(); break;
    }
    clear();
}
"""


def run_lab(work: Submission, part: str, cause: str) -> None:
    """Runs a part of the lab; what it prints is the lesson."""
    lab = work.build({"lab.c": LAB}, "lab")
    out, err, status = work.run([lab, part], seconds=20)
    said = dict(line.split(": ", 1) for line in out.splitlines() if ": " in line)
    if status:
        last = (err.strip() or out.strip()).splitlines()[-1:]
        came = said.get(
            "came", f"it ended with {status_text(status)}" + "".join(f", and its last line is\n{line}" for line in last)
        )
        work.fail(came=came, expected=said.get("expected", "no assertion fails, and nothing crashes"), cause=cause)


@points(2, "the chapter's test_hashtable")
def test_chapter(work: Submission) -> None:
    """test_hashtable.c of the chapter, with your hashtable.h: a table that grows, and what is removed from it."""
    out, err, status = work.run([work.program("test_hashtable")], seconds=20)
    last = "\n".join((out + err).splitlines()[-3:])
    work.expect(
        status == 0, came=f"it ended with {status_text(status)}, and its last lines are\n{last}",
        expected="all tests passed",
        cause="a table that is not too sparse behaves as before",
    )


@points(3, "buckets are given back")
def test_shrinks(work: Submission) -> None:
    """Tables of 9 to 30,000 nodes, from which most are removed. Then one node comes and goes, again and again."""
    run_lab(work, "shrinks", "who looks whether the table has become too sparse, when, and with which bound below?")


@points(2, "bounded work")
def test_work(work: Submission) -> None:
    """The same, with the nodes counted that each call moves and the empty buckets that it passes."""
    run_lab(work, "work", "moving is for hm_help_resizing(), one portion in each call, in this direction too")


@points(2, "not to and fro")
def test_to_and_fro(work: Submission) -> None:
    """The number of nodes swings by one, or by half; 100 rounds later the table should have found its size."""
    run_lab(work, "fro", "how far is the load at which it shrinks from the one that it has when it has just grown?")


@points(3, "sound after every call")
def test_model(work: Submission) -> None:
    """Random insertions, removals and lookups against a model; and insertions alone, from where it begins to shrink."""
    run_lab(work, "model", "may it begin while it is resizing? Is the moving done before the smaller table is full?")
