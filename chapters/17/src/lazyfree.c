// lazyfree.c: freeing values, large ones by workers
//
// Owns the workers. No other file knows what counts as large.

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "mem_tidy.h"
#include "thread_pool.h"
#include "zset.h"

#include "server.h"

enum {
    k_threads = 4,
    k_pair_cost = 16, // freeing a pair counts as writing this many bytes: see turn.c
    k_large_container_size = k_turn_work / k_pair_cost, // a worker frees what counts as more pairs
    k_pair_bytes = 1 << 10,  // bytes of a string that take as long to free as a pair
    k_kept_pairs = 64,       // a string that would lose more, counted in pairs, is freed as a whole
    k_large_block = 1 << 20, // a worker frees a larger block
    k_pairs_a_yield = 64,    // a worker frees this many pairs, then yields
};

static struct thread_pool pool;
static atomic_size_t pairs_left; // that are queued for workers: the loop adds, they subtract

// Starts the workers.
void lazyfree_start(void) {
    thread_pool_init(&pool, k_threads);
}

// Ends the workers when they have freed everything; if too much is left, ends the program at once.
void lazyfree_end(void) {
    if (atomic_load(&pairs_left) > k_max_freed) {
        _exit(0); // ends the workers wherever they are; the kernel frees the rest
    }
    thread_pool_destroy(&pool);
}

// Returns how long it takes to free the entry, counted in pairs. The names of a large set are not
// looked at: it has enough pairs as it is.
size_t entry_cost(const struct entry *ent) {
    size_t pairs = entry_pairs(ent), bytes = ent->node.key_len + ent->val_len;
    if (pairs > 0 && pairs <= k_large_container_size) {
        struct znode *znode = zset_query(entry_zset(ent), -INFINITY, ent->data, 0, 0);
        for (; znode; znode = znode_next(znode)) {
            bytes += znode->node.key_len;
        }
    }
    return pairs > bytes / k_pair_bytes ? pairs : bytes / k_pair_bytes;
}

// Tells whether the value can become a string of `len` bytes where it is. A large one that loses much
// is better freed as a whole: either way it gives back as much memory.
bool entry_fits(const struct entry *ent, size_t len) {
    return ent->type == T_STR && ent->val_len / k_pair_bytes <= k_kept_pairs + len / k_pair_bytes;
}

// Frees the entry with its value. It is in no structure any more.
static void entry_destroy(struct entry *ent) {
    if (ent->type == T_ZSET) {
        zset_dispose(entry_zset(ent));
        free(entry_zset(ent));
    }
    free(ent);
}

// Frees a large string; a worker runs it.
static void destroy_str_work(void *arg) {
    size_t cost = entry_cost(arg);
    entry_destroy(arg);
    atomic_fetch_sub(&pairs_left, cost);
}

// Frees a large set; a worker runs it. If the loop shares the worker's processor, the kernel may
// let a worker that never sleeps run on for milliseconds while a client waits. So after every few
// pairs the worker yields. Before that it has the allocator merge these few: if the loop waits for
// the allocator's lock, it never waits for a long merge. Pairs are freed from the leaves up: what
// is left is always a tree.
static void destroy_zset_work(void *arg) {
    struct zset *zset = entry_zset(arg);
    size_t cost = entry_cost(arg);
    struct avl_node *cur = zset->root;
    for (size_t freed = 0; cur;) {
        struct avl_node *next = cur->left ? cur->left : cur->right;
        if (!next) {
            next = cur->parent;
            if (next) {
                *(next->left == cur ? &next->left : &next->right) = NULL;
            }
            free(znode_of(cur));
            if (++freed % k_pairs_a_yield == 0) {
                mem_tidy();
                sched_yield();
            }
        }
        cur = next;
    }
    zset->root = NULL;
    entry_destroy(arg);
    atomic_fetch_sub(&pairs_left, cost);
}

// Frees the entry, which is in no structure any more: a small one at once, a large one through a
// worker, which then has it to itself.
void entry_free(struct entry *ent) {
    size_t cost = entry_cost(ent);
    if (cost > k_large_container_size) {
        atomic_fetch_add(&pairs_left, cost);
        bool is_zset = ent->type == T_ZSET;
        thread_pool_queue(&pool, is_zset ? destroy_zset_work : destroy_str_work, ent);
    } else {
        turn_add(cost * k_pair_cost);
        entry_destroy(ent);
    }
}

// Frees a block of `size` bytes: a large one through a worker.
void block_free(void *block, size_t size) {
    if (size > k_large_block) {
        thread_pool_queue(&pool, free, block);
    } else {
        free(block);
    }
}
