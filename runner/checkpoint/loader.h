/* Loads a checkpoint, or any Hugging Face model directory, into a job's state, on any mesh.
 *
 * Rank 0 reads the small files (manifest, config.json, headers), checks them and broadcasts. Then
 * every rank reads its part of the data once, with all threads, in pieces of 1 MiB or more if
 * possible, and verifies it; elements go to the ranks that hold them, each to its place in the
 * arena, tiled if needed. Weights in 8 bits need an extra first reading, for their scales
 * (scales.h). */
#ifndef SW_CHECKPOINT_LOADER_H
#define SW_CHECKPOINT_LOADER_H

#include "core/checkpoint/manifest.h"
#include "runner/checkpoint/model_folder.h"
#include "runner/rank/rank.h"

struct sw_loading {
    const char *folder; /* checkpoint's, model's or adapters'; "": initial values */
    const char *base;   /* base model of adapters; NULL or "": initial values */
    bool resume;        /* true: optimizer state and manifest are required; false: only parameters,
                         * checked by a manifest if there is one */
    bool damaged;       /* set: true if this rank failed because `folder` is damaged */
    int64_t bytes_read, reads;     /* set: this rank's, data only */
    double seconds;                /* set */
    int64_t filled_bytes;          /* set: loaded bytes of the arena, if in host memory */
    int64_t resident_growth_bytes; /* set: peak growth of resident memory besides; 0: unknown */
};

/* Rank 0's look into a folder before compiling or allocating: its manifest (all zero without one)
 * and contents. Not collective; only rank 0 needs it. */
int sw_loader_look(const char *folder, bool resume, struct sw_manifest *manifest,
                   struct sw_model_folder *opened, struct sw_error *err);

/* Checks on rank 0 that a folder has the run's rows of that origin: the model, or adapters matching
 * its `lora`. other_rope: true if rotary positions may differ, at a stage's start. advice: for a
 * different model. Errors: SW_BAD_INPUT, at the folder. */
int sw_loader_check(const struct sw_model_folder *opened, const struct sw_run_config *run,
                    enum sw_origin origin, bool other_rope, const char *advice,
                    struct sw_error *err);

/* Collective. Fills the state: rows without a folder get initial values; optimizer rows are
 * untouched unless loading->resume. manifest: the folder's, on every rank, without its files (all
 * zero: none). Prints nothing; each rank's own error stays in the rank for the caller to agree on.
 * Errors: SW_BAD_INPUT at a file: does not match the model, a wrong checksum, a number that is not
 * finite; SW_ENVIRONMENT. */
int sw_loader_load(struct sw_rank *rank, struct sw_loading *loading, struct sw_manifest *manifest);

#endif
