// aof.c: the append-only file
//
// What has changed is appended to a log, as commands. Doing them again, one after the other, gives what was
// there. Owns the last file of the log, and the part of it that is not known to be on the disk.
//
//   the last file      | on the disk      | written        |
//   unsynced                              | batches        | a batch that is open |
//                      0               start           + written               + size of unsynced
//
// A byte that is written is in the memory of the kernel: it survives the end of the process, but not that of
// the machine. fdatasync() waits until it is on the disk. If that fails, nobody knows which bytes are there,
// and the kernel takes them for written: a second call that succeeds says nothing. So what is not known to be
// on the disk stays in `unsynced`, and is then written again, into a new file.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base.h"
#include "buf.h"
#include "clock.h"
#include "io.h"

#include "server.h"

enum {
    k_sync_ms = 1000,      // between two syncs, with everysec
    k_look_ms = 10,        // between two looks whether a sync is over, while writes wait for it
    k_postpone_ms = 2000,  // how long a write waits for a sync that goes on
    k_sync_size = 8 << 20, // bytes that are written, after which a sync does not wait its second
    k_max_unsynced = 256 << 20, // bytes for which the loop waits until a sync is done
    k_max_batch = 1 << 20,      // bytes of a batch after which replies do not wait for others
    k_kept_room = 1 << 20,      // bytes for which room is kept in `unsynced`
    k_no_batch = -1,
};

static struct {
    enum fsync_policy policy;
    bool wanted; // from the start
    int fd;      // the last file, -1 where the log is off
    struct buf unsynced;
    uint64_t start;     // where in the file it begins
    size_t written;     // bytes of it that are in the file: with `start`, the size of the file
    ssize_t open_batch; // where in it the batch begins that is open, k_no_batch for none
    uint64_t synced;    // bytes of the file that are known to be on the disk
    bool dirty;         // it has a command since the last sync began
    bool marked;        // the last batch says how much is synced
    int error;          // why the log cannot be written, an errno; 0 where it can
    bool spoiled;    // nobody knows what is in the file behind `start`: nothing more goes into it
    bool holed;      // nor what is in front of it: with `no`, a sync has failed
    int64_t tick_ms; // when there was something to be done last
    int64_t look_ms; // when we looked last whether a sync is over for which writes wait
    int64_t wait_ms; // since when writes wait for a sync that goes on, 0 for not
    size_t delayed;  // writes that did not wait any longer
    uint64_t loaded, to_load;
} aof = {.fd = -1, .open_batch = k_no_batch};

// What the worker does: a sync, a step into a new file, or something that another file asks for.
static struct {
    void (*done)(int err); // called in the loop, with an errno, 0 for success
    int fd;
    uint64_t up_to; // bytes of the file that are on the disk when it is done

    int64_t seq; // of the new file
    int new_fd;
    bool synced;              // what was in the old one is on the disk
    struct buf mark;          // with which the new one begins
    struct manifest manifest; // which names both
    void (*stepped)(int err); // called then
} job;

static void (*when_failing)(void); // NULL for nothing to be done
static bool worker_is_wanted;      // for something that is no sync: no sync begins

static const char *const k_policies[] = {"no", "always", "everysec", NULL};
static const char *const k_yes_no[] = {"no", "yes", NULL};

// Returns which of the words the variable has, the one at `fallback` where it is not set. Ends the program
// where it has another one.
static int env_word(const char *name, const char *const *words, int fallback) {
    const char *text = getenv(name);
    for (int i = 0; text && *text; i++) {
        if (!words[i]) {
            msg("%s=%s: has to be one of %s, %s%s%s",
                name,
                text,
                words[0],
                words[1],
                words[2] ? ", " : "",
                words[2] ? words[2] : "");
            exit(1);
        }
        if (strcasecmp(text, words[i]) == 0) {
            return i;
        }
    }
    return fallback;
}

// ---- the sync of a worker ----

static int sync_work(void) {
    return fdatasync(job.fd) < 0 ? errno : 0;
}

static void begin_job(int (*work)(void), void (*done)(int err)) {
    job.done = done;
    job.fd = aof.fd;
    job.up_to = aof.start + aof.written;
    aof_worker_begin(work);
}

