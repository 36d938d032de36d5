// aof_load.c: from a log to the keys that it is about
//
// Reads the files of the log and does again what is in them, a few milliseconds in each round of the loop.
// Owns how far that is.
//
// A log is read in pieces that are done as a whole: a batch, or, where Redis has written it, a command, or all
// from a MULTI to its EXEC. A piece that is not right has one of two reasons, and they must not be mixed up:
//
//   a torn tail   the machine stopped while it was written: nobody was told that it is there. It is dropped.
//   damage        it was right once. All that follows relies on it. Nobody but a person may drop that.

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"
#include "buf.h"
#include "clock.h"
#include "clock_wall.h"
#include "reply.h"
#include "resp.h"

#include "server.h"

enum {
    k_load_ms = 10,       // that are spent on it in a round
    k_say_ms = 1000,      // between two lines of progress
    k_block = 256 << 10,  // bytes that are read at once, at least
    k_sums = 16,          // times that each byte behind a wrong one is summed, on average
    k_batch_word = 7,     // bytes of "#BATCH:"
    k_max_comment = 1024, // bytes of a line that begins with #
    k_max_kept = 1 << 20, // bytes for which room is kept
};

static struct {
    int file; // the one that is being read, of the manifest
    int fd;
    struct buf buf;        // what is read of it, and not done
    uint64_t pos;          // where that begins in the file
    uint64_t size;         // of the file
    bool after_batch;      // what is in front of it is a batch: we have written here
    uint64_t done, total;  // bytes of all files
    struct conn conn;      // who asks for all that: nobody
    struct resp_args args; // of one command
    struct buf reply;      // which nobody reads
    int64_t start_ms, said_ms;
} load;

static const char k_bad_format[] = "Bad file format reading the append only file";

static const struct aof_file *this_file(void) {
    return &aof_manifest()->files[load.file];
}

static bool is_last_file(void) {
    return load.file == aof_manifest()->n - 1;
}

// ---- reading ----

// Reads on until `n` bytes are in the buffer. Returns whether the file has so many.
static bool have(size_t n) {
    while (buf_size(&load.buf) < n && load.pos + buf_size(&load.buf) < load.size) {
        size_t left = n - buf_size(&load.buf), room = left > k_block ? left : k_block;
        ssize_t got = read(load.fd, buf_reserve(&load.buf, room), room);
        if (got < 0 && errno != EINTR) {
            die("read %s", this_file()->name);
        }
        if (got == 0) {
            load.size = load.pos + buf_size(&load.buf);
        }
        buf_commit(&load.buf, got > 0 ? (size_t)got : 0);
    }
    return buf_size(&load.buf) >= n;
}

static void skip(size_t n) {
    buf_consume(&load.buf, n);
    load.pos += n;
    load.done += n;
    if (buf_size(&load.buf) == 0 && load.buf.cap > k_max_kept) {
        buf_dispose(&load.buf);
    }
}

// What the next bytes of the file are.
enum piece_kind {
    PIECE_NONE, // the end of the file
    PIECE,
    PIECE_CUT, // the file ends in the middle of it
    PIECE_BAD,
};

struct piece {
    size_t size;       // of all of it
    size_t begin, end; // its commands
    bool batch;
    const char *why_bad;
};

// Returns how many bytes the comment has that begins at `pos` of the buffer; 0 where none does. Redis notes
// the time like that, if it is asked to. Any other line that begins with # is one of ours, or damage.
static size_t comment_size(size_t pos) {
    static const char k_time[] = "#TS:";
    have(pos + k_max_comment);
    const uint8_t *data = buf_data(&load.buf) + pos;
    size_t there = buf_size(&load.buf) - pos;
    bool is_time = there >= sizeof(k_time) && memcmp(data, k_time, sizeof(k_time) - 1) == 0;
    const uint8_t *end = is_time ? memchr(data, '\n', there) : NULL;
    return end ? (size_t)(end - data) + 1 : 0;
}

