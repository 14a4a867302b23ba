/* What a rank sends of weights and gradients, by what is split of them: the table below, written
 * down before it was counted. P: elements of all matrices on one rank of tp; n: ranks that split
 * weights or masters; a collective of P elements sends P (n - 1) / n of them, an all_reduce twice
 * that. A: micro-steps. Weights travel in the precision of compute, gradients in that of `reduce`,
 * but for what is reduced once a step, which is a sum of several micro-steps and in fp32.
 *
 *                 | all_gather            | reduce_scatter | over dp
 *     zero 3      | A (2 layers + E + 2 H)| A P            | all_reduce of a shard
 *     kept        | A P                   | A P            | all_reduce of a shard
 *     zero 2      | P                     | A P            | all_reduce of a shard
 *     zero 1      | P                     | P              | all_reduce of a shard
 *     masters, dp | A (2 layers + E + 2 H)| A P            | reduce_scatter, all_gather of a shard
 *
 * E, H: embedding, which backward does not read, and head. */
#include "core/cost/traffic.h"
#include "core/programs/compile.h"
#include "tests/support/variants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

enum { DP = 2, FSDP = 4, TP = 2, SP = 2, N = FSDP * SP };
enum { HIDDEN = 32, MLP = 48, VOCABULARY = 64, LAYERS = 3, QUERIES = 32, KEYS = 16 };

static struct sw_program *compile(int32_t sharding, int32_t micro_steps, uint8_t period)
{
    struct sw_program_options o = {
        .model = {.vocab_size = VOCABULARY,
                  .hidden_size = HIDDEN,
                  .intermediate_size = MLP,
                  .layers = LAYERS,
                  .heads = 8,
                  .kv_heads = 4,
                  .head_dim = 4,
                  .period = period,
                  .rope.theta = 10000.0,
                  .rms_norm_eps = 1e-5},
        .sequence_length = 32,
        .global_batch = DP * FSDP * micro_steps,
        .micro_batch_per_rank = 1,
        .compute = SW_BF16_T,
        .params = SW_F32,
        .reduce = SW_BF16_T,
        .mesh = sw_mesh_make(DP, FSDP, TP, SP),
        .layout = SW_ZIGZAG,
    };
    struct sw_program *program = NULL;
    struct sw_error err = {0};
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    sw_test_sharding(&o, sharding);
    if (sw_program_compile(&o, SW_LAID_OUT, &program, &err) != 0)
        fail_msg("%s: %s", sw_test_sharding_name(sharding), err.message);
    return program;
}

/* Bytes of matrices that collectives of a kind send over exactly these axes in a step. */
static double sent(const struct sw_program *p, enum sw_op_kind kind, sw_axis_set axes)
{
    double bytes = 0;
    for (struct sw_traffic_walk w = sw_traffic_begin(p); sw_traffic_next(&w);) {
        const struct sw_value *value = &p->values[w.op->in[0].value];
        if (w.op->kind == kind && sw_axes_set(w.axes) == axes && value->ndim == 2 &&
            !sw_traffic_of_batch(value))
            bytes += w.calls * w.sent.bytes;
    }
    return bytes;
}

static double of_layers(void)
{
    return (double)LAYERS * HIDDEN * (2 * QUERIES + 2 * KEYS + 3 * MLP) / TP;
}

static double of_table(void)
{
    return (double)VOCABULARY * HIDDEN / TP;
}

/* Of so many elements over n ranks. */
static double part(double elems, double bytes, double n)
{
    return elems * bytes * (n - 1) / n;
}

static void expect(const struct sw_program *p, const char *name, const char *what,
                   enum sw_op_kind kind, sw_axis_set axes, double expected)
{
    const double is = sent(p, kind, axes);
    if (is != expected)
        fail_msg("%s, %d micro-steps: %.0f bytes %s, expected %.0f", name,
                 (int)p->accumulation_steps, is, what, expected);
}

