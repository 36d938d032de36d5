// poller.c: which descriptors poll() watches, and which of them are ready
//
// Owns the set that poll() is given, and knows which connection a descriptor belongs to.

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base.h"
#include "mem.h"

#include "server.h"

// Both are indexed by descriptor; the kernel hands out the lowest that is free, so they stay
// short. poll() passes over slots whose fd is -1.
static struct conn **fd2conn;
static struct pollfd *poll_set;
static size_t num_slots; // allocated
static size_t nfds;      // slots up to the last one in use

static int ready;   // descriptors that poll() found ready and next_ready() has not returned yet
static size_t next; // where next_ready() goes on

// Makes poll() watch `fd` for `events`; if it does already, for these from the next wait on.
void watch(int fd, short events) {
    size_t slot = (size_t)fd;
    if (slot >= num_slots) {
        size_t cap = slot * 2 + 16;
        fd2conn = mem_realloc(fd2conn, cap * sizeof(fd2conn[0]));
        poll_set = mem_realloc(poll_set, cap * sizeof(poll_set[0]));
        for (size_t i = num_slots; i < cap; i++) {
            fd2conn[i] = NULL;
            poll_set[i] = (struct pollfd){.fd = -1};
        }
        num_slots = cap;
    }
    poll_set[slot].fd = fd;
    poll_set[slot].events = events;
    if (slot >= nfds) {
        nfds = slot + 1;
    }
}

// Makes poll() stop watching `fd`.
void unwatch(int fd) {
    poll_set[fd] = (struct pollfd){.fd = -1};
    while (nfds > 0 && poll_set[nfds - 1].fd < 0) {
        nfds--;
    }
}

// Returns the events that poll() watches `fd` for.
short watched_for(int fd) {
    return poll_set[fd].events;
}

// Returns the connection of `fd`, borrowed; NULL where there is none.
struct conn *poller_conn(int fd) {
    return fd2conn[fd];
}

// Notes which connection a watched `fd` belongs to. Borrows it; NULL where it is gone.
void poller_set_conn(int fd, struct conn *conn) {
    fd2conn[fd] = conn;
}

// Returns a number above all descriptors that are watched.
size_t poller_size(void) {
    return nfds;
}

// Waits until a descriptor is ready, but not longer than `wait_ms`; -1 is for as long as it takes.
// Returns how many are ready, negative if a signal came before poll() had looked.
int poller_wait(int wait_ms) {
    ready = poll(poll_set, nfds, wait_ms);
    if (ready < 0 && errno != EINTR) {
        die("poll");
    }
    next = 0;
    return ready;
}

// Returns the next descriptor that poller_wait() found ready, -1 if it was the last.
int next_ready(void) {
    while (ready > 0 && next < nfds) {
        size_t fd = next++;
        if (poll_set[fd].revents) {
            ready--;
            return (int)fd;
        }
    }
    return -1;
}

// Frees both arrays.
void poller_end(void) {
    free(fd2conn);
    free(poll_set);
}
