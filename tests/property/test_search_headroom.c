/* Of what the search may choose by itself, nothing uses the headroom up; of a mesh that is asked
 * for, options do only where no others would keep it. Over random runs, on accelerators whose
 * memory is close to what is needed. */
#include "planner/search/search.h"
#include "tests/unit/plan_support.h"
#include "tests/support/recompute.h"
#include "tests/support/share.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { RUNS = 120 };

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

static void search(const struct sw_run_config *run, struct sw_search *out)
{
    struct sw_error err = {0};
    if (sw_search_run(run, SW_FOR_TRAIN, SW_EVERY_ROW, out, &err) != 0)
        fail_msg("%s", err.message);
}

static struct sw_config *random_run(uint64_t *seed, struct sw_run_config *run)
{
    struct sw_test_run t = sw_test_llama_7b;
    t.nodes = 2 << draw(seed, 3);
    t.per_node = 4;
    t.kv_heads = 8;
    t.layers = 2 + (int)draw(seed, 6);
    t.sequence_length = 2048L << draw(seed, 4);
    t.global_batch_size = 8L << draw(seed, 4);
    t.memory = "80 GB";
    t.latency = "4 us";
    struct sw_config *config = sw_test_read_run(&t);
    *run = *sw_config_run(config);
    run->memory_headroom = draw(seed, 8) == 0 ? 0 : draw(seed, 400) / 1000.0;
    const uint32_t recompute = (uint32_t)draw(seed, 4); /* every other time: auto */
    run->recompute_auto = recompute < 2;
    run->recompute = (struct sw_recompute_config){0};
    if (recompute == 3) {
        run->recompute.values.all = true;
        run->recompute.layers = SW_ALL_LAYERS;
    }
    run->strategy = draw(seed, 2) ? SW_ATTENTION_AUTO : SW_ATTENTION_RING;
    run->micro_batch_size = draw(seed, 4) == 0 ? 2 : 0;
    run->prefer = draw(seed, 2) ? SW_PREFER_TIME : SW_PREFER_FSDP;
    run->cluster.accelerator.reserved_memory_bytes = (int64_t)draw(seed, 2) * 1000000000;
    return config;
}

/* The best verdict that any options of that mesh have: found by trying them all. */
static enum sw_fit_verdict try_all(const struct sw_run_config *run, const struct sw_mesh *mesh)
{
    const int64_t ways = (int64_t)mesh->size[SW_DP] * mesh->size[SW_FSDP];
    const int64_t per_rank = run->global_batch_size / ways;
    enum sw_fit_verdict best = SW_VERDICT_DOES_NOT_FIT;
    for (int32_t way = 0; way < 3 * 3 * 2 * 2; way++)
        for (int64_t micro = 1; micro <= per_rank; micro *= 2) {
            struct sw_candidate c;
            const struct sw_decision d = {
                .mesh = *mesh,
                .train.micro_batch_size = micro,
                .train.recompute = sw_test_recompute((uint32_t)(way % 3), &run->model.shape,
                                                     run->model.shape.layers),
                .train.strategy = (enum sw_attention_strategy)(way / 3 % 3),
                .train.layout = (enum sw_sequence_layout)(way / 9 % 2),
                .train.residual_seq_tp = way / 18 == 1};
            const bool allowed =
                (run->micro_batch_size == 0 || micro == run->micro_batch_size) &&
                (run->recompute_auto ||
                 sw_recompute_equal(d.train.recompute, run->recompute.values.all
                                                           ? sw_recompute_full()
                                                           : sw_recompute_none())) &&
                (run->strategy == SW_ATTENTION_AUTO ||
                 (d.train.strategy == run->strategy && d.train.layout == run->layout)) &&
                (mesh->size[SW_SP] > 1 || way / 3 % 3 == 0) &&
                (mesh->size[SW_TP] > 1 || way / 18 == 0);
            if (!allowed)
                continue;
            assert_int_equal(sw_search_evaluate(run, &d, 1, &c, NULL, NULL), 0);
            const enum sw_fit_verdict verdict = sw_candidate_verdict(&c);
            best = verdict < best ? verdict : best;
        }
    return best;
}

