#include "planner/search/frontier.h"

#include "planner/search/run_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double sw_cost_of_kind(const struct sw_run_config *run, const struct sw_run_cost *cost,
                       enum sw_cost_kind kind)
{
    switch (kind) {
    case SW_COST_TIME:
        return cost->wall_s.value;
    case SW_COST_ACCELERATOR_HOURS:
        return cost->accelerator_hours.value;
    case SW_COST_NODE_HOURS:
        return cost->accelerator_hours.value / run->cluster.accelerators_per_node;
    case SW_COST_ENERGY:
        return cost->energy_joules.value;
    default:
        return cost->money.value;
    }
}

/* ---- A row ---- */

/* True if the cost of the whole run is known: it trains, and gives its steps. */
static bool is_priced(const struct sw_run_config *run)
{
    return run->says_steps && run->job.type == SW_JOB_TRAIN;
}

static void compare_with_limits(const struct sw_run_config *run,
                                const struct sw_cost_limits *limits, struct sw_frontier_row *row)
{
    row->keeps = row->ends;
    for (int32_t i = 0; i < limits->count; i++) {
        const struct sw_cost_limit *limit = &limits->limit[i];
        const double over = sw_cost_of_kind(run, &row->cost, limit->kind) - limit->most;
        row->over[i] = isfinite(over) ? over : INFINITY;
        row->keeps = row->keeps && row->over[i] <= 0;
    }
}

/* Adds the search's choice for a stage, on the nodes of `run`: the mesh of the first stage, the
 * costs of all. */
static int add_choice(const struct sw_run_config *run, const struct sw_candidate *chosen,
                      bool first, struct sw_frontier_row *row, struct sw_error *err)
{
    enum { STEPS = 1000 };
    const int32_t accelerators = run->cluster.nodes * run->cluster.accelerators_per_node;
    struct sw_run_cost cost;
    double end_s = STEPS * chosen->cost.step_seconds, hours = end_s / 3600 * accelerators;
    if (first) {
        row->fits = row->ends = true;
        row->mesh = chosen->decision.mesh;
        row->step_seconds = chosen->cost.step_seconds;
    }
    if (is_priced(run)) {
        if (sw_search_price_run(run, chosen, NULL, &cost, err) != 0)
            return -1;
        if (first)
            row->cost = cost;
        else
            sw_run_cost_add(&row->cost, &cost);
        row->ends = row->ends && isfinite(cost.wall_s.value);
        end_s = cost.wall_s.value;
        hours = cost.accelerator_hours.value;
    }
    row->end_s = row->ends ? row->end_s + end_s : INFINITY;
    row->hours = row->ends ? row->hours + hours : INFINITY;
    return 0;
}

/* Searches a stage, or the whole run, on the row's nodes. A mistake at that number alone, such as
 * conflicting rules, leaves it without a mesh. */
static int search_stage(const struct sw_run_config *run, bool first, struct sw_frontier_row *row,
                        struct sw_error *err)
{
    struct sw_run_config part;
    struct sw_search search = {0};
    struct sw_error why = {0};
    int status = 0;
    if (sw_run_at_nodes(run, row->nodes, &part, err) != 0)
        return -1;
    if (sw_search_meshes_alone(&part, 1, &search, &why) != 0) {
        if (why.status == SW_ENVIRONMENT)
            return sw_fail_as(err, &why);
        snprintf(row->why, sizeof row->why, "%.159s", why.message);
        row->fits = row->ends = false;
        return 0;
    }
    const struct sw_candidate *best = search.count > 0 ? &search.mesh[0] : NULL;
    if (search.feasible > 0) {
        status = add_choice(&part, best, first, row, err);
    } else {
        row->fits = row->ends = false;
        if (best != NULL && best->reason == SW_REJECT_MEMORY)
            row->lacking_bytes = best->memory.total + best->memory.headroom - best->memory.limit;
    }
    sw_search_free(&search);
    return status;
}

static int search_row(const struct sw_run_config *stage, int32_t stages,
                      const struct sw_cost_limits *limits, struct sw_frontier_row *row,
                      struct sw_error *err)
{
    for (int32_t i = 0; i < stages && (i == 0 || row->fits); i++)
        if (search_stage(&stage[i], i == 0, row, err) != 0)
            return -1;
    compare_with_limits(stage, limits, row);
    return 0;
}

/* ---- The frontier ---- */

static bool beats(const struct sw_frontier_row *a, const struct sw_frontier_row *b)
{
    return a->end_s <= b->end_s && a->hours <= b->hours &&
           (a->end_s < b->end_s || a->hours < b->hours);
}

/* True if `a` is better by the first number, or equal and better by the second. */
static bool is_less(double a, double b, double then_a, double then_b)
{
    return a < b || (a == b && then_a < then_b);
}

static bool ends_first(const struct sw_frontier_row *a, const struct sw_frontier_row *b)
{
    return is_less(a->end_s, b->end_s, a->hours, b->hours);
}

static bool costs_least(const struct sw_frontier_row *a, const struct sw_frontier_row *b)
{
    return is_less(a->hours, b->hours, a->end_s, b->end_s);
}

/* The best of the rows that fit and, with only_kept, keep the limits; -1: none. */
static int32_t best_of(const struct sw_frontier *f, bool only_kept,
                       bool (*better)(const struct sw_frontier_row *,
                                      const struct sw_frontier_row *))
{
    int32_t best = -1;
    for (int32_t i = 0; i < f->count; i++)
        if (f->row[i].ends && (f->row[i].keeps || !only_kept) &&
            (best < 0 || better(&f->row[i], &f->row[best])))
            best = i;
    return best;
}