// A line that begins with #: a batch, or a comment.
static enum piece_kind read_batch(struct piece *piece) {
    struct batch_head head;
    piece->size = comment_size(0);
    if (piece->size > 0) {
        return PIECE;
    }
    bool whole = memchr(buf_data(&load.buf), '\n', buf_size(&load.buf)) != NULL;
    if (!whole && buf_size(&load.buf) < k_max_comment) {
        return PIECE_CUT; // comment_size() would have read on
    }
    piece->batch = load.after_batch || (buf_size(&load.buf) >= k_batch_word &&
                                        memcmp(buf_data(&load.buf), "#BATCH:", k_batch_word) == 0);
    piece->why_bad = "a line that begins with # does not begin a batch";
    if (!aof_batch_head(buf_data(&load.buf), buf_size(&load.buf), &head)) {
        return PIECE_BAD;
    }
    piece->begin = k_batch_head;
    piece->end = k_batch_head + (size_t)head.size;
    piece->size = piece->end + k_batch_tail;
    if (head.size > load.size - load.pos || !have(piece->size)) {
        return PIECE_CUT;
    }
    piece->why_bad = "the sum of the batch is not that of its bytes";
    bool right = aof_batch_right(buf_data(&load.buf), buf_size(&load.buf), load.pos);
    return right ? PIECE : PIECE_BAD;
}

// A command, or all from a MULTI to its EXEC.
static enum piece_kind read_commands(struct piece *piece) {
    char error[k_resp_error_size];
    bool open = false;
    *piece = (struct piece){.why_bad = "it is no command"};
    do {
        struct resp_parser parser = {.ours = true};
        enum resp_status status = RESP_MORE;
        size_t more = k_block;
        resp_args_clear(&load.args);
        piece->size += comment_size(piece->size);
        while (status == RESP_MORE) {
            bool at_end = !have(piece->size + 1);
            const uint8_t *data = buf_data(&load.buf) + piece->size;
            if (!at_end && *data != '*') {
                return PIECE_BAD;
            }
            status = at_end
                         ? RESP_MORE
                         : resp_parse(
                               &parser, data, buf_size(&load.buf) - piece->size, &load.args, error);
            if (status == RESP_MORE && (at_end || !have(buf_size(&load.buf) + 1))) {
                return PIECE_CUT;
            }
            if (status == RESP_MORE) {
                have(buf_size(&load.buf) + more);
                more *= 2;
            }
        }
        if (status == RESP_BAD || load.args.n == 0) {
            return PIECE_BAD;
        }
        open = is_word(&load.args.items[0], "multi") ||
               (open && !is_word(&load.args.items[0], "exec"));
        piece->size += parser.pos;
    } while (open);
    piece->end = piece->size;
    return PIECE;
}

static enum piece_kind read_piece(struct piece *piece) {
    *piece = (struct piece){.why_bad = "it is no command"};
    if (!have(1)) {
        return PIECE_NONE;
    }
    uint8_t first = *buf_data(&load.buf);
    return first == '#' ? read_batch(piece) : first == '*' ? read_commands(piece) : PIECE_BAD;
}

// ---- doing it again ----

// Does a command. Returns what is wrong with it, NULL if nothing is.
static const char *do_again(const struct resp_args *args) {
    const struct slice *name = &args->items[0];
    const struct command *command = find_command(name);
    int64_t index;
    if (is_word(name, "multi") || is_word(name, "exec")) {
        return NULL; // the piece is done as a whole
    }
    if (is_word(name, "select") && args->n == 2) {
        if (!parse_int(&args->items[1], &index) || index < 0 || index >= k_databases) {
            return "there is no such database";
        }
        load.conn.db = db_at((int)index);
        return NULL;
    }
    if (!command || !(command->flags & WRITE) || !command->f) {
        return "we have no such command that writes";
    }
    if (command->arity > 0 ? (int)args->n != command->arity : (int)args->n < -command->arity) {
        return "the number of its arguments is wrong";
    }
    for (size_t i = 1; i < args->n; i++) {
        if (args->items[i].len >= 1 << 28) { // more than val_len can say; Redis has such values
            return "one of its strings is longer than we can keep";
        }
    }
    struct request req = {
        .conn = &load.conn, .command = command, .args = args->items, .nargs = (int)args->n};
    struct reply out = {.buf = &load.reply};
    struct lookups before = get_lookups();
    turn_begin(true);
    command->f(&req, &out);
    effect_done(db_index(load.conn.db), &req); // it is in the log already, which is off
    set_lookups(before);                       // nobody has looked
    bool failed = buf_size(&load.reply) > 0 && *buf_data(&load.reply) == '-';
    buf_truncate(&load.reply, 0);
    return failed ? "it does not go with the keys that are there" : NULL;
}

