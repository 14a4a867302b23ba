/* The forward pass of a Llama-style transformer as ops on logical values (Touvron et al. 2023):
 * pre-norm blocks with RMSNorm, rotary positions, grouped-query attention and SwiGLU; tied or
 * untied head. */
#include "core/program/builder.h"

#include <math.h>
#include <string.h>

struct layer_weights {
    int32_t attention_norm, wq, wk, wv, wo, mlp_norm, w_gate, w_up, w_down;
};

/* Copies of each kv head so that the heads inside attention, and the projections, can be split. */
int32_t sw_kv_copies(const struct sw_program_options *o)
{
    int32_t ways = sw_axes_size(&o->mesh, o->rules.axes[SW_L_ATTN_HEADS]);
    int32_t heads_ways = sw_axes_size(&o->mesh, o->rules.axes[SW_L_HEADS]);
    if (heads_ways > ways)
        ways = heads_ways;
    return o->model.kv_heads % ways == 0 ? 1 : ways / o->model.kv_heads;
}

static int32_t apply(struct sw_builder *b, enum sw_op_kind kind, int32_t x, int32_t w)
{
    int32_t op = sw_builder_op(b, kind, SW_STAGE_MODEL);
    sw_builder_in(b, op, sw_builder_ref(b, x));
    if (w >= 0)
        sw_builder_in(b, op, sw_builder_ref(b, w));
    return op;
}

static int32_t result(struct sw_builder *b, int32_t op, const char *name, enum sw_dtype dtype,
                      uint8_t ndim, const struct sw_dim *dims, int32_t stack)
{
    int32_t value = sw_builder_value(b, name, SW_ROLE_ACTIVATION, dtype, ndim, dims, stack);
    sw_builder_out(b, op, sw_builder_ref(b, value));
    return value;
}

/* A matrix in the compute precision: the parameter itself or its cast, made in the region that uses
 * it. */
static int32_t weight(struct sw_builder *b, int32_t parameter)
{
    enum sw_dtype compute = b->options->compute;
    if (b->program->values[parameter].dtype == compute)
        return parameter;
    int32_t op = apply(b, SW_OP_CAST, parameter, -1);
    int32_t value =
        sw_builder_value_like(b, parameter, "c ", compute, b->program->values[parameter].stack);
    sw_builder_out(b, op, sw_builder_ref(b, value));
    return value;
}

static int32_t norm(struct sw_builder *b, struct sw_ref x, int32_t w, const char *name,
                    const struct sw_dim dims[3], int32_t stack)
{
    int32_t op = sw_builder_op(b, SW_OP_RMSNORM, SW_STAGE_MODEL);
    sw_builder_in(b, op, x);
    sw_builder_in(b, op, sw_builder_ref(b, w));
    b->program->ops[op].scale = b->options->model.rms_norm_eps;
    return result(b, op, name, b->options->compute, 3, dims, stack);
}

static int32_t rope(struct sw_builder *b, int32_t x, int32_t positions, const char *name,
                    const struct sw_dim dims[3], int32_t stack)
{
    int32_t op = apply(b, SW_OP_ROPE, x, positions);
    b->program->ops[op].head_dim = b->options->model.head_dim;
    b->program->ops[op].scale = b->options->model.rope.theta;
    return result(b, op, name, b->options->compute, 3, dims, stack);
}

static int32_t constrain(struct sw_builder *b, int32_t x, const char *name,
                         const struct sw_dim dims[3], int32_t stack)
{
    int32_t op = apply(b, SW_OP_CONSTRAIN, x, -1);
    return result(b, op, name, b->program->values[x].dtype, 3, dims, stack);
}

static int32_t replicate(struct sw_builder *b, int32_t x, int32_t copies, const char *name,
                         const struct sw_dim dims[3], int32_t stack)
{
    if (copies == 1)
        return x;
    int32_t op = apply(b, SW_OP_REPLICATE_HEADS, x, -1);
    b->program->ops[op].head_dim = b->options->model.head_dim;
    b->program->ops[op].group = copies;
    return result(b, op, name, b->options->compute, 3, dims, stack);
}

