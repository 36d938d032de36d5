// leaks.c: preloaded into a program (LD_PRELOAD), it writes down in the file that LEAKS_FILE names
// what the program has not given back when it ends: blocks of malloc() and descriptors above 2.
//
//   u64 ended    1: exit() was called, or main() has returned
//   u64 fds      descriptors that are open
//   u64 blocks   that are allocated, reachable or not
//   u64 bytes    in them
//   u64 sizes[8] of the first of them
//
// What the C library allocates for itself is left out: the buffers of its streams, which are
// replaced, and what it needs for a thread.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t size); // glibc's own
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

struct report {
    uint64_t ended, fds, blocks, bytes, sizes[8];
};

enum {
    k_slots = 1 << 20,
    k_most_fds = 1024,
};

// A hash table of the blocks that are there; an empty slot ends a search.
static struct {
    void *p;
    size_t size;
} g_blocks[k_slots];
static atomic_flag g_lock = ATOMIC_FLAG_INIT;
static struct report *g_report;
static __thread bool g_own; // the C library allocates for itself

static size_t slot_of(const void *p) {
    return (size_t)(((uintptr_t)p >> 4) * 0x9E3779B97F4A7C15u >> 44);
}

static size_t find(const void *p) {
    size_t i = slot_of(p);
    while (g_blocks[i].p && g_blocks[i].p != p) {
        i = (i + 1) % k_slots;
    }
    return i;
}

static void lock(void) {
    while (atomic_flag_test_and_set(&g_lock)) {
    }
}

static void add(void *p, size_t size) {
    if (!p || g_own) {
        return;
    }
    lock();
    size_t i = find(p);
    g_blocks[i].p = p;
    g_blocks[i].size = size;
    atomic_flag_clear(&g_lock);
}

// Takes a block out, and moves up what a search would not find any more.
static void take(void *p) {
    lock();
    size_t hole = find(p);
    for (size_t i = (hole + 1) % k_slots; g_blocks[hole].p && g_blocks[i].p;
         i = (i + 1) % k_slots) {
        size_t home = slot_of(g_blocks[i].p);
        if ((i - home) % k_slots >= (i - hole) % k_slots) {
            g_blocks[hole] = g_blocks[i];
            hole = i;
        }
    }
    g_blocks[hole].p = NULL;
    atomic_flag_clear(&g_lock);
}

void *malloc(size_t size) {
    void *p = __libc_malloc(size);
    add(p, size);
    return p;
}

void *calloc(size_t n, size_t size) {
    void *p = __libc_calloc(n, size);
    add(p, n * size);
    return p;
}

void *realloc(void *old, size_t size) {
    if (old) {
        take(old);
    }
    void *p = __libc_realloc(old, size);
    add(p, size);
    return p;
}

void free(void *p) {
    if (p) {
        take(p);
    }
    __libc_free(p);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                   void *arg) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    g_own = true;
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    }
    int rv = real(thread, attr, start, arg);
    g_own = false;
    return rv;
}

__attribute__((constructor)) static void begin(void) {
    static char in[1 << 12], out[1 << 12];
    setvbuf(stdin, in, _IOFBF, sizeof(in));
    setvbuf(stdout, out, _IOFBF, sizeof(out));
    const char *name = getenv("LEAKS_FILE");
    int fd = name ? open(name, O_RDWR) : -1;
    g_report = mmap(NULL, sizeof(*g_report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (g_report == MAP_FAILED) {
        abort();
    }
    close(fd);
}

__attribute__((destructor)) static void end(void) {
    for (int fd = STDERR_FILENO + 1; fd < k_most_fds; fd++) {
        g_report->fds += fcntl(fd, F_GETFD) >= 0;
    }
    for (size_t i = 0; i < k_slots; i++) {
        if (g_blocks[i].p) {
            if (g_report->blocks < 8) {
                g_report->sizes[g_report->blocks] = g_blocks[i].size;
            }
            g_report->blocks++;
            g_report->bytes += g_blocks[i].size;
        }
    }
    g_report->ended = 1;
}
