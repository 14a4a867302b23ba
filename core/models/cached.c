/* Decoders with a cache of keys and values: a chunk of every prompt (prefill, score), single tokens
 * of prompts and running sequences (prefill that mixes, read), or one token more of every sequence
 * (decode). All have the same ops; they differ in the sequence's length and the axes that split it
 * (core/ir/serving.h). */
#include "core/models/decoder.h"
#include "core/ir/sampling.h"
#include "core/ir/serving.h"

#include <math.h>
#include <stdio.h>

/* Both halves of the cache, and their scales in int8, else -1. */
struct cache {
    int32_t keys, values, key_scales, value_scales;
    bool ring;
};

/* Positions kept by layers at a position of the period. */
static int64_t kept_tokens(const struct sw_program_options *o, int32_t position)
{
    return sw_model_window(&o->model, position) > 0 ? o->serving.ring_tokens
                                                    : o->serving.max_tokens;
}

/* A cache value for all layers, or (position >= 0) for those at that position of the period. */
static int32_t cache_value(struct sw_builder *b, const char *name, enum sw_dtype dtype,
                           const struct sw_dim dims[3], int32_t position)
{
    const int32_t layers = b->program->layers;
    struct sw_region all = {.part = SW_LAYERS_WHOLE};
    char of_position[SW_NAME_BYTES];
    if (position < 0)
        return sw_builder_value(b, name, SW_ROLE_CACHE, dtype, 3, dims, layers);
    snprintf(of_position, sizeof of_position, "%s %d", name, (int)position);
    sw_region_span(&all, 0, layers, sw_model_period(&b->options->model));
    const int32_t value = sw_builder_value(b, of_position, SW_ROLE_CACHE, dtype, 3, dims, 1);
    if (!b->failed)
        sw_builder_instances(&all, position, &b->program->values[value]);
    return value;
}

static void add_cache(struct sw_decoder *d, int64_t tokens, int32_t position, struct cache *cache)
{
    struct sw_builder *b = d->b;
    const struct sw_program_options *o = b->options;
    const bool copied = d->sizes.of[SW_SIZE_COPIES] > 1;
    const enum sw_logical heads = copied ? SW_L_HEADS : SW_L_KV_HEADS;
    const struct sw_dim slots = {SW_L_BATCH, d->sizes.of[SW_SIZE_SLOTS], 1, SW_SIZE_SLOTS};
    const struct sw_dim positions = {SW_L_CACHE_SEQ, tokens, 1, SW_SIZE_FIXED};
    const struct sw_dim dims[3] = {
        slots,
        positions,
        {heads, d->sizes.of[SW_SIZE_KV], o->model.head_dim, copied ? SW_SIZE_KV : SW_SIZE_FIXED}};
    /* split as the elements they scale */
    const struct sw_dim scales[3] = {
        slots,
        positions,
        {heads, d->sizes.of[SW_SIZE_SCALES], 1, copied ? SW_SIZE_SCALES : SW_SIZE_FIXED}};
    const enum sw_dtype dtype = o->serving.cache;
    cache->ring = tokens < o->serving.max_tokens;
    cache->keys = cache_value(b, "key cache", dtype, dims, position);
    cache->values = cache_value(b, "value cache", dtype, dims, position);
    cache->key_scales = cache->value_scales = -1;
    if (dtype != SW_I8)
        return;
    cache->key_scales = cache_value(b, "key scales", SW_F32, scales, position);
    cache->value_scales = cache_value(b, "value scales", SW_F32, scales, position);
}

/* Adds one cache for all layers or, if layers keep different numbers of positions, one for each
 * position of the period. */
static void add_caches(struct sw_decoder *d, struct cache of[SW_MOST_PERIOD])
{
    const struct sw_program_options *o = d->b->options;
    const int32_t period = sw_model_period(&o->model);
    bool differ = false;
    for (int32_t i = 1; i < period; i++)
        differ = differ || kept_tokens(o, i) != kept_tokens(o, 0);
    for (int32_t i = 0; i < period; i++)
        if (differ || i == 0)
            add_cache(d, kept_tokens(o, i), differ ? i : -1, &of[i]);
        else
            of[i] = of[0];
}

