/* Prices: links and curves by hand, whole programs by laws that hold for any cluster. */
#include "core/plan/plan.h"
#include "core/cost/cost.h"
#include "core/ir/messages.h"
#include "core/cost/links.h"
#include "core/programs/compile.h"
#include "tests/unit/cost_support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void curves(void **state)
{
    (void)state;
    const struct sw_curve none = {0};
    const struct sw_curve curve = {3, {{1e6, 0.2}, {1e8, 0.6}, {1e9, 0.9}}};
    sw_test_close_to(sw_cost_efficiency(&none, 1e6, 0.7), 0.7);
    sw_test_close_to(sw_cost_efficiency(&curve, 1, 0.7), 0.2);
    sw_test_close_to(sw_cost_efficiency(&curve, 1e6, 0.7), 0.2);
    sw_test_close_to(sw_cost_efficiency(&curve, 1e7, 0.7), 0.4); /* half way in the logarithm */
    sw_test_close_to(sw_cost_efficiency(&curve, 1e9, 0.7), 0.9);
    sw_test_close_to(sw_cost_efficiency(&curve, 1e12, 0.7), 0.9);
}

/* 4 nodes of 8: links of 100 and 10 GB/s. 0.82 and 0.90 of them are usable (links.c). */
static const struct sw_cluster_config cluster = {
    .nodes = 4,
    .accelerators_per_node = 8,
    .link_count = 2,
    .link = {{.name = "inner", .spans = 8, .bandwidth = 100e9, .latency_s = 1e-6, .rails = true},
             {.name = "outer", .spans = 32, .bandwidth = 10e9, .latency_s = 5e-6, .rails = true}}};

static void spans(void **state)
{
    (void)state;
    const struct sw_mesh mesh = sw_mesh_make(2, 2, 4, 2); /* order dp, fsdp, sp, tp */
    struct sw_span s;
    const struct sw_axes tp = {1, {SW_TP}}, dp = {1, {SW_DP}}, ring = {2, {SW_FSDP, SW_SP}};
    sw_links_span(&cluster, &mesh, tp, &s);
    assert_int_equal(s.parts[0], 4);
    assert_int_equal(s.parts[1], 1);
    assert_int_equal(sw_links_outermost(&s), 0);
    sw_links_span(&cluster, &mesh, dp, &s); /* stride 16: other nodes */
    assert_int_equal(s.parts[0], 1);
    assert_int_equal(s.parts[1], 2);
    assert_int_equal(sw_links_outermost(&s), 1);
    sw_links_span(&cluster, &mesh, ring, &s); /* sp inside the node, fsdp across two */
    assert_int_equal(s.parts[0], 2);
    assert_int_equal(s.members[1], 2);
    assert_int_equal(s.parts[1], 2);
    const struct sw_axes none = {0};
    sw_links_span(&cluster, &mesh, none, &s);
    assert_int_equal(sw_links_outermost(&s), -1);
    sw_test_close_to(sw_links_seconds(&cluster, &s, SW_ALL_GATHER, 1e9), 0);
}

static void collectives(void **state)
{
    (void)state;
    const double inner = 0.82 * 100e9, outer = 0.90 * 10e9, bytes = 7e9; /* sent by one of 8 */
    struct sw_span s;
    struct sw_mesh mesh = sw_mesh_make(1, 4, 8, 1);
    sw_links_span(&cluster, &mesh, (struct sw_axes){1, {SW_TP}}, &s);
    sw_test_close_to(sw_links_seconds(&cluster, &s, SW_ALL_GATHER, bytes), 7e-6 + bytes / inner);
    sw_test_close_to(sw_links_seconds(&cluster, &s, SW_ALL_TO_ALL, bytes), 3e-6 + bytes / inner);
    /* all_reduce: a chain of 8, up and down */
    sw_test_close_to(sw_links_seconds(&cluster, &s, SW_ALL_REDUCE, bytes), 14e-6 + bytes / inner);
    sw_test_close_to(sw_links_hop_seconds(&cluster, &s, 1e9), 1e-6 + 1e9 / inner);
    /* one rank in each of four nodes: the outer link alone */
    sw_links_span(&cluster, &mesh, (struct sw_axes){1, {SW_FSDP}}, &s);
    sw_test_close_to(sw_links_seconds(&cluster, &s, SW_REDUCE_SCATTER, 3e9), 15e-6 + 3e9 / outer);
    sw_test_close_to(sw_links_hop_seconds(&cluster, &s, 1e9), 5e-6 + 1e9 / outer);
    /* a tree of two levels between nodes */
    sw_test_close_to(sw_links_seconds(&cluster, &s, SW_ALL_REDUCE, 3e9), 20e-6 + 3e9 / outer);
    /* all 32 in a ring: 28 steps inside nodes, 3 between, of which each has eight links */
    mesh = sw_mesh_make(1, 32, 1, 1);
    sw_links_span(&cluster, &mesh, (struct sw_axes){1, {SW_FSDP}}, &s);
    const double array = 32e9;
    sw_test_close_to(sw_links_seconds(&cluster, &s, SW_ALL_GATHER, array * 31 / 32),
                     28e-6 + 15e-6 + fmax(array * 31 / 32 / inner, array * 31 / 32 / (8 * outer)));
    /* all_to_all has no such help: 24 of 32 blocks leave the node */
    sw_test_close_to(sw_links_seconds(&cluster, &s, SW_ALL_TO_ALL, array * 31 / 32),
                     3e-6 + 15e-6 + array * 24 / 32 / outer);
}

