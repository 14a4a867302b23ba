#include "runner/checkpoint/convert.h"

#include "core/base/number.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { BATCH = 256 };

/* Numbers on their way from one dtype to another, aligned: the loops over them are vectorised. */
union batch {
    uint16_t half[BATCH];
    double wide[BATCH];
};

/* odd: for rounding once more. */
static void widen(float *to, const char *from, enum sw_stored_dtype dtype, bool odd, int64_t count)
{
    union batch b;
    if (dtype == SW_STORED_F32) {
        memcpy(to, from, (size_t)count * sizeof *to);
        return;
    }
    memcpy(&b, from, (size_t)count * sw_stored_dtype_bytes(dtype));
    if (dtype == SW_STORED_BF16)
        for (int64_t i = 0; i < count; i++)
            to[i] = sw_bf16_to_float(b.half[i]);
    else if (dtype == SW_STORED_F16)
        for (int64_t i = 0; i < count; i++)
            to[i] = sw_fp16_to_float(b.half[i]);
    else if (odd)
        for (int64_t i = 0; i < count; i++)
            to[i] = sw_float_to_odd(b.wide[i]);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = (float)b.wide[i];
}

static void narrow(char *to, enum sw_stored_dtype dtype, const float *from, int64_t count)
{
    union batch b;
    if (dtype == SW_STORED_F32) {
        memcpy(to, from, (size_t)count * sizeof *from);
        return;
    }
    if (dtype == SW_STORED_BF16)
        for (int64_t i = 0; i < count; i++)
            b.half[i] = sw_bf16_from_float(from[i]);
    else if (dtype == SW_STORED_F16)
        for (int64_t i = 0; i < count; i++)
            b.half[i] = sw_fp16_from_float(from[i]);
    else
        for (int64_t i = 0; i < count; i++)
            b.wide[i] = (double)from[i];
    memcpy(to, &b, (size_t)count * sw_stored_dtype_bytes(dtype));
}

void sw_convert_numbers(void *to, enum sw_stored_dtype to_dtype, const void *from,
                        enum sw_stored_dtype from_dtype, int64_t count)
{
    const int64_t width = (int64_t)sw_stored_dtype_bytes(to_dtype);
    const int64_t from_width = (int64_t)sw_stored_dtype_bytes(from_dtype);
    float batch[BATCH];
    if (to_dtype == from_dtype) {
        memcpy(to, from, (size_t)(count * width));
        return;
    }
    for (int64_t i = 0; i < count; i += BATCH) {
        const int64_t n = count - i < BATCH ? count - i : BATCH;
        widen(batch, (const char *)from + i * from_width, from_dtype, width < 4, n);
        narrow((char *)to + i * width, to_dtype, batch, n);
    }
}

static bool is_finite(const char *number, enum sw_stored_dtype dtype)
{
    double wide;
    float single;
    if (dtype == SW_STORED_F64) {
        memcpy(&wide, number, sizeof wide);
        return isfinite(wide);
    }
    widen(&single, number, dtype, false, 1);
    return isfinite(single);
}

int64_t sw_convert_find_overflow(const void *to, enum sw_stored_dtype to_dtype, const void *from,
                                 enum sw_stored_dtype from_dtype, int64_t count)
{
    const int64_t width = (int64_t)sw_stored_dtype_bytes(to_dtype);
    const int64_t from_width = (int64_t)sw_stored_dtype_bytes(from_dtype);
    float batch[BATCH];
    for (int64_t i = 0; i < count; i += BATCH) {
        const int64_t n = count - i < BATCH ? count - i : BATCH;
        int32_t others = 0;
        widen(batch, (const char *)to + i * width, to_dtype, false, n);
        for (int64_t j = 0; j < n; j++)
            others += !isfinite(batch[j]);
        for (int64_t j = 0; others > 0 && j < n; j++)
            if (!isfinite(batch[j]) &&
                is_finite((const char *)from + (i + j) * from_width, from_dtype))
                return i + j;
    }
    return -1;
}
