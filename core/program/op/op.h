/* The table of op kinds: everything the passes know about an op stands in one row, and every pass
 * asks the row. Rows stand by family: linear.c, attention.c, norm.c, head.c, optimizer.c, shape.c,
 * collective.c, snapshot.c, serving.c.
 *
 * The semantics, with shapes ([b]atch, [s]eq, [e]mbed, [f] mlp or heads * head_dim, [h] heads *
 * head_dim, [g] kv heads * head_dim, [d] head_dim, [v]ocab), as a rank sees them: */
/* clang-format off
 *
 *   embedding             tokens i32[b,s], table[v,e] -> y[b,s,e]; a token outside this rank's rows gives 0 (partial)
 *   embedding_grad        tokens, dy[b,s,e] -> dtable[v,e]; overwrites, rows of this rank's vocab only
 *   rmsnorm               x[b,s,e], w[e] -> y = x / sqrt(mean(x^2) + eps) * w
 *   rmsnorm_grad          x, w, dy (, z[b,s,e]) -> dx[b,s,e] (+ z), dw[e]
 *   head_norm             x[b,s,h], w[d] -> y: each head of d by itself, as rmsnorm
 *   head_norm_grad        x, w, dy -> dx[b,s,h], dw[d]
 *   linear                x[b,s,e], W[e,f] (, z[b,s,f]) -> y[b,s,f] = x W (+ z)
 *   linear_t              x[b,s,f], W[e,f] (, z[b,s,e]) -> y[b,s,e] = x W^T (+ z)
 *   linear_dw             x[b,s,e], dy[b,s,f] (, acc[e,f]) -> dW[e,f] = x^T dy; `adds`: acc -> acc + x^T dy in place,
 *                         and with `first`, in the first micro-step, acc = x^T dy
 *   add_bias              x[b,s,f], w[f] -> x + w
 *   bias_grad             dy[b,s,f] -> dw[f]: the sum over all tokens
 *   rope                  x[b,s,h], positions i32[s] -> y; pairs (j, j + d/2) of each head rotated by position * f(j),
 *                         f = theta^(-2j/d) or that stretched (core/base/model.h); angles in fp32; inverse: by minus that
 *   replicate_heads       x[b,s,g] -> y[b,s,h], head i of y is head i / copies of x
 *   replicate_heads_grad  dy[b,s,h] -> dx[b,s,g], sum of the copies this rank has (partial)
 *   constrain             x -> x with another declared sharding (no code: becomes reshard)
 *   ring_attention        q[b,sq,h], k[b,sk,g], v[b,sk,g] -> o[b,sq,h], lse[b,sq,heads] f32 (natural log, of scaled
 *                         scores); causal; query head i attends with kv head i / group
 *   ring_attention_grad   q, k, v, o, lse, do -> dq, dk, dv
 *   swiglu                gate[b,s,f], up[b,s,f] -> silu(gate) * up
 *   swiglu_grad           gate, up, dh -> dgate, dup
 *   add                   a, b -> a + b
 *   accumulate            acc, x -> acc + x in place; `first` in the first micro-step: acc = x
 *   lm_head_stats         x[b,s,e], W[v,e], labels i32[b,s] -> stats f32[b,s,3 * vocab shards]: per shard of the
 *                         vocabulary (max logit, sum exp(logit - max), label's logit or 0 if not in this shard)
 *   lm_head_loss          stats, labels -> loss[1] = scale * sum over tokens of (lse - label logit), lse[b,s];
 *                         label < 0: token ignored, lse still written; scale: the step's (device.h)
 *   lm_head_grad          x, W, labels, lse -> dx[b,s,e], dW[v,e] of that loss, chunked over tokens; with a whole
 *                         vocabulary, from schedule on: x, W, labels -> dx, dW, loss[1], each token's loss [b,s];
 *                         `adds` as linear_dw: an operand more, acc, which is dW
 *   sum_squares           g -> s[1]
 *   grad_norm             s_1 .. s_n -> norm[1] = sqrt(sum)
 *   adamw                 w, g, m, v, norm -> w, m, v in place; hyper-parameters from the step (device.h); gradient scaled
 *                         by min(1, clip / norm) when clip > 0; decoupled decay (Loshchilov & Hutter 2019)
 *   cast                  x -> x in another dtype
 *   slice, all_gather, reduce_scatter, all_reduce, all_to_all
 *                         reshard.h; all_reduce takes n operands in place (coalesced): in[i] -> out[i]
 *   wait                  in[0]: the compute stream waits until the collective that writes it is done
 *   snapshot              state -> the bytes of a checkpoint's files, at the ranks that write them: one round of the
 *                         exchange in core/program/checkpoint, each iteration of its region the next one
 *
 *   of serving; slots i32[b,2]: the first position of each slot's tokens here and their number (0: the slot rests),
 *   [t] cache positions, [p]arts: ranks along them
 *   rope_slots            x[b,s,h], slots -> y: token i of slot b at position slots[b,0] + i
 *   cache_append          cache[b,t,g], x[b,s,g], slots -> cache in place; a rank keeps the positions that are its own
 *                         (serving.h)
 *   decode_attention      q[b,s,h], keys[b,t,g], values[b,t,g], slots -> parts f32[b,s,h,p], stats f32[b,s,2 * heads,p]:
 *                         of this rank's positions, causal: sum of exp(score - max) value; (max, sum of exp(score - max))
 *   cache_append_int8     cache i8[b,t,g], x[b,s,g], slots, scales f32[b,t,kv heads] -> cache, scales in place: as
 *                         cache_append, each head of each token in int8 with a scale of its own (serving.h)
 *   decode_attention_int8 q, keys i8, values i8, slots, key scales f32[b,t,kv heads], value scales -> parts, stats: as
 *                         decode_attention of what the integers and scales stand for
 *   chunk_attention       q[b,s,h], keys[b,t,g], values[b,t,g], slots -> o[b,s,h], causal: over a whole cache as `parts`
 *                         ranks store it, one part behind the other
 *   softmax_merge         parts, stats -> o[b,s,h], this rank's share of the whole softmax (partial)
 *   pick_token            x[b,s,e], slots -> y[b,1,e], the last of each slot's tokens; of none 0 (partial)
 *   sample                logits f32[b,1,v], seen i32[b,v/32], settings f32[b,7] -> sampled f32[b,2]: token and its
 *                         log-probability without settings (sampling.h)
 *   top_tokens            logits, settings, sampled -> f32[b,42]: sampled and the most probable tokens, each with its
 *                         log-probability, as many as the settings want (sampling.h)
 *   lm_head_logprobs      stats, labels -> f32[b,s] label logit - lse; label < 0: 0
 *
 * In brackets: from schedule on, perhaps one operand more, shaped as the result, that is added to it.
 * It is somewhere else than the result, but for `adds`.
 * clang-format on */
