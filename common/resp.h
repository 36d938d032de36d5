// resp.h: built in chapter 20
//
// RESP, the language of Redis: text that people can read, with lengths that programs can trust. A
// request is an array of strings, or, for a person at a terminal, a line of words.
//
//   request = array | line
//   array   = "*" count CR LF, count times string      count <= 0: no request, passed over
//   string  = "$" len CR LF, len bytes, CR LF
//   line    = words between blanks, LF or CR LF        as redis-cli takes them, with its quotes
//             the first is not POST or Host:           that would be HTTP, see resp_is_http()
//
//   get k   ->   *2\r\n$3\r\nget\r\n$1\r\nk\r\n        or        get k\r\n
//
// Like Redis, we count the bytes of a line end and hardly look at them: behind a count or a length
// only the CR is looked for, and behind the bytes of a string any two bytes will do.
//
// A request may arrive in any pieces. What is whole of it is not looked at again when more comes:
// struct resp_parser says how far it has been understood, in two numbers. The strings are taken
// apart once all of it is there, so a request that is announced and never sent costs nothing.
#pragma once

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "buf.h"
#include "mem.h"
#include "request.h"

enum {
    k_resp_max_size = 32 << 20, // bytes of a request
    k_resp_max_ours = 512 << 20,
    k_resp_max_args = 1 << 20,  // strings of a request
    k_resp_max_line = 64 << 10, // bytes of a line, and of the line in front of a string
    k_resp_kept_args = 4096,    // strings for which room is kept between requests
    k_resp_error_size = 64,
};

enum resp_status {
    RESP_BAD,  // not a request, and nothing says where the next one begins
    RESP_MORE, // the beginning of a request, as far as it has come
    RESP_DONE, // a request
};

// How far the first request has been parsed. Zeroed: not at all.
struct resp_parser {
    size_t pos;       // bytes that need no second look
    uint32_t strings; // of an array, still to come
    bool ours;        // made by us: it may be larger than what clients send
};

// Strings of requests, one after the other. Zeroed is empty; it owns both allocations.
struct resp_args {
    struct slice *items;
    size_t n;
    size_t cap;
    uint8_t *words; // what the words of a line stand for; one line at a time
};

// Adds a string; borrows its bytes. Cost: amortised O(1). Invalidates pointers into `items`.
static inline void resp_args_add(struct resp_args *args, const uint8_t *data, size_t len) {
    if (args->n == args->cap) {
        args->cap = args->cap ? args->cap * 2 : 64;
        args->items = mem_realloc(args->items, args->cap * sizeof(args->items[0]));
    }
    args->items[args->n++] = (struct slice){data, len};
}

// Forgets all strings, and gives back the room of very many.
static inline void resp_args_clear(struct resp_args *args) {
    args->n = 0;
    if (args->cap > k_resp_kept_args) {
        free(args->items);
        args->items = NULL;
        args->cap = 0;
    }
}

// Returns the strings from the one with this number on, NULL where there never was any. Borrowed.
static inline const struct slice *resp_args_from(const struct resp_args *args, size_t first) {
    return first > 0 ? args->items + first : args->items; // in C, NULL + 0 is undefined
}

// Frees what `args` owns.
static inline void resp_args_dispose(struct resp_args *args) {
    free(args->items);
    free(args->words);
    *args = (struct resp_args){0};
}

// integer = "0" | "-"? digit that is not 0, digit*
//
// Returns whether `data` is one that fits *value. Where it is not, *value is undefined. This is how
// Redis writes an integer, and so the only way in which it reads one.
static inline bool resp_parse_int(const uint8_t *data, size_t len, int64_t *value) {
    if (len == 1 && data[0] == '0') {
        *value = 0;
        return true;
    }
    size_t i = len > 0 && data[0] == '-' ? 1 : 0;
    bool negative = i == 1;
    if (i == len || data[i] == '0') {
        return false;
    }
    *value = 0;
    for (; i < len; i++) {
        int digit = data[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(*value, 10, value) ||
            __builtin_sub_overflow(*value, digit, value)) {
            return false;
        }
    }
    return negative || !__builtin_sub_overflow(0, *value, value);
}

// Writes why a request is bad, for the client, into `error`. Returns RESP_BAD.
static inline enum resp_status resp_bad(char *error, const char *why) {
    snprintf(error, k_resp_error_size, "Protocol error: %s", why);
    return RESP_BAD;
}