/* Messages one after the other: all bytes over each level that is spanned, the slowest counts. */
static void exchanges(void **state)
{
    (void)state;
    const double inner = 0.82 * 100e9, outer = 0.90 * 10e9;
    const struct sw_mesh mesh = sw_mesh_make(1, 4, 8, 1); /* tp in a node, fsdp over nodes */
    const struct sw_axes all = {2, {SW_FSDP, SW_TP}}, tp = {1, {SW_TP}}, none = {0};
    struct sw_span s;
    sw_links_span(&cluster, &mesh, all, &s);
    sw_test_close_to(sw_links_exchange_seconds(&cluster, &s, 3e9, 20), 3e9 / outer + 20 * 5e-6);
    sw_test_close_to(sw_links_exchange_seconds(&cluster, &s, 0, 0), 0);
    sw_links_span(&cluster, &mesh, tp, &s);
    sw_test_close_to(sw_links_exchange_seconds(&cluster, &s, 3e9, 2.5), 3e9 / inner + 2.5e-6);
    sw_links_span(&cluster, &mesh, none, &s);
    sw_test_close_to(sw_links_exchange_seconds(&cluster, &s, 3e9, 20), 0);
    struct sw_cluster_config curved = cluster; /* by the size of a message */
    curved.link[1].efficiency = (struct sw_curve){2, {{1e6, 0.2}, {1e8, 0.6}}};
    sw_links_span(&curved, &mesh, all, &s);
    sw_test_close_to(sw_links_exchange_seconds(&curved, &s, 1e9, 100),
                     1e9 / (0.4 * 10e9) + 100 * 5e-6);
}

static double exposed(const struct sw_cost *cost)
{
    return cost->exposed_seconds[0] + cost->exposed_seconds[1] + cost->exposed_seconds[2] +
           cost->exposed_seconds[3];
}

/* Nothing is lost between the parts: computing, waiting, and the regions make the step. Also over
 * links so slow that all of a step's sums are under way at its end. */
static void adds_up(void **state)
{
    (void)state;
    static const char *const outer[] = {"5 GB/s", "5 MB/s"};
    static const int32_t meshes[][4] = {{1, 16, 1, 1}, {4, 4, 1, 1}, {1, 4, 4, 1},
                                        {1, 4, 1, 4},  {2, 2, 2, 2}, {16, 1, 1, 1}};
    for (size_t i = 0; i < 2 * sizeof meshes / sizeof meshes[0]; i++) {
        const int32_t *m = meshes[i / 2];
        const struct sw_test_run t = sw_test_cost_run(8, 64, "90 GB/s", outer[i % 2]);
        const struct sw_cost c = sw_test_price(&t, sw_mesh_make(m[0], m[1], m[2], m[3]), 1);
        double regions = 0;
        for (int32_t r = 0; r < c.region_count; r++) {
            regions += c.region[r].seconds;
            sw_test_close_to(c.region[r].compute_seconds + c.region[r].exposed_seconds,
                             c.region[r].seconds);
        }
        sw_test_close_to(c.compute_seconds + exposed(&c), c.step_seconds);
        sw_test_close_to(regions, c.step_seconds);
        assert_true(exposed(&c) > 0);
        for (int32_t a = 0; a < SW_AXIS_COUNT; a++) {
            if (m[a] == 1) {
                assert_true(c.communication_bytes[a] == 0);
                assert_true(c.exposed_seconds[a] == 0);
            } else {
                assert_true(c.communication_bytes[a] > 0);
            }
        }
    }
}

/* Once a loop has settled every iteration and every micro-step takes the same: what extrapolation
 * relies on. Compute slowed by collectives beside it settles geometrically, by the slowdown of 0.19
 * an iteration: three iterations leave less than 0.19^3 of a first difference of a few percent. */
