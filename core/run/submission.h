/* submission.json in the run's folder: which job `plan submit` made of it, under which plan, and
 * what was promised. It is written twice: before the command is started ("submitting", with a token
 * that the job's comment bears) and when its number is known ("submitted"), so that a job whose
 * number was lost is found again. Only `plan` writes it; the runner's own account is attempt.json.
 */
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
    /* The newest last: the one that was submitted, and the links of a chain that its script queued.
     */
    char job[SW_SUBMISSION_JOBS][SW_JOB_ID_BYTES];
    int32_t job_count;
    int64_t attempt; /* of attempt.json, that this submission begins with */
    uint64_t plan_digest, script_digest;
    char plan[PATH_MAX], script[PATH_MAX]; /* absolute */
    char log[PATH_MAX];                    /* with the scheduler's patterns */
    char checkpoints[PATH_MAX];            /* the folder that `latest` is in */
    char submitted_at[24];                 /* UTC, as in 2026-11-22T11:30:00Z */
    char cluster[256];                     /* its name in the run file */
    char mesh[64];
    int32_t nodes, ranks;
    int64_t steps;       /* of the whole run */
    double step_seconds; /* predicted, with its 10th and 90th percentile; 0: not told */
    double low_seconds, high_seconds;
    double run_seconds; /* predicted, of all steps; 0: not told */
};

/* FOLDER/submission.json, and the numbers of more jobs in FOLDER/submission.jobs, a line each,
 * which the job's script appends to; of many the last count. There is none: token "". One that is
 * broken counts as none, with a note. Errors: SW_ENVIRONMENT. */
int sw_submission_read(const char *folder, struct sw_submission *out, char note[256],
                       struct sw_error *err);
/* Durable when it returns 0. Errors: SW_ENVIRONMENT. */
int sw_submission_write(const char *folder, const struct sw_submission *submission,
                        struct sw_error *err);
/* Before a job is submitted: there are no links yet. Errors: SW_ENVIRONMENT. */
int sw_submission_begin_links(const char *folder, struct sw_error *err);
/* Takes the record away: there is no job. */
void sw_submission_forget(const char *folder);

/* As it is written, for --json. */
struct sw_json;
void sw_submission_write_json(struct sw_json *json, const struct sw_submission *submission);

/* What stands in the file, from memory; what is wrong with it, NULL: nothing. */
const char *sw_submission_parse(const char *text, size_t bytes, struct sw_submission *out,
                                char note[256]);

/* The digits of a job's number, perhaps with an array's index behind '_'. */
bool sw_job_id_is_valid(const char *text);
/* Whether id is that job, or of that array: "42", "42_3" and a list's "42_[4-15%8]" are of "42". */
bool sw_job_id_is_of(const char *id, const char *job);

#endif
