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
    SW_L_ATTN_SEQ,     /* "attn_seq": sequence of q, o inside attention */
    SW_L_KEY_SEQ,      /* "key_seq": sequence of k, v inside attention */
    SW_L_ATTN_HEADS,   /* "attn_heads": heads inside attention */
    SW_L_HEADS,        /* "heads" */
    SW_L_KV_HEADS,     /* "kv_heads" */
    SW_L_MLP,          /* "mlp" */
    SW_L_VOCAB,        /* "vocab" */
    SW_L_EMBED,        /* "embed": of weights, gradients, optimizer state */
    SW_L_ACT_EMBED,    /* "act_embed": of activations and norms */
    SW_L_TABLE,        /* "table": the vocabulary as rows of embedding and head, which are gathered
                          to `vocab` where they are used; where its axes do not divide it the two
                          lie as [vocab, embed] */
    /* only for serving */
    SW_L_CACHE_SEQ,    /* "cache_seq": positions of the cache of keys and values */
    SW_L_MERGED_HEADS, /* "merged_heads": heads * head_dim, as the output projection takes them */
    SW_L_COUNT
};
const char *sw_logical_name(enum sw_logical axis);
/* True if it may be split into shards that its size does not fill: embed. */
static inline bool sw_logical_pads(enum sw_logical axis)
{
    return axis == SW_L_EMBED;
}

struct sw_rules {
    struct sw_axes axes[SW_L_COUNT];
    bool names_table; /* a run set that row; else it is `vocab` and what else `embed` has */
};
/* LWM's table (docs/architecture.md, Sharding) with the strategy's three rows. */
void sw_rules_default(struct sw_rules *rules, enum sw_attention_strategy strategy);
/* Replaces one row by name; with `vocab` and `embed` goes `table`, unless it was set itself.
 * Errors (SW_BAD_INPUT): unknown name, with did-you-mean. */
int sw_rules_set(struct sw_rules *rules, const char *logical, struct sw_axes axes,
                 struct sw_error *err);

#endif
