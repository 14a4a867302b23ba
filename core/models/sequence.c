/* Decoders over whole sequences, for train and evaluate: attention along the ring, and the loss. */
#include "core/base/quantize.h"
#include "core/models/decoder.h"

#include <math.h>

/* Inputs with the segments of queries and of keys; tokens see their own segment only. */
static const char *const segments[] = {"segments", "key segments"};

static int32_t attend(struct sw_decoder *d, int32_t q, int32_t k, int32_t v, int32_t n)
{
    struct sw_builder *b = d->b;
    struct sw_program *p = b->program;
    const struct sw_model *m = &b->options->model;
    const enum sw_dtype c = b->options->compute;
    const int32_t copies = (int32_t)d->sizes.of[SW_SIZE_COPIES];
    const int64_t dim = m->head_dim, s = p->sequence_length, kv_size = d->sizes.of[SW_SIZE_KV];
    const enum sw_size kv_symbol = copies > 1 ? SW_SIZE_KV : SW_SIZE_FIXED;
    const struct sw_dim aseq = {SW_L_ATTN_SEQ, s, 1, SW_SIZE_FIXED};
    const struct sw_dim kseq = {SW_L_KEY_SEQ, s, 1, SW_SIZE_FIXED};
    const struct sw_dim heads[3] = {
        d->batch, d->seq, {SW_L_HEADS, m->heads * dim, dim, SW_SIZE_FIXED}};
    const struct sw_dim copied[3] = {d->batch, d->seq, {SW_L_HEADS, kv_size, dim, kv_symbol}};
    const struct sw_dim q_in[3] = {
        d->batch, aseq, {SW_L_ATTN_HEADS, m->heads * dim, dim, SW_SIZE_FIXED}};
    const struct sw_dim k_in[3] = {d->batch, kseq, {SW_L_ATTN_HEADS, kv_size, dim, kv_symbol}};
    const struct sw_dim lse[3] = {d->batch, aseq, {SW_L_ATTN_HEADS, m->heads, 1, SW_SIZE_FIXED}};
    k = sw_build_replicate(b, k, copies, (struct sw_made){"k2", copied, n, true});
    v = sw_build_replicate(b, v, copies, (struct sw_made){"v2", copied, n, true});
    q = sw_build_constrain(b, q, (struct sw_made){"q", q_in, n, false});
    k = sw_build_constrain(b, k, (struct sw_made){"k", k_in, n, false});
    v = sw_build_constrain(b, v, (struct sw_made){"v", k_in, n, false});
    const int32_t op = sw_build_apply(b, SW_OP_ATTENTION, q, k);
    sw_builder_in(b, op, sw_builder_ref(b, v));
    for (int i = 0; b->options->segments && i < 2; i++)
        sw_builder_in(b, op, sw_builder_ref(b, sw_program_input(p, segments[i])));
    if (m->sinks)
        sw_builder_in(b, op, sw_builder_ref(b, d->w[SW_W_SINKS]));
    p->ops[op].as.attention = (struct sw_attention_attributes){
        .scale = sw_decoder_score_scale(m),
        .head_dim = m->head_dim,
        .group = (int32_t)d->sizes.of[SW_SIZE_GROUP],
        .sink = m->sinks,
        .window = sw_decoder_window(d),
        .halo = b->options->target.halos && sw_decoder_window(d) > 0,
        .softcap = m->attention_softcap,
        .segments = b->options->segments,
        .sequence_shards = p->sequence_shards,
        .sequence_layout = (int32_t)p->sequence_layout,
        .bf16_hops = b->options->ring == SW_BF16_T,
        .inner_ring = (int32_t)d->sizes.of[SW_SIZE_INNER]};
    const int32_t o = sw_build_result(b, op, c, 3, &(struct sw_made){"o", q_in, n, true});
    sw_build_result(b, op, sw_accumulate_dtype(c), 3, &(struct sw_made){"lse", lse, n, true});
    return sw_build_constrain(b, o, (struct sw_made){"o1", heads, n, false});
}

static void add_loss(struct sw_decoder *d)
{
    struct sw_builder *b = d->b;
    struct sw_program *p = b->program;
    const enum sw_dtype wide = sw_accumulate_dtype(b->options->compute);
    const struct sw_dim logits[3] = {
        d->batch, d->seq, {SW_L_VOCAB, b->options->model.vocab_size, 1, SW_SIZE_FIXED}};
    const struct sw_dim tokens[2] = {d->batch, d->seq};
    const struct sw_dim scalar[1] = {{SW_L_NONE, 1, 1, SW_SIZE_FIXED}};
    const int32_t labels = sw_program_input(p, "labels");

    sw_builder_region(b, "head", SW_PHASE_FORWARD, 1, false);
    const int32_t n = sw_decoder_final_norm(d, sw_decoder_output(d), d->residual);
    if (b->options->logits) {
        const int32_t value =
            sw_build_logits(b, n, sw_build_table(b, d->w[SW_W_HEAD]), b->options->compute, logits);
        p->values[value].role = SW_ROLE_ACCUMULATOR; /* read after the step */
        sw_builder_port(b, &p->outputs, "logits", value);
    }
    const struct sw_ref loss = sw_builder_ref(b, sw_program_output(p, "loss"));
    int32_t stats;
    const int32_t op = sw_decoder_head(d, SW_OP_LM_HEAD, n, labels, &stats);
    sw_builder_in(b, op, loss);
    sw_build_result(b, op, wide, 1, &(struct sw_made){"micro loss", scalar, 1, false});
    sw_build_result(b, op, wide, 2, &(struct sw_made){"token lse", tokens, 1, false});
    sw_builder_out(b, op, loss);
}

int sw_build_sequence(struct sw_builder *b, struct sw_error *err)
{
    const struct sw_program_options *o = b->options;
    const struct sw_model *m = &o->model;
    const struct sw_dim scalar[1] = {{SW_L_NONE, 1, 1, SW_SIZE_FIXED}};
    const struct sw_dim width = {SW_L_HEADS, m->heads * m->head_dim, m->head_dim, SW_SIZE_FIXED};
    struct sw_decoder d;
    sw_decoder_begin(b, &d);
    d.attend = attend;
    const struct sw_dim dims[2] = {d.batch, d.seq};
    const int32_t tokens = sw_decoder_input(b, "tokens", SW_I32, 2, dims);
    (void)sw_decoder_input(b, "labels", SW_I32, 2, dims);
    d.positions = o->row_positions ? sw_decoder_input(b, "positions", SW_I32, 2, dims)
                                   : sw_decoder_input(b, "positions", SW_I32, 1, &dims[1]);
    if (o->segments) {
        const struct sw_dim all[2] = {d.batch, {SW_L_NONE, d.seq.size, 1, SW_SIZE_FIXED}};
        (void)sw_decoder_input(b, segments[0], SW_I32, 2, dims);
        (void)sw_decoder_input(b, segments[1], SW_I32, 2, all);
    }
    const enum sw_dtype of_layers =
        sw_lora_is_set(&o->lora) ? (enum sw_dtype)o->lora.base : o->params;
    sw_decoder_weights(&d, sw_has_scales(of_layers) ? o->compute : of_layers, of_layers, width,
                       true);
    sw_builder_port(b, &b->program->outputs, "loss",
                    sw_builder_value(b, "loss", SW_ROLE_ACCUMULATOR,
                                     sw_accumulate_dtype(o->compute), 1, scalar, 1));
    sw_decoder_layers(&d, tokens);
    add_loss(&d);
    if (b->failed)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while building the program");
    return 0;
}
