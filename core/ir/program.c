/* Kinds of programs, their ports, and the layers that regions run. */
#include "core/ir/builder.h"

#include <string.h>

const struct sw_program_traits *sw_program_traits(enum sw_program_kind kind)
{
    /* name, state, backward, rows alike, as few */
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

int32_t sw_region_layer(const struct sw_region *region, int32_t iteration)
{
    return region->first_layer + (region->reverse ? region->repeat - 1 - iteration : iteration);
}

int32_t sw_ref_instance(const struct sw_program *program, struct sw_ref ref, int32_t layer)
{
    return ref.shift +
           (ref.mode == SW_INDEX_LAYER ? layer - program->values[ref.value].first_layer : 0);
}

int32_t sw_first_layers(const struct sw_program_options *o)
{
    const struct sw_recompute r = sw_recompute_normal(o->recompute, o->model.layers);
    return sw_program_traits(o->kind)->backward && r.layers < o->model.layers ? r.layers : 0;
}
