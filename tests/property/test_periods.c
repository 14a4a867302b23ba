/* A period of layers that are alike changes no bit. Uniform models whose layers are taken several
 * at a time, with whatever is left at both ends, and sets of values made again in some of the first
 * layers, on every mesh: losses, gradient norms and gradients are those of one layer at a time, and
 * as many bytes are allocated as planned. At the size of models that people train, memory and time
 * stay within 1 %, and one program of a structure becomes any other. The argument is the number of
 * draws that each mesh is tried with. */
#include "core/config/config.h"
#include "core/cost/cost.h"
#include "core/passes/retarget.h"
#include "tests/support/harness.h"
#include "tests/support/recompute.h"
#include "tests/support/share.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { STEPS = 2, KINDS = 6, FIRST_SET = 3 };

static int32_t draws = 2;

/* A program may be so in other ways as well: number of the kind of model and of run. */
static struct sw_program_options make_options(struct sw_mesh mesh, int32_t kind, int32_t layers)
{
    const bool biased = kind == 1, wide = kind == 2, many = kind % 2 == 0;
    struct sw_program_options o = {
        .model.vocab_size = 24,
        .model.hidden_size = 16,
        .model.intermediate_size = 24,
        .model.layers = layers,
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

static void run(const struct sw_program_options *options, struct sw_harness_result *result)
{
    const struct sw_harness harness = {
        .options = options,
        .seed = 11,
        .stddev = 0.3,
        .spread_norms = true,
        .ignored = 7,
        .steps = STEPS,
        .step = {.learning_rate = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .grad_clip = 1.0},
        .values = gradients,
        .evaluate_every = true,
    };
    struct sw_error err = {0};
    if (sw_harness_run(&harness, result, &err) != 0)
        fail_msg("%s", err.message);
}

static void describe(const struct sw_program_options *o, int32_t kind, char text[512])
{
    char sizes[64], again[SW_RECOMPUTE_BYTES];
    const int32_t layers = o->model.layers;
    snprintf(text, 512, "mesh %s kind %d, %d layers by %d, %s",
             sw_mesh_format(&o->mesh, sizes, sizeof sizes), kind, layers, o->model.period,
             sw_recompute_describe(sw_recompute_normal(o->recompute, layers), layers, again));
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
                    differs(text, "the norm", r.grad_norm, kept->grad_norm, STEPS) +
                    differs(text, "what was evaluated", r.evaluated, kept->evaluated, STEPS);
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
        const int32_t kind = m / share % KINDS, layers = 2 + m % 7;
        struct sw_harness_result kept;
        struct sw_program_options o = make_options(meshes[m], kind, layers);
        if (sw_program_admits(&o, NULL, NULL) != SW_FITS)
            continue;
        run(&o, &kept);
        for (int32_t i = 0; i < draws; i++, tested++) {
            o.model.period = (uint8_t)(2 + (m / 3 + i) % 5);
            o.recompute = sw_test_recompute(number++, &o.model, layers);
            wrong += check(&o, kind, &kept);
        }
        sw_harness_result_free(&kept);
    }
    assert_int_equal(tested, (SW_HARNESS_MESHES + share - 1) / share * draws);
    assert_int_equal(wrong, 0);
}

/* 1B by shape, on 8 H100. */
static struct sw_program_options make_large(struct sw_mesh mesh, enum sw_program_kind kind)
{
    struct sw_program_options o = {.kind = kind,
                                   .model = {.vocab_size = 32000,
                                             .hidden_size = 2048,
                                             .intermediate_size = 5632,
                                             .layers = 26,
                                             .heads = 16,
                                             .kv_heads = 8,
                                             .head_dim = 128,
                                             .rope.theta = 1e4,
                                             .rms_norm_eps = 1e-5},
                                   .sequence_length = 4096,
                                   .global_batch = 16,
                                   .micro_batch_per_rank = 1,
                                   .compute = SW_BF16_T,
                                   .params = SW_F32,
                                   .reduce = SW_F32,
                                   .mesh = mesh,
                                   .layout = SW_ZIGZAG};
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    return o;
}

static struct sw_program *compile(const struct sw_program_options *o)
{
    struct sw_program *p = NULL;
    struct sw_error err = {0};
    if (sw_program_compile(o, SW_LAID_OUT, &p, &err) != 0)
        fail_msg("%s", err.message);
    return p;
}

static double price(const struct sw_program *p, const struct sw_cluster_config *cluster)
{
    struct sw_cost cost;
    struct sw_error err = {0};
    if (sw_cost_price(p, cluster, NULL, &cost, &err) != 0)
        fail_msg("%s", err.message);
    return cost.step_seconds;
}

static void test_memory_and_time_stay(void **state)
{
    (void)state;
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    struct sw_error err = {0};
    struct sw_config *config =
        sw_config_read("configs/runs/llama-8b-64.yaml", SW_CONFIG_RUN, NULL, NULL, 0, &err);
    assert_non_null(config);
    const struct sw_cluster_config *cluster = &sw_config_run(config)->cluster;
    sw_harness_meshes(meshes);
    for (int32_t m = 0; m < SW_HARNESS_MESHES; m++) {
        struct sw_program_options o = make_large(meshes[m], SW_PROGRAM_TRAIN);
        o.recompute = sw_test_recompute((uint32_t)(FIRST_SET + m), &o.model, o.model.layers);
        if (sw_program_admits(&o, NULL, NULL) != SW_FITS)
            continue;
        struct sw_program *one = compile(&o);
        o.model.period = 6;
        struct sw_program *six = compile(&o);
        char text[512];
        describe(&o, 0, text);
        const double bytes = (double)six->arena_bytes / (double)one->arena_bytes;
        const double seconds = price(six, cluster) / price(one, cluster);
        if (fabs(bytes - 1) > 0.01 || fabs(seconds - 1) > 0.01)
            fail_msg("%s: %.4f of the bytes, %.4f of the time", text, bytes, seconds);
        sw_program_free(one);
        sw_program_free(six);
    }
    sw_config_free(config);
}

static void test_cuts_inside_a_period(void **state)
{
    (void)state;
    struct sw_program_options o = make_large(sw_mesh_make(2, 2, 2, 1), SW_PROGRAM_TRAIN);
    struct sw_error err = {0};
    for (int32_t from = 1; from < 26; from += 4)
        for (int32_t to = 1; to < 26; to++) {
            struct sw_program_key a, b;
            o.model.period = 5;
            o.recompute =
                (struct sw_recompute){.values = sw_test_values(&o.model, "n1, h"), .layers = from};
            struct sw_program *p = compile(&o);
            sw_program_structure(&o, &a);
            o.recompute.layers = to;
            sw_program_structure(&o, &b);
            if (memcmp(&a, &b, sizeof a) == 0) {
                struct sw_program *direct = compile(&o);
                assert_int_equal(sw_program_retarget(p, &o, &err), 0);
                assert_true(sw_program_digest(p) == sw_program_digest(direct));
                sw_program_free(direct);
            }
            sw_program_free(p);
        }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        draws = (int32_t)strtol(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_bit_changes),
                                       cmocka_unit_test(test_memory_and_time_stay),
                                       cmocka_unit_test(test_cuts_inside_a_period)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
