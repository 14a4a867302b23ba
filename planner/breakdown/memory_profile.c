#include "planner/breakdown/memory_profile.h"

#include "core/base/number.h"
#include "core/ir/op.h"

#include <stdlib.h>
#include <string.h>

const char *sw_memory_kind_name(enum sw_memory_kind kind)
{
    static const char *const names[] = {
        "parameters",         "gradients",     "optimizer",         "inputs",
        "saved for backward", "weight copies", "layer activations", "workspace"};
    return names[kind];
}

static int32_t region_of(const struct sw_program *p, int32_t op)
{
    int32_t r = 0;
    while (r + 1 < p->region_count && op >= p->regions[r + 1].first_op)
        r++;
    return r;
}

static enum sw_memory_kind kind_of_role(enum sw_role role)
{
    switch (role) {
    case SW_ROLE_PARAMETER:
        return SW_MEMORY_PARAMETERS;
    case SW_ROLE_GRADIENT:
        return SW_MEMORY_GRADIENTS;
    case SW_ROLE_OPTIMIZER:
        return SW_MEMORY_OPTIMIZER;
    case SW_ROLE_WEIGHTS:
        return SW_MEMORY_WEIGHTS;
    default:
        return SW_MEMORY_INPUTS;
    }
}

/* True for a parameter's cast or gathered copy. */
static bool is_weight_copy(const struct sw_program *p, int32_t value)
{
    const int32_t base = p->values[value].base >= 0 ? p->values[value].base : value;
    if (p->values[base].role == SW_ROLE_PARAMETER)
        return true;
    for (int32_t i = 0; i < p->op_count; i++)
        if (sw_op_info(p->ops[i].kind)->always_recompute && p->ops[i].out[0].value == base)
            return p->values[p->ops[i].in[0].value].role == SW_ROLE_PARAMETER;
    return false;
}

static enum sw_memory_kind kind_of_block(const struct sw_program *p,
                                         const struct sw_arena_block *block)
{
    if (block->value < 0)
        return SW_MEMORY_WORKSPACE;
    if (is_weight_copy(p, block->value))
        return SW_MEMORY_WEIGHTS;
    return region_of(p, block->first) != region_of(p, block->last) ? SW_MEMORY_SAVED
                                                                   : SW_MEMORY_ACTIVATIONS;
}

/* True if, in a model of one layer whose values have no stack, the value belongs to the layer:
 * values that its regions carry, its parameters, and results of these regions' ops. */
static bool is_of_single_layer(const struct sw_program *p, const struct sw_value *value)
{
    const int32_t v = (int32_t)(value - p->values);
    if (p->layers > 1 || value->carried)
        return p->layers == 1;
    if (value->parameter != NULL)
        return value->parameter->part == SW_OF_LAYER;
    for (int32_t r = 0; r < p->region_count; r++)
        for (int32_t i = 0; i < p->regions[r].op_count && p->regions[r].carry >= 0; i++) {
            const struct sw_op *op = &p->ops[p->regions[r].first_op + i];
            for (uint16_t k = 0; k < op->n_out; k++)
                if (op->out[k].value == v || p->values[op->out[k].value].alias == v)
                    return true;
        }
    return false;
}

/* Divides a stack over layers by their number (the residual has one instance more), also one over
 * some of them, so that a layer's figure is the average. The rest belongs to no layer. */
static void add_by_layer(const struct sw_program *p, const struct sw_value *value,
                         enum sw_memory_kind kind, int64_t bytes, bool single,
                         struct sw_memory_profile *out)
{
    const bool part = value->part != SW_LAYERS_WHOLE && value->slots > 1;
    const bool whole =
        single || (p->layers > 1 && value->stack >= p->layers && value->slots >= p->layers);
    const bool stacked = part || whole;
    struct sw_layer_memory *to = stacked ? &out->layer : &out->outside;
    const int64_t share = part ? bytes / p->layers : whole ? value->slot_bytes : bytes;
    if (stacked)
        add_by_layer(p, &(struct sw_value){.stack = 1, .slots = 1}, kind, bytes - share * p->layers,
                     false, out);
    if (kind == SW_MEMORY_PARAMETERS)
        to->parameters += share;
    else if (kind == SW_MEMORY_GRADIENTS)
        to->gradients += share;
    else if (kind == SW_MEMORY_OPTIMIZER)
        to->optimizer += share;
    else if (kind == SW_MEMORY_SAVED)
        to->saved += share;
}

static void add(struct sw_memory_profile *out, int32_t first, int32_t last,
                enum sw_memory_kind kind, int64_t bytes)
{
    for (int32_t i = first; i <= last && i < out->op_count; i++) {
        out->live[(int64_t)i * SW_MEMORY_KIND_COUNT + kind] += bytes;
        out->live_total[i] += bytes;
    }
}

static void find_peak(struct sw_memory_profile *out)
{
    for (int32_t i = 0; i < out->op_count; i++) {
        const int64_t *live = &out->live[(int64_t)i * SW_MEMORY_KIND_COUNT];
        for (int32_t k = 0; k < SW_MEMORY_KIND_COUNT; k++)
            if (live[k] > out->most[k])
                out->most[k] = live[k];
        if (out->live_total[i] <= out->peak_bytes)
            continue;
        out->peak_bytes = out->live_total[i];
        out->peak_op = i;
        memcpy(out->at_peak, live, sizeof out->at_peak);
    }
    out->lost_bytes = out->arena_bytes - out->peak_bytes;
}

int sw_memory_profile_make(const struct sw_program *p, struct sw_memory_profile *out,
                           struct sw_error *err)
{
    const size_t ops = (size_t)p->op_count + 1;
    *out = (struct sw_memory_profile){
        .op_count = p->op_count, .arena_bytes = p->arena_bytes, .layers = p->layers};
    out->live = calloc(ops * SW_MEMORY_KIND_COUNT, sizeof *out->live);
    out->live_total = calloc(ops, sizeof *out->live_total);
    if (out->live == NULL || out->live_total == NULL) {
        sw_memory_profile_free(out);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while explaining the program");
    }
    for (int32_t v = 0; v < p->value_count; v++) {
        const struct sw_value *value = &p->values[v];
        if (value->role == SW_ROLE_ACTIVATION || !sw_program_is_stored(p, v))
            continue;
        const int64_t bytes = sw_align(value->slot_bytes * value->slots, SW_ARENA_ALIGNMENT);
        add(out, 0, p->op_count - 1, kind_of_role(value->role), bytes);
        add_by_layer(p, value, kind_of_role(value->role), bytes, is_of_single_layer(p, value), out);
    }
    for (int32_t i = 0; i < sw_program_block_count(p); i++) {
        const struct sw_arena_block block = sw_program_block(p, i);
        const enum sw_memory_kind kind = kind_of_block(p, &block);
        add(out, block.first, block.last, kind, block.bytes);
        if (block.value >= 0)
            add_by_layer(p, &p->values[block.value], kind, block.bytes,
                         is_of_single_layer(p, &p->values[block.value]), out);
    }
    find_peak(out);
    return 0;
}

void sw_memory_profile_free(struct sw_memory_profile *profile)
{
    free(profile->live);
    free(profile->live_total);
    *profile = (struct sw_memory_profile){0};
}
