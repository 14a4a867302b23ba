#include "runner/train/evaluate.h"

#include "core/base/json.h"
#include "runner/train/trainer.h"
#include "runner/checkpoint/resume.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Between batches. */
static int agree(void *context, bool *stops)
{
    struct sw_rank *rank = context;
    float failed = rank->err.status != SW_OK ? 1 : 0;
    *stops = false;
    if (sw_rank_vote(rank, &failed, 1, &rank->err) != 0)
        return -1;
    *stops = failed > 0;
    return 0;
}

static int show(const struct sw_trainer *trainer, const struct sw_evaluate_options *options,
                const char *folder, const struct sw_manifest *manifest, double loss)
{
    const int64_t labels = sw_dataset_holdout_labels(sw_trainer_held(trainer));
    double bigram = NAN;
    char text[96];
    sw_trainer_describe_loss(trainer, loss, &bigram, text);
    if (options->json) {
        struct sw_json j = {.out = stdout, .style = SW_JSON_LINE};
        sw_json_object(&j, NULL);
        sw_json_text(&j, "schema", "shardwright.evaluate/1");
        sw_json_text(&j, "checkpoint", folder);
        if (manifest->optimizer[0] != '\0')
            sw_json_integer(&j, "step", manifest->step);
        else
            sw_json_null(&j, "step"); /* other programs' models have none */
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

static int evaluate(struct sw_trainer *trainer, const struct sw_evaluate_options *options)
{
    struct sw_rank *rank = trainer->rank;
    const struct sw_run_config *run = rank->plan->run;
    struct sw_manifest manifest = {0};
    char folder[4096], base[4096];
    double loss = NAN;
    enum sw_status status =
        sw_trainer_open(trainer, run->data_holdout > 0 ? run->data_holdout : 1, 0);
    if (status == SW_OK)
        status = sw_resume_load(rank, options->checkpoint, folder, base, &manifest);
    if (status != SW_OK)
        return (int)status;
    if (sw_dataset_holdout_labels(sw_trainer_held(trainer)) == 0)
        sw_fail_at(&rank->err, SW_BAD_INPUT, (struct sw_place){.file = run->data_path},
                   run->data_validation.count > 0
                       ? "no label of data.validation counts; name other files"
                       : "none of it is held out; use more data or a larger data.holdout");
    else if (sw_trainer_held_out(trainer, agree, rank, &loss) != 0)
        sw_launch_abort(rank->launch, &rank->err, (int)rank->err.status);
    status = sw_rank_agree(rank);
    if (status != SW_OK)
        return (int)status;
    const int shown =
        rank->launch->rank == 0 ? show(trainer, options, folder, &manifest, loss) : SW_OK;
    return (int)sw_launch_max(rank->launch, shown);
}

int sw_evaluate(struct sw_rank *rank, const void *options)
{
    struct sw_trainer trainer = {.rank = rank};
    const int status = evaluate(&trainer, options);
    sw_trainer_close(&trainer);
    return status;
}
