/* What backward makes again changes no bit, nor does a kept copy of the weights. Random sets of
 * values in random numbers of layers, on every mesh: losses, gradient norms and gradients in single
 * precision are those of the same mesh when everything is kept, and as many bytes are allocated as
 * planned. The argument is the number of sets that each mesh is tried with. */
#include "core/models/parameters.h"
#include "tests/support/harness.h"
#include "tests/support/recompute.h"
#include "tests/support/share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LAYERS = 4, STEPS = 2, KINDS = 6, FIRST_SET = 3 };

static int32_t sets = 2;

/* A program may be so in other ways as well: number of the kind of model and of run. */
static struct sw_program_options make_options(struct sw_mesh mesh, int32_t kind)
{
    const bool biased = kind == 1, wide = kind == 2, many = kind % 2 == 0;
    struct sw_program_options o = {
        .model.vocab_size = 24,
        .model.hidden_size = 16,
        .model.intermediate_size = 24,
        .model.layers = LAYERS,
        .model.heads = 8,
        .model.kv_heads = kind % 3 == 0 ? 2 : 8,
        .model.head_dim = 2,
        .model.rope.theta = 100.0,
        .model.rms_norm_eps = 1e-5,
        .model.tied = kind == 4,
        .model.qkv_bias = biased,
        .model.output_bias = biased,
        .model.mlp_bias = biased,
        .model.qk_norm = wide,
        .sequence_length = 16,
        .global_batch = 16,
        .micro_batch_per_rank = 16 / (mesh.size[SW_DP] * mesh.size[SW_FSDP]) / (many ? 2 : 1),
        .compute = SW_F32,
        .params = SW_F32,
        .reduce = SW_F32,
        .mesh = mesh,
        .layout = SW_ZIGZAG,
    };
    sw_rules_default(&o.rules, (enum sw_attention_strategy)(kind % 3));
    if (kind >= 3)
        o.rules.axes[SW_L_RESIDUAL_SEQ] = (struct sw_axes){2, {SW_SP, SW_TP}};
    return o;
}

static const char *const gradients[] = {"grad embedding",  "grad attention_norm",
                                        "grad wq",         "grad wk",
                                        "grad wv",         "grad wo",
                                        "grad mlp_norm",   "grad w_gate",
                                        "grad w_up",       "grad w_down",
                                        "grad final_norm", NULL};

/* Of the same, which evaluation and saving leave as they are. */
static const char *const weights[] = {
    "embedding", "attention_norm", "wq",   "wk",     "wv",         "wo",
    "mlp_norm",  "w_gate",         "w_up", "w_down", "final_norm", NULL};

static void run(const struct sw_program_options *options, struct sw_harness_result *result)
{
    const bool in_bf16 = options->compute == SW_BF16_T || options->params == SW_BF16_T;
    const struct sw_harness harness = {
        .options = options,
        .seed = 11,
        .stddev = 0.3,
        .spread_norms = options->params == SW_F32,
        .ignored = 7,
        .steps = STEPS,
        .step = {.learning_rate = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .grad_clip = 1.0},
        .values = in_bf16 ? weights : gradients,
        .evaluate_every = in_bf16,
        .save_every = in_bf16,
        .unpoisoned = sw_recompute_equal(options->recompute, sw_recompute_none()),
    };
    struct sw_error err = {0};
    if (sw_harness_run(&harness, result, &err) != 0)
        fail_msg("%s", err.message);
}

static void describe(const struct sw_program_options *o, int32_t kind, char text[512])
{
    char sizes[64], again[SW_RECOMPUTE_BYTES];
    snprintf(text, 512, "mesh %s kind %d, %s", sw_mesh_format(&o->mesh, sizes, sizeof sizes), kind,
             sw_recompute_describe(sw_recompute_normal(o->recompute, LAYERS), LAYERS, again));
}

static int32_t differs(const char *text, const char *what, const double *a, const double *b,
                       int64_t elems)
{
    for (int64_t i = 0; i < elems; i++)
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0) {
            print_error("%s: element %lld of %s is %.17g, not %.17g\n", text, (long long)i, what,
                        a[i], b[i]);
            return 1;
        }
    return 0;
}

