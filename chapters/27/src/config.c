// config.c: settings, as clients read and change them
//
// Has no state: a setting belongs to the file that goes by it.

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "glob.h"
#include "reply.h"

#include "server.h"

static const char k_immutable[] = "can't set immutable config",
                  k_protected[] = "can't set protected config";

// The classes of connections in Redis, the last one of which has a limit here: of what waits in its inbox.
static const char *const k_client_classes[] = {"normal", "slave", "replica", "pubsub"};

enum {
    k_num_classes = sizeof(k_client_classes) / sizeof(k_client_classes[0]),
};

static void get_limits(char text[k_max_value]) {
    struct inbox_limits limits = get_inbox_limits();
    snprintf(text,
             k_max_value,
             "normal 0 0 0 slave 268435456 67108864 60 pubsub %zu %zu %lld",
             limits.hard,
             limits.soft,
             (long long)limits.soft_ms / 1000);
}

// size = digit, digit*, ("b" | "k" | "kb" | "m" | "mb" | "g" | "gb")?     k is 1000, kb 1024
//
// Returns whether the word is one, which is *size then.
static bool parse_size(const char *word, size_t *size) {
    static const struct unit {
        const char *name;
        size_t size;
    } k_units[] = {
        {"", 1},
        {"b", 1},
        {"k", 1000},
        {"kb", 1 << 10},
        {"m", 1000 * 1000},
        {"mb", 1 << 20},
        {"g", 1000 * 1000 * 1000},
        {"gb", 1 << 30},
    };
    char *end;
    unsigned long long number = strtoull(word, &end, 10);
    for (size_t i = 0; isdigit((unsigned char)*word) && i < sizeof(k_units) / sizeof(k_units[0]);
         i++) {
        if (strcasecmp(end, k_units[i].name) == 0 && number <= SIZE_MAX / k_units[i].size) {
            *size = (size_t)number * k_units[i].size;
            return true;
        }
    }
    return false;
}

