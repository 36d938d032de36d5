// conn.c: connections and their turns
//
// Owns two queues of connections that wait for their turn, those that a pause holds, the list of those
// that have had it, and the buffers that are lent to a connection for its turn. What a connection does
// when it is accepted, when it is ready, in its turn, and at its end.

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buf.h"
#include "buf_share.h"
#include "clock_wall.h"
#include "dlist.h"
#include "fd.h"
#include "intrusive.h"
#include "mem.h"

#include "server.h"

enum {
    k_max_io = 256 << 10,      // bytes that are read or sent at once, at most
    k_shared = 32 << 10,       // bytes of the buffers that are lent to a connection for its turn
    k_unsent = 16 << 10,       // work after which the replies that wait are sent
    k_gathered = 1 << 20,      // while they wait for a sync, which is one for all of them
    k_large_buf = 1 << 20,     // to give back a larger buffer, a connection asks for its turn
    k_freed_bytes = 64,        // given back to the kernel while one is moved
    k_max_dropped = 4 << 20,   // bytes behind a bad message after which its client is cut off
    k_send_buffer = 128 << 10, // bytes that the kernel buffers for a client; Linux doubles it
    k_round_sent = 512 << 10,  // bytes of messages that are sent in a round
    k_busy_sent = 64 << 10,    // while others wait for their turns
    k_send_cost = 1024,        // bytes that each write of them counts for, beside its own
    k_close_cost = 2048,       // what it counts for to close one that does not read
};

static struct dlist more_list; // those that wait for us, for their next turn, in this order
static struct dlist slow_list; // those whose next request is slow: one of them has a turn a round
static struct dlist held_list; // those whose next request waits for the end of a pause
static int64_t last_id;        // of a connection

static struct buf shared_rbuf; // these two are lent to the connection whose turn it is
static struct buf shared_wbuf;

static struct dlist send_list; // connections whose turn is over, but its replies not sent
static size_t unsent;          // the work of the turns in send_list

// Makes the lists ready.
void conns_start(void) {
    dlist_init(&more_list);
    dlist_init(&slow_list);
    dlist_init(&held_list);
    dlist_init(&send_list);
}

