/* Every op of the CUDA device against the CPU device, f32 and bf16, on shapes with odd sizes. On a
 * GPU where there is one; test_cuda_ops_emulated runs the same kernels on the CPU
 * (cuda_emulator.h). SEED and ROUNDS draw other shapes. */
#include "tests/unit/cuda_ops_support.h"

/* ---- Elementwise ---- */

static void test_add_cast_accumulate(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t size[3] = {between(1, 3), between(1, 37), between(1, 41)};
        const enum sw_dtype other = dtype == SW_F32 ? SW_BF16_T : SW_F32;
        struct both b = begin(SW_OP_ADD, any_skew());
        add_in(&b, dtype, 3, size, 1);
        add_in(&b, dtype, 3, size, 1);
        add_out(&b, dtype, 3, size);
        run_both(&b, 0, NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
        b = begin(SW_OP_CAST, any_skew());
        add_in(&b, dtype, 3, size, 1);
        add_out(&b, other, 3, size);
        run_both(&b, 0, NULL);
        compare(&b, 0);
        end(&b);
        for (int k = 0; k < 3; k++) { /* overwrites; adds in the second micro-step; always adds */
            const struct sw_step step = {.step = 1, .micro_step = k == 1};
            b = begin(SW_OP_ACCUMULATE, any_skew());
            b.op.as.accumulate.first = k < 2;
            add_in(&b, SW_F32, 3, size, 1);
            add_in(&b, dtype, 3, size, 1);
            add_in_place(&b, 0, 0);
            run_both(&b, 0, &step);
            compare(&b, 1e-6);
            end(&b);
        }
    }
}

static void test_scale(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t size[3] = {between(1, 3), between(1, 19), between(1, 45)};
        struct both b = begin(SW_OP_SCALE, any_skew());
        b.op.as.scale.factor = (double)between(1, 100) / 16;
        add_in(&b, dtype, 3, size, 1);
        add_out(&b, dtype, 3, size);
        run_both(&b, 0, NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
    }
}

/* Every code but those that are none, by the scales of columns and of rows. */
static void test_widen(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t size[2] = {between(1, 19), between(1, 45)};
        const bool by_row = between(0, 1) == 1;
        struct both b = begin(by_row ? SW_OP_WIDEN_T : SW_OP_WIDEN, any_skew());
        struct sw_tensor *w = add_int8(&b, 2, size);
        if (between(0, 1) == 1)
            w->dtype = SW_E4M3; /* of 7 bits and a sign, none is 0x7f */
        for (int64_t i = 0; w->dtype == SW_E4M3 && i < w->elems; i++)
            ((uint8_t *)w->data)[i] = (uint8_t)(between(0, 0x7e) | between(0, 1) << 7);
        add_scales(&b, 1, &size[by_row ? 0 : 1], 0.01f, 1);
        add_out(&b, dtype, 2, size);
        run_both(&b, 0, NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
    }
}

static void test_softcap(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t size[3] = {between(1, 3), between(1, 19), between(1, 45)};
        struct both b = begin(SW_OP_SOFTCAP, any_skew());
        b.op.as.softcap.cap = (double)between(1, 100) / 16;
        add_in(&b, dtype, 3, size, 4);
        add_out(&b, dtype, 3, size);
        run_both(&b, 0, NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
    }
}

static void test_swiglu(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t size[3] = {1, between(1, 19), between(1, 45)};
        const bool gelu = (round_ + narrow_) % 2 == 1;
        struct both b = begin(SW_OP_SWIGLU, any_skew());
        b.op.as.swiglu.gelu = gelu;
        add_in(&b, dtype, 3, size, 6);
        add_in(&b, dtype, 3, size, 2);
        add_out(&b, dtype, 3, size);
        run_both(&b, 0, NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
        b = begin(SW_OP_SWIGLU_GRAD, any_skew());
        b.op.as.swiglu.gelu = gelu;
        for (int i = 0; i < 3; i++)
            add_in(&b, dtype, 3, size, i == 0 ? 6 : 2);
        add_out(&b, dtype, 3, size);
        add_out(&b, dtype, 3, size);
        run_both(&b, 0, NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
    }
}

static void test_slice(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t size[3] = {between(2, 4), between(2, 9), between(2, 40)};
        int64_t part[3], from[3];
        struct both b = begin(SW_OP_SLICE, any_skew());
        for (int d = 0; d < 3; d++) {
            part[d] = between(1, size[d]);
            from[d] = between(0, size[d] - part[d]);
        }
        add_in(&b, dtype, 3, size, 1);
        struct sw_tensor *out = add_out(&b, dtype, 3, part);
        memcpy(out->start, from, sizeof from);
        run_both(&b, 0, NULL);
        compare(&b, 0);
        end(&b);
    }
}

static void test_embedding(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t tokens[2] = {between(1, 3), between(1, 300)}, width = between(1, 70);
        const int64_t table[2] = {between(1, 30), width}, y[3] = {tokens[0], tokens[1], width};
        const int64_t start = between(0, 10);
        struct both b = begin(SW_OP_EMBEDDING, any_skew());
        add_integers(&b, 2, tokens, 0, start + table[0] + 4);
        add_in(&b, dtype, 2, table, 1)->start[0] = start;
        add_out(&b, dtype, 3, y);
        run_both(&b, 0, NULL);
        compare(&b, 0);
        end(&b);
        b = begin(SW_OP_EMBEDDING_GRAD, any_skew());
        add_integers(&b, 2, tokens, 0, start + table[0] + 4);
        add_in(&b, dtype, 3, y, 1);
        add_out(&b, dtype, 2, table)->start[0] = start;
        run_both(&b, 0, NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
        for (int k = 0; k < 4; k++) { /* added to a sum in place, or over what stands there */
            const struct sw_step step = {.step = 1, .micro_step = k % 2};
            b = begin(SW_OP_EMBEDDING_GRAD, any_skew());
            b.op.as.gradient = (struct sw_gradient_attributes){k >= 2, true};
            add_integers(&b, 2, tokens, 0, start + table[0] + 4);
            add_in(&b, dtype, 3, y, 1);
            struct sw_tensor *sum = add_in(&b, SW_F32, 2, table, 4);
            sum->start[0] = start;
            for (int64_t i = 0; k == 2 && i < sum->elems; i++)
                ((float *)sum->data)[i] = NAN;
            add_in_place(&b, 0, 2);
            run_both(&b, 0, &step);
            compare(&b, tolerance_of(dtype));
            end(&b);
        }
    }
}

