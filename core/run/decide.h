/* Decides what follows from a run's folder, and records it there: attempt.json,
 * excluded_nodes.jsonl, the checkpoints and the launcher's output go into the table of next.h, and
 * its answer is written down. `plan supervise` and `runner next` both ask here. */
#ifndef SW_DECIDE_H
#define SW_DECIDE_H

#include "core/run/next.h"

struct sw_decide_request {
    /* The caller fills all but attempt, checkpoint_step, word, missing and before; it owns their
     * texts. */
    struct sw_next_facts facts;
    const char *folder;       /* the run's folder, or a stage's */
    const char *nodes_folder; /* the run's folder, for excluded nodes; NULL: folder */
    const char *checkpoints;  /* NULL: FOLDER/checkpoints */
    const char *launcher;     /* file of the launcher's output; NULL, "": none */
    const char *launcher_before;
    const struct sw_launcher_lines *lines; /* readers of that file; NULL: only the ranks' lines */
    const char *job;                       /* the scheduler's number; "": none */
    bool after;                            /* true once the ranks were started and have ended */
};

/* Fills request->facts from the folder, *out with the next action, and *excluded with the nodes to
 * exclude from now on. *trouble, cleared first, notes failures to write, which are no errors: the
 * job goes on. Errors: SW_ENVIRONMENT: a file cannot be read. */
int sw_decide(struct sw_decide_request *request, struct sw_next *out, struct sw_excluded *excluded,
              struct sw_error *trouble, struct sw_error *err);

#endif
