/* Texts made on every mesh are those made on one rank, and those that the program `evaluate` says,
 * which knows no cache (docs/architecture.md, Serving).
 *
 * In double, so that what differs by rounding agrees to 1e-10 and the most probable token cannot
 * change: prompts of mixed lengths, more texts than slots, every variant of the dense families. */
#include "core/base/hash.h"
#include "core/base/number.h"
#include "core/ir/op.h"
#include "core/programs/compile.h"
#include "core/ir/workspace.h"
#include "runner/rank/batch.h"
#include "runner/collective/comm.h"
#include "runner/generate/engine.h"
#include "tests/support/allocations.h"
#include "tests/support/harness.h"
#include "tests/support/share.h"
#include "tests/support/texts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* As test_meshes.c: a few hundred terms in another order, with room for what cancels. */
#define DOUBLE_TOLERANCE 1e-10

enum { TEXTS = 11, NEW_TOKENS = 9, MAX_TOKENS = 32, CHUNK = 8, VOCAB = 48, SEED = 11 };

/* Of prompts: of one token, just below and above a chunk, of several, and one with room for three
 * new tokens alone. */
static const int32_t lengths[TEXTS] = {1, 5, 8, 9, 16, 17, 3, 23, 30, 7, 12};

static int32_t prompt_token(int64_t text, int64_t i)
{
    return (int32_t)(sw_hash_mix((uint64_t)(text * 100 + i) + 1) % VOCAB);
}

/* ---- Models ---- */

