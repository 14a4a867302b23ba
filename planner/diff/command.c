/* `plan diff OLD NEW`: reads pairs, compares them, prints, and chooses the exit code: 0 no
 * difference, 4 a difference, 1 a condition failed or a new run fits nowhere. */
#include "core/base/file.h"
#include "core/base/text.h"
#include "planner/diff/diff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COMMENT_BYTES = 65536 }; /* GitHub's limit of a comment */

static void graver(int *status, int other)
{
    *status = other > *status ? other : *status;
}

static struct sw_diff_file *add_file(struct sw_diff *diff, const char *path, struct sw_error *err)
{
    struct sw_diff_file **grown =
        realloc(diff->file, (size_t)(diff->count + 1) * sizeof *diff->file);
    if (grown != NULL)
        diff->file = grown;
    struct sw_diff_file *file = grown == NULL ? NULL : calloc(1, sizeof *file);
    if (file != NULL)
        file->path = strdup(path);
    if (file == NULL || file->path == NULL) {
        free(file);
        sw_fail(err, SW_ENVIRONMENT, "out of memory while comparing");
        return NULL;
    }
    diff->file[diff->count++] = file;
    return file;
}

static void drop_last(struct sw_diff *diff)
{
    struct sw_diff_file *file = diff->file[--diff->count];
    sw_diff_file_free(file);
    free(file);
}

/* Asks for the account's remaining budgets of a changed run. */
static int ask_budgets(struct sw_diff *diff, struct sw_diff_file *file, struct sw_error *err)
{
    const struct sw_diff_side *side = &file->after;
    if (file->status == SW_DIFF_SAME || !side->fits)
        return 0;
    return sw_budgets_ask(&diff->source, side->run, &side->chosen, &file->budgets, err);
}

static void count_file(struct sw_diff *diff, const struct sw_diff_file *file)
{
    sw_diff_add_total(&diff->total, file);
    diff->changed += file->status == SW_DIFF_CHANGED;
    diff->added += file->status == SW_DIFF_ADDED;
    diff->removed += file->status == SW_DIFF_REMOVED;
    diff->failed += file->failed_count;
    diff->unmet = diff->unmet || file->unmet;
}

/* ---- Stages: each is compared as a run ---- */

struct staged {
    const char *path;                   /* shown */
    const char *name[2];                /* names in the files, old and new; NULL: none */
    const struct sw_diff_side *side[2]; /* sides as read */
    const struct sw_diff_reading *as;   /* [2] */
};

static bool has_stage(const struct sw_diff_side *side, const char *stage)
{
    for (int32_t i = 0; i < sw_diff_side_stages(side); i++)
        if (strcmp(sw_config_stage(side->config, i)->stage.name, stage) == 0)
            return true;
    return false;
}

/* Reads a stage of the sides that have it; NULL: the whole of a run without stages. */
static int read_stage(const struct staged *s, const char *stage, struct sw_diff_file *file)
{
    struct sw_diff_side *const out[2] = {&file->before, &file->after};
    bool has[2];
    int status = SW_OK;
    for (int32_t i = 0; i < 2; i++) {
        struct sw_diff_reading as = s->as[i];
        as.stage = stage;
        has[i] = s->name[i] != NULL && (stage != NULL ? has_stage(s->side[i], stage)
                                                      : sw_diff_side_stages(s->side[i]) == 0);
        if (has[i])
            graver(&status, sw_diff_side_read(s->name[i], &as, false, NULL, out[i]));
    }
    file->status = !has[0] ? SW_DIFF_ADDED : !has[1] ? SW_DIFF_REMOVED : SW_DIFF_CHANGED;
    return status;
}

static int diff_stage(struct sw_diff *diff, const struct staged *s, const char *stage,
                      const struct sw_diff_conditions *conditions)
{
    struct sw_error err = {0};
    char path[1024];
    if (stage != NULL)
        snprintf(path, sizeof path, "%.900s (stage %s)", s->path, stage);
    else
        snprintf(path, sizeof path, "%.900s", s->path);
    struct sw_diff_file *file = add_file(diff, path, &err);
    if (file == NULL)
        return sw_command_fail(&err);
    const int status = read_stage(s, stage, file);
    if (status != SW_OK)
        return status;
    if (sw_diff_file_compare(file, conditions, &err) != 0)
        return sw_command_fail(&err);
    count_file(diff, file);
    if (file->status == SW_DIFF_SAME && file->outcome_count == 0 && !file->unmet)
        drop_last(diff);
    return SW_OK;
}

