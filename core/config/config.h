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

/* How Qwen's config.json says which layers have a window. In a read description
 * shape.sliding_window alone counts, and the rest is what a plan has to write beside it. */
enum sw_layer_types { SW_LAYERS_NOT_TOLD, SW_LAYERS_FULL, SW_LAYERS_WINDOWED };
enum { SW_MAX_WINDOW_LAYERS = 28 }; /* the default */

struct sw_model_config {
    const char *path; /* file it came from */
    struct sw_model shape;
    enum sw_layer_types layer_types;
    const char *layer_kinds;        /* a letter for each layer: 'w' with a window, 'f'; or NULL */
    int32_t sliding_window_pattern; /* Gemma 3: each so manieth layer has no window; 0: not told */
    int hidden_activation;          /* word of the MLP's activation, as Gemma calls the key */
    int hidden_act;                 /* the same, as others call it */
    int64_t original_positions; /* original_max_position_embeddings beside rope_scaling; 0: none */
    int32_t max_window_layers;
    bool use_sliding_window;
};

/* What Hugging Face calls a family's class, by enum sw_family, then NULL; and keys of config.json
 * that not every class reads. */
extern const char *const sw_family_architectures[], *const sw_family_model_types[];
enum sw_family_key {
    SW_READS_ATTENTION_BIAS = 1, /* of q, k, v and of the output */
    SW_READS_MLP_BIAS = 2,
    SW_READS_WINDOW = 4,
    SW_READS_WINDOW_SWITCH = 8,  /* use_sliding_window, max_window_layers, layer_types */
    SW_READS_MULTIPLIERS = 16,   /* of embeddings, attention, residuals; the divisor of logits */
    SW_READS_LOCAL_LAYERS = 32,  /* layer_types, and some layers have a window without it */
    SW_READS_LAYER_PATTERN = 64, /* sliding_window_pattern */
    SW_READS_LOCAL_ROPE = 128,   /* rope_local_base_freq, rope_parameters of each kind of layers */
    SW_READS_QUERY_SCALAR = 256, /* query_pre_attn_scalar; hidden_activation for hidden_act */
    SW_READS_SOFTCAPS = 512,     /* attn_logit_softcapping, final_logit_softcapping */
    SW_READS_PARTIAL_ROTATION = 1024
};
bool sw_family_reads(uint8_t family, enum sw_family_key key);

/* original_max_position_embeddings of Phi-3's class, where its file has none. */
enum { SW_PHI3_ORIGINAL_POSITIONS = 4096 };
const char *sw_rope_type_name(const struct sw_rope *rope); /* "longrope" */
/* Factor of cos and sin where longrope's attention_factor is not told; original is at least 2 (Ding
 * et al. 2024, as transformers has it). */
double sw_longrope_attention_factor(double factor, int64_t original);

/* Whether a text may be a `name`: 1 to 64 letters, digits, '.', '_' or '-', the first no '.' or
 * '-'.
 */
bool sw_text_is_name(const char *text);

/* One measured point of an efficiency curve: fraction of peak (0..1] at a size (flops or bytes).
 * Of products_scale at most SW_MAX_PRODUCTS_SCALE. */
struct sw_curve_point {
    double size, fraction;
};
struct sw_curve {
    int32_t count;                             /* 0: not measured, the default efficiency is used */
    struct sw_curve_point point[SW_MAX_CURVE]; /* ascending size */
};

/* Curves of single collectives over so many ranks, by bytes over a port as a link's. Of one
 * collective ranks ascend; those of another number have a curve between its neighbours', more than
 * any those of the most, and fewer than any the link's own. */
enum { SW_MAX_COLLECTIVE_CURVES = 16 };
struct sw_collective_curves {
    int32_t count;
    struct sw_collective_curve {
        enum sw_collective kind;
        int32_t ranks;
        struct sw_curve curve;
    } of[SW_MAX_COLLECTIVE_CURVES];
};

/* Mean of measured / predicted - 1. 0 may be told, too: then nothing is off to one side. */
struct sw_signed_error {
    double mean;
    struct sw_place at; /* where it stands; file NULL: it is not told */
};

