#include "runner/train/arguments.h"

#include <string.h>

static int take_from(const struct sw_argument *row, void *to, const char *value,
                     struct sw_error *err)
{
    (void)row;
    (void)err;
    *(const char **)to = value;
    return value[0] == '-' ? -1 : 0;
}

#define INTO(member) SW_ARGUMENT_TO(struct sw_train_options, member)
const struct sw_argument sw_train_rows[] = {
    {"--steps", NULL, "N", "stop after N steps instead of the plan's optimizer.total_steps",
     .least = 1, INTO(steps)},
    {"--resume", NULL, "auto|DIR|none",
     "resume from the newest checkpoint of the run where there is one (auto, the default), from "
     "that one, or start over",
     .take = take_from, INTO(resume.from)},
    SW_ARGUMENT_DIGEST(struct sw_train_options, meant),
    {"--quiet", NULL, NULL,
     "print no steps, which are in metrics.jsonl; only errors, notes, where the run resumes and "
     "why "
     "it ended before its last step",
     INTO(quiet)},
    {"--overwrite", NULL, NULL, "with --resume none: delete the run's checkpoints",
     INTO(resume.overwrite)},
    {.name = NULL}};
#undef INTO

int sw_train_arguments(int argc, char **argv, struct sw_train_options *out, struct sw_error *err)
{
    struct sw_command_line line = {.tool = "runner",
                                   .command = "train",
                                   .options = sw_train_rows,
                                   .to = out,
                                   .plan = &out->plan_path};
    const int status = sw_arguments_parse(argc, argv, &line, err);
    if (status == 0 && out->resume.overwrite &&
        (out->resume.from == NULL || strcmp(out->resume.from, "none") != 0))
        return sw_fail(err, SW_BAD_INPUT,
                       "--overwrite deletes checkpoints, with --resume none only");
    return status;
}

#define INTO(member) SW_ARGUMENT_TO(struct sw_evaluate_options, member)
const struct sw_argument sw_evaluate_rows[] = {
    {"--checkpoint", NULL, "DIR", "a checkpoint, a run's folder, or a Hugging Face model directory",
     INTO(checkpoint)},
    {"--json", NULL, NULL, "JSON instead of text", INTO(json)},
    {.name = NULL}};
#undef INTO

int sw_evaluate_arguments(int argc, char **argv, struct sw_evaluate_options *out,
                          struct sw_error *err)
{
    struct sw_command_line line = {.tool = "runner",
                                   .command = "evaluate",
                                   .options = sw_evaluate_rows,
                                   .to = out,
                                   .plan = &out->plan_path};
    const int status = sw_arguments_parse(argc, argv, &line, err);
    return status != 0 || out->checkpoint != NULL
               ? status
               : sw_fail(err, SW_BAD_INPUT, "evaluate needs --checkpoint DIR");
}
