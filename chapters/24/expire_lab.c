// expire_lab.c, chapter 24: three ways to delete what has expired
//
//   ./expire_lab [KEYS [EFFORT]]      50000 keys and an effort of 1 where it is not said
//
//   heap    chapter 13: all deadlines are in a heap, and a key goes in the millisecond in which it is due
//   lazy    a key that has expired goes when it is asked for; until then it stays
//   cycle   chapter 24: lazy, and a cycle that looks at a few keys at a time, and goes on for as long as
//           it finds many that have expired
//
// Tables and heap are those of the server; the time is not. The clock of the lab goes on by a millisecond
// when the work of that millisecond is done, so half a minute takes a moment and comes out the same every
// time. By that clock, to look at a key takes 100 ns, and to delete one 500 more.
//
// A row says how many keys are in memory, in percent of KEYS; how many of them are dead, on average from
// 20 s on; how long after their deadlines half of the keys, 99 % and all are gone; how many keys were looked
// at for each that was deleted unasked; what a TTL takes in memory; and, by a real clock, what it takes to
// set a key, to ask for one, and what the server has done for each that was set of its own accord.
//
// The cycle has the figures of Redis 7.0 (expire.c): 20 keys a step; no further step where no more than a
// tenth had expired; a quarter of the time at most; effort 2 to 10 looks at more keys a step, leaves less,
// and may take more of the time. Redis goes by the last step alone, in slices of 25 ms; our server by all
// steps of a slice, in slices of a quarter of a millisecond.

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base.h"
#include "hashtable.h"
#include "hashtable_cursor.h"
#include "heap.h"
#include "intrusive.h"
#include "mem.h"

enum {
    k_run_ms = 30000,
    k_ttl_ms = 10000,
    k_look_ms = 6000,    // from one look at the memory to the next
    k_steady_ms = 20000, // from here on, as many keys expire as are set
    k_asked = 10,        // one key in so many is asked for
    k_asks = 3,          // for every key that is set

    // Work, in units of 100 ns.
    k_work_a_ms = 10000,
    k_see = 1,
    k_delete = 5,

    k_cycle_ms = 100,     // between two slices of the cycle while few keys are stale
    k_busy_cycle_ms = 1,  // while many are
    k_cycle_percent = 25, // of the time that it takes then at most
    k_step_keys = 20,
    k_step_buckets = 400, // in which a step looks for them
    k_max_sample = 512,   // stale keys that a step takes note of
    k_stale_percent = 10, // that the cycle leaves alone
};

enum strategy { HEAP, LAZY, CYCLE, NUM_STRATEGIES };
static const char *const k_strategies[] = {"heap", "lazy", "cycle"};

enum pattern {
    AT_ONCE,   // all keys come in the first millisecond; each TTL is 10 s
    EQUAL,     // from here on keys come evenly, as many in 10 s; each TTL is 10 s
    UNIFORM,   // 0 to 20 s
    LONG_TAIL, // 16 ms to 32 s: half are below 32 ms, half of the others below 64, and so on
    RENEWED,   // 10 s from the last time that the key was asked for
    NUM_PATTERNS,
};
static const char *const k_patterns[] = {"at once", "equal", "uniform", "long tail", "renewed"};

struct key {
    struct hnode node;
    uint64_t id;
    union {
        uint32_t heap_idx;   // HEAP
        int64_t deadline_ms; // LAZY
    };
};

// What the table of deadlines holds, with CYCLE.
struct deadline {
    struct hnode node;
    struct key *key;
    int64_t at_ms;
};

// A run. Zeroed is its beginning.
static struct {
    enum strategy strategy;
    enum pattern pattern;
    uint64_t n; // keys that are set in 10 s
    int effort;
    uint64_t random;
    int64_t now_ms;
    uint64_t num_set; // keys so far; the number of the next

    struct hmap keys;
    struct heap heap;     // HEAP
    struct hmap expires;  // CYCLE
    uint64_t cursor;      // in `expires`
    int64_t next_ms;      // when the next slice is due
    double stale_percent; // that slices saw of late

    uint32_t due[k_run_ms + 1];  // keys in memory by their deadlines
    uint32_t late[k_run_ms + 1]; // keys that were deleted by how long after their deadlines
    size_t dead;                 // keys in memory that have expired
    size_t expired;              // keys that have expired before k_steady_ms: those of `late`
    uint64_t seen, deleted;      // without being asked for
    double dead_sum, sum;        // since k_steady_ms: dead keys, and all in memory
    uint64_t num_asks;
    int64_t set_ns, ask_ns, own_ns;
} lab;