static size_t slices_bytes(int64_t width)
{
    return (size_t)(SW_NORM_SLICES * width) * sizeof(float);
}

/* head_dim 0: whole rows. */
static void norm_case(enum sw_dtype dtype, const int64_t *x, int64_t head_dim)
{
    const int64_t width = head_dim > 0 ? head_dim : x[2];
    struct both b = begin(head_dim > 0 ? SW_OP_HEAD_NORM : SW_OP_RMSNORM, any_skew());
    b.op.as.norm.eps = 1e-5;
    b.op.as.norm.head_dim = (int32_t)head_dim;
    b.op.as.norm.plus_one = between(0, 1) == 1;
    const union sw_attributes as = b.op.as;
    add_in(&b, dtype, 3, x, 2);
    add_in(&b, dtype, 1, &width, 1);
    add_out(&b, dtype, 3, x);
    run_both(&b, 0, NULL);
    compare(&b, tolerance_of(dtype));
    end(&b);
    for (int k = 0; k < (head_dim > 0 ? 1 : 2); k++) { /* and with an addend */
        b = begin(head_dim > 0 ? SW_OP_HEAD_NORM_GRAD : SW_OP_RMSNORM_GRAD, any_skew());
        b.op.as = as;
        add_in(&b, dtype, 3, x, 2);
        add_in(&b, dtype, 1, &width, 1);
        add_in(&b, dtype, 3, x, 1);
        if (k == 1)
            add_in(&b, dtype, 3, x, 1);
        add_out(&b, dtype, 3, x);
        add_out(&b, dtype, 1, &width);
        run_both(&b, slices_bytes(width), NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
    }
}

/* Widths on both sides of where a row takes more lanes, more vectors, a block. */
static void test_norms(void **unused)
{
    (void)unused;
    static const int64_t widths[] = {3, 8, 9, 100, 257, 512, 513, 2061};
    FOR_EACH_CASE(dtype)
    {
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            const int64_t width = round_ == 0 ? widths[i] : between(3, 600);
            const int64_t x[3] = {between(1, 2), between(1, 11), width};
            norm_case(dtype, x, 0);
        }
        static const int64_t dims[] = {6, 12, 20, 64, 128, 250};
        for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
            const int64_t dim = round_ == 0 ? dims[i] : 2 * between(2, 150);
            const int64_t x[3] = {between(1, 2), between(1, 9), dim * between(1, 5)};
            norm_case(dtype, x, dim);
        }
    }
    /* the rows of several blocks, and of a part of one */
    const int64_t many[3] = {1, 131, 24};
    norm_case(SW_F32, many, 8);
}

/* A part of the columns of rows. */
static void test_split_norms(void **unused)
{
    (void)unused;
    static const int64_t widths[] = {3, 8, 9, 100, 513, 2061};
    FOR_EACH_CASE(dtype)
    {
        const int64_t width = round_ == 0 ? widths[between(0, 5)] : between(1, 600);
        const int64_t x[3] = {between(1, 2), between(1, 40), width};
        const union sw_attributes as = {.norm = {.eps = 0.5,
                                                 .width = (int32_t)(width * between(1, 4)),
                                                 .plus_one = between(0, 1) == 1}};
        for (int k = 0; k < 2; k++) {
            struct both b = begin(SW_OP_ROW_SUMS, any_skew());
            add_in(&b, dtype, 3, x, 2);
            if (k == 1) {
                b.op.as.norm.plus_one = as.norm.plus_one;
                add_in(&b, dtype, 1, &width, 1);
                add_in(&b, dtype, 3, x, 1);
            }
            add_out(&b, SW_F32, 2, x);
            run_both(&b, 0, NULL);
            compare(&b, tolerance_of(SW_F32));
            end(&b);
        }
        for (int k = 0; k < 2; k++) {
            struct both b = begin(k == 0 ? SW_OP_SPLIT_NORM : SW_OP_SPLIT_NORM_GRAD, any_skew());
            b.op.as = as;
            add_in(&b, dtype, 3, x, 2);
            struct sw_tensor *sums = add_in(&b, SW_F32, 2, x, 9);
            for (int64_t i = 0; i < sums->elems; i++)
                ((float *)sums->data)[i] = fabsf(((float *)sums->data)[i]);
            add_in(&b, dtype, 1, &width, 1);
            if (k == 1) {
                add_in(&b, dtype, 3, x, 1);
                add_in(&b, SW_F32, 2, x, 3);
            }
            add_out(&b, dtype, 3, x);
            if (k == 1)
                add_out(&b, dtype, 1, &width);
            run_both(&b, k == 1 ? slices_bytes(width) : 0, NULL);
            compare(&b, tolerance_of(dtype));
            end(&b);
        }
    }
}

