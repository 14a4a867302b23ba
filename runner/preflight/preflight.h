/* `runner preflight PLAN`: every node tries what the plan wants of it, before a run does, and is
 * held against the plan's prediction and against the other nodes. */
#ifndef SW_PREFLIGHT_H
#define SW_PREFLIGHT_H

#include "core/base/arguments.h"
#include "runner/rank/rank.h"

struct sw_preflight_options {
    const char *plan_path;
    struct sw_meant meant;
    bool full; /* for about a minute instead of ten seconds */
};

extern const struct sw_argument sw_preflight_rows[];
/* As sw_arguments_parse. */
int sw_preflight_arguments(int argc, char **argv, struct sw_preflight_options *out,
                           struct sw_error *err);

/* Collective. options: struct sw_preflight_options. Rank 0 prints a line for each thing that was
 * tried, and names each node that is out of its band; then attempt.json in the run's folder says
 * so, too. Returns the exit code: SW_VERDICT_BAD_NODE, or an error's. */
int sw_preflight(struct sw_rank *rank, const void *options);

#endif
