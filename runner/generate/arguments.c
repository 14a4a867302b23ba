#include "runner/generate/arguments.h"

#include "runner/generate/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(SW_TOP_TOKENS == 20, "what the help says");

static int take_sampling(const struct sw_argument *row, void *to, const char *value,
                         struct sw_error *err)
{
    const struct sw_sampling_params_field *field = sw_sampling_params_fields;
    char text[160];
    while (strcmp(field->name, row->name) != 0)
        field++;
    char *end;
    errno = 0;
    const long long whole = strtoll(value, &end, 10);
    const int status = end > value && *end == '\0' && errno == 0
                           ? sw_sampling_params_set_whole(to, field, whole, text)
                           : sw_sampling_params_set(to, field, sw_arguments_number(value), text);
    return status == 0 ? 0 : sw_fail(err, SW_BAD_INPUT, "%s", text);
}

static int take_part(const struct sw_argument *row, void *to, const char *value,
                     struct sw_error *err)
{
    int64_t *part = to;
    (void)row;
    return sw_lines_parse_part(value, &part[0], &part[1]) == 0
               ? 0
               : sw_fail(err, SW_BAD_INPUT,
                         "--shard must be I/N, as in 0/8: part I of N, from 0, not '%.60s'", value);
}

static int take_stop(const struct sw_argument *row, void *to, const char *value,
                     struct sw_error *err)
{
    (void)row;
    return sw_stops_add(to, value) == 0 ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory");
}

