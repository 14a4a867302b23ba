#include "core/sharding/sharding.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

sw_axis_set sw_spec_axes(const struct sw_partition_spec *spec)
{
    unsigned set = 0;
    for (int d = 0; d < spec->ndim; d++)
        set |= sw_axes_set(spec->dim[d]);
    return (sw_axis_set)set;
}

struct sw_sharding sw_sharding_normalize(const struct sw_mesh *mesh, struct sw_sharding sharding)
{
    struct sw_sharding normal = {.spec.ndim = sharding.spec.ndim};
    for (int d = 0; d < sharding.spec.ndim; d++)
        normal.spec.dim[d] = sw_axes_effective(mesh, sharding.spec.dim[d]);
    for (unsigned axis = 0; axis < SW_AXIS_COUNT; axis++) {
        if (mesh->size[axis] > 1)
            normal.partial |= (sw_axis_set)(sharding.partial & 1u << axis);
    }
    return normal;
}

static int fail_division(const struct sw_mesh *mesh, struct sw_axes axes, int d, int64_t size,
                         int64_t unit, struct sw_error *err)
{
    char names[32];
    sw_axes_format(axes, names, sizeof names);
    int32_t parts = sw_axes_size(mesh, axes);
    if (unit > 1)
        return sw_fail(err, SW_UNMET,
                       "dimension %d of size %" PRId64 " is not divisible by %s %" PRId32
                       " in whole units of %" PRId64,
                       d, size, names, parts, unit);
    return sw_fail(err, SW_UNMET,
                   "dimension %d of size %" PRId64 " is not divisible by %s %" PRId32, d, size,
                   names, parts);
}

int sw_local_shape(const struct sw_mesh *mesh, const struct sw_partition_spec *spec,
                   const int64_t *global, const int64_t *unit, int64_t *local, struct sw_error *err)
{
    for (int d = 0; d < spec->ndim; d++) {
        int64_t parts = sw_axes_size(mesh, spec->dim[d]);
        int64_t whole = unit != NULL ? unit[d] : 1;
        if (global[d] % (whole * parts) != 0)
            return fail_division(mesh, spec->dim[d], d, global[d], whole, err);
        local[d] = global[d] / parts;
    }
    return 0;
}

void sw_shard_offset(const struct sw_mesh *mesh, const struct sw_partition_spec *spec,
                     const int64_t *global, int32_t rank, int64_t *offset)
{
    for (int d = 0; d < spec->ndim; d++) {
        int64_t shard = global[d] / sw_axes_size(mesh, spec->dim[d]);
        offset[d] = shard * sw_axes_index(mesh, spec->dim[d], rank);
    }
}

/* Copies between one rank's shard and the global array, in runs of the last dimension. Padding of
 * the shard is left out. */
static void copy_shard(const struct sw_mesh *mesh, const struct sw_partition_spec *spec,
                       const int64_t *size, const int64_t *padded, size_t element_bytes,
                       int32_t rank, char *shard, char *global, bool put)
{
    int64_t start[SW_MAX_DIMS], local[SW_MAX_DIMS], owned[SW_MAX_DIMS], runs = 1, run = 1;
    sw_shard_offset(mesh, spec, padded, rank, start);
    for (int d = 0; d < spec->ndim; d++) {
        local[d] = padded[d] / sw_axes_size(mesh, spec->dim[d]);
        owned[d] = sw_shard_owned(size[d], start[d], local[d]);
        runs *= d + 1 < spec->ndim ? owned[d] : 1;
        run = owned[d];
    }
    for (int64_t i = 0; i < runs && run > 0; i++) {
        int64_t in_shard = 0, in_global = 0, shard_stride = 1, global_stride = 1, left = i;
        for (int d = spec->ndim - 1; d >= 0; d--) {
            const int64_t index = d + 1 < spec->ndim ? left % owned[d] : 0;
            left = d + 1 < spec->ndim ? left / owned[d] : left;
            in_shard += index * shard_stride;
            in_global += (start[d] + index) * global_stride;
            shard_stride *= local[d];
            global_stride *= size[d];
        }
        char *here = shard + (size_t)in_shard * element_bytes;
        char *there = global + (size_t)in_global * element_bytes;
        memcpy(put ? here : there, put ? there : here, (size_t)run * element_bytes);
    }
}

void sw_device_put(const struct sw_mesh *mesh, const struct sw_partition_spec *spec,
                   const int64_t *size, const int64_t *padded, size_t element_bytes, int32_t rank,
                   const void *global_data, void *shard)
{
    const int64_t *stored = padded != NULL ? padded : size;
    size_t bytes = element_bytes;
    for (int d = 0; d < spec->ndim; d++)
        bytes *= (size_t)(stored[d] / sw_axes_size(mesh, spec->dim[d]));
    memset(shard, 0, bytes);
    copy_shard(mesh, spec, size, stored, element_bytes, rank, shard, (char *)(uintptr_t)global_data,
               true);
}

void sw_gather(const struct sw_mesh *mesh, const struct sw_partition_spec *spec,
               const int64_t *size, const int64_t *padded, size_t element_bytes, int32_t rank,
               const void *shard, void *global_data)
{
    copy_shard(mesh, spec, size, padded != NULL ? padded : size, element_bytes, rank,
               (char *)(uintptr_t)shard, global_data, false);
}

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void append(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->at, text->left, format, args);
    va_end(args);
    size_t written = (size_t)n < text->left ? (size_t)n : (text->left > 0 ? text->left - 1 : 0);
    text->at += written;
    text->left -= written;
}

char *sw_sharding_format(const struct sw_sharding *sharding, char *buffer, size_t buffer_bytes)
{
    struct text text = {buffer, buffer_bytes};
    char names[32];
    append(&text, "[");
    for (int d = 0; d < sharding->spec.ndim; d++) {
        struct sw_axes axes = sharding->spec.dim[d];
        const char *separator = d > 0 ? ", " : "";
        if (axes.count == 0)
            append(&text, "%s-", separator);
        else
            append(&text, axes.count > 1 ? "%s(%s)" : "%s%s", separator,
                   sw_axes_format(axes, names, sizeof names));
    }
    append(&text, "]");
    if (sharding->partial != 0)
        append(&text, " partial(%s)",
               sw_axes_format(sw_axes_from_set(sharding->partial), names, sizeof names));
    return buffer;
}
