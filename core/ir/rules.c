/* Logical axis names and the table that maps them to mesh axes. */
#include "core/base/text.h"
#include "core/ir/program.h"

#include <string.h>

static const char *const logical_names[SW_L_COUNT] = {
    [SW_L_NONE] = "-",
    [SW_L_BATCH] = "batch",
    [SW_L_SEQ] = "seq",
    [SW_L_RESIDUAL_SEQ] = "residual_seq",
    [SW_L_ATTN_SEQ] = "attn_seq",
    [SW_L_KEY_SEQ] = "key_seq",
    [SW_L_ATTN_HEADS] = "attn_heads",
    [SW_L_HEADS] = "heads",
    [SW_L_KV_HEADS] = "kv_heads",
    [SW_L_MLP] = "mlp",
    [SW_L_VOCAB] = "vocab",
    [SW_L_EMBED] = "embed",
    [SW_L_ACT_EMBED] = "act_embed",
    [SW_L_TABLE] = "table",
    [SW_L_CACHE_SEQ] = "cache_seq",
    [SW_L_MERGED_HEADS] = "merged_heads",
};

const char *sw_logical_name(enum sw_logical axis)
{
    return logical_names[axis];
}

/* In as many parts as [vocab, embed] would be. */
static void derive_table(struct sw_rules *rules)
{
    static const enum sw_logical from[] = {SW_L_VOCAB, SW_L_EMBED};
    struct sw_axes table = {0};
    for (int i = 0; i < 2; i++)
        for (uint8_t k = 0; k < rules->axes[from[i]].count; k++) {
            const uint8_t axis = rules->axes[from[i]].axis[k];
            if (memchr(table.axis, axis, table.count) == NULL)
                table.axis[table.count++] = axis;
        }
    rules->axes[SW_L_TABLE] = table;
}

void sw_rules_default(struct sw_rules *rules, enum sw_attention_strategy strategy)
{
    const struct sw_axes none = {0}, tp = {1, {SW_TP}}, sp = {1, {SW_SP}};
    for (int32_t i = 0; i < SW_L_COUNT; i++)
        rules->axes[i] = none;
    rules->axes[SW_L_BATCH] = (struct sw_axes){2, {SW_DP, SW_FSDP}};
    rules->axes[SW_L_SEQ] = sp;
    rules->axes[SW_L_RESIDUAL_SEQ] = sp;
    rules->axes[SW_L_ATTN_SEQ] = strategy == SW_ATTENTION_ULYSSES ? none : sp;
    rules->axes[SW_L_KEY_SEQ] = strategy == SW_ATTENTION_RING ? sp : none;
    rules->axes[SW_L_ATTN_HEADS] =
        strategy == SW_ATTENTION_ULYSSES ? (struct sw_axes){2, {SW_TP, SW_SP}} : tp;
    rules->axes[SW_L_HEADS] = tp;
    rules->axes[SW_L_KV_HEADS] = tp;
    rules->axes[SW_L_MLP] = tp;
    rules->axes[SW_L_VOCAB] = tp;
    rules->axes[SW_L_EMBED] = (struct sw_axes){2, {SW_FSDP, SW_SP}};
    rules->axes[SW_L_CACHE_SEQ] = sp;
    rules->axes[SW_L_MERGED_HEADS] = tp;
    rules->names_table = false;
    derive_table(rules);
}

int sw_rules_set(struct sw_rules *rules, const char *logical, struct sw_axes axes,
                 struct sw_error *err)
{
    for (int32_t i = SW_L_BATCH; i < SW_L_COUNT; i++)
        if (strcmp(logical_names[i], logical) == 0) {
            rules->axes[i] = axes;
            rules->names_table = rules->names_table || i == SW_L_TABLE;
            if (!rules->names_table)
                derive_table(rules);
            return 0;
        }
    const char *near =
        sw_text_nearest(logical, &logical_names[SW_L_BATCH], SW_L_COUNT - SW_L_BATCH);
    if (near != NULL)
        return sw_fail(err, SW_BAD_INPUT, "unknown logical axis '%s'; did you mean '%s'?", logical,
                       near);
    return sw_fail(err, SW_BAD_INPUT,
                   "unknown logical axis '%s'; use batch, seq, residual_seq, attn_seq, key_seq, "
                   "attn_heads, heads, "
                   "kv_heads, mlp, vocab, embed, act_embed, table, cache_seq or merged_heads",
                   logical);
}