/* A file of one, and of single collectives (NULL: none). */
struct sw_curve_file {
    struct sw_curve curve;
    const struct sw_collective_curves *collectives;
    /* Of measurements that it was not fitted to: mean |error|, 0: not told, and beside it the
     * signed one. */
    double error;
    struct sw_signed_error signed_error;
    double collectives_error;
    struct sw_signed_error collectives_signed_error;
    double launch_s, latency_s; /* beside which the points were fitted; 0: not told */
    struct {
        struct sw_place points, collectives;
    } at;
};

/* How fast decoding reads: what bytes per second products of few rows take of their weights, and
 * attention of its cache, where each weight or key meets that many rows or query heads; in a
 * program that reads `bytes` in all before it reads the same again, so that they may still be in a
 * cache. */
struct sw_skinny_gemm_point {
    double rows, bytes, bandwidth;
};
struct sw_skinny_gemm {
    int32_t count;                                         /* 0: not measured */
    struct sw_skinny_gemm_point point[SW_MAX_SKINNY_GEMM]; /* rows ascending; of the same, bytes */
};

/* Products [rows, k] x [k, n] and [rows, k] x [n, k]^T, whose weights lie otherwise; attention to a
 * cache. Of weights or cache in fp32 and in bf16. */
enum sw_skinny_kind { SW_SKINNY_LINEAR, SW_SKINNY_LINEAR_T, SW_SKINNY_ATTENTION, SW_SKINNY_KINDS };
enum sw_rate_dtype { SW_RATE_FP32, SW_RATE_BF16, SW_RATE_DTYPES };

/* What products [rows, depth] x [depth, columns] reach, on a grid of measured sizes: shares of the
 * least time that peak and memory bandwidth allow, max(2 rows columns depth / peak, e (rows depth +
 * depth columns + rows columns) / bandwidth), where e are the bytes of an element. */
enum { SW_MAX_PRODUCT_ROWS = 16, SW_MAX_PRODUCT_SIDES = 8 };
enum { SW_MAX_PRODUCTS_SCALE = 100 }; /* and of products_error */
struct sw_products {
    int32_t rows, columns, depths; /* of the grid, each > 1; of attention one head size may do */
    double row[SW_MAX_PRODUCT_ROWS], column[SW_MAX_PRODUCT_SIDES],
        depth[SW_MAX_PRODUCT_SIDES]; /* ascending */
    double share[SW_MAX_PRODUCT_ROWS * SW_MAX_PRODUCT_SIDES *
                 SW_MAX_PRODUCT_SIDES]; /* [rows][columns][depths] */
    /* Share of the peak that products without end would reach: what those of 2^37 FLOP and more (or
     * the last) reach, over the 0.94 that tiles and depths leave of such. Means what a profile's
     * `matmul` means. */
    double asymptote;
};

/* The same of attention, whose shares are of the peak alone: by heads, or query heads of all
 * sequences of a call, length and head size, of a causal sequence and of its gradient; by queries
 * of a text, positions of its cache that a query meets in the mean, and head size, of what has a
 * cache (a single query decodes). Rows, columns and depths of the grid in this order. */
enum sw_attention_phase {
    SW_ATTENTION_FORWARD,
    SW_ATTENTION_BACKWARD,
    SW_ATTENTION_CACHED,
    SW_ATTENTION_PHASES
};

/* What software reaches on a chip, as shares of what the chip's data sheet says, and how far prices
 * that rest on it have been off: constants belong to software on a chip, not to a chip. */
