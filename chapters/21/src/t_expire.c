// t_expire.c: commands for the time that keys have to live
//
// Has no state.

#include "clock.h"
#include "heap.h"
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
    bool has_one = old_ms != INT64_MAX;
    return !(options->nx && has_one) && !(options->xx && !has_one) &&
           !(options->gt && (!has_one || new_ms <= old_ms)) &&
           !(options->lt && has_one && new_ms >= old_ms);
}

// Lets the key live for `ttl_ms` from now; deletes it if that is not positive. Reads the clock
// again, for itself and the requests behind it: those before it in this batch may have taken long.
static void expire_key(struct request *req, int64_t unit_ms, struct reply *out) {
    struct expire_options options = {0};
    int64_t ttl_ms;
    set_now(get_monotonic_msec());
    if (!parse_expire_options(req, &options, out)) {
        return;
    }
    if (!parse_int(&req->args[2], &ttl_ms)) {
        out_bad_int(out);
        return;
    }
    if (__builtin_mul_overflow(ttl_ms, unit_ms, &ttl_ms) || !ttl_fits(ttl_ms)) {
        reply_errf(out, "ERR invalid expire time in '%s' command", req->command->name);
        return;
    }
    struct entry *ent = entry_of(write_key(req, 1));
    if (!ent || !may_replace(&options, entry_deadline(ent), get_now() + ttl_ms)) {
        reply_int(out, 0);
        return;
    }
    if (ttl_ms > 0) {
        entry_set_ttl(ent, ttl_ms);
    } else {
        entry_drop(ent);
    }
    reply_int(out, 1);
}

// expire key seconds [nx | xx | gt | lt]
void do_expire(struct request *req, struct reply *out) {
    expire_key(req, 1000, out);
}

// pexpire key milliseconds [nx | xx | gt | lt]
void do_pexpire(struct request *req, struct reply *out) {
    expire_key(req, 1, out);
}

// Returns how many milliseconds the key has left: -1 for ever, -2 where there is no such key.
static int64_t ttl_of(struct request *req) {
    const struct entry *ent = read_key(req, 1);
    if (!ent) {
        return -2;
    }
    return ent->heap_idx == k_heap_none ? -1 : entry_deadline(ent) - get_now();
}

void do_ttl(struct request *req, struct reply *out) {
    int64_t ttl_ms = ttl_of(req);
    reply_int(out, ttl_ms < 0 ? ttl_ms : ttl_ms / 1000 + (ttl_ms % 1000 >= 500));
}

void do_pttl(struct request *req, struct reply *out) {
    reply_int(out, ttl_of(req));
}

void do_persist(struct request *req, struct reply *out) {
    struct entry *ent = entry_of(write_key(req, 1));
    reply_int(out, ent && entry_clear_ttl(ent));
}
