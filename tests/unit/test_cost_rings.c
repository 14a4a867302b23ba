/* What a ring over sp takes: blocks that hide its hops, its messages each in its turn, and rings
 * made of inner rings. */
#include "core/cost/links.h"
#include "core/cost/ring.h"
#include "tests/unit/cost_support.h"

/* Liu et al. 2023, table 2: tokens of a block that hide a hop, from a cluster's YAML alone. The
 * table gives two or three digits. */
static void overlap_thresholds(void **state)
{
    (void)state;
    static const struct {
        const char *flops, *bandwidth;
        double thousands, within;
    } rows[] = {{"312 TFLOP/s", "300 GB/s", 1.0, 0.05},   /* A100, NVLink */
                {"312 TFLOP/s", "12.5 GB/s", 24.5, 0.02}, /* A100, InfiniBand */
                {"123 TFLOP/s", "112 GB/s", 1.1, 0.05},   /* TPUv3 */
                {"275 TFLOP/s", "268 GB/s", 1.0, 0.05},   /* TPUv4 */
                {"196 TFLOP/s", "186 GB/s", 1.1, 0.05}};  /* TPUv5e */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        struct sw_error err = {0};
        const int bytes = snprintf(
            text, sizeof text,
            "name: c\nnodes: 2\naccelerators_per_node: 1\naccelerator: {name: a, device: cuda, "
            "memory: 80 GB, peak: {bf16: %s, fp32: 1 TFLOP/s}, memory_bandwidth: 1 TB/s}\n"
            "links: [{name: l, spans: 2, bandwidth: %s, latency: 1 us}]\n",
            rows[i].flops, rows[i].bandwidth);
        struct sw_config *config = sw_config_read_text("c.yaml", text, (size_t)bytes,
                                                       SW_CONFIG_CLUSTER, NULL, NULL, 0, &err);
        const struct sw_cluster_config *c = sw_config_cluster(config);
        assert_non_null(c);
        const double tokens = sw_links_overlap_tokens(c, 0, c->accelerator.peak_bf16_flops) / 1e3;
        assert_true(fabs(tokens - rows[i].thousands) <= rows[i].within * rows[i].thousands);
        sw_config_free(config);
    }
}

/* A ring that leaves its node is flagged with the number when its blocks are short, and only then.
 * 275 TFLOP/s over 5 GB/s: 55,000 tokens, twice that for causal attention, a quarter of it when
 * four query heads share their keys. */
static void flags_short_blocks(void **state)
{
    (void)state;
    char text[192];
    struct sw_test_run t = sw_test_cost_run(2, 1, "90 GB/s", "5 GB/s");
    t.sequence_length = 1 << 18;
    struct sw_cost c = sw_test_price(&t, sw_mesh_make(1, 1, 1, 16), 1);
    sw_test_close_to(c.ring_needs_tokens, 2 * 275e12 / 5e9);
    sw_test_close_to(c.ring_block_tokens, (1 << 18) / 16);
    assert_string_equal(sw_cost_warning(&c, text, sizeof text),
                        "sp crosses 'outer', where compute hides a ring step only for blocks of at "
                        "least 110000 tokens; its blocks have 16384");
    t.kv_heads = 8;
    c = sw_test_price(&t, sw_mesh_make(1, 1, 1, 16), 1);
    sw_test_close_to(c.ring_needs_tokens, 275e12 / 5e9 / 2);
    t.sequence_length = 1 << 20;
    c = sw_test_price(&t, sw_mesh_make(1, 1, 1, 16), 1);
    assert_string_equal(sw_cost_warning(&c, text, sizeof text), "");
    /* in fp32 with its peak, for four bytes of each key and value, or two where they travel so */
    const double peak = 46e12;
    t.kv_heads = 32;
    t.more = "precision: {compute: fp32}\n";
    c = sw_test_price(&t, sw_mesh_make(1, 1, 1, 16), 1);
    sw_test_close_to(c.ring_needs_tokens, 2 * 2 * peak / 5e9);
    t.more = "precision: {compute: fp32, ring: bf16}\n";
    c = sw_test_price(&t, sw_mesh_make(1, 1, 1, 16), 1);
    sw_test_close_to(c.ring_needs_tokens, 2 * peak / 5e9);
    t.more = "";
    t.sequence_length = 1 << 12;
    t.global_batch_size = 4;
    c = sw_test_price(&t, sw_mesh_make(1, 4, 1, 4), 1); /* inside the nodes */
    assert_string_equal(sw_cost_warning(&c, text, sizeof text), "");
}