/* Returns how many were rejected for lack of headroom. */
static int32_t check_auto(const struct sw_run_config *run, const struct sw_search *s)
{
    const int64_t all = run->cluster.accelerator.memory_bytes;
    const double room = (double)all * (1 - run->memory_headroom);
    int32_t tight = 0;
    for (int32_t i = 0; i < s->count; i++) {
        const struct sw_candidate *c = &s->mesh[i];
        if (c->reason == SW_FITS) {
            assert_true((double)c->memory.total <= room + 1);
            assert_int_equal(sw_candidate_verdict(c), SW_VERDICT_FITS);
        } else {
            assert_int_not_equal(sw_candidate_verdict(c), SW_VERDICT_FITS);
        }
        if (c->reason == SW_REJECT_MEMORY)
            assert_int_equal(sw_candidate_verdict(c), c->memory.total <= all
                                                          ? SW_VERDICT_NO_HEADROOM
                                                          : SW_VERDICT_DOES_NOT_FIT);
        tight += sw_candidate_verdict(c) == SW_VERDICT_NO_HEADROOM;
    }
    return tight;
}

/* That mesh, asked for. Returns its verdict. */
static enum sw_fit_verdict check_asked(const struct sw_run_config *run,
                                       const struct sw_candidate *c)
{
    struct sw_run_config asking = *run;
    struct sw_search s;
    char mesh[64];
    asking.mesh_dim = sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh);
    search(&asking, &s);
    const enum sw_fit_verdict verdict = sw_candidate_verdict(&s.mesh[0]);
    const bool by_memory = s.mesh[0].reason == SW_FITS || s.mesh[0].reason == SW_REJECT_MEMORY;
    assert_int_equal(s.count, 1);
    assert_int_equal(s.feasible, verdict != SW_VERDICT_DOES_NOT_FIT);
    if (c->reason == SW_FITS)
        assert_int_equal(verdict, SW_VERDICT_FITS);
    if (by_memory && verdict != SW_VERDICT_FITS && try_all(run, &c->decision.mesh) != verdict)
        fail_msg("%s: %s, but other options are better", mesh, sw_verdict_name(verdict));
    sw_search_free(&s);
    return verdict;
}

static void keeps_headroom_unless_asked(void **state)
{
    (void)state;
    uint64_t seed = 20261122;
    int32_t tight = 0, asked[SW_VERDICT_COUNT] = {0};
    const int32_t share = sw_test_share();
    for (int32_t i = 0; i < RUNS / share; i++) {
        struct sw_run_config run;
        struct sw_search s;
        struct sw_config *config = random_run(&seed, &run);
        search(&run, &s);
        /* then with a little more or less than some mesh has */
        const struct sw_candidate *like = &s.mesh[draw(&seed, (uint32_t)s.feasible + 1)];
        if (like->memory.total > 0)
            run.cluster.accelerator.memory_bytes =
                like->memory.total / 100 * (95 + draw(&seed, 40));
        sw_search_free(&s);
        search(&run, &s);
        tight += check_auto(&run, &s);
        for (int32_t k = 0; k < 2; k++)
            asked[check_asked(&run, &s.mesh[draw(&seed, (uint32_t)s.count)])]++;
        sw_search_free(&s);
        sw_config_free(config);
    }
    print_message("rejected for lack of headroom: %d; asked for: %d fit, %d without headroom, %d "
                  "do not\n",
                  tight, asked[0], asked[1], asked[2]);
    assert_true(tight > 30 / share);
    for (int32_t v = 0; v < SW_VERDICT_COUNT; v++)
        assert_true(asked[v] >= 10 / share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_headroom_unless_asked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
