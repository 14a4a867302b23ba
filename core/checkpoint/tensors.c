#include "core/checkpoint/tensors.h"

#include "core/base/quantize.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint8_t bytes;
} dtypes[SW_STORED_DTYPES] = {[SW_STORED_F32] = {"F32", 4},
                              [SW_STORED_BF16] = {"BF16", 2},
                              [SW_STORED_F16] = {"F16", 2},
                              [SW_STORED_F64] = {"F64", 8},
                              [SW_STORED_U8] = {"U8", 1}};

size_t sw_stored_dtype_bytes(enum sw_stored_dtype dtype)
{
    return dtypes[dtype].bytes;
}

const char *sw_stored_dtype_name(enum sw_stored_dtype dtype)
{
    return dtypes[dtype].name;
}

uint8_t sw_stored_shape(const struct sw_stored_tensor *tensor, int64_t shape[SW_STORED_DIMS])
{
    uint8_t n = 0;
    if (tensor->ndim == SW_STORED_DIMS)
        shape[n++] = tensor->matrices;
    for (uint8_t d = 0; n < tensor->ndim; d++)
        shape[n++] = d == 0 && tensor->fused_rows > 0 ? tensor->fused_rows : tensor->size[d];
    return tensor->ndim;
}

/* True if files have one tensor for each index of the row's first dimension. */
static bool is_dealt_out(const struct sw_state_row *row)
{
    return strchr(row->parameter->stored, '*') != NULL;
}

static void write_name(struct sw_stored_tensor *t, const struct sw_parameter *is)
{
    const char *star = strchr(is->stored, '*');
    const int head = (int)(star != NULL ? (size_t)(star - is->stored) : strlen(is->stored));
    int at = snprintf(t->name, sizeof t->name, "%s", is->adapter ? "base_model.model." : "");
    if (is->part == SW_OF_LAYER)
        at += snprintf(t->name + at, sizeof t->name - (size_t)at, "model.layers.%" PRId32 ".",
                       t->instance);
    at += snprintf(t->name + at, sizeof t->name - (size_t)at, "%.*s", head, is->stored);
    if (star != NULL && (size_t)at < sizeof t->name)
        snprintf(t->name + at, sizeof t->name - (size_t)at, "%" PRId64 "%s", t->first_matrix,
                 star + 1);
}

static struct sw_stored_tensor describe(const struct sw_state *state, int32_t index,
                                        int32_t instance, int64_t matrix)
{
    static const enum sw_stored_dtype stored[SW_DTYPE_COUNT] = {[SW_F32] = SW_STORED_F32,
                                                                [SW_BF16_T] = SW_STORED_BF16,
                                                                [SW_F64] = SW_STORED_F64,
                                                                [SW_CODES] = SW_STORED_U8};
    const struct sw_state_row *row = &state->row[index];
    const struct sw_parameter *is = row->parameter;
    struct sw_stored_tensor t = {.row = index,
                                 .instance = instance,
                                 .tied = row->moment == 0 ? is->tied : NULL,
                                 .group = (enum sw_stored_group)row->moment,
                                 .dtype = stored[row->dtype],
                                 .ndim = (uint8_t)(row->ndim - (is_dealt_out(row) ? 1 : 0)),
                                 .transposed = is->transposed,
                                 .block = sw_dtype_group(row->dtype),
                                 .first_matrix = matrix,
                                 .matrices = 1,
                                 .file = -1};
    const int64_t *size = row->size + (sw_stored_is_of_stack(&t, row) ? 1 : 0);
    t.size[0] = size[is->transposed ? 1 : 0];
    t.size[1] = t.ndim == 1 ? 1 : size[is->transposed ? 0 : 1] * t.block;
    if (t.ndim == SW_STORED_DIMS)
        t.matrices = row->size[0];
    t.bytes = t.matrices * t.size[0] * t.size[1] * (int64_t)sw_stored_dtype_bytes(t.dtype);
    write_name(&t, is);
    if (row->largest)
        strncat(t.name, ".most", sizeof t.name - strlen(t.name) - 1);
    return t;
}

