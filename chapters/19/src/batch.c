// batch.c: requests, from the bytes of rbuf to those of wbuf
//
// Owns the count of the requests that were answered.

#include "base.h"
#include "buf.h"
#include "request.h"
#include "wire.h"

#include "server.h"

static size_t answered; // requests, since the last take_answered()

// Returns how many requests have been answered since the last call.
size_t take_answered(void) {
    size_t n = answered;
    answered = 0;
    return n;
}

// reply = u32 len, len bytes: a value as serial.h has it      len <= k_max_msg
//
// Appends the reply to one request. Its length is known only afterwards: a reply above the limit is
// taken back, and an error takes its place. Returns false, and no reply, if the request is slow and
// this is no turn for it.
static bool reply_request(const struct slice *args, int nargs, struct buf *out) {
    size_t start = buf_size(out);
    buf_reserve(out, 4);
    buf_commit(out, 4);
    do_request(args, nargs, out);
    if (turn_refused()) {
        buf_truncate(out, start);
        return false;
    }
    if (buf_size(out) - start - 4 > k_max_msg) {
        buf_truncate(out, start + 4);
        out_too_big(out);
    }
    store_u32(buf_data(out) + start, (uint32_t)(buf_size(out) - start - 4));
    return true;
}

// Logs why the input is bad and drops the rest of rbuf: behind a bad message we cannot tell where
// the next one begins. The requests before it are still answered.
static void reject_input(struct conn *conn, const char *why) {
    msg("%s", why);
    buf_truncate(&conn->rbuf, 0);
    conn->bad = true;
}

// message = u32 len, len bytes: a request as request.h has it      len <= k_max_msg
//
// Parses the message behind the batch, adds it, and hashes its key. Returns whether it was whole and
// good.
static bool parse_next(const struct buf *rbuf, struct batch *batch) {
    size_t size = buf_size(rbuf) - batch->size;
    if (size < 4) {
        return false;
    }
    const uint8_t *data = buf_data(rbuf) + batch->size;
    uint32_t len = load_u32(data);
    if (len > k_max_msg) {
        batch->bad = "too long";
        return false;
    }
    if (size < 4 + (size_t)len) {
        return false;
    }

    struct slice *args = &batch->args[batch->nargs];
    int nargs = parse_req(data + 4, len, args);
    if (nargs < 0) {
        batch->bad = "bad req";
        return false;
    }
    struct request *request = &batch->requests[batch->n];
    *request = (struct request){.size = 4 + (size_t)len, .args = args, .nargs = nargs};
    if (nargs >= 2 && args[1].len <= k_long_arg) {
        request->key = hash_of_key(&args[1]);
    }
    batch->n++;
    batch->nargs += (size_t)nargs;
    batch->size += request->size;
    return true;
}

// Parses the first messages in rbuf. Returns whether there may be more behind the batch.
static bool parse_batch(const struct buf *rbuf, struct batch *batch) {
    batch->n = 0;
    batch->size = 0;
    batch->bad = NULL;
    batch->nargs = 0;
    bool more = true;
    while (more && batch->n < k_lookahead && batch->nargs + k_max_args <= k_batch_args) {
        more = parse_next(rbuf, batch);
    }
    return more;
}

// Answers the request, which is the first in rbuf. Returns whether there is a reply to send. What it has
// in bytes is work, too.
static bool answer(struct conn *conn, const struct request *request) {
    set_hashed(&request->key);
    if (!may_take(request->size) || !reply_request(request->args, request->nargs, &conn->wbuf)) {
        return false;
    }
    answered++; // a request may add a key: let one more expire
    buf_consume(&conn->rbuf, request->size);
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
    bool more = parse_batch(&conn->rbuf, &batch);
    if (batch.n > 1) {
        fetch_ahead(&batch);
    }
    for (int i = 0; i < batch.n; i++) {
        if (turn_done()) {
            return true;
        }
        if (!answer(conn, &batch.requests[i])) {
            return false;
        }
    }
    if (batch.bad) {
        reject_input(conn, batch.bad);
    } else if (!more) {
        make_room(&conn->rbuf);
    }
    return more;
}
