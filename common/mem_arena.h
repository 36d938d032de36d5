// mem_arena.h: built in chapter 14
//
// One heap for all threads. glibc gives a new thread a heap of its own, an arena, to allocate from.
// But a block that is freed goes back to the arena it came from, and waits there to be merged:
// a worker that frees blocks of the loop and calls mem_tidy() would tidy the wrong one.
#pragma once

#include <malloc.h>

// Has all threads allocate from the arena of the first one. To be called before there are others.
static inline void mem_one_arena(void) {
#ifdef M_ARENA_MAX // glibc has it
    mallopt(M_ARENA_MAX, 1);
#endif
}
