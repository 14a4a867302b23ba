/* Limit to which a job may lower its own. A user may lower the limit of a running job, but never
 * raise it again: the minutes taken off must not be needed, whatever happens to the run that the
 * old limit had room for.
 *
 *     needs = steps left at the slower of the mean and the recent pace, their saves and evaluations
 *           + band: 30 % of that, three steps, and the larger of 5 % of the whole attempt and of
 *             twice the longest delay seen
 *           + lost nodes: all of this at the pace of the fewest nodes, and for each node the time
 * to notice, another start and the steps that the run repeats
 *           + the last save and evaluation, the signal before the limit, and 60 s by which Slurm
 * may send the signal early
 *
 * Knows no file, no clock and no scheduler: tests simulate runs with these functions. Seconds. */
#ifndef SW_SUPERVISE_LIMIT_H
#define SW_SUPERVISE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

enum { SW_PACE_BLOCKS = 64 };

/* Observed speed of an attempt. Steps are in blocks of equal numbers of steps; when all blocks are
 * full, pairs are merged. */
struct sw_pace {
    double block[SW_PACE_BLOCKS]; /* seconds of its steps */
    int32_t blocks;               /* number of full blocks */
    int64_t block_steps, open_steps;
    double open;                       /* seconds of the steps behind the last full block */
    int64_t steps;                     /* number of steps in all of these */
    int64_t warm;                      /* number of steps before them */
    int64_t step;                      /* the newest one; 0: none */
    double begin_s, at_s;              /* begin of the first of them, end of the newest */
    int64_t saves, evaluations;        /* numbers seen */
    double save_pauses_s, save_most_s; /* sum of pauses; longest time until one was durable */
    double evaluations_s, evaluation_most_s;
};

void sw_pace_begin(struct sw_pace *pace);
/* Adds a step that took so many seconds, and ended at_s after its attempt began. */
void sw_pace_add_step(struct sw_pace *pace, int64_t step, double seconds, double at_s);
void sw_pace_add_save(struct sw_pace *pace, double pause_s, double durable_s);
void sw_pace_add_evaluation(struct sw_pace *pace, double seconds);

/* Other facts known to the job's process. */
struct sw_limit_facts {
    double now_s;  /* since the attempt began */
    double left_s; /* until the job's limit */
    int64_t last_step;
    int64_t save_every, evaluate_every; /* steps; 0: at the end only */
    int64_t first_step;                 /* step after which the attempt began */
    int64_t evaluation_batches;         /* batches of one evaluation; 0: none */
    double save_s;                      /* predicted seconds until a save is durable */
    double lead_s;                      /* lead of the signal before the limit; 0: no signal */
    /* seconds from this job's start, or its last start of ranks, to the first step */
    double start_s;
    int32_t losses; /* nodes that may be lost without ending the run; 0: none */
    double slower;  /* step time with the fewest nodes over that with these; 1 without losses */
};

/* Whole minutes to take off the limit; 0: none, since too little is known, the gain is small, or
 * the run may need them. *needs_s (may be NULL): seconds needed from now on; 0: unknown. */
int64_t sw_limit_shrink(const struct sw_pace *pace, const struct sw_limit_facts *facts,
                        double *needs_s);

#endif
