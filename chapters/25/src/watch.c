// watch.c: who watches which key
//
// Owns the table of the keys that are watched. A watch is in two lists: of its transaction, until that
// ends, and of its key, until that changes. What they watch is a name in a database, whether or not a
// key has it.

#include <stdlib.h>
#include <string.h>

#include "dlist.h"
#include "hashtable.h"
#include "hashtable_cursor.h"
#include "intrusive.h"
#include "mem.h"

#include "server.h"

enum {
    k_watch_cost = 16,       // what it counts for to come by a watch
    k_max_watched = 4 << 20, // bytes of what a connection watches
};

// A key that is watched.
struct watched {
    struct hnode node;
    struct db *db;
    struct dlist watches;
    uint8_t key[]; // node.key_len bytes
};

struct watch {
    struct hnode hnode;    // by its key, in the table of the transaction
    struct dlist node;     // among those of the transaction
    struct dlist key_node; // among those of the key
    struct transaction *transaction;
    struct watched *watched; // NULL once watch_touch() has taken the watch off
    bool existed;            // whether the key was there when the watch began
};

// What a watched key is looked up by.
struct watched_key {
    struct hnode node;
    const struct db *db;
    const uint8_t *key;
};

static struct hmap watched_keys;
static size_t num_watches; // in the lists of all keys

// An hnode_eq: compares a watched key with a watched_key.
static bool watched_eq(const struct hnode *node, const struct hnode *key) {
    const struct watched *watched = container_of(node, struct watched, node);
    const struct watched_key *lookup = container_of(key, struct watched_key, node);
    return watched->db == lookup->db && memcmp(watched->key, lookup->key, node->key_len) == 0;
}

// Returns the watched key, NULL if nobody watches it.
static struct watched *find_watched(const struct db *db, struct lookup_key key) {
    struct watched_key lookup = {key.node, db, key.key};
    struct hnode **link = hm_lookup(&watched_keys, &lookup.node, watched_eq);
    return link ? container_of(*link, struct watched, node) : NULL;
}

// An hnode_eq: compares which key two watches are of.
static bool watch_eq(const struct hnode *node, const struct hnode *key) {
    return container_of(node, struct watch, hnode)->watched ==
           container_of(key, struct watch, hnode)->watched;
}

// Takes the key, whose list is empty, out of the table.
static void forget(struct watched *watched) {
    hm_pop(&watched_keys, &watched->node, hnode_same);
    hm_shrink(&watched_keys);
    free(watched);
}

// Has the transaction watch the key, which exists or does not. Returns whether it may, or does already.
bool watch_key(struct transaction *transaction, struct db *db, struct lookup_key key, bool exists) {
    size_t size = sizeof(struct watched) + sizeof(struct watch) + key.node.key_len;
    struct watched *watched = find_watched(db, key);
    struct watch same = {.hnode = key.node, .watched = watched};
    if (watched && hm_lookup(&transaction->table, &same.hnode, watch_eq)) {
        return true;
    }
    if (transaction->watched_size + size > k_max_watched) {
        return false;
    }
    if (!watched) {
        watched = mem_alloc(sizeof(*watched) + key.node.key_len);
        watched->node = key.node;
        watched->db = db;
        dlist_init(&watched->watches);
        memcpy(watched->key, key.key, key.node.key_len);
        hm_insert(&watched_keys, &watched->node);
    }
    struct watch *watch = mem_alloc(sizeof(*watch));
    *watch =
        (struct watch){key.node, .transaction = transaction, .watched = watched, .existed = exists};
    hm_insert(&transaction->table, &watch->hnode);
    dlist_insert_before(&watched->watches, &watch->key_node);
    dlist_insert_before(&transaction->watches, &watch->node);
    transaction->watched_size += size;
    num_watches++;
    return true;
}

// Ends all watches of the transaction.
void unwatch(struct transaction *transaction) {
    while (!dlist_empty(&transaction->watches)) {
        struct watch *watch = container_of(transaction->watches.next, struct watch, node);
        dlist_detach(&watch->node);
        if (watch->watched) {
            dlist_detach(&watch->key_node);
            num_watches--;
            if (dlist_empty(&watch->watched->watches)) {
                forget(watch->watched);
            }
        }
        free(watch);
        turn_add(k_watch_cost);
    }
    hm_destroy(&transaction->table);
    transaction->watched_size = 0;
    transaction->touched = false;
}

// Tells the transactions that watch the key: it has changed. They do not watch it any more. That its time
// was up is no change to those for whom it was not there before: `swapdb` may have brought it, stale.
void watch_touch(const struct db *db, struct lookup_key key, bool expired) {
    struct watched *watched = find_watched(db, key);
    if (!watched) {
        return;
    }
    struct dlist *list = &watched->watches;
    for (struct dlist *cur = list->next, *next; cur != list; cur = next) {
        struct watch *watch = container_of(cur, struct watch, key_node);
        next = cur->next;
        turn_add(k_watch_cost);
        if (watch->existed || !expired) {
            dlist_detach(cur);
            watch->watched = NULL;
            watch->transaction->touched = true;
            num_watches--;
        }
    }
    if (dlist_empty(list)) {
        forget(watched);
    }
}

// What watch_touch_all() hands to each key.
struct touch {
    const struct db *db;
    bool (*exists)(const struct db *db, struct lookup_key key);
};

static bool touch_one(struct hnode *node, void *arg) {
    const struct touch *touch = arg;
    struct watched *watched = container_of(node, struct watched, node);
    if (watched->db != touch->db) {
        return true;
    }
    bool exists = touch->exists(touch->db, (struct lookup_key){*node, watched->key});
    struct dlist *list = &watched->watches;
    for (struct dlist *cur = list->next; cur != list; cur = cur->next) {
        struct watch *watch = container_of(cur, struct watch, key_node);
        if (watch->existed || exists) {
            watch->transaction->touched = true;
        }
    }
    return true;
}

// Tells the transactions that watch keys of the database: all of it has been replaced, by what has the
// keys of which `exists` says so. A key that was not there and is not there has not changed.
void watch_touch_all(const struct db *db,
                     bool (*exists)(const struct db *db, struct lookup_key key)) {
    struct touch touch = {db, exists};
    hm_scan(&watched_keys, touch_one, &touch);
}

// Returns whether anybody watches anything.
bool any_watched(void) {
    return num_watches > 0;
}

// Returns the cost of watch_touch_all().
size_t watches_cost(void) {
    return hm_scan_cost(&watched_keys) + num_watches * k_watch_cost;
}

// Has f() look at all keys that the transaction watches and that have not changed yet.
void each_watched(struct transaction *transaction,
                  bool (*f)(struct db *db, struct lookup_key key)) {
    struct dlist *list = &transaction->watches;
    for (struct dlist *cur = list->next; cur != list && !transaction->touched; cur = cur->next) {
        const struct watch *watch = container_of(cur, struct watch, node);
        const struct watched *watched = watch->watched;
        turn_add(k_watch_cost);
        f(watched->db, (struct lookup_key){watched->node, watched->key});
    }
}

// Frees the table, when there are no connections any more.
void watch_end(void) {
    hm_destroy(&watched_keys);
}
