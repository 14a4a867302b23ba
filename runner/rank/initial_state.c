/* Initial values of the state: sw_executor_init_state. */
#include "core/base/int4.h"
#include "core/base/number.h"
#include "core/base/quantize.h"
#include "runner/rank/execute.h"
#include "runner/rank/init.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILL_THREADS = 32, FILL_SHARE = 1 << 20 };

static void store(enum sw_dtype dtype, void *data, int64_t i, double value)
{
    if (dtype == SW_F64) {
        ((double *)data)[i] = value;
    } else if (dtype == SW_F32) {
        ((float *)data)[i] = (float)value;
    } else {
        ((uint16_t *)data)[i] = sw_bf16_from_float((float)value);
    }
}

/* Elements [first, end) of this rank's shard of an instance. */
struct filling {
    const struct sw_state_row *row;
    const float *scales; /* [outputs], for a row of 8 bits (quantize.h); else NULL */
    int64_t start[SW_MAX_DIMS], first, end;
    uint64_t key;
    double stddev;
    void *data;
};

/* Index in the whole tensor of the shard's element i, and number of elements adjacent in both from
 * there; -1: padding. */
static int64_t whole_index(const struct filling *f, int64_t i, int64_t *adjacent)
{
    const struct sw_state_row *row = f->row;
    int64_t index = 0, scale = 1;
    *adjacent = row->local[row->ndim - 1] - i % row->local[row->ndim - 1];
    for (int d = row->ndim - 1; d >= 0; d--) {
        const int64_t at = i % row->local[d];
        const int64_t owned = sw_shard_owned(row->size[d], f->start[d], row->local[d]);
        if (at >= owned)
            return -1;
        if (d == row->ndim - 1)
            *adjacent = owned - at;
        index += (f->start[d] + at) * scale;
        i /= row->local[d];
        scale *= row->size[d];
    }
    return index;
}

/* Outputs of an 8-bit matrix, and their strides in the whole tensor. */
struct outputs {
    int64_t count, inputs, next_output, next_input;
};

static struct outputs outputs_of(const struct sw_state_row *matrix)
{
    const int64_t rows = matrix->size[0], columns = matrix->size[1];
    return matrix->parameter->transposed ? (struct outputs){columns, rows, 1, columns}
                                         : (struct outputs){rows, columns, columns, 1};
}

static float initial_scale(enum sw_dtype dtype, const struct outputs *o, int64_t output,
                           uint64_t key, double stddev)
{
    float most = 0;
    for (int64_t i = 0; i < o->inputs; i++) {
        const uint64_t index = (uint64_t)(output * o->next_output + i * o->next_input);
        const float value = (float)(stddev * sw_init_normal(key, index));
        most = sw_quantize_most(most, &value, 1);
    }
    return sw_quantize_scale(dtype, (double)most);
}

static char quantized(const struct filling *f, int64_t index)
{
    const struct outputs o = outputs_of(f->row);
    const float scale = f->scales[index / o.next_output % o.count];
    const float value = (float)(f->stddev * sw_init_normal(f->key, (uint64_t)index));
    char made;
    sw_quantize(f->row->dtype, &value, 1, scale, &made);
    return made;
}

/* Quantized group of a matrix in blocks, element `index` of the whole; its numbers are the fp32
 * matrix's [rows, columns]. */
static struct sw_int4_block grouped(const struct filling *f, int64_t index)
{
    const struct sw_state_row *row = f->row;
    const bool by_row = sw_parameter_inputs(row->parameter) == 1;
    const int64_t columns = row->size[1], i = index / columns, j = index % columns;
    struct sw_int4_block block;
    float x[SW_INT4_GROUP];
    for (int64_t k = 0; k < SW_INT4_GROUP; k++) {
        const int64_t at =
            by_row ? (i * columns + j) * SW_INT4_GROUP + k : (i * SW_INT4_GROUP + k) * columns + j;
        x[k] = (float)(f->stddev * sw_init_normal(f->key, (uint64_t)at));
    }
    sw_int4_quantize(x, &block);
    return block;
}

static double initial_value(const struct filling *f, uint64_t index)
{
    switch (f->row->initial) {
    case SW_INITIAL_ONES:
        return 1;
    case SW_INITIAL_FAN_IN:
        return sw_init_uniform(f->key, index) / sqrt((double)f->row->size[0]);
    default:
        return f->stddev * sw_init_normal(f->key, index);
    }
}

