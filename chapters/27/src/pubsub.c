// pubsub.c: channels, patterns, and who listens
//
// A channel is there as long as somebody listens to it; so is a pattern. A subscription is in two places:
// in the table of its connection, to be found by its name, and in the list of its topic, to be told.
//
// Owns the tables of all topics, the key of their hash, and the topics that a message was found to be for.

#include <stdlib.h>
#include <string.h>

#include "dlist.h"
#include "glob.h"
#include "hash.h"
#include "hashtable.h"
#include "hashtable_cursor.h"
#include "intrusive.h"
#include "mem.h"
#include "reply.h"

#include "server.h"

enum {
    k_delivery_cost = 16,       // what it counts for to put a message into an inbox
    k_match_cost = 16,          // to fetch a pattern, beside what is compared
    k_max_subscribed = 4 << 20, // bytes of what a connection has subscribed to
};

// A channel, or a pattern.
struct topic {
    struct hnode node;
    enum topic_kind kind;
    struct dlist listeners;
    size_t n;            // of them
    struct shared *head; // what each message begins with
    uint8_t name[];      // node.key_len bytes
};

struct subscription {
    struct hnode node;           // by the name of its topic, among those of its subscriber
    struct dlist listeners_node; // among those of its topic
    struct subscriber *subscriber;
    struct topic *topic;
};

// What a topic or a subscription is looked up by.
struct topic_key {
    struct hnode node;
    const uint8_t *name;
};

static struct hash_key hash_key;
static struct hmap topics[2]; // by kind
static size_t sizes[2];       // bytes that `pubsub channels` writes for all names
static struct shared *channel_head;

static struct topic **found; // the topics that find_listeners() has found
static size_t num_found;
static size_t max_found;

// Makes the tables ready. Ends the program if it cannot.
void pubsub_start(void) {
    static const char head[] = "3\r\n$7\r\nmessage\r\n";
    hash_key = hash_key_init();
    channel_head = shared_new(sizeof(head) - 1);
    memcpy(channel_head->data, head, sizeof(head) - 1);
}

// Frees the tables, when there are no connections any more.
void pubsub_end(void) {
    shared_drop(channel_head);
    hm_destroy(&topics[CHANNEL]);
    hm_destroy(&topics[PATTERN]);
    free(found);
}

static struct topic_key key_of(const struct slice *name) {
    uint32_t hcode = str_hash(&hash_key, name->data, name->len);
    return (struct topic_key){{.hcode = hcode, .key_len = (uint32_t)name->len}, name->data};
}

// An hnode_eq: compares a topic's name with that of a topic_key.
static bool topic_eq(const struct hnode *node, const struct hnode *key) {
    const struct topic *topic = container_of(node, struct topic, node);
    const struct topic_key *lookup = container_of(key, struct topic_key, node);
    return memcmp(topic->name, lookup->name, node->key_len) == 0;
}

// An hnode_eq: compares the name of a subscription's topic with that of a topic_key.
static bool subscription_eq(const struct hnode *node, const struct hnode *key) {
    const struct subscription *subscription = container_of(node, struct subscription, node);
    const struct topic_key *lookup = container_of(key, struct topic_key, node);
    return memcmp(subscription->topic->name, lookup->name, node->key_len) == 0;
}

// Returns the topic, NULL if nobody listens.
static struct topic *find_topic(enum topic_kind kind, const struct topic_key *key) {
    struct hnode **link = hm_lookup(&topics[kind], &key->node, topic_eq);
    return link ? container_of(*link, struct topic, node) : NULL;
}

// Returns what each message for the pattern begins with: the caller's reference.
static struct shared *pattern_head(const struct slice *name) {
    struct buf text = {0};
    struct reply out = {.buf = &text};
    reply_raw(&out, "4\r\n$8\r\npmessage\r\n");
    reply_str(&out, name->data, name->len);
    struct shared *head = shared_new(buf_size(&text));
    memcpy(head->data, buf_data(&text), buf_size(&text));
    buf_dispose(&text);
    return head;
}

// Adds a topic that is not there yet. Returns it, borrowed.
static struct topic *topic_add(enum topic_kind kind, const struct topic_key *key) {
    struct slice name = {key->name, key->node.key_len};
    struct topic *topic = mem_alloc(sizeof(*topic) + name.len);
    topic->node = key->node;
    topic->kind = kind;
    topic->n = 0;
    dlist_init(&topic->listeners);
    memcpy(topic->name, name.data, name.len);
    if (kind == PATTERN) {
        topic->head = pattern_head(&name);
    } else {
        topic->head = channel_head;
        channel_head->refs++;
    }
    hm_insert(&topics[kind], &topic->node);
    sizes[kind] += str_size(name.len);
    return topic;
}

