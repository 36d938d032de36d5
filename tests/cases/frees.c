// frees.c: preloaded into a server (LD_PRELOAD), it counts the calls of free() in the file that
// FREES_FILE names, as a u64.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void __libc_free(void *p); // glibc's own

static _Atomic uint64_t g_nowhere, *g_frees = &g_nowhere;

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("FREES_FILE");
    int fd = name ? open(name, O_RDWR) : -1;
    void *p = mmap(NULL, sizeof(*g_frees), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        abort();
    }
    g_frees = p;
    close(fd);
}

void free(void *p) {
    ++*g_frees;
    __libc_free(p);
}
