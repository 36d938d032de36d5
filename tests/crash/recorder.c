// recorder.c: preloaded into a server (LD_PRELOAD), it writes down what the server does to the
// files below one folder, in the order in which it does it, and when it sends something to a client.
//
//     RECORD_DIR      the folder
//     RECORD_FILE     the recording; a server that is started again goes on in it
//     FAIL            calls that fail: KIND:N:ERROR is the N-th call of this KIND; with :+ behind
//                     it, that one and all after it; several have commas between them. KIND is
//                     open, write, fsync, fdatasync, ftruncate, rename, unlink or mkdir; ERROR is
//                     EIO, ENOSPC, EMFILE, EACCES, or of a write short: half of it is written
//     SLOW_FSYNC_MS   milliseconds that each fsync or fdatasync takes longer
//
// A recording is a struct shared, and from k_head on a sequence of struct record, each followed by its
// name and its bytes. What changes a file is done and recorded under one lock, so the order is the
// true one. An fsync is not: other threads go on meanwhile, so its begin and its end are recorded.
// What was written before its begin is on the disk after its end; what was written between, perhaps.
//
// What a child of fork() does is recorded, too. The recording is a mapping that both share, so the
// child may close all descriptors that it has, and it may be killed at any time, with the lock in
// its hands: the next one that wants the lock is told so by the kernel, and goes on.
//
// Files are told apart by their inode numbers, since one keeps its number when it is renamed. Not
// seen are mmap, fallocate, and calls that libc makes by itself: a file with a stream is looked at
// when it is flushed, synced or closed, and has grown by one write then.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    k_max_fds = 4096,
    k_max_rules = 8,
    k_kinds = 8,
    k_head = 4096,      // bytes in front of the first record
    k_room = 256 << 20, // bytes of a recording at most: a file has only those that are written
    k_short = -1,       // in place of an errno: half of the bytes are written
};

enum {
    FLAG_CREATED = 1,
    FLAG_TRUNCATED = 2,
};

struct record {
    char op; // open, write, truncate, begin or end (of an fsync), rename, unlink, mkdir, sent
             // to a client, process begins, x: a call has failed
    uint8_t flags;
    uint16_t name_len;
    int32_t error; // errno of a call that failed
    uint64_t ns;   // monotonic clock
    uint64_t ino;
    uint64_t at; // write: offset; truncate: size; begin, end: a number that both have; sent: port
    uint64_t len;
};

static const char *const k_kind_names[k_kinds] = {
    "open",
    "write",
    "fsync",
    "fdatasync",
    "ftruncate",
    "rename",
    "unlink",
    "mkdir",
};

// What all processes and threads share. Locked; check.py reads the first two when the server is gone.
static struct shared {
    uint64_t size;           // bytes of all records
    uint64_t calls[k_kinds]; // of each kind since the server was started
    pthread_mutex_t lock;
    uint64_t syncs; // begun so far
} * g_shared;

static struct {
    uint64_t kind;
    uint64_t n;
    int error;
    bool and_after;
} g_rules[k_max_rules];
static size_t g_n_rules;

// Descriptors of files below the folder. Locked.
static struct {
    bool ours;
    bool stdio;
    uint64_t ino;
    uint64_t known; // stdio: bytes that are recorded
} g_fds[k_max_fds];

static bool g_records; // behind *g_shared
static char g_dir[PATH_MAX];
static long g_slow_ms;

#define NEXT(result, name, ...) ((result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

// ---- the recording ----

static void lock(void) {
    if (pthread_mutex_lock(&g_shared->lock) == EOWNERDEAD) {
        pthread_mutex_consistent(&g_shared->lock);
    }
}

static void unlock(void) {
    int saved = errno;
    pthread_mutex_unlock(&g_shared->lock);
    errno = saved;
}

