// aof.h: the append-only file
//
// A part of the table of contents in server.h, which includes it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "reply.h"
#include "request.h"

struct db;
struct request;

// When what has changed is on the disk.
enum fsync_policy {
    FSYNC_NO,       // whenever the kernel likes
    FSYNC_ALWAYS,   // before the reply
    FSYNC_EVERYSEC, // once a second
};

// The form of a batch: a line in front, commands, and a line behind them with their sum.
enum {
    k_batch_head = 40, // bytes: "#BATCH:" size (10 digits) " " synced (20 digits) CR LF
    k_batch_tail = 23, // bytes: "#CRC:" sum (16 digits) CR LF
    k_aof_max_name = 256,
    k_aof_max_files = 1000,
};

// What is read of a batch.
struct batch_head {
    uint64_t size;   // bytes of its commands
    uint64_t synced; // bytes of its file that were known to be on the disk when it was made
};

// A file of the log, as the manifest has it.
struct aof_file {
    char name[k_aof_max_name];
    int64_t seq;
    char type;    // b: all keys, as they were at one moment; i: what has changed since
    int64_t size; // in bytes; -1 where it may still grow, or is not known
};

// All files of the log, in the order in which they are read.
struct manifest {
    struct aof_file files[k_aof_max_files];
    int n;
};

// What was found.
enum manifest_state {
    MANIFEST_NONE,
    MANIFEST_READ,
    MANIFEST_BAD, // which was said
};

// What there is to say about the log: bytes of its last file, bytes that are not known to be on the disk,
// writes that a sync has held up.
struct aof_numbers {
    uint64_t size, unsynced;
    size_t delayed;
    bool syncing;
    uint64_t loaded, to_load; // bytes, while it is loaded
};

// aof_batch.c, above deadline.c
void aof_batch_start(void);
size_t aof_batch_begin(struct buf *buf);
void aof_batch_seal(struct buf *buf, size_t pos, uint64_t offset, uint64_t synced);
bool aof_batch_head(const uint8_t *data, size_t size, struct batch_head *head);
bool aof_batch_right(const uint8_t *data, size_t size, uint64_t offset);
size_t aof_batch_next(const struct buf *buf, size_t pos);

// manifest.c, above deadline.c
enum manifest_state manifest_read(int dir_fd, struct manifest *manifest);
bool manifest_write(int dir_fd, const struct manifest *manifest);
int64_t manifest_free_seq(const struct manifest *manifest);
struct aof_file *manifest_add(struct manifest *manifest, char type, int64_t seq);

// aof_dir.c, above deadline.c
bool aof_open_dir(void);
bool aof_dir_is_clean(void);
void aof_dir_start(bool wanted);
void aof_dir_end(void);
struct manifest *aof_manifest(void);
int aof_dir_fd(void);
const struct aof_file *aof_last_file(void);
const char *aof_dir(void);
int aof_new_file(int64_t seq, const struct buf *content, int old_fd, uint64_t old_size);

// aof_worker.c, above deadline.c
void aof_worker_begin(int (*work)(void));
bool aof_worker_is_busy(void);
int aof_worker_result(bool wait);
void aof_worker_end(void);

// aof_tail.c, above deadline.c
void sync_begin(void);
bool sync_over(bool wait);
bool sync_now(void);
struct buf *aof_open_batch(void);
bool aof_batch_is_open(void);
void close_batch(void);
bool has_small_batch(void);
bool write_batches(void);
bool write_mark(void);
bool begin_anew(void);
void try_again(void);
bool aof_begin(int64_t seq);
bool aof_continue(uint64_t size, bool marked);
bool tail_end(void);
bool aof_is_on(void);
int aof_error(void);
uint64_t aof_file_size(void);
size_t tail_size(void);
size_t tail_written(void);
bool tail_is_dirty(void);
bool tail_is_marked(void);
int get_fsync_policy(void);
bool tail_set_policy(enum fsync_policy policy);

// aof.c, above deadline.c
bool aof_gathers(void);
void aof_commit(void);
int64_t aof_deadline(void);
void aof_tick(void);
void aof_start(void);
bool aof_wanted(void);
bool aof_stop(void);
bool aof_end(void);
bool set_fsync_policy(int policy);
struct aof_numbers aof_numbers(void);
void aof_loads(uint64_t done, uint64_t total);
bool aof_is_loading(void);

// effect.c, above deadline.c
void effect_changed(void);
void effect_of_expiry(int db, const struct slice *key);
void effect_is_del(int db, const struct slice *key);
void effect_is_persist(int db, const struct slice *key);
void effect_is_deadline(int db, const struct slice *key, int64_t at_ms);
void effect_is_set(int db, const struct slice *key, const struct slice *val, int64_t at_ms,
                   bool keep_ttl);
void effect_done(int db, const struct request *req);
void effect_multi(void);
bool effect_is_together(void);
void effect_exec(void);

// snapshot.c, above cycle.c
bool aof_turn(bool on);

// aof_load.c, above t_command.c
void load_start(void);
void load_some(void);
