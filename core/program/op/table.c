/* Which row belongs to which kind, and what every row is asked. */
#include "core/program/op/rows.h"

const struct sw_op_info *const sw_op_rows[] = {
    [SW_OP_EMBEDDING] = &sw_row_embedding,
    [SW_OP_EMBEDDING_GRAD] = &sw_row_embedding_grad,
    [SW_OP_RMSNORM] = &sw_row_rmsnorm,
    [SW_OP_RMSNORM_GRAD] = &sw_row_rmsnorm_grad,
    [SW_OP_HEAD_NORM] = &sw_row_head_norm,
    [SW_OP_HEAD_NORM_GRAD] = &sw_row_head_norm_grad,
    [SW_OP_LINEAR] = &sw_row_linear,
    [SW_OP_LINEAR_T] = &sw_row_linear_t,
    [SW_OP_LINEAR_DW] = &sw_row_linear_dw,
    [SW_OP_ADD_BIAS] = &sw_row_add_bias,
    [SW_OP_BIAS_GRAD] = &sw_row_bias_grad,
    [SW_OP_ROPE] = &sw_row_rope,
    [SW_OP_REPLICATE_HEADS] = &sw_row_replicate_heads,
    [SW_OP_REPLICATE_HEADS_GRAD] = &sw_row_replicate_heads_grad,
    [SW_OP_CONSTRAIN] = &sw_row_constrain,
    [SW_OP_RING_ATTENTION] = &sw_row_ring_attention,
    [SW_OP_RING_ATTENTION_GRAD] = &sw_row_ring_attention_grad,
    [SW_OP_SWIGLU] = &sw_row_swiglu,
    [SW_OP_SWIGLU_GRAD] = &sw_row_swiglu_grad,
    [SW_OP_ADD] = &sw_row_add,
    [SW_OP_ACCUMULATE] = &sw_row_accumulate,
    [SW_OP_LM_HEAD_STATS] = &sw_row_lm_head_stats,
    [SW_OP_LM_HEAD_LOSS] = &sw_row_lm_head_loss,
    [SW_OP_LM_HEAD_GRAD] = &sw_row_lm_head_grad,
    [SW_OP_SUM_SQUARES] = &sw_row_sum_squares,
    [SW_OP_GRAD_NORM] = &sw_row_grad_norm,
    [SW_OP_ADAMW] = &sw_row_adamw,
    [SW_OP_CAST] = &sw_row_cast,
    [SW_OP_SLICE] = &sw_row_slice,
    [SW_OP_ALL_GATHER] = &sw_row_all_gather,
    [SW_OP_REDUCE_SCATTER] = &sw_row_reduce_scatter,
    [SW_OP_ALL_REDUCE] = &sw_row_all_reduce,
    [SW_OP_ALL_TO_ALL] = &sw_row_all_to_all,
    [SW_OP_WAIT] = &sw_row_wait,
    [SW_OP_SNAPSHOT] = &sw_row_snapshot,
    [SW_OP_ROPE_SLOTS] = &sw_row_rope_slots,
    [SW_OP_CACHE_APPEND] = &sw_row_cache_append,
    [SW_OP_DECODE_ATTENTION] = &sw_row_decode_attention,
    [SW_OP_SOFTMAX_MERGE] = &sw_row_softmax_merge,
    [SW_OP_PICK_TOKEN] = &sw_row_pick_token,
    [SW_OP_SAMPLE] = &sw_row_sample,
    [SW_OP_TOP_TOKENS] = &sw_row_top_tokens,
    [SW_OP_LM_HEAD_LOGPROBS] = &sw_row_lm_head_logprobs,
    [SW_OP_CACHE_APPEND_INT8] = &sw_row_cache_append_int8,
    [SW_OP_DECODE_ATTENTION_INT8] = &sw_row_decode_attention_int8,
    [SW_OP_CHUNK_ATTENTION] = &sw_row_chunk_attention,
};
_Static_assert(sizeof sw_op_rows / sizeof sw_op_rows[0] == SW_OP_COUNT, "a row for every kind");
/* ---- What an operand looks like on one rank ---- */

static int64_t instances(const struct sw_program *p, struct sw_ref ref)
{
    return ref.mode == SW_INDEX_WHOLE ? p->values[ref.value].stack : 1;
}

int64_t sw_ref_elems(const struct sw_program *p, struct sw_ref ref)
{
    return sw_value_local_elems(&p->values[ref.value]) * instances(p, ref);
}

int64_t sw_ref_bytes(const struct sw_program *p, struct sw_ref ref)
{
    return p->values[ref.value].slot_bytes * instances(p, ref);
}

