/* Dense decoders (dense.c) with a cache of keys and values: a chunk of every prompt (`prefill`,
 * `score`), or one token more of every text (`decode`). The same ops in all three; what differs is
 * how long the sequence is and which axes have it (core/program/serving.h). */
#include "core/program/model/model.h"
#include "core/program/sampling.h"
#include "core/program/serving.h"

#include <math.h>

/* Value indices; -1: the model has none. */
struct weights {
    int32_t embedding, final_norm, head;
    int32_t attention_norm, wq, wk, wv, wo, mlp_norm, w_gate, w_up, w_down;
    int32_t bq, bk, bv, bo, b_gate, b_up, b_down, q_norm, k_norm;
};

/* What all layers share. */
struct serve {
    struct sw_builder *b;
    struct weights w;
    int32_t slots, keys, values;      /* the input; both halves of the cache */
    int32_t key_scales, value_scales; /* of a cache in int8; else -1 */
    struct sw_dim batch, seq, kv_width;
    struct sw_dim residual[3];
    int32_t copies;
};

/* ---- The state ---- */

/* In the compute precision, as the ops want it. */
static int32_t matrix(struct sw_builder *b, const char *name, struct sw_dim rows,
                      struct sw_dim columns, int32_t stack)
{
    const struct sw_dim dims[2] = {rows, columns};
    const int32_t value =
        sw_builder_value(b, name, SW_ROLE_PARAMETER, b->options->compute, 2, dims, stack);
    b->program->values[value].initial = SW_INITIAL_NORMAL;
    return value;
}

static int32_t vector(struct sw_builder *b, bool wanted, const char *name, struct sw_dim dim,
                      int32_t stack, enum sw_initial initial)
{
    return wanted ? sw_build_parameter(b, name, 1, &dim, stack, initial, false) : -1;
}

/* Named and shaped as dense.c has them: checkpoints know them by that. */
static void add_weights(struct sw_builder *b, struct weights *w)
{
    const struct sw_model *m = &b->options->model;
    const int32_t n = b->program->layers;
    const int64_t d = m->head_dim;
    const bool split_kv =
        m->kv_heads % sw_axes_size(&b->program->mesh, b->options->rules.axes[SW_L_KV_HEADS]) == 0;
    const struct sw_dim embed = {SW_L_EMBED, m->hidden_size, 1, SW_SIZE_FIXED};
    const struct sw_dim width = {SW_L_ACT_EMBED, m->hidden_size, 1, SW_SIZE_FIXED};
    const struct sw_dim vocab = {SW_L_VOCAB, m->vocab_size, 1, SW_SIZE_FIXED};
    const struct sw_dim q = {SW_L_HEADS, m->heads * d, d, SW_SIZE_FIXED};
    const struct sw_dim merged = {SW_L_MERGED_HEADS, m->heads * d, 1, SW_SIZE_FIXED};
    const struct sw_dim kv = {split_kv ? SW_L_KV_HEADS : SW_L_NONE, m->kv_heads * d, d,
                              SW_SIZE_FIXED};
    const struct sw_dim mlp = {SW_L_MLP, m->intermediate_size, 1, SW_SIZE_FIXED};
    const struct sw_dim head_width = {SW_L_NONE, d, 1, SW_SIZE_FIXED};
    w->embedding = matrix(b, "embedding", vocab, embed, 1);
    w->attention_norm = vector(b, true, "attention_norm", width, n, SW_INITIAL_ONES);
    w->wq = matrix(b, "wq", embed, q, n);
    w->wk = matrix(b, "wk", embed, kv, n);
    w->wv = matrix(b, "wv", embed, kv, n);
    w->wo = matrix(b, "wo", embed, merged, n);
    w->mlp_norm = vector(b, true, "mlp_norm", width, n, SW_INITIAL_ONES);
    w->w_gate = matrix(b, "w_gate", embed, mlp, n);
    w->w_up = matrix(b, "w_up", embed, mlp, n);
    w->w_down = matrix(b, "w_down", embed, mlp, n);
    w->final_norm = vector(b, true, "final_norm", width, 1, SW_INITIAL_ONES);
    w->head = m->tied ? w->embedding : matrix(b, "head", vocab, embed, 1);
    w->bq = vector(b, m->qkv_bias, "bq", q, n, SW_INITIAL_ZEROS);
    w->bk = vector(b, m->qkv_bias, "bk", kv, n, SW_INITIAL_ZEROS);
    w->bv = vector(b, m->qkv_bias, "bv", kv, n, SW_INITIAL_ZEROS);
    w->bo = vector(b, m->output_bias, "bo", width, n, SW_INITIAL_ZEROS);
    w->b_gate = vector(b, m->mlp_bias, "b_gate", mlp, n, SW_INITIAL_ZEROS);
    w->b_up = vector(b, m->mlp_bias, "b_up", mlp, n, SW_INITIAL_ZEROS);
    w->b_down = vector(b, m->mlp_bias, "b_down", width, n, SW_INITIAL_ZEROS);
    w->q_norm = vector(b, m->qk_norm, "q_norm", head_width, n, SW_INITIAL_ONES);
    w->k_norm = vector(b, m->qk_norm, "k_norm", head_width, n, SW_INITIAL_ONES);
}