static void test_biases(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t width = round_ == 0 ? 2061 : between(1, 150);
        const int64_t x[3] = {between(1, 2), between(1, 40), width};
        struct both b = begin(SW_OP_ADD_BIAS, any_skew());
        add_in(&b, dtype, 3, x, 2);
        add_in(&b, round_ % 2 ? SW_F32 : dtype, 1, &width, 1);
        add_out(&b, dtype, 3, x);
        run_both(&b, 0, NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
        b = begin(SW_OP_BIAS_GRAD, any_skew());
        add_in(&b, dtype, 3, x, 2);
        add_out(&b, round_ % 2 ? SW_F32 : dtype, 1, &width);
        run_both(&b, slices_bytes(width), NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
    }
}

static void test_heads(void **unused)
{
    (void)unused;
    static const struct sw_rope ropes[] = {{.theta = 10000},
                                           {.theta = 10000, .factor = 4, .scaling = SW_ROPE_LINEAR},
                                           {.theta = 10000,
                                            .factor = 8,
                                            .low_freq_factor = 1,
                                            .high_freq_factor = 4,
                                            .original_positions = 500,
                                            .scaling = SW_ROPE_LLAMA3},
                                           {.theta = 10000,
                                            .factor = 8,
                                            .low_freq_factor = 1,
                                            .high_freq_factor = 32,
                                            .attention_factor = 1.2,
                                            .original_positions = 500,
                                            .scaling = SW_ROPE_YARN,
                                            .truncate = 1},
                                           {.theta = 10000,
                                            .attention_factor = 0.8,
                                            .original_positions = 500,
                                            .scaling = SW_ROPE_LONGROPE}};
    enum { ROPES = sizeof ropes / sizeof ropes[0] };
    float divisors[SW_ROPE_MOST_PAIRS];
    for (int j = 0; j < SW_ROPE_MOST_PAIRS; j++)
        divisors[j] = 1 + 0.5F * (float)j;
    FOR_EACH_CASE(dtype)
    {
        /* in the first round no multiple of a vector */
        const int64_t dim = round_ == 0 ? 20 : 2 * between(1, 20), copies = between(1, 3),
                      sources = between(1, 3);
        const int64_t batch = between(1, 2), seq = between(1, 9);
        const int64_t x[3] = {batch, seq, sources * dim}, y[3] = {batch, seq, x[2] * copies};
        for (int k = 0; k < 4 * ROPES; k++) {
            struct both b = begin(SW_OP_ROPE, any_skew());
            b.op.as.rope.head_dim = (int32_t)dim;
            b.op.as.rope.rope = ropes[k / 2 % ROPES];
            b.op.as.rope.inverse = k % 2;
            b.op.as.rope.rotated = k < 2 * ROPES ? 0 : (int32_t)(2 * between(1, dim / 2));
            b.call.rope_divisors = divisors;
            b.op.as.rope.rows = k % 3 == 0;
            add_in(&b, dtype, 3, x, 1);
            add_integers(&b, b.op.as.rope.rows ? 2 : 1, b.op.as.rope.rows ? x : &seq, 0, 3000);
            add_out(&b, dtype, 3, x);
            run_both(&b, 0, NULL);
            compare(&b, tolerance_of(dtype));
            end(&b);
        }
        struct both b = begin(SW_OP_REPLICATE_HEADS, any_skew());
        b.op.as.copies.head_dim = (int32_t)dim;
        b.op.as.copies.copies = (int32_t)copies;
        add_in(&b, dtype, 3, x, 1);
        add_out(&b, dtype, 3, y);
        run_both(&b, 0, NULL);
        compare(&b, 0);
        end(&b);
        b = begin(SW_OP_REPLICATE_HEADS_GRAD, any_skew());
        b.op.as.copies.head_dim = (int32_t)dim;
        b.op.as.copies.copies = (int32_t)copies;
        add_in(&b, dtype, 3, y, 1);
        add_out(&b, dtype, 3, x);
        run_both(&b, 0, NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
    }
}

/* ---- Products ---- */

static void test_linear(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t b0 = between(1, 2), s = between(1, 33), e = between(1, 40);
        const int64_t f = between(1, 40);
        const int64_t x[3] = {b0, s, e}, y[3] = {b0, s, f}, w[2] = {e, f};
        struct both b = begin(SW_OP_LINEAR, any_skew());
        add_in(&b, dtype, 3, x, 1);
        add_in(&b, dtype, 2, w, 1);
        add_out(&b, dtype, 3, y);
        run_both(&b, 0, NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
        b = begin(SW_OP_LINEAR_T, any_skew());
        add_in(&b, dtype, 3, y, 1);
        add_in(&b, dtype, 2, w, 1);
        add_out(&b, dtype, 3, x);
        run_both(&b, 0, NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
        for (int k = 0; k < 2; k++) { /* with an addend */
            b = begin(k ? SW_OP_LINEAR_T : SW_OP_LINEAR, any_skew());
            add_in(&b, dtype, 3, k ? y : x, 1);
            add_in(&b, dtype, 2, w, 1);
            add_in(&b, dtype, 3, k ? x : y, 4);
            add_out(&b, dtype, 3, k ? x : y);
            run_both(&b, 0, NULL);
            compare(&b, tolerance_of(dtype));
            end(&b);
        }
        b = begin(SW_OP_LINEAR_DW, any_skew());
        add_in(&b, dtype, 3, x, 1);
        add_in(&b, dtype, 3, y, 1);
        add_out(&b, round_ % 2 ? SW_F32 : dtype, 2, w);
        run_both(&b, 0, NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
        for (int k = 0; k < 4; k++) { /* added to a sum in place, or over what stands there */
            const struct sw_step step = {.step = 1, .micro_step = k % 2};
            b = begin(SW_OP_LINEAR_DW, any_skew());
            b.op.as.gradient = (struct sw_gradient_attributes){k >= 2, true};
            add_in(&b, dtype, 3, x, 1);
            add_in(&b, dtype, 3, y, 1);
            struct sw_tensor *sum = add_in(&b, SW_F32, 2, w, 4);
            for (int64_t i = 0; k == 2 && i < sum->elems; i++)
                ((float *)sum->data)[i] = NAN;
            add_in_place(&b, 0, 2);
            run_both(&b, 0, &step);
            compare(&b, tolerance_of(dtype));
            end(&b);
        }
    }
}

/* A result in bf16 is rounded once, behind its whole sum: 257 is no bf16, nor is 514. */
static void test_sums_are_rounded_once(void **unused)
{
    (void)unused;
    static const float row[] = {256, 1, 256, 1, 1, 0, 1, 0};
    const int64_t k = 8, m = 3, x[3] = {1, m, k}, w[2] = {k, 4}, y[3] = {1, m, 4};
    struct both b = begin(SW_OP_LINEAR, 0);
    b.call.batch_invariant = true; /* the library's first choice */
    struct sw_tensor *rows = add_in(&b, SW_BF16_T, 3, x, 1);
    struct sw_tensor *ones = add_in(&b, SW_BF16_T, 2, w, 1);
    for (int64_t i = 0; i < rows->elems; i++)
        put(rows, i, row[i % k]);
    for (int64_t i = 0; i < ones->elems; i++)
        put(ones, i, 1);
    add_out(&b, SW_BF16_T, 3, y);
    run_both(&b, 0, NULL);
    uint16_t *got = fetched(&b, 0);
    for (int64_t i = 0; i < b.out[0].elems; i++)
        assert_int_equal((int)sw_bf16_to_float(got[i]), 516);
    free(got);
    end(&b);
}

static size_t align(int64_t bytes)
{
    return (size_t)(bytes + SW_ARENA_ALIGNMENT - 1) / SW_ARENA_ALIGNMENT * SW_ARENA_ALIGNMENT;
}

/* The step of which the loss is a part. */
static const struct sw_step an_eighth = {
    .step = 1, .beta1 = 0.9, .beta2 = 0.95, .loss_scale = 0.125};

static void test_head(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        /* the first is larger than one chunk, and a row longer than a tile of the kernel */
        const int64_t vocab = round_ == 0 ? 2501 : between(1, 90), e = between(1, 9);
        const int64_t tokens[2] = {1, round_ == 0 ? 2103 : between(1, 50)};
        const int64_t x[3] = {1, tokens[1], e}, w[2] = {vocab, e}, stats[3] = {1, tokens[1], 3};
        const int64_t start = between(0, 9), one = 1,
                      chunk = sw_lm_head_chunk_tokens(tokens[1], vocab);
        const double softcap = round_ % 2 == 0 ? 0 : 0.25 * (double)between(1, 9);
        struct both b = begin(SW_OP_LM_HEAD_STATS, 0);
        b.op.as.head.softcap = softcap;
        add_in(&b, dtype, 3, x, 1);
        add_in(&b, dtype, 2, w, 1)->start[0] = start;
        add_integers(&b, 2, tokens, -2, start + vocab + 3);
        add_out(&b, SW_F32, 3, stats);
        run_both(&b, align(chunk * sw_lm_head_row_elems(vocab) * 4), NULL);
        compare(&b, 2e-5);
        end(&b);
        for (int form = 0; form < 4; form++) { /* own loss or not, table trained or frozen */
            const bool own_loss = form % 2, trained = form < 2;
            b = begin(trained ? SW_OP_LM_HEAD_GRAD : SW_OP_LM_HEAD_DX, 0);
            b.op.as.head.softcap = softcap;
            add_in(&b, dtype, 3, x, 1);
            add_in(&b, dtype, 2, w, 1)->start[0] = start;
            add_integers(&b, 2, tokens, -2, start + vocab + 3);
            if (!own_loss) {
                struct sw_tensor *lse = add_in(&b, SW_F32, 2, tokens, 1);
                for (int64_t i = 0; i < lse->elems; i++)
                    ((float *)lse->data)[i] += (float)log((double)vocab);
            }
            add_out(&b, dtype, 3, x);
            if (trained)
                add_out(&b, dtype, 2, w);
            if (own_loss) {
                add_out(&b, SW_F32, 1, &one);
                add_out(&b, SW_F32, 2, tokens);
            }
            run_both(&b, align(chunk * sw_lm_head_row_elems(vocab) * 4) + align(vocab * e * 4),
                     &an_eighth);
            compare(&b, tolerance_of(dtype));
            end(&b);
        }
        for (int k = 0; k < 3; k++) { /* its gradient added to a sum in place */
            struct sw_step step = an_eighth;
            step.micro_step = k % 2;
            b = begin(SW_OP_LM_HEAD_GRAD, 0);
            b.op.as.head = (struct sw_head_attributes){k < 2, true, softcap};
            add_in(&b, dtype, 3, x, 1);
            add_in(&b, dtype, 2, w, 1)->start[0] = start;
            add_integers(&b, 2, tokens, -2, start + vocab + 3);
            add_in(&b, SW_F32, 2, w, k == 0 ? NAN : 1);
            add_out(&b, dtype, 3, x);
            add_in_place(&b, 1, 3);
            add_out(&b, SW_F32, 1, &one);
            add_out(&b, SW_F32, 2, tokens);
            run_both(&b, align(chunk * sw_lm_head_row_elems(vocab) * 4), &step);
            compare(&b, tolerance_of(dtype));
            end(&b);
        }
        const int64_t shards[3] = {1, tokens[1], 3 * between(1, 4)};
        b = begin(SW_OP_LM_HEAD_LOSS, 0);
        struct sw_tensor *s = add_in(&b, SW_F32, 3, shards, 2);
        for (int64_t i = 1; i < s->elems; i += 3)
            ((float *)s->data)[i] = 1.0f + fabsf(((float *)s->data)[i]);
        add_integers(&b, 2, tokens, -2, 5);
        add_out(&b, SW_F32, 1, &one);
        add_out(&b, SW_F32, 2, tokens);
        run_both(&b, 0, &an_eighth);
        compare(&b, 2e-5);
        end(&b);
    }
}

/* Whatever the vocabulary, rows of logits begin where cuBLASLt's fastest kernels can load them, in
 * bf16 too: two tokens that are alike have their logits that far apart. */
static void test_logits_are_aligned(void **unused)
{
    (void)unused;
    enum { VOCAB = 50257, WIDTH = 4, SOME = 16 };
    const int64_t tokens[2] = {1, 2}, x[3] = {1, 2, WIDTH}, w[2] = {VOCAB, WIDTH};
    const int64_t stats[3] = {1, 2, 3}, row = sw_lm_head_row_elems(VOCAB);
    float logits[2][SOME];
    struct both b = begin(SW_OP_LM_HEAD_STATS, 0);
    float *token = add_in(&b, SW_F32, 3, x, 1)->data;
    memcpy(token + WIDTH, token, WIDTH * sizeof *token);
    add_in(&b, SW_F32, 2, w, 1);
    add_integers(&b, 2, tokens, 0, VOCAB - 1);
    add_out(&b, SW_F32, 3, stats);
    run_both(&b, align(2 * row * 4), NULL);
    compare(&b, 2e-5);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cuda->vtable->copy_out(cuda, logits[i],
                                                (float *)b.workspace + i * (50257 / 64 + 1) * 64,
                                                sizeof logits[i]),
                         0);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    end(&b);
}

/* ---- Weights with padding ---- */

/* Sets the padding of a matrix; what lies there becomes NaN, so that it shows where it is read. */
static struct sw_tensor *pad(struct sw_tensor *t, int64_t rows, int64_t columns)
{
    t->padding[0] = rows;
    t->padding[1] = columns;
    for (int64_t i = 0; i < t->elems; i++) {
        if (i / t->size[1] < t->size[0] - rows && i % t->size[1] < t->size[1] - columns)
            continue;
        put(t, i, NAN);
    }
    return t;
}

static void compare_padded(struct both *b, double tolerance)
{
    compare(b, tolerance);
    for (int k = 0; k < b->op.n_out; k++) {
        const struct sw_tensor *t = &b->out[k];
        for (int64_t i = 0; t->ndim == 2 && i < t->elems; i++)
            if (i / t->size[1] >= t->size[0] - t->padding[0] ||
                i % t->size[1] >= t->size[1] - t->padding[1])
                assert_true(get(t->dtype, t->data, i) == 0);
    }
    end(b);
}

/* w[e + rows, f] as projections have it. */
static void test_padded_projections(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t rows = between(1, 9), s = between(1, 33), e = between(1, 40);
        const int64_t f = between(1, 40);
        const int64_t x[3] = {1, s, e}, y[3] = {1, s, f}, w[2] = {e + rows, f};
        struct both b = begin(SW_OP_LINEAR, any_skew());
        add_in(&b, dtype, 3, x, 1);
        pad(add_in(&b, dtype, 2, w, 1), rows, 0);
        add_out(&b, dtype, 3, y);
        run_both(&b, 0, NULL);
        compare_padded(&b, tolerance_of(dtype));
        b = begin(SW_OP_LINEAR_T, any_skew());
        add_in(&b, dtype, 3, y, 1);
        pad(add_in(&b, dtype, 2, w, 1), rows, 0);
        add_out(&b, dtype, 3, x);
        run_both(&b, 0, NULL);
        compare_padded(&b, tolerance_of(dtype));
        b = begin(SW_OP_LINEAR_DW, any_skew());
        add_in(&b, dtype, 3, x, 1);
        add_in(&b, dtype, 3, y, 1);
        pad(add_out(&b, round_ % 2 ? SW_F32 : dtype, 2, w), rows, 0);
        run_both(&b, 0, NULL);
        compare_padded(&b, tolerance_of(dtype));
    }
}

/* w[v, e + columns] as the table of tokens has it. */
static void test_padded_table(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t columns = between(1, 9), e = between(1, 40), vocab = between(1, 90);
        const int64_t tokens[2] = {1, between(1, 50)}, w[2] = {vocab, e + columns};
        const int64_t x[3] = {1, tokens[1], e}, stats[3] = {1, tokens[1], 3};
        const int64_t logits[3] = {1, tokens[1], vocab};
        struct both b = begin(SW_OP_EMBEDDING, any_skew());
        add_integers(&b, 2, tokens, 0, vocab + 3);
        pad(add_in(&b, dtype, 2, w, 1), 0, columns);
        add_out(&b, dtype, 3, x);
        run_both(&b, 0, NULL);
        compare_padded(&b, 0);
        b = begin(SW_OP_EMBEDDING_GRAD, any_skew());
        add_integers(&b, 2, tokens, 0, vocab + 3);
        add_in(&b, dtype, 3, x, 1);
        pad(add_out(&b, dtype, 2, w), 0, columns);
        run_both(&b, 0, NULL);
        compare_padded(&b, tolerance_of(dtype));
        b = begin(SW_OP_LINEAR_T, any_skew());
        add_in(&b, dtype, 3, x, 1);
        pad(add_in(&b, dtype, 2, w, 1), 0, columns);
        add_out(&b, dtype, 3, logits);
        run_both(&b, 0, NULL);
        compare_padded(&b, tolerance_of(dtype));
        b = begin(SW_OP_LM_HEAD_STATS, 0);
        add_in(&b, dtype, 3, x, 1);
        pad(add_in(&b, dtype, 2, w, 1), 0, columns);
        add_integers(&b, 2, tokens, -2, vocab + 3);
        add_out(&b, SW_F32, 3, stats);
        run_both(&b, align(tokens[1] * sw_lm_head_row_elems(vocab) * 4), NULL);
        compare_padded(&b, 2e-5);
        b = begin(SW_OP_LM_HEAD_GRAD, 0);
        add_in(&b, dtype, 3, x, 1);
        pad(add_in(&b, dtype, 2, w, 1), 0, columns);
        add_integers(&b, 2, tokens, -2, vocab + 3);
        struct sw_tensor *lse = add_in(&b, SW_F32, 2, tokens, 1);
        for (int64_t i = 0; i < lse->elems; i++)
            ((float *)lse->data)[i] += (float)log((double)vocab);
        add_out(&b, dtype, 3, x);
        pad(add_out(&b, dtype, 2, w), 0, columns);
        run_both(&b, align(tokens[1] * sw_lm_head_row_elems(vocab) * 4) + align(vocab * w[1] * 4),
                 &an_eighth);
        compare_padded(&b, tolerance_of(dtype));
    }
}

