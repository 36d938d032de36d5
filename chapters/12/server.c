// server.c, chapter 12: timers
//
// A connection on which nothing moves for five seconds is closed, whether its client says nothing,
// has stopped in the middle of a request, or does not read.

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base.h"
#include "buf.h"
#include "clock.h"
#include "dlist.h"
#include "fd.h"
#include "hash.h"
#include "hashtable.h"
#include "intrusive.h"
#include "mem.h"
#include "mem_tidy.h"
#include "net.h"
#include "request.h"
#include "serial.h"
#include "serial_dbl.h"
#include "wire.h"
#include "zset.h"

enum {
    k_max_msg = 32 << 20,
    k_read_size = 16 << 10, // a read has room for at least this many bytes
    k_send_size = 64 << 10, // replies are sent once this many bytes of them wait
    k_max_kept = 64 << 10,  // a larger buffer that is mostly empty is shrunk
    k_max_freed = 100000,
    k_max_accepts = 1000,    // connections accepted in one round
    k_max_dropped = 4 << 20, // bytes behind a bad message after which its client is cut off
    k_stop_ms = 400,         // after the signal to stop, until the program ends wherever it is
    k_accept_retry_ms = 100,
    k_send_buffer = 128 << 10, // bytes that the kernel buffers for a client; Linux doubles it
    k_idle_timeout_ms = 5000,
};

enum conn_state {
    STATE_REQ, // waits for requests: reading
    STATE_RES, // waits for the client to take a reply: writing
    STATE_BAD, // the client sent a bad message: waits for it to hang up
    STATE_END, // to be closed
};

enum value_type {
    T_STR,
    T_ZSET,
};

// One key and its value, in one allocation: data holds the bytes of the key, node.key_len of them,
// then those of the value. The value of a T_ZSET is a pointer to a struct zset, which it owns.
struct entry {
    struct hnode node;
    uint32_t val_len : 30;
    uint32_t type : 2;
    uint8_t data[];
    _Static_assert(k_max_msg < 1 << 30, "val_len holds the length of any value");
};

// What an entry is looked up by.
struct lookup_key {
    struct hnode node;
    const uint8_t *key;
};

// One connection.
struct conn {
    int fd;
    enum conn_state state;
    bool eof;        // the client has sent all it will send
    bool bad;        // the client has sent a bad message
    size_t dropped;  // bytes that came behind a bad message
    struct buf rbuf; // received, not answered yet
    struct buf wbuf; // answered, not sent yet
    struct dlist idle_node;
    int64_t idle_start; // when a byte moved last
};

static struct {
    // Both are indexed by descriptor; the kernel hands out the lowest that is free, so they stay
    // short. poll() passes over slots whose fd is -1.
    struct conn **fd2conn;
    struct pollfd *poll_set;
    size_t cap;  // slots allocated
    size_t nfds; // slots up to the last one in use
    int listen_fd;
    int stop_pipe[2];
    volatile sig_atomic_t stopping;
    struct hash_key hash_key;
    struct hmap db;
    int64_t idle_timeout_ms; // 0 for never
    struct dlist idle_list;  // all connections, the longest idle first
} g_data;

// ---- the key space ----

static struct lookup_key lookup_key(const struct slice *key) {
    uint32_t hcode = str_hash(&g_data.hash_key, key->data, key->len);
    return (struct lookup_key){
        .node = {.hcode = hcode, .key_len = (uint32_t)key->len},
        .key = key->data,
    };
}

// An hnode_eq: compares the bytes of an entry's key with those of a lookup_key.
static bool entry_eq(const struct hnode *node, const struct hnode *key) {
    const struct entry *ent = container_of(node, struct entry, node);
    const struct lookup_key *lookup = container_of(key, struct lookup_key, node);
    return memcmp(ent->data, lookup->key, node->key_len) == 0;
}

// Returns the value, borrowed from the entry.
static struct slice entry_val(const struct entry *ent) {
    return (struct slice){ent->data + ent->node.key_len, ent->val_len};
}

// Returns the sorted set of a T_ZSET, borrowed from the entry.
static struct zset *entry_zset(const struct entry *ent) {
    struct zset *zset;
    memcpy(&zset, entry_val(ent).data, sizeof(zset)); // the bytes are not aligned
    return zset;
}

