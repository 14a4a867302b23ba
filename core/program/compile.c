/* The pipeline, the names, the rule table, and what a mesh must divide. */
#include "core/base/text.h"
#include "core/program/builder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

size_t sw_dtype_bytes(enum sw_dtype dtype)
{
    static const size_t bytes[SW_DTYPE_COUNT] = {
        [SW_F32] = 4, [SW_BF16_T] = 2, [SW_F64] = 8, [SW_I32] = 4};
    return bytes[dtype];
}

const char *sw_dtype_name(enum sw_dtype dtype)
{
    static const char *const names[SW_DTYPE_COUNT] = {
        [SW_F32] = "f32", [SW_BF16_T] = "bf16", [SW_F64] = "f64", [SW_I32] = "i32"};
    return names[dtype];
}

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
};

const char *sw_logical_name(enum sw_logical axis)
{
    return logical_names[axis];
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
}

int sw_rules_set(struct sw_rules *rules, const char *logical, struct sw_axes axes,
                 struct sw_error *err)
{
    for (int32_t i = SW_L_BATCH; i < SW_L_COUNT; i++) {
        if (strcmp(logical_names[i], logical) == 0) {
            rules->axes[i] = axes;
            return 0;
        }
    }
    const char *near =
        sw_text_nearest(logical, &logical_names[SW_L_BATCH], SW_L_COUNT - SW_L_BATCH);
    if (near != NULL)
        return sw_fail(err, SW_BAD_INPUT, "unknown logical axis '%s'; did you mean '%s'?", logical,
                       near);
    return sw_fail(err, SW_BAD_INPUT,
                   "unknown logical axis '%s'; use batch, seq, residual_seq, attn_seq, key_seq, "
                   "attn_heads, heads, "
                   "kv_heads, mlp, vocab, embed or act_embed",
                   logical);
}

