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

static struct sw_test_run small_run(void)
{
    struct sw_test_run t = sw_test_llama_7b;
    t.nodes = 8;
    t.per_node = 8;
    t.kv_heads = 8;
    t.layers = 8;
    t.sequence_length = 8192;
    t.global_batch_size = 64;
    return t;
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
    const struct sw_test_run t = small_run();
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
    const struct sw_test_run t = small_run();
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
            assert_true(seed.mesh[i - 1].cost.step_seconds <= seed.mesh[i].cost.step_seconds);
    }
    for (int32_t i = 1; i < fast.feasible; i++)
        assert_true(fast.mesh[i - 1].cost.step_seconds <= fast.mesh[i].cost.step_seconds);
    assert_int_equal(fast.fastest, 0);
    for (int32_t i = 0; i < seed.feasible; i++)
        assert_true(seed.mesh[seed.fastest].cost.step_seconds <= seed.mesh[i].cost.step_seconds);
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
        const double limit = s.mesh[s.fastest].cost.step_seconds * (1 + runs[i].within);
        assert_true(s.mesh[0].cost.step_seconds <= limit);
        bool within = true;
        for (int32_t k = 1; k < s.feasible; k++) {
            const struct sw_candidate *a = &s.mesh[k - 1], *b = &s.mesh[k];
            assert_true(within || b->cost.step_seconds > limit); /* the margin ends once */
            within = b->cost.step_seconds <= limit;
            if (within)
                assert_true(a->decision.mesh.size[SW_FSDP] >= b->decision.mesh.size[SW_FSDP]);
            if (a->cost.step_seconds > limit ||
                (within && a->decision.mesh.size[SW_FSDP] == b->decision.mesh.size[SW_FSDP]))
                assert_true(a->cost.step_seconds <= b->cost.step_seconds);
        }
        /* no bound makes it slower than the rule without any */
        const double fastest = s.mesh[s.fastest].cost.step_seconds;
        sw_search_free(&s);
        run.prefer = SW_PREFER_TIME;
        search(&run, &s);
        assert_true(s.mesh[0].cost.step_seconds == fastest);
        sw_search_free(&s);
        sw_config_free(config);
    }
}

/* The first choice and the fastest are as good as trying everything on them; and nothing is
 * reported that another compilation does not confirm. */
static void pruning_loses_nothing(void **state)
{
    (void)state;
    struct sw_test_run t = small_run();
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
                        c.cost.step_seconds < best->cost.step_seconds * 0.999)
                        fail_msg("%s: level %d micro-batch %d is faster: %g < %g", memories[m],
                                 (int)level, (int)mb, c.cost.step_seconds, best->cost.step_seconds);
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
    sw_search_free(&a);
    sw_search_free(&b);
    sw_config_free(config);
}

