// t_pubsub.c: commands that publish and subscribe
//
// Has no state.

#include <string.h>

#include "glob.h"
#include "reply.h"

#include "server.h"

enum {
    k_subscribe_cost =
        128, // what a name counts for that a connection listens to from here on, or no more
};

// What a command is about, and what it is called in the messages that answer it.
struct kind_of {
    enum topic_kind kind;
    const char *on, *off;
};

static const struct kind_of k_channels = {CHANNEL, "subscribe", "unsubscribe"};
static const struct kind_of k_patterns = {PATTERN, "psubscribe", "punsubscribe"};

// Replies that the connection listens to the name now, or no more: nil where there was nothing to end.
static void out_subscribed(const struct conn *conn, const char *what, const struct slice *name,
                           struct reply *out) {
    reply_head(out, out->resp3 ? '>' : '*', 3);
    reply_cstr(out, what);
    if (name) {
        reply_str(out, name->data, name->len);
    } else {
        reply_nil(out);
    }
    size_t n = num_subscriptions(conn, CHANNEL) + num_subscriptions(conn, PATTERN);
    reply_int(out, (int64_t)n);
}

// Has the connection listen to all the names.
static void start(struct request *req, const struct kind_of *kind, struct reply *out) {
    for (int i = 1; i < req->nargs; i++) {
        if (!subscribe(req->conn, kind->kind, &req->args[i])) {
            reply_err(out, "ERR too many subscriptions");
            return;
        }
        turn_add(k_subscribe_cost);
        out_subscribed(req->conn, kind->on, &req->args[i], out);
    }
}

// What the subscriptions of a connection are copied to: they cannot end while we walk through them.
struct names {
    struct buf text;
    size_t n;
};

static bool add_name(const struct slice *name, void *arg) {
    struct names *names = arg;
    memcpy(buf_reserve(&names->text, sizeof(name->len)), &name->len, sizeof(name->len));
    buf_commit(&names->text, sizeof(name->len));
    memcpy(buf_reserve(&names->text, name->len), name->data, name->len);
    buf_commit(&names->text, name->len);
    return true;
}

// Has the connection listen to none of them any more.
static void stop_all(struct request *req, const struct kind_of *kind, struct reply *out) {
    size_t n = num_subscriptions(req->conn, kind->kind);
    if (!may_take(n * k_subscribe_cost)) {
        return;
    }
    struct names names = {0};
    each_subscription(req->conn, kind->kind, add_name, &names);
    for (size_t pos = 0; pos < buf_size(&names.text);) {
        struct slice name;
        memcpy(&name.len, buf_data(&names.text) + pos, sizeof(name.len));
        name.data = buf_data(&names.text) + pos + sizeof(name.len);
        pos += sizeof(name.len) + name.len;
        unsubscribe(req->conn, kind->kind, &name);
        out_subscribed(req->conn, kind->off, &name, out);
    }
    buf_dispose(&names.text);
    if (n == 0) {
        out_subscribed(req->conn, kind->off, NULL, out);
    }
}

// Has the connection listen no more to the names, to any where there are none.
static void stop(struct request *req, const struct kind_of *kind, struct reply *out) {
    if (req->nargs == 1) {
        stop_all(req, kind, out);
    }
    for (int i = 1; i < req->nargs; i++) {
        unsubscribe(req->conn, kind->kind, &req->args[i]);
        turn_add(k_subscribe_cost);
        out_subscribed(req->conn, kind->off, &req->args[i], out);
    }
}

// subscribe channel [channel ...]
void do_subscribe(struct request *req, struct reply *out) {
    start(req, &k_channels, out);
}

// unsubscribe [channel ...]
void do_unsubscribe(struct request *req, struct reply *out) {
    stop(req, &k_channels, out);
}

// psubscribe pattern [pattern ...]
void do_psubscribe(struct request *req, struct reply *out) {
    start(req, &k_patterns, out);
}

// punsubscribe [pattern ...]
void do_punsubscribe(struct request *req, struct reply *out) {
    stop(req, &k_patterns, out);
}

// publish channel message
void do_publish(struct request *req, struct reply *out) {
    const struct slice *channel = &req->args[1], *payload = &req->args[2];
    if (turn_asks()) {
        may_take(publish_cost(channel));
        return;
    }
    size_t budget = compare_budget(topics_size(PATTERN)), left = budget;
    size_t cost = find_listeners(channel, &left);
    turn_add(budget - left);
    bool cut = left == 0; // in a turn of its own, that is the fault of the pattern
    if ((!cut || may_take(k_turn_work + 1)) && may_take(cost)) {
        reply_int(out, (int64_t)send_to_listeners(channel, payload));
    }
}

// What `pubsub channels` lists, and what it goes by.
struct listing {
    struct reply *out;
    const struct slice *pattern; // NULL for all
    size_t budget, n;
};

static bool list_one(const struct slice *name, void *arg) {
    struct listing *listing = arg;
    const struct slice *pattern = listing->pattern;
    if (!pattern ||
        glob_match(pattern->data, pattern->len, name->data, name->len, &listing->budget)) {
        reply_str(listing->out, name->data, name->len);
        listing->n++;
    }
    return !pattern || listing->budget > 0;
}

// pubsub channels [pattern]
void do_pubsub_channels(struct request *req, struct reply *out) {
    if (req->nargs > 3) {
        const struct slice *word = &req->args[1];
        reply_errf(
            out,
            "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try PUBSUB HELP.",
            (int)word->len,
            word->data);
        return;
    }
    if (!may_take(topics_size(CHANNEL))) {
        return;
    }
    size_t budget = compare_budget(topics_size(CHANNEL)), max = num_topics(CHANNEL);
    struct listing listing = {.out = out, .budget = budget};
    listing.pattern = req->nargs == 3 ? &req->args[2] : NULL;
    size_t pos = reply_arr_begin(out, max);
    each_topic(CHANNEL, list_one, &listing);
    turn_add(budget - listing.budget);
    if (listing.pattern && listing.budget == 0) {
        buf_truncate(out->buf, pos);
        out_long_pattern(out);
    } else {
        reply_arr_end(out, pos, max, listing.n);
    }
}

// pubsub numsub [channel ...]
void do_pubsub_numsub(struct request *req, struct reply *out) {
    reply_arr(out, 2 * ((size_t)req->nargs - 2)); // in version 3, too
    for (int i = 2; i < req->nargs; i++) {
        reply_str(out, req->args[i].data, req->args[i].len);
        reply_int(out, (int64_t)num_listeners(&req->args[i]));
    }
}

// pubsub numpat
void do_pubsub_numpat(struct request *req, struct reply *out) {
    (void)req;
    reply_int(out, (int64_t)num_topics(PATTERN));
}
