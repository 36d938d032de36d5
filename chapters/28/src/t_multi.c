// t_multi.c: commands that make many requests one
//
// Has no state: what a connection has asked for is its own, see struct transaction.

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "dlist.h"
#include "mem.h"
#include "reply.h"

#include "server.h"

enum {
    k_max_queue = 32 << 20,  // what the requests of a transaction may cost in memory
    k_min_queued = 256,      // what each of them counts for at least
    k_max_small_reply = 128, // bytes of a reply that is no value
    k_string_cost = 128,     // work: what each string of a queued request counts for
    k_about_cost = 8 << 10,  // what one counts for that is about the server, unless it is quick
    k_transaction_work = 16 << 20, // beside the work of the most expensive of the requests
};

// A request in the queue: behind this, the lengths of its strings, then their bytes.
struct queued {
    const struct command *command;
    size_t size; // of all of it
    uint32_t nargs;
    uint32_t lens[];
};

// Returns the transaction of the connection, begun if there is none.
static struct transaction *transaction_of(struct conn *conn) {
    if (!conn->transaction) {
        conn->transaction = mem_alloc(sizeof(*conn->transaction));
        *conn->transaction = (struct transaction){0};
        dlist_init(&conn->transaction->watches);
    }
    return conn->transaction;
}

static void transaction_free(struct transaction *transaction) {
    unwatch(transaction);
    block_free(transaction->queue.data, transaction->queue.cap);
    free(transaction);
}

// Forgets what the connection has in its queue and what it watches.
void transaction_end(struct conn *conn) {
    if (conn->transaction) {
        transaction_free(conn->transaction);
        conn->transaction = NULL;
    }
}

// Tells whether requests of the connection wait in a queue.
bool in_transaction(const struct conn *conn) {
    return conn->transaction && conn->transaction->open;
}

// A request behind MULTI was wrong: EXEC will do nothing, so the queue is not needed any more.
void transaction_spoil(struct conn *conn) {
    if (in_transaction(conn)) {
        struct transaction *transaction = conn->transaction;
        transaction->spoiled = true;
        block_free(transaction->queue.data, transaction->queue.cap);
        transaction->queue = (struct buf){0};
    }
}

// Returns the part of a request's price that is known when it is queued, where it takes `size` there.
static size_t known_price(const struct request *req, size_t size) {
    bool about = !(req->command->flags & (READ | WRITE | FAST));
    return size + (size_t)req->nargs * k_string_cost + (about ? k_about_cost : 0);
}

// Ends the transaction of the connection, with nothing done, and replies why.
void refuse_exec(struct conn *conn, const char *why, struct reply *out) {
    transaction_end(conn);
    reply_errf(out, "EXECABORT Transaction discarded because of: %s", why);
}

// Copies the request into the queue: its strings are in rbuf, where they last no longer than this
// turn. Its command is known, and the number of its arguments right. Behind one that was wrong, nothing
// is copied any more.
void queue_request(const struct request *req, struct reply *out) {
    struct transaction *transaction = req->conn->transaction;
    size_t head = offsetof(struct queued, lens[req->nargs]), size = head;
    for (int i = 0; i < req->nargs; i++) {
        size += req->args[i].len;
    }
    size = (size + 7) / 8 * 8; // the next one has to be aligned
    size_t cost = size + (size_t)req->nargs * sizeof(struct slice);
    transaction->queue_cost += cost < k_min_queued ? k_min_queued : cost;
    if (!transaction->spoiled && transaction->queue_cost > k_max_queue) {
        transaction_spoil(req->conn);
        reply_err(out, "ERR the transaction is too big");
        return;
    }
    if (!transaction->spoiled) {
        struct queued *queued = (void *)buf_reserve(&transaction->queue, size);
        *queued = (struct queued){req->command, size, (uint32_t)req->nargs};
        uint8_t *end = (uint8_t *)queued + head;
        for (int i = 0; i < req->nargs; i++) {
            queued->lens[i] = (uint32_t)req->args[i].len;
            memcpy(end, req->args[i].data, req->args[i].len);
            end += req->args[i].len;
        }
        buf_commit(&transaction->queue, size);
        transaction->n++;
        transaction->work += known_price(req, size);
        if (req->nargs > transaction->max_nargs) {
            transaction->max_nargs = req->nargs;
        }
    }
    reply_status(out, "QUEUED");
}

// Returns the first command in the queue of the connection that changes keys, NULL where none does.
const struct command *queued_write(const struct conn *conn) {
    const struct buf *queue = conn->transaction ? &conn->transaction->queue : NULL;
    for (size_t pos = 0; queue && pos < buf_size(queue);) {
        const struct queued *queued = (const void *)(buf_data(queue) + pos);
        if (queued->command->flags & (WRITE | SPREADS)) {
            return queued->command;
        }
        pos += queued->size;
    }
    return NULL;
}

// Makes a request of the one that is at `pos` in the queue, with its strings in `args`. Returns where the
// next one is.
static size_t next_queued(struct conn *conn, const struct transaction *transaction, size_t pos,
                          struct slice *args, struct request *req) {
    const struct queued *queued = (const void *)(buf_data(&transaction->queue) + pos);
    const uint8_t *data = (const uint8_t *)&queued->lens[queued->nargs];
    for (uint32_t i = 0; i < queued->nargs; i++) {
        args[i] = (struct slice){data, queued->lens[i]};
        data += queued->lens[i];
    }
    *req = (struct request){
        .conn = conn,
        .size = queued->size,
        .command = queued->command,
        .args = args,
        .nargs = (int)queued->nargs,
    };
    return pos + queued->size;
}

// What the requests of a transaction will cost, as far as one can see before the first is done.
struct price {
    size_t sum;
    size_t max; // of one of them
};

