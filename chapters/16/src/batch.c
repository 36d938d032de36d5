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
// Answers the first message in rbuf, if it is whole. Returns whether there is a reply to send. Its
// bytes are work, too: to answer it, and before that, to move the part that has come to where there is
// room for more.
bool try_one_request(struct conn *conn) {
    size_t size = buf_size(&conn->rbuf);
    if (size < 4) {
        return false;
    }
    const uint8_t *data = buf_data(&conn->rbuf);
    uint32_t len = load_u32(data);
    if (len > k_max_msg) {
        reject_input(conn, "too long");
        return false;
    }
    if (size < 4 + (size_t)len) {
        bool full = conn->rbuf.cap - conn->rbuf.tail < k_read_size;
        if (full && may_take(size)) {
            buf_reserve(&conn->rbuf, k_read_size);
        }
        return false;
    }
    if (!may_take(len)) {
        return false;
    }

    struct slice args[k_max_args];
    int nargs = parse_req(data + 4, len, args);
    if (nargs < 0) {
        reject_input(conn, "bad req");
        return false;
    }
    if (!reply_request(args, nargs, &conn->wbuf)) {
        return false;
    }
    answered++; // a request may add a key: let one more expire
    buf_consume(&conn->rbuf, 4 + (size_t)len);
    return true;
}
