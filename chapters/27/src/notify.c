// notify.c: events of the key space
//
// What happens to a key is published, for those who want to hear of the key, or of all keys to which
// the same happens. Owns which classes of events are wanted: none, at the start.

#include <stdio.h>
#include <string.h>

#include "buf.h"

#include "server.h"

enum {
    k_event_compared =
        64 << 10,           // bytes that an event is compared with patterns, beside 4 times all
    k_least_compared = 512, // and these for each of them
    k_max_kept = 64 << 10,  // bytes for which room is kept between events
};

// The classes, in the order in which they are written; A stands for those up to d. A bit of `wanted` is
// the place in here.
static const char k_classes[] = "g$lshzxetdnKEm";
static unsigned wanted;

enum {
    ALL_CLASSES = (1 << 10) - 1,
    KEYSPACE = 1 << 11,
    KEYEVENT = 1 << 12,
};

// What Redis calls each event, and the letter of its class.
// clang-format off
static const struct event_name {
    const char *name;
    char letter;
} k_names[] = {
    [EVENT_NEW] = {"new", 'n'}, [EVENT_KEYMISS] = {"keymiss", 'm'}, [EVENT_EXPIRED] = {"expired", 'x'},
    [EVENT_COPY_TO] = {"copy_to", 'g'}, [EVENT_DEL] = {"del", 'g'}, [EVENT_MOVE_FROM] = {"move_from", 'g'},
    [EVENT_MOVE_TO] = {"move_to", 'g'}, [EVENT_RENAME_FROM] = {"rename_from", 'g'},
    [EVENT_RENAME_TO] = {"rename_to", 'g'}, [EVENT_EXPIRE] = {"expire", 'g'},
    [EVENT_PERSIST] = {"persist", 'g'},
    [EVENT_APPEND] = {"append", '$'}, [EVENT_INCRBY] = {"incrby", '$'},
    [EVENT_INCRBYFLOAT] = {"incrbyfloat", '$'}, [EVENT_SET] = {"set", '$'},
    [EVENT_SETRANGE] = {"setrange", '$'},
    [EVENT_ZADD] = {"zadd", 'z'}, [EVENT_ZINCR] = {"zincr", 'z'}, [EVENT_ZPOPMAX] = {"zpopmax", 'z'},
    [EVENT_ZPOPMIN] = {"zpopmin", 'z'}, [EVENT_ZREM] = {"zrem", 'z'},
    [EVENT_ZREMRANGEBYLEX] = {"zremrangebylex", 'z'}, [EVENT_ZREMRANGEBYRANK] = {"zremrangebyrank", 'z'},
    [EVENT_ZREMRANGEBYSCORE] = {"zremrangebyscore", 'z'},
};
// clang-format on

// Returns the bit of a class, 0 where there is none with the letter.
static unsigned class_bit(char letter) {
    const char *place = letter ? strchr(k_classes, letter) : NULL;
    return place ? 1u << (place - k_classes) : 0;
}

// Writes which classes are wanted, as letters. All of g to d are one letter, which hides an n.
void get_event_classes(char text[32]) {
    bool all = (wanted & ALL_CLASSES) == ALL_CLASSES;
    if (all) {
        *text++ = 'A';
    }
    for (unsigned i = all ? 11 : 0; k_classes[i]; i++) {
        if (wanted & 1u << i) {
            *text++ = k_classes[i];
        }
    }
    *text = '\0';
}

// Sets *classes to the classes that the letters stand for. Returns whether each of them is one.
bool parse_event_classes(const struct slice *text, unsigned *classes) {
    *classes = 0;
    for (size_t i = 0; i < text->len; i++) {
        char letter = (char)text->data[i];
        unsigned bits = letter == 'A' ? ALL_CLASSES : class_bit(letter);
        if (bits == 0) {
            return false;
        }
        *classes |= bits;
    }
    return true;
}

// Has these classes of events be published from now on.
void set_event_classes(unsigned classes) {
    wanted = classes;
}

// Tells whether anybody wants events like this one.
bool is_wanted(enum event event) {
    return wanted & (KEYSPACE | KEYEVENT) && wanted & class_bit(k_names[event].letter);
}

// Tells whether what happens to a key may be a message for anybody.
bool are_events_heard(void) {
    return wanted & (KEYSPACE | KEYEVENT) && num_topics(CHANNEL) + num_topics(PATTERN) > 0;
}

// Publishes `payload` to the channel whose name is `prefix`, the index of the database, and `name`.
static void publish_event(const char *prefix, int db, const struct slice *name,
                          const struct slice *payload) {
    static struct buf text;
    char head[32];
    size_t len = (size_t)snprintf(head, sizeof(head), "%s@%d__:", prefix, db);
    memcpy(buf_reserve(&text, len), head, len);
    buf_commit(&text, len);
    memcpy(buf_reserve(&text, name->len), name->data, name->len);
    buf_commit(&text, name->len);
    struct slice channel = {buf_data(&text), buf_size(&text)};
    size_t each = num_topics(PATTERN) * k_least_compared;
    size_t budget = k_event_compared + each + 4 * topics_size(PATTERN), left = budget;
    size_t cost = find_listeners(&channel, &left);
    turn_add_beside(cost + budget - left);
    send_to_listeners(&channel, payload);
    buf_truncate(&text, 0);
    if (text.cap > k_max_kept) {
        buf_dispose(&text);
    }
}

// Tells those who want to hear of it what has happened to the key, which is in the database with this
// index: to those of the key the name of the event, to those of the event the name of the key.
void notify(int db, const struct slice *key, enum event event) {
    const char *name = k_names[event].name;
    struct slice what = {(const uint8_t *)name, strlen(name)};
    if (!is_wanted(event) || !are_events_heard()) {
        return;
    }
    if (wanted & KEYSPACE) {
        publish_event("__keyspace", db, key, &what);
    }
    if (wanted & KEYEVENT) {
        publish_event("__keyevent", db, &what, key);
    }
}