static void layer_region(struct sw_builder *b, int32_t x, const struct layer_weights *w)
{
    const struct sw_program_options *o = b->options;
    struct sw_program *p = b->program;
    const enum sw_dtype c = o->compute;
    const int32_t n = p->layers;
    const int64_t d = o->model.head_dim, s = p->sequence_length;
    const int32_t copies = sw_kv_copies(o);
    const struct sw_dim batch = {SW_L_BATCH, p->micro_batch, 1}, seq = {SW_L_SEQ, s, 1};
    const struct sw_dim aseq = {SW_L_ATTN_SEQ, s, 1}, kseq = {SW_L_KEY_SEQ, s, 1};
    const struct sw_dim residual[3] = {
        batch, {SW_L_RESIDUAL_SEQ, s, 1}, {SW_L_ACT_EMBED, o->model.hidden_size, 1}};
    const struct sw_dim heads[3] = {batch, seq, {SW_L_HEADS, o->model.heads * d, d}};
    const struct sw_dim kv[3] = {
        batch, seq, {(enum sw_logical)p->values[w->wk].axis[1], o->model.kv_heads * d, d}};
    const struct sw_dim kv_copied[3] = {
        batch, seq, {SW_L_HEADS, o->model.kv_heads * d * copies, d}};
    const struct sw_dim q_in[3] = {batch, aseq, {SW_L_ATTN_HEADS, o->model.heads * d, d}};
    const struct sw_dim k_in[3] = {
        batch, kseq, {SW_L_ATTN_HEADS, o->model.kv_heads * d * copies, d}};
    const struct sw_dim lse[3] = {batch, aseq, {SW_L_ATTN_HEADS, o->model.heads, 1}};
    const struct sw_dim mlp[3] = {batch, seq, {SW_L_MLP, o->model.intermediate_size, 1}};

    sw_builder_region(b, "layer", SW_PHASE_FORWARD, n, false);
    const struct sw_ref x_in = {x, SW_INDEX_LAYER, 0}, x_out = {x, SW_INDEX_LAYER, 1};

    int32_t n1 = norm(b, x_in, w->attention_norm, "n1", residual, n);
    int32_t q = result(b, apply(b, SW_OP_LINEAR, n1, weight(b, w->wq)), "q0", c, 3, heads, n);
    int32_t k = result(b, apply(b, SW_OP_LINEAR, n1, weight(b, w->wk)), "k0", c, 3, kv, n);
    int32_t v = result(b, apply(b, SW_OP_LINEAR, n1, weight(b, w->wv)), "v0", c, 3, kv, n);
    q = rope(b, q, p->positions, "q1", heads, n);
    k = rope(b, k, p->positions, "k1", kv, n);
    k = replicate(b, k, copies, "k2", kv_copied, n);
    v = replicate(b, v, copies, "v2", kv_copied, n);
    q = constrain(b, q, "q", q_in, n);
    const int32_t k2 = k, v2 = v;
    k = constrain(b, k, "k", k_in, n);
    v = constrain(b, v, "v", k_in, n);
    p->values[k].copied = p->values[v].copied = copies > 1;
    p->values[k2].copied = p->values[v2].copied = copies > 1;
    int32_t op = apply(b, SW_OP_RING_ATTENTION, q, k);
    sw_builder_in(b, op, sw_builder_ref(b, v));
    p->ops[op].head_dim = o->model.head_dim;
    p->ops[op].group = o->model.heads / (o->model.kv_heads * copies);
    p->ops[op].scale = 1.0 / sqrt((double)d);
    p->ops[op].sequence_layout = (uint8_t)p->sequence_layout;
    p->ops[op].sequence_shards = p->sequence_shards;
    int32_t attended = result(b, op, "o", c, 3, q_in, n);
    result(b, op, "lse", sw_accumulate_dtype(c), 3, lse, n);
    int32_t back = constrain(b, attended, "o1", heads, n);
    int32_t a = result(b, apply(b, SW_OP_LINEAR_T, back, weight(b, w->wo)), "a", c, 3, residual, n);
    op = sw_builder_op(b, SW_OP_ADD, SW_STAGE_MODEL);
    sw_builder_in(b, op, x_in);
    sw_builder_in(b, op, sw_builder_ref(b, a));
    int32_t mid = result(b, op, "y", c, 3, residual, n);

    int32_t n2 = norm(b, sw_builder_ref(b, mid), w->mlp_norm, "n2", residual, n);
    int32_t gate =
        result(b, apply(b, SW_OP_LINEAR, n2, weight(b, w->w_gate)), "gate", c, 3, mlp, n);
    int32_t up = result(b, apply(b, SW_OP_LINEAR, n2, weight(b, w->w_up)), "up", c, 3, mlp, n);
    int32_t h = result(b, apply(b, SW_OP_SWIGLU, gate, up), "h", c, 3, mlp, n);
    int32_t m =
        result(b, apply(b, SW_OP_LINEAR_T, h, weight(b, w->w_down)), "m", c, 3, residual, n);
    op = apply(b, SW_OP_ADD, mid, m);
    sw_builder_out(b, op, x_out);
}

