/* Predicted starts of a run: when, where, on which nodes and mesh, and when its result would be
 * ready: expected wait + predicted run. A smaller mesh that starts now can win.
 *
 * The wait is the controller's own estimate, which assumes that every job ahead uses its whole time
 * limit; if our log has the accuracy of such estimates here, it is multiplied by their median
 * ratio. Its band comes from similar jobs in the accounting, else from our log; without either
 * there is none. */
#ifndef SW_SUBMIT_START_H
#define SW_SUBMIT_START_H

#include "planner/search/search.h"
#include "planner/scheduler/scheduler.h"

/* Assumed seconds from a job's start to its first step: ranks, libraries, data, state. */
#define SW_START_SETUP_SECONDS 60.0

struct sw_start_choice {
    int32_t nodes;
    char partition[128]; /* "": the default one, without a name here */
    bool starts;         /* false: why_not has the reason */
    bool waits;          /* true if it cannot start now, but the queue takes it: why_not has
                            the cause */
    bool fastest, own;   /* kind of mesh: true for the fastest; for the run's own preference */
    bool submitted;      /* true if `plan submit` takes it for the unchanged run */
    char why_not[SW_JOB_REFUSAL_BYTES];
    int64_t at;    /* by the controller, seconds since 1970 */
    char *where;   /* nodes that it would get now */
    double wait_s; /* expected, of each job */
    bool has_band; /* true if the wait has a band: 10th to 90th percentile */
    double wait_low_s, wait_high_s;
    int32_t like_jobs; /* number of similar jobs behind the band; 0: from our log, or none */
    struct sw_candidate candidate;
    double limit_s; /* limit of a job's time; INFINITY: none requested */
    /* all steps, saves, evaluations, failures and the set-up of each job; when serving, the set-up
     * alone */
    double run_s;
    int32_t jobs;    /* number of consecutive jobs that the time limit makes; each waits */
    double result_s; /* from now to the last step, or to the start of serving */
};

struct sw_start_choices {
    struct sw_start_choice *choice; /* earliest result first; those that cannot start last */
    int32_t count;
    bool taken; /* true if the queue takes the job of `plan submit` for the unchanged run */
    char refused[SW_JOB_REFUSAL_BYTES]; /* the reason if not */
    struct sw_budgets budgets;          /* for the job of `plan submit` for the unchanged run */
    bool settled;                       /* true if a plan left only the partition to choose */
    int64_t now;
    int32_t log_jobs; /* number of our jobs whose estimates were compared */
    double log_ratio; /* median of actual / estimated wait; 1: too few jobs */
};

/* forecast: of the row of the run's cluster. base: the job as its script requests it, on all nodes
 * of the run's cluster; its partitions may be a list. only: of a plan, whose nodes and mesh are
 * fixed; NULL: all possibilities of the run are considered. Errors: SW_ENVIRONMENT: no answer, no
 * memory; SW_BAD_INPUT: the run's rules or mesh_dim. It is no error if nothing can start. Free with
 * sw_start_choices_free, also after an error. */
int sw_start_choices_gather(struct sw_forecast *forecast, const struct sw_run_config *run,
                            const struct sw_job_request *base, const struct sw_decision *only,
                            struct sw_start_choices *out, struct sw_error *err);
void sw_start_choices_free(struct sw_start_choices *choices);

#endif
