/* The ops of serving, but for attention (test_cuda_cached.c), on the CUDA device against the CPU
 * device: slots that are empty, short and long, fp32, bf16 and int8, caches in parts. On a GPU
 * where there is one; test_cuda_serving_emulated runs the same kernels on the CPU
 * (cuda_emulator.h). ROUNDS and SEED draw other shapes. */
#include "core/ir/sampling.h"
#include "core/ir/serving.h"
#ifdef SW_EMULATED
#include "tests/support/emulated_products.h"
#endif
#include "tests/unit/cuda_ops_support.h"

/* The last row has the first slot. */
static void any_slots(int64_t batch, int64_t seq, int64_t positions,
                      int32_t (*slots)[SW_SLOT_FIELDS])
{
    for (int64_t i = 0; i < batch; i++) {
        const int64_t n = between(0, seq);
        slots[i][SW_SLOT_FIRST] = (int32_t)between(0, positions - n);
        slots[i][SW_SLOT_TOKENS] = (int32_t)n;
        slots[i][SW_SLOT_NUMBER] = (int32_t)(batch - 1 - i);
    }
}

/* ---- What is written ---- */

static void test_rope_slots(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t dim = round_ == 0 ? 20 : 2 * between(1, 70), batch = between(1, 4);
        const int64_t x[3] = {batch, between(1, 9), dim * between(1, 3)};
        int32_t slots[4][SW_SLOT_FIELDS];
        any_slots(batch, x[1], 5000, slots);
        struct both b = begin(SW_OP_ROPE, any_skew());
        b.op.as.rope.slots = true;
        b.op.as.rope.head_dim = (int32_t)dim;
        b.op.as.rope.rope = (struct sw_rope){.theta = 10000};
        add_in(&b, dtype, 3, x, 1)->start[1] = between(0, 5);
        add_slots(&b, batch, slots);
        add_out(&b, dtype, 3, x);
        run_both(&b, 0, NULL);
        compare(&b, tolerance_of(dtype));
        end(&b);
    }
}

static void test_cache_append(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        for (int64_t ranks = 1; ranks <= 3; ranks++)
            for (int wide = 0; wide < 2; wide++) {
                const int64_t batch = between(1, 4), chunk = ranks * between(1, 6);
                const int64_t width = between(1, 40), places = chunk / ranks * between(1, 4);
                const int64_t whole[3] = {batch, places, width};
                const int64_t x[3] = {batch, between(1, chunk), width};
                int32_t slots[4][SW_SLOT_FIELDS];
                const int64_t all = places * ranks; /* a ring's texts are longer than that */
                const bool ring = between(0, 1) == 1;
                any_slots(batch, x[1] < all ? x[1] : all, (ring ? 3 : 1) * all, slots);
                struct both b = begin(SW_OP_CACHE_APPEND, any_skew());
                b.op.as.append.ring = ring;
                b.op.as.append.chunk = (int32_t)chunk;
                in_parts(add_in(&b, wide ? SW_F32 : dtype, 3, whole, 1), between(0, ranks - 1),
                         ranks);
                add_in(&b, dtype, 3, x, 1);
                add_slots(&b, batch, slots);
                add_in_place(&b, 0, 0);
                run_both(&b, 0, NULL);
                compare(&b, 0);
                end(&b);
            }
    }
}

enum { FIRST_SLOT = 8 };

/* Of six slots from FIRST_SLOT on the rows' own; what another rank has is zeros. */
static void test_cache_rows(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t batch = 4, cache[3] = {6, between(1, 9), between(1, 40)};
        const int64_t y[3] = {batch, cache[1], cache[2]};
        const int32_t slots[4][SW_SLOT_FIELDS] = {{0, 1, FIRST_SLOT + (int32_t)between(0, 5)},
                                                  {7, 2, FIRST_SLOT + 5},
                                                  {0, 0, FIRST_SLOT - 1},
                                                  {3, 1, FIRST_SLOT}};
        struct both b = begin(SW_OP_CACHE_ROWS, any_skew());
        add_in(&b, dtype, 3, cache, 1)->start[0] = FIRST_SLOT;
        add_slots(&b, batch, slots);
        add_out(&b, dtype, 3, y);
        run_both(&b, 0, NULL);
        compare(&b, 0);
        end(&b);
    }
}