static void head_region(struct sw_builder *b, int32_t x, int32_t final_norm, int32_t head)
{
    const struct sw_program_options *o = b->options;
    struct sw_program *p = b->program;
    const enum sw_dtype wide = sw_accumulate_dtype(o->compute);
    const int64_t s = p->sequence_length;
    const int64_t shards = sw_axes_size(&p->mesh, o->rules.axes[SW_L_VOCAB]);
    const struct sw_dim batch = {SW_L_BATCH, p->micro_batch, 1}, seq = {SW_L_SEQ, s, 1};
    const struct sw_dim residual[3] = {
        batch, {SW_L_RESIDUAL_SEQ, s, 1}, {SW_L_ACT_EMBED, o->model.hidden_size, 1}};
    const struct sw_dim stats[3] = {
        batch, seq, {SW_L_VOCAB, SW_STATS_PER_SHARD * shards, SW_STATS_PER_SHARD}};
    const struct sw_dim logits[3] = {batch, seq, {SW_L_VOCAB, o->model.vocab_size, 1}};
    const struct sw_dim tokens[2] = {batch, seq};
    const struct sw_dim scalar[1] = {{SW_L_NONE, 1, 1}};

    sw_builder_region(b, "head", SW_PHASE_FORWARD, 1, false);
    const struct sw_ref x_last = {x, SW_INDEX_FIXED, p->layers};
    int32_t n = norm(b, x_last, final_norm, "nf", residual, 1);
    int32_t w = weight(b, head);
    if (o->logits) {
        p->logits = result(b, apply(b, SW_OP_LINEAR_T, n, w), "logits", o->compute, 3, logits, 1);
        p->values[p->logits].role = SW_ROLE_ACCUMULATOR; /* read after the step */
    }
    int32_t op = apply(b, SW_OP_LM_HEAD_STATS, n, w);
    sw_builder_in(b, op, sw_builder_ref(b, p->labels));
    int32_t st = result(b, op, "stats", wide, 3, stats, 1);
    op = apply(b, SW_OP_LM_HEAD_LOSS, st, p->labels);
    p->ops[op].scale = 1.0 / (double)p->tokens_per_step;
    int32_t loss = result(b, op, "micro loss", wide, 1, scalar, 1);
    result(b, op, "token lse", wide, 2, tokens, 1);
    op = sw_builder_op(b, SW_OP_ACCUMULATE, SW_STAGE_MODEL);
    sw_builder_in(b, op, sw_builder_ref(b, p->loss));
    sw_builder_in(b, op, sw_builder_ref(b, loss));
    sw_builder_out(b, op, sw_builder_ref(b, p->loss));
    p->ops[op].first = true;
}

