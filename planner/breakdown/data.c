#include "planner/breakdown/data.h"

#include "core/cost/ring.h"
#include "core/ir/walk.h"
#include "planner/search/report.h"

#include <stdlib.h>
#include <string.h>

/* Seconds of all messages of a ring, one after another. */
static double ring_seconds(const struct sw_explain *x, const struct sw_traffic_walk *sent,
                           const struct sw_span *span)
{
    const struct sw_cluster_config *cluster = &x->run->cluster;
    struct sw_ring_blocks blocks;
    struct sw_ring_time time;
    sw_ring_blocks_of(x->program, sent->op, &blocks);
    const double hops = sw_ring_sum(&blocks).sends;
    if (blocks.rings <= 1)
        return hops == 0 ? 0 : hops * sw_links_hop_seconds(cluster, span, sent->sent.bytes / hops);
    sw_ring_time_of(cluster, x->program, sent->op, 0, &time);
    return time.messages;
}

static int sum_traffic(struct sw_explain *x, struct sw_error *err)
{
    const struct sw_cluster_config *cluster = &x->run->cluster;
    struct sw_traffic_walk sent = sw_traffic_begin(x->program);
    while (sw_traffic_next(&sent)) {
        struct sw_traffic *row = sw_traffics_add(&x->traffic, &sent, SW_TRAFFIC_ANY, err);
        if (row == NULL)
            return -1;
        struct sw_span span;
        sw_links_span(cluster, &x->program->mesh, sent.axes, &span);
        const double seconds =
            sent.calls *
            (sw_op_is_ring(sent.op)
                 ? ring_seconds(x, &sent, &span)
                 : sw_links_seconds(cluster, &span, sw_op_collective(row->kind), sent.sent.bytes));
        row->seconds += seconds;
        for (uint8_t i = 0; i < sent.axes.count; i++)
            x->axis[sent.axes.axis[i]].total_seconds += seconds / sent.axes.count;
    }
    return 0;
}

int32_t sw_explain_link(const struct sw_explain *x, const struct sw_traffic *row,
                        struct sw_span *span, double *port_bytes)
{
    const struct sw_cluster_config *cluster = &x->run->cluster;
    sw_links_span(cluster, &x->program->mesh, row->axes, span);
    *port_bytes = sw_op_is_move(row->kind)
                      ? sw_links_port_bytes(cluster, span, sw_op_collective(row->kind), row->bytes)
                      : -1;
    return sw_links_outermost(span);
}

static void add_kind(struct sw_explain *x, const struct sw_op *op, double times)
{
    int32_t at = 0;
    if (sw_op_is_collective(op->kind) || sw_op_is_wait(op->kind))
        return;
    while (at < x->kind_count && x->kind[at].kind != (enum sw_op_kind)op->kind)
        at++;
    if (at == x->kind_count)
        x->kind[x->kind_count++] = (struct sw_kind_time){.kind = (enum sw_op_kind)op->kind};
    const double seconds = times * sw_cost_compute_seconds(x->program, op, &x->run->cluster, NULL);
    x->kind[at].calls += times;
    x->kind[at].seconds += seconds;
    if (op->stage == SW_STAGE_RECOMPUTE)
        x->kind[at].again_seconds += seconds;
}

static int compare_kinds(const void *a, const void *b)
{
    const struct sw_kind_time *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

static void sum_ops(struct sw_explain *x)
{
    const struct sw_program *p = x->program;
    for (struct sw_walk w = sw_walk_begin(p); sw_walk_each(&w);)
        add_kind(x, &p->ops[w.op], sw_walk_count(p, &p->regions[w.region], &p->ops[w.op]));
    qsort(x->kind, (size_t)x->kind_count, sizeof x->kind[0], compare_kinds);
    double sum = 0;
    for (int32_t i = 0; i < x->kind_count; i++)
        sum += x->kind[i].seconds;
    /* the same times summed in another order differ in their last digits */
    const double slowed = x->c.cost.compute_seconds - sum;
    x->slowed_seconds = slowed > 1e-9 * sum ? slowed : 0;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++) {
        struct sw_axis_time *t = &x->axis[a];
        t->exposed_seconds = x->c.cost.exposed_seconds[a];
        t->hidden_seconds =
            t->total_seconds > t->exposed_seconds ? t->total_seconds - t->exposed_seconds : 0;
    }
}

static void span_axes(struct sw_explain *x)
{
    const struct sw_mesh *mesh = &x->program->mesh;
    const struct sw_cluster_config nodes = {
        .link_count = 2,
        .link = {{.spans = x->run->cluster.accelerators_per_node}, {.spans = INT32_MAX}}};
    int32_t stride = 1;
    for (int32_t i = SW_AXIS_COUNT - 1; i >= 0; i--) {
        const uint8_t axis = mesh->order[i];
        const struct sw_axes axes = {.count = 1, .axis = {axis}};
        struct sw_span links, in_nodes;
        sw_links_span(&x->run->cluster, mesh, axes, &links);
        sw_links_span(&nodes, mesh, axes, &in_nodes);
        x->span[axis] = (struct sw_axis_span){.size = mesh->size[axis],
                                              .stride = stride,
                                              .per_node = in_nodes.members[1],
                                              .nodes = in_nodes.parts[1],
                                              .link = sw_links_outermost(&links)};
        stride *= mesh->size[axis];
    }
}

