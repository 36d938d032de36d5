// t_client.c: commands that concern other connections
//
// Has no state.

#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "intrusive.h"
#include "reply.h"

#include "server.h"

enum {
    k_kill_cost = 100, // what a connection that `client kill` looks at counts for: see turn.c
};

// The kinds of connections. Others than these are not here.
enum client_type { ANY_TYPE, NORMAL, PUBSUB, OTHER_TYPE };

// Which connections `client kill` is about; 0 or NULL stands for any.
struct kill_options {
    int64_t id;
    const struct slice *addr, *laddr;
    enum client_type type;
    bool me; // the one that asks, too
};

// Tells whether the name is that of a kind of connections in Redis.
static bool is_client_type(const struct slice *name) {
    return is_word(name, "normal") || is_word(name, "master") || is_word(name, "replica") ||
           is_word(name, "slave") || is_word(name, "pubsub");
}

// Notes what an option of `client kill` asks for, which has its value behind it. If it is wrong, replies
// with an error and returns false.
static bool parse_kill_option(const struct slice *word, struct kill_options *options,
                              struct reply *out) {
    const struct slice *arg = word + 1;
    if (is_word(word, "id")) {
        if (!parse_int(arg, &options->id) || options->id < 1) {
            reply_err(out, "ERR client-id should be greater than 0");
            return false;
        }
    } else if (is_word(word, "type")) {
        if (!is_client_type(arg)) {
            reply_errf(out, "ERR Unknown client type '%.*s'", (int)arg->len, arg->data);
            return false;
        }
        options->type = is_word(arg, "normal")   ? NORMAL
                        : is_word(arg, "pubsub") ? PUBSUB
                                                 : OTHER_TYPE;
    } else if (is_word(word, "addr")) {
        options->addr = arg;
    } else if (is_word(word, "laddr")) {
        options->laddr = arg;
    } else if (is_word(word, "user")) {
        if (arg->len != 7 || memcmp(arg->data, "default", 7) != 0) {
            reply_errf(out, "ERR No such user '%.*s'", (int)arg->len, arg->data);
            return false;
        }
    } else if (is_word(word, "skipme") && (is_word(arg, "yes") || is_word(arg, "no"))) {
        options->me = is_word(arg, "no");
    } else {
        out_bad_syntax(out);
        return false;
    }
    return true;
}

// Tells whether one end of the connection has the address.
static bool has_address(const struct conn *conn, bool peer, const struct slice *addr) {
    char text[k_max_address];
    size_t len = conn_address(conn, peer, text);
    return len == addr->len && memcmp(text, addr->data, len) == 0;
}

// Tells whether the options mean the connection. One that is at its end already counts no more.
static bool is_meant(const struct conn *conn, const struct kill_options *options) {
    return conn->state != STATE_END && !conn->bad &&
           (options->type == ANY_TYPE ||
            options->type == (is_subscriber(conn) ? PUBSUB : NORMAL)) &&
           (options->id == 0 || conn->id == options->id) &&
           (!options->addr || has_address(conn, true, options->addr)) &&
           (!options->laddr || has_address(conn, false, options->laddr));
}

// Ends a connection. Its next turn is its last: epoll reports the end of its socket, whatever else it
// waits for. The one that asks gets its reply first.
static void kill_conn(struct conn *conn, const struct conn *me) {
    if (conn == me) {
        conn->bad = true;
    } else {
        conn->state = STATE_END;
        shutdown(conn->fd, SHUT_RDWR);
    }
}

// client kill address
// client kill [id n] [type kind] [addr address] [laddr address] [user name] [skipme yes | no]
void do_client_kill(struct request *req, struct reply *out) {
    bool by_address = req->nargs == 3;
    struct kill_options options = {.me = by_address};
    if (by_address) {
        options.addr = &req->args[2];
    }
    for (int i = 2; !by_address && i < req->nargs; i += 2) {
        if (i + 1 == req->nargs) {
            out_bad_syntax(out);
            return;
        }
        if (!parse_kill_option(&req->args[i], &options, out)) {
            return;
        }
    }
    if (!may_take(conns_count() * k_kill_cost)) {
        return;
    }
    int64_t n = 0;
    const struct dlist *list = all_conns();
    for (struct dlist *node = list->next; node != list; node = node->next) {
        struct conn *conn = container_of(node, struct conn, idle_node);
        if (is_meant(conn, &options) && (options.me || conn != req->conn)) {
            kill_conn(conn, req->conn);
            n++;
        }
    }
    if (!by_address) {
        reply_int(out, n);
    } else if (n > 0) {
        reply_status(out, "OK");
    } else {
        reply_err(out, "ERR No such client");
    }
}

// client no-evict on | off: nothing is evicted here. `client list` shows it.
void do_client_no_evict(struct request *req, struct reply *out) {
    const struct slice *arg = &req->args[2];
    if (is_word(arg, "on") || is_word(arg, "off")) {
        req->conn->no_evict = is_word(arg, "on");
        reply_status(out, "OK");
    } else {
        out_bad_syntax(out);
    }
}

// client pause milliseconds [all | write]
void do_client_pause(struct request *req, struct reply *out) {
    int64_t ms, now_ms = get_monotonic_msec();
    bool all = req->nargs == 3 || is_word(&req->args[3], "all");
    if (req->nargs > 4) {
        const struct slice *word = &req->args[1];
        reply_errf(
            out,
            "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try CLIENT HELP.",
            (int)word->len,
            word->data);
    } else if (!all && !is_word(&req->args[3], "write")) {
        reply_err(out, "ERR CLIENT PAUSE mode must be WRITE or ALL");
    } else if (!parse_int(&req->args[2], &ms)) {
        reply_err(out, "ERR timeout is not an integer or out of range");
    } else if (ms < 0) {
        reply_err(out, "ERR timeout is negative");
    } else if (__builtin_add_overflow(now_ms, ms, &ms)) {
        reply_err(out, "ERR timeout is out of range");
    } else {
        pause_begin(all, ms);
        reply_status(out, "OK");
    }
}

// client unpause
void do_client_unpause(struct request *req, struct reply *out) {
    (void)req;
    pause_end();
    reply_status(out, "OK");
}
