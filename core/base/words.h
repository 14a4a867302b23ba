/* The words of the project and what they stand for, once: YAML, plans, programs, the command line,
 * JSON and HTML all use these tables. */
#ifndef SW_WORDS_H
#define SW_WORDS_H

#include <stdint.h>

/* How sp attends. */
enum sw_attention_strategy {
    SW_ATTENTION_RING,
    SW_ATTENTION_GATHER,
    SW_ATTENTION_ULYSSES,
    SW_ATTENTION_AUTO
};

/* Which part of a sequence a rank holds. */
enum sw_sequence_layout { SW_CONTIGUOUS, SW_ZIGZAG };

/* F64: tests only. I8 and E4M3: with scales (quantize.h), of a cache, which stays where it is and
 * is of I8, and of weights, which are gathered; they are not summed. */
enum sw_dtype {
    SW_F32,
    SW_BF16_T,
    SW_F64,
    SW_I32,
    SW_I8,
    SW_E4M3,
    SW_CODES, /* of numbers in blocks: blockwise.h */
    SW_I4,    /* an element is a block of weights with its scale: int4.h */
    SW_DTYPE_COUNT
};
/* How the operands of a matrix product lie: x W, x W^T, x^T y (a weight's gradient). */
enum sw_product_kind {
    SW_PRODUCT_LINEAR,
    SW_PRODUCT_LINEAR_T,
    SW_PRODUCT_LINEAR_DW,
    SW_PRODUCT_KINDS
};

/* What is done to a value whose dimension `dim` is split over axes of the mesh. */
enum sw_collective {
    SW_SLICE,          /* keep own block of `dim` along axes; free */
    SW_ALL_GATHER,     /* undo the minor-most axes of `dim` */
    SW_REDUCE_SCATTER, /* partial over axes becomes a split of `dim` (appended as its minor-most
                          axes) */
    SW_ALL_REDUCE,     /* partial over axes becomes complete */
    SW_ALL_TO_ALL      /* axes leave `dim` (its minor-most) and are appended to `dim_to` */
};

enum sw_device_kind { SW_DEVICE_CPU, SW_DEVICE_CUDA, SW_DEVICE_COUNT };

/* What a program is for. */
enum sw_program_kind {
    SW_PROGRAM_TRAIN,    /* a step: forward, backward, update */
    SW_PROGRAM_EVALUATE, /* the loss alone */
    SW_PROGRAM_SAVE,     /* the state goes to the ranks that write it */
    SW_PROGRAM_PREFILL,  /* chunks of prompts, and what follows */
    SW_PROGRAM_DECODE,   /* one token more of every text */
    SW_PROGRAM_SCORE,    /* a chunk of every text, and each token's log-probability */
    SW_PROGRAM_READ,     /* single tokens: ends of prompts or, where prefill mixes, many */
    SW_PROGRAM_KINDS
};

/* How a job goes on that ended before its run did. */
enum sw_continue { SW_CONTINUE_NONE, SW_CONTINUE_REQUEUE, SW_CONTINUE_CHAIN };

/* What is tried of the nodes before a job trains on them. */
enum sw_preflight { SW_PREFLIGHT_OFF, SW_PREFLIGHT_QUICK, SW_PREFLIGHT_FULL };

/* Stages of ZeRO: what the axes of `embed` split (ir/rules.h). */
enum sw_zero { SW_ZERO_AUTO, SW_ZERO_1, SW_ZERO_2, SW_ZERO_3 };

struct sw_word {
    const char *text; /* NULL: the end of a table */
    int32_t value;    /* of the enum */
    const char *why;  /* an old word, still understood: why there is a new one; else NULL */
};

/* In the order in which people are told them; "auto", where there is one, is the last of them; old
 * words follow. */
extern const struct sw_word sw_words_strategy[], sw_words_layout[], sw_words_precision[],
    sw_words_device[], sw_words_continue[], sw_words_preflight[], sw_words_cache[],
    sw_words_moments[], sw_words_weights[], sw_words_base[], sw_words_collective[], sw_words_zero[];
/* Of signals; their values are those of <signal.h>. */
extern const struct sw_word sw_words_signal[];

/* The word of a value, in static memory, never an old one; NULL: it has none. */
const char *sw_word(const struct sw_word *words, int32_t value);

#endif
