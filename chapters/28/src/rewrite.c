// rewrite.c: a log that stays short
//
// A log holds everything that was ever done, and all that is needed of it is the result. When it has grown
// long, it is written anew:
//
//   1  fork(): the child has the keys as they are at this moment, and writes them into a new base.
//   2  At the same moment the log goes on in a new file: aof_step(). Later changes go there.
//   3  When both are on the disk, a new manifest that names them replaces the old one.
//   4  The files that the new manifest no longer needs are deleted.
//
// A crash at any point leaves a valid log: before 3, the old files followed by the new one. Waiting for the
// disk is left to the worker and to the child, so clients wait for fork() alone. With `always`, those that
// change keys also wait for 2.

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base.h"
#include "clock.h"
#include "clock_usec.h"
#include "reply.h"

#include "server.h"

enum {
    k_child_look_ms = 100,  // between two looks whether the child has ended
    k_worker_look_ms = 10,  // the same for the worker
    k_look_size = 64 << 10, // bytes by which the log grows between two looks at its size
    k_retry_ms = 60 * 1000, // after a failure, until a rewrite may begin by itself
    k_max_retry_ms = 60 * k_retry_ms,
    k_max_fd = 1 << 16, // descriptors that a child closes one by one, on an old kernel
    k_kept_files = 100, // each failure may take a file: so many are left for those of syncs
};

enum phase {
    PHASE_NONE,
    PHASE_WAIT,  // for the worker to be free
    PHASE_STEP,  // the worker makes the new file, while the child writes
    PHASE_WRITE, // the child writes
    PHASE_READY, // the base is written, and waits for the worker
    PHASE_PLACE, // the worker puts the base in its place
};

// What the child tells us, in the only page that both processes share.
struct report {
    int64_t size;    // bytes of the base
    uint64_t copied; // bytes of pages that were copied
};

static struct {
    enum phase phase;
    bool asked;  // a transaction has asked for it
    pid_t child; // 0 for none
    struct report *report;
    int64_t seq;              // of the new base, and of the file that begins with the step
    struct manifest manifest; // the worker's, while it puts the base in its place
    struct manifest before;   // the same: the one that it replaces

    int64_t began_ms;
    int64_t looked_ms;    // when we looked last whether it is time to go on
    int64_t retry_ms;     // until when no rewrite begins by itself
    int64_t wait_ms;      // after the next failure; doubled by each, since each leaves a file more
    uint64_t looked_size; // of the last file, when its size was looked at last
    struct rewrite_numbers numbers;
    int64_t percentage; // by which the log may grow; 0 for as much as it likes
    size_t min_size;    // up to which it may grow in any case
} rewrite = {
    .wait_ms = k_retry_ms,
    .numbers = {.last_s = -1},
    .percentage = 100,
    .min_size = 64 << 20,
};

// ---- the child ----
//
// It has a copy of our memory, but only one thread: the one that called fork(). If another thread held a mutex
// at that moment, the copy of that mutex stays locked for ever, so the child takes none. (It may call
// malloc(): the C library holds its own locks during fork().) It also has a copy of each descriptor: until the
// child closes them, too, no client sees the end of its connection, and no other server can have our port.

static void close_all_but(int fd) {
    dup2(fd, STDERR_FILENO + 1);
#ifdef SYS_close_range
    if (syscall(SYS_close_range, STDERR_FILENO + 2U, ~0U, 0U) == 0) {
        return;
    }
#endif
    for (int i = STDERR_FILENO + 2; i < k_max_fd; i++) {
        close(i);
    }
}

// Returns how many bytes of memory this process shares with nobody: the pages that were copied, because one of
// the two processes wrote to them. 0 if the kernel does not say.
static uint64_t private_bytes(void) {
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    char line[128];
    uint64_t kib = 0;
    while (file && fgets(line, sizeof(line), file) &&
           sscanf(line, "Private_Dirty: %" SCNu64, &kib) != 1) {
    }
    if (file) {
        fclose(file);
    }
    return kib << 10;
}

// Writes all keys into the file, and exits. If the parent dies, so does the child: the next server needs the
// memory, and the room on the disk.
__attribute__((noreturn)) static void run_child(int fd, pid_t parent) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    close_all_but(fd);
    bool ok = write_snapshot(STDERR_FILENO + 1, &rewrite.report->size);
    int err = errno;
    if (!ok && ftruncate(STDERR_FILENO + 1, 0) == 0) { // others may need the room at once
        msg("the append-only file: cannot be written anew: %s", strerror(err));
    }
    rewrite.report->copied = private_bytes();
    _exit(ok ? 0 : 1);
}

