// mem.h: built in chapter 06
//
// Allocation that cannot fail: when memory runs out, the program ends with one line.
//
// That is the honest choice for a server that holds its data in memory alone. By the time that
// malloc() returns NULL (on Linux, which promises more memory than there is, it hardly ever does),
// every path that would have to cope with it is untested, and cannot do its work anyway. What one
// client may use is bounded elsewhere: by the limits on messages and buffers.
#pragma once

#include <stddef.h>
#include <stdlib.h>

#include "base.h"

// Returns `size` bytes with undefined content, owned by the caller: free().
static inline void *mem_alloc(size_t size) {
    void *p = malloc(size);
    if (!p && size > 0) {
        die("malloc %zu bytes", size);
    }
    return p;
}

// Returns an array of `n` zeroed elements of `size` bytes, owned by the caller: free().
static inline void *mem_calloc(size_t n, size_t size) {
    void *p = calloc(n, size);
    if (!p && n > 0 && size > 0) {
        die("calloc %zu times %zu bytes", n, size);
    }
    return p;
}

// Resizes `p` to `size` bytes. Takes p, returns its successor, which may lie elsewhere: free().
static inline void *mem_realloc(void *p, size_t size) {
    p = realloc(p, size);
    if (!p && size > 0) {
        die("realloc %zu bytes", size);
    }
    return p;
}
