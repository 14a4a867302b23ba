/* Ops of the vocabulary's table: embedding, and the head with its loss. */
#include "core/ops/rows.h"

#include <string.h>

/* Bytes of the rows that tokens look up, not of the whole table. */
static struct sw_op_cost cost_embedding(const struct sw_program *p, const struct sw_op *op)
{
    const size_t of_table = sw_dtype_bytes(p->values[op->in[1].value].dtype);
    const int64_t rows = sw_ref_elems(p, op->out[0]) * (int64_t)of_table;
    return (struct sw_op_cost){0, sw_ref_bytes(p, op->in[0]) + rows + sw_ref_bytes(p, op->out[0])};
}

/* Zeroes the table, then adds one row for each token. An existing sum is only added to; one that
 * begins here is zeroed in the first micro-step. */
static struct sw_op_cost cost_embedding_grad(const struct sw_program *p, const struct sw_op *op)
{
    int64_t zeroed = sw_ref_bytes(p, op->out[0]);
    if (sw_op_adds_gradient(op))
        zeroed = op->as.gradient.first ? zeroed / p->accumulation_steps : 0;
    return (struct sw_op_cost){(double)sw_ref_elems(p, op->in[1]),
                               3 * sw_ref_bytes(p, op->in[1]) + zeroed};
}

static int32_t products_stats(const struct sw_program *p, const struct sw_op *op,
                              struct sw_product out[SW_OP_MAX_PRODUCTS])
{
    const struct sw_value *x = &p->values[op->in[0].value], *table = &p->values[op->in[1].value];
    out[0] = (struct sw_product){sw_tokens_of(p, op->in[0]), (double)table->local[0],
                                 (double)x->local[2], /* the table's rows may be padded */
                                 SW_PRODUCT_LINEAR_T};
    return 1;
}

/* The logits (again), dx and, where the table is trained, dW. */
static int32_t products_grad(const struct sw_program *p, const struct sw_op *op,
                             struct sw_product out[SW_OP_MAX_PRODUCTS])
{
    const struct sw_value *x = &p->values[op->in[0].value], *table = &p->values[op->in[1].value];
    const double vocab = (double)table->local[0], width = (double)x->local[2];
    const double tokens = sw_tokens_of(p, op->in[0]);
    out[0] = (struct sw_product){tokens, width, vocab, SW_PRODUCT_LINEAR};
    out[1] = (struct sw_product){tokens, vocab, width, SW_PRODUCT_LINEAR_T};
    out[2] = (struct sw_product){vocab, width, tokens, SW_PRODUCT_LINEAR_DW};
    return op->kind == SW_OP_LM_HEAD_DX ? 2 : 3;
}

/* Logits are written and read once in chunks for each product. */
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
    const double products = op->kind == SW_OP_LM_HEAD_DX ? 2 : 3;
    /* unless the op makes its own loss, it makes the logits again */
    return op->n_out > 2 ? 1 : (products - 1) / products;
}

static int vjp_embedding(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    const struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0]);
    const int32_t g = sw_autodiff_op(a, SW_OP_EMBEDDING_GRAD); /* the table is its only parameter */
    sw_autodiff_in(a, g, op->in[0]);
    sw_autodiff_in(a, g, dy);
    sw_autodiff_out(a, g, op->in[1]);
    return 0;
}

/* The loss's gradient needs the head's operands and each token's log-sum-exp; the logits are made
 * again in chunks. */
static int vjp_lm_head(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    const struct sw_ref x = sw_autodiff_use(a, op->in[0]), w = sw_autodiff_use(a, op->in[1]);
    const bool trained = sw_autodiff_wants(a, op->in[1]);
    const int32_t g = sw_autodiff_op(a, trained ? SW_OP_LM_HEAD_GRAD : SW_OP_LM_HEAD_DX);
    sw_autodiff_get(a, g)->as.head.softcap = op->as.head.softcap;
    sw_autodiff_in(a, g, x);
    sw_autodiff_in(a, g, w);
    sw_autodiff_in(a, g, op->in[2]);
    sw_autodiff_in(a, g, op->out[2]);
    sw_autodiff_out(a, g, op->in[0]);
    if (trained)
        sw_autodiff_out(a, g, op->in[1]);
    return 0;
}

