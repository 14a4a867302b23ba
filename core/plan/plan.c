#include "core/base/device.h"
#include "core/base/hash.h"
#include "core/base/quantize.h"
#include "core/plan/internal.h"
#include "core/models/parameters.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t sw_plan_text_digest(const char *text, size_t bytes, size_t at)
{
    const size_t tail = at + SW_PLAN_DIGEST_DIGITS;
    return sw_hash_bytes(sw_hash_bytes(SW_HASH_START, text, at), text + tail, bytes - tail);
}

static int apply_rule(struct sw_rules *rules, const struct sw_rule_config *rule,
                      struct sw_error *err)
{
    struct sw_axes axes = {0};
    struct sw_error why = {0};
    for (int32_t i = 0; i < rule->count && i < SW_AXIS_COUNT; i++) {
        int32_t axis = 0;
        while (axis < SW_AXIS_COUNT && strcmp(rule->axis[i], sw_axis_name(axis)) != 0)
            axis++;
        if (axis == SW_AXIS_COUNT) {
            sw_fail(&why, SW_BAD_INPUT, "unknown mesh axis '%s'; use dp, fsdp, tp or sp",
                    rule->axis[i]);
            break;
        }
        axes.axis[axes.count++] = (uint8_t)axis;
    }
    if (why.status == SW_OK && sw_rules_set(rules, rule->logical, axes, &why) == 0)
        return 0;
    sw_fail_place(&why, rule->place);
    return sw_fail_as(err, &why);
}

/* Checks that each comma-separated pattern matches a parameter. what: purpose, for the message;
 * layers: its advice. */
static int check_named(const struct sw_model *model, const char *patterns, struct sw_place place,
                       const char *what, const char *layers, struct sw_error *err)
{
    for (const char *at = patterns; at != NULL && *at != '\0';) {
        char pattern[128];
        const size_t length = strcspn(at, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, at);
        if (length >= sizeof pattern || sw_parameters_count(model, pattern) == 0)
            return sw_fail_at(err, SW_BAD_INPUT, place,
                              "the model has no parameter '%s' %s; use names as "
                              "model.embed_tokens and model.layers.*.mlp: %s",
                              pattern, what, layers);
        at += length + (at[length] == ',');
    }
    return 0;
}

static int check_names(const struct sw_run_config *run, struct sw_error *err)
{
    const struct sw_model *model = &run->model.shape;
    if (check_named(model, run->freeze, run->freeze_place, "to freeze",
                    "layers are frozen together", err) != 0 ||
        check_named(model, run->optimizer.no_decay, run->optimizer.no_decay_place,
                    "that 'no_decay' could name", "layers are named together", err) != 0)
        return -1;
    if (run->freeze != NULL &&
        sw_parameters_count(model, run->freeze) == sw_parameters_count(model, NULL))
        return sw_fail_at(err, SW_BAD_INPUT, run->freeze_place,
                          "'freeze' leaves no parameter to train; name fewer of them");
    return 0;
}

static void add_target(const struct sw_run_config *run, int32_t target, struct sw_lora *out)
{
    const struct sw_lora_config *lora = &run->lora;
    const int32_t rank = lora->rank_of[target] > 0 ? lora->rank_of[target] : lora->rank;
    const double alpha = lora->alpha_of[target] > 0 ? lora->alpha_of[target] : lora->alpha;
    out->rank[target] = rank;
    out->scale[target] = sw_lora_scale(alpha, rank, lora->rslora);
}

/* Adds the targets of a comma-separated list of names. */
static int add_targets(const struct sw_run_config *run, struct sw_lora *out, struct sw_error *err)
{
    const char *const targets = run->lora.targets != NULL ? run->lora.targets : "q_proj,v_proj";
    for (const char *at = targets; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        const bool all = length == strlen("all-linear") && strncmp(at, "all-linear", length) == 0;
        const int32_t found = sw_lora_find(at, length);
        if (found < 0 && !all)
            return sw_fail_at(err, SW_BAD_INPUT, run->lora_place,
                              "no adapter for '%.*s'; lora.targets are q_proj, k_proj, v_proj, "
                              "o_proj, gate_proj, up_proj, down_proj, or all-linear",
                              length < 128 ? (int)length : 128, at);
        for (int32_t i = 0; i < SW_LORA_TARGETS; i++)
            if (all || i == found)
                add_target(run, i, out);
        at += length + (at[length] == ',');
    }
    return 0;
}

