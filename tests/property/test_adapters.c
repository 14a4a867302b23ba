/* Adapters are the same on every mesh. Ranks, targets and scales are drawn with the parts that
 * models have; B is not zero. On each mesh, for all strategies, loss, gradient norm, gradients and
 * adapters after two steps are those of one rank, and the frozen weights stay as they were. The
 * argument is the number of draws that each mesh is tried with. */
#include "tests/support/harness.h"

#include "core/base/quantize.h"
#include "tests/support/share.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SEQUENCE = 32, BATCH = 8, VOCAB = 24, LAYERS = 2, STEPS = 2 };

static int32_t draws = 1;
static uint64_t state_of_draws = 20261130;

static int32_t draw(int32_t below)
{
    state_of_draws = state_of_draws * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((state_of_draws >> 33) % (uint64_t)below);
}

/* Largest difference that is none, by the largest element. */
static double tolerance(const struct sw_program_options *o)
{
    return o->compute == SW_F64 ? 1e-9 : o->compute == SW_F32 ? 1e-3 : 0.1;
}

static void draw_adapters(struct sw_program_options *o)
{
    for (int32_t i = 0; i < SW_LORA_TARGETS; i++)
        if (draw(3) > 0) {
            o->lora.rank[i] = 1 + draw(9);
            o->lora.scale[i] = sw_lora_scale(1 + draw(16), o->lora.rank[i], draw(2) == 0);
        }
    if (!sw_lora_is_set(&o->lora)) {
        o->lora.rank[SW_LORA_DOWN] = 3;
        o->lora.scale[SW_LORA_DOWN] = 2;
    }
}

static struct sw_program_options draw_options(void)
{
    static const enum sw_dtype bases[] = {SW_F32, SW_BF16_T, SW_I8, SW_E4M3};
    struct sw_program_options o = {.model.vocab_size = VOCAB,
                                   .model.hidden_size = 18 - 2 * draw(2), /* fsdp may pad it */
                                   .model.intermediate_size = 24,
                                   .model.layers = LAYERS,
                                   .model.heads = 8,
                                   .model.kv_heads = draw(2) == 0 ? 2 : 8,
                                   .model.head_dim = 4,
                                   .model.rope.theta = 100.0,
                                   .model.rms_norm_eps = 1e-5,
                                   .model.tied = draw(2) == 0,
                                   .model.qkv_bias = draw(2) == 0,
                                   .model.output_bias = draw(2) == 0,
                                   .model.mlp_bias = draw(2) == 0,
                                   .model.qk_norm = draw(3) == 0,
                                   .model.sliding_window = draw(2) * draw(40),
                                   .sequence_length = SEQUENCE,
                                   .global_batch = BATCH};
    o.model.qk_norm_whole = !o.model.qk_norm && draw(3) == 0;
    o.model.post_norm = draw(3) == 0;
    o.model.both_norms = o.model.post_norm && draw(2) == 0;
    o.compute = draw(3) == 0 ? SW_F32 : SW_F64;
    o.params = o.reduce = o.compute;
    o.lora.base = (int32_t)(o.compute == SW_F64 ? SW_F64 : bases[draw(4)]);
    if (draw(8) == 0)
        o.recompute = sw_recompute_full();
    o.segments = draw(3) == 0;
    draw_adapters(&o);
    return o;
}

static void take_mesh(struct sw_program_options *o, struct sw_mesh mesh, int32_t strategy)
{
    o->mesh = mesh;
    const int32_t ways = mesh.size[SW_DP] * mesh.size[SW_FSDP];
    o->micro_batch_per_rank = BATCH / ways / (ways < BATCH && draw(2) == 0 ? 2 : 1);
    sw_rules_default(&o->rules, (enum sw_attention_strategy)strategy);
    if (draw(2) == 0)
        o->rules.axes[SW_L_RESIDUAL_SEQ] = (struct sw_axes){2, {SW_SP, SW_TP}};
}

static void run(const struct sw_program_options *options, struct sw_harness_result *result)
{
    static const char *const targets[SW_LORA_TARGETS] = {"wq",     "wk",   "wv",    "wo",
                                                         "w_gate", "w_up", "w_down"};
    static char names[SW_HARNESS_MAX_VALUES][SW_NAME_BYTES];
    static const char *wanted[SW_HARNESS_MAX_VALUES + 1];
    static int32_t segments[STEPS * BATCH * SEQUENCE];
    int32_t n = 0;
    for (int32_t i = 0; i < SW_LORA_TARGETS && n + 3 < SW_HARNESS_MAX_VALUES; i++)
        if (options->lora.rank[i] > 0) {
            snprintf(names[n++], SW_NAME_BYTES, "grad %s_a", targets[i]);
            snprintf(names[n++], SW_NAME_BYTES, "grad %s_b", targets[i]);
            snprintf(names[n++], SW_NAME_BYTES, "%s_a", targets[i]);
        }
    for (int32_t i = 0; i <= n; i++)
        wanted[i] = i < n ? names[i] : NULL;
    for (int32_t i = 0; i < STEPS * BATCH * SEQUENCE; i++)
        segments[i] = i % SEQUENCE / 11;
    const struct sw_harness harness = {
        .options = options,
        .seed = 5,
        .stddev = 0.3,
        .spread_norms = true,
        .ignored = 7,
        .segments = options->segments ? segments : NULL,
        .steps = STEPS,
        .step = {.learning_rate = 1e-2,
                 .beta1 = 0.9,
                 .beta2 = 0.95,
                 .eps = 1e-4,
                 .weight_decay = 0.1,
                 .grad_clip = 1},
        .values = wanted,
    };
    struct sw_error err = {0};
    if (sw_harness_run(&harness, result, &err) != 0)
        fail_msg("%s", err.message);
}