/* What the families of decoder.c differ in; kv heads fewer than some tp. */
static const struct variant {
    const char *name;
    bool tied, biases, head_norms, few_kv_heads, stream, uneven_widths;
    bool int8;            /* the cache */
    enum sw_dtype narrow; /* of weights; 0: they are wide */
    enum sw_prefill_gather gathers;
    int64_t chunk, slots, budget;
    int64_t window; /* of all layers, or of the local ones; none is a multiple of a chunk */
    uint64_t local;
    double softcap; /* of scores */
    bool sinks;
} variants[] = {
    {.name = "llama", .chunk = CHUNK, .slots = 8, .budget = 4 * CHUNK},
    {.name = "tied, few kv heads", .tied = true, .few_kv_heads = true, .chunk = CHUNK, .slots = 3},
    {.name = "biases, one chunk",
     .tied = true,
     .biases = true,
     .few_kv_heads = true,
     .chunk = MAX_TOKENS,
     .slots = 16,
     .budget = 4 * MAX_TOKENS},
    {.name = "head norms, streamed",
     .head_norms = true,
     .stream = true,
     .window = 5,
     .sinks = true,
     .chunk = 1,
     .slots = 2,
     .budget = 7},
    {.name = "widths that sp does not divide, local layers",
     .uneven_widths = true,
     .few_kv_heads = true,
     .biases = true,
     .window = 6,
     .local = 1,
     .softcap = 0.75,
     .chunk = CHUNK,
     .slots = 5},
    {.name = "cache in int8",
     .int8 = true,
     .chunk = CHUNK,
     .slots = 8,
     .budget = 3 * CHUNK,
     .window = 11,
     .sinks = true},
    {.name = "cache in int8, few kv heads, uneven widths, local layers",
     .int8 = true,
     .few_kv_heads = true,
     .uneven_widths = true,
     .head_norms = true,
     .window = 4,
     .local = 2,
     .chunk = 1,
     .slots = 3,
     .budget = 16},
    {.name = "weights in int8",
     .narrow = SW_I8,
     .biases = true,
     .chunk = CHUNK,
     .slots = 8,
     .budget = 3 * CHUNK},
    {.name = "weights in e4m3, streamed, cache in int8, few kv heads, uneven widths",
     .narrow = SW_E4M3,
     .int8 = true,
     .stream = true,
     .few_kv_heads = true,
     .uneven_widths = true,
     .head_norms = true,
     .chunk = 16,
     .slots = 5},
    {.name = "weights in int4, tied, head in int8",
     .narrow = SW_I4,
     .tied = true,
     .chunk = CHUNK,
     .slots = 8,
     .budget = 3 * CHUNK},
    {.name = "weights in int4, streamed, cache in int8, few kv heads",
     .narrow = SW_I4,
     .int8 = true,
     .stream = true,
     .few_kv_heads = true,
     .head_norms = true,
     .chunk = 16,
     .slots = 5},
    {.name = "keys and values are gathered",
     .gathers = SW_GATHER_KV,
     .chunk = CHUNK,
     .slots = 8,
     .budget = 2 * CHUNK,
     .window = 7,
     .softcap = 0.5,
     .sinks = true},
    {.name = "queries are gathered, one chunk, few kv heads",
     .gathers = SW_GATHER_QUERIES,
     .few_kv_heads = true,
     .chunk = MAX_TOKENS,
     .slots = 4,
     .window = 1,
     .sinks = true},
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

/* 24 and 8: tp up to 8 divides them, tp sp of 8 too; 40 and 56 x 2: what is [tp, sp] elsewhere
 * falls back to tp, and head_dim 6 is cut inside of heads. */
static struct sw_program_options make_options(struct sw_mesh mesh, const struct variant *v,
                                              enum sw_dtype dtype)
{
    struct sw_program_options o = {
        .model.vocab_size = VOCAB,
        .model.hidden_size = 16,
        .model.intermediate_size = v->uneven_widths ? 40 : 64,
        .model.layers = 2,
        .model.heads = 8,
        .model.kv_heads = v->few_kv_heads ? 2 : 8,
        .model.head_dim = v->uneven_widths ? 6 : 4,
        .model.period = v->uneven_widths ? 2 : 0,
        .model.rope.theta = 100.0,
        .model.rms_norm_eps = 1e-5,
        .model.tied = v->tied,
        .model.qkv_bias = v->biases,
        .model.qk_norm = v->head_norms,
        .model.sliding_window = v->window,
        .model.local = v->local,
        .model.local_rope.theta = v->local ? 30.0 : 0,
        .model.attention_softcap = v->softcap,
        .model.sinks = v->sinks,
        .sequence_length = MAX_TOKENS,
        .global_batch = 16,
        .micro_batch_per_rank = 16 / (mesh.size[SW_DP] * mesh.size[SW_FSDP]),
        .compute = dtype,
        .params = dtype,
        .reduce = dtype,
        .mesh = mesh,
        .layout = SW_CONTIGUOUS,
    };
    if (v->narrow == SW_I4) { /* a group of each rank's heads; streamed, meshes that cut one */
        o.model.hidden_size = v->stream ? 64 : 32;
        o.model.intermediate_size = v->stream ? 128 : 256;
        o.model.head_dim = v->stream ? 8 : 32;
    }
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    return o;
}

static struct sw_serving make_serving(const struct variant *v, enum sw_dtype cache)
{
    return (struct sw_serving){.max_batch = v->slots,
                               .max_tokens = MAX_TOKENS,
                               .chunk = v->chunk,
                               .token_budget = v->budget,
                               .cache = v->int8 ? SW_I8 : cache,
                               .weights = v->narrow,
                               .stream_weights = v->stream,
                               .gathers = v->gathers};
}

/* ---- Texts ---- */

struct texts {
    int32_t token[TEXTS][MAX_TOKENS + 1];
    double logprob[TEXTS][MAX_TOKENS + 1];
    struct sw_top top[TEXTS][MAX_TOKENS + 1];
    struct sw_top ranked[TEXTS][MAX_TOKENS]; /* of the prompt, where it is asked for */
    int64_t made[TEXTS];
    bool full[TEXTS];
};

/* Every shape was met by then, on every rank. */
static void count_allocations(int32_t rank, int64_t text, int64_t index)
{
    if (rank == 0 && text == 0)
        sw_test_count_allocations(index >= 3 && index < NEW_TOKENS - 2);
}

static void describe(const struct sw_mesh *mesh, const struct variant *v, char text[128])
{
    char sizes[64];
    snprintf(text, 128, "mesh %s, %s", sw_mesh_format(mesh, sizes, sizeof sizes), v->name);
}

static const uint32_t generating = 1u << SW_PROGRAM_PREFILL | 1u << SW_PROGRAM_DECODE;
static const uint32_t scoring = 1u << SW_PROGRAM_SCORE;

/* Of the most probable tokens a text wants: none, one, a few, all that can be had. */
static int32_t top_of(int64_t text)
{
    static const int32_t wanted[] = {SW_TOP_TOKENS, 0, 1, 5, 13};
    return wanted[text % (int64_t)(sizeof wanted / sizeof wanted[0])];
}

/* What texts whose sampling has a frequency ask for besides. */
enum { MIN_TOKENS = 4 };
static const struct sw_biases biases = {.count = 4,
                                        .banned_count = 3,
                                        .token = {40, 2, 13, 21},
                                        .bias = {1.75f, -0.5f, 100, -3},
                                        .banned = {47, 13, 2}};

/* The texts of one mesh, which all ranks must agree on to the bit. ranked: the most probable tokens
 * of the prompts' places, too. Returns what is wrong. */
static int32_t make_ranked(struct sw_mesh mesh, const struct variant *v,
                           struct sw_sampling sampling, bool scores, bool counts, bool ranked,
                           struct texts *out)
{
    const struct sw_program_options options = make_options(mesh, v, SW_F64);
    struct sw_sequence texts[TEXTS];
    int32_t prompt[TEXTS][MAX_TOKENS], wrong = 0;
    struct sw_error err = {0};
    char text[128];
    describe(&mesh, v, text);
    const bool adjusted = sampling.frequency != 0;
    for (int64_t t = 0; t < TEXTS; t++) {
        for (int64_t i = 0; i < lengths[t]; i++)
            prompt[t][i] = prompt_token(t, i);
        texts[t] = (struct sw_sequence){.tokens = prompt[t],
                                        .biases = adjusted ? &biases : NULL,
                                        .min_tokens = adjusted ? MIN_TOKENS : 0,
                                        .token_count = lengths[t],
                                        .max_new_tokens = NEW_TOKENS,
                                        .sampling = sampling,
                                        .scored = ranked,
                                        .top = top_of(t),
                                        .seed = (uint64_t)t + 5};
    }
    struct sw_test_texts run = {.options = &options,
                                .serving = make_serving(v, SW_F64),
                                .seed = SEED,
                                .stddev = 0.3,
                                .texts = texts,
                                .count = TEXTS,
                                .scores = scores,
                                .took = counts ? count_allocations : NULL};
    if (sw_test_texts_run(&run, &err) != 0)
        fail_msg("%s: %s", text, err.message);
    if (run.other_ranks > 0 && ++wrong)
        print_error("%s: %d ranks made other texts than rank 0\n", text, run.other_ranks);
    if (run.arena_bytes != run.planned_arena_bytes && ++wrong)
        print_error("%s: %lld bytes allocated, %lld planned\n", text, (long long)run.arena_bytes,
                    (long long)run.planned_arena_bytes);
    if (counts && sw_test_take_allocations() != 0 && ++wrong)
        print_error("%s: memory was allocated for a token\n", text);
    for (int64_t t = 0; t < TEXTS; t++) {
        memcpy(out->token[t], run.made[t].tokens, sizeof out->token[t]);
        memcpy(out->logprob[t], run.made[t].logprobs, sizeof out->logprob[t]);
        memcpy(out->top[t], run.made[t].top, sizeof out->top[t]);
        memcpy(out->ranked[t], run.made[t].top + MAX_TOKENS, sizeof out->ranked[t]);
        out->made[t] = run.made[t].made;
        out->full[t] = run.made[t].full;
    }
    sw_test_texts_free(&run);
    return wrong;
}

static int32_t make_texts(struct sw_mesh mesh, const struct variant *v, struct sw_sampling sampling,
                          bool scores, bool counts, struct texts *out)
{
    return make_ranked(mesh, v, sampling, scores, counts, false, out);
}

static const struct sw_sampling greedy = {.top_p = 1, .penalty = 1};

/* ---- What `evaluate` says ---- */

static void made_by_harness(const struct variant *v, const struct texts *texts, double *logits)
{
    struct sw_program_options options = make_options(sw_mesh_make(1, 1, 1, 1), v, SW_F64);
    static const char *const names[] = {"logits", NULL};
    int32_t *rows = calloc((size_t)16 * (MAX_TOKENS + 1), sizeof *rows);
    struct sw_harness_result result;
    struct sw_error err = {0};
    assert_non_null(rows);
    options.kind = SW_PROGRAM_EVALUATE;
    options.logits = true;
    for (int64_t t = 0; t < TEXTS; t++)
        for (int64_t i = 0; i < MAX_TOKENS; i++)
            rows[t * (MAX_TOKENS + 1) + i] = i < lengths[t] ? prompt_token(t, i)
                                             : i - lengths[t] < texts->made[t]
                                                 ? texts->token[t][i - lengths[t]]
                                                 : 0;
    const struct sw_harness harness = {.options = &options,
                                       .seed = SEED,
                                       .stddev = 0.3,
                                       .spread_norms = true,
                                       .rows = rows,
                                       .steps = 1,
                                       .values = names};
    if (sw_harness_run(&harness, &result, &err) != 0)
        fail_msg("%s: %s", v->name, err.message);
    const struct sw_harness_value *value = sw_harness_find(&result, "logits");
    assert_int_equal(value->elems, 16 * MAX_TOKENS * VOCAB);
    memcpy(logits, value->data, (size_t)value->elems * sizeof *logits);
    sw_harness_result_free(&result);
    free(rows);
}

static double logprob_of(const double *row, int32_t token)
{
    double max = row[0], sum = 0;
    for (int32_t i = 1; i < VOCAB; i++)
        max = fmax(max, row[i]);
    for (int32_t i = 0; i < VOCAB; i++)
        sum += exp(row[i] - max);
    return row[token] - max - log(sum);
}

static int32_t best_of(const double *row)
{
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++)
        best = row[i] > row[best] ? i : best;
    return best;
}

