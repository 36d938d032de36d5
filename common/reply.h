// reply.h: built in chapter 20
//
// Replies in RESP: the first byte says what comes, CR LF ends every line.
//
//   value  = "+" text CRLF                          a status
//          | "-" CODE " " text CRLF                 an error
//          | ":" integer CRLF
//          | "$" len CRLF, len bytes, CRLF          a string
//          | "*" count CRLF, count times value      an array
//   version 2:  nil = "$-1" CRLF, or "*-1" CRLF     a double is a string, a map or a set an array
//   version 3:  nil = "_" CRLF
//          | "," number CRLF                        a double
//          | "%" count CRLF, count times 2 values   a map
//          | "~" count CRLF, count times value      a set
//          | "=" len CRLF "txt:" text CRLF          text for people
//
// A client asks for version 3 with HELLO. The commands need not know: they say what they mean, and
// the functions here write it as the version has it.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "buf.h"

enum {
    k_max_digits = 20, // of an integer, with its sign
};

// Where replies go.
struct reply {
    struct buf *buf;
    bool resp3; // version 3, else 2
};

// Returns how many digits `value` has.
static inline size_t count_digits(uint64_t value) {
    size_t n = 1;
    for (; value >= 10; value /= 10) {
        n++;
    }
    return n;
}

// Writes `value` in decimal to `text`, room for k_max_digits. Returns the length.
static inline size_t int_text(int64_t value, uint8_t *text) {
    bool negative = value < 0;
    uint64_t left = negative ? -(uint64_t)value : (uint64_t)value;
    size_t len = count_digits(left) + negative;
    for (size_t i = len; i > negative; i--) {
        text[i - 1] = (uint8_t)('0' + left % 10);
        left /= 10;
    }
    if (negative) {
        text[0] = '-';
    }
    return len;
}

// Writes a line: the type, a number, CR LF.
static inline void reply_head(struct reply *out, char type, int64_t value) {
    uint8_t *p = buf_reserve(out->buf, k_max_digits + 3);
    p[0] = (uint8_t)type;
    size_t len = 1 + int_text(value, p + 1);
    memcpy(p + len, "\r\n", 2);
    buf_commit(out->buf, len + 2);
}

// Writes `text` as it is.
static inline __attribute__((always_inline)) void reply_raw(struct reply *out, const char *text) {
    size_t len = strlen(text);
    memcpy(buf_reserve(out->buf, len), text, len);
    buf_commit(out->buf, len);
}

// Writes nil: no value, such as that of a key that does not exist.
static inline void reply_nil(struct reply *out) {
    reply_raw(out, out->resp3 ? "_\r\n" : "$-1\r\n");
}

// Writes a status, such as OK: text that holds no CR and no LF.
static inline void reply_status(struct reply *out, const char *text) {
    reply_raw(out, "+");
    reply_raw(out, text);
    reply_raw(out, "\r\n");
}

// Writes an error: a code for programs, such as ERR, a blank, a text for people. A CR or LF in it,
// which would end the line, becomes a blank.
static inline void reply_err(struct reply *out, const char *text) {
    size_t len = strlen(text);
    uint8_t *p = buf_reserve(out->buf, len + 3);
    p[0] = '-';
    for (size_t i = 0; i < len; i++) {
        p[1 + i] = text[i] == '\r' || text[i] == '\n' ? ' ' : (uint8_t)text[i];
    }
    memcpy(p + 1 + len, "\r\n", 2);
    buf_commit(out->buf, len + 3);
}

// Writes an error as reply_err() does, formatted as printf() does and cut at 1024 bytes.
__attribute__((format(printf, 2, 3))) static inline void reply_errf(struct reply *out,
                                                                    const char *fmt, ...) {
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    reply_err(out, text);
}

// Returns how many bytes reply_str() writes for a string of `len` bytes.
static inline size_t str_size(size_t len) {
    return 1 + count_digits(len) + 2 + len + 2;
}

