#include "core/program/op/op.h"

#include "core/program/builder.h"
#include "core/program/workspace.h"
#include "core/program/workspace_collective.h"

#include <string.h>

/* ---- What an operand looks like on one rank ---- */

static int64_t instances(const struct sw_program *p, struct sw_ref ref)
{
    return ref.mode == SW_INDEX_WHOLE ? p->values[ref.value].stack : 1;
}

static int64_t ref_elems(const struct sw_program *p, struct sw_ref ref)
{
    return sw_value_local_elems(&p->values[ref.value]) * instances(p, ref);
}

static int64_t ref_bytes(const struct sw_program *p, struct sw_ref ref)
{
    return p->values[ref.value].slot_bytes * instances(p, ref);
}

static int64_t refs_bytes(const struct sw_program *p, const struct sw_ref *refs, uint8_t count)
{
    int64_t bytes = 0;
    for (uint8_t i = 0; i < count; i++)
        bytes += ref_bytes(p, refs[i]);
    return bytes;
}

static int64_t operand_bytes(const struct sw_program *p, const struct sw_op *op)
{
    return refs_bytes(p, op->in, op->n_in) + refs_bytes(p, op->out, op->n_out);
}

/* ---- Costs ---- */

/* An op whose time is that of moving its operands; a few flops for each element written. */
static struct sw_op_cost cost_memory(const struct sw_program *p, const struct sw_op *op)
{
    struct sw_op_cost cost = {0, operand_bytes(p, op)};
    for (uint8_t i = 0; i < op->n_out; i++)
        cost.flops += (double)ref_elems(p, op->out[i]);
    return cost;
}

/* Touches the rows of its tokens, not the whole table. */
static struct sw_op_cost cost_embedding(const struct sw_program *p, const struct sw_op *op)
{
    return (struct sw_op_cost){0, ref_bytes(p, op->in[0]) + 2 * ref_bytes(p, op->out[0])};
}

/* Zeroes the table, then adds one row for each token. */
static struct sw_op_cost cost_embedding_grad(const struct sw_program *p, const struct sw_op *op)
{
    return (struct sw_op_cost){(double)ref_elems(p, op->in[1]),
                               3 * ref_bytes(p, op->in[1]) + ref_bytes(p, op->out[0])};
}

static double tokens_of(const struct sw_program *p, struct sw_ref activation)
{
    const struct sw_value *value = &p->values[activation.value];
    return (double)value->local[0] * (double)value->local[1];
}

static struct sw_op_cost cost_linear(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_ref weight = op->kind == SW_OP_LINEAR_DW ? op->out[0] : op->in[1];
    return (struct sw_op_cost){2.0 * tokens_of(p, op->in[0]) * (double)ref_elems(p, weight),
                               operand_bytes(p, op)};
}

/* Logits once; for the gradient the logits again, dx and dW. They are written and read once in
 * chunks. */
static struct sw_op_cost cost_lm_head(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_value *table = &p->values[op->in[1].value];
    const double products = op->kind == SW_OP_LM_HEAD_GRAD ? 3 : 1;
    const double tokens = tokens_of(p, op->in[0]);
    struct sw_op_cost cost = {products * 2.0 * tokens * (double)sw_value_local_elems(table),
                              operand_bytes(p, op)};
    cost.memory_bytes += (int64_t)(2.0 * products * tokens * (double)table->local[0] * 4.0);
    return cost;
}

/* Query-key pairs that the busiest rank scores, per sequence and head. Causal: half of the square
 * of a rank's own block, then, for every hop, half a block (zigzag) or at worst a whole one
 * (contiguous). */
static double causal_pairs(const struct sw_program *p, const struct sw_op *op)
{
    const double queries = (double)p->values[op->in[0].value].local[1];
    const double length = (double)p->values[op->in[0].value].size[1];
    if (op->sequence_layout == SW_ZIGZAG || queries == length)
        return queries * length / 2;
    return queries * (length - queries / 2);
}

/* Forward 2 matrix products over every pair (q kT, p v), backward 5 (q kT again, dv, dp, dq, dk).
 * Dao et al. 2022. */
