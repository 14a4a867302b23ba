/* The readable text of a program at any stage, and its digest. */
#include "core/base/hash.h"
#include "core/ir/builder.h"
#include "core/ir/messages.h"
#include "core/ir/walk.h"

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
                       uint16_t count)
{
    for (uint16_t i = 0; i < count; i++) {
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

static void print_attribute(FILE *out, const struct sw_op *op, const struct sw_attribute *a)
{
    const bool real = a->type == SW_ATTRIBUTE_REAL;
    const bool set = real ? sw_attribute_real(op, a) != 0 : sw_attribute_int(op, a) != 0;
    if (a->prints == SW_PRINT_NEVER || (a->prints == SW_PRINT_SET && !set))
        return;
    if (real)
        fprintf(out, " %s=%g", a->name, sw_attribute_real(op, a));
    else if (a->type == SW_ATTRIBUTE_FLAG)
        fprintf(out, "%s%s", set ? " " : "", set ? a->name : "");
    else if (a->type == SW_ATTRIBUTE_WORD && sw_attribute_int(op, a) >= 0)
        fprintf(out, " %s", sw_word(a->words, (int32_t)sw_attribute_int(op, a)));
    else if (a->type == SW_ATTRIBUTE_WORD)
        return;
    else
        fprintf(out, " %s=%" PRId64, a->name, sw_attribute_int(op, a));
}

static void print_count(FILE *out, int64_t count, const char *what)
{
    fprintf(out, ", %" PRId64 " %s%s", count, what, count == 1 ? "" : "s");
}

static void print_messages(FILE *out, const struct sw_program *p, const struct sw_region *region,
                           const struct sw_op *op, enum sw_carrier transport)
{
    const struct sw_collective_blocks b = sw_collective_blocks(p, op);
    fprintf(out, " %" PRId64 " bytes", sw_op_communication_bytes(p, op));
    if (b.group <= 1)
        return;
    print_count(out, (int64_t)sw_walk_count(p, region, op), "call");
    print_count(out, sw_collective_route(transport, sw_op_collective(op->kind), &b).messages,
                "message");
    print_count(out, b.send_rows > b.receive_rows ? b.send_rows : b.receive_rows, "row");
}

static void print_attributes(FILE *out, const struct sw_program *p, const struct sw_region *region,
                             const struct sw_op *op, enum sw_carrier transport)
{
    char axes[32];
    const struct sw_op_info *info = sw_op_info(op->kind);
    for (const struct sw_attribute *a = info->attributes; a != NULL && a->type != SW_ATTRIBUTE_END;
         a++)
        print_attribute(out, op, a);
    if (sw_op_is_ring(op) && op->axes.count > 0)
        fprintf(out, " ring(%s)", sw_axes_format(op->axes, axes, sizeof axes));
    if (info->messages != NULL && op->axes.count > 0)
        fprintf(out, " over (%s)", sw_axes_format(op->axes, axes, sizeof axes));
    if (sw_op_is_move(op->kind)) {
        const enum sw_collective kind = sw_op_collective(op->kind);
        fprintf(out, " over (%s)", sw_axes_format(op->axes, axes, sizeof axes));
        if (kind == SW_ALL_TO_ALL)
            fprintf(out, " dim %d -> %d", op->as.move.dim, op->as.move.dim_to);
        else if (kind != SW_ALL_REDUCE)
            fprintf(out, " dim %d", op->as.move.dim);
        if (p->stage == SW_LAID_OUT && sw_op_is_collective(op->kind))
            print_messages(out, p, region, op, transport);
    }
    if (op->ahead)
        fprintf(out, " ahead");
    if (op->last_micro_step)
        fprintf(out, " in the last micro-step");
    if (op->first_micro_step)
        fprintf(out, " in the first micro-step");
}

static const char *role_name(enum sw_role role)
{
    static const char *const names[] = {[SW_ROLE_PARAMETER] = "parameter",
                                        [SW_ROLE_OPTIMIZER] = "optimizer",
                                        [SW_ROLE_CACHE] = "cache",
                                        [SW_ROLE_GRADIENT] = "gradient",
                                        [SW_ROLE_WEIGHTS] = "weights",
                                        [SW_ROLE_INPUT] = "input",
                                        [SW_ROLE_ACCUMULATOR] = "accumulator",
                                        [SW_ROLE_ACTIVATION] = "activation"};
    _Static_assert(sizeof names / sizeof names[0] == SW_ROLE_COUNT, "a name for every role");
    return names[role];
}

static void print_value(FILE *out, const struct sw_program *p, const struct sw_value *value)
{
    char text[160];
    const bool frozen = value->role == SW_ROLE_PARAMETER && value->frozen && !value->copy &&
                        sw_program_traits(p->kind)->backward;
    fprintf(out, "  %s: %s%s %s", value->name, frozen ? "frozen " : "",
            value->copy ? "copy" : role_name(value->role), sw_dtype_name(value->dtype));
    if (value->stack > 1)
        fprintf(out, " %d x", value->stack);
    fprintf(out, " [");
    for (uint8_t d = 0; d < value->ndim; d++) {
        fprintf(out, "%s%s=%" PRId64, d > 0 ? ", " : "", sw_logical_name(value->axis[d]),
                value->size[d]);
        if (value->padded[d] > value->size[d])
            fprintf(out, "+%" PRId64, value->padded[d] - value->size[d]);
    }
    fprintf(out, "]%s", value->tiled ? " in tiles" : "");
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
        for (uint16_t j = 0; j < p->ops[i].n_in; j++)
            if (p->ops[i].in[j].value == value)
                return true;
        for (uint16_t j = 0; j < p->ops[i].n_out; j++)
            if (p->ops[i].out[j].value == value)
                return true;
    }
    return false;
}

/* Prints the layers that a region runs, in its order. */
static void print_layers(FILE *out, const struct sw_program *p, const struct sw_region *region)
{
    const int32_t count = region->layers > 0 ? region->layers : region->repeat;
    const int32_t last = region->first_layer + count - 1;
    char end[16] = "last";
    if (count == 1 && region->part == SW_LAYERS_WHOLE)
        return;
    if (last + 1 < p->layers && region->part != SW_LAYERS_WHOLE)
        snprintf(end, sizeof end, "%d", last);
    if (count == 1)
        fprintf(out, ", l = %s", end);
    else if (region->reverse)
        fprintf(out, ", l = %s .. %d", end, region->first_layer);
    else
        fprintf(out, ", l = %d .. %s", region->first_layer, end);
}

void sw_program_print(FILE *out, const struct sw_program *p, enum sw_carrier transport)
{
    static const char *const stages[] = {"logical", "differentiated", "partitioned", "scheduled",
                                         "laid out"};
    static const char *const phases[] = {"forward", "backward", "update"};
    char text[64], order[64];
    fprintf(out, "program (%s) mesh %s order %s, %d layers", stages[p->stage],
            sw_mesh_format(&p->mesh, text, sizeof text),
            sw_mesh_format_order(&p->mesh, order, sizeof order), p->layers);
    if (p->inputs.count > 0)
        fprintf(out, ", micro-batch %" PRId64 " x %" PRId64 " tokens, %d micro-step%s",
                p->micro_batch, p->sequence_length, p->accumulation_steps,
                p->accumulation_steps == 1 ? "" : "s");
    if (p->padding_sequences > 0)
        fprintf(out, ", %" PRId64 " padding sequence%s in the last", p->padding_sequences,
                p->padding_sequences == 1 ? "" : "s");
    fprintf(out, "\n");
    if (p->stage == SW_LAID_OUT)
        fprintf(out,
                "arena %" PRId64 " bytes: parameters %" PRId64 ", gradients %" PRId64
                ", optimizer %" PRId64 ", activations %" PRId64 ", workspace %" PRId64 "\n",
                p->arena_bytes, p->parameter_bytes, p->gradient_bytes, p->optimizer_bytes,
                p->activation_bytes, p->workspace_bytes);
    if (p->stage == SW_LAID_OUT && p->weight_bytes > 0)
        fprintf(out, "weights of the whole step %" PRId64 " bytes\n", p->weight_bytes);
    if (p->rope_divisors[0] != 0) {
        fprintf(out, "longrope divides angles by");
        for (int32_t j = 0; j < SW_ROPE_MOST_PAIRS && p->rope_divisors[j] != 0; j++)
            fprintf(out, " %g", (double)p->rope_divisors[j]);
        fprintf(out, "\n");
    }
    fprintf(out, "values\n");
    for (int32_t v = 0; v < p->value_count; v++)
        if (mentioned(p, v))
            print_value(out, p, &p->values[v]);
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        fprintf(out, "%s (%s", region->name, phases[region->phase]);
        print_layers(out, p, region);
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
            print_attributes(out, p, region, op, transport);
            fprintf(out, "%s\n", stage_mark(op->stage));
        }
    }
}

