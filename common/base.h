// base.h: built in chapter 03
//
// What every program here needs before it can start: a way to say something, a way to give up,
// three descriptors that are taken, and its settings.
//
//   PORT   port to listen on or to connect to, 1234 by default; a server takes 0 for "any free one"
//   BIND   IPv4 address that a server listens on, 127.0.0.1 by default
//   HOST   IPv4 address that a client connects to, 127.0.0.1 by default
//
// Messages go to standard error, one line each, so that standard output holds results alone.
// die() is for a program that cannot start. A server that runs never calls it because of a client.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Prints one line on standard error, cut at 4096 bytes. Formats as printf() does; adds the newline.
// If standard error is a pipe that nobody empties, the line is dropped: a server must not stop
// because its log is not read.
__attribute__((format(printf, 1, 2))) static inline void msg(const char *fmt, ...) {
    char line[4096];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    size_t end = len < 0 ? 0 : (size_t)len;
    if (end > sizeof(line) - 1) {
        end = sizeof(line) - 1;
    }
    line[end] = '\n';
    struct pollfd err = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&err, 1, 0) > 0 && write(STDERR_FILENO, line, end + 1) < 0) {
        // There is nowhere left to complain.
    }
}

// Ends the program with status 1 and one line: what failed, and why according to errno.
// Say what it failed on too: die("bind %s:%u", address, port).
__attribute__((format(printf, 1, 2), noreturn)) static inline void die(const char *fmt, ...) {
    int err = errno;
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, ": %s\n", strerror(err));
    exit(1);
}

// Opens /dev/null where standard input, output or error is closed, as in `./server 2>&-`. A new
// descriptor gets the lowest number that is free: a client would get 2, and read our messages.
// Call it before anything else is opened. Ends the program if it cannot.
static inline void hold_std_fds(void) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) {
            die("open /dev/null");
        }
    }
}

// Returns the number in environment variable `name`, or `fallback` if it is not set or empty.
// Ends the program with one line if it is not a whole number from `min` to `max`.
static inline long env_long(const char *name, long fallback, long min, long max) {
    const char *text = getenv(name);
    if (!text || !*text) {
        return fallback;
    }
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || value < min || value > max) {
        msg("%s=%s: not a whole number from %ld to %ld", name, text, min, max);
        exit(1);
    }
    return value;
}

// Returns the port in PORT, in the byte order of this machine.
static inline uint16_t env_port(void) {
    return (uint16_t)env_long("PORT", 1234, 0, 65535);
}

// Returns the IPv4 address in environment variable `name` (BIND or HOST), in network byte order;
// 127.0.0.1 if it is not set or empty. Ends the program with one line if it is no address.
static inline struct in_addr env_ip(const char *name) {
    const char *text = getenv(name);
    if (!text || !*text) {
        text = "127.0.0.1";
    }
    struct in_addr ip;
    if (inet_pton(AF_INET, text, &ip) != 1) {
        msg("%s=%s: not an IPv4 address such as 127.0.0.1", name, text);
        exit(1);
    }
    return ip;
}

// Writes out what was printed on standard output. Ends the program with one line if that takes
// no more, such as a full disk or a pipe that nobody reads any longer.
static inline void flush_stdout(void) {
    if (fflush(stdout) != 0 || ferror(stdout)) {
        die("write to standard output");
    }
}
