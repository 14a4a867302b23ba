/* Logical axes of tensors, and the table of rules that maps each to mesh axes. Plain values:
 * nothing to free. */
#ifndef SW_RULES_H
#define SW_RULES_H

#include "core/base/words.h"
#include "core/sharding/sharding.h"

/* Logical axis names; the rule table maps each to mesh axes. Names in `sw_logical_name`. */
enum sw_logical {
    SW_L_NONE,         /* never split: head_dim, scalars */
    SW_L_BATCH,        /* "batch" */
    SW_L_SEQ,          /* "seq" */
    SW_L_RESIDUAL_SEQ, /* "residual_seq" */
    SW_L_ATTN_SEQ,     /* "attn_seq": sequence of q and o inside attention */
    SW_L_KEY_SEQ,      /* "key_seq": sequence of k and v inside attention */
    SW_L_ATTN_HEADS,   /* "attn_heads": heads inside attention */
    SW_L_HEADS,        /* "heads" */
    SW_L_KV_HEADS,     /* "kv_heads" */
    SW_L_MLP,          /* "mlp" */
    SW_L_VOCAB,        /* "vocab" */
    SW_L_EMBED,        /* "embed": dimension of stored weights */
    SW_L_ACT_EMBED,    /* "act_embed": dimension of activations and norms */
    SW_L_TABLE, /* "table": the vocabulary as rows of embedding and head, gathered to `vocab` for
                   use; stored as [vocab, embed] where its axes do not divide it */
    /* serving only */
    SW_L_CACHE_SEQ,    /* "cache_seq": positions of the cache of keys and values */
    SW_L_MERGED_HEADS, /* "merged_heads": heads * head_dim at the input of the output projection */
    /* training only; values have these where they split otherwise than the two rows of weights */
    SW_L_GRAD_EMBED,   /* "grad_embed": embed of gradients */
    SW_L_MOMENT_EMBED, /* "moment_embed": embed of masters and moments */
    SW_L_GRAD_TABLE, /* "grad_table", "moment_table": `table` of gradients and moments; a run cannot
                        set them */
    SW_L_MOMENT_TABLE,
    SW_L_WHOLE_EMBED, /* "whole_embed": embed of gathered weights, never split */
    SW_L_COUNT
};
const char *sw_logical_name(enum sw_logical axis);
/* True if shards may be padded: embed. */
static inline bool sw_logical_pads(enum sw_logical axis)
{
    return axis == SW_L_EMBED || axis == SW_L_GRAD_EMBED || axis == SW_L_MOMENT_EMBED ||
           axis == SW_L_WHOLE_EMBED;
}

/* Copies of a parameter that have rows of their own. */
enum sw_parameter_copy { SW_COPY_WEIGHTS, SW_COPY_GRADIENT, SW_COPY_MASTER, SW_COPY_GATHERED };
/* The row of that copy which corresponds to a row of another: `embed` and `table` have one for each
 * copy. */
enum sw_logical sw_logical_of(enum sw_logical axis, enum sw_parameter_copy copy);

struct sw_rules {
    struct sw_axes axes[SW_L_COUNT];
    /* True if a run set that row. Else `table` follows `vocab` and the other axes of `embed`,
     * `grad_embed` follows `embed`, and `moment_embed` follows `grad_embed`. */
    bool names_table, names_gradients, names_masters;
};
/* LWM's table (docs/architecture.md, Sharding), with the strategy's three rows. */
void sw_rules_default(struct sw_rules *rules, enum sw_attention_strategy strategy);
/* Replaces one row by name, and the rows that follow it unless they were set. Errors
 * (SW_BAD_INPUT): unknown name, with did-you-mean. */
int sw_rules_set(struct sw_rules *rules, const char *logical, struct sw_axes axes,
                 struct sw_error *err);

/* Splits over the axes of `embed` (Rajbhandari et al. 2020, ZeRO): at 3 weights, gradients, masters
 * and moments; at 2 all but weights; at 1 masters and moments. zero: 1 to 3. */
void sw_rules_set_zero(struct sw_rules *rules, int32_t zero);
/* The field's name for this sharding of a mesh: "FSDP", "HSDP" (weights over a part of the ranks
 * that share a batch, or masters over more ranks than weights), "ZeRO-2", "ZeRO-1", "DDP". */
const char *sw_rules_sharding(const struct sw_rules *rules, const struct sw_mesh *mesh);
/* Checks that `grad_embed` begins with the axes of `embed`, and `moment_embed` with those of
 * `grad_embed`: a shard of the latter is cut from a shard of the former. Errors (SW_BAD_INPUT). */
int sw_rules_check(const struct sw_rules *rules, struct sw_error *err);

#endif
