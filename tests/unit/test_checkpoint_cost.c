/* core/cost/checkpoint.c: prices worked out by hand on a table of two files and two ranks. */
#include "core/cost/checkpoint.h"
#include "core/plan/plan.h"

#include "tests/unit/plan_support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* 10 GB and 2 GB of files; rank 1 writes the most, 7 GB. */
static struct sw_stored_file files[] = {{.bytes = 10000000000}, {.bytes = 2000000000}};
static struct sw_extent extents[] = {
    {0, 0, 5000000000}, {0, 5000000000, 10000000000}, {1, 0, 2000000000}};
static int32_t first_extent[] = {0, 1, 3};
static const struct sw_placement placement = {
    .file = files, .file_count = 2, .ranks = 2, .extent = extents, .first_extent = first_extent};

/* Four nodes of two; one failure every 1000 / (4 x 25) = 10 days. */
static struct sw_run_config run_of(enum sw_device_kind device)
{
    struct sw_run_config run = {.optimizer = {.total_steps = 1000000}};
    run.cluster.nodes = 4;
    run.cluster.accelerators_per_node = 2;
    run.cluster.failures_per_1000_node_days = 25;
    run.cluster.accelerator = (struct sw_accelerator_config){
        .device = device, .memory_bytes = 20000000000, .memory_bandwidth = 28e9};
    run.cluster.profile.memory = (struct sw_curve){1, {{1, 0.5}}};
    return run;
}

static void is_near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-12 * fabs(wanted)))
        fail_msg("%.17g is not %.17g", got, wanted);
}

static void snapshots_fit_where_they_lie(void **state)
{
    (void)state;
    struct sw_run_config run = run_of(SW_DEVICE_CPU);
    assert_true(sw_checkpoint_background(&run.cluster, 13000000000, 7000000000));
    assert_false(sw_checkpoint_background(&run.cluster, 13000000001, 7000000000));
    run.cluster.host_memory_bytes = 1; /* it is the memory of the ranks that counts */
    assert_true(sw_checkpoint_background(&run.cluster, 13000000000, 7000000000));
    run = run_of(SW_DEVICE_CUDA);
    assert_true(
        sw_checkpoint_background(&run.cluster, 20000000000, INT64_C(1) << 60)); /* not told */
    run.cluster.host_memory_bytes = 14000000001;                                /* of two */
    assert_true(sw_checkpoint_background(&run.cluster, 20000000000, 7000000000));
    assert_false(sw_checkpoint_background(&run.cluster, 0, 7000000001));
}

static void price(const struct sw_run_config *run, int64_t memory_total, double step_seconds,
                  struct sw_checkpoint_cost *out)
{
    const struct sw_saved_run saved = {.memory_total = memory_total,
                                       .step_seconds = step_seconds,
                                       .total_steps = run->optimizer.total_steps,
                                       .write_limit = run->checkpoint_bandwidth};
    sw_checkpoint_price(&placement, &run->cluster, &saved, 0.5, 0.25, out);
}

static void prices_in_the_background(void **state)
{
    (void)state;
    struct sw_checkpoint_cost c;
    struct sw_run_config run = run_of(SW_DEVICE_CPU);
    price(&run, 13000000000, 10, &c);
    assert_int_equal(c.bytes, 12000000000);
    assert_int_equal(c.files, 2);
    assert_int_equal(c.most_bytes, 7000000000);
    assert_int_equal(c.snapshot_bytes, 7000000000);
    assert_true(c.background);
    /* the exchange fills the snapshot; 12 GB at 1 GB/s for each of four nodes */
    is_near(c.exchange_s, 0.5);
    is_near(c.link_s, 0.25);
    assert_true(c.copy_s == 0);
    is_near(c.stall_s, 0.5);
    assert_int_equal(c.rate, SW_WRITE_ASSUMED);
    is_near(c.bandwidth, 4e9);
    is_near(c.write_s, 3);
    is_near(c.save_s, 3.5);
    is_near(c.failure_s, 864000);
    is_near(c.interval_s, sqrt(2 * 0.5 * 864000)); /* 929.52 s */
    assert_int_equal(c.interval_steps, 93);
    /* at the optimum both losses are alike */
    is_near(sw_checkpoint_paused_share(&c, 30), 0.5 / 30.5);
    is_near(sw_checkpoint_repeated_share(&c, 86400), 0.05);
    assert_true(fabs(sw_checkpoint_paused_share(&c, c.interval_s) /
                         sw_checkpoint_repeated_share(&c, c.interval_s) -
                     1) < 1e-3);
    /* a second later: two more of the three are waited for */
    is_near(sw_checkpoint_paused_share(&c, 1), 2.5 / 3.5);
    /* to a GPU's host at 25 GB/s */
    run = run_of(SW_DEVICE_CUDA);
    price(&run, 20000000000, 10, &c);
    assert_true(c.background);
    is_near(c.copy_s, 7.0 / 25);
    is_near(c.stall_s, 0.5 + 7.0 / 25);
}

static void prices_in_the_pause(void **state)
{
    (void)state;
    struct sw_checkpoint_cost c;
    const struct sw_run_config run = run_of(SW_DEVICE_CPU);
    price(&run, 13000000001, 10, &c);
    assert_false(c.background);
    assert_int_equal(c.snapshot_bytes, 0);
    assert_true(c.copy_s == 0);
    is_near(c.stall_s, 3.5);
    is_near(c.save_s, 3.5);
    is_near(c.interval_s, sqrt(2 * 3.5 * 864000));
    is_near(sw_checkpoint_paused_share(&c, 1), 3.5 / 4.5);
}

