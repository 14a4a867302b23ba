/* Reverse mode over the logical program: for each forward region, last first, a backward region in
 * which every op's VJP is emitted in reverse order; then the update region (clip, AdamW). The
 * transpose of a loop is a loop: if a region carries a value forward, its cotangent is carried
 * back.
 *
 * A forward value that backward needs is either kept (a stack, one instance per layer) or
 * recomputed: its op is cloned into the backward region (remat; Chen et al. 2016), on demand, so
 * nothing unneeded is recomputed. Each value of a layer is marked for one or the other.
 *
 * A frozen parameter has no gradient, moments or update, and a value that depends on no other
 * parameter has no cotangent: such a VJP is left out, with the values that forward would have kept
 * for it. */
#include "core/passes/append.h"
#include "core/passes/passes.h"
#include "core/base/blockwise.h"

#include <stdlib.h>
#include <string.h>

struct cotangent {
    bool present;
    struct sw_ref ref;
};

struct sw_autodiff {
    struct sw_builder *b;
    int32_t forward_values, forward_ops;
    struct cotangent *cotangent; /* [forward_values * 2]: of instance l, of instance l + 1; for
                                    a carried value outside its region: of the first, of the
                                    last instance */
    int32_t *carried;            /* [forward_values]: stack of the cotangent, for carried values */
    int32_t *clone;              /* [forward_values]: recomputed version in this region, or -1 */
    int32_t *producer;           /* [forward_values]: forward op, or -1 */
    bool *again;                 /* [forward_values]: true if recomputed where backward needs it */
    int32_t *gradient;           /* [forward_values]: gradients of parameters */
    bool *contributed; /* [forward_values]: true once the gradient has its first contribution */
    bool *wanted;      /* [forward_values]: true if it depends on a trained parameter, so that
                          its cotangent is needed */
};

static bool is_trained(const struct sw_value *value)
{
    return value->role == SW_ROLE_PARAMETER && !value->frozen;
}

/* True if a parameter's gradient is sharded otherwise than its master. */
static bool gradients_apart(const struct sw_autodiff *a, const struct sw_value *parameter)
{
    const uint8_t apart = sw_placement_differs(a->b->options);
    bool here = false;
    for (uint8_t d = 0; d < parameter->ndim; d++)
        here = here ||
               (parameter->axis[d] == SW_L_MOMENT_EMBED && (apart & SW_DIFFERS_GRADIENTS)) ||
               (parameter->axis[d] == SW_L_MOMENT_TABLE &&
                (apart & SW_DIFFERS_GRADIENTS << SW_DIFFERS_TABLE));
    return here;
}

static struct cotangent *slot(struct sw_autodiff *a, struct sw_ref primal)
{
    return &a->cotangent[primal.value * 2 + (primal.shift > 0)];
}

struct sw_ref sw_autodiff_cotangent(struct sw_autodiff *a, struct sw_ref out)
{
    return slot(a, out)->ref;
}

struct sw_op *sw_autodiff_get(struct sw_autodiff *a, int32_t op)
{
    return &a->b->program->ops[op];
}

struct sw_ref sw_autodiff_use(struct sw_autodiff *a, struct sw_ref primal)
{
    struct sw_builder *b = a->b;
    int32_t op = a->producer[primal.value];
    if (op < 0 || !a->again[primal.value])
        return primal;
    if (a->clone[primal.value] < 0) {
        struct sw_op copy = b->program->ops[op];
        copy.stage = SW_STAGE_RECOMPUTE;
        sw_builder_detach(b, &copy);
        for (uint16_t i = 0; i < copy.n_in; i++)
            copy.in[i] = sw_autodiff_use(a, copy.in[i]);
        for (uint16_t i = 0; i < copy.n_out; i++) {
            int32_t original = copy.out[i].value;
            const struct sw_value value = b->program->values[original];
            copy.out[i].value = a->clone[original] =
                sw_builder_value_here(b, original, "r ", value.dtype);
            b->program->values[copy.out[i].value].ordinal = value.ordinal;
        }
        sw_builder_add(b, &copy);
    }
    primal.value = a->clone[primal.value];
    return primal;
}

int32_t sw_autodiff_op(struct sw_autodiff *a, enum sw_op_kind kind)
{
    return sw_builder_op(a->b, kind, SW_STAGE_BACKWARD);
}

