/* How long jobs have waited: from Slurm's accounting, and from what the controller said of our own
 * jobs against what came of it.
 *
 * The second is a small file of JSON lines, $XDG_STATE_HOME/shardwright/starts.jsonl (default
 * ~/.local/state): {"cluster","job","asked","estimate"} when a job is submitted, and
 * {"cluster","job","started"} when it is seen to have started; times in seconds since 1970. */
#ifndef SW_SLURM_WAITS_H
#define SW_SLURM_WAITS_H

#include "planner/scheduler/slurm/controller.h"

struct sw_wait { /* of one job */
    char partition[64];
    int32_t nodes;
    double limit_s, wait_s; /* limit INFINITY: none; wait: start - eligible */
};

struct sw_waits {
    struct sw_wait *job;
    int32_t count;
};

/* Jobs of the last two weeks that have started, from sacct; none where there is no accounting.
 * Errors (SW_ENVIRONMENT): memory. Free with sw_waits_free, also after an error. */
int sw_waits_load(struct sw_waits *out, struct sw_error *err);
/* The lines of `sacct -nPXo Partition,NNodes,Timelimit,Eligible,Start`, for tests. */
int sw_waits_read(const char *text, struct sw_waits *out, struct sw_error *err);
void sw_waits_free(struct sw_waits *waits);
/* Of the jobs of that partition with half to twice the nodes and the limit. */
struct sw_quantiles sw_waits_like(const struct sw_waits *waits, const char *partition,
                                  int32_t nodes, double limit_s);
/* Of any numbers, which are sorted. */
struct sw_quantiles sw_quantiles_of(double *values, int32_t count);

/* Remembers that the controller said so when the job was submitted. A log that cannot be written is
 * none: no error. */
void sw_starts_note(const char *cluster, int64_t job, int64_t asked, int64_t estimate);
/* Looks up jobs of the log that had not started when they were last looked at, and gives the
 * quantiles of actual / estimated wait of all that have, waits of less than a minute being one.
 * Errors (SW_ENVIRONMENT): memory, or the controller does not answer. */
int sw_starts_ratio(struct sw_slurm *slurm, struct sw_quantiles *out, struct sw_error *err);

#endif
