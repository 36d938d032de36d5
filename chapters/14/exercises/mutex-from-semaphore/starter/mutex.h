// mutex.h: a mutex from a semaphore
//
// One thread at a time has it.
#pragma once

#include <semaphore.h>

struct mutex {
    sem_t sem; // what does its number count?
};

// Makes `mutex` one that nobody has.
static inline void mutex_init(struct mutex *mutex) {
    (void)mutex;
}

// Waits until nobody has it, and then has it.
static inline void mutex_lock(struct mutex *mutex) {
    (void)mutex;
}

// Gives it back. Any thread may do that.
static inline void mutex_unlock(struct mutex *mutex) {
    (void)mutex;
}

// Frees what the mutex owns. Nobody has it, nobody waits.
static inline void mutex_destroy(struct mutex *mutex) {
    (void)mutex;
}
