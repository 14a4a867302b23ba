/* Prices of matrix products whose sizes were measured, by hand. */
#include "core/cost/cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void close_to(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-9 * fabs(wanted)))
        fail_msg("%.17g, not %.17g", value, wanted);
}

static const double far = 1e12; /* bytes of a step that no cache holds */

static double product(const struct sw_cluster_config *cluster, enum sw_dtype dtype, double m,
                      double n, double k)
{
    return sw_cost_product_seconds(cluster, dtype, &(struct sw_product){.m = m, .n = n, .k = k},
                                   far);
}

/* Measured products: shares of the least time; below the grid as much off it as at its edge. */
static void measured_products(void **state)
{
    (void)state;
    const struct sw_products own = {.rows = 2,
                                    .columns = 2,
                                    .depths = 2,
                                    .row = {16, 4096},
                                    .column = {1024, 16384},
                                    .depth = {1024, 16384},
                                    .share = {0.2, 0.4, 0.3, 0.8, 0.5, 0.7, 0.6, 0.9},
                                    .asymptote = 0.8};
    struct sw_cluster_config c = {.accelerator = {.device = SW_DEVICE_CUDA,
                                                  .compute_units = 100,
                                                  .peak_bf16_flops = 1e15,
                                                  .peak_fp32_flops = 5e13,
                                                  .memory_bandwidth = 2e12}};
    c.accelerator.products = &own;
    close_to(sw_cost_products_share(&own, 16, 1024, 16384), 0.4);
    close_to(sw_cost_products_share(&own, 256, 4096, 4096), 4.4 / 8); /* the middle of all */
    close_to(sw_cost_products_share(&own, 1e6, 1e6, 1e6), 0.9);
    close_to(sw_cost_products_share(&own, 1, 1, 1), 0.2);
    c.profile = sw_profile_default(&c.accelerator);
    close_to(c.profile.matmul.point[0].fraction, 0.74 * 0.8);
    close_to(product(&c, SW_BF16_T, 4096, 16384, 16384),
             2.0 * 4096 * 16384 * 16384 / 1e15 / (0.9 * 0.74)); /* by arithmetic */
    close_to(product(&c, SW_BF16_T, 16, 16384, 16384),
             2.0 * (2.0 * 16 * 16384 + 16384.0 * 16384) / 2e12 / (0.8 * 0.74)); /* by memory */
    /* one wave of tiles either way: as long as at the edge */
    close_to(product(&c, SW_BF16_T, 16, 256, 1024), product(&c, SW_BF16_T, 16, 1024, 1024));
    const double in_fp32 = product(&c, SW_F32, 16, 1024, 1024); /* where nothing was measured */
    c.accelerator.products = NULL;
    close_to(product(&c, SW_F32, 16, 1024, 1024), in_fp32);
    c.accelerator.products = &own;
    c.profile.matmul = (struct sw_curve){1, {{1, 1}}}; /* no more than the peak */
    close_to(product(&c, SW_BF16_T, 4096, 16384, 16384), 2.0 * 4096 * 16384 * 16384 / 1e15);
    struct sw_products mine = own; /* the profile's own */
    mine.asymptote = 2;
    c.profile.products[SW_PRODUCT_LINEAR][SW_RATE_BF16] = &mine;
    close_to(product(&c, SW_BF16_T, 4096, 16384, 16384), 2.0 * 4096 * 16384 * 16384 / 4.5e14);
    c.profile.matmul = (struct sw_curve){2, {{1e6, 0.2}, {1e18, 0.5}}}; /* measured by size */
    assert_true(product(&c, SW_BF16_T, 4096, 16384, 16384) > 2.0 * 4096 * 16384 * 16384 / 0.5e15);
    c.profile.products_scale =
        (struct sw_curve){1, {{1, 0.75}}}; /* told, and no more what `matmul` says of large ones */
    close_to(product(&c, SW_BF16_T, 4096, 16384, 16384),
             2.0 * 4096 * 16384 * 16384 / 1e15 / (0.9 * 0.75));
}

