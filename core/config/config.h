/* Checked descriptions of a model, an accelerator, a cluster and a run, read from YAML (or JSON).
 *
 * Owns: the keys, their tables and types, over the engine in core/schema. Knows nothing of meshes,
 * programs or prices. A description and all its strings live in one arena, freed by sw_config_free.
 */
#ifndef SW_CONFIG_H
#define SW_CONFIG_H

#include "core/base/device.h"
#include "core/base/error.h"
#include "core/base/model.h"
#include "core/base/recompute.h"
#include "core/base/lora.h"
#include "core/base/words.h"
#include "core/config/launcher.h"
#include "core/schema/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { SW_MAX_LINKS = 8, SW_MAX_RULES = 16, SW_MAX_CURVE = 32, SW_MAX_SKINNY_GEMM = 32 };

/* Selection of layers with a window in Qwen's config.json. After reading, only shape.sliding_window
 * counts; the other members are kept for plans to write. */
enum sw_layer_types { SW_LAYERS_NOT_TOLD, SW_LAYERS_FULL, SW_LAYERS_WINDOWED };
enum { SW_MAX_WINDOW_LAYERS = 28 }; /* the default */

struct sw_model_config {
    const char *path; /* file it came from */
    struct sw_model shape;
    enum sw_layer_types layer_types;
    const char *layer_kinds;        /* a letter for each layer: 'w' with a window, 'f' without;
                                       or NULL */
    int32_t sliding_window_pattern; /* Gemma 3: every n-th layer has no window; 0: unset */
    int hidden_activation;          /* word of the MLP's activation under Gemma's key */
    int hidden_act;                 /* the same under the usual key */
    int64_t original_positions; /* original_max_position_embeddings beside rope_scaling; 0: none */
    int32_t max_window_layers;
    bool use_sliding_window;
};

/* Hugging Face's class of each family, by enum sw_family, then NULL; and keys of config.json that
 * only some classes read. */
extern const char *const sw_family_architectures[], *const sw_family_model_types[];
enum sw_family_key {
    SW_READS_ATTENTION_BIAS = 1, /* biases of q, k, v and of the output */
    SW_READS_MLP_BIAS = 2,
    SW_READS_WINDOW = 4,
    SW_READS_WINDOW_SWITCH = 8,  /* use_sliding_window, max_window_layers, layer_types */
    SW_READS_MULTIPLIERS = 16,   /* multipliers of embeddings, attention, residuals; divisor of
                                    logits */
    SW_READS_LOCAL_LAYERS = 32,  /* layer_types; without it some layers have a window */
    SW_READS_LAYER_PATTERN = 64, /* sliding_window_pattern */
    SW_READS_LOCAL_ROPE = 128,   /* rope_local_base_freq, or rope_parameters for each kind of
                                    layers */
    SW_READS_QUERY_SCALAR = 256, /* query_pre_attn_scalar; hidden_activation for hidden_act */
    SW_READS_SOFTCAPS = 512,     /* attn_logit_softcapping, final_logit_softcapping */
    SW_READS_PARTIAL_ROTATION = 1024
};
bool sw_family_reads(uint8_t family, enum sw_family_key key);

/* original_max_position_embeddings of Phi-3's class if its file has none. */
enum { SW_PHI3_ORIGINAL_POSITIONS = 4096 };
const char *sw_rope_type_name(const struct sw_rope *rope); /* "longrope" */
/* Factor of cos and sin if longrope's attention_factor is unset; original is at least 2 (Ding et
 * al. 2024, as in transformers). */
double sw_longrope_attention_factor(double factor, int64_t original);

/* True if a text may be a `name`: 1 to 64 letters, digits, '.', '_' or '-', not beginning with '.'
 * or '-'. */
bool sw_text_is_name(const char *text);

/* One measured point of an efficiency curve: fraction of peak (0..1] at a size (flops or bytes).
 * For products_scale at most SW_MAX_PRODUCTS_SCALE. */
struct sw_curve_point {
    double size, fraction;
};
struct sw_curve {
    int32_t count;                             /* 0: not measured; the default efficiency is used */
    struct sw_curve_point point[SW_MAX_CURVE]; /* ascending size */
};

/* Curves of single collectives over a number of ranks, by bytes over a port, as for a link. The
 * curves of one collective ascend by ranks. For other numbers of ranks: interpolated between
 * neighbours; above the largest, the largest; below the smallest, the link's own curve. */
enum { SW_MAX_COLLECTIVE_CURVES = 16 };
struct sw_collective_curves {
    int32_t count;
    struct sw_collective_curve {
        enum sw_collective kind;
        int32_t ranks;
        struct sw_curve curve;
    } of[SW_MAX_COLLECTIVE_CURVES];
};

