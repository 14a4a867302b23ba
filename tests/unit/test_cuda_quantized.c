/* Products with weights in int8 and e4m3 on the CUDA device against the CPU device. Where all sums
 * are multiples of one number that fp32 holds there is one right answer, whatever their order: it
 * is compared to the bit. On a GPU where there is one; test_cuda_quantized_emulated runs the same
 * kernels on the CPU (cuda_emulator.h). ROUNDS and SEED draw other shapes. */
#include "core/base/int4.h"
#include "core/ir/workspace.h"
#include "tests/unit/cuda_ops_support.h"

struct shape {
    int64_t rows, inputs, outputs;
};

static const enum sw_dtype formats[] = {SW_I8, SW_E4M3};
enum { FORMATS = sizeof formats / sizeof *formats };

/* Codes of four neighbouring exponents, the lowest of which may be that of subnormals: multiples of
 * one number, up to 120 of it. */
static void fill_e4m3(struct sw_tensor *t)
{
    const int64_t lowest = 8 * between(0, 12), largest = lowest + 31 < 0x7e ? lowest + 31 : 0x7e;
    t->dtype = SW_E4M3;
    for (int64_t i = 0; i < t->elems; i++)
        ((uint8_t *)t->data)[i] = (uint8_t)(between(lowest, largest) | between(0, 1) << 7);
}

/* x, W, scales; `padding` outputs or inputs behind a row of W that are none. */
static struct both describe(const struct shape *s, enum sw_dtype dtype, enum sw_dtype format,
                            bool transposed, int64_t padding, int64_t skew)
{
    const int64_t x[3] = {1, s->rows, s->inputs}, scales[1] = {s->outputs};
    const int64_t w[2] = {transposed ? s->outputs : s->inputs,
                          (transposed ? s->inputs : s->outputs) + padding};
    struct both b = begin(transposed ? SW_OP_LINEAR_T : SW_OP_LINEAR, skew);
    b.call.batch_invariant = true;
    struct sw_tensor *t = add_in(&b, dtype, 3, x, 1);
    for (int64_t i = 0; i < t->elems; i++)
        put(t, i, (float)between(-2, 2));
    struct sw_tensor *weights = add_int8(&b, 2, w);
    weights->padding[1] = padding;
    if (format == SW_E4M3)
        fill_e4m3(weights);
    add_scales(&b, 1, scales, 0.01f, 1);
    return b;
}

/* What a plan for a GPU has room for. */
static size_t workspace_of(const struct shape *s, enum sw_dtype dtype)
{
    struct sw_quantized_panels panels;
    sw_quantized_panels_of(s->rows, s->inputs, s->outputs, dtype, &panels);
    return sw_quantized_in_kernel(s->rows, s->inputs, s->outputs, dtype) ? 0 : (size_t)panels.bytes;
}

static void multiply(const struct shape *s, enum sw_dtype dtype, enum sw_dtype result,
                     bool transposed, int64_t padding, int64_t skew)
{
    const int64_t y[3] = {1, s->rows, s->outputs};
    for (int i = 0; i < 2 * FORMATS; i++) {
        const int adds = i % 2;
        struct both b = describe(s, dtype, formats[i / 2], transposed, padding, skew);
        if (adds)
            add_in(&b, result, 3, y, 4);
        add_out(&b, result, 3, y);
        run_both(&b, skew == 0 ? workspace_of(s, dtype) : 0, NULL);
        /* the CPU rounds a scaled sum, by half a step, and again where it meets an addend; here it
         * is rounded once: three halves, and another one since the largest of both may differ */
        compare(&b, !adds ? 0 : 4 * (result == SW_F32 ? 0x1p-24 : 0x1p-9));
        end(&b);
    }
}

