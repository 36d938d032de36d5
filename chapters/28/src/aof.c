// aof.c: the append-only file
//
// What has changed is appended to a log, as commands. Doing them again, one after the other, gives what was
// there. Knows when it is written and when it is on the disk, and who waits for that; how is in aof_tail.c.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base.h"
#include "clock.h"

#include "server.h"

enum {
    k_sync_ms = 1000,           // between two syncs, with everysec
    k_look_ms = 10,             // between two looks at a sync that writes wait for
    k_postpone_ms = 2000,       // how long a write waits for a sync that goes on
    k_sync_size = 8 << 20,      // written bytes after which a sync does not wait its second
    k_max_unsynced = 256 << 20, // bytes for which the loop waits until a sync is done
};

static struct {
    bool wanted;     // from the start
    int64_t tick_ms; // when there was something to be done last
    int64_t look_ms; // when we looked last whether a sync is over for which writes wait
    int64_t wait_ms; // since when writes wait for a sync that goes on, 0 for not
    size_t delayed;  // writes that did not wait any longer
    uint64_t loaded, to_load;
} aof;

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

// ---- when it is written ----

// Writes what has changed, and syncs it: replies wait for that. If it fails, and in a new file, too, ends the
// program: nobody may be told of a change that is in memory and not on the disk.
static void commit_always(void) {
    if (is_stepping()) {
        sync_over(true);
    }
    if (!aof_error() && write_batches() && tail_is_dirty()) {
        sync_now();
    }
    if (aof_error() && !begin_anew()) {
        msg("the append-only file: in a new file: %s", strerror(errno));
        msg("no reply has left for what is not on the disk, and with appendfsync always none may:"
            " this is the end. Make room, or look at the disk, and start the server again");
        exit(1);
    }
}

// Tells whether a write has to wait, since a sync goes on: it would wait in the kernel, and all clients with
// it. It does not wait for ever.
static bool write_waits(void) {
    if (sync_over(tail_size() > k_max_unsynced) || is_other_work()) {
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
    if (!aof_is_on() || tail_written() == tail_size()) {
        return;
    }
    if (get_fsync_policy() != FSYNC_ALWAYS && is_stepping() && has_small_batch() &&
        !sync_over(false)) {
        return; // few batches are quickly sealed again
    }
    close_batch();
    if (get_fsync_policy() == FSYNC_ALWAYS) {
        commit_always();
    } else if (!write_waits() && !aof_error() && write_batches() && tail_written() > k_sync_size &&
               !aof_worker_is_busy()) {
        sync_begin();
    }
}

// Tells whether replies wait for a sync, and had better wait for what others change meanwhile: one sync is
// for all of them.
bool aof_gathers(void) {
    return get_fsync_policy() == FSYNC_ALWAYS && has_small_batch();
}

// Returns when aof_tick() is to be called, of the monotonic clock: INT64_MAX for never.
int64_t aof_deadline(void) {
    bool busy = aof_error() || aof_worker_is_busy() || !tail_is_marked() ||
                tail_written() < tail_size() ||
                (tail_is_dirty() && get_fsync_policy() == FSYNC_EVERYSEC);
    if (!aof_is_on() || !busy) {
        return INT64_MAX;
    }
    return aof.wait_ms ? aof.look_ms + k_look_ms - 1 : aof.tick_ms + k_sync_ms - 1;
}

// Does what is to be done once a second: syncs, tries again what has failed, and where there is nothing else
// to be written, says in the file how much of it is on the disk.
void aof_tick(void) {
    aof.look_ms = get_monotonic_msec();
    if (sync_over(false)) {
        aof.wait_ms = 0;
        if (!aof_error()) {
            aof_commit();
        }
    }
    if (aof.look_ms < aof.tick_ms + k_sync_ms) {
        return; // it was for what has waited
    }
    aof.tick_ms = aof.look_ms;
    if (aof_worker_is_busy()) {
        return;
    }
    if (aof_error()) {
        try_again();
        return;
    }
    if (tail_is_dirty() && get_fsync_policy() == FSYNC_EVERYSEC) {
        sync_begin();
    } else if (!tail_is_marked()) {
        if (!write_mark() && get_fsync_policy() == FSYNC_ALWAYS) {
            commit_always();
        }
    }
}

// ---- on and off ----

// Reads what the settings say, and which files the log has, if there is to be one. Ends the program where
// that is wrong.
void aof_start(void) {
    aof_batch_start();
    tail_set_policy((enum fsync_policy)env_word("APPENDFSYNC", k_policies, FSYNC_EVERYSEC));
    aof.wanted = env_word("APPENDONLY", k_yes_no, 0) == 1;
    aof_dir_start(aof.wanted);
}

// Returns whether the log is to be on from the start.
bool aof_wanted(void) {
    return aof.wanted;
}

// Turns the log off, with all in it and on the disk. Returns whether that works.
bool aof_stop(void) {
    if (!aof_is_on()) {
        return true;
    }
    aof_commit();
    aof.wait_ms = 0;
    return tail_end();
}

// Turns the log off at the end of the program. Returns whether all in it is on the disk.
bool aof_end(void) {
    bool ok = aof_stop();
    aof_worker_end();
    aof_dir_end();
    return ok;
}

// ---- settings and numbers ----

// Sets when what has changed is on the disk, an enum fsync_policy: what was written before goes by it, too.
// Returns whether it is set.
bool set_fsync_policy(int policy) {
    sync_over(true);
    aof.wait_ms = 0;
    if (aof_is_on() && policy == FSYNC_ALWAYS) {
        close_batch();
        if (aof_error() || !write_batches() ||
            (get_fsync_policy() != FSYNC_NO && !sync_now() && !begin_anew())) {
            return false; // before it is set: under `always` this would be the end
        }
    }
    return tail_set_policy((enum fsync_policy)policy);
}

// Returns what there is to say about it.
struct aof_numbers aof_numbers(void) {
    return (struct aof_numbers){
        .size = aof_file_size(),
        .unsynced = tail_size(),
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
