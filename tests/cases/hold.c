// hold.c: preloaded into a server (LD_PRELOAD), it holds the server in the read() of a message that
// contains the word "hold-here", as if the work for it took long. The file that HOLD_FILE names says
// how far that is: 0 at first, 1 when the server is held, 2 (written by the test) to let it go on.
// After 30 seconds it goes on by itself.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static atomic_int *g_state;

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("HOLD_FILE");
    int fd = name ? open(name, O_RDWR) : -1;
    void *p = mmap(NULL, sizeof(*g_state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        abort();
    }
    g_state = p;
    close(fd);
}

// Holds the caller where it has just read the word. Returns n.
static ssize_t hold(const void *buf, ssize_t n) {
    static const char word[] = "hold-here";
    if (n > 0 && memmem(buf, (size_t)n, word, sizeof(word) - 1)) {
        *g_state = 1;
        for (int ms = 0; *g_state == 1 && ms < 30000; ms++) {
            usleep(1000);
        }
    }
    return n;
}

ssize_t read(int fd, void *buf, size_t n) {
    ssize_t (*next)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
    return hold(buf, next(fd, buf, n));
}

ssize_t __read_chk(int fd, void *buf, size_t n, size_t size) {
    (void)size;
    return read(fd, buf, n);
}

ssize_t recv(int fd, void *buf, size_t n, int flags) {
    ssize_t (*next)(int, void *, size_t, int) = dlsym(RTLD_NEXT, "recv");
    return hold(buf, next(fd, buf, n, flags));
}

ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags) {
    (void)size;
    return recv(fd, buf, n, flags);
}
