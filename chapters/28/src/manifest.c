// manifest.c: which files the log has
//
// A log is one directory, and a file in it that names the others: the manifest, as Redis 7 writes it.
//
//   file appendonly.aof.1.base.aof seq 1 type b size 4211
//   file appendonly.aof.1.incr.aof seq 1 type i
//
// What the manifest does not name does not belong to the log. It is replaced as a whole, by a rename: there
// is the old one, or the new one.
//
// Owns the highest number that perhaps stands in the manifest on the disk.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base.h"
#include "io.h"
#include "mem.h"
#include "resp.h"

#include "server.h"

static const char k_manifest[] = "appendonly.aof.manifest";
static const char k_temp[] = "temp-appendonly.aof.manifest";

enum {
    k_max_manifest = 1 << 20, // bytes that are read of it
};

static int64_t perhaps_named;

// Returns a number that no file has, and no name of one; nor, perhaps, one that is named on the disk.
int64_t manifest_free_seq(const struct manifest *manifest) {
    int64_t free_seq = perhaps_named + 1;
    for (int i = 0; i < manifest->n; i++) {
        const struct aof_file *file = &manifest->files[i];
        long long in_name = 0;
        sscanf(file->name, "appendonly.aof.%lld", &in_name);
        free_seq = file->seq >= free_seq ? file->seq + 1 : free_seq;
        free_seq = in_name >= free_seq ? in_name + 1 : free_seq;
    }
    return free_seq;
}

// Adds a file, in front of what is history, named as Redis names it. Returns it, borrowed; NULL where there are
// too many.
struct aof_file *manifest_add(struct manifest *manifest, char type, int64_t seq) {
    if (manifest->n + manifest->n_old == k_aof_max_files) {
        msg("the log has %d files: have it written anew, by BGREWRITEAOF of redis-server, or in a"
            " new directory",
            k_aof_max_files);
        return NULL;
    }
    manifest->files[manifest->n + manifest->n_old] = manifest->files[manifest->n];
    struct aof_file *file = &manifest->files[manifest->n++];
    *file = (struct aof_file){.seq = seq, .type = type, .size = -1};
    snprintf(file->name,
             sizeof(file->name),
             "appendonly.aof.%lld.%s.aof",
             (long long)seq,
             type == 'b' ? "base" : "incr");
    return file;
}

// Copies a word. Returns whether it fits, and has a byte.
static bool copy_word(const struct slice *word, char *text, size_t size) {
    if (word->len == 0 || word->len >= size || memchr(word->data, 0, word->len)) {
        return false;
    }
    memcpy(text, word->data, word->len);
    text[word->len] = '\0';
    return true;
}

static bool word_is(const struct slice *word, const char *text) {
    return word->len == strlen(text) && strncasecmp((const char *)word->data, text, word->len) == 0;
}

// Reads the pairs of a line into *file. Returns what is wrong, NULL if nothing is.
static const char *read_file(const struct slice *words, size_t n, struct aof_file *file) {
    *file = (struct aof_file){.size = -1};
    if (n < 6 || n % 2 != 0) {
        return "it is no list of names and values";
    }
    for (size_t i = 0; i < n; i += 2) {
        const struct slice *value = &words[i + 1];
        int64_t *number = word_is(&words[i], "seq")    ? &file->seq
                          : word_is(&words[i], "size") ? &file->size
                                                       : NULL;
        if (word_is(&words[i], "file") && (!copy_word(value, file->name, sizeof(file->name)) ||
                                           strpbrk(file->name, "/ \t\r\n\"'"))) {
            return "the name is no name of a file in this directory, or has blanks or quotes";
        }
        if (number && (!resp_parse_int(value->data, value->len, number) || *number < 0)) {
            return "a number is none";
        }
        if (word_is(&words[i], "type")) {
            file->type = value->len == 1 ? (char)value->data[0] : '?';
        }
    }
    if (!file->name[0] || file->seq == 0 || !file->type || !strchr("bhi", file->type)) {
        return "it has no name, no number above 0, or no type b, h or i";
    }
    return NULL;
}

