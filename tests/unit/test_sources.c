/* The constants of a price: all of them are listed, what each is worth is what the price does when
 * it changes, and where it stands is told. */
#include "planner/explain/sources.h"
#include "planner/search/purpose.h"
#include "tests/unit/plan_support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct sw_test_run small = {.nodes = 4,
                                         .per_node = 4,
                                         .kv_heads = 32,
                                         .layers = 4,
                                         .sequence_length = 8192,
                                         .global_batch_size = 64,
                                         .memory = "80 GB",
                                         .inner = "90 GB/s",
                                         .outer = "45 GB/s",
                                         .latency = "5 us",
                                         .launch = "3 us",
                                         .more = "serve: {max_batch: 8}\n"};

static const struct sw_products grid = {.rows = 2,
                                        .columns = 2,
                                        .depths = 2,
                                        .row = {1, 1024},
                                        .column = {64, 8192},
                                        .depth = {64, 8192},
                                        .share = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8},
                                        .asymptote = 0.85};

static const struct sw_constant *find(const struct sw_constant *list, int32_t count,
                                      const char *name)
{
    for (int32_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    fail_msg("no constant '%s'", name);
    return NULL;
}

static void every_constant_is_scaled_alone(void **state)
{
    (void)state;
    struct sw_constant before[SW_MOST_CONSTANTS], after[SW_MOST_CONSTANTS];
    struct sw_constant_room room;
    struct sw_config *config = sw_test_read_run(&small);
    struct sw_cluster_config with_grids = sw_config_run(config)->cluster;
    const struct sw_cluster_config *cluster = &with_grids;
    with_grids.accelerator.products = with_grids.accelerator.decode_attention = &grid;
    with_grids.profile.products[0][0] = with_grids.profile.products[1][0] = &grid;
    with_grids.profile.attention_by_size[1][1] = &grid;
    const int32_t count = sw_constants_list(cluster, before);
    assert_true(count > 10);
    for (int32_t i = 0; i < count; i++) {
        struct sw_cluster_config changed = *cluster;
        sw_constant_scale(&changed, &before[i], 2, &room);
        assert_int_equal(sw_constants_list(&changed, after), count);
        for (int32_t k = 0; k < count; k++) {
            assert_string_equal(after[k].name, before[k].name);
            assert_true(after[k].most == before[k].most * (k == i ? 2 : 1));
            assert_true(k == i || strcmp(before[k].name, before[i].name) != 0);
        }
    }
    sw_config_free(config);
}

/* A grid that several stand for is changed once, its own description never; what the chip's
 * kernels are worth is what a profile's share of them is. */
static void grids_are_constants(void **state)
{
    (void)state;
    struct sw_constant list[SW_MOST_CONSTANTS];
    struct sw_constant_room room;
    struct sw_cluster_config cluster = {
        .accelerator = {.products = &grid,
                        .products_error = 0.046,
                        .products_signed_error = {-0.01, {.file = "chip.yaml", .line = 2}},
                        .at.products = {.file = "chip.yaml", .line = 3}},
        .profile = {
            .name = "p", .products = {{&grid, &grid}, {NULL, &grid}}, .products_error = 0.07}};
    const int32_t count = sw_constants_list(&cluster, list);
    const struct sw_constant *chip = find(list, count, "accelerator.products"),
                             *own = find(list, count, "profile.products");
    assert_int_equal(chip->points, 8);
    assert_int_equal(own->points, 8);
    assert_true(chip->least == 0.1 && chip->most == 0.8 && chip->error == 0.046);
    assert_true(own->error == 0.07 && own->signed_error.mean == 0);
    assert_true(chip->untold == SW_TOLD && chip->signed_error.mean == -0.01);
    assert_true(own->untold == SW_UNTOLD_ASSUMED);      /* it stands in no file */
    cluster.accelerator.products_signed_error.mean = 0; /* as likely as -0.01 */
    assert_int_equal(sw_constants_list(&cluster, list), count);
    assert_int_equal(chip->untold, SW_TOLD);
    cluster.accelerator.products_signed_error.at.file = NULL;
    assert_int_equal(sw_constants_list(&cluster, list), count);
    assert_int_equal(chip->untold, SW_UNTOLD_FILE);
    assert_string_equal(chip->at.file, "chip.yaml");
    sw_constant_scale(&cluster, own, 0.5, &room);
    const struct sw_products *(*to)[SW_RATE_DTYPES] = cluster.profile.products;
    assert_ptr_equal(to[0][0], to[1][1]);
    assert_null(to[1][0]);
    assert_true(to[0][0]->share[0] == 0.05 && grid.share[0] == 0.1);
    assert_ptr_equal(cluster.accelerator.products, &grid);
}

static void curves_tell_their_ends_and_errors(void **state)
{
    (void)state;
    struct sw_constant list[SW_MOST_CONSTANTS];
    struct sw_constant_room room;
    struct sw_cluster_config cluster = {
        .link_count = 1,
        .link = {{.name = "wire",
                  .bandwidth = 1e9,
                  .oversubscription = 1,
                  .efficiency = {2, {{1e3, 0.25}, {1e6, 0.75}}},
                  .efficiency_error = 0.09}},
        .profile = {.path = "p.yaml",
                    .name = "p",
                    .matmul = {1, {{1, 0.5}}},
                    .products_scale = {1, {{1, 0.96}}},
                    .products_error = 0.07,
                    .attention_scale = {2, {{1e8, 1.25}, {1e9, 0.9}}},
                    .attention_error = 0.05,
                    .error = 0.04,
                    .runs = 7,
                    .peak_bf16_flops = 1e12,
                    .band_low = 0.9,
                    .band_high = 1.2,
                    .at.band = {.file = "p.yaml", .line = 9}}};
    const int32_t count = sw_constants_list(&cluster, list);
    const struct sw_constant *curve = find(list, count, "links.wire.efficiency");
    assert_int_equal(curve->points, 2);
    assert_true(curve->least == 0.25 && curve->most == 0.75 && curve->error == 0.09);
    assert_true(curve->band_high == 0);
    const struct sw_constant *matmul = find(list, count, "profile.matmul");
    assert_true(matmul->error == 0.04 && matmul->runs == 7 && matmul->band_low == 0.9);
    assert_true(find(list, count, "profile.peak.bf16")->error == 0);
    assert_int_equal(find(list, count, "profile.peak.bf16")->untold, SW_UNTOLD_SHEET);
    assert_true(find(list, count, "links.wire.bandwidth")->error == 0);
    assert_int_equal(find(list, count, "links.wire.bandwidth")->untold, SW_UNTOLD_SHEET);
    assert_int_equal(find(list, count, "links.wire.oversubscription")->untold, SW_UNTOLD_NETWORK);
    assert_true(find(list, count, "profile.products_scale")->error == 0.07);
    const struct sw_constant *attention = find(list, count, "profile.attention_scale");
    assert_true(attention->error == 0.05 && attention->least == 0.9 && attention->most == 1.25);
    sw_constant_scale(&cluster, find(list, count, "profile.products_scale"), 0.5, &room);
    assert_true(cluster.profile.products_scale.point[0].fraction == 0.48);
    cluster.profile.at.band.file = NULL;
    (void)sw_constants_list(&cluster, list);
    assert_true(matmul->error == 0.04 && matmul->band_low == 0 && matmul->band_high == 0);
    sw_constant_scale(&cluster, curve, 0.5, &room);
    assert_true(cluster.link[0].efficiency.point[1].fraction == 0.375);
}

static void places_are_where_values_stand(void **state)
{
    (void)state;
    struct sw_constant list[SW_MOST_CONSTANTS];
    struct sw_sources s = {.count = 0};
    char place[64];
    struct sw_config *config = sw_test_read_run(&small);
    s.run = sw_config_run(config);
    const int32_t count = sw_constants_list(&s.run->cluster, list);
    static const struct {
        const char *name, *place;
    } rows[] = {{"accelerator.peak.bf16", "test.yaml:7"},
                {"accelerator.memory_bandwidth", "test.yaml:7"},
                {"profile.launch_latency", "test.yaml:8"},
                {"profile.matmul", "default of cuda devices"},
                {"links.inner.latency", "test.yaml:10"},
                {"links.outer.bandwidth", "test.yaml:11"},
                {"links.inner.efficiency", "default of the innermost links"},
                {"links.outer.efficiency", "default of other links"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(
            sw_source_place(&s, find(list, count, rows[i].name), place, sizeof place),
            rows[i].place);
    sw_config_free(config);
}

/* A step of twice the rates and half of the latencies takes half: the price is homogeneous of
 * degree 1 in times and inverse rates, so that by Euler's theorem the shares of the peaks,
 * bandwidths and latencies, each rate once, add up to all of it, but for what the central
 * difference leaves. */
static void shares_add_up(void **state)
{
    (void)state;
    struct sw_error err = {0};
    struct sw_search search = {0};
    struct sw_sources s;
    struct sw_config *config = sw_test_read_run(&small);
    struct sw_run_config run = *sw_config_run(config);
    static const char *const meshes[] = {"1,16,1,1", "1,4,4,1", "4,1,2,2"};
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
        double sum = 0;
        run.mesh_dim = meshes[m];
        assert_int_equal(sw_search_run(&run, SW_FOR_TRAIN, SW_EVERY_ROW, &search, &err), 0);
        assert_int_equal(sw_sources_make(&run, &search.mesh[0], SW_FOR_TRAIN, &s, &err), 0);
        assert_true(s.c.cost.step_seconds == search.mesh[0].cost.step_seconds);
        for (int32_t i = 0; i < s.count; i++) {
            const struct sw_constant *c = &s.row[i].constant;
            if (c->unit == SW_UNIT_SECONDS)
                sum += s.row[i].elasticity;
            else if (c->unit == SW_UNIT_FLOPS || c->unit == SW_UNIT_BYTES)
                sum -= s.row[i].elasticity;
            assert_true(i == 0 || fabs(s.row[i].elasticity) <= fabs(s.row[i - 1].elasticity));
        }
        if (!(fabs(sum - 1) < 0.002))
            fail_msg("shares of mesh_dim %s add up to %g", meshes[m], sum);
        sw_search_free(&search);
    }
    sw_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_constant_is_scaled_alone),
        cmocka_unit_test(grids_are_constants),
        cmocka_unit_test(curves_tell_their_ends_and_errors),
        cmocka_unit_test(places_are_where_values_stand),
        cmocka_unit_test(shares_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
