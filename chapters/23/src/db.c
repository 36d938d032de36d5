// db.c: the key space
//
// Owns the databases: entries are put into them and taken out of them here alone. And the counts of
// what is done to keys, and the key of the hash.

#include <string.h>

#include "hash.h"
#include "hashtable.h"
#include "hashtable_cursor.h"
#include "intrusive.h"
#include "mem.h"
#include "zset.h"
#include "zset_rank.h"

#include "server.h"

enum {
    k_small_db = 1000,   // the loop itself frees a table with no more keys
    k_copied_bytes = 64, // bytes of a value that count for 1 when they are moved
};

static struct hash_key hash_key;
static struct db dbs[k_databases];
static size_t changes;         // of keys and values so far
static struct lookups lookups; // of keys that were to be read
static size_t expired;         // keys that were deleted because their time was up
static uint64_t random_calls;  // of random_bits()

// Makes the key space ready. Ends the program if it cannot.
void db_start(void) {
    hash_key = hash_key_init();
}

// Returns the database with the index.
struct db *db_at(int index) {
    return &dbs[index];
}

// Returns the index of the database.
int db_index(const struct db *db) {
    return (int)(db - dbs);
}

// Notes what has happened to the key; to all keys of the database where it is NULL. Each change comes
// through here, once it is made. To clients, a key past its deadline is gone already: deleting it
// changes nothing.
void db_changed(const struct db *db, const struct slice *key, enum event event) {
    (void)db, (void)key;
    changes += event != EVENT_EXPIRED;
    expired += event == EVENT_EXPIRED;
}

// Returns how many changes there were.
size_t db_changes(void) {
    return changes;
}

// Returns how many lookups there were of keys that were to be read.
struct lookups get_lookups(void) {
    return lookups;
}

// Goes on counting from there.
void set_lookups(struct lookups from) {
    lookups = from;
}

// Returns how many keys were deleted because their time was up.
size_t num_expired(void) {
    return expired;
}

// Counts lookups and expired keys from 0 again.
void db_reset_counts(void) {
    lookups = (struct lookups){0};
    expired = 0;
}