/* Messages go one after the other, the ring's among them: where the network is all that counts, a
 * step takes as long as all that a rank sends, and hardly longer. */
static void one_message_at_a_time(void **state)
{
    (void)state;
    struct sw_test_run t = sw_test_cost_run(8, 4, "90 GB/s", "5 MB/s");
    t.per_node = 1;
    t.latency = "0";
    const struct sw_cost c = sw_test_price(&t, sw_mesh_make(1, 1, 1, 4), 1);
    const double sending = c.communication_bytes[SW_SP] / (0.9 * 5e6);
    assert_true(c.step_seconds > sending * (1 - sw_test_tolerance));
    assert_true(c.step_seconds < sending * 1.05);
}

/* What a ring sends in bf16 has the bytes of bf16, and where the network is all that counts a step
 * is shorter by their time at least (what waits behind them waits less, too). Two bytes are saved
 * of each element of keys and values, forward twice (it is recomputed) and in backward, where the
 * run is in fp32, and of their gradients, which go one hop further, in any run. */
static void bf16_hops_save_bytes(void **state)
{
    (void)state;
    enum { RANKS = 4, LAYERS = 8, SEQUENCES = 4 };
    static const char *const more[2][2] = {
        {"precision: {compute: fp32}\n", "precision: {compute: fp32, ring: bf16}\n"},
        {"precision: {compute: bf16}\n", "precision: {compute: bf16, ring: bf16}\n"}};
    const int32_t hops[2] = {3 * (RANKS - 1) + RANKS, RANKS};
    const double elems = 2.0 * SEQUENCES * (4096.0 / RANKS) * 4096 * LAYERS;
    for (int compute = 0; compute < 2; compute++) {
        struct sw_cost c[2];
        for (int bf16 = 0; bf16 < 2; bf16++) {
            struct sw_test_run t = sw_test_cost_run(LAYERS, SEQUENCES, "90 GB/s", "5 MB/s");
            t.per_node = 1;
            t.latency = "0";
            t.more = more[compute][bf16];
            c[bf16] = sw_test_price(&t, sw_mesh_make(1, 1, 1, RANKS), 1);
        }
        const double saved = c[0].communication_bytes[SW_SP] - c[1].communication_bytes[SW_SP];
        const double sooner = c[0].step_seconds - c[1].step_seconds;
        sw_test_close_to(saved, elems * 2 * hops[compute]);
        /* but for what converting a block of keys, or of sums at home, takes */
        assert_true(sooner >= saved / (0.9 * 5e6) * (1 - 1e-4));
        assert_true(sooner < saved / (0.9 * 5e6) * 1.2);
    }
}

/* Seconds that ops of a kind take by themselves on the run's cluster. */
static double seconds_of(const struct sw_test_run *t, enum sw_op_kind kind)
{
    struct sw_config *config = sw_test_read_run(t);
    struct sw_error err = {0};
    struct sw_program_options options;
    struct sw_program *p = NULL;
    const struct sw_run_config *run = sw_config_run(config);
    const struct sw_decision decision = {
        .mesh = sw_mesh_make(1, 1, 1, 4), .train.micro_batch_size = 1, .train.layout = SW_ZIGZAG};
    if (sw_plan_program_options(run, &decision, &options, &err) != 0 ||
        sw_program_compile(&options, SW_LAID_OUT, &p, &err) != 0)
        fail_msg("%s", err.message);
    double seconds = 0;
    for (int32_t i = 0; i < p->op_count && seconds == 0; i++)
        if (p->ops[i].kind == kind)
            seconds = sw_cost_compute_seconds(p, &p->ops[i], &run->cluster, NULL);
    sw_program_free(p);
    sw_config_free(config);
    return seconds;
}

/* What bf16 hops save of the network they take of the memory: with each of 4 hops a block of keys
 * and values of 2 bytes an element is widened to 4, and in backward dk and dv are narrowed from 4
 * to 2, and widened once more at home. Computed in bf16 keys and values are what they were. */
