/* The program of every mesh computes what the program of one rank computes
 * (docs/architecture.md, How we know).
 *
 * In double: loss, gradient norm and gathered gradients of one step, for all meshes of 1, 2, 4 and
 * 8 ranks and the variants that change the program. In single: 20 training steps. The arguments are
 * the stride through the variants: coprime to 2 and 3, so that every choice meets every other on
 * every mesh; 1 runs them all; and fewer steps, where losses are not what is looked for. */
#include "tests/support/allocations.h"
#include "tests/support/harness.h"
#include "tests/support/recompute.h"
#include "tests/support/share.h"
#include "tests/support/variants.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A few hundred terms in another order, through 2 layers and back: 1e-16 * sqrt(256) * 50 is below
 * 1e-13; a factor of 1000 for elements that cancel. A missing reduction or a wrong mask is an error
 * of order 1. */
#define DOUBLE_TOLERANCE 1e-10
/* docs/architecture.md, How we know */
#define FIRST_STEPS_TOLERANCE 1e-5
#define ALL_STEPS_TOLERANCE 1e-4
/* Keys and values are off by 2^-9 of themselves at most, and so are attention's results, of which
 * losses are made. */
#define BF16_HOPS_TOLERANCE 0x1p-9

enum { FIRST_STEPS = 5, STEPS = 20 };

static int32_t stride = 1, steps = STEPS;

/* Counts from the second step on. */
static void count_allocations(void *context, int32_t rank, int64_t step, bool begins)
{
    (void)context;
    if (rank == 0 && step > 1)
        sw_test_count_allocations(begins);
}

/* ---- Models and variants ---- */

static const struct sw_axes residual_sp_tp = {2, {SW_SP, SW_TP}};

/* Small, and divisible by 8 wherever an axis may split it. 16 sequences: 8 data-parallel ranks, 2
 * micro-steps. */
static struct sw_program_options make_options(struct sw_mesh mesh, const struct sw_test_variant *v,
                                              enum sw_dtype dtype)
{
    struct sw_program_options o = {
        .model.vocab_size = 24,
        .model.hidden_size = 16,
        .model.intermediate_size = 24,
        .model.layers = 2,
        .model.heads = 8,
        .model.kv_heads = v->few_kv_heads ? 2 : 8,
        .model.head_dim = 2,
        .model.rope.theta = 100.0,
        .model.rms_norm_eps = 1e-5,
        .model.tied = v->tied,
        .sequence_length = 16,
        .global_batch = 16,
        .micro_batch_per_rank =
            16 / (mesh.size[SW_DP] * mesh.size[SW_FSDP]) / (v->accumulate ? 2 : 1),
        .compute = dtype,
        .params = dtype,
        .reduce = dtype,
        .ring = v->bf16_hops ? SW_BF16_T : SW_F32,
        .mesh = mesh,
        .layout = v->zigzag ? SW_ZIGZAG : SW_CONTIGUOUS,
        .inner_ring = v->inner_ring,
    };
    if (v->other_blocks && v->zigzag) { /* Gemma 3's layers of two kinds */
        o.model.qk_norm = o.model.post_norm = o.model.both_norms = true;
        o.model.norms_plus_one = o.model.gelu = o.model.embedding_root = true;
        o.model.query_pre_attn_scalar = 5;
        o.model.period = 2;
        o.model.local = 1;
        o.model.local_rope = (struct sw_rope){.theta = 30, .factor = 1};
    } else if (v->other_blocks) { /* OLMo 2's norms, Granite's multipliers, and Gemma 2's softcap of
                                     logits */
        o.model.qk_norm_whole = o.model.post_norm = true;
        o.model.embedding_multiplier = 3;
        o.model.attention_multiplier = 0.5;
        o.model.residual_multiplier = 0.25;
        o.model.logits_scaling = 0.75;
        o.model.final_softcap = 0.5;
    }
    o.recompute = sw_test_recompute(v->recompute, &o.model, 2);
    sw_rules_default(&o.rules, v->strategy);
    if (v->residual_tp)
        assert_int_equal(sw_rules_set(&o.rules, "residual_seq", residual_sp_tp, NULL), 0);
    sw_test_sharding(&o, v->sharding);
    return o;
}

