/* What `runner calibrate` makes of the seconds of matrix products. */
#include "core/cost/cost.h"
#include "runner/calibrate/attention.h"
#include "runner/calibrate/products.h"
#include "runner/calibrate/write.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void close_to(double a, double b)
{
    if (!(a > b * (1 - 1e-9) && a < b * (1 + 1e-9)))
        fail_msg("%.12g is not %.12g", a, b);
}

static void add(struct sw_kernel_rates *rates, enum sw_rate_kind kind, double size, double rate)
{
    struct sw_rate_bucket *bucket = &rates->bucket[kind][sw_rate_bucket_index(size)];
    *bucket = (struct sw_rate_bucket){1, size, (size / rate + 1e-6) / 2};
}

/* Two ranks that had a core half of the time; every op takes 1 us besides its work. */
static struct sw_kernel_rates example(void)
{
    struct sw_kernel_rates rates = {.wall_seconds = 8,
                                    .busy_seconds = 4,
                                    .fp32_seconds = 3,
                                    .bf16_seconds = 1.5,
                                    .least_seconds = 2 * 0.5e-6};
    add(&rates, SW_RATE_MATMUL, 1e6, 10e9);
    add(&rates, SW_RATE_MATMUL, 1e9, 40e9);
    add(&rates, SW_RATE_ATTENTION, 1e7, 8e9);
    add(&rates, SW_RATE_ATTENTION_BACKWARD, 1e7, 6e9);
    add(&rates, SW_RATE_MEMORY, 1e7, 4e9);
    return rates;
}

/* Every product of a grid at so many FLOP/s besides its launch, as two ranks with a core half of
 * the time add it up. */
static void add_grid(struct sw_kernel_rates *rates, enum sw_product_kind kind,
                     enum sw_rate_dtype dtype, int32_t tokens, double flops_per_s)
{
    struct sw_grid_rates *to = &rates->products[kind][dtype];
    struct sw_products grid;
    sw_products_sizes(kind, tokens, &grid);
    *to = (struct sw_grid_rates){.levels = 2 * tokens, .wall_seconds = 2, .busy_seconds = 1};
    for (int32_t i = 0; i < sw_products_points(&grid); i++) {
        const struct sw_product s = sw_products_point(&grid, i);
        to->seconds[i] = 2 * (2 * s.m * s.n * s.k / flops_per_s + 1e-6) / 2;
    }
}

/* One that a step of both ranks ran three times, at so many FLOP/s; the step moves so many bytes.
 */
static void add_product_of(struct sw_kernel_rates *rates, double step_bytes,
                           enum sw_product_kind kind, double m, double n, double k,
                           double flops_per_s)
{
    const int32_t at = (int32_t)(rates->step_products / 2);
    rates->step_products += 2;
    rates->step_product[at] =
        (struct sw_step_product){2 * kind,
                                 2 * m,
                                 2 * n,
                                 2 * k,
                                 2 * step_bytes,
                                 2 * 3,
                                 2 * 3 * (2 * m * n * k / flops_per_s + 1e-6) / 2};
}

static const double far = 4e9; /* bytes of a step that no cache holds */

static void add_step_product(struct sw_kernel_rates *rates, enum sw_product_kind kind, double m,
                             double n, double k, double flops_per_s)
{
    add_product_of(rates, far, kind, m, n, k, flops_per_s);
}

static double scale_of(const struct sw_calibration *c, double step_bytes)
{
    return sw_cost_efficiency(&c->products_scale, step_bytes, -1);
}

