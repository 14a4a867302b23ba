/* The next action of a job script, before it starts a run's ranks and after they ended. The verdict
 * in attempt.json decides; the launcher's exit status only if there is no verdict.
 *
 *     how it ended                       next action
 *     0, 1, 2, 93, 130, 143              end: done, wrong, no progress, or asked to
 *     75                                 another job: the checkpoint is durable
 *     76, or a node that does not answer exclude the nodes: in this allocation if there is a
 *                                        plan for the others, else in another job
 *     no attempt begun: MPI died         start again, at most SW_NEXT_STARTS times; then end
 *     no attempt begun: MPI waited in    start again, as often; a node whose ranks did not start
 *     vain for ranks                     twice in a row is excluded as above. At last another
 *                                        job, while there is a whole checkpoint and attempts
 *                                        remain: at most SW_NEXT_IDLE_JOBS in a row may begin none
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
    struct sw_attempt attempt; /* attempt.json; attempt 0: none */
    int64_t checkpoint_step;   /* step of the newest whole checkpoint; -1: none */
    int64_t restarts;          /* restarts of this job by its scheduler */
    int64_t max_attempts;      /* most attempts of the run */
    enum sw_continue how;
    const char *how_key; /* name of that setting, for messages */
    bool link;           /* true if another job of the run queued this one to continue it */

    /* after the ranks ended */
    int64_t attempt_before; /* number in attempt.json before they were started */
    int32_t status;         /* the launcher's exit code, or 128 + signal */
    int32_t starts;         /* starts by this job, including this one, since the last attempt
                               began */
    struct sw_launcher_word word;
    const char *const *dead; /* nodes that do not answer; [dead_count] */
    int32_t dead_count;
    const char *const *hosts; /* hosts of the started ranks, in order; [host_count] */
    int32_t host_count;
    struct sw_launcher_missing missing; /* indexes of hosts whose ranks did not start */
    struct sw_launcher_missing before;  /* indexes of those whose ranks did not start the time
                                           before */
    int32_t ranks_per_node;             /* 0: unknown */
    int32_t nodes;                      /* nodes that the ranks were started on; 0: unknown */
    int32_t least, most;                /* numbers of nodes with a plan */
};

struct sw_next {
    enum sw_next_action action;
    int32_t code;                     /* exit code of the job if it ends, or may not continue */
    char node[SW_ATTEMPT_NODES][256]; /* nodes to exclude from now on */
    int32_t node_count;
    char reason[SW_NEXT_REASON_BYTES]; /* one line for people; "": none */
    char cause[512];                   /* part of it: how the ranks ended */
};

/* Before the ranks are started: GO or END. A job that a person submits goes; a link checks if the
 * run was finished or ended. */
void sw_next_begin(const struct sw_next_facts *facts, struct sw_next *out);
/* Number of earlier jobs in a row that began no attempt; a person's submission starts from 0. */
int64_t sw_next_idle_jobs(const struct sw_next_facts *facts);
/* After the ranks ended. */
void sw_next_after(const struct sw_next_facts *facts, struct sw_next *out);

/* True if a run with this verdict is never continued by its own jobs. */
bool sw_next_is_final(int32_t verdict);

/* "go", "end", "again", "requeue" */
const char *sw_next_word(enum sw_next_action action);

#endif
