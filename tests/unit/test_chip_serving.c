/* Prices of serving on a chip whose own kernels were measured, and the default that rests on them.
 */
#include "tests/unit/serving_support.h"

/* Grids of attention that reach a half and a quarter, and of products that reach all. */
static struct sw_products flat_grid(double share)
{
    struct sw_products grid = {.rows = 2,
                               .columns = 2,
                               .depths = 1,
                               .row = {1, 4096},
                               .column = {1, 4096},
                               .depth = {32},
                               .asymptote = 1};
    for (int32_t i = 0; i < 8; i++)
        grid.share[i] = share;
    return grid;
}

static struct sw_cluster_config measured_chip(const struct sw_products *products,
                                              const struct sw_products *prefill,
                                              const struct sw_products *decode)
{
    struct sw_cluster_config c = cluster_of();
    c.accelerator = (struct sw_accelerator_config){.device = SW_DEVICE_CUDA,
                                                   .peak_fp32_flops = 1e13,
                                                   .peak_bf16_flops = 1e14,
                                                   .peak_int8_flops = 2e14,
                                                   .memory_bandwidth = 1e12,
                                                   .products = products,
                                                   .prefill_attention = prefill,
                                                   .decode_attention = decode};
    c.profile = sw_profile_default(&c.accelerator);
    c.profile.launch_latency_s = 0;
    return c;
}

static const struct sw_op *op_of(const struct sw_program *p, enum sw_op_kind kind)
{
    int32_t i = 0;
    while (i < p->op_count && p->ops[i].kind != kind)
        i++;
    assert_true(i < p->op_count);
    return &p->ops[i];
}

/* A chip's own attention: a token reads keys and values of its 2 texts of 64 positions, each of 2
 * heads of 32, at half of the bandwidth, of int8 a byte each; prompts take the operations of their
 * chunk at a quarter of the peak. Shares of sizes between go with their logarithms. */
static void attention_of_a_chip(void **state)
{
    (void)state;
    const struct sw_products prefill = flat_grid(0.25), decode = flat_grid(0.5);
    const struct sw_cluster_config c = measured_chip(NULL, &prefill, &decode);
    struct sw_program_set *wide = serving_of(SW_BF16_T),
                          *narrow = serving_with(SW_BF16_T, SW_BF16_T, SW_I8);
    const struct sw_program *p = wide->program[SW_PROGRAM_DECODE];
    const double bytes = 2.0 * 2 * 64 * 2 * 32 * 2; /* keys and values in bf16 */
    close_to(sw_cost_compute_seconds(p, op_of(p, SW_OP_ATTENTION), &c, NULL), bytes / 0.5e12);
    p = narrow->program[SW_PROGRAM_DECODE];
    close_to(sw_cost_compute_seconds(p, op_of(p, SW_OP_ATTENTION), &c, NULL), bytes / 2 / 0.5e12);
    p = wide->program[SW_PROGRAM_PREFILL];
    const struct sw_op *op = op_of(p, SW_OP_ATTENTION);
    const struct sw_workload workload = {.prompt_tokens = 16};
    const double rows = (double)p->values[op->in[0].value].local[0];
    close_to(sw_cost_compute_seconds(p, op, &c, &workload),
             4 * rows * 16 * 8 * 4 * 32 / 0.25e14); /* 4 heads; 8 positions are met in the mean */
    struct sw_products slope = flat_grid(1);
    slope.share[0] = slope.share[1] = 0.01;
    close_to(sw_cost_attention_grid_share(&slope, 64, 1, 32), 0.1);
    close_to(sw_cost_attention_grid_share(&slope, 64, 1, 128), 0.1);
    sw_program_set_free(wide);
    sw_program_set_free(narrow);
}

/* Grids from 8 heads and 32 positions on. */
static struct sw_products coarse_grid(double share)
{
    struct sw_products grid = flat_grid(share);
    grid.row[0] = 8;
    grid.column[0] = 32;
    return grid;
}

/* A chunk of a prompt is fewer heads than were measured, and takes its part of the prompt's time,
 * but no less than a kernel's start does: that of the smallest size measured. */
static void a_chunk_takes_its_part(void **state)
{
    (void)state;
    enum { PROMPT = 1024 };
    const struct sw_products prefill = coarse_grid(0.25);
    const struct sw_cluster_config c = measured_chip(NULL, &prefill, NULL);
    const struct sw_workload workload = {.prompt_tokens = PROMPT};
    const double start = 2.0 * 8 * 32 * 32 * 32 / 0.25e14;
    double before = 0, started = 0;
    for (int32_t chunk = 2; chunk <= PROMPT; chunk *= 8) {
        struct sw_program_options o = options_of(SW_BF16_T);
        const struct sw_serving want = {.max_batch = 4,
                                        .max_tokens = PROMPT,
                                        .chunk = chunk,
                                        .token_budget = 4 * chunk,
                                        .cache = SW_BF16_T,
                                        .weights = SW_BF16_T};
        struct sw_program_set *set = NULL;
        struct sw_error err = {0};
        if (sw_program_set_compile_serving(&o, &want, 1u << SW_PROGRAM_PREFILL, &set, &err) != 0)
            fail_msg("%s", err.message);
        const struct sw_program *p = set->program[SW_PROGRAM_PREFILL];
        const struct sw_op *op = op_of(p, SW_OP_ATTENTION);
        const double heads = 4.0 * (double)p->values[op->in[0].value].local[0];
        const double seconds = sw_cost_compute_seconds(p, op, &c, &workload);
        const double part = 2 * heads * chunk * PROMPT * 32 / 0.25e14;
        close_to(seconds, part > start ? part : start);
        started += seconds == start;
        const double all = seconds * PROMPT / chunk;
        assert_true(before == 0 || all <= before * (1 + 1e-9));
        before = all;
        sw_program_set_free(set);
    }
    assert_true(started > 0);
}

