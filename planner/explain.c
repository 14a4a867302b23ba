/* `plan explain`: where the memory and the time of one mesh go. */
#include "planner/command.h"

#include "planner/format.h"
#include "planner/links.h"

#include <string.h>

enum { MAX_TRAFFIC = 64 };

/* Adds up the collectives, and the rings inside attention, by kind and group. */
static int32_t sum_traffic(const struct sw_program *p, const struct sw_run_config *run,
                           struct sw_traffic out[MAX_TRAFFIC])
{
    int32_t count = 0;
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        const double times =
            region->repeat *
            (region->phase == SW_PHASE_UPDATE ? 1.0 : (double)p->accumulation_steps);
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            const struct sw_axes axes = sw_axes_effective(&p->mesh, op->axes);
            const bool ring =
                op->kind == SW_OP_RING_ATTENTION || op->kind == SW_OP_RING_ATTENTION_GRAD;
            if (axes.count == 0 || (!ring && !sw_op_is_collective(op->kind)))
                continue;
            int32_t at = 0;
            while (at < count && (out[at].kind != (enum sw_op_kind)op->kind ||
                                  !sw_axes_equal(out[at].axes, axes)))
                at++;
            if (at == MAX_TRAFFIC)
                continue;
            if (at == count)
                out[count++] = (struct sw_traffic){.kind = (enum sw_op_kind)op->kind, .axes = axes};
            const double bytes = (double)sw_op_communication_bytes(p, op);
            struct sw_span span;
            sw_links_span(&run->cluster, &p->mesh, axes, &span);
            const double hops = op->kind == SW_OP_RING_ATTENTION_GRAD ? span.ranks : span.ranks - 1;
            out[at].calls += times;
            out[at].bytes += times * bytes;
            out[at].seconds +=
                times * (ring ? hops * sw_links_hop_seconds(&run->cluster, &span, bytes / hops)
                              : sw_links_seconds(&run->cluster, &span, op->kind, bytes));
        }
    }
    return count;
}

static void print_regions(FILE *out, const struct sw_candidate *c)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES];
    fprintf(out, "\n%-20s %10s %10s %10s\n", "region", "time", "compute", "waiting");
    for (int32_t r = 0; r < c->cost.region_count; r++) {
        const struct sw_region_cost *region = &c->cost.region[r];
        fprintf(out, "%-20s %10s %10s %10s\n", region->name, sw_format_seconds(region->seconds, a),
                sw_format_seconds(region->compute_seconds, b),
                sw_format_seconds(region->exposed_seconds, d));
    }
}

static void print_traffic(FILE *out, const struct sw_run_config *run, const struct sw_mesh *mesh,
                          const struct sw_traffic *traffic, int32_t count)
{
    char axes[64], bytes[SW_FORMAT_BYTES], seconds[SW_FORMAT_BYTES], calls[SW_FORMAT_BYTES];
    if (count == 0)
        return;
    fprintf(out, "\n%-20s %-14s %6s %10s %10s %10s  %s\n", "communication", "axes", "ranks",
            "calls", "sent", "time", "over");
    for (int32_t i = 0; i < count; i++) {
        struct sw_span span;
        sw_links_span(&run->cluster, mesh, traffic[i].axes, &span);
        const int32_t link = sw_links_outermost(&span);
        fprintf(out, "%-20s %-14s %6d %10s %10s %10s  %s\n", sw_op_info(traffic[i].kind)->name,
                sw_axes_format(traffic[i].axes, axes, sizeof axes), span.ranks,
                sw_format_count(traffic[i].calls, calls), sw_format_bytes(traffic[i].bytes, bytes),
                sw_format_seconds(traffic[i].seconds, seconds),
                link < 0 ? "-" : run->cluster.link[link].name);
    }
    fprintf(out, "of one rank in one step; most of the time is hidden behind compute\n");
}

int sw_command_explain(const struct sw_options *options)
{
    struct sw_session session;
    struct sw_search search = {0};
    struct sw_program *program = NULL;
    struct sw_candidate c;
    struct sw_traffic traffic[MAX_TRAFFIC];
    struct sw_error err = {0};
    int status = sw_session_open(options, false, &session);
    if (status != SW_OK)
        goto out;
    const struct sw_run_config *run = &session.run;
    if (sw_search_run(run, &search, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    /* one mesh that only lacks memory can be explained: that is when one wants to know most */
    if (search.feasible == 0 && (search.count != 1 || search.mesh[0].reason != SW_REJECT_MEMORY)) {
        status = sw_command_unmet(run, &search);
        goto out;
    }
    if (sw_search_evaluate(run, &search.mesh[0].decision, 0, &c, &program, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    c.mfu = search.mesh[0].mfu;
    const int32_t count = sum_traffic(program, run, traffic);
    if (options->program) {
        sw_program_print(stdout, program);
    } else if (options->json) {
        if (sw_json_explain(stdout, run, &c, traffic, count, &err) != 0) {
            status = sw_command_fail(&err);
            goto out;
        }
    } else {
        fprintf(stdout, "%s on %s\n", run->name, run->cluster.name);
        sw_report_choice(stdout, &c);
        print_regions(stdout, &c);
        print_traffic(stdout, run, &c.decision.mesh, traffic, count);
    }
    if (search.feasible == 0)
        status = sw_command_unmet(run, &search);
out:
    sw_program_free(program);
    sw_search_free(&search);
    sw_session_free(&session);
    return status;
}
