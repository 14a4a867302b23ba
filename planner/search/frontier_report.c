/* Compared numbers of nodes: the table for people, and JSON. */
#include "core/base/json.h"
#include "planner/command/format.h"
#include "planner/search/frontier.h"
#include "planner/search/report.h"
#include "planner/search/run_cost.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { WIDTH = 100, NOTE = SW_FRONTIER_NOTE };

/* ---- Words ---- */

/* "10,257" for large amounts, "3.1" for small ones. Returns buffer. */
static const char *format_amount(double amount, char buffer[SW_FORMAT_BYTES])
{
    if (!isfinite(amount))
        snprintf(buffer, SW_FORMAT_BYTES, "never ends");
    else if (amount < 9.95)
        snprintf(buffer, SW_FORMAT_BYTES, "%.2g", amount);
    else
        sw_format_count(amount, buffer);
    return buffer;
}

char *sw_cost_format(const struct sw_run_config *run, enum sw_cost_kind kind, double amount,
                     char buffer[SW_FORMAT_RATE])
{
    const char *const units[SW_COST_KINDS] = {[SW_COST_ACCELERATOR_HOURS] = "accelerator-hours",
                                              [SW_COST_NODE_HOURS] = "node-hours",
                                              [SW_COST_ENERGY] = "kWh",
                                              [SW_COST_MONEY] = sw_run_unit_of_price(run)};
    char text[SW_FORMAT_BYTES];
    if (!isfinite(amount))
        snprintf(buffer, SW_FORMAT_RATE, "never ends");
    else if (kind == SW_COST_TIME)
        snprintf(buffer, SW_FORMAT_RATE, "%s", sw_format_duration(amount, text));
    else
        snprintf(buffer, SW_FORMAT_RATE, "%s %s",
                 format_amount(kind == SW_COST_ENERGY ? amount / 3.6e6 : amount, text),
                 units[kind]);
    return buffer;
}

/* "--budget '2000 GPU-hours'". Returns buffer. */
static const char *name_limit(const struct sw_cost_limit *limit, char *buffer, size_t bytes)
{
    snprintf(buffer, bytes, "--%s '%s'", limit->kind == SW_COST_TIME ? "deadline" : "budget",
             limit->text);
    return buffer;
}

/* "misses --deadline '36 h' by 2.1 h" for every missed limit. Returns buffer. */
static const char *say_missed(const struct sw_run_config *run, const struct sw_frontier *f,
                              const struct sw_frontier_row *row, char *buffer, size_t bytes)
{
    char limit[SW_LIMIT_TEXT + 16], by[SW_FORMAT_RATE];
    size_t used = 0;
    buffer[0] = '\0';
    if (row->fits && !row->ends)
        snprintf(buffer, bytes, "never ends");
    for (int32_t i = 0; i < f->limits.count && used < bytes && row->ends; i++)
        if (row->over[i] > 0)
            used += (size_t)snprintf(
                buffer + used, bytes - used, "%s%s by %s", used > 0 ? ", " : "misses ",
                name_limit(&f->limits.limit[i], limit, sizeof limit),
                sw_cost_format(run, f->limits.limit[i].kind, row->over[i], by));
    return buffer;
}

/* All limits. Returns buffer. */
static const char *say_limits(const struct sw_frontier *f, char *buffer, size_t bytes)
{
    char limit[SW_LIMIT_TEXT + 16];
    size_t used = 0;
    buffer[0] = '\0';
    for (int32_t i = 0; i < f->limits.count && used < bytes; i++)
        used += (size_t)snprintf(buffer + used, bytes - used, "%s%s", i > 0 ? " and " : "",
                                 name_limit(&f->limits.limit[i], limit, sizeof limit));
    return buffer;
}

const char *sw_frontier_why(const struct sw_run_config *run, const struct sw_frontier *f,
                            char *buffer, size_t bytes)
{
    char limits[NOTE];
    const bool limited = f->limits.count > 0;
    const char *best = f->by == SW_CHOICE_BY_HOURS ? "the fewest accelerator-hours"
                       : f->by == SW_CHOICE_BY_END ? "the first to end"
                                                   : "the run's own number of nodes";
    snprintf(buffer, bytes, "%s%s%s%s", best, limited ? " of those that keep " : "",
             limited ? say_limits(f, limits, sizeof limits) : "",
             run->prefer == SW_PREFER_COST ? " (prefer: cost)" : "");
    return buffer;
}