/* Heads of all sizes, of them some of zeros, of numbers whose scale is subnormal or none, of ties,
 * and with elements that are no finite numbers: integers and scales are the CPU's to the bit. */
static void fill_heads(struct sw_tensor *x, int64_t dim)
{
    static const double sizes[] = {1, 0, 1e-40, 3e-44, 1e30, 0x1p-20};
    for (int64_t i = 0; i < x->elems; i++) {
        const int64_t head = i / dim, kind = head % 9;
        float value = (float)get(x->dtype, x->data, i);
        if (kind < 6)
            value *= (float)sizes[kind];
        else if (kind == 6) /* the scale is 1 */
            value = i % dim == 0 ? 127.0f : (float)between(-126, 125) + 0.5f;
        else if (i % dim == dim / 2)
            value = kind == 7 ? NAN : -INFINITY;
        put(x, i, value);
    }
}

static void test_cache_append_int8(void **unused)
{
    (void)unused;
    static const int64_t dims[] = {128, 20, 1, 96, 33};
    FOR_EACH_CASE(dtype)
    {
        for (int64_t i = 0; i < 15; i++) {
            const int64_t ranks = 1 + i % 3, dim = dims[i % 5], heads = between(1, 5);
            const int64_t batch = between(1, 4), chunk = ranks * between(1, 6);
            const int64_t places = chunk / ranks * between(1, 4);
            const int64_t whole[3] = {batch, places, heads * dim};
            const int64_t scales[3] = {batch, places, heads};
            const int64_t x[3] = {batch, between(1, chunk), heads * dim};
            int32_t slots[4][SW_SLOT_FIELDS];
            const int64_t all = places * ranks;
            const bool ring = i % 2 == 1;
            any_slots(batch, x[1] < all ? x[1] : all, (ring ? 3 : 1) * all, slots);
            struct both b = begin(SW_OP_CACHE_APPEND, any_skew());
            b.op.as.append.ring = ring;
            b.op.as.append.chunk = (int32_t)chunk;
            b.op.as.append.head_dim = (int32_t)dim;
            in_parts(add_int8(&b, 3, whole), between(0, ranks - 1), ranks);
            fill_heads(add_in(&b, dtype, 3, x, 1), dim);
            add_slots(&b, batch, slots);
            in_parts(add_in(&b, SW_F32, 3, scales, 1), b.in[0].start[1] / places, ranks);
            add_in_place(&b, 0, 0);
            add_in_place(&b, 1, 3);
            run_both(&b, 0, NULL);
            for (int k = 0; k < 2; k++) {
                void *got = fetched(&b, k);
                for (int64_t e = 0; e < b.out[k].elems; e++) {
                    const double is = get(b.out[k].dtype, got, e);
                    const double wanted = get(b.out[k].dtype, b.out[k].data, e);
                    if (!(is == wanted || (isnan(is) && isnan(wanted))))
                        fail_msg("head_dim %d: %s %lld is %g, cpu %g", (int)dim,
                                 k == 0 ? "integer" : "scale", (long long)e, is, wanted);
                }
                free(got);
            }
            compared[SW_OP_CACHE_APPEND] = true;
            end(&b);
        }
    }
}

static void test_softmax_merge(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        for (int64_t ranks = 1; ranks <= 4; ranks++) {
            const int64_t heads = between(1, 5), dim = between(1, 70), batch = between(1, 3);
            const int64_t seq = between(1, 4), y[3] = {batch, seq, heads * dim};
            const int64_t parts[4] = {batch, seq, heads * dim, 1};
            const int64_t stats[4] = {batch, seq, 2 * heads, ranks};
            struct both b = begin(SW_OP_SOFTMAX_MERGE, any_skew());
            struct sw_tensor *part = add_in(&b, SW_F32, 4, parts, 2);
            part->start[3] = between(0, ranks - 1);
            part->global[3] = ranks;
            float *of = add_in(&b, SW_F32, 4, stats, 3)->data;
            for (int64_t row = 0; row < batch * seq * heads; row++)
                for (int64_t r = 0; r < ranks; r++) { /* some saw nothing, of some rows none did */
                    const bool nothing = row % 3 == 0 || between(0, 2) == 0;
                    float *sum = &of[(row * 2 + 1) * ranks + r];
                    *sum = nothing ? 0 : 1 + fabsf(*sum);
                    if (nothing)
                        of[row * 2 * ranks + r] = -1e30f;
                }
            b.op.as.merge.sink = between(0, 1) == 1;
            if (b.op.as.merge.sink)
                add_in(&b, between(0, 1) ? SW_F32 : SW_BF16_T, 1, &heads, 4);
            add_out(&b, dtype, 3, y);
            run_both(&b, 0, NULL);
            compare(&b, tolerance_of(dtype));
            end(&b);
        }
    }
}

