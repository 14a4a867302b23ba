#include "core/checkpoint/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    uint8_t bytes;
} dtypes[SW_STORED_DTYPES] = {[SW_STORED_F32] = {"F32", 4},
                              [SW_STORED_BF16] = {"BF16", 2},
                              [SW_STORED_F16] = {"F16", 2},
                              [SW_STORED_F64] = {"F64", 8}};

size_t sw_stored_dtype_bytes(enum sw_stored_dtype dtype)
{
    return dtypes[dtype].bytes;
}

const char *sw_stored_dtype_name(enum sw_stored_dtype dtype)
{
    return dtypes[dtype].name;
}

static struct sw_stored_tensor describe(const struct sw_state *state, int32_t index,
                                        int32_t instance)
{
    static const enum sw_stored_dtype stored[SW_DTYPE_COUNT] = {
        [SW_F32] = SW_STORED_F32, [SW_BF16_T] = SW_STORED_BF16, [SW_F64] = SW_STORED_F64};
    const struct sw_state_row *row = &state->row[index];
    const struct sw_parameter *is = row->parameter;
    struct sw_stored_tensor t = {.row = index,
                                 .instance = instance,
                                 .tied = row->moment == 0 ? is->tied : NULL,
                                 .group = (enum sw_stored_group)row->moment,
                                 .dtype = stored[row->dtype],
                                 .ndim = row->ndim,
                                 .transposed = is->transposed,
                                 .file = -1};
    t.size[0] = row->size[is->transposed ? 1 : 0];
    t.size[1] = row->ndim == 1 ? 1 : row->size[is->transposed ? 0 : 1];
    t.bytes = t.size[0] * t.size[1] * (int64_t)sw_stored_dtype_bytes(t.dtype);
    if (is->part == SW_OF_LAYER)
        snprintf(t.name, sizeof t.name, "model.layers.%" PRId32 ".%s", instance, is->stored);
    else
        snprintf(t.name, sizeof t.name, "%s", is->stored);
    return t;
}

/* One tensor and what orders it. */
struct listed {
    uint8_t group, part, file_order;
    int32_t instance, row;
};

/* Group by group: before, in (layer by layer) and behind the layers. */
static int compare(const void *left, const void *right)
{
    const struct listed *a = left, *b = right;
    if (a->group != b->group)
        return a->group - b->group;
    if (a->part != b->part)
        return a->part - b->part;
    if (a->instance != b->instance)
        return a->instance < b->instance ? -1 : 1;
    return a->file_order - b->file_order;
}

/* Every instance of every row but the cache's, which is of texts, not of the model, and scales
 * and copies, which follow from the files' numbers. -1: a row that no file has. */
static int32_t list_rows(const struct sw_state *state, struct listed *out, struct sw_error *err)
{
    int32_t count = 0;
    for (int32_t i = 0; i < state->count; i++) {
        const struct sw_state_row *row = &state->row[i];
        if (row->role == SW_ROLE_CACHE || row->scales || row->copy)
            continue;
        if (row->parameter == NULL || row->ndim > 2 || row->dtype == SW_I32)
            return sw_fail(err, SW_ENVIRONMENT,
                           "'%s' of the state has no counterpart in Hugging Face's files",
                           row->name);
        for (int32_t instance = 0; instance < row->stack; instance++)
            out[count++] = (struct listed){.group = row->moment,
                                           .part = row->parameter->part,
                                           .file_order = row->parameter->file_order,
                                           .instance = instance,
                                           .row = i};
    }
    qsort(out, (size_t)count, sizeof *out, compare);
    return count;
}

int sw_stored_tensors(const struct sw_state *state, struct sw_stored_tensor **out, int32_t *count,
                      struct sw_error *err)
{
    size_t most = 1;
    for (int32_t i = 0; i < state->count; i++)
        most += (size_t)state->row[i].stack;
    struct listed *listed = malloc(most * sizeof *listed);
    struct sw_stored_tensor *tensors = malloc(most * sizeof *tensors);
    if (listed == NULL || tensors == NULL) {
        free(listed);
        free(tensors);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the tensors of a checkpoint");
    }
    *count = list_rows(state, listed, err);
    for (int32_t i = 0; i < *count; i++)
        tensors[i] = describe(state, listed[i].row, listed[i].instance);
    free(listed);
    if (*count < 0) {
        free(tensors);
        return -1;
    }
    *out = tensors;
    return 0;
}
