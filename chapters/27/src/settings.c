// settings.c: what the server is told when it starts
//
//   ./server redis.conf --port 0 --appendonly yes
//
// A file in the form of Redis, then words of the command line, which go before it. The environment
// goes before the file, too. What has a variable there is put into it, for the file of ours that
// reads it; all else is set as `config set` does. What Redis has and we do not is an error, since
// who writes it relies on it: all but settings that change nothing of what clients see or of what
// is safe.
//
// Has no state that lasts.

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base.h"
#include "buf.h"
#include "mem.h"
#include "resp.h"

#include "server.h"

enum {
    k_max_compared = 64, // letters of a name for which the nearest one is looked for
};

static const struct variable {
    const char *name, *variable;
} k_variables[] = {
    {"appendfsync", "APPENDFSYNC"},
    {"appendonly", "APPENDONLY"},
    {"bind", "BIND"},
    {"dir", "DIR"},
    {"port", "PORT"},
    {"timeout", "IDLE_TIMEOUT_MS"},
};

// What may have this value alone.
static const struct fixed {
    const char *name, *value;
} k_fixed[] = {
    {"aof-timestamp-enabled", "no"},
    {"daemonize", "no"},
    {"logfile", ""},
    {"supervised", "no"},
};

// What is passed over: of speed, of the forms in which Redis keeps values and writes files, of
// replicas where there is none.
// clang-format off
static const char *const k_unused[] = {
    "acllog-max-len", "activerehashing", "always-show-logo", "aof-rewrite-incremental-fsync",
    "aof-use-rdb-preamble", "auto-aof-rewrite-min-size", "auto-aof-rewrite-percentage",
    "dbfilename", "disable-thp", "dynamic-hz", "hash-max-listpack-entries",
    "hash-max-listpack-value", "hll-sparse-max-bytes", "hz", "io-threads", "jemalloc-bg-thread",
    "latency-monitor-threshold", "lazyfree-lazy-eviction", "lazyfree-lazy-expire",
    "lazyfree-lazy-server-del", "lazyfree-lazy-user-del", "lazyfree-lazy-user-flush",
    "list-compress-depth", "list-max-listpack-size", "loglevel", "no-appendfsync-on-rewrite",
    "oom-score-adj", "oom-score-adj-values", "pidfile", "proc-title-template", "protected-mode",
    "rdb-del-sync-files", "rdb-save-incremental-fsync", "rdbchecksum", "rdbcompression",
    "repl-disable-tcp-nodelay", "repl-diskless-load", "repl-diskless-sync",
    "repl-diskless-sync-delay", "repl-diskless-sync-max-replicas", "replica-lazy-flush",
    "replica-priority", "replica-read-only", "replica-serve-stale-data",
    "set-max-intset-entries", "set-proc-title", "slowlog-log-slower-than", "slowlog-max-len",
    "stop-writes-on-bgsave-error", "stream-node-max-bytes", "stream-node-max-entries",
    "tcp-backlog", "tcp-keepalive", "zset-max-listpack-entries", "zset-max-listpack-value",
};
// clang-format on

// All names of settings have numbers: those above, in this order, then those of config.c.
enum {
    k_first_fixed = sizeof(k_variables) / sizeof(k_variables[0]),
    k_first_unused = k_first_fixed + sizeof(k_fixed) / sizeof(k_fixed[0]),
    k_first_of_config = k_first_unused + sizeof(k_unused) / sizeof(k_unused[0]),
};

// What is read of a file, or of the command line.
struct source {
    const char *file; // NULL for the command line
    int line;
    const bool *kept;  // which of the variables stay as they are
    bool *closed;      // clients of other machines are not to be served
    struct buf unused; // names that were passed over, with commas between them
};

static const char k_words[] = "command line";

// ---- what is wrong ----

// Ends the program: something is wrong with the setting that has this name there.
__attribute__((noreturn)) static void wrong(const struct source *from, const char *name,
                                            const char *why) {
    if (from->file) {
        msg("%s, line %d: '%s': %s", from->file, from->line, name, why);
    } else {
        msg("%s: '%s': %s", k_words, name, why);
    }
    exit(1);
}

// Returns how many letters have to be put in, taken out or replaced to make one name of the other.
// row[j] is that for the letters of `a` so far and the first j of `b`. Cost: O(letters of one x
// letters of the other).
static size_t distance(const char *a, const char *b) {
    size_t row[k_max_compared + 1], n = strlen(b);
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= n; j++) {
            size_t replaced = diagonal + (tolower((unsigned char)a[i]) != b[j - 1]);
            size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < other ? replaced : other;
        }
    }
    return row[n];
}

