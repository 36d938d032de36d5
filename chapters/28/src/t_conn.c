// t_conn.c: commands for the connection itself
//
// Has no state.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "buf.h"
#include "clock.h"
#include "intrusive.h"
#include "mem.h"
#include "reply.h"

#include "server.h"

enum {
    k_client_cost = 350, // what a line of `client list` counts for
    k_max_name = 1024,   // bytes of a connection's name
};

// ping [message]
void do_ping(struct request *req, struct reply *out) {
    if (req->nargs > 2) {
        out_bad_arity("ping", out);
    } else if (!out->resp3 && is_subscriber(req->conn)) {
        struct slice nothing = {(const uint8_t *)"", 0};
        const struct slice *word = req->nargs == 2 ? &req->args[1] : &nothing;
        reply_arr(out, 2); // as messages are arrays
        reply_cstr(out, "pong");
        reply_str(out, word->data, word->len);
    } else if (req->nargs == 2) {
        reply_str(out, req->args[1].data, req->args[1].len);
    } else {
        reply_status(out, "PONG");
    }
}

void do_echo(struct request *req, struct reply *out) {
    reply_str(out, req->args[1].data, req->args[1].len);
}

void do_quit(struct request *req, struct reply *out) {
    req->conn->bad = true;
    reply_status(out, "OK");
}

// select index
void do_select(struct request *req, struct reply *out) {
    int64_t index;
    struct db *db;
    if (parse_index(&req->args[1], NULL, &index, out) && (db = find_db(index, out))) {
        req->conn->db = db;
        reply_status(out, "OK");
    }
}

// Gives the connection a name, or none if it is empty. If it is not allowed, replies with an error
// and returns false.
static bool set_name(struct conn *conn, const struct slice *name, struct reply *out) {
    if (name->len > k_max_name) {
        reply_err(out, "ERR Client names cannot be longer than 1024 bytes.");
        return false;
    }
    for (size_t i = 0; i < name->len; i++) {
        if (name->data[i] < '!' || name->data[i] > '~') {
            reply_err(out,
                      "ERR Client names cannot contain spaces, newlines or special characters.");
            return false;
        }
    }
    free(conn->name);
    conn->name = NULL;
    if (name->len > 0) {
        conn->name = mem_alloc(name->len + 1);
        memcpy(conn->name, name->data, name->len);
        conn->name[name->len] = '\0';
    }
    return true;
}

// Tells whether this is the default user, the only one that there is. There are no passwords: any is
// right. If it is another one, replies with an error.
static bool is_user(const struct slice *name, struct reply *out) {
    if (name->len == 7 && memcmp(name->data, "default", 7) == 0) {
        return true;
    }
    reply_err(out, "WRONGPASS invalid username-password pair or user is disabled.");
    return false;
}

// auth [user] password
void do_auth(struct request *req, struct reply *out) {
    if (req->nargs > 3) {
        out_bad_syntax(out);
    } else if (req->nargs == 2) {
        reply_err(out,
                  "ERR AUTH <password> called without any password configured for the default user."
                  " Are you sure your configuration is correct?");
    } else if (is_user(&req->args[1], out)) {
        reply_status(out, "OK");
    }
}

// Makes the connection what it was when it was new.
void do_reset(struct request *req, struct reply *out) {
    struct conn *conn = req->conn;
    conn->db = db_at(0);
    conn->resp3 = false;
    transaction_end(conn);
    unsubscribe_all(conn);
    free(conn->name);
    conn->name = NULL;
    reply_status(out, "RESET");
}

// Reads the words of `hello` from args[i] on. If one is wrong, replies with an error and returns
// false.
static bool hello_words(struct request *req, int i, struct reply *out) {
    for (; i < req->nargs; i++) {
        const struct slice *arg = &req->args[i];
        if (is_word(arg, "auth") && i + 2 < req->nargs) {
            if (!is_user(&req->args[i + 1], out)) {
                return false;
            }
            i += 2;
        } else if (is_word(arg, "setname") && i + 1 < req->nargs) {
            if (!set_name(req->conn, &req->args[++i], out)) {
                return false;
            }
        } else {
            reply_errf(out, "ERR Syntax error in HELLO option '%.*s'", (int)arg->len, arg->data);
            return false;
        }
    }
    return true;
}

// hello [version [auth user password] [setname name]]
void do_hello(struct request *req, struct reply *out) {
    int64_t version = req->conn->resp3 ? 3 : 2;
    if (req->nargs > 1 && !parse_int(&req->args[1], &version)) {
        reply_err(out, "ERR Protocol version is not an integer or out of range");
        return;
    }
    if (version < 2 || version > 3) {
        reply_err(out, "NOPROTO unsupported protocol version");
        return;
    }
    if (!hello_words(req, 2, out)) {
        return;
    }
    req->conn->resp3 = out->resp3 = version == 3;
    reply_map(out, 7);
    reply_cstr(out, "server");
    reply_cstr(out, "redis");
    reply_cstr(out, "version");
    reply_cstr(out, k_version);
    reply_cstr(out, "proto");
    reply_int(out, version);
    reply_cstr(out, "id");
    reply_int(out, req->conn->id);
    reply_cstr(out, "mode");
    reply_cstr(out, "standalone");
    reply_cstr(out, "role");
    reply_cstr(out, "master");
    reply_cstr(out, "modules");
    reply_arr(out, 0);
}

