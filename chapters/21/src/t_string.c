// t_string.c: commands for strings
//
// Has no state. As in all files t_*.c, args[0] is the name of the command.

#include "buf.h"
#include "clock.h"
#include "intrusive.h"
#include "reply.h"

#include "server.h"

// Sets *link to the pointer that owns the entry of the key, NULL if there is no such key. If the entry
// holds no string, replies with an error and returns false.
static bool find_string(struct request *req, struct hnode ***link, struct reply *out) {
    *link = write_key(req, 1);
    if (*link && container_of(**link, struct entry, node)->type != T_STR) {
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

void do_get(struct request *req, struct reply *out) {
    const struct entry *ent = read_key(req, 1);
    if (!ent) {
        reply_nil(out);
        return;
    }
    if (ent->type != T_STR) {
        out_bad_type(out);
        return;
    }
    out_val(ent, out);
}

// What the words behind `set key value` ask for.
struct set_options {
    bool nx, xx, get, keep_ttl;
    const struct slice *ttl; // NULL for none
    int64_t unit_ms;
};

// Returns whether the words are options of `set` that go together.
static bool parse_set_options(const struct request *req, struct set_options *options) {
    for (int i = 3; i < req->nargs; i++) {
        const struct slice *arg = &req->args[i];
        int64_t unit_ms = is_word(arg, "ex") ? 1000 : is_word(arg, "px") ? 1 : 0;
        if (is_word(arg, "nx") && !options->xx) {
            options->nx = true;
        } else if (is_word(arg, "xx") && !options->nx) {
            options->xx = true;
        } else if (is_word(arg, "get")) {
            options->get = true;
        } else if (is_word(arg, "keepttl") && !options->ttl) {
            options->keep_ttl = true;
        } else if (unit_ms != 0 && !options->keep_ttl && i + 1 < req->nargs &&
                   (!options->ttl || options->unit_ms == unit_ms)) {
            options->ttl = &req->args[++i];
            options->unit_ms = unit_ms;
        } else {
            return false;
        }
    }
    return true;
}

// set key value with options
static void set_with_options(struct request *req, struct reply *out) {
    struct set_options options = {0};
    int64_t ttl_ms = 0;
    set_now(get_monotonic_msec());
    if (!parse_set_options(req, &options)) {
        out_bad_syntax(out);
        return;
    }
    if (options.ttl && !parse_int(options.ttl, &ttl_ms)) {
        out_bad_int(out);
        return;
    }
    if (options.ttl && (ttl_ms <= 0 || __builtin_mul_overflow(ttl_ms, options.unit_ms, &ttl_ms) ||
                        !ttl_fits(ttl_ms))) {
        reply_err(out, "ERR invalid expire time in 'set' command");
        return;
    }
    struct entry *ent = read_key(req, 1);
    if (options.get && ent && ent->type != T_STR) {
        out_bad_type(out);
        return;
    }
    bool sets = !(options.nx && ent) && !(options.xx && !ent);
    if (options.get && ent) {
        if (!out_val(ent, out)) {
            return;
        }
    } else if (options.get || !sets) {
        reply_nil(out);
    } else {
        reply_status(out, "OK");
    }
    if (sets) {
        int64_t deadline_ms = ent && options.keep_ttl ? entry_deadline(ent) : INT64_MAX;
        ent = entry_set(hashed_key(req, 1), &req->args[2]);
        if (options.ttl) {
            entry_set_ttl(ent, ttl_ms);
        } else if (deadline_ms != INT64_MAX) {
            entry_set_ttl(ent, deadline_ms - get_now());
        }
    }
}

// set key value [nx | xx] [get] [ex seconds | px milliseconds | keepttl]
void do_set(struct request *req, struct reply *out) {
    if (req->nargs > 3) {
        set_with_options(req, out);
        return;
    }
    entry_set(hashed_key(req, 1), &req->args[2]);
    reply_status(out, "OK");
}

// mget key...
void do_mget(struct request *req, struct reply *out) {
    size_t max_size = buf_size(out->buf) + k_max_msg, size = 0;
    reply_arr(out, (size_t)req->nargs - 1);
    for (int i = 1; i < req->nargs && buf_size(out->buf) <= max_size; i++) {
        const struct entry *ent = read_key(req, i);
        if (ent && ent->type == T_STR) {
            size += entry_val(ent).len;
            if ((size > k_turn_work && !may_take(size)) || !out_val(ent, out)) {
                return;
            }
        } else {
            reply_nil(out);
        }
    }
}

// Sets the keys of a request to the values behind them.
static void set_pairs(struct request *req) {
    for (int i = 1; i < req->nargs; i += 2) {
        entry_set(hashed_key(req, i), &req->args[i + 1]);
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
    struct hnode **link;
    int64_t value = 0;
    if (!find_string(req, &link, out)) {
        return;
    }
    struct slice old =
        link ? entry_val(container_of(*link, struct entry, node)) : (struct slice){0};
    if (link && !parse_int(&old, &value)) {
        out_bad_int(out);
        return;
    }
    if (__builtin_add_overflow(value, n, &value)) {
        reply_err(out, "ERR increment or decrement would overflow");
        return;
    }
    uint8_t text[k_max_digits];
    struct slice val = {text, int_text(value, text)};
    if (link) {
        entry_write(link, 0, &val);
    } else {
        entry_add(hashed_key(req, 1), T_STR, &val);
    }
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
    struct hnode **link;
    if (!find_string(req, &link, out)) {
        return;
    }
    size_t len = link ? container_of(*link, struct entry, node)->val_len : 0;
    if (len + val->len > k_max_msg) {
        reply_err(out, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
        return;
    }
    if (link) {
        entry_write(link, len, val);
    } else {
        entry_add(hashed_key(req, 1), T_STR, val);
    }
    reply_int(out, (int64_t)(len + val->len));
}

void do_strlen(struct request *req, struct reply *out) {
    struct hnode **link;
    if (find_string(req, &link, out)) {
        reply_int(out, link ? container_of(*link, struct entry, node)->val_len : 0);
    }
}
