// args.c: arguments, the keys among them, and the errors that many commands reply with
//
// Has no state.

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "reply.h"
#include "resp.h"

#include "server.h"

// Returns args[i], a key, with its hash, to be looked up. Of args[1] the batch has computed it.
struct lookup_key hashed_key(const struct request *req, int i) {
    return i == 1 && req->key.key ? req->key : hash_of_key(&req->args[i]);
}

// Looks up the key args[i], which is to be read: see lookup_read().
struct entry *read_key(const struct request *req, int i) {
    return lookup_read(req->conn->db, hashed_key(req, i));
}

// Looks up the key args[i], about which something is asked: see lookup_peek().
struct entry *peek_key(const struct request *req, int i) {
    return lookup_peek(req->conn->db, hashed_key(req, i));
}

// Looks up the key args[i], which is to be changed: see lookup_write().
struct hnode **write_key(const struct request *req, int i) {
    return lookup_write(req->conn->db, hashed_key(req, i));
}

// Returns whether `arg` is an integer as resp.h has it, which is *value then.
bool parse_int(const struct slice *arg, int64_t *value) {
    return resp_parse_int(arg->data, arg->len, value);
}

// double = what strtod() reads, in the range of a double
//
// Returns whether `arg` is one. Where it is not, *value is undefined. Never yields NaN.
bool parse_double(const struct slice *arg, double *value) {
    char local[64];
    char *text = arg->len < sizeof(local) ? local : mem_alloc(arg->len + 1);
    memcpy(text, arg->data, arg->len);
    text[arg->len] = '\0';
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    bool in_range = errno != ERANGE || (fabs(*value) != HUGE_VAL && *value != 0);
    bool ok = arg->len > 0 && !isspace((unsigned char)text[0]) && end == text + arg->len &&
              in_range && !isnan(*value);
    if (text != local) {
        free(text);
    }
    return ok;
}

// Tells whether `arg` is `word`, which is in small letters, in letters of any case. Compares the
// whole of both, so a NUL byte in arg is a byte like any other.
bool is_word(const struct slice *arg, const char *word) {
    size_t i = 0;
    while (i < arg->len && word[i] && tolower(arg->data[i]) == word[i]) {
        i++;
    }
    return i == arg->len && !word[i];
}

// Returns a copy of a pattern in small letters, as the names are that it is compared with; owned by
// the caller.
uint8_t *small_letters(const struct slice *pattern) {
    uint8_t *copy = mem_alloc(pattern->len + 1);
    for (size_t i = 0; i < pattern->len; i++) {
        copy[i] = (uint8_t)tolower(pattern->data[i]);
    }
    return copy;
}

void out_bad_int(struct reply *out) {
    reply_err(out, "ERR value is not an integer or out of range");
}

void out_bad_double(struct reply *out) {
    reply_err(out, "ERR value is not a valid float");
}

void out_bad_syntax(struct reply *out) {
    reply_err(out, "ERR syntax error");
}

void out_bad_arity(const char *name, struct reply *out) {
    reply_errf(out, "ERR wrong number of arguments for '%s' command", name);
}

void out_bad_type(struct reply *out) {
    reply_err(out, "WRONGTYPE Operation against a key holding the wrong kind of value");
}

void out_bad_time(const struct request *req, struct reply *out) {
    reply_errf(out, "ERR invalid expire time in '%s' command", req->command->name);
}

void out_too_big(struct reply *out) {
    reply_err(out, "ERR the reply is too big");
}