// Does all commands of a piece. Returns what is wrong with the one at *pos, NULL if nothing is.
static const char *do_piece(const struct piece *piece, size_t *pos) {
    char error[k_resp_error_size];
    for (*pos = piece->begin; *pos < piece->end;) {
        size_t comment = comment_size(*pos);
        if (comment > 0) {
            *pos += comment;
            continue;
        }
        struct resp_parser parser = {.ours = true};
        const uint8_t *data = buf_data(&load.buf) + *pos;
        resp_args_clear(&load.args);
        if (*data != '*' ||
            resp_parse(&parser, data, piece->end - *pos, &load.args, error) != RESP_DONE ||
            load.args.n == 0) {
            return "it is no command";
        }
        const char *why = do_again(&load.args);
        if (why) {
            return why;
        }
        *pos += parser.pos;
    }
    return NULL;
}

// ---- what is not right ----

// Ends the program: the file is damaged at `pos`, in the piece that begins at `begin`.
__attribute__((noreturn)) static void refuse(uint64_t begin, uint64_t pos, const char *why) {
    const char *dir = aof_dir(), *name = this_file()->name;
    msg("%s: %s, byte %" PRIu64 ": %s", k_bad_format, name, pos, why);
    msg("nothing is dropped, since what is behind it relies on it. Bring the file back from a copy."
        " Or, to give up all that is behind it: copy %s/appendonlydir, then type: truncate -s "
        "%" PRIu64 " %s/appendonlydir/%s%s",
        dir,
        begin,
        dir,
        name,
        is_last_file() ? "" : "; and take the files behind it out of the manifest");
    exit(1);
}

// Tells whether what is left begins with a batch that is whole, and says that more than the first `pos` bytes
// were on the disk when it was made. Somebody may have put bytes in front of it, or taken some away: then it
// is right for the place where they begin, or for that up to which all was on the disk. Uses up *budget: where
// that is gone, somebody has filled the file with what looks like batches, and the answer is yes.
static bool tells_of_more(uint64_t pos, uint64_t *budget) {
    struct batch_head head;
    if (!have(k_batch_head) || !aof_batch_head(buf_data(&load.buf), buf_size(&load.buf), &head) ||
        head.synced <= pos || head.size > load.size - load.pos ||
        !have(k_batch_head + head.size + k_batch_tail)) {
        return false;
    }
    const uint8_t *data = buf_data(&load.buf);
    size_t size = buf_size(&load.buf);
    if (head.size > *budget) {
        return true;
    }
    *budget -= head.size;
    return aof_batch_right(data, size, load.pos) || aof_batch_right(data, size, pos) ||
           aof_batch_right(data, size, head.synced);
}

// Tells whether what is at `pos` was on the disk once, as any batch from here on tells. Uses them up.
static bool was_synced(uint64_t pos) {
    uint64_t budget = k_sums * (load.size - pos);
    while (have(1)) {
        if (tells_of_more(pos, &budget)) {
            return true;
        }
        const uint8_t *data = buf_data(&load.buf),
                      *next = memchr(data + 1, '#', buf_size(&load.buf) - 1);
        skip(next ? (size_t)(next - data) : buf_size(&load.buf));
    }
    return false;
}

// Goes back to the byte at `pos`.
static void go_back(uint64_t pos) {
    buf_truncate(&load.buf, 0);
    load.pos = pos;
    if (lseek(load.fd, (off_t)pos, SEEK_SET) < 0) {
        die("lseek %s", this_file()->name);
    }
}

// Tells whether all from here on is zeros. Uses it up.
static bool all_zeros(void) {
    while (have(1) && *buf_data(&load.buf) == 0) {
        skip(1);
    }
    return !have(1);
}

// The file is not right from here on: drops the rest of it, if that is a torn tail. Where Redis has written,
// without sums, that is a command that is cut, or zeros.
static void drop_tail(const struct piece *piece, enum piece_kind kind) {
    uint64_t pos = load.pos, n = load.size - pos;
    bool ours = piece->batch || (load.after_batch && *buf_data(&load.buf) != '*');
    bool torn = is_last_file() && (kind == PIECE_CUT || ours || all_zeros());
    go_back(pos);
    if (!torn || was_synced(pos)) {
        refuse(pos, pos, kind == PIECE_CUT ? "the file ends in the middle of it" : piece->why_bad);
    }
    int fd = openat(aof_dir_fd(), this_file()->name, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)pos) < 0 || fsync(fd) < 0) {
        die("%s: to drop what is behind byte %" PRIu64, this_file()->name, pos);
    }
    close(fd);
    msg("%s: the last %" PRIu64 " bytes, from byte %" PRIu64
        " on, were not written to their end when the machine stopped, and were never said to be"
        " on the disk: dropped",
        this_file()->name,
        n,
        pos);
    load.size = pos;
    go_back(pos);
}