static void check(int32_t sharding, int32_t micro_steps, uint8_t period)
{
    enum { OF_DP = 1 << SW_DP, OF_FSDP = 1 << SW_FSDP, OF_SP = 1 << SW_SP };
    struct sw_program *p = compile(sharding, micro_steps, period);
    const char *name = sw_test_sharding_name(sharding);
    const double all = of_layers() + 2 * of_table(), steps = micro_steps;
    const double twice = 2 * of_layers() + 3 * of_table();
    const double sum = micro_steps > 1 ? 4 : 2; /* bytes of what is reduced once */
    const bool alone = sharding >= 4 && sharding <= 7, over_dp = sharding == 8;
    const sw_axis_set axes = alone ? OF_FSDP : OF_FSDP | OF_SP;
    const double n = alone ? FSDP : N;
    const double gathered[] = {steps * twice, all, all,         steps * all,  steps * twice,
                               all,           all, steps * all, steps * twice};
    const double scattered[] = {steps, steps, 1, steps, steps, steps, 1, steps, steps};
    const double of_scattered = scattered[sharding] == 1 ? sum : 2;
    expect(p, name, "gathered", SW_OP_ALL_GATHER, axes, part(gathered[sharding], 2, n));
    expect(p, name, "scattered", SW_OP_REDUCE_SCATTER, axes,
           part(scattered[sharding] * all, of_scattered, n));
    /* what is left of the sum over all ranks that have other tokens */
    const sw_axis_set rest = alone ? OF_DP | OF_SP : OF_DP;
    const double others = alone ? DP * SP : DP;
    expect(p, name, "summed", SW_OP_ALL_REDUCE, rest, over_dp ? 0 : 2 * part(all / n, sum, others));
    expect(p, name, "scattered over dp", SW_OP_REDUCE_SCATTER, OF_DP,
           over_dp ? part(all / n, sum, DP) : 0);
    expect(p, name, "gathered over dp", SW_OP_ALL_GATHER, OF_DP,
           over_dp ? part(all / n, 2, DP) : 0);
    sw_program_free(p);
}

static void test_bytes(void **state)
{
    (void)state;
    for (int32_t sharding = 0; sharding <= 8; sharding++)
        for (int32_t micro_steps = 1; micro_steps <= 3; micro_steps++)
            for (uint8_t period = 0; period < 3; period += 2)
                check(sharding, micro_steps, period);
}

/* ZeRO-1 reduces while backward goes on, and what it gathers is issued a layer ahead. */
static void test_when(void **state)
{
    (void)state;
    struct sw_program *p = compile(2, 3, 0);
    int32_t early = 0, ahead = 0, late = 0;
    for (struct sw_walk w = sw_walk_begin(p); sw_walk_each(&w);) {
        const struct sw_op *op = &p->ops[w.op];
        const bool update = p->regions[w.region].phase == SW_PHASE_UPDATE;
        late += update && op->kind == SW_OP_REDUCE_SCATTER;
        early += !update && op->kind == SW_OP_REDUCE_SCATTER && op->last_micro_step;
        ahead += op->kind == SW_OP_ALL_GATHER && op->first_micro_step && op->ahead;
    }
    assert_int_equal(late, 0);
    assert_int_equal(early, 7 + 2);
    assert_int_equal(ahead, 7);
    sw_program_free(p);
}

/* Copies that are kept are counted, and no more of the state than is split is there. */
static void test_state(void **state)
{
    (void)state;
    struct sw_program *three = compile(0, 2, 0), *one = compile(2, 2, 0), *kept = compile(3, 2, 0);
    const int64_t all = (int64_t)(of_layers() + 2 * of_table());
    assert_int_equal(one->parameter_bytes, three->parameter_bytes);
    assert_int_equal(one->optimizer_bytes, three->optimizer_bytes);
    assert_in_range(one->weight_bytes, 2 * all, 2 * all + 9 * SW_ARENA_ALIGNMENT);
    assert_int_equal(three->weight_bytes, 0);
    assert_int_equal(kept->weight_bytes, 0);
    assert_true(kept->activation_bytes >= three->activation_bytes);
    assert_true(one->gradient_bytes > 4 * all);
    sw_program_free(three);
    sw_program_free(one);
    sw_program_free(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_when),
        cmocka_unit_test(test_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