struct sw_profile_config {
    const char *path; /* file it came from; NULL: the declared default */
    const char *name; /* of the software: "llm-foundry-2023"; in a settled cluster never NULL */
    const char *accelerator; /* the chip's name; NULL: whichever the cluster has */
    struct sw_curve matmul, attention, memory; /* shares of peak, of peak, of memory bandwidth */
    struct sw_curve attention_backward; /* of attention's gradient; count 0: as `attention` */
    struct sw_skinny_gemm skinny_gemm[SW_SKINNY_KINDS][SW_RATE_DTYPES];
    /* Its own, by how operands lie (enum sw_product_kind) and enum sw_rate_dtype. NULL: in bf16 the
     * accelerator's, where it has some, else `matmul` alone. */
    const struct sw_products *products[SW_PRODUCT_KINDS][SW_RATE_DTYPES];
    /* Of what these say, what they reach in a step that moves so many bytes before it comes to the
     * same weights again, so that caches may hold them; count 0: as much as `matmul` of their
     * asymptote. */
    struct sw_curve products_scale;
    /* Of prices by them of products in such steps that are none of their points: median |error|, 0:
     * not told, and the signed one. */
    double products_error;
    struct sw_signed_error products_signed_error;
    /* NULL: what `attention` and `attention_backward` say. */
    const struct sw_products *attention_by_size[SW_ATTENTION_PHASES][SW_RATE_DTYPES];
    struct sw_curve attention_scale; /* as products_scale; count 0: all of it */
    double attention_error;          /* as products_error */
    struct sw_signed_error attention_signed_error;
    double launch_latency_s; /* that every op adds on the device */
    double angle_time_s;     /* that rope adds for each position and pair of elements */
    double host_time_s; /* from one op's issue to the next one's, which the device cannot outrun */
    /* What the shares are of, where that is not the data sheet; 0: the accelerator's. */
    double peak_bf16_flops, peak_fp32_flops, memory_bandwidth;
    /* Of products with weights of 8 bits where the software multiplies in 8 bits; 0: it widens
     * them, as the runner does. */
    double peak_int8_flops;
    /* Sums inside a node are not made in rings: every rank reads its part of all others at once and
     * hands it out. */
    bool reduces_directly;
    /* How often a weight's whole gradient is copied in memory before ranks that split the weight
     * sum it, as software does that joins those of several weights first. */
    int32_t gradient_copies;
    bool joins_products; /* products of the same rows, q, k and v, are made as one */
    int32_t runs;        /* that they were fitted to; 0: not told */
    /* Of runs that were left out: mean |error|, 0: not told, and the signed one, above 0 where they
     * took longer than predicted. */
    double error;
    struct sw_signed_error signed_error;
    double band_low, band_high; /* measured / predicted time, 10th and 90th percentile */
    const char *source;         /* what the shares rest on; NULL: not told */
    bool assumed; /* one of the defaults, made by profile.c or written by it and unchanged; a told
                     launch_latency_s aside */
    struct {
        struct sw_place matmul, attention, attention_backward, memory,
            skinny_gemm[SW_SKINNY_KINDS][SW_RATE_DTYPES], products_scale, attention_scale,
            launch_latency, angle_time, host_time, peak_bf16, peak_fp32, peak_int8,
            memory_bandwidth, band, direct_reductions, joined_products, products, attention_by_size;
    } at; /* where each constant stands; file NULL: nowhere, it is the default */
};

/* What the data sheet says. */
struct sw_accelerator_config {
    const char *path, *name;
    const char *siblings; /* names of others of its design, with commas; NULL: none are told */
    enum sw_device_kind device;
    bool planning_only; /* the runner has no device for it; `device` is then the nearest in price */
    const struct sw_device_prices *prices; /* in place of the device's own, to ask what each is
                                              worth; NULL: those */
    int64_t memory_bytes, reserved_memory_bytes; /* reserved default 0 */
    double peak_bf16_flops, peak_fp32_flops;     /* FLOP/s; bf16 default: fp32's */
    double peak_int8_flops;                      /* of products of 8 bits; 0: not told */
    double memory_bandwidth;                     /* bytes/s */
    double power_watts;                          /* at full load; 0: not told */
    int32_t compute_units; /* that share the tiles of a matmul: SMs, CUs; 0: not told */
    /* What its own libraries reach in bf16, of which a profile says how much; NULL: not told. */
    const struct sw_products *products;
    /* Shares of the bf16 peak where no such grid tells; 0: not told. That of the best product that
     * was measured on it, and that of large ones of usual training software. */
    double best_product, training_product;
    const char *product_source; /* what these rest on; NULL: not told */
    /* Attention over a cache in bf16; NULL: not told. Of a prompt's tokens over their own cache, by
     * query heads of all sequences, tokens, head size: shares of the peak of 2 heads tokens^2 head
     * size operations (the causal half), keys and values written apart. Of one token a sequence, by
     * kv heads of all sequences, positions, head size: shares of the memory bandwidth that reading
     * keys and values takes. */
    const struct sw_products *prefill_attention, *decode_attention;
    /* Median |error| of prices by these grids of measured sizes that are none of their points, 0:
     * not told, and the signed one. */
    double products_error;
    struct sw_signed_error products_signed_error;
    double prefill_error;
    struct sw_signed_error prefill_signed_error;
    double decode_error;
    struct sw_signed_error decode_signed_error;
    struct {
        struct sw_place peak_bf16, peak_fp32, memory_bandwidth, products, prefill, decode,
            planning_only, best_product, training_product;
    } at; /* as in a profile */
    /* What files older than profiles hold beside it; a cluster without a profile takes it. */
    struct sw_profile_config older;
};

