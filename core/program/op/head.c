/* The table of tokens at both ends: embedding, and the head with its loss. */
#include "core/program/op/rows.h"

/* Touches the rows of its tokens, not the whole table. */
static struct sw_op_cost cost_embedding(const struct sw_program *p, const struct sw_op *op)
{
    return (struct sw_op_cost){0, sw_ref_bytes(p, op->in[0]) + 2 * sw_ref_bytes(p, op->out[0])};
}

/* Zeroes the table, then adds one row for each token. */
static struct sw_op_cost cost_embedding_grad(const struct sw_program *p, const struct sw_op *op)
{
    return (struct sw_op_cost){(double)sw_ref_elems(p, op->in[1]),
                               3 * sw_ref_bytes(p, op->in[1]) + sw_ref_bytes(p, op->out[0])};
}

static int32_t products_stats(const struct sw_program *p, const struct sw_op *op,
                              struct sw_product out[SW_OP_MAX_PRODUCTS])
{
    const struct sw_value *x = &p->values[op->in[0].value], *table = &p->values[op->in[1].value];
    out[0] = (struct sw_product){sw_tokens_of(p, op->in[0]), (double)table->local[0],
                                 (double)x->local[2]}; /* the table's rows may be padded */
    return 1;
}

/* The logits (again), dx and dW. */
static int32_t products_grad(const struct sw_program *p, const struct sw_op *op,
                             struct sw_product out[SW_OP_MAX_PRODUCTS])
{
    const struct sw_value *x = &p->values[op->in[0].value], *table = &p->values[op->in[1].value];
    const double vocab = (double)table->local[0], width = (double)x->local[2];
    const double tokens = sw_tokens_of(p, op->in[0]);
    out[0] = (struct sw_product){tokens, width, vocab};
    out[1] = (struct sw_product){tokens, vocab, width};
    out[2] = (struct sw_product){vocab, width, tokens};
    return 3;
}

/* Logits are written and read once in chunks, for each product. */
static struct sw_op_cost cost_lm_head(const struct sw_program *p, const struct sw_op *op)
{
    struct sw_product product[SW_OP_MAX_PRODUCTS];
    const int32_t products = sw_op_info(op->kind)->products(p, op, product);
    const double vocab = (double)p->values[op->in[1].value].local[0];
    return (struct sw_op_cost){
        0, sw_operand_bytes(p, op) +
               (int64_t)(2.0 * products * sw_tokens_of(p, op->in[0]) * vocab * 4.0)};
}

static double model_share_grad(const struct sw_op *op)
{
    return op->n_out == 4 ? 1
                          : 2.0 / 3.0; /* unless the loss is its own, the logits are made again */
}

static int vjp_embedding(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    const struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0]);
    const int32_t g = sw_autodiff_op(a, SW_OP_EMBEDDING_GRAD);
    sw_autodiff_in(a, g, op->in[0]);
    sw_autodiff_in(a, g, dy);
    sw_autodiff_out(a, g, op->in[1]);
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
    const struct sw_ref x = sw_autodiff_use(a, stats.in[0]), w = sw_autodiff_use(a, stats.in[1]);
    const int32_t g = sw_autodiff_op(a, SW_OP_LM_HEAD_GRAD);
    sw_autodiff_in(a, g, x);
    sw_autodiff_in(a, g, w);
    sw_autodiff_in(a, g, stats.in[2]);
    sw_autodiff_in(a, g, op->out[1]);
    sw_autodiff_out(a, g, stats.in[0]);
    sw_autodiff_out(a, g, stats.in[1]);
    return 0;
}

const struct sw_op_info sw_row_embedding = {.name = "embedding",
                                            .factors = "bs,ve->bse",
                                            .cost_class = SW_CLASS_MEMORY,
                                            .vjp = vjp_embedding,
                                            .cost = cost_embedding};
const struct sw_op_info sw_row_embedding_grad = {.name = "embedding_grad",
                                                 .factors = "bs,bse->ve",
                                                 .cost_class = SW_CLASS_MEMORY,
                                                 .makes_gradient = true,
                                                 .cost = cost_embedding_grad};
const struct sw_op_info sw_row_lm_head_stats = {.name = "lm_head_stats",
                                                .factors = "bse,ve,bs->bsv",
                                                .cost_class = SW_CLASS_MATMUL,
                                                .cost = cost_lm_head,
                                                .products = products_stats,
                                                .workspace = sw_workspace_lm_head_stats};
const struct sw_op_info sw_row_lm_head_loss = {.name = "lm_head_loss",
                                               .factors = "bsv,bs->1,bs",
                                               .whole = "v",
                                               .cost_class = SW_CLASS_MEMORY,
                                               .seeds = true,
                                               .vjp = vjp_lm_head_loss,
                                               .cost = sw_cost_memory};
const struct sw_op_info sw_row_lm_head_grad = {.name = "lm_head_grad",
                                               .factors = "bse,ve,bs,bs->bse,ve",
                                               .attributes = sw_op_gradient_attributes,
                                               .cost_class = SW_CLASS_MATMUL,
                                               .makes_gradient = true,
                                               .gradient = 2,
                                               .cost = cost_lm_head,
                                               .products = products_grad,
                                               .model_share = model_share_grad,
                                               .workspace = sw_workspace_lm_head_grad};
