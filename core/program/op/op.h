/* The table of op kinds: everything the passes know about an op stands in one row of op.c.
 *
 * Owns the table. The semantics, with shapes ([b]atch, [s]eq, [e]mbed, [f] mlp or heads*head_dim,
 * [v]ocab); capital letters are what a rank sees, `start` is the global offset of its shard:
 *
 * embedding            tokens i32[b,s], table[v,e] -> y[b,s,e]; a token outside this rank's rows
 * gives 0 (partial) embedding_grad       tokens, dy[b,s,e] -> dtable[v,e] (overwrites; rows of this
 * rank's vocab only) rmsnorm              x[b,s,e], w[e] -> y = x / sqrt(mean(x^2) + eps) * w (eps
 * in attribute scale) rmsnorm_grad         x, w, dy -> dx[b,s,e], dw[e] linear x[b,s,e], W[e,f] ->
 * y[b,s,f] = x W linear_t             x[b,s,f], W[e,f] -> y[b,s,e] = x W^T; both and
 * rmsnorm_grad, from schedule on: perhaps with one operand more, shaped as the result (dx), that is
 * added to it linear_dw x[b,s,e],
 * dy[b,s,f] -> dW[e,f] = x^T dy rope                 x[b,s,h], positions i32[s] -> y; pairs (j, j +
 * d/2) of each head rotated by position * theta^(-2j/d), angles in fp32 (inverse: by minus that)
 * replicate_heads      x[b,s,g] -> y[b,s,h], head i of y is head i / group of x
 * replicate_heads_grad dy[b,s,h] -> dx[b,s,g], sum of the copies this rank has (partial)
 * constrain            x -> x with another declared sharding (no code: becomes reshard)
 * ring_attention       q[b,sq,h], k[b,sk,g], v[b,sk,g] -> o[b,sq,h], lse[b,sq,heads] f32 (natural
 * log, of scaled scores); causal; query head i attends with kv head i / group ring_attention_grad
 * q, k, v, o, lse, do -> dq, dk, dv swiglu               gate[b,s,f], up[b,s,f] -> silu(gate) * up
 * swiglu_grad          gate, up, dh -> dgate, dup
 * add                  a, b -> a + b
 * accumulate           acc, x -> acc (in place; first micro-step and `first`: acc = x)
 * lm_head_stats        x[b,s,e], W[v,e], labels i32[b,s] -> stats f32[b,s,3*vocab shards]: per
 * shard of the vocabulary (max logit, sum exp(logit - max), label's logit or 0 if not in this
 * shard) lm_head_loss         stats, labels -> loss[1] += nothing; = scale * sum over tokens of
 * (lse - label logit), lse[b,s] (label < 0: token ignored, lse still written) lm_head_grad x, W,
 * labels, lse -> dx[b,s,e], dW[v,e] of the scaled loss, chunked over tokens; with a whole
 * vocabulary, from schedule on: x, W, labels -> dx, dW, loss[1], each token's loss [b,s]
 * sum_squares          g
 * -> s[1] grad_norm            s_1 .. s_n -> norm[1] = sqrt(sum) adamw                w, g, m, v,
 * norm -> w, m, v (in place); hyper-parameters from the step (device.h); gradient scaled by min(1,
 * clip / norm) when clip > 0; decoupled decay (Loshchilov & Hutter 2019) cast                 x ->
 * x in another dtype slice, all_gather, reduce_scatter, all_reduce, all_to_all: reshard.h;
 * all_reduce takes n operands in place (coalesced): in[i] -> out[i] wait                 in[0]: the
 * compute stream waits until the collective that writes it is done
 */
#ifndef SW_OP_H
#define SW_OP_H

#include "core/program/program.h"

/* Accounting of one op on one rank. */
struct sw_op_cost {
    double flops;         /* multiply-adds count 2 */
    int64_t memory_bytes; /* read + written by a device that keeps nothing in cache */
};

struct sw_autodiff; /* differentiate.c */

enum sw_op_class {
    SW_CLASS_MATMUL,
    SW_CLASS_ATTENTION,
    SW_CLASS_MEMORY,
    SW_CLASS_COLLECTIVE,
    SW_CLASS_NONE
};

struct sw_op_info {
    const char *name;
    /* Factors, one letter per dimension: "bse,ef->bsf". A letter in the result is parallel, one
     * only in operands is reduced. Letters of `whole` are never split. '.' matches any dimensions
     * of an elementwise op. `ring` is the pair (query sequence, key sequence) that shares its axes.
     */
    const char *factors;
    const char *whole;
    const char *ring;
    enum sw_op_class cost_class;
    bool linear; /* passes a partial through when all operands have the same sharding and partial */
    bool in_place; /* out[0] is in[0] */
    /* Appends the VJP; NULL for ops that are not differentiated. */
    int (*vjp)(struct sw_autodiff *autodiff, const struct sw_op *op, struct sw_error *err);
    struct sw_op_cost (*cost)(const struct sw_program *program, const struct sw_op *op);
    /* Scratch bytes on one rank; NULL: none. Part of the arena, so both tools agree on it. */
    int64_t (*workspace)(const struct sw_program *program, const struct sw_op *op);
};

const struct sw_op_info *sw_op_info(enum sw_op_kind kind);
bool sw_op_is_collective(enum sw_op_kind kind); /* all_gather .. all_to_all, not slice, not wait */

/* Which operand of such ops is added to out[0], if they have it: linear, linear_t, rmsnorm_grad. 0
 * for kinds that take none. */
uint8_t sw_op_addend(enum sw_op_kind kind);
/* Bytes of that operand on one rank; 0 without. */
int64_t sw_op_addend_bytes(const struct sw_program *program, const struct sw_op *op);

/* Bytes that one rank sends (= receives) in a collective, or over the whole ring of
 * ring_attention(_grad). */
int64_t sw_op_communication_bytes(const struct sw_program *program, const struct sw_op *op);

/* Tokens per chunk of lm_head_*: [chunk, local vocab] logits are the largest there ever are. */
int64_t sw_lm_head_chunk_tokens(int64_t tokens, int64_t local_vocab);

/* Flops of the matrix products and attention of one step over all ranks, each counted once and
 * nothing that is recomputed (Chowdhery et al. 2022, section 4.1): what `mfu` is made of. */
int sw_program_model_flops(const struct sw_program_options *options, double *out,
                           struct sw_error *err);

#endif