/* Against a full softmax of what `evaluate` says: as many as are wanted, the first first. */
static void check_top(const char *name, int64_t text, int64_t place, const double *row,
                      const struct sw_top *top)
{
    bool taken[VOCAB] = {false};
    if (top->count != top_of(text))
        fail_msg("%s: text %d, place %d: %d of the most probable tokens, not %d", name, (int)text,
                 (int)place, (int)top->count, (int)top_of(text));
    for (int32_t i = 0; i < top->count; i++) {
        int32_t best = -1;
        for (int32_t k = 0; k < VOCAB; k++)
            if (!taken[k] && (best < 0 || row[k] > row[best]))
                best = k;
        taken[best] = true;
        if (top->token[i] != best ||
            !(fabs(top->logprob[i] - logprob_of(row, best)) <= DOUBLE_TOLERANCE))
            fail_msg("%s: text %d, place %d: number %d is token %d with %.15g, not %d with %.15g",
                     name, (int)text, (int)place, (int)i, (int)top->token[i], top->logprob[i],
                     (int)best, logprob_of(row, best));
    }
}

/* ---- Tests ---- */

static void one_rank_makes_what_evaluate_says(void **state)
{
    (void)state;
    double *logits = malloc((size_t)16 * MAX_TOKENS * VOCAB * sizeof *logits);
    assert_non_null(logits);
    for (int32_t i = 0; i < VARIANTS; i++) {
        const struct variant *v = &variants[i];
        static struct texts texts, scored;
        if (v->int8 || v->narrow) /* as near as its 8 bits: test_cache_int8.c, test_weights.c */
            continue;
        assert_int_equal(make_texts(sw_mesh_make(1, 1, 1, 1), v, greedy, false, false, &texts), 0);
        assert_int_equal(make_texts(sw_mesh_make(1, 1, 1, 1), v, greedy, true, false, &scored), 0);
        made_by_harness(v, &texts, logits);
        for (int64_t t = 0; t < TEXTS; t++) {
            const bool full = lengths[t] + NEW_TOKENS > MAX_TOKENS;
            const double *of_text = logits + t * MAX_TOKENS * VOCAB;
            assert_int_equal(texts.made[t], full ? MAX_TOKENS - lengths[t] : NEW_TOKENS);
            assert_int_equal(texts.full[t], full);
            for (int64_t n = 0; n < texts.made[t]; n++) {
                const double *row = of_text + (lengths[t] + n - 1) * VOCAB;
                assert_int_equal(texts.token[t][n], best_of(row));
                if (!(fabs(texts.logprob[t][n] - logprob_of(row, texts.token[t][n])) <=
                      DOUBLE_TOLERANCE))
                    fail_msg("%s: text %d, token %d: log-probability %.15g, not %.15g", v->name,
                             (int)t, (int)n, texts.logprob[t][n],
                             logprob_of(row, texts.token[t][n]));
                check_top(v->name, t, lengths[t] + n, row, &texts.top[t][n]);
                /* the same number, however it was asked for */
                if (texts.top[t][n].count > 0)
                    assert_true(texts.top[t][n].token[0] == texts.token[t][n] &&
                                texts.top[t][n].logprob[0] == texts.logprob[t][n]);
            }
            /* as floats: half a unit in the last place of numbers up to 16 */
            for (int64_t n = 0; n + 1 < lengths[t]; n++)
                assert_true(fabs(scored.logprob[t][n] -
                                 logprob_of(of_text + n * VOCAB, prompt_token(t, n + 1))) <=
                            0x1p-20);
        }
    }
    free(logits);
}

/* Logits that lie in shards over tp, and over tp and sp; of prompts, too. */
static void the_most_probable_are_those_of_a_full_softmax(void **state)
{
    (void)state;
    const struct sw_mesh meshes[] = {sw_mesh_make(1, 1, 1, 1), sw_mesh_make(1, 1, 2, 1),
                                     sw_mesh_make(1, 1, 4, 1), sw_mesh_make(1, 1, 2, 2),
                                     sw_mesh_make(2, 1, 2, 1), sw_mesh_make(1, 2, 1, 2)};
    double *logits = malloc((size_t)16 * MAX_TOKENS * VOCAB * sizeof *logits);
    assert_non_null(logits);
    for (int32_t i = 0; i < VARIANTS; i++) {
        if (variants[i].int8 || variants[i].narrow) /* as near as its 8 bits */
            continue;
        for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
            static struct texts texts;
            char text[128];
            describe(&meshes[m], &variants[i], text);
            assert_int_equal(
                make_ranked(meshes[m], &variants[i], greedy, false, true, true, &texts), 0);
            if (m == 0)
                made_by_harness(&variants[i], &texts, logits);
            for (int64_t t = 0; t < TEXTS; t++) {
                const double *of_text = logits + t * MAX_TOKENS * VOCAB;
                for (int64_t n = 1; n < lengths[t]; n++)
                    check_top(text, t, n, of_text + (n - 1) * VOCAB, &texts.ranked[t][n]);
                for (int64_t n = 0; n < texts.made[t]; n++)
                    check_top(text, t, lengths[t] + n, of_text + (lengths[t] + n - 1) * VOCAB,
                              &texts.top[t][n]);
            }
        }
    }
    free(logits);
}

static bool is_same_top(const struct sw_top *a, const struct sw_top *b)
{
    bool same = a->count == b->count;
    for (int32_t i = 0; i < b->count && same; i++)
        same =
            a->token[i] == b->token[i] && fabs(a->logprob[i] - b->logprob[i]) <= DOUBLE_TOLERANCE;
    return same;
}

static int32_t compare(const char *what, const struct texts *texts, const struct texts *reference,
                       bool scores)
{
    int32_t wrong = 0;
    for (int64_t t = 0; t < TEXTS; t++) {
        wrong += texts->made[t] != reference->made[t] || texts->full[t] != reference->full[t];
        for (int64_t n = 0; n < reference->made[t]; n++)
            wrong += texts->token[t][n] != reference->token[t][n] ||
                     !(fabs(texts->logprob[t][n] - reference->logprob[t][n]) <= DOUBLE_TOLERANCE) ||
                     !is_same_top(&texts->top[t][n], &reference->top[t][n]);
        for (int64_t n = 0; n + 1 < lengths[t]; n++)
            wrong += scores && !(fabs(texts->logprob[t][n] - reference->logprob[t][n]) <= 0x1p-20);
    }
    if (wrong > 0)
        print_error("%s: %d tokens differ from those of one rank\n", what, wrong);
    return wrong;
}

/* True if a rank of that mesh would have a part of 32 inputs; then it is refused. */
static bool cuts_a_group(struct sw_mesh mesh, const struct variant *v)
{
    const struct sw_program_options options = make_options(mesh, v, SW_F64);
    const struct sw_serving serving = make_serving(v, SW_F64);
    const struct sw_model *m = &options.model;
    const int32_t tp = mesh.size[SW_TP];
    const bool cut =
        v->narrow == SW_I4 &&
        (m->intermediate_size % (32 * tp) != 0 || m->heads * m->head_dim % (32 * tp) != 0 ||
         (v->stream && m->hidden_size % (32 * mesh.size[SW_FSDP]) != 0));
    struct sw_program_options o;
    struct sw_error err = {0};
    if (!cut)
        return false;
    assert_int_equal(sw_serving_options(&options, &serving, SW_PROGRAM_DECODE, &o, &err), -1);
    assert_int_equal(err.status, SW_UNMET);
    assert_non_null(strstr(err.message, "would cut a group of 32 inputs"));
    return true;
}

