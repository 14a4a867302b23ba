/* Reverse mode over the logical program: for each forward region, last first, a backward region in
 * which every op's VJP (op.c) is emitted in reverse order; then the update region (clip, AdamW).
 *
 * What backward needs of forward is either kept (a stack, one instance per layer) or recomputed:
 * its op is cloned into the backward region (remat; Chen et al. 2016), on demand, so nothing
 * unneeded is recomputed. */
#include "core/program/builder.h"

#include <stdlib.h>
#include <string.h>

struct cotangent {
    bool present;
    struct sw_ref ref;
};

struct sw_autodiff {
    struct sw_builder *b;
    int32_t forward_values, forward_ops;
    struct cotangent *cotangent; /* [forward_values * 2]: of instance l, of instance l + 1 */
    int32_t *clone;    /* [forward_values]: its recomputed version in this region, or -1 */
    int32_t *producer; /* [forward_values]: forward op, or -1 */
    bool *recompute;   /* [forward_ops] */
    int32_t *gradient; /* [forward_values]: of parameters */
    bool *contributed; /* [forward_values]: the gradient has its first contribution */
};

static struct cotangent *slot(struct sw_autodiff *a, struct sw_ref primal)
{
    return &a->cotangent[primal.value * 2 + (primal.shift > 0)];
}

struct sw_ref sw_autodiff_cotangent(struct sw_autodiff *a, struct sw_ref out, bool *present)
{
    *present = slot(a, out)->present;
    return slot(a, out)->ref;
}

struct sw_op *sw_autodiff_get(struct sw_autodiff *a, int32_t op)
{
    return &a->b->program->ops[op];
}

const struct sw_op *sw_autodiff_producer(struct sw_autodiff *a, struct sw_ref value)
{
    int32_t op = a->producer[value.value];
    return op < 0 ? NULL : &a->b->program->ops[op];
}

