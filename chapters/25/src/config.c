// config.c: settings, as clients read and change them
//
// Has no state: a setting belongs to the file that goes by it.

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glob.h"
#include "reply.h"

#include "server.h"

// What clients ask for by `config get`. All that has a value here stays as it is; the others are
// numbers that can be set.
static const struct setting {
    const char *name;
    const char *value;
    int64_t (*get)(void);
    void (*set)(int64_t number);
    int64_t unit, min, max; // clients see the number in `unit`, rounded up
} k_settings[] = {
    {"active-expire-effort", NULL, get_effort, set_effort, 1, 1, 10},
    {"appendonly", "no", NULL, NULL, 0, 0, 0},
    {"databases", "16", NULL, NULL, 0, 0, 0},
    {"maxmemory", "0", NULL, NULL, 0, 0, 0},
    {"maxmemory-policy", "noeviction", NULL, NULL, 0, 0, 0},
    {"proto-max-bulk-len", "33554432", NULL, NULL, 0, 0, 0},
    {"save", "", NULL, NULL, 0, 0, 0},
    {"timeout", NULL, get_idle_timeout, set_idle_timeout, 1000, 0, INT_MAX},
};

enum {
    k_num_settings = sizeof(k_settings) / sizeof(k_settings[0]),
};

// Returns the value of a setting. `text` has room for one that has to be written.
static const char *setting_value(const struct setting *setting, char text[32]) {
    if (setting->value) {
        return setting->value;
    }
    int64_t value = (setting->get() + setting->unit - 1) / setting->unit;
    snprintf(text, 32, "%lld", (long long)value);
    return text;
}

// config get pattern...: a name that was asked for by itself is written as it was asked for
void do_config_get(struct request *req, struct reply *out) {
    const struct slice *wanted[k_num_settings] = {NULL};
    size_t n = 0, budget = compare_budget(0), left = budget;
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
    turn_add(budget - left);
    if (left == 0) {
        out_long_pattern(out);
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
void do_config_set(struct request *req, struct reply *out) {
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
        if (setting->set &&
            !parse_setting(setting, &req->args[i + 1], &numbers[setting - k_settings], out)) {
            return;
        }
    }
    for (int i = 2; i < req->nargs; i += 2) {
        const struct setting *setting = find_setting(&req->args[i]);
        if (setting->set) {
            setting->set(numbers[setting - k_settings] * setting->unit);
        }
    }
    reply_status(out, "OK");
}
