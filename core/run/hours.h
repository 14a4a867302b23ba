/* Parts of a run's accelerator-hours, from files in its folder: metrics.jsonl, written by the
 * ranks, and allocations.jsonl, with a line when a job's own process begins and one when it ends:
 *
 *     {"job": "42", "restarts": 0, "accelerators": 8, "began": 1764478801.1}
 *     {"job": "42", "restarts": 0, "ended": 1764482401.1, "code": 0, "limit_seconds": 7200}
 *
 * The parts add up to the held time. A killed job leaves no second line: it counts up to the last
 * line of its ranks. */
#ifndef SW_HOURS_H
#define SW_HOURS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Parts of an accelerator's time: identifier, JSON key, name for people. */
#define SW_TIME_PARTS(X)                                                                           \
    X(STEPS, "steps", "steps")       /* without repeated ones */                                   \
    X(STARTS, "starts", "start-up")  /* until the first step, and between starts */                \
    X(SAVES, "saves", "checkpoints") /* pauses of training */                                      \
    X(EVALUATION, "evaluation", "evaluation")                                                      \
    X(REPEATED, "repeated", "repeated")    /* steps that were lost and repeated */                 \
    X(BETWEEN, "between_steps", "between") /* steps: time in no line */                            \
    X(IDLE, "idle", "idle")                /* at a job's end, and on excluded nodes */

#define X(id, key, words) SW_TIME_##id,
enum sw_time_part { SW_TIME_PARTS(X) SW_TIME_PART_COUNT };
#undef X
extern const char *const sw_time_part_keys[SW_TIME_PART_COUNT];
extern const char *const sw_time_part_words[SW_TIME_PART_COUNT];

struct sw_hours {
    int64_t attempts, steps, repeated_steps;
    bool supervised;                   /* true if a job's process notes its start and end */
    double part_s[SW_TIME_PART_COUNT]; /* seconds of accelerators */
    double held_s;                     /* their sum */
    double mfu;                        /* mean over the steps' time; 0: none */
    double held_mfu;                   /* the same over the held time */
    int64_t memory_used, memory_planned, memory_limit; /* bytes of one accelerator; 0: unknown */
    char job[64];                                      /* newest job; "": none */
    double job_s, job_limit_s; /* seconds from its start; time limit if ended, 0: unknown */
};

/* job: that one alone; NULL: all. live: true if steps without a checkpoint may still get one; else
 * they are lost. Without steps or starts: attempts 0. Errors: SW_ENVIRONMENT. */
int sw_hours_read(const char *folder, const char *job, bool live, struct sw_hours *out,
                  struct sw_error *err);

/* Writes lines for people, each after `indent`: held time, parts that are not 0, memory, time
 * against the limit. Nothing without attempts. */
void sw_hours_write(FILE *out, const struct sw_hours *efficiency, const char *indent);

/* Notes a job's start, and its end; seconds since 1970. limit_s: 0: unknown. Errors:
 * SW_ENVIRONMENT. */
int sw_allocation_note_begin(const char *folder, const char *job, int64_t restarts,
                             int64_t accelerators, double began, struct sw_error *err);
int sw_allocation_note_end(const char *folder, const char *job, int64_t restarts, double ended,
                           int32_t code, double limit_s, struct sw_error *err);

#endif
