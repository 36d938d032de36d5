// t_zrange.c: commands for ranges of sorted sets
//
// Has no state.

#include <string.h>

#include "reply.h"
#include "zset.h"
#include "zset_rank.h"

#include "server.h"

// zcount key min max; zlexcount key min max
void do_zcount(struct request *req, struct reply *out) {
    struct places places;
    if (find_places(req, range_of_command(req->command), false, &places, out)) {
        reply_int(out, (int64_t)(places.end - places.begin));
    }
}

// What is asked for of a range.
struct zrange_options {
    enum range_by by;
    bool with_scores, rev;
    int64_t offset, count; // a count of -1 is that of no limit
};

// Reads the options of a range, from args[4] on; `general` stands for those of `zrange` itself. If
// one is wrong, replies with an error and returns false.
static bool parse_zrange_options(const struct request *req, bool general,
                                 struct zrange_options *options, struct reply *out) {
    options->count = -1;
    for (int i = 4; i < req->nargs; i++) {
        const struct slice *arg = &req->args[i];
        if (is_word(arg, "withscores")) {
            options->with_scores = true;
        } else if (is_word(arg, "limit") && i + 2 < req->nargs) {
            if (!parse_int(arg + 1, &options->offset) || !parse_int(arg + 2, &options->count)) {
                out_bad_int(out);
                return false;
            }
            i += 2;
        } else if (general && !options->rev && is_word(arg, "rev")) {
            options->rev = true;
        } else if (general && options->by == BY_PLACE && is_word(arg, "byscore")) {
            options->by = BY_SCORE;
        } else if (general && options->by == BY_PLACE && is_word(arg, "bylex")) {
            options->by = BY_NAME;
        } else {
            out_bad_syntax(out);
            return false;
        }
    }
    if (options->count != -1 && options->by == BY_PLACE) {
        reply_err(out,
                  "ERR syntax error, LIMIT is only supported in combination with either BYSCORE "
                  "or BYLEX");
        return false;
    }
    if (options->with_scores && options->by == BY_NAME) {
        reply_err(out, "ERR syntax error, WITHSCORES not supported in combination with BYLEX");
        return false;
    }
    return true;
}

// Leaves of the places what LIMIT says, which are passed through from their end where `rev` says so.
static void limit_places(struct places *places, const struct zrange_options *options) {
    size_t n = places->end - places->begin;
    if (options->offset < 0 || (uint64_t)options->offset >= n) {
        places->begin = places->end = 0;
        return;
    }
    size_t skip = (size_t)options->offset;
    n -= skip;
    if (options->count >= 0 && (uint64_t)options->count < n) {
        n = (size_t)options->count;
    }
    places->begin = options->rev ? places->end - skip - n : places->begin + skip;
    places->end = places->begin + n;
}

// zrange key first last [byscore | bylex] [rev] [limit offset count] [withscores]
// zrevrange, zrangebyscore, zrangebylex and their kin: the same, with the option that they are named for
//
// Backwards, the larger end comes first, if the ends are no places. In version 3 a pair is an array, of
// name and score.
void do_zrange(struct request *req, struct reply *out) {
    struct places places;
    struct zrange_options options = {
        .by = range_of_command(req->command),
        .rev = strstr(req->command->name, "rev") != NULL,
    };
    bool general = !options.rev && options.by == BY_PLACE;
    if (!parse_zrange_options(req, general, &options, out)) {
        return;
    }
    bool by_place = options.by == BY_PLACE;
    if (!find_places(req, options.by, options.rev && !by_place, &places, out)) {
        return;
    }
    if (!by_place) {
        limit_places(&places, &options);
    } else if (options.rev && places.end > places.begin) {
        size_t size = zset_size(places.zset), begin = places.begin;
        places.begin = size - places.end;
        places.end = size - begin;
    }
    out_pairs(&places, options.rev, options.with_scores, options.with_scores && out->resp3, out);
}

// zquery key score name offset limit
void do_zquery(struct request *req, struct reply *out) {
    const struct slice *args = req->args;
    double score;
    int64_t offset, limit;
    if (!parse_double(&args[2], &score)) {
        out_bad_double(out);
        return;
    }
    if (!parse_int(&args[4], &offset) || !parse_int(&args[5], &limit)) {
        out_bad_int(out);
        return;
    }
    struct zset *zset;
    if (!read_zset(req, &zset, out)) {
        return;
    }
    struct znode *znode = NULL;
    if (zset && limit > 0) {
        znode = zset_query(zset, score, args[3].data, args[3].len, offset);
    }
    size_t first = znode ? zset_rank(znode) : 0, left = znode ? zset_size(zset) - first : 0;
    size_t n = limit > 0 && (uint64_t)limit < left ? (size_t)limit : left;
    out_pairs(&(struct places){zset, first, first + n}, false, true, false, out);
}
