// load.c: a load generator for every stage, and for Redis
//
//   cc -O2 -Wall -Wextra -I../../common load.c -o load -lm
//   ./load --port 1234 --proto tagged --conns 50 --pipeline 16 --seconds 2 --mix get=9,set=1
//
// One thread and one epoll set. Each connection sends a batch of requests, waits for all replies,
// checks every one of them, and sends the next batch. A latency is the time from the send of the
// batch to the moment at which the reply was read. The results are one line of JSON.
//
// The key number i is "key:" and i in twelve digits; its value begins with "val:" and the same
// digits, so that a reply can be checked. --fill sends every key number once, in order, and stops.
//
// --every MS makes a probe of it: one request at a time, and a pause before each. With --reconnect
// each goes over a new connection, and its latency begins before connect().
//
// --listeners N opens as many connections more, which listen to the channel "news"; --mix publish then
// sends there. A batch is complete when each of them has heard all of it. What is counted, and has a
// latency, is a message that one of them has heard.

#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>

#include "base.h"
#include "fd.h"
#include "io.h"
#include "net.h"
#include "wire.h"

enum proto {
    PROTO_WORLD,  // 04: a message, "world" comes back
    PROTO_RAW,    // 05: bytes that come back, no messages
    PROTO_ECHO,   // 06: a message that comes back
    PROTO_STATUS, // 07, 08
    PROTO_TAGGED, // from 09 on
    PROTO_RESP,   // Redis
};
static const char *const k_protos[] = {"world", "raw", "echo", "status", "tagged", "resp"};

enum op {
    OP_PING, // a message of the value's size
    OP_GET,
    OP_SET,
    OP_DEL,
    OP_ZADD,    // a random score to a name, in the one set "zs"
    OP_ZQUERY,  // ten pairs from a score
    OP_ZOFF,    // ten pairs at a random offset from a score
    OP_EXPIRE,  // a TTL that ends --ttl milliseconds after the start, for all keys at one instant
    OP_PUBLISH, // the value of the key, to --listeners
    NUM_OPS,
};
static const char *const k_ops[NUM_OPS] = {
    "ping", "get", "set", "del", "zadd", "zquery", "zoff", "expire", "publish"};

static const char k_channel[] = "news";

enum {
    k_key_len = 16,
    k_max_batch = 1 << 16,
    k_buckets = 64 * 64, // of the latency histogram: 64 a power of two
    k_pairs = 10,
    k_keys_a_large = 16, // one key of so many has a value of --large bytes
};

// What was asked, to check the reply by.
struct asked {
    uint32_t id;
    uint8_t op;
};

struct conn {
    int fd;
    bool listens; // then `rlen` is how much of the batch it has heard, and there are no buffers
    bool sending;
    int done; // replies of this batch that have come
    size_t wlen, wsent, rlen;
    int64_t sent_ns;
    struct asked *asked;
    uint8_t *wbuf, *rbuf;
    size_t rcap;
};

static struct {
    uint16_t port;
    enum proto proto;
    int conns, idle, listeners, pipeline;
    double seconds;
    uint32_t first, keys;
    size_t value_size, large_size;
    uint32_t weights[NUM_OPS], weight_sum;
    bool fill;
    uint32_t offset_max;
    long ttl_ms;
    long every_ms;
    bool reconnect;
} opt = {
    .port = 1234,
    .proto = PROTO_TAGGED,
    .conns = 1,
    .pipeline = 1,
    .seconds = 1,
    .keys = 100000,
    .value_size = 16,
    .offset_max = 100000,
    .ttl_ms = 1000,
};

static struct {
    int epoll_fd;
    bool stopping;
    uint32_t next_id;
    uint64_t random;
    uint64_t requests, missing;
    uint64_t histogram[k_buckets];
    int64_t max_ns;
    int64_t start_ns;
    struct conn *conns, *listeners;
    uint8_t *heard; // what each listener hears of a batch: a message for each request
    size_t heard_size;
    int have_heard; // listeners that have heard all of it
} g_data = {.random = 88172645463325252};

// ---- small things ----

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// xorshift64 (Marsaglia 2003): fast, and the same in every run.
static uint64_t next_random(void) {
    g_data.random ^= g_data.random << 13;
    g_data.random ^= g_data.random >> 7;
    g_data.random ^= g_data.random << 17;
    return g_data.random;
}

