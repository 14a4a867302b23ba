/* A text does not depend, to the bit, on its slot nor on what is in the others: the same prompts
 * are made and scored in several orders, more of them than slots, in the arithmetic that models are
 * served in. ctest runs it with what the processor has, and with AVX2 alone, for which oneDNN makes
 * the last rows of some products in another order than the first.
 *
 *   test_slots [EVERY FIRST]    of meshes, types and shapes the combinations whose numbers sum up
 * to FIRST modulo EVERY: all pairs are among them. Without: all */
#include "core/base/device.h"
#include "core/base/hash.h"
#include "runner/device/cpu/cpu.h"
#include "tests/support/harness.h"
#include "tests/support/share.h"
#include "tests/support/texts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum {
    TEXTS = 20,
    KINDS_OF_PROMPT = 4,
    SHARED = 30,
    NEW_TOKENS = 5,
    MAX_TOKENS = 48,
    VOCAB = 72,
    TILED_VOCAB = 96,
    SEED = 3
};

/* ---- Texts ---- */

/* Rows of a prefill on one rank: 3 x 12, 5 x 20, 20 x 16, which 6 divides and does not; 4 x 2 are
 * few rows. With a budget between slots and what the device makes alike prompts and texts that run
 * share calls; with the smaller one prompts that are alone have a program of more rows. */
static const struct shape {
    int64_t slots, chunk, budget; /* budget: of a rank of the batch */
} shapes[] = {{3, 12, 0}, {5, 20, 0}, {20, 16, 0}, {4, 2, 0}, {3, 0, 8}, {6, 1, 40}};

static struct sw_program_options make_options(struct sw_mesh mesh, enum sw_dtype dtype)
{
    const bool tiles = dtype == SW_BF16_T; /* in which weights lie, on meshes of whole ones */
    struct sw_program_options o = {
        .model.vocab_size = tiles ? TILED_VOCAB : VOCAB,
        .model.hidden_size = tiles ? 64 : 48,
        .model.intermediate_size = 96,
        .model.layers = 2,
        .model.heads = 4,
        .model.kv_heads = 2,
        .model.head_dim = tiles ? 16 : 12,
        .model.rope.theta = 100.0,
        .model.rms_norm_eps = 1e-5,
        .model.tied = true,
        .sequence_length = MAX_TOKENS,
        .global_batch = 4,
        .micro_batch_per_rank = 1,
        .compute = dtype,
        .params = dtype,
        .reduce = SW_F32,
        .mesh = mesh,
        .layout = SW_CONTIGUOUS,
        .target = sw_device_row(SW_DEVICE_CPU)->target,
    };
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    return o;
}

/* Every other shape is of a model whose first layer keeps a ring. */
static void give_windows(struct sw_program_options *o, const struct shape *shape)
{
    if ((shape - shapes) % 2 == 0)
        return;
    o->model.period = 2;
    o->model.local = 1;
    o->model.local_rope.theta = 50.0;
    o->model.sliding_window = 7;
    o->model.sinks = true;
    o->model.attention_softcap = 2;
}

static int64_t prompt_length(int64_t prompt)
{
    static const int64_t lengths[KINDS_OF_PROMPT] = {40, 21, 3, 33};
    return lengths[prompt];
}

/* A run of one text: of prompt p in rotation p - KINDS_OF_PROMPT. It finds nothing in any slot. */
static int64_t prompt_of(int64_t rotation, int64_t text)
{
    /* in turns, all of one after the other, and without any order */
    return rotation < 0    ? rotation + KINDS_OF_PROMPT
           : rotation == 0 ? text % KINDS_OF_PROMPT
           : rotation == 1 ? text * KINDS_OF_PROMPT / TEXTS
                           : (int64_t)(sw_hash_mix((uint64_t)text) % KINDS_OF_PROMPT);
}

/* Of every other prompt: all that changes logits. The others have none of it, and stand beside
 * these or alone. */
static void ask(struct sw_sequence *text, int64_t prompt)
{
    static const struct sw_biases biases = {.count = 3,
                                            .banned_count = 2,
                                            .token = {9, 0, 71},
                                            .bias = {1.5f, -2, 0.25f},
                                            .banned = {5, 9}};
    if (prompt % 2 == 0)
        return;
    text->sampling = (struct sw_sampling){.top_p = 1,
                                          .penalty = 1.125,
                                          .presence = 0.5,
                                          .frequency = 0.25,
                                          .temperature = prompt == 3};
    text->biases = &biases;
    text->min_tokens = 2;
}

