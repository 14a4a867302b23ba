/* Searching for serving: what is said of a mesh is the price and the memory of the programs that
 * its plan has, as the server calls them. */
#include "core/base/hash.h"
#include "planner/search/search.h"
#include "tests/unit/plan_support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Rows of serving come from programs that meshes share and that are sized for each: they are those
 * of the programs that the plan's digests are of, whose price comes the long way. Memory for some
 * meshes' weights as a whole, and of others' only streamed. */
static void serving_is_priced_as_it_is_planned(void **state)
{
    (void)state;
    const struct sw_test_run t = sw_test_small_run();
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
        /* beside others each call is followed by their token, and it comes while one is made */
        const double at_most =
            token.step_seconds +
            (double)((c->serve.prompt_tokens + c->serve.chunk - 1) / c->serve.chunk) *
                (chunk.step_seconds + token.step_seconds);
        assert_true(fabs(c->serve.first_beside_seconds - at_most) < 1e-9 * at_most);
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

/* A prompt that is alone is read by calls of more rows, whose price is what is said; and a token is
 * priced of as many texts as there are. decision: one that mixes, of 8 texts on each of two ranks
 * of the batch. */
static void check_calls(struct sw_run_config *run, struct sw_decision *decision)
{
    struct sw_program_set *set = NULL;
    struct sw_candidate c;
    struct sw_error err = {0};
    assert_int_equal(sw_search_serving_programs(run, decision, &set, &err), 0);
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
        run->serve_prompt_tokens = calls[i].tokens;
        assert_int_equal(sw_search_evaluate_serving(run, decision, &c, &err), 0);
        const double expected =
            (double)calls[i].reads * size_seconds(run, set, SW_PROGRAM_READ, 2 * 128) +
            (calls[i].rows > 0 ? size_seconds(run, set, calls[i].kind, 2 * calls[i].rows) : 0);
        if (fabs(c.serve.first_seconds - expected) > 1e-9 * expected)
            fail_msg("%d tokens: %g s, not %g", (int)calls[i].tokens, c.serve.first_seconds,
                     expected);
        /* of a call's 16 rows of the rank seven are of sequences that run */
        const int64_t beside = (calls[i].tokens + 8) / 9;
        const double at_most = c.cost.step_seconds + (double)beside * c.serve.beside_seconds;
        assert_true(fabs(c.serve.first_beside_seconds - at_most) < 1e-9 * at_most);
    }
    assert_int_equal(c.serve.size_count, 4);
    for (int32_t i = 0; i < c.serve.size_count; i++) {
        assert_int_equal(c.serve.size[i].texts, 16 >> i);
        assert_true(c.serve.size[i].seconds ==
                    size_seconds(run, set, SW_PROGRAM_DECODE, c.serve.size[i].texts));
        assert_true(i == 0 || c.serve.size[i].seconds < c.serve.size[i - 1].seconds);
    }
    assert_true(c.serve.size[0].seconds == c.cost.step_seconds);
    run->serve_prompt_tokens = 0;
    sw_program_set_free(set);
}

