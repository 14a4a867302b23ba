/* Description of a dense decoder-only transformer, filled by the configuration, used by fits and by
 * programs' builders. Names follow Hugging Face's config.json if it has one.
 *
 * Plain values without padding, so that two can be compared as bytes; owns nothing. */
#ifndef SW_MODEL_H
#define SW_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Method of stretching rotary angles beyond a model's original length. */
enum sw_rope_scaling {
    SW_ROPE_PLAIN,
    SW_ROPE_LINEAR,  /* position / factor (Chen et al. 2023) */
    SW_ROPE_LLAMA3,  /* by wavelength: long ones / factor, short ones unchanged (Llama 3.1) */
    SW_ROPE_YARN,    /* by pair of elements, and cos and sin times a factor (Peng et al. 2023) */
    SW_ROPE_LONGROPE /* by a list of divisors, and cos and sin times a factor (Ding et al. 2024) */
};
enum { SW_ROPE_MOST_PAIRS = 128 }; /* pairs in a list of divisors */
struct sw_rope {
    double theta;  /* base of the angles */
    double factor; /* linear, llama3, yarn, longrope; else 1 */
    /* llama3: wavelengths above original_positions / low_freq_factor are stretched, those below
     * original_positions / high_freq_factor are not, smoothly between. yarn: the same bounds,
     * called beta_slow and beta_fast, with a ramp by the pair's number. Else 0 */
    double low_freq_factor, high_freq_factor;
    double attention_factor; /* factor of cos and sin: yarn, longrope; 0: 1 */
    int64_t original_positions;
    int32_t scaling;  /* enum sw_rope_scaling */
    int32_t truncate; /* yarn: true if the ramp begins and ends at whole pairs */
};

enum sw_family {
    SW_FAMILY_LLAMA,
    SW_FAMILY_MISTRAL,
    SW_FAMILY_QWEN2,
    SW_FAMILY_QWEN3,
    SW_FAMILY_OLMO2,
    SW_FAMILY_GRANITE,
    SW_FAMILY_GEMMA3, /* text part; its files may stand inside those of a model of images */
    SW_FAMILY_GEMMA2,
    SW_FAMILY_OLMO3,
    SW_FAMILY_PHI3
};

struct sw_model {
    int64_t vocab_size, hidden_size, intermediate_size;
    int64_t max_position_embeddings;
    /* tokens that attention looks back over, including the current one; 0: all. With local layers:
     * in those */
    int64_t sliding_window;
    double rms_norm_eps, initializer_range;
    /* Granite's multipliers of the embedding, of attention's scores (else 1/sqrt(head_dim)) and of
     * a block's output, and the divisor of logits; 0: none */
    double embedding_multiplier, attention_multiplier, residual_multiplier, logits_scaling;
    double query_pre_attn_scalar; /* attention's scores are divided by its root; 0: no effect */
    /* softcaps of attention's scores and of logits: c tanh(x / c); 0: none (Gemma 2) */
    double attention_softcap, final_softcap;
    struct sw_rope rope;
    struct sw_rope local_rope;    /* for local layers; zero: no local layers, or the same as
                                     for all */
    uint64_t local;               /* bit p: layers at position p of the period are local */
    double partial_rotary_factor; /* share of a head that rotates, its first elements; 0: all */
    /* longrope: divisors of the angle of each pair; zeros behind the last. The longest sequence
     * selects the list (sw_rope_divisors) */
    float short_divisors[SW_ROPE_MOST_PAIRS], long_divisors[SW_ROPE_MOST_PAIRS];
    int32_t layers, heads,
        kv_heads;               /* num_hidden_layers, num_attention_heads, num_key_value_heads */
    int32_t head_dim;           /* even; may differ from hidden_size / heads */
    uint8_t family;             /* enum sw_family: for writing config.json */
    bool tied;                  /* tie_word_embeddings */
    bool qkv_bias, output_bias; /* true if the attention's projections have biases */
    bool mlp_bias;
    bool qk_norm;        /* true for RMSNorm of each head of q and k, before the rotation (Qwen3) */
    bool qk_norm_whole;  /* true for RMSNorm over all heads of q, and of k (OLMo 2) */
    bool post_norm;      /* true for norms behind attention and MLP instead of before them
                            (OLMo 2) */
    bool both_norms;     /* with post_norm: true for norms before them, too (Gemma 2, 3) */
    bool norms_plus_one; /* true if norms multiply by 1 + weight */
    bool gelu;           /* true if the MLP's gate is GELU, by tanh, false: SiLU */
    bool embedding_root; /* true if embeddings are multiplied by the root of hidden_size */
    bool fused;          /* true if files have q, k and v in one tensor, and gate and up (Phi-3) */
    uint8_t period;      /* layers l and l + period are of one kind; 0: all layers are */
    bool sinks;          /* true for a learned score of each head in the softmax's sum (gpt-oss) */
    uint8_t unused[1];   /* zero */
};
_Static_assert(sizeof(struct sw_model) == (34 + SW_ROPE_MOST_PAIRS) * 8,
               "no padding: models are compared as bytes");

enum { SW_MOST_PERIOD = 64 };

static inline bool sw_model_is_local(const struct sw_model *model, int32_t position)
{
    return (model->local >> position & 1u) != 0;
}

/* Tokens that attention looks back over in layers at that position of the period; 0: all. */
static inline int64_t sw_model_window(const struct sw_model *model, int32_t position)
{
    return model->local == 0 || sw_model_is_local(model, position) ? model->sliding_window : 0;
}

/* Elements of a head that rotate, as transformers rounds them. */
static inline int32_t sw_model_rotated(const struct sw_model *model)
{
    return model->partial_rotary_factor != 0
               ? (int32_t)((double)model->head_dim * model->partial_rotary_factor)
               : model->head_dim;
}

/* The longrope list for sequences of up to so many positions; NULL: none. */
static inline const float *sw_rope_divisors(const struct sw_model *model, int64_t positions)
{
    if (model->rope.scaling != SW_ROPE_LONGROPE)
        return NULL;
    return positions > model->rope.original_positions ? model->long_divisors
                                                      : model->short_divisors;
}

/* Period, at most the number of layers. */
static inline int32_t sw_model_period(const struct sw_model *model)
{
    const int32_t period = model->period > 0 ? model->period : 1;
    return period < model->layers ? period : model->layers;
}

#endif
