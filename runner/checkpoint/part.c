#include "runner/checkpoint/part.h"

#include "core/base/clock.h"
#include "core/checkpoint/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

/* ---- Slices ---- */

int32_t sw_part_slice_at(const struct sw_placement *p, int32_t file, int64_t position)
{
    return (int32_t)(1 + position / p->slice_bytes - p->file[file].data_begin / p->slice_bytes);
}

static int64_t slice_end(const struct sw_placement *p, int32_t file, int64_t position)
{
    int64_t begin, end;
    sw_manifest_slice(p->file[file].bytes, p->file[file].data_begin, p->slice_bytes,
                      sw_part_slice_at(p, file, position), &begin, &end);
    return end;
}

void sw_part_slices(const struct sw_placement *p, int32_t e, int32_t *first, int32_t *count)
{
    const struct sw_extent *x = &p->extent[e];
    *first = sw_part_slice_at(p, x->file, x->begin);
    *count = x->end > x->begin ? sw_part_slice_at(p, x->file, x->end - 1) - *first + 1 : 0;
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
    *out = (struct sw_part){.placement = placement, .rank = rank, .file = {.fd = -1}};
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
    *part = (struct sw_part){.file = {.fd = -1}};
}

void sw_part_give_up(struct sw_part *part)
{
    sw_save_file_give_up(&part->file);
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

/* Enters the next extent with bytes. */
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

/* Sleeps until the rate allows the bytes written so far. */
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
    if (sw_save_file_close(&part->file, err) != 0)
        return -1;
    part->extent++;
    enter(part);
    return 0;
}

/* Advances past written bytes, adding them to the checksums. */
static void pass(struct sw_part *part, const char *from, int64_t bytes)
{
    while (bytes > 0) {
        const int64_t end = slice_end(part->placement, extent(part)->file, part->position);
        const int64_t now = bytes < end - part->position ? bytes : end - part->position;
        sw_checksum_add(part->stream, from, (size_t)now);
        from += now;
        bytes -= now;
        part->at += now;
        part->position += now;
        if (part->position == end)
            part->checksum[part->slice++] = sw_checksum_take(part->stream);
    }
}

int sw_part_write(struct sw_part *part, const void *data, int64_t bytes, struct sw_error *err)
{
    for (const char *from = data; bytes > 0;) {
        const struct sw_extent *x = extent(part);
        if (part->file.fd < 0 &&
            sw_save_file_open(&part->file, part->folder, name(part), part->position, err) != 0)
            return -1;
        const int64_t piece = sw_save_file_piece(&part->file, from);
        const int64_t left = bytes < x->end - part->position ? bytes : x->end - part->position;
        const int64_t now = left < piece ? left : piece;
        if (sw_save_file_write(&part->file, from, now, err) != 0)
            return -1;
        pass(part, from, now);
        from += now;
        bytes -= now;
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
