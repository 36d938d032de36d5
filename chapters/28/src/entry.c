// entry.c: one key and its value
//
// How an entry is laid out in memory. Has no state.

#include <string.h>

#include "reply.h"
#include "zset.h"
#include "zset_rank.h"

#include "server.h"

enum {
    k_small_pairs = 128, // in a sorted set that Redis keeps in one piece
    k_small_name = 64,   // bytes of their names
};

// Returns the key, borrowed from the entry.
struct slice entry_key(const struct entry *ent) {
    return (struct slice){ent->data, ent->node.key_len};
}

// Returns the value, borrowed from the entry.
struct slice entry_val(const struct entry *ent) {
    return (struct slice){ent->data + ent->node.key_len, ent->val_len};
}

// Returns the sorted set of a T_ZSET, borrowed from the entry.
struct zset *entry_zset(const struct entry *ent) {
    struct zset *zset;
    memcpy(&zset, entry_val(ent).data, sizeof(zset)); // the bytes are not aligned
    return zset;
}

// Returns how many pairs the entry has, 0 where its value is no sorted set.
size_t entry_pairs(const struct entry *ent) {
    return ent->type == T_ZSET ? zset_size(entry_zset(ent)) : 0;
}

// Returns how many bytes `keys` writes for the entry.
size_t entry_listed_size(const struct entry *ent) {
    return str_size(ent->node.key_len);
}

// Tells whether Redis would keep the set in one piece: clients see it, here and there.
bool is_small_set(const struct zset *zset) {
    bool small = zset_size(zset) <= k_small_pairs;
    struct znode *znode = zset_at(zset, 0);
    for (; small && znode; znode = znode_next(znode)) {
        small = znode->node.key_len <= k_small_name;
    }
    return small;
}

const char *entry_type_name(const struct entry *ent) {
    return ent->type == T_STR ? "string" : "zset";
}