// head = type, integer, CR, any byte
//
// Reads the head of an array or of a string, which one `type` says. *used is how many bytes it
// takes. Most numbers have one or two digits, and are read without a search.
static inline __attribute__((always_inline)) enum resp_status
resp_head(const uint8_t *data, size_t size, char type, int64_t *value, size_t *used, char *error) {
    if (size >= 5 && data[0] == (uint8_t)type && data[1] >= '1' && data[1] <= '9') {
        if (data[2] == '\r') {
            *value = data[1] - '0';
            *used = 4;
            return RESP_DONE;
        }
        if (data[2] >= '0' && data[2] <= '9' && data[3] == '\r') {
            *value = (data[1] - '0') * 10 + (data[2] - '0');
            *used = 5;
            return RESP_DONE;
        }
    }
    const uint8_t *end = memchr(data, '\r', size < k_resp_max_line ? size : k_resp_max_line);
    if (!end && size > k_resp_max_line) {
        return resp_bad(error,
                        type == '*' ? "too big mbulk count string" : "too big bulk count string");
    }
    if (!end || size - (size_t)(end - data) < 2) {
        return RESP_MORE;
    }
    if (data[0] != (uint8_t)type) {
        char why[] = "expected '$', got ' '";
        why[sizeof(why) - 3] = data[0] < ' ' ? ' ' : (char)data[0]; // no line of a log ends there
        return resp_bad(error, why);
    }
    if (!resp_parse_int(data + 1, (size_t)(end - data) - 1, value)) {
        *value = INT64_MAX; // more than anything can have
    }
    *used = (size_t)(end - data) + 2;
    return RESP_DONE;
}

// Goes on with an array from where the parser stopped, and adds its strings to `args`, where that
// is not NULL. Stops behind the last string that is whole.
static inline enum resp_status resp_walk(struct resp_parser *parser, const uint8_t *data,
                                         size_t size, struct resp_args *args, char *error) {
    int64_t value, max = parser->ours ? k_resp_max_ours : k_resp_max_size;
    size_t used;
    if (parser->pos == 0) {
        enum resp_status status = resp_head(data, size, '*', &value, &used, error);
        if (status != RESP_DONE) {
            return status;
        }
        if (value > k_resp_max_args) {
            return resp_bad(error, "invalid multibulk length");
        }
        parser->pos = used;
        parser->strings = value > 0 ? (uint32_t)value : 0;
    }
    while (parser->strings > 0) {
        const uint8_t *head = data + parser->pos;
        size_t left = size - parser->pos;
        if (left == 0) {
            return RESP_MORE;
        }
        enum resp_status status = resp_head(head, left, '$', &value, &used, error);
        if (status != RESP_DONE) {
            return status;
        }
        if (value < 0 || value > max) {
            return resp_bad(error, "invalid bulk length");
        }
        size_t len = (size_t)value;
        if (parser->pos + used + len + 2 > (size_t)max) {
            return resp_bad(error, "too big request");
        }
        if (left - used < len + 2) {
            return RESP_MORE;
        }
        if (args) {
            resp_args_add(args, head + used, len);
        }
        parser->pos += used + len + 2;
        parser->strings--;
    }
    return RESP_DONE;
}