// Returns the next number of a sequence that looks random (Marsaglia, "Xorshift RNGs", 2003).
static uint64_t next_random(void) {
    lab.random ^= lab.random << 13;
    lab.random ^= lab.random >> 7;
    lab.random ^= lab.random << 17;
    return lab.random;
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
}

// ---- keys and their deadlines ----

// Returns a key to look up. The hash is the end of splitmix64 (Steele, Lea and Flood, 2014).
static struct key key_number(uint64_t id) {
    uint64_t hash = (id + 1) * 0x9e3779b97f4a7c15;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
    return (struct key){.node.hcode = (uint32_t)(hash >> 32), .id = id};
}

static bool key_eq(const struct hnode *node, const struct hnode *key) {
    return container_of(node, struct key, node)->id == container_of(key, struct key, node)->id;
}

static bool deadline_eq(const struct hnode *node, const struct hnode *key) {
    return container_of(node, struct deadline, node)->key ==
           container_of(key, struct deadline, node)->key;
}

// Returns where the deadline of a key is kept.
static int64_t *deadline_of(struct key *key) {
    if (lab.strategy == HEAP) {
        return &lab.heap.items[key->heap_idx].val;
    }
    if (lab.strategy == LAZY) {
        return &key->deadline_ms;
    }
    struct deadline wanted = {.node.hcode = key->node.hcode, .key = key};
    struct hnode **link = hm_lookup(&lab.expires, &wanted.node, deadline_eq);
    return &container_of(*link, struct deadline, node)->at_ms;
}

// Returns how many keys in memory have that deadline. After the run it does not matter any more which.
static uint32_t *num_due(int64_t at_ms) {
    return &lab.due[at_ms < k_run_ms ? at_ms : k_run_ms];
}

static int64_t random_ttl_ms(void) {
    uint64_t power = 16u << next_random() % 11;
    if (lab.pattern == UNIFORM) {
        return 1 + (int64_t)(next_random() % (2 * k_ttl_ms));
    }
    return lab.pattern == LONG_TAIL ? (int64_t)(power + next_random() % power) : k_ttl_ms;
}

static void set_key(void) {
    struct key *key = mem_alloc(sizeof(*key));
    *key = key_number(lab.num_set++);
    hm_insert(&lab.keys, &key->node);
    int64_t at_ms = lab.now_ms + random_ttl_ms();
    ++*num_due(at_ms);
    if (lab.strategy == HEAP) {
        key->heap_idx = k_heap_none;
        heap_upsert(&lab.heap, &key->heap_idx, at_ms);
    } else if (lab.strategy == LAZY) {
        key->deadline_ms = at_ms;
    } else {
        struct deadline *deadline = mem_alloc(sizeof(*deadline));
        *deadline = (struct deadline){{.hcode = key->node.hcode}, key, at_ms};
        hm_insert(&lab.expires, &deadline->node);
    }
}

static void renew_key(struct key *key) {
    --*num_due(*deadline_of(key));
    int64_t at_ms = lab.now_ms + k_ttl_ms;
    ++*num_due(at_ms);
    if (lab.strategy == HEAP) {
        heap_upsert(&lab.heap, &key->heap_idx, at_ms);
    } else {
        *deadline_of(key) = at_ms;
    }
}

// Deletes a key that expired at `at_ms`.
static void delete_key(struct key *key, int64_t at_ms) {
    lab.late[lab.now_ms - at_ms] += at_ms < k_steady_ms;
    lab.dead--;
    if (lab.strategy == HEAP) {
        heap_delete(&lab.heap, key->heap_idx);
    } else if (lab.strategy == CYCLE) {
        struct deadline wanted = {.node.hcode = key->node.hcode, .key = key};
        struct hnode *node = hm_pop(&lab.expires, &wanted.node, deadline_eq);
        free(container_of(node, struct deadline, node));
        hm_shrink(&lab.expires);
    }
    hm_pop(&lab.keys, &key->node, hnode_same);
    hm_shrink(&lab.keys);
    free(key);
}

