/* The search: LWM's choices come out, every mesh is there once, and pruning loses nothing at the
 * top. */
#include "planner/search/search.h"
#include "tests/unit/plan_support.h"
#include "tests/support/recompute.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void search(const struct sw_run_config *run, struct sw_search *out)
{
    struct sw_error err = {0};
    if (sw_search_run(run, SW_FOR_TRAIN, SW_EVERY_ROW, out, &err) != 0)
        fail_msg("%s", err.message);
}

static const enum sw_prefer by_fsdp[] = {SW_PREFER_FSDP, SW_PREFER_FSDP_STRICT};

/* LWM (arXiv:2402.08268) trains 7B on 256 TPU v4 with 4M tokens a step: fsdp is the batch. By the
 * bare rule, and within the margin of the fastest. */
static void lwm(void **state)
{
    (void)state;
    static const struct {
        long sequence_length, batch;
        int fsdp;
    } stages[] = {{1 << 17, 32, 32}, {1 << 18, 16, 16}, {1 << 19, 8, 8}, {1 << 20, 4, 4}};
    for (size_t k = 0; k < 8; k++) {
        const size_t i = k / 2;
        struct sw_test_run t = sw_test_llama_7b;
        struct sw_search s;
        t.sequence_length = stages[i].sequence_length;
        t.global_batch_size = stages[i].batch;
        struct sw_config *config = sw_test_read_run(&t);
        struct sw_run_config run = *sw_config_run(config);
        run.prefer = by_fsdp[k % 2];
        search(&run, &s);
        assert_true(s.feasible > 0);
        const struct sw_mesh *mesh = &s.mesh[0].decision.mesh;
        assert_int_equal(mesh->size[SW_FSDP], stages[i].fsdp);
        assert_int_equal(mesh->size[SW_DP], 1);
        assert_int_equal(mesh->size[SW_TP] * mesh->size[SW_SP], 256 / stages[i].fsdp);
        sw_search_free(&s);
        sw_config_free(config);
    }
}

static int count_mesh(const struct sw_mesh *mesh, void *context)
{
    const struct sw_search *s = ((void **)context)[0];
    int32_t *count = ((void **)context)[1], found = 0;
    for (int32_t i = 0; i < s->count; i++)
        found += memcmp(s->mesh[i].decision.mesh.size, mesh->size, sizeof mesh->size) == 0;
    assert_int_equal(found, 1);
    ++*count;
    return 0;
}

static void every_mesh_once(void **state)
{
    (void)state;
    const struct sw_test_run t = sw_test_small_run();
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_search s;
    int32_t count = 0;
    search(sw_config_run(config), &s);
    void *context[] = {&s, &count};
    sw_mesh_enumerate(64, count_mesh, context);
    assert_int_equal(count, 84);
    assert_int_equal(s.count, 84);
    for (int32_t i = 0; i < s.count; i++) {
        const struct sw_candidate *c = &s.mesh[i];
        assert_int_equal(c->reason == SW_FITS, i < s.feasible);
        if (i < s.feasible) {
            assert_true(c->memory.total <= c->memory.limit - c->memory.headroom);
            assert_int_equal(c->memory.total, c->memory.arena + c->memory.reserved);
            assert_int_equal(c->decision.train.micro_batch_size *
                                 c->decision.train.accumulation_steps *
                                 c->decision.mesh.size[SW_DP] * c->decision.mesh.size[SW_FSDP],
                             64);
            assert_true(c->mfu > 0 && c->mfu < 1);
        } else {
            assert_true(c->detail[0] != '\0' && c->help[0] != '\0');
        }
    }
    sw_search_free(&s);
    sw_config_free(config);
}

/* Whether ranks of a tp group lie in several nodes: sizes are powers of two, so blocks of tp and
 * what is inside of it fill nodes or are filled by them. */
static bool tp_leaves(const struct sw_mesh *mesh, int32_t per_node)
{
    int32_t block = 1, i = SW_AXIS_COUNT - 1;
    for (; mesh->order[i] != SW_TP; i--)
        block *= mesh->size[mesh->order[i]];
    return mesh->size[SW_TP] > 1 && block * mesh->size[SW_TP] > per_node;
}

