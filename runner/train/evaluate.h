/* `runner evaluate`: the loss of a checkpoint, or of any Hugging Face model directory, on what a
 * run holds out of its data; on all of its data where it holds nothing out. */
#ifndef SW_EVALUATE_H
#define SW_EVALUATE_H

#include "runner/rank/rank.h"

struct sw_evaluate_options {
    const char *plan_path;  /* not NULL */
    const char *checkpoint; /* a folder; the folder of a run's checkpoints: the newest. not NULL */
    bool json;
};

/* Collective. options: struct sw_evaluate_options. Prints the result to stdout and its own errors
 * to stderr, once per job. Returns the exit code. */
int sw_evaluate(struct sw_rank *rank, const void *options);

#endif