/* ---- Update ---- */

static void test_update(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t size[2] = {between(1, 40), between(1, 40)}, one = 1;
        struct both b = begin(SW_OP_SUM_SQUARES, any_skew());
        add_in(&b, dtype, 2, size, 1);
        add_out(&b, SW_F32, 1, &one);
        run_both(&b, 0, NULL);
        compare(&b, 2e-6);
        end(&b);
        for (int k = 0; k < 2; k++) { /* in one launch, and in three */
            b = begin(SW_OP_GRAD_NORM, 0);
            for (int i = 0; i < (k ? 2 * SW_CUDA_NORM_PARTS + 2 : 5); i++)
                *(float *)add_in(&b, SW_F32, 1, &one, 1)->data = (float)(i + 1);
            add_out(&b, SW_F32, 1, &one);
            run_both(&b, 0, NULL);
            compare(&b, 1e-6);
            end(&b);
        }
        const struct sw_step step = {.step = between(1, 50),
                                     .learning_rate = 1e-2,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .eps = 1e-8,
                                     .weight_decay = 0.1,
                                     .grad_clip = round_ % 2 ? 0.5 : 0,
                                     .no_update = between(0, 7) == 0,
                                     .most_loss = between(0, 3) ? 1.5 : 1.25,
                                     .most_norm = between(0, 3) ? 2.5 : 2.25};
        b = begin(SW_OP_ADAMW, any_skew());
        b.op.as.adamw.decay = round_ % 2 == 0;
        b.op.as.adamw.guarded = between(0, 1);
        add_in(&b, SW_F32, 2, size, 1);
        add_in(&b, dtype, 2, size, 1);
        add_in(&b, SW_F32, 2, size, 0.1);
        struct sw_tensor *v = add_in(&b, SW_F32, 2, size, 0.1);
        for (int64_t i = 0; i < v->elems; i++)
            ((float *)v->data)[i] = fabsf(((float *)v->data)[i]);
        *(float *)add_in(&b, SW_F32, 1, &one, 1)->data = 2.5f;
        if (b.op.as.adamw.guarded)
            *(float *)add_in(&b, SW_F32, 1, &one, 1)->data = 1.5f;
        add_in_place(&b, 0, 0);
        add_in_place(&b, 1, 2);
        add_in_place(&b, 2, 3);
        run_both(&b, 0, &step);
        compare(&b, 2e-6);
        end(&b);
    }
}

