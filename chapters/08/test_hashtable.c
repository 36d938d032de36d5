// test_hashtable.c, chapter 08: does the hashtable do what hashtable.h and hash.h say?
//
// The table is compared with a plain model, an array of flags, at every size through several
// resizes, with hash codes of many kinds. Prints a line for each part; where something is wrong,
// the place in this file and what it is, with exit status 1.

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "hashtable.h"
#include "intrusive.h"
#include "mem.h"

enum {
    k_sizes = 80,     // every size up to this one: the table doubles at 9, 17, 33 and 65
    k_items = 400,    // the most that a model holds
    k_many = 300000,  // items of the largest table
    k_rounds = 30000, // steps of a random run
    k_max_work = 256, // a table that does more a call shows too little while it grows
};

// ---- what is wrong, and where ----

// What we are trying, for the message.
static struct {
    const char *codes; // the kind of hash codes
    unsigned n;        // keys in the table
    unsigned id;       // the key that is looked for, removed or added
} g_trying;

#define CHECK(cond)          ((cond) ? (void)0 : wrong(__LINE__, #cond))
#define CHECK_AT(line, cond) ((cond) ? (void)0 : wrong(line, #cond))

static void wrong(int line, const char *cond) {
    printf("test_hashtable.c:%d: this does not hold: %s\n", line, cond);
    if (g_trying.codes) {
        printf(
            "  hash codes: %s; keys: %u; this key: %u\n", g_trying.codes, g_trying.n, g_trying.id);
    }
    exit(1);
}

// ---- hash codes ----

static uint32_t code_mixed(uint32_t id) {
    id *= 0x9e3779b1;
    return id ^ id >> 15;
}

static uint32_t code_in_a_row(uint32_t id) {
    return id;
}

static uint32_t code_first_bucket(uint32_t id) {
    return id << 20;
}

static uint32_t code_last_bucket(uint32_t id) {
    return ~(id << 20);
}

static uint32_t code_one(uint32_t id) {
    (void)id;
    return 42;
}

static uint32_t code_few(uint32_t id) {
    return id % 5 * 0x10001;
}

static const struct kind {
    const char *name;
    uint32_t (*code)(uint32_t id);
} k_kinds[] = {
    {"mixed", code_mixed},
    {"in a row", code_in_a_row},
    {"different, all in the first bucket", code_first_bucket},
    {"different, all in the last bucket", code_last_bucket},
    {"all the same", code_one},
    {"five different ones", code_few},
};

enum {
    k_num_kinds = sizeof(k_kinds) / sizeof(k_kinds[0]),
};

// ---- a table and its model ----

// The payload. Its key is its id.
struct item {
    struct hnode node;
    uint32_t id;
};

struct both {
    struct hmap hmap;
    bool there[k_items]; // the model: is this id in the table?
    const struct kind *kind;
    struct item items[k_items];
    unsigned seen[k_items];
};

static struct item *item_of(struct hnode *node) {
    return container_of(node, struct item, node);
}

// An hnode_eq. Also sees to it that the table compares nodes only where code and length are equal.
static bool item_eq(const struct hnode *node, const struct hnode *key) {
    CHECK(node->hcode == key->hcode && node->key_len == key->key_len);
    return container_of(node, struct item, node)->id == container_of(key, struct item, node)->id;
}

static struct item item_new(const struct kind *kind, uint32_t id) {
    return (struct item){
        .node = {.hcode = kind->code(id), .key_len = id % 3},
        .id = id,
    };
}

static struct hnode **lookup(struct both *both, uint32_t id) {
    struct item key = item_new(both->kind, id);
    return hm_lookup(&both->hmap, &key.node, item_eq);
}

static struct hnode *pop(struct both *both, uint32_t id) {
    struct item key = item_new(both->kind, id);
    both->there[id] = false;
    return hm_pop(&both->hmap, &key.node, item_eq);
}