/* Mean of measured / predicted - 1. May be given as 0: no bias. */
struct sw_signed_error {
    double mean;
    struct sw_place at; /* position in a file; file NULL: not given */
};

/* A file of an efficiency curve, and of curves of single collectives (NULL: none). */
struct sw_curve_file {
    struct sw_curve curve;
    const struct sw_collective_curves *collectives;
    /* Error over measurements left out of the fit: mean |error| (0: not given), and the signed
     * one. */
    double error;
    struct sw_signed_error signed_error;
    double collectives_error;
    struct sw_signed_error collectives_signed_error;
    double launch_s, latency_s; /* values with which the points were fitted; 0: not given */
    struct {
        struct sw_place points, collectives;
    } at;
};

/* Speed of reading in decode: bytes per second that products of few rows read of their weights, and
 * attention of its cache, for that many rows or query heads on each weight or key, in a program
 * that reads `bytes` in total before it reads the same again (smaller ones may stay in a cache). */
struct sw_skinny_gemm_point {
    double rows, bytes, bandwidth;
};
struct sw_skinny_gemm {
    int32_t count;                                         /* 0: not measured */
    struct sw_skinny_gemm_point point[SW_MAX_SKINNY_GEMM]; /* by rows, then by bytes, ascending */
};

/* Products [rows, k] x [k, n] and [rows, k] x [n, k]^T, whose weights are stored otherwise;
 * attention to a cache. For weights or cache in fp32 and in bf16. */
enum sw_skinny_kind { SW_SKINNY_LINEAR, SW_SKINNY_LINEAR_T, SW_SKINNY_ATTENTION, SW_SKINNY_KINDS };
enum sw_rate_dtype { SW_RATE_FP32, SW_RATE_BF16, SW_RATE_DTYPES };

/* Measured speed of products [rows, depth] x [depth, columns] on a grid of sizes, as shares of the
 * least time that peak and memory bandwidth allow: max(2 rows columns depth / peak, e (rows depth +
 * depth columns + rows columns) / bandwidth), with e bytes an element. */
enum { SW_MAX_PRODUCT_ROWS = 16, SW_MAX_PRODUCT_SIDES = 8 };
enum { SW_MAX_PRODUCTS_SCALE = 100 }; /* also for products_error */
struct sw_products {
    int32_t rows, columns, depths; /* sizes of the grid, each > 1; attention may have a single
                                      head size */
    double row[SW_MAX_PRODUCT_ROWS], column[SW_MAX_PRODUCT_SIDES],
        depth[SW_MAX_PRODUCT_SIDES]; /* ascending */
    double share[SW_MAX_PRODUCT_ROWS * SW_MAX_PRODUCT_SIDES *
                 SW_MAX_PRODUCT_SIDES]; /* [rows][columns][depths] */
    /* Share of the peak that an infinite product would reach: that of products of 2^37 FLOP and
     * more (or the last), divided by the 0.94 that tiles and depths leave of these. Has the meaning
     * of `matmul` in a profile. */
    double asymptote;
};

/* Measured speed of attention, as shares of the peak alone. Rows, columns and depths of the grid:
 * for a causal sequence and its gradient, heads (or query heads of all sequences of a call),
 * length, head size; over a cache, queries of a sequence, mean number of cached positions that a
 * query meets, head size (decode has a single query). */
enum sw_attention_phase {
    SW_ATTENTION_FORWARD,
    SW_ATTENTION_BACKWARD,
    SW_ATTENTION_CACHED,
    SW_ATTENTION_PHASES
};

/* Measured speed of software on a chip, as shares of the chip's data sheet, and the errors of
 * prices that rest on it. Constants belong to software on a chip, not to a chip. */