static void every_mesh_makes_the_same(void **state)
{
    (void)state;
    const int32_t share = sw_test_share();
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    int32_t wrong = 0;
    sw_harness_meshes(meshes);
    for (int32_t i = 0; i < VARIANTS; i++) {
        static struct texts reference, texts;
        assert_int_equal(
            make_texts(sw_mesh_make(1, 1, 1, 1), &variants[i], greedy, false, false, &reference),
            0);
        for (int32_t m = i % share; m < SW_HARNESS_MESHES; m += share) {
            char text[128];
            if (cuts_a_group(meshes[m], &variants[i]))
                continue;
            describe(&meshes[m], &variants[i], text);
            wrong += make_texts(meshes[m], &variants[i], greedy, false, true, &texts);
            wrong += compare(text, &texts, &reference, false);
        }
    }
    assert_int_equal(wrong, 0);
}

static void every_mesh_scores_the_same(void **state)
{
    (void)state;
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    int32_t wrong = 0;
    sw_harness_meshes(meshes);
    for (int32_t i = 0; i < VARIANTS; i++) {
        static struct texts reference, texts;
        assert_int_equal(
            make_texts(sw_mesh_make(1, 1, 1, 1), &variants[i], greedy, true, false, &reference), 0);
        for (int32_t m = i; m < SW_HARNESS_MESHES; m += VARIANTS) {
            char text[128];
            if (cuts_a_group(meshes[m], &variants[i]))
                continue;
            describe(&meshes[m], &variants[i], text);
            wrong += make_texts(meshes[m], &variants[i], greedy, true, false, &texts);
            wrong += compare(text, &texts, &reference, true);
        }
    }
    assert_int_equal(wrong, 0);
}

static struct sw_program_set *compiled(const struct sw_program_options *options,
                                       const struct sw_serving *serving)
{
    struct sw_program_set *set = NULL;
    struct sw_error err = {0};
    if (sw_program_set_compile_serving(options, serving, generating | scoring, &set, &err) != 0)
        fail_msg("%s", err.message);
    return set;
}

/* Texts of weights of bf16 that lie in tiles, where a device reads them so. */
static void make_tiled(struct sw_mesh mesh, const struct variant *v, bool tiles, bool scores,
                       struct sw_test_texts *run)
{
    static struct sw_program_options options;
    static struct sw_sequence texts[TEXTS];
    static int32_t prompt[TEXTS][MAX_TOKENS];
    struct sw_error err = {0};
    options = make_options(mesh, v, SW_BF16_T);
    if (v->narrow != SW_I4) {
        options.model.hidden_size = 64;
        options.model.intermediate_size = v->uneven_widths ? 160 : 128;
        options.model.head_dim = 16;
    }
    options.target.weight_tiles = tiles;
    for (int64_t t = 0; t < TEXTS; t++) {
        for (int64_t i = 0; i < lengths[t]; i++)
            prompt[t][i] = prompt_token(t, i);
        texts[t] = (struct sw_sequence){.tokens = prompt[t],
                                        .token_count = lengths[t],
                                        .max_new_tokens = NEW_TOKENS,
                                        .sampling = greedy};
    }
    *run = (struct sw_test_texts){.options = &options,
                                  .serving = make_serving(v, SW_BF16_T),
                                  .seed = SEED,
                                  .stddev = 0.3,
                                  .texts = texts,
                                  .count = TEXTS,
                                  .scores = scores};
    struct sw_program_set *set = compiled(&options, &run->serving);
    bool tiled = false;
    for (int32_t r = 0; r < set->state.count; r++)
        tiled |= set->state.row[r].tiled;
    assert_int_equal(tiled, tiles && !v->stream && mesh.size[SW_SP] == 1);
    sw_program_set_free(set);
    if (sw_test_texts_run(run, &err) != 0)
        fail_msg("%s, %s: %s", v->name, tiles ? "tiles" : "as declared", err.message);
    assert_int_equal(run->other_ranks, 0);
    assert_int_equal(run->arena_bytes, run->planned_arena_bytes);
}

/* Up to the first token that is another one, which then is as probable; of scored texts to the end.
 * Tiles are summed in one order whichever way the product goes, so bits are bf16's. */
static double tiles_differ_by(const struct sw_test_texts run[2], int64_t t, bool scores)
{
    const int64_t made = run[0].made[t].made, count = scores ? lengths[t] - 1 : made;
    double most = 0;
    assert_int_equal(run[1].made[t].made, made);
    for (int64_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)run[0].made[t].logprobs[i] - run[1].made[t].logprobs[i]));
        if (!scores && run[0].made[t].tokens[i] != run[1].made[t].tokens[i])
            break;
    }
    return most;
}

/* On ranks that have shards of weights, whole tiles or not. */
static void weights_in_tiles_make_the_same(void **state)
{
    (void)state;
    const struct sw_mesh meshes[] = {sw_mesh_make(1, 1, 1, 1), sw_mesh_make(1, 1, 2, 1),
                                     sw_mesh_make(1, 1, 4, 1), sw_mesh_make(1, 1, 1, 2),
                                     sw_mesh_make(1, 2, 2, 1), sw_mesh_make(2, 1, 2, 1)};
    int32_t as_declared = 0, compared = 0;
    for (int32_t i = 0; i < VARIANTS; i++)
        for (size_t m = (size_t)i % 3; m < sizeof meshes / sizeof meshes[0]; m += 3) {
            struct sw_test_texts run[2];
            if (cuts_a_group(meshes[m], &variants[i]))
                continue;
            const bool scores = i % 2 == 1;
            for (int tiles = 0; tiles < 2; tiles++)
                make_tiled(meshes[m], &variants[i], tiles != 0, scores, &run[tiles]);
            for (int64_t t = 0; t < TEXTS; t++) {
                const double by = tiles_differ_by(run, t, scores);
                if (by > 0.03)
                    fail_msg("%s, text %d: a log-probability %g away", variants[i].name, (int)t,
                             by);
                as_declared += by == 0;
                compared++;
            }
            sw_test_texts_free(&run[0]);
            sw_test_texts_free(&run[1]);
        }
    assert_true(as_declared * 10 >= compared * 9); /* most sums are those of before */
}

/* A text's tokens do not depend on which slot it has and who its neighbours are. In double they do
 * not depend on the mesh either, unless a draw falls on the edge of two tokens' shares. */
