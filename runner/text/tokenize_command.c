#include "runner/text/tokenize_command.h"

#include "core/base/file.h"
#include "core/plan/data_file.h"
#include "runner/text/tokenize_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct arguments {
    bool bytes, parses_special, lines;
    const char *tokenizer;     /* NULL: not given */
    const char *end;           /* NULL: the tokenizer's own */
    const char *chat_template; /* NULL: the model's own */
    char **path;               /* the inputs, then the output */
    int32_t paths;
};

#define INTO(member) SW_ARGUMENT_TO(struct arguments, member)
const struct sw_argument sw_tokenize_rows[] = {
    {"--tokenizer", NULL, "FILE|DIR",
     "a tokenizer.json, or the folder of a model that has one; a file is a document, of NAME.jsonl "
     "each line, {\"text\": \"...\"} or {\"messages\": [...]}, of which the index marks what "
     "the assistant says",
     INTO(tokenizer)},
    {"--chat-template", NULL, "NAME",
     "for messages: llama-3, chatml or mistral, or none, to refuse them (default: the model's own; "
     "without one, by its special tokens)",
     INTO(chat_template)},
    {"--end", NULL, "TOKEN|none",
     "the token behind each text (default: the first eos_token_id of generation_config.json, "
     "or "
     "of config.json, or the eos_token of tokenizer_config.json beside the tokenizer)",
     INTO(end)},
    {"--bytes", NULL, NULL, "each byte is a token", INTO(bytes)},
    {"--jsonl", NULL, NULL, "each input is JSONL, whatever its name", INTO(lines)},
    {"--parse-special", NULL, NULL, "special tokens in a text are tokens, not plain text",
     INTO(parses_special)},
    {.name = NULL}};
#undef INTO

static int parse(int argc, char **argv, struct arguments *a, struct sw_error *err)
{
    struct sw_command_line line = {.tool = "runner",
                                   .command = "tokenize",
                                   .options = sw_tokenize_rows,
                                   .to = a,
                                   .most_files = INT32_MAX};
    const int status = sw_arguments_parse(argc, argv, &line, err);
    bool empty = false;
    if (status != 0)
        return status;
    a->path = line.files;
    a->paths = line.file_count;
    for (int32_t i = 0; i < a->paths; i++)
        empty |= *a->path[i] == '\0';
    if (empty || a->bytes == (a->tokenizer != NULL) || a->paths < 2) {
        sw_fail(err, SW_BAD_INPUT,
                "tokenize takes --bytes or --tokenizer FILE, then IN... OUT.bin");
        return sw_arguments_hint("runner", "tokenize", err);
    }
    if (a->bytes && (a->end != NULL || a->parses_special))
        return sw_fail(err, SW_BAD_INPUT, "bytes have no special tokens; leave out %s",
                       a->end != NULL ? "--end" : "--parse-special");
    if (a->bytes && (a->lines || a->chat_template != NULL))
        return sw_fail(err, SW_BAD_INPUT, "with --bytes a file is only its bytes; leave out %s",
                       a->lines ? "--jsonl" : "--chat-template");
    /* without OUT.bin the last text would be overwritten */
    const char *out = a->path[a->paths - 1];
    if (!sw_data_names_tokens(out))
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = out},
                          "tokens are not written to a file of this name; give a NAME.bin last, "
                          "which the runner reads as tokens");
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

/* Chooses the token between documents: the requested one, or the tokenizer's own. */
static int choose_end(const struct arguments *a, const struct sw_tokenizer *t, int32_t *end,
                      struct sw_error *err)
{
    size_t count;
    const int32_t *eos = sw_tokenizer_eos(t, &count);
    *end = -1;
    for (size_t i = 0; *end < 0 && i < count; i++)
        if (sw_tokenizer_token(t, eos[i], NULL) != NULL)
            *end = eos[i];
    if (a->end == NULL)
        return 0;
    *end = strcmp(a->end, "none") == 0 ? -1 : sw_tokenizer_id(t, a->end, strlen(a->end));
    if (*end < 0 && strcmp(a->end, "none") != 0)
        return sw_fail(err, SW_BAD_INPUT, "--end: the tokenizer has no token '%.200s'", a->end);
    return 0;
}