/* ---- The last token ---- */

static void test_pick_token(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        const int64_t batch = 4, width = between(1, 60), x[3] = {batch, between(1, 9), width};
        const int64_t y[3] = {batch, 1, width};
        const int32_t slots[4][SW_SLOT_FIELDS] = {
            {0, 0, 0}, {9, 3, 1}, {2, 1, 2}, {5, (int32_t)between(1, 20), 3}};
        struct both b = begin(SW_OP_PICK_TOKEN, any_skew());
        add_in(&b, dtype, 3, x, 1)->start[1] = between(0, 1) * between(1, 9);
        add_slots(&b, batch, slots);
        add_out(&b, dtype, 3, y);
        run_both(&b, 0, NULL);
        compare(&b, 0);
        end(&b);
    }
}

static void test_logprobs(void **unused)
{
    (void)unused;
    for (int64_t shards = 1; shards <= 4; shards++) {
        const int64_t tokens[2] = {between(1, 3), between(1, 300)};
        const int64_t in[3] = {tokens[0], tokens[1], 3 * shards};
        struct both b = begin(SW_OP_LM_HEAD_LOGPROBS, 0);
        struct sw_tensor *s = add_in(&b, SW_F32, 3, in, 2);
        for (int64_t i = 1; i < s->elems; i += 3)
            ((float *)s->data)[i] = 1.0f + fabsf(((float *)s->data)[i]);
        add_integers(&b, 2, tokens, -2, 5);
        add_out(&b, SW_F32, 2, tokens);
        run_both(&b, 0, NULL);
        compare(&b, 1e-6);
        end(&b);
    }
}

/* Temperature, top_k, top_p, min_p, penalty; the draw is drawn, and adjustments are of every other.
 */
static const float filters[][SW_SAMPLING_DRAW] = {
    {0, 0, 1, 0, 1},          {0, 0, 1, 0, 1.5f},       {1, 0, 1, 0, 1},
    {0.7f, 0, 1, 0, 1.2f},    {1, 1, 1, 0, 1},          {1, 5, 1, 0, 1},
    {1.3f, 40, 1, 0, 0.8f},   {1, 0, 0.9f, 0, 1},       {1, 0, 0.1f, 0, 1},
    {2, 0, 0, 0, 1},          {1, 0, 1, 0.05f, 1},      {1, 0, 1, 1.5f, 1},
    {0.5f, 7, 0.8f, 0.1f, 2}, {1, 1 << 20, 0.5f, 0, 1}, {3, 100, 0.99f, 0.001f, 1.1f}};
enum { FILTERS = sizeof filters / sizeof *filters };

/* kind 0: any logits; 1: few different ones, so that the order of equals counts; 2: all the same;
 * 3: both zeros, and some that cannot be. */
static float any_logit(int kind)
{
    const double x = 2 * uniform() - 1;
    if (kind == 1)
        return (float)between(-2, 2);
    if (kind == 3)
        return between(0, 4) == 0 ? -INFINITY : between(0, 1) ? 0.0f : -0.0f;
    return kind == 2 ? 3.5f : (float)(8 * x * x * x);
}

/* Of some tokens, bans among them; of every other row. */
static void add_adjustments(struct both *b, int64_t vocab, float *settings)
{
    const int64_t most = vocab < 60 ? vocab : 60;
    const int64_t size[2] = {FILTERS, most * SW_ADJUSTMENT_NUMBERS};
    float *of = add_in(b, SW_F32, 2, size, 1)->data;
    for (int64_t i = 0; i < FILTERS; i++) {
        int64_t count = 0;
        for (int64_t token = between(0, 3); i % 2 == 1 && token < vocab && count < most;
             token += between(1, 1 + (int64_t)vocab / 30)) {
            float *to = of + i * size[1] + SW_ADJUSTMENT_NUMBERS * count++;
            to[SW_ADJUSTMENT_TOKEN] = (float)token;
            to[SW_ADJUSTMENT_BIAS] =
                between(0, 5) == 0 ? SW_BANNED_BIAS : (float)between(-40, 40) / 4;
            to[SW_ADJUSTMENT_PENALTY] = (float)between(-8, 16) / 8;
        }
        settings[i * SW_SAMPLING_SETTINGS + SW_SAMPLING_ADJUSTED] = (float)count;
    }
}

