// t_zrem.c: commands that take ranges out of sorted sets
//
// Has no state.

#include <string.h>

#include "hashtable_cursor.h"
#include "reply.h"
#include "zset.h"
#include "zset_rank.h"

#include "server.h"

enum {
    k_removed_cost = 100, // what a pair counts for that is removed, or copied: see turn.c
};

// Returns what it takes to remove the pairs at the places: see remove_places().
static size_t removal_cost(const struct places *places) {
    size_t n = places->end - places->begin, kept = zset_size(places->zset) - n;
    return (n < kept ? n : kept) * k_removed_cost;
}

// Copies pairs to another set, from a place on.
static void copy_pairs(struct zset *to, const struct zset *from, size_t place, size_t n) {
    struct znode *znode = zset_at(from, place);
    for (; n > 0; n--) {
        zset_add(to, znode->name, znode->node.key_len, znode->score);
        znode = znode_next(znode);
    }
}

// Gives the key of the request another set, which may be empty: then the key goes. The old set dies as a
// whole: a worker frees a large one. The key keeps its TTL.
static void replace_zset(struct request *req, const struct zset *zset) {
    struct db *db = req->conn->db;
    struct entry *ent = entry_of(write_key(req, 1));
    int64_t deadline_ms = entry_deadline(db, ent);
    entry_drop(db, ent);
    if (zset_size(zset) > 0) {
        *entry_put_zset(db, hashed_key(req, 1)) = *zset;
        entry_set_deadline(db, entry_of(write_key(req, 1)), deadline_ms);
    }
}

// Removes the pairs at the places. Where more go than stay, those that stay are copied.
static void remove_places(struct request *req, const struct places *places) {
    struct zset *zset = places->zset;
    size_t size = zset_size(zset), n = places->end - places->begin;
    if (n > size - n) {
        struct zset kept;
        zset_init(&kept, zset->hash_key);
        copy_pairs(&kept, zset, 0, places->begin);
        copy_pairs(&kept, zset, places->end, size - places->end);
        replace_zset(req, &kept);
        return;
    }
    struct znode *znode = zset_at(zset, places->begin);
    for (; n > 0; n--) {
        struct znode *next = znode_next(znode);
        zset_del(zset, znode);
        hm_shrink(&zset->names);
        znode = next;
    }
}

// Notes that pairs of the request's key have gone, and the key, if it has gone with them.
static void note_removal(struct request *req, enum event event) {
    struct db *db = req->conn->db;
    db_changed(db, &req->args[1], event);
    if (!write_key(req, 1)) {
        db_changed(db, &req->args[1], EVENT_DEL);
    }
}

// zremrangebyrank key first last
// zremrangebyscore key min max
// zremrangebylex key min max
void do_zremrange(struct request *req, struct reply *out) {
    static const enum event events[] = {
        [BY_PLACE] = EVENT_ZREMRANGEBYRANK,
        [BY_SCORE] = EVENT_ZREMRANGEBYSCORE,
        [BY_NAME] = EVENT_ZREMRANGEBYLEX,
    };
    enum range_by by = range_of_command(req->command);
    struct places places;
    if (!find_places(req, by, false, &places, out)) {
        return;
    }
    size_t n = places.end - places.begin;
    if (n > 0) {
        if (!may_take(removal_cost(&places))) {
            return;
        }
        remove_places(req, &places);
        note_removal(req, events[by]);
    }
    reply_int(out, (int64_t)n);
}

// zpopmin key [count]
// zpopmax key [count]
//
// Removes and replies pairs at one end of a set: one, or as many as the request says. With a number, a
// pair is an array in version 3. If the reply is too big, the pairs stay.
void do_zpop(struct request *req, struct reply *out) {
    struct zset *zset;
    int64_t count = 1;
    if (req->nargs > 3) {
        out_bad_syntax(out);
        return;
    }
    if (req->nargs == 3 && (!parse_int(&req->args[2], &count) || count < 0)) {
        reply_err(out, "ERR value is out of range, must be positive");
        return;
    }
    if (!write_zset(req, &zset, out)) {
        return;
    }
    if (!zset || count == 0) {
        reply_arr(out, 0);
        return;
    }
    bool last = strcmp(req->command->name, "zpopmax") == 0;
    size_t size = zset_size(zset), n = (uint64_t)count < size ? (size_t)count : size;
    struct places places = {zset, last ? size - n : 0, last ? size : n};
    bool nested = out->resp3 && req->nargs == 3;
    bool may = may_take(removal_cost(&places));
    if ((may || turn_asks()) && out_pairs(&places, last, true, nested, out) && may) {
        remove_places(req, &places);
        note_removal(req, last ? EVENT_ZPOPMAX : EVENT_ZPOPMIN);
    }
}
