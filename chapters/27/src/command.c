// command.c: the table of commands
//
// Owns the table, which is constant. No other file names all commands.

#include <stdio.h>
#include <string.h>

#include "buf.h"
#include "reply.h"

#include "server.h"

enum {
    k_many_args = 1024, // strings above which a request asks for its turn
    k_arg_cost = 64,    // what each of them counts for
    k_max_why = 160,    // bytes of why a request is refused
};

// clang-format off
static const struct command k_commands[] = {
    {"get", 2, READ | FAST, 1, 1, 1, do_get, "string", "Get the value of a key"},
    {"set", -3, GROWS | PRICED, 1, 1, 1, do_set, "string", "Set the value of a key"},
    {"mget", -2, READ | FAST, 1, -1, 1, do_mget, "string", "Get the values of many keys"},
    {"setnx", 3, GROWS | FAST, 1, 1, 1, do_setnx, "string", "Set the value of a new key"},
    {"setex", 4, GROWS, 1, 1, 1, do_setex, "string", "Set a value and its seconds to live"},
    {"psetex", 4, GROWS, 1, 1, 1, do_psetex, "string", "Set a value and its ms to live"},
    {"getset", 3, GROWS | FAST | PRICED, 1, 1, 1, do_getset, "string", "Set a value, get the old one"},
    {"getdel", 2, WRITE | FAST | PRICED, 1, 1, 1, do_getdel, "string", "Get a value, delete its key"},
    {"getex", -2, WRITE | FAST | PRICED, 1, 1, 1, do_getex, "string", "Get a value, set its time to live"},
    {"mset", -3, GROWS, 1, -1, 2, do_mset, "string", "Set the values of many keys"},
    {"msetnx", -3, GROWS, 1, -1, 2, do_msetnx, "string", "Set many keys, if none is there"},
    {"incr", 2, GROWS | FAST, 1, 1, 1, do_incr, "string", "Add 1 to a number"},
    {"decr", 2, GROWS | FAST, 1, 1, 1, do_decr, "string", "Take 1 from a number"},
    {"incrby", 3, GROWS | FAST, 1, 1, 1, do_incrby, "string", "Add to a number"},
    {"decrby", 3, GROWS | FAST, 1, 1, 1, do_decrby, "string", "Take from a number"},
    {"incrbyfloat", 3, GROWS | FAST, 1, 1, 1, do_incrbyfloat, "string", "Add a fraction"},
    {"append", 3, GROWS | FAST, 1, 1, 1, do_append, "string", "Add bytes to the value of a key"},
    {"strlen", 2, READ | FAST, 1, 1, 1, do_strlen, "string", "Get the length of a value"},
    {"getrange", 4, READ, 1, 1, 1, do_getrange, "string", "Get a part of a value"},
    {"setrange", 4, GROWS | PRICED, 1, 1, 1, do_setrange, "string", "Write over a part of a value"},
    {"del", -2, WRITE, 1, -1, 1, do_del, "generic", "Delete keys"},
    {"unlink", -2, WRITE | FAST, 1, -1, 1, do_del, "generic", "Delete keys, as del does"},
    {"exists", -2, READ | FAST, 1, -1, 1, do_exists, "generic", "Count the keys that are there"},
    {"touch", -2, READ | FAST, 1, -1, 1, do_touch, "generic", "Count keys that are there, as used"},
    {"rename", 3, WRITE | PRICED, 1, 2, 1, do_rename, "generic", "Give a key another name"},
    {"renamenx", 3, WRITE | FAST | PRICED, 1, 2, 1, do_renamenx, "generic", "Give a key a new name"},
    {"copy", -3, GROWS | PRICED, 1, 2, 1, do_copy, "generic", "Copy a key and its value"},
    {"move", 3, WRITE | FAST, 1, 1, 1, do_move, "generic", "Move a key to another database"},
    {"object", -2, FAMILY, 0, 0, 0, NULL, "generic", "Commands about values"},
    {"object|encoding", 3, MEMBER | READ, 2, 2, 1, do_object_encoding, "generic", "Get its form"},
    {"object|idletime", 3, MEMBER | READ, 2, 2, 1, do_object_idletime, "generic", "Get s unused"},
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
    {"zmscore", -3, READ | FAST, 1, 1, 1, do_zmscore, "sorted-set", "Get the scores of names"},
    {"zcard", 2, READ | FAST, 1, 1, 1, do_zcard, "sorted-set", "Count the pairs"},
    {"zrank", 3, READ | FAST, 1, 1, 1, do_zrank, "sorted-set", "Count the pairs before a name"},
    {"zrevrank", 3, READ | FAST, 1, 1, 1, do_zrevrank, "sorted-set", "Count those behind it"},
    {"zcount", 4, READ | FAST, 1, 1, 1, do_zcount, "sorted-set", "Count pairs between two scores"},
    {"zlexcount", 4, READ | FAST, 1, 1, 1, do_zcount, "sorted-set", "Count between two names"},
    {"zrange", -4, READ, 1, 1, 1, do_zrange, "sorted-set", "Get pairs by place, score or name"},
    {"zrangebyscore", -4, READ, 1, 1, 1, do_zrange, "sorted-set", "Get pairs by score"},
    {"zrangebylex", -4, READ, 1, 1, 1, do_zrange, "sorted-set", "Get pairs by name"},
    {"zrevrange", -4, READ, 1, 1, 1, do_zrange, "sorted-set", "Get pairs by place, backwards"},
    {"zrevrangebyscore", -4, READ, 1, 1, 1, do_zrange, "sorted-set", "The same by score"},
    {"zrevrangebylex", -4, READ, 1, 1, 1, do_zrange, "sorted-set", "The same by name"},
    {"zscan", -3, READ, 1, 1, 1, do_zscan, "sorted-set", "List some pairs, and where to go on"},
    {"zremrangebyrank", 4, WRITE | PRICED, 1, 1, 1, do_zremrange, "sorted-set", "Remove by place"},
    {"zremrangebyscore", 4, WRITE | PRICED, 1, 1, 1, do_zremrange, "sorted-set", "Remove by score"},
    {"zremrangebylex", 4, WRITE | PRICED, 1, 1, 1, do_zremrange, "sorted-set", "Remove by name"},
    {"zpopmin", -2, WRITE | FAST | PRICED, 1, 1, 1, do_zpop, "sorted-set", "Take the first pairs out"},
    {"zpopmax", -2, WRITE | FAST | PRICED, 1, 1, 1, do_zpop, "sorted-set", "Take the last pairs out"},
    {"zquery", 6, READ, 1, 1, 1, do_zquery, "sorted-set", "Get pairs from a pair on; not in Redis"},
    {"multi", 1, FAST | AT_ONCE, 0, 0, 0, do_multi, "transactions", "Begin a transaction"},
    {"exec", 1, AT_ONCE, 0, 0, 0, do_exec, "transactions", "Do all that is in the queue"},
    {"discard", 1, FAST | AT_ONCE, 0, 0, 0, do_discard, "transactions", "Forget the queue"},
    {"watch", -2, FAST | AT_ONCE, 1, -1, 1, do_watch, "transactions", "Let EXEC do nothing if keys change"},
    {"unwatch", 1, FAST, 0, 0, 0, do_unwatch, "transactions", "Forget the keys that are watched"},
    {"subscribe", -2, HEARING, 0, 0, 0, do_subscribe, "pubsub", "Listen to channels"},
    {"unsubscribe", -1, HEARING, 0, 0, 0, do_unsubscribe, "pubsub", "Listen to them no more"},
    {"psubscribe", -2, HEARING, 0, 0, 0, do_psubscribe, "pubsub", "Listen to all that match patterns"},
    {"punsubscribe", -1, HEARING, 0, 0, 0, do_punsubscribe, "pubsub", "Listen to them no more"},
    {"publish", 3, FAST | PRICED | SPREADS, 0, 0, 0, do_publish, "pubsub", "Tell all that listen"},
    {"pubsub", -2, FAMILY, 0, 0, 0, NULL, "pubsub", "Commands about who listens"},
    {"pubsub|channels", -2, MEMBER, 0, 0, 0, do_pubsub_channels, "pubsub", "List channels"},
    {"pubsub|numsub", -2, MEMBER, 0, 0, 0, do_pubsub_numsub, "pubsub", "Count who listens to each"},
    {"pubsub|numpat", 2, MEMBER, 0, 0, 0, do_pubsub_numpat, "pubsub", "Count the patterns"},
    {"pubsub|help", 2, MEMBER, 0, 0, 0, do_help, "pubsub", "Print this help"},
    {"ping", -1, FAST | HEARING, 0, 0, 0, do_ping, "connection", "Get PONG, or the message"},
    {"echo", 2, FAST, 0, 0, 0, do_echo, "connection", "Get the message"},
    {"quit", -1, FAST | AT_ONCE | HEARING, 0, 0, 0, do_quit, "connection", "Have the connection closed"},
    {"hello", -1, FAST, 0, 0, 0, do_hello, "connection", "Choose the version of the protocol"},
    {"auth", -2, FAST, 0, 0, 0, do_auth, "connection", "Say who you are; no password is set"},
    {"reset", 1, FAST | AT_ONCE | HEARING, 0, 0, 0, do_reset, "connection", "Begin anew on this connection"},
    {"select", 2, FAST, 0, 0, 0, do_select, "connection", "Choose the database"},
    {"client", -2, FAMILY, 0, 0, 0, NULL, "connection", "Commands about connections"},
    {"client|id", 2, MEMBER, 0, 0, 0, do_client_id, "connection", "Get our number"},
    {"client|info", 2, MEMBER, 0, 0, 0, do_client_info, "connection", "Describe this connection"},
    {"client|list", 2, MEMBER | ADMIN, 0, 0, 0, do_client_list, "connection", "Describe all"},
    {"client|getname", 2, MEMBER, 0, 0, 0, do_client_getname, "connection", "Get our name"},
    {"client|setname", 3, MEMBER, 0, 0, 0, do_client_setname, "connection", "Give us a name"},
    {"client|setinfo", 4, MEMBER, 0, 0, 0, do_client_setinfo, "connection", "Name our library"},
    {"client|kill", -3, MEMBER | ADMIN, 0, 0, 0, do_client_kill, "connection", "End connections"},
    {"client|no-evict", 3, MEMBER | ADMIN, 0, 0, 0, do_client_no_evict, "connection", "Be kept"},
    {"client|pause", -3, MEMBER | ADMIN, 0, 0, 0, do_client_pause, "connection", "Have all wait"},
    {"client|unpause", 2, MEMBER | ADMIN, 0, 0, 0, do_client_unpause, "connection", "End that"},
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
    {"swapdb", 3, WRITE | FAST | PRICED, 0, 0, 0, do_swapdb, "server", "Exchange two databases"},
    {"flushdb", -1, WRITE | PRICED, 0, 0, 0, do_flushdb, "server", "Delete all keys of the database"},
    {"flushall", -1, WRITE | PRICED, 0, 0, 0, do_flushall, "server", "Delete all keys of all databases"},
};
// clang-format on