void sw_autodiff_in(struct sw_autodiff *a, int32_t op, struct sw_ref ref)
{
    sw_builder_in(a->b, op, ref);
}

/* The parameter that a value is or stands for (as its cast or gathered rows), or -1. */
static int32_t parameter_of(struct sw_autodiff *a, int32_t value)
{
    const struct sw_program *p = a->b->program;
    if (p->values[value].role == SW_ROLE_PARAMETER)
        return value - p->values[value].copy;
    int32_t op = a->producer[value];
    const struct sw_op_info *info = op >= 0 ? sw_op_info(p->ops[op].kind) : NULL;
    if (info != NULL &&
        ((info->always_recompute && info->linear) || p->ops[op].kind == SW_OP_CONSTRAIN))
        return parameter_of(a, p->ops[op].in[0].value);
    return -1;
}

bool sw_autodiff_wants(const struct sw_autodiff *a, struct sw_ref primal)
{
    return a->wanted[primal.value];
}

/* True if any operand's cotangent is wanted. */
static bool wants_operand(const struct sw_autodiff *a, const struct sw_op *op)
{
    bool wanted = false;
    for (uint16_t i = 0; i < op->n_in; i++)
        wanted |= a->wanted[op->in[i].value];
    return wanted;
}

/* Marks values that depend on a trained parameter; repeats until carried values add no more. */
static void mark_wanted(struct sw_autodiff *a)
{
    const struct sw_program *p = a->b->program;
    bool more = true;
    for (int32_t v = 0; v < a->forward_values; v++)
        a->wanted[v] = is_trained(&p->values[v - p->values[v].copy]);
    while (more) {
        more = false;
        for (int32_t i = 0; i < a->forward_ops; i++)
            for (uint16_t j = 0; j < p->ops[i].n_out && wants_operand(a, &p->ops[i]); j++) {
                more |= !a->wanted[p->ops[i].out[j].value];
                a->wanted[p->ops[i].out[j].value] = true;
            }
    }
}

void sw_autodiff_contribute(struct sw_autodiff *a, struct sw_ref primal, struct sw_ref cotangent)
{
    struct sw_builder *b = a->b;
    if (!a->wanted[primal.value])
        return;
    int32_t parameter = parameter_of(a, primal.value);
    if (parameter >= 0) {
        struct sw_ref gradient = sw_builder_ref(b, a->gradient[parameter]);
        int32_t op = sw_autodiff_op(a, SW_OP_ACCUMULATE);
        sw_builder_in(b, op, gradient);
        sw_builder_in(b, op, cotangent);
        sw_builder_out(b, op, gradient);
        b->program->ops[op].as.accumulate.first = !a->contributed[parameter];
        a->contributed[parameter] = true;
        return;
    }
    struct cotangent *c = slot(a, primal);
    if (!c->present) {
        *c = (struct cotangent){true, cotangent};
        return;
    }
    int32_t op = sw_autodiff_op(a, SW_OP_ADD);
    sw_builder_in(b, op, c->ref);
    sw_builder_in(b, op, cotangent);
    const struct sw_value like = b->program->values[primal.value];
    int32_t sum = sw_builder_value_here(b, primal.value, "d+ ", like.dtype);
    c->ref = sw_builder_ref(b, sum);
    sw_builder_out(b, op, c->ref);
}

void sw_autodiff_out(struct sw_autodiff *a, int32_t op, struct sw_ref primal)
{
    struct sw_builder *b = a->b;
    const struct sw_value like = b->program->values[primal.value];
    bool weight = parameter_of(a, primal.value) >= 0;
    int32_t value =
        sw_builder_value_here(b, primal.value, "d ", weight ? b->options->reduce : like.dtype);
    struct sw_ref ref = sw_builder_ref(b, value);
    sw_builder_out(b, op, ref);
    sw_autodiff_contribute(a, primal, ref);
}

/* Makes the op (from `first` on) that computed the cotangent of a region's input write straight
 * into `to`. */
static void redirect(struct sw_autodiff *a, struct sw_ref primal, struct sw_ref to, int32_t first)
{
    struct sw_program *p = a->b->program;
    int32_t value = slot(a, primal)->ref.value;
    if (!slot(a, primal)->present)
        return;
    for (int32_t i = p->op_count - 1; i >= first; i--)
        for (uint16_t j = 0; j < p->ops[i].n_out; j++)
            if (p->ops[i].out[j].value == value) {
                p->ops[i].out[j] = to;
                return;
            }
}

