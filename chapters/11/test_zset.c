// test_zset.c, chapter 11: do the sorted set and avl_offset() do what zset.h and avl_offset.h say?
//
// The set is compared with a plain model, an array of pairs kept in order. Prints a line for each
// part; where something is wrong, the place in this file and what it is, with exit status 1.

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "avl_offset.h"
#include "hash.h"
#include "zset.h"

enum {
    k_ranks = 64,     // every pair of ranks in sets of up to this size
    k_starts = 20,    // every start and offset in sets of up to this size
    k_pairs = 300,    // the most that a model holds
    k_max_name = 8,   // bytes of the longest name
    k_rounds = 40000, // steps of a random run
};

// ---- what is wrong, and where ----

// What we are trying, for the message.
static struct {
    const char *what;
    unsigned n;   // pairs in the set
    unsigned pos; // the one that we begin at, add or remove
    int64_t offset;
} g_trying;

#define CHECK(cond) ((cond) ? (void)0 : wrong(__LINE__, #cond))

static void wrong(int line, const char *cond) {
    printf("test_zset.c:%d: this does not hold: %s\n", line, cond);
    if (g_trying.what) {
        printf("  %s; pairs: %u; place: %u; offset: %lld\n",
               g_trying.what,
               g_trying.n,
               g_trying.pos,
               (long long)g_trying.offset);
    }
    exit(1);
}

static void trying(const char *what, unsigned n, unsigned pos, int64_t offset) {
    g_trying.what = what;
    g_trying.n = n;
    g_trying.pos = pos;
    g_trying.offset = offset;
}

// ---- a set and its model ----

struct pair {
    double score;
    size_t len;
    uint8_t name[k_max_name];
};

struct both {
    struct zset zset;
    unsigned n;
    struct pair pairs[k_pairs]; // the model
};

static const struct hash_key k_hash_key = {11, 12};

static struct pair pair(double score, const char *name, size_t len) {
    struct pair pair = {.score = score, .len = len};
    memcpy(pair.name, name, len);
    return pair;
}

static bool same_name(const struct pair *a, const struct pair *b) {
    return a->len == b->len && memcmp(a->name, b->name, a->len) == 0;
}

// Tells whether `a` comes before `b`: the bytes behind a name are 0, which no longer name goes below.
static bool before(const struct pair *a, const struct pair *b) {
    if (a->score < b->score || a->score > b->score) {
        return a->score < b->score;
    }
    int rv = memcmp(a->name, b->name, k_max_name);
    return rv < 0 || (rv == 0 && a->len < b->len);
}

// Returns how many pairs of the model come before this one.
static unsigned rank(const struct both *both, const struct pair *pair) {
    unsigned pos = 0;
    while (pos < both->n && before(&both->pairs[pos], pair)) {
        pos++;
    }
    return pos;
}

// Removes the name from the model. Returns whether it was there.
static bool model_remove(struct both *both, const struct pair *pair) {
    for (unsigned i = 0; i < both->n; i++) {
        if (same_name(&both->pairs[i], pair)) {
            both->n--;
            memmove(&both->pairs[i], &both->pairs[i + 1], (both->n - i) * sizeof(*pair));
            return true;
        }
    }
    return false;
}

// Adds to both, or gives the name another score.
static void add(struct both *both, struct pair pair) {
    bool is_new = !model_remove(both, &pair);
    CHECK(both->n < k_pairs);
    unsigned pos = rank(both, &pair);
    memmove(&both->pairs[pos + 1], &both->pairs[pos], (both->n - pos) * sizeof(pair));
    both->pairs[pos] = pair;
    both->n++;
    CHECK(zset_add(&both->zset, pair.name, pair.len, pair.score) == is_new);
}

static struct znode *lookup(struct both *both, const struct pair *pair) {
    return zset_lookup(&both->zset, pair->name, pair->len);
}

// Removes from both what is there.
static void take_out(struct both *both, struct pair pair) {
    bool there = model_remove(both, &pair);
    struct znode *znode = lookup(both, &pair);
    CHECK(there == (znode != NULL));
    if (znode) {
        zset_del(&both->zset, znode);
    }
}

static void clear(struct both *both) {
    zset_dispose(&both->zset);
    CHECK(zset_size(&both->zset) == 0 && zset_check(&both->zset));
    both->n = 0;
}

