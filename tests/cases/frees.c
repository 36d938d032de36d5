// frees.c: preloaded into a server (LD_PRELOAD), it counts the calls of free() in the file that
// FREES_FILE names, as a u64. With FREES_REST set, every thread but the first rests for a millisecond
// after each hundred, so that a test can come in between.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void __libc_free(void *p); // glibc's own

static _Atomic uint64_t g_nowhere, *g_frees = &g_nowhere;
static int g_rest;

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("FREES_FILE");
    int fd = name ? open(name, O_RDWR) : -1;
    void *p = mmap(NULL, sizeof(*g_frees), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        abort();
    }
    g_frees = p;
    g_rest = getenv("FREES_REST") != NULL;
    close(fd);
}

void free(void *p) {
    uint64_t n = ++*g_frees;
    __libc_free(p);
    if (g_rest && n % 100 == 0 && gettid() != getpid()) {
        usleep(1000);
    }
}