static struct sw_op_cost cost_attention(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_value *q = &p->values[op->in[0].value];
    const double products = op->kind == SW_OP_RING_ATTENTION ? 2 : 5;
    return (struct sw_op_cost){products * 2.0 * (double)q->local[0] * (double)q->local[2] *
                                   causal_pairs(p, op),
                               operand_bytes(p, op)};
}

static struct sw_op_cost cost_none(const struct sw_program *p, const struct sw_op *op)
{
    (void)p;
    (void)op;
    return (struct sw_op_cost){0, 0};
}

/* The cotangents of primals[0..count) become the op's results. */
static void outs(struct sw_autodiff *a, int32_t op, const struct sw_ref *primals, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        sw_autodiff_out(a, op, primals[i]);
}

/* ---- VJP rules. Weight gradients come before dx, so that their reduction overlaps it. ---- */

static int vjp_embedding(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    bool present;
    struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0], &present);
    int32_t g = sw_autodiff_op(a, SW_OP_EMBEDDING_GRAD);
    sw_autodiff_in(a, g, op->in[0]);
    sw_autodiff_in(a, g, dy);
    sw_autodiff_out(a, g, op->in[1]);
    return 0;
}

static int vjp_rmsnorm(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    bool present;
    struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0], &present);
    struct sw_ref x = sw_autodiff_use(a, op->in[0]), w = sw_autodiff_use(a, op->in[1]);
    int32_t g = sw_autodiff_op(a, SW_OP_RMSNORM_GRAD);
    sw_autodiff_get(a, g)->scale = op->scale;
    sw_autodiff_in(a, g, x);
    sw_autodiff_in(a, g, w);
    sw_autodiff_in(a, g, dy);
    outs(a, g, op->in, 2);
    return 0;
}

/* y = x W: dW = xT dy, dx = dy WT. y = x WT (linear_t): dW = dyT x, dx = dy W. */
static int vjp_linear(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    bool present;
    const bool transposed = op->kind == SW_OP_LINEAR_T;
    struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0], &present);
    struct sw_ref x = sw_autodiff_use(a, op->in[0]);
    int32_t dw = sw_autodiff_op(a, SW_OP_LINEAR_DW);
    sw_autodiff_in(a, dw, transposed ? dy : x);
    sw_autodiff_in(a, dw, transposed ? x : dy);
    sw_autodiff_out(a, dw, op->in[1]);
    struct sw_ref w = sw_autodiff_use(a, op->in[1]);
    int32_t dx = sw_autodiff_op(a, transposed ? SW_OP_LINEAR : SW_OP_LINEAR_T);
    sw_autodiff_in(a, dx, dy);
    sw_autodiff_in(a, dx, w);
    sw_autodiff_out(a, dx, op->in[0]);
    return 0;
}

static int vjp_rope(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    bool present;
    struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0], &present);
    int32_t g = sw_autodiff_op(a, SW_OP_ROPE);
    struct sw_op *rotate = sw_autodiff_get(a, g);
    rotate->head_dim = op->head_dim;
    rotate->scale = op->scale;
    rotate->inverse = !op->inverse;
    sw_autodiff_in(a, g, dy);
    sw_autodiff_in(a, g, op->in[1]);
    sw_autodiff_out(a, g, op->in[0]);
    return 0;
}

static int vjp_replicate_heads(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    bool present;
    struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0], &present);
    int32_t g = sw_autodiff_op(a, SW_OP_REPLICATE_HEADS_GRAD);
    sw_autodiff_get(a, g)->head_dim = op->head_dim;
    sw_autodiff_get(a, g)->group = op->group;
    sw_autodiff_in(a, g, dy);
    sw_autodiff_out(a, g, op->in[0]);
    return 0;
}

static int vjp_constrain(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    bool present;
    struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0], &present);
    int32_t g = sw_autodiff_op(a, SW_OP_CONSTRAIN);
    sw_autodiff_in(a, g, dy);
    sw_autodiff_out(a, g, op->in[0]);
    return 0;
}

