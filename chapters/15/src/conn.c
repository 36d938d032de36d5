// conn.c: connections
//
// Owns the list of all connections by idle time. What a connection does when it is accepted, when it
// is ready, and at its end.

#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base.h"
#include "buf.h"
#include "clock.h"
#include "dlist.h"
#include "fd.h"
#include "intrusive.h"
#include "mem.h"

#include "server.h"

enum {
    k_read_size = 16 << 10,    // a read has room for at least this many bytes
    k_send_size = 64 << 10,    // replies are sent once this many bytes of them wait
    k_max_kept = 64 << 10,     // a larger buffer that is mostly empty is shrunk
    k_max_dropped = 4 << 20,   // bytes behind a bad message after which its client is cut off
    k_send_buffer = 128 << 10, // bytes that the kernel buffers for a client; Linux doubles it
    k_idle_timeout_ms = 5000,
};

static int64_t idle_timeout_ms; // 0 for never
static struct dlist idle_list;  // all connections, the longest idle first

// Reads the settings. Ends the program with one line if one is wrong.
void conns_start(void) {
    idle_timeout_ms = env_long("IDLE_TIMEOUT_MS", k_idle_timeout_ms, 0, INT_MAX);
    dlist_init(&idle_list);
}

// Notes that a byte has moved: the connection is the least idle of all.
static void renew_idle(struct conn *conn) {
    conn->idle_start = get_monotonic_msec();
    dlist_detach(&conn->idle_node);
    dlist_insert_before(&idle_list, &conn->idle_node);
}

// Returns the connection that has been idle for longest, NULL if there is none or the timeout is
// off.
struct conn *first_idle(void) {
    if (idle_timeout_ms == 0 || dlist_empty(&idle_list)) {
        return NULL;
    }
    return container_of(idle_list.next, struct conn, idle_node);
}

// Returns when the connection will have been idle for too long, if no byte moves.
int64_t idle_deadline(const struct conn *conn) {
    return conn->idle_start + idle_timeout_ms;
}

// Reads once. Returns whether anything came: bytes, or the end of the input.
static bool try_fill_buffer(struct conn *conn) {
    uint8_t *end = buf_reserve(&conn->rbuf, k_read_size);
    ssize_t n = recv(conn->fd, end, conn->rbuf.cap - conn->rbuf.tail, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            conn->state = STATE_END;
        }
        return false;
    }
    if (n == 0) {
        conn->eof = true;
    } else {
        renew_idle(conn);
    }
    buf_commit(&conn->rbuf, (size_t)n);
    return true;
}

// Writes once, if there is anything to write. Returns whether all replies are sent: only then may the
// next requests be answered.
static bool try_flush_buffer(struct conn *conn) {
    size_t size = buf_size(&conn->wbuf);
    if (size > 0) {
        ssize_t n = send(conn->fd, buf_data(&conn->wbuf), size, 0);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            conn->state = STATE_END;
            return false;
        }
        if (n > 0) {
            buf_consume(&conn->wbuf, (size_t)n);
            renew_idle(conn);
        }
    }
    bool all = buf_size(&conn->wbuf) == 0;
    conn->state = all ? STATE_REQ : STATE_RES;
    return all;
}

// Answers the requests in rbuf, until no whole one is left or the client does not take the replies.
// They are sent together: k_send_size bytes and more at a time, and what is left at the end.
static void state_req(struct conn *conn) {
    set_now(get_monotonic_msec());
    while (try_one_request(conn)) {
        if (buf_size(&conn->wbuf) >= k_send_size && !try_flush_buffer(conn)) {
            return;
        }
    }
    if (!try_flush_buffer(conn)) {
        return;
    }
    if (conn->bad) {
        shutdown(conn->fd, SHUT_WR);
        conn->state = STATE_BAD;
    } else if (conn->eof) {
        conn->state = STATE_END;
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
        renew_idle(conn);
        conn->dropped += (size_t)n;
    }
    bool gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (gone || conn->dropped > k_max_dropped) {
        conn->state = STATE_END;
    }
}

// Closes the connection and frees it.
void conn_done(struct conn *conn) {
    unwatch(conn->fd);
    poller_set_conn(conn->fd, NULL);
    dlist_detach(&conn->idle_node);
    close(conn->fd);
    buf_dispose(&conn->rbuf);
    buf_dispose(&conn->wbuf);
    free(conn);
}

// Shrinks a large buffer that is mostly empty. The bytes in it are copied, so we wait until they
// fill less than a quarter: a buffer that drains is copied at a quarter, then at a sixteenth, and
// so on.
static void give_back(struct buf *buf) {
    if (buf->cap > k_max_kept && buf_size(buf) < buf->cap / 4) {
        buf_shrink(buf);
    }
}

// Does what a ready connection is waiting for.
void connection_io(struct conn *conn) {
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
        give_back(&conn->rbuf);
        give_back(&conn->wbuf);
        watch(conn->fd, conn->state == STATE_RES ? POLLOUT : POLLIN);
    }
}

// Accepts one connection from `listen_fd`. Returns whether more may be waiting.
bool accept_new_conn(int listen_fd) {
    int connfd = accept(listen_fd, NULL, NULL);
    if (connfd < 0) {
        if (errno == EINTR || errno == ECONNABORTED) {
            return true;
        }
        if (errno != EAGAIN) {
            // We are out of descriptors, most likely. The client stays in the queue, and poll()
            // would report it at once, again and again. So we do not ask for it until something
            // else has happened, or k_accept_retry_ms have passed.
            watch(listen_fd, 0);
        }
        return false;
    }
    // A reply is a small write. Without this, the kernel holds it back while the one before is not
    // acknowledged, and the client delays that acknowledgement by 40 ms.
    int one = 1;
    setsockopt(connfd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    // The kernel would buffer megabytes for a slow client. While it drains them, none of our writes
    // move a byte, and the client looks idle. A small buffer has room again soon.
    int send_buffer = k_send_buffer;
    setsockopt(connfd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer));
    if (fd_set_nb(connfd) < 0) {
        close(connfd);
        return true;
    }
    watch(connfd, POLLIN);
    struct conn *conn = mem_alloc(sizeof(*conn));
    *conn = (struct conn){.fd = connfd, .state = STATE_REQ};
    dlist_init(&conn->idle_node);
    renew_idle(conn);
    poller_set_conn(connfd, conn);
    return true;
}

// Closes all connections.
void conns_end(void) {
    for (size_t fd = 0; fd < poller_size(); fd++) {
        if (poller_conn((int)fd)) {
            conn_done(poller_conn((int)fd));
        }
    }
}
