// inbox.c: messages that wait for connections which have not asked for them now
//
// A message comes from the turn of another connection. So it is not written into the buffer of replies,
// but put into the inbox of its listener: a reference, however many listeners it has. What waits for
// one that does not read has a limit, beyond which the connection is closed: nobody waits for it.
//
// Owns the limits, the list of those that have something to be sent, and of those that have too much.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base.h"
#include "buf.h"
#include "clock.h"
#include "dlist.h"
#include "intrusive.h"
#include "mem.h"

#include "server.h"

enum {
    k_max_parts = 3 * 256,   // parts of messages that are sent at once: each message has three
    k_max_sent = 256 << 10,  // bytes after which no further message is sent at once
    k_hard_limit = 32 << 20, // bytes that wait for a connection, at which it is closed
    k_soft_limit = 8 << 20,  // bytes that may wait for less than
    k_soft_s = 60,
};

// A message for one connection. It is sent as one byte, by the version that the connection speaks, and
// both parts.
struct delivery {
    struct shared *head, *body;
    uint8_t first;
};

static struct inbox_limits limits = {k_hard_limit, k_soft_limit, k_soft_s * 1000};
static struct dlist send_list; // subscribers that have something to be sent, and room for it
static struct dlist full_list; // those above the soft limit, the first to be closed first

// Makes the lists ready.
void inbox_start(void) {
    dlist_init(&send_list);
    dlist_init(&full_list);
}

// Returns how much may wait for a subscriber.
struct inbox_limits get_inbox_limits(void) {
    return limits;
}

// Sets how much may.
void set_inbox_limits(struct inbox_limits to) {
    limits = to;
}

// Returns room for `len` bytes, with one reference: the caller's.
struct shared *shared_new(size_t len) {
    struct shared *shared = mem_alloc(sizeof(*shared) + len);
    shared->refs = 1;
    shared->len = len;
    return shared;
}

// Drops a reference. With the last one, the bytes are freed.
void shared_drop(struct shared *shared) {
    if (--shared->refs == 0) {
        block_free(shared, sizeof(*shared) + shared->len);
    }
}

static size_t delivery_size(const struct delivery *delivery) {
    return 1 + delivery->head->len + delivery->body->len;
}

// Returns the first message in the inbox, which is not empty. The others are behind it.
static struct delivery *first_delivery(const struct subscriber *subscriber) {
    return (struct delivery *)buf_data(&subscriber->inbox);
}

// Takes the first message out.
static void drop_first(struct subscriber *subscriber) {
    struct delivery *delivery = first_delivery(subscriber);
    shared_drop(delivery->head);
    shared_drop(delivery->body);
    buf_consume(&subscriber->inbox, sizeof(*delivery));
    subscriber->sent = 0;
}

// Notes whether more waits than the soft limit, and since when.
static void note_full(struct subscriber *subscriber) {
    bool full = limits.soft > 0 && subscriber->unsent > limits.soft;
    if (full && dlist_empty(&subscriber->full_node)) {
        subscriber->full_ms = get_monotonic_msec();
        dlist_insert_before(&full_list, &subscriber->full_node);
    } else if (!full && !dlist_empty(&subscriber->full_node)) {
        dlist_detach(&subscriber->full_node);
        dlist_init(&subscriber->full_node);
    }
}

// Takes the connection out of send_list.
static void not_to_send(struct subscriber *subscriber) {
    dlist_detach(&subscriber->send_node);
    dlist_init(&subscriber->send_node);
}

// Forgets what is in the inbox.
void inbox_forget(struct conn *conn) {
    struct subscriber *subscriber = conn->subscriber;
    while (buf_size(&subscriber->inbox) > 0) {
        drop_first(subscriber);
    }
    subscriber->unsent = 0;
    buf_dispose(&subscriber->inbox);
    not_to_send(subscriber);
    note_full(subscriber);
}

// Ends a connection that does not take what it has asked for. Its next turn is its last: epoll reports
// the end of its socket.
static void end_reader(struct conn *conn) {
    msg("closing a subscriber that does not read: %d", conn->fd);
    conn->state = STATE_END;
    shutdown(conn->fd, SHUT_RDWR);
    inbox_forget(conn);
}

// Puts a message into the inbox of the connection, which takes references of its own. Returns whether it
// did: to one that is at its end nothing is sent any more.
bool inbox_add(struct conn *conn, struct shared *head, struct shared *body) {
    struct subscriber *subscriber = conn->subscriber;
    if (conn->bad || conn->state == STATE_BAD || conn->state == STATE_END) {
        return false;
    }
    head->refs++;
    body->refs++;
    struct delivery delivery = {head, body, conn->resp3 ? '>' : '*'};
    memcpy(buf_reserve(&subscriber->inbox, sizeof(delivery)), &delivery, sizeof(delivery));
    buf_commit(&subscriber->inbox, sizeof(delivery));
    subscriber->unsent += delivery_size(&delivery);
    inbox_wait(conn);
    if (limits.hard > 0 && subscriber->unsent > limits.hard) {
        end_reader(conn);
    } else {
        note_full(subscriber);
    }
    return true;
}