// Asks for the price of each request. A command that reads says it itself, and is not allowed to begin.
static struct price price_of(struct conn *conn, const struct transaction *transaction,
                             struct slice *args) {
    struct price price = {0};
    struct buf unread = {0};
    struct lookups before = get_lookups();
    for (size_t pos = 0; pos < buf_size(&transaction->queue);) {
        struct request req;
        pos = next_queued(conn, transaction, pos, args, &req);
        size_t cost = known_price(&req, req.size);
        if (req.command->flags & (READ | PRICED)) {
            struct reply out = {.buf = &unread};
            turn_ask();
            req.command->f(&req, &out);
            cost += turn_asked();
            buf_truncate(&unread, 0);
        }
        price.sum = cost < SIZE_MAX / 2 - price.sum ? price.sum + cost : SIZE_MAX / 2;
        price.max = cost > price.max ? cost : price.max;
    }
    buf_dispose(&unread);
    set_lookups(before);
    return price;
}

// Does one of the requests, as long as the work goes on. A reply that would leave no room for small ones
// of the `left` behind it is taken back; those in front of it have `sum` bytes.
static void run(struct request *req, size_t left, size_t sum, struct buf *buf) {
    struct reply out = {.buf = buf, .resp3 = req->conn->resp3};
    size_t before = buf_size(buf), work = turn_work();
    if (may_take(0)) {
        req->command->f(req, &out);
    }
    effect_done(db_index(req->conn->db), req);
    if (turn_forgive()) {
        forget_misses();
        buf_truncate(buf, before);
        reply_err(&out, "ERR not done: the transaction takes too long");
        return;
    }
    count_command();
    publish_misses();
    size_t size = buf_size(buf) - before, asked = turn_work() - work;
    turn_add(size > asked ? size - asked : 0);
    if (size > k_max_small_reply && sum + size > k_max_msg - left * k_max_small_reply) {
        buf_truncate(buf, before);
        out_too_big(&out);
    }
}

// Does all requests of the transaction, which are priced and paid for, and nothing else in between. Each
// reply goes behind the messages that wait; of one that listens all do, as any request may publish to it.
static void run_all(struct conn *conn, const struct transaction *transaction, struct slice *args,
                    struct price price, struct reply *out) {
    size_t start = buf_size(out->buf), pos = 0;
    reply_arr(out, transaction->n);
    size_t sum = buf_size(out->buf) - start;
    if (conn->subscriber) {
        inbox_add_reply(conn, out->buf, start);
    }
    turn_allow(price.max + k_transaction_work);
    effect_multi();
    for (size_t left = transaction->n; left > 0; left--) {
        struct request req;
        pos = next_queued(conn, transaction, pos, args, &req);
        size_t before = buf_size(out->buf);
        run(&req, left - 1, sum, out->buf);
        sum += buf_size(out->buf) - before;
        if (has_messages(conn)) {
            inbox_add_reply(conn, out->buf, before);
        }
    }
    effect_exec();
    turn_allowed();
}

void do_multi(struct request *req, struct reply *out) {
    if (in_transaction(req->conn)) {
        reply_err(out, "ERR MULTI calls can not be nested");
        return;
    }
    transaction_of(req->conn)->open = true;
    reply_status(out, "OK");
}

void do_discard(struct request *req, struct reply *out) {
    if (!in_transaction(req->conn)) {
        reply_err(out, "ERR DISCARD without MULTI");
        return;
    }
    transaction_end(req->conn);
    reply_status(out, "OK");
}

// Replies why the transaction cannot be done, if it cannot, and returns false.
static bool may_run(struct transaction *transaction, struct reply *out) {
    if (transaction->spoiled) {
        reply_err(out, "EXECABORT Transaction discarded because of previous errors.");
        return false;
    }
    each_watched(transaction, lookup_alive);
    if (transaction->touched) {
        reply_raw(out, out->resp3 ? "_\r\n" : "*-1\r\n");
        return false;
    }
    return true;
}

// Does the requests in the queue, all or none. All are paid for before the first is done.
void do_exec(struct request *req, struct reply *out) {
    struct conn *conn = req->conn;
    struct transaction *transaction = conn->transaction;
    if (!in_transaction(conn)) {
        reply_err(out, "ERR EXEC without MULTI");
        return;
    }
    if (!may_run(transaction, out)) {
        transaction_end(conn);
        return;
    }
    if (!may_take(transaction->work)) {
        return;
    }
    size_t args_size = (size_t)transaction->max_nargs * sizeof(struct slice);
    struct slice *args = mem_alloc(args_size);
    struct price price = price_of(conn, transaction, args);
    if (may_take(price.sum - transaction->work)) {
        if (price.sum > price.max + k_transaction_work) {
            refuse_exec(conn, "it takes too long", out);
        } else {
            conn->transaction = NULL; // its own requests must not find it
            unwatch(transaction);
            run_all(conn, transaction, args, price, out);
            transaction_free(transaction);
        }
    }
    block_free(args, args_size);
}

// watch key [key ...]
void do_watch(struct request *req, struct reply *out) {
    struct conn *conn = req->conn;
    if (in_transaction(conn)) {
        reply_err(out, "ERR WATCH inside MULTI is not allowed");
        return;
    }
    struct transaction *transaction = transaction_of(conn);
    for (int i = 1; i < req->nargs && !transaction->touched; i++) {
        struct lookup_key key = hashed_key(req, i);
        bool exists = lookup_alive(conn->db, key);
        if (!watch_key(transaction, conn->db, key, exists)) {
            reply_err(out, "ERR too many keys are watched");
            return;
        }
    }
    reply_status(out, "OK");
}

void do_unwatch(struct request *req, struct reply *out) {
    transaction_end(req->conn);
    reply_status(out, "OK");
}
