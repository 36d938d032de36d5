"""20-reply-end: where a reply ends, in any pieces, with two numbers that are kept."""
from __future__ import annotations

from grading import Submission, points
from lab import passes

HEADERS = ["reply_end.h"]

# A reply as the pieces that are whole: lines, and strings with their lines. look() looks at `n` bytes; behind the last
# one lies a page that nobody may read, and the first `spoiled` ones but one are overwritten.
LOOK = r"""
#include <sys/mman.h>
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct text {
    char data[400];
    size_t size;
};

static uint8_t *g_page;
enum { k_page = 65536 };

static void pages(void) {
    g_page = mmap(NULL, 2 * k_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(g_page + k_page, k_page, PROT_NONE);
}

static enum resp_status look(struct reply_parser *parser, const void *text, size_t n, size_t spoiled) {
    uint8_t *data = g_page + k_page - n;
    memset(g_page, '?', k_page - n);
    memcpy(data, text, n);
    memset(data, '!', spoiled);
    return reply_end(parser, data, n);
}

// The bytes as they are written in C.
static const char *shown(const char *text, size_t n) {
    static char out[2000];
    char *p = out;
    for (size_t i = 0; i < n && i < 400; i++) {
        uint8_t c = (uint8_t)text[i];
        p += c == '\r' ? sprintf(p, "\\r") : c == '\n' ? sprintf(p, "\\n")
             : c < ' ' || c > '~' ? sprintf(p, "\\x%02x", c) : sprintf(p, "%c", c);
    }
    *p = '\0';
    return out;
}
"""

WHOLE = LOOK + r"""
#define REPLY(text) {text, sizeof(text) - 1}

int main(void) {
    static const struct text texts[] = {
        REPLY("+OK\r\n"), REPLY("+\r\n"), REPLY("-ERR no such thing\r\n"), REPLY(":0\r\n"), REPLY(":-12\r\n"),
        REPLY("_\r\n"), REPLY(",120.5\r\n"), REPLY(",inf\r\n"), REPLY("$5\r\nhello\r\n"), REPLY("$0\r\n\r\n"),
        REPLY("$4\r\n\r\n\r\n\r\n"), REPLY("$-1\r\n"), REPLY("*-1\r\n"), REPLY("*0\r\n"), REPLY("~0\r\n"),
        REPLY("%0\r\n"),
        REPLY("=9\r\ntxt:a\nb\r\n\r\n"), REPLY("$12\r\nhello, world\r\n"), REPLY("*2\r\n$1\r\na\r\n$-1\r\n"),
        REPLY("*2\r\n*3\r\n:1\r\n:2\r\n:3\r\n:4\r\n"), REPLY("*3\r\n*0\r\n*-1\r\n*1\r\n*1\r\n_\r\n"),
        REPLY("~2\r\n+a\r\n+b\r\n"), REPLY("%1\r\n+a\r\n:1\r\n"),
        REPLY("%2\r\n$1\r\na\r\n%1\r\n+b\r\n+c\r\n:2\r\n*2\r\n_\r\n,1\r\n"),
        REPLY("*11\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n:9\r\n:10\r\n*1\r\n:11\r\n"), REPLY("+a\rb\r\n"),
    };
    static const struct text tails[] = {REPLY(""), REPLY("+OK\r\n"), REPLY("*1\r\n"), REPLY("\r\n"), REPLY("nonsense")};
    pages();
    for (size_t i = 0; i < COUNT(texts); i++) {
        for (size_t j = 0; j < COUNT(tails); j++) {
            char both[1000];
            memcpy(both, texts[i].data, texts[i].size);
            memcpy(both + texts[i].size, tails[j].data, tails[j].size);
            TRYING("the reply %s", shown(texts[i].data, texts[i].size));
            struct reply_parser parser = {0};
            enum resp_status status = look(&parser, both, texts[i].size + tails[j].size, 0);
            if (status != RESP_DONE) {
                CAME("%s, with %zu bytes behind it", status == RESP_MORE ? "more is to come" : "it is bad",
                     tails[j].size);
                EXPECTED("it is whole");
            }
            if (parser.pos != texts[i].size) {
                CAME("its end is said to be behind %zu bytes", parser.pos);
                EXPECTED("%zu bytes", texts[i].size);
            }
        }
    }
    printf("all well\n");
}
"""