// Latencies are kept to within 1/64: exact below 64 ns, 64 steps a power of two above.
static int bucket_of(int64_t ns) {
    if (ns < 64) {
        return ns < 0 ? 0 : (int)ns;
    }
    int power = 63 - __builtin_clzll((unsigned long long)ns);
    return (power - 5) * 64 + (int)(ns >> (power - 6)) - 64;
}

static double bucket_us(int bucket) {
    if (bucket < 64) {
        return bucket / 1e3;
    }
    int power = bucket / 64 + 5;
    return (double)((int64_t)(bucket % 64 + 64) << (power - 6)) / 1e3;
}

static double percentile_us(double share) {
    uint64_t wanted = (uint64_t)((double)g_data.requests * share), seen = 0;
    for (int i = 0; i < k_buckets; i++) {
        seen += g_data.histogram[i];
        if (seen > wanted) {
            return bucket_us(i);
        }
    }
    return (double)g_data.max_ns / 1e3;
}

static void put_digits(uint8_t *to, uint32_t id, int digits) {
    for (int i = digits - 1; i >= 0; i--) {
        to[i] = (uint8_t)('0' + id % 10);
        id /= 10;
    }
}

static void put_key(uint8_t *to, uint32_t id) {
    memcpy(to, "key:", 4);
    put_digits(to + 4, id, 12);
}

static size_t value_size(uint32_t id) {
    return opt.large_size && id % k_keys_a_large == 0 ? opt.large_size : opt.value_size;
}

// The value of a key: "val:", its digits, then x. Cut where it is to be shorter.
static void put_value(uint8_t *to, uint32_t id) {
    uint8_t head[k_key_len];
    memcpy(head, "val:", 4);
    put_digits(head + 4, id, 12);
    size_t size = value_size(id), n = size < k_key_len ? size : k_key_len;
    memcpy(to, head, n);
    memset(to + n, 'x', size - n);
}

static bool is_value(const uint8_t *from, uint32_t id) {
    uint8_t head[k_key_len];
    memcpy(head, "val:", 4);
    put_digits(head + 4, id, 12);
    size_t size = value_size(id), n = size < k_key_len ? size : k_key_len;
    return memcmp(from, head, n) == 0;
}

// ---- requests ----