// Returns how many pairs the entry has, 0 where its value is no sorted set.
static size_t entry_pairs(const struct entry *ent) {
    return ent->type == T_ZSET ? zset_size(entry_zset(ent)) : 0;
}

// Adds a key that is not there yet.
static void entry_add(const struct hnode *node, const struct slice *key, enum value_type type,
                      const struct slice *val) {
    struct entry *ent = mem_alloc(sizeof(*ent) + key->len + val->len);
    ent->node = *node;
    ent->type = type;
    ent->val_len = (uint32_t)val->len;
    memcpy(ent->data, key->data, key->len);
    memcpy(ent->data + key->len, val->data, val->len);
    hm_insert(&g_data.db, &ent->node);
}

// Adds a key that is not there yet, with an empty sorted set. Returns the set, borrowed.
static struct zset *entry_add_zset(const struct slice *key) {
    struct lookup_key lookup = lookup_key(key);
    struct zset *zset = mem_alloc(sizeof(*zset));
    zset_init(zset, &g_data.hash_key);
    struct slice val = {(const uint8_t *)&zset, sizeof(zset)};
    entry_add(&lookup.node, key, T_ZSET, &val);
    return zset;
}

// Frees the entry with its value.
static void entry_del(struct entry *ent) {
    if (ent->type == T_ZSET) {
        zset_dispose(entry_zset(ent));
        free(entry_zset(ent));
    }
    free(ent);
}

// Removes the key. Returns whether it was there.
static bool entry_remove(const struct slice *key) {
    struct lookup_key lookup = lookup_key(key);
    struct hnode *node = hm_pop(&g_data.db, &lookup.node, entry_eq);
    if (!node) {
        return false;
    }
    entry_del(container_of(node, struct entry, node));
    return true;
}

// Returns the entry with the key, NULL where there is none.
static struct entry *entry_lookup(const struct slice *key) {
    struct lookup_key lookup = lookup_key(key);
    struct hnode **link = hm_lookup(&g_data.db, &lookup.node, entry_eq);
    return link ? container_of(*link, struct entry, node) : NULL;
}

// Gives the key the value, whether or not it had one.
static void entry_set(const struct slice *key, const struct slice *val) {
    struct lookup_key lookup = lookup_key(key);
    struct hnode **link = hm_lookup(&g_data.db, &lookup.node, entry_eq);
    if (link && container_of(*link, struct entry, node)->type != T_STR) {
        entry_remove(key);
        link = NULL;
    }
    if (!link) {
        entry_add(&lookup.node, key, T_STR, val);
        return;
    }
    struct entry *ent = container_of(*link, struct entry, node);
    if (ent->val_len != val->len) {
        // The entry may move, so the pointer that owns it has to follow.
        ent = mem_realloc(ent, sizeof(*ent) + key->len + val->len);
        ent->val_len = (uint32_t)val->len;
        *link = &ent->node;
    }
    memcpy(ent->data + key->len, val->data, val->len);
}

static bool entry_clear_one(struct hnode *node, void *arg) {
    (void)arg;
    entry_del(container_of(node, struct entry, node));
    return true;
}

static bool entry_count_one(struct hnode *node, void *arg) {
    size_t *n = arg;
    const struct entry *ent = container_of(node, struct entry, node);
    *n += 1 + entry_pairs(ent);
    return *n <= k_max_freed;
}

// Frees all keys at exit, so that a leak checker reports real leaks alone. Very many keys and pairs
// are left to the kernel: it takes a program's memory back faster than we can free it.
static void entry_clear(void) {
    size_t n = 0;
    hm_scan(&g_data.db, entry_count_one, &n);
    if (n > k_max_freed) {
        return;
    }
    hm_scan(&g_data.db, entry_clear_one, NULL);
    hm_destroy(&g_data.db);
}

// ---- arguments ----