static void ranks_by_every_rule(void **state)
{
    (void)state;
    const struct sw_test_run t = sw_test_small_run();
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    struct sw_search seed, fast;
    run.prefer = SW_PREFER_FSDP_STRICT;
    search(&run, &seed);
    run.prefer = SW_PREFER_TIME;
    search(&run, &fast);
    assert_true(seed.feasible > 10);
    for (int32_t i = 1; i < seed.feasible; i++) {
        const int32_t *a = seed.mesh[i - 1].decision.mesh.size,
                      *b = seed.mesh[i].decision.mesh.size;
        const int inner_a = a[SW_TP] * a[SW_SP], inner_b = b[SW_TP] * b[SW_SP];
        assert_true(a[SW_FSDP] >= b[SW_FSDP]);
        const bool out_a = tp_leaves(&seed.mesh[i - 1].decision.mesh, t.per_node);
        const bool out_b = tp_leaves(&seed.mesh[i].decision.mesh, t.per_node);
        if (a[SW_FSDP] == b[SW_FSDP])
            assert_true(out_a <= out_b);
        if (a[SW_FSDP] == b[SW_FSDP] && out_a == out_b)
            assert_true(inner_a <= inner_b);
        if (a[SW_FSDP] == b[SW_FSDP] && out_a == out_b && inner_a == inner_b)
            assert_true(seed.mesh[i - 1].fastest_seconds <= seed.mesh[i].fastest_seconds);
    }
    for (int32_t i = 1; i < fast.feasible; i++)
        assert_true(fast.mesh[i - 1].cost.step_seconds <= fast.mesh[i].cost.step_seconds);
    assert_int_equal(fast.fastest, 0);
    for (int32_t i = 0; i < seed.feasible; i++)
        assert_true(seed.mesh[seed.fastest].fastest_seconds <= seed.mesh[i].fastest_seconds);
    sw_search_free(&seed);
    sw_search_free(&fast);
    sw_config_free(config);
}

/* 8B on 12 and on 2,048 nodes, where the largest fsdp takes 38 % longer and 45 times as long. */
static void largest_fsdp_within_the_margin(void **state)
{
    (void)state;
    static const struct {
        const char *nodes, *batch;
        double within;
    } runs[] = {{"cluster.nodes=12", "global_batch_size=128", 0.05},
                {"cluster.nodes=2048", "global_batch_size=16384", 0.05},
                {"cluster.nodes=2048", "global_batch_size=16384", 0},
                {"cluster.nodes=12", "global_batch_size=128", 10}};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const struct sw_override over[] = {{runs[i].nodes}, {runs[i].batch}};
        struct sw_error err = {0};
        struct sw_search s;
        struct sw_config *config =
            sw_config_read("configs/runs/llama-8b-64.yaml", SW_CONFIG_RUN, NULL, over, 2, &err);
        assert_non_null(config);
        struct sw_run_config run = *sw_config_run(config);
        assert_int_equal(run.prefer, SW_PREFER_FSDP);
        assert_true(run.prefer_within == 0.05);
        run.prefer_within = runs[i].within;
        search(&run, &s);
        struct sw_mesh mesh;
        const double limit = sw_rank_fastest(&s, &mesh) * (1 + runs[i].within);
        assert_true(s.mesh[0].may_be_chosen && s.mesh[0].fastest_seconds <= limit);
        bool within = true;
        for (int32_t k = 1; k < s.feasible; k++) {
            const struct sw_candidate *a = &s.mesh[k - 1], *b = &s.mesh[k];
            assert_true(within || !b->may_be_chosen); /* the margin ends once */
            within = b->may_be_chosen;
            assert_true(within || b->tp_leaves_domain || b->fastest_seconds > limit);
            if (within)
                assert_true(a->decision.mesh.size[SW_FSDP] >= b->decision.mesh.size[SW_FSDP]);
            if (!a->may_be_chosen ||
                (within && a->decision.mesh.size[SW_FSDP] == b->decision.mesh.size[SW_FSDP]))
                assert_true(a->fastest_seconds <= b->fastest_seconds);
        }
        /* no bound makes it slower than the rule without any */
        const double fastest = limit / (1 + runs[i].within);
        sw_search_free(&s);
        run.prefer = SW_PREFER_TIME;
        search(&run, &s);
        assert_true(fabs(s.mesh[0].fastest_seconds / fastest - 1) < 1e-12);
        sw_search_free(&s);
        sw_config_free(config);
    }
}

/* On H100 as published trainings choose: all accelerators in fsdp for 8B on 8 and 64 and for 70B on
 * 64 and 512; for 405B on 512 tp inside a node, though in order dp,tp,fsdp,sp a step of 128
 * sequences takes 4.4 % less. */