/* ---- Digest: FNV-1a 64, field by field (structs have padding). Kinds, roles, types and attributes
 * are mixed in by name, so that additions to their lists change no digest of a program without
 * them; an unset attribute is left out. ---- */

static void mix(uint64_t *hash, const void *data, size_t bytes)
{
    *hash = sw_hash_bytes(*hash, data, bytes);
}

static void mix_int(uint64_t *hash, int64_t value)
{
    mix(hash, &value, sizeof value);
}

/* Mixes in the end of the string as well, to separate it from the next. */
static void mix_name(uint64_t *hash, const char *name)
{
    mix(hash, name, strlen(name) + 1);
}

static void mix_axes(uint64_t *hash, struct sw_axes axes)
{
    mix_int(hash, axes.count);
    for (uint8_t i = 0; i < axes.count; i++)
        mix_int(hash, axes.axis[i]);
}

static void mix_refs(uint64_t *hash, const struct sw_ref *refs, uint16_t count)
{
    mix_int(hash, count);
    for (uint16_t i = 0; i < count; i++) {
        mix_int(hash, refs[i].value);
        mix_int(hash, refs[i].mode);
        mix_int(hash, refs[i].shift);
    }
}

static void mix_value(uint64_t *hash, const struct sw_value *value)
{
    mix_name(hash, value->name);
    mix_name(hash, role_name(value->role));
    mix_int(hash, value->initial);
    mix_int(hash, value->decay);
    mix_name(hash, sw_dtype_name(value->dtype));
    mix_int(hash, value->ndim);
    for (uint8_t d = 0; d < value->ndim; d++) {
        mix_int(hash, value->size[d]);
        mix_int(hash, value->local[d]);
        mix_axes(hash, value->sharding.spec.dim[d]);
    }
    mix_int(hash, value->sharding.partial);
    mix_int(hash, value->stack);
    mix_int(hash, value->first_layer);
    if (value->period > 1)
        mix_int(hash, value->period);
    mix_int(hash, value->alias);
    mix_int(hash, value->slots);
    mix_int(hash, value->slot_bytes);
    mix_int(hash, value->tiled);
    mix_int(hash, value->offset);
}

