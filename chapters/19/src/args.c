// args.c: arguments, and the errors that many commands reply with
//
// Has no state.

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mem.h"
#include "serial.h"

#include "server.h"

// integer = "0" | "-"? digit that is not 0, digit*
//
// Returns whether `arg` is one that fits *value. Where it is not, *value is undefined. Counts
// downwards, because INT64_MIN has no positive counterpart; the builtins of the compiler tell
// whether a result did not fit.
bool parse_int(const struct slice *arg, int64_t *value) {
    *value = 0;
    if (arg->len == 1 && arg->data[0] == '0') {
        return true;
    }
    bool negative = arg->len > 0 && arg->data[0] == '-';
    size_t i = negative ? 1 : 0;
    if (i == arg->len || arg->data[i] == '0') {
        return false;
    }
    for (; i < arg->len; i++) {
        int digit = arg->data[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(*value, 10, value) ||
            __builtin_sub_overflow(*value, digit, value)) {
            return false;
        }
    }
    return negative || !__builtin_sub_overflow(0, *value, value);
}

// double = what strtod() reads, but decimal and finite | ( "+" | "-" )? "inf"
//
// Returns whether `arg` is one. Where it is not, *value is undefined.
bool parse_double(const struct slice *arg, double *value) {
    char local[64];
    char *text = arg->len < sizeof(local) ? local : mem_alloc(arg->len + 1);
    memcpy(text, arg->data, arg->len);
    text[arg->len] = '\0';
    char *end = text;
    bool ok;
    if (arg->len > 0 && strspn(text, "0123456789+-.eE") == arg->len) {
        *value = strtod(text, &end);
        ok = end == text + arg->len && isfinite(*value);
    } else {
        bool negative = text[0] == '-';
        *value = negative ? -INFINITY : INFINITY;
        ok = strcasecmp(text + (negative || text[0] == '+'), "inf") == 0;
        ok = ok && strlen(text) == arg->len;
    }
    if (text != local) {
        free(text);
    }
    return ok;
}

void out_bad_int(struct buf *out) {
    out_err(out, ERR_ARG, "expected an integer");
}

void out_bad_double(struct buf *out) {
    out_err(out, ERR_ARG, "expected a finite decimal number, or inf");
}

void out_bad_type(struct buf *out) {
    out_err(out, ERR_TYPE, "the key holds a value of another type");
}

void out_too_big(struct buf *out) {
    out_err(out, ERR_2BIG, "the reply is too big");
}
