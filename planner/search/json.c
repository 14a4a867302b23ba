/* `plan search --json`, schema shardwright.search/1, and the JSON of a mesh there and elsewhere. */
#include "planner/search/report.h"
#include "planner/search/stages.h"

#include "core/base/json.h"
#include "planner/search/frontier.h"
#include "planner/search/purpose.h"
#include "planner/search/run_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void by_axis(struct sw_json *j, const char *key, const double value[SW_AXIS_COUNT],
                    bool whole)
{
    sw_json_object(j, key);
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        sw_json_number(j, sw_axis_name(a), whole ? round(value[a]) : value[a]);
    sw_json_end(j);
}

static void write_memory(struct sw_json *j, const struct sw_memory *m)
{
    sw_json_object(j, "memory");
    sw_json_number(j, "limit", (double)m->limit);
    sw_json_number(j, "headroom", (double)m->headroom);
    sw_json_number(j, "total", (double)m->total);
    sw_json_number(j, "arena", (double)m->arena);
    sw_json_number(j, "parameters", (double)m->parameters);
    sw_json_number(j, "gradients", (double)m->gradients);
    sw_json_number(j, "optimizer", (double)m->optimizer);
    sw_json_number(j, "activations", (double)m->activations);
    sw_json_number(j, "workspace", (double)m->workspace);
    sw_json_number(j, "reserved", (double)m->reserved);
    sw_json_end(j);
}

void sw_layer_values_write_json(struct sw_json *j, const char *key,
                                const struct sw_layer_values *has, struct sw_layer_values set)
{
    sw_json_array(j, key);
    for (int32_t i = 0; i < SW_LAYER_VALUES; i++)
        if (sw_layer_values_has(*has, i) && sw_layer_values_has(set, i))
            sw_json_text(j, NULL, sw_layer_value_name(i));
    sw_json_end(j);
}

static void write_recompute(struct sw_json *j, const struct sw_layer_values *values,
                            struct sw_recompute again)
{
    const char *word = sw_recompute_word(again);
    sw_json_text(j, "recompute", word);
    if (strcmp(word, "partial") != 0)
        return;
    sw_layer_values_write_json(j, "recompute_values", values, again.values);
    sw_json_number(j, "recompute_layers", again.layers);
    sw_layer_values_write_json(j, "recompute_rest", values, again.rest);
}

/* Writes a faster axis order that was passed over, since tp would leave its domain. */
static void write_passed_over(struct sw_json *j, const struct sw_candidate *c)
{
    char order[64];
    if (c->passed_over.seconds == 0) {
        sw_json_null(j, "faster_order");
        return;
    }
    sw_json_object(j, "faster_order");
    sw_json_text(j, "axis_order", sw_mesh_format_order(&c->passed_over.mesh, order, sizeof order));
    sw_json_number(j, "step_seconds", c->passed_over.seconds);
    sw_json_end(j);
}

/* Segments of nodes that the job asks its scheduler for. */
static void write_segment(struct sw_json *j, const struct sw_candidate *c)
{
    if (c->decision.mesh.domain == 0) {
        sw_json_null(j, "segment");
        return;
    }
    sw_json_object(j, "segment");
    sw_json_number(j, "accelerators", c->decision.mesh.domain);
    if (c->apart_seconds > 0)
        sw_json_number(j, "step_seconds_without", c->apart_seconds);
    else
        sw_json_null(j, "step_seconds_without");
    sw_json_end(j);
}

static void write_sharding(struct sw_json *j, const struct sw_told_sharding *sharding)
{
    char axes[32];
    sw_json_text(j, "sharding", sharding->name);
    sw_json_text(j, "embed", sw_axes_format(sharding->embed, axes, sizeof axes));
    sw_json_text(j, "grad_embed", sw_axes_format(sharding->gradients, axes, sizeof axes));
    sw_json_text(j, "moment_embed", sw_axes_format(sharding->moments, axes, sizeof axes));
    sw_json_bool(j, "reshard_after_forward", sharding->reshards);
}

