// fd.h: built in chapter 05
//
// Nonblocking mode: a call that would have to wait returns -1 with EAGAIN instead.
#pragma once

#include <fcntl.h>

// Makes `fd` nonblocking. Returns 0, or -1 with errno.
static inline int fd_set_nb(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) {
        return -1;
    }
    return fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}
