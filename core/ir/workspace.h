/* Scratch of the compute ops on one rank: one formula that layout (arena size), plan and every
 * device share.
 *
 * Pure functions of the local shapes that layout has set; independent of threads. Owns nothing. */
#ifndef SW_WORKSPACE_H
#define SW_WORKSPACE_H

#include "core/ir/op.h"

enum {
    SW_HEAD_DIM_PADDING = 16, /* elements; rows of carries are whole vectors */
    SW_NORM_SLICES = 16,      /* partial sums of dw of a norm or bias, for any number of threads */
    /* Most logits in memory at once, and, for large vocabularies, fewest tokens of a chunk: each
     * chunk reads the table three times and its f32 gradient once, and writes that. A GPU does 200
     * to 300 flops in the time of one byte: with 64 tokens this traffic would take ten times as
     * long as a chunk's products, with 2048 it hides behind them. */
    SW_LM_HEAD_CHUNK_ELEMS = 4 << 20,
    SW_LM_HEAD_CHUNK_TOKENS = 2048,
    /* Floats that a row of logits is rounded up to: rows then begin where the fastest kernels of
     * libraries can load them, in bf16 too, for any vocabulary. */
    SW_LM_HEAD_ROW_ELEMS = 64
};

/* Messages of the ring: none with one member; keys and values in the compute precision with wide
 * sums of gradients; or all rounded to bf16. Inner rings are an added flag: each has n consecutive
 * members, those of one node, and passes its blocks around while an n-th of each block goes with
 * each hop to the same member of the next inner ring; then the blocks that arrived are passed
 * around (double ring, Gu et al. 2024, LoongTrain, section 4.3). An inner ring's sums of dk and dv
 * return to the member that sent the block, are added to the sums of earlier inner rings, and go on
 * likewise. */
enum sw_hops { SW_HOPS_NONE, SW_HOPS_AS_COMPUTED, SW_HOPS_BF16, SW_HOPS_OF_RINGS = 4 };

/* Workspace of attention(_grad) of a sequence. Offsets in bytes, each a multiple of
 * SW_ARENA_ALIGNMENT; `wide` is fp32, or fp64 for operands in fp64. Without hops forward needs
 * nothing and backward one cotangent block. */
struct sw_attention_workspace {
    int64_t padded_dim; /* head_dim rounded up to SW_HEAD_DIM_PADDING */
    /* 0: all keys travel. Else the last `halo` positions of each of a rank's `halos` chunks do
     * (ring.h): the members below then hold one of those, in travel[0, 1] leaving, in travel[2, 3]
     * arriving, in cotangent[1, 2] computed and leaving, in cotangent[3, 4] arriving */
    int32_t halos;
    int64_t halo;
    int64_t travel_bytes; /* k and v of one rank, as sent */
    /* current block, arriving block; with inner rings also the first block of the round, which
     * leaves for the next ring, and the block arriving from there */
    int64_t travel[4];
    bool widened; /* true if k and v are sent in another type than that of q; before a rank attends,
                   */
    int64_t at_hand;      /* they are converted to [2 (k, v), batch, sk, kv heads * head_dim] */
    int64_t carry;        /* wide [batch, heads, sq, padded_dim]: forward o, backward dq */
    int64_t maximum, sum; /* forward: wide [batch, heads, sq]: running max, sum of exponentials */
    int64_t cotangent_bytes, sum_bytes; /* backward: bytes of dk and dv, wide; as sent */
    int64_t cotangent[5]; /* backward: [2 (dk, dv), batch, kv heads, sk, padded_dim]: computed now,
                             wide; arriving and leaving, as sent; without hops only the first; with
                             inner rings also the blocks to and from the next ring */
    int64_t bytes;        /* whole workspace */
};

/* Floats from one token's logits to the next token's, on devices that pad rows. */
static inline int64_t sw_lm_head_row_elems(int64_t local_vocab)
{
    return (local_vocab + SW_LM_HEAD_ROW_ELEMS - 1) / SW_LM_HEAD_ROW_ELEMS * SW_LM_HEAD_ROW_ELEMS;
}

/* Messages of an op's hops in a ring of that many ranks. */
enum sw_hops sw_attention_hops(const struct sw_op *op, int32_t ranks);
/* Ranks of an inner ring: all if there is one ring, or if the op's inner rings do not divide
 * them. */
int32_t sw_attention_inner_ring(const struct sw_op *op, int32_t ranks);