// Adds what a line says. Returns what is wrong, NULL if nothing is.
static const char *read_line(struct manifest *manifest, const uint8_t *line, size_t len) {
    struct resp_args words = {0};
    struct aof_file file;
    uint8_t *room = mem_alloc(len + 1);
    const char *why = "a quote is not closed";
    if (resp_split(line, len, room, &words)) {
        why = read_file(words.items, words.n, &file);
    }
    resp_args_dispose(&words);
    free(room);
    if (why) {
        return why;
    }
    if (manifest->n + manifest->n_old == k_aof_max_files) {
        return "there are too many files";
    }
    if (file.type == 'h') {
        manifest->files[manifest->n + manifest->n_old++] = file;
        return NULL;
    }
    const struct aof_file *last = manifest->n > 0 ? &manifest->files[manifest->n - 1] : NULL;
    if (file.type == 'b' && last) {
        return "a base has to come first";
    }
    if (last && last->type == 'i' && file.seq <= last->seq) {
        return "the numbers do not grow";
    }
    manifest->files[manifest->n + manifest->n_old] = manifest->files[manifest->n];
    manifest->files[manifest->n++] = file;
    return NULL;
}

// Reads the manifest into *manifest, and returns what it was. Where it is bad, there is a log, and we do not
// know which files it has.
enum manifest_state manifest_read(int dir_fd, struct manifest *manifest) {
    manifest->n = manifest->n_old = 0;
    int fd = openat(dir_fd, k_manifest, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        return MANIFEST_NONE;
    }
    char *text = mem_alloc(k_max_manifest);
    ssize_t size = fd < 0 ? -1 : read_full(fd, text, k_max_manifest);
    const char *why = size < 0                              ? strerror(errno)
                      : size == 0 || size == k_max_manifest ? "it is empty, or too long"
                                                            : NULL;
    const char *end = text + (size > 0 ? size : 0);
    if (fd >= 0) {
        close(fd);
    }
    int number = 1;
    for (const char *line = text; !why && line < end; number++) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        if (!next) {
            why = "the last line has no end";
        } else if (*line != '#') {
            why = read_line(manifest, (const uint8_t *)line, (size_t)(next - line));
        }
        line = next ? next + 1 : end;
    }
    if (why) {
        msg("Bad file format: %s, line %d: %s", k_manifest, number > 1 ? number - 1 : 1, why);
        msg("the files of the log are still there: write down their names in that file, a line for"
            " each, as `file appendonly.aof.1.incr.aof seq 1 type i`");
    }
    free(text);
    return why ? MANIFEST_BAD : MANIFEST_READ;
}

// Writes the manifest into a file of this name. Returns whether it is on the disk.
static bool write_as(int dir_fd, const char *name, const struct manifest *manifest) {
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "w");
    if (!stream) {
        return false;
    }
    for (int i = 0; i < manifest->n + manifest->n_old; i++) {
        const struct aof_file *file = &manifest->files[i];
        fprintf(stream, "file %s seq %lld type %c", file->name, (long long)file->seq, file->type);
        if (file->size >= 0) {
            fprintf(stream, " size %lld", (long long)file->size);
        }
        fputc('\n', stream);
    }
    bool ok = fflush(stream) == 0 && !ferror(stream) && fsync(fd) == 0;
    int err = errno;
    fclose(stream);
    errno = err;
    return ok;
}

// Replaces the manifest by this one. Returns whether it is on the disk; if not, errno says why, and either the
// old one counts or the new one. The files that it names have to be on the disk already. The new manifest is
// synced first, then it gets its name, then the name is synced: a directory is a file, too.
bool manifest_write(int dir_fd, const struct manifest *manifest) {
    if (!write_as(dir_fd, k_temp, manifest)) {
        return false;
    }
    perhaps_named = manifest_free_seq(manifest) - 1;
    return renameat(dir_fd, k_temp, dir_fd, k_manifest) == 0 && fsync(dir_fd) == 0;
}
