// t_string.c: commands for strings
//
// Has no state. As in all files t_*.c, args[0] is the name of the command.

#include "buf.h"
#include "clock_wall.h"
#include "reply.h"

#include "server.h"

// Tells whether the entry, if there is one, holds a string. If not, replies with an error.
static bool is_string(const struct entry *ent, struct reply *out) {
    if (ent && ent->type != T_STR) {
        out_bad_type(out);
        return false;
    }
    return true;
}

// Replies the value. Returns whether it may.
static bool out_val(const struct entry *ent, struct reply *out) {
    struct slice val = entry_val(ent);
    if (!may_take(val.len)) {
        return false;
    }
    reply_str(out, val.data, val.len);
    return true;
}

// Replies the value of the key. Returns whether it is a string, or there is none, and it may.
static bool get_key(struct request *req, struct reply *out) {
    const struct entry *ent = read_key(req, 1);
    if (!is_string(ent, out)) {
        return false;
    }
    if (ent) {
        return out_val(ent, out);
    }
    reply_nil(out);
    return may_take(0);
}

void do_get(struct request *req, struct reply *out) {
    get_key(req, out);
}

// What the words behind `set key value` and `getex key` ask for.
struct set_options {
    bool nx, xx, get, keep_ttl, persist;
    const struct slice *ttl; // NULL for none
    int64_t unit_ms;
    bool is_date; // not a time from now on
};

// Returns whether `arg` begins an amount of time, and notes which.
static bool parse_unit(const struct slice *arg, struct set_options *options) {
    bool ex = is_word(arg, "ex"), exat = is_word(arg, "exat");
    bool px = is_word(arg, "px"), pxat = is_word(arg, "pxat");
    int64_t unit_ms = ex || exat ? 1000 : 1;
    bool is_date = exat || pxat;
    if (!(ex || px || is_date) ||
        (options->ttl && (options->unit_ms != unit_ms || options->is_date != is_date))) {
        return false;
    }
    options->unit_ms = unit_ms;
    options->is_date = is_date;
    return true;
}

// Returns whether the words from args[first] on are options that go together: of `set`, or else of
// `getex`.
static bool parse_set_options(const struct request *req, int first, bool set,
                              struct set_options *options) {
    for (int i = first; i < req->nargs; i++) {
        const struct slice *arg = &req->args[i];
        if (set && is_word(arg, "nx") && !options->xx) {
            options->nx = true;
        } else if (set && is_word(arg, "xx") && !options->nx) {
            options->xx = true;
        } else if (set && is_word(arg, "get")) {
            options->get = true;
        } else if (set && is_word(arg, "keepttl") && !options->ttl) {
            options->keep_ttl = true;
        } else if (!set && is_word(arg, "persist") && !options->ttl) {
            options->persist = true;
        } else if (!options->keep_ttl && !options->persist && i + 1 < req->nargs &&
                   parse_unit(arg, options)) {
            options->ttl = &req->args[++i];
        } else {
            return false;
        }
    }
    return true;
}

// Sets *at_ms to the time that the options give a key, as a date; k_no_deadline if they give none. If
// it is wrong, replies with an error and returns false. Reads the clock again, for itself and the
// requests behind it: those before it in this batch may have taken long.
static bool parse_set_time(const struct request *req, const struct set_options *options,
                           int64_t *at_ms, struct reply *out) {
    *at_ms = k_no_deadline;
    if (!options->ttl) {
        return true;
    }
    if (!parse_int(options->ttl, at_ms)) {
        out_bad_int(out);
        return false;
    }
    set_now(get_wall_msec());
    int64_t start_ms = options->is_date ? 0 : get_now();
    if (*at_ms <= 0 || __builtin_mul_overflow(*at_ms, options->unit_ms, at_ms) ||
        __builtin_add_overflow(*at_ms, start_ms, at_ms)) {
        out_bad_time(req, out);
        return false;
    }
    return true;
}

