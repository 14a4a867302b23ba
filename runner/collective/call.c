#include "runner/collective/call.h"

#include "core/base/number.h"
#include "core/base/quantize.h"

#include <string.h>

static int64_t product(const int64_t *size, int first, int end)
{
    int64_t elems = 1;
    for (int d = first; d < end; d++)
        elems *= size[d];
    return elems;
}

void sw_collective_call_shape(struct sw_collective_call *call, enum sw_collective kind, int ndim,
                              const int64_t *local_in, int dim, int dim_to)
{
    call->kind = kind;
    call->count = 1;
    call->elems[0] = product(local_in, 0, ndim);
    call->outer = call->n = call->middle = call->m = 1;
    call->dim_first = true;
    call->inner = call->elems[0];
    if (kind == SW_ALL_REDUCE)
        return;
    if (kind != SW_ALL_TO_ALL) {
        call->outer = product(local_in, 0, dim);
        call->n = local_in[dim];
        call->inner = product(local_in, dim + 1, ndim);
        return;
    }
    call->dim_first = dim < dim_to;
    const int earlier = call->dim_first ? dim : dim_to, later = call->dim_first ? dim_to : dim;
    call->outer = product(local_in, 0, earlier);
    call->n = local_in[earlier];
    call->middle = product(local_in, earlier + 1, later);
    call->m = local_in[later];
    call->inner = product(local_in, later + 1, ndim);
}

int sw_collective_call_check(const struct sw_collective_call *call, int32_t group,
                             struct sw_error *err)
{
    if (call->kind == SW_SLICE || call->kind > SW_ALL_TO_ALL)
        return sw_fail(err, SW_BAD_INPUT, "kind %d is not a collective", (int)call->kind);
    if (call->dtype >= SW_DTYPE_COUNT)
        return sw_fail(err, SW_BAD_INPUT, "dtype %d is unknown", (int)call->dtype);
    if (sw_is_quantized(call->dtype) &&
        (call->kind == SW_ALL_REDUCE || call->kind == SW_REDUCE_SCATTER))
        return sw_fail(err, SW_BAD_INPUT, "%s is moved, not summed", sw_dtype_name(call->dtype));
    const int32_t most = call->kind == SW_ALL_REDUCE ? (int32_t)SW_COLLECTIVE_MAX_OPERANDS : 1;
    if (call->count < 1 || call->count > most)
        return sw_fail(err, SW_BAD_INPUT, "%d operands, it takes 1 to %d", (int)call->count,
                       (int)most);
    int64_t split = 0;
    if (call->kind == SW_REDUCE_SCATTER)
        split = call->n;
    else if (call->kind == SW_ALL_TO_ALL)
        split = call->dim_first ? call->m : call->n;
    if (split % group != 0)
        return sw_fail(err, SW_BAD_INPUT, "size %lld is not divisible by the group of %d",
                       (long long)split, (int)group);
    return 0;
}

struct sw_block sw_call_send_block(const struct sw_collective_call *call, int32_t group,
                                   int32_t member)
{
    const int64_t element = (int64_t)sw_dtype_bytes(call->dtype);
    int64_t rows = 1, stride = call->elems[0], share = call->elems[0];
    if (call->kind == SW_REDUCE_SCATTER) {
        rows = call->outer;
        stride = call->n * call->inner;
        share = stride / group;
    } else if (call->kind == SW_ALL_TO_ALL && call->dim_first) {
        rows = call->outer * call->n * call->middle;
        stride = call->m * call->inner;
        share = stride / group;
    } else if (call->kind == SW_ALL_TO_ALL) {
        rows = call->outer;
        stride = call->n * call->middle * call->m * call->inner;
        share = stride / group;
    } else { /* all_gather: all members get all of it */
        member = 0;
    }
    return (struct sw_block){member * share * element, rows, share * element, stride * element};
}

struct sw_block sw_call_receive_block(const struct sw_collective_call *call, int32_t group,
                                      int32_t member)
{
    const int64_t element = (int64_t)sw_dtype_bytes(call->dtype);
    int64_t rows = call->outer, share = 0;
    if (call->kind == SW_REDUCE_SCATTER) {
        const int64_t bytes = call->elems[0] / group * element;
        return (struct sw_block){0, 1, bytes, bytes};
    }
    if (call->kind == SW_ALL_GATHER) {
        share = call->n * call->inner;
    } else if (call->dim_first) {
        share = call->n * call->middle * (call->m / group) * call->inner;
    } else {
        rows = call->outer * (call->n / group) * call->middle;
        share = call->m * call->inner;
    }
    return (struct sw_block){member * share * element, rows, share * element,
                             share * group * element};
}