static void *fill_part(void *argument)
{
    const struct filling *f = argument;
    for (int64_t i = f->first, n; i < f->end; i += n) {
        const int64_t index = whole_index(f, i, &n);
        n = n < f->end - i ? n : f->end - i;
        for (int64_t j = 0; f->scales != NULL && index >= 0 && j < n; j++)
            ((char *)f->data)[i + j] = quantized(f, index + j);
        for (int64_t j = 0; f->row->dtype == SW_I4 && index >= 0 && j < n; j++)
            ((struct sw_int4_block *)f->data)[i + j] = grouped(f, index + j);
        const bool wide = f->scales == NULL && f->row->dtype != SW_I4;
        for (int64_t j = 0; wide && index >= 0 && j < n; j++)
            store(f->row->dtype, f->data, i + j, initial_value(f, (uint64_t)(index + j)));
    }
    return NULL;
}

/* Fills by each element's index in the whole tensor, so threads can share: a billion elements take
 * one core almost a minute. */
static void fill_shard(const struct sw_comm *comm, const struct sw_state_row *row, uint64_t key,
                       double stddev, const float *scales, void *data)
{
    const int64_t elems = row->instance_bytes / (int64_t)sw_dtype_bytes(row->dtype);
    struct filling part[FILL_THREADS];
    pthread_t thread[FILL_THREADS];
    bool started[FILL_THREADS] = {false};
    cpu_set_t allowed;
    int64_t count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    if (count > elems / FILL_SHARE)
        count = elems / FILL_SHARE;
    count = count < 1 ? 1 : count > FILL_THREADS ? FILL_THREADS : count;
    for (int64_t i = 0; i < count; i++) {
        part[i] = (struct filling){.row = row,
                                   .scales = scales,
                                   .first = elems * i / count,
                                   .end = elems * (i + 1) / count,
                                   .key = key,
                                   .stddev = stddev,
                                   .data = data};
        sw_shard_offset(&comm->mesh, &row->sharding.spec, row->padded, comm->rank, part[i].start);
        started[i] = i + 1 < count && pthread_create(&thread[i], NULL, fill_part, &part[i]) == 0;
        if (!started[i])
            (void)fill_part(&part[i]);
    }
    for (int64_t i = 0; i < count; i++)
        if (started[i])
            (void)pthread_join(thread[i], NULL);
}

/* Initialises an instance of an 8-bit row and its scales; every rank computes the whole matrix. */
static int init_quantized(struct sw_executor *x, const struct sw_state_row *row, int32_t instance,
                          uint64_t key, double stddev, void *shard)
{
    const struct sw_comm *comm = sw_executor_comm(x);
    struct sw_device *device = sw_executor_device(x);
    const struct sw_state_row *of = sw_state_scales(&sw_executor_set(x)->state, row);
    const struct outputs outputs = outputs_of(row);
    float *scales = malloc((size_t)outputs.count * sizeof *scales);
    if (scales == NULL)
        return -1;
    for (int64_t i = 0; i < outputs.count; i++)
        scales[i] = initial_scale(row->dtype, &outputs, i, key, stddev);
    fill_shard(comm, row, key, stddev, scales, shard);
    int failed = device->vtable->copy_in(device, sw_executor_state(x, row, instance), shard,
                                         (size_t)row->instance_bytes);
    sw_device_put(&comm->mesh, &of->sharding.spec, of->size, of->padded, sizeof *scales, comm->rank,
                  scales, shard);
    failed |= device->vtable->copy_in(device, sw_executor_state(x, of, instance), shard,
                                      (size_t)of->local[0] * sizeof *scales);
    free(scales);
    return failed;
}

static bool lies_in_tiles(const struct sw_device *device, const struct sw_state_row *row)
{
    return row->tiled && sw_device_tiles(device, row->dtype);
}

/* True if the row's weights are tiled but were written untiled. */
static bool is_to_tile(const struct sw_device *device, const struct sw_state_row *row,
                       unsigned tiled)
{
    return lies_in_tiles(device, row) && (row->copy || (tiled >> row->origin & 1) == 0);
}

