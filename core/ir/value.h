/* Values of a program: tensors with logical axes, a sharding and a place in the arena; references
 * to their instances. */
#ifndef SW_VALUE_H
#define SW_VALUE_H

#include "core/base/device.h"
#include "core/ir/rules.h"

enum { SW_NAME_BYTES = 40, SW_ARENA_ALIGNMENT = 256 };

size_t sw_dtype_bytes(enum sw_dtype dtype);
/* Numbers that an element holds: a block for SW_I4 (int4.h), else 1. */
int64_t sw_dtype_group(enum sw_dtype dtype);
/* Bytes of one number. */
static inline double sw_dtype_number_bytes(enum sw_dtype dtype)
{
    return (double)sw_dtype_bytes(dtype) / (double)sw_dtype_group(dtype);
}
const char *sw_dtype_name(enum sw_dtype dtype); /* "f32" "bf16" "f64" "i32" "i8" */

enum sw_role {
    /* state: outlives the program */
    SW_ROLE_PARAMETER,
    SW_ROLE_OPTIMIZER, /* AdamW's m and v */
    SW_ROLE_CACHE,     /* keys and values of current sequences */
    /* survives micro-steps, ends with a run of the program */
    SW_ROLE_GRADIENT,
    SW_ROLE_WEIGHTS, /* parameters as products take them, gathered in the first micro-step */
    SW_ROLE_INPUT,   /* tokens, labels, positions: written by the runner before each micro-step */
    SW_ROLE_ACCUMULATOR, /* the step's loss */
    /* everything else */
    SW_ROLE_ACTIVATION,
    SW_ROLE_COUNT
};
bool sw_role_is_state(enum sw_role role);

/* Initial values of a state tensor. */
enum sw_initial {
    SW_INITIAL_ZEROS,
    SW_INITIAL_ONES,
    SW_INITIAL_NORMAL, /* deviation: the model's initializer_range */
    SW_INITIAL_FAN_IN  /* uniform in +-1 / sqrt(rows of the matrix) */
};

/* Symbolic sizes: dimensions and attributes that follow from the mesh and the batch. Retargeting
 * evaluates them again. */
enum sw_size {
    SW_SIZE_FIXED,   /* given by model or run: the same on every mesh */
    SW_SIZE_BATCH,   /* sequences of a micro-step over the whole mesh */
    SW_SIZE_EMBED,   /* hidden_size of stored weights: rounded up to whole shards */
    SW_SIZE_STATS,   /* elements for each token of lm_head_stats */
    SW_SIZE_KV,      /* elements of kv heads with their copies */
    SW_SIZE_COPIES,  /* copies of each kv head */
    SW_SIZE_GROUP,   /* query heads per copied kv head */
    SW_SIZE_SHARDS,  /* parts of the sequence */
    SW_SIZE_PARTS,   /* parts of the cache's positions */
    SW_SIZE_SCALES,  /* scales of a token in an int8 cache: one for each kv head and copy */
    SW_SIZE_SLOTS,   /* sequences in the cache over the whole mesh */
    SW_SIZE_SAMPLED, /* rows of a mixing call whose next token is sampled */
    SW_SIZE_INNER,   /* ranks of an inner ring; 0: one ring */
    SW_SIZE_COUNT
};

/* Layers that a region runs, and that a stack has instances of. Partial recomputation splits the
 * layers in two. */
enum sw_layer_part {
    SW_LAYERS_WHOLE, /* all layers, or the region is not of layers */
    SW_LAYERS_FIRST, /* layers recomputed in part */
    SW_LAYERS_LAST,  /* other layers */
    SW_LAYERS_COUNT
};

/* Files that a parameter is read from. */
enum sw_origin {
    SW_ORIGIN_RUN, /* start of the run: a checkpoint, or the folder that `init` names */
    SW_ORIGIN_BASE /* model under an adapter */
};

/* Declaration of a parameter by its model's builder, in static memory. State, checkpoints and the
 * optimizer follow it; parameters are listed nowhere else. */