// Forgets the first bytes of the file, so many of them: they need not be written again.
static void forget(uint64_t up_to) {
    size_t n = (size_t)(up_to - aof.start);
    buf_consume(&aof.unsynced, n);
    aof.written -= n;
    aof.start = up_to;
    if (aof.open_batch != k_no_batch) {
        aof.open_batch -= (ssize_t)n;
    }
    if (buf_size(&aof.unsynced) == 0 && aof.unsynced.cap > k_kept_room) {
        buf_dispose(&aof.unsynced);
    }
}

// So many bytes of the file are on the disk.
static void note_synced(uint64_t up_to) {
    forget(up_to);
    aof.synced = up_to;
    aof.marked = false;
}

// Notes that the log cannot be written. Nothing more goes into its last file.
static void fail(const char *what, int err) {
    if (!aof.error) {
        msg("the append-only file: %s: %s", what, strerror(err));
    }
    if (!aof.error && aof.policy != FSYNC_ALWAYS) {
        msg("requests that write are refused until all that has changed is on the disk, which is"
            " tried every second: make room, or look at the disk");
    }
    aof.error = err;
    if (when_failing) {
        when_failing();
    }
}

// A sync has failed: of what was written since the last one nobody knows what is on the disk, and the kernel
// takes all of it for written. It is taken out of the file, so that no start ever goes on behind it. It is in
// `unsynced` still, for a new file.
static void spoil(int err) {
    aof.spoiled = true;
    aof.written = 0;
    fail("fdatasync", err);
    if (ftruncate(aof.fd, (off_t)aof.start) < 0) {
        msg("the append-only file: ftruncate: %s", strerror(errno));
    }
}

static void sync_done(int err) {
    if (err) {
        spoil(err);
    } else {
        note_synced(job.up_to);
    }
}

// Has a worker sync all that is written, unless there is something else for it.
static void sync_begin(void) {
    if (!worker_is_wanted) {
        aof.dirty = false;
        begin_job(sync_work, sync_done);
    }
}

// Takes note of a sync that is done, or of what else the worker has done; waits for it, if that is asked for.
// Returns whether it rests.
bool sync_over(bool wait) {
    if (!aof_worker_is_busy()) {
        return true;
    }
    int err = aof_worker_result(wait);
    if (err == EINPROGRESS) {
        return false;
    }
    job.done(err);
    return true;
}

// ---- batches ----

static void begin_batch(void) {
    if (aof.open_batch == k_no_batch) {
        aof.open_batch = (ssize_t)aof_batch_begin(&aof.unsynced);
    }
}

// Returns the buffer at the end of which a batch is open, for a command to be appended. Valid until the
// next call of this file.
struct buf *aof_open_batch(void) {
    begin_batch();
    aof.dirty = true;
    return &aof.unsynced;
}

// Tells whether a batch is open: nobody has been told of what is in it.
bool aof_batch_is_open(void) {
    return aof.open_batch != k_no_batch;
}

// Closes the batch, if one is open.
static void close_batch(void) {
    if (aof.open_batch != k_no_batch) {
        size_t pos = (size_t)aof.open_batch;
        aof_batch_seal(&aof.unsynced, pos, aof.start + pos, aof.synced);
        aof.open_batch = k_no_batch;
        aof.marked = true;
    }
}

static bool has_small_batch(void) {
    return aof.open_batch != k_no_batch &&
           buf_size(&aof.unsynced) - (size_t)aof.open_batch < k_max_batch;
}

// Tells whether replies wait for a sync, and had better wait for what others change meanwhile: one sync is
// for all of them.
bool aof_gathers(void) {
    return aof.policy == FSYNC_ALWAYS && has_small_batch();
}

// Writes the batches that are not written. Returns whether all are: else the file ends where it did.
static bool write_batches(void) {
    size_t n = buf_size(&aof.unsynced) - aof.written;
    if (n == 0) {
        return true;
    }
    if (write_all(aof.fd, buf_data(&aof.unsynced) + aof.written, n) < 0) {
        int err = errno;
        aof.spoiled = aof.spoiled || ftruncate(aof.fd, (off_t)(aof.start + aof.written)) < 0;
        fail("write", err);
        return false;
    }
    aof.written += n;
    if (aof.policy == FSYNC_NO) { // nobody will ask whether it has reached the disk
        forget(aof.start + aof.written);
    }
    return true;
}

// ---- files ----