PIECES = LOOK + r"""
static const char *const parts[] = {
    "*5\r\n", "$3\r\nset\r\n", "%2\r\n", "+name\r\n", "$12\r\nhello, world\r\n", ":1\r\n", "*2\r\n", "$0\r\n\r\n",
    "_\r\n", "*0\r\n", "$-1\r\n", "=8\r\ntxt:text\r\n",
};

int main(void) {
    char text[400] = "";
    for (size_t i = 0; i < COUNT(parts); i++) {
        strcat(text, parts[i]);
    }
    size_t size = strlen(text);
    pages();
    for (size_t cut = 1; cut <= size; cut++) {
        TRYING("a reply of %zu bytes: first %zu of them, %s, then one more at a time, and another reply in between",
               size, cut, shown(text, cut));
        struct reply_parser parser = {0}, other = {0};
        for (size_t n = cut; n < size; n++) {
            size_t known = parser.pos, whole = 0;
            for (size_t i = 0; whole + strlen(parts[i]) <= n; i++) {
                whole += strlen(parts[i]);
            }
            enum resp_status status = look(&parser, text, n, known);
            if (status == RESP_BAD) {
                CAME("with %zu bytes it is bad; before, %zu of them needed no second look, and were overwritten", n,
                     known);
                EXPECTED("more is to come; have they been looked again at?");
            }
            if (status == RESP_DONE) {
                CAME("with %zu bytes it is over", n);
                EXPECTED("more is to come");
            }
            if (parser.pos < whole || parser.pos > n) {
                CAME("of %zu bytes, %zu need no second look", n, parser.pos);
                EXPECTED("%zu: so far values are whole", whole);
            }
            other = n % 7 == 0 ? (struct reply_parser){0} : other;
            if (look(&other, "*9\r\n:1\r\n:2\r\n", 4 + 4 * (n % 7 > 2) + 4 * (n % 7 > 4), 0) != RESP_MORE) {
                CAME("the beginning of another reply, with a parser of its own: it is over, or bad");
                EXPECTED("more is to come");
            }
        }
        if (look(&parser, text, size, parser.pos) != RESP_DONE || parser.pos != size) {
            CAME("with all bytes: it is not over, or ends behind %zu bytes", parser.pos);
            EXPECTED("a reply of %zu bytes", size);
        }
    }
    printf("all well\n");
}
"""

DEEP = r"""
enum { k_deep = 1000000, k_rows = 10000, k_piece = 50000 };

static void follow(char *text, size_t size, const char *what) {
    TRYING("%s, %zu bytes in pieces of %d", what, size, k_piece);
    struct reply_parser parser = {0};
    for (size_t n = k_piece; n < size; n += k_piece) {
        size_t known = parser.pos;
        enum resp_status status = reply_end(&parser, (uint8_t *)text, n);
        if (status != RESP_MORE) {
            CAME("with %zu bytes of %zu it is %s", n, size, status == RESP_BAD ? "bad" : "over");
            EXPECTED("more is to come");
        }
        if (parser.pos > n || parser.pos + 20 < n) {
            CAME("of %zu bytes, %zu need no second look", n, parser.pos);
            EXPECTED("nearly all of them");
        }
        memset(text + known, '!', parser.pos - known);
    }
    enum resp_status status = reply_end(&parser, (uint8_t *)text, size);
    if (status != RESP_DONE || parser.pos != size) {
        CAME("with all bytes it is %s, and %zu of them need no second look", status == RESP_BAD ? "bad" : "not over",
             parser.pos);
        EXPECTED("a reply of %zu bytes", size);
    }
}

int main(void) {
    TRYING("the size of a struct reply_parser");
    if (sizeof(struct reply_parser) > 2 * sizeof(uint64_t)) {
        CAME("it is %zu bytes large", sizeof(struct reply_parser));
        EXPECTED("two numbers");
    }
    static char text[k_deep * 4 + 1000];
    char *p = text;
    for (int i = 0; i < k_deep; i++) {
        p = mempcpy(p, "*1\r\n", 4);
    }
    p = mempcpy(p, ":1\r\n", 4);
    follow(text, (size_t)(p - text), "a million arrays in each other");
    p = text + sprintf(text, "%%%d\r\n", k_rows);
    for (int i = 0; i < k_rows; i++) {
        p += sprintf(p, "$6\r\n%06d\r\n*3\r\n:%d\r\n_\r\n*0\r\n", i, i);
    }
    follow(text, (size_t)(p - text), "a map of ten thousand arrays");
    printf("all well\n");
}
"""

