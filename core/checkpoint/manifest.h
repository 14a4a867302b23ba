/* manifest.json, which makes a folder a checkpoint that training can resume from. It is written
 * last: a folder without it, or with a wrong checksum, is no checkpoint.
 *
 * Covers every byte of every file: headers and data of safetensors in slices, other files whole,
 * and itself. Checksums are XXH3-128 (xxHash). Plain data; owns its arrays. */
#ifndef SW_MANIFEST_H
#define SW_MANIFEST_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SW_MANIFEST_NAME "manifest.json"
/* End of every error about a damaged checkpoint. */
#define SW_MANIFEST_ADVICE "; use another checkpoint"

struct sw_checksum {
    uint64_t low, high;
};
struct sw_checksum sw_checksum_of(const void *data, size_t bytes);
bool sw_checksum_equal(struct sw_checksum a, struct sw_checksum b);
/* Checksum in parts. malloc'ed state, NULL: no memory. */
struct sw_checksum_stream *sw_checksum_begin(void);
void sw_checksum_add(struct sw_checksum_stream *stream, const void *data, size_t bytes);
/* Checksum of the added bytes; the stream starts again. */
struct sw_checksum sw_checksum_take(struct sw_checksum_stream *stream);
void sw_checksum_free(struct sw_checksum_stream *stream);

/* A file of the checkpoint. name: a file of the folder or of one of sw_manifest_folders, UTF-8
 * without controls, not hidden. Slices: [0] is the header, bytes [0, data_begin); [1 + k] the bytes
 * from max(data_begin, k slice_bytes) to min(bytes, (k + 1) slice_bytes), without empty ones
 * (first_slice = data_begin / slice_bytes comes first). data_begin 0: one slice, the whole file. */
struct sw_manifest_file {
    char *name; /* in the folder */
    int64_t bytes, data_begin;
    struct sw_checksum *slice; /* [slice_count] */
    int32_t slice_count;
};

/* Statistics of a run's losses and gradient norms, and its number of skipped batches
 * (runner/train/spikes.h). */
struct sw_spikes {
    bool watched; /* true if the run asks for it; else the manifest has none of it */
    int64_t seen; /* number of steps in the statistics */
    double loss_mean, loss_variance, norm_mean, norm_variance;
    int64_t skips, skips_in_a_row, rewinds;
};

struct sw_manifest {
    int64_t step;            /* steps done */
    int64_t idle_steps;      /* steps without an update, since no label counted */
    int64_t earlier_updates; /* updates of the run whose weights and moments this one started
                                with */
    int64_t next_sequence;   /* number of the first sequence of the data not trained on yet */
    int64_t attempt;         /* attempt that wrote it */
    uint64_t seed; /* seed of data and initial parameters: the generator is a function of seed
                      and next_sequence */
    uint64_t plan_digest;
    char run[128], optimizer[16]; /* optimizer: "adamw" */
    char data_path[4096];         /* for a message when it changes */
    double data_holdout;
    int64_t data_tokens;
    char settings[768]; /* optimizer, precision and data, for a message when they
                           change */
    int64_t sequence_length, global_batch_size, total_steps;
    char mesh[64]; /* for people: "1,2,2,2" */
    bool finished; /* true after the run's last step */
    /* adapters: the model below (runner/checkpoint/base_model.h); "": weights from the seed, or no
     * adapters */
    char base_path[4096];
    uint64_t base_digest;
    struct sw_spikes spikes;
    int64_t slice_bytes;
    struct sw_manifest_file *file; /* [file_count] */
    int32_t file_count;
};

/* Number of slices of a file of that size; start and end of one. */
int32_t sw_manifest_slices(int64_t bytes, int64_t data_begin, int64_t slice_bytes);
void sw_manifest_slice(int64_t bytes, int64_t data_begin, int64_t slice_bytes, int32_t i,
                       int64_t *begin, int64_t *end);

/* Folders within a checkpoint, ending with NULL. */
extern const char *const sw_manifest_folders[];
/* True if a checkpoint may have a file of this name: a plain one of the folder, or of one of
 * sw_manifest_folders. A manifest names no other files. */
bool sw_manifest_takes(const char *name);
/* Adds a file with room for its slices' checksums (set slice_bytes before the first file with a
 * data_begin); *out (may be NULL) is valid until the next call. Errors: SW_BAD_INPUT: a forbidden
 * or repeated name; sizes that do not fit. SW_ENVIRONMENT: memory. */
int sw_manifest_add(struct sw_manifest *manifest, const char *name, int64_t bytes,
                    int64_t data_begin, struct sw_manifest_file **out, struct sw_error *err);
void sw_manifest_free(struct sw_manifest *manifest);

/* The text, malloc'ed; the same manifest, the same bytes. Bytes of `run`, `mesh` and `data_path`
 * that are no UTF-8 become '?'. */
int sw_manifest_text(const struct sw_manifest *manifest, char **text, size_t *bytes,
                     struct sw_error *err);
/* Parses untrusted bytes; `path` for messages. Errors (SW_BAD_INPUT, at the file): no such
 * manifest, a schema of another version, a wrong checksum of its own, names outside the folder
 * (absolute, ".."), sizes that do not fit each other. SW_ENVIRONMENT: memory. */
int sw_manifest_parse(const char *path, const char *text, size_t bytes, struct sw_manifest *out,
                      struct sw_error *err);
/* Reads FOLDER/manifest.json. text (may be NULL): its bytes, malloc'ed, to send to other ranks. */
int sw_manifest_read(const char *folder, struct sw_manifest *out, char **text, size_t *bytes,
                     struct sw_error *err);
const struct sw_manifest_file *sw_manifest_find(const struct sw_manifest *manifest,
                                                const char *name);

/* Checks that every file is in the folder with its size; reads none. Errors: as below. */
int sw_manifest_check_sizes(const struct sw_manifest *manifest, const char *folder,
                            struct sw_error *err);
/* Checks sizes, and reads small parts: files that are no safetensors, and headers of the others.
 * optimizer: true to include the optimizer's files. Errors: as below. */
int sw_manifest_check_small(const struct sw_manifest *manifest, const char *folder, bool optimizer,
                            struct sw_error *err);

/* Reads every file of the checkpoint and compares every checksum and size; the folder may have no
 * other files. *out is the manifest, the caller's when it returns 0. Errors (SW_BAD_INPUT): at the
 * first file that does not fit, with the bytes, or that the manifest lacks. SW_ENVIRONMENT: memory,
 * or a file cannot be read. */
int sw_checkpoint_verify(const char *folder, struct sw_manifest *out, struct sw_error *err);

#endif
