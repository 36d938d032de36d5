// epoll_full.c: preloaded into a server (LD_PRELOAD), it has epoll_ctl() refuse every third connection
// that is added, as it does where the user watches too many descriptors (ENOSPC). The first two, which
// are the server's own, are added.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/epoll.h>

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event) {
    static unsigned adds; // one thread does so
    int (*next)(int, int, int, struct epoll_event *) = dlsym(RTLD_NEXT, "epoll_ctl");
    if (op == EPOLL_CTL_ADD && ++adds > 2 && adds % 3 == 0) {
        errno = ENOSPC;
        return -1;
    }
    return next(epfd, op, fd, event);
}
