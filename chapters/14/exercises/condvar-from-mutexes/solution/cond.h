// cond.h: a condition variable from mutexes
//
// Each thread that waits has a mutex of its own, which is locked, and which it locks once more: that is where it sleeps.
//
//   cond ---first---> waiter ---next---> waiter ---next---> NULL        the one that has waited longest is first
//
// To wake a thread is to unlock its mutex. Where it has not come to its second lock yet, it will not sleep there: what
// was unlocked is still unlocked then. So no wake-up is lost between the caller's unlock and the sleep.
#pragma once

#include <stddef.h>

#include "mutex.h"

// A thread that waits. It lives on the stack of that thread, until its mutex is unlocked.
struct cond_waiter {
    struct mutex woken; // locked until it is woken
    struct cond_waiter *next;
};

struct cond {
    struct mutex mutex;        // guards the list
    struct cond_waiter *first; // guarded by mutex
    struct cond_waiter **end;  // guarded by mutex; where the next one is linked
};

// Makes `cond` one for which nobody waits.
static inline void cond_init(struct cond *cond) {
    mutex_init(&cond->mutex);
    cond->first = NULL;
    cond->end = &cond->first;
}

// Unlocks `mutex`, waits until it is woken, and locks `mutex` again. The caller has it locked.
static inline void cond_wait(struct cond *cond, struct mutex *mutex) {
    struct cond_waiter self = {.next = NULL};
    mutex_init(&self.woken);
    mutex_lock(&self.woken);
    mutex_lock(&cond->mutex);
    *cond->end = &self;
    cond->end = &self.next;
    mutex_unlock(&cond->mutex);
    mutex_unlock(mutex);
    mutex_lock(&self.woken);
    mutex_destroy(&self.woken);
    mutex_lock(mutex);
}

// Wakes the thread that has waited for longest, if there is one.
static inline void cond_signal(struct cond *cond) {
    mutex_lock(&cond->mutex);
    struct cond_waiter *waiter = cond->first;
    if (waiter) {
        cond->first = waiter->next;
        if (!cond->first) {
            cond->end = &cond->first;
        }
    }
    mutex_unlock(&cond->mutex);
    if (waiter) {
        mutex_unlock(&waiter->woken);
    }
}

// Wakes all threads that wait.
static inline void cond_broadcast(struct cond *cond) {
    mutex_lock(&cond->mutex);
    struct cond_waiter *waiter = cond->first;
    cond->first = NULL;
    cond->end = &cond->first;
    mutex_unlock(&cond->mutex);
    while (waiter) {
        struct cond_waiter *next = waiter->next; // once it is woken, it may be gone
        mutex_unlock(&waiter->woken);
        waiter = next;
    }
}

// Frees what the condition variable owns. Nobody waits for it any more.
static inline void cond_destroy(struct cond *cond) {
    mutex_destroy(&cond->mutex);
}
