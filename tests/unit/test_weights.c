/* Weights in int8 and e4m3 (core/base/quantize.h): what numbers become, against a formula in long
 * double and a search over all codes, and the products with them, whose sums fp32 holds, so that
 * there is one right answer. */
#include "core/base/number.h"
#include "core/base/quantize.h"
#include "core/ir/op.h"
#include "runner/device/cpu/cpu.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* ---- Numbers ---- */

/* 254 x's: what lies in the middle of two integers goes to the even one. */
static void ties_go_to_the_even_one(void **state)
{
    (void)state;
    const float x[] = {127,   0.5f,  1.5f,  2.5f,    125.5f, 126.5f,
                       -0.5f, -1.5f, -2.5f, -126.5f, -127,   0};
    static const int8_t wanted[] = {127, 0, 2, 2, 126, 126, 0, -2, -2, -126, -127, 0};
    for (int e = -120; e <= 100; e += 20) {
        float scaled[COUNT(x)];
        int8_t made[COUNT(x)];
        for (size_t i = 0; i < COUNT(x); i++)
            scaled[i] = ldexpf(x[i], e);
        const float scale = sw_int8_scale((double)sw_quantize_most(0, scaled, COUNT(x)));
        assert_true(scale == ldexpf(1, e));
        sw_quantize(SW_I8, scaled, COUNT(x), scale, made);
        assert_memory_equal(made, wanted, sizeof wanted);
    }
}

static void edges_of_numbers(void **state)
{
    (void)state;
    int8_t made[3];
    const float zeros[] = {0, -0.0f, 0}, huge[] = {FLT_MAX, -FLT_MAX, 1};
    const float tiny[] = {FLT_TRUE_MIN, -FLT_TRUE_MIN, 0};
    const float small[] = {90 * FLT_TRUE_MIN, -90 * FLT_TRUE_MIN, 44 * FLT_TRUE_MIN};
    const float infinite[] = {1, -INFINITY, 2}, none[] = {1, NAN, 2};
    assert_true(sw_int8_scale((double)sw_quantize_most(0, zeros, 3)) == 0);
    sw_quantize(SW_I8, zeros, 3, 0, made);
    assert_true(made[0] == 0 && made[1] == 0 && made[2] == 0);
    /* 1 / 127 of the smallest number is none */
    assert_true(sw_int8_scale((double)sw_quantize_most(0, tiny, 3)) == 0);
    sw_quantize(SW_I8, tiny, 3, 0, made);
    assert_true(made[0] == 0 && made[1] == 0 && made[2] == 0);
    /* the scale is rounded to one of the smallest: 90 / 127 to 1 */
    float scale = sw_int8_scale((double)sw_quantize_most(0, small, 3));
    assert_true(scale == FLT_TRUE_MIN);
    sw_quantize(SW_I8, small, 3, scale, made);
    assert_true(made[0] == 90 && made[1] == -90 && made[2] == 44);
    /* 190 / 127 to 1: beyond 127 */
    const float cut[] = {190 * FLT_TRUE_MIN, -190 * FLT_TRUE_MIN, 126 * FLT_TRUE_MIN};
    scale = sw_int8_scale((double)sw_quantize_most(0, cut, 3));
    assert_true(scale == FLT_TRUE_MIN);
    sw_quantize(SW_I8, cut, 3, scale, made);
    assert_true(made[0] == 127 && made[1] == -127 && made[2] == 126);
    scale = sw_int8_scale((double)sw_quantize_most(0, huge, 3));
    assert_true(isfinite(scale) && scale > 0);
    sw_quantize(SW_I8, huge, 3, scale, made);
    assert_true(made[0] == 127 && made[1] == -127 && made[2] == 0);
    /* it shows */
    assert_true(isnan(sw_int8_scale((double)sw_quantize_most(0, infinite, 3))));
    assert_true(isnan(sw_int8_scale((double)sw_quantize_most(0, none, 3))));
    sw_quantize(SW_I8, none, 3, NAN, made);
    assert_true(made[0] == 0 && made[1] == 0 && made[2] == 0);
}