static const char *const gradients_untied[] = {
    "grad embedding",  "grad attention_norm", "grad wq",     "grad wk",   "grad wv",
    "grad wo",         "grad mlp_norm",       "grad w_gate", "grad w_up", "grad w_down",
    "grad final_norm", "grad head",           NULL};
static const char *const gradients_tied[] = {"grad embedding",  "grad attention_norm",
                                             "grad wq",         "grad wk",
                                             "grad wv",         "grad wo",
                                             "grad mlp_norm",   "grad w_gate",
                                             "grad w_up",       "grad w_down",
                                             "grad final_norm", NULL};

static void run_one_step(struct sw_mesh mesh, const struct sw_test_variant *v,
                         struct sw_harness_result *result)
{
    const struct sw_program_options options = make_options(mesh, v, SW_F64);
    const struct sw_harness harness = {
        .options = &options,
        .seed = 5,
        .stddev = 0.3,
        .spread_norms = true,
        .ignored = 7,
        .steps = 1,
        .step = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}, /* learning rate 0 */
        .values = v->tied ? gradients_tied : gradients_untied,
    };
    struct sw_error err = {0};
    if (sw_harness_run(&harness, result, &err) != 0) {
        char text[192];
        sw_test_variant_describe(&mesh, v, text);
        fail_msg("%s: %s", text, err.message);
    }
}

/* Prints every difference of one run; returns how many there are. */
static int32_t compare(const struct sw_mesh *mesh, const struct sw_test_variant *v,
                       const struct sw_harness_result *result,
                       const struct sw_harness_result *reference)
{
    char text[192];
    int32_t wrong = 0;
    sw_test_variant_describe(mesh, v, text);
    const double loss = sw_harness_difference(result->loss, reference->loss, 1);
    const double norm = sw_harness_difference(result->grad_norm, reference->grad_norm, 1);
    if (!(loss <= DOUBLE_TOLERANCE) && ++wrong)
        print_error("%s: loss %.15g, one rank %.15g\n", text, result->loss[0], reference->loss[0]);
    if (!(norm <= DOUBLE_TOLERANCE) && ++wrong)
        print_error("%s: gradient norm %.15g, one rank %.15g\n", text, result->grad_norm[0],
                    reference->grad_norm[0]);
    for (int32_t i = 0; i < reference->value_count; i++) {
        const struct sw_harness_value *expected = &reference->value[i];
        const struct sw_harness_value *value = sw_harness_find(result, expected->name);
        const double difference =
            sw_harness_difference(value->data, expected->data, expected->elems);
        if (!(difference <= DOUBLE_TOLERANCE) && ++wrong)
            print_error("%s: '%s' differs by %g\n", text, expected->name, difference);
    }
    if (result->rank_differences != 0 && ++wrong)
        print_error("%s: replicas differ in %lld elements\n", text,
                    (long long)result->rank_differences);
    if (result->arena_bytes != result->planned_arena_bytes && ++wrong)
        print_error("%s: %lld bytes allocated, %lld planned\n", text,
                    (long long)result->arena_bytes, (long long)result->planned_arena_bytes);
    return wrong;
}

/* One rank, nothing optional: [tied][few kv heads]. */
static void make_references(struct sw_harness_result references[2][2])
{
    for (int32_t i = 0; i < 4; i++) {
        const struct sw_test_variant plain = {.tied = i / 2, .few_kv_heads = i % 2};
        run_one_step(sw_mesh_make(1, 1, 1, 1), &plain, &references[i / 2][i % 2]);
        assert_true(isfinite(references[i / 2][i % 2].loss[0]));
        assert_true(references[i / 2][i % 2].grad_norm[0] > 0.01);
    }
}

static void free_references(struct sw_harness_result references[2][2])
{
    for (int32_t i = 0; i < 4; i++)
        sw_harness_result_free(&references[i / 2][i % 2]);
}

static int32_t check(struct sw_mesh mesh, const struct sw_test_variant *v,
                     struct sw_harness_result references[2][2])
{
    struct sw_harness_result result;
    run_one_step(mesh, v, &result);
    const int32_t wrong = compare(&mesh, v, &result, &references[v->tied][v->few_kv_heads]);
    sw_harness_result_free(&result);
    return wrong;
}

/* ---- Tests ---- */

