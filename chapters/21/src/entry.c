// entry.c: one key and its value
//
// How an entry is laid out in memory. Has no state.

#include <string.h>

#include "reply.h"
#include "zset.h"

#include "server.h"

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
