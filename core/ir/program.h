/* The single program that plan prices and prints and runner executes
 * (docs/architecture.md, One program).
 *
 * A program is values (tensors with logical axes and a sharding), ops over them, and regions:
 * stretches of ops that run once or once per layer. Most layers of a transformer are alike, so one
 * layer, or one period of layers that differ, is described once and its region repeats. A value of
 * a layer is a stack with one instance for each layer at its position of the period. Compiling,
 * laying out and pricing a program therefore costs the same for 2 periods and for 200, and for 1
 * rank and for 10^6.
 *
 * Every rank has the same ops and shapes; offsets and positions follow from the rank's coordinate
 * when an op runs. A program owns its arrays and refers to nothing outside. Threads: immutable once
 * compiled. */
#ifndef SW_PROGRAM_H
#define SW_PROGRAM_H

#include "core/base/recompute.h"
#include "core/ir/kinds.h"
#include "core/sharding/reshard.h"
#include "core/sharding/sequence.h"

#include <stdio.h>

enum { SW_MAX_PORTS = 8 }; /* most inputs, and most outputs */

enum sw_phase {
    SW_PHASE_FORWARD,  /* every micro-step */
    SW_PHASE_BACKWARD, /* every micro-step */
    SW_PHASE_UPDATE    /* once per step */
};
struct sw_region {
    char name[SW_NAME_BYTES]; /* "embed", "layer", "head", "head backward", ... */
    enum sw_phase phase;
    int32_t first_op, op_count;
    int32_t repeat; /* iterations; of layers: sw_region_span */
    /* The layers of a region of layers: an iteration runs `period` of them, layer l at position l %
     * period, each with ops of its own. The first and the last iteration skip ops of layers outside
     * the region. Else 0, 0, 1. */
    int32_t first_layer, layers, period;
    uint8_t part; /* enum sw_layer_part */
    bool reverse; /* true if it runs the last layers first */
    /* Value handed from one iteration to the next; -1: none. Iteration i reads instance i and
     * writes i + 1; instance 0 comes from an earlier region, the last goes to a later one. */
    int32_t carry;
};

/* An input or output of a program, by name. */
struct sw_port {
    char name[16];
    int32_t value;
};
struct sw_ports {
    int32_t count;
    struct sw_port at[SW_MAX_PORTS];
};

enum sw_program_stage { SW_LOGICAL, SW_DIFFERENTIATED, SW_PARTITIONED, SW_SCHEDULED, SW_LAID_OUT };

/* Purpose of a state. */
enum sw_state_kind {
    SW_STATE_TRAINING, /* parameters and the optimizer's moments */
    SW_STATE_SERVING   /* weights, and a cache of keys and values */
};

/* Properties of a kind of program; no other code tells kinds apart. */
struct sw_program_traits {
    const char *name;         /* "train", "evaluate", "save" ... */
    enum sw_state_kind state; /* kind of state that it works on */
    bool backward;        /* true if forward is differentiated: it has gradients and an update */
    bool batch_invariant; /* true if a row's results depend neither on its index nor on others
                             (device.h) */
    /* true if rows of one token use the skinny kernels, whatever their number */
    bool always_skinny;
};
const struct sw_program_traits *sw_program_traits(enum sw_program_kind kind);
static inline const char *sw_program_kind_name(enum sw_program_kind kind)
{
    return sw_program_traits(kind)->name;
}

