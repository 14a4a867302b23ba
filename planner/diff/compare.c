/* Compares the two sides of a file and summarizes the result in one line. */
#include "core/base/text.h"
#include "planner/diff/diff.h"

#include "planner/command/format.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *sw_diff_status_name(enum sw_diff_status status)
{
    static const char *const names[] = {"same", "changed", "added", "removed"};
    return names[status];
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* False for settings that may differ without effect, and for those that only plans have. */
static bool counts(const char *key, bool both_plans)
{
    if (starts_with(key, "run."))
        return true;
    return both_plans && (starts_with(key, "decision.") || starts_with(key, "prediction.") ||
                          starts_with(key, "programs."));
}

static int32_t keep(struct sw_setting_change *list, int32_t count, bool both_plans)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++)
        if (counts(list[i].key, both_plans))
            list[kept++] = list[i];
    return kept;
}

static int32_t keep_decision(struct sw_setting_change *list, int32_t count, bool decision)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++)
        if (starts_with(list[i].key, "decision.") == decision)
            list[kept++] = list[i];
    return kept;
}

/* Drops settings that a plan has decided and a run leaves open. */
static int32_t drop_decided(struct sw_setting_change *list, int32_t count)
{
    static const char *const left_open[] = {"run.nodes", "run.serve.stream_weights",
                                            "run.serve.interleave", "run.serve.token_budget",
                                            "run.checkpoint.every_steps"};
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        bool decided = false;
        for (size_t k = 0; k < sizeof left_open / sizeof left_open[0]; k++)
            decided = decided || strcmp(list[i].key, left_open[k]) == 0;
        const char *was = list[i].old_value, *is = list[i].new_value;
        const bool open =
            was == NULL || is == NULL || strcmp(was, "auto") == 0 || strcmp(is, "auto") == 0;
        if (!decided || !open)
            list[kept++] = list[i];
    }
    return kept;
}

static int compare_settings(struct sw_diff_file *f, struct sw_error *err)
{
    const bool both_plans = f->before.is_plan && f->after.is_plan;
    const int32_t count = sw_settings_compare(&f->before.settings, f->before.base,
                                              &f->after.settings, f->after.base, &f->setting, err);
    if (count < 0)
        return -1;
    f->setting_count = keep(f->setting, count, both_plans);
    if (f->before.is_plan != f->after.is_plan)
        f->setting_count = drop_decided(f->setting, f->setting_count);
    f->status = f->setting_count == 0 && f->before.is_plan == f->after.is_plan ? SW_DIFF_SAME
                                                                               : SW_DIFF_CHANGED;
    f->setting_count = keep_decision(f->setting, f->setting_count, false);
    return 0;
}

static int compare_choices(struct sw_diff_file *f, struct sw_error *err)
{
    const int32_t count = sw_settings_compare(&f->before.choices, f->before.base, &f->after.choices,
                                              f->after.base, &f->choice, err);
    if (count < 0)
        return -1;
    f->choice_count = keep_decision(f->choice, count, true);
    return 0;
}

static const struct sw_traffic *find_traffic(const struct sw_diff_side *side,
                                             const struct sw_traffic *wanted)
{
    for (int32_t i = 0; i < side->traffic.count; i++)
        if (side->traffic.entry[i].kind == wanted->kind &&
            sw_axes_equal(side->traffic.entry[i].axes, wanted->axes))
            return &side->traffic.entry[i];
    return NULL;
}

static bool same_amount(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b));
}

