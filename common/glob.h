// glob.h: built in chapter 21
//
// Patterns for names, as in a shell:
//
//   *        any bytes, also none
//   ?        one byte
//   [abc]    one of these; [a-z] one of a range, [^abc] one that is none of them
//   \x       x itself, also where it is * ? [ or a backslash
//
// Where a star does not fit, only the last one passed takes a byte more: whatever an earlier one
// took, the last could make up for. So there is no recursion, and the time has a bound: the product
// of the two lengths, which is still long for long ones. Hence the budget: each byte of the pattern
// that is looked at is paid for, a star too, and none is looked at that cannot be paid.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Tells whether the class at *cur, behind its '[', contains `c`, and moves *cur behind it. One that
// is not closed ends with the pattern.
static inline bool glob_class(const uint8_t **cur, const uint8_t *end, uint8_t c) {
    const uint8_t *p = *cur;
    bool negated = p < end && *p == '^', found = false;
    p += negated;
    for (; p < end && *p != ']'; p++) {
        if (*p == '\\' && end - p >= 2) {
            found |= *++p == c;
        } else if (end - p >= 3 && p[1] == '-') {
            uint8_t low = p[0] < p[2] ? p[0] : p[2], high = p[0] < p[2] ? p[2] : p[0];
            found |= c >= low && c <= high;
            p += 2;
        } else {
            found |= *p == c;
        }
    }
    *cur = p < end ? p + 1 : end;
    return found != negated;
}

// Tells whether the one-byte part of a pattern at *cur matches `c`, and moves *cur behind it.
static inline bool glob_one(const uint8_t **cur, const uint8_t *end, uint8_t c) {
    uint8_t part = *(*cur)++;
    if (part == '[') {
        return glob_class(cur, end, c);
    }
    if (part == '\\' && *cur < end) {
        return *(*cur)++ == c;
    }
    return part == '?' || part == c;
}

// Takes `cost` from *budget. Returns whether so much was left; if not, nothing is.
static inline bool glob_pay(size_t *budget, size_t cost) {
    bool enough = cost <= *budget;
    *budget = enough ? *budget - cost : 0;
    return enough;
}

// Tells whether all of `text` matches all of `pattern`. Takes what it compares from *budget, and
// gives up, with false, where nothing is left. Cost: O(pattern * text) at worst.
static inline bool glob_match(const uint8_t *pattern, size_t pattern_len, const uint8_t *text,
                              size_t text_len, size_t *budget) {
    const uint8_t *pattern_end = pattern + pattern_len, *text_end = text + text_len;
    const uint8_t *star = NULL, *star_text = NULL; // behind the last star; where it stops taking
    while (text < text_end) {
        if (pattern < pattern_end && *pattern == '*') {
            star = ++pattern;
            star_text = text;
            if (!glob_pay(budget, 1)) {
                return false;
            }
            if (star == pattern_end) {
                return true;
            }
            continue;
        }
        size_t left = (size_t)(pattern_end - pattern);
        const uint8_t *cur = pattern, *end = pattern + (left < *budget ? left : *budget);
        bool one = cur < end && glob_one(&cur, end, *text);
        if (!glob_pay(budget, (size_t)(cur - pattern) + 1)) {
            return false;
        }
        if (one) {
            pattern = cur;
            text++;
        } else if (star) {
            pattern = star;
            text = ++star_text;
        } else {
            return false;
        }
    }
    while (pattern < pattern_end && *pattern == '*' && glob_pay(budget, 1)) {
        pattern++;
    }
    return pattern == pattern_end;
}
