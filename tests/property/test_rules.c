/* Rows of `rules` say where data lies, never what is computed: whatever rows a program admits, its
 * losses, gradient norms, gradients and held-out losses are those of one rank without any.
 *
 *   test_rules [DRAWS [SEED [FIRST]]]    draws FIRST .. FIRST + DRAWS - 1 of that seed
 *
 * A draw that differs is printed with its number: `test_rules 1 SEED NUMBER` runs it again. */
#include "core/base/hash.h"
#include "core/programs/program_set.h"
#include "tests/support/harness.h"
#include "tests/support/rule_draws.h"
#include "tests/support/texts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 2 };

/* Double: as test_meshes.c has it, and why. */
#define DOUBLE_TOLERANCE 1e-10
/* Single: 2^-24 a rounding, sums of up to 512 tokens in another order (2^-24 * sqrt(512) = 1.3e-6),
 * through at most 3 layers and back. */
#define SINGLE_TOLERANCE 1e-5
/* bf16 keeps 2^-9 of a value. About 16 values of a layer are rounded on the way to the loss, 3
 * layers: 2^-9 * sqrt(48) = 1.4e-2 of a logit; as much again on the way back, of a norm. */
#define HALF_TOLERANCE 2e-2
#define HALF_NORM_TOLERANCE 4e-2

/* ---- One draw ---- */

static int train(const struct sw_rule_draw *d, const struct sw_program_options *options,
                 struct sw_harness_result *out, struct sw_error *err)
{
    const struct sw_model *m = &options->model;
    const char *const values[] = {"embedding",
                                  "wq",
                                  "wk",
                                  "wv",
                                  "wo",
                                  "w_up",
                                  "w_gate",
                                  "w_down",
                                  m->post_norm ? "mlp_post_norm" : "mlp_norm",
                                  m->post_norm ? "attention_post_norm" : "attention_norm",
                                  "final_norm",
                                  m->tied ? "wq" : "head",
                                  m->qkv_bias ? "bk" : "wk",
                                  m->qk_norm || m->qk_norm_whole ? "q_norm" : "wq",
                                  NULL};
    const struct sw_harness harness = {
        .options = options,
        .seed = 3,
        .stddev = 0.2,
        .spread_norms = true,
        .ignored = d->ignored,
        .steps = STEPS,
        .step = {.learning_rate = 0.1,
                 .beta1 = 0.9,
                 .beta2 = 0.95,
                 .eps = 1, /* above all gradients: what changes is in proportion to them, and
                              rounding too */
                 .weight_decay = 0.1,
                 .grad_clip = 1.0},
        .values = values,
        .unpoisoned = sw_mesh_rank_count(&options->mesh) == 1,
        .evaluate_every = 1,
    };
    return sw_harness_run(&harness, out, err);
}

static bool differs(const char *what, const double *is, const double *should, int64_t count,
                    double tolerance)
{
    const double difference = sw_harness_difference(is, should, count);
    if (difference <= tolerance)
        return false;
    printf("  %s: %.9g %.9g, one rank %.9g %.9g\n", what, is[0], is[count - 1], should[0],
           should[count - 1]);
    return true;
}

static bool compare(const struct sw_rule_draw *d, const struct sw_harness_result *is,
                    const struct sw_harness_result *one)
{
    const enum sw_dtype c = d->options.compute;
    const double loss = c == SW_F64   ? DOUBLE_TOLERANCE
                        : c == SW_F32 ? SINGLE_TOLERANCE
                                      : HALF_TOLERANCE;
    const double norm = c == SW_BF16_T ? HALF_NORM_TOLERANCE : loss;
    bool wrong = differs("losses", is->loss, one->loss, STEPS, loss);
    wrong = differs("gradient norms", is->grad_norm, one->grad_norm, STEPS, norm) || wrong;
    wrong =
        differs("held-out losses", &is->evaluated[1], &one->evaluated[1], STEPS - 1, loss) || wrong;
    for (int32_t i = 0; c != SW_BF16_T && i < one->value_count; i++) {
        const struct sw_harness_value *w = &is->value[i];
        wrong = differs(w->name, w->data, one->value[i].data, w->elems, loss) || wrong;
    }
    if (is->rank_differences != 0)
        printf("  replicas differ in %lld numbers\n", (long long)is->rank_differences);
    if (is->arena_bytes != is->planned_arena_bytes)
        printf("  %lld bytes allocated, %lld planned\n", (long long)is->arena_bytes,
               (long long)is->planned_arena_bytes);
    return wrong || is->rank_differences != 0 || is->arena_bytes != is->planned_arena_bytes;
}

static struct sw_program_options without_rules(const struct sw_rule_draw *d)
{
    struct sw_program_options o = d->options;
    o.mesh = sw_mesh_make(1, 1, 1, 1);
    o.micro_batch_per_rank = o.global_batch;
    o.layout = SW_CONTIGUOUS;
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    return o;
}