struct sw_cluster_config;

/* Share of the bf16 peak that products without end reach on it at best, as far as its file tells:
 * the grid's asymptote, or that of its best product; 0: nothing is told. */
double sw_accelerator_best_share(const struct sw_accelerator_config *a);
const struct sw_device_prices *sw_accelerator_prices(const struct sw_accelerator_config *a);
/* Seconds of so many messages beyond the first of their calls, by who carries them. */
double sw_accelerator_message_seconds(const struct sw_accelerator_config *a,
                                      const double messages[SW_CARRIER_COUNT]);

/* What is assumed where nobody measured the software: the same shares for every chip of a kind of
 * device, and of matrix products the same share of what the chip's own libraries reach, where those
 * were measured. */
struct sw_profile_config sw_profile_default(const struct sw_accelerator_config *accelerator);
/* Whether the profile is one of the defaults, unchanged but for a launch's latency. */
bool sw_profile_is_default(const struct sw_profile_config *profile);
/* True if its `attention` is the default's of training. */
bool sw_profile_assumes_attention(const struct sw_profile_config *profile,
                                  const struct sw_accelerator_config *accelerator);
/* Whether it is the default of serving: servers of models, not the runner. */
bool sw_profile_is_of_servers(const struct sw_profile_config *profile);
/* Of whose time that is, for whoever reads a price by it; else "". */
const char *sw_profile_note(const struct sw_profile_config *profile);
/* A cluster that is priced with one default takes the other: that of servers of models for prices
 * of serving, where its device has one, and back. A launch's latency that somebody told stays. Once
 * done, nothing; of a profile that is no default, nothing. */
void sw_profile_for_serving(struct sw_cluster_config *cluster);
void sw_profile_for_training(struct sw_cluster_config *cluster);

struct sw_link_config {
    const char *name;
    int32_t spans;              /* accelerators in one domain, ascending, the last >= the cluster */
    bool spans_all;             /* written as 'all': follows the size of the cluster */
    double bandwidth;           /* bytes/s, one direction, per accelerator */
    double bandwidth_per_node;  /* while it is read: bandwidth follows from it, and it is 0 */
    double launch_s;            /* of a collective, once, however many steps it takes */
    double latency_s;           /* of each of its steps */
    struct sw_curve efficiency; /* share of bandwidth by bytes over a port; count 0: default */
    const struct sw_collective_curves *collectives; /* measured apart; NULL: none */
    const char *efficiency_path; /* file that it came from; NULL: written in its place */
    /* Of that file; of launch and latency where they are those that its points were fitted beside,
     * so that its errors are theirs, too. 0: not told; behind each the signed one. */
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
    } at;                    /* as in a profile */
    double oversubscription; /* >= 1: bandwidth is divided by it where all talk at once */
    bool rails;  /* every accelerator has its own port; else those of a domain share all of them */
    bool direct; /* collectives send blocks as runner/collective/direct.h; else in rings */
};

/* Texts in their order. */
struct sw_texts {
    const char *const *item;
    int32_t count;
};
/* A path as it is resolved, written from the root on or not, and where it stands. */
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
/* Variables of the environment, each name once, in the order in which they were first set. */
struct sw_variable {
    const char *name, *value;
};
struct sw_environment {
    const struct sw_variable *item;
    int32_t count;
};

/* What a kind of network wants its libraries told. */
struct sw_fabric_config {
    const char *path, *name; /* NULL: no fabric is named */
    struct sw_environment environment;
};

/* What starts a rank inside an image: pyxis is an option of what starts ranks, the others are
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
    const char *runner;     /* path in the image; NULL: the node's own, mounted */
    struct sw_texts mounts; /* "/from:/to" or "/from:/to:flags" */
    struct sw_texts options;
};

