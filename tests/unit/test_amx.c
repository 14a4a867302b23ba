/* Products in the processor's tiles: the emulation that other tests run against what Intel's manual
 * says of TDPBF16PS, and, where the processor has tiles, these against the emulation, to the bit.
 */
#include "core/base/number.h"
#include "runner/device/cpu/amx.h"
#include "runner/device/cpu/onednn.h"
#include "tests/support/amx_emulated.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_M = 96, MOST_N = 48, MOST_K = 128, STEP = 32, TILE = 16 };

/* One product. a is [m to whole tiles, k], b [k / 2, n, 2], c [m, n] with a row more. */
struct work {
    int64_t m, n, k;
    uint16_t a[MOST_M * MOST_K], b[MOST_K * MOST_N];
    float c[(MOST_M + 1) * MOST_N];
};

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* wild: any bits, so that numbers are of all sizes, some infinite or none. */
static void fill(struct work *w, int64_t m, int64_t n, int64_t k, bool wild, uint64_t seed)
{
    uint64_t state = seed;
    *w = (struct work){.m = m, .n = n, .k = k};
    for (int64_t i = 0; i < MOST_M * MOST_K; i++)
        w->a[i] =
            wild ? (uint16_t)next(&state) : sw_bf16_from_float((float)next(&state) * 0x1p-30f - 1);
    for (int64_t i = 0; i < MOST_K * MOST_N; i++)
        w->b[i] =
            wild ? (uint16_t)next(&state) : sw_bf16_from_float((float)next(&state) * 0x1p-30f - 1);
    for (int64_t i = 0; i < (MOST_M + 1) * MOST_N; i++)
        w->c[i] = (float)next(&state) * 0x1p-30f - 1;
}

static void emulate(struct work *w, bool accumulate)
{
    emulated_product(w->m, w->n,
                     &(struct emulated_operands){w->a, w->b, w->c, 2 * w->k, 4 * w->n, 4 * w->n,
                                                 w->k / STEP, accumulate});
}

/* As the manual writes it, of one number: pairs' first and second products are summed up apart. */
static float by_the_manual(const struct work *w, int64_t i, int64_t j, float sum)
{
    for (int64_t step = 0; step < w->k; step += STEP) {
        float apart[2] = {0, 0};
        for (int64_t k = 0; k < STEP; k++)
            apart[k % 2] =
                fmaf(sw_bf16_to_float(w->a[i * w->k + step + k]),
                     sw_bf16_to_float(w->b[((step + k) / 2 * w->n + j) * 2 + k % 2]), apart[k % 2]);
        const volatile float both = apart[0] + apart[1];
        sum += both;
    }
    return sum;
}

static void sums_are_in_the_manuals_order(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 16, 32},  {16, 16, 32}, {17, 32, 64}, {32, 48, 32},
                                       {47, 48, 96}, {64, 16, 64}, {95, 32, 128}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            struct work w, before;
            fill(&w, sizes[s][0], sizes[s][1], sizes[s][2], false, s + 1);
            before = w;
            emulate(&w, accumulate != 0);
            for (int64_t i = 0; i < w.m; i++)
                for (int64_t j = 0; j < w.n; j++) {
                    const float was = accumulate ? before.c[i * w.n + j] : 0;
                    if (w.c[i * w.n + j] != by_the_manual(&before, i, j, was))
                        fail_msg("%lld rows, %lld columns: (%lld, %lld) is %g", (long long)w.m,
                                 (long long)w.n, (long long)i, (long long)j,
                                 (double)w.c[i * w.n + j]);
                }
            assert_memory_equal(w.c + w.m * w.n, before.c + w.m * w.n,
                                (size_t)w.n * sizeof *w.c); /* nothing behind the last row */
        }
}

static float product_of(uint16_t a, uint16_t b, float c)
{
    struct work w;
    fill(&w, 1, TILE, STEP, false, 1);
    memset(w.a, 0, sizeof w.a);
    memset(w.b, 0, sizeof w.b);
    w.a[0] = a;
    w.b[0] = b;
    w.c[0] = c;
    emulate(&w, true);
    return w.c[0];
}

/* Numbers below the smallest normal one count as zeros, wherever they come from. */
static void small_numbers_are_zeros(void **state)
{
    (void)state;
    const uint16_t one = sw_bf16_from_float(1), tiny = sw_bf16_from_float(0x1p-127f);
    const uint16_t huge = sw_bf16_from_float(0x1p100f), small = sw_bf16_from_float(0x1p-64f);
    assert_true(tiny != 0);
    assert_true(product_of(one, one, 0) == 1);
    assert_true(product_of(tiny, huge, 0) == 0);     /* an operand */
    assert_true(product_of(small, small, 0) == 0);   /* a product */
    assert_true(product_of(0, one, 0x1p-127f) == 0); /* what is added to */
    assert_true(product_of(one, small, 0x1p-63f) == 0x1.8p-63f);
    assert_true(isnan(product_of(sw_bf16_from_float(NAN), 0, 1)));
    assert_true(isnan(product_of(sw_bf16_from_float(INFINITY), 0, 1)));
}

#if HAS_AMX && defined(__AVX512BF16__)
AMX_TARGET static void multiply(struct work *w, bool accumulate)
{
    sw_cpu_amx_configure();
    sw_cpu_amx_product(w->m, w->n,
                       (struct sw_amx_operands){.a = (const char *)w->a,
                                                .b = (const char *)w->b,
                                                .c = (char *)w->c,
                                                .a_bytes = 2 * w->k,
                                                .b_bytes = 4 * w->n,
                                                .c_bytes = 4 * w->n,
                                                .steps = w->k / STEP,
                                                .accumulate = accumulate});
    sw_cpu_amx_release();
}

/* The same bits; of what is no number only that it is none. */
static bool same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void instructions_give_the_emulations_bits(void **state)
{
    (void)state;
    if (!sw_cpu_amx_is_usable(true)) {
        print_message("SKIP: this processor has no AMX, or the kernel lets nobody use it\n");
        skip();
    }
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct work w, other;
        fill(&w, 1 + (int64_t)seed * 5 % MOST_M, TILE * (1 + (int64_t)seed % 3),
             STEP * (1 + (int64_t)seed % 4), seed % 2 == 1, seed + 1);
        other = w;
        multiply(&w, seed % 5 > 0);
        emulate(&other, seed % 5 > 0);
        for (int64_t i = 0; i < (w.m + 1) * w.n; i++)
            if (!same(w.c[i], other.c[i]))
                fail_msg("draw %d, place %lld: %a by the processor, %a by the emulation", (int)seed,
                         (long long)i, (double)w.c[i], (double)other.c[i]);
    }
}
#else
static void instructions_give_the_emulations_bits(void **state)
{
    (void)state;
    print_message("SKIP: this build is for no processor with AMX\n");
    skip();
}
#endif

/* Users hold the library, and with it our kernels, to less by ONEDNN_MAX_CPU_ISA. */
static void what_is_not_wanted_is_not_used(void **state)
{
    (void)state;
    assert_false(sw_cpu_amx_is_usable(false));
    assert_string_not_equal(sw_cpu_kernel_isa(false), "AMX");
    assert_string_equal(sw_cpu_amx_is_usable(sw_onednn_has_amx()) ? "AMX"
                                                                  : sw_cpu_kernel_isa(false),
                        sw_cpu_kernel_isa(sw_onednn_has_amx()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_in_the_manuals_order),
        cmocka_unit_test(small_numbers_are_zeros),
        cmocka_unit_test(instructions_give_the_emulations_bits),
        cmocka_unit_test(what_is_not_wanted_is_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