void do_client_id(struct request *req, struct reply *out) {
    reply_int(out, req->conn->id);
}

void do_client_getname(struct request *req, struct reply *out) {
    if (req->conn->name) {
        reply_cstr(out, req->conn->name);
    } else {
        reply_nil(out);
    }
}

void do_client_setname(struct request *req, struct reply *out) {
    if (set_name(req->conn, &req->args[2], out)) {
        reply_status(out, "OK");
    }
}

// client setinfo lib-name | lib-ver text: what a library says of itself. Nobody asks for it here.
void do_client_setinfo(struct request *req, struct reply *out) {
    const struct slice *arg = &req->args[2];
    if (is_word(arg, "lib-name") || is_word(arg, "lib-ver")) {
        reply_status(out, "OK");
    } else {
        reply_errf(out, "ERR Unrecognized option '%.*s'", (int)arg->len, arg->data);
    }
}

// Writes the address of one end of a connection, its client's or ours, to `text`. Returns the length.
size_t conn_address(const struct conn *conn, bool peer, char text[k_max_address]) {
    struct sockaddr_in addr = {0};
    socklen_t len = sizeof(addr);
    (peer ? getpeername : getsockname)(conn->fd, (struct sockaddr *)&addr, &len);
    const char *ip = inet_ntoa(addr.sin_addr);
    return (size_t)snprintf(text, k_max_address, "%s:%u", ip, (unsigned)ntohs(addr.sin_port));
}

// Tells whether there is nothing to be said of the connection: then Redis says N.
static bool is_plain(const struct conn *conn) {
    bool touched = conn->transaction && conn->transaction->touched;
    return !is_subscriber(conn) && !in_transaction(conn) && !conn->paused && !touched &&
           !conn->no_evict;
}

// Appends the line that says who a connection is, in all fields of Redis. 0 or -1 stands for what is not
// here. Arguments stay in rbuf: argv-mem is 0. What waits to be sent is
// the list of Redis, oll and omem.
static void add_client(struct buf *text, const struct conn *conn) {
    bool touched = conn->transaction && conn->transaction->touched;
    int64_t now_ms = get_monotonic_msec();
    char addr[k_max_address], laddr[k_max_address];
    conn_address(conn, true, addr);
    conn_address(conn, false, laddr);
    add_text(text, "id=%lld addr=%s laddr=%s", (long long)conn->id, addr, laddr);
    add_text(text, " fd=%d name=", conn->fd);
    if (conn->name) {
        memcpy(buf_reserve(text, strlen(conn->name)), conn->name, strlen(conn->name));
        buf_commit(text, strlen(conn->name));
    }
    add_text(text,
             " age=%lld idle=%lld flags=%s%s%s%s%s%s db=%d",
             (long long)(now_ms - conn->start_ms) / 1000,
             (long long)(now_ms - conn->moved_ms) / 1000,
             is_subscriber(conn) ? "P" : "",
             in_transaction(conn) ? "x" : "",
             conn->paused ? "b" : "",
             touched ? "d" : "",
             conn->no_evict ? "e" : "",
             is_plain(conn) ? "N" : "",
             db_index(conn->db));
    size_t name_size = conn->name ? strlen(conn->name) + 1 : 0;
    size_t unsent = buf_size(&conn->wbuf) + inbox_size(conn);
    add_text(text,
             " sub=%zu psub=%zu ssub=0 multi=%d qbuf=%zu qbuf-free=%zu argv-mem=0 multi-mem=%zu"
             " rbs=0 rbp=0 obl=0 oll=%d omem=%zu tot-mem=%zu",
             num_subscriptions(conn, CHANNEL),
             num_subscriptions(conn, PATTERN),
             in_transaction(conn) ? (int)conn->transaction->n : -1,
             buf_size(&conn->rbuf),
             conn->rbuf.cap - buf_size(&conn->rbuf),
             conn->transaction ? conn->transaction->queue.cap : 0,
             unsent > 0,
             unsent,
             sizeof(*conn) + name_size + conn->rbuf.cap + conn->wbuf.cap);
    add_text(text,
             " events=r cmd=%s user=default redir=-1 resp=%d\n",
             conn->last ? conn->last->name : "NULL",
             conn->resp3 ? 3 : 2);
}

void do_client_info(struct request *req, struct reply *out) {
    struct buf text = {0};
    add_client(&text, req->conn);
    reply_text(out, (const char *)buf_data(&text), buf_size(&text));
    buf_dispose(&text);
}

void do_client_list(struct request *req, struct reply *out) {
    (void)req;
    if (!may_take(conns_count() * k_client_cost)) {
        return;
    }
    struct buf text = {0};
    const struct dlist *list = all_conns();
    for (struct dlist *node = list->next; node != list; node = node->next) {
        const struct conn *conn = container_of(node, struct conn, idle_node);
        if (conn->state != STATE_END) {
            add_client(&text, conn);
        }
    }
    reply_text(out, (const char *)buf_data(&text), buf_size(&text));
    buf_dispose(&text);
}