/* Begins each layer's gradient where the layer runs: in its region, at its position. */
static void begin_layer(struct sw_autodiff *a, const struct sw_region *region)
{
    const bool whole = region->part == SW_LAYERS_WHOLE && region->period == 1;
    for (int32_t v = 0; !whole && v < a->forward_values; v++)
        if (a->b->program->values[v].stack > 1)
            a->contributed[v] = false;
}

/* False if no value of the region depends on a trained parameter: it has no backward. */
static bool wants_region(const struct sw_autodiff *a, const struct sw_region *region)
{
    bool wanted = false;
    for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++)
        wanted |= wants_operand(a, &a->b->program->ops[i]);
    return wanted;
}

/* Appends the VJPs of ops first .. end - 1 of a forward region, all of one layer position, in
 * reverse. x: the region's carried value, dx: the stack of its cotangent; -1: none. */
static int backward_layer(struct sw_autodiff *a, const struct sw_region *region, int32_t first,
                          int32_t end, int32_t dx, struct sw_error *err)
{
    struct sw_builder *b = a->b;
    const int32_t x = region->carry, begin = b->program->op_count;
    const struct sw_ref x_in = {x, SW_INDEX_LAYER, 0}, x_out = {x, SW_INDEX_LAYER, 1};
    if (first < end)
        b->position = b->program->ops[first].position;
    if (x >= 0) {
        *slot(a, x_out) = (struct cotangent){true, {dx, SW_INDEX_LAYER, 1}};
        slot(a, x_in)->present = false;
    }
    begin_layer(a, region);
    for (int32_t i = end - 1; i >= first && !b->failed; i--) {
        const struct sw_op op = b->program->ops[i];
        const struct sw_op_info *info = sw_op_info(op.kind);
        bool wanted = false;
        for (uint16_t j = 0; j < op.n_out; j++)
            wanted |= slot(a, op.out[j])->present;
        if (wanted && info->vjp != NULL && info->vjp(a, &op, err) != 0)
            return -1;
    }
    if (x >= 0)
        redirect(a, x_in, (struct sw_ref){dx, SW_INDEX_LAYER, 0}, begin);
    return 0;
}

/* Appends the transposed region. A carried value: the op of a later region that made the last
 * instance's cotangent writes into the cotangent's stack, each layer passes on from instance l + 1
 * to l, and the regions before use instance 0. */
static int backward_region(struct sw_autodiff *a, int32_t forward, struct sw_error *err)
{
    struct sw_builder *b = a->b;
    const struct sw_region region = b->program->regions[forward];
    const int32_t x = region.carry, dx = x >= 0 ? a->carried[x] : -1;
    const int32_t last = region.first_layer + region.layers;
    const struct sw_ref x_in = {x, SW_INDEX_LAYER, 0}, x_out = {x, SW_INDEX_LAYER, 1};
    if (x >= 0)
        redirect(a, x_out, (struct sw_ref){dx, SW_INDEX_FIXED, (int16_t)last},
                 b->program->regions[b->region].first_op);
    char name[SW_NAME_BYTES];
    sw_builder_name(name, region.name, 28, " backward", 9);
    sw_builder_region_like(b, name, SW_PHASE_BACKWARD, &region, region.layers > 1);
    b->program->regions[b->region].carry = dx;
    for (int32_t v = 0; v < a->forward_values; v++)
        a->clone[v] = -1;
    for (int32_t end = region.first_op + region.op_count, first; end > region.first_op;
         end = first) {
        first = end - 1;
        while (first > region.first_op &&
               b->program->ops[first - 1].position == b->program->ops[end - 1].position)
            first--;
        if (backward_layer(a, &region, first, end, dx, err) != 0)
            return -1;
    }
    if (x >= 0) {
        *slot(a, x_in) =
            (struct cotangent){true, {dx, SW_INDEX_FIXED, (int16_t)region.first_layer}};
        slot(a, x_out)->present = false;
    }
    return 0;
}

