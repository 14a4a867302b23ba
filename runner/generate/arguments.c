#include "runner/generate/arguments.h"

#include "runner/generate/lines.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int wrong(const char **problem, const char **which, const char *what, const char *argument)
{
    *problem = what;
    *which = argument;
    return -1;
}

/* Whether the argument is the field's name with dashes: "--top-k". */
static bool is_option_of(const char *argument, const char *name)
{
    if (strncmp(argument, "--", 2) != 0)
        return false;
    argument += 2;
    for (; *name != '\0' && *argument == (*name == '_' ? '-' : *name); name++)
        argument++;
    return *name == '\0' && *argument == '\0';
}

static double parse_number(const char *text)
{
    char *end;
    errno = 0;
    const double value = strtod(text, &end);
    return end == text || *end != '\0' || errno != 0 ? (double)NAN : value;
}

/* 1: it is one of the wish's options; 0: it is not; -1. */
static int take_wish(int argc, char **argv, int *i, struct sw_wish *wish, char text[160],
                     const char **problem, const char **which)
{
    const struct sw_wish_field *field = sw_wish_fields;
    while (field->name != NULL && !is_option_of(argv[*i], field->name))
        field++;
    if (field->name == NULL)
        return 0;
    if (*i + 1 == argc)
        return wrong(problem, which, argv[*i], " needs a number");
    if (sw_wish_set(wish, field, parse_number(argv[++*i]), text) != 0)
        return wrong(problem, which, text, "");
    return 1;
}

static int take_text(int argc, char **argv, int *i, const char **to, const char **problem,
                     const char **which)
{
    if (*i + 1 == argc)
        return wrong(problem, which, argv[*i], " needs a value");
    *to = argv[++*i];
    return 0;
}

static int take_top(int argc, char **argv, int *i, int32_t *top, const char **problem,
                    const char **which)
{
    const char *text = NULL;
    _Static_assert(SW_TOP_TOKENS == 20, "what the message says");
    if (take_text(argc, argv, i, &text, problem, which) != 0)
        return -1;
    const double count = parse_number(text);
    if (!(count >= 0 && count <= SW_TOP_TOKENS && floor(count) == count))
        return wrong(problem, which, "--top-logprobs is a whole number from 0 to 20, not ", text);
    *top = (int32_t)count;
    return 0;
}

/* "I/N" behind --shard. */
static int take_part(int argc, char **argv, int *i, int64_t *part, int64_t *parts,
                     const char **problem, const char **which)
{
    const char *text = NULL;
    if (take_text(argc, argv, i, &text, problem, which) != 0)
        return -1;
    return sw_lines_parse_part(text, part, parts) == 0
               ? 0
               : wrong(problem, which, "--shard needs I/N, as in 0/8: part I of N, from 0, not ",
                       text);
}