/* ---- One op until partition ---- */

static int partition_lm_head_grad(struct sw_partition *part, const struct sw_op *op);

/* The lm_head that makes a log-sum-exp, or the backward op that reads it. NULL: none. */
static const struct sw_op *half(const struct sw_program *p, bool forward, int32_t lse)
{
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        if (forward ? op->kind == SW_OP_LM_HEAD && op->out[2].value == lse
                    : sw_op_info(op->kind)->partition == partition_lm_head_grad &&
                          op->in[3].value == lse)
            return op;
    }
    return NULL;
}

static sw_axis_set axes_of(const struct sw_program *p, struct sw_ref ref)
{
    return sw_spec_axes(&p->values[ref.value].declared.spec);
}

/* The table as stored: the value before its rows are gathered. */
static struct sw_ref lies(const struct sw_program *p, struct sw_ref table)
{
    for (int32_t i = 0; i < p->op_count; i++)
        if (p->ops[i].kind == SW_OP_CONSTRAIN && p->ops[i].out[0].value == table.value &&
            !p->values[table.value].gathered)
            return p->ops[i].in[0];
    return table;
}

/* True if the loss is made together with its gradient. If every rank has the whole table and the
 * activations of its own tokens, a chunk of logits suffices for the gradient of its tokens: logits
 * are made once in a step instead of twice. False for a vocabulary in shards: its gradient waits
 * for other ranks' statistics, and logits do not stay that long. False if the table is gathered,
 * which happens once in each direction, as for every weight. */
static bool joins_gradient(const struct sw_program *p, const struct sw_op *head)
{
    return axes_of(p, lies(p, head->in[1])) == 0 && axes_of(p, head->in[1]) == 0 &&
           (axes_of(p, head->in[0]) & (sw_axis_set)~axes_of(p, head->in[2])) == 0 &&
           half(p, false, head->out[2].value) != NULL;
}

/* Adds the micro-step's loss to the step's. */
static int accumulate_loss(struct sw_partition *part, const struct sw_op *head)
{
    struct sw_ref in[2] = {head->in[3], head->out[1]};
    struct sw_op sum = *head;
    sum.kind = SW_OP_ACCUMULATE;
    sum.in = in;
    sum.n_in = 2;
    sum.out = &head->out[3];
    sum.n_out = 1;
    sum.as = (union sw_attributes){.accumulate = {true}};
    return sw_partition_op(part, &sum);
}

static int partition_lm_head(struct sw_partition *part, const struct sw_op *op)
{
    if (joins_gradient(sw_partition_logical(part), op))
        return 0;
    struct sw_ref in[2] = {op->out[0], op->in[2]};
    struct sw_op stats = *op, loss = *op;
    stats.kind = SW_OP_LM_HEAD_STATS;
    stats.n_in = 3;
    stats.n_out = 1;
    loss.kind = SW_OP_LM_HEAD_LOSS;
    loss.as = (union sw_attributes){.norm = {0}};
    loss.in = in;
    loss.n_in = 2;
    loss.out = &op->out[1];
    loss.n_out = 2;
    if (sw_partition_op(part, &stats) != 0 || sw_partition_op(part, &loss) != 0)
        return -1;
    return accumulate_loss(part, op);
}

static int partition_lm_head_grad(struct sw_partition *part, const struct sw_op *op)
{
    const struct sw_program *p = sw_partition_logical(part);
    const struct sw_op *head = half(p, true, op->in[3].value);
    if (head == NULL || !joins_gradient(p, head))
        return sw_partition_claims(part, op);
    struct sw_ref out[4];
    struct sw_op both = *op;
    memcpy(out, op->out, op->n_out * sizeof *out);
    out[op->n_out] = head->out[1];
    out[op->n_out + 1] = head->out[2];
    both.n_in = 3;
    both.out = out;
    both.n_out = (uint16_t)(op->n_out + 2);
    return sw_partition_claims(part, &both) != 0 ? -1 : accumulate_loss(part, head);
}