static int compare_traffic(struct sw_diff_file *f, struct sw_error *err)
{
    const size_t most = (size_t)f->before.traffic.count + (size_t)f->after.traffic.count;
    f->traffic = calloc(most + 1, sizeof *f->traffic);
    if (f->traffic == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while comparing");
    for (int32_t i = 0; i < f->before.traffic.count; i++) {
        const struct sw_traffic *a = &f->before.traffic.entry[i], *b = find_traffic(&f->after, a);
        if (b == NULL || !same_amount(a->calls, b->calls) || !same_amount(a->bytes, b->bytes))
            f->traffic[f->traffic_count++] = (struct sw_diff_traffic_change){a, b};
    }
    for (int32_t i = 0; i < f->after.traffic.count; i++)
        if (find_traffic(&f->before, &f->after.traffic.entry[i]) == NULL)
            f->traffic[f->traffic_count++] =
                (struct sw_diff_traffic_change){NULL, &f->after.traffic.entry[i]};
    return 0;
}

/* Both lists are sorted by size, descending. A mesh on one side only (another mesh_dim, another
 * number of accelerators) is no change of verdict. */
static int compare_meshes(struct sw_diff_file *f, struct sw_error *err)
{
    const struct sw_diff_side *a = &f->before, *b = &f->after;
    const int32_t most = a->mesh_count < b->mesh_count ? a->mesh_count : b->mesh_count;
    f->mesh = calloc((size_t)most + 1, sizeof *f->mesh);
    if (f->mesh == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while comparing");
    for (int32_t fitting = 0; fitting < 2; fitting++)
        for (int32_t i = 0, j = 0; i < a->mesh_count && j < b->mesh_count;) {
            const struct sw_diff_verdict *x = &a->verdict[i], *y = &b->verdict[j];
            int order = 0;
            for (int32_t k = 0; k < SW_AXIS_COUNT && order == 0; k++)
                order = (x->size[k] < y->size[k]) - (x->size[k] > y->size[k]);
            i += order <= 0;
            j += order >= 0;
            const bool was = x->reason == SW_FITS, is = y->reason == SW_FITS;
            if (order != 0 || was == is || is != (fitting == 1))
                continue;
            f->mesh[f->rejected_count + f->fitting_count] = (struct sw_diff_mesh_change){x, y};
            f->fitting_count += fitting;
            f->rejected_count += 1 - fitting;
        }
    return 0;
}

/* ---- The headline ---- */

struct line {
    char *text;
    size_t used;
};

static void say(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int bytes =
        vsnprintf(line->text + line->used, SW_DIFF_HEADLINE - line->used, format, arguments);
    va_end(arguments);
    line->used += bytes > 0 ? (size_t)bytes : 0;
    if (line->used > SW_DIFF_HEADLINE - 1)
        line->used = SW_DIFF_HEADLINE - 1;
}

/* Splits "1.82 s" into the number, which stays in text, and the unit. */
static const char *split_unit(char *text)
{
    char *space = strchr(text, ' ');
    if (space == NULL)
        return "";
    *space = '\0';
    return space + 1;
}

const char *sw_diff_unit_of_work(const struct sw_diff_side *side)
{
    return side->purpose == SW_FOR_SERVE ? "token" : "step";
}

bool sw_diff_compares(const struct sw_diff_file *f)
{
    return f->before.fits && f->after.fits && f->before.purpose == f->after.purpose;
}

bool sw_diff_mixes_profiles(const struct sw_diff_file *f)
{
    return sw_diff_compares(f) &&
           strcmp(f->before.chosen.cost.profile, f->after.chosen.cost.profile) != 0;
}

/* "step 1.82 -> 1.61 s (-12 %)", or "step 1.82 s" if unchanged. */
static void say_seconds(struct line *line, const char *what, double before, double after)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], percent[32];
    sw_format_seconds(before, a);
    sw_format_seconds(after, b);
    if (same_amount(before, after)) {
        say(line, "%s %s", what, b);
        return;
    }
    const char *unit = split_unit(a), *new_unit = split_unit(b);
    if (strcmp(unit, new_unit) != 0)
        say(line, "%s %s %s -> %s %s", what, a, unit, b, new_unit);
    else if (strcmp(a, b) == 0)
        say(line, "%s %s %s", what, b, unit);
    else
        say(line, "%s %s -> %s %s", what, a, b, unit);
    if (before > 0)
        say(line, " (%s)", sw_diff_percent(before, after, percent));
}

