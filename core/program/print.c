/* The readable text of a program at any stage, and its digest. */
#include "core/program/builder.h"

#include <inttypes.h>
#include <string.h>

static void print_ref(FILE *out, const struct sw_program *p, struct sw_ref ref)
{
    fprintf(out, "%s", p->values[ref.value].name);
    if (p->values[ref.value].stack == 1)
        return;
    if (ref.mode == SW_INDEX_WHOLE)
        fprintf(out, "[*]");
    else if (ref.mode == SW_INDEX_FIXED)
        fprintf(out, "[%d]", ref.shift);
    else if (ref.shift == 0)
        fprintf(out, "[l]");
    else
        fprintf(out, "[l%+d]", ref.shift);
}

static void print_refs(FILE *out, const struct sw_program *p, const struct sw_ref *refs,
                       uint8_t count)
{
    for (uint8_t i = 0; i < count; i++) {
        if (i > 0)
            fprintf(out, ", ");
        print_ref(out, p, refs[i]);
    }
}

static const char *stage_mark(uint8_t stage)
{
    static const char *const marks[] = {[SW_STAGE_MODEL] = "",
                                        [SW_STAGE_RECOMPUTE] = " (recomputed)",
                                        [SW_STAGE_BACKWARD] = "",
                                        [SW_STAGE_RESHARD] = "",
                                        [SW_STAGE_UPDATE] = ""};
    return marks[stage];
}

static void print_attributes(FILE *out, const struct sw_program *p, const struct sw_op *op)
{
    char axes[32];
    switch (op->kind) {
    case SW_OP_ROPE:
        fprintf(out, " head_dim=%d theta=%g%s", op->head_dim, op->scale,
                op->inverse ? " inverse" : "");
        break;
    case SW_OP_RMSNORM:
    case SW_OP_RMSNORM_GRAD:
        fprintf(out, " eps=%g", op->scale);
        break;
    case SW_OP_REPLICATE_HEADS:
    case SW_OP_REPLICATE_HEADS_GRAD:
        fprintf(out, " head_dim=%d copies=%d", op->head_dim, op->group);
        break;
    case SW_OP_RING_ATTENTION:
    case SW_OP_RING_ATTENTION_GRAD:
        fprintf(out, " head_dim=%d group=%d %s", op->head_dim, op->group,
                op->sequence_layout == SW_ZIGZAG ? "zigzag" : "contiguous");
        if (op->axes.count > 0)
            fprintf(out, " ring(%s)", sw_axes_format(op->axes, axes, sizeof axes));
        break;
    case SW_OP_LM_HEAD_LOSS:
    case SW_OP_LM_HEAD_GRAD:
        fprintf(out, " scale=%g", op->scale);
        break;
    case SW_OP_ACCUMULATE:
        fprintf(out, "%s", op->first ? " first" : "");
        break;
    case SW_OP_ADAMW:
        fprintf(out, "%s", op->decay ? " decay" : "");
        break;
    case SW_OP_SLICE:
    case SW_OP_ALL_GATHER:
    case SW_OP_REDUCE_SCATTER:
    case SW_OP_ALL_REDUCE:
    case SW_OP_ALL_TO_ALL:
        fprintf(out, " over (%s)", sw_axes_format(op->axes, axes, sizeof axes));
        if (op->kind == SW_OP_ALL_TO_ALL)
            fprintf(out, " dim %d -> %d", op->dim, op->dim_to);
        else if (op->kind != SW_OP_ALL_REDUCE)
            fprintf(out, " dim %d", op->dim);
        if (p->stage == SW_LAID_OUT && op->kind != SW_OP_SLICE)
            fprintf(out, " %" PRId64 " bytes", sw_op_communication_bytes(p, op));
        break;
    default:
        break;
    }
    if (op->ahead)
        fprintf(out, " ahead");
    if (op->last_micro_step)
        fprintf(out, " in the last micro-step");
}

static const char *role_name(enum sw_role role)
{
    switch (role) {
    case SW_ROLE_PARAMETER:
        return "parameter";
    case SW_ROLE_GRADIENT:
        return "gradient";
    case SW_ROLE_OPTIMIZER:
        return "optimizer";
    case SW_ROLE_INPUT:
        return "input";
    case SW_ROLE_ACCUMULATOR:
        return "accumulator";
    case SW_ROLE_ACTIVATION:
        return "activation";
    }
    return "";
}

static void print_value(FILE *out, const struct sw_program *p, const struct sw_value *value)
{
    char text[160];
    fprintf(out, "  %s: %s %s", value->name, role_name(value->role), sw_dtype_name(value->dtype));
    if (value->stack > 1)
        fprintf(out, " %d x", value->stack);
    fprintf(out, " [");
    for (uint8_t d = 0; d < value->ndim; d++)
        fprintf(out, "%s%s=%" PRId64, d > 0 ? ", " : "", sw_logical_name(value->axis[d]),
                value->size[d]);
    fprintf(out, "]");
    if (p->stage >= SW_PARTITIONED)
        fprintf(out, " %s", sw_sharding_format(&value->sharding, text, sizeof text));
    if (value->alias >= 0)
        fprintf(out, " in %s", p->values[value->alias].name);
    else if (p->stage == SW_LAID_OUT)
        fprintf(out, " at %" PRId64 " (%d x %" PRId64 " bytes)", value->offset, value->slots,
                value->slot_bytes);
    fprintf(out, "\n");
}

/* Values that the program's ops mention. */
static bool mentioned(const struct sw_program *p, int32_t value)
{
    for (int32_t i = 0; i < p->op_count; i++) {
        for (uint8_t j = 0; j < p->ops[i].n_in; j++)
            if (p->ops[i].in[j].value == value)
                return true;
        for (uint8_t j = 0; j < p->ops[i].n_out; j++)
            if (p->ops[i].out[j].value == value)
                return true;
    }
    return false;
}