static float value_of(const struct sw_blockwise_table *table, const void *codes, const void *most,
                      int64_t block, int64_t i)
{
    return table->value[((const uint8_t *)codes)[i]] * ((const float *)most)[i / block];
}

/* Codes of both devices stand for the same numbers, within the entry beside: what lies between two
 * may fall to either. */
static void compare_codes(struct both *b, int codes, int most, bool has_sign, int64_t block)
{
    struct sw_blockwise_table table;
    sw_blockwise_fill(has_sign, &table);
    uint8_t *got = fetched(b, codes);
    float *got_most = fetched(b, most);
    int64_t others = 0;
    for (int64_t i = 0; i < b->out[codes].elems; i++) {
        const float is = value_of(&table, got, got_most, block, i);
        const float wanted = value_of(&table, b->out[codes].data, b->out[most].data, block, i);
        const float least = ((float *)b->out[most].data)[i / block];
        others += got[i] != ((uint8_t *)b->out[codes].data)[i];
        assert_true(fabsf(is - wanted) <= 0.0142f * least);
    }
    assert_true(others <= 2 + b->out[codes].elems / 100);
    free(got);
    free(got_most);
}

static void test_moments_in_codes(void **unused)
{
    (void)unused;
    for (int64_t round = 0; round < rounds; round++) {
        const int64_t block = 16ll << between(0, 3), one = 1;
        const int64_t size[2] = {between(1, 5), block * between(1, 4)};
        const int64_t blocks[2] = {size[0], size[1] / block};
        const struct sw_step step = {.step = between(1, 50),
                                     .learning_rate = 1e-2,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .eps = 1e-8,
                                     .weight_decay = 0.1,
                                     .grad_clip = round % 2 ? 0.5 : 0,
                                     .most_loss = 2,
                                     .most_norm = 3};
        struct both b = begin(SW_OP_ADAMW, 0);
        b.op.as.adamw = (struct sw_adamw_attributes){
            .decay = between(0, 1), .guarded = between(0, 1), .block = (int32_t)block};
        add_in(&b, SW_F32, 2, size, 1);
        add_in(&b, SW_F32, 2, size, 1);
        for (int k = 0; k < 2; k++) {
            struct sw_tensor *codes = add_in(&b, SW_CODES, 2, size, 1);
            for (int64_t i = 0; i < codes->elems; i++)
                ((uint8_t *)codes->data)[i] = (uint8_t)between(0, 255);
        }
        add_scales(&b, 2, blocks, 0.01f, 0.1);
        add_scales(&b, 2, blocks, 0.01f, 0.1);
        *(float *)add_in(&b, SW_F32, 1, &one, 1)->data = 2.5f;
        if (b.op.as.adamw.guarded)
            *(float *)add_in(&b, SW_F32, 1, &one, 1)->data = 1.5f;
        static const int in_place[] = {0, 4, 5, 2, 3};
        for (int k = 0; k < 5; k++)
            add_in_place(&b, k, in_place[k]);
        run_both(&b, 0, &step);
        compare_codes(&b, 3, 1, true, block);
        compare_codes(&b, 4, 2, false, block);
        b.op.n_out = 3; /* the weights and the largest */
        compare(&b, 2e-6);
        end(&b);
    }
}

