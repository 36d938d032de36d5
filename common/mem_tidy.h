// mem_tidy.h: built in chapter 08
//
// glibc's free() puts work off: it only sets a small block aside. The next call that allocates
// a KiB or more merges all of them with their neighbours, and its caller waits: 0.2 s after a
// million blocks. So we make such a call often, while there is little to merge.
#pragma once

#include <stdlib.h>

enum {
    k_tidy_size = 2000, // bytes: glibc merges before it looks for a block as large as this
};

// Has the allocator do what free() put off. Cost: O(blocks freed since the last call).
static inline void mem_tidy(void) {
    void *volatile block = malloc(k_tidy_size); // volatile: or the compiler leaves both calls out
    free(block);
}