static void report_labels(const char *to, const struct sw_tokenize_counts *c)
{
    const struct sw_token_counts *made = &c->made;
    if (c->conversations == 0)
        return;
    fprintf(stderr, "%s: %" PRId64 " of %" PRId64 " labels count", to, made->counted,
            made->tokens - made->documents);
    if (made->uncounted > 0)
        fprintf(stderr, "; %" PRId64 " document%s none that do%s", made->uncounted,
                made->uncounted == 1 ? " has" : "s have", made->uncounted == 1 ? "es" : "");
    fputc('\n', stderr);
    if (c->guessed != NULL)
        fprintf(stderr,
                "note: the model has no chat_template; conversations are written as '%s', by its "
                "special tokens; --chat-template NAME takes another\n",
                c->guessed);
}

static void report(const struct arguments *a, const struct sw_tokenizer *t, int32_t end,
                   const struct sw_tokenize_counts *c)
{
    const char *to = a->path[a->paths - 1];
    const int64_t tokens = c->made.tokens, texts = c->documents - c->conversations;
    fprintf(stderr,
            "%s: %" PRId64 " tokens of %" PRId64
            " document%s, %.2f bytes each; for a vocab_size of "
            "%" PRId32 " or more\n",
            to, tokens, c->documents, c->documents == 1 ? "" : "s",
            (double)c->bytes / (double)(tokens > 0 ? tokens : 1), sw_tokenizer_size(t));
    report_labels(to, c);
    if (c->foreign > 0)
        fprintf(stderr,
                "note: %" PRId64 " byte%s no UTF-8 and became U+FFFD; convert a text of another "
                "encoding first, as in 'iconv -f ISO-8859-1 -t UTF-8 OLD >NEW'\n",
                c->foreign, c->foreign == 1 ? " was" : "s were");
    for (int32_t i = 0; sw_tokenizer_note(t, i) != NULL; i++)
        fprintf(stderr, "%s\n", sw_tokenizer_note(t, i));
    if (end < 0 && texts > 1)
        fprintf(stderr, "note: no token ends a document; name one with --end\n");
}

/* The model's folder: --tokenizer, or the folder of that file. NULL: no memory. */
static char *folder_of(const char *tokenizer)
{
    struct stat info;
    const bool is_folder = stat(tokenizer, &info) == 0 && S_ISDIR(info.st_mode);
    return is_folder ? strdup(tokenizer) : sw_path_folder(tokenizer);
}

static int run(const struct arguments *a, struct sw_error *err)
{
    struct sw_tokenizer *t;
    struct sw_tokenize_options options = {.end = -1,
                                          .parses_special = a->parses_special,
                                          .lines = a->lines,
                                          .chat_template = a->chat_template,
                                          .tokenizer = a->tokenizer};
    struct sw_tokenize_counts counts;
    if (open_tokenizer(a, &t, err) != 0)
        return -1;
    int status = choose_end(a, t, &options.end, err);
    char *folder = a->bytes ? NULL : folder_of(a->tokenizer);
    options.folder = folder;
    if (status == 0 && !a->bytes && folder == NULL)
        status = sw_fail(err, SW_ENVIRONMENT, "out of memory for the tokenizer");
    if (status == 0)
        status = sw_tokenize_files(t, (const char *const *)a->path, a->paths - 1,
                                   a->path[a->paths - 1], &options, &counts, err);
    if (status == 0 && !a->bytes)
        report(a, t, options.end, &counts);
    free(folder);
    sw_tokenizer_free(t);
    return status;
}

int sw_tokenize_command(int argc, char **argv, struct sw_error *err)
{
    struct arguments a = {0};
    const int status = parse(argc, argv, &a, err);
    return status == 0 ? run(&a, err) : status;
}
