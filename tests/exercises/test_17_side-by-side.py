"""17-side-by-side: where the walks end, and in which order they fetch what they will look at."""
from __future__ import annotations

import lab
from grading import Submission, points

# Notes what is fetched. g_step[i] says for each address the walk and the step that should fetch it.
SEEN = r"""
static const void *g_seen[4096];
static int g_n;
static void note(const void *at) {
    if (at && g_n < 4096) {
        g_seen[g_n++] = at;
    }
}
#define FIRST(at, ...) (at)
#define __builtin_prefetch(...) note(FIRST(__VA_ARGS__, 0))
#include "lookahead.h"
static const void *g_way[64][64];
static int g_len[64];

// Each of the ways was fetched, once, and no walk was a step ahead of another.
static void check(int walks) {
    for (int i = 0, step = 0; i < g_n; i++) {
        int found = -1;
        for (int w = 0; w < walks; w++) {
            for (int s = 0; s < g_len[w]; s++) {
                found = g_way[w][s] == g_seen[i] ? s : found;
            }
        }
        for (int j = 0; j < i; j++) {
            if (g_seen[j] == g_seen[i]) {
                CAME("a node was fetched twice");
                EXPECTED("each node on the way is fetched once");
            }
        }
        if (found < 0) {
            CAME("a node was fetched that no walk comes to");
            EXPECTED("what is on the way, and nothing else");
        }
        if (found < step) {
            CAME("step %d of one walk was fetched after step %d of another: that one was ahead", found + 1, step + 1);
            EXPECTED("a step of each walk, then the next step of each");
        }
        step = found;
    }
    int all = 0;
    for (int w = 0; w < walks; w++) {
        all += g_len[w];
    }
    if (all != g_n) {
        CAME("%d nodes were fetched", g_n);
        EXPECTED("all %d that are on the way", all);
    }
}
"""

TABLE = r"""
enum { k_nodes = 600 };
static struct hnode g_nodes[k_nodes];
static struct hmap g_hmap;

static uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x85ebca6b;
    x = (x ^ x >> 13) * 0xc2b2ae35;
    return x ^ x >> 16;
}
"""

ENDS = r"""
int main(void) {
    for (uint32_t n = 0; n < k_nodes; n++) {
        if (n > 0) {
            g_nodes[n] = (struct hnode){.hcode = mix(n), .key_len = 1};
            hm_insert(&g_hmap, &g_nodes[n]);
        }
        TRYING("a table of %u nodes", (unsigned)n);
        for (uint32_t from = 0; from <= n + 20; from += 16) {
            struct hwalk walks[16];
            for (uint32_t i = 0; i < 16; i++) {
                walks[i] = hwalk_begin(&g_hmap, mix(from + i));
            }
            hwalk_all(walks, 16);
            for (uint32_t i = 0; i < 16; i++) {
                const struct hnode *node = walks[i].bucket ? *walks[i].bucket : NULL;
                while (node && node->hcode != mix(from + i)) {
                    node = node->next;
                }
                if (walks[i].node != node) {
                    CAME("a walk did not end at the first node of its chain with the hash code, or at NULL");
                    EXPECTED("it goes along the chain until then, however long that is");
                }
            }
        }
    }
    hm_destroy(&g_hmap);
    struct hwalk nowhere[2] = {{0}, {0}};
    TRYING("walks that lead nowhere");
    hwalk_all(nowhere, 2);
    hwalk_all(nowhere, 0);
    struct hash_key hash_key = {1, 2};
    struct zset zset;
    zset_init(&zset, &hash_key);
    for (int n = 0; n < 300; n++) {
        TRYING("a sorted set of %d pairs", n);
        struct zwalk walks[3] = {{zset.root, -1}, {zset.root, n / 2.0}, {zset.root, 1000}};
        zwalk_all(walks, 3);
        if (walks[0].tree || walks[1].tree || walks[2].tree) {
            CAME("a walk did not go down to the end");
            EXPECTED("each ends below a leaf, at NULL");
        }
        uint8_t name[2] = {(uint8_t)(n % 256), (uint8_t)(n / 256)};
        zset_add(&zset, name, 2, n % 7 ? n : n / 2);
    }
    zset_dispose(&zset);
    printf("all well\n");
}
"""

CHAINS = r"""
int main(void) {
    enum { k_walks = 12 };
    struct hnode *chains[k_walks];
    struct hwalk walks[k_walks];
    struct hnode *next = g_nodes;
    for (int w = 0; w < k_walks; w++) { // of 0 to 11 nodes; the last one, or none, is what is looked for
        chains[w] = w ? next : NULL;
        for (int s = 0; s < w; s++, next++) {
            *next = (struct hnode){.hcode = (uint32_t)(s == w - 1 && w % 3 ? 7 : 100 + s)};
            next->next = s == w - 1 ? NULL : next + 1;
            g_way[w][s] = next;
        }
        g_len[w] = w;
        walks[w] = (struct hwalk){.bucket = &chains[w], .hcode = 7};
    }
    TRYING("twelve chains of 0 to 11 nodes");
    hwalk_all(walks, k_walks);
    check(k_walks);
    printf("all well\n");
}
"""

WAYS = r"""
int main(void) {
    enum { k_walks = 10 };
    struct zset zsets[k_walks];
    struct zwalk walks[k_walks];
    struct hash_key hash_key = {1, 2};
    for (int w = 0; w < k_walks; w++) { // of 0, 1, 3, 7, .. pairs
        zset_init(&zsets[w], &hash_key);
        for (int n = 0; n < (1 << w) - 1; n++) {
            uint8_t name[2] = {(uint8_t)(n % 256), (uint8_t)(n / 256)};
            zset_add(&zsets[w], name, 2, n);
        }
        double score = (1 << w) * 0.37;
        walks[w] = (struct zwalk){zsets[w].root, score};
        for (struct avl_node *tree = zsets[w].root; tree;) {
            tree = znode_of(tree)->score < score ? tree->right : tree->left;
            if (tree) {
                g_way[w][g_len[w]++] = tree;
            }
        }
    }
    TRYING("ten sorted sets of 0 to 511 pairs");
    g_n = 0;
    zwalk_all(walks, k_walks);
    check(k_walks);
    for (int w = 0; w < k_walks; w++) {
        zset_dispose(&zsets[w]);
    }
    printf("all well\n");
}
"""
FLAGS = ("-w",)


@points(2, "where the walks end")
def test_ends(work: Submission) -> None:
    """Walks in a table that grows node by node, of keys that are there and that are not, and in sets of up to 299."""
    lab.passes(work, "ends", SEEN + TABLE + ENDS, flags=FLAGS)


@points(3, "along chains")
def test_chains(work: Submission) -> None:
    """In which order hwalk_all() fetches the nodes of twelve chains."""
    cause = "is the loop over the walks inside the one over the steps?"
    lab.passes(work, "chains", SEEN + TABLE + CHAINS, cause, flags=FLAGS)


@points(3, "down trees")
def test_trees(work: Submission) -> None:
    """In which order zwalk_all() fetches the nodes on ten ways down."""
    lab.passes(work, "trees", SEEN + WAYS, "only the child that the next step looks at is fetched", flags=FLAGS)


@points(2, "the server with this header")
def test_server(work: Submission) -> None:
    """The chapter's tests of requests that come together."""
    work.chapter_tests("each_command_behind_each or tables_that_grow_within or together_as_one_by_one")