/* ---- What must divide ---- */

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
    if (!divides(o, "global_batch_size", o->global_batch, SW_L_BATCH, detail, help))
        return false;
    const int64_t per_rank = o->global_batch / ways;
    if (o->micro_batch_per_rank < 1 || per_rank % o->micro_batch_per_rank != 0) {
        if (detail == NULL)
            return false;
        char options[128];
        divisors(per_rank, options);
        snprintf(detail, 256,
                 "micro_batch_size %" PRId64 " does not divide the %" PRId64
                 " sequences of each rank",
                 o->micro_batch_per_rank, per_rank);
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
    snprintf(detail, 256, "num_key_value_heads %d and %s %" PRId64 " do not divide one another",
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

/* Sizes in bytes are int64_t. What one rank holds at most: weights, gradients and moments in fp32
 * where nothing is sharded, and 16 values of each width for each token of each layer. */
static bool admits_size(const struct sw_program_options *o, char detail[256], char help[256])
{
    const double h = (double)o->model.hidden_size, f = (double)o->model.intermediate_size,
                 q = (double)o->model.heads * o->model.head_dim,
                 layers = (double)o->model.layers + 1;
    const double weights = layers * h * (4 * q + 3 * f + 2) + 2 * h * (double)o->model.vocab_size;
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
    if (detail != NULL)
        detail[0] = help[0] = '\0';
    if (!admits_batch(o, detail, help))
        return SW_REJECT_BATCH;
    if (!divides(o, "num_attention_heads", o->model.heads, SW_L_HEADS, detail, help) ||
        !divides(o, "num_attention_heads", o->model.heads, SW_L_ATTN_HEADS, detail, help))
        return SW_REJECT_HEADS;
    if (!admits_kv_heads(o, SW_L_HEADS, detail, help) ||
        !admits_kv_heads(o, SW_L_KV_HEADS, detail, help) ||
        !admits_kv_heads(o, SW_L_ATTN_HEADS, detail, help))
        return SW_REJECT_KV_HEADS;
    if (!divides(o, "hidden_size", o->model.hidden_size, SW_L_EMBED, detail, help) ||
        !divides(o, "hidden_size", o->model.hidden_size, SW_L_ACT_EMBED, detail, help))
        return SW_REJECT_HIDDEN;
    if (!divides(o, "intermediate_size", o->model.intermediate_size, SW_L_MLP, detail, help))
        return SW_REJECT_INTERMEDIATE;
    if (!divides(o, "vocab_size", o->model.vocab_size, SW_L_VOCAB, detail, help))
        return SW_REJECT_VOCAB;
    if (!admits_sequence(o, detail, help) || !admits_size(o, detail, help))
        return SW_REJECT_SEQUENCE;
    return SW_FITS;
}

/* ---- The pipeline ---- */

/* What depends on sizes that may differ between programs of one structure. */
static void set_sizes(const struct sw_program_options *o, struct sw_program *p)
{
    p->mesh = o->mesh;
    p->micro_batch = o->micro_batch_per_rank * sw_axes_size(&o->mesh, o->rules.axes[SW_L_BATCH]);
    p->accumulation_steps = (int32_t)(o->global_batch / p->micro_batch);
    p->tokens_per_step = o->global_batch * o->sequence_length;
    p->sequence_shards = sw_axes_size(&o->mesh, o->rules.axes[SW_L_SEQ]);
    p->sequence_layout = p->sequence_shards > 1 ? o->layout : SW_CONTIGUOUS;
}

static int logical_program(const struct sw_program_options *o, enum sw_program_stage until,
                           struct sw_program *p, struct sw_error *err)
{
    struct sw_builder b = {.program = p, .options = o, .region = -1};
    p->layers = o->model.layers;
    p->sequence_length = o->sequence_length;
    set_sizes(o, p);
    p->stage = SW_LOGICAL;
    if (sw_build_transformer(&b, err) != 0)
        return -1;
    if (until == SW_LOGICAL)
        return 0;
    if (o->forward_only) {
        sw_build_mean_loss(&b);
        if (b.failed)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory while building the program");
    } else if (sw_differentiate(&b, err) != 0) {
        return -1;
    }
    p->stage = SW_DIFFERENTIATED;
    return 0;
}

/* Gives back what the arrays were grown by in advance: a search keeps many programs. */
static void trim(struct sw_program *p)
{
    struct sw_value *values = realloc(p->values, (size_t)p->value_count * sizeof *values);
    struct sw_op *ops = realloc(p->ops, (size_t)p->op_count * sizeof *ops);
    if (values != NULL) {
        p->values = values;
        p->value_capacity = p->value_count;
    }
    if (ops != NULL) {
        p->ops = ops;
        p->op_capacity = p->op_count;
    }
}

int sw_program_compile(const struct sw_program_options *options, enum sw_program_stage until,
                       struct sw_program **out, struct sw_error *err)
{
    char detail[256], help[256];
    if (sw_program_admits(options, detail, help) != SW_FITS)
        return sw_fail(err, SW_UNMET, "%s; %s", detail, help);
    struct sw_program *logical = sw_program_new(), *p = NULL;
    if (logical == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while building the program");
    if (logical_program(options, until, logical, err) != 0)
        goto fail;
    if (until <= SW_DIFFERENTIATED) {
        *out = logical;
        return 0;
    }
    if (sw_partition(logical, &p, err) != 0)
        goto fail;
    sw_program_free(logical);
    logical = NULL;
    if (until >= SW_SCHEDULED && (sw_merge_head(p, err) != 0 || sw_schedule(p, err) != 0))
        goto fail;
    trim(p);
    if (until >= SW_LAID_OUT && sw_layout(p, err) != 0)
        goto fail;
    *out = p;
    return 0;
fail:
    sw_program_free(logical);
    sw_program_free(p);
    return -1;
}

static void mix(uint64_t *hash, uint64_t value)
{
    *hash = (*hash ^ value) * 1099511628211u;
    *hash ^= *hash >> 29;
}

static void mix_real(uint64_t *hash, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    mix(hash, bits);
}

uint64_t sw_program_structure(const struct sw_program_options *o)
{
    uint64_t hash = 14695981039346656037u;
    const int64_t micro_batch =
        o->micro_batch_per_rank * sw_axes_size(&o->mesh, o->rules.axes[SW_L_BATCH]);
    const int64_t whole[] = {o->model.vocab_size,
                             o->model.hidden_size,
                             o->model.intermediate_size,
                             o->model.layers,
                             o->model.heads,
                             o->model.kv_heads,
                             o->model.head_dim,
                             o->model.tied,
                             o->sequence_length,
                             o->global_batch,
                             o->compute,
                             o->params,
                             o->reduce,
                             o->layout,
                             o->recompute,
                             o->forward_only,
                             o->logits};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        mix(&hash, (uint64_t)whole[i]);
    mix_real(&hash, o->model.rope.theta);
    mix_real(&hash, o->model.rms_norm_eps);
    mix(&hash, micro_batch == o->global_batch);
    mix(&hash, sw_kv_copies(o) > 1);
    mix(&hash, o->model.kv_heads % sw_axes_size(&o->mesh, o->rules.axes[SW_L_KV_HEADS]) == 0);
    for (int32_t row = 0; row < SW_L_COUNT; row++) {
        const struct sw_axes axes = sw_axes_effective(&o->mesh, o->rules.axes[row]);
        mix(&hash, axes.count);
        for (uint8_t i = 0; i < axes.count; i++)
            mix(&hash, axes.axis[i]);
    }
    return hash;
}

int sw_program_resize(struct sw_program *p, const struct sw_program_options *o,
                      struct sw_error *err)
{
    const int32_t copies = sw_kv_copies(o);
    const struct sw_sizes sizes = {
        .batch = o->micro_batch_per_rank * sw_axes_size(&o->mesh, o->rules.axes[SW_L_BATCH]),
        .kv_heads = (int64_t)o->model.kv_heads * o->model.head_dim * copies,
        .stats = (int64_t)SW_STATS_PER_SHARD * sw_axes_size(&o->mesh, o->rules.axes[SW_L_VOCAB])};
    struct sw_program_options before = *o;
    before.mesh = p->mesh;
    const bool same_ops =
        sw_kv_copies(&before) == copies && sw_axes_size(&before.mesh, o->rules.axes[SW_L_SEQ]) ==
                                               sw_axes_size(&o->mesh, o->rules.axes[SW_L_SEQ]);
    set_sizes(o, p);
    for (int32_t i = 0; !same_ops && i < p->op_count; i++) {
        struct sw_op *op = &p->ops[i];
        if (op->kind == SW_OP_RING_ATTENTION || op->kind == SW_OP_RING_ATTENTION_GRAD) {
            op->sequence_shards = p->sequence_shards;
            op->group = o->model.heads / (o->model.kv_heads * copies);
        } else if (op->kind == SW_OP_REPLICATE_HEADS || op->kind == SW_OP_REPLICATE_HEADS_GRAD) {
            op->group = copies;
        }
    }
    return sw_layout_measure(p, &sizes, err);
}

void sw_program_place(struct sw_program *p)
{
    sw_layout_place(p);
}

int sw_program_retarget(struct sw_program *p, const struct sw_program_options *o,
                        struct sw_error *err)
{
    if (sw_program_resize(p, o, err) != 0)
        return -1;
    sw_layout_place(p);
    return 0;
}
