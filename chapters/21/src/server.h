// server.h, chapter 21: a server that says what it can
//
// Requests and replies are those of Redis, and so are the names of the commands: its tools and its
// libraries are our clients.
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
#include "reply.h"
#include "request.h"
#include "resp.h"
#include "zset.h"

enum {
    k_max_msg = 32 << 20,
    k_turn_work = 64 << 10, // work that ends a connection's turn: see turn.c
    k_read_size = 16 << 10, // a read has room for at least this many bytes
    k_max_freed = 100000,   // keys and pairs above which they are left to the kernel at exit
    k_lookahead = 32,       // requests of a batch that wait for memory together
    k_long_arg = 1024,      // longer keys and names are not hashed ahead
    k_max_address = 32,     // bytes of an address and a port as text
    k_max_command = 32,     // letters of a command's name
    k_command_slots = 256,  // slots in the index of commands by name, most of them free
};

// The version that we claim to be, since many clients choose what to send by it. Our commands are
// those of Redis 7.0.
static const char *const k_version = "7.0.0";

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
    WRITE = 1 << 0,
    READ = 1 << 1,
    GROWS = 1 << 2 | WRITE, // takes more memory
    ADMIN = 1 << 3,
    FAST = 1 << 4,   // O(1), or O(log n)
    FAMILY = 1 << 5, // its second word says what to do
    MEMBER = 1 << 6, // such a second word, with the first in front
};

struct request;

// A command: `command` shows it to clients, and do_request() obeys it.
struct command {
    const char *name; // in small letters; client|id is one of the family of client
    int arity;        // strings, with the name itself; -n: n at least
    unsigned flags;
    int first, last, step; // where keys are among the arguments, -1 for the last one; 0 for nowhere
    void (*f)(struct request *req, struct reply *out); // NULL: only the family exists
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
};

// The first requests in rbuf.
struct batch {
    struct request requests[k_lookahead];
    int n;
    size_t size;                   // of their bytes
    bool bad;                      // what follows them is not a request
    char error[k_resp_error_size]; // why
    struct resp_parser rest;       // how much of the request behind them is there
};

// One connection.
struct conn {
    int fd;
    enum conn_state state;
    uint32_t events; // what epoll watches it for
    bool eof;        // the client has sent all it will send
    bool bad;        // the client has sent a bad request, or quit: it gets no more replies
    bool more;       // waits for us, not for its client: rbuf may hold requests for another turn
    bool slow;       // the first of them is slow: it waits for a turn of its own
    bool paused;     // a pause holds the first of them
    bool no_evict;   // has asked to be kept; nobody is evicted here
    bool resp3;      // replies are in version 3 of RESP
    size_t dropped;  // bytes that came behind a bad message
    struct buf rbuf; // received, not answered yet
    struct buf wbuf; // answered, not sent yet
    struct resp_parser parser; // how much of the first request in rbuf is there
    struct dlist idle_node;
    struct dlist turn_node; // in send_list; while `more` is set, in a queue for its turn
    int64_t idle_start;     // when a byte moved last
    int64_t start_ms;       // when it was accepted
    int64_t id;
    int64_t refused_until_ms;   // behind a MULTI that was refused, nothing is done until then
    char *name;                 // owned; NULL for none
    const struct command *last; // what it has asked for last
};

// What the ends of a range are: of places, negative ones count from the end.
enum range_by { BY_PLACE, BY_SCORE, BY_NAME };

