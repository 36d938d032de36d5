// crowd.c, chapter 18: what idle connections cost
//
//   ./crowd SERVER [N]
//
// Starts the server, and connects to it: 100 times, 1000 times, up to N. Each connection sets a value
// of 20 KB, gets it back, and is idle from then on. Beside them one client asks for a key, again and
// again. Prints what a request takes of the server's processor time, and how much memory the server
// has grown by.

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base.h"
#include "io.h"
#include "mem.h"
#include "net.h"
#include "request.h"
#include "wire.h"

enum {
    k_requests = 2000,
    k_value = 20000,
    k_spare_fds = 50,
};

// Starts the server on a free port, which it says on standard error.
static pid_t start(const char *path, uint16_t *port) {
    int ends[2];
    if (pipe(ends) < 0) {
        die("pipe");
    }
    pid_t pid = fork();
    if (pid < 0) {
        die("fork");
    }
    if (pid == 0) {
        setenv("PORT", "0", 1);
        setenv("IDLE_TIMEOUT_MS", "0", 1);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(path, path, (char *)NULL);
        die("start %s", path);
    }
    close(ends[1]);
    FILE *log = fdopen(ends[0], "r"); // stays open: the server may have more to say
    char line[200] = "";
    unsigned found;
    if (!log || !fgets(line, sizeof(line), log) ||
        sscanf(line, "listening on 127.0.0.1:%u", &found) != 1) {
        line[strcspn(line, "\n")] = '\0';
        msg("%s should say where it listens, and says \"%s\"", path, line);
        exit(1);
    }
    *port = (uint16_t)found;
    return pid;
}

// Sends a request and reads the reply away.
static void ask(int fd, const char *const *words, size_t n) {
    struct slice args[3];
    for (size_t i = 0; i < n; i++) {
        args[i] = (struct slice){(const uint8_t *)words[i], strlen(words[i])};
    }
    size_t size = req_size(args, n);
    uint8_t *data = mem_alloc(4 + size);
    store_u32(data, (uint32_t)size);
    req_encode(args, n, data + 4);
    if (write_all(fd, data, 4 + size) < 0) {
        die("write");
    }
    free(data);
    uint8_t head[4];
    if (read_full(fd, head, 4) != 4) {
        die("read");
    }
    uint8_t *reply = mem_alloc(load_u32(head));
    if (read_full(fd, reply, load_u32(head)) != (ssize_t)load_u32(head)) {
        die("read");
    }
    free(reply);
}

// Returns the first number of a line that begins with `key` in a file of /proc; "" is any line.
static double look(pid_t pid, const char *file, const char *key) {
    char path[64], line[200];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    FILE *in = fopen(path, "r");
    if (!in) {
        die("open %s", path);
    }
    double number = 0;
    while (fgets(line, sizeof(line), in)) {
        if (strncmp(line, key, strlen(key)) == 0) {
            number = strtod(line + strlen(key), NULL);
            break;
        }
    }
    fclose(in);
    return number;
}

// Returns the microseconds that a request takes of the server's processor time, on average over many:
// the kernel may bring the count of a process that never sleeps up to date only every few milliseconds.
static double cost_us(pid_t pid, int fd) {
    const char *get[] = {"get", "nothing"};
    double before = look(pid, "schedstat", "");
    for (int i = 0; i < k_requests; i++) {
        ask(fd, get, 2);
    }
    return (look(pid, "schedstat", "") - before) / 1000 / k_requests;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        msg("usage: crowd SERVER [N]");
        return 1;
    }
    long n = argc > 2 ? strtol(argv[2], NULL, 10) : 1000;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit); // the server inherits it
    if (n < 1 || (rlim_t)n + k_spare_fds > limit.rlim_cur) {
        msg("N: a number from 1 to %ld here (ulimit -Hn)", (long)limit.rlim_cur - k_spare_fds);
        return 1;
    }
    uint16_t port;
    pid_t pid = start(argv[1], &port);
    struct in_addr ip = {htonl(INADDR_LOOPBACK)};
    int client = tcp_connect(ip, port);
    if (client < 0) {
        die("connect");
    }
    static char value[k_value + 1];
    memset(value, 'v', k_value);
    const char *set[] = {"set", "key", value}, *get[] = {"get", "key"};
    ask(client, set, 3);
    ask(client, get, 2);
    double alone_us = cost_us(pid, client), us = alone_us;
    double before_kb = look(pid, "status", "VmRSS:"), grown_kb = 0;
    printf("idle connections   us a request   KB more\n");
    printf("%16d   %12.1f   %7.0f\n", 0, alone_us, 0.0);
    long there = 0;
    for (long stop = 100; there < n; stop *= 10) {
        for (; there < stop && there < n; there++) {
            int fd = tcp_connect(ip, port);
            if (fd < 0) {
                die("connect");
            }
            ask(fd, set, 3);
            ask(fd, get, 2);
        }
        us = cost_us(pid, client);
        grown_kb = look(pid, "status", "VmRSS:") - before_kb;
        printf("%16ld   %12.1f   %7.0f\n", there, us, grown_kb);
    }
    bool light = grown_kb < (double)n, quick = us < 10 * alone_us;
    printf("an idle connection takes %s than 1 KB, and a request beside %ld of them %s\n",
           light ? "less" : "more",
           n,
           quick ? "what it takes alone" : "far longer than alone");
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    flush_stdout();
}
