// t_expire.c: commands for the time that keys have to live
//
// Has no state.

#include "clock_wall.h"
#include "reply.h"

#include "server.h"

// What the words behind the time of `expire` ask for.
struct expire_options {
    bool nx, xx, gt, lt;
};

// Reads the options of `expire`. If they do not go together, replies with an error and returns false.
static bool parse_expire_options(const struct request *req, struct expire_options *options,
                                 struct reply *out) {
    for (int i = 3; i < req->nargs; i++) {
        const struct slice *arg = &req->args[i];
        bool *flag = is_word(arg, "nx")   ? &options->nx
                     : is_word(arg, "xx") ? &options->xx
                     : is_word(arg, "gt") ? &options->gt
                     : is_word(arg, "lt") ? &options->lt
                                          : NULL;
        if (!flag) {
            reply_errf(out, "ERR Unsupported option %.*s", (int)arg->len, arg->data);
            return false;
        }
        *flag = true;
    }
    if (options->nx && (options->xx || options->gt || options->lt)) {
        reply_err(out, "ERR NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if (options->gt && options->lt) {
        reply_err(out, "ERR GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

// Tells whether the options let a deadline take the place of another one, or of none, which counts as
// later than all others.
static bool may_replace(const struct expire_options *options, int64_t old_ms, int64_t new_ms) {
    bool has_one = old_ms != k_no_deadline;
    return !(options->nx && has_one) && !(options->xx && !has_one) &&
           !(options->gt && (!has_one || new_ms <= old_ms)) &&
           !(options->lt && has_one && new_ms >= old_ms);
}

// Gives the key a deadline, `start_ms` and an amount in `unit_ms` after it; deletes the key where
// that has passed.
static void expire_key(struct request *req, int64_t start_ms, int64_t unit_ms, struct reply *out) {
    struct db *db = req->conn->db;
    struct expire_options options = {0};
    int64_t at_ms;
    if (!parse_expire_options(req, &options, out)) {
        return;
    }
    if (!parse_int(&req->args[2], &at_ms)) {
        out_bad_int(out);
        return;
    }
    if (__builtin_mul_overflow(at_ms, unit_ms, &at_ms) ||
        __builtin_add_overflow(at_ms, start_ms, &at_ms)) {
        out_bad_time(req, out);
        return;
    }
    struct entry *ent = entry_of(write_key(req, 1));
    if (!ent || !may_replace(&options, entry_deadline(db, ent), at_ms)) {
        reply_int(out, 0);
        return;
    }
    if (!is_over(at_ms)) {
        entry_set_deadline(db, ent, at_ms);
        db_changed(db, &req->args[1], EVENT_EXPIRE);
        effect_is_deadline(db_index(db), &req->args[1], at_ms);
    } else {
        entry_delete(db, ent, EVENT_DEL);
        effect_is_del(db_index(db), &req->args[1]);
    }
    reply_int(out, 1);
}

// Reads the clock again, for this request and those behind it: those before it in this batch may have
// taken long.
static int64_t look_at_clock(void) {
    set_now(get_wall_msec());
    return get_now();
}

// expire key seconds [nx | xx | gt | lt]
void do_expire(struct request *req, struct reply *out) {
    expire_key(req, look_at_clock(), 1000, out);
}

// pexpire key milliseconds [nx | xx | gt | lt]
void do_pexpire(struct request *req, struct reply *out) {
    expire_key(req, look_at_clock(), 1, out);
}

// expireat key date [nx | xx | gt | lt]
void do_expireat(struct request *req, struct reply *out) {
    look_at_clock();
    expire_key(req, 0, 1000, out);
}

// pexpireat key date [nx | xx | gt | lt]
void do_pexpireat(struct request *req, struct reply *out) {
    look_at_clock();
    expire_key(req, 0, 1, out);
}

// Replies when the time of the key is up, in units after `start_ms`, rounded: -1 for never, -2 where
// there is no such key.
static void out_ttl(struct request *req, int64_t start_ms, int64_t unit_ms, struct reply *out) {
    struct entry *ent = peek_key(req, 1);
    if (!ent) {
        reply_int(out, -2);
    } else if (!ent->has_deadline) {
        reply_int(out, -1);
    } else {
        int64_t ttl_ms = entry_deadline(req->conn->db, ent) - start_ms;
        reply_int(out, ttl_ms / unit_ms + (ttl_ms % unit_ms * 2 >= unit_ms));
    }
}

void do_ttl(struct request *req, struct reply *out) {
    out_ttl(req, get_now(), 1000, out);
}

void do_pttl(struct request *req, struct reply *out) {
    out_ttl(req, get_now(), 1, out);
}

void do_expiretime(struct request *req, struct reply *out) {
    out_ttl(req, 0, 1000, out);
}

void do_pexpiretime(struct request *req, struct reply *out) {
    out_ttl(req, 0, 1, out);
}

void do_persist(struct request *req, struct reply *out) {
    struct db *db = req->conn->db;
    struct entry *ent = entry_of(write_key(req, 1));
    bool persists = ent && entry_clear_deadline(db, ent);
    if (persists) {
        db_changed(db, &req->args[1], EVENT_PERSIST);
    }
    reply_int(out, persists);
}