// Goes on with an open file, which has `size` bytes, all of them on the disk.
static void go_on(int fd, uint64_t size) {
    aof.fd = fd;
    buf_truncate(&aof.unsynced, 0);
    aof.start = size;
    aof.written = 0;
    note_synced(size);
    aof.dirty = false;
    aof.error = 0;
    aof.spoiled = false;
    aof.wait_ms = 0;
}

// Has the batches that are closed tell that they stand behind `start` bytes of another file, all of them on
// the disk.
static void seal_again(uint64_t start) {
    size_t end = aof.open_batch == k_no_batch ? buf_size(&aof.unsynced) : (size_t)aof.open_batch;
    for (size_t pos = 0; pos < end; pos = aof_batch_next(&aof.unsynced, pos)) {
        aof_batch_seal(&aof.unsynced, pos, start + pos, start);
    }
}

// Goes on in a new file: all that is not known to be on the disk is written there, and is on the disk when
// this returns true. If not, errno says why.
static bool begin_anew(void) {
    sync_over(true); // it may be writing a manifest
    if (buf_size(&aof.unsynced) == 0) {
        begin_batch(); // a mark, as at the start of any file
    }
    close_batch();
    seal_again(0);
    struct manifest *manifest = aof_manifest();
    int64_t seq = manifest_free_seq(manifest);
    int fd = aof_new_file(manifest, seq, &aof.unsynced, aof.fd, aof.start);
    if (fd < 0) {
        return false;
    }
    close(aof.fd);
    go_on(fd, buf_size(&aof.unsynced));
    msg("the append-only file: goes on in %s, nothing is lost", aof_last_file()->name);
    return true;
}

// Tries again what has failed, until all that has changed is on the disk. A file in which a sync has failed
// is not asked again: what it says then is not worth anything.
static void try_again(void) {
    close_batch();
    if (!aof.spoiled && write_batches()) {
        if (fdatasync(aof.fd) < 0) {
            spoil(errno);
        } else {
            go_on(aof.fd, aof.start + aof.written);
            msg("the append-only file: is written again, nothing is lost");
        }
    }
    if (aof.spoiled) {
        begin_anew();
    }
}

// ---- a step into a new file ----
//
// Between two changes, the log goes on in a new file. Many things have to be on the disk for that, so the
// worker does it. What changes meanwhile is not written yet: it goes into the new file, or into the old one
// where that has failed.

static int step_work(void) {
    job.synced = fdatasync(job.fd) == 0;
    if (!job.synced) {
        return errno;
    }
    job.new_fd = aof_new_file(&job.manifest, job.seq, &job.mark, job.fd, job.up_to);
    return job.new_fd < 0 ? errno : 0;
}

// Where it is not sure which file counts, nothing more goes into the old one: the manifest may say where
// that ends.
static void step_done(int err) {
    if (job.synced) {
        note_synced(job.up_to);
    }
    if (!job.synced || job.new_fd == k_perhaps_made) {
        spoil(err);
    }
    if (!err) {
        uint64_t size = buf_size(&job.mark);
        close(aof.fd);
        aof.fd = job.new_fd;
        seal_again(size);
        aof.start = aof.synced = size;
        *aof_manifest() = job.manifest;
    }
    buf_dispose(&job.mark);
    job.stepped(err);
}

// Tells whether the log can go on in a new file: all that has changed is written, and the worker rests.
bool aof_can_step(void) {
    return sync_over(false) && aof_is_on() && !aof.error && aof.written == buf_size(&aof.unsynced);
}

// Has the log go on in a new file with this number, from now on. When that is on the disk, or has failed,
// `stepped` is called.
void aof_step(int64_t seq, void (*stepped)(int err)) {
    job.seq = seq;
    job.new_fd = k_not_made;
    job.manifest = *aof_manifest();
    job.stepped = stepped;
    aof_batch_seal(&job.mark, aof_batch_begin(&job.mark), 0, 0);
    aof.dirty = false;
    begin_job(step_work, step_done);
}

static bool is_stepping(void) {
    return aof_worker_is_busy() && job.done == step_done;
}

static bool is_other_work(void) {
    return aof_worker_is_busy() && job.done != sync_done && job.done != step_done;
}

// Has the worker do something else. It must rest. `done` is called when it has.
void aof_work(int (*work)(void), void (*done)(int err)) {
    begin_job(work, done);
}