/* Requests that a cluster's scheduler takes about where nodes of a job lie; all 0: none. */
struct sw_placement_config {
    int32_t group; /* accelerators of a block, or under a leaf switch */
    bool segments; /* true if the job's nodes can be asked for in segments, each in one group */
    bool groups;   /* true if the number of groups that a job is spread over can be asked for */
    int32_t asked; /* accelerators of the segments that the settings ask for; 0: none */
};

struct sw_cluster_config {
    const char *path, *name;
    int32_t nodes, accelerators_per_node;
    struct sw_accelerator_config accelerator;
    struct sw_profile_config profile; /* what prices rest on */
    int64_t host_memory_bytes;        /* of a node; 0: not told */
    int32_t link_count;
    struct sw_link_config
        link[SW_MAX_LINKS]; /* innermost first; none needed when one accelerator */
    /* Written as 'all' and left out of link[], since there are too few nodes for it to join
     * anything more than the link inside it; name NULL: none. */
    struct sw_link_config beyond;
    double storage_bandwidth;           /* bytes/s that the whole job writes; 0: not told */
    double failures_per_1000_node_days; /* 0: nothing ever fails; default 3.8 */
    double start_s;   /* of an attempt, until its first step; 0: what is assumed of its device */
    double restart_s; /* from a failure to the next attempt's start, accelerators held */
    double queue_s;   /* from the end of a job to the start of the next, none held */
    double price_per_hour;                /* of one accelerator, in `currency`; 0: not told */
    const char *currency;                 /* NULL: USD */
    int32_t launcher;                     /* its row of the list */
    const struct sw_launchers *launchers; /* that it was read with; NULL: none */
    struct sw_launcher_settings settings; /* the run's overrides are applied in sw_run_config */
    struct sw_placement_config placement; /* what follows from them */
};

/* The same cluster with so many nodes: links that span all of them follow, and those that then join
 * nothing more than the one inside them are gone, as where a file is read. */
void sw_cluster_resize(struct sw_cluster_config *cluster, int32_t nodes);

