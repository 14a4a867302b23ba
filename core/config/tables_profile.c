/* Keys of a profile, of a curve, and of the constants in older accelerator files. */
#include "core/config/internal.h"

#include <stddef.h>

#define AT(member) .offset = offsetof(struct sw_profile_config, member)
#define KEPT(member, word)                                                                         \
    .offset = offsetof(struct sw_profile_config, member),                                          \
    .place = offsetof(struct sw_profile_config, at.word)
#define MATMUL(at)                                                                                 \
    {                                                                                              \
        .key = "matmul", .type = FIELD_CUSTOM, at, .custom = &sw_type_curve, .example = "0.71",    \
        .schema = SW_CURVE_SCHEMA,                                                                 \
        .about = "fraction of the peak that large matrix products reach; or points [FLOP of one "  \
                 "product, fraction], sizes ascending; default: what is assumed for the device"    \
    }
#define ATTENTION(at)                                                                              \
    {                                                                                              \
        .key = "attention", .type = FIELD_CUSTOM, at, .custom = &sw_type_curve, .example = "0.5",  \
        .schema = SW_CURVE_SCHEMA,                                                                 \
        .about = "fraction of the peak that long attention with heads of 128 reaches; or points "  \
                 "[FLOP of one kernel call, fraction]: of a ring one hop, of backward the five "   \
                 "products that its kernel makes; smaller heads and shorter calls reach less of "  \
                 "either; default: what is assumed for the device"                                 \
    }
#define MEMORY(at)                                                                                 \
    {                                                                                              \
        .key = "memory", .type = FIELD_CUSTOM, at, .custom = &sw_type_curve, .example = "0.64",    \
        .schema = SW_CURVE_SCHEMA,                                                                 \
        .about = "fraction of the memory's bandwidth that everything else reaches; or points "     \
                 "[bytes one operation moves, fraction]; default: what is assumed for the device"  \
    }
#define LAUNCH(at)                                                                                 \
    {                                                                                              \
        .key = "launch_latency", .type = FIELD_SECONDS, at, .least = 0, .most = 1e-2, .min = 0,    \
        .max = 1, .example = "3 us",                                                               \
        .about = "time that every operation adds on the device, however small it is; default: "    \
                 "what is assumed for the device"                                                  \
    }

static const struct field peak_fields[] = {
    {.key = "bf16",
     .type = FIELD_FLOPS,
     KEPT(peak_bf16_flops, peak_bf16),
     .least = 1e8,
     .most = 1e17,
     .min = 0,
     .max = SW_BIG,
     .fallback = "0",
     .example = "95 GFLOP/s",
     .about = "what fractions in bf16 are of; 0: the accelerator's peak"},
    {.key = "fp32",
     .type = FIELD_FLOPS,
     KEPT(peak_fp32_flops, peak_fp32),
     .least = 1e8,
     .most = 1e17,
     .min = 0,
     .max = SW_BIG,
     .fallback = "0",
     .example = "95 GFLOP/s",
     .about = "what fractions in fp32 are of; 0: the accelerator's peak"},
    {.key = "int8",
     .type = FIELD_FLOPS,
     KEPT(peak_int8_flops, peak_int8),
     .brief = true,
     .least = 1e8,
     .most = 1e17,
     .min = 0,
     .max = SW_BIG,
     .fallback = "0",
     .example = "1979 TFLOP/s",
     .about = "peak of products with weights of 8 bits, of software that multiplies in 8 bits; "
              "0: it widens them to bf16, as the runner does"},
    {.key = NULL},
};

#define SKINNY_GEMM(word, kind, dtype, what)                                                       \
    {                                                                                              \
        .key = word, .type = FIELD_CUSTOM,                                                         \
        KEPT(skinny_gemm[kind][dtype], skinny_gemm[kind][dtype]), .custom = &sw_type_skinny_gemm,  \
        .example = "[[1, 1e8, 12e9], [4, 1e8, 7e9]]", .schema = SW_SKINNY_GEMM_SCHEMA,             \
        .about = what                                                                              \
    }
