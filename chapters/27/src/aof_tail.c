// aof_tail.c: what is not on the disk yet
//
// Owns the last file of the log, and the part of it that is not known to be on the disk: how that is kept,
// written, and written again into a new file where the disk fails.
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
#include <string.h>
#include <unistd.h>

#include "base.h"
#include "buf.h"
#include "io.h"

#include "server.h"

enum {
    k_max_batch = 1 << 20, // bytes of a batch after which replies do not wait for others
    k_kept_room = 1 << 20, // bytes for which room is kept in `unsynced`
    k_no_batch = -1,
};

static struct {
    enum fsync_policy policy; // with `no`, what is written is not kept
    int fd;                   // the last file, -1 where the log is off
    struct buf unsynced;
    uint64_t start;     // where in the file it begins
    size_t written;     // bytes of it that are in the file: with `start`, the size of the file
    ssize_t open_batch; // where in it the batch begins that is open, k_no_batch for none
    uint64_t synced;    // bytes of the file that are known to be on the disk
    bool dirty;         // it has a command since the last sync began
    bool marked;        // the last batch says how much is synced
    int error;          // why the log cannot be written, an errno; 0 where it can
    bool spoiled; // nobody knows what is in the file behind `start`: nothing more goes into it
    bool holed;   // nor what is in front of it: with `no`, a sync has failed
} tail = {.fd = -1, .open_batch = k_no_batch};

// The sync that the worker does.
static struct {
    int fd;
    uint64_t up_to; // bytes of the file that are on the disk when it is done
} job;

// ---- the sync of a worker ----

static int sync_work(void) {
    return fdatasync(job.fd) < 0 ? errno : 0;
}

// Has a worker sync all that is written.
void sync_begin(void) {
    job.fd = tail.fd;
    job.up_to = tail.start + tail.written;
    tail.dirty = false;
    aof_worker_begin(sync_work);
}

// Forgets the first bytes of the file, so many of them: they need not be written again.
static void forget(uint64_t up_to) {
    size_t n = (size_t)(up_to - tail.start);
    buf_consume(&tail.unsynced, n);
    tail.written -= n;
    tail.start = up_to;
    if (tail.open_batch != k_no_batch) {
        tail.open_batch -= (ssize_t)n;
    }
    if (buf_size(&tail.unsynced) == 0 && tail.unsynced.cap > k_kept_room) {
        buf_dispose(&tail.unsynced);
    }
}

// So many bytes of the file are on the disk.
static void note_synced(uint64_t up_to) {
    forget(up_to);
    tail.synced = up_to;
    tail.marked = false;
}

// Notes that the log cannot be written. Nothing more goes into its last file.
static void fail(const char *what, int err) {
    if (!tail.error) {
        msg("the append-only file: %s: %s", what, strerror(err));
    }
    if (!tail.error && tail.policy != FSYNC_ALWAYS) {
        msg("requests that write are refused until all that has changed is on the disk, which is"
            " tried every second: make room, or look at the disk");
    }
    tail.error = err;
}

// A sync has failed: of what was written since the last one nobody knows what is on the disk, and the kernel
// takes all of it for written. It is taken out of the file, so that no start ever goes on behind it. It is in
// `unsynced` still, for a new file.
static void spoil(int err) {
    tail.spoiled = true;
    tail.written = 0;
    fail("fdatasync", err);
    if (ftruncate(tail.fd, (off_t)tail.start) < 0) {
        msg("the append-only file: ftruncate: %s", strerror(errno));
    }
}

// Takes note of a sync that is done; waits for it, if that is asked for. Returns whether none goes on.
bool sync_over(bool wait) {
    if (!aof_worker_is_busy()) {
        return true;
    }
    int err = aof_worker_result(wait);
    if (err == EINPROGRESS) {
        return false;
    }
    if (err) {
        spoil(err);
    } else {
        note_synced(job.up_to);
    }
    return true;
}

// Waits until all that is written is on the disk. Returns whether it is.
bool sync_now(void) {
    if (fdatasync(tail.fd) < 0) {
        spoil(errno);
        return false;
    }
    tail.dirty = false;
    note_synced(tail.start + tail.written);
    return true;
}

// ---- batches ----

static void begin_batch(void) {
    if (tail.open_batch == k_no_batch) {
        tail.open_batch = (ssize_t)aof_batch_begin(&tail.unsynced);
    }
}

// Returns the buffer at the end of which a batch is open, for a command to be appended. Valid until the
// next call of this file.
struct buf *aof_open_batch(void) {
    begin_batch();
    tail.dirty = true;
    return &tail.unsynced;
}

// Tells whether a batch is open: nobody has been told of what is in it.
bool aof_batch_is_open(void) {
    return tail.open_batch != k_no_batch;
}

// Closes the batch, if one is open.
void close_batch(void) {
    if (tail.open_batch != k_no_batch) {
        size_t pos = (size_t)tail.open_batch;
        aof_batch_seal(&tail.unsynced, pos, tail.start + pos, tail.synced);
        tail.open_batch = k_no_batch;
        tail.marked = true;
    }
}

// Tells whether a batch is open that may still grow.
bool has_small_batch(void) {
    return tail.open_batch != k_no_batch &&
           buf_size(&tail.unsynced) - (size_t)tail.open_batch < k_max_batch;
}

// Writes the batches that are not written. Returns whether all are: else the file ends where it did.
bool write_batches(void) {
    size_t n = buf_size(&tail.unsynced) - tail.written;
    if (n == 0) {
        return true;
    }
    if (write_all(tail.fd, buf_data(&tail.unsynced) + tail.written, n) < 0) {
        int err = errno;
        tail.spoiled = tail.spoiled || ftruncate(tail.fd, (off_t)(tail.start + tail.written)) < 0;
        fail("write", err);
        return false;
    }
    tail.written += n;
    if (tail.policy == FSYNC_NO) { // nobody will ask whether it has reached the disk
        forget(tail.start + tail.written);
    }
    return true;
}