static void insert(struct both *both, uint32_t id) {
    both->items[id] = item_new(both->kind, id);
    both->there[id] = true;
    hm_insert(&both->hmap, &both->items[id].node);
}

static bool see(struct hnode *node, void *arg) {
    struct both *both = arg;
    both->seen[item_of(node)->id]++;
    return true;
}

// Does the table hold exactly what the model holds? Moves nothing in a table that is growing.
#define CHECK_ALL(both) check_all(__LINE__, both)

static void check_all(int line, struct both *both) {
    CHECK_AT(line, hm_check(&both->hmap));
    memset(both->seen, 0, sizeof(both->seen));
    hm_scan(&both->hmap, see, both);
    size_t size = 0;
    for (uint32_t id = 0; id < k_items; id++) {
        CHECK_AT(line, both->seen[id] == both->there[id]);
        size += both->there[id];
    }
    CHECK_AT(line, hm_size(&both->hmap) == size);
}

// Does a lookup find exactly what the model holds?
#define CHECK_LOOKUP(both, id) check_lookup(__LINE__, both, id)

static void check_lookup(int line, struct both *both, uint32_t id) {
    g_trying.id = id;
    struct hnode **link = lookup(both, id);
    CHECK_AT(line, (link != NULL) == both->there[id]);
    CHECK_AT(line, !link || *link == &both->items[id].node);
}

// Begins anew with the ids below n, just inserted one after another.
static void build(struct both *both, unsigned n) {
    hm_destroy(&both->hmap);
    memset(both->there, 0, sizeof(both->there));
    for (uint32_t id = 0; id < n; id++) {
        insert(both, id);
    }
    g_trying.codes = both->kind->name;
    g_trying.n = n;
}

// ---- hash ----

static const uint32_t k_known[64] = {
    0x050fc4dc, 0x7d57ca93, 0x4dc7d44d, 0xe7ddf7fb, 0x88d38328, 0x49533b67, 0xc59f22a7, 0x9bb11140,
    0x8d299a8e, 0x6c063de4, 0x92ff097f, 0xf94dc352, 0x57b4d9a2, 0x1229ffa7, 0xc0f95d34, 0x2a519956,
    0x7d908b66, 0x63dbd80c, 0xb473e63e, 0x8d297d1c, 0xa6cce040, 0x2b45f844, 0xa320872e, 0xdae6c123,
    0x67349c8c, 0x705b0979, 0xca9913a5, 0x4ade3b35, 0xef6cd00d, 0x4ab1e1f4, 0x43c5e663, 0x8c21d1bc,
    0x16a7b60d, 0x7a8ff9bf, 0x1f2a753e, 0xbf186b91, 0xada26206, 0xa3c33057, 0xae3a36a1, 0x7b108392,
    0x99e41531, 0x3f1ad944, 0xc8138825, 0xc28949a6, 0xfaf8876b, 0x9f042196, 0x68b1d623, 0x8b5114fd,
    0xdf074c46, 0x12cc86b3, 0x0a52098f, 0x9d292f9a, 0xa2f41f12, 0x43a71ed0, 0x73f0bce6, 0x70a7e980,
    0x243c6d75, 0xfdb71513, 0xa67d8a08, 0xb7e8f148, 0xf7a644ee, 0x0f1837f2, 0x4b6694e0, 0xb7bbb3a8,
};

// The lower 32 bits of SipHash-1-3 with the key 00 01 .. 0f, of the strings "", 00, 00 01, .. as in
// the vectors that its authors publish for SipHash-2-4; at every alignment.
static void test_hash(void) {
    const struct hash_key key = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    for (size_t shift = 0; shift < 8; shift++) {
        uint8_t data[8 + 64];
        for (size_t i = 0; i < 64; i++) {
            data[shift + i] = (uint8_t)i;
        }
        for (unsigned len = 0; len < 64; len++) {
            g_trying.id = len;
            CHECK(str_hash(&key, data + shift, len) == k_known[len]);
        }
    }
    const uint8_t bytes[8] = {0};
    const struct hash_key other0 = {key.k0 ^ 1, key.k1}, other1 = {key.k0, key.k1 ^ 1};
    CHECK(str_hash(&key, bytes, 8) != str_hash(&other0, bytes, 8));
    CHECK(str_hash(&key, bytes, 8) != str_hash(&other1, bytes, 8));
    for (size_t len = 0; len < 8; len++) {
        CHECK(str_hash(&key, bytes, len) != str_hash(&key, bytes, len + 1));
    }
    printf("hash: 64 known answers at every alignment\n");
}

