// t_keys.c: commands for keys of any type
//
// Has no state.

#include "hashtable.h"
#include "intrusive.h"
#include "reply.h"

#include "server.h"

void do_del(struct request *req, struct reply *out) {
    reply_int(out, entry_remove(hashed_key(req, 1)));
}

// What a scan for `keys` carries along.
struct keys_scan {
    struct reply *out;
    size_t n;
};

static bool do_keys_one(struct hnode *node, void *arg) {
    struct keys_scan *scan = arg;
    const struct entry *ent = container_of(node, struct entry, node);
    if (!entry_expired(ent)) {
        reply_str(scan->out, ent->data, node->key_len);
        scan->n++;
    }
    return true;
}

// keys *
//
// We know the size of the reply beforehand, and do not begin one that is too big to be sent.
void do_keys(struct request *req, struct reply *out) {
    const struct slice *pattern = &req->args[1];
    if (pattern->len != 1 || pattern->data[0] != '*') {
        reply_err(out, "ERR the only pattern that is known here is *");
        return;
    }
    if (!may_take(hm_scan_cost(db_keys()) + db_keys_size())) {
        return;
    }
    if (db_keys_size() > k_max_msg && db_keys_size() - expired_listed_size() > k_max_msg) {
        out_too_big(out);
        return;
    }
    struct keys_scan scan = {.out = out};
    size_t max = hm_size(db_keys()), start = reply_arr_begin(out, max);
    hm_scan(db_keys(), do_keys_one, &scan);
    reply_arr_end(out, start, max, scan.n);
}