static void add_state(struct serve *s)
{
    struct sw_builder *b = s->b;
    const struct sw_program_options *o = b->options;
    struct sw_program_options lie = *o; /* where the weights are, whatever the program */
    const struct sw_dim cache[3] = {
        s->batch, {SW_L_CACHE_SEQ, o->serving.max_tokens, 1, SW_SIZE_FIXED}, s->kv_width};
    lie.rules = o->serving.weights;
    b->options = &lie;
    add_weights(b, &s->w);
    b->options = o;
    s->keys = sw_builder_value(b, "key cache", SW_ROLE_CACHE, o->serving.cache, 3, cache,
                               b->program->layers);
    s->values = sw_builder_value(b, "value cache", SW_ROLE_CACHE, o->serving.cache, 3, cache,
                                 b->program->layers);
    s->key_scales = s->value_scales = -1;
    if (o->serving.cache != SW_I8)
        return;
    /* split as what they scale */
    const struct sw_dim scales[3] = {
        cache[0],
        cache[1],
        {s->kv_width.axis, s->kv_width.size / o->model.head_dim, 1,
         s->kv_width.symbol == SW_SIZE_KV ? SW_SIZE_SCALES : SW_SIZE_FIXED}};
    s->key_scales =
        sw_builder_value(b, "key scales", SW_ROLE_CACHE, SW_F32, 3, scales, b->program->layers);
    s->value_scales =
        sw_builder_value(b, "value scales", SW_ROLE_CACHE, SW_F32, 3, scales, b->program->layers);
}

static int32_t add_input(struct sw_builder *b, const char *name, enum sw_dtype dtype,
                         struct sw_dim rows, struct sw_dim columns)
{
    const struct sw_dim dims[2] = {rows, columns};
    const int32_t value = sw_builder_value(b, name, SW_ROLE_INPUT, dtype, 2, dims, 1);
    sw_builder_port(b, &b->program->inputs, name, value);
    return value;
}

/* ---- A layer ---- */

static void append(const struct serve *s, int32_t cache, int32_t scales, int32_t x)
{
    struct sw_builder *b = s->b;
    const struct sw_ref to = sw_builder_ref(b, cache);
    const int32_t op = sw_builder_op(b, SW_OP_CACHE_APPEND, SW_STAGE_MODEL);
    sw_builder_in(b, op, to);
    sw_builder_in(b, op, sw_builder_ref(b, x));
    sw_builder_in(b, op, sw_builder_ref(b, s->slots));
    if (scales >= 0)
        sw_builder_in(b, op, sw_builder_ref(b, scales));
    sw_builder_out(b, op, to);
    if (scales >= 0)
        sw_builder_out(b, op, sw_builder_ref(b, scales));
    b->program->ops[op].as.append =
        (struct sw_append_attributes){.head_dim = scales >= 0 ? b->options->model.head_dim : 0,
                                      .chunk = (int32_t)b->options->serving.chunk};
}

