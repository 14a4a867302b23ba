/* The table of op kinds: everything the passes know about an op stands in one row, and every pass
 * asks the row. Kinds and their semantics are listed in ops.def; rows stand by family in
 * core/ops: linear.c, attention.c, norm.c, head.c, optimizer.c, shape.c, collective.c, snapshot.c,
 * serving.c. */
#ifndef SW_OP_H
#define SW_OP_H

#include "core/ir/program.h"

/* Cost of one op on one rank. */
struct sw_op_cost {
    double flops;         /* multiply-adds count 2 */
    int64_t memory_bytes; /* bytes read and written by a device without a cache */
};

/* Shares of flops and bytes, 0 to 1. */
struct sw_op_met {
    double flops, bytes;
};

/* One matrix product [m,k] x [k,n]. */
struct sw_product {
    double m, n, k;
    enum sw_product_kind kind;
};
enum { SW_OP_MAX_PRODUCTS = 3 };

struct sw_autodiff;  /* differentiate.c */
struct sw_partition; /* partition.c */
struct sw_workload;  /* serving.h */

enum sw_op_class {
    SW_CLASS_MATMUL,
    SW_CLASS_ATTENTION,
    SW_CLASS_MEMORY,
    SW_CLASS_COLLECTIVE, /* runs on the communication stream */
    SW_CLASS_WAIT,
    SW_CLASS_NONE
};

/* Rule by which the two letters of a row's pair are split together. */
enum sw_pairing {
    SW_PAIR_RING, /* (query sequence, key sequence): over the same axes, along which keys travel */
    SW_PAIR_NESTED,  /* (few, many): blocks nest along a common prefix, for copied heads */
    SW_PAIR_CO_SPLIT /* (there, put): alike, or the second not at all, for appending to a cache */
};

/* One described field of the attributes. */
enum sw_attribute_type {
    SW_ATTRIBUTE_END,
    SW_ATTRIBUTE_INT,  /* int32_t */
    SW_ATTRIBUTE_LONG, /* int64_t */
    SW_ATTRIBUTE_REAL, /* double */
    SW_ATTRIBUTE_FLAG, /* bool, printed by its name */
    SW_ATTRIBUTE_WORD  /* int32_t, printed by its word; -1: none */
};
enum sw_attribute_print {
    SW_PRINT_ALWAYS,
    SW_PRINT_SET, /* printed unless zero */
    SW_PRINT_NEVER
};
struct sw_attribute {
    const char *name;
    uint8_t type;     /* enum sw_attribute_type */
    uint8_t prints;   /* enum sw_attribute_print */
    uint8_t symbol;   /* enum sw_size: an integer that follows the mesh */
    bool may_be_zero; /* true if, with a symbol, 0 is a size and not another form of the op */
    bool costs;       /* true if the op's cost depends on it */
    bool asks;        /* true if only devices that name it run the op (device.h) */
    uint16_t offset;  /* bytes from the start of union sw_attributes */
    const struct sw_word *words; /* words of SW_ATTRIBUTE_WORD */
};

struct sw_op_info {
    const char *name;
    /* Factors, one letter per dimension: "bse,ef->bsf". A letter in the result is parallel, one
     * only in operands is reduced. A dimension may be compound: "b(sx)e->xbse", several letters,
     * major to minor; only the first is ever split, the others are whole in all operands of the op,
     * so a rank's block has the same elements wherever the letters stand (as Shardy's `([i,
     * j])->([ij])`). '.' is one letter for each dimension of the operand that is not listed:
     * "x.e,xef->x.f", or ".,.->." of an elementwise op. The last pattern of a side repeats. Forms
     * of an op are separated by '|', each with patterns for all operands and results. */
    const char *factors;
    /* Index of the op's form, by attributes and types. NULL: the first form that fits. */
    int32_t (*form)(const struct sw_program *program, const struct sw_op *op);
    const char *whole; /* letters that are never split */
    const char *pair;  /* two letters that are split together by `pairing`, or NULL */
    enum sw_pairing pairing;
    const struct sw_attribute *attributes; /* ends with SW_ATTRIBUTE_END; NULL: none */
    enum sw_op_class cost_class;
    /* True if the result is the sum of its operands: a partial passes through when all have the
     * same sharding and partial. */
    bool linear;
    bool always_recompute; /* true if recomputation makes the result again; with `linear`, the
                              result also stands for its operand */
    uint8_t addend; /* index of an operand added to out[0], after the scales of a weight in 8 bits
                       (sw_op_addend); 0: none */
    uint8_t held;  /* operands from the second on that are read once for all rows: a weight, or keys
                      and values; 0: none */
    uint8_t tiled; /* index of the operand that may be a weight in tiles (device.h); 0: none */
    uint8_t gradient;      /* 1 + index of the result that is a weight's whole gradient; 0: none */
    uint8_t gradient_kind; /* enum sw_op_kind of the gradient, for the usual VJP rules */
    /* Appends the VJP; NULL for ops that are not differentiated. */
    int (*vjp)(struct sw_autodiff *autodiff, const struct sw_op *op, struct sw_error *err);
    /* Appends the ops that ranks run for a logical op. NULL: the op itself, with axes claimed for
     * its factors (sw_partition_claims). */
    int (*partition)(struct sw_partition *partition, const struct sw_op *op);
    /* Memory traffic, and flops if the op has no products. */
    struct sw_op_cost (*cost)(const struct sw_program *program, const struct sw_op *op);
    /* Shares of that cost under a workload (NULL: no prompts, nothing extra). NULL: all. */
    struct sw_op_met (*met)(const struct sw_program *program, const struct sw_op *op,
                            const struct sw_workload *workload);
    /* Matrix products; returns how many. NULL: none. */
    int32_t (*products)(const struct sw_program *program, const struct sw_op *op,
                        struct sw_product out[SW_OP_MAX_PRODUCTS]);
    /* Share of the flops that are the model's, without recomputation. NULL: all. */
    double (*model_share)(const struct sw_op *op);
    /* Bytes that one rank sends (= receives); NULL: none. */
    int64_t (*communication)(const struct sw_program *program, const struct sw_op *op);
    /* Messages of an op that sends over `axes`, one after another, and waits; NULL: it sends none
     * so. */
    double (*messages)(const struct sw_op *op);
    /* Scratch bytes on one rank; NULL: none. Part of the arena, so both tools agree on it. */
    int64_t (*workspace)(const struct sw_program *program, const struct sw_op *op);
};

