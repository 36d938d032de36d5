// t_scan.c: `scan` and `zscan`, walks that take many requests
//
// Has no state: where a walk is, its client knows.

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "glob.h"
#include "hashtable.h"
#include "hashtable_cursor.h"
#include "intrusive.h"
#include "reply.h"
#include "zset.h"
#include "zset_rank.h"

#include "server.h"

enum {
    k_scan_head = 64, // bytes of a reply to `scan` that are in front of the keys, at most
};

// What `scan` or `zscan` asks for, and what a step carries along.
struct scan_step {
    struct db *db;
    const struct slice *pattern, *type; // NULL for any
    struct reply *out;
    size_t seen, n;
    size_t count;  // of those to be seen
    size_t budget; // bytes that may still be compared
    struct entry *stale[k_max_sample];
    size_t num_stale;
};

static void scan_one(struct hnode *node, void *arg) {
    struct scan_step *step = arg;
    struct entry *ent = container_of(node, struct entry, node);
    const struct slice *pattern = step->pattern;
    step->seen++;
    if (entry_expired(step->db, ent)) {
        if (step->num_stale < k_max_sample) {
            step->stale[step->num_stale++] = ent;
        }
    } else if ((!step->type || is_word(step->type, entry_type_name(ent))) &&
               (!pattern ||
                glob_match(pattern->data, pattern->len, ent->data, node->key_len, &step->budget))) {
        reply_str(step->out, ent->data, node->key_len);
        step->n++;
    }
}

// Takes a walk a step further, and deletes the keys that have expired there. Where the reply has no room
// for all of the step, it takes them back, leaves the cursor as it was, and returns false.
static bool do_scan_step(struct scan_step *step, const struct hmap *hmap,
                         void (*f)(struct hnode *, void *), uint64_t *cursor) {
    size_t size = buf_size(step->out->buf), n = step->n;
    step->num_stale = 0;
    uint64_t next = hm_scan_step(hmap, *cursor, f, step);
    for (size_t i = 0; i < step->num_stale; i++) {
        entry_delete(step->db, step->stale[i], EVENT_EXPIRED);
    }
    if (size > 0 && buf_size(step->out->buf) > k_max_msg - k_scan_head) {
        buf_truncate(step->out->buf, size);
        step->n = n;
        return false;
    }
    *cursor = next;
    return true;
}

// Reads the words behind the cursor, from args[first] on: of `scan`, or of `zscan`, whose pairs are of no
// type. If one is wrong, replies with an error and returns false.
static bool parse_scan_options(const struct request *req, int first, struct scan_step *step,
                               struct reply *out) {
    int64_t count = 10;
    for (int i = first; i < req->nargs; i += 2) {
        const struct slice *word = &req->args[i], *arg = word + 1;
        bool has_arg = i + 1 < req->nargs;
        if (has_arg && is_word(word, "count")) {
            if (!parse_int(arg, &count)) {
                out_bad_int(out);
                return false;
            }
            if (count < 1) {
                out_bad_syntax(out);
                return false;
            }
        } else if (has_arg && is_word(word, "match")) {
            step->pattern = arg;
        } else if (has_arg && step->db && is_word(word, "type")) {
            step->type = arg;
        } else {
            out_bad_syntax(out);
            return false;
        }
    }
    step->count = (size_t)(count < k_max_msg ? count : k_max_msg);
    return true;
}

// Returns whether `arg` is what strtoull() takes for a number, which is *cursor then.
static bool parse_cursor(const struct slice *arg, uint64_t *cursor) {
    char text[32];
    if (arg->len >= sizeof(text) || (arg->len > 0 && isspace(arg->data[0]))) {
        return false;
    }
    memcpy(text, arg->data, arg->len);
    text[arg->len] = '\0';
    char *end;
    errno = 0;
    *cursor = strtoull(text, &end, 10);
    return end == text + arg->len && errno == 0;
}