int sw_generate_arguments(int argc, char **argv, struct sw_generate_options *out, char text[160],
                          const char **problem, const char **which)
{
    const struct {
        const char *name;
        const char **to;
    } texts[] = {{"--checkpoint", &out->checkpoint},
                 {"--prompt", &out->prompt},
                 {"--prompts", &out->prompts_path},
                 {"-o", &out->out_path}};
    enum { TEXTS = sizeof texts / sizeof texts[0] };
    *out = (struct sw_generate_options){.wish = sw_wish_default(), .parts = 1};
    for (int i = 2; i < argc; i++) {
        size_t t = 0;
        const char *stop = NULL;
        while (t < TEXTS && strcmp(argv[i], texts[t].name) != 0)
            t++;
        const int taken =
            t < TEXTS ? 0 : take_wish(argc, argv, &i, &out->wish, text, problem, which);
        if (taken < 0)
            return -1;
        if (t < TEXTS) {
            if (take_text(argc, argv, &i, texts[t].to, problem, which) != 0)
                return -1;
        } else if (taken > 0) {
            continue;
        } else if (strcmp(argv[i], "--bytes") == 0) {
            out->bytes = true;
        } else if (strcmp(argv[i], "--logprobs") == 0) {
            out->logprobs = true;
        } else if (strcmp(argv[i], "--top-logprobs") == 0) {
            if (take_top(argc, argv, &i, &out->top, problem, which) != 0)
                return -1;
        } else if (strcmp(argv[i], "--resume") == 0) {
            out->resume = true;
        } else if (strcmp(argv[i], "--shard") == 0) {
            if (take_part(argc, argv, &i, &out->part, &out->parts, problem, which) != 0)
                return -1;
        } else if (strcmp(argv[i], "--stop") == 0) {
            if (take_text(argc, argv, &i, &stop, problem, which) != 0)
                return -1;
            if (*stop == '\0' || sw_stops_add(&out->stops, stop) != 0)
                return wrong(problem, which, "--stop needs a text that is not empty", "");
        } else if (argv[i][0] == '-') {
            return wrong(problem, which, "unknown option ", argv[i]);
        } else if (out->plan_path != NULL) {
            return wrong(problem, which, "one plan at a time, not also ", argv[i]);
        } else {
            out->plan_path = argv[i];
        }
    }
    if (out->plan_path == NULL || *out->plan_path == '\0')
        return wrong(problem, which, "generate needs a plan file", "");
    if (out->checkpoint == NULL || *out->checkpoint == '\0')
        return wrong(problem, which, "generate needs --checkpoint DIR", "");
    if ((out->prompt == NULL) == (out->prompts_path == NULL))
        return wrong(problem, which, "generate needs --prompt TEXT or --prompts FILE, one of them",
                     "");
    if (out->resume && (out->out_path == NULL || out->prompts_path == NULL))
        return wrong(problem, which, "--resume goes on with a file: it needs --prompts and -o", "");
    if (out->parts > 1 && out->prompts_path == NULL)
        return wrong(problem, which, "--shard is a part of --prompts FILE", "");
    return 0;
}

int sw_score_arguments(int argc, char **argv, struct sw_score_options *out, char **files,
                       const char **problem, const char **which)
{
    const struct {
        const char *name;
        const char **to;
    } texts[] = {
        {"--checkpoint", &out->checkpoint}, {"--texts", &out->texts_path}, {"-o", &out->out_path}};
    enum { TEXTS = sizeof texts / sizeof texts[0] };
    *out = (struct sw_score_options){.files = files, .parts = 1};
    for (int i = 2; i < argc; i++) {
        size_t t = 0;
        while (t < TEXTS && strcmp(argv[i], texts[t].name) != 0)
            t++;
        if (t < TEXTS) {
            if (take_text(argc, argv, &i, texts[t].to, problem, which) != 0)
                return -1;
        } else if (strcmp(argv[i], "--json") == 0) {
            out->json = true;
        } else if (strcmp(argv[i], "--bytes") == 0) {
            out->bytes = true;
        } else if (strcmp(argv[i], "--logprobs") == 0) {
            out->logprobs = true;
        } else if (strcmp(argv[i], "--resume") == 0) {
            out->resume = true;
        } else if (strcmp(argv[i], "--shard") == 0) {
            if (take_part(argc, argv, &i, &out->part, &out->parts, problem, which) != 0)
                return -1;
        } else if (argv[i][0] == '-') {
            return wrong(problem, which, "unknown option ", argv[i]);
        } else if (out->plan_path == NULL) {
            out->plan_path = argv[i];
        } else {
            files[out->file_count++] = argv[i];
        }
    }
    if (out->plan_path == NULL || *out->plan_path == '\0')
        return wrong(problem, which, "score needs a plan file", "");
    if (out->checkpoint == NULL || *out->checkpoint == '\0')
        return wrong(problem, which, "score needs --checkpoint DIR", "");
    if ((out->file_count == 0) == (out->texts_path == NULL))
        return wrong(problem, which, "score needs files, or --texts FILE", "");
    if (out->texts_path == NULL &&
        (out->out_path != NULL || out->logprobs || out->resume || out->parts > 1))
        return wrong(problem, which, "-o, --logprobs, --resume and --shard go with --texts FILE",
                     "");
    if (out->texts_path != NULL && out->json)
        return wrong(problem, which, "--texts writes lines of JSON; --json is about files", "");
    if (out->resume && out->out_path == NULL)
        return wrong(problem, which, "--resume goes on with a file: it needs -o", "");
    return 0;
}
