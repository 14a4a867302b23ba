/* Where the search makes a ring of inner rings: by price, with as little made again as fits, and
 * whatever other ways to attend there are. */
#include "planner/search/search.h"
#include "tests/unit/plan_support.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void search(const struct sw_run_config *run, struct sw_search *out)
{
    struct sw_error err = {0};
    if (sw_search_run(run, SW_FOR_TRAIN, SW_EVERY_ROW, out, &err) != 0)
        fail_msg("%s", err.message);
}

/* Where a ring leaves its nodes over rails, one that goes through all ranks in turn has each block
 * on one rail at a time, and waits: it is made of a node's rings. Where all ports of a node send
 * for whoever sends it is, too: of two nodes 4 blocks leave each, not 7. Not where the network
 * outruns computing, and where it stays in a node. */
static void rings_by_price(void **state)
{
    (void)state;
    static const struct {
        const char *mesh, *outer;
        bool rails;
        int32_t inner;
    } cases[] = {{"1,1,1,8", "1 GB/s", true, 4},
                 {"1,1,1,8", "1 GB/s", false, 4},
                 {"1,1,1,8", "900 GB/s", true, 0},
                 {"1,2,1,4", "1 GB/s", true, 0},
                 {"sp:4,tp:2", "1 GB/s", true, 2}};
    struct sw_test_run t = sw_test_small_run();
    t.nodes = 2;
    t.per_node = 4;
    t.layers = 2;
    t.global_batch_size = 2;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_search s;
        struct sw_error err = {0};
        struct sw_candidate same, one;
        t.outer = cases[i].outer;
        struct sw_config *config = sw_test_read_run(&t);
        struct sw_run_config run = *sw_config_run(config);
        run.mesh_dim = cases[i].mesh;
        run.cluster.link[1].rails = cases[i].rails;
        search(&run, &s);
        const struct sw_candidate *c = &s.mesh[0];
        struct sw_decision flat = c->decision;
        flat.train.inner_ring = 0;
        assert_int_equal(c->decision.train.inner_ring, cases[i].inner);
        assert_int_equal(sw_search_evaluate(&run, &c->decision, 0, &same, NULL, &err), 0);
        assert_int_equal(sw_search_evaluate(&run, &flat, 0, &one, NULL, &err), 0);
        assert_true(same.cost.step_seconds == c->cost.step_seconds);
        assert_int_equal(same.memory.total, c->memory.total);
        assert_true(cases[i].inner == 0 || c->cost.step_seconds < one.cost.step_seconds);
        sw_search_free(&s);
        sw_config_free(config);
    }
}

/* Eight nodes of eight with fast links inside and one rail for each outside. */
static double step_of(const struct sw_test_run *like, const char *more, const char *mesh,
                      int32_t *inner)
{
    struct sw_test_run t = *like;
    struct sw_search s;
    t.more = more;
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    run.mesh_dim = mesh;
    run.cluster.link[1].rails = true;
    search(&run, &s);
    assert_int_equal(s.feasible, 1);
    const double seconds = s.mesh[0].cost.step_seconds;
    *inner = s.mesh[0].decision.train.inner_ring;
    sw_search_free(&s);
    sw_config_free(config);
    return seconds;
}

static struct sw_test_run rails_run(long sequence_length, long batch)
{
    struct sw_test_run t = sw_test_small_run();
    t.layers = 32;
    t.memory = "80 GB";
    t.inner = "450 GB/s";
    t.outer = "50 GB/s";
    t.latency = "6 us";
    t.sequence_length = sequence_length;
    t.global_batch_size = batch;
    return t;
}

/* Kept values fill the memory that inner rings need two more blocks of: then more is made again,
 * and no fixed recompute is faster. */
static void rings_fit(void **state)
{
    (void)state;
    static const long batch[] = {160, 192};
    for (size_t i = 0; i < sizeof batch / sizeof batch[0]; i++) {
        const struct sw_test_run t = rails_run(8192, batch[i]);
        int32_t inner, inner_full;
        const double automatic = step_of(&t, "", "1,1,2,32", &inner);
        const double full = step_of(&t, "recompute: full\n", "1,1,2,32", &inner_full);
        assert_true(inner > 0 && inner_full > 0);
        assert_true(automatic <= full);
    }
}

/* Where one ring is slower than another strategy, inner rings may be faster than both. Attention's
 * share is that of any call here: a ring's are shorter. */
#define FLAT "profile: {attention: 0.28}\n"
static void rings_beat_others(void **state)
{
    (void)state;
    static const struct {
        const char *mesh;
        long length, batch;
    } cases[] = {{"1,1,2,32", 65536, 4}, {"1,1,1,64", 131072, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct sw_test_run t = rails_run(cases[i].length, cases[i].batch);
        int32_t inner, of_ring, none;
        const double any = step_of(&t, FLAT "attention: {strategy: auto}\n", cases[i].mesh, &inner);
        const double ring = step_of(&t, FLAT, cases[i].mesh, &of_ring);
        const double gather =
            step_of(&t, FLAT "attention: {strategy: gather}\n", cases[i].mesh, &none);
        assert_true(ring < gather && of_ring > 0 && none == 0);
        assert_true(any <= ring && inner > 0);
    }
}

/* Rules that leave keys whole leave nothing that goes round, whatever links there are. */
static void whole_keys_have_no_ring(void **state)
{
    (void)state;
    const struct sw_test_run t = rails_run(65536, 4);
    int32_t inner;
    step_of(&t, "rules: {key_seq: []}\n", "1,1,2,32", &inner);
    assert_int_equal(inner, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_by_price),
        cmocka_unit_test(rings_fit),
        cmocka_unit_test(rings_beat_others),
        cmocka_unit_test(whole_keys_have_no_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
