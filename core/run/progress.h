/* How far a run is, as the end of its metrics.jsonl tells: the header of the newest start and the
 * steps since. Reads the last part of the file only, so a run of a million steps costs no more than
 * one of a hundred. A line that is being written, or that is none of ours, is passed over. */
#ifndef SW_PROGRESS_H
#define SW_PROGRESS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sw_progress {
    bool started;             /* the file has a header */
    int64_t attempt;          /* of the newest start; 0: the header does not tell */
    char plan_digest[20];     /* "" */
    char mesh[64];            /* "" */
    double predicted_seconds; /* of a step, by the plan; 0: not told */
    int64_t step;             /* the last one; 0: none since the newest start */
    int64_t steps_seen;       /* of the newest start, that the median below is of */
    double loss;              /* of that step; NaN: none, or it is not finite */
    double step_seconds;      /* median of the last steps; 0: none */
    double tokens_per_second; /* of the last step */
    int64_t checkpoint_step;  /* the last one that the newest start saved; 0: none */
    double held_out_bits;     /* per token; NaN: not measured in what was read */
    double age_seconds;       /* since the file was written to */
};

/* FOLDER/metrics.jsonl; there is none: all zero. Errors: SW_ENVIRONMENT. */
int sw_progress_read(const char *folder, struct sw_progress *out, struct sw_error *err);
/* The same from memory: whole: the text begins where the file does. */
void sw_progress_parse(const char *text, size_t bytes, bool whole, struct sw_progress *out);

#endif
