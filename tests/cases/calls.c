// calls.c: preloaded into a server (LD_PRELOAD), it makes calls fail, in the server or in its child,
// and holds that child, when a test says so: in the file that DISK_FILE names (cases/rewrite.py).

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum hold {
    HOLD_NONE,
    HOLD_AT_FORK, // the child has all descriptors of the server
    HOLD_AT_WRITE,
};

struct shared {
    char kind[16];        // of the calls that are counted
    _Atomic int64_t left; // calls of this kind until one fails; 0 for none
    int64_t in_child;     // whose calls these are
    int64_t error;        // the errno that they fail with
    int64_t hold;         // where the child stops itself
    int64_t slow_ms;      // that each fsync takes longer
};

static struct shared *g_shared;
static bool g_is_child;

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("DISK_FILE");
    int (*next)(int, const char *, int, ...) = dlsym(RTLD_NEXT, "openat");
    int fd = name ? next(AT_FDCWD, name, O_RDWR | O_CLOEXEC) : -1;
    void *p = mmap(NULL, sizeof(*g_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        abort();
    }
    g_shared = p;
    close(fd);
}

// Tells whether this call fails, with errno.
static bool fails(const char *kind) {
    if (g_shared->left == 0 || g_is_child != g_shared->in_child ||
        strcmp(kind, g_shared->kind) != 0) {
        return false;
    }
    if (g_shared->left > 1) {
        g_shared->left--;
        return false;
    }
    g_shared->left = 0;
    errno = (int)g_shared->error;
    return true;
}

pid_t fork(void) {
    pid_t (*next)(void) = dlsym(RTLD_NEXT, "fork");
    pid_t child = next();
    g_is_child = g_is_child || child == 0;
    if (child == 0 && g_shared->hold == HOLD_AT_FORK) {
        raise(SIGSTOP);
    }
    return child;
}

// A process that has ended, and whose status was asked for, has no number any more: it may be that of another.
int kill(pid_t pid, int sig) {
    int (*next)(pid_t, int) = dlsym(RTLD_NEXT, "kill");
    int rv = next(pid, sig);
    if (rv < 0 && errno == ESRCH) {
        abort();
    }
    return rv;
}

int openat(int dir_fd, const char *name, int flags, ...) {
    int (*next)(int, const char *, int, ...) = dlsym(RTLD_NEXT, "openat");
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return fails("open") ? -1 : next(dir_fd, name, flags, mode);
}

int openat64(int dir_fd, const char *name, int flags, ...) __attribute__((alias("openat")));

ssize_t write(int fd, const void *data, size_t n) {
    ssize_t (*next)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    if (g_is_child && g_shared->hold == HOLD_AT_WRITE) {
        raise(SIGSTOP);
    }
    struct stat stat;
    bool is_file = fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode);
    return is_file && fails("write") ? -1 : next(fd, data, n);
}

static int sync_file(int fd, const char *kind) {
    int (*next)(int) = dlsym(RTLD_NEXT, kind);
    usleep((useconds_t)g_shared->slow_ms * 1000);
    return fails(kind) ? -1 : next(fd);
}

int fsync(int fd) {
    return sync_file(fd, "fsync");
}

int fdatasync(int fd) {
    return sync_file(fd, "fdatasync");
}

int ftruncate(int fd, off_t size) {
    int (*next)(int, off_t) = dlsym(RTLD_NEXT, "ftruncate");
    return fails("ftruncate") ? -1 : next(fd, size);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    int (*next)(int, const char *, int, const char *) = dlsym(RTLD_NEXT, "renameat");
    return fails("rename") ? -1 : next(from_dir, from, to_dir, to);
}