static void numbers_are_off_by_half_a_step(void **state)
{
    (void)state;
    enum { N = 1031 };
    static float x[N];
    static int8_t made[N];
    uint64_t seed = 5;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < N; i++)
            x[i] = ldexpf((float)draw(&seed) - 0x1p30f, (int)(draw(&seed) % 9) - 40 + round % 7);
        /* in parts, as a rank meets them */
        const int64_t first = (int64_t)(draw(&seed) % N);
        const float most = sw_quantize_most(sw_quantize_most(0, x, first), x + first, N - first);
        const float scale = sw_int8_scale((double)most);
        sw_quantize(SW_I8, x, N, scale, made);
        float largest = 0;
        for (int i = 0; i < N; i++) {
            largest = fmaxf(largest, fabsf(x[i]));
            const long double exact = (long double)x[i] / (long double)scale;
            assert_true(made[i] == (int8_t)rintl(exact));
            assert_true(fabsl(exact - made[i]) <= 0.5L);
        }
        assert_true(most == largest && scale == (float)((double)largest / 127));
    }
}

/* ---- Numbers in e4m3 ---- */

/* By the format's definition, of codes up to 0x7e: (8 + m) 2^(e - 10) and m 2^-9. */
static double e4m3_by_definition(int code)
{
    return code < 8 ? ldexp(code, -9) : ldexp(8 + code % 8, code / 8 - 10);
}

/* Every code's value, and what becomes of it, of the middle of it and the next one, which goes to
 * the even code, and of what is a little beside the middle; of either sign, at all scales. */
static void e4m3_is_the_nearest_code(void **state)
{
    (void)state;
    assert_true(isnan(sw_e4m3_value(0x7f)) && isnan(sw_e4m3_value(0xff)));
    for (int code = 0; code < 0x7f; code++) {
        const double value = e4m3_by_definition(code), next = e4m3_by_definition(code + 1);
        assert_true((double)sw_e4m3_value((uint8_t)code) == value);
        assert_true((double)sw_e4m3_value((uint8_t)(code | 0x80)) == -value);
        assert_true(signbit(sw_e4m3_value((uint8_t)(code | 0x80))));
        for (int e = -130; e <= 110; e += 24)
            for (int sign = 0; sign < 2; sign++) {
                const float scale = ldexpf(1, e);
                const double s = (double)(sign ? -scale : scale), middle = (value + next) / 2;
                const int with = sign << 7, even = code % 2 == 0 || code == 0x7e ? code : code + 1;
                assert_int_equal(sw_e4m3_of(value * s, scale), code | with);
                if (code == 0x7e)
                    continue;
                assert_int_equal(sw_e4m3_of(middle * s, scale), even | with);
                assert_int_equal(sw_e4m3_of(middle * (1 - 0x1p-24) * s, scale), code | with);
                assert_int_equal(sw_e4m3_of(middle * (1 + 0x1p-24) * s, scale), (code + 1) | with);
            }
    }
    assert_int_equal(sw_e4m3_of(1e9, 1), 0x7e);
    assert_int_equal(sw_e4m3_of(-1e9, 1), 0xfe);
}

