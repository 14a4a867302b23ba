/* Cost of whole runs on both sides of a diff, and its sum over all of them. */
#include "planner/diff/diff.h"

#include "planner/command/format.h"
#include "planner/search/run_cost.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static bool is_priced(const struct sw_diff_side *side)
{
    return side->fits && side->cost.terms.steps > 0;
}

/* True if a side exists with an unknown cost. */
static bool lacks_cost(const struct sw_diff_side *side)
{
    return side->run != NULL && !is_priced(side);
}

static void add_side(struct sw_diff_total *total, struct sw_run_cost *sum,
                     const struct sw_diff_side *side)
{
    if (side->run == NULL)
        return;
    const char *currency = sw_run_unit_of_price(side->run);
    if (total->currency[0] == '\0')
        snprintf(total->currency, sizeof total->currency, "%s", currency);
    total->mixes_currencies = total->mixes_currencies || strcasecmp(total->currency, currency) != 0;
    sw_run_cost_add(sum, &side->cost);
}

void sw_diff_add_total(struct sw_diff_total *total, const struct sw_diff_file *f)
{
    if (f->status == SW_DIFF_SAME)
        return;
    if (lacks_cost(&f->before) || lacks_cost(&f->after)) {
        total->unpriced++;
        return;
    }
    total->runs++;
    add_side(total, &total->before, &f->before);
    add_side(total, &total->after, &f->after);
}

/* "4,103 accelerator-hours, 10,257 USD"; "nothing" for zero. */
static void say_sum(const struct sw_run_cost *cost, const char *currency, char out[160])
{
    char hours[SW_FORMAT_RATE], money[SW_FORMAT_BYTES];
    const double amount = cost->money.value;
    if (cost->accelerator_hours.value == 0) {
        snprintf(out, 160, "nothing");
        return;
    }
    if (!isfinite(cost->accelerator_hours.value)) {
        snprintf(out, 160, "no end");
        return;
    }
    const int used =
        snprintf(out, 160, "%s", sw_format_accelerator_hours(cost->accelerator_hours.value, hours));
    if (currency != NULL && !isnan(amount))
        snprintf(out + used, 160 - (size_t)used, ", %s %.15s",
                 amount >= 99.95 ? sw_format_count(amount, money) : sw_format_number(amount, money),
                 currency);
}

/* "A -> B (-20 %)", "A" if equal. */
static void say_change(const char *before, const char *after, double was, double is, char *out,
                       size_t bytes)
{
    char percent[32] = "";
    if (strcmp(before, after) == 0) {
        snprintf(out, bytes, "%s", after);
        return;
    }
    if (isfinite(was) && isfinite(is))
        sw_diff_percent(was, is, percent);
    snprintf(out, bytes, "%s -> %s%s%s%s", before, after, percent[0] != '\0' ? " (" : "", percent,
             percent[0] != '\0' ? ")" : "");
}

char *sw_diff_total_text(const struct sw_diff_total *total, char buffer[SW_DIFF_COST])
{
    char before[160], after[160], change[340];
    const char *currency = total->mixes_currencies ? NULL : total->currency;
    buffer[0] = '\0';
    if (total->runs == 0)
        return buffer;
    say_sum(&total->before, currency, before);
    say_sum(&total->after, currency, after);
    say_change(before, after, total->before.accelerator_hours.value,
               total->after.accelerator_hours.value, change, sizeof change);
    snprintf(buffer, SW_DIFF_COST, "total of %d run%s: %s", total->runs,
             total->runs == 1 ? "" : "s", change);
    const size_t used = strlen(buffer);
    if (total->unpriced > 0)
        snprintf(buffer + used, SW_DIFF_COST - used, "; %d more without a known cost",
                 total->unpriced);
    return buffer;
}

/* "ends after 2.7 days, 4,103 accelerator-hours, 10,257 USD" */
static void say_run(const struct sw_diff_side *side, char out[240])
{
    char sum[160], end[SW_FORMAT_BYTES];
    say_sum(&side->cost, sw_run_unit_of_price(side->run), sum);
    if (!isfinite(side->cost.wall_s.value))
        snprintf(out, 240, "no end");
    else
        snprintf(out, 240, "ends after %s, %s", sw_format_duration(side->cost.wall_s.value, end),
                 sum);
}

char *sw_diff_run_text(const struct sw_diff_file *f, char buffer[SW_DIFF_COST])
{
    char before[240] = "", after[240] = "", change[SW_DIFF_COST - 16];
    const bool was = is_priced(&f->before), is = is_priced(&f->after);
    buffer[0] = '\0';
    if (!was && !is)
        return buffer;
    if (was)
        say_run(&f->before, before);
    if (is)
        say_run(&f->after, after);
    say_change(was ? before : after, is ? after : before,
               was && is ? f->before.cost.accelerator_hours.value : (double)NAN,
               f->after.cost.accelerator_hours.value, change, sizeof change);
    snprintf(buffer, SW_DIFF_COST, "whole run: %s", change);
    return buffer;
}
