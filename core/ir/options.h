/* Options that a program is compiled from, and the reasons for which a mesh cannot run it. */
#ifndef SW_OPTIONS_H
#define SW_OPTIONS_H

#include "core/base/lora.h"
#include "core/ir/program.h"

/* Options of serving programs; all zero otherwise. sw_serving_options fills it in. */
struct sw_serving_shape {
    int64_t max_tokens;  /* positions of the cache; a multiple of chunk */
    int64_t longest;     /* most tokens of a sequence, at most max_tokens */
    int64_t ring_tokens; /* positions that a layer with a window keeps; max_tokens: all */
    int64_t chunk; /* prompt tokens that prefill takes at a time; a multiple of the ranks of the
                      sequence */
    int64_t slots_per_rank;  /* sequences in the cache on one rank of the batch */
    int64_t planned_slots;   /* slots of the plan, whatever this program has */
    enum sw_dtype cache;     /* type of cached keys and values */
    enum sw_dtype matrices;  /* type of the layers' matrices: the compute precision, or 8 bits */
    struct sw_rules weights; /* sharding of weights, the same in every program of the state */
    bool gathers_cache; /* true if prefill and score gather keys and values, not queries (serving.h)
                         */
    bool tiles; /* true if weights in bf16 and 8 bits are stored in tiles where they are whole tiles
                 */
    bool mixes; /* true if prefill mixes: a row is one token, of a prompt or a running sequence; the
                   first rows of a rank are sampled, at most as many as its slots */
};

/* Options of compiling a program. Plain values; strings are read while compiling and not kept. */
struct sw_program_options {
    struct sw_model model;
    /* run */
    int64_t sequence_length, global_batch; /* sequences */
    /* sequences of one data-parallel rank in one micro-step; padded where global_batch does not
     * fill the last micro-step */
    int64_t micro_batch_per_rank;
    enum sw_dtype compute, params, reduce;
    enum sw_dtype ring; /* SW_BF16_T: the ring sends bf16; else the compute precision */
    bool keep_copy;     /* true if trained weights have a copy in the precision of `compute` */
    bool keep_gathered; /* true if gathered weights stay from forward to backward of a micro-step */
    int32_t inner_ring; /* ranks of an inner ring of attention; 0: one ring */
    struct sw_mesh mesh;
    struct sw_rules rules;
    enum sw_sequence_layout layout;
    struct sw_recompute recompute; /* any form; training only */
    const char *freeze;            /* names of frozen parameters (models/parameters.h), or NULL */
    struct sw_lora lora;           /* {0}: no adapters; else everything but adapters is frozen */
    const char *no_decay;          /* names of parameters without weight decay, or NULL */
    enum sw_dtype moments;         /* SW_F32; SW_BF16_T; SW_CODES: codes of blocks, for matrices */
    bool guarded; /* true if AdamW updates only when loss and gradient norm are within the step's
                     limits */
    enum sw_program_kind kind;
    struct sw_program_target target;
    /* true if train and evaluate have segments as inputs; tokens see their own segment only */
    bool segments;
    bool row_positions; /* true if in train and evaluate each sequence has positions of its own */
    bool logits; /* true if the head of evaluate also writes logits [batch, seq, vocab] (oracle,
                    tests) */
    struct sw_serving_shape serving;
    /* True if not verified between passes, and values of one name stay unnumbered: a search
     * compiles hundreds of programs, and compiles those that it shows once more. */
    bool unverified;
};

/* Reasons why a mesh cannot run the model: `reason` of the search JSON. */
enum sw_reject {
    SW_FITS,
    SW_REJECT_PRODUCT,
    SW_REJECT_BATCH,
    SW_REJECT_HEADS,
    SW_REJECT_KV_HEADS,
    SW_REJECT_HIDDEN,
    SW_REJECT_INTERMEDIATE,
    SW_REJECT_VOCAB,
    SW_REJECT_SEQUENCE,
    SW_REJECT_RULES, /* the run's rules cannot hold in a program of this mesh */
    SW_REJECT_MEMORY
};
const char *sw_reject_name(enum sw_reject reason);
/* Checks that every dimension divides; SW_FITS or the first reason, with detail ("heads 6 is not
 * divisible by tp 4") and help ("use tp 1, 2, 3 or 6"). detail and help may both be NULL where the
 * reason alone is wanted, as for most meshes of a search. */
enum sw_reject sw_program_admits(const struct sw_program_options *options, char detail[256],
                                 char help[256]);

#endif
