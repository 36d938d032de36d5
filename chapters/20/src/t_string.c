// t_string.c: commands for strings
//
// Has no state. As in all files t_*.c, args[0] is the name of the command.

#include "reply.h"

#include "server.h"

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

void do_set(struct request *req, struct reply *out) {
    entry_set(hashed_key(req, 1), &req->args[2]);
    reply_status(out, "OK");
}