struct sw_profile_config {
    const char *path;        /* file that it was read from; NULL: the declared default */
    const char *name;        /* name of the software: "llm-foundry-2023"; never NULL in a settled
                                cluster */
    const char *accelerator; /* name of the chip; NULL: any */
    struct sw_curve matmul, attention, memory; /* share of peak, of peak, of memory bandwidth */
    struct sw_curve attention_backward; /* for attention's gradient; count 0: as `attention` */
    struct sw_skinny_gemm skinny_gemm[SW_SKINNY_KINDS][SW_RATE_DTYPES];
    /* Grids by layout of operands (enum sw_product_kind) and enum sw_rate_dtype. NULL: in bf16 the
     * accelerator's grid, if any, else `matmul` alone. */
    const struct sw_products *products[SW_PRODUCT_KINDS][SW_RATE_DTYPES];
    /* Factor on these grids in a step that moves that many bytes before it reads the same weights
     * again (fewer bytes may stay in caches); count 0: the ratio of `matmul` to their asymptote. */
    struct sw_curve products_scale;
    /* Error of grid prices for products in such steps, away from grid points: median |error| (0:
     * not given), and the signed one. */
    double products_error;
    struct sw_signed_error products_signed_error;
    /* NULL: `attention` and `attention_backward` apply. */
    const struct sw_products *attention_by_size[SW_ATTENTION_PHASES][SW_RATE_DTYPES];
    struct sw_curve attention_scale; /* like products_scale; count 0: no factor */
    double attention_error;          /* like products_error */
    struct sw_signed_error attention_signed_error;
    double launch_latency_s; /* seconds that each op adds on the device */
    double angle_time_s;     /* seconds that rope adds for each position and pair of elements */
    double host_time_s;      /* seconds from the issue of one op to the next, a lower bound of the
                                device's time */
    /* Peaks that the shares refer to, if not the data sheet's; 0: the accelerator's. */
    double peak_bf16_flops, peak_fp32_flops, memory_bandwidth;
    /* FLOP/s of products with weights in 8 bits if the software multiplies in 8 bits; 0: it widens
     * them, as the runner does. */
    double peak_int8_flops;
    /* True if sums inside a node do not use rings: every rank reads its part from all others at
     * once and distributes the sum. */
    bool reduces_directly;
    /* Copies of a weight's whole gradient in memory before ranks that split the weight sum it;
     * software that joins gradients of several weights makes such copies. */
    int32_t gradient_copies;
    bool joins_products; /* true if products of the same rows, q, k and v, are made as one */
    int32_t runs;        /* number of fitted runs; 0: not given */
    /* Error over runs left out of the fit: mean |error| (0: not given), and the signed one, above 0
     * if runs took longer than predicted. */
    double error;
    struct sw_signed_error signed_error;
    double band_low, band_high; /* measured / predicted time, 10th and 90th percentile */
    const char *source;         /* source of the shares; NULL: not given */
    bool assumed; /* true for a default, made by profile.c or written by it and unchanged but
                     for launch_latency_s */
    struct {
        struct sw_place matmul, attention, attention_backward, memory,
            skinny_gemm[SW_SKINNY_KINDS][SW_RATE_DTYPES], products_scale, attention_scale,
            launch_latency, angle_time, host_time, peak_bf16, peak_fp32, peak_int8,
            memory_bandwidth, band, direct_reductions, joined_products, products, attention_by_size;
    } at; /* position of each constant; file NULL: the default */
};

/* Data sheet of an accelerator. */
struct sw_accelerator_config {
    const char *path, *name;
    const char *siblings; /* comma-separated names of chips of the same design; NULL: none */
    enum sw_device_kind device;
    bool planning_only; /* true if the runner has no device for it; `device` is then the
                           nearest in price */
    const struct sw_device_prices *prices;       /* replace the device's own, for sensitivity tests;
                                                    NULL: the device's own */
    int64_t memory_bytes, reserved_memory_bytes; /* reserved default 0 */
    double peak_bf16_flops, peak_fp32_flops;     /* FLOP/s; bf16 default: fp32's */
    double peak_int8_flops;                      /* peak of products in 8 bits, FLOP/s; 0: not
                                                    given */
    double memory_bandwidth;                     /* bytes/s */
    double power_watts;                          /* watts at full load; 0: not given */
    int32_t compute_units; /* SMs or CUs that share the tiles of a matmul; 0: not given */
    /* Speed of its own libraries in bf16, on which a profile puts a factor; NULL: not given. */
    const struct sw_products *products;
    /* Shares of the bf16 peak where no grid is given; 0: not given: of the best measured product,
     * and of large products in usual training software. */
    double best_product, training_product;
    const char *product_source; /* source of these; NULL: not given */
    /* Speed of attention over a cache in bf16; NULL: not given. Prefill, a prompt's tokens over
     * their own cache, by query heads of all sequences, tokens and head size: shares of the peak
     * for 2 heads tokens^2 head size operations (the causal half), keys and values written apart.
     * Decode, one token a sequence, by kv heads of all sequences, positions and head size: shares
     * of the memory bandwidth for reading keys and values. */
    const struct sw_products *prefill_attention, *decode_attention;
    /* Error of prices by these grids away from their points: median |error| (0: not given), and the
     * signed one. */
    double products_error;
    struct sw_signed_error products_signed_error;
    double prefill_error;
    struct sw_signed_error prefill_signed_error;
    double decode_error;
    struct sw_signed_error decode_signed_error;
    struct {
        struct sw_place peak_bf16, peak_fp32, memory_bandwidth, products, prefill, decode,
            planning_only, best_product, training_product;
    } at; /* like a profile's */
    /* Constants that files older than profiles have here; used by a cluster without a profile. */
    struct sw_profile_config older;
};

struct sw_cluster_config;

/* Best share of the bf16 peak of infinite products: the grid's asymptote, or that of its best
 * product; 0: neither is given. */