int sw_plan_lora(const struct sw_run_config *run, struct sw_lora *out, struct sw_error *err)
{
    const struct sw_lora_config *lora = &run->lora;
    memset(out, 0, sizeof *out);
    if (lora->rank == 0)
        return run->init_adapter == NULL
                   ? 0
                   : sw_fail_at(err, SW_BAD_INPUT, run->adapter_place,
                                "'init.adapter' needs a run with adapters; add 'lora' with the "
                                "rank and targets of its adapter_config.json");
    if (run->model.shape.fused)
        return sw_fail_at(err, SW_BAD_INPUT, run->lora_place,
                          "this model's files have several projections in one tensor, for which "
                          "there are no adapters; leave out 'lora', or choose another model");
    if (run->freeze != NULL)
        return sw_fail_at(err, SW_BAD_INPUT, run->freeze_place,
                          "with 'lora' every weight of the model is frozen; leave out 'freeze'");
    out->base = (int32_t)(lora->base == SW_DTYPE_COUNT ? run->compute : lora->base);
    if (add_targets(run, out, err) != 0)
        return -1;
    for (int32_t i = 0; i < SW_LORA_TARGETS; i++)
        if (out->rank[i] == 0 && (lora->rank_of[i] > 0 || lora->alpha_of[i] > 0))
            return sw_fail_at(err, SW_BAD_INPUT, run->lora_place,
                              "lora.rank_pattern and alpha_pattern name '%s', which is none of "
                              "lora.targets; add it there",
                              sw_lora_names[i]);
    return 0;
}

struct sw_sharding_decision sw_plan_sharding(const struct sw_run_config *run)
{
    return (struct sw_sharding_decision){.zero = run->zero == SW_ZERO_AUTO ? SW_ZERO_3
                                                                           : (uint8_t)run->zero,
                                         .keep_gathered = !run->reshard_after_forward};
}

/* Refuses a row of rules that `zero` and `reshard_after_forward` set already. */
static int refuse_rows(const struct sw_run_config *run, struct sw_error *err)
{
    for (int32_t i = 0; i < run->rule_count; i++)
        if (strcmp(run->rule[i].logical, sw_logical_name(SW_L_GRAD_EMBED)) == 0 ||
            strcmp(run->rule[i].logical, sw_logical_name(SW_L_MOMENT_EMBED)) == 0)
            return sw_fail_at(err, SW_BAD_INPUT, run->rule[i].place,
                              "'%s' needs zero: 3 and reshard_after_forward: true; remove the "
                              "rule, or the other settings",
                              run->rule[i].logical);
    return 0;
}

/* Applied after the rules of the run. */
static int apply_sharding(const struct sw_run_config *run,
                          const struct sw_sharding_decision *sharding,
                          struct sw_program_options *out, struct sw_error *err)
{
    struct sw_axes masters = out->rules.axes[SW_L_EMBED];
    if ((sharding->keep_gathered || sharding->moments_over_dp || sharding->zero == SW_ZERO_1 ||
         sharding->zero == SW_ZERO_2) &&
        refuse_rows(run, err) != 0)
        return -1;
    if (sharding->moments_over_dp) {
        masters.axis[masters.count++] = SW_DP;
        if (sw_rules_set(&out->rules, "moment_embed", masters, err) != 0)
            return -1;
    }
    if (sharding->zero == SW_ZERO_1 || sharding->zero == SW_ZERO_2)
        sw_rules_set_zero(&out->rules, sharding->zero);
    out->keep_gathered = sharding->keep_gathered;
    return 0;
}

static int apply_rules(const struct sw_run_config *run, const struct sw_sharding_decision *sharding,
                       struct sw_program_options *out, struct sw_error *err)
{
    const struct sw_axes fsdp = {1, {SW_FSDP}};
    struct sw_error why = {0};
    if (sharding->embed_fsdp && sw_rules_set(&out->rules, "embed", fsdp, err) != 0)
        return -1;
    for (int32_t i = 0; i < run->rule_count; i++)
        if (apply_rule(&out->rules, &run->rule[i], err) != 0)
            return -1;
    if (sw_rules_check(&out->rules, &why) != 0) {
        sw_fail_place(&why, run->rule[0].place);
        return sw_fail_as(err, &why);
    }
    return apply_sharding(run, sharding, out, err);
}