/* Every mesh admits every variant of these sizes (kv heads are replicated where tp exceeds them).
 */
static void test_all_variants_admitted(void **state)
{
    (void)state;
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    int32_t admitted = 0;
    sw_harness_meshes(meshes);
    for (int32_t m = 0; m < SW_HARNESS_MESHES; m++)
        for (int32_t i = 0; i < SW_TEST_VARIANTS; i++) {
            const struct sw_test_variant v = sw_test_variant_at(i);
            const struct sw_program_options options = make_options(meshes[m], &v, SW_F64);
            char detail[256] = "", help[256] = "", text[192];
            if (sw_program_admits(&options, detail, help) == SW_FITS) {
                admitted++;
                continue;
            }
            sw_test_variant_describe(&meshes[m], &v, text);
            print_error("%s: %s; %s\n", text, detail, help);
        }
    assert_int_equal(admitted, SW_HARNESS_MESHES * SW_TEST_VARIANTS);
}

static void test_one_step_in_double(void **state)
{
    (void)state;
    struct sw_harness_result references[2][2];
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    int32_t wrong = 0, tested = 0, expected = 0;
    make_references(references);
    sw_harness_meshes(meshes);
    for (int32_t m = 0; m < SW_HARNESS_MESHES; m++) {
        for (int32_t i = m % stride; i < SW_TEST_VARIANTS; i += stride, tested++) {
            const struct sw_test_variant v = sw_test_variant_at(i);
            wrong += check(meshes[m], &v, references);
        }
        expected += (SW_TEST_VARIANTS - m % stride + stride - 1) / stride;
    }
    free_references(references);
    assert_int_equal(tested, expected);
    assert_int_equal(wrong, 0);
}

/* Every choice of what is split, on all meshes: what each computes is what one rank does, gradient
 * norms among it. */
static void test_shardings(void **state)
{
    (void)state;
    struct sw_harness_result references[2][2];
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    const int32_t every = sw_test_share(); /* of them, in turns */
    int32_t wrong = 0, number = 0;
    make_references(references);
    sw_harness_meshes(meshes);
    for (int32_t m = 0; m < SW_HARNESS_MESHES; m++)
        for (int32_t sharding = 1 + m % every; sharding < SW_TEST_SHARDINGS; sharding += every) {
            number = (number + 53) % SW_TEST_VARIANTS; /* a prime: every choice with every other */
            struct sw_test_variant v = sw_test_variant_at(number);
            v.sharding = (uint8_t)sharding;
            wrong += check(meshes[m], &v, references);
        }
    free_references(references);
    assert_int_equal(wrong, 0);
}

/* Rings of rings of 2 and of 4, on all meshes whose sp has more ranks and in two orders of axes, of
 * which one puts the ranks of a ring far from each other. */
static void test_inner_rings(void **state)
{
    (void)state;
    struct sw_harness_result references[2][2];
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    int32_t wrong = 0, tested = 0;
    make_references(references);
    sw_harness_meshes(meshes);
    for (int32_t m = 0; m < SW_HARNESS_MESHES; m++)
        for (int32_t way = 0; way < 8; way++) {
            const struct sw_test_variant v = {.few_kv_heads = way & 1,
                                              .zigzag = way >> 1 & 1,
                                              .accumulate = way & 1,
                                              .recompute = (uint8_t)(way % 3),
                                              .inner_ring = way < 4 ? 2 : 4};
            struct sw_mesh mesh = meshes[m];
            if (mesh.size[SW_SP] <= v.inner_ring)
                continue;
            for (uint8_t i = 0; i < SW_AXIS_COUNT && way % 2 == 1; i++)
                mesh.order[i] = meshes[m].order[SW_AXIS_COUNT - 1 - i];
            wrong += check(mesh, &v, references);
            tested++;
        }
    free_references(references);
    assert_int_equal(tested, 4 * (1 + 4) + 4 * 1); /* sp 4 alone, with each other axis, and 8 */
    assert_int_equal(wrong, 0);
}