/* A few rows of bf16, as many as sixteen, above, as decoding has them. */
static void test_skinny_gemm(void **unused)
{
    (void)unused;
    static const struct shape shapes[] = {{1, 64, 32},   {16, 64, 96},  {17, 192, 32},
                                          {33, 640, 64}, {64, 128, 32}, {5, 1088, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int transposed = 0; transposed < 2; transposed++) {
            assert_true(sw_quantized_in_kernel(shapes[i].rows, shapes[i].inputs, shapes[i].outputs,
                                               SW_BF16_T));
            multiply(&shapes[i], SW_BF16_T, i % 2 ? SW_F32 : SW_BF16_T, transposed, i == 3 ? 32 : 0,
                     0);
        }
}

/* Rows in fp32, many of them, sizes that are no multiples, addresses that are not aligned, rows of
 * W that are padded; more outputs than a panel has. */
static void test_panels(void **unused)
{
    (void)unused;
    for (int64_t round = 0; round < rounds; round++)
        for (int i = 0; i < 12; i++) {
            const struct shape s = {i % 3 == 0 ? between(65, 80) : between(1, 40), between(1, 90),
                                    between(1, 70)};
            multiply(&s, i % 2 ? SW_F32 : SW_BF16_T, i % 4 < 2 ? SW_F32 : SW_BF16_T, i / 2 % 2,
                     i % 5 == 0 ? 3 : 0, i % 3);
        }
    const struct shape wide = {1, 60000, 300}, aligned = {9, 64, 32};
    struct sw_quantized_panels panels;
    sw_quantized_panels_of(wide.rows, wide.inputs, wide.outputs, SW_F32, &panels);
    assert_true(panels.outputs < wide.outputs && wide.outputs % panels.outputs != 0);
    for (int transposed = 0; transposed < 2; transposed++) {
        multiply(&wide, SW_F32, SW_F32, transposed, 0, 0);
        multiply(&aligned, SW_BF16_T, SW_BF16_T, transposed, 5, 0); /* W's rows are not aligned */
        multiply(&aligned, SW_BF16_T, SW_BF16_T, transposed, 0, 1);
    }
}

/* Any integers, with scales that are powers of two, so that sums are exact. w: in blocks. */
static struct both describe_int4(const struct shape *s, enum sw_dtype dtype, bool transposed,
                                 int64_t padding, int64_t skew)
{
    const int64_t x[3] = {1, s->rows, s->inputs};
    const int64_t w[2] = {transposed ? s->outputs : s->inputs / SW_INT4_GROUP,
                          (transposed ? s->inputs / SW_INT4_GROUP : s->outputs) + padding};
    struct both b = begin(transposed ? SW_OP_LINEAR_T : SW_OP_LINEAR, skew);
    b.call.batch_invariant = true;
    struct sw_tensor *t = add_in(&b, dtype, 3, x, 1);
    for (int64_t i = 0; i < t->elems; i++)
        put(t, i, (float)between(-2, 2));
    struct sw_tensor *weights = &b.in[b.op.n_in];
    *weights = shaped(SW_I4, 2, w);
    weights->data = host_memory(&b, b.op.n_in++, weights);
    weights->padding[1] = padding;
    for (int64_t i = 0; i < weights->elems; i++) {
        struct sw_int4_block *block = (struct sw_int4_block *)weights->data + i;
        block->scale = sw_bf16_from_float(ldexpf(between(0, 1) ? 1 : -1, (int)between(-9, -7)));
        for (int k = 0; k < SW_INT4_GROUP / 2; k++)
            block->codes[k] = (uint8_t)between(0, 255);
    }
    return b;
}

/* In the kernel, in panels, and from addresses that are not aligned. */
static void test_int4(void **unused)
{
    (void)unused;
    static const struct shape shapes[] = {{1, 64, 32}, {17, 192, 64}, {64, 640, 32}, {70, 64, 32},
                                          {5, 96, 40}, {3, 32, 33},   {1, 64, 1}};
    for (size_t i = 0; i < 8 * (sizeof shapes / sizeof *shapes); i++) {
        const struct shape *s = &shapes[i / 8];
        const enum sw_dtype dtype = i / 2 % 2 ? SW_F32 : SW_BF16_T;
        const int64_t y[3] = {1, s->rows, s->outputs}, skew = i % 8 == 5;
        struct both b = describe_int4(s, dtype, i % 2, i / 4 % 2 ? 3 : 0, skew);
        if (i % 3 == 0)
            add_in(&b, SW_F32, 3, y, 4);
        add_out(&b, SW_F32, 3, y);
        run_both(&b, skew == 0 ? workspace_of(s, dtype) : 0, NULL);
        compare(&b, i % 3 == 0 ? 2 * 0x1p-24 : 0);
        end(&b);
    }
}

/* A table in int8 at both ends: rows of tokens, and the head's statistics. */
static void test_table_of_int8(void **unused)
{
    (void)unused;
    for (int i = 0; i < 8; i++) {
        const int64_t vocab = i % 2 ? 96 : 75, width = i % 2 ? 64 : 40, rows = i / 2 % 2 ? 70 : 9;
        const int64_t tokens[2] = {1, rows}, x[3] = {1, rows, width}, w[2] = {vocab, width};
        const int64_t stats[3] = {1, rows, 3}, scales[1] = {vocab};
        struct sw_quantized_panels panels;
        struct both b = begin(i / 4 ? SW_OP_LM_HEAD_STATS : SW_OP_EMBEDDING, 0);
        b.call.batch_invariant = true;
        if (i / 4)
            add_in(&b, SW_BF16_T, 3, x, 1);
        else
            add_integers(&b, 2, tokens, 0, vocab - 1);
        add_int8(&b, 2, w);
        if (i / 4)
            add_integers(&b, 2, tokens, 0, vocab - 1);
        add_scales(&b, 1, scales, 0.001f, 0.01);
        add_out(&b, i / 4 ? SW_F32 : SW_BF16_T, 3, i / 4 ? stats : x);
        sw_quantized_panels_of(rows, width, vocab, SW_BF16_T, &panels);
        run_both(&b,
                 i / 4 ? (size_t)(sw_lm_head_panels_at(rows, vocab) +
                                  (i % 2 && rows <= 64 ? 0 : panels.bytes))
                       : 0,
                 NULL);
        compare(&b, i / 4 ? 0x1p-16 : 0);
        end(&b);
    }
}

/* Every code of e4m3 that is made, by ones: what both ways of multiplying widen it to, subnormals
 * and the largest numbers among them. */
static void test_codes_of_e4m3(void **unused)
{
    (void)unused;
    enum { ROWS = 64, OUTPUTS = 32 };
    const struct shape s = {ROWS, ROWS, OUTPUTS};
    const int64_t y[3] = {1, ROWS, OUTPUTS};
    for (int i = 0; i < 6; i++) {
        const bool transposed = i % 2;
        /* in the kernel; as panels of fp32 and, since W's rows are not aligned, of bf16 */
        const enum sw_dtype dtype = i / 2 == 1 ? SW_F32 : SW_BF16_T;
        struct both b = describe(&s, dtype, SW_E4M3, transposed, i / 2 == 2 ? 5 : 0, 0);
        const int64_t stride = b.in[1].size[1];
        uint8_t *codes = b.in[1].data;
        float *scales = b.in[2].data;
        for (int64_t e = 0; e < b.in[1].elems; e++)
            codes[e] = (e & 0x7f) == 0x7f ? 0 : (uint8_t)e;
        for (int64_t e = 0; e < b.in[0].elems; e++)
            put(&b.in[0], e, e / ROWS == e % ROWS ? 1 : 0);
        for (int64_t e = 0; e < OUTPUTS; e++)
            scales[e] = 1;
        add_out(&b, SW_F32, 3, y);
        run_on_cuda(&b, workspace_of(&s, dtype), NULL);
        float *got = fetched(&b, 0);
        for (int64_t row = 0; row < ROWS; row++)
            for (int64_t column = 0; column < OUTPUTS; column++) {
                const int64_t at = transposed ? column * stride + row : row * stride + column;
                assert_true(got[row * OUTPUTS + column] == sw_e4m3_value(codes[at]));
            }
        free(got);
        end(&b);
    }
}

/* To the bit, of numbers whose sums are rounded: a row is what it is in any other row, with more
 * rows beside it or fewer as long as the kernel is the same. */
static void test_rows_are_alike(void **unused)
{
    (void)unused;
    const struct shape s = {47, 640, 64};
    const int64_t y[3] = {1, s.rows, s.outputs};
    for (int i = 0; i < 2 * FORMATS; i++) {
        struct both b = describe(&s, SW_BF16_T, formats[i / 2], i % 2, 0, 0);
        uint16_t *x = b.in[0].data;
        for (int64_t e = 0; e < b.in[0].elems; e++)
            put(&b.in[0], e, (float)(2 * uniform() - 1));
        for (int64_t row = 3; row < s.rows; row += 11)
            memcpy(x + row * s.inputs, x, (size_t)s.inputs * sizeof *x);
        add_out(&b, SW_F32, 3, y);
        run_both(&b, 0, NULL);
        float *got = fetched(&b, 0);
        for (int64_t row = 3; row < s.rows; row += 11)
            assert_memory_equal(got + row * s.outputs, got, (size_t)s.outputs * sizeof *got);
        free(got);
        compare(&b, 2e-5); /* sums of 640 products in another order */
        end(&b);
    }
}

static void test_scales_are_asked_for(void **unused)
{
    (void)unused;
    const struct shape s = {1, 64, 32};
    const int64_t y[3] = {1, 1, 32};
    for (int i = 0; i < FORMATS; i++) {
        struct both b = describe(&s, SW_BF16_T, formats[i], false, 0, 0);
        struct sw_error err = {0};
        b.in[2].size[0] = 31;
        add_out(&b, SW_BF16_T, 3, y);
        const struct sw_call call = {.op = &b.op, .in = b.in, .out = b.out};
        assert_int_equal(cuda->vtable->run[SW_OP_LINEAR](cuda, &call, &err), -1);
        char wanted[96];
        snprintf(wanted, sizeof wanted, "linear takes %s with a scale for each of its outputs",
                 sw_dtype_name(formats[i]));
        assert_string_equal(err.message, wanted);
        end(&b);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_skinny_gemm),
        cmocka_unit_test(test_panels),
        cmocka_unit_test(test_int4),
        cmocka_unit_test(test_table_of_int8),
        cmocka_unit_test(test_codes_of_e4m3),
        cmocka_unit_test(test_rows_are_alike),
        cmocka_unit_test(test_scales_are_asked_for),
    };
    RUN_ON_BOTH_DEVICES(argc, argv, tests);
}