static void grows_evenly(void **state)
{
    (void)state;
    static const char *const outer[] = {"900 GB/s", "5 GB/s", "500 MB/s"};
    for (size_t i = 0; i < 3; i++) {
        struct sw_cost layers[3], steps[3];
        const struct sw_mesh mesh = sw_mesh_make(2, 2, 2, 2);
        for (int32_t k = 0; k < 3; k++) {
            const struct sw_test_run deep = sw_test_cost_run(8 + 8 * k, 16, "90 GB/s", outer[i]);
            const struct sw_test_run often =
                sw_test_cost_run(4, 4 * (4 + 4 * k), "90 GB/s", outer[i]);
            layers[k] = sw_test_price(&deep, mesh, 1);
            steps[k] = sw_test_price(&often, mesh, 1);
        }
        const double by_layers = (layers[2].step_seconds - layers[1].step_seconds) /
                                 (layers[1].step_seconds - layers[0].step_seconds);
        const double by_steps = (steps[2].step_seconds - steps[1].step_seconds) /
                                (steps[1].step_seconds - steps[0].step_seconds);
        assert_true(fabs(by_layers - 1) < 1e-4);
        assert_true(fabs(by_steps - 1) < 1e-4);
    }
}

static void follows_the_network(void **state)
{
    (void)state;
    struct sw_test_run t = sw_test_cost_run(8, 64, "1000000 TB/s", "1000000 TB/s");
    t.latency = "0";
    const struct sw_mesh mesh = sw_mesh_make(1, 4, 2, 2);
    const struct sw_cost ideal = sw_test_price(&t, mesh, 1);
    assert_true(exposed(&ideal) < 1e-2 * ideal.step_seconds); /* messages beyond the first */
    double before = ideal.step_seconds;
    static const char *const slower[] = {"400 GB/s", "40 GB/s", "4 GB/s"};
    for (size_t i = 0; i < 3; i++) {
        t.outer = slower[i];
        const struct sw_cost c = sw_test_price(&t, mesh, 1);
        /* a collective beside it slows compute, by 0.19 at most (cost.c) */
        assert_true(c.compute_seconds >= ideal.compute_seconds * (1 - sw_test_tolerance));
        assert_true(c.compute_seconds <= ideal.compute_seconds * 1.19);
        assert_true(c.step_seconds >= before);
        before = c.step_seconds;
    }
    assert_true(before > 1.5 * ideal.step_seconds);
}

/* Inside a node a CPU's own cores copy: what fsdp gathers and sums there hides behind nothing. Over
 * links as fast between nodes it does, and inside one of GPUs. */
static void cores_copy(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "cuda"};
    for (size_t d = 0; d < 2; d++) {
        struct sw_test_run t = sw_test_cost_run(8, 16, "1000000 TB/s", "1000000 TB/s");
        t.device = devices[d];
        t.latency = "0";
        struct sw_mesh mesh = sw_mesh_make(4, 4, 1, 1); /* fsdp on neighbouring ranks */
        const double ideal = sw_test_price(&t, mesh, 1).step_seconds;
        t.inner = "90 GB/s";
        const struct sw_cost near = sw_test_price(&t, mesh, 1);
        const double sent = near.communication_bytes[SW_FSDP] / (0.82 * 90e9);
        assert_true(sent > 0.01 * ideal && sent < 0.8 * ideal);
        mesh.order[0] = SW_FSDP;
        mesh.order[1] = SW_DP;
        t.inner = "1000000 TB/s";
        t.outer = "90 GB/s";
        const struct sw_cost far = sw_test_price(&t, mesh, 1);
        if (d == 0) {
            assert_true(fabs(near.step_seconds - ideal - sent) < 0.02 * sent);
            assert_true(exposed(&near) < 0.5 * sent);
            assert_true(far.step_seconds < ideal + 0.7 * sent);
        } else {
            assert_true(near.step_seconds < ideal + 0.7 * sent);
        }
    }
}

/* 6 flops per token and weight in a matrix product, and the causal half of attention: as in
 * Chowdhery et al., PaLM (arXiv:2204.02311), appendix B, but for the half that is masked. */
static void model_flops(void **state)
{
    (void)state;
    const struct sw_test_run t = sw_test_cost_run(32, 16, "90 GB/s", "90 GB/s");
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_decision decision = {.mesh = sw_mesh_make(1, 16, 1, 1),
                                         .train.micro_batch_size = 1,
                                         .train.recompute = sw_recompute_full()};
    struct sw_program_options options;
    struct sw_error err = {0};
    double flops;
    assert_int_equal(sw_plan_program_options(sw_config_run(config), &decision, &options, &err), 0);
    assert_int_equal(sw_program_model_flops(&options, &flops, &err), 0);
    const double h = 4096, f = 11008, v = 32000, layers = 32, s = 4096, tokens = 16 * s;
    const double weights = layers * (4 * h * h + 3 * h * f) + v * h;
    sw_test_close_to(flops, tokens * (6 * weights + 6 * layers * h * s));
    sw_config_free(config);
}

