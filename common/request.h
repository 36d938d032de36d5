// request.h: built in chapter 07
//
// A request is a list of strings: the command and its arguments.
//
//   request = u32 nstr, nstr times string      1 <= nstr <= 1024, nothing after
//   string  = u32 len, len bytes
//
//   get k   ->   02 00 00 00   03 00 00 00  67 65 74   01 00 00 00  6b
//                nstr          len          g  e  t    len          k
//
// Parsing copies nothing: the slices that it yields point into the request, and live as long as it
// does. A length is compared with what is left before it is believed.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire.h"

enum {
    k_max_args = 1024,
};

// Bytes that belong to somebody else. Not terminated: they may hold NUL.
struct slice {
    const uint8_t *data;
    size_t len;
};

// Reads the request in `data`, `size` bytes, into `args`, room for k_max_args.
// Returns the number of strings, or -1 where the request is malformed. args borrow from data.
// Cost: O(strings).
static inline int parse_req(const uint8_t *data, size_t size, struct slice *args) {
    const uint8_t *end = data + size;
    if (size < 4) {
        return -1;
    }
    uint32_t nstr = load_u32(data);
    data += 4;
    if (nstr < 1 || nstr > k_max_args) {
        return -1;
    }
    for (uint32_t i = 0; i < nstr; i++) {
        if (end - data < 4) {
            return -1;
        }
        uint32_t len = load_u32(data);
        data += 4;
        if (len > (size_t)(end - data)) {
            return -1;
        }
        args[i] = (struct slice){data, len};
        data += len;
    }
    return data == end ? (int)nstr : -1;
}

// Returns how many bytes req_encode() writes for these `n` strings.
static inline size_t req_size(const struct slice *args, size_t n) {
    size_t size = 4;
    for (size_t i = 0; i < n; i++) {
        size += 4 + args[i].len;
    }
    return size;
}

// Writes the request of these `n` strings to `out`, which has room for req_size() bytes.
static inline void req_encode(const struct slice *args, size_t n, uint8_t *out) {
    store_u32(out, (uint32_t)n);
    out += 4;
    for (size_t i = 0; i < n; i++) {
        store_u32(out, (uint32_t)args[i].len);
        out += 4;
        memcpy(out, args[i].data, args[i].len);
        out += args[i].len;
    }
}
