/* Every number of nodes that clusters have gets its fsdp: 3, 12, 31 or 96 of them, whatever divides
 * hidden_size and the batch. */
#include "core/ir/program.h"
#include "core/programs/compile.h"
#include "planner/search/search.h"
#include "tests/unit/plan_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int64_t places(const struct sw_candidate *c)
{
    const int32_t *size = c->decision.mesh.size;
    return c->decision.train.accumulation_steps * c->decision.train.micro_batch_size * size[SW_DP] *
           size[SW_FSDP];
}

/* Compiled by itself, not retargeted from another mesh's. */
static void check_program(const struct sw_run_config *run, const struct sw_candidate *c)
{
    struct sw_program_options options;
    struct sw_program *program = NULL;
    struct sw_error err = {0};
    if (sw_plan_program_options(run, &c->decision, &options, &err) != 0 ||
        sw_program_compile(&options, SW_LAID_OUT, &program, &err) != 0)
        fail_msg("%s", err.message);
    assert_int_equal(program->arena_bytes, c->memory.arena);
    assert_int_equal(program->accumulation_steps, c->decision.train.accumulation_steps);
    assert_int_equal(program->padding_sequences, c->padding_sequences);
    sw_program_free(program);
}

static void check_candidate(const struct sw_run_config *run, const struct sw_candidate *c)
{
    const int64_t batch = run->global_batch_size;
    const int64_t micro_step = places(c) / c->decision.train.accumulation_steps;
    char mesh[64];
    sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh);
    if (c->padding_sequences != places(c) - batch || c->padding_sequences >= micro_step)
        fail_msg("mesh %s: %lld padding sequences", mesh, (long long)c->padding_sequences);
    if (c->padding_sequences == 0)
        assert_true(c->padding_seconds == 0);
    else
        assert_true(c->padding_seconds > 0 && c->padding_seconds < c->cost.step_seconds);
}

static void check_rejected(const struct sw_run_config *run, const struct sw_candidate *c)
{
    const int32_t *size = c->decision.mesh.size;
    const bool many = run->global_batch_size < (int64_t)size[SW_DP] * size[SW_FSDP];
    assert_int_equal(c->reason == SW_REJECT_BATCH, many);
    assert_int_not_equal(c->reason, SW_REJECT_HIDDEN);
}

static void every_node_count(void **state)
{
    (void)state;
    static const int nodes[] = {3, 5, 6, 7, 12, 24, 31, 48, 96};
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        struct sw_test_run t = sw_test_llama_7b;
        t.nodes = nodes[i];
        t.per_node = 8;
        t.kv_heads = 8;
        t.sequence_length = 3 * 4096;
        t.memory = "80 GB";
        const int accelerators = t.nodes * t.per_node;
        t.global_batch_size = accelerators + 5;
        t.more = "prefer: fsdp-strict\n";
        struct sw_config *config = sw_test_read_run(&t);
        const struct sw_run_config *run = sw_config_run(config);
        struct sw_search s;
        struct sw_error err = {0};
        if (sw_search_run(run, SW_FOR_TRAIN, SW_EVERY_ROW, &s, &err) != 0)
            fail_msg("%s", err.message);
        assert_true(s.feasible > 0);
        assert_int_equal(s.mesh[0].decision.mesh.size[SW_FSDP], accelerators);
        assert_true(s.mesh[0].padding_sequences > 0);
        for (int32_t k = 0; k < s.count; k++) {
            if (k < s.feasible)
                check_candidate(run, &s.mesh[k]);
            else
                check_rejected(run, &s.mesh[k]);
            if (k < s.feasible && k % 7 == 0)
                check_program(run, &s.mesh[k]);
        }
        sw_search_free(&s);
        sw_config_free(config);
    }
}

/* 405 billion parameters take 16 bytes each: 34 GB on each of 192. */
static void the_largest_llama_on_24_nodes(void **state)
{
    (void)state;
    static const char text[] = "name: large\n"
                               "model: ../models/llama-3.1-405b.yaml\n"
                               "cluster: ../clusters/h100-64x8.yaml\n"
                               "sequence_length: 8192\n"
                               "global_batch_size: 200\n"
                               "prefer: fsdp-strict\n";
    const struct sw_override nodes = {"cluster.nodes=24"};
    struct sw_error err = {0};
    struct sw_search s;
    struct sw_config *config = sw_config_read_text("configs/runs/large.yaml", text, sizeof text - 1,
                                                   SW_CONFIG_RUN, NULL, &nodes, 1, &err);
    assert_non_null(config);
    assert_int_equal(sw_config_error_count(config), 0);
    const struct sw_run_config *run = sw_config_run(config);
    assert_int_equal(sw_search_run(run, SW_FOR_TRAIN, SW_EVERY_ROW, &s, &err), 0);
    assert_int_equal(s.accelerators, 192);
    assert_true(s.feasible > 0);
    assert_int_equal(s.mesh[0].decision.mesh.size[SW_FSDP] % 3, 0);
    assert_true(s.mesh[0].memory.parameters > (int64_t)405e9 * 4 / 192);
    check_candidate(run, &s.mesh[0]);
    check_program(run, &s.mesh[0]);
    sw_search_free(&s);
    sw_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_node_count),
                                       cmocka_unit_test(the_largest_llama_on_24_nodes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