static void drawn_tokens_are_a_texts_own(void **state)
{
    (void)state;
    const struct sw_sampling draws[] = {
        {.temperature = 0.8, .top_p = 1, .penalty = 1},
        {.temperature = 1.5, .top_k = 7, .top_p = 0.9, .min_p = 0.02, .penalty = 1.3},
        {.temperature = 1, .top_p = 0.5, .penalty = 1},
        {.temperature = 0.7, .top_p = 0.95, .penalty = 1.1, .presence = -0.5, .frequency = 60}};
    const struct sw_mesh mesh = sw_mesh_make(1, 2, 2, 2);
    for (size_t d = 0; d < sizeof draws / sizeof draws[0]; d++) {
        static struct texts many, few, meshed;
        struct variant v = variants[0];
        v.int8 = d == 0;
        assert_int_equal(make_texts(sw_mesh_make(1, 1, 1, 1), &v, draws[d], false, false, &many),
                         0);
        assert_int_equal(make_texts(mesh, &v, draws[d], false, false, &meshed), 0);
        assert_int_equal(compare("a mesh", &meshed, &many, false), 0);
        v.slots = 1;
        assert_int_equal(make_texts(sw_mesh_make(1, 1, 1, 1), &v, draws[d], false, false, &few), 0);
        assert_int_equal(compare("one slot", &few, &many, false), 0);
        int32_t greedy_ones = 0;
        static struct texts probable;
        assert_int_equal(make_texts(sw_mesh_make(1, 1, 1, 1), &v, greedy, false, false, &probable),
                         0);
        for (int64_t t = 0; t < TEXTS; t++)
            greedy_ones += many.token[t][0] == probable.token[t][0];
        assert_true(greedy_ones < TEXTS);
    }
}

/* The logits of `evaluate`, adjusted one by one: of each place the largest is the token. Tokens of
 * the prompt count for the penalty alone. */
static void adjusted_tokens_are_those_of_adjusted_logits(void **state)
{
    (void)state;
    const struct sw_sampling asked = {
        .top_p = 1, .penalty = 1.25, .presence = 0.375, .frequency = 55};
    const struct variant *v = &variants[0];
    static struct texts texts, plain, meshed;
    static double logits[16 * MAX_TOKENS * VOCAB];
    int32_t late = 0;
    assert_int_equal(make_texts(sw_mesh_make(1, 1, 1, 1), v, asked, false, false, &texts), 0);
    assert_int_equal(make_texts(sw_mesh_make(1, 1, 1, 1), v, greedy, false, false, &plain), 0);
    made_by_harness(v, &texts, logits);
    for (int64_t t = 0; t < TEXTS; t++) {
        int32_t made[VOCAB] = {0};
        bool seen[VOCAB] = {false};
        for (int64_t i = 0; i < lengths[t]; i++)
            seen[prompt_token(t, i)] = true;
        for (int64_t i = 0; i < texts.made[t]; i++) {
            const double *row = logits + (t * MAX_TOKENS + lengths[t] + i - 1) * VOCAB;
            double wanted[VOCAB];
            memcpy(wanted, row, sizeof wanted);
            for (int32_t b = 0; b < biases.count; b++)
                wanted[biases.token[b]] += (double)biases.bias[b];
            for (int32_t b = 0; b < biases.banned_count && i < MIN_TOKENS; b++)
                wanted[biases.banned[b]] = -INFINITY;
            for (int32_t k = 0; k < VOCAB; k++) {
                wanted[k] = !seen[k]        ? wanted[k]
                            : wanted[k] > 0 ? wanted[k] / asked.penalty
                                            : wanted[k] * asked.penalty;
                wanted[k] -= made[k] > 0 ? asked.presence + made[k] * asked.frequency : 0;
            }
            assert_int_equal(texts.token[t][i], best_of(wanted));
            assert_true(fabs(texts.logprob[t][i] - logprob_of(row, texts.token[t][i])) <=
                        DOUBLE_TOLERANCE);
            seen[texts.token[t][i]] = true;
            made[texts.token[t][i]]++;
        }
        /* what is wanted most comes when it may, until it came too often */
        late += texts.made[t] == NEW_TOKENS && texts.token[t][MIN_TOKENS] == 13 &&
                texts.token[t][MIN_TOKENS + 1] == 13 && texts.token[t][MIN_TOKENS + 2] != 13;
        assert_true(texts.made[t] < NEW_TOKENS ||
                    memcmp(texts.token[t], plain.token[t], sizeof texts.token[t]) != 0);
    }
    assert_true(late > TEXTS / 2);
    static const int32_t meshes[][4] = {{1, 2, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}, {1, 2, 2, 2}};
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
        const struct sw_mesh mesh =
            sw_mesh_make(meshes[m][0], meshes[m][1], meshes[m][2], meshes[m][3]);
        assert_int_equal(make_texts(mesh, v, asked, false, false, &meshed), 0);
        assert_int_equal(compare("a mesh", &meshed, &texts, false), 0);
    }
}

/* ---- What the programs say of themselves ---- */

/* What a GPU's attention works in while it decodes is in its plans, and in no others. */
static void a_gpu_has_room_for_its_attention(void **state)
{
    (void)state;
    const struct sw_mesh mesh = sw_mesh_make(1, 2, 2, 2);
    for (int32_t which = 0; which < 4; which++) {
        const bool gpu = which % 2 == 1, int8 = which / 2 == 1;
        struct sw_program_options options = make_options(mesh, &variants[0], SW_F32);
        struct sw_serving serving = make_serving(&variants[0], int8 ? SW_I8 : SW_F32);
        struct sw_program_set *set = NULL;
        struct sw_decode_ranges ranges;
        struct sw_error err = {0};
        int32_t found = 0;
        options.target.cache_ranges = gpu;
        serving.max_tokens = 1 << 12;
        if (sw_program_set_compile_serving(&options, &serving, generating, &set, &err) != 0)
            fail_msg("%s", err.message);
        /* 4 slots, 4 of the heads and 2048 places on each rank */
        sw_decode_ranges_of(4, 4, 4, 1 << 11, 4, &ranges);
        assert_int_equal(ranges.count, 8);
        assert_true(ranges.bytes >= 4 * 4 * 8 * (4 + 2) * 4);
        for (int32_t k = 0; k < 2; k++) {
            const struct sw_program *p = set->program[k ? SW_PROGRAM_DECODE : SW_PROGRAM_PREFILL];
            for (int32_t i = 0; i < p->op_count; i++)
                if (p->ops[i].kind == SW_OP_ATTENTION && ++found > 0)
                    assert_int_equal(p->ops[i].workspace_bytes, gpu && k ? ranges.bytes : 0);
        }
        assert_int_equal(found, 2);
        sw_program_set_free(set);
    }
}

static bool is_of_cache(const struct sw_program *p, int32_t value)
{
    const struct sw_value *v = &p->values[value];
    return p->values[v->base].role == SW_ROLE_CACHE || strncmp(v->name, "k3", 2) == 0 ||
           strncmp(v->name, "v3", 2) == 0;
}

/* Bytes that a rank sends for one run; *of_cache: those of collectives whose operand is the
 * cache's, or a copy of rows of it; *calls of them in a layer. */
