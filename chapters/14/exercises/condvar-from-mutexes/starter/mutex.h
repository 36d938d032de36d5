// mutex.h: a mutex from a semaphore
//
// One thread at a time has it.
#pragma once

#include <semaphore.h>

struct mutex {
    sem_t free; // 1 where nobody has it, 0 where somebody has
};

// Makes `mutex` one that nobody has.
static inline void mutex_init(struct mutex *mutex) {
    sem_init(&mutex->free, 0, 1);
}

// Waits until nobody has it, and then has it.
static inline void mutex_lock(struct mutex *mutex) {
    while (sem_wait(&mutex->free) < 0) {
        // a signal came: nothing was taken
    }
}

// Gives it back. Any thread may do that.
static inline void mutex_unlock(struct mutex *mutex) {
    sem_post(&mutex->free);
}

// Frees what the mutex owns. Nobody has it, nobody waits.
static inline void mutex_destroy(struct mutex *mutex) {
    sem_destroy(&mutex->free);
}
