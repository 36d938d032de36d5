// pubsub.h: who wants to hear what
//
// A part of the table of contents in server.h, which includes it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "dlist.h"
#include "hashtable.h"
#include "reply.h"
#include "request.h"

struct block;
struct conn;
struct request;

// Bytes that many connections are to be sent, stored once. The last one that drops them frees them.
struct shared {
    size_t refs;
    size_t len;
    uint8_t data[];
};

// What is subscribed to: one channel, or all whose names match a pattern.
enum topic_kind { CHANNEL, PATTERN };

// What a connection has subscribed to, and what it is to be sent of it.
struct subscriber {
    struct conn *conn;
    struct hmap topics[2];  // its subscriptions, by kind
    size_t size;            // memory that these take
    struct block *first;    // its inbox: messages that wait, and replies behind them; NULL for none
    struct block *last;     // of the same list
    size_t sent;            // bytes of the first of them that are sent
    size_t unsent;          // bytes of all of them that are not
    size_t replies;         // how many of them are replies
    struct dlist send_node; // among those that have something to be sent
    struct dlist full_node; // among those that have had too much for some time, since `full_ms`
    int64_t full_ms;
};

// What has happened to a key, by the names of Redis; the last two, to all keys of a database.
// clang-format off
enum event {
    EVENT_NEW, EVENT_KEYMISS, // a key is added, for whatever reason; one that was to be read is not there
    EVENT_COPY_TO, EVENT_DEL, EVENT_MOVE_FROM, EVENT_MOVE_TO, EVENT_RENAME_FROM, EVENT_RENAME_TO,
    EVENT_EXPIRE, EVENT_PERSIST, EVENT_EXPIRED, // a deadline was set, was removed, has passed
    EVENT_APPEND, EVENT_INCRBY, EVENT_INCRBYFLOAT, EVENT_SET, EVENT_SETRANGE,
    EVENT_ZADD, EVENT_ZINCR, EVENT_ZPOPMAX, EVENT_ZPOPMIN, EVENT_ZREM,
    EVENT_ZREMRANGEBYLEX, EVENT_ZREMRANGEBYRANK, EVENT_ZREMRANGEBYSCORE,
    EVENT_FLUSHDB, EVENT_SWAPDB,
};
// clang-format on

// How much may wait for a subscriber: `hard` bytes, or `soft` for less than `soft_ms`; 0 for no limit.
struct inbox_limits {
    size_t hard, soft;
    int64_t soft_ms;
};

// inbox.c, above db.c
struct inbox_limits get_inbox_limits(void);
void set_inbox_limits(struct inbox_limits limits);
struct shared *shared_new(size_t len);
void shared_drop(struct shared *shared);
bool inbox_add(struct conn *conn, struct shared *head, struct shared *body);
void inbox_add_reply(struct conn *conn, struct buf *buf, size_t pos);
bool has_messages(const struct conn *conn);
bool has_replies(const struct conn *conn);
size_t inbox_size(const struct conn *conn);
size_t inbox_send(struct conn *conn);
void inbox_wait(struct conn *conn);
void inbox_forget(struct conn *conn);
bool inboxes_wait(void);
void inbox_tidy(void);
bool messages_late(void);
void inbox_end(void);
struct conn *next_to_send(void);
int64_t full_deadline(void);
void end_full(int64_t now_ms);

// pubsub.c, above db.c
void pubsub_start(void);
void pubsub_end(void);
bool subscribe(struct conn *conn, enum topic_kind kind, const struct slice *name);
bool unsubscribe(struct conn *conn, enum topic_kind kind, const struct slice *name);
void unsubscribe_all(struct conn *conn);
void subscriber_free(struct conn *conn);
void each_subscription(const struct conn *conn, enum topic_kind kind,
                       bool (*f)(const struct slice *name, void *arg), void *arg);
size_t num_subscriptions(const struct conn *conn, enum topic_kind kind);
bool is_subscriber(const struct conn *conn);
size_t num_topics(enum topic_kind kind);
size_t topics_size(enum topic_kind kind);
void each_topic(enum topic_kind kind, bool (*f)(const struct slice *name, void *arg), void *arg);
size_t num_listeners(const struct slice *channel);
size_t publish_cost(const struct slice *channel);
size_t find_listeners(const struct slice *channel, size_t *budget);
size_t send_to_listeners(const struct slice *channel, const struct slice *payload);

// notify.c, above db.c
void get_event_classes(char text[32]);
bool parse_event_classes(const struct slice *text, unsigned *classes);
void set_event_classes(unsigned classes);
bool is_wanted(enum event event);
bool are_events_heard(void);
void notify(int db, const struct slice *key, enum event event);

// t_pubsub.c, above t_conn.c
void do_subscribe(struct request *req, struct reply *out);
void do_unsubscribe(struct request *req, struct reply *out);
void do_psubscribe(struct request *req, struct reply *out);
void do_punsubscribe(struct request *req, struct reply *out);
void do_publish(struct request *req, struct reply *out);
void do_pubsub_channels(struct request *req, struct reply *out);
void do_pubsub_numsub(struct request *req, struct reply *out);
void do_pubsub_numpat(struct request *req, struct reply *out);