// Reads once. Returns whether anything came: bytes, or the end of the input.
static bool try_fill_buffer(struct conn *conn) {
    buf_borrow(&conn->rbuf, &shared_rbuf, k_shared);
    uint8_t *end = buf_reserve(&conn->rbuf, k_read_size);
    size_t room = conn->rbuf.cap - conn->rbuf.tail;
    ssize_t n = recv(conn->fd, end, room < k_max_io ? room : k_max_io, 0);
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

// Writes messages once, if any wait. Returns whether all are sent.
static bool try_flush_inbox(struct conn *conn) {
    if (has_messages(conn)) {
        if (inbox_send(conn) > 0) {
            renew_idle(conn);
        } else if (errno != EAGAIN && errno != EINTR) {
            conn->state = STATE_END;
            return false;
        }
    }
    return !has_messages(conn);
}

// Writes once, if there is anything to write: replies, and behind them what is in the inbox. Returns
// whether all replies are sent: only then may the next requests be answered, behind the messages that
// wait. At the end of a connection these have to be sent, too. What has changed is logged first:
// whatever is sent may tell of it.
static bool try_flush_buffer(struct conn *conn) {
    size_t size = buf_size(&conn->wbuf);
    aof_commit();
    if (size > 0) {
        size = size < k_max_io ? size : k_max_io;
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
    bool replied = buf_size(&conn->wbuf) == 0, all = replied && try_flush_inbox(conn);
    if (conn->state == STATE_END) {
        return false;
    }
    bool last = conn->bad || conn->eof;
    conn->state = all || (replied && !has_replies(conn) && !last) ? STATE_REQ : STATE_RES;
    return conn->state == STATE_REQ;
}

// Answers requests from rbuf. Stops when no whole request is left, after enough work for a turn, or
// before a slow request. What is left waits until all other connections have had their turn.
static void state_req(struct conn *conn) {
    bool more = true;
    buf_borrow(&conn->wbuf, &shared_wbuf, k_shared);
    set_now(get_wall_msec());
    while (more && !turn_done()) {
        more = answer_batch(conn);
    }
    batch_done();
    unsent += turn_work();
    conn->more = more;
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

// Closes the connection and frees it. To be called in the connection's own turn, or when all events
// are served: an event that is still to be served would lead to freed memory.
void conn_done(struct conn *conn) {
    conn_gone(conn);
    watch(EPOLL_CTL_DEL, conn->fd, 0, NULL); // close() does not, while a child has a copy of it
    close(conn->fd);
    block_free(conn->rbuf.data, conn->rbuf.cap);
    block_free(conn->wbuf.data, conn->wbuf.cap);
    free(conn->name);
    transaction_end(conn);
    subscriber_free(conn);
    free(conn);
    set_accepting(true); // there is a free descriptor now
}

// Makes epoll watch a connection for `events`. Calls the kernel only if that is a change.
static void watch_conn(struct conn *conn, uint32_t events) {
    if (events != conn->events) {
        conn->events = events;
        if (watch(EPOLL_CTL_MOD, conn->fd, events, conn) < 0) {
            conn->state = STATE_END; // or it would stay open, and we would never hear of it again
        }
    }
}

// Ends the loan of a buffer, if its memory is mostly empty. The bytes in it are copied; with a large
// buffer, that is work.
static void give_back(struct buf *buf, struct buf *shared) {
    if (buf_size(buf) <= buf->cap / 4 &&
        (buf->cap <= k_large_buf || may_take(buf_size(buf) + buf->cap / k_freed_bytes))) {
        buf_return(buf, shared);
    }
}

// Returns what epoll is to watch the connection for: requests, and room for what waits to be sent. More
// input of one that a pause holds can wait; that it has ended is reported all the same.
static uint32_t awaited_events(const struct conn *conn) {
    uint32_t in = conn->paused || conn->state == STATE_RES ? 0 : EPOLLIN;
    return in | (has_messages(conn) || conn->state == STATE_RES ? EPOLLOUT : 0);
}

// Makes the connection wait for what comes next: in a queue for its turn, or for its client.
static void wait_for_next(struct conn *conn) {
    if (conn->more && !conn->paused) {
        dlist_insert_before(conn->slow ? &slow_list : &more_list, &conn->turn_node);
        return;
    }
    watch_conn(conn, awaited_events(conn));
    if (conn->paused && conn->state != STATE_END) {
        dlist_insert_before(&held_list, &conn->turn_node);
    }
}

// Sends the replies of a connection's turn with one write. What the socket does not take,
// state_res() sends once there is room: then the connection waits for its client first.
static void send_replies(struct conn *conn) {
    if (conn->state != STATE_REQ) {
        return;
    }
    if (!try_flush_buffer(conn)) {
        conn->more = conn->slow = conn->paused = false;
    } else if (conn->more) {
        return;
    } else if (conn->bad) {
        shutdown(conn->fd, SHUT_WR);
        conn->state = STATE_BAD;
    } else if (conn->eof) {
        conn->state = STATE_END;
    }
}

// Ends the turns of all connections in send_list: sends their replies, then lets them wait for what
// comes next. Why all at once? To wake a client that sleeps takes longer than to answer it. A
// program with many connections, woken once, finds all of its replies.
void end_turns(void) {
    unsent = 0;
    while (!dlist_empty(&send_list)) {
        struct conn *conn = container_of(send_list.next, struct conn, turn_node);
        dlist_detach(&conn->turn_node);
        send_replies(conn);
        if (conn->wbuf.cap <= k_large_buf) { // else there is more to send, or it has asked
            buf_return(&conn->wbuf, &shared_wbuf);
        }
        if (conn->state != STATE_END) {
            wait_for_next(conn);
        }
        if (conn->state == STATE_END) {
            conn_done(conn);
        }
    }
}

// Tells whether the connection may go on with requests: it has taken all replies. Messages that wait are
// sent first, if there is room for them.
static bool is_clear(struct conn *conn) {
    return conn->state == STATE_REQ && (!has_messages(conn) || try_flush_buffer(conn));
}

// Gives the connection a turn: does what it is waiting for. If something was refused because it is
// slow, the connection goes on in a turn of its own. The replies wait until end_turns().
void connection_io(struct conn *conn) {
    bool waited = conn->more;
    turn_begin(conn->slow);
    conn->more = conn->paused = false;
    if (conn->state == STATE_RES) {
        state_res(conn);
    } else if (conn->state == STATE_BAD) {
        state_bad(conn);
    } else if (is_clear(conn) && (waited || try_fill_buffer(conn))) { // else it was killed
        state_req(conn);
    }
    give_back(&conn->rbuf, &shared_rbuf);
    give_back(&conn->wbuf, &shared_wbuf);
    conn->slow = turn_refused();
    conn->more = conn->more || conn->slow || conn->paused;
    dlist_insert_before(&send_list, &conn->turn_node);
    if (unsent >= (aof_gathers() ? k_gathered : k_unsent)) {
        end_turns();
    }
}

// Sends messages to those that have something to be sent, until it was enough for a round: they have no
// turn, and need none. Those whose turn comes send them then. While others wait for their turns it is less:
// what waits longer goes out with more behind it, in fewer writes.
void send_messages(void) {
    struct conn *conn;
    bool busy = !dlist_empty(&more_list) || !dlist_empty(&slow_list);
    size_t most = busy ? k_busy_sent : k_round_sent;
    for (size_t work = 0; work < most && (conn = next_to_send());) {
        size_t before = inbox_size(conn);
        bool waits = conn->events & EPOLLOUT; // for room
        if (conn->state == STATE_REQ && !waits && (!conn->more || conn->paused)) {
            try_flush_buffer(conn);
            work += before - inbox_size(conn) + k_send_cost;
            watch_conn(conn, awaited_events(conn));
        }
        if (conn->state == STATE_END && !conn->more) { // else it has another turn, its last
            conn_done(conn);
            work += k_close_cost;
        }
    }
    inbox_tidy();
}

// Tells whether any connection waits for us: then the loop must not wait for clients.
bool turns_wait(void) {
    return !dlist_empty(&more_list) || !dlist_empty(&slow_list) || inboxes_wait();
}

// Returns the last node of more_list, NULL if there is none: what is put behind it has had its turn.
const struct dlist *last_of_more(void) {
    return dlist_empty(&more_list) ? NULL : more_list.prev;
}

// Gives the first connection of the queue its turn. With more to do afterwards, it waits at the end of
// a queue again.
static void serve_first(struct dlist *queue) {
    struct conn *conn = container_of(queue->next, struct conn, turn_node);
    dlist_detach(&conn->turn_node);
    renew_idle(conn);
    connection_io(conn);
}

// Gives the first connection that waits in more_list one turn. Returns whether others wait, up to the
// node `last`.
bool serve_more(const struct dlist *last) {
    bool more = more_list.next != last; // asked before it may be freed
    serve_first(&more_list);
    return more;
}

// Answers one slow request. However many clients send such requests, a round has one of them.
void serve_slow(void) {
    if (!dlist_empty(&slow_list)) {
        serve_first(&slow_list);
    }
}

// Lets the connections that a pause has held have their turns again.
void serve_held(void) {
    while (!dlist_empty(&held_list)) {
        struct conn *conn = container_of(held_list.next, struct conn, turn_node);
        dlist_detach(&conn->turn_node);
        conn->paused = false;
        dlist_insert_before(&more_list, &conn->turn_node);
    }
}

// Sends messages to a connection that a pause holds, if there is room now. Returns whether it goes on to be
// held: else its client has gone, or it was killed.
bool send_held(struct conn *conn) {
    if (has_messages(conn)) {
        try_flush_buffer(conn);
        watch_conn(conn, awaited_events(conn));
        return conn->state != STATE_END;
    }
    return false;
}

// Ends a connection that a pause holds: its client has gone, or it was killed.
void end_held(struct conn *conn) {
    dlist_detach(&conn->turn_node);
    conn->state = STATE_END;
    connection_io(conn);
}

// Accepts one connection from `listen_fd`. Returns whether more may be waiting.
bool accept_new_conn(int listen_fd) {
    int connfd = accept(listen_fd, NULL, NULL);
    if (connfd < 0) {
        if (errno == EINTR || errno == ECONNABORTED) {
            return true;
        }
        if (errno != EAGAIN) {
            // We are out of descriptors, most likely. The client stays in the queue, and epoll would
            // report it at once, again and again. So we do not ask for it until a connection has
            // been closed, or some time has passed.
            set_accepting(false);
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
    struct conn *conn = mem_alloc(sizeof(*conn));
    *conn = (struct conn){.fd = connfd, .state = STATE_REQ, .events = EPOLLIN};
    conn->id = ++last_id;
    conn->db = db_at(0);
    if (fd_set_nb(connfd) < 0 || watch(EPOLL_CTL_ADD, connfd, EPOLLIN, conn) < 0) {
        close(connfd);
        free(conn);
        return true;
    }
    conn_added(conn);
    return true;
}

// Closes all connections, and frees the buffers that were lent to them.
void conns_end(void) {
    while (!dlist_empty(all_conns())) {
        conn_done(container_of(all_conns()->next, struct conn, idle_node));
    }
    buf_dispose(&shared_rbuf);
    buf_dispose(&shared_wbuf);
}
