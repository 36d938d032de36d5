// server.c, chapter 06: the event loop, whole
//
// An echo server for messages. Every connection carries its own state from one round of the loop to
// the next: what has been read but is no whole message yet, and what has been answered but not
// taken yet. A client may send any number of messages without waiting (pipelining), cut them
// anywhere, or stop reading; the others notice nothing.

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base.h"
#include "fd.h"
#include "mem.h"
#include "net.h"
#include "wire.h"

enum {
    k_max_msg = 4096,
    k_max_accepts = 1000,    // connections accepted in one round
    k_max_dropped = 4 << 20, // bytes behind a bad message after which its client is cut off
    k_stop_ms = 400,         // after the signal to stop, until the program ends wherever it is
    k_accept_retry_ms = 100,
};

enum conn_state {
    STATE_REQ, // waits for requests: reading
    STATE_RES, // waits for the client to take a reply: writing
    STATE_BAD, // the client sent a bad message: waits for it to hang up
    STATE_END, // to be closed
};

// One connection.
struct conn {
    int fd;
    enum conn_state state;
    bool eof; // the client has sent all it will send
    size_t rbuf_size;
    uint8_t rbuf[4 + k_max_msg];
    size_t wbuf_size;
    size_t wbuf_sent;
    uint8_t wbuf[4 + k_max_msg];
    size_t dropped; // bytes that came behind a bad message
};

static struct {
    // Both are indexed by descriptor; the kernel hands out the lowest that is free, so they stay
    // short. poll() passes over slots whose fd is -1.
    struct conn **fd2conn;
    struct pollfd *poll_set;
    size_t cap;  // slots allocated
    size_t nfds; // slots up to the last one in use
    int listen_fd;
    int stop_pipe[2];
    volatile sig_atomic_t stopping;
} g_data;

// ---- the poll set ----

// Has poll() watch `fd` for `events`.
static void watch(int fd, short events) {
    size_t slot = (size_t)fd;
    if (slot >= g_data.cap) {
        size_t cap = slot * 2 + 16;
        g_data.fd2conn = mem_realloc(g_data.fd2conn, cap * sizeof(g_data.fd2conn[0]));
        g_data.poll_set = mem_realloc(g_data.poll_set, cap * sizeof(g_data.poll_set[0]));
        for (size_t i = g_data.cap; i < cap; i++) {
            g_data.fd2conn[i] = NULL;
            g_data.poll_set[i] = (struct pollfd){.fd = -1};
        }
        g_data.cap = cap;
    }
    g_data.poll_set[slot] = (struct pollfd){.fd = fd, .events = events};
    if (slot >= g_data.nfds) {
        g_data.nfds = slot + 1;
    }
}

// Makes poll() stop watching `fd`.
static void unwatch(int fd) {
    g_data.poll_set[fd] = (struct pollfd){.fd = -1};
    while (g_data.nfds > 0 && g_data.poll_set[g_data.nfds - 1].fd < 0) {
        g_data.nfds--;
    }
}

// ---- requests: one message in, the same message out ----

// Ends our side of the connection. All replies must be sent. After a bad message we cannot tell
// where the next one begins.
static void reject_input(struct conn *conn, const char *why) {
    msg("%s", why);
    shutdown(conn->fd, SHUT_WR);
    conn->state = STATE_BAD;
}

// message = u32 len, len bytes      len <= k_max_msg
//
// Answers the first message in rbuf, if it is whole. Returns whether there is a reply to send.
static bool try_one_request(struct conn *conn) {
    uint32_t len = 0;
    if (conn->rbuf_size >= 4) {
        len = load_u32(conn->rbuf);
        if (len > k_max_msg) {
            reject_input(conn, "too long");
            return false;
        }
    }
    if (conn->rbuf_size < 4 + (size_t)len) {
        if (conn->eof) {
            msg(conn->rbuf_size == 0 ? "EOF" : "unexpected EOF");
            conn->state = STATE_END;
        }
        return false;
    }
    msg("client says: %.*s", (int)len, (const char *)&conn->rbuf[4]);

    memcpy(conn->wbuf, conn->rbuf, 4 + len);
    conn->wbuf_size = 4 + len;
    conn->wbuf_sent = 0;
    conn->state = STATE_RES;

    conn->rbuf_size -= 4 + len;
    memmove(conn->rbuf, &conn->rbuf[4 + len], conn->rbuf_size);
    return true;
}

// ---- connections ----

// Reads once. Returns whether anything came: bytes, or the end of the input.
static bool try_fill_buffer(struct conn *conn) {
    ssize_t n =
        recv(conn->fd, &conn->rbuf[conn->rbuf_size], sizeof(conn->rbuf) - conn->rbuf_size, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            conn->state = STATE_END;
        }
        return false;
    }
    if (n == 0) {
        conn->eof = true;
    }
    conn->rbuf_size += (size_t)n;
    return true;
}

// Writes once. Returns whether the whole reply is sent: only then is there room for the next one.
static bool try_flush_buffer(struct conn *conn) {
    ssize_t n = send(conn->fd, &conn->wbuf[conn->wbuf_sent], conn->wbuf_size - conn->wbuf_sent, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            conn->state = STATE_END;
        }
        return false;
    }
    conn->wbuf_sent += (size_t)n;
    if (conn->wbuf_sent < conn->wbuf_size) {
        return false;
    }
    conn->state = STATE_REQ;
    return true;
}

// Answers the requests in rbuf, until no whole one is left or the client does not take a reply.
static void state_req(struct conn *conn) {
    while (try_one_request(conn) && try_flush_buffer(conn)) {
    }
}

// Sends more of a reply. Once all of it is sent, answers the requests that wait in rbuf: they have
// been read already, so no event will come for them.
static void state_res(struct conn *conn) {
    if (try_flush_buffer(conn)) {
        state_req(conn);
    }
}

