// aof_dir.c: the directory of the log
//
// Owns it, and knows which files the log has. What is new there comes in an order in which the machine may
// stop at any place: at each of them there is a log that is right, the old one or the new one.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"
#include "buf.h"
#include "io.h"

#include "server.h"

static const char k_dir_name[] = "appendonlydir";

static char *parent; // owned; where the directory is, as the setting says
static int dir_fd = -1;
static struct manifest manifest;
static int64_t perhaps_from; // the first file that was perhaps named and then given up, 0 for none

// Returns whether the directory has no files of a log. If there are some, and no manifest, says so: which of
// them count?
bool aof_dir_is_clean(void) {
    bool clean = true;
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (const struct dirent *file; dir && (file = readdir(dir));) {
        struct stat stat;
        size_t len = strlen(file->d_name);
        if (len > 4 && strcmp(file->d_name + len - 4, ".aof") == 0 &&
            fstatat(dir_fd, file->d_name, &stat, 0) == 0 &&
            stat.st_size > k_batch_head + k_batch_tail) { // more than the mark that it begins with
            msg("%s/%s has %s, and no manifest that names it. Write one, or move the directory"
                " away. For each file it has a line such as"
                " `file appendonly.aof.1.incr.aof seq 1 type i`; a base comes first, with type b",
                parent,
                k_dir_name,
                file->d_name);
            clean = false;
        }
    }
    if (dir) {
        closedir(dir);
    }
    return clean;
}

// Opens the directory of the log, makes it where there is none, and locks it. Returns whether that works; if
// not, has said why. A directory that is made is on the disk when its parent is.
bool aof_open_dir(void) {
    int fd = dir_fd < 0 ? open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0 && (mkdirat(fd, k_dir_name, 0755) == 0 || errno == EEXIST) && fsync(fd) == 0) {
        dir_fd = openat(fd, k_dir_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (dir_fd < 0) {
        msg("DIR=%s: cannot have a log in here: %s", parent, strerror(errno));
    } else if (flock(dir_fd, LOCK_EX | LOCK_NB) < 0) {
        msg("DIR=%s: another server has its log here: end it first, or choose another DIR", parent);
        close(dir_fd);
        dir_fd = -1;
    }
    if (fd >= 0) {
        close(fd);
    }
    return dir_fd >= 0;
}

// Deletes a base that did not get done.
void aof_remove_temp(void) {
    unlinkat(dir_fd, k_aof_temp_base, 0);
}

// Deletes what is history. The manifest that says so has to be on the disk.
void aof_remove_old(struct manifest *manifest) {
    for (; manifest->n_old > 0; manifest->n_old--) {
        unlinkat(dir_fd, manifest->files[manifest->n + manifest->n_old - 1].name, 0);
    }
}

// Reads where the log is to be, and if it is `wanted`, which files it has. Ends the program where that is
// wrong.
void aof_dir_start(bool wanted) {
    const char *dir = getenv("DIR");
    parent = realpath(dir && *dir ? dir : ".", NULL);
    if (!parent) {
        die("DIR=%s", dir ? dir : ".");
    }
    if (!wanted) {
        return;
    }
    if (!aof_open_dir()) {
        exit(1);
    }
    enum manifest_state state = manifest_read(dir_fd, &manifest);
    if (state == MANIFEST_BAD || (state == MANIFEST_NONE && !aof_dir_is_clean())) {
        exit(1);
    }
    if (fsync(dir_fd) < 0) { // the manifest that we go by has to stay the one
        die("fsync %s/%s", parent, k_dir_name);
    }
    aof_remove_temp();
    aof_remove_old(&manifest);
}

// Closes the directory.
void aof_dir_end(void) {
    if (dir_fd >= 0) {
        close(dir_fd);
    }
    free(parent);
}

// Returns the files of the log, borrowed.
struct manifest *aof_manifest(void) {
    return &manifest;
}

// Returns the directory that these are in, -1 where none is open.
int aof_dir_fd(void) {
    return dir_fd;
}

// Returns the file that the log goes on in, borrowed. There has to be one.
const struct aof_file *aof_last_file(void) {
    return &manifest.files[manifest.n - 1];
}

// Returns the directory in which that of the log is.
const char *aof_dir(void) {
    return parent;
}

// Returns how many bytes the files of the log have in front of its last one. Redis writes no sizes into a
// manifest.
uint64_t aof_size_before_last(void) {
    uint64_t size = 0;
    for (int i = 0; i < manifest.n - 1; i++) {
        const struct aof_file *file = &manifest.files[i];
        struct stat stat = {.st_size = file->size};
        if (file->size < 0 && fstatat(dir_fd, file->name, &stat, 0) < 0) {
            stat.st_size = 0;
        }
        size += (uint64_t)stat.st_size;
    }
    return size;
}

// Deletes the files that were perhaps named, up to the one in front of `seq`: the manifest on the disk does
// not name them.
static void remove_perhaps(int64_t seq) {
    char name[k_aof_max_name];
    for (; perhaps_from != 0 && perhaps_from < seq; perhaps_from++) {
        snprintf(name, sizeof(name), "appendonly.aof.%lld.incr.aof", (long long)perhaps_from);
        unlinkat(dir_fd, name, 0);
    }
    perhaps_from = 0;
}

// Makes a file that begins with `content`, and has the manifest name it behind those that it names; the one
// before it, `old_fd` if there is one, ends at `old_size` then. Returns its descriptor; where that does not
// work, k_not_made or k_perhaps_made, with errno, and *manifest is as it was.
//
// The order is what counts. A file is on the disk before the manifest names it. And the old one is cut before
// the new one counts: what is in both would be done twice.
int aof_new_file(struct manifest *manifest, int64_t seq, const struct buf *content, int old_fd,
                 uint64_t old_size) {
    struct aof_file *file = manifest_add(manifest, 'i', seq);
    if (!file) {
        errno = EMFILE;
        return k_not_made;
    }
    struct aof_file *old = old_fd < 0 ? NULL : file - 1;
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC;
    int fd = openat(dir_fd, file->name, flags, 0644);
    bool ok = fd >= 0 && write_all(fd, buf_data(content), buf_size(content)) == 0 &&
              fsync(fd) == 0 && fsync(dir_fd) == 0;
    if (ok && old) {
        old->size = (int64_t)old_size;
        ok = ftruncate(old_fd, (off_t)old_size) == 0 && fdatasync(old_fd) == 0;
    }
    if (ok && manifest_write(dir_fd, manifest)) {
        remove_perhaps(seq);
        return fd;
    }
    int err = errno;
    if (ok && perhaps_from == 0) {
        perhaps_from = seq;
    }
    if (old) {
        old->size = -1;
    }
    if (fd >= 0 && !ok && ftruncate(fd, 0) < 0) { // no start may find what the disk has not
        msg("the append-only file: ftruncate: %s", strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    manifest->n--;
    manifest->files[manifest->n] = manifest->files[manifest->n + manifest->n_old];
    errno = err;
    return ok ? k_perhaps_made : k_not_made;
}