// Asks for one of the last n keys, where that is one of those that are asked for. With RENEWED, all are.
static void ask_key(void) {
    uint64_t back = next_random() % lab.n, asked = lab.pattern == RENEWED ? 1 : k_asked;
    if (back >= lab.num_set) {
        return;
    }
    struct key wanted = key_number((lab.num_set - 1 - back) / asked * asked);
    struct hnode **link = hm_lookup(&lab.keys, &wanted.node, key_eq);
    struct key *key = link ? container_of(*link, struct key, node) : NULL;
    if (key && *deadline_of(key) <= lab.now_ms) {
        delete_key(key, *deadline_of(key));
    } else if (key && lab.pattern == RENEWED) {
        renew_key(key);
    }
}

// ---- what goes without being asked for ----

static void delete_due(void) {
    for (int work = 0; work < k_work_a_ms && lab.heap.len > 0; work += k_see + k_delete) {
        struct heap_item first = lab.heap.items[0];
        lab.seen++;
        if (first.val > lab.now_ms) {
            break;
        }
        delete_key(container_of(first.ref, struct key, heap_idx), first.val);
        lab.deleted++;
    }
}

// What a step finds, and what all steps of a slice have found.
struct visit {
    struct deadline *found[k_max_sample]; // by this step: those that are stale
    int num_found;
    int seen, stale, work;
};

// Called for each deadline of a step. The table is being walked, so keys are deleted later.
static void look_at(struct hnode *node, void *arg) {
    struct visit *visit = arg;
    struct deadline *deadline = container_of(node, struct deadline, node);
    visit->seen++;
    if (deadline->at_ms <= lab.now_ms && visit->num_found < k_max_sample) {
        visit->found[visit->num_found++] = deadline;
    }
}

// Looks at some keys, and deletes those that have expired.
static void cycle_step(struct visit *visit) {
    int before = visit->seen, buckets = 0;
    int enough = before + k_step_keys + k_step_keys / 4 * (lab.effort - 1);
    visit->num_found = 0;
    do {
        lab.cursor = hm_scan_step(&lab.expires, lab.cursor, look_at, visit);
    } while (lab.cursor != 0 && visit->seen < enough && ++buckets < k_step_buckets);
    for (int i = 0; i < visit->num_found; i++) {
        delete_key(visit->found[i]->key, visit->found[i]->at_ms);
    }
    visit->stale += visit->num_found;
    visit->work += (visit->seen - before) * k_see + visit->num_found * k_delete;
}

// Lets the cycle have a slice, where it is time for one. It ends where few keys are stale, where it has
// been round, or when its time is up. Then, or where more than half as many as are acceptable were stale of
// late, the next one comes soon: else the share would wander about what is acceptable.
static void cycle(void) {
    if (lab.now_ms < lab.next_ms) {
        return;
    }
    struct visit visit = {.seen = 0};
    int effort = lab.effort - 1, acceptable = k_stale_percent - effort;
    int enough = k_work_a_ms * k_busy_cycle_ms * (k_cycle_percent + 2 * effort) / 100;
    do {
        cycle_step(&visit);
    } while (lab.cursor != 0 && visit.work < enough && visit.stale * 100 > visit.seen * acceptable);
    lab.seen += (uint64_t)visit.seen;
    lab.deleted += (uint64_t)visit.stale;
    double percent = visit.seen > 0 ? 100.0 * visit.stale / visit.seen : 0;
    lab.stale_percent = 0.95 * lab.stale_percent + 0.05 * percent;
    bool more = visit.work >= enough || lab.stale_percent > acceptable / 2.0;
    lab.next_ms = lab.now_ms + (more ? k_busy_cycle_ms : k_cycle_ms);
}

// ---- a run ----

// A millisecond: keys are set, keys are asked for, keys are deleted.
static void tick(void) {
    uint64_t now = (uint64_t)lab.now_ms;
    lab.dead += lab.due[now];
    lab.expired += now < k_steady_ms ? lab.due[now] : 0;
    uint64_t num_new = lab.n * (now + 1) / k_ttl_ms - lab.n * now / k_ttl_ms;
    uint64_t num_asks = k_asks * num_new;
    if (lab.pattern == AT_ONCE) {
        num_new = now == 0 ? lab.n : 0;
    }
    int64_t begin_ns = now_ns();
    while (num_new-- > 0) {
        set_key();
    }
    int64_t set_ns = now_ns();
    lab.num_asks += num_asks;
    while (num_asks-- > 0) {
        ask_key();
    }
    int64_t asked_ns = now_ns();
    if (lab.strategy == HEAP) {
        delete_due();
    } else if (lab.strategy == CYCLE) {
        cycle();
    }
    lab.set_ns += set_ns - begin_ns;
    lab.ask_ns += asked_ns - set_ns;
    lab.own_ns += now_ns() - asked_ns;
    if (now >= k_steady_ms) {
        lab.dead_sum += (double)lab.dead;
        lab.sum += (double)hm_size(&lab.keys);
    }
}