static int make_programs(struct sw_explain *x, struct sw_error *err)
{
    struct sw_program_options options;
    struct sw_cost evaluation;
    if (sw_plan_program_options(x->run, &x->c.decision, &options, err) != 0 ||
        sw_program_set_compile(&options, &x->programs, err) != 0 ||
        sw_cost_price(x->programs->program[SW_PROGRAM_EVALUATE], &x->run->cluster, NULL,
                      &evaluation, err) != 0 ||
        sw_cost_save_seconds(x->programs, &x->run->cluster, &x->program_seconds[SW_PROGRAM_SAVE],
                             NULL, err) != 0)
        return -1;
    x->program = x->programs->program[SW_PROGRAM_TRAIN];
    x->program_seconds[SW_PROGRAM_TRAIN] = x->c.cost.step_seconds;
    x->program_seconds[SW_PROGRAM_EVALUATE] = evaluation.step_seconds;
    return 0;
}

int sw_explain_make(const struct sw_run_config *run, const struct sw_candidate *candidate,
                    const struct sw_search *all, bool requested, struct sw_explain *x,
                    struct sw_error *err)
{
    memset(x, 0, sizeof *x);
    x->run = run;
    x->all = all;
    x->requested = requested;
    x->at = -1;
    double flops = 0;
    /* a mesh that does not fit has a price, but not from the search */
    if (sw_search_model_flops(run, &flops, err) != 0 ||
        sw_search_evaluate(run, &candidate->decision, flops, &x->c, NULL, err) != 0)
        return -1;
    x->c.fastest_seconds = candidate->fastest_seconds;
    x->c.fastest_bytes = candidate->fastest_bytes;
    x->c.order_settled = candidate->order_settled;
    x->c.may_be_chosen = candidate->may_be_chosen;
    x->c.passed_over = candidate->passed_over;
    if (x->c.reason != SW_FITS && x->c.reason != SW_REJECT_MEMORY)
        return sw_fail(err, SW_UNMET, "this mesh cannot be explained: %s", x->c.detail);
    if (make_programs(x, err) != 0)
        return -1;
    for (int32_t i = 0; i < all->count; i++)
        if (memcmp(all->mesh[i].decision.mesh.size, x->c.decision.mesh.size,
                   sizeof x->c.decision.mesh.size) == 0)
            x->at = i;
    if (sum_traffic(x, err) != 0)
        return -1;
    sum_ops(x);
    span_axes(x);
    x->memory_total = x->c.memory.reserved + x->programs->arena_bytes;
    x->run_seconds = sw_report_run_seconds(run, x->c.cost.step_seconds);
    const struct sw_saved_run saved = {.memory_total = x->memory_total,
                                       .step_seconds = x->c.cost.step_seconds,
                                       .total_steps =
                                           run->says_steps ? sw_run_steps(run) : INT64_MAX,
                                       .write_limit = run->checkpoint_bandwidth};
    if (sw_checkpoint_price_set(x->programs, &run->cluster, &saved, &x->checkpoint, err) != 0)
        return -1;
    if (sw_search_price_run(run, &x->c, x->programs, &x->run_cost, err) != 0)
        return -1;
    struct sw_decision decision = x->c.decision;
    if (sw_search_serving_programs(run, &decision, &x->serving_programs, err) != 0 ||
        (x->serving_programs != NULL &&
         sw_search_evaluate_serving(run, &decision, &x->serving, err) != 0))
        return -1;
    x->again_count = sw_search_recompute(run, &x->c.decision, x->again, err);
    if (x->again_count < 0)
        return -1;
    if (sw_memory_profile_make(x->program, &x->memory, err) != 0 ||
        sw_timeline_make(x->program, &run->cluster, NULL, &x->timeline, err) != 0 ||
        sw_explain_choices(x, err) != 0)
        return -1;
    sw_timeline_window(&x->timeline, x->program, SW_PHASE_FORWARD, &x->forward);
    sw_timeline_window(&x->timeline, x->program, SW_PHASE_BACKWARD, &x->backward);
    return 0;
}

void sw_explain_free(struct sw_explain *x)
{
    sw_program_set_free(x->programs);
    sw_program_set_free(x->serving_programs);
    sw_traffics_free(&x->traffic);
    sw_memory_profile_free(&x->memory);
    sw_timeline_free(&x->timeline);
    memset(x, 0, sizeof *x);
}
