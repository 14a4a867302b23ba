/* Every row of the table is its mesh's answer: what a search over all meshes says of one, chosen,
 * fitting or rejected, is what the same mesh gets when it is asked for alone. And the first row is
 * the same whatever the number of rows that are shown.
 *
 *   test_search_rows [RUNS [SEED]] */
#include "planner/search/search.h"
#include "tests/unit/plan_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 12 }; /* looked at in each run, first and last among them */

static int runs = 12;
static uint64_t seed = 1;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

#define PICK(list) ((list)[next_random() % (sizeof(list) / sizeof *(list))])

static struct sw_test_run random_run(void)
{
    static const int nodes[] = {2, 3, 4, 6, 8, 16, 64}, per_node[] = {4, 8},
                     kv_heads[] = {4, 8, 32};
    static const int layers[] = {2, 8, 32};
    static const long lengths[] = {1024, 4096, 8192, 65536}, batches[] = {8, 48, 64, 256, 1000};
    static const char *const memories[] = {"10 GB", "24 GB", "40 GB", "80 GB"};
    static const char *const links[] = {"3 GB/s", "12.5 GB/s", "50 GB/s"};
    static const char *const more[] = {"attention: {strategy: auto}\n",
                                       "",
                                       "attention: {strategy: auto}\nprefer: time\n",
                                       "recompute: none\n",
                                       "micro_batch_size: 2\n",
                                       "rules: {residual_seq: [sp, tp]}\n",
                                       "rules: {heads: [dp, tp]}\n",
                                       "rules: {mlp: [sp], table: [tp]}\n"};
    struct sw_test_run t = sw_test_llama_7b;
    t.nodes = PICK(nodes);
    t.per_node = PICK(per_node);
    t.kv_heads = PICK(kv_heads);
    t.layers = PICK(layers);
    t.sequence_length = PICK(lengths);
    t.global_batch_size = PICK(batches);
    t.memory = PICK(memories);
    t.outer = PICK(links);
    t.latency = "4 us";
    t.more = PICK(more);
    return t;
}

static void expect_same(int run, const struct sw_candidate *row, const struct sw_candidate *alone)
{
    char mesh[64];
    /* asked for by name it may use the headroom up, which the table never does */
    if (sw_candidate_verdict(row) == SW_VERDICT_NO_HEADROOM) {
        if (sw_candidate_verdict(alone) != SW_VERDICT_NO_HEADROOM)
            fail_msg("run %d, mesh %s: no headroom in the table, %lld bytes; alone %s, %lld bytes",
                     run, sw_mesh_format(&row->decision.mesh, mesh, sizeof mesh),
                     (long long)row->memory.total, sw_reject_name(alone->reason),
                     (long long)alone->memory.total);
        assert_int_equal(alone->reason, SW_FITS);
        return;
    }
    sw_mesh_format(&row->decision.mesh, mesh, sizeof mesh);
    const struct sw_decision *a = &row->decision, *b = &alone->decision;
    if (row->reason != alone->reason || row->memory.total != alone->memory.total ||
        row->cost.step_seconds != alone->cost.step_seconds)
        fail_msg("run %d, mesh %s: in the table %s, %.17g s, %lld bytes; alone %s, %.17g s, %lld "
                 "bytes",
                 run, mesh, sw_reject_name(row->reason), row->cost.step_seconds,
                 (long long)row->memory.total, sw_reject_name(alone->reason),
                 alone->cost.step_seconds, (long long)alone->memory.total);
    if (memcmp(&a->mesh, &b->mesh, sizeof a->mesh) != 0 ||
        a->train.micro_batch_size != b->train.micro_batch_size ||
        !sw_recompute_equal(a->train.recompute, b->train.recompute) ||
        a->train.strategy != b->train.strategy || a->train.layout != b->train.layout ||
        a->train.inner_ring != b->train.inner_ring ||
        a->train.residual_seq_tp != b->train.residual_seq_tp)
        fail_msg("run %d, mesh %s: other options alone", run, mesh);
}

/* The first row and the fastest, whatever the number of rows that a caller shows. */
static void one_row_is_the_first_of_all(int r, const struct sw_run_config *run,
                                        const struct sw_search *all)
{
    struct sw_search one;
    struct sw_error err = {0};
    if (sw_search_run(run, SW_FOR_TRAIN, 1, &one, &err) != 0)
        fail_msg("run %d: %s", r, err.message);
    assert_int_equal(one.count, all->count);
    assert_int_equal(one.feasible, all->feasible);
    assert_int_equal(one.fastest, all->fastest);
    if (all->feasible > 0) {
        expect_same(r, &one.mesh[0], &all->mesh[0]);
        expect_same(r, &one.mesh[one.fastest], &all->mesh[all->fastest]);
    }
    sw_search_free(&one);
}

static void rows_are_what_a_mesh_gets_alone(void **state)
{
    (void)state;
    int64_t looked = 0, fitted = 0;
    for (int r = 0; r < runs; r++) {
        const struct sw_test_run t = random_run();
        struct sw_config *config = sw_test_read_run(&t);
        const struct sw_run_config *run = sw_config_run(config);
        struct sw_search all;
        struct sw_error err = {0};
        if (sw_search_run(run, SW_FOR_TRAIN, SW_EVERY_ROW, &all, &err) != 0)
            fail_msg("run %d: %s", r, err.message);
        one_row_is_the_first_of_all(r, run, &all);
        for (int32_t k = 0; k < ROWS && k < all.count; k++) {
            const int32_t i = all.count <= ROWS ? k
                              : k == 0          ? 0
                              : k == ROWS - 1   ? all.count - 1
                              : k == 1 && all.fastest > 0
                                  ? all.fastest
                                  : (int32_t)(next_random() % (uint64_t)all.count);
            struct sw_run_config one = *run;
            struct sw_search alone;
            char mesh[64];
            one.mesh_dim = sw_mesh_format(&all.mesh[i].decision.mesh, mesh, sizeof mesh);
            if (all.mesh[i].reason == SW_REJECT_RULES) { /* alone it is a mistake */
                assert_int_equal(sw_search_run(&one, SW_FOR_TRAIN, 1, &alone, &err), -1);
                assert_int_equal(err.status, SW_BAD_INPUT);
                err = (struct sw_error){0};
                looked++;
                continue;
            }
            assert_int_equal(sw_search_run(&one, SW_FOR_TRAIN, SW_EVERY_ROW, &alone, &err), 0);
            assert_int_equal(alone.count, 1);
            expect_same(r, &all.mesh[i], &alone.mesh[0]);
            looked++;
            fitted += alone.feasible;
            sw_search_free(&alone);
        }
        sw_search_free(&all);
        sw_config_free(config);
    }
    print_message("%d runs, %lld rows, of which %lld fit\n", runs, (long long)looked,
                  (long long)fitted);
    assert_true(fitted > looked / 4 && fitted < looked);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_what_a_mesh_gets_alone)};
    if (argc > 1)
        runs = atoi(argv[1]);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10) | 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