// Places in a sorted set, NULL for none: from `begin` up to before `end`.
struct places {
    struct zset *zset;
    size_t begin, end;
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
size_t compare_budget(size_t keys_size);
void out_long_pattern(struct reply *out);

// deadline.c
void set_now(int64_t ms);
int64_t get_now(void);
int64_t entry_deadline(const struct entry *ent);
bool entry_expired(const struct entry *ent);
bool ttl_fits(int64_t ttl_ms);
void entry_set_ttl(struct entry *ent, int64_t ttl_ms);
bool entry_clear_ttl(struct entry *ent);
void entry_moved(struct entry *ent);
struct entry *first_to_expire(void);
size_t expired_listed_size(void);
size_t num_deadlines(void);
void deadlines_free(void);

// lazyfree.c
void lazyfree_start(void);
void lazyfree_end(void);
size_t entry_cost(const struct entry *ent);
bool entry_fits(const struct entry *ent, size_t len);
void entry_free(struct entry *ent);
void block_free(void *block, size_t size);
void table_free(struct hmap *db);

// db.c
void db_start(void);
const struct hmap *db_keys(void);
size_t db_keys_size(void);
struct lookup_key hash_of_key(const struct slice *key);
struct entry *entry_add(struct lookup_key key, enum value_type type, const struct slice *val);
struct zset *entry_add_zset(struct lookup_key key);
void entry_drop(struct entry *ent);
bool entry_remove(struct lookup_key key);
struct hnode **entry_link(struct lookup_key key);
struct entry *entry_of(struct hnode **link);
struct entry *entry_lookup(struct lookup_key key);
struct entry *entry_write(struct hnode **link, size_t offset, const struct slice *val);
struct entry *entry_patch(struct hnode **link, size_t offset, const struct slice *val);
struct entry *entry_set(struct lookup_key key, const struct slice *val);
void db_flush(void);
void entry_clear(void);

// args.c
struct lookup_key hashed_key(const struct request *req, int i);
struct entry *read_key(const struct request *req, int i);
struct hnode **write_key(const struct request *req, int i);
bool parse_int(const struct slice *arg, int64_t *value);
bool parse_double(const struct slice *arg, double *value);
bool is_word(const struct slice *arg, const char *word);
uint8_t *small_letters(const struct slice *pattern);
void out_bad_int(struct reply *out);
void out_bad_double(struct reply *out);
void out_bad_syntax(struct reply *out);
void out_bad_arity(const char *name, struct reply *out);
void out_bad_type(struct reply *out);
void out_too_big(struct reply *out);

// idle.c
void idle_start(void);
int64_t get_idle_timeout(void);
void set_idle_timeout(int64_t ms);
void renew_idle(struct conn *conn);
void conn_added(struct conn *conn);
void conn_gone(struct conn *conn);
const struct dlist *all_conns(void);
size_t conns_count(void);
size_t num_accepted(void);
void reset_accepted(void);
struct conn *first_idle(void);
int64_t idle_deadline(const struct conn *conn);

// pause.c
void pause_begin(bool all, int64_t end_ms);
void pause_end(void);
int64_t pause_deadline(void);
bool pause_holds(const struct command *command);

// info.c
void info_start(void);
void count_command(void);
__attribute__((format(printf, 2, 3))) void add_text(struct buf *text, const char *fmt, ...);
void do_config_resetstat(struct request *req, struct reply *out);
void do_info(struct request *req, struct reply *out);

// config.c
void do_config_get(struct request *req, struct reply *out);
void do_config_set(struct request *req, struct reply *out);

// t_string.c
void do_get(struct request *req, struct reply *out);
void do_set(struct request *req, struct reply *out);
void do_mget(struct request *req, struct reply *out);
void do_mset(struct request *req, struct reply *out);
void do_msetnx(struct request *req, struct reply *out);
void do_incr(struct request *req, struct reply *out);
void do_decr(struct request *req, struct reply *out);
void do_incrby(struct request *req, struct reply *out);
void do_decrby(struct request *req, struct reply *out);
void do_append(struct request *req, struct reply *out);
void do_strlen(struct request *req, struct reply *out);

// t_range.c
void do_getrange(struct request *req, struct reply *out);
void do_setrange(struct request *req, struct reply *out);

// t_float.c
void do_incrbyfloat(struct request *req, struct reply *out);

// t_keys.c
void do_del(struct request *req, struct reply *out);
void do_exists(struct request *req, struct reply *out);
void do_type(struct request *req, struct reply *out);
void do_keys(struct request *req, struct reply *out);
void do_dbsize(struct request *req, struct reply *out);
void do_flushall(struct request *req, struct reply *out);

// t_zset.c
bool read_zset(struct request *req, struct zset **zset, struct reply *out);
bool write_zset(struct request *req, struct zset **zset, struct reply *out);
void do_zadd(struct request *req, struct reply *out);
void do_zincrby(struct request *req, struct reply *out);
void do_zrem(struct request *req, struct reply *out);
void do_zscore(struct request *req, struct reply *out);
void do_zmscore(struct request *req, struct reply *out);
void do_zrank(struct request *req, struct reply *out);
void do_zrevrank(struct request *req, struct reply *out);
void do_zcard(struct request *req, struct reply *out);

// places.c
enum range_by range_of_command(const struct command *command);
bool find_places(struct request *req, enum range_by by, bool swapped, struct places *places,
                 struct reply *out);
bool out_pairs(const struct places *places, bool rev, bool scores, bool nested, struct reply *out);

// t_zrange.c
void do_zcount(struct request *req, struct reply *out);
void do_zrange(struct request *req, struct reply *out);
void do_zquery(struct request *req, struct reply *out);

// t_zrem.c
void do_zremrange(struct request *req, struct reply *out);
void do_zpop(struct request *req, struct reply *out);

// t_expire.c
void do_expire(struct request *req, struct reply *out);
void do_pexpire(struct request *req, struct reply *out);
void do_ttl(struct request *req, struct reply *out);
void do_pttl(struct request *req, struct reply *out);
void do_persist(struct request *req, struct reply *out);

// t_conn.c
size_t conn_address(const struct conn *conn, bool peer, char text[k_max_address]);
void do_ping(struct request *req, struct reply *out);
void do_echo(struct request *req, struct reply *out);
void do_quit(struct request *req, struct reply *out);
void do_select(struct request *req, struct reply *out);
void do_auth(struct request *req, struct reply *out);
void do_reset(struct request *req, struct reply *out);
void do_hello(struct request *req, struct reply *out);
void do_client_id(struct request *req, struct reply *out);
void do_client_getname(struct request *req, struct reply *out);
void do_client_setname(struct request *req, struct reply *out);
void do_client_setinfo(struct request *req, struct reply *out);
void do_client_info(struct request *req, struct reply *out);
void do_client_list(struct request *req, struct reply *out);

// t_client.c
void do_client_kill(struct request *req, struct reply *out);
void do_client_no_evict(struct request *req, struct reply *out);
void do_client_pause(struct request *req, struct reply *out);
void do_client_unpause(struct request *req, struct reply *out);

// index.c
void index_commands(const struct command *commands, size_t n);
size_t num_commands(void);
const struct command *command_at(size_t i);
const struct command *find_command(const struct slice *name);
const struct command *find_in_family(const struct command *family, const struct slice *word);
void in_capitals(char text[k_max_command + 1], const char *name, size_t len);

// t_command.c
void do_command(struct request *req, struct reply *out);
void do_command_count(struct request *req, struct reply *out);
void do_command_list(struct request *req, struct reply *out);
void do_command_info(struct request *req, struct reply *out);
void do_command_docs(struct request *req, struct reply *out);
void do_help(struct request *req, struct reply *out);

// command.c
void commands_start(void);
void do_request(struct request *req, struct reply *out);

// ahead.c
void fetch_ahead(const struct batch *batch);
void fetch_keys_ahead(const struct request *req);

// batch.c
size_t take_answered(void);
bool answer_batch(struct conn *conn);
void batch_done(void);
void batch_end(void);

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
void conn_done(struct conn *conn);
void end_turns(void);
void connection_io(struct conn *conn);
bool turns_wait(void);
const struct dlist *last_of_more(void);
bool serve_more(const struct dlist *last);
void serve_slow(void);
void serve_held(void);
void end_held(struct conn *conn);
bool accept_new_conn(int listen_fd);
void conns_end(void);

// stop.c
void catch_signals(void);
bool stop_asked(void);
int stop_fd(void);
void stop_end(void);
