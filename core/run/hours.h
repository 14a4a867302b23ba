/* Parts of a run's accelerator-hours, by the files in its folder: metrics.jsonl, of the ranks,
 * and allocations.jsonl, a line when a job's own process begins and one when it ends:
 *
 *     {"job": "42", "restarts": 0, "accelerators": 8, "began": 1764478801.1}
 *     {"job": "42", "restarts": 0, "ended": 1764482401.1, "code": 0, "limit_seconds": 7200}
 *
 * The parts are summed up, and their sum is what was held. A job that was killed leaves no second
 * line: it counts up to the last line of its ranks. */
#ifndef SW_HOURS_H
#define SW_HOURS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Parts of an accelerator's time: identifier, JSON key, what people read. */
#define SW_TIME_PARTS(X)                                                                           \
    X(STEPS, "steps", "steps")       /* that were not made again */                                \
    X(STARTS, "starts", "start-up")  /* until the first step, and from start to start */           \
    X(SAVES, "saves", "checkpoints") /* while training stood still for them */                     \
    X(EVALUATION, "evaluation", "evaluation")                                                      \
    X(REPEATED, "repeated", "repeated")    /* steps that were lost, and made again */              \
    X(BETWEEN, "between_steps", "between") /* steps: what no line accounts for */                  \
    X(IDLE, "idle", "idle")                /* at a job's end, and on nodes that were left out */

#define X(id, key, words) SW_TIME_##id,
enum sw_time_part { SW_TIME_PARTS(X) SW_TIME_PART_COUNT };
#undef X
extern const char *const sw_time_part_keys[SW_TIME_PART_COUNT];
extern const char *const sw_time_part_words[SW_TIME_PART_COUNT];

struct sw_hours {
    int64_t attempts, steps, repeated_steps;
    bool supervised;                   /* the process of a job notes when it begins and ends */
    double part_s[SW_TIME_PART_COUNT]; /* of an accelerator, in seconds */
    double held_s;                     /* their sum */
    double mfu;                        /* of the steps, by their time; 0: none */
    double held_mfu;                   /* the same over all that was held */
    int64_t memory_used, memory_planned, memory_limit; /* of one accelerator; 0: not known */
    char job[64];                                      /* the newest; "": none */
    double job_s, job_limit_s; /* from its beginning; its limit at the end, 0: not known */
};

/* job: of that alone; NULL: all. live: steps that no checkpoint has may still get one; else they
 * are lost. No step, no start: attempts 0. Errors: SW_ENVIRONMENT. */
int sw_hours_read(const char *folder, const char *job, bool live, struct sw_hours *out,
                  struct sw_error *err);

/* Lines for people, each behind `indent`: what was held, the parts that are not 0, memory, time
 * against the limit. Nothing where there is no attempt. */
void sw_hours_write(FILE *out, const struct sw_hours *efficiency, const char *indent);

/* A job begins, and ends; seconds since 1970. limit_s: 0: not known. Errors: SW_ENVIRONMENT. */
int sw_allocation_note_begin(const char *folder, const char *job, int64_t restarts,
                             int64_t accelerators, double began, struct sw_error *err);
int sw_allocation_note_end(const char *folder, const char *job, int64_t restarts, double ended,
                           int32_t code, double limit_s, struct sw_error *err);

#endif