static struct sw_serving serving_of(const struct sw_program_options *options,
                                    const struct shape *shape, enum sw_dtype cache,
                                    enum sw_dtype weights)
{
    const int64_t ways = (int64_t)options->mesh.size[SW_DP] * options->mesh.size[SW_FSDP];
    return (struct sw_serving){.max_batch = shape->slots,
                               .max_tokens = MAX_TOKENS,
                               .chunk = shape->chunk,
                               .token_budget = shape->budget * ways,
                               .cache = cache,
                               .weights = weights};
}

/* Of a text that is alone each token but the first is a call of one row on each rank of the batch,
 * and its prompt has calls of as many rows as prices count: of chunks, then of single tokens. */
static void check_rows(const struct sw_test_texts *run)
{
    struct sw_program_options prefill, read;
    int64_t rows[SW_SERVING_SIZES];
    const int64_t tokens = run->texts[0].token_count;
    const bool has = sw_serving_has(run->options, &run->serving, SW_PROGRAM_READ);
    assert_int_equal(
        sw_serving_options(run->options, &run->serving, SW_PROGRAM_PREFILL, &prefill, NULL), 0);
    if (has)
        assert_int_equal(
            sw_serving_options(run->options, &run->serving, SW_PROGRAM_READ, &read, NULL), 0);
    const bool mixes = prefill.serving.mixes;
    const int64_t ways = prefill.global_batch / prefill.micro_batch_per_rank;
    const int64_t chunk = prefill.serving.chunk, budget = prefill.micro_batch_per_rank * chunk;
    int64_t left = mixes ? tokens : has ? sw_serving_tail(tokens, chunk) : 0;
    int64_t expected = (tokens - left + budget - 1) / budget * budget;
    while (left > 0) {
        const bool reads = has && (!mixes || sw_serving_widens(left, budget));
        const int32_t count = sw_serving_sizes(reads ? &read : &prefill, rows);
        const int64_t call = rows[sw_serving_size(rows, count, left)];
        assert_true(call < 2 * left); /* however many slots there are */
        expected += call;
        left -= call;
    }
    assert_int_equal(run->prefill_rows, expected * ways);
    assert_int_equal(run->decode_rows, (NEW_TOKENS - 1) * ways);
}

/* Calls of chunks pause at each of so many points, for tokens of the texts beside them; 0: they do
 * not. */
static int32_t pauses_of(const struct sw_program_options *options, int64_t rotation)
{
    return rotation <= 0 || sw_mesh_rank_count(&options->mesh) > 1 ? 0 : rotation == 1 ? 1 : 3;
}

/* Texts in the order of that rotation, on the arena as it lies in rotation 0; what was made or
 * scored of each prompt must be the same however often and wherever it comes, alone or behind
 * others whose beginning stands in the cache. Returns the texts that differ from the first of their
 * prompt. Added: to *cached prompts' tokens that were not read, to *reads runs of `read`, to
 * *inside those of `decode` inside calls of chunks. */
