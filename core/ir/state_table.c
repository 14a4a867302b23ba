#include "core/ir/state_table.h"

#include "core/base/quantize.h"

#include <string.h>

const struct sw_state_row *sw_state_find(const struct sw_state *state, const char *name)
{
    for (int32_t i = 0; i < state->count; i++)
        if (strcmp(state->row[i].name, name) == 0)
            return &state->row[i];
    return NULL;
}

const struct sw_state_row *sw_state_scales(const struct sw_state *state,
                                           const struct sw_state_row *row)
{
    for (int32_t i = 0; i < state->count; i++)
        if (sw_has_scales(row->dtype) && state->row[i].scales &&
            state->row[i].parameter == row->parameter)
            return &state->row[i];
    return NULL;
}

const struct sw_state_row *sw_state_copied(const struct sw_state *state,
                                           const struct sw_state_row *row)
{
    for (int32_t i = 0; row->copy && i < state->count; i++)
        if (state->row[i].role == SW_ROLE_PARAMETER && !state->row[i].copy &&
            state->row[i].parameter == row->parameter)
            return &state->row[i];
    return NULL;
}

int64_t sw_state_offset(const struct sw_state *state, const struct sw_value *value,
                        struct sw_error *err)
{
    const struct sw_state_row *row = sw_state_find(state, value->name);
    if (row == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "the state has no '%s'", value->name);
    if (row->role != value->role || row->dtype != value->dtype || row->stack != value->stack ||
        row->stack != value->slots || row->instance_bytes != value->slot_bytes ||
        row->tiled != value->tiled || !sw_sharding_equal(&row->sharding, &value->sharding))
        return sw_fail(err, SW_ENVIRONMENT, "'%s' of the state has another shape or sharding",
                       value->name);
    return row->offset;
}
