// client.c, chapter 05: the event loop
//
// Opens three connections at once and speaks on them out of order. A server that serves one
// connection until it ends, as that of chapter 04, never answers the third one.

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base.h"
#include "io.h"
#include "net.h"

// Reads `n` bytes of an answer, or ends the program with one line that says why not.
static void read_answer(int fd, uint8_t *buf, size_t n) {
    ssize_t rv = read_full(fd, buf, n);
    if (rv < 0) {
        die("read");
    }
    if (rv < (ssize_t)n) {
        msg("the server closed the connection without a whole answer");
        exit(1);
    }
}

// Sends `text` and prints as many bytes as come back for it.
static void query(int fd, const char *text) {
    size_t len = strlen(text);
    if (write_all(fd, text, len) < 0) {
        die("write");
    }
    uint8_t rbuf[64];
    read_answer(fd, rbuf, len);
    printf("server says: %.*s\n", (int)len, (const char *)rbuf);
    flush_stdout();
}

int main(void) {
    hold_std_fds();
    // Writing to a server that has left must fail with EPIPE, not end this program without a word.
    signal(SIGPIPE, SIG_IGN);

    struct in_addr ip = env_ip("HOST");
    uint16_t port = env_port();
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = tcp_connect(ip, port);
        if (fds[i] < 0) {
            die("connect %s:%u", inet_ntoa(ip), (unsigned)port);
        }
    }
    query(fds[2], "hello3");
    query(fds[0], "hello1");
    query(fds[1], "hello2");
    query(fds[2], "bye3");
    query(fds[0], "bye1");
    query(fds[1], "bye2");
    for (int i = 0; i < 3; i++) {
        close(fds[i]);
    }
}
