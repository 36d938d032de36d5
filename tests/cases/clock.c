// clock.c: preloaded into a server (LD_PRELOAD), it gives the server clocks that stand still. They are
// in the file that CLOCK_FILE names, where the test sets them (cases/clock.py): the monotonic and the
// wall clock.
//
// A call that waits (poll, ppoll, epoll_wait) waits by these clocks too: it returns when something is
// ready, or when the test has set the monotonic clock on by as much as it was to wait. Where nothing
// is ready and no time has passed, it writes the test's `asked` into `rested`: so the test knows that
// the server has seen the time as it is now, and has nothing left to do.
//
// A test may also hold the server when such a call is over, before the server learns of it: as a
// machine does that is busy with others, or a person with Ctrl-Z.
//
// Time may also pass while the server works: to read a message with the word "time-passes", or to make
// a number of the text "0.271828", sets both clocks on by `passes` nanoseconds; and so does each look at
// the monotonic clock, by `look` nanoseconds.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct shared {
    _Atomic int64_t mono;     // nanoseconds
    _Atomic int64_t wall;     // nanoseconds
    _Atomic int64_t passes;   // nanoseconds
    _Atomic uint64_t asked;   // the test counts up, after it has set the clocks
    _Atomic uint64_t rested;  // what `asked` was when the server came to rest
    _Atomic int64_t until;    // nanoseconds: when the call that waits is over, or INT64_MAX, or -1
    _Atomic uint64_t rounds;  // calls that may wait
    _Atomic uint64_t watched; // descriptors that poll() was given last
    _Atomic int64_t hold;     // 0; or 1, set by the test: hold the server; or 2: it is held
    _Atomic int64_t look;     // nanoseconds: what a look at the monotonic clock takes
};

static struct shared *g_shared;

// An allocator may ask for the time before this constructor has its turn.
__attribute__((constructor)) static void open_file(void) {
    if (g_shared) {
        return;
    }
    const char *name = getenv("CLOCK_FILE");
    int fd = name ? open(name, O_RDWR) : -1;
    void *p = mmap(NULL, sizeof(*g_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        abort();
    }
    g_shared = p;
    close(fd);
}

// ---- clocks ----

int clock_gettime(clockid_t id, struct timespec *now) {
    open_file();
    int64_t ns;
    switch (id) {
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_BOOTTIME:
        g_shared->wall += g_shared->look;
        g_shared->mono += g_shared->look;
        ns = g_shared->mono;
        break;
    case CLOCK_MONOTONIC_COARSE: // what the last tick of the kernel was, every 4 ms
        ns = g_shared->mono / 4000000 * 4000000;
        break;
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        ns = g_shared->wall;
        break;
    default: {
        int (*next)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
        return next(id, now);
    }
    }
    *now = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    int64_t ns = g_shared->wall;
    *now = (struct timeval){.tv_sec = ns / 1000000000, .tv_usec = ns % 1000000000 / 1000};
    return 0;
}

time_t time(time_t *now) {
    time_t seconds = g_shared->wall / 1000000000;
    if (now) {
        *now = seconds;
    }
    return seconds;
}

// ---- calls that wait ----

// Begins a call that waits for `ns`, for ever where that is negative. Returns when it is over.
static int64_t begin(int64_t ns) {
    g_shared->rounds++;
    return ns < 0 ? INT64_MAX : g_shared->mono + ns;
}

// Tells whether the call is over, now that it has found nothing ready. `asked`, and then `now`, were read
// before it looked: whatever had come by the end of the call has been found.
static bool over(int64_t now, int64_t end, uint64_t asked) {
    if (now >= end) {
        return true;
    }
    g_shared->until = end;
    g_shared->rested = asked;
    return false;
}

// Ends a call that waits. Where the test holds the server, that is when it lets it go; a call that was
// interrupted is not held. Returns `ready`.
static int end_call(int ready) {
    g_shared->until = -1;
    int64_t asked = 1;
    if (ready >= 0 && atomic_compare_exchange_strong(&g_shared->hold, &asked, 2)) {
        while (g_shared->hold == 2) {
            usleep(200);
        }
    }
    return ready;
}

int poll(struct pollfd *fds, nfds_t nfds, int timeout) {
    int (*next)(struct pollfd *, nfds_t, int) = dlsym(RTLD_NEXT, "poll");
    if (nfds < 2) {
        return next(fds, nfds, timeout); // the log asks whether it takes another line
    }
    g_shared->watched = nfds;
    int64_t end = begin((int64_t)timeout * 1000000);
    while (true) {
        uint64_t asked = g_shared->asked;
        int64_t now = g_shared->mono;
        int ready = next(fds, nfds, 0);
        if (ready != 0 || over(now, end, asked) || (ready = next(fds, nfds, 1)) != 0) {
            return end_call(ready);
        }
    }
}

int __poll_chk(struct pollfd *fds, nfds_t nfds, int timeout, size_t size) {
    (void)size;
    return poll(fds, nfds, timeout);
}

int ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout, const sigset_t *mask) {
    int (*next)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) =
        dlsym(RTLD_NEXT, "ppoll");
    static const struct timespec none, ms = {.tv_nsec = 1000000};
    g_shared->watched = nfds;
    int64_t end = begin(timeout ? (int64_t)timeout->tv_sec * 1000000000 + timeout->tv_nsec : -1);
    while (true) {
        uint64_t asked = g_shared->asked;
        int64_t now = g_shared->mono;
        int ready = next(fds, nfds, &none, mask);
        if (ready != 0 || over(now, end, asked) || (ready = next(fds, nfds, &ms, mask)) != 0) {
            return end_call(ready);
        }
    }
}

int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout) {
    int (*next)(int, struct epoll_event *, int, int) = dlsym(RTLD_NEXT, "epoll_wait");
    int64_t end = begin((int64_t)timeout * 1000000);
    while (true) {
        uint64_t asked = g_shared->asked;
        int64_t now = g_shared->mono;
        int ready = next(epfd, events, max, 0);
        if (ready != 0 || over(now, end, asked) || (ready = next(epfd, events, max, 1)) != 0) {
            g_shared->rounds -= ready < 0; // a signal, SIGCONT even: it has looked at nothing
            return end_call(ready);
        }
    }
}

// ---- work that takes time ----

static void pass(void) {
    g_shared->mono += g_shared->passes;
    g_shared->wall += g_shared->passes;
}

// Lets time pass where the word has just been read. Returns n.
static ssize_t has_read(const void *buf, ssize_t n) {
    static const char word[] = "time-passes";
    if (n > 0 && memmem(buf, (size_t)n, word, sizeof(word) - 1)) {
        pass();
    }
    return n;
}

ssize_t read(int fd, void *buf, size_t n) {
    ssize_t (*next)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
    return has_read(buf, next(fd, buf, n));
}

ssize_t __read_chk(int fd, void *buf, size_t n, size_t size) {
    (void)size;
    return read(fd, buf, n);
}

ssize_t recv(int fd, void *buf, size_t n, int flags) {
    ssize_t (*next)(int, void *, size_t, int) = dlsym(RTLD_NEXT, "recv");
    return has_read(buf, next(fd, buf, n, flags));
}

ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags) {
    (void)size;
    return recv(fd, buf, n, flags);
}

double strtod(const char *text, char **end) {
    double (*next)(const char *, char **) = dlsym(RTLD_NEXT, "strtod");
    if (strcmp(text, "0.271828") == 0) {
        pass();
    }
    return next(text, end);
}
