/* When and where a run could start, on which nodes and mesh, and when its result would be there:
 * expected wait + predicted run. A smaller mesh that starts now can win.
 *
 * The wait is the controller's own estimate, which takes every job ahead to use up its time limit;
 * where our log knows how far such estimates were off here, it is multiplied by their
 * median. Its band is that of like jobs in its accounting, else that of our log; without either
 * there is none. */
#ifndef SW_SUBMIT_START_H
#define SW_SUBMIT_START_H

#include "planner/search/search.h"
#include "planner/scheduler/scheduler.h"

/* Until the first step, each time a job starts: ranks, libraries, data, state. An assumption. */
#define SW_START_SETUP_SECONDS 60.0

struct sw_start_choice {
    int32_t nodes;
    char partition[128]; /* "": the default one, which has no name here */
    bool starts;         /* else why_not says why it cannot */
    bool waits;          /* it cannot now, but the queue takes it: why_not says what it waits for */
    bool fastest, own;   /* which mesh it is: the fastest, that which the run itself prefers */
    bool submitted;      /* it is what `plan submit` takes as the run stands */
    char why_not[SW_JOB_REFUSAL_BYTES];
    int64_t at;    /* by the controller, seconds since 1970 */
    char *where;   /* nodes that it would get now */
    double wait_s; /* expected, of each job */
    bool has_band; /* of the wait: 10th to 90th percentile */
    double wait_low_s, wait_high_s;
    int32_t
        like_jobs; /* in the accounting, that the band rests on; 0: on our log, or there is none */
    struct sw_candidate candidate;
    double limit_s; /* of a job's time; INFINITY: none is asked for */
    /* all steps, saves, evaluations, failures and the set-up of each job; of one that serves the
     * set-up alone */
    double run_s;
    int32_t jobs;    /* that follow one another, where the time limit ends them; each waits */
    double result_s; /* from now until the last step, or until it serves */
};

struct sw_start_choices {
    struct sw_start_choice *choice; /* soonest result first; those that cannot start last */
    int32_t count;
    bool taken; /* by the queue, what `plan submit` takes as the run stands */
    char refused[SW_JOB_REFUSAL_BYTES]; /* else why not */
    struct sw_budgets budgets;          /* of what `plan submit` takes as the run stands */
    bool settled; /* by a plan: there was nothing to choose but the partition */
    int64_t now;
    int32_t log_jobs; /* of ours, that estimates were compared with */
    double log_ratio; /* median of actual / estimated wait; 1: not enough of them */
};

/* forecast: of the row of the run's cluster. base: the job as its script asks for it, on all nodes
 * of the run's cluster; its partitions may be a list. only: of a plan, whose nodes and mesh are
 * settled; NULL: all that the run may have are looked at. Errors: SW_ENVIRONMENT: no answer, no
 * memory; SW_BAD_INPUT: the run's rules or mesh_dim. That nothing can start is none. Free with
 * sw_start_choices_free, also after an error.
 */
int sw_start_choices_gather(struct sw_forecast *forecast, const struct sw_run_config *run,
                            const struct sw_job_request *base, const struct sw_decision *only,
                            struct sw_start_choices *out, struct sw_error *err);
void sw_start_choices_free(struct sw_start_choices *choices);

#endif
