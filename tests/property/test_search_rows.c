/* Every row of the table is its mesh's answer: what a search over all meshes says of one, chosen,
 * fitting or rejected, is what the same mesh gets when it is asked for alone. And a search for few
 * rows, which does not look closely at slow meshes, has those that a search of all of them has.
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
/* draws among which rows were lost once; what a rejected mesh is advised hung on threads */
static const uint64_t of_rings[] = {4, 64};

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
                                       "rules: {residual_seq: [sp, tp]}\n"};
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

static void expect_equal(int run, int32_t rows, const char *what, const struct sw_candidate *a,
                         const struct sw_candidate *b)
{
    char one[64], other[64];
    const struct sw_decision *x = &a->decision, *y = &b->decision;
    if (a->reason != b->reason || a->memory.total != b->memory.total ||
        a->cost.step_seconds != b->cost.step_seconds ||
        memcmp(&x->mesh, &y->mesh, sizeof x->mesh) != 0 ||
        x->train.micro_batch_size != y->train.micro_batch_size ||
        !sw_recompute_equal(x->train.recompute, y->train.recompute) ||
        x->train.strategy != y->train.strategy || x->train.layout != y->train.layout ||
        x->train.inner_ring != y->train.inner_ring ||
        x->train.residual_seq_tp != y->train.residual_seq_tp || strcmp(a->help, b->help) != 0)
        fail_msg("run %d, %d rows, %s: %s, %s, %.17g s, %lld bytes, '%s'; of all meshes %s, %s, "
                 "%.17g s, %lld bytes, '%s'",
                 run, (int)rows, what, sw_mesh_format(&x->mesh, one, sizeof one),
                 sw_reject_name(a->reason), a->cost.step_seconds, (long long)a->memory.total,
                 a->help, sw_mesh_format(&y->mesh, other, sizeof other), sw_reject_name(b->reason),
                 b->cost.step_seconds, (long long)b->memory.total, b->help);
}

/* What searches for few rows and for all of them found, of all runs. */
struct looked {
    int64_t meshes, priced; /* that fit; that were priced for few rows */
    int64_t inner;          /* rows whose ring is made of inner rings */
};

static void compare_rows(int r, const struct sw_run_config *run, int32_t rows, struct looked *sum)
{
    struct sw_search few, all;
    struct sw_error err = {0};
    if (sw_search_run(run, SW_FOR_TRAIN, rows, &few, &err) != 0 ||
        sw_search_run(run, SW_FOR_TRAIN, SW_EVERY_ROW, &all, &err) != 0)
        fail_msg("run %d: %s", r, err.message);
    /* of the rows behind those that are wanted not all are priced: the fastest is any of them */
    const bool is_row = all.fastest < rows;
    if (few.count != all.count || few.feasible != all.feasible || few.keeping != all.keeping ||
        (is_row ? few.fastest != all.fastest : few.fastest < rows))
        fail_msg("run %d, %d rows: of %d meshes %d fit, the fastest is row %d; of all %d, %d, "
                 "row %d",
                 r, (int)rows, (int)few.count, (int)few.feasible, (int)few.fastest, (int)all.count,
                 (int)all.feasible, (int)all.fastest);
    assert_int_equal(all.priced, all.feasible);
    assert_true(few.priced >= (rows < few.feasible ? rows : few.feasible));
    for (int32_t i = 0; i < all.feasible && i < rows; i++) {
        expect_equal(r, rows, "row", &few.mesh[i], &all.mesh[i]);
        sum->inner += all.mesh[i].decision.train.inner_ring > 0;
    }
    if (all.fastest >= 0)
        expect_equal(r, rows, "fastest", &few.mesh[few.fastest], &all.mesh[all.fastest]);
    for (int32_t i = all.feasible; i < all.count; i++)
        expect_equal(r, rows, "rejected", &few.mesh[i], &all.mesh[i]);
    sum->meshes += few.feasible;
    sum->priced += few.priced;
    sw_search_free(&few);
    sw_search_free(&all);
}

static void few_rows_are_the_first_of_all(void **state)
{
    (void)state;
    static const int32_t wanted[] = {1, 3, 10};
    struct looked sum = {0};
    for (int r = 0; r < runs; r++) {
        const struct sw_test_run t = random_run();
        struct sw_config *config = sw_test_read_run(&t);
        const int32_t rows = PICK(wanted);
        compare_rows(r, sw_config_run(config), rows, &sum);
        sw_config_free(config);
    }
    print_message("%d runs: %lld of %lld meshes that fit were priced\n", runs,
                  (long long)sum.priced, (long long)sum.meshes);
    assert_true(sum.priced < sum.meshes);
}

/* Weights that are gathered as they are stored, in each of many micro-steps: the links are busy
 * with those of a step for as long, however many there are. */
static void few_rows_of_a_named_micro_batch(void **state)
{
    (void)state;
    struct looked sum = {0};
    struct sw_test_run t = sw_test_small_run();
    t.global_batch_size = 512;
    t.memory = "80 GB";
    t.outer = "3 GB/s";
    t.more = "attention: {strategy: auto}\nmicro_batch_size: 1\n"
             "precision: {compute: bf16, params: bf16}\n";
    struct sw_config *config = sw_test_read_run(&t);
    compare_rows(0, sw_config_run(config), 10, &sum);
    sw_config_free(config);
    assert_true(sum.priced < sum.meshes);
}

