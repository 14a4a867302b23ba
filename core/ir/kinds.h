/* Kinds of ops, the attributes of each, and an op over values. */
#ifndef SW_IR_KINDS_H
#define SW_IR_KINDS_H

#include "core/base/model.h"
#include "core/ir/value.h"

enum { SW_COLLECTIVE_MAX_OPERANDS = 16 }; /* small all_reduces that travel together */

enum sw_op_kind { /* core/ir/ops.def says what each is */
#define SW_KERNEL(KIND, name) SW_OP_##KIND,
#define SW_OTHER SW_KERNEL
#include "core/ir/ops.def"
                  SW_OP_COUNT
};

/* What else an op is told; each kind's row says which of these it has and describes its fields. */
struct sw_norm_attributes {
    double eps;
    int32_t head_dim; /* head_norm(_grad); else 0 */
    int32_t width;    /* split_norm(_grad): elements of a whole row; else 0 */
    bool plus_one;    /* true if 1 + w multiplies, not w; of row_sums too */
};
struct sw_scale_attributes {
    double factor;
};
struct sw_softcap_attributes {
    double cap;
};
struct sw_rope_attributes {
    struct sw_rope rope; /* longrope's list: struct sw_program */
    int32_t head_dim;
    int32_t rotated; /* elements at the front of a head that rotate; 0: all */
    bool inverse;    /* rotate back: the VJP */
    bool slots;      /* positions are those of slots (serving.h); else one list for all sequences */
    bool rows;       /* true if each sequence has a list of its own */
};
struct sw_copies_attributes { /* replicate_heads(_grad) */
    int32_t head_dim, copies;
};
/* Keys of attention(_grad): a sequence, whose parts travel along the ring if it is split; this
 * rank's part of a cache; a whole cache. */
enum sw_attention_keys { SW_KEYS_SEQUENCE, SW_KEYS_CACHE_PART, SW_KEYS_CACHE };
struct sw_attention_attributes { /* attention(_grad) */
    double scale;                /* of scores: 1/sqrt(head_dim) */
    int32_t head_dim;
    int32_t group; /* query heads per kv head */
    bool sink; /* the last operand: a score of each query head that is in the sum, without value */
    /* A query at position p meets keys from p - window + 1 to p; 0: all up to p. */
    int64_t window;
    double softcap; /* scores s become softcap tanh(s / softcap), before the mask; 0: they stay */
    int32_t keys;   /* enum sw_attention_keys */
    /* where they are a sequence: its storage order (sequence.h), and operands besides */
    int32_t sequence_shards;
    int32_t sequence_layout; /* enum sw_sequence_layout; -1: of a cache */
    bool positions;          /* of queries and keys; without, they are those of the storage order */
    bool segments;           /* of queries and keys: those of different ones do not meet */
    bool bf16_hops;          /* what travels along a ring is bf16 (workspace.h) */
    int32_t inner_ring; /* ranks of a ring that is made of such rings (workspace.h); 0: it is not */
    bool halo; /* the device takes what a window reaches of other parts without a ring (ring.h) */
    /* where they are a cache (serving.h) */
    int32_t chunk; /* positions that prefill takes at a time */
    int32_t parts; /* ranks whose parts a whole cache is made of; 0: this rank's part */
};
struct sw_swiglu_attributes { /* swiglu(_grad) */
    bool gelu;                /* true if the gate goes through GELU, not SiLU */
};
struct sw_append_attributes { /* cache_append */
    int32_t head_dim;         /* of a cache in int8, which has a scale for each head; else 0 */
    int32_t chunk;            /* positions that prefill takes at a time: serving.h */
    bool ring;                /* position p lies where p modulo the cache's positions would */
};
struct sw_merge_attributes { /* softmax_merge */
    bool sink;               /* the last operand: a score of each head, once in the sum */
};
struct sw_accumulate_attributes {
    bool first; /* overwrites in the first micro-step */
};
struct sw_gradient_attributes { /* of what makes a gradient; begins as that of accumulate */
    bool first;
    bool adds; /* to the sum that is its last operand and its result, in place */
};
struct sw_head_attributes { /* lm_head, its parts and gradients; begins as that of gradient */
    bool first, adds;
    double softcap; /* logits x become softcap tanh(x / softcap); 0: they stay */
};
struct sw_adamw_attributes {
    bool decay;   /* weight decay applies */
    bool guarded; /* its operand behind the norm is the step's loss, and there is no update where it
                     or the norm is more than the step takes (device.h) */
    int32_t block; /* elements of a block where the moments are codes (blockwise.h); else 0 */
};
struct sw_move_attributes { /* slice and the collectives */
    int32_t dim, dim_to;
};
struct sw_snapshot_attributes {   /* of a whole save; core/checkpoint */
    int64_t bytes;                /* of all files, headers too */
    int64_t owned_bytes;          /* of them, of the rank that has most */
    int64_t chunk_bytes;          /* of a round, at most; as long as the longest message */
    int64_t sent_bytes, messages; /* to other ranks, of the rank that sends most */
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
    uint8_t stage; /* where it came from: enum sw_op_stage */
    bool ahead;    /* runs one iteration ahead (prefetch): its operands' layer is the next one's */
    /* runs in the last micro-step of a step only: what crosses dp does so once. Waits for it find
     * nothing under way in the others */
    bool last_micro_step;
    bool first_micro_step; /* the same of the first one: weights that are gathered once a step */
    uint8_t position;      /* of its layer in the period of a region of layers; else 0 */
    uint16_t n_in, n_out;
    struct sw_ref *in, *out; /* [n_in], [n_out]: the program's (sw_builder_in, sw_builder_out) */
    struct sw_axes axes;     /* of ranks that it talks to: collectives; rings, count 0: no hops */
    union sw_attributes as;
    int64_t workspace_bytes;  /* set by layout: scratch for this op on one rank */
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
