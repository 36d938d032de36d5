// client.c, chapter 19: a silent client costs nothing
//
// The client of chapter 12, unchanged. Sends its arguments as one command and prints the reply;
// without arguments it reads commands from standard input.

#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base.h"
#include "buf.h"
#include "io.h"
#include "mem.h"
#include "net.h"
#include "request.h"
#include "serial.h"
#include "serial_dbl.h"
#include "wire.h"

enum {
    k_max_msg = 32 << 20,
    k_max_depth = 1000, // of arrays within arrays
};

// ---- replies ----

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

// Prints the value that begins at `data`, whose sender may send anything. Returns how many of the
// `size` bytes it takes, or -1 where it is malformed or nested deeper than `depth`.
static ssize_t on_response(const uint8_t *data, size_t size, int depth) {
    if (size < 1 || depth < 0) {
        return -1;
    }
    uint8_t tag = data[0];
    if (tag == SER_NIL) {
        printf("(nil)\n");
        return 1;
    }
    if (tag == SER_ERR && size >= 9 && load_u32(data + 5) <= size - 9) {
        uint32_t len = load_u32(data + 5);
        printf("(err) %d ", (int32_t)load_u32(data + 1));
        print_bytes(data + 9, len);
        return 9 + (ssize_t)len;
    }
    if (tag == SER_STR && size >= 5 && load_u32(data + 1) <= size - 5) {
        uint32_t len = load_u32(data + 1);
        printf("(str) ");
        print_bytes(data + 5, len);
        return 5 + (ssize_t)len;
    }
    if (tag == SER_INT && size >= 9) {
        printf("(int) %lld\n", (long long)load_u64(data + 1));
        return 9;
    }
    if (tag == SER_DBL && size >= 9) {
        print_double(load_f64(data + 1));
        return 9;
    }
    if (tag == SER_ARR && size >= 5) {
        uint32_t n = load_u32(data + 1);
        size_t used = 5;
        printf("(arr) len=%u\n", n);
        for (uint32_t i = 0; i < n; i++) {
            ssize_t rv = on_response(data + used, size - used, depth - 1);
            if (rv < 0) {
                return -1;
            }
            used += (size_t)rv;
        }
        printf("(arr) end\n");
        return (ssize_t)used;
    }
    return -1;
}

// ---- one command ----

// Returns a connection to the server, or ends the program with one line that says why not.
static int connect_server(void) {
    struct in_addr ip = env_ip("HOST");
    uint16_t port = env_port();
    int fd = tcp_connect(ip, port);
    if (fd < 0) {
        die("connect %s:%u", inet_ntoa(ip), (unsigned)port);
    }
    return fd;
}

// Reads `n` bytes of an answer, or ends the program with one line that says why not.
static void read_answer(int fd, uint8_t *buf, size_t n) {
    ssize_t rv = read_full(fd, buf, n);
    if (rv < 0) {
        die("read");
    }
    if (rv < (ssize_t)n) {
        msg("the server closed the connection without a whole answer");
        exit(1);
    }
}

// Sends one command. Returns whether it is one that can be sent.
static bool send_req(int fd, const struct slice *args, size_t nargs) {
    size_t len = req_size(args, nargs);
    if (nargs > k_max_args || len > k_max_msg) {
        msg("too long: a command has at most %d words and %d bytes", k_max_args, k_max_msg);
        return false;
    }
    struct buf wbuf = {0};
    uint8_t *p = buf_reserve(&wbuf, 4 + len);
    store_u32(p, (uint32_t)len);
    req_encode(args, nargs, p + 4);
    buf_commit(&wbuf, 4 + len);
    if (write_all(fd, buf_data(&wbuf), buf_size(&wbuf)) < 0) {
        die("write");
    }
    buf_dispose(&wbuf);
    return true;
}

// Reads one reply and prints it.
static void read_res(int fd) {
    uint8_t header[4];
    read_answer(fd, header, 4);
    uint32_t len = load_u32(header);
    if (len < 1 || len > k_max_msg) {
        msg("bad reply: the server announces %u bytes", len);
        exit(1);
    }
    struct buf rbuf = {0};
    read_answer(fd, buf_reserve(&rbuf, len), len);
    buf_commit(&rbuf, len);
    if (on_response(buf_data(&rbuf), len, k_max_depth) != (ssize_t)len) {
        fflush(stdout);
        msg("bad reply: %u bytes that are not one value", len);
        exit(1);
    }
    flush_stdout();
    buf_dispose(&rbuf);
}

