// sends.c: preloaded into a server (LD_PRELOAD), it writes down in which round of the loop something
// was sent to whom. The file that SENDS_FILE names holds u64: the number of rounds, the number of
// sends, then two for each send: the round and the descriptor. Rounds are calls of epoll_wait(), and of
// poll() for more than one descriptor. (The log asks for one.)

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    k_max_sends = 1 << 14,
};

static struct {
    uint64_t rounds;
    uint64_t n;
    struct {
        uint64_t round;
        uint64_t fd;
    } sends[k_max_sends];
} * g_log; // one thread polls and sends

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("SENDS_FILE");
    int fd = name ? open(name, O_RDWR) : -1;
    void *p = mmap(NULL, sizeof(*g_log), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED || ftruncate(fd, sizeof(*g_log)) < 0) {
        abort();
    }
    g_log = p;
    close(fd);
}

int poll(struct pollfd *fds, nfds_t nfds, int timeout) {
    int (*next)(struct pollfd *, nfds_t, int) = dlsym(RTLD_NEXT, "poll");
    g_log->rounds += nfds > 1;
    return next(fds, nfds, timeout);
}

int __poll_chk(struct pollfd *fds, nfds_t nfds, int timeout, size_t size) {
    (void)size;
    return poll(fds, nfds, timeout);
}

int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout) {
    int (*next)(int, struct epoll_event *, int, int) = dlsym(RTLD_NEXT, "epoll_wait");
    g_log->rounds++;
    return next(epfd, events, max, timeout);
}

static void note(int fd) {
    if (g_log->n < k_max_sends) {
        g_log->sends[g_log->n].round = g_log->rounds;
        g_log->sends[g_log->n].fd = (uint64_t)fd;
        g_log->n++;
    }
}

ssize_t send(int fd, const void *buf, size_t n, int flags) {
    ssize_t (*next)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
    note(fd);
    return next(fd, buf, n, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    ssize_t (*next)(int, const struct msghdr *, int) = dlsym(RTLD_NEXT, "sendmsg");
    note(fd);
    return next(fd, message, flags);
}
