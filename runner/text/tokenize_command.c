#include "runner/text/tokenize_command.h"

#include "runner/text/tokenize_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SEE "; see 'runner tokenize --help'"

struct arguments {
    bool bytes, parses_special;
    const char *tokenizer; /* NULL: none is named */
    const char *end;       /* NULL: the tokenizer's own */
    const char **path;     /* the inputs, then the output */
    int32_t paths;
};

static int fail_usage(struct sw_error *err)
{
    return sw_fail(err, SW_BAD_INPUT,
                   "tokenize takes --bytes or --tokenizer FILE, then IN... OUT.bin" SEE);
}

static int read_arguments(int argc, char **argv, struct arguments *a, struct sw_error *err)
{
    for (int i = 2; i < argc; i++) {
        const bool takes_value =
            strcmp(argv[i], "--tokenizer") == 0 || strcmp(argv[i], "--end") == 0;
        if (takes_value && (i + 1 == argc || *argv[i + 1] == '\0'))
            return sw_fail(err, SW_BAD_INPUT, "%s needs a value" SEE, argv[i]);
        if (strcmp(argv[i], "--tokenizer") == 0)
            a->tokenizer = argv[++i];
        else if (strcmp(argv[i], "--end") == 0)
            a->end = argv[++i];
        else if (strcmp(argv[i], "--bytes") == 0)
            a->bytes = true;
        else if (strcmp(argv[i], "--parse-special") == 0)
            a->parses_special = true;
        else if (argv[i][0] == '-')
            return sw_fail(err, SW_BAD_INPUT, "unknown option %.200s" SEE, argv[i]);
        else if (*argv[i] == '\0')
            return fail_usage(err);
        else
            a->path[a->paths++] = argv[i];
    }
    if (a->bytes == (a->tokenizer != NULL) || a->paths < 2)
        return fail_usage(err);
    if (a->bytes && (a->end != NULL || a->parses_special))
        return sw_fail(err, SW_BAD_INPUT, "bytes have no special tokens; leave out %s" SEE,
                       a->end != NULL ? "--end" : "--parse-special");
    return 0;
}

static int open_tokenizer(const struct arguments *a, struct sw_tokenizer **out,
                          struct sw_error *err)
{
    struct stat info;
    if (a->bytes)
        return sw_tokenizer_bytes(out, err);
    if (stat(a->tokenizer, &info) != 0 || !S_ISDIR(info.st_mode))
        return sw_tokenizer_open(a->tokenizer, out, err);
    if (sw_tokenizer_open_folder(a->tokenizer, out, err) != 0)
        return -1;
    if (!sw_tokenizer_is_bytes(*out))
        return 0;
    sw_tokenizer_free(*out);
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = a->tokenizer},
                      "the folder has no tokenizer.json; use --bytes for bytes");
}

/* The token between documents: the one that was asked for, or the tokenizer's own. */
static int choose_end(const struct arguments *a, const struct sw_tokenizer *t, int32_t *end,
                      struct sw_error *err)
{
    size_t count;
    const int32_t *eos = sw_tokenizer_eos(t, &count);
    *end = count > 0 ? eos[0] : -1;
    if (a->end == NULL)
        return 0;
    *end = strcmp(a->end, "none") == 0 ? -1 : sw_tokenizer_id(t, a->end, strlen(a->end));
    if (*end < 0 && strcmp(a->end, "none") != 0)
        return sw_fail(err, SW_BAD_INPUT, "--end: the tokenizer has no token '%.200s'", a->end);
    return 0;
}

static void report(const struct arguments *a, const struct sw_tokenizer *t, int32_t end,
                   const struct sw_tokenize_counts *c)
{
    fprintf(stderr,
            "%s: %" PRId64 " tokens of %" PRId64
            " document%s, %.2f bytes each; for a vocab_size of "
            "%" PRId32 " or more\n",
            a->path[a->paths - 1], c->tokens, c->documents, c->documents == 1 ? "" : "s",
            (double)c->bytes / (double)(c->tokens > 0 ? c->tokens : 1), sw_tokenizer_size(t));
    if (end < 0 && c->documents > 1)
        fprintf(stderr, "note: no token ends a document; name one with --end\n");
}

static int run(const struct arguments *a, struct sw_error *err)
{
    struct sw_tokenizer *t;
    struct sw_tokenize_options options = {.end = -1, .parses_special = a->parses_special};
    struct sw_tokenize_counts counts;
    if (open_tokenizer(a, &t, err) != 0)
        return -1;
    int status = choose_end(a, t, &options.end, err);
    if (status == 0)
        status = sw_tokenize_files(t, a->path, a->paths - 1, a->path[a->paths - 1], &options,
                                   &counts, err);
    if (status == 0 && !a->bytes)
        report(a, t, options.end, &counts);
    sw_tokenizer_free(t);
    return status;
}

int sw_tokenize_command(int argc, char **argv, struct sw_error *err)
{
    struct arguments a = {.path = malloc((size_t)argc * sizeof *a.path)};
    if (a.path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory");
    int status = read_arguments(argc, argv, &a, err);
    if (status == 0)
        status = run(&a, err);
    free(a.path);
    return status;
}
