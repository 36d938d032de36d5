// client.c, chapter 28: a log that stays short
//
// Sends its arguments as one command and prints the reply; without arguments it reads commands from
// standard input. It speaks RESP, version 3 where the server does, so it can talk to Redis as well.

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base.h"
#include "buf.h"
#include "io.h"
#include "mem.h"
#include "net.h"
#include "resp.h"

enum {
    k_max_depth = 1000, // of arrays within arrays
    k_read_size = 16 << 10,
};

// A connection to the server.
struct server {
    int fd;
    bool greeted;    // HELLO has been sent
    bool skips;      // its reply is still to come
    bool pinged;     // so is that to a ping that the user has not sent
    struct buf rbuf; // received, not printed yet
};

// What comes next in a reply.
struct value {
    char type;         // its first byte
    struct slice text; // the line behind that, or the string; borrowed from rbuf
    size_t n;          // values within it, which come next
    size_t size;       // of its own bytes in rbuf
};

// ---- replies ----

// Ends the program: the server does not speak as it should.
__attribute__((noreturn)) static void bad_reply(const char *what) {
    fflush(stdout);
    msg("bad reply: %s", what);
    exit(1);
}

// Reads until `n` bytes are there. Returns false where the server closes the connection before.
static bool can_read(struct server *server, size_t n) {
    while (buf_size(&server->rbuf) < n) {
        uint8_t *end = buf_reserve(&server->rbuf, k_read_size);
        ssize_t rv = read(server->fd, end, server->rbuf.cap - server->rbuf.tail);
        if (rv < 0 && errno == EINTR) {
            continue;
        }
        if (rv < 0) {
            die("read");
        }
        if (rv == 0) {
            return false;
        }
        buf_commit(&server->rbuf, (size_t)rv);
    }
    return true;
}

// Reads until `n` bytes of the reply are there. Ends the program with one line where they do not
// come.
static void read_bytes(struct server *server, size_t n) {
    if (!can_read(server, n)) {
        fflush(stdout);
        msg("the server closed the connection without a whole answer");
        exit(1);
    }
}

// Reads until the first line of the reply is there. Returns its length, without its CR LF.
static size_t read_line(struct server *server) {
    for (size_t len = 0; len <= k_resp_max_line; len++) {
        read_bytes(server, len + 2);
        const uint8_t *data = buf_data(&server->rbuf);
        if (data[len] == '\r' && data[len + 1] == '\n') {
            return len;
        }
    }
    bad_reply("a line without end");
}

// Prints `len` bytes as they are, and ends the line.
static void print_bytes(const uint8_t *data, size_t len) {
    fwrite(data, 1, len, stdout);
    printf("\n");
}

