// batch.c: requests, from the bytes of rbuf to those of wbuf
//
// Owns the strings of a batch, and the count of the requests that were answered.

#include "base.h"
#include "buf.h"
#include "reply.h"
#include "resp.h"

#include "server.h"

enum {
    k_batch_args = 1024, // strings after which a batch ends
};

static struct resp_args batch_args; // the strings of the batch that is being answered

static size_t answered; // requests, since the last take_answered()

// Returns how many requests have been answered since the last call.
size_t take_answered(void) {
    size_t n = answered;
    answered = 0;
    return n;
}

// Appends the reply to one request. Its length is known only afterwards: a reply above the limit is
// taken back, and an error takes its place. What of it nobody has asked for is counted here. Returns
// false, and no reply, if the request is slow and this is no turn for it, or a pause holds it.
static bool reply_request(struct request *req, struct buf *buf) {
    size_t start = buf_size(buf), work = turn_work();
    struct reply out = {.buf = buf, .resp3 = req->conn->resp3};
    do_request(req, &out);
    if (turn_refused() || req->conn->paused) {
        buf_truncate(buf, start);
        return false;
    }
    size_t size = buf_size(buf) - start, asked = turn_work() - work;
    turn_add(size > asked ? size - asked : 0);
    if (size > k_max_msg) {
        buf_truncate(buf, start);
        out_too_big(&out);
    }
    return true;
}

// Drops what is left in rbuf: there are no more replies. What came before is still sent.
static void drop_input(struct conn *conn) {
    buf_truncate(&conn->rbuf, 0);
    conn->bad = true;
}

// Says what is wrong with the input: behind it we cannot tell where the next request begins.
static void reject_input(struct conn *conn, const char *error) {
    msg("%s", error);
    struct reply out = {.buf = &conn->wbuf, .resp3 = conn->resp3};
    reply_errf(&out, "ERR %s", error);
    drop_input(conn);
}

// Parses the request behind the batch, adds it, and hashes its key. Returns whether it was whole
// and good.
static bool parse_next(struct conn *conn, struct batch *batch) {
    size_t size = buf_size(&conn->rbuf) - batch->size, first = batch_args.n;
    struct resp_parser parser = batch->n == 0 ? conn->parser : (struct resp_parser){0};
    if (size == 0) {
        return false;
    }
    const uint8_t *data = buf_data(&conn->rbuf) + batch->size;
    enum resp_status status = resp_parse(&parser, data, size, &batch_args, batch->error);
    if (status != RESP_DONE) {
        batch->bad = status == RESP_BAD;
        batch->rest = parser;
        return false;
    }
    const struct slice *args = resp_args_from(&batch_args, first);
    struct request *req = &batch->requests[batch->n];
    *req = (struct request){.conn = conn, .size = parser.pos, .first = first};
    req->nargs = (int)(batch_args.n - first);
    req->command = req->nargs > 0 ? find_command(&args[0]) : NULL;
    if (req->command && req->command->flags & MEMBER) {
        req->command = NULL; // its first word is the family
    }
    if (req->command && req->command->first > 0 && req->nargs >= 2 && args[1].len <= k_long_arg) {
        req->key = hash_of_key(&args[1]);
    }
    batch->n++;
    batch->size += req->size;
    return true;
}

// Parses the first requests in rbuf. Returns whether there may be more behind the batch. A line is
// the last of its batch: its words are where those of the next one would be.
static bool parse_batch(struct conn *conn, struct batch *batch) {
    batch->n = 0;
    batch->size = 0;
    batch->bad = false;
    batch->rest = (struct resp_parser){0};
    resp_args_clear(&batch_args);
    bool more = true, line = false;
    while (more && !line && batch->n < k_lookahead && batch_args.n < k_batch_args) {
        line = buf_size(&conn->rbuf) > batch->size && buf_data(&conn->rbuf)[batch->size] != '*';
        more = parse_next(conn, batch);
    }
    for (int i = 0; i < batch->n; i++) {
        struct request *req = &batch->requests[i];
        req->args = resp_args_from(&batch_args, req->first);
    }
    return more;
}

// Answers the request, which is the first in rbuf. Returns whether there may be a reply to send. Its
// bytes are work, too.
static bool answer(struct conn *conn, struct request *req) {
    fetch_keys_ahead(req);
    if (!may_take(req->size) || (req->nargs > 0 && !reply_request(req, &conn->wbuf))) {
        return false;
    }
    answered++; // a request may add a key: let one more expire
    buf_consume(&conn->rbuf, req->size);
    return true;
}

// Makes room for the rest of a message. To move the part that has come is work.
static void make_room(struct buf *rbuf) {
    size_t size = buf_size(rbuf);
    bool full = rbuf->cap - rbuf->tail < k_read_size;
    if (size > 0 && full && may_take(size)) {
        buf_reserve(rbuf, k_read_size);
    }
}

// Answers the first requests in rbuf, until that is enough work for a turn, or the next one is slow.
// Returns whether there may be more to answer.
bool answer_batch(struct conn *conn) {
    struct batch batch;
    bool more = parse_batch(conn, &batch);
    if (batch.n > 1) {
        fetch_ahead(&batch);
    }
    conn->parser = (struct resp_parser){0};
    for (int i = 0; i < batch.n; i++) {
        if (turn_done()) {
            return true;
        }
        if (!answer(conn, &batch.requests[i])) {
            return false;
        }
        if (conn->bad) {
            drop_input(conn);
            return false;
        }
    }
    conn->parser = batch.rest;
    if (batch.bad) {
        reject_input(conn, batch.error);
    } else if (!more) {
        make_room(&conn->rbuf);
    }
    return more;
}

// Forgets the last batch, when the turn of its connection is over.
void batch_done(void) {
    resp_args_clear(&batch_args);
}

// Frees what batches were parsed into.
void batch_end(void) {
    resp_args_dispose(&batch_args);
}