void sw_build_mean_loss(struct sw_builder *b)
{
    const struct sw_dim scalar[1] = {{SW_L_NONE, 1, 1, SW_SIZE_FIXED}};
    const enum sw_dtype wide = sw_accumulate_dtype(b->options->compute);
    sw_builder_region(b, "update", SW_PHASE_UPDATE, 1, false);
    int32_t total = sw_builder_op(b, SW_OP_CONSTRAIN, SW_STAGE_UPDATE);
    struct sw_port *loss = NULL;
    for (int32_t i = 0; i < b->program->outputs.count; i++)
        if (strcmp(b->program->outputs.at[i].name, "loss") == 0)
            loss = &b->program->outputs.at[i];
    if (loss == NULL) {
        b->failed = true;
        return;
    }
    sw_builder_in(b, total, sw_builder_ref(b, loss->value));
    loss->value = sw_builder_value(b, "mean loss", SW_ROLE_ACCUMULATOR, wide, 1, scalar, 1);
    sw_builder_out(b, total, sw_builder_ref(b, loss->value));
}

/* Reshards gradients to the sharding of their masters where it differs. */
static void bring_gradients(struct sw_autodiff *a)
{
    struct sw_builder *b = a->b;
    for (int32_t v = 0; v < a->forward_values; v++) {
        const struct sw_value value = b->program->values[v];
        if (!is_trained(&value) || !gradients_apart(a, &value))
            continue;
        const int32_t from = a->gradient[v];
        const int32_t part =
            sw_builder_value_like(b, v, "grad ", b->program->values[from].dtype, value.stack);
        b->program->values[part].role = SW_ROLE_GRADIENT;
        const int32_t op = sw_builder_op(b, SW_OP_CONSTRAIN, SW_STAGE_UPDATE);
        sw_builder_in(b, op, sw_builder_ref(b, from));
        sw_builder_out(b, op, sw_builder_ref(b, part));
        a->gradient[v] = part;
    }
}

/* Appends each gradient's sum of squares, and the norm of all gradients, which it returns. */
static int32_t gradient_norm(struct sw_autodiff *a)
{
    struct sw_builder *b = a->b;
    const struct sw_dim scalar[1] = {{SW_L_NONE, 1, 1, SW_SIZE_FIXED}};
    const enum sw_dtype wide = sw_accumulate_dtype(b->options->compute);
    const int32_t first = b->program->op_count;
    for (int32_t v = 0; v < a->forward_values; v++) {
        if (!is_trained(&b->program->values[v]))
            continue;
        const int32_t op = sw_builder_op(b, SW_OP_SUM_SQUARES, SW_STAGE_UPDATE);
        sw_builder_in(b, op, sw_builder_ref(b, a->gradient[v]));
        char name[SW_NAME_BYTES];
        snprintf(name, sizeof name, "|grad %.24s|^2", b->program->values[v].name);
        const int32_t square = sw_builder_value(b, name, SW_ROLE_ACTIVATION, wide, 1, scalar, 1);
        sw_builder_out(b, op, sw_builder_ref(b, square));
    }
    const int32_t end = b->program->op_count;
    const int32_t norm = sw_builder_value(b, "grad norm", SW_ROLE_ACCUMULATOR, wide, 1, scalar, 1);
    sw_builder_port(b, &b->program->outputs, "grad_norm", norm);
    const int32_t op = sw_builder_op(b, SW_OP_GRAD_NORM, SW_STAGE_UPDATE);
    for (int32_t i = first; i < end && !b->failed; i++)
        sw_builder_in(b, op, b->program->ops[i].out[0]);
    sw_builder_out(b, op, sw_builder_ref(b, norm));
    return norm;
}

/* Elements of a block of a parameter's moments if they are codes; 0: they are not. Vectors keep
 * wide moments: they are few, and their factors must be exact (Dettmers et al. 2022). Parts of one
 * tensor of files have blocks together or not at all. */
static int64_t block_of(const struct sw_autodiff *a, int32_t parameter)
{
    const struct sw_value *values = a->b->program->values, *is = &values[parameter];
    if (a->b->options->moments != SW_CODES || is->ndim != 2)
        return 0;
    for (int32_t v = 0; v < a->forward_values; v++)
        if (is_trained(&values[v]) && values[v].ndim == 2 &&
            strcmp(values[v].parameter->stored, is->parameter->stored) == 0 &&
            sw_blockwise_elems(values[v].size[1]) == 0)
            return 0;
    return sw_blockwise_elems(is->size[1]);
}