// Returns the name of the setting with this number, NULL behind the last.
static const char *name_at(size_t i) {
    return i < k_first_fixed       ? k_variables[i].name
           : i < k_first_unused    ? k_fixed[i - k_first_fixed].name
           : i < k_first_of_config ? k_unused[i - k_first_unused]
                                   : config_name(i - k_first_of_config);
}

// Ends the program: there is no such setting. The nearest one is said where it may be meant: where no
// more than a third of the letters differ, and one.
__attribute__((noreturn)) static void unknown(const struct source *from, const char *name) {
    const char *nearest = NULL, *other;
    size_t best = strlen(name) / 3 + 2;
    for (size_t i = 0; strlen(name) <= k_max_compared && (other = name_at(i)); i++) {
        size_t differ = distance(name, other);
        if (differ < best) {
            best = differ;
            nearest = other;
        }
    }
    char why[k_max_compared * 2] = "no such setting";
    if (nearest) {
        snprintf(why, sizeof(why), "no such setting; nearest: %s", nearest);
    }
    wrong(from, name, why);
}

// ---- one setting ----

static const char *check_port(const struct slice *value) {
    int64_t port;
    if (!parse_int(value, &port)) {
        return "argument couldn't be parsed into an integer";
    }
    return port < 0 || port > 65535 ? "argument must be between 0 and 65535 inclusive" : NULL;
}

static const char *check_dir(const char *value) {
    int fd = open(value, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return strerror(errno);
    }
    close(fd);
    return NULL;
}

// Sets *address to the one that we listen on. Those that begin with - may lack: we have none of
// them.
static const char *find_address(const struct slice *words, size_t n, const char **address) {
    struct in_addr ip;
    *address = NULL;
    for (size_t i = 0; i < n; i++) {
        const char *word = (const char *)words[i].data;
        if (*word == '-') {
            continue;
        }
        if (*address) {
            return "there can be one address only, but for those that begin with -";
        }
        *address = strcmp(word, "*") == 0 ? "0.0.0.0" : word;
        if (inet_pton(AF_INET, *address, &ip) != 1) {
            return "not an IPv4 address such as 127.0.0.1";
        }
    }
    return *address ? NULL : "an IPv4 address such as 127.0.0.1 is missing";
}

// Puts a setting into its variable. Returns why it cannot, in `text` or elsewhere, NULL if it can.
static const char *set_variable(const struct source *from, size_t i, const struct slice *words,
                                size_t n, char text[k_max_value]) {
    const char *name = k_variables[i].name, *value = (const char *)words[1].data, *why;
    if (strcmp(name, "bind") == 0) {
        why = find_address(words + 1, n - 1, &value);
    } else if (strcmp(name, "dir") == 0) {
        why = check_dir(value);
    } else if (strcmp(name, "port") == 0) {
        why = check_port(&words[1]);
    } else {
        why = config_start(&words[0], &words[1], true, text);
    }
    if (why || from->kept[i]) {
        return why;
    }
    if (strcmp(name, "timeout") == 0) { // its variable has milliseconds, and was read before
        return config_start(&words[0], &words[1], false, text);
    }
    if (setenv(k_variables[i].variable, value, 1) < 0) {
        die("setenv");
    }
    return NULL;
}

// Returns the words with blanks between them. The caller frees it.
static char *join(const struct slice *words, size_t n) {
    size_t size = 1, len = 0;
    for (size_t i = 0; i < n; i++) {
        size += words[i].len + 1;
    }
    char *text = mem_alloc(size);
    for (size_t i = 0; i < n; i++) {
        len += (size_t)snprintf(
            text + len, size - len, "%s%s", i > 0 ? " " : "", (const char *)words[i].data);
    }
    return text;
}

static bool takes_many(const char *name) {
    return strcasecmp(name, "bind") == 0 || strcasecmp(name, "save") == 0 ||
           strcasecmp(name, "client-output-buffer-limit") == 0;
}

