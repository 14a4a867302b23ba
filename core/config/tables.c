/* The keys of every file: one row each. Parsing, defaults, did-you-mean, JSON Schema come from
 * here. */
#include "core/config/internal.h"

#include <stddef.h>
#include <string.h>

static const char *const silu_words[] = {"silu", NULL};
static const char *const span_words[] = {"node", "all", NULL}; /* as SW_SPANS_NODE, SW_SPANS_ALL */

#define AT(member) .offset = offsetof(struct sw_model_config, shape.member)
const struct field sw_model_fields[] = {
    {.key = "architectures",
     .type = FIELD_CUSTOM,
     .offset = 0,
     .words = sw_family_architectures,
     .custom = &sw_type_architectures,
     .example = "[LlamaForCausalLM]",
     .about = "kind of model; default: LlamaForCausalLM"},
    {.key = "model_type",
     .type = FIELD_CUSTOM,
     .offset = FIELD_NOWHERE,
     .words = sw_family_model_types,
     .custom = &sw_type_model_type,
     .example = "llama",
     .about = "kind of model, as in config.json; default: what architectures says"},
    {.key = "vocab_size",
     .type = FIELD_INTEGER64,
     AT(vocab_size),
     .required = true,
     .min = 2,
     .max = 1 << 30,
     .example = "32000",
     .about = "number of tokens in the vocabulary"},
    {.key = "hidden_size",
     .type = FIELD_INTEGER64,
     AT(hidden_size),
     .required = true,
     .min = 1,
     .max = 1 << 24,
     .example = "4096",
     .about = "width of the residual stream, in elements"},
    {.key = "intermediate_size",
     .type = FIELD_INTEGER64,
     AT(intermediate_size),
     .required = true,
     .min = 1,
     .max = 1 << 26,
     .example = "11008",
     .about = "width of the MLP, in elements"},
    {.key = "num_hidden_layers",
     .type = FIELD_INTEGER32,
     AT(layers),
     .required = true,
     .min = 1,
     .max = 10000,
     .example = "32",
     .about = "number of layers"},
    {.key = "num_attention_heads",
     .type = FIELD_INTEGER32,
     AT(heads),
     .required = true,
     .min = 1,
     .max = 65536,
     .example = "32",
     .about = "number of query heads of a layer"},
    {.key = "num_key_value_heads",
     .type = FIELD_INTEGER32,
     AT(kv_heads),
     .min = 1,
     .max = 65536,
     .example = "8",
     .about = "number of key and value heads of a layer; default, of Llama only: "
              "num_attention_heads"},
    {.key = "head_dim",
     .type = FIELD_INTEGER32,
     AT(head_dim),
     .min = 2,
     .max = 65536,
     .example = "128",
     .about = "width of a head, in elements, even; default, not of Qwen3: hidden_size / "
              "num_attention_heads"},
    {.key = "max_position_embeddings",
     .type = FIELD_INTEGER64,
     AT(max_position_embeddings),
     .fallback = "2048",
     .min = 1,
     .max = SW_MANY,
     .example = "4096",
     .about = "longest sequence that the model was made for, in tokens"},
    {.key = "rope_theta",
     .type = FIELD_REAL,
     AT(rope.theta),
     .fallback = "10000",
     .min = 0,
     .above_min = true,
     .max = SW_BIG,
     .example = "10000.0",
     .about = "base of the rotary angles"},
    {.key = "rope_parameters",
     .type = FIELD_CUSTOM,
     .offset = 0,
     .custom = &sw_type_rope_parameters,
     .fields = sw_rope_fields,
     .example = "{rope_type: default, rope_theta: 10000.0}",
     .about = "newer spelling of rope_theta and rope_scaling"},
    {.key = "rope_scaling",
     .type = FIELD_CUSTOM,
     .offset = 0,
     .custom = &sw_type_rope_scaling,
     .fields = sw_rope_fields + 1,
     .example = "{rope_type: llama3, factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, "
                "original_max_position_embeddings: 8192}",
     .about = "how the rotary angles are stretched beyond the original length"},
    {.key = "sliding_window",
     .type = FIELD_INTEGER64,
     AT(sliding_window),
     .brief = true,
     .min = 1,
     .max = SW_MANY,
     .example = "4096",
     .about =
         "tokens that attention looks back over (Mistral, Qwen); default, not of Mistral: all"},
    {.key = "use_sliding_window",
     .type = FIELD_BOOL,
     .offset = offsetof(struct sw_model_config, use_sliding_window),
     .fallback = "false",
     .brief = true,
     .example = "false",
     .about = "whether sliding_window counts (Qwen)"},
    {.key = "max_window_layers",
     .type = FIELD_INTEGER32,
     .offset = offsetof(struct sw_model_config, max_window_layers),
     .fallback = "28",
     .brief = true,
     .min = 0,
     .max = 10000,
     .example = "28",
     .about = "layers before the first one with a window (Qwen)"},
    {.key = "layer_types",
     .type = FIELD_CUSTOM,
     .offset = 0,
     .custom = &sw_type_layer_types,
     .example = "[full_attention, full_attention]",
     .schema = "{\"type\": [\"array\", \"null\"], \"items\": {\"enum\": [\"full_attention\", "
               "\"sliding_attention\"]}}",
     .about = "which layers have a window (Qwen); default: those from max_window_layers on"},
    {.key = "quantization_config",
     .type = FIELD_CUSTOM,
     .offset = FIELD_NOWHERE,
     .custom = &sw_type_unsupported,
     .example = "null",
     .schema = "{\"type\": \"null\"}",
     .about = "not supported; may be null"},
    {.key = "rms_norm_eps",
     .type = FIELD_REAL,
     AT(rms_norm_eps),
     .fallback = "1e-5",
     .min = 0,
     .above_min = true,
     .max = 1,
     .example = "1.0e-5",
     .about =
         "added to the mean square in the norms, against division by zero; default of Llama only"},
    {.key = "initializer_range",
     .type = FIELD_REAL,
     AT(initializer_range),
     .fallback = "0.02",
     .min = 0,
     .above_min = true,
     .max = 10,
     .example = "0.02",
     .about = "standard deviation of the initial weights"},
    {.key = "tie_word_embeddings",
     .type = FIELD_BOOL,
     AT(tied),
     .fallback = "false",
     .example = "false",
     .about = "whether the output head is the embedding, transposed"},
    {.key = "hidden_act",
     .type = FIELD_WORD,
     .offset = FIELD_NOWHERE,
     .words = silu_words,
     .example = "silu",
     .about = "activation of the MLP; only silu"},
    {.key = "attention_bias",
     .type = FIELD_BOOL,
     AT(output_bias),
     .fallback = "false",
     .brief = true,
     .example = "false",
     .about = "whether q, k, v and the output of attention have a bias (Llama, Qwen3)"},
    {.key = "mlp_bias",
     .type = FIELD_BOOL,
     AT(mlp_bias),
     .fallback = "false",
     .brief = true,
     .example = "false",
     .about = "whether the matrices of the MLP have a bias (Llama)"},
    {.key = NULL},
};
#undef AT