BAD = LOOK + r"""
#define REPLY(text) {text, sizeof(text) - 1}

static void expect(const char *text, size_t size, enum resp_status right) {
    struct reply_parser parser = {0};
    TRYING("the bytes %s%s", shown(text, size < 60 ? size : 60), size > 60 ? " ..." : "");
    enum resp_status status = look(&parser, text, size, 0);
    if (status != right) {
        CAME("%s", status == RESP_DONE ? "it is whole" : status == RESP_MORE ? "more is to come" : "it is bad");
        EXPECTED("%s", right == RESP_DONE ? "it is whole" : right == RESP_MORE ? "more is to come" : "it is bad");
    }
}

int main(void) {
    static const struct text bad[] = {
        REPLY("x\r\n"), REPLY("\r\n\r\n\r\n"), REPLY("\0\r\n\r\n"), REPLY("*2\r\n:1\r\nhello\r\n"), REPLY("(1\r\n"),
        REPLY("$x\r\nabc\r\n"), REPLY("$\r\n\r\n\r\n"), REPLY("$5x\r\nhello\r\n"), REPLY("$05\r\nhello\r\n"),
        REPLY("$+5\r\nhello\r\n"),
        REPLY("$-2\r\n\r\n"), REPLY("*-2\r\n\r\n"), REPLY("%-1\r\n\r\n"), REPLY("~-1\r\n\r\n"), REPLY("=-1\r\n\r\n"),
        REPLY("$33554433\r\n"), REPLY("*33554433\r\n"), REPLY("%99999999999\r\n"),
        REPLY("*18446744073709551617\r\n:1\r\n"),
        REPLY("$18446744073709551615\r\n\r\n"), REPLY("$3\r\nabcde\r\n"), REPLY("*1\r\n$3\r\nabcd\r\n"),
        REPLY("$0\r\n+OK\r\n"),
        REPLY("+OK\n"), REPLY(":12\n"), REPLY("_\n"), REPLY("+\n"),
    };
    static const struct text more[] = {
        REPLY("+"), REPLY("+O"), REPLY("+OK\r"), REPLY("$"), REPLY("$5"), REPLY("$5\r"), REPLY("$5\r\n"),
        REPLY("$5\r\nhello"), REPLY("$5\r\nhello\r"), REPLY("*"), REPLY("*1"), REPLY("*1\r"), REPLY("*1\r\n"),
        REPLY("*2\r\n:1\r\n"),
        REPLY("%1\r\n:1\r\n"),
        REPLY("$33554432\r\nabc"), REPLY("*33554432\r\n"), REPLY("*3\r\n*-1\r\n*0\r\n"), REPLY("*-1"), REPLY("$-"),
    };
    pages();
    for (size_t i = 0; i < COUNT(bad); i++) {
        expect(bad[i].data, bad[i].size, RESP_BAD);
    }
    for (size_t i = 0; i < COUNT(more); i++) {
        expect(more[i].data, more[i].size, RESP_MORE);
    }
    TRYING("a status, then the line of a length, of which 70,000 bytes have come without an end");
    static char endless[70000];
    for (int i = 0; i < 2; i++) {
        memset(endless, i == 0 ? 'a' : '1', sizeof(endless));
        endless[0] = i == 0 ? '+' : '$';
        struct reply_parser parser = {0};
        if (reply_end(&parser, (uint8_t *)endless, sizeof(endless)) != RESP_BAD) {
            CAME("it is not bad");
            EXPECTED("it is bad: no line is as long");
        }
    }
    printf("all well\n");
}
"""


@points(2, "whole replies")
def test_whole(work: Submission) -> None:
    """Replies of every type, each whole and followed by nothing, by another one, or by nonsense."""
    passes(work, "whole", WHOLE, headers=HEADERS, cause="how many values does each value bring?")


@points(3, "in pieces")
def test_pieces(work: Submission) -> None:
    """A reply of nested values, of which one byte more comes at a time; what needs no second look is overwritten."""
    cause = "when does the parser change, and may `more` come after that?"
    passes(work, "pieces", PIECES, headers=HEADERS, cause=cause)


@points(2, "two numbers")
def test_deep(work: Submission) -> None:
    """A million arrays in each other, and a map of ten thousand arrays; what is kept of them is two numbers."""
    cause = "what must be known of the arrays around a value?"
    passes(work, "deep", DEEP, headers=HEADERS, cause=cause, flags=["-D_GNU_SOURCE"])


@points(2, "what is bad")
def test_bad(work: Submission) -> None:
    """What is no reply, what is not whole yet, and a line without end."""
    passes(work, "bad", BAD, headers=HEADERS, cause="which numbers are compared with which limits, and before what?")