// Also sees to it that a score is never -0, which compares as equal.
static bool is_pair(const struct znode *znode, const struct pair *pair) {
    return znode && znode->score == pair->score && (znode->score < 0 || !signbit(znode->score)) &&
           znode->node.key_len == pair->len && memcmp(znode->name, pair->name, pair->len) == 0;
}

// Returns the pair at `offset`, seen from the first one of all.
static struct znode *nth(struct zset *zset, int64_t offset) {
    return zset_query(zset, -INFINITY, (const uint8_t *)"", 0, offset);
}

static void check(struct both *both) {
    CHECK(zset_check(&both->zset));
    CHECK(zset_size(&both->zset) == both->n);
    struct znode *znode = nth(&both->zset, 0);
    for (unsigned i = 0; i < both->n; i++) {
        CHECK(is_pair(znode, &both->pairs[i]));
        CHECK(lookup(both, &both->pairs[i]) == znode);
        znode = znode_next(znode);
    }
    CHECK(!znode);
}

// Runs from 0 to n - 1 in an order that is not theirs.
static unsigned shuffled(unsigned i, unsigned n) {
    static const unsigned primes[] = {7, 11, 13, 17};
    unsigned p = 0;
    while (n % primes[p] == 0) {
        p++;
    }
    return (i * primes[p] + 3) % n;
}

// ---- order ----

static void test_order(struct both *both) {
    // clang-format off
    static const double scores[] = {
        -INFINITY, -1e300, -1.5, -1.25, -1, -0.5, -1e-300, -5e-324, 0, 5e-324, 0.1, 0.2, 0.3,
        0.1 + 0.2, 0.5, 1, 1 + 2e-16, 1.5, 9007199254740992, 1e300, INFINITY,
    };
    // clang-format on
    static const struct pair names[] = {
        {0, 0, ""},
        {0, 1, "\0"},
        {0, 2, "\0\0"},
        {0, 2, "\0\1"},
        {0, 1, "A"},
        {0, 1, "a"},
        {0, 2, "a\0"},
        {0, 3, "a\0\0"},
        {0, 2, "a\1"},
        {0, 2, "aa"},
        {0, 2, "ab"},
        {0, 1, "b"},
        {0, 1, "\177"},
        {0, 1, "\200"},
        {0, 8, "\200\0\0\0\0\0\0"},
        {0, 1, "\377"},
        {0, 2, "\377\377"},
    };
    enum {
        k_scores = sizeof(scores) / sizeof(scores[0]),
        k_names = sizeof(names) / sizeof(names[0])
    };
    for (unsigned i = 0; i < k_scores; i++) {
        unsigned at = shuffled(i, k_scores);
        char name = (char)('z' - at); // against the order of the scores
        add(both, pair(scores[at], &name, 1));
        check(both);
    }
    for (unsigned i = 0; i < k_scores; i++) {
        CHECK(both->pairs[i].score == scores[i]);
    }
    clear(both);
    for (unsigned i = 0; i < k_names; i++) {
        add(both, names[shuffled(i, k_names)]);
        check(both);
    }
    for (unsigned i = 0; i < k_names; i++) {
        CHECK(same_name(&both->pairs[i], &names[i]));
    }
    clear(both);
    printf("order: %d scores, and %d names of one score\n", (int)k_scores, (int)k_names);
}

// ---- scores ----

static const char k_letters[] = "abcdefghijklmnopqrs";

static void test_scores(struct both *both) {
    static const double scores[] = {0, 1, 1, 0.5, -INFINITY, INFINITY, 0, -1, 1e300, 1, 1};
    enum { k_scores = sizeof(scores) / sizeof(scores[0]) };
    for (unsigned n = 1; n < 20; n++) {
        for (unsigned i = 0; i < n; i++) {
            add(both, pair(i % 2, &k_letters[i], 1));
        }
        for (unsigned i = 0; i < n * k_scores; i++) { // the same ones over and over
            trying("another score", n, i % n, 0);
            add(both, pair(scores[i / n], &k_letters[i % n], 1));
            check(both);
        }
        clear(both);
    }
    // Not in the model, which would not tell -0 from 0.
    uint8_t name = 'n';
    CHECK(zset_add(&both->zset, &name, 1, -0.0));
    CHECK(!signbit(zset_lookup(&both->zset, &name, 1)->score));
    CHECK(!zset_add(&both->zset, &name, 1, 1) && !zset_add(&both->zset, &name, 1, -0.0));
    CHECK(!signbit(zset_lookup(&both->zset, &name, 1)->score));
    CHECK(!zset_add(&both->zset, &name, 1, -0.0) && !zset_add(&both->zset, &name, 1, 0));
    CHECK(!signbit(zset_lookup(&both->zset, &name, 1)->score));
    CHECK(zset_check(&both->zset));
    clear(both);
    printf("scores: every pair of up to 19 gets another score, and the same, and -0\n");
}

