// thread_pool.h: built in chapter 14
//
// Threads that wait for work, and a queue that they take it from.
//
//   loop --thread_pool_queue()--> [ work | work | work ] --worker()--> f(arg)
//                                        mu guards it; not_empty wakes a worker
//
// A work item belongs to one side at a time: to the loop until it is queued, to the worker from
// there on. What f is given must not be reachable from anywhere else any more.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "mem.h"

struct work {
    void (*f)(void *arg);
    void *arg;
    struct work *next;
};

struct thread_pool {
    pthread_t *threads; // the loop's own
    size_t num_threads; // the loop's own
    pthread_mutex_t mu;
    pthread_cond_t not_empty; // signalled when the queue or `stopping` changes
    struct work *first;       // guarded by mu
    struct work **end;        // guarded by mu; where the next one is linked
    bool stopping;            // guarded by mu
};

// A worker's life: wait for work, do it outside of the lock, and leave when the pool is stopping
// and the queue is empty.
static inline void *worker(void *arg) {
    struct thread_pool *pool = arg;
    pthread_mutex_lock(&pool->mu);
    while (true) {
        // A wake-up is a hint, not a promise: another worker may have been faster, or there was
        // no signal at all. So look again, every time.
        while (!pool->first && !pool->stopping) {
            pthread_cond_wait(&pool->not_empty, &pool->mu);
        }
        struct work *work = pool->first;
        if (!work) {
            break;
        }
        pool->first = work->next;
        if (!pool->first) {
            pool->end = &pool->first;
        }
        pthread_mutex_unlock(&pool->mu);
        work->f(work->arg);
        free(work);
        pthread_mutex_lock(&pool->mu);
    }
    pthread_mutex_unlock(&pool->mu);
    return NULL;
}

// Starts `num_threads` workers, which take no signals but those of a crash of their own. Ends the
// program with one line where they cannot be started. The pool must stay where it is until
// thread_pool_destroy().
static inline void thread_pool_init(struct thread_pool *pool, size_t num_threads) {
    *pool = (struct thread_pool){.num_threads = num_threads};
    pool->threads = mem_calloc(num_threads, sizeof(pthread_t));
    pool->end = &pool->first;
    pthread_mutex_init(&pool->mu, NULL);
    pthread_cond_init(&pool->not_empty, NULL);
    sigset_t mask, old;
    sigfillset(&mask);
    sigdelset(&mask, SIGSEGV); // raised by a mistake of the thread itself, as are the next three
    sigdelset(&mask, SIGBUS);
    sigdelset(&mask, SIGFPE);
    sigdelset(&mask, SIGILL);
    pthread_sigmask(SIG_SETMASK, &mask, &old); // a new thread inherits the mask
    for (size_t i = 0; i < num_threads; i++) {
        errno = pthread_create(&pool->threads[i], NULL, worker, pool);
        if (errno) {
            die("pthread_create");
        }
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

// Has a worker call f(arg), soon. Takes arg. Cost: O(1); waits for the lock at most.
static inline void thread_pool_queue(struct thread_pool *pool, void (*f)(void *), void *arg) {
    struct work *work = mem_alloc(sizeof(*work));
    *work = (struct work){.f = f, .arg = arg};
    pthread_mutex_lock(&pool->mu);
    *pool->end = work;
    pool->end = &work->next;
    pthread_cond_signal(&pool->not_empty);
    pthread_mutex_unlock(&pool->mu);
}

// Waits until all queued work is done, ends the workers and frees what the pool owns.
static inline void thread_pool_destroy(struct thread_pool *pool) {
    pthread_mutex_lock(&pool->mu);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->not_empty);
    pthread_mutex_unlock(&pool->mu);
    for (size_t i = 0; i < pool->num_threads; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    pthread_cond_destroy(&pool->not_empty);
    pthread_mutex_destroy(&pool->mu);
    free(pool->threads);
}