static void as_experts_choose(void **state)
{
    (void)state;
    static const struct {
        const char *model, *nodes, *batch;
        bool fsdp; /* over all */
    } runs[] = {
        {"model=configs/models/llama-3.1-8b.yaml", "cluster.nodes=1", "global_batch_size=16", true},
        {"model=configs/models/llama-3.1-8b.yaml", "cluster.nodes=8", "global_batch_size=128",
         true},
        {"model=configs/models/llama-3.1-70b.yaml", "cluster.nodes=8", "global_batch_size=64",
         true},
        {"model=configs/models/llama-3.1-70b.yaml", "cluster.nodes=64", "global_batch_size=512",
         true},
        {"model=configs/models/llama-3.1-405b.yaml", "cluster.nodes=64", "global_batch_size=128",
         false}};
    int32_t passed = 0;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const struct sw_override over[] = {{"cluster=configs/clusters/h100-64x8.yaml"},
                                           {runs[i].model},
                                           {runs[i].nodes},
                                           {runs[i].batch}};
        struct sw_error err = {0};
        struct sw_search s;
        struct sw_config *config =
            sw_config_read("configs/runs/llama-8b-64.yaml", SW_CONFIG_RUN, NULL, over, 4, &err);
        assert_non_null(config);
        if (sw_search_meshes_alone(sw_config_run(config), 1, &s, &err) != 0)
            fail_msg("%s", err.message);
        const struct sw_candidate *c = &s.mesh[0];
        assert_false(c->tp_leaves_domain);
        if (runs[i].fsdp)
            assert_int_equal(c->decision.mesh.size[SW_FSDP], s.accelerators);
        passed += c->passed_over.seconds > 0;
        sw_search_free(&s);
        sw_config_free(config);
    }
    assert_int_equal(passed, 1);
}

/* The first choice and the fastest are as good as trying everything on them; and nothing is
 * reported that another compilation does not confirm. */
static void pruning_loses_nothing(void **state)
{
    (void)state;
    struct sw_test_run t = sw_test_small_run();
    static const char *const memories[] = {"80 GB", "12 GB", "6 GB"};
    for (size_t m = 0; m < 3; m++) {
        struct sw_search s;
        t.memory = memories[m];
        t.global_batch_size = 512;
        struct sw_config *config = sw_test_read_run(&t);
        const struct sw_run_config *run = sw_config_run(config);
        search(run, &s);
        assert_true(s.feasible > 0);
        const int32_t checked[] = {0, s.fastest};
        for (size_t k = 0; k < 2; k++) {
            const struct sw_candidate *best = &s.mesh[checked[k]];
            const int64_t per_rank =
                512 / (best->decision.mesh.size[SW_DP] * best->decision.mesh.size[SW_FSDP]);
            bool confirmed = false;
            for (int32_t level = 0; level < 3; level++)
                for (int64_t mb = 1; mb <= per_rank; mb *= 2) {
                    struct sw_error err = {0};
                    struct sw_candidate c;
                    struct sw_decision d = best->decision;
                    d.train.recompute = sw_test_recompute((uint32_t)level, &run->model.shape,
                                                          run->model.shape.layers);
                    d.train.micro_batch_size = mb;
                    assert_int_equal(sw_search_evaluate(run, &d, 1, &c, NULL, &err), 0);
                    if (sw_candidate_verdict(&c) == SW_VERDICT_FITS &&
                        c.cost.step_seconds < best->fastest_seconds * 0.999)
                        fail_msg("%s: level %d micro-batch %d is faster: %g < %g", memories[m],
                                 (int)level, (int)mb, c.cost.step_seconds, best->fastest_seconds);
                    confirmed |= c.cost.step_seconds == best->cost.step_seconds &&
                                 c.memory.arena == best->memory.arena;
                }
            assert_true(confirmed ||
                        strcmp(sw_recompute_word(best->decision.train.recompute), "partial") == 0);
        }
        sw_search_free(&s);
        sw_config_free(config);
    }
}

/* The threads leave no trace. */
static void same_every_time(void **state)
{
    (void)state;
    struct sw_config *config = sw_test_read_run(&sw_test_llama_7b);
    struct sw_search a, b;
    search(sw_config_run(config), &a);
    search(sw_config_run(config), &b);
    assert_int_equal(a.count, b.count);
    for (int32_t i = 0; i < a.count; i++) {
        assert_memory_equal(&a.mesh[i].decision.mesh, &b.mesh[i].decision.mesh,
                            sizeof a.mesh[i].decision.mesh);
        assert_int_equal(a.mesh[i].decision.train.micro_batch_size,
                         b.mesh[i].decision.train.micro_batch_size);
        assert_true(a.mesh[i].cost.step_seconds == b.mesh[i].cost.step_seconds);
        assert_string_equal(a.mesh[i].detail, b.mesh[i].detail);
    }
    sw_search_free(&b);
    sw_search_free(&a);
    sw_config_free(config);
}