/* Compares the new run's stages in order, then those that it lacks. */
static int diff_stages(struct sw_diff *diff, const struct staged *s,
                       const struct sw_diff_conditions *conditions)
{
    int status = SW_OK;
    for (int32_t k = 1; k >= 0; k--) {
        const struct sw_diff_side *side = s->side[k];
        if (s->name[k] != NULL && sw_diff_side_stages(side) == 0)
            graver(&status, diff_stage(diff, s, NULL, conditions));
        for (int32_t i = 0; s->name[k] != NULL && i < sw_diff_side_stages(side); i++) {
            const char *stage = sw_config_stage(side->config, i)->stage.name;
            if (k == 1 || s->name[1] == NULL || !has_stage(s->side[1], stage))
                graver(&status, diff_stage(diff, s, stage, conditions));
        }
    }
    return status;
}

/* Replaces the last file of the list by its stages. */
static int diff_staged(struct sw_diff *diff, const char *before, const char *after,
                       const struct sw_diff_reading as[2],
                       const struct sw_diff_conditions *conditions)
{
    struct sw_diff_file *file = diff->file[--diff->count];
    const struct staged s = {file->path, {before, after}, {&file->before, &file->after}, as};
    diff->is_directory = true; /* several files, of which changed ones are shown */
    const int status = diff_stages(diff, &s, conditions);
    sw_diff_file_free(file);
    free(file);
    return status;
}

static bool is_staged(const struct sw_diff_file *file)
{
    return sw_diff_side_stages(&file->before) + sw_diff_side_stages(&file->after) > 0;
}

/* Compares two files. */
static int diff_files(struct sw_diff *diff, const char *before, const char *after,
                      const struct sw_diff_reading as[2],
                      const struct sw_diff_conditions *conditions)
{
    struct sw_error err = {0};
    struct sw_diff_file *file = add_file(diff, after, &err);
    if (file == NULL)
        return sw_command_fail(&err);
    int status = sw_diff_side_read(before, &as[0], false, NULL, &file->before);
    graver(&status, sw_diff_side_read(after, &as[1], false, NULL, &file->after));
    if (status != SW_OK)
        return status;
    if (is_staged(file))
        return diff_staged(diff, before, after, as, conditions);
    file->status = SW_DIFF_CHANGED;
    if (sw_diff_file_compare(file, conditions, &err) != 0 || ask_budgets(diff, file, &err) != 0)
        return sw_command_fail(&err);
    count_file(diff, file);
    return SW_OK;
}

/* Notes a new file that is no YAML: it may be meant as a run, and nothing else reports it. */
static void note_unreadable(const struct sw_diff_file *file)
{
    const struct sw_config *config = file->after.config;
    if (config == NULL || sw_config_is_yaml(config) || sw_config_error_count(config) == 0)
        return;
    const struct sw_diagnostic *d = sw_config_diagnostic(config, 0);
    fprintf(stderr, "%s:%d:%d: note: %s; skipped\n", d->file, (int)d->line, (int)d->column,
            d->message);
}

/* Compares one pair of two folders; skips files that are neither runs nor plans on both sides,
 * since runs that name them include their contents. An unreadable old file counts as absent, so
 * that it can be repaired. */
static int diff_pair(struct sw_diff *diff, const struct sw_diff_pair *pair,
                     const struct sw_diff_reading as[2],
                     const struct sw_diff_conditions *conditions)
{
    struct sw_error err = {0};
    struct sw_diff_file *file = add_file(diff, pair->path, &err);
    bool no_old = true, no_new = true;
    if (file == NULL)
        return sw_command_fail(&err);
    if (pair->before != NULL) {
        const int status = sw_diff_side_read(pair->before, &as[0], true, &no_old, &file->before);
        if (status == SW_ENVIRONMENT)
            return status;
        if (status != SW_OK) {
            no_old = true;
            fprintf(stderr, "%s: note: cannot be read, so it is taken as missing\n", pair->before);
        }
    }
    if (pair->after != NULL) {
        const int status = sw_diff_side_read(pair->after, &as[1], false, &no_new, &file->after);
        if (status != SW_OK)
            return status;
        /* it was a run and is none any more: report its mistakes */
        if (no_new && !no_old && sw_command_diagnose(file->after.config, false) > 0)
            return SW_BAD_INPUT;
    }
    if (no_old && no_new) {
        note_unreadable(file);
        drop_last(diff);
        return SW_OK;
    }
    if (is_staged(file))
        return diff_staged(diff, no_old ? NULL : pair->before, no_new ? NULL : pair->after, as,
                           conditions);
    file->status = no_old ? SW_DIFF_ADDED : no_new ? SW_DIFF_REMOVED : SW_DIFF_CHANGED;
    if (sw_diff_file_compare(file, conditions, &err) != 0 || ask_budgets(diff, file, &err) != 0)
        return sw_command_fail(&err);
    count_file(diff, file);
    if (file->status == SW_DIFF_SAME && file->outcome_count == 0 && !file->unmet)
        drop_last(diff); /* keep only changed files of a folder */
    return SW_OK;
}