/* Against a search over all codes. */
static void e4m3_of_numbers(void **state)
{
    (void)state;
    enum { N = 257 };
    float x[N];
    uint8_t made[N];
    uint64_t seed = 6;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < N; i++)
            x[i] = ldexpf((float)draw(&seed) - 0x1p30f, (int)(draw(&seed) % 14) - 40 + round % 7);
        const float most = sw_quantize_most(0, x, N);
        const float scale = sw_quantize_scale(SW_E4M3, (double)most);
        assert_true(scale == (float)((double)most / 448));
        sw_quantize(SW_E4M3, x, N, scale, made);
        for (int i = 0; i < N; i++) {
            const long double exact = fabsl((long double)x[i] / (long double)scale);
            int nearest = 0;
            for (int code = 1; code < 0x7f; code++) {
                const long double here = fabsl((long double)e4m3_by_definition(code) - exact);
                const long double best = fabsl((long double)e4m3_by_definition(nearest) - exact);
                if (here < best || (here == best && code % 2 == 0))
                    nearest = code;
            }
            assert_int_equal(made[i] & 0x7f, nearest);
            assert_int_equal(made[i] >> 7, x[i] < 0);
        }
    }
}

static void edges_of_e4m3(void **state)
{
    (void)state;
    uint8_t made[3];
    const float zeros[] = {0, 0, 0}, none[] = {1, NAN, 2}, huge[] = {FLT_MAX, -FLT_MAX, 1};
    const float tiny[] = {FLT_TRUE_MIN, -FLT_TRUE_MIN, 0};
    const float cut[] = {671 * FLT_TRUE_MIN, -671 * FLT_TRUE_MIN, 100 * FLT_TRUE_MIN};
    assert_true(sw_e4m3_scale((double)sw_quantize_most(0, zeros, 3)) == 0);
    assert_true(sw_e4m3_scale((double)sw_quantize_most(0, tiny, 3)) == 0);
    sw_quantize(SW_E4M3, tiny, 3, 0, made);
    assert_true(made[0] == 0 && made[1] == 0 && made[2] == 0);
    /* 671 / 448 to 1: beyond 448; 100 lies in the middle of 96 and 104 */
    float scale = sw_e4m3_scale((double)sw_quantize_most(0, cut, 3));
    assert_true(scale == FLT_TRUE_MIN);
    sw_quantize(SW_E4M3, cut, 3, scale, made);
    assert_true(made[0] == 0x7e && made[1] == 0xfe && sw_e4m3_value(made[2]) == 96);
    scale = sw_e4m3_scale((double)sw_quantize_most(0, huge, 3));
    assert_true(isfinite(scale) && scale > 0);
    sw_quantize(SW_E4M3, huge, 3, scale, made);
    assert_true(made[0] == 0x7e && made[1] == 0xfe && made[2] == 0);
    assert_true(isnan(sw_e4m3_scale((double)sw_quantize_most(0, none, 3))));
    sw_quantize(SW_E4M3, none, 3, NAN, made);
    assert_true(made[0] == 0 && made[1] == 0 && made[2] == 0);
}

/* ---- Products ---- */

static struct sw_tensor tensor(enum sw_dtype dtype, uint8_t ndim, int64_t s0, int64_t s1,
                               int64_t s2)
{
    struct sw_tensor t = {
        .dtype = dtype, .ndim = ndim, .size = {s0, s1, s2}, .global = {s0, s1, s2}};
    t.elems = s0 * (ndim > 1 ? s1 : 1) * (ndim > 2 ? s2 : 1);
    t.data = calloc((size_t)t.elems + 1, 8);
    assert_non_null(t.data);
    return t;
}

static void set(const struct sw_tensor *t, int64_t i, double value)
{
    if (t->dtype == SW_F64)
        ((double *)t->data)[i] = value;
    else if (t->dtype == SW_F32)
        ((float *)t->data)[i] = (float)value;
    else if (t->dtype == SW_BF16_T)
        ((uint16_t *)t->data)[i] = sw_bf16_from_float((float)value);
    else if (t->dtype == SW_E4M3)
        ((uint8_t *)t->data)[i] = sw_e4m3_of(value, 1);
    else
        ((int8_t *)t->data)[i] = (int8_t)value;
}

/* A weight that its dtype has: integers; of e4m3 one of all codes, or one of which sums of so many
 * are exact: multiples of 2^-9 below 2, or of 1 / 8. */
