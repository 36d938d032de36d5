// t_zset.c: commands for sorted sets, pair by pair
//
// Has no state.

#include <math.h>

#include "buf.h"
#include "hashtable_cursor.h"
#include "reply.h"
#include "zset.h"
#include "zset_rank.h"

#include "server.h"

// Sets *zset to the sorted set of the entry, NULL if there is no entry. If the entry holds another
// type, replies with an error and returns false.
static bool find_zset(const struct entry *ent, struct zset **zset, struct reply *out) {
    if (ent && ent->type != T_ZSET) {
        out_bad_type(out);
        return false;
    }
    *zset = ent ? entry_zset(ent) : NULL;
    return true;
}

// Finds the sorted set of a key that is to be read.
bool read_zset(struct request *req, struct zset **zset, struct reply *out) {
    return find_zset(read_key(req, 1), zset, out);
}

// Finds the sorted set of a key that is to be changed.
bool write_zset(struct request *req, struct zset **zset, struct reply *out) {
    return find_zset(entry_of(write_key(req, 1)), zset, out);
}

// What the words between key and score ask for.
struct zadd_options {
    bool nx, xx, gt, lt, ch, incr;
};

// Returns where an option of `zadd` is noted, NULL where the word is none.
static bool *zadd_flag(struct zadd_options *options, const struct slice *word) {
    return is_word(word, "nx")     ? &options->nx
           : is_word(word, "xx")   ? &options->xx
           : is_word(word, "gt")   ? &options->gt
           : is_word(word, "lt")   ? &options->lt
           : is_word(word, "ch")   ? &options->ch
           : is_word(word, "incr") ? &options->incr
                                   : NULL;
}

// Reads the options of `zadd`, and sets *first to where the first pair begins. If there are no pairs,
// or two options exclude each other, replies with an error and returns false.
static bool parse_zadd_options(const struct request *req, struct zadd_options *options, int *first,
                               struct reply *out) {
    int i = 2;
    for (bool *flag; i < req->nargs && (flag = zadd_flag(options, &req->args[i])); i++) {
        *flag = true;
    }
    *first = i;
    if (i == req->nargs || (req->nargs - i) % 2 != 0) {
        out_bad_syntax(out);
        return false;
    }
    if (options->nx && options->xx) {
        reply_err(out, "ERR XX and NX options at the same time are not compatible");
        return false;
    }
    if (options->gt + options->lt + options->nx > 1) {
        reply_err(out, "ERR GT, LT, and/or NX options at the same time are not compatible");
        return false;
    }
    if (options->incr && req->nargs - i > 2) {
        reply_err(out, "ERR INCR option supports a single increment-element pair");
        return false;
    }
    return true;
}

// How zadd_pair() went.
enum zadd_result {
    ZADD_NONE, // the options do not want it
    ZADD_NEW,
    ZADD_SAME,
    ZADD_CHANGED,
    ZADD_NAN, // a sum that is no number
};

// Adds a pair, or gives its name another score, as far as the options want it. *score becomes the
// score that the name has then.
static enum zadd_result zadd_pair(struct zset *zset, const struct zadd_options *options,
                                  const struct slice *name, double *score) {
    struct zname key = zset_key(zset, name->data, name->len);
    struct znode *znode = zset_lookup_key(zset, &key);
    if (!znode) {
        if (options->xx) {
            return ZADD_NONE;
        }
        zset_add(zset, name->data, name->len, *score);
        return ZADD_NEW;
    }
    double old = znode->score;
    if (options->nx) {
        return ZADD_NONE;
    }
    if (options->incr) {
        *score += old;
        if (isnan(*score)) {
            return ZADD_NAN;
        }
    }
    if ((options->gt && *score <= old) || (options->lt && *score >= old)) {
        return ZADD_NONE;
    }
    zset_update(zset, znode, *score);
    return *score == old ? ZADD_SAME : ZADD_CHANGED;
}

// Adds the pairs from args[first] on, all of whose scores are numbers, and replies.
static void zadd_pairs(struct request *req, int first, const struct zadd_options *options,
                       struct reply *out) {
    struct zset *zset;
    if (!write_zset(req, &zset, out)) {
        return;
    }
    if (!zset && !options->xx) {
        zset = entry_add_zset(req->conn->db, hashed_key(req, 1));
    }
    int64_t added = 0, changed = 0;
    double score = 0;
    enum zadd_result result = ZADD_NONE;
    for (int i = first; zset && i < req->nargs; i += 2) {
        parse_double(&req->args[i], &score);
        result = zadd_pair(zset, options, &req->args[i + 1], &score);
        added += result == ZADD_NEW;
        changed += result == ZADD_CHANGED;
    }
    if (added + changed > 0) {
        db_changed(req->conn->db, &req->args[1], options->incr ? EVENT_ZINCR : EVENT_ZADD);
    }
    if (result == ZADD_NAN) {
        reply_err(out, "ERR resulting score is not a number (NaN)");
    } else if (options->incr && result == ZADD_NONE) {
        reply_nil(out);
    } else if (options->incr) {
        reply_dbl(out, score);
    } else {
        reply_int(out, options->ch ? added + changed : added);
    }
}

