// mem_arena.h: built in chapter 14
//
// One heap for all threads. glibc gives a new thread a heap of its own, an arena, to allocate from.
// But a block that is freed goes back to the arena it came from, and waits there to be merged:
// a worker that frees blocks of the loop and calls mem_tidy() would tidy the wrong one.
//
// And large blocks outside of it. Memory of the heap goes back to the kernel under the heap's lock,
// 0.1 ms a MiB, and the loop needs that lock to allocate. A block with a mapping of its own does not
// need it. glibc makes one for each block from 128 KiB on, but whenever a larger one is freed, its
// size becomes the new bound. So we set the bound, which then stays.
#pragma once

#include <malloc.h>

enum {
    k_mapped_size = 1 << 20, // bytes from which a block has a mapping of its own
};

// Has all threads allocate from the arena of the first one, and large blocks have their own mapping.
// To be called before there are other threads.
static inline void mem_one_arena(void) {
#ifdef M_ARENA_MAX // glibc has it
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, k_mapped_size);
#endif
}
