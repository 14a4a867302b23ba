#include "runner/train/arguments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int take_steps(void *to, const char *value, struct sw_problem *problem)
{
    char *end;
    (void)problem;
    errno = 0;
    const long long steps = strtoll(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || steps < 1)
        return -1;
    *(int64_t *)to = steps;
    return 0;
}

static int take_from(void *to, const char *value, struct sw_problem *problem)
{
    (void)problem;
    *(const char **)to = value;
    return value[0] == '-' ? -1 : 0;
}

int sw_train_arguments(int argc, char **argv, struct sw_train_options *out,
                       struct sw_problem *problem)
{
    const struct sw_argument options[] = {
        {.name = "--steps",
         .value = "N",
         .about = "stop after N steps instead of the plan's optimizer.total_steps",
         .needs = "--steps needs a positive number",
         .take = take_steps,
         .to = &out->steps},
        {.name = "--resume",
         .value = "auto|DIR|none",
         .about = "resume from the newest checkpoint of the run where there is one (auto, the "
                  "default), from that one, or start over",
         .needs = "--resume needs auto, none or a checkpoint",
         .take = take_from,
         .to = &out->resume.from},
        sw_argument_digest(&out->meant),
        {.name = "--quiet",
         .about = "say only what is wrong, and why a run ended before its last step; steps stand "
                  "in metrics.jsonl",
         .flag = &out->quiet},
        {.name = "--overwrite",
         .about = "with --resume none: delete the run's checkpoints",
         .flag = &out->resume.overwrite},
        {.name = NULL}};
    if (sw_arguments_parse(argc, argv, options, &out->plan_path, NULL, NULL, problem) != 0)
        return -1;
    if (out->resume.overwrite &&
        (out->resume.from == NULL || strcmp(out->resume.from, "none") != 0))
        return sw_problem_is(problem, "--overwrite deletes checkpoints, with --resume none only",
                             "");
    return 0;
}

int sw_evaluate_arguments(int argc, char **argv, struct sw_evaluate_options *out,
                          struct sw_problem *problem)
{
    const struct sw_argument options[] = {
        {.name = "--checkpoint",
         .value = "DIR",
         .about = "a checkpoint, a run's folder, or a Hugging Face model directory",
         .needs = "--checkpoint needs a folder",
         .text = &out->checkpoint},
        {.name = "--json", .about = "JSON instead of text", .flag = &out->json},
        {.name = NULL}};
    if (sw_arguments_parse(argc, argv, options, &out->plan_path, NULL, NULL, problem) != 0)
        return -1;
    return out->checkpoint != NULL ? 0
                                   : sw_problem_is(problem, "evaluate needs --checkpoint DIR", "");
}