void sw_frontier_mark(struct sw_frontier *f)
{
    f->fitting = f->undominated = 0;
    for (int32_t i = 0; i < f->count; i++) {
        struct sw_frontier_row *row = &f->row[i];
        int32_t by = -1;
        for (int32_t k = 0; row->fits && k < f->count; k++)
            if (f->row[k].ends && beats(&f->row[k], row) &&
                (by < 0 || costs_least(&f->row[k], &f->row[by])))
                by = k;
        row->undominated = row->ends && by < 0;
        row->beaten_by = by < 0 ? 0 : f->row[by].nodes;
        f->fitting += row->fits;
        f->undominated += row->undominated;
    }
    f->best_end = best_of(f, false, ends_first);
    f->best_hours = best_of(f, false, costs_least);
}

/* Distance of a row from keeping all limits: its largest relative excess. */
static double distance(const struct sw_frontier *f, const struct sw_frontier_row *row)
{
    double most = 0;
    for (int32_t i = 0; i < f->limits.count; i++)
        most = fmax(most, row->over[i] / f->limits.limit[i].most);
    return most;
}

static bool is_cheapest_wanted(const struct sw_run_config *run, const struct sw_cost_limits *limits)
{
    return run->prefer == SW_PREFER_COST || (limits->has_deadline && limits->count == 1);
}

/* Chooses the cheapest if costs are preferred or only a deadline is given; else, with a budget, the
 * one that ends first; else the run's own number. */
static void choose(const struct sw_run_config *run, struct sw_frontier *f)
{
    const bool own = f->own >= 0 && f->row[f->own].ends && f->limits.count == 0;
    f->by = is_cheapest_wanted(run, &f->limits) ? SW_CHOICE_BY_HOURS
            : own                               ? SW_CHOICE_BY_RUN
                                                : SW_CHOICE_BY_END;
    f->chosen = f->by == SW_CHOICE_BY_RUN
                    ? f->own
                    : best_of(f, true, f->by == SW_CHOICE_BY_END ? ends_first : costs_least);
    f->closest = -1;
    for (int32_t i = 0; f->chosen < 0 && i < f->count; i++)
        if (f->row[i].fits &&
            (f->closest < 0 || distance(f, &f->row[i]) < distance(f, &f->row[f->closest])))
            f->closest = i;
}

int sw_cost_limits_check(const struct sw_run_config *run, const struct sw_cost_limits *limits,
                         struct sw_error *err)
{
    for (int32_t i = 0; i < limits->count; i++) {
        const struct sw_cost_limit *limit = &limits->limit[i];
        const char *option = limit->kind == SW_COST_TIME ? "--deadline" : "--budget";
        if (!is_priced(run))
            return sw_fail(
                err, SW_BAD_INPUT,
                "%s '%s' needs a training and its steps; set optimizer.total_steps in the run",
                option, limit->text);
        if (limit->kind == SW_COST_MONEY && !(run->cluster.price_per_hour > 0))
            return sw_fail(err, SW_BAD_INPUT,
                           "%s '%s' needs a price; set price_per_accelerator_hour in the cluster",
                           option, limit->text);
        if (limit->kind == SW_COST_ENERGY && !(run->cluster.accelerator.power_watts > 0))
            return sw_fail(err, SW_BAD_INPUT, "%s '%s' needs a power; set power in the accelerator",
                           option, limit->text);
    }
    return 0;
}

static int begin(const struct sw_run_config *stage, int32_t stages, int32_t count,
                 const struct sw_cost_limits *limits, struct sw_frontier *out, struct sw_error *err)
{
    *out = (struct sw_frontier){.own = -1, .whole_run = true, .stages = stages};
    if (limits != NULL)
        out->limits = *limits;
    for (int32_t i = 0; i < stages; i++) {
        out->whole_run = out->whole_run && is_priced(&stage[i]);
        if (sw_cost_limits_check(&stage[i], &out->limits, err) != 0)
            return -1;
    }
    out->row = calloc((size_t)count, sizeof *out->row);
    if (out->row == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the numbers of nodes");
    out->count = count;
    return 0;
}

int sw_frontier_find_stages(const struct sw_run_config *stage, int32_t stages,
                            const struct sw_node_list *nodes, const struct sw_cost_limits *limits,
                            struct sw_frontier *out, struct sw_error *err)
{
    if (begin(stage, stages, nodes->count, limits, out, err) != 0)
        return -1;
    for (int32_t i = 0; i < nodes->count; i++) {
        out->row[i].nodes = nodes->nodes[i];
        if (nodes->nodes[i] == stage->cluster.nodes)
            out->own = i;
        if (search_row(stage, stages, &out->limits, &out->row[i], err) != 0) {
            sw_frontier_free(out);
            return -1;
        }
    }
    sw_frontier_mark(out);
    choose(stage, out);
    return 0;
}

int sw_frontier_find(const struct sw_run_config *run, const struct sw_node_list *nodes,
                     const struct sw_cost_limits *limits, struct sw_frontier *out,
                     struct sw_error *err)
{
    return sw_frontier_find_stages(run, 1, nodes, limits, out, err);
}

int sw_frontier_of_run(const struct sw_run_config *run, const struct sw_candidate *chosen,
                       const struct sw_cost_limits *limits, struct sw_frontier *out,
                       struct sw_error *err)
{
    if (begin(run, 1, 1, limits, out, err) != 0)
        return -1;
    out->own = 0;
    out->row[0].nodes = run->cluster.nodes;
    if (add_choice(run, chosen, true, &out->row[0], err) != 0) {
        sw_frontier_free(out);
        return -1;
    }
    compare_with_limits(run, &out->limits, &out->row[0]);
    sw_frontier_mark(out);
    choose(run, out);
    return 0;
}

void sw_frontier_free(struct sw_frontier *frontier)
{
    free(frontier->row);
    frontier->row = NULL;
    frontier->count = 0;
}
