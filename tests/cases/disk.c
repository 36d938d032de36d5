// disk.c: preloaded into a server (LD_PRELOAD), it lets a test decide how long fdatasync() takes, and
// whether it fails (EIO), and which fsync() fails, by the file that DISK_FILE names (cases/syncs.py). A call that is held goes
// on by itself after 30 seconds.
//
// While a call is held, it also looks at the alarm of the process (setitimer): `alarm` is 1 once that
// is set, and 2 when it has gone off.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

struct shared {
    _Atomic int64_t hold;   // 0; or 1, set by the test: hold the next call; or 2: it is held
    _Atomic int64_t fail;   // so many calls fail, of those that begin now
    _Atomic int64_t calls;  // that have begun
    _Atomic int64_t over;   // that are over
    _Atomic int64_t synced; // bytes that the file had when the last call began that did not fail
    _Atomic int64_t alarm;
    _Atomic int64_t fsyncs; // calls of fsync() until one fails; 0 for none
};

static struct shared *g_shared;

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("DISK_FILE");
    int fd = name ? open(name, O_RDWR) : -1;
    void *p = mmap(NULL, sizeof(*g_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        abort();
    }
    g_shared = p;
    close(fd);
}

static void look_at_alarm(void) {
    struct itimerval left;
    getitimer(ITIMER_REAL, &left);
    if (left.it_value.tv_sec > 0 || left.it_value.tv_usec > 0) {
        g_shared->alarm = 1;
    } else if (g_shared->alarm == 1) {
        g_shared->alarm = 2;
    }
}

static void hold(void) {
    int64_t asked = 1;
    if (!atomic_compare_exchange_strong(&g_shared->hold, &asked, 2)) {
        return;
    }
    for (int ms = 0; g_shared->hold == 2 && ms < 30000; ms++) {
        look_at_alarm();
        usleep(1000);
    }
}

static int sync_file(int fd) {
    int (*next)(int) = dlsym(RTLD_NEXT, "fdatasync");
    struct stat st;
    int64_t size = fstat(fd, &st) == 0 ? st.st_size : -1;
    bool fails = g_shared->fail > 0;
    g_shared->fail -= fails;
    g_shared->calls++;
    hold();
    if (fails) {
        errno = EIO;
        return -1;
    }
    int rv = next(fd);
    if (rv == 0) {
        g_shared->synced = size;
    }
    return rv;
}

int fdatasync(int fd) {
    int rv = sync_file(fd), err = errno;
    g_shared->over++;
    errno = err;
    return rv;
}

int fsync(int fd) {
    int (*next)(int) = dlsym(RTLD_NEXT, "fsync");
    if (g_shared->fsyncs > 0 && --g_shared->fsyncs == 0) {
        errno = EIO;
        return -1;
    }
    return next(fd);
}
