/* Blocks of weights in 4 bits: that they are bf16, that no other scale is better, and that they are
 * nearer to what they stand for than llama.cpp's Q4_0, whose way of rounding is written out here
 * (ggml-quants.c: quantize_row_q4_0_ref).
 *
 *     test_int4 [DRAWS] [SEED]
 */
#include "core/base/hash.h"
#include "core/base/int4.h"
#include "core/base/number.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static int32_t draws = 3000;
static uint64_t seed = 1;

static double uniform(uint64_t *state)
{
    *state = sw_hash_mix(*state + 0x9e3779b97f4a7c15u);
    return ((double)(*state >> 11) + 0.5) * 0x1p-53;
}

enum shape { NORMAL, HEAVY, FEW, EQUAL, SHAPES };

/* A block of some shape and size: normally distributed, with heavy tails, mostly zeros, alike. */
static void fill(enum shape shape, double size, uint64_t *state, float *x)
{
    const double same = uniform(state) - 0.5;
    for (int i = 0; i < SW_INT4_GROUP; i++) {
        const double radius = sqrt(-2 * log(uniform(state))), turn = uniform(state);
        const double normal = radius * cos(2 * 3.14159265358979323846 * turn);
        x[i] = (float)(size * (shape == NORMAL  ? normal
                               : shape == HEAVY ? normal * normal * normal
                               : shape == FEW   ? (uniform(state) < 0.1 ? normal : 0)
                                                : same));
    }
}

static double error_of(const float *x, const struct sw_int4_block *block)
{
    double sum = 0;
    for (int i = 0; i < SW_INT4_GROUP; i++) {
        const double off = (double)x[i] - (double)sw_int4_value(block, i);
        sum += off * off;
    }
    return sum;
}

/* With that scale, every number as near as it gets. */
static double error_with(const float *x, double scale)
{
    double sum = 0;
    for (int i = 0; i < SW_INT4_GROUP; i++) {
        const double q = fmin(fmax(nearbyint((double)x[i] / scale), SW_INT4_LEAST), SW_INT4_MOST);
        sum += ((double)x[i] - q * scale) * ((double)x[i] - q * scale);
    }
    return sum;
}

static double largest_of(const float *x)
{
    double largest = 0;
    for (int i = 0; i < SW_INT4_GROUP; i++)
        largest = fabs((double)x[i]) > fabs(largest) ? (double)x[i] : largest;
    return largest;
}

/* Q4_0's, but for its scale's rounding to fp16, which is finer. */
static double error_of_peer(const float *x)
{
    const double scale = largest_of(x) / -8;
    double sum = 0;
    for (int i = 0; i < SW_INT4_GROUP && scale != 0; i++) {
        const double q = fmin(floor((double)x[i] / scale + 8.5), 15) - 8;
        sum += ((double)x[i] - q * scale) * ((double)x[i] - q * scale);
    }
    return sum;
}

/* All scales of the format near that size: bf16 whose lowest three bits are zeros. */
static double least_error(const float *x)
{
    const double largest = fabs(largest_of(x));
    double least = INFINITY;
    uint16_t bits = (uint16_t)(sw_bf16_from_float((float)(largest / 9)) & 0xfff8u);
    for (double s; (s = (double)sw_bf16_to_float(bits)) * 6 <= largest; bits += 8)
        if (s * 9 >= largest)
            least = fmin(least, fmin(error_with(x, s), error_with(x, -s)));
    return least;
}

static void blocks_are_the_best_and_bf16(void **state)
{
    (void)state;
    uint64_t s = seed;
    double ours[SHAPES] = {0}, theirs[SHAPES] = {0};
    for (int32_t d = 0; d < draws; d++) {
        const enum shape shape = (enum shape)(d % SHAPES);
        const double size = shape == NORMAL ? 1 : ldexp(1, (int)(uniform(&s) * 200) - 100);
        float x[SW_INT4_GROUP], again[SW_INT4_GROUP];
        struct sw_int4_block block, second;
        fill(shape, size, &s, x);
        sw_int4_quantize(x, &block);
        assert_int_equal(block.scale & 7, 0);
        for (int i = 0; i < SW_INT4_GROUP; i++) {
            again[i] = sw_int4_value(&block, i);
            assert_true(again[i] == sw_bf16_to_float(sw_bf16_from_float(again[i])));
            assert_true(x[i] != 0 || again[i] == 0);
        }
        const double made = error_of(x, &block);
        if (largest_of(x) != 0)
            assert_true(made <= least_error(x) * (1 + 32 * 0x1p-23) + size * size * 0x1p-60);
        sw_int4_quantize(again, &second);
        for (int i = 0; i < SW_INT4_GROUP; i++)
            assert_true(sw_int4_value(&second, i) == again[i]);
        ours[shape] += made / (size * size);
        theirs[shape] += error_of_peer(x) / (size * size);
    }
    print_message("mean squared error by Q4_0's: normal %.3f, heavy tails %.3f\n",
                  ours[NORMAL] / theirs[NORMAL], ours[HEAVY] / theirs[HEAVY]);
    assert_true(ours[NORMAL] <= 0.93 * theirs[NORMAL]);
    assert_true(ours[HEAVY] <= 0.97 * theirs[HEAVY]);
}

static void ends_of_the_range(void **state)
{
    (void)state;
    static const float sizes[] = {0x1p-149f, 0x1p-127f, 0x1p-120f, 0x1p100f, 0x1.fffffep127f};
    struct sw_int4_block block;
    float x[SW_INT4_GROUP] = {0};
    sw_int4_quantize(x, &block);
    assert_int_equal(block.scale, 0);
    for (int i = 0; i < SW_INT4_GROUP; i++)
        assert_true(sw_int4_code(&block, i) == 0);
    for (size_t s = 0; s < 2 * (sizeof sizes / sizeof *sizes); s++) {
        const float size = s % 2 ? -sizes[s / 2] : sizes[s / 2];
        for (int i = 0; i < SW_INT4_GROUP; i++)
            x[i] = i == 7 ? size : size / 7 * (float)(i % 5 - 2);
        sw_int4_quantize(x, &block);
        for (int i = 0; i < SW_INT4_GROUP; i++) {
            const float made = sw_int4_value(&block, i);
            assert_true(isfinite(made));
            assert_true(fabsf(size) < 0x1p-122f ? made == 0
                                                : fabsf(made - x[i]) <= fabsf(size) / 12);
        }
    }
    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        x[SW_INT4_GROUP - 1] = wrong[w];
        sw_int4_quantize(x, &block);
        assert_true(isnan(sw_bf16_to_float(block.scale)));
        assert_int_equal(sw_int4_code(&block, 7), 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_the_best_and_bf16),
                                       cmocka_unit_test(ends_of_the_range)};
    if (argc > 1)
        draws = (int32_t)strtol(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
