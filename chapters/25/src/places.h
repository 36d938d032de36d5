// places.h: places in a sorted set
//
// A part of the table of contents in server.h, which includes it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "reply.h"
#include "zset.h"

struct command;
struct request;

// What the ends of a range are: of places, negative ones count from the end.
enum range_by { BY_PLACE, BY_SCORE, BY_NAME };

// Places in a sorted set, NULL for none: from `begin` up to before `end`.
struct places {
    struct zset *zset;
    size_t begin, end;
};

// places.c, above t_scan.c
enum range_by range_of_command(const struct command *command);
bool find_places(struct request *req, enum range_by by, bool swapped, struct places *places,
                 struct reply *out);
bool out_pairs(const struct places *places, bool rev, bool scores, bool nested, struct reply *out);
