// stays_blocking.c: preloaded into a server (LD_PRELOAD), it has fcntl() refuse to change the mode of every third
// descriptor. The first two, which are the server's own, are changed.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

int fcntl(int fd, int op, ...) {
    static unsigned changes; // one thread makes them
    int (*next)(int, int, ...) = dlsym(RTLD_NEXT, "fcntl");
    va_list args;
    va_start(args, op);
    void *arg = va_arg(args, void *);
    va_end(args);
    if (op == F_SETFL && ++changes > 2 && changes % 3 == 0) {
        errno = EINVAL;
        return -1;
    }
    return next(fd, op, arg);
}
