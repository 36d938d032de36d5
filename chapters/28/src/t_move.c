// t_move.c: commands that give a key another name or place
//
// Has no state.

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "reply.h"

#include "server.h"

enum {
    k_copied_pair = 512, // work: to copy a pair is to make one
};

static const char k_same_object[] = "ERR source and destination objects are the same";

// Sets *index to `arg`. If that is no int, replies with an error, which is `error` if that is not
// NULL, and returns false.
bool parse_index(const struct slice *arg, const char *error, int64_t *index, struct reply *out) {
    bool is_int = parse_int(arg, index);
    if (is_int && *index >= INT_MIN && *index <= INT_MAX) {
        return true;
    }
    if (error) {
        reply_err(out, error);
    } else if (!is_int) {
        out_bad_int(out);
    } else {
        reply_errf(
            out, "ERR value is out of range, value must between %d and %d", INT_MIN, INT_MAX);
    }
    return false;
}

// Returns the database with the index. If there is none, replies with an error and returns NULL.
struct db *find_db(int64_t index, struct reply *out) {
    if (index < 0 || index >= k_databases) {
        reply_err(out, "ERR DB index is out of range");
        return NULL;
    }
    return db_at((int)index);
}

// move key index
void do_move(struct request *req, struct reply *out) {
    struct lookup_key key = hashed_key(req, 1);
    struct db *from = req->conn->db, *to;
    int64_t index;
    if (!parse_index(&req->args[2], NULL, &index, out) || !(to = find_db(index, out))) {
        return;
    }
    if (to == from) {
        reply_err(out, k_same_object);
        return;
    }
    struct entry *ent = entry_of(lookup_write(from, key));
    if (!ent || lookup_write(to, key)) {
        reply_int(out, 0);
        return;
    }
    int64_t deadline_ms = entry_deadline(from, ent);
    entry_detach(from, ent);
    entry_attach(to, ent, deadline_ms);
    db_changed(from, &req->args[1], EVENT_MOVE_FROM);
    db_changed(to, &req->args[1], EVENT_MOVE_TO);
    reply_int(out, 1);
}

// swapdb index index: the connections stay with the indexes.
void do_swapdb(struct request *req, struct reply *out) {
    int64_t index_a, index_b;
    struct db *a, *b;
    if (parse_index(&req->args[1], "ERR invalid first DB index", &index_a, out) &&
        parse_index(&req->args[2], "ERR invalid second DB index", &index_b, out) &&
        (a = find_db(index_a, out)) && (b = find_db(index_b, out)) &&
        may_take(2 * watches_cost())) {
        struct db db = *a;
        *a = *b;
        *b = db;
        if (a != b) {
            db_changed(a, NULL, EVENT_SWAPDB);
            db_changed(b, NULL, EVENT_SWAPDB);
        }
        reply_status(out, "OK");
    }
}

// Renames the key args[1] to args[2]; its deadline stays. Returns whether it did. If not, it has
// replied why (there is no such key, or `nx` is set and a key has the name), or it is slow.
static bool rename_key(struct request *req, bool nx, struct reply *out) {
    struct db *db = req->conn->db;
    struct entry *ent = entry_of(write_key(req, 1));
    if (!ent) {
        reply_err(out, "ERR no such key");
        return false;
    }
    struct lookup_key name = hashed_key(req, 2);
    struct entry *other = entry_of(lookup_write(db, name));
    if (other && nx) {
        reply_int(out, 0);
        return false;
    }
    if (other == ent) {
        return true;
    }
    if (!may_take(entry_val(ent).len)) {
        return false;
    }
    if (other) {
        entry_drop(db, other);
    }
    int64_t deadline_ms = entry_deadline(db, ent);
    entry_detach(db, ent);
    struct slice val = entry_val(ent); // of a sorted set its address: the new entry owns it now
    struct entry *renamed = entry_add(db, name, ent->type, &val);
    free(ent);
    entry_set_deadline(db, renamed, deadline_ms);
    db_changed(db, &req->args[1], EVENT_RENAME_FROM);
    db_changed(db, &req->args[2], EVENT_RENAME_TO);
    return true;
}

// rename key name
void do_rename(struct request *req, struct reply *out) {
    if (rename_key(req, false, out)) {
        reply_status(out, "OK");
    }
}

// renamenx key name
void do_renamenx(struct request *req, struct reply *out) {
    if (rename_key(req, true, out)) {
        reply_int(out, 1);
    }
}

// Reads the words behind `copy key name`. If one is wrong, replies with an error and returns false.
static bool parse_copy_options(const struct request *req, struct db **to, bool *replace,
                               struct reply *out) {
    for (int i = 3; i < req->nargs; i++) {
        int64_t index;
        if (is_word(&req->args[i], "replace")) {
            *replace = true;
        } else if (is_word(&req->args[i], "db") && i + 1 < req->nargs) {
            if (!parse_index(&req->args[++i], NULL, &index, out) || !(*to = find_db(index, out))) {
                return false;
            }
        } else {
            out_bad_syntax(out);
            return false;
        }
    }
    return true;
}

// copy key name [db index] [replace]
void do_copy(struct request *req, struct reply *out) {
    struct db *from = req->conn->db, *to = from;
    const struct slice *key = &req->args[1], *name = &req->args[2];
    bool replace = false;
    if (!parse_copy_options(req, &to, &replace, out)) {
        return;
    }
    if (from == to && key->len == name->len && memcmp(key->data, name->data, key->len) == 0) {
        reply_err(out, k_same_object);
        return;
    }
    struct entry *ent = read_key(req, 1);
    struct entry *other = ent ? entry_of(lookup_write(to, hashed_key(req, 2))) : NULL;
    if (!ent || (other && !replace)) {
        reply_int(out, 0);
        return;
    }
    if (!may_take(entry_val(ent).len + entry_pairs(ent) * k_copied_pair)) {
        return;
    }
    if (other) {
        entry_drop(to, other);
    }
    struct entry *copy = entry_copy(to, hashed_key(req, 2), ent);
    entry_set_deadline(to, copy, entry_deadline(from, ent));
    db_changed(to, name, EVENT_COPY_TO);
    reply_int(out, 1);
}
