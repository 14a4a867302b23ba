/* States of a run: names, and which may still change its folder. */
#include "planner/job/status.h"

static const char *const state_names[] = {
    [SW_RUN_NONE] = "none",           [SW_RUN_SUBMITTING] = "submitting",
    [SW_RUN_PENDING] = "pending",     [SW_RUN_STARTING] = "starting",
    [SW_RUN_RUNNING] = "running",     [SW_RUN_ENDING] = "ending",
    [SW_RUN_SUSPENDED] = "suspended", [SW_RUN_DONE] = "done",
    [SW_RUN_STOPPED] = "stopped",     [SW_RUN_FAILED] = "failed",
    [SW_RUN_LOST] = "lost",           [SW_RUN_UNKNOWN] = "unknown"};

const char *sw_run_state_name(enum sw_run_state state)
{
    return state_names[state];
}

bool sw_run_state_is_live(enum sw_run_state state)
{
    return (state >= SW_RUN_SUBMITTING && state <= SW_RUN_SUSPENDED) || state == SW_RUN_UNKNOWN;
}
