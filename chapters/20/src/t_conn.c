// t_conn.c: commands for the connection itself, and for what clients ask before any other
//
// Has no state.

#include "reply.h"

#include "server.h"

// ping [message]
void do_ping(struct request *req, struct reply *out) {
    if (req->nargs > 2) {
        out_bad_arity("ping", out);
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

// select index: there is one database.
void do_select(struct request *req, struct reply *out) {
    int64_t index;
    if (!parse_int(&req->args[1], &index)) {
        out_bad_int(out);
    } else if (index != 0) {
        reply_err(out, "ERR DB index is out of range");
    } else {
        reply_status(out, "OK");
    }
}

// hello [version]
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
    if (req->nargs > 2) {
        const struct slice *word = &req->args[2];
        reply_errf(out, "ERR Syntax error in HELLO option '%.*s'", (int)word->len, word->data);
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

// command ...: what each command is like. Clients do without an answer, but not without a reply.
void do_command(struct request *req, struct reply *out) {
    (void)req;
    reply_arr(out, 0);
}