// Writes a batch without commands: it says how much is on the disk. Returns whether that works.
bool write_mark(void) {
    begin_batch();
    close_batch();
    return write_batches();
}

// ---- files ----

// Goes on with an open file, which has `size` bytes, all of them on the disk.
static void go_on(int fd, uint64_t size) {
    tail.fd = fd;
    buf_truncate(&tail.unsynced, 0);
    tail.start = size;
    tail.written = 0;
    note_synced(size);
    tail.dirty = false;
    tail.error = 0;
    tail.spoiled = false;
}

// Goes on in a new file: all that is not known to be on the disk is written there, and is on the disk when
// this returns true. If not, errno says why.
bool begin_anew(void) {
    if (buf_size(&tail.unsynced) == 0) {
        begin_batch(); // a mark, as at the start of any file
    }
    close_batch();
    for (size_t pos = 0; pos < buf_size(&tail.unsynced);) {
        aof_batch_seal(&tail.unsynced, pos, pos, 0);
        pos = aof_batch_next(&tail.unsynced, pos);
    }
    int fd = aof_new_file(manifest_free_seq(aof_manifest()), &tail.unsynced, tail.fd, tail.start);
    if (fd < 0) {
        return false;
    }
    close(tail.fd);
    go_on(fd, buf_size(&tail.unsynced));
    msg("the append-only file: goes on in %s, nothing is lost", aof_last_file()->name);
    return true;
}

// Tries again what has failed, until all that has changed is on the disk. A file in which a sync has failed
// is not asked again: what it says then is not worth anything.
void try_again(void) {
    close_batch();
    if (!tail.spoiled && write_batches()) {
        if (fdatasync(tail.fd) < 0) {
            spoil(errno);
        } else {
            go_on(tail.fd, tail.start + tail.written);
            msg("the append-only file: is written again, nothing is lost");
        }
    }
    if (tail.spoiled) {
        begin_anew();
    }
}

// Turns the log on: what changes from now on goes into a new file with this number. Returns whether that works.
// The file begins with a mark, on the disk before anything follows: a torn tail has a batch in front of it.
bool aof_begin(int64_t seq) {
    begin_batch();
    close_batch();
    int fd = aof_new_file(seq, &tail.unsynced, -1, 0);
    uint64_t size = buf_size(&tail.unsynced);
    buf_truncate(&tail.unsynced, 0);
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
    if (!write_mark() || fdatasync(fd) < 0) {
        return false;
    }
    note_synced(tail.start + tail.written);
    return true;
}

// Turns the log off, with all in it and on the disk. Returns whether that works.
bool tail_end(void) {
    bool ok = true;
    sync_over(true);
    bool written = !tail.error && write_batches();
    bool synced = !tail.spoiled && fdatasync(tail.fd) == 0;
    if (synced) {
        note_synced(tail.start + tail.written);
    }
    if (written && synced) {
        write_mark();
    } else if (!synced && !tail.spoiled && tail.policy == FSYNC_NO) {
        ok = false; // nobody has the bytes any more
        msg("the append-only file: fdatasync: %s, so with appendfsync no, changes may be lost",
            strerror(errno));
    } else if (!begin_anew()) {
        ok = false;
        msg("the append-only file: %zu bytes of it are lost: %s",
            buf_size(&tail.unsynced),
            strerror(errno));
    }
    close(tail.fd);
    tail.fd = -1;
    tail.error = 0;
    tail.holed = false;
    buf_dispose(&tail.unsynced);
    tail.start = tail.written = tail.synced = 0;
    return ok;
}

// ---- what the others ask ----

// Returns whether what changes is logged.
bool aof_is_on(void) {
    return tail.fd >= 0;
}

// Returns why the log cannot be written, an errno; 0 where it can.
int aof_error(void) {
    return tail.error;
}

// Returns how large the last file is, with what is still to be written.
uint64_t aof_file_size(void) {
    return tail.start + buf_size(&tail.unsynced);
}

// Returns how many bytes are not known to be on the disk.
size_t tail_size(void) {
    return buf_size(&tail.unsynced);
}

// Returns how many of these are written.
size_t tail_written(void) {
    return tail.written;
}

// Tells whether any command has come since the last sync began.
bool tail_is_dirty(void) {
    return tail.dirty;
}

// Tells whether the last batch says how much is on the disk.
bool tail_is_marked(void) {
    return tail.marked;
}

// Returns when what has changed is on the disk, an enum fsync_policy.
int get_fsync_policy(void) {
    return (int)tail.policy;
}

// Sets it. What was written before goes by it, too: from `no`, where that is not on the disk, it stays. After a
// sync that has failed then, it stays until the log is turned off and on: nobody has the bytes any more that
// would have to be written again. Returns whether it is set.
bool tail_set_policy(enum fsync_policy policy) {
    if (tail.fd >= 0 && tail.policy == FSYNC_NO && policy != FSYNC_NO) {
        if (!tail.error && !tail.holed && fdatasync(tail.fd) < 0) {
            tail.holed = true;
            msg("the append-only file: fdatasync: %s, so it stays with appendfsync no, until it is"
                " turned off and on",
                strerror(errno));
        }
        if (tail.error || tail.holed) {
            return false;
        }
        note_synced(tail.start + tail.written);
    }
    tail.policy = policy;
    return true;
}
