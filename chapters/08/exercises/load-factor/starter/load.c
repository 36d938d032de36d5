// load.c: what does k_max_load_factor cost, and what does it save?
//
// Counts, for a table of many nodes: its buckets, the nodes that a lookup passes, and the insertions
// and the work from one doubling to the next. There is no clock in it, and no chance.

#include <stdint.h>
#include <stdio.h>

#include "hashtable.h"
#include "mem.h"

enum {
    k_nodes = 100000,
    k_watched = 1024, // buckets of the table whose doubling is watched
};

// Mixes the bits of a number well: every number has another code.
static uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x85ebca6b;
    x = (x ^ x >> 13) * 0xc2b2ae35;
    return x ^ x >> 16;
}

// Returns how many nodes a lookup passes: those of the chain up to the one that it finds, or all.
static size_t passed(const struct htab *htab, const struct hnode *node) {
    size_t n = 0;
    for (const struct hnode *cur = htab->tab[node->hcode & htab->mask]; cur; cur = cur->next) {
        n++;
        if (cur == node) {
            break;
        }
    }
    return n;
}

// Inserts node after node, and tells what lies between two doublings.
static void fill(struct hmap *hmap, struct hnode *nodes) {
    size_t since = 0, work_calls = 0;
    for (uint32_t i = 0; i < k_nodes; i++) {
        nodes[i] = (struct hnode){.hcode = mix(i), .key_len = 4};
        size_t before = hmap->newer.mask;
        hm_insert(hmap, &nodes[i]);
        bool doubled = hmap->newer.mask != before && i > 0;
        if (doubled && before + 1 == k_watched) {
            since = i;
        }
        if (doubled && before + 1 == 2 * k_watched) {
            printf("insertions between two doublings       %zu\n", i - since);
            printf("insertions until all has moved         %zu\n", work_calls);
        }
        work_calls += hmap->older.tab && hmap->older.mask + 1 == k_watched;
    }
    while (hmap->older.tab) {
        hm_help_resizing(hmap);
    }
}

int main(void) {
    struct hmap hmap = {0};
    struct hnode *nodes = mem_calloc(k_nodes, sizeof(*nodes));
    printf("load factor                            %d\n", (int)k_max_load_factor);
    fill(&hmap, nodes);
    size_t found = 0, missed = 0;
    for (uint32_t i = 0; i < k_nodes; i++) {
        struct hnode other = {.hcode = mix(k_nodes + i), .key_len = 4};
        found += passed(&hmap.newer, &nodes[i]);
        missed += passed(&hmap.newer, &other);
    }
    printf("buckets                                %zu\n", hmap.newer.mask + 1);
    printf("passed by a lookup that finds its key  %.2f\n", (double)found / k_nodes);
    printf("passed by a lookup that does not       %.2f\n", (double)missed / k_nodes);
    hm_destroy(&hmap);
    free(nodes);
}
