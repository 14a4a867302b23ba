/* What the search decides: as many meshes as the product formula says, every number that of the
 * candidate's own program, nothing faster left out at the top, the run's constraints kept, and the
 * same whatever the threads. */
#include "core/programs/compile.h"
#include "planner/search/search.h"
#include "tests/unit/plan_support.h"
#include "tests/support/recompute.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <sched.h>

#include <cmocka.h>

static void search(const struct sw_run_config *run, struct sw_search *out)
{
    struct sw_error err = {0};
    if (sw_search_run(run, SW_FOR_TRAIN, SW_EVERY_ROW, out, &err) != 0)
        fail_msg("%s", err.message);
}

static struct sw_test_run small_run(int nodes)
{
    struct sw_test_run t = sw_test_llama_7b;
    t.nodes = nodes;
    t.per_node = 8;
    t.kv_heads = 8;
    t.layers = 8;
    t.sequence_length = 8192;
    t.global_batch_size = 64;
    t.memory = "80 GB";
    t.latency = "4 us";
    t.more = "attention: {strategy: auto}\n";
    return t;
}

/* Primes p^k of the accelerators: product of C(k + 3, 3). */
static int32_t formula(int32_t accelerators)
{
    int32_t count = 1;
    for (int32_t p = 2; accelerators > 1; p++) {
        int32_t k = 0;
        for (; accelerators % p == 0; accelerators /= p)
            k++;
        count *= (k + 3) * (k + 2) * (k + 1) / 6;
    }
    return count;
}

static void counts(void **state)
{
    (void)state;
    static const struct {
        int nodes;
        int32_t meshes;
    } clusters[] = {{8, 84}, {64, 220}, {512, 455}, {12288, 3264}};
    for (size_t i = 0; i < sizeof clusters / sizeof clusters[0]; i++) {
        const struct sw_test_run t = small_run(clusters[i].nodes);
        struct sw_config *config = sw_test_read_run(&t);
        struct sw_search s;
        search(sw_config_run(config), &s);
        assert_int_equal(s.count, clusters[i].meshes);
        assert_int_equal(s.count, formula(clusters[i].nodes * 8));
        for (int32_t m = 0; m < s.count; m++)
            assert_int_equal(s.mesh[m].reason == SW_FITS, m < s.feasible);
        sw_search_free(&s);
        sw_config_free(config);
    }
    struct sw_test_run t = small_run(65536);
    t.per_node = 16;
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_search s;
    search(sw_config_run(config), &s);
    assert_int_equal(s.count, 1771);
    assert_int_equal(s.count, formula(1 << 20));
    sw_search_free(&s);
    sw_config_free(config);
}

/* A program of its own, compiled from nothing, has the memory and time that the search reports. */
static void numbers_are_of_its_own_program(void **state)
{
    (void)state;
    struct sw_test_run t = small_run(16);
    t.memory = "14 GB";
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_run_config *run = sw_config_run(config);
    struct sw_search s;
    search(run, &s);
    assert_true(s.feasible > 20);
    for (int32_t i = 0; i < s.feasible; i++) {
        const struct sw_candidate *c = &s.mesh[i];
        struct sw_candidate own;
        struct sw_program *program = NULL;
        assert_int_equal(sw_search_evaluate(run, &c->decision, 1, &own, &program, NULL), 0);
        assert_int_equal(own.reason, SW_FITS);
        assert_true(own.memory.total == c->memory.total);
        assert_true(own.memory.activations == c->memory.activations);
        assert_true(own.cost.step_seconds == c->cost.step_seconds);
        assert_true(own.decision.train.accumulation_steps == c->decision.train.accumulation_steps);
        /* and the runner, from the decision in the plan file, compiles that very program */
        struct sw_program_options options;
        struct sw_program *again = NULL;
        assert_int_equal(sw_plan_program_options(run, &c->decision, &options, NULL), 0);
        assert_int_equal(sw_program_compile(&options, SW_LAID_OUT, &again, NULL), 0);
        assert_true(sw_program_digest(again) == sw_program_digest(program));
        sw_program_free(again);
        sw_program_free(program);
    }
    sw_search_free(&s);
    sw_config_free(config);
}