static int vjp_ring_attention(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    bool present;
    struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0], &present);
    struct sw_ref in[5];
    for (int32_t i = 0; i < 3; i++)
        in[i] = sw_autodiff_use(a, op->in[i]);
    for (int32_t i = 0; i < 2; i++)
        in[3 + i] = sw_autodiff_use(a, op->out[i]);
    int32_t g = sw_autodiff_op(a, SW_OP_RING_ATTENTION_GRAD);
    struct sw_op *grad = sw_autodiff_get(a, g);
    grad->head_dim = op->head_dim;
    grad->group = op->group;
    grad->scale = op->scale;
    grad->sequence_layout = op->sequence_layout;
    grad->sequence_shards = op->sequence_shards;
    for (int32_t i = 0; i < 5; i++)
        sw_autodiff_in(a, g, in[i]);
    sw_autodiff_in(a, g, dy);
    outs(a, g, op->in, 3);
    return 0;
}

static int vjp_swiglu(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    bool present;
    struct sw_ref dh = sw_autodiff_cotangent(a, op->out[0], &present);
    struct sw_ref gate = sw_autodiff_use(a, op->in[0]), up = sw_autodiff_use(a, op->in[1]);
    int32_t g = sw_autodiff_op(a, SW_OP_SWIGLU_GRAD);
    sw_autodiff_in(a, g, gate);
    sw_autodiff_in(a, g, up);
    sw_autodiff_in(a, g, dh);
    outs(a, g, op->in, 2);
    return 0;
}

static int vjp_add(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    bool present;
    struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0], &present);
    sw_autodiff_contribute(a, op->in[0], dy);
    sw_autodiff_contribute(a, op->in[1], dy);
    return 0;
}

/* The loss's gradient needs the head's operands and each token's log-sum-exp; the logits are made
 * again in chunks. */
static int vjp_lm_head_loss(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    const struct sw_op *producer = sw_autodiff_producer(a, op->in[0]);
    if (producer == NULL || producer->kind != SW_OP_LM_HEAD_STATS)
        return sw_fail(err, SW_ENVIRONMENT, "lm_head_loss without the lm_head_stats that feeds it");
    const struct sw_op stats = *producer;
    struct sw_ref x = sw_autodiff_use(a, stats.in[0]), w = sw_autodiff_use(a, stats.in[1]);
    int32_t g = sw_autodiff_op(a, SW_OP_LM_HEAD_GRAD);
    sw_autodiff_get(a, g)->scale = op->scale;
    sw_autodiff_in(a, g, x);
    sw_autodiff_in(a, g, w);
    sw_autodiff_in(a, g, stats.in[2]);
    sw_autodiff_in(a, g, op->out[1]);
    outs(a, g, stats.in, 2);
    return 0;
}

/* ---- The table ---- */

