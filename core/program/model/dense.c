/* The forward pass of a dense decoder as ops on logical values: pre-norm blocks with RMSNorm,
 * rotary positions, grouped-query attention and SwiGLU, tied or untied head. Llama (Touvron et al.
 * 2023, Grattafiori et al. 2024) and Mistral (Jiang et al. 2023) are this; Qwen2 (Yang et al. 2024)
 * adds biases to q, k and v, Qwen3 (Yang et al. 2025) norms to the heads of q and k: struct
 * sw_model says which of these a model has. */
#include "core/program/model/model.h"

#include <math.h>

/* Value indices; -1: the model has none. */
struct layer_weights {
    int32_t attention_norm, wq, wk, wv, wo, mlp_norm, w_gate, w_up, w_down;
    int32_t bq, bk, bv, bo, b_gate, b_up, b_down, q_norm, k_norm;
};

static void layer_region(struct sw_builder *b, const char *name, enum sw_layer_part part, int32_t x,
                         const struct layer_weights *w)
{
    const struct sw_model *m = &b->options->model;
    struct sw_program *p = b->program;
    struct sw_sizes sizes;
    sw_sizes_of(b->options, &sizes);
    const enum sw_dtype c = b->options->compute;
    sw_builder_layers(b, name, part);
    p->regions[b->region].carry = x;
    const int32_t n = p->regions[b->region].repeat;
    const int32_t copies = (int32_t)sizes.of[SW_SIZE_COPIES];
    const int64_t d = m->head_dim, s = p->sequence_length, q_size = m->heads * d;
    const enum sw_size kv_symbol = copies > 1 ? SW_SIZE_KV : SW_SIZE_FIXED;
    const int64_t kv_size = sizes.of[SW_SIZE_KV];
    const struct sw_dim batch = {SW_L_BATCH, p->micro_batch, 1, SW_SIZE_BATCH};
    const struct sw_dim seq = {SW_L_SEQ, s, 1, SW_SIZE_FIXED};
    const struct sw_dim aseq = {SW_L_ATTN_SEQ, s, 1, SW_SIZE_FIXED};
    const struct sw_dim kseq = {SW_L_KEY_SEQ, s, 1, SW_SIZE_FIXED};
    const struct sw_dim residual[3] = {batch,
                                       {SW_L_RESIDUAL_SEQ, s, 1, SW_SIZE_FIXED},
                                       {SW_L_ACT_EMBED, m->hidden_size, 1, SW_SIZE_FIXED}};
    const struct sw_dim heads[3] = {batch, seq, {SW_L_HEADS, q_size, d, SW_SIZE_FIXED}};
    const enum sw_logical kv_axis = (enum sw_logical)p->values[w->wk].axis[1];
    const struct sw_dim kv[3] = {batch, seq, {kv_axis, m->kv_heads * d, d, SW_SIZE_FIXED}};
    const struct sw_dim kv_copied[3] = {batch, seq, {SW_L_HEADS, kv_size, d, kv_symbol}};
    const struct sw_dim q_in[3] = {batch, aseq, {SW_L_ATTN_HEADS, q_size, d, SW_SIZE_FIXED}};
    const struct sw_dim k_in[3] = {batch, kseq, {SW_L_ATTN_HEADS, kv_size, d, kv_symbol}};
    const struct sw_dim lse[3] = {batch, aseq, {SW_L_ATTN_HEADS, m->heads, 1, SW_SIZE_FIXED}};
    const struct sw_dim mlp[3] = {batch, seq, {SW_L_MLP, m->intermediate_size, 1, SW_SIZE_FIXED}};

    const struct sw_ref x_in = {x, SW_INDEX_LAYER, 0}, x_out = {x, SW_INDEX_LAYER, 1};

    const int32_t n1 =
        sw_build_norm(b, x_in, w->attention_norm, (struct sw_made){"n1", residual, n});
    int32_t q = sw_build_linear(b, false, n1, w->wq, w->bq, (struct sw_made){"q0", heads, n});
    int32_t k = sw_build_linear(b, false, n1, w->wk, w->bk, (struct sw_made){"k0", kv, n});
    int32_t v = sw_build_linear(b, false, n1, w->wv, w->bv, (struct sw_made){"v0", kv, n});
    q = sw_build_head_norm(b, q, w->q_norm, (struct sw_made){"qn", heads, n});
    k = sw_build_head_norm(b, k, w->k_norm, (struct sw_made){"kn", kv, n});
    const int32_t positions = sw_program_input(p, "positions");
    q = sw_build_rope(b, q, positions, (struct sw_made){"q1", heads, n});
    k = sw_build_rope(b, k, positions, (struct sw_made){"k1", kv, n});
    k = sw_build_replicate(b, k, copies, (struct sw_made){"k2", kv_copied, n});
    v = sw_build_replicate(b, v, copies, (struct sw_made){"v2", kv_copied, n});
    q = sw_build_constrain(b, q, (struct sw_made){"q", q_in, n});
    k = sw_build_constrain(b, k, (struct sw_made){"k", k_in, n});
    v = sw_build_constrain(b, v, (struct sw_made){"v", k_in, n});
    const int32_t attend = sw_build_apply(b, SW_OP_ATTENTION, q, k);
    sw_builder_in(b, attend, sw_builder_ref(b, v));
    p->ops[attend].as.attention =
        (struct sw_attention_attributes){.scale = 1.0 / sqrt((double)d),
                                         .head_dim = m->head_dim,
                                         .group = (int32_t)sizes.of[SW_SIZE_GROUP],
                                         .sequence_shards = p->sequence_shards,
                                         .sequence_layout = (int32_t)p->sequence_layout};
    const int32_t o = sw_build_result(b, attend, c, 3, &(struct sw_made){"o", q_in, n});
    sw_build_result(b, attend, sw_accumulate_dtype(c), 3, &(struct sw_made){"lse", lse, n});
    const int32_t back = sw_build_constrain(b, o, (struct sw_made){"o1", heads, n});
    const int32_t a =
        sw_build_linear(b, true, back, w->wo, w->bo, (struct sw_made){"a", residual, n});
    const int32_t mid = sw_builder_value(b, "y", SW_ROLE_ACTIVATION, c, 3, residual, n);
    sw_build_add_into(b, x_in, a, sw_builder_ref(b, mid));

    const int32_t n2 =
        sw_build_norm(b, sw_builder_ref(b, mid), w->mlp_norm, (struct sw_made){"n2", residual, n});
    const int32_t gate =
        sw_build_linear(b, false, n2, w->w_gate, w->b_gate, (struct sw_made){"gate", mlp, n});
    const int32_t up =
        sw_build_linear(b, false, n2, w->w_up, w->b_up, (struct sw_made){"up", mlp, n});
    const int32_t h = sw_build_result(b, sw_build_apply(b, SW_OP_SWIGLU, gate, up), c, 3,
                                      &(struct sw_made){"h", mlp, n});
    const int32_t down =
        sw_build_linear(b, true, h, w->w_down, w->b_down, (struct sw_made){"m", residual, n});
    sw_build_add_into(b, sw_builder_ref(b, mid), down, x_out);
}