void sw_candidate_write_json(struct sw_json *j, const char *key,
                             const struct sw_layer_values *values, const struct sw_candidate *c)
{
    char mesh[64], order[64], warning[192];
    sw_json_object(j, key);
    sw_json_text(j, "mesh_dim", sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh));
    sw_json_text(j, "axis_order", sw_mesh_format_order(&c->decision.mesh, order, sizeof order));
    sw_json_bool(j, "tp_leaves_domain", c->tp_leaves_domain);
    write_passed_over(j, c);
    write_segment(j, c);
    write_sharding(j, &c->sharding);
    sw_json_number(j, "micro_batch_size", (double)c->decision.train.micro_batch_size);
    sw_json_number(j, "accumulation_steps", (double)c->decision.train.accumulation_steps);
    sw_json_number(j, "padding_sequences", (double)c->padding_sequences);
    write_recompute(j, values, c->decision.train.recompute);
    sw_json_text(j, "strategy", sw_word(sw_words_strategy, c->decision.train.strategy));
    sw_json_text(j, "layout", sw_word(sw_words_layout, c->decision.train.layout));
    sw_json_number(j, "inner_ring", c->decision.train.inner_ring);
    sw_json_text(j, "residual_seq", c->decision.train.residual_seq_tp ? "sp,tp" : "sp");
    sw_json_text(j, "verdict", sw_verdict_name(sw_candidate_verdict(c)));
    write_memory(j, &c->memory);
    sw_json_number(j, "step_seconds", c->cost.step_seconds);
    if (c->fastest_seconds > 0) {
        sw_json_number(j, "fastest_step_seconds", c->fastest_seconds);
        sw_json_number(j, "fastest_memory", (double)c->fastest_bytes);
    }
    sw_json_number(j, "compute_seconds", c->cost.compute_seconds);
    sw_json_number(j, "padding_seconds", c->padding_seconds);
    sw_json_number(j, "band_low_seconds", c->cost.band_low_seconds);
    sw_json_number(j, "band_high_seconds", c->cost.band_high_seconds);
    sw_json_text(j, "profile", c->cost.profile != NULL ? c->cost.profile : "");
    sw_json_number(j, "profile_runs", c->cost.profile_runs);
    sw_json_number(j, "profile_error", c->cost.profile_error);
    sw_json_text(j, "calibration", c->cost.calibration != NULL ? c->cost.calibration : "");
    sw_json_text(j, "warning", sw_cost_warning(&c->cost, warning, sizeof warning));
    by_axis(j, "exposed_communication_seconds", c->cost.exposed_seconds, false);
    by_axis(j, "communication_bytes", c->cost.communication_bytes, true);
    sw_json_number(j, "tokens_per_second", c->tokens_per_second);
    sw_json_number(j, "tokens_per_second_per_accelerator",
                   c->tokens_per_second / sw_mesh_rank_count(&c->decision.mesh));
    sw_json_number(j, "mfu", c->mfu);
    sw_json_end(j);
}

/* Opens {"change": setting, "to": value} of the i-th change. */
static void open_change(struct sw_json *j, const char *key, const struct sw_suggestion *s,
                        int32_t i)
{
    char *end = NULL;
    const char *to = s->change[i].to;
    const double value = strtod(to, &end);
    sw_json_object(j, key);
    sw_json_text(j, "change", s->change[i].setting);
    if (end != to && *end == '\0')
        sw_json_number(j, "to", value);
    else
        sw_json_text(j, "to", to);
}

/* If no mesh fits: writes changes that each make one fit. */
static void write_helps(struct sw_json *j, const struct sw_search *s)
{
    char mesh[64];
    sw_json_array(j, "help");
    for (int32_t i = 0; i < s->help_count; i++) {
        const struct sw_help *help = &s->help[i];
        sw_json_object(j, NULL);
        sw_json_text(j, "help", help->text);
        sw_json_array(j, "changes");
        for (int32_t k = 0; k < help->changes.count; k++) {
            open_change(j, NULL, &help->changes, k);
            sw_json_end(j);
        }
        sw_json_end(j);
        sw_json_text(j, "mesh_dim", sw_mesh_format(&help->mesh, mesh, sizeof mesh));
        if (help->step_seconds > 0)
            sw_json_number(j, "step_seconds", help->step_seconds);
        else
            sw_json_null(j, "step_seconds");
        sw_json_end(j);
    }
    sw_json_end(j);
}

/* Writes {"change": setting, "to": value}; changes that go with it follow as "and". */
static void write_suggestion(struct sw_json *j, const struct sw_suggestion *s)
{
    if (s->count == 0)
        sw_json_null(j, "suggestion");
    for (int32_t i = 0; i < s->count; i++)
        open_change(j, i == 0 ? "suggestion" : "and", s, i);
    for (int32_t i = 0; i < s->count; i++)
        sw_json_end(j);
}

static void write_rejected(struct sw_json *j, enum sw_purpose purpose, const struct sw_candidate *c)
{
    char mesh[64];
    sw_json_object(j, NULL);
    sw_json_text(j, "mesh_dim", sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh));
    sw_json_text(j, "reason", sw_reject_name(c->reason));
    sw_json_text(j, "verdict", sw_verdict_name(sw_candidate_verdict(c)));
    sw_json_text(j, "detail", c->detail);
    sw_json_text(j, "help", c->help);
    if (purpose == SW_FOR_TRAIN)
        write_suggestion(j, &c->suggestion);
    sw_json_end(j);
}