// Returns how many bytes the TTLs of all keys take, beside the keys.
static size_t ttl_bytes(void) {
    size_t n = hm_size(&lab.keys), buckets = hm_scan_cost(&lab.expires) - hm_size(&lab.expires);
    switch (lab.strategy) {
    case HEAP: // the array, with room for more, and in the key its place there
        return lab.heap.cap * sizeof(struct heap_item) + n * sizeof(uint32_t);
    case LAZY:
        return n * sizeof(int64_t);
    default: // malloc() adds 8, and gives multiples of 16
        return n * ((sizeof(struct deadline) + 8 + 15) / 16 * 16) +
               buckets * sizeof(struct hnode *);
    }
}

// Prints after how many milliseconds `percent` of the keys that had expired were gone.
static void print_late(size_t percent) {
    size_t gone = 0;
    for (int ms = 0; ms < k_run_ms; ms++) {
        gone += lab.late[ms];
        if (gone * 100 >= lab.expired * percent) {
            printf(" %5d", ms);
            return;
        }
    }
    printf(" never");
}

static bool free_key(struct hnode *node, void *arg) {
    (void)arg;
    free(container_of(node, struct key, node));
    return true;
}

static bool free_deadline(struct hnode *node, void *arg) {
    (void)arg;
    free(container_of(node, struct deadline, node));
    return true;
}

// Runs the lab from its beginning to its end, and prints a row.
static void run(void) {
    double bytes = 0;
    printf("%-9s %-5s", k_patterns[lab.pattern], k_strategies[lab.strategy]);
    for (; lab.now_ms < k_run_ms; lab.now_ms++) {
        tick();
        if ((lab.now_ms + 1) % k_look_ms == 0) {
            printf(" %3.0f", 100.0 * (double)hm_size(&lab.keys) / (double)lab.n);
            fflush(stdout);
        }
        if (lab.now_ms == k_ttl_ms / 2) {
            bytes = (double)ttl_bytes() / (double)hm_size(&lab.keys);
        }
    }
    printf(lab.sum > 0 ? " %5.1f" : "     -", 100 * lab.dead_sum / lab.sum);
    print_late(50);
    print_late(99);
    print_late(100);
    printf(lab.seen > 0 ? " %4.1f" : "    -", (double)lab.seen / (double)lab.deleted);
    double n = (double)lab.num_set, asks = (double)lab.num_asks;
    printf(" %2.0f %3.0f %3.0f %4.0f\n",
           bytes,
           (double)lab.set_ns / n,
           (double)lab.ask_ns / asks,
           (double)lab.own_ns / n);
    hm_scan(&lab.keys, free_key, NULL);
    hm_scan(&lab.expires, free_deadline, NULL);
    hm_destroy(&lab.keys);
    hm_destroy(&lab.expires);
    free(lab.heap.items);
}

int main(int argc, char **argv) {
    char *end = "", *end2 = "";
    long n = argc > 1 ? strtol(argv[1], &end, 10) : 50000;
    long effort = argc > 2 ? strtol(argv[2], &end2, 10) : 1;
    if (argc > 3 || *end || *end2 || n < 1000 || n > 5000000 || effort < 1 || effort > 10) {
        msg("usage: %s [KEYS [EFFORT]], from 1000 to 5000000 keys, an effort from 1 to 10",
            argv[0]);
        return 1;
    }
    printf("                 keys, %% after s   dead,  gone after, ms    seen   B   nanoseconds\n"
           "TTLs             6  12  18  24  30     %%  half   99%%   all  /key TTL set ask  own\n");
    for (int i = 0; i < NUM_PATTERNS * NUM_STRATEGIES; i++) {
        memset(&lab, 0, sizeof(lab));
        lab.pattern = i / NUM_STRATEGIES;
        lab.strategy = i % NUM_STRATEGIES;
        lab.n = (uint64_t)n;
        lab.effort = (int)effort;
        lab.random = 88172645463325252;
        run();
    }
}
