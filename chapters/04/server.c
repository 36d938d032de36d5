// server.c, chapter 04: protocol parsing
//
// A stream has no messages, so we put them in: a length, then that many bytes. The server answers
// any number of messages on one connection, still one connection at a time.

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base.h"
#include "io.h"
#include "net.h"
#include "wire.h"

enum {
    k_max_msg = 4096,
};

// ---- requests: one message in, one message out ----

// message = u32 len, len bytes      len <= k_max_msg
//
// Serves one message. Returns whether the connection is good for another one.
static bool one_request(int connfd) {
    uint8_t rbuf[4 + k_max_msg];
    ssize_t n = read_full(connfd, rbuf, 4);
    if (n < 0) {
        msg("read: %s", strerror(errno));
        return false;
    }
    if (n < 4) {
        msg(n == 0 ? "EOF" : "unexpected EOF");
        return false;
    }

    uint32_t len = load_u32(rbuf);
    if (len > k_max_msg) {
        msg("too long");
        return false;
    }

    n = read_full(connfd, &rbuf[4], len);
    if (n < 0) {
        msg("read: %s", strerror(errno));
        return false;
    }
    if (n < (ssize_t)len) {
        msg("unexpected EOF");
        return false;
    }
    msg("client says: %.*s", (int)len, (const char *)&rbuf[4]);

    const char reply[] = "world";
    uint8_t wbuf[4 + sizeof(reply)];
    len = (uint32_t)strlen(reply);
    store_u32(wbuf, len);
    memcpy(&wbuf[4], reply, len);
    if (write_all(connfd, wbuf, 4 + len) < 0) {
        msg("write: %s", strerror(errno));
        return false;
    }
    return true;
}

// ---- main: one client after the other, each until it leaves ----

int main(void) {
    hold_std_fds();
    // Writing to a client that has left must fail with EPIPE, not end this program.
    signal(SIGPIPE, SIG_IGN);

    int fd = tcp_listen(env_ip("BIND"), env_port());
    while (true) {
        int connfd = accept(fd, NULL, NULL);
        if (connfd < 0) {
            continue; // the client has gone again, or a signal came
        }
        while (one_request(connfd)) {
        }
        close(connfd);
    }
}