enum outcome { SAME, REFUSED, WRONG };

static enum outcome try_training(const struct sw_rule_draw *d)
{
    const struct sw_program_options plain = without_rules(d);
    struct sw_harness_result is = {0}, one = {0};
    struct sw_error err = {0};
    enum outcome outcome = WRONG;
    if (train(d, &d->options, &is, &err) != 0) {
        outcome = err.status == SW_UNMET ? REFUSED : WRONG;
        if (outcome == WRONG)
            printf("  %s\n", err.message);
    } else if (train(d, &plain, &one, &err) != 0) {
        printf("  one rank: %s\n", err.message);
    } else if (!compare(d, &is, &one)) {
        outcome = SAME;
    }
    sw_harness_result_free(&is);
    sw_harness_result_free(&one);
    return outcome;
}

/* ---- Serving ---- */

enum { TEXTS = 5, NEW_TOKENS = 5, MAX_TOKENS = 24 };

static const int64_t lengths[TEXTS] = {1, 8, 9, 3, 19};

static int make_texts(const struct sw_program_options *options, const struct sw_serving *serving,
                      bool scores, struct sw_test_texts *out, struct sw_error *err)
{
    static int32_t prompt[TEXTS][MAX_TOKENS];
    static struct sw_sequence texts[TEXTS];
    for (int64_t t = 0; t < TEXTS; t++) {
        for (int64_t i = 0; i < lengths[t]; i++)
            prompt[t][i] = (int32_t)(sw_hash_mix((uint64_t)(t * 100 + i) + 1) %
                                     (uint64_t)options->model.vocab_size);
        texts[t] = (struct sw_sequence){.tokens = prompt[t],
                                        .token_count = lengths[t],
                                        .max_new_tokens = NEW_TOKENS,
                                        .sampling = {.top_p = 1, .penalty = 1},
                                        .top = 3};
    }
    *out = (struct sw_test_texts){.options = options,
                                  .serving = *serving,
                                  .seed = 11,
                                  .stddev = 0.3,
                                  .texts = texts,
                                  .count = TEXTS,
                                  .scores = scores};
    return sw_test_texts_run(out, err);
}

/* Of scores, which are floats, half a unit in the last place of numbers up to 16. */
static bool same_texts(const struct sw_test_texts *is, const struct sw_test_texts *one)
{
    const double tolerance = one->scores ? 0x1p-20 : DOUBLE_TOLERANCE;
    bool same = is->other_ranks == 0 && is->arena_bytes == is->planned_arena_bytes;
    for (int64_t t = 0; t < TEXTS; t++) {
        const struct sw_made_text *a = &is->made[t], *b = &one->made[t];
        const int64_t count = one->scores ? lengths[t] - 1 : b->made;
        same = same && a->made == b->made;
        for (int64_t i = 0; i < count && same; i++)
            same = (one->scores || a->tokens[i] == b->tokens[i]) &&
                   fabs(a->logprobs[i] - b->logprobs[i]) <= tolerance;
    }
    return same;
}

static enum outcome try_serving(const struct sw_rule_draw *d, const struct sw_serving *serving)
{
    struct sw_program_options plain = without_rules(d);
    enum outcome outcome = SAME;
    for (int32_t scores = 0; scores < 2 && outcome == SAME; scores++) {
        struct sw_test_texts is = {0}, one = {0};
        struct sw_error err = {0};
        if (make_texts(&d->options, serving, scores, &is, &err) != 0) {
            outcome = err.status == SW_UNMET ? REFUSED : WRONG;
            if (outcome == WRONG)
                printf("  %s\n", err.message);
        } else if (make_texts(&plain, serving, scores, &one, &err) != 0) {
            printf("  one rank: %s\n", err.message);
            outcome = WRONG;
        } else if (!same_texts(&is, &one)) {
            printf("  other %s than one rank's\n", scores ? "scores" : "texts");
            outcome = WRONG;
        }
        sw_test_texts_free(&is);
        sw_test_texts_free(&one);
    }
    return outcome;
}

static enum outcome try_draw(const char *name, const struct sw_rule_draw *d)
{
    const enum outcome outcome = d->serves ? try_serving(d, &d->serving) : try_training(d);
    char text[SW_RULE_DRAW_BYTES];
    if (outcome == WRONG)
        printf("%s: %s\n", name, sw_rule_draw_describe(d, text));
    return outcome;
}

/* ---- Rows that once changed what was computed ---- */

