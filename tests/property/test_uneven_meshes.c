/* Meshes that sizes do not divide by compute what one rank computes (docs/architecture.md,
 * Sharding): every mesh of 3, 5, 6, 7 and 12 ranks, with a hidden size and a batch that are no
 * multiples of the ways, ranks that own no rows of a weight and sequences that are padding.
 *
 * In double: loss, gradient norm and gathered gradients of one step. In single: 8 training steps.
 * The arguments are the stride through the variants: coprime to 2 and 3, so that every choice meets
 * every other; 1 runs them all; and fewer steps, where losses are not what is looked for. */
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

/* As in test_meshes: 1e-16 * sqrt(256) * 50 * 1000. */
#define DOUBLE_TOLERANCE 1e-10
/* docs/architecture.md, How we know */
#define FIRST_STEPS_TOLERANCE 1e-5
#define ALL_STEPS_TOLERANCE 1e-4

enum { FIRST_STEPS = 5, STEPS = 8, MOST_MESHES = 64 };

static int32_t stride = 1, steps = STEPS;
static const int32_t rank_counts[] = {3, 5, 6, 7, 12};
enum { RANK_COUNTS = sizeof rank_counts / sizeof rank_counts[0] };

/* Heads, vocabulary and sequence divide by every number of ways that `ranks` has; hidden_size 10
 * does by 2 and 5 only, and 2 ranks + 1 sequences by none. */
static struct sw_program_options make_options(int32_t ranks, struct sw_mesh mesh,
                                              const struct sw_test_variant *v, enum sw_dtype dtype)
{
    const int64_t batch = 2 * ranks + 1, ways = (int64_t)mesh.size[SW_DP] * mesh.size[SW_FSDP];
    const int64_t per_rank = (batch + ways - 1) / ways;
    struct sw_program_options o = {
        .model.vocab_size = 4 * ranks,
        .model.hidden_size = 10,
        .model.intermediate_size = 2 * ranks,
        .model.layers = 2,
        .model.heads = ranks,
        .model.kv_heads = v->few_kv_heads ? 1 : ranks,
        .model.head_dim = 2,
        .model.rope.theta = 100.0,
        .model.rms_norm_eps = 1e-5,
        .model.tied = v->tied,
        .sequence_length = 2 * ranks,
        .global_batch = batch,
        .micro_batch_per_rank = v->accumulate ? (per_rank + 1) / 2 : per_rank,
        .compute = dtype,
        .params = dtype,
        .reduce = dtype,
        .mesh = mesh,
        .layout = v->zigzag ? SW_ZIGZAG : SW_CONTIGUOUS,
    };
    const struct sw_axes residual_sp_tp = {2, {SW_SP, SW_TP}};
    o.recompute = sw_test_recompute(v->recompute, &o.model, 2);
    sw_rules_default(&o.rules, v->strategy);
    if (v->residual_tp)
        assert_int_equal(sw_rules_set(&o.rules, "residual_seq", residual_sp_tp, NULL), 0);
    return o;
}

struct meshes {
    int32_t count;
    struct sw_mesh at[MOST_MESHES];
};

static int add_mesh(const struct sw_mesh *mesh, void *context)
{
    struct meshes *meshes = context;
    assert_in_range(meshes->count, 0, MOST_MESHES - 1);
    meshes->at[meshes->count++] = *mesh;
    return 0;
}

static void run(const struct sw_program_options *options, const struct sw_harness *like,
                struct sw_harness_result *result)
{
    struct sw_harness harness = *like;
    struct sw_error err = {0};
    char sizes[64];
    harness.options = options;
    if (sw_harness_run(&harness, result, &err) != 0)
        fail_msg("mesh %s: %s", sw_mesh_format(&options->mesh, sizes, sizeof sizes), err.message);
}

static int32_t check_ranks(const char *text, const struct sw_harness_result *result)
{
    int32_t wrong = 0;
    if (result->rank_differences != 0 && ++wrong)
        print_error("%s: replicas differ in %lld elements\n", text,
                    (long long)result->rank_differences);
    if (result->arena_bytes != result->planned_arena_bytes && ++wrong)
        print_error("%s: %lld bytes allocated, %lld planned\n", text,
                    (long long)result->arena_bytes, (long long)result->planned_arena_bytes);
    return wrong;
}

/* ---- One step in double ---- */

static void run_one_step(const struct sw_program_options *options, struct sw_harness_result *result)
{
    static const char *const untied[] = {
        "grad embedding",  "grad attention_norm", "grad wq",     "grad wk",   "grad wv",
        "grad wo",         "grad mlp_norm",       "grad w_gate", "grad w_up", "grad w_down",
        "grad final_norm", "grad head",           NULL};
    static const char *const tied[] = {
        "grad embedding", "grad wq",         "grad wo", "grad w_gate",
        "grad w_down",    "grad final_norm", NULL};
    const struct sw_harness harness = {.seed = 5,
                                       .stddev = 0.3,
                                       .spread_norms = true,
                                       .ignored = 7,
                                       .steps = 1,
                                       .step = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
                                       .values = options->model.tied ? tied : untied};
    run(options, &harness, result);
}