// integer = "0" | "-"? digit that is not 0, digit*
//
// Returns whether `arg` is one that fits *value. Where it is not, *value is undefined. Counts
// downwards, because INT64_MIN has no positive counterpart; the builtins of the compiler tell
// whether a result did not fit.
static bool parse_int(const struct slice *arg, int64_t *value) {
    *value = 0;
    if (arg->len == 1 && arg->data[0] == '0') {
        return true;
    }
    bool negative = arg->len > 0 && arg->data[0] == '-';
    size_t i = negative ? 1 : 0;
    if (i == arg->len || arg->data[i] == '0') {
        return false;
    }
    for (; i < arg->len; i++) {
        int digit = arg->data[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(*value, 10, value) ||
            __builtin_sub_overflow(*value, digit, value)) {
            return false;
        }
    }
    return negative || !__builtin_sub_overflow(0, *value, value);
}

// double = what strtod() reads, but decimal and finite | ( "+" | "-" )? "inf"
//
// Returns whether `arg` is one. Where it is not, *value is undefined.
static bool parse_double(const struct slice *arg, double *value) {
    char local[64];
    char *text = arg->len < sizeof(local) ? local : mem_alloc(arg->len + 1);
    memcpy(text, arg->data, arg->len);
    text[arg->len] = '\0';
    char *end = text;
    bool ok;
    if (arg->len > 0 && strspn(text, "0123456789+-.eE") == arg->len) {
        *value = strtod(text, &end);
        ok = end == text + arg->len && isfinite(*value);
    } else {
        bool negative = text[0] == '-';
        *value = negative ? -INFINITY : INFINITY;
        ok = strcasecmp(text + (negative || text[0] == '+'), "inf") == 0;
        ok = ok && strlen(text) == arg->len;
    }
    if (text != local) {
        free(text);
    }
    return ok;
}

static void out_bad_int(struct buf *out) {
    out_err(out, ERR_ARG, "expected an integer");
}

static void out_bad_double(struct buf *out) {
    out_err(out, ERR_ARG, "expected a finite decimal number, or inf");
}

// ---- commands: args[0] is the name ----

static void out_bad_type(struct buf *out) {
    out_err(out, ERR_TYPE, "the key holds a value of another type");
}

static void do_get(const struct slice *args, struct buf *out) {
    const struct entry *ent = entry_lookup(&args[1]);
    if (!ent) {
        out_nil(out);
        return;
    }
    if (ent->type != T_STR) {
        out_bad_type(out);
        return;
    }
    struct slice val = entry_val(ent);
    out_str(out, val.data, val.len);
}

static void do_set(const struct slice *args, struct buf *out) {
    entry_set(&args[1], &args[2]);
    out_nil(out);
}

static void do_del(const struct slice *args, struct buf *out) {
    out_int(out, entry_remove(&args[1]));
}

static void out_too_big(struct buf *out) {
    out_err(out, ERR_2BIG, "the reply is too big");
}

// What a scan for `keys` carries along.
struct keys_scan {
    struct buf *out;
    size_t max_size; // of out: beyond it the reply is too big
    uint32_t n;
};

static bool do_keys_one(struct hnode *node, void *arg) {
    struct keys_scan *scan = arg;
    out_str(scan->out, container_of(node, struct entry, node)->data, node->key_len);
    scan->n++;
    return buf_size(scan->out) <= scan->max_size;
}

// Stops when the reply is too big to be sent: reply_request() sees that.
static void do_keys(const struct slice *args, struct buf *out) {
    (void)args;
    struct keys_scan scan = {.out = out, .max_size = buf_size(out) + k_max_msg};
    size_t arr = out_arr(out, 0);
    hm_scan(&g_data.db, do_keys_one, &scan);
    out_arr_end(out, arr, scan.n);
}

// Sets *zset to the sorted set of the key, NULL if there is no such key. If the key holds another
// type, replies with an error and returns false.
static bool find_zset(const struct slice *key, struct zset **zset, struct buf *out) {
    const struct entry *ent = entry_lookup(key);
    if (ent && ent->type != T_ZSET) {
        out_bad_type(out);
        return false;
    }
    *zset = ent ? entry_zset(ent) : NULL;
    return true;
}

