// server.c, chapter 08: hashtables
//
// The list of keys becomes a hashtable: a command looks at the keys of one bucket, not at all.

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
#include "fd.h"
#include "hash.h"
#include "hashtable.h"
#include "intrusive.h"
#include "mem.h"
#include "mem_tidy.h"
#include "net.h"
#include "request.h"
#include "wire.h"

enum {
    k_max_msg = 4096,
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

enum {
    RES_OK = 0,
    RES_ERR = 1, // data: what is wrong
    RES_NX = 2,  // no such key
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
    bool eof; // the client has sent all it will send
    size_t rbuf_size;
    uint8_t rbuf[4 + k_max_msg];
    size_t wbuf_size;
    size_t wbuf_sent;
    uint8_t wbuf[4 + k_max_msg];
    size_t dropped; // bytes that came behind a bad message
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

// ---- replies ----

// reply = u32 len, u32 status, len - 4 bytes of data
//
// Every reply fits: a value came in a `set`, which is no longer than a message may be, and has more
// around the value than the reply has.
static void reply(struct conn *conn, uint32_t status, const void *data, size_t len) {
    store_u32(conn->wbuf, (uint32_t)(4 + len));
    store_u32(&conn->wbuf[4], status);
    if (len > 0) {
        memcpy(&conn->wbuf[8], data, len);
    }
    conn->wbuf_size = 8 + len;
    conn->wbuf_sent = 0;
}

static void reply_err(struct conn *conn, const char *text) {
    reply(conn, RES_ERR, text, strlen(text));
}

// ---- commands: args[0] is the name ----

static void do_get(const struct slice *args, struct conn *conn) {
    const struct entry *ent = entry_lookup(&args[1]);
    if (!ent) {
        reply(conn, RES_NX, NULL, 0);
        return;
    }
    struct slice val = entry_val(ent);
    reply(conn, RES_OK, val.data, val.len);
}

static void do_set(const struct slice *args, struct conn *conn) {
    entry_set(&args[1], &args[2]);
    reply(conn, RES_OK, NULL, 0);
}

static void do_del(const struct slice *args, struct conn *conn) {
    entry_remove(&args[1]);
    reply(conn, RES_OK, NULL, 0);
}

// clang-format off
static const struct command {
    const char *name; // in small letters
    int nargs;        // with the name itself
    void (*f)(const struct slice *args, struct conn *conn);
} k_commands[] = {
    {"get", 2, do_get},
    {"set", 3, do_set},
    {"del", 2, do_del},
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
static void do_request(const struct slice *args, int nargs, struct conn *conn) {
    for (size_t i = 0; i < sizeof(k_commands) / sizeof(k_commands[0]); i++) {
        const struct command *command = &k_commands[i];
        if (is_command(&args[0], command->name)) {
            if (nargs == command->nargs) {
                command->f(args, conn);
            } else {
                reply_err(conn, "wrong number of arguments");
            }
            return;
        }
    }
    reply_err(conn, "Unknown cmd");
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

// Ends our side of the connection. All replies must be sent. After a bad message we cannot tell
// where the next one begins.
static void reject_input(struct conn *conn, const char *why) {
    msg("%s", why);
    shutdown(conn->fd, SHUT_WR);
    conn->state = STATE_BAD;
}

// message = u32 len, len bytes: a request as request.h has it      len <= k_max_msg
//
// Answers the first message in rbuf, if it is whole. Returns whether there is a reply to send.
static bool try_one_request(struct conn *conn) {
    uint32_t len = 0;
    if (conn->rbuf_size >= 4) {
        len = load_u32(conn->rbuf);
        if (len > k_max_msg) {
            reject_input(conn, "too long");
            return false;
        }
    }
    if (conn->rbuf_size < 4 + (size_t)len) {
        if (conn->eof) {
            conn->state = STATE_END;
        }
        return false;
    }

    struct slice args[k_max_args];
    int nargs = parse_req(&conn->rbuf[4], len, args);
    if (nargs < 0) {
        reject_input(conn, "bad req");
        return false;
    }
    do_request(args, nargs, conn);
    conn->state = STATE_RES;

    conn->rbuf_size -= 4 + len;
    memmove(conn->rbuf, &conn->rbuf[4 + len], conn->rbuf_size);
    return true;
}

// ---- connections ----

// Reads once. Returns whether anything came: bytes, or the end of the input.
static bool try_fill_buffer(struct conn *conn) {
    ssize_t n =
        recv(conn->fd, &conn->rbuf[conn->rbuf_size], sizeof(conn->rbuf) - conn->rbuf_size, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            conn->state = STATE_END;
        }
        return false;
    }
    if (n == 0) {
        conn->eof = true;
    }
    conn->rbuf_size += (size_t)n;
    return true;
}

// Writes once. Returns whether the whole reply is sent: only then is there room for the next one.
static bool try_flush_buffer(struct conn *conn) {
    ssize_t n = send(conn->fd, &conn->wbuf[conn->wbuf_sent], conn->wbuf_size - conn->wbuf_sent, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            conn->state = STATE_END;
        }
        return false;
    }
    conn->wbuf_sent += (size_t)n;
    if (conn->wbuf_sent < conn->wbuf_size) {
        return false;
    }
    conn->state = STATE_REQ;
    return true;
}

// Answers the requests in rbuf, until no whole one is left or the client does not take a reply.
static void state_req(struct conn *conn) {
    while (try_one_request(conn) && try_flush_buffer(conn)) {
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
    free(conn);
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
    conn->fd = connfd;
    conn->state = STATE_REQ;
    conn->eof = false;
    conn->rbuf_size = conn->wbuf_size = conn->wbuf_sent = conn->dropped = 0;
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
