/* What the times of a diff rest on: a profile and its band on each side. */
#include "planner/diff/diff.h"

#include "planner/format.h"

#include <string.h>

bool sw_diff_mixes_profiles(const struct sw_diff_file *f)
{
    return f->before.fits && f->after.fits &&
           strcmp(f->before.chosen.cost.profile, f->after.chosen.cost.profile) != 0;
}

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
