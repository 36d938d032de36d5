// io.h: built in chapter 04
//
// read() and write() may move less than they were asked to: a stream hands over what it has, and a
// signal may cut a call short. These two go on until everything is moved. They are for blocking
// descriptors: on a nonblocking one they end with EAGAIN in the middle.
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

// Reads `n` bytes into `buf`. Returns n; fewer if the input ends first; -1 with errno.
static inline ssize_t read_full(int fd, void *buf, size_t n) {
    uint8_t *cur = buf;
    size_t left = n;
    while (left > 0) {
        ssize_t rv = read(fd, cur, left);
        if (rv < 0 && errno == EINTR) {
            continue;
        }
        if (rv < 0) {
            return -1;
        }
        if (rv == 0) {
            break;
        }
        cur += rv;
        left -= (size_t)rv;
    }
    return (ssize_t)(n - left);
}

// Writes the `n` bytes of `buf`. Returns 0, or -1 with errno; then some may have been written.
static inline int write_all(int fd, const void *buf, size_t n) {
    const uint8_t *cur = buf;
    while (n > 0) {
        ssize_t rv = write(fd, cur, n);
        if (rv < 0 && errno == EINTR) {
            continue;
        }
        if (rv < 0) {
            return -1;
        }
        cur += rv;
        n -= (size_t)rv;
    }
    return 0;
}
