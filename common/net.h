// net.h: built in chapter 04
//
// The socket calls of chapter 03, now with names.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base.h"

// Returns a socket that listens on TCP `ip`:`port` (0: any free port) and says so on standard error.
// For start-up: ends the program with one line if it cannot. The caller closes the socket.
static inline int tcp_listen(struct in_addr ip, uint16_t port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) {
        die("socket");
    }
    int one = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0) {
        die("setsockopt SO_REUSEADDR");
    }
    struct sockaddr_in addr = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr = ip,
    };
    socklen_t addr_len = sizeof(addr);
    if (bind(fd, (const struct sockaddr *)&addr, addr_len) < 0) {
        die("bind %s:%u", inet_ntoa(ip), (unsigned)port);
    }
    if (listen(fd, SOMAXCONN) < 0) {
        die("listen on %s:%u", inet_ntoa(ip), (unsigned)port);
    }
    if (getsockname(fd, (struct sockaddr *)&addr, &addr_len) < 0) {
        die("getsockname");
    }
    msg("listening on %s:%u", inet_ntoa(addr.sin_addr), (unsigned)ntohs(addr.sin_port));
    return fd;
}

// Returns a socket connected to TCP `ip`:`port`, or -1 with errno. The caller closes the socket.
static inline int tcp_connect(struct in_addr ip, uint16_t port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) {
        return -1;
    }
    struct sockaddr_in addr = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr = ip,
    };
    if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
        int err = errno;
        close(fd);
        errno = err;
        return -1;
    }
    return fd;
}