// From now on, `give_up` is called when the log cannot be written. It may give back what it has of the disk.
void aof_when_failing(void (*give_up)(void)) {
    when_failing = give_up;
}

// From now on no sync begins, so that the worker is there for something else; or that is over.
void aof_want_worker(bool wanted) {
    worker_is_wanted = wanted;
}

// ---- when it is written ----

// Writes what has changed, and syncs it: replies wait for that. If it fails, and in a new file, too, ends the
// program: nobody may be told of a change that is in memory and not on the disk.
static void commit_always(void) {
    if (is_stepping()) {
        sync_over(true);
    }
    if (!aof.error && write_batches() && aof.dirty) {
        if (fdatasync(aof.fd) < 0) {
            spoil(errno);
        } else {
            aof.dirty = false;
            note_synced(aof.start + aof.written);
        }
    }
    if (aof.error && !begin_anew()) {
        msg("the append-only file: in a new file: %s", strerror(errno));
        msg("no reply has left for what is not on the disk, and with appendfsync always none may:"
            " this is the end. Make room, or look at the disk, and start the server again");
        exit(1);
    }
}

// Tells whether a write has to wait, since a sync goes on: it would wait in the kernel, and all clients with
// it. It does not wait for ever.
static bool write_waits(void) {
    if (sync_over(buf_size(&aof.unsynced) > k_max_unsynced) || is_other_work()) {
        aof.wait_ms = 0;
        return false;
    }
    int64_t now_ms = get_monotonic_msec();
    if (aof.wait_ms == 0) {
        aof.wait_ms = now_ms;
    }
    if (now_ms - aof.wait_ms < k_postpone_ms || is_stepping()) {
        return true;
    }
    msg("the append-only file: a sync takes longer than %d ms, the disk is busy", k_postpone_ms);
    aof.delayed++;
    aof.wait_ms = now_ms;
    return false;
}

// To be called before a reply leaves, and once a round: writes what has changed. With `always` it is on the
// disk when this returns.
void aof_commit(void) {
    if (aof.fd < 0 || aof.written == buf_size(&aof.unsynced)) {
        return;
    }
    if (aof.policy != FSYNC_ALWAYS && is_stepping() && has_small_batch() && !sync_over(false)) {
        return; // few batches are quickly sealed again
    }
    close_batch();
    if (aof.policy == FSYNC_ALWAYS) {
        commit_always();
    } else if (!write_waits() && !aof.error && write_batches() && aof.written > k_sync_size &&
               !aof_worker_is_busy()) {
        sync_begin();
    }
}

// Returns when aof_tick() is to be called, of the monotonic clock: INT64_MAX for never.
int64_t aof_deadline(void) {
    bool busy = aof.error || aof_worker_is_busy() || !aof.marked ||
                aof.written < buf_size(&aof.unsynced) ||
                (aof.dirty && aof.policy == FSYNC_EVERYSEC);
    if (aof.fd < 0 || !busy) {
        return INT64_MAX;
    }
    return aof.wait_ms ? aof.look_ms + k_look_ms - 1 : aof.tick_ms + k_sync_ms - 1;
}

// Does what is to be done once a second: syncs, tries again what has failed, and where there is nothing else
// to be written, says in the file how much of it is on the disk.
void aof_tick(void) {
    aof.look_ms = get_monotonic_msec();
    if (sync_over(false) && !aof.error) {
        aof_commit();
    }
    if (aof.look_ms < aof.tick_ms + k_sync_ms) {
        return; // it was for what has waited
    }
    aof.tick_ms = aof.look_ms;
    if (aof_worker_is_busy()) {
        return;
    }
    if (aof.error) {
        try_again();
        return;
    }
    if (aof.dirty && aof.policy == FSYNC_EVERYSEC) {
        sync_begin();
    } else if (!aof.marked) {
        begin_batch();
        close_batch();
        if (!write_batches() && aof.policy == FSYNC_ALWAYS) {
            commit_always();
        }
    }
}

// ---- on and off ----

// Reads what the settings say, and which files the log has, if there is to be one. Ends the program where
// that is wrong.
void aof_start(void) {
    aof_batch_start();
    aof.policy = (enum fsync_policy)env_word("APPENDFSYNC", k_policies, FSYNC_EVERYSEC);
    aof.wanted = env_word("APPENDONLY", k_yes_no, 0) == 1;
    aof_dir_start(aof.wanted);
}