/* Ports: a lone flow out of a node has its own rail, or all ports of its group together. Uplinks
 * that are sold twice carry half. A measured curve replaces the usual share. */
static void kinds_of_links(void **state)
{
    (void)state;
    struct sw_cluster_config c = cluster;
    struct sw_span s;
    const struct sw_mesh mesh = sw_mesh_make(1, 1, 1, 32);
    sw_links_span(&c, &mesh, (struct sw_axes){1, {SW_SP}}, &s);
    sw_test_close_to(sw_links_hop_seconds(&c, &s, 1e9), 5e-6 + 1e9 / 9e9);
    c.link[1].rails = false; /* eight ports for one flow: as fast as the flows inside, and slower */
    sw_test_close_to(sw_links_hop_seconds(&c, &s, 1e9), 5e-6 + 1e9 / 72e9);
    c.link[1].oversubscription = 2;
    sw_test_close_to(sw_links_hop_seconds(&c, &s, 1e9), 5e-6 + 1e9 / 36e9);
    const double before = 31e9 / (8 * 9e9); /* over eight ports */
    sw_test_close_to(sw_links_seconds(&c, &s, SW_ALL_GATHER, 31e9) - 43e-6, 2 * before);
    c.link[1].oversubscription = 1;
    c.link[1].efficiency = (struct sw_curve){2, {{1e6, 0.1}, {1e9, 0.45}}};
    sw_test_close_to(sw_links_seconds(&c, &s, SW_ALL_GATHER, 31e9) - 43e-6, 2 * before);
}

/* A save is packed, sent and unpacked; on one rank alone it is copied. */
static void saves(void **state)
{
    (void)state;
    const struct sw_test_run t = sw_test_cost_run(4, 64, "90 GB/s", "5 GB/s");
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_run_config *run = sw_config_run(config);
    const struct sw_accelerator_config *a = &run->cluster.accelerator;
    const struct sw_decision decision = {.mesh = sw_mesh_make(1, 4, 4, 1),
                                         .train.micro_batch_size = 1,
                                         .train.recompute = sw_recompute_full(),
                                         .train.layout = SW_ZIGZAG};
    struct sw_program_options options;
    struct sw_program_set *set = NULL;
    struct sw_error err = {0};
    struct sw_cost cost;
    double seconds = 0, links = 0;
    if (sw_plan_program_options(run, &decision, &options, &err) != 0 ||
        sw_program_set_compile(&options, &set, &err) != 0 ||
        sw_cost_save_seconds(set, &run->cluster, &seconds, &links, &err) != 0)
        fail_msg("%s", err.message);
    struct sw_program *p = set->program[SW_PROGRAM_SAVE];
    const struct sw_snapshot_attributes *s = &p->ops[0].as.snapshot;
    const double rounds = s->rounds;
    struct sw_span span;
    sw_links_span(&run->cluster, &p->mesh, p->ops[0].axes, &span);
    const double sent = ceil((double)s->sent_bytes / rounds),
                 moved = 2 * ceil((double)(s->sent_bytes + s->owned_bytes) / rounds);
    const double exchange =
        sw_links_exchange_seconds(&run->cluster, &span, sent, (double)s->messages / rounds);
    const double share = sw_cost_efficiency(&run->cluster.profile.memory, moved, 0);
    const double pack =
        moved / (a->memory_bandwidth * share) + run->cluster.profile.launch_latency_s;
    sw_test_close_to(sw_cost_op_seconds(p, &p->ops[0], &run->cluster, NULL), exchange + pack);
    assert_true(rounds > 1 && fabs(seconds - rounds * (exchange + pack)) < 1e-6 * seconds);

    assert_int_equal(sw_cost_price(p, &run->cluster, NULL, &cost, &err), 0);
    assert_true(cost.step_seconds == seconds);
    sw_test_close_to(cost.communication_bytes[SW_FSDP], sent * rounds / 2);
    sw_test_close_to(cost.communication_bytes[SW_TP], sent * rounds / 2);
    sw_test_close_to(exposed(&cost), exchange * rounds);
    sw_test_close_to(links, exchange * rounds);

    sw_program_free(p);
    set->program[SW_PROGRAM_SAVE] = NULL;
    assert_int_equal(sw_cost_save_seconds(set, &run->cluster, &seconds, NULL, &err), -1);
    assert_string_equal(err.message, "there is no program 'save'");
    sw_program_set_free(set);
    sw_config_free(config);
}

/* A host that issues ops more slowly than the device runs them sets the pace: a step takes its ops
 * times what each takes it. One that is faster changes nothing. */
