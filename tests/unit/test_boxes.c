/* Boxes between files and states: every pair of dtypes, straight and transposed, any sizes, strides
 * and addresses against a loop over elements; numbers that lie between two of the narrower dtype.
 */
#include "core/base/number.h"
#include "runner/checkpoint/box.h"
#include "runner/checkpoint/convert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t rng = 7;

static int64_t below(int64_t n)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((rng >> 33) % (uint64_t)n);
}

static double read_number(const unsigned char *at, enum sw_stored_dtype dtype)
{
    double wide;
    float single;
    uint16_t half;
    memcpy(&wide, at, dtype == SW_STORED_F64 ? 8 : 0);
    memcpy(&single, at, dtype == SW_STORED_F32 ? 4 : 0);
    memcpy(&half, at, sw_stored_dtype_bytes(dtype) == 2 ? 2 : 0);
    return dtype == SW_STORED_F64    ? wide
           : dtype == SW_STORED_F32  ? (double)single
           : dtype == SW_STORED_BF16 ? (double)sw_bf16_to_float(half)
                                     : (double)sw_fp16_to_float(half);
}

static void check_box(int64_t rows, int64_t columns, enum sw_stored_dtype to_dtype,
                      enum sw_stored_dtype from_dtype, bool transposed)
{
    const int64_t to_width = (int64_t)sw_stored_dtype_bytes(to_dtype);
    const int64_t from_width = (int64_t)sw_stored_dtype_bytes(from_dtype);
    const int64_t from_rows = transposed ? columns : rows,
                  from_columns = transposed ? rows : columns;
    const int64_t pads[] = {0, 2, 3, 64};
    const int64_t to_stride = columns * to_width + pads[below(4)], to_skew = below(70);
    const int64_t from_stride = from_columns * from_width + pads[below(4)], from_skew = below(70);
    const size_t to_bytes = (size_t)(rows * to_stride + to_skew + 64);
    const size_t from_bytes = (size_t)(from_rows * from_stride + from_skew + 64);
    unsigned char *to = malloc(to_bytes), *from = malloc(from_bytes),
                  *touched = calloc(1, to_bytes);
    assert_true(to != NULL && from != NULL && touched != NULL);
    memset(to, 0xa5, to_bytes);
    for (size_t i = 0; i < from_bytes; i++)
        from[i] = (unsigned char)below(256);
    for (int64_t i = 0; i < from_rows && to_dtype != from_dtype; i++)
        for (int64_t j = 0; j < from_columns; j++) { /* what every dtype has */
            const float single = (float)(below(511) - 255);
            sw_convert_numbers(from + from_skew + i * from_stride + j * from_width, from_dtype,
                               &single, SW_STORED_F32, 1);
        }
    sw_box_copy(&(struct sw_box){.rows = rows,
                                 .columns = columns,
                                 .to = to + to_skew,
                                 .to_stride_bytes = to_stride,
                                 .to_dtype = to_dtype,
                                 .from = from + from_skew,
                                 .from_stride_bytes = from_stride,
                                 .from_dtype = from_dtype,
                                 .transposed = transposed});
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            const int64_t at = to_skew + i * to_stride + j * to_width;
            const unsigned char *source = from + from_skew + (transposed ? j : i) * from_stride +
                                          (transposed ? i : j) * from_width;
            if (to_dtype == from_dtype)
                assert_memory_equal(to + at, source, (size_t)to_width);
            else
                assert_true(read_number(to + at, to_dtype) == read_number(source, from_dtype));
            memset(touched + at, 1, (size_t)to_width);
        }
    for (size_t i = 0; i < to_bytes; i++)
        assert_true(touched[i] || to[i] == 0xa5);
    free(to);
    free(from);
    free(touched);
}

static void test_every_pair(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 7, 8, 31, 64, 65, 100, 128, 255, 256, 300};
    for (int to = 0; to < SW_STORED_U8; to++) /* which is of no numbers */
        for (int from = 0; from < SW_STORED_U8; from++)
            for (int trial = 0; trial < 60; trial++)
                check_box(sizes[below(13)], sizes[below(13)], (enum sw_stored_dtype)to,
                          (enum sw_stored_dtype)from, trial % 3 > 0);
}