static void do_zadd(const struct slice *args, struct buf *out) {
    double score;
    if (!parse_double(&args[2], &score)) {
        out_bad_double(out);
        return;
    }
    struct zset *zset;
    if (!find_zset(&args[1], &zset, out)) {
        return;
    }
    if (!zset) {
        zset = entry_add_zset(&args[1]);
    }
    out_int(out, zset_add(zset, args[3].data, args[3].len, score));
}

static void do_zrem(const struct slice *args, struct buf *out) {
    struct zset *zset;
    if (!find_zset(&args[1], &zset, out)) {
        return;
    }
    struct znode *znode = zset ? zset_lookup(zset, args[2].data, args[2].len) : NULL;
    out_int(out, znode != NULL);
    if (znode) {
        zset_del(zset, znode);
        if (zset_size(zset) == 0) {
            entry_remove(&args[1]);
        }
    }
}

static void do_zscore(const struct slice *args, struct buf *out) {
    struct zset *zset;
    if (!find_zset(&args[1], &zset, out)) {
        return;
    }
    const struct znode *znode = zset ? zset_lookup(zset, args[2].data, args[2].len) : NULL;
    if (znode) {
        out_dbl(out, znode->score);
    } else {
        out_nil(out);
    }
}

// zquery key score name offset limit
static void do_zquery(const struct slice *args, struct buf *out) {
    double score;
    int64_t offset, limit;
    if (!parse_double(&args[2], &score)) {
        out_bad_double(out);
        return;
    }
    if (!parse_int(&args[4], &offset) || !parse_int(&args[5], &limit)) {
        out_bad_int(out);
        return;
    }
    struct zset *zset;
    if (!find_zset(&args[1], &zset, out)) {
        return;
    }
    struct znode *znode = NULL;
    if (zset && limit > 0) {
        znode = zset_query(zset, score, args[3].data, args[3].len, offset);
    }
    size_t max_size = buf_size(out) + k_max_msg;
    size_t arr = out_arr(out, 0);
    uint32_t n = 0;
    while (znode && n < limit && buf_size(out) <= max_size) {
        out_str(out, znode->name, znode->node.key_len);
        out_dbl(out, znode->score);
        znode = znode_next(znode);
        n++;
    }
    out_arr_end(out, arr, n * 2);
}

// clang-format off
static const struct command {
    const char *name; // in small letters
    int nargs;        // with the name itself
    void (*f)(const struct slice *args, struct buf *out);
} k_commands[] = {
    {"get", 2, do_get},
    {"set", 3, do_set},
    {"del", 2, do_del},
    {"keys", 1, do_keys},
    {"zadd", 4, do_zadd},
    {"zrem", 3, do_zrem},
    {"zscore", 3, do_zscore},
    {"zquery", 6, do_zquery},
};
// clang-format on

// Tells whether `arg` is `name`, in letters of any case. Compares the whole of both, so a NUL byte
// in arg is a byte like any other.
static bool is_command(const struct slice *arg, const char *name) {
    size_t i = 0;
    while (i < arg->len && name[i] && (arg->data[i] | 0x20) == name[i]) {
        i++;
    }
    return i == arg->len && !name[i];
}

// Finds the command and has it reply.
static void do_request(const struct slice *args, int nargs, struct buf *out) {
    for (size_t i = 0; i < sizeof(k_commands) / sizeof(k_commands[0]); i++) {
        const struct command *command = &k_commands[i];
        if (is_command(&args[0], command->name)) {
            if (nargs == command->nargs) {
                command->f(args, out);
            } else {
                out_err(out, ERR_ARG, "wrong number of arguments");
            }
            return;
        }
    }
    out_err(out, ERR_UNKNOWN, "Unknown cmd");
}

// ---- the poll set ----

// Has poll() watch `fd` for `events`.
static void watch(int fd, short events) {
    size_t slot = (size_t)fd;
    if (slot >= g_data.cap) {
        size_t cap = slot * 2 + 16;
        g_data.fd2conn = mem_realloc(g_data.fd2conn, cap * sizeof(g_data.fd2conn[0]));
        g_data.poll_set = mem_realloc(g_data.poll_set, cap * sizeof(g_data.poll_set[0]));
        for (size_t i = g_data.cap; i < cap; i++) {
            g_data.fd2conn[i] = NULL;
            g_data.poll_set[i] = (struct pollfd){.fd = -1};
        }
        g_data.cap = cap;
    }
    g_data.poll_set[slot] = (struct pollfd){.fd = fd, .events = events};
    if (slot >= g_data.nfds) {
        g_data.nfds = slot + 1;
    }
}

