// timers.h: timers with deadlines of any distance, sorted in a tree
//
// A timer is embedded in what it belongs to. It waits from timer_set() on, until it goes off or is stopped.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "avl.h"
#include "intrusive.h"

struct timer {
    struct avl_node node;
    int64_t deadline_ms; // not to be written while it waits: the tree is sorted by it
    void (*f)(struct timer *timer);
    bool waits; // is it in the tree?
};

// All that wait. Zeroed is empty. In the tree, a timer on the left is due before, or at the same time.
struct timers {
    struct avl_node *root;
};

// Makes `timer` one that does not wait, and that will call `f` when it goes off.
static inline void timer_init(struct timer *timer, void (*f)(struct timer *timer)) {
    *timer = (struct timer){.f = f};
}

// Has the timer not go off; where it does not wait, this does nothing. Cost: O(log n).
static inline void timer_stop(struct timers *timers, struct timer *timer) {
    if (timer->waits) {
        avl_del(&timers->root, &timer->node);
        timer->waits = false;
    }
}

// Has the timer go off when the time is past `deadline_ms`. Where it waits already, this is its new deadline.
// Cost: O(log n).
static inline void timer_set(struct timers *timers, struct timer *timer, int64_t deadline_ms) {
    timer_stop(timers, timer);
    timer->deadline_ms = deadline_ms;
    timer->waits = true;
    struct avl_node *parent = NULL, **link = &timers->root;
    while (*link) {
        parent = *link;
        bool before = deadline_ms < container_of(parent, struct timer, node)->deadline_ms;
        link = before ? &parent->left : &parent->right;
    }
    avl_link(&timers->root, parent, link, &timer->node);
}

// Returns the timer that is due first, borrowed, NULL where none waits. Cost: O(log n).
static inline struct timer *timers_first(const struct timers *timers) {
    struct avl_node *node = timers->root;
    if (!node) {
        return NULL;
    }
    while (node->left) {
        node = node->left;
    }
    return container_of(node, struct timer, node);
}

// Returns the nearest deadline, INT64_MAX where no timer waits. Cost: O(log n).
static inline int64_t timers_next(const struct timers *timers) {
    const struct timer *first = timers_first(timers);
    return first ? first->deadline_ms : INT64_MAX;
}

// Has all timers go off whose deadline is less than `now_ms`, the nearest first. A timer that goes off does not wait any
// more when its f is called. f may set, stop and free timers, its own and others.
static inline void timers_run(struct timers *timers, int64_t now_ms) {
    struct timer *first;
    while ((first = timers_first(timers)) && now_ms > first->deadline_ms) {
        timer_stop(timers, first);
        first->f(first);
    }
}
