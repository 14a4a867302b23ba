/* The single program that plan prices and prints and runner executes
 * (docs/architecture.md, One program).
 *
 * A program is values (tensors with logical axes and a sharding), ops over them, and regions:
 * stretches of ops that run once or once per layer. The layers of a transformer are alike, so a
 * layer is described once and its region repeats num_hidden_layers times: a value of a layer is a
 * stack with one instance per layer. Compiling, laying out and pricing a program therefore costs
 * the same for 2 layers and for 200, and for 1 rank and for 10^6.
 *
 * Every rank has the same ops and shapes; what differs (offsets, positions) is read from the rank's
 * coordinate when an op runs. A program owns its arrays; it refers to nothing outside. Threads:
 * immutable once compiled. */
#ifndef SW_PROGRAM_H
#define SW_PROGRAM_H

#include "core/base/device.h"
#include "core/base/model.h"
#include "core/model/recompute.h"
#include "core/base/words.h"
#include "core/sharding/reshard.h"
#include "core/sharding/sequence.h"

#include <stdio.h>

enum {
    SW_NAME_BYTES = 40,
    SW_ARENA_ALIGNMENT = 256,
    SW_COLLECTIVE_MAX_OPERANDS = 16, /* small all_reduces that travel together */
    SW_MAX_PORTS = 8                 /* inputs, or outputs, of a program */
};

size_t sw_dtype_bytes(enum sw_dtype dtype);
const char *sw_dtype_name(enum sw_dtype dtype); /* "f32" "bf16" "f64" "i32" "i8" */

/* Logical axis names; the rule table maps each to mesh axes. Names in `sw_logical_name`. */
enum sw_logical {
    SW_L_NONE,         /* never split: head_dim, scalars */
    SW_L_BATCH,        /* "batch" */
    SW_L_SEQ,          /* "seq" */
    SW_L_RESIDUAL_SEQ, /* "residual_seq" */
    SW_L_ATTN_SEQ,     /* "attn_seq": sequence of q, o inside attention */
    SW_L_KEY_SEQ,      /* "key_seq": sequence of k, v inside attention */
    SW_L_ATTN_HEADS,   /* "attn_heads": heads inside attention */
    SW_L_HEADS,        /* "heads" */
    SW_L_KV_HEADS,     /* "kv_heads" */
    SW_L_MLP,          /* "mlp" */
    SW_L_VOCAB,        /* "vocab" */
    SW_L_EMBED,        /* "embed": of weights, gradients, optimizer state */
    SW_L_ACT_EMBED,    /* "act_embed": of activations and norms */
    SW_L_TABLE,        /* "table": the vocabulary as rows of embedding and head, which are gathered
                          to `vocab` where they are used; where its axes do not divide it the two
                          lie as [vocab, embed] */
    /* only for serving */
    SW_L_CACHE_SEQ,    /* "cache_seq": positions of the cache of keys and values */
    SW_L_MERGED_HEADS, /* "merged_heads": heads * head_dim, as the output projection takes them */
    SW_L_COUNT
};
const char *sw_logical_name(enum sw_logical axis);
/* Whether it may be split into shards that its size does not fill: embed. */
static inline bool sw_logical_pads(enum sw_logical axis)
{
    return axis == SW_L_EMBED;
}

struct sw_rules {
    struct sw_axes axes[SW_L_COUNT];
    bool names_table; /* a run set that row; else it is `vocab` and what else `embed` has */
};
/* LWM's table (docs/architecture.md, Sharding) with the strategy's three rows. */
void sw_rules_default(struct sw_rules *rules, enum sw_attention_strategy strategy);
/* Replaces one row by name; with `vocab` and `embed` goes `table`, unless it was set itself.
 * Errors (SW_BAD_INPUT): unknown name, with did-you-mean. */
int sw_rules_set(struct sw_rules *rules, const char *logical, struct sw_axes axes,
                 struct sw_error *err);