enum sw_parameter_part { SW_BEFORE_LAYERS, SW_OF_LAYER, SW_BEHIND_LAYERS, SW_PARAMETER_PARTS };
struct sw_parameter {
    const char *name; /* "wq" */
    /* name in Hugging Face's files, for a layer without "model.layers.N."; '*' stands for the index
     * in the first dimension (an expert's number) where each has a tensor */
    const char *stored;
    uint8_t part;       /* enum sw_parameter_part */
    uint8_t file_order; /* order among those of its part, as transformers' modules have it */
    bool transposed;    /* true if stored as in torch.nn.Linear: outputs first */
    bool decays;        /* true if weight decay applies */
    uint8_t initial;    /* enum sw_initial */
    const char *tied;   /* name in files of the copy that is the head as well; NULL: not tied */
    /* Three independent properties: weights under an adapter are neither trained nor saved, and are
     * read from another model's files. A builder may change the last two for a value. */
    bool trained;   /* true unless a run freezes it */
    bool saved;     /* true if checkpoints have it and its moments */
    uint8_t origin; /* enum sw_origin */
    bool adapter;   /* true if it stands in PEFT's files: `stored` behind "base_model.model." */
};

/* True for a matrix stored as in files, outputs first, which linear_t multiplies by. */
static inline bool sw_parameter_is_turned(const struct sw_parameter *parameter)
{
    return parameter != NULL && !parameter->transposed;
}

struct sw_value {
    /* first the members that passes read most: a search has many programs */
    enum sw_role role;
    enum sw_dtype dtype;
    uint8_t ndim;
    bool carried;   /* true if handed from iteration to iteration of a region: stack = repeat + 1 */
    bool decay;     /* parameters: true if weight decay applies */
    bool frozen;    /* parameters: true if it has no gradient, moments or update */
    bool saved;     /* parameters and moments: true if checkpoints have it */
    uint8_t origin; /* parameters and moments: enum sw_origin */
    bool scales;    /* true for scales of a parameter in 8 bits (quantize.h) */
    bool largest;   /* true for block maxima of a moment in codes (blockwise.h) */
    bool copy; /* true for the copy, in the precision of products, of the parameter before it; made
                  with the state and by updates of the parameter */
    bool gathered;   /* true for the value behind a parameter: its weights, gathered for several
                        regions */
    uint8_t initial; /* state: enum sw_initial */
    bool tiles; /* true for a parameter that may be stored in tiles (device.h): only its products
                   read it */
    bool tiled; /* set by layout: true if stored so, as a rank's shard is whole tiles */
    uint8_t moment;  /* optimizer: 1 exp_avg, 2 exp_avg_sq; else 0 */
    int16_t ordinal; /* index in layer_values.def, also if made again; else -1 */
    uint8_t part;    /* enum sw_layer_part: layers that it has instances of */
    int32_t base;    /* index of the logical value this one is a version of; itself if none */
    int32_t alias;   /* value whose storage it shares (all_reduce is in place); -1: its own */
    int32_t stack;   /* 1, or the number of instances: layers, or layers + 1 if carried */
    int32_t first_layer, period; /* instance i is of layer first_layer + i * period */
    int64_t offset;              /* set by layout: bytes from the start of the arena */
    uint8_t axis[SW_MAX_DIMS];   /* enum sw_logical */
    uint8_t symbol[SW_MAX_DIMS]; /* enum sw_size: source of the size */
    struct sw_sharding declared; /* from the rule table; target of a reshard */
    struct sw_sharding sharding; /* actual one; set by partition */
    /* then the members that new sizes change */
    /* set by layout: instances that exist at once; instance i is in slot i % slots */
    int32_t slots;
    int64_t slot_bytes; /* set by layout: bytes from one slot to the next; instances of a stack are
                           contiguous (no padding) */
    int64_t local[SW_MAX_DIMS]; /* set by layout: shape of one rank's shard of one instance */
    int64_t size[SW_MAX_DIMS];  /* global, of one instance */
    /* size that is split: size, rounded up to whole shards if padded */
    int64_t padded[SW_MAX_DIMS];
    int64_t unit[SW_MAX_DIMS]; /* elements that may not be separated (head_dim), else 1 */
    /* parameter that the value is, or whose moment or scales it is; or NULL */
    const struct sw_parameter *parameter;
    char name[SW_NAME_BYTES];
};

/* Instances of a value that an operand refers to. */
enum sw_index_mode {
    SW_INDEX_LAYER, /* the instance of layer (of the op) + shift */
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

/* True if dimension d may be split into padded shards; blocks of SW_I4 are not padded. */
static inline bool sw_value_pads(const struct sw_value *value, uint8_t d)
{
    return sw_logical_pads((enum sw_logical)value->axis[d]) && value->dtype != SW_I4;
}

/* The dimension of a matrix that products sum over: its inputs. */
static inline uint8_t sw_parameter_inputs(const struct sw_parameter *parameter)
{
    return sw_parameter_is_turned(parameter) ? 1 : 0;
}

/* Local element count of one instance. */
int64_t sw_value_local_elems(const struct sw_value *value);

#endif
