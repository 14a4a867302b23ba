/* `runner evaluate`: loss of a checkpoint, or of any Hugging Face model directory, on a run's
 * held-out data, or on all its data if none is held out. */
#ifndef SW_EVALUATE_H
#define SW_EVALUATE_H

#include "runner/rank/rank.h"

struct sw_evaluate_options {
    const char *plan_path;  /* not NULL */
    const char *checkpoint; /* a checkpoint, or a folder of checkpoints: the newest; not NULL */
    bool json;
};

/* Collective. options: struct sw_evaluate_options. Prints the result to stdout and errors to
 * stderr, once per job. Returns the exit code. */
int sw_evaluate(struct sw_rank *rank, const void *options);

#endif
