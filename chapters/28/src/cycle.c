// cycle.c: deletes keys for which nobody asks
//
// Keys that no client asks for would stay for ever. So a cycle goes through the tables of deadlines,
// some keys a step, and deletes those that it finds stale. It need not find all: it goes on to the next
// database as soon as few of those that it sees are. And it never takes long: a slice of time ends,
// whether or not there is more to do, and the next one waits until the slices have taken no more than
// their share. What takes long to free, a worker frees. (Redis, activeExpireCycle(); there a slice is a
// quarter of 100 ms.)
//
// Owns where the cycle is, its effort, and the counts of what it has seen.

#include "clock.h"
#include "clock_usec.h"
#include "clock_wall.h"
#include "hashtable.h"
#include "hashtable_cursor.h"
#include "intrusive.h"
#include "mem_tidy.h"

#include "server.h"

enum {
    k_cycle_ms = 100,     // between two slices of the cycle while few keys are stale
    k_busy_cycle_ms = 1,  // while many are
    k_cycle_percent = 25, // at effort 1, of the server's time, that it takes then at most
    k_step_keys = 20,     // at effort 1, keys that it checks between two looks at the clock
    k_step_buckets = 400, // buckets that it searches for them
    k_stale_percent = 10, // at effort 1, a database with fewer stale deadlines is left alone
};

// The cycle that deletes keys for which nobody asks.
static struct {
    int64_t effort; // 1 to 10
    int next_db;
    int64_t start_ms;        // of the last slice; later, if that took longer than it should
    int64_t late_us;         // what it is to be later by, below a millisecond
    bool more;               // it had more to do
    double stale_percent;    // of the keys with a deadline, as they were found of late
    size_t slices_cut_short; // that had more to do
} cycle = {.effort = 1};

// Returns the effort that the cycle makes, from 1 to 10.
int64_t get_effort(void) {
    return cycle.effort;
}

// Has the cycle make that effort.
void set_effort(int64_t effort) {
    cycle.effort = effort;
}

// Returns how many keys with a deadline are stale, in percent, as they were found of late.
double stale_percent(void) {
    return cycle.stale_percent;
}

// Returns how many slices had more to do.
size_t slices_cut_short(void) {
    return cycle.slices_cut_short;
}

// Counts from 0 again.
void cycle_reset_counts(void) {
    cycle.stale_percent = 0;
    cycle.slices_cut_short = 0;
}

// Returns `per_level` for each level of effort above 1.
static int64_t extra_effort(int64_t per_level) {
    return (cycle.effort - 1) * per_level;
}

// Returns above which share of stale keys, in percent, there is more to do.
static int64_t max_stale_percent(void) {
    return k_stale_percent - extra_effort(1);
}

// The keys of a step, and what all steps in a database have seen.
struct sample {
    struct deadline *items[k_max_sample];
    size_t n;
};

struct visit {
    size_t seen, stale;
};

static void sample_one(struct hnode *node, void *arg) {
    struct sample *sample = arg;
    if (sample->n < k_max_sample) {
        sample->items[sample->n++] = container_of(node, struct deadline, node);
    }
}

// Looks at the next few keys that have a deadline, and deletes those that are stale.
static void cycle_step(struct db *db, struct visit *visit) {
    struct sample sample = {0};
    size_t max = (size_t)(k_step_keys + extra_effort(k_step_keys / 4));
    int buckets = 0;
    do {
        db->cursor = hm_scan_step(&db->expires, db->cursor, sample_one, &sample);
        buckets++;
    } while (db->cursor != 0 && sample.n < max && buckets < k_step_buckets);
    for (int i = 0; i < buckets; i++) {
        hm_help_resizing(&db->expires); // the tables must shrink even if no command uses them
        hm_help_resizing(&db->keys);
    }
    size_t alive = 0;
    double ttls_ms = 0; // a sum that may be beyond 64 bits
    for (size_t i = 0; i < sample.n; i++) {
        int64_t ttl_ms = sample.items[i]->at_ms - get_now();
        if (ttl_ms < 0) {
            entry_delete(db, sample.items[i]->ent, EVENT_EXPIRED);
        } else {
            ttls_ms += (double)ttl_ms;
            alive++;
        }
    }
    if (alive > 0) {
        int64_t avg_ms = (int64_t)(ttls_ms / (double)alive);
        db->avg_ttl_ms = db->avg_ttl_ms ? db->avg_ttl_ms / 50 * 49 + avg_ms / 50 : avg_ms;
    }
    mem_tidy(); // else the next client waits while all that was freed is put in order
    visit->seen += sample.n;
    visit->stale += sample.n - alive;
}

// Lets the cycle work until it has been through all databases, or its slice of time is over. The next
// one begins with the next database, wherever this one ends.
void run_cycle(void) {
    int64_t percent = k_cycle_percent + extra_effort(2);
    int64_t end_us = get_monotonic_usec() + k_busy_cycle_ms * 1000 * percent / 100;
    struct visit all = {0};
    bool in_time = true;
    cycle.start_ms = get_monotonic_msec();
    set_now(get_wall_msec());
    turn_begin(false);
    turn_add(k_turn_work + 1); // as if the turn were over: workers free all that takes long
    for (int i = 0; i < k_databases && in_time; i++) {
        struct db *db = db_at(cycle.next_db);
        struct visit visit = {0};
        cycle.next_db = (cycle.next_db + 1) % k_databases;
        do {
            cycle_step(db, &visit);
            in_time = get_monotonic_usec() < end_us;
        } while (in_time && db->cursor != 0 &&
                 visit.stale * 100 > visit.seen * (size_t)max_stale_percent());
        all.seen += visit.seen;
        all.stale += visit.stale;
    }
    double percent_now = all.seen > 0 ? 100.0 * (double)all.stale / (double)all.seen : 0;
    cycle.stale_percent = 0.05 * percent_now + 0.95 * cycle.stale_percent;
    cycle.more = !in_time || cycle.stale_percent > (double)max_stale_percent() / 2;
    // A step is never cut short. If it took longer than the slice, the next slice begins later.
    int64_t over_us = get_monotonic_usec() - end_us;
    cycle.late_us += over_us > 0 ? over_us * 100 / percent : 0;
    cycle.start_ms += cycle.late_us / 1000;
    cycle.late_us %= 1000;
    cycle.slices_cut_short += !in_time;
}

// Returns when the cycle is to have its next slice, of the monotonic clock: INT64_MAX for never, where
// no key has a deadline.
int64_t next_slice_ms(void) {
    if (num_deadlines() == 0 || aof_is_loading()) {
        return INT64_MAX;
    }
    return cycle.start_ms + (cycle.more ? k_busy_cycle_ms - 1 : k_cycle_ms - 1);
}
