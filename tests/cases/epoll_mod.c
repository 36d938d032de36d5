// epoll_mod.c: preloaded into a server (LD_PRELOAD), it has epoll_ctl() refuse every second change of a
// listening socket, the first one included, with ENOMEM.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event) {
    static unsigned changes; // one thread makes them
    int (*next)(int, int, int, struct epoll_event *) = dlsym(RTLD_NEXT, "epoll_ctl");
    int listens = 0;
    socklen_t len = sizeof(listens);
    if (op == EPOLL_CTL_MOD && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 &&
        listens && changes++ % 2 == 0) {
        errno = ENOMEM;
        return -1;
    }
    return next(epfd, op, fd, event);
}