/* Peaks are 40 and 80 GFLOP/s, the memory does 4 GB/s. */
static void products_are_shares_of_the_least_time(void **state)
{
    (void)state;
    struct sw_calibration c;
    struct sw_error err = {0};
    struct sw_kernel_rates rates = example();
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    assert_true(c.products_scale.count == 0 && c.products[0][0].rows == 0);
    add_grid(&rates, SW_PRODUCT_LINEAR, SW_RATE_FP32, SW_PRODUCT_TOKENS, 20e9);
    add_grid(&rates, SW_PRODUCT_LINEAR_DW, SW_RATE_BF16, 2, 60e9);
    add_step_product(&rates, SW_PRODUCT_LINEAR, 600, 600, 600, 19e9);
    add_step_product(&rates, SW_PRODUCT_LINEAR, 100, 1024, 500, 18e9);
    add_step_product(&rates, SW_PRODUCT_LINEAR, 300, 800, 200, 9e9);
    add_step_product(&rates, SW_PRODUCT_LINEAR, 16, 800, 200, 1e9);     /* below the grid */
    add_step_product(&rates, SW_PRODUCT_LINEAR_DW, 300, 800, 200, 1e9); /* none in fp32 */
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    const struct sw_products *forward = &c.products[SW_PRODUCT_LINEAR][SW_RATE_FP32],
                             *gradient = &c.products[SW_PRODUCT_LINEAR_DW][SW_RATE_BF16];
    assert_int_equal(forward->rows, SW_PRODUCT_TOKENS);
    assert_int_equal(gradient->rows, SW_PRODUCT_WIDTHS); /* tokens are its depth */
    assert_int_equal(gradient->depths, 2);
    assert_int_equal(c.products[SW_PRODUCT_LINEAR_T][SW_RATE_FP32].rows, 0);
    close_to(c.fp32_flops, 40e9);
    close_to(forward->share[sw_products_points(forward) - 1], 0.5);
    /* 32 x 32 x 32: 12,288 bytes at 4 GB/s where its 65,536 FLOP took 3.3 us */
    close_to(forward->share[0], (12288 / 4e9) / (65536 / 20e9));
    close_to(gradient->share[sw_products_points(gradient) - 1], 0.75);
    assert_int_equal(c.products_scale.count, 1);
    close_to(scale_of(&c, far), 18.0 / 20);
    close_to(c.products_error, 19.0 / 18 - 1);
    close_to(c.products_signed_error, (18.0 / 19 + 18.0 / 18 + 18.0 / 9) / 3 - 1);
    assert_int_equal(c.products_tried, 3);
    /* no product is above its peak: what the curves say in FLOP/s stays */
    add_grid(&rates, SW_PRODUCT_LINEAR, SW_RATE_FP32, SW_PRODUCT_TOKENS, 50e9);
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    close_to(c.fp32_flops, 50e9);
    close_to(c.bf16_flops, 100e9);
    close_to(c.curve[SW_RATE_MATMUL].point[1].fraction, 0.8);
    close_to(c.curve[SW_RATE_ATTENTION].point[0].fraction, 0.16);
    close_to(c.curve[SW_RATE_ATTENTION_BACKWARD].point[0].fraction, 0.12);
    close_to(forward->share[sw_products_points(forward) - 1], 1);
    close_to(gradient->share[sw_products_points(gradient) - 1], 0.6);
}

/* A point that took no time by the clock has no rate, and would be priced as the slowest. */
static void grids_that_the_clock_missed_are_left_out(void **state)
{
    (void)state;
    struct sw_calibration c;
    struct sw_error err = {0};
    struct sw_kernel_rates rates = example();
    add_grid(&rates, SW_PRODUCT_LINEAR, SW_RATE_FP32, SW_PRODUCT_TOKENS, 50e9);
    add_grid(&rates, SW_PRODUCT_LINEAR_T, SW_RATE_FP32, SW_PRODUCT_TOKENS, 20e9);
    add_step_product(&rates, SW_PRODUCT_LINEAR, 600, 600, 600, 19e9);
    rates.products[SW_PRODUCT_LINEAR][SW_RATE_FP32].seconds[1] = 0;
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    assert_int_equal(c.products[SW_PRODUCT_LINEAR][SW_RATE_FP32].rows, 0);
    assert_int_equal(c.products[SW_PRODUCT_LINEAR_T][SW_RATE_FP32].rows, SW_PRODUCT_TOKENS);
    close_to(c.fp32_flops, 40e9);
    assert_int_equal(c.products_tried, 0);
    assert_int_equal(c.products_scale.count, 0);
    /* of one of the ranks: what the other took makes a sum of it, and a rate twice as high */
    add_grid(&rates, SW_PRODUCT_LINEAR, SW_RATE_FP32, SW_PRODUCT_TOKENS, 20e9);
    rates.products[SW_PRODUCT_LINEAR][SW_RATE_FP32].seconds[7] /= 2;
    rates.products[SW_PRODUCT_LINEAR][SW_RATE_FP32].missed = 1;
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    assert_int_equal(c.products[SW_PRODUCT_LINEAR][SW_RATE_FP32].rows, 0);
    assert_int_equal(c.products[SW_PRODUCT_LINEAR_T][SW_RATE_FP32].rows, SW_PRODUCT_TOKENS);
}