static void says_why_not(void **state)
{
    (void)state;
    struct sw_test_run t = small_run();
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
    assert_non_null(strstr(s.mesh[0].help, " and cluster.accelerator.memory: 1 GB"));
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
    struct sw_test_run t = small_run();
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

/* Rows of serving come from programs that meshes share and that are sized for each: they are those
 * of the programs that the plan's digests are of, whose price comes the long way. Memory for some
 * meshes' weights as a whole, and of others' only streamed. */
static void serving_is_priced_as_it_is_planned(void **state)
{
    (void)state;
    const struct sw_test_run t = small_run();
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    struct sw_search s;
    struct sw_error err = {0};
    int32_t streamed = 0, gathered = 0, around = 0;
    struct sw_workload workload;
    run.serve_max_batch = 12;
    run.serve_max_tokens = 6144;
    run.serve_chunk = 3072; /* long enough for keys and values to be gathered */
    run.cluster.accelerator.device = SW_DEVICE_CPU;
    run.cluster.accelerator.memory_bytes /= 10;
    workload = sw_plan_workload(&run);
    if (sw_search_run(&run, SW_FOR_SERVE, SW_EVERY_ROW, &s, &err) != 0)
        fail_msg("%s", err.message);
    assert_true(s.feasible > 0 && s.keeping == s.feasible);
    for (int32_t i = 0; i < s.count; i++) {
        const struct sw_candidate *c = &s.mesh[i];
        struct sw_decision decision = c->decision;
        struct sw_program_set *set = NULL;
        struct sw_cost token, chunk;
        if (c->reason != SW_FITS && c->reason != SW_REJECT_MEMORY)
            continue;
        assert_int_equal(sw_search_serving_programs(&run, &decision, &set, NULL), 0);
        assert_int_equal(decision.serve.stream_weights, c->decision.serve.stream_weights);
        assert_int_equal(c->memory.arena, set->arena_bytes);
        assert_int_equal(c->memory.parameters, set->state.parameter_bytes);
        assert_int_equal(c->memory.cache, set->state.cache_bytes);
        assert_int_equal(c->serve.gathers, set->gathers);
        assert_memory_equal(c->serve.chunk_bytes, set->chunk_bytes, sizeof set->chunk_bytes);
        const struct sw_program *decode = set->program[SW_PROGRAM_DECODE];
        const struct sw_program *prefill = set->program[SW_PROGRAM_PREFILL];
        assert_int_equal(sw_cost_price(decode, &run.cluster, &workload, &token, NULL), 0);
        assert_int_equal(sw_cost_price(prefill, &run.cluster, &workload, &chunk, NULL), 0);
        assert_true(c->cost.step_seconds == token.step_seconds);
        assert_true(c->serve.first_seconds ==
                    (double)((c->serve.prompt_tokens + c->serve.chunk - 1) / c->serve.chunk) *
                        chunk.step_seconds);
        assert_int_equal(c->serve.decode_bytes, sw_program_sent_bytes(decode));
        assert_int_equal(c->serve.texts, decode->micro_batch);
        streamed += c->decision.serve.stream_weights == SW_STREAM_ALWAYS;
        gathered += c->decision.serve.stream_weights == SW_STREAM_NEVER;
        around += c->serve.gathers == SW_GATHER_KV;
        sw_program_set_free(set);
    }
    assert_true(streamed > 0 && gathered > 0 && around > 0);
    sw_search_free(&s);
    sw_config_free(config);
}

/* Of the size of the program that has so many rows over the whole mesh. */
static double size_seconds(const struct sw_run_config *run, const struct sw_program_set *set,
                           enum sw_program_kind kind, int64_t rows)
{
    const struct sw_workload workload = sw_plan_workload(run);
    struct sw_error err = {0};
    struct sw_cost cost;
    for (int32_t size = 0; size < SW_SERVING_SIZES; size++) {
        const struct sw_program *p = sw_program_set_size(set, kind, size);
        if (p == NULL || p->micro_batch != rows)
            continue;
        assert_int_equal(sw_cost_price(p, &run->cluster, &workload, &cost, &err), 0);
        return cost.step_seconds;
    }
    fail_msg("no program of %d rows", (int)rows);
    return 0;
}

/* Behind the halves that are chunks come those that mix: a token waits for no call but its own. */
static void a_budget_mixes_before_it_gives_up(void **state)
{
    (void)state;
    const struct sw_test_run t = small_run();
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    struct sw_decision none = {.serve.stream_weights = SW_STREAM_NEVER};
    struct sw_candidate chunks, mixed, c;
    struct sw_error err = {0};
    run.cluster.accelerator.device = SW_DEVICE_CPU;
    run.serve_max_batch = 16; /* 8 of a rank of the batch */
    run.serve_max_tokens = 2048;
    none.mesh = sw_mesh_make(1, 2, 2, 1);
    run.serve_token_budget = 2 * 128;
    assert_int_equal(sw_search_evaluate_serving(&run, &none, &chunks, &err), 0);
    assert_int_equal(chunks.serve.chunk, 128);
    run.serve_token_budget = 2 * 16;
    assert_int_equal(sw_search_evaluate_serving(&run, &none, &mixed, &err), 0);
    assert_int_equal(mixed.serve.chunk, 1);
    assert_int_equal(mixed.serve.token_budget, 2 * 16);
    assert_true(mixed.serve.beside_seconds > mixed.cost.step_seconds);
    assert_true(mixed.serve.beside_seconds < 2 * mixed.cost.step_seconds);
    assert_true(mixed.serve.beside_seconds < chunks.serve.beside_seconds);
    /* a prompt that is alone is read by calls of more rows, whose price is what is said */
    struct sw_program_set *set = NULL;
    assert_int_equal(sw_search_serving_programs(&run, &mixed.decision, &set, &err), 0);
    assert_non_null(set->program[SW_PROGRAM_READ]);
    assert_int_equal(set->program[SW_PROGRAM_READ]->micro_batch, 2 * 128);
    /* tokens of a prompt; calls of 128 rows, then one of as many as the rest needs, however many
     * slots there are: as sw_serving_widens and sw_serving_size have the server do */
    static const struct {
        int64_t tokens, reads, rows;
        enum sw_program_kind kind;
    } calls[] = {{1, 0, 1, SW_PROGRAM_PREFILL},   {8, 0, 8, SW_PROGRAM_PREFILL},
                 {16, 0, 16, SW_PROGRAM_PREFILL}, {17, 0, 32, SW_PROGRAM_READ},
                 {64, 0, 64, SW_PROGRAM_READ},    {65, 0, 128, SW_PROGRAM_READ},
                 {129, 1, 1, SW_PROGRAM_PREFILL}, {192, 1, 64, SW_PROGRAM_READ},
                 {128, 1, 0, SW_PROGRAM_READ}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        run.serve_prompt_tokens = calls[i].tokens;
        assert_int_equal(sw_search_evaluate_serving(&run, &none, &c, &err), 0);
        const double expected =
            (double)calls[i].reads * size_seconds(&run, set, SW_PROGRAM_READ, 2 * 128) +
            (calls[i].rows > 0 ? size_seconds(&run, set, calls[i].kind, 2 * calls[i].rows) : 0);
        if (fabs(c.serve.first_seconds - expected) > 1e-9 * expected)
            fail_msg("%d tokens: %g s, not %g", (int)calls[i].tokens, c.serve.first_seconds,
                     expected);
    }
    /* a token, too, of as many texts as there are */
    assert_int_equal(c.serve.size_count, 4);
    for (int32_t i = 0; i < c.serve.size_count; i++) {
        assert_int_equal(c.serve.size[i].texts, 16 >> i);
        assert_true(c.serve.size[i].seconds ==
                    size_seconds(&run, set, SW_PROGRAM_DECODE, c.serve.size[i].texts));
        assert_true(i == 0 || c.serve.size[i].seconds < c.serve.size[i - 1].seconds);
    }
    assert_true(c.serve.size[0].seconds == c.cost.step_seconds);
    run.serve_prompt_tokens = 0;
    sw_program_set_free(set);
    run.serve_token_budget = 0;
    run.serve_token_latency = mixed.serve.beside_seconds * 1.0001;
    assert_int_equal(sw_search_evaluate_serving(&run, &none, &c, &err), 0);
    assert_int_equal(c.decision.serve.token_budget, 2 * 16);
    assert_true(c.serve.beside_seconds == mixed.serve.beside_seconds);
    /* with as many slots there is no room beside their tokens; nor are chunks of a sequence mixed
     */
    run.serve_token_latency = 0;
    run.serve_token_budget = 2 * 8;
    assert_int_equal(sw_search_evaluate_serving(&run, &none, &c, &err), 0);
    assert_int_equal(c.serve.chunk, 8);
    none.mesh = sw_mesh_make(1, 2, 1, 2);
    run.serve_token_budget = 2 * 16;
    assert_int_equal(sw_search_evaluate_serving(&run, &none, &c, &err), 0);
    assert_int_equal(c.serve.chunk, 16);
    sw_config_free(config);
}

/* Where calls do not mix what is behind a prompt's whole chunks costs its own tokens, up to half a
 * chunk; on a device whose rows go by their number a whole chunk. */
static void a_prompts_end_costs_its_tokens(void **state)
{
    (void)state;
    const struct sw_test_run t = small_run();
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    struct sw_decision none = {.serve.stream_weights = SW_STREAM_NEVER};
    struct sw_program_set *set = NULL;
    struct sw_candidate c;
    struct sw_error err = {0};
    run.serve_max_batch = 16; /* 8 of a rank of the batch */
    run.serve_max_tokens = 2048;
    none.mesh = sw_mesh_make(1, 2, 2, 1);
    static const struct {
        int64_t tokens, chunks, reads, rows;
    } calls[] = {{5, 0, 0, 8},   {16, 0, 0, 16},        {100, 0, 0, 128}, {255, 0, 1, 128},
                 {256, 1, 0, 0}, {511, 1, 0, 0},        {512, 1, 0, 0},   {528, 1, 0, 16},
                 {513, 1, 0, 1}, {1024 + 140, 2, 1, 16}};
    for (int device = SW_DEVICE_CPU; device <= SW_DEVICE_CUDA; device++) {
        const bool alike = device == SW_DEVICE_CPU;
        run.cluster.accelerator.device = (enum sw_device_kind)device;
        run.serve_prompt_tokens = 0;
        assert_int_equal(sw_search_evaluate_serving(&run, &none, &c, &err), 0);
        assert_int_equal(sw_search_serving_programs(&run, &c.decision, &set, &err), 0);
        assert_int_equal(set->program[SW_PROGRAM_READ] != NULL, alike);
        assert_int_equal(c.serve.size_count, alike ? 4 : 1);
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            run.serve_prompt_tokens = calls[i].tokens;
            assert_int_equal(sw_search_evaluate_serving(&run, &none, &c, &err), 0);
            const int64_t chunks = alike ? calls[i].chunks : (calls[i].tokens + 511) / 512;
            double expected = (double)chunks * size_seconds(&run, set, SW_PROGRAM_PREFILL, 2);
            if (alike && calls[i].reads > 0)
                expected +=
                    (double)calls[i].reads * size_seconds(&run, set, SW_PROGRAM_READ, 2 * 128);
            if (alike && calls[i].rows > 0)
                expected += size_seconds(&run, set, SW_PROGRAM_READ, 2 * calls[i].rows);
            if (fabs(c.serve.first_seconds - expected) > 1e-9 * expected)
                fail_msg("%d tokens: %g s, not %g", (int)calls[i].tokens, c.serve.first_seconds,
                         expected);
        }
        sw_program_set_free(set);
    }
    sw_config_free(config);
}

