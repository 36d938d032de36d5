// test_thread_pool.c, chapter 14: does the pool do what thread_pool.h says?
//
// One thread, this one, queues all work, as the server's loop does: more is not asked of the pool.
// Prints a line for each part; where something is wrong, the place in this file and what it is,
// with exit status 1. A pool that loses a wake-up waits for ever: then the part that hangs is named.

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mem.h"
#include "thread_pool.h"

enum {
    k_threads = 4,
    k_works = 100000, // items that are queued as fast as possible
    k_few_works = 1000,
    k_turns = 3000, // times that the queue is filled from empty
    k_pools = 200,  // pools that come and go
    k_limit_s = 20, // a part that takes longer hangs; all together take a second
};

// ---- what is wrong, and where ----

static const char *g_part = ""; // what we are trying

#define CHECK(cond) ((cond) ? (void)0 : wrong(__LINE__, #cond))

static void wrong(int line, const char *cond) {
    printf("test_thread_pool.c:%d: this does not hold: %s\n  part: %s\n", line, cond, g_part);
    fflush(stdout);
    _exit(1); // the other threads are still at work
}

// Makes only calls that the handler of a signal may make.
static void on_alarm(int sig) {
    (void)sig;
    static const char text[] = "test_thread_pool.c: this part hangs: ";
    if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0 ||
        write(STDOUT_FILENO, g_part, strlen(g_part)) < 0 || write(STDOUT_FILENO, "\n", 1) < 0) {
        // There is nowhere left to complain.
    }
    _exit(1);
}

static void begin(const char *part) {
    g_part = part;
    alarm(k_limit_s);
}

static void end(void) {
    printf("%s\n", g_part);
    fflush(stdout);
}

// ---- work ----

// What a piece of work gets. Most fields are for one part only.
struct item {
    atomic_int done; // how often it was done
    int number;      // which one it is
    int *next;       // number of the next one in order; the only worker's own
    sem_t *sem;      // posted once it is done
    pthread_barrier_t *barrier;
    struct thread_pool *pool;
};

static void count(void *arg) {
    struct item *item = arg;
    atomic_fetch_add(&item->done, 1);
}

static void count_in_order(void *arg) {
    struct item *item = arg;
    CHECK(item->number == *item->next);
    ++*item->next;
    count(item);
}

static void count_and_post(void *arg) {
    struct item *item = arg;
    count(item);
    sem_post(item->sem);
}

static void wait_for(sem_t *sem) {
    while (sem_wait(sem) < 0) {
    }
}

// Returns `n` items that nobody has worked on, owned by the caller: free().
static struct item *new_items(size_t n) {
    struct item *items = mem_calloc(n, sizeof(*items));
    for (size_t i = 0; i < n; i++) {
        items[i].number = (int)i;
    }
    return items;
}

static void check_once(const struct item *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
        CHECK(atomic_load(&items[i].done) == 1);
    }
}

// ---- all of it, once, in order ----

static void test_once(void) {
    begin("once: all work is done exactly once, by 1, 2, 4 and 8 threads");
    for (size_t num_threads = 1; num_threads <= 8; num_threads *= 2) {
        struct thread_pool pool;
        struct item *items = new_items(k_works);
        thread_pool_init(&pool, num_threads);
        for (size_t i = 0; i < k_works; i++) {
            thread_pool_queue(&pool, count, &items[i]);
        }
        thread_pool_destroy(&pool);
        check_once(items, k_works);
        free(items);
    }
    end();
}

static void test_order(void) {
    begin("order: one thread does the work in the order in which it was queued");
    struct thread_pool pool;
    struct item *items = new_items(k_works);
    int next = 0;
    thread_pool_init(&pool, 1);
    for (size_t i = 0; i < k_works; i++) {
        items[i].next = &next;
        thread_pool_queue(&pool, count_in_order, &items[i]);
    }
    thread_pool_destroy(&pool);
    CHECK(next == k_works);
    check_once(items, k_works);
    free(items);
    end();
}

// ---- waking up ----

static void meet(void *arg) {
    struct item *item = arg;
    pthread_barrier_wait(item->barrier);
    count_and_post(item);
}

// Has every worker do something at the same time: none goes on before all have come.
static void all_meet(struct thread_pool *pool) {
    sem_t sem;
    pthread_barrier_t barrier;
    struct item items[k_threads];
    sem_init(&sem, 0, 0);
    pthread_barrier_init(&barrier, NULL, k_threads);
    for (int i = 0; i < k_threads; i++) {
        items[i] = (struct item){.sem = &sem, .barrier = &barrier};
        thread_pool_queue(pool, meet, &items[i]);
    }
    for (int i = 0; i < k_threads; i++) {
        wait_for(&sem);
    }
    check_once(items, k_threads);
    pthread_barrier_destroy(&barrier);
    sem_destroy(&sem);
}

static void test_meet(void) {
    begin("together: four threads do four things at the same time, again and again");
    struct thread_pool pool;
    thread_pool_init(&pool, k_threads);
    for (int i = 0; i < k_turns; i++) {
        all_meet(&pool);
    }
    thread_pool_destroy(&pool);
    end();
}

