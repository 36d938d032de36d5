// players.c: how often does an update of a score move the pair?
//
//   ./players 10
//
// A thousand players have scores from 0 to 100000. A hundred thousand times, one of them gets from 1
// to 10 points more; whoever would come above 100000 begins anew with less. With 0 for an argument,
// each time the score is one from anywhere.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "zset.h"

enum {
    k_players = 1000,
    k_updates = 100000,
    k_most = 100000, // points
};

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

int main(int argc, char **argv) {
    uint32_t step = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    if (step > k_most) {
        fprintf(stderr, "usage: ./players STEP, from 0 to %d\n", (int)k_most);
        return 1;
    }
    static const struct hash_key hash_key = {11, 12};
    struct zset zset;
    zset_init(&zset, &hash_key);
    uint32_t state = 11, stayed = 0;
    for (uint32_t i = 0; i < k_players; i++) {
        zset_add(&zset, (const uint8_t *)&i, sizeof(i), next_random(&state) % k_most);
    }
    for (int update = 0; update < k_updates; update++) {
        uint32_t player = next_random(&state) % k_players;
        struct znode *znode = zset_lookup(&zset, (const uint8_t *)&player, sizeof(player));
        double score = step > 0 ? znode->score + 1 + next_random(&state) % step
                                : next_random(&state) % k_most;
        struct avl_node *prev = avl_offset(&znode->tree, -1), *next = avl_offset(&znode->tree, 1);
        zset_update(&zset, znode, score > k_most ? score - k_most : score);
        stayed += avl_offset(&znode->tree, -1) == prev && avl_offset(&znode->tree, 1) == next;
    }
    zset_dispose(&zset);
    printf("%u of %d updates left the pair between its neighbours\n", stayed, (int)k_updates);
}
