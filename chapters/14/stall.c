// stall.c, chapter 14: what others notice when a large set is deleted
//
//   ./stall PAIRS get|connect|leave SERVER
//
// Starts the server, fills a sorted set, and deletes it. Prints how many milliseconds
//   get      the longest `get` took of another client, which sends one every 2 ms meanwhile
//   connect  it takes to connect and to be answered, a second after the set was deleted
//   leave    the server takes to end, if SIGTERM comes right after the reply
// Three rounds, each with a new server. Other programs can only make a number larger.

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base.h"
#include "io.h"
#include "net.h"
#include "request.h"
#include "wire.h"

enum { k_batch = 1000 };

static double clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

// Sends n requests with one write. Each %u in `words` becomes a number of its own.
static void ask(int fd, const char *words, uint32_t first, uint32_t n) {
    static uint8_t out[k_batch * 64];
    size_t size = 0;
    for (uint32_t i = first; i < first + n; i++) {
        char text[64];
        uint32_t number = i * 2654435761u; // neighbours in the set are not neighbours in memory
        snprintf(text, sizeof(text), words, number, number);
        struct slice args[4];
        size_t nargs = 0;
        for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
            args[nargs++] = (struct slice){(const uint8_t *)word, strlen(word)};
        }
        store_u32(out + size, (uint32_t)req_size(args, nargs));
        req_encode(args, nargs, out + size + 4);
        size += 4 + req_size(args, nargs);
    }
    if (write_all(fd, out, size) < 0) {
        die("write");
    }
}

// Reads replies of so many bytes.
static void hear(int fd, size_t size) {
    static uint8_t in[k_batch * 13];
    if (read_full(fd, in, size) != (ssize_t)size) {
        die("read");
    }
}

// Starts the server on a free port, which it says on standard error, behind its process number.
static FILE *start(const char *server, pid_t *pid, uint16_t *port) {
    char command[200];
    snprintf(command, sizeof(command), "echo $$; PORT=0 IDLE_TIMEOUT_MS=0 exec %s 2>&1", server);
    FILE *log = popen(command, "r");
    if (!log || fscanf(log, "%d listening on 127.0.0.1:%hu", pid, port) != 2) {
        die("%s", server);
    }
    return log;
}

static int dial(uint16_t port) {
    return tcp_connect((struct in_addr){htonl(INADDR_LOOPBACK)}, port);
}

// Asks for a key, and returns how long that took. Takes a new connection, if there is none yet.
static double get_ms(int *fd, uint16_t port) {
    double asked = clock_ms();
    if (*fd < 0) {
        *fd = dial(port);
    }
    ask(*fd, "get k", 0, 1);
    hear(*fd, 5); // nil
    return clock_ms() - asked;
}

// One round: returns the milliseconds that `what` says.
static double round_ms(const char *server, uint32_t pairs, const char *what) {
    bool get = strcmp(what, "get") == 0;
    pid_t pid;
    uint16_t port;
    FILE *log = start(server, &pid, &port);
    int one = dial(port), other = get ? dial(port) : -1;
    for (uint32_t i = 0; i < pairs; i += k_batch) {
        ask(one, "zadd big %u %u", i, k_batch);
        hear(one, k_batch * 13); // each reply is 4 bytes of length, a tag, a number of 8
    }
    ask(one, "del big", 0, 1);
    double longest = 0;
    if (get) {
        for (double end = clock_ms() + 500; clock_ms() < end; usleep(2000)) {
            double waited = get_ms(&other, port);
            longest = waited > longest ? waited : longest;
        }
    }
    hear(one, 13);
    if (strcmp(what, "connect") == 0) {
        sleep(1);
        longest = get_ms(&other, port);
    }
    double asked = clock_ms();
    kill(pid, SIGTERM);
    pclose(log); // waits until it has ended
    if (strcmp(what, "leave") == 0) {
        longest = clock_ms() - asked;
    }
    close(one);
    close(other);
    return longest;
}

int main(int argc, char **argv) {
    uint32_t pairs = argc == 4 ? (uint32_t)atoi(argv[1]) : 0;
    const char *what = argc == 4 ? argv[2] : "";
    bool known = !strcmp(what, "get") || !strcmp(what, "connect") || !strcmp(what, "leave");
    if (!known || pairs == 0 || pairs % k_batch != 0) {
        msg("usage: stall PAIRS get|connect|leave SERVER, with PAIRS a multiple of %d", k_batch);
        return 1;
    }
    printf("%7u pairs, wait in ms:", pairs);
    for (int i = 0; i < 3; i++) {
        printf(" %.1f", round_ms(argv[3], pairs, what));
        fflush(stdout);
    }
    printf("\n");
}