// ---- from step to step ----

static void end(bool ok) {
    int64_t now_ms = get_monotonic_msec();
    rewrite.phase = PHASE_NONE;
    aof_want_worker(false);
    rewrite.numbers.failed = !ok;
    rewrite.numbers.last_s = (now_ms - rewrite.began_ms) / 1000;
    if (ok) {
        rewrite.numbers.size_then = aof_size_before_last() + aof_numbers().size;
        rewrite.wait_ms = k_retry_ms;
        msg("Background AOF rewrite finished successfully");
    } else {
        aof_remove_temp();
        rewrite.retry_ms = now_ms + rewrite.wait_ms;
        rewrite.wait_ms =
            rewrite.wait_ms < k_max_retry_ms / 2 ? 2 * rewrite.wait_ms : k_max_retry_ms;
        msg("Background AOF rewrite terminated with error: nothing is lost, the log goes on as it "
            "is");
    }
}

// Ends the child, if there is one.
static void kill_child(void) {
    if (rewrite.child) {
        kill(rewrite.child, SIGKILL);
        while (waitpid(rewrite.child, NULL, 0) < 0 && errno == EINTR) {
        }
        rewrite.child = 0;
    }
}

// The log cannot be written: perhaps the base takes the room that it needs.
static void give_up(void) {
    if (rewrite.phase == PHASE_WRITE || rewrite.phase == PHASE_READY) {
        kill_child();
        end(false);
    }
}

static void stepped(int err) {
    if (!err) {
        rewrite.phase = PHASE_WRITE;
        return;
    }
    msg("the append-only file: a new file: %s", strerror(err));
    kill_child();
    end(false);
}

// Begins. The child writes what is there at this moment; what changes later goes into the new file.
static void begin(void) {
    pid_t parent = getpid();
    int fd = openat(aof_dir_fd(), k_aof_temp_base, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int64_t from_us = get_monotonic_usec();
    rewrite.began_ms = from_us / 1000;
    if (!rewrite.report) {
        int shared = MAP_SHARED | MAP_ANONYMOUS;
        void *page = mmap(NULL, sizeof(struct report), PROT_READ | PROT_WRITE, shared, -1, 0);
        rewrite.report = page == MAP_FAILED ? NULL : page;
    }
    signal(SIGCHLD, SIG_DFL); // waitpid() fails where it is ignored, as our parent may have had it
    pid_t child = fd < 0 || !rewrite.report ? -1 : fork();
    if (child == 0) {
        run_child(fd, parent);
    }
    int err = errno;
    rewrite.numbers.fork_us = get_monotonic_usec() - from_us;
    if (fd >= 0) {
        close(fd);
    }
    if (child < 0) {
        msg("the append-only file: cannot begin to write it anew: %s", strerror(err));
        end(false);
        return;
    }
    msg("Background append only file rewriting started by pid %ld", (long)child);
    rewrite.child = child;
    rewrite.phase = PHASE_STEP;
    rewrite.seq = manifest_free_seq(aof_manifest());
    aof_when_failing(give_up);
    aof_step(rewrite.seq, stepped);
}

// What the worker does: the base gets its name, then the manifest names it, then the old files are deleted.
// Before all that, the old manifest lists the base as history: after a crash or an error, the next start or
// the next rewrite deletes it.
static int put_in_place(void) {
    int dir_fd = aof_dir_fd();
    if (!manifest_write(dir_fd, &rewrite.before) ||
        renameat(dir_fd, k_aof_temp_base, dir_fd, rewrite.manifest.files[0].name) < 0 ||
        fsync(dir_fd) < 0 || !manifest_write(dir_fd, &rewrite.manifest)) {
        return errno;
    }
    aof_remove_old(&rewrite.manifest);
    return 0;
}

static void in_place(int err) {
    if (err) {
        msg("the append-only file: the new base: %s", strerror(err));
    }
    *aof_manifest() = err ? rewrite.before : rewrite.manifest;
    end(!err);
}

// Has the worker put the base in place, with a manifest that names it and the files behind it. All others
// are history.
static void place(void) {
    const struct manifest *now = aof_manifest();
    struct manifest *next = &rewrite.manifest;
    next->n = next->n_old = 0;
    manifest_add(next, 'b', rewrite.seq)->size = rewrite.report->size;
    rewrite.before = *now;
    if (now->n + now->n_old < k_aof_max_files) {
        manifest_add(&rewrite.before, 'b', rewrite.seq)->type = 'h';
        rewrite.before.n--; // it stands behind those that count
        rewrite.before.n_old++;
    }
    for (int i = 0; i < now->n; i++) {
        if (now->files[i].type == 'i' && now->files[i].seq >= rewrite.seq) {
            next->files[next->n++] = now->files[i];
        }
    }
    for (int i = 0; i < now->n + now->n_old && next->n + next->n_old < k_aof_max_files; i++) {
        if (now->files[i].type != 'i' || now->files[i].seq < rewrite.seq) {
            struct aof_file *old = &next->files[next->n + next->n_old++];
            *old = now->files[i];
            old->type = 'h';
        }
    }
    rewrite.phase = PHASE_PLACE;
    aof_work(put_in_place, in_place);
}

// Looks whether the child has ended, and how.
static void look_at_child(void) {
    int status;
    if (waitpid(rewrite.child, &status, WNOHANG) != rewrite.child) {
        return;
    }
    rewrite.child = 0;
    rewrite.numbers.copied = rewrite.report->copied;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        msg("Background AOF rewrite terminated with success");
        rewrite.phase = PHASE_READY;
        return;
    }
    if (WIFSIGNALED(status)) {
        msg("Background AOF rewrite terminated by signal %d", WTERMSIG(status));
    }
    end(false);
}

