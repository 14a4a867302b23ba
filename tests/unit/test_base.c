/* The small things: clock, hash, number. */
#include "core/base/text.h"
#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/base/number.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Vectors of draft-eastlake-fnv, appendix C. */
static void hash_is_fnv_1a(void **state)
{
    (void)state;
    assert_true(sw_hash_text("") == SW_HASH_START);
    assert_true(sw_hash_text("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(sw_hash_text("foobar") == UINT64_C(0x85944171f73967e8));
    const uint64_t foo = sw_hash_bytes(SW_HASH_START, "foo", 3);
    assert_true(sw_hash_bytes(foo, "bar", 3) == UINT64_C(0x85944171f73967e8));
    assert_true(sw_hash_bytes(foo, NULL, 0) == foo);
    assert_true(sw_hash_bytes(SW_HASH_START, "\xff\0", 2) != sw_hash_text("\xff"));
}

/* The first numbers of splitmix64 with seed 0, as its author publishes them. */
static void mix_is_that_of_splitmix64(void **state)
{
    (void)state;
    static const uint64_t wanted[] = {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f};
    for (uint64_t i = 0; i < 3; i++)
        assert_true(sw_hash_mix((i + 1) * 0x9e3779b97f4a7c15u) == wanted[i]);
}

static void align_rounds_up(void **state)
{
    (void)state;
    assert_int_equal(sw_align(0, 256), 0);
    assert_int_equal(sw_align(1, 256), 256);
    assert_int_equal(sw_align(256, 256), 256);
    assert_int_equal(sw_align(257, 256), 512);
    assert_int_equal(sw_align(10, 3), 12);
    assert_true(sw_align((INT64_C(1) << 60) + 1, 1024) == (INT64_C(1) << 60) + 1024);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        float value;
        uint16_t half;
    } cases[] = {
        {0, 0},
        {-0.0f, 0x8000},
        {1, 0x3f80},
        {-2, 0xc000},
        {0x1.01p0f, 0x3f80},      /* half way: to the even one below */
        {0x1.03p0f, 0x3f82},      /* half way: to the even one above */
        {0x1.010002p0f, 0x3f81},  /* just beyond half way */
        {0x1.fffffep127f, 0x7f80} /* the largest float is nearer to infinity */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(sw_bf16_from_float(cases[i].value), cases[i].half);
    assert_int_equal(sw_bf16_from_float(INFINITY), 0x7f80);
    assert_int_equal(sw_bf16_from_float(-INFINITY), 0xff80);
}

/* Rounded as a number, a NaN with its lowest bits set would become zero or infinity. */
static void bf16_keeps_nan(void **state)
{
    (void)state;
    static const uint32_t nans[] = {0x7f800001, 0x7fc00000, 0x7fffffff, 0xff800001, 0xffffffff};
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        float value;
        memcpy(&value, &nans[i], sizeof value);
        const uint16_t half = sw_bf16_from_float(value);
        assert_true(isnan(sw_bf16_to_float(half)));
        assert_int_equal(half >> 15, nans[i] >> 31);
    }
}

static void bf16_comes_back(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x10000; half++)
        if ((half & 0x7fff) <= 0x7f80)
            assert_int_equal(sw_bf16_from_float(sw_bf16_to_float((uint16_t)half)), half);
}

static void doubles_sort(void **state)
{
    (void)state;
    double values[] = {3, -1, INFINITY, 0, -1, 1e-300};
    const double sorted[] = {-1, -1, 0, 1e-300, 3, INFINITY};
    qsort(values, 6, sizeof *values, sw_compare_doubles);
    assert_memory_equal(values, sorted, sizeof sorted);
}

static void clocks_go_forward(void **state)
{
    (void)state;
    const double now = sw_clock_now(), busy = sw_clock_busy();
    while (sw_clock_busy() < busy + 1e-3)
        continue;
    /* who had a core for a millisecond was there for about as long at least */
    assert_true(sw_clock_now() - now > 0.9e-3);
}

/* The value of a half by its definition. */
static double half_value(uint16_t half)
{
    const int exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    const double magnitude = exponent == 0    ? ldexp(fraction, -24)
                             : exponent == 31 ? INFINITY
                                              : ldexp(1024 + fraction, exponent - 25);
    return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

static bool half_is_nan(uint32_t half)
{
    return (half & 0x7fff) > 0x7c00;
}

static void fp16_is_what_it_means(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 65536; half++) {
        const float value = sw_fp16_to_float((uint16_t)half);
        if (half_is_nan(half)) {
            assert_true(isnan(value));
            assert_true(half_is_nan(sw_fp16_from_float(value)));
            assert_int_equal(sw_fp16_from_float(value), half | 0x200);
            continue;
        }
        assert_true(value == half_value((uint16_t)half));
        assert_int_equal(signbit(value) != 0, half >> 15);
        assert_int_equal(sw_fp16_from_float(value), half);
    }
}

