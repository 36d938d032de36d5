// clock_wall.h: built in chapter 22
//
// The clock that people and other machines go by. It is set, and may jump either way: a deadline on
// it is a date, and not a time from now on.
#pragma once

#include <stdint.h>
#include <time.h>

// Returns the milliseconds since the beginning of 1970 (UTC), rounded down.
static inline int64_t get_wall_msec(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
