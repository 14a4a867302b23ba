/* Writes a run's plan and the script that starts it, for `plan emit` and `plan submit`. */
#ifndef SW_EMIT_H
#define SW_EMIT_H

#include "planner/search/report.h"

#include <limits.h>

struct sw_emitted {
    uint64_t digest;               /* of the plan, of several stages the first's */
    uint64_t run_digest;           /* of all plans */
    int64_t steps;                 /* of all stages */
    double run_seconds;            /* that they take */
    bool says_steps;               /* each says how many */
    struct sw_candidate candidate; /* what it decides, priced */
    char plan[PATH_MAX];           /* absolute */
    char log[2 * PATH_MAX];        /* with the scheduler's patterns; of a job */
};

/* Searches, and writes NAME.plan.yaml, of several stages NAME.STAGE.plan.yaml each, and the script
 * that starts it into options->output. The run_file's paths are absolute. said: where the lines for
 * people go. out (may be NULL: then the command that starts it is said, too, and where said is
 * NULL, all of it is printed as JSON). Returns an exit code; mistakes are printed. */
int sw_emit(const struct sw_options *options, const struct sw_run_file *run_file, FILE *said,
            struct sw_emitted *out);

/* Warns, at the place of its setting, of a time limit that is hardly longer than lead_seconds, in
 * which a run that goes on by itself would hardly train. */
void sw_emit_warn_of_short_limit(const struct sw_options *options, const char *path,
                                 const struct sw_run_config *run, int64_t lead_seconds);

#endif
