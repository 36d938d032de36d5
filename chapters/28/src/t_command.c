// t_command.c: `command` and `help`, answered from the table of commands
//
// Has no state.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "glob.h"
#include "reply.h"

#include "server.h"

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

// Tells whether `command` is one of the family.
static bool is_in_family(const struct command *command, const struct command *family) {
    size_t len = strlen(family->name);
    return strncmp(command->name, family->name, len) == 0 && command->name[len] == '|';
}

// Returns how many commands there are, not counting those of families.
static size_t count_commands(void) {
    size_t n = 0;
    for (size_t i = 0; i < num_commands(); i++) {
        n += !(command_at(i)->flags & MEMBER);
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
    for (size_t i = 0; i < num_commands(); i++) {
        n += is_in_family(command_at(i), command);
    }
    reply_arr(out, n);
    for (size_t i = 0; n > 0 && i < num_commands(); i++) {
        if (is_in_family(command_at(i), command)) {
            out_command(command_at(i), out);
        }
    }
}

void do_command(struct request *req, struct reply *out) {
    (void)req;
    reply_arr(out, count_commands());
    for (size_t i = 0; i < num_commands(); i++) {
        if (!(command_at(i)->flags & MEMBER)) {
            out_command(command_at(i), out);
        }
    }
}

void do_command_count(struct request *req, struct reply *out) {
    (void)req;
    reply_int(out, (int64_t)count_commands());
}

// command list [filterby module name | filterby aclcat category | filterby pattern pattern]: there are
// no modules here and no categories, so none of the commands belongs to one.
void do_command_list(struct request *req, struct reply *out) {
    bool wanted[k_command_slots], all = req->nargs == 2;
    const struct slice *args = req->args;
    size_t n = 0, budget = compare_budget(0), left = budget;
    if (!all && (req->nargs != 5 || !is_word(&args[2], "filterby") ||
                 !(is_word(&args[3], "module") || is_word(&args[3], "aclcat") ||
                   is_word(&args[3], "pattern")))) {
        out_bad_syntax(out);
        return;
    }
    uint8_t *pattern = all ? NULL : small_letters(&args[4]);
    bool matches = !all && is_word(&args[3], "pattern");
    for (size_t i = 0; i < num_commands(); i++) {
        const char *name = command_at(i)->name;
        wanted[i] =
            all || (matches &&
                    glob_match(pattern, args[4].len, (const uint8_t *)name, strlen(name), &left));
        n += wanted[i];
    }
    free(pattern);
    turn_add(budget - left);
    if (left == 0) {
        out_long_pattern(out);
        return;
    }
    if (all) {
        reply_set(out, n);
    } else { // as Redis does it
        reply_arr(out, n);
    }
    for (size_t i = 0; i < num_commands(); i++) {
        if (wanted[i]) {
            reply_cstr(out, command_at(i)->name);
        }
    }
}

// command info [name]...
void do_command_info(struct request *req, struct reply *out) {
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
void do_command_docs(struct request *req, struct reply *out) {
    if (req->nargs == 2) {
        reply_map(out, count_commands());
        for (size_t i = 0; i < num_commands(); i++) {
            if (!(command_at(i)->flags & MEMBER)) {
                out_docs(command_at(i), out);
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

// help, of any family: which commands it has, and what they are for
void do_help(struct request *req, struct reply *out) {
    char name[k_max_command + 1], line[200];
    size_t len = strcspn(req->command->name, "|"), n = 0;
    struct slice word = {(const uint8_t *)req->command->name, len};
    const struct command *family = find_command(&word);
    for (size_t i = 0; i < num_commands(); i++) {
        n += is_in_family(command_at(i), family);
    }
    reply_arr(out, 1 + 2 * n);
    in_capitals(name, family->name, len);
    snprintf(
        line, sizeof(line), "%s <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", name);
    reply_status(out, line);
    for (size_t i = 0; i < num_commands(); i++) {
        const struct command *command = command_at(i);
        if (is_in_family(command, family)) {
            in_capitals(name, command->name + len + 1, strlen(command->name + len + 1));
            reply_status(out, name);
            snprintf(line, sizeof(line), "    %s.", command->summary);
            reply_status(out, line);
        }
    }
}