double sw_accelerator_best_share(const struct sw_accelerator_config *a);
const struct sw_device_prices *sw_accelerator_prices(const struct sw_accelerator_config *a);
/* Seconds of the messages beyond the first of each call, by carrier. */
double sw_accelerator_message_seconds(const struct sw_accelerator_config *a,
                                      const double messages[SW_CARRIER_COUNT]);

/* Default for software that was not measured: the same shares for every chip of a kind of device,
 * and for matrix products the same share of the speed of the chip's own libraries, if measured. */
struct sw_profile_config sw_profile_default(const struct sw_accelerator_config *accelerator);
/* True for a default, unchanged but for the launch latency. */
bool sw_profile_is_default(const struct sw_profile_config *profile);
/* True if its `attention` is the training default's. */
bool sw_profile_assumes_attention(const struct sw_profile_config *profile,
                                  const struct sw_accelerator_config *accelerator);
/* True for the default of serving, which describes model servers, not the runner. */
bool sw_profile_is_of_servers(const struct sw_profile_config *profile);
/* For readers of a price: the software whose time is predicted; else "". */
const char *sw_profile_note(const struct sw_profile_config *profile);
/* Replaces a cluster's default profile by the other one: that of model servers for prices of
 * serving, if its device has one, and back. A given launch latency stays. No effect on other
 * profiles, or the second time. */
void sw_profile_for_serving(struct sw_cluster_config *cluster);
void sw_profile_for_training(struct sw_cluster_config *cluster);

struct sw_link_config {
    const char *name;
    int32_t spans;              /* accelerators in one domain, ascending over links; the last
                                   >= the cluster */
    bool spans_all;             /* true if written as 'all': follows the size of the cluster */
    double bandwidth;           /* bytes/s, one direction, per accelerator */
    double bandwidth_per_node;  /* only during reading: bandwidth is derived from it, and it
                                   becomes 0 */
    double launch_s;            /* seconds once a collective, for any number of steps */
    double latency_s;           /* seconds for each step of a collective */
    struct sw_curve efficiency; /* share of bandwidth by bytes over a port; count 0: default */
    const struct sw_collective_curves *collectives; /* curves measured for single collectives;
                                                       NULL: none */
    const char *efficiency_path;                    /* file of the curve; NULL: written inline */
    /* Errors of that file; those of launch and latency only if both have the values its points were
     * fitted with. 0: not given; each is followed by the signed one. */
    double efficiency_error;
    struct sw_signed_error efficiency_signed_error;
    double collectives_error;
    struct sw_signed_error collectives_signed_error;
    double launch_error;
    struct sw_signed_error launch_signed_error;
    double latency_error;
    struct sw_signed_error latency_signed_error;
    struct {
        struct sw_place bandwidth, launch, latency, efficiency, collectives, oversubscription;
    } at;                    /* like a profile's */
    double oversubscription; /* >= 1: divisor of bandwidth when all nodes talk at once */
    bool rails;  /* true if every accelerator has its own port, false: a domain shares all of
                    its ports */
    bool direct; /* true if collectives send blocks directly (runner/collective/direct.h),
                    false: in rings */
};

/* Texts in order. */
struct sw_texts {
    const char *const *item;
    int32_t count;
};
/* A resolved path, true if it was written from the root on, and its position. */
struct sw_path {
    const char *text;
    bool is_absolute;
    struct sw_place place;
};
struct sw_paths {
    const struct sw_path *item; /* [count] */
    int32_t count;
};
struct sw_numbers {
    const double *item; /* [count] */
    int32_t count;
};
/* Environment variables, each name once, in the order of their first setting. */
struct sw_variable {
    const char *name, *value;
};
struct sw_environment {
    const struct sw_variable *item;
    int32_t count;
};

/* Settings of libraries for a kind of network. */
struct sw_fabric_config {
    const char *path, *name; /* NULL: no fabric is named */
    struct sw_environment environment;
};

/* Program that starts a rank inside an image: pyxis is an option of the launcher, the others are
 * programs. */
enum sw_container_kind {
    SW_CONTAINER_PYXIS,
    SW_CONTAINER_APPTAINER,
    SW_CONTAINER_SINGULARITY,
    SW_CONTAINER_NONE
};
struct sw_container_config {
    enum sw_container_kind kind;
    const char *image;      /* NULL: no container */
    const char *runner;     /* path in the image; NULL: the node's runner, mounted */
    struct sw_texts mounts; /* "/from:/to" or "/from:/to:flags" */
    struct sw_texts options;
};

/* Requests about the position of a job's nodes that a cluster's scheduler takes; all 0: none. */
struct sw_placement_config {
    int32_t group; /* accelerators of a block, or below a leaf switch */
    bool segments; /* true if a job can ask for segments of nodes, each in one group */
    bool groups;   /* true if a job can ask for a number of groups */
    int32_t asked; /* accelerators in the segments that the settings ask for; 0: none */
};

