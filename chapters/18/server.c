// server.c, chapter 18: the key space as Redis keeps it
//
// A key whose time is up is deleted by the command that asks for it, or by a cycle that looks at a few
// keys at a time. There is no heap. Deadlines are dates, and there are sixteen databases.

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base.h"
#include "buf.h"
#include "buf_share.h"
#include "clock.h"
#include "clock_usec.h"
#include "clock_wall.h"
#include "dlist.h"
#include "fd.h"
#include "glob.h"
#include "hash.h"
#include "hashtable.h"
#include "hashtable_cursor.h"
#include "intrusive.h"
#include "lookahead.h"
#include "mem.h"
#include "mem_arena.h"
#include "mem_tidy.h"
#include "net.h"
#include "reply.h"
#include "resp.h"
#include "thread_pool.h"
#include "zset.h"
#include "zset_rank.h"

enum {
    k_max_msg = 32 << 20,
    k_read_size = 16 << 10, // a read has room for at least this many bytes
    k_turn_work = 64 << 10, // work that ends a connection's turn: see g_data.work
    k_shared = 32 << 10,    // bytes of the buffers that are lent to a connection for its turn
    k_unsent = 16 << 10,    // work after which the replies that wait are sent
    k_pair_cost = 16,       // what a pair that a request passes counts for: see g_data.work
    // A pair takes 6 bytes of a reply at least, where its name is empty.
    k_max_pairs = k_max_msg / 6,
    k_max_freed = 100000,
    k_max_accepts = 1000,    // connections accepted in one round
    k_max_dropped = 4 << 20, // bytes behind a bad message after which its client is cut off
    k_stop_ms = 400,         // after the signal to stop, until the program ends wherever it is
    k_accept_retry_ms = 100,
    k_send_buffer = 128 << 10, // bytes that the kernel buffers for a client; Linux doubles it
    k_idle_timeout_ms = 5000,
    k_threads = 4,
    k_small_db = 1000,              // the loop itself frees a table with no more keys
    k_large_container_size = 10000, // a worker, not the loop, frees what counts as more pairs
    k_pair_bytes = 1 << 10,         // bytes of a string that take as long to free as a pair
    k_pairs_a_yield = 64,           // a worker frees this many pairs, then yields
    k_lookahead = 32,               // requests of a batch that wait for memory together
    k_batch_args = 1024,            // strings after which a batch ends
    k_long_arg = 1024,              // longer keys and names are not hashed ahead
    k_in_cache = 8192,              // a structure of so many nodes is in the cache, or nearly

    k_many_args = 1024,         // strings above which a request takes long
    k_arg_cost = 64,            // what each of them counts for
    k_copied_bytes = 64,        // bytes of a value that count for 1 when they are moved
    k_client_cost = 350,        // what a line of `client list` counts for
    k_refused_ms = 1000,        // how long a MULTI is remembered: see refuse_transaction()
    k_max_compared = 100 << 20, // bytes that a pattern is compared with, beside 4 times all keys
    k_max_name = 1024,          // bytes of a connection's name
    k_max_command = 32,         // letters of a command's name
    k_command_slots = 256,      // slots in the index of commands by name, most of them free

    k_databases = 16,
    k_no_deadline = -1,
    k_cycle_ms = 100,       // between two slices of the cycle while few keys are stale
    k_busy_cycle_ms = 1,    // while many are
    k_cycle_percent = 25,   // at effort 1, of the server's time, that it takes then at most
    k_step_keys = 20,       // at effort 1, keys that it checks between two looks at the clock
    k_step_buckets = 400,   // buckets that it searches for them
    k_max_sample = 128,     // keys that a step can hold, at any effort
    k_stale_percent = 10,   // at effort 1, a database with fewer stale deadlines is left alone
    k_max_tries = 10000,    // of `randomkey`
    k_scan_head = 64,       // bytes of a reply to `scan` that are in front of the keys, at most
    k_short_string = 44,    // bytes that Redis keeps next to their header
    k_listpack_pairs = 128, // in a sorted set that Redis keeps in one piece
    k_listpack_name = 64,   // bytes of their names
};

// The version that we claim to be, since many clients choose what to send by it. Our commands are
// those of Redis 7.0.
static const char *const k_version = "7.0.0";

enum conn_state {
    STATE_REQ,  // waits for requests: reading
    STATE_RES,  // waits for the client to take a reply: writing
    STATE_MORE, // may have requests in rbuf: waits for its next turn
    STATE_LONG, // the next request in rbuf takes long: waits to be picked, one a round
    STATE_BAD,  // the client sent a bad message: waits for it to hang up
    STATE_END,  // to be closed
};

enum value_type {
    T_STR,
    T_ZSET,
};

// One key and its value, in one allocation: data holds the bytes of the key, node.key_len of them,
// then those of the value. The value of a T_ZSET is a pointer to a struct zset, which it owns.
struct entry {
    struct hnode node;
    uint32_t val_len : 28;
    uint32_t type : 3;
    uint32_t has_deadline : 1; // which is in the table of deadlines
    uint8_t data[];
    _Static_assert(k_max_msg < 1 << 28, "val_len holds the length of any value");
};

// When the time of an entry is up. Its hash code and the length of its key are in `node`, too.
struct deadline {
    struct hnode node;
    struct entry *ent; // borrowed
    int64_t at_ms;     // of the wall clock
};

// A database.
struct db {
    struct hmap keys;    // all entries
    struct hmap expires; // the deadlines of those that have one
    size_t keys_size;    // bytes that `keys` writes for all of them
    uint64_t cursor;     // where the cycle goes on in `expires`
    int64_t avg_ttl_ms;  // of the keys that the cycle has seen alive
};

// What an entry is looked up by.
struct lookup_key {
    struct hnode node;
    const uint8_t *key;
};

enum {
    WRITE = 1 << 0,
    READ = 1 << 1,
    GROWS = 1 << 2 | WRITE, // takes more memory
    ADMIN = 1 << 3,
    FAST = 1 << 4,   // O(1), or O(log n)
    FAMILY = 1 << 5, // its second word says what to do
    MEMBER = 1 << 6, // such a second word, with the first in front
};

struct request;

// A command: `command` tells clients what is here, and do_request() goes by it.
struct command {
    const char *name; // in small letters; client|id is one of the family of client
    int arity;        // strings, with the name itself; -n: n at least
    unsigned flags;
    int first, last, step; // where keys are among the arguments, -1 for the last one; 0 for nowhere
    void (*f)(struct request *req, struct reply *out); // NULL: there is only the family
    const char *group, *summary;
};

// A request in rbuf, parsed and not answered yet. Its strings point into rbuf, where no byte moves
// until the batch is done.
struct request {
    struct conn *conn;             // who asks
    size_t size;                   // in rbuf
    const struct command *command; // NULL where there is none with the name
    size_t first;                  // where its strings begin among those of the batch
    const struct slice *args;
    int nargs;             // 0 for an empty request, which has no reply
    struct lookup_key key; // args[1], hashed; zero if missing or long
    bool takes_long;       // not answered: waits for a turn of its own
};

// The first requests in rbuf.
struct batch {
    struct request requests[k_lookahead];
    int n;
    size_t size;                   // of their bytes
    bool bad;                      // what is behind them is no request
    char error[k_resp_error_size]; // why
    struct resp_parser rest;       // how much of the request behind them is there
};

// One connection.
struct conn {
    int fd;
    struct db *db; // that it has selected
    enum conn_state state;
    uint32_t events; // what epoll watches it for
    bool eof;        // the client has sent all it will send
    bool bad;        // the client has sent a bad request, or quit: it gets no more replies
    bool put_aside;  // the next request in rbuf takes long: it waits for serve_long()
    bool resp3;      // replies are in version 3 of RESP
    size_t dropped;  // bytes that came behind a bad message
    struct buf rbuf; // received, not answered yet
    struct buf wbuf; // answered, not sent yet
    struct resp_parser parser; // how much of the first request in rbuf is there
    struct dlist idle_node;
    struct dlist turn_node; // in send_list, more_list or long_list
    int64_t idle_start;     // when a byte moved last
    int64_t start_ms;       // when it was accepted
    int64_t id;
    int64_t refused_until_ms;   // behind a MULTI that was refused, nothing is done until then
    char *name;                 // owned; NULL for none
    const struct command *last; // what it has asked for last
};

// What `info` counts.
struct stats {
    size_t connections, commands;
    size_t hits, misses;     // of those that read a key
    size_t expired;          // keys that were deleted because their time was up
    size_t slices_cut_short; // of the cycle, that had more to do
};

// The cycle that deletes keys for which nobody asks.
struct cycle {
    int64_t effort; // 1 to 10
    int next_db;
    int64_t start_ms;     // of the last slice; later, if that took longer than it should
    bool more;            // it had more to do
    double stale_percent; // of the keys with a deadline, as they were found of late
};

static struct {
    int epoll_fd;
    struct epoll_event *events; // what epoll_wait() reports
    size_t max_events;
    size_t num_conns;
    int listen_fd;
    bool accepting;          // epoll watches listen_fd
    int64_t accept_again_ms; // when it is to watch it again
    int stop_pipe[2];
    volatile sig_atomic_t stopping;
    struct hash_key hash_key;
    size_t work; // done in a connection's turn: bytes of replies made, nodes passed or freed
    struct lookup_key key; // of the request that is being answered
    struct db dbs[k_databases];
    size_t num_deadlines;    // of all databases
    size_t dirty;            // changes to keys and values so far
    struct buf rbuf, wbuf;   // lent to the connection whose turn it is
    struct dlist send_list;  // connections whose turn is over, but its replies not sent
    size_t unsent;           // the work of the turns in send_list
    struct dlist more_list;  // connections in STATE_MORE, the one that has waited longest first
    struct dlist long_list;  // those in STATE_LONG, in the same order
    int64_t now_ms;          // what the wall clock said when we looked last
    int64_t idle_timeout_ms; // 0 for never
    struct dlist idle_list;  // all connections, the longest idle first
    struct cycle cycle;
    struct thread_pool pool;
    atomic_size_t pairs_left;    // that are queued for workers: the loop adds, they subtract
    const struct command *table; // of all commands
    size_t num_commands;
    const struct command *commands[k_command_slots]; // by their names
    struct resp_args args;                           // the strings of a batch
    struct stats stats;
    int64_t start_ms;      // when the server was started
    int64_t last_id;       // of a connection
    uint64_t random_calls; // of random_bits()
} g_data;

// ---- the key space ----

static struct lookup_key hash_of_key(const struct slice *key) {
    uint32_t hcode = str_hash(&g_data.hash_key, key->data, key->len);
    return (struct lookup_key){
        .node = {.hcode = hcode, .key_len = (uint32_t)key->len},
        .key = key->data,
    };
}

// Returns the key with its hash, to be looked up. If it is the key of the request that is being
// answered, the batch has hashed it already.
static struct lookup_key lookup_key(const struct slice *key) {
    return key->data == g_data.key.key ? g_data.key : hash_of_key(key);
}

// An hnode_eq: compares the bytes of an entry's key with those of a lookup_key.
static bool entry_eq(const struct hnode *node, const struct hnode *key) {
    const struct entry *ent = container_of(node, struct entry, node);
    const struct lookup_key *lookup = container_of(key, struct lookup_key, node);
    return memcmp(ent->data, lookup->key, node->key_len) == 0;
}

// Returns the value, borrowed from the entry.
static struct slice entry_val(const struct entry *ent) {
    return (struct slice){ent->data + ent->node.key_len, ent->val_len};
}

// Returns the sorted set of a T_ZSET, borrowed from the entry.
static struct zset *entry_zset(const struct entry *ent) {
    struct zset *zset;
    memcpy(&zset, entry_val(ent).data, sizeof(zset)); // the bytes are not aligned
    return zset;
}

// Returns how many pairs the entry has, 0 where its value is no sorted set.
static size_t entry_pairs(const struct entry *ent) {
    return ent->type == T_ZSET ? zset_size(entry_zset(ent)) : 0;
}

// Returns how many bytes `keys` writes for the entry.
static size_t entry_listed_size(const struct entry *ent) {
    return str_size(ent->node.key_len);
}

// Adds a key that is not there yet. Returns its entry, borrowed.
static struct entry *entry_add(struct db *db, const struct slice *key, enum value_type type,
                               const struct slice *val) {
    struct entry *ent = mem_alloc(sizeof(*ent) + key->len + val->len);
    ent->node = lookup_key(key).node;
    ent->has_deadline = false;
    ent->type = type;
    ent->val_len = (uint32_t)val->len;
    memcpy(ent->data, key->data, key->len);
    memcpy(ent->data + key->len, val->data, val->len);
    hm_insert(&db->keys, &ent->node);
    db->keys_size += entry_listed_size(ent);
    return ent;
}

// Adds a key that is not there yet, with an empty sorted set. Returns the set, borrowed.
static struct zset *entry_add_zset(struct db *db, const struct slice *key) {
    struct zset *zset = mem_alloc(sizeof(*zset));
    zset_init(zset, &g_data.hash_key);
    struct slice val = {(const uint8_t *)&zset, sizeof(zset)};
    entry_add(db, key, T_ZSET, &val);
    return zset;
}

// An hnode_eq: compares the entries of two deadlines.
static bool deadline_eq(const struct hnode *node, const struct hnode *key) {
    return container_of(node, struct deadline, node)->ent ==
           container_of(key, struct deadline, node)->ent;
}

// Returns what to look the deadline of the entry up by.
static struct deadline deadline_key(struct entry *ent) {
    return (struct deadline){
        .node = {.hcode = ent->node.hcode, .key_len = ent->node.key_len},
        .ent = ent,
    };
}

// Returns the deadline of an entry that has one, borrowed. Cost: O(1) on average.
static struct deadline *find_deadline(struct db *db, struct entry *ent) {
    struct deadline key = deadline_key(ent);
    struct hnode **link = hm_lookup(&db->expires, &key.node, deadline_eq);
    return container_of(*link, struct deadline, node);
}

// Returns when the time of the entry is up, k_no_deadline where that is never.
static int64_t entry_deadline(struct db *db, struct entry *ent) {
    return ent->has_deadline ? find_deadline(db, ent)->at_ms : k_no_deadline;
}

// Tells whether the entry is past its deadline: gone, but for the memory that it takes.
static bool entry_expired(struct db *db, struct entry *ent) {
    return ent->has_deadline && g_data.now_ms > find_deadline(db, ent)->at_ms;
}

// Lets the entry live for ever. Returns whether it had a deadline.
static bool entry_clear_deadline(struct db *db, struct entry *ent) {
    if (!ent->has_deadline) {
        return false;
    }
    struct deadline key = deadline_key(ent);
    free(container_of(hm_pop(&db->expires, &key.node, deadline_eq), struct deadline, node));
    hm_shrink(&db->expires);
    if (hm_size(&db->expires) == 0) {
        db->avg_ttl_ms = 0;
    }
    ent->has_deadline = false;
    g_data.num_deadlines--;
    return true;
}

// Gives the entry a deadline in place of the one that it has, if any; none where it is k_no_deadline.
static void entry_set_deadline(struct db *db, struct entry *ent, int64_t at_ms) {
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
        g_data.num_deadlines++;
    }
}

// Frees the entry with its value. It is in no structure any more.
static void entry_destroy(struct entry *ent) {
    if (ent->type == T_ZSET) {
        zset_dispose(entry_zset(ent));
        free(entry_zset(ent));
    }
    free(ent);
}

// Returns how long it takes to free the entry, counted in pairs. The names of a large set are not
// looked at: it has pairs enough.
static size_t entry_cost(const struct entry *ent) {
    size_t pairs = entry_pairs(ent), bytes = ent->node.key_len + ent->val_len;
    if (pairs > 0 && pairs <= k_large_container_size) {
        struct znode *znode = zset_query(entry_zset(ent), -INFINITY, ent->data, 0, 0);
        for (; znode; znode = znode_next(znode)) {
            bytes += znode->node.key_len;
        }
    }
    return pairs > bytes / k_pair_bytes ? pairs : bytes / k_pair_bytes;
}

// Frees a large string; a worker runs it.
static void destroy_str_work(void *arg) {
    size_t cost = entry_cost(arg);
    entry_destroy(arg);
    atomic_fetch_sub(&g_data.pairs_left, cost);
}

// Frees a large set; a worker runs it. If the loop shares the worker's processor, the kernel may
// let a worker that never sleeps run on for milliseconds while a client waits. So after every few
// pairs the worker yields. Before that it has the allocator merge these few: if the loop waits for
// the allocator's lock, it never waits for a long merge. Pairs are freed from the leaves up: what
// is left is always a tree.
static void destroy_zset_work(void *arg) {
    struct zset *zset = entry_zset(arg);
    size_t cost = entry_cost(arg);
    struct avl_node *cur = zset->root;
    for (size_t freed = 0; cur;) {
        struct avl_node *next = cur->left ? cur->left : cur->right;
        if (!next) {
            next = cur->parent;
            if (next) {
                *(next->left == cur ? &next->left : &next->right) = NULL;
            }
            free(znode_of(cur));
            if (++freed % k_pairs_a_yield == 0) {
                mem_tidy();
                sched_yield();
            }
        }
        cur = next;
    }
    zset->root = NULL;
    entry_destroy(arg);
    atomic_fetch_sub(&g_data.pairs_left, cost);
}

// Frees an entry that has left the table: a small one at once, a large one through a worker, which
// then has it to itself.
static void entry_del(struct entry *ent) {
    size_t cost = entry_cost(ent);
    if (cost > k_large_container_size || (cost > k_pairs_a_yield && g_data.work > k_turn_work)) {
        atomic_fetch_add(&g_data.pairs_left, cost);
        bool is_zset = ent->type == T_ZSET;
        thread_pool_queue(&g_data.pool, is_zset ? destroy_zset_work : destroy_str_work, ent);
    } else {
        g_data.work += cost;
        entry_destroy(ent);
    }
}

// Takes the entry out of the database. It belongs to the caller now, and has no deadline any more.
static void entry_detach(struct db *db, struct entry *ent) {
    entry_clear_deadline(db, ent);
    hm_pop(&db->keys, &ent->node, hnode_same);
    hm_shrink(&db->keys);
    db->keys_size -= entry_listed_size(ent);
}

// Takes the entry out of the database, and frees it.
static void entry_drop(struct db *db, struct entry *ent) {
    entry_detach(db, ent);
    entry_del(ent);
}

// Takes out an entry whose time is up.
static void entry_expire(struct db *db, struct entry *ent) {
    entry_drop(db, ent);
    g_data.stats.expired++;
}