static const struct field skinny_gemm_fields[] = {
    SKINNY_GEMM(
        "linear_fp32", SW_SKINNY_LINEAR, SW_RATE_FP32,
        "products with weights in fp32: points [rows, bytes, bytes of weights per second], "
        "rows ascending and, of the same rows, bytes; the bytes are all that a token reads, "
        "which may fit a cache"),
    SKINNY_GEMM("linear_bf16", SW_SKINNY_LINEAR, SW_RATE_BF16, "the same for weights in bf16"),
    SKINNY_GEMM("linear_t_fp32", SW_SKINNY_LINEAR_T, SW_RATE_FP32,
                "products with transposed weights in fp32, such as the head's"),
    SKINNY_GEMM("linear_t_bf16", SW_SKINNY_LINEAR_T, SW_RATE_BF16, "the same for weights in bf16"),
    SKINNY_GEMM(
        "attention_fp32", SW_SKINNY_ATTENTION, SW_RATE_FP32,
        "attention to a cache in fp32; rows are the query heads of a head of keys, and what is "
        "read is the cache"),
    SKINNY_GEMM("attention_bf16", SW_SKINNY_ATTENTION, SW_RATE_BF16,
                "the same for a cache in bf16"),
    {.key = NULL},
};
#undef SKINNY_GEMM

#define PRODUCTS(word, kind, dtype, what)                                                          \
    {                                                                                              \
        .key = word, .type = FIELD_CUSTOM, AT(products[kind][dtype]), .brief = true,               \
        .custom = &sw_type_products, .example = SW_PRODUCTS_EXAMPLE, .schema = SW_PRODUCTS_SCHEMA, \
        .about = what                                                                              \
    }
static const struct field products_fields[] = {
    PRODUCTS("linear_fp32", SW_PRODUCT_LINEAR, SW_RATE_FP32,
             "products x W in fp32, forward: rows are tokens, and the depth is what is summed"),
    PRODUCTS("linear_bf16", SW_PRODUCT_LINEAR, SW_RATE_BF16, "the same in bf16"),
    PRODUCTS("linear_t_fp32", SW_PRODUCT_LINEAR_T, SW_RATE_FP32,
             "products with transposed weights in fp32, such as backward to the input"),
    PRODUCTS("linear_t_bf16", SW_PRODUCT_LINEAR_T, SW_RATE_BF16, "the same in bf16"),
    PRODUCTS("linear_dw_fp32", SW_PRODUCT_LINEAR_DW, SW_RATE_FP32,
             "gradients of weights in fp32: the depth is of tokens"),
    PRODUCTS("linear_dw_bf16", SW_PRODUCT_LINEAR_DW, SW_RATE_BF16, "the same in bf16"),
    {.key = NULL},
};
#undef PRODUCTS

#define ATTENTION_BY_SIZE(word, phase, dtype, what)                                                \
    {                                                                                              \
        .key = word, .type = FIELD_CUSTOM, AT(attention_by_size[phase][dtype]), .brief = true,     \
        .custom = &sw_type_attention_grid, .example = SW_ATTENTION_EXAMPLE,                        \
        .schema = SW_PRODUCTS_SCHEMA, .about = what                                                \
    }
static const struct field attention_fields[] = {
    ATTENTION_BY_SIZE("forward_fp32", SW_ATTENTION_FORWARD, SW_RATE_FP32,
                      "causal attention over a sequence in fp32: points [heads, length, head_dim, "
                      "share of peak], a full grid, head_dim ascending first, then lengths, then "
                      "heads, which are query heads of all sequences of a micro-batch"),
    ATTENTION_BY_SIZE("forward_bf16", SW_ATTENTION_FORWARD, SW_RATE_BF16, "the same in bf16"),
    ATTENTION_BY_SIZE("backward_fp32", SW_ATTENTION_BACKWARD, SW_RATE_FP32, "its gradient in fp32"),
    ATTENTION_BY_SIZE("backward_bf16", SW_ATTENTION_BACKWARD, SW_RATE_BF16, "the same in bf16"),
    ATTENTION_BY_SIZE(
        "cached_fp32", SW_ATTENTION_CACHED, SW_RATE_FP32,
        "attention to a cache in fp32: points [queries, positions, head_dim, share "
        "of peak]; queries of a sequence, a chunk of a prompt or the one that decodes, "
        "for which 'few_rows' counts where it tells it; positions that one meets in "
        "the mean"),
    ATTENTION_BY_SIZE("cached_bf16", SW_ATTENTION_CACHED, SW_RATE_BF16, "the same in bf16"),
    {.key = NULL},
};
#undef ATTENTION_BY_SIZE