#define AT(member) .offset = offsetof(struct sw_accelerator_config, member)
#define KEPT(member, word)                                                                         \
    .offset = offsetof(struct sw_accelerator_config, member),                                      \
    .place = offsetof(struct sw_accelerator_config, at.word)
static const struct field peak_fields[] = {
    {.key = "bf16",
     .type = FIELD_FLOPS,
     KEPT(peak_bf16_flops, peak_bf16),
     .least = 1e8,
     .most = 1e17,
     .min = 0,
     .above_min = true,
     .max = SW_BIG,
     .example = "989 TFLOP/s",
     .about = "peak of dense bf16 matrix products, FLOP/s; default: that of fp32"},
    {.key = "fp32",
     .type = FIELD_FLOPS,
     KEPT(peak_fp32_flops, peak_fp32),
     .least = 1e8,
     .most = 1e17,
     .required = true,
     .min = 0,
     .above_min = true,
     .max = SW_BIG,
     .example = "67 TFLOP/s",
     .about = "peak of dense fp32 matrix products, FLOP/s"},
    {.key = "int8",
     .type = FIELD_FLOPS,
     AT(peak_int8_flops),
     .brief = true,
     .least = 1e8,
     .most = 1e17,
     .min = 0,
     .max = SW_BIG,
     .fallback = "0",
     .example = "1979 TFLOP/s",
     .about = "peak of dense matrix products of 8 bits (fp8 or int8), FLOP/s; 0: not told"},
    {.key = NULL},
};