/* Adds a tensor of the optimizer for a parameter. moment: 1 or 2. */
static int32_t add_state(struct sw_autodiff *a, int32_t parameter, const char *prefix,
                         enum sw_dtype dtype, uint8_t moment)
{
    struct sw_value *values;
    const int32_t state = sw_builder_value_like(a->b, parameter, prefix, dtype,
                                                a->b->program->values[parameter].stack);
    values = a->b->program->values;
    values[state].role = SW_ROLE_OPTIMIZER;
    values[state].initial = SW_INITIAL_ZEROS;
    values[state].moment = moment;
    values[state].parameter = values[parameter].parameter;
    return state;
}

/* Adds a number for each block of a row. */
static int32_t add_largest(struct sw_autodiff *a, int32_t parameter, const char *prefix,
                           uint8_t moment, int64_t block)
{
    const int32_t state = add_state(a, parameter, prefix, SW_F32, moment);
    struct sw_value *value = &a->b->program->values[state];
    value->largest = true;
    value->size[1] /= block;
    value->padded[1] = value->size[1];
    value->unit[1] = 1;
    return state;
}

/* Adds both moments of a parameter and the op that clips and applies its gradient. loss -1: an
 * update without guard. */
static void update(struct sw_autodiff *a, int32_t v, int32_t norm, int32_t loss)
{
    struct sw_builder *b = a->b;
    const int64_t block = block_of(a, v);
    const enum sw_dtype wide = sw_accumulate_dtype(b->program->values[v].dtype);
    const enum sw_dtype dtype = block > 0                          ? SW_CODES
                                : b->options->moments == SW_BF16_T ? SW_BF16_T
                                                                   : wide;
    int32_t m = add_state(a, v, "adam_m ", dtype, 1), most_m = -1;
    int32_t s = add_state(a, v, "adam_v ", dtype, 2), most_s = -1;
    if (block > 0) {
        most_m = add_largest(a, v, "most_m ", 1, block);
        most_s = add_largest(a, v, "most_v ", 2, block);
    }
    const int32_t op = sw_builder_op(b, SW_OP_ADAMW, SW_STAGE_UPDATE);
    b->program->ops[op].as.adamw = (struct sw_adamw_attributes){
        .decay = b->program->values[v].decay, .guarded = loss >= 0, .block = (int32_t)block};
    const int32_t in[] = {v, a->gradient[v], m, s, most_m, most_s, norm, loss};
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++)
        if (in[i] >= 0)
            sw_builder_in(b, op, sw_builder_ref(b, in[i]));
    const int32_t copy = b->program->values[v + 1].copy ? v + 1 : -1;
    const int32_t out[] = {v, most_m, most_s, m, s, copy};
    for (size_t i = 0; i < sizeof out / sizeof out[0]; i++)
        if (out[i] >= 0)
            sw_builder_out(b, op, sw_builder_ref(b, out[i]));
}

/* Adds each parameter's optimizer state and update. */
static void update_region(struct sw_autodiff *a)
{
    sw_build_mean_loss(a->b);
    bring_gradients(a);
    const int32_t norm = gradient_norm(a);
    const int32_t loss = a->b->options->guarded ? sw_program_output(a->b->program, "loss") : -1;
    for (int32_t v = 0; v < a->forward_values; v++)
        if (is_trained(&a->b->program->values[v]))
            update(a, v, norm, loss);
}

/* True if a result of an op in a region of layers is recomputed when `values` are. Backward needs a
 * value without a name of its own (the residual's other addend) only to recompute one with a
 * name. */
static bool again_in_layer(const struct sw_autodiff *a, int32_t value,
                           struct sw_layer_values values)
{
    const int32_t named = a->b->program->values[value].ordinal;
    return named >= 0 ? sw_layer_values_has(values, named) : !sw_layer_values_empty(values);
}

/* True if recomputed; a constraint is no op: its result goes with its operand. */
static bool is_again(const struct sw_autodiff *a, const struct sw_op *op, int32_t value,
                     const struct sw_region *region, struct sw_layer_values values)
{
    if (a->b->program->values[value].gathered)
        return false;
    if (op->kind == SW_OP_CONSTRAIN)
        return a->again[op->in[0].value];
    return sw_op_info(op->kind)->always_recompute ||
           (region->carry >= 0 && again_in_layer(a, value, values));
}

