/* Recomputed values: names in files, and values of the model's own program. */
#include "core/plan/internal.h"
#include "core/plan/plan.h"

#include <stdio.h>

/* The value of that name, -1: the model has none. */
static int32_t find(const struct sw_layer_values *has, const char *name)
{
    const int32_t ordinal = sw_layer_value_find(name);
    return ordinal >= 0 && sw_layer_values_has(*has, ordinal) ? ordinal : -1;
}

/* Fails at the first name without a value, and lists all values. */
static int fail(const struct sw_values_config *named, int32_t first,
                const struct sw_layer_values *has, struct sw_error *err)
{
    char all[SW_VALUES_BYTES], missing[128] = "";
    size_t used = 0;
    for (int32_t i = first; i < named->count && used < sizeof missing; i++)
        if (find(has, named->of[i].name) < 0)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%.40s",
                                     used > 0 ? ", " : "", named->of[i].name);
    return sw_fail_at(err, SW_BAD_INPUT, named->of[first].place,
                      "the layers of this model have no %s; use some of: %s", missing,
                      sw_layer_values_format(*has, all));
}

static int read(const struct sw_values_config *named, const struct sw_layer_values *has,
                struct sw_layer_values *out, struct sw_error *err)
{
    *out = named->all ? sw_layer_values_all() : (struct sw_layer_values){0};
    for (int32_t i = 0; i < named->count; i++) {
        const int32_t ordinal = find(has, named->of[i].name);
        if (ordinal < 0)
            return fail(named, i, has, err);
        sw_layer_values_add(out, ordinal);
    }
    return 0;
}

int sw_plan_recompute(const struct sw_recompute_config *written, const struct sw_layer_values *has,
                      struct sw_recompute *out, struct sw_error *err)
{
    *out = (struct sw_recompute){.layers = written->layers};
    if (read(&written->values, has, &out->values, err) != 0 ||
        read(&written->rest, has, &out->rest, err) != 0)
        return -1;
    if (written->before_attention)
        out->values = sw_layer_values_before(*has, "o");
    return 0;
}

static void name(struct sw_layer_values set, struct sw_name_config room[SW_LAYER_VALUES],
                 struct sw_values_config *out)
{
    *out = (struct sw_values_config){.of = room,
                                     .all = sw_layer_values_equal(set, sw_layer_values_all())};
    for (int32_t i = 0; !out->all && i < SW_LAYER_VALUES; i++)
        if (sw_layer_values_has(set, i))
            room[out->count++] = (struct sw_name_config){.name = sw_layer_value_name(i)};
}

void sw_plan_name_recompute(struct sw_recompute recompute, struct sw_recompute_names *names,
                            struct sw_recompute_config *out)
{
    *out = (struct sw_recompute_config){.layers = recompute.layers};
    name(recompute.values, names->values, &out->values);
    name(recompute.rest, names->rest, &out->rest);
}