// Looks up a key that is to be changed: returns the address of the pointer that owns its entry, NULL
// where there is none. It is valid until the next call with the table. Deletes a key whose time is
// up. All commands that change keys come through here.
static struct hnode **lookup_write(struct db *db, const struct slice *key) {
    struct lookup_key lookup = lookup_key(key);
    struct hnode **link = hm_lookup(&db->keys, &lookup.node, entry_eq);
    if (!link) {
        return NULL;
    }
    struct entry *ent = container_of(*link, struct entry, node);
    if (entry_expired(db, ent)) {
        entry_expire(db, ent);
        return NULL;
    }
    return link;
}

// Returns the entry that `link` owns, NULL where there is no link.
static struct entry *entry_of(struct hnode **link) {
    return link ? container_of(*link, struct entry, node) : NULL;
}

// Looks up a key that is to be read: returns its entry, NULL where there is none, and counts which of
// the two it was. Deletes a key whose time is up. All commands that read keys come through here.
static struct entry *lookup_read(struct db *db, const struct slice *key) {
    struct entry *ent = entry_of(lookup_write(db, key));
    g_data.stats.hits += ent != NULL;
    g_data.stats.misses += ent == NULL;
    return ent;
}

// Removes the key. Returns whether it was there.
static bool entry_remove(struct db *db, const struct slice *key) {
    struct entry *ent = entry_of(lookup_write(db, key));
    if (ent) {
        entry_drop(db, ent);
        g_data.dirty++;
    }
    return ent != NULL;
}

