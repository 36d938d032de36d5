// snapshot.c: all keys, as the first file of a log
//
// A log that begins while keys are there has to begin with them. They are written as commands, in one go:
// nobody is served meanwhile. Has no state.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base.h"
#include "buf.h"
#include "hashtable.h"
#include "hashtable_cursor.h"
#include "intrusive.h"
#include "io.h"
#include "reply.h"
#include "zset.h"
#include "zset_rank.h"

#include "server.h"

enum {
    k_max_score = 32, // bytes of a score as text
    k_few_pairs = 8,  // of a zadd, more if the key is longer than they are: it can be read again
    k_full_batch = 1 << 20, // bytes of a batch, after which another one begins
};

static const char k_temp[] = "temp-appendonly.base";

// What is being written: the batch that is open in `buf` will stand at `offset` in the file.
struct snapshot {
    int fd;
    struct buf buf;
    uint64_t offset;
    struct db *db;
    int error; // an errno; 0 while all is well
};

static void begin(struct snapshot *to) {
    aof_batch_begin(&to->buf);
    struct reply out = {.buf = &to->buf};
    char index[16];
    snprintf(index, sizeof(index), "%d", db_index(to->db));
    reply_arr(&out, 2);
    reply_cstr(&out, "SELECT");
    reply_cstr(&out, index);
}

static void end(struct snapshot *to) {
    aof_batch_seal(&to->buf, 0, to->offset, 0);
    if (!to->error && write_all(to->fd, buf_data(&to->buf), buf_size(&to->buf)) < 0) {
        to->error = errno;
    }
    to->offset += buf_size(&to->buf);
    buf_truncate(&to->buf, 0);
}

// Ends the batch if it is full, and begins another one.
static void cut(struct snapshot *to) {
    if (buf_size(&to->buf) > k_full_batch) {
        end(to);
        begin(to);
    }
}

static void put_set(struct snapshot *to, const struct entry *ent) {
    struct reply out = {.buf = &to->buf};
    struct slice key = entry_key(ent);
    const struct zset *zset = entry_zset(ent);
    for (struct znode *znode = zset_at(zset, 0); znode;) {
        size_t n = 0, size = 0;
        for (struct znode *next = znode; next && (n < k_few_pairs || size < key.len); n++) {
            size += k_max_score + next->node.key_len;
            next = znode_next(next);
        }
        reply_arr(&out, 2 + 2 * n);
        reply_cstr(&out, "ZADD");
        reply_str(&out, key.data, key.len);
        for (; n > 0; n--, znode = znode_next(znode)) {
            char score[k_max_score];
            reply_str(&out, (const uint8_t *)score, double_text(znode->score, score));
            reply_str(&out, (const uint8_t *)znode->name, znode->node.key_len);
        }
        cut(to);
    }
}

static bool put_entry(struct hnode *node, void *arg) {
    struct snapshot *to = arg;
    struct entry *ent = container_of(node, struct entry, node);
    struct slice key = entry_key(ent);
    struct reply out = {.buf = &to->buf};
    if (ent->type == T_ZSET) {
        put_set(to, ent);
    } else {
        struct slice val = entry_val(ent);
        reply_arr(&out, 3);
        reply_cstr(&out, "SET");
        reply_str(&out, key.data, key.len);
        reply_str(&out, val.data, val.len);
    }
    if (ent->has_deadline) {
        uint8_t text[k_max_digits];
        reply_arr(&out, 3);
        reply_cstr(&out, "PEXPIREAT");
        reply_str(&out, key.data, key.len);
        reply_str(&out, text, int_text(entry_deadline(to->db, ent), text));
    }
    cut(to);
    return !to->error;
}

// Writes all keys of all databases into a file. Returns whether they are on the disk; if not, errno says why.
// *size is how many bytes it has then.
static bool write_snapshot(int fd, int64_t *size) {
    struct snapshot to = {.fd = fd};
    for (int i = 0; i < k_databases && !to.error; i++) {
        to.db = db_at(i);
        begin(&to);
        hm_scan(&to.db->keys, put_entry, &to);
        end(&to);
    }
    buf_dispose(&to.buf);
    *size = (int64_t)to.offset;
    errno = to.error;
    return !to.error && fsync(fd) == 0;
}

// Writes the base of a new log. Returns whether it is on the disk. It has another name until it is whole: where
// we do not get that far, no start takes it for a part of a log.
static bool write_base(struct aof_file *base) {
    int fd = openat(aof_dir_fd(), k_temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool ok = fd >= 0 && write_snapshot(fd, &base->size) &&
              renameat(aof_dir_fd(), k_temp, aof_dir_fd(), base->name) == 0;
    int err = errno;
    if (fd >= 0) {
        close(fd);
    }
    if (!ok) {
        unlinkat(aof_dir_fd(), k_temp, 0);
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
    manifest->n = 0;
    if (!write_base(manifest_add(manifest, 'b', seq)) || !aof_begin(seq)) {
        msg("cannot turn the append-only file on: %s", strerror(errno));
        *manifest = old;
        return false;
    }
    for (int i = 0; i < old.n; i++) {
        unlinkat(aof_dir_fd(), old.files[i].name, 0);
    }
    return true;
}