static int32_t check(const struct sw_program_options *o, int32_t kind,
                     const struct sw_harness_result *kept)
{
    struct sw_harness_result r;
    char text[512];
    describe(o, kind, text);
    run(o, &r);
    int32_t wrong = differs(text, "the loss", r.loss, kept->loss, STEPS) +
                    differs(text, "the norm", r.grad_norm, kept->grad_norm, STEPS);
    for (int32_t i = 0; i < kept->value_count; i++)
        wrong += differs(text, kept->value[i].name, r.value[i].data, kept->value[i].data,
                         kept->value[i].elems);
    if (r.arena_bytes != r.planned_arena_bytes && ++wrong)
        print_error("%s: %lld bytes allocated, %lld planned\n", text, (long long)r.arena_bytes,
                    (long long)r.planned_arena_bytes);
    if (r.rank_differences != 0 && ++wrong)
        print_error("%s: replicas differ\n", text);
    sw_harness_result_free(&r);
    return wrong;
}

static void test_no_bit_changes(void **state)
{
    (void)state;
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    int32_t wrong = 0, tested = 0;
    const int32_t share = sw_test_share();
    uint32_t number = FIRST_SET;
    sw_harness_meshes(meshes);
    for (int32_t m = 0; m < SW_HARNESS_MESHES; m += share) {
        const int32_t kind = m / share % KINDS;
        struct sw_harness_result kept;
        struct sw_program_options o = make_options(meshes[m], kind);
        if (sw_program_admits(&o, NULL, NULL) != SW_FITS)
            continue;
        run(&o, &kept);
        for (int32_t i = 0; i < sets; i++, tested++) {
            o.recompute = sw_test_recompute(number++, &o.model, LAYERS);
            wrong += check(&o, kind, &kept);
        }
        sw_harness_result_free(&kept);
    }
    assert_int_equal(tested, (SW_HARNESS_MESHES + share - 1) / share * sets);
    assert_int_equal(wrong, 0);
}

/* Of weights that one micro-step or several read, split, gathered or whole; tied and not. Weights
 * that are narrower than products take them have none: AdamW's numbers are not those of a cast. */
static void test_a_kept_copy_is_the_cast(void **state)
{
    (void)state;
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    int32_t wrong = 0;
    sw_harness_meshes(meshes);
    for (int32_t m = 0; m < SW_HARNESS_MESHES; m += 3) {
        const int32_t kind = m / 3 % KINDS;
        struct sw_harness_result cast, kept;
        struct sw_program_options o = make_options(meshes[m], kind);
        const bool narrow = m % 9 == 3;
        o.compute = narrow ? SW_F32 : SW_BF16_T;
        o.params = narrow ? SW_BF16_T : SW_F32;
        o.freeze = m % 2 ? "model.layers.*.mlp" : NULL;
        run(&o, &cast);
        o.keep_copy = true;
        run(&o, &kept);
        char text[512];
        describe(&o, kind, text);
        wrong += differs(text, "the loss", kept.loss, cast.loss, STEPS) +
                 differs(text, "the norm", kept.grad_norm, cast.grad_norm, STEPS) +
                 differs(text, "what was evaluated", kept.evaluated, cast.evaluated, STEPS);
        assert_int_equal(kept.saved_bytes, cast.saved_bytes);
        assert_int_equal(kept.arena_bytes, kept.planned_arena_bytes);
        for (int32_t i = 0; i < kept.value_count; i++)
            wrong += differs(text, kept.value[i].name, kept.value[i].data, cast.value[i].data,
                             kept.value[i].elems);
        assert_int_equal(kept.rank_differences + cast.rank_differences, 0);
        sw_harness_result_free(&cast);
        sw_harness_result_free(&kept);
    }
    assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        sets = (int32_t)strtol(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_bit_changes),
                                       cmocka_unit_test(test_a_kept_copy_is_the_cast)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
