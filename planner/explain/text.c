/* `plan explain` for a terminal. */
#include "planner/explain/explain.h"

#include "planner/command/format.h"
#include "core/base/quantize.h"
#include "core/cost/links.h"
#include "planner/search/run_cost.h"

#include <inttypes.h>
#include <string.h>

/* The programs' transients share one range behind the state, one at a time. */
static void print_evaluation(FILE *out, const struct sw_explain *x)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES];
    const struct sw_program_set *set = x->programs;
    const int64_t state = set->state.bytes;
    const int64_t mine = set->program[SW_PROGRAM_EVALUATE]->arena_bytes - state;
    const int64_t step = set->program[SW_PROGRAM_TRAIN]->arena_bytes - state;
    fprintf(out, "evaluation %s a batch; its %s %s the step's %s\n",
            sw_format_seconds(x->program_seconds[SW_PROGRAM_EVALUATE], a),
            sw_format_bytes((double)mine, b), mine <= step ? "lie in" : "are more than",
            sw_format_bytes((double)step, d));
}

/* Prints both arenas, which are used at different times on the same ranks. */
static void print_serving(FILE *out, const struct sw_explain *x)
{
    const struct sw_serve_price *s = &x->serving.serve;
    const struct sw_state *state = x->serving_programs != NULL ? &x->serving_programs->state : NULL;
    const int64_t scale_bytes = x->serving.memory.scales;
    const bool narrow = sw_has_scales(s->weights);
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES], e[SW_FORMAT_BYTES];
    char scales[SW_FORMAT_BYTES], sequences[SW_FORMAT_RATE];
    if (state == NULL)
        return;
    fprintf(out,
            "serving   %s of %" PRId64 " tokens: %s a token, %s tokens/s of "
            "decoding; the first after %s of %" PRId64 " prompt tokens read alone, %" PRId64
            " %s\n",
            sw_format_counted((double)s->texts, "sequence", sequences), s->max_tokens,
            sw_format_seconds(x->serving.cost.step_seconds, a),
            sw_format_number(x->serving.tokens_per_second, d),
            sw_format_seconds(s->first_seconds, b), s->prompt_tokens,
            s->mixes ? s->token_budget : s->chunk, s->mixes ? "per call" : "at a time");
    fprintf(out,
            "          a rank has %s: weights %s%s%s%s%s, cache %s in %s%s%s%s; it sends %s for a "
            "token%s\n",
            sw_format_bytes((double)x->serving_programs->arena_bytes, a),
            sw_format_bytes((double)state->parameter_bytes, b),
            x->serving.decision.serve.stream_weights == SW_STREAM_ALWAYS ? " streamed" : "",
            narrow ? " in " : "", narrow ? sw_dtype_name(s->weights) : "",
            narrow ? " and scales" : "", sw_format_bytes((double)state->cache_bytes, d),
            sw_dtype_name(s->cache), scale_bytes > 0 ? " (scales " : "",
            scale_bytes > 0 ? sw_format_bytes((double)scale_bytes, scales) : "",
            scale_bytes > 0 ? ")" : "", sw_format_bytes((double)s->decode_bytes, e),
            sw_search_serving_fits(x->run, x->serving_programs) ? "" : "; that does not fit");
    if (s->chunk_bytes[SW_GATHER_KV] > 0)
        fprintf(out,
                "          for a chunk of prompts %s are gathered: it sends %s (queries), %s (keys "
                "and values)\n",
                sw_prefill_gather_name(s->gathers),
                sw_format_bytes((double)s->chunk_bytes[SW_GATHER_QUERIES], a),
                sw_format_bytes((double)s->chunk_bytes[SW_GATHER_KV], b));
}

static void print_run(FILE *out, const struct sw_explain *x)
{
    char line[160], limit[256];
    if (!x->run->says_steps)
        return;
    fprintf(out, "run       %s\n",
            sw_report_run(x->run, x->c.cost.step_seconds, line, sizeof line));
    if (sw_report_time_limit(x->run, x->run_seconds, limit, sizeof limit)[0] != '\0')
        fprintf(out, "          %s\n", limit);
    sw_report_cost_line(out, x->run, &x->run_cost);
}