/* Behind the halves that are chunks come those that mix: a token waits for no call but its own. */
static void a_budget_mixes_before_it_gives_up(void **state)
{
    (void)state;
    const struct sw_test_run t = sw_test_small_run();
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
    check_calls(&run, &mixed.decision);
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
    const struct sw_test_run t = sw_test_small_run();
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
    const struct sw_test_run t = sw_test_small_run();
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
    const struct sw_test_run t = sw_test_small_run();
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
    const struct sw_test_run t = sw_test_small_run();
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
    const enum sw_rate_dtype dtype = run.compute == SW_F32 ? SW_RATE_FP32 : SW_RATE_BF16;
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
    const struct sw_test_run t = sw_test_small_run();
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

/* Serving on one CPU rank, of drawn sizes, and nothing said of how long a token may take beside
 * prompts.
 */
static void draw_run(uint64_t seed, struct sw_run_config *run, struct sw_decision *decision)
{
    static const int64_t slots[] = {2, 3, 8, 24, 64}, lengths[] = {1024, 2560, 8192};
    const uint64_t bits = sw_hash_mix(seed);
    run->cluster.accelerator.device = SW_DEVICE_CPU;
    run->serve_max_batch = slots[bits >> 8 & 3] + (int64_t)(bits >> 10 & 1) * 40;
    run->serve_max_tokens = lengths[(bits >> 16) % 3];
    run->serve_prompt_tokens = 512 * (1 + (int64_t)(bits >> 24) % (run->serve_max_tokens / 1024));
    *decision = (struct sw_decision){.mesh = sw_mesh_make(1, 1, 1, 1)};
}

/* With nothing said a token beside prompts takes at most 3.5 times what it takes without, or a call
 * of single tokens, and the first one at most twice what it takes alone and some tokens; that is
 * with the programs of a run that says false, so that no bit depends on it, in an arena with room
 * for the transients of `decode` behind the others'. */
static void a_run_that_leaves_it_open_interleaves(void **state)
{
    (void)state;
    enum { DRAWS = 16 };
    const struct sw_test_run t = sw_test_small_run();
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_error err = {0};
    int32_t sooner = 0;
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        struct sw_run_config run = *sw_config_run(config), whole;
        struct sw_decision undecided, decided[2];
        struct sw_candidate c[2];
        uint64_t digest[2][SW_PROGRAM_KINDS] = {{0}};
        draw_run(seed, &run, &undecided);
        whole = run;
        whole.serve_interleave = SW_INTERLEAVE_NEVER;
        const struct sw_run_config *runs[] = {&whole, &run};
        for (int i = 0; i < 2; i++) {
            struct sw_program_set *set = NULL;
            assert_int_equal(sw_search_evaluate_serving(runs[i], &undecided, &c[i], &err), 0);
            decided[i] = c[i].decision;
            assert_int_equal(sw_search_serving_programs(runs[i], &decided[i], &set, &err), 0);
            assert_int_equal(c[i].memory.arena, set->arena_bytes);
            sw_program_set_digests(set, digest[i]);
            sw_program_set_free(set);
        }
        assert_int_equal(decided[0].serve.interleave, SW_INTERLEAVE_NEVER);
        assert_int_equal(decided[1].serve.interleave, SW_INTERLEAVE_ALWAYS);
        assert_memory_equal(digest[0], digest[1], sizeof digest[0]);
        assert_true(c[1].memory.arena > c[0].memory.arena);
        assert_true(c[1].cost.step_seconds == c[0].cost.step_seconds);
        assert_true(c[1].serve.first_seconds == c[0].serve.first_seconds);
        assert_true(c[1].serve.beside_seconds <= c[0].serve.beside_seconds);
        const struct sw_serve_price *p = &c[1].serve;
        const double calls = (double)p->prompt_tokens / (double)p->chunk + 2;
        if (p->beside_seconds > 3.5 * c[1].cost.step_seconds ||
            p->first_beside_seconds > 2 * p->first_seconds + calls * c[1].cost.step_seconds)
            fail_msg("draw %d: a token in %g s, beside in %g; first in %g s, beside in %g",
                     (int)seed, c[1].cost.step_seconds, p->beside_seconds, p->first_seconds,
                     p->first_beside_seconds);
        assert_true(p->token_budget >= 1 && p->token_budget <= c[0].serve.token_budget);
        sooner += p->beside_seconds < c[0].serve.beside_seconds;
        /* where there is no room for two programs' transients they wait for whole calls */
        run.cluster.accelerator.memory_bytes = c[1].memory.total - 1;
        assert_int_equal(sw_search_evaluate_serving(&run, &undecided, &c[1], &err), 0);
        assert_int_equal(c[1].decision.serve.interleave, SW_INTERLEAVE_NEVER);
        assert_int_equal(c[1].memory.arena, c[0].memory.arena);
        assert_int_equal(c[1].reason, SW_FITS);
    }
    assert_true(sooner > DRAWS / 2);
    sw_config_free(config);
}

/* A run that says something of it is as before there was anything to leave open, and so is a plan
 * of then, which does not say whether calls interleave. */
static void what_a_run_says_is_kept(void **state)
{
    (void)state;
    const struct sw_test_run t = sw_test_small_run();
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_error err = {0};
    for (int i = 0; i < 6; i++) {
        struct sw_run_config run = *sw_config_run(config);
        struct sw_decision undecided;
        struct sw_candidate c;
        draw_run(1, &run, &undecided);
        run.serve_chunk = i == 0 ? 128 : 0;
        run.serve_token_budget = i == 1 ? 1024 : 0;
        run.serve_token_latency = i == 2 ? 10 : 0;
        run.serve_max_batch = i == 3 ? 1 : run.serve_max_batch; /* nobody is beside it */
        if (i == 5)
            undecided.mesh = sw_mesh_make(1, 1, 2, 1);
        if (i == 4)
            run.cluster.accelerator.device = SW_DEVICE_CUDA;
        assert_int_equal(sw_search_evaluate_serving(&run, &undecided, &c, &err), 0);
        assert_int_equal(c.decision.serve.interleave, SW_INTERLEAVE_NEVER);
    }
    struct sw_run_config run = *sw_config_run(config);
    struct sw_decision before = {.serve.stream_weights = SW_STREAM_NEVER};
    struct sw_serving want;
    run.serve_max_batch = 8;
    assert_true(sw_plan_serving(&run, &before, &want));
    assert_false(want.interleave);
    sw_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serving_is_priced_as_it_is_planned),
        cmocka_unit_test(a_budget_keeps_the_goal_of_a_token),
        cmocka_unit_test(a_budget_mixes_before_it_gives_up),
        cmocka_unit_test(a_prompts_end_costs_its_tokens),
        cmocka_unit_test(a_prompts_end_meets_its_prompt),
        cmocka_unit_test(a_token_waits_for_the_longest_call),
        cmocka_unit_test(every_size_has_room),
        cmocka_unit_test(a_run_that_leaves_it_open_interleaves),
        cmocka_unit_test(what_a_run_says_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
