// command.c: the table of commands
//
// Owns the table, which is constant. No other file names all commands.

#include <stdio.h>
#include <string.h>

#include "reply.h"

#include "server.h"

// clang-format off
static const struct command k_commands[] = {
    {"get", 2, do_get},
    {"set", 3, do_set},
    {"del", 2, do_del},
    {"keys", 2, do_keys},
    {"zadd", 4, do_zadd},
    {"zrem", 3, do_zrem},
    {"zscore", 3, do_zscore},
    {"zquery", 6, do_zquery},
    {"expire", 3, do_expire},
    {"pexpire", 3, do_pexpire},
    {"ttl", 2, do_ttl},
    {"pttl", 2, do_pttl},
    {"persist", 2, do_persist},
    {"ping", -1, do_ping},
    {"echo", 2, do_echo},
    {"quit", -1, do_quit},
    {"select", 2, do_select},
    {"hello", -1, do_hello},
    {"command", -1, do_command},
};
// clang-format on

// Returns the command with the name, NULL where there is none.
const struct command *find_command(const struct slice *name) {
    for (size_t i = 0; i < sizeof(k_commands) / sizeof(k_commands[0]); i++) {
        if (is_word(name, k_commands[i].name)) {
            return &k_commands[i];
        }
    }
    return NULL;
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

// Runs the command, if it has the right number of arguments.
void do_request(struct request *req, struct reply *out) {
    if (!req->command) {
        out_unknown(req, out);
        return;
    }
    int arity = req->command->arity;
    if (arity > 0 ? req->nargs != arity : req->nargs < -arity) {
        out_bad_arity(req->command->name, out);
        return;
    }
    req->command->f(req, out);
}
