/* The run that a command is about, and the runs in a folder. */
#ifndef SW_JOB_TARGET_H
#define SW_JOB_TARGET_H

#include "planner/command/options.h"

#include <limits.h>

struct sw_target {
    char folder[PATH_MAX]; /* the run's directory */
    int64_t steps;         /* steps of the run, if a run or a plan was named; 0: unknown */
    bool queueless;        /* true if a run or a plan was named, and its launcher has no queue */
};

/* Finds the run of the command line's only argument, default the working directory: a run's
 * directory; the number of a job, of a run below the working directory or known to the scheduler; a
 * run or plan file. Returns an exit code; prints mistakes. */
int sw_target_find(const struct sw_options *options, struct sw_target *out);

/* True if a folder is a run's directory: it has submission.json, attempt.json, metrics.jsonl,
 * job.json or stages.json. */
bool sw_folder_is_run(const char *folder);

struct sw_folders {
    char **path;
    int32_t count;
};
/* The runs in a folder and below it, sorted; skips hidden folders, links and the inside of runs.
 * Errors: SW_BAD_INPUT: no folder, or too many below it; SW_ENVIRONMENT. Free with sw_folders_free,
 * also after an error. */
int sw_folders_find(const char *root, struct sw_folders *out, struct sw_error *err);
void sw_folders_free(struct sw_folders *folders);

#endif
