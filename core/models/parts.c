#include "core/models/model.h"
#include "core/passes/passes.h"

#include "core/base/quantize.h"

#include <assert.h>
#include <string.h>

int32_t sw_build_parameter(struct sw_builder *b, const struct sw_parameter *declared,
                           enum sw_dtype dtype, uint8_t ndim, const struct sw_dim *dims,
                           bool trained)
{
    const int32_t stack = declared->part == SW_OF_LAYER ? b->program->layers : 1;
    struct sw_dim elements[SW_MAX_DIMS] = {{SW_L_NONE, 0, 0, SW_SIZE_FIXED}};
    memcpy(elements, dims, ndim * sizeof *dims);
    elements[sw_parameter_inputs(declared)].size /= sw_dtype_group(dtype);
    const int32_t value =
        sw_builder_value(b, declared->name, SW_ROLE_PARAMETER, dtype, ndim, elements, stack);
    b->program->values[value].parameter = declared;
    b->program->values[value].initial = declared->initial;
    b->program->values[value].frozen = !trained;
    b->program->values[value].saved = declared->saved;
    b->program->values[value].origin = declared->origin;
    b->program->values[value].decay = trained && declared->decays;
    b->program->values[value].tiles =
        b->options->serving.tiles && (dtype == SW_BF16_T || sw_is_quantized(dtype)) && ndim == 2;
    return value;
}

void sw_build_scales(struct sw_builder *b, int32_t parameter, struct sw_dim outputs)
{
    const struct sw_value of = b->program->values[parameter];
    char name[SW_NAME_BYTES];
    sw_builder_name(name, of.name, SW_NAME_BYTES - 10, " scales", 8);
    const int32_t value =
        sw_builder_value(b, name, SW_ROLE_PARAMETER, SW_F32, 1, &outputs, of.stack);
    b->program->values[value].parameter = of.parameter;
    b->program->values[value].initial = of.initial;
    b->program->values[value].frozen = b->program->values[value].scales = true;
}

void sw_build_copy(struct sw_builder *b, int32_t parameter)
{
    const struct sw_value of = b->program->values[parameter];
    const int32_t value =
        sw_builder_value_like(b, parameter, "copy of ", b->options->compute, of.stack);
    b->program->values[value].role = SW_ROLE_PARAMETER;
    b->program->values[value].parameter = of.parameter;
    b->program->values[value].initial = SW_INITIAL_ZEROS; /* until the parameter is read */
    b->program->values[value].frozen = b->program->values[value].copy = true;
}

/* Copy of a parameter; -1: none. */
static int32_t copy_of(const struct sw_builder *b, int32_t parameter)
{
    const struct sw_program *p = b->program;
    return parameter + 1 < p->value_count && p->values[parameter + 1].copy ? parameter + 1 : -1;
}

void sw_build_place(struct sw_builder *b, int32_t parameter)
{
    const bool each = b->options->keep_gathered;
    const struct sw_value of = b->program->values[parameter];
    const uint8_t apart = sw_placement_differs(b->options);
    bool here = false;
    for (uint8_t d = 0; d < of.ndim; d++)
        here = here || (of.axis[d] == SW_L_EMBED && (apart & SW_DIFFERS_WEIGHTS)) ||
               (of.axis[d] == SW_L_TABLE && (apart & SW_DIFFERS_WEIGHTS << SW_DIFFERS_TABLE));
    if (!here)
        return;
    sw_builder_place_as(b, parameter, SW_COPY_MASTER);
    if (!sw_program_traits(b->options->kind)->backward)
        return;
    const int32_t value =
        sw_builder_value_like(b, parameter, "full ", b->options->compute, of.stack);
    sw_builder_place_as(b, value, each ? SW_COPY_GATHERED : SW_COPY_WEIGHTS);
    b->program->values[value].role = each ? SW_ROLE_ACTIVATION : SW_ROLE_WEIGHTS;
    b->program->values[value].gathered = true;
    b->program->gathers_once = !each;
}

static bool is_gathered(const struct sw_builder *b, int32_t parameter)
{
    const struct sw_program *p = b->program;
    return parameter + 1 < p->value_count && p->values[parameter + 1].gathered;
}

/* True if an earlier op has made the value; for a layer's value, in this layer. */
static bool is_made(const struct sw_builder *b, int32_t value)
{
    const struct sw_program *p = b->program;
    const bool layers = p->values[value].stack > 1;
    bool made = false;
    for (int32_t i = layers ? p->regions[b->region].first_op : 0; i < p->op_count; i++)
        made = made || (p->ops[i].n_out > 0 && p->ops[i].out[0].value == value &&
                        (!layers || p->ops[i].position == b->position));
    return made;
}

/* Gathers a parameter's weights, the value behind it, unless an earlier op has. Returns that
 * value. */
