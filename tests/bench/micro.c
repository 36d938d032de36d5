// micro.c: what one operation of one structure costs, without a server around it
//
//   cc -O2 -Wall -Wextra -I../../common micro.c -o micro
//   ./micro table-get 1000000          one line of JSON: nanoseconds an operation, the worst one
//   ./micro                            lists the benchmarks
//
// Every structure is filled with n nodes first, in one allocation each as in the server; operations
// then go to random ones, so that beyond the caches each costs what memory costs.

#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base.h"
#include "buf.h"
#include "hash.h"
#include "heap.h"
#include "serial.h"
#include "zset.h"

enum {
    k_key_len = 16,
};

struct item {
    struct hnode node;
    struct item *next_in_list;
    uint32_t heap_idx;
    uint8_t key[k_key_len];
};

struct item_key {
    struct hnode node;
    const uint8_t *key;
};

static struct {
    size_t n;
    struct item **items;
    struct hmap map;
    struct heap heap;
    struct zset zset;
    struct znode **ranks; // by rank
    struct hash_key hash_key;
    uint64_t random;
    int64_t worst_ns;
    uint64_t sink; // results go here, so that no work can be left out
} g_data = {.random = 88172645463325252};

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static uint64_t next_random(void) {
    g_data.random ^= g_data.random << 13;
    g_data.random ^= g_data.random >> 7;
    g_data.random ^= g_data.random << 17;
    return g_data.random;
}

static bool item_eq(const struct hnode *node, const struct hnode *key) {
    const struct item *item = container_of(node, struct item, node);
    const struct item_key *item_key = container_of(key, struct item_key, node);
    return memcmp(item->key, item_key->key, k_key_len) == 0;
}

// The key of an item: "key:" and its number in twelve digits.
static void put_key(uint8_t *key, size_t id) {
    memcpy(key, "key:", 4);
    for (int i = k_key_len - 1; i >= 4; i--) {
        key[i] = (uint8_t)('0' + id % 10);
        id /= 10;
    }
}

static struct item *item_new(size_t id) {
    struct item *item = mem_calloc(1, sizeof(*item));
    put_key(item->key, id);
    item->node.hcode = str_hash(&g_data.hash_key, item->key, k_key_len);
    item->node.key_len = k_key_len;
    item->heap_idx = k_heap_none;
    return item;
}

static void fill_items(void) {
    g_data.items = mem_calloc(g_data.n, sizeof(g_data.items[0]));
    for (size_t i = 0; i < g_data.n; i++) {
        g_data.items[i] = item_new(i);
        g_data.items[i]->next_in_list = i > 0 ? g_data.items[i - 1] : NULL;
    }
}

static struct item *any_item(void) {
    return g_data.items[next_random() % g_data.n];
}

// ---- filling, one operation at a time ----

static void note_pause(int64_t start_ns) {
    int64_t ns = now_ns() - start_ns;
    if (ns > g_data.worst_ns) {
        g_data.worst_ns = ns;
    }
}

static void table_insert(size_t i) {
    int64_t start_ns = now_ns();
    hm_insert(&g_data.map, &g_data.items[i]->node);
    note_pause(start_ns);
}

// As table_insert(), but what a resize begins, this insertion finishes.
static void table_insert_at_once(size_t i) {
    int64_t start_ns = now_ns();
    hm_insert(&g_data.map, &g_data.items[i]->node);
    while (g_data.map.older.tab) {
        hm_help_resizing(&g_data.map);
    }
    note_pause(start_ns);
}

static void zset_insert(size_t i) {
    const struct item *item = g_data.items[i];
    double score = (double)(next_random() % 1000000);
    zset_add(&g_data.zset, item->key + 4, k_key_len - 4, score);
}

static void heap_insert(size_t i) {
    heap_upsert(&g_data.heap, &g_data.items[i]->heap_idx, (int64_t)(next_random() >> 1));
}

static void fill_table(void) {
    fill_items();
    for (size_t i = 0; i < g_data.n; i++) {
        hm_insert(&g_data.map, &g_data.items[i]->node);
    }
}

static void fill_heap(void) {
    fill_items();
    for (size_t i = 0; i < g_data.n; i++) {
        heap_insert(i);
    }
}

static void fill_zset(void) {
    fill_items();
    for (size_t i = 0; i < g_data.n; i++) {
        zset_insert(i);
    }
    g_data.ranks = mem_calloc(g_data.n, sizeof(g_data.ranks[0]));
    const uint8_t *none = (const uint8_t *)"";
    struct znode *znode = zset_query(&g_data.zset, -1, none, 0, 0);
    for (size_t i = 0; znode; znode = znode_next(znode)) {
        g_data.ranks[i++] = znode;
    }
}

// ---- operations ----

static void list_get(size_t i) {
    (void)i;
    const struct item *wanted = any_item(), *item = g_data.items[g_data.n - 1];
    while (memcmp(item->key, wanted->key, k_key_len) != 0) {
        item = item->next_in_list;
    }
    g_data.sink += item->key[k_key_len - 1];
}