#ifndef SW_OP_H
#define SW_OP_H

#include "core/program/program.h"

/* Accounting of one op on one rank. */
struct sw_op_cost {
    double flops;         /* multiply-adds count 2 */
    int64_t memory_bytes; /* read + written by a device that keeps nothing in cache */
};

/* One matrix product [m,k] x [k,n]. */
struct sw_product {
    double m, n, k;
};
enum { SW_OP_MAX_PRODUCTS = 3 };

struct sw_autodiff; /* differentiate.c */

enum sw_op_class {
    SW_CLASS_MATMUL,
    SW_CLASS_ATTENTION,
    SW_CLASS_MEMORY,
    SW_CLASS_COLLECTIVE, /* on the communication stream */
    SW_CLASS_WAIT,
    SW_CLASS_NONE
};

/* What partition does with an op beyond claiming axes for its factors. */
enum sw_lowering {
    SW_LOWER_CLAIMS,
    SW_LOWER_CONSTRAINT, /* no op: the value goes on in its declared sharding */
    SW_LOWER_ACCUMULATE  /* the sum keeps its spec, whatever is added */
};

/* One described field of the attributes. */
enum sw_attribute_type {
    SW_ATTRIBUTE_END,
    SW_ATTRIBUTE_INT,   /* int32_t */
    SW_ATTRIBUTE_LONG,  /* int64_t */
    SW_ATTRIBUTE_REAL,  /* double */
    SW_ATTRIBUTE_FLAG,  /* bool, printed by its name */
    SW_ATTRIBUTE_LAYOUT /* int32_t, enum sw_sequence_layout, printed by its word */
};
enum sw_attribute_print {
    SW_PRINT_ALWAYS,
    SW_PRINT_SET, /* unless it is zero */
    SW_PRINT_NEVER
};
struct sw_attribute {
    const char *name;
    uint8_t type;    /* enum sw_attribute_type */
    uint8_t prints;  /* enum sw_attribute_print */
    uint8_t symbol;  /* enum sw_size: an int that follows the mesh */
    bool costs;      /* ops that differ in it cost differently */
    uint16_t offset; /* in union sw_attributes */
};