// Sets the key as the options say. Returns whether they let it; nothing is replied then.
static bool set_key(struct request *req, const struct set_options *options, int64_t at_ms,
                    const struct slice *val) {
    struct db *db = req->conn->db;
    struct lookup_key key = hashed_key(req, 1);
    struct hnode **link = lookup_write(db, key);
    if ((options->nx && link) || (options->xx && !link)) {
        return false;
    }
    publish_misses(); // of `get`, which comes first
    struct entry *ent = entry_set(db, key, link, val);
    if (!options->keep_ttl) {
        entry_set_deadline(db, ent, at_ms);
    }
    db_changed(db, &req->args[1], EVENT_SET);
    if (at_ms != k_no_deadline) {
        db_changed(db, &req->args[1], EVENT_EXPIRE);
    }
    effect_is_set(db_index(db), &req->args[1], val, at_ms, options->keep_ttl);
    return true;
}

// set key value [nx | xx] [get] [ex seconds | px milliseconds | exat date | pxat date | keepttl]
void do_set(struct request *req, struct reply *out) {
    struct set_options options = {0};
    int64_t at_ms;
    if (req->nargs > 3 && !parse_set_options(req, 3, true, &options)) {
        out_bad_syntax(out);
        return;
    }
    if (!parse_set_time(req, &options, &at_ms, out) ||
        !(options.get ? get_key(req, out) : may_take(0))) {
        return;
    }
    bool set = set_key(req, &options, at_ms, &req->args[2]);
    if (!options.get && set) {
        reply_status(out, "OK");
    } else if (!options.get) {
        reply_nil(out);
    }
}

// setnx key value
void do_setnx(struct request *req, struct reply *out) {
    struct set_options options = {.nx = true};
    reply_int(out, set_key(req, &options, k_no_deadline, &req->args[2]));
}

// Sets the key, with a time in `unit_ms` in front of the value.
static void set_with_time(struct request *req, int64_t unit_ms, struct reply *out) {
    struct set_options options = {.ttl = &req->args[2], .unit_ms = unit_ms};
    int64_t at_ms;
    if (parse_set_time(req, &options, &at_ms, out)) {
        set_key(req, &options, at_ms, &req->args[3]);
        reply_status(out, "OK");
    }
}

// setex key seconds value
void do_setex(struct request *req, struct reply *out) {
    set_with_time(req, 1000, out);
}

// psetex key milliseconds value
void do_psetex(struct request *req, struct reply *out) {
    set_with_time(req, 1, out);
}

// getset key value
void do_getset(struct request *req, struct reply *out) {
    struct set_options options = {0};
    if (get_key(req, out)) {
        set_key(req, &options, k_no_deadline, &req->args[2]);
    }
}

// getdel key
void do_getdel(struct request *req, struct reply *out) {
    struct entry *ent;
    if (get_key(req, out) && (ent = entry_of(write_key(req, 1)))) {
        entry_delete(req->conn->db, ent, EVENT_DEL);
        effect_is_del(db_index(req->conn->db), &req->args[1]);
    }
}

// getex key [ex seconds | px milliseconds | exat date | pxat date | persist]
void do_getex(struct request *req, struct reply *out) {
    struct db *db = req->conn->db;
    struct set_options options = {0};
    int64_t at_ms;
    if (!parse_set_options(req, 2, false, &options)) {
        out_bad_syntax(out);
        return;
    }
    struct entry *ent = read_key(req, 1);
    if (!ent) {
        reply_nil(out);
        return;
    }
    if (!is_string(ent, out) || !parse_set_time(req, &options, &at_ms, out)) {
        return;
    }
    if (!out_val(ent, out)) {
        return;
    }
    if (options.ttl && is_over(at_ms)) {
        entry_delete(db, ent, EVENT_DEL);
        effect_is_del(db_index(db), &req->args[1]);
    } else if (options.ttl) {
        entry_set_deadline(db, ent, at_ms);
        db_changed(db, &req->args[1], EVENT_EXPIRE);
        effect_is_deadline(db_index(db), &req->args[1], at_ms);
    } else if (options.persist && entry_clear_deadline(db, ent)) {
        db_changed(db, &req->args[1], EVENT_PERSIST);
        effect_is_persist(db_index(db), &req->args[1]);
    }
}

