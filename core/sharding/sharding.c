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

/* Where the contiguous runs of one rank's shard lie in the dense global array. */
struct runs {
    int outer;                   /* leading dimensions that are walked index by index */
    int64_t count[SW_MAX_DIMS];  /* of those dimensions: local size */
    int64_t stride[SW_MAX_DIMS]; /* of those dimensions: global elements per step */
    int64_t start_elems;         /* global position of the shard's first element */
    int64_t run_elems;           /* elements that are adjacent in both arrays */
    int64_t run_count;
};

static struct runs find_runs(const struct sw_mesh *mesh, const struct sw_partition_spec *spec,
                             const int64_t *global, int32_t rank)
{
    struct runs runs = {.run_elems = 1, .run_count = 1};
    int64_t offset[SW_MAX_DIMS];
    sw_shard_offset(mesh, spec, global, rank, offset);
    int64_t stride = 1;
    bool adjacent = true;
    for (int d = spec->ndim - 1; d >= 0; d--) {
        int64_t local = global[d] / sw_axes_size(mesh, spec->dim[d]);
        runs.start_elems += offset[d] * stride;
        if (adjacent) {
            runs.run_elems *= local;
            adjacent = local == global[d]; /* the next dimension out continues the run */
        } else {
            runs.run_count *= local;
            runs.outer = runs.outer > d + 1 ? runs.outer : d + 1;
            runs.count[d] = local;
            runs.stride[d] = stride;
        }
        stride *= global[d];
    }
    return runs;
}

/* Global position of the run that follows, in the shard's order, the one with these indices. */
static void next_run(const struct runs *runs, int64_t index[SW_MAX_DIMS], int64_t *position)
{
    for (int d = runs->outer - 1; d >= 0; d--) {
        *position += runs->stride[d];
        if (++index[d] < runs->count[d])
            return;
        *position -= runs->stride[d] * runs->count[d];
        index[d] = 0;
    }
}

void sw_device_put(const struct sw_mesh *mesh, const struct sw_partition_spec *spec,
                   const int64_t *global, size_t element_bytes, int32_t rank,
                   const void *global_data, void *shard)
{
    struct runs runs = find_runs(mesh, spec, global, rank);
    int64_t index[SW_MAX_DIMS] = {0};
    int64_t position = runs.start_elems;
    size_t run_bytes = (size_t)runs.run_elems * element_bytes;
    char *to = shard;
    for (int64_t i = 0; i < runs.run_count; i++) {
        memcpy(to, (const char *)global_data + (size_t)position * element_bytes, run_bytes);
        to += run_bytes;
        next_run(&runs, index, &position);
    }
}

void sw_gather(const struct sw_mesh *mesh, const struct sw_partition_spec *spec,
               const int64_t *global, size_t element_bytes, int32_t rank, const void *shard,
               void *global_data)
{
    struct runs runs = find_runs(mesh, spec, global, rank);
    int64_t index[SW_MAX_DIMS] = {0};
    int64_t position = runs.start_elems;
    size_t run_bytes = (size_t)runs.run_elems * element_bytes;
    const char *from = shard;
    for (int64_t i = 0; i < runs.run_count; i++) {
        memcpy((char *)global_data + (size_t)position * element_bytes, from, run_bytes);
        from += run_bytes;
        next_run(&runs, index, &position);
    }
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
