/* One rank's part of a checkpoint's files, as a stream of bytes: its extents concatenated
 * (core/checkpoint/placement.h), written to the files slice by slice with checksums; reading.h
 * reads one. Owns an open file and the checksums; borrows the placement. */
#ifndef SW_CHECKPOINT_PART_H
#define SW_CHECKPOINT_PART_H

#include "core/checkpoint/placement.h"
#include "core/checkpoint/manifest.h"
#include "runner/checkpoint/save_file.h"

struct sw_part {
    const struct sw_placement *placement;
    int32_t rank;
    int64_t bytes;                /* bytes in the stream */
    struct sw_checksum *checksum; /* [most slices of any rank]: this rank's, in order */
    /* private */
    const char *folder;
    double bytes_per_second, begun;
    int64_t at;     /* bytes written so far */
    int32_t extent; /* current one */
    int64_t position;
    int32_t slice; /* current slice of this rank */
    struct sw_save_file file;
    struct sw_checksum_stream *stream;
};

/* Slices of extent e in its file: numbers `first` .. first + count - 1 (manifest.h: 0 is the
 * header). */
void sw_part_slices(const struct sw_placement *placement, int32_t e, int32_t *first,
                    int32_t *count);
/* Slices of the rank with the most. */
int32_t sw_part_most_slices(const struct sw_placement *placement);

/* Errors (SW_ENVIRONMENT): memory. */
int sw_part_open(const struct sw_placement *placement, int32_t rank, struct sw_part *out,
                 struct sw_error *err);
void sw_part_close(struct sw_part *part); /* may be zeroed */

/* Starts writing the stream into a folder from sw_store_begin, at most bytes_per_second (0:
 * unlimited). */
void sw_part_begin_writing(struct sw_part *part, const char *folder, double bytes_per_second);
/* Writes the stream's next bytes; sleeps to keep the rate. Errors: SW_ENVIRONMENT; then call
 * sw_part_give_up. */
int sw_part_write(struct sw_part *part, const void *data, int64_t bytes, struct sw_error *err);
/* Ends writing after the last byte: syncs everything. */
int sw_part_end_writing(struct sw_part *part, struct sw_error *err);
void sw_part_give_up(struct sw_part *part);

/* Slice number, in its file, that holds a byte of the data. */
int32_t sw_part_slice_at(const struct sw_placement *placement, int32_t file, int64_t position);

#endif