const char *sw_frontier_note(const struct sw_run_config *run, const struct sw_frontier *f,
                             int32_t i, char note[SW_FRONTIER_NOTE])
{
    const struct sw_frontier_row *row = &f->row[i];
    char missed[NOTE], beaten[96] = "", lacks[SW_FORMAT_BYTES], unfit[NOTE] = "";
    if (row->beaten_by > 0)
        snprintf(beaten, sizeof beaten, "%d nodes end no later and cost no more",
                 (int)row->beaten_by);
    if (!row->fits && row->lacking_bytes > 0)
        snprintf(unfit, sizeof unfit, "no mesh fits: the closest lacks %s",
                 sw_format_bytes((double)row->lacking_bytes, lacks));
    else if (!row->fits)
        snprintf(unfit, sizeof unfit, "no mesh fits%s%s", row->why[0] != '\0' ? ": " : "",
                 row->why);
    const char *const parts[] = {unfit,
                                 i == f->own ? "the run's own" : "",
                                 i == f->best_hours ? "fewest accelerator-hours" : "",
                                 i == f->best_end ? "ends first" : "",
                                 beaten,
                                 say_missed(run, f, row, missed, sizeof missed)};
    size_t used = 0;
    note[0] = '\0';
    for (size_t k = 0; k < sizeof parts / sizeof parts[0] && used < NOTE; k++)
        if (parts[k][0] != '\0')
            used +=
                (size_t)snprintf(note + used, NOTE - used, "%s%s", used > 0 ? "; " : "", parts[k]);
    return note;
}

/* ---- The table ---- */

struct columns {
    bool mesh, money, energy;
};

static void print_header(FILE *out, const struct sw_run_config *run, const struct sw_frontier *f,
                         const struct columns *columns)
{
    fprintf(out, "  %6s", "nodes");
    if (columns->mesh)
        fprintf(out, "  %-16s", "mesh_dim");
    fprintf(out, " %10s %11s %18s", "step", f->whole_run ? "end" : "1,000 steps",
            "accelerator-hours");
    if (columns->money)
        fprintf(out, " %14s", sw_run_unit_of_price(run));
    if (columns->energy)
        fprintf(out, " %12s", "energy");
    fputc('\n', out);
}

static void print_row(FILE *out, const struct sw_run_config *run, const struct sw_frontier *f,
                      int32_t i, const struct columns *columns)
{
    const struct sw_frontier_row *row = &f->row[i];
    char mesh[64], step[SW_FORMAT_BYTES], text[SW_FORMAT_RATE], number[SW_FORMAT_BYTES], note[NOTE];
    fprintf(out, "%s %6d", i == f->chosen ? sw_format_mark(true) : " ", (int)row->nodes);
    if (columns->mesh)
        fprintf(out, "  %-16s", sw_mesh_format(&row->mesh, mesh, sizeof mesh));
    fprintf(out, " %10s %11s", sw_format_seconds(row->step_seconds, step),
            sw_cost_format(run, SW_COST_TIME, row->end_s, text));
    fprintf(out, " %18s", format_amount(row->hours, number));
    if (columns->money)
        fprintf(out, " %14s", format_amount(row->cost.money.value, number));
    if (columns->energy)
        fprintf(out, " %12s",
                sw_cost_format(run, SW_COST_ENERGY, row->cost.energy_joules.value, text));
    sw_frontier_note(run, f, i, note);
    fprintf(out, "%s%s\n", note[0] != '\0' ? "  " : "", note);
}

/* Reports which rows are left out, and why. */
static void print_rest(FILE *out, const struct sw_frontier *f, bool all)
{
    int32_t hidden = 0;
    for (int32_t i = 0; i < f->count; i++)
        hidden += f->row[i].fits && !f->row[i].undominated && i != f->own && i != f->chosen && !all;
    if (hidden > 0)
        fprintf(out,
                "... and %d more, each no better in its end or its hours than one of these "
                "(--rejected)\n",
                (int)hidden);
}

static void print_unfit(FILE *out, const struct sw_run_config *run, const struct sw_frontier *f,
                        bool all)
{
    char note[NOTE], text[SW_MOST_NODE_COUNTS * 8] = "";
    size_t used = 0;
    for (int32_t i = 0; i < f->count && used + 16 < sizeof text; i++) {
        if (f->row[i].fits)
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", used > 0 ? ", " : "",
                                 (int)f->row[i].nodes);
        if (all)
            fprintf(out, "%s %6d  %s\n", sw_format_mark(false), (int)f->row[i].nodes,
                    sw_frontier_note(run, f, i, note));
    }
    if (used == 0 || all)
        return;
    const int at = fprintf(out, "no mesh fits on ");
    sw_format_wrapped(out, text, at, at, WIDTH);
}

