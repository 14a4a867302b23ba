/* Prices of products of few rows: between what was measured, in programs of serving and nowhere
 * else. */
#include "core/ir/walk.h"
#include "core/ir/workspace.h"
#include "tests/unit/serving_support.h"

#include <string.h>

/* 1 row at 10 GB/s from memory and 20 GB/s from a cache, 4 rows at 4 and 5. */
static const struct sw_skinny_gemm example = {
    4, {{1, 1e6, 20e9}, {1, 1e8, 10e9}, {4, 1e6, 5e9}, {4, 1e8, 4e9}}};

static void lies_between_what_was_measured(void **state)
{
    (void)state;
    close_to(sw_cost_skinny_gemm_bandwidth(&example, 1, 1), 20e9);
    close_to(sw_cost_skinny_gemm_bandwidth(&example, 1, 1e6), 20e9);
    close_to(sw_cost_skinny_gemm_bandwidth(&example, 1, 1e7), 15e9); /* half way in the logarithm */
    close_to(sw_cost_skinny_gemm_bandwidth(&example, 1, 1e8), 10e9);
    close_to(sw_cost_skinny_gemm_bandwidth(&example, 1, 1e12), 10e9);
    close_to(sw_cost_skinny_gemm_bandwidth(&example, 4, 1e9), 4e9);
    /* a byte takes 0.1 ns of one row and 0.25 of four: 0.15 of two */
    close_to(sw_cost_skinny_gemm_bandwidth(&example, 2, 1e9), 1 / 0.15e-9);
    close_to(sw_cost_skinny_gemm_bandwidth(&example, 0.5, 1e9), 10e9);
    assert_true(sw_cost_skinny_gemm_bandwidth(&example, 5, 1e9) == 0);
    const struct sw_skinny_gemm none = {0};
    assert_true(sw_cost_skinny_gemm_bandwidth(&none, 1, 1e9) == 0);
}

/* The ops of one layer and the head, of weights and a cache in either precision: those that are
 * told have their rate, the others what they had. */
static void decoding_rests_on_it(void **state)
{
    (void)state;
    static const enum sw_dtype dtypes[] = {SW_F32, SW_BF16_T};
    static const enum sw_op_kind ops[] = {SW_OP_LINEAR, SW_OP_LINEAR_T, SW_OP_ATTENTION};
    /* wq, wk, wv, gate and up; wo, down and the head; keys and values of 2 texts of 64 tokens */
    static const double elements[] = {128 * (128 + 64 + 64 + 2 * 320), 128 * (128 + 320 + 1000),
                                      2 * 2 * 64 * 64};
    for (int32_t i = 0; i < SW_RATE_DTYPES * SW_SKINNY_KINDS; i++) {
        const int32_t d = i % SW_RATE_DTYPES, k = i / SW_RATE_DTYPES;
        struct sw_cluster_config cluster = cluster_of(), with = cluster;
        struct sw_program_set *set = serving_of(dtypes[d]);
        const struct sw_program *p = set->program[SW_PROGRAM_DECODE];
        double products, same;
        with.profile.skinny_gemm[k][d] = (struct sw_skinny_gemm){2, {{1, 1e6, 3e6}, {2, 1e6, 2e6}}};
        close_to(skinny_seconds(p, ops[k], &with, NULL), elements[k] * (d == 0 ? 4 : 2) / 2e6);
        close_to(sum_of(p, &with, &products) - skinny_seconds(p, ops[k], &with, NULL),
                 sum_of(p, &cluster, &same) - skinny_seconds(p, ops[k], &cluster, NULL));
        /* of the other precision nothing is known */
        with = cluster;
        with.profile.skinny_gemm[k][1 - d] = (struct sw_skinny_gemm){1, {{16, 1e6, 1}}};
        close_to(sum_of(p, &with, &products), sum_of(p, &cluster, &same));
        sw_program_set_free(set);
    }
}

/* Two rows of weights in int8: the bytes at bf16's rate for one, then what the second takes of
 * bf16's; at fp32's where bf16's is not known. */