static void head_region(struct sw_builder *b, int32_t x, int32_t final_norm, int32_t head)
{
    const struct sw_model *m = &b->options->model;
    struct sw_program *p = b->program;
    struct sw_sizes sizes;
    sw_sizes_of(b->options, &sizes);
    const enum sw_dtype wide = sw_accumulate_dtype(b->options->compute);
    const int64_t s = p->sequence_length;
    const struct sw_dim batch = {SW_L_BATCH, p->micro_batch, 1, SW_SIZE_BATCH};
    const struct sw_dim seq = {SW_L_SEQ, s, 1, SW_SIZE_FIXED};
    const struct sw_dim residual[3] = {batch,
                                       {SW_L_RESIDUAL_SEQ, s, 1, SW_SIZE_FIXED},
                                       {SW_L_ACT_EMBED, m->hidden_size, 1, SW_SIZE_FIXED}};
    const struct sw_dim stats[3] = {
        batch, seq, {SW_L_VOCAB, sizes.of[SW_SIZE_STATS], SW_STATS_PER_SHARD, SW_SIZE_STATS}};
    const struct sw_dim logits[3] = {batch, seq, {SW_L_VOCAB, m->vocab_size, 1, SW_SIZE_FIXED}};
    const struct sw_dim tokens[2] = {batch, seq};
    const struct sw_dim scalar[1] = {{SW_L_NONE, 1, 1, SW_SIZE_FIXED}};
    const int32_t labels = sw_program_input(p, "labels");

    sw_builder_region(b, "head", SW_PHASE_FORWARD, 1, false);
    const struct sw_ref x_last = {x, SW_INDEX_FIXED, (int16_t)p->layers};
    const int32_t n = sw_build_norm(b, x_last, final_norm, (struct sw_made){"nf", residual, 1});
    const int32_t w = sw_build_weight(b, head);
    if (b->options->logits) {
        const int32_t value =
            sw_build_result(b, sw_build_apply(b, SW_OP_LINEAR_T, n, w), b->options->compute, 3,
                            &(struct sw_made){"logits", logits, 1});
        p->values[value].role = SW_ROLE_ACCUMULATOR; /* read after the step */
        sw_builder_port(b, &p->outputs, "logits", value);
    }
    int32_t op = sw_build_apply(b, SW_OP_LM_HEAD_STATS, n, w);
    sw_builder_in(b, op, sw_builder_ref(b, labels));
    const int32_t st = sw_build_result(b, op, wide, 3, &(struct sw_made){"stats", stats, 1});
    op = sw_build_apply(b, SW_OP_LM_HEAD_LOSS, st, labels);
    const int32_t micro =
        sw_build_result(b, op, wide, 1, &(struct sw_made){"micro loss", scalar, 1});
    sw_build_result(b, op, wide, 2, &(struct sw_made){"token lse", tokens, 1});
    const struct sw_ref loss = sw_builder_ref(b, sw_program_output(p, "loss"));
    op = sw_builder_op(b, SW_OP_ACCUMULATE, SW_STAGE_MODEL);
    sw_builder_in(b, op, loss);
    sw_builder_in(b, op, sw_builder_ref(b, micro));
    sw_builder_out(b, op, loss);
    p->ops[op].as.accumulate.first = true;
}