// HASH_SEED decides the key, and without it no two are the same.
static void test_hash_key(void) {
    setenv("HASH_SEED", "000102030405060708090a0b0c0d0eff", 1);
    struct hash_key one = hash_key_init(), same = hash_key_init();
    setenv("HASH_SEED", "000102030405060708090a0b0c0d0efe", 1);
    struct hash_key other = hash_key_init();
    setenv("HASH_SEED", "010102030405060708090a0b0c0d0eff", 1);
    struct hash_key another = hash_key_init();
    CHECK(one.k0 == same.k0 && one.k1 == same.k1);
    CHECK(one.k0 != other.k0 || one.k1 != other.k1);
    CHECK(one.k0 != another.k0 || one.k1 != another.k1);
    unsetenv("HASH_SEED");
    one = hash_key_init();
    other = hash_key_init();
    CHECK(one.k0 != other.k0 && one.k1 != other.k1);
    printf("hash key: fixed by HASH_SEED, random without\n");
}

// ---- one htab ----

// A chain of `len` nodes: the node at `at` is found, replaced, and taken out.
static void try_chain(uint32_t len, uint32_t at) {
    struct htab htab = {0};
    struct item items[5];
    h_init(&htab, 2);
    for (uint32_t id = 0; id < len; id++) {
        items[id] = item_new(&k_kinds[4], id);
        h_insert(&htab, &items[id].node);
    }
    struct item key = item_new(&k_kinds[4], at);
    struct hnode **link = h_lookup(&htab, &key.node, item_eq);
    CHECK(link && *link == &items[at].node && h_check(&htab, 0));
    struct item heir = items[at];
    *link = &heir.node;
    CHECK(h_lookup(&htab, &key.node, item_eq) == link && h_check(&htab, 0));
    CHECK(h_detach(&htab, link) == &heir.node && htab.size == len - 1 && h_check(&htab, 0));
    for (uint32_t id = 0; id < len; id++) {
        key = item_new(&k_kinds[4], id);
        link = h_lookup(&htab, &key.node, item_eq);
        CHECK(id == at ? !link : link && *link == &items[id].node);
    }
    free(htab.tab);
}

static void test_chain(void) {
    struct htab none = {0};
    struct item key = item_new(&k_kinds[0], 0);
    CHECK(!h_lookup(&none, &key.node, item_eq) && h_check(&none, 0));
    for (uint32_t len = 1; len <= 5; len++) {
        for (uint32_t at = 0; at < len; at++) {
            g_trying.n = len;
            g_trying.id = at;
            try_chain(len, at);
        }
    }
    printf("chain: found, replaced and taken out at every place\n");
}

// ---- hm_check: the tests below rely on it ----

// A table in the middle of its growing, with one thing wrong.
static void test_check(struct both *both) {
    unsigned n = 0;
    struct hmap *hmap = &both->hmap;
    both->kind = &k_kinds[0];
    do {
        CHECK(n < k_items);
        build(both, ++n);
    } while (!hmap->older.tab || hmap->resizing_pos == 0);
    CHECK(hm_check(hmap));
    for (uint32_t id = 0; id < n; id++) {
        g_trying.id = id;
        both->items[id].node.hcode ^= 1; // another bucket in either table
        CHECK(!hm_check(hmap));
        both->items[id].node.hcode ^= 1;
    }
    hmap->older.size++;
    CHECK(!hm_check(hmap));
    hmap->older.size -= 2;
    CHECK(!hm_check(hmap));
    hmap->older.size++;
    hmap->newer.size--;
    CHECK(!hm_check(hmap));
    hmap->newer.size++;

    size_t pos = hmap->resizing_pos;
    hmap->resizing_pos = hmap->older.mask + 1; // passed over what is there
    CHECK(!hm_check(hmap));
    hmap->resizing_pos = pos;
    CHECK(hm_check(hmap));
    printf("hm_check: sees a node in the wrong place and a wrong count\n");
}