static const struct sw_op_info table[SW_OP_COUNT] = {
    [SW_OP_EMBEDDING] = {.name = "embedding",
                         .factors = "bs,ve->bse",
                         .cost_class = SW_CLASS_MEMORY,
                         .vjp = vjp_embedding,
                         .cost = cost_embedding},
    [SW_OP_EMBEDDING_GRAD] = {.name = "embedding_grad",
                              .factors = "bs,bse->ve",
                              .cost_class = SW_CLASS_MEMORY,
                              .cost = cost_embedding_grad},
    [SW_OP_RMSNORM] = {.name = "rmsnorm",
                       .factors = "bse,e->bse",
                       .whole = "e",
                       .cost_class = SW_CLASS_MEMORY,
                       .vjp = vjp_rmsnorm,
                       .cost = cost_memory},
    [SW_OP_RMSNORM_GRAD] = {.name = "rmsnorm_grad",
                            .factors = "bse,e,bse->bse,e",
                            .whole = "e",
                            .cost_class = SW_CLASS_MEMORY,
                            .cost = cost_memory,
                            .workspace = sw_workspace_rmsnorm_grad},
    [SW_OP_LINEAR] = {.name = "linear",
                      .factors = "bse,ef->bsf",
                      .cost_class = SW_CLASS_MATMUL,
                      .vjp = vjp_linear,
                      .cost = cost_linear},
    [SW_OP_LINEAR_T] = {.name = "linear_t",
                        .factors = "bsf,ef->bse",
                        .cost_class = SW_CLASS_MATMUL,
                        .vjp = vjp_linear,
                        .cost = cost_linear},
    [SW_OP_LINEAR_DW] = {.name = "linear_dw",
                         .factors = "bse,bsf->ef",
                         .cost_class = SW_CLASS_MATMUL,
                         .cost = cost_linear},
    [SW_OP_ROPE] = {.name = "rope",
                    .factors = "bsh,s->bsh",
                    .cost_class = SW_CLASS_MEMORY,
                    .vjp = vjp_rope,
                    .cost = cost_memory},
    [SW_OP_REPLICATE_HEADS] = {.name = "replicate_heads",
                               .factors = "bsg->bsh",
                               .cost_class = SW_CLASS_MEMORY,
                               .vjp = vjp_replicate_heads,
                               .cost = cost_memory},
    [SW_OP_REPLICATE_HEADS_GRAD] = {.name = "replicate_heads_grad",
                                    .factors = "bsh->bsg",
                                    .cost_class = SW_CLASS_MEMORY,
                                    .cost = cost_memory},
    [SW_OP_CONSTRAIN] = {.name = "constrain",
                         .factors = ".->.",
                         .cost_class = SW_CLASS_NONE,
                         .linear = true,
                         .vjp = vjp_constrain,
                         .cost = cost_none},
    [SW_OP_RING_ATTENTION] = {.name = "ring_attention",
                              .factors = "bqh,bkh,bkh->bqh,bqh",
                              .ring = "qk",
                              .cost_class = SW_CLASS_ATTENTION,
                              .vjp = vjp_ring_attention,
                              .cost = cost_attention,
                              .workspace = sw_workspace_ring_attention},
    [SW_OP_RING_ATTENTION_GRAD] = {.name = "ring_attention_grad",
                                   .factors = "bqh,bkh,bkh,bqh,bqh,bqh->bqh,bkh,bkh",
                                   .ring = "qk",
                                   .cost_class = SW_CLASS_ATTENTION,
                                   .cost = cost_attention,
                                   .workspace = sw_workspace_ring_attention_grad},
    [SW_OP_SWIGLU] = {.name = "swiglu",
                      .factors = "bsf,bsf->bsf",
                      .cost_class = SW_CLASS_MEMORY,
                      .vjp = vjp_swiglu,
                      .cost = cost_memory},
    [SW_OP_SWIGLU_GRAD] = {.name = "swiglu_grad",
                           .factors = "bsf,bsf,bsf->bsf,bsf",
                           .cost_class = SW_CLASS_MEMORY,
                           .cost = cost_memory},
    [SW_OP_ADD] = {.name = "add",
                   .factors = ".,.->.",
                   .cost_class = SW_CLASS_MEMORY,
                   .linear = true,
                   .vjp = vjp_add,
                   .cost = cost_memory},
    [SW_OP_ACCUMULATE] = {.name = "accumulate",
                          .factors = ".,.->.",
                          .cost_class = SW_CLASS_MEMORY,
                          .linear = true,
                          .in_place = true,
                          .cost = cost_memory},
    [SW_OP_LM_HEAD_STATS] = {.name = "lm_head_stats",
                             .factors = "bse,ve,bs->bsv",
                             .cost_class = SW_CLASS_MATMUL,
                             .cost = cost_lm_head,
                             .workspace = sw_workspace_lm_head_stats},
    [SW_OP_LM_HEAD_LOSS] = {.name = "lm_head_loss",
                            .factors = "bsv,bs->1,bs",
                            .whole = "v",
                            .cost_class = SW_CLASS_MEMORY,
                            .vjp = vjp_lm_head_loss,
                            .cost = cost_memory},
    [SW_OP_LM_HEAD_GRAD] = {.name = "lm_head_grad",
                            .factors = "bse,ve,bs,bs->bse,ve",
                            .cost_class = SW_CLASS_MATMUL,
                            .cost = cost_lm_head,
                            .workspace = sw_workspace_lm_head_grad},
    [SW_OP_SUM_SQUARES] = {.name = "sum_squares",
                           .factors = ".->1",
                           .cost_class = SW_CLASS_MEMORY,
                           .cost = cost_memory},
    [SW_OP_GRAD_NORM] = {.name = "grad_norm",
                         .factors = "1->1",
                         .cost_class = SW_CLASS_MEMORY,
                         .cost = cost_memory},
    [SW_OP_ADAMW] = {.name = "adamw",
                     .factors = ".,.,.,.,1->.,.,.",
                     .cost_class = SW_CLASS_MEMORY,
                     .in_place = true,
                     .cost = cost_memory},
    [SW_OP_CAST] = {.name = "cast",
                    .factors = ".->.",
                    .cost_class = SW_CLASS_MEMORY,
                    .linear = true,
                    .cost = cost_memory},
    [SW_OP_SLICE] = {.name = "slice", .cost_class = SW_CLASS_MEMORY, .cost = cost_memory},
    [SW_OP_ALL_GATHER] = {.name = "all_gather",
                          .cost_class = SW_CLASS_COLLECTIVE,
                          .cost = cost_none,
                          .workspace = sw_workspace_collective},
    [SW_OP_REDUCE_SCATTER] = {.name = "reduce_scatter",
                              .cost_class = SW_CLASS_COLLECTIVE,
                              .cost = cost_none,
                              .workspace = sw_workspace_collective},
    [SW_OP_ALL_REDUCE] = {.name = "all_reduce",
                          .cost_class = SW_CLASS_COLLECTIVE,
                          .cost = cost_none,
                          .workspace = sw_workspace_collective},
    [SW_OP_ALL_TO_ALL] = {.name = "all_to_all",
                          .cost_class = SW_CLASS_COLLECTIVE,
                          .cost = cost_none,
                          .workspace = sw_workspace_collective},
    [SW_OP_WAIT] = {.name = "wait", .cost_class = SW_CLASS_NONE, .cost = cost_none},
};

