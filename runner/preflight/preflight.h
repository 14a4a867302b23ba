/* `runner preflight PLAN`: every node tries the plan's work before a run, and is compared with the
 * plan's prediction and the other nodes. */
#ifndef SW_PREFLIGHT_H
#define SW_PREFLIGHT_H

#include "core/base/arguments.h"
#include "runner/rank/rank.h"

struct sw_preflight_options {
    const char *plan_path;
    struct sw_meant meant;
    bool full; /* true: a minute instead of ten seconds */
};

extern const struct sw_argument sw_preflight_rows[];
/* Returns as sw_arguments_parse. */
int sw_preflight_arguments(int argc, char **argv, struct sw_preflight_options *out,
                           struct sw_error *err);

/* Collective. options: struct sw_preflight_options. Rank 0 prints a line per test and names each
 * slow node; then saves them in attempt.json of the run's folder. Returns the exit code:
 * SW_VERDICT_BAD_NODE, or an error's. */
int sw_preflight(struct sw_rank *rank, const void *options);

#endif