/* A token's cache of fewer heads is fewer bytes, whose kernel starts no sooner. */
static void few_heads_start_a_kernel(void **state)
{
    (void)state;
    struct sw_products decode = coarse_grid(0.5);
    struct sw_cluster_config c = measured_chip(NULL, NULL, &decode);
    struct sw_program_set *set = serving_of(SW_BF16_T);
    const struct sw_program *p = set->program[SW_PROGRAM_DECODE];
    const struct sw_op *op = op_of(p, SW_OP_ATTENTION);
    const double bytes = 2.0 * 2 * 64 * 2 * 32 * 2; /* 4 heads of 64 positions, keys and values */
    close_to(sw_cost_compute_seconds(p, op, &c, NULL), bytes / 0.5e12);
    decode.column[0] = 48; /* of 8 heads more bytes than 4 of 64 positions */
    close_to(sw_cost_compute_seconds(p, op, &c, NULL), 4.0 * 8 * 48 * 32 / 0.5e12);
    sw_program_set_free(set);
}

/* A profile that holds attention by size, or at several sizes, is of this chip's own software: a
 * cache in int8, which it has none of, is not another software's either. */
static void what_a_profile_measured_counts(void **state)
{
    (void)state;
    const struct sw_products decode = flat_grid(0.5), own = flat_grid(0.1);
    const struct sw_cluster_config chip = measured_chip(NULL, NULL, &decode),
                                   none = measured_chip(NULL, NULL, NULL);
    struct sw_program_set *set = serving_with(SW_BF16_T, SW_BF16_T, SW_I8);
    const struct sw_program *p = set->program[SW_PROGRAM_DECODE];
    const struct sw_op *op = op_of(p, SW_OP_ATTENTION);
    for (int32_t i = 0; i < 2; i++) {
        struct sw_cluster_config with = chip, without = none;
        struct sw_profile_config *const both[] = {&with.profile, &without.profile};
        for (int32_t k = 0; k < 2; k++)
            if (i == 0)
                both[k]->attention_by_size[SW_ATTENTION_CACHED][SW_RATE_BF16] = &own;
            else
                both[k]->attention = (struct sw_curve){2, {{1, 0.01}, {1e12, 0.02}}};
        close_to(sw_cost_compute_seconds(p, op, &with, NULL),
                 sw_cost_compute_seconds(p, op, &without, NULL));
    }
    sw_program_set_free(set);
}

/* Of a chip whose products were measured, which reach all of its bandwidth: weights of 8 bits are
 * as many bytes of bf16's, and software that makes q, k and v as one reads their rows once. */
static void narrow_and_joined_products(void **state)
{
    (void)state;
    const struct sw_products all = flat_grid(1);
    struct sw_cluster_config c = measured_chip(&all, NULL, NULL);
    c.profile.matmul = (struct sw_curve){1, {{1, 1}}};
    c.profile.peak_int8_flops = 2e14;
    struct sw_program_set *wide = serving_of(SW_BF16_T), *narrow = serving_in(SW_BF16_T, SW_I8);
    const struct sw_program *p = wide->program[SW_PROGRAM_DECODE],
                            *q = narrow->program[SW_PROGRAM_DECODE];
    const double m = 2, k = 128, n = 4 * 32, kv = 2 * 32; /* of 2 texts */
    close_to(sw_cost_compute_seconds(p, op_of(p, SW_OP_LINEAR), &c, NULL),
             2 * (m * k + k * n + m * n) / 1e12);
    close_to(sw_cost_compute_seconds(q, op_of(q, SW_OP_LINEAR), &c, NULL),
             2 * (m * k / 2 + k / 2 * n + m * n) / 1e12);
    c.profile.joins_products = true;
    close_to(sw_cost_compute_seconds(p, op_of(p, SW_OP_LINEAR), &c, NULL),
             2 * (m * k + (k + m) * (n + 2 * kv)) / 1e12 * n / (n + 2 * kv));
    sw_program_set_free(wide);
    sw_program_set_free(narrow);
}