// Takes the topic, to which nobody listens any more, out of its table.
static void topic_drop(struct topic *topic) {
    hm_pop(&topics[topic->kind], &topic->node, hnode_same);
    hm_shrink(&topics[topic->kind]);
    sizes[topic->kind] -= str_size(topic->node.key_len);
    shared_drop(topic->head);
    free(topic);
}

// Returns what the connection owns as a subscriber, begun if it is none.
static struct subscriber *subscriber_of(struct conn *conn) {
    if (!conn->subscriber) {
        conn->subscriber = mem_alloc(sizeof(*conn->subscriber));
        *conn->subscriber = (struct subscriber){.conn = conn};
        dlist_init(&conn->subscriber->send_node);
        dlist_init(&conn->subscriber->full_node);
    }
    return conn->subscriber;
}

static size_t subscription_size(size_t name_len) {
    return sizeof(struct subscription) + sizeof(struct topic) + name_len;
}

// Has the connection listen to what the name says. Returns whether it may, or does already.
bool subscribe(struct conn *conn, enum topic_kind kind, const struct slice *name) {
    struct subscriber *subscriber = subscriber_of(conn);
    struct topic_key key = key_of(name);
    if (hm_lookup(&subscriber->topics[kind], &key.node, subscription_eq)) {
        return true;
    }
    if (subscriber->size + subscription_size(name->len) > k_max_subscribed) {
        return false;
    }
    struct topic *topic = find_topic(kind, &key);
    topic = topic ? topic : topic_add(kind, &key);
    struct subscription *subscription = mem_alloc(sizeof(*subscription));
    *subscription = (struct subscription){key.node, {0}, subscriber, topic};
    hm_insert(&subscriber->topics[kind], &subscription->node);
    dlist_insert_before(&topic->listeners, &subscription->listeners_node);
    topic->n++;
    subscriber->size += subscription_size(name->len);
    return true;
}

// Ends a subscription, which is in the table of its subscriber no more.
static void subscription_free(struct subscription *subscription) {
    struct topic *topic = subscription->topic;
    dlist_detach(&subscription->listeners_node);
    subscription->subscriber->size -= subscription_size(topic->node.key_len);
    if (--topic->n == 0) {
        topic_drop(topic);
    }
    free(subscription);
}

// Has the connection listen no more to what the name says. Returns whether it did listen.
bool unsubscribe(struct conn *conn, enum topic_kind kind, const struct slice *name) {
    struct topic_key key = key_of(name);
    struct hnode *node = NULL;
    if (conn->subscriber) {
        node = hm_pop(&conn->subscriber->topics[kind], &key.node, subscription_eq);
    }
    if (node) {
        hm_shrink(&conn->subscriber->topics[kind]);
        subscription_free(container_of(node, struct subscription, node));
    }
    return node;
}

static bool end_one(struct hnode *node, void *arg) {
    (void)arg;
    subscription_free(container_of(node, struct subscription, node));
    return true;
}

// Has the connection listen to nothing any more. What waits in its inbox is still sent.
void unsubscribe_all(struct conn *conn) {
    struct subscriber *subscriber = conn->subscriber;
    if (subscriber) {
        for (int kind = CHANNEL; kind <= PATTERN; kind++) {
            hm_scan(&subscriber->topics[kind], end_one, NULL);
            hm_destroy(&subscriber->topics[kind]);
        }
    }
}

// Frees what a connection that is closed owns as a subscriber.
void subscriber_free(struct conn *conn) {
    if (conn->subscriber) {
        unsubscribe_all(conn);
        inbox_forget(conn);
        free(conn->subscriber);
    }
}

// What each_subscription() and each_topic() hand to each node.
struct visit {
    bool (*f)(const struct slice *name, void *arg);
    void *arg;
};

static bool visit_topic(struct hnode *node, void *arg) {
    const struct visit *visit = arg;
    const struct topic *topic = container_of(node, struct topic, node);
    struct slice name = {topic->name, node->key_len};
    return visit->f(&name, visit->arg);
}

static bool visit_subscription(struct hnode *node, void *arg) {
    return visit_topic(&container_of(node, struct subscription, node)->topic->node, arg);
}

// Calls f(name, arg) for all that the connection listens to, until f returns false. f must not change it.
void each_subscription(const struct conn *conn, enum topic_kind kind,
                       bool (*f)(const struct slice *name, void *arg), void *arg) {
    struct visit visit = {f, arg};
    if (conn->subscriber) {
        hm_scan(&conn->subscriber->topics[kind], visit_subscription, &visit);
    }
}

// Returns how many of them there are.
size_t num_subscriptions(const struct conn *conn, enum topic_kind kind) {
    return conn->subscriber ? hm_size(&conn->subscriber->topics[kind]) : 0;
}

