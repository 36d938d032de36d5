// hash.h: built in chapter 08
//
// A keyed hash of strings. The keys of a server are chosen by its clients, so a hash that everybody
// can compute lets them choose keys that collide and turns the table into a list. With a random key
// from the kernel, nobody outside knows which strings collide.
//
// SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012), with one round a
// word and three at the end as Rust and Python use it, cut to 32 bits.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base.h"

struct hash_key {
    uint64_t k0, k1;
};

// Returns a random key from the kernel; where HASH_SEED is set (32 hexadecimal digits, for tests),
// that key. Ends the program with one line where neither can be had.
static inline struct hash_key hash_key_init(void) {
    struct hash_key key;
    const char *seed = getenv("HASH_SEED");
    if (seed && *seed) {
        unsigned long long k0, k1;
        if (strlen(seed) != 32 || strspn(seed, "0123456789abcdefABCDEF") != 32 ||
            sscanf(seed, "%16llx%16llx", &k0, &k1) != 2) {
            msg("HASH_SEED=%s: not 32 hexadecimal digits", seed);
            exit(1);
        }
        key.k0 = k0;
        key.k1 = k1;
    } else if (getentropy(&key, sizeof(key)) < 0) {
        die("getentropy");
    }
    return key;
}

#define HASH_ROTL(x, b) ((x) << (b) | (x) >> (64 - (b)))

// One round of SipHash: additions, rotations and exclusive ors mix the four words of the state.
static inline void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = HASH_ROTL(v[1], 13) ^ v[0];
    v[3] = HASH_ROTL(v[3], 16) ^ v[2];
    v[0] = HASH_ROTL(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = HASH_ROTL(v[1], 17) ^ v[2];
    v[3] = HASH_ROTL(v[3], 21) ^ v[0];
    v[2] = HASH_ROTL(v[2], 32);
}

// Returns the little-endian u64 at `p`. Written out, compilers make one load of it; from a loop
// they make one for each byte.
static inline uint64_t sip_word(const uint8_t *p) {
    uint32_t low =
        (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    uint32_t high =
        (uint32_t)p[4] | (uint32_t)p[5] << 8 | (uint32_t)p[6] << 16 | (uint32_t)p[7] << 24;
    return (uint64_t)high << 32 | low;
}

// Returns the hash of the `len` bytes at `data` under `key`. Cost: O(len).
static inline uint32_t str_hash(const struct hash_key *key, const uint8_t *data, size_t len) {
    uint64_t v[4] = {
        key->k0 ^ 0x736f6d6570736575,
        key->k1 ^ 0x646f72616e646f6d,
        key->k0 ^ 0x6c7967656e657261,
        key->k1 ^ 0x7465646279746573,
    };
    uint64_t last = (uint64_t)len << 56;
    for (; len >= 8; data += 8, len -= 8) {
        uint64_t word = sip_word(data);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    for (size_t i = 0; i < len; i++) {
        last |= (uint64_t)data[i] << (8 * i);
    }
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return (uint32_t)(v[0] ^ v[1] ^ v[2] ^ v[3]);
}