/* The rows of a prompt meet what of the prompt is before them, in calls of single tokens as in
 * chunks, however long sequences may become. */
static void a_prompts_end_meets_its_prompt(void **state)
{
    (void)state;
    const struct sw_test_run t = small_run();
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    struct sw_decision none = {.serve.stream_weights = SW_STREAM_NEVER};
    struct sw_candidate c;
    struct sw_error err = {0};
    run.cluster.accelerator.device = SW_DEVICE_CPU;
    run.serve_max_batch = 16; /* 8 of a rank of the batch */
    none.mesh = sw_mesh_make(1, 2, 2, 1);
    for (int mixes = 0; mixes < 2; mixes++) {
        double first[2], beside[2];
        run.serve_token_budget = mixes ? 2 * 16 : 0;
        run.serve_prompt_tokens = 255;
        for (int i = 0; i < 2; i++) {
            run.serve_max_tokens = i == 0 ? 2048 : 8192;
            assert_int_equal(sw_search_evaluate_serving(&run, &none, &c, &err), 0);
            assert_int_equal(c.serve.mixes, mixes);
            first[i] = c.serve.first_seconds;
            beside[i] = c.serve.beside_seconds;
        }
        /* the share that is met counts queries, too: of 127 positions in the mean one more */
        if (fabs(first[1] - first[0]) > first[0] / 127)
            fail_msg("mixes %d: %g s of at most 2048 tokens, %g s of 8192", mixes, first[0],
                     first[1]);
        /* those that run have full caches */
        assert_true(beside[1] > beside[0]);
        /* a whole chunk meets as much */
        run.serve_prompt_tokens = 256;
        assert_int_equal(sw_search_evaluate_serving(&run, &none, &c, &err), 0);
        assert_true(first[1] < 2 * c.serve.first_seconds);
    }
    sw_config_free(config);
}