static void search_with_rules(const char *rules, struct sw_search *out, struct sw_error *err)
{
    struct sw_test_run t = sw_test_small_run();
    t.more = rules;
    struct sw_config *config = sw_test_read_run(&t);
    const int status = sw_search_run(sw_config_run(config), SW_FOR_TRAIN, 1, out, err);
    assert_int_equal(status, err->status == SW_OK ? 0 : -1);
    sw_config_free(config);
}

/* Rules that one mesh cannot keep reject it alone; those that no mesh can are a mistake. */
static void rules_reject_meshes(void **state)
{
    (void)state;
    struct sw_search s;
    struct sw_error err = {0};
    int32_t refused = 0;
    search_with_rules("rules: {heads: [dp, tp]}\n", &s, &err);
    assert_true(s.feasible > 0);
    for (int32_t i = 0; i < s.count; i++) {
        const struct sw_candidate *c = &s.mesh[i];
        const bool clashes = c->decision.mesh.size[SW_DP] > 1;
        if (c->reason == SW_REJECT_RULES) {
            assert_non_null(strstr(c->detail, "uses axis dp twice"));
            assert_true(c->help[0] != '\0');
            refused++;
        }
        assert_true(clashes ? c->reason != SW_FITS : c->reason != SW_REJECT_RULES);
    }
    assert_string_equal(sw_reject_name(SW_REJECT_RULES), "rules");
    assert_true(refused > 0);
    sw_search_free(&s);
    search_with_rules("rules: {embed: [dp, fsdp, tp, sp], mlp: [dp, fsdp, tp, sp]}\n", &s, &err);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_non_null(strstr(err.message, "these rules do not go together"));
}

static void says_why_not(void **state)
{
    (void)state;
    struct sw_test_run t = sw_test_small_run();
    struct sw_search s;
    t.memory = "100 MB";
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    search(&run, &s);
    assert_int_equal(s.feasible, 0);
    assert_int_equal(s.fastest, -1);
    assert_int_equal(s.mesh[0].reason, SW_REJECT_MEMORY); /* the closest comes first */
    for (int32_t i = 1; i < s.count && s.mesh[i].reason == SW_REJECT_MEMORY; i++)
        assert_true(s.mesh[i - 1].memory.total <= s.mesh[i].memory.total);
    assert_memory_equal(s.mesh[0].detail, "needs ", 6);
    assert_non_null(strstr(s.mesh[0].detail, " of 100 MB per accelerator ("));
    sw_search_free(&s);

    run.mesh_dim = "1,3,2,2";
    search(&run, &s);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.mesh[0].reason, SW_REJECT_PRODUCT);
    /* other sizes alone would not do */
    assert_non_null(strstr(s.mesh[0].help, "use cluster.nodes: "));
    sw_search_free(&s);
    const int64_t memory = run.cluster.accelerator.memory_bytes;
    run.cluster.accelerator.memory_bytes = INT64_C(80000000000);
    search(&run, &s);
    assert_string_equal(s.mesh[0].help, "use mesh_dim: auto, or sizes whose product is 64");
    run.cluster.accelerator.memory_bytes = memory;
    sw_search_free(&s);

    run.mesh_dim = "!1,1,-1,8"; /* the written order is kept */
    search(&run, &s);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.mesh[0].decision.mesh.size[SW_TP], 8);
    assert_int_equal(s.mesh[0].decision.mesh.order[3], SW_SP);
    sw_search_free(&s);

    struct sw_error err = {0};
    run.mesh_dim = "1,2";
    assert_int_equal(sw_search_run(&run, SW_FOR_TRAIN, SW_EVERY_ROW, &s, &err), -1);
    assert_int_equal(err.status, SW_BAD_INPUT);
    sw_config_free(config);
}

/* A mesh that uses the headroom up is no choice of the search's, but the user's; where there is no
 * other, the search says so and what to change. */