static int32_t run_in_order(const struct sw_program_options *options, enum sw_dtype cache,
                            enum sw_dtype weights, const struct shape *shape, int64_t rotation,
                            bool scores, struct sw_made_text first[], int64_t *cached,
                            int64_t *reads, int64_t *inside)
{
    const int64_t count = rotation < 0 ? 1 : TEXTS;
    static int32_t prompt[KINDS_OF_PROMPT][MAX_TOKENS];
    struct sw_sequence texts[TEXTS];
    int64_t of[TEXTS];
    int32_t wrong = 0;
    struct sw_error err = {0};
    for (int64_t p = 0; p < KINDS_OF_PROMPT; p++)
        for (int64_t i = 0; i < prompt_length(p); i++)
            prompt[p][i] =
                (int32_t)(sw_hash_mix((uint64_t)(i < SHARED ? i : p * 100 + i) + 1) % VOCAB);
    for (int64_t t = 0; t < count; t++) {
        const int64_t p = prompt_of(rotation, t);
        of[t] = p;
        texts[t] = (struct sw_sequence){.tokens = prompt[p],
                                        .token_count = prompt_length(p),
                                        .max_new_tokens = NEW_TOKENS,
                                        .sampling = {.top_p = 1, .penalty = 1},
                                        .seed = (uint64_t)p};
        ask(&texts[t], p);
    }
    struct sw_test_texts run = {.options = options,
                                .serving = serving_of(options, shape, cache, weights),
                                .seed = SEED,
                                .stddev = 0.1,
                                .texts = texts,
                                .count = count,
                                .unpoisoned = rotation == 0,
                                .pause_every = pauses_of(options, rotation),
                                .scores = scores};
    run.serving.interleave = run.pause_every > 0;
    if (sw_test_texts_run(&run, &err) != 0)
        fail_msg("%s", err.message);
    assert_int_equal(run.other_ranks, 0);
    assert_int_equal(run.arena_bytes, run.planned_arena_bytes);
    if (rotation < 0 && !scores)
        check_rows(&run);
    *inside += run.inside;
    *cached += run.cached_tokens;
    *reads += run.reads;
    for (int64_t t = 0; t < count; t++) {
        const struct sw_made_text *made = &run.made[t];
        struct sw_made_text *to = &first[of[t]];
        if (to->tokens == NULL) {
            *to = (struct sw_made_text){made->made, made->full,
                                        malloc(MAX_TOKENS * sizeof *to->tokens),
                                        malloc(MAX_TOKENS * sizeof *to->logprobs), NULL};
            assert_non_null(to->tokens);
            assert_non_null(to->logprobs);
            memcpy(to->tokens, made->tokens, MAX_TOKENS * sizeof *to->tokens);
            memcpy(to->logprobs, made->logprobs, MAX_TOKENS * sizeof *to->logprobs);
        }
        assert_int_equal(made->made, scores ? 0 : NEW_TOKENS);
        assert_true(made->logprobs[0] != 0);
        wrong += memcmp(made->tokens, to->tokens, MAX_TOKENS * sizeof *to->tokens) != 0 ||
                 memcmp(made->logprobs, to->logprobs, MAX_TOKENS * sizeof *to->logprobs) != 0;
    }
    sw_test_texts_free(&run);
    return wrong;
}

struct share {
    size_t every, first;
};

static const struct types {
    enum sw_dtype compute, cache, weights;
} all_types[] = {{SW_F32, SW_F32, SW_F32},      {SW_BF16_T, SW_BF16_T, SW_BF16_T},
                 {SW_F32, SW_I8, SW_F32},       {SW_F32, SW_F32, SW_I8},
                 {SW_BF16_T, SW_BF16_T, SW_I8}, {SW_BF16_T, SW_BF16_T, SW_I4}};

/* Types, and inputs of which every rank has whole groups. */
static struct sw_program_options options_of(struct sw_mesh mesh, const struct types *types)
{
    struct sw_program_options o = make_options(mesh, types->compute);
    if (types->weights == SW_I4) {
        o.model.head_dim = 32;
        o.model.intermediate_size = 128;
    }
    return o;
}

/* Tokens of a prompt that calls of `read` have where no other waits beside it: all but what prefill
 * reads, as prices count them, by the rows of its own rank of the batch. */
static int64_t read_by_rows(const struct sw_program_options *prefill, const struct shape *shape,
                            int64_t rows, int64_t count)
{
    if (rows == 0)
        return 0;
    if (prefill->serving.mixes)
        return sw_serving_widens(count, shape->budget) ? count : 0;
    return sw_serving_tail(count, prefill->serving.chunk);
}