enum sw_role {
    /* state: outlives the program */
    SW_ROLE_PARAMETER,
    SW_ROLE_OPTIMIZER, /* AdamW's m and v */
    SW_ROLE_CACHE,     /* keys and values of the texts at hand */
    /* lasts as long as a run of the program: survives micro-steps */
    SW_ROLE_GRADIENT,
    SW_ROLE_INPUT, /* tokens, labels, positions: written by the runner before each micro-step */
    SW_ROLE_ACCUMULATOR, /* the step's loss */
    /* everything else */
    SW_ROLE_ACTIVATION,
    SW_ROLE_COUNT
};
bool sw_role_is_state(enum sw_role role);

/* What a tensor of the state starts as. */
enum sw_initial { SW_INITIAL_ZEROS, SW_INITIAL_ONES, SW_INITIAL_NORMAL };

/* Sizes of dimensions and attributes that follow from the mesh and the batch: what retargeting
 * evaluates anew. */
enum sw_size {
    SW_SIZE_FIXED,   /* the model's or the run's: the same on every mesh */
    SW_SIZE_BATCH,   /* sequences of a micro-step over the whole mesh */
    SW_SIZE_EMBED,   /* hidden_size as weights store it: rounded up to whole shards */
    SW_SIZE_STATS,   /* of lm_head_stats: elements for each token */
    SW_SIZE_KV,      /* kv heads with their copies: elements */
    SW_SIZE_COPIES,  /* of each kv head */
    SW_SIZE_GROUP,   /* query heads per copied kv head */
    SW_SIZE_SHARDS,  /* parts of the sequence */
    SW_SIZE_PARTS,   /* of the cache's positions */
    SW_SIZE_SCALES,  /* of a token in a cache of int8: one for each kv head, with its copies */
    SW_SIZE_SLOTS,   /* of the cache: texts over the whole mesh */
    SW_SIZE_SAMPLED, /* rows of a call that mixes behind which a token is chosen */
    SW_SIZE_INNER,   /* ranks of an inner ring; 0: one ring */
    SW_SIZE_COUNT
};

/* Which layers a region runs, and a stack has instances of. Partial recomputation splits the layers
 * in two. */
enum sw_layer_part {
    SW_LAYERS_WHOLE, /* all of them, or the region is not of layers */
    SW_LAYERS_FIRST, /* those that are made again in part */
    SW_LAYERS_LAST,  /* the others */
    SW_LAYERS_COUNT
};

/* A parameter as its model's builder declares it, in static memory: what the state, checkpoints and
 * the optimizer go by. Nobody else lists parameters. */
enum sw_parameter_part { SW_BEFORE_LAYERS, SW_OF_LAYER, SW_BEHIND_LAYERS, SW_PARAMETER_PARTS };
struct sw_parameter {
    const char *name;   /* "wq" */
    const char *stored; /* as Hugging Face's files call it; of a layer behind "model.layers.N." */
    uint8_t part;       /* enum sw_parameter_part */
    uint8_t place;      /* among those of its part, in the order of transformers' modules */
    bool transposed;    /* in files, as torch.nn.Linear has it: outputs first; the others are so */
    bool decays;        /* weight decay applies */
    uint8_t initial;    /* enum sw_initial */
    const char *tied;   /* what files call a copy of it where it is the head as well; else NULL */
};

/* Of a matrix: it lies as files have it, outputs first, and linear_t multiplies with it. */
static inline bool sw_parameter_is_turned(const struct sw_parameter *parameter)
{
    return parameter != NULL && !parameter->transposed;
}

