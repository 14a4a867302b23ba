/* Scratch of the compute ops on one rank: one formula that layout (arena size), plan and every
 * device share.
 *
 * Pure functions of the local shapes that layout has set; independent of threads. Owns nothing. */
#ifndef SW_WORKSPACE_H
#define SW_WORKSPACE_H

#include "core/ir/op.h"

enum {
    SW_HEAD_DIM_PADDING = 16, /* elements: rows of the carries are whole vectors */
    SW_NORM_SLICES = 16,      /* partial sums of a norm's or bias's dw, whatever the threads */
    /* Logits that exist at once, and, for large vocabularies, tokens: each chunk reads the table
     * three times and its f32 gradient once, and writes that. A GPU does 200 to 300 flops in the
     * time of a byte: with 64 tokens a chunk would take ten times as long as its products, with
     * 2048 it is hidden behind them. */
    SW_LM_HEAD_CHUNK_ELEMS = 4 << 20,
    SW_LM_HEAD_CHUNK_TOKENS = 2048,
    /* Floats that a row of logits is rounded up to: as bf16 too, rows then begin where the fastest
     * kernels of libraries may load them, whatever the vocabulary. */
    SW_LM_HEAD_ROW_ELEMS = 64
};

/* What travels around the ring: nothing where it has one member; keys and values as they are and
 * the sums of their gradients wide; or all of it rounded to bf16. And, added to that, whether it is
 * made of inner rings: n consecutive members each, one node's, which pass their blocks around
 * while these go on to the same places of the next inner ring, an n-th with each hop; then those
 * that came are passed around (the double ring of Gu et al. 2024, LoongTrain, section 4.3). The
 * sum of an inner ring's parts of dk and dv comes home to where its block came from, is added to
 * what the inner rings before made, and goes on likewise. */
enum sw_hops { SW_HOPS_NONE, SW_HOPS_AS_COMPUTED, SW_HOPS_BF16, SW_HOPS_OF_RINGS = 4 };

/* How attention(_grad) of a sequence uses its workspace. Offsets in bytes, each a multiple of
 * SW_ARENA_ALIGNMENT; `wide` is fp32, or fp64 when the operands are. Without hops forward needs
 * nothing and backward one cotangent block. */
struct sw_attention_workspace {
    int64_t padded_dim; /* head_dim rounded up to SW_HEAD_DIM_PADDING */
    /* 0: all of a rank's keys travel. Else the last `halo` positions of each of that many chunks
     * that a rank has (ring.h): the members below then are of one of those, for which there is room
     * in travel[0, 1], leaving, and [2, 3], arriving, and in cotangent[1, 2], computed and leaving,
     * and [3, 4], arriving */
    int32_t halos;
    int64_t halo;
    int64_t travel_bytes; /* k and v of one rank beside each other, as they are sent */
    int64_t travel[4];    /* the block at hand, the block arriving; of inner rings, besides, that
                             which its round began with and leaves for the next ring, and the one
                             arriving from there */
    bool widened;         /* k and v travel in another dtype than q has: before a rank attends, */
    int64_t at_hand;      /* they are converted to [2 (k, v), batch, sk, kv heads * head_dim] */
    int64_t carry;        /* wide [batch, heads, sq, padded_dim]: forward o, backward dq */
    int64_t maximum,
        sum; /* forward: wide [batch, heads, sq], running max and sum of exponentials */
    int64_t cotangent_bytes, sum_bytes; /* backward: of dk and dv wide; as they are sent */
    int64_t
        cotangent[5]; /* backward: [2 (dk, dv), batch, kv heads, sk, padded_dim]: being computed,
                         wide; arriving, being sent, as they are sent; without hops only the
                         first; of inner rings also what leaves for the next and arrives */
    int64_t bytes;    /* all of it */
};

/* Floats from one token's logits to the next's, where a device keeps to that. */
static inline int64_t sw_lm_head_row_elems(int64_t local_vocab)
{
    return (local_vocab + SW_LM_HEAD_ROW_ELEMS - 1) / SW_LM_HEAD_ROW_ELEMS * SW_LM_HEAD_ROW_ELEMS;
}

/* What an op's hops carry, where its ring has so many ranks. */
enum sw_hops sw_attention_hops(const struct sw_op *op, int32_t ranks);
/* Ranks of an inner ring: all where it is one ring, or the op's do not divide them. */
int32_t sw_attention_inner_ring(const struct sw_op *op, int32_t ranks);

