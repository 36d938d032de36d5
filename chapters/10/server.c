// server.c, chapter 10: the AVL tree
//
// The server of chapter 09, unchanged: this chapter builds a tree, and chapter 11 puts it to use.

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base.h"
#include "buf.h"
#include "fd.h"
#include "hash.h"
#include "hashtable.h"
#include "intrusive.h"
#include "mem.h"
#include "mem_tidy.h"
#include "net.h"
#include "request.h"
#include "serial.h"
#include "wire.h"

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
};

enum conn_state {
    STATE_REQ, // waits for requests: reading
    STATE_RES, // waits for the client to take a reply: writing
    STATE_BAD, // the client sent a bad message: waits for it to hang up
    STATE_END, // to be closed
};

// One key and its value, in one allocation: data holds the bytes of the key, node.key_len of them,
// then those of the value.
struct entry {
    struct hnode node;
    uint32_t val_len;
    uint8_t data[];
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

// Adds a key that is not there yet.
static void entry_add(const struct hnode *node, const struct slice *key, const struct slice *val) {
    struct entry *ent = mem_alloc(sizeof(*ent) + key->len + val->len);
    ent->node = *node;
    ent->val_len = (uint32_t)val->len;
    memcpy(ent->data, key->data, key->len);
    memcpy(ent->data + key->len, val->data, val->len);
    hm_insert(&g_data.db, &ent->node);
}

// Frees the entry.
static void entry_del(struct entry *ent) {
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
    if (!link) {
        entry_add(&lookup.node, key, val);
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

// Frees all keys at exit, so that a leak checker reports real leaks alone. Very many are left to
// the kernel: it takes a program's memory back faster than we can free it.
static void entry_clear(void) {
    if (hm_size(&g_data.db) > k_max_freed) {
        return;
    }
    hm_scan(&g_data.db, entry_clear_one, NULL);
    hm_destroy(&g_data.db);
}

// ---- commands: args[0] is the name ----

static void do_get(const struct slice *args, struct buf *out) {
    const struct entry *ent = entry_lookup(&args[1]);
    if (!ent) {
        out_nil(out);
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
    if (fd_set_nb(connfd) < 0) {
        close(connfd);
        return true;
    }
    watch(connfd, POLLIN);
    struct conn *conn = mem_alloc(sizeof(*conn));
    *conn = (struct conn){.fd = connfd, .state = STATE_REQ};
    g_data.fd2conn[connfd] = conn;
    return true;
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
    bool accepting = g_data.poll_set[g_data.listen_fd].events != 0;
    int ready = poll(g_data.poll_set, g_data.nfds, accepting ? -1 : k_accept_retry_ms);
    if (ready < 0 && errno != EINTR) {
        die("poll");
    }
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
    return true;
}

int main(void) {
    hold_std_fds();
    g_data.hash_key = hash_key_init();
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
