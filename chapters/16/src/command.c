// command.c: the table of commands
//
// Owns the table, which is constant. No other file knows all commands.

#include "serial.h"

#include "server.h"

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
// in arg is a byte like any other.
static bool is_command(const struct slice *arg, const char *name) {
    size_t i = 0;
    while (i < arg->len && name[i] && (arg->data[i] | 0x20) == name[i]) {
        i++;
    }
    return i == arg->len && !name[i];
}

// Finds the command and has it reply.
void do_request(const struct slice *args, int nargs, struct buf *out) {
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
