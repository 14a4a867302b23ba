/* The words of the project with their values, once: YAML, plans, programs, the command line, JSON
 * and HTML all use these tables. */
#ifndef SW_WORDS_H
#define SW_WORDS_H

#include <stdint.h>

/* Method of attention over sp. */
enum sw_attention_strategy {
    SW_ATTENTION_RING,
    SW_ATTENTION_GATHER,
    SW_ATTENTION_ULYSSES,
    SW_ATTENTION_AUTO
};

/* Layout of a sequence over ranks. */
enum sw_sequence_layout { SW_CONTIGUOUS, SW_ZIGZAG };

/* F64: tests only. I8 and E4M3: with scales (quantize.h). Caches use I8 and are not moved by
 * collectives; weights use either and are gathered. Neither is summed. */
enum sw_dtype {
    SW_F32,
    SW_BF16_T,
    SW_F64,
    SW_I32,
    SW_I8,
    SW_E4M3,
    SW_CODES, /* codes of blocks: blockwise.h */
    SW_I4,    /* an element is a block of weights with its scale: int4.h */
    SW_DTYPE_COUNT
};
/* Layout of a matrix product's operands: x W, x W^T, x^T y (a weight's gradient). */
enum sw_product_kind {
    SW_PRODUCT_LINEAR,
    SW_PRODUCT_LINEAR_T,
    SW_PRODUCT_LINEAR_DW,
    SW_PRODUCT_KINDS
};

/* Operations on a value whose dimension `dim` is split over axes of the mesh. */
enum sw_collective {
    SW_SLICE,          /* keep own block of `dim` along axes; free */
    SW_ALL_GATHER,     /* undo the minor-most axes of `dim` */
    SW_REDUCE_SCATTER, /* partial over axes becomes a split of `dim` (appended as its minor-most
                          axes) */
    SW_ALL_REDUCE,     /* partial over axes becomes complete */
    SW_ALL_TO_ALL      /* axes leave `dim` (its minor-most) and are appended to `dim_to` */
};

enum sw_device_kind { SW_DEVICE_CPU, SW_DEVICE_CUDA, SW_DEVICE_COUNT };

/* Purpose of a program. */
enum sw_program_kind {
    SW_PROGRAM_TRAIN,    /* a step: forward, backward, update */
    SW_PROGRAM_EVALUATE, /* only the loss */
    SW_PROGRAM_SAVE,     /* moves the state to the ranks that write it */
    SW_PROGRAM_PREFILL,  /* chunks of prompts, then their next tokens */
    SW_PROGRAM_DECODE,   /* one token more of every sequence */
    SW_PROGRAM_SCORE,    /* a chunk of every sequence, and each token's log-probability */
    SW_PROGRAM_READ,     /* single tokens: ends of prompts or, if prefill mixes, many */
    SW_PROGRAM_KINDS
};

/* Continuation of a job that ended before its run did. */
enum sw_continue { SW_CONTINUE_NONE, SW_CONTINUE_REQUEUE, SW_CONTINUE_CHAIN };

/* Test of nodes before a job trains on them. */
enum sw_preflight { SW_PREFLIGHT_OFF, SW_PREFLIGHT_QUICK, SW_PREFLIGHT_FULL };

/* Stages of ZeRO: copies split by the axes of `embed` (ir/rules.h). */
enum sw_zero { SW_ZERO_AUTO, SW_ZERO_1, SW_ZERO_2, SW_ZERO_3 };

struct sw_word {
    const char *text; /* NULL: the end of a table */
    int32_t value;    /* value of the enum */
    const char *why;  /* for an old word, still understood: reason for the new one; else NULL */
};

/* In the order of messages; "auto", if any, is the last of them; old words follow. */
extern const struct sw_word sw_words_strategy[], sw_words_layout[], sw_words_precision[],
    sw_words_device[], sw_words_continue[], sw_words_preflight[], sw_words_cache[],
    sw_words_moments[], sw_words_weights[], sw_words_base[], sw_words_collective[], sw_words_zero[];
/* Signals, by their values in <signal.h>. */
extern const struct sw_word sw_words_signal[];

/* The current word of a value, in static memory; NULL: none. */
const char *sw_word(const struct sw_word *words, int32_t value);

#endif
