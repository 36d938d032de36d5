// server.c, chapter 05: the event loop
//
// The smallest honest event loop: poll() says which sockets are ready, and each of those gets one
// call that cannot block. Nobody waits for anybody. What comes in goes out again, byte for byte:
// there are no messages here, and what a client does not take at once is lost (chapter 06).

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base.h"
#include "fd.h"
#include "net.h"

enum {
    k_max_clients = 1000,
};

// The sockets that poll() watches: the listening one first, then the clients.
static struct {
    struct pollfd poll_set[1 + k_max_clients];
    nfds_t nfds;
} g_data;

// ---- connections ----

// Echoes what there is to read. Returns whether the connection goes on.
static bool connection_io(int connfd) {
    uint8_t rbuf[4096];
    ssize_t n = read(connfd, rbuf, sizeof(rbuf));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true; // not ready after all: poll() will say when
    }
    if (n < 0) {
        msg("read: %s", strerror(errno));
        return false;
    }
    if (n == 0) {
        msg("EOF");
        return false;
    }
    msg("client says: %.*s", (int)n, (const char *)rbuf);
    ssize_t written = write(connfd, rbuf, (size_t)n);
    if (written < n) {
        msg("write: %zd of %zd bytes taken, the rest is lost", written < 0 ? 0 : written, n);
    }
    return true;
}

static void accept_new_conn(int listen_fd) {
    int connfd = accept(listen_fd, NULL, NULL);
    if (connfd < 0) {
        return; // gone again
    }
    if (g_data.nfds == 1 + k_max_clients || fd_set_nb(connfd) < 0) {
        msg("no room for another client");
        close(connfd);
        return;
    }
    g_data.poll_set[g_data.nfds] = (struct pollfd){.fd = connfd, .events = POLLIN};
    g_data.nfds++;
}

// ---- main: the event loop ----

int main(void) {
    hold_std_fds();
    // Writing to a client that has left must fail with EPIPE, not end this program.
    signal(SIGPIPE, SIG_IGN);

    int fd = tcp_listen(env_ip("BIND"), env_port());
    if (fd_set_nb(fd) < 0) {
        die("fcntl");
    }
    g_data.poll_set[0] = (struct pollfd){.fd = fd, .events = POLLIN};
    g_data.nfds = 1;

    while (true) {
        if (poll(g_data.poll_set, g_data.nfds, -1) < 0) {
            if (errno == EINTR) {
                continue;
            }
            die("poll");
        }
        // From the back, so that the last one can take the place of one that ends.
        for (nfds_t i = g_data.nfds - 1; i > 0; i--) {
            struct pollfd *pfd = &g_data.poll_set[i];
            if (pfd->revents && !connection_io(pfd->fd)) {
                close(pfd->fd);
                g_data.nfds--;
                *pfd = g_data.poll_set[g_data.nfds];
            }
        }
        if (g_data.poll_set[0].revents) {
            accept_new_conn(fd);
        }
    }
}
