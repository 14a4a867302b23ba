/* Values of a program: tensors with logical axes, a sharding and a place in the arena; references
 * to their instances. */
#ifndef SW_VALUE_H
#define SW_VALUE_H

#include "core/base/device.h"
#include "core/ir/rules.h"

enum { SW_NAME_BYTES = 40, SW_ARENA_ALIGNMENT = 256 };

size_t sw_dtype_bytes(enum sw_dtype dtype);
/* Numbers that an element stands for: of SW_I4 a block of them (int4.h), else 1. */
int64_t sw_dtype_group(enum sw_dtype dtype);
/* Bytes of one of them. */
static inline double sw_dtype_number_bytes(enum sw_dtype dtype)
{
    return (double)sw_dtype_bytes(dtype) / (double)sw_dtype_group(dtype);
}
const char *sw_dtype_name(enum sw_dtype dtype); /* "f32" "bf16" "f64" "i32" "i8" */

enum sw_role {
    /* state: outlives the program */
    SW_ROLE_PARAMETER,
    SW_ROLE_OPTIMIZER, /* AdamW's m and v */
    SW_ROLE_CACHE,     /* keys and values of the texts at hand */
    /* lasts as long as a run of the program: survives micro-steps */
    SW_ROLE_GRADIENT,
    SW_ROLE_WEIGHTS, /* of parameters, as products take them: gathered in the first micro-step */
    SW_ROLE_INPUT,   /* tokens, labels, positions: written by the runner before each micro-step */
    SW_ROLE_ACCUMULATOR, /* the step's loss */
    /* everything else */
    SW_ROLE_ACTIVATION,
    SW_ROLE_COUNT
};
bool sw_role_is_state(enum sw_role role);

/* What a tensor of the state starts as. */
enum sw_initial {
    SW_INITIAL_ZEROS,
    SW_INITIAL_ONES,
    SW_INITIAL_NORMAL, /* of the model's initializer_range */
    SW_INITIAL_FAN_IN  /* uniform, up to 1 / sqrt(rows of the matrix) either way */
};

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

/* Files that a parameter is read from. */
enum sw_origin {
    SW_ORIGIN_RUN, /* what a run starts from: a checkpoint, or the folder that `init` names */
    SW_ORIGIN_BASE /* a model that what is trained stands on */
};

/* A parameter as its model's builder declares it, in static memory: what the state, checkpoints and
 * the optimizer go by. Nobody else lists parameters. */
enum sw_parameter_part { SW_BEFORE_LAYERS, SW_OF_LAYER, SW_BEHIND_LAYERS, SW_PARAMETER_PARTS };
struct sw_parameter {
    const char *name; /* "wq" */
    /* as Hugging Face's files call it, of a layer behind "model.layers.N."; with '*' for the index
     * in its first dimension (an expert's number) where each has a tensor */
    const char *stored;
    uint8_t part;       /* enum sw_parameter_part */
    uint8_t file_order; /* among those of its part, in the order of transformers' modules */
    bool transposed;    /* in files, as torch.nn.Linear has it: outputs first; the others are so */
    bool decays;        /* weight decay applies */
    uint8_t initial;    /* enum sw_initial */
    const char *tied;   /* what files call a copy of it where it is the head as well; else NULL */
    /* Three properties, each by itself: weights under an adapter are neither trained nor saved, and
     * are read from another model's files. A builder may change the two last of a value. */
    bool trained;   /* unless a run freezes it */
    bool saved;     /* checkpoints have it, and its moments */
    uint8_t origin; /* enum sw_origin */
    bool adapter;   /* files of PEFT have it: under `stored` behind "base_model.model." */
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
    bool saved;      /* parameters and moments: checkpoints have it */
    uint8_t origin;  /* the same: enum sw_origin */
    bool scales;     /* of a parameter in 8 bits: what its numbers stand for (quantize.h) */
    bool largest;    /* of a moment in codes: the largest magnitude of each block (blockwise.h) */
    bool copy;       /* of the parameter before it: in the precision that products take it in, made
                        when the state is and by what updates the parameter */
    bool gathered;   /* stands behind a parameter: its weights as more than one region takes them */
    uint8_t initial; /* state: enum sw_initial */
    bool tiles;      /* a parameter that may lie in tiles (device.h): its products alone read it */
    bool tiled;      /* set by layout: and lies so: a rank's shard is whole tiles */
    uint8_t moment;  /* of the optimizer: 1 exp_avg, 2 exp_avg_sq; else 0 */
    int16_t ordinal; /* in layer_values.def, that it is one of them, perhaps made again; else -1 */
    uint8_t part;    /* enum sw_layer_part: the layers that it has instances of */
    int32_t base;    /* index of the logical value this one is a version of; itself if none */
    int32_t alias;   /* shares the storage of that value (all_reduce is in place); -1: its own */
    int32_t stack;   /* 1, or the number of instances (layers, or layers + 1 of what is carried) */
    int32_t first_layer, period; /* instance i is of layer first_layer + i * period */
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

/* True if dimension d may be split into shards that its size does not fill: no block of SW_I4 is
 * made of nothing. */
static inline bool sw_value_pads(const struct sw_value *value, uint8_t d)
{
    return sw_logical_pads((enum sw_logical)value->axis[d]) && value->dtype != SW_I4;
}

/* The dimension of a matrix that its products sum over: that of its inputs. */
static inline uint8_t sw_parameter_inputs(const struct sw_parameter *parameter)
{
    return sw_parameter_is_turned(parameter) ? 1 : 0;
}

/* Local element count of one instance. */
int64_t sw_value_local_elems(const struct sw_value *value);

#endif
