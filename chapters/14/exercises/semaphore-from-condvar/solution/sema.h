// sema.h: a semaphore from a number, a mutex and a condition variable
//
// The number never falls below zero: who wants to take one away waits until there is one.
#pragma once

#include <pthread.h>

struct sema {
    pthread_mutex_t mu;
    pthread_cond_t positive; // signalled whenever n grows
    unsigned n;              // guarded by mu
};

// Makes `sema` a semaphore with the number `n`.
static inline void sema_init(struct sema *sema, unsigned n) {
    pthread_mutex_init(&sema->mu, NULL);
    pthread_cond_init(&sema->positive, NULL);
    sema->n = n;
}

// Adds one. Signals every time, since several may wait: the first that was woken may not have come
// to take its one when the next post comes and finds the number positive already.
static inline void sema_post(struct sema *sema) {
    pthread_mutex_lock(&sema->mu);
    sema->n++;
    pthread_cond_signal(&sema->positive);
    pthread_mutex_unlock(&sema->mu);
}

// Waits until the number is positive, and takes one away.
static inline void sema_wait(struct sema *sema) {
    pthread_mutex_lock(&sema->mu);
    while (sema->n == 0) {
        pthread_cond_wait(&sema->positive, &sema->mu);
    }
    sema->n--;
    pthread_mutex_unlock(&sema->mu);
}

// Frees what the semaphore owns. Nobody waits for it any more.
static inline void sema_destroy(struct sema *sema) {
    pthread_cond_destroy(&sema->positive);
    pthread_mutex_destroy(&sema->mu);
}