/* A CPU's own, in fp32 and by how operands lie: one is not taken for another. */
static void measured_products_by_kind(void **state)
{
    (void)state;
    const struct sw_products forward = {.rows = 2,
                                        .columns = 2,
                                        .depths = 2,
                                        .row = {16, 4096},
                                        .column = {64, 1024},
                                        .depth = {64, 1024},
                                        .share = {0.2, 0.4, 0.3, 0.8, 0.5, 0.7, 0.6, 0.9},
                                        .asymptote = 0.9};
    struct sw_products gradient = forward;
    gradient.share[7] = 0.45;
    struct sw_cluster_config c = {.accelerator = {.device = SW_DEVICE_CPU,
                                                  .peak_bf16_flops = 2e11,
                                                  .peak_fp32_flops = 1e11,
                                                  .memory_bandwidth = 1e10}};
    struct sw_product s = {.m = 4096, .n = 1024, .k = 1024, .kind = SW_PRODUCT_LINEAR_T};
    const double flops = 2.0 * 4096 * 1024 * 1024;
    c.profile = sw_profile_default(&c.accelerator);
    const double untold = sw_cost_product_seconds(&c, SW_F32, &s, far);
    c.profile.products_scale = (struct sw_curve){1, {{1, 1}}};
    c.profile.products[SW_PRODUCT_LINEAR][SW_RATE_FP32] = &forward;
    c.profile.products[SW_PRODUCT_LINEAR_DW][SW_RATE_FP32] = &gradient;
    close_to(sw_cost_product_seconds(&c, SW_F32, &s, far), untold); /* linear_t has none */
    s.kind = SW_PRODUCT_LINEAR;
    close_to(sw_cost_product_seconds(&c, SW_F32, &s, far), flops / 1e11 / 0.9);
    close_to(sw_cost_product_seconds(&c, SW_BF16_T, &s, far), untold / 2);
    s.kind = SW_PRODUCT_LINEAR_DW;
    close_to(sw_cost_product_seconds(&c, SW_F32, &s, far), flops / 1e11 / 0.45);
    s = (struct sw_product){.m = 16, .n = 64, .k = 1024, .kind = SW_PRODUCT_LINEAR};
    /* by memory, 4 bytes an element */
    close_to(sw_cost_product_seconds(&c, SW_F32, &s, far),
             4.0 * (16 * 1024 + 64 * 1024 + 16 * 64) / 1e10 / 0.4);
}

/* Caches hold what small steps move; none is faster than its peak for it. */
static void products_go_by_the_bytes_of_their_step(void **state)
{
    (void)state;
    const struct sw_products grid = {.rows = 2,
                                     .columns = 2,
                                     .depths = 2,
                                     .row = {16, 4096},
                                     .column = {64, 1024},
                                     .depth = {64, 1024},
                                     .share = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.8},
                                     .asymptote = 0.9};
    struct sw_cluster_config c = {.accelerator = {.device = SW_DEVICE_CPU,
                                                  .peak_bf16_flops = 2e11,
                                                  .peak_fp32_flops = 1e11,
                                                  .memory_bandwidth = 1e10}};
    struct sw_product s = {.m = 256, .n = 256, .k = 256, .kind = SW_PRODUCT_LINEAR};
    c.profile = sw_profile_default(&c.accelerator);
    c.profile.products[SW_PRODUCT_LINEAR][SW_RATE_FP32] = &grid;
    c.profile.products_scale = (struct sw_curve){2, {{1e7, 1.6}, {1e9, 1}}};
    const double alone = sw_cost_product_seconds(&c, SW_F32, &s, 1e9);
    close_to(sw_cost_product_seconds(&c, SW_F32, &s, far), alone);
    close_to(sw_cost_product_seconds(&c, SW_F32, &s, 1e8), alone / 1.3);
    close_to(sw_cost_product_seconds(&c, SW_F32, &s, 1e3), alone / 1.6);
    s = (struct sw_product){.m = 4096, .n = 1024, .k = 1024, .kind = SW_PRODUCT_LINEAR};
    close_to(sw_cost_product_seconds(&c, SW_F32, &s, 1e3), 2.0 * 4096 * 1024 * 1024 / 1e11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_products),
        cmocka_unit_test(measured_products_by_kind),
        cmocka_unit_test(products_go_by_the_bytes_of_their_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
