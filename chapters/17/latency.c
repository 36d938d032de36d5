// latency.c, chapter 17: what does a step through memory take?
//
//   ./latency [MIB]      up to so many MiB, a power of two; 256 where it is not said
//
// A chain leads through all cache lines of a block, in an order that no processor can guess: each line
// holds where the next one is. So a step cannot begin before the one before has ended, and its time is
// that of the memory. Several chains through the same block, a step of each in turn, show how many of
// these waits the processor can overlap.
//
// In the last column there is one line in each page: few lines, many pages.

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base.h"
#include "mem.h"

enum {
    k_line = 64,   // bytes of a cache line
    k_page = 4096, // and of a page
    k_first_kib = 16,
    k_default_mib = 256,
    k_max_chains = 16,
    k_steps_a_look = 1000, // at the clock
    k_min_looks = 10,
    k_measure_ns = 8000000,
};

struct line {
    struct line *next;
    uint8_t unused[k_line - sizeof(struct line *)];
};

// Returns the next number of a sequence that looks random (Marsaglia, "Xorshift RNGs", 2003).
static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

// Returns a line of the i-th part of the block, which has parts of `stride` bytes. In a page it is another
// line each time: lines that are exactly a page apart would share few places in the cache.
static struct line *line_at(uint8_t *block, size_t stride, size_t i) {
    return (struct line *)(block + i * stride + i * k_line % stride);
}

// Links a line of each of the `n` parts into one circle, in random order: each goes in behind a line
// of the circle that is picked at random.
static void link_lines(uint8_t *block, size_t stride, size_t n) {
    uint64_t state = 88172645463325252;
    for (size_t i = 0; i < n; i++) {
        struct line *line = line_at(block, stride, i);
        line->next = line;
        if (i > 0) {
            struct line *other = line_at(block, stride, next_random(&state) % i);
            line->next = other->next;
            other->next = line;
        }
    }
}

// Returns how many lines there are until the circle is back where it began.
static size_t circle_len(const struct line *first) {
    size_t n = 1;
    for (const struct line *line = first->next; line != first; line = line->next) {
        n++;
    }
    return n;
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
}

// Takes `steps` steps of each of `n` chains. Inlined, so that each n has a loop of its own.
static inline __attribute__((always_inline)) void follow(struct line **places, int n, int steps) {
    struct line *at[k_max_chains];
    for (int i = 0; i < n; i++) {
        at[i] = places[i];
    }
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < n; i++) {
            at[i] = at[i]->next;
        }
    }
    for (int i = 0; i < n; i++) {
        places[i] = at[i];
    }
}

static void follow_1(struct line **places, int steps) {
    follow(places, 1, steps);
}

static void follow_2(struct line **places, int steps) {
    follow(places, 2, steps);
}

static void follow_4(struct line **places, int steps) {
    follow(places, 4, steps);
}

static void follow_8(struct line **places, int steps) {
    follow(places, 8, steps);
}

static void follow_16(struct line **places, int steps) {
    follow(places, 16, steps);
}

static const struct {
    int chains;
    void (*follow)(struct line **places, int steps);
} k_ways[] = {{1, follow_1}, {2, follow_2}, {4, follow_4}, {8, follow_8}, {16, follow_16}};

// Prints what a step of one chain takes, in nanoseconds, where some chains are followed side by side: the
// least that was seen, since whatever else the machine does can only add to it. The chains set out from
// random lines.
static void measure(uint8_t *block, size_t stride, size_t n, int which) {
    uint64_t state = 2463534242;
    struct line *places[k_max_chains];
    for (int i = 0; i < k_max_chains; i++) {
        places[i] = line_at(block, stride, next_random(&state) % n);
    }
    k_ways[which].follow(places, k_steps_a_look); // a first time, which does not count
    int64_t begin = now_ns(), before = begin, least = INT64_MAX;
    for (int looks = 0; looks < k_min_looks || before - begin < k_measure_ns; looks++) {
        k_ways[which].follow(places, k_steps_a_look);
        int64_t after = now_ns();
        least = after - before < least ? after - before : least;
        before = after;
    }
    printf(" %9.1f", (double)least / k_steps_a_look / k_ways[which].chains);
    fflush(stdout);
}

// Prints a row: what a step takes in a block of `size` bytes.
static void measure_size(uint8_t *block, size_t size) {
    printf("%6zu %s", size >= 1 << 20 ? size >> 20 : size >> 10, size >= 1 << 20 ? "MiB" : "KiB");
    size_t lines = size / k_line, pages = size / k_page;
    link_lines(block, k_line, lines);
    if (circle_len(line_at(block, k_line, 0)) != lines) {
        msg("the chain does not lead through all lines");
        exit(1);
    }
    for (size_t i = 0; i < sizeof(k_ways) / sizeof(k_ways[0]); i++) {
        measure(block, k_line, lines, (int)i);
    }
    link_lines(block, k_page, pages);
    measure(block, k_page, pages, 0);
    printf("\n");
}

int main(int argc, char **argv) {
    char *end = "";
    unsigned long mib = argc > 1 ? strtoul(argv[1], &end, 10) : k_default_mib;
    if (argc > 2 || *end || mib < 1 || mib > SIZE_MAX >> 21 || (mib & (mib - 1)) != 0) {
        msg("usage: %s [MIB], a power of two", argv[0]);
        return 1;
    }
    uint8_t *memory = mem_alloc((mib << 20) + k_page);
    uint8_t *block = memory + (k_page - (uintptr_t)memory % k_page); // where a page begins
    printf("ns a step ");
    for (size_t i = 0; i < sizeof(k_ways) / sizeof(k_ways[0]); i++) {
        printf(" %2d chain%s", k_ways[i].chains, k_ways[i].chains > 1 ? "s" : " ");
    }
    printf("   a page\n");
    for (size_t size = k_first_kib << 10; size <= mib << 20; size *= 2) {
        measure_size(block, size);
    }
    free(memory);
}