struct sw_collective_slots sw_call_slots(const struct sw_collective_call *call, int32_t group)
{
    bool send_strided = call->count > 1, receive_strided = false;
    if (call->kind != SW_ALL_REDUCE) {
        const struct sw_block send = sw_call_send_block(call, group, 0);
        const struct sw_block receive = sw_call_receive_block(call, group, 0);
        send_strided = !sw_block_contiguous(&send);
        receive_strided = !sw_block_contiguous(&receive);
    }
    return sw_collective_slots(call->kind, group, sw_call_total_elems(call),
                               sw_dtype_bytes(call->dtype), send_strided, receive_strided);
}

int64_t sw_block_bytes(const struct sw_block *block)
{
    return block->rows * block->row_bytes;
}

bool sw_block_contiguous(const struct sw_block *block)
{
    return block->rows == 1;
}

int64_t sw_block_run(const struct sw_block *block, int64_t at, int64_t *offset_bytes)
{
    const int64_t row = at / block->row_bytes, column = at % block->row_bytes;
    *offset_bytes = block->offset_bytes + row * block->stride_bytes + column;
    return block->row_bytes - column;
}

void sw_block_pack(void *packed, const void *base, const struct sw_block *block, int64_t first,
                   int64_t bytes)
{
    unsigned char *to = packed;
    const unsigned char *from = (const unsigned char *)base + block->offset_bytes;
    int64_t row = first / block->row_bytes, column = first % block->row_bytes;
    while (bytes > 0) {
        int64_t run = block->row_bytes - column;
        if (run > bytes)
            run = bytes;
        memcpy(to, from + row * block->stride_bytes + column, (size_t)run);
        to += run;
        bytes -= run;
        column = 0;
        row++;
    }
}

void sw_block_unpack(void *base, const struct sw_block *block, int64_t first, int64_t bytes,
                     const void *packed)
{
    const unsigned char *from = packed;
    unsigned char *to = (unsigned char *)base + block->offset_bytes;
    int64_t row = first / block->row_bytes, column = first % block->row_bytes;
    while (bytes > 0) {
        int64_t run = block->row_bytes - column;
        if (run > bytes)
            run = bytes;
        memcpy(to + row * block->stride_bytes + column, from, (size_t)run);
        from += run;
        bytes -= run;
        column = 0;
        row++;
    }
}

void sw_block_copy(void *to_base, const struct sw_block *to, const void *from_base,
                   const struct sw_block *from)
{
    /* Walks the side with longer rows: each of them is contiguous. */
    if (to->row_bytes >= from->row_bytes) {
        unsigned char *row = (unsigned char *)to_base + to->offset_bytes;
        for (int64_t i = 0; i < to->rows; i++)
            sw_block_pack(row + i * to->stride_bytes, from_base, from, i * to->row_bytes,
                          to->row_bytes);
    } else {
        const unsigned char *row = (const unsigned char *)from_base + from->offset_bytes;
        for (int64_t i = 0; i < from->rows; i++)
            sw_block_unpack(to_base, to, i * from->row_bytes, from->row_bytes,
                            row + i * from->stride_bytes);
    }
}

int64_t sw_call_total_elems(const struct sw_collective_call *call)
{
    int64_t elems = 0;
    for (int32_t i = 0; i < call->count; i++)
        elems += call->elems[i];
    return elems;
}

int32_t sw_call_operand_find(const struct sw_collective_call *call, int64_t first, int64_t elems,
                             int64_t *offset_bytes)
{
    for (int32_t i = 0; i < call->count; i++) {
        if (first < call->elems[i]) {
            *offset_bytes = first * (int64_t)sw_dtype_bytes(call->dtype);
            return first + elems <= call->elems[i] ? i : -1;
        }
        first -= call->elems[i];
    }
    return -1;
}

/* Part of operand i within [first, first + elems) of the concatenated operands: sets *begin (in the
 * operand) and *packed (in the range); returns its length, 0 for none. */
static int64_t overlap(const struct sw_collective_call *call, int32_t i, int64_t operand_first,
                       int64_t first, int64_t elems, int64_t *begin, int64_t *packed)
{
    const int64_t low = first > operand_first ? first : operand_first;
    const int64_t operand_end = operand_first + call->elems[i];
    const int64_t high = first + elems < operand_end ? first + elems : operand_end;
    *begin = low - operand_first;
    *packed = low - first;
    return high > low ? high - low : 0;
}