#define INTO(member) SW_ARGUMENT_TO(struct sw_generate_options, member)
const struct sw_argument sw_generate_rows[] = {
    {"--checkpoint", NULL, "DIR",
     "weights: a checkpoint, a run's folder, or a Hugging Face model directory", INTO(checkpoint)},
    {"--prompt", NULL, "TEXT", "the prompt to complete", INTO(prompt), .empty = SW_EMPTY_TAKEN},
    {"--prompts", NULL, "FILE",
     "lines of {\"prompt\": TEXT} or {\"tokens\": [1, 2]}, with the options below as keys "
     "(max_new_tokens, stop, ...) where they differ; - is stdin",
     INTO(prompts_path)},
    {"-o", NULL, "OUT.jsonl",
     "a line for each sequence, in the order of the prompts (default: stdout)", INTO(out_path)},
    {"--bytes", NULL, NULL,
     "each byte of a text is a token; without it a model with no tokenizer takes texts only where "
     "its vocab_size is 256 or its run has data.format: bytes",
     INTO(bytes)},
    {"--logprobs", NULL, NULL, "each token's log-probability, as the model has it", INTO(logprobs)},
    {"--top-logprobs", NULL, "N",
     "at each position the N most probable tokens and their log-probabilities; up to 20",
     .most = SW_TOP_TOKENS, INTO(top)},
    {"--resume", NULL, NULL,
     "continue the OUT.jsonl of an interrupted run: finished lines are kept, a partial last "
     "line is removed; the results are those of one run",
     INTO(resume)},
    {"--shard", NULL, "I/N", "take only part I of N of the prompts, I from 0, as one of N jobs",
     .take = take_part, INTO(part)},
    {"--stop", NULL, "TEXT",
     "a string that ends the sequence and is not part of it; may be given several times",
     .take = take_stop, INTO(stops)},
#define SAMPLING(name, real, least, most, above, value, about)                                     \
    {#name, NULL, value, about, .take = take_sampling, INTO(params)},
    SW_SAMPLING_PARAMS(SAMPLING)
#undef SAMPLING
        {.name = NULL}};
#undef INTO

int sw_generate_arguments(int argc, char **argv, struct sw_generate_options *out,
                          struct sw_error *err)
{
    *out = (struct sw_generate_options){.params = sw_sampling_params_default(), .part = {0, 1}};
    struct sw_command_line line = {.tool = "runner",
                                   .command = "generate",
                                   .options = sw_generate_rows,
                                   .to = out,
                                   .plan = &out->plan_path};
    const int status = sw_arguments_parse(argc, argv, &line, err);
    if (status != 0)
        return status;
    if (out->checkpoint == NULL)
        return sw_fail(err, SW_BAD_INPUT, "generate needs --checkpoint DIR");
    if ((out->prompt == NULL) == (out->prompts_path == NULL))
        return sw_fail(err, SW_BAD_INPUT,
                       "generate needs --prompt TEXT or --prompts FILE, one of them");
    if (out->resume && (out->out_path == NULL || out->prompts_path == NULL))
        return sw_fail(err, SW_BAD_INPUT, "--resume continues a file: it needs --prompts and -o");
    if (out->part[1] > 1 && out->prompts_path == NULL)
        return sw_fail(err, SW_BAD_INPUT, "--shard is a part of --prompts FILE");
    return 0;
}

#define INTO(member) SW_ARGUMENT_TO(struct sw_score_options, member)
const struct sw_argument sw_score_rows[] = {
    {"--checkpoint", NULL, "DIR",
     "weights: a checkpoint, a run's folder, or a Hugging Face model directory", INTO(checkpoint)},
    {"--texts", NULL, "FILE.jsonl",
     "score lines of {\"text\": TEXT} or {\"tokens\": [1, 2]} instead of files", INTO(texts_path)},
    {"-o", NULL, "OUT.jsonl", "with --texts: a line for each (default: stdout)", INTO(out_path)},
    {"--against", NULL, "FILE",
     "with --texts: how far the log-probabilities are, on average and at most, from those that "
     "score --logprobs wrote to FILE, of other weights or another precision",
     INTO(logprob_diff_path)},
    {"--json", NULL, NULL, "with files: JSON instead of text", INTO(json)},
    {"--bytes", NULL, NULL,
     "each byte of a text is a token; without it a model with no tokenizer takes texts only where "
     "its vocab_size is 256 or its run has data.format: bytes",
     INTO(bytes)},
    {"--logprobs", NULL, NULL, "with --texts: each token's log-probability, too", INTO(logprobs)},
    {"--resume", NULL, NULL, "continue OUT.jsonl as generate does", INTO(resume)},
    {"--shard", NULL, "I/N", "take only part I of N of the lines, I from 0, as one of N jobs",
     .take = take_part, INTO(part)},
    {.name = NULL}};
#undef INTO

int sw_score_arguments(int argc, char **argv, struct sw_score_options *out, struct sw_error *err)
{
    *out = (struct sw_score_options){.part = {0, 1}};
    struct sw_command_line line = {.tool = "runner",
                                   .command = "score",
                                   .options = sw_score_rows,
                                   .to = out,
                                   .plan = &out->plan_path,
                                   .most_files = INT32_MAX - 1};
    const int status = sw_arguments_parse(argc, argv, &line, err);
    if (status != 0)
        return status;
    out->files = line.files;
    out->file_count = line.file_count;
    if (out->checkpoint == NULL)
        return sw_fail(err, SW_BAD_INPUT, "score needs --checkpoint DIR");
    if ((out->file_count == 0) == (out->texts_path == NULL))
        return sw_fail(err, SW_BAD_INPUT, "score needs files, or --texts FILE");
    if (out->texts_path == NULL &&
        (out->out_path != NULL || out->logprobs || out->logprob_diff_path != NULL || out->resume ||
         out->part[1] > 1))
        return sw_fail(err, SW_BAD_INPUT,
                       "-o, --logprobs, --against, --resume and --shard go with --texts FILE");
    if (out->texts_path != NULL && out->json)
        return sw_fail(err, SW_BAD_INPUT, "--texts writes lines of JSON; --json is about files");
    if (out->resume && out->out_path == NULL)
        return sw_fail(err, SW_BAD_INPUT, "--resume continues a file: it needs -o");
    if (out->resume && out->logprob_diff_path != NULL)
        return sw_fail(err, SW_BAD_INPUT,
                       "--against is about all texts; a file that is continued has some already");
    return 0;
}
