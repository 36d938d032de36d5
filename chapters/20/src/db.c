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

// Adds a key that is not there yet.
static void entry_add(struct lookup_key key, enum value_type type, const struct slice *val) {
    struct entry *ent = mem_alloc(sizeof(*ent) + key.node.key_len + val->len);
    ent->node = key.node;
    ent->heap_idx = k_heap_none;
    ent->type = type;
    ent->val_len = (uint32_t)val->len;
    memcpy(ent->data, key.key, key.node.key_len);
    memcpy(ent->data + key.node.key_len, val->data, val->len);
    hm_insert(&db, &ent->node);
    keys_size += entry_listed_size(ent);
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

// Gives the key the value, whether or not it had one, and takes its TTL away.
void entry_set(struct lookup_key key, const struct slice *val) {
    struct hnode **link = hm_lookup(&db, &key.node, entry_eq);
    if (link && !entry_fits(entry_of(link), val->len)) {
        entry_remove(key);
        link = NULL;
    }
    if (!link) {
        entry_add(key, T_STR, val);
        return;
    }
    struct entry *ent = entry_of(link);
    entry_clear_ttl(ent);
    if (ent->val_len != val->len) {
        // The entry may move, so the pointer that owns it has to follow.
        ent = mem_realloc(ent, sizeof(*ent) + ent->node.key_len + val->len);
        ent->val_len = (uint32_t)val->len;
        *link = &ent->node;
    }
    memcpy(ent->data + ent->node.key_len, val->data, val->len);
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

// Frees all keys at exit, so that a leak checker reports real leaks alone. Very many keys and pairs
// are left to the kernel: it takes a program's memory back faster than we can free it.
void entry_clear(void) {
    size_t n = 0;
    hm_scan(&db, entry_count_one, &n);
    if (n > k_max_freed) {
        return;
    }
    deadlines_free();
    hm_scan(&db, entry_clear_one, NULL);
    hm_destroy(&db);
}
