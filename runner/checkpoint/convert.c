#include "runner/checkpoint/convert.h"

#include "core/base/number.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { BATCH = 256 };

/* Aligned buffers of numbers, so that conversion loops are vectorised. */
union batch {
    uint16_t half[BATCH];
    double wide[BATCH];
};

/* odd: true to round to odd, before a second rounding. */
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

/* Bits of the smallest magnitude whose conversion is not finite: infinity, or half way past the
 * largest number (whose last bit is odd). */
static uint64_t least_infinite(enum sw_stored_dtype from, enum sw_stored_dtype to)
{
    switch (from) {
    case SW_STORED_BF16:
        return to == SW_STORED_F16 ? 0x4780 : 0x7f80;
    case SW_STORED_F16:
        return 0x7c00;
    case SW_STORED_F32:
        return to == SW_STORED_BF16 ? 0x7f7f8000 : to == SW_STORED_F16 ? 0x477ff000 : 0x7f800000;
    default:
        return to == SW_STORED_F64    ? 0x7ff0000000000000
               : to == SW_STORED_F32  ? 0x47effffff0000000
               : to == SW_STORED_BF16 ? 0x47eff00000000000
                                      : 0x40effe0000000000;
    }
}

/* Adds to each magnitude so that only the smallest non-finite one or larger sets the highest bit;
 * ORs the sums. */
#define FINITE(NAME, TYPE, SIGN)                                                                   \
    static bool NAME(const char *from, TYPE least, int64_t count)                                  \
    {                                                                                              \
        const TYPE lift = (TYPE)((SIGN)-least);                                                    \
        TYPE any = 0;                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                      \
            TYPE bits;                                                                             \
            memcpy(&bits, from + i * (int64_t)sizeof bits, sizeof bits);                           \
            any |= (TYPE)((TYPE)(bits & (TYPE)((SIGN)-1)) + lift);                                 \
        }                                                                                          \
        return (any & (SIGN)) == 0;                                                                \
    }
FINITE(finite_16, uint16_t, 0x8000u)
FINITE(finite_32, uint32_t, UINT32_C(0x80000000))
FINITE(finite_64, uint64_t, UINT64_C(0x8000000000000000))

bool sw_convert_is_finite(const void *from, enum sw_stored_dtype from_dtype,
                          enum sw_stored_dtype to_dtype, int64_t count)
{
    const uint64_t least = least_infinite(from_dtype, to_dtype);
    return from_dtype == SW_STORED_F64   ? finite_64(from, least, count)
           : from_dtype == SW_STORED_F32 ? finite_32(from, (uint32_t)least, count)
                                         : finite_16(from, (uint16_t)least, count);
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
