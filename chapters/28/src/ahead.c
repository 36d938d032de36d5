// ahead.c: what the requests of a batch will read, fetched before they are answered
//
// Has no state, and changes none. A compiler drops calls of functions that only prefetch, unless they
// are inlined (see lookahead.h). But it does not know what fetch_ahead() does where that is called:
// in another file.

#include "hashtable.h"
#include "intrusive.h"
#include "lookahead.h"
#include "zset.h"

#include "server.h"

enum {
    k_in_cache = 8192, // a structure of so many nodes is in the cache, or nearly
};

// Makes the processor fetch what the requests will read in large sorted sets: the nodes on the way
// down to their scores, and the pairs with their names. zsets has the set of each request, or NULL.
LOOKAHEAD void fetch_pairs_ahead(const struct batch *batch, struct zset *const *zsets) {
    struct zwalk scores[k_lookahead];
    struct hwalk names[k_lookahead];
    int nscores = 0, nnames = 0;
    for (int i = 0; i < batch->n; i++) {
        __builtin_prefetch(zsets[i] ? zsets[i]->root : NULL);
    }
    for (int i = 0; i < batch->n; i++) {
        const struct slice *args = batch->requests[i].args;
        int nargs = batch->requests[i].nargs;
        if (!zsets[i] || zset_size(zsets[i]) <= k_in_cache || nargs < 3) {
            continue;
        }
        if (nargs > 3 && args[2].len <= k_long_arg &&
            parse_double(&args[2], &scores[nscores].score)) {
            scores[nscores++].tree = zsets[i]->root;
        }
        const struct slice *name = &args[nargs - 1];
        if (nargs <= 4 && name->len <= k_long_arg) {
            uint32_t hcode = hash_of_key(name).node.hcode;
            names[nnames++] = hwalk_begin(&zsets[i]->names, hcode);
        }
    }
    hwalk_all(names, nnames);
    zwalk_all(scores, nscores);
}

// Makes the processor fetch what the requests of the batch will read: the first step of every
// lookup, then the second of each, and so on. No pointer found here is kept: an answer may move or
// free what the next request reads.
void fetch_ahead(const struct batch *batch) {
    struct hwalk keys[k_lookahead];
    struct zset *zsets[k_lookahead];
    bool any_zset = false;
    const struct hmap *table = &batch->requests[0].conn->db->keys;
    bool in_cache = hm_size(table) <= k_in_cache;
    for (int i = 0; i < batch->n; i++) {
        const struct request *request = &batch->requests[i];
        keys[i] = (struct hwalk){0};
        if (request->key.key && (!in_cache || request->nargs > 2)) { // its sorted set may be large
            keys[i] = hwalk_begin(table, request->key.node.hcode);
        }
    }
    hwalk_all(keys, batch->n);
    for (int i = 0; i < batch->n; i++) {
        zsets[i] = NULL;
        if (keys[i].node) {
            const struct entry *ent = container_of(keys[i].node, struct entry, node);
            struct slice val = entry_val(ent); // its end may be in another cache line
            __builtin_prefetch(&val.data[val.len > 0 ? val.len - 1 : 0]);
            if (ent->type == T_ZSET) {
                zsets[i] = entry_zset(ent);
                __builtin_prefetch(zsets[i]);
                any_zset = true;
            }
        }
    }
    if (any_zset) {
        fetch_pairs_ahead(batch, zsets);
    }
}

// Has the processor fetch the keys of a request that names several, as `mget` and `del` do: side by side,
// as far as k_lookahead. A hint, as fetch_ahead() is.
void fetch_keys_ahead(const struct request *req) {
    const struct command *command = req->command;
    const struct hmap *table = &req->conn->db->keys;
    if (!command || command->last != -1 || hm_size(table) <= k_in_cache) {
        return;
    }
    struct hwalk keys[k_lookahead];
    int n = 0;
    for (int i = command->first; i < req->nargs && n < k_lookahead; i += command->step) {
        if (req->args[i].len <= k_long_arg) {
            keys[n++] = hwalk_begin(table, hash_of_key(&req->args[i]).node.hcode);
        }
    }
    hwalk_all(keys, n);
    for (int i = 0; i < n; i++) {
        if (keys[i].node) {
            const struct entry *ent = container_of(keys[i].node, struct entry, node);
            struct slice val = entry_val(ent);
            __builtin_prefetch(&val.data[val.len > 0 ? val.len - 1 : 0]);
        }
    }
}
