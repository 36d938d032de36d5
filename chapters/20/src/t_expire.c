// t_expire.c: commands for the time that keys have to live
//
// Has no state.

#include "clock.h"
#include "heap.h"
#include "reply.h"

#include "server.h"

// Lets the key live for `ttl_ms` from now; deletes it if that is not positive. Reads the clock
// again, for itself and the requests behind it: those before it in this batch may have taken long.
static void expire_key(struct request *req, int64_t unit_ms, struct reply *out) {
    int64_t ttl_ms;
    set_now(get_monotonic_msec());
    if (!parse_int(&req->args[2], &ttl_ms)) {
        out_bad_int(out);
        return;
    }
    if (__builtin_mul_overflow(ttl_ms, unit_ms, &ttl_ms) || !ttl_fits(ttl_ms)) {
        reply_errf(out, "ERR invalid expire time in '%s' command", req->command->name);
        return;
    }
    struct entry *ent = entry_of(write_key(req, 1));
    if (!ent) {
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

// expire key seconds
void do_expire(struct request *req, struct reply *out) {
    expire_key(req, 1000, out);
}

// pexpire key milliseconds
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
