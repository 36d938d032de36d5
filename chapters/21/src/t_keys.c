// t_keys.c: commands for keys of any type
//
// Has no state.

#include "buf.h"
#include "glob.h"
#include "hashtable.h"
#include "intrusive.h"
#include "reply.h"

#include "server.h"

void do_del(struct request *req, struct reply *out) {
    int64_t n = 0;
    for (int i = 1; i < req->nargs; i++) {
        n += entry_remove(hashed_key(req, i));
    }
    reply_int(out, n);
}

void do_exists(struct request *req, struct reply *out) {
    int64_t n = 0;
    for (int i = 1; i < req->nargs; i++) {
        n += read_key(req, i) != NULL;
    }
    reply_int(out, n);
}

void do_type(struct request *req, struct reply *out) {
    const struct entry *ent = read_key(req, 1);
    reply_status(out, !ent ? "none" : ent->type == T_STR ? "string" : "zset");
}

// What a scan for `keys` carries along.
struct keys_scan {
    const struct slice *pattern;
    struct reply *out;
    size_t n;
    size_t max_size; // bytes of `out` at which the reply is too big
    size_t budget;   // bytes that may still be compared
};

static bool do_keys_one(struct hnode *node, void *arg) {
    struct keys_scan *scan = arg;
    const struct entry *ent = container_of(node, struct entry, node);
    const struct slice *pattern = scan->pattern;
    if (!entry_expired(ent) &&
        glob_match(pattern->data, pattern->len, ent->data, node->key_len, &scan->budget)) {
        reply_str(scan->out, ent->data, node->key_len);
        scan->n++;
    }
    return scan->budget > 0 && buf_size(scan->out->buf) <= scan->max_size;
}

// keys pattern
//
// We know the size of the reply to `keys *` beforehand, and do not begin one that is too big to be
// sent.
void do_keys(struct request *req, struct reply *out) {
    const struct slice *pattern = &req->args[1];
    if (!may_take(hm_scan_cost(db_keys()) + db_keys_size())) {
        return;
    }
    bool all = pattern->len == 1 && pattern->data[0] == '*';
    if (all && db_keys_size() > k_max_msg && db_keys_size() - expired_listed_size() > k_max_msg) {
        out_too_big(out);
        return;
    }
    struct keys_scan scan = {
        .pattern = pattern,
        .out = out,
        .max_size = buf_size(out->buf) + k_max_msg,
        .budget = compare_budget(db_keys_size()),
    };
    size_t budget = scan.budget, max = hm_size(db_keys()), start = reply_arr_begin(out, max);
    hm_scan(db_keys(), do_keys_one, &scan);
    reply_arr_end(out, start, max, scan.n);
    turn_add(budget - scan.budget);
    if (scan.budget == 0) {
        buf_truncate(out->buf, start);
        out_long_pattern(out);
    }
}

void do_dbsize(struct request *req, struct reply *out) {
    (void)req;
    reply_int(out, (int64_t)hm_size(db_keys()));
}

// flushall [async | sync]
void do_flushall(struct request *req, struct reply *out) {
    if (req->nargs > 2 ||
        (req->nargs == 2 && !is_word(&req->args[1], "async") && !is_word(&req->args[1], "sync"))) {
        out_bad_syntax(out);
        return;
    }
    db_flush();
    reply_status(out, "OK");
}
