// crc64.h: built in chapter 27
//
// A checksum of 64 bits, the one that Redis uses: CRC-64 with the polynomial of David T. Jones
// (ad93d23594c935a9), bits reflected, nothing added at either end. Of "123456789" it is e9c6d914c4b8d9ca.
//
// It tells of what happens to bytes on a disk: any one to 64 bits beside each other that are wrong are
// always found, other damage but for one time in 2^64. It does not protect from somebody who changes bytes
// on purpose: who can write the file can write the sum.
//
// Eight bytes at a time ("slicing by 8", Kounavis and Berry, 2005): a table for each place among the eight.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire.h"

// What 8 bytes at a time are looked up in. The first table is that of single bytes.
struct crc64 {
    uint64_t tables[8][256];
};

// Fills the tables.
static inline void crc64_init(struct crc64 *crc) {
    for (uint64_t byte = 0; byte < 256; byte++) {
        uint64_t sum = byte;
        for (int bit = 0; bit < 8; bit++) {
            sum = sum & 1 ? sum >> 1 ^ 0x95ac9329ac4bc9b5 : sum >> 1;
        }
        crc->tables[0][byte] = sum;
    }
    for (int i = 1; i < 8; i++) {
        for (int byte = 0; byte < 256; byte++) {
            uint64_t sum = crc->tables[i - 1][byte];
            crc->tables[i][byte] = sum >> 8 ^ crc->tables[0][sum & 0xff];
        }
    }
}

// Returns the sum of the bytes so far, `sum`, and the `n` bytes at `data` behind them; 0 is the sum of none.
// Cost: O(n), some 0.8 ns a byte.
static inline uint64_t crc64_add(const struct crc64 *crc, uint64_t sum, const uint8_t *data,
                                 size_t n) {
    const uint64_t(*t)[256] = crc->tables;
    for (; n >= 8; n -= 8, data += 8) {
        sum ^= (uint64_t)load_u32(data + 4) << 32 | load_u32(data);
        sum = t[7][sum & 0xff] ^ t[6][sum >> 8 & 0xff] ^ t[5][sum >> 16 & 0xff] ^
              t[4][sum >> 24 & 0xff] ^ t[3][sum >> 32 & 0xff] ^ t[2][sum >> 40 & 0xff] ^
              t[1][sum >> 48 & 0xff] ^ t[0][sum >> 56];
    }
    for (; n > 0; n--, data++) {
        sum = sum >> 8 ^ t[0][(sum ^ *data) & 0xff];
    }
    return sum;
}
