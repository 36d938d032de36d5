// frees.c: preloaded into a server (LD_PRELOAD), it counts in the file that FREES_FILE names, as
// three u64: the calls of free(); how many at most a thread that is not the first has called between
// two calls of sched_yield(); the bytes that the first thread gives back, by free() or realloc().
// With FREES_REST set, every thread but the first rests for a millisecond after each hundred calls,
// so that a test can come in between.

#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void __libc_free(void *p); // glibc's own
void *__libc_realloc(void *p, size_t size);

struct counts {
    _Atomic uint64_t frees, in_one_go, loop_bytes;
};

static struct counts g_nowhere, *g_counts = &g_nowhere;
static _Thread_local uint64_t g_in_one_go __attribute__((tls_model("initial-exec")));
static int g_rest;

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("FREES_FILE");
    int fd = name ? open(name, O_RDWR) : -1;
    void *p = mmap(NULL, sizeof(*g_counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        abort();
    }
    g_counts = p;
    g_rest = getenv("FREES_REST") != NULL;
    close(fd);
}

static int is_loop(void) {
    return gettid() == getpid();
}

void free(void *p) {
    uint64_t n = ++g_counts->frees;
    if (is_loop()) {
        g_counts->loop_bytes += malloc_usable_size(p);
        __libc_free(p);
        return;
    }
    __libc_free(p);
    if (++g_in_one_go > g_counts->in_one_go) {
        g_counts->in_one_go = g_in_one_go;
    }
    if (g_rest && n % 100 == 0) {
        usleep(1000);
    }
}

void *realloc(void *p, size_t size) {
    size_t before = malloc_usable_size(p);
    if (before > size && is_loop()) {
        g_counts->loop_bytes += before - size;
    }
    return __libc_realloc(p, size);
}

int sched_yield(void) {
    g_in_one_go = 0;
    return (int)syscall(SYS_sched_yield);
}