/* Mixes in the attribute's name, then its word or value; nothing if zero. */
static void mix_attribute(uint64_t *hash, const struct sw_op *op, const struct sw_attribute *a)
{
    const bool is_real = a->type == SW_ATTRIBUTE_REAL;
    const double real = is_real ? sw_attribute_real(op, a) : 0;
    const int64_t integer = is_real ? 0 : sw_attribute_int(op, a);
    if (integer == 0 && real == 0)
        return;
    const char *word = a->type == SW_ATTRIBUTE_WORD ? sw_word(a->words, (int32_t)integer) : NULL;
    mix_name(hash, a->name);
    if (is_real)
        mix(hash, &real, sizeof real);
    else if (word != NULL)
        mix_name(hash, word);
    else
        mix_int(hash, integer);
}

static void mix_op(uint64_t *hash, const struct sw_op *op)
{
    mix_name(hash, sw_op_info(op->kind)->name);
    if (op->position > 0)
        mix_int(hash, op->position);
    mix_refs(hash, op->in, op->n_in);
    mix_refs(hash, op->out, op->n_out);
    mix_int(hash, op->ahead);
    mix_int(hash, op->last_micro_step);
    if (op->first_micro_step)
        mix_name(hash, "first");
    for (const struct sw_attribute *a = sw_op_info(op->kind)->attributes;
         a != NULL && a->type != SW_ATTRIBUTE_END; a++)
        mix_attribute(hash, op, a);
    mix_axes(hash, op->axes);
    mix_int(hash, op->workspace_bytes);
    mix_int(hash, op->workspace_offset);
}

uint64_t sw_program_digest(const struct sw_program *p)
{
    uint64_t hash = SW_HASH_START;
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++) {
        mix_int(&hash, p->mesh.size[i]);
        mix_int(&hash, p->mesh.order[i]);
    }
    mix_int(&hash, p->accumulation_steps);
    mix_int(&hash, p->micro_batch);
    mix_int(&hash, p->padding_sequences);
    mix_int(&hash, p->sequence_length);
    mix_int(&hash, p->layers);
    mix_int(&hash, p->sequence_layout);
    mix_int(&hash, p->sequence_shards);
    for (int32_t i = 0; i < p->inputs.count; i++)
        mix_int(&hash, p->inputs.at[i].value);
    for (int32_t i = 0; i < p->outputs.count; i++)
        mix_int(&hash, p->outputs.at[i].value);
    mix_int(&hash, p->arena_bytes);
    if (p->rope_divisors[0] != 0)
        mix(&hash, p->rope_divisors, sizeof p->rope_divisors);
    for (int32_t v = 0; v < p->value_count; v++)
        mix_value(&hash, &p->values[v]);
    for (int32_t r = 0; r < p->region_count; r++) {
        mix_int(&hash, p->regions[r].phase);
        mix_int(&hash, p->regions[r].repeat);
        mix_int(&hash, p->regions[r].first_layer);
        if (p->regions[r].period > 1)
            mix_int(&hash, p->regions[r].period);
        mix_int(&hash, p->regions[r].reverse);
        mix_int(&hash, p->regions[r].carry);
        mix_int(&hash, p->regions[r].op_count);
    }
    for (int32_t i = 0; i < p->op_count; i++)
        mix_op(&hash, &p->ops[i]);
    return hash;
}
