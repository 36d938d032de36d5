// client.c, chapter 07: get, set, del
//
// Sends its arguments as one command and prints the reply.

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base.h"
#include "io.h"
#include "mem.h"
#include "net.h"
#include "request.h"
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

// Sends one command.
static void send_req(int fd, const struct slice *args, size_t nargs) {
    uint8_t wbuf[4 + k_max_msg];
    size_t len = req_size(args, nargs);
    if (nargs > k_max_args || len > k_max_msg) {
        msg("too long: a command has at most %d words and %d bytes", k_max_args, k_max_msg);
        exit(1);
    }
    store_u32(wbuf, (uint32_t)len);
    req_encode(args, nargs, &wbuf[4]);
    if (write_all(fd, wbuf, 4 + len) < 0) {
        die("write");
    }
}

// Reads one reply and prints it.
static void read_res(int fd) {
    uint8_t rbuf[4 + k_max_msg];
    read_answer(fd, rbuf, 4);
    uint32_t len = load_u32(rbuf);
    if (len < 4 || len > k_max_msg) {
        msg("bad reply: the server announces %u bytes", len);
        exit(1);
    }
    read_answer(fd, &rbuf[4], len);
    uint32_t status = load_u32(&rbuf[4]);
    printf("server says: [%u]%s", status, len > 4 ? " " : "");
    fwrite(&rbuf[8], 1, len - 4, stdout);
    printf("\n");
    flush_stdout();
}

int main(int argc, char **argv) {
    hold_std_fds();
    if (argc < 2) {
        msg("usage: %s command [argument ...]", argv[0]);
        return 1;
    }
    // Writing to a server that has left must fail with EPIPE, not end this program without a word.
    signal(SIGPIPE, SIG_IGN);

    struct in_addr ip = env_ip("HOST");
    uint16_t port = env_port();
    int fd = tcp_connect(ip, port);
    if (fd < 0) {
        die("connect %s:%u", inet_ntoa(ip), (unsigned)port);
    }
    struct slice *args = mem_calloc((size_t)argc, sizeof(*args));
    for (int i = 1; i < argc; i++) {
        args[i - 1] = (struct slice){(const uint8_t *)argv[i], strlen(argv[i])};
    }
    send_req(fd, args, (size_t)argc - 1);
    read_res(fd);
    close(fd);
    free(args);
}