static double weight_of(enum sw_dtype dtype, bool one, int64_t i, bool large, uint64_t *seed)
{
    if (dtype == SW_I8)
        return (double)(draw(seed) % 255) - 127;
    const int code = one     ? (int)(i % 127)
                     : large ? 0x38 + (int)(draw(seed) % 0x47)
                             : (int)(draw(seed) % 0x40);
    return (draw(seed) % 2 ? -1 : 1) * (double)sw_e4m3_value((uint8_t)code);
}

static double get(const struct sw_tensor *t, int64_t i)
{
    return t->dtype == SW_F64      ? ((const double *)t->data)[i]
           : t->dtype == SW_F32    ? (double)((const float *)t->data)[i]
           : t->dtype == SW_BF16_T ? (double)sw_bf16_to_float(((const uint16_t *)t->data)[i])
           : t->dtype == SW_E4M3   ? (double)sw_e4m3_value(((const uint8_t *)t->data)[i])
                                   : (double)((const int8_t *)t->data)[i];
}

/* As products make it of an exact sum: scaled in fp32 (fp64), rounded to the result's dtype, added
 * to in fp32 (fp64) and rounded again. */
static double wanted_of(enum sw_dtype dtype, double sum, float scale, const double *addend)
{
    if (dtype == SW_F64)
        return sum * (double)scale + (addend != NULL ? *addend : 0);
    float y = (float)sum * scale;
    y = dtype == SW_BF16_T ? sw_bf16_to_float(sw_bf16_from_float(y)) : y;
    if (addend == NULL)
        return (double)y;
    y = (float)*addend + y;
    return (double)(dtype == SW_BF16_T ? sw_bf16_to_float(sw_bf16_from_float(y)) : y);
}

struct shape {
    int64_t rows, in, out;
    bool transposed, adds;
};

/* |x| <= 8, and |q| <= 127: the sums of 2000 are below 2^24. */
static void product_is_exact(struct sw_device *device, enum sw_dtype dtype, enum sw_dtype weights,
                             const struct shape *s, uint64_t *seed)
{
    const struct sw_tensor x = tensor(dtype, 3, 1, s->rows, s->in);
    const struct sw_tensor w =
        s->transposed ? tensor(weights, 2, s->out, s->in, 1) : tensor(weights, 2, s->in, s->out, 1);
    const struct sw_tensor scales = tensor(SW_F32, 1, s->out, 1, 1);
    const struct sw_tensor z = tensor(dtype, 3, 1, s->rows, s->out);
    const struct sw_tensor y = tensor(dtype, 3, 1, s->rows, s->out);
    const struct sw_tensor in[4] = {x, w, scales, z};
    const bool large = draw(seed) % 2;
    for (int64_t i = 0; i < x.elems; i++)
        set(&x, i, (double)(draw(seed) % 17) - 8);
    for (int64_t i = 0; i < w.elems; i++)
        set(&w, i, weight_of(weights, s->in == 1, i, large, seed));
    for (int64_t i = 0; i < s->out; i++)
        set(&scales, i, (double)(draw(seed) % 1000 + 1) / 7e4);
    for (int64_t i = 0; i < z.elems; i++)
        set(&z, i, (double)(draw(seed) % 100) / 8);
    const enum sw_op_kind kind = s->transposed ? SW_OP_LINEAR_T : SW_OP_LINEAR;
    const struct sw_op op = {.kind = (uint8_t)kind, .n_in = s->adds ? 4 : 3, .n_out = 1};
    const struct sw_call call = {.op = &op, .in = in, .out = &y, .batch_invariant = true};
    struct sw_error err = {0};
    if (device->vtable->run[kind](device, &call, &err) != 0)
        fail_msg("%s", err.message);
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->out; j++) {
            double sum = 0;
            for (int64_t k = 0; k < s->in; k++)
                sum += get(&x, i * s->in + k) *
                       get(&w, s->transposed ? j * s->in + k : k * s->out + j);
            const double addend = get(&z, i * s->out + j), made = get(&y, i * s->out + j);
            const double wanted =
                wanted_of(dtype, sum, ((const float *)scales.data)[j], s->adds ? &addend : NULL);
            if (dtype == SW_F64 ? fabs(made - wanted) > 1e-12 * fabs(sum) + 1e-12 : made != wanted)
                fail_msg("%s by %s, %lld rows of %lld to %lld%s: (%lld, %lld) is %.9g, not %.9g",
                         sw_dtype_name(dtype), sw_dtype_name(weights), (long long)s->rows,
                         (long long)s->in, (long long)s->out, s->transposed ? ", transposed" : "",
                         (long long)i, (long long)j, made, wanted);
        }
    for (int i = 0; i < 4; i++)
        free(in[i].data);
    free(y.data);
}