static int64_t sent_bytes(const struct sw_program *p, int64_t *of_cache, int32_t *calls)
{
    int64_t bytes = 0;
    *of_cache = *calls = 0;
    for (int32_t r = 0; r < p->region_count; r++)
        for (int32_t i = p->regions[r].first_op;
             i < p->regions[r].first_op + p->regions[r].op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            const int64_t sent =
                sw_op_communication_bytes(p, op) * sw_region_times(&p->regions[r], op->position);
            bytes += sent;
            for (uint16_t k = 0; k < op->n_in && sw_op_is_move(op->kind); k++)
                if (is_of_cache(p, op->in[k].value)) {
                    *of_cache += sent;
                    ++*calls;
                }
        }
    return bytes;
}

/* Tokens that one call of the program may append to a slot. */
static int64_t run_of(const struct sw_program *p)
{
    if (p == NULL)
        return 0;
    return p->micro_batch / (p->mesh.size[SW_DP] * p->mesh.size[SW_FSDP]) * p->sequence_length;
}

/* To the byte: keys and values of every layer and kv head (with its copies; `heads` of a rank's
 * slots), in int8 with a scale for each, of all positions or, behind a window, of those before it
 * and the longest run, in whole chunks. Layers that keep as many share a value. */
static int64_t cache_bytes(const struct sw_program_options *o, const struct sw_program_set *set,
                           bool int8, int64_t heads, int64_t chunk, int64_t max_tokens)
{
    const int64_t prefill = run_of(set->program[SW_PROGRAM_PREFILL]),
                  read = run_of(set->program[SW_PROGRAM_READ]);
    const int64_t run = prefill > read ? prefill : read;
    const int64_t ring = sw_align(o->model.sliding_window - 1 + run, chunk);
    const int32_t period = sw_model_period(&o->model);
    int64_t tokens[SW_MOST_PERIOD], bytes = 0;
    bool differ = false;
    for (int32_t i = 0; i < period; i++) {
        const bool rings = sw_model_window(&o->model, i) > 0 && ring < max_tokens;
        tokens[i] = (rings ? ring : max_tokens) / o->mesh.size[SW_SP];
        differ = differ || tokens[i] != tokens[0];
    }
    for (int32_t i = 0; i < (differ ? period : 1); i++) {
        const int64_t layers = differ ? o->model.layers / period : o->model.layers;
        const int64_t all = layers * heads * tokens[i];
        bytes += 2 * sw_align(all * o->model.head_dim * (int8 ? 1 : 2), SW_ARENA_ALIGNMENT);
        bytes += int8 ? 2 * sw_align(all * (int64_t)sizeof(float), SW_ARENA_ALIGNMENT) : 0;
    }
    return bytes;
}

/* Bytes that attention moves for a token, by its price. */
static double attention_bytes(const struct sw_program *p)
{
    double bytes = 0;
    for (int32_t r = 0; r < p->region_count; r++)
        for (int32_t i = p->regions[r].first_op;
             i < p->regions[r].first_op + p->regions[r].op_count; i++)
            if (p->ops[i].kind == SW_OP_ATTENTION)
                bytes += (double)sw_op_cost(p, &p->ops[i]).memory_bytes *
                         sw_region_times(&p->regions[r], p->ops[i].position);
    return bytes;
}

static void the_cache_stays_where_it_is(void **state)
{
    (void)state;
    const int32_t share = sw_test_share();
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    sw_harness_meshes(meshes);
    for (int32_t m = 0; m < SW_HARNESS_MESHES; m++)
        for (int32_t i = m % share; i < VARIANTS; i += share) {
            if (cuts_a_group(meshes[m], &variants[i]))
                continue;
            const struct sw_program_options options = make_options(meshes[m], &variants[i], SW_F32);
            int64_t sent[2][2] = {{0}}, cache[2];
            double bytes[2] = {0};
            for (int32_t longer = 0; longer < 2; longer++) {
                struct sw_serving serving = make_serving(&variants[i], SW_BF16_T);
                struct sw_program_set *set = NULL;
                struct sw_error err = {0};
                serving.max_tokens *= longer ? 64 : 1;
                serving.gathers = SW_GATHER_QUERIES;
                if (sw_program_set_compile_serving(
                        &options, &serving, generating | 1u << SW_PROGRAM_READ, &set, &err) != 0)
                    fail_msg("%s", err.message);
                for (int32_t k = 0; k < 2; k++) {
                    int64_t of_cache;
                    int32_t calls;
                    sent[longer][k] =
                        sent_bytes(set->program[k ? SW_PROGRAM_DECODE : SW_PROGRAM_PREFILL],
                                   &of_cache, &calls);
                    assert_int_equal(calls, 0);
                }
                const struct sw_mesh *mesh = &meshes[m];
                const int64_t tp = mesh->size[SW_TP], kv = options.model.kv_heads;
                const int64_t rows = mesh->size[SW_DP] * mesh->size[SW_FSDP];
                const int64_t slots = (serving.max_batch + rows - 1) / rows;
                const int64_t chunk = sw_align(serving.chunk, mesh->size[SW_SP]);
                cache[longer] = set->state.cache_bytes;
                bytes[longer] = attention_bytes(set->program[SW_PROGRAM_DECODE]);
                const int64_t heads = slots * (kv > tp ? kv / tp : 1);
                assert_int_equal(cache[longer],
                                 cache_bytes(&options, set, variants[i].int8, heads, chunk,
                                             sw_align(serving.max_tokens, chunk)));
                assert_int_equal(set->state.bytes,
                                 set->state.parameter_bytes + set->state.cache_bytes);
                sw_program_set_free(set);
            }
            assert_int_equal(sent[0][0], sent[1][0]);
            assert_int_equal(sent[0][1], sent[1][1]);
            /* behind a window a token costs what it does in a shorter text: but for whole bytes */
            if (variants[i].window > 0 && variants[i].local == 0)
                assert_true(fabs(bytes[0] - bytes[1]) < 16);
            else
                assert_true(bytes[1] > 4 * bytes[0]);
        }
}

/* Of a chunk the queries are gathered or all keys and values, whichever is fewer bytes: what the
 * set says is what the programs send, either way; a gather of keys and one of values in a layer, as
 * long as the cache. A token's queries always do. */