struct sw_value {
    /* what passes look at most lies together: a search's programs are many */
    enum sw_role role;
    enum sw_dtype dtype;
    uint8_t ndim;
    bool carried;    /* handed from iteration to iteration of a region: stack = repeat + 1 */
    bool decay;      /* parameters: weight decay applies */
    bool frozen;     /* parameters: no gradient, no moments, no update */
    bool scales;     /* of a parameter in 8 bits: what its numbers stand for (quantize.h) */
    bool copy;       /* of the parameter before it: in the precision that products take it in, made
                        when the state is and by what updates the parameter */
    uint8_t initial; /* state: enum sw_initial */
    bool tiles;      /* a parameter that may lie in tiles (device.h): its products alone read it */
    bool tiled;      /* set by layout: and lies so: a rank's shard is whole tiles */
    uint8_t moment;  /* of the optimizer: 1 exp_avg, 2 exp_avg_sq; else 0 */
    int8_t ordinal;  /* among layer_values, that it is one of them, perhaps made again; else -1 */
    uint8_t part;    /* enum sw_layer_part: the layers that it has instances of */
    int32_t base;    /* index of the logical value this one is a version of; itself if none */
    int32_t alias;   /* shares the storage of that value (all_reduce is in place); -1: its own */
    int32_t stack;   /* 1, or the number of instances (layers, or layers + 1 of what is carried) */
    int32_t first_layer;         /* instance 0 is this layer's */
    int64_t offset;              /* set by layout, bytes: in the arena */
    uint8_t axis[SW_MAX_DIMS];   /* enum sw_logical */
    uint8_t symbol[SW_MAX_DIMS]; /* enum sw_size: where the size comes from */
    struct sw_sharding declared; /* from the rule table; the target when it must change */
    struct sw_sharding sharding; /* as it is; set by partition */
    /* what new sizes set lies together, too */
    int32_t slots;      /* set by layout: that exist at once: instance i lives in slot i % slots */
    int64_t slot_bytes; /* set by layout, bytes: distance between slots; instances of a stack are
                           contiguous (no padding) */
    int64_t local[SW_MAX_DIMS];  /* set by layout: shape of one rank's shard of one instance */
    int64_t size[SW_MAX_DIMS];   /* global, of one instance */
    int64_t padded[SW_MAX_DIMS]; /* what is split: size, or that rounded up to whole shards */
    int64_t unit[SW_MAX_DIMS];   /* elements that may not be separated (head_dim), else 1 */
    const struct sw_parameter *parameter; /* that it is, or has the moment or scales of; or NULL */
    char name[SW_NAME_BYTES];
};

/* Which instance(s) of a value an operand means. */
enum sw_index_mode {
    SW_INDEX_LAYER, /* instance (layer of this iteration) - (value's first layer) + shift */
    SW_INDEX_FIXED, /* instance `shift` */
    SW_INDEX_WHOLE /* the whole stack as one dense tensor with the instances as leading dimension */
};
struct sw_ref {
    int32_t value;
    uint8_t mode; /* enum sw_index_mode */
    int16_t shift;
};
static inline bool sw_ref_equal(struct sw_ref a, struct sw_ref b)
{
    return a.value == b.value && a.mode == b.mode && a.shift == b.shift;
}

enum sw_op_kind { /* core/program/ops.def says what each is */
#define SW_KERNEL(KIND, name) SW_OP_##KIND,
#define SW_OTHER SW_KERNEL
#include "core/program/ops.def"
                  SW_OP_COUNT
};