static void int8_rests_on_what_is_measured(void **state)
{
    (void)state;
    static const double elements = 128 * (128 + 64 + 64 + 2 * 320);
    struct sw_cluster_config cluster = cluster_of(), with = cluster;
    struct sw_program_set *set = serving_in(SW_BF16_T, SW_I8);
    const struct sw_program *p = set->program[SW_PROGRAM_DECODE];
    const double before = skinny_seconds(p, SW_OP_LINEAR, &cluster, NULL);
    with.profile.skinny_gemm[SW_SKINNY_LINEAR][SW_RATE_FP32] =
        (struct sw_skinny_gemm){2, {{1, 1e6, 8e6}, {2, 1e6, 4e6}}};
    close_to(skinny_seconds(p, SW_OP_LINEAR, &with, NULL), elements * (1 / 8e6 + 4 * (1 / 8e6)));
    with.profile.skinny_gemm[SW_SKINNY_LINEAR][SW_RATE_BF16] =
        (struct sw_skinny_gemm){2, {{1, 1e6, 3e6}, {2, 1e6, 2e6}}};
    close_to(skinny_seconds(p, SW_OP_LINEAR, &with, NULL), elements * (1 / 3e6 + 2 * (1 / 6e6)));
    /* of one row more than was measured, as without */
    with.profile.skinny_gemm[SW_SKINNY_LINEAR][SW_RATE_BF16] =
        (struct sw_skinny_gemm){1, {{1, 1e6, 3e6}}};
    close_to(skinny_seconds(p, SW_OP_LINEAR, &with, NULL), before);
    sw_program_set_free(set);
}

/* Of more rows than a device makes as few the program `read` takes what was measured of as many,
 * prefill of the same rows what it takes without. */
static void many_rows_are_few_where_they_are_made_so(void **state)
{
    (void)state;
    enum { BUDGET = 32, ROWS = 128 };
    struct sw_program_options o = options_of(SW_BF16_T);
    struct sw_cluster_config cluster = cluster_of(), with = cluster;
    struct sw_error err = {0};
    double some[2];
    o.mesh = sw_mesh_make(1, 1, 1, 1);
    o.target = sw_device_row(SW_DEVICE_CPU)->target;
    with.profile.skinny_gemm[SW_SKINNY_LINEAR][SW_RATE_BF16] =
        (struct sw_skinny_gemm){2, {{16, 1e6, 3e6}, {ROWS, 1e6, 2e6}}};
    const double weights = 128 * (128 + 64 + 64 + 2 * 320) * 2;
    for (int32_t chunks = 0; chunks < 2; chunks++) {
        const struct sw_serving want = {.max_batch = 4,
                                        .max_tokens = ROWS,
                                        .chunk = chunks == 0 ? 0 : ROWS,
                                        .token_budget = chunks == 0 ? BUDGET : ROWS,
                                        .cache = SW_BF16_T,
                                        .weights = SW_BF16_T};
        const enum sw_program_kind kind = chunks == 0 ? SW_PROGRAM_READ : SW_PROGRAM_PREFILL;
        struct sw_program_set *set = NULL;
        if (sw_program_set_compile_serving(&o, &want, 1u << kind, &set, &err) != 0)
            fail_msg("%s", err.message);
        some[0] = skinny_seconds(set->program[kind], SW_OP_LINEAR, &cluster, NULL);
        some[1] = skinny_seconds(set->program[kind], SW_OP_LINEAR, &with, NULL);
        sw_program_set_free(set);
        assert_true(some[0] > 0);
        close_to(some[1], chunks == 0 ? weights / 2e6 : some[0]);
    }
}

/* Programs of more rows, and training whatever its rows, are priced as without. */
static void nothing_else_does(void **state)
{
    (void)state;
    struct sw_cluster_config cluster = cluster_of(), with = cluster;
    for (int32_t k = 0; k < SW_SKINNY_KINDS; k++)
        with.profile.skinny_gemm[k][SW_RATE_FP32] = (struct sw_skinny_gemm){1, {{2, 1e6, 1e3}}};
    struct sw_program_set *set = serving_of(SW_F32);
    double products, same;
    const struct sw_program *prefill = set->program[SW_PROGRAM_PREFILL];
    assert_true(sum_of(prefill, &cluster, &products) > 0);
    const double all = sum_of(prefill, &with, &same);
    /* the head is of the last token of each text: two rows in prefill, too */
    assert_true(all > sum_of(prefill, &cluster, &products));
    assert_true(same - products > 128 * 1000 * 4 / 1e3 * 0.99 &&
                same - products <= 128 * 1000 * 4 / 1e3);
    sw_program_set_free(set);

    struct sw_program_options o = options_of(SW_F32);
    o.sequence_length = 1;
    o.mesh = sw_mesh_make(1, 1, 1, 1);
    o.global_batch = o.micro_batch_per_rank = 2;
    struct sw_program *train = NULL;
    struct sw_error err = {0};
    if (sw_program_compile(&o, SW_LAID_OUT, &train, &err) != 0)
        fail_msg("%s", err.message);
    assert_true(sw_cost_serving_bytes(train, NULL) == 0);
    close_to(sum_of(train, &with, &same), sum_of(train, &cluster, &products));
    close_to(same, products);
    sw_program_free(train);
}