/* The memory that is told is that of the largest program: of a small model one with fewer rows,
 * whose messages are sent whole, may need more than that with all. */
static void every_size_has_room(void **state)
{
    (void)state;
    const struct sw_test_run t = small_run();
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    struct sw_error err = {0};
    int32_t larger = 0;
    run.model.shape.hidden_size = 64;
    run.model.shape.intermediate_size = 128;
    run.model.shape.vocab_size = 256;
    run.model.shape.layers = 2;
    run.model.shape.heads = run.model.shape.kv_heads = run.model.shape.head_dim = 8;
    run.compute = run.params = SW_F32;
    run.cluster.accelerator.device = SW_DEVICE_CPU;
    run.serve_max_tokens = 64;
    for (int32_t slots = 3; slots < 40; slots++) {
        struct sw_decision decision = {.serve.stream_weights = SW_STREAM_NEVER,
                                       .mesh = sw_mesh_make(1, 1, 8, slots % 2 + 1)};
        struct sw_program_set *set = NULL;
        struct sw_candidate c;
        run.serve_max_batch = slots;
        run.serve_token_budget = 24;
        assert_int_equal(sw_search_evaluate_serving(&run, &decision, &c, &err), 0);
        assert_int_equal(sw_search_serving_programs(&run, &decision, &set, &err), 0);
        int64_t most = 0;
        for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++)
            if (set->program[k] != NULL && set->program[k]->arena_bytes > most)
                most = set->program[k]->arena_bytes;
        assert_int_equal(c.memory.arena, set->arena_bytes);
        larger += set->arena_bytes > most;
        sw_program_set_free(set);
    }
    assert_true(larger > 0);
    sw_config_free(config);
}

