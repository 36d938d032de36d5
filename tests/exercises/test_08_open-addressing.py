"""08-open-addressing: a table of slots finds what is in it, grows in portions, and keeps room for searches to end."""
from __future__ import annotations

from grading import Submission, points
from harness.process import status_text

# Items 0 to k_most - 1, a flag for each, and the table; hash codes of several kinds.
LAB = r"""
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hashtable.h"

enum { k_most = 4000, k_work = 8 };

struct item {
    struct hnode node;
    unsigned id;
};

static struct hmap g_map;
static struct item g_items[k_most];
static bool g_there[k_most];
static size_t g_n;
static unsigned g_kind;
static const char *const k_kinds[] = {"that differ in every bit", "that follow each other", "that are all the same",
                                      "that all belong into the last slot", "of which many belong into the last slots"};

#define CAME(...) (printf("came: " __VA_ARGS__), printf(", with hash codes %s\n", k_kinds[g_kind]))
#define EXPECTED(...) (printf("expected: " __VA_ARGS__), printf("\n"), exit(1))

static uint32_t code(unsigned id) {
    switch (g_kind) {
    case 0: return id * 2654435761u ^ id >> 3;
    case 1: return id;
    case 2: return 7;
    case 3: return UINT32_MAX;
    default: return id % 3 ? UINT32_MAX - id % 5 : id;
    }
}

static bool same_id(const struct hnode *node, const struct hnode *key) {
    return ((const struct item *)(const void *)node)->id == ((const struct item *)(const void *)key)->id;
}

static struct item item_of(unsigned id) {
    struct item item;
    memset(&item, 0, sizeof(item));
    item.node.hcode = code(id);
    item.node.key_len = 4;
    item.id = id;
    return item;
}

static struct hmap g_before;
static bool g_watch_work;

static void begin(void) {
    g_before = g_map;
}

static void end(const char *what) {
    if (!g_watch_work) {
        return;
    }
    bool started = g_before.newer.tab && g_map.newer.tab != g_before.newer.tab;
    size_t moved = 0, passed = 0;
    if (started) {
        moved = g_before.older.size + g_map.newer.size;
        passed = g_map.resizing_pos;
    } else {
        moved = g_map.newer.size > g_before.newer.size ? g_map.newer.size - g_before.newer.size : 0;
        passed = g_map.older.tab && g_map.resizing_pos > g_before.resizing_pos
            ? g_map.resizing_pos - g_before.resizing_pos : 0;
    }
    // Which of the slots that were passed had a node in them is not to be seen: in doubt, each of those that moved.
    size_t work = moved > passed ? moved : passed;
    if (work > k_work + 1) { // and the node that the call itself is about
        CAME("%s, with %zu nodes, moved %zu nodes and passed %zu slots in one call", what, g_n, moved, passed);
        EXPECTED("%d at most, each node that moves and each empty slot counted as one", (int)k_work);
    }
}

static void insert(unsigned id) {
    g_items[id] = item_of(id);
    begin();
    hm_insert(&g_map, &g_items[id].node);
    end("hm_insert()");
    g_there[id] = true;
    g_n++;
}

static void take_out(unsigned id) {
    struct item key = item_of(id);
    begin();
    struct hnode *node = hm_pop(&g_map, &key.node, same_id);
    end("hm_pop()");
    if (node != (g_there[id] ? &g_items[id].node : NULL)) {
        CAME("with %zu nodes, one that %s", g_n, g_there[id] ? "is there cannot be found by hm_pop()"
            : "was removed is found by hm_pop()");
        EXPECTED("a node is found as long as it is in the table");
    }
    g_n -= g_there[id];
    g_there[id] = false;
}

static struct hnode **find(unsigned id) {
    struct item key = item_of(id);
    begin();
    struct hnode **link = hm_lookup(&g_map, &key.node, same_id);
    end("hm_lookup()");
    if (g_there[id] != (link && *link == &g_items[id].node)) {
        CAME("with %zu nodes, one that %s", g_n, g_there[id] ? "is there cannot be found by hm_lookup()"
            : "was removed is found by hm_lookup()");
        EXPECTED("a node is found as long as it is in the table");
    }
    return link;
}

static void clear(void) {
    hm_destroy(&g_map);
    memset(g_there, 0, sizeof(g_there));
    g_n = 0;
}

static void check(void) {
    if (!hm_check(&g_map) || hm_size(&g_map) != g_n) {
        CAME("with %zu nodes, hm_check() says %s, and hm_size() %zu", g_n, hm_check(&g_map) ? "yes" : "no",
            hm_size(&g_map));
        EXPECTED("yes, and %zu", g_n);
    }
}

static void nothing(void) {
}

static uint32_t next_random(void) {
    static uint32_t state = 8;
    state = state * 1664525 + 1013904223;
    return state >> 8;
}

// Random steps; `bias` of 8 are insertions.
static void steps(unsigned n, unsigned range, unsigned bias, void (*look)(void)) {
    for (unsigned i = 0; i < n; i++) {
        unsigned id = next_random() % range, way = next_random() % 8;
        if (!g_there[id] && way < bias) {
            insert(id);
        } else if (way >= bias) {
            take_out(id);
        } else {
            find(id);
        }
        if (g_n > 0 || g_map.newer.tab) {
            look();
        }
    }
    for (unsigned id = 0; id < range; id++) {
        find(id);
    }
}

static void test_model(void) {
    for (int round = 0; round < 2; round++) {
        for (g_kind = 0; g_kind < 5; g_kind++) {
            for (unsigned range = 3; range <= 200; range = range * 3 / 2 + 1) {
                clear();
                steps(range * 4, range, 7, round ? check : nothing);
                steps(range * 4, range, 2, round ? check : nothing);
                steps(range * 6, range, 4, round ? check : nothing);
            }
        }
    }
    g_kind = 0;
}

static void test_work(void) {
    g_watch_work = true;
    for (g_kind = 0; g_kind < 2; g_kind++) {
        clear();
        for (unsigned id = 0; id < k_most; id++) {
            insert(id);
            if (id % 4 == 1) {
                find(id / 2);
            }
        }
        for (unsigned id = 0; id < k_most; id += 3) {
            take_out(id);
        }
    }
    g_kind = 0;
}

static size_t g_most; // nodes that there were at once

static void look_at_slots(void) {
    const struct htab *htab = &g_map.newer;
    size_t empty = 0, slots = htab->mask + 1;
    for (size_t i = 0; i <= htab->mask; i++) {
        empty += !htab->tab[i];
    }
    g_most = g_n > g_most ? g_n : g_most;
    if (empty * 4 < slots) {
        CAME("%zu of %zu slots of the newer table are NULL, with %zu nodes", empty, slots, g_n);
        EXPECTED("a quarter of them at least are NULL");
    }
    if (slots < 4 || (slots > 16 && slots > 8 * g_most)) {
        CAME("%zu slots, and there were never more than %zu nodes at once", slots, g_most);
        EXPECTED("at most 8 for a node, and k_min_buckets at least");
    }
}

static void test_slots(void) {
    for (unsigned range = 5; range <= 600; range = range * 3) {
        clear();
        g_most = 0;
        steps(range * 4, range, 7, look_at_slots);
        steps(range * 4, range, 1, look_at_slots);
        steps(range * 8, range, 4, look_at_slots);
    }
    clear();
    g_most = 0;
    for (unsigned i = 0; i < 40000; i++) { // ten nodes at a time, always others
        insert(i % k_most);
        if (i >= 10) {
            take_out((i - 10) % k_most);
        }
        look_at_slots();
    }
}

static bool free_one(struct hnode *node, void *arg) {
    ++*(unsigned *)arg;
    memset(node, 0xff, sizeof(struct item));
    free(node);
    return true;
}

static bool stop(struct hnode *node, void *arg) {
    (void)node;
    return --*(unsigned *)arg > 0;
}

static void test_owner(void) {
    for (unsigned n = 1; n <= 200; n += 1 + n / 7) {
        clear();
        for (unsigned id = 0; id < n; id++) {
            insert(id);
        }
        for (unsigned id = 0; id < n; id++) {
            struct item heir = g_items[id];
            *find(id) = &heir.node;
            struct hnode *node = hm_pop(&g_map, &heir.node, hnode_same);
            if (node != &heir.node) {
                CAME("with %u nodes, the one that was put where hm_lookup() says cannot be found", n);
                EXPECTED("hm_lookup() returns the address of the pointer that owns the node");
            }
            hm_insert(&g_map, &g_items[id].node);
        }
        unsigned left = n;
        hm_scan(&g_map, stop, &left);
        struct hmap map;
        memset(&map, 0, sizeof(map));
        for (unsigned id = 0; id < n; id++) {
            struct item *item = malloc(sizeof(*item));
            *item = item_of(id);
            hm_insert(&map, &item->node);
        }
        unsigned freed = 0;
        hm_scan(&map, free_one, &freed);
        hm_destroy(&map);
        if (left != 0 || freed != n) {
            CAME("hm_scan() of %u nodes called its function %u times, and %u times in a table of another %u", n,
                n - left, freed, n);
            EXPECTED("once for each node");
        }
    }
}

int main(int argc, char **argv) {
    (void)argc;
    switch (argv[1][0]) {
    case 'm': test_model(); break;
    case 'w': test_work(); break;
    case 's': test_slots(); break;
    case 'o': test_owner(); break;
    case 'n': printf("%zu\n", sizeof(struct hnode)); break;
    }
    clear();
}
"""