// Writes a string: a copy of `len` bytes.
static inline void reply_str(struct reply *out, const uint8_t *data, size_t len) {
    uint8_t *p = buf_reserve(out->buf, k_max_digits + 5 + len);
    p[0] = '$';
    size_t head = 1 + int_text((int64_t)len, p + 1);
    memcpy(p + head, "\r\n", 2);
    memcpy(p + head + 2, data, len);
    memcpy(p + head + 2 + len, "\r\n", 2);
    buf_commit(out->buf, head + len + 4);
}

// Writes a string of C.
static inline void reply_cstr(struct reply *out, const char *text) {
    reply_str(out, (const uint8_t *)text, strlen(text));
}

// Writes text that is meant for people, `len` bytes of it: a string, which version 3 marks.
static inline void reply_text(struct reply *out, const char *text, size_t len) {
    if (!out->resp3) {
        reply_str(out, (const uint8_t *)text, len);
        return;
    }
    reply_head(out, '=', (int64_t)len + 4);
    uint8_t *p = buf_reserve(out->buf, len + 6);
    memcpy(p, "txt:", 4);
    memcpy(p + 4, text, len);
    memcpy(p + 4 + len, "\r\n", 2);
    buf_commit(out->buf, len + 6);
}

// Writes an integer.
static inline void reply_int(struct reply *out, int64_t value) {
    reply_head(out, ':', value);
}

// Writes `value`, which is not NaN, to `text`, room for 32 bytes. Returns the length. 17 digits say
// exactly which double it is; whole numbers take a shorter way to the same text.
static inline size_t double_text(double value, char *text) {
    if (value > -1e15 && value < 1e15 && (double)(int64_t)value == value) {
        return int_text((int64_t)value, (uint8_t *)text);
    }
    return (size_t)snprintf(text, 32, "%.17g", value);
}

// Writes a double: in version 2 a string.
static inline void reply_dbl(struct reply *out, double value) {
    char text[32];
    size_t len = double_text(value, text);
    if (!out->resp3) {
        reply_str(out, (const uint8_t *)text, len);
        return;
    }
    uint8_t *p = buf_reserve(out->buf, len + 3);
    p[0] = ',';
    memcpy(p + 1, text, len);
    memcpy(p + 1 + len, "\r\n", 2);
    buf_commit(out->buf, len + 3);
}

// Begins an array of `n` values, which are to be written next.
static inline void reply_arr(struct reply *out, size_t n) {
    reply_head(out, '*', (int64_t)n);
}

// Begins a map of `n` pairs, the key before its value: in version 2 an array of all of them.
static inline void reply_map(struct reply *out, size_t n) {
    reply_head(out, out->resp3 ? '%' : '*', (int64_t)(out->resp3 ? n : n * 2));
}

// Begins a set of `n` values, in no order.
static inline void reply_set(struct reply *out, size_t n) {
    reply_head(out, out->resp3 ? '~' : '*', (int64_t)n);
}

// Begins an array of at most `max` values. Returns its position, with which reply_arr_end() says how
// many it has got.
static inline size_t reply_arr_begin(struct reply *out, size_t max) {
    size_t pos = buf_size(out->buf);
    reply_arr(out, max);
    return pos;
}

// Ends the array that begins at `pos`, for `max` values, and got `n`. A number is as long as it is:
// if there are fewer digits than were thought, the values move. Cost: O(1), or else O(bytes).
static inline void reply_arr_end(struct reply *out, size_t pos, size_t max, size_t n) {
    size_t gap = count_digits(max) - count_digits(n), size = buf_size(out->buf);
    uint8_t *p = buf_data(out->buf) + pos;
    size_t head = 1 + count_digits(n);
    int_text((int64_t)n, p + 1);
    if (gap > 0) {
        memmove(p + head, p + head + gap, size - pos - head - gap);
    }
    buf_truncate(out->buf, size - gap);
}
