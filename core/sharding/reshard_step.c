/* Effect of one collective on a sharding, and its cost. */
#include "core/sharding/reshard.h"
#include "core/sharding/reshard_internal.h"

const char *sw_collective_name(enum sw_collective kind)
{
    return sw_word(sw_words_collective, (int32_t)kind);
}

static struct sw_axes append_axes(struct sw_axes list, struct sw_axes more)
{
    for (int i = 0; i < more.count; i++)
        list.axis[list.count++] = more.axis[i];
    return list;
}

/* Unused entries stay 0, so that equal shardings are equal bytes. */
static struct sw_axes drop_axes(struct sw_axes list, int count)
{
    while (count-- > 0)
        list.axis[--list.count] = 0;
    return list;
}

struct sw_sharding sw_reshard_apply(const struct sw_sharding *before,
                                    const struct sw_reshard_step *step)
{
    struct sw_sharding after = *before;
    struct sw_axes *dim = &after.spec.dim[step->dim];
    sw_axis_set axes = sw_axes_set(step->axes);
    switch (step->kind) {
    case SW_SLICE:
        *dim = append_axes(*dim, step->axes);
        break;
    case SW_ALL_GATHER:
        *dim = drop_axes(*dim, step->axes.count);
        break;
    case SW_REDUCE_SCATTER:
        *dim = append_axes(*dim, step->axes);
        after.partial &= (sw_axis_set)~axes;
        break;
    case SW_ALL_REDUCE:
        after.partial &= (sw_axis_set)~axes;
        break;
    case SW_ALL_TO_ALL:
        *dim = drop_axes(*dim, step->axes.count);
        after.spec.dim[step->dim_to] = append_axes(after.spec.dim[step->dim_to], step->axes);
        break;
    }
    return after;
}

double sw_reshard_step_cost(const struct sw_mesh *mesh, const struct sw_sharding *before,
                            const struct sw_reshard_step *step)
{
    double ranks = sw_mesh_rank_count(mesh);
    double in = ranks * ranks;
    for (int d = 0; d < before->spec.ndim; d++)
        in /= sw_axes_size(mesh, before->spec.dim[d]);
    double group = sw_axes_size(mesh, step->axes);
    switch (step->kind) {
    case SW_ALL_GATHER:
        return in * (group - 1);
    case SW_REDUCE_SCATTER:
    case SW_ALL_TO_ALL:
        return in / group * (group - 1);
    case SW_ALL_REDUCE:
        return 2 * (in / group) * (group - 1);
    case SW_SLICE:
        break;
    }
    return 0;
}