static void print_memory(FILE *out, const struct sw_explain *x)
{
    const struct sw_memory_profile *m = &x->memory;
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES], e[SW_FORMAT_BYTES];
    fprintf(out, "\n%-20s %10s %10s\n", "memory of a rank", "at peak", "at most");
    for (int32_t k = 0; k < SW_MEMORY_KIND_COUNT; k++)
        if (m->most[k] > 0)
            fprintf(out, "%-20s %10s %10s\n", sw_memory_kind_name((enum sw_memory_kind)k),
                    sw_format_bytes((double)m->at_peak[k], a),
                    sw_format_bytes((double)m->most[k], b));
    fprintf(out, "%-20s %10s\n", "between buffers", sw_format_bytes((double)m->lost_bytes, a));
    fprintf(out, "%-20s %10s\n", "arena", sw_format_bytes((double)m->arena_bytes, a));
    if (sw_explain_snapshot_bytes(x) > 0)
        fprintf(out, "%-20s %10s %10s  while a checkpoint is written\n", "snapshot", "",
                sw_format_bytes((double)sw_explain_snapshot_bytes(x), a));
    fprintf(out, "\n%-20s %10s %10s %10s %10s\n", "memory by layer", "parameters", "gradients",
            "optimizer", "saved");
    const struct sw_layer_memory *row[2] = {&m->layer, &m->outside};
    for (int32_t i = 0; i < 2; i++) {
        char name[40] = "embedding, head, rest";
        if (i == 0)
            snprintf(name, sizeof name, m->layers == 1 ? "its layer" : "each of %d layers",
                     m->layers);
        fprintf(out, "%-20s %10s %10s %10s %10s\n", name,
                sw_format_bytes((double)row[i]->parameters, a),
                sw_format_bytes((double)row[i]->gradients, b),
                sw_format_bytes((double)row[i]->optimizer, d),
                sw_format_bytes((double)row[i]->saved, e));
    }
    /* the last op of each region shows the memory over the step */
    fprintf(out, "\n%-20s %10s\n", "memory over the step", "most");
    for (int32_t r = 0; r < x->program->region_count; r++) {
        const struct sw_region *region = &x->program->regions[r];
        int64_t most = 0;
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++)
            most = m->live_total[i] > most ? m->live_total[i] : most;
        const bool peak =
            m->peak_op >= region->first_op && m->peak_op < region->first_op + region->op_count;
        fprintf(out, "%-20s %10s%s%s\n", region->name, sw_format_bytes((double)most, a),
                peak ? "  peak, at " : "",
                peak ? sw_op_info((enum sw_op_kind)x->program->ops[m->peak_op].kind)->name : "");
    }
}

/* Prints bytes freed and seconds taken by each value if recomputed in every layer, the first to
 * recompute first. */
static void print_again(FILE *out, const struct sw_explain *x)
{
    char values[SW_VALUES_BYTES], a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES];
    fprintf(out, "\n%-20s %10s %10s %12s\n", "recomputed", "frees", "takes", "in layers");
    for (int32_t i = 0; i < x->again_count; i++) {
        const struct sw_recomputed *again = &x->again[i];
        fprintf(out, "%-20s %10s %10s %5d of %3d\n", sw_layer_values_format(again->values, values),
                sw_format_bytes(again->bytes, a), sw_format_seconds(again->seconds, b),
                again->layers, x->program->layers);
    }
    fprintf(out, "frees, takes: memory and time of one rank in one step, if recomputed in all "
                 "layers, each operation\nalone\n");
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

static void print_kinds(FILE *out, const struct sw_explain *x)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES];
    const double whole = x->c.cost.compute_seconds;
    fprintf(out, "\n%-20s %10s %10s %7s %10s\n", "compute by op", "calls", "time", "share",
            "recomputed");
    for (int32_t i = 0; i < x->kind_count; i++) {
        const struct sw_kind_time *k = &x->kind[i];
        fprintf(out, "%-20s %10s %10s %5.1f %% %10s\n", sw_op_info(k->kind)->name,
                sw_format_count(k->calls, a), sw_format_seconds(k->seconds, b),
                whole > 0 ? k->seconds / whole * 100 : 0,
                k->again_seconds > 0 ? sw_format_seconds(k->again_seconds, d) : "-");
    }
    if (x->slowed_seconds > 0)
        fprintf(out, "%-20s %10s %10s %5.1f %%\n", "beside collectives", "",
                sw_format_seconds(x->slowed_seconds, b), x->slowed_seconds / whole * 100);
}