static const struct found {
    int32_t mesh[SW_AXIS_COUNT];
    bool odd_vocabulary; /* which the axes of `table` do not divide */
    int32_t rows;
    struct {
        enum sw_logical logical;
        struct sw_axes axes;
    } row[8];
} found[] = {
    {{1, 1, 2, 1}, false, 1, {{SW_L_TABLE, {0}}}}, /* every rank's loss was added */
    {{1, 2, 2, 1}, false, 1, {{SW_L_TABLE, {1, {SW_FSDP}}}}},
    {{1, 1, 4, 2}, false, 1, {{SW_L_TABLE, {1, {SW_DP}}}}},
    {{1, 2, 1, 1}, false, 1, {{SW_L_VOCAB, {1, {SW_FSDP}}}}}, /* more statistics than parts */
    {{1, 2, 2, 1}, false, 1, {{SW_L_VOCAB, {2, {SW_TP, SW_FSDP}}}}},
    {{1, 1, 2, 2}, false, 1, {{SW_L_VOCAB, {2, {SW_TP, SW_SP}}}}},
    {{2, 1, 1, 1}, false, 2, {{SW_L_VOCAB, {1, {SW_DP}}}, {SW_L_TABLE, {0}}}},
    /* the head's logits are sums over the width */
    {{1, 1, 2, 1},
     true,
     7,
     {{SW_L_EMBED, {1, {SW_TP}}},
      {SW_L_ACT_EMBED, {1, {SW_TP}}},
      {SW_L_HEADS, {0}},
      {SW_L_KV_HEADS, {0}},
      {SW_L_ATTN_HEADS, {0}},
      {SW_L_MLP, {0}},
      {SW_L_VOCAB, {0}}}},
    /* a cast wrote over what the gather of a first layer still read */
    {{1, 3, 1, 2}, false, 2, {{SW_L_EMBED, {1, {SW_FSDP}}}, {SW_L_MLP, {1, {SW_SP}}}}},
};
enum { FOUND = sizeof found / sizeof found[0] };

static int32_t try_found(void)
{
    int32_t wrong = 0;
    for (int32_t i = 0; i < FOUND; i++)
        for (int32_t way = 0; way < 4; way++) { /* one micro-step and several; fp32 and bf16 */
            const struct found *f = &found[i];
            struct sw_rule_draw d;
            char name[32];
            memset(&d, 0, sizeof d);
            struct sw_program_options *o = &d.options;
            o->mesh = sw_mesh_make(f->mesh[0], f->mesh[1], f->mesh[2], f->mesh[3]);
            o->model = (struct sw_model){.vocab_size = f->odd_vocabulary ? 33 : 32,
                                         .hidden_size = 24,
                                         .intermediate_size = 16,
                                         .layers = 2,
                                         .heads = 8,
                                         .kv_heads = 4,
                                         .head_dim = 4,
                                         .rope.theta = 100.0,
                                         .rms_norm_eps = 1e-5,
                                         .tied = way % 2 == 0};
            o->sequence_length = 24;
            o->global_batch = 12;
            o->micro_batch_per_rank = way % 2 == 0 ? 12 / (o->mesh.size[0] * o->mesh.size[1]) : 1;
            o->compute = way < 2 ? SW_F32 : SW_BF16_T;
            o->params = o->reduce = SW_F32;
            sw_rules_default(&o->rules, SW_ATTENTION_RING);
            d.rows = f->rows;
            for (int32_t r = 0; r < f->rows; r++) {
                d.row[r].logical = sw_logical_name(f->row[r].logical);
                d.row[r].axes = f->row[r].axes;
                if (sw_rules_set(&o->rules, d.row[r].logical, d.row[r].axes, NULL) != 0)
                    abort();
            }
            snprintf(name, sizeof name, "case %d, way %d", (int)i, (int)way);
            wrong += try_draw(name, &d) != SAME;
        }
    return wrong;
}

int main(int argc, char **argv)
{
    const int64_t draws = argc > 1 ? strtoll(argv[1], NULL, 10) : 25;
    const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const int64_t first = argc > 3 ? strtoll(argv[3], NULL, 10) : 1;
    int64_t of[WRONG + 1] = {0};
    if (argc > 4 || draws < 1 || first < 1) {
        fprintf(stderr, "usage: test_rules [DRAWS [SEED [FIRST]]]\n");
        return 2;
    }
    const int32_t wrong = argc > 3 ? 0 : try_found();
    for (int64_t i = first; i < first + draws; i++) {
        struct sw_rule_draw d;
        char name[32];
        snprintf(name, sizeof name, "draw %lld", (long long)i);
        sw_rule_draw_make(seed, i, &d);
        of[try_draw(name, &d)]++;
    }
    printf("%lld draws of rules, seed %llu: %lld compute what one rank does without, %lld are "
           "refused, %lld differ\n",
           (long long)draws, (unsigned long long)seed, (long long)of[SAME], (long long)of[REFUSED],
           (long long)of[WRONG]);
    /* what refuses everything computes nothing wrong */
    return wrong == 0 && of[WRONG] == 0 && of[SAME] >= of[REFUSED] ? 0 : 1;
}
