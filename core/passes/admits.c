/* Sizes that a mesh must divide: those of activations. Weights may be split unevenly along
 * embed. */
#include "core/base/blockwise.h"
#include "core/ir/options.h"
#include "core/passes/passes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *sw_reject_name(enum sw_reject reason)
{
    static const char *const names[] = {
        [SW_FITS] = "fits",
        [SW_REJECT_PRODUCT] = "product",
        [SW_REJECT_BATCH] = "batch",
        [SW_REJECT_HEADS] = "heads",
        [SW_REJECT_KV_HEADS] = "kv_heads",
        [SW_REJECT_HIDDEN] = "hidden",
        [SW_REJECT_INTERMEDIATE] = "intermediate",
        [SW_REJECT_VOCAB] = "vocab",
        [SW_REJECT_SEQUENCE] = "sequence",
        [SW_REJECT_RULES] = "rules",
        [SW_REJECT_MEMORY] = "memory",
    };
    return names[reason];
}

/* "1, 2, 4 or 8": the divisors of `size`, at most those up to 64. */
static void divisors(int64_t size, char text[128])
{
    int64_t found[12];
    int32_t count = 0;
    for (int64_t d = 1; d <= 64 && count < 12; d++)
        if (size % d == 0)
            found[count++] = d;
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < count && used < 100; i++)
        used += (size_t)snprintf(text + used, 128 - used, "%s%" PRId64,
                                 i == 0 ? "" : (i == count - 1 ? " or " : ", "), found[i]);
}

static bool divides(const struct sw_program_options *o, const char *what, int64_t size,
                    enum sw_logical row, char detail[256], char help[256])
{
    const struct sw_axes axes = sw_axes_effective(&o->mesh, o->rules.axes[row]);
    const int64_t ways = sw_axes_size(&o->mesh, axes);
    if (size % ways == 0)
        return true;
    if (detail == NULL)
        return false;
    char names[32], options[128];
    sw_axes_format(axes, names, sizeof names);
    divisors(size, options);
    snprintf(detail, 256, "%s %" PRId64 " is not divisible by %s %" PRId64, what, size, names,
             ways);
    snprintf(help, 256, "use %s%s %s", axes.count > 1 ? "a product of " : "", names, options);
    return false;
}

static bool admits_batch(const struct sw_program_options *o, char detail[256], char help[256])
{
    const struct sw_axes axes = sw_axes_effective(&o->mesh, o->rules.axes[SW_L_BATCH]);
    const int64_t ways = sw_axes_size(&o->mesh, axes);
    if (o->global_batch < ways) {
        if (detail == NULL)
            return false;
        char names[32];
        snprintf(detail, 256, "global_batch_size %" PRId64 " is smaller than %s %" PRId64,
                 o->global_batch, sw_axes_format(axes, names, sizeof names), ways);
        snprintf(help, 256, "use a batch of at least %" PRId64 " sequences, or more tp or sp",
                 ways);
        return false;
    }
    const int64_t per_rank = (o->global_batch + ways - 1) / ways; /* at most: the rest is padded */
    if (o->micro_batch_per_rank < 1 || o->micro_batch_per_rank > per_rank) {
        if (detail == NULL)
            return false;
        char options[128];
        divisors(per_rank, options);
        snprintf(detail, 256,
                 "micro_batch_size %" PRId64 " is more than the %" PRId64
                 " sequence%s that a rank has in a step",
                 o->micro_batch_per_rank, per_rank, per_rank == 1 ? "" : "s");
        snprintf(help, 256, "use micro_batch_size %s", options);
        return false;
    }
    return true;
}

static bool admits_kv_heads(const struct sw_program_options *o, enum sw_logical row,
                            char detail[256], char help[256])
{
    const int64_t ways = sw_axes_size(&o->mesh, o->rules.axes[row]);
    if (o->model.kv_heads % ways == 0 || ways % o->model.kv_heads == 0)
        return true;
    if (detail == NULL)
        return false;
    char names[32], options[128];
    divisors(o->model.kv_heads, options);
    sw_axes_format(sw_axes_effective(&o->mesh, o->rules.axes[row]), names, sizeof names);
    snprintf(detail, 256, "num_key_value_heads %d and %s %" PRId64 " must divide one another",
             o->model.kv_heads, names, ways);
    snprintf(help, 256, "use %s %s, or a multiple of %d that divides the %d heads", names, options,
             o->model.kv_heads, o->model.heads);
    return false;
}

static bool admits_sequence(const struct sw_program_options *o, char detail[256], char help[256])
{
    static const enum sw_logical rows[] = {SW_L_SEQ, SW_L_RESIDUAL_SEQ, SW_L_ATTN_SEQ,
                                           SW_L_KEY_SEQ};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!divides(o, "sequence_length", o->sequence_length, rows[i], detail, help))
            return false;
    const int64_t shards = sw_axes_size(&o->mesh, o->rules.axes[SW_L_SEQ]);
    if (o->layout == SW_ZIGZAG && shards > 1 && o->sequence_length % (2 * shards) != 0) {
        if (detail == NULL)
            return false;
        snprintf(detail, 256,
                 "sequence_length %" PRId64 " is not divisible by 2 x sp %" PRId64
                 ", as the zigzag layout needs",
                 o->sequence_length, shards);
        snprintf(help, 256,
                 "use a sequence_length that is a multiple of %" PRId64 ", or layout: contiguous",
                 2 * shards);
        return false;
    }
    return true;
}

/* True if blocks of moments are inside a rank's part of a row (blockwise.h). Meshes share
 * checkpoints, so no block may depend on the mesh. */
