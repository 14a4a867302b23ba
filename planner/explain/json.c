/* `plan explain --json`, schema shardwright.explain/1. Times in s, memory in bytes of a rank. */
#include "planner/explain/explain.h"

#include "core/base/json.h"
#include "planner/search/purpose.h"
#include "planner/search/run_cost.h"

#include <inttypes.h>
#include <math.h>

static void write_programs(struct sw_json *j, const struct sw_explain *x)
{
    const int64_t state = x->programs->state.bytes;
    uint64_t digest[SW_PROGRAM_KINDS];
    char digits[20];
    sw_program_set_digests(x->programs, digest);
    sw_json_array(j, "programs");
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++) {
        if (x->programs->program[k] == NULL)
            continue;
        const int64_t arena = x->programs->program[k]->arena_bytes;
        snprintf(digits, sizeof digits, "%016" PRIx64, digest[k]);
        sw_json_object(j, NULL);
        sw_json_text(j, "name", sw_program_kind_name((enum sw_program_kind)k));
        sw_json_number(j, "seconds", x->program_seconds[k]);
        sw_json_number(j, "arena_bytes", (double)arena);
        sw_json_number(j, "state_bytes", (double)state);
        sw_json_number(j, "transient_bytes", (double)(arena - state));
        sw_json_text(j, "digest", digits);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void write_serving(struct sw_json *j, const struct sw_explain *x)
{
    const struct sw_candidate *c = &x->serving;
    const struct sw_serve_price *s = &c->serve;
    const struct sw_program_set *set = x->serving_programs;
    if (set == NULL) {
        sw_json_null(j, "serving");
        return;
    }
    sw_json_object(j, "serving");
    sw_json_number(j, "texts", (double)s->texts);
    sw_json_number(j, "max_tokens", (double)s->max_tokens);
    sw_json_number(j, "chunk", (double)s->chunk);
    sw_json_number(j, "prompt_tokens", (double)s->prompt_tokens);
    sw_json_text(j, "cache", sw_dtype_name(s->cache));
    sw_json_text(j, "weights", sw_dtype_name(s->weights));
    sw_json_bool(j, "stream_weights", c->decision.serve.stream_weights == SW_STREAM_ALWAYS);
    sw_json_bool(j, "interleave", s->interleaves);
    sw_json_number(j, "token_seconds", c->cost.step_seconds);
    sw_serve_write_sizes(j, s);
    sw_json_number(j, "first_token_seconds", s->first_seconds);
    sw_json_number(j, "first_token_seconds_beside_others", s->first_beside_seconds);
    sw_json_number(j, "token_budget", (double)s->token_budget);
    sw_json_number(j, "token_seconds_beside_prompts", s->beside_seconds);
    sw_json_number(j, "tokens_per_second", c->tokens_per_second);
    sw_json_number(j, "arena_bytes", (double)set->arena_bytes);
    sw_json_number(j, "weight_bytes", (double)set->state.parameter_bytes);
    sw_json_number(j, "cache_bytes", (double)set->state.cache_bytes);
    sw_json_number(j, "scale_bytes", (double)c->memory.scales);
    sw_json_number(j, "sent_bytes_per_token", (double)s->decode_bytes);
    sw_json_text(j, "passes", sw_prefill_gather_name(s->gathers));
    sw_json_number(j, "sent_bytes_passing_queries", (double)s->chunk_bytes[SW_GATHER_QUERIES]);
    sw_json_number(j, "sent_bytes_passing_cache", (double)s->chunk_bytes[SW_GATHER_KV]);
    sw_json_end(j);
}

static void write_kinds(struct sw_json *j, const int64_t bytes[SW_MEMORY_KIND_COUNT])
{
    for (int32_t k = 0; k < SW_MEMORY_KIND_COUNT; k++)
        sw_json_number(j, sw_memory_kind_name((enum sw_memory_kind)k), (double)bytes[k]);
}

static void write_layer(struct sw_json *j, const char *name, int32_t count,
                        const struct sw_layer_memory *m)
{
    sw_json_object(j, NULL);
    sw_json_text(j, "name", name);
    sw_json_number(j, "count", count);
    sw_json_number(j, "parameters", (double)m->parameters);
    sw_json_number(j, "gradients", (double)m->gradients);
    sw_json_number(j, "optimizer", (double)m->optimizer);
    sw_json_number(j, "saved", (double)m->saved);
    sw_json_end(j);
}

static void write_over_step(struct sw_json *j, const struct sw_explain *x)
{
    const struct sw_memory_profile *m = &x->memory;
    sw_json_array(j, "over_step");
    for (int32_t r = 0; r < x->program->region_count; r++) {
        const struct sw_region *region = &x->program->regions[r];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            sw_json_object(j, NULL);
            sw_json_text(j, "region", region->name);
            sw_json_text(j, "op", sw_op_info((enum sw_op_kind)x->program->ops[i].kind)->name);
            sw_json_number(j, "total", (double)m->live_total[i]);
            write_kinds(j, &m->live[(int64_t)i * SW_MEMORY_KIND_COUNT]);
            sw_json_end(j);
        }
    }
    sw_json_end(j);
}

