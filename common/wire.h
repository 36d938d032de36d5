// wire.h: built in chapter 04
//
// Integers on the wire are little-endian: the lowest byte first, whatever this machine does.
//
//   0x00000105 = 261   ->   05 01 00 00
//
// Shifts say that without asking which byte order the machine has, need no alignment, and compile
// to a single load or store where the orders agree.
#pragma once

#include <stdint.h>

// Returns the u32 whose four bytes begin at `p`.
static inline uint32_t load_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

// Writes `value` into the four bytes that begin at `p`.
static inline void store_u32(uint8_t *p, uint32_t value) {
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
    p[2] = (uint8_t)(value >> 16);
    p[3] = (uint8_t)(value >> 24);
}