/* "425,600 -> 431,984 tokens/s (+1.5 %), " */
static void say_rate(struct line *line, double before, double after)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], percent[32];
    sw_format_number(before, a);
    sw_format_number(after, b);
    if (strcmp(a, b) != 0)
        say(line, "%s -> ", a);
    say(line, "%s tokens/s", b);
    if (!same_amount(before, after) && before > 0)
        say(line, " (%s)", sw_diff_percent(before, after, percent));
    say(line, ", ");
}

/* "84.7": digits as in a data sheet. */
static void format_scaled(double bytes, double scale, char buffer[32])
{
    snprintf(buffer, 32, "%.*f", bytes / scale < 9.995 ? 2 : 1, bytes / scale);
}

char *sw_diff_memory_text(const struct sw_diff_side *before, const struct sw_diff_side *after,
                          char buffer[96])
{
    const double *was = before->measures.value, *is = after->measures.value;
    const double most = is[SW_MEASURE_LIMIT];
    const double scale = most >= 1e9 ? 1e9 : most >= 1e6 ? 1e6 : 1e3;
    const char *unit = most >= 1e9 ? "GB" : most >= 1e6 ? "MB" : "kB";
    char used[2][32], limit[2][32];
    format_scaled(was[SW_MEASURE_MEMORY], scale, used[0]);
    format_scaled(is[SW_MEASURE_MEMORY], scale, used[1]);
    format_scaled(was[SW_MEASURE_LIMIT], scale, limit[0]);
    format_scaled(is[SW_MEASURE_LIMIT], scale, limit[1]);
    if (!before->fits || strcmp(limit[0], limit[1]) == 0) {
        const bool same = !before->fits || strcmp(used[0], used[1]) == 0;
        snprintf(buffer, 96, "%.20s%s%.20s of %.20s %s", same ? "" : used[0], same ? "" : " -> ",
                 used[1], limit[1], unit);
    } else {
        snprintf(buffer, 96, "%.18s of %.18s -> %.18s of %.18s %s", used[0], limit[0], used[1],
                 limit[1], unit);
    }
    return buffer;
}

char *sw_diff_percent(double before, double after, char buffer[32])
{
    buffer[0] = '\0';
    if (before <= 0 || same_amount(before, after))
        return buffer;
    const double percent = (after / before - 1) * 100;
    snprintf(buffer, 32, "%+.*f %%",
             fabs(percent) < 0.995  ? 2
             : fabs(percent) < 9.95 ? 1
                                    : 0,
             percent);
    return buffer;
}

const char *sw_diff_verdict_text(const struct sw_diff_side *side)
{
    return sw_verdict_text(side->fits ? side->memory_verdict : SW_VERDICT_DOES_NOT_FIT);
}

static void say_memory(struct line *line, const struct sw_diff_side *before,
                       const struct sw_diff_side *after)
{
    char text[96];
    say(line, ", memory %s", sw_diff_memory_text(before, after, text));
    if (after->fits && after->memory_verdict == SW_VERDICT_NO_HEADROOM)
        say(line, " (without headroom)");
}

/* Times of a step, or of a token and the first token, for which serving has goals. */
static void say_times(struct line *line, const struct sw_diff_side *before,
                      const struct sw_diff_side *after)
{
    say_seconds(line, sw_diff_unit_of_work(after), before->chosen.cost.step_seconds,
                after->chosen.cost.step_seconds);
    if (after->purpose == SW_FOR_SERVE) {
        say(line, ", ");
        say_seconds(line, "first", before->chosen.serve.first_seconds,
                    after->chosen.serve.first_seconds);
    }
}