/* Between two neighbours: below the middle, in it and above it, in both signs. */
static void fp16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x7c00; half++) {
        const double next = half + 1 < 0x7c00 ? half_value((uint16_t)(half + 1)) : 65536.0;
        const float middle = (float)((half_value((uint16_t)half) + next) / 2);
        const uint32_t even = half + (half & 1);
        assert_true(middle == (half_value((uint16_t)half) + next) / 2);
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
            const float m = sign == 0 ? middle : -middle, away = sign == 0 ? INFINITY : -INFINITY;
            assert_int_equal(sw_fp16_from_float(nextafterf(m, 0)), half | sign);
            assert_int_equal(sw_fp16_from_float(m), even | sign);
            assert_int_equal(sw_fp16_from_float(nextafterf(m, away)), (half + 1) | sign);
        }
    }
    assert_int_equal(sw_fp16_from_float(65520), 0x7c00);
    assert_int_equal(sw_fp16_from_float(nextafterf(65520, 0)), 0x7bff);
    assert_int_equal(sw_fp16_from_float(3e38f), 0x7c00);
    assert_int_equal(sw_fp16_from_float(-INFINITY), 0xfc00);
    assert_int_equal(sw_fp16_from_float(0x1p-149f), 0);
    assert_int_equal(sw_fp16_from_float(-0x1p-149f), 0x8000);
}

static void odd_rounding_does_not_round_twice(void **state)
{
    (void)state;
    /* A little above the middle between two halves: the nearest f32 is the middle itself. */
    const double above = 1 + 0x1p-11 + 0x1p-40, below = 1 + 3 * 0x1p-11 - 0x1p-40;
    assert_int_equal(sw_fp16_from_float((float)above), 0x3c00);
    assert_int_equal(sw_fp16_from_float(sw_float_to_odd(above)), 0x3c01);
    assert_int_equal(sw_fp16_from_float((float)below), 0x3c02);
    assert_int_equal(sw_fp16_from_float(sw_float_to_odd(below)), 0x3c01);
    assert_int_equal(sw_fp16_from_float(sw_float_to_odd(-above)), 0xbc01);
    assert_int_equal(sw_bf16_from_float(sw_float_to_odd(1 + 0x1p-8 + 0x1p-40)), 0x3f81);
    static const double exact[] = {0, -0.0, 1, -1.5, 0x1p-149, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        assert_true(sw_float_to_odd(exact[i]) == (float)exact[i]);
        assert_int_equal(signbit(sw_float_to_odd(exact[i])) != 0, signbit(exact[i]) != 0);
    }
    assert_true(isnan(sw_float_to_odd(NAN)));
    assert_true(sw_float_to_odd(1e300) == 0x1.fffffep127f);
    assert_int_equal(sw_bf16_from_float(sw_float_to_odd(1e300)), 0x7f80);
    assert_int_equal(sw_fp16_from_float(sw_float_to_odd(-1e300)), 0xfc00);
    assert_true(sw_float_to_odd(-1e-300) == -0x1p-149f);
    assert_int_equal(sw_fp16_from_float(sw_float_to_odd(-1e-300)), 0x8000);
}

/* What nobody sees is shown as a question mark, once. */
static void hidden_characters_are_shown(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } rows[] = {{"plain é ✓", "plain é ✓"},
                {"a\x1b[31m\n", "a?[31m?"},
                {"\x7f\xc2\x9b"
                 "1m",
                 "??1m"},
                {"a\xe2\x80\xae"
                 "b",
                 "a?b"},
                {"\xe2\x81\xa6x\xd8\x9c", "?x?"},
                {"\xef\xbb\xbf\xe2\x80\x8b", "??"},
                {"\xc2\xa0", "\xc2\xa0"},
                {"\xe2\x80", "\xe2\x80"},
                {"", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", rows[i].text);
        assert_string_equal(sw_text_show(text), rows[i].shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hidden_characters_are_shown),
        cmocka_unit_test(hash_is_fnv_1a),
        cmocka_unit_test(mix_is_that_of_splitmix64),
        cmocka_unit_test(align_rounds_up),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_keeps_nan),
        cmocka_unit_test(bf16_comes_back),
        cmocka_unit_test(fp16_is_what_it_means),
        cmocka_unit_test(fp16_rounds_to_nearest_even),
        cmocka_unit_test(odd_rounding_does_not_round_twice),
        cmocka_unit_test(doubles_sort),
        cmocka_unit_test(clocks_go_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
