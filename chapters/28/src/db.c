// db.c: the key space
//
// Owns the databases: entries are put into them and taken out of them here alone. And the counts of
// what is done to keys, and the key of the hash.

#include <string.h>

#include "buf.h"
#include "hash.h"
#include "hashtable.h"
#include "hashtable_cursor.h"
#include "intrusive.h"
#include "mem.h"
#include "zset.h"
#include "zset_rank.h"

#include "server.h"

enum {
    k_small_db = 1000,     // the loop itself frees a table with no more keys
    k_copied_bytes = 64,   // bytes of a value that count for 1 when they are moved
    k_max_kept = 64 << 10, // bytes of misses for which room is kept
};

static struct hash_key hash_key;
static struct db dbs[k_databases];
static size_t changes;         // of keys and values so far
static struct lookups lookups; // of keys that were to be read
static struct buf misses; // those that are still to be published: each a struct miss, and its key
static size_t expired;    // keys that were deleted because their time was up
static uint64_t random_calls; // of random_bits()

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

// Returns how many changes there were.
size_t db_changes(void) {
    return changes;
}

// Returns how many lookups there were of keys that were to be read.
struct lookups get_lookups(void) {
    return lookups;
}

// Goes on counting from there. The misses since then are not published.
void set_lookups(struct lookups from) {
    lookups = from;
    buf_truncate(&misses, from.unpublished);
}

// Returns how many keys were deleted because their time was up.
size_t num_expired(void) {
    return expired;
}

// Counts lookups and expired keys from 0 again.
void db_reset_counts(void) {
    lookups = (struct lookups){.unpublished = lookups.unpublished};
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

// Tells whether there is such a key, and its time is not up. Changes nothing.
static bool key_exists(const struct db *db, struct lookup_key key) {
    struct db *there = &dbs[db_index(db)];
    struct hnode **link = hm_lookup(&there->keys, &key.node, entry_eq);
    return link && !entry_expired(there, container_of(*link, struct entry, node));
}

// Notes what has happened to the key; to all keys of the database where it is NULL. Each change comes
// through here, once it is made. To clients, a key past its deadline is gone already: deleting it
// changes nothing. Those that watch the key are told, those that want to hear of it, and the log.
void db_changed(const struct db *db, const struct slice *key, enum event event) {
    changes += event != EVENT_EXPIRED;
    expired += event == EVENT_EXPIRED;
    if (event != EVENT_EXPIRED) {
        effect_changed();
    } else {
        effect_of_expiry(db_index(db), key);
    }
    if (key && is_wanted(event)) {
        notify(db_index(db), key, event);
    }
    if (any_watched() && key) {
        watch_touch(db, hash_of_key(key), event == EVENT_EXPIRED);
    } else if (any_watched()) {
        watch_touch_all(db, key_exists);
    }
}

static uint32_t now_s(void) {
    return (uint32_t)(get_now() / 1000);
}

// Tells those that want to hear of it that the key is new.
static void key_is_new(const struct db *db, struct lookup_key key) {
    if (is_wanted(EVENT_NEW)) {
        notify(db_index(db), &(struct slice){key.key, key.node.key_len}, EVENT_NEW);
    }
}

// Puts a key into the database that is not in there, new or in the place of what has been taken out.
// Returns its entry, borrowed.
static struct entry *put(struct db *db, struct lookup_key key, enum value_type type,
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

// Adds a key that is not there yet. Returns its entry, borrowed.
struct entry *entry_add(struct db *db, struct lookup_key key, enum value_type type,
                        const struct slice *val) {
    key_is_new(db, key);
    return put(db, key, type, val);
}

// Puts an empty sorted set in the place of what has been taken out. Returns the set, borrowed.
struct zset *entry_put_zset(struct db *db, struct lookup_key key) {
    struct zset *zset = mem_alloc(sizeof(*zset));
    zset_init(zset, &hash_key);
    struct slice val = {(const uint8_t *)&zset, sizeof(zset)};
    put(db, key, T_ZSET, &val);
    return zset;
}

// Adds a key that is not there yet, with an empty sorted set. Returns the set, borrowed.
struct zset *entry_add_zset(struct db *db, struct lookup_key key) {
    key_is_new(db, key);
    return entry_put_zset(db, key);
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
    key_is_new(db, (struct lookup_key){ent->node, ent->data});
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

// Notes that the entry is used now.
static void use(struct entry *ent) {
    if (!turn_asks()) {
        ent->used_s = now_s();
    }
}

// Looks up a key that is to be changed, and notes that it is used: returns the address of the pointer
// that owns its entry, NULL where there is none. It is valid until the next call with the table. All
// commands that are given the name of a key and change it come through here.
struct hnode **lookup_write(struct db *db, struct lookup_key key) {
    struct hnode **link = find_alive(db, key);
    if (link) {
        use(entry_of(link));
    }
    return link;
}

// Tells whether there is such a key: that is no use of it, and no lookup to be counted. If its time is up, it is
// deleted, and those that watch it are told: they may free the bytes of `key`.
bool lookup_alive(struct db *db, struct lookup_key key) {
    return find_alive(db, key);
}

// A key that was to be read and is not there. Its bytes, `len` of them, are behind it.
struct miss {
    const struct db *db;
    size_t len;
};

// Notes a miss, to be published when the request is answered.
static void add_miss(const struct db *db, struct lookup_key key) {
    struct miss miss = {db, key.node.key_len};
    uint8_t *p = buf_reserve(&misses, sizeof(miss) + miss.len);
    memcpy(p, &miss, sizeof(miss));
    memcpy(p + sizeof(miss), key.key, miss.len);
    buf_commit(&misses, sizeof(miss) + miss.len);
    lookups.unpublished = buf_size(&misses);
}

// Forgets the misses that are still to be published: nobody wants to hear of them.
void forget_misses(void) {
    buf_truncate(&misses, 0);
    lookups.unpublished = 0;
}

// Publishes the misses of the request that is answered now.
void publish_misses(void) {
    for (size_t pos = 0; pos < buf_size(&misses);) {
        struct miss miss;
        memcpy(&miss, buf_data(&misses) + pos, sizeof(miss));
        struct slice key = {buf_data(&misses) + pos + sizeof(miss), miss.len};
        notify(db_index(miss.db), &key, EVENT_KEYMISS);
        pos += sizeof(miss) + miss.len;
    }
    forget_misses();
    if (misses.cap > k_max_kept) {
        buf_dispose(&misses);
    }
}

// Looks up a key that is only asked about, as by `ttl`: like lookup_read(), but it does not count as a use.
struct entry *lookup_peek(struct db *db, struct lookup_key key) {
    struct entry *ent = entry_of(find_alive(db, key));
    lookups.hits += ent != NULL;
    lookups.misses += ent == NULL;
    if (!ent && is_wanted(EVENT_KEYMISS)) {
        add_miss(db, key);
    }
    return ent;
}

// Looks up a key that is to be read, and notes that it is used: returns its entry, NULL where there is
// none. Counts whether it was there. All commands that are given the name of a key and read it come
// through here.
struct entry *lookup_read(struct db *db, struct lookup_key key) {
    struct entry *ent = lookup_peek(db, key);
    if (ent) {
        use(ent);
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
        ent = put(db, key, T_STR, val);
    } else {
        ent = entry_add(db, key, T_STR, val);
    }
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
        deadlines_leave(db);
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
    buf_dispose(&misses);
}