static void say_side(struct line *line, const struct sw_diff_side *side)
{
    char mesh[64], reason[256];
    if (!side->fits) {
        say(line, "%s: %s", side->purpose == SW_FOR_SERVE ? "cannot serve" : "does not fit",
            sw_text_shorten(side->why_not, 200, reason));
        return;
    }
    say_rate(line, side->chosen.tokens_per_second, side->chosen.tokens_per_second);
    say_times(line, side, side);
    say_memory(line, side, side);
    say(line, ", mesh %s", sw_mesh_format(&side->chosen.decision.mesh, mesh, sizeof mesh));
}

static void say_count(struct line *line, int32_t count, const char *what)
{
    if (count > 0)
        say(line, "; %d %s%s", count, what, count == 1 ? "" : "s");
}

/* "; 8.03 B -> 12.1 B parameters (+51 %)" for a model whose size changed. */
static void say_parameters(struct line *line, int64_t before, int64_t after)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], percent[32];
    if (before > 0 && after > 0 && before != after)
        say(line, "; %s -> %s parameters (%s)", sw_format_short((double)before, a),
            sw_format_short((double)after, b),
            sw_diff_percent((double)before, (double)after, percent));
}

static void write_headline(struct sw_diff_file *f)
{
    struct line line = {f->headline, 0};
    char a[64], b[64];
    if (f->status == SW_DIFF_ADDED) {
        say(&line, "added: ");
        say_side(&line, &f->after);
        return;
    }
    if (f->status == SW_DIFF_REMOVED) {
        say(&line, "removed: ");
        say_side(&line, &f->before);
        return;
    }
    if (sw_diff_compares(f)) {
        sw_mesh_format(&f->before.chosen.decision.mesh, a, sizeof a);
        sw_mesh_format(&f->after.chosen.decision.mesh, b, sizeof b);
        say_rate(&line, f->before.chosen.tokens_per_second, f->after.chosen.tokens_per_second);
        say_times(&line, &f->before, &f->after);
        say_memory(&line, &f->before, &f->after);
        if (strcmp(a, b) == 0)
            say(&line, ", mesh %s", b);
        else
            say(&line, ", mesh %s -> %s", a, b);
    } else if (f->before.fits && f->after.fits) {
        say(&line, f->after.purpose == SW_FOR_SERVE ? "serves now: " : "trains now: ");
        say_side(&line, &f->after);
    } else if (f->before.fits || f->after.fits) {
        say(&line, f->after.fits ? "fits now: " : "no longer fits: ");
        say_side(&line, f->after.fits ? &f->after : &f->before);
        if (!f->after.fits) {
            say(&line, " -> ");
            say_side(&line, &f->after);
        }
    } else {
        say_side(&line, &f->after);
    }
    say_parameters(&line, f->before.parameters, f->after.parameters);
    say_count(&line, f->setting_count, "setting");
    if (f->setting_count > 0)
        say(&line, " changed");
    if (sw_diff_mixes_profiles(f))
        say(&line, "; times by different profiles");
}

/* Tests conditions on the new plan; one that fits nowhere meets none. Unchanged files are tested
 * only if all are. */