static double serving_seconds(const struct sw_run_config *run, const struct sw_program *p,
                              int64_t running)
{
    struct sw_workload workload = sw_plan_workload(run);
    struct sw_error err = {0};
    struct sw_cost cost;
    workload.running = running;
    assert_int_equal(sw_cost_price(p, &run->cluster, &workload, &cost, &err), 0);
    return cost.step_seconds;
}

/* A token that waits for prompts does so for the longest call that there is: a chunk and a token
 * behind it or, where single queries attend slowly, one of single tokens. That has no more rows
 * than a call of chunks has tokens. */
static void a_token_waits_for_the_longest_call(void **state)
{
    (void)state;
    enum { SLOTS = 16 };
    const struct sw_test_run t = small_run();
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    struct sw_decision none = {.serve.stream_weights = SW_STREAM_NEVER,
                               .mesh = sw_mesh_make(1, 1, 4, 1)};
    struct sw_products grid = {.rows = 2,
                               .columns = 2,
                               .depths = 1,
                               .row = {1, 64},
                               .column = {64, 4096},
                               .depth = {64},
                               .share = {1, 1, 1, 1},
                               .asymptote = 1};
    struct sw_candidate c;
    struct sw_error err = {0};
    run.cluster.accelerator.device = SW_DEVICE_CPU;
    run.serve_max_batch = SLOTS;
    run.serve_max_tokens = 2048;
    run.serve_chunk = 64;
    run.serve_token_budget = 100; /* of which a chunk fits once */
    const enum sw_few_dtype dtype = run.compute == SW_F32 ? SW_FEW_FP32 : SW_FEW_BF16;
    run.cluster.profile.attention_by_size[SW_ATTENTION_CACHED][dtype] = &grid;
    for (int slow = 0; slow < 2; slow++) {
        struct sw_program_set *set = NULL;
        grid.share[0] = grid.share[1] = slow ? 1e-3 : 1;
        assert_int_equal(sw_search_evaluate_serving(&run, &none, &c, &err), 0);
        assert_int_equal(c.serve.token_budget, 64);
        assert_int_equal(sw_search_serving_programs(&run, &c.decision, &set, &err), 0);
        const struct sw_program *read = set->program[SW_PROGRAM_READ];
        assert_int_equal(read->micro_batch, 64);
        const double calls[] = {c.cost.step_seconds +
                                    serving_seconds(&run, set->program[SW_PROGRAM_PREFILL], 0),
                                serving_seconds(&run, read, SLOTS)};
        assert_int_equal(calls[1] > calls[0], slow);
        assert_true(c.serve.beside_seconds == calls[slow]);
        sw_program_set_free(set);
    }
    sw_config_free(config);
}