/* ---- Attention without hops ---- */

static void attention_case(enum sw_dtype dtype, int64_t length, int32_t shards,
                           enum sw_sequence_layout layout, int64_t q_rank, int64_t dim)
{
    /* shards > 1: this rank's queries, everyone's keys in storage order (strategy gather); q_rank
     * < 0: all queries too (ulysses) */
    const int64_t sq = q_rank < 0 ? length : length / shards, batch = between(1, 2);
    const int64_t group = between(1, 3), kv = between(1, 2);
    const int64_t q[3] = {batch, sq, kv * group * dim}, k[3] = {batch, length, kv * dim};
    const int64_t lse[3] = {batch, sq, kv * group};
    struct sw_attention_workspace layouts[2];
    for (int backward = 0; backward < 2; backward++)
        sw_attention_workspace_layout(q, k, (int32_t)dim, dtype, false, backward,
                                      &layouts[backward]);
    struct both b = begin(SW_OP_ATTENTION, 0);
    b.op.as.attention = (struct sw_attention_attributes){.scale = 1 / sqrt((double)dim),
                                                         .head_dim = (int32_t)dim,
                                                         .group = (int32_t)group,
                                                         .sequence_shards = shards,
                                                         .sequence_layout = (int32_t)layout};
    const struct sw_op op = b.op;
    for (int i = 0; i < 3; i++)
        add_in(&b, dtype, 3, i == 0 ? q : k, 2);
    b.in[0].global[1] = length;
    b.in[0].start[1] = q_rank < 0 ? 0 : q_rank * sq;
    add_out(&b, dtype, 3, q);
    add_out(&b, SW_F32, 3, lse);
    run_both(&b, (size_t)layouts[0].bytes, NULL);
    compare(&b, tolerance_of(dtype));