// Makes poll() stop watching `fd`.
static void unwatch(int fd) {
    g_data.poll_set[fd] = (struct pollfd){.fd = -1};
    while (g_data.nfds > 0 && g_data.poll_set[g_data.nfds - 1].fd < 0) {
        g_data.nfds--;
    }
}

// ---- requests ----

// reply = u32 len, len bytes: a value as serial.h has it      len <= k_max_msg
//
// Appends the reply to one request. Its length is known only afterwards: a reply above the limit is
// taken back, and an error takes its place.
static void reply_request(const struct slice *args, int nargs, struct buf *out) {
    size_t start = buf_size(out);
    buf_reserve(out, 4);
    buf_commit(out, 4);
    do_request(args, nargs, out);
    if (buf_size(out) - start - 4 > k_max_msg) {
        buf_truncate(out, start + 4);
        out_too_big(out);
    }
    store_u32(buf_data(out) + start, (uint32_t)(buf_size(out) - start - 4));
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
// Answers the first message in rbuf, if it is whole. Returns whether there is a reply to send.
static bool try_one_request(struct conn *conn) {
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
        return false;
    }

    struct slice args[k_max_args];
    int nargs = parse_req(data + 4, len, args);
    if (nargs < 0) {
        reject_input(conn, "bad req");
        return false;
    }
    reply_request(args, nargs, &conn->wbuf);
    buf_consume(&conn->rbuf, 4 + (size_t)len);
    return true;
}

// ---- connections ----

