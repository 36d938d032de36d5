// server.c, chapter 03: hello server
//
// The smallest TCP server: every call is written out in main. It takes one connection at a time,
// reads once, writes once and closes.

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base.h"

// ---- requests: what one client is told ----

static void do_something(int connfd) {
    char rbuf[64];
    ssize_t n = read(connfd, rbuf, sizeof(rbuf));
    if (n < 0) {
        msg("read: %s", strerror(errno));
        return;
    }
    msg("client says: %.*s", (int)n, rbuf);

    const char wbuf[] = "world";
    if (write(connfd, wbuf, strlen(wbuf)) < 0) {
        msg("write: %s", strerror(errno));
    }
}

// ---- main: get a listening socket, then serve one client after the other ----

int main(void) {
    hold_std_fds();
    // Writing to a client that has left must fail with EPIPE, not end this program.
    signal(SIGPIPE, SIG_IGN);

    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) {
        die("socket");
    }

    // Without this, the port stays taken for a minute after the server has ended.
    int one = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0) {
        die("setsockopt SO_REUSEADDR");
    }

    struct sockaddr_in addr = {
        .sin_family = AF_INET,
        .sin_port = htons(env_port()),
        .sin_addr = env_ip("BIND"),
    };
    socklen_t addr_len = sizeof(addr);
    if (bind(fd, (const struct sockaddr *)&addr, addr_len) < 0) {
        die("bind %s:%u", inet_ntoa(addr.sin_addr), (unsigned)ntohs(addr.sin_port));
    }
    if (listen(fd, SOMAXCONN) < 0) {
        die("listen on %s:%u", inet_ntoa(addr.sin_addr), (unsigned)ntohs(addr.sin_port));
    }

    // PORT=0 let the kernel choose: ask which port it is.
    if (getsockname(fd, (struct sockaddr *)&addr, &addr_len) < 0) {
        die("getsockname");
    }
    msg("listening on %s:%u", inet_ntoa(addr.sin_addr), (unsigned)ntohs(addr.sin_port));

    while (true) {
        int connfd = accept(fd, NULL, NULL);
        if (connfd < 0) {
            continue; // the client has gone again, or a signal came
        }
        do_something(connfd);
        close(connfd);
    }
}