// ---- many commands ----

// Reads the byte that the escape sequence behind a backslash stands for, and moves *p behind it.
static char unescape(const char **p) {
    static const char letters[] = "nrtba", bytes[] = "\n\r\t\b\a";
    const char *cur = *p;
    if (cur[0] == 'x' && isxdigit((unsigned char)cur[1]) && isxdigit((unsigned char)cur[2])) {
        char hex[] = {cur[1], cur[2], '\0'};
        *p = cur + 3;
        return (char)strtol(hex, NULL, 16);
    }
    *p = cur + 1;
    const char *letter = strchr(letters, cur[0]);
    return letter ? bytes[letter - letters] : cur[0];
}

// Copies the quoted part of a word that begins at *p to *out, moving both behind it. Between double
// quotes all escape sequences count, between single quotes only \'. Returns whether it ends.
static bool read_quoted(const char **p, char **out) {
    char quote = *(*p)++;
    while (**p && **p != quote) {
        if (**p == '\\' && (quote == '"' ? (*p)[1] != '\0' : (*p)[1] == '\'')) {
            ++*p;
            *(*out)++ = unescape(p);
        } else {
            *(*out)++ = *(*p)++;
        }
    }
    if (**p != quote) {
        return false;
    }
    ++*p;
    return !**p || isspace((unsigned char)**p);
}

// Splits `line` into words as redis-cli does, in place: a word takes no more room than what it was
// written as. Returns their number, or -1 where a quote is not closed, is followed by more, or
// there are more than k_max_args words. args borrow from line.
static int split_words(char *line, struct slice *args) {
    const char *p = line;
    char *out = line;
    int nargs = 0;
    while (true) {
        while (isspace((unsigned char)*p)) {
            p++;
        }
        if (!*p) {
            return nargs;
        }
        if (nargs == k_max_args) {
            return -1;
        }
        char *word = out;
        while (*p && !isspace((unsigned char)*p)) {
            if (*p != '"' && *p != '\'') {
                *out++ = *p++;
            } else if (!read_quoted(&p, &out)) {
                return -1;
            }
        }
        args[nargs++] = (struct slice){(const uint8_t *)word, (size_t)(out - word)};
    }
}

// Tells whether the server has closed the connection. To be asked when no reply is due.
static bool hung_up(int fd) {
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

// Sends what standard input says, line by line. Returns the exit status.
static int serve_input(void) {
    int fd = connect_server();
    bool prompt = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    struct slice args[k_max_args];
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
        int nargs = memchr(line, '\0', (size_t)len) ? -1 : split_words(line, args);
        if (nargs < 0) {
            msg("not sent: a NUL, a quote that is not closed or has more behind it, or too many "
                "words");
            status = 1;
        } else if (nargs > 0) {
            if (hung_up(fd)) {
                msg("the server has closed the connection: connecting again");
                close(fd);
                fd = connect_server();
            }
            if (send_req(fd, args, (size_t)nargs)) {
                read_res(fd);
            } else {
                status = 1;
            }
        }
    }
    if (prompt) {
        printf("\n");
    }
    free(line);
    close(fd);
    return status;
}

// Sends the arguments of the program as one command. Returns the exit status.
static int serve_args(int argc, char **argv) {
    int fd = connect_server();
    struct slice *args = mem_calloc((size_t)argc, sizeof(*args));
    for (int i = 1; i < argc; i++) {
        args[i - 1] = (struct slice){(const uint8_t *)argv[i], strlen(argv[i])};
    }
    bool sent = send_req(fd, args, (size_t)argc - 1);
    if (sent) {
        read_res(fd);
    }
    free(args);
    close(fd);
    return sent ? 0 : 1;
}

int main(int argc, char **argv) {
    hold_std_fds();
    // Writing to a server that has left must fail with EPIPE, not end this program without a word.
    signal(SIGPIPE, SIG_IGN);
    return argc > 1 ? serve_args(argc, argv) : serve_input();
}