/* Products of steps that hardly took time: what is written is what a profile may say, and no
 * step is taken to be faster than its products by themselves. */
static void scales_are_what_a_profile_takes(void **state)
{
    (void)state;
    struct sw_calibration c;
    struct sw_error err = {0};
    struct sw_kernel_rates rates = example();
    add_grid(&rates, SW_PRODUCT_LINEAR, SW_RATE_FP32, SW_PRODUCT_TOKENS, 20e9);
    add_step_product(&rates, SW_PRODUCT_LINEAR, 600, 600, 600, 1e13);
    add_step_product(&rates, SW_PRODUCT_LINEAR, 600, 600, 600, 1e17);
    add_step_product(&rates, SW_PRODUCT_LINEAR, 600, 600, 600, 1e17);
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    assert_int_equal(c.products_tried, 3);
    assert_true(c.products_scale.count == 1 && scale_of(&c, far) == 1);
    assert_true(c.products_error == 100);
}

/* Products alone run at 20 GFLOP/s. Those of a step that caches hold are faster, those of a larger
 * one less so, and what is above a smaller step's is its and that one's mean. */
static void small_steps_find_their_weights_in_caches(void **state)
{
    (void)state;
    struct sw_calibration c;
    struct sw_error err = {0};
    struct sw_kernel_rates rates = example();
    add_grid(&rates, SW_PRODUCT_LINEAR, SW_RATE_FP32, SW_PRODUCT_TOKENS, 20e9);
    for (int32_t i = 0; i < 3; i++)
        add_product_of(&rates, 100e6, SW_PRODUCT_LINEAR, 600, 600, 600, 28e9);
    add_product_of(&rates, 40e6, SW_PRODUCT_LINEAR, 600, 600, 600, 24e9); /* disturbed */
    add_product_of(&rates, 10e6, SW_PRODUCT_LINEAR, 600, 600, 600, 36e9);
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    assert_int_equal(c.products_scale.count, 4);
    close_to(scale_of(&c, 1e3), 36.0 / 20);
    close_to(scale_of(&c, 10e6), 36.0 / 20);
    close_to(scale_of(&c, 40e6), 27.0 / 20);
    close_to(scale_of(&c, 100e6), 27.0 / 20);
    assert_true(scale_of(&c, far) == 1); /* as none was measured */
    close_to(c.products_error, 28.0 / 27 - 1);
    add_step_product(&rates, SW_PRODUCT_LINEAR, 600, 600, 600, 19e9);
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    assert_int_equal(c.products_scale.count, 4);
    close_to(scale_of(&c, far), 19.0 / 20);
    close_to(scale_of(&c, 100e6), 27.0 / 20);
}

/* Sines cost by their number, which says nothing of bytes: of 1000 angles each 10 ns more than the
 * memory, which does 4 GB/s, and a launch of 1 us. */
static void rope_takes_time_for_its_angles(void **state)
{
    (void)state;
    struct sw_calibration c;
    struct sw_error err = {0};
    struct sw_kernel_rates rates = example();
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    assert_true(c.angle_time_s == 0); /* there was none */
    rates.rope[3] = (struct sw_rate_bucket){2, 2e4, (2e4 / 4e9 + 2 * 1000 * 10e-9 + 2 * 1e-6) / 2};
    rates.angles = 2 * 1000;
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    close_to(c.angle_time_s, 10e-9);
    rates.rope[3].seconds = 1e-6; /* less than memory alone */
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    assert_true(c.angle_time_s == 0);
}

