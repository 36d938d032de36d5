// client.c: the client of chapter 04 for a protocol of lines
//
//   ./client TEXT...
//
// Sends each text as a line, each after the answer to the one before, and prints the answers.

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base.h"
#include "io.h"
#include "net.h"

enum {
    k_max_line = 4096, // without the newline
};

// Ends the program where the protocol cannot say this text.
static void check_text(const char *text) {
    if (strchr(text, '\n')) {
        msg("a text must not hold a newline: it would be two messages");
        exit(1);
    }
    if (strlen(text) > k_max_line) {
        msg("too long: a line has at most %d bytes", k_max_line);
        exit(1);
    }
}

// Reads one answer into `line` and returns its length, without the newline. An answer comes after
// one message, so what is read together with its newline ends there.
static size_t read_answer(int fd, char *line, size_t cap) {
    size_t size = 0;
    while (size == 0 || line[size - 1] != '\n') {
        if (size == cap) {
            msg("too long: the server's answer has no end");
            exit(1);
        }
        ssize_t n = read(fd, &line[size], cap - size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            die("read");
        }
        if (n == 0) {
            msg("the server closed the connection without a whole answer");
            exit(1);
        }
        size += (size_t)n;
    }
    return size - 1;
}

// Sends one text and prints the answer.
static void query(int fd, const char *text) {
    char line[k_max_line + 1];
    size_t len = strlen(text);
    memcpy(line, text, len);
    line[len] = '\n';
    if (write_all(fd, line, len + 1) < 0) {
        die("write");
    }
    len = read_answer(fd, line, sizeof(line));
    printf("server says: %.*s\n", (int)len, line);
}

int main(int argc, char **argv) {
    // Writing to a server that has left shall fail with EPIPE, not end this program without a word.
    signal(SIGPIPE, SIG_IGN);

    for (int i = 1; i < argc; i++) {
        check_text(argv[i]);
    }
    struct in_addr ip = env_ip("HOST");
    uint16_t port = env_port();
    int fd = tcp_connect(ip, port);
    if (fd < 0) {
        die("connect %s:%u", inet_ntoa(ip), (unsigned)port);
    }
    for (int i = 1; i < argc; i++) {
        query(fd, argv[i]);
    }
    close(fd);
}
