// merges.c: preloaded into a server (LD_PRELOAD), it finds the longest merging that an allocation had
// to do. glibc sets small blocks aside when they are freed; the next allocation of a KiB or more
// merges all of them. Blocks and allocations count for the first arena, that of the loop. The file
// that MERGES_FILE names holds two u64: blocks set aside since the last merging, and the most ever.

#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t size); // glibc's own
void __libc_free(void *p);

static _Atomic uint64_t g_nowhere[2], *g_merges = g_nowhere;

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("MERGES_FILE");
    int fd = name ? open(name, O_RDWR) : -1;
    void *p = mmap(NULL, sizeof(g_nowhere), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        abort();
    }
    g_merges = p;
    close(fd);
}

// In the word before a block, glibc notes 4 for one of another arena, and 2 for one from mmap().
static int of_first_arena(const void *p) {
    return (((const size_t *)p)[-1] & 6) == 0;
}

void *malloc(size_t size) {
    void *p = __libc_malloc(size);
    if (p && size >= 1024 && of_first_arena(p)) {
        g_merges[0] = 0;
    }
    return p;
}

void free(void *p) {
    if (p && malloc_usable_size(p) <= 128 && of_first_arena(p)) {
        uint64_t n = ++g_merges[0];
        if (n > g_merges[1]) {
            g_merges[1] = n;
        }
    }
    __libc_free(p);
}