int64_t sw_refs_bytes(const struct sw_program *p, const struct sw_ref *refs, uint16_t count)
{
    int64_t bytes = 0;
    for (uint16_t i = 0; i < count; i++)
        bytes += sw_ref_bytes(p, refs[i]);
    return bytes;
}

int64_t sw_operand_bytes(const struct sw_program *p, const struct sw_op *op)
{
    return sw_refs_bytes(p, op->in, op->n_in) + sw_refs_bytes(p, op->out, op->n_out);
}

double sw_tokens_of(const struct sw_program *p, struct sw_ref activation)
{
    const struct sw_value *value = &p->values[activation.value];
    return (double)value->local[0] * (double)value->local[1];
}

int64_t sw_value_local_elems(const struct sw_value *value)
{
    int64_t elems = 1;
    for (uint8_t d = 0; d < value->ndim; d++)
        elems *= value->local[d];
    return elems;
}

/* ---- Costs ---- */

struct sw_op_cost sw_cost_memory(const struct sw_program *p, const struct sw_op *op)
{
    struct sw_op_cost cost = {0, sw_operand_bytes(p, op)};
    for (uint16_t i = 0; i < op->n_out; i++)
        cost.flops += (double)sw_ref_elems(p, op->out[i]);
    return cost;
}

struct sw_op_cost sw_cost_operands(const struct sw_program *p, const struct sw_op *op)
{
    return (struct sw_op_cost){0, sw_operand_bytes(p, op)};
}

struct sw_op_cost sw_op_cost(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_op_info *info = sw_op_rows[op->kind];
    struct sw_op_cost cost = {0, 0};
    if (info->cost != NULL)
        cost = info->cost(p, op);
    if (info->products != NULL) {
        struct sw_product product[SW_OP_MAX_PRODUCTS];
        const int32_t count = info->products(p, op, product);
        for (int32_t i = 0; i < count; i++)
            cost.flops += 2 * product[i].m * product[i].n * product[i].k;
    }
    return cost;
}

int64_t sw_op_addend_bytes(const struct sw_program *program, const struct sw_op *op)
{
    const uint8_t addend = sw_op_rows[op->kind]->addend;
    return addend > 0 && op->n_in > addend ? sw_ref_bytes(program, op->in[addend]) : 0;
}

int64_t sw_op_communication_bytes(const struct sw_program *program, const struct sw_op *op)
{
    const struct sw_op_info *info = sw_op_rows[op->kind];
    return info->communication != NULL ? info->communication(program, op) : 0;
}

int64_t sw_program_sent_bytes(const struct sw_program *p)
{
    int64_t bytes = 0;
    for (int32_t r = 0; r < p->region_count; r++)
        for (int32_t i = p->regions[r].first_op;
             i < p->regions[r].first_op + p->regions[r].op_count; i++)
            bytes += sw_op_communication_bytes(p, &p->ops[i]) * p->regions[r].repeat;
    return bytes;
}

/* ---- Attributes ---- */

int64_t sw_attribute_int(const struct sw_op *op, const struct sw_attribute *attribute)
{
    const char *at = (const char *)&op->as + attribute->offset;
    switch ((enum sw_attribute_type)attribute->type) {
    case SW_ATTRIBUTE_INT:
    case SW_ATTRIBUTE_LAYOUT:
        return *(const int32_t *)(const void *)at;
    case SW_ATTRIBUTE_LONG:
        return *(const int64_t *)(const void *)at;
    case SW_ATTRIBUTE_FLAG:
        return *(const bool *)at;
    case SW_ATTRIBUTE_REAL:
    case SW_ATTRIBUTE_END:
        break;
    }
    return 0;
}

double sw_attribute_real(const struct sw_op *op, const struct sw_attribute *attribute)
{
    return *(const double *)(const void *)((const char *)&op->as + attribute->offset);
}

/* ---- The usual VJP ---- */

int sw_vjp_usual(struct sw_autodiff *a, const struct sw_op *op, int32_t operands, int32_t results)
{
    enum { MOST = 4 };
    struct sw_ref in[MOST];
    const struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0]);
    for (int32_t i = 0; i < operands && i < MOST; i++)
        in[i] = sw_autodiff_use(a, op->in[i]);
    const int32_t g = sw_autodiff_op(a, sw_op_rows[op->kind]->gradient_kind);
    sw_autodiff_get(a, g)->as = op->as;
    for (int32_t i = 0; i < operands && i < MOST; i++)
        sw_autodiff_in(a, g, in[i]);
    sw_autodiff_in(a, g, dy);
    for (int32_t i = 0; i < results; i++)
        sw_autodiff_out(a, g, op->in[i]);
    return 0;
}
