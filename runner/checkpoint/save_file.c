#include "runner/checkpoint/save_file.h"

#include "core/base/number.h"
#include "core/checkpoint/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a direct write, so many that waking up after each costs little; bytes that are copied at
 * once; bytes that the disk gets while the next are copied. */
enum { DIRECT_BYTES = 1 << 23, COPY_BYTES = 1 << 17, START_BYTES = 1 << 23 };

/* ---- Direct I/O ---- */

/* Fills in the alignments that the file system wants. They are at least a page and a block, so that
 * no page is written both ways. A kernel before Linux 6.1 cannot tell. */
static void find_alignment(struct sw_save_file *file)
{
    file->align = file->memory_align = 0;
#ifdef STATX_DIOALIGN
    struct statx info;
    if (statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0 ||
        (info.stx_mask & STATX_DIOALIGN) == 0 || info.stx_dio_offset_align == 0)
        return;
    int64_t align = sysconf(_SC_PAGESIZE);
    align = align > info.stx_blksize ? align : info.stx_blksize;
    align = align > info.stx_dio_offset_align ? align : info.stx_dio_offset_align;
    if (DIRECT_BYTES % align != 0 || align % info.stx_dio_mem_align != 0)
        return;
    file->align = align;
    file->memory_align = info.stx_dio_mem_align;
#endif
}

static int set_direct(struct sw_save_file *file, bool direct)
{
    if (file->direct == direct)
        return 0;
    if (fcntl(file->fd, F_SETFL, direct ? O_DIRECT : 0) != 0)
        return -1;
    file->direct = direct;
    return 0;
}

/* Through the page cache. */
static int write_cached(struct sw_save_file *file, const char *data, int64_t bytes,
                        struct sw_error *err)
{
    if (set_direct(file, false) != 0)
        return sw_store_fail(err, "write", file->name);
    while (bytes > 0) {
        const int64_t now = bytes < COPY_BYTES ? bytes : COPY_BYTES;
        if (sw_store_write_at(file->fd, file->name, data, (size_t)now, file->at, err) != 0)
            return -1;
        if ((file->at + now) / START_BYTES != file->at / START_BYTES)
            sw_store_start_writing(file->fd, file->at + now - START_BYTES, START_BYTES);
        data += now;
        bytes -= now;
        file->at += now;
    }
    return 0;
}

/* Aligned bytes. Where the file system refuses them, or stops within a block, they and the rest of
 * the file go through the page cache. */
static int write_direct(struct sw_save_file *file, const char *data, int64_t bytes,
                        struct sw_error *err)
{
    if (set_direct(file, true) != 0)
        file->align = 0;
    while (bytes > 0 && file->align > 0) {
        const int64_t now = bytes < DIRECT_BYTES ? bytes : DIRECT_BYTES;
        const ssize_t done = pwrite(file->fd, data, (size_t)now, (off_t)file->at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 && errno != EINVAL)
            return sw_store_fail(err, "write", file->name);
        if (done <= 0 || done % file->align != 0)
            file->align = 0;
        if (done > 0) {
            data += done;
            bytes -= done;
            file->at += done;
        }
    }
    return write_cached(file, data, bytes, err);
}

/* ---- In order ---- */

/* Writes the buffer, whose first byte belongs at a multiple of `align`. */
static int flush(struct sw_save_file *file, struct sw_error *err)
{
    const int64_t bytes = file->buffer_bytes;
    if (bytes == 0)
        return 0;
    const int64_t rest = bytes % file->align;
    file->buffer_bytes = 0;
    if (write_direct(file, file->buffer, bytes - rest, err) != 0)
        return -1;
    return write_cached(file, file->buffer + (bytes - rest), rest, err);
}

/* Copies into the buffer: how many of the bytes. Without memory for one there is no direct I/O. */
static int64_t fill(struct sw_save_file *file, const char *data, int64_t bytes)
{
    if (file->buffer == NULL)
        file->buffer = aligned_alloc((size_t)file->align, DIRECT_BYTES);
    if (file->buffer == NULL) {
        file->align = 0;
        return 0;
    }
    const int64_t room = DIRECT_BYTES - file->buffer_bytes, now = bytes < room ? bytes : room;
    memcpy(file->buffer + file->buffer_bytes, data, (size_t)now);
    file->buffer_bytes += now;
    return now;
}

static bool is_aligned(const struct sw_save_file *file, const char *data)
{
    return (uintptr_t)data % (uintptr_t)file->memory_align == 0;
}

/* Writes, or keeps in the buffer, some of the bytes: how many; -1: it failed. */
static int64_t write_some(struct sw_save_file *file, const char *data, int64_t bytes,
                          struct sw_error *err)
{
    int64_t now = bytes;
    if (file->align == 0)
        return write_cached(file, data, now, err) != 0 ? -1 : now;
    const int64_t before = sw_align(file->at, file->align) - file->at;
    if (before > 0) { /* the rest of a page that another rank begins */
        now = bytes < before ? bytes : before;
        return write_cached(file, data, now, err) != 0 ? -1 : now;
    }
    if (file->buffer_bytes == 0 && bytes >= file->align && is_aligned(file, data)) {
        now -= bytes % file->align;
        return write_direct(file, data, now, err) != 0 ? -1 : now;
    }
    now = fill(file, data, bytes);
    return file->buffer_bytes == DIRECT_BYTES && flush(file, err) != 0 ? -1 : now;
}

int64_t sw_save_file_piece(const struct sw_save_file *file, const void *data)
{
    if (file->align == 0 || file->buffer_bytes > 0)
        return COPY_BYTES;
    const int64_t before = sw_align(file->at, file->align) - file->at;
    return is_aligned(file, (const char *)data + before) ? DIRECT_BYTES - file->at % DIRECT_BYTES
                                                         : COPY_BYTES;
}

int sw_save_file_write(struct sw_save_file *file, const void *data, int64_t bytes,
                       struct sw_error *err)
{
    for (const char *from = data; bytes > 0;) {
        const int64_t now = write_some(file, from, bytes, err);
        if (now < 0)
            return -1;
        from += now;
        bytes -= now;
    }
    return 0;
}

int sw_save_file_open(struct sw_save_file *file, const char *aside, const char *name, int64_t at,
                      struct sw_error *err)
{
    file->fd = sw_store_open_file(aside, name, err);
    if (file->fd < 0)
        return -1;
    file->name = name;
    file->at = at;
    file->direct = false;
    file->buffer_bytes = 0;
    find_alignment(file);
    return 0;
}

int sw_save_file_close(struct sw_save_file *file, struct sw_error *err)
{
    int status = flush(file, err);
    if (status == 0)
        status = sw_store_close_file(file->fd, file->name, err);
    else
        (void)close(file->fd);
    file->fd = -1;
    return status;
}

void sw_save_file_give_up(struct sw_save_file *file)
{
    if (file->fd >= 0)
        (void)close(file->fd);
    free(file->buffer);
    file->buffer = NULL;
    file->fd = -1;
}