const struct sw_op_info sw_row_embedding = {.name = "embedding",
                                            .tiled = 1,
                                            .factors = "bs,ve->bse|bs,ve,v->bse",
                                            .cost_class = SW_CLASS_MEMORY,
                                            .vjp = vjp_embedding,
                                            .cost = cost_embedding};
const struct sw_op_info sw_row_embedding_grad = {.name = "embedding_grad",
                                                 .factors = "bs,bse->ve",
                                                 .attributes = sw_op_gradient_attributes,
                                                 .cost_class = SW_CLASS_MEMORY,
                                                 .gradient = 1,
                                                 .cost = cost_embedding_grad};
#define SOFTCAP                                                                                    \
    {                                                                                              \
        .name = "softcap", .type = SW_ATTRIBUTE_REAL, .prints = SW_PRINT_SET,                      \
        .offset = offsetof(union sw_attributes, head.softcap)                                      \
    }
static const struct sw_attribute head_attributes[] = {SOFTCAP, {.type = SW_ATTRIBUTE_END}};
static const struct sw_attribute head_gradient_attributes[] = {
    {.name = "adds",
     .type = SW_ATTRIBUTE_FLAG,
     .prints = SW_PRINT_SET,
     .costs = true,
     .offset = offsetof(union sw_attributes, head.adds)},
    {.name = "first",
     .type = SW_ATTRIBUTE_FLAG,
     .prints = SW_PRINT_SET,
     .offset = offsetof(union sw_attributes, head.first)},
    SOFTCAP,
    {.type = SW_ATTRIBUTE_END}};
const struct sw_op_info sw_row_lm_head = {.name = "lm_head",
                                          .factors = "bse,ve,bs,1->bsv,1,bs,1",
                                          .attributes = head_attributes,
                                          .cost_class = SW_CLASS_NONE,
                                          .vjp = vjp_lm_head,
                                          .partition = partition_lm_head};
const struct sw_op_info sw_row_lm_head_stats = {.name = "lm_head_stats",
                                                .tiled = 1,
                                                .factors = "bse,ve,bs->bsv|bse,ve,bs,v->bsv",
                                                .whole = "e", /* has sums of exponentials of
                                                                 logits */
                                                .attributes = head_attributes,
                                                .cost_class = SW_CLASS_MATMUL,
                                                .cost = cost_lm_head,
                                                .products = products_stats,
                                                .workspace = sw_workspace_lm_head_stats};
const struct sw_op_info sw_row_lm_head_loss = {.name = "lm_head_loss",
                                               .factors = "bsv,bs->1,bs",
                                               .whole = "v",
                                               .cost_class = SW_CLASS_MEMORY,
                                               .cost = sw_cost_memory};
const struct sw_op_info sw_row_lm_head_grad = {.name = "lm_head_grad",
                                               .factors =
                                                   "bse,ve,bs,bs->bse,ve|bse,ve,bs->bse,ve,1,bs",
                                               .whole = "e", /* makes logits again */
                                               .attributes = head_gradient_attributes,
                                               .cost_class = SW_CLASS_MATMUL,
                                               .gradient = 2,
                                               .partition = partition_lm_head_grad,
                                               .cost = cost_lm_head,
                                               .products = products_grad,
                                               .model_share = model_share_grad,
                                               .workspace = sw_workspace_lm_head_grad};
const struct sw_op_info sw_row_lm_head_dx = {.name = "lm_head_dx",
                                             .factors = "bse,ve,bs,bs->bse|bse,ve,bs->bse,1,bs",
                                             .whole = "e",
                                             .attributes = head_attributes,
                                             .cost_class = SW_CLASS_MATMUL,
                                             .partition = partition_lm_head_grad,
                                             .cost = cost_lm_head,
                                             .products = products_grad,
                                             .model_share = model_share_grad,
                                             .workspace = sw_workspace_lm_head_stats};