// Appends a record. It is there when `size` says so. Locked.
static void note(struct record r, const char *name, const void *data) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    r.ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    r.name_len = (uint16_t)strlen(name);
    uint64_t n = sizeof(r) + r.name_len + (data ? r.len : 0);
    if (!g_records) {
        return;
    }
    if (n > k_room - k_head - g_shared->size) {
        abort();
    }
    char *to = (char *)g_shared + k_head + g_shared->size;
    to = mempcpy(to, &r, sizeof(r));
    to = mempcpy(to, name, r.name_len);
    if (data) {
        memcpy(to, data, r.len);
    }
    __atomic_store_n(&g_shared->size, g_shared->size + n, __ATOMIC_RELEASE);
}

// Counts a call of this kind. Returns 0, or what it is to fail with. Locked.
static int fails(const char *kind) {
    for (uint64_t i = 0; i < k_kinds; i++) {
        if (strcmp(kind, k_kind_names[i]) != 0) {
            continue;
        }
        uint64_t n = ++g_shared->calls[i];
        for (size_t j = 0; j < g_n_rules; j++) {
            bool now = g_rules[j].and_after ? n >= g_rules[j].n : n == g_rules[j].n;
            if (g_rules[j].kind == i && now) {
                return g_rules[j].error;
            }
        }
    }
    return 0;
}

// A call has failed, since the disk or FAIL says so. Returns -1, with errno. Locked.
static int failed(const char *kind, int error, uint64_t ino) {
    note((struct record){.op = 'x', .error = error, .ino = ino}, kind, NULL);
    errno = error;
    return -1;
}

static void add_rule(char *text) {
    char kind[16], error[16], after[2] = "";
    unsigned long n;
    if (g_n_rules == k_max_rules ||
        sscanf(text, "%15[^:]:%lu:%15[^:]:%1[+]", kind, &n, error, after) < 3) {
        abort();
    }
    struct {
        const char *name;
        int number;
    } errors[] = {{"EIO", EIO},
                  {"ENOSPC", ENOSPC},
                  {"EMFILE", EMFILE},
                  {"EACCES", EACCES},
                  {"short", k_short}};
    g_rules[g_n_rules].kind = k_kinds;
    for (uint64_t i = 0; i < k_kinds; i++) {
        if (strcmp(kind, k_kind_names[i]) == 0) {
            g_rules[g_n_rules].kind = i;
        }
    }
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        if (strcmp(error, errors[i].name) == 0) {
            g_rules[g_n_rules].error = errors[i].number;
        }
    }
    bool is_short = g_rules[g_n_rules].error == k_short;
    if (g_rules[g_n_rules].kind == k_kinds || !g_rules[g_n_rules].error ||
        (is_short && strcmp(kind, "write") != 0)) {
        abort(); // misspelt
    }
    g_rules[g_n_rules].n = n;
    g_rules[g_n_rules++].and_after = *after;
}

// Maps what is shared, in front of the recording if there is to be one.
static void share(const char *file) {
    int flags = O_RDWR | O_CREAT | O_CLOEXEC;
    int fd =
        file ? NEXT(int, "openat", int, const char *, int, ...)(AT_FDCWD, file, flags, 0600) : -1;
    int how = file ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;
    if (file && NEXT(int, "ftruncate", int, off_t)(fd, k_room) < 0) {
        abort();
    }
    void *at = mmap(NULL, file ? k_room : k_head, PROT_READ | PROT_WRITE, how, fd, 0);
    if (at == MAP_FAILED) {
        abort();
    }
    if (file) {
        NEXT(int, "close", int)(fd);
    }
    g_shared = at;
    g_records = file;
    memset(g_shared->calls, 0, sizeof(g_shared->calls));
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&g_shared->lock, &attr);
}

__attribute__((constructor)) static void begin(void) {
    const char *dir = getenv("RECORD_DIR"), *file = getenv("RECORD_FILE"),
               *slow = getenv("SLOW_FSYNC_MS");
    share(file);
    if (!dir || !realpath(dir, g_dir)) {
        abort();
    }
    g_slow_ms = slow ? strtol(slow, NULL, 10) : 0;
    char *rules = strdup(getenv("FAIL") ? getenv("FAIL") : ""), *rest = rules;
    for (char *rule = strtok_r(rules, ",", &rest); rule; rule = strtok_r(NULL, ",", &rest)) {
        add_rule(rule);
    }
    free(rules);
    note((struct record){.op = 'p'}, "", NULL);
}

