/* Sums of what a program sends: nothing is lost, however many rows there are. */
#include "core/passes/retarget.h"
#include "core/cost/traffic.h"

#include "core/cost/cost.h"
#include "core/cost/links.h"
#include "core/plan/plan.h"
#include "core/programs/compile.h"
#include "tests/unit/plan_support.h"
#include "tests/support/recompute.h"

#include <math.h>
#include <stdlib.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static double total_bytes(const struct sw_traffics *list)
{
    double bytes = 0;
    for (int32_t i = 0; i < list->count; i++)
        bytes += list->entry[i].bytes;
    return bytes;
}

/* Every ordered list of axes, for two kinds: more than any fixed number of rows that a list had. */
static void rows_grow_and_never_merge(void **state)
{
    (void)state;
    const struct sw_op ops[] = {{.kind = SW_OP_ALL_GATHER}, {.kind = SW_OP_ALL_REDUCE}};
    const struct sw_program program = {.ops = (struct sw_op *)(uintptr_t)ops};
    struct sw_traffics list = {0};
    int32_t wanted = 0;
    for (int twice = 0; twice < 2; twice++)
        for (int code = 1; code < 625; code++) { /* digits to base 5: an axis + 1, or none */
            struct sw_traffic_walk walk = {.program = &program, .calls = 3, .sent.bytes = code};
            unsigned seen = 0, again = 0;
            for (int rest = code; rest > 0; rest /= 5) {
                again |= rest % 5 == 0 || (seen >> rest % 5 & 1u);
                seen |= 1u << rest % 5;
                walk.axes.axis[walk.axes.count++] = (uint8_t)(rest % 5 - (rest % 5 > 0));
            }
            for (int k = 0; k < 2 && !again; k++) {
                walk.op = &ops[k];
                wanted += twice == 0;
                const struct sw_traffic *row =
                    sw_traffics_add(&list, &walk, SW_TRAFFIC_BATCH, NULL);
                assert_non_null(row);
                assert_int_equal(row->op, k);
                assert_true(row->calls == 3 * (twice + 1));
                assert_true(row->bytes == 3.0 * code * (twice + 1));
            }
        }
    assert_int_equal(wanted, 2 * (4 + 12 + 24 + 24));
    assert_int_equal(list.count, wanted);
    sw_traffics_free(&list);
    assert_int_equal(list.count, 0);
}

/* By part, by kind and by axis: the same bytes. */
static void parts_are_the_whole(void **state)
{
    (void)state;
    static const int32_t meshes[][4] = {{1, 1, 1, 1}, {2, 8, 1, 1}, {1, 4, 4, 1}, {2, 2, 2, 2}};
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++)
        for (uint32_t level = 0; level < 5; level++) {
            struct sw_test_run t = sw_test_llama_7b;
            t.sequence_length = 4096;
            t.layers = 4;
            t.global_batch_size = 64;
            struct sw_config *config = sw_test_read_run(&t);
            const struct sw_run_config *run = sw_config_run(config);
            const struct sw_decision decision = {
                .mesh = sw_mesh_make(meshes[i][0], meshes[i][1], meshes[i][2], meshes[i][3]),
                .train.micro_batch_size = 1,
                .train.recompute = sw_test_recompute(level, NULL, 4),
                .train.layout = SW_ZIGZAG};
            struct sw_program_options options;
            struct sw_program *p = NULL;
            struct sw_cost cost;
            struct sw_error err = {0};
            if (sw_plan_program_options(run, &decision, &options, &err) != 0 ||
                sw_program_compile(&options, SW_LAID_OUT, &p, &err) != 0 ||
                sw_cost_price(p, &run->cluster, NULL, &cost, &err) != 0)
                fail_msg("%s", err.message);
            struct sw_traffics parts = {0}, all = {0};
            double again = 0, ring = 0, by_axis = 0;
            struct sw_traffic_walk sent = sw_traffic_begin(p);
            while (sw_traffic_next(&sent)) {
                const enum sw_traffic_part part = sw_traffic_part(&sent);
                assert_non_null(sw_traffics_add(&parts, &sent, part, &err));
                assert_non_null(sw_traffics_add(&all, &sent, SW_TRAFFIC_ANY, &err));
                again += part == SW_TRAFFIC_AGAIN;
                ring += part == SW_TRAFFIC_RING;
            }
            for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
                by_axis += cost.communication_bytes[a];
            assert_true(total_bytes(&parts) == total_bytes(&all)); /* whole numbers below 2^53 */
            assert_true(fabs(total_bytes(&all) - by_axis) <= 1e-12 * by_axis);
            assert_int_equal(all.count == 0, i == 0);
            assert_int_equal(ring > 0, meshes[i][SW_SP] > 1);
            /* what tp gathers is gathered again even where nothing is computed again */
            assert_int_equal(again > 0, meshes[i][SW_TP] > 1);
            sw_traffics_free(&parts);
            sw_traffics_free(&all);
            sw_program_free(p);
            sw_config_free(config);
        }
}

