// server.c, chapter 16: ten thousand connections
//
// A silent connection costs next to nothing. The kernel remembers what we wait for, and reports
// only what is ready (epoll); and all connections share one pair of buffers, lent to the one in its
// turn.

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
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
#include "dlist.h"
#include "fd.h"
#include "hash.h"
#include "hashtable.h"
#include "heap.h"
#include "intrusive.h"
#include "lookahead.h"
#include "mem.h"
#include "mem_arena.h"
#include "mem_tidy.h"
#include "net.h"
#include "request.h"
#include "serial.h"
#include "serial_dbl.h"
#include "thread_pool.h"
#include "wire.h"
#include "zset.h"

enum {
    k_max_msg = 32 << 20,
    k_read_size = 16 << 10, // a read has room for at least this many bytes
    k_turn_work = 64 << 10, // work that ends a connection's turn: see g_data.work
    k_shared = 32 << 10,    // bytes of the buffers that are lent to a connection for its turn
    k_unsent = 16 << 10,    // work after which the replies that wait are sent
    k_pair_cost = 16,       // what a pair that a request passes counts for: see g_data.work
    k_max_pairs = k_max_msg / (k_str_head + 9), // no more fit into a reply, even with empty names
    k_max_freed = 100000,
    k_max_accepts = 1000,    // connections accepted in one round
    k_max_dropped = 4 << 20, // bytes behind a bad message after which its client is cut off
    k_stop_ms = 400,         // after the signal to stop, until the program ends wherever it is
    k_accept_retry_ms = 100,
    k_send_buffer = 128 << 10, // bytes that the kernel buffers for a client; Linux doubles it
    k_idle_timeout_ms = 5000,
    k_max_works = 200, // keys and pairs that may expire in a round; each request adds one
    k_threads = 4,
    k_large_container_size = 10000, // a worker, not the loop, frees what counts as more pairs
    k_pair_bytes = 1 << 10,         // bytes of a string that take as long to free as a pair
    k_pairs_a_yield = 64,           // a worker frees this many pairs, then yields
    k_lookahead = 32,               // requests of a batch that wait for memory together
    k_batch_args = 2 * k_max_args,  // strings that a batch has room for
    k_long_arg = 1024,              // longer keys and names are not hashed ahead
    k_in_cache = 8192,              // a structure of so many nodes is in the cache, or nearly
};

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
    uint32_t heap_idx; // where its deadline is, k_heap_none without one
    uint32_t val_len : 30;
    uint32_t type : 2;
    uint8_t data[];
    _Static_assert(k_max_msg < 1 << 30, "val_len holds the length of any value");
};

// What an entry is looked up by.
struct lookup_key {
    struct hnode node;
    const uint8_t *key;
};

// A message in rbuf, parsed and not answered yet. Its strings point into rbuf, where no byte moves
// until the batch is done.
struct request {
    size_t size; // of the message
    const struct slice *args;
    int nargs;
    struct lookup_key key; // args[1], hashed; zero if missing or long
};

// The first requests in rbuf.
struct batch {
    struct request requests[k_lookahead];
    int n;
    size_t size;     // of their messages
    const char *bad; // what is wrong with the message behind them, NULL for nothing
    struct slice args[k_batch_args];
    size_t nargs;
};