// ---- when ----

// Tells whether the log has grown enough. Cost: O(files), but O(1) if it has hardly grown since the last call.
static bool is_long(void) {
    uint64_t last = aof_numbers().size;
    if (rewrite.numbers.size_then == 0) {
        rewrite.numbers.size_then = aof_size_before_last() + last;
    }
    if (last >= rewrite.looked_size && last - rewrite.looked_size < k_look_size) {
        return false;
    }
    rewrite.looked_size = last;
    uint64_t size = aof_size_before_last() + last;
    if (rewrite.percentage == 0 || size <= rewrite.min_size ||
        get_monotonic_msec() < rewrite.retry_ms) {
        return false;
    }
    double growth = 100.0 * ((double)size / (double)rewrite.numbers.size_then - 1);
    if (growth < (double)rewrite.percentage) {
        return false;
    }
    msg("Starting automatic rewriting of AOF on %.0f%% growth", growth);
    return true;
}

// A rewrite begins as soon as the worker is free. Returns whether it may.
static bool want(void) {
    const struct manifest *manifest = aof_manifest();
    rewrite.asked = false;
    rewrite.began_ms = get_monotonic_msec();
    if (manifest->n + manifest->n_old > k_aof_max_files - k_kept_files) {
        msg("the append-only file: it cannot be written anew, with as many as %d files: have a new"
            " one begun, by CONFIG SET appendonly no, then yes",
            manifest->n + manifest->n_old);
        end(false);
        return false;
    }
    rewrite.phase = PHASE_WAIT;
    rewrite.looked_ms = 0;
    return true;
}

// Returns when rewrite_look() has something to do, of the monotonic clock: INT64_MAX for never.
int64_t rewrite_deadline(void) {
    if (rewrite.phase == PHASE_NONE) {
        return INT64_MAX;
    }
    return rewrite.looked_ms + (rewrite.phase == PHASE_WRITE ? k_child_look_ms : k_worker_look_ms);
}

// To be called once a round, after aof_commit(): begins a rewrite if it is time, or takes it a step further.
void rewrite_look(void) {
    if (aof_is_on() && rewrite.phase == PHASE_NONE && (rewrite.asked || is_long())) {
        want();
    }
    if (rewrite.phase == PHASE_NONE || get_monotonic_msec() <= rewrite_deadline()) {
        return;
    }
    rewrite.looked_ms = get_monotonic_msec();
    if (rewrite.phase == PHASE_WRITE) {
        look_at_child();
    }
    bool rests = sync_over(false); // which may have called stepped(), or in_place()
    if (rewrite.phase == PHASE_READY && rests) {
        place();
    } else if (rewrite.phase == PHASE_WAIT && aof_can_step()) {
        begin();
    }
    aof_want_worker(rewrite.phase == PHASE_WAIT || rewrite.phase == PHASE_READY);
}