/* o[b, s, heads * head_dim], as the output projection takes it. */
static int32_t attend(const struct serve *s, int32_t q, int32_t n)
{
    struct sw_builder *b = s->b;
    const struct sw_model *m = &b->options->model;
    const enum sw_dtype wide = sw_accumulate_dtype(b->options->compute);
    const int64_t d = m->head_dim;
    struct sw_sizes sizes;
    sw_sizes_of(b->options, &sizes);
    const struct sw_dim rank = {SW_L_CACHE_SEQ, sizes.of[SW_SIZE_PARTS], 1, SW_SIZE_PARTS};
    const struct sw_dim whole = {SW_L_NONE, s->seq.size, 1, SW_SIZE_FIXED};
    const struct sw_dim parts[4] = {
        s->batch, whole, {SW_L_HEADS, m->heads * d, d, SW_SIZE_FIXED}, rank};
    const struct sw_dim stats[4] = {
        s->batch, whole, {SW_L_HEADS, 2 * (int64_t)m->heads, 2, SW_SIZE_FIXED}, rank};
    const struct sw_dim merged[3] = {
        s->batch, s->seq, {SW_L_MERGED_HEADS, m->heads * d, 1, SW_SIZE_FIXED}};
    int32_t op = sw_build_apply(b, SW_OP_ATTENTION, q, s->keys);
    sw_builder_in(b, op, sw_builder_ref(b, s->values));
    sw_builder_in(b, op, sw_builder_ref(b, s->slots));
    if (s->key_scales >= 0) {
        sw_builder_in(b, op, sw_builder_ref(b, s->key_scales));
        sw_builder_in(b, op, sw_builder_ref(b, s->value_scales));
    }
    const bool gathers = b->options->serving.gathers_cache;
    b->program->ops[op].as.attention =
        (struct sw_attention_attributes){.scale = 1.0 / sqrt((double)d),
                                         .head_dim = m->head_dim,
                                         .group = (int32_t)sizes.of[SW_SIZE_GROUP],
                                         .sequence_layout = -1,
                                         .chunk = (int32_t)b->options->serving.chunk,
                                         .parts = gathers ? (int32_t)sizes.of[SW_SIZE_PARTS] : 0};
    if (gathers)
        return sw_build_result(b, op, b->options->compute, 3, &(struct sw_made){"o", merged, n});
    const int32_t o = sw_build_result(b, op, wide, 4, &(struct sw_made){"parts", parts, n});
    const int32_t ml = sw_build_result(b, op, wide, 4, &(struct sw_made){"softmax", stats, n});
    op = sw_build_apply(b, SW_OP_SOFTMAX_MERGE, o, ml);
    return sw_build_result(b, op, b->options->compute, 3, &(struct sw_made){"o", merged, n});
}

static void add_layers(const struct serve *s, int32_t x)
{
    struct sw_builder *b = s->b;
    const struct weights *w = &s->w;
    const struct sw_model *m = &b->options->model;
    const int64_t d = m->head_dim;
    const int32_t n = b->program->layers;
    const enum sw_logical kv_axis = (enum sw_logical)b->program->values[w->wk].axis[1];
    const struct sw_dim heads[3] = {s->batch, s->seq, {SW_L_HEADS, m->heads * d, d, SW_SIZE_FIXED}};
    const struct sw_dim kv[3] = {s->batch, s->seq, {kv_axis, m->kv_heads * d, d, SW_SIZE_FIXED}};
    const struct sw_dim copied[3] = {s->batch, s->seq, s->kv_width};
    const struct sw_dim mlp[3] = {
        s->batch, s->seq, {SW_L_MLP, m->intermediate_size, 1, SW_SIZE_FIXED}};
    sw_builder_layers(b, "layer", SW_LAYERS_WHOLE);
    b->program->regions[b->region].carry = x;
    const struct sw_ref x_in = {x, SW_INDEX_LAYER, 0}, x_out = {x, SW_INDEX_LAYER, 1};

    const int32_t n1 =
        sw_build_norm(b, x_in, w->attention_norm, (struct sw_made){"n1", s->residual, n});
    int32_t q = sw_build_linear(b, false, n1, w->wq, w->bq, (struct sw_made){"q0", heads, n});
    int32_t k = sw_build_linear(b, false, n1, w->wk, w->bk, (struct sw_made){"k0", kv, n});
    int32_t v = sw_build_linear(b, false, n1, w->wv, w->bv, (struct sw_made){"v0", kv, n});
    q = sw_build_head_norm(b, q, w->q_norm, (struct sw_made){"qn", heads, n});
    k = sw_build_head_norm(b, k, w->k_norm, (struct sw_made){"kn", kv, n});
    q = sw_build_rope(b, q, s->slots, (struct sw_made){"q1", heads, n});
    k = sw_build_rope(b, k, s->slots, (struct sw_made){"k1", kv, n});
    append(s, s->keys, s->key_scales,
           sw_build_replicate(b, k, s->copies, (struct sw_made){"k2", copied, n}));
    append(s, s->values, s->value_scales,
           sw_build_replicate(b, v, s->copies, (struct sw_made){"v2", copied, n}));
    const int32_t a = sw_build_linear(b, true, attend(s, q, n), w->wo, w->bo,
                                      (struct sw_made){"a", s->residual, n});
    const int32_t mid =
        sw_builder_value(b, "y", SW_ROLE_ACTIVATION, b->options->compute, 3, s->residual, n);
    sw_build_add_into(b, x_in, a, sw_builder_ref(b, mid));

    const int32_t n2 = sw_build_norm(b, sw_builder_ref(b, mid), w->mlp_norm,
                                     (struct sw_made){"n2", s->residual, n});
    const int32_t gate =
        sw_build_linear(b, false, n2, w->w_gate, w->b_gate, (struct sw_made){"gate", mlp, n});
    const int32_t up =
        sw_build_linear(b, false, n2, w->w_up, w->b_up, (struct sw_made){"up", mlp, n});
    const int32_t h = sw_build_result(b, sw_build_apply(b, SW_OP_SWIGLU, gate, up),
                                      b->options->compute, 3, &(struct sw_made){"h", mlp, n});
    const int32_t down =
        sw_build_linear(b, true, h, w->w_down, w->b_down, (struct sw_made){"m", s->residual, n});
    sw_build_add_into(b, sw_builder_ref(b, mid), down, x_out);
}