static void append(struct sw_decoder *d, int32_t cache, int32_t scales, bool ring, int32_t x)
{
    struct sw_builder *b = d->b;
    const struct sw_ref to = sw_builder_ref(b, cache);
    const int32_t op = sw_builder_op(b, SW_OP_CACHE_APPEND, SW_STAGE_MODEL);
    sw_builder_in(b, op, to);
    sw_builder_in(b, op, sw_builder_ref(b, x));
    sw_builder_in(b, op, sw_builder_ref(b, d->positions));
    if (scales >= 0)
        sw_builder_in(b, op, sw_builder_ref(b, scales));
    sw_builder_out(b, op, to);
    if (scales >= 0)
        sw_builder_out(b, op, sw_builder_ref(b, scales));
    b->program->ops[op].as.append =
        (struct sw_append_attributes){.head_dim = scales >= 0 ? b->options->model.head_dim : 0,
                                      .chunk = (int32_t)b->options->serving.chunk,
                                      .ring = ring};
}

/* The cache rows of this call's slots. */
static int32_t take_rows(struct sw_decoder *d, int32_t cache, const char *name, int32_t n)
{
    struct sw_builder *b = d->b;
    const struct sw_value kept = b->program->values[cache];
    const struct sw_dim dims[3] = {
        d->batch,
        {SW_L_CACHE_SEQ, kept.size[1], 1, SW_SIZE_FIXED},
        {(enum sw_logical)kept.axis[2], kept.size[2], kept.unit[2], (enum sw_size)kept.symbol[2]}};
    const int32_t op = sw_builder_op(b, SW_OP_CACHE_ROWS, SW_STAGE_MODEL);
    sw_builder_in(b, op, sw_builder_ref(b, cache));
    sw_builder_in(b, op, sw_builder_ref(b, d->positions));
    return sw_build_result(b, op, kept.dtype, 3, &(struct sw_made){name, dims, n, false});
}

/* This rank's part of the softmax over the cache, or the whole softmax. */
static int32_t attend(struct sw_decoder *d, int32_t q, int32_t k, int32_t v, int32_t n)
{
    struct sw_builder *b = d->b;
    const struct cache *caches = d->site, *cache = &caches[b->position];
    const struct sw_model *m = &b->options->model;
    const enum sw_dtype wide = sw_accumulate_dtype(b->options->compute);
    const int64_t dim = m->head_dim;
    const int32_t copies = (int32_t)d->sizes.of[SW_SIZE_COPIES];
    const bool gathers = b->options->serving.gathers_cache;
    const struct sw_dim copied[3] = {d->batch,
                                     d->seq,
                                     {copies > 1 ? SW_L_HEADS : SW_L_KV_HEADS,
                                      d->sizes.of[SW_SIZE_KV], dim,
                                      copies > 1 ? SW_SIZE_KV : SW_SIZE_FIXED}};
    const struct sw_dim rank = {SW_L_CACHE_SEQ, d->sizes.of[SW_SIZE_PARTS], 1, SW_SIZE_PARTS};
    const struct sw_dim whole = {SW_L_NONE, d->seq.size, 1, SW_SIZE_FIXED};
    const struct sw_dim parts[4] = {
        d->batch, whole, {SW_L_HEADS, m->heads * dim, dim, SW_SIZE_FIXED}, rank};
    const struct sw_dim stats[4] = {
        d->batch, whole, {SW_L_HEADS, 2 * (int64_t)m->heads, 2, SW_SIZE_FIXED}, rank};
    const struct sw_dim merged[3] = {
        d->batch, d->seq, {SW_L_MERGED_HEADS, m->heads * dim, 1, SW_SIZE_FIXED}};
    append(d, cache->keys, cache->key_scales, cache->ring,
           sw_build_replicate(b, k, copies, (struct sw_made){"k2", copied, n, false}));
    append(d, cache->values, cache->value_scales, cache->ring,
           sw_build_replicate(b, v, copies, (struct sw_made){"v2", copied, n, false}));
    const int32_t keys = gathers ? take_rows(d, cache->keys, "k3", n) : cache->keys;
    const int32_t values = gathers ? take_rows(d, cache->values, "v3", n) : cache->values;
    int32_t op = sw_build_apply(b, SW_OP_ATTENTION, q, keys);
    sw_builder_in(b, op, sw_builder_ref(b, values));
    sw_builder_in(b, op, sw_builder_ref(b, d->positions));
    if (cache->key_scales >= 0) {
        sw_builder_in(b, op, sw_builder_ref(b, cache->key_scales));
        sw_builder_in(b, op, sw_builder_ref(b, cache->value_scales));
    }
    if (gathers && m->sinks)
        sw_builder_in(b, op, sw_builder_ref(b, d->w[SW_W_SINKS]));
    b->program->ops[op].as.attention = (struct sw_attention_attributes){
        .scale = sw_decoder_score_scale(m),
        .head_dim = m->head_dim,
        .group = (int32_t)d->sizes.of[SW_SIZE_GROUP],
        .sink = gathers && m->sinks,
        .window = sw_decoder_window(d),
        .softcap = m->attention_softcap,
        .keys = gathers ? SW_KEYS_CACHE : SW_KEYS_CACHE_PART,
        .sequence_layout = -1,
        .chunk = (int32_t)b->options->serving.chunk,
        .parts = gathers ? (int32_t)d->sizes.of[SW_SIZE_PARTS] : 0};
    if (gathers)
        return sw_build_result(b, op, b->options->compute, 3,
                               &(struct sw_made){"o", merged, n, false});
    const int32_t o = sw_build_result(b, op, wide, 4, &(struct sw_made){"parts", parts, n, false});
    const int32_t ml =
        sw_build_result(b, op, wide, 4, &(struct sw_made){"softmax", stats, n, false});
    op = sw_build_apply(b, SW_OP_SOFTMAX_MERGE, o, ml);
    if (m->sinks)
        sw_builder_in(b, op, sw_builder_ref(b, d->w[SW_W_SINKS]));
    b->program->ops[op].as.merge.sink = m->sinks;
    return sw_build_result(b, op, b->options->compute, 3, &(struct sw_made){"o", merged, n, false});
}

