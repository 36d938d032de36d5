// serial_dbl.h: built in chapter 11
//
// One more kind of value for serial.h:
//
//   SER_DBL  f64, the eight bytes of an IEEE 754 double as a little-endian u64
//
//   (dbl) 1.5  ->  05   00 00 00 00 00 00 f8 3f
#pragma once

#include <stdint.h>
#include <string.h>

#include "serial.h"

enum {
    SER_DBL = 5,
};

// Returns the double whose eight bytes begin at `p`.
static inline double load_f64(const uint8_t *p) {
    uint64_t bits = load_u64(p);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

// Writes a double.
static inline void out_dbl(struct buf *out, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    uint8_t *p = buf_reserve(out, 9);
    p[0] = SER_DBL;
    store_u64(p + 1, bits);
    buf_commit(out, 9);
}