#undef AT
/* A link's figure with which the points were fitted. */
#define BESIDE(word, shown)                                                                        \
    {                                                                                              \
        .key = #word, .type = FIELD_SECONDS, .offset = offsetof(struct sw_curve_file, word##_s),   \
        .brief = true, .fallback = "0", .least = 0, .most = 0.1, .min = 0, .max = 60,              \
        .example = (shown),                                                                        \
        .about = #word " of a link beside which the points were fitted: where the link has the "   \
                       "same, 'error' is its, too"                                                 \
    }
const struct field sw_curve_fields[] = {
    {.key = "points",
     .type = FIELD_CUSTOM,
     .offset = 0,
     .required = true,
     .custom = &sw_type_curve,
     .place = offsetof(struct sw_curve_file, at.points),
     .example = "[[1e6, 0.2], [1e9, 0.8]]",
     .schema = SW_CURVE_SCHEMA,
     .about = "points [size, fraction], sizes ascending; between them the fraction goes with the "
              "logarithm of the size, beyond them it stays"},
    {.key = "collectives",
     .type = FIELD_CUSTOM,
     .offset = offsetof(struct sw_curve_file, collectives),
     .place = offsetof(struct sw_curve_file, at.collectives),
     .brief = true,
     .custom = &sw_type_collectives,
     .expects = "a list of [collective, ranks, size, fraction]",
     .example = "[[all_to_all, 8, 1e6, 0.2], [all_to_all, 8, 1e9, 0.8]]",
     .schema = SW_COLLECTIVES_SCHEMA,
     .about = "fractions that single collectives reach where they differ from the others: points "
              "[collective, ranks, bytes over one port, fraction], those of a collective and "
              "ranks together, ranks and sizes ascending; between two numbers of ranks the "
              "fraction goes with the logarithm, above the most it is that of the most, below "
              "the fewest that of 'points'"},
    {.key = "error",
     .type = FIELD_REAL,
     .offset = offsetof(struct sw_curve_file, error),
     .fallback = "0",
     .min = 0,
     .max = 100,
     .example = "0.091",
     .about = "mean error of predictions for collectives that were left out of the fit; 0: not "
              "known"},
    SW_SIGNED_ERROR_OF(sw_curve_file, signed_error, "signed_error", "error"),
    {.key = "collectives_error",
     .type = FIELD_REAL,
     .offset = offsetof(struct sw_curve_file, collectives_error),
     .brief = true,
     .fallback = "0",
     .min = 0,
     .max = 100,
     .example = "0.07",
     .about =
         "mean error of predictions by 'collectives' for sizes of theirs that were left out of "
         "the fit; 0: not known"},
    SW_SIGNED_ERROR_OF(sw_curve_file, collectives_signed_error, "collectives_signed_error",
                       "collectives_error"),
    BESIDE(launch, "4.5 us"),
    BESIDE(latency, "0.81 us"),
    {.key = "source",
     .type = FIELD_TEXT,
     .offset = FIELD_NOWHERE,
     .example = "'data sheet'",
     .about = "where the figures come from"},
    {.key = NULL},
};
#undef BESIDE
#define AT(member) .offset = offsetof(struct sw_profile_config, member)

