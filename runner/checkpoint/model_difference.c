/* Differences between two models. */
#include "core/base/hash.h"
#include "core/config/config.h"
#include "runner/checkpoint/model_folder.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum form { FORM_INT64, FORM_INT32, FORM_REAL, FORM_BOOL, FORM_BYTE, FORM_SCALING, FORM_LIST };

#define AT(member) offsetof(struct sw_model, member)
/* Settings with config.json's names, in the order of reporting. Excluded: the family, which the
 * others imply, the longest sequence, and initialization. */
static const struct setting {
    const char *name;
    size_t offset;
    enum form form;
} settings[] = {
    {"vocab_size", AT(vocab_size), FORM_INT64},
    {"hidden_size", AT(hidden_size), FORM_INT64},
    {"intermediate_size", AT(intermediate_size), FORM_INT64},
    {"num_hidden_layers", AT(layers), FORM_INT32},
    {"num_attention_heads", AT(heads), FORM_INT32},
    {"num_key_value_heads", AT(kv_heads), FORM_INT32},
    {"head_dim", AT(head_dim), FORM_INT32},
    {"tie_word_embeddings", AT(tied), FORM_BOOL},
    {"bias of q, k and v", AT(qkv_bias), FORM_BOOL},
    {"bias of attention's output", AT(output_bias), FORM_BOOL},
    {"mlp_bias", AT(mlp_bias), FORM_BOOL},
    {"norm of q and k", AT(qk_norm), FORM_BOOL},
    {"norm of all heads of q and k", AT(qk_norm_whole), FORM_BOOL},
    {"norms behind attention and MLP", AT(post_norm), FORM_BOOL},
    {"norms before and behind them", AT(both_norms), FORM_BOOL},
    {"norms' 1 + weight", AT(norms_plus_one), FORM_BOOL},
    {"GELU", AT(gelu), FORM_BOOL},
    {"embeddings' factor by width", AT(embedding_root), FORM_BOOL},
    {"projections in one tensor", AT(fused), FORM_BOOL},
    {"layers with a window", AT(local), FORM_INT64},
    {"period of layers", AT(period), FORM_BYTE},
    {"rope_local_base_freq", AT(local_rope.theta), FORM_REAL},
    {"embedding_multiplier", AT(embedding_multiplier), FORM_REAL},
    {"attention_multiplier", AT(attention_multiplier), FORM_REAL},
    {"query_pre_attn_scalar", AT(query_pre_attn_scalar), FORM_REAL},
    {"attn_logit_softcapping", AT(attention_softcap), FORM_REAL},
    {"final_logit_softcapping", AT(final_softcap), FORM_REAL},
    {"residual_multiplier", AT(residual_multiplier), FORM_REAL},
    {"logits_scaling", AT(logits_scaling), FORM_REAL},
    {"rms_norm_eps", AT(rms_norm_eps), FORM_REAL},
    {"sliding_window", AT(sliding_window), FORM_INT64},
    {"rope_theta", AT(rope.theta), FORM_REAL},
    {"rope_type", AT(rope.scaling), FORM_SCALING},
    {"rope's factor", AT(rope.factor), FORM_REAL},
    {"rope's low_freq_factor", AT(rope.low_freq_factor), FORM_REAL},
    {"rope's high_freq_factor", AT(rope.high_freq_factor), FORM_REAL},
    {"rope's original_max_position_embeddings", AT(rope.original_positions), FORM_INT64},
    {"rope's attention_factor", AT(rope.attention_factor), FORM_REAL},
    {"rope's truncate", AT(rope.truncate), FORM_INT32},
    {"rope's short_factor", AT(short_divisors), FORM_LIST},
    {"rope's long_factor", AT(long_divisors), FORM_LIST},
    {"partial_rotary_factor", AT(partial_rotary_factor), FORM_REAL},
};
#undef AT

/* Formats a setting as in config.json. */
static const char *write(const struct setting *s, const struct sw_model *model, char text[40])
{
    const char *at = (const char *)model + s->offset;
    int64_t wide = 0;
    int32_t narrow;
    double real;
    bool flag;
    switch (s->form) {
    case FORM_INT64:
        memcpy(&wide, at, sizeof wide);
        break;
    case FORM_SCALING:
        return sw_rope_type_name((const struct sw_rope *)(at - offsetof(struct sw_rope, scaling)));
    case FORM_LIST:
        snprintf(text, 40, "the list %016" PRIx64,
                 sw_hash_bytes(SW_HASH_START, at, sizeof model->short_divisors));
        return text;
    case FORM_INT32:
        memcpy(&narrow, at, sizeof narrow);
        wide = narrow;
        break;
    case FORM_BYTE:
        wide = (uint8_t)*at;
        break;
    case FORM_REAL:
        memcpy(&real, at, sizeof real);
        snprintf(text, 40, "%.15g", real);
        if (strtod(text, NULL) != real)
            snprintf(text, 40, "%.17g", real);
        return text;
    case FORM_BOOL:
        memcpy(&flag, at, sizeof flag);
        return flag ? "true" : "false";
    }
    snprintf(text, 40, "%" PRId64, wide);
    return text;
}

const char *sw_model_difference(const struct sw_model *stored, const struct sw_model *wanted,
                                char buffer[160])
{
    char was[40], is[40];
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const struct setting *s = &settings[i];
        const char *a = write(s, stored, was), *b = write(s, wanted, is);
        if (strcmp(a, b) == 0)
            continue;
        snprintf(buffer, 160, "%s is %s, not %s", s->name, a, b);
        return buffer;
    }
    return NULL;
}

void sw_model_take_rope(struct sw_model *model, const struct sw_model *of)
{
    model->rope = of->rope;
    model->local_rope = of->local_rope;
    memcpy(model->short_divisors, of->short_divisors, sizeof model->short_divisors);
    memcpy(model->long_divisors, of->long_divisors, sizeof model->long_divisors);
}
