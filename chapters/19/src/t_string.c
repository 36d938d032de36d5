// t_string.c: commands for strings
//
// Has no state. As in all files t_*.c, args[0] is the name of the command.

#include "serial.h"

#include "server.h"

void do_get(const struct slice *args, struct buf *out) {
    const struct entry *ent = entry_lookup(&args[1]);
    if (!ent) {
        out_nil(out);
        return;
    }
    if (ent->type != T_STR) {
        out_bad_type(out);
        return;
    }
    struct slice val = entry_val(ent);
    if (!may_take(val.len)) {
        return;
    }
    out_str(out, val.data, val.len);
}

void do_set(const struct slice *args, struct buf *out) {
    entry_set(&args[1], &args[2]);
    out_nil(out);
}
