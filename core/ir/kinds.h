/* Kinds of ops, the attributes of each, and an op over values. */
#ifndef SW_IR_KINDS_H
#define SW_IR_KINDS_H

#include "core/base/model.h"
#include "core/ir/value.h"

enum { SW_COLLECTIVE_MAX_OPERANDS = 16 }; /* small all_reduces that travel together */

enum sw_op_kind { /* semantics: core/ir/ops.def */
#define SW_KERNEL(KIND, name) SW_OP_##KIND,
#define SW_OTHER SW_KERNEL
#include "core/ir/ops.def"
                  SW_OP_COUNT
};

/* Attributes of op kinds. The row of a kind names the ones that it has and describes their
 * fields. */
struct sw_norm_attributes {
    double eps;
    int32_t head_dim; /* head_norm(_grad); else 0 */
    int32_t width;    /* split_norm(_grad): elements of a whole row; else 0 */
    bool plus_one; /* true if rows are multiplied by 1 + w instead of w; row_sums has it as well */
};
struct sw_scale_attributes {
    double factor;
};
struct sw_softcap_attributes {
    double cap;
};
struct sw_rope_attributes {
    struct sw_rope rope; /* with longrope, the divisors stand in struct sw_program */
    int32_t head_dim;
    int32_t rotated; /* elements at the front of a head that rotate; 0: all */
    bool inverse;    /* true if rotated back: the VJP */
    bool slots; /* true if positions come from slots (serving.h), false: one list for all sequences
                 */
    bool rows;  /* true if each sequence has a list of its own */
};
struct sw_copies_attributes { /* replicate_heads(_grad) */
    int32_t head_dim, copies;
};
/* Keys of attention(_grad): a sequence, whose parts travel along the ring if it is split; this
 * rank's part of a cache; or a whole cache. */
enum sw_attention_keys { SW_KEYS_SEQUENCE, SW_KEYS_CACHE_PART, SW_KEYS_CACHE };
struct sw_attention_attributes { /* attention(_grad) */
    double scale;                /* factor of scores: 1/sqrt(head_dim) */
    int32_t head_dim;
    int32_t group; /* query heads per kv head */
    bool sink; /* true if the last operand is a score for each query head, counted in the softmax
                  without a value */
    /* A query at position p meets keys from p - window + 1 to p; 0: all up to p. */
    int64_t window;
    double softcap; /* scores s become softcap tanh(s / softcap), before the mask; 0: they stay */
    int32_t keys;   /* enum sw_attention_keys */
    /* if keys are a sequence: its storage order (sequence.h) and further operands */
    int32_t sequence_shards;
    int32_t sequence_layout; /* enum sw_sequence_layout; -1: keys are a cache */
    bool positions; /* true if positions of queries and keys are operands; false: those of the
                       storage order */
    bool segments;  /* true if segments are operands: queries see keys of their own segment alone */
    bool bf16_hops; /* true if the ring sends bf16 (workspace.h) */
    int32_t inner_ring; /* ranks of an inner ring (workspace.h); 0: one ring */
    bool halo;          /* true if halos replace the ring (ring.h) */
    /* if keys are a cache (serving.h) */
    int32_t chunk; /* positions that prefill takes at a time */
    int32_t parts; /* ranks that share a whole cache; 0: keys are this rank's part */
};
struct sw_swiglu_attributes { /* swiglu(_grad) */
    bool gelu;                /* true if the gate is GELU, false: SiLU */
};
struct sw_append_attributes { /* cache_append */
    int32_t head_dim; /* elements of a head in an int8 cache, which has one scale a head; else 0 */
    int32_t chunk;    /* positions that prefill takes at a time: serving.h */
    bool ring;        /* true if position p is stored at p modulo the cache's positions */
};
struct sw_merge_attributes { /* softmax_merge */
    bool sink; /* true if the last operand is a score for each head, counted once in the softmax */
};
struct sw_accumulate_attributes {
    bool first; /* true if the first micro-step overwrites */
};
struct sw_gradient_attributes { /* ops that make a weight's gradient; the first fields are those of
                                   accumulate */
    bool first;
    bool adds; /* true if the gradient is added in place to the last operand, which is the result */
};
struct sw_head_attributes { /* lm_head, its parts and gradients; the first fields are those of
                               gradient */
    bool first, adds;
    double softcap; /* logits x become softcap tanh(x / softcap); 0: they stay */
};
struct sw_adamw_attributes {
    bool decay;    /* true if weight decay applies */
    bool guarded;  /* true if the loss is an operand behind the norm, and no update is made where
                      loss or norm exceeds the step's limit (device.h) */
    int32_t block; /* elements of a block if moments are codes (blockwise.h); else 0 */
};
struct sw_move_attributes { /* slice and the collectives */
    int32_t dim, dim_to;
};
struct sw_snapshot_attributes {   /* bytes of a whole save (core/checkpoint) */
    int64_t bytes;                /* all files with their headers */
    int64_t owned_bytes;          /* largest share that one rank writes */
    int64_t chunk_bytes;          /* most of one round; also the longest message */
    int64_t sent_bytes, messages; /* most that one rank sends to others */
    int64_t tables;               /* sw_placement_digest */
    int32_t files, rounds;
};
union sw_attributes {
    struct sw_norm_attributes norm;
    struct sw_scale_attributes scale;
    struct sw_softcap_attributes softcap;
    struct sw_rope_attributes rope;
    struct sw_copies_attributes copies;
    struct sw_attention_attributes attention;
    struct sw_swiglu_attributes swiglu;
    struct sw_append_attributes append;
    struct sw_merge_attributes merge;
    struct sw_accumulate_attributes accumulate;
    struct sw_gradient_attributes gradient;
    struct sw_head_attributes head;
    struct sw_adamw_attributes adamw;
    struct sw_move_attributes move;
    struct sw_snapshot_attributes snapshot;
};

struct sw_op {
    uint8_t kind;  /* enum sw_op_kind */
    uint8_t stage; /* enum sw_op_stage: the pass that made it */
    bool ahead; /* true if it runs one iteration ahead (prefetch): its operands are the next layer's
                 */
    /* true if it runs in the last micro-step of a step only, as collectives over dp do. In the
     * others, waits for it return at once. */
    bool last_micro_step;
    bool first_micro_step; /* true if in the first one only: weights gathered once a step */
    uint8_t position;      /* layer position in the region's period; else 0 */
    uint16_t n_in, n_out;
    struct sw_ref *in,
        *out; /* [n_in], [n_out]: owned by the program (sw_builder_in, sw_builder_out) */
    /* axes of the ranks that it talks to: collectives; rings (count 0: no hops) */
    struct sw_axes axes;
    union sw_attributes as;
    int64_t workspace_bytes;  /* scratch bytes on one rank; set by layout */
    int64_t workspace_offset; /* in the arena */
};
enum sw_op_stage {
    SW_STAGE_MODEL,
    SW_STAGE_RECOMPUTE,
    SW_STAGE_BACKWARD,
    SW_STAGE_RESHARD,
    SW_STAGE_UPDATE
};

#endif