static void describe(const struct sw_program_options *o, char text[256])
{
    char sizes[64];
    snprintf(text, 256,
             "mesh %s %s, hidden %d, base %s of %s, micro-batch %d, rules %d, ranks %d %d %d %d %d "
             "%d %d",
             sw_mesh_format(&o->mesh, sizes, sizeof sizes),
             o->rules.axes[SW_L_KEY_SEQ].count > 0    ? "ring"
             : o->rules.axes[SW_L_ATTN_SEQ].count > 0 ? "gather"
                                                      : "ulysses",
             (int)o->model.hidden_size, sw_dtype_name((enum sw_dtype)o->lora.base),
             sw_dtype_name(o->compute), (int)o->micro_batch_per_rank,
             (int)o->rules.axes[SW_L_RESIDUAL_SEQ].count, (int)o->lora.rank[0],
             (int)o->lora.rank[1], (int)o->lora.rank[2], (int)o->lora.rank[3], (int)o->lora.rank[4],
             (int)o->lora.rank[5], (int)o->lora.rank[6]);
}

static int32_t differs(const struct sw_program_options *o, const char *text, const char *what,
                       double difference)
{
    if (difference <= tolerance(o))
        return 0;
    print_error("%s: %s differs by %g\n", text, what, difference);
    return 1;
}

/* Relative difference of two numbers, which may both be 0: keys of queries that see themselves
 * alone have no gradient. */
static double apart(double is, double was)
{
    return is == was ? 0 : fabs(is / was - 1);
}

/* Difference by the largest element, or by a hundredth of the whole gradient's norm: what is
 * smaller carries the rounding of what is larger. */
static double apart_by_norm(const struct sw_harness_value *is, const struct sw_harness_value *was,
                            double norm)
{
    double largest = 0;
    for (int64_t i = 0; i < was->elems; i++)
        largest = fmax(largest, fabs(was->data[i]));
    const double difference = sw_harness_difference(is->data, was->data, was->elems);
    return largest > 0 ? difference * largest / fmax(largest, norm / 100) : difference;
}

static int32_t check(const struct sw_program_options *o, const struct sw_harness_result *kept)
{
    struct sw_harness_result r;
    char text[256];
    int32_t wrong = 0;
    describe(o, text);
    run(o, &r);
    for (int32_t s = 0; s < STEPS; s++)
        wrong += differs(o, text, "a loss", apart(r.loss[s], kept->loss[s])) +
                 differs(o, text, "a norm", apart(r.grad_norm[s], kept->grad_norm[s]));
    for (int32_t i = 0; i < kept->value_count; i++)
        wrong += differs(o, text, kept->value[i].name,
                         apart_by_norm(&r.value[i], &kept->value[i], kept->grad_norm[STEPS - 1]));
    if (r.rank_differences != 0 && ++wrong)
        print_error("%s: replicas differ\n", text);
    if (r.arena_bytes != r.planned_arena_bytes && ++wrong)
        print_error("%s: the arena is not as planned\n", text);
    sw_harness_result_free(&r);
    return wrong;
}

static void every_mesh_makes_the_same(void **state)
{
    (void)state;
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    int32_t wrong = 0, tried = 0;
    const int32_t share = sw_test_share();
    sw_harness_meshes(meshes);
    for (int32_t i = 0; i < draws; i++)
        for (int32_t m = 1 + i % share; m < SW_HARNESS_MESHES; m += share) {
            struct sw_program_options o = draw_options();
            struct sw_harness_result kept;
            take_mesh(&o, sw_mesh_make(1, 1, 1, 1), 0);
            run(&o, &kept);
            take_mesh(&o, meshes[m], draw(3));
            if (sw_program_admits(&o, NULL, NULL) == SW_FITS) {
                wrong += check(&o, &kept);
                tried++;
            }
            sw_harness_result_free(&kept);
        }
    print_message("%d meshes\n", (int)tried);
    assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        draws = (int32_t)strtol(argv[1], NULL, 10);
    if (argc > 2)
        state_of_draws = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_mesh_makes_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