/* What is in the file that data.path names; auto: by its name. */
enum sw_data_format { SW_DATA_AUTO, SW_DATA_BYTES };
/* In the order of sw_prefer_words. */
enum sw_prefer {
    SW_PREFER_FSDP, /* the largest fsdp within a margin of the fastest */
    SW_PREFER_FSDP_STRICT,
    SW_PREFER_TIME,
    SW_PREFER_COST /* of numbers of nodes the cheapest; on one number as SW_PREFER_TIME */
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
/* Answer to a loss or gradient norm far above those of the steps before. */
enum sw_on_spike { SW_SPIKE_NONE, SW_SPIKE_STOP, SW_SPIKE_SKIP, SW_SPIKE_REWIND };

struct sw_optimizer_config {
    double learning_rate, beta1, beta2, eps, weight_decay, grad_clip; /* grad_clip 0: off */
    enum sw_lr_schedule schedule;
    int64_t warmup_steps, total_steps;
    int64_t decay_steps; /* of wsd, at the end of total_steps; 0: a tenth of them */
    double min_learning_rate;
    const char *no_decay; /* patterns of parameters' names, with commas; NULL: what is declared */
    struct sw_place no_decay_place;
    enum sw_dtype moments; /* SW_F32, SW_BF16_T; SW_CODES: int8 in blocks */
    enum sw_on_spike on_spike;
    double spike_threshold;         /* standard deviations above the mean */
    int64_t spike_window;           /* steps that both are of */
    int64_t max_skips, max_rewinds; /* skips: in a row */
};

struct sw_rule_config {  /* one override of the logical axis -> mesh axes table */
    const char *logical; /* checked by core/ir, place kept for the message */
    int32_t count;
    const char *axis[4]; /* checked to be dp, fsdp, tp, sp, each at most once */
    struct sw_place place;
};

/* What `plan emit` writes a script for. */
enum sw_job_type { SW_JOB_TRAIN, SW_JOB_GENERATE, SW_JOB_SCORE, SW_JOB_SERVE };
const char *sw_job_type_name(enum sw_job_type type); /* "train", "generate" ... */
struct sw_job_config {
    enum sw_job_type type;
    /* resolved; checkpoint NULL: that of the run; the others NULL: not given */
    const char *checkpoint, *input, *output, *token_file;
    const char *host;        /* that serving listens on */
    int32_t port;            /* 0: auto, one of the job's own */
    int32_t shards, at_once; /* tasks of an array; of them, at a time; 0: all */
    struct sw_place place;   /* of the section */
    struct sw_place checkpoint_place, input_place, token_place; /* or of the run */
};

/* Whether weights stay split over fsdp while texts are made; auto: where they do not fit else. */
enum sw_stream_weights { SW_STREAM_AUTO, SW_STREAM_NEVER, SW_STREAM_ALWAYS };

/* A name as a file has it. */
struct sw_name_config {
    const char *name;
    struct sw_place place;
};
/* Values of a layer by name: which of them the model's program has, core/plan finds. */
struct sw_values_config {
    const struct sw_name_config *of; /* [count] */
    int32_t count;
    bool all; /* whatever there is; count 0 */
};
/* What is made again, as it is written: nothing as {0}. */
struct sw_recompute_config {
    struct sw_values_config values, rest; /* in the first layers; in the others */
    int32_t layers;                       /* the first; SW_ALL_LAYERS */
    bool before_attention; /* an old word: `values` are all that a layer makes before attention */
};

/* Adapters, as a run writes them (core/base/lora.h). */
struct sw_lora_config {
    int32_t rank; /* 0: none */
    bool rslora;
    double alpha;
    const char *targets; /* names with commas between them; NULL: q_proj and v_proj */
    enum sw_dtype base;  /* of the frozen matrices; SW_DTYPE_COUNT: auto, the compute precision */
    int32_t rank_of[SW_LORA_TARGETS]; /* instead of `rank`, `alpha`; 0: these */
    double alpha_of[SW_LORA_TARGETS];
};

/* Part of a run with `stages`, as the run of that part has it. */
struct sw_stage_config {
    const char *name;       /* NULL: the run is no part of another */
    int32_t number, count;  /* from 1, of so many; 0: not told */
    const char *from;       /* folder of the run before, or of its checkpoints; NULL: none */
    bool continue_schedule; /* step count and data position go on from there */
    int64_t steps_before;   /* that it counts from; 0 without continue_schedule */
    bool from_is_absolute;
    struct sw_place place; /* of the stage in the run file */
};

struct sw_run_config {
    const char *path, *name;
    struct sw_stage_config stage;
    struct sw_model_config model;
    struct sw_cluster_config cluster; /* settings: overrides applied */
    int64_t sequence_length, global_batch_size;
    const char *nodes;               /* "3-4": numbers of nodes that the run may have; NULL: all */
    int32_t nodes_least, nodes_most; /* of it; cluster.nodes is the most */
    int32_t cluster_nodes;           /* of the cluster's file */
    const char *mesh_dim;            /* text, parsed by core/sharding; default "auto" */
    struct sw_place mesh_dim_place, batch_place, sequence_place, freeze_place, lora_place;
    /* of data.path, init.from and init.adapter, else of the run */
    struct sw_place data_place, init_place, adapter_place;
    struct sw_place
        time_place; /* of the job's time limit, the run's or the cluster's; file NULL: nowhere */
    bool time_is_ceiling; /* it is the cluster's: a job asks for less where it is done */
    bool says_steps;      /* optimizer.total_steps stands in the run: its time can be told */
    enum sw_prefer prefer;
    double prefer_within;     /* share of the fastest step that SW_PREFER_FSDP may take longer */
    double memory_headroom;   /* share of the accelerator's memory that a chosen plan leaves free */
    int64_t micro_batch_size; /* 0: auto */
    bool recompute_auto;      /* default; then `recompute` is none */
    struct sw_recompute_config recompute; /* sw_plan_recompute */
    const char *freeze; /* patterns of parameters' names, with commas; NULL: all are trained */
    struct sw_lora_config lora;
    enum sw_dtype compute, params, reduce, ring; /* defaults bf16, fp32, fp32, fp32 */
    bool keep_copy;                              /* of weights, as products take them */
    enum sw_zero zero;                           /* default 3 */
    bool reshard_after_forward;                  /* default true */
    enum sw_attention_strategy strategy;
    enum sw_sequence_layout layout;
    int32_t rule_count;
    struct sw_rule_config rule[SW_MAX_RULES];
    struct sw_optimizer_config optimizer;
    /* Files to train on, or patterns of them (data_file.h), resolved against the file that names
     * them. data_path is the first; NULL: no data */
    struct sw_paths data_paths;
    const char *data_path;
    struct sw_numbers data_weights;  /* one for each of data_paths, or none */
    struct sw_paths data_validation; /* files to evaluate; none: data_holdout */
    bool data_pack;                  /* rows are whole documents */
    enum sw_data_format data_format;
    uint64_t data_seed;
    int64_t data_document_end; /* token behind which another document begins; -1: none */
    double data_holdout;       /* fraction of the file's tail kept for evaluation; default 0 */
    const char *directory;     /* resolved; default runs/NAME beside the run file */
    const char *checkpoint_directory; /* resolved; default checkpoints inside directory */
    /* Written from the root on ('/data/x'), where a resolved path may have become so: a plan keeps
     * the one as it is and writes the other as seen from its folder. */
    bool directory_is_absolute, checkpoint_directory_is_absolute, init_from_is_absolute,
        init_adapter_is_absolute;
    /* 0: at the end and on signals only; -1: auto, decided where a plan is written (default) */
    int64_t checkpoint_every_steps;
    int64_t checkpoint_keep; /* the newest that stay */
    int64_t
        checkpoint_keep_every;    /* and the first at or behind each multiple; 0: none; default 0 */
    double checkpoint_bandwidth;  /* bytes/s of the whole job; 0: not limited; default 0 */
    int checkpoint_signal;        /* SIGUSR1 or SIGUSR2; default SIGUSR1 */
    const char *init_from;        /* Hugging Face directory, resolved; NULL: random weights */
    const char *init_adapter;     /* folder of adapters, resolved; NULL: new ones */
    int64_t evaluate_every_steps; /* 0: at the end only; default 0 */
    /* What the run wants of serving; 0: auto. All of it auto: it says nothing of it. */
    int64_t serve_max_batch, serve_max_tokens, serve_prompt_tokens, serve_chunk, serve_token_budget;
    enum sw_dtype serve_cache;   /* SW_DTYPE_COUNT: auto, the compute precision */
    enum sw_dtype serve_weights; /* the same, or one with scales */
    enum sw_stream_weights serve_stream_weights;
    double serve_token_latency, serve_first_token_latency; /* goals, s; 0: none */
    struct sw_job_config job; /* no part of a plan: its script has it */
};

/* The same run for exactly so many nodes, as `nodes` in its file and, above those of its cluster,
 * cluster.nodes say. */
void sw_run_config_resize(struct sw_run_config *run, int32_t nodes);
/* True if of the meshes of one number of nodes the fastest is best, whatever its fsdp. */
bool sw_run_config_prefers_time(const struct sw_run_config *run);

/* The files that a plan was written from. */
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
    int64_t memory_total, arena_bytes; /* per accelerator; total includes reserved */
    double save_seconds;               /* from the step to a checkpoint that is safe; 0: not told */
};

