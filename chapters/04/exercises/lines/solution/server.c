// server.c: the server of chapter 04 for a protocol of lines
//
// A message ends where its line ends, so its length is known when all of it is there, not before.
// The server answers any number of lines on one connection, still one connection at a time.

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base.h"
#include "io.h"
#include "net.h"

enum {
    k_max_line = 4096, // without the newline
};

// ---- input: read in large pieces, served in lines ----

// What has been read from a connection and not served yet: buf[begin] to buf[end - 1]. The longest
// line just fits, with its newline: a full buffer without a newline holds a line that is too long.
struct reader {
    int fd;
    bool too_long; // of the current line a part was thrown away
    size_t begin;
    size_t end;
    uint8_t buf[k_max_line + 1];
};

// Reads once, behind what is left. Returns what read() does. Invalidates pointers into the buffer.
static ssize_t reader_fill(struct reader *reader) {
    memmove(reader->buf, &reader->buf[reader->begin], reader->end - reader->begin);
    reader->end -= reader->begin;
    reader->begin = 0;
    ssize_t n = 0;
    do {
        n = read(reader->fd, &reader->buf[reader->end], sizeof(reader->buf) - reader->end);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        reader->end += (size_t)n;
    }
    return n;
}

// ---- requests: one line in, one line out ----

// message = bytes, '\n'      at most k_max_line bytes, none of them '\n'
//
// Serves one line. Returns whether the connection is good for another one.
static bool one_request(struct reader *reader) {
    const uint8_t *newline = NULL;
    while (true) {
        size_t there = reader->end - reader->begin;
        newline = memchr(&reader->buf[reader->begin], '\n', there);
        if (newline) {
            break;
        }
        if (there == sizeof(reader->buf)) {
            reader->too_long = true;
            reader->begin = reader->end = 0;
        }
        ssize_t n = reader_fill(reader);
        if (n < 0) {
            msg("read: %s", strerror(errno));
            return false;
        }
        if (n == 0) {
            msg(there == 0 && !reader->too_long ? "EOF" : "unexpected EOF");
            return false;
        }
    }

    const uint8_t *line = &reader->buf[reader->begin];
    size_t len = (size_t)(newline - line);
    const char *reply = "world\n";
    if (reader->too_long) {
        msg("too long");
        reply = "too long\n";
    } else {
        msg("client says: %.*s", (int)len, (const char *)line);
    }
    reader->too_long = false;
    reader->begin += len + 1;
    if (write_all(reader->fd, reply, strlen(reply)) < 0) {
        msg("write: %s", strerror(errno));
        return false;
    }
    return true;
}

// ---- main: one client after the other, each until it leaves ----

int main(void) {
    // Writing to a client that has left shall fail with EPIPE, not end this program.
    signal(SIGPIPE, SIG_IGN);

    int fd = tcp_listen(env_ip("BIND"), env_port());
    while (true) {
        int connfd = accept(fd, NULL, NULL);
        if (connfd < 0) {
            continue; // the client has gone again, or a signal came
        }
        struct reader reader = {.fd = connfd};
        while (one_request(&reader)) {
        }
        close(connfd);
    }
}