static void waits_for_its_host(void **state)
{
    (void)state;
    struct sw_test_run t = sw_test_cost_run(6, 32, "90 GB/s", "90 GB/s");
    const struct sw_mesh mesh = sw_mesh_make(1, 16, 1, 1);
    const struct sw_cost recorded = sw_test_price(&t, mesh, 1);
    t.launch = "0, host_time: 1 ns";
    const struct sw_cost fast = sw_test_price(&t, mesh, 1);
    t.launch = "0, host_time: 1 s";
    const struct sw_cost slow = sw_test_price(&t, mesh, 1);
    t.launch = "0, host_time: 0.5 s";
    const struct sw_cost half = sw_test_price(&t, mesh, 1);
    assert_true(fabs(fast.step_seconds / recorded.step_seconds - 1) < 1e-6);
    assert_true(fabs(slow.step_seconds / half.step_seconds - 2) < 0.01);
    assert_true(slow.step_seconds > 100); /* two micro-steps of six layers of tens of ops */
    sw_test_close_to(slow.compute_seconds + exposed(&slow), slow.step_seconds);
}

/* Every price has a band around it and says what it rests on. */
static void has_a_band(void **state)
{
    (void)state;
    const struct sw_test_run t = sw_test_cost_run(2, 16, "90 GB/s", "5 GB/s");
    const struct sw_cost c = sw_test_price(&t, sw_mesh_make(1, 16, 1, 1), 1);
    sw_test_close_to(c.band_low_seconds, 0.7 * c.step_seconds);
    sw_test_close_to(c.band_high_seconds, 1.3 * c.step_seconds);
    assert_string_equal(c.calibration, "its file names no source");
}

/* Shapes: the same flops take longer in small or ragged pieces, and attention in small heads. */
static void shapes(void **state)
{
    (void)state;
    struct sw_cluster_config a = {.accelerator = {.device = SW_DEVICE_CUDA, .compute_units = 100}};
    a.profile = sw_profile_default(&a.accelerator);
    const double large = sw_cost_matmul_share(&a, 25600, 12800, 8192);
    assert_true(large > 0.60 && large < 0.63); /* 10,000 tiles: 100 waves */
    assert_true(sw_cost_matmul_share(&a, 25600, 12800, 128) < 0.55 * large); /* shallow */
    assert_true(sw_cost_matmul_share(&a, 2560, 1290, 8192) < 0.8 * large); /* 110 tiles: 2 waves */
    assert_true(sw_cost_matmul_share(&a, 16, 12800, 8192) < 0.4 * large);  /* rows of a tile idle */
    a.profile.matmul = (struct sw_curve){1, {{1, 0.35}}};
    sw_test_close_to(sw_cost_matmul_share(&a, 25600, 12800, 8192), large * 0.35 / 0.63);
    a.profile.matmul = (struct sw_curve){2, {{1e6, 0.2}, {1e18, 0.5}}}; /* measured: as it is */
    sw_test_close_to(sw_cost_matmul_share(&a, 100, 100, 50), 0.2);
    const double wide = sw_cost_attention_share(&a, 1e12, 128, 8192);
    const double narrow = sw_cost_attention_share(&a, 1e12, 64, 8192);
    assert_true(narrow > 0.8 * wide && narrow < 0.9 * wide);
    assert_true(sw_cost_attention_share(&a, 1e12, 128, 256) < 0.7 * wide);
    /* a curve of several points is of long calls with heads of 128, too */
    a.profile.attention = (struct sw_curve){2, {{1e11, 0.2}, {1e13, 0.4}}};
    sw_test_close_to(sw_cost_attention_share(&a, 1e12, 64, 256),
                     sw_cost_attention_share(&a, 1e12, 128, 8192) * narrow / wide * (256.0 / 384) /
                         (8192.0 / 8320));
}

static struct sw_program *compile_on(const struct sw_run_config *run, struct sw_mesh mesh)
{
    const struct sw_decision decision = {.mesh = mesh,
                                         .train.micro_batch_size = 1,
                                         .train.recompute = sw_recompute_full(),
                                         .train.layout = SW_ZIGZAG};
    struct sw_program_options options;
    struct sw_program *p = NULL;
    struct sw_error err = {0};
    if (sw_plan_program_options(run, &decision, &options, &err) != 0 ||
        sw_program_compile(&options, SW_LAID_OUT, &p, &err) != 0)
        fail_msg("%s", err.message);
    return p;
}

/* The curve's size is one kernel call's: of a ring one hop, whose flops are those of the op over
 * its ranks; of backward what its kernel does, five products where forward does two. */