// Tells whether the connection listens to anything.
bool is_subscriber(const struct conn *conn) {
    return num_subscriptions(conn, CHANNEL) + num_subscriptions(conn, PATTERN) > 0;
}

// Returns how many channels, or patterns, somebody listens to.
size_t num_topics(enum topic_kind kind) {
    return hm_size(&topics[kind]);
}

// Returns what it costs to list them: the buckets, and the bytes of their names.
size_t topics_size(enum topic_kind kind) {
    return hm_scan_cost(&topics[kind]) + sizes[kind];
}

// Calls f(name, arg) for each of them, until f returns false. f must not change them.
void each_topic(enum topic_kind kind, bool (*f)(const struct slice *name, void *arg), void *arg) {
    struct visit visit = {f, arg};
    hm_scan(&topics[kind], visit_topic, &visit);
}

// Returns how many listen to the channel by its name.
size_t num_listeners(const struct slice *channel) {
    struct topic_key key = key_of(channel);
    const struct topic *topic = find_topic(CHANNEL, &key);
    return topic ? topic->n : 0;
}

static void add_found(struct topic *topic) {
    if (num_found == max_found) {
        max_found = max_found ? max_found * 2 : 16;
        found = mem_realloc(found, max_found * sizeof(found[0]));
    }
    found[num_found++] = topic;
}

// What find_listeners() hands to each pattern: it may take from the budget all but what is kept for those
// behind it.
struct search {
    const struct slice *channel;
    size_t *budget;
    size_t share, kept; // for each, and for all that were not looked at yet
    bool cut;           // one has taken too long
};

static bool match_one(struct hnode *node, void *arg) {
    struct search *search = arg;
    struct topic *topic = container_of(node, struct topic, node);
    const struct slice *channel = search->channel;
    search->kept -= search->share;
    size_t left = *search->budget - search->kept;
    if (glob_pay(&left, k_match_cost) &&
        glob_match(topic->name, node->key_len, channel->data, channel->len, &left)) {
        add_found(topic);
    }
    *search->budget = search->kept + left;
    search->cut |= left == 0;
    return !search->cut || search->share >= k_match_cost;
}

// Finds out who is to get a message of the channel, for send_to_listeners(). Takes what it compares with
// patterns from *budget, half of which they have in equal shares. A pattern that takes too long is as one
// that does not match, and nothing is left then. Returns what it will cost to tell those that are found.
size_t find_listeners(const struct slice *channel, size_t *budget) {
    num_found = 0;
    if (hm_size(&topics[CHANNEL]) > 0) {
        struct topic_key key = key_of(channel);
        struct topic *topic = find_topic(CHANNEL, &key);
        if (topic) {
            add_found(topic);
        }
    }
    if (hm_size(&topics[PATTERN]) > 0) {
        size_t patterns = hm_size(&topics[PATTERN]), share = *budget / 2 / patterns;
        struct search search = {channel, budget, share, share * patterns, false};
        hm_scan(&topics[PATTERN], match_one, &search);
        *budget = search.cut ? 0 : *budget;
    }
    size_t n = 0;
    for (size_t i = 0; i < num_found; i++) {
        n += found[i]->n;
    }
    return n * k_delivery_cost;
}

// Returns what it will cost at least to find those that listen to the channel, and to tell them.
size_t publish_cost(const struct slice *channel) {
    return num_topics(PATTERN) * k_match_cost + num_listeners(channel) * k_delivery_cost;
}

// Returns what all messages of the channel with this payload end with: the caller's reference.
static struct shared *message_body(const struct slice *channel, const struct slice *payload) {
    struct shared *body = shared_new(str_size(channel->len) + str_size(payload->len));
    uint8_t *p = body->data;
    const struct slice *strings[] = {channel, payload};
    for (int i = 0; i < 2; i++) {
        *p++ = '$';
        p += int_text((int64_t)strings[i]->len, p);
        memcpy(p, "\r\n", 2);
        memcpy(p + 2, strings[i]->data, strings[i]->len);
        p += 2 + strings[i]->len;
        memcpy(p, "\r\n", 2);
        p += 2;
    }
    return body;
}

// Puts a message into the inboxes of those that find_listeners() has found for the channel. Returns into
// how many: one that listens to it in several ways gets it as often.
size_t send_to_listeners(const struct slice *channel, const struct slice *payload) {
    if (num_found == 0) {
        return 0;
    }
    struct shared *body = message_body(channel, payload);
    size_t n = 0;
    for (size_t i = 0; i < num_found; i++) {
        const struct dlist *list = &found[i]->listeners;
        for (struct dlist *cur = list->next; cur != list; cur = cur->next) {
            const struct subscription *subscription =
                container_of(cur, struct subscription, listeners_node);
            n += inbox_add(subscription->subscriber->conn, found[i]->head, body);
        }
    }
    shared_drop(body);
    num_found = 0;
    return n;
}
