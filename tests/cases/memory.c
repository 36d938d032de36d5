// memory.c: preloaded into a server (LD_PRELOAD), it counts the memory that is allocated in the file that
// MEMORY_FILE names, as u64 in the order of the machine: blocks, bytes, and the most bytes at any time
// (the test may set that one to 0), and how many blocks were ever allocated.

#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// glibc's own
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

struct counts {
    _Atomic uint64_t blocks, bytes, most, ever;
};

static struct counts g_nowhere, *g_counts = &g_nowhere;

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("MEMORY_FILE");
    int fd = name ? open(name, O_RDWR) : -1;
    void *p = mmap(NULL, sizeof(*g_counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        abort();
    }
    struct counts *counts = p;
    counts->blocks = g_nowhere.blocks; // those before this function was called
    counts->bytes = g_nowhere.bytes;
    g_counts = counts;
    close(fd);
}

// Counts a block that has come. Returns it.
static void *come(void *p) {
    if (p) {
        g_counts->ever++;
        g_counts->blocks++;
        uint64_t size = malloc_usable_size(p), most = g_counts->most;
        uint64_t now = atomic_fetch_add(&g_counts->bytes, size) + size;
        while (now > most && !atomic_compare_exchange_weak(&g_counts->most, &most, now)) {
        }
    }
    return p;
}

// Counts a block that goes.
static void go(void *p) {
    if (p) {
        g_counts->blocks--;
        g_counts->bytes -= malloc_usable_size(p);
    }
}

void *malloc(size_t size) {
    return come(__libc_malloc(size));
}

void *calloc(size_t n, size_t size) {
    return come(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size) {
    go(p);
    return come(__libc_realloc(p, size));
}

void free(void *p) {
    go(p);
    __libc_free(p);
}