static void test_from_empty(void) {
    begin("from empty: work that comes when all threads wait is done at once");
    struct thread_pool pool;
    struct item *items = new_items(k_turns);
    sem_t sem;
    sem_init(&sem, 0, 0);
    thread_pool_init(&pool, k_threads);
    for (int i = 0; i < k_turns; i++) {
        items[i].sem = &sem;
        thread_pool_queue(&pool, count_and_post, &items[i]);
        if (i % 3 != 1) { // now and then two at a time
            wait_for(&sem);
        }
        if (i % 3 == 2) {
            wait_for(&sem);
        }
    }
    check_once(items, k_turns);
    thread_pool_destroy(&pool);
    sem_destroy(&sem);
    free(items);
    end();
}

// A condition variable may wake a thread for nothing. That happens too rarely to wait for it, so we
// do it ourselves.
static void test_for_nothing(void) {
    begin("for nothing: a thread that is woken without work goes on waiting");
    struct thread_pool pool;
    thread_pool_init(&pool, k_threads);
    for (int i = 0; i < k_few_works; i++) {
        pthread_mutex_lock(&pool.mu);
        pthread_cond_broadcast(&pool.not_empty);
        pthread_mutex_unlock(&pool.mu);
        if (i % 10 == 0) {
            all_meet(&pool);
        }
    }
    all_meet(&pool);
    thread_pool_destroy(&pool);
    end();
}

static long cpu_ms(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static void test_no_cpu(void) {
    begin("no work: threads that wait use no processor time");
    struct thread_pool pool;
    thread_pool_init(&pool, k_threads);
    all_meet(&pool);
    long before = cpu_ms();
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    CHECK(cpu_ms() - before < 25);
    thread_pool_destroy(&pool);
    end();
}

// ---- the lock ----

static void wait_and_count(void *arg) {
    struct item *item = arg;
    wait_for(item->sem);
    count(item);
}

static void test_unlocked(void) {
    begin("unlocked: the loop can queue while all threads are busy");
    struct thread_pool pool;
    struct item *items = new_items(k_few_works);
    sem_t sem;
    sem_init(&sem, 0, 0);
    thread_pool_init(&pool, k_threads);
    for (size_t i = 0; i < k_few_works; i++) {
        items[i].sem = &sem;
        thread_pool_queue(&pool, wait_and_count, &items[i]);
    }
    for (size_t i = 0; i < k_few_works; i++) {
        CHECK(atomic_load(&items[i].done) == 0);
    }
    for (size_t i = 0; i < k_few_works; i++) {
        sem_post(&sem);
    }
    thread_pool_destroy(&pool);
    check_once(items, k_few_works);
    sem_destroy(&sem);
    free(items);
    end();
}

// ---- the end ----

static void wait_until_stopping(void *arg) {
    struct item *item = arg;
    for (bool stopping = false; !stopping;) {
        pthread_mutex_lock(&item->pool->mu);
        stopping = item->pool->stopping;
        pthread_mutex_unlock(&item->pool->mu);
    }
    count(item);
}

// The first items keep all threads busy until the pool is being destroyed, so all others are still
// in the queue by then.
static void test_destroy(void) {
    begin("the end: work that is still in the queue is done first");
    for (size_t num_threads = 1; num_threads <= k_threads; num_threads++) {
        struct thread_pool pool;
        struct item *items = new_items(k_few_works);
        thread_pool_init(&pool, num_threads);
        for (size_t i = 0; i < k_few_works; i++) {
            items[i].pool = &pool;
            thread_pool_queue(&pool, i < num_threads ? wait_until_stopping : count, &items[i]);
        }
        thread_pool_destroy(&pool);
        check_once(items, k_few_works);
        free(items);
    }
    end();
}

static void free_item(void *arg) {
    struct item *item = arg;
    CHECK(item->number == 14);
    free(item);
}

// What is queued belongs to the worker, so it may be gone before thread_pool_queue() returns.
static void test_come_and_go(void) {
    begin("come and go: pools with little work or none, which frees what it was given");
    for (int i = 0; i < k_pools; i++) {
        struct thread_pool pool;
        thread_pool_init(&pool, 1 + i % k_threads);
        for (int works = i % 6; works > 0; works--) {
            struct item *item = new_items(1);
            item->number = 14;
            thread_pool_queue(&pool, free_item, item);
        }
        thread_pool_destroy(&pool);
    }
    end();
}

// ---- signals ----

static void check_blocked(void *arg) {
    const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGALRM, SIGUSR1, SIGCHLD};
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        CHECK(sigismember(&blocked, signals[i]) == 1);
    }
    // A crash in a worker must still call a handler, such as that of a sanitizer.
    const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++) {
        CHECK(sigismember(&blocked, crashes[i]) == 0);
    }
    count_and_post(arg);
}

static void test_signals(void) {
    begin("signals: the workers take none, and the loop takes those that it took before");
    struct thread_pool pool;
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &some, NULL);
    thread_pool_init(&pool, k_threads);
    sigset_t after;
    pthread_sigmask(SIG_UNBLOCK, &some, &after);
    CHECK(sigismember(&after, SIGUSR2) == 1);
    CHECK(sigismember(&after, SIGTERM) == 0 && sigismember(&after, SIGALRM) == 0);
    sem_t sem;
    sem_init(&sem, 0, 0);
    struct item item = {.sem = &sem};
    thread_pool_queue(&pool, check_blocked, &item);
    wait_for(&sem);
    thread_pool_destroy(&pool);
    sem_destroy(&sem);
    end();
}

int main(void) {
    signal(SIGALRM, on_alarm);
    test_once();
    test_order();
    test_meet();
    test_from_empty();
    test_for_nothing();
    test_no_cpu();
    test_unlocked();
    test_destroy();
    test_come_and_go();
    test_signals();
    printf("all tests passed\n");
}