/* With a goal for a token the budget is the largest half, quarter ... of what is usual with which a
 * token that waits for prompts keeps it; the plan's programs are priced with that. */
static void a_budget_keeps_the_goal_of_a_token(void **state)
{
    (void)state;
    const struct sw_test_run t = small_run();
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    struct sw_decision none = {.serve.stream_weights = SW_STREAM_NEVER};
    struct sw_candidate usual, least, c;
    struct sw_error err = {0};
    run.serve_max_batch = 8;
    run.serve_max_tokens = 2048;
    none.mesh = sw_mesh_make(1, 2, 2, 1);
    assert_int_equal(sw_search_evaluate_serving(&run, &none, &usual, &err), 0);
    assert_int_equal(usual.serve.chunk, 512);
    assert_int_equal(usual.serve.token_budget, 2 * 512);
    assert_int_equal(usual.decision.serve.token_budget, 0);
    assert_true(usual.serve.beside_seconds > usual.cost.step_seconds);
    run.serve_token_budget = 2 * 128;
    assert_int_equal(sw_search_evaluate_serving(&run, &none, &least, &err), 0);
    assert_int_equal(least.serve.chunk, 128);
    assert_int_equal(least.serve.token_budget, 2 * 128);
    assert_true(least.serve.beside_seconds < usual.serve.beside_seconds);
    assert_true(least.serve.first_seconds > usual.serve.first_seconds);
    run.serve_token_budget = 0;
    run.serve_token_latency = least.serve.beside_seconds * 1.0001;
    assert_int_equal(sw_search_evaluate_serving(&run, &none, &c, &err), 0);
    assert_int_equal(c.decision.serve.token_budget, 2 * 128);
    assert_true(c.serve.beside_seconds == least.serve.beside_seconds);
    /* a goal that a token alone misses asks for nothing */
    run.serve_token_latency = usual.cost.step_seconds / 2;
    assert_int_equal(sw_search_evaluate_serving(&run, &none, &c, &err), 0);
    assert_int_equal(c.serve.token_budget, 2 * 512);
    /* a budget of several chunks is rows of a call */
    run.serve_token_latency = 0;
    run.serve_chunk = 128;
    run.serve_token_budget = 2 * 3 * 128 + 5;
    assert_int_equal(sw_search_evaluate_serving(&run, &none, &c, &err), 0);
    assert_int_equal(c.serve.token_budget, 2 * 3 * 128);
    sw_config_free(config);
}

/* A mesh whose state alone takes up the headroom is rejected with the variant that needs least, as
 * it is when it is asked for alone. */
static void state_in_the_headroom_needs_the_same_alone(void **state)
{
    (void)state;
    struct sw_test_run t = small_run();
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
    struct sw_test_run t = small_run();
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lwm),
        cmocka_unit_test(every_mesh_once),
        cmocka_unit_test(ranks_by_every_rule),
        cmocka_unit_test(largest_fsdp_within_the_margin),
        cmocka_unit_test(pruning_loses_nothing),
        cmocka_unit_test(same_every_time),
        cmocka_unit_test(says_why_not),
        cmocka_unit_test(headroom_is_the_users),
        cmocka_unit_test(rings_by_price),
        cmocka_unit_test(state_in_the_headroom_needs_the_same_alone),
        cmocka_unit_test(serving_is_priced_as_it_is_planned),
        cmocka_unit_test(a_budget_keeps_the_goal_of_a_token),
        cmocka_unit_test(a_budget_mixes_before_it_gives_up),
        cmocka_unit_test(a_prompts_end_costs_its_tokens),
        cmocka_unit_test(a_prompts_end_meets_its_prompt),
        cmocka_unit_test(a_token_waits_for_the_longest_call),
        cmocka_unit_test(every_size_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
