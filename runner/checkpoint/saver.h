/* Saves the state of a running job: the pause, in which it is collected into host memory, the
 * writing beside training, the commit.
 *
 * Every rank has one. All functions but sw_saver_flags are collective, in the same order on every
 * rank, from the compute thread, between steps. At most one save is under way. What goes wrong with
 * a save is told once and leaves the last good checkpoint as it was; training goes on. What goes
 * wrong between ranks is an error. Owns the host snapshot (background), the thread that writes, the
 * hashes. */
#ifndef SW_CHECKPOINT_SAVER_H
#define SW_CHECKPOINT_SAVER_H

#include "core/checkpoint/manifest.h"
#include "runner/rank/rank.h"

struct sw_saver;

struct sw_saver_options {
    const char *folder;       /* of the checkpoints */
    int64_t keep, keep_every; /* as sw_store_commit */
    double bytes_per_second;  /* of this rank's writing; 0: unlimited */
    bool background; /* a snapshot of all that this rank writes; else it is streamed in the pause */
    const struct sw_run_config *run;
    const char *source; /* folder that config.json and tokenizer files come from; NULL: none */
    const char *base;   /* absolute, of the model that adapters stand on; NULL: none */
};

/* Allocates and touches what a save needs. The options' texts are copied. Errors (SW_ENVIRONMENT),
 * in the rank: memory, `source` cannot be read. Not collective. */
int sw_saver_create(struct sw_rank *rank, const struct sw_saver_options *options,
                    struct sw_saver **out);
/* Waits for the thread. */
void sw_saver_free(struct sw_saver *saver);

/* A save is under way, as far as all ranks know. */
bool sw_saver_busy(const struct sw_saver *saver);

/* Begins a save of the state as it is after facts->step, which must not be called while one is
 * under way; the files of `facts` are left empty, its texts are copied. *begun: false when it was
 * given up at once, on every rank; its line is printed. pause_s (may be NULL): how long training
 * stood still. Errors: the ranks do not reach each other. */
int sw_saver_begin(struct sw_saver *saver, const struct sw_manifest *facts, bool *begun,
                   double *pause_s, struct sw_error *err);

/* What the ranks add up between steps: [SW_SAVER_FLAGS] floats of this rank. */
enum { SW_SAVER_FLAGS = 3 };
void sw_saver_flags(struct sw_saver *saver, float *flags);
/* With their sums over all ranks: goes on with the save under way when that is possible. The step
 * of a checkpoint that is durable now, 0: none, in *done; *failed: a save was given up (its line is
 * printed). */
int sw_saver_advance(struct sw_saver *saver, const float *sums, int64_t *done, bool *failed,
                     struct sw_error *err);
/* Until nothing is under way any more: as sw_saver_advance, waiting for the threads. */
int sw_saver_finish(struct sw_saver *saver, int64_t *done, bool *failed, struct sw_error *err);

/* Why the last save was given up, on the ranks whose part of it failed; status SW_OK on the
 * others. */
const struct sw_error *sw_saver_failure(const struct sw_saver *saver);

/* The last save was given up for want of room, and old checkpoints that it would have replaced are
 * deleted since: another may fit. The same on every rank. */
bool sw_saver_made_room(const struct sw_saver *saver);

/* Seconds of the last save's pause and writing, and the bytes that this rank wrote. Once it is
 * durable rank 0 has the writing of the slowest rank. */
struct sw_saver_times {
    double pause_s, write_s;
    int64_t bytes;
};
struct sw_saver_times sw_saver_times(const struct sw_saver *saver);

#endif
