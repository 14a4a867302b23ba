#include "core/base/int4.h"

#include "core/base/number.h"
#include "core/base/quantize.h"

#include <math.h>
#include <string.h>

enum {
    GRID = 8, /* step of bf16 from one scale to the next: the lowest three bits are zeros */
    NAN_BITS = 0x7fc0
};
static const float fewest = 6, most = 9; /* limits of the largest number, in scales */

float sw_int4_value(const struct sw_int4_block *block, int32_t i)
{
    return (float)sw_int4_code(block, i) * sw_bf16_to_float(block->scale);
}

/* The nearest integer, ties to even, limited to -8 .. 7. */
static float nearest(float x)
{
    static const float shift = 0x1.8p23f; /* adding it rounds to an integer */
    x = x < (float)SW_INT4_MOST ? x : (float)SW_INT4_MOST;
    x = x > (float)SW_INT4_LEAST ? x : (float)SW_INT4_LEAST;
    return x + shift - shift;
}

/* Sum of squared errors with that scale; added in four parts, the same with any compiler. */
static float error_of(const float *restrict x, float scale)
{
    enum { PARTS = 4 };
    float sum[PARTS] = {0};
    const float inverse = 1 / scale;
    for (int i = 0; i < SW_INT4_GROUP; i += PARTS)
        for (int j = 0; j < PARTS; j++) {
            const float off = x[i + j] - nearest(x[i + j] * inverse) * scale;
            sum[j] += off * off;
        }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The scale for numbers whose largest magnitude is `largest`, 1 to 2 or -2 to -1, as bits of a
 * bf16. below: upper limit of scales. */
static uint16_t choose_scale(const float *x, float largest, float below)
{
    const float size = fabsf(largest);
    uint16_t best = 0;
    float least = INFINITY;
    uint16_t bits = (uint16_t)(sw_bf16_from_float(size / most) / GRID * GRID);
    for (; sw_bf16_to_float(bits) * fewest <= size && sw_bf16_to_float(bits) < below;
         bits += GRID) {
        const float scale = sw_bf16_to_float(bits);
        if (scale * most < size)
            continue;
        for (int turned = 0; turned < 2; turned++) {
            const bool negative = (largest < 0) == (turned != 0);
            const float error = error_of(x, negative ? -scale : scale);
            if (error < least) {
                least = error;
                best = (uint16_t)(bits | (negative ? 0x8000 : 0));
            }
        }
    }
    return best;
}

void sw_int4_quantize(const float x[SW_INT4_GROUP], struct sw_int4_block *out)
{
    const float size = sw_quantize_most(0, x, SW_INT4_GROUP);
    float near_one[SW_INT4_GROUP], largest = 0;
    int exponent;
    memset(out->codes, SW_INT4_LEAST * -0x11, sizeof out->codes);
    out->scale = isfinite(size) ? 0 : NAN_BITS;
    if (!(size > 0) || !isfinite(size))
        return;
    (void)frexpf(size, &exponent);
    for (int i = 0; i < SW_INT4_GROUP; i++) {
        near_one[i] = ldexpf(x[i], 1 - exponent);
        largest = fabsf(near_one[i]) > fabsf(largest) ? near_one[i] : largest;
    }
    /* for the largest exponent, eight times the scale must be finite, too */
    const uint16_t bits = choose_scale(near_one, largest, exponent == 128 ? 0.25f : 1);
    const float scale = sw_bf16_to_float(bits), own = ldexpf(scale, exponent - 1);
    if (fabsf(own) < 0x1p-126f)
        return;
    out->scale = sw_bf16_from_float(own);
    for (int i = 0; i < SW_INT4_GROUP; i++) {
        const int32_t q = (int32_t)nearest(near_one[i] / scale) - SW_INT4_LEAST;
        out->codes[i / 2] = (uint8_t)((out->codes[i / 2] & (i % 2 ? 0x0f : 0xf0)) | q << i % 2 * 4);
    }
}

void sw_int4_quantize_blocks(const float *x, int64_t count, void *blocks)
{
    char *to = blocks;
    for (int64_t i = 0; i < count; i++, to += sizeof(struct sw_int4_block)) {
        struct sw_int4_block block;
        sw_int4_quantize(x + i * SW_INT4_GROUP, &block);
        memcpy(to, &block, sizeof block);
    }
}
