// aof_worker.c: a thread that waits for the disk
//
// Owns the thread, which does one thing at a time. The loop gives it some work, and looks now and then
// whether that is done.

#include <errno.h>
#include <semaphore.h>

#include "thread_pool.h"

#include "server.h"

static struct {
    struct thread_pool pool; // of one thread, which is there from the first work on
    sem_t done;              // posted by the thread
    bool is_there;
    bool busy;         // the loop does not know yet that the work is done
    int (*work)(void); // the thread's, until `done`
    int error;         // the same
} thread;

static void do_work(void *arg) {
    (void)arg;
    thread.error = thread.work();
    sem_post(&thread.done);
}

// Has the thread call `work`, which returns 0 or an errno. It must not be busy.
void aof_worker_begin(int (*work)(void)) {
    if (!thread.is_there) {
        thread_pool_init(&thread.pool, 1);
        sem_init(&thread.done, 0, 0);
        thread.is_there = true;
    }
    thread.busy = true;
    thread.work = work;
    thread_pool_queue(&thread.pool, do_work, NULL);
}

// Tells whether there is work whose result nobody has taken.
bool aof_worker_is_busy(void) {
    return thread.busy;
}

// Returns what the work has returned, once; EINPROGRESS while it goes on. Waits for it, if that is asked for.
int aof_worker_result(bool wait) {
    while ((wait ? sem_wait(&thread.done) : sem_trywait(&thread.done)) < 0) {
        if (errno != EINTR) {
            return EINPROGRESS;
        }
    }
    thread.busy = false;
    return thread.error;
}

// Ends the thread. It must not be busy.
void aof_worker_end(void) {
    if (thread.is_there) {
        thread_pool_destroy(&thread.pool);
        sem_destroy(&thread.done);
    }
}