// Returns what the hexadecimal digit stands for, -1 where it is none.
static inline int resp_hex(uint8_t c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

// Copies what stands between quotes to *out, and moves that behind it. `cur` is behind the quote
// that opens. Between double quotes the sequences \n \r \t \b \a \xHH count, and a backslash takes
// the meaning from what follows it; between single quotes only from another one. Returns the place
// behind the quote that closes, NULL where there is none, or something follows it.
static inline const uint8_t *resp_quoted(const uint8_t *cur, const uint8_t *end, uint8_t **out) {
    static const char letters[] = "nrtba", bytes[] = "\n\r\t\b\a";
    uint8_t quote = cur[-1];
    while (cur < end && *cur != quote) {
        uint8_t c = *cur++;
        if (c == '\\' && cur < end && quote == '\'' && *cur == '\'') {
            c = *cur++;
        } else if (c == '\\' && cur < end && quote == '"') {
            c = *cur++;
            const char *letter = c ? strchr(letters, c) : NULL;
            if (letter) {
                c = (uint8_t)bytes[letter - letters];
            } else if (c == 'x' && end - cur >= 2 && resp_hex(cur[0]) >= 0 &&
                       resp_hex(cur[1]) >= 0) {
                c = (uint8_t)(resp_hex(cur[0]) * 16 + resp_hex(cur[1]));
                cur += 2;
            }
        }
        *(*out)++ = c;
    }
    return cur < end && (cur + 1 == end || isspace(cur[1])) ? cur + 1 : NULL;
}

// Tells whether the byte ends a word that is not quoted. (In front of a word more of them are blanks.)
static inline bool resp_ends_word(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// Splits a line of `len` bytes into words and adds them to `args`. What they stand for is written
// to `words`, which has room for the line and a byte more. Returns whether all quotes are closed.
static inline bool resp_split(const uint8_t *line, size_t len, uint8_t *words,
                              struct resp_args *args) {
    const uint8_t *end = line + len;
    while (true) {
        while (line < end && isspace(*line)) {
            line++;
        }
        if (line == end) {
            return true;
        }
        uint8_t *word = words;
        bool quoted = false; // what stands in quotes ends its word
        while (line < end && !quoted && !resp_ends_word(*line)) {
            quoted = *line == '"' || *line == '\'';
            if (!quoted) {
                *words++ = *line++;
            } else if (!(line = resp_quoted(line + 1, end, &words))) {
                return false;
            }
        }
        resp_args_add(args, word, (size_t)(words - word));
        *words++ = '\0'; // in the place of a blank: no two words begin at the same byte
    }
}

// Tells whether the first word of a line is one of HTTP. Any web page can make a browser send a form
// to this port, and we would take the lines of the form for commands.
static inline bool resp_is_http(const struct slice *word) {
    const char *text = (const char *)word->data;
    return (word->len == 4 && strncasecmp(text, "post", 4) == 0) ||
           (word->len == 5 && strncasecmp(text, "host:", 5) == 0);
}

// Reads a line. Its words are in args->words, until the next line is read.
static inline enum resp_status resp_line(struct resp_parser *parser, const uint8_t *data,
                                         size_t size, struct resp_args *args, char *error) {
    const uint8_t *end = memchr(data + parser->pos, '\n', size - parser->pos);
    size_t len = end ? (size_t)(end - data) : size;
    if (len > k_resp_max_line) {
        return resp_bad(error, "too big inline request");
    }
    parser->pos = len;
    if (!end) {
        return RESP_MORE;
    }
    if (!args->words) {
        args->words = mem_alloc(k_resp_max_line + 1);
    }
    parser->pos = len + 1;
    size_t first = args->n;
    if (!resp_split(data, len, args->words, args)) {
        return resp_bad(error, "unbalanced quotes in request");
    }
    if (args->n > first && resp_is_http(&args->items[first])) {
        return resp_bad(error, "HTTP is not spoken here");
    }
    return RESP_DONE;
}

// Reads the first request in `data`, of which `size` bytes are there, more than none, and no fewer
// than when the parser was used last. RESP_DONE: the strings of the request, none where it is
// empty, are added to args, and parser->pos is how many bytes it takes; zero the parser for the
// next one. RESP_MORE: call again when there are more bytes, also if they lie elsewhere then.
// RESP_BAD: error, room for k_resp_error_size, says why. The strings borrow from data, or from
// args->words. Cost: O(bytes that are new), and O(size) once when a request is whole that came in
// pieces.
static inline enum resp_status resp_parse(struct resp_parser *parser, const uint8_t *data,
                                          size_t size, struct resp_args *args, char *error) {
    if (data[0] != '*') {
        return resp_line(parser, data, size, args, error);
    }
    if (parser->pos == 0) {
        size_t n = args->n;
        enum resp_status status = resp_walk(parser, data, size, args, error);
        if (status != RESP_DONE) {
            args->n = n;
        }
        return status;
    }
    enum resp_status status = resp_walk(parser, data, size, NULL, error);
    if (status == RESP_DONE) {
        *parser = (struct resp_parser){.ours = parser->ours};
        status = resp_walk(parser, data, size, args, error);
    }
    return status;
}

// Writes the request of these `n` strings to the end of `out`.
static inline void resp_encode(const struct slice *args, size_t n, struct buf *out) {
    char head[32];
    int len = snprintf(head, sizeof(head), "*%zu\r\n", n);
    memcpy(buf_reserve(out, (size_t)len), head, (size_t)len);
    buf_commit(out, (size_t)len);
    for (size_t i = 0; i < n; i++) {
        len = snprintf(head, sizeof(head), "$%zu\r\n", args[i].len);
        uint8_t *p = buf_reserve(out, (size_t)len + args[i].len + 2);
        memcpy(p, head, (size_t)len);
        memcpy(p + len, args[i].data, args[i].len);
        memcpy(p + (size_t)len + args[i].len, "\r\n", 2);
        buf_commit(out, (size_t)len + args[i].len + 2);
    }
}
