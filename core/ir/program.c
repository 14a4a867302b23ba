/* Kinds of programs, their ports, and the layers that regions run. */
#include "core/ir/builder.h"

#include <string.h>

const struct sw_program_traits *sw_program_traits(enum sw_program_kind kind)
{
    /* name, state, backward, batch_invariant, always_skinny */
    static const struct sw_program_traits kinds[] = {
        [SW_PROGRAM_TRAIN] = {"train", SW_STATE_TRAINING, true, false, false},
        [SW_PROGRAM_EVALUATE] = {"evaluate", SW_STATE_TRAINING, false, true, false},
        [SW_PROGRAM_SAVE] = {"save", SW_STATE_TRAINING, false, true, false},
        [SW_PROGRAM_PREFILL] = {"prefill", SW_STATE_SERVING, false, true, true},
        [SW_PROGRAM_DECODE] = {"decode", SW_STATE_SERVING, false, true, true},
        [SW_PROGRAM_SCORE] = {"score", SW_STATE_SERVING, false, true, false},
        [SW_PROGRAM_READ] = {"read", SW_STATE_SERVING, false, true, true}};
    _Static_assert(sizeof kinds / sizeof kinds[0] == SW_PROGRAM_KINDS, "a row for every kind");
    return &kinds[kind];
}

static int32_t find_port(const struct sw_ports *ports, const char *name)
{
    for (int32_t i = 0; i < ports->count; i++)
        if (strcmp(ports->at[i].name, name) == 0)
            return ports->at[i].value;
    return -1;
}

int32_t sw_program_input(const struct sw_program *program, const char *name)
{
    return find_port(&program->inputs, name);
}

int32_t sw_program_output(const struct sw_program *program, const char *name)
{
    return find_port(&program->outputs, name);
}

void sw_region_span(struct sw_region *region, int32_t first, int32_t layers, int32_t period)
{
    region->first_layer = first;
    region->layers = layers;
    region->period = period;
    region->repeat = (first % period + layers + period - 1) / period;
}

int32_t sw_region_layer(const struct sw_region *region, int32_t iteration, int32_t position)
{
    const int32_t base = region->first_layer - region->first_layer % region->period;
    const int32_t up = region->reverse ? region->repeat - 1 - iteration : iteration;
    return base + up * region->period + position;
}

int32_t sw_region_first(const struct sw_region *region, int32_t position)
{
    const int32_t period = region->period, lead = region->first_layer % period;
    return region->first_layer + (position + period - lead) % period;
}

int32_t sw_region_times(const struct sw_region *region, int32_t position)
{
    const int32_t left = region->first_layer + region->layers - sw_region_first(region, position);
    if (region->layers == 0)
        return region->repeat;
    return left > 0 ? (left + region->period - 1) / region->period : 0;
}

int32_t sw_ref_instance(const struct sw_program *program, struct sw_ref ref, int32_t layer)
{
    const struct sw_value *value = &program->values[ref.value];
    return ref.mode == SW_INDEX_LAYER ? (layer + ref.shift - value->first_layer) / value->period
                                      : ref.shift;
}

int32_t sw_first_layers(const struct sw_program_options *o)
{
    const struct sw_recompute r = sw_recompute_normal(o->recompute, o->model.layers);
    return sw_program_traits(o->kind)->backward && r.layers < o->model.layers ? r.layers : 0;
}