static int tile_state(struct sw_executor *x, unsigned tiled, struct sw_error *err)
{
    const struct sw_state *state = &sw_executor_set(x)->state;
    struct sw_device *device = sw_executor_device(x);
    int64_t largest = 0;
    for (int32_t i = 0; i < state->count; i++)
        if (is_to_tile(device, &state->row[i], tiled) && state->row[i].instance_bytes > largest)
            largest = state->row[i].instance_bytes;
    if (largest == 0)
        return 0;
    void *as_declared = malloc((size_t)largest);
    if (as_declared == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for laying weights out in tiles");
    for (int32_t i = 0; i < state->count; i++) {
        const struct sw_state_row *row = &state->row[i];
        const bool turned = sw_parameter_is_turned(row->parameter);
        for (int32_t l = 0; is_to_tile(device, row, tiled) && l < row->stack; l++) {
            void *weights = sw_executor_state(x, row, l);
            memcpy(as_declared, weights, (size_t)row->instance_bytes);
            device->vtable->tile(device, row->dtype, weights, as_declared, row->local[turned],
                                 row->local[!turned], turned);
        }
    }
    free(as_declared);
    return 0;
}

/* Copies one instance of an fp32 row in the copy's dtype. */
static int copy_instance(struct sw_executor *x, const struct sw_state_row *row,
                         const struct sw_state_row *copy, int32_t instance, float *wide,
                         uint16_t *narrow)
{
    struct sw_device *device = sw_executor_device(x);
    const int64_t elems = row->instance_bytes / (int64_t)sizeof *wide;
    if (device->vtable->copy_out(device, wide, sw_executor_state(x, row, instance),
                                 (size_t)row->instance_bytes) != 0)
        return -1;
    for (int64_t i = 0; i < elems; i++)
        narrow[i] = sw_bf16_from_float(wide[i]);
    return device->vtable->copy_in(device, sw_executor_state(x, copy, instance), narrow,
                                   (size_t)copy->instance_bytes);
}

static int copy_state(struct sw_executor *x, struct sw_error *err)
{
    const struct sw_state *state = &sw_executor_set(x)->state;
    int64_t largest = 0; /* elements */
    int failed = 0;
    for (int32_t i = 0; i < state->count; i++)
        if (state->row[i].copy && state->row[i].instance_bytes / 2 > largest)
            largest = state->row[i].instance_bytes / 2;
    if (largest == 0)
        return 0;
    float *wide = malloc((size_t)largest * sizeof *wide);
    uint16_t *narrow = malloc((size_t)largest * sizeof *narrow);
    for (int32_t i = 0; wide != NULL && narrow != NULL && i < state->count; i++) {
        const struct sw_state_row *copy = &state->row[i], *row = sw_state_copied(state, copy);
        for (int32_t l = 0; row != NULL && l < row->stack; l++)
            failed |= copy_instance(x, row, copy, l, wide, narrow);
    }
    if (wide == NULL || narrow == NULL)
        sw_fail(err, SW_ENVIRONMENT, "out of memory for copies of weights");
    else if (failed)
        sw_fail(err, SW_ENVIRONMENT, "cannot copy weights from or to the device");
    failed |= wide == NULL || narrow == NULL;
    free(wide);
    free(narrow);
    return failed ? -1 : 0;
}

int sw_executor_settle_state(struct sw_executor *x, unsigned tiled, struct sw_error *err)
{
    return copy_state(x, err) != 0 ? -1 : tile_state(x, tiled, err);
}

int sw_executor_init_rows(struct sw_executor *x, uint64_t seed, double stddev, int32_t origin,
                          struct sw_error *err)
{
    const struct sw_state *state = &sw_executor_set(x)->state;
    struct sw_device *device = sw_executor_device(x);
    int64_t largest = 0;
    for (int32_t i = 0; i < state->count; i++)
        if (state->row[i].instance_bytes > largest)
            largest = state->row[i].instance_bytes;
    void *shard = malloc((size_t)largest + 1);
    if (shard == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for initial parameters");
    int failed = 0;
    for (int32_t i = 0; i < state->count; i++) {
        const struct sw_state_row *row = &state->row[i];
        /* zeros: the arena's memory starts so */
        if (row->initial == SW_INITIAL_ZEROS || row->scales || row->origin != origin)
            continue;
        const bool in_place = device->vtable->in_host_memory && !sw_has_scales(row->dtype);
        memset(shard, 0, in_place ? 0 : (size_t)row->instance_bytes);
        for (int32_t l = 0; l < row->stack; l++) {
            char name[SW_NAME_BYTES + 16];
            snprintf(name, sizeof name, row->stack > 1 ? "%s.%d" : "%s", row->name, l);
            if (sw_has_scales(row->dtype)) {
                failed |= init_quantized(x, row, l, sw_init_key(seed, name), stddev, shard);
                continue;
            }
            void *data = in_place ? sw_executor_state(x, row, l) : shard;
            fill_shard(sw_executor_comm(x), row, sw_init_key(seed, name), stddev, NULL, data);
            if (in_place)
                continue;
            failed |= device->vtable->copy_in(device, sw_executor_state(x, row, l), shard,
                                              (size_t)row->instance_bytes);
        }
    }
    free(shard);
    return failed ? sw_fail(err, SW_ENVIRONMENT, "cannot copy initial parameters to the device")
                  : 0;
}

int sw_executor_init_state(struct sw_executor *x, uint64_t seed, double stddev,
                           struct sw_error *err)
{
    return sw_executor_init_rows(x, seed, stddev, SW_ORIGIN_BASE, err) != 0 ||
                   sw_executor_init_rows(x, seed, stddev, SW_ORIGIN_RUN, err) != 0
               ? -1
               : sw_executor_settle_state(x, 0, err);
}