static int32_t gather(struct sw_builder *b, int32_t parameter)
{
    const int32_t gathered = parameter + 1;
    const bool once = b->program->values[gathered].role == SW_ROLE_WEIGHTS;
    int32_t from = parameter;
    if (is_made(b, gathered))
        return gathered;
    if (b->program->values[parameter].dtype != b->options->compute) {
        const int32_t cast = sw_build_apply(b, SW_OP_CAST, parameter, -1);
        from = sw_builder_value_here(b, parameter, "c ", b->options->compute);
        sw_builder_out(b, cast, sw_builder_ref(b, from));
        b->program->ops[cast].first_micro_step = once;
    }
    const int32_t op = sw_build_apply(b, SW_OP_CONSTRAIN, from, -1);
    sw_builder_out(b, op, sw_builder_ref(b, gathered));
    b->program->ops[op].first_micro_step = once;
    return gathered;
}

int32_t sw_build_apply(struct sw_builder *b, enum sw_op_kind kind, int32_t x, int32_t w)
{
    const int32_t op = sw_builder_op(b, kind, SW_STAGE_MODEL);
    sw_builder_in(b, op, sw_builder_ref(b, x));
    if (w >= 0)
        sw_builder_in(b, op, sw_builder_ref(b, w));
    return op;
}

static int32_t ordinal_of(struct sw_builder *b, const struct sw_made *made)
{
    if (!made->listed)
        return -1;
    const int32_t ordinal = sw_layer_value_find(made->name);
    assert(ordinal >= 0);
    sw_layer_values_add(&b->program->layer_values, ordinal);
    return ordinal;
}

int32_t sw_build_value(struct sw_builder *b, enum sw_dtype dtype, uint8_t ndim,
                       const struct sw_made *made)
{
    const int32_t value =
        sw_builder_value(b, made->name, SW_ROLE_ACTIVATION, dtype, ndim, made->dims, made->stack);
    b->program->values[value].ordinal = (int16_t)ordinal_of(b, made);
    return value;
}

int32_t sw_build_result(struct sw_builder *b, int32_t op, enum sw_dtype dtype, uint8_t ndim,
                        const struct sw_made *made)
{
    const int32_t value = sw_build_value(b, dtype, ndim, made);
    sw_builder_out(b, op, sw_builder_ref(b, value));
    return value;
}

int32_t sw_build_weight(struct sw_builder *b, int32_t parameter)
{
    const enum sw_dtype compute = b->options->compute, is = b->program->values[parameter].dtype;
    const bool trains = sw_program_traits(b->options->kind)->state == SW_STATE_TRAINING;
    if (is_gathered(b, parameter))
        return gather(b, parameter);
    if (is == compute || (sw_is_quantized(is) && !trains))
        return parameter;
    if (sw_has_scales(is)) {
        const bool turned = sw_parameter_is_turned(b->program->values[parameter].parameter);
        const int32_t op =
            sw_build_apply(b, turned ? SW_OP_WIDEN_T : SW_OP_WIDEN, parameter, parameter + 1);
        const int32_t value = sw_builder_value_here(b, parameter, "c ", compute);
        sw_builder_out(b, op, sw_builder_ref(b, value));
        return value;
    }
    if (copy_of(b, parameter) >= 0)
        return copy_of(b, parameter);
    const int32_t op = sw_build_apply(b, SW_OP_CAST, parameter, -1);
    const int32_t value = sw_builder_value_here(b, parameter, "c ", compute);
    sw_builder_out(b, op, sw_builder_ref(b, value));
    return value;
}

/* Gathers rows of the vocabulary for use. */
static int32_t bring_rows(struct sw_builder *b, int32_t lies)
{
    const struct sw_value is = b->program->values[lies];
    if (is.axis[0] != SW_L_TABLE && is.axis[0] != SW_L_MOMENT_TABLE)
        return lies;
    const struct sw_dim dims[2] = {{SW_L_VOCAB, is.size[0], 1, SW_SIZE_FIXED},
                                   {SW_L_NONE, is.size[1], 1, SW_SIZE_FIXED}};
    return sw_build_result(b, sw_build_apply(b, SW_OP_CONSTRAIN, lies, -1), is.dtype, 2,
                           &(struct sw_made){is.name, dims, 1, false});
}

int32_t sw_build_table(struct sw_builder *b, int32_t parameter)
{
    return bring_rows(b, sw_build_weight(b, parameter));
}

int32_t sw_build_lookup(struct sw_builder *b, int32_t tokens, int32_t parameter)
{
    const struct sw_program_options *o = b->options;
    const bool rounds = b->program->values[parameter].dtype == SW_F32 && o->compute == SW_BF16_T;
    const int32_t table = rounds && sw_table_lies_where_used(o) && !is_gathered(b, parameter)
                              ? bring_rows(b, parameter)
                              : sw_build_table(b, parameter);
    const int32_t op = sw_build_apply(b, SW_OP_EMBEDDING, tokens, table);
    sw_build_take_scales(b, op, table);
    return op;
}