/* ---- Behind the layers ---- */

/* Every rank has all of it: what the host goes on with. */
static void publish(const struct serve *s, const char *name, int32_t value)
{
    struct sw_builder *b = s->b;
    const struct sw_value made = b->program->values[value];
    const struct sw_dim dims[2] = {{SW_L_NONE, made.size[0], 1, SW_SIZE_BATCH},
                                   {SW_L_NONE, made.size[1], 1, SW_SIZE_FIXED}};
    const int32_t everywhere =
        sw_build_result(b, sw_build_apply(b, SW_OP_CONSTRAIN, value, -1), made.dtype, 2,
                        &(struct sw_made){"everywhere", dims, 1});
    const int32_t out = sw_build_result(b, sw_build_apply(b, SW_OP_CAST, everywhere, -1),
                                        made.dtype, 2, &(struct sw_made){name, dims, 1});
    b->program->values[out].role = SW_ROLE_ACCUMULATOR; /* read after the run */
    sw_builder_port(b, &b->program->outputs, name, out);
}

/* The token behind the last one of every slot. */
static void add_sampling(const struct serve *s, struct sw_ref x)
{
    struct sw_builder *b = s->b;
    const struct sw_model *m = &b->options->model;
    const enum sw_dtype wide = sw_accumulate_dtype(b->options->compute);
    const struct sw_dim one = {SW_L_NONE, 1, 1, SW_SIZE_FIXED};
    const struct sw_dim last[3] = {s->batch, one, s->residual[2]};
    const struct sw_dim logits[3] = {s->batch, one, {SW_L_VOCAB, m->vocab_size, 1, SW_SIZE_FIXED}};
    const struct sw_dim pair[2] = {s->batch, {SW_L_NONE, 2, 1, SW_SIZE_FIXED}};
    const struct sw_dim numbers[2] = {s->batch, {SW_L_NONE, SW_SAMPLED_NUMBERS, 1, SW_SIZE_FIXED}};
    const struct sw_dim words = {SW_L_NONE, sw_sampling_words(m->vocab_size), 1, SW_SIZE_FIXED};
    const struct sw_dim fields = {SW_L_NONE, SW_SAMPLING_SETTINGS, 1, SW_SIZE_FIXED};
    const int32_t seen = add_input(b, "seen", SW_I32, s->batch, words);
    const int32_t settings = add_input(b, "settings", SW_F32, s->batch, fields);
    sw_builder_region(b, "head", SW_PHASE_FORWARD, 1, false);
    int32_t op = sw_builder_op(b, SW_OP_PICK_TOKEN, SW_STAGE_MODEL);
    sw_builder_in(b, op, x);
    sw_builder_in(b, op, sw_builder_ref(b, s->slots));
    const int32_t picked =
        sw_build_result(b, op, b->options->compute, 3, &(struct sw_made){"last", last, 1});
    const int32_t n = sw_build_norm(b, sw_builder_ref(b, picked), s->w.final_norm,
                                    (struct sw_made){"nf", last, 1});
    const int32_t made = sw_build_result(b, sw_build_apply(b, SW_OP_LINEAR_T, n, s->w.head), wide,
                                         3, &(struct sw_made){"logits", logits, 1});
    op = sw_build_apply(b, SW_OP_SAMPLE, made, seen);
    sw_builder_in(b, op, sw_builder_ref(b, settings));
    const int32_t choice = sw_build_result(b, op, wide, 2, &(struct sw_made){"choice", pair, 1});
    op = sw_build_apply(b, SW_OP_TOP_TOKENS, made, settings);
    sw_builder_in(b, op, sw_builder_ref(b, choice));
    publish(s, "sampled", sw_build_result(b, op, wide, 2, &(struct sw_made){"top", numbers, 1}));
}