/* A price that others were worked out for before is the same, on another axis order and, after a
 * reset, of other sizes, too. */
static void what_is_known_changes_no_price(void **state)
{
    (void)state;
    struct sw_test_run t = sw_test_llama_7b;
    t.sequence_length = 4096;
    t.layers = 4;
    t.global_batch_size = 64;
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_run_config *run = sw_config_run(config);
    struct sw_decision decision = {.mesh = sw_mesh_make(2, 2, 2, 2),
                                   .train.recompute = sw_test_recompute(2, NULL, 4),
                                   .train.layout = SW_ZIGZAG};
    struct sw_program *p = NULL;
    struct sw_cost_known known = {0};
    struct sw_error err = {0};
    double seconds[2] = {0, 0};
    int32_t filled = 0;
    for (int32_t size = 0; size < 2; size++)
        for (int32_t order = 0; order < 2; order++) {
            struct sw_program_options options;
            struct sw_cost with, without;
            decision.train.micro_batch_size = 1 + size;
            decision.mesh = sw_mesh_make(2, 2, 2, 2);
            if (sw_plan_program_options(run, &decision, &options, &err) != 0 ||
                (p == NULL ? sw_program_compile(&options, SW_LAID_OUT, &p, &err)
                           : sw_program_retarget(p, &options, &err)) != 0)
                fail_msg("%s", err.message);
            if (known.sent == NULL && sw_cost_known_make(p, &known, &err) != 0)
                fail_msg("%s", err.message);
            if (order == 0) /* the second order finds what the first left */
                sw_cost_known_reset(&known);
            for (int32_t i = 0; i < SW_AXIS_COUNT && order == 1; i++)
                p->mesh.order[i] = (uint8_t)(SW_AXIS_COUNT - 1 - i);
            if (sw_cost_price_known(p, &run->cluster, NULL, &known, &with, &err) != 0 ||
                sw_cost_price(p, &run->cluster, NULL, &without, &err) != 0)
                fail_msg("%s", err.message);
            assert_true(with.step_seconds == without.step_seconds);
            assert_true(with.compute_seconds == without.compute_seconds);
            assert_memory_equal(with.communication_bytes, without.communication_bytes,
                                sizeof with.communication_bytes);
            assert_memory_equal(with.exposed_seconds, without.exposed_seconds,
                                sizeof with.exposed_seconds);
            seconds[size] = order == 0 ? with.step_seconds : seconds[size];
        }
    for (int32_t i = 0; i < p->op_count; i++)
        filled += known.sent[i].bytes >= 0;
    assert_true(seconds[0] != seconds[1]);
    assert_true(filled > 0);
    sw_cost_known_free(&known);
    sw_program_free(p);
    sw_config_free(config);
}

/* All orders of four axes; returns how many. */
static int32_t all_orders(const struct sw_mesh *like, struct sw_mesh out[SW_MAX_SPANS])
{
    int32_t count = 0;
    for (unsigned k = 0; k < 256; k++) {
        struct sw_mesh mesh = *like;
        unsigned seen = 0;
        for (unsigned i = 0; i < SW_AXIS_COUNT; i++) {
            mesh.order[i] = (uint8_t)(k >> 2 * i & 3u);
            seen |= 1u << mesh.order[i];
        }
        if (seen == 15)
            out[count++] = mesh;
    }
    return count;
}

static double ideal_seconds(const struct sw_program *p, const struct sw_run_config *run,
                            struct sw_cost_known *known, const struct sw_mesh *orders,
                            int32_t order_count)
{
    const struct sw_cost_ideal ideal = {.orders = orders, .order_count = order_count};
    struct sw_error err = {0};
    struct sw_cost cost;
    if (sw_cost_price_ideal(p, &run->cluster, &ideal, known, &cost, &err) != 0)
        fail_msg("%s", err.message);
    return cost.step_seconds;
}

static void check_ideal(struct sw_program *p, const struct sw_run_config *run,
                        struct sw_cost_shared *shared)
{
    struct sw_mesh orders[SW_MAX_SPANS];
    struct sw_cost_known alone, sharing;
    struct sw_error err = {0};
    if (sw_cost_known_make(p, &alone, &err) != 0 || sw_cost_known_make(p, &sharing, &err) != 0)
        fail_msg("%s", err.message);
    sharing.shared = shared;
    const int32_t count = all_orders(&p->mesh, orders);
    assert_int_equal(count, 24);
    const double all = ideal_seconds(p, run, &alone, NULL, 0);
    assert_true(ideal_seconds(p, run, &sharing, NULL, 0) == all);
    assert_true(ideal_seconds(p, run, &alone, orders, count) == all);
    double least = INFINITY;
    for (int32_t i = 0; i < count; i++) {
        struct sw_cost cost, other;
        p->mesh = orders[i];
        if (sw_cost_price_known(p, &run->cluster, NULL, &alone, &cost, &err) != 0 ||
            sw_cost_price_known(p, &run->cluster, NULL, &sharing, &other, &err) != 0)
            fail_msg("%s", err.message);
        assert_true(cost.step_seconds == other.step_seconds);
        const double one = ideal_seconds(p, run, &sharing, &orders[i], 1);
        assert_true(all <= one);
        assert_true(one <= cost.step_seconds);
        least = cost.step_seconds < least ? cost.step_seconds : least;
    }
    assert_true(all <= least);
    sw_cost_known_free(&alone);
    sw_cost_known_free(&sharing);
}

