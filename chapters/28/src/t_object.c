// t_object.c: commands about how values are kept
//
// Has no state.

#include <malloc.h>

#include "reply.h"
#include "zset.h"
#include "zset_rank.h"

#include "server.h"

enum {
    k_short_string = 44, // bytes that Redis keeps next to their header
};

// Returns how Redis would keep the value: clients ask to see what their values cost.
static const char *encoding_name(const struct entry *ent) {
    struct slice val = entry_val(ent);
    int64_t value;
    if (ent->type == T_STR) {
        return parse_int(&val, &value) ? "int" : val.len <= k_short_string ? "embstr" : "raw";
    }
    return is_small_set(entry_zset(ent)) ? "listpack" : "skiplist";
}

// Looks up the key that the request asks about. If it is not there, nobody hears of that.
static struct entry *look(const struct request *req) {
    struct entry *ent = peek_key(req, 2);
    forget_misses();
    return ent;
}

void do_object_encoding(struct request *req, struct reply *out) {
    const struct entry *ent = look(req);
    if (ent) {
        reply_cstr(out, encoding_name(ent));
    } else {
        reply_nil(out);
    }
}

void do_object_idletime(struct request *req, struct reply *out) {
    const struct entry *ent = look(req);
    if (ent) {
        reply_int(out, entry_idle_s(ent));
    } else {
        reply_nil(out);
    }
}

void do_object_refcount(struct request *req, struct reply *out) {
    if (look(req)) {
        reply_int(out, 1);
    } else {
        reply_nil(out);
    }
}

// Returns how many bytes of memory a block takes: what may be used, and the head that the allocator keeps.
static size_t block_size(const void *block) {
    return block ? malloc_usable_size((void *)block) + sizeof(size_t) : 0;
}

// Returns how many bytes the first `n` pairs of the set take, which are not more than it has.
static size_t pairs_size(const struct zset *zset, size_t n) {
    size_t size = 0;
    for (struct znode *znode = zset_at(zset, 0); n > 0; n--) {
        size += block_size(znode);
        znode = znode_next(znode);
    }
    return size;
}

// memory usage key [samples n]: the blocks of the entry, of its deadline and of its set. Of the pairs n
// are looked at, 5 if it does not say, all if it says 0; the others count as these do on average.
void do_memory_usage(struct request *req, struct reply *out) {
    int64_t samples = 5;
    for (int i = 3; i < req->nargs; i += 2) {
        if (!is_word(&req->args[i], "samples") || i + 1 == req->nargs) {
            out_bad_syntax(out);
            return;
        }
        if (!parse_int(&req->args[i + 1], &samples)) {
            out_bad_int(out);
            return;
        }
        if (samples < 0) {
            out_bad_syntax(out);
            return;
        }
    }
    struct db *db = req->conn->db;
    struct entry *ent = look(req);
    if (!ent) {
        reply_nil(out);
        return;
    }
    size_t pairs = entry_pairs(ent), n = samples == 0 ? pairs : (size_t)samples;
    n = n < pairs ? n : pairs;
    if (!may_take(n * k_pair_cost)) {
        return;
    }
    size_t size = block_size(ent) + (ent->has_deadline ? block_size(find_deadline(db, ent)) : 0);
    if (ent->type == T_ZSET) {
        const struct zset *zset = entry_zset(ent);
        size += block_size(zset) + block_size(zset->names.newer.tab);
        size += block_size(zset->names.older.tab);
        size += (size_t)((double)pairs_size(zset, n) / (double)n * (double)pairs);
    }
    reply_int(out, (int64_t)size);
}
