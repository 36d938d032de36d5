// t_keys.c: commands for keys of any type
//
// Has no state.

#include "hashtable.h"
#include "intrusive.h"
#include "serial.h"

#include "server.h"

void do_del(const struct slice *args, struct buf *out) {
    out_int(out, entry_remove(&args[1]));
}

// What a scan for `keys` carries along.
struct keys_scan {
    struct buf *out;
    size_t max_size; // of out: beyond it the reply is too big
    uint32_t n;
};

static bool do_keys_one(struct hnode *node, void *arg) {
    struct keys_scan *scan = arg;
    const struct entry *ent = container_of(node, struct entry, node);
    if (!entry_expired(ent)) {
        out_str(scan->out, ent->data, node->key_len);
        scan->n++;
    }
    return buf_size(scan->out) <= scan->max_size;
}

// Stops when the reply is too big to be sent: reply_request() sees that.
void do_keys(const struct slice *args, struct buf *out) {
    (void)args;
    struct keys_scan scan = {.out = out, .max_size = buf_size(out) + k_max_msg};
    size_t arr = out_arr(out, 0);
    hm_scan(db_keys(), do_keys_one, &scan);
    out_arr_end(out, arr, scan.n);
}