static struct sw_program *compile(const struct sw_run_config *run,
                                  const struct sw_decision *decision)
{
    struct sw_program_options options;
    struct sw_program *p = NULL;
    struct sw_error err = {0};
    if (sw_plan_program_options(run, decision, &options, &err) != 0 ||
        sw_program_compile(&options, SW_LAID_OUT, &p, &err) != 0)
        fail_msg("%s", err.message);
    return p;
}

/* An ideal step takes no longer than one in any of the orders that it may lie in, and what prices
 * of other programs and meshes found changes none. */
static void no_order_is_faster_than_the_ideal(void **state)
{
    (void)state;
    static const int32_t sizes[][2] = {{2, 8}, {8, 2}, {4, 4}, {2, 8}};
    struct sw_test_run t = sw_test_llama_7b;
    t.nodes = 8;
    t.sequence_length = 4096;
    t.layers = 4;
    t.global_batch_size = 64;
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_run_config *run = sw_config_run(config);
    struct sw_cost_shared shared = {.cluster = NULL};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct sw_decision decision = {.mesh = sw_mesh_make(sizes[i][0], 2, 2, sizes[i][1]),
                                             .train.micro_batch_size = 1,
                                             .train.recompute = sw_test_recompute(2, NULL, 4),
                                             .train.layout = SW_ZIGZAG};
        struct sw_program *p = compile(run, &decision);
        check_ideal(p, run, &shared);
        sw_program_free(p);
    }
    sw_config_free(config);
}

/* The program of one ring on all orders of the axes where it may be made of inner rings; returns on
 * how many. */
static int check_inner_rings(struct sw_program *one, const struct sw_run_config *run,
                             struct sw_decision decision)
{
    const struct sw_axes sp = {1, {SW_SP}};
    struct sw_mesh orders[SW_MAX_SPANS];
    struct sw_cost_known known;
    struct sw_error err = {0};
    int checked = 0;
    if (sw_cost_known_make(one, &known, &err) != 0)
        fail_msg("%s", err.message);
    const int32_t count = all_orders(&one->mesh, orders);
    for (int32_t i = 0; i < count; i++) {
        struct sw_cost cost;
        decision.mesh = orders[i];
        decision.train.inner_ring = sw_links_inner_ring(&run->cluster, &orders[i], sp);
        if (decision.train.inner_ring == 0)
            continue;
        struct sw_program *rings = compile(run, &decision);
        if (sw_cost_price(rings, &run->cluster, NULL, &cost, &err) != 0)
            fail_msg("%s", err.message);
        const double ideal = ideal_seconds(one, run, &known, &orders[i], 1);
        if (ideal > cost.step_seconds)
            fail_msg("inner rings of %d take %.9g s, an ideal step %.9g s",
                     (int)decision.train.inner_ring, cost.step_seconds, ideal);
        assert_true(ideal_seconds(one, run, &known, NULL, 0) <= ideal);
        sw_program_free(rings);
        checked++;
    }
    sw_cost_known_free(&known);
    return checked;
}

/* An ideal step of one ring takes no longer than the step of a ring made of inner rings: neither
 * where these take less by themselves nor where their messages only wait less for others. */
static void no_inner_rings_are_faster_than_the_ideal(void **state)
{
    (void)state;
    static const long lengths[] = {32768, 65536};
    static const char *const links[] = {"12.5 GB/s", "50 GB/s"};
    int checked = 0;
    for (int k = 0; k < 8; k++) {
        struct sw_test_run t = sw_test_llama_7b;
        t.nodes = 8;
        t.per_node = 8;
        t.kv_heads = 8;
        t.layers = 4;
        t.latency = "4 us";
        t.global_batch_size = 4;
        t.sequence_length = lengths[k & 1];
        t.inner = "450 GB/s";
        t.outer = links[k >> 1 & 1];
        struct sw_config *config = sw_test_read_run(&t);
        struct sw_run_config run = *sw_config_run(config);
        run.cluster.link[1].rails = k >> 2;
        const struct sw_decision decision = {.mesh = sw_mesh_make(1, 4, 2, 8),
                                             .train.micro_batch_size = 1,
                                             .train.layout = SW_ZIGZAG};
        struct sw_program *one = compile(&run, &decision);
        checked += check_inner_rings(one, &run, decision);
        sw_program_free(one);
        sw_config_free(config);
    }
    assert_true(checked > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_grow_and_never_merge),
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(what_is_known_changes_no_price),
        cmocka_unit_test(no_order_is_faster_than_the_ideal),
        cmocka_unit_test(no_inner_rings_are_faster_than_the_ideal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