/* Few rows, whose weights stream, and many; widths that fill no block, and several. */
static void products_are_exact(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 3, 4, 5, 7, 16, 17, 40}, in[] = {1, 31, 64, 130, 1100},
                         out[] = {1, 33, 128, 300};
    static const enum sw_dtype dtypes[] = {SW_F32, SW_BF16_T, SW_F64};
    uint64_t seed = 3;
    for (int32_t threads = 1; threads <= 3; threads += 2) {
        struct sw_error err = {0};
        struct sw_device *device = sw_cpu_device_create(threads, &err);
        assert_non_null(device);
        for (size_t i = 0; i < COUNT(rows) * COUNT(in) * COUNT(out) * 2; i++) {
            const struct shape s = {.rows = rows[i / 2 % COUNT(rows)],
                                    .in = in[i / 2 / COUNT(rows) % COUNT(in)],
                                    .out = out[i / 2 / COUNT(rows) / COUNT(in)],
                                    .transposed = i % 2,
                                    .adds = draw(&seed) % 2};
            for (size_t d = 0; d < 2 * COUNT(dtypes); d++)
                product_is_exact(device, dtypes[d / 2], d % 2 ? SW_E4M3 : SW_I8, &s, &seed);
        }
        device->vtable->destroy(device);
    }
}

static void scales_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct sw_error err = {0};
    struct sw_device *device = sw_cpu_device_create(1, &err);
    assert_non_null(device);
    struct sw_tensor in[3] = {tensor(SW_F32, 3, 1, 2, 4), tensor(SW_I8, 2, 4, 6, 1),
                              tensor(SW_F32, 1, 4, 1, 1)};
    const struct sw_tensor y = tensor(SW_F32, 3, 1, 2, 6);
    struct sw_op op = {.kind = SW_OP_LINEAR, .n_out = 1};
    const struct sw_call call = {.op = &op, .in = in, .out = &y};
    for (int i = 0; i < 4; i++) {
        op.n_in = 2 + i % 2; /* none; of the inputs */
        in[1].dtype = i < 2 ? SW_I8 : SW_E4M3;
        err = (struct sw_error){0};
        assert_int_equal(device->vtable->run[SW_OP_LINEAR](device, &call, &err), -1);
        assert_string_equal(err.message,
                            i < 2 ? "linear takes i8 with a scale for each of its outputs"
                                  : "linear takes e4m3 with a scale for each of its outputs");
    }
    for (int i = 0; i < 3; i++)
        free(in[i].data);
    free(y.data);
    device->vtable->destroy(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ties_go_to_the_even_one),
        cmocka_unit_test(edges_of_numbers),
        cmocka_unit_test(numbers_are_off_by_half_a_step),
        cmocka_unit_test(e4m3_is_the_nearest_code),
        cmocka_unit_test(e4m3_of_numbers),
        cmocka_unit_test(edges_of_e4m3),
        cmocka_unit_test(products_are_exact),
        cmocka_unit_test(scales_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
