/* Keys of a run file about training: the optimizer and adapters. */
#include "core/config/internal.h"

#include <stddef.h>

static const char *const spike_words[] = {"none", "stop", "skip", "rewind", NULL};
const char *const sw_schedule_words[] = {"constant", "linear",       "cosine",
                                         "wsd",      "inverse_sqrt", NULL};
static const char *const adamw_words[] = {"adamw", NULL};

#define AT(member) .offset = offsetof(struct sw_optimizer_config, member)
const struct field sw_optimizer_fields[] = {
    {.key = "type",
     .type = FIELD_WORD,
     .offset = FIELD_NOWHERE,
     .fallback = "adamw",
     .words = adamw_words,
     .example = "adamw",
     .about = "the optimizer; only AdamW"},
    {.key = "learning_rate",
     .type = FIELD_REAL,
     AT(learning_rate),
     .fallback = "3e-4",
     .min = 0,
     .max = 1000,
     .example = "3.0e-4",
     .about = "largest learning rate, reached after the warm-up"},
    {.key = "betas",
     .type = FIELD_CUSTOM,
     .offset = 0,
     .custom = &sw_type_betas,
     .example = "[0.9, 0.95]",
     .schema = "{\"type\": \"array\", \"items\": {\"type\": \"number\", \"minimum\": 0, "
               "\"exclusiveMaximum\": 1}, \"minItems\": 2, \"maxItems\": 2}",
     .about = "decay of the first and second moment, each at least 0 and less than 1; default: "
              "[0.9, 0.95]"},
    {.key = "eps",
     .type = FIELD_REAL,
     AT(eps),
     .fallback = "1e-8",
     .min = 0,
     .above_min = true,
     .max = 1,
     .example = "1.0e-8",
     .about = "added to the root of the second moment, against division by zero"},
    {.key = "weight_decay",
     .type = FIELD_REAL,
     AT(weight_decay),
     .fallback = "0.1",
     .min = 0,
     .max = 100,
     .example = "0.1",
     .about = "decoupled weight decay, as a fraction of the weight per step and unit of learning "
              "rate; norms and biases have none, nor has what no_decay names"},
    {.key = "grad_clip",
     .type = FIELD_REAL,
     AT(grad_clip),
     .fallback = "1.0",
     .min = 0,
     .max = SW_BIG,
     .example = "1.0",
     .about = "largest norm of the whole gradient, longer ones are scaled down; 0: never"},
    {.key = "schedule",
     .type = FIELD_WORD,
     AT(schedule),
     .fallback = "cosine",
     .words = sw_schedule_words,
     .example = "cosine",
     .about = "how the learning rate goes from learning_rate to min_learning_rate after the "
              "warm-up: cosine and linear fall until total_steps; wsd (warm-up, stable, decay) "
              "stays and falls linearly in the last decay_steps; inverse_sqrt is learning_rate "
              "sqrt(warmup_steps / step) and needs warmup_steps; constant does not fall"},
    {.key = "warmup_steps",
     .type = FIELD_INTEGER64,
     AT(warmup_steps),
     .fallback = "0",
     .min = 0,
     .max = SW_MANY,
     .example = "100",
     .about = "number of steps in which the learning rate rises linearly from zero"},
    {.key = "total_steps",
     .type = FIELD_INTEGER64,
     AT(total_steps),
     .fallback = "1000",
     .min = 1,
     .max = SW_MANY,
     .example = "1000",
     .about =
         "number of steps of the run; without it a run trains the default number, and only 'plan "
         "submit --dry-run' predicts the time of the whole run, and says what it assumes"},
    {.key = "decay_steps",
     .type = FIELD_INTEGER64,
     AT(decay_steps),
     .brief = true,
     .fallback = "0",
     .min = 0,
     .max = SW_MANY,
     .example = "100",
     .about = "number of steps in which the learning rate of schedule wsd falls, the last ones of "
              "total_steps; 0: a tenth of total_steps"},
    {.key = "min_learning_rate",
     .type = FIELD_REAL,
     AT(min_learning_rate),
     .fallback = "0",
     .min = 0,
     .max = 1000,
     .example = "3.0e-5",
     .about = "learning rate at the last step; for inverse_sqrt the lowest"},
    {.key = "no_decay",
     .type = FIELD_TEXT,
     AT(no_decay),
     .brief = true,
     .commas = true,
     .accept = sw_text_is_not_empty,
     .expects = "names of parameters",
     .example = "[model.embed_tokens, lm_head]",
     .about = "parameters without weight decay, named as `freeze` names them; vectors (norms, "
              "biases) have none in any case"},
    {.key = "moments",
     .type = FIELD_WORD,
     AT(moments),
     .brief = true,
     .fallback = "fp32",
     .vocabulary = sw_words_moments,
     .example = "int8",
     .about = "how the moments of gradients are kept: fp32; bf16, half as much memory; int8, a "
              "quarter: 8 bits by blocks of at most 128 numbers with a scale in fp32 (Dettmers et "
              "al. 2022), of matrices; norms and biases stay fp32"},
    {.key = "on_spike",
     .type = FIELD_WORD,
     AT(on_spike),
     .brief = true,
     .fallback = "none",
     .words = spike_words,
     .example = "skip",
     .about = "action at a step whose loss or gradient norm is not finite or more than "
              "spike_threshold standard deviations above its mean: stop ends the run and names the "
              "last checkpoint; skip drops the batch (weights, moments and step count stay); "
              "rewind goes back to the last checkpoint and continues behind that batch; none: only "
              "a number that is not finite ends the run"},
    {.key = "spike_threshold",
     .type = FIELD_REAL,
     AT(spike_threshold),
     .brief = true,
     .fallback = "6",
     .min = 0,
     .above_min = true,
     .max = 1e6,
     .example = "6.0",
     .about = "number of standard deviations above the mean from which a step is a spike"},
    {.key = "spike_window",
     .type = FIELD_INTEGER64,
     AT(spike_window),
     .brief = true,
     .fallback = "128",
     .min = 2,
     .max = SW_MANY,
     .example = "128",
     .about = "number of steps for mean and standard deviation; before that many steps only a "
              "number that is not finite is a spike"},
    {.key = "max_skips",
     .type = FIELD_INTEGER64,
     AT(max_skips),
     .brief = true,
     .fallback = "10",
     .min = 1,
     .max = SW_MANY,
     .example = "10",
     .about = "largest number of batches that `on_spike: skip` drops in a row; one more ends the "
              "run"},
    {.key = "max_rewinds",
     .type = FIELD_INTEGER64,
     AT(max_rewinds),
     .brief = true,
     .fallback = "3",
     .min = 1,
     .max = SW_MANY,
     .example = "3",
     .about = "largest number of times that `on_spike: rewind` goes back in the whole run; one "
              "more ends it"},
    {.key = NULL},
};
#undef AT