/* ---- Behind the layers ---- */

/* Makes an output whole on every rank, for the host. */
static void publish(struct sw_decoder *d, const char *name, int32_t value)
{
    struct sw_builder *b = d->b;
    const struct sw_value made = b->program->values[value];
    const struct sw_dim dims[2] = {{SW_L_NONE, made.size[0], 1, (enum sw_size)made.symbol[0]},
                                   {SW_L_NONE, made.size[1], 1, SW_SIZE_FIXED}};
    const int32_t everywhere =
        sw_build_result(b, sw_build_apply(b, SW_OP_CONSTRAIN, value, -1), made.dtype, 2,
                        &(struct sw_made){"everywhere", dims, 1, false});
    const int32_t out = sw_build_result(b, sw_build_apply(b, SW_OP_CAST, everywhere, -1),
                                        made.dtype, 2, &(struct sw_made){name, dims, 1, false});
    b->program->values[out].role = SW_ROLE_ACCUMULATOR; /* read after the run */
    sw_builder_port(b, &b->program->outputs, name, out);
}

/* The next token of every sampled row. */
static void add_sampling(struct sw_decoder *d)
{
    struct sw_builder *b = d->b;
    const struct sw_model *m = &b->options->model;
    const enum sw_dtype wide = sw_accumulate_dtype(b->options->compute);
    const bool mixes = b->options->serving.mixes;
    const struct sw_dim some = {SW_L_BATCH, d->sizes.of[SW_SIZE_SAMPLED], 1, SW_SIZE_SAMPLED};
    const struct sw_dim rows = mixes ? some : d->batch;
    const struct sw_dim one = {SW_L_NONE, 1, 1, SW_SIZE_FIXED};
    const struct sw_dim last[3] = {rows, one, d->residual[2]};
    const struct sw_dim logits[3] = {rows, one, {SW_L_VOCAB, m->vocab_size, 1, SW_SIZE_FIXED}};
    const struct sw_dim pair[2] = {rows, {SW_L_NONE, 2, 1, SW_SIZE_FIXED}};
    const struct sw_dim numbers[2] = {rows, {SW_L_NONE, SW_SAMPLED_NUMBERS, 1, SW_SIZE_FIXED}};
    const struct sw_dim words = {SW_L_NONE, sw_sampling_words(m->vocab_size), 1, SW_SIZE_FIXED};
    const struct sw_dim fields = {SW_L_NONE, SW_SAMPLING_SETTINGS, 1, SW_SIZE_FIXED};
    const struct sw_dim entries = {
        SW_L_NONE,
        SW_ADJUSTMENT_NUMBERS *
            sw_sampling_adjustments(m->vocab_size, b->options->serving.max_tokens),
        1, SW_SIZE_FIXED};
    const struct sw_dim bits[2] = {rows, words}, wants[2] = {rows, fields};
    const struct sw_dim changes[2] = {rows, entries};
    const int32_t seen = sw_decoder_input(b, "seen", SW_I32, 2, bits);
    const int32_t settings = sw_decoder_input(b, "settings", SW_F32, 2, wants);
    const int32_t adjustments = sw_decoder_input(b, "adjustments", SW_F32, 2, changes);
    sw_builder_region(b, "head", SW_PHASE_FORWARD, 1, false);
    int32_t op = sw_builder_op(b, SW_OP_PICK_TOKEN, SW_STAGE_MODEL);
    sw_builder_in(b, op, sw_decoder_output(d));
    sw_builder_in(b, op, sw_builder_ref(b, d->positions));
    if (mixes)
        sw_builder_in(b, op, sw_builder_ref(b, settings));
    const int32_t picked =
        sw_build_result(b, op, b->options->compute, 3, &(struct sw_made){"last", last, 1, false});
    const int32_t n = sw_decoder_final_norm(d, sw_builder_ref(b, picked), last);
    const int32_t made = sw_build_logits(b, n, d->w[SW_W_HEAD], wide, logits);
    op = sw_build_apply(b, SW_OP_SAMPLE, made, seen);
    sw_builder_in(b, op, sw_builder_ref(b, settings));
    sw_builder_in(b, op, sw_builder_ref(b, adjustments));
    const int32_t choice =
        sw_build_result(b, op, wide, 2, &(struct sw_made){"choice", pair, 1, false});
    op = sw_build_apply(b, SW_OP_TOP_TOKENS, made, settings);
    sw_builder_in(b, op, sw_builder_ref(b, choice));
    publish(d, "sampled",
            sw_build_result(b, op, wide, 2, &(struct sw_made){"top", numbers, 1, false}));
}