// Reads what still comes behind a bad message, and drops it. We must not close yet: a close with
// input unread sends a reset, and that destroys replies which are still on their way. But a client
// that sends on and on is closed after k_max_dropped bytes, whatever it has not read by then.
static void state_bad(struct conn *conn) {
    uint8_t unread[4096];
    ssize_t n = recv(conn->fd, unread, sizeof(unread), 0);
    if (n > 0) {
        conn->dropped += (size_t)n;
    }
    bool gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (gone || conn->dropped > k_max_dropped) {
        conn->state = STATE_END;
    }
}

// Closes the connection and frees it.
static void conn_done(struct conn *conn) {
    unwatch(conn->fd);
    g_data.fd2conn[conn->fd] = NULL;
    close(conn->fd);
    free(conn);
}

// Does what a ready connection is waiting for.
static void connection_io(struct conn *conn) {
    if (conn->state == STATE_RES) {
        state_res(conn);
    } else if (conn->state == STATE_BAD) {
        state_bad(conn);
    } else if (try_fill_buffer(conn)) {
        state_req(conn);
    }
    if (conn->state == STATE_END) {
        conn_done(conn);
    } else {
        g_data.poll_set[conn->fd].events = conn->state == STATE_RES ? POLLOUT : POLLIN;
    }
}

// Accepts one connection. Returns whether more may be waiting.
static bool accept_new_conn(void) {
    int connfd = accept(g_data.listen_fd, NULL, NULL);
    if (connfd < 0) {
        if (errno == EINTR || errno == ECONNABORTED) {
            return true;
        }
        if (errno != EAGAIN) {
            // We are out of descriptors, most likely. The client stays in the queue, and poll()
            // would report it at once, again and again. So we do not ask for it until something
            // else has happened, or k_accept_retry_ms have passed.
            g_data.poll_set[g_data.listen_fd].events = 0;
        }
        return false;
    }
    // A reply is a small write. Without this, the kernel holds it back while the one before is not
    // acknowledged, and the client delays that acknowledgement by 40 ms.
    int one = 1;
    setsockopt(connfd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (fd_set_nb(connfd) < 0) {
        close(connfd);
        return true;
    }
    watch(connfd, POLLIN);
    struct conn *conn = mem_alloc(sizeof(*conn));
    conn->fd = connfd;
    conn->state = STATE_REQ;
    conn->eof = false;
    conn->rbuf_size = conn->wbuf_size = conn->wbuf_sent = conn->dropped = 0;
    g_data.fd2conn[connfd] = conn;
    return true;
}

// ---- main: the event loop ----

// Ends the program where it stands: the loop was told to stop, and has something to do that takes
// longer than we wait. All that it holds would be gone in a moment anyway.
static void on_stop_late(int sig) {
    (void)sig;
    _exit(0);
}

// Tells the loop to stop, in two ways. The flag ends a round that is under way. But a signal may
// come after the loop looked at the flag and before it waits, and it would wait for ever; so there
// is a byte in a pipe as well, which ends the wait. A second signal finds no handler any more: it
// ends the program at once. And an alarm ends it soon, whatever the first one has to wait for.
static void on_stop_signal(int sig) {
    (void)sig;
    int err = errno;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    g_data.stopping = 1;
    if (write(g_data.stop_pipe[1], "", 1) < 0) {
        // The pipe is full: poll() will report it all the same.
    }
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = k_stop_ms * 1000}, NULL);
    errno = err;
}

// Lets SIGINT and SIGTERM call on_stop_signal(), and their alarm on_stop_late(); ignores SIGPIPE.
static void catch_signals(void) {
    if (pipe(g_data.stop_pipe) < 0 || fd_set_nb(g_data.stop_pipe[1]) < 0) {
        die("pipe");
    }
    struct sigaction action = {.sa_handler = on_stop_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = on_stop_late;
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

// One round: waits until something is ready, then serves it. Returns whether another one follows.
static bool one_round(void) {
    bool accepting = g_data.poll_set[g_data.listen_fd].events != 0;
    int ready = poll(g_data.poll_set, g_data.nfds, accepting ? -1 : k_accept_retry_ms);
    if (ready < 0 && errno != EINTR) {
        die("poll");
    }
    g_data.poll_set[g_data.listen_fd].events = POLLIN;
    for (size_t fd = 0; ready > 0 && fd < g_data.nfds; fd++) {
        if (!g_data.poll_set[fd].revents) {
            continue;
        }
        ready--;
        if (g_data.stopping || (int)fd == g_data.stop_pipe[0]) {
            return false;
        }
        if ((int)fd == g_data.listen_fd) {
            for (int left = k_max_accepts; left > 0 && accept_new_conn(); left--) {
            }
        } else {
            connection_io(g_data.fd2conn[fd]);
        }
    }
    return true;
}

int main(void) {
    hold_std_fds();
    catch_signals();
    g_data.listen_fd = tcp_listen(env_ip("BIND"), env_port());
    if (fd_set_nb(g_data.listen_fd) < 0) {
        die("fcntl");
    }
    watch(g_data.stop_pipe[0], POLLIN);
    watch(g_data.listen_fd, POLLIN);
    while (one_round()) {
    }

    signal(SIGALRM, SIG_IGN); // what is left to do is short
    for (size_t fd = 0; fd < g_data.cap; fd++) {
        if (g_data.fd2conn[fd]) {
            conn_done(g_data.fd2conn[fd]);
        }
    }
    close(g_data.listen_fd);
    close(g_data.stop_pipe[0]);
    close(g_data.stop_pipe[1]);
    free(g_data.fd2conn);
    free(g_data.poll_set);
}