struct sw_op_info {
    const char *name;
    /* Factors, one letter per dimension: "bse,ef->bsf". A letter in the result is parallel, one
     * only in operands is reduced. '.' matches any dimensions of an elementwise op; the last
     * pattern of a side repeats. */
    const char *factors;
    const char *whole; /* letters that are never split */
    const char *ring;  /* the pair (query sequence, key sequence) that shares its axes, or NULL */
    const char
        *nested; /* the pair (few, many) of letters whose blocks nest: copied heads, or NULL */
    const char *beside; /* the pair (there, put) of letters that are split alike or the second not
                           at all: positions of a cache and of what is appended, or NULL */
    const struct sw_attribute *attributes; /* ends with SW_ATTRIBUTE_END; NULL: none */
    enum sw_op_class cost_class;
    enum sw_lowering lowering;
    bool linear; /* passes a partial through when all operands have the same sharding and partial */
    bool sums;   /* out[0] = in[0] + in[1] and nothing else */
    bool cheap;  /* rather made again than kept; with `linear`, its result stands for its operand */
    bool seeds;  /* makes the loss: reverse mode begins here */
    bool makes_gradient;   /* of a whole weight */
    bool travels_home;     /* the ring's last hop brings results back to their owner */
    bool driven;           /* run from outside, round by round; the executor has its workspace */
    uint8_t addend;        /* index of the operand that may be added to out[0]; 0: takes none */
    uint8_t gradient;      /* 1 + index of the result that it may add to a sum in place; 0: none */
    uint8_t collective;    /* slice and collectives: 1 + enum sw_collective, else 0 */
    uint8_t gradient_kind; /* enum sw_op_kind of its gradient, for the usual VJP rules */
    /* Appends the VJP; NULL for ops that are not differentiated. */
    int (*vjp)(struct sw_autodiff *autodiff, const struct sw_op *op, struct sw_error *err);
    /* Memory, and flops where there are no products. */
    struct sw_op_cost (*cost)(const struct sw_program *program, const struct sw_op *op);
    /* Matrix products; returns how many. NULL: none. */
    int32_t (*products)(const struct sw_program *program, const struct sw_op *op,
                        struct sw_product out[SW_OP_MAX_PRODUCTS]);
    /* Share of the flops that a model needs: what is not made a second time. NULL: all. */
    double (*model_share)(const struct sw_op *op);
    /* Bytes that one rank sends (= receives); NULL: none. */
    int64_t (*communication)(const struct sw_program *program, const struct sw_op *op);
    /* Of an op that sends them one by one, over `axes`, and then waits: how many; NULL: it does
     * not. */
    double (*messages)(const struct sw_op *op);
    /* Scratch bytes on one rank; NULL: none. Part of the arena, so both tools agree on it. */
    int64_t (*workspace)(const struct sw_program *program, const struct sw_op *op);
};

extern const struct sw_op_info *const sw_op_rows[SW_OP_COUNT];

static inline const struct sw_op_info *sw_op_info(enum sw_op_kind kind)
{
    return sw_op_rows[kind];
}

/* all_gather .. all_to_all, not slice, not wait */
static inline bool sw_op_is_collective(enum sw_op_kind kind)
{
    return sw_op_rows[kind]->cost_class == SW_CLASS_COLLECTIVE;
}

/* Whether it adds a gradient to its sum in place, which is its last operand then. */
static inline bool sw_op_adds_gradient(const struct sw_op *op)
{
    return sw_op_rows[op->kind]->gradient > 0 && op->as.gradient.adds;
}

static inline bool sw_op_is_wait(enum sw_op_kind kind)
{
    return sw_op_rows[kind]->cost_class == SW_CLASS_WAIT;
}

/* ring_attention(_grad) */
static inline bool sw_op_is_ring(enum sw_op_kind kind)
{
    return sw_op_rows[kind]->ring != NULL;
}

/* snapshot: any rank over `axes` sends to any other, and it waits for that */
static inline bool sw_op_is_exchange(enum sw_op_kind kind)
{
    return sw_op_rows[kind]->messages != NULL;
}

/* Of slice and the collectives. */
static inline enum sw_collective sw_op_collective(enum sw_op_kind kind)
{
    return (enum sw_collective)(sw_op_rows[kind]->collective - 1);
}

struct sw_op_cost sw_op_cost(const struct sw_program *program, const struct sw_op *op);

/* Bytes of the operand that is added to the result, on one rank; 0 without. */
int64_t sw_op_addend_bytes(const struct sw_program *program, const struct sw_op *op);

/* Bytes that one rank sends (= receives) in a collective, or over the whole ring of
 * ring_attention(_grad), as they travel. */
int64_t sw_op_communication_bytes(const struct sw_program *program, const struct sw_op *op);

/* Bytes that one rank sends in one run of the program. */
int64_t sw_program_sent_bytes(const struct sw_program *program);

/* An integer attribute's value, as printed and digested. */
int64_t sw_attribute_int(const struct sw_op *op, const struct sw_attribute *attribute);
double sw_attribute_real(const struct sw_op *op, const struct sw_attribute *attribute);

/* Radians by which position 1 rotates pair j of a head: theta^(-2j / head_dim), stretched as the
 * model says (core/base/model.h). */
double sw_rope_frequency(const struct sw_rope_attributes *attributes, int64_t j);

/* Tokens per chunk of lm_head_*: [chunk, local vocab] logits are the largest there ever are. */
int64_t sw_lm_head_chunk_tokens(int64_t tokens, int64_t local_vocab);

/* Flops of the matrix products and attention of one step over all ranks, each counted once and
 * nothing that is recomputed (Chowdhery et al. 2022, section 4.1): what `mfu` is made of. */
int sw_program_model_flops(const struct sw_program_options *options, double *out,
                           struct sw_error *err);

#endif
