#include "runner/data_command.h"

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/tokenizer_file.h"
#include "core/plan/data_file.h"
#include "runner/generate/codec.h"
#include "runner/train/run_data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SETTINGS = 64, SHOWN_ROWS = 2 };

struct arguments {
    const char *path;
    int64_t step, rows; /* rows -1: not given */
    const char *stage;  /* NULL: the first */
    bool json;
    struct sw_override setting[MAX_SETTINGS];
    int32_t settings;
};

struct look {
    const struct arguments *arguments;
    const struct sw_run_config *run;
    struct sw_dataset *data, *validation; /* validation NULL: none */
    struct sw_codec *codec;
    int32_t *room; /* [4, sequence_length] */
};

/* ---- Arguments ---- */

static int take_setting(const struct sw_argument *row, void *to, const char *value,
                        struct sw_error *err)
{
    struct arguments *a = to;
    (void)row;
    if (a->settings == MAX_SETTINGS)
        return sw_fail(err, SW_BAD_INPUT, "more than %d of --set", MAX_SETTINGS);
    a->setting[a->settings++] = (struct sw_override){value};
    return 0;
}

#define INTO(member) SW_ARGUMENT_TO(struct arguments, member)
const struct sw_argument sw_data_rows[] = {
    {"--step", NULL, "N", "the step whose batch is shown (default: 1)", .least = 1, INTO(step)},
    {"--rows", NULL, "N", "rows of it that are shown (default: 2; with --json all of its batch)",
     INTO(rows)},
    {"--stage", NULL, "NAME", "the stage of a run with stages (default: the first)", INTO(stage)},
    {"--set", NULL, "KEY=VALUE", "another value for a key of the run; may be repeated",
     .take = take_setting},
    {"--json", NULL, NULL, "JSON instead of text", INTO(json)},
    {.name = NULL}};
#undef INTO

static int parse(int argc, char **argv, struct arguments *out, struct sw_error *err)
{
    struct sw_command_line line = {
        .tool = "runner", .command = "data", .options = sw_data_rows, .to = out, .most_files = 1};
    if (sw_arguments_parse(argc, argv, &line, err) != 0)
        return -1;
    if (line.file_count == 0) {
        sw_fail(err, SW_BAD_INPUT, "data takes RUN.yaml or NAME.plan.yaml");
        return sw_arguments_hint("runner", "data", err);
    }
    out->path = line.files[0];
    return 0;
}

/* ---- Opening ---- */

/* Finds the stage of that name; NULL after printing an error. */
static const struct sw_run_config *find_stage(const struct sw_config *config, const char *stage)
{
    const int32_t count = sw_config_stage_count(config);
    for (int32_t i = 0; i < count; i++)
        if (strcmp(sw_config_stage(config, i)->stage.name, stage) == 0)
            return sw_config_stage(config, i);
    fprintf(stderr, "runner: error: the run has no stage '%.64s'%s%s\n", stage,
            count > 0 ? "; the first is " : "",
            count > 0 ? sw_config_stage(config, 0)->stage.name : "");
    return NULL;
}

/* Reads the run from its file or a plan; NULL after printing an error. */
static const struct sw_run_config *read_run(const struct sw_config *config, const char *stage)
{
    const bool colour = isatty(STDERR_FILENO) && getenv("NO_COLOR") == NULL;
    for (int32_t i = 0; i < sw_config_diagnostic_count(config); i++)
        if (sw_config_error_count(config) > 0 && !sw_config_diagnostic(config, i)->is_note)
            sw_diagnostic_print(stderr, sw_config_diagnostic(config, i), colour);
    if (sw_config_error_count(config) > 0)
        return NULL;
    return stage != NULL ? find_stage(config, stage) : sw_config_run(config);
}

static int open_codec(struct look *l, struct sw_error *err)
{
    const struct sw_run_config *run = l->run;
    char *beside = run->model.path != NULL ? sw_path_folder(run->model.path) : NULL;
    const bool has = beside != NULL && sw_tokenizer_file(beside) != NULL;
    const struct sw_codec_model model = {.folder = run->init_from != NULL ? run->init_from
                                                   : has                  ? beside
                                                                          : "",
                                         .vocab_size = run->model.shape.vocab_size,
                                         .was_bytes = sw_data_is_bytes(run)};
    const int status = sw_codec_open(&model, &l->codec, err);
    free(beside);
    return status;
}