struct sw_cluster_config {
    const char *path, *name;
    int32_t nodes, accelerators_per_node;
    struct sw_accelerator_config accelerator;
    struct sw_profile_config profile; /* profile of prices */
    int64_t host_memory_bytes;        /* memory of a node; 0: not given */
    int32_t link_count;
    /* innermost first; may be empty with one accelerator */
    struct sw_link_config link[SW_MAX_LINKS];
    /* Link written as 'all' but not in link[], since with so few nodes it joins no more than the
     * link inside it; name NULL: none. */
    struct sw_link_config beyond;
    double storage_bandwidth;           /* bytes/s that the whole job can write; 0: not given */
    double failures_per_1000_node_days; /* 0: no failures; default 3.8 */
    double start_s;   /* seconds from an attempt's start to its first step; 0: the device's
                         default */
    double restart_s; /* seconds from a failure to the next attempt's start, accelerators held */
    double queue_s;   /* seconds from a job's end to the next one's start, no accelerators held */
    double price_per_hour;                /* price of one accelerator in `currency`; 0: not given */
    const char *currency;                 /* NULL: USD */
    int32_t launcher;                     /* index in the list of launchers */
    const struct sw_launchers *launchers; /* list that it was read with; NULL: none */
    struct sw_launcher_settings settings; /* sw_run_config applies the run's overrides */
    struct sw_placement_config placement; /* derived from the settings */
};

/* Changes the cluster's number of nodes: links that span all of them follow, and links that then
 * join no more than the one inside them are dropped, as when a file is read. */
void sw_cluster_resize(struct sw_cluster_config *cluster, int32_t nodes);

/* Format of the file data.path; auto: by its name. */
enum sw_data_format { SW_DATA_AUTO, SW_DATA_BYTES };
/* Goal of a search; in the order of sw_prefer_words. */
enum sw_prefer {
    SW_PREFER_FSDP, /* largest fsdp within a margin of the fastest */
    SW_PREFER_FSDP_STRICT,
    SW_PREFER_TIME,
    SW_PREFER_COST /* the cheapest number of nodes; with one number as SW_PREFER_TIME */
};
extern const char *const sw_prefer_words[];
enum sw_lr_schedule {
    SW_SCHEDULE_CONSTANT,
    SW_SCHEDULE_LINEAR,
    SW_SCHEDULE_COSINE,
    SW_SCHEDULE_WSD,
    SW_SCHEDULE_INVERSE_SQRT
};
extern const char *const sw_schedule_words[];
/* Reaction to a loss or gradient norm far above those of earlier steps. */
enum sw_on_spike { SW_SPIKE_NONE, SW_SPIKE_STOP, SW_SPIKE_SKIP, SW_SPIKE_REWIND };

struct sw_optimizer_config {
    double learning_rate, beta1, beta2, eps, weight_decay, grad_clip; /* grad_clip 0: off */
    enum sw_lr_schedule schedule;
    int64_t warmup_steps, total_steps;
    int64_t decay_steps; /* wsd: steps at the end of total_steps; 0: a tenth of total_steps */
    double min_learning_rate;
    const char *no_decay; /* comma-separated patterns of parameters' names; NULL: as declared */
    struct sw_place no_decay_place;
    enum sw_dtype moments; /* SW_F32, SW_BF16_T; SW_CODES: int8 in blocks */
    enum sw_on_spike on_spike;
    double spike_threshold;         /* limit in standard deviations above the mean */
    int64_t spike_window;           /* number of steps for mean and deviation */
    int64_t max_skips, max_rewinds; /* max_skips: in a row */
};

struct sw_rule_config {  /* one override of the logical axis -> mesh axes table */
    const char *logical; /* checked by core/ir; the position is kept for messages */
    int32_t count;
    const char *axis[4]; /* checked to be dp, fsdp, tp, sp, each at most once */
    struct sw_place place;
};

/* Purpose of the script that `plan emit` writes. */
enum sw_job_type { SW_JOB_TRAIN, SW_JOB_GENERATE, SW_JOB_SCORE, SW_JOB_SERVE };
const char *sw_job_type_name(enum sw_job_type type); /* "train", "generate" ... */
struct sw_job_config {
    enum sw_job_type type;
    /* resolved; checkpoint NULL: the run's; others NULL: not given */
    const char *checkpoint, *input, *output, *token_file;
    const char *host;        /* address that serving listens on */
    int32_t port;            /* 0: auto, chosen for each job */
    int32_t shards, at_once; /* tasks of an array; at most so many at a time, 0: all */
    struct sw_place place;   /* position of the section */
    struct sw_place checkpoint_place, input_place, token_place; /* position of the key or of the
                                                                   run */
};

