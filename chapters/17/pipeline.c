// pipeline.c, chapter 17: what does a get take, alone and in a batch?
//
//   ./pipeline SERVER [KEYS [zscore]]     a million keys where it is not said
//
// Starts the server, gives it that many keys, and asks for them in an order that no processor can
// guess: one at a time, 16 with one write, and 1000. Prints for each how many nanoseconds of processor
// time a get took of the server, the least of five rounds: other programs can only add to it. With
// `zscore` these are no keys but names in a sorted set, and it asks for their scores.

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "io.h"
#include "net.h"
#include "request.h"
#include "wire.h"

enum {
    k_default_keys = 1000000,
    k_most = 1000, // requests with one write
    k_key_size = 11,
    k_stride = 618033, // from a key to the next one that is asked for
    k_writes = 4000,   // a round has as many of them at most,
    k_gets = 20000,    // and as many requests
    k_rounds = 5,
};

// A request: what it is about is called a key here, also where it is a name in the sorted set z.
struct kind {
    const char *name;
    bool in_set;  // has z in front of the key
    bool scored;  // has a score in front of the key
    bool valued;  // has the key once more, as its value
    size_t reply; // bytes
};

static const struct kind k_set = {.name = "set", .valued = true, .reply = 4 + 1};
static const struct kind k_get = {.name = "get", .reply = 4 + 5 + k_key_size};
static const struct kind k_zadd = {.name = "zadd", .in_set = true, .scored = true, .reply = 4 + 9};
static const struct kind k_zscore = {.name = "zscore", .in_set = true, .reply = 4 + 9};

// Returns the slice of a text.
static struct slice slice_of(const char *text) {
    return (struct slice){(const uint8_t *)text, strlen(text)};
}

// Returns the processor time of a process in nanoseconds, as Linux counts it.
static double spent_ns(pid_t pid) {
    char path[64];
    double ns = 0;
    snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
    FILE *in = fopen(path, "r");
    if (!in || fscanf(in, "%lf", &ns) != 1) {
        die("%s", path);
    }
    fclose(in);
    return ns;
}

// Sends n requests of a kind with one write. The i-th is about the key with the number
// (first + i * stride) % keys. Reads the n replies.
static void ask(int fd, const struct kind *kind, uint32_t keys, uint32_t first, uint32_t stride,
                uint32_t n) {
    static uint8_t out[k_most * 64], in[k_most * 64];
    size_t size = 0;
    for (uint32_t i = 0; i < n; i++) {
        char key[k_key_size + 8];
        snprintf(key, sizeof(key), "key:%07u", (uint32_t)((first + (uint64_t)i * stride) % keys));
        struct slice args[5];
        size_t nargs = 0;
        args[nargs++] = slice_of(kind->name);
        if (kind->in_set) {
            args[nargs++] = slice_of("z");
        }
        if (kind->scored) {
            args[nargs++] = slice_of(key + 4);
        }
        args[nargs++] = slice_of(key);
        if (kind->valued) {
            args[nargs++] = slice_of(key);
        }
        store_u32(out + size, (uint32_t)req_size(args, nargs));
        req_encode(args, nargs, out + size + 4);
        size += 4 + req_size(args, nargs);
    }
    if (write_all(fd, out, size) < 0 ||
        read_full(fd, in, n * kind->reply) != (ssize_t)(n * kind->reply)) {
        die("the server has hung up");
    }
    for (uint32_t i = 0; i < n; i++) {
        if (load_u32(in + i * kind->reply) != kind->reply - 4) {
            msg("%s: a reply of a length that it cannot have", kind->name);
            exit(1);
        }
    }
}

// Returns what a request of this kind takes of the server in pipelines of n.
static double request_ns(int fd, pid_t pid, const struct kind *kind, uint32_t keys, uint32_t n) {
    uint32_t next = 0, writes = n * k_writes < k_gets ? k_writes : k_gets / n;
    double best = 1e18;
    for (int round = 0; round < k_rounds; round++) {
        double begin = spent_ns(pid);
        for (uint32_t i = 0; i < writes; i++) {
            ask(fd, kind, keys, next, k_stride, n);
            next = (uint32_t)((next + (uint64_t)n * k_stride) % keys);
        }
        double ns = (spent_ns(pid) - begin) / (writes * n);
        best = ns < best ? ns : best;
    }
    return best;
}

int main(int argc, char **argv) {
    char *end = "";
    unsigned long keys = argc > 2 ? strtoul(argv[2], &end, 10) : k_default_keys;
    bool in_set = argc == 4 && strcmp(argv[3], "zscore") == 0;
    if (argc < 2 || (argc > 3 && !in_set) || *end || keys < k_most || keys > 9999000 ||
        keys % k_most != 0) {
        msg("usage: pipeline SERVER [KEYS [zscore]], with KEYS a multiple of %d up to 9999000",
            k_most);
        return 1;
    }
    char command[256];
    snprintf(command, sizeof(command), "echo $$; PORT=0 IDLE_TIMEOUT_MS=0 exec %s 2>&1", argv[1]);
    FILE *log = popen(command, "r");
    pid_t pid;
    uint16_t port;
    if (!log || fscanf(log, "%d listening on 127.0.0.1:%hu", &pid, &port) != 2) {
        msg("%s does not say that it listens: is it a server of this workbook?", argv[1]);
        return 1;
    }
    int fd = tcp_connect((struct in_addr){htonl(INADDR_LOOPBACK)}, port);
    for (uint32_t i = 0; i < keys; i += k_most) {
        ask(fd, in_set ? &k_zadd : &k_set, (uint32_t)keys, i, 1, k_most);
    }
    const struct kind *kind = in_set ? &k_zscore : &k_get;
    uint32_t sizes[] = {1, 16, k_most};
    for (int i = 0; i < 3; i++) {
        double ns = request_ns(fd, pid, kind, (uint32_t)keys, sizes[i]);
        printf("in pipelines of %u: %.0f ns\n", sizes[i], ns);
    }
    close(fd);
    kill(pid, SIGTERM);
    return pclose(log) != 0;
}
