#include "runner/checkpoint/part.h"

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/checkpoint/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Bytes written at once, which the checksum then finds in the core's own cache, and those that the
 * disk gets as soon as they are written, while the next are copied. */
enum { WRITE_BYTES = 1 << 17, START_BYTES = 1 << 23 };

/* ---- Slices ---- */

/* The number in its file of the slice that holds a byte of the data. */
static int32_t slice_at(const struct sw_placement *p, int32_t file, int64_t position)
{
    return (int32_t)(1 + position / p->slice_bytes - p->file[file].data_begin / p->slice_bytes);
}

static int64_t slice_end(const struct sw_placement *p, int32_t file, int64_t position)
{
    int64_t begin, end;
    sw_manifest_slice(p->file[file].bytes, p->file[file].data_begin, p->slice_bytes,
                      slice_at(p, file, position), &begin, &end);
    return end;
}

void sw_part_slices(const struct sw_placement *p, int32_t e, int32_t *first, int32_t *count)
{
    const struct sw_extent *x = &p->extent[e];
    *first = slice_at(p, x->file, x->begin);
    *count = x->end > x->begin ? slice_at(p, x->file, x->end - 1) - *first + 1 : 0;
}

static int32_t slices_of(const struct sw_placement *p, int32_t rank)
{
    int32_t sum = 0, first, count;
    for (int32_t e = p->first_extent[rank]; e < p->first_extent[rank + 1]; e++) {
        sw_part_slices(p, e, &first, &count);
        sum += count;
    }
    return sum;
}

int32_t sw_part_most_slices(const struct sw_placement *p)
{
    int32_t most = 0;
    for (int32_t r = 0; r < p->ranks; r++) {
        const int32_t mine = slices_of(p, r);
        most = mine > most ? mine : most;
    }
    return most;
}

/* ---- The stream ---- */

int sw_part_open(const struct sw_placement *placement, int32_t rank, struct sw_part *out,
                 struct sw_error *err)
{
    *out = (struct sw_part){.placement = placement, .rank = rank, .fd = -1};
    out->bytes = sw_placement_rank_bytes(placement, rank);
    out->checksum = calloc((size_t)sw_part_most_slices(placement) + 1, sizeof *out->checksum);
    out->stream = sw_checksum_begin();
    if (out->checksum != NULL && out->stream != NULL)
        return 0;
    sw_part_close(out);
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the checksums of a checkpoint");
}

void sw_part_close(struct sw_part *part)
{
    if (part->placement != NULL)
        sw_part_give_up(part);
    sw_checksum_free(part->stream);
    free(part->checksum);
    *part = (struct sw_part){.fd = -1};
}

void sw_part_give_up(struct sw_part *part)
{
    if (part->fd >= 0)
        (void)close(part->fd);
    part->fd = -1;
}

static const struct sw_extent *extent(const struct sw_part *part)
{
    return &part->placement->extent[part->extent];
}

static const char *name(const struct sw_part *part)
{
    return part->placement->file[extent(part)->file].name;
}

static int32_t extents_end(const struct sw_part *part)
{
    return part->placement->first_extent[part->rank + 1];
}

/* To the next extent that has bytes. */
static void enter(struct sw_part *part)
{
    while (part->extent < extents_end(part) && extent(part)->begin == extent(part)->end)
        part->extent++;
    if (part->extent < extents_end(part))
        part->position = extent(part)->begin;
}

static void rewind_part(struct sw_part *part, const char *folder)
{
    sw_part_give_up(part);
    part->folder = folder;
    part->at = 0;
    part->slice = 0;
    part->extent = part->placement->first_extent[part->rank];
    (void)sw_checksum_take(part->stream);
    enter(part);
}

/* ---- Writing ---- */

void sw_part_begin_writing(struct sw_part *part, const char *folder, double bytes_per_second)
{
    rewind_part(part, folder);
    part->bytes_per_second = bytes_per_second;
    part->begun = sw_clock_now();
}

