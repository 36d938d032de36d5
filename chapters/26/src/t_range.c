// t_range.c: commands for parts of strings
//
// Has no state.

#include "reply.h"

#include "server.h"

// getrange key first last: both ends are in it; negative ones count from the end
void do_getrange(struct request *req, struct reply *out) {
    int64_t first, last;
    if (!parse_int(&req->args[2], &first) || !parse_int(&req->args[3], &last)) {
        out_bad_int(out);
        return;
    }
    const struct entry *ent = read_key(req, 1);
    if (ent && ent->type != T_STR) {
        out_bad_type(out);
        return;
    }
    int64_t len = ent ? ent->val_len : 0;
    bool crossed = first < 0 && last < 0 && first > last;
    first = first >= 0 ? first : first < -len ? 0 : first + len;
    last = last >= 0     ? last
           : last < -len ? 0
                         : last + len; // in front of all: to Redis the first byte
    last = last < len ? last : len - 1;
    if (crossed || first > last) {
        reply_cstr(out, "");
        return;
    }
    size_t n = (size_t)(last - first) + 1;
    if (may_take(n)) {
        reply_str(out, entry_val(ent).data + first, n);
    }
}

// setrange key offset bytes: writes over a part of the value, which grows if it has to, and replies how
// long it is then. What nobody has written is zeros. The key keeps its TTL.
void do_setrange(struct request *req, struct reply *out) {
    const struct slice *val = &req->args[3];
    int64_t offset;
    if (!parse_int(&req->args[2], &offset)) {
        out_bad_int(out);
        return;
    }
    if (offset < 0) {
        reply_err(out, "ERR offset is out of range");
        return;
    }
    struct db *db = req->conn->db;
    struct hnode **link = write_key(req, 1);
    const struct entry *ent = entry_of(link);
    if (ent && ent->type != T_STR) {
        out_bad_type(out);
        return;
    }
    size_t len = ent ? ent->val_len : 0;
    if (val->len == 0) {
        reply_int(out, (int64_t)len);
        return;
    }
    if (offset > k_max_msg || (size_t)offset + val->len > k_max_msg) {
        reply_err(out, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
        return;
    }
    size_t end = (size_t)offset + val->len;
    if (!may_take(end > len ? end - len : 0)) {
        return;
    }
    if (!link) {
        entry_add(db, hashed_key(req, 1), T_STR, &(struct slice){val->data, 0});
        link = write_key(req, 1);
    }
    reply_int(out, entry_patch(db, link, (size_t)offset, val)->val_len);
    db_changed(db, &req->args[1], EVENT_SETRANGE);
}
