// interrupt.c: preloaded into a server (LD_PRELOAD), it makes the calls on sockets do what they may
// do and hardly ever do: one of two is interrupted by a signal (EINTR), and the rest move a few
// bytes only, often. A write may find no room (EAGAIN) where the socket is nonblocking. The choice
// looks random and is the same in every run. accept() also reports a client that has gone again (ECONNABORTED).
//
// Calls on anything but sockets (the log, a pipe) are left alone. Where the compiler checks sizes
// (_FORTIFY_SOURCE) it calls the functions whose names end in _chk.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_uint g_state = 1;

// Returns a number from 0 to 2^16 - 1.
static unsigned next_random(void) {
    unsigned state = g_state * 1103515245 + 12345;
    g_state = state;
    return state >> 16;
}

static bool is_socket(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

// Returns whether this call is one that is interrupted; sets errno.
static bool interrupted(void) {
    if (next_random() % 2) {
        errno = EINTR;
        return true;
    }
    return false;
}

// Returns how many of `n` bytes are moved: up to 7, now and then up to 1000.
static size_t part(size_t n) {
    size_t most = 1 + next_random() % (next_random() % 2 ? 7 : 8000);
    return n < most ? n : most;
}

ssize_t read(int fd, void *buf, size_t n) {
    ssize_t (*next)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
    if (!is_socket(fd)) {
        return next(fd, buf, n);
    }
    return interrupted() ? -1 : next(fd, buf, part(n));
}

ssize_t __read_chk(int fd, void *buf, size_t n, size_t size) {
    (void)size;
    return read(fd, buf, n);
}

ssize_t write(int fd, const void *buf, size_t n) {
    ssize_t (*next)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    if (!is_socket(fd)) {
        return next(fd, buf, n);
    }
    if (next_random() % 4 == 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK)) {
        errno = EAGAIN;
        return -1;
    }
    return interrupted() ? -1 : next(fd, buf, part(n));
}

ssize_t recv(int fd, void *buf, size_t n, int flags) {
    ssize_t (*next)(int, void *, size_t, int) = dlsym(RTLD_NEXT, "recv");
    return interrupted() ? -1 : next(fd, buf, part(n), flags);
}

ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags) {
    (void)size;
    return recv(fd, buf, n, flags);
}

ssize_t send(int fd, const void *buf, size_t n, int flags) {
    ssize_t (*next)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
    if (next_random() % 4 == 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK)) {
        errno = EAGAIN;
        return -1;
    }
    return interrupted() ? -1 : next(fd, buf, part(n), flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    ssize_t (*next)(int, const struct msghdr *, int) = dlsym(RTLD_NEXT, "sendmsg");
    if (next_random() % 4 == 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK)) {
        errno = EAGAIN;
        return -1;
    }
    if (interrupted()) {
        return -1;
    }
    struct iovec some[8]; // the first parts, as far as they are moved
    size_t n = 0, left = part(8000);
    for (; n < 8 && n < message->msg_iovlen && left > 0; n++) {
        some[n] = message->msg_iov[n];
        some[n].iov_len = some[n].iov_len < left ? some[n].iov_len : left;
        left -= some[n].iov_len;
    }
    struct msghdr shorter = *message;
    shorter.msg_iov = some;
    shorter.msg_iovlen = n;
    return next(fd, &shorter, flags);
}

int accept(int fd, struct sockaddr *addr, socklen_t *len) {
    int (*next)(int, struct sockaddr *, socklen_t *) = dlsym(RTLD_NEXT, "accept");
    if (interrupted()) {
        errno = next_random() % 2 ? ECONNABORTED : EINTR;
        return -1;
    }
    return next(fd, addr, len);
}

int poll(struct pollfd *fds, nfds_t nfds, int timeout) {
    int (*next)(struct pollfd *, nfds_t, int) = dlsym(RTLD_NEXT, "poll");
    // msg() asks with a timeout of 0 whether the log takes another line: that is left alone.
    return timeout != 0 && interrupted() ? -1 : next(fds, nfds, timeout);
}

int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout) {
    int (*next)(int, struct epoll_event *, int, int) = dlsym(RTLD_NEXT, "epoll_wait");
    return timeout != 0 && interrupted() ? -1 : next(epfd, events, max, timeout);
}

int __poll_chk(struct pollfd *fds, nfds_t nfds, int timeout, size_t size) {
    (void)size;
    return poll(fds, nfds, timeout);
}
