/* `runner evaluate`: the loss of a checkpoint, or of any Hugging Face model directory, on what a
 * run holds out of its data; on all of its data where it holds nothing out. */
#ifndef SW_EVALUATE_H
#define SW_EVALUATE_H

#include "core/plan/plan.h"
#include "runner/rank/launch.h"

struct sw_evaluate_options {
    const char *plan_path;  /* for messages; not NULL */
    const char *checkpoint; /* a folder; the folder of a run's checkpoints: the newest. not NULL */
    bool json;
};

/* Collective over the ranks of the launch. Prints the result to stdout and its own errors to
 * stderr, once per job. Returns the exit code. */
int sw_evaluate(const struct sw_launch *launch, const struct sw_plan *plan,
                const struct sw_evaluate_options *options);

#endif