static void attention_by_call(void **state)
{
    (void)state;
    const struct sw_test_run t = sw_test_cost_run(1, 16, "90 GB/s", "5 GB/s");
    struct sw_config *config = sw_test_read_run(&t);
    for (int32_t sp = 1; sp <= 8; sp *= 2) {
        struct sw_program *p = compile_on(sw_config_run(config), sw_mesh_make(1, 16 / sp, 1, sp));
        struct sw_cluster_config c = sw_config_run(config)->cluster;
        int32_t found = 0;
        c.accelerator.device = SW_DEVICE_CUDA;
        c.profile.launch_latency_s = 0;
        c.profile.memory = (struct sw_curve){1, {{1, 1}}};
        c.accelerator.memory_bandwidth = 1e30;
        for (int32_t i = 0; i < p->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            const double flops = sw_op_cost(p, op).flops, call = flops / sp;
            if (sw_op_info(op->kind)->cost_class != SW_CLASS_ATTENTION)
                continue;
            found |= op->kind == SW_OP_ATTENTION_GRAD ? 2 : 1;
            c.profile.attention = (struct sw_curve){2, {{call * 0.999, 0.1}, {call, 0.5}}};
            const double here = sw_cost_compute_seconds(p, op, &c, NULL);
            c.profile.attention = (struct sw_curve){2, {{call * 1.001, 0.1}, {call * 2, 0.5}}};
            sw_test_close_to(sw_cost_compute_seconds(p, op, &c, NULL) / here, 5);
        }
        assert_int_equal(found, 3);
        sw_program_free(p);
    }
    sw_config_free(config);
}

/* Software that copies whole gradients reads and writes each once more where fsdp splits its
 * weight, and not where ranks hold all of it. */
static void gradients_are_copied(void **state)
{
    (void)state;
    enum { COPIES = 2 };
    const struct sw_test_run t = sw_test_cost_run(1, 16, "90 GB/s", "5 GB/s");
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_run_config *run = sw_config_run(config);
    for (int split = 0; split < 2; split++) {
        struct sw_cluster_config c = run->cluster;
        struct sw_program *p =
            compile_on(run, split ? sw_mesh_make(1, 16, 1, 1) : sw_mesh_make(16, 1, 1, 1));
        int32_t met = 0;
        for (int32_t i = 0; i < p->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            if (op->kind != SW_OP_LINEAR_DW)
                continue;
            const struct sw_value *out = &p->values[op->out[0].value];
            c.profile.gradient_copies = 0;
            const double without = sw_cost_compute_seconds(p, op, &c, NULL);
            c.profile.gradient_copies = COPIES;
            const double more = sw_cost_compute_seconds(p, op, &c, NULL) - without;
            const double one =
                2.0 * (double)sw_value_local_elems(out) * (double)sw_dtype_bytes(out->dtype) /
                    (c.accelerator.memory_bandwidth * c.profile.memory.point[0].fraction) +
                c.profile.launch_latency_s;
            met++;
            assert_true(fabs(more - (split ? COPIES * one : 0)) <= 1e-9 * (without + one));
        }
        assert_true(met >= 7);
        sw_program_free(p);
    }
    sw_config_free(config);
}

/* Half of forward's share takes the gradient twice as long, and leaves forward alone. */
static void attention_backward_has_its_own_share(void **state)
{
    (void)state;
    const struct sw_test_run t = sw_test_cost_run(3, 64, "90 MB/s", "5 MB/s");
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_run_config *run = sw_config_run(config);
    struct sw_cluster_config same = run->cluster, half = run->cluster;
    struct sw_program *p = compile_on(run, sw_mesh_make(1, 4, 4, 1));
    int32_t seen[2] = {0};
    same.profile.launch_latency_s = half.profile.launch_latency_s = 0;
    same.profile.memory = half.profile.memory = (struct sw_curve){1, {{1, 1}}};
    same.accelerator.memory_bandwidth = half.accelerator.memory_bandwidth = 1e18;
    same.profile.attention = half.profile.attention = (struct sw_curve){1, {{1, 0.4}}};
    half.profile.attention_backward = (struct sw_curve){1, {{1, 0.2}}};
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        if (sw_op_info(op->kind)->cost_class != SW_CLASS_ATTENTION)
            continue;
        const bool backward = op->kind == SW_OP_ATTENTION_GRAD;
        seen[backward]++;
        sw_test_close_to(sw_cost_compute_seconds(p, op, &half, NULL),
                         (backward ? 2 : 1) * sw_cost_compute_seconds(p, op, &same, NULL));
    }
    assert_true(seen[0] > 0 && seen[1] > 0);
    sw_program_free(p);
    sw_config_free(config);
}

/* What was measured by size tells the time, each phase its own, and what it moves is in it; small
 * steps reach more of it. */
