#include "runner/generate/arguments.h"

#include "runner/generate/lines.h"

#include <math.h>
#include <string.h>

enum { SAMPLING_FIELDS = 16 };

struct sampling_option {
    struct sw_sampling_params *params;
    const struct sw_sampling_params_field *field;
};

static int take_sampling(void *to, const char *value, struct sw_problem *problem)
{
    const struct sampling_option *option = to;
    return sw_sampling_params_set(option->params, option->field, sw_arguments_number(value),
                                  problem->text) == 0
               ? 0
               : sw_problem_is(problem, problem->text, "");
}

static int take_top(void *to, const char *value, struct sw_problem *problem)
{
    const double count = sw_arguments_number(value);
    _Static_assert(SW_TOP_TOKENS == 20, "what the message says");
    if (!(count >= 0 && count <= SW_TOP_TOKENS && floor(count) == count))
        return sw_problem_is(problem, "--top-logprobs is a whole number from 0 to 20, not ", value);
    *(int32_t *)to = (int32_t)count;
    return 0;
}

static int take_part(void *to, const char *value, struct sw_problem *problem)
{
    int64_t *part = to;
    return sw_lines_parse_part(value, &part[0], &part[1]) == 0
               ? 0
               : sw_problem_is(problem, "--shard needs I/N, as in 0/8: part I of N, from 0, not ",
                               value);
}

static int take_stop(void *to, const char *value, struct sw_problem *problem)
{
    return *value != '\0' && sw_stops_add(to, value) == 0
               ? 0
               : sw_problem_is(problem, "--stop needs a text that is not empty", "");
}

int sw_generate_arguments(int argc, char **argv, struct sw_generate_options *out,
                          struct sw_problem *problem)
{
    struct sampling_option params[SAMPLING_FIELDS];
    struct sw_argument options[SAMPLING_FIELDS + 11] = {
        {.name = "--checkpoint",
         .value = "DIR",
         .about = "weights: a checkpoint, a run's folder, or a Hugging Face model directory",
         .text = &out->checkpoint},
        {.name = "--prompt",
         .value = "TEXT",
         .about = "the text to complete",
         .text = &out->prompt,
         .may_be_empty = true},
        {.name = "--prompts",
         .value = "FILE",
         .about = "lines of {\"prompt\": TEXT} or {\"tokens\": [1, 2]}, with the options below as "
                  "keys (max_new_tokens, stop, ...) where they differ; - is stdin",
         .text = &out->prompts_path},
        {.name = "-o",
         .value = "OUT.jsonl",
         .about = "a line for each text, in the order of the prompts (default: stdout)",
         .text = &out->out_path},
        {.name = "--bytes",
         .about = "each byte of a text is a token; without it a model with no tokenizer takes "
                  "texts only where its vocab_size is 256 or its run has data.format: bytes",
         .flag = &out->bytes},
        {.name = "--logprobs",
         .about = "each token's log-probability, as the model has it",
         .flag = &out->logprobs},
        {.name = "--top-logprobs",
         .value = "N",
         .about = "the N most probable tokens in each one's place, and theirs; up to 20",
         .take = take_top,
         .to = &out->top},
        {.name = "--resume",
         .about = "continue OUT.jsonl as a run that was ended left it: lines that are there are "
                  "not made again, half of one is cut off; texts are those of one run",
         .flag = &out->resume},
        {.name = "--shard",
         .value = "I/N",
         .about = "part I of N of the prompts, from 0: as one of N jobs",
         .take = take_part,
         .to = out->part},
        {.name = "--stop",
         .value = "TEXT",
         .about = "ends a text, which does not get it; may be given several times",
         .take = take_stop,
         .to = &out->stops,
         .may_be_empty = true}};
    for (int32_t f = 0; sw_sampling_params_fields[f].name != NULL && f < SAMPLING_FIELDS; f++) {
        params[f] = (struct sampling_option){&out->params, &sw_sampling_params_fields[f]};
        options[10 + f] = (struct sw_argument){.name = sw_sampling_params_fields[f].name,
                                               .value = sw_sampling_params_fields[f].shown,
                                               .about = sw_sampling_params_fields[f].about,
                                               .needs = " needs a number",
                                               .take = take_sampling,
                                               .to = &params[f]};
    }
    *out = (struct sw_generate_options){.params = sw_sampling_params_default(), .part = {0, 1}};
    if (sw_arguments_parse(argc, argv, options, &out->plan_path, NULL, NULL, problem) != 0)
        return -1;
    if (out->checkpoint == NULL)
        return sw_problem_is(problem, "generate needs --checkpoint DIR", "");
    if ((out->prompt == NULL) == (out->prompts_path == NULL))
        return sw_problem_is(problem, "generate needs --prompt TEXT or --prompts FILE, one of them",
                             "");
    if (out->resume && (out->out_path == NULL || out->prompts_path == NULL))
        return sw_problem_is(problem, "--resume goes on with a file: it needs --prompts and -o",
                             "");
    if (out->part[1] > 1 && out->prompts_path == NULL)
        return sw_problem_is(problem, "--shard is a part of --prompts FILE", "");
    return 0;
}