/* The log-probability of every token's label. */
static void add_scores(const struct serve *s, struct sw_ref x)
{
    struct sw_builder *b = s->b;
    const enum sw_dtype wide = sw_accumulate_dtype(b->options->compute);
    struct sw_sizes sizes;
    sw_sizes_of(b->options, &sizes);
    const struct sw_dim stats[3] = {
        s->batch, s->seq, {SW_L_VOCAB, sizes.of[SW_SIZE_STATS], SW_STATS_PER_SHARD, SW_SIZE_STATS}};
    const struct sw_dim tokens[2] = {s->batch, s->seq};
    const int32_t labels = add_input(b, "labels", SW_I32, s->batch, s->seq);
    sw_builder_region(b, "head", SW_PHASE_FORWARD, 1, false);
    const int32_t n = sw_build_norm(b, x, s->w.final_norm, (struct sw_made){"nf", s->residual, 1});
    int32_t op = sw_build_apply(b, SW_OP_LM_HEAD_STATS, n, s->w.head);
    sw_builder_in(b, op, sw_builder_ref(b, labels));
    const int32_t st = sw_build_result(b, op, wide, 3, &(struct sw_made){"stats", stats, 1});
    op = sw_build_apply(b, SW_OP_LM_HEAD_LOGPROBS, st, labels);
    publish(s, "logprobs",
            sw_build_result(b, op, wide, 2, &(struct sw_made){"token logprobs", tokens, 1}));
}

int sw_build_serving(struct sw_builder *b, struct sw_error *err)
{
    const struct sw_program_options *o = b->options;
    const struct sw_model *m = &o->model;
    struct sw_program *p = b->program;
    struct sw_sizes sizes;
    sw_sizes_of(o, &sizes);
    const bool copied = sizes.of[SW_SIZE_COPIES] > 1;
    struct serve s = {.b = b,
                      .batch = {SW_L_BATCH, p->micro_batch, 1, SW_SIZE_BATCH},
                      .seq = {SW_L_SEQ, p->sequence_length, 1, SW_SIZE_FIXED},
                      .copies = (int32_t)sizes.of[SW_SIZE_COPIES]};
    s.kv_width = (struct sw_dim){copied ? SW_L_HEADS : SW_L_KV_HEADS, sizes.of[SW_SIZE_KV],
                                 m->head_dim, copied ? SW_SIZE_KV : SW_SIZE_FIXED};
    s.residual[0] = s.batch;
    s.residual[1] = (struct sw_dim){SW_L_RESIDUAL_SEQ, p->sequence_length, 1, SW_SIZE_FIXED};
    s.residual[2] = (struct sw_dim){SW_L_ACT_EMBED, m->hidden_size, 1, SW_SIZE_FIXED};
    add_state(&s);
    const struct sw_dim whole = {SW_L_NONE, p->sequence_length, 1, SW_SIZE_FIXED};
    const struct sw_dim fields = {SW_L_NONE, SW_SLOT_FIELDS, 1, SW_SIZE_FIXED};
    const int32_t tokens = add_input(b, "tokens", SW_I32, s.batch, whole);
    s.slots = add_input(b, "slots", SW_I32, s.batch, fields);
    const int32_t x =
        sw_builder_value(b, "x", SW_ROLE_ACTIVATION, o->compute, 3, s.residual, p->layers + 1);
    p->values[x].carried = true;
    sw_builder_region(b, "embed", SW_PHASE_FORWARD, 1, false);
    sw_builder_out(b, sw_build_apply(b, SW_OP_EMBEDDING, tokens, s.w.embedding),
                   (struct sw_ref){x, SW_INDEX_FIXED, 0});
    add_layers(&s, x);
    const struct sw_ref last = {x, SW_INDEX_FIXED, (int16_t)p->layers};
    if (o->kind == SW_PROGRAM_SCORE)
        add_scores(&s, last);
    else
        add_sampling(&s, last);
    if (b->failed)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while building the program");
    return 0;
}
