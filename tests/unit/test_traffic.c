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
enum { MAX_ORDERS = 24 };
static int32_t all_orders(const struct sw_mesh *like, struct sw_mesh out[MAX_ORDERS])
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

static double price(const struct sw_program *p, const struct sw_run_config *run,
                    struct sw_cost_known *known)
{
    struct sw_error err = {0};
    struct sw_cost cost;
    if (sw_cost_price_known(p, &run->cluster, NULL, known, &cost, &err) != 0)
        fail_msg("%s", err.message);
    return cost.step_seconds;
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

/* What prices of other programs and meshes found changes no price, in no order of the axes. */
static void sharing_changes_no_price(void **state)
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
    struct sw_cost_shared shared = {.product = {{.seconds = 0}}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct sw_decision decision = {.mesh = sw_mesh_make(sizes[i][0], 2, 2, sizes[i][1]),
                                             .train.micro_batch_size = 1,
                                             .train.recompute = sw_test_recompute(2, NULL, 4),
                                             .train.layout = SW_ZIGZAG};
        struct sw_program *p = compile(run, &decision);
        struct sw_mesh orders[MAX_ORDERS];
        struct sw_cost_known alone, sharing;
        assert_int_equal(sw_cost_known_make(p, &alone, NULL), 0);
        assert_int_equal(sw_cost_known_make(p, &sharing, NULL), 0);
        sharing.shared = &shared;
        const int32_t count = all_orders(&p->mesh, orders);
        assert_int_equal(count, MAX_ORDERS);
        for (int32_t k = 0; k < count; k++) {
            p->mesh = orders[k];
            assert_true(price(p, run, &alone) == price(p, run, &sharing));
        }
        sw_cost_known_free(&alone);
        sw_cost_known_free(&sharing);
        sw_program_free(p);
    }
    sw_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_grow_and_never_merge),
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(what_is_known_changes_no_price),
        cmocka_unit_test(sharing_changes_no_price),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