// Returns whether the log is to be on from the start.
bool aof_wanted(void) {
    return aof.wanted;
}

// Returns whether what changes is logged.
bool aof_is_on(void) {
    return aof.fd >= 0;
}

// Turns the log on: what changes from now on goes into a new file with this number. Returns whether that works.
// The file begins with a mark, on the disk before anything follows: a torn tail has a batch in front of it.
bool aof_begin(int64_t seq) {
    begin_batch();
    close_batch();
    int fd = aof_new_file(aof_manifest(), seq, &aof.unsynced, -1, 0);
    uint64_t size = buf_size(&aof.unsynced);
    buf_truncate(&aof.unsynced, 0);
    if (fd >= 0) {
        go_on(fd, size);
    }
    return fd >= 0;
}

// Turns the log on: it goes on behind the `size` bytes that its last file has. Unless a batch is the last of
// them, a mark follows, as in a new file. Returns whether that works.
bool aof_continue(uint64_t size, bool behind_batch) {
    int fd = openat(aof_dir_fd(), aof_last_file()->name, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0) {
        return false;
    }
    go_on(fd, size);
    if (behind_batch) {
        return true;
    }
    begin_batch();
    close_batch();
    if (!write_batches() || fdatasync(fd) < 0) {
        return false;
    }
    note_synced(aof.start + aof.written);
    return true;
}

// Turns the log off, with all in it and on the disk. Returns whether that works.
bool aof_stop(void) {
    bool ok = true;
    if (aof.fd < 0) {
        return ok;
    }
    aof_commit();
    sync_over(true);
    if (!aof.error && write_batches() && fdatasync(aof.fd) == 0) {
        note_synced(aof.start + aof.written);
        begin_batch();
        close_batch();
        write_batches();
    } else if (!begin_anew()) {
        ok = false;
        msg("the append-only file: %zu bytes of it are lost: %s",
            buf_size(&aof.unsynced),
            strerror(errno));
    }
    close(aof.fd);
    aof.fd = -1;
    aof.error = 0;
    aof.holed = false;
    buf_dispose(&aof.unsynced);
    aof.start = aof.written = aof.synced = 0;
    return ok;
}

// Turns the log off at the end of the program. Returns whether all in it is on the disk.
bool aof_end(void) {
    bool ok = aof_stop();
    aof_worker_end();
    aof_dir_end();
    return ok;
}

// ---- settings and numbers ----

// Returns when what has changed is on the disk, an enum fsync_policy.
int get_fsync_policy(void) {
    return (int)aof.policy;
}

// Sets it. What was written before goes by it, too: from `no`, where that is not on the disk, it stays. After a
// sync that has failed then, it stays until the log is turned off and on: nobody has the bytes any more that
// would have to be written again. Returns whether it is set.
bool set_fsync_policy(int policy) {
    sync_over(true);
    if (aof.fd >= 0 && aof.policy == FSYNC_NO && policy != FSYNC_NO) {
        if (!aof.error && !aof.holed && fdatasync(aof.fd) < 0) {
            aof.holed = true;
            msg("the append-only file: fdatasync: %s, so it stays with appendfsync no, until it is"
                " turned off and on",
                strerror(errno));
        }
        if (aof.error || aof.holed) {
            return false;
        }
        note_synced(aof.start + aof.written);
    }
    aof.policy = (enum fsync_policy)policy;
    if (aof.fd >= 0 && policy == FSYNC_ALWAYS) {
        close_batch();
        commit_always();
    }
    return true;
}

// Returns why the log cannot be written, an errno; 0 where it can.
int aof_error(void) {
    return aof.error;
}

// Returns what there is to say about it.
struct aof_numbers aof_numbers(void) {
    return (struct aof_numbers){
        .size = aof.start + buf_size(&aof.unsynced),
        .unsynced = buf_size(&aof.unsynced),
        .delayed = aof.delayed,
        .syncing = aof_worker_is_busy(),
        .loaded = aof.loaded,
        .to_load = aof.to_load,
    };
}

// Notes how far the log is loaded: no bytes of none, once it is.
void aof_loads(uint64_t done, uint64_t total) {
    aof.loaded = done;
    aof.to_load = total;
}

// Tells whether the log is being loaded.
bool aof_is_loading(void) {
    return aof.to_load > 0;
}
