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
    [SW_L_GRAD_EMBED] = "grad_embed",
    [SW_L_MOMENT_EMBED] = "moment_embed",
    [SW_L_GRAD_TABLE] = "grad_table",
    [SW_L_MOMENT_TABLE] = "moment_table",
    [SW_L_WHOLE_EMBED] = "whole_embed",
};
/* End of the rows that a run may set. */
enum { ROWS_END = SW_L_GRAD_TABLE };

const char *sw_logical_name(enum sw_logical axis)
{
    return logical_names[axis];
}

enum sw_logical sw_logical_of(enum sw_logical axis, enum sw_parameter_copy copy)
{
    static const enum sw_logical embed[] = {SW_L_EMBED, SW_L_GRAD_EMBED, SW_L_MOMENT_EMBED,
                                            SW_L_WHOLE_EMBED},
                                 table[] = {SW_L_TABLE, SW_L_GRAD_TABLE, SW_L_MOMENT_TABLE,
                                            SW_L_VOCAB};
    for (int i = SW_COPY_WEIGHTS; i <= SW_COPY_MASTER; i++)
        if (axis == embed[i] || axis == table[i])
            return axis == embed[i] ? embed[copy] : table[copy];
    return axis;
}

/* Appends to `to` those of `axes` that it does not have. */
static void append_axes(struct sw_axes *to, const struct sw_axes *axes)
{
    for (uint8_t k = 0; k < axes->count; k++)
        if (memchr(to->axis, axes->axis[k], to->count) == NULL)
            to->axis[to->count++] = axes->axis[k];
}

/* Derives the rows that were not set. A table has as many parts as [vocab, embed] would; gradients
 * and moments have those of the weights and their own. */
static void derive(struct sw_rules *rules)
{
    struct sw_axes *row = rules->axes;
    if (!rules->names_gradients)
        row[SW_L_GRAD_EMBED] = row[SW_L_EMBED];
    if (!rules->names_masters)
        row[SW_L_MOMENT_EMBED] = row[SW_L_GRAD_EMBED];
    if (!rules->names_table) {
        row[SW_L_TABLE] = (struct sw_axes){0};
        append_axes(&row[SW_L_TABLE], &row[SW_L_VOCAB]);
        append_axes(&row[SW_L_TABLE], &row[SW_L_EMBED]);
    }
    row[SW_L_GRAD_TABLE] = row[SW_L_TABLE];
    if (!rules->names_table)
        append_axes(&row[SW_L_GRAD_TABLE], &row[SW_L_GRAD_EMBED]);
    row[SW_L_MOMENT_TABLE] = row[SW_L_GRAD_TABLE];
    if (!rules->names_table)
        append_axes(&row[SW_L_MOMENT_TABLE], &row[SW_L_MOMENT_EMBED]);
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
    rules->names_table = rules->names_gradients = rules->names_masters = false;
    derive(rules);
}

int sw_rules_set(struct sw_rules *rules, const char *logical, struct sw_axes axes,
                 struct sw_error *err)
{
    for (int32_t i = SW_L_BATCH; i < ROWS_END; i++)
        if (strcmp(logical_names[i], logical) == 0) {
            rules->axes[i] = axes;
            rules->names_table = rules->names_table || i == SW_L_TABLE;
            rules->names_gradients = rules->names_gradients || i == SW_L_GRAD_EMBED;
            rules->names_masters = rules->names_masters || i == SW_L_MOMENT_EMBED;
            derive(rules);
            return 0;
        }
    const char *near = sw_text_nearest(logical, &logical_names[SW_L_BATCH], ROWS_END - SW_L_BATCH);
    if (near != NULL)
        return sw_fail(err, SW_BAD_INPUT, "unknown logical axis '%s'; did you mean '%s'?", logical,
                       near);
    return sw_fail(err, SW_BAD_INPUT,
                   "unknown logical axis '%s'; use batch, seq, residual_seq, attn_seq, key_seq, "
                   "attn_heads, heads, "
                   "kv_heads, mlp, vocab, embed, grad_embed, moment_embed, act_embed, table, "
                   "cache_seq or merged_heads",
                   logical);
}

void sw_rules_set_zero(struct sw_rules *rules, int32_t zero)
{
    const struct sw_axes split = rules->axes[SW_L_EMBED], whole = {0};
    rules->axes[SW_L_EMBED] = zero < 3 ? whole : split;
    rules->axes[SW_L_GRAD_EMBED] = zero < 2 ? whole : split;
    rules->axes[SW_L_MOMENT_EMBED] = split;
    rules->names_gradients = rules->names_masters = true;
    derive(rules);
}

const char *sw_rules_sharding(const struct sw_rules *rules, const struct sw_mesh *mesh)
{
    const int32_t weights = sw_axes_size(mesh, rules->axes[SW_L_EMBED]),
                  gradients = sw_axes_size(mesh, rules->axes[SW_L_GRAD_EMBED]),
                  masters = sw_axes_size(mesh, rules->axes[SW_L_MOMENT_EMBED]);
    if (masters == 1)
        return "DDP";
    if (weights == 1)
        return gradients == 1 ? "ZeRO-1" : "ZeRO-2";
    return weights < masters || mesh->size[SW_DP] > 1 ? "HSDP" : "FSDP";
}

static bool begins_as(const struct sw_axes *axes, const struct sw_axes *with)
{
    return axes->count >= with->count && memcmp(axes->axis, with->axis, with->count) == 0;
}

int sw_rules_check(const struct sw_rules *rules, struct sw_error *err)
{
    static const enum sw_logical rows[] = {SW_L_EMBED, SW_L_GRAD_EMBED, SW_L_MOMENT_EMBED};
    for (int i = 1; i < 3; i++) {
        const struct sw_axes *is = &rules->axes[rows[i]], *of = &rules->axes[rows[i - 1]];
        char mine[32], others[32];
        if (begins_as(is, of))
            continue;
        return sw_fail(err, SW_BAD_INPUT,
                       "'%s' [%s] does not begin as '%s' [%s]; what is split over more ranks is "
                       "cut from what is split over fewer, so put the other axes behind these",
                       logical_names[rows[i]], sw_axes_format(*is, mine, sizeof mine),
                       logical_names[rows[i - 1]], sw_axes_format(*of, others, sizeof others));
    }
    return 0;
}
