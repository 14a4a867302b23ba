/* attempt.json in the run's folder: how the last attempt of a run ended, durable before anyone
 * leaves, since launchers do not pass exit codes on faithfully.
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
    SW_VERDICT_REQUEUE = 75, /* the checkpoint is durable: go on in a new job */
    SW_VERDICT_BAD_NODE = 76,
    SW_VERDICT_NO_PROGRESS = 93, /* nothing gained since the last attempt: end the chain */
    SW_VERDICT_INTERRUPTED = 130,
    SW_VERDICT_TERMINATED = 143
    /* 1, 2, 3: as the exit codes */
};

enum { SW_ATTEMPT_NODES = 8 };
struct sw_attempt {
    int64_t attempt; /* from 1 */
    int32_t verdict;
    int64_t step, first_step; /* the last one done / durable; the one it began behind */
    int64_t idle_jobs;        /* in a row since: jobs that began no attempt */
    char job[64];
    char cause[512];
    char node[SW_ATTEMPT_NODES][256];
    int32_t node_count;
};

/* FOLDER/attempt.json; a missing file: attempt 0. One that is broken counts as attempt 0, too, with
 * a note. Errors: SW_ENVIRONMENT. */
int sw_attempt_read(const char *folder, struct sw_attempt *out, char note[256],
                    struct sw_error *err);
/* Durable (fsync of file and folder) when it returns 0. Where the disk is full it is written over
 * the one that is there. */
int sw_attempt_write(const char *folder, const struct sw_attempt *attempt, struct sw_error *err);

/* Who says how an attempt ended, when several ranks see it end: the first of the whole job that
 * claims it (FOLDER/.attempt-N.ended, made with O_EXCL). False, too, once a later attempt has
 * begun. Where the folder cannot be written, true: better said twice than never. */
bool sw_attempt_claim(const char *folder, int64_t attempt);
bool sw_attempt_is_claimed(const char *folder, int64_t attempt);
/* Before an attempt begins, and when it ended in good order. */
void sw_attempt_unclaim(const char *folder, int64_t attempt);

/* Adds a node (NULL, "": none) unless it is there or there is no room. */
void sw_attempt_add_node(struct sw_attempt *attempt, const char *node);
/* How a run ends that this error ended: SW_VERDICT_BAD_NODE where it tells of broken hardware, else
 * its status. */
int32_t sw_attempt_verdict(const struct sw_error *err);

#endif
