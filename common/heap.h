// heap.h: built in chapter 13
//
// A binary min-heap in an array: which of many values is the smallest?
//
//            [0]                 children of i: 2i + 1 and 2i + 2
//          /     \               parent of i:   (i - 1) / 2
//       [1]       [2]
//      /   \     /               Invariant: no item is less than its parent.
//    [3]   [4] [5]
//
// Every item points back at the payload's own record of where the item is (ref), and whenever an
// item moves, that record is written. So a payload finds its item, and can change or delete it.
// (J. W. J. Williams, "Algorithm 232: Heapsort", 1964; the back-references are folklore.)
//
// The user sets the record to k_heap_none before the payload's first heap_upsert(), and writes
// items[i].ref where the payload moves in memory.
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "mem.h"

// The record of a payload that is not in the heap.
static const uint32_t k_heap_none = UINT32_MAX;

struct heap_item {
    int64_t val;
    uint32_t *ref;
};

// The heap. Zeroed is empty; it owns the array of items: free(heap->items).
struct heap {
    struct heap_item *items;
    size_t len;
    size_t cap;
};

// Returns the position of the parent of `pos`, which is not 0.
static inline size_t heap_parent(size_t pos) {
    return (pos - 1) / 2;
}

// Returns the position of the left child of `pos`.
static inline size_t heap_left(size_t pos) {
    return pos * 2 + 1;
}

// Returns the position of the right child of `pos`.
static inline size_t heap_right(size_t pos) {
    return pos * 2 + 2;
}

// Puts `item` at `pos` and tells its payload.
static inline void heap_place(struct heap_item *items, size_t pos, struct heap_item item) {
    items[pos] = item;
    *item.ref = (uint32_t)pos;
}

// Moves the item at `pos` up to where its parent is not greater. Cost: O(log n).
static inline void heap_up(struct heap_item *items, size_t pos) {
    struct heap_item item = items[pos];
    while (pos > 0 && items[heap_parent(pos)].val > item.val) {
        heap_place(items, pos, items[heap_parent(pos)]);
        pos = heap_parent(pos);
    }
    heap_place(items, pos, item);
}

// Moves the item at `pos` down to where its children are not less. Cost: O(log n).
static inline void heap_down(struct heap_item *items, size_t pos, size_t len) {
    struct heap_item item = items[pos];
    while (heap_left(pos) < len) {
        size_t child = heap_left(pos);
        if (heap_right(pos) < len && items[heap_right(pos)].val < items[child].val) {
            child = heap_right(pos);
        }
        if (items[child].val >= item.val) {
            break;
        }
        heap_place(items, pos, items[child]);
        pos = child;
    }
    heap_place(items, pos, item);
}

// Restores the invariant after the value at `pos` has changed, either way. Cost: O(log n).
static inline void heap_update(struct heap_item *items, size_t pos, size_t len) {
    if (pos > 0 && items[heap_parent(pos)].val > items[pos].val) {
        heap_up(items, pos);
    } else {
        heap_down(items, pos, len);
    }
}

// Gives the payload whose record is `ref` the value `val`, adding it to the heap if it is not in
// it. The heap borrows ref until heap_delete(). Cost: O(log n).
static inline void heap_upsert(struct heap *heap, uint32_t *ref, int64_t val) {
    size_t pos = *ref;
    if (*ref == k_heap_none) {
        if (heap->len == heap->cap) {
            heap->cap = heap->cap ? heap->cap * 2 : 16;
            heap->items = mem_realloc(heap->items, heap->cap * sizeof(heap->items[0]));
        }
        pos = heap->len++;
    }
    assert(pos < heap->len && pos < k_heap_none);
    heap_place(heap->items, pos, (struct heap_item){val, ref});
    heap_update(heap->items, pos, heap->len);
}

// Takes out the item at `pos`; its payload's record becomes k_heap_none. Cost: O(log n).
static inline void heap_delete(struct heap *heap, size_t pos) {
    assert(pos < heap->len);
    *heap->items[pos].ref = k_heap_none;
    heap->len--;
    if (pos < heap->len) {
        heap_place(heap->items, pos, heap->items[heap->len]);
        heap_update(heap->items, pos, heap->len);
    }
}

// Tells whether every invariant holds. For tests. Cost: O(n).
static inline bool heap_check(const struct heap *heap) {
    for (size_t i = 0; i < heap->len; i++) {
        if (*heap->items[i].ref != i) {
            return false;
        }
        if (i > 0 && heap->items[heap_parent(i)].val > heap->items[i].val) {
            return false;
        }
    }
    return heap->len <= heap->cap;
}