static void print_deadline(FILE *out, const struct sw_frontier *f)
{
    char date[SW_LIMIT_TEXT], now[SW_LIMIT_TEXT], in[SW_FORMAT_BYTES];
    for (int32_t i = 0; i < f->limits.count; i++) {
        const struct sw_cost_limit *limit = &f->limits.limit[i];
        if (limit->is_date)
            fprintf(out, "deadline  %s: %s from now, %s\n", sw_date_format(limit->at, date),
                    sw_format_duration(limit->most, in), sw_date_format(f->limits.now, now));
    }
}

/* Settings with which the search shows a row's meshes. Returns buffer. */
static const char *settings_of(const struct sw_run_config *run, int32_t nodes, char *buffer,
                               size_t bytes)
{
    if (nodes <= run->cluster_nodes)
        snprintf(buffer, bytes, "--set nodes=%d", (int)nodes);
    else
        snprintf(buffer, bytes, "--set cluster.nodes=%d%s", (int)nodes,
                 run->nodes != NULL ? " --set nodes=null" : "");
    return buffer;
}

void sw_frontier_tell(FILE *out, const struct sw_run_config *run, const struct sw_frontier *f,
                      double seconds, bool all)
{
    char a[SW_FORMAT_RATE], b[SW_FORMAT_RATE], why[NOTE], line[NOTE + 128];
    const int32_t wide = sw_format_columns();
    const struct columns columns = {.mesh = wide >= 76,
                                    .money = f->whole_run && run->cluster.price_per_hour > 0,
                                    .energy = f->whole_run && wide >= 111 &&
                                              run->cluster.accelerator.power_watts > 0};
    fprintf(out, "%s (%s): %s of nodes, ", run->name, run->cluster.name,
            sw_format_counted(f->count, "number", a));
    if (f->count > 1)
        fprintf(out, "%d to %d, ", (int)f->row[0].nodes, (int)f->row[f->count - 1].nodes);
    fprintf(out, "of %s each; ",
            sw_format_counted(run->cluster.accelerators_per_node, "accelerator", a));
    if (f->stages > 1)
        fprintf(out, "%d stages, mesh and step of the first; ", (int)f->stages);
    if (f->whole_run && f->stages > 1)
        fprintf(out, "saves, starts and failures\n");
    else if (f->whole_run)
        fprintf(out, "%s, saves, starts and failures\n",
                sw_format_counted((double)sw_run_steps(run), "step", b));
    else
        fprintf(out, "steps alone: optimizer.total_steps of a training is not said\n");
    fprintf(out,
            "searched  %s in %s: %d fit, of which %d are undominated: no other ends as early "
            "for as few hours\n",
            sw_format_counted(f->count, "number", a), sw_format_seconds(seconds, b),
            (int)f->fitting, (int)f->undominated);
    print_deadline(out, f);
    if (f->fitting > 0) {
        fputc('\n', out);
        print_header(out, run, f, &columns);
    }
    for (int32_t i = 0; i < f->count; i++)
        if (f->row[i].fits && (f->row[i].undominated || all || i == f->own || i == f->chosen))
            print_row(out, run, f, i, &columns);
    print_rest(out, f, all);
    print_unfit(out, run, f, all);
    if (f->chosen < 0)
        return;
    const int32_t nodes = f->row[f->chosen].nodes;
    snprintf(line, sizeof line, "%s: %s; 'plan search RUN %s' shows its meshes",
             sw_format_counted(nodes, "node", a), sw_frontier_why(run, f, why, sizeof why),
             settings_of(run, nodes, b, sizeof b));
    fprintf(out, "\nchosen    ");
    sw_format_wrapped(out, line, 10, 10, WIDTH);
}

/* ---- Missed limits ---- */

void sw_frontier_unmet(const struct sw_run_config *run, const struct sw_frontier *f,
                       struct sw_error *err)
{
    char missed[NOTE], limits[NOTE];
    if (f->closest < 0) {
        sw_fail(err, SW_UNMET,
                "no mesh fits '%s' on any of these numbers of nodes; give others, or "
                "see 'plan search RUN --set nodes=%d'",
                run->name, (int)f->row[f->count - 1].nodes);
        return;
    }
    const struct sw_frontier_row *row = &f->row[f->closest];
    if (!row->ends) {
        sw_fail(
            err, SW_UNMET,
            "'%s' never ends on any of these numbers of nodes: failures or its time limit leave it "
            "no time from one save to the next; save more often (checkpoint.every_steps)",
            run->name);
        return;
    }
    say_missed(run, f, row, missed, sizeof missed);
    if (f->count == 1)
        sw_fail(err, SW_UNMET, "'%s' %s; compare other numbers of nodes with --nodes", run->name,
                missed);
    else
        sw_fail(err, SW_UNMET,
                "'%s' keeps %s on no number of nodes; the closest is %d, which %s; allow more, or "
                "give other numbers",
                run->name, say_limits(f, limits, sizeof limits), (int)row->nodes, missed);
}