// ---- every size ----

// The table has just got its n-th key, and may be growing: the key is found, and moves as an entry
// does whose value has another length.
static void try_lookup(struct both *both, unsigned n, uint32_t id) {
    build(both, n);
    CHECK_LOOKUP(both, id);
    CHECK_ALL(both);
    struct hnode **link = lookup(both, id);
    if (link) {
        struct item heir = both->items[id];
        *link = &heir.node;
        CHECK_ALL(both);
        CHECK(lookup(both, id) && *lookup(both, id) == &heir.node);
        CHECK(pop(both, id) == &heir.node);
        CHECK_ALL(both);
    }
}

// The same table: the key is removed, is gone, comes back.
static void try_pop(struct both *both, unsigned n, uint32_t id) {
    build(both, n);
    CHECK(pop(both, id) == (id < n ? &both->items[id].node : NULL));
    CHECK_ALL(both);
    CHECK_LOOKUP(both, id);
    CHECK(!pop(both, id));
    CHECK_ALL(both);
    insert(both, id);
    CHECK_ALL(both);
    for (uint32_t i = 0; i <= n; i++) {
        CHECK_LOOKUP(both, i);
    }
    CHECK_ALL(both);
}

// The same table: lookups alone bring the growing to its end, and removals do.
static void try_finish(struct both *both, unsigned n, bool by_lookup) {
    build(both, n);
    size_t work = both->hmap.older.tab ? n + both->hmap.older.mask + 1 : 0;
    for (size_t calls = 0; calls <= work / k_resizing_work; calls++) {
        if (by_lookup) {
            CHECK(!lookup(both, n));
        } else {
            CHECK(!pop(both, n));
        }
    }
    CHECK(!both->hmap.older.tab);
    CHECK_ALL(both);
}

static void test_every_size(struct both *both) {
    unsigned doubled = 0;
    for (unsigned k = 0; k < k_num_kinds; k++) {
        both->kind = &k_kinds[k];
        size_t buckets = 0;
        for (unsigned n = 0; n <= k_sizes; n++) {
            build(both, n);
            CHECK_ALL(both);
            doubled += buckets > 0 && both->hmap.newer.mask + 1 == 2 * buckets;
            buckets = both->hmap.newer.tab ? both->hmap.newer.mask + 1 : 0;
            try_finish(both, n, true);
            try_finish(both, n, false);
            for (uint32_t id = 0; id <= n; id++) {
                g_trying.id = id;
                try_lookup(both, n, id);
                try_pop(both, n, id);
            }
        }
    }
    CHECK(doubled >= k_num_kinds);
    printf("every size up to %u: every key found, moved, removed, put back; %u times doubled\n",
           (unsigned)k_sizes,
           doubled);
}

// ---- removal ----

// Returns a key of the older table: the first one, or the last.
static uint32_t id_in_older(const struct hmap *hmap, bool last) {
    const struct hnode *found = NULL;
    for (size_t i = 0; i <= hmap->older.mask; i++) {
        for (const struct hnode *node = hmap->older.tab[i]; node; node = node->next) {
            found = found && !last ? found : node;
        }
    }
    return container_of(found, struct item, node)->id;
}