/* Placement on ranks does not matter: all 24 axis orders. */
static void test_axis_orders(void **state)
{
    (void)state;
    struct sw_harness_result references[2][2];
    const struct sw_test_variant v = {.few_kv_heads = true, .zigzag = true, .residual_tp = true};
    int32_t wrong = 0, tested = 0;
    make_references(references);
    for (uint8_t a = 0; a < 4; a++)
        for (uint8_t b = 0; b < 4; b++)
            for (uint8_t c = 0; c < 4; c++) {
                if (a == b || a == c || b == c)
                    continue;
                struct sw_mesh mesh = sw_mesh_make(1, 2, 2, 2);
                const uint8_t order[4] = {a, b, c, (uint8_t)(6 - a - b - c)};
                memcpy(mesh.order, order, sizeof order);
                wrong += check(mesh, &v, references);
                tested++;
            }
    free_references(references);
    assert_int_equal(tested, 24);
    assert_int_equal(wrong, 0);
}

static void train(struct sw_mesh mesh, const struct sw_test_variant *v,
                  struct sw_harness_result *result)
{
    static const char *const values[] = {"embedding", "wq", "w_down", "final_norm", NULL};
    const struct sw_program_options options = make_options(mesh, v, SW_F32);
    const struct sw_harness harness = {
        .options = &options,
        .seed = 9,
        .stddev = 0.2,
        .steps = steps,
        .step = {.learning_rate = 1e-3,
                 .beta1 = 0.9,
                 .beta2 = 0.95,
                 .eps = 1e-8,
                 .weight_decay = 0.1,
                 .grad_clip = 1.0},
        .values = values,
        .hook = count_allocations,
        .unpoisoned = sw_mesh_rank_count(&mesh) == 1, /* what the others are compared with */
    };
    struct sw_error err = {0};
    if (sw_harness_run(&harness, result, &err) != 0) {
        char text[192];
        sw_test_variant_describe(&mesh, v, text);
        fail_msg("%s: %s", text, err.message);
    }
}

/* Whether the variant is another program there than without its hops or inner rings; of meshes
 * where it is not, those of few ranks show it. */
static bool concerned(const struct sw_mesh *mesh, const struct sw_test_variant *v)
{
    const int32_t least = v->inner_ring > 0 ? v->inner_ring : v->bf16_hops ? 1 : 0;
    return mesh->size[SW_SP] > least || sw_mesh_rank_count(mesh) <= 2;
}

/* Losses and gradient norms of each step, where nothing was rounded. */
static int32_t compare_steps(const char *text, const struct sw_harness_result *result,
                             const struct sw_harness_result *reference, bool rounds)
{
    int32_t wrong = 0;
    for (int32_t s = 0; s < steps; s++) {
        const double loss = sw_harness_difference(&result->loss[s], &reference->loss[s], 1);
        const double norm =
            sw_harness_difference(&result->grad_norm[s], &reference->grad_norm[s], 1);
        const double tolerance = rounds            ? BF16_HOPS_TOLERANCE
                                 : s < FIRST_STEPS ? FIRST_STEPS_TOLERANCE
                                                   : ALL_STEPS_TOLERANCE;
        if (!(loss <= tolerance) && ++wrong)
            print_error("%s: loss of step %d %.9g, one rank %.9g\n", text, (int)s + 1,
                        result->loss[s], reference->loss[s]);
        if (!rounds && !(norm <= 10 * tolerance) && ++wrong)
            print_error("%s: gradient norm of step %d %.9g, one rank %.9g\n", text, (int)s + 1,
                        result->grad_norm[s], reference->grad_norm[s]);
    }
    return wrong;
}

static int32_t check_training_on(struct sw_mesh mesh, const struct sw_test_variant *v,
                                 const struct sw_harness_result *reference)
{
    struct sw_harness_result result;
    char text[192];
    const bool rounds = v->bf16_hops && mesh.size[SW_SP] > 1;
    sw_test_variant_describe(&mesh, v, text);
    train(mesh, v, &result);
    int32_t wrong = compare_steps(text, &result, reference, rounds);
    if (rounds && result.loss[0] == reference->loss[0] && ++wrong)
        print_error("%s: nothing was rounded\n", text);
    if (result.rank_differences != 0 && ++wrong)
        print_error("%s: replicas differ in %lld elements\n", text,
                    (long long)result.rank_differences);
    if (result.arena_bytes != result.planned_arena_bytes && ++wrong)
        print_error("%s: %lld bytes allocated, %lld planned\n", text, (long long)result.arena_bytes,
                    (long long)result.planned_arena_bytes);
    if (sw_test_take_allocations() != 0 && ++wrong)
        print_error("%s: memory was allocated during a step\n", text);
    sw_harness_result_free(&result);
    return wrong;
}