static void print_traffic(FILE *out, const struct sw_explain *x)
{
    char axes[64], bytes[SW_FORMAT_BYTES], seconds[SW_FORMAT_BYTES], calls[SW_FORMAT_BYTES],
        port[SW_FORMAT_BYTES];
    if (x->traffic.count == 0)
        return;
    fprintf(out, "\n%-20s %-14s %6s %10s %10s %10s %10s  %s\n", "communication", "axes", "ranks",
            "calls", "sent", "time", "a port", "over");
    for (int32_t i = 0; i < x->traffic.count; i++) {
        const struct sw_traffic *t = &x->traffic.entry[i];
        struct sw_span span;
        double port_bytes;
        const int32_t link = sw_explain_link(x, t, &span, &port_bytes);
        if (port_bytes >= 0)
            sw_format_bytes(port_bytes, port);
        else
            snprintf(port, sizeof port, "-");
        fprintf(out, "%-20s %-14s %6d %10s %10s %10s %10s  %s\n", sw_op_info(t->kind)->name,
                sw_axes_format(t->axes, axes, sizeof axes), span.ranks,
                sw_format_count(t->calls, calls), sw_format_bytes(t->bytes, bytes),
                sw_format_seconds(t->seconds, seconds), port,
                link < 0 ? "-" : x->run->cluster.link[link].name);
    }
    fprintf(out, "of one rank in one step; a port: the bytes of it that pass one accelerator's "
                 "port of that link, since\nthe ranks of a node share its ports\n");
}

static void print_axes(FILE *out, const struct sw_explain *x)
{
    const struct sw_cluster_config *cluster = &x->run->cluster;
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES], rate[SW_FORMAT_BYTES],
        counted[SW_FORMAT_RATE];
    fprintf(out, "\n%-5s %5s %7s %8s %6s  %-14s %12s %12s %10s %10s\n", "axis", "size", "stride",
            "per node", "nodes", "link", "bandwidth", "communicates", "exposed", "hidden");
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++) {
        const uint8_t axis = x->program->mesh.order[i];
        const struct sw_axis_span *p = &x->span[axis];
        const struct sw_axis_time *t = &x->axis[axis];
        if (p->size == 1)
            continue;
        snprintf(rate, sizeof rate, "-");
        if (p->link >= 0)
            snprintf(rate, sizeof rate, "%.20s/s",
                     sw_format_bytes(cluster->link[p->link].bandwidth, a));
        fprintf(out, "%-5s %5d %7d %8d %6d  %-14s %12s %12s %10s %10s\n",
                sw_axis_name((enum sw_axis)axis), p->size, p->stride, p->per_node, p->nodes,
                p->link >= 0 ? cluster->link[p->link].name : "-", rate,
                sw_format_seconds(t->total_seconds, a), sw_format_seconds(t->exposed_seconds, b),
                sw_format_seconds(t->hidden_seconds, d));
    }
    fprintf(out,
            "outermost first; stride: ranks between neighbours; a node has %s, so\n"
            "node n holds the ranks from %d n to %d n + %d\n",
            sw_format_counted(cluster->accelerators_per_node, "accelerator", counted),
            cluster->accelerators_per_node, cluster->accelerators_per_node,
            cluster->accelerators_per_node - 1);
}

static void print_checkpoint(FILE *out, const struct sw_explain *x)
{
    struct sw_explain_lines lines;
    sw_explain_checkpoint(x, &lines);
    fprintf(out, "\n");
    for (int32_t i = 0; i < lines.count; i++)
        fprintf(out, "%-20s %s\n", lines.line[i].name, lines.line[i].text);
}

static void print_choices(FILE *out, const struct sw_explain *x)
{
    if (x->choice_count == 0)
        return;
    fprintf(out, "\nalternatives, and why they lost (all else equal)\n");
    for (int32_t i = 0; i < x->choice_count; i++) {
        const struct sw_choice *c = &x->choice[i];
        fprintf(out, "%-24s %s, not %s: %s\n", c->name, c->chosen, c->other, c->why);
    }
}

static void print_rejected(FILE *out, const struct sw_search *s)
{
    fprintf(out, "\nrejected: %d of %d meshes\n", s->count - s->feasible, s->count);
    for (int32_t i = s->feasible; i < s->count; i++)
        sw_report_rejected(out, &s->mesh[i]);
}

void sw_explain_text(FILE *out, const struct sw_explain *x, bool rejected)
{
    fprintf(out, "%s on %s\n", x->run->name, x->run->cluster.name);
    sw_report_model_line(out, x->run);
    sw_report_choice(out, x->run, &x->c);
    sw_report_why(out, x->run, SW_FOR_TRAIN);
    print_evaluation(out, x);
    print_serving(out, x);
    print_run(out, x);
    print_memory(out, x);
    print_again(out, x);
    print_regions(out, &x->c);
    print_kinds(out, x);
    print_traffic(out, x);
    print_axes(out, x);
    print_checkpoint(out, x);
    print_choices(out, x);
    if (rejected)
        print_rejected(out, x->all);
}
