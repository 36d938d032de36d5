// t_zset.c: commands for sorted sets
//
// Has no state.

#include "reply.h"
#include "zset.h"
#include "zset_rank.h"

#include "server.h"

enum {
    k_pair_cost = 16, // what a pair that a request passes counts for: see turn.c
    // A pair takes 6 bytes of a reply at least, where its name is empty.
    k_max_pairs = k_max_msg / 6,
};

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
static bool read_zset(struct request *req, struct zset **zset, struct reply *out) {
    return find_zset(read_key(req, 1), zset, out);
}

// Finds the sorted set of a key that is to be changed.
static bool write_zset(struct request *req, struct zset **zset, struct reply *out) {
    return find_zset(entry_of(write_key(req, 1)), zset, out);
}

void do_zadd(struct request *req, struct reply *out) {
    double score;
    if (!parse_double(&req->args[2], &score)) {
        out_bad_double(out);
        return;
    }
    struct zset *zset;
    if (!write_zset(req, &zset, out)) {
        return;
    }
    if (!zset) {
        zset = entry_add_zset(hashed_key(req, 1));
    }
    reply_int(out, zset_add(zset, req->args[3].data, req->args[3].len, score));
}

void do_zrem(struct request *req, struct reply *out) {
    struct zset *zset;
    if (!write_zset(req, &zset, out)) {
        return;
    }
    struct znode *znode = zset ? zset_lookup(zset, req->args[2].data, req->args[2].len) : NULL;
    reply_int(out, znode != NULL);
    if (znode) {
        zset_del(zset, znode);
        if (zset_size(zset) == 0) {
            entry_remove(hashed_key(req, 1));
        }
    }
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

// zquery key score name offset limit
void do_zquery(struct request *req, struct reply *out) {
    const struct slice *args = req->args;
    double score;
    int64_t offset, limit;
    if (!parse_double(&args[2], &score)) {
        out_bad_double(out);
        return;
    }
    if (!parse_int(&args[4], &offset) || !parse_int(&args[5], &limit)) {
        out_bad_int(out);
        return;
    }
    struct zset *zset;
    if (!read_zset(req, &zset, out)) {
        return;
    }
    struct znode *znode = NULL;
    if (zset && limit > 0) {
        znode = zset_query(zset, score, args[3].data, args[3].len, offset);
    }
    size_t left = znode ? zset_size(zset) - zset_rank(znode) : 0;
    size_t n = limit > 0 && (uint64_t)limit < left ? (size_t)limit : left;
    if (n > k_max_pairs) {
        out_too_big(out); // even with empty names
        return;
    }
    if (!may_take(n * k_pair_cost)) {
        return;
    }
    size_t start = buf_size(out->buf), max_size = start + k_max_msg;
    reply_arr(out, n * 2);
    for (size_t i = 0; i < n && buf_size(out->buf) <= max_size; i++) {
        size_t size = buf_size(out->buf) - start; // known only now: it depends on the names
        if (size > k_turn_work && !may_take(size)) {
            return;
        }
        reply_str(out, znode->name, znode->node.key_len);
        reply_dbl(out, znode->score);
        znode = znode_next(znode);
    }
}