/* Marks recomputed values: in the layers that recomputation applies to, those it names; in all
 * layers, those that always are; never a region's carried value. */
static void mark_again(struct sw_autodiff *a)
{
    const struct sw_program *p = a->b->program;
    const struct sw_recompute chosen = sw_recompute_normal(a->b->options->recompute, p->layers);
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        const struct sw_layer_values values = region->carry < 0 ? (struct sw_layer_values){0}
                                              : region->part == SW_LAYERS_LAST ? chosen.rest
                                                                               : chosen.values;
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++)
            for (uint16_t j = 0; j < p->ops[i].n_out; j++) {
                const int32_t v = p->ops[i].out[j].value;
                a->again[v] = !p->values[v].carried && is_again(a, &p->ops[i], v, region, values);
            }
    }
}

/* Adds a gradient for each trained parameter. Contributions cross the network in the requested
 * precision; sums over micro-steps have full precision. Adds a stack for the cotangent of each
 * carried value that needs one. */
static void make_gradients(struct sw_autodiff *a)
{
    struct sw_builder *b = a->b;
    const enum sw_dtype kept = b->program->accumulation_steps > 1
                                   ? sw_accumulate_dtype(b->options->reduce)
                                   : b->options->reduce;
    for (int32_t v = 0; v < a->forward_values; v++) {
        const struct sw_value value = b->program->values[v];
        if (!is_trained(&value))
            continue;
        const bool apart = gradients_apart(a, &value);
        a->gradient[v] =
            sw_builder_value_like(b, v, apart ? "sum grad " : "grad ", kept, value.stack);
        b->program->values[a->gradient[v]].role = SW_ROLE_GRADIENT;
        if (apart)
            sw_builder_place_as(b, a->gradient[v], SW_COPY_GRADIENT);
    }
    for (int32_t v = 0; v < a->forward_values; v++) {
        const struct sw_value value = b->program->values[v];
        if (!value.carried || !a->wanted[v])
            continue;
        a->carried[v] = sw_builder_value_like(b, v, "d ", value.dtype, value.stack);
        b->program->values[a->carried[v]].carried = true;
    }
}

int sw_differentiate(struct sw_builder *b, struct sw_error *err)
{
    struct sw_program *p = b->program;
    int status = -1;
    struct sw_autodiff a = {.b = b, .forward_values = p->value_count, .forward_ops = p->op_count};
    const int32_t forward_regions = p->region_count;
    const size_t values = (size_t)a.forward_values;
    a.cotangent = calloc(values * 2, sizeof *a.cotangent);
    a.carried = calloc(values, sizeof *a.carried);
    a.clone = calloc(values, sizeof *a.clone);
    a.producer = calloc(values, sizeof *a.producer);
    a.gradient = calloc(values, sizeof *a.gradient);
    a.contributed = calloc(values, sizeof *a.contributed);
    a.again = calloc(values, sizeof *a.again);
    a.wanted = calloc(values, sizeof *a.wanted);
    if (a.cotangent == NULL || a.carried == NULL || a.clone == NULL || a.producer == NULL ||
        a.gradient == NULL || a.contributed == NULL || a.again == NULL || a.wanted == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while differentiating the program");
        goto out;
    }
    for (int32_t v = 0; v < a.forward_values; v++)
        a.producer[v] = -1;
    for (int32_t i = 0; i < a.forward_ops; i++)
        for (uint16_t j = 0; j < p->ops[i].n_out; j++)
            if (!p->values[p->ops[i].out[j].value].carried)
                a.producer[p->ops[i].out[j].value] = i;
    a.cotangent[sw_program_output(p, "loss") * 2].present = true; /* one: no op reads it */
    mark_again(&a);
    mark_wanted(&a);
    make_gradients(&a);
    for (int32_t r = forward_regions; r-- > 0;)
        if (wants_region(&a, &p->regions[r]) && backward_region(&a, r, err) != 0)
            goto out;
    update_region(&a);
    if (b->failed)
        sw_fail(err, SW_ENVIRONMENT, "out of memory while differentiating the program");
    else
        status = 0;
out:
    free(a.cotangent);
    free(a.carried);
    free(a.clone);
    free(a.producer);
    free(a.gradient);
    free(a.contributed);
    free(a.again);
    free(a.wanted);
    return status;
}
