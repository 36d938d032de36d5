// buf_share.h: built in chapter 19
//
// One buffer for ten thousand connections, since only one of them has its turn. It borrows the memory
// when its turn begins, and returns it at the end. It keeps only the bytes that are left over, here f:
//
//              before           in its turn              after
//   own        |ab|             |ab................|     |f|
//   shared     |............|   none                     |..................|
//
// So between turns a buffer takes at most four times what is in it, and nothing where it is empty.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "buf.h"

enum {
    k_max_shared = 256 << 10, // a shared buffer that has grown larger is freed
};

// Gives `own` the memory of `shared`, at least `cap` bytes, and leaves shared without any. Copies
// what own holds into it; if that is more than half of cap, own keeps its own memory instead.
static inline void buf_borrow(struct buf *own, struct buf *shared, size_t cap) {
    size_t size = buf_size(own);
    if (size > cap / 2) {
        return;
    }
    uint8_t *data = buf_reserve(shared, cap);
    if (size > 0) {
        memcpy(data, buf_data(own), size);
        buf_commit(shared, size);
    }
    free(own->data);
    *own = *shared;
    *shared = (struct buf){0};
}

// Ends the loan. `own` keeps the bytes in it: if they fill at most a quarter of its memory, it gets
// a copy of them, and the memory goes back to `shared`.
static inline void buf_return(struct buf *own, struct buf *shared) {
    size_t size = buf_size(own);
    if (own->cap == 0 || size > own->cap / 4) {
        return;
    }
    struct buf left = {0};
    if (size > 0) {
        left = (struct buf){.data = mem_alloc(size), .cap = size, .tail = size};
        memcpy(left.data, buf_data(own), size);
    }
    if (own->cap > shared->cap && own->cap <= k_max_shared) {
        free(shared->data);
        *shared = (struct buf){.data = own->data, .cap = own->cap};
    } else {
        free(own->data);
    }
    *own = left;
}