/* The run's name in a file of one folder alone, NULL: none; the caller frees it. Reports no
 * mistakes: the file is read again. Returns an exit code, not SW_OK if that could not help. */
static int name_of(const struct sw_diff_pair *pair, const struct sw_diff_reading as[2], char **name)
{
    struct sw_diff_side side = {0};
    bool is_other = true;
    const bool old = pair->before != NULL;
    *name = NULL;
    if (old == (pair->after != NULL))
        return SW_OK;
    const int status = sw_diff_side_read(old ? pair->before : pair->after, &as[old ? 0 : 1], true,
                                         &is_other, &side);
    if (status == SW_OK && !is_other && !side.is_plan && side.run != NULL)
        *name = strdup(side.run->name);
    sw_diff_side_free(&side); /* also after a mistake */
    return status == SW_ENVIRONMENT ? status : SW_OK;
}

/* Index of the only file of one folder (`old`: the old one) that the other lacks and that has this
 * name; -1: none, or several. */
static int32_t find_name(const struct sw_diff_pair *pairs, char *const *names, int32_t count,
                         const char *name, bool old)
{
    int32_t found = -1;
    for (int32_t i = 0; i < count; i++)
        if (names[i] != NULL && (pairs[i].before != NULL) == old && strcmp(names[i], name) == 0) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

/* Pairs renamed files: a run with the same `name` is the same run. Returns an exit code; prints
 * errors. */
static int pair_renamed(struct sw_diff_pair *pairs, int32_t count,
                        const struct sw_diff_reading as[2])
{
    struct sw_error err = {0};
    int status = SW_OK;
    char **names = calloc((size_t)count + 1, sizeof *names);
    if (names == NULL) {
        sw_fail(&err, SW_ENVIRONMENT, "out of memory while comparing");
        return sw_command_fail(&err);
    }
    for (int32_t i = 0; i < count && status == SW_OK; i++)
        status = name_of(&pairs[i], as, &names[i]);
    for (int32_t i = 0; i < count && status == SW_OK; i++) {
        if (names[i] == NULL || pairs[i].before != NULL ||
            find_name(pairs, names, count, names[i], false) != i)
            continue;
        const int32_t old = find_name(pairs, names, count, names[i], true);
        if (old < 0)
            continue;
        const size_t bytes = strlen(pairs[i].path) + strlen(pairs[old].path) + 16;
        char *path = malloc(bytes);
        if (path == NULL)
            continue;
        snprintf(path, bytes, "%s (was %s)", pairs[i].path, pairs[old].path);
        free(pairs[i].path);
        pairs[i].path = path;
        pairs[i].before = pairs[old].before;
        pairs[old].before = NULL;
        free(names[old]);
        names[old] = NULL;
    }
    for (int32_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return status;
}

static int diff_directories(struct sw_diff *diff, const struct sw_diff_reading as[2],
                            const struct sw_diff_conditions *conditions)
{
    struct sw_error err = {0};
    struct sw_diff_pair *pairs = NULL;
    int32_t count = 0;
    int status = SW_OK;
    diff->is_directory = true;
    if (sw_diff_pair_files(as[0].base, as[1].base, &pairs, &count, &err) != 0)
        return sw_command_fail(&err);
    status = pair_renamed(pairs, count, as);
    for (int32_t i = 0; i < count && status != SW_ENVIRONMENT; i++)
        if (pairs[i].before != NULL || pairs[i].after != NULL)
            graver(&status, diff_pair(diff, &pairs[i], as, conditions));
    sw_diff_pairs_free(pairs, count);
    return status;
}

/* Summarizes a folder: the number of changed runs, and the one whose speed changed most; a step
 * that takes longer for more tokens does not count. */
static void write_headline(struct sw_diff *diff)
{
    const struct sw_diff_file *most = NULL;
    double largest = 0;
    if (!diff->is_directory) {
        if (diff->count > 0)
            memcpy(diff->headline, diff->file[0]->headline, sizeof diff->headline);
        return;
    }
    for (int32_t i = 0; i < diff->count; i++) {
        const struct sw_diff_file *f = diff->file[i];
        if (f->status != SW_DIFF_CHANGED || !sw_diff_compares(f))
            continue;
        const double change =
            f->after.chosen.tokens_per_second / f->before.chosen.tokens_per_second - 1;
        if (most == NULL || change * change > largest * largest) {
            most = f;
            largest = change;
        }
    }
    char path[256], rate[512] = "", failed[64] = "", percent[32];
    if (most != NULL && largest * largest > 1e-18)
        snprintf(rate, sizeof rate, "; tokens/s change most in %s: %s",
                 sw_text_shorten(most->path, 200, path),
                 sw_diff_percent(most->before.chosen.tokens_per_second,
                                 most->after.chosen.tokens_per_second, percent));
    if (diff->failed > 0)
        snprintf(failed, sizeof failed, "; %d condition%s failed", diff->failed,
                 diff->failed == 1 ? "" : "s");
    snprintf(diff->headline, sizeof diff->headline, "%d changed, %d added, %d removed%.300s%s",
             diff->changed, diff->added, diff->removed, rate, failed);
}

static int print(const struct sw_options *options, const struct sw_diff *diff)
{
    struct sw_error err = {0};
    int status = 0;
    const bool differs =
        diff->changed + diff->added + diff->removed + diff->failed > 0 || diff->unmet;
    /* JSON is printed even if empty; for people, no difference prints nothing */
    if (options->json)
        sw_diff_print_json(stdout, diff);
    else if (differs && options->markdown)
        status = sw_diff_print_markdown(stdout, diff, COMMENT_BYTES, &err);
    else if (differs)
        sw_diff_print_text(stdout, diff);
    return status == 0 ? SW_OK : sw_command_fail(&err);
}

static int usage(const struct sw_options *options, bool is_directory[2])
{
    struct sw_error err = {0};
    const bool alone = options->file_count == 1 && options->override_count > 0;
    if (options->file_count != 2 && !alone) {
        sw_fail(&err, SW_BAD_INPUT,
                "name two runs, plans or folders, as in 'plan diff old/run.yaml new/run.yaml', or "
                "one run and --set KEY=VALUE");
        return sw_command_fail(&err);
    }
    if (options->json && options->markdown) {
        sw_fail(&err, SW_BAD_INPUT, "--json or --markdown, not both");
        return sw_command_fail(&err);
    }
    for (int32_t i = 0; i < options->file_count; i++) {
        struct stat info;
        if (stat(options->files[i], &info) != 0) {
            sw_fail_at(&err, SW_BAD_INPUT, (struct sw_place){.file = options->files[i]},
                       "cannot open: %s", strerror(errno));
            return sw_command_fail(&err);
        }
        is_directory[i] = S_ISDIR(info.st_mode);
    }
    if (alone && is_directory[0]) {
        sw_fail(&err, SW_BAD_INPUT,
                "--set with one name changes a run, not a folder; name the run file");
        return sw_command_fail(&err);
    }
    if (is_directory[0] == is_directory[1])
        return SW_OK;
    sw_fail(&err, SW_BAD_INPUT, "one is a folder and one is a file; compare two of a kind");
    return sw_command_fail(&err);
}

static int parse_conditions(const struct sw_options *options, struct sw_fail_if *out)
{
    int status = SW_OK;
    for (int32_t i = 0; i < options->fail_if_count; i++) {
        struct sw_error err = {0};
        if (sw_fail_if_parse(options->fail_if[i], &out[i], &err) != 0)
            status = sw_command_fail(&err);
    }
    return status;
}

int sw_command_diff(const struct sw_options *options)
{
    struct sw_diff diff = {0};
    bool is_directory[2] = {false, false};
    char *base[2] = {NULL, NULL};
    struct sw_diff_reading as[2];
    struct sw_fail_if *condition = calloc(SW_MAX_FAIL_IF, sizeof *condition);
    const struct sw_diff_conditions conditions = {condition, options->fail_if_count,
                                                  options->fail_all};
    int status = SW_OK;
    if (condition == NULL) {
        struct sw_error err = {0};
        sw_fail(&err, SW_ENVIRONMENT, "out of memory while comparing");
        return sw_command_fail(&err);
    }
    status = parse_conditions(options, condition);
    if (status == SW_OK)
        status = usage(options, is_directory);
    if (status != SW_OK)
        goto out;
    const char *before = options->files[0], *after = options->files[options->file_count - 1];
    base[0] = is_directory[0] ? strdup(before) : sw_path_folder(before);
    base[1] = is_directory[1] ? strdup(after) : sw_path_folder(after);
    for (int32_t i = 0; i < 2; i++)
        as[i] = (struct sw_diff_reading){base[i], options->override, options->override_count, NULL};
    if (options->file_count == 1) /* compared with itself */
        as[0].override_count = 0;
    status = is_directory[0] ? diff_directories(&diff, as, &conditions)
                             : diff_files(&diff, before, after, as, &conditions);
    if (status == SW_OK) {
        write_headline(&diff);
        status = print(options, &diff);
    }
    if (status == SW_OK && (diff.failed > 0 || diff.unmet))
        status = SW_UNMET;
    else if (status == SW_OK && diff.changed + diff.added + diff.removed > 0)
        status = SW_DIFF_DIFFERS;
out:
    while (diff.count > 0)
        drop_last(&diff);
    free(diff.file);
    sw_budget_source_close(&diff.source);
    free(base[0]);
    free(base[1]);
    free(condition);
    return status;
}