static int32_t compare(const char *text, const struct sw_harness_result *result,
                       const struct sw_harness_result *reference)
{
    int32_t wrong = check_ranks(text, result);
    const double loss = sw_harness_difference(result->loss, reference->loss, 1);
    const double norm = sw_harness_difference(result->grad_norm, reference->grad_norm, 1);
    if (!(loss <= DOUBLE_TOLERANCE && norm <= DOUBLE_TOLERANCE) && ++wrong)
        print_error("%s: loss %.15g, gradient norm %.15g, one rank %.15g, %.15g\n", text,
                    result->loss[0], result->grad_norm[0], reference->loss[0],
                    reference->grad_norm[0]);
    for (int32_t i = 0; i < reference->value_count; i++) {
        const struct sw_harness_value *expected = &reference->value[i];
        const struct sw_harness_value *value = sw_harness_find(result, expected->name);
        const double difference =
            sw_harness_difference(value->data, expected->data, expected->elems);
        if (!(difference <= DOUBLE_TOLERANCE) && ++wrong)
            print_error("%s: '%s' differs by %g\n", text, expected->name, difference);
    }
    return wrong;
}

static int32_t check_one_step(const struct sw_program_options *options, const char *text,
                              const struct sw_harness_result *reference)
{
    struct sw_harness_result result;
    run_one_step(options, &result);
    const int32_t wrong = compare(text, &result, reference);
    sw_harness_result_free(&result);
    return wrong;
}

/* One rank, nothing optional: [tied][few kv heads]. */
static void make_references(int32_t ranks, struct sw_harness_result references[2][2])
{
    for (int32_t i = 0; i < 4; i++) {
        const struct sw_test_variant plain = {.tied = i / 2, .few_kv_heads = i % 2};
        const struct sw_program_options options =
            make_options(ranks, sw_mesh_make(1, 1, 1, 1), &plain, SW_F64);
        run_one_step(&options, &references[i / 2][i % 2]);
        assert_true(references[i / 2][i % 2].grad_norm[0] > 0.01);
    }
}

static void test_one_step_in_double(void **state)
{
    (void)state;
    const int32_t share = sw_test_share();
    int32_t wrong = 0, tested = 0, padded = 0, batches = 0;
    for (int32_t c = 0; c < RANK_COUNTS; c++) {
        struct sw_harness_result references[2][2];
        struct meshes meshes = {0};
        make_references(rank_counts[c], references);
        sw_mesh_enumerate(rank_counts[c], add_mesh, &meshes);
        for (int32_t m = c % share; m < meshes.count; m += share)
            for (int32_t i = m % stride; i < SW_TEST_VARIANTS; i += stride) {
                const struct sw_test_variant v = sw_test_variant_at(i);
                const struct sw_program_options options =
                    make_options(rank_counts[c], meshes.at[m], &v, SW_F64);
                const int32_t *size = options.mesh.size;
                char text[192], detail[256], help[256];
                sw_test_variant_describe(&options.mesh, &v, text);
                if (sw_program_admits(&options, detail, help) != SW_FITS) {
                    print_error("%s: %s; %s\n", text, detail, help);
                    wrong++;
                    continue;
                }
                tested++;
                padded += 10 % (size[SW_FSDP] * size[SW_SP]) != 0;
                batches += (int64_t)options.global_batch % (size[SW_DP] * size[SW_FSDP]) != 0;
                wrong += check_one_step(&options, text, &references[v.tied][v.few_kv_heads]);
            }
        for (int32_t i = 0; i < 4; i++)
            sw_harness_result_free(&references[i / 2][i % 2]);
    }
    assert_true(4 * padded > tested && 4 * batches > tested);
    assert_int_equal(wrong, 0);
}

/* 64 rows on 48 ways: two for each of the first 32 ranks, none for the others. */
static void test_ranks_without_rows(void **state)
{
    (void)state;
    const struct sw_test_variant v = {.zigzag = true};
    const struct sw_mesh meshes[] = {sw_mesh_make(1, 48, 1, 1), sw_mesh_make(1, 12, 1, 4)};
    struct sw_program_options options = make_options(24, sw_mesh_make(1, 1, 1, 1), &v, SW_F64);
    struct sw_harness_result reference;
    int32_t wrong = 0;
    options.model.hidden_size = 64;
    options.model.heads = options.model.kv_heads = 2;
    options.sequence_length = 8;
    options.global_batch = options.micro_batch_per_rank = 50;
    run_one_step(&options, &reference);
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
        char text[192];
        options.mesh = meshes[m];
        options.micro_batch_per_rank = 1;
        wrong +=
            check_one_step(&options, sw_test_variant_describe(&meshes[m], &v, text), &reference);
    }
    sw_harness_result_free(&reference);
    assert_int_equal(wrong, 0);
}

