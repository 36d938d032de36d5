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
    uint32_t n;
};

static bool do_keys_one(struct hnode *node, void *arg) {
    struct keys_scan *scan = arg;
    const struct entry *ent = container_of(node, struct entry, node);
    if (!entry_expired(ent)) {
        out_str(scan->out, ent->data, node->key_len);
        scan->n++;
    }
    return true;
}

// We know the size of the reply beforehand, and do not begin one that is too big to be sent.
void do_keys(const struct slice *args, struct buf *out) {
    (void)args;
    if (!may_take(hm_scan_cost(db_keys()) + db_keys_size())) {
        return;
    }
    size_t size = k_arr_head + db_keys_size();
    if (size > k_max_msg && size - expired_listed_size() > k_max_msg) {
        out_too_big(out);
        return;
    }
    struct keys_scan scan = {.out = out};
    size_t arr = out_arr(out, 0);
    hm_scan(db_keys(), do_keys_one, &scan);
    out_arr_end(out, arr, scan.n);
}