/* Every op by itself, sorted by what it reads. */
static struct sw_cost_parts sum_alone(const struct sw_program *p,
                                      const struct sw_cluster_config *cluster)
{
    struct sw_cost_parts sum = {0};
    for (int32_t r = 0; r < p->region_count; r++)
        for (int32_t i = 0; i < p->regions[r].op_count; i++) {
            const struct sw_op *op = &p->ops[p->regions[r].first_op + i];
            const double runs = sw_walk_count(p, &p->regions[r], op);
            const double seconds = runs * sw_cost_op_seconds(p, op, cluster, NULL);
            const bool gathers = sw_op_reads(p, op, SW_ROLE_PARAMETER);
            if (sw_op_is_collective((enum sw_op_kind)op->kind)) {
                *(gathers ? &sum.gathers : &sum.reduces) += seconds;
                sum.messages += gathers ? 0 : (int64_t)runs;
            } else if (sw_op_reads(p, op, SW_ROLE_CACHE)) {
                sum.cache += seconds;
            } else if (sw_op_info((enum sw_op_kind)op->kind)->products != NULL) {
                sum.weights += seconds;
            } else {
                sum.rest += seconds;
            }
        }
    return sum;
}

/* Weights, cache, rest and waiting make the time of a run, whatever overlaps, and with links that
 * take no time each is the sum of its ops; collectives are counted each alone. */
static void parts_make_the_price(void **state)
{
    (void)state;
    struct sw_program_options o = options_of(SW_F32);
    o.model.layers = 6;
    o.mesh = sw_mesh_make(1, 2, 1, 2);
    for (int32_t which = 0; which < 8; which++) {
        const bool streams = which % 2 == 1, instant = which / 2 % 2 == 1;
        const struct sw_serving want = {.max_batch = 8,
                                        .max_tokens = 64,
                                        .chunk = 16,
                                        .cache = SW_F32,
                                        .stream_weights = streams};
        struct sw_cluster_config cluster = cluster_of();
        struct sw_program_set *set = NULL;
        struct sw_error err = {0};
        struct sw_cost cost;
        const enum sw_program_kind kind = which / 4 == 1 ? SW_PROGRAM_DECODE : SW_PROGRAM_PREFILL;
        if (instant)
            cluster.link[0] =
                (struct sw_link_config){.name = "l", .spans = 4, .bandwidth = INFINITY};
        else
            cluster.profile.host_time_s = 1e-6;
        if (sw_program_set_compile_serving(&o, &want, 1u << kind, &set, &err) != 0 ||
            sw_cost_price(set->program[kind], &cluster, NULL, &cost, &err) != 0)
            fail_msg("%s", err.message);
        const struct sw_program *p = set->program[kind];
        const struct sw_cost_parts *t = &cost.parts;
        const struct sw_cost_parts sum = sum_alone(p, &cluster);
        close_to(t->weights + t->cache + t->rest, cost.compute_seconds);
        close_to(cost.compute_seconds + t->waiting, cost.step_seconds);
        close_to(t->gathers, sum.gathers);
        close_to(t->reduces, sum.reduces);
        assert_int_equal(t->messages, sum.messages);
        assert_true(t->messages > 0 && t->cache > 0 && t->rest > 0);
        if (instant) {
            close_to(t->weights, sum.weights);
            close_to(t->cache, sum.cache);
            close_to(t->rest, sum.rest);
            assert_true(t->waiting == 0 && t->latency == 0);
        } else {
            /* prefill gathers over sp what decoding splits over it */
            assert_true(t->waiting > 0);
            assert_true((t->gathers > 0) == (streams || kind == SW_PROGRAM_PREFILL));
            assert_true(t->latency > 0 && t->latency < t->reduces);
        }
        sw_program_set_free(set);
    }
}

/* A GPU's kernels read the cache at the memory's speed. In bf16, and of a cache in int8, they reach
 * their part of what the profile says of attention on the tensor cores; in fp32 they have none. */
