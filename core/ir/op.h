/* The table of op kinds: everything the passes know about an op stands in one row, and every pass
 * asks the row. Kinds and their semantics are listed in ops.def; rows stand by family in
 * core/ops: linear.c, attention.c, norm.c, head.c, optimizer.c, shape.c, collective.c, snapshot.c,
 * serving.c. */
#ifndef SW_OP_H
#define SW_OP_H

#include "core/ir/program.h"

/* Accounting of one op on one rank. */
struct sw_op_cost {
    double flops;         /* multiply-adds count 2 */
    int64_t memory_bytes; /* read + written by a device that keeps nothing in cache */
};

/* Shares of either. */
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
    SW_CLASS_COLLECTIVE, /* on the communication stream */
    SW_CLASS_WAIT,
    SW_CLASS_NONE
};

/* How the letters of a row's pair are split together. */
enum sw_pairing {
    SW_PAIR_RING, /* (query sequence, key sequence): over the same axes, along which keys travel */
    SW_PAIR_NESTED,  /* (few, many): blocks nest along a common prefix: copied heads */
    SW_PAIR_CO_SPLIT /* (there, put): alike, or the second not at all: what is appended to a cache
                      */
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
    SW_PRINT_SET, /* unless it is zero */
    SW_PRINT_NEVER
};
struct sw_attribute {
    const char *name;
    uint8_t type;     /* enum sw_attribute_type */
    uint8_t prints;   /* enum sw_attribute_print */
    uint8_t symbol;   /* enum sw_size: an int that follows the mesh */
    bool may_be_zero; /* with a symbol: 0 is a size like others, not an op of another form */
    bool costs;       /* ops that differ in it cost differently */
    bool asks;        /* an op with it runs on devices alone that name it (device.h) */
    uint16_t offset;  /* in union sw_attributes */
    const struct sw_word *words; /* SW_ATTRIBUTE_WORD */
};