// ---- offsets ----

static const int64_t k_far[] = {
    INT64_MIN,
    INT64_MIN + 1,
    -(1LL << 32),
    -(1LL << 32) - 1,
    1 - (1LL << 32),
    -(1LL << 31),
    1LL << 31,
    (1LL << 32) - 1,
    1LL << 32,
    (1LL << 32) + 1,
    INT64_MAX - 1,
    INT64_MAX,
};

enum {
    k_num_far = sizeof(k_far) / sizeof(k_far[0]),
};

// Sets of `n` pairs whose trees have come about in different ways.
static void fill(struct both *both, unsigned n, unsigned way) {
    clear(both);
    unsigned more = way == 2 ? n / 2 : 0; // to be removed again
    for (unsigned i = 0; i < n + more; i++) {
        unsigned at = way == 0 ? i : way == 1 ? n - 1 - i : shuffled(i, n + more);
        uint8_t name = (uint8_t)at;
        add(both, pair(at / 3, (const char *)&name, 1)); // three have the same score
    }
    for (unsigned i = 0; i < more; i++) {
        take_out(both, both->pairs[shuffled(i, both->n)]);
    }
    check(both);
}

// From every rank to every rank, one past either end, and far beyond.
static void try_ranks(struct both *both) {
    struct avl_node *nodes[k_ranks];
    struct znode *znode = nth(&both->zset, 0);
    for (unsigned i = 0; i < both->n; i++, znode = znode_next(znode)) {
        nodes[i] = &znode->tree;
    }
    for (unsigned i = 0; i < both->n; i++) {
        for (int64_t to = -1; to <= both->n; to++) {
            trying("from rank to rank", both->n, i, to - i);
            bool inside = to >= 0 && to < both->n;
            CHECK(avl_offset(nodes[i], to - i) == (inside ? nodes[to] : NULL));
        }
        for (unsigned j = 0; j < k_num_far; j++) {
            trying("from rank to nowhere", both->n, i, k_far[j]);
            CHECK(!avl_offset(nodes[i], k_far[j]));
        }
    }
}

static void test_ranks(struct both *both) {
    for (unsigned n = 1; n <= k_ranks; n++) {
        for (unsigned way = 0; way < 3; way++) {
            fill(both, n, way);
            try_ranks(both);
        }
    }
    clear(both);
    printf("ranks: from every rank to every rank in sets of up to %d, and past both ends\n",
           (int)k_ranks);
}

// ---- queries ----

static void try_query(struct both *both, struct pair start, int64_t offset) {
    unsigned first = rank(both, &start);
    trying("query", both->n, first, offset);
    struct znode *znode = zset_query(&both->zset, start.score, start.name, start.len, offset);
    bool before_end = offset < (int64_t)both->n - first;
    if (offset >= -(int64_t)first && before_end) {
        CHECK(is_pair(znode, &both->pairs[first + offset]));
    } else {
        CHECK(!znode);
    }
}

// Every offset from one start.
static void try_start(struct both *both, struct pair start) {
    for (int64_t offset = -(int64_t)both->n - 2; offset <= both->n + 2; offset++) {
        try_query(both, start, offset);
    }
    for (unsigned i = 0; i < k_num_far; i++) {
        try_query(both, start, k_far[i]);
    }
}

