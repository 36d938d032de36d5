// fake_clock.h: takes the place of clock.h where a grader drives the time (fake_clock.py).
//
// The clock stands still until the grader moves it, and poll() waits by it: a wait ends when something is ready, or
// when the clock has come to its end. All that the grader reads or writes is in a file that both have mapped.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct fake_clock {
    _Atomic int64_t now_ms;
    _Atomic int64_t wall_ms;  // what the wall clock is ahead of it
    _Atomic int64_t until_ms; // when the poll() that waits now is to end; -1 while none waits
    _Atomic int64_t polls;    // how often poll() was called
    _Atomic int64_t moves;    // what the grader has changed a header to count
};

static struct fake_clock g_fake_clock_idle;

static inline struct fake_clock *fake_clock(void) {
    static struct fake_clock *_Atomic known; // threads that ask first map the same file twice, which does no harm
    struct fake_clock *clock = known;
    if (!clock) {
        const char *name = getenv("FAKE_CLOCK");
        int fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
        void *p = fd < 0 ? MAP_FAILED
                         : mmap(NULL, sizeof(*clock), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        clock = p == MAP_FAILED ? &g_fake_clock_idle : p;
        if (fd >= 0) {
            close(fd);
        }
        known = clock;
    }
    return clock;
}

static inline int64_t get_monotonic_msec(void) {
    return fake_clock()->now_ms;
}

static inline int fake_poll(struct pollfd *fds, nfds_t n, int timeout) {
    struct fake_clock *clock = fake_clock();
    int64_t until = timeout < 0 ? INT64_MAX : clock->now_ms + timeout;
    clock->polls++;
    int ready = poll(fds, n, 0);
    clock->until_ms = ready == 0 ? until : -1;
    while (ready == 0 && clock->now_ms < until) {
        ready = poll(fds, n, 1);
    }
    clock->until_ms = -1;
    return ready;
}

static inline time_t fake_time(time_t *to) {
    time_t now = (time_t)((fake_clock()->now_ms + fake_clock()->wall_ms) / 1000);
    if (to) {
        *to = now;
    }
    return now;
}

static inline int fake_gettime(clockid_t id, struct timespec *to) {
    int64_t ms = fake_clock()->now_ms + (id == CLOCK_REALTIME ? fake_clock()->wall_ms : 0);
    *to = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    return 0;
}

#define poll(fds, n, timeout) fake_poll(fds, n, timeout)
#define time(to)              fake_time(to)
#define clock_gettime(id, to) fake_gettime(id, to)