// ---- files ----

static void open_file(void) {
    const struct aof_file *file = this_file();
    struct stat stat;
    load.fd = openat(aof_dir_fd(), file->name, O_RDONLY | O_CLOEXEC);
    if (load.fd < 0 || fstat(load.fd, &stat) < 0) {
        msg("%s/appendonlydir/%s: %s, and the manifest names it: bring it back from a copy",
            aof_dir(),
            file->name,
            strerror(errno));
        exit(1);
    }
    load.pos = 0;
    load.size = (uint64_t)stat.st_size;
    load.after_batch = false;
    load.conn.db = db_at(0);
    if (file->size >= 0 && !is_last_file() && load.size != (uint64_t)file->size) {
        refuse(load.size, load.size, "the file has not the size that the manifest says");
    }
    if (have(5) && memcmp(buf_data(&load.buf), "REDIS", 5) == 0) {
        msg("%s is in the binary form of Redis, which we do not read: have redis-server write it"
            " anew, by BGREWRITEAOF with `aof-use-rdb-preamble no`",
            file->name);
        exit(1);
    }
}

// Says how far it is, once a second.
static void say_progress(int64_t now_ms) {
    if (now_ms - load.said_ms >= k_say_ms) {
        load.said_ms = now_ms;
        msg("loading the append-only file: %" PRIu64 " of %" PRIu64 " MB",
            load.done >> 20,
            load.total >> 20);
    }
    aof_loads(load.done, load.total + 1); // 0 is for no log
}

static void load_end(void) {
    uint64_t size = load.size;
    bool base = this_file()->type == 'b';
    aof_loads(0, 0);
    buf_dispose(&load.buf);
    buf_dispose(&load.reply);
    resp_args_dispose(&load.args);
    if (base ? !aof_begin(manifest_free_seq(aof_manifest()))
             : !aof_continue(size, load.after_batch)) {
        die("%s/appendonlydir", aof_dir());
    }
    msg("DB loaded from append only file: %.3f seconds",
        (double)(get_monotonic_msec() - load.start_ms) / 1000);
    msg("Ready to accept connections");
}

// Begins to load the log, if there is one; begins one, if there is to be one.
void load_start(void) {
    const struct manifest *manifest = aof_manifest();
    if (!aof_wanted() || manifest->n == 0) {
        if (aof_wanted() && !aof_begin(1)) {
            die("%s/appendonlydir", aof_dir());
        }
        msg("Ready to accept connections");
        return;
    }
    for (int i = 0; i < manifest->n; i++) {
        struct stat stat;
        if (fstatat(aof_dir_fd(), manifest->files[i].name, &stat, 0) == 0) {
            load.total += (uint64_t)stat.st_size;
        }
    }
    load.start_ms = load.said_ms = get_monotonic_msec();
    aof_loads(0, load.total + 1);
    set_now(get_wall_msec());
    open_file();
    load_some(); // a short log is loaded before anybody is served
}

// Loads for some milliseconds. When all is loaded, what changes is logged again.
void load_some(void) {
    int64_t now_ms = get_monotonic_msec(), end_ms = now_ms + k_load_ms;
    struct piece piece;
    set_now(get_wall_msec());
    while (now_ms < end_ms) {
        size_t pos;
        enum piece_kind kind = read_piece(&piece);
        if (kind == PIECE_CUT || kind == PIECE_BAD) {
            drop_tail(&piece, kind);
        } else if (kind == PIECE) {
            const char *why = do_piece(&piece, &pos);
            if (why) {
                refuse(load.pos, load.pos + pos, why);
            }
            load.after_batch = piece.batch;
            skip(piece.size);
        } else {
            close(load.fd);
            if (is_last_file()) {
                load_end();
                return;
            }
            load.file++;
            open_file();
        }
        now_ms = get_monotonic_msec();
    }
    say_progress(now_ms);
}
