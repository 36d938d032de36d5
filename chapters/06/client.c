// client.c, chapter 06: the event loop, whole
//
// Pipelining: sends three messages before it reads the first answer.

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base.h"
#include "io.h"
#include "net.h"
#include "wire.h"

enum {
    k_max_msg = 4096,
};

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

// Sends one message.
static void send_req(int fd, const char *text) {
    uint8_t wbuf[4 + k_max_msg];
    uint32_t len = (uint32_t)strlen(text);
    if (len > k_max_msg) {
        msg("too long: a message has at most %d bytes", k_max_msg);
        exit(1);
    }
    store_u32(wbuf, len);
    memcpy(&wbuf[4], text, len);
    if (write_all(fd, wbuf, 4 + len) < 0) {
        die("write");
    }
}

// Reads one answer and prints it.
static void read_res(int fd) {
    uint8_t rbuf[4 + k_max_msg];
    read_answer(fd, rbuf, 4);
    uint32_t len = load_u32(rbuf);
    if (len > k_max_msg) {
        msg("too long: the server announces an answer of %u bytes", len);
        exit(1);
    }
    read_answer(fd, &rbuf[4], len);
    printf("server says: %.*s\n", (int)len, (const char *)&rbuf[4]);
    flush_stdout();
}

int main(void) {
    hold_std_fds();
    // Writing to a server that has left must fail with EPIPE, not end this program without a word.
    signal(SIGPIPE, SIG_IGN);

    struct in_addr ip = env_ip("HOST");
    uint16_t port = env_port();
    int fd = tcp_connect(ip, port);
    if (fd < 0) {
        die("connect %s:%u", inet_ntoa(ip), (unsigned)port);
    }
    const char *const texts[] = {"hello1", "hello2", "hello3"};
    for (int i = 0; i < 3; i++) {
        send_req(fd, texts[i]);
    }
    for (int i = 0; i < 3; i++) {
        read_res(fd);
    }
    close(fd);
}
