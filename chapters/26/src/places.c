// places.c: ranges of sorted sets, and their pairs as replies have them
//
// Has no state. A range is named by places, by scores or by names: in the end it is one of places.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "avl.h"
#include "buf.h"
#include "intrusive.h"
#include "reply.h"
#include "zset.h"
#include "zset_rank.h"

#include "server.h"

enum {
    // A pair takes 6 bytes of a reply at least, where its name is empty.
    k_max_pairs = k_max_msg / 6,
};

// One end of a range of scores.
struct bound {
    double score;
    bool open; // the score itself is not in the range
};

// One end of a range of names.
struct name_bound {
    int beyond; // -1 in front of all names, 1 behind all of them; 0 at this one
    struct slice name;
    bool open; // the name itself is not in the range
};

// A range as a request has it.
struct range {
    int64_t first, last;
    struct bound scores[2];
    struct name_bound names[2];
};

// Returns what a range goes by where the name of its command says it: zcount goes by scores.
enum range_by range_of_command(const struct command *command) {
    return strstr(command->name, "lex")                                       ? BY_NAME
           : strstr(command->name, "score") || strstr(command->name, "count") ? BY_SCORE
                                                                              : BY_PLACE;
}

// bound = "("? double      also beyond the range: infinite; and nothing at all: 0
//
// Returns whether `arg` is one. Where it is not, *bound is undefined.
static bool parse_bound(const struct slice *arg, struct bound *bound) {
    bound->open = arg->len > 0 && arg->data[0] == '(';
    char text[400]; // 1e308 has 309 digits
    size_t skip = bound->open ? 1 : 0, len = arg->len - skip;
    if (len >= sizeof(text) || memchr(arg->data, '\0', arg->len)) {
        return false;
    }
    memcpy(text, arg->data + skip, len);
    text[len] = '\0';
    char *end;
    bound->score = strtod(text, &end);
    return end == text + len && !isnan(bound->score);
}

// bound = "-" | "+" | ("[" | "(") name      in front of all names, behind all of them, or at one
//
// Returns whether `arg` is one. Where it is not, *bound is undefined. As in Redis, a NUL ends it behind
// a sign.
static bool parse_name_bound(const struct slice *arg, struct name_bound *bound) {
    uint8_t first = arg->len > 0 ? arg->data[0] : 0;
    bool alone = arg->len == 1 || (arg->len > 1 && arg->data[1] == '\0');
    *bound = (struct name_bound){.beyond = first == '-' ? -1 : first == '+' ? 1 : 0};
    if (bound->beyond != 0) {
        return alone;
    }
    bound->open = first == '(';
    if (!bound->open && first != '[') {
        return false;
    }
    bound->name = (struct slice){arg->data + 1, arg->len - 1};
    return true;
}

// Reads both ends of a range. If one is wrong, replies with an error and returns false.
static bool parse_range(enum range_by by, const struct slice *min, const struct slice *max,
                        struct range *range, struct reply *out) {
    if (by == BY_PLACE && !(parse_int(min, &range->first) && parse_int(max, &range->last))) {
        out_bad_int(out);
        return false;
    }
    if (by == BY_SCORE &&
        !(parse_bound(min, &range->scores[0]) && parse_bound(max, &range->scores[1]))) {
        reply_err(out, "ERR min or max is not a float");
        return false;
    }
    if (by == BY_NAME &&
        !(parse_name_bound(min, &range->names[0]) && parse_name_bound(max, &range->names[1]))) {
        reply_err(out, "ERR min or max not valid string range item");
        return false;
    }
    return true;
}

// Sets the places from `first` to `last`, both included; negative ones count from the end.
static void set_places(struct places *places, int64_t first, int64_t last) {
    int64_t size = (int64_t)zset_size(places->zset);
    first = first >= 0 ? first : first < -size ? 0 : size + first;
    last = last >= 0 ? last : size + last;
    last = last < size ? last : size - 1;
    if (first <= last) {
        places->begin = (size_t)first;
        places->end = (size_t)last + 1;
    }
}

// Returns how many names come before the bound, or, with `equal`, not behind it. The scores have to be
// the same: then the pairs are in the order of their names. Cost: O(log n).
static size_t count_names_below(const struct zset *zset, const struct name_bound *bound,
                                bool equal) {
    size_t count = 0;
    if (bound->beyond != 0) {
        return bound->beyond < 0 ? 0 : zset_size(zset);
    }
    for (const struct avl_node *node = zset->root; node;) {
        const struct znode *znode = container_of(node, struct znode, tree);
        size_t len = znode->node.key_len, other = bound->name.len;
        int rv = memcmp(znode->name, bound->name.data, len < other ? len : other);
        if (rv < 0 || (rv == 0 && (len < other || (equal && len == other)))) {
            count += avl_cnt(node->left) + 1;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    return count;
}

// Finds the pairs in the range that the request names in args[2] and args[3], the larger end first where
// they are `swapped`; none if there is no set. If something is wrong, replies with an error and returns
// false.
bool find_places(struct request *req, enum range_by by, bool swapped, struct places *places,
                 struct reply *out) {
    struct range range;
    struct zset *zset;
    const struct slice *min = &req->args[swapped ? 3 : 2], *max = &req->args[swapped ? 2 : 3];
    bool writes = req->command->flags & WRITE;
    if (!parse_range(by, min, max, &range, out) ||
        !(writes ? write_zset(req, &zset, out) : read_zset(req, &zset, out))) {
        return false;
    }
    *places = (struct places){.zset = zset};
    if (!zset) {
        return true;
    }
    if (by == BY_PLACE) {
        set_places(places, range.first, range.last);
    } else if (by == BY_SCORE) {
        const struct bound *low = &range.scores[0], *high = &range.scores[1];
        places->begin = zset_count_below(zset, low->score, low->open);
        places->end = zset_count_below(zset, high->score, !high->open);
    } else {
        const struct name_bound *low = &range.names[0], *high = &range.names[1];
        places->begin = count_names_below(zset, low, low->open);
        places->end = count_names_below(zset, high, !high->open);
    }
    places->end = places->end > places->begin ? places->end : places->begin;
    return true;
}

// Replies the pairs at the places, from the last one to the first where `rev` says so: their names, or
// with their scores behind them, each pair an array where they are `nested`. Returns whether all are there:
// it may be no turn for so many, or the reply is too big.
bool out_pairs(const struct places *places, bool rev, bool scores, bool nested, struct reply *out) {
    size_t n = places->end - places->begin;
    if (n > k_max_pairs) {
        out_too_big(out); // even with empty names
        return false;
    }
    if (!may_take(n * k_pair_cost)) {
        return false;
    }
    size_t start = buf_size(out->buf), max_size = start + k_max_msg;
    reply_arr(out, scores && !nested ? n * 2 : n);
    size_t paid = 0;
    struct znode *znode =
        n > 0 ? zset_at(places->zset, rev ? places->end - 1 : places->begin) : NULL;
    for (size_t i = 0; i < n && buf_size(out->buf) <= max_size; i++) {
        size_t size = buf_size(out->buf) - start - paid; // known only now: it depends on the names
        if (size > k_turn_work) {
            if (!may_take(size)) {
                return false;
            }
            paid += size;
        }
        if (nested) {
            reply_arr(out, 2);
        }
        reply_str(out, znode->name, znode->node.key_len);
        if (scores) {
            reply_dbl(out, znode->score);
        }
        znode = rev ? znode_prev(znode) : znode_next(znode);
    }
    return buf_size(out->buf) <= max_size;
}