/* Past the caches. */
static void test_large(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < SW_STORED_DTYPES; dtype++)
        for (int trial = 0; trial < 3; trial++)
            check_box(700 + below(300), 1000 + below(300), (enum sw_stored_dtype)dtype,
                      (enum sw_stored_dtype)dtype, true);
}

static double rounded(double value, enum sw_stored_dtype to, enum sw_stored_dtype from)
{
    unsigned char in[8], out[8];
    const float single = (float)value;
    memcpy(in, from == SW_STORED_F64 ? (const void *)&value : &single,
           from == SW_STORED_F64 ? 8 : 4);
    sw_convert_numbers(out, to, in, from, 1);
    return read_number(out, to);
}

/* Every number of 16 bits, and those around each least one that is not finite. */
static void test_finite(void **state)
{
    (void)state;
    for (int from = 0; from < SW_STORED_U8; from++)
        for (int to = 0; to < SW_STORED_U8; to++)
            for (int64_t i = 0; i < 1 << 17; i++) {
                const int width = 8 * (int)sw_stored_dtype_bytes((enum sw_stored_dtype)from);
                /* the last 16 bits are all or none, or nearly */
                uint64_t bits = (uint64_t)(i >> 1) << (width - 16);
                if (width > 16)
                    bits += (i & 1 ? (UINT64_C(1) << (width - 17)) : 0) + (uint64_t)(below(5) - 2);
                unsigned char in[8], out[8];
                memcpy(in, &bits, 8);
                sw_convert_numbers(out, (enum sw_stored_dtype)to, in, (enum sw_stored_dtype)from,
                                   1);
                const bool finite = isfinite(read_number(out, (enum sw_stored_dtype)to));
                if (sw_convert_is_finite(in, (enum sw_stored_dtype)from, (enum sw_stored_dtype)to,
                                         1) != finite)
                    fail_msg("%d to %d: %llx", from, to, (unsigned long long)bits);
            }
    const float some[3] = {1, INFINITY, 2};
    assert_false(sw_convert_is_finite(some, SW_STORED_F32, SW_STORED_BF16, 3));
    assert_true(sw_convert_is_finite(some, SW_STORED_F32, SW_STORED_BF16, 1));
}

/* 1 and its neighbour are 2 steps apart: halfway, just below, just above; a half that only an f32
 * in between would round twice. */
static void test_rounding(void **state)
{
    (void)state;
    static const struct {
        enum sw_stored_dtype to, from;
        double step;
    } cases[] = {{SW_STORED_BF16, SW_STORED_F32, 0x1p-7},
                 {SW_STORED_BF16, SW_STORED_F64, 0x1p-7},
                 {SW_STORED_F16, SW_STORED_F32, 0x1p-10},
                 {SW_STORED_F16, SW_STORED_F64, 0x1p-10},
                 {SW_STORED_F32, SW_STORED_F64, 0x1p-23}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const enum sw_stored_dtype to = cases[i].to, from = cases[i].from;
        const double step = cases[i].step, tiny = from == SW_STORED_F64 ? 0x1p-50 : 0x1p-23;
        assert_true(rounded(1 + step / 2, to, from) == 1);
        assert_true(rounded(1 + step / 2 + tiny, to, from) == 1 + step);
        assert_true(rounded(1 + 3 * step / 2, to, from) == 1 + 2 * step);
        assert_true(rounded(1 + 3 * step / 2 - tiny, to, from) == 1 + step);
        assert_true(rounded(-1 - step / 2 - tiny, to, from) == -1 - step);
        if (from == SW_STORED_F64)
            assert_true(isinf(rounded(1e300, to, from)) && rounded(-1e300, to, from) < 0);
        assert_true(isnan(rounded((double)NAN, to, from)));
        assert_true(rounded(0, to, from) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