/* Of a chip of which no products were measured the same peak of 8 bits counts. */
static void narrow_products_of_any_chip(void **state)
{
    (void)state;
    struct sw_cluster_config c = measured_chip(NULL, NULL, NULL);
    c.profile.matmul = (struct sw_curve){1, {{1, 1}}};
    c.profile.memory = (struct sw_curve){1, {{1, 1}}};
    struct sw_program_set *narrow = serving_in(SW_BF16_T, SW_I8);
    const struct sw_program *q = narrow->program[SW_PROGRAM_DECODE];
    const struct sw_op *op = op_of(q, SW_OP_LINEAR);
    const double m = 2, k = 128, n = 4 * 32; /* of 2 texts; n scales */
    c.profile.peak_int8_flops = 1e3;         /* slow enough to be all that counts */
    c.profile.peak_bf16_flops = 1e3;
    const double slow = sw_cost_compute_seconds(q, op, &c, NULL);
    c.profile.peak_int8_flops = 2e3;
    close_to(sw_cost_compute_seconds(q, op, &c, NULL), slow / 2);
    c.profile.peak_int8_flops = 2e14;
    close_to(sw_cost_compute_seconds(q, op, &c, NULL),
             (2 * m * k + k * n + 4 * n + 2 * m * n) / 1e12);
    sw_program_set_free(narrow);
}

/* Only the default of training becomes that of serving, of GPUs, and back; what it stands for is
 * told as such. */
static void default_of_serving(void **state)
{
    (void)state;
    const struct sw_products all = flat_grid(1);
    struct sw_cluster_config c = measured_chip(&all, &all, &all), core = cluster_of();
    c.profile = sw_profile_default(&c.accelerator);
    c.link[0].bandwidth = 300e9;
    sw_profile_for_serving(&core);
    assert_string_equal(core.profile.name, "default");
    assert_false(sw_profile_is_of_servers(&core.profile));
    sw_profile_for_serving(&c);
    assert_string_equal(c.profile.name, "default-serving");
    assert_true(sw_profile_is_default(&c.profile) && sw_profile_is_of_servers(&c.profile));
    close_to(c.profile.matmul.point[0].fraction, 1);
    close_to(c.profile.peak_int8_flops, 2e14);
    assert_true(c.profile.joins_products && c.profile.reduces_directly);
    assert_true(c.profile.band_low > 0.7 && c.profile.band_high < 1.3);
    c.profile.matmul.point[0].fraction = 0.5;
    sw_profile_for_serving(&c);
    close_to(c.profile.matmul.point[0].fraction, 0.5);
    sw_profile_for_training(&c);
    assert_string_equal(c.profile.name, "default");
    assert_false(c.profile.joins_products || c.profile.reduces_directly);
    close_to(c.profile.launch_latency_s, 3e-6);
    /* what somebody wrote is no default, whatever its name */
    c.profile.assumed = false;
    sw_profile_for_serving(&c);
    assert_string_equal(c.profile.name, "default");
    assert_false(sw_profile_is_default(&c.profile));
}

/* A launch's latency that somebody told is of the machine, whatever the software. */
static void a_told_launch_stays(void **state)
{
    (void)state;
    const struct sw_products all = flat_grid(1);
    struct sw_cluster_config c = measured_chip(&all, &all, &all);
    c.profile.launch_latency_s = 50e-6;
    sw_profile_for_serving(&c);
    assert_string_equal(c.profile.name, "default-serving");
    close_to(c.profile.launch_latency_s, 50e-6);
    sw_profile_for_training(&c);
    close_to(c.profile.launch_latency_s, 50e-6);
}

/* The narrow band is of chips whose products and attention were measured, and sums in two steps are
 * of links that PCIe is slower than. */
static void only_measured_chips_are_known(void **state)
{
    (void)state;
    const struct sw_products all = flat_grid(1);
    const struct {
        const struct sw_products *products, *prefill, *decode;
        double bandwidth;
        bool measured, direct;
    } cases[] = {{&all, &all, &all, 450e9, true, true},   {&all, &all, &all, 64e9, true, false},
                 {&all, NULL, NULL, 450e9, false, false}, {NULL, &all, &all, 450e9, false, false},
                 {&all, &all, NULL, 450e9, false, false}, {NULL, NULL, NULL, 90e9, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_cluster_config c =
            measured_chip(cases[i].products, cases[i].prefill, cases[i].decode);
        c.link[0].bandwidth = cases[i].bandwidth;
        sw_profile_for_serving(&c);
        const struct sw_usual_software *serving = &sw_device_row(SW_DEVICE_CUDA)->serving;
        close_to(c.profile.band_low, cases[i].measured ? serving->band_low : 0.7);
        close_to(c.profile.band_high, cases[i].measured ? serving->band_high : 1.3);
        assert_int_equal(c.profile.reduces_directly, cases[i].direct);
        assert_int_equal(strcmp(c.profile.source, serving->source) == 0, cases[i].measured);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_a_chip),
        cmocka_unit_test(a_chunk_takes_its_part),
        cmocka_unit_test(few_heads_start_a_kernel),
        cmocka_unit_test(what_a_profile_measured_counts),
        cmocka_unit_test(narrow_and_joined_products),
        cmocka_unit_test(narrow_products_of_any_chip),
        cmocka_unit_test(default_of_serving),
        cmocka_unit_test(a_told_launch_stays),
        cmocka_unit_test(only_measured_chips_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