struct sw_program {
    enum sw_program_stage stage;
    enum sw_program_kind kind;
    struct sw_mesh mesh;
    struct sw_value *values;   /* [value_count] */
    struct sw_op *ops;         /* [op_count], in execution order, region by region */
    struct sw_region *regions; /* [region_count], in execution order */
    int32_t value_count, op_count, region_count;
    int32_t value_capacity, op_capacity, region_capacity;
    int64_t sizes[SW_SIZE_COUNT]; /* values of the symbolic sizes */
    int32_t accumulation_steps;   /* micro-steps per step */
    int64_t micro_batch;          /* sequences of one micro-step over the whole mesh */
    int64_t padding_sequences;    /* padding at the end of the last micro-step, whose labels do not
                                     count */
    int64_t sequence_length;
    int64_t planned_slots; /* see sw_serving_shape */
    int64_t max_tokens;    /* most tokens of a sequence, see sw_serving_shape; 0: the program
                              does not serve */
    int32_t layers;
    struct sw_layer_values layer_values; /* values of one layer, the same on every mesh */
    int64_t tokens_per_step;
    enum sw_sequence_layout sequence_layout;
    int32_t sequence_shards;
    struct sw_program_target target; /* device and limits, as in the options */
    bool gathers_once;               /* true if some ops run in the first micro-step only */
    /* Divisors of the angles of ops with longrope; 0: no such ops */
    float rope_divisors[SW_ROPE_MOST_PAIRS];
    /* inputs: tokens, labels i32 [batch, seq], positions i32 [seq]; none for save. Outputs,
     * complete after the update phase: loss f32 [1] (mean of the step), grad_norm f32 [1] (train),
     * logits (if the options ask for them) */
    struct sw_ports inputs, outputs;
    /* set by layout, bytes */
    int64_t arena_bytes;
    int64_t parameter_bytes, gradient_bytes, optimizer_bytes, activation_bytes, workspace_bytes;
    int64_t cache_bytes;
    int64_t weight_bytes;           /* weights that are gathered once a step */
    struct sw_lifetimes *lifetimes; /* layout's own; NULL before layout */
    struct sw_pool *pool;           /* memory of the ops' operands */
};

/* True if products use the skinny kernels for any number of rows. Execution and prices both ask. */
static inline bool sw_program_is_always_skinny(const struct sw_program *p)
{
    return p->sequence_length == 1 && sw_program_traits(p->kind)->always_skinny;
}

void sw_program_free(struct sw_program *program); /* may be NULL */

/* Verifies a program of any stage: operands exist and fit their op's factors, values are written
 * before they are read, sums over ranks are complete where they must be. Compiling verifies after
 * every pass. Errors (SW_ENVIRONMENT): a mistake of ours, with the op. */
int sw_program_verify(const struct sw_program *program, struct sw_error *err);

/* The value of the input or output with that name; -1: none. */
int32_t sw_program_input(const struct sw_program *program, const char *name);
int32_t sw_program_output(const struct sw_program *program, const char *name);

/* Prints a program as text, golden-tested. Same program, same bytes. A collective of a laid-out
 * program shows the bytes that a rank sends in a call, the calls of a step, the messages to each
 * member (messages.h) and the rows of a member's block. */
void sw_program_print(FILE *out, const struct sw_program *program, enum sw_carrier transport);
/* FNV-1a 64 over everything that execution depends on. */
uint64_t sw_program_digest(const struct sw_program *program);

/* Buffers and workspaces in the arena beside the persistent values, with their lifetimes; 0 blocks
 * before layout. first and last are positions of ops, inclusive. */
struct sw_arena_block {
    int64_t offset, bytes; /* in the arena */
    int32_t first, last;
    int32_t value; /* -1: workspace of `op` */
    int32_t op;    /* -1: buffer of `value` */
};
int32_t sw_program_block_count(const struct sw_program *program);
struct sw_arena_block sw_program_block(const struct sw_program *program, int32_t i);
/* True if a value has memory of its own in the arena and shares no other's storage. */
bool sw_program_is_stored(const struct sw_program *program, int32_t value);

/* The first op that costs what op `i` does on every mesh (time, bytes, workspace): of the same
 * kind, on operands of the same shapes; `i` itself where it is the first. The program must have
 * been laid out or resized. */
int32_t sw_program_first_equal_op(const struct sw_program *program, int32_t i);

/* Sets a region's layers to first .. first + layers - 1 of a period, and its repeat. */
void sw_region_span(struct sw_region *region, int32_t first, int32_t layers, int32_t period);
/* The layer at a position of an iteration; it may lie outside the region. */
int32_t sw_region_layer(const struct sw_region *region, int32_t iteration, int32_t position);
static inline bool sw_region_has(const struct sw_region *region, int32_t layer)
{
    return region->layers == 0 ||
           (layer >= region->first_layer && layer < region->first_layer + region->layers);
}
/* True if the region runs its ops more than once: several iterations, or several layers. */
static inline bool sw_region_loops(const struct sw_region *region)
{
    return region->repeat > 1 || region->layers > 1;
}
/* The region's first layer at a position, and its number of layers there; iterations if the region
 * is not of layers. */
int32_t sw_region_first(const struct sw_region *region, int32_t position);
int32_t sw_region_times(const struct sw_region *region, int32_t position);
/* The instance of a ref in a layer; not for SW_INDEX_WHOLE. */
int32_t sw_ref_instance(const struct sw_program *program, struct sw_ref ref, int32_t layer);

#endif