/* The log-probability of every token's label. */
static void add_scores(struct sw_decoder *d)
{
    struct sw_builder *b = d->b;
    const enum sw_dtype wide = sw_accumulate_dtype(b->options->compute);
    const struct sw_dim tokens[2] = {d->batch, d->seq};
    const int32_t labels = sw_decoder_input(b, "labels", SW_I32, 2, tokens);
    sw_builder_region(b, "head", SW_PHASE_FORWARD, 1, false);
    const int32_t n = sw_decoder_final_norm(d, sw_decoder_output(d), d->residual);
    int32_t stats;
    (void)sw_decoder_head(d, SW_OP_LM_HEAD_STATS, n, labels, &stats);
    const int32_t op = sw_build_apply(b, SW_OP_LM_HEAD_LOGPROBS, stats, labels);
    publish(d, "logprobs",
            sw_build_result(b, op, wide, 2, &(struct sw_made){"token logprobs", tokens, 1, false}));
}

int sw_build_cached(struct sw_builder *b, struct sw_error *err)
{
    const struct sw_program_options *o = b->options;
    struct sw_program_options lie = *o; /* shards weights alike in every program */
    const struct sw_model *m = &o->model;
    const struct sw_dim width = {SW_L_MERGED_HEADS, m->heads * m->head_dim, 1, SW_SIZE_FIXED};
    struct cache caches[SW_MOST_PERIOD];
    struct sw_decoder d;
    sw_decoder_begin(b, &d);
    d.attend = attend;
    d.site = caches;
    lie.rules = o->serving.weights;
    b->options = &lie;
    sw_decoder_weights(&d, o->compute, o->serving.matrices, width, false);
    b->options = o;
    add_caches(&d, caches);
    const struct sw_dim tokens[2] = {d.batch, {SW_L_NONE, d.seq.size, 1, SW_SIZE_FIXED}};
    const struct sw_dim slots[2] = {d.batch, {SW_L_NONE, SW_SLOT_FIELDS, 1, SW_SIZE_FIXED}};
    const int32_t input = sw_decoder_input(b, "tokens", SW_I32, 2, tokens);
    d.slots = true;
    d.positions = sw_decoder_input(b, "slots", SW_I32, 2, slots);
    sw_decoder_layers(&d, input);
    if (o->kind == SW_PROGRAM_SCORE)
        add_scores(&d);
    else
        add_sampling(&d);
    if (b->failed)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while building the program");
    return 0;
}
