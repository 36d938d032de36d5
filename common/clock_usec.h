// clock_usec.h: built in chapter 24
//
// The monotonic clock, finer than in clock.h: for work that must end within a part of a millisecond.
#pragma once

#include <stdint.h>
#include <time.h>

// Returns the monotonic time in microseconds, rounded down.
static inline int64_t get_monotonic_usec(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