int sw_score_arguments(int argc, char **argv, struct sw_score_options *out, char **files,
                       struct sw_problem *problem)
{
    const struct sw_argument options[] = {
        {.name = "--checkpoint",
         .value = "DIR",
         .about = "weights: a checkpoint, a run's folder, or a Hugging Face model directory",
         .text = &out->checkpoint},
        {.name = "--texts",
         .value = "FILE.jsonl",
         .about = "score lines of {\"text\": TEXT} or {\"tokens\": [1, 2]} instead of files",
         .text = &out->texts_path},
        {.name = "-o",
         .value = "OUT.jsonl",
         .about = "of lines: a line for each (default: stdout)",
         .text = &out->out_path},
        {.name = "--against",
         .value = "FILE",
         .about = "of lines: how far they are, on average and at most, from those that score "
                  "--logprobs wrote to FILE, of other weights or another precision",
         .text = &out->against_path},
        {.name = "--json", .about = "of files: JSON instead of text", .flag = &out->json},
        {.name = "--bytes",
         .about = "each byte of a text is a token; without it a model with no tokenizer takes "
                  "texts only where its vocab_size is 256 or its run has data.format: bytes",
         .flag = &out->bytes},
        {.name = "--logprobs",
         .about = "of lines: each token's log-probability, too",
         .flag = &out->logprobs},
        {.name = "--resume", .about = "continue OUT.jsonl as generate does", .flag = &out->resume},
        {.name = "--shard",
         .value = "I/N",
         .about = "part I of N of the lines, from 0: as one of N jobs",
         .take = take_part,
         .to = out->part},
        {.name = NULL}};
    *out = (struct sw_score_options){.files = files, .part = {0, 1}};
    if (sw_arguments_parse(argc, argv, options, &out->plan_path, files, &out->file_count,
                           problem) != 0)
        return -1;
    if (out->checkpoint == NULL)
        return sw_problem_is(problem, "score needs --checkpoint DIR", "");
    if ((out->file_count == 0) == (out->texts_path == NULL))
        return sw_problem_is(problem, "score needs files, or --texts FILE", "");
    if (out->texts_path == NULL && (out->out_path != NULL || out->logprobs ||
                                    out->against_path != NULL || out->resume || out->part[1] > 1))
        return sw_problem_is(
            problem, "-o, --logprobs, --against, --resume and --shard go with --texts FILE", "");
    if (out->texts_path != NULL && out->json)
        return sw_problem_is(problem, "--texts writes lines of JSON; --json is about files", "");
    if (out->resume && out->out_path == NULL)
        return sw_problem_is(problem, "--resume goes on with a file: it needs -o", "");
    if (out->resume && out->against_path != NULL)
        return sw_problem_is(
            problem, "--against is about all texts; a file that is gone on with has some already",
            "");
    return 0;
}