struct sw_op_info {
    const char *name;
    /* Factors, one letter per dimension: "bse,ef->bsf". A letter in the result is parallel, one
     * only in operands is reduced. A dimension may be compound: "b(sx)e->xbse", several letters,
     * major to minor; only the first is ever split, the others are whole in all of the op's
     * operands, so a rank's block is the same elements wherever the letters stand (as Shardy's
     * `([i, j])->([ij])`). '.' is one letter over as many dimensions as the operand has beside
     * those listed: "x.e,xef->x.f", or ".,.->." of an elementwise op. The last pattern of a side
     * repeats. Where operands may be of several forms, these stand one behind the other with '|'
     * between them, each with patterns for all of its operands and results. */
    const char *factors;
    /* Index of the op's form, told from attributes and types. NULL: the first that fits. */
    int32_t (*form)(const struct sw_program *program, const struct sw_op *op);
    const char *whole; /* letters that are never split */
    const char *pair;  /* two letters that are split together, as `pairing` says, or NULL */
    enum sw_pairing pairing;
    const struct sw_attribute *attributes; /* ends with SW_ATTRIBUTE_END; NULL: none */
    enum sw_op_class cost_class;
    /* Its result is the sum of its operands: a partial passes through when all have the same
     * sharding and partial. */
    bool linear;
    bool always_recompute; /* with `linear`, its result stands for its operand */
    uint8_t addend;        /* index of the operand that may be added to out[0], behind the scales of
                              a weight in 8 bits (sw_op_addend); 0: takes none */
    uint8_t held;          /* operands from the second on that are read once, however many rows meet
                              them: a weight, or keys and values; 0: none */
    uint8_t tiled;         /* the operand that may be a weight in tiles (device.h); 0: none */
    uint8_t gradient;      /* 1 + index of the result that is a weight's whole gradient; 0: none */
    uint8_t gradient_kind; /* enum sw_op_kind of its gradient, for the usual VJP rules */
    /* Appends the VJP; NULL for ops that are not differentiated. */
    int (*vjp)(struct sw_autodiff *autodiff, const struct sw_op *op, struct sw_error *err);
    /* Appends what the ranks do for a logical op; NULL: the op itself, with axes claimed for its
     * factors (sw_partition_claims). */
    int (*partition)(struct sw_partition *partition, const struct sw_op *op);
    /* Memory, and flops where there are no products. */
    struct sw_op_cost (*cost)(const struct sw_program *program, const struct sw_op *op);
    /* Shares of that cost that such a workload meets, NULL: one of nothing; NULL: all. */
    struct sw_op_met (*met)(const struct sw_program *program, const struct sw_op *op,
                            const struct sw_workload *workload);
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

/* Indices of those operands of an update that not every update has; -1: it has none. */
struct sw_adamw_operands {
    int32_t norm, loss;                 /* of its operands */
    int32_t m, v, most_m, most_v, copy; /* of its results */
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

/* Whether it puts a sum of two operands beside them, or in place of the first. */
static inline bool sw_op_is_sum(const struct sw_op *op)
{
    return sw_op_rows[op->kind]->linear && op->n_in == 2;
}
static inline bool sw_op_accumulates(const struct sw_op *op)
{
    return sw_op_is_sum(op) && sw_ref_equal(op->out[0], op->in[0]);
}

/* Of an op that may add a weight's gradient to its sum in place, which is its last operand then. */
extern const struct sw_attribute sw_op_gradient_attributes[];
/* Whether it does. */
static inline bool sw_op_adds_gradient(const struct sw_op *op)
{
    return sw_op_rows[op->kind]->gradient > 0 && op->as.gradient.adds;
}

static inline bool sw_op_is_wait(enum sw_op_kind kind)
{
    return sw_op_rows[kind]->cost_class == SW_CLASS_WAIT;
}

/* An operand's factors, one for each dimension; of a compound one the major one. A factor is its
 * letter's number, 'a': 1; SW_FACTOR_SCALAR for '1'; dimensions of '.' from SW_FACTOR_REST on. */
enum { SW_FACTOR_SCALAR = 0, SW_FACTOR_REST = 27, SW_FACTORS = 32 };
struct sw_dims {
    uint8_t count; /* SW_MAX_DIMS + 1: more than any value has */
    uint8_t factor[SW_MAX_DIMS];
    uint32_t set;                   /* one bit for each, minor ones too */
    uint32_t inner;                 /* one bit for each minor factor of compound dimensions */
    uint32_t inner_of[SW_MAX_DIMS]; /* of that dimension; valid where `inner` is not 0 */
};
static inline uint8_t sw_factor_of(char letter)
{
    return letter == '1' ? (uint8_t)SW_FACTOR_SCALAR : (uint8_t)(letter - 'a' + 1);
}
/* Reads one pattern for an operand of `ndim` dimensions; returns its end: ',', '-', '|' or the
 * text's. */
const char *sw_dims_read(const char *pattern, uint8_t ndim, struct sw_dims *out);

/* The factors of its form, up to '|' or the end. */
const char *sw_op_factors(const struct sw_program *program, const struct sw_op *op);

/* Operands of attention over a cache: slots, which have the positions of queries and keys, and the
 * scales of keys and values in int8. */
enum { SW_ATTENTION_SLOTS = 3, SW_ATTENTION_SCALES = 4 };
/* Pairs of operands of attention(_grad) of a sequence, the queries' one first. */
enum sw_attention_pair { SW_ATTENTION_POSITIONS, SW_ATTENTION_SEGMENTS };
/* Index of the first of a pair; -1: the op has none. */
int32_t sw_attention_operand(const struct sw_op *op, enum sw_attention_pair pair);

/* attention(_grad) of a sequence, whose keys travel along the ring */
static inline bool sw_op_is_ring(const struct sw_op *op)
{
    const struct sw_op_info *info = sw_op_rows[op->kind];
    return info->pair != NULL && info->pairing == SW_PAIR_RING &&
           op->as.attention.keys == SW_KEYS_SEQUENCE;
}

/* Whether a ring's last hop brings results back to their owner: some have what travels. */
bool sw_op_returns_to_owner(enum sw_op_kind kind);

/* snapshot: any rank over `axes` sends to any other, and it waits for that */
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

/* Whether an operand has that role. */
bool sw_op_reads(const struct sw_program *program, const struct sw_op *op, enum sw_role role);

struct sw_op_cost sw_op_cost(const struct sw_program *program, const struct sw_op *op);

/* Index of the operand that is, or may be, added to the result; 0: the op takes none. */
uint16_t sw_op_addend(const struct sw_program *program, const struct sw_op *op);
/* Whether that operand may be a weight that lies in tiles, in the orientation that the op takes. */
bool sw_op_takes_tiles(const struct sw_program *program, const struct sw_op *op, uint16_t operand);
/* Operands but for what a later pass put behind them: an addend, or the sum of a gradient. */
uint16_t sw_op_own_operands(const struct sw_program *program, const struct sw_op *op);

/* Elements and bytes of an operand on one rank; tokens of an activation [batch, seq, ...]. */
int64_t sw_ref_elems(const struct sw_program *p, struct sw_ref ref);
/* Numbers along dimension d of a weight's matrix that an element stands for: of SW_I4 along its
 * inputs a block of them (int4.h), else 1. */
int64_t sw_value_group(const struct sw_program *program, const struct sw_value *value, uint8_t d);
int64_t sw_ref_bytes(const struct sw_program *p, struct sw_ref ref);
int64_t sw_refs_bytes(const struct sw_program *p, const struct sw_ref *refs, uint16_t count);
double sw_tokens_of(const struct sw_program *p, struct sw_ref activation);

/* Bytes of all operands and results on one rank. */
int64_t sw_operand_bytes(const struct sw_program *program, const struct sw_op *op);

/* Bytes of the operand that is added to the result, on one rank; 0 without. */
int64_t sw_op_addend_bytes(const struct sw_program *program, const struct sw_op *op);

/* Bytes that one rank sends (= receives) in a collective, or over the whole ring of
 * attention, as they travel. */
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
 * model says (core/base/model.h). divisors: the program's, of longrope alone; else may be NULL. */
double sw_rope_frequency(const struct sw_rope_attributes *attributes, const float *divisors,
                         int64_t j);

/* Factor of cos and sin. */
static inline double sw_rope_attention_factor(const struct sw_rope_attributes *attributes)
{
    const double factor = attributes->rope.attention_factor;
    return factor != 0 ? factor : 1;
}

/* Tokens per chunk of lm_head_*: [chunk, local vocab] logits are the largest there ever are. */
int64_t sw_lm_head_chunk_tokens(int64_t tokens, int64_t local_vocab);

#endif