static void gpus_attend_a_cache_apart(void **state)
{
    (void)state;
    static const enum sw_dtype kinds[][2] = {
        {SW_BF16_T, SW_BF16_T}, {SW_BF16_T, SW_I8}, {SW_F32, SW_F32}};
    static const double token = 4.0 * 2 * 64 * 4 * 32; /* 2 texts, a cache of 64, 4 heads of 32 */
    for (int k = 0; k < 3; k++) {
        struct sw_program_set *set = serving_with(kinds[k][0], kinds[k][0], kinds[k][1]);
        struct sw_cluster_config cluster = cluster_of();
        const double share = sw_device_row(SW_DEVICE_CUDA)->prices.cache_share;
        const double rate = k < 2 ? share * 1e9 : 1e9;
        cluster.accelerator.device = SW_DEVICE_CUDA;
        cluster.profile.attention = (struct sw_curve){.count = 2, .point = {{1, 0.5}, {1e15, 0.5}}};
        cluster.profile.memory = (struct sw_curve){.count = 1, .point = {{1, 0.5}}};
        cluster.profile.launch_latency_s = 0;
        const struct sw_workload workload = {.prompt_tokens = 64};
        const struct sw_program *prefill = set->program[SW_PROGRAM_PREFILL];
        const struct sw_program *decode = set->program[SW_PROGRAM_DECODE];
        double *peak =
            k < 2 ? &cluster.accelerator.peak_bf16_flops : &cluster.accelerator.peak_fp32_flops;
        cluster.accelerator.peak_bf16_flops = cluster.accelerator.peak_fp32_flops = 1;
        for (int32_t i = 0; i < decode->op_count; i++) {
            const struct sw_op *op = &decode->ops[i];
            if (op->kind == SW_OP_ATTENTION) {
                const double bytes = (double)sw_op_cost(decode, op).memory_bytes;
                *peak = 1e13;
                close_to(sw_cost_compute_seconds(decode, op, &cluster, NULL), bytes / (0.5 * 10e9));
                *peak = 1e9;
                close_to(sw_cost_compute_seconds(decode, op, &cluster, NULL), token / (0.5 * rate));
            }
        }
        assert_true(skinny_seconds(decode, SW_OP_ATTENTION, &cluster, &workload) > 0);
        close_to(skinny_seconds(prefill, SW_OP_ATTENTION, &cluster, &workload),
                 skinny_seconds(decode, SW_OP_ATTENTION, &cluster, &workload) * 16 / 2);
        sw_program_set_free(set);
    }
}

/* A GPU widens weights in 8 bits as it reads them for a few rows in bf16. For more, and in fp32, it
 * does so first, and what it then writes and reads is in the arena and in the price. */
static void gpus_widen_weights_in_panels(void **state)
{
    (void)state;
    assert_true(sw_quantized_in_kernel(64, 128, 320, SW_BF16_T));
    assert_false(sw_quantized_in_kernel(65, 128, 320, SW_BF16_T));
    assert_false(sw_quantized_in_kernel(64, 127, 320, SW_BF16_T));
    assert_false(sw_quantized_in_kernel(64, 128, 319, SW_BF16_T));
    for (int which = 0; which < 8; which++) {
        const enum sw_dtype compute = which % 2 ? SW_F32 : SW_BF16_T;
        const enum sw_dtype format = which / 4 ? SW_E4M3 : SW_I8;
        const struct sw_program_target target = {.quantized_panels = which / 2 % 2 == 1};
        struct sw_program_set *set = serving_on(target, compute, format, compute);
        const struct sw_program *p = set->program[SW_PROGRAM_PREFILL];
        const int64_t each = (int64_t)sw_dtype_bytes(compute);
        int32_t found = 0;
        for (int32_t i = 0; i < p->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            if ((op->kind != SW_OP_LINEAR && op->kind != SW_OP_LINEAR_T) ||
                p->values[op->in[1].value].dtype != format)
                continue;
            const struct sw_value *x = &p->values[op->in[0].value];
            const int64_t rows = x->local[0] * x->local[1], inputs = x->local[2];
            const int64_t outputs = p->values[op->out[0].value].local[2];
            const int64_t wide = target.quantized_panels && compute == SW_F32
                                     ? each * inputs * outputs + 4 * rows * outputs
                                     : 0;
            assert_int_equal(op->workspace_bytes, wide);
            assert_true(sw_op_cost(p, op).memory_bytes == each * rows * (inputs + outputs) +
                                                              inputs * outputs + 4 * outputs +
                                                              sw_op_addend_bytes(p, op) + 2 * wide);
            found++;
        }
        assert_true(found >= 7);
        sw_program_set_free(set);
    }
}

/* A chunk of a prompt and a token by queries and the positions that one meets; a token by few_rows
 * where it was measured. */
