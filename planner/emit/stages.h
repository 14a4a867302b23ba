/* The jobs of a run: stages on the same nodes share one. */
#ifndef SW_EMIT_STAGES_H
#define SW_EMIT_STAGES_H

#include "planner/emit/plans.h"
#include "planner/search/stages.h"

#include <limits.h>

struct sw_emit_job {
    int32_t first, count;    /* of the stages */
    char script[NAME_MAX];   /* name of its file */
    char *stages;            /* "NAME/STEPS/DIGESTS NAME/..."; NULL: the run has no stages */
    struct sw_path *data[2]; /* files of all stages: of data.path, data.validation */
    int32_t data_count[2];
    char *next;           /* absolute path of the script of the next job; NULL: none */
    double step_seconds;  /* mean of all steps, with saves and evaluations */
    double mean_step_s;   /* the same of the steps alone */
    int64_t steps;        /* of all stages */
    int64_t lead_seconds; /* of the signal before the limit, the most */
    bool says_steps;
};

/* Divides the stages [count] into jobs, in order; *jobs is the caller's, for sw_emit_jobs_free.
 * directory: of the scripts, which exists. Errors: SW_ENVIRONMENT. */
int sw_emit_jobs_make(const struct sw_emit_stage *stage, int32_t count, const char *directory,
                      struct sw_emit_job **jobs, int32_t *job_count, struct sw_error *err);
void sw_emit_jobs_free(struct sw_emit_job *jobs, int32_t count);

/* The run of a job's script: the first of its stages, with the folders and steps of all of them.
 * The folders' names are *folder and *checkpoints, which the caller frees. Errors: memory. */
int sw_emit_job_run(const struct sw_emit_stage *stage, const struct sw_emit_job *job,
                    struct sw_run_config *out, char **folder, char **checkpoints,
                    struct sw_error *err);

/* The digest of all plans; of a run with one plan that plan's. */
uint64_t sw_emit_digest(const struct sw_emit_stage *stage, int32_t count);

/* A script that starts the scripts of stages one after the other, where no job does. In memory that
 * the caller frees. NULL: no memory. */
char *sw_emit_driver(const struct sw_emit_stage *stage, int32_t count, size_t *bytes);

/* Writes stages.json to the folder of the run; of a run without stages removes it. Errors:
 * SW_ENVIRONMENT. */
int sw_emit_stages_record(const struct sw_emit_stage *stage, int32_t count, struct sw_error *err);

#endif
