/* Any bytes as what plan's job commands read: answers of squeue and sacct, a run's metrics.jsonl,
 * its submission.json, sbatch's word and a log's name. Nothing of it is a mistake; what is shown of
 * it stays in its line, and what it becomes is sane. */
#include "core/run/progress.h"
#include "core/run/submission.h"
#include "planner/scheduler/slurm/queue.h"
#include "planner/job/log_file.h"
#include "planner/scheduler/slurm/submit.h"
#include "planner/job/words.h"
#include "planner/scheduler/slurm/words.h"
#include "tests/fuzz/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *copy(const struct fuzz_file *file)
{
    char *text = malloc(file->bytes + 1);
    fuzz_require(text != NULL, "no memory", "");
    memcpy(text, file->text, file->bytes + 1);
    return text;
}

static void check_jobs(const struct sw_queued_jobs *jobs)
{
    for (int32_t i = 0; i < jobs->count; i++) {
        const struct sw_queued_job *job = &jobs->job[i];
        const char *const shown[] = {job->id,        job->state,    job->reason,  job->nodes,
                                     job->starts_at, job->ended_at, job->comment, job->submitted_at,
                                     job->command,   job->folder};
        char words[256];
        bool never;
        for (size_t k = 0; k < sizeof shown / sizeof shown[0]; k++)
            fuzz_require_plain(shown[k]);
        fuzz_require(job->id[0] != '\0' && strlen(job->id) < SW_SHOWN_JOB_BYTES &&
                         strspn(job->id, "0123456789") < SW_JOB_ID_BYTES,
                     "no id", job->id);
        fuzz_require(job->limit_seconds >= 0 || job->limit_seconds == -1, "no limit", job->id);
        fuzz_require(job->elapsed_seconds >= 0 || job->elapsed_seconds == -1, "no time", job->id);
        fuzz_require(job->is_live || !job->is_running, "it runs and is over", job->id);
        fuzz_require(sw_queued_jobs_find(jobs, job->id) != NULL, "not found", job->id);
        fuzz_require_plain(
            sw_slurm_reason_words(job->reason, job->id, words, sizeof words, &never));
        fuzz_require_plain(sw_slurm_end_words(job->state));
    }
}

static void check_answers(const struct fuzz_file *file)
{
    struct sw_queued_jobs jobs;
    fuzz_require(sw_squeue_parse(copy(file), file->bytes, &jobs, NULL) == 0, "not parsed",
                 "squeue");
    check_jobs(&jobs);
    sw_queued_jobs_free(&jobs);
    fuzz_require(sw_sacct_parse(copy(file), file->bytes, &jobs, NULL) == 0, "not parsed", "sacct");
    check_jobs(&jobs);
    sw_queued_jobs_free(&jobs);
}

static void check_progress(const struct fuzz_file *file)
{
    struct sw_progress p;
    for (int whole = 0; whole < 2; whole++) {
        sw_progress_parse(file->text, file->bytes, whole == 1, &p);
        fuzz_require(p.step >= 0 && p.attempt >= 0 && p.steps_seen >= 0, "a count below 0", "");
        fuzz_require(isfinite(p.step_seconds) && p.step_seconds >= 0, "no time of a step", "");
        fuzz_require(isfinite(p.predicted_seconds) && p.predicted_seconds >= 0, "no prediction",
                     "");
        fuzz_require_plain(p.mesh);
        fuzz_require_plain(p.plan_digest);
    }
}

static void check_record(const struct fuzz_file *file)
{
    static struct sw_submission record;
    char note[256];
    const char *wrong = sw_submission_parse(file->text, file->bytes, &record, note);
    fuzz_require((wrong != NULL) == (record.token[0] == '\0'), "wrong, and yet there", note);
    for (int32_t i = 0; i < record.job_count; i++)
        fuzz_require(sw_job_id_is_valid(record.job[i]), "no id", record.job[i]);
    fuzz_require_plain(record.run);
    fuzz_require_plain(record.script);
    fuzz_require_plain(record.log);
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    char id[SW_JOB_ID_BYTES], path[PATH_MAX];
    int32_t count;
    const struct fuzz_file *file = fuzz_files(data, bytes, &count);
    check_answers(&file[0]);
    check_progress(&file[count > 1]);
    check_record(&file[count > 2 ? 2 : 0]);
    if (sw_sbatch_parse_id(file[0].text, id, sizeof id) == 0)
        fuzz_require(sw_job_id_is_valid(id), "no id", id);
    sw_log_expand(file[0].text, "42", bytes % 2 == 0 ? "" : "3", file[count - 1].text, path);
    fuzz_require(strlen(path) < sizeof path, "no path", "");
}