/* Every point of a grid of attention at so many FLOP/s, as add_grid. */
static void add_attention(struct sw_kernel_rates *rates, enum sw_attention_phase phase,
                          int32_t lengths, double flops_per_s)
{
    struct sw_grid_rates *to = &rates->attention[phase][SW_RATE_FP32];
    struct sw_products grid;
    sw_attention_sizes(phase, lengths, &grid);
    *to = (struct sw_grid_rates){.levels = 2 * lengths, .wall_seconds = 2, .busy_seconds = 1};
    for (int32_t i = 0; i < sw_products_points(&grid); i++) {
        const struct sw_product s = sw_products_point(&grid, i);
        to->seconds[i] = 2 * (sw_attention_flops(phase, &s) / flops_per_s + 1e-6) / 2;
    }
}

static void attention_is_told_by_size(void **state)
{
    (void)state;
    struct sw_calibration c;
    struct sw_error err = {0};
    struct sw_kernel_rates rates = example();
    const struct sw_product s = {.m = 4, .n = 300, .k = 48};
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    assert_true(c.attention_by_size[0][0].rows == 0 && c.attention_scale.count == 0);
    add_attention(&rates, SW_ATTENTION_FORWARD, 4, 10e9);
    add_attention(&rates, SW_ATTENTION_CACHED, 3, 50e9); /* above matmul's peak, which stays */
    const double took = 2 * (sw_attention_flops(SW_ATTENTION_FORWARD, &s) / 12e9 + 1e-6) / 2;
    rates.step_attentions = 2 * 2;
    rates.step_attention[0] = (struct sw_step_product){
        2 * SW_ATTENTION_FORWARD, 2 * s.m, 2 * s.n, 2 * s.k, 2 * 1e8, 2, took};
    rates.step_attention[1] = rates.step_attention[0]; /* shorter than any of the grid */
    rates.step_attention[1].n = 2 * 8;
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    const struct sw_products *forward = &c.attention_by_size[SW_ATTENTION_FORWARD][SW_RATE_FP32];
    const struct sw_products *cached = &c.attention_by_size[SW_ATTENTION_CACHED][SW_RATE_FP32];
    assert_true(forward->columns == 4 && forward->column[3] == 512 && forward->row[1] == 8);
    assert_true(cached->columns == 3 && cached->row[0] == 1 && cached->depth[2] == 128);
    assert_int_equal(c.attention_by_size[SW_ATTENTION_BACKWARD][SW_RATE_FP32].rows, 0);
    close_to(forward->share[0], 0.25);
    close_to(forward->share[sw_products_points(forward) - 1], 0.25);
    close_to(cached->share[0], 1);
    close_to(c.fp32_flops, 40e9);
    assert_int_equal(c.attention_tried, 1);
    close_to(sw_cost_efficiency(&c.attention_scale, 1e8, -1), 1.2);
    assert_true(sw_cost_efficiency(&c.attention_scale, far, -1) == 1);
    assert_true(c.attention_error < 1e-9);
    rates.attention[SW_ATTENTION_FORWARD][SW_RATE_FP32].missed = 1;
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    assert_true(forward->rows == 0 && cached->rows > 0 && c.attention_scale.count == 0);
}

/* Columns have an inner one: 0.4 between 0.2 and 0.4 where 0.3 is told, 0.5 of 0.5 and 0.5. */
static void points_are_left_out(void **state)
{
    (void)state;
    struct sw_products grid = {.rows = 2,
                               .columns = 3,
                               .depths = 1,
                               .row = {1, 2},
                               .column = {10, 100, 1000},
                               .depth = {1},
                               .share = {0.2, 0.4, 0.4, 0.5, 0.5, 0.5}};
    int32_t count;
    close_to(sw_grid_left_out(&grid, &count), 0.25);
    assert_int_equal(count, 2);
    grid.rows = 1;
    grid.column[1] = 20; /* nearer to the first */
    const double told = 0.2 + 0.2 * log(2) / log(100);
    close_to(sw_grid_left_out(&grid, &count), 1 - told / 0.4);
    grid.columns = 2;
    assert_true(sw_grid_left_out(&grid, &count) == 0 && count == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_shares_of_the_least_time),
        cmocka_unit_test(grids_that_the_clock_missed_are_left_out),
        cmocka_unit_test(scales_are_what_a_profile_takes),
        cmocka_unit_test(small_steps_find_their_weights_in_caches),
        cmocka_unit_test(attention_is_told_by_size),
        cmocka_unit_test(points_are_left_out),
        cmocka_unit_test(rope_takes_time_for_its_angles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