// Sets what the words say: a name, and its value or values. Ends the program where that is wrong.
static void set(struct source *from, const struct slice *words, size_t n) {
    const char *name = (const char *)words[0].data, *why = NULL, *other;
    char text[k_max_value];
    size_t i = 0;
    while ((other = name_at(i)) && strcasecmp(name, other) != 0) {
        i++;
    }
    if (!other) {
        unknown(from, name);
    }
    if (strcmp(other, "protected-mode") == 0) {
        *from->closed = n > 1 && is_word(&words[1], "yes");
        return;
    }
    if (i >= k_first_unused && i < k_first_of_config) {
        add_text(&from->unused, "%s%s", buf_size(&from->unused) > 0 ? ", " : "", other);
        return;
    }
    if (n < 2 || (n > 2 && !takes_many(name))) {
        wrong(from, name, "wrong number of arguments");
    }
    char *all = join(words + 1, n - 1);
    if (i < k_first_fixed) {
        why = set_variable(from, i, words, n, text);
    } else if (i < k_first_unused) {
        const char *value = k_fixed[i - k_first_fixed].value;
        snprintf(text, sizeof(text), "it has to be %s here", *value ? value : "\"\"");
        why = strcasecmp(all, value) == 0 ? NULL : text;
    } else {
        struct slice value = {(const uint8_t *)all, strlen(all)};
        why = config_start(&words[0], &value, false, text);
    }
    if (why) {
        wrong(from, name, why);
    }
    free(all);
}

// ---- all of them ----

// file = line*     line = words as a client's line has them | blanks? "#" any | nothing
static void read_file(struct source *from) {
    FILE *file = fopen(from->file, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    if (!file) {
        die("%s", from->file);
    }
    while ((len = getline(&line, &room, file)) >= 0) {
        struct resp_args words = {.words = mem_alloc((size_t)len + 1)};
        from->line++;
        size_t blanks = strspn(line, " \t\r\n");
        if (line[blanks] != '#' && !resp_split((uint8_t *)line, (size_t)len, words.words, &words)) {
            wrong(from, "\"", "a quote is not closed, or something follows the one that closes");
        }
        if (words.n > 0) {
            set(from, words.items, words.n);
        }
        resp_args_dispose(&words);
    }
    if (ferror(file)) {
        die("%s", from->file);
    }
    free(line);
    fclose(file);
}

// words = ("--" name, value*)*
static void read_words(struct source *from, int argc, char **argv) {
    struct resp_args words = {0};
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i] + (strncmp(argv[i], "--", 2) == 0 ? 2 : 0);
        resp_args_add(&words, (const uint8_t *)word, strlen(word));
        if (i + 1 == argc || strncmp(argv[i + 1], "--", 2) == 0) {
            set(from, words.items, words.n);
            words.n = 0;
        }
    }
    resp_args_dispose(&words);
}

static void say_unused(struct source *from) {
    if (buf_size(&from->unused) > 0) {
        msg("%s: passed over, since nothing here goes by it: %.*s",
            from->file ? from->file : k_words,
            (int)buf_size(&from->unused),
            (const char *)buf_data(&from->unused));
    }
    buf_dispose(&from->unused);
}

// Ends the program where clients of other machines would be served, and are not to be.
static void check_closed(bool closed) {
    const char *address = getenv("BIND");
    if (closed && address && *address && strncmp(address, "127.", 4) != 0) {
        msg("protected-mode yes: whoever reaches %s would be served: bind 127.0.0.1, or have it no",
            address);
        exit(1);
    }
}

static void help(const char *program) {
    printf(
        "usage: %s [FILE] [--NAME VALUE]...    settings of redis.conf, in FILE or here\n"
        "variables, which go before FILE: PORT BIND IDLE_TIMEOUT_MS APPENDONLY APPENDFSYNC DIR\n",
        program);
    flush_stdout();
}

// Reads the settings in the file and in the words that the program was started with. To be called
// behind idle_start(), and before any other part is started. Ends the program where they are wrong,
// and where they ask for help.
void settings_start(int argc, char **argv) {
    bool kept[k_first_fixed], none[k_first_fixed] = {false}, closed = false;
    struct source file = {.kept = kept, .closed = &closed},
                  words = {.kept = none, .closed = &closed};
    int first = 1;
    if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        help(argv[0]);
        exit(0);
    }
    for (size_t i = 0; i < k_first_fixed; i++) {
        const char *value = getenv(k_variables[i].variable);
        kept[i] = value && *value;
    }
    if (argc > 1 && argv[1][0] != '-') {
        file.file = argv[first++];
        read_file(&file);
    }
    if (argc > first && strncmp(argv[first], "--", 2) != 0) {
        msg("%s: neither a file in front nor --NAME VALUE: %s --help", argv[first], argv[0]);
        exit(1);
    }
    read_words(&words, argc - first, argv + first);
    check_closed(closed);
    say_unused(&file);
    say_unused(&words);
}