#define AT(member) .offset = offsetof(struct sw_run_config, member)
/* Rows of one target each, in the order of core/base/lora.h. */
#define RANK_OF(target, name)                                                                      \
    {                                                                                              \
        .key = (name), .type = FIELD_INTEGER32, AT(lora.rank_of[target]), .brief = true,           \
        .fallback = "0", .min = 0, .max = 65536, .example = "8",                                   \
        .about = "rank of the adapter of " name "; 0: lora.rank"                                   \
    }
static const struct field run_lora_ranks[] = {
    RANK_OF(0, "q_proj"),    RANK_OF(1, "k_proj"),  RANK_OF(2, "v_proj"),    RANK_OF(3, "o_proj"),
    RANK_OF(4, "gate_proj"), RANK_OF(5, "up_proj"), RANK_OF(6, "down_proj"), {.key = NULL},
};
#undef RANK_OF
#define ALPHA_OF(target, name)                                                                     \
    {                                                                                              \
        .key = (name), .type = FIELD_REAL, AT(lora.alpha_of[target]), .brief = true,               \
        .fallback = "0", .min = 0, .max = SW_BIG, .example = "16",                                 \
        .about = "alpha of the adapter of " name "; 0: lora.alpha"                                 \
    }
static const struct field run_lora_alphas[] = {
    ALPHA_OF(0, "q_proj"),    ALPHA_OF(1, "k_proj"),
    ALPHA_OF(2, "v_proj"),    ALPHA_OF(3, "o_proj"),
    ALPHA_OF(4, "gate_proj"), ALPHA_OF(5, "up_proj"),
    ALPHA_OF(6, "down_proj"), {.key = NULL},
};
#undef ALPHA_OF

const struct field sw_lora_fields[] = {
    {.key = "rank",
     .type = FIELD_INTEGER32,
     AT(lora.rank),
     .brief = true,
     .fallback = "0",
     .min = 0,
     .max = 65536,
     .example = "16",
     .about = "rank of every adapter, PEFT's r; 0: no adapters, all weights are trained"},
    {.key = "alpha",
     .type = FIELD_REAL,
     AT(lora.alpha),
     .brief = true,
     .fallback = "8",
     .min = 0,
     .above_min = true,
     .max = SW_BIG,
     .example = "32",
     .about = "PEFT's lora_alpha: what an adapter adds is multiplied by alpha / rank"},
    {.key = "targets",
     .type = FIELD_TEXT,
     AT(lora.targets),
     .brief = true,
     .commas = true,
     .accept = sw_text_is_not_empty,
     .expects = "names of projections",
     .example = "[q_proj, v_proj]",
     .about = "projections that get an adapter, by PEFT's names: q_proj, k_proj, v_proj, o_proj, "
              "gate_proj, up_proj, down_proj; or all-linear, every one of them; default: [q_proj, "
              "v_proj]"},
    {.key = "rslora",
     .type = FIELD_BOOL,
     AT(lora.rslora),
     .brief = true,
     .fallback = "false",
     .example = "true",
     .about = "true: what an adapter adds is multiplied by alpha / sqrt(rank)"},
    {.key = "rank_pattern",
     .type = FIELD_SECTION,
     .offset = 0,
     .brief = true,
     .fields = run_lora_ranks,
     .example = "{down_proj: 8}",
     .about = "ranks of single projections, the same in every layer"},
    {.key = "alpha_pattern",
     .type = FIELD_SECTION,
     .offset = 0,
     .brief = true,
     .fields = run_lora_alphas,
     .example = "{down_proj: 16}",
     .about = "alphas of single projections, the same in every layer"},
    {.key = "base",
     .type = FIELD_WORD,
     AT(lora.base),
     .brief = true,
     .fallback = "auto",
     .vocabulary = sw_words_base,
     .example = "int8",
     .about = "number format in which the frozen weights are held; int8, e4m3: the layers' "
              "matrices with a scale in fp32 for each of their outputs, widened layer by layer; "
              "auto: precision.compute"},
    {.key = NULL},
};
#undef AT