// Removes the keys that have not been moved yet, until there is none.
static void test_pop_older(struct both *both) {
    unsigned popped = 0;
    for (unsigned k = 0; k < 2 * k_num_kinds; k++) {
        both->kind = &k_kinds[k / 2];
        for (unsigned n = 0; n <= k_items; n++) {
            for (build(both, n); both->hmap.older.size > 0; popped++) {
                uint32_t id = id_in_older(&both->hmap, k % 2);
                g_trying.id = id;
                CHECK(pop(both, id) == &both->items[id].node);
                CHECK_ALL(both);
            }
            CHECK_LOOKUP(both, 0);
            CHECK_ALL(both);
        }
    }
    CHECK(popped > 0);
    printf("removal before the move: %u keys, to the last one of the older table\n", popped);
}

// Removes all keys in an order that `step` decides, and fills the table again.
static void test_pop_all(struct both *both) {
    const unsigned steps[] = {1, k_sizes, 31}; // forward, backward, to and fro: modulo k_sizes + 1
    for (unsigned k = 0; k < 3 * k_num_kinds; k++) {
        both->kind = &k_kinds[k / 3];
        build(both, k_sizes + 1);
        for (unsigned i = 0, id = 0; i <= k_sizes; i++) {
            g_trying.id = id;
            CHECK(pop(both, id) == &both->items[id].node);
            CHECK_ALL(both);
            id = (id + steps[k % 3]) % (k_sizes + 1);
        }
        CHECK(hm_size(&both->hmap) == 0 && !lookup(both, 0) && !pop(both, 0));
        for (uint32_t id = 0; id < k_items; id++) {
            insert(both, id);
        }
        CHECK_ALL(both);
    }
    printf("removal of all: forward, backward, to and fro, and filled again\n");
}

// ---- random runs ----

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

// Two tables at once, which must not know of each other.
static void test_random(struct both *boths) {
    uint32_t state = 8;
    boths[0].kind = &k_kinds[0];
    boths[1].kind = &k_kinds[5];
    build(&boths[0], 0);
    build(&boths[1], 0);
    for (unsigned i = 0; i < k_rounds; i++) {
        struct both *both = &boths[next_random(&state) % 2];
        uint32_t id = next_random(&state) % k_items;
        bool shrinking = i / 4000 % 2;
        g_trying.codes = both->kind->name;
        g_trying.id = id;
        g_trying.n = (unsigned)hm_size(&both->hmap);
        if (next_random(&state) % 4 == 0) {
            CHECK_LOOKUP(both, id);
        } else if (!both->there[id] && next_random(&state) % 8 >= shrinking * 7u) {
            insert(both, id);
        } else if (next_random(&state) % 8 >= !shrinking * 7u) {
            bool there = both->there[id];
            CHECK(pop(both, id) == (there ? &both->items[id].node : NULL));
        }
        CHECK_ALL(both);
    }
    printf("random: %u insertions, removals and lookups in two tables\n", (unsigned)k_rounds);
}

// ---- scan ----

static bool stop_at_zero(struct hnode *node, void *arg) {
    (void)node;
    unsigned *left = arg;
    return --*left > 0;
}

static bool free_one(struct hnode *node, void *arg) {
    ++*(unsigned *)arg;
    memset(node, 0xff, sizeof(struct item));
    free(item_of(node));
    return true;
}

// A scan ends where it is told to, in either table, and may free what it is given.
static void test_scan(struct both *both) {
    both->kind = &k_kinds[0];
    for (unsigned n = 0; n <= k_sizes; n++) {
        build(both, n);
        for (unsigned stop = 1; stop <= n; stop++) {
            unsigned left = stop;
            hm_scan(&both->hmap, stop_at_zero, &left);
            CHECK(left == 0);
        }
        CHECK_ALL(both);

        struct hmap hmap = {0};
        for (uint32_t id = 0; id < n; id++) {
            struct item *item = mem_alloc(sizeof(*item));
            *item = item_new(both->kind, id);
            hm_insert(&hmap, &item->node);
        }
        size_t buckets = hmap.newer.tab ? hmap.newer.mask + 1 : 0;
        buckets += hmap.older.tab ? hmap.older.mask + 1 : 0;
        unsigned freed = 0;
        CHECK(hm_scan_cost(&hmap) == buckets + n);
        hm_scan(&hmap, free_one, &freed);
        CHECK(freed == n);
        hm_destroy(&hmap);
        CHECK(hm_size(&hmap) == 0 && hm_check(&hmap));
    }
    printf("scan: stopped at every place, and frees what it is given\n");
}