static void bf16_hops_are_converted(void **state)
{
    (void)state;
    enum { RANKS = 4 };
    const double block = 2.0 * (4096.0 / RANKS) * 4096 * (2 + 4); /* of 32 heads of 128 */
    static const char *const more[2][2] = {
        {"precision: {compute: fp32}\n", "precision: {compute: fp32, ring: bf16}\n"},
        {"precision: {compute: bf16}\n", "precision: {compute: bf16, ring: bf16}\n"}};
    const double blocks[2][2] = {{RANKS, 2 * RANKS + 1}, {0, RANKS + 1}};
    for (int compute = 0; compute < 2; compute++)
        for (int backward = 0; backward < 2; backward++) {
            const enum sw_op_kind kind = backward ? SW_OP_ATTENTION_GRAD : SW_OP_ATTENTION;
            struct sw_test_run t = sw_test_cost_run(2, 4, "90 GB/s", "5 GB/s");
            double seconds[2];
            for (int bf16 = 0; bf16 < 2; bf16++) {
                t.more = more[compute][bf16];
                seconds[bf16] = seconds_of(&t, kind);
            }
            struct sw_config *config = sw_test_read_run(&t);
            const struct sw_cluster_config *c = &sw_config_run(config)->cluster;
            const double one =
                block / (c->accelerator.memory_bandwidth * c->profile.memory.point[0].fraction) +
                c->profile.launch_latency_s;
            assert_true(fabs(seconds[1] - seconds[0] - blocks[compute][backward] * one) <=
                        1e-9 * seconds[1]);
            sw_config_free(config);
        }
}

/* A ring of rings: with nothing to compute all messages, each in its turn; with much, all of that,
 * and the way home of the last sums. Of 4 rings of 4, forward: 4 rounds of 3 hops in a node, in 3
 * of them 4 pieces beside; backward also 16 hops of sums, pieces in 3 rounds, and a whole block. */
static void inner_rings(void **state)
{
    (void)state;
    const struct sw_axes sp = {1, {SW_SP}};
    const struct sw_mesh mesh = sw_mesh_make(1, 1, 1, 16);
    const struct sw_test_run t = sw_test_cost_run(2, 1, "90 GB/s", "5 GB/s");
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_cluster_config *cluster = &sw_config_run(config)->cluster;
    const double keys = 64e6, sums = 128e6, near = 0.82 * 90e9, far = 0.9 * 5e9;
    const double lag[2] = {cluster->link[0].latency_s, cluster->link[1].latency_s};
    struct sw_ring_blocks blocks = {.ranks = 16, .rings = 4, .travel_bytes = (int64_t)keys};
    struct sw_ring_time time;
    struct sw_span span;
    sw_links_span(cluster, &mesh, sp, &span);
    const double forward = 4 * 3 * (keys / near + lag[0]) + 3 * 4 * (keys / 4 / far + lag[1]);
    sw_ring_time(cluster, &span, true, &blocks, 0, &time);
    sw_test_close_to(time.seconds, forward);
    sw_test_close_to(time.messages, forward);
    sw_ring_time(cluster, &span, true, &blocks, 160, &time);
    sw_test_close_to(time.seconds, 160);
    sw_test_close_to(time.messages, forward);
    blocks.sum_bytes = (int64_t)sums;
    const double home = sums / near + lag[0] + sums / 4 / far + lag[1] + sums / far + lag[1];
    sw_ring_time(cluster, &span, true, &blocks, 0, &time);
    sw_test_close_to(time.messages, forward + 16 * (sums / near + lag[0]) +
                                        3 * 4 * (sums / 4 / far + lag[1]) + sums / far + lag[1]);
    sw_test_close_to(time.seconds, time.messages);
    sw_ring_time(cluster, &span, true, &blocks, 160, &time);
    sw_test_close_to(time.seconds, 160 + home);
    sw_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap_thresholds),      cmocka_unit_test(flags_short_blocks),
        cmocka_unit_test(one_message_at_a_time),   cmocka_unit_test(bf16_hops_save_bytes),
        cmocka_unit_test(bf16_hops_are_converted), cmocka_unit_test(inner_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
