/* The jobs of a run: stages on the same nodes share one. */
#ifndef SW_EMIT_STAGES_H
#define SW_EMIT_STAGES_H

#include "planner/emit/plans.h"
#include "planner/search/stages.h"

#include <limits.h>

struct sw_emit_job {
    int32_t first, count;    /* range of the stages */
    char script[NAME_MAX];   /* name of its file */
    char *stages;            /* "NAME/STEPS/DIGESTS NAME/..."; NULL: no stages */
    struct sw_path *data[2]; /* files of all stages: of data.path, data.validation */
    int32_t data_count[2];
    char *next;           /* absolute path of the next job's script; NULL: none */
    double step_seconds;  /* mean of all steps, with saves and evaluations */
    double mean_step_s;   /* the same without these */
    int64_t steps;        /* in all stages */
    int64_t lead_seconds; /* lead of the signal before the limit, the most */
    bool says_steps;
};

/* Divides the stages [count] into jobs, in order; *jobs is the caller's, for sw_emit_jobs_free.
 * directory: of the scripts, which exists. Errors: SW_ENVIRONMENT. */
int sw_emit_jobs_make(const struct sw_emit_stage *stage, int32_t count, const char *directory,
                      struct sw_emit_job **jobs, int32_t *job_count, struct sw_error *err);
void sw_emit_jobs_free(struct sw_emit_job *jobs, int32_t count);

/* The run of a job's script: its first stage, with the folders and steps of all its stages. The
 * caller frees *folder and *checkpoints, which hold the folders' names. Errors: memory. */
int sw_emit_job_run(const struct sw_emit_stage *stage, const struct sw_emit_job *job,
                    struct sw_run_config *out, char **folder, char **checkpoints,
                    struct sw_error *err);

/* Digest of all plans; for a run with one plan, that plan's. */
uint64_t sw_emit_digest(const struct sw_emit_stage *stage, int32_t count);

/* A script that starts the stages' scripts one after another, if no job does. In memory that the
 * caller frees. NULL: no memory. */
char *sw_emit_driver(const struct sw_emit_stage *stage, int32_t count, size_t *bytes);

/* Writes stages.json to the folder of the run; removes it for a run without stages. Errors:
 * SW_ENVIRONMENT. */
int sw_emit_stages_record(const struct sw_emit_stage *stage, int32_t count, struct sw_error *err);

#endif