static void what_goes_round_is_fewer_bytes(void **state)
{
    (void)state;
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    int32_t chosen[SW_GATHER_KINDS] = {0};
    sw_harness_meshes(meshes);
    for (int32_t m = 0; m < SW_HARNESS_MESHES; m++)
        for (int32_t i = 0; i < VARIANTS; i++) {
            if (cuts_a_group(meshes[m], &variants[i]))
                continue;
            struct sw_program_options options = make_options(meshes[m], &variants[i], SW_F32);
            struct sw_serving serving = make_serving(&variants[i], SW_BF16_T);
            const int64_t sp = meshes[m].size[SW_SP];
            const bool may = sp > 1 && !variants[i].int8;
            int64_t bytes[SW_GATHER_KINDS] = {0}, of_cache;
            int32_t calls;
            for (int32_t way = SW_GATHER_QUERIES; way < SW_GATHER_KINDS; way++) {
                serving.gathers = (enum sw_prefill_gather)way;
                struct sw_program_set *set = compiled(&options, &serving);
                const bool moves = may && way == SW_GATHER_KV;
                assert_int_equal(set->gathers, moves ? SW_GATHER_KV : SW_GATHER_QUERIES);
                for (int32_t k = 0; k < 2; k++) {
                    bytes[way] = sent_bytes(set->program[k ? SW_PROGRAM_PREFILL : SW_PROGRAM_SCORE],
                                            &of_cache, &calls);
                    assert_int_equal(calls, moves ? 2 * sw_model_period(&options.model) : 0);
                    int64_t kept = 0;
                    for (int32_t r = 0; r < set->state.count; r++)
                        if (strncmp(set->state.row[r].name, "key cache", 9) == 0)
                            kept += set->state.row[r].instance_bytes * set->state.row[r].stack;
                    const struct sw_program *prefill = set->program[SW_PROGRAM_PREFILL];
                    const int64_t texts = set->program[SW_PROGRAM_DECODE]->micro_batch;
                    assert_int_equal(
                        of_cache, moves ? 2 * (sp - 1) * kept / texts * prefill->micro_batch : 0);
                }
                (void)sent_bytes(set->program[SW_PROGRAM_DECODE], &of_cache, &calls);
                assert_int_equal(calls, 0);
                sw_program_set_free(set);
            }
            serving.gathers = SW_GATHER_FEWEST;
            struct sw_program_set *set = compiled(&options, &serving);
            assert_int_equal(set->chunk_bytes[SW_GATHER_QUERIES], bytes[SW_GATHER_QUERIES]);
            assert_int_equal(set->chunk_bytes[SW_GATHER_KV], may ? bytes[SW_GATHER_KV] : 0);
            assert_int_equal(set->gathers, may && bytes[SW_GATHER_KV] < bytes[SW_GATHER_QUERIES]
                                               ? SW_GATHER_KV
                                               : SW_GATHER_QUERIES);
            assert_int_equal(sw_program_sent_bytes(set->program[SW_PROGRAM_PREFILL]),
                             bytes[set->gathers]);
            chosen[set->gathers] += may;
            sw_program_set_free(set);
            options.target.lacks_whole_cache = true;
            set = compiled(&options, &serving);
            assert_int_equal(set->gathers, SW_GATHER_QUERIES);
            assert_int_equal(set->chunk_bytes[SW_GATHER_KV], 0);
            sw_program_set_free(set);
        }
    assert_true(chosen[SW_GATHER_QUERIES] > 0 && chosen[SW_GATHER_KV] > 0);
}

static int read_tokens(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    (void)err;
    memcpy(to, (const int32_t *)context + ask->first_row * MAX_TOKENS,
           (size_t)(ask->rows * MAX_TOKENS) * sizeof(int32_t));
    return 0;
}

/* With one chunk on one rank the softmax is taken block by block as `evaluate` takes it, so all
 * that the head sees is the same to the bit. */
static void prefill_is_evaluate_to_the_bit(void **state)
{
    (void)state;
    struct variant all = variants[2];
    const struct variant *v = &all;
    all.budget = (int64_t)16 * MAX_TOKENS; /* all texts in one call */
    static const enum sw_dtype dtypes[] = {SW_F32, SW_BF16_T};
    for (size_t d = 0; d < 2; d++) {
        struct sw_program_options options = make_options(sw_mesh_make(1, 1, 1, 1), v, dtypes[d]);
        options.params = SW_F32;
        options.kind = SW_PROGRAM_EVALUATE;
        const struct sw_serving serving = make_serving(v, dtypes[d]);
        struct sw_program *evaluate = NULL;
        struct sw_program_set *set[2] = {NULL, NULL};
        struct sw_error err = {0};
        float *stats[2] = {NULL, NULL};
        int64_t elems = 0;
        assert_int_equal(sw_program_compile(&options, SW_LAID_OUT, &evaluate, &err), 0);
        assert_int_equal(sw_program_set_single(evaluate, SW_PROGRAM_EVALUATE, &set[0], &err), 0);
        assert_int_equal(sw_program_set_compile_serving(&options, &serving, scoring, &set[1], &err),
                         0);
        for (int32_t k = 0; k < 2; k++) {
            struct sw_comm *comm = NULL;
            struct sw_executor *x = NULL;
            struct sw_device *device = sw_cpu_device_create(1, &err);
            assert_int_equal(sw_comm_threads_create(&options.mesh, &comm, &err), 0);
            assert_int_equal(sw_executor_create(set[k], device, comm, NULL, &x, &err), 0);
            assert_int_equal(sw_executor_init_state(x, SEED, 0.3, &err), 0);
            const enum sw_program_kind kind = k ? SW_PROGRAM_SCORE : SW_PROGRAM_EVALUATE;
            const struct sw_program *p = set[k]->program[kind];
            int32_t tokens[16 * MAX_TOKENS], slots[16 * SW_SLOT_FIELDS];
            for (int32_t i = 0; i < 16 * MAX_TOKENS; i++)
                tokens[i] = prompt_token(i / MAX_TOKENS, i % MAX_TOKENS);
            for (int32_t i = 0; i < 16; i++) {
                slots[i * SW_SLOT_FIELDS + SW_SLOT_FIRST] = 0;
                slots[i * SW_SLOT_FIELDS + SW_SLOT_TOKENS] = MAX_TOKENS;
                slots[i * SW_SLOT_FIELDS + SW_SLOT_NUMBER] = 15 - i;
            }
            if (k == 1) {
                const struct sw_feed feeds[] = {
                    {.name = "tokens", .data = tokens, .bytes = sizeof tokens},
                    {.name = "labels", .data = tokens, .bytes = sizeof tokens},
                    {.name = "slots", .data = slots, .bytes = sizeof slots}};
                assert_int_equal(sw_executor_run(x, kind, NULL, feeds, 3, NULL, 0, &err), 0);
            } else {
                struct sw_feed feeds[SW_BATCH_FEEDS];
                const struct sw_step step = {.step = 1,
                                             .loss_scale = sw_batch_loss_scale(p->tokens_per_step)};
                const struct sw_batch batch = {read_tokens, tokens, false};
                const int32_t fed = sw_batch_feeds(&batch, p, feeds);
                assert_int_equal(sw_executor_run(x, kind, &step, feeds, fed, NULL, 0, &err), 0);
            }
            for (int32_t i = 0; i < p->value_count; i++)
                if (strcmp(p->values[i].name, "stats") == 0) {
                    elems = sw_value_local_elems(&p->values[i]);
                    stats[k] = malloc((size_t)elems * sizeof(float));
                    assert_non_null(stats[k]);
                    memcpy(stats[k], sw_executor_value(x, p, i, 0), (size_t)elems * sizeof(float));
                }
            assert_non_null(stats[k]);
            sw_executor_free(x);
            comm->vtable->destroy(comm);
            device->vtable->destroy(device);
            sw_program_set_free(set[k]);
        }
        assert_int_equal(elems, 16 * MAX_TOKENS * 3);
        assert_memory_equal(stats[0], stats[1], (size_t)elems * sizeof(float));
        free(stats[0]);
        free(stats[1]);
    }
}