void sw_program_print(FILE *out, const struct sw_program *p)
{
    static const char *const stages[] = {"logical", "differentiated", "partitioned", "scheduled",
                                         "laid out"};
    static const char *const phases[] = {"forward", "backward", "update"};
    char text[64], order[64];
    fprintf(out,
            "program (%s) mesh %s order %s, %d layers, micro-batch %" PRId64 " x %" PRId64
            " tokens, %d micro-step%s\n",
            stages[p->stage], sw_mesh_format(&p->mesh, text, sizeof text),
            sw_mesh_format_order(&p->mesh, order, sizeof order), p->layers, p->micro_batch,
            p->sequence_length, p->accumulation_steps, p->accumulation_steps == 1 ? "" : "s");
    if (p->stage == SW_LAID_OUT)
        fprintf(out,
                "arena %" PRId64 " bytes: parameters %" PRId64 ", gradients %" PRId64
                ", optimizer %" PRId64 ", activations %" PRId64 ", workspace %" PRId64 "\n",
                p->arena_bytes, p->parameter_bytes, p->gradient_bytes, p->optimizer_bytes,
                p->activation_bytes, p->workspace_bytes);
    fprintf(out, "values\n");
    for (int32_t v = 0; v < p->value_count; v++)
        if (mentioned(p, v))
            print_value(out, p, &p->values[v]);
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        fprintf(out, "%s (%s", region->name, phases[region->phase]);
        if (region->repeat > 1)
            fprintf(out, ", l = %s", region->reverse ? "last .. 0" : "0 .. last");
        fprintf(out, ")\n");
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            fprintf(out, "  ");
            if (op->n_out > 0) {
                print_refs(out, p, op->out, op->n_out);
                fprintf(out, " = ");
            }
            fprintf(out, "%s(", sw_op_info(op->kind)->name);
            print_refs(out, p, op->in, op->n_in);
            fprintf(out, ")");
            print_attributes(out, p, op);
            fprintf(out, "%s\n", stage_mark(op->stage));
        }
    }
}

/* ---- Digest: FNV-1a 64, field by field (structs have padding) ---- */

static void mix(uint64_t *hash, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        *hash = (*hash ^ at[i]) * 1099511628211u;
}

static void mix_int(uint64_t *hash, int64_t value)
{
    mix(hash, &value, sizeof value);
}

static void mix_axes(uint64_t *hash, struct sw_axes axes)
{
    mix_int(hash, axes.count);
    for (uint8_t i = 0; i < axes.count; i++)
        mix_int(hash, axes.axis[i]);
}

static void mix_refs(uint64_t *hash, const struct sw_ref *refs, uint8_t count)
{
    mix_int(hash, count);
    for (uint8_t i = 0; i < count; i++) {
        mix_int(hash, refs[i].value);
        mix_int(hash, refs[i].mode);
        mix_int(hash, refs[i].shift);
    }
}

static void mix_value(uint64_t *hash, const struct sw_value *value)
{
    mix(hash, value->name, strlen(value->name));
    mix_int(hash, value->role);
    mix_int(hash, value->dtype);
    for (uint8_t d = 0; d < value->ndim; d++) {
        mix_int(hash, value->size[d]);
        mix_int(hash, value->local[d]);
        mix_axes(hash, value->sharding.spec.dim[d]);
    }
    mix_int(hash, value->sharding.partial);
    mix_int(hash, value->stack);
    mix_int(hash, value->alias);
    mix_int(hash, value->slots);
    mix_int(hash, value->slot_bytes);
    mix_int(hash, value->offset);
}

static void mix_op(uint64_t *hash, const struct sw_op *op)
{
    mix_int(hash, op->kind);
    mix_refs(hash, op->in, op->n_in);
    mix_refs(hash, op->out, op->n_out);
    mix_int(hash, op->ahead);
    mix_int(hash, op->last_micro_step);
    mix_int(hash, op->head_dim);
    mix_int(hash, op->group);
    mix_int(hash, op->inverse);
    mix_int(hash, op->first);
    mix_int(hash, op->decay);
    mix_int(hash, op->sequence_layout);
    mix_int(hash, op->sequence_shards);
    mix(hash, &op->scale, sizeof op->scale);
    mix_axes(hash, op->axes);
    mix_int(hash, op->dim);
    mix_int(hash, op->dim_to);
    mix_int(hash, op->workspace_bytes);
    mix_int(hash, op->workspace_offset);
}

uint64_t sw_program_digest(const struct sw_program *p)
{
    uint64_t hash = 14695981039346656037u;
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++) {
        mix_int(&hash, p->mesh.size[i]);
        mix_int(&hash, p->mesh.order[i]);
    }
    mix_int(&hash, p->accumulation_steps);
    mix_int(&hash, p->micro_batch);
    mix_int(&hash, p->sequence_length);
    mix_int(&hash, p->layers);
    mix_int(&hash, p->sequence_layout);
    mix_int(&hash, p->sequence_shards);
    mix_int(&hash, p->loss);
    mix_int(&hash, p->grad_norm);
    mix_int(&hash, p->arena_bytes);
    for (int32_t v = 0; v < p->value_count; v++)
        mix_value(&hash, &p->values[v]);
    for (int32_t r = 0; r < p->region_count; r++) {
        mix_int(&hash, p->regions[r].phase);
        mix_int(&hash, p->regions[r].repeat);
        mix_int(&hash, p->regions[r].reverse);
        mix_int(&hash, p->regions[r].op_count);
    }
    for (int32_t i = 0; i < p->op_count; i++)
        mix_op(&hash, &p->ops[i]);
    return hash;
}
