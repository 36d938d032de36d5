// refuse.c: preloaded into a server (LD_PRELOAD), it has accept() fail again and again as it may when
// all is well: the client has gone already (ECONNABORTED), a signal came (EINTR). Each client is
// accepted after that.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

int accept(int fd, struct sockaddr *addr, socklen_t *len) {
    static unsigned calls; // one thread accepts
    int (*next)(int, struct sockaddr *, socklen_t *) = dlsym(RTLD_NEXT, "accept");
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    int timeout = fcntl(fd, F_GETFL) & O_NONBLOCK ? 0 : -1; // where accept() waits, so do we
    if (poll(&waiting, 1, timeout) > 0 && ++calls % 3 != 0) {
        errno = calls % 3 == 1 ? ECONNABORTED : EINTR;
        return -1;
    }
    return next(fd, addr, len);
}