// ---- names ----

// Writes into `name` (PATH_MAX bytes) the name of a file relative to the folder, "" for the folder
// itself. Returns false where the file is not below it, and before begin(): the allocator of a server
// may have called cases/clock.c.
static bool below(int dirfd, const char *path, char *name) {
    if (!*g_dir) {
        return false;
    }
    char from[PATH_MAX] = "", full[2 * PATH_MAX + 2], parent[PATH_MAX];
    if (*path != '/' && dirfd != AT_FDCWD) {
        char link[64];
        snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
        ssize_t n = readlink(link, from, sizeof(from) - 2);
        memcpy(from + (n > 0 ? n : 0), "/", 2);
    }
    snprintf(full, sizeof(full), "%s%s", from, path);
    char *slash = strrchr(full, '/');
    const char *last = slash ? slash + 1 : full;
    if (realpath(full, parent)) {
        last = "";
    } else if (slash == full || !slash) {
        snprintf(from, sizeof(from), "%s", slash ? "/" : ".");
        if (!realpath(from, parent)) {
            return false;
        }
    } else {
        *slash = '\0';
        if (!realpath(full, parent)) {
            return false;
        }
    }
    size_t n = strlen(g_dir);
    if (strncmp(parent, g_dir, n) != 0 || (parent[n] && parent[n] != '/')) {
        return false;
    }
    const char *folder = parent[n] ? parent + n + 1 : "";
    return snprintf(name, PATH_MAX, "%s%s%s", folder, *folder && *last ? "/" : "", last) < PATH_MAX;
}

static bool ours(int fd) {
    return fd >= 0 && fd < k_max_fds && g_fds[fd].ours;
}

// A file has been opened. Locked.
static void opened(int fd, const char *name, bool was_there, bool truncated, bool stdio) {
    struct stat st;
    if (fd >= k_max_fds || fstat(fd, &st) < 0) {
        abort();
    }
    g_fds[fd].ours = true;
    g_fds[fd].stdio = stdio;
    g_fds[fd].ino = st.st_ino;
    g_fds[fd].known = (uint64_t)st.st_size;
    int flags = (was_there ? 0 : FLAG_CREATED) | (truncated ? FLAG_TRUNCATED : 0);
    note((struct record){.op = 'o', .flags = (uint8_t)flags, .ino = st.st_ino}, name, NULL);
}

static int open_at(int dirfd, const char *path, int flags, mode_t mode) {
    char name[PATH_MAX];
    int (*next)(int, const char *, int, ...) = NEXT(int, "openat", int, const char *, int, ...);
    if (!below(dirfd, path, name)) {
        return next(dirfd, path, flags, mode);
    }
    lock();
    int error = fails("open");
    bool was_there = faccessat(dirfd, path, F_OK, 0) == 0;
    int fd = error ? failed("open", error, 0) : next(dirfd, path, flags, mode);
    if (fd >= 0) {
        opened(fd, name, was_there, was_there && (flags & O_TRUNC), false);
    }
    unlock();
    return fd;
}

int openat(int dirfd, const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return open_at(dirfd, path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));
int openat64(int dirfd, const char *path, int flags, ...) __attribute__((alias("openat")));

int __open_2(const char *path, int flags) {
    return open_at(AT_FDCWD, path, flags, 0);
}

int __open64_2(const char *path, int flags) __attribute__((alias("__open_2")));

FILE *fopen(const char *path, const char *mode) {
    char name[PATH_MAX];
    FILE *(*next)(const char *, const char *) = NEXT(FILE *, "fopen", const char *, const char *);
    if (!below(AT_FDCWD, path, name)) {
        return next(path, mode);
    }
    lock();
    int error = fails("open");
    bool was_there = access(path, F_OK) == 0;
    FILE *file = error ? (failed("open", error, 0), NULL) : next(path, mode);
    if (file) {
        opened(fileno(file), name, was_there, was_there && *mode == 'w', *mode != 'r');
    }
    unlock();
    return file;
}

FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));

// Records what libc has written by itself. Locked.
static void catch_up(int fd) {
    struct stat st;
    if (!g_fds[fd].stdio || fstat(fd, &st) < 0 || (uint64_t)st.st_size <= g_fds[fd].known) {
        return;
    }
    char self[64];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd); // it may be open for writing only
    int in = NEXT(int, "openat", int, const char *, int, ...)(AT_FDCWD, self, O_RDONLY | O_CLOEXEC);
    uint64_t at = g_fds[fd].known, len = (uint64_t)st.st_size - at;
    char *bytes = malloc(len);
    if (!bytes || in < 0 || pread(in, bytes, len, (off_t)at) != (ssize_t)len) {
        abort();
    }
    NEXT(int, "close", int)(in);
    note((struct record){.op = 'w', .ino = g_fds[fd].ino, .at = at, .len = len}, "", bytes);
    free(bytes);
    g_fds[fd].known = (uint64_t)st.st_size;
}

int close(int fd) {
    if (!*g_dir) {
        return NEXT(int, "close", int)(fd);
    }
    lock();
    if (ours(fd)) {
        g_fds[fd].ours = false;
    }
    int rv = NEXT(int, "close", int)(fd);
    unlock();
    return rv;
}

// As the descriptor `from` is, `to` is now.
int dup2(int from, int to) {
    lock();
    int rv = NEXT(int, "dup2", int, int)(from, to);
    if (rv >= 0 && rv < k_max_fds && from != to) {
        g_fds[rv].ours = false;
        if (ours(from)) {
            g_fds[rv] = g_fds[from];
        }
    }
    unlock();
    return rv;
}

// From `first` to `last` no descriptor is open any more.
static void closed(unsigned first, unsigned last) {
    lock();
    for (unsigned fd = first; fd <= last && fd < k_max_fds; fd++) {
        g_fds[fd].ours = false;
    }
    unlock();
}

int close_range(unsigned first, unsigned last, int flags) {
    closed(first, last);
    return NEXT(int, "close_range", unsigned, unsigned, int)(first, last, flags);
}