static void test_sample(void **unused)
{
    (void)unused;
    static const int64_t vocabs[] = {1, 7, 32, 1000, 5003};
    for (int64_t round = 0; round < rounds; round++)
        for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs; v++)
            for (int kind = 0; kind < 4; kind++) {
                const int64_t vocab = vocabs[v], words = sw_sampling_words(vocab);
                const int64_t logits[3] = {FILTERS, 1, vocab}, out[2] = {FILTERS, 2};
                const int64_t seen[2] = {FILTERS, words};
                const int64_t set[2] = {FILTERS, SW_SAMPLING_SETTINGS};
                struct both b = begin(SW_OP_SAMPLE, 0);
                struct sw_tensor *t = add_in(&b, SW_F32, 3, logits, 1);
                for (int64_t i = 0; i < t->elems; i++)
                    ((float *)t->data)[i] = any_logit(kind);
                if (kind == 3)
                    for (int64_t i = 0; i < FILTERS; i++) /* one can */
                        ((float *)t->data)[i * vocab + vocab / 2] = 1;
                add_integers(&b, 2, seen, INT32_MIN, INT32_MAX);
                float *settings = add_in(&b, SW_F32, 2, set, 1)->data;
                for (int64_t i = 0; i < FILTERS; i++) {
                    memcpy(settings + i * SW_SAMPLING_SETTINGS, filters[i], sizeof filters[i]);
                    settings[i * SW_SAMPLING_SETTINGS + SW_SAMPLING_DRAW] =
                        (float)between(0, (1 << 24) - 1) * 0x1p-24f;
                }
                add_adjustments(&b, vocab, settings);
                add_out(&b, SW_F32, 2, out);
                run_both(&b, (size_t)vocab * 8, NULL);
                float *got = fetched(&b, 0);
                const float *wanted = b.out[0].data;
                for (int64_t i = 0; i < FILTERS; i++)
                    if (got[2 * i] != wanted[2 * i] ||
                        !(fabsf(got[2 * i + 1] - wanted[2 * i + 1]) <= 2e-5f))
                        fail_msg("settings %d of vocabulary %d, kind %d: token %d (%g), cpu %d "
                                 "(%g), draw %.8g",
                                 (int)i, (int)vocab, kind, (int)got[2 * i], (double)got[2 * i + 1],
                                 (int)wanted[2 * i], (double)wanted[2 * i + 1],
                                 (double)settings[i * SW_SAMPLING_SETTINGS + SW_SAMPLING_DRAW]);
                free(got);
                compared[SW_OP_SAMPLE] = true;
                end(&b);
            }
}

static void test_top_tokens(void **unused)
{
    (void)unused;
    static const float counts[] = {0, 1, 2, 5, SW_TOP_TOKENS, 1000, -1, NAN};
    enum { SLOTS = sizeof counts / sizeof *counts };
    static const int64_t vocabs[] = {1, 7, 32, 1000, 5003};
    for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs; v++)
        for (int kind = 0; kind < 4; kind++) {
            const int64_t vocab = vocabs[v], logits[3] = {SLOTS, 1, vocab};
            const int64_t set[2] = {SLOTS, SW_SAMPLING_SETTINGS}, pair[2] = {SLOTS, 2};
            const int64_t out[2] = {SLOTS, SW_SAMPLED_NUMBERS};
            struct both b = begin(SW_OP_TOP_TOKENS, 0);
            struct sw_tensor *t = add_in(&b, SW_F32, 3, logits, 1);
            for (int64_t i = 0; i < t->elems; i++)
                ((float *)t->data)[i] = any_logit(kind);
            if (kind == 3)
                for (int64_t i = 0; i < SLOTS; i++) /* one can be */
                    ((float *)t->data)[i * vocab + vocab / 2] = 1;
            float *settings = add_in(&b, SW_F32, 2, set, 1)->data;
            for (int64_t i = 0; i < SLOTS; i++)
                settings[i * SW_SAMPLING_SETTINGS + SW_SAMPLING_TOP] = counts[i];
            add_in(&b, SW_F32, 2, pair, 1);
            add_out(&b, SW_F32, 2, out);
            run_both(&b, 0, NULL);
            float *got = fetched(&b, 0);
            const float *wanted = b.out[0].data;
            for (int64_t i = 0; i < SLOTS * SW_SAMPLED_NUMBERS; i++)
                if (i % 2 == 0 ? got[i] != wanted[i]
                               : got[i] != wanted[i] && !(fabsf(got[i] - wanted[i]) <= 2e-5f))
                    fail_msg("%g of vocabulary %d, kind %d: number %d is %g, cpu %g",
                             (double)counts[i / SW_SAMPLED_NUMBERS], (int)vocab, kind,
                             (int)(i % SW_SAMPLED_NUMBERS), (double)got[i], (double)wanted[i]);
            free(got);
            compared[SW_OP_TOP_TOKENS] = true;
            end(&b);
        }
}