void sw_node_counts_write_json(struct sw_json *j, const char *key, const struct sw_run_config *run,
                               const struct sw_node_count *counts, int32_t count)
{
    char mesh[64];
    sw_json_array(j, key);
    for (int32_t i = 0; i < count; i++) {
        const struct sw_node_count *n = &counts[i];
        sw_json_object(j, NULL);
        sw_json_integer(j, "nodes", n->nodes);
        sw_json_text(j, "mesh_dim", n->fits ? sw_mesh_format(&n->mesh, mesh, sizeof mesh) : NULL);
        if (n->fits)
            sw_json_number(j, "step_seconds", n->step_seconds);
        else
            sw_json_null(j, "step_seconds");
        if (n->fits && run->says_steps)
            sw_json_number(j, "accelerator_hours", n->accelerator_hours);
        else
            sw_json_null(j, "accelerator_hours");
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void write_advice(struct sw_json *j, const struct sw_run_config *run,
                         const struct sw_advice *advice)
{
    char mesh[64];
    if (advice == NULL) {
        sw_json_null(j, "slower");
        sw_json_null(j, "fewer_nodes");
        sw_json_null(j, "better_nodes");
        return;
    }
    sw_json_object(j, "slower");
    sw_json_number(j, "share", advice->slower);
    sw_json_text(j, "mesh_dim", sw_mesh_format(&advice->fastest.decision.mesh, mesh, sizeof mesh));
    sw_json_number(j, "step_seconds", advice->fastest.cost.step_seconds);
    sw_json_end(j);
    sw_node_counts_write_json(j, "fewer_nodes", run, advice->fewer, advice->fewer_count);
    sw_node_counts_write_json(j, "better_nodes", run, &advice->better, advice->better.nodes > 0);
}

void sw_train_write_head(struct sw_json *j, const struct sw_run_config *run,
                         const struct sw_search *s, const struct sw_search_told *told)
{
    char why[320];
    sw_json_number(j, "search_seconds", s->seconds);
    const double step = s->feasible > 0 ? s->mesh[0].cost.step_seconds : NAN;
    sw_json_number(j, "run_seconds", sw_report_run_seconds(run, step));
    sw_json_number(j, "accelerator_hours", sw_report_accelerator_hours(run, step));
    sw_run_cost_write_json(j, "run_cost", run, &s->run_cost);
    if (s->feasible > 0)
        sw_json_text(j, "why", sw_rank_why(run, SW_FOR_TRAIN, why, sizeof why));
    else
        sw_json_null(j, "why");
    sw_json_text(j, "prefer", sw_prefer_words[run->prefer]);
    sw_json_number(j, "prefer_within", run->prefer_within);
    write_advice(j, run, told->advice);
    if (s->whole_weights.cost.step_seconds > 0)
        sw_candidate_write_json(j, "whole_weights", &s->layer_values, &s->whole_weights);
    else
        sw_json_null(j, "whole_weights");
    if (s->feasible > 0) {
        sw_candidate_write_json(j, "chosen", &s->layer_values, &s->mesh[0]);
        sw_candidate_write_json(j, "fastest", &s->layer_values, &s->mesh[s->fastest]);
    } else {
        sw_json_null(j, "chosen");
        sw_json_null(j, "fastest");
    }
    write_helps(j, s);
    if (told->count > 0)
        sw_node_counts_write_json(j, "node_counts", run, told->counts, told->count);
    if (told->frontier != NULL)
        sw_frontier_write_json(j, "frontier", run, told->frontier);
}

void sw_search_print_json(FILE *out, const struct sw_run_config *run, const struct sw_search *s,
                          const struct sw_options *options, const struct sw_search_told *told)
{
    const struct sw_purpose_row *row = s->row;
    struct sw_json json = {.out = out, .style = SW_JSON_TABS}, *j = &json;
    sw_json_object(j, NULL);
    sw_json_text(j, "schema", row->schema);
    sw_json_text(j, "run", run->name);
    sw_stages_write_stage(j, run, told->before);
    sw_json_number(j, "accelerators", s->accelerators);
    sw_run_parameters_write_json(j, run);
    sw_json_number(j, "evaluated", s->count);
    sw_json_number(j, "feasible", s->feasible);
    row->write_head(j, run, s, told);
    sw_json_array(j, "candidates");
    for (int32_t i = 0; i < s->feasible && (options->top < 0 || i < options->top); i++)
        row->write_mesh(j, NULL, &s->layer_values, &s->mesh[i]);
    sw_json_end(j);
    if (s->purpose == SW_FOR_TRAIN) {
        sw_json_array(j, "unpriced"); /* every mesh has its price, in any number */
        sw_json_end(j);
    }
    if (options->rejected) {
        sw_json_array(j, "rejected");
        for (int32_t i = s->feasible; i < s->count; i++)
            write_rejected(j, s->purpose, &s->mesh[i]);
        sw_json_end(j);
    }
    sw_json_end(j);
    fputc('\n', out);
}
