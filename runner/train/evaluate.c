#include "runner/train/evaluate.h"

#include "core/base/json.h"
#include "runner/checkpoint/loader.h"
#include "runner/train/job.h"
#include "runner/checkpoint/resume.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Between batches. */
static int agree(void *context, bool *stops)
{
    struct sw_job *job = context;
    float failed = job->err.status != SW_OK ? 1 : 0;
    *stops = false;
    if (sw_job_vote(job, &failed, 1, &job->err) != 0)
        return -1;
    *stops = failed > 0;
    return 0;
}

static int load(struct sw_job *job, const char *folder, struct sw_manifest *manifest)
{
    struct sw_loading loading = {.folder = folder};
    return sw_loader_load(job->launch, job->programs, job->executor, &job->plan->run->model.shape,
                          &loading, manifest, &job->err);
}

static int show(const struct sw_job *job, const struct sw_evaluate_options *options,
                const char *folder, const struct sw_manifest *manifest, double loss)
{
    const int64_t labels = sw_dataset_holdout_labels(job->data);
    double bigram = NAN;
    char text[96];
    sw_job_describe_loss(job, loss, &bigram, text);
    if (options->json) {
        struct sw_json j = {.out = stdout, .style = SW_JSON_LINE};
        sw_json_object(&j, NULL);
        sw_json_text(&j, "schema", "shardwright.evaluate/1");
        sw_json_text(&j, "checkpoint", folder);
        if (manifest->optimizer[0] != '\0')
            sw_json_integer(&j, "step", manifest->step);
        else
            sw_json_null(&j, "step"); /* others' models have none */
        sw_json_integer(&j, "labels", labels);
        sw_json_digits(&j, "loss", loss, 9);
        sw_json_digits(&j, "bits_per_token", loss / log(2), 9);
        sw_json_digits(&j, "bigram_bits_per_token", bigram, 9);
        sw_json_end(&j);
        putchar('\n');
    } else {
        printf("%s: loss %.6f over %" PRId64 " tokens, %s\n", folder, loss, labels, text);
    }
    if (fflush(stdout) == 0)
        return SW_OK;
    fprintf(stderr, "runner: error: cannot write the output: %s\n", strerror(errno));
    return SW_ENVIRONMENT;
}

static int evaluate(struct sw_job *job, const struct sw_evaluate_options *options)
{
    const double holdout = job->plan->run->data_holdout;
    struct sw_manifest manifest = {0};
    char folder[4096] = "";
    double loss = NAN;
    enum sw_status status = sw_job_open(job, holdout > 0 ? holdout : 1, 0);
    if (status != SW_OK)
        return (int)status;
    if (job->launch->rank == 0)
        (void)sw_resume_named(options->checkpoint, "--checkpoint", folder, &job->err);
    sw_launch_broadcast(job->launch, folder, sizeof folder);
    status = sw_job_agree(job);
    if (status != SW_OK)
        return (int)status;
    (void)load(job, folder, &manifest);
    status = sw_job_agree(job);
    if (status != SW_OK)
        return (int)status;
    if (sw_dataset_holdout_labels(job->data) == 0)
        sw_fail_at(&job->err, SW_BAD_INPUT, (struct sw_place){.file = job->plan->run->data_path},
                   "nothing of it is held out; use more data or a larger data.holdout");
    else if (sw_job_held_out(job, agree, job, &loss) != 0)
        sw_launch_abort(job->launch, &job->err, (int)job->err.status);
    status = sw_job_agree(job);
    if (status != SW_OK)
        return (int)status;
    const int shown = job->launch->rank == 0 ? show(job, options, folder, &manifest, loss) : SW_OK;
    return (int)sw_launch_max(job->launch, shown);
}

int sw_evaluate(const struct sw_launch *launch, const struct sw_plan *plan,
                const struct sw_evaluate_options *options)
{
    struct sw_job job = {.launch = launch, .plan = plan, .plan_path = options->plan_path};
    const int status = evaluate(&job, options);
    sw_job_close(&job);
    return status;
}
