// serial.h: built in chapter 09
//
// A reply is one value that says of itself what it is.
//
//   value = u8 tag, then
//     SER_NIL  nothing
//     SER_ERR  i32 code, u32 len, len bytes of text
//     SER_STR  u32 len, len bytes
//     SER_INT  i64
//     SER_ARR  u32 n, n times value
//
//   (int) 1  ->  03   01 00 00 00 00 00 00 00
//
// The out_*() functions write a value to the end of a buffer, straight to where it is sent from.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "buf.h"
#include "wire.h"

enum {
    SER_NIL = 0,
    SER_ERR = 1,
    SER_STR = 2,
    SER_INT = 3,
    SER_ARR = 4,
};

enum {
    ERR_UNKNOWN = 1, // no such command
    ERR_2BIG = 2,    // the reply would be too big
    ERR_TYPE = 3,    // the key holds a value of another type
    ERR_ARG = 4,     // a bad argument, or a wrong number of them
};

enum {
    k_str_head = 5, // bytes of a string in front of its own: tag and length
    k_arr_head = 5, // bytes of an array in front of its values: tag and number
};

// Returns the u64 whose eight bytes begin at `p`.
static inline uint64_t load_u64(const uint8_t *p) {
    return load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}

// Writes `value` into the eight bytes that begin at `p`.
static inline void store_u64(uint8_t *p, uint64_t value) {
    store_u32(p, (uint32_t)value);
    store_u32(p + 4, (uint32_t)(value >> 32));
}

// Writes nil: no value, such as that of a key that does not exist.
static inline void out_nil(struct buf *out) {
    *buf_reserve(out, 1) = SER_NIL;
    buf_commit(out, 1);
}

// Writes an error: a code for programs, a text for people.
static inline void out_err(struct buf *out, int32_t code, const char *text) {
    size_t len = strlen(text);
    uint8_t *p = buf_reserve(out, 9 + len);
    p[0] = SER_ERR;
    store_u32(p + 1, (uint32_t)code);
    store_u32(p + 5, (uint32_t)len);
    memcpy(p + 9, text, len);
    buf_commit(out, 9 + len);
}

// Writes a string: a copy of `len` bytes, fewer than 4 GiB.
static inline void out_str(struct buf *out, const uint8_t *data, size_t len) {
    uint8_t *p = buf_reserve(out, k_str_head + len);
    p[0] = SER_STR;
    store_u32(p + 1, (uint32_t)len);
    memcpy(p + k_str_head, data, len);
    buf_commit(out, k_str_head + len);
}

// Writes an integer.
static inline void out_int(struct buf *out, int64_t value) {
    uint8_t *p = buf_reserve(out, 9);
    p[0] = SER_INT;
    store_u64(p + 1, (uint64_t)value);
    buf_commit(out, 9);
}

// Begins an array of `n` values, which are to be written next. Returns its position, with which
// out_arr_end() sets n where it was not known yet.
static inline size_t out_arr(struct buf *out, uint32_t n) {
    size_t pos = buf_size(out);
    uint8_t *p = buf_reserve(out, k_arr_head);
    p[0] = SER_ARR;
    store_u32(p + 1, n);
    buf_commit(out, k_arr_head);
    return pos;
}

// Ends the array that begins at `pos`: it has `n` values.
static inline void out_arr_end(struct buf *out, size_t pos, uint32_t n) {
    store_u32(buf_data(out) + pos + 1, n);
}