// limits = class, hard size, soft size, seconds, any number of times
//
// Sets the limits of what waits for a connection, unless this is only a `trial`. Returns why it cannot,
// NULL if it can.
static const char *set_limits(const struct slice *arg, bool trial) {
    char text[k_max_value], *words[4], *rest = text;
    struct inbox_limits limits = get_inbox_limits();
    if (arg->len >= sizeof(text)) {
        return "Wrong number of arguments in buffer limit configuration.";
    }
    memcpy(text, arg->data, arg->len);
    text[arg->len] = '\0';
    while (rest && *text) {
        words[0] = strsep(&rest, " ");
        size_t numbers[3];
        int class = 0;
        for (int i = 1; i < 4; i++) {
            if (!(words[i] = strsep(&rest, " "))) {
                return "Wrong number of arguments in buffer limit configuration.";
            }
        }
        while (class < k_num_classes && strcasecmp(words[0], k_client_classes[class]) != 0) {
            class ++;
        }
        if (class == k_num_classes) {
            return "Invalid client class specified in buffer limit configuration.";
        }
        if (!parse_size(words[1], &numbers[0]) || !parse_size(words[2], &numbers[1]) ||
            words[3][strspn(words[3], "0123456789")] || !parse_size(words[3], &numbers[2]) ||
            numbers[2] > INT_MAX) {
            return "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        }
        if (class == k_num_classes - 1) {
            limits = (struct inbox_limits){numbers[0], numbers[1], (int64_t)numbers[2] * 1000};
        }
    }
    if (!trial) {
        set_inbox_limits(limits);
    }
    return NULL;
}

static void get_events(char text[k_max_value]) {
    get_event_classes(text);
}

// Sets which classes of events are published, unless this is only a `trial`. Returns why it cannot, NULL
// if it can.
static const char *set_events(const struct slice *arg, bool trial) {
    unsigned classes;
    if (!parse_event_classes(arg, &classes)) {
        return "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
    }
    if (!trial) {
        set_event_classes(classes);
    }
    return NULL;
}

static void get_fsync(char text[k_max_value]) {
    int policy = get_fsync_policy();
    snprintf(text,
             k_max_value,
             "%s",
             policy == FSYNC_NO       ? "no"
             : policy == FSYNC_ALWAYS ? "always"
                                      : "everysec");
}

// Sets when what has changed is on the disk, unless this is only a `trial`. Returns why it cannot, NULL if
// it can.
static const char *set_fsync(const struct slice *arg, bool trial) {
    enum fsync_policy policy = FSYNC_NO;
    if (is_word(arg, "everysec")) {
        policy = FSYNC_EVERYSEC;
    } else if (is_word(arg, "always")) {
        policy = FSYNC_ALWAYS;
    } else if (!is_word(arg, "no")) {
        return "argument(s) must be one of the following: everysec, always, no";
    }
    if (policy == FSYNC_ALWAYS && effect_is_together()) { // half of it would be synced
        return "always cannot be set within a transaction";
    }
    if (trial || set_fsync_policy(policy)) {
        return NULL;
    }
    return "Unable to sync what was written before. Check server logs.";
}

// While a log is loaded, it is as good as on.
static bool has_log(void) {
    return aof_is_on() || aof_is_loading();
}

static void get_log(char text[k_max_value]) {
    snprintf(text, k_max_value, "%s", has_log() ? "yes" : "no");
}

// Turns the log on or off, unless this is only a `trial`. Returns why it cannot, NULL if it can.
static const char *set_log(const struct slice *arg, bool trial) {
    bool on = is_word(arg, "yes");
    if (!on && !is_word(arg, "no")) {
        return "argument must be 'yes' or 'no'";
    }
    if (trial || on == has_log() || aof_turn(on)) {
        return NULL;
    }
    return on ? "Unable to turn on AOF. Check server logs."
              : "Unable to turn off AOF. Check server logs.";
}

static void get_dir(char text[k_max_value]) {
    snprintf(text, k_max_value, "%s", aof_dir());
}

// What clients ask for by `config get`. All that has a value here stays as it is; the others are
// numbers that can be set, or text.
static const struct setting {
    const char *name;
    const char *value;
    const char *refusal; // why it cannot even be set to what it is, NULL where it can
    int64_t (*get)(void);
    void (*set)(int64_t number);
    int64_t unit, min, max; // clients see the number in `unit`, rounded up
    void (*get_text)(char text[k_max_value]);
    const char *(*set_text)(const struct slice *arg, bool trial);
    bool may_fail; // set_text() may, where the trial has not
} k_settings[] = {
    {"active-expire-effort", .get = get_effort, .set = set_effort, .unit = 1, .min = 1, .max = 10},
    {"aof-load-truncated", .value = "yes"},
    {"aof-use-rdb-preamble", .value = "no"},
    {"appenddirname", .value = "appendonlydir", .refusal = k_immutable},
    {"appendfilename", .value = "appendonly.aof", .refusal = k_immutable},
    {"appendfsync", .get_text = get_fsync, .set_text = set_fsync, .may_fail = true},
    {"appendonly", .get_text = get_log, .set_text = set_log, .may_fail = true},
    {"client-output-buffer-limit", .get_text = get_limits, .set_text = set_limits},
    {"databases", .value = "16", .refusal = k_immutable},
    {"dir", .refusal = k_protected, .get_text = get_dir},
    {"maxmemory", .value = "0"},
    {"maxmemory-policy", .value = "noeviction"},
    {"notify-keyspace-events", .get_text = get_events, .set_text = set_events},
    {"proto-max-bulk-len", .value = "33554432"},
    {"save", .value = ""},
    {"timeout", .get = get_idle_timeout, .set = set_idle_timeout, .unit = 1000, .max = INT_MAX},
};

enum {
    k_num_settings = sizeof(k_settings) / sizeof(k_settings[0]),
};

// Returns the value of a setting. `text` has room for one that has to be written.
static const char *setting_value(const struct setting *setting, char text[k_max_value]) {
    if (setting->value) {
        return setting->value;
    }
    if (setting->get_text) {
        setting->get_text(text);
        return text;
    }
    int64_t value = (setting->get() + setting->unit - 1) / setting->unit;
    snprintf(text, k_max_value, "%lld", (long long)value);
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
        char text[k_max_value];
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

// Tells whether the setting has no value that stays as it is, or this one.
static bool may_have(const struct setting *setting, const struct slice *value) {
    return !setting->value || (strlen(setting->value) == value->len &&
                               memcmp(setting->value, value->data, value->len) == 0);
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
    if (setting->refusal || !may_have(setting, value)) {
        out_not_set(setting->name, setting->refusal ? setting->refusal : k_immutable, out);
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

// Sets *number to `arg`. Returns why that is no number that the setting takes, in `text` or elsewhere, NULL if
// it is one.
static const char *parse_setting(const struct setting *setting, const struct slice *arg,
                                 int64_t *number, char text[k_max_value]) {
    if (!parse_int(arg, number)) {
        return "argument couldn't be parsed into an integer";
    }
    if (*number < setting->min || *number > setting->max) {
        snprintf(text,
                 k_max_value,
                 "argument must be between %lld and %lld inclusive",
                 (long long)setting->min,
                 (long long)setting->max);
        return text;
    }
    return NULL;
}

// Sets a setting that can be set, unless this is only a `trial`. Returns why it cannot, in `text` or elsewhere,
// NULL if it can.
static const char *set_setting(const struct setting *setting, const struct slice *arg, bool trial,
                               char text[k_max_value]) {
    int64_t number;
    if (setting->set_text) {
        return setting->set_text(arg, trial);
    }
    const char *why = setting->set ? parse_setting(setting, arg, &number, text) : NULL;
    if (setting->set && !why && !trial) {
        setting->set(number * setting->unit);
    }
    return why;
}

// Sets those of the settings in the request that may fail, or those that cannot; or only tries. Returns whether
// that works; if not, replies with an error.
static bool set_all(const struct request *req, bool may_fail, bool trial, struct reply *out) {
    char text[k_max_value];
    for (int i = 2; i < req->nargs; i += 2) {
        const struct setting *setting = find_setting(&req->args[i]);
        const char *why = NULL;
        if (trial || setting->may_fail == may_fail) {
            why = set_setting(setting, &req->args[i + 1], trial, text);
        }
        if (why) {
            out_not_set(setting->name, why, out);
            return false;
        }
    }
    return true;
}

// config set name value [name value]...: all of them, or none. So what may fail is done first, which are
// settings of the log.
void do_config_set(struct request *req, struct reply *out) {
    if (req->nargs % 2 != 0) {
        out_bad_syntax(out);
        return;
    }
    for (int i = 2; i < req->nargs; i += 2) {
        if (!may_set(req, i, out)) {
            return;
        }
    }
    if (set_all(req, true, true, out) && set_all(req, true, false, out) &&
        set_all(req, false, false, out)) {
        reply_status(out, "OK");
    }
}

// ---- when the server starts ----

// Returns the name of a setting, by its number; NULL behind the last.
const char *config_name(size_t i) {
    return i < k_num_settings ? k_settings[i].name : NULL;
}

// Sets the setting with this name, which has to be one, unless this is only a `trial`. Returns why it
// cannot, in `text` or elsewhere, NULL if it can.
const char *config_start(const struct slice *name, const struct slice *value, bool trial,
                         char text[k_max_value]) {
    const struct setting *setting = find_setting(name);
    if (!may_have(setting, value)) {
        snprintf(
            text, k_max_value, "it has to be %s here", *setting->value ? setting->value : "\"\"");
        return text;
    }
    return set_setting(setting, value, trial, text);
}