enum sw_residual_choice { SW_RESIDUAL_SP, SW_RESIDUAL_SP_TP };
enum sw_weights_choice { SW_WEIGHTS_RULES, SW_WEIGHTS_FSDP };

/* A plan file as it is written; core/plan gives it its meaning. */
struct sw_plan_config {
    uint64_t digest;                   /* of the text; core/plan verifies it */
    const char *mesh_dim, *axis_order; /* "dp,fsdp,tp,sp" sizes; axes, the outermost first */
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
    uint64_t program[SW_PROGRAM_KINDS]; /* their digests */
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

/* "key.path=value" overrides of a run file (--set); the place of a mistake is "--set", 1, column.
 */
struct sw_override {
    const char *text;
};

/* Reads a file of that kind (SW_CONFIG_UNKNOWN: guessed from its keys), following references to
 * other files. launchers: launcher.h. A path is relative to the file that names it; after --set to
 * the working directory. Overrides of a plan are those of its run. Returns NULL only when memory
 * runs out (err filled); otherwise an object to ask sw_config_error_count of. */
struct sw_config *sw_config_read(const char *path, enum sw_config_kind kind,
                                 const struct sw_launchers *launchers,
                                 const struct sw_override *overrides, int32_t override_count,
                                 struct sw_error *err);
/* The same from memory; `name` stands for the file, relative paths resolve against its directory.
 */
struct sw_config *sw_config_read_text(const char *name, const char *text, size_t text_bytes,
                                      enum sw_config_kind kind,
                                      const struct sw_launchers *launchers,
                                      const struct sw_override *overrides, int32_t override_count,
                                      struct sw_error *err);
void sw_config_free(struct sw_config *config);

/* Stages of a run file; 0: it has none. */
int32_t sw_config_stage_count(const struct sw_config *config);
/* The run of stage i, from 0, with that stage's keys in place of the run's, in folders of its own;
 * that of the first is sw_config_run. NULL: there are errors, or no such stage. */
const struct sw_run_config *sw_config_stage(const struct sw_config *config, int32_t i);

/* Puts the folders of the stages into this one, but for those of checkpoints elsewhere. */
void sw_config_move_stages(struct sw_config *config, const char *folder);

/* Steps that the run itself does: of a stage that continues, those behind the stage before. */
int64_t sw_run_steps(const struct sw_run_config *run);

/* Makes the run's data_path, directory, checkpoint_directory, init_from, init_adapter and
 * stage.from absolute, of all stages: what is written for another working directory (a job script)
 * needs that. Nothing happens when there is no run or there are errors. Errors (SW_ENVIRONMENT):
 * the working directory cannot be named, no memory. */
int sw_config_make_paths_absolute(struct sw_config *config, struct sw_error *err);

enum sw_config_kind sw_config_get_kind(const struct sw_config *config);
/* Whether the file itself could be read and parsed, whatever it describes. */
bool sw_config_is_yaml(const struct sw_config *config);
int32_t sw_config_error_count(const struct sw_config *config);
int32_t sw_config_diagnostic_count(const struct sw_config *config); /* errors and notes */
const struct sw_diagnostic *sw_config_diagnostic(const struct sw_config *config, int32_t i);
/* Description of the right kind, or NULL when of another kind or when there are errors. */
const struct sw_model_config *sw_config_model(const struct sw_config *config);
const struct sw_accelerator_config *sw_config_accelerator(const struct sw_config *config);
/* With `profile: auto` the one measured for it, else what is assumed. */
const struct sw_cluster_config *sw_config_cluster(const struct sw_config *config);
const struct sw_profile_config *sw_config_profile(const struct sw_config *config);
const struct sw_curve *sw_config_curve(const struct sw_config *config);
const struct sw_fabric_config *sw_config_fabric(const struct sw_config *config);
const struct sw_run_config *sw_config_run(const struct sw_config *config);
const struct sw_plan_config *sw_config_plan(const struct sw_config *config);
/* Where the digest of a plan stands, also when there are errors; file NULL: nowhere. */
struct sw_place sw_config_digest_place(const struct sw_config *config);

/* JSON Schema of that kind (draft 2020-12) to out, from the same field tables. */
void sw_config_schema(FILE *out, enum sw_config_kind kind, const struct sw_launchers *launchers);
/* The same tables as a page of Markdown. Returns -1, nothing written, for a kind without a table.
 */
int sw_config_reference(FILE *out, enum sw_config_kind kind, const struct sw_launchers *launchers);

/* Writes the run as one self-contained, commented-free YAML block (every default spelled out,
 * model, cluster, accelerator and profile inline, paths as the run has them), each line indented by
 * `indent` spaces. Reading it back gives the same description. The plan file embeds this. Doubles
 * print with the shortest digits that read back equal. */
void sw_run_config_write(FILE *out, const struct sw_run_config *run, int32_t indent);

/* Calls visit for every setting that sw_run_config_write writes, in its order: "PREFIX.key.key"
 * (prefix may be "") and the value without quotes; one with other than printable ASCII stands in
 * double quotes with escapes. An entry of a list is called by its name:
 * "cluster.links.nvlink.bandwidth". Both texts live until visit returns. */
void sw_run_config_visit(const struct sw_run_config *run, const char *prefix,
                         sw_config_visitor visit, void *context);

/* The same two for a plan, without its schema and digest; the run's settings are "run.*". */
void sw_plan_config_write(FILE *out, const struct sw_plan_config *plan);
void sw_plan_config_visit(const struct sw_plan_config *plan, sw_config_visitor visit,
                          void *context);

#endif
