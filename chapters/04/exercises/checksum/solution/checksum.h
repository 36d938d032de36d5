// checksum.h: the sum behind each message
//
//   u32 len, len bytes, u32 sum      sum: the bytes added up, each a number from 0 to 255
#pragma once

#include <stddef.h>
#include <stdint.h>

// Returns the sum of the `n` bytes at `p`.
static inline uint32_t checksum(const uint8_t *p, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += p[i];
    }
    return sum;
}
