/* The rows of the op table, one for each kind, in the file of their family; and what several of
 * them share. Internal to core/program/op. */
#ifndef SW_OP_ROWS_H
#define SW_OP_ROWS_H

#include "core/program/builder.h"
#include "core/program/op/op.h"
#include "core/program/workspace.h"
#include "core/program/workspace_collective.h"

#include <stddef.h>

extern const struct sw_op_info sw_row_embedding, sw_row_embedding_grad;
extern const struct sw_op_info sw_row_rmsnorm, sw_row_rmsnorm_grad;
extern const struct sw_op_info sw_row_head_norm, sw_row_head_norm_grad;
extern const struct sw_op_info sw_row_linear, sw_row_linear_t, sw_row_linear_dw;
extern const struct sw_op_info sw_row_add_bias, sw_row_bias_grad;
extern const struct sw_op_info sw_row_rope, sw_row_replicate_heads, sw_row_replicate_heads_grad;
extern const struct sw_op_info sw_row_ring_attention, sw_row_ring_attention_grad;
extern const struct sw_op_info sw_row_swiglu, sw_row_swiglu_grad;
extern const struct sw_op_info sw_row_constrain, sw_row_add, sw_row_accumulate, sw_row_cast;
extern const struct sw_op_info sw_row_lm_head_stats, sw_row_lm_head_loss, sw_row_lm_head_grad;
extern const struct sw_op_info sw_row_sum_squares, sw_row_grad_norm, sw_row_adamw;
extern const struct sw_op_info sw_row_slice, sw_row_all_gather, sw_row_reduce_scatter;
extern const struct sw_op_info sw_row_all_reduce, sw_row_all_to_all, sw_row_wait;
extern const struct sw_op_info sw_row_snapshot;
extern const struct sw_op_info sw_row_rope_slots, sw_row_cache_append, sw_row_decode_attention;
extern const struct sw_op_info sw_row_softmax_merge, sw_row_pick_token, sw_row_sample;
extern const struct sw_op_info sw_row_top_tokens, sw_row_lm_head_logprobs;
extern const struct sw_op_info sw_row_cache_append_int8, sw_row_decode_attention_int8;
extern const struct sw_op_info sw_row_chunk_attention;
/* Fields of what several kinds have. */
extern const struct sw_attribute sw_op_rope_attributes[], sw_op_gradient_attributes[];

/* What an operand looks like on one rank. */
int64_t sw_ref_elems(const struct sw_program *p, struct sw_ref ref);
int64_t sw_ref_bytes(const struct sw_program *p, struct sw_ref ref);
int64_t sw_refs_bytes(const struct sw_program *p, const struct sw_ref *refs, uint16_t count);
int64_t sw_operand_bytes(const struct sw_program *p, const struct sw_op *op);
double sw_tokens_of(const struct sw_program *p, struct sw_ref activation);

/* An op whose time is that of moving its operands; a few flops for each element written. */
struct sw_op_cost sw_cost_memory(const struct sw_program *p, const struct sw_op *op);
struct sw_op_cost sw_cost_operands(const struct sw_program *p, const struct sw_op *op);

/* The usual VJP: one op of the row's gradient kind with the same attributes. Its operands are the
 * first `operands` of the op's, then the cotangent of the result; its results the cotangents of the
 * first `results` operands. */
int sw_vjp_usual(struct sw_autodiff *a, const struct sw_op *op, int32_t operands, int32_t results);

#endif