static void writes_at_the_rate_that_is_told(void **state)
{
    (void)state;
    static const struct {
        double limit, storage, bandwidth;
        enum sw_write_rate rate;
    } cases[] = {{0, 0, 4e9, SW_WRITE_ASSUMED},     {2e9, 0, 2e9, SW_WRITE_LIMITED},
                 {6e9, 0, 6e9, SW_WRITE_LIMITED},   {0, 3e9, 3e9, SW_WRITE_TOLD},
                 {2e9, 3e9, 2e9, SW_WRITE_LIMITED}, {3e9, 3e9, 3e9, SW_WRITE_LIMITED},
                 {4e9, 3e9, 3e9, SW_WRITE_TOLD}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_checkpoint_cost c;
        struct sw_run_config run = run_of(SW_DEVICE_CUDA);
        run.checkpoint_bandwidth = cases[i].limit;
        run.cluster.storage_bandwidth = cases[i].storage;
        price(&run, 0, 10, &c);
        assert_int_equal(c.rate, cases[i].rate);
        is_near(c.bandwidth, cases[i].bandwidth);
        is_near(c.write_s, 12e9 / cases[i].bandwidth);
    }
}

static void proposes_an_interval(void **state)
{
    (void)state;
    struct sw_checkpoint_cost c;
    struct sw_run_config run = run_of(SW_DEVICE_CUDA);
    /* no save begins before the last is written: 12 GB at 1 MB/s */
    run.checkpoint_bandwidth = 1e6;
    price(&run, 0, 10, &c);
    is_near(c.interval_s, 12000);
    assert_int_equal(c.interval_steps, 1200);
    /* longer than the run */
    run.optimizer.total_steps = 1200;
    price(&run, 0, 10, &c);
    assert_int_equal(c.interval_steps, 0);
    assert_true(isfinite(c.interval_s));
    /* nothing fails */
    run = run_of(SW_DEVICE_CUDA);
    run.cluster.failures_per_1000_node_days = 0;
    price(&run, 0, 10, &c);
    assert_true(isinf(c.failure_s) && isinf(c.interval_s));
    assert_int_equal(c.interval_steps, 0);
    assert_true(sw_checkpoint_repeated_share(&c, INFINITY) == 0);
    assert_true(sw_checkpoint_paused_share(&c, INFINITY) == 0);
    /* a step longer than the interval */
    run = run_of(SW_DEVICE_CUDA);
    price(&run, 0, 1e6, &c);
    assert_int_equal(c.interval_steps, 1);
}

/* The whole plan: fp32 weights and two moments of each, dealt evenly to the ranks. */
static void prices_a_plan(void **state)
{
    (void)state;
    struct sw_error err = {0};
    struct sw_config *config = sw_test_read_run(&sw_test_llama_7b);
    struct sw_run_config run = *sw_config_run(config);
    const struct sw_decision decision = {
        .mesh = {.size = {1, 16, 4, 4}, .order = {SW_DP, SW_FSDP, SW_TP, SW_SP}},
        .train.micro_batch_size = 1,
        .train.accumulation_steps = 1,
        .train.recompute = sw_recompute_full(),
        .train.strategy = SW_ATTENTION_RING,
        .train.layout = SW_ZIGZAG};
    struct sw_program_options options;
    struct sw_program_set *set = NULL;
    struct sw_checkpoint_cost c;
    const struct sw_saved_run saved = {.step_seconds = 1,
                                       .total_steps = run.optimizer.total_steps,
                                       .write_limit = run.checkpoint_bandwidth};
    if (sw_plan_program_options(&run, &decision, &options, &err) != 0 ||
        sw_program_set_compile(&options, &set, &err) != 0 ||
        sw_checkpoint_price_set(set, &run.cluster, &saved, &c, &err) != 0)
        fail_msg("%s", err.message);
    int64_t parameters = 0;
    for (int32_t i = 0; i < set->state.count; i++) {
        const struct sw_state_row *row = &set->state.row[i];
        int64_t elems = row->stack;
        for (int32_t d = 0; d < row->ndim; d++)
            elems *= row->size[d];
        parameters += row->role == SW_ROLE_PARAMETER ? elems : 0;
    }
    /* headers are padded to 4 KiB, and hold 100 to 200 bytes for each of 3 x 291 tensors */
    const int64_t headers = c.bytes - 12 * parameters;
    assert_true(headers > 0 && headers < 873 * 200 + 4096 * (int64_t)c.files);
    assert_true(c.most_bytes >= 12 * parameters / 256);
    assert_true(c.most_bytes < 12 * parameters / 256 + (2 << 20));
    assert_true(c.exchange_s > 0 && c.copy_s > 0);
    sw_program_set_free(set);
    sw_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapshots_fit_where_they_lie),
        cmocka_unit_test(prices_in_the_background),
        cmocka_unit_test(prices_in_the_pause),
        cmocka_unit_test(writes_at_the_rate_that_is_told),
        cmocka_unit_test(proposes_an_interval),
        cmocka_unit_test(prices_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