// zadd key [nx | xx] [gt | lt] [ch] [incr] score name [score name]...
void do_zadd(struct request *req, struct reply *out) {
    struct zadd_options options = {0};
    int first;
    if (!parse_zadd_options(req, &options, &first, out)) {
        return;
    }
    double score;
    for (int i = first; i < req->nargs; i += 2) {
        if (!parse_double(&req->args[i], &score)) {
            out_bad_double(out);
            return;
        }
    }
    zadd_pairs(req, first, &options, out);
}

// zincrby key increment name
void do_zincrby(struct request *req, struct reply *out) {
    struct zadd_options options = {.incr = true};
    double increment;
    if (zadd_flag(&options, &req->args[2])) { // to Redis this is `zadd`, with a score too few
        out_bad_syntax(out);
        return;
    }
    if (!parse_double(&req->args[2], &increment)) {
        out_bad_double(out);
        return;
    }
    zadd_pairs(req, 2, &options, out);
}

// zrem key name...
void do_zrem(struct request *req, struct reply *out) {
    struct zset *zset;
    if (!write_zset(req, &zset, out)) {
        return;
    }
    int64_t n = 0;
    for (int i = 2; zset && i < req->nargs; i++) {
        struct znode *znode = zset_lookup(zset, req->args[i].data, req->args[i].len);
        if (znode) {
            zset_del(zset, znode);
            hm_shrink(&zset->names);
            n++;
        }
    }
    if (n > 0) {
        db_changed(req->conn->db, &req->args[1], EVENT_ZREM);
    }
    if (zset && zset_size(zset) == 0) {
        entry_delete(req->conn->db, entry_of(write_key(req, 1)), EVENT_DEL);
    }
    reply_int(out, n);
}

// Sets *znode to the pair with args[2] for a name, NULL if there is none. If the key holds another
// type, replies with an error and returns false.
static bool find_pair(struct request *req, struct zset **zset, struct znode **znode,
                      struct reply *out) {
    const struct slice *name = &req->args[2];
    if (!read_zset(req, zset, out)) {
        return false;
    }
    *znode = *zset ? zset_lookup(*zset, name->data, name->len) : NULL;
    return true;
}

void do_zscore(struct request *req, struct reply *out) {
    struct zset *zset;
    struct znode *znode;
    if (!find_pair(req, &zset, &znode, out)) {
        return;
    }
    if (znode) {
        reply_dbl(out, znode->score);
    } else {
        reply_nil(out);
    }
}

// zmscore key name...
void do_zmscore(struct request *req, struct reply *out) {
    struct zset *zset;
    if (!read_zset(req, &zset, out)) {
        return;
    }
    size_t max_size = buf_size(out->buf) + k_max_msg;
    reply_arr(out, (size_t)req->nargs - 2);
    for (int i = 2; i < req->nargs && buf_size(out->buf) <= max_size; i++) {
        const struct slice *name = &req->args[i];
        struct znode *znode = zset ? zset_lookup(zset, name->data, name->len) : NULL;
        if (znode) {
            reply_dbl(out, znode->score);
        } else {
            reply_nil(out);
        }
    }
}

void do_zrank(struct request *req, struct reply *out) {
    struct zset *zset;
    struct znode *znode;
    if (!find_pair(req, &zset, &znode, out)) {
        return;
    }
    if (znode) {
        reply_int(out, (int64_t)zset_rank(znode));
    } else {
        reply_nil(out);
    }
}

void do_zrevrank(struct request *req, struct reply *out) {
    struct zset *zset;
    struct znode *znode;
    if (!find_pair(req, &zset, &znode, out)) {
        return;
    }
    if (znode) {
        reply_int(out, (int64_t)(zset_size(zset) - 1 - zset_rank(znode)));
    } else {
        reply_nil(out);
    }
}

void do_zcard(struct request *req, struct reply *out) {
    struct zset *zset;
    if (read_zset(req, &zset, out)) {
        reply_int(out, zset ? (int64_t)zset_size(zset) : 0);
    }
}