/* Indices of optional operands of an update; -1: the update has none. */
struct sw_adamw_operands {
    int32_t norm, loss;                 /* operands */
    int32_t m, v, most_m, most_v, copy; /* results */
};
static inline struct sw_adamw_operands sw_adamw_operands(const struct sw_op *op)
{
    const bool blocks = op->as.adamw.block > 0;
    const int32_t norm = blocks ? 6 : 4, m = blocks ? 3 : 1;
    return (struct sw_adamw_operands){.norm = norm,
                                      .loss = op->as.adamw.guarded ? norm + 1 : -1,
                                      .m = m,
                                      .v = m + 1,
                                      .most_m = blocks ? 1 : -1,
                                      .most_v = blocks ? 2 : -1,
                                      .copy = op->n_out > m + 2 ? m + 2 : -1};
}

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

/* True if the op writes the sum of its two operands, to a new value or in place of the first. */
static inline bool sw_op_is_sum(const struct sw_op *op)
{
    return sw_op_rows[op->kind]->linear && op->n_in == 2;
}
static inline bool sw_op_accumulates(const struct sw_op *op)
{
    return sw_op_is_sum(op) && sw_ref_equal(op->out[0], op->in[0]);
}

/* Attributes of ops that may add a weight's gradient in place to their last operand. */
extern const struct sw_attribute sw_op_gradient_attributes[];
/* True if this op adds. */
static inline bool sw_op_adds_gradient(const struct sw_op *op)
{
    return sw_op_rows[op->kind]->gradient > 0 && op->as.gradient.adds;
}

static inline bool sw_op_is_wait(enum sw_op_kind kind)
{
    return sw_op_rows[kind]->cost_class == SW_CLASS_WAIT;
}

/* Factors of an operand, one for each dimension; a compound dimension has its major one. A factor
 * is the letter's number ('a' is 1), SW_FACTOR_SCALAR for '1', and from SW_FACTOR_REST on for
 * dimensions of '.'. */
enum { SW_FACTOR_SCALAR = 0, SW_FACTOR_REST = 27, SW_FACTORS = 32 };
struct sw_dims {
    uint8_t count; /* SW_MAX_DIMS + 1: more than values can have */
    uint8_t factor[SW_MAX_DIMS];
    uint32_t set;                   /* bit for each factor, minor ones too */
    uint32_t inner;                 /* bit for each minor factor of a compound dimension */
    uint32_t inner_of[SW_MAX_DIMS]; /* minor factors by dimension; valid if `inner` is not 0 */
};
static inline uint8_t sw_factor_of(char letter)
{
    return letter == '1' ? (uint8_t)SW_FACTOR_SCALAR : (uint8_t)(letter - 'a' + 1);
}
/* Reads one pattern for an operand of `ndim` dimensions. Returns its end: ',', '-', '|' or the end
 * of the text. */
const char *sw_dims_read(const char *pattern, uint8_t ndim, struct sw_dims *out);

/* Factors of the op's form, up to '|' or the end. */
const char *sw_op_factors(const struct sw_program *program, const struct sw_op *op);

/* Operands of attention over a cache: slots, with the positions of queries and keys, and the scales
 * of keys and values in int8. */
