// poller.c: what epoll watches, and which of it is ready
//
// Owns the set that the kernel keeps for us, and the events that it reports.

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base.h"
#include "mem.h"

#include "server.h"

static int epoll_fd;
static struct epoll_event *events; // what epoll_wait() reports
static size_t max_events;

static int ready; // events that epoll_wait() has reported
static int next;  // the one that next_ready() returns next

// Has the kernel make the set. Ends the program if it cannot.
void poller_start(void) {
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0) {
        die("epoll_create1");
    }
}

// Makes epoll watch `fd` for `events`, and hand us `what` when one of them comes. `op` is
// EPOLL_CTL_ADD for a new descriptor, EPOLL_CTL_MOD for one that is watched already. When a
// descriptor is closed, epoll forgets it. Returns 0, or -1 with errno.
int watch(int op, int fd, uint32_t events, void *what) {
    struct epoll_event event = {.events = events, .data.ptr = what};
    return epoll_ctl(epoll_fd, op, fd, &event);
}

// Waits until something is ready, but not longer than `wait_ms`; -1 is for as long as it takes.
// Returns the number of events, negative if a signal came before epoll_wait() had looked. The array
// of events has room for all that is watched: a client whose event did not fit would be taken for
// idle.
int poller_wait(size_t watched, int wait_ms) {
    if (max_events < watched) {
        max_events = 2 * watched + 16;
        events = mem_realloc(events, max_events * sizeof(events[0]));
    }
    int max = max_events < INT_MAX ? (int)max_events : INT_MAX;
    ready = epoll_wait(epoll_fd, events, max, wait_ms);
    if (ready < 0 && errno != EINTR) {
        die("epoll_wait");
    }
    next = 0;
    return ready;
}

// Returns what the next event that poller_wait() found is about, as watch() was told; NULL if it was
// the last.
void *next_ready(void) {
    return next < ready ? events[next++].data.ptr : NULL;
}

// Closes the set. Nothing is watched any more.
void poller_end(void) {
    close(epoll_fd);
    free(events);
}
