// levels.c, chapter 13: how many levels do the items of a heap move?
//
//     ./levels [items]        a million of them, if you name no number
//
// A lab program for common/heap.h. It fills a heap in three ways, and counts for each how many levels
// a new item climbs on average. Then the heap stays full: for each item that goes, a new one comes.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "heap.h"

// Returns the next of a series of numbers from 0 to below `limit` that look random.
static int64_t any(int64_t limit) {
    static uint64_t state = 13;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(state >> 33) % limit;
}

// Returns how many levels are above `pos`.
static int level(size_t pos) {
    int level = 0;
    for (; pos > 0; pos = heap_parent(pos)) {
        level++;
    }
    return level;
}

// Returns how many levels the new item climbs.
static int push(struct heap *heap, uint32_t *ref, int64_t deadline) {
    *ref = k_heap_none;
    heap_upsert(heap, ref, deadline);
    return level(heap->len - 1) - level(*ref);
}

enum how { SAME_TTL, ANY_DEADLINE, ANY_TTL };

static void fill(struct heap *heap, uint32_t *refs, int64_t items, enum how how, const char *name) {
    int64_t ups = 0;
    heap->len = 0;
    for (int64_t now = 0; now < items; now++) {
        int64_t deadline = how == SAME_TTL ? now + items : any(items) + (how == ANY_TTL ? now : 0);
        ups += push(heap, &refs[now], deadline);
    }
    printf("%-28s %5.2f up\n", name, (double)ups / (double)items);
}

// The time is always that of the next deadline: its item goes, and one with any TTL comes.
static void run(struct heap *heap, int64_t items) {
    int64_t ups = 0, downs = 0;
    for (int64_t i = 0; i < items; i++) {
        int64_t now = heap->items[0].val;
        uint32_t *first = heap->items[0].ref, *last = heap->items[heap->len - 1].ref;
        heap_delete(heap, 0);
        downs += level(*last);
        ups += push(heap, first, now + any(items));
    }
    printf("%-28s %5.2f up, removal %5.2f down\n",
           "one comes for one that goes",
           (double)ups / (double)items,
           (double)downs / (double)items);
}

int main(int argc, char **argv) {
    int64_t items = argc > 1 ? atoll(argv[1]) : 1 << 20;
    if (items < 2 || items > 1 << 24) {
        fprintf(stderr, "levels: the number of items is from 2 to %d\n", 1 << 24);
        return 1;
    }
    struct heap heap = {0};
    uint32_t *refs = mem_realloc(NULL, (size_t)items * sizeof(refs[0]));
    fill(&heap, refs, items, SAME_TTL, "the same TTL for all");
    fill(&heap, refs, items, ANY_DEADLINE, "any deadline");
    fill(&heap, refs, items, ANY_TTL, "any TTL, as time goes on");
    run(&heap, items);
    free(heap.items);
    free(refs);
}