/* A tensor and its sort keys. */
struct listed {
    uint8_t group, part, file_order;
    bool largest;
    int32_t instance, row;
    int64_t matrix;
};

/* Sorts by group: before, in (layer by layer) and behind the layers; of experts, one projection
 * after another. */
static int compare(const void *left, const void *right)
{
    const struct listed *a = left, *b = right;
    if (a->group != b->group)
        return a->group - b->group;
    if (a->part != b->part)
        return a->part - b->part;
    if (a->instance != b->instance)
        return a->instance < b->instance ? -1 : 1;
    if (a->largest != b->largest)
        return a->largest ? 1 : -1;
    if (a->file_order != b->file_order)
        return a->file_order - b->file_order;
    return (a->matrix > b->matrix) - (a->matrix < b->matrix);
}

/* Number of file tensors for one instance of a row. */
static int64_t tensors_each(const struct sw_state_row *row)
{
    return row->parameter != NULL && is_dealt_out(row) ? row->size[0] : 1;
}

/* Lists every instance of such rows, without the cache, which belongs to sequences, and without
 * scales and copies, which follow from the files' numbers. -1: a row that no file has. */
static int32_t list_rows(const struct sw_state *state, int32_t which, struct listed *out,
                         struct sw_error *err)
{
    int32_t count = 0;
    for (int32_t i = 0; i < state->count; i++) {
        const struct sw_state_row *row = &state->row[i];
        if (row->role == SW_ROLE_CACHE || row->scales || row->copy ||
            !(which == SW_STORED_SAVED ? row->saved : row->origin == which - SW_STORED_FROM))
            continue;
        const bool quantized_stack = row->ndim == SW_STORED_DIMS && sw_has_scales(row->dtype);
        if (row->parameter == NULL || row->ndim > SW_STORED_DIMS || row->dtype == SW_I32 ||
            quantized_stack)
            return sw_fail(err, SW_ENVIRONMENT,
                           "'%s' of the state has no counterpart in Hugging Face's files",
                           row->name);
        for (int64_t n = 0, each = tensors_each(row); n < row->stack * each; n++)
            out[count++] = (struct listed){.group = row->moment,
                                           .part = row->parameter->part,
                                           .file_order = row->parameter->file_order,
                                           .largest = row->largest,
                                           .instance = (int32_t)(n / each),
                                           .row = i,
                                           .matrix = n % each};
    }
    qsort(out, (size_t)count, sizeof *out, compare);
    return count;
}

/* Marks neighbours of one name as parts of one tensor. */
static void join_parts(struct sw_stored_tensor *tensor, int32_t count)
{
    for (int32_t first = 0, end; first < count; first = end) {
        int64_t rows = 0;
        for (end = first; end < count && tensor[end].group == tensor[first].group &&
                          strcmp(tensor[end].name, tensor[first].name) == 0;
             end++) {
            tensor[end].first_row = rows;
            rows += tensor[end].size[0];
        }
        for (int32_t i = first; i < end && end - first > 1; i++)
            tensor[i].fused_rows = rows;
    }
}

int sw_stored_tensors(const struct sw_state *state, int32_t which, struct sw_stored_tensor **out,
                      int32_t *count, struct sw_error *err)
{
    size_t most = 1;
    for (int32_t i = 0; i < state->count; i++)
        most += (size_t)(state->row[i].stack * tensors_each(&state->row[i]));
    struct listed *listed = malloc(most * sizeof *listed);
    struct sw_stored_tensor *tensors = malloc(most * sizeof *tensors);
    if (listed == NULL || tensors == NULL) {
        free(listed);
        free(tensors);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the tensors of a checkpoint");
    }
    *count = list_rows(state, which, listed, err);
    for (int32_t i = 0; i < *count; i++)
        tensors[i] = describe(state, listed[i].row, listed[i].instance, listed[i].matrix);
    free(listed);
    join_parts(tensors, *count);
    if (*count < 0) {
        free(tensors);
        return -1;
    }
    *out = tensors;
    return 0;
}