// Prints a double with as few digits as read back to the same number. From 1 to below a million
// that begins with 6, since fewer would turn 10 into 1e+01.
static void print_double(double value) {
    char text[32];
    for (int digits = fabs(value) >= 1 && fabs(value) < 1e6 ? 6 : 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    printf("(dbl) %s\n", text);
}

// Tells whether the type is one of these.
static bool is_type(char type, const char *types) {
    return type && strchr(types, type);
}

// Reads the string that a line of `value` announces, of `n` bytes and a CR LF.
static void read_string(struct server *server, struct value *value, size_t n) {
    read_bytes(server, value->size + n + 2);
    const uint8_t *data = buf_data(&server->rbuf) + value->size;
    size_t skip = value->type == '=' ? 4 : 0; // behind "txt:"
    if (data[n] != '\r' || data[n + 1] != '\n' || n < skip) {
        bad_reply("a string that does not end where it should");
    }
    value->text = (struct slice){data + skip, n - skip};
    value->size += n + 2;
}

// Reads the next value, but not the values within it. Trusts nothing: the sender may send anything.
static struct value read_value(struct server *server) {
    size_t len = read_line(server);
    const uint8_t *line = buf_data(&server->rbuf);
    if (len == 0) {
        bad_reply("an empty line");
    }
    struct value value = {.type = (char)line[0], .text = {line + 1, len - 1}, .size = len + 2};
    bool nested = is_type(value.type, "*~%>");
    if (!nested && value.type != '$' && value.type != '=') {
        return value;
    }
    int64_t n;
    if (!resp_parse_int(value.text.data, value.text.len, &n) || n < -1 || n > k_resp_max_size) {
        bad_reply("a length that cannot be");
    }
    if (n == -1) { // this is how version 2 writes nil
        value.type = '_';
        value.text.len = 0;
    } else if (nested) {
        value.n = (size_t)n * (value.type == '%' ? 2 : 1);
    } else {
        read_string(server, &value, (size_t)n);
    }
    return value;
}

// Prints a value that is a line. Returns whether it is one that we know.
static bool print_line(const struct value *value) {
    const struct slice *text = &value->text;
    int64_t n;
    char number[64] = "", *end = number;
    if (value->type == '_' && text->len == 0) {
        printf("(nil)\n");
        return true;
    }
    if (value->type == ':' && resp_parse_int(text->data, text->len, &n)) {
        printf("(int) %lld\n", (long long)n);
        return true;
    }
    if (value->type == '#' && text->len == 1 && (text->data[0] == 't' || text->data[0] == 'f')) {
        printf("(bool) %s\n", text->data[0] == 't' ? "true" : "false");
        return true;
    }
    if (value->type == ',' && text->len > 0 && text->len < sizeof(number)) {
        memcpy(number, text->data, text->len);
        double dbl = strtod(number, &end);
        if (end == number + text->len) {
            print_double(dbl);
            return true;
        }
    }
    return false;
}

// Reads a value and prints it. It is nested no deeper than `depth`.
static void print_reply(struct server *server, int depth) {
    struct value value = read_value(server);
    const char *what = value.type == '*'   ? "arr"
                       : value.type == '%' ? "map"
                       : value.type == '>' ? "push"
                                           : "set";
    if (is_type(value.type, "*~%>")) {
        if (depth == 0) {
            bad_reply("nested too deep");
        }
        printf("(%s) len=%zu\n", what, value.type == '%' ? value.n / 2 : value.n);
        buf_consume(&server->rbuf, value.size);
        for (size_t i = 0; i < value.n; i++) {
            print_reply(server, depth - 1);
        }
        printf("(%s) end\n", what);
        return;
    }
    if (is_type(value.type, "+$=-")) {
        printf(value.type == '-' ? "(err) " : "(str) ");
        print_bytes(value.text.data, value.text.len);
    } else if (!print_line(&value)) {
        bad_reply("a line that is no value");
    }
    buf_consume(&server->rbuf, value.size);
}

// Reads a value and does not print it.
static void skip_reply(struct server *server) {
    for (size_t left = 1; left > 0; left--) {
        struct value value = read_value(server);
        left += value.n;
        buf_consume(&server->rbuf, value.size);
    }
}

// ---- one command ----

// Connects to the server, or ends the program with one line that says why not.
static struct server connect_server(void) {
    struct in_addr ip = env_ip("HOST");
    uint16_t port = env_port();
    int fd = tcp_connect(ip, port);
    if (fd < 0) {
        die("connect %s:%u", inet_ntoa(ip), (unsigned)port);
    }
    return (struct server){.fd = fd};
}

static void close_server(struct server *server) {
    close(server->fd);
    buf_dispose(&server->rbuf);
}

// Sends one command; before the first one, in the same write, asks for version 3 of the language. Behind
// one that is answered by messages it `pings`: the reply to that says that they are all there.
// Returns whether the command is one that can be sent.
static bool send_req(struct server *server, const struct slice *args, size_t nargs, bool pings) {
    static const struct slice hello[] = {{(const uint8_t *)"hello", 5}, {(const uint8_t *)"3", 1}};
    static const struct slice ping = {(const uint8_t *)"ping", 4};
    struct buf wbuf = {0};
    if (!server->greeted) {
        resp_encode(hello, 2, &wbuf);
    }
    size_t greeting = buf_size(&wbuf);
    resp_encode(args, nargs, &wbuf);
    bool can = nargs <= k_resp_max_args && buf_size(&wbuf) - greeting <= k_resp_max_size;
    server->pinged = pings;
    if (pings) {
        resp_encode(&ping, 1, &wbuf);
    }
    if (!can) {
        msg("too long: a command has at most %d words and %d bytes",
            k_resp_max_args,
            k_resp_max_size);
    } else if (write_all(server->fd, buf_data(&wbuf), buf_size(&wbuf)) < 0) {
        die("write");
    } else if (!server->greeted) {
        server->greeted = server->skips = true;
    }
    buf_dispose(&wbuf);
    return can;
}

// Prints all messages that come before a reply. Returns the type of that.
static char print_messages(struct server *server) {
    char type;
    while ((type = read_value(server).type) == '>') {
        print_reply(server, k_max_depth);
    }
    return type;
}

// Reads one reply and prints it, and messages that come before it. Returns its type: '+' for a simple
// string, such as OK, '>' where there are messages alone.
static char read_res(struct server *server) {
    if (server->skips) {
        skip_reply(server); // what the server says of itself; an error if it speaks version 2 alone
        server->skips = false;
    }
    char type = print_messages(server);
    if (server->pinged) {
        if (type == '-') { // to the command: it did not begin to listen
            print_reply(server, k_max_depth);
            print_messages(server);
        } else {
            type = '>';
        }
        skip_reply(server);
        server->pinged = false;
    } else {
        print_reply(server, k_max_depth);
    }
    while (buf_size(&server->rbuf) > 0 && read_value(server).type == '>') {
        print_reply(server, k_max_depth);
    }
    if (buf_size(&server->rbuf) > 0) {
        bad_reply("more than one value");
    }
    flush_stdout();
    return type;
}

// Prints what comes until the server closes the connection.
static void hear(struct server *server) {
    while (can_read(server, 1)) {
        print_reply(server, k_max_depth);
        flush_stdout();
    }
}

// ---- many commands ----

// Tells whether the server has closed the connection. To be asked when no reply is due.
static bool hung_up(int fd) {
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static bool is_word(const struct slice *arg, const char *word) {
    return arg->len == strlen(word) && strncasecmp((const char *)arg->data, word, arg->len) == 0;
}

// Tells whether the command is answered by messages: by as many as it names, or more.
static bool is_subscribing(const struct slice *name) {
    return is_word(name, "subscribe") || is_word(name, "unsubscribe") ||
           is_word(name, "psubscribe") || is_word(name, "punsubscribe");
}

// What the server knows of this client, and forgets when the connection ends.
struct standing {
    struct buf selected; // the last command that has selected a database
    struct buf queued;   // the last such command in the queue of a transaction
    bool in_multi;       // there is such a queue
    bool watches;        // keys
};

// Notes what follows from a command to which the server has replied with this type.
static void note_reply(struct standing *standing, const struct resp_args *args, char type) {
    const struct slice *name = &args->items[0];
    bool ends = is_word(name, "exec") || is_word(name, "discard") || is_word(name, "reset");
    if (is_word(name, "select") && type == '+') {
        struct buf *noted = standing->in_multi ? &standing->queued : &standing->selected;
        buf_truncate(noted, 0);
        resp_encode(args->items, args->n, noted);
    } else if (is_word(name, "reset")) {
        buf_truncate(&standing->selected, 0);
    } else if (is_word(name, "exec") && type == '*' && buf_size(&standing->queued) > 0) {
        struct buf before = standing->selected;
        standing->selected = standing->queued;
        standing->queued = before;
    }
    if (ends) {
        standing->in_multi = standing->watches = false;
        buf_truncate(&standing->queued, 0);
    } else if (type == '+' && is_word(name, "multi")) {
        standing->in_multi = true;
    } else if (type == '+' && is_word(name, "watch")) {
        standing->watches = true;
    } else if (is_word(name, "unwatch") && !standing->in_multi) {
        standing->watches = false;
    }
}

// Connects again, and selects the database again: to the server, this client is a new one, and its
// database is 0. Ends the program where the server does not take it: the next command would go to the
// wrong database. A transaction cannot be taken up again: what is left of it must not be done alone.
static void connect_again(struct server *server, const struct standing *standing) {
    const struct buf *selected = &standing->selected;
    if (standing->in_multi || standing->watches) {
        msg("the server has closed the connection, and forgot the transaction: nothing more is "
            "sent");
        exit(1);
    }
    msg("the server has closed the connection: connecting again");
    close_server(server);
    *server = connect_server();
    if (buf_size(selected) == 0) {
        return;
    }
    if (write_all(server->fd, buf_data(selected), buf_size(selected)) < 0) {
        die("write");
    }
    if (read_value(server).type != '+') {
        read_res(server);
        msg("the database cannot be selected again: nothing more is sent");
        exit(1);
    }
    skip_reply(server);
}

// Sends what standard input says, line by line. Returns the exit status.
static int serve_input(void) {
    struct server server = connect_server();
    bool prompt = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    struct resp_args args = {0};
    struct standing standing = {0};
    char *line = NULL;
    size_t cap = 0;
    int status = 0;
    while (true) {
        if (prompt) {
            printf("> ");
            fflush(stdout);
        }
        ssize_t len = getline(&line, &cap, stdin);
        if (len < 0 && !feof(stdin)) {
            die("read from standard input");
        }
        if (len < 0) {
            break;
        }
        resp_args_clear(&args);
        uint8_t *words = mem_alloc((size_t)len + 1);
        if (!resp_split((const uint8_t *)line, (size_t)len, words, &args)) {
            msg("not sent: a quote that is not closed, or has more behind it");
            status = 1;
        } else if (args.n > 0) {
            if (hung_up(server.fd)) {
                connect_again(&server, &standing);
            }
            bool pings = is_subscribing(&args.items[0]) && !standing.in_multi;
            if (!send_req(&server, args.items, args.n, pings)) {
                status = 1;
            } else {
                note_reply(&standing, &args, read_res(&server));
                if (is_word(&args.items[0], "reset")) {
                    server.greeted = false; // it speaks version 2 again
                }
            }
        }
        free(words);
    }
    if (prompt) {
        printf("\n");
    }
    resp_args_dispose(&args);
    buf_dispose(&standing.selected);
    buf_dispose(&standing.queued);
    free(line);
    close_server(&server);
    return status;
}

// Sends the arguments of the program as one command. Returns the exit status.
static int serve_args(int argc, char **argv) {
    struct server server = connect_server();
    struct slice *args = mem_calloc((size_t)argc, sizeof(*args));
    for (int i = 1; i < argc; i++) {
        args[i - 1] = (struct slice){(const uint8_t *)argv[i], strlen(argv[i])};
    }
    bool sent = send_req(&server, args, (size_t)argc - 1, is_subscribing(&args[0]));
    if (sent && read_res(&server) == '>') {
        hear(&server);
    }
    free(args);
    close_server(&server);
    return sent ? 0 : 1;
}

int main(int argc, char **argv) {
    hold_std_fds();
    // Writing to a server that has left must fail with EPIPE, not end this program without a word.
    signal(SIGPIPE, SIG_IGN);
    return argc > 1 ? serve_args(argc, argv) : serve_input();
}
