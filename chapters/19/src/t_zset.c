// t_zset.c: commands for sorted sets
//
// Has no state.

#include "avl_offset.h"
#include "serial.h"
#include "serial_dbl.h"
#include "zset.h"

#include "server.h"

enum {
    k_max_pairs = k_max_msg / (k_str_head + 9), // no more fit into a reply, even with empty names
};

// Sets *zset to the sorted set of the key, NULL if there is no such key. If the key holds another
// type, replies with an error and returns false.
static bool find_zset(const struct slice *key, struct zset **zset, struct buf *out) {
    const struct entry *ent = entry_lookup(key);
    if (ent && ent->type != T_ZSET) {
        out_bad_type(out);
        return false;
    }
    *zset = ent ? entry_zset(ent) : NULL;
    return true;
}

void do_zadd(const struct slice *args, struct buf *out) {
    double score;
    if (!parse_double(&args[2], &score)) {
        out_bad_double(out);
        return;
    }
    struct zset *zset;
    if (!find_zset(&args[1], &zset, out)) {
        return;
    }
    if (!zset) {
        zset = entry_add_zset(&args[1]);
    }
    out_int(out, zset_add(zset, args[3].data, args[3].len, score));
}

void do_zrem(const struct slice *args, struct buf *out) {
    struct zset *zset;
    if (!find_zset(&args[1], &zset, out)) {
        return;
    }
    struct znode *znode = zset ? zset_lookup(zset, args[2].data, args[2].len) : NULL;
    out_int(out, znode != NULL);
    if (znode) {
        zset_del(zset, znode);
        if (zset_size(zset) == 0) {
            entry_remove(&args[1]);
        }
    }
}

void do_zscore(const struct slice *args, struct buf *out) {
    struct zset *zset;
    if (!find_zset(&args[1], &zset, out)) {
        return;
    }
    const struct znode *znode = zset ? zset_lookup(zset, args[2].data, args[2].len) : NULL;
    if (znode) {
        out_dbl(out, znode->score);
    } else {
        out_nil(out);
    }
}

// zquery key score name offset limit
void do_zquery(const struct slice *args, struct buf *out) {
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
    if (!find_zset(&args[1], &zset, out)) {
        return;
    }
    struct znode *znode = NULL;
    if (zset && limit > 0) {
        znode = zset_query(zset, score, args[3].data, args[3].len, offset);
    }
    if (znode && limit > k_max_pairs && avl_offset(&znode->tree, k_max_pairs)) {
        out_too_big(out); // even with empty names
        return;
    }
    size_t max_size = buf_size(out) + k_max_msg;
    size_t arr = out_arr(out, 0);
    uint32_t n = 0;
    while (znode && n < limit && buf_size(out) <= max_size) {
        size_t size = buf_size(out) - arr; // known only now: it depends on the names
        if (size > k_turn_work && !may_take(size)) {
            return;
        }
        out_str(out, znode->name, znode->node.key_len);
        out_dbl(out, znode->score);
        znode = znode_next(znode);
        n++;
    }
    turn_add(buf_size(out) - arr);
    out_arr_end(out, arr, n * 2);
}
