/* Reads a checkpoint, or any Hugging Face model directory, into the state of a job, on any mesh.
 *
 * Rank 0 reads what is small (manifest, config.json, headers), looks whether it fits and tells the
 * others; then every rank reads its part of the files' data once, by all of its threads, in pieces
 * of at least 1 MiB where the files have so much, verifies it, and the elements go to the ranks
 * that hold them, each into its place of the arena, in tiles where it lies so. Where the state has
 * weights in 8 bits it reads the part once more, before, for their scales (scales.h). */
#ifndef SW_CHECKPOINT_LOADER_H
#define SW_CHECKPOINT_LOADER_H

#include "core/checkpoint/manifest.h"
#include "runner/checkpoint/model_folder.h"
#include "runner/rank/rank.h"

struct sw_loading {
    const char *folder; /* of the checkpoint, model or adapters; "": initial values */
    const char *base;   /* of the model that adapters stand on; NULL or "": initial values */
    bool resume;  /* with the optimizer's state and a manifest, or not at all; else parameters alone
                     (a manifest that is there is honoured) */
    bool damaged; /* set: this rank's error is that what it read of `folder` is not what was
                     written */
    int64_t bytes_read, reads;     /* set: of this rank, data only */
    double seconds;                /* set */
    int64_t filled_bytes;          /* set: of the arena in the host's memory, by what was read */
    int64_t resident_growth_bytes; /* set: the most that this rank's resident memory grew beside
                                      these; 0: the system does not tell */
};

/* What rank 0 learns of a folder before anything is compiled or allocated: its manifest (all zero
 * without one), and what it holds. Not collective; other ranks need not call it. */
int sw_loader_look(const char *folder, bool resume, struct sw_manifest *manifest,
                   struct sw_model_folder *opened, struct sw_error *err);

/* Rank 0. A folder holds what the run's rows of that origin are read from: the model, or adapters
 * as its `lora` says. other_rope: a stage of a run may begin with weights that were trained with
 * other rotary positions. advice: of a model that is another one. Errors: SW_BAD_INPUT, at the
 * folder.
 */
int sw_loader_check(const struct sw_model_folder *opened, const struct sw_run_config *run,
                    enum sw_origin origin, bool other_rope, const char *advice,
                    struct sw_error *err);

/* Collective. Fills the state: rows that no folder is named for get their initial values; the
 * optimizer's are left alone unless loading->resume. manifest: of the folder, on every rank,
 * without its files (all zero: there is none). Every rank prints nothing and leaves its own error
 * in the rank; the caller agrees on them. Errors: SW_BAD_INPUT at a file: what does not fit the
 * model, a checksum that is wrong, a number that is not finite; SW_ENVIRONMENT. */
int sw_loader_load(struct sw_rank *rank, struct sw_loading *loading, struct sw_manifest *manifest);

#endif