// Writes `val` into the string of the entry that `link` owns, from `offset` on, and ends it there.
// Returns the entry. It may move, so the pointer that owns it has to follow, and its deadline.
static struct entry *entry_write(struct db *db, struct hnode **link, size_t offset,
                                 const struct slice *val) {
    struct entry *ent = container_of(*link, struct entry, node);
    size_t len = offset + val->len;
    if (ent->val_len != len) {
        struct deadline *deadline = ent->has_deadline ? find_deadline(db, ent) : NULL;
        g_data.work += offset / k_copied_bytes; // all that stays may have to move
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

// Tells whether the value can become a string of `len` bytes where it is. A large one that loses much
// had better die as a whole: the memory that it gives back is as much.
static bool entry_fits(const struct entry *ent, size_t len) {
    return ent->type == T_STR &&
           ent->val_len / k_pair_bytes <= k_large_container_size + len / k_pair_bytes;
}

// Gives the key the value, where `link` is what lookup_write() has returned for it. It keeps its
// deadline, if it has one. Returns its entry.
static struct entry *entry_set(struct db *db, const struct slice *key, struct hnode **link,
                               const struct slice *val) {
    int64_t deadline_ms = k_no_deadline;
    struct entry *ent = entry_of(link);
    g_data.dirty++;
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
static struct entry *entry_copy(struct db *db, const struct slice *key, const struct entry *ent) {
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

static bool free_deadline(struct hnode *node, void *arg) {
    (void)arg;
    free(container_of(node, struct deadline, node));
    return true;
}

static bool free_entry(struct hnode *node, void *arg) {
    (void)arg;
    entry_del(container_of(node, struct entry, node));
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
    g_data.num_deadlines -= hm_size(&db->expires);
    hm_scan(&db->expires, free_deadline, NULL);
    hm_destroy(&db->expires);
    hm_scan(&db->keys, free_entry, NULL);
    hm_destroy(&db->keys);
    *db = (struct db){0};
}

// What a worker has freed: entries and deadlines.
static void count_freed(size_t *freed) {
    if (++*freed % k_pairs_a_yield == 0) {
        mem_tidy();
        sched_yield();
    }
}

static bool flush_deadline(struct hnode *node, void *arg) {
    free_deadline(node, NULL);
    count_freed(arg);
    return true;
}

static bool flush_entry(struct hnode *node, void *arg) {
    struct entry *ent = container_of(node, struct entry, node);
    if (entry_pairs(ent) > k_pairs_a_yield) {
        atomic_fetch_add(&g_data.pairs_left, entry_cost(ent));
        destroy_zset_work(ent);
    } else {
        entry_destroy(ent);
    }
    count_freed(arg);
    return true;
}

// Frees a whole database; a worker runs it.
static void destroy_db_work(void *arg) {
    struct db *db = arg;
    size_t size = hm_size(&db->keys), freed = 0;
    hm_scan(&db->expires, flush_deadline, &freed);
    hm_destroy(&db->expires);
    hm_scan(&db->keys, flush_entry, &freed);
    hm_destroy(&db->keys);
    free(db);
    atomic_fetch_sub(&g_data.pairs_left, size + k_max_freed);
}

// Deletes all keys of the database. If they are many, a worker gets the tables as a whole and frees
// them. We do not know how many pairs are in them, so we count them as very many.
static void db_flush(struct db *db) {
    size_t size = hm_size(&db->keys);
    g_data.dirty += size;
    if (size <= k_small_db) {
        db_clear(db);
        return;
    }
    g_data.num_deadlines -= hm_size(&db->expires);
    struct db *gone = mem_alloc(sizeof(*gone));
    *gone = *db;
    *db = (struct db){0};
    atomic_fetch_add(&g_data.pairs_left, size + k_max_freed);
    thread_pool_queue(&g_data.pool, destroy_db_work, gone);
}

// Frees all keys at exit, so that a leak checker reports real leaks alone. Very many keys and pairs
// are left to the kernel: it takes a program's memory back faster than we can free it.
static void entry_clear(void) {
    size_t n = 0;
    for (int i = 0; i < k_databases; i++) {
        hm_scan(&g_data.dbs[i].keys, entry_count_one, &n);
    }
    for (int i = 0; i < k_databases && n <= k_max_freed; i++) {
        db_clear(&g_data.dbs[i]);
    }
}

// ---- arguments ----

// Returns whether `arg` is an integer as resp.h has it, which is *value then.
static bool parse_int(const struct slice *arg, int64_t *value) {
    return resp_parse_int(arg->data, arg->len, value);
}

// double = what strtod() reads, in the range of a double
//
// Returns whether `arg` is one. Where it is not, *value is undefined. Never yields NaN.
static bool parse_double(const struct slice *arg, double *value) {
    char local[64];
    char *text = arg->len < sizeof(local) ? local : mem_alloc(arg->len + 1);
    memcpy(text, arg->data, arg->len);
    text[arg->len] = '\0';
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    bool in_range = errno != ERANGE || (fabs(*value) != HUGE_VAL && *value != 0);
    bool ok = arg->len > 0 && !isspace((unsigned char)text[0]) && end == text + arg->len &&
              in_range && !isnan(*value);
    if (text != local) {
        free(text);
    }
    return ok;
}

// One end of a range of scores.
struct bound {
    double score;
    bool open; // the score itself is not in the range
};

// bound = "("? double      also beyond the range: infinite; and nothing at all: 0
//
// Returns whether `arg` is one. Where it is not, *bound is undefined.
static bool parse_bound(const struct slice *arg, struct bound *bound) {
    bound->open = arg->len > 0 && arg->data[0] == '(';
    char text[400]; // 1e308 has 309 digits
    size_t skip = bound->open ? 1 : 0, len = arg->len - skip;
    if (len >= sizeof(text) || memchr(arg->data, '\0', arg->len)) {
        return false;
    }
    memcpy(text, arg->data + skip, len);
    text[len] = '\0';
    char *end;
    bound->score = strtod(text, &end);
    return end == text + len && !isnan(bound->score);
}

// Tells whether `arg` is `word`, which is in small letters, in letters of any case. Compares the
// whole of both, so a NUL byte in arg is a byte like others.
static bool is_word(const struct slice *arg, const char *word) {
    size_t i = 0;
    while (i < arg->len && word[i] && (arg->data[i] | 0x20) == word[i]) {
        i++;
    }
    return i == arg->len && !word[i];
}

// Returns a copy of a pattern in small letters, as the names are that it is compared with; owned by
// the caller.
static uint8_t *small_letters(const struct slice *pattern) {
    uint8_t *copy = mem_alloc(pattern->len + 1);
    for (size_t i = 0; i < pattern->len; i++) {
        copy[i] = (uint8_t)tolower(pattern->data[i]);
    }
    return copy;
}

static void out_bad_int(struct reply *out) {
    reply_err(out, "ERR value is not an integer or out of range");
}

static void out_bad_double(struct reply *out) {
    reply_err(out, "ERR value is not a valid float");
}

static void out_bad_syntax(struct reply *out) {
    reply_err(out, "ERR syntax error");
}

static void out_bad_arity(const char *name, struct reply *out) {
    reply_errf(out, "ERR wrong number of arguments for '%s' command", name);
}

// ---- commands: args[0] is the name ----

static void out_bad_type(struct reply *out) {
    reply_err(out, "WRONGTYPE Operation against a key holding the wrong kind of value");
}

// A command calls this when it knows its `cost` in nodes read and bytes replied, before it changes
// or replies anything. Returns whether it may go on; if not, it takes long, and the request waits
// for a turn of its own.
static bool may_take(struct request *req, size_t cost) {
    if (cost > k_turn_work && req->conn->state != STATE_LONG) {
        req->takes_long = true;
        return false;
    }
    g_data.work += cost;
    return true;
}

// Tells whether the entry, if there is one, holds a string. If not, replies with an error.
static bool is_string(const struct entry *ent, struct reply *out) {
    if (ent && ent->type != T_STR) {
        out_bad_type(out);
        return false;
    }
    return true;
}

static void out_val(const struct entry *ent, struct reply *out) {
    struct slice val = entry_val(ent);
    reply_str(out, val.data, val.len);
}

// Replies the value of the key. Returns whether it is a string, or there is none.
static bool get_key(struct request *req, struct reply *out) {
    const struct entry *ent = lookup_read(req->conn->db, &req->args[1]);
    if (!is_string(ent, out)) {
        return false;
    }
    if (ent) {
        out_val(ent, out);
    } else {
        reply_nil(out);
    }
    return true;
}

static void do_get(struct request *req, struct reply *out) {
    get_key(req, out);
}

// What the words behind `set key value` and `getex key` ask for.
struct set_options {
    bool nx, xx, get, keep_ttl, persist;
    const struct slice *ttl; // NULL for none
    int64_t unit_ms;
    bool is_date; // not a time from now on
};

// Returns whether `arg` begins an amount of time, and notes which.
static bool parse_unit(const struct slice *arg, struct set_options *options) {
    bool ex = is_word(arg, "ex"), exat = is_word(arg, "exat");
    bool px = is_word(arg, "px"), pxat = is_word(arg, "pxat");
    int64_t unit_ms = ex || exat ? 1000 : 1;
    bool is_date = exat || pxat;
    if (!(ex || px || is_date) ||
        (options->ttl && (options->unit_ms != unit_ms || options->is_date != is_date))) {
        return false;
    }
    options->unit_ms = unit_ms;
    options->is_date = is_date;
    return true;
}

// Returns whether the words from args[first] on are options that go together: of `set`, or else of
// `getex`.
static bool parse_set_options(const struct request *req, int first, bool set,
                              struct set_options *options) {
    for (int i = first; i < req->nargs; i++) {
        const struct slice *arg = &req->args[i];
        if (set && is_word(arg, "nx") && !options->xx) {
            options->nx = true;
        } else if (set && is_word(arg, "xx") && !options->nx) {
            options->xx = true;
        } else if (set && is_word(arg, "get")) {
            options->get = true;
        } else if (set && is_word(arg, "keepttl") && !options->ttl) {
            options->keep_ttl = true;
        } else if (!set && is_word(arg, "persist") && !options->ttl) {
            options->persist = true;
        } else if (!options->keep_ttl && !options->persist && i + 1 < req->nargs &&
                   parse_unit(arg, options)) {
            options->ttl = &req->args[++i];
        } else {
            return false;
        }
    }
    return true;
}

static void out_bad_time(const struct request *req, struct reply *out) {
    reply_errf(out, "ERR invalid expire time in '%s' command", req->command->name);
}

// Sets *at_ms to the time that the options give a key, as a date; k_no_deadline if they give none. If
// it is wrong, replies with an error and returns false. Reads the clock again, for itself and the
// requests behind it: those before it in this batch may have taken long.
static bool parse_set_time(const struct request *req, const struct set_options *options,
                           int64_t *at_ms, struct reply *out) {
    *at_ms = k_no_deadline;
    if (!options->ttl) {
        return true;
    }
    if (!parse_int(options->ttl, at_ms)) {
        out_bad_int(out);
        return false;
    }
    g_data.now_ms = get_wall_msec();
    int64_t start_ms = options->is_date ? 0 : g_data.now_ms;
    if (*at_ms <= 0 || __builtin_mul_overflow(*at_ms, options->unit_ms, at_ms) ||
        __builtin_add_overflow(*at_ms, start_ms, at_ms)) {
        out_bad_time(req, out);
        return false;
    }
    return true;
}

// Sets the key as the options say. Returns whether they let it; nothing is replied then.
static bool set_key(struct request *req, const struct set_options *options, int64_t at_ms,
                    const struct slice *val) {
    struct db *db = req->conn->db;
    struct hnode **link = lookup_write(db, &req->args[1]);
    if ((options->nx && link) || (options->xx && !link)) {
        return false;
    }
    struct entry *ent = entry_set(db, &req->args[1], link, val);
    if (!options->keep_ttl) {
        entry_set_deadline(db, ent, at_ms);
    }
    return true;
}

// set key value [nx | xx] [get] [ex seconds | px milliseconds | exat date | pxat date | keepttl]
static void do_set(struct request *req, struct reply *out) {
    struct set_options options = {0};
    int64_t at_ms;
    if (req->nargs > 3 && !parse_set_options(req, 3, true, &options)) {
        out_bad_syntax(out);
        return;
    }
    if (!parse_set_time(req, &options, &at_ms, out) || (options.get && !get_key(req, out))) {
        return;
    }
    bool set = set_key(req, &options, at_ms, &req->args[2]);
    if (!options.get && set) {
        reply_status(out, "OK");
    } else if (!options.get) {
        reply_nil(out);
    }
}

// setnx key value
static void do_setnx(struct request *req, struct reply *out) {
    struct set_options options = {.nx = true};
    reply_int(out, set_key(req, &options, k_no_deadline, &req->args[2]));
}

// Sets the key, with a time in `unit_ms` in front of the value.
static void set_with_time(struct request *req, int64_t unit_ms, struct reply *out) {
    struct set_options options = {.ttl = &req->args[2], .unit_ms = unit_ms};
    int64_t at_ms;
    if (parse_set_time(req, &options, &at_ms, out)) {
        set_key(req, &options, at_ms, &req->args[3]);
        reply_status(out, "OK");
    }
}

// setex key seconds value
static void do_setex(struct request *req, struct reply *out) {
    set_with_time(req, 1000, out);
}

// psetex key milliseconds value
static void do_psetex(struct request *req, struct reply *out) {
    set_with_time(req, 1, out);
}

// getset key value
static void do_getset(struct request *req, struct reply *out) {
    struct set_options options = {0};
    if (get_key(req, out)) {
        set_key(req, &options, k_no_deadline, &req->args[2]);
    }
}

// getdel key
static void do_getdel(struct request *req, struct reply *out) {
    if (get_key(req, out)) {
        entry_remove(req->conn->db, &req->args[1]);
    }
}

// getex key [ex seconds | px milliseconds | exat date | pxat date | persist]
static void do_getex(struct request *req, struct reply *out) {
    struct db *db = req->conn->db;
    struct set_options options = {0};
    int64_t at_ms;
    if (!parse_set_options(req, 2, false, &options)) {
        out_bad_syntax(out);
        return;
    }
    struct entry *ent = lookup_read(db, &req->args[1]);
    if (!ent) {
        reply_nil(out);
        return;
    }
    if (!is_string(ent, out) || !parse_set_time(req, &options, &at_ms, out)) {
        return;
    }
    out_val(ent, out);
    if (options.ttl && at_ms <= g_data.now_ms) {
        entry_drop(db, ent);
        g_data.dirty++;
    } else if (options.ttl) {
        entry_set_deadline(db, ent, at_ms);
        g_data.dirty++;
    } else if (options.persist) {
        g_data.dirty += entry_clear_deadline(db, ent);
    }
}

// mget key...
static void do_mget(struct request *req, struct reply *out) {
    size_t max_size = buf_size(out->buf) + k_max_msg;
    reply_arr(out, (size_t)req->nargs - 1);
    for (int i = 1; i < req->nargs && buf_size(out->buf) <= max_size; i++) {
        const struct entry *ent = lookup_read(req->conn->db, &req->args[i]);
        if (ent && ent->type == T_STR) {
            out_val(ent, out);
        } else {
            reply_nil(out);
        }
    }
}

// mset key value [key value]...
static void do_mset(struct request *req, struct reply *out) {
    if (req->nargs % 2 == 0) {
        out_bad_arity("mset", out);
        return;
    }
    struct db *db = req->conn->db;
    for (int i = 1; i < req->nargs; i += 2) {
        struct hnode **link = lookup_write(db, &req->args[i]);
        entry_clear_deadline(db, entry_set(db, &req->args[i], link, &req->args[i + 1]));
    }
    reply_status(out, "OK");
}

// Adds `n` to the number that the key holds, 0 where there is none. It keeps its TTL.
static void incr_by(struct request *req, int64_t n, struct reply *out) {
    struct hnode **link = lookup_write(req->conn->db, &req->args[1]);
    const struct entry *ent = entry_of(link);
    int64_t value = 0;
    if (!is_string(ent, out)) {
        return;
    }
    struct slice old = ent ? entry_val(ent) : (struct slice){0};
    if (ent && !parse_int(&old, &value)) {
        out_bad_int(out);
        return;
    }
    if (__builtin_add_overflow(value, n, &value)) {
        reply_err(out, "ERR increment or decrement would overflow");
        return;
    }
    uint8_t text[k_max_digits];
    struct slice val = {text, int_text(value, text)};
    entry_set(req->conn->db, &req->args[1], link, &val);
    reply_int(out, value);
}

static void do_incr(struct request *req, struct reply *out) {
    incr_by(req, 1, out);
}

static void do_decr(struct request *req, struct reply *out) {
    incr_by(req, -1, out);
}

static void do_incrby(struct request *req, struct reply *out) {
    int64_t n;
    if (!parse_int(&req->args[2], &n)) {
        out_bad_int(out);
        return;
    }
    incr_by(req, n, out);
}

static void do_decrby(struct request *req, struct reply *out) {
    int64_t n;
    if (!parse_int(&req->args[2], &n)) {
        out_bad_int(out);
        return;
    }
    if (n == INT64_MIN) {
        reply_err(out, "ERR decrement would overflow");
        return;
    }
    incr_by(req, -n, out);
}

// append key bytes: replies how long the value is then. It keeps its TTL.
static void do_append(struct request *req, struct reply *out) {
    const struct slice *key = &req->args[1], *val = &req->args[2];
    struct hnode **link = lookup_write(req->conn->db, key);
    const struct entry *ent = entry_of(link);
    if (!is_string(ent, out)) {
        return;
    }
    size_t len = ent ? ent->val_len : 0;
    if (len + val->len > k_max_msg) {
        reply_err(out, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
        return;
    }
    if (ent) {
        entry_write(req->conn->db, link, len, val);
    } else {
        entry_add(req->conn->db, key, T_STR, val);
    }
    g_data.dirty++;
    reply_int(out, (int64_t)(len + val->len));
}

static void do_strlen(struct request *req, struct reply *out) {
    const struct entry *ent = lookup_read(req->conn->db, &req->args[1]);
    if (is_string(ent, out)) {
        reply_int(out, ent ? ent->val_len : 0);
    }
}

static void do_del(struct request *req, struct reply *out) {
    int64_t n = 0;
    for (int i = 1; i < req->nargs; i++) {
        n += entry_remove(req->conn->db, &req->args[i]);
    }
    reply_int(out, n);
}

static void do_exists(struct request *req, struct reply *out) {
    int64_t n = 0;
    for (int i = 1; i < req->nargs; i++) {
        n += lookup_read(req->conn->db, &req->args[i]) != NULL;
    }
    reply_int(out, n);
}

static const char *entry_type_name(const struct entry *ent) {
    return ent->type == T_STR ? "string" : "zset";
}

static void do_type(struct request *req, struct reply *out) {
    const struct entry *ent = lookup_read(req->conn->db, &req->args[1]);
    reply_status(out, ent ? entry_type_name(ent) : "none");
}

static void out_too_big(struct reply *out) {
    reply_err(out, "ERR the reply is too big");
}

// Returns how many bytes the request may compare with a pattern, where all keys have `keys_size`: few,
// until it has a turn of its own.
static size_t compare_budget(const struct request *req, size_t keys_size) {
    return req->conn->state == STATE_LONG ? k_max_compared + 4 * keys_size : k_turn_work;
}

// What a command does when its budget is used up, and what it has replied is taken back: it waits for a
// turn of its own, where the budget is larger. If it had that, it replies with an error.
static void out_long_pattern(struct request *req, struct reply *out) {
    if (may_take(req, k_max_compared)) {
        reply_err(out, "ERR the pattern takes too long");
    }
}

// What a scan for `keys` carries along.
struct keys_scan {
    struct db *db;
    const struct slice *pattern;
    struct reply *out;
    size_t n;
    size_t max_size; // bytes of `out` at which the reply is too big
    size_t budget;   // bytes that may still be compared
};

static bool do_keys_one(struct hnode *node, void *arg) {
    struct keys_scan *scan = arg;
    struct entry *ent = container_of(node, struct entry, node);
    const struct slice *pattern = scan->pattern;
    if (!entry_expired(scan->db, ent) &&
        glob_match(pattern->data, pattern->len, ent->data, node->key_len, &scan->budget)) {
        reply_str(scan->out, ent->data, node->key_len);
        scan->n++;
    }
    return scan->budget > 0 && buf_size(scan->out->buf) <= scan->max_size;
}

static bool add_if_expired(struct hnode *node, void *arg) {
    size_t *size = arg;
    const struct deadline *deadline = container_of(node, struct deadline, node);
    if (g_data.now_ms > deadline->at_ms) {
        *size += entry_listed_size(deadline->ent);
    }
    return true;
}

// Returns how many bytes `keys` would write for the keys that have expired and are still there.
// Cost: O(keys with a deadline).
static size_t expired_listed_size(const struct db *db) {
    size_t size = 0;
    hm_scan(&db->expires, add_if_expired, &size);
    return size;
}

// keys pattern
//
// We know the size of the reply to `keys *` beforehand, and do not begin one that is too big to be
// sent.
static void do_keys(struct request *req, struct reply *out) {
    struct db *db = req->conn->db;
    const struct slice *pattern = &req->args[1];
    if (!may_take(req, hm_scan_cost(&db->keys) + db->keys_size)) {
        return;
    }
    bool all = pattern->len == 1 && pattern->data[0] == '*';
    if (all && db->keys_size > k_max_msg && db->keys_size - expired_listed_size(db) > k_max_msg) {
        out_too_big(out);
        return;
    }
    struct keys_scan scan = {
        .db = db,
        .pattern = pattern,
        .out = out,
        .max_size = buf_size(out->buf) + k_max_msg,
        .budget = compare_budget(req, db->keys_size),
    };
    size_t budget = scan.budget, max = hm_size(&db->keys), start = reply_arr_begin(out, max);
    hm_scan(&db->keys, do_keys_one, &scan);
    reply_arr_end(out, start, max, scan.n);
    g_data.work += budget - scan.budget;
    if (scan.budget == 0) {
        buf_truncate(out->buf, start);
        out_long_pattern(req, out);
    }
}

// What `scan` asks for, and what a step of it carries along.
struct scan_step {
    struct db *db;
    const struct slice *pattern, *type; // NULL for any
    struct reply *out;
    size_t seen, n;
    size_t budget; // bytes that may still be compared
    struct entry *stale[k_max_sample];
    size_t num_stale;
};

static void scan_one(struct hnode *node, void *arg) {
    struct scan_step *step = arg;
    struct entry *ent = container_of(node, struct entry, node);
    const struct slice *pattern = step->pattern;
    step->seen++;
    if (entry_expired(step->db, ent)) {
        if (step->num_stale < k_max_sample) {
            step->stale[step->num_stale++] = ent;
        }
    } else if ((!step->type || is_word(step->type, entry_type_name(ent))) &&
               (!pattern ||
                glob_match(pattern->data, pattern->len, ent->data, node->key_len, &step->budget))) {
        reply_str(step->out, ent->data, node->key_len);
        step->n++;
    }
}

// Takes a walk a step further, and deletes the keys that have expired there. Where the reply has no room
// for all keys of the step, it takes them back, leaves the cursor as it was, and returns false.
static bool do_scan_step(struct scan_step *step, uint64_t *cursor) {
    size_t size = buf_size(step->out->buf), n = step->n;
    step->num_stale = 0;
    uint64_t next = hm_scan_step(&step->db->keys, *cursor, scan_one, step);
    for (size_t i = 0; i < step->num_stale; i++) {
        entry_expire(step->db, step->stale[i]);
    }
    if (size > 0 && buf_size(step->out->buf) > k_max_msg - k_scan_head) {
        buf_truncate(step->out->buf, size);
        step->n = n;
        return false;
    }
    *cursor = next;
    return true;
}

// Reads the words behind `scan cursor`. If one is wrong, replies with an error and returns false.
static bool parse_scan_options(const struct request *req, struct scan_step *step, int64_t *count,
                               struct reply *out) {
    for (int i = 2; i < req->nargs; i += 2) {
        const struct slice *word = &req->args[i], *arg = word + 1;
        bool has_arg = i + 1 < req->nargs;
        if (has_arg && is_word(word, "count")) {
            if (!parse_int(arg, count)) {
                out_bad_int(out);
                return false;
            }
            if (*count < 1) {
                out_bad_syntax(out);
                return false;
            }
        } else if (has_arg && is_word(word, "match")) {
            step->pattern = arg;
        } else if (has_arg && is_word(word, "type")) {
            step->type = arg;
        } else {
            out_bad_syntax(out);
            return false;
        }
    }
    return true;
}

// Returns whether `arg` is what strtoull() takes for a number, which is *cursor then.
static bool parse_cursor(const struct slice *arg, uint64_t *cursor) {
    char text[32];
    if (arg->len >= sizeof(text) || (arg->len > 0 && isspace(arg->data[0]))) {
        return false;
    }
    memcpy(text, arg->data, arg->len);
    text[arg->len] = '\0';
    char *end;
    errno = 0;
    *cursor = strtoull(text, &end, 10);
    return end == text + arg->len && errno == 0;
}

// scan cursor [match pattern] [count n] [type name]
//
// Looks at some `count` keys, at ten times as many buckets at most, and replies the cursor with
// which the next call goes on. A reply that grows large ends early.
static void do_scan(struct request *req, struct reply *out) {
    size_t budget = compare_budget(req, req->conn->db->keys_size);
    struct scan_step step = {.db = req->conn->db, .out = out, .budget = budget};
    uint64_t cursor;
    int64_t count = 10;
    if (!parse_cursor(&req->args[1], &cursor)) {
        reply_err(out, "ERR invalid cursor");
        return;
    }
    if (!parse_scan_options(req, &step, &count, out)) {
        return;
    }
    size_t buckets_left = 10 * (size_t)(count < k_max_msg ? count : k_max_msg);
    size_t all = hm_scan_cost(&req->conn->db->keys);
    if (!may_take(req, buckets_left < all ? buckets_left : all)) {
        return;
    }
    struct buf names = {0};
    step.out = &(struct reply){.buf = &names, .resp3 = out->resp3};
    while (do_scan_step(&step, &cursor) && cursor != 0 && step.seen < (uint64_t)count &&
           --buckets_left > 0 && step.budget > 0 && buf_size(&names) < k_max_msg / 2) {
    }
    g_data.work += budget - step.budget;
    if (step.budget == 0) {
        out_long_pattern(req, out);
    } else {
        char text[32];
        snprintf(text, sizeof(text), "%llu", (unsigned long long)cursor);
        reply_arr(out, 2);
        reply_cstr(out, text);
        reply_arr(out, step.n);
        if (step.n > 0) {
            memcpy(buf_reserve(out->buf, buf_size(&names)), buf_data(&names), buf_size(&names));
            buf_commit(out->buf, buf_size(&names));
        }
    }
    buf_dispose(&names);
}

// Returns a number that nobody can foresee who does not know the key of the hash.
static uint64_t random_bits(void) {
    uint64_t n = ++g_data.random_calls;
    uint64_t high = str_hash(&g_data.hash_key, (const uint8_t *)&n, sizeof(n));
    n = ~n;
    return high << 32 | str_hash(&g_data.hash_key, (const uint8_t *)&n, sizeof(n));
}

// Returns a cursor at a random place: in front of all buckets of the larger table, if there are two, that
// belong together there.
static uint64_t random_cursor(const struct hmap *hmap) {
    size_t newer = hmap->newer.mask, older = hmap->older.mask;
    return random_bits() & (hmap->older.tab && older < newer ? older : newer);
}

// A node among those that were seen, each as likely as the others.
struct pick {
    struct hnode *node;
    size_t seen;
};

static void pick_one(struct hnode *node, void *arg) {
    struct pick *pick = arg;
    if (random_bits() % ++pick->seen == 0) {
        pick->node = node;
    }
}

// Replies a key from a bucket that is chosen at random among those that are not empty; tables shrink,
// so that it takes few tries. Deletes those that have expired, and gives up after very many.
static void do_randomkey(struct request *req, struct reply *out) {
    struct db *db = req->conn->db;
    for (int tries = 0; hm_size(&db->keys) > 0 && tries < k_max_tries; tries++) {
        struct pick pick = {0};
        // Never the next bucket: a key behind a gap would come too often.
        for (; !pick.node; g_data.work++) {
            hm_scan_step(&db->keys, random_cursor(&db->keys), pick_one, &pick);
            hm_help_resizing(&db->keys);
            hm_shrink(&db->keys);
        }
        struct entry *ent = container_of(pick.node, struct entry, node);
        if (!entry_expired(db, ent)) {
            reply_str(out, ent->data, ent->node.key_len);
            return;
        }
        entry_expire(db, ent);
    }
    reply_nil(out);
}

// time: seconds and microseconds since the beginning of 1970
static void do_time(struct request *req, struct reply *out) {
    struct timespec now;
    char text[32];
    (void)req;
    clock_gettime(CLOCK_REALTIME, &now);
    reply_arr(out, 2);
    snprintf(text, sizeof(text), "%lld", (long long)now.tv_sec);
    reply_cstr(out, text);
    snprintf(text, sizeof(text), "%ld", now.tv_nsec / 1000);
    reply_cstr(out, text);
}

static void do_dbsize(struct request *req, struct reply *out) {
    reply_int(out, (int64_t)hm_size(&req->conn->db->keys));
}

static const char k_same_object[] = "ERR source and destination objects are the same";

// Sets *index to `arg`. If that is no int, replies with an error, which is `error` if that is not
// NULL, and returns false.
static bool parse_index(const struct slice *arg, const char *error, int64_t *index,
                        struct reply *out) {
    bool is_int = parse_int(arg, index);
    if (is_int && *index >= INT_MIN && *index <= INT_MAX) {
        return true;
    }
    if (error) {
        reply_err(out, error);
    } else if (!is_int) {
        out_bad_int(out);
    } else {
        reply_errf(
            out, "ERR value is out of range, value must between %d and %d", INT_MIN, INT_MAX);
    }
    return false;
}

// Returns the database with the index. If there is none, replies with an error and returns NULL.
static struct db *find_db(int64_t index, struct reply *out) {
    if (index < 0 || index >= k_databases) {
        reply_err(out, "ERR DB index is out of range");
        return NULL;
    }
    return &g_data.dbs[index];
}

// Adds an entry that has been detached. Its key is not there yet.
static void entry_attach(struct db *db, struct entry *ent, int64_t deadline_ms) {
    hm_insert(&db->keys, &ent->node);
    db->keys_size += entry_listed_size(ent);
    entry_set_deadline(db, ent, deadline_ms);
}

// move key index
static void do_move(struct request *req, struct reply *out) {
    const struct slice *key = &req->args[1];
    struct db *from = req->conn->db, *to;
    int64_t index;
    if (!parse_index(&req->args[2], NULL, &index, out) || !(to = find_db(index, out))) {
        return;
    }
    if (to == from) {
        reply_err(out, k_same_object);
        return;
    }
    struct entry *ent = entry_of(lookup_write(from, key));
    if (!ent || lookup_write(to, key)) {
        reply_int(out, 0);
        return;
    }
    int64_t deadline_ms = entry_deadline(from, ent);
    entry_detach(from, ent);
    entry_attach(to, ent, deadline_ms);
    g_data.dirty++;
    reply_int(out, 1);
}

// swapdb index index: the connections stay with the indexes.
static void do_swapdb(struct request *req, struct reply *out) {
    int64_t index_a, index_b;
    struct db *a, *b;
    if (parse_index(&req->args[1], "ERR invalid first DB index", &index_a, out) &&
        parse_index(&req->args[2], "ERR invalid second DB index", &index_b, out) &&
        (a = find_db(index_a, out)) && (b = find_db(index_b, out))) {
        struct db db = *a;
        *a = *b;
        *b = db;
        g_data.dirty++;
        reply_status(out, "OK");
    }
}

// Renames the key args[1] to args[2]; its deadline stays. Returns whether it did. If not, it has
// replied why (there is no such key, or `nx` is set and a key has the name), or it takes long.
static bool rename_key(struct request *req, bool nx, struct reply *out) {
    struct db *db = req->conn->db;
    const struct slice *key = &req->args[1], *name = &req->args[2];
    struct entry *ent = entry_of(lookup_write(db, key));
    if (!ent) {
        reply_err(out, "ERR no such key");
        return false;
    }
    struct entry *other = entry_of(lookup_write(db, name));
    if (other && nx) {
        reply_int(out, 0);
        return false;
    }
    if (other == ent) {
        return true;
    }
    if (!may_take(req, entry_val(ent).len)) {
        return false;
    }
    if (other) {
        entry_drop(db, other);
    }
    int64_t deadline_ms = entry_deadline(db, ent);
    entry_detach(db, ent);
    struct slice val = entry_val(ent); // of a sorted set its address: the new entry owns it now
    struct entry *renamed = entry_add(db, name, ent->type, &val);
    free(ent);
    entry_set_deadline(db, renamed, deadline_ms);
    g_data.dirty++;
    return true;
}

// rename key name
static void do_rename(struct request *req, struct reply *out) {
    if (rename_key(req, false, out)) {
        reply_status(out, "OK");
    }
}

// renamenx key name
static void do_renamenx(struct request *req, struct reply *out) {
    if (rename_key(req, true, out)) {
        reply_int(out, 1);
    }
}

// Reads the words behind `copy key name`. If one is wrong, replies with an error and returns false.
static bool parse_copy_options(const struct request *req, struct db **to, bool *replace,
                               struct reply *out) {
    for (int i = 3; i < req->nargs; i++) {
        int64_t index;
        if (is_word(&req->args[i], "replace")) {
            *replace = true;
        } else if (is_word(&req->args[i], "db") && i + 1 < req->nargs) {
            if (!parse_index(&req->args[++i], NULL, &index, out) || !(*to = find_db(index, out))) {
                return false;
            }
        } else {
            out_bad_syntax(out);
            return false;
        }
    }
    return true;
}

// copy key name [db index] [replace]
static void do_copy(struct request *req, struct reply *out) {
    struct db *from = req->conn->db, *to = from;
    const struct slice *key = &req->args[1], *name = &req->args[2];
    bool replace = false;
    if (!parse_copy_options(req, &to, &replace, out)) {
        return;
    }
    if (from == to && key->len == name->len && memcmp(key->data, name->data, key->len) == 0) {
        reply_err(out, k_same_object);
        return;
    }
    struct entry *ent = lookup_read(from, key);
    struct entry *other = ent ? entry_of(lookup_write(to, name)) : NULL;
    if (!ent || (other && !replace)) {
        reply_int(out, 0);
        return;
    }
    if (!may_take(req, entry_val(ent).len + entry_pairs(ent) * k_pair_cost)) {
        return;
    }
    if (other) {
        entry_drop(to, other);
    }
    struct entry *copy = entry_copy(to, name, ent);
    entry_set_deadline(to, copy, entry_deadline(from, ent));
    g_data.dirty++;
    reply_int(out, 1);
}

// Returns how Redis would keep the value: clients ask to see what their values cost.
static const char *encoding_name(const struct entry *ent) {
    struct slice val = entry_val(ent);
    int64_t value;
    if (ent->type == T_STR) {
        return parse_int(&val, &value) ? "int" : val.len <= k_short_string ? "embstr" : "raw";
    }
    const struct zset *zset = entry_zset(ent);
    if (zset_size(zset) > k_listpack_pairs) {
        return "skiplist";
    }
    for (struct znode *znode = zset_at(zset, 0); znode; znode = znode_next(znode)) {
        if (znode->node.key_len > k_listpack_name) {
            return "skiplist";
        }
    }
    return "listpack";
}

static void do_object_encoding(struct request *req, struct reply *out) {
    const struct entry *ent = lookup_read(req->conn->db, &req->args[2]);
    if (ent) {
        reply_cstr(out, encoding_name(ent));
    } else {
        reply_nil(out);
    }
}

static void do_object_refcount(struct request *req, struct reply *out) {
    if (lookup_read(req->conn->db, &req->args[2])) {
        reply_int(out, 1);
    } else {
        reply_nil(out);
    }
}

// Returns how many bytes of memory a block takes: what may be used, and the head that the allocator keeps.
static size_t block_size(const void *block) {
    return block ? malloc_usable_size((void *)block) + sizeof(size_t) : 0;
}

// Returns how many bytes the first `n` pairs of the set take, which are not more than it has.
static size_t pairs_size(const struct zset *zset, size_t n) {
    size_t size = 0;
    for (struct znode *znode = zset_at(zset, 0); n > 0; n--) {
        size += block_size(znode);
        znode = znode_next(znode);
    }
    return size;
}

// memory usage key [samples n]: the blocks of the entry, of its deadline and of its set. Of the pairs n
// are looked at, 5 if it does not say, all if it says 0; the others count as these do on average.
static void do_memory_usage(struct request *req, struct reply *out) {
    int64_t samples = 5;
    for (int i = 3; i < req->nargs; i += 2) {
        if (!is_word(&req->args[i], "samples") || i + 1 == req->nargs) {
            out_bad_syntax(out);
            return;
        }
        if (!parse_int(&req->args[i + 1], &samples)) {
            out_bad_int(out);
            return;
        }
        if (samples < 0) {
            out_bad_syntax(out);
            return;
        }
    }
    struct db *db = req->conn->db;
    struct entry *ent = lookup_read(db, &req->args[2]);
    if (!ent) {
        reply_nil(out);
        return;
    }
    size_t pairs = entry_pairs(ent), n = samples == 0 ? pairs : (size_t)samples;
    n = n < pairs ? n : pairs;
    if (!may_take(req, n * k_pair_cost)) {
        return;
    }
    size_t size = block_size(ent) + (ent->has_deadline ? block_size(find_deadline(db, ent)) : 0);
    if (ent->type == T_ZSET) {
        const struct zset *zset = entry_zset(ent);
        size += block_size(zset) + block_size(zset->names.newer.tab);
        size += block_size(zset->names.older.tab);
        size += (size_t)((double)pairs_size(zset, n) / (double)n * (double)pairs);
    }
    reply_int(out, (int64_t)size);
}

// Deletes all keys of some databases, if the words behind the command are right: async or sync.
static void flush(struct request *req, struct db *dbs, size_t n, struct reply *out) {
    if (req->nargs > 2 ||
        (req->nargs == 2 && !is_word(&req->args[1], "async") && !is_word(&req->args[1], "sync"))) {
        out_bad_syntax(out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        db_flush(&dbs[i]);
    }
    reply_status(out, "OK");
}

// flushdb [async | sync]
static void do_flushdb(struct request *req, struct reply *out) {
    flush(req, req->conn->db, 1, out);
}

// flushall [async | sync]
static void do_flushall(struct request *req, struct reply *out) {
    flush(req, g_data.dbs, k_databases, out);
}

// Sets *zset to the sorted set of the entry, NULL if there is no entry. If the entry holds another
// type, replies with an error and returns false.
static bool find_zset(const struct entry *ent, struct zset **zset, struct reply *out) {
    if (ent && ent->type != T_ZSET) {
        out_bad_type(out);
        return false;
    }
    *zset = ent ? entry_zset(ent) : NULL;
    return true;
}

// Finds the sorted set of a key that is to be read.
static bool read_zset(struct request *req, struct zset **zset, struct reply *out) {
    return find_zset(lookup_read(req->conn->db, &req->args[1]), zset, out);
}

// Finds the sorted set of a key that is to be changed.
static bool write_zset(struct request *req, struct zset **zset, struct reply *out) {
    return find_zset(entry_of(lookup_write(req->conn->db, &req->args[1])), zset, out);
}

// What the words between key and score ask for.
struct zadd_options {
    bool nx, xx, gt, lt, ch, incr;
};

// Returns where an option of `zadd` is noted, NULL where the word is none.
static bool *zadd_flag(struct zadd_options *options, const struct slice *word) {
    return is_word(word, "nx")     ? &options->nx
           : is_word(word, "xx")   ? &options->xx
           : is_word(word, "gt")   ? &options->gt
           : is_word(word, "lt")   ? &options->lt
           : is_word(word, "ch")   ? &options->ch
           : is_word(word, "incr") ? &options->incr
                                   : NULL;
}

// Reads the options of `zadd`, and sets *first to where the first pair begins. If there are no pairs,
// or two options exclude each other, replies with an error and returns false.
static bool parse_zadd_options(const struct request *req, struct zadd_options *options, int *first,
                               struct reply *out) {
    int i = 2;
    for (bool *flag; i < req->nargs && (flag = zadd_flag(options, &req->args[i])); i++) {
        *flag = true;
    }
    *first = i;
    if (i == req->nargs || (req->nargs - i) % 2 != 0) {
        out_bad_syntax(out);
        return false;
    }
    if (options->nx && options->xx) {
        reply_err(out, "ERR XX and NX options at the same time are not compatible");
        return false;
    }
    if (options->gt + options->lt + options->nx > 1) {
        reply_err(out, "ERR GT, LT, and/or NX options at the same time are not compatible");
        return false;
    }
    if (options->incr && req->nargs - i > 2) {
        reply_err(out, "ERR INCR option supports a single increment-element pair");
        return false;
    }
    return true;
}

// How zadd_pair() went.
enum zadd_result {
    ZADD_NONE, // the options do not want it
    ZADD_NEW,
    ZADD_SAME,
    ZADD_CHANGED,
    ZADD_NAN, // a sum that is no number
};

// Adds a pair, or gives its name another score, as far as the options want it. *score becomes the
// score that the name has then.
static enum zadd_result zadd_pair(struct zset *zset, const struct zadd_options *options,
                                  const struct slice *name, double *score) {
    struct zname key = zset_key(zset, name->data, name->len);
    struct znode *znode = zset_lookup_key(zset, &key);
    if (!znode) {
        if (options->xx) {
            return ZADD_NONE;
        }
        zset_add(zset, name->data, name->len, *score);
        return ZADD_NEW;
    }
    double old = znode->score;
    if (options->nx) {
        return ZADD_NONE;
    }
    if (options->incr) {
        *score += old;
        if (isnan(*score)) {
            return ZADD_NAN;
        }
    }
    if ((options->gt && *score <= old) || (options->lt && *score >= old)) {
        return ZADD_NONE;
    }
    zset_update(zset, znode, *score);
    return *score == old ? ZADD_SAME : ZADD_CHANGED;
}

// Adds the pairs from args[first] on, all of whose scores are numbers, and replies.
static void zadd_pairs(struct request *req, int first, const struct zadd_options *options,
                       struct reply *out) {
    struct zset *zset;
    if (!write_zset(req, &zset, out)) {
        return;
    }
    if (!zset && !options->xx) {
        zset = entry_add_zset(req->conn->db, &req->args[1]);
    }
    int64_t added = 0, changed = 0;
    double score = 0;
    enum zadd_result result = ZADD_NONE;
    for (int i = first; zset && i < req->nargs; i += 2) {
        parse_double(&req->args[i], &score);
        result = zadd_pair(zset, options, &req->args[i + 1], &score);
        added += result == ZADD_NEW;
        changed += result == ZADD_CHANGED;
    }
    g_data.dirty += (size_t)(added + changed);
    if (result == ZADD_NAN) {
        reply_err(out, "ERR resulting score is not a number (NaN)");
    } else if (options->incr && result == ZADD_NONE) {
        reply_nil(out);
    } else if (options->incr) {
        reply_dbl(out, score);
    } else {
        reply_int(out, options->ch ? added + changed : added);
    }
}

// zadd key [nx | xx] [gt | lt] [ch] [incr] score name [score name]...
static void do_zadd(struct request *req, struct reply *out) {
    struct zadd_options options = {0};
    int first;
    if (!parse_zadd_options(req, &options, &first, out)) {
        return;
    }
    double score;
    for (int i = first; i < req->nargs; i += 2) {
        if (!parse_double(&req->args[i], &score)) {
            out_bad_double(out);
            return;
        }
    }
    zadd_pairs(req, first, &options, out);
}

// zincrby key increment name
static void do_zincrby(struct request *req, struct reply *out) {
    struct zadd_options options = {.incr = true};
    double increment;
    if (zadd_flag(&options, &req->args[2])) { // to Redis this is `zadd`, with a score too few
        out_bad_syntax(out);
        return;
    }
    if (!parse_double(&req->args[2], &increment)) {
        out_bad_double(out);
        return;
    }
    zadd_pairs(req, 2, &options, out);
}

// zrem key name...
static void do_zrem(struct request *req, struct reply *out) {
    struct zset *zset;
    if (!write_zset(req, &zset, out)) {
        return;
    }
    int64_t n = 0;
    for (int i = 2; zset && i < req->nargs; i++) {
        struct znode *znode = zset_lookup(zset, req->args[i].data, req->args[i].len);
        if (znode) {
            zset_del(zset, znode);
            n++;
            if (zset_size(zset) == 0) {
                entry_drop(req->conn->db, entry_of(lookup_write(req->conn->db, &req->args[1])));
                zset = NULL;
            }
        }
    }
    g_data.dirty += (size_t)n;
    reply_int(out, n);
}

// Sets *znode to the pair with args[2] for a name, NULL if there is none. If the key holds another
// type, replies with an error and returns false.
static bool find_pair(struct request *req, struct zset **zset, struct znode **znode,
                      struct reply *out) {
    const struct slice *name = &req->args[2];
    if (!read_zset(req, zset, out)) {
        return false;
    }
    *znode = *zset ? zset_lookup(*zset, name->data, name->len) : NULL;
    return true;
}

static void do_zscore(struct request *req, struct reply *out) {
    struct zset *zset;
    struct znode *znode;
    if (!find_pair(req, &zset, &znode, out)) {
        return;
    }
    if (znode) {
        reply_dbl(out, znode->score);
    } else {
        reply_nil(out);
    }
}

static void do_zrank(struct request *req, struct reply *out) {
    struct zset *zset;
    struct znode *znode;
    if (!find_pair(req, &zset, &znode, out)) {
        return;
    }
    if (znode) {
        reply_int(out, (int64_t)zset_rank(znode));
    } else {
        reply_nil(out);
    }
}

static void do_zrevrank(struct request *req, struct reply *out) {
    struct zset *zset;
    struct znode *znode;
    if (!find_pair(req, &zset, &znode, out)) {
        return;
    }
    if (znode) {
        reply_int(out, (int64_t)(zset_size(zset) - 1 - zset_rank(znode)));
    } else {
        reply_nil(out);
    }
}

static void do_zcard(struct request *req, struct reply *out) {
    struct zset *zset;
    if (read_zset(req, &zset, out)) {
        reply_int(out, zset ? (int64_t)zset_size(zset) : 0);
    }
}

// A range of places in a sorted set: from `begin` up to before `end`.
struct places {
    size_t begin, end;
};

// Reads both ends of a range of scores. If one is wrong, replies with an error and returns false.
static bool parse_bounds(const struct slice *min, const struct slice *max, struct bound bounds[2],
                         struct reply *out) {
    if (!parse_bound(min, &bounds[0]) || !parse_bound(max, &bounds[1])) {
        reply_err(out, "ERR min or max is not a float");
        return false;
    }
    return true;
}

// Returns the places of the pairs whose scores are in the range.
static struct places score_places(const struct zset *zset, const struct bound bounds[2]) {
    size_t begin = zset_count_below(zset, bounds[0].score, bounds[0].open);
    size_t end = zset_count_below(zset, bounds[1].score, !bounds[1].open);
    return (struct places){begin, end > begin ? end : begin};
}

// Returns the places from `first` to `last`, both included; negative ones count from the end.
static struct places rank_places(const struct zset *zset, int64_t first, int64_t last) {
    int64_t size = (int64_t)zset_size(zset);
    first = first >= 0 ? first : first < -size ? 0 : size + first;
    last = last >= 0 ? last : size + last;
    last = last < size ? last : size - 1;
    if (first > last) {
        return (struct places){0, 0};
    }
    return (struct places){(size_t)first, (size_t)last + 1};
}

// zcount key min max
static void do_zcount(struct request *req, struct reply *out) {
    struct bound bounds[2];
    struct zset *zset;
    if (!parse_bounds(&req->args[2], &req->args[3], bounds, out) || !read_zset(req, &zset, out)) {
        return;
    }
    struct places places = {0, 0};
    if (zset) {
        places = score_places(zset, bounds);
    }
    reply_int(out, (int64_t)(places.end - places.begin));
}

// What is asked for of a range.
struct zrange_options {
    bool by_score, with_scores, rev;
    int64_t offset, count; // a count of -1 is that of no limit
};

// Reads the options of a range, from args[4] on; `general` stands for those of `zrange` itself. If
// one is wrong, replies with an error and returns false.
static bool parse_zrange_options(const struct request *req, bool general,
                                 struct zrange_options *options, struct reply *out) {
    options->count = -1;
    for (int i = 4; i < req->nargs; i++) {
        const struct slice *arg = &req->args[i];
        if (is_word(arg, "withscores")) {
            options->with_scores = true;
        } else if (is_word(arg, "limit") && i + 2 < req->nargs) {
            if (!parse_int(arg + 1, &options->offset) || !parse_int(arg + 2, &options->count)) {
                out_bad_int(out);
                return false;
            }
            i += 2;
        } else if (general && !options->rev && is_word(arg, "rev")) {
            options->rev = true;
        } else if (general && !options->by_score && is_word(arg, "byscore")) {
            options->by_score = true;
        } else {
            out_bad_syntax(out);
            return false;
        }
    }
    if (options->count != -1 && !options->by_score) {
        reply_err(out,
                  "ERR syntax error, LIMIT is only supported in combination with either BYSCORE "
                  "or BYLEX");
        return false;
    }
    return true;
}

// Returns what LIMIT leaves of the places, which are passed through from their end where `rev` says
// so.
static struct places limit_places(struct places places, const struct zrange_options *options) {
    size_t n = places.end - places.begin;
    if (options->offset < 0 || (uint64_t)options->offset >= n) {
        return (struct places){0, 0};
    }
    size_t skip = (size_t)options->offset;
    n -= skip;
    if (options->count >= 0 && (uint64_t)options->count < n) {
        n = (size_t)options->count;
    }
    size_t begin = options->rev ? places.end - skip - n : places.begin + skip;
    return (struct places){begin, begin + n};
}

// Replies the pairs at the places. Version 3 has an array for each, of name and score.
static void out_pairs(struct request *req, const struct zset *zset, struct places places,
                      const struct zrange_options *options, struct reply *out) {
    size_t n = places.end - places.begin;
    if (n > k_max_pairs) {
        out_too_big(out); // even with empty names
        return;
    }
    if (!may_take(req, n * k_pair_cost)) {
        return;
    }
    size_t max_size = buf_size(out->buf) + k_max_msg;
    reply_arr(out, options->with_scores && !out->resp3 ? n * 2 : n);
    struct znode *znode =
        n > 0 ? zset_at(zset, options->rev ? places.end - 1 : places.begin) : NULL;
    for (size_t i = 0; i < n && buf_size(out->buf) <= max_size; i++) {
        if (options->with_scores && out->resp3) {
            reply_arr(out, 2);
        }
        reply_str(out, znode->name, znode->node.key_len);
        if (options->with_scores) {
            reply_dbl(out, znode->score);
        }
        znode = options->rev ? znode_prev(znode) : znode_next(znode);
    }
}

// Replies the pairs between two scores.
static void range_by_score(struct request *req, const struct zrange_options *options,
                           struct reply *out) {
    struct bound bounds[2];
    struct zset *zset;
    const struct slice *min = &req->args[options->rev ? 3 : 2];
    const struct slice *max = &req->args[options->rev ? 2 : 3];
    if (!parse_bounds(min, max, bounds, out) || !read_zset(req, &zset, out)) {
        return;
    }
    if (!zset) {
        reply_arr(out, 0);
        return;
    }
    out_pairs(req, zset, limit_places(score_places(zset, bounds), options), options, out);
}

// Replies the pairs between two places.
static void range_by_rank(struct request *req, const struct zrange_options *options,
                          struct reply *out) {
    int64_t first, last;
    struct zset *zset;
    if (!parse_int(&req->args[2], &first) || !parse_int(&req->args[3], &last)) {
        out_bad_int(out);
        return;
    }
    if (!read_zset(req, &zset, out)) {
        return;
    }
    if (!zset) {
        reply_arr(out, 0);
        return;
    }
    struct places places = rank_places(zset, first, last);
    if (options->rev) {
        size_t size = places.end > places.begin ? zset_size(zset) : places.end;
        places = (struct places){size - places.end, size - places.begin};
    }
    out_pairs(req, zset, places, options, out);
}

// zrange key first last [byscore] [rev] [limit offset count] [withscores]
static void do_zrange(struct request *req, struct reply *out) {
    struct zrange_options options = {0};
    if (!parse_zrange_options(req, true, &options, out)) {
        return;
    }
    if (options.by_score) {
        range_by_score(req, &options, out);
    } else {
        range_by_rank(req, &options, out);
    }
}

// zrangebyscore key min max [withscores] [limit offset count]
static void do_zrangebyscore(struct request *req, struct reply *out) {
    struct zrange_options options = {.by_score = true};
    if (parse_zrange_options(req, false, &options, out)) {
        range_by_score(req, &options, out);
    }
}

// zquery key score name offset limit
static void do_zquery(struct request *req, struct reply *out) {
    const struct slice *args = req->args;
    double score;
    int64_t offset, limit;
    if (!parse_double(&args[2], &score)) {
        out_bad_double(out);
        return;
    }
    if (!parse_int(&args[4], &offset) || !parse_int(&args[5], &limit)) {
        out_bad_int(out);
        return;
    }
    struct zset *zset;
    if (!read_zset(req, &zset, out)) {
        return;
    }
    struct znode *znode = NULL;
    if (zset && limit > 0) {
        znode = zset_query(zset, score, args[3].data, args[3].len, offset);
    }
    size_t left = znode ? zset_size(zset) - zset_rank(znode) : 0;
    size_t n = limit > 0 && (uint64_t)limit < left ? (size_t)limit : left;
    if (n > k_max_pairs) {
        out_too_big(out); // even with empty names
        return;
    }
    if (!may_take(req, n * k_pair_cost)) {
        return;
    }
    size_t max_size = buf_size(out->buf) + k_max_msg;
    reply_arr(out, n * 2);
    for (size_t i = 0; i < n && buf_size(out->buf) <= max_size; i++) {
        reply_str(out, znode->name, znode->node.key_len);
        reply_dbl(out, znode->score);
        znode = znode_next(znode);
    }
}

// What the words behind the time of `expire` ask for.
struct expire_options {
    bool nx, xx, gt, lt;
};

// Reads the options of `expire`. If they do not go together, replies with an error and returns false.
static bool parse_expire_options(const struct request *req, struct expire_options *options,
                                 struct reply *out) {
    for (int i = 3; i < req->nargs; i++) {
        const struct slice *arg = &req->args[i];
        bool *flag = is_word(arg, "nx")   ? &options->nx
                     : is_word(arg, "xx") ? &options->xx
                     : is_word(arg, "gt") ? &options->gt
                     : is_word(arg, "lt") ? &options->lt
                                          : NULL;
        if (!flag) {
            reply_errf(out, "ERR Unsupported option %.*s", (int)arg->len, arg->data);
            return false;
        }
        *flag = true;
    }
    if (options->nx && (options->xx || options->gt || options->lt)) {
        reply_err(out, "ERR NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if (options->gt && options->lt) {
        reply_err(out, "ERR GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

// Tells whether the options let a deadline take the place of another one, or of none, which counts as
// later than all others.
static bool may_replace(const struct expire_options *options, int64_t old_ms, int64_t new_ms) {
    bool has_one = old_ms != k_no_deadline;
    return !(options->nx && has_one) && !(options->xx && !has_one) &&
           !(options->gt && (!has_one || new_ms <= old_ms)) &&
           !(options->lt && has_one && new_ms >= old_ms);
}

// Gives the key a deadline, `start_ms` and an amount in `unit_ms` after it; deletes the key where
// that has passed.
static void expire_key(struct request *req, int64_t start_ms, int64_t unit_ms, struct reply *out) {
    struct db *db = req->conn->db;
    struct expire_options options = {0};
    int64_t at_ms;
    if (!parse_expire_options(req, &options, out)) {
        return;
    }
    if (!parse_int(&req->args[2], &at_ms)) {
        out_bad_int(out);
        return;
    }
    if (__builtin_mul_overflow(at_ms, unit_ms, &at_ms) ||
        __builtin_add_overflow(at_ms, start_ms, &at_ms)) {
        out_bad_time(req, out);
        return;
    }
    struct entry *ent = entry_of(lookup_write(db, &req->args[1]));
    if (!ent || !may_replace(&options, entry_deadline(db, ent), at_ms)) {
        reply_int(out, 0);
        return;
    }
    if (at_ms > g_data.now_ms) {
        entry_set_deadline(db, ent, at_ms);
    } else {
        entry_drop(db, ent);
    }
    g_data.dirty++;
    reply_int(out, 1);
}

// Reads the clock again, for this request and those behind it: those before it in this batch may have
// taken long.
static int64_t look_at_clock(void) {
    g_data.now_ms = get_wall_msec();
    return g_data.now_ms;
}

// expire key seconds [nx | xx | gt | lt]
static void do_expire(struct request *req, struct reply *out) {
    expire_key(req, look_at_clock(), 1000, out);
}

// pexpire key milliseconds [nx | xx | gt | lt]
static void do_pexpire(struct request *req, struct reply *out) {
    expire_key(req, look_at_clock(), 1, out);
}

// expireat key date [nx | xx | gt | lt]
static void do_expireat(struct request *req, struct reply *out) {
    look_at_clock();
    expire_key(req, 0, 1000, out);
}

// pexpireat key date [nx | xx | gt | lt]
static void do_pexpireat(struct request *req, struct reply *out) {
    look_at_clock();
    expire_key(req, 0, 1, out);
}

// Replies when the time of the key is up, in units after `start_ms`, rounded: -1 for never, -2 where
// there is no such key.
static void out_ttl(struct request *req, int64_t start_ms, int64_t unit_ms, struct reply *out) {
    struct entry *ent = lookup_read(req->conn->db, &req->args[1]);
    if (!ent) {
        reply_int(out, -2);
    } else if (!ent->has_deadline) {
        reply_int(out, -1);
    } else {
        int64_t ttl_ms = entry_deadline(req->conn->db, ent) - start_ms;
        reply_int(out, ttl_ms / unit_ms + (ttl_ms % unit_ms * 2 >= unit_ms));
    }
}

static void do_ttl(struct request *req, struct reply *out) {
    out_ttl(req, g_data.now_ms, 1000, out);
}

static void do_pttl(struct request *req, struct reply *out) {
    out_ttl(req, g_data.now_ms, 1, out);
}

static void do_expiretime(struct request *req, struct reply *out) {
    out_ttl(req, 0, 1000, out);
}

static void do_pexpiretime(struct request *req, struct reply *out) {
    out_ttl(req, 0, 1, out);
}

static void do_persist(struct request *req, struct reply *out) {
    struct entry *ent = entry_of(lookup_write(req->conn->db, &req->args[1]));
    bool persists = ent && entry_clear_deadline(req->conn->db, ent);
    g_data.dirty += persists;
    reply_int(out, persists);
}

// ---- the connection and the server ----

// ping [message]
static void do_ping(struct request *req, struct reply *out) {
    if (req->nargs > 2) {
        out_bad_arity("ping", out);
    } else if (req->nargs == 2) {
        reply_str(out, req->args[1].data, req->args[1].len);
    } else {
        reply_status(out, "PONG");
    }
}

static void do_echo(struct request *req, struct reply *out) {
    reply_str(out, req->args[1].data, req->args[1].len);
}

static void do_quit(struct request *req, struct reply *out) {
    req->conn->bad = true;
    reply_status(out, "OK");
}

// select index
static void do_select(struct request *req, struct reply *out) {
    int64_t index;
    struct db *db;
    if (parse_index(&req->args[1], NULL, &index, out) && (db = find_db(index, out))) {
        req->conn->db = db;
        reply_status(out, "OK");
    }
}

// Gives the connection a name, or none if it is empty. If it is not allowed, replies with an error
// and returns false.
static bool set_name(struct conn *conn, const struct slice *name, struct reply *out) {
    if (name->len > k_max_name) {
        reply_err(out, "ERR Client names cannot be longer than 1024 bytes.");
        return false;
    }
    for (size_t i = 0; i < name->len; i++) {
        if (name->data[i] < '!' || name->data[i] > '~') {
            reply_err(out,
                      "ERR Client names cannot contain spaces, newlines or special characters.");
            return false;
        }
    }
    free(conn->name);
    conn->name = NULL;
    if (name->len > 0) {
        conn->name = mem_alloc(name->len + 1);
        memcpy(conn->name, name->data, name->len);
        conn->name[name->len] = '\0';
    }
    return true;
}

// Tells whether this is the default user, the only one that there is. There are no passwords: any is
// right. If it is another one, replies with an error.
static bool is_user(const struct slice *name, struct reply *out) {
    if (name->len == 7 && memcmp(name->data, "default", 7) == 0) {
        return true;
    }
    reply_err(out, "WRONGPASS invalid username-password pair or user is disabled.");
    return false;
}

// auth [user] password
static void do_auth(struct request *req, struct reply *out) {
    if (req->nargs > 3) {
        out_bad_syntax(out);
    } else if (req->nargs == 2) {
        reply_err(out,
                  "ERR AUTH <password> called without any password configured for the default user."
                  " Are you sure your configuration is correct?");
    } else if (is_user(&req->args[1], out)) {
        reply_status(out, "OK");
    }
}

// Makes the connection what it was when it was new.
static void do_reset(struct request *req, struct reply *out) {
    struct conn *conn = req->conn;
    conn->db = &g_data.dbs[0];
    conn->resp3 = false;
    conn->refused_until_ms = 0;
    free(conn->name);
    conn->name = NULL;
    reply_status(out, "RESET");
}

// Reads the words of `hello` from args[i] on. If one is wrong, replies with an error and returns
// false.
static bool hello_words(struct request *req, int i, struct reply *out) {
    for (; i < req->nargs; i++) {
        const struct slice *arg = &req->args[i];
        if (is_word(arg, "auth") && i + 2 < req->nargs) {
            if (!is_user(&req->args[i + 1], out)) {
                return false;
            }
            i += 2;
        } else if (is_word(arg, "setname") && i + 1 < req->nargs) {
            if (!set_name(req->conn, &req->args[++i], out)) {
                return false;
            }
        } else {
            reply_errf(out, "ERR Syntax error in HELLO option '%.*s'", (int)arg->len, arg->data);
            return false;
        }
    }
    return true;
}

// hello [version [auth user password] [setname name]]
static void do_hello(struct request *req, struct reply *out) {
    int64_t version = req->conn->resp3 ? 3 : 2;
    if (req->nargs > 1 && !parse_int(&req->args[1], &version)) {
        reply_err(out, "ERR Protocol version is not an integer or out of range");
        return;
    }
    if (version < 2 || version > 3) {
        reply_err(out, "NOPROTO unsupported protocol version");
        return;
    }
    if (!hello_words(req, 2, out)) {
        return;
    }
    req->conn->resp3 = out->resp3 = version == 3;
    reply_map(out, 7);
    reply_cstr(out, "server");
    reply_cstr(out, "redis");
    reply_cstr(out, "version");
    reply_cstr(out, k_version);
    reply_cstr(out, "proto");
    reply_int(out, version);
    reply_cstr(out, "id");
    reply_int(out, req->conn->id);
    reply_cstr(out, "mode");
    reply_cstr(out, "standalone");
    reply_cstr(out, "role");
    reply_cstr(out, "master");
    reply_cstr(out, "modules");
    reply_arr(out, 0);
}

static void do_client_id(struct request *req, struct reply *out) {
    reply_int(out, req->conn->id);
}

static void do_client_getname(struct request *req, struct reply *out) {
    if (req->conn->name) {
        reply_cstr(out, req->conn->name);
    } else {
        reply_nil(out);
    }
}

static void do_client_setname(struct request *req, struct reply *out) {
    if (set_name(req->conn, &req->args[2], out)) {
        reply_status(out, "OK");
    }
}

// client setinfo lib-name | lib-ver text: what a library says of itself. Nobody asks for it here.
static void do_client_setinfo(struct request *req, struct reply *out) {
    const struct slice *arg = &req->args[2];
    if (is_word(arg, "lib-name") || is_word(arg, "lib-ver")) {
        reply_status(out, "OK");
    } else {
        reply_errf(out, "ERR Unrecognized option '%.*s'", (int)arg->len, arg->data);
    }
}

// Appends formatted text.
__attribute__((format(printf, 2, 3))) static void add_text(struct buf *text, const char *fmt, ...) {
    char line[512];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    size_t n = (size_t)len < sizeof(line) ? (size_t)len : sizeof(line) - 1;
    memcpy(buf_reserve(text, n), line, n);
    buf_commit(text, n);
}

// Appends the address of one end of a connection.
static void add_address(struct buf *text, const char *what, int fd,
                        int (*name_of)(int, struct sockaddr *, socklen_t *)) {
    struct sockaddr_in addr = {0};
    socklen_t len = sizeof(addr);
    name_of(fd, (struct sockaddr *)&addr, &len);
    add_text(text, " %s=%s:%u", what, inet_ntoa(addr.sin_addr), (unsigned)ntohs(addr.sin_port));
}

// Appends the line that says who a connection is, in all fields of Redis. 0 or -1 stands for what is not
// here. Arguments stay in rbuf: argv-mem is 0. Replies that wait are in one buffer that grows: that is
// the list of Redis, oll and omem.
static void add_client(struct buf *text, const struct conn *conn) {
    int64_t now_ms = get_monotonic_msec();
    add_text(text, "id=%lld", (long long)conn->id);
    add_address(text, "addr", conn->fd, getpeername);
    add_address(text, "laddr", conn->fd, getsockname);
    add_text(text, " fd=%d name=", conn->fd);
    if (conn->name) {
        memcpy(buf_reserve(text, strlen(conn->name)), conn->name, strlen(conn->name));
        buf_commit(text, strlen(conn->name));
    }
    add_text(text,
             " age=%lld idle=%lld flags=N db=%d",
             (long long)(now_ms - conn->start_ms) / 1000,
             (long long)(now_ms - conn->idle_start) / 1000,
             (int)(conn->db - g_data.dbs));
    size_t name_size = conn->name ? strlen(conn->name) + 1 : 0, unsent = buf_size(&conn->wbuf);
    add_text(text,
             " sub=0 psub=0 ssub=0 multi=-1 qbuf=%zu qbuf-free=%zu argv-mem=0 multi-mem=0"
             " rbs=0 rbp=0 obl=0 oll=%d omem=%zu tot-mem=%zu",
             buf_size(&conn->rbuf),
             conn->rbuf.cap - buf_size(&conn->rbuf),
             unsent > 0,
             unsent,
             sizeof(*conn) + name_size + conn->rbuf.cap + conn->wbuf.cap);
    add_text(text,
             " events=r cmd=%s user=default redir=-1 resp=%d\n",
             conn->last ? conn->last->name : "NULL",
             conn->resp3 ? 3 : 2);
}

static void do_client_info(struct request *req, struct reply *out) {
    struct buf text = {0};
    add_client(&text, req->conn);
    reply_text(out, (const char *)buf_data(&text), buf_size(&text));
    buf_dispose(&text);
}

static void do_client_list(struct request *req, struct reply *out) {
    if (!may_take(req, g_data.num_conns * k_client_cost)) {
        return;
    }
    struct buf text = {0};
    for (struct dlist *node = g_data.idle_list.next; node != &g_data.idle_list; node = node->next) {
        add_client(&text, container_of(node, struct conn, idle_node));
    }
    reply_text(out, (const char *)buf_data(&text), buf_size(&text));
    buf_dispose(&text);
}

// ---- settings and counters ----

// What clients ask for by `config get`. All that has a value here stays as it is; the others are
// numbers that can be set.
static const struct setting {
    const char *name;
    const char *value;
    int64_t *number; // in `unit`, rounded up
    int64_t unit, min, max;
} k_settings[] = {
    {"active-expire-effort", NULL, &g_data.cycle.effort, 1, 1, 10},
    {"appendonly", "no", NULL, 0, 0, 0},
    {"databases", "16", NULL, 0, 0, 0},
    {"maxmemory", "0", NULL, 0, 0, 0},
    {"maxmemory-policy", "noeviction", NULL, 0, 0, 0},
    {"proto-max-bulk-len", "33554432", NULL, 0, 0, 0},
    {"save", "", NULL, 0, 0, 0},
    {"timeout", NULL, &g_data.idle_timeout_ms, 1000, 0, INT_MAX},
};

enum {
    k_num_settings = sizeof(k_settings) / sizeof(k_settings[0]),
};

// Returns the value of a setting. `text` has room for one that has to be written.
static const char *setting_value(const struct setting *setting, char text[32]) {
    if (setting->value) {
        return setting->value;
    }
    int64_t value = (*setting->number + setting->unit - 1) / setting->unit;
    snprintf(text, 32, "%lld", (long long)value);
    return text;
}

// config get pattern...: a name that was asked for by itself is written as it was asked for
static void do_config_get(struct request *req, struct reply *out) {
    const struct slice *wanted[k_num_settings] = {NULL};
    size_t n = 0, budget = compare_budget(req, 0), left = budget;
    for (int i = 2; i < req->nargs; i++) {
        uint8_t *pattern = small_letters(&req->args[i]);
        for (size_t s = 0; s < k_num_settings; s++) {
            const uint8_t *name = (const uint8_t *)k_settings[s].name;
            if (!wanted[s] &&
                glob_match(pattern, req->args[i].len, name, strlen(k_settings[s].name), &left)) {
                wanted[s] = &req->args[i];
                n++;
            }
        }
        free(pattern);
    }
    g_data.work += budget - left;
    if (left == 0) {
        out_long_pattern(req, out);
        return;
    }
    reply_map(out, n);
    for (size_t s = 0; s < k_num_settings; s++) {
        char text[32];
        if (wanted[s]) {
            if (is_word(wanted[s], k_settings[s].name)) {
                reply_str(out, wanted[s]->data, wanted[s]->len);
            } else {
                reply_cstr(out, k_settings[s].name);
            }
            reply_cstr(out, setting_value(&k_settings[s], text));
        }
    }
}

// Returns the setting with the name, NULL where there is none.
static const struct setting *find_setting(const struct slice *name) {
    for (size_t s = 0; s < k_num_settings; s++) {
        if (is_word(name, k_settings[s].name)) {
            return &k_settings[s];
        }
    }
    return NULL;
}

static void out_not_set(const char *name, const char *why, struct reply *out) {
    reply_errf(out, "ERR CONFIG SET failed (possibly related to argument '%s') - %s", name, why);
}

// Tells whether args[i] names a setting that may be set, and that no argument before it names. If not,
// replies with an error.
static bool may_set(const struct request *req, int i, struct reply *out) {
    const struct slice *name = &req->args[i], *value = name + 1;
    const struct setting *setting = find_setting(name);
    if (!setting) {
        reply_errf(out,
                   "ERR Unknown option or number of arguments for CONFIG SET - '%.*s'",
                   (int)name->len,
                   name->data);
        return false;
    }
    bool same = setting->value && strlen(setting->value) == value->len &&
                memcmp(setting->value, value->data, value->len) == 0;
    if (setting->value && !same) {
        out_not_set(setting->name, "can't set immutable config", out);
        return false;
    }
    for (int before = 2; before < i; before += 2) {
        if (find_setting(&req->args[before]) == setting) {
            out_not_set(setting->name, "duplicate parameter", out);
            return false;
        }
    }
    return true;
}

// Sets *number to `arg`. If that is no number that the setting takes, replies with an error and
// returns false.
static bool parse_setting(const struct setting *setting, const struct slice *arg, int64_t *number,
                          struct reply *out) {
    if (!parse_int(arg, number)) {
        out_not_set(setting->name, "argument couldn't be parsed into an integer", out);
        return false;
    }
    if (*number < setting->min || *number > setting->max) {
        char why[80];
        snprintf(why,
                 sizeof(why),
                 "argument must be between %lld and %lld inclusive",
                 (long long)setting->min,
                 (long long)setting->max);
        out_not_set(setting->name, why, out);
        return false;
    }
    return true;
}

// config set name value [name value]...: all of them, or none
static void do_config_set(struct request *req, struct reply *out) {
    int64_t numbers[k_num_settings];
    if (req->nargs % 2 != 0) {
        out_bad_syntax(out);
        return;
    }
    for (int i = 2; i < req->nargs; i += 2) {
        if (!may_set(req, i, out)) {
            return;
        }
    }
    for (int i = 2; i < req->nargs; i += 2) {
        const struct setting *setting = find_setting(&req->args[i]);
        if (setting->number &&
            !parse_setting(setting, &req->args[i + 1], &numbers[setting - k_settings], out)) {
            return;
        }
    }
    for (int i = 2; i < req->nargs; i += 2) {
        const struct setting *setting = find_setting(&req->args[i]);
        if (setting->number) {
            *setting->number = numbers[setting - k_settings] * setting->unit;
        }
    }
    reply_status(out, "OK");
}

static void do_config_resetstat(struct request *req, struct reply *out) {
    (void)req;
    g_data.stats = (struct stats){0};
    g_data.cycle.stale_percent = 0;
    reply_status(out, "OK");
}

static void info_server(struct buf *text) {
    add_text(text,
             "redis_version:%s\r\nredis_mode:standalone\r\nos:Linux\r\narch_bits:%zu\r\n",
             k_version,
             sizeof(void *) * 8);
    add_text(text,
             "process_id:%d\r\nuptime_in_seconds:%lld\r\n",
             (int)getpid(),
             (long long)(get_monotonic_msec() - g_data.start_ms) / 1000);
}

static void info_clients(struct buf *text) {
    add_text(text, "connected_clients:%zu\r\nblocked_clients:0\r\n", g_data.num_conns);
}

// In /proc/self/statm the second number is how many pages are in memory, the third how many of them are
// those of files: the program, libraries. The others hold what was allocated, and what was freed and is
// not given back yet: how much that is, mallinfo2() could tell, but it looks at every free block.
static void info_memory(struct buf *text) {
    long pages = 0, of_files = 0, page_size = sysconf(_SC_PAGESIZE);
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm) {
        if (fscanf(statm, "%*s %ld %ld", &pages, &of_files) != 2) {
            pages = of_files = 0;
        }
        fclose(statm);
    }
    long used = (pages - of_files) * page_size;
    add_text(
        text, "used_memory:%ld\r\nused_memory_human:%.2fM\r\n", used, (double)used / (1 << 20));
    add_text(text,
             "used_memory_rss:%ld\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n",
             pages * page_size);
}

// There is nothing to load and nothing is saved: how much has changed is all that there is to say.
static void info_persistence(struct buf *text) {
    add_text(text, "loading:0\r\nrdb_changes_since_last_save:%zu\r\n", g_data.dirty);
}

static void info_stats(struct buf *text) {
    const struct stats *stats = &g_data.stats;
    add_text(text,
             "total_connections_received:%zu\r\ntotal_commands_processed:%zu\r\n",
             stats->connections,
             stats->commands);
    add_text(text,
             "expired_keys:%zu\r\nexpired_stale_perc:%.2f\r\n"
             "expired_time_cap_reached_count:%zu\r\n",
             stats->expired,
             g_data.cycle.stale_percent,
             stats->slices_cut_short);
    add_text(text, "keyspace_hits:%zu\r\nkeyspace_misses:%zu\r\n", stats->hits, stats->misses);
}

static void info_replication(struct buf *text) {
    add_text(text, "role:master\r\nconnected_slaves:0\r\n");
}

static void info_cluster(struct buf *text) {
    add_text(text, "cluster_enabled:0\r\n");
}

static void info_keyspace(struct buf *text) {
    for (int i = 0; i < k_databases; i++) {
        const struct db *db = &g_data.dbs[i];
        if (hm_size(&db->keys) > 0) {
            add_text(text,
                     "db%d:keys=%zu,expires=%zu,avg_ttl=%lld\r\n",
                     i,
                     hm_size(&db->keys),
                     hm_size(&db->expires),
                     (long long)db->avg_ttl_ms);
        }
    }
}

static const struct section {
    const char *name, *title;
    void (*f)(struct buf *text);
} k_sections[] = {
    {"server", "Server", info_server},
    {"clients", "Clients", info_clients},
    {"memory", "Memory", info_memory},
    {"persistence", "Persistence", info_persistence},
    {"stats", "Stats", info_stats},
    {"replication", "Replication", info_replication},
    {"cluster", "Cluster", info_cluster},
    {"keyspace", "Keyspace", info_keyspace},
};

// Tells whether `info` with these arguments is to show the section.
static bool wants_section(const struct request *req, const char *name) {
    bool wanted = req->nargs == 1;
    for (int i = 1; i < req->nargs && !wanted; i++) {
        const struct slice *arg = &req->args[i];
        wanted = is_word(arg, name) || is_word(arg, "default") || is_word(arg, "all") ||
                 is_word(arg, "everything");
    }
    return wanted;
}

// info [section]...
static void do_info(struct request *req, struct reply *out) {
    struct buf text = {0};
    for (size_t i = 0; i < sizeof(k_sections) / sizeof(k_sections[0]); i++) {
        const struct section *section = &k_sections[i];
        if (wants_section(req, section->name)) {
            add_text(&text, "%s# %s\r\n", buf_size(&text) > 0 ? "\r\n" : "", section->title);
            section->f(&text);
        }
    }
    reply_text(out, buf_size(&text) > 0 ? (const char *)buf_data(&text) : "", buf_size(&text));
    buf_dispose(&text);
}

// ---- the table of commands ----

static const struct flag {
    unsigned bits;
    const char *name;
} k_flags[] = {
    {WRITE, "write"},
    {READ, "readonly"},
    {GROWS, "denyoom"},
    {ADMIN, "admin"},
    {FAST, "fast"},
};

// Returns the place in the index of commands from where on the name of `len` bytes is looked for: a
// hash of its bytes, in letters of any case.
static size_t command_hash(const uint8_t *name, size_t len) {
    uint32_t hash = 0;
    for (size_t i = 0; i < len; i++) {
        hash = hash * 31 + (name[i] | 0x20);
    }
    return hash % k_command_slots;
}

// Returns the command with the name, NULL where there is none.
static const struct command *find_command(const struct slice *name) {
    if (name->len > k_max_command) {
        return NULL;
    }
    size_t slot = command_hash(name->data, name->len);
    while (g_data.commands[slot] && !is_word(name, g_data.commands[slot]->name)) {
        slot = (slot + 1) % k_command_slots;
    }
    return g_data.commands[slot];
}

// Returns the command of the family that the second word names, NULL where there is none.
static const struct command *find_in_family(const struct command *family,
                                            const struct slice *word) {
    char name[2 * k_max_command];
    if (word->len > k_max_command) {
        return NULL;
    }
    int len = snprintf(name, sizeof(name), "%s|", family->name);
    memcpy(name + len, word->data, word->len);
    return find_command(&(struct slice){(const uint8_t *)name, (size_t)len + word->len});
}

// Tells whether `command` is one of the family.
static bool is_in_family(const struct command *command, const struct command *family) {
    size_t len = strlen(family->name);
    return strncmp(command->name, family->name, len) == 0 && command->name[len] == '|';
}

// Returns how many commands there are, not counting those of families.
static size_t count_commands(void) {
    size_t n = 0;
    for (size_t i = 0; i < g_data.num_commands; i++) {
        n += !(g_data.table[i].flags & MEMBER);
    }
    return n;
}

// Replies what `command` says of one: ten fields, some of which are about what is not here.
static void out_command(const struct command *command, struct reply *out) {
    size_t n = 0;
    for (size_t i = 0; i < sizeof(k_flags) / sizeof(k_flags[0]); i++) {
        n += (command->flags & k_flags[i].bits) == k_flags[i].bits;
    }
    reply_arr(out, 10);
    reply_cstr(out, command->name);
    reply_int(out, command->arity);
    reply_set(out, n);
    for (size_t i = 0; i < sizeof(k_flags) / sizeof(k_flags[0]); i++) {
        if ((command->flags & k_flags[i].bits) == k_flags[i].bits) {
            reply_status(out, k_flags[i].name);
        }
    }
    reply_int(out, command->first);
    reply_int(out, command->last);
    reply_int(out, command->step);
    reply_set(out, 0); // categories of access control
    reply_set(out, 0); // tips
    reply_set(out, 0); // where keys are, in another form
    n = 0;
    for (size_t i = 0; i < g_data.num_commands; i++) {
        n += is_in_family(&g_data.table[i], command);
    }
    reply_arr(out, n);
    for (size_t i = 0; n > 0 && i < g_data.num_commands; i++) {
        if (is_in_family(&g_data.table[i], command)) {
            out_command(&g_data.table[i], out);
        }
    }
}

static void do_command(struct request *req, struct reply *out) {
    (void)req;
    reply_arr(out, count_commands());
    for (size_t i = 0; i < g_data.num_commands; i++) {
        if (!(g_data.table[i].flags & MEMBER)) {
            out_command(&g_data.table[i], out);
        }
    }
}

static void do_command_count(struct request *req, struct reply *out) {
    (void)req;
    reply_int(out, (int64_t)count_commands());
}

// command list [filterby module name | filterby aclcat category | filterby pattern pattern]: there are
// no modules here and no categories, so none of the commands belongs to one.
static void do_command_list(struct request *req, struct reply *out) {
    bool wanted[k_command_slots], all = req->nargs == 2;
    const struct slice *args = req->args;
    size_t n = 0, budget = compare_budget(req, 0);
    if (!all && (req->nargs != 5 || !is_word(&args[2], "filterby") ||
                 !(is_word(&args[3], "module") || is_word(&args[3], "aclcat") ||
                   is_word(&args[3], "pattern")))) {
        out_bad_syntax(out);
        return;
    }
    uint8_t *pattern = all ? NULL : small_letters(&args[4]);
    bool matches = !all && is_word(&args[3], "pattern");
    for (size_t i = 0; i < g_data.num_commands; i++) {
        const char *name = g_data.table[i].name;
        wanted[i] =
            all || (matches &&
                    glob_match(pattern, args[4].len, (const uint8_t *)name, strlen(name), &budget));
        n += wanted[i];
    }
    free(pattern);
    if (budget == 0) {
        out_long_pattern(req, out);
        return;
    }
    if (all) {
        reply_set(out, n);
    } else { // as Redis does it
        reply_arr(out, n);
    }
    for (size_t i = 0; i < g_data.num_commands; i++) {
        if (wanted[i]) {
            reply_cstr(out, g_data.table[i].name);
        }
    }
}

// command info [name]...
static void do_command_info(struct request *req, struct reply *out) {
    if (req->nargs == 2) {
        do_command(req, out);
        return;
    }
    size_t max_size = buf_size(out->buf) + k_max_msg;
    reply_arr(out, (size_t)req->nargs - 2);
    for (int i = 2; i < req->nargs && buf_size(out->buf) <= max_size; i++) {
        const struct command *command = find_command(&req->args[i]);
        if (command) {
            out_command(command, out);
        } else {
            reply_nil(out);
        }
    }
}

static void out_docs(const struct command *command, struct reply *out) {
    reply_cstr(out, command->name);
    reply_map(out, 2);
    reply_cstr(out, "summary");
    reply_cstr(out, command->summary);
    reply_cstr(out, "group");
    reply_cstr(out, command->group);
}

// command docs [name]...
static void do_command_docs(struct request *req, struct reply *out) {
    if (req->nargs == 2) {
        reply_map(out, count_commands());
        for (size_t i = 0; i < g_data.num_commands; i++) {
            if (!(g_data.table[i].flags & MEMBER)) {
                out_docs(&g_data.table[i], out);
            }
        }
        return;
    }
    size_t n = 0, max_size = buf_size(out->buf) + k_max_msg;
    for (int i = 2; i < req->nargs; i++) {
        n += find_command(&req->args[i]) != NULL;
    }
    reply_map(out, n);
    for (int i = 2; i < req->nargs && buf_size(out->buf) <= max_size; i++) {
        const struct command *command = find_command(&req->args[i]);
        if (command) {
            out_docs(command, out);
        }
    }
}

// Writes the first `len` bytes of a name in capitals, which is how texts for people have it.
static void in_capitals(char text[k_max_command + 1], const char *name, size_t len) {
    for (size_t i = 0; i < len; i++) {
        text[i] = (char)toupper(name[i]);
    }
    text[len] = '\0';
}

// help, of any family: which commands it has, and what they are for
static void do_help(struct request *req, struct reply *out) {
    char name[k_max_command + 1], line[200];
    size_t len = strcspn(req->command->name, "|"), n = 0;
    struct slice word = {(const uint8_t *)req->command->name, len};
    const struct command *family = find_command(&word);
    for (size_t i = 0; i < g_data.num_commands; i++) {
        n += is_in_family(&g_data.table[i], family);
    }
    reply_arr(out, 1 + 2 * n);
    in_capitals(name, family->name, len);
    snprintf(
        line, sizeof(line), "%s <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", name);
    reply_status(out, line);
    for (size_t i = 0; i < g_data.num_commands; i++) {
        const struct command *command = &g_data.table[i];
        if (is_in_family(command, family)) {
            in_capitals(name, command->name + len + 1, strlen(command->name + len + 1));
            reply_status(out, name);
            snprintf(line, sizeof(line), "    %s.", command->summary);
            reply_status(out, line);
        }
    }
}

// clang-format off
static const struct command k_commands[] = {
    {"get", 2, READ | FAST, 1, 1, 1, do_get, "string", "Get the value of a key"},
    {"set", -3, GROWS, 1, 1, 1, do_set, "string", "Set the value of a key"},
    {"mget", -2, READ | FAST, 1, -1, 1, do_mget, "string", "Get the values of many keys"},
    {"setnx", 3, GROWS | FAST, 1, 1, 1, do_setnx, "string", "Set the value of a new key"},
    {"setex", 4, GROWS, 1, 1, 1, do_setex, "string", "Set a value and its seconds to live"},
    {"psetex", 4, GROWS, 1, 1, 1, do_psetex, "string", "Set a value and its ms to live"},
    {"getset", 3, GROWS | FAST, 1, 1, 1, do_getset, "string", "Set a value, get the old one"},
    {"getdel", 2, WRITE | FAST, 1, 1, 1, do_getdel, "string", "Get a value, delete its key"},
    {"getex", -2, WRITE | FAST, 1, 1, 1, do_getex, "string", "Get a value, set its time to live"},
    {"mset", -3, GROWS, 1, -1, 2, do_mset, "string", "Set the values of many keys"},
    {"incr", 2, GROWS | FAST, 1, 1, 1, do_incr, "string", "Add 1 to a number"},
    {"decr", 2, GROWS | FAST, 1, 1, 1, do_decr, "string", "Take 1 from a number"},
    {"incrby", 3, GROWS | FAST, 1, 1, 1, do_incrby, "string", "Add to a number"},
    {"decrby", 3, GROWS | FAST, 1, 1, 1, do_decrby, "string", "Take from a number"},
    {"append", 3, GROWS | FAST, 1, 1, 1, do_append, "string", "Add bytes to the value of a key"},
    {"strlen", 2, READ | FAST, 1, 1, 1, do_strlen, "string", "Get the length of a value"},
    {"del", -2, WRITE, 1, -1, 1, do_del, "generic", "Delete keys"},
    {"unlink", -2, WRITE | FAST, 1, -1, 1, do_del, "generic", "Delete keys, as del does"},
    {"exists", -2, READ | FAST, 1, -1, 1, do_exists, "generic", "Count the keys that are there"},
    {"touch", -2, READ | FAST, 1, -1, 1, do_exists, "generic", "Count keys, as exists does"},
    {"rename", 3, WRITE, 1, 2, 1, do_rename, "generic", "Give a key another name"},
    {"renamenx", 3, WRITE | FAST, 1, 2, 1, do_renamenx, "generic", "Give a key a new name"},
    {"copy", -3, GROWS, 1, 2, 1, do_copy, "generic", "Copy a key and its value"},
    {"move", 3, WRITE | FAST, 1, 1, 1, do_move, "generic", "Move a key to another database"},
    {"object", -2, FAMILY, 0, 0, 0, NULL, "generic", "Commands about values"},
    {"object|encoding", 3, MEMBER | READ, 2, 2, 1, do_object_encoding, "generic", "Get its form"},
    {"object|refcount", 3, MEMBER | READ, 2, 2, 1, do_object_refcount, "generic", "Get 1"},
    {"object|help", 2, MEMBER, 0, 0, 0, do_help, "generic", "Print this help"},
    {"type", 2, READ | FAST, 1, 1, 1, do_type, "generic", "Get the type of a value"},
    {"keys", 2, READ, 0, 0, 0, do_keys, "generic", "List the keys that match a pattern"},
    {"scan", -2, READ, 0, 0, 0, do_scan, "generic", "List some keys, and where to go on"},
    {"randomkey", 1, READ, 0, 0, 0, do_randomkey, "generic", "Get any key"},
    {"expire", -3, WRITE | FAST, 1, 1, 1, do_expire, "generic", "Give a key seconds to live"},
    {"pexpire", -3, WRITE | FAST, 1, 1, 1, do_pexpire, "generic", "Give a key ms to live"},
    {"expireat", -3, WRITE | FAST, 1, 1, 1, do_expireat, "generic", "Let a key live until a date"},
    {"pexpireat", -3, WRITE | FAST, 1, 1, 1, do_pexpireat, "generic", "The same, in milliseconds"},
    {"expiretime", 2, READ | FAST, 1, 1, 1, do_expiretime, "generic", "Get that date"},
    {"pexpiretime", 2, READ | FAST, 1, 1, 1, do_pexpiretime, "generic", "Get it in milliseconds"},
    {"ttl", 2, READ | FAST, 1, 1, 1, do_ttl, "generic", "Get the seconds a key has left"},
    {"pttl", 2, READ | FAST, 1, 1, 1, do_pttl, "generic", "Get the milliseconds a key has left"},
    {"persist", 2, WRITE | FAST, 1, 1, 1, do_persist, "generic", "Let a key live for ever"},
    {"zadd", -4, GROWS | FAST, 1, 1, 1, do_zadd, "sorted-set", "Add pairs, or change scores"},
    {"zincrby", 4, GROWS | FAST, 1, 1, 1, do_zincrby, "sorted-set", "Add to a score"},
    {"zrem", -3, WRITE | FAST, 1, 1, 1, do_zrem, "sorted-set", "Remove pairs"},
    {"zscore", 3, READ | FAST, 1, 1, 1, do_zscore, "sorted-set", "Get the score of a name"},
    {"zcard", 2, READ | FAST, 1, 1, 1, do_zcard, "sorted-set", "Count the pairs"},
    {"zrank", 3, READ | FAST, 1, 1, 1, do_zrank, "sorted-set", "Count the pairs before a name"},
    {"zrevrank", 3, READ | FAST, 1, 1, 1, do_zrevrank, "sorted-set", "Count those behind it"},
    {"zcount", 4, READ | FAST, 1, 1, 1, do_zcount, "sorted-set", "Count pairs between two scores"},
    {"zrange", -4, READ, 1, 1, 1, do_zrange, "sorted-set", "Get pairs by their places or scores"},
    {"zrangebyscore", -4, READ, 1, 1, 1, do_zrangebyscore, "sorted-set", "Get pairs by score"},
    {"zquery", 6, READ, 1, 1, 1, do_zquery, "sorted-set", "Get pairs from a pair on; not in Redis"},
    {"ping", -1, FAST, 0, 0, 0, do_ping, "connection", "Get PONG, or the message"},
    {"echo", 2, FAST, 0, 0, 0, do_echo, "connection", "Get the message"},
    {"quit", -1, FAST, 0, 0, 0, do_quit, "connection", "Have the connection closed"},
    {"hello", -1, FAST, 0, 0, 0, do_hello, "connection", "Choose the version of the protocol"},
    {"auth", -2, FAST, 0, 0, 0, do_auth, "connection", "Say who you are; no password is set"},
    {"reset", 1, FAST, 0, 0, 0, do_reset, "connection", "Begin anew on this connection"},
    {"select", 2, FAST, 0, 0, 0, do_select, "connection", "Choose the database"},
    {"client", -2, FAMILY, 0, 0, 0, NULL, "connection", "Commands about connections"},
    {"client|id", 2, MEMBER, 0, 0, 0, do_client_id, "connection", "Get our number"},
    {"client|info", 2, MEMBER, 0, 0, 0, do_client_info, "connection", "Describe this connection"},
    {"client|list", 2, MEMBER | ADMIN, 0, 0, 0, do_client_list, "connection", "Describe all"},
    {"client|getname", 2, MEMBER, 0, 0, 0, do_client_getname, "connection", "Get our name"},
    {"client|setname", 3, MEMBER, 0, 0, 0, do_client_setname, "connection", "Give us a name"},
    {"client|setinfo", 4, MEMBER, 0, 0, 0, do_client_setinfo, "connection", "Name our library"},
    {"client|help", 2, MEMBER, 0, 0, 0, do_help, "connection", "Print this help"},
    {"command", -1, FAMILY, 0, 0, 0, do_command, "server", "Describe all commands"},
    {"command|count", 2, MEMBER, 0, 0, 0, do_command_count, "server", "Count the commands"},
    {"command|docs", -2, MEMBER, 0, 0, 0, do_command_docs, "server", "Get what commands are for"},
    {"command|info", -2, MEMBER, 0, 0, 0, do_command_info, "server", "Describe some commands"},
    {"command|list", -2, MEMBER, 0, 0, 0, do_command_list, "server", "List their names"},
    {"command|help", 2, MEMBER, 0, 0, 0, do_help, "server", "Print this help"},
    {"config", -2, FAMILY, 0, 0, 0, NULL, "server", "Commands about settings"},
    {"config|get", -3, MEMBER | ADMIN, 0, 0, 0, do_config_get, "server", "Get settings"},
    {"config|set", -4, MEMBER | ADMIN, 0, 0, 0, do_config_set, "server", "Change settings"},
    {"config|resetstat", 2, MEMBER | ADMIN, 0, 0, 0, do_config_resetstat, "server", "Reset counts"},
    {"config|help", 2, MEMBER, 0, 0, 0, do_help, "server", "Print this help"},
    {"memory", -2, FAMILY, 0, 0, 0, NULL, "server", "Commands about memory"},
    {"memory|usage", -3, MEMBER | READ, 2, 2, 1, do_memory_usage, "server", "Get a key's bytes"},
    {"memory|help", 2, MEMBER, 0, 0, 0, do_help, "server", "Print this help"},
    {"info", -1, 0, 0, 0, 0, do_info, "server", "Get what the server says of itself"},
    {"time", 1, FAST, 0, 0, 0, do_time, "server", "Get the time of the wall clock"},
    {"dbsize", 1, READ | FAST, 0, 0, 0, do_dbsize, "server", "Count the keys"},
    {"swapdb", 3, WRITE | FAST, 0, 0, 0, do_swapdb, "server", "Exchange two databases"},
    {"flushdb", -1, WRITE, 0, 0, 0, do_flushdb, "server", "Delete all keys of the database"},
    {"flushall", -1, WRITE, 0, 0, 0, do_flushall, "server", "Delete all keys of all databases"},
};
// clang-format on

// Makes the table known, and fills the index of names: each command is in the first free slot from
// its place on.
static void index_commands(void) {
    g_data.table = k_commands;
    g_data.num_commands = sizeof(k_commands) / sizeof(k_commands[0]);
    for (size_t i = 0; i < g_data.num_commands; i++) {
        const char *name = k_commands[i].name;
        size_t slot = command_hash((const uint8_t *)name, strlen(name));
        while (g_data.commands[slot]) {
            slot = (slot + 1) % k_command_slots;
        }
        g_data.commands[slot] = &k_commands[i];
    }
}

// Replies that there is no such command, with the beginning of what was sent.
static void out_unknown(const struct request *req, struct reply *out) {
    char text[160] = "";
    size_t len = 0;
    for (int i = 1; i < req->nargs && len < 128; i++) {
        const struct slice *arg = &req->args[i];
        int max = (int)(128 - len), n = (int)(arg->len < (size_t)max ? arg->len : (size_t)max);
        snprintf(text + len, sizeof(text) - len, "'%.*s' ", n, arg->data);
        len += strlen(text + len);
    }
    int n = (int)(req->args[0].len < 128 ? req->args[0].len : 128);
    reply_errf(out,
               "ERR unknown command '%.*s', with args beginning with: %s",
               n,
               req->args[0].data,
               text);
}

// Replies that the family has no such command.
static void out_unknown_in_family(const struct request *req, struct reply *out) {
    char family[k_max_command + 1];
    in_capitals(family, req->command->name, strlen(req->command->name));
    int n = (int)(req->args[1].len < 128 ? req->args[1].len : 128);
    reply_errf(out, "ERR unknown subcommand '%.*s'. Try %s HELP.", n, req->args[1].data, family);
}

// There are no transactions here. But most clients send MULTI, the commands and EXEC in one go: if only
// the MULTI were refused, the commands would be done all the same. So behind it none is done until
// EXEC, DISCARD or RESET. A client that has read the refusal may have given up, and sends neither. Hence
// it ends by itself, k_refused_ms after the last sign that the client does not wait for replies: the
// MULTI, or a request that came with more behind it. Returns whether the request had to do with that, and
// has its reply.
static bool refuse_transaction(struct request *req, struct reply *out) {
    struct conn *conn = req->conn;
    const struct slice *name = &req->args[0];
    int64_t now_ms = get_monotonic_msec();
    bool refusing = now_ms < conn->refused_until_ms;
    if (is_word(name, "multi")) {
        conn->refused_until_ms = now_ms + k_refused_ms;
        reply_err(out, "ERR MULTI is not supported here; use a pipeline without a transaction");
        return true;
    }
    if (is_word(name, "exec") || is_word(name, "discard")) {
        conn->refused_until_ms = 0;
        if (refusing && is_word(name, "exec")) {
            reply_err(out,
                      "EXECABORT Transaction discarded because of: MULTI is not supported here;"
                      " use a pipeline without a transaction");
        } else {
            reply_errf(out, "ERR %s without MULTI", is_word(name, "exec") ? "EXEC" : "DISCARD");
        }
        return true;
    }
    if (!refusing) {
        conn->refused_until_ms = 0;
        return false;
    }
    if (req->command && (req->command->f == do_quit || req->command->f == do_reset)) {
        return false;
    }
    if (buf_size(&conn->rbuf) > req->size) {
        conn->refused_until_ms = now_ms + k_refused_ms;
    }
    reply_err(out, "ERR not done: it stands behind a MULTI, which is not supported here");
    return true;
}

// Has the command reply, if the number of its arguments is right.
static void do_request(struct request *req, struct reply *out) {
    bool may_concern_multi = !req->command || req->conn->refused_until_ms != 0;
    if (may_concern_multi && refuse_transaction(req, out)) {
        return;
    }
    if (!req->command) {
        out_unknown(req, out);
        return;
    }
    if (req->command->flags & FAMILY && req->nargs > 1) {
        const struct command *command = find_in_family(req->command, &req->args[1]);
        if (!command) {
            out_unknown_in_family(req, out);
            return;
        }
        req->command = command;
    }
    int arity = req->command->arity;
    if (arity > 0 ? req->nargs != arity : req->nargs < -arity) {
        out_bad_arity(req->command->name, out);
        return;
    }
    if (req->nargs <= k_many_args || may_take(req, (size_t)req->nargs * k_arg_cost)) {
        req->conn->last = req->command;
        req->command->f(req, out);
        g_data.stats.commands += !req->takes_long;
    }
}

// ---- what epoll watches ----

// Makes epoll watch `fd` for `events`, and hand us `what` when one of them comes. `op` is
// EPOLL_CTL_ADD for a new descriptor, EPOLL_CTL_MOD for one that is watched already. When a
// descriptor is closed, epoll forgets it. Returns 0, or -1 with errno.
static int watch(int op, int fd, uint32_t events, void *what) {
    struct epoll_event event = {.events = events, .data.ptr = what};
    return epoll_ctl(g_data.epoll_fd, op, fd, &event);
}

// Makes epoll watch a connection for `events`. Calls the kernel only if that is a change.
static void watch_conn(struct conn *conn, uint32_t events) {
    if (events != conn->events) {
        conn->events = events;
        if (watch(EPOLL_CTL_MOD, conn->fd, events, conn) < 0) {
            conn->state = STATE_END; // or it would stay open, and we would never hear of it again
        }
    }
}

// Turns on or off that epoll reports clients who wait to be accepted.
static void set_accepting(bool accepting) {
    uint32_t events = accepting ? EPOLLIN : 0;
    if (accepting != g_data.accepting &&
        watch(EPOLL_CTL_MOD, g_data.listen_fd, events, &g_data.listen_fd) == 0) {
        g_data.accepting = accepting;
    }
}

// ---- requests ----

// Appends the reply to one request. Returns false if there is none, because the request takes long
// and has to wait. The length is known only afterwards: a reply above the limit is taken back, and
// an error takes its place. Making it counts as work all the same.
static bool reply_request(struct request *req, struct buf *buf) {
    size_t start = buf_size(buf);
    struct reply out = {.buf = buf, .resp3 = req->conn->resp3};
    size_t hits = g_data.stats.hits, misses = g_data.stats.misses;
    do_request(req, &out);
    if (req->takes_long) {
        g_data.stats.hits = hits; // it will count when it is answered
        g_data.stats.misses = misses;
        return false;
    }
    g_data.work += buf_size(buf) - start;
    if (buf_size(buf) - start > k_max_msg) {
        buf_truncate(buf, start);
        out_too_big(&out);
    }
    return true;
}

// Drops what is left in rbuf: there are no more replies. What came before is still sent.
static void drop_input(struct conn *conn) {
    buf_truncate(&conn->rbuf, 0);
    conn->bad = true;
}

// Says what is wrong with the input: behind it we cannot tell where the next request begins.
static void reject_input(struct conn *conn, const char *error) {
    msg("%s", error);
    struct reply out = {.buf = &conn->wbuf, .resp3 = conn->resp3};
    reply_errf(&out, "ERR %s", error);
    drop_input(conn);
}

// Parses the request behind the batch, adds it, and hashes its key. Returns whether it was whole
// and good.
static bool parse_next(struct conn *conn, struct batch *batch) {
    size_t size = buf_size(&conn->rbuf) - batch->size, first = g_data.args.n;
    struct resp_parser parser = batch->n == 0 ? conn->parser : (struct resp_parser){0};
    if (size == 0) {
        return false;
    }
    const uint8_t *data = buf_data(&conn->rbuf) + batch->size;
    enum resp_status status = resp_parse(&parser, data, size, &g_data.args, batch->error);
    if (status != RESP_DONE) {
        batch->bad = status == RESP_BAD;
        batch->rest = parser;
        return false;
    }
    const struct slice *args = resp_args_from(&g_data.args, first);
    struct request *req = &batch->requests[batch->n];
    *req = (struct request){.conn = conn, .size = parser.pos, .first = first};
    req->nargs = (int)(g_data.args.n - first);
    req->command = req->nargs > 0 ? find_command(&args[0]) : NULL;
    if (req->command && req->command->flags & MEMBER) {
        req->command = NULL; // its first word is the family
    }
    if (req->command && req->command->first > 0 && req->nargs >= 2 && args[1].len <= k_long_arg) {
        req->key = hash_of_key(&args[1]);
    }
    batch->n++;
    batch->size += req->size;
    return true;
}

// Parses the first requests in rbuf. Returns whether there may be more behind the batch. A line is
// the last of its batch: its words are where those of the next one would be.
static bool parse_batch(struct conn *conn, struct batch *batch) {
    batch->n = 0;
    batch->size = 0;
    batch->bad = false;
    batch->rest = (struct resp_parser){0};
    resp_args_clear(&g_data.args);
    bool more = true, line = false;
    while (more && !line && batch->n < k_lookahead && g_data.args.n < k_batch_args) {
        line = buf_size(&conn->rbuf) > batch->size && buf_data(&conn->rbuf)[batch->size] != '*';
        more = parse_next(conn, batch);
    }
    for (int i = 0; i < batch->n; i++) {
        struct request *req = &batch->requests[i];
        req->args = resp_args_from(&g_data.args, req->first);
    }
    return more;
}

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
            uint32_t hcode = str_hash(&g_data.hash_key, name->data, name->len);
            names[nnames++] = hwalk_begin(&zsets[i]->names, hcode);
        }
    }
    hwalk_all(names, nnames);
    zwalk_all(scores, nscores);
}

// Makes the processor fetch what the requests of the batch will read: the first step of every
// lookup, then the second of each, and so on. No pointer found here is kept: an answer may move or
// free what the next request reads.
LOOKAHEAD void fetch_ahead(const struct batch *batch) {
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
LOOKAHEAD void fetch_keys_ahead(const struct request *req) {
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

// Answers the request, which is the first in rbuf. Returns whether it did. One that takes long is
// put aside, unless serve_long() has picked the connection.
static bool answer(struct conn *conn, struct request *req) {
    g_data.key = req->key;
    fetch_keys_ahead(req);
    conn->put_aside = req->nargs > 0 && !reply_request(req, &conn->wbuf);
    if (conn->put_aside) {
        return false;
    }
    buf_consume(&conn->rbuf, req->size);
    return true;
}

// Answers the first requests in rbuf, until it was enough work for a turn, or the next one takes long.
// Returns whether there may be more to answer.
static bool answer_batch(struct conn *conn) {
    struct batch batch;
    bool more = parse_batch(conn, &batch);
    if (batch.n > 1) {
        fetch_ahead(&batch);
    }
    conn->parser = (struct resp_parser){0};
    for (int i = 0; i < batch.n; i++) {
        if (g_data.work >= k_turn_work) {
            return true;
        }
        if (!answer(conn, &batch.requests[i])) {
            return false;
        }
        if (conn->bad) {
            drop_input(conn);
            return false;
        }
    }
    conn->parser = batch.rest;
    if (batch.bad) {
        reject_input(conn, batch.error);
    }
    return more;
}

// ---- connections ----

// Notes that a byte has moved: the connection is the least idle of all.
static void renew_idle(struct conn *conn) {
    conn->idle_start = get_monotonic_msec();
    dlist_detach(&conn->idle_node);
    dlist_insert_before(&g_data.idle_list, &conn->idle_node);
}

// Reads once. Returns whether anything came: bytes, or the end of the input.
static bool try_fill_buffer(struct conn *conn) {
    buf_borrow(&conn->rbuf, &g_data.rbuf, k_shared);
    uint8_t *end = buf_reserve(&conn->rbuf, k_read_size);
    ssize_t n = recv(conn->fd, end, conn->rbuf.cap - conn->rbuf.tail, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            conn->state = STATE_END;
        }
        return false;
    }
    if (n == 0) {
        conn->eof = true;
    } else {
        renew_idle(conn);
    }
    buf_commit(&conn->rbuf, (size_t)n);
    return true;
}

// Writes once, if there is anything to write. Returns whether all replies are sent: only then may the
// next requests be answered.
static bool try_flush_buffer(struct conn *conn) {
    size_t size = buf_size(&conn->wbuf);
    if (size > 0) {
        ssize_t n = send(conn->fd, buf_data(&conn->wbuf), size, 0);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            conn->state = STATE_END;
            return false;
        }
        if (n > 0) {
            buf_consume(&conn->wbuf, (size_t)n);
            renew_idle(conn);
        }
    }
    bool all = buf_size(&conn->wbuf) == 0;
    conn->state = all ? STATE_REQ : STATE_RES;
    return all;
}

// Answers requests from rbuf. Stops when no whole request is left, after enough work for a turn, or
// before a request that takes long. What is left waits until all other connections have had their
// turn.
static void state_req(struct conn *conn) {
    bool more = true;
    buf_borrow(&conn->wbuf, &g_data.wbuf, k_shared);
    g_data.work = 0;
    g_data.now_ms = get_wall_msec();
    while (more && g_data.work < k_turn_work) {
        more = answer_batch(conn);
    }
    resp_args_clear(&g_data.args);
    g_data.unsent += g_data.work;
    if (more) {
        conn->state = STATE_MORE;
    } else if (conn->put_aside) {
        conn->state = STATE_LONG;
    } else {
        conn->state = STATE_REQ;
    }
}

// Sends more of a reply. Once all of it is sent, answers the requests that wait in rbuf: they have
// been read already, so no event will come for them.
static void state_res(struct conn *conn) {
    if (try_flush_buffer(conn)) {
        state_req(conn);
    }
}

// Reads what still comes behind a bad message, and drops it. We must not close yet: a close with
// input unread sends a reset, and that destroys replies which are still on their way. But a client
// that sends on and on is closed after k_max_dropped bytes, whatever it has not read by then.
static void state_bad(struct conn *conn) {
    uint8_t unread[4096];
    ssize_t n = recv(conn->fd, unread, sizeof(unread), 0);
    if (n > 0) {
        renew_idle(conn);
        conn->dropped += (size_t)n;
    }
    bool gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (gone || conn->dropped > k_max_dropped) {
        conn->state = STATE_END;
    }
}

// Closes the connection and frees it. To be called in the connection's own turn, or when all events
// are served: an event that is still to be served would lead to freed memory.
static void conn_done(struct conn *conn) {
    dlist_detach(&conn->idle_node);
    close(conn->fd);
    buf_dispose(&conn->rbuf);
    buf_dispose(&conn->wbuf);
    free(conn->name);
    free(conn);
    g_data.num_conns--;
    set_accepting(true); // there is a free descriptor now
}

// Makes the connection wait for what its state calls for: an event, or its next turn.
static void wait_for_next(struct conn *conn) {
    if (conn->state == STATE_MORE) {
        dlist_insert_before(&g_data.more_list, &conn->turn_node);
    } else if (conn->state == STATE_LONG) {
        dlist_insert_before(&g_data.long_list, &conn->turn_node);
    } else {
        watch_conn(conn, conn->state == STATE_RES ? EPOLLOUT : EPOLLIN);
    }
}

// Sends the replies of a connection's turn with one write. What the socket does not take,
// state_res() sends once there is room.
static void send_replies(struct conn *conn) {
    enum conn_state next = conn->state;
    if (next == STATE_RES || next == STATE_END || !try_flush_buffer(conn)) {
        return;
    }
    conn->state = next;
    if (next == STATE_REQ && conn->bad) {
        shutdown(conn->fd, SHUT_WR);
        conn->state = STATE_BAD;
    } else if (next == STATE_REQ && conn->eof) {
        conn->state = STATE_END;
    }
}

// Ends the turns of all connections in send_list: sends their replies, then lets them wait for what
// comes next. Why all at once? To wake a client that sleeps takes longer than to answer it. A
// program with many connections, woken once, finds all of its replies.
static void end_turns(void) {
    g_data.unsent = 0;
    while (!dlist_empty(&g_data.send_list)) {
        struct conn *conn = container_of(g_data.send_list.next, struct conn, turn_node);
        dlist_detach(&conn->turn_node);
        send_replies(conn);
        buf_return(&conn->wbuf, &g_data.wbuf);
        if (conn->state != STATE_END) {
            wait_for_next(conn);
        }
        if (conn->state == STATE_END) {
            conn_done(conn);
        }
    }
}

// Gives a connection its turn: does what it has been waiting for. The replies wait until end_turns().
static void connection_io(struct conn *conn) {
    if (conn->state == STATE_RES) {
        state_res(conn);
    } else if (conn->state == STATE_BAD) {
        state_bad(conn);
    } else if (conn->state == STATE_MORE || conn->state == STATE_LONG || try_fill_buffer(conn)) {
        state_req(conn);
    }
    buf_return(&conn->rbuf, &g_data.rbuf);
    buf_return(&conn->wbuf, &g_data.wbuf);
    dlist_insert_before(&g_data.send_list, &conn->turn_node);
    if (g_data.unsent >= k_unsent) {
        end_turns();
    }
}

// Tells whether the connection waits for its next turn rather than for its client.
static bool waits_for_us(const struct conn *conn) {
    return conn->state == STATE_MORE || conn->state == STATE_LONG;
}

// Gives the first connection of the list its turn.
static void serve_first(struct dlist *list) {
    struct conn *conn = container_of(list->next, struct conn, turn_node);
    dlist_detach(&conn->turn_node);
    renew_idle(conn); // it was waiting for us, not idle
    connection_io(conn);
}

// Gives the connections of more_list their turns, up to the node `last`. Those that have still more
// to do afterwards are put behind it.
static void serve_more(const struct dlist *last) {
    bool more = last != &g_data.more_list;
    while (more && !g_data.stopping) {
        more = g_data.more_list.next != last; // asked before it may be freed
        serve_first(&g_data.more_list);
    }
}

// Answers one request that takes long. A round of the loop ends with one of them at most, after all
// other connections were served; connections that have such a request take turns, too.
static void serve_long(void) {
    if (!dlist_empty(&g_data.long_list) && !g_data.stopping) {
        serve_first(&g_data.long_list);
    }
}

// Accepts one connection. Returns whether more may be waiting.
static bool accept_new_conn(void) {
    int connfd = accept(g_data.listen_fd, NULL, NULL);
    if (connfd < 0) {
        if (errno == EINTR || errno == ECONNABORTED) {
            return true;
        }
        if (errno != EAGAIN) {
            // We are out of descriptors, most likely. The client stays in the queue, and epoll would
            // report it at once, again and again. So we do not ask for it until a connection has
            // been closed, or k_accept_retry_ms have passed.
            set_accepting(false);
            g_data.accept_again_ms = get_monotonic_msec() + k_accept_retry_ms;
        }
        return false;
    }
    // A reply is a small write. Without this, the kernel holds it back while the one before is not
    // acknowledged, and the client delays that acknowledgement by 40 ms.
    int one = 1;
    setsockopt(connfd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    // The kernel would buffer megabytes for a slow client. While it drains them, none of our writes
    // move a byte, and the client looks idle. A small buffer has room again soon.
    int send_buffer = k_send_buffer;
    setsockopt(connfd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer));
    struct conn *conn = mem_alloc(sizeof(*conn));
    *conn = (struct conn){.fd = connfd, .state = STATE_REQ, .events = EPOLLIN};
    conn->id = ++g_data.last_id;
    conn->db = &g_data.dbs[0];
    if (fd_set_nb(connfd) < 0 || watch(EPOLL_CTL_ADD, connfd, EPOLLIN, conn) < 0) {
        close(connfd);
        free(conn);
        return true;
    }
    dlist_init(&conn->idle_node);
    renew_idle(conn);
    conn->start_ms = conn->idle_start;
    g_data.num_conns++;
    g_data.stats.connections++;
    return true;
}

// ---- the cycle ----
//
// Keys that no client asks for would stay for ever. So a cycle goes through the tables of deadlines,
// some keys a step, and deletes those that it finds stale. It need not find all: it goes on to the next
// database as soon as few of those that it sees are. And it never takes long: a slice of time ends,
// whether or not there is more to do, and the next one waits until the slices have taken no more than
// their share. (Redis, activeExpireCycle(); there a slice is a quarter of 100 ms.)

// Returns which part of a number each effort above 1 adds to or takes from it.
static int64_t extra_effort(int64_t a_step) {
    return (g_data.cycle.effort - 1) * a_step;
}

// Returns above which share of stale keys, in percent, there is more to do.
static int64_t max_stale_percent(void) {
    return k_stale_percent - extra_effort(1);
}

// The keys of a step, and what all steps in a database have seen.
struct sample {
    struct deadline *items[k_max_sample];
    size_t n;
};

struct visit {
    size_t seen, stale;
};

static void sample_one(struct hnode *node, void *arg) {
    struct sample *sample = arg;
    if (sample->n < k_max_sample) {
        sample->items[sample->n++] = container_of(node, struct deadline, node);
    }
}

// Looks at the next few keys that have a deadline, and deletes those that are stale.
static void cycle_step(struct db *db, struct visit *visit) {
    struct sample sample = {0};
    size_t max = (size_t)(k_step_keys + extra_effort(k_step_keys / 4));
    int buckets = 0;
    do {
        db->cursor = hm_scan_step(&db->expires, db->cursor, sample_one, &sample);
        buckets++;
    } while (db->cursor != 0 && sample.n < max && buckets < k_step_buckets);
    for (int i = 0; i < buckets; i++) {
        hm_help_resizing(&db->expires); // the tables must shrink even if no command uses them
        hm_help_resizing(&db->keys);
    }
    size_t alive = 0;
    double ttls_ms = 0; // a sum that may be beyond 64 bits
    for (size_t i = 0; i < sample.n; i++) {
        int64_t ttl_ms = sample.items[i]->at_ms - g_data.now_ms;
        if (ttl_ms < 0) {
            entry_expire(db, sample.items[i]->ent);
        } else {
            ttls_ms += (double)ttl_ms;
            alive++;
        }
    }
    if (alive > 0) {
        int64_t avg_ms = (int64_t)(ttls_ms / (double)alive);
        db->avg_ttl_ms = db->avg_ttl_ms ? db->avg_ttl_ms / 50 * 49 + avg_ms / 50 : avg_ms;
    }
    mem_tidy(); // else the next client waits while all that was freed is put in order
    visit->seen += sample.n;
    visit->stale += sample.n - alive;
}

// Lets the cycle work until it has been through all databases, or its slice of time is over. The next
// one begins with the next database, wherever this one ends.
static void run_cycle(void) {
    struct cycle *cycle = &g_data.cycle;
    int64_t percent = k_cycle_percent + extra_effort(2);
    int64_t end_us = get_monotonic_usec() + k_busy_cycle_ms * 1000 * percent / 100;
    struct visit all = {0};
    bool in_time = true;
    cycle->start_ms = get_monotonic_msec();
    g_data.now_ms = get_wall_msec();
    g_data.work = k_turn_work + 1; // as if the turn were over: workers free all that takes long
    for (int i = 0; i < k_databases && in_time; i++) {
        struct db *db = &g_data.dbs[cycle->next_db];
        struct visit visit = {0};
        cycle->next_db = (cycle->next_db + 1) % k_databases;
        do {
            cycle_step(db, &visit);
            in_time = get_monotonic_usec() < end_us;
        } while (in_time && db->cursor != 0 &&
                 visit.stale * 100 > visit.seen * (size_t)max_stale_percent());
        all.seen += visit.seen;
        all.stale += visit.stale;
    }
    double percent_now = all.seen > 0 ? 100.0 * (double)all.stale / (double)all.seen : 0;
    cycle->stale_percent = 0.05 * percent_now + 0.95 * cycle->stale_percent;
    cycle->more = !in_time || cycle->stale_percent > (double)max_stale_percent() / 2;
    // A step is never cut short. If it took longer than the slice, the next slice begins later.
    int64_t over_us = get_monotonic_usec() - end_us;
    cycle->start_ms += over_us > 0 ? over_us * 100 / percent / 1000 : 0;
    g_data.stats.slices_cut_short += !in_time;
}

// Returns when the cycle is to have its next slice, of the monotonic clock: INT64_MAX for never, where
// no key has a deadline.
static int64_t next_slice_ms(void) {
    if (g_data.num_deadlines == 0) {
        return INT64_MAX;
    }
    return g_data.cycle.start_ms + (g_data.cycle.more ? k_busy_cycle_ms - 1 : k_cycle_ms - 1);
}

// ---- timers ----
//
// A timer goes off when the clock, in whole milliseconds, is past its deadline. So what is left to
// wait is rounded up: epoll_wait() neither comes back too early, nor again and again until it is time.

// Returns the connection that has been idle for longest, NULL if there is none or the timeout is
// off.
static struct conn *first_idle(void) {
    if (g_data.idle_timeout_ms == 0 || dlist_empty(&g_data.idle_list)) {
        return NULL;
    }
    return container_of(g_data.idle_list.next, struct conn, idle_node);
}

// Returns how many milliseconds epoll_wait() may wait at `now_ms`: until the next timer, or 0 if
// connections are waiting for us. -1 if no timer is set: it takes that for "as long as you like".
static int next_timer_ms(int64_t now_ms) {
    if (!dlist_empty(&g_data.more_list) || !dlist_empty(&g_data.long_list)) {
        return 0;
    }
    int64_t next_ms = INT64_MAX;
    if (!g_data.accepting) {
        next_ms = g_data.accept_again_ms;
    }
    const struct conn *conn = first_idle();
    if (conn && conn->idle_start + g_data.idle_timeout_ms < next_ms) {
        next_ms = conn->idle_start + g_data.idle_timeout_ms;
    }
    if (next_slice_ms() < next_ms) {
        next_ms = next_slice_ms();
    }
    if (next_ms == INT64_MAX) {
        return -1;
    }
    if (next_ms < now_ms) {
        return 0;
    }
    return next_ms - now_ms < INT_MAX ? (int)(next_ms - now_ms) + 1 : INT_MAX;
}

// Closes the connections that had been idle for too long at `now_ms`, and lets the cycle have its slice
// of time when it is due.
static void process_timers(int64_t now_ms) {
    struct conn *conn;
    while ((conn = first_idle()) && now_ms > conn->idle_start + g_data.idle_timeout_ms) {
        if (waits_for_us(conn)) {
            renew_idle(conn);
        } else {
            msg("removing idle connection: %d", conn->fd);
            conn_done(conn);
        }
    }
    if (now_ms > g_data.accept_again_ms) {
        set_accepting(true);
    }
    if (now_ms > next_slice_ms()) {
        run_cycle();
    }
}

// ---- main: the event loop ----

// Ends the program where it stands: the loop was told to stop, and has something to do that takes
// longer than we wait. All that it holds would be gone in a moment anyway.
static void on_stop_late(int sig) {
    (void)sig;
    _exit(0);
}

// Tells the loop to stop, in two ways. The flag ends a round that is under way. But a signal may
// come after the loop looked at the flag and before it waits, and it would wait for ever; so there
// is a byte in a pipe as well, which ends the wait. A second signal finds no handler any more: it
// ends the program at once. And an alarm ends it soon, whatever the first one has to wait for.
static void on_stop_signal(int sig) {
    (void)sig;
    int err = errno;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    g_data.stopping = 1;
    if (write(g_data.stop_pipe[1], "", 1) < 0) {
        // The pipe is full: epoll will report it all the same.
    }
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = k_stop_ms * 1000}, NULL);
    errno = err;
}

// Lets SIGINT and SIGTERM call on_stop_signal(), and their alarm on_stop_late(); ignores SIGPIPE.
static void catch_signals(void) {
    if (pipe(g_data.stop_pipe) < 0 || fd_set_nb(g_data.stop_pipe[1]) < 0) {
        die("pipe");
    }
    struct sigaction action = {.sa_handler = on_stop_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = on_stop_late;
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

// Waits until something is ready or a timer goes off. Returns the number of events, and in
// *looked_ms the last moment at which epoll_wait() is sure to have checked every client. Idle time
// is judged by it: a byte that arrived later, while we were busy or stopped, has not been read yet.
// The array of events has room for all that is watched: a client whose event did not fit would be
// taken for idle.
static int wait_for_events(int64_t *looked_ms) {
    if (g_data.max_events < g_data.num_conns + 2) {
        g_data.max_events = 2 * g_data.num_conns + 16;
        size_t size = g_data.max_events * sizeof(g_data.events[0]);
        g_data.events = mem_realloc(g_data.events, size);
    }
    int max = g_data.max_events < INT_MAX ? (int)g_data.max_events : INT_MAX;
    int n, wait_ms;
    do { // a signal, SIGCONT too, ends the wait before anything was looked at: wait again
        *looked_ms = get_monotonic_msec();
        wait_ms = next_timer_ms(*looked_ms);
        n = epoll_wait(g_data.epoll_fd, g_data.events, max, wait_ms);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        die("epoll_wait");
    }
    if (n == 0) {
        *looked_ms += wait_ms;
    }
    return n;
}

// Serves the connections that are ready: the first `n` of g_data.events. Returns whether the loop
// goes on.
static bool serve_events(int n) {
    bool go_on = true;
    for (int i = 0; i < n && go_on; i++) {
        void *what = g_data.events[i].data.ptr;
        if (g_data.stopping || what == &g_data.stop_pipe) {
            go_on = false;
        } else if (what == &g_data.listen_fd) {
            for (int left = k_max_accepts; left > 0 && accept_new_conn(); left--) {
            }
        } else if (!waits_for_us(what)) {
            connection_io(what);
        }
    }
    end_turns();
    return go_on;
}

// One round: waits until something is ready, then serves it. Returns whether another one follows.
static bool one_round(void) {
    int64_t looked_ms;
    int n = wait_for_events(&looked_ms);
    const struct dlist *last = g_data.more_list.prev; // those put behind it have had their turn
    if (!serve_events(n)) {
        return false;
    }
    serve_more(last);
    end_turns();
    serve_long();
    end_turns();
    process_timers(looked_ms);
    return true;
}

int main(void) {
    hold_std_fds();
    g_data.hash_key = hash_key_init();
    g_data.idle_timeout_ms = env_long("IDLE_TIMEOUT_MS", k_idle_timeout_ms, 0, INT_MAX);
    g_data.start_ms = get_monotonic_msec();
    g_data.cycle.effort = 1;
    dlist_init(&g_data.idle_list);
    dlist_init(&g_data.send_list);
    dlist_init(&g_data.more_list);
    dlist_init(&g_data.long_list);
    index_commands();
    catch_signals();
    mem_one_arena();
    thread_pool_init(&g_data.pool, k_threads);
    g_data.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (g_data.epoll_fd < 0) {
        die("epoll_create1");
    }
    g_data.listen_fd = tcp_listen(env_ip("BIND"), env_port());
    if (fd_set_nb(g_data.listen_fd) < 0) {
        die("fcntl");
    }
    if (watch(EPOLL_CTL_ADD, g_data.stop_pipe[0], EPOLLIN, &g_data.stop_pipe) < 0 ||
        watch(EPOLL_CTL_ADD, g_data.listen_fd, EPOLLIN, &g_data.listen_fd) < 0) {
        die("epoll_ctl");
    }
    g_data.accepting = true;
    while (one_round()) {
        mem_tidy();
    }

    signal(SIGALRM, SIG_IGN); // what is left to do is short
    while (!dlist_empty(&g_data.idle_list)) {
        conn_done(container_of(g_data.idle_list.next, struct conn, idle_node));
    }
    close(g_data.listen_fd);
    close(g_data.stop_pipe[0]);
    close(g_data.stop_pipe[1]);
    close(g_data.epoll_fd);
    free(g_data.events);
    buf_dispose(&g_data.rbuf);
    buf_dispose(&g_data.wbuf);
    resp_args_dispose(&g_data.args);
    entry_clear();
    if (atomic_load(&g_data.pairs_left) > k_max_freed) {
        _exit(0); // ends the workers wherever they are; the kernel frees the rest
    }
    thread_pool_destroy(&g_data.pool);
}
