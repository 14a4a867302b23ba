/* One rank's part of the files of a checkpoint, as a stream of bytes: its extents one behind the
 * other (core/checkpoint/placement.h), written to the files slice by slice with their checksums;
 * reading.h reads one. Owns an open file and the checksums; borrows the placement. */
#ifndef SW_CHECKPOINT_PART_H
#define SW_CHECKPOINT_PART_H

#include "core/checkpoint/placement.h"
#include "core/checkpoint/manifest.h"
#include "runner/checkpoint/save_file.h"

struct sw_part {
    const struct sw_placement *placement;
    int32_t rank;
    int64_t bytes;                /* of the stream */
    struct sw_checksum *checksum; /* [most slices of any rank]: of this rank's, in order */
    /* its own */
    const char *folder;
    double bytes_per_second, begun;
    int64_t at;     /* bytes of the stream that were written */
    int32_t extent; /* at hand */
    int64_t position;
    int32_t slice; /* of this rank's */
    struct sw_save_file file;
    struct sw_checksum_stream *stream;
};

/* Slices of extent e: numbers in its file (manifest.h: 0 is the header) `first` .. first + count
 * - 1.
 */
void sw_part_slices(const struct sw_placement *placement, int32_t e, int32_t *first,
                    int32_t *count);
/* Of the rank that has the most. */
int32_t sw_part_most_slices(const struct sw_placement *placement);

/* Errors (SW_ENVIRONMENT): memory. */
int sw_part_open(const struct sw_placement *placement, int32_t rank, struct sw_part *out,
                 struct sw_error *err);
void sw_part_close(struct sw_part *part); /* also a zeroed one */

/* Writing begins at the start of the stream, into a folder that sw_store_begin made, at most so
 * many bytes per second (0: as fast as it goes). */
void sw_part_begin_writing(struct sw_part *part, const char *folder, double bytes_per_second);
/* The next bytes of the stream; sleeps when it is too fast. Errors: SW_ENVIRONMENT; call give_up.
 */
int sw_part_write(struct sw_part *part, const void *data, int64_t bytes, struct sw_error *err);
/* After the last byte: everything is synced. */
int sw_part_end_writing(struct sw_part *part, struct sw_error *err);
void sw_part_give_up(struct sw_part *part);

/* The number in its file of the slice that holds a byte of the data. */
int32_t sw_part_slice_at(const struct sw_placement *placement, int32_t file, int64_t position);

#endif