// Looks at as many nodes of the table as a step asks for, at ten times as many buckets at most. A reply that
// grows large ends early. Returns false if it needs a turn of its own.
static bool walk(struct scan_step *step, const struct hmap *hmap, void (*f)(struct hnode *, void *),
                 uint64_t *cursor) {
    size_t buckets_left = 10 * step->count, all = hm_scan_cost(hmap);
    if (!may_take(buckets_left < all ? buckets_left : all)) {
        return false;
    }
    while (do_scan_step(step, hmap, f, cursor) && *cursor != 0 && step->seen < step->count &&
           --buckets_left > 0 && step->budget > 0 && buf_size(step->out->buf) < k_max_msg / 2) {
    }
    return true;
}

// Replies what a step has found, unless its pattern takes too long, and the cursor with which the next one
// goes on. `budget` is what the step had.
static void out_step(const struct scan_step *step, size_t budget, uint64_t cursor,
                     struct reply *out) {
    const struct buf *found = step->out->buf;
    turn_add(budget - step->budget);
    if (step->budget == 0) {
        out_long_pattern(out);
        return;
    }
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)cursor);
    reply_arr(out, 2);
    reply_cstr(out, text);
    reply_arr(out, step->n);
    if (step->n > 0) {
        memcpy(buf_reserve(out->buf, buf_size(found)), buf_data(found), buf_size(found));
        buf_commit(out->buf, buf_size(found));
    }
}

// scan cursor [match pattern] [count n] [type name]
void do_scan(struct request *req, struct reply *out) {
    struct buf found = {0};
    struct db *db = req->conn->db;
    size_t budget = compare_budget(db->keys_size);
    struct reply names = {.buf = &found};
    struct scan_step step = {.db = db, .out = &names, .budget = budget};
    uint64_t cursor;
    if (!parse_cursor(&req->args[1], &cursor)) {
        reply_err(out, "ERR invalid cursor");
        return;
    }
    if (parse_scan_options(req, 2, &step, out) && walk(&step, &db->keys, scan_one, &cursor)) {
        out_step(&step, budget, cursor, out);
    }
    buf_dispose(&found);
}

// Replies a pair, if its name matches: as two strings, in any version of the protocol.
static void zscan_one(struct hnode *node, void *arg) {
    struct scan_step *step = arg;
    const struct znode *znode = container_of(node, struct znode, node);
    const struct slice *pattern = step->pattern;
    step->seen++;
    if (!pattern ||
        glob_match(pattern->data, pattern->len, znode->name, node->key_len, &step->budget)) {
        char text[32];
        reply_str(step->out, znode->name, node->key_len);
        reply_str(step->out, (const uint8_t *)text, double_text(znode->score, text));
        step->n += 2;
    }
}

// Replies all pairs of a small set in one step, in their order, whatever the cursor is: as Redis does.
static void walk_small(struct scan_step *step, const struct zset *zset, uint64_t *cursor) {
    for (struct znode *znode = zset_at(zset, 0); znode; znode = znode_next(znode)) {
        zscan_one(&znode->node, step);
    }
    *cursor = 0;
}

// zscan key cursor [match pattern] [count n]
void do_zscan(struct request *req, struct reply *out) {
    struct buf found = {0};
    struct reply pairs = {.buf = &found};
    struct scan_step step = {.out = &pairs};
    struct zset *zset;
    uint64_t cursor;
    if (!parse_cursor(&req->args[2], &cursor)) {
        reply_err(out, "ERR invalid cursor");
        return;
    }
    if (!read_zset(req, &zset, out)) {
        return;
    }
    size_t budget = step.budget = compare_budget(zset ? zset_size(zset) : 0);
    if (!zset) {
        out_step(&step, budget, 0, out);
    } else if (parse_scan_options(req, 3, &step, out)) {
        bool small = is_small_set(zset);
        if (small) {
            walk_small(&step, zset, &cursor);
        }
        if (small || walk(&step, &zset->names, zscan_one, &cursor)) {
            out_step(&step, budget, cursor, out);
        }
    }
    buf_dispose(&found);
}