int sw_plan_program_options(const struct sw_run_config *run, const struct sw_decision *decision,
                            struct sw_program_options *out, struct sw_error *err)
{
    memset(out, 0, sizeof *out);
    out->model = run->model.shape;
    out->sequence_length = run->sequence_length;
    out->global_batch = run->global_batch_size;
    out->micro_batch_per_rank = decision->train.micro_batch_size;
    out->compute = run->compute;
    out->params = run->params;
    out->reduce = run->reduce;
    out->ring = run->ring;
    out->keep_copy = run->keep_copy;
    out->segments = run->data_document_end >= 0 || run->data_pack;
    out->row_positions = run->data_pack;
    out->inner_ring = decision->train.inner_ring;
    out->mesh = decision->mesh;
    out->layout = decision->train.layout;
    out->recompute = decision->train.recompute;
    out->target = sw_device_row(run->cluster.accelerator.device)->target;
    sw_rules_default(&out->rules, decision->train.strategy);
    if (decision->train.residual_seq_tp)
        out->rules.axes[SW_L_RESIDUAL_SEQ] = (struct sw_axes){2, {SW_SP, SW_TP}};
    out->freeze = run->freeze;
    out->moments = run->optimizer.moments;
    out->guarded = run->optimizer.on_spike == SW_SPIKE_SKIP;
    out->no_decay = run->optimizer.no_decay;
    if (check_names(run, err) != 0 || sw_plan_lora(run, &out->lora, err) != 0)
        return -1;
    return apply_rules(run, &decision->train.sharding, out, err);
}

bool sw_plan_serving(const struct sw_run_config *run, const struct sw_decision *decision,
                     struct sw_serving *out)
{
    enum { USUAL_TEXTS = 8 };
    const int64_t batch = run->serve_max_batch, tokens = run->serve_max_tokens;
    const bool any_cache = run->serve_cache == SW_DTYPE_COUNT;
    *out = (struct sw_serving){
        .max_batch = batch > 0 ? batch : USUAL_TEXTS,
        .max_tokens = tokens > 0 ? tokens : run->sequence_length,
        .chunk = run->serve_chunk,
        .token_budget = decision->serve.token_budget > 0 ? decision->serve.token_budget
                                                         : run->serve_token_budget,
        .cache = any_cache ? run->compute : run->serve_cache,
        .weights = sw_is_quantized(run->serve_weights) ? run->serve_weights : run->compute,
        .stream_weights = decision->serve.stream_weights == SW_STREAM_ALWAYS,
        .interleave = decision->serve.interleave == SW_INTERLEAVE_ALWAYS};
    return batch > 0 || tokens > 0 || run->serve_prompt_tokens > 0 || run->serve_chunk > 0 ||
           run->serve_token_budget > 0 || !any_cache || sw_is_quantized(run->serve_weights) ||
           run->serve_stream_weights != SW_STREAM_AUTO ||
           run->serve_interleave != SW_INTERLEAVE_AUTO || run->serve_token_latency > 0 ||
           run->serve_first_token_latency > 0;
}

struct sw_workload sw_plan_workload(const struct sw_run_config *run)
{
    const int64_t tokens = run->serve_max_tokens > 0 ? run->serve_max_tokens : run->sequence_length;
    const int64_t half = tokens > 1 ? tokens / 2 : 1;
    return (struct sw_workload){.prompt_tokens =
                                    run->serve_prompt_tokens > 0 ? run->serve_prompt_tokens : half};
}

/* Builds the contents of a plan file; texts of the mesh are in `texts`. NULL: no memory, or a
 * choice is missing. */
struct texts {
    char mesh[64], order[64];
    struct sw_recompute_names decided, wanted;
};

/* The file always has these: for a mesh that cannot train, the choices that need least. */
static struct sw_train_decision train_of(const struct sw_run_config *run,
                                         const struct sw_decision *decision)
{
    if (decision->train.micro_batch_size > 0)
        return decision->train;
    return (struct sw_train_decision){
        .micro_batch_size = 1,
        .accumulation_steps = 1,
        .recompute = sw_recompute_full(),
        .strategy = run->strategy == SW_ATTENTION_AUTO ? SW_ATTENTION_RING : run->strategy,
        .layout = run->layout};
}

