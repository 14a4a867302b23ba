/* Progress of a run from the end of its metrics.jsonl: the header of the newest start and the steps
 * since. Reads only the last part of the file, so a run of a million steps costs no more than one
 * of a hundred. Incomplete lines and those of other programs are skipped. */
#ifndef SW_PROGRESS_H
#define SW_PROGRESS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sw_progress {
    bool started;             /* true if the file has a header */
    int64_t attempt;          /* the newest start's; 0: unknown */
    char plan_digest[20];     /* "" */
    char mesh[64];            /* "" */
    double predicted_seconds; /* seconds of a step by the plan; 0: unknown */
    int64_t step;             /* last step; 0: none since the newest start */
    int64_t steps_seen;       /* steps of the newest start in the median below */
    double loss;              /* loss of that step; NaN: none, or not finite */
    double step_seconds;      /* median of recent steps; 0: none */
    double tokens_per_second; /* during the last step */
    int64_t checkpoint_step;  /* last step saved by the newest start; 0: none */
    double held_out_bits;     /* per token; NaN: none in the part read */
    double age_seconds;       /* seconds since the file was last written */
};

/* Reads FOLDER/metrics.jsonl; a missing file: all zero. Errors: SW_ENVIRONMENT. */
int sw_progress_read(const char *folder, struct sw_progress *out, struct sw_error *err);
/* The same from memory. whole: true if the text begins where the file does. */
void sw_progress_parse(const char *text, size_t bytes, bool whole, struct sw_progress *out);

#endif
