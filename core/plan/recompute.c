/* What is made again: names as files have them, and the values of the model's own program. */
#include "core/plan/internal.h"
#include "core/plan/plan.h"

#include <stdio.h>

/* The first name that the model has no value of: says all of them that are there. */
static int fail(const struct sw_values_config *named, int32_t first,
                const struct sw_layer_values *values, struct sw_error *err)
{
    char all[SW_VALUES_BYTES], missing[128] = "";
    size_t used = 0;
    for (int32_t i = first; i < named->count && used < sizeof missing; i++)
        if (sw_layer_values_find(values, named->of[i].name) < 0)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%.40s",
                                     used > 0 ? ", " : "", named->of[i].name);
    return sw_fail_at(err, SW_BAD_INPUT, named->of[first].place,
                      "the layers of this model have no %s; use some of: %s", missing,
                      sw_layer_values_format(values, SW_ALL_VALUES, all));
}

static int find(const struct sw_values_config *named, const struct sw_layer_values *values,
                uint32_t *out, struct sw_error *err)
{
    *out = named->all ? SW_ALL_VALUES : 0;
    for (int32_t i = 0; i < named->count; i++) {
        const int32_t ordinal = sw_layer_values_find(values, named->of[i].name);
        if (ordinal < 0)
            return fail(named, i, values, err);
        *out |= UINT32_C(1) << ordinal;
    }
    return 0;
}

int sw_plan_recompute(const struct sw_recompute_config *written,
                      const struct sw_layer_values *values, struct sw_recompute *out,
                      struct sw_error *err)
{
    *out = (struct sw_recompute){.layers = written->layers};
    if (find(&written->values, values, &out->values, err) != 0 ||
        find(&written->rest, values, &out->rest, err) != 0)
        return -1;
    if (written->before_attention)
        out->values = sw_layer_values_before(values, "o");
    return 0;
}

static void name(const struct sw_layer_values *values, uint32_t set,
                 struct sw_name_config room[SW_MOST_LAYER_VALUES], struct sw_values_config *out)
{
    *out = (struct sw_values_config){.of = room, .all = set == SW_ALL_VALUES};
    for (int32_t i = 0; !out->all && i < values->count; i++)
        if (set >> i & 1u)
            room[out->count++] = (struct sw_name_config){.name = values->of[i].name};
}

void sw_plan_name_recompute(struct sw_recompute recompute, const struct sw_layer_values *values,
                            struct sw_recompute_names *names, struct sw_recompute_config *out)
{
    *out = (struct sw_recompute_config){.layers = recompute.layers};
    name(values, recompute.values, names->values, &out->values);
    name(values, recompute.rest, names->rest, &out->rest);
}