/* True to keep weights split over fsdp while generating; auto: only if they do not fit
 * otherwise. */
enum sw_stream_weights { SW_STREAM_AUTO, SW_STREAM_NEVER, SW_STREAM_ALWAYS };
enum sw_interleave { SW_INTERLEAVE_AUTO, SW_INTERLEAVE_NEVER, SW_INTERLEAVE_ALWAYS };

/* A name and its position in a file. */
struct sw_name_config {
    const char *name;
    struct sw_place place;
};
/* Names of a layer's values; core/plan checks that the model's program has them. */
struct sw_values_config {
    const struct sw_name_config *of; /* [count] */
    int32_t count;
    bool all; /* true for all values; count is 0 */
};
/* Recomputation as written; {0}: none. */
struct sw_recompute_config {
    struct sw_values_config values, rest; /* in the first layers; in the others */
    int32_t layers;                       /* number of first layers; SW_ALL_LAYERS */
    bool before_attention; /* true for an old word: `values` are all that a layer makes before
                              attention */
};

/* Adapters as written in a run (core/base/lora.h). */
struct sw_lora_config {
    int32_t rank; /* 0: none */
    bool rslora;
    double alpha;
    const char *targets; /* comma-separated names; NULL: q_proj and v_proj */
    enum sw_dtype base;  /* type of the frozen matrices; SW_DTYPE_COUNT: auto, the compute
                            precision */
    int32_t rank_of[SW_LORA_TARGETS]; /* instead of `rank` and `alpha`; 0: those */
    double alpha_of[SW_LORA_TARGETS];
};

/* A stage of a run with `stages`, in the stage's own run. */
struct sw_stage_config {
    const char *name;       /* NULL: the run is no stage */
    int32_t number, count;  /* from 1; number of stages; 0: not given */
    const char *from;       /* folder of the earlier run, or of its checkpoints; NULL: none */
    bool continue_schedule; /* true if step count and data position continue from there */
    int64_t steps_before;   /* steps of the earlier stages; 0 without continue_schedule */
    bool from_is_absolute;
    struct sw_place place; /* position of the stage in the run file */
};

struct sw_run_config {
    const char *path, *name;
    struct sw_stage_config stage;
    struct sw_model_config model;
    struct sw_cluster_config cluster; /* its settings have the overrides applied */
    int64_t sequence_length, global_batch_size;
    const char *nodes;               /* "3-4": allowed numbers of nodes; NULL: all */
    int32_t nodes_least, nodes_most; /* limits of `nodes`; cluster.nodes is the most */
    int32_t cluster_nodes;           /* nodes in the cluster's file */
    const char *mesh_dim;            /* text, parsed by core/sharding; default "auto" */
    struct sw_place mesh_dim_place, batch_place, sequence_place, freeze_place, lora_place;
    /* positions of data.path, init.from and init.adapter, else of the run */
    struct sw_place data_place, init_place, adapter_place;
    struct sw_place time_place; /* position of the job's time limit, the run's or the cluster's;
                                   file NULL: none */
    bool time_is_ceiling; /* true if it is the cluster's: a job asks for less if that suffices */
    bool says_steps;      /* true if the run gives optimizer.total_steps, so that its time is
                             known */
    enum sw_prefer prefer;
    double prefer_within;     /* margin over the fastest step for SW_PREFER_FSDP, as a share */
    double memory_headroom;   /* share of the accelerator's memory that plans must leave free */
    int64_t micro_batch_size; /* 0: auto */
    bool recompute_auto;      /* true by default; then `recompute` is none */
    struct sw_recompute_config recompute; /* sw_plan_recompute */
    const char *freeze; /* comma-separated patterns of parameters' names; NULL: all are trained */
    struct sw_lora_config lora;
    enum sw_dtype compute, params, reduce, ring; /* defaults bf16, fp32, fp32, fp32 */
    bool keep_copy;                              /* true if weights have a copy as products
                                                    take them */
    enum sw_zero zero;                           /* default 3 */
    bool reshard_after_forward;                  /* default true */
    enum sw_attention_strategy strategy;
    enum sw_sequence_layout layout;
    int32_t rule_count;
    struct sw_rule_config rule[SW_MAX_RULES];
    struct sw_optimizer_config optimizer;
    /* Files to train on, or patterns of them (data_file.h), resolved against the file that names
     * them. data_path is the first; NULL: no data. */
    struct sw_paths data_paths;
    const char *data_path;
    struct sw_numbers data_weights;  /* one weight for each of data_paths, or none */
    struct sw_paths data_validation; /* files to evaluate on; none: data_holdout */
    bool data_pack;                  /* true if rows are whole documents */
    enum sw_data_format data_format;
    uint64_t data_seed;
    int64_t data_document_end; /* token that ends a document; -1: none */
    double data_holdout;       /* fraction of the file's tail kept for evaluation; default 0 */
    const char *directory;     /* resolved; default runs/NAME beside the run file */
    const char *checkpoint_directory; /* resolved; default checkpoints inside directory */
    /* True if written from the root on ('/data/x'), since resolving hides that: a plan keeps such a
     * path and writes others relative to its folder. */
    bool directory_is_absolute, checkpoint_directory_is_absolute, init_from_is_absolute,
        init_adapter_is_absolute;
    /* 0: at the end and on signals only; -1: auto, decided when a plan is written (default) */
    int64_t checkpoint_every_steps;
    int64_t checkpoint_keep;       /* number of newest checkpoints that stay */
    int64_t checkpoint_keep_every; /* the first checkpoint at or after each multiple stays, too;
                                      0: none; default 0 */
    double checkpoint_bandwidth;   /* bytes/s of the whole job; 0: no limit; default 0 */
    int checkpoint_signal;         /* SIGUSR1 or SIGUSR2; default SIGUSR1 */
    const char *init_from;         /* Hugging Face directory, resolved; NULL: random weights */
    const char *init_adapter;      /* folder of adapters, resolved; NULL: new ones */
    int64_t evaluate_every_steps;  /* 0: at the end only; default 0 */
    /* Serving of the run; 0: auto. All of it auto: the run does not mention serving. */
    int64_t serve_max_batch, serve_max_tokens, serve_prompt_tokens, serve_chunk, serve_token_budget;
    enum sw_dtype serve_cache;   /* SW_DTYPE_COUNT: auto, the compute precision */
    enum sw_dtype serve_weights; /* SW_DTYPE_COUNT: auto, or a type with scales */
    enum sw_stream_weights serve_stream_weights;
    enum sw_interleave serve_interleave;
    double serve_token_latency, serve_first_token_latency; /* goals in seconds; 0: none */
    struct sw_job_config job;                              /* not in a plan, but in its script */
};