// One connection.
struct conn {
    int fd;
    enum conn_state state;
    uint32_t events; // what epoll watches it for
    bool eof;        // the client has sent all it will send
    bool bad;        // the client has sent a bad message
    bool put_aside;  // the next request in rbuf takes long: it waits for serve_long()
    size_t dropped;  // bytes that came behind a bad message
    struct buf rbuf; // received, not answered yet
    struct buf wbuf; // answered, not sent yet
    struct dlist idle_node;
    struct dlist turn_node; // in send_list, more_list or long_list
    int64_t idle_start;     // when a byte moved last
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
    struct hmap db;
    size_t keys_size;        // bytes that `keys` writes for all that is in db, if none has expired
    struct buf rbuf, wbuf;   // lent to the connection whose turn it is
    struct dlist send_list;  // connections whose turn is over, but its replies not sent
    size_t unsent;           // the work of the turns in send_list
    struct dlist more_list;  // connections in STATE_MORE, the one that has waited longest first
    struct dlist long_list;  // those in STATE_LONG, in the same order
    int64_t now_ms;          // the time that commands go by: read before each batch of requests
    int64_t idle_timeout_ms; // 0 for never
    struct dlist idle_list;  // all connections, the longest idle first
    struct heap heap;        // the deadlines of keys, in milliseconds of the monotonic clock
    size_t max_works;        // keys and pairs that may expire in this round
    struct thread_pool pool;
    atomic_size_t pairs_left; // that are queued for workers: the loop adds, they subtract
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
    return k_str_head + ent->node.key_len;
}

// Adds a key that is not there yet.
static void entry_add(const struct hnode *node, const struct slice *key, enum value_type type,
                      const struct slice *val) {
    struct entry *ent = mem_alloc(sizeof(*ent) + key->len + val->len);
    ent->node = *node;
    ent->heap_idx = k_heap_none;
    ent->type = type;
    ent->val_len = (uint32_t)val->len;
    memcpy(ent->data, key->data, key->len);
    memcpy(ent->data + key->len, val->data, val->len);
    hm_insert(&g_data.db, &ent->node);
    g_data.keys_size += entry_listed_size(ent);
}

// Adds a key that is not there yet, with an empty sorted set. Returns the set, borrowed.
static struct zset *entry_add_zset(const struct slice *key) {
    struct lookup_key lookup = lookup_key(key);
    struct zset *zset = mem_alloc(sizeof(*zset));
    zset_init(zset, &g_data.hash_key);
    struct slice val = {(const uint8_t *)&zset, sizeof(zset)};
    entry_add(&lookup.node, key, T_ZSET, &val);
    return zset;
}

// Returns the deadline of the entry, INT64_MAX where it has none.
static int64_t entry_deadline(const struct entry *ent) {
    return ent->heap_idx == k_heap_none ? INT64_MAX : g_data.heap.items[ent->heap_idx].val;
}

// Tells whether the entry is past its deadline: gone, but for the memory that it takes.
static bool entry_expired(const struct entry *ent) {
    return g_data.now_ms > entry_deadline(ent);
}

// Gives the entry `ttl_ms` to live from now on. The caller has checked that now_ms + ttl_ms fits.
static void entry_set_ttl(struct entry *ent, int64_t ttl_ms) {
    heap_upsert(&g_data.heap, &ent->heap_idx, g_data.now_ms + ttl_ms);
}