const struct field sw_profile_fields[] = {
    {.key = "name",
     .type = FIELD_TEXT,
     AT(name),
     .fallback = "custom",
     .accept = sw_text_is_name,
     .expects = SW_NAME_EXPECTS,
     .example = "llm-foundry-2023",
     .about = "name of the software, shown beside every predicted time"},
    {.key = "accelerator",
     .type = FIELD_TEXT,
     AT(accelerator),
     .accept = sw_text_is_name,
     .expects = SW_NAME_EXPECTS,
     .example = "h100-sxm-80gb",
     .about =
         "name of the accelerator that it was measured on: on its siblings it counts with their "
         "peaks and a band twice as wide, but no wider than the default's; a cluster of "
         "others is priced with the default profile; default: any"},
    MATMUL(KEPT(matmul, matmul)),
    ATTENTION(KEPT(attention, attention)),
    {.key = "attention_backward",
     .type = FIELD_CUSTOM,
     KEPT(attention_backward, attention_backward),
     .brief = true,
     .custom = &sw_type_curve,
     .example = "0.25",
     .schema = SW_CURVE_SCHEMA,
     .about = "the same of attention's gradient; default: that of 'attention'"},
    {.key = "attention_by_size",
     .type = FIELD_SECTION,
     .offset = 0,
     .place = offsetof(struct sw_profile_config, at.attention_by_size),
     .fields = attention_fields,
     .brief = true,
     .example = "{forward_fp32: " SW_ATTENTION_EXAMPLE "}",
     .about = "what attention reaches by phase, length and head size; default: what 'attention' "
              "and 'attention_backward' say of as many FLOP"},
    {.key = "attention_scale",
     .type = FIELD_CUSTOM,
     KEPT(attention_scale, attention_scale),
     .brief = true,
     .max = SW_MAX_PRODUCTS_SCALE,
     .custom = &sw_type_curve,
     .example = "[[1e8, 1.2], [1e9, 1]]",
     .schema = SW_CURVE_OF_SCHEMA(SW_SCALE_SCHEMA),
     .about = "of the shares in 'attention_by_size', what attention reaches in whole steps, as "
              "'products_scale'; default: all of them"},
    SW_ERROR_OF(AT(attention_error), "attention_error", "attention_by_size",
                "attention of whole steps that is none of their points"),
    SW_SIGNED_ERROR_OF(sw_profile_config, attention_signed_error, "attention_signed_error",
                       "attention_error"),
    MEMORY(KEPT(memory, memory)),
    {.key = "few_rows",
     .type = FIELD_SECTION,
     .offset = 0,
     .fields = skinny_gemm_fields,
     .brief = true,
     .example = "{linear_fp32: [[1, 1e8, 12e9], [4, 1e8, 7e9]]}",
     .about =
         "how fast decoding reads, whose products have one row of each sequence; default: what "
         "follows from 'matmul', 'attention' and 'memory'"},
    {.key = "products",
     .type = FIELD_CUSTOM,
     KEPT(products, products),
     .brief = true,
     .custom = &sw_type_products_by_kind,
     .fields = products_fields,
     .example = "{linear_fp32: " SW_PRODUCTS_EXAMPLE "}",
     .schema = SW_PRODUCTS_SCHEMA,
     .about = SW_PRODUCTS_ABOUT "; or a list for each kind of product and precision; default: of "
                                "those in bf16 the accelerator's, else what follows from "
                                "'matmul'"},
    {.key = "products_scale",
     .type = FIELD_CUSTOM,
     KEPT(products_scale, products_scale),
     .brief = true,
     .max = SW_MAX_PRODUCTS_SCALE,
     .custom = &sw_type_curve,
     .example = "[[1e8, 1.3], [1e9, 1]]",
     .schema = SW_CURVE_OF_SCHEMA(SW_SCALE_SCHEMA),
     .about = "of the rates in 'products', what products reach in whole steps; or points [bytes "
              "that the operations of a micro-batch move, fraction]: caches hold what small steps "
              "use; default: what 'matmul' says of large ones over what the grid does"},
    {.key = "direct_reductions",
     .type = FIELD_BOOL,
     KEPT(reduces_directly, direct_reductions),
     .brief = true,
     .fallback = "false",
     .example = "true",
     .about = "whether an all_reduce inside a node takes two steps however many ranks it has, as "
              "servers of models have kernels for; false: as many as a ring"},
    {.key = "gradient_copies",
     .type = FIELD_INTEGER32,
     AT(gradient_copies),
     .brief = true,
     .fallback = "0",
     .min = 0,
     .max = 8,
     .example = "2",
     .about = "how often the software reads and writes each weight's whole gradient before ranks "
              "of fsdp sum it: PyTorch's first FSDP joins those of a layer and divides them, 2; "
              "the runner does neither"},
    {.key = "joined_products",
     .type = FIELD_BOOL,
     KEPT(joins_products, joined_products),
     .brief = true,
     .fallback = "false",
     .example = "true",
     .about = "whether products of the same rows (q, k and v; gate and up) are made as one, as "
              "servers of models do; counts where the accelerator's 'products' do"},
    SW_ERROR_OF(AT(products_error), "products_error", "products",
                "products of whole steps that are none of their points"),
    SW_SIGNED_ERROR_OF(sw_profile_config, products_signed_error, "products_signed_error",
                       "products_error"),
    LAUNCH(KEPT(launch_latency_s, launch_latency)),
    {.key = "angle_time",
     .type = FIELD_SECONDS,
     KEPT(angle_time_s, angle_time),
     .brief = true,
     .least = 0,
     .most = 1e-3,
     .fallback = "0",
     .min = 0,
     .max = 1,
     .example = "15 ns",
     .about = "time that each sine and cosine of a rotary embedding takes besides the memory that "
              "it moves: one for each position and pair of a head's elements, whatever the number "
              "of heads"},
    {.key = "host_time",
     .type = FIELD_SECONDS,
     KEPT(host_time_s, host_time),
     .least = 0,
     .most = 1e-2,
     .fallback = "0",
     .min = 0,
     .max = 1,
     .example = "10 us",
     .about = "time that the host takes to issue one operation, ahead of the device as far as it "
              "can: of software that launches each by itself; 0: recorded ones, as the runner's"},
    {.key = "peak",
     .type = FIELD_SECTION,
     .offset = 0,
     .fields = peak_fields,
     .example = "{bf16: 95 GFLOP/s, fp32: 95 GFLOP/s}",
     .about = "what the fractions are of, where that is not the accelerator's peak"},
    {.key = "memory_bandwidth",
     .type = FIELD_BANDWIDTH,
     KEPT(memory_bandwidth, memory_bandwidth),
     .least = 1e8,
     .most = 1e15,
     .fallback = "0",
     .min = 0,
     .max = SW_BIG,
     .example = "12 GB/s",
     .about = "what the fraction of memory is of; 0: the accelerator's memory_bandwidth"},
    {.key = "runs",
     .type = FIELD_INTEGER32,
     AT(runs),
     .fallback = "0",
     .min = 0,
     .max = 1 << 30,
     .example = "38",
     .about = "number of measured runs that it was fitted to; 0: none"},
    {.key = "error",
     .type = FIELD_REAL,
     AT(error),
     .fallback = "0",
     .min = 0,
     .max = 100,
     .example = "0.048",
     .about = "mean error of predictions for models that were left out of the fit; 0: not known"},
    SW_SIGNED_ERROR_OF(sw_profile_config, signed_error, "signed_error", "error"),
    {.key = "band_low",
     .type = FIELD_REAL,
     KEPT(band_low, band),
     .fallback = "0.7",
     .min = 0,
     .above_min = true,
     .max = 1,
     .example = "0.95",
     .about = "measured / predicted step time, 10th percentile: the low end of the band around "
              "predictions"},
    {.key = "band_high",
     .type = FIELD_REAL,
     KEPT(band_high, band),
     .fallback = "1.3",
     .min = 1,
     .max = 100,
     .example = "1.11",
     .about = "measured / predicted step time, 90th percentile: the high end of the band around "
              "predictions"},
    {.key = "source",
     .type = FIELD_TEXT,
     AT(source),
     .example = "runner calibrate",
     .about = "what the constants rest on; shown beside every predicted time"},
    {.key = NULL},
};
#undef AT
#undef KEPT

#define AT(member) .offset = offsetof(struct sw_accelerator_config, older.member)
#define KEPT(member)                                                                               \
    .offset = offsetof(struct sw_accelerator_config, older.member),                                \
    .place = offsetof(struct sw_accelerator_config, older.at.member)
const struct field sw_older_constants[] = {
    MATMUL(KEPT(matmul)),
    ATTENTION(KEPT(attention)),
    MEMORY(KEPT(memory)),
    {.key = "source", .type = FIELD_TEXT, AT(source), .example = "runner calibrate"},
    {.key = "band_low",
     .type = FIELD_REAL,
     AT(band_low),
     .place = offsetof(struct sw_accelerator_config, older.at.band),
     .fallback = "0.7",
     .above_min = true,
     .max = 1,
     .example = "0.9"},
    {.key = "band_high",
     .type = FIELD_REAL,
     AT(band_high),
     .fallback = "1.3",
     .min = 1,
     .max = 100,
     .example = "1.1"},
    {.key = NULL},
};