/* Makes the run one of exactly that many nodes, as if its file's `nodes` and, if more than the
 * cluster has, cluster.nodes said so. */
void sw_run_config_resize(struct sw_run_config *run, int32_t nodes);
/* True if, among meshes of one number of nodes, the fastest is best, whatever its fsdp. */
bool sw_run_config_prefers_time(const struct sw_run_config *run);

/* Files that a plan was written from. */
/* run, model, cluster, accelerator, profile, fabric, and the curves of links */
enum { SW_PLAN_MAX_INPUTS = 6 + SW_MAX_LINKS };
struct sw_plan_input {
    char *path; /* relative to the plan's folder */
    uint64_t digest;
};
struct sw_plan_inputs {
    struct sw_plan_input input[SW_PLAN_MAX_INPUTS];
    int32_t count;
};

struct sw_plan_prediction {
    double step_seconds;
    int64_t memory_total, arena_bytes; /* per accelerator; total includes reserved memory */
    double save_seconds;               /* seconds from a step to its safe checkpoint; 0: not
                                          given */
};

enum sw_residual_choice { SW_RESIDUAL_SP, SW_RESIDUAL_SP_TP };
enum sw_weights_choice { SW_WEIGHTS_RULES, SW_WEIGHTS_FSDP };

/* A plan file as written; core/plan interprets it. */
struct sw_plan_config {
    uint64_t digest;                   /* digest of the text; core/plan verifies it */
    const char *mesh_dim, *axis_order; /* sizes of dp,fsdp,tp,sp; axes, outermost first */
    int64_t micro_batch_size, accumulation_steps;
    struct sw_recompute_config recompute;
    enum sw_attention_strategy strategy; /* not AUTO */
    enum sw_sequence_layout layout;
    int32_t inner_ring; /* 0: one ring */
    enum sw_residual_choice residual_seq;
    int32_t zero; /* 1 to 3 */
    enum sw_weights_choice embed;
    bool moments_over_dp, reshard_after_forward;
    struct sw_plan_prediction prediction;
    uint64_t program[SW_PROGRAM_KINDS]; /* digests of the programs */
    struct sw_plan_inputs inputs;
    struct sw_run_config run;
    struct sw_place decision_place, mesh_place, order_place;
    struct sw_place program_place[SW_PROGRAM_KINDS];
};

enum sw_config_kind {
    SW_CONFIG_MODEL,
    SW_CONFIG_ACCELERATOR,
    SW_CONFIG_CLUSTER,
    SW_CONFIG_RUN,
    SW_CONFIG_PLAN,
    SW_CONFIG_PROFILE,
    SW_CONFIG_CURVE,
    SW_CONFIG_FABRIC,
    SW_CONFIG_UNKNOWN
};

/* "key.path=value" overrides of a run file (--set); the position of a mistake is "--set", 1,
 * column. */