/* All options there are, against what the search chose. */
static double exhaust(const struct sw_run_config *run, const struct sw_candidate *chosen)
{
    const struct sw_mesh *mesh = &chosen->decision.mesh;
    static const enum sw_attention_strategy strategies[] = {SW_ATTENTION_RING, SW_ATTENTION_GATHER,
                                                            SW_ATTENTION_ULYSSES};
    const int64_t per_rank = run->global_batch_size / (mesh->size[SW_DP] * mesh->size[SW_FSDP]);
    double best = 1e300;
    for (int32_t way = 0; way < 3 * 2 * 2 * 3; way++)
        for (int64_t micro = 1; micro <= per_rank; micro *= 2) {
            struct sw_candidate c;
            struct sw_decision d = {.mesh = *mesh,
                                    .train.micro_batch_size = micro,
                                    .train.recompute =
                                        sw_test_recompute((uint32_t)(way % 3), &run->model.shape,
                                                          run->model.shape.layers),
                                    .train.strategy = strategies[way / 3 % 3],
                                    .train.layout = (enum sw_sequence_layout)(way / 9 % 2),
                                    .train.residual_seq_tp = way / 18 == 1};
            assert_int_equal(sw_search_evaluate(run, &d, 1, &c, NULL, NULL), 0);
            if (sw_candidate_verdict(&c) <= sw_candidate_verdict(chosen) &&
                c.cost.step_seconds < best)
                best = c.cost.step_seconds;
        }
    return best;
}

/* Orders of the axes, for one mesh: all 24 with the options that were chosen; of those that keep tp
 * within the fastest link domain, where fsdp-strict wants that and there are any. */
static double exhaust_orders(const struct sw_run_config *run, const struct sw_candidate *chosen)
{
    double best = 1e300, inside = 1e300;
    for (int32_t k = 0; k < 24; k++) {
        struct sw_candidate c;
        struct sw_decision d = chosen->decision;
        uint8_t left[4] = {0, 1, 2, 3};
        for (int32_t i = 0, radix = 6, rest = k; i < 4; i++) {
            const int32_t pick = rest / radix;
            rest %= radix;
            d.mesh.order[i] = left[pick];
            memmove(&left[pick], &left[pick + 1], (size_t)(3 - pick));
            radix = i < 3 ? radix / (3 - i) : 1;
        }
        assert_int_equal(sw_search_evaluate(run, &d, 1, &c, NULL, NULL), 0);
        if (c.cost.step_seconds < best)
            best = c.cost.step_seconds;
        if (!c.tp_leaves_domain && c.cost.step_seconds < inside)
            inside = c.cost.step_seconds;
    }
    return run->prefer == SW_PREFER_FSDP_STRICT && inside < 1e300 ? inside : best;
}

static void nothing_faster_at_the_top(void **state)
{
    (void)state;
    static const struct {
        const char *memory, *outer, *mesh_dim;
        long sequence, batch;
    } runs[] = {
        {"80 GB", "45 GB/s", "auto", 8192, 64},      {"12 GB", "5 GB/s", "auto", 8192, 64},
        {"80 GB", "45 GB/s", "2,4,4,2", 8192, 64},   {"80 GB", "5 GB/s", "1,4,4,4", 2048, 64},
        {"20 GB", "2 GB/s", "2,2,2,8", 32768, 16},   {"80 GB", "45 GB/s", "1,1,8,8", 16384, 8},
        {"80 GB", "45 GB/s", "4,2,1,8", 131072, 16}, {"16 GB", "9 GB/s", "1,8,8,1", 8192, 64}};
    for (size_t i = 0; i < 2 * sizeof runs / sizeof runs[0]; i++) {
        const size_t r = i / 2;
        struct sw_test_run t = small_run(8);
        t.memory = runs[r].memory;
        t.outer = runs[r].outer;
        t.sequence_length = runs[r].sequence;
        t.global_batch_size = runs[r].batch;
        struct sw_config *config = sw_test_read_run(&t);
        struct sw_run_config run = *sw_config_run(config);
        run.prefer = i % 2 == 0 ? SW_PREFER_FSDP_STRICT : SW_PREFER_TIME;
        run.mesh_dim = runs[r].mesh_dim;
        struct sw_search s;
        search(&run, &s);
        assert_true(s.feasible > 0);
        const int32_t checked[] = {0, s.fastest};
        for (size_t k = 0; k < (s.fastest == 0 ? 1 : 2); k++) {
            const struct sw_candidate *c = &s.mesh[checked[k]];
            const double best = exhaust(&run, c), orders = exhaust_orders(&run, c);
            if (c->fastest_seconds > best * 1.005 || c->fastest_seconds > orders * 1.0001)
                fail_msg("run %zu: %g s, but %g s with other options, %g s in another order", i,
                         c->fastest_seconds, best, orders);
        }
        sw_search_free(&s);
        sw_config_free(config);
    }
}