static int test_conditions(struct sw_diff_file *f, const struct sw_diff_conditions *conditions,
                           struct sw_error *err)
{
    if (conditions->count == 0 || f->status == SW_DIFF_REMOVED)
        return 0;
    f->outcome = calloc((size_t)conditions->count, sizeof *f->outcome);
    if (f->outcome == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while comparing");
    const bool had = f->status != SW_DIFF_ADDED && f->before.fits;
    f->not_judged = f->same_plan && !conditions->all;
    for (int32_t i = 0; i < conditions->count; i++) {
        struct sw_diff_outcome *o = &f->outcome[f->outcome_count++];
        o->condition = &conditions->item[i];
        if (f->not_judged) {
            o->verdict = SW_FAIL_IF_SKIPPED;
            snprintf(o->detail, sizeof o->detail, "%s", SW_DIFF_NOT_JUDGED);
        } else if (f->after.fits) {
            o->verdict = sw_fail_if_test(o->condition, had ? &f->before.measures : NULL,
                                         &f->after.measures, o->detail, sizeof o->detail);
        } else {
            o->verdict = SW_FAIL_IF_FAIL;
            snprintf(o->detail, sizeof o->detail, "no mesh %s",
                     f->after.purpose == SW_FOR_SERVE ? "serves it" : "fits");
        }
        f->failed_count += o->verdict == SW_FAIL_IF_FAIL;
    }
    return 0;
}

/* True if decisions and costs are the same, or nothing fits, as before. */
static bool same_plan(const struct sw_diff_file *f)
{
    if (!f->before.fits && !f->after.fits)
        return true;
    bool same = f->before.fits && f->after.fits && f->choice_count == 0 && f->traffic_count == 0;
    for (int32_t m = 0; same && m < SW_MEASURE_COUNT; m++)
        same = same_amount(f->before.measures.value[m], f->after.measures.value[m]);
    for (int32_t a = 0; same && a < SW_ASPECT_COUNT; a++)
        same = strcmp(f->before.measures.word[a], f->after.measures.word[a]) == 0;
    return same;
}

int sw_diff_file_compare(struct sw_diff_file *f, const struct sw_diff_conditions *conditions,
                         struct sw_error *err)
{
    const bool has_old = f->status != SW_DIFF_ADDED, has_new = f->status != SW_DIFF_REMOVED;
    if (has_old && has_new && compare_settings(f, err) != 0)
        return -1;
    f->same_plan = f->status == SW_DIFF_SAME;
    if (f->same_plan && !conditions->all)
        return 0;
    if ((has_old && sw_diff_side_price(&f->before, err) != 0) ||
        (has_new && sw_diff_side_price(&f->after, err) != 0))
        return -1;
    if (has_old && has_new) {
        if (compare_traffic(f, err) != 0 || compare_choices(f, err) != 0 ||
            compare_meshes(f, err) != 0)
            return -1;
        /* a plan against its run: the same unless one was edited or decides otherwise now */
        if (f->before.is_plan != f->after.is_plan && f->setting_count + f->choice_count == 0 &&
            f->before.fits == f->after.fits)
            f->status = SW_DIFF_SAME;
        f->same_plan = same_plan(f);
    }
    f->unmet = has_new && !f->after.fits && (conditions->all || !f->same_plan);
    write_headline(f);
    return test_conditions(f, conditions, err);
}

bool sw_diff_is_shown(const struct sw_diff_file *file)
{
    return file->status != SW_DIFF_SAME || file->failed_count > 0 || file->unmet;
}

void sw_diff_file_free(struct sw_diff_file *file)
{
    free(file->path);
    free(file->setting);
    free(file->choice);
    free(file->traffic);
    free(file->mesh);
    free(file->outcome);
    sw_budgets_free(&file->budgets);
    sw_diff_side_free(&file->before);
    sw_diff_side_free(&file->after);
    memset(file, 0, sizeof *file);
}

void sw_diff_traffic_text(const struct sw_diff_traffic_change *t, char axes[64], char calls[80],
                          char bytes[80])
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES];
    const struct sw_traffic *any = t->after != NULL ? t->after : t->before;
    sw_axes_format(any->axes, axes, 64);
    if (t->before == NULL || t->after == NULL || same_amount(t->before->calls, t->after->calls))
        snprintf(calls, 80, "%s", sw_format_count(any->calls, a));
    else
        snprintf(calls, 80, "%s -> %s", sw_format_count(t->before->calls, a),
                 sw_format_count(t->after->calls, b));
    if (t->before == NULL || t->after == NULL || same_amount(t->before->bytes, t->after->bytes))
        snprintf(bytes, 80, "%s", sw_format_bytes(any->bytes, a));
    else
        snprintf(bytes, 80, "%s -> %s", sw_format_bytes(t->before->bytes, a),
                 sw_format_bytes(t->after->bytes, b));
}