static void table_get(size_t i) {
    (void)i;
    uint8_t key[k_key_len];
    put_key(key, next_random() % g_data.n);
    struct item_key item_key = {
        .node = {.hcode = str_hash(&g_data.hash_key, key, k_key_len), .key_len = k_key_len},
        .key = key,
    };
    g_data.sink += (*hm_lookup(&g_data.map, &item_key.node, item_eq))->hcode;
}

static void hash_key16(size_t i) {
    uint64_t words[2] = {i, g_data.sink};
    g_data.sink += str_hash(&g_data.hash_key, (const uint8_t *)words, sizeof(words));
}

// A place, and how far to go from there: less than 100,000 places, as far as the set allows.
static size_t any_place(int64_t *offset) {
    size_t reach = g_data.n < 100000 ? g_data.n : 100000;
    *offset = (int64_t)(next_random() % reach);
    return next_random() % (g_data.n - (size_t)*offset);
}

static void offset_counts(size_t i) {
    (void)i;
    int64_t offset;
    size_t place = any_place(&offset);
    struct avl_node *node = avl_offset(&g_data.ranks[place]->tree, offset);
    if (node != &g_data.ranks[place + (size_t)offset]->tree) {
        msg("offset-counts: wrong node");
        exit(1);
    }
    g_data.sink += node->cnt;
}

static void offset_walk(size_t i) {
    (void)i;
    int64_t offset;
    struct avl_node *node = &g_data.ranks[any_place(&offset)]->tree;
    for (; offset > 0; offset--) {
        node = avl_offset(node, 1);
    }
    g_data.sink += node->cnt;
}

static void zset_seek(size_t i) {
    (void)i;
    const uint8_t *none = (const uint8_t *)"";
    struct znode *znode = zset_query(&g_data.zset, (double)(next_random() % 900000), none, 0, 0);
    g_data.sink += znode ? znode->node.hcode : 0;
}

static void heap_change(size_t i) {
    (void)i;
    heap_upsert(&g_data.heap, &any_item()->heap_idx, (int64_t)(next_random() >> 1));
}

static void heap_pop(size_t i) {
    (void)i;
    g_data.sink += (uint64_t)g_data.heap.items[0].val;
    heap_delete(&g_data.heap, 0);
}

static void buffer_reply(size_t i) {
    static struct buf buf;
    out_str(&buf, g_data.items[i % g_data.n]->key, k_key_len);
    if (buf_size(&buf) > 1 << 16) {
        buf_consume(&buf, buf_size(&buf));
    }
    g_data.sink += buf.tail;
}

// ---- main ----

static const struct micro {
    const char *name;
    const char *what;
    void (*prepare)(void);
    void (*f)(size_t i);
    size_t max_ops; // 0: n of them, each once
} k_micros[] = {
    {"hash", "the keyed hash of 16 bytes", fill_items, hash_key16, 10000000},
    {"list-get", "look up in a list, as chapter 07", fill_items, list_get, 300},
    {"table-get", "look up in a hashtable", fill_table, table_get, 2000000},
    {"table-insert", "insert into a hashtable that grows in steps", fill_items, table_insert, 0},
    {"table-insert-at-once", "the same, growing at once", fill_items, table_insert_at_once, 0},
    {"zset-add", "add to a sorted set", fill_items, zset_insert, 0},
    {"zset-seek", "find the first pair from a score", fill_zset, zset_seek, 1000000},
    {"offset-counts", "move by up to 100,000 places, by counts", fill_zset, offset_counts, 1000000},
    {"offset-walk", "the same, step by step", fill_zset, offset_walk, 100},
    {"heap-add", "add a TTL", fill_items, heap_insert, 0},
    {"heap-change", "change a TTL", fill_heap, heap_change, 1000000},
    {"heap-pop", "take the nearest TTL", fill_heap, heap_pop, 0},
    {"buffer", "append a string of 16 bytes", fill_items, buffer_reply, 10000000},
};

int main(int argc, char **argv) {
    size_t count = sizeof(k_micros) / sizeof(k_micros[0]);
    const struct micro *micro = NULL;
    for (size_t i = 0; argc == 3 && i < count; i++) {
        micro = strcmp(argv[1], k_micros[i].name) == 0 ? &k_micros[i] : micro;
    }
    g_data.n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (!micro || g_data.n == 0) {
        msg("usage: %s BENCHMARK NODES", argv[0]);
        for (size_t i = 0; i < count; i++) {
            msg("  %-22s%s", k_micros[i].name, k_micros[i].what);
        }
        return 2;
    }
    g_data.hash_key = hash_key_init();
    zset_init(&g_data.zset, &g_data.hash_key);
    micro->prepare();
    size_t ops = micro->max_ops ? micro->max_ops : g_data.n;
    int64_t start_ns = now_ns();
    for (size_t i = 0; i < ops; i++) {
        micro->f(i);
    }
    double ns = (double)(now_ns() - start_ns) / (double)ops;
    printf("{\"name\": \"%s\", \"nodes\": %zu, \"ops\": %zu, \"ns\": %.2f, \"worst_us\": %.1f, "
           "\"check\": %llu}\n",
           micro->name,
           g_data.n,
           ops,
           ns,
           (double)g_data.worst_ns / 1e3,
           (unsigned long long)(g_data.sink & 0xffff));
}
