/* Placement of a checkpoint's bytes: files, tensors in them, and the rank that writes or reads each
 * byte.
 *
 * A placement is a list of files with tensors. For saving it is made from the state
 * (sw_placement_make); for loading, from the headers of existing files (the caller fills `tensor`
 * and `file` and calls sw_placement_deal). No tensor is split over files. The data of all files, in
 * order, is dealt to the ranks of a job in contiguous parts of about equal bytes, cut at multiples
 * of slice_bytes of the file's offset (moved down to a whole element, and up to the first byte of
 * data), so that a tensor larger than a fair share has several writers in disjoint ranges. Every
 * rank makes the same table. Owns its arrays. */
#ifndef SW_CHECKPOINT_PLACEMENT_H
#define SW_CHECKPOINT_PLACEMENT_H

#include "core/checkpoint/tensors.h"

enum { SW_STORED_FILE_BYTES = 96, SW_STORED_DATA_ALIGNMENT = 4096, SW_SLICE_BYTES = 1 << 20 };

struct sw_stored_file {
    char name[SW_STORED_FILE_BYTES]; /* in the checkpoint's folder:
                                        "model-00001-of-00002.safetensors",
                                        "optimizer/exp_avg-00001-of-00001.safetensors",
                                        "adapter_model.safetensors" */
    enum sw_stored_group group;
    int32_t first_tensor, tensor_count; /* its range of `tensor`, in the order of offsets */
    int64_t data_begin;                 /* size of the header with its length and padding */
    int64_t bytes;                      /* size of the whole file */
};

/* Consecutive bytes of one file that one rank writes or reads. */
struct sw_extent {
    int32_t file;
    int64_t begin, end; /* bytes of the file, data only: rank 0 writes headers */
};

struct sw_placement {
    struct sw_stored_tensor *tensor; /* [tensor_count], by file, then by offset */
    struct sw_stored_file *file;     /* [file_count] */
    int32_t tensor_count, file_count;
    int64_t slice_bytes; /* bytes of file offset covered by one checksum; SW_SLICE_BYTES times
                            a power of two, so that there are at most about 65536 slices, or
                            two for each rank if more */
    int32_t ranks;
    struct sw_extent *extent; /* rank r's: first_extent[r] .. first_extent[r + 1] - 1 */
    int32_t *first_extent;    /* [ranks + 1] */
};

/* Makes the files of a checkpoint that `ranks` ranks save: files of the model and of both moments,
 * balanced by bytes, each of at most about 5 GB unless one tensor is larger; adapters are one file.
 * Errors (SW_ENVIRONMENT): memory. */
int sw_placement_make(const struct sw_state *state, int32_t ranks, struct sw_placement *out,
                      struct sw_error *err);
/* Deals the data of the files to ranks: sets slice_bytes (unless it is set), ranks and the extents.
 */
int sw_placement_deal(struct sw_placement *placement, int32_t ranks, struct sw_error *err);
void sw_placement_free(struct sw_placement *placement); /* accepts a zeroed or half-built one */

int64_t sw_placement_bytes(const struct sw_placement *placement); /* bytes of all files */
/* FNV-1a 64 of the whole placement: positions, names and owners. */
uint64_t sw_placement_digest(const struct sw_placement *placement);
/* Bytes of data that a rank has; the most of any rank. */
int64_t sw_placement_rank_bytes(const struct sw_placement *placement, int32_t rank);
int64_t sw_placement_most_bytes(const struct sw_placement *placement);

/* The header of a file: the length (8 bytes, little endian), JSON with `__metadata__: {"format":
 * "pt"}` and each tensor, padded with spaces up to data_begin. malloc'ed, data_begin bytes. Errors
 * (SW_ENVIRONMENT): memory. */
int sw_placement_header(const struct sw_placement *placement, int32_t file, char **out,
                        struct sw_error *err);

#endif