int sw_build_transformer(struct sw_builder *b, struct sw_error *err)
{
    const struct sw_program_options *o = b->options;
    struct sw_program *p = b->program;
    const enum sw_dtype t = o->params;
    const int64_t e = o->model.hidden_size, d = o->model.head_dim;
    const struct sw_dim batch = {SW_L_BATCH, p->micro_batch, 1},
                        seq = {SW_L_SEQ, p->sequence_length, 1};
    const struct sw_dim tokens[2] = {batch, seq};
    const struct sw_dim scalar[1] = {{SW_L_NONE, 1, 1}};
    p->tokens = sw_builder_value(b, "tokens", SW_ROLE_INPUT, SW_I32, 2, tokens, 1);
    p->labels = sw_builder_value(b, "labels", SW_ROLE_INPUT, SW_I32, 2, tokens, 1);
    p->positions = sw_builder_value(b, "positions", SW_ROLE_INPUT, SW_I32, 1, &seq, 1);

    /* kv heads that tp cannot split stay whole and are copied after the projection */
    bool split_kv = o->model.kv_heads % sw_axes_size(&p->mesh, o->rules.axes[SW_L_KV_HEADS]) == 0;
    const struct sw_dim embed = {SW_L_EMBED, e, 1};
    const struct sw_dim table[2] = {{SW_L_VOCAB, o->model.vocab_size, 1}, embed};
    const struct sw_dim heads[2] = {embed, {SW_L_HEADS, o->model.heads * d, d}};
    const struct sw_dim kv[2] = {embed,
                                 {split_kv ? SW_L_KV_HEADS : SW_L_NONE, o->model.kv_heads * d, d}};
    const struct sw_dim mlp[2] = {embed, {SW_L_MLP, o->model.intermediate_size, 1}};
    const struct sw_dim scale[1] = {{SW_L_ACT_EMBED, e, 1}};
    const enum sw_role role = SW_ROLE_PARAMETER;
    const int32_t n = p->layers;
    int32_t embedding = sw_builder_value(b, "embedding", role, t, 2, table, 1);
    struct layer_weights w;
    w.attention_norm = sw_builder_value(b, "attention_norm", role, t, 1, scale, n);
    w.wq = sw_builder_value(b, "wq", role, t, 2, heads, n);
    w.wk = sw_builder_value(b, "wk", role, t, 2, kv, n);
    w.wv = sw_builder_value(b, "wv", role, t, 2, kv, n);
    w.wo = sw_builder_value(b, "wo", role, t, 2, heads, n);
    w.mlp_norm = sw_builder_value(b, "mlp_norm", role, t, 1, scale, n);
    w.w_gate = sw_builder_value(b, "w_gate", role, t, 2, mlp, n);
    w.w_up = sw_builder_value(b, "w_up", role, t, 2, mlp, n);
    w.w_down = sw_builder_value(b, "w_down", role, t, 2, mlp, n);
    int32_t final_norm = sw_builder_value(b, "final_norm", role, t, 1, scale, 1);
    int32_t head = o->model.tied ? embedding : sw_builder_value(b, "head", role, t, 2, table, 1);
    p->loss = sw_builder_value(b, "loss", SW_ROLE_ACCUMULATOR, sw_accumulate_dtype(o->compute), 1,
                               scalar, 1);

    const struct sw_dim residual[3] = {
        batch, {SW_L_RESIDUAL_SEQ, p->sequence_length, 1}, {SW_L_ACT_EMBED, e, 1}};
    int32_t x = sw_builder_value(b, "x", SW_ROLE_ACTIVATION, o->compute, 3, residual, n + 1);
    sw_builder_region(b, "embed", SW_PHASE_FORWARD, 1, false);
    int32_t op = apply(b, SW_OP_EMBEDDING, p->tokens, weight(b, embedding));
    sw_builder_out(b, op, (struct sw_ref){x, SW_INDEX_FIXED, 0});
    layer_region(b, x, &w);
    head_region(b, x, final_norm, head);
    if (b->failed)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while building the program");
    return 0;
}