// Makes the table known.
void commands_start(void) {
    index_commands(k_commands, sizeof(k_commands) / sizeof(k_commands[0]));
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

// Finds the command of a request whose second word says what to do. Returns whether the command is known,
// and the number of its arguments right. If not, it has replied why.
static bool is_right(struct request *req, struct reply *out) {
    if (!req->command) {
        out_unknown(req, out);
        return false;
    }
    if (req->command->flags & FAMILY && req->nargs > 1) {
        const struct command *command = find_in_family(req->command, &req->args[1]);
        if (!command) {
            out_unknown_in_family(req, out);
            return false;
        }
        req->command = command;
    }
    int arity = req->command->arity;
    if (arity > 0 ? req->nargs != arity : req->nargs < -arity) {
        if (req->command->f == do_exec) {
            refuse_exec(req->conn, "wrong number of arguments for 'exec' command", out);
        } else {
            out_bad_arity(req->command->name, out);
        }
        return false;
    }
    return true;
}

// Returns why the state of the log does not let the command be done now, NULL where it does.
static const char *log_forbids(const struct request *req, char text[k_max_why]) {
    const struct command *command = req->command;
    bool ping = command->f == do_ping;
    if (aof_is_loading() && (command->flags & (READ | WRITE) || ping)) {
        return "LOADING Redis is loading the dataset in memory";
    }
    if (aof_error() &&
        (command->flags & WRITE || ping || (command->f == do_exec && queued_write(req->conn)))) {
        snprintf(
            text, k_max_why, "MISCONF Errors writing to the AOF file: %s", strerror(aof_error()));
        return text;
    }
    return NULL;
}

// Tells whether the connection may send the command now. In version 2, one that listens may not: a message
// could not be told from a reply. If not, replies with an error.
static bool is_allowed(const struct request *req, struct reply *out) {
    char text[k_max_why];
    const char *forbidden = log_forbids(req, text);
    if (forbidden && req->command->f == do_exec) {
        refuse_exec(req->conn, forbidden, out);
        return false;
    }
    if (forbidden) {
        reply_err(out, forbidden);
        return false;
    }
    if (out->resp3 || req->command->flags & HEARING || !is_subscriber(req->conn)) {
        return true;
    }
    char why[160];
    snprintf(why,
             sizeof(why),
             "Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are"
             " allowed in this context",
             req->command->name);
    if (req->command->f == do_exec) {
        refuse_exec(req->conn, why, out);
    } else {
        reply_errf(out, "ERR %s", why);
    }
    return false;
}

// Has the command reply, or puts the request into the queue of a transaction, unless a pause holds it. What
// may publish waits while messages are late.
void do_request(struct request *req, struct reply *out) {
    if (!is_right(req, out) || !is_allowed(req, out)) {
        transaction_spoil(req->conn);
        return;
    }
    const struct command *write = req->command->f == do_exec ? queued_write(req->conn) : NULL;
    if (pause_holds(req->command) || (write && pause_holds(write))) {
        req->conn->paused = true;
        return;
    }
    if (req->nargs > k_many_args && !may_take((size_t)req->nargs * k_arg_cost)) {
        return;
    }
    req->conn->last = req->command;
    if (in_transaction(req->conn) && !(req->command->flags & AT_ONCE)) {
        queue_request(req, out);
        return;
    }
    if (messages_late() &&
        (write || req->command->flags & (SPREADS | (are_events_heard() ? WRITE : 0)))) {
        turn_refuse();
        return;
    }
    req->command->f(req, out);
    effect_done(db_index(req->conn->db), req);
    if (!turn_refused()) {
        count_command();
    }
}