// Writes the line in front of an array or of a string of RESP; returns what lies behind it. sprintf()
// would take longer than the server takes for the whole request.
static uint8_t *put_head(uint8_t *to, char type, size_t value) {
    uint8_t digits[20];
    size_t n = 0;
    do {
        digits[n++] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    *to++ = (uint8_t)type;
    while (n > 0) {
        *to++ = digits[--n];
    }
    memcpy(to, "\r\n", 2);
    return to + 2;
}

// Writes a command of strings in the protocol of this run; returns what lies behind it.
static uint8_t *put_command(uint8_t *to, const char *const *args, const size_t *lens, int n) {
    if (opt.proto == PROTO_RESP) {
        to = put_head(to, '*', (size_t)n);
        for (int i = 0; i < n; i++) {
            to = put_head(to, '$', lens[i]);
            memcpy(to, args[i], lens[i]);
            memcpy(to + lens[i], "\r\n", 2);
            to += lens[i] + 2;
        }
        return to;
    }
    uint8_t *header = to;
    store_u32(to + 4, (uint32_t)n);
    to += 8;
    for (int i = 0; i < n; i++) {
        store_u32(to, (uint32_t)lens[i]);
        memcpy(to + 4, args[i], lens[i]);
        to += 4 + lens[i];
    }
    store_u32(header, (uint32_t)(to - header - 4));
    return to;
}

static uint8_t *put_ping(uint8_t *to, uint32_t id) {
    if (opt.proto != PROTO_RAW) {
        store_u32(to, (uint32_t)value_size(id));
        to += 4;
    }
    put_value(to, id);
    return to + value_size(id);
}

static uint8_t *put_request(uint8_t *to, enum op op, uint32_t id) {
    if (op == OP_PING) {
        return put_ping(to, id);
    }
    static uint8_t *value;
    if (!value) {
        value = malloc(opt.value_size + opt.large_size);
    }
    bool resp = opt.proto == PROTO_RESP;
    char key[k_key_len + 1], score[16], offset[16], ttl[24];
    put_key((uint8_t *)key, id);
    const char *args[8] = {k_ops[op], key};
    size_t lens[8] = {strlen(k_ops[op]), k_key_len};
    int n = 2;
    if (op == OP_SET) {
        put_value(value, id);
        args[n] = (const char *)value;
        lens[n++] = value_size(id);
    } else if (op == OP_ZADD) {
        put_digits((uint8_t *)score, (uint32_t)(next_random() % 1000000), 6);
        args[1] = "zs", lens[1] = 2;
        args[n] = score, lens[n++] = 6;
        args[n] = key + 4, lens[n++] = k_key_len - 4;
    } else if (op == OP_ZQUERY || op == OP_ZOFF) {
        put_digits((uint8_t *)score, (uint32_t)(next_random() % 900000), 6);
        uint32_t skip = op == OP_ZOFF ? (uint32_t)(next_random() % opt.offset_max) : 0;
        size_t digits =
            (size_t)snprintf(offset, sizeof(offset), "%u", skip); // Redis takes no leading zeros
        args[1] = "zs", lens[1] = 2;
        if (resp) {
            args[0] = "ZRANGEBYSCORE", lens[0] = 13;
            args[n] = score, lens[n++] = 6;
            args[n] = "+inf", lens[n++] = 4;
            args[n] = "WITHSCORES", lens[n++] = 10;
            args[n] = "LIMIT", lens[n++] = 5;
        } else {
            args[0] = "zquery", lens[0] = 6;
            args[n] = score, lens[n++] = 6;
            args[n] = "", lens[n++] = 0;
        }
        args[n] = offset, lens[n++] = digits;
        args[n] = "10", lens[n++] = 2;
    } else if (op == OP_PUBLISH) {
        put_value(value, id);
        args[1] = k_channel, lens[1] = strlen(k_channel);
        args[n] = (const char *)value;
        lens[n++] = value_size(id);
    } else if (op == OP_EXPIRE) {
        args[0] = "pexpire", lens[0] = 7;
        long left_ms = opt.ttl_ms - (long)((now_ns() - g_data.start_ns) / 1000000);
        lens[n] = (size_t)snprintf(ttl, sizeof(ttl), "%ld", left_ms);
        args[n++] = ttl;
    }
    return put_command(to, args, lens, n);
}

static enum op choose_op(void) {
    uint32_t left = (uint32_t)(next_random() % opt.weight_sum);
    for (int op = 0;; op++) {
        if (left < opt.weights[op]) {
            return (enum op)op;
        }
        left -= opt.weights[op];
    }
}

// ---- replies ----

__attribute__((noreturn)) static void wrong(const struct asked *asked, const uint8_t *p, size_t n) {
    fprintf(stderr, "wrong reply to %s of key %u:", k_ops[asked->op], asked->id);
    for (size_t i = 0; i < n && i < 64; i++) {
        fprintf(stderr, " %02x", p[i]);
    }
    fprintf(stderr, "\n");
    exit(1);
}

// Returns the length of the RESP value at `p`, 0 where it is not whole.
static size_t resp_size(const uint8_t *p, size_t n) {
    const uint8_t *line_end = memchr(p, '\n', n);
    if (!line_end) {
        return 0;
    }
    size_t used = (size_t)(line_end - p) + 1, count = 0;
    if ((p[0] != '$' && p[0] != '*') || p[1] == '-') {
        return used;
    }
    for (const uint8_t *digit = p + 1; *digit >= '0' && *digit <= '9'; digit++) {
        count = count * 10 + (size_t)(*digit - '0');
    }
    if (p[0] == '$') {
        used += count + 2;
        return used <= n ? used : 0;
    }
    for (size_t i = 0; i < count; i++) {
        size_t size = used < n ? resp_size(p + used, n - used) : 0;
        if (size == 0) {
            return 0;
        }
        used += size;
    }
    return used;
}

static bool resp_ok(const struct asked *asked, const uint8_t *p, size_t n) {
    switch (asked->op) {
    case OP_GET:
        if (p[0] == '$' && p[1] == '-') {
            g_data.missing++;
            return true;
        }
        return p[0] == '$' && n >= value_size(asked->id) + 2 &&
               is_value(p + n - 2 - value_size(asked->id), asked->id);
    case OP_SET:
        return p[0] == '+';
    case OP_ZQUERY:
    case OP_ZOFF:
        return p[0] == '*';
    case OP_PUBLISH:
        return p[0] == ':' && atoi((const char *)p + 1) == opt.listeners;
    default:
        return p[0] == ':';
    }
}

static bool status_ok(const struct asked *asked, const uint8_t *p, size_t n) {
    uint32_t status = n >= 8 ? load_u32(p + 4) : 1;
    if (asked->op != OP_GET || status == 2) {
        g_data.missing += status == 2;
        return status == 0 || status == 2;
    }
    return status == 0 && n == 8 + value_size(asked->id) && is_value(p + 8, asked->id);
}

static bool tagged_ok(const struct asked *asked, const uint8_t *p, size_t n) {
    switch (asked->op) {
    case OP_GET:
        if (n == 5 && p[4] == 0) {
            g_data.missing++;
            return true;
        }
        return n == 9 + value_size(asked->id) && p[4] == 2 && is_value(p + 9, asked->id);
    case OP_SET:
        return n == 5 && p[4] == 0;
    case OP_ZQUERY:
    case OP_ZOFF:
        return n >= 9 && p[4] == 4 && load_u32(p + 5) <= 2 * k_pairs;
    default:
        return n == 13 && p[4] == 3;
    }
}

// Checks the reply at `p`. Returns its length, 0 where it is not whole.
static size_t take_reply(const struct asked *asked, const uint8_t *p, size_t n) {
    bool ok;
    size_t size;
    if (opt.proto == PROTO_RAW) {
        size = value_size(asked->id);
    } else if (opt.proto == PROTO_RESP) {
        size = n > 0 ? resp_size(p, n) : 0;
    } else {
        size = n >= 4 ? 4 + (size_t)load_u32(p) : 0;
    }
    if (size == 0 || size > n) {
        return 0;
    }
    switch (opt.proto) {
    case PROTO_WORLD:
        ok = size == 9 && memcmp(p + 4, "world", 5) == 0;
        break;
    case PROTO_RAW:
        ok = is_value(p, asked->id);
        break;
    case PROTO_ECHO:
        ok = size == 4 + value_size(asked->id) && is_value(p + 4, asked->id);
        break;
    case PROTO_STATUS:
        ok = status_ok(asked, p, size);
        break;
    case PROTO_TAGGED:
        ok = tagged_ok(asked, p, size);
        break;
    default:
        ok = resp_ok(asked, p, size);
    }
    if (!ok) {
        wrong(asked, p, size);
    }
    return size;
}

// ---- connections ----

static void watch_write(struct conn *conn, bool on) {
    if (conn->sending != on) {
        struct epoll_event event = {.events = EPOLLIN | (on ? EPOLLOUT : 0), .data.ptr = conn};
        epoll_ctl(g_data.epoll_fd, EPOLL_CTL_MOD, conn->fd, &event);
        conn->sending = on;
    }
}

static void flush(struct conn *conn) {
    ssize_t n = write(conn->fd, conn->wbuf + conn->wsent, conn->wlen - conn->wsent);
    if (n < 0 && errno != EAGAIN) {
        die("write");
    }
    conn->wsent += n > 0 ? (size_t)n : 0;
    watch_write(conn, conn->wsent < conn->wlen);
}

static int open_connection(void) {
    struct in_addr ip = env_ip("HOST");
    int fd = tcp_connect(ip, opt.port);
    if (fd < 0) {
        die("connect %s:%u", inet_ntoa(ip), (unsigned)opt.port);
    }
    return fd;
}

// Has the epoll set report what comes on the connection.
static void add_conn(struct conn *conn) {
    int one = 1;
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (fd_set_nb(conn->fd) < 0) {
        die("fcntl");
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    epoll_ctl(g_data.epoll_fd, EPOLL_CTL_ADD, conn->fd, &event);
}

static void connect_conn(struct conn *conn) {
    conn->fd = open_connection();
    add_conn(conn);
}

static void init_connection(struct conn *conn) {
    *conn = (struct conn){0};
    connect_conn(conn);
    size_t request_max = 160 + opt.value_size + opt.large_size;
    conn->wbuf = malloc((size_t)opt.pipeline * request_max);
    conn->asked = calloc((size_t)opt.pipeline, sizeof(conn->asked[0]));
    if (!conn->wbuf || !conn->asked) {
        die("malloc");
    }
}

// Adds to `heard` what each listener hears of a request.
static void add_heard(uint32_t id) {
    uint8_t *p = g_data.heard + g_data.heard_size;
    p += sprintf((char *)p,
                 "*3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$%zu\r\n",
                 strlen(k_channel),
                 k_channel,
                 value_size(id));
    put_value(p, id);
    p += value_size(id);
    memcpy(p, "\r\n", 2);
    g_data.heard_size = (size_t)(p + 2 - g_data.heard);
}

// Opens a connection that listens, and waits until it does.
static void init_listener(struct conn *conn) {
    static const char confirmation[] = "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n";
    const char *args[] = {"subscribe", k_channel};
    size_t lens[] = {strlen(args[0]), strlen(args[1])}, size = sizeof(confirmation) - 1;
    uint8_t request[64], reply[sizeof(confirmation)];
    *conn = (struct conn){.fd = open_connection(), .listens = true};
    size_t len = (size_t)(put_command(request, args, lens, 2) - request);
    if (write_all(conn->fd, request, len) < 0) {
        die("write");
    }
    if (read_full(conn->fd, reply, size) != (ssize_t)size ||
        memcmp(reply, confirmation, size) != 0) {
        msg("the server does not let a connection listen");
        exit(1);
    }
    add_conn(conn);
}

// The pause before each request of a probe. A signal ends it.
static void pause_probe(struct conn *conn) {
    if (opt.reconnect) {
        close(conn->fd);
    }
    struct timespec pause = {opt.every_ms / 1000, opt.every_ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

// Sends the next batch. Returns whether there is one.
static bool send_batch(struct conn *conn) {
    if (opt.every_ms) {
        pause_probe(conn);
    }
    if (g_data.stopping || (opt.fill && g_data.next_id >= opt.keys)) {
        return false;
    }
    uint8_t *p = conn->wbuf;
    g_data.heard_size = 0;
    g_data.have_heard = 0;
    for (int i = 0; i < opt.listeners; i++) {
        g_data.listeners[i].rlen = 0;
    }
    for (int i = 0; i < opt.pipeline; i++) {
        // A last batch that is not full asks for the last key again.
        uint32_t last = opt.keys - 1;
        uint32_t id = g_data.next_id < last ? g_data.next_id : last;
        if (opt.fill) {
            g_data.next_id++;
        } else {
            id = (uint32_t)(next_random() % opt.keys);
        }
        enum op op = choose_op();
        conn->asked[i] = (struct asked){.id = id, .op = (uint8_t)op};
        p = put_request(p, op, id);
        if (op == OP_PUBLISH) {
            add_heard(id);
        }
    }
    conn->wlen = (size_t)(p - conn->wbuf);
    conn->wsent = 0;
    conn->done = 0;
    conn->sent_ns = now_ns();
    if (opt.reconnect) {
        connect_conn(conn);
    }
    flush(conn);
    return true;
}

static void count(int64_t latency, int n) {
    g_data.histogram[bucket_of(latency)] += (uint64_t)n;
    g_data.requests += (uint64_t)n;
    if (n > 0 && latency > g_data.max_ns) {
        g_data.max_ns = latency;
    }
}

__attribute__((noreturn)) static void closed(void) {
    msg("the server closed the connection");
    exit(1);
}

// Reads and checks what a listener hears. Returns whether it has heard the batch, and is the last that has.
static bool hear(struct conn *conn) {
    static uint8_t buf[1 << 18];
    ssize_t n = read(conn->fd, buf, sizeof(buf));
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    if (n <= 0) {
        closed();
    }
    if ((size_t)n > g_data.heard_size - conn->rlen ||
        memcmp(buf, g_data.heard + conn->rlen, (size_t)n) != 0) {
        msg("a listener hears what was not published");
        exit(1);
    }
    conn->rlen += (size_t)n;
    if (conn->rlen < g_data.heard_size) {
        return false;
    }
    count(now_ns() - g_data.conns[0].sent_ns, opt.pipeline);
    return ++g_data.have_heard == opt.listeners && g_data.conns[0].done == opt.pipeline;
}

// Reads and checks. Returns whether the batch is complete.
static bool receive(struct conn *conn) {
    if (conn->rcap - conn->rlen < 1 << 16) {
        conn->rcap = conn->rcap * 2 + (1 << 17);
        conn->rbuf = realloc(conn->rbuf, conn->rcap);
    }
    ssize_t n = read(conn->fd, conn->rbuf + conn->rlen, conn->rcap - conn->rlen);
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    if (n <= 0) {
        closed();
    }
    conn->rlen += (size_t)n;
    int64_t latency = now_ns() - conn->sent_ns;
    size_t used = 0, size;
    int before = conn->done;
    while (conn->done < opt.pipeline &&
           (size = take_reply(&conn->asked[conn->done], conn->rbuf + used, conn->rlen - used))) {
        used += size;
        conn->done++;
    }
    if (opt.listeners == 0) {
        count(latency, conn->done - before);
    }
    conn->rlen -= used;
    memmove(conn->rbuf, conn->rbuf + used, conn->rlen);
    if (conn->done == opt.pipeline && conn->rlen > 0) {
        msg("%zu bytes more than were asked for", conn->rlen);
        exit(1);
    }
    return conn->done == opt.pipeline && g_data.have_heard == opt.listeners;
}

// ---- main ----

static void on_signal(int sig) {
    (void)sig;
    g_data.stopping = true;
}

__attribute__((noreturn)) static void usage(const char *program) {
    msg("usage: %s [--port N] [--proto world|raw|echo|status|tagged|resp] [--conns N] [--idle N]\n"
        "    [--listeners N] [--pipeline N] [--seconds S] [--keys N] [--value-size N] [--mix "
        "OP=WEIGHT,...] "
        "[--fill [--first N]]\n"
        "    [--large SIZE] [--offset-max N] [--ttl MS] [--every MS [--reconnect]]\n"
        "ops: ping get set del zadd zquery zoff expire; publish, alone, with listeners",
        program);
    exit(2);
}

static void parse_mix(const char *program, char *text) {
    for (char *item = strtok(text, ","); item; item = strtok(NULL, ",")) {
        char *weight = strchr(item, '=');
        if (weight) {
            *weight++ = '\0';
        }
        int op = 0;
        while (op < NUM_OPS && strcmp(item, k_ops[op]) != 0) {
            op++;
        }
        if (op == NUM_OPS) {
            usage(program);
        }
        opt.weights[op] = weight ? (uint32_t)atoi(weight) : 1;
        opt.weight_sum += opt.weights[op];
    }
}

static void parse_options(int argc, char **argv) {
    static const struct option options[] = {
        {"port", 1, 0, 'p'},
        {"proto", 1, 0, 'P'},
        {"conns", 1, 0, 'c'},
        {"idle", 1, 0, 'i'},
        {"listeners", 1, 0, 'L'},
        {"pipeline", 1, 0, 'd'},
        {"seconds", 1, 0, 's'},
        {"keys", 1, 0, 'k'},
        {"value-size", 1, 0, 'v'},
        {"mix", 1, 0, 'm'},
        {"large", 1, 0, 'l'},
        {"fill", 0, 0, 'f'},
        {"first", 1, 0, 'F'},
        {"offset-max", 1, 0, 'o'},
        {"ttl", 1, 0, 't'},
        {"every", 1, 0, 'e'},
        {"reconnect", 0, 0, 'r'},
        {0},
    };
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'p':
            opt.port = (uint16_t)atoi(optarg);
            break;
        case 'P':
            for (opt.proto = PROTO_WORLD; strcmp(optarg, k_protos[opt.proto]) != 0; opt.proto++) {
                if (opt.proto == PROTO_RESP) {
                    usage(argv[0]);
                }
            }
            break;
        case 'c':
            opt.conns = atoi(optarg);
            break;
        case 'i':
            opt.idle = atoi(optarg);
            break;
        case 'L':
            opt.listeners = atoi(optarg);
            break;
        case 'd':
            opt.pipeline = atoi(optarg);
            break;
        case 's':
            opt.seconds = atof(optarg);
            break;
        case 'k':
            opt.keys = (uint32_t)atol(optarg);
            break;
        case 'v':
            opt.value_size = (size_t)atol(optarg);
            break;
        case 'm':
            parse_mix(argv[0], optarg);
            break;
        case 'l':
            opt.large_size = (size_t)atol(optarg);
            break;
        case 'f':
            opt.fill = true;
            break;
        case 'F':
            opt.first = (uint32_t)atol(optarg);
            break;
        case 'o':
            opt.offset_max = (uint32_t)atol(optarg);
            break;
        case 't':
            opt.ttl_ms = atol(optarg);
            break;
        case 'e':
            opt.every_ms = atol(optarg);
            break;
        case 'r':
            opt.reconnect = true;
            break;
        default:
            usage(argv[0]);
        }
    }
    if (opt.weight_sum == 0) {
        opt.weights[opt.proto < PROTO_STATUS ? OP_PING : OP_GET] = opt.weight_sum = 1;
    }
    if (optind < argc || opt.conns < 1 || opt.pipeline < 1 || opt.pipeline > k_max_batch ||
        opt.keys < 1 || opt.offset_max < 1 || (opt.every_ms && opt.conns * opt.pipeline > 1) ||
        opt.weights[OP_PUBLISH] != (opt.listeners > 0 ? opt.weight_sum : 0) ||
        (opt.listeners > 0 && (opt.conns > 1 || opt.proto != PROTO_RESP)) ||
        (opt.reconnect && !opt.every_ms)) {
        usage(argv[0]);
    }
}

// Serves the connections until each has finished its last batch.
static void run(void) {
    int64_t end_ns = now_ns() + (int64_t)(opt.seconds * 1e9);
    int active = 0;
    for (int i = 0; i < opt.conns; i++) {
        active += send_batch(&g_data.conns[i]);
    }
    struct epoll_event events[256];
    while (active > 0) {
        int n = epoll_wait(g_data.epoll_fd, events, 256, 100);
        if (!opt.fill && now_ns() > end_ns) {
            g_data.stopping = true;
        }
        for (int i = 0; i < n; i++) {
            struct conn *conn = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) {
                flush(conn);
            }
            if (conn->listens && hear(conn)) {
                active -= !send_batch(&g_data.conns[0]);
            } else if (!conn->listens && events[i].events & ~(uint32_t)EPOLLOUT && receive(conn)) {
                active -= !send_batch(conn);
            }
        }
    }
}

int main(int argc, char **argv) {
    parse_options(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    g_data.epoll_fd = epoll_create1(0);

    for (int i = 0; i < opt.idle; i++) {
        open_connection();
    }
    g_data.listeners = calloc((size_t)opt.listeners + 1, sizeof(*g_data.listeners));
    g_data.heard = malloc((size_t)opt.pipeline * (64 + opt.value_size + opt.large_size));
    for (int i = 0; i < opt.listeners; i++) {
        init_listener(&g_data.listeners[i]);
    }
    g_data.conns = calloc((size_t)opt.conns, sizeof(*g_data.conns));
    for (int i = 0; i < opt.conns; i++) {
        init_connection(&g_data.conns[i]);
    }

    g_data.next_id = opt.first;
    g_data.start_ns = now_ns();
    run();
    double seconds = (double)(now_ns() - g_data.start_ns) / 1e9;
    double n = g_data.requests ? (double)g_data.requests : NAN;
    printf("{\"requests\": %llu, \"missing\": %llu, \"seconds\": %.6f, \"rate\": %.1f, "
           "\"p50_us\": %.3f, \"p99_us\": %.3f, \"p999_us\": %.3f, \"max_us\": %.3f}\n",
           (unsigned long long)g_data.requests,
           (unsigned long long)g_data.missing,
           seconds,
           n / seconds,
           percentile_us(0.5),
           percentile_us(0.99),
           percentile_us(0.999),
           (double)g_data.max_ns / 1e3);
}
