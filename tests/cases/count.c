// count.c: preloaded into a server (LD_PRELOAD), it counts calls in the file that COUNT_FILE names:
// seven u64 in the order of the machine, for poll (and epoll_wait), accept, read and write (on sockets;
// recv, send and sendmsg count as these), and epoll_ctl; then the bytes that memmove has moved, and the
// most calls of accept between two polls.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    POLLS,
    ACCEPTS,
    READS,
    WRITES,
    CONTROLS,
    MOVED,
    MOST_ACCEPTS,
    COUNTS,
};

static _Atomic uint64_t *g_counts;
static _Atomic uint64_t g_accepts; // since the last poll

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("COUNT_FILE");
    int fd = name ? open(name, O_RDWR) : -1;
    void *p = mmap(NULL, COUNTS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        abort();
    }
    g_counts = p;
    close(fd);
}

static void count_on_socket(int fd, int what) {
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode)) {
        g_counts[what]++;
    }
}

int poll(struct pollfd *fds, nfds_t nfds, int timeout) {
    int (*next)(struct pollfd *, nfds_t, int) = dlsym(RTLD_NEXT, "poll");
    if (timeout != 0 || nfds > 1) { // msg() asks for one without waiting: not counted
        g_counts[POLLS]++;
        g_accepts = 0;
    }
    return next(fds, nfds, timeout);
}

int __poll_chk(struct pollfd *fds, nfds_t nfds, int timeout, size_t size) {
    (void)size;
    return poll(fds, nfds, timeout);
}

int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout) {
    int (*next)(int, struct epoll_event *, int, int) = dlsym(RTLD_NEXT, "epoll_wait");
    g_counts[POLLS]++;
    g_accepts = 0;
    return next(epfd, events, max, timeout);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event) {
    int (*next)(int, int, int, struct epoll_event *) = dlsym(RTLD_NEXT, "epoll_ctl");
    g_counts[CONTROLS]++;
    return next(epfd, op, fd, event);
}

int accept(int fd, struct sockaddr *addr, socklen_t *len) {
    int (*next)(int, struct sockaddr *, socklen_t *) = dlsym(RTLD_NEXT, "accept");
    g_counts[ACCEPTS]++;
    if (++g_accepts > g_counts[MOST_ACCEPTS]) {
        g_counts[MOST_ACCEPTS] = g_accepts;
    }
    return next(fd, addr, len);
}

ssize_t read(int fd, void *buf, size_t n) {
    ssize_t (*next)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
    count_on_socket(fd, READS);
    return next(fd, buf, n);
}

ssize_t __read_chk(int fd, void *buf, size_t n, size_t size) {
    (void)size;
    return read(fd, buf, n);
}

ssize_t recv(int fd, void *buf, size_t n, int flags) {
    ssize_t (*next)(int, void *, size_t, int) = dlsym(RTLD_NEXT, "recv");
    g_counts[READS]++;
    return next(fd, buf, n, flags);
}

ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags) {
    (void)size;
    return recv(fd, buf, n, flags);
}

ssize_t write(int fd, const void *buf, size_t n) {
    ssize_t (*next)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    count_on_socket(fd, WRITES);
    return next(fd, buf, n);
}

ssize_t send(int fd, const void *buf, size_t n, int flags) {
    ssize_t (*next)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
    g_counts[WRITES]++;
    return next(fd, buf, n, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    ssize_t (*next)(int, const struct msghdr *, int) = dlsym(RTLD_NEXT, "sendmsg");
    g_counts[WRITES]++;
    return next(fd, message, flags);
}

void *memmove(void *to, const void *from, size_t n) {
    static void *(*next)(void *, const void *, size_t);
    if (g_counts) { // else the program has not begun
        g_counts[MOVED] += n;
    }
    if (!next) {
        next = dlsym(RTLD_NEXT, "memmove");
    }
    return next(to, from, n);
}

void *__memmove_chk(void *to, const void *from, size_t n, size_t size) {
    (void)size;
    return memmove(to, from, n);
}