// Notes that a byte has moved: the connection is the least idle of all.
static void renew_idle(struct conn *conn) {
    conn->idle_start = get_monotonic_msec();
    dlist_detach(&conn->idle_node);
    dlist_insert_before(&g_data.idle_list, &conn->idle_node);
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
static void conn_done(struct conn *conn) {
    unwatch(conn->fd);
    g_data.fd2conn[conn->fd] = NULL;
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
static void connection_io(struct conn *conn) {
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
        g_data.poll_set[conn->fd].events = conn->state == STATE_RES ? POLLOUT : POLLIN;
    }
}

// Accepts one connection. Returns whether more may be waiting.
static bool accept_new_conn(void) {
    int connfd = accept(g_data.listen_fd, NULL, NULL);
    if (connfd < 0) {
        if (errno == EINTR || errno == ECONNABORTED) {
            return true;
        }
        if (errno != EAGAIN) {
            // We are out of descriptors, most likely. The client stays in the queue, and poll()
            // would report it at once, again and again. So we do not ask for it until something
            // else has happened, or k_accept_retry_ms have passed.
            g_data.poll_set[g_data.listen_fd].events = 0;
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
    g_data.fd2conn[connfd] = conn;
    return true;
}

// ---- timers ----
//
// A timer goes off when the clock, in whole milliseconds, is past its deadline. So what is left to
// wait is rounded up: else poll() would come back too early, and then again and again until it is time.

// Returns the connection that has been idle for longest, NULL if there is none or the timeout is
// off.
static struct conn *first_idle(void) {
    if (g_data.idle_timeout_ms == 0 || dlist_empty(&g_data.idle_list)) {
        return NULL;
    }
    return container_of(g_data.idle_list.next, struct conn, idle_node);
}

// Returns how many milliseconds after `now_ms` the next timer goes off: poll() may wait for that
// long. -1 if no timer is set: poll() takes it for "as long as you like".
static int next_timer_ms(int64_t now_ms) {
    int64_t next_ms = INT64_MAX;
    if (!g_data.poll_set[g_data.listen_fd].events) {
        next_ms = now_ms + k_accept_retry_ms;
    }
    const struct conn *conn = first_idle();
    if (conn && conn->idle_start + g_data.idle_timeout_ms < next_ms) {
        next_ms = conn->idle_start + g_data.idle_timeout_ms;
    }
    if (next_ms == INT64_MAX) {
        return -1;
    }
    if (next_ms < now_ms) {
        return 0;
    }
    return next_ms - now_ms < INT_MAX ? (int)(next_ms - now_ms) + 1 : INT_MAX;
}

// Closes the connections that had been idle for too long at `now_ms`.
static void process_timers(int64_t now_ms) {
    struct conn *conn;
    while ((conn = first_idle()) && now_ms > conn->idle_start + g_data.idle_timeout_ms) {
        msg("removing idle connection: %d", conn->fd);
        conn_done(conn);
    }
}

// ---- main: the event loop ----

// Ends the program where it stands: the loop was told to stop, and has something to do that takes
// longer than we wait. All that it holds would be gone in a moment anyway.
static void on_stop_late(int sig) {
    (void)sig;
    _exit(0);
}

// Tells the loop to stop, in two ways. The flag ends a round that is under way. But a signal may
// come after the loop looked at the flag and before it waits, and it would wait for ever; so there
// is a byte in a pipe as well, which ends the wait. A second signal finds no handler any more: it
// ends the program at once. And an alarm ends it soon, whatever the first one has to wait for.
static void on_stop_signal(int sig) {
    (void)sig;
    int err = errno;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    g_data.stopping = 1;
    if (write(g_data.stop_pipe[1], "", 1) < 0) {
        // The pipe is full: poll() will report it all the same.
    }
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = k_stop_ms * 1000}, NULL);
    errno = err;
}

// Lets SIGINT and SIGTERM call on_stop_signal(), and their alarm on_stop_late(); ignores SIGPIPE.
static void catch_signals(void) {
    if (pipe(g_data.stop_pipe) < 0 || fd_set_nb(g_data.stop_pipe[1]) < 0) {
        die("pipe");
    }
    struct sigaction action = {.sa_handler = on_stop_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = on_stop_late;
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

// One round: waits until something is ready, then serves it. Returns whether another one follows.
static bool one_round(void) {
    int64_t now_ms = get_monotonic_msec();
    int wait_ms = next_timer_ms(now_ms);
    int ready = poll(g_data.poll_set, g_data.nfds, wait_ms);
    if (ready < 0 && errno != EINTR) {
        die("poll");
    }
    // The last moment at which poll() is sure to have checked every client. Idle time is judged by
    // it: a byte that arrived later, while we were busy or stopped, has not been read yet.
    int64_t looked_ms = ready == 0 ? now_ms + wait_ms : now_ms;
    g_data.poll_set[g_data.listen_fd].events = POLLIN;
    for (size_t fd = 0; ready > 0 && fd < g_data.nfds; fd++) {
        if (!g_data.poll_set[fd].revents) {
            continue;
        }
        ready--;
        if (g_data.stopping || (int)fd == g_data.stop_pipe[0]) {
            return false;
        }
        if ((int)fd == g_data.listen_fd) {
            for (int left = k_max_accepts; left > 0 && accept_new_conn(); left--) {
            }
        } else {
            connection_io(g_data.fd2conn[fd]);
        }
    }
    process_timers(looked_ms);
    return true;
}

int main(void) {
    hold_std_fds();
    g_data.hash_key = hash_key_init();
    g_data.idle_timeout_ms = env_long("IDLE_TIMEOUT_MS", k_idle_timeout_ms, 0, INT_MAX);
    dlist_init(&g_data.idle_list);
    catch_signals();
    g_data.listen_fd = tcp_listen(env_ip("BIND"), env_port());
    if (fd_set_nb(g_data.listen_fd) < 0) {
        die("fcntl");
    }
    watch(g_data.stop_pipe[0], POLLIN);
    watch(g_data.listen_fd, POLLIN);
    while (one_round()) {
        mem_tidy();
    }

    signal(SIGALRM, SIG_IGN); // what is left to do is short
    for (size_t fd = 0; fd < g_data.cap; fd++) {
        if (g_data.fd2conn[fd]) {
            conn_done(g_data.fd2conn[fd]);
        }
    }
    close(g_data.listen_fd);
    close(g_data.stop_pipe[0]);
    close(g_data.stop_pipe[1]);
    free(g_data.fd2conn);
    free(g_data.poll_set);
    entry_clear();
}