/* ---- Products ---- */

#ifdef SW_EMULATED
/* A text may not depend on its row, nor a rank on how fast an algorithm was there: serving takes
 * the library's first choice, training the fastest. */
static void test_products_are_settled(void **unused)
{
    (void)unused;
    const int64_t x[3] = {1, 144, 640}, w[2] = {640, 640};
    for (int alike = 0; alike < 2; alike++) {
        struct both b = begin(SW_OP_LINEAR, 0);
        b.call.batch_invariant = alike;
        add_in(&b, SW_F32, 3, x, 1);
        add_in(&b, SW_F32, 2, w, 1);
        add_out(&b, SW_F32, 3, x);
        (void)sw_emulated_products_take();
        run_both(&b, 0, NULL);
        compare(&b, 2e-5);
        const struct sw_emulated_products made = sw_emulated_products_take();
        assert_true(alike ? made.count == 1 && made.second == 0 : made.second > 0);
        end(&b);
    }
}

/* The logits of all tokens are made in products of one shape. */
static void test_logits_of_one_shape(void **unused)
{
    (void)unused;
    const int64_t tokens[2] = {1, 2103}, x[3] = {1, 2103, 4}, w[2] = {2501, 4};
    const int64_t stats[3] = {1, 2103, 3}, chunk = sw_lm_head_chunk_tokens(2103, 2501);
    struct both b = begin(SW_OP_LM_HEAD_STATS, 0);
    b.call.batch_invariant = true;
    add_in(&b, SW_F32, 3, x, 1);
    add_in(&b, SW_F32, 2, w, 1);
    add_integers(&b, 2, tokens, 0, 2500);
    add_out(&b, SW_F32, 3, stats);
    (void)sw_emulated_products_take();
    run_both(&b, (size_t)(chunk * sw_lm_head_row_elems(2501) * 4), NULL);
    compare(&b, 2e-5);
    const struct sw_emulated_products made = sw_emulated_products_take();
    assert_int_equal(made.least_rows, chunk);
    assert_int_equal(made.most_rows, chunk);
    assert_true(made.count > 1 && 2103 % made.count != 0);
    end(&b);
}
#endif

/* The last test: every op of serving was compared by the others. */
static void test_every_kind_was_compared(void **unused)
{
    (void)unused;
    for (int kind = 0; kind < SW_OP_COUNT; kind++)
        if (is_of_serving(kind) && (!compared[kind] || cuda->vtable->run[kind] == NULL))
            fail_msg("no test compares %s", sw_op_info((enum sw_op_kind)kind)->name);
    assert_true(compared[SW_OP_ROPE]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope_slots),
        cmocka_unit_test(test_cache_append),
        cmocka_unit_test(test_cache_rows),
        cmocka_unit_test(test_cache_append_int8),
        cmocka_unit_test(test_softmax_merge),
        cmocka_unit_test(test_pick_token),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_top_tokens),
#ifdef SW_EMULATED
        cmocka_unit_test(test_products_are_settled),
        cmocka_unit_test(test_logits_of_one_shape),
#endif
        cmocka_unit_test(test_every_kind_was_compared),
    };
    RUN_ON_BOTH_DEVICES(argc, argv, tests);
}
