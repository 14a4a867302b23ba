/* Waiting times of jobs: from Slurm's accounting, and from the controller's estimates for our own
 * jobs compared with their starts.
 *
 * The latter are in a small file of JSON lines, $XDG_STATE_HOME/shardwright/starts.jsonl (default
 * ~/.local/state): {"cluster","job","asked","estimate"} when a job is submitted, and
 * {"cluster","job","started"} when it is seen to have started; times in seconds since 1970. */
#ifndef SW_SLURM_WAITS_H
#define SW_SLURM_WAITS_H

#include "planner/scheduler/slurm/controller.h"

struct sw_wait { /* one job's wait */
    char partition[64];
    int32_t nodes;
    double limit_s, wait_s; /* limit INFINITY: none; wait: start - eligible */
};

struct sw_waits {
    struct sw_wait *job;
    int32_t count;
};

/* Jobs of the last two weeks that have started, from sacct; none without accounting. Errors
 * (SW_ENVIRONMENT): memory. Free with sw_waits_free, also after an error. */
int sw_waits_load(struct sw_waits *out, struct sw_error *err);
/* Parses lines of `sacct -nPXo Partition,NNodes,Timelimit,Eligible,Start`, for tests. */
int sw_waits_read(const char *text, struct sw_waits *out, struct sw_error *err);
void sw_waits_free(struct sw_waits *waits);
/* Waits of that partition's jobs with half to twice the nodes and the limit. */
struct sw_quantiles sw_waits_like(const struct sw_waits *waits, const char *partition,
                                  int32_t nodes, double limit_s);
/* Quantiles of any numbers, which are sorted in place. */
struct sw_quantiles sw_quantiles_of(double *values, int32_t count);

/* Records the controller's estimate at submission. An unwritable log is no error. */
void sw_starts_note(const char *cluster, int64_t job, int64_t asked, int64_t estimate);
/* Updates jobs of the log that had not started when last checked, and returns the quantiles of
 * actual / estimated wait of all that have; waits below a minute count as one. Errors
 * (SW_ENVIRONMENT): memory, or the controller does not answer. */
int sw_starts_ratio(struct sw_slurm *slurm, struct sw_quantiles *out, struct sw_error *err);

#endif
