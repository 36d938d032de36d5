// effect.c: what goes into the log
//
// Not what was sent, but what it has done: a command that makes the same of the same keys on any day, on any
// machine. Most requests say that themselves, and go into the log as they were sent. A time from now on
// becomes a date, a number that was rounded its result, and a key whose time is up is deleted by name.
// Owns what is known of the request at hand.

#include <string.h>

#include "buf.h"
#include "reply.h"

#include "server.h"

static struct {
    bool changed;  // it has changed something
    bool said;     // and its effect is in the log
    bool together; // it is one of a transaction
    bool multi;    // which has had an effect
    int db;        // that the batch has selected
} effect;

static void put_words(struct reply *out, const char *word, const char *second) {
    reply_arr(out, second ? 2 : 1);
    reply_cstr(out, word);
    if (second) {
        reply_cstr(out, second);
    }
}

// Appends a command that is done in the database with this index. Each batch selects its own, so that it
// can be read without those before it.
static void append(int db, const struct slice *args, size_t n) {
    if (!aof_is_on()) {
        return;
    }
    bool selected = aof_batch_is_open() && effect.db == db;
    struct reply out = {.buf = aof_open_batch()};
    if (!selected) {
        char index[] = {(char)('0' + db / 10), (char)('0' + db % 10), '\0'};
        put_words(&out, "SELECT", db < 10 ? index + 1 : index);
        effect.db = db;
    }
    if (effect.together && !effect.multi) {
        put_words(&out, "MULTI", NULL);
        effect.multi = true;
    }
    reply_arr(&out, n);
    for (size_t i = 0; i < n; i++) {
        reply_str(&out, args[i].data, args[i].len);
    }
}

static struct slice word(const char *text) {
    return (struct slice){(const uint8_t *)text, strlen(text)};
}

// Notes that the request at hand has changed something.
void effect_changed(void) {
    effect.changed = true;
}

// The key is deleted, since its time is up. That is nobody's request.
void effect_of_expiry(int db, const struct slice *key) {
    struct slice args[] = {word("DEL"), *key};
    append(db, args, 2);
}

// The effect of the request at hand is this command.
static void effect_is(int db, const struct slice *args, size_t n) {
    append(db, args, n);
    effect.said = true;
}

// Its effect is that the key is gone.
void effect_is_del(int db, const struct slice *key) {
    struct slice args[] = {word("DEL"), *key};
    effect_is(db, args, 2);
}

// Its effect is that the key has no deadline any more.
void effect_is_persist(int db, const struct slice *key) {
    struct slice args[] = {word("PERSIST"), *key};
    effect_is(db, args, 2);
}

// Its effect is that the key has this deadline.
void effect_is_deadline(int db, const struct slice *key, int64_t at_ms) {
    uint8_t text[k_max_digits];
    struct slice args[] = {word("PEXPIREAT"), *key, {text, int_text(at_ms, text)}};
    effect_is(db, args, 3);
}

// Its effect is that the key has this value, and the deadline: k_no_deadline for none, where it does not
// keep the one that it has.
void effect_is_set(int db, const struct slice *key, const struct slice *val, int64_t at_ms,
                   bool keep_ttl) {
    uint8_t text[k_max_digits];
    struct slice args[] = {word("SET"), *key, *val, word(keep_ttl ? "KEEPTTL" : "PXAT"), {text, 0}};
    bool has_deadline = !keep_ttl && at_ms != k_no_deadline;
    if (has_deadline) {
        args[4].len = int_text(at_ms, text);
    }
    effect_is(db, args, has_deadline ? 5 : keep_ttl ? 4 : 3);
}

// The request is done, in the database with this index: if it has changed something, and has not said what,
// it goes into the log as it was sent.
void effect_done(int db, const struct request *req) {
    if (effect.changed && !effect.said) {
        append(db, req->args, (size_t)req->nargs);
    }
    effect.changed = effect.said = false;
}

// What follows belongs together: in the log, too.
void effect_multi(void) {
    effect.together = true;
}

// Tells whether the request at hand is one of a transaction.
bool effect_is_together(void) {
    return effect.together;
}

// Ends that.
void effect_exec(void) {
    if (effect.multi && aof_is_on()) {
        struct reply out = {.buf = aof_open_batch()};
        put_words(&out, "EXEC", NULL);
    }
    effect.together = effect.multi = false;
}