static void headroom_is_the_users(void **state)
{
    (void)state;
    struct sw_test_run t = sw_test_small_run();
    struct sw_search s;
    char mesh[64], warning[192];
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    assert_true(run.memory_headroom == 0.05);
    run.cluster.accelerator.memory_bytes = 100000000;
    search(&run, &s);
    assert_int_equal(sw_candidate_verdict(&s.mesh[0]), SW_VERDICT_DOES_NOT_FIT);
    const int64_t least = s.mesh[0].memory.total;
    sw_search_free(&s);

    run.cluster.accelerator.memory_bytes = least + least / 99;
    assert_int_equal(sw_headroom_bytes(&run), run.cluster.accelerator.memory_bytes / 20);
    search(&run, &s);
    assert_int_equal(s.feasible, 0);
    assert_int_equal(s.mesh[0].reason, SW_REJECT_MEMORY);
    assert_int_equal(s.mesh[0].memory.total, least);
    assert_int_equal(sw_candidate_verdict(&s.mesh[0]), SW_VERDICT_NO_HEADROOM);
    assert_memory_equal(s.mesh[0].detail, "fits without headroom (", 23);
    sw_mesh_format(&s.mesh[0].decision.mesh, mesh, sizeof mesh);
    assert_memory_equal(s.mesh[0].help, "use memory_headroom: 0.9 %, or mesh_dim: ", 40);
    assert_non_null(strstr(s.mesh[0].help, mesh));
    assert_int_equal(s.mesh[0].suggestion.count, 1);
    assert_string_equal(s.mesh[0].suggestion.change[0].setting, "memory_headroom");
    assert_string_equal(s.mesh[0].suggestion.change[0].to, "0.9 %");
    sw_search_free(&s);

    /* both ways out */
    run.mesh_dim = mesh;
    search(&run, &s);
    assert_int_equal(s.feasible, 1);
    assert_int_equal(sw_candidate_verdict(&s.mesh[0]), SW_VERDICT_NO_HEADROOM);
    assert_true(s.mesh[0].mfu > 0);
    assert_memory_equal(sw_headroom_warning(&s.mesh[0].memory, warning, sizeof warning),
                        "fits without headroom: ", 23);
    sw_search_free(&s);
    run.mesh_dim = "auto";
    run.memory_headroom = 0.009;
    search(&run, &s);
    assert_int_equal(s.feasible, 1); /* with as little made again as there is room for */
    assert_true(s.mesh[0].memory.total <= s.mesh[0].memory.limit - sw_headroom_bytes(&run));
    assert_string_equal(sw_headroom_warning(&s.mesh[0].memory, warning, sizeof warning), "");
    sw_search_free(&s);
    sw_config_free(config);
}

/* A mesh whose state alone takes up the headroom is rejected with the variant that needs least, as
 * it is when it is asked for alone. */
static void state_in_the_headroom_needs_the_same_alone(void **state)
{
    (void)state;
    struct sw_test_run t = sw_test_small_run();
    struct sw_search all, alone;
    char mesh[64];
    int looked = 0;
    t.nodes = 2;
    t.per_node = 4;
    t.kv_heads = 4;
    t.layers = 32;
    t.sequence_length = 65536;
    t.memory = "24 GB";
    t.more = "attention: {strategy: auto}\n";
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    search(&run, &all);
    for (int32_t i = all.feasible; i < all.count; i++) {
        const struct sw_memory *m = &all.mesh[i].memory;
        const int64_t lasts = m->parameters + m->gradients + m->optimizer + m->reserved;
        if (lasts > m->limit || lasts <= m->limit - m->headroom)
            continue;
        run.mesh_dim = sw_mesh_format(&all.mesh[i].decision.mesh, mesh, sizeof mesh);
        search(&run, &alone);
        assert_int_equal(alone.mesh[0].reason, SW_REJECT_MEMORY);
        assert_int_equal(all.mesh[i].memory.total, alone.mesh[0].memory.total);
        sw_search_free(&alone);
        looked++;
    }
    assert_true(looked > 0);
    sw_search_free(&all);
    sw_config_free(config);
}

/* The argument: of the tests, those of such a name alone. */
int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lwm),
        cmocka_unit_test(every_mesh_once),
        cmocka_unit_test(ranks_by_every_rule),
        cmocka_unit_test(largest_fsdp_within_the_margin),
        cmocka_unit_test(as_experts_choose),
        cmocka_unit_test(pruning_loses_nothing),
        cmocka_unit_test(same_every_time),
        cmocka_unit_test(rules_reject_meshes),
        cmocka_unit_test(says_why_not),
        cmocka_unit_test(headroom_is_the_users),
        cmocka_unit_test(state_in_the_headroom_needs_the_same_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