// Tells whether messages wait for the connection.
bool has_messages(const struct conn *conn) {
    return conn->subscriber && buf_size(&conn->subscriber->inbox) > 0;
}

// Returns how many bytes wait for the connection in its inbox.
size_t inbox_size(const struct conn *conn) {
    return conn->subscriber ? conn->subscriber->unsent : 0;
}

// Notes that `n` more bytes of the inbox are sent.
static void note_sent(struct subscriber *subscriber, size_t n) {
    subscriber->unsent -= n;
    subscriber->sent += n;
    while (buf_size(&subscriber->inbox) > 0) {
        size_t size = delivery_size(first_delivery(subscriber)), sent = subscriber->sent;
        if (sent < size) {
            break;
        }
        drop_first(subscriber);
        subscriber->sent = sent - size;
    }
    note_full(subscriber);
}

// Adds what is behind the first *skip bytes of a part, and takes from *skip what it has passed.
static size_t add_part(struct iovec *parts, int *n, const void *data, size_t len, size_t *skip) {
    size_t passed = *skip < len ? *skip : len;
    *skip -= passed;
    if (passed < len) {
        parts[(*n)++] = (struct iovec){(uint8_t *)data + passed, len - passed};
    }
    return len - passed;
}

// Sends what is in the inbox with one write, or its first messages. Returns how many bytes were sent; 0,
// with errno, if none was.
size_t inbox_send(struct conn *conn) {
    struct subscriber *subscriber = conn->subscriber;
    struct iovec parts[k_max_parts];
    int n = 0;
    const struct delivery *delivery = first_delivery(subscriber);
    size_t left = buf_size(&subscriber->inbox) / sizeof(*delivery);
    size_t skip = subscriber->sent, size = 0;
    for (; left > 0 && n + 3 <= k_max_parts && size < k_max_sent; left--, delivery++) {
        size += add_part(parts, &n, &delivery->first, 1, &skip);
        size += add_part(parts, &n, delivery->head->data, delivery->head->len, &skip);
        size += add_part(parts, &n, delivery->body->data, delivery->body->len, &skip);
    }
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = (size_t)n};
    ssize_t sent = sendmsg(conn->fd, &header, 0);
    if (sent <= 0) {
        return 0;
    }
    note_sent(subscriber, (size_t)sent);
    return (size_t)sent;
}

// Moves what is in the inbox to `buf`, in front of what is there from `pos` on. Returns how many bytes it
// has moved. Cost: O(bytes).
size_t inbox_put_in_front(struct conn *conn, struct buf *buf, size_t pos) {
    struct subscriber *subscriber = conn->subscriber;
    size_t size = subscriber->unsent, behind = buf_size(buf) - pos;
    buf_reserve(buf, size);
    uint8_t *p = buf_data(buf) + pos;
    memmove(p + size, p, behind);
    while (buf_size(&subscriber->inbox) > 0) {
        const struct delivery *delivery = first_delivery(subscriber);
        *p++ = delivery->first;
        memcpy(p, delivery->head->data, delivery->head->len);
        p += delivery->head->len;
        memcpy(p, delivery->body->data, delivery->body->len);
        p += delivery->body->len;
        drop_first(subscriber);
    }
    buf_commit(buf, size);
    inbox_forget(conn);
    return size;
}

// Has the connection be among those that have something to be sent.
void inbox_wait(struct conn *conn) {
    struct subscriber *subscriber = conn->subscriber;
    if (dlist_empty(&subscriber->send_node)) {
        dlist_insert_before(&send_list, &subscriber->send_node);
    }
}

// Tells whether any connection has something to be sent.
bool inboxes_wait(void) {
    return !dlist_empty(&send_list);
}

// Returns the connection that has waited for longest, and takes it out of the list; NULL if none waits.
struct conn *next_to_send(void) {
    if (dlist_empty(&send_list)) {
        return NULL;
    }
    struct subscriber *subscriber = container_of(send_list.next, struct subscriber, send_node);
    not_to_send(subscriber);
    return subscriber->conn;
}

// Returns when the first connection will have had too much for too long, INT64_MAX if none has too much.
int64_t full_deadline(void) {
    if (dlist_empty(&full_list)) {
        return INT64_MAX;
    }
    return container_of(full_list.next, struct subscriber, full_node)->full_ms + limits.soft_ms;
}

// Ends the connections that have had too much for too long at `now_ms`.
void end_full(int64_t now_ms) {
    while (now_ms > full_deadline()) {
        end_reader(container_of(full_list.next, struct subscriber, full_node)->conn);
    }
}
