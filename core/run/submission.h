/* submission.json in the run's folder: the job that `plan submit` made of the run, its plan, and
 * the prediction. Written twice: before the command is started ("submitting", with a token that the
 * job's comment has) and once the job's number is known ("submitted"), so that a job whose number
 * was lost is found again. Only `plan` writes it; the runner writes attempt.json. */
#ifndef SW_SUBMISSION_H
#define SW_SUBMISSION_H

#include "core/base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { SW_SUBMISSION_JOBS = 64, SW_JOB_ID_BYTES = 32, SW_TOKEN_BYTES = 32 };

struct sw_submission {
    bool submitted;             /* false: the command was about to be started */
    char token[SW_TOKEN_BYTES]; /* part of the job's comment */
    char run[256];
    /* Newest last: the submitted job, and the links of a chain that its script queued. */
    char job[SW_SUBMISSION_JOBS][SW_JOB_ID_BYTES];
    int32_t job_count;
    int64_t attempt; /* first attempt of this submission */
    uint64_t plan_digest, script_digest;
    char plan[PATH_MAX], script[PATH_MAX]; /* absolute */
    char log[PATH_MAX];                    /* with the scheduler's patterns in the name */
    char checkpoints[PATH_MAX];            /* folder with `latest` */
    char submitted_at[24];                 /* UTC, as in 2026-11-22T11:30:00Z */
    char cluster[256];                     /* its name in the run file */
    char mesh[64];
    int32_t nodes, ranks;
    int64_t steps;       /* in the whole run */
    double step_seconds; /* predicted, with 10th and 90th percentile; 0: unknown */
    double low_seconds, high_seconds;
    double run_seconds; /* predicted, for all steps; 0: unknown */
};

/* Reads FOLDER/submission.json, and further jobs from FOLDER/submission.jobs, one number a line, to
 * which the job's script appends; the last ones are kept. A missing file: token "". A broken one
 * counts as missing, with a note. Errors: SW_ENVIRONMENT. */
int sw_submission_read(const char *folder, struct sw_submission *out, char note[256],
                       struct sw_error *err);
/* Durable when it returns 0. Errors: SW_ENVIRONMENT. */
int sw_submission_write(const char *folder, const struct sw_submission *submission,
                        struct sw_error *err);
/* Clears the links before a job is submitted. Errors: SW_ENVIRONMENT. */
int sw_submission_begin_links(const char *folder, struct sw_error *err);
/* Removes the record, when there is no job. */
void sw_submission_forget(const char *folder);

/* Writes it as in the file, for --json. */
struct sw_json;
void sw_submission_write_json(struct sw_json *json, const struct sw_submission *submission);

/* Parses the file's text; returns its mistake, NULL: none. */
const char *sw_submission_parse(const char *text, size_t bytes, struct sw_submission *out,
                                char note[256]);

/* True for the digits of a job's number, with or without an array's index behind '_'. */
bool sw_job_id_is_valid(const char *text);
/* True if id is that job, or part of that array: "42", "42_3" and a list's "42_[4-15%8]" belong to
 * "42". */
bool sw_job_id_is_of(const char *id, const char *job);

#endif