// mget key...
void do_mget(struct request *req, struct reply *out) {
    size_t max_size = buf_size(out->buf) + k_max_msg, size = 0;
    bool may = true;
    reply_arr(out, (size_t)req->nargs - 1);
    for (int i = 1; i < req->nargs && buf_size(out->buf) <= max_size; i++) {
        const struct entry *ent = read_key(req, i);
        if (ent && ent->type == T_STR) {
            size += entry_val(ent).len;
            if (size > k_turn_work) { // small ones, too, are slow together
                may = may_take(size);
                size = 0;
            }
            if (may) {
                reply_str(out, entry_val(ent).data, entry_val(ent).len);
            } else if (!turn_asks()) {
                return;
            }
        } else {
            reply_nil(out);
        }
    }
}

// Sets the keys of a request to the values behind them.
static void set_pairs(struct request *req) {
    struct db *db = req->conn->db;
    for (int i = 1; i < req->nargs; i += 2) {
        struct lookup_key key = hashed_key(req, i);
        struct hnode **link = lookup_write(db, key);
        entry_clear_deadline(db, entry_set(db, key, link, &req->args[i + 1]));
        db_changed(db, &req->args[i], EVENT_SET);
    }
}

// mset key value [key value]...
void do_mset(struct request *req, struct reply *out) {
    if (req->nargs % 2 == 0) {
        out_bad_arity("mset", out);
        return;
    }
    set_pairs(req);
    reply_status(out, "OK");
}

// msetnx key value [key value]...: sets all keys, or none, if one of them is there
void do_msetnx(struct request *req, struct reply *out) {
    if (req->nargs % 2 == 0) {
        out_bad_arity("msetnx", out);
        return;
    }
    for (int i = 1; i < req->nargs; i += 2) {
        if (write_key(req, i)) {
            reply_int(out, 0);
            return;
        }
    }
    set_pairs(req);
    reply_int(out, 1);
}

// Adds `n` to the number that the key holds, 0 where there is none. It keeps its TTL.
static void incr_by(struct request *req, int64_t n, struct reply *out) {
    struct lookup_key key = hashed_key(req, 1);
    struct hnode **link = lookup_write(req->conn->db, key);
    const struct entry *ent = entry_of(link);
    int64_t value = 0;
    if (!is_string(ent, out)) {
        return;
    }
    struct slice old = ent ? entry_val(ent) : (struct slice){0};
    if (ent && !parse_int(&old, &value)) {
        out_bad_int(out);
        return;
    }
    if (__builtin_add_overflow(value, n, &value)) {
        reply_err(out, "ERR increment or decrement would overflow");
        return;
    }
    uint8_t text[k_max_digits];
    struct slice val = {text, int_text(value, text)};
    entry_set(req->conn->db, key, link, &val);
    db_changed(req->conn->db, &req->args[1], EVENT_INCRBY);
    reply_int(out, value);
}

void do_incr(struct request *req, struct reply *out) {
    incr_by(req, 1, out);
}

void do_decr(struct request *req, struct reply *out) {
    incr_by(req, -1, out);
}

void do_incrby(struct request *req, struct reply *out) {
    int64_t n;
    if (!parse_int(&req->args[2], &n)) {
        out_bad_int(out);
        return;
    }
    incr_by(req, n, out);
}

void do_decrby(struct request *req, struct reply *out) {
    int64_t n;
    if (!parse_int(&req->args[2], &n)) {
        out_bad_int(out);
        return;
    }
    if (n == INT64_MIN) {
        reply_err(out, "ERR decrement would overflow");
        return;
    }
    incr_by(req, -n, out);
}

// append key bytes: replies with the new length. The key keeps its TTL.
void do_append(struct request *req, struct reply *out) {
    const struct slice *val = &req->args[2];
    struct lookup_key key = hashed_key(req, 1);
    struct hnode **link = lookup_write(req->conn->db, key);
    const struct entry *ent = entry_of(link);
    if (!is_string(ent, out)) {
        return;
    }
    size_t len = ent ? ent->val_len : 0;
    if (len + val->len > k_max_msg) {
        reply_err(out, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
        return;
    }
    if (ent) {
        entry_write(req->conn->db, link, len, val);
    } else {
        entry_add(req->conn->db, key, T_STR, val);
    }
    db_changed(req->conn->db, &req->args[1], EVENT_APPEND);
    reply_int(out, (int64_t)(len + val->len));
}

void do_strlen(struct request *req, struct reply *out) {
    const struct entry *ent = read_key(req, 1);
    if (is_string(ent, out)) {
        reply_int(out, ent ? ent->val_len : 0);
    }
}