// Where libc has no close_range(), a program calls the kernel.
long syscall(long number, ...) {
    long args[6];
    va_list more;
    va_start(more, number);
    for (int i = 0; i < 6; i++) {
        args[i] = va_arg(more, long);
    }
    va_end(more);
#ifdef SYS_close_range
    if (number == SYS_close_range) {
        closed((unsigned)args[0], (unsigned)args[1]);
    }
#endif
    long (*next)(long, ...) = NEXT(long, "syscall", long, ...);
    return next(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

// A descriptor of ours gets a stream.
FILE *fdopen(int fd, const char *mode) {
    if (ours(fd)) {
        lock();
        g_fds[fd].stdio = true;
        unlock();
    }
    return NEXT(FILE *, "fdopen", int, const char *)(fd, mode);
}

// What a stream of ours holds is written: a write that may fail, but not short.
int fflush(FILE *file) {
    int (*next)(FILE *) = NEXT(int, "fflush", FILE *);
    int fd = file ? fileno(file) : -1;
    if (!ours(fd)) {
        return next(file);
    }
    lock();
    int error = fails("write");
    int rv = error ? failed("write", error > 0 ? error : ENOSPC, g_fds[fd].ino) : next(file);
    catch_up(fd);
    unlock();
    return rv;
}

int fclose(FILE *file) {
    int fd = fileno(file);
    if (ours(fd)) {
        NEXT(int, "fflush", FILE *)(file);
        lock();
        catch_up(fd);
        g_fds[fd].ours = false;
        unlock();
    }
    return NEXT(int, "fclose", FILE *)(file);
}

// ---- what is written ----

// Was something sent to a client? Its port, or 0.
static uint16_t client_of(int fd) {
    struct sockaddr_in addr;
    socklen_t len = sizeof(addr);
    int saved = errno;
    bool is_client =
        getpeername(fd, (struct sockaddr *)&addr, &len) == 0 && addr.sin_family == AF_INET;
    errno = saved;
    return is_client ? ntohs(addr.sin_port) : 0;
}

static ssize_t sent(uint16_t port, ssize_t n) {
    if (n > 0) {
        note((struct record){.op = 's', .at = port, .len = (uint64_t)n}, "", NULL);
    }
    return n;
}

// Writes to a file of ours, where `offset` is -1 at its place. Locked.
static ssize_t write_file(int fd, const void *data, size_t n, off_t offset) {
    int error = fails("write");
    if (error > 0) {
        return failed("write", error, g_fds[fd].ino);
    }
    n = error == k_short ? (n + 1) / 2 : n;
    struct stat st;
    off_t at = offset;
    if (offset < 0) {
        at = fcntl(fd, F_GETFL) & O_APPEND && fstat(fd, &st) == 0 ? st.st_size
                                                                  : lseek(fd, 0, SEEK_CUR);
    }
    ssize_t done =
        offset < 0 ? NEXT(ssize_t, "write", int, const void *, size_t)(fd, data, n)
                   : NEXT(ssize_t, "pwrite", int, const void *, size_t, off_t)(fd, data, n, offset);
    if (done < 0) {
        return failed("write", errno, g_fds[fd].ino);
    }
    uint64_t len = (uint64_t)done;
    note(
        (struct record){.op = 'w', .ino = g_fds[fd].ino, .at = (uint64_t)at, .len = len}, "", data);
    return done;
}

// What is neither a file of ours nor a client is left alone, without the lock: a signal handler may
// write to it.
ssize_t write(int fd, const void *data, size_t n) {
    ssize_t (*next)(int, const void *, size_t) = NEXT(ssize_t, "write", int, const void *, size_t);
    uint16_t port = ours(fd) ? 0 : client_of(fd);
    if (!ours(fd) && !port) {
        return next(fd, data, n);
    }
    lock();
    ssize_t done = port ? sent(port, next(fd, data, n)) : write_file(fd, data, n, -1);
    unlock();
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t offset) {
    if (!ours(fd)) {
        return NEXT(ssize_t, "pwrite", int, const void *, size_t, off_t)(fd, data, n, offset);
    }
    lock();
    ssize_t done = write_file(fd, data, n, offset);
    unlock();
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t n, off_t offset) __attribute__((alias("pwrite")));

ssize_t writev(int fd, const struct iovec *parts, int count) {
    ssize_t (*next)(int, const struct iovec *, int) =
        NEXT(ssize_t, "writev", int, const struct iovec *, int);
    uint16_t port = ours(fd) ? 0 : client_of(fd);
    if (!ours(fd) && !port) {
        return next(fd, parts, count);
    }
    if (port) {
        lock();
        ssize_t done = sent(port, next(fd, parts, count));
        unlock();
        return done;
    }
    size_t n = 0;
    for (int i = 0; i < count; i++) {
        n += parts[i].iov_len;
    }
    char *bytes = malloc(n + 1), *to = bytes;
    for (int i = 0; i < count; i++) {
        to = mempcpy(to, parts[i].iov_base, parts[i].iov_len);
    }
    lock();
    ssize_t done = write_file(fd, bytes, n, -1); // one write of all the bytes
    unlock();
    free(bytes);
    return done;
}

ssize_t send(int fd, const void *data, size_t n, int flags) {
    lock();
    ssize_t done = NEXT(ssize_t, "send", int, const void *, size_t, int)(fd, data, n, flags);
    done = sent(client_of(fd), done);
    unlock();
    return done;
}

ssize_t sendto(int fd, const void *data, size_t n, int flags, const struct sockaddr *to,
               socklen_t len) {
    lock();
    ssize_t done =
        NEXT(ssize_t, "sendto", int, const void *, size_t, int, const struct sockaddr *, socklen_t)(
            fd, data, n, flags, to, len);
    done = sent(client_of(fd), done);
    unlock();
    return done;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    lock();
    ssize_t done = NEXT(ssize_t, "sendmsg", int, const struct msghdr *, int)(fd, message, flags);
    done = sent(client_of(fd), done);
    unlock();
    return done;
}

int ftruncate(int fd, off_t size) {
    int (*next)(int, off_t) = NEXT(int, "ftruncate", int, off_t);
    if (!ours(fd)) {
        return next(fd, size);
    }
    lock();
    int error = fails("ftruncate");
    int rv = error ? failed("ftruncate", error, g_fds[fd].ino) : next(fd, size);
    if (rv == 0) {
        note((struct record){.op = 't', .ino = g_fds[fd].ino, .at = (uint64_t)size}, "", NULL);
    }
    unlock();
    return rv;
}

int ftruncate64(int fd, off_t size) __attribute__((alias("ftruncate")));

// ---- fsync ----

static int sync_file(int fd, const char *kind) {
    int (*next)(int) = NEXT(int, kind, int);
    if (!ours(fd)) {
        return next(fd);
    }
    lock();
    catch_up(fd);
    int error = fails(kind);
    uint64_t ino = g_fds[fd].ino, number = ++g_shared->syncs;
    note((struct record){.op = 'b', .ino = ino, .at = number}, kind, NULL);
    unlock();
    if (g_slow_ms > 0) {
        struct timespec time = {g_slow_ms / 1000, g_slow_ms % 1000 * 1000000};
        nanosleep(&time, NULL);
    }
    int rv = error ? -1 : next(fd);
    error = error || rv == 0 ? error : errno;
    lock();
    note((struct record){.op = 'e', .ino = ino, .at = number, .error = error}, kind, NULL);
    unlock();
    errno = error ? error : errno;
    return rv;
}

int fsync(int fd) {
    return sync_file(fd, "fsync");
}

int fdatasync(int fd) {
    return sync_file(fd, "fdatasync");
}

// ---- names that come and go ----

int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    char name[PATH_MAX], new_name[PATH_MAX];
    int (*next)(int, const char *, int, const char *) =
        NEXT(int, "renameat", int, const char *, int, const char *);
    if (!below(from_dir, from, name) || !below(to_dir, to, new_name)) {
        return next(from_dir, from, to_dir, to);
    }
    lock();
    int error = fails("rename");
    int rv = error ? failed("rename", error, 0) : next(from_dir, from, to_dir, to);
    if (rv == 0) {
        note((struct record){.op = 'r', .len = strlen(new_name)}, name, new_name);
    }
    unlock();
    return rv;
}

int rename(const char *from, const char *to) {
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlinkat(int dirfd, const char *path, int flags) {
    char name[PATH_MAX];
    int (*next)(int, const char *, int) = NEXT(int, "unlinkat", int, const char *, int);
    if (!below(dirfd, path, name)) {
        return next(dirfd, path, flags);
    }
    lock();
    int error = fails("unlink");
    int rv = error ? failed("unlink", error, 0) : next(dirfd, path, flags);
    if (rv == 0) {
        note((struct record){.op = 'u'}, name, NULL);
    }
    unlock();
    return rv;
}

int unlink(const char *path) {
    return unlinkat(AT_FDCWD, path, 0);
}

int mkdirat(int dirfd, const char *path, mode_t mode) {
    char name[PATH_MAX];
    int (*next)(int, const char *, mode_t) = NEXT(int, "mkdirat", int, const char *, mode_t);
    if (!below(dirfd, path, name)) {
        return next(dirfd, path, mode);
    }
    lock();
    int error = fails("mkdir");
    int rv = error ? failed("mkdir", error, 0) : next(dirfd, path, mode);
    if (rv == 0) {
        note((struct record){.op = 'm'}, name, NULL);
    }
    unlock();
    return rv;
}

int mkdir(const char *path, mode_t mode) {
    return mkdirat(AT_FDCWD, path, mode);
}
