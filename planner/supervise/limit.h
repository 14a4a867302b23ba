/* Limit to which a job may lower its own. A user may lower the limit of a running job, never
 * raise it again: so what is taken off must not be needed, whatever happens to the run that its
 * limit had room for before.
 *
 *     needs = steps left at the slower of the mean and the recent pace, their saves and evaluations
 *           + band: 30 % of that, three steps, and the larger of 5 % of the whole attempt and of
 *             twice the longest delay that was seen
 *           + nodes that may be lost: all of this at the pace of the fewest nodes, and for each
 * node the time to notice, another start and the steps that it makes the run repeat
 *           + the last save and evaluation, the signal before the limit, and 60 s that Slurm may
 *             send the signal early
 *
 * Knows no file, no clock and no scheduler: tests simulate runs with these functions. Seconds. */
#ifndef SW_SUPERVISE_LIMIT_H
#define SW_SUPERVISE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

enum { SW_PACE_BLOCKS = 64 };

/* Speed of an attempt, as it was seen. Steps stand in blocks of equal numbers of steps; when all
 * blocks are full, each two become one. */
struct sw_pace {
    double block[SW_PACE_BLOCKS]; /* seconds of its steps */
    int32_t blocks;               /* that are full */
    int64_t block_steps, open_steps;
    double open;                       /* seconds of the steps behind the last full block */
    int64_t steps;                     /* in all of these */
    int64_t warm;                      /* steps before the first of them */
    int64_t step;                      /* the newest one; 0: none */
    double begin_s, at_s;              /* when the first of them began, when the newest ended */
    int64_t saves, evaluations;        /* that were seen */
    double save_pauses_s, save_most_s; /* sum of pauses; the longest until it was durable */
    double evaluations_s, evaluation_most_s;
};

void sw_pace_begin(struct sw_pace *pace);
/* A step took so many seconds, and ended at_s after its attempt began. */
void sw_pace_add_step(struct sw_pace *pace, int64_t step, double seconds, double at_s);
void sw_pace_add_save(struct sw_pace *pace, double pause_s, double durable_s);
void sw_pace_add_evaluation(struct sw_pace *pace, double seconds);

/* Facts that the job's process knows beside. */
struct sw_limit_facts {
    double now_s;  /* since the attempt began */
    double left_s; /* until the job's limit */
    int64_t last_step;
    int64_t save_every, evaluate_every; /* steps; 0: at the end only */
    int64_t first_step;                 /* that the attempt began behind */
    int64_t evaluation_batches;         /* of one evaluation; 0: there is none */
    double save_s;                      /* predicted, until a save is durable */
    double lead_s;                      /* of the signal before the limit; 0: there is none */
    double
        start_s; /* that this job took from its beginning, or its last start, to the first step */
    int32_t losses; /* nodes that may be lost while the others go on; 0: the run would end */
    double slower;  /* time of a step on the fewest nodes over that on these; 1 without losses */
};

/* Whole minutes that may be taken off the limit; 0: none, since too little is known, it would gain
 * little, or the run may need all of it. *needs_s (may be NULL): what is needed from now on; 0: not
 * known. */
int64_t sw_limit_shrink(const struct sw_pace *pace, const struct sw_limit_facts *facts,
                        double *needs_s);

#endif