/* Positions behind each of a rank's chunks, `part` keys of that type in all, that attention takes
 * from its neighbours in place of a ring; -1: it has a ring, or one rank. So it is where a window
 * reaches no further than the chunk before. */
int64_t sw_attention_halo(const struct sw_op *op, int32_t ranks, int64_t part, enum sw_dtype dtype);

/* q, k: local shapes [batch, s, heads * head_dim] of that dtype. */
void sw_attention_workspace_layout(const int64_t q[3], const int64_t k[3], int32_t head_dim,
                                   enum sw_dtype dtype, enum sw_hops hops, bool backward,
                                   struct sw_attention_workspace *out);
/* The same of an attention(_grad) op whose ring has so many ranks. */
void sw_attention_workspace_of(const struct sw_op *op, int32_t ranks, const int64_t q[3],
                               const int64_t k[3], enum sw_dtype dtype,
                               struct sw_attention_workspace *out);

/* What a GPU's attention works in besides that: cuDNN's workspace, and what lies between its pieces
 * and the op's results; or what the own kernels keep between them. `direct`: one piece is all there
 * is, without hops (a square of consecutive positions); else room for pieces as large as the
 * operands. cuDNN's part is what 9.19 asks for where sequences are multiples of 32, up to a
 * kilobyte more elsewhere (tests/unit/test_cudnn_plans.c); the runner compares. */
int64_t sw_attention_library_bytes(const int64_t q[3], const int64_t k[3], int32_t head_dim,
                                   enum sw_dtype dtype, bool hops, bool direct, bool backward);

/* How a GPU shares out the places of a cache while a single token of each slot attends: ranges of
 * `places`, each made by itself and then merged in order. A function of the shapes alone, so that
 * what becomes of a slot depends neither on its neighbours nor on the hardware. */
struct sw_decode_ranges {
    int64_t positions, count; /* of a range, the last may be shorter; 1: nothing to merge */
    int64_t stats;            /* offset of f32 [slots, heads, count, 2] (maximum, sum), behind f32
                                 [slots, heads, count, head_dim], sums that are not divided yet */
    int64_t bytes;            /* of both; 0: nothing to merge */
};
void sw_decode_ranges_of(int64_t slots, int64_t heads, int64_t kv_heads, int64_t positions,
                         int32_t head_dim, struct sw_decode_ranges *out);

/* How a GPU multiplies rows [rows, inputs] with weights in 8 bits. A few rows in bf16 go through a
 * kernel that widens what it reads, whose sums of `inputs` products are made in one order. Else
 * some of the outputs at a time, a panel, are widened to the rows' dtype, multiplied by the library
 * into f32, scaled and rounded. A function of the shapes alone, as above. */
bool sw_quantized_in_kernel(int64_t rows, int64_t inputs, int64_t outputs, enum sw_dtype dtype);
struct sw_quantized_panels {
    int64_t outputs; /* of a panel; the last may have fewer */
    int64_t results; /* offset of f32 [rows, outputs], behind the weights, outputs * inputs */
    int64_t bytes;   /* of both */
};
void sw_quantized_panels_of(int64_t rows, int64_t inputs, int64_t outputs, enum sw_dtype dtype,
                            struct sw_quantized_panels *out);

/* Whether an op wants scratch on any mesh. */
bool sw_workspace_wanted(const struct sw_program *program, const struct sw_op *op);
/* Scratch bytes of one op on one rank; the op's operands have their local shapes. */
int64_t sw_workspace_attention(const struct sw_program *program, const struct sw_op *op);
int64_t sw_workspace_linear(const struct sw_program *program, const struct sw_op *op);
int64_t sw_workspace_attention_grad(const struct sw_program *program, const struct sw_op *op);
/* Bytes of the logits of a chunk in that workspace, behind which panels of a table in 8 bits lie.
 */
int64_t sw_lm_head_panels_at(int64_t tokens, int64_t vocab);
int64_t sw_workspace_lm_head_stats(const struct sw_program *program, const struct sw_op *op);
/* Also holds a wide dW when the result is narrower: chunks are not summed in bf16. */
int64_t sw_workspace_lm_head_grad(const struct sw_program *program, const struct sw_op *op);
int64_t sw_workspace_norm_grad(const struct sw_program *program, const struct sw_op *op);
int64_t sw_workspace_bias_grad(const struct sw_program *program, const struct sw_op *op);

#endif
