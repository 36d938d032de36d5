// clock.h: built in chapter 12
//
// The clock for timers. The wall clock is set, by people and by NTP, and may jump either way; the
// monotonic clock only ever goes on, and its zero means nothing.
#pragma once

#include <stdint.h>
#include <time.h>

// Returns the monotonic time in milliseconds, rounded down.
static inline int64_t get_monotonic_msec(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
