// info.c: what the server says of itself
//
// Owns the count of commands, and knows when the server was started. All other numbers belong to
// other files.

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "buf.h"
#include "clock.h"
#include "hashtable.h"
#include "intrusive.h"
#include "reply.h"

#include "server.h"

static int64_t start_ms; // when the server was started
static size_t commands;  // that were answered, since then or since the counters were reset

// Notes that the server starts now.
void info_start(void) {
    start_ms = get_monotonic_msec();
}

// Counts a command that is answered.
void count_command(void) {
    commands++;
}

// Appends formatted text.
__attribute__((format(printf, 2, 3))) void add_text(struct buf *text, const char *fmt, ...) {
    char line[512];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    size_t n = (size_t)len < sizeof(line) ? (size_t)len : sizeof(line) - 1;
    memcpy(buf_reserve(text, n), line, n);
    buf_commit(text, n);
}

void do_config_resetstat(struct request *req, struct reply *out) {
    (void)req;
    commands = 0;
    reset_accepted();
    db_reset_counts();
    cycle_reset_counts();
    reply_status(out, "OK");
}

static void info_server(struct buf *text) {
    add_text(text,
             "redis_version:%s\r\nredis_mode:standalone\r\nos:Linux\r\narch_bits:%zu\r\n",
             k_version,
             sizeof(void *) * 8);
    add_text(text,
             "process_id:%d\r\nuptime_in_seconds:%lld\r\n",
             (int)getpid(),
             (long long)(get_monotonic_msec() - start_ms) / 1000);
}

// Cost: O(connections) while there is a pause, since those that it holds are counted; else O(1).
static void info_clients(struct buf *text) {
    const struct dlist *list = all_conns(), *cur = pause_deadline() < INT64_MAX ? list->next : list;
    size_t held = 0;
    for (; cur != list; cur = cur->next) {
        held += container_of(cur, struct conn, idle_node)->paused;
    }
    add_text(text, "connected_clients:%zu\r\nblocked_clients:%zu\r\n", conns_count(), held);
}

// In /proc/self/statm the second number is how many pages are in memory, the third how many of them are
// those of files: the program, libraries. The others hold what was allocated, and what was freed and is
// not given back yet: how much that is, mallinfo2() could tell, but it looks at every free block.
static void info_memory(struct buf *text) {
    long pages = 0, of_files = 0, page_size = sysconf(_SC_PAGESIZE);
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm) {
        if (fscanf(statm, "%*s %ld %ld", &pages, &of_files) != 2) {
            pages = of_files = 0;
        }
        fclose(statm);
    }
    long used = (pages - of_files) * page_size;
    add_text(
        text, "used_memory:%ld\r\nused_memory_human:%.2fM\r\n", used, (double)used / (1 << 20));
    add_text(text,
             "used_memory_rss:%ld\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n",
             pages * page_size);
}

// There is nothing to load and nothing is saved: how much has changed is all that there is to say.
static void info_persistence(struct buf *text) {
    add_text(text, "loading:0\r\nrdb_changes_since_last_save:%zu\r\n", db_changes());
}

static void info_stats(struct buf *text) {
    struct lookups lookups = get_lookups();
    add_text(text,
             "total_connections_received:%zu\r\ntotal_commands_processed:%zu\r\n",
             num_accepted(),
             commands);
    add_text(text,
             "expired_keys:%zu\r\nexpired_stale_perc:%.2f\r\n"
             "expired_time_cap_reached_count:%zu\r\n",
             num_expired(),
             stale_percent(),
             slices_cut_short());
    add_text(text, "keyspace_hits:%zu\r\nkeyspace_misses:%zu\r\n", lookups.hits, lookups.misses);
    add_text(text,
             "pubsub_channels:%zu\r\npubsub_patterns:%zu\r\n",
             num_topics(CHANNEL),
             num_topics(PATTERN));
}

static void info_replication(struct buf *text) {
    add_text(text, "role:master\r\nconnected_slaves:0\r\n");
}

static void info_cluster(struct buf *text) {
    add_text(text, "cluster_enabled:0\r\n");
}

static void info_keyspace(struct buf *text) {
    for (int i = 0; i < k_databases; i++) {
        const struct db *db = db_at(i);
        if (hm_size(&db->keys) > 0) {
            add_text(text,
                     "db%d:keys=%zu,expires=%zu,avg_ttl=%lld\r\n",
                     i,
                     hm_size(&db->keys),
                     hm_size(&db->expires),
                     (long long)db->avg_ttl_ms);
        }
    }
}

static const struct section {
    const char *name, *title;
    void (*f)(struct buf *text);
} k_sections[] = {
    {"server", "Server", info_server},
    {"clients", "Clients", info_clients},
    {"memory", "Memory", info_memory},
    {"persistence", "Persistence", info_persistence},
    {"stats", "Stats", info_stats},
    {"replication", "Replication", info_replication},
    {"cluster", "Cluster", info_cluster},
    {"keyspace", "Keyspace", info_keyspace},
};

// Tells whether `info` with these arguments is to show the section.
static bool wants_section(const struct request *req, const char *name) {
    bool wanted = req->nargs == 1;
    for (int i = 1; i < req->nargs && !wanted; i++) {
        const struct slice *arg = &req->args[i];
        wanted = is_word(arg, name) || is_word(arg, "default") || is_word(arg, "all") ||
                 is_word(arg, "everything");
    }
    return wanted;
}

// info [section]...
void do_info(struct request *req, struct reply *out) {
    struct buf text = {0};
    for (size_t i = 0; i < sizeof(k_sections) / sizeof(k_sections[0]); i++) {
        const struct section *section = &k_sections[i];
        if (wants_section(req, section->name)) {
            add_text(&text, "%s# %s\r\n", buf_size(&text) > 0 ? "\r\n" : "", section->title);
            section->f(&text);
        }
    }
    reply_text(out, buf_size(&text) > 0 ? (const char *)buf_data(&text) : "", buf_size(&text));
    buf_dispose(&text);
}

// time: seconds and microseconds since the beginning of 1970
void do_time(struct request *req, struct reply *out) {
    struct timespec now;
    char text[32];
    (void)req;
    clock_gettime(CLOCK_REALTIME, &now);
    reply_arr(out, 2);
    snprintf(text, sizeof(text), "%lld", (long long)now.tv_sec);
    reply_cstr(out, text);
    snprintf(text, sizeof(text), "%ld", now.tv_nsec / 1000);
    reply_cstr(out, text);
}
