/* What of its programs a workload of serving meets: weights once, of a cache what a prompt has
 * before a token of it, and who asks for the most probable tokens. */
#include "tests/unit/serving_support.h"

/* Every weight and the whole cache once, and the few rows that go with them. */
static void a_token_reads_weights_and_cache(void **state)
{
    (void)state;
    struct sw_program_set *set = serving_of(SW_F32);
    const struct sw_program *p = set->program[SW_PROGRAM_DECODE];
    const double least = (double)(set->state.parameter_bytes + set->state.cache_bytes);
    const double bytes = sw_cost_serving_bytes(p, NULL);
    assert_true(bytes > 0.99 * least && bytes < 1.1 * least);
    sw_program_set_free(set);
}

/* Chunks of 16 in a cache of 64: a prompt's tokens have half of the prompt before them, whatever
 * room the cache has behind it; a decoded one is priced with all of it. */
static void a_chunk_meets_its_prompt(void **state)
{
    (void)state;
    struct sw_program_set *set = serving_of(SW_F32);
    const struct sw_program *prefill = set->program[SW_PROGRAM_PREFILL];
    struct sw_cluster_config cluster = cluster_of();
    cluster.profile.attention = (struct sw_curve){.count = 1, .point = {{1, 0.5}}};
    cluster.accelerator.memory_bandwidth = 1e30;
    cluster.profile.launch_latency_s = 0;
    /* 2 texts x 16 queries x 4 heads of 32, 4 FLOP for each pair */
    const double pair = 4.0 * 2 * 16 * 4 * 32 / (0.5 * 100e9);
    static const struct {
        int64_t prompt;
        double met;
    } cases[] = {{64, 32}, {32, 16}, {16, 8}, {3, 8}, {0, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct sw_workload workload = {.prompt_tokens = cases[i].prompt};
        close_to(skinny_seconds(prefill, SW_OP_ATTENTION, &cluster, &workload),
                 pair * cases[i].met);
        close_to(
            skinny_seconds(set->program[SW_PROGRAM_DECODE], SW_OP_ATTENTION, &cluster, &workload),
            pair / 16 * 64);
    }
    sw_program_set_free(set);
}

/* Rows of single tokens meet what a prompt of theirs has before them, those of texts that run a
 * full cache; so they do where few rows were measured, and where prices were known of another
 * workload.
 */
static void rows_that_mix_meet_what_they_are_of(void **state)
{
    (void)state;
    enum { SLOTS = 2, ROWS = 8, MOST = 64 };
    struct sw_program_options o = options_of(SW_F32);
    o.target = sw_device_row(SW_DEVICE_CPU)->target;
    o.mesh = sw_mesh_make(1, 1, 1, 1);
    const struct sw_serving want = {
        .max_batch = SLOTS, .max_tokens = MOST, .token_budget = ROWS, .cache = SW_F32};
    struct sw_program_set *set = NULL;
    struct sw_error err = {0};
    if (sw_program_set_compile_serving(&o, &want, 1u << SW_PROGRAM_PREFILL, &set, &err) != 0)
        fail_msg("%s", err.message);
    const struct sw_program *p = set->program[SW_PROGRAM_PREFILL];
    assert_int_equal(p->sequence_length, 1);
    assert_int_equal(p->micro_batch, ROWS);
    struct sw_cluster_config cluster = cluster_of();
    cluster.profile.attention = (struct sw_curve){.count = 1, .point = {{1, 0.5}}};
    cluster.accelerator.memory_bandwidth = 1e30;
    cluster.profile.launch_latency_s = 0;
    const double pair = 4.0 * 4 * 32 / (0.5 * 100e9); /* 4 heads of 32, 4 FLOP for each pair */
    const struct sw_workload alone = {.prompt_tokens = 32},
                             beside = {.prompt_tokens = 32, .running = SLOTS};
    close_to(skinny_seconds(p, SW_OP_ATTENTION, &cluster, &alone), pair * ROWS * 16);
    close_to(skinny_seconds(p, SW_OP_ATTENTION, &cluster, &beside),
             pair * (SLOTS * MOST + (ROWS - SLOTS) * 16));
    /* bytes of 2 slots: 16 positions of each, or all */
    const double reads[] = {sw_cost_serving_bytes(p, &alone), sw_cost_serving_bytes(p, &beside)};
    assert_true(reads[0] < reads[1] - 0.7 * (double)set->state.cache_bytes);
    cluster = cluster_of();
    cluster.profile.launch_latency_s = 0;
    for (int32_t kind = 0; kind < SW_SKINNY_KINDS; kind++)
        cluster.profile.skinny_gemm[kind][SW_RATE_FP32] =
            (struct sw_skinny_gemm){.count = 1, .point = {{16, 1, 1e9}}};
    const double full = skinny_seconds(p, SW_OP_ATTENTION, &cluster, &beside);
    close_to(skinny_seconds(p, SW_OP_ATTENTION, &cluster, &alone), full / 4);
    struct sw_cost_known known = {0};
    struct sw_cost cost[3];
    assert_int_equal(sw_cost_known_make(p, &known, &err), 0);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(
            sw_cost_price_known(p, &cluster, i == 1 ? &beside : &alone, &known, &cost[i], &err), 0);
    close_to(cost[1].step_seconds - cost[0].step_seconds, p->layers * full * 3 / 4);
    assert_true(cost[2].step_seconds == cost[0].step_seconds);
    sw_cost_known_free(&known);
    sw_program_set_free(set);
}

/* What a chunk takes follows from the rows that it has, not from how many texts there are. */
static void a_chunk_takes_its_rows_time(void **state)
{
    (void)state;
    const struct sw_program_options o = options_of(SW_F32);
    const struct sw_cluster_config cluster = cluster_of();
    const struct sw_workload workload = {.prompt_tokens = 64};
    double seconds[2][3];
    for (int32_t kv = 0; kv < 2; kv++)
        for (int32_t i = 0; i < 3; i++) {
            const struct sw_serving want = {.max_batch = i < 2 ? 8 << 4 * i : 8,
                                            .max_tokens = 64,
                                            .chunk = 16,
                                            .token_budget = i < 2 ? 0 : 8 * 16,
                                            .gathers = kv ? SW_GATHER_KV : SW_GATHER_QUERIES,
                                            .cache = SW_F32};
            struct sw_program_set *set = NULL;
            struct sw_error err = {0};
            struct sw_cost cost;
            if (sw_program_set_compile_serving(&o, &want, 1u << SW_PROGRAM_PREFILL, &set, &err) !=
                    0 ||
                sw_cost_price(set->program[SW_PROGRAM_PREFILL], &cluster, &workload, &cost, &err) !=
                    0)
                fail_msg("%s", err.message);
            seconds[kv][i] = cost.step_seconds;
            sw_program_set_free(set);
        }
    for (int32_t kv = 0; kv < 2; kv++) {
        close_to(seconds[kv][1], seconds[kv][0]);
        assert_true(seconds[kv][2] > seconds[kv][0]);
    }
}

/* The logits are read for the most probable tokens as often as somebody asks for them. */
static void asks_for_top_tokens(void **state)
{
    (void)state;
    struct sw_program_set *set = serving_of(SW_F32);
    const struct sw_program *decode = set->program[SW_PROGRAM_DECODE];
    struct sw_cluster_config cluster = cluster_of();
    cluster.profile.memory = (struct sw_curve){.count = 1, .point = {{1, 0.5}}};
    struct sw_workload workload = {.top_share = 1};
    const double launch = cluster.profile.launch_latency_s;
    const double always = skinny_seconds(decode, SW_OP_TOP_TOKENS, &cluster, &workload) - launch;
    /* 2 texts on a rank, a vocabulary of 1000 */
    assert_true(always >= 2 * 1000 * 4 / (0.5 * 10e9));
    workload.top_share = 0.25;
    close_to(skinny_seconds(decode, SW_OP_TOP_TOKENS, &cluster, &workload) - launch, always / 4);
    workload.top_share = 0;
    close_to(skinny_seconds(decode, SW_OP_TOP_TOKENS, &cluster, &workload), launch);
    sw_program_set_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_reads_weights_and_cache),
        cmocka_unit_test(a_chunk_meets_its_prompt),
        cmocka_unit_test(rows_that_mix_meet_what_they_are_of),
        cmocka_unit_test(a_chunk_takes_its_rows_time),
        cmocka_unit_test(asks_for_top_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
