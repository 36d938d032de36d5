// inbox.c: messages that wait for connections which have not asked for them now
//
// A message comes from the turn of another connection. So it is not written into the buffer of replies,
// but put into the inbox of its listener: a reference, however many listeners it has. A reply goes behind
// the messages that wait. What waits for one that does not read has a limit, beyond which the connection
// is closed: nobody waits for it.
//
// Owns the limits, the list of those that have something to be sent, of those that have too much, and what
// was in the inboxes of connections that are closed.

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
    k_block = 20,            // messages in a block of an inbox
    k_round_dropped = 5000,  // messages that are freed in a round
    k_max_parts = 3 * 256,   // parts of messages that are sent at once: each message has three
    k_max_sent = 256 << 10,  // bytes after which no further message is sent at once
    k_small_part = 512,      // bytes of a part that is copied: many parts take the kernel longer
    k_copied = 64 << 10,     // bytes that are copied for one write
    k_late = 16 << 10,       // bytes that wait for a connection, above which they are late
    k_hard_limit = 32 << 20, // bytes that wait for a connection, at which it is closed
    k_soft_limit = 8 << 20,  // bytes that may wait for less than
    k_soft_s = 60,
};

// A message for one connection. It is sent as one byte, by the version that the connection speaks, and
// both parts. A reply has no_head in front of the other part.
struct delivery {
    struct shared *head, *body;
    uint8_t first;
};

// Some of the messages in an inbox: items[begin] to items[end - 1], one at least. An inbox is a list of
// these, since an array that grows would move a million messages at once.
struct block {
    struct block *next;
    int begin;
    int end;
    struct delivery items[k_block];
};

static struct inbox_limits limits = {k_hard_limit, k_soft_limit, k_soft_s * 1000};
// Subscribers that have something to be sent, and room for it.
static struct dlist send_list = {&send_list, &send_list};
// Those above the soft limit, the first to be closed first.
static struct dlist full_list = {&full_list, &full_list};
static struct block *dropped; // what is still to be freed
static struct shared no_head = {.refs = 1};
static bool late; // what was published is not sent in time