/* Positions behind each of a rank's chunks that attention takes from neighbours instead of a ring;
 * -1: it has a ring, or one rank. `part`: keys of that type on a rank. A halo needs a window that
 * reaches no further than the chunk before. */
int64_t sw_attention_halo(const struct sw_op *op, int32_t ranks, int64_t part, enum sw_dtype dtype);

/* q, k: local shapes [batch, s, heads * head_dim] in that type. */
void sw_attention_workspace_layout(const int64_t q[3], const int64_t k[3], int32_t head_dim,
                                   enum sw_dtype dtype, enum sw_hops hops, bool backward,
                                   struct sw_attention_workspace *out);
/* Workspace of an attention(_grad) op with a ring of that many ranks. */
void sw_attention_workspace_of(const struct sw_op *op, int32_t ranks, const int64_t q[3],
                               const int64_t k[3], enum sw_dtype dtype,
                               struct sw_attention_workspace *out);

/* Bytes that a GPU's attention needs besides: cuDNN's workspace, and data between its pieces and
 * the op's results; or buffers between our own kernels. direct: a single piece without hops (a
 * square of consecutive positions); else pieces may be as large as the operands. cuDNN's part is
 * what 9.19 asks for with sequences in multiples of 32, and up to a kilobyte more elsewhere
 * (tests/unit/test_cudnn_plans.c); the runner compares. */
int64_t sw_attention_library_bytes(const int64_t q[3], const int64_t k[3], int32_t head_dim,
                                   enum sw_dtype dtype, bool hops, bool direct, bool backward);

/* Ranges of a cache's positions that a GPU attends over when each slot has a single token: each
 * range is computed alone, then ranges are merged in order. A function of shapes alone: a slot's
 * result depends neither on other slots nor on the hardware. */
struct sw_decode_ranges {
    int64_t positions,
        count;     /* positions of a range, the last may be shorter; ranges, 1: nothing to merge */
    int64_t stats; /* offset of f32 [slots, heads, count, 2] (maximum, sum), behind undivided sums
                      f32 [slots, heads, count, head_dim] */
    int64_t bytes; /* bytes of both; 0: nothing to merge */
};
void sw_decode_ranges_of(int64_t slots, int64_t heads, int64_t kv_heads, int64_t positions,
                         int32_t head_dim, struct sw_decode_ranges *out);

/* Product of rows [rows, inputs] with weights in 8 bits on a GPU. A few rows in bf16 go through a
 * kernel that widens weights as it reads them and adds `inputs` products in one order. Else a panel
 * of outputs at a time is widened to the rows' type, multiplied by the library into f32, scaled and
 * rounded. A function of shapes alone, as above. */
bool sw_quantized_in_kernel(int64_t rows, int64_t inputs, int64_t outputs, enum sw_dtype dtype);
struct sw_quantized_panels {
    int64_t outputs; /* outputs of a panel; the last may have fewer */
    int64_t results; /* offset of f32 [rows, outputs], behind outputs * inputs widened weights */
    int64_t bytes;   /* bytes of both */
};
void sw_quantized_panels_of(int64_t rows, int64_t inputs, int64_t outputs, enum sw_dtype dtype,
                            struct sw_quantized_panels *out);

/* True if an op needs scratch on any mesh. */
bool sw_workspace_wanted(const struct sw_program *program, const struct sw_op *op);
/* Scratch bytes of one op on one rank; its operands must have local shapes. */
int64_t sw_workspace_attention(const struct sw_program *program, const struct sw_op *op);
int64_t sw_workspace_linear(const struct sw_program *program, const struct sw_op *op);
int64_t sw_workspace_attention_grad(const struct sw_program *program, const struct sw_op *op);
/* Offset of the panels of a table in 8 bits, behind the logits of a chunk. */
int64_t sw_lm_head_panels_at(int64_t tokens, int64_t vocab);
int64_t sw_workspace_lm_head_stats(const struct sw_program *program, const struct sw_op *op);
/* Includes a wide dW if the result is narrower: sums over chunks are not kept in bf16. */
int64_t sw_workspace_lm_head_grad(const struct sw_program *program, const struct sw_op *op);
int64_t sw_workspace_norm_grad(const struct sw_program *program, const struct sw_op *op);
int64_t sw_workspace_bias_grad(const struct sw_program *program, const struct sw_op *op);

#endif