static bool divides_blocks(const struct sw_program_options *o, const char *what, int64_t size,
                           enum sw_logical row, char detail[256], char help[256])
{
    const struct sw_axes axes = sw_axes_effective(&o->mesh, o->rules.axes[row]);
    const int64_t ways = sw_axes_size(&o->mesh, axes), block = sw_blockwise_elems(size);
    if (o->moments != SW_CODES || block == 0 || ways == 1 || size % (ways * block) == 0)
        return true;
    if (detail == NULL)
        return false;
    char names[32], options[128];
    sw_axes_format(axes, names, sizeof names);
    divisors(size / block, options);
    snprintf(detail, 256,
             "%s, rows of %" PRId64 " in blocks of %" PRId64
             " (optimizer.moments: int8), is not whole blocks on each of %s %" PRId64,
             what, size, block, names, ways);
    snprintf(help, 256, "use %s%s %s, or optimizer.moments: bf16",
             axes.count > 1 ? "a product of " : "", names, options);
    return false;
}

/* Checks the rows of each matrix; rows of a table are whole where they are distributed. */
static enum sw_reject admits_moments(const struct sw_program_options *o, char detail[256],
                                     char help[256])
{
    const struct sw_model *m = &o->model;
    const int64_t dim = m->head_dim;
    const bool split_kv = m->kv_heads % sw_axes_size(&o->mesh, o->rules.axes[SW_L_KV_HEADS]) == 0;
    if (o->moments != SW_CODES)
        return SW_FITS;
    if (!divides_blocks(o, "num_attention_heads", m->heads * dim, SW_L_HEADS, detail, help) ||
        !divides_blocks(o, "num_attention_heads", m->heads * dim, SW_L_ATTN_HEADS, detail, help))
        return SW_REJECT_HEADS;
    if (split_kv &&
        !divides_blocks(o, "num_key_value_heads", m->kv_heads * dim, SW_L_KV_HEADS, detail, help))
        return SW_REJECT_KV_HEADS;
    if (!divides_blocks(o, "intermediate_size", m->intermediate_size, SW_L_MLP, detail, help))
        return SW_REJECT_INTERMEDIATE;
    if (!sw_table_rows(o) &&
        !divides_blocks(o, "hidden_size", m->hidden_size, SW_L_MOMENT_EMBED, detail, help))
        return SW_REJECT_HIDDEN;
    return SW_FITS;
}

/* True if all sizes in bytes fit into int64_t. Upper bound of a rank: weights, gradients and
 * moments in fp32 without sharding, and 16 values of each width for each token of each layer. */
static bool admits_size(const struct sw_program_options *o, char detail[256], char help[256])
{
    const int32_t ways = sw_axes_size(&o->mesh, o->rules.axes[SW_L_MOMENT_EMBED]);
    const double h = (double)o->model.hidden_size, f = (double)o->model.intermediate_size,
                 q = (double)o->model.heads * o->model.head_dim,
                 layers = (double)o->model.layers + 1,
                 rows = (double)sw_padded_size(o->model.hidden_size, ways);
    const double weights =
        layers * rows * (4 * q + 3 * f + 2) + 2 * rows * (double)o->model.vocab_size;
    const double values =
        layers * (double)o->micro_batch_per_rank * (double)o->sequence_length * 16 * (h + q + f);
    if (16 * weights + 4 * values < 0x1p62)
        return true;
    if (detail == NULL)
        return false;
    snprintf(detail, 256,
             "hidden_size %" PRId64 " with sequence_length %" PRId64
             " and micro_batch_size %" PRId64 " needs more memory than any machine has",
             o->model.hidden_size, o->sequence_length, o->micro_batch_per_rank);
    snprintf(help, 256, "use a smaller model, a shorter sequence or a smaller micro_batch_size");
    return false;
}

enum sw_reject sw_program_admits(const struct sw_program_options *o, char detail[256],
                                 char help[256])
{
    struct sw_error wrong = {0};
    if (detail != NULL)
        detail[0] = help[0] = '\0';
    if (sw_rules_check(&o->rules, &wrong) != 0) {
        if (detail != NULL) {
            snprintf(detail, 256, "%.*s", (int)strcspn(wrong.message, ";"), wrong.message);
            snprintf(help, 256, "write its other axes behind these");
        }
        return SW_REJECT_RULES;
    }
    if (!admits_batch(o, detail, help))
        return SW_REJECT_BATCH;
    if (!divides(o, "num_attention_heads", o->model.heads, SW_L_HEADS, detail, help) ||
        !divides(o, "num_attention_heads", o->model.heads, SW_L_ATTN_HEADS, detail, help))
        return SW_REJECT_HEADS;
    if (!admits_kv_heads(o, SW_L_HEADS, detail, help) ||
        !admits_kv_heads(o, SW_L_KV_HEADS, detail, help) ||
        !admits_kv_heads(o, SW_L_ATTN_HEADS, detail, help))
        return SW_REJECT_KV_HEADS;
    const enum sw_reject moments = admits_moments(o, detail, help);
    if (moments != SW_FITS)
        return moments;
    if (!divides(o, "hidden_size", o->model.hidden_size, SW_L_ACT_EMBED, detail, help))
        return SW_REJECT_HIDDEN;
    if (!divides(o, "intermediate_size", o->model.intermediate_size, SW_L_MLP, detail, help))
        return SW_REJECT_INTERMEDIATE;
    if (!divides(o, "vocab_size", o->model.vocab_size, SW_L_VOCAB, detail, help))
        return SW_REJECT_VOCAB;
    if (!admits_sequence(o, detail, help) || !admits_size(o, detail, help))
        return SW_REJECT_SEQUENCE;
    return SW_FITS;
}