static void test_queries(struct both *both) {
    for (unsigned n = 0; n <= k_starts; n++) {
        fill(both, n, 2);
        for (unsigned i = 0; i < n; i++) {
            struct pair start = both->pairs[i];
            try_start(both, start); // at a pair
            start.len++;
            try_start(both, start); // between two of the same score
            start.score += 0.5;
            try_start(both, start); // between two scores
            start.score = -start.score;
            try_start(both, start);
        }
        try_start(both, pair(-INFINITY, "", 0));
        try_start(both, pair(-1, "x", 1));
        try_start(both, pair(-0.0, "", 0));
        try_start(both, pair(n, "", 0));
        try_start(both, pair(INFINITY, "x", 1)); // past the last: offsets count back from the end
    }
    clear(both);
    printf("queries: from every start by every offset in sets of up to %d\n", (int)k_starts);
}

// ---- zset_check() ----

// What damage there is. Returns false where there is no more; undoes it on the second call.
static bool damage(struct zset *zset, int kind) {
    struct znode *second = nth(zset, 1);
    static struct hnode *popped;
    switch (kind) {
    case 0: // out of order by score
        second->score = -second->score;
        return true;
    case 1: // out of order by name; the hashtable does not find the name either
        second->name[0] ^= 1;
        return true;
    case 2: // in the tree alone
        if (!popped) {
            popped = hm_pop(&zset->names, &second->node, hnode_same);
        } else {
            hm_insert(&zset->names, popped);
        }
        return true;
    case 3: // counted wrongly
        zset->root->cnt ^= 1;
        return true;
    case 4: // too deep
        zset->root->depth ^= 1;
        return true;
    case 5: // filed under another hash code
        second->node.hcode ^= 1;
        return true;
    }
    return false;
}

static void test_check(struct both *both) {
    int kind = 0;
    fill(both, 9, 0);
    for (int i = 0; i < 3; i++) {
        add(both, pair(i + 0.5, &"xyz"[i], 1));
    }
    take_out(both, both->pairs[1]); // the second one has a score of its own
    take_out(both, both->pairs[1]);
    while (damage(&both->zset, kind)) {
        trying("damage", both->n, (unsigned)kind, 0);
        CHECK(!zset_check(&both->zset));
        damage(&both->zset, kind);
        CHECK(zset_check(&both->zset));
        kind++;
    }
    check(both);
    clear(both);
    printf("check: sees %d kinds of damage\n", kind);
}

// ---- random runs ----

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

// A name of up to three bytes out of five; a score that others have too, or one of its own.
static struct pair random_pair(uint32_t *state) {
    static const char bytes[] = {'\0', 'a', 'b', '\177', '\200'};
    struct pair pair = {.len = next_random(state) % 4};
    for (size_t i = 0; i < pair.len; i++) {
        pair.name[i] = (uint8_t)bytes[next_random(state) % sizeof(bytes)];
    }
    bool own = next_random(state) % 2;
    pair.score = own ? next_random(state) / 1e6 - 8 : next_random(state) % 8 - 4.0;
    return pair;
}

// Two sets, which must have nothing to do with one another.
static void test_random(struct both *boths) {
    uint32_t state = 11;
    for (unsigned round = 0; round < k_rounds; round++) {
        struct both *both = &boths[next_random(&state) % 2];
        bool growing = round / 8000 % 2 == 0;
        struct pair pair = random_pair(&state);
        trying("random", both->n, round, 0);
        if (next_random(&state) % 16 < (growing ? 12 : 2)) {
            add(both, pair);
        } else if (both->n > 0 && round % 2) {
            take_out(both, both->pairs[next_random(&state) % both->n]);
        } else {
            take_out(both, pair);
        }
        try_query(both, pair, (int64_t)(next_random(&state) % 200) - 100);
        if (round % 4 == 0) {
            check(both);
        }
    }
    check(&boths[0]);
    check(&boths[1]);
    printf("random: %d steps in two sets\n", (int)k_rounds);
}

int main(void) {
    struct both *boths = mem_calloc(2, sizeof(*boths));
    zset_init(&boths[0].zset, &k_hash_key);
    zset_init(&boths[1].zset, &k_hash_key);
    test_order(&boths[0]);
    test_scores(&boths[0]);
    test_ranks(&boths[0]);
    test_queries(&boths[0]);
    test_check(&boths[0]);
    test_random(boths);
    clear(&boths[0]);
    clear(&boths[1]);
    free(boths);
    printf("all tests passed\n");
}
