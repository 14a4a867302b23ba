#include "runner/checkpoint/scales.h"

#include "core/base/quantize.h"
#include "runner/checkpoint/convert.h"

#include <math.h>
#include <stdlib.h>

enum { TILE = 1024 };

int sw_scales_create(const struct sw_state *state, const struct sw_placement *placement,
                     struct sw_scales *out, struct sw_error *err)
{
    *out = (struct sw_scales){0};
    out->first = malloc(((size_t)placement->tensor_count + 1) * sizeof *out->first);
    for (int32_t t = 0; t < placement->tensor_count && out->first != NULL; t++) {
        const struct sw_stored_tensor *tensor = &placement->tensor[t];
        const enum sw_dtype dtype = state->row[tensor->row].dtype;
        const bool quantized = sw_has_scales(dtype);
        out->first[t] = quantized ? out->count : -1;
        out->dtype = quantized ? dtype : out->dtype;
        out->count += quantized ? tensor->size[0] : 0;
    }
    out->value = calloc((size_t)out->count + 1, sizeof *out->value);
    if (out->first != NULL && out->value != NULL)
        return 0;
    sw_scales_free(out);
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the scales of weights in 8 bits");
}

void sw_scales_free(struct sw_scales *scales)
{
    free(scales->first);
    free(scales->value);
    *scales = (struct sw_scales){0};
}

/* *most = max(*most, x). */
static void raise(float *most, float x)
{
    float was;
    __atomic_load(most, &was, __ATOMIC_RELAXED);
    while (was < x &&
           !__atomic_compare_exchange(most, &was, &x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* Takes numbers [begin, end) of a tensor. */
static void meet_numbers(float *most, const struct sw_stored_tensor *t, int64_t begin, int64_t end,
                         const char *from)
{
    float tile[TILE];
    const int64_t width = t->size[1], bytes = (int64_t)sw_stored_dtype_bytes(t->dtype);
    for (int64_t i = begin, n; i < end; i += n, from += n * bytes) {
        n = width - i % width;
        n = n < end - i ? n : end - i;
        n = n < TILE ? n : TILE;
        sw_convert_numbers(tile, SW_STORED_F32, from, t->dtype, n);
        raise(&most[i / width], sw_quantize_most(0, tile, n));
    }
}

void sw_scales_meet(struct sw_scales *scales, const struct sw_exchange *exchange,
                    const struct sw_stretch *stretch, const char *data)
{
    const struct sw_placement *p = exchange->placement;
    struct sw_span_of_file span;
    for (int32_t s = 0; sw_exchange_stretch_span(exchange, stretch, s, &span); s++) {
        const struct sw_stored_file *file = &p->file[span.file];
        for (int32_t t = file->first_tensor; t < file->first_tensor + file->tensor_count; t++) {
            const struct sw_stored_tensor *tensor = &p->tensor[t];
            const int64_t bytes = (int64_t)sw_stored_dtype_bytes(tensor->dtype);
            const int64_t begin = tensor->offset > span.begin ? tensor->offset : span.begin;
            const int64_t last = tensor->offset + tensor->bytes;
            const int64_t end = last < span.end ? last : span.end;
            if (scales->first[t] >= 0 && begin < end)
                meet_numbers(scales->value + scales->first[t], tensor,
                             (begin - tensor->offset) / bytes, (end - tensor->offset) / bytes,
                             data + span.at + (begin - span.begin));
        }
    }
}

bool sw_scales_show_nan(const struct sw_scales *scales, const struct sw_placement *placement,
                        int32_t tensor)
{
    const float *values = sw_scales_of(scales, tensor);
    for (int64_t i = 0; values != NULL && i < placement->tensor[tensor].size[0]; i++)
        if (isnan(values[i]))
            return true;
    return false;
}

void sw_scales_settle(struct sw_scales *scales)
{
    for (int64_t i = 0; i < scales->count; i++)
        scales->value[i] = sw_quantize_scale(scales->dtype, (double)scales->value[i]);
}

int sw_scales_store(const struct sw_scales *scales, const struct sw_exchange *exchange,
                    struct sw_executor *executor, struct sw_error *err)
{
    const struct sw_placement *p = exchange->placement;
    struct sw_device *device = sw_executor_device(executor);
    const int32_t rank = sw_executor_comm(executor)->rank;
    int failed = 0;
    for (int32_t t = 0; t < p->tensor_count && !failed; t++) {
        const float *values = sw_scales_of(scales, t);
        if (values == NULL)
            continue;
        const struct sw_state_row *row =
            sw_state_scales(exchange->state, &exchange->state->row[p->tensor[t].row]);
        float *shard = malloc((size_t)row->instance_bytes + 1);
        if (shard == NULL)
            return sw_fail(err, SW_ENVIRONMENT,
                           "out of memory for the scales of weights in 8 bits");
        sw_device_put(&exchange->mesh, &row->sharding.spec, row->size, row->padded, sizeof *shard,
                      rank, values, shard);
        failed =
            device->vtable->copy_in(device, sw_executor_state(executor, row, p->tensor[t].instance),
                                    shard, (size_t)(row->local[0] * (int64_t)sizeof *shard));
        free(shard);
    }
    return failed ? sw_fail(err, SW_ENVIRONMENT, "cannot copy the scales of weights to the device")
                  : 0;
}