static void attention_goes_by_its_size(void **state)
{
    (void)state;
    struct sw_products grid[SW_ATTENTION_PHASES] = {{.rows = 2,
                                                     .columns = 2,
                                                     .depths = 2,
                                                     .row = {1, 1024},
                                                     .column = {16, 65536},
                                                     .depth = {16, 256}}};
    grid[SW_ATTENTION_BACKWARD] = grid[SW_ATTENTION_FORWARD];
    for (int32_t i = 0; i < 8; i++) { /* by length alone */
        grid[SW_ATTENTION_FORWARD].share[i] = i / 2 % 2 == 0 ? 0.2 : 0.5;
        grid[SW_ATTENTION_BACKWARD].share[i] = i / 2 % 2 == 0 ? 0.1 : 0.3;
    }
    const struct sw_test_run t = sw_test_cost_run(3, 64, "90 MB/s", "5 MB/s");
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_run_config *run = sw_config_run(config);
    struct sw_cluster_config c = run->cluster;
    struct sw_program *p = compile_on(run, sw_mesh_make(1, 4, 4, 1));
    int32_t seen[2] = {0};
    c.profile.launch_latency_s = 0;
    c.accelerator.memory_bandwidth = 1; /* which would take ages */
    c.profile.attention_by_size[SW_ATTENTION_FORWARD][SW_RATE_BF16] = &grid[SW_ATTENTION_FORWARD];
    c.profile.attention_by_size[SW_ATTENTION_BACKWARD][SW_RATE_BF16] = &grid[SW_ATTENTION_BACKWARD];
    c.profile.attention_scale = (struct sw_curve){2, {{1, 1.5}, {1e30, 1}}};
    const double bytes = sw_cost_step_bytes(p, NULL), scale = 1.5 - 0.5 * log(bytes) / log(1e30);
    assert_true(bytes > 0);
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        if (sw_op_info(op->kind)->cost_class != SW_CLASS_ATTENTION)
            continue;
        const bool backward = op->kind == SW_OP_ATTENTION_GRAD;
        const double length = (double)p->values[op->in[0].value].size[1];
        const double way = log(length / 16) / log(65536 / 16.0);
        const double share = backward ? 0.1 + 0.2 * way : 0.2 + 0.3 * way;
        assert_true(length >= 16 && length <= 65536);
        seen[backward]++;
        sw_test_close_to(sw_cost_compute_seconds(p, op, &c, NULL),
                         sw_op_cost(p, op).flops / (c.accelerator.peak_bf16_flops * share * scale));
    }
    assert_true(seen[0] > 0 && seen[1] > 0);
    sw_program_free(p);
    sw_config_free(config);
}

static void wait_for_nothing(struct sw_program *p)
{
    for (int32_t i = 0; i < p->op_count; i++)
        if (p->ops[i].kind == SW_OP_WAIT)
            p->ops[i].kind = SW_OP_CONSTRAIN; /* which takes no time */
}

/* All collectives of a step under way when the only wait comes, at its end: each is told. */
static void as_many_under_way_as_there_are(void **state)
{
    (void)state;
    const struct sw_test_run t = sw_test_cost_run(3, 64, "90 MB/s", "5 MB/s");
    struct sw_cost c;
    struct sw_error err = {0};
    assert_int_equal(
        sw_test_price_changed(&t, sw_mesh_make(2, 4, 2, 1), 8, wait_for_nothing, &c, &err), 0);
    sw_test_close_to(c.compute_seconds + exposed(&c), c.step_seconds);
}

static void add_regions(struct sw_program *p)
{
    p->region_count = SW_COST_MAX_REGIONS + 1;
}

static void too_many_regions(void **state)
{
    (void)state;
    const struct sw_test_run t = sw_test_cost_run(3, 64, "90 GB/s", "5 GB/s");
    struct sw_cost c;
    struct sw_error err = {0};
    assert_int_equal(sw_test_price_changed(&t, sw_mesh_make(1, 16, 1, 1), 1, add_regions, &c, &err),
                     -1);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_string_equal(err.message, "a program of 13 regions cannot be priced");
}

/* The same bytes in more messages take longer, each as much as the device's row says: a layout of
 * many small rows cannot hide behind its bytes. */
