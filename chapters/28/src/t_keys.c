// t_keys.c: commands for keys of any type
//
// Has no state.

#include "buf.h"
#include "glob.h"
#include "hashtable.h"
#include "hashtable_cursor.h"
#include "intrusive.h"
#include "reply.h"

#include "server.h"

enum {
    k_max_tries = 10000, // of `randomkey`
};

void do_del(struct request *req, struct reply *out) {
    int64_t n = 0;
    for (int i = 1; i < req->nargs; i++) {
        struct entry *ent = entry_of(write_key(req, i));
        if (ent) {
            entry_delete(req->conn->db, ent, EVENT_DEL);
            n++;
        }
    }
    reply_int(out, n);
}

void do_exists(struct request *req, struct reply *out) {
    int64_t n = 0;
    for (int i = 1; i < req->nargs; i++) {
        n += peek_key(req, i) != NULL;
    }
    reply_int(out, n);
}

// touch key...: as `exists`, but the keys count as used.
void do_touch(struct request *req, struct reply *out) {
    int64_t n = 0;
    for (int i = 1; i < req->nargs; i++) {
        n += read_key(req, i) != NULL;
    }
    reply_int(out, n);
}

void do_type(struct request *req, struct reply *out) {
    const struct entry *ent = peek_key(req, 1);
    reply_status(out, ent ? entry_type_name(ent) : "none");
}

// What a scan for `keys` carries along.
struct keys_scan {
    struct db *db;
    const struct slice *pattern;
    struct reply *out;
    size_t n;
    size_t max_size; // bytes of `out` at which the reply is too big
    size_t budget;   // bytes that may still be compared
};

static bool do_keys_one(struct hnode *node, void *arg) {
    struct keys_scan *scan = arg;
    struct entry *ent = container_of(node, struct entry, node);
    const struct slice *pattern = scan->pattern;
    if (!entry_expired(scan->db, ent) &&
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
    struct db *db = req->conn->db;
    const struct slice *pattern = &req->args[1];
    if (!may_take(hm_scan_cost(&db->keys) + db->keys_size)) {
        return;
    }
    bool all = pattern->len == 1 && pattern->data[0] == '*';
    if (all && db->keys_size > k_max_msg && db->keys_size - expired_listed_size(db) > k_max_msg) {
        out_too_big(out);
        return;
    }
    struct keys_scan scan = {
        .db = db,
        .pattern = pattern,
        .out = out,
        .max_size = buf_size(out->buf) + k_max_msg,
        .budget = compare_budget(db->keys_size),
    };
    size_t budget = scan.budget, max = hm_size(&db->keys), start = reply_arr_begin(out, max);
    hm_scan(&db->keys, do_keys_one, &scan);
    reply_arr_end(out, start, max, scan.n);
    turn_add(budget - scan.budget);
    if (scan.budget == 0) {
        buf_truncate(out->buf, start);
        out_long_pattern(out);
    }
}

// Returns a cursor at a random place: in front of all buckets of the larger table, if there are two, that
// belong together there.
static uint64_t random_cursor(const struct hmap *hmap) {
    size_t newer = hmap->newer.mask, older = hmap->older.mask;
    return random_bits() & (hmap->older.tab && older < newer ? older : newer);
}

// A node among those that were seen, each as likely as the others.
struct pick {
    struct hnode *node;
    size_t seen;
};

static void pick_one(struct hnode *node, void *arg) {
    struct pick *pick = arg;
    if (random_bits() % ++pick->seen == 0) {
        pick->node = node;
    }
}

// Replies a key from a bucket that is chosen at random among those that are not empty; tables shrink,
// so that it takes few tries. Deletes those that have expired, and gives up after very many.
void do_randomkey(struct request *req, struct reply *out) {
    struct db *db = req->conn->db;
    for (int tries = 0; hm_size(&db->keys) > 0 && tries < k_max_tries; tries++) {
        struct pick pick = {0};
        // Never the next bucket: a key behind a gap would come too often.
        for (; !pick.node; turn_add(1)) {
            hm_scan_step(&db->keys, random_cursor(&db->keys), pick_one, &pick);
            hm_help_resizing(&db->keys);
            hm_shrink(&db->keys);
        }
        struct entry *ent = container_of(pick.node, struct entry, node);
        if (!entry_expired(db, ent)) {
            reply_str(out, ent->data, ent->node.key_len);
            return;
        }
        entry_delete(db, ent, EVENT_EXPIRED);
    }
    reply_nil(out);
}

void do_dbsize(struct request *req, struct reply *out) {
    reply_int(out, (int64_t)hm_size(&req->conn->db->keys));
}

// Deletes all keys of some databases, if the words behind the command are right: async or sync.
static void flush(struct request *req, struct db *dbs, size_t n, struct reply *out) {
    if (req->nargs > 2 ||
        (req->nargs == 2 && !is_word(&req->args[1], "async") && !is_word(&req->args[1], "sync"))) {
        out_bad_syntax(out);
        return;
    }
    if (!may_take(n * watches_cost())) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        db_flush(&dbs[i]);
    }
    reply_status(out, "OK");
}

// flushdb [async | sync]
void do_flushdb(struct request *req, struct reply *out) {
    flush(req, req->conn->db, 1, out);
}

// flushall [async | sync]
void do_flushall(struct request *req, struct reply *out) {
    flush(req, db_at(0), k_databases, out);
}
