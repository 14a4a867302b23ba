/* Writes a run's plan and the script that starts it, for `plan emit` and `plan submit`. */
#ifndef SW_EMIT_H
#define SW_EMIT_H

#include "planner/search/report.h"

#include <limits.h>

struct sw_emitted {
    uint64_t digest;               /* the plan's; with several stages the first's */
    uint64_t run_digest;           /* digest of all plans */
    int64_t steps;                 /* in all stages */
    double run_seconds;            /* for all steps */
    bool says_steps;               /* true if every stage gives its steps */
    struct sw_candidate candidate; /* decision with its price */
    char plan[PATH_MAX];           /* absolute */
    char log[2 * PATH_MAX];        /* with the scheduler's patterns; for a job */
};

/* Searches, and writes NAME.plan.yaml, or NAME.STAGE.plan.yaml for each of several stages, and the
 * script that starts it into options->output. The run_file's paths are absolute. said: stream for
 * people. out (may be NULL: then the command that starts it is printed, too, and if said is NULL,
 * JSON replaces all output). Returns an exit code; prints mistakes. */
int sw_emit(const struct sw_options *options, const struct sw_run_file *run_file, FILE *said,
            struct sw_emitted *out);

/* Warns, at its setting, of a time limit hardly longer than lead_seconds, in which a run that
 * continues itself would hardly train. */
void sw_emit_warn_of_short_limit(const struct sw_options *options, const char *path,
                                 const struct sw_run_config *run, int64_t lead_seconds);

#endif