const struct sw_op_info *sw_op_info(enum sw_op_kind kind)
{
    return &table[kind];
}

bool sw_op_is_collective(enum sw_op_kind kind)
{
    return table[kind].cost_class == SW_CLASS_COLLECTIVE;
}

uint8_t sw_op_addend(enum sw_op_kind kind)
{
    switch (kind) {
    case SW_OP_LINEAR:
    case SW_OP_LINEAR_T:
        return 2;
    case SW_OP_RMSNORM_GRAD:
        return 3;
    default:
        return 0;
    }
}

int64_t sw_op_addend_bytes(const struct sw_program *program, const struct sw_op *op)
{
    const uint8_t addend = sw_op_addend((enum sw_op_kind)op->kind);
    return addend > 0 && op->n_in > addend ? ref_bytes(program, op->in[addend]) : 0;
}

int64_t sw_op_communication_bytes(const struct sw_program *program, const struct sw_op *op)
{
    const int64_t group = sw_axes_size(&program->mesh, op->axes);
    switch (op->kind) {
    case SW_OP_ALL_GATHER:
        return refs_bytes(program, op->in, op->n_in) * (group - 1);
    case SW_OP_REDUCE_SCATTER:
        return refs_bytes(program, op->out, op->n_out) * (group - 1);
    case SW_OP_ALL_REDUCE: /* reduce_scatter, then all_gather (Patarasuk & Yuan 2009) */
        return 2 * (refs_bytes(program, op->in, op->n_in) / group) * (group - 1);
    case SW_OP_ALL_TO_ALL:
        return refs_bytes(program, op->in, op->n_in) / group * (group - 1);
    case SW_OP_RING_ATTENTION:
    case SW_OP_RING_ATTENTION_GRAD: {
        if (op->axes.count == 0)
            return 0;
        int64_t bytes = refs_bytes(program, &op->in[1], 2) * (group - 1);
        if (op->kind == SW_OP_RING_ATTENTION_GRAD) { /* dk, dv travel wide, and all the way home */
            const struct sw_value *k = &program->values[op->in[1].value];
            bytes += 2 * ref_elems(program, op->in[1]) * group *
                     (int64_t)sw_dtype_bytes(sw_accumulate_dtype(k->dtype));
        }
        return bytes;
    }
    default:
        return 0;
    }
}

int64_t sw_value_local_elems(const struct sw_value *value)
{
    int64_t elems = 1;
    for (uint8_t d = 0; d < value->ndim; d++)
        elems *= value->local[d];
    return elems;
}