def run_lab(work: Submission, part: str, cause: str) -> str:
    """Runs a part of the lab; what it prints is the lesson, or what it found."""
    lab = work.build({"lab.c": LAB}, "lab")
    out, err, status = work.run([lab, part], seconds=15)
    if status:
        said = dict(line.split(": ", 1) for line in out.splitlines() if ": " in line)
        last = (err.strip() or out.strip()).splitlines()[-1:]
        came = said.get(
            "came", f"it ended with {status_text(status)}" + "".join(f", and its last line is\n{line}" for line in last)
        )
        work.fail(came=came, expected=said.get("expected", "no assertion fails, and nothing crashes"), cause=cause)
    return out


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of keys, with the server built on your table; and the size of a node."""
    size = run_lab(work, "n", "").strip()
    work.expect(
        size == "8", came=f"struct hnode has {size} bytes", expected="8: a hash code, a length, and no pointer",
        cause="is it still linked to another node?",
    )  # fmt: skip
    work.chapter_tests("a_key_comes_and_goes or all_keys_after_each or same_hash or keys_removed")


@points(4, "against a model")
def test_model(work: Submission) -> None:
    """Random insertions, removals and lookups in tables of all sizes, with hash codes of five kinds."""
    run_lab(
        work,
        "model",
        (
            "a search ends at an empty slot: can there be one on the way to a node? Think of the end of the array, too,"
            " and of the older table"
        ),
    )


@points(2, "bounded work")
def test_work(work: Submission) -> None:
    """A table that grows to 4000 nodes. In each call, the nodes that it moves and the slots that it passes are
    counted."""
    run_lab(work, "work", "moving is for hm_help_resizing(), one portion in each call")


@points(3, "empty slots")
def test_slots(work: Submission) -> None:
    """Nodes come and go, in tables of all sizes, and for long. How many slots are there, and how many are empty?"""
    run_lab(work, "slots", "at which load does the table grow? And does a removal give its slot back?")


@points(2, "slots that own, and scans")
def test_owner(work: Submission) -> None:
    """Each node is replaced by another one where hm_lookup says; then hm_scan, with a function that frees the nodes."""
    run_lab(work, "owner", "what does hm_scan look at after its function has freed the node?")
