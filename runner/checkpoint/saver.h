/* Saves a running job's state: the pause, which copies it to host memory, writing during training,
 * and the commit.
 *
 * Every rank has one. All functions but sw_saver_flags are collective, in the same order on every
 * rank, on the compute thread, between steps. At most one save at a time. A failed save is reported
 * once and leaves the last good checkpoint; training continues. Failures between ranks are errors.
 * Owns the host snapshot (background), the writing thread, the hashes. */
#ifndef SW_CHECKPOINT_SAVER_H
#define SW_CHECKPOINT_SAVER_H

#include "core/checkpoint/manifest.h"
#include "runner/rank/rank.h"

struct sw_saver;

struct sw_saver_options {
    const char *folder;       /* folder of the checkpoints */
    int64_t keep, keep_every; /* see sw_store_commit */
    double bytes_per_second;  /* limit of this rank's writing; 0: none */
    bool background;          /* true: snapshot of this rank's part; false: written in the pause */
    const struct sw_run_config *run;
    const char *source; /* folder with config.json and tokenizer files; NULL: none */
    const char *base;   /* absolute path of the adapters' base model; NULL: none */
};

/* Allocates and touches a save's memory. Copies the options' texts. Errors (SW_ENVIRONMENT), in the
 * rank: memory, `source` not readable. Not collective. */
int sw_saver_create(struct sw_rank *rank, const struct sw_saver_options *options,
                    struct sw_saver **out);
/* Waits for the thread. */
void sw_saver_free(struct sw_saver *saver);

/* True if a save is under way, as all ranks know. */
bool sw_saver_busy(const struct sw_saver *saver);

/* Begins a save of the state after facts->step; not during another save. Ignores the files of
 * `facts`, copies its texts. *begun: false if it was given up at once, on every rank, with its line
 * printed. pause_s (may be NULL): pause of training. Errors: ranks do not reach each other. */
int sw_saver_begin(struct sw_saver *saver, const struct sw_manifest *facts, bool *begun,
                   double *pause_s, struct sw_error *err);

/* Fills this rank's numbers [SW_SAVER_FLAGS], which ranks sum between steps. */
enum { SW_SAVER_FLAGS = 3 };
void sw_saver_flags(struct sw_saver *saver, float *flags);
/* Advances the current save, if possible, given the sums over all ranks. *done: step of a
 * checkpoint that is now durable, 0: none; *failed: true if a save was given up (its line is
 * printed). */
int sw_saver_advance(struct sw_saver *saver, const float *sums, int64_t *done, bool *failed,
                     struct sw_error *err);
/* Advances until no save is under way, waiting for the threads. */
int sw_saver_finish(struct sw_saver *saver, int64_t *done, bool *failed, struct sw_error *err);

/* Reason that the last save was given up, on ranks whose part failed; elsewhere status SW_OK. */
const struct sw_error *sw_saver_failure(const struct sw_saver *saver);

/* True, on every rank, if the last save failed for lack of room and old checkpoints that it would
 * have replaced were then deleted: another may fit. */
bool sw_saver_made_room(const struct sw_saver *saver);

/* Seconds of the last save's pause and writing, and bytes written by this rank. Once durable, rank
 * 0 has the slowest rank's writing time. */
struct sw_saver_times {
    double pause_s, write_s;
    int64_t bytes;
};
struct sw_saver_times sw_saver_times(const struct sw_saver *saver);

#endif