/* On one rank, by a device that has all ops but that one. */
static void expect_refused_without(const struct sw_program_set *set, const struct sw_mesh *mesh,
                                   enum sw_op_kind kind, const char *name)
{
    struct sw_error err = {0};
    struct sw_comm *comm = NULL;
    struct sw_executor *executor = NULL;
    char message[128];
    struct sw_device *device = sw_cpu_device_create(1, &err);
    assert_non_null(device);
    struct sw_device_vtable table = *device->vtable;
    table.name = "abacus";
    table.run[kind] = NULL;
    const struct sw_device_vtable *const whole = device->vtable;
    device->vtable = &table;
    assert_int_equal(sw_comm_threads_create(mesh, &comm, &err), 0);
    assert_int_equal(sw_executor_create(set, device, comm, NULL, &executor, &err), -1);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    snprintf(message, sizeof message,
             "device abacus cannot run the program 'prefill': it has no %s", name);
    assert_string_equal(err.message, message);
    comm->vtable->destroy(comm);
    device->vtable = whole;
    device->vtable->destroy(device);
}

/* What no kernel reads yet is refused where programs are taken, never passed over. */
static void operands_that_a_device_lacks_are_refused(void **state)
{
    (void)state;
    const struct sw_mesh mesh = sw_mesh_make(1, 1, 1, 1);
    const struct sw_program_options options = make_options(mesh, &variants[0], SW_F32);
    struct sw_program_set *set = NULL;
    struct sw_error err = {0};
    if (sw_program_set_compile(&options, &set, &err) != 0)
        fail_msg("%s", err.message);
    for (int kind = 0; kind < 2; kind++) {
        struct sw_program *p = set->program[SW_PROGRAM_TRAIN];
        struct sw_comm *comm = NULL;
        struct sw_executor *executor = NULL;
        struct sw_device *device = sw_cpu_device_create(1, &err);
        int32_t op = 0;
        while (p->ops[op].kind != (kind == 0 ? SW_OP_ATTENTION : SW_OP_ATTENTION_GRAD))
            op++;
        bool *flag = &p->ops[op].as.attention.positions;
        *flag = true;
        err = (struct sw_error){0};
        assert_non_null(device);
        assert_int_equal(sw_comm_threads_create(&mesh, &comm, &err), 0);
        assert_int_equal(sw_executor_create(set, device, comm, NULL, &executor, &err), -1);
        assert_int_equal(err.status, SW_ENVIRONMENT);
        char message[128];
        snprintf(message, sizeof message,
                 "device cpu cannot run the program 'train': its %s has no 'positions'",
                 kind == 0 ? "attention" : "attention_grad");
        assert_string_equal(err.message, message);
        *flag = false;
        comm->vtable->destroy(comm);
        device->vtable->destroy(device);
    }
    sw_program_set_free(set);
}

/* What an earlier call was fed is not there any more. */
static void every_call_is_fed_all_inputs(void **state)
{
    (void)state;
    const struct sw_program_options options =
        make_options(sw_mesh_make(1, 1, 1, 1), &variants[0], SW_F32);
    const struct sw_serving serving = make_serving(&variants[0], SW_F32);
    struct sw_program_set *set = NULL;
    struct sw_comm *comm = NULL;
    struct sw_executor *x = NULL;
    struct sw_error err = {0};
    struct sw_device *device = sw_cpu_device_create(1, &err);
    static int32_t tokens[4 * CHUNK], slots[4 * SW_SLOT_FIELDS]; /* four rows of eight slots */
    const struct sw_feed feeds[] = {{.name = "tokens", .data = tokens, .bytes = sizeof tokens},
                                    {.name = "labels", .data = tokens, .bytes = sizeof tokens},
                                    {.name = "slots", .data = slots, .bytes = sizeof slots - 4}};
    assert_int_equal(sw_program_set_compile_serving(&options, &serving, scoring, &set, &err), 0);
    assert_int_equal(sw_comm_threads_create(&options.mesh, &comm, &err), 0);
    assert_int_equal(sw_executor_create(set, device, comm, NULL, &x, &err), 0);
    assert_int_equal(sw_executor_run(x, SW_PROGRAM_SCORE, NULL, feeds, 2, NULL, 0, &err), -1);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_string_equal(err.message, "the program is not fed its 'slots'");
    err = (struct sw_error){0};
    assert_int_equal(sw_executor_run(x, SW_PROGRAM_SCORE, NULL, feeds, 3, NULL, 0, &err), -1);
    assert_string_equal(err.message, "the program takes no 'slots' of 44 bytes");
    sw_executor_free(x);
    comm->vtable->destroy(comm);
    device->vtable->destroy(device);
    sw_program_set_free(set);
}

static void what_cannot_be_served_is_said(void **state)
{
    (void)state;
    struct sw_program_options options =
        make_options(sw_mesh_make(1, 1, 1, 1), &variants[0], SW_F32);
    struct sw_serving serving = make_serving(&variants[0], SW_F32);
    struct sw_program_set *set = NULL;
    struct sw_error err = {0};
    serving.max_batch = 0;
    assert_int_equal(sw_program_set_compile_serving(&options, &serving, generating, &set, &err),
                     -1);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_string_equal(err.message, "max_batch 0 is not between 1 and 65536");
    err = (struct sw_error){0};
    serving = make_serving(&variants[0], SW_F32);
    serving.token_budget = -1;
    assert_int_equal(sw_program_set_compile_serving(&options, &serving, generating, &set, &err),
                     -1);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_string_equal(err.message, "token_budget -1 is not between 0 and 2^31 - 1");
    err = (struct sw_error){0};
    serving = make_serving(&variants[0], SW_F32);
    assert_int_equal(sw_program_set_compile_serving(&options, &serving, generating, &set, &err), 0);
    expect_refused_without(set, &options.mesh, SW_OP_SAMPLE, "sample");
    sw_program_set_free(set);
    err = (struct sw_error){0};
    options = make_options(sw_mesh_make(1, 1, 3, 1), &variants[0], SW_F32);
    assert_int_equal(sw_program_set_compile_serving(&options, &serving, generating, &set, &err),
                     -1);
    assert_int_equal(err.status, SW_UNMET);
    assert_string_equal(err.message, "num_attention_heads 8 is not divisible by tp 3; use tp 1, 2, "
                                     "4 or 8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_makes_what_evaluate_says),
        cmocka_unit_test(the_most_probable_are_those_of_a_full_softmax),
        cmocka_unit_test(every_mesh_makes_the_same),
        cmocka_unit_test(every_mesh_scores_the_same),
        cmocka_unit_test(weights_in_tiles_make_the_same),
        cmocka_unit_test(drawn_tokens_are_a_texts_own),
        cmocka_unit_test(adjusted_tokens_are_those_of_adjusted_logits),
        cmocka_unit_test(the_cache_stays_where_it_is),
        cmocka_unit_test(what_goes_round_is_fewer_bytes),
        cmocka_unit_test(a_gpu_has_room_for_its_attention),
        cmocka_unit_test(prefill_is_evaluate_to_the_bit),
        cmocka_unit_test(operands_that_a_device_lacks_are_refused),
        cmocka_unit_test(every_call_is_fed_all_inputs),
        cmocka_unit_test(what_cannot_be_served_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
