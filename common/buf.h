// buf.h: built in chapter 09
//
// A byte buffer that grows at its end and is used up from its front.
//
//   data                                        data + cap
//   | used up |  size bytes  |      free        |
//             ^ head         ^ tail
//
// Using up moves head and no bytes. The bytes move when room is needed at the end, and then either
// to the front or to a larger allocation.
//
// Invariants: head <= tail <= cap; head == tail only where both are 0; data is NULL where cap is 0.
// A zeroed buf is empty and owns nothing. A pointer into it lasts until a call makes room, which may
// move the bytes, or gives memory back.
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

enum {
    k_min_buf = 512,
};

struct buf {
    uint8_t *data;
    size_t cap;
    size_t head;
    size_t tail;
};

// Returns the number of bytes in the buffer.
static inline size_t buf_size(const struct buf *buf) {
    return buf->tail - buf->head;
}

// Returns the first byte; buf_size() of them are there. Borrowed from the buffer. (In C, NULL + 0 is
// undefined.)
static inline uint8_t *buf_data(const struct buf *buf) {
    return buf->head > 0 ? buf->data + buf->head : buf->data;
}

// Moves the bytes to a new allocation of `cap` bytes, which has room for them.
static inline void buf_move(struct buf *buf, size_t cap) {
    size_t size = buf_size(buf);
    uint8_t *data = mem_alloc(cap);
    if (size > 0) {
        memcpy(data, buf_data(buf), size);
    }
    free(buf->data);
    *buf = (struct buf){.data = data, .cap = cap, .tail = size};
}

// Makes room at the end, the slow way. See buf_reserve().
static inline void buf_make_room(struct buf *buf, size_t n) {
    size_t size = buf_size(buf);
    if (buf->cap - size >= n) {
        memmove(buf->data, buf_data(buf), size);
        buf->head = 0;
        buf->tail = size;
    } else {
        size_t cap = buf->cap < k_min_buf ? k_min_buf : buf->cap * 2;
        if (cap - size < n) {
            cap = size + n;
        }
        buf_move(buf, cap);
    }
}

// Makes room for at least `n` bytes at the end and returns where they go; buf_commit() adds them.
// Cost: O(size) if the bytes must move; amortised O(n), unless the buffer is always nearly full.
static inline uint8_t *buf_reserve(struct buf *buf, size_t n) {
    if (buf->cap - buf->tail < n) {
        buf_make_room(buf, n);
    }
    return buf->data + buf->tail;
}

// Adds the `n` bytes that were written where buf_reserve() said.
static inline void buf_commit(struct buf *buf, size_t n) {
    assert(n <= buf->cap - buf->tail);
    buf->tail += n;
}

// Uses up the first `n` bytes. Cost: O(1).
static inline void buf_consume(struct buf *buf, size_t n) {
    assert(n <= buf_size(buf));
    buf->head += n;
    if (buf->head == buf->tail) {
        buf->head = buf->tail = 0;
    }
}

// Takes back all but the first `size` bytes. Cost: O(1).
static inline void buf_truncate(struct buf *buf, size_t size) {
    assert(size <= buf_size(buf));
    buf->tail = buf->head + size;
    if (size == 0) {
        buf->head = buf->tail = 0;
    }
}

// Frees the memory, and with it whatever is in the buffer. It is empty then, and may be used again.
static inline void buf_dispose(struct buf *buf) {
    free(buf->data);
    *buf = (struct buf){0};
}

// Gives back the memory that the bytes in the buffer do not take. Cost: O(size).
static inline void buf_shrink(struct buf *buf) {
    if (buf_size(buf) > 0) {
        buf_move(buf, buf_size(buf));
    } else {
        buf_dispose(buf);
    }
}