// Lets the entry live for ever. Returns whether it had a TTL.
static bool entry_clear_ttl(struct entry *ent) {
    if (ent->heap_idx == k_heap_none) {
        return false;
    }
    heap_delete(&g_data.heap, ent->heap_idx);
    return true;
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

// Removes the TTL of an entry that has left the table, and frees the entry: a small one at once, a
// large one through a worker, which then has it to itself.
static void entry_del(struct entry *ent) {
    entry_clear_ttl(ent);
    g_data.keys_size -= entry_listed_size(ent);
    size_t cost = entry_cost(ent);
    if (cost > k_large_container_size) {
        atomic_fetch_add(&g_data.pairs_left, cost);
        bool is_zset = ent->type == T_ZSET;
        thread_pool_queue(&g_data.pool, is_zset ? destroy_zset_work : destroy_str_work, ent);
    } else {
        g_data.work += cost;
        entry_destroy(ent);
    }
}

// Takes the entry out of the table, and frees it.
static void entry_drop(struct entry *ent) {
    hm_pop(&g_data.db, &ent->node, hnode_same);
    entry_del(ent);
}

// Removes the key. Returns whether it was there.
static bool entry_remove(const struct slice *key) {
    struct lookup_key lookup = lookup_key(key);
    struct hnode *node = hm_pop(&g_data.db, &lookup.node, entry_eq);
    if (!node) {
        return false;
    }
    struct entry *ent = container_of(node, struct entry, node);
    bool expired = entry_expired(ent);
    entry_del(ent);
    return !expired;
}

// Returns the entry with the key, NULL where there is none. Removes one that has expired.
static struct entry *entry_lookup(const struct slice *key) {
    struct lookup_key lookup = lookup_key(key);
    struct hnode **link = hm_lookup(&g_data.db, &lookup.node, entry_eq);
    if (!link) {
        return NULL;
    }
    struct entry *ent = container_of(*link, struct entry, node);
    if (entry_expired(ent)) {
        entry_drop(ent);
        return NULL;
    }
    return ent;
}

// Tells whether the value can become a string of `len` bytes where it is. A large one that loses much
// had better die as a whole: the memory that it gives back is as much.
static bool entry_fits(const struct entry *ent, size_t len) {
    return ent->type == T_STR &&
           ent->val_len / k_pair_bytes <= k_large_container_size + len / k_pair_bytes;
}

// Gives the key the value, whether or not it had one, and takes its TTL away.
static void entry_set(const struct slice *key, const struct slice *val) {
    struct lookup_key lookup = lookup_key(key);
    struct hnode **link = hm_lookup(&g_data.db, &lookup.node, entry_eq);
    if (link && !entry_fits(container_of(*link, struct entry, node), val->len)) {
        entry_remove(key);
        link = NULL;
    }
    if (!link) {
        entry_add(&lookup.node, key, T_STR, val);
        return;
    }
    struct entry *ent = container_of(*link, struct entry, node);
    entry_clear_ttl(ent);
    if (ent->val_len != val->len) {
        // The entry may move, so the pointer that owns it has to follow.
        ent = mem_realloc(ent, sizeof(*ent) + key->len + val->len);
        ent->val_len = (uint32_t)val->len;
        *link = &ent->node;
    }
    memcpy(ent->data + key->len, val->data, val->len);
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
static void entry_clear(void) {
    size_t n = 0;
    hm_scan(&g_data.db, entry_count_one, &n);
    if (n > k_max_freed) {
        return;
    }
    free(g_data.heap.items);
    g_data.heap = (struct heap){0};
    hm_scan(&g_data.db, entry_clear_one, NULL);
    hm_destroy(&g_data.db);
}

// ---- arguments ----

// integer = "-"? digit+
//
// Returns whether `arg` is one that fits *value. Where it is not, *value is undefined. Counts
// downwards, because INT64_MIN has no positive counterpart; the builtins of the compiler tell
// whether a result did not fit.
static bool parse_int(const struct slice *arg, int64_t *value) {
    bool negative = arg->len > 0 && arg->data[0] == '-';
    size_t i = negative ? 1 : 0;
    if (i == arg->len) {
        return false;
    }
    *value = 0;
    for (; i < arg->len; i++) {
        int digit = arg->data[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(*value, 10, value) ||
            __builtin_sub_overflow(*value, digit, value)) {
            return false;
        }
    }
    return negative || !__builtin_sub_overflow(0, *value, value);
}

// double = what strtod() reads, but decimal and finite | ( "+" | "-" )? "inf"
//
// Returns whether `arg` is one. Where it is not, *value is undefined.
static bool parse_double(const struct slice *arg, double *value) {
    char local[64];
    char *text = arg->len < sizeof(local) ? local : mem_alloc(arg->len + 1);
    memcpy(text, arg->data, arg->len);
    text[arg->len] = '\0';
    char *end = text;
    bool ok;
    if (arg->len > 0 && strspn(text, "0123456789+-.eE") == arg->len) {
        *value = strtod(text, &end);
        ok = end == text + arg->len && isfinite(*value);
    } else {
        bool negative = text[0] == '-';
        *value = negative ? -INFINITY : INFINITY;
        ok = strcasecmp(text + (negative || text[0] == '+'), "inf") == 0;
        ok = ok && strlen(text) == arg->len;
    }
    if (text != local) {
        free(text);
    }
    return ok;
}

static void out_bad_int(struct buf *out) {
    out_err(out, ERR_ARG, "expected an integer");
}

static void out_bad_double(struct buf *out) {
    out_err(out, ERR_ARG, "expected a finite decimal number, or inf");
}

// ---- commands: args[0] is the name ----

static void out_bad_type(struct buf *out) {
    out_err(out, ERR_TYPE, "the key holds a value of another type");
}

static void do_get(const struct slice *args, struct buf *out) {
    const struct entry *ent = entry_lookup(&args[1]);
    if (!ent) {
        out_nil(out);
        return;
    }
    if (ent->type != T_STR) {
        out_bad_type(out);
        return;
    }
    struct slice val = entry_val(ent);
    out_str(out, val.data, val.len);
}

static void do_set(const struct slice *args, struct buf *out) {
    entry_set(&args[1], &args[2]);
    out_nil(out);
}

static void do_del(const struct slice *args, struct buf *out) {
    out_int(out, entry_remove(&args[1]));
}

static void out_too_big(struct buf *out) {
    out_err(out, ERR_2BIG, "the reply is too big");
}

// What a scan for `keys` carries along.
struct keys_scan {
    struct buf *out;
    uint32_t n;
};

static bool do_keys_one(struct hnode *node, void *arg) {
    struct keys_scan *scan = arg;
    const struct entry *ent = container_of(node, struct entry, node);
    if (!entry_expired(ent)) {
        out_str(scan->out, ent->data, node->key_len);
        scan->n++;
    }
    return true;
}

// Returns how many bytes `keys` would write for the keys that have expired and are still there.
// Cost: O(keys with a TTL); reads only the entries that have expired.
static size_t expired_listed_size(void) {
    size_t size = 0;
    for (size_t i = 0; i < g_data.heap.len; i++) {
        struct heap_item item = g_data.heap.items[i];
        if (g_data.now_ms > item.val) {
            size += entry_listed_size(container_of(item.ref, struct entry, heap_idx));
        }
    }
    return size;
}

// We know the size of the reply beforehand, and do not begin one that is too big to be sent.
static void do_keys(const struct slice *args, struct buf *out) {
    (void)args;
    size_t size = k_arr_head + g_data.keys_size;
    if (size > k_max_msg && size - expired_listed_size() > k_max_msg) {
        out_too_big(out);
        return;
    }
    struct keys_scan scan = {.out = out};
    size_t arr = out_arr(out, 0);
    hm_scan(&g_data.db, do_keys_one, &scan);
    out_arr_end(out, arr, scan.n);
}

// Sets *zset to the sorted set of the key, NULL if there is no such key. If the key holds another
// type, replies with an error and returns false.
static bool find_zset(const struct slice *key, struct zset **zset, struct buf *out) {
    const struct entry *ent = entry_lookup(key);
    if (ent && ent->type != T_ZSET) {
        out_bad_type(out);
        return false;
    }
    *zset = ent ? entry_zset(ent) : NULL;
    return true;
}

static void do_zadd(const struct slice *args, struct buf *out) {
    double score;
    if (!parse_double(&args[2], &score)) {
        out_bad_double(out);
        return;
    }
    struct zset *zset;
    if (!find_zset(&args[1], &zset, out)) {
        return;
    }
    if (!zset) {
        zset = entry_add_zset(&args[1]);
    }
    out_int(out, zset_add(zset, args[3].data, args[3].len, score));
}

static void do_zrem(const struct slice *args, struct buf *out) {
    struct zset *zset;
    if (!find_zset(&args[1], &zset, out)) {
        return;
    }
    struct znode *znode = zset ? zset_lookup(zset, args[2].data, args[2].len) : NULL;
    out_int(out, znode != NULL);
    if (znode) {
        zset_del(zset, znode);
        if (zset_size(zset) == 0) {
            entry_remove(&args[1]);
        }
    }
}

static void do_zscore(const struct slice *args, struct buf *out) {
    struct zset *zset;
    if (!find_zset(&args[1], &zset, out)) {
        return;
    }
    const struct znode *znode = zset ? zset_lookup(zset, args[2].data, args[2].len) : NULL;
    if (znode) {
        out_dbl(out, znode->score);
    } else {
        out_nil(out);
    }
}

// zquery key score name offset limit
static void do_zquery(const struct slice *args, struct buf *out) {
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
    if (!find_zset(&args[1], &zset, out)) {
        return;
    }
    struct znode *znode = NULL;
    if (zset && limit > 0) {
        znode = zset_query(zset, score, args[3].data, args[3].len, offset);
    }
    if (znode && limit > k_max_pairs && avl_offset(&znode->tree, k_max_pairs)) {
        out_too_big(out); // even with empty names
        return;
    }
    size_t max_size = buf_size(out) + k_max_msg;
    size_t arr = out_arr(out, 0);
    uint32_t n = 0;
    while (znode && n < limit && buf_size(out) <= max_size) {
        out_str(out, znode->name, znode->node.key_len);
        out_dbl(out, znode->score);
        znode = znode_next(znode);
        n++;
    }
    out_arr_end(out, arr, n * 2);
}

// Lets the key live for `ttl_ms` from now; deletes it if that is not positive. Reads the clock
// again, for itself and the requests behind it: those before it in this batch may have taken long.
static void expire_key(const struct slice *key, int64_t ttl_ms, struct buf *out) {
    g_data.now_ms = get_monotonic_msec();
    if (ttl_ms > INT64_MAX - g_data.now_ms) {
        out_err(out, ERR_ARG, "the time to live is too large");
        return;
    }
    struct entry *ent = entry_lookup(key);
    out_int(out, ent != NULL);
    if (ent && ttl_ms > 0) {
        entry_set_ttl(ent, ttl_ms);
    } else if (ent) {
        entry_drop(ent);
    }
}

// expire key seconds
static void do_expire(const struct slice *args, struct buf *out) {
    int64_t ttl_s, ttl_ms;
    if (!parse_int(&args[2], &ttl_s)) {
        out_bad_int(out);
        return;
    }
    if (__builtin_mul_overflow(ttl_s, 1000, &ttl_ms)) {
        ttl_ms = ttl_s > 0 ? INT64_MAX : INT64_MIN; // too late: refused; too early: deleted
    }
    expire_key(&args[1], ttl_ms, out);
}

// pexpire key milliseconds
static void do_pexpire(const struct slice *args, struct buf *out) {
    int64_t ttl_ms;
    if (!parse_int(&args[2], &ttl_ms)) {
        out_bad_int(out);
        return;
    }
    expire_key(&args[1], ttl_ms, out);
}

// Returns how many milliseconds the key has left: -1 for ever, -2 where there is no such key.
static int64_t ttl_of(const struct slice *key) {
    const struct entry *ent = entry_lookup(key);
    if (!ent) {
        return -2;
    }
    return ent->heap_idx == k_heap_none ? -1 : entry_deadline(ent) - g_data.now_ms;
}

static void do_ttl(const struct slice *args, struct buf *out) {
    int64_t ttl_ms = ttl_of(&args[1]);
    out_int(out, ttl_ms < 0 ? ttl_ms : ttl_ms / 1000 + (ttl_ms % 1000 >= 500));
}

static void do_pttl(const struct slice *args, struct buf *out) {
    out_int(out, ttl_of(&args[1]));
}

static void do_persist(const struct slice *args, struct buf *out) {
    struct entry *ent = entry_lookup(&args[1]);
    out_int(out, ent && entry_clear_ttl(ent));
}

// clang-format off
static const struct command {
    const char *name; // in small letters
    int nargs;        // with the name itself
    void (*f)(const struct slice *args, struct buf *out);
} k_commands[] = {
    {"get", 2, do_get},
    {"set", 3, do_set},
    {"del", 2, do_del},
    {"keys", 1, do_keys},
    {"zadd", 4, do_zadd},
    {"zrem", 3, do_zrem},
    {"zscore", 3, do_zscore},
    {"zquery", 6, do_zquery},
    {"expire", 3, do_expire},
    {"pexpire", 3, do_pexpire},
    {"ttl", 2, do_ttl},
    {"pttl", 2, do_pttl},
    {"persist", 2, do_persist},
};
// clang-format on

// Tells whether `arg` is `name`, in letters of any case. Compares the whole of both, so a NUL byte
// in arg is a byte like others.
static bool is_command(const struct slice *arg, const char *name) {
    size_t i = 0;
    while (i < arg->len && name[i] && (arg->data[i] | 0x20) == name[i]) {
        i++;
    }
    return i == arg->len && !name[i];
}

// Estimates, before the request is answered, how much work that is, counted as in g_data.work.
// Returns 0 if it is little.
static size_t request_cost(const struct slice *args, int nargs) {
    if (nargs == 1 && is_command(&args[0], "keys")) {
        return hm_scan_cost(&g_data.db) + g_data.keys_size;
    }
    int64_t limit;
    if (nargs == 6 && is_command(&args[0], "zquery") && parse_int(&args[5], &limit) &&
        limit > k_turn_work / k_pair_cost) {
        const struct entry *ent = entry_lookup(&args[1]);
        size_t pairs = ent ? entry_pairs(ent) : 0;
        return ((uint64_t)limit < pairs ? (size_t)limit : pairs) * k_pair_cost;
    }
    return 0;
}

// Finds the command and has it reply.
static void do_request(const struct slice *args, int nargs, struct buf *out) {
    for (size_t i = 0; i < sizeof(k_commands) / sizeof(k_commands[0]); i++) {
        const struct command *command = &k_commands[i];
        if (is_command(&args[0], command->name)) {
            if (nargs == command->nargs) {
                command->f(args, out);
            } else {
                out_err(out, ERR_ARG, "wrong number of arguments");
            }
            return;
        }
    }
    out_err(out, ERR_UNKNOWN, "Unknown cmd");
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

// reply = u32 len, len bytes: a value as serial.h has it      len <= k_max_msg
//
// Appends the reply to one request. Its length is known only afterwards: a reply above the limit is
// taken back, and an error takes its place. Making it counts as work all the same.
static void reply_request(const struct slice *args, int nargs, struct buf *out) {
    size_t start = buf_size(out);
    buf_reserve(out, 4);
    buf_commit(out, 4);
    do_request(args, nargs, out);
    g_data.work += buf_size(out) - start;
    if (buf_size(out) - start - 4 > k_max_msg) {
        buf_truncate(out, start + 4);
        out_too_big(out);
    }
    store_u32(buf_data(out) + start, (uint32_t)(buf_size(out) - start - 4));
}

// Logs why the input is bad and drops the rest of rbuf: behind a bad message we cannot tell where
// the next one begins. The requests before it are still answered.
static void reject_input(struct conn *conn, const char *why) {
    msg("%s", why);
    buf_truncate(&conn->rbuf, 0);
    conn->bad = true;
}

// message = u32 len, len bytes: a request as request.h has it      len <= k_max_msg
//
// Parses the message behind the batch, adds it, and hashes its key. Returns whether it was whole and
// good.
static bool parse_next(const struct buf *rbuf, struct batch *batch) {
    size_t size = buf_size(rbuf) - batch->size;
    if (size < 4) {
        return false;
    }
    const uint8_t *data = buf_data(rbuf) + batch->size;
    uint32_t len = load_u32(data);
    if (len > k_max_msg) {
        batch->bad = "too long";
        return false;
    }
    if (size < 4 + (size_t)len) {
        return false;
    }

    struct slice *args = &batch->args[batch->nargs];
    int nargs = parse_req(data + 4, len, args);
    if (nargs < 0) {
        batch->bad = "bad req";
        return false;
    }
    struct request *request = &batch->requests[batch->n];
    *request = (struct request){.size = 4 + (size_t)len, .args = args, .nargs = nargs};
    if (nargs >= 2 && args[1].len <= k_long_arg) {
        request->key = hash_of_key(&args[1]);
    }
    batch->n++;
    batch->nargs += (size_t)nargs;
    batch->size += request->size;
    return true;
}

// Parses the first messages in rbuf. Returns whether there may be more behind the batch.
static bool parse_batch(const struct buf *rbuf, struct batch *batch) {
    batch->n = 0;
    batch->size = 0;
    batch->bad = NULL;
    batch->nargs = 0;
    bool more = true;
    while (more && batch->n < k_lookahead && batch->nargs + k_max_args <= k_batch_args) {
        more = parse_next(rbuf, batch);
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
    bool in_cache = hm_size(&g_data.db) <= k_in_cache;
    for (int i = 0; i < batch->n; i++) {
        const struct request *request = &batch->requests[i];
        keys[i] = (struct hwalk){0};
        if (request->key.key && (!in_cache || request->nargs > 2)) { // its sorted set may be large
            keys[i] = hwalk_begin(&g_data.db, request->key.node.hcode);
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

// Answers the request, which is the first in rbuf. Returns whether it did. One that takes long is
// put aside, unless serve_long() has picked the connection.
static bool answer(struct conn *conn, const struct request *request) {
    g_data.key = request->key;
    size_t cost = request_cost(request->args, request->nargs);
    conn->put_aside = cost > k_turn_work && conn->state != STATE_LONG;
    if (conn->put_aside) {
        return false;
    }
    g_data.work += cost;
    reply_request(request->args, request->nargs, &conn->wbuf);
    g_data.max_works++; // a request may add a key: let one more expire
    buf_consume(&conn->rbuf, request->size);
    return true;
}

// Answers the first requests in rbuf, until it was enough work for a turn, or the next one takes long.
// Returns whether there may be more to answer.
static bool answer_batch(struct conn *conn) {
    struct batch batch;
    bool more = parse_batch(&conn->rbuf, &batch);
    if (batch.n > 1) {
        fetch_ahead(&batch);
    }
    for (int i = 0; i < batch.n; i++) {
        if (g_data.work >= k_turn_work) {
            return true;
        }
        if (!answer(conn, &batch.requests[i])) {
            return false;
        }
    }
    if (batch.bad) {
        reject_input(conn, batch.bad);
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
    g_data.now_ms = get_monotonic_msec();
    while (more && g_data.work < k_turn_work) {
        more = answer_batch(conn);
    }
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
    if (fd_set_nb(connfd) < 0 || watch(EPOLL_CTL_ADD, connfd, EPOLLIN, conn) < 0) {
        close(connfd);
        free(conn);
        return true;
    }
    dlist_init(&conn->idle_node);
    renew_idle(conn);
    g_data.num_conns++;
    return true;
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
    if (g_data.heap.len > 0 && g_data.heap.items[0].val < next_ms) {
        next_ms = g_data.heap.items[0].val;
    }
    if (next_ms == INT64_MAX) {
        return -1;
    }
    if (next_ms < now_ms) {
        return 0;
    }
    return next_ms - now_ms < INT_MAX ? (int)(next_ms - now_ms) + 1 : INT_MAX;
}

// Closes the connections that had been idle for too long at `now_ms`, and removes keys that have
// expired, but stops after max_works keys and pairs. If some are left, next_timer_ms() returns 0,
// and the next round goes on with them.
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
    size_t works = 0;
    while (works < g_data.max_works && g_data.heap.len > 0) {
        struct heap_item first = g_data.heap.items[0];
        if (now_ms <= first.val) {
            break;
        }
        struct entry *ent = container_of(first.ref, struct entry, heap_idx);
        works += 1 + entry_cost(ent);
        entry_drop(ent);
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
    g_data.max_works = k_max_works;
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
    dlist_init(&g_data.idle_list);
    dlist_init(&g_data.send_list);
    dlist_init(&g_data.more_list);
    dlist_init(&g_data.long_list);
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
    entry_clear();
    if (atomic_load(&g_data.pairs_left) > k_max_freed) {
        _exit(0); // ends the workers wherever they are; the kernel frees the rest
    }
    thread_pool_destroy(&g_data.pool);
}