/* What else an op is told; each kind's row says which of these it has and describes its fields. */
struct sw_norm_attributes {
    double eps;
    int32_t head_dim; /* head_norm(_grad); else 0 */
};
struct sw_rope_attributes {
    struct sw_rope rope;
    int32_t head_dim;
    bool inverse; /* rotate back: the VJP */
};
struct sw_copies_attributes { /* replicate_heads(_grad) */
    int32_t head_dim, copies;
};
struct sw_attention_attributes { /* attention(_grad) */
    double scale;                /* of scores: 1/sqrt(head_dim) */
    int32_t head_dim;
    int32_t group; /* query heads per kv head */
    /* where the keys are a sequence: its storage order (sequence.h) */
    int32_t sequence_shards;
    int32_t sequence_layout; /* enum sw_sequence_layout; -1: the keys are a cache */
    bool bf16_hops;          /* what travels along a ring is bf16 (workspace.h) */
    int32_t inner_ring; /* ranks of a ring that is made of such rings (workspace.h); 0: it is not */
    /* where they are a cache (serving.h) */
    int32_t chunk; /* positions that prefill takes at a time */
    int32_t parts; /* ranks whose parts a whole cache is made of; 0: this rank's part */
};
struct sw_append_attributes { /* cache_append */
    int32_t head_dim;         /* of a cache in int8, which has a scale for each head; else 0 */
    int32_t chunk;            /* positions that prefill takes at a time: serving.h */
};
struct sw_accumulate_attributes {
    bool first; /* overwrites in the first micro-step */
};
struct sw_gradient_attributes { /* of what makes a gradient; begins as that of accumulate */
    bool first;
    bool adds; /* to the sum that is its last operand and its result, in place */
};
struct sw_adamw_attributes {
    bool decay; /* weight decay applies */
};
struct sw_move_attributes { /* slice and the collectives */
    int32_t dim, dim_to;
};
struct sw_snapshot_attributes {   /* of a whole save; core/program/checkpoint */
    int64_t bytes;                /* of all files, headers too */
    int64_t owned_bytes;          /* of them, of the rank that has most */
    int64_t chunk_bytes;          /* of a round, at most; as long as the longest message */
    int64_t sent_bytes, messages; /* to other ranks, of the rank that sends most */
    int64_t tables;               /* sw_placement_digest */
    int32_t files, rounds;
};
union sw_attributes {
    struct sw_norm_attributes norm;
    struct sw_rope_attributes rope;
    struct sw_copies_attributes copies;
    struct sw_attention_attributes attention;
    struct sw_append_attributes append;
    struct sw_accumulate_attributes accumulate;
    struct sw_gradient_attributes gradient;
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

enum sw_phase {
    SW_PHASE_FORWARD,  /* every micro-step */
    SW_PHASE_BACKWARD, /* every micro-step */
    SW_PHASE_UPDATE    /* once per step */
};
struct sw_region {
    char name[SW_NAME_BYTES]; /* "embed", "layer", "head", "head backward", ... */
    enum sw_phase phase;
    int32_t first_op, op_count;
    int32_t repeat; /* 1, or the number of its layers: iteration i runs layer first_layer + i */
    int32_t first_layer;
    uint8_t part; /* enum sw_layer_part */
    bool reverse; /* iteration i runs layer first_layer + repeat-1-i */
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
    bool rows_alike;          /* as device.h has it: what a row comes to is its own affair */
    bool as_few;              /* and, of rows of one token, what it comes to in few of them */
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
    int32_t layers;
    struct sw_layer_values layer_values; /* that backward may keep: the same on every mesh */
    int64_t tokens_per_step;
    enum sw_sequence_layout sequence_layout;
    int32_t sequence_shards;
    struct sw_program_target target; /* as in the options */
    /* inputs: tokens, labels i32 [batch, seq], positions i32 [seq]; none (save). Outputs, complete
     * after the update phase: loss f32 [1] (mean of the step), grad_norm f32 [1] (train), logits
     * (asked for)
     */
    struct sw_ports inputs, outputs;
    /* set by layout, bytes */
    int64_t arena_bytes;
    int64_t parameter_bytes, gradient_bytes, optimizer_bytes, activation_bytes, workspace_bytes;
    int64_t cache_bytes;
    struct sw_lifetimes *lifetimes; /* layout's own; NULL before layout */
    struct sw_pool *pool;           /* of the ops' operands */
};

/* Whether rows of any number are made as few are: what runs and what is priced go by it. */
static inline bool sw_program_makes_as_few(const struct sw_program *p)
{
    return p->sequence_length == 1 && sw_program_traits(p->kind)->as_few;
}

/* Of a program of serving; all zero otherwise. sw_serving_options fills it in. */
struct sw_serving_shape {
    int64_t max_tokens;      /* positions of the cache; a multiple of chunk */
    int64_t chunk;           /* of a prompt, that prefill takes at a time; divides by the sequence's
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

/* What to compile. Plain values; strings and pointers are not kept. */
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
    int32_t inner_ring; /* of attention; 0: one ring */
    struct sw_mesh mesh;
    struct sw_rules rules;
    enum sw_sequence_layout layout;
    struct sw_recompute recompute; /* any form; of training alone */
    uint32_t frozen;               /* parameters that are not trained: sw_parameters_match */
    enum sw_program_kind kind;
    struct sw_program_target target;
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
    SW_REJECT_MEMORY
};
const char *sw_reject_name(enum sw_reject reason);
/* Checks that every dimension divides; SW_FITS or the first reason, with detail ("heads 6 is not
 * divisible by tp 4") and help ("use tp 1, 2, 3 or 6"). Both may be NULL (then both): the
 * reason alone is wanted, as of most meshes of a search. */
enum sw_reject sw_program_admits(const struct sw_program_options *options, char detail[256],
                                 char help[256]);

void sw_program_free(struct sw_program *program); /* may be NULL */

/* Whether a program of any stage is one: operands exist and fit their op's factors, what is read
 * was written, sums over ranks are complete where they must be. Compiling looks after every pass.
 * Errors (SW_ENVIRONMENT): a mistake of ours, with the op. */
int sw_program_verify(const struct sw_program *program, struct sw_error *err);

/* Which ops a program has depends on what is split over which axes, not on how many ways, and on
 * what is made again, not in how many layers: options of the same structure give programs that
 * differ in sizes only. A search compiles one program for
 * each structure it meets and retargets it. Keys are compared as bytes. */
struct sw_program_key {
    struct sw_axes axes[SW_L_COUNT]; /* those that split anything; first, since they differ most */
    struct sw_recompute recompute;   /* normal; layers 0: as many as retargeting likes */
    uint32_t frozen;
    uint8_t layout, compute, params, reduce, ring, kind;
    bool keep_copy, logits, one_micro_step, kv_copies, split_kv, padded, table_rows;
    bool table_lies_where_used;  /* of logical programs alone: of others the axes say it */
    int32_t ways[SW_AXIS_COUNT]; /* 0: values go from rule to rule one way, whatever these are */
    struct sw_program_target target;
    int64_t sequence_length, global_batch; /* serving has no batch to be divided by: 0 */
    struct sw_model model;
    struct {
        struct sw_axes weights[SW_L_COUNT]; /* as `axes` */
        int64_t max_tokens, chunk;
        uint8_t cache, matrices;
        bool gathers_cache, mixes, tiles;
        /* of what is gathered along two dimensions the one with fewer ways goes first (reshard.c):
         * the sign of ways of embed - of a matrix's other; of batch - of seq, of scores */
        int8_t embed_wider[SW_L_COUNT], batch_wider;
    } serving;
};
void sw_program_structure(const struct sw_program_options *options, struct sw_program_key *out);
/* Makes a laid-out program the one that `options`, of the structure it was compiled for, would give
 * (same digest). Errors (SW_UNMET): something does not divide; the program is then to be freed. */
int sw_program_retarget(struct sw_program *program, const struct sw_program_options *options,
                        struct sw_error *err);

/* The first half of that, for a search that rejects most: sizes and shapes, on which time depends,
 * and in arena_bytes a bound that no arrangement of the buffers can go below. Offsets are wrong
 * until sw_program_place. Errors: as sw_program_retarget. */
int sw_program_resize(struct sw_program *program, const struct sw_program_options *options,
                      struct sw_error *err);
/* The second half. */
void sw_program_place(struct sw_program *program);
/* Of a program with sizes: what the arena is at most, wherever its buffers come to lie. */
int64_t sw_program_most_bytes(const struct sw_program *program);

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
/* Whether a value that shares no other's storage has a place of its own in the arena. */
bool sw_program_is_stored(const struct sw_program *program, int32_t value);

/* The first op that costs what op `i` does on every mesh (time, bytes, workspace): of the same
 * kind, on operands of the same shapes; `i` itself where it is the first. The program must have
 * been laid out or resized. */
int32_t sw_program_alike(const struct sw_program *program, int32_t i);

/* The layer that iteration i of a region runs. */
int32_t sw_region_layer(const struct sw_region *region, int32_t iteration);
/* The instance that a ref which is not SW_INDEX_WHOLE means in that layer. */
int32_t sw_ref_instance(const struct sw_program *program, struct sw_ref ref, int32_t layer);

/* Local element count of one instance. */
int64_t sw_value_local_elems(const struct sw_value *value);

#endif
