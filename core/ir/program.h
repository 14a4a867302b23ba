/* The single program that plan prices and prints and runner executes
 * (docs/architecture.md, One program).
 *
 * A program is values (tensors with logical axes and a sharding), ops over them, and regions:
 * stretches of ops that run once or once per layer. Most layers of a transformer are alike, so a
 * layer, or a period of layers that differ, is described once and its region repeats it: a value of
 * a layer is a stack with an instance per layer at its position of the period. Compiling, laying
 * out and pricing a program therefore costs the same for 2 periods and for 200, and for 1 rank and
 * for 10^6.
 *
 * Every rank has the same ops and shapes; what differs (offsets, positions) is read from the rank's
 * coordinate when an op runs. A program owns its arrays; it refers to nothing outside. Threads:
 * immutable once compiled. */
#ifndef SW_PROGRAM_H
#define SW_PROGRAM_H

#include "core/base/recompute.h"
#include "core/ir/kinds.h"
#include "core/sharding/reshard.h"
#include "core/sharding/sequence.h"

#include <stdio.h>

enum { SW_MAX_PORTS = 8 }; /* inputs, or outputs, of a program */

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
    /* The layers of a region of layers: an iteration runs `period` of them, layer l at position
     * l % period, each with ops of its own. The first and the last iteration leave out the ops of
     * layers that are not the region's. Else 0, 0, 1. */
    int32_t first_layer, layers, period;
    uint8_t part; /* enum sw_layer_part */
    bool reverse; /* the last layers first */
    /* Handed from one iteration to the next, -1: nothing. Iteration i reads instance i of the value
     * and writes i + 1; instance 0 comes from a region before, the last goes to one behind. */
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

/* What a state is for. */
enum sw_state_kind {
    SW_STATE_TRAINING, /* parameters and the optimizer's moments */
    SW_STATE_SERVING   /* weights, and a cache of keys and values */
};

/* What programs of a kind are like; nobody else tells them apart. */
struct sw_program_traits {
    const char *name;         /* "train", "evaluate", "save" ... */
    enum sw_state_kind state; /* that it is over */
    bool backward;            /* forward is differentiated: gradients, and an update */
    bool batch_invariant; /* a row's results depend neither on its index nor on others (device.h) */
    bool always_skinny;   /* and rows of one token use the skinny kernels, whatever their number */
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
    int64_t sizes[SW_SIZE_COUNT]; /* what the symbolic ones are here */
    int32_t accumulation_steps;   /* micro-steps per step */
    int64_t micro_batch;          /* sequences of one micro-step over the whole mesh */
    int64_t padding_sequences;    /* of the last micro-step, at its end: no labels count */
    int64_t sequence_length;
    int64_t planned_slots; /* as in the options */
    int64_t max_tokens;    /* of a text, as in the options; 0: the program does not serve */
    int32_t layers;
    struct sw_layer_values layer_values; /* of a layer: the same on every mesh */
    int64_t tokens_per_step;
    enum sw_sequence_layout sequence_layout;
    int32_t sequence_shards;
    struct sw_program_target target; /* as in the options */
    bool gathers_once;               /* some ops are of the first micro-step only */
    /* Divisors of the angles that ops with longrope's positions have; zero: there are no such ops
     */
    float rope_divisors[SW_ROPE_MOST_PAIRS];
    /* inputs: tokens, labels i32 [batch, seq], positions i32 [seq]; none (save). Outputs, complete
     * after the update phase: loss f32 [1] (mean of the step), grad_norm f32 [1] (train), logits
     * (asked for)
     */
    struct sw_ports inputs, outputs;
    /* set by layout, bytes */
    int64_t arena_bytes;
    int64_t parameter_bytes, gradient_bytes, optimizer_bytes, activation_bytes, workspace_bytes;
    int64_t cache_bytes;
    int64_t weight_bytes;           /* of weights that are gathered once a step */
    struct sw_lifetimes *lifetimes; /* layout's own; NULL before layout */
    struct sw_pool *pool;           /* of the ops' operands */
};

/* True if products use the skinny kernels for any number of rows: execution and prices ask it. */
static inline bool sw_program_is_always_skinny(const struct sw_program *p)
{
    return p->sequence_length == 1 && sw_program_traits(p->kind)->always_skinny;
}

void sw_program_free(struct sw_program *program); /* may be NULL */

/* Verifies a program of any stage: operands exist and fit their op's factors, what is read
 * was written, sums over ranks are complete where they must be. Compiling looks after every pass.
 * Errors (SW_ENVIRONMENT): a mistake of ours, with the op. */
int sw_program_verify(const struct sw_program *program, struct sw_error *err);

/* The value behind an input or output of that name; -1: none. */
int32_t sw_program_input(const struct sw_program *program, const char *name);
int32_t sw_program_output(const struct sw_program *program, const char *name);

/* The readable text of a program, golden-tested. Same program, same bytes. A collective of a
 * laid-out one says what a rank sends in a call, how often a step calls it, in how many messages to
 * each member (messages.h) and of how many rows a member's block is. */
void sw_program_print(FILE *out, const struct sw_program *program, enum sw_carrier transport);
/* FNV-1a 64 over everything that execution depends on. */
uint64_t sw_program_digest(const struct sw_program *program);

/* What layout placed beside the persistent values: buffers and workspaces with their lifetimes, for
 * readers of a laid-out program (0 blocks before). first and last are positions of ops, inclusive.
 */
struct sw_arena_block {
    int64_t offset, bytes; /* in the arena */
    int32_t first, last;
    int32_t value; /* -1: workspace of `op` */
    int32_t op;    /* -1: buffer of `value` */
};
int32_t sw_program_block_count(const struct sw_program *program);
struct sw_arena_block sw_program_block(const struct sw_program *program, int32_t i);
/* True if a value that shares no other's storage has a place of its own in the arena. */
bool sw_program_is_stored(const struct sw_program *program, int32_t value);

/* The first op that costs what op `i` does on every mesh (time, bytes, workspace): of the same
 * kind, on operands of the same shapes; `i` itself where it is the first. The program must have
 * been laid out or resized. */
int32_t sw_program_first_equal_op(const struct sw_program *program, int32_t i);

/* Layers first .. first + layers - 1 of a period as a region's: sets its repeat as well. */
void sw_region_span(struct sw_region *region, int32_t first, int32_t layers, int32_t period);
/* The layer at that position of an iteration; it need not be one of the region's. */
int32_t sw_region_layer(const struct sw_region *region, int32_t iteration, int32_t position);
static inline bool sw_region_has(const struct sw_region *region, int32_t layer)
{
    return region->layers == 0 ||
           (layer >= region->first_layer && layer < region->first_layer + region->layers);
}
/* True if what it runs is run again: several iterations, or several layers. */
static inline bool sw_region_loops(const struct sw_region *region)
{
    return region->repeat > 1 || region->layers > 1;
}
/* Its first layer at that position, and how many there are; iterations where it is not of layers.
 */
int32_t sw_region_first(const struct sw_region *region, int32_t position);
int32_t sw_region_times(const struct sw_region *region, int32_t position);
/* The instance that a ref which is not SW_INDEX_WHOLE means in that layer. */
int32_t sw_ref_instance(const struct sw_program *program, struct sw_ref ref, int32_t layer);

#endif
