// server.h, chapter 19: a silent client costs nothing
//
// A connection owns no buffers. All share one pair, which is lent to the one in its turn; what is left
// over when the turn ends is kept in as much memory as it needs.
//
// The table of contents: the types that files share, then the functions that each has for others.
// All other functions are static, and so is all state: the first lines of a file say what it owns.
//
// A file calls only those that are above it here.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "dlist.h"
#include "hashtable.h"
#include "request.h"
#include "zset.h"

enum {
    k_max_msg = 32 << 20,
    k_turn_work = 64 << 10, // work that ends a connection's turn: see turn.c
    k_read_size = 16 << 10, // a read has room for at least this many bytes
    k_max_freed = 100000,   // keys and pairs above which they are left to the kernel at exit
};

// What a connection waits for from its client.
enum conn_state {
    STATE_REQ, // requests: reading
    STATE_RES, // that it takes a reply: writing
    STATE_BAD, // that it hangs up, after a bad message
    STATE_END, // nothing: to be closed
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

enum {
    k_lookahead = 32,              // requests of a batch that wait for memory together
    k_batch_args = 2 * k_max_args, // strings that a batch has room for
    k_long_arg = 1024,             // longer keys and names are not hashed ahead
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
    bool more;       // waits for us, not for its client: rbuf may hold requests for another turn
    bool slow;       // the first of them is slow: it waits for a turn of its own
    size_t dropped;  // bytes that came behind a bad message
    struct buf rbuf; // received, not answered yet
    struct buf wbuf; // answered, not sent yet
    struct dlist idle_node;
    struct dlist turn_node; // in send_list; while `more` is set, in a queue for its turn
    int64_t idle_start;     // when a byte moved last
};

// entry.c
struct slice entry_val(const struct entry *ent);
struct zset *entry_zset(const struct entry *ent);
size_t entry_pairs(const struct entry *ent);
size_t entry_listed_size(const struct entry *ent);

// turn.c
void turn_begin(bool own);
void turn_add(size_t cost);
size_t turn_work(void);
bool may_take(size_t cost);
bool turn_done(void);
bool turn_refused(void);

// deadline.c
void set_now(int64_t ms);
int64_t get_now(void);
int64_t entry_deadline(const struct entry *ent);
bool entry_expired(const struct entry *ent);
void entry_set_ttl(struct entry *ent, int64_t ttl_ms);
bool entry_clear_ttl(struct entry *ent);
struct entry *first_to_expire(void);
size_t expired_listed_size(void);
void deadlines_free(void);

// lazyfree.c
void lazyfree_start(void);
void lazyfree_end(void);
size_t entry_cost(const struct entry *ent);
bool entry_fits(const struct entry *ent, size_t len);
void entry_free(struct entry *ent);
void block_free(void *block, size_t size);

// db.c
void db_start(void);
const struct hmap *db_keys(void);
size_t db_keys_size(void);
struct lookup_key hash_of_key(const struct slice *key);
void set_hashed(const struct lookup_key *key);
struct zset *entry_add_zset(const struct slice *key);
void entry_drop(struct entry *ent);
bool entry_remove(const struct slice *key);
struct entry *entry_lookup(const struct slice *key);
void entry_set(const struct slice *key, const struct slice *val);
void entry_clear(void);

// args.c
bool parse_int(const struct slice *arg, int64_t *value);
bool parse_double(const struct slice *arg, double *value);
void out_bad_int(struct buf *out);
void out_bad_double(struct buf *out);
void out_bad_type(struct buf *out);
void out_too_big(struct buf *out);

// t_string.c
void do_get(const struct slice *args, struct buf *out);
void do_set(const struct slice *args, struct buf *out);

// t_keys.c
void do_del(const struct slice *args, struct buf *out);
void do_keys(const struct slice *args, struct buf *out);

// t_zset.c
void do_zadd(const struct slice *args, struct buf *out);
void do_zrem(const struct slice *args, struct buf *out);
void do_zscore(const struct slice *args, struct buf *out);
void do_zquery(const struct slice *args, struct buf *out);

// t_expire.c
void do_expire(const struct slice *args, struct buf *out);
void do_pexpire(const struct slice *args, struct buf *out);
void do_ttl(const struct slice *args, struct buf *out);
void do_pttl(const struct slice *args, struct buf *out);
void do_persist(const struct slice *args, struct buf *out);

// command.c
void do_request(const struct slice *args, int nargs, struct buf *out);

// ahead.c
void fetch_ahead(const struct batch *batch);

// batch.c
bool answer_batch(struct conn *conn);
size_t take_answered(void);

// poller.c
void poller_start(void);
int watch(int op, int fd, uint32_t events, void *what);
int poller_wait(size_t watched, int wait_ms);
void *next_ready(void);
void poller_end(void);

// listener.c
void listener_start(void);
void listener_end(void);
int listener_fd(void);
bool is_listener(const void *what);
void set_accepting(bool on);
int64_t accept_deadline(void);

// conn.c
void conns_start(void);
void conns_end(void);
size_t conns_count(void);
void renew_idle(struct conn *conn);
struct conn *first_idle(void);
int64_t idle_deadline(const struct conn *conn);
void conn_done(struct conn *conn);
void end_turns(void);
void connection_io(struct conn *conn);
bool turns_wait(void);
const struct dlist *last_of_more(void);
bool serve_more(const struct dlist *last);
void serve_slow(void);
bool accept_new_conn(int listen_fd);

// stop.c
void catch_signals(void);
bool stop_asked(void);
int stop_fd(void);
void stop_end(void);