/* Weights start normal and decay, norms at one, biases at zero; neither of those decays. */
static int32_t matrix(struct sw_builder *b, const char *name, const struct sw_dim dims[2],
                      int32_t stack)
{
    return sw_build_parameter(b, name, 2, dims, stack, SW_INITIAL_NORMAL, true);
}

static int32_t scale(struct sw_builder *b, const char *name, const struct sw_dim *dim,
                     int32_t stack)
{
    return sw_build_parameter(b, name, 1, dim, stack, SW_INITIAL_ONES, false);
}

static int32_t bias(struct sw_builder *b, bool wanted, const char *name, const struct sw_dim *dim)
{
    return wanted ? sw_build_parameter(b, name, 1, dim, b->program->layers, SW_INITIAL_ZEROS, false)
                  : -1;
}

int sw_build_dense(struct sw_builder *b, struct sw_error *err)
{
    const struct sw_program_options *o = b->options;
    const struct sw_model *m = &o->model;
    struct sw_program *p = b->program;
    const int64_t d = m->head_dim, s = p->sequence_length;
    const struct sw_dim tokens[2] = {{SW_L_BATCH, p->micro_batch, 1, SW_SIZE_BATCH},
                                     {SW_L_SEQ, s, 1, SW_SIZE_FIXED}};
    const struct sw_dim scalar[1] = {{SW_L_NONE, 1, 1, SW_SIZE_FIXED}};
    sw_builder_port(b, &p->inputs, "tokens",
                    sw_builder_value(b, "tokens", SW_ROLE_INPUT, SW_I32, 2, tokens, 1));
    sw_builder_port(b, &p->inputs, "labels",
                    sw_builder_value(b, "labels", SW_ROLE_INPUT, SW_I32, 2, tokens, 1));
    sw_builder_port(b, &p->inputs, "positions",
                    sw_builder_value(b, "positions", SW_ROLE_INPUT, SW_I32, 1, &tokens[1], 1));

    /* kv heads that tp cannot split stay whole and are copied after the projection */
    const bool split_kv = m->kv_heads % sw_axes_size(&p->mesh, o->rules.axes[SW_L_KV_HEADS]) == 0;
    const struct sw_dim embed = {SW_L_EMBED, m->hidden_size, 1, SW_SIZE_FIXED};
    const struct sw_dim q_width = {SW_L_HEADS, m->heads * d, d, SW_SIZE_FIXED};
    const struct sw_dim kv_width = {split_kv ? SW_L_KV_HEADS : SW_L_NONE, m->kv_heads * d, d,
                                    SW_SIZE_FIXED};
    const struct sw_dim mlp_width = {SW_L_MLP, m->intermediate_size, 1, SW_SIZE_FIXED};
    const struct sw_dim width = {SW_L_ACT_EMBED, m->hidden_size, 1, SW_SIZE_FIXED};
    const struct sw_dim head_width = {SW_L_NONE, d, 1, SW_SIZE_FIXED};
    const struct sw_dim table[2] = {{SW_L_VOCAB, m->vocab_size, 1, SW_SIZE_FIXED}, embed};
    const struct sw_dim heads[2] = {embed, q_width}, kv[2] = {embed, kv_width};
    const struct sw_dim mlp[2] = {embed, mlp_width};
    const int32_t n = p->layers;
    const int32_t embedding = matrix(b, "embedding", table, 1);
    struct layer_weights w;
    w.attention_norm = scale(b, "attention_norm", &width, n);
    w.wq = matrix(b, "wq", heads, n);
    w.wk = matrix(b, "wk", kv, n);
    w.wv = matrix(b, "wv", kv, n);
    w.wo = matrix(b, "wo", heads, n);
    w.mlp_norm = scale(b, "mlp_norm", &width, n);
    w.w_gate = matrix(b, "w_gate", mlp, n);
    w.w_up = matrix(b, "w_up", mlp, n);
    w.w_down = matrix(b, "w_down", mlp, n);
    const int32_t final_norm = scale(b, "final_norm", &width, 1);
    const int32_t head = m->tied ? embedding : matrix(b, "head", table, 1);
    w.bq = bias(b, m->qkv_bias, "bq", &q_width);
    w.bk = bias(b, m->qkv_bias, "bk", &kv_width);
    w.bv = bias(b, m->qkv_bias, "bv", &kv_width);
    w.bo = bias(b, m->output_bias, "bo", &width);
    w.b_gate = bias(b, m->mlp_bias, "b_gate", &mlp_width);
    w.b_up = bias(b, m->mlp_bias, "b_up", &mlp_width);
    w.b_down = bias(b, m->mlp_bias, "b_down", &width);
    w.q_norm = m->qk_norm ? scale(b, "q_norm", &head_width, n) : -1;
    w.k_norm = m->qk_norm ? scale(b, "k_norm", &head_width, n) : -1;
    sw_builder_port(b, &p->outputs, "loss",
                    sw_builder_value(b, "loss", SW_ROLE_ACCUMULATOR,
                                     sw_accumulate_dtype(o->compute), 1, scalar, 1));

    const struct sw_dim residual[3] = {tokens[0], {SW_L_RESIDUAL_SEQ, s, 1, SW_SIZE_FIXED}, width};
    const int32_t x = sw_builder_value(b, "x", SW_ROLE_ACTIVATION, o->compute, 3, residual, n + 1);
    p->values[x].carried = true;
    sw_builder_region(b, "embed", SW_PHASE_FORWARD, 1, false);
    const int32_t op = sw_build_apply(b, SW_OP_EMBEDDING, sw_program_input(p, "tokens"),
                                      sw_build_weight(b, embedding));
    sw_builder_out(b, op, (struct sw_ref){x, SW_INDEX_FIXED, 0});
    if (sw_first_layers(o) == 0) {
        layer_region(b, "layer", SW_LAYERS_WHOLE, x, &w);
    } else {
        layer_region(b, "first layers", SW_LAYERS_FIRST, x, &w);
        layer_region(b, "last layers", SW_LAYERS_LAST, x, &w);
    }
    head_region(b, x, final_norm, head);
    if (b->failed)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while building the program");
    return 0;
}
