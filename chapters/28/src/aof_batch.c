// aof_batch.c: the form of a batch in the log
//
//   #BATCH:0000000058 00000000000000000000\r\n     bytes of commands; bytes of the file known to be on the disk
//   *2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n...      commands
//   #CRC:9b3d1e0c77a4f625\r\n                      the sum of all that, and of where in the file it stands
//
// Redis skips lines that begin with #, and reads the commands. A batch without commands is a mark: it says
// how much is on the disk. Owns the tables of the sum.

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "crc64.h"

#include "server.h"

static const char k_head[] = "#BATCH:";
static struct crc64 crc;

// Makes the tables ready.
void aof_batch_start(void) {
    crc64_init(&crc);
}

// Begins a batch at the end of `buf`, with room for its first line. Returns where that is; the commands are
// to be appended behind it.
size_t aof_batch_begin(struct buf *buf) {
    size_t pos = buf_size(buf);
    memset(buf_reserve(buf, k_batch_head), 0, k_batch_head);
    buf_commit(buf, k_batch_head);
    return pos;
}

// Returns the sum of the `size` bytes of a batch, without its last line, which stand at `offset` in a file.
static uint64_t sum_of(const uint8_t *data, size_t size, uint64_t offset) {
    uint8_t place[8];
    for (int i = 0; i < 8; i++) {
        place[i] = (uint8_t)(offset >> 8 * i);
    }
    return crc64_add(&crc, crc64_add(&crc, 0, place, sizeof(place)), data, size);
}

// Writes both lines of the batch at `pos`, up to the end of its commands, which is the end of `buf`, or
// where its last line is, if it has one already. It is to stand at `offset` in its file.
void aof_batch_seal(struct buf *buf, size_t pos, uint64_t offset, uint64_t synced) {
    size_t end = aof_batch_next(buf, pos);
    if (end == pos) {
        end = buf_size(buf) + k_batch_tail;
        buf_reserve(buf, k_batch_tail + 1);
        buf_commit(buf, k_batch_tail);
    }
    char line[k_batch_head + 1];
    uint8_t *data = buf_data(buf) + pos;
    size_t size = end - pos - k_batch_tail;
    snprintf(
        line, sizeof(line), "%s%010zu %020" PRIu64 "\r\n", k_head, size - k_batch_head, synced);
    memcpy(data, line, k_batch_head);
    snprintf(line, sizeof(line), "#CRC:%016" PRIx64 "\r\n", sum_of(data, size, offset));
    memcpy(data + size, line, k_batch_tail);
}

// Reads `n` digits. Returns whether there are no other bytes.
static bool read_digits(const uint8_t *data, int n, uint64_t *value) {
    *value = 0;
    for (int i = 0; i < n; i++) {
        if (data[i] < '0' || data[i] > '9') {
            return false;
        }
        *value = *value * 10 + (data[i] - '0');
    }
    return true;
}

// Reads the first line of a batch. Returns whether the `size` bytes at `data` begin with one.
bool aof_batch_head(const uint8_t *data, size_t size, struct batch_head *head) {
    size_t n = sizeof(k_head) - 1;
    return size >= k_batch_head && memcmp(data, k_head, n) == 0 &&
           read_digits(data + n, 10, &head->size) && data[n + 10] == ' ' &&
           read_digits(data + n + 11, 20, &head->synced) && memcmp(data + n + 31, "\r\n", 2) == 0;
}

// Tells whether the `size` bytes at `data`, which stand at `offset` in a file, begin with a batch that is
// whole, and as it was written.
bool aof_batch_right(const uint8_t *data, size_t size, uint64_t offset) {
    struct batch_head head;
    char line[k_batch_tail + 1];
    if (!aof_batch_head(data, size, &head) || head.size > size ||
        size - head.size < k_batch_head + k_batch_tail) {
        return false;
    }
    size_t before = k_batch_head + (size_t)head.size;
    snprintf(line, sizeof(line), "#CRC:%016" PRIx64 "\r\n", sum_of(data, before, offset));
    return memcmp(data + before, line, k_batch_tail) == 0;
}

// Returns where the batch behind the one at `pos` begins, both in `buf`; `pos` if that one is not sealed.
size_t aof_batch_next(const struct buf *buf, size_t pos) {
    struct batch_head head;
    if (!aof_batch_head(buf_data(buf) + pos, buf_size(buf) - pos, &head)) {
        return pos;
    }
    return pos + k_batch_head + (size_t)head.size + k_batch_tail;
}