static int open_look(struct look *l, struct sw_error *err)
{
    const struct sw_run_config *run = l->run;
    if (run->data_path == NULL)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = l->arguments->path},
                          "the run names no data; add data: {path: FILE}");
    l->room = calloc(4 * (size_t)run->sequence_length, sizeof *l->room);
    if (l->room == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
    if (sw_data_check(run, err) != 0 ||
        sw_run_data_open(run, &run->data_paths, run->data_holdout, &l->data, err) != 0)
        return -1;
    if (run->data_validation.count > 0 &&
        sw_run_data_open(run, &run->data_validation, 1, &l->validation, err) != 0)
        return -1;
    return open_codec(l, err);
}

static void close_look(struct look *l)
{
    sw_dataset_close(l->data);
    sw_dataset_close(l->validation);
    sw_codec_free(l->codec);
    free(l->room);
}

/* ---- Facts ---- */

struct lengths {
    int64_t documents, tokens, shortest, median, longest; /* documents 0: no index */
};

static int by_size(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Measures all documents with at least one token. */
static int measure(const struct look *l, struct lengths *out, struct sw_error *err)
{
    int64_t count = 0, n = 0;
    *out = (struct lengths){0};
    for (int32_t i = 0; i < sw_dataset_sources(l->data); i++)
        count += sw_tokens_documents(sw_dataset_tokens(l->data, i));
    int64_t *length = calloc((size_t)count + 1, sizeof *length);
    if (length == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
    for (int32_t i = 0; i < sw_dataset_sources(l->data); i++) {
        const struct sw_tokens *tokens = sw_dataset_tokens(l->data, i);
        for (int64_t d = 0; d < sw_tokens_documents(tokens); d++) {
            length[n] = sw_tokens_document(tokens, d, NULL);
            out->tokens += length[n];
            n += length[n] > 0;
        }
    }
    qsort(length, (size_t)n, sizeof *length, by_size);
    out->documents = n;
    out->shortest = n > 0 ? length[0] : 0;
    out->median = n > 0 ? length[n / 2] : 0;
    out->longest = n > 0 ? length[n - 1] : 0;
    free(length);
    return 0;
}

static int64_t first_row(const struct look *l)
{
    return (l->arguments->step - 1) * l->run->global_batch_size;
}

static struct sw_row room_of(const struct look *l)
{
    const int64_t s = l->run->sequence_length;
    return (struct sw_row){l->room, l->room + s, l->room + 2 * s, l->room + 3 * s};
}

static double fill_of(const struct look *l, const struct sw_packing_sums *sums, int64_t rows)
{
    return (double)sums->tokens / ((double)rows * (double)l->run->sequence_length);
}

/* ---- As text ---- */

/* Prints a token's bytes without terminal control characters. */
static void print_token(const struct look *l, int32_t token)
{
    size_t bytes = 0;
    const char *text = sw_codec_can_read(l->codec) ? sw_codec_bytes(l->codec, token, &bytes) : NULL;
    if (text == NULL)
        printf(" %" PRId32, token);
    for (size_t i = 0; text != NULL && i < bytes; i++)
        if (text[i] == '\n')
            fputs("\\n", stdout);
        else if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            printf("\\x%02x", (unsigned)(unsigned char)text[i]);
        else
            putchar(text[i]);
}

/* True if only padding follows from position i. */
static bool is_padding(const struct look *l, const struct sw_row *row, int64_t i)
{
    const int64_t s = l->run->sequence_length;
    for (int64_t k = i; k < s; k++)
        if (row->tokens[k] != 0 || row->positions[k] != 0 || row->labels[k] >= 0)
            return false;
    return l->run->data_pack;
}

/* Prints a line per document; [[ ]] marks tokens counted as labels, the last of which may lie
 * behind the row. */
static void print_row(const struct look *l, const struct sw_row *row)
{
    const int64_t s = l->run->sequence_length;
    bool open = false;
    for (int64_t i = 0; i <= s; i++) {
        const bool counts = i > 0 && row->labels[i - 1] >= 0;
        const bool begins = i == 0 || (i < s && row->segments[i] != row->segments[i - 1]);
        if (open && (begins || !counts))
            fputs("]]", stdout);
        open = open && !begins && counts;
        if (i == s && !counts)
            break;
        if (begins)
            printf("%s    ", i > 0 ? "\n" : "");
        if (begins && is_padding(l, row, i)) {
            printf("(%" PRId64 " positions of padding)", s - i);
            break;
        }
        if (counts && !open)
            fputs("[[", stdout);
        open = counts;
        print_token(l, i < s ? row->tokens[i] : row->labels[s - 1]);
    }
    puts(open ? "]]" : "");
}

static void print_sources(const struct look *l, const struct sw_dataset *data, const char *what)
{
    for (int32_t i = 0; i < sw_dataset_sources(data); i++) {
        const struct sw_tokens *tokens = sw_dataset_tokens(data, i);
        for (int32_t f = 0; f < sw_tokens_files(tokens); f++) {
            const struct sw_tokens_file file = sw_tokens_file(tokens, f);
            printf("%s %s: %" PRId64 " tokens", what, file.path, file.tokens);
            if (file.indexed)
                printf(" in %" PRId64 " documents, %" PRId64 " labels count%s", file.documents,
                       file.labels, file.masked ? "" : " (all)");
            if (sw_dataset_sources(data) > 1)
                printf(", source %" PRId32 " of weight %g", i + 1, l->run->data_weights.item[i]);
            putchar('\n');
        }
    }
}

static int print_rows(const struct look *l, struct sw_error *err)
{
    const int64_t batch = l->run->global_batch_size, s = l->run->sequence_length;
    const int64_t first = first_row(l), wanted = l->arguments->rows;
    const int64_t counted = sw_dataset_train_counted(l->data, first, batch);
    const struct sw_row row = room_of(l);
    printf("step %" PRId64 ": %" PRId64 " of %" PRId64 " labels count (%.1f %%)%s\n",
           l->arguments->step, counted, batch * s,
           100 * (double)counted / ((double)batch * (double)s),
           counted == 0 ? ": it changes nothing" : "");
    for (int64_t r = 0; r < batch && r < (wanted < 0 ? SHOWN_ROWS : wanted); r++) {
        if (sw_dataset_train(l->data, first + r, &row, err) != 0)
            return -1;
        int64_t labels = 0;
        for (int64_t i = 0; i < s; i++)
            labels += row.labels[i] >= 0;
        printf("row %" PRId64, first + r);
        if (sw_dataset_sources(l->data) > 1)
            printf(" of source %" PRId32, sw_dataset_train_source(l->data, first + r) + 1);
        printf(": %" PRId64 " labels count, those in [[ ]]\n", labels);
        print_row(l, &row);
    }
    return 0;
}

static int print(const struct look *l, const struct lengths *lengths, struct sw_error *err)
{
    int64_t rows;
    const struct sw_packing_sums sums = sw_dataset_sums(l->data, &rows);
    print_sources(l, l->data, "train on");
    if (l->validation != NULL)
        print_sources(l, l->validation, "evaluate");
    const struct sw_dataset *held = l->validation != NULL ? l->validation : l->data;
    if (lengths->documents > 0)
        printf("documents of %" PRId64 " to %" PRId64 " tokens, median %" PRId64 ", mean %.1f\n",
               lengths->shortest, lengths->longest, lengths->median,
               (double)lengths->tokens / (double)lengths->documents);
    if (rows > 0)
        printf("packed: %" PRId64 " documents in %" PRId64 " rows an epoch, %.1f %% full; %" PRId64
               " cut, by %" PRId64 " tokens\n",
               sums.documents, rows, 100 * fill_of(l, &sums, rows), sums.cut_documents,
               sums.cut_tokens);
    if (sw_dataset_holdout_labels(held) > 0)
        printf("held out: %" PRId64 " labels in %" PRId64 " rows\n",
               sw_dataset_holdout_labels(held), sw_dataset_holdout_sequences(held));
    if (!sw_codec_can_read(l->codec))
        printf("no tokenizer in init.from or beside the model: tokens are shown as numbers\n");
    return print_rows(l, err);
}

/* ---- As JSON ---- */

static void write_sources(const struct look *l, struct sw_json *j, const struct sw_dataset *data,
                          bool weighted)
{
    for (int32_t i = 0; i < sw_dataset_sources(data); i++) {
        const struct sw_tokens *tokens = sw_dataset_tokens(data, i);
        sw_json_object(j, NULL);
        if (weighted && sw_dataset_sources(data) > 1)
            sw_json_number(j, "weight", l->run->data_weights.item[i]);
        else
            sw_json_null(j, "weight");
        sw_json_array(j, "files");
        for (int32_t f = 0; f < sw_tokens_files(tokens); f++) {
            const struct sw_tokens_file file = sw_tokens_file(tokens, f);
            sw_json_object(j, NULL);
            sw_json_text(j, "path", file.path);
            sw_json_integer(j, "tokens", file.tokens);
            sw_json_bool(j, "indexed", file.indexed);
            sw_json_integer(j, "documents", file.documents);
            sw_json_integer(j, "labels", file.labels);
            sw_json_end(j);
        }
        sw_json_end(j);
        sw_json_end(j);
    }
}

static void write_numbers(struct sw_json *j, const char *key, const int32_t *number, int64_t count)
{
    sw_json_array(j, key);
    for (int64_t i = 0; i < count; i++)
        sw_json_integer(j, NULL, number[i]);
    sw_json_end(j);
}

static int write_rows(const struct look *l, struct sw_json *j, struct sw_error *err)
{
    const int64_t s = l->run->sequence_length, batch = l->run->global_batch_size;
    const int64_t first = first_row(l), wanted = l->arguments->rows;
    const struct sw_row row = room_of(l);
    int status = 0;
    sw_json_array(j, "rows");
    for (int64_t r = 0; status == 0 && r < batch && (wanted < 0 || r < wanted); r++) {
        status = sw_dataset_train(l->data, first + r, &row, err);
        sw_json_object(j, NULL);
        sw_json_integer(j, "row", first + r);
        sw_json_integer(j, "source", sw_dataset_train_source(l->data, first + r));
        write_numbers(j, "tokens", row.tokens, s);
        write_numbers(j, "labels", row.labels, s);
        write_numbers(j, "segments", row.segments, s);
        write_numbers(j, "positions", row.positions, s);
        sw_json_end(j);
    }
    sw_json_end(j);
    return status;
}

static int write_all(const struct look *l, const struct lengths *lengths, struct sw_error *err)
{
    struct sw_json j = {.out = stdout, .style = SW_JSON_LINE};
    const struct sw_dataset *held = l->validation != NULL ? l->validation : l->data;
    int64_t rows;
    const struct sw_packing_sums sums = sw_dataset_sums(l->data, &rows);
    sw_json_object(&j, NULL);
    sw_json_text(&j, "schema", "shardwright.data/1");
    sw_json_text(&j, "run", l->run->name);
    sw_json_integer(&j, "sequence_length", l->run->sequence_length);
    sw_json_integer(&j, "global_batch_size", l->run->global_batch_size);
    sw_json_array(&j, "sources");
    write_sources(l, &j, l->data, true);
    sw_json_end(&j);
    sw_json_array(&j, "validation");
    if (l->validation != NULL)
        write_sources(l, &j, l->validation, false);
    sw_json_end(&j);
    sw_json_object(&j, "documents");
    sw_json_integer(&j, "count", lengths->documents);
    sw_json_integer(&j, "shortest", lengths->shortest);
    sw_json_integer(&j, "median", lengths->median);
    sw_json_integer(&j, "longest", lengths->longest);
    sw_json_end(&j);
    if (rows > 0) {
        sw_json_object(&j, "packed");
        sw_json_integer(&j, "documents", sums.documents);
        sw_json_integer(&j, "rows", rows);
        sw_json_digits(&j, "fill", fill_of(l, &sums, rows), 9);
        sw_json_integer(&j, "cut_documents", sums.cut_documents);
        sw_json_integer(&j, "cut_tokens", sums.cut_tokens);
        sw_json_end(&j);
    } else {
        sw_json_null(&j, "packed");
    }
    sw_json_integer(&j, "held_out_rows", sw_dataset_holdout_sequences(held));
    sw_json_integer(&j, "held_out_labels", sw_dataset_holdout_labels(held));
    sw_json_integer(&j, "step", l->arguments->step);
    sw_json_integer(&j, "labels",
                    sw_dataset_train_counted(l->data, first_row(l), l->run->global_batch_size));
    const int status = write_rows(l, &j, err);
    sw_json_end(&j);
    putchar('\n');
    return status;
}

int sw_data_command(int argc, char **argv, struct sw_error *err)
{
    struct arguments a = {.step = 1, .rows = -1};
    struct lengths lengths;
    if (parse(argc, argv, &a, err) != 0)
        return -1;
    struct sw_config *config =
        sw_config_read(a.path, SW_CONFIG_UNKNOWN, NULL, a.setting, a.settings, err);
    struct look l = {.arguments = &a, .run = config != NULL ? read_run(config, a.stage) : NULL};
    int status = config == NULL ? -1 : 0;
    if (status == 0 && l.run == NULL)
        status = sw_config_error_count(config) > 0 || a.stage != NULL
                     ? SW_BAD_INPUT
                     : sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = a.path},
                                  "holds no run; name RUN.yaml or NAME.plan.yaml");
    if (status == 0)
        status = open_look(&l, err);
    if (status == 0)
        status = measure(&l, &lengths, err);
    if (status == 0)
        status = a.json ? write_all(&l, &lengths, err) : print(&l, &lengths, err);
    close_look(&l);
    sw_config_free(config);
    if (status == 0 && (fflush(stdout) != 0 || ferror(stdout)))
        return sw_fail(err, SW_ENVIRONMENT, "cannot write the output: %s", strerror(errno));
    return status;
}
