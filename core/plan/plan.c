#include "core/plan/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const sw_plan_recompute_words[3] = {"none", "attention", "full"};
const char *const sw_plan_strategy_words[3] = {"ring", "gather", "ulysses"};
const char *const sw_plan_layout_words[2] = {"zigzag", "contiguous"};
const char *const sw_plan_residual_words[2] = {"sp", "sp,tp"};

uint64_t sw_plan_fnv(uint64_t hash, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (uint8_t)bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t sw_plan_text_digest(const char *text, size_t bytes)
{
    const size_t head = strlen(SW_PLAN_HEAD), tail = head + SW_PLAN_DIGEST_DIGITS;
    return sw_plan_fnv(sw_plan_fnv(SW_PLAN_FNV_START, text, head), text + tail, bytes - tail);
}

static enum sw_dtype dtype_of(enum sw_precision precision)
{
    return precision == SW_BF16 ? SW_BF16_T : SW_F32;
}

static enum sw_attention_strategy strategy_of(enum sw_strategy strategy)
{
    switch (strategy) {
    case SW_STRATEGY_GATHER:
        return SW_ATTENTION_GATHER;
    case SW_STRATEGY_ULYSSES:
        return SW_ATTENTION_ULYSSES;
    default:
        return SW_ATTENTION_RING;
    }
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

int sw_plan_program_options(const struct sw_run_config *run, const struct sw_decision *decision,
                            struct sw_program_options *out, struct sw_error *err)
{
    memset(out, 0, sizeof *out);
    out->model = run->model.shape;
    out->sequence_length = run->sequence_length;
    out->global_batch = run->global_batch_size;
    out->micro_batch_per_rank = decision->micro_batch_size;
    out->compute = dtype_of(run->compute);
    out->params = dtype_of(run->params);
    out->reduce = dtype_of(run->reduce);
    out->mesh = decision->mesh;
    out->layout = decision->layout == SW_LAYOUT_ZIGZAG ? SW_ZIGZAG : SW_CONTIGUOUS;
    out->recompute = (uint8_t)decision->recompute;
    sw_rules_default(&out->rules, strategy_of(decision->strategy));
    if (decision->residual_seq_tp)
        out->rules.axes[SW_L_RESIDUAL_SEQ] = (struct sw_axes){2, {SW_SP, SW_TP}};
    for (int32_t i = 0; i < run->rule_count; i++)
        if (apply_rule(&out->rules, &run->rule[i], err) != 0)
            return -1;
    return 0;
}

/* Paths stand in quotes; what a YAML reader could take for something else is %XX. */
static void write_inputs(FILE *out, const struct sw_plan_inputs *inputs)
{
    const int32_t count = inputs == NULL ? 0 : inputs->count;
    fputs(count == 0 ? "inputs: []\n" : "inputs:\n", out);
    for (int32_t i = 0; i < count; i++) {
        fprintf(out, "  - {digest: '%016" PRIx64 "', path: '", inputs->input[i].digest);
        for (const char *p = inputs->input[i].path; *p != '\0'; p++) {
            const unsigned char byte = (unsigned char)*p;
            if (byte < 0x20 || byte > 0x7e || byte == '%' || byte == '\'')
                fprintf(out, "%%%02X", byte);
            else
                fputc(byte, out);
        }
        fputs("'}\n", out);
    }
}

static void write_body(FILE *out, const struct sw_run_config *run,
                       const struct sw_plan_inputs *inputs, const struct sw_decision *decision,
                       const struct sw_plan_prediction *prediction, uint64_t program_digest)
{
    char mesh[64], order[32];
    fprintf(out, "decision:\n  mesh_dim: '%s'\n  axis_order: '%s'\n",
            sw_mesh_format(&decision->mesh, mesh, sizeof mesh),
            sw_mesh_format_order(&decision->mesh, order, sizeof order));
    fprintf(out, "  micro_batch_size: %" PRId64 "\n  accumulation_steps: %" PRId64 "\n",
            decision->micro_batch_size, decision->accumulation_steps);
    fprintf(out, "  recompute: %s\n  strategy: %s\n  layout: %s\n",
            sw_plan_recompute_words[decision->recompute],
            sw_plan_strategy_words[decision->strategy], sw_plan_layout_words[decision->layout]);
    fprintf(out, "  residual_seq: '%s'\n",
            sw_plan_residual_words[decision->residual_seq_tp ? 1 : 0]);
    fprintf(out,
            "prediction:\n  step_seconds: %.6g\n  memory_total: %" PRId64
            "\n  arena_bytes: %" PRId64 "\n",
            prediction->step_seconds, prediction->memory_total, prediction->arena_bytes);
    fprintf(out, "program: '%016" PRIx64 "'\n", program_digest);
    write_inputs(out, inputs);
    fputs("run:\n", out);
    sw_run_config_write(out, run, 2);
}

int sw_plan_write(FILE *out, const struct sw_run_config *run, const struct sw_plan_inputs *inputs,
                  const struct sw_decision *decision, const struct sw_plan_prediction *prediction,
                  uint64_t program_digest, struct sw_error *err)
{
    if (decision->recompute == SW_RECOMPUTE_AUTO || decision->strategy == SW_STRATEGY_AUTO)
        return sw_fail(err, SW_BAD_INPUT, "a plan needs every choice made, none may be auto");
    int status = -1;
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the plan");
    fprintf(memory, "%s%016d'\n", SW_PLAN_HEAD, 0);
    write_body(memory, run, inputs, decision, prediction, program_digest);
    const int failed = ferror(memory);
    if (fclose(memory) != 0 || failed) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the plan");
        goto out;
    }
    const size_t head = strlen(SW_PLAN_HEAD);
    char digits[SW_PLAN_DIGEST_DIGITS + 1];
    snprintf(digits, sizeof digits, "%016" PRIx64, sw_plan_text_digest(text, bytes));
    memcpy(text + head, digits, SW_PLAN_DIGEST_DIGITS);
    if (fwrite(text, 1, bytes, out) != bytes || fflush(out) != 0) {
        sw_fail(err, SW_ENVIRONMENT, "cannot write the plan");
        goto out;
    }
    status = 0;
out:
    free(text);
    return status;
}