static void a_cache_is_attended_by_size(void **state)
{
    (void)state;
    struct sw_program_set *set = serving_of(SW_F32);
    const struct sw_program *prefill = set->program[SW_PROGRAM_PREFILL];
    const struct sw_program *decode = set->program[SW_PROGRAM_DECODE];
    /* queries 1 and 16, positions 16 and 64, heads of 16 and 64 */
    const struct sw_products grid = {.rows = 2,
                                     .columns = 2,
                                     .depths = 2,
                                     .row = {1, 16},
                                     .column = {16, 64},
                                     .depth = {16, 64},
                                     .share = {0.02, 0.02, 0.04, 0.04, 0.2, 0.2, 0.4, 0.4}};
    struct sw_cluster_config cluster = cluster_of();
    const struct sw_workload workload = {.prompt_tokens = 64}; /* a query meets 32 of the 64 */
    memset(cluster.profile.skinny_gemm, 0, sizeof cluster.profile.skinny_gemm);
    cluster.profile.launch_latency_s = 0;
    cluster.profile.attention_by_size[SW_ATTENTION_CACHED][SW_RATE_FP32] = &grid;
    const double peak = cluster.accelerator.peak_fp32_flops;
    int32_t seen = 0;
    for (int32_t i = 0; i < prefill->op_count; i++) {
        const struct sw_op *op = &prefill->ops[i];
        if (op->kind != SW_OP_ATTENTION)
            continue;
        assert_int_equal(prefill->values[op->in[0].value].local[1], 16);
        close_to(sw_cost_compute_seconds(prefill, op, &cluster, &workload),
                 sw_op_cost(prefill, op).flops / 2 / (peak * 0.3));
        seen++;
    }
    for (int32_t i = 0; i < decode->op_count; i++) {
        const struct sw_op *op = &decode->ops[i];
        if (op->kind != SW_OP_ATTENTION)
            continue;
        close_to(sw_cost_compute_seconds(decode, op, &cluster, &workload),
                 sw_op_cost(decode, op).flops / (peak * 0.04));
        cluster.profile.skinny_gemm[SW_SKINNY_ATTENTION][SW_RATE_FP32] =
            (struct sw_skinny_gemm){1, {{16, 1e6, 1e9}}};
        double rows;
        close_to(sw_cost_compute_seconds(decode, op, &cluster, &workload),
                 sw_cost_skinny_gemm_reads(decode, op, &rows) / 1e9);
        cluster.profile.skinny_gemm[SW_SKINNY_ATTENTION][SW_RATE_FP32].count = 0;
        seen++;
    }
    assert_true(seen >= 2);
    sw_program_set_free(set);
}

/* What was measured over a cache of fp32 is not said of one of int8. */
static void another_cache_is_not_attended_by_size(void **state)
{
    (void)state;
    struct sw_program_set *set = serving_with(SW_F32, SW_F32, SW_I8);
    const struct sw_program *p = set->program[SW_PROGRAM_PREFILL];
    const struct sw_products grid = {.rows = 1,
                                     .columns = 1,
                                     .depths = 1,
                                     .row = {1},
                                     .column = {1},
                                     .depth = {1},
                                     .share = {1e-6}};
    struct sw_cluster_config cluster = cluster_of();
    const struct sw_workload workload = {.prompt_tokens = 64};
    int32_t seen = 0;
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        if (op->kind != SW_OP_ATTENTION)
            continue;
        cluster.profile.attention_by_size[SW_ATTENTION_CACHED][SW_RATE_FP32] = NULL;
        const double without = sw_cost_compute_seconds(p, op, &cluster, &workload);
        cluster.profile.attention_by_size[SW_ATTENTION_CACHED][SW_RATE_FP32] = &grid;
        close_to(sw_cost_compute_seconds(p, op, &cluster, &workload), without);
        seen++;
    }
    assert_true(seen > 0);
    sw_program_set_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_between_what_was_measured),
        cmocka_unit_test(decoding_rests_on_it),
        cmocka_unit_test(int8_rests_on_what_is_measured),
        cmocka_unit_test(many_rows_are_few_where_they_are_made_so),
        cmocka_unit_test(nothing_else_does),
        cmocka_unit_test(parts_make_the_price),
        cmocka_unit_test(gpus_attend_a_cache_apart),
        cmocka_unit_test(gpus_widen_weights_in_panels),
        cmocka_unit_test(a_cache_is_attended_by_size),
        cmocka_unit_test(another_cache_is_not_attended_by_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