struct sw_ref sw_autodiff_use(struct sw_autodiff *a, struct sw_ref primal)
{
    struct sw_builder *b = a->b;
    int32_t op = a->producer[primal.value];
    if (op < 0 || !a->recompute[op])
        return primal;
    if (a->clone[primal.value] < 0) {
        struct sw_op copy = b->program->ops[op];
        copy.stage = SW_STAGE_RECOMPUTE;
        for (uint8_t i = 0; i < copy.n_in; i++)
            copy.in[i] = sw_autodiff_use(a, copy.in[i]);
        for (uint8_t i = 0; i < copy.n_out; i++) {
            int32_t original = copy.out[i].value;
            const struct sw_value value = b->program->values[original];
            copy.out[i].value = a->clone[original] =
                sw_builder_value_like(b, original, "r ", value.dtype, value.stack);
        }
        sw_builder_copy_op(b, &copy);
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

/* The parameter behind a value that is one or the cast of one, or -1. */
static int32_t parameter_of(struct sw_autodiff *a, int32_t value)
{
    const struct sw_program *p = a->b->program;
    if (p->values[value].role == SW_ROLE_PARAMETER)
        return value;
    int32_t op = a->producer[value];
    if (op >= 0 && p->ops[op].kind == SW_OP_CAST)
        return parameter_of(a, p->ops[op].in[0].value);
    return -1;
}

void sw_autodiff_contribute(struct sw_autodiff *a, struct sw_ref primal, struct sw_ref cotangent)
{
    struct sw_builder *b = a->b;
    if (b->program->values[primal.value].role == SW_ROLE_INPUT)
        return;
    int32_t parameter = parameter_of(a, primal.value);
    if (parameter >= 0) {
        struct sw_ref gradient = sw_builder_ref(b, a->gradient[parameter]);
        int32_t op = sw_autodiff_op(a, SW_OP_ACCUMULATE);
        sw_builder_in(b, op, gradient);
        sw_builder_in(b, op, cotangent);
        sw_builder_out(b, op, gradient);
        b->program->ops[op].first = !a->contributed[parameter];
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
    int32_t layers = b->program->regions[b->region].repeat;
    int32_t sum = sw_builder_value_like(b, primal.value, "d+ ", like.dtype, layers);
    c->ref = sw_builder_ref(b, sum);
    sw_builder_out(b, op, c->ref);
}

void sw_autodiff_out(struct sw_autodiff *a, int32_t op, struct sw_ref primal)
{
    struct sw_builder *b = a->b;
    const struct sw_value like = b->program->values[primal.value];
    bool weight = parameter_of(a, primal.value) >= 0;
    int32_t layers = b->program->regions[b->region].repeat;
    int32_t value = sw_builder_value_like(b, primal.value, "d ",
                                          weight ? b->options->reduce : like.dtype, layers);
    struct sw_ref ref = sw_builder_ref(b, value);
    sw_builder_out(b, op, ref);
    sw_autodiff_contribute(a, primal, ref);
}

/* Lets the op that computed the cotangent of a region's input write it straight into `to`. */
static void redirect(struct sw_autodiff *a, struct sw_ref primal, struct sw_ref to)
{
    struct sw_program *p = a->b->program;
    const struct sw_region *region = &p->regions[a->b->region];
    int32_t value = slot(a, primal)->ref.value;
    for (int32_t i = p->op_count - 1; i >= region->first_op; i--)
        for (uint8_t j = 0; j < p->ops[i].n_out; j++)
            if (p->ops[i].out[j].value == value) {
                p->ops[i].out[j] = to;
                return;
            }
}

static int backward_region(struct sw_autodiff *a, int32_t forward, struct sw_error *err)
{
    struct sw_builder *b = a->b;
    const struct sw_region region = b->program->regions[forward];
    char name[SW_NAME_BYTES];
    snprintf(name, sizeof name, "%.28s backward", region.name);
    sw_builder_region(b, name, SW_PHASE_BACKWARD, region.repeat, region.repeat > 1);
    for (int32_t v = 0; v < a->forward_values; v++)
        a->clone[v] = -1;
    for (int32_t i = region.first_op + region.op_count - 1; i >= region.first_op && !b->failed;
         i--) {
        const struct sw_op op = b->program->ops[i];
        const struct sw_op_info *info = sw_op_info(op.kind);
        bool wanted = op.kind == SW_OP_LM_HEAD_LOSS;
        for (uint8_t j = 0; j < op.n_out; j++)
            wanted |= slot(a, op.out[j])->present;
        if (wanted && info->vjp != NULL && info->vjp(a, &op, err) != 0)
            return -1;
    }
    return 0;
}

void sw_build_mean_loss(struct sw_builder *b)
{
    const struct sw_dim scalar[1] = {{SW_L_NONE, 1, 1}};
    const enum sw_dtype wide = sw_accumulate_dtype(b->options->compute);
    sw_builder_region(b, "update", SW_PHASE_UPDATE, 1, false);
    int32_t total = sw_builder_op(b, SW_OP_CONSTRAIN, SW_STAGE_UPDATE);
    sw_builder_in(b, total, sw_builder_ref(b, b->program->loss));
    int32_t mean = sw_builder_value(b, "mean loss", SW_ROLE_ACCUMULATOR, wide, 1, scalar, 1);
    sw_builder_out(b, total, sw_builder_ref(b, mean));
    b->program->loss = mean;
}

/* Optimizer state beside each gradient, and the ops that clip and apply it. */
static void update_region(struct sw_autodiff *a)
{
    struct sw_builder *b = a->b;
    const struct sw_dim scalar[1] = {{SW_L_NONE, 1, 1}};
    const enum sw_dtype wide = sw_accumulate_dtype(b->options->compute);
    struct sw_program *p = b->program;
    sw_build_mean_loss(b);
    int32_t squares[SW_OP_MAX_IN], count = 0;
    for (int32_t v = 0; v < a->forward_values; v++) {
        if (p->values[v].role != SW_ROLE_PARAMETER || count == SW_OP_MAX_IN)
            continue;
        int32_t op = sw_builder_op(b, SW_OP_SUM_SQUARES, SW_STAGE_UPDATE);
        sw_builder_in(b, op, sw_builder_ref(b, a->gradient[v]));
        char name[SW_NAME_BYTES];
        snprintf(name, sizeof name, "|grad %.24s|^2", p->values[v].name);
        squares[count] = sw_builder_value(b, name, SW_ROLE_ACTIVATION, wide, 1, scalar, 1);
        sw_builder_out(b, op, sw_builder_ref(b, squares[count++]));
    }
    p->grad_norm = sw_builder_value(b, "grad norm", SW_ROLE_ACCUMULATOR, wide, 1, scalar, 1);
    int32_t op = sw_builder_op(b, SW_OP_GRAD_NORM, SW_STAGE_UPDATE);
    for (int32_t i = 0; i < count; i++)
        sw_builder_in(b, op, sw_builder_ref(b, squares[i]));
    sw_builder_out(b, op, sw_builder_ref(b, p->grad_norm));
    for (int32_t v = 0; v < a->forward_values; v++) {
        if (b->program->values[v].role != SW_ROLE_PARAMETER)
            continue;
        const enum sw_dtype dtype = sw_accumulate_dtype(b->program->values[v].dtype);
        int32_t state[2];
        for (int32_t i = 0; i < 2; i++) {
            state[i] = sw_builder_value_like(b, v, i == 0 ? "adam_m " : "adam_v ", dtype,
                                             b->program->values[v].stack);
            b->program->values[state[i]].role = SW_ROLE_OPTIMIZER;
        }
        op = sw_builder_op(b, SW_OP_ADAMW, SW_STAGE_UPDATE);
        b->program->ops[op].decay = b->program->values[v].ndim > 1;
        sw_builder_in(b, op, sw_builder_ref(b, v));
        sw_builder_in(b, op, sw_builder_ref(b, a->gradient[v]));
        sw_builder_in(b, op, sw_builder_ref(b, state[0]));
        sw_builder_in(b, op, sw_builder_ref(b, state[1]));
        sw_builder_in(b, op, sw_builder_ref(b, b->program->grad_norm));
        sw_builder_out(b, op, sw_builder_ref(b, v));
        sw_builder_out(b, op, sw_builder_ref(b, state[0]));
        sw_builder_out(b, op, sw_builder_ref(b, state[1]));
    }
}

static void mark_recomputed(struct sw_autodiff *a)
{
    const struct sw_program *p = a->b->program;
    const struct sw_region *layer = &p->regions[1];
    uint8_t level = a->b->options->recompute;
    bool before_attention = true;
    for (int32_t i = 0; i < a->forward_ops; i++) {
        bool in_layer = i >= layer->first_op && i < layer->first_op + layer->op_count;
        /* the cast of a weight is cheaper to redo than to keep */
        a->recompute[i] = p->ops[i].kind == SW_OP_CAST || (in_layer && level == 2) ||
                          (in_layer && level == 1 && before_attention);
        if (p->ops[i].kind == SW_OP_RING_ATTENTION)
            before_attention = false;
    }
    /* the residual is the region's carry and always kept */
    for (int32_t i = 0; i < a->forward_ops; i++)
        for (uint8_t j = 0; j < p->ops[i].n_out; j++)
            if (p->ops[i].out[j].shift > 0)
                a->recompute[i] = false;
}

static int32_t residual_value(const struct sw_program *p)
{
    const struct sw_region *embed = &p->regions[0];
    return p->ops[embed->first_op + embed->op_count - 1].out[0].value;
}

int sw_differentiate(struct sw_builder *b, struct sw_error *err)
{
    struct sw_program *p = b->program;
    int status = -1;
    struct sw_autodiff a = {.b = b, .forward_values = p->value_count, .forward_ops = p->op_count};
    const size_t values = (size_t)a.forward_values;
    a.cotangent = calloc(values * 2, sizeof *a.cotangent);
    a.clone = calloc(values, sizeof *a.clone);
    a.producer = calloc(values, sizeof *a.producer);
    a.gradient = calloc(values, sizeof *a.gradient);
    a.contributed = calloc(values, sizeof *a.contributed);
    a.recompute = calloc((size_t)a.forward_ops, sizeof *a.recompute);
    if (a.cotangent == NULL || a.clone == NULL || a.producer == NULL || a.gradient == NULL ||
        a.contributed == NULL || a.recompute == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while differentiating the program");
        goto out;
    }
    for (int32_t v = 0; v < a.forward_values; v++)
        a.producer[v] = -1;
    const int32_t x = residual_value(p);
    for (int32_t i = 0; i < a.forward_ops; i++)
        for (uint8_t j = 0; j < p->ops[i].n_out; j++)
            if (p->ops[i].out[j].value != x)
                a.producer[p->ops[i].out[j].value] = i;
    mark_recomputed(&a);
    for (int32_t v = 0; v < a.forward_values; v++) {
        if (b->program->values[v].role != SW_ROLE_PARAMETER)
            continue;
        a.gradient[v] =
            sw_builder_value_like(b, v, "grad ", b->options->reduce, b->program->values[v].stack);
        b->program->values[a.gradient[v]].role = SW_ROLE_GRADIENT;
    }
    const int32_t layers = b->program->layers;
    int32_t dx = sw_builder_value_like(b, x, "d ", b->program->values[x].dtype, layers + 1);
    const struct sw_ref x_first = {x, SW_INDEX_FIXED, 0}, x_last = {x, SW_INDEX_FIXED, layers};
    const struct sw_ref x_in = {x, SW_INDEX_LAYER, 0}, x_out = {x, SW_INDEX_LAYER, 1};

    if (backward_region(&a, 2, err) != 0)
        goto out;
    redirect(&a, x_last, (struct sw_ref){dx, SW_INDEX_FIXED, layers});
    *slot(&a, x_out) = (struct cotangent){true, {dx, SW_INDEX_LAYER, 1}};
    slot(&a, x_in)->present = false;
    if (backward_region(&a, 1, err) != 0)
        goto out;
    redirect(&a, x_in, (struct sw_ref){dx, SW_INDEX_LAYER, 0});
    *slot(&a, x_first) = (struct cotangent){true, {dx, SW_INDEX_FIXED, 0}};
    if (backward_region(&a, 0, err) != 0)
        goto out;
    update_region(&a);
    if (b->failed)
        sw_fail(err, SW_ENVIRONMENT, "out of memory while differentiating the program");
    else
        status = 0;
out:
    free(a.cotangent);
    free(a.clone);
    free(a.producer);
    free(a.gradient);
    free(a.contributed);
    free(a.recompute);
    return status;
}