// Gives up a rewrite that is under way. The old files are still a valid log.
void rewrite_stop(void) {
    kill_child();
    sync_over(true);
    if (rewrite.phase == PHASE_WAIT) { // nothing has begun
        rewrite.phase = PHASE_NONE;
        aof_want_worker(false);
    } else if (rewrite.phase != PHASE_NONE) {
        end(false);
    }
    rewrite.asked = false;
}

// ---- on and off ----

// Writes the base of a new log. Returns whether it is on the disk. It has another name until it is whole: where
// we do not get that far, no start takes it for a part of a log.
static bool write_base(struct aof_file *base) {
    int fd = openat(aof_dir_fd(), k_aof_temp_base, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool ok = fd >= 0 && write_snapshot(fd, &base->size) &&
              renameat(aof_dir_fd(), k_aof_temp_base, aof_dir_fd(), base->name) == 0;
    int err = errno;
    if (fd >= 0) {
        close(fd);
    }
    if (!ok) {
        aof_remove_temp();
    }
    errno = err;
    return ok;
}

// Turns the log on or off. A log that was here before is replaced by one that begins with the keys that are
// there now. Returns whether that works; if not, has said why.
bool aof_turn(bool on) {
    struct manifest *manifest = aof_manifest();
    if (aof_is_loading() || effect_is_together()) {
        msg("the append-only file cannot be turned on or off within a transaction, or while it is"
            " loaded");
        return false;
    }
    if (!on) {
        rewrite_stop();
        aof_stop();
    }
    if (!on || aof_is_on()) {
        return true;
    }
    if (!aof_open_dir()) {
        return false;
    }
    enum manifest_state state = manifest_read(aof_dir_fd(), manifest);
    if (state == MANIFEST_BAD || (state == MANIFEST_NONE && !aof_dir_is_clean())) {
        return false;
    }
    struct manifest old = *manifest;
    int64_t seq = manifest_free_seq(&old);
    manifest->n = manifest->n_old = 0;
    if (!write_base(manifest_add(manifest, 'b', seq)) || !aof_begin(seq)) {
        msg("cannot turn the append-only file on: %s", strerror(errno));
        *manifest = old;
        return false;
    }
    rewrite.numbers.size_then = 0;
    old.n_old += old.n;
    old.n = 0;
    aof_remove_old(&old);
    return true;
}

// ---- settings, numbers, and the command ----

// Returns by how many percent the log may grow until it is written anew; 0 for no limit.
int64_t get_rewrite_percentage(void) {
    return rewrite.percentage;
}

// Sets it.
void set_rewrite_percentage(int64_t percentage) {
    rewrite.percentage = percentage;
    rewrite.looked_size = UINT64_MAX; // its size is looked at in the next round
}

// Returns the size in bytes up to which the log is never written anew by itself.
size_t get_rewrite_min_size(void) {
    return rewrite.min_size;
}

// Sets it.
void set_rewrite_min_size(size_t size) {
    rewrite.min_size = size;
    rewrite.looked_size = UINT64_MAX;
}

// Returns what there is to say about it.
struct rewrite_numbers rewrite_numbers(void) {
    struct rewrite_numbers numbers = rewrite.numbers;
    numbers.asked = rewrite.asked;
    numbers.runs = rewrite.phase != PHASE_NONE;
    numbers.runs_s = numbers.runs ? (get_monotonic_msec() - rewrite.began_ms) / 1000 : -1;
    return numbers;
}

// bgrewriteaof: the rewrite begins at the end of this round, or when the worker is free. From now on, `info`
// says that it is in progress.
void do_bgrewriteaof(struct request *req, struct reply *out) {
    (void)req;
    if (!aof_is_on()) {
        reply_err(out, "ERR the append-only file is off, or being loaded");
        return;
    }
    if (rewrite.phase != PHASE_NONE) {
        reply_err(out, "ERR Background append only file rewriting already in progress");
        return;
    }
    if (effect_is_together()) {
        rewrite.asked = true;
        reply_status(out, "Background append only file rewriting scheduled");
        return;
    }
    if (want()) {
        reply_status(out, "Background append only file rewriting started");
    } else {
        reply_err(out, "ERR the append-only file has too many files. Check server logs.");
    }
}