/* Products that are small beside their reductions, on links that differ: the two residual_seq are
 * guessed nearly alike, and both wrong by half. */
static void the_faster_residual_seq(void **state)
{
    (void)state;
    static const char *const meshes[] = {"1,2,8,1", "1,1,8,2", "2,1,4,2", "1,2,4,2", "2,2,4,1"};
    static const char *const rules[] = {"", "rules: {residual_seq: [sp]}\n",
                                        "rules: {residual_seq: [sp, tp]}\n"};
    for (size_t i = 0; i < 2 * sizeof meshes / sizeof meshes[0]; i++) {
        double seconds[3];
        for (int32_t k = 0; k < 3; k++) {
            struct sw_test_run t = small_run(8);
            t.per_node = 2;
            t.kv_heads = t.layers = 2;
            t.sequence_length = 128;
            t.inner = i % 2 == 0 ? "450 GB/s" : "20 GB/s";
            t.outer = "6.25 GB/s";
            t.latency = "1 us";
            t.more = rules[k];
            struct sw_config *config = sw_test_read_run(&t);
            struct sw_run_config run = *sw_config_run(config);
            struct sw_search s;
            run.mesh_dim = meshes[i / 2];
            search(&run, &s);
            assert_int_equal(s.feasible, 1);
            seconds[k] = s.mesh[0].cost.step_seconds;
            sw_search_free(&s);
            sw_config_free(config);
        }
        if (seconds[0] > 1.0001 * seconds[1] || seconds[0] > 1.0001 * seconds[2])
            fail_msg("%s: %g s, but %g s with residual_seq sp, %g s with sp, tp", meshes[i / 2],
                     seconds[0], seconds[1], seconds[2]);
    }
}

static void constraints(void **state)
{
    (void)state;
    const struct sw_test_run t = small_run(8);
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    struct sw_search s;
    run.micro_batch_size = 2;
    run.recompute_auto = false;
    run.recompute = (struct sw_recompute_config){.layers = SW_ALL_LAYERS, .before_attention = true};
    run.strategy = SW_ATTENTION_GATHER;
    run.layout = SW_CONTIGUOUS;
    search(&run, &s);
    assert_int_equal(s.count, 84);
    for (int32_t i = 0; i < s.feasible; i++) {
        const struct sw_decision *d = &s.mesh[i].decision;
        assert_int_equal(d->train.micro_batch_size, 2);
        assert_true(
            sw_layer_values_equal(d->train.recompute.values, sw_test_values_before(NULL, "o")));
        assert_int_equal(d->train.recompute.layers, run.model.shape.layers);
        assert_int_equal(d->train.strategy, SW_ATTENTION_GATHER);
        assert_int_equal(d->train.layout, SW_CONTIGUOUS);
    }
    sw_search_free(&s);
    static const char *const orders[] = {"!2,-1,4,2", "sp:2,tp:4,fsdp:-1,dp:2"};
    static const uint8_t kept[][SW_AXIS_COUNT] = {{SW_DP, SW_FSDP, SW_TP, SW_SP},
                                                  {SW_SP, SW_TP, SW_FSDP, SW_DP}};
    for (size_t i = 0; i < 2; i++) {
        run.mesh_dim = orders[i];
        search(&run, &s);
        assert_int_equal(s.count, 1);
        assert_int_equal(s.mesh[0].decision.mesh.size[SW_FSDP], 4);
        assert_memory_equal(s.mesh[0].decision.mesh.order, kept[i], sizeof kept[i]);
        sw_search_free(&s);
    }
    sw_config_free(config);
    struct sw_test_run fixed = small_run(8);
    fixed.more = "rules: {residual_seq: [sp, tp]}\n";
    config = sw_test_read_run(&fixed);
    search(sw_config_run(config), &s);
    for (int32_t i = 0; i < s.feasible; i++)
        assert_true(s.mesh[i].decision.train.residual_seq_tp);
    sw_search_free(&s);
    sw_config_free(config);
}

