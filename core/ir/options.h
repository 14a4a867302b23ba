/* Options that a program is compiled from, and the reasons for which a mesh cannot run it. */
#ifndef SW_OPTIONS_H
#define SW_OPTIONS_H

#include "core/base/lora.h"
#include "core/ir/program.h"

/* Of a program of serving; all zero otherwise. sw_serving_options fills it in. */
struct sw_serving_shape {
    int64_t max_tokens;  /* positions of the cache; a multiple of chunk */
    int64_t longest;     /* tokens that a text has at most: no more than these */
    int64_t ring_tokens; /* positions that a layer with a window keeps; max_tokens: all of them */
    int64_t chunk;       /* of a prompt, that prefill takes at a time; divides by the sequence's
                            ranks */
    int64_t slots_per_rank;  /* texts of the cache on one rank of the batch */
    int64_t planned_slots;   /* that the plan has of them, whatever there is to serve */
    enum sw_dtype cache;     /* of keys and values as they are kept */
    enum sw_dtype matrices;  /* of the layers' matrices: the compute precision, or 8 bits */
    struct sw_rules weights; /* where the weights lie: the same in every program of the state */
    bool gathers_cache;      /* prefill, score: keys and values come to the queries (serving.h) */
    bool tiles;              /* weights of bf16 and 8 bits lie in tiles where they are whole ones */
    bool mixes;              /* prefill: a row has a token, of a prompt or of a text that runs; the
                                first ones of a rank, as many as slots at most, are sampled */
};

/* What to compile. Plain values; strings are read while compiling and not kept. */
struct sw_program_options {
    struct sw_model model;
    /* run */
    int64_t sequence_length, global_batch; /* sequences */
    /* sequences of one data-parallel rank in one micro-step; where global_batch does not fill the
     * last one, the rest of its places are padding */
    int64_t micro_batch_per_rank;
    enum sw_dtype compute, params, reduce;
    enum sw_dtype ring; /* SW_BF16_T: what travels along the ring is; else as it is computed */
    bool keep_copy;     /* of trained weights in another precision than `compute` */
    bool keep_gathered; /* gathered weights stay from forward to backward of a micro-step */
    int32_t inner_ring; /* of attention; 0: one ring */
    struct sw_mesh mesh;
    struct sw_rules rules;
    enum sw_sequence_layout layout;
    struct sw_recompute recompute; /* any form; of training alone */
    const char *freeze;            /* names of what is not trained (models/parameters.h), or NULL */
    struct sw_lora lora;           /* {0}: no adapters; else all else is frozen */
    const char *no_decay;          /* the same of what has no weight decay, or NULL */
    enum sw_dtype moments; /* SW_F32: as wide as sums; SW_BF16_T; SW_CODES: of matrices in blocks */
    bool guarded; /* AdamW updates only where loss and gradient norm are at most the step's */
    enum sw_program_kind kind;
    struct sw_program_target target;
    /* train, evaluate: tokens have segments, inputs of the program, of which none sees another */
    bool segments;
    bool row_positions; /* train, evaluate: each sequence has positions of its own */
    bool logits; /* evaluate: the head also writes logits [batch, seq, vocab] (oracle, tests) */
    struct sw_serving_shape serving;
    /* Not looked over between passes, and values of one name not told apart: a search compiles
     * hundreds, and what it shows once more. */
    bool unverified;
};

/* Why a mesh cannot run the model: the `reason` of the search JSON. */
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
    SW_REJECT_RULES, /* the run's rules ask for what no program of this mesh can have */
    SW_REJECT_MEMORY
};
const char *sw_reject_name(enum sw_reject reason);
/* Checks that every dimension divides; SW_FITS or the first reason, with detail ("heads 6 is not
 * divisible by tp 4") and help ("use tp 1, 2, 3 or 6"). Both may be NULL (then both): the
 * reason alone is wanted, as of most meshes of a search. */
enum sw_reject sw_program_admits(const struct sw_program_options *options, char detail[256],
                                 char help[256]);

#endif