/* Texts of all rotations that differ from the first of their prompt. */
static int32_t count_others(struct sw_mesh mesh, const struct types *types,
                            const struct shape *shape, bool scores)
{
    struct sw_program_options options = options_of(mesh, types);
    give_windows(&options, shape);
    const struct sw_serving serving = serving_of(&options, shape, types->cache, types->weights);
    struct sw_program_options prefill, read;
    struct sw_made_text first[KINDS_OF_PROMPT] = {{0}};
    int32_t others = 0;
    int64_t cached = 0, reads = 0, inside = 0;
    assert_int_equal(sw_serving_options(&options, &serving, SW_PROGRAM_PREFILL, &prefill, NULL), 0);
    assert_int_equal(prefill.serving.mixes, shape->budget > 0 && mesh.size[SW_SP] == 1);
    const bool has = !scores && sw_serving_has(&options, &serving, SW_PROGRAM_READ);
    if (has)
        assert_int_equal(sw_serving_options(&options, &serving, SW_PROGRAM_READ, &read, NULL), 0);
    const int64_t rows = has ? read.micro_batch_per_rank : 0;
    assert_int_equal(sw_serving_has(&options, &serving, SW_PROGRAM_READ),
                     mesh.size[SW_SP] == 1 &&
                         (shape->budget == 8 || (shape->budget == 0 && shape->chunk > 2 &&
                                                 shape->chunk > prefill.serving.slots_per_rank)));
    for (int64_t rotation = -KINDS_OF_PROMPT; rotation < 3; rotation++) {
        const int64_t before = reads;
        others += run_in_order(&options, types->cache, types->weights, shape, rotation, scores,
                               first, &cached, &reads, &inside);
        assert_true(rotation >= 0 || cached == 0);
        if (rotation < 0 && !scores) {
            const int64_t tokens =
                read_by_rows(&prefill, shape, rows, prompt_length(prompt_of(rotation, 0)));
            assert_int_equal(reads - before, rows > 0 ? (tokens + rows - 1) / rows : 0);
        }
    }
    assert_int_equal(reads > 0, has);
    assert_int_equal(inside > 0,
                     !scores && !prefill.serving.mixes && sw_mesh_rank_count(&mesh) == 1);
    /* with a slot for each text none finds anything; nor does one that is scored */
    assert_true((cached > 0) == (!scores && shape->slots < TEXTS));
    for (int p = 0; p < KINDS_OF_PROMPT; p++) {
        free(first[p].tokens);
        free(first[p].logprobs);
    }
    char sizes[64];
    if (others > 0)
        print_error("%s, %s, cache in %s, weights in %s, %lld slots x %lld tokens, budget %lld, "
                    "%s: %d of %d texts differ\n",
                    sw_mesh_format(&mesh, sizes, sizeof sizes), sw_dtype_name(types->compute),
                    sw_dtype_name(types->cache), sw_dtype_name(types->weights),
                    (long long)shape->slots, (long long)shape->chunk, (long long)shape->budget,
                    scores ? "scored" : "made", (int)others, 3 * TEXTS);
    return others;
}

/* Where the processor's tiles are emulated those that rows meet weights in: the others are as
 * without. */
static bool is_wanted(const struct types *types, const struct shape *shape)
{
#ifdef SW_AMX_EMULATED
    enum { TILE_ROWS = 16 }; /* of 8 bits it is enough that some rows fill a tile and some do not */
    const int64_t least = types->weights == SW_BF16_T ? SW_CPU_AMX_SLOTS : TILE_ROWS + 1;
    return types->compute == SW_BF16_T && shape->slots >= least;
#else
    return types != NULL && shape != NULL;
#endif
}