static struct sw_plan_config *
describe(const struct sw_run_config *run, const struct sw_plan_inputs *inputs,
         const struct sw_decision *decision, const struct sw_plan_prediction *prediction,
         const uint64_t program_digest[SW_PROGRAM_KINDS], struct texts *texts, struct sw_error *err)
{
    const struct sw_train_decision train = train_of(run, decision);
    if (train.strategy == SW_ATTENTION_AUTO) {
        sw_fail(err, SW_BAD_INPUT, "a plan needs every choice made, none may be auto");
        return NULL;
    }
    struct sw_layer_values has;
    struct sw_recompute wanted;
    struct sw_lora lora;
    if (sw_plan_lora(run, &lora, err) != 0 ||
        sw_program_layer_values(&run->model.shape, &lora, &has, err) != 0 ||
        sw_plan_recompute(&run->recompute, &has, &wanted, err) != 0)
        return NULL;
    struct sw_plan_config *plan = malloc(sizeof *plan);
    if (plan == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the plan");
        return NULL;
    }
    *plan = (struct sw_plan_config){
        .mesh_dim = sw_mesh_format(&decision->mesh, texts->mesh, sizeof texts->mesh),
        .axis_order = sw_mesh_format_order(&decision->mesh, texts->order, sizeof texts->order),
        .micro_batch_size = train.micro_batch_size,
        .accumulation_steps = train.accumulation_steps,
        .strategy = train.strategy,
        .layout = train.layout,
        .inner_ring = train.inner_ring,
        .residual_seq = train.residual_seq_tp ? SW_RESIDUAL_SP_TP : SW_RESIDUAL_SP,
        .zero = train.sharding.zero == 0 ? SW_ZERO_3 : train.sharding.zero,
        .embed = train.sharding.embed_fsdp ? SW_WEIGHTS_FSDP : SW_WEIGHTS_RULES,
        .moments_over_dp = train.sharding.moments_over_dp,
        .reshard_after_forward = !train.sharding.keep_gathered,
        .prediction = *prediction,
        .run = *run};
    memcpy(plan->program, program_digest, sizeof plan->program);
    sw_plan_name_recompute(train.recompute, &texts->decided, &plan->recompute);
    sw_plan_name_recompute(wanted, &texts->wanted, &plan->run.recompute);
    if (decision->serve.stream_weights != SW_STREAM_AUTO)
        plan->run.serve_stream_weights = decision->serve.stream_weights;
    if (decision->serve.interleave != SW_INTERLEAVE_AUTO)
        plan->run.serve_interleave = decision->serve.interleave;
    if (decision->serve.token_budget > 0)
        plan->run.serve_token_budget = decision->serve.token_budget;
    if (inputs != NULL)
        plan->inputs = *inputs;
    return plan;
}

int sw_plan_write(FILE *out, const struct sw_run_config *run, const struct sw_plan_inputs *inputs,
                  const struct sw_decision *decision, const struct sw_plan_prediction *prediction,
                  const uint64_t program_digest[SW_PROGRAM_KINDS], uint64_t *digest,
                  struct sw_error *err)
{
    int status = -1;
    char *text = NULL, digits[SW_PLAN_DIGEST_DIGITS + 1];
    size_t bytes = 0;
    struct texts texts;
    FILE *memory = NULL;
    struct sw_plan_config *plan =
        describe(run, inputs, decision, prediction, program_digest, &texts, err);
    if (plan == NULL)
        return -1;
    memory = open_memstream(&text, &bytes);
    if (memory != NULL) {
        fprintf(memory, "%s%016d'\n", SW_PLAN_HEAD, 0);
        sw_plan_config_write(memory, plan);
    }
    const bool failed = memory == NULL || ferror(memory);
    if ((memory != NULL && fclose(memory) != 0) || failed) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the plan");
        goto out;
    }
    const size_t head = strlen(SW_PLAN_HEAD);
    const uint64_t found = sw_plan_text_digest(text, bytes, head);
    snprintf(digits, sizeof digits, "%016" PRIx64, found);
    memcpy(text + head, digits, SW_PLAN_DIGEST_DIGITS);
    if (fwrite(text, 1, bytes, out) != bytes || fflush(out) != 0) {
        sw_fail(err, SW_ENVIRONMENT, "cannot write the plan");
        goto out;
    }
    if (digest != NULL)
        *digest = found;
    status = 0;
out:
    free(plan);
    free(text);
    return status;
}

int sw_plan_visit(const struct sw_run_config *run, const struct sw_decision *decision,
                  const struct sw_plan_prediction *prediction,
                  const uint64_t program_digest[SW_PROGRAM_KINDS], sw_config_visitor visit,
                  void *context, struct sw_error *err)
{
    struct texts texts;
    struct sw_plan_config *plan =
        describe(run, NULL, decision, prediction, program_digest, &texts, err);
    if (plan == NULL)
        return -1;
    sw_plan_config_visit(plan, visit, context);
    free(plan);
    return 0;
}