struct sw_override {
    const char *text;
};

/* Reads a file of that kind (SW_CONFIG_UNKNOWN: guessed from its keys), following references to
 * other files. launchers: launcher.h. A path is relative to the file that names it; after --set to
 * the working directory. Overrides of a plan apply to its run. Returns NULL only when out of memory
 * (err filled); otherwise ask sw_config_error_count. */
struct sw_config *sw_config_read(const char *path, enum sw_config_kind kind,
                                 const struct sw_launchers *launchers,
                                 const struct sw_override *overrides, int32_t override_count,
                                 struct sw_error *err);
/* Reads from memory; `name` stands for the file, relative paths resolve against its directory. */
struct sw_config *sw_config_read_text(const char *name, const char *text, size_t text_bytes,
                                      enum sw_config_kind kind,
                                      const struct sw_launchers *launchers,
                                      const struct sw_override *overrides, int32_t override_count,
                                      struct sw_error *err);
void sw_config_free(struct sw_config *config);

/* Number of stages in a run file; 0: none. */
int32_t sw_config_stage_count(const struct sw_config *config);
/* The run of stage i, from 0, with that stage's keys in place of the run's, in folders of its own;
 * that of the first is sw_config_run. NULL: errors, or no such stage. */
const struct sw_run_config *sw_config_stage(const struct sw_config *config, int32_t i);

/* Moves the folders of all stages into this one, except folders of checkpoints elsewhere. */
void sw_config_move_stages(struct sw_config *config, const char *folder);

/* Number of steps of the run itself: in a stage that continues, those after the stage before. */
int64_t sw_run_steps(const struct sw_run_config *run);

/* Makes data_path, directory, checkpoint_directory, init_from, init_adapter and stage.from of all
 * stages absolute, for files used in another working directory (a job script). No effect without a
 * run or with errors. Errors (SW_ENVIRONMENT): the working directory has no name, no memory. */
int sw_config_make_paths_absolute(struct sw_config *config, struct sw_error *err);

enum sw_config_kind sw_config_get_kind(const struct sw_config *config);
/* True if the file could be read and parsed, whatever it describes. */
bool sw_config_is_yaml(const struct sw_config *config);
int32_t sw_config_error_count(const struct sw_config *config);
int32_t sw_config_diagnostic_count(const struct sw_config *config); /* errors and notes */
const struct sw_diagnostic *sw_config_diagnostic(const struct sw_config *config, int32_t i);
/* The description, or NULL if it is of another kind or has errors. */
const struct sw_model_config *sw_config_model(const struct sw_config *config);
const struct sw_accelerator_config *sw_config_accelerator(const struct sw_config *config);
/* With `profile: auto`, has the profile measured for the cluster, else the default. */
const struct sw_cluster_config *sw_config_cluster(const struct sw_config *config);
const struct sw_profile_config *sw_config_profile(const struct sw_config *config);
const struct sw_curve *sw_config_curve(const struct sw_config *config);
const struct sw_fabric_config *sw_config_fabric(const struct sw_config *config);
const struct sw_run_config *sw_config_run(const struct sw_config *config);
const struct sw_plan_config *sw_config_plan(const struct sw_config *config);
/* Position of a plan's digest, also with errors; file NULL: none. */
struct sw_place sw_config_digest_place(const struct sw_config *config);

/* Writes the JSON Schema of that kind (draft 2020-12), from the field tables. */
void sw_config_schema(FILE *out, enum sw_config_kind kind, const struct sw_launchers *launchers);
/* Writes the tables as a page of Markdown. Returns -1, nothing written, for a kind without a
 * table. */
int sw_config_reference(FILE *out, enum sw_config_kind kind, const struct sw_launchers *launchers);

/* Writes the run as one self-contained YAML block without comments (every default spelled out,
 * model, cluster, accelerator and profile inline, paths as the run has them), each line indented by
 * `indent` spaces. Reading it back gives the same description. Plan files contain this. Doubles
 * print with the shortest digits that read back equal. */
void sw_run_config_write(FILE *out, const struct sw_run_config *run, int32_t indent);

/* Calls visit for every setting that sw_run_config_write writes, in its order: "PREFIX.key.key"
 * (prefix may be "") and the value without quotes; a value with other than printable ASCII is in
 * double quotes with escapes. A list's entry is named: "cluster.links.nvlink.bandwidth". Both texts
 * live until visit returns. */
void sw_run_config_visit(const struct sw_run_config *run, const char *prefix,
                         sw_config_visitor visit, void *context);

/* The same two calls for a plan, without its schema and digest; the run's settings are "run.*". */
void sw_plan_config_write(FILE *out, const struct sw_plan_config *plan);
void sw_plan_config_visit(const struct sw_plan_config *plan, sw_config_visitor visit,
                          void *context);

#endif