void sw_frontier_tell_limits(FILE *out, const struct sw_run_config *run,
                             const struct sw_frontier *f)
{
    char limit[SW_LIMIT_TEXT + 16], takes[SW_FORMAT_RATE], by[SW_FORMAT_RATE];
    const struct sw_frontier_row *row = &f->row[0];
    print_deadline(out, f);
    for (int32_t i = 0; i < f->limits.count; i++) {
        const struct sw_cost_limit *l = &f->limits.limit[i];
        const bool kept = row->over[i] <= 0;
        fprintf(out, "limit     %s: ", name_limit(l, limit, sizeof limit));
        if (!row->ends) {
            fprintf(out, "the run never ends\n");
            continue;
        }
        fprintf(out, "the run takes %s, ",
                sw_cost_format(run, l->kind, row->over[i] + l->most, takes));
        fprintf(out, "%s %s\n",
                sw_cost_format(run, l->kind, kept ? -row->over[i] : row->over[i], by),
                kept ? "less" : "more");
    }
}

/* ---- JSON ---- */

static const char *kind_name(enum sw_cost_kind kind)
{
    static const char *const names[SW_COST_KINDS] = {"wall_seconds", "accelerator_hours",
                                                     "node_hours", "energy_joules", "money"};
    return names[kind];
}

static void write_limits(struct sw_json *j, const struct sw_cost_limits *limits)
{
    sw_json_array(j, "limits");
    for (int32_t i = 0; i < limits->count; i++) {
        sw_json_object(j, NULL);
        sw_json_text(j, "limit", limits->limit[i].text);
        sw_json_text(j, "of", kind_name(limits->limit[i].kind));
        sw_json_number(j, "most", limits->limit[i].most);
        if (limits->limit[i].is_date)
            sw_json_integer(j, "at", limits->limit[i].at);
        else
            sw_json_null(j, "at");
        sw_json_end(j);
    }
    sw_json_end(j);
    if (limits->now > 0)
        sw_json_integer(j, "now", limits->now);
    else
        sw_json_null(j, "now");
}

static void write_row(struct sw_json *j, const struct sw_run_config *run,
                      const struct sw_frontier *f, const struct sw_frontier_row *row)
{
    char mesh[64];
    sw_json_object(j, NULL);
    sw_json_integer(j, "nodes", row->nodes);
    sw_json_text(j, "mesh_dim", row->fits ? sw_mesh_format(&row->mesh, mesh, sizeof mesh) : NULL);
    sw_json_number(j, "step_seconds", row->fits ? row->step_seconds : NAN);
    sw_run_cost_write_json(j, "run_cost", run, &row->cost);
    sw_json_bool(j, "undominated", row->undominated);
    if (row->beaten_by > 0)
        sw_json_integer(j, "beaten_by", row->beaten_by);
    else
        sw_json_null(j, "beaten_by");
    sw_json_bool(j, "keeps_limits", row->fits && row->keeps);
    sw_json_array(j, "over");
    for (int32_t i = 0; row->fits && i < f->limits.count; i++)
        sw_json_number(j, NULL, row->over[i]);
    sw_json_end(j);
    sw_json_end(j);
}

static void write_nodes(struct sw_json *j, const char *key, const struct sw_frontier *f, int32_t at)
{
    if (at >= 0)
        sw_json_integer(j, key, f->row[at].nodes);
    else
        sw_json_null(j, key);
}

void sw_frontier_write_json(struct sw_json *j, const char *key, const struct sw_run_config *run,
                            const struct sw_frontier *f)
{
    char why[NOTE];
    sw_json_object(j, key);
    write_nodes(j, "chosen", f, f->chosen);
    sw_json_text(j, "why", f->chosen >= 0 ? sw_frontier_why(run, f, why, sizeof why) : NULL);
    write_nodes(j, "closest", f, f->closest);
    write_nodes(j, "own", f, f->own);
    write_nodes(j, "fewest_hours", f, f->best_hours);
    write_nodes(j, "first_end", f, f->best_end);
    write_limits(j, &f->limits);
    sw_json_array(j, "counts");
    for (int32_t i = 0; i < f->count; i++)
        write_row(j, run, f, &f->row[i]);
    sw_json_end(j);
    sw_json_end(j);
}