/* What splits the batch and the sequence need not be what splits a weight: then the products of its
 * shards have to stay whole. */
static void test_other_rules(void **state)
{
    (void)state;
    const struct sw_test_variant v = {.zigzag = true};
    struct sw_harness_result references[2][2];
    int32_t wrong = 0;
    make_references(6, references);
    for (int32_t i = 0; i < 4; i++) {
        struct sw_program_options options = make_options(
            6, i % 2 == 0 ? sw_mesh_make(1, 3, 1, 2) : sw_mesh_make(2, 3, 1, 1), &v, SW_F64);
        const struct sw_axes dp = {1, {SW_DP}}, none = {0}, fsdp = {1, {SW_FSDP}};
        char text[192];
        assert_int_equal(sw_rules_set(&options.rules, "batch", dp, NULL), 0);
        if (i >= 2)
            assert_int_equal(sw_rules_set(&options.rules, "embed", fsdp, NULL), 0);
        assert_int_equal(sw_rules_set(&options.rules, "act_embed", none, NULL), 0);
        options.micro_batch_per_rank = options.global_batch / options.mesh.size[SW_DP];
        wrong += check_one_step(&options, sw_test_variant_describe(&options.mesh, &v, text),
                                &references[0][0]);
    }
    for (int32_t i = 0; i < 4; i++)
        sw_harness_result_free(&references[i / 2][i % 2]);
    assert_int_equal(wrong, 0);
}

/* ---- Training in single ---- */

static void train(int32_t ranks, struct sw_mesh mesh, const struct sw_test_variant *v,
                  struct sw_harness_result *result)
{
    const struct sw_program_options options = make_options(ranks, mesh, v, SW_F32);
    const struct sw_harness harness = {.seed = 9,
                                       .stddev = 0.2,
                                       .unpoisoned = sw_mesh_rank_count(&mesh) == 1,
                                       .steps = steps,
                                       .step = {.learning_rate = 5e-3,
                                                .beta1 = 0.9,
                                                .beta2 = 0.95,
                                                .eps = 1e-8,
                                                .weight_decay = 0.1,
                                                .grad_clip = 1.0}};
    run(&options, &harness, result);
}

static int32_t check_training(int32_t ranks, struct sw_mesh mesh, const struct sw_test_variant *v,
                              const struct sw_harness_result *reference)
{
    struct sw_harness_result result;
    char text[192];
    sw_test_variant_describe(&mesh, v, text);
    train(ranks, mesh, v, &result);
    int32_t wrong = check_ranks(text, &result);
    for (int32_t s = 0; s < steps; s++) {
        const double difference = sw_harness_difference(&result.loss[s], &reference->loss[s], 1);
        const double tolerance = s < FIRST_STEPS ? FIRST_STEPS_TOLERANCE : ALL_STEPS_TOLERANCE;
        if (!(difference <= tolerance) && ++wrong)
            print_error("%s: loss of step %d %.9g, one rank %.9g\n", text, (int)s + 1,
                        result.loss[s], reference->loss[s]);
    }
    sw_harness_result_free(&result);
    return wrong;
}

static void test_train(void **state)
{
    (void)state;
    static const struct sw_test_variant variants[] = {{.zigzag = true},
                                                      {.tied = true,
                                                       .few_kv_heads = true,
                                                       .residual_tp = true,
                                                       .accumulate = true,
                                                       .recompute = 2}};
    const int32_t share = sw_test_share();
    int32_t wrong = 0;
    for (int32_t c = 0; c < RANK_COUNTS; c++)
        for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
            struct sw_harness_result reference;
            struct meshes meshes = {0};
            train(rank_counts[c], sw_mesh_make(1, 1, 1, 1), &variants[i], &reference);
            assert_true(isfinite(reference.loss[steps - 1]));
            sw_mesh_enumerate(rank_counts[c], add_mesh, &meshes);
            for (int32_t m = (c + (int32_t)i + 1) % share; m < meshes.count; m += share)
                wrong += check_training(rank_counts[c], meshes.at[m], &variants[i], &reference);
            sw_harness_result_free(&reference);
        }
    assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        stride = (int32_t)strtol(argv[1], NULL, 10);
    if (argc > 2)
        steps = (int32_t)strtol(argv[2], NULL, 10);
    if (stride < 1 || (stride > 1 && (stride % 2 == 0 || stride % 3 == 0)) || steps < 2 ||
        steps > STEPS) {
        fprintf(stderr,
                "usage: test_uneven_meshes [STRIDE [STEPS]], a stride coprime to 2 and 3\n");
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_step_in_double),
        cmocka_unit_test(test_ranks_without_rows),
        cmocka_unit_test(test_other_rules),
        cmocka_unit_test(test_train),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
