/* What a run's folder tells of what comes next, and what is remembered of that there: attempt.json,
 * excluded_nodes.jsonl, the checkpoints and the launcher's word go into the table of next.h; what
 * it says is written down. Both `plan supervise` and `runner next` ask here. */
#ifndef SW_DECIDE_H
#define SW_DECIDE_H

#include "core/run/next.h"

struct sw_decide_request {
    /* The caller fills all but attempt, checkpoint_step, word, missing and before; their texts are
     * the caller's. */
    struct sw_next_facts facts;
    const char *folder;       /* the run's, or a stage's */
    const char *nodes_folder; /* the run's, for the nodes that it does without; NULL: folder */
    const char *checkpoints;  /* NULL: FOLDER/checkpoints */
    const char *launcher;     /* the file of what the launcher said; NULL, "": none */
    const char *launcher_before;
    const struct sw_launcher_lines
        *lines;      /* how those two are read; NULL: the ranks' words alone */
    const char *job; /* its scheduler's number; "": none */
    bool after;      /* the ranks were started, and have ended */
};

/* Fills request->facts from the folder, *out with what comes next, and *excluded with the nodes
 * that the run does without from now on. What cannot be written down is told in *trouble, which is
 * cleared first, and is no error: the job goes on. Errors: SW_ENVIRONMENT: what is there cannot be
 * read. */
int sw_decide(struct sw_decide_request *request, struct sw_next *out, struct sw_excluded *excluded,
              struct sw_error *trouble, struct sw_error *err);

#endif
