// t_float.c: numbers with a fraction, which requests add to
//
// Has no state. Such a number is a long double, as in Redis: on x86 it has 64 bits for its digits, on
// other machines 53 or 113.

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reply.h"

#include "server.h"

enum {
    k_max_float = 5 << 10, // bytes of a number: 1e4932 has 4933 digits
};

// float = what strtold() reads, in the range of a long double
//
// Returns whether `arg` is one. Where it is not, *value is undefined. Never yields NaN.
static bool parse_float(const struct slice *arg, long double *value) {
    char text[k_max_float];
    if (arg->len == 0 || arg->len >= sizeof(text)) {
        return false;
    }
    memcpy(text, arg->data, arg->len);
    text[arg->len] = '\0';
    char *end;
    errno = 0;
    *value = strtold(text, &end);
    bool in_range = errno != ERANGE || (!isinf(*value) && *value != 0);
    return !isspace((unsigned char)text[0]) && end == text + arg->len && in_range && !isnan(*value);
}

// Writes a number to `text`, without an exponent and without zeros at the end of its fraction. Returns
// the length.
static size_t float_text(long double value, char text[k_max_float]) {
    size_t len = (size_t)snprintf(text, k_max_float, "%.17Lf", value);
    while (text[len - 1] == '0') {
        len--;
    }
    len -= text[len - 1] == '.';
    if (len == 2 && memcmp(text, "-0", 2) == 0) {
        text[0] = '0';
        len = 1;
    }
    return len;
}

// incrbyfloat key increment: adds to the number that the key holds, 0 where there is none, and replies it.
// The key keeps its TTL.
void do_incrbyfloat(struct request *req, struct reply *out) {
    struct hnode **link = write_key(req, 1);
    const struct entry *ent = entry_of(link);
    if (ent && ent->type != T_STR) {
        out_bad_type(out);
        return;
    }
    struct slice old = ent ? entry_val(ent) : (struct slice){(const uint8_t *)"0", 1};
    long double value, increment;
    if (!parse_float(&old, &value) || !parse_float(&req->args[2], &increment)) {
        out_bad_double(out);
        return;
    }
    value += increment;
    if (isnan(value) || isinf(value)) {
        reply_err(out, "ERR increment would produce NaN or Infinity");
        return;
    }
    char text[k_max_float];
    struct slice val = {(const uint8_t *)text, float_text(value, text)};
    entry_set(req->conn->db, hashed_key(req, 1), link, &val);
    db_changed(req->conn->db, &req->args[1], EVENT_INCRBYFLOAT);
    effect_is_set(db_index(req->conn->db), &req->args[1], &val, k_no_deadline, true);
    reply_str(out, val.data, val.len);
}
