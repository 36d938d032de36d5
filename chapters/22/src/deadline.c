// deadline.c: when keys expire
//
// Owns the time that commands go by. The deadlines are in the databases.

#include <stdlib.h>

#include "hashtable.h"
#include "intrusive.h"
#include "mem.h"

#include "server.h"

static int64_t now_ms; // what the wall clock said when we looked last

// Sets the time that commands go by.
void set_now(int64_t ms) {
    now_ms = ms;
}

// Returns the time that commands go by.
int64_t get_now(void) {
    return now_ms;
}

// An hnode_eq: compares the entries of two deadlines.
static bool deadline_eq(const struct hnode *node, const struct hnode *key) {
    return container_of(node, struct deadline, node)->ent ==
           container_of(key, struct deadline, node)->ent;
}

// Returns a key to look up the deadline of the entry.
static struct deadline deadline_key(struct entry *ent) {
    return (struct deadline){
        .node = {.hcode = ent->node.hcode, .key_len = ent->node.key_len},
        .ent = ent,
    };
}

// Returns the deadline of an entry that has one, borrowed. Cost: O(1) on average.
struct deadline *find_deadline(struct db *db, struct entry *ent) {
    struct deadline key = deadline_key(ent);
    struct hnode **link = hm_lookup(&db->expires, &key.node, deadline_eq);
    return container_of(*link, struct deadline, node);
}

// Returns when the time of the entry is up, k_no_deadline where that is never.
int64_t entry_deadline(struct db *db, struct entry *ent) {
    return ent->has_deadline ? find_deadline(db, ent)->at_ms : k_no_deadline;
}

// Tells whether the entry is past its deadline: gone, but for the memory that it takes.
bool entry_expired(struct db *db, struct entry *ent) {
    return ent->has_deadline && now_ms > find_deadline(db, ent)->at_ms;
}

// Lets the entry live for ever. Returns whether it had a deadline.
bool entry_clear_deadline(struct db *db, struct entry *ent) {
    if (!ent->has_deadline) {
        return false;
    }
    struct deadline key = deadline_key(ent);
    free(container_of(hm_pop(&db->expires, &key.node, deadline_eq), struct deadline, node));
    ent->has_deadline = false;
    return true;
}

// Gives the entry a deadline in place of the one that it has, if any; none where it is k_no_deadline.
void entry_set_deadline(struct db *db, struct entry *ent, int64_t at_ms) {
    if (at_ms == k_no_deadline) {
        entry_clear_deadline(db, ent);
    } else if (ent->has_deadline) {
        find_deadline(db, ent)->at_ms = at_ms;
    } else {
        struct deadline *deadline = mem_alloc(sizeof(*deadline));
        *deadline = deadline_key(ent);
        deadline->at_ms = at_ms;
        hm_insert(&db->expires, &deadline->node);
        ent->has_deadline = true;
    }
}

static bool add_if_expired(struct hnode *node, void *arg) {
    size_t *size = arg;
    const struct deadline *deadline = container_of(node, struct deadline, node);
    if (now_ms > deadline->at_ms) {
        *size += entry_listed_size(deadline->ent);
    }
    return true;
}

// Returns how many bytes `keys` would write for the keys that have expired and are still there.
// Cost: O(keys with a deadline).
size_t expired_listed_size(const struct db *db) {
    size_t size = 0;
    hm_scan(&db->expires, add_if_expired, &size);
    return size;
}

// Frees a deadline: for hm_scan().
bool free_deadline(struct hnode *node, void *arg) {
    (void)arg;
    free(container_of(node, struct deadline, node));
    return true;
}

// Frees all deadlines of the database. The entries are not told: see db_clear().
void deadlines_free(struct db *db) {
    hm_scan(&db->expires, free_deadline, NULL);
    hm_destroy(&db->expires);
}