// ---- bounded work ----

// How far the table is with its growing.
struct progress {
    bool growing;
    size_t left; // nodes still to be moved
    size_t pos;
};

static struct progress progress_of(const struct hmap *hmap) {
    return (struct progress){hmap->older.tab != NULL, hmap->older.size, hmap->resizing_pos};
}

// Checks that one call moved nodes and passed buckets no more than it may, `extra` nodes apart.
static void check_work(const struct hmap *hmap, struct progress before, size_t extra) {
    struct progress after = progress_of(hmap);
    size_t moved = before.left - after.left, passed = after.pos - before.pos;
    if (!before.growing && after.growing) {
        moved = hmap->newer.size;
        passed = after.pos;
    } else if (!after.growing) {
        moved = before.left;
        passed = after.pos > before.pos ? passed : 0;
    }
    CHECK(moved <= k_resizing_work + extra && passed <= k_resizing_work);
    CHECK(moved + passed <= k_resizing_work + extra);
}

// Grows a table to k_many nodes. Every call does little, and the table is never overfull for that.
static void try_work(const struct kind *kind, struct item *items) {
    struct hmap hmap = {0};
    struct item none = {.node = {.hcode = 0, .key_len = 3}};
    size_t turns = 0;
    for (uint32_t id = 0; id < k_many; id++) {
        g_trying.codes = kind->name;
        g_trying.n = g_trying.id = id;
        items[id] = item_new(kind, id);
        struct progress before = progress_of(&hmap);
        hm_insert(&hmap, &items[id].node);
        check_work(&hmap, before, 0);
        turns += hmap.older.tab != NULL;
        CHECK(hm_size(&hmap) <= (hmap.newer.mask + 1) * k_max_load_factor);
        if (id > k_many / 4) {
            continue; // insertions alone have to be enough
        }
        if (id % 4 == 1) {
            before = progress_of(&hmap);
            CHECK(!hm_lookup(&hmap, &none.node, item_eq));
            check_work(&hmap, before, 0);
        } else if (id % 4 == 3) {
            before = progress_of(&hmap);
            struct hnode *node = hm_pop(&hmap, &items[id].node, hnode_same);
            CHECK(node == &items[id].node);
            check_work(&hmap, before, 1);
            hm_insert(&hmap, node);
        }
    }
    CHECK(hm_size(&hmap) == k_many && hm_check(&hmap));
    CHECK(turns >= k_many / k_resizing_work / 2); // it does grow step by step
    hm_destroy(&hmap);
}

static void test_work(void) {
    struct item *items = mem_calloc(k_many, sizeof(*items));
    try_work(&k_kinds[0], items);
    try_work(&k_kinds[1], items);
    try_work(&k_kinds[3], items); // all buckets but the last one are empty, and have to be passed
    free(items);
    printf("work: %u keys, never more than %d nodes moved or buckets passed a call\n",
           (unsigned)k_many,
           (int)k_resizing_work);
}

int main(void) {
    struct both *boths = mem_calloc(2, sizeof(*boths));
    CHECK((int)k_resizing_work <= (int)k_max_work);
    test_hash();
    test_hash_key();
    test_chain();
    test_check(&boths[0]);
    test_every_size(&boths[0]);
    test_pop_older(&boths[0]);
    test_pop_all(&boths[0]);
    test_random(boths);
    test_scan(&boths[0]);
    test_work();
    hm_destroy(&boths[0].hmap);
    hm_destroy(&boths[1].hmap);
    free(boths);
    printf("all tests passed\n");
}