void sw_build_take_scales(struct sw_builder *b, int32_t op, int32_t weight)
{
    if (sw_has_scales(b->program->values[weight].dtype))
        sw_builder_in(b, op, sw_builder_ref(b, weight + 1)); /* sw_build_scales */
}

int32_t sw_build_linear(struct sw_builder *b, bool transposed, int32_t x, int32_t w, int32_t bias,
                        struct sw_made made)
{
    const int32_t weight = sw_build_weight(b, w);
    const int32_t op = sw_build_apply(b, transposed ? SW_OP_LINEAR_T : SW_OP_LINEAR, x, weight);
    sw_build_take_scales(b, op, weight);
    const int32_t y = sw_build_result(b, op, b->options->compute, 3, &made);
    if (bias < 0)
        return y;
    char name[SW_NAME_BYTES];
    sw_builder_name(name, made.name, SW_NAME_BYTES - 8, "+b", 2);
    made.name = name;
    return sw_build_result(b, sw_build_apply(b, SW_OP_ADD_BIAS, y, bias), b->options->compute, 3,
                           &made);
}

int32_t sw_build_rope(struct sw_builder *b, int32_t x, int32_t positions, bool slots,
                      struct sw_made made)
{
    const int32_t op = sw_build_apply(b, SW_OP_ROPE, x, positions);
    b->program->ops[op].as.rope.head_dim = b->options->model.head_dim;
    b->program->ops[op].as.rope.slots = slots;
    b->program->ops[op].as.rope.rows = !slots && b->options->row_positions;
    const struct sw_model *m = &b->options->model;
    const bool own = m->local_rope.theta != 0 && sw_model_is_local(m, b->position);
    const struct sw_rope *rope = own ? &m->local_rope : &m->rope;
    b->program->ops[op].as.rope.rope.theta = rope->theta;
    if (m->partial_rotary_factor != 0)
        b->program->ops[op].as.rope.rotated = sw_model_rotated(m);
    if (rope->scaling != SW_ROPE_PLAIN)
        b->program->ops[op].as.rope.rope = *rope;
    return sw_build_result(b, op, b->options->compute, 3, &made);
}

int32_t sw_build_scale(struct sw_builder *b, int32_t x, double factor, struct sw_made made)
{
    if (factor == 0)
        return x;
    const int32_t op = sw_build_apply(b, SW_OP_SCALE, x, -1);
    b->program->ops[op].as.scale.factor = factor;
    return sw_build_result(b, op, b->options->compute, 3, &made);
}

int32_t sw_build_logits(struct sw_builder *b, int32_t n, int32_t table, enum sw_dtype dtype,
                        const struct sw_dim dims[3])
{
    const double cap = b->options->model.final_softcap;
    const int32_t op = sw_build_apply(b, SW_OP_LINEAR_T, n, table);
    sw_build_take_scales(b, op, table);
    const int32_t made = sw_build_result(
        b, op, dtype, 3, &(struct sw_made){cap != 0 ? "uncapped" : "logits", dims, 1, false});
    if (cap == 0)
        return made;
    const int32_t capped = sw_build_apply(b, SW_OP_SOFTCAP, made, -1);
    b->program->ops[capped].as.softcap.cap = cap;
    return sw_build_result(b, capped, dtype, 3, &(struct sw_made){"logits", dims, 1, false});
}

int32_t sw_build_constrain(struct sw_builder *b, int32_t x, struct sw_made made)
{
    const enum sw_dtype dtype = b->program->values[x].dtype;
    return sw_build_result(b, sw_build_apply(b, SW_OP_CONSTRAIN, x, -1), dtype, 3, &made);
}

int32_t sw_build_replicate(struct sw_builder *b, int32_t x, int32_t copies, struct sw_made made)
{
    if (copies == 1) {
        (void)ordinal_of(b, &made);
        return x;
    }
    const int32_t op = sw_build_apply(b, SW_OP_REPLICATE_HEADS, x, -1);
    b->program->ops[op].as.copies.head_dim = b->options->model.head_dim;
    b->program->ops[op].as.copies.copies = copies;
    return sw_build_result(b, op, b->options->compute, 3, &made);
}

void sw_build_add_into(struct sw_builder *b, struct sw_ref x, int32_t y, struct sw_ref into)
{
    const int32_t op = sw_builder_op(b, SW_OP_ADD, SW_STAGE_MODEL);
    sw_builder_in(b, op, x);
    sw_builder_in(b, op, sw_builder_ref(b, y));
    sw_builder_out(b, op, into);
}
