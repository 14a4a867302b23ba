#include "core/sharding/mesh.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const axis_names[SW_AXIS_COUNT] = {"dp", "fsdp", "tp", "sp"};

const char *sw_axis_name(enum sw_axis axis)
{
    return axis_names[axis];
}

struct sw_mesh sw_mesh_make(int32_t dp, int32_t fsdp, int32_t tp, int32_t sp)
{
    return (struct sw_mesh){.size = {[SW_DP] = dp, [SW_FSDP] = fsdp, [SW_TP] = tp, [SW_SP] = sp},
                            .order = {SW_DP, SW_FSDP, SW_SP, SW_TP}};
}

void sw_mesh_coordinate(const struct sw_mesh *mesh, int32_t rank, int32_t coordinate[SW_AXIS_COUNT])
{
    for (int i = SW_AXIS_COUNT - 1; i >= 0; i--) {
        int32_t size = mesh->size[mesh->order[i]];
        coordinate[mesh->order[i]] = rank % size;
        rank /= size;
    }
}

int32_t sw_mesh_rank(const struct sw_mesh *mesh, const int32_t coordinate[SW_AXIS_COUNT])
{
    int32_t rank = 0;
    for (int i = 0; i < SW_AXIS_COUNT; i++)
        rank = rank * mesh->size[mesh->order[i]] + coordinate[mesh->order[i]];
    return rank;
}

struct sw_axes sw_axes_from_set(sw_axis_set set)
{
    struct sw_axes axes = {0};
    for (uint8_t axis = 0; axis < SW_AXIS_COUNT; axis++) {
        if (set >> axis & 1u)
            axes.axis[axes.count++] = axis;
    }
    return axes;
}

int32_t sw_axes_index(const struct sw_mesh *mesh, struct sw_axes axes, int32_t rank)
{
    int32_t coordinate[SW_AXIS_COUNT];
    sw_mesh_coordinate(mesh, rank, coordinate);
    int32_t index = 0;
    for (int i = 0; i < axes.count; i++)
        index = index * mesh->size[axes.axis[i]] + coordinate[axes.axis[i]];
    return index;
}

int32_t sw_axes_member(const struct sw_mesh *mesh, struct sw_axes axes, int32_t rank, int32_t index)
{
    int32_t coordinate[SW_AXIS_COUNT];
    sw_mesh_coordinate(mesh, rank, coordinate);
    for (int i = axes.count - 1; i >= 0; i--) {
        int32_t size = mesh->size[axes.axis[i]];
        coordinate[axes.axis[i]] = index % size;
        index /= size;
    }
    return sw_mesh_rank(mesh, coordinate);
}

/* Joins names by commas; truncated, never overrun, if the buffer is too small. */
static char *join_names(const uint8_t *axis, int count, char *buffer, size_t buffer_bytes)
{
    if (buffer_bytes == 0)
        return buffer;
    buffer[0] = '\0';
    size_t used = 0;
    for (int i = 0; i < count && used < buffer_bytes; i++) {
        int n = snprintf(buffer + used, buffer_bytes - used, "%s%s", i > 0 ? "," : "",
                         axis_names[axis[i]]);
        used += (size_t)n;
    }
    return buffer;
}

char *sw_axes_format(struct sw_axes axes, char *buffer, size_t buffer_bytes)
{
    if (axes.count == 0) {
        snprintf(buffer, buffer_bytes, "none");
        return buffer;
    }
    return join_names(axes.axis, axes.count, buffer, buffer_bytes);
}

char *sw_mesh_format(const struct sw_mesh *mesh, char *buffer, size_t buffer_bytes)
{
    snprintf(buffer, buffer_bytes, "%" PRId32 ",%" PRId32 ",%" PRId32 ",%" PRId32,
             mesh->size[SW_DP], mesh->size[SW_FSDP], mesh->size[SW_TP], mesh->size[SW_SP]);
    return buffer;
}

char *sw_mesh_format_order(const struct sw_mesh *mesh, char *buffer, size_t buffer_bytes)
{
    return join_names(mesh->order, SW_AXIS_COUNT, buffer, buffer_bytes);
}

/* Smallest divisor of n above d, or 0. Divisors above the square root are found through their
 * partner n / c below it, so a step costs at most sqrt(n). */
static int32_t next_divisor(int32_t n, int32_t d)
{
    if (d >= n)
        return 0;
    int64_t c = (int64_t)d + 1;
    for (; c * c <= n; c++) {
        if (n % c == 0)
            return (int32_t)c;
    }
    int64_t partner = n / c;
    while (n % partner != 0)
        partner--;
    return (int32_t)(n / partner);
}

int sw_mesh_enumerate(int32_t accelerators, int (*visit)(const struct sw_mesh *mesh, void *context),
                      void *context)
{
    /* fsdp falls from accelerators to 1: it is accelerators over a rising divisor */
    for (int32_t rest = 1; rest != 0; rest = next_divisor(accelerators, rest)) {
        for (int32_t dp = 1; dp != 0; dp = next_divisor(rest, dp)) {
            int32_t model = rest / dp;
            for (int32_t tp = 1; tp != 0; tp = next_divisor(model, tp)) {
                struct sw_mesh mesh = sw_mesh_make(dp, accelerators / rest, tp, model / tp);
                int stop = visit(&mesh, context);
                if (stop != 0)
                    return stop;
            }
        }
    }
    return 0;
}
