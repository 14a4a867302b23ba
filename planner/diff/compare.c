/* Compares the two sides of a file and says in one line what became of it. */
#include "core/base/text.h"
#include "planner/diff/diff.h"

#include "planner/format.h"

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

/* What two descriptions may differ in without being different, and what only plans have. */
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

static int compare_settings(struct sw_diff_file *f, struct sw_error *err)
{
    const bool both_plans = f->before.is_plan && f->after.is_plan;
    const int32_t count = sw_settings_compare(&f->before.settings, f->before.base,
                                              &f->after.settings, f->after.base, &f->setting, err);
    if (count < 0)
        return -1;
    f->setting_count = keep(f->setting, count, both_plans);
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
    return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b));
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

/* Both lists are sorted by size, descending. A mesh that only one side considered (another
 * mesh_dim, another number of accelerators) is no change of verdict. */
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

/* "1.82 -> 1.61 s (-12 %)", or "1.82 s" when nothing changed. */
static void say_seconds(struct line *line, double before, double after)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES];
    sw_format_seconds(before, a);
    sw_format_seconds(after, b);
    if (same_amount(before, after)) {
        say(line, "step %s", b);
        return;
    }
    const char *unit = split_unit(a), *new_unit = split_unit(b);
    if (strcmp(unit, new_unit) != 0)
        say(line, "step %s %s -> %s %s", a, unit, b, new_unit);
    else if (strcmp(a, b) == 0)
        say(line, "step %s %s", b, unit);
    else
        say(line, "step %s -> %s %s", a, b, unit);
    const double percent = (after / before - 1) * 100;
    if (before > 0)
        say(line, " (%+.*f %%)", fabs(percent) < 0.995 ? 2 : fabs(percent) < 9.95 ? 1 : 0, percent);
}

/* "71.2 -> 64.9 of 80 GB": all in the unit of the limit. */
static void say_memory(struct line *line, const struct sw_diff_side *before,
                       const struct sw_diff_side *after)
{
    const double limit[2] = {before->measures.value[SW_MEASURE_LIMIT],
                             after->measures.value[SW_MEASURE_LIMIT]};
    const double used[2] = {before->measures.value[SW_MEASURE_MEMORY],
                            after->measures.value[SW_MEASURE_MEMORY]};
    const double scale = limit[1] >= 1e9 ? 1e9 : limit[1] >= 1e6 ? 1e6 : 1e3;
    const char *unit = limit[1] >= 1e9 ? "GB" : limit[1] >= 1e6 ? "MB" : "kB";
    char a[32], b[32];
    snprintf(a, sizeof a, "%.*f", used[0] / scale < 9.995 ? 2 : 1, used[0] / scale);
    snprintf(b, sizeof b, "%.*f", used[1] / scale < 9.995 ? 2 : 1, used[1] / scale);
    if (!same_amount(limit[0], limit[1]))
        say(line, ", memory %s of %.4g -> %s of %.4g %s", a, limit[0] / scale, b, limit[1] / scale,
            unit);
    else if (strcmp(a, b) == 0)
        say(line, ", memory %s of %.4g %s", b, limit[1] / scale, unit);
    else
        say(line, ", memory %s -> %s of %.4g %s", a, b, limit[1] / scale, unit);
}

static void say_side(struct line *line, const struct sw_diff_side *side)
{
    char mesh[64], reason[256];
    if (!side->fits) {
        say(line, "does not fit: %s", sw_text_shorten(side->why_not, 200, reason));
        return;
    }
    say_seconds(line, side->chosen.cost.step_seconds, side->chosen.cost.step_seconds);
    say_memory(line, side, side);
    say(line, ", mesh %s", sw_mesh_format(&side->chosen.decision.mesh, mesh, sizeof mesh));
}

static void say_count(struct line *line, int32_t count, const char *what)
{
    if (count > 0)
        say(line, "; %d %s%s", count, what, count == 1 ? "" : "s");
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
    if (f->before.fits && f->after.fits) {
        sw_mesh_format(&f->before.chosen.decision.mesh, a, sizeof a);
        sw_mesh_format(&f->after.chosen.decision.mesh, b, sizeof b);
        say_seconds(&line, f->before.chosen.cost.step_seconds, f->after.chosen.cost.step_seconds);
        say_memory(&line, &f->before, &f->after);
        if (strcmp(a, b) == 0)
            say(&line, ", mesh %s", b);
        else
            say(&line, ", mesh %s -> %s", a, b);
    } else if (f->before.fits || f->after.fits) {
        say(&line, f->after.fits ? "fits now: " : "fits no longer: ");
        say_side(&line, f->after.fits ? &f->after : &f->before);
        if (!f->after.fits) {
            say(&line, " -> ");
            say_side(&line, &f->after);
        }
    } else {
        say_side(&line, &f->after);
    }
    say_count(&line, f->setting_count, "setting");
    if (f->setting_count > 0)
        say(&line, " changed");
    if (sw_diff_mixes_profiles(f))
        say(&line, "; times by different profiles");
}

/* Conditions ask about the new plan; one that fits nowhere meets none. */
static int test_conditions(struct sw_diff_file *f, const struct sw_fail_if *condition,
                           int32_t count, struct sw_error *err)
{
    if (count == 0 || f->status == SW_DIFF_REMOVED)
        return 0;
    f->outcome = calloc((size_t)count, sizeof *f->outcome);
    if (f->outcome == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while comparing");
    const bool had = f->status != SW_DIFF_ADDED && f->before.fits;
    for (int32_t i = 0; i < count; i++) {
        struct sw_diff_outcome *o = &f->outcome[f->outcome_count++];
        o->condition = &condition[i];
        if (f->after.fits) {
            o->verdict = sw_fail_if_test(&condition[i], had ? &f->before.measures : NULL,
                                         &f->after.measures, o->detail, sizeof o->detail);
        } else {
            o->verdict = SW_FAIL_IF_FAIL;
            snprintf(o->detail, sizeof o->detail, "no mesh fits");
        }
        f->failed_count += o->verdict == SW_FAIL_IF_FAIL;
    }
    return 0;
}

int sw_diff_file_compare(struct sw_diff_file *f, const struct sw_fail_if *condition,
                         int32_t condition_count, struct sw_error *err)
{
    const bool has_old = f->status != SW_DIFF_ADDED, has_new = f->status != SW_DIFF_REMOVED;
    if (has_old && has_new && compare_settings(f, err) != 0)
        return -1;
    if (f->status == SW_DIFF_SAME && condition_count == 0)
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
    }
    write_headline(f);
    return test_conditions(f, condition, condition_count, err);
}

bool sw_diff_is_shown(const struct sw_diff_file *file)
{
    return file->status != SW_DIFF_SAME || file->failed_count > 0;
}

void sw_diff_file_free(struct sw_diff_file *file)
{
    free(file->path);
    free(file->setting);
    free(file->choice);
    free(file->traffic);
    free(file->mesh);
    free(file->outcome);
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