    struct both g = begin(SW_OP_ATTENTION_GRAD, 0);
    g.op = op;
    g.op.kind = SW_OP_ATTENTION_GRAD;
    g.op.n_in = g.op.n_out = 0;
    for (int i = 0; i < 5; i++) { /* q, k, v, and what forward gave */
        const struct sw_tensor *from = i < 3 ? &b.in[i] : &b.out[i - 3];
        struct sw_tensor *t = add_in(&g, from->dtype, from->ndim, from->size, 1);
        memcpy(t->data, from->data, bytes_of(from));
        memcpy(t->start, from->start, sizeof t->start);
        memcpy(t->global, from->global, sizeof t->global);
    }
    add_in(&g, dtype, 3, q, 1);
    add_out(&g, dtype, 3, q);
    add_out(&g, dtype, 3, k);
    add_out(&g, dtype, 3, k);
    run_both(&g, (size_t)layouts[1].bytes, NULL);
    /* the cotangent of a score is p (dp - delta), both near each other and each rounded */
    compare(&g, 4 * tolerance_of(dtype));
    end(&b);
    end(&g);
}

static int64_t any_dim(void)
{
    return 2 * between(1, 20);
}

static void test_attention(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        /* head sizes: first one that is no multiple of a vector, then any */
        attention_case(dtype, between(1, 75), 1, SW_CONTIGUOUS, -1, round_ == 0 ? 20 : any_dim());
        attention_case(dtype, 4 * between(1, 12), 2, SW_ZIGZAG, between(0, 1), any_dim());
        attention_case(dtype, 3 * between(1, 15), 3, SW_CONTIGUOUS, between(0, 2), any_dim());
        attention_case(dtype, 4 * between(1, 12), 2, SW_ZIGZAG, -1, any_dim());
    }
}

/* What is recorded reads the newest step when it is replayed. */
static void test_recording(void **unused)
{
    (void)unused;
    struct sw_error err = {0};
    struct sw_recording *recording = NULL;
    struct sw_step step = {.step = 1, .beta1 = 0.9, .beta2 = 0.95};
    const struct sw_op op = {
        .kind = SW_OP_ACCUMULATE, .n_in = 2, .n_out = 1, .as.accumulate.first = true};
    float values[2][3] = {{1, 2, 3}, {10, 20, 30}}, got[3];
    const int64_t size = 3;
    struct sw_tensor in[2];
    for (int i = 0; i < 2; i++) {
        in[i] = shaped(SW_F32, 1, &size);
        in[i].data = cuda->vtable->allocate(cuda, sizeof got);
        assert_int_equal(cuda->vtable->copy_in(cuda, in[i].data, values[i], sizeof got), 0);
    }
    const struct sw_call call = {.op = &op, .in = in, .out = in, .step = &step};
    assert_int_equal(cuda->vtable->record_begin(cuda, &err), 0);
    assert_int_equal(cuda->vtable->run[SW_OP_ACCUMULATE](cuda, &call, &err), 0);
    assert_int_equal(cuda->vtable->record_end(cuda, &recording, &err), 0);
    for (int micro = 0; micro < 3; micro++) {
        step.micro_step = micro;
        assert_int_equal(cuda->vtable->set_step(cuda, &step, &err), 0);
        assert_int_equal(cuda->vtable->replay(cuda, recording, &err), 0);
        assert_int_equal(cuda->vtable->copy_out(cuda, got, in[0].data, sizeof got), 0);
        for (int i = 0; i < 3; i++)
            assert_true(got[i] == 10.0f * (float)(i + 1) * (float)(micro + 1));
    }
    cuda->vtable->recording_free(cuda, recording);
    for (int i = 0; i < 2; i++)
        cuda->vtable->release(cuda, in[i].data);
}