/* Until the bytes written so far may have been. */
static void hold_back(const struct sw_part *part)
{
    if (part->bytes_per_second <= 0)
        return;
    const double ahead = part->begun + (double)part->at / part->bytes_per_second - sw_clock_now();
    if (ahead <= 0)
        return;
    struct timespec left = {(time_t)ahead, (long)((ahead - (double)(time_t)ahead) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

static int close_extent(struct sw_part *part, struct sw_error *err)
{
    const int fd = part->fd;
    part->fd = -1;
    if (fd >= 0 && sw_store_close_file(fd, name(part), err) != 0)
        return -1;
    part->extent++;
    enter(part);
    return 0;
}

int sw_part_write(struct sw_part *part, const void *data, int64_t bytes, struct sw_error *err)
{
    const char *from = data;
    while (bytes > 0) {
        const struct sw_extent *x = extent(part);
        const int64_t end = slice_end(part->placement, x->file, part->position);
        const int64_t left = bytes < end - part->position ? bytes : end - part->position;
        const int64_t now = left < WRITE_BYTES ? left : WRITE_BYTES;
        if (part->fd < 0)
            part->fd = sw_store_open_file(part->folder, name(part), err);
        if (part->fd < 0 ||
            sw_store_write_at(part->fd, name(part), from, (size_t)now, part->position, err) != 0)
            return -1;
        sw_checksum_add(part->stream, from, (size_t)now);
        if ((part->position + now) / START_BYTES != part->position / START_BYTES)
            sw_store_start_writing(part->fd, part->position + now - START_BYTES, START_BYTES);
        from += now;
        bytes -= now;
        part->at += now;
        part->position += now;
        if (part->position == end)
            part->checksum[part->slice++] = sw_checksum_take(part->stream);
        if (part->position == x->end && close_extent(part, err) != 0)
            return -1;
        hold_back(part);
    }
    return 0;
}

int sw_part_end_writing(struct sw_part *part, struct sw_error *err)
{
    return part->at == part->bytes
               ? 0
               : sw_fail(err, SW_ENVIRONMENT,
                         "%" PRId64 " of %" PRId64 " bytes of a checkpoint were written", part->at,
                         part->bytes);
}

/* ---- Reading ---- */

void sw_part_begin_reading(struct sw_part *part, const char *folder)
{
    rewind_part(part, folder);
}

static int open_extent(struct sw_part *part, struct sw_error *err)
{
    char *path = sw_path_join(part->folder, name(part));
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a file's name");
    part->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (part->fd < 0)
        sw_fail_at(err, errno == ENOENT ? SW_BAD_INPUT : SW_ENVIRONMENT,
                   (struct sw_place){.file = path}, "cannot be read: %s", strerror(errno));
    free(path);
    return part->fd < 0 ? -1 : 0;
}

static int fail_file(const struct sw_part *part, enum sw_status status, const char *what,
                     int64_t begin, int64_t end, struct sw_error *err)
{
    char *path = sw_path_join(part->folder, name(part));
    sw_fail_at(err, status, (struct sw_place){.file = path != NULL ? path : name(part)},
               "bytes %" PRId64 " to %" PRId64 " %s", begin, end, what);
    free(path);
    return -1;
}

static int read_run(struct sw_part *part, char *to, int64_t bytes, int64_t *reads,
                    struct sw_error *err)
{
    int64_t done = 0;
    while (done < bytes) {
        const ssize_t got =
            pread(part->fd, to + done, (size_t)(bytes - done), (off_t)(part->position + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (reads != NULL)
            (*reads)++;
        if (got == 0)
            return fail_file(part, SW_BAD_INPUT, "are missing: the file is shorter than it was",
                             part->position + done, part->position + bytes, err);
        if (got < 0)
            return fail_file(part, SW_ENVIRONMENT, strerror(errno), part->position + done,
                             part->position + bytes, err);
        done += got;
    }
    return 0;
}

/* "'lm_head.weight'", or "'lm_head.weight' and 3 more tensors": what lies in these bytes of a file.
 */
static void name_tensors(const struct sw_placement *p, int32_t f, int64_t begin, int64_t end,
                         char *out, size_t bytes)
{
    const char *first = NULL;
    int32_t count = 0;
    for (int32_t t = 0; t < p->tensor_count; t++)
        if (p->tensor[t].file == f && p->tensor[t].offset < end &&
            p->tensor[t].offset + p->tensor[t].bytes > begin && count++ == 0)
            first = p->tensor[t].name;
    snprintf(out, bytes, count == 0 ? "no tensor" : "'%.120s'", first);
    if (count > 1)
        snprintf(out + strlen(out), bytes - strlen(out), " and %" PRId32 " more tensor%s",
                 count - 1, count == 2 ? "" : "s");
}

static int fail_slice(const struct sw_part *part, int64_t begin, int64_t end, struct sw_error *err)
{
    char tensors[192], what[320];
    name_tensors(part->placement, extent(part)->file, begin, end, tensors, sizeof tensors);
    snprintf(what, sizeof what,
             "(%s) are not what was written: their checksum is wrong" SW_MANIFEST_ADVICE, tensors);
    return fail_file(part, SW_BAD_INPUT, what, begin, end, err);
}

/* Of a run that was read: every slice that ends in it must have the manifest's checksum. */
static int check_run(struct sw_part *part, const struct sw_manifest *manifest, const char *data,
                     int64_t bytes, struct sw_error *err)
{
    const struct sw_manifest_file *file =
        manifest == NULL ? NULL : sw_manifest_find(manifest, name(part));
    const int32_t f = extent(part)->file;
    while (bytes > 0) {
        const struct sw_placement *p = part->placement;
        const int32_t slice = slice_at(p, f, part->position);
        int64_t begin, end;
        sw_manifest_slice(p->file[f].bytes, p->file[f].data_begin, p->slice_bytes, slice, &begin,
                          &end);
        const int64_t now = bytes < end - part->position ? bytes : end - part->position;
        if (file != NULL)
            sw_checksum_add(part->stream, data, (size_t)now);
        data += now;
        bytes -= now;
        part->position += now;
        if (file != NULL && part->position == end &&
            (slice >= file->slice_count ||
             !sw_checksum_equal(sw_checksum_take(part->stream), file->slice[slice])))
            return fail_slice(part, begin, end, err);
    }
    return 0;
}

int sw_part_read(struct sw_part *part, const struct sw_manifest *manifest, void *data,
                 int64_t bytes, int64_t *reads, struct sw_error *err)
{
    char *to = data;
    while (bytes > 0) {
        const struct sw_extent *x = extent(part);
        const int64_t now = bytes < x->end - part->position ? bytes : x->end - part->position;
        if ((part->fd < 0 && open_extent(part, err) != 0) ||
            read_run(part, to, now, reads, err) != 0 ||
            check_run(part, manifest, to, now, err) != 0)
            return -1;
        to += now;
        bytes -= now;
        part->at += now;
        if (part->position == x->end) {
            sw_part_give_up(part);
            part->extent++;
            enter(part);
        }
    }
    return 0;
}