static void write_memory(struct sw_json *j, const struct sw_explain *x)
{
    const struct sw_memory_profile *m = &x->memory;
    sw_json_object(j, "memory_profile");
    sw_json_number(j, "peak", (double)m->peak_bytes);
    sw_json_number(j, "peak_op", m->peak_op);
    sw_json_number(j, "arena", (double)m->arena_bytes);
    sw_json_number(j, "between_buffers", (double)m->lost_bytes);
    sw_json_object(j, "at_peak");
    write_kinds(j, m->at_peak);
    sw_json_end(j);
    sw_json_object(j, "most");
    write_kinds(j, m->most);
    sw_json_end(j);
    sw_json_array(j, "by_layer");
    write_layer(j, "layer", m->layers, &m->layer);
    write_layer(j, "embedding, head, rest", 1, &m->outside);
    sw_json_end(j);
    write_over_step(j, x);
    sw_json_end(j);
}

static void write_again(struct sw_json *j, const struct sw_explain *x)
{
    sw_json_array(j, "recompute");
    for (int32_t i = 0; i < x->again_count; i++) {
        const struct sw_recomputed *again = &x->again[i];
        sw_json_object(j, NULL);
        sw_layer_values_write_json(j, "values", &x->program->layer_values, again->values);
        sw_json_number(j, "layers", again->layers);
        sw_json_number(j, "bytes", again->bytes);
        sw_json_number(j, "seconds", again->seconds);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void write_event(struct sw_json *j, const struct sw_explain *x, const struct sw_window *w,
                        const struct sw_cost_event *e)
{
    static const char *const streams[] = {"compute", "communication", "wait"};
    const struct sw_op *op = &x->program->ops[e->op];
    const struct sw_axes axes = sw_axes_effective(&x->program->mesh, op->axes);
    char text[64];
    sw_json_object(j, NULL);
    sw_json_text(j, "stream", streams[e->stream]);
    sw_json_text(j, "op", sw_op_info((enum sw_op_kind)op->kind)->name);
    if (e->stream == SW_STREAM_COMMUNICATION)
        sw_json_text(j, "axes", sw_axes_format(axes, text, sizeof text));
    sw_json_number(j, "start", e->start - w->start);
    sw_json_number(j, "end", e->end - w->start);
    sw_json_end(j);
}

static void write_window(struct sw_json *j, const char *key, const struct sw_explain *x,
                         const struct sw_window *w)
{
    if (w->region < 0)
        return;
    sw_json_object(j, key);
    sw_json_text(j, "region", x->program->regions[w->region].name);
    sw_json_number(j, "seconds", w->end - w->start);
    sw_json_number(j, "compute_seconds", w->compute_seconds);
    sw_json_number(j, "communication_seconds", w->communication_seconds);
    sw_json_number(j, "waiting_seconds", w->waiting_seconds);
    sw_json_array(j, "events");
    for (int32_t i = 0; i < x->timeline.count; i++) {
        const struct sw_cost_event *e = &x->timeline.event[i];
        if (e->end > w->start && e->start < w->end && e->end > e->start)
            write_event(j, x, w, e);
    }
    sw_json_end(j);
    sw_json_end(j);
}

static void write_times(struct sw_json *j, const struct sw_explain *x)
{
    sw_json_array(j, "ops");
    for (int32_t i = 0; i < x->kind_count; i++) {
        sw_json_object(j, NULL);
        sw_json_text(j, "kind", sw_op_info(x->kind[i].kind)->name);
        sw_json_number(j, "calls", x->kind[i].calls);
        sw_json_number(j, "seconds", x->kind[i].seconds);
        sw_json_number(j, "recompute_seconds", x->kind[i].again_seconds);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_number(j, "slowed_seconds", x->slowed_seconds);
}

static void write_axes(struct sw_json *j, const struct sw_explain *x)
{
    const struct sw_cluster_config *cluster = &x->run->cluster;
    sw_json_array(j, "axes");
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++) {
        const uint8_t axis = x->program->mesh.order[i];
        const struct sw_axis_span *p = &x->span[axis];
        sw_json_object(j, NULL);
        sw_json_text(j, "axis", sw_axis_name((enum sw_axis)axis));
        sw_json_number(j, "size", p->size);
        sw_json_number(j, "stride", p->stride);
        sw_json_number(j, "ranks_per_node", p->per_node);
        sw_json_number(j, "nodes", p->nodes);
        sw_json_text(j, "link", p->link >= 0 ? cluster->link[p->link].name : "");
        sw_json_number(j, "bandwidth", p->link >= 0 ? cluster->link[p->link].bandwidth : 0);
        sw_json_number(j, "communication_seconds", x->axis[axis].total_seconds);
        sw_json_number(j, "exposed_seconds", x->axis[axis].exposed_seconds);
        sw_json_number(j, "hidden_seconds", x->axis[axis].hidden_seconds);
        sw_json_end(j);
    }
    sw_json_end(j);
}

/* Share of time in pauses if so many steps lie between saves; 0: no saves. */
static double paused_share(const struct sw_explain *x, int64_t steps)
{
    const double every_s = (double)steps * x->c.cost.step_seconds;
    return steps > 0 ? sw_checkpoint_paused_share(&x->checkpoint, every_s) : 0;
}

static void write_checkpoint(struct sw_json *j, const struct sw_explain *x)
{
    static const char *const rates[] = {[SW_WRITE_LIMITED] = "checkpoint.bandwidth",
                                        [SW_WRITE_TOLD] = "storage.bandwidth",
                                        [SW_WRITE_ASSUMED] = "assumed"};
    const struct sw_checkpoint_cost *c = &x->checkpoint;
    const int64_t set = sw_explain_interval_steps(x);
    sw_json_object(j, "checkpoint");
    sw_json_number(j, "bytes", (double)c->bytes);
    sw_json_number(j, "files", c->files);
    sw_json_number(j, "most_bytes_of_a_rank", (double)c->most_bytes);
    sw_json_bool(j, "background", c->background);
    sw_json_number(j, "snapshot_bytes", (double)c->snapshot_bytes);
    sw_json_number(j, "stall_seconds", c->stall_s);
    sw_json_number(j, "exchange_seconds", c->exchange_s);
    sw_json_number(j, "link_seconds", c->link_s);
    sw_json_number(j, "copy_seconds", c->copy_s);
    sw_json_number(j, "write_seconds", c->write_s);
    sw_json_number(j, "write_bandwidth", c->bandwidth);
    sw_json_text(j, "write_bandwidth_from", rates[c->rate]);
    sw_json_number(j, "save_seconds", c->save_s);
    sw_json_number(j, "failure_seconds", c->failure_s);
    sw_json_number(j, "interval_seconds", c->interval_s);
    sw_json_number(j, "interval_steps", (double)c->interval_steps);
    sw_json_number(j, "interval_paused_share", paused_share(x, c->interval_steps));
    sw_json_number(j, "every_steps", (double)set);
    sw_json_number(j, "every_steps_seconds", (double)set * x->c.cost.step_seconds);
    sw_json_number(j, "every_steps_paused_share", paused_share(x, set));
    sw_json_end(j);
}

static void write_choices(struct sw_json *j, const struct sw_explain *x)
{
    sw_json_array(j, "choices");
    for (int32_t i = 0; i < x->choice_count; i++) {
        const struct sw_choice *c = &x->choice[i];
        sw_json_object(j, NULL);
        sw_json_text(j, "choice", c->name);
        sw_json_text(j, "chosen", c->chosen);
        sw_json_text(j, "other", c->other);
        sw_json_text(j, "why", c->why);
        sw_json_text(j, "reason", sw_reject_name(c->reason));
        sw_json_number(j, "step_seconds", c->step_seconds);
        sw_json_number(j, "memory", (double)c->total_bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void write_regions(struct sw_json *j, const struct sw_cost *cost)
{
    sw_json_array(j, "regions");
    for (int32_t r = 0; r < cost->region_count; r++) {
        sw_json_object(j, NULL);
        sw_json_text(j, "name", cost->region[r].name);
        sw_json_number(j, "seconds", cost->region[r].seconds);
        sw_json_number(j, "compute_seconds", cost->region[r].compute_seconds);
        sw_json_number(j, "exposed_seconds", cost->region[r].exposed_seconds);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void write_collectives(struct sw_json *j, const struct sw_explain *x)
{
    char axes[64];
    sw_json_array(j, "collectives");
    struct sw_span span;
    double port_bytes;
    for (int32_t i = 0; i < x->traffic.count; i++) {
        sw_json_object(j, NULL);
        sw_json_text(j, "kind", sw_op_info(x->traffic.entry[i].kind)->name);
        sw_json_text(j, "axes", sw_axes_format(x->traffic.entry[i].axes, axes, sizeof axes));
        sw_json_number(j, "calls", x->traffic.entry[i].calls);
        sw_json_number(j, "bytes", round(x->traffic.entry[i].bytes));
        sw_json_number(j, "seconds", x->traffic.entry[i].seconds);
        (void)sw_explain_link(x, &x->traffic.entry[i], &span, &port_bytes);
        sw_json_number(j, "port_bytes", port_bytes >= 0 ? round(port_bytes) : NAN);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void write_rejected(struct sw_json *j, const struct sw_search *all)
{
    char mesh[64];
    sw_json_array(j, "rejected");
    for (int32_t i = all->feasible; i < all->count; i++) {
        const struct sw_candidate *c = &all->mesh[i];
        sw_json_object(j, NULL);
        sw_json_text(j, "mesh_dim", sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh));
        sw_json_text(j, "reason", sw_reject_name(c->reason));
        sw_json_text(j, "verdict", sw_verdict_name(sw_candidate_verdict(c)));
        sw_json_text(j, "detail", c->detail);
        sw_json_text(j, "help", c->help);
        sw_json_end(j);
    }
    sw_json_end(j);
}

void sw_explain_print_json(FILE *out, const struct sw_explain *x, bool rejected)
{
    struct sw_json json = {.out = out, .style = SW_JSON_TABS}, *j = &json;
    char why[320];
    sw_json_object(j, NULL);
    sw_json_text(j, "schema", "shardwright.explain/1");
    sw_json_text(j, "run", x->run->name);
    if (x->run->stage.count > 0)
        sw_json_text(j, "stage", x->run->stage.name);
    sw_json_number(j, "accelerators", sw_mesh_rank_count(&x->c.decision.mesh));
    sw_run_parameters_write_json(j, x->run);
    sw_candidate_write_json(j, "mesh", &x->program->layer_values, &x->c);
    sw_json_text(j, "why", sw_rank_why(x->run, SW_FOR_TRAIN, why, sizeof why));
    sw_json_number(j, "run_seconds", x->run_seconds);
    sw_json_number(j, "accelerator_hours",
                   sw_report_accelerator_hours(x->run, x->c.cost.step_seconds));
    sw_run_cost_write_json(j, "run_cost", x->run, &x->run_cost);
    write_programs(j, x);
    write_serving(j, x);
    write_regions(j, &x->c.cost);
    write_collectives(j, x);
    write_memory(j, x);
    write_again(j, x);
    write_times(j, x);
    write_axes(j, x);
    sw_json_object(j, "timeline");
    write_window(j, "forward_layer", x, &x->forward);
    write_window(j, "backward_layer", x, &x->backward);
    sw_json_end(j);
    write_checkpoint(j, x);
    write_choices(j, x);
    if (rejected)
        write_rejected(j, x->all);
    sw_json_end(j);
    fputc('\n', out);
}
