/* What a job script does next: before it starts a run's ranks, and after they ended. The verdict in
 * attempt.json decides, the launcher's exit status only where there is no verdict.
 *
 *     how it ended                       what comes next
 *     0, 1, 2, 93, 130, 143              it ends: done, wrong, no progress, or asked to
 *     75                                 another job: the checkpoint is durable
 *     76, or a node that does not answer the nodes are left out: in this allocation where there is
 *                                        a plan for the others, else in another job
 *     nothing was begun: MPI died        again, at most SW_NEXT_STARTS times; then it ends
 *     nothing was begun: MPI waited in   again, as often; a node whose ranks did not start twice in
 *     vain for ranks                     a row is left out as above. At last another job, while
 *                                        there is a whole checkpoint and attempts remain: at most
 *                                        SW_NEXT_IDLE_JOBS in a row may begin nothing
 *     any other (3, 137, 139, no word)   another job, while there is a whole checkpoint, it gained
 *                                        steps, and attempts remain
 *
 * Knows neither a scheduler nor files: a table with a test for each row. */
#ifndef SW_NEXT_H
#define SW_NEXT_H

#include "core/base/words.h"
#include "core/run/attempt.h"
#include "core/run/excluded.h"
#include "core/run/launcher.h"

enum { SW_NEXT_STARTS = 3, SW_NEXT_IDLE_JOBS = 2, SW_NEXT_REASON_BYTES = 1024 };

enum sw_next_action {
    SW_NEXT_GO,     /* start the ranks */
    SW_NEXT_END,    /* leave with `code` */
    SW_NEXT_AGAIN,  /* start the ranks again, in this allocation without `node` */
    SW_NEXT_REQUEUE /* another job, without `node` */
};

struct sw_next_facts {
    struct sw_attempt attempt; /* attempt.json; attempt 0: there is none */
    int64_t checkpoint_step;   /* of the newest whole checkpoint; -1: there is none */
    int64_t restarts;          /* of this job by its scheduler */
    int64_t max_attempts;      /* of the run */
    enum sw_continue how;
    const char *how_key; /* the setting that it is, for messages */
    bool link;           /* this job was queued by another one of the run, to go on with it */

    /* after the ranks ended */
    int64_t attempt_before; /* number in attempt.json before they were started */
    int32_t status;         /* of the launcher: an exit code, or 128 + signal */
    int32_t starts;         /* of this job, this one included, since something was last begun */
    struct sw_launcher_word word;
    const char *const *dead; /* nodes that do not answer; [dead_count] */
    int32_t dead_count;
    const char *const *hosts; /* that the ranks were started on, in order; [host_count] */
    int32_t host_count;
    struct sw_launcher_missing missing; /* of those: whose ranks did not start */
    struct sw_launcher_missing before;  /* of those: whose did not in the start before either */
    int32_t ranks_per_node;             /* 0: not told */
    int32_t nodes;                      /* that the ranks were started on; 0: not told */
    int32_t least, most;                /* numbers of nodes that there are plans for */
};

struct sw_next {
    enum sw_next_action action;
    int32_t code;                     /* exit code of the job where it ends, or is not let go on */
    char node[SW_ATTEMPT_NODES][256]; /* to be left out from now on */
    int32_t node_count;
    char reason[SW_NEXT_REASON_BYTES]; /* one line for people; "": nothing to say */
    char cause[512];                   /* the part of it that says how the ranks ended */
};

/* Before the ranks are started: GO or END. A job that a person submits goes; a link finds out
 * whether the run was finished or ended. */
void sw_next_begin(const struct sw_next_facts *facts, struct sw_next *out);
/* How many jobs in a row began nothing, before this one: what a person submits begins anew. */
int64_t sw_next_idle_jobs(const struct sw_next_facts *facts);
/* After they ended. */
void sw_next_after(const struct sw_next_facts *facts, struct sw_next *out);

/* Whether a run with this verdict is never gone on with by its own jobs. */
bool sw_next_is_final(int32_t verdict);

/* "go", "end", "again", "requeue" */
const char *sw_next_word(enum sw_next_action action);

#endif
