// dlist.h: built in chapter 12
//
// A doubly linked list of nodes that are embedded in the payload. The list is a ring, closed by a
// node that has no payload:
//
//      +-> list <-> first <-> second <-> last <-+
//      +----------------------------------------+
//
// So a node is taken out in O(1) without knowing its list, and no link is ever NULL.
#pragma once

#include <stdbool.h>

struct dlist {
    struct dlist *prev;
    struct dlist *next;
};

// Makes `list` an empty list.
static inline void dlist_init(struct dlist *list) {
    list->prev = list;
    list->next = list;
}

// Tells whether the list has no nodes.
static inline bool dlist_empty(const struct dlist *list) {
    return list->next == list;
}

// Takes `node` out of its list. Cost: O(1).
static inline void dlist_detach(struct dlist *node) {
    node->prev->next = node->next;
    node->next->prev = node->prev;
}

// Puts `node` right before `target`; before the list itself is at its end. The list borrows the
// node until dlist_detach(). Cost: O(1).
static inline void dlist_insert_before(struct dlist *target, struct dlist *node) {
    node->prev = target->prev;
    node->next = target;
    target->prev->next = node;
    target->prev = node;
}

// Tells whether every link has its counterpart. For tests. Cost: O(n).
static inline bool dlist_check(const struct dlist *list) {
    const struct dlist *node = list;
    do {
        if (node->next->prev != node) {
            return false;
        }
        node = node->next;
    } while (node != list);
    return true;
}