// Returns a number that nobody can foresee who does not know the key of the hash.
uint64_t random_bits(void) {
    uint64_t n = ++random_calls;
    uint64_t high = str_hash(&hash_key, (const uint8_t *)&n, sizeof(n));
    n = ~n;
    return high << 32 | str_hash(&hash_key, (const uint8_t *)&n, sizeof(n));
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

static uint32_t now_s(void) {
    return (uint32_t)(get_now() / 1000);
}

// Adds a key that is not there yet. Returns its entry, borrowed.
struct entry *entry_add(struct db *db, struct lookup_key key, enum value_type type,
                        const struct slice *val) {
    struct entry *ent = mem_alloc(sizeof(*ent) + key.node.key_len + val->len);
    ent->node = key.node;
    ent->has_deadline = false;
    ent->used_s = now_s();
    ent->type = type;
    ent->val_len = (uint32_t)val->len;
    memcpy(ent->data, key.key, key.node.key_len);
    memcpy(ent->data + key.node.key_len, val->data, val->len);
    hm_insert(&db->keys, &ent->node);
    db->keys_size += entry_listed_size(ent);
    return ent;
}

// Adds a key that is not there yet, with an empty sorted set. Returns the set, borrowed.
struct zset *entry_add_zset(struct db *db, struct lookup_key key) {
    struct zset *zset = mem_alloc(sizeof(*zset));
    zset_init(zset, &hash_key);
    struct slice val = {(const uint8_t *)&zset, sizeof(zset)};
    entry_add(db, key, T_ZSET, &val);
    return zset;
}

// An entry can go in four ways:
//
//   entry_detach   out of its database: the caller owns it now, and puts it elsewhere or frees it
//   entry_free     one that is in no database: freed, now or by a worker (lazyfree.c)
//   entry_drop     both: freed, as a part of a change that the caller notes
//   entry_delete   both, and noted as a change of its own

// Takes the entry out of the database. It has no deadline any more.
void entry_detach(struct db *db, struct entry *ent) {
    entry_clear_deadline(db, ent);
    hm_pop(&db->keys, &ent->node, hnode_same);
    hm_shrink(&db->keys);
    db->keys_size -= entry_listed_size(ent);
}

// Adds an entry that has been detached. Its key is not there yet.
void entry_attach(struct db *db, struct entry *ent, int64_t deadline_ms) {
    hm_insert(&db->keys, &ent->node);
    db->keys_size += entry_listed_size(ent);
    entry_set_deadline(db, ent, deadline_ms);
}

// Returns for how many seconds nobody has used the entry: 0 where the clock was set back.
int64_t entry_idle_s(const struct entry *ent) {
    int32_t idle_s = (int32_t)(now_s() - ent->used_s);
    return idle_s > 0 ? idle_s : 0;
}

// Takes the entry out of the database, and frees it.
void entry_drop(struct db *db, struct entry *ent) {
    entry_detach(db, ent);
    entry_free(ent);
}

// Deletes the entry, and notes why: EVENT_DEL or EVENT_EXPIRED.
void entry_delete(struct db *db, struct entry *ent, enum event event) {
    struct slice key = entry_key(ent);
    entry_detach(db, ent);
    db_changed(db, &key, event);
    entry_free(ent);
}

// Returns the address of the pointer that owns the entry with the key, NULL where there is none. Deletes
// a key whose time is up.
static struct hnode **find_alive(struct db *db, struct lookup_key key) {
    struct hnode **link = hm_lookup(&db->keys, &key.node, entry_eq);
    if (!link) {
        return NULL;
    }
    struct entry *ent = container_of(*link, struct entry, node);
    if (entry_expired(db, ent)) {
        entry_delete(db, ent, EVENT_EXPIRED);
        return NULL;
    }
    return link;
}

// Returns the entry that `link` owns, NULL where there is no link.
struct entry *entry_of(struct hnode **link) {
    return link ? container_of(*link, struct entry, node) : NULL;
}

// Looks up a key that is to be changed, and notes that it is used: returns the address of the pointer
// that owns its entry, NULL where there is none. It is valid until the next call with the table. All
// commands that are given the name of a key and change it come through here.
struct hnode **lookup_write(struct db *db, struct lookup_key key) {
    struct hnode **link = find_alive(db, key);
    if (link) {
        entry_of(link)->used_s = now_s();
    }
    return link;
}

// Looks up a key that is only asked about, as by `ttl`: like lookup_read(), but it does not count as a use.
struct entry *lookup_peek(struct db *db, struct lookup_key key) {
    struct entry *ent = entry_of(find_alive(db, key));
    lookups.hits += ent != NULL;
    lookups.misses += ent == NULL;
    return ent;
}

// Looks up a key that is to be read, and notes that it is used: returns its entry, NULL where there is
// none. Counts whether it was there. All commands that are given the name of a key and read it come
// through here.
struct entry *lookup_read(struct db *db, struct lookup_key key) {
    struct entry *ent = lookup_peek(db, key);
    if (ent) {
        ent->used_s = now_s();
    }
    return ent;
}

// Writes `val` into the string of the entry that `link` owns, from `offset` on, and ends it there.
// Returns the entry. It may move, so the pointer that owns it has to follow, and its deadline.
struct entry *entry_write(struct db *db, struct hnode **link, size_t offset,
                          const struct slice *val) {
    struct entry *ent = container_of(*link, struct entry, node);
    size_t len = offset + val->len;
    if (ent->val_len != len) {
        struct deadline *deadline = ent->has_deadline ? find_deadline(db, ent) : NULL;
        turn_add(offset / k_copied_bytes); // realloc may copy all that stays
        ent = mem_realloc(ent, sizeof(*ent) + ent->node.key_len + len);
        ent->val_len = (uint32_t)len;
        *link = &ent->node;
        if (deadline) {
            deadline->ent = ent;
        }
    }
    memcpy(ent->data + ent->node.key_len + offset, val->data, val->len);
    return ent;
}

// Writes `val` over a part of that string, from `offset` on; what is behind it stays. Where the string
// has ended before, there are zeros in between. Returns the entry, as entry_write() does.
struct entry *entry_patch(struct db *db, struct hnode **link, size_t offset,
                          const struct slice *val) {
    struct entry *ent = entry_of(link);
    size_t len = ent->val_len;
    if (offset + val->len < len) {
        memcpy(ent->data + ent->node.key_len + offset, val->data, val->len);
        return ent;
    }
    ent = entry_write(db, link, offset, val);
    if (offset > len) {
        memset(ent->data + ent->node.key_len + len, 0, offset - len);
    }
    return ent;
}

// Gives the key the value, where `link` is what lookup_write() has returned for it. It keeps its
// deadline, if it has one. Returns its entry.
struct entry *entry_set(struct db *db, struct lookup_key key, struct hnode **link,
                        const struct slice *val) {
    int64_t deadline_ms = k_no_deadline;
    struct entry *ent = entry_of(link);
    if (ent && entry_fits(ent, val->len)) {
        return entry_write(db, link, 0, val);
    }
    if (ent) {
        deadline_ms = entry_deadline(db, ent);
        entry_drop(db, ent);
    }
    ent = entry_add(db, key, T_STR, val);
    entry_set_deadline(db, ent, deadline_ms);
    return ent;
}

// Adds a key that is not there yet, with a value like that of `ent`. Returns its entry.
struct entry *entry_copy(struct db *db, struct lookup_key key, const struct entry *ent) {
    if (ent->type == T_ZSET) {
        const struct zset *from = entry_zset(ent);
        struct zset *zset = entry_add_zset(db, key);
        struct znode *znode = zset_at(from, 0);
        for (; znode; znode = znode_next(znode)) {
            zset_add(zset, znode->name, znode->node.key_len, znode->score);
        }
        return entry_of(lookup_write(db, key));
    }
    struct slice val = entry_val(ent);
    return entry_add(db, key, T_STR, &val);
}

static bool free_entry(struct hnode *node, void *arg) {
    (void)arg;
    entry_free(container_of(node, struct entry, node));
    return true;
}

static bool entry_count_one(struct hnode *node, void *arg) {
    size_t *n = arg;
    const struct entry *ent = container_of(node, struct entry, node);
    *n += 1 + entry_cost(ent);
    return *n <= k_max_freed;
}

// Frees all that is in the database.
static void db_clear(struct db *db) {
    deadlines_free(db);
    hm_scan(&db->keys, free_entry, NULL);
    hm_destroy(&db->keys);
    *db = (struct db){0};
}

// Deletes all keys of the database. If they are many, a worker gets the tables as a whole and frees
// them.
void db_flush(struct db *db) {
    size_t size = hm_size(&db->keys);
    if (size <= k_small_db) {
        db_clear(db);
    } else {
        struct db *gone = mem_alloc(sizeof(*gone));
        *gone = *db;
        *db = (struct db){0};
        db_free(gone);
    }
    if (size > 0) {
        db_changed(db, NULL, EVENT_FLUSHDB);
    }
}

// Frees all keys at exit, so that a leak checker reports real leaks alone. Very many keys and pairs
// are left to the kernel: it takes a program's memory back faster than we can free it.
void entry_clear(void) {
    size_t n = 0;
    for (int i = 0; i < k_databases; i++) {
        hm_scan(&dbs[i].keys, entry_count_one, &n);
    }
    for (int i = 0; i < k_databases && n <= k_max_freed; i++) {
        db_clear(&dbs[i]);
    }
}
