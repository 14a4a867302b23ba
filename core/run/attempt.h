/* attempt.json in the run's folder: the end of the run's last attempt, durable before any process
 * leaves, since launchers do not reliably pass exit codes on.
 *
 *     {"schema": "shardwright.attempt/1", "attempt": 2, "verdict": 75, "nodes": ["n3"],
 *      "cause": "...", "step": 500, "job": "42", "idle_jobs": 0}
 *
 * One member a line; while an attempt runs, verdict is null. */
#ifndef SW_ATTEMPT_H
#define SW_ATTEMPT_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum sw_verdict {
    SW_VERDICT_RUNNING = -1,
    SW_VERDICT_DONE = 0,
    SW_VERDICT_REQUEUE = 75, /* the checkpoint is durable: continue in a new job */
    SW_VERDICT_BAD_NODE = 76,
    SW_VERDICT_NO_PROGRESS = 93, /* no progress since the last attempt: end the chain */
    SW_VERDICT_INTERRUPTED = 130,
    SW_VERDICT_TERMINATED = 143
    /* 1, 2, 3: see the exit codes */
};

enum { SW_ATTEMPT_NODES = 8 };
struct sw_attempt {
    int64_t attempt; /* from 1 */
    int32_t verdict;
    int64_t step, first_step; /* last step done / durable; step that it started after */
    int64_t idle_jobs;        /* jobs in a row since then that began no attempt */
    char job[64];
    char cause[512];
    char node[SW_ATTEMPT_NODES][256];
    int32_t node_count;
};

/* Reads FOLDER/attempt.json; a missing file: attempt 0. A broken one counts as attempt 0, too, with
 * a note. Errors: SW_ENVIRONMENT. */
int sw_attempt_read(const char *folder, struct sw_attempt *out, char note[256],
                    struct sw_error *err);
/* Durable (fsync of file and folder) when it returns 0. If the disk is full, it overwrites the
 * existing file. */
int sw_attempt_write(const char *folder, const struct sw_attempt *attempt, struct sw_error *err);

/* True for the one process that reports an attempt's end when several ranks see it: the first of
 * the whole job that claims it (FOLDER/.attempt-N.ended, made with O_EXCL). False once a later
 * attempt has begun. True if the folder cannot be written: a repeated report is better than
 * none. */
bool sw_attempt_claim(const char *folder, int64_t attempt);
bool sw_attempt_is_claimed(const char *folder, int64_t attempt);
/* Removes the claim: before an attempt begins, and after it ended in good order. */
void sw_attempt_unclaim(const char *folder, int64_t attempt);

/* Adds a node (NULL, "": none) unless it is listed or the list is full. */
void sw_attempt_add_node(struct sw_attempt *attempt, const char *node);
/* Verdict of a run that this error ended: SW_VERDICT_BAD_NODE for broken hardware, else its
 * status. */
int32_t sw_attempt_verdict(const struct sw_error *err);

#endif