static void counts_messages(void **state)
{
    (void)state;
    const struct sw_test_run t = sw_test_cost_run(2, 64, "90 GB/s", "5 GB/s");
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_run_config *run = sw_config_run(config);
    const struct sw_decision decision = {.mesh = sw_mesh_make(1, 16, 1, 1),
                                         .train.micro_batch_size = 1,
                                         .train.recompute = sw_recompute_none(),
                                         .train.layout = SW_ZIGZAG};
    struct sw_program_options options;
    struct sw_program *p = NULL;
    struct sw_error err = {0};
    int32_t packed = 0, more = 0;
    if (sw_plan_program_options(run, &decision, &options, &err) != 0)
        fail_msg("%s", err.message);
    options.model.vocab_size += 2; /* no rows of tables for each of the ranks: width is split */
    if (sw_program_compile(&options, SW_LAID_OUT, &p, &err) != 0)
        fail_msg("%s", err.message);
    const struct sw_device_row *device = sw_device_row(run->cluster.accelerator.device);
    assert_true(device->transport == SW_CARRIER_QUEUED && device->prices.message_s > 0);
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        if (!sw_op_is_collective((enum sw_op_kind)op->kind))
            continue;
        struct sw_collective_blocks b = sw_collective_blocks(p, op);
        const enum sw_collective kind = sw_op_collective((enum sw_op_kind)op->kind);
        const struct sw_collective_route r = sw_collective_route(SW_CARRIER_QUEUED, kind, &b);
        struct sw_span span;
        sw_links_span(&run->cluster, &p->mesh, sw_axes_effective(&p->mesh, op->axes), &span);
        const double bytes_alone =
            sw_links_seconds(&run->cluster, &span, kind, (double)sw_op_communication_bytes(p, op));
        sw_test_close_to(sw_cost_op_seconds(p, op, &run->cluster, NULL) - bytes_alone,
                         sw_cost_message_seconds(p, op, &run->cluster));
        more += sw_cost_message_seconds(p, op, &run->cluster) > 0;
        sw_test_close_to(sw_cost_message_seconds(p, op, &run->cluster),
                         (double)(r.messages - 1) * device->prices.message_s);
        if (!r.packed)
            continue;
        /* a workspace of a hundredth: many pieces of the same bytes */
        b.workspace_bytes /= 100;
        const struct sw_collective_route shorter = sw_collective_route(SW_CARRIER_QUEUED, kind, &b);
        assert_true(shorter.messages > 10 * r.messages);
        packed++;
    }
    assert_true(packed >= 5);    /* embedding and head: gathered, gathered again, scattered */
    assert_true(more >= packed); /* tables of 32,000 words are several pieces */
    sw_program_free(p);
    sw_config_free(config);
}

/* Every word of a device is that of a row; measured figures are shares. */
static void devices(void **state)
{
    (void)state;
    for (int32_t i = 0; i < SW_DEVICE_COUNT; i++) {
        const struct sw_device_row *row = sw_device_row((enum sw_device_kind)i);
        const struct sw_accelerator_config chip = {.device = (enum sw_device_kind)i};
        const struct sw_profile_config p = sw_profile_default(&chip);
        const double shares[] = {p.matmul.point[0].fraction, p.attention.point[0].fraction,
                                 p.memory.point[0].fraction};
        assert_non_null(sw_word(sw_words_device, i));
        for (size_t k = 0; k < 3; k++)
            assert_true(shares[k] > 0 && shares[k] <= 1);
        assert_true(row->prices.contention >= 0 && row->prices.contention < 1);
        /* nothing to ask of the scheduler, of a container or over a bus: it is the host */
        assert_true(row->allocated == (row->host_bandwidth > 0) &&
                    row->allocated == (row->container_flag != NULL));
    }
}

/* Long sequences at heads of 128 reach half of the peak on every CUDA chip that nobody measured,
 * and calls of less work less. */
static void attention_of_chips(void **state)
{
    (void)state;
    const enum sw_device_kind cuda = SW_DEVICE_CUDA;
    for (int32_t units = 0; units <= 160; units += 20) { /* 0: not told */
        const struct sw_cluster_config untold = {
            .accelerator = {.device = cuda, .compute_units = units}};
        struct sw_cluster_config told = untold;
        told.profile = sw_profile_default(&told.accelerator);
        const double long_row = 1e15;
        const double calls[][2] = {{1e9, 0.25}, {1e12, 0.25}, {1e13, 0.33}, {1e15, 0.5}};
        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
            const double share = calls[i][1];
            sw_test_close_to(sw_cost_attention_share(&told, calls[i][0], 128, long_row), share);
            sw_test_close_to(sw_cost_attention_share(&untold, calls[i][0], 128, long_row), share);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curves),
        cmocka_unit_test(spans),
        cmocka_unit_test(collectives),
        cmocka_unit_test(exchanges),
        cmocka_unit_test(saves),
        cmocka_unit_test(adds_up),
        cmocka_unit_test(gradients_are_copied),
        cmocka_unit_test(attention_backward_has_its_own_share),
        cmocka_unit_test(attention_goes_by_its_size),
        cmocka_unit_test(as_many_under_way_as_there_are),
        cmocka_unit_test(too_many_regions),
        cmocka_unit_test(grows_evenly),
        cmocka_unit_test(follows_the_network),
        cmocka_unit_test(cores_copy),
        cmocka_unit_test(model_flops),
        cmocka_unit_test(kinds_of_links),
        cmocka_unit_test(waits_for_its_host),
        cmocka_unit_test(has_a_band),
        cmocka_unit_test(shapes),
        cmocka_unit_test(attention_by_call),
        cmocka_unit_test(counts_messages),
        cmocka_unit_test(devices),
        cmocka_unit_test(attention_of_chips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