/* The margin lets a row be near the second fastest mesh, but not near the fastest, which is met
 * last: until then it is one of three, and others seem to be none. */
static void few_rows_where_one_drops_out(void **state)
{
    (void)state;
    struct looked sum = {0};
    struct sw_test_run t = sw_test_llama_7b;
    struct sw_search all;
    struct sw_error err = {0};
    t.nodes = 2;
    t.per_node = 8;
    t.layers = 8;
    t.sequence_length = 1024;
    t.global_batch_size = 8;
    t.memory = "10 GB";
    t.outer = "12.5 GB/s";
    t.latency = "4 us";
    t.more = "attention: {strategy: auto}\n";
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    run.prefer = SW_PREFER_TIME;
    assert_int_equal(sw_search_run(&run, SW_FOR_TRAIN, SW_EVERY_ROW, &all, &err), 0);
    run.prefer = SW_PREFER_FSDP;
    for (int32_t i = 2; i < all.feasible; i++) {
        const struct sw_candidate *row = &all.mesh[i], *second = &all.mesh[1];
        run.prefer_within = 1e-6 + row->cost.step_seconds / second->cost.step_seconds - 1;
        if (row->decision.mesh.size[SW_FSDP] == second->decision.mesh.size[SW_FSDP])
            compare_rows(i, &run, 3, &sum);
    }
    sw_search_free(&all);
    sw_config_free(config);
    assert_true(sum.meshes > 0 && sum.priced < sum.meshes);
}

/* Nodes of three cut groups of four and eight; with fsdp weights are gathered over whole nodes,
 * whose ports ranks share, and sooner than over sp alone. */
static void few_rows_where_nodes_cut_groups(void **state)
{
    (void)state;
    struct looked sum = {0};
    struct sw_test_run t = sw_test_llama_7b;
    t.nodes = 16;
    t.per_node = 3;
    t.kv_heads = 8;
    t.layers = 2;
    t.sequence_length = 256;
    t.global_batch_size = 192;
    t.memory = "80 GB";
    t.outer = "3 GB/s";
    t.latency = "6 us";
    struct sw_config *config = sw_test_read_run(&t);
    for (int32_t rows = 5; rows <= 40; rows += 5)
        compare_rows(0, sw_config_run(config), rows, &sum);
    sw_config_free(config);
    assert_true(sum.priced < sum.meshes);
}

/* Of few long sequences sp is wide, and rings that leave their nodes are made of inner rings. */
static void compare_long_runs(struct looked *sum)
{
    static const int nodes[] = {4, 8, 16}, per_node[] = {4, 8}, layers[] = {2, 8, 32};
    static const long lengths[] = {32768, 65536, 131072}, batches[] = {1, 2, 4, 8};
    static const char *const links[] = {"12.5 GB/s", "50 GB/s"};
    static const char *const more[] = {"", "prefer: time\n",
                                       "attention: {strategy: auto}\nprefer: time\n"};
    static const int32_t wanted[] = {1, 3, 5};
    for (int r = 0; r < 3 * runs; r++) {
        struct sw_test_run t = sw_test_llama_7b;
        t.nodes = PICK(nodes);
        t.per_node = PICK(per_node);
        t.kv_heads = 8;
        t.layers = PICK(layers);
        t.sequence_length = PICK(lengths);
        t.global_batch_size = PICK(batches);
        t.memory = "80 GB";
        t.inner = "450 GB/s";
        t.outer = PICK(links);
        t.latency = "4 us";
        t.more = PICK(more);
        struct sw_config *config = sw_test_read_run(&t);
        struct sw_run_config run = *sw_config_run(config);
        const int32_t rows = PICK(wanted);
        run.cluster.link[1].rails = next_random() % 4 != 0;
        compare_rows(r, &run, rows, sum);
        sw_config_free(config);
    }
}

static void few_rows_of_inner_rings(void **state)
{
    (void)state;
    const uint64_t from = seed;
    for (size_t k = 0; k < sizeof of_rings / sizeof *of_rings; k++) {
        struct looked sum = {0};
        seed = from ^ of_rings[k];
        compare_long_runs(&sum);
        print_message("%d runs: %lld rows of inner rings; %lld of %lld meshes that fit were "
                      "priced\n",
                      3 * runs, (long long)sum.inner, (long long)sum.priced, (long long)sum.meshes);
        assert_true(sum.inner > runs / 4 && sum.priced < sum.meshes);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_what_a_mesh_gets_alone),
                                       cmocka_unit_test(few_rows_are_the_first_of_all),
                                       cmocka_unit_test(few_rows_of_a_named_micro_batch),
                                       cmocka_unit_test(few_rows_where_nodes_cut_groups),
                                       cmocka_unit_test(few_rows_where_one_drops_out),
                                       cmocka_unit_test(few_rows_of_inner_rings)};
    if (argc > 1)
        runs = atoi(argv[1]);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10) | 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
