#include "core/run/hours.h"

#include <inttypes.h>

enum { NUMBER_BYTES = 48 };

/* "1,536", "12.3", "0.0621" */
static const char *hours(double seconds, char text[NUMBER_BYTES])
{
    const double h = seconds / 3600;
    if (h >= 999.5)
        snprintf(text, NUMBER_BYTES, "%.0f", h);
    else
        snprintf(text, NUMBER_BYTES, "%.3g", h);
    return text;
}

static const char *duration(double seconds, char text[NUMBER_BYTES])
{
    if (seconds >= 5400)
        snprintf(text, NUMBER_BYTES, "%.3g h", seconds / 3600);
    else if (seconds >= 90)
        snprintf(text, NUMBER_BYTES, "%.3g min", seconds / 60);
    else
        snprintf(text, NUMBER_BYTES, "%.3g s", seconds);
    return text;
}

static const char *bytes(int64_t count, char text[NUMBER_BYTES])
{
    snprintf(text, NUMBER_BYTES, count >= 1000000000 ? "%.1f GB" : "%.0f MB",
             count >= 1000000000 ? (double)count / 1e9 : (double)count / 1e6);
    return text;
}

static void write_memory(FILE *out, const struct sw_hours *e, const char *indent)
{
    char used[NUMBER_BYTES], planned[NUMBER_BYTES], limit[NUMBER_BYTES];
    if (e->memory_planned <= 0)
        return;
    fprintf(out, "%s%-8s ", indent, "memory");
    if (e->memory_used > 0)
        fprintf(out, "%s used of ", bytes(e->memory_used, used));
    fprintf(out, "%s planned", bytes(e->memory_planned, planned));
    if (e->memory_limit > 0)
        fprintf(out, " and %s of an accelerator", bytes(e->memory_limit, limit));
    fputc('\n', out);
}

void sw_hours_write(FILE *out, const struct sw_hours *e, const char *indent)
{
    char held[NUMBER_BYTES], part[NUMBER_BYTES], took[NUMBER_BYTES], limit[NUMBER_BYTES];
    if (e->attempts == 0 || !(e->held_s > 0))
        return;
    fprintf(out, "%s%-8s %s accelerator-hours, %" PRId64 " step%s in %" PRId64 " attempt%s\n",
            indent, "held", hours(e->held_s, held), e->steps, e->steps == 1 ? "" : "s", e->attempts,
            e->attempts == 1 ? "" : "s");
    for (int32_t i = 0; i < SW_TIME_PART_COUNT; i++) {
        if (!(e->part_s[i] > 0))
            continue;
        fprintf(out, "%s  %-12s %s (%.1f %%)", indent, sw_time_part_words[i],
                hours(e->part_s[i], part), 100 * e->part_s[i] / e->held_s);
        if (i == SW_TIME_STEPS && e->mfu > 0)
            fprintf(out, ", MFU %.3g %%; %.3g %% of all that was held", 100 * e->mfu,
                    100 * e->held_mfu);
        if (i == SW_TIME_REPEATED)
            fprintf(out, ", %" PRId64 " step%s", e->repeated_steps,
                    e->repeated_steps == 1 ? "" : "s");
        fputc('\n', out);
    }
    write_memory(out, e, indent);
    if (e->job_limit_s > 0)
        fprintf(out, "%s%-8s %s of the limit of %s\n", indent, "time", duration(e->job_s, took),
                duration(e->job_limit_s, limit));
}
