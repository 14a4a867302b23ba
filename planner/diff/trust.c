/* Cost of all steps of a diff's runs, and the basis of its times: a profile and its band on each
 * side. */
#include "planner/diff/diff.h"

#include "planner/command/format.h"

#include <math.h>
#include <string.h>

static void say(const struct sw_cost *c, char *out, size_t bytes)
{
    char low[SW_FORMAT_BYTES], high[SW_FORMAT_BYTES];
    snprintf(out, bytes, "profile %s, %s %s to %s", c->profile, sw_report_band(c),
             sw_format_seconds(c->band_low_seconds, low),
             sw_format_seconds(c->band_high_seconds, high));
}

char *sw_diff_trust(const struct sw_diff_file *f, char buffer[SW_DIFF_TRUST])
{
    char before[160] = "", after[160] = "";
    buffer[0] = '\0';
    if (f->before.fits)
        say(&f->before.chosen.cost, before, sizeof before);
    if (f->after.fits)
        say(&f->after.chosen.cost, after, sizeof after);
    if (sw_diff_mixes_profiles(f))
        snprintf(buffer, SW_DIFF_TRUST,
                 "%s -> %s; two profiles: part of the difference is that of the software measured",
                 before, after);
    else
        snprintf(buffer, SW_DIFF_TRUST, "%s", f->after.fits ? after : before);
    return buffer;
}

/* "17.7 days, 217,360 accelerator-hours" for all steps. */
static void say_cost(const struct sw_diff_side *side, char out[96])
{
    char took[SW_FORMAT_BYTES], hours[SW_FORMAT_RATE];
    const double *value = side->measures.value;
    snprintf(out, 96, "%.30s, %.60s", sw_format_duration(value[SW_MEASURE_DURATION], took),
             sw_format_accelerator_hours(value[SW_MEASURE_ACCELERATOR_HOURS], hours));
}

static bool trains(const struct sw_diff_side *side)
{
    return side->fits && side->purpose == SW_FOR_TRAIN;
}

/* Accelerator-hours of a billion tokens. */
static double hours_of_tokens(const struct sw_diff_side *side)
{
    const double *value = side->measures.value;
    return value[SW_MEASURE_ACCELERATORS] / value[SW_MEASURE_TOKENS_PER_SECOND] * 1e9 / 3600;
}

double sw_diff_cost_ratio(const struct sw_diff_file *f)
{
    const struct sw_diff_side *was = &f->before, *is = &f->after;
    if (!trains(was) || !trains(is))
        return (double)NAN;
    if (was->run->says_steps && is->run->says_steps)
        return is->measures.value[SW_MEASURE_ACCELERATOR_HOURS] /
               was->measures.value[SW_MEASURE_ACCELERATOR_HOURS];
    return hours_of_tokens(is) / hours_of_tokens(was);
}

/* Cost of runs that do not give their steps. */
static void say_token_cost(const struct sw_diff_file *f, char buffer[SW_DIFF_COST])
{
    char before[SW_FORMAT_RATE], after[SW_FORMAT_RATE], percent[32] = "";
    const double was = hours_of_tokens(&f->before), is = hours_of_tokens(&f->after);
    sw_format_accelerator_hours(was, before);
    sw_format_accelerator_hours(is, after);
    sw_diff_percent(was, is, percent);
    if (strcmp(before, after) == 0)
        snprintf(buffer, SW_DIFF_COST, "a billion tokens: %s", after);
    else
        snprintf(buffer, SW_DIFF_COST, "a billion tokens: %s -> %s (%s)", before, after, percent);
}

char *sw_diff_cost(const struct sw_diff_file *f, char buffer[SW_DIFF_COST])
{
    const struct sw_diff_side *was = &f->before, *is = &f->after;
    const bool has_old = trains(was) && was->run->says_steps,
               has_new = trains(is) && is->run->says_steps;
    char before[96] = "", after[96] = "", percent[32] = "";
    buffer[0] = '\0';
    if (has_old)
        say_cost(was, before);
    if (has_new)
        say_cost(is, after);
    if (has_old && has_new)
        sw_diff_percent(was->measures.value[SW_MEASURE_ACCELERATOR_HOURS],
                        is->measures.value[SW_MEASURE_ACCELERATOR_HOURS], percent);
    if (has_old || has_new)
        snprintf(buffer, SW_DIFF_COST, "all steps: %s%s%s%s%s%s", before,
                 has_old && has_new && strcmp(before, after) != 0 ? " -> " : "",
                 strcmp(before, after) != 0 ? after : "", percent[0] != '\0' ? " (" : "", percent,
                 percent[0] != '\0' ? ")" : "");
    else if (trains(was) && trains(is))
        say_token_cost(f, buffer);
    return buffer;
}