static void a_text_is_the_same_in_every_slot(void **state)
{
    const struct share *share = *state;
    const struct sw_mesh meshes[] = {sw_mesh_make(1, 1, 1, 1), sw_mesh_make(1, 1, 2, 1),
                                     sw_mesh_make(1, 1, 1, 2), sw_mesh_make(1, 1, 2, 2),
                                     sw_mesh_make(1, 2, 4, 1), sw_mesh_make(2, 1, 1, 4)};
    int32_t wrong = 0;
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (size_t d = 0; d < sizeof all_types / sizeof *all_types; d++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
                for (size_t scores = 0; scores < 2; scores++)
                    if ((m + d + s + scores) % share->every == share->first &&
                        is_wanted(&all_types[d], &shapes[s]))
                        wrong += count_others(meshes[m], &all_types[d], &shapes[s], scores != 0);
    assert_int_equal(wrong, 0);
}

/* ---- Conversations ---- */

/* A slot's next text begins with what was asked and answered before, and is made as it is alone.
 * Where calls mix all of it that the cache has is found, and so it is where
 * neither has a whole chunk and is read token by token; else whole chunks of the prompt. */
static void check_answer(struct sw_mesh mesh, const struct types *types, const struct shape *shape)
{
    enum { ASKED = 21, MORE = 6, ALL = ASKED + NEW_TOKENS + MORE };
    struct sw_program_options options = options_of(mesh, types);
    give_windows(&options, shape);
    const struct sw_serving serving = serving_of(&options, shape, types->cache, types->weights);
    struct sw_program_options prefill;
    int32_t tokens[ALL];
    assert_int_equal(sw_serving_options(&options, &serving, SW_PROGRAM_PREFILL, &prefill, NULL), 0);
    for (int64_t i = 0; i < ALL; i++)
        tokens[i] = (int32_t)(sw_hash_mix((uint64_t)i + 7) % VOCAB);
    struct sw_sequence texts[2] = {{.tokens = tokens, .token_count = ASKED},
                                   {.tokens = tokens, .token_count = ALL}};
    for (int t = 0; t < 2; t++) {
        texts[t].max_new_tokens = NEW_TOKENS;
        texts[t].sampling = (struct sw_sampling){.top_p = 1, .penalty = 1};
    }
    struct sw_test_texts run[3];
    for (int which = 0; which < 3; which++) { /* the question; the conversation; its end alone */
        struct sw_error err = {0};
        run[which] = (struct sw_test_texts){.options = &options,
                                            .serving = serving,
                                            .seed = SEED,
                                            .stddev = 0.1,
                                            .texts = which == 2 ? texts + 1 : texts,
                                            .count = which == 1 ? 2 : 1};
        if (sw_test_texts_run(&run[which], &err) != 0)
            fail_msg("%s", err.message);
        assert_int_equal(run[which].other_ranks, 0);
        if (which == 0)
            memcpy(tokens + ASKED, run[0].made[0].tokens, NEW_TOKENS * sizeof *tokens);
    }
    const int64_t chunk = prefill.serving.chunk;
    const bool tails = mesh.size[SW_SP] == 1; /* and a chunk is more than the slot */
    const int64_t asked = ASKED - (tails ? sw_serving_tail(ASKED, chunk) : 0);
    const int64_t all = ALL - (tails ? sw_serving_tail(ALL, chunk) : 0);
    assert_int_equal(run[1].cached_tokens, prefill.serving.mixes || asked == all
                                               ? ASKED + NEW_TOKENS - 1
                                               : (asked < all ? asked : all) / chunk * chunk);
    assert_int_equal(run[2].cached_tokens, 0);
    const struct sw_made_text *behind = &run[1].made[1], *alone = &run[2].made[0];
    assert_int_equal(behind->made, NEW_TOKENS);
    assert_memory_equal(behind->tokens, alone->tokens, NEW_TOKENS * sizeof *alone->tokens);
    assert_memory_equal(behind->logprobs, alone->logprobs, NEW_TOKENS * sizeof *alone->logprobs);
    for (int which = 0; which < 3; which++)
        sw_test_texts_free(&run[which]);
}

static void a_conversation_is_continued(void **state)
{
    (void)state;
    static const struct shape one_slot[] = {{1, 6, 0}, {1, 68, 0}, {1, 0, 8}, {1, 1, 32}};
    const struct sw_mesh meshes[] = {sw_mesh_make(1, 1, 1, 1), sw_mesh_make(1, 1, 2, 1),
                                     sw_mesh_make(1, 1, 1, 2)};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (size_t d = 0; d < sizeof all_types / sizeof *all_types; d++)
            for (size_t s = 0; s < sizeof one_slot / sizeof *one_slot; s++)
                check_answer(meshes[m], &all_types[d], &one_slot[s]);
}

/* ---- Tiles ---- */

/* Which weights lie in tiles: those of bf16 and int8 of which every program reads what a rank
 * holds, where that is whole tiles. All programs of a set agree, or it would not be compiled. */
static void weights_lie_in_tiles(void **state)
{
    (void)state;
    static const struct {
        const char *tiled;
        int32_t tp, sp, fsdp;
        bool streams;
        struct types types;
    } cases[] = {
        {"embedding wq wk wv wo w_gate w_up w_down", 1, 1, 1, false, {SW_BF16_T, SW_BF16_T, 0}},
        {"wq wo", 2, 1, 1, false, {SW_BF16_T, SW_BF16_T, 0}},
        {"", 1, 2, 1, false, {SW_BF16_T, SW_BF16_T, 0}},
        {"", 1, 1, 2, true, {SW_BF16_T, SW_BF16_T, 0}},
        {"embedding wq wk wv wo w_gate w_up w_down", 1, 1, 1, false, {SW_BF16_T, SW_BF16_T, SW_I8}},
        {"wq wk wv wo w_gate w_up w_down", 1, 1, 1, false, {SW_F32, SW_F32, SW_I8}},
        {"embedding wq wk wv wo w_gate w_up w_down", 1, 1, 1, false, {SW_BF16_T, SW_BF16_T, SW_I4}},
        {"", 1, 1, 1, false, {SW_F64, SW_F64, SW_I8}},
        {"", 1, 1, 1, false, {SW_F32, SW_F32, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sw_mesh mesh = sw_mesh_make(1, cases[i].fsdp, cases[i].tp, cases[i].sp);
        const struct types *types = &cases[i].types;
        struct sw_program_options options = make_options(mesh, SW_BF16_T);
        options.compute = options.params = types->compute;
        struct sw_serving serving = serving_of(&options, &shapes[0], types->cache, types->weights);
        struct sw_program_set *set = NULL;
        struct sw_error err = {0};
        char tiled[128] = "";
        serving.stream_weights = cases[i].streams;
        if (sw_program_set_compile_serving(&options, &serving,
                                           1u << SW_PROGRAM_PREFILL | 1u << SW_PROGRAM_DECODE |
                                               1u << SW_PROGRAM_SCORE,
                                           &set, &err) != 0)
            fail_msg("%s", err.message);
        for (int32_t r = 0; r < set->state.count; r++)
            if (set->state.row[r].tiled)
                snprintf(tiled + strlen(tiled), sizeof tiled - strlen(tiled), "%s%s",
                         tiled[0] != 0 ? " " : "", set->state.row[r].name);
        assert_string_equal(tiled, cases[i].tiled);
        sw_program_set_free(set);
    }
}

/* By which a device chooses kernels: those of a rank that the plan has, though fewer are there. */
static void programs_know_the_plans_slots(void **state)
{
    (void)state;
    static const int64_t cases[][4] = {/* there are, the plan has, ranks of the batch; of a rank */
                                       {1, 8, 1, 8},
                                       {3, 0, 1, 3},
                                       {2, 9, 2, 5},
                                       {6, 0, 2, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sw_program_options options =
            make_options(sw_mesh_make((int32_t)cases[i][2], 1, 1, 1), SW_F32);
        struct sw_serving serving = serving_of(&options, &shapes[0], SW_F32, SW_F32);
        struct sw_program_set *set = NULL;
        struct sw_error err = {0};
        serving.max_batch = cases[i][0];
        serving.planned_batch = cases[i][1];
        if (sw_program_set_compile_serving(&options, &serving,
                                           1u << SW_PROGRAM_PREFILL | 1u << SW_PROGRAM_DECODE, &set,
                                           &err) != 0)
            fail_msg("%s", err.message);
        assert_int_equal(set->program[SW_PROGRAM_PREFILL]->planned_slots, cases[i][3]);
        assert_int_equal(set->program[SW_PROGRAM_DECODE]->planned_slots, cases[i][3]);
        sw_program_set_free(set);
    }
}

int main(int argc, char **argv)
{
    struct share share = {(argc > 2 ? strtoul(argv[1], NULL, 10) : 1) * (size_t)sw_test_share(),
                          argc > 2 ? strtoul(argv[2], NULL, 10) : 0};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(a_text_is_the_same_in_every_slot, &share),
        cmocka_unit_test(a_conversation_is_continued),
        cmocka_unit_test(weights_lie_in_tiles),
        cmocka_unit_test(programs_know_the_plans_slots),
    };
    if (share.first >= share.every) {
        fprintf(stderr, "usage: test_slots [EVERY FIRST]\n");
        return 2;
    }
#ifdef SW_AMX_EMULATED
    cmocka_set_test_filter("a_text_is_*");
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
