// echo.c: the ceiling of what a server on this machine can do
//
//   cc -O2 -Wall -Wextra -I../../common echo.c -o echo
//   PORT=1234 ./echo
//
// Sends back the bytes that come, with one epoll_wait, one read and one write where the servers have
// theirs, and does nothing else: what it needs, the kernel needs. A client that does not read is
// not read from until it does.

#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>

#include "base.h"
#include "fd.h"
#include "mem.h"
#include "net.h"

struct conn {
    int fd;
    size_t len, sent;
    uint8_t buf[1 << 16];
};

static void watch(int epoll_fd, int op, struct conn *conn, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = conn};
    if (epoll_ctl(epoll_fd, op, conn->fd, &event) < 0) {
        die("epoll_ctl");
    }
}

// Reads and sends back. Returns whether the connection goes on.
static bool echo(int epoll_fd, struct conn *conn) {
    bool blocked = conn->sent < conn->len;
    if (!blocked) {
        ssize_t n = read(conn->fd, conn->buf, sizeof(conn->buf));
        if (n <= 0) {
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        }
        conn->len = (size_t)n;
        conn->sent = 0;
    }
    ssize_t n = write(conn->fd, conn->buf + conn->sent, conn->len - conn->sent);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        return false;
    }
    conn->sent += n > 0 ? (size_t)n : 0;
    if (blocked != (conn->sent < conn->len)) {
        watch(epoll_fd, EPOLL_CTL_MOD, conn, blocked ? EPOLLIN : EPOLLOUT);
    }
    return true;
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    int listen_fd = tcp_listen(env_ip("BIND"), env_port());
    int epoll_fd = epoll_create1(0);
    if (epoll_fd < 0 || fd_set_nb(listen_fd) < 0) {
        die("epoll_create1");
    }
    struct conn listener = {.fd = listen_fd};
    watch(epoll_fd, EPOLL_CTL_ADD, &listener, EPOLLIN);
    while (true) {
        struct epoll_event events[256];
        int n = epoll_wait(epoll_fd, events, 256, -1);
        for (int i = 0; i < n; i++) {
            struct conn *conn = events[i].data.ptr;
            if (conn != &listener) {
                if (!echo(epoll_fd, conn)) {
                    close(conn->fd);
                    free(conn);
                }
                continue;
            }
            for (int fd; (fd = accept(listen_fd, NULL, NULL)) >= 0;) {
                int one = 1;
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
                fd_set_nb(fd);
                conn = mem_alloc(sizeof(*conn));
                conn->fd = fd;
                conn->len = conn->sent = 0;
                watch(epoll_fd, EPOLL_CTL_ADD, conn, EPOLLIN);
            }
        }
    }
}