/* sp across slow links: the order that keeps the busier axis inside the node wins. */
static void places_axes(void **state)
{
    (void)state;
    struct sw_test_run t = small_run(8);
    t.outer = "1 GB/s";
    t.more = "attention: {strategy: gather}\n";
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    struct sw_search s;
    run.mesh_dim = "1,8,1,8";
    search(&run, &s);
    assert_int_equal(s.feasible, 1);
    struct sw_candidate worse;
    struct sw_decision d = s.mesh[0].decision;
    d.mesh.order[1] = s.mesh[0].decision.mesh.order[2];
    d.mesh.order[2] = s.mesh[0].decision.mesh.order[1];
    assert_int_equal(sw_search_evaluate(&run, &d, 1, &worse, NULL, NULL), 0);
    assert_true(worse.cost.step_seconds > s.mesh[0].cost.step_seconds * 1.05);
    sw_search_free(&s);
    sw_config_free(config);
}

/* zigzag where it divides, contiguous where it alone does. */
static void layout_that_divides(void **state)
{
    (void)state;
    struct sw_test_run t = small_run(2);
    t.per_node = 4;
    t.sequence_length = 8 * 1021;
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    struct sw_search s;
    run.mesh_dim = "1,1,1,8";
    search(&run, &s);
    assert_int_equal(s.feasible, 1);
    assert_int_equal(s.mesh[0].decision.train.layout, SW_CONTIGUOUS);
    sw_search_free(&s);
    run.strategy = SW_ATTENTION_RING; /* then the layout is the run's */
    search(&run, &s);
    assert_int_equal(s.mesh[0].reason, SW_REJECT_SEQUENCE);
    sw_search_free(&s);
    sw_config_free(config);
}

static void same_on_one_core(void **state)
{
    (void)state;
    const struct sw_test_run t = small_run(64);
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_search all, one;
    cpu_set_t before, first;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    search(sw_config_run(config), &all);
    CPU_ZERO(&first);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&first) == 0; cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &first);
    assert_int_equal(sched_setaffinity(0, sizeof first, &first), 0);
    search(sw_config_run(config), &one);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(all.count, one.count);
    for (int32_t i = 0; i < all.count; i++) {
        const struct sw_candidate *a = &all.mesh[i], *b = &one.mesh[i];
        assert_memory_equal(&a->decision.mesh, &b->decision.mesh, sizeof a->decision.mesh);
        assert_int_equal(a->reason, b->reason);
        assert_int_equal(a->decision.train.micro_batch_size, b->decision.train.micro_batch_size);
        assert_true(sw_recompute_equal(a->decision.train.recompute, b->decision.train.recompute));
        assert_int_equal(a->decision.train.strategy, b->decision.train.strategy);
        assert_int_equal(a->decision.train.residual_seq_tp, b->decision.train.residual_seq_tp);
        assert_true(a->cost.step_seconds == b->cost.step_seconds);
        assert_true(a->memory.total == b->memory.total);
        assert_string_equal(a->detail, b->detail);
        assert_string_equal(a->help, b->help);
    }
    sw_search_free(&all);
    sw_search_free(&one);
    sw_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(numbers_are_of_its_own_program),
        cmocka_unit_test(nothing_faster_at_the_top),
        cmocka_unit_test(the_faster_residual_seq),
        cmocka_unit_test(constraints),
        cmocka_unit_test(places_axes),
        cmocka_unit_test(layout_that_divides),
        cmocka_unit_test(same_on_one_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