// Returns how much may wait for a subscriber.
struct inbox_limits get_inbox_limits(void) {
    return limits;
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

// Drops the first message in a list of blocks, which is not empty. Returns the list.
static struct block *drop_first(struct block *block) {
    struct delivery *delivery = &block->items[block->begin++];
    shared_drop(delivery->head);
    shared_drop(delivery->body);
    if (block->begin < block->end) {
        return block;
    }
    struct block *next = block->next;
    free(block);
    return next;
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

// Sets how much may wait, also for those that have too much now.
void set_inbox_limits(struct inbox_limits to) {
    limits = to;
    for (struct dlist *cur = full_list.next, *next; cur != &full_list; cur = next) {
        next = cur->next;
        note_full(container_of(cur, struct subscriber, full_node));
    }
}

// Has the connection be among those that have something to be sent.
void inbox_wait(struct conn *conn) {
    struct subscriber *subscriber = conn->subscriber;
    if (dlist_empty(&subscriber->send_node)) {
        dlist_insert_before(&send_list, &subscriber->send_node);
    }
}

// Takes the connection out of send_list.
static void not_to_send(struct subscriber *subscriber) {
    dlist_detach(&subscriber->send_node);
    dlist_init(&subscriber->send_node);
}

// Empties the inbox. What was in it is freed by inbox_tidy(): it may be a million messages.
void inbox_forget(struct conn *conn) {
    struct subscriber *subscriber = conn->subscriber;
    if (subscriber->first) {
        subscriber->last->next = dropped;
        dropped = subscriber->first;
    }
    subscriber->first = subscriber->last = NULL;
    subscriber->sent = subscriber->unsent = subscriber->replies = 0;
    not_to_send(subscriber);
    note_full(subscriber);
}

// Frees some of what was dropped. To be called when a round has sent its part: much that waits even now
// is late.
void inbox_tidy(void) {
    for (int n = 0; dropped && n < k_round_dropped; n++) {
        dropped = drop_first(dropped);
    }
    late = !dlist_empty(&send_list) &&
           container_of(send_list.next, struct subscriber, send_node)->unsent > k_late;
}

// Tells whether messages are late. Then no more of them are published: not all of them would ever be sent.
bool messages_late(void) {
    return late;
}

// Frees all of it.
void inbox_end(void) {
    while (dropped) {
        dropped = drop_first(dropped);
    }
}

// Ends a connection that does not take what it has asked for: send_messages() closes it, or its next turn
// is its last; or epoll reports its end, if a pause holds it.
static void end_reader(struct conn *conn) {
    msg("closing a subscriber that does not read: %d", conn->fd);
    conn->state = STATE_END;
    if (conn->paused) {
        shutdown(conn->fd, SHUT_RDWR);
    }
    inbox_forget(conn);
    inbox_wait(conn);
}

// Returns room for one more message, at the end of the inbox.
static struct delivery *add_delivery(struct subscriber *subscriber) {
    struct block *last = subscriber->last;
    if (!last || last->end == k_block) {
        struct block *block = mem_alloc(sizeof(*block));
        block->next = NULL;
        block->begin = block->end = 0;
        *(last ? &last->next : &subscriber->first) = block;
        subscriber->last = last = block;
    }
    return &last->items[last->end++];
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
    struct delivery *delivery = add_delivery(subscriber);
    *delivery = (struct delivery){head, body, conn->resp3 ? '>' : '*'};
    subscriber->unsent += delivery_size(delivery);
    inbox_wait(conn);
    if (limits.hard > 0 && subscriber->unsent + buf_size(&conn->wbuf) > limits.hard) {
        end_reader(conn);
    } else {
        note_full(subscriber);
    }
    return true;
}

// Moves the reply that is in `buf` from `pos` on behind what waits in the inbox: those messages were there
// before it. Cost: O(bytes).
void inbox_add_reply(struct conn *conn, struct buf *buf, size_t pos) {
    struct subscriber *subscriber = conn->subscriber;
    size_t size = buf_size(buf) - pos;
    if (size > 0) {
        const uint8_t *data = buf_data(buf) + pos;
        struct shared *body = shared_new(size - 1);
        memcpy(body->data, data + 1, size - 1);
        no_head.refs++;
        *add_delivery(subscriber) = (struct delivery){&no_head, body, data[0]};
        subscriber->unsent += size;
        subscriber->replies++;
        buf_truncate(buf, pos);
        inbox_wait(conn);
        note_full(subscriber);
    }
}

// Tells whether anything waits in the inbox of the connection.
bool has_messages(const struct conn *conn) {
    return conn->subscriber && conn->subscriber->first;
}

// Tells whether a reply is among that.
bool has_replies(const struct conn *conn) {
    return conn->subscriber && conn->subscriber->replies > 0;
}

// Returns how many bytes wait for the connection in its inbox.
size_t inbox_size(const struct conn *conn) {
    return conn->subscriber ? conn->subscriber->unsent : 0;
}

// Notes that `n` more bytes of the inbox are sent.
static void note_sent(struct subscriber *subscriber, size_t n) {
    subscriber->unsent -= n;
    subscriber->sent += n;
    while (subscriber->first) {
        const struct delivery *delivery = &subscriber->first->items[subscriber->first->begin];
        size_t size = delivery_size(delivery);
        if (subscriber->sent < size) {
            break;
        }
        subscriber->sent -= size;
        subscriber->replies -= delivery->head == &no_head;
        subscriber->first = drop_first(subscriber->first);
    }
    if (!subscriber->first) {
        subscriber->last = NULL;
    }
    note_full(subscriber);
}

// What is sent with one write. Small parts are copied together.
struct parcel {
    struct iovec parts[k_max_parts];
    int n;
    size_t size;
    size_t copied;
    uint8_t bytes[k_copied];
};

// Adds what is behind the first *skip bytes of a part, and takes from *skip what it has passed.
static void add_part(struct parcel *parcel, const void *data, size_t len, size_t *skip) {
    size_t passed = *skip < len ? *skip : len;
    const uint8_t *from = (const uint8_t *)data + passed;
    *skip -= passed;
    len -= passed;
    parcel->size += len;
    if (len <= k_small_part && len <= k_copied - parcel->copied) {
        uint8_t *to = parcel->bytes + parcel->copied;
        memcpy(to, from, len);
        parcel->copied += len;
        struct iovec *last = parcel->n > 0 ? &parcel->parts[parcel->n - 1] : NULL;
        if (last && (uint8_t *)last->iov_base + last->iov_len == to) {
            last->iov_len += len;
            return;
        }
        from = to;
    }
    if (len > 0) {
        parcel->parts[parcel->n++] = (struct iovec){(uint8_t *)from, len};
    }
}

// Sends what is in the inbox with one write, or its first messages. Returns how many bytes were sent; 0,
// with errno, if none was.
size_t inbox_send(struct conn *conn) {
    static struct parcel parcel;
    struct subscriber *subscriber = conn->subscriber;
    size_t skip = subscriber->sent;
    parcel.n = 0;
    parcel.size = parcel.copied = 0;
    const struct block *block = subscriber->first;
    for (int i = block->begin; block && parcel.n + 3 <= k_max_parts && parcel.size < k_max_sent;) {
        const struct delivery *delivery = &block->items[i];
        add_part(&parcel, &delivery->first, 1, &skip);
        add_part(&parcel, delivery->head->data, delivery->head->len, &skip);
        add_part(&parcel, delivery->body->data, delivery->body->len, &skip);
        if (++i == block->end) {
            block = block->next;
            i = 0;
        }
    }
    struct msghdr header = {.msg_iov = parcel.parts, .msg_iovlen = (size_t)parcel.n};
    ssize_t sent = sendmsg(conn->fd, &header, 0);
    if (sent <= 0) {
        return 0;
    }
    note_sent(subscriber, (size_t)sent);
    return (size_t)sent;
}

// Tells whether any connection has something to be sent, or there is something to be freed.
bool inboxes_wait(void) {
    return !dlist_empty(&send_list) || dropped;
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
