// transaction.h: transactions
//
// A part of the table of contents in server.h, which includes it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "dlist.h"
#include "hashtable.h"
#include "reply.h"

struct command;
struct conn;
struct db;
struct lookup_key;
struct request;

// What a connection has asked to be done as one: the requests behind its MULTI, if nobody changes the
// keys that it watches.
struct transaction {
    bool open;         // there was a MULTI
    bool spoiled;      // a request behind it was wrong
    bool touched;      // a key that is watched has changed
    struct buf queue;  // copies of the requests
    size_t n;          // of them
    int max_nargs;     // strings of the request that has most
    size_t queue_cost; // memory that they are said to take
    size_t work;       // that they are known to be
    struct dlist watches;
    struct hmap table;   // of these, by their keys
    size_t watched_size; // memory that these take
};

// watch.c, above db.c
bool watch_key(struct transaction *transaction, struct db *db, struct lookup_key key, bool exists);
void unwatch(struct transaction *transaction);
void watch_touch(const struct db *db, struct lookup_key key, bool expired);
void watch_touch_all(const struct db *db,
                     bool (*exists)(const struct db *db, struct lookup_key key));
bool any_watched(void);
size_t watches_cost(void);
void each_watched(struct transaction *transaction, bool (*f)(struct db *db, struct lookup_key key));
void watch_end(void);

// t_multi.c, above t_conn.c
void transaction_end(struct conn *conn);
bool in_transaction(const struct conn *conn);
void transaction_spoil(struct conn *conn);
void queue_request(const struct request *req, struct reply *out);
const struct command *queued_write(const struct conn *conn);
void refuse_exec(struct conn *conn, const char *why, struct reply *out);
void do_multi(struct request *req, struct reply *out);
void do_discard(struct request *req, struct reply *out);
void do_exec(struct request *req, struct reply *out);
void do_watch(struct request *req, struct reply *out);
void do_unwatch(struct request *req, struct reply *out);