/* shardings: that the meshes have in turn; with stride 1 each of them on each mesh. */
static void check_training(const struct sw_test_variant *v, int32_t shardings)
{
    struct sw_harness_result reference;
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    const int32_t share = sw_test_share();
    static int32_t turn = 0;
    int32_t wrong = 0;
    (void)sw_test_take_allocations();
    train(sw_mesh_make(1, 1, 1, 1), v, &reference);
    assert_true(isfinite(reference.loss[steps - 1]));
    if (steps == STEPS) /* fewer do not learn */
        assert_true(reference.loss[steps - 1] < reference.loss[0] - 0.01);
    sw_harness_meshes(meshes);
    for (int32_t m = turn++ % share; m < SW_HARNESS_MESHES; m += share) {
        if (!concerned(&meshes[m], v))
            continue;
        for (int32_t k = 0; k < (stride == 1 ? shardings : 1); k++) {
            struct sw_test_variant here = *v;
            here.sharding = (uint8_t)((m + k) % shardings);
            wrong += check_training_on(meshes[m], &here, &reference);
        }
    }
    sw_harness_result_free(&reference);
    assert_int_equal(wrong, 0);
}

static void test_train_untied(void **state)
{
    (void)state;
    const struct sw_test_variant v = {.zigzag = true};
    check_training(&v, 1);
}

static void test_train_tied_few_kv_heads(void **state)
{
    (void)state;
    const struct sw_test_variant v = {.tied = true,
                                      .few_kv_heads = true,
                                      .residual_tp = true,
                                      .accumulate = true,
                                      .recompute = 2};
    check_training(&v, 1);
}

/* Norms of all heads, whose sums cross tp, norms behind blocks, multipliers. */
static void test_train_other_blocks(void **state)
{
    (void)state;
    const struct sw_test_variant v = {.zigzag = true, .other_blocks = true, .recompute = 1};
    const struct sw_test_variant few = {
        .tied = true, .few_kv_heads = true, .residual_tp = true, .other_blocks = true};
    check_training(&v, 1);
    check_training(&few, 1);
}

/* What travels round the ring in bf16. */
static void test_train_bf16_hops(void **state)
{
    (void)state;
    const struct sw_test_variant v = {.zigzag = true, .few_kv_heads = true, .bf16_hops = true};
    check_training(&v, 1);
}

/* Whatever is split, with several micro-steps and a tied head. */
static void test_train_shardings(void **state)
{
    (void)state;
    const struct sw_test_variant v = {
        .tied = true, .zigzag = true, .accumulate = true, .recompute = 1};
    check_training(&v, SW_TEST_SHARDINGS);
}

/* The same for rings of rings of two, and in fp32. */
static void test_train_inner_rings(void **state)
{
    (void)state;
    const struct sw_test_variant fp32 = {.zigzag = true, .tied = true, .inner_ring = 2};
    const struct sw_test_variant bf16 = {.accumulate = true, .bf16_hops = true, .inner_ring = 2};
    check_training(&fp32, 1);
    check_training(&bf16, 1);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        stride = (int32_t)strtol(argv[1], NULL, 10);
    if (argc > 2)
        steps = (int32_t)strtol(argv[2], NULL, 10);
    if (stride < 1 || (stride > 1 && (stride % 2 == 0 || stride % 3 == 0)) || steps < 2 ||
        steps > STEPS) {
        fprintf(stderr, "usage: test_meshes [STRIDE [STEPS]], a stride coprime to 2 and 3\n");
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_variants_admitted),
        cmocka_unit_test(test_shardings),
        cmocka_unit_test(test_one_step_in_double),
        cmocka_unit_test(test_axis_orders),
        cmocka_unit_test(test_inner_rings),
        cmocka_unit_test(test_train_untied),
        cmocka_unit_test(test_train_tied_few_kv_heads),
        cmocka_unit_test(test_train_other_blocks),
        cmocka_unit_test(test_train_shardings),
        cmocka_unit_test(test_train_bf16_hops),
        cmocka_unit_test(test_train_inner_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