enum { SW_ATTENTION_SLOTS = 3, SW_ATTENTION_SCALES = 4 };
/* Pairs of operands of attention(_grad) of a sequence; the queries' operand comes first. */
enum sw_attention_pair { SW_ATTENTION_POSITIONS, SW_ATTENTION_SEGMENTS };
/* Index of the first operand of a pair; -1: the op has none. */
int32_t sw_attention_operand(const struct sw_op *op, enum sw_attention_pair pair);

/* True for attention(_grad) of a sequence, whose keys travel along the ring. */
static inline bool sw_op_is_ring(const struct sw_op *op)
{
    const struct sw_op_info *info = sw_op_rows[op->kind];
    return info->pair != NULL && info->pairing == SW_PAIR_RING &&
           op->as.attention.keys == SW_KEYS_SEQUENCE;
}

/* True if a ring's last hop returns results to their owner: gradients of keys and values do. */
bool sw_op_returns_to_owner(enum sw_op_kind kind);

/* True for snapshot: any rank over `axes` sends to any other, and the op waits for its messages. */
static inline bool sw_op_is_exchange(enum sw_op_kind kind)
{
    return sw_op_rows[kind]->messages != NULL;
}

/* slice and the collectives, in the order of enum sw_collective */
static inline bool sw_op_is_move(enum sw_op_kind kind)
{
    return kind >= SW_OP_SLICE && kind <= SW_OP_ALL_TO_ALL;
}
static inline enum sw_collective sw_op_collective(enum sw_op_kind kind)
{
    return (enum sw_collective)(kind - SW_OP_SLICE);
}
static inline enum sw_op_kind sw_op_of_collective(enum sw_collective collective)
{
    return (enum sw_op_kind)(SW_OP_SLICE + collective);
}

/* True if an operand has that role. */
bool sw_op_reads(const struct sw_program *program, const struct sw_op *op, enum sw_role role);

struct sw_op_cost sw_op_cost(const struct sw_program *program, const struct sw_op *op);

/* Index of the operand that is, or may be, added to the result; 0: none. */
uint16_t sw_op_addend(const struct sw_program *program, const struct sw_op *op);
/* True if that operand may be a weight in tiles, in the op's orientation. */
bool sw_op_takes_tiles(const struct sw_program *program, const struct sw_op *op, uint16_t operand);
/* Number of operands without those that later passes append: an addend, or a gradient's sum. */
uint16_t sw_op_own_operands(const struct sw_program *program, const struct sw_op *op);

/* Elements of an operand on one rank. */
int64_t sw_ref_elems(const struct sw_program *p, struct sw_ref ref);
/* Numbers that one element holds along dimension d of a weight: a block for SW_I4 along its inputs
 * (int4.h), else 1. */
int64_t sw_value_group(const struct sw_program *program, const struct sw_value *value, uint8_t d);
int64_t sw_ref_bytes(const struct sw_program *p, struct sw_ref ref);
int64_t sw_refs_bytes(const struct sw_program *p, const struct sw_ref *refs, uint16_t count);
double sw_tokens_of(const struct sw_program *p, struct sw_ref activation);

/* Bytes of all operands and results on one rank. */
int64_t sw_operand_bytes(const struct sw_program *program, const struct sw_op *op);

/* Bytes of the added operand on one rank; 0: none. */
int64_t sw_op_addend_bytes(const struct sw_program *program, const struct sw_op *op);

/* Bytes that one rank sends (= receives) in a collective, or over all hops of attention's ring, in
 * the precision of the message. */
int64_t sw_op_communication_bytes(const struct sw_program *program, const struct sw_op *op);

/* Bytes that one rank sends in one run of the program. */
int64_t sw_program_sent_bytes(const struct sw_program *program);

/* An integer attribute's value, as printed and digested. */
int64_t sw_attribute_int(const struct sw_op *op, const struct sw_attribute *attribute);
double sw_attribute_real(const struct sw_op *op, const struct sw_attribute *attribute);

/* Elements at the front of a head that rotate. */
static inline int32_t sw_rope_rotated(const struct sw_rope_attributes *attributes)
{
    return attributes->rotated > 0 ? attributes->rotated : attributes->head_dim;
}

/* Radians by which position 1 rotates pair j of a head: theta^(-2j / rotated), stretched as the
 * model says (core/base/model.h). divisors: the program's, needed for longrope only; else may be
 * NULL. */
double sw_rope_frequency(const struct sw_rope_attributes *attributes, const float *divisors,
                         int64_t j);

/* Factor of both cos and sin. */
static inline double sw_rope_attention_factor(const struct sw_rope_attributes *attributes)
{
    const double factor = attributes->rope.attention_factor;
    return factor != 0 ? factor : 1;
}

/* Tokens per chunk of lm_head_*: logits [chunk, local vocab] bound the memory of logits. */
int64_t sw_lm_head_chunk_tokens(int64_t tokens, int64_t local_vocab);

#endif