#define ATTENTION(member, word, what)                                                              \
    {                                                                                              \
        .key = #word, .type = FIELD_CUSTOM, KEPT(member, word), .brief = true,                     \
        .custom = &sw_type_attention_grid, .example = SW_ATTENTION_EXAMPLE,                        \
        .schema = SW_PRODUCTS_SCHEMA, .about = what                                                \
    }
/* What a grid says of sizes that are none of its points. */
#define ERRORS_OF(grid)                                                                            \
    SW_ERROR_OF(AT(grid##_error), #grid "_error", #grid,                                           \
                "measured sizes that are none of its points"),                                     \
        SW_SIGNED_ERROR_OF(sw_accelerator_config, grid##_signed_error, #grid "_signed_error",      \
                           #grid "_error")
static const struct field attention_fields[] = {
    ATTENTION(prefill_attention, prefill,
              "of prompts: points [heads, tokens, head_dim, share of peak], a full grid, head_dim "
              "ascending first, then tokens, then heads, which are query heads of all sequences; "
              "the share is of the causal half, without what writing keys and values takes"),
    ATTENTION(decode_attention, decode,
              "of one token a sequence: points [heads, positions, head_dim, share of "
              "memory_bandwidth]; heads are those of keys, of all sequences"),
    ERRORS_OF(prefill),
    ERRORS_OF(decode),
    {.key = NULL},
};
#undef ATTENTION

const struct field sw_accelerator_fields[] = {
    {.key = "name",
     .type = FIELD_TEXT,
     AT(name),
     .required = true,
     .accept = sw_text_is_name,
     .expects = SW_NAME_EXPECTS,
     .example = "h100-sxm-80gb",
     .about = "name of the accelerator, for reports"},
    {.key = "device",
     .type = FIELD_WORD,
     AT(device),
     .required = true,
     .vocabulary = sw_words_device,
     .example = "cuda",
     .about = "what runs the program: the cores of a CPU, or a CUDA GPU"},
    {.key = "planning_only",
     .type = FIELD_BOOL,
     KEPT(planning_only, planning_only),
     .fallback = "false",
     .brief = true,
     .example = "true",
     .about =
         "'runner' has no device for it (AMD GPUs, TPUs): plans are priced as of 'device', and "
         "jobs are not submitted"},
    {.key = "memory",
     .type = FIELD_BYTES,
     AT(memory_bytes),
     .least = 1e7,
     .most = 1e14,
     .required = true,
     .min = 1,
     .max = SW_MANY,
     .example = "80 GB",
     .about = "memory of one accelerator, in bytes or with a unit"},
    {.key = "reserved_memory",
     .type = FIELD_BYTES,
     AT(reserved_memory_bytes),
     .fallback = "0",
     .min = 0,
     .max = SW_MANY,
     .example = "5 GB",
     .about = "memory kept free for contexts and library buffers: no plan uses it"},
    /* The rows of the two sections hold offsets in the accelerator itself. */
    {.key = "peak",
     .type = FIELD_SECTION,
     .offset = 0,
     .required = true,
     .fields = peak_fields,
     .example = "{bf16: 989 TFLOP/s, fp32: 67 TFLOP/s}",
     .about = "arithmetic peak of one accelerator"},
    {.key = "memory_bandwidth",
     .type = FIELD_BANDWIDTH,
     KEPT(memory_bandwidth, memory_bandwidth),
     .least = 1e8,
     .most = 1e15,
     .required = true,
     .min = 0,
     .above_min = true,
     .max = SW_BIG,
     .example = "3.35 TB/s",
     .about = "bandwidth of its own memory, bytes per second"},
    {.key = "compute_units",
     .type = FIELD_INTEGER32,
     AT(compute_units),
     .min = 1,
     .max = 1 << 20,
     .example = "132",
     .about = "number of multiprocessors that share the tiles of a matrix product; default: tiles "
              "are not considered"},
    {.key = "siblings",
     .type = FIELD_TEXT,
     AT(siblings),
     .commas = true,
     .accept = sw_text_is_not_empty,
     .expects = "names of accelerators",
     .example = "[h200-sxm-141gb]",
     .about =
         "names of accelerators of the same design: a profile that was measured on one of them "
         "counts here, with a band twice as wide, but no wider than the default's; of others "
         "the default one counts"},
    {.key = "products",
     .type = FIELD_CUSTOM,
     KEPT(products, products),
     .brief = true,
     .custom = &sw_type_products,
     .example = SW_PRODUCTS_EXAMPLE,
     .schema = SW_PRODUCTS_SCHEMA,
     .about = SW_PRODUCTS_ABOUT "; a profile's matmul says how much of it software reaches"},
    ERRORS_OF(products),
    {.key = "best_product",
     .type = FIELD_REAL,
     KEPT(best_product, best_product),
     .brief = true,
     .fallback = "0",
     .min = 0,
     .max = 1,
     .example = "0.51",
     .about = "fraction of the bf16 peak that the best matrix product measured on it reaches, "
              "where no 'products' tell it: no software is taken to reach more; 0: not known"},
    {.key = "training_product",
     .type = FIELD_REAL,
     KEPT(training_product, training_product),
     .brief = true,
     .fallback = "0",
     .min = 0,
     .max = 1,
     .example = "0.4",
     .about = "fraction of the bf16 peak that large matrix products of usual training software "
              "reach on it, for the default profile; 0: what follows from 'products' or "
              "'best_product', else what is assumed for the device"},
    {.key = "product_source",
     .type = FIELD_TEXT,
     AT(product_source),
     .brief = true,
     .example = "'mamf-finder, 668 TFLOP/s'",
     .about = "what 'best_product' and 'training_product' rest on; shown beside times that rest on "
              "them"},
    {.key = "attention",
     .type = FIELD_SECTION,
     .offset = 0,
     .fields = attention_fields,
     .brief = true,
     .example = "{decode: " SW_ATTENTION_EXAMPLE "}",
     .about =
         "what attention over a cache in bf16 reaches; default: what a profile's attention and "
         "memory say"},
    {.key = "launch_latency",
     .type = FIELD_SECONDS,
     .offset = offsetof(struct sw_accelerator_config, older.launch_latency_s),
     .place = offsetof(struct sw_accelerator_config, older.at.launch_latency),
     .old = true,
     .least = 0,
     .most = 1e-2,
     .min = 0,
     .max = 1,
     .example = "4 us"},
    {.key = "efficiency",
     .type = FIELD_SECTION,
     .offset = 0,
     .old = true,
     .fields = sw_older_constants,
     .example = "{}"},
    {.key = "source",
     .type = FIELD_TEXT,
     .offset = FIELD_NOWHERE,
     .example = "'NVIDIA H100 data sheet'",
     .about = "where the figures come from"},
    {.key = NULL},
};
#undef ERRORS_OF
#undef KEPT
#undef AT

#define AT(member) .offset = offsetof(struct sw_link_config, member)
#define KEPT(member, word)                                                                         \
    .offset = offsetof(struct sw_link_config, member),                                             \
    .place = offsetof(struct sw_link_config, at.word)
const struct field sw_link_fields[] = {
    {.key = "name",
     .type = FIELD_TEXT,
     AT(name),
     .required = true,
     .accept = sw_text_is_name,
     .expects = SW_NAME_EXPECTS,
     .example = "nvlink",
     .about = "name of the network, for reports"},
    {.key = "spans",
     .type = FIELD_INTEGER32,
     AT(spans),
     .required = true,
     .min = 1,
     .max = 1 << 30,
     .words = span_words,
     .example = "node",
     .about = "number of accelerators that one domain of this network joins: those of a node, a "
              "number, those of all nodes"},
    {.key = "bandwidth",
     .type = FIELD_BANDWIDTH,
     KEPT(bandwidth, bandwidth),
     .least = 1e6,
     .most = 1e14,
     .min = 0,
     .above_min = true,
     .max = SW_BIG,
     .example = "450 GB/s",
     .about = "what one accelerator sends in one direction, in bytes (GB/s) or bits (Gb/s) per "
              "second; this or bandwidth_per_node is needed"},
    {.key = "bandwidth_per_node",
     .type = FIELD_BANDWIDTH,
     KEPT(bandwidth_per_node, bandwidth),
     .least = 1e6,
     .most = 1e15,
     .brief = true,
     .min = 0,
     .above_min = true,
     .max = SW_BIG,
     .example = "400 GB/s",
     .about = "what all accelerators of a node together send in one direction, in place of "
              "bandwidth: the sum of the node's ports"},
    {.key = "launch",
     .type = FIELD_SECONDS,
     KEPT(launch_s, launch),
     .fallback = "0",
     .brief = true,
     .least = 0,
     .most = 0.1,
     .min = 0,
     .max = 60,
     .example = "4.5 us",
     .about = "time that a collective takes once, before its steps; of the links that it crosses "
              "and those inside them the largest counts"},
    {.key = "latency",
     .type = FIELD_SECONDS,
     KEPT(latency_s, latency),
     .least = 0,
     .most = 0.005,
     .required = true,
     .min = 0,
     .max = 60,
     .example = "0.83 us",
     .about = "time that each step of a collective takes without a byte, from one accelerator to "
              "the next"},
    {.key = "efficiency",
     .type = FIELD_CUSTOM,
     KEPT(efficiency, efficiency),
     .brief = true,
     .custom = &sw_type_link_curve,
     .example = "../curves/nccl-nvlink.yaml",
     .schema = "{\"anyOf\": [{\"type\": \"string\"}, " SW_CURVE_SCHEMA "]}",
     .about = "fraction of bandwidth that collectives reach: a number, points [bytes that one "
              "collective sends over one port, fraction], sizes ascending, or a file that holds "
              "points; "
              "default: 0.82 for the innermost link, 0.9 for others"},
    {.key = "collectives",
     .type = FIELD_CUSTOM,
     KEPT(collectives, collectives),
     .brief = true,
     .custom = &sw_type_collectives,
     .expects = "a list of [collective, ranks, size, fraction]",
     .example = "[[all_to_all, 8, 1e6, 0.2], [all_to_all, 8, 1e9, 0.8]]",
     .schema = SW_COLLECTIVES_SCHEMA,
     .about = "fractions that single collectives reach where they differ from the others: points "
              "[collective, ranks, bytes over one port, fraction], those of a collective and "
              "ranks together, ranks and sizes ascending; between two numbers of ranks the "
              "fraction goes with the logarithm, above the most it is that of the most, below "
              "the fewest that of 'efficiency'"},
    {.key = "oversubscription",
     .type = FIELD_REAL,
     KEPT(oversubscription, oversubscription),
     .fallback = "1",
     .min = 1,
     .max = 1000,
     .example = "2",
     .about = "how many times more bandwidth the ports have than the uplinks between switches; 1: "
              "as much"},
    {.key = "rails",
     .type = FIELD_BOOL,
     AT(rails),
     .fallback = "true",
     .example = "true",
     .about = "each accelerator has its own port; false: those of a domain share them"},
    {.key = "direct",
     .type = FIELD_BOOL,
     AT(direct),
     .fallback = "false",
     .example = "true",
     .about = "collectives send blocks straight to their receivers, once to each node (the runner "
              "on CPUs), not in rings"},
    {.key = "source",
     .type = FIELD_TEXT,
     .offset = FIELD_NOWHERE,
     .example = "'data sheet'",
     .about = "where the figures come from"},
    {.key = NULL},
};
#undef KEPT
#undef AT

#define AT(member) .offset = offsetof(struct sw_cluster_config, member)
static const struct field storage_fields[] = {
    {.key = "bandwidth",
     .type = FIELD_BANDWIDTH,
     AT(storage_bandwidth),
     .least = 1e6,
     .most = 1e15,
     .brief = true,
     .min = 0,
     .above_min = true,
     .max = SW_BIG,
     .example = "10 GB/s",
     .about = "bytes per second that the whole job writes to the file system; default: 1 GB/s for "
              "each node is assumed"},
    {.key = NULL},
};

/* Grattafiori et al., "The Llama 3 Herd of Models" (arXiv:2407.21783), section 3.3.4: 419
 * unexpected interruptions in 54 days on 16,384 GPUs, eight to a node: 419 / (54 * 2.048) = 3.79.
 */
static const struct field reliability_fields[] = {
    {.key = "failures_per_1000_node_days",
     .type = FIELD_REAL,
     AT(failures_per_1000_node_days),
     .fallback = "3.8",
     .min = 0,
     .max = 1e6,
     .example = "3.8",
     .about = "how often a job is interrupted by a failure, per 1000 nodes and day; the default is "
              "Llama 3's: 419 times in 54 days on 2048 nodes"},
    {.key = NULL},
};

const struct field sw_cluster_fields[] = {
    {.key = "name",
     .type = FIELD_TEXT,
     AT(name),
     .required = true,
     .accept = sw_text_is_name,
     .expects = SW_NAME_EXPECTS,
     .example = "h100-8x8",
     .about = "name of the cluster, for reports"},
    {.key = "nodes",
     .type = FIELD_INTEGER32,
     AT(nodes),
     .required = true,
     .min = 1,
     .max = 1 << 20,
     .example = "8",
     .about = "number of nodes of the job"},
    {.key = "accelerators_per_node",
     .type = FIELD_INTEGER32,
     AT(accelerators_per_node),
     .required = true,
     .min = 1,
     .max = 1024,
     .example = "8",
     .about = "number of accelerators in one node; each runs one rank"},
    {.key = "accelerator",
     .type = FIELD_CUSTOM,
     AT(accelerator),
     .required = true,
     .custom = &sw_type_reference,
     .kind = SW_CONFIG_ACCELERATOR,
     .example = "h100.yaml",
     .about = "the accelerator that all nodes have: its file, or its keys"},
    {.key = "host_memory",
     .type = FIELD_BYTES,
     AT(host_memory_bytes),
     .least = 1e8,
     .most = 1e15,
     .brief = true,
     .min = 0,
     .above_min = true,
     .max = SW_MANY,
     .example = "2 TB",
     .about = "memory of the host of one node, where a checkpoint waits to be written; default: "
              "unknown"},
    {.key = "links",
     .type = FIELD_CUSTOM,
     .offset = 0,
     .custom = &sw_type_links,
     .fields = sw_link_fields,
     .example = "[{name: nvlink, spans: node, bandwidth: 450 GB/s, latency: 3 us}, {name: "
                "infiniband, spans: all, bandwidth: 400 Gb/s, latency: 6 us}]",
     .about = "networks between accelerators, at most 8, innermost first; the last must span all "
              "of them; one node of one accelerator needs none"},
    {.key = "profile",
     .type = FIELD_CUSTOM,
     AT(profile),
     .custom = &sw_type_profile,
     .kind = SW_CONFIG_PROFILE,
     .example = "../profiles/llm-foundry-2023-h100-sxm-80gb.yaml",
     .about = "what software reaches on these accelerators, which every time rests on: a file, its "
              "keys, or auto: NAME.profile.yaml beside this NAME.yaml where `runner calibrate` "
              "wrote one, else what is assumed for every chip; default: auto"},
    {.key = "storage",
     .type = FIELD_SECTION,
     .offset = 0,
     .brief = true,
     .fields = storage_fields,
     .example = "{bandwidth: 10 GB/s}",
     .about = "the file system that checkpoints are written to"},
    {.key = "reliability",
     .type = FIELD_SECTION,
     .offset = 0,
     .fields = reliability_fields,
     .example = "{failures_per_1000_node_days: 3.8}",
     .about = "how often something fails"},
    {.key = "launcher", AT(launcher), .type = FIELD_WORD}, /* the rest follows from the list */
    {.key = "settings", .type = FIELD_SETTINGS, AT(settings), .brief = true},
    {.key = NULL},
};
#undef AT

const struct field *sw_config_fields(enum sw_config_kind kind)
{
    switch (kind) {
    case SW_CONFIG_MODEL:
        return sw_model_fields;
    case SW_CONFIG_ACCELERATOR:
        return sw_accelerator_fields;
    case SW_CONFIG_CLUSTER:
        return sw_cluster_fields;
    case SW_CONFIG_RUN:
        return sw_run_fields;
    case SW_CONFIG_PLAN:
        return sw_plan_fields;
    case SW_CONFIG_PROFILE:
        return sw_profile_fields;
    case SW_CONFIG_CURVE:
        return sw_curve_fields;
    case SW_CONFIG_FABRIC:
        return sw_fabric_fields;
    default:
        return NULL;
    }
}

const struct field *sw_field_described(const struct field *field)
{
    return field->described != NULL ? field->described : sw_config_fields(field->kind);
}

const char *sw_config_kind_name(enum sw_config_kind kind)
{
    static const char *const names[] = {"model", "accelerator", "cluster", "run",
                                        "plan",  "profile",     "curve",   "fabric"};
    return kind < SW_CONFIG_UNKNOWN ? names[kind] : "description";
}
