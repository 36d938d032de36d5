// db.c: the key space
//
// Owns the table of all keys: entries are put into it and taken out of it here alone.

#include <string.h>

#include "hash.h"
#include "hashtable.h"
#include "heap.h"
#include "intrusive.h"
#include "mem.h"
#include "zset.h"

#include "server.h"

enum {
    k_small_db = 1000,   // the loop itself frees a table with no more keys
    k_copied_bytes = 64, // bytes of a value that count for 1 when they are moved
};

static struct hash_key hash_key;
static struct hmap db;
static size_t keys_size; // bytes that `keys` writes for all that is in db, if none has expired

// Makes the key space ready. Ends the program if it cannot.
void db_start(void) {
    hash_key = hash_key_init();
}

// Returns the table of all keys, borrowed: to be looked at, not to be changed.
const struct hmap *db_keys(void) {
    return &db;
}

// Returns how many bytes `keys` writes for all keys, if none has expired. Cost: O(1).
size_t db_keys_size(void) {
    return keys_size;
}

// Returns the key with its hash.
struct lookup_key hash_of_key(const struct slice *key) {
    uint32_t hcode = str_hash(&hash_key, key->data, key->len);
    return (struct lookup_key){
        .node = {.hcode = hcode, .key_len = (uint32_t)key->len},
        .key = key->data,
    };
}

// An hnode_eq: compares the bytes of an entry's key with those of a lookup_key.
static bool entry_eq(const struct hnode *node, const struct hnode *key) {
    const struct entry *ent = container_of(node, struct entry, node);
    const struct lookup_key *lookup = container_of(key, struct lookup_key, node);
    return memcmp(ent->data, lookup->key, node->key_len) == 0;
}

// Adds a key that is not there yet. Returns its entry, borrowed.
struct entry *entry_add(struct lookup_key key, enum value_type type, const struct slice *val) {
    struct entry *ent = mem_alloc(sizeof(*ent) + key.node.key_len + val->len);
    ent->node = key.node;
    ent->heap_idx = k_heap_none;
    ent->type = type;
    ent->val_len = (uint32_t)val->len;
    memcpy(ent->data, key.key, key.node.key_len);
    memcpy(ent->data + key.node.key_len, val->data, val->len);
    hm_insert(&db, &ent->node);
    keys_size += entry_listed_size(ent);
    return ent;
}

// Adds a key that is not there yet, with an empty sorted set. Returns the set, borrowed.
struct zset *entry_add_zset(struct lookup_key key) {
    struct zset *zset = mem_alloc(sizeof(*zset));
    zset_init(zset, &hash_key);
    struct slice val = {(const uint8_t *)&zset, sizeof(zset)};
    entry_add(key, T_ZSET, &val);
    return zset;
}

// Removes the TTL of an entry that has left the table, and frees the entry.
static void entry_del(struct entry *ent) {
    entry_clear_ttl(ent);
    keys_size -= entry_listed_size(ent);
    entry_free(ent);
}

// Takes the entry out of the table, and frees it.
void entry_drop(struct entry *ent) {
    hm_pop(&db, &ent->node, hnode_same);
    entry_del(ent);
}

// Removes the key. Returns whether it was there.
bool entry_remove(struct lookup_key key) {
    struct hnode *node = hm_pop(&db, &key.node, entry_eq);
    if (!node) {
        return false;
    }
    struct entry *ent = container_of(node, struct entry, node);
    bool expired = entry_expired(ent);
    entry_del(ent);
    return !expired;
}

// Returns the address of the pointer that owns the entry with the key, NULL where there is none. It
// is valid until the next call with the table. Removes an entry that has expired.
struct hnode **entry_link(struct lookup_key key) {
    struct hnode **link = hm_lookup(&db, &key.node, entry_eq);
    if (!link) {
        return NULL;
    }
    struct entry *ent = container_of(*link, struct entry, node);
    if (entry_expired(ent)) {
        entry_drop(ent);
        return NULL;
    }
    return link;
}

// Returns the entry that `link` owns, NULL where there is no link.
struct entry *entry_of(struct hnode **link) {
    return link ? container_of(*link, struct entry, node) : NULL;
}

// Returns the entry with the key, NULL where there is none. Removes one that has expired.
struct entry *entry_lookup(struct lookup_key key) {
    return entry_of(entry_link(key));
}

// Writes `val` into the string of the entry that `link` owns, from `offset` on, and ends it there.
// Returns the entry. It may move, so the pointer that owns it has to follow, and that of its
// deadline.
struct entry *entry_write(struct hnode **link, size_t offset, const struct slice *val) {
    struct entry *ent = container_of(*link, struct entry, node);
    size_t len = offset + val->len;
    if (ent->val_len != len) {
        turn_add(offset / k_copied_bytes); // realloc may copy all that stays
        ent = mem_realloc(ent, sizeof(*ent) + ent->node.key_len + len);
        ent->val_len = (uint32_t)len;
        *link = &ent->node;
        entry_moved(ent);
    }
    memcpy(ent->data + ent->node.key_len + offset, val->data, val->len);
    return ent;
}

// Writes `val` over a part of that string, from `offset` on; what is behind it stays. Where the string
// has ended before, there are zeros in between. Returns the entry, as entry_write() does.
struct entry *entry_patch(struct hnode **link, size_t offset, const struct slice *val) {
    struct entry *ent = entry_of(link);
    size_t len = ent->val_len;
    if (offset + val->len < len) {
        memcpy(ent->data + ent->node.key_len + offset, val->data, val->len);
        return ent;
    }
    ent = entry_write(link, offset, val);
    if (offset > len) {
        memset(ent->data + ent->node.key_len + len, 0, offset - len);
    }
    return ent;
}

// Gives the key the value, whether or not it had one, and takes its TTL away. Returns its entry.
struct entry *entry_set(struct lookup_key key, const struct slice *val) {
    struct hnode **link = hm_lookup(&db, &key.node, entry_eq);
    if (link && !entry_fits(entry_of(link), val->len)) {
        entry_remove(key);
        link = NULL;
    }
    if (!link) {
        return entry_add(key, T_STR, val);
    }
    entry_clear_ttl(entry_of(link));
    return entry_write(link, 0, val);
}

static bool entry_clear_one(struct hnode *node, void *arg) {
    (void)arg;
    struct entry *ent = container_of(node, struct entry, node);
    ent->heap_idx = k_heap_none; // the whole heap has been freed already
    entry_del(ent);
    return true;
}

static bool entry_count_one(struct hnode *node, void *arg) {
    size_t *n = arg;
    const struct entry *ent = container_of(node, struct entry, node);
    *n += 1 + entry_cost(ent);
    return *n <= k_max_freed;
}

// Frees all entries in the table.
static void db_clear(void) {
    deadlines_free();
    hm_scan(&db, entry_clear_one, NULL);
    hm_destroy(&db);
}

// Deletes all keys. If they are many, a worker gets the table as a whole and frees it.
void db_flush(void) {
    size_t size = hm_size(&db);
    if (size <= k_small_db) {
        db_clear();
        return;
    }
    struct hmap *gone = mem_alloc(sizeof(*gone));
    *gone = db;
    db = (struct hmap){0};
    keys_size = 0;
    deadlines_free();
    table_free(gone);
}

// Frees all keys at exit, so that a leak checker reports real leaks alone. Very many keys and pairs
// are left to the kernel: it takes a program's memory back faster than we can free it.
void entry_clear(void) {
    size_t n = 0;
    hm_scan(&db, entry_count_one, &n);
    if (n > k_max_freed) {
        return;
    }
    db_clear();
}
