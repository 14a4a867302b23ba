/* Texts of `plan explain` about checkpoints, with names, for the terminal and the page. */
#include "planner/breakdown/data.h"

#include "core/base/device.h"
#include "planner/command/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

static struct sw_explain_line *add(struct sw_explain_lines *lines, const char *name)
{
    struct sw_explain_line *line = &lines->line[lines->count++];
    snprintf(line->name, sizeof line->name, "%s", name);
    return line;
}

static void say(struct sw_explain_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say(struct sw_explain_line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line->text, sizeof line->text, format, arguments);
    va_end(arguments);
}

static char *percent(double share, char buffer[SW_FORMAT_BYTES])
{
    if (share > 0 && share < 1e-5)
        snprintf(buffer, SW_FORMAT_BYTES, "less than 0.001 %%");
    else
        snprintf(buffer, SW_FORMAT_BYTES, share < 0.0995 ? "%.2g %%" : "%.0f %%", share * 100);
    return buffer;
}

static void say_pause(const struct sw_checkpoint_cost *c, struct sw_explain_line *line)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES];
    if (c->background && c->copy_s == 0)
        say(line, "%s: exchange into the snapshot", sw_format_duration(c->stall_s, a));
    else
        say(line, "%s: exchange %s, %s %s", sw_format_duration(c->stall_s, a),
            sw_format_seconds(c->exchange_s, b), c->background ? "copy" : "writing",
            c->background ? sw_format_seconds(c->copy_s, d) : sw_format_duration(c->write_s, d));
}

/* Says where the snapshot is, or why there is none. */
static void say_snapshot(const struct sw_explain *x, struct sw_explain_line *line)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES];
    const struct sw_checkpoint_cost *c = &x->checkpoint;
    const struct sw_cluster_config *cluster = &x->run->cluster;
    const double node = (double)c->most_bytes * cluster->accelerators_per_node;
    const int64_t free_bytes = x->c.memory.limit - x->memory_total;
    sw_format_bytes((double)c->most_bytes, a);
    if (sw_device_row(cluster->accelerator.device)->host_bandwidth == 0)
        say(line, "%s a rank %s the %s beside %s", a, c->background ? "fit in" : "are more than",
            sw_format_bytes(free_bytes > 0 ? (double)free_bytes : 0, b),
            sw_format_bytes((double)x->memory_total, d));
    else if (cluster->host_memory_bytes == 0)
        say(line, "%s a node; host_memory is unknown: assumed to fit", sw_format_bytes(node, b));
    else
        say(line, "%s a node %s host_memory, %s", sw_format_bytes(node, b),
            c->background ? "fit in" : "are more than",
            sw_format_bytes((double)cluster->host_memory_bytes, d));
}

static void say_writing(const struct sw_checkpoint_cost *c, struct sw_explain_line *line)
{
    static const char *const because[] = {
        [SW_WRITE_LIMITED] = "checkpoint.bandwidth",
        [SW_WRITE_TOLD] = "storage.bandwidth of the cluster",
        [SW_WRITE_ASSUMED] = "storage.bandwidth is unknown: 1 GB/s per node is assumed"};
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES];
    say(line, "%s at %s/s (%s), %s", sw_format_duration(c->write_s, a),
        sw_format_bytes(c->bandwidth, b), because[c->rate],
        c->background ? "while training continues" : "in the pause");
}

static void say_interval(const struct sw_explain *x, int64_t steps, struct sw_explain_line *line)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES];
    const double every_s = (double)steps * x->c.cost.step_seconds;
    if (steps == 0)
        say(line, "every_steps: 0, at the end and when a signal asks for it");
    else
        say(line,
            "every_steps: %" PRId64 ", %s: paused %s of the time, %s computed again after failures",
            steps, sw_format_duration(every_s, a),
            percent(sw_checkpoint_paused_share(&x->checkpoint, every_s), b),
            percent(sw_checkpoint_repeated_share(&x->checkpoint, every_s), d));
}

static void say_proposal(const struct sw_explain *x, struct sw_explain_line *line)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES];
    const struct sw_checkpoint_cost *c = &x->checkpoint;
    if (c->interval_steps > 0 || isinf(c->interval_s))
        say_interval(x, c->interval_steps, line);
    else
        say(line, "every_steps: 0, at the end only: the run takes %s, the interval would be %s",
            sw_format_duration(x->run_seconds, a), sw_format_duration(c->interval_s, b));
}

static void say_failures(const struct sw_explain *x, struct sw_explain_line *line)
{
    char a[SW_FORMAT_BYTES];
    if (isinf(x->checkpoint.failure_s))
        say(line, "none (failures_per_1000_node_days is 0)");
    else
        say(line, "one every %s (%g per 1000 node-days)",
            sw_format_duration(x->checkpoint.failure_s, a),
            x->run->cluster.failures_per_1000_node_days);
}

int64_t sw_explain_interval_steps(const struct sw_explain *x)
{
    const int64_t set = x->run->checkpoint_every_steps;
    return set >= 0 ? set : x->checkpoint.interval_steps;
}

int64_t sw_explain_snapshot_bytes(const struct sw_explain *x)
{
    const bool mine = sw_device_row(x->run->cluster.accelerator.device)->host_bandwidth == 0;
    return mine ? x->checkpoint.snapshot_bytes : 0;
}

void sw_explain_checkpoint(const struct sw_explain *x, struct sw_explain_lines *out)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES];
    const struct sw_checkpoint_cost *c = &x->checkpoint;
    out->count = 0;
    say(add(out, "checkpoint"), "%s in %d file%s, at most %s of one rank",
        sw_format_bytes((double)c->bytes, a), c->files, c->files == 1 ? "" : "s",
        sw_format_bytes((double)c->most_bytes, b));
    say_snapshot(x, add(out, "snapshot"));
    say_pause(c, add(out, "pause"));
    say_writing(c, add(out, "writing"));
    say_failures(x, add(out, "failures"));
    say_proposal(x, add(out, x->run->checkpoint_every_steps < 0 ? "chosen" : "proposed"));
    if (x->run->checkpoint_every_steps >= 0)
        say_interval(x, x->run->checkpoint_every_steps, add(out, "set"));
}