/* A product in a recording reads whether it adds when it is replayed. */
static void test_recorded_gradient(void **unused)
{
    (void)unused;
    enum { M = 3, K = 2, N = 4 };
    struct sw_error err = {0};
    struct sw_recording *recording = NULL;
    struct sw_step step = {.step = 1, .beta1 = 0.9, .beta2 = 0.95};
    const struct sw_op op = {
        .kind = SW_OP_LINEAR_DW, .n_in = 3, .n_out = 1, .as.gradient = {true, true}};
    const int64_t sizes[3][3] = {{1, K, M}, {1, K, N}, {M, N}};
    float values[M * N], got[M * N];
    struct sw_tensor in[3];
    for (int i = 0; i < 3; i++) {
        in[i] = shaped(SW_F32, i < 2 ? 3 : 2, sizes[i]);
        in[i].data = cuda->vtable->allocate(cuda, sizeof values);
        for (int e = 0; e < M * N; e++)
            values[e] = i < 2 ? (float)(i + 1) : 1e30f;
        assert_int_equal(cuda->vtable->copy_in(cuda, in[i].data, values, bytes_of(&in[i])), 0);
    }
    const struct sw_call call = {.op = &op, .in = in, .out = &in[2], .step = &step};
    assert_int_equal(cuda->vtable->record_begin(cuda, &err), 0);
    assert_int_equal(cuda->vtable->run[SW_OP_LINEAR_DW](cuda, &call, &err), 0);
    assert_int_equal(cuda->vtable->record_end(cuda, &recording, &err), 0);
    for (int turn = 0; turn < 5; turn++) {
        step.micro_step = turn % 3; /* 0, 1, 2, and of the next step 0, 1 */
        assert_int_equal(cuda->vtable->set_step(cuda, &step, &err), 0);
        assert_int_equal(cuda->vtable->replay(cuda, recording, &err), 0);
        assert_int_equal(cuda->vtable->copy_out(cuda, got, in[2].data, sizeof got), 0);
        for (int e = 0; e < M * N; e++)
            assert_true(got[e] == 2.0f * K * (float)(step.micro_step + 1));
    }
    cuda->vtable->recording_free(cuda, recording);
    for (int i = 0; i < 3; i++)
        cuda->vtable->release(cuda, in[i].data);
}

/* A box goes to the middle of another array, which keeps what is around it; in one piece, in rows,
 * nothing. */
static void check_box(struct sw_device *device, size_t to_stride, size_t from_stride, size_t width,
                      size_t rows)
{
    enum { BYTES = 4096, AT = 37 };
    unsigned char from[BYTES], to[BYTES], wanted[BYTES];
    for (int i = 0; i < BYTES; i++) {
        from[i] = (unsigned char)between(0, 255);
        to[i] = wanted[i] = (unsigned char)between(0, 255);
    }
    for (size_t r = 0; r < rows; r++)
        memcpy(wanted + AT + r * to_stride, from + AT + r * from_stride, width);
    char *memory[2];
    for (int i = 0; i < 2; i++) {
        memory[i] = device->vtable->allocate(device, BYTES);
        assert_int_equal(device->vtable->copy_in(device, memory[i], i ? to : from, BYTES), 0);
    }
    assert_int_equal(device->vtable->copy_box(device, memory[1] + AT, to_stride, memory[0] + AT,
                                              from_stride, width, rows),
                     0);
    assert_int_equal(device->vtable->copy_out(device, to, memory[1], BYTES), 0);
    assert_memory_equal(to, wanted, BYTES);
    for (int i = 0; i < 2; i++)
        device->vtable->release(device, memory[i]);
}

/* Through more stages than there are, and a rest, there and back. */
static void test_long_copies(void **unused)
{
    (void)unused;
    const size_t bytes = ((size_t)SW_CUDA_STAGES * 2 + 1) * SW_CUDA_STAGE_BYTES + 5;
    unsigned char *from = malloc(bytes), *to = calloc(bytes, 1);
    char *memory = cuda->vtable->allocate(cuda, bytes);
    assert_true(from != NULL && to != NULL && memory != NULL);
    for (size_t i = 0; i < bytes; i++)
        from[i] = (unsigned char)(i * 2654435761u >> 13);
    assert_int_equal(cuda->vtable->copy_in(cuda, memory, from, bytes), 0);
    assert_int_equal(cuda->vtable->copy_out(cuda, to, memory, bytes), 0);
    assert_memory_equal(to, from, bytes);
    cuda->vtable->release(cuda, memory);
    free(from);
    free(to);
}

static void test_copy_box(void **unused)
{
    (void)unused;
    static const size_t boxes[][4] = {
        {16, 16, 16, 100},     {32, 16, 16, 100}, {16, 36, 12, 99},
        {300, 200, 2, 10},     {5, 7, 3, 400},    {4000, 4000, 3999, 1},
        {1 << 20, 8, 4000, 1}, {8, 8, 0, 9},      {8, 8, 8, 0}};
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
        check_box(cuda, boxes[i][0], boxes[i][1], boxes[i][2], boxes[i][3]);
        check_box(cpu, boxes[i][0], boxes[i][1], boxes[i][2], boxes[i][3]);
    }
}

/* The last test: whatever the device runs was compared by the others, or by test_cuda_serving. */
static void test_every_kind_was_compared(void **unused)
{
    (void)unused;
    for (int kind = 0; kind < SW_OP_COUNT; kind++)
        if (cuda->vtable->run[kind] != NULL && !compared[kind] && !is_of_serving(kind))
            fail_msg("the device runs %s, which no test compares",
                     sw_op_info((enum sw_op_kind)kind)->name);
}

static void test_errors(void **unused)
{
    (void)unused;
    struct sw_error err = {0};
    assert_null(sw_cuda_device_create(1000, &err));
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_non_null(strstr(err.message, "GPU 1000 was asked for, this node has"));
    assert_null(cuda->vtable->allocate(cuda, (size_t)1 << 60));
    assert_true(cuda->vtable->free_bytes(cuda) > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_cast_accumulate),
        cmocka_unit_test(test_swiglu),
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_biases),
        cmocka_unit_test(test_split_norms),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_widen),
        cmocka_unit_test(test_softcap),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_sums_are_rounded_once),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_logits_are_aligned),
        cmocka_unit_test(test_padded_projections),
        cmocka_unit_test(test_padded_table),
        cmocka_unit_test(test_update),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_recording),
        cmocka_unit_test(test_recorded_gradient),
        cmocka_unit_test(test_long_copies),
        cmocka_unit_test(test_copy_box),
        cmocka_unit_test(test_moments_in_codes),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_every_kind_was_compared),
    };
    RUN_ON_BOTH_DEVICES(argc, argv, tests);
}