void sw_call_operands_pack(const struct sw_collective_call *call, void *packed, int64_t first,
                           int64_t elems)
{
    const int64_t element = (int64_t)sw_dtype_bytes(call->dtype);
    int64_t operand_first = 0, begin, at;
    for (int32_t i = 0; i < call->count; operand_first += call->elems[i++]) {
        const int64_t length = overlap(call, i, operand_first, first, elems, &begin, &at);
        if (length > 0)
            memcpy((unsigned char *)packed + at * element,
                   (const unsigned char *)call->in[i] + begin * element,
                   (size_t)(length * element));
    }
}

void sw_call_operands_unpack(const struct sw_collective_call *call, int64_t first, int64_t elems,
                             const void *packed)
{
    const int64_t element = (int64_t)sw_dtype_bytes(call->dtype);
    int64_t operand_first = 0, begin, at;
    for (int32_t i = 0; i < call->count; operand_first += call->elems[i++]) {
        const int64_t length = overlap(call, i, operand_first, first, elems, &begin, &at);
        if (length > 0)
            memcpy((unsigned char *)call->out[i] + begin * element,
                   (const unsigned char *)packed + at * element, (size_t)(length * element));
    }
}

enum { TILE = 1024 }; /* elements summed at a time: stays in the first-level cache */

/* `to` may equal an operand. */
static void add_f32(float *to, const float *a, const float *b, int64_t elems)
{
    for (int64_t i = 0; i < elems; i++)
        to[i] = a[i] + b[i];
}

static void sum_f32(float *to, const void *const *from, int32_t count, int64_t elems)
{
    float sum[TILE];
    for (int64_t first = 0; first < elems; first += TILE) {
        const int64_t length = elems - first < TILE ? elems - first : TILE;
        const float *so_far = (const float *)from[0] + first;
        for (int32_t s = 1; s < count; s++) {
            add_f32(s < count - 1 ? sum : to + first, so_far, (const float *)from[s] + first,
                    length);
            so_far = sum;
        }
        if (count == 1 && to != from[0])
            memcpy(to + first, so_far, (size_t)length * sizeof *to);
    }
}

/* `to` may equal an operand. */
static void add_f64(double *to, const double *a, const double *b, int64_t elems)
{
    for (int64_t i = 0; i < elems; i++)
        to[i] = a[i] + b[i];
}

static void sum_f64(double *to, const void *const *from, int32_t count, int64_t elems)
{
    double sum[TILE];
    for (int64_t first = 0; first < elems; first += TILE) {
        const int64_t length = elems - first < TILE ? elems - first : TILE;
        const double *so_far = (const double *)from[0] + first;
        for (int32_t s = 1; s < count; s++) {
            add_f64(s < count - 1 ? sum : to + first, so_far, (const double *)from[s] + first,
                    length);
            so_far = sum;
        }
        if (count == 1 && to != from[0])
            memcpy(to + first, so_far, (size_t)length * sizeof *to);
    }
}

static void sum_bf16(uint16_t *to, const void *const *from, int32_t count, int64_t elems)
{
    float sum[TILE];
    for (int64_t first = 0; first < elems; first += TILE) {
        const int64_t length = elems - first < TILE ? elems - first : TILE;
        for (int64_t i = 0; i < length; i++)
            sum[i] = sw_bf16_to_float(((const uint16_t *)from[0])[first + i]);
        for (int32_t s = 1; s < count; s++) {
            const uint16_t *source = (const uint16_t *)from[s] + first;
            for (int64_t i = 0; i < length; i++)
                sum[i] += sw_bf16_to_float(source[i]);
        }
        for (int64_t i = 0; i < length; i++)
            to[first + i] = sw_bf16_from_float(sum[i]);
    }
}

static void sum_i32(int32_t *to, const void *const *from, int32_t count, int64_t elems)
{
    for (int64_t i = 0; i < elems; i++) {
        uint32_t sum = 0; /* wraps; a signed sum would be undefined */
        for (int32_t s = 0; s < count; s++)
            sum += ((const uint32_t *)from[s])[i];
        memcpy(to + i, &sum, sizeof sum);
    }
}

void sw_sum(enum sw_dtype dtype, void *to, const void *const *from, int32_t count, int64_t elems)
{
    switch (dtype) {
    case SW_F32:
        sum_f32(to, from, count, elems);
        break;
    case SW_BF16_T:
        sum_bf16(to, from, count, elems);
        break;
    case SW_F64:
        sum_f64(to, from, count, elems);
        break;
    case SW_I32:
        sum_i32(to, from, count, elems);
        break;
    case SW_I8:
    case SW_E4M3:
    case SW_CODES:
    case SW_I4: /* refused by sw_collective_call_check */
    case SW_DTYPE_COUNT:
        break;
    }
}
