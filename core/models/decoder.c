/* A dense decoder as ops on logical values: pre-norm blocks with RMSNorm, rotary positions,
 * grouped-query attention and SwiGLU, tied or untied head, as in Llama (Touvron et al. 2023,
 * Grattafiori et al. 2024) and Mistral (Jiang et al. 2023). Qwen2 (Yang et al. 2024) adds biases to
 * q, k and v; Qwen3 (Yang et al. 2025) norms of each head of q and k; OLMo 2 (OLMo et al. 2024) has
 * norms over all of q and k, and norms behind blocks instead of before them; Granite (IBM 2024) has
 * multipliers; Gemma 3 (Gemma Team 2025) has norms before and behind blocks, which multiply by 1 +
 * weight, GELU, and layers of two kinds. struct sw_model says which of these a model has. */
#include "core/models/decoder.h"
#include "core/base/number.h"
#include "core/base/quantize.h"
#include "core/models/parameters.h"

#include <fnmatch.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- Parameters ---- */

enum { SW_PATTERN_BYTES = 128 };

enum width {
    NOTHING,
    EMBED,
    ACT_EMBED,
    TABLE,
    TABLE_WIDTH,
    QUERIES,
    KEYS,
    OUTPUT,
    MLP,
    HEAD_DIM,
    HEADS,
    RANK,
    WIDTHS
};

/* Declaration of a weight: a matrix [rows, columns] or a vector [columns], and the member of struct
 * sw_model that enables it (with WITHOUT: disables it), or ALWAYS; with ADAPTER, the target of
 * LoRA. */
enum { ALWAYS = 0, WITHOUT = 0x8000, ADAPTER = 0x4000 };
static const struct declaration {
    struct sw_parameter is;
    uint8_t rows, columns; /* enum width */
    uint16_t wanted;
} declarations[SW_DECODER_WEIGHTS] = {
#define IF(member) offsetof(struct sw_model, member)
#define UNLESS(member) (WITHOUT | IF(member))
#define KEPT true, true, SW_ORIGIN_RUN /* trained, saved, read from the run's files */
#define SW_MATRIX(KIND, name, stored, PART, file_order, transposed, ROWS, COLUMNS, tied)           \
    {{name, stored, SW_##PART, file_order, transposed, true, SW_INITIAL_NORMAL, tied, KEPT,        \
      false},                                                                                      \
     ROWS,                                                                                         \
     COLUMNS,                                                                                      \
     ALWAYS},
#define SW_VECTOR(KIND, name, stored, PART, file_order, INITIAL, COLUMNS, wanted)                  \
    {{name, stored, SW_##PART, file_order, false, false, SW_INITIAL_##INITIAL, NULL, KEPT, false}, \
     NOTHING,                                                                                      \
     COLUMNS,                                                                                      \
     wanted},
#define SW_ADAPTER(KIND, name, stored, file_order, transposed, INITIAL, ROWS, COLUMNS, TARGET)     \
    {{name, stored, SW_OF_LAYER, file_order, transposed, true, SW_INITIAL_##INITIAL, NULL, KEPT,   \
      true},                                                                                       \
     ROWS,                                                                                         \
     COLUMNS,                                                                                      \
     ADAPTER | SW_LORA_##TARGET},
#include "core/models/weights.def"
};
/* Replacements in models that are fused; name NULL: none. */
static const struct sw_parameter fused[SW_DECODER_WEIGHTS] = {
#define SW_FUSED(KIND, name, stored, file_order)                                                   \
    [SW_W_##KIND] = {name, stored, SW_OF_LAYER, file_order, true, true, SW_INITIAL_NORMAL,         \
                     NULL, KEPT,   false},
#include "core/models/weights.def"
#undef IF
#undef UNLESS
#undef KEPT
};

static const struct sw_parameter *parameter_of(const struct sw_model *m, int32_t i)
{
    return m->fused && fused[i].name != NULL ? &fused[i] : &declarations[i].is;
}

/* Target of an adapter's matrix; -1: a matrix of the model. */
static int32_t target_of(int32_t i)
{
    const uint16_t wanted = declarations[i].wanted;
    return (wanted & ADAPTER) != 0 ? wanted & ~ADAPTER : -1;
}

/* True if the model itself has that parameter; adapters do not count. */
static bool has(const struct sw_model *m, int32_t i)
{
    const uint16_t wanted = declarations[i].wanted;
    if ((wanted & ADAPTER) != 0)
        return false;
    const bool set = ((const char *)m)[wanted & ~WITHOUT] != 0;
    return wanted == ALWAYS || set == ((wanted & WITHOUT) == 0);
}

/* True if a pattern matches a parameter's name, or that of a module around it: the part before one
 * of its dots. */
static bool matches(const char *pattern, uint8_t part, const char *stored)
{
    char name[SW_PATTERN_BYTES];
    snprintf(name, sizeof name, "%s%s", part == SW_OF_LAYER ? "model.layers.*." : "", stored);
    for (char *end = name + strlen(name); end != NULL; end = strrchr(name, '.')) {
        *end = '\0';
        if (fnmatch(pattern, name, 0) == 0)
            return true;
    }
    return false;
}

/* True if one of the comma-separated patterns names that parameter; NULL: false. */
static bool is_named(const struct sw_model *model, const struct sw_parameter *is,
                     const char *patterns)
{
    for (const char *at = patterns; at != NULL && *at != '\0';) {
        char pattern[SW_PATTERN_BYTES];
        const size_t length = strcspn(at, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, at);
        if (length < sizeof pattern &&
            (matches(pattern, is->part, is->stored) ||
             (model->tied && is->tied != NULL && matches(pattern, SW_BEHIND_LAYERS, is->tied))))
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

int32_t sw_parameters_count(const struct sw_model *model, const char *patterns)
{
    int32_t count = 0;
    for (int32_t i = 0; i < SW_DECODER_WEIGHTS; i++)
        count += has(model, i) && !(i == SW_W_HEAD && model->tied) &&
                 (patterns == NULL || is_named(model, parameter_of(model, i), patterns));
    return count;
}

/* True if a parameter of these options is trained, in a program that trains. */
static bool is_trained(const struct sw_program_options *o, int32_t i)
{
    if (sw_lora_is_set(&o->lora))
        return declarations[i].is.adapter;
    return declarations[i].is.trained &&
           !is_named(&o->model, parameter_of(&o->model, i), o->freeze);
}

/* Chooses longrope's list for the longest sequence of the program, as vLLM does: keys rotated with
 * one list cannot be read with the other. The cache's length, which depends on the mesh, does not
 * matter. */
static void choose_divisors(struct sw_builder *b)
{
    const struct sw_program_options *o = b->options;
    const bool serves = sw_program_traits(o->kind)->state == SW_STATE_SERVING;
    const float *divisors =
        sw_rope_divisors(&o->model, serves ? o->serving.longest : o->sequence_length);
    if (divisors != NULL)
        memcpy(b->program->rope_divisors, divisors, sizeof b->program->rope_divisors);
}

void sw_decoder_begin(struct sw_builder *b, struct sw_decoder *d)
{
    const struct sw_program *p = b->program;
    const struct sw_model *m = &b->options->model;
    choose_divisors(b);
    *d = (struct sw_decoder){.b = b,
                             .batch = {SW_L_BATCH, p->micro_batch, 1, SW_SIZE_BATCH},
                             .seq = {SW_L_SEQ, p->sequence_length, 1, SW_SIZE_FIXED}};
    sw_sizes_of(b->options, &d->sizes);
    d->residual[0] = d->batch;
    d->residual[1] = (struct sw_dim){SW_L_RESIDUAL_SEQ, p->sequence_length, 1, SW_SIZE_FIXED};
    d->residual[2] = (struct sw_dim){SW_L_ACT_EMBED, m->hidden_size, 1, SW_SIZE_FIXED};
}

/* True if products read a lasting bf16 copy of that matrix, which is trained and stored in fp32. A
 * copy wider than its parameter would have numbers that checkpoints lack. An embedding that is not
 * the head needs none: its rows are rounded as they are looked up. */
static bool keeps_copy(const struct sw_builder *b, int32_t i, enum sw_dtype stored)
{
    const struct sw_program_options *o = b->options;
    return o->keep_copy && sw_program_traits(o->kind)->state == SW_STATE_TRAINING &&
           is_trained(o, i) && stored == SW_F32 && o->compute == SW_BF16_T &&
           sw_placement_differs(o) == 0 && (i != SW_W_EMBEDDING || o->model.tied);
}

/* Rank of the adapter that a matrix belongs to; 0: none. */
static int32_t rank_of(const struct sw_program_options *o, int32_t i)
{
    return target_of(i) >= 0 ? o->lora.rank[target_of(i)] : 0;
}

/* Reads the model under an adapter from its own files; checkpoints leave it out. */
static void rest_on_base(struct sw_builder *b, int32_t i, int32_t value)
{
    if (!sw_lora_is_set(&b->options->lora) || target_of(i) >= 0)
        return;
    b->program->values[value].saved = false;
    b->program->values[value].origin = SW_ORIGIN_BASE;
}

/* True if that matrix makes logits and the layers' matrices have 4 bits. */
static bool is_in_8_bits(const struct sw_model *m, int32_t i, enum sw_dtype of_layers)
{
    return of_layers == SW_I4 && i == (m->tied ? SW_W_EMBEDDING : SW_W_HEAD);
}

void sw_decoder_weights(struct sw_decoder *d, enum sw_dtype dtype, enum sw_dtype of_layers,
                        struct sw_dim output_width, bool trained)
{
    struct sw_builder *b = d->b;
    const struct sw_model *m = &b->options->model;
    const int64_t dim = m->head_dim;
    /* kv heads that tp cannot split stay whole and are copied after the projection */
    const bool split_kv =
        m->kv_heads % sw_axes_size(&b->program->mesh, b->options->rules.axes[SW_L_KV_HEADS]) == 0;
    const bool rows = sw_table_rows(b->options);
    struct sw_dim of[WIDTHS] = {
        [EMBED] = {SW_L_EMBED, m->hidden_size, 1, SW_SIZE_FIXED},
        [ACT_EMBED] = {SW_L_ACT_EMBED, m->hidden_size, 1, SW_SIZE_FIXED},
        [TABLE] = {rows ? SW_L_TABLE : SW_L_VOCAB, m->vocab_size, 1, SW_SIZE_FIXED},
        [TABLE_WIDTH] = {rows ? SW_L_NONE : SW_L_EMBED, m->hidden_size, 1, SW_SIZE_FIXED},
        [QUERIES] = {SW_L_HEADS, m->heads * dim, dim, SW_SIZE_FIXED},
        [HEADS] = {SW_L_HEADS, m->heads, 1, SW_SIZE_FIXED},
        [KEYS] = {split_kv ? SW_L_KV_HEADS : SW_L_NONE, m->kv_heads * dim, dim, SW_SIZE_FIXED},
        [OUTPUT] = output_width,
        [MLP] = {SW_L_MLP, m->intermediate_size, 1, SW_SIZE_FIXED},
        [HEAD_DIM] = {SW_L_NONE, dim, 1, SW_SIZE_FIXED}};
    for (int32_t i = 0; i < SW_DECODER_WEIGHTS; i++) {
        const struct declaration *declared = &declarations[i];
        const int32_t rank = rank_of(b->options, i);
        of[RANK] = (struct sw_dim){SW_L_NONE, rank, 1, SW_SIZE_FIXED};
        const struct sw_dim dims[2] = {of[declared->rows], of[declared->columns]};
        const bool matrix = declared->rows != NOTHING;
        const enum sw_dtype is = !matrix || (rank > 0 && trained)   ? b->options->params
                                 : rank > 0                         ? dtype
                                 : declared->is.part == SW_OF_LAYER ? of_layers
                                 : is_in_8_bits(m, i, of_layers)    ? SW_I8
                                                                    : dtype;
        d->w[i] = -1;
        if (!has(m, i) && rank == 0)
            continue;
        d->w[i] = i == SW_W_HEAD && m->tied
                      ? d->w[SW_W_EMBEDDING]
                      : sw_build_parameter(b, parameter_of(m, i), is, matrix ? 2 : 1,
                                           matrix ? dims : &dims[1],
                                           trained && is_trained(b->options, i));
        rest_on_base(b, i, d->w[i]);
        if (m->norms_plus_one && declared->is.initial == SW_INITIAL_ONES)
            b->program->values[d->w[i]].initial = SW_INITIAL_ZEROS;
        if (is_named(m, parameter_of(m, i), b->options->no_decay))
            b->program->values[d->w[i]].decay = false;
        if (i == SW_W_HEAD && m->tied)
            continue;
        if (keeps_copy(b, i, is) && matrix)
            sw_build_copy(b, d->w[i]);
        if (trained && is_trained(b->options, i))
            sw_build_place(b, d->w[i]);
        if (sw_has_scales(is))
            sw_build_scales(b, d->w[i],
                            declared->is.transposed || declared->rows != EMBED || trained
                                ? dims[declared->is.transposed]
                                : of[ACT_EMBED]);
    }
}

int32_t sw_decoder_input(struct sw_builder *b, const char *name, enum sw_dtype dtype, uint8_t ndim,
                         const struct sw_dim *dims)
{
    const int32_t value = sw_builder_value(b, name, SW_ROLE_INPUT, dtype, ndim, dims, 1);
    sw_builder_port(b, &b->program->inputs, name, value);
    return value;
}

/* ---- Layers ---- */

int64_t sw_decoder_window(const struct sw_decoder *d)
{
    const struct sw_program_options *o = d->b->options;
    const int64_t cached = o->serving.max_tokens,
                  longest = cached > 0 ? cached : o->sequence_length;
    const int64_t window = sw_model_window(&o->model, d->b->position);
    return window < longest ? window : 0;
}

double sw_decoder_score_scale(const struct sw_model *m)
{
    return m->attention_multiplier != 0
               ? m->attention_multiplier
               : 1.0 / sqrt(m->query_pre_attn_scalar != 0 ? m->query_pre_attn_scalar
                                                          : (double)m->head_dim);
}

/* Norm of x; w -1: x unchanged. */
static int32_t build_norm(struct sw_builder *b, struct sw_ref x, int32_t w, struct sw_made made)
{
    if (w < 0)
        return x.value;
    const int32_t op = sw_builder_op(b, SW_OP_RMSNORM, SW_STAGE_MODEL);
    sw_builder_in(b, op, x);
    sw_builder_in(b, op, sw_builder_ref(b, w));
    b->program->ops[op].as.norm.eps = b->options->model.rms_norm_eps;
    b->program->ops[op].as.norm.plus_one = b->options->model.norms_plus_one;
    return sw_build_result(b, op, b->options->compute, 3, &made);
}

/* Norm of each head; w -1: x unchanged. */
static int32_t build_head_norm(struct sw_builder *b, int32_t x, int32_t w, struct sw_made made)
{
    if (w < 0)
        return x;
    const int32_t op = sw_build_apply(b, SW_OP_HEAD_NORM, x, w);
    b->program->ops[op].as.norm.eps = b->options->model.rms_norm_eps;
    b->program->ops[op].as.norm.head_dim = b->options->model.head_dim;
    b->program->ops[op].as.norm.plus_one = b->options->model.norms_plus_one;
    return sw_build_result(b, op, b->options->compute, 3, &made);
}

/* Norm over all heads, which tp splits: their sums of squares are reduced over tp instead of
 * gathering rows; w -1: x unchanged. sums: name of the sum. */
static int32_t build_whole_norm(struct sw_builder *b, int32_t x, int32_t w, const char *sums,
                                struct sw_made made)
{
    if (w < 0)
        return x;
    const int32_t squares = sw_build_result(b, sw_build_apply(b, SW_OP_ROW_SUMS, x, -1),
                                            sw_accumulate_dtype(b->options->compute), 2,
                                            &(struct sw_made){sums, made.dims, made.stack, true});
    const int32_t op = sw_build_apply(b, SW_OP_SPLIT_NORM, x, squares);
    sw_builder_in(b, op, sw_builder_ref(b, w));
    b->program->ops[op].as.norm.eps = b->options->model.rms_norm_eps;
    b->program->ops[op].as.norm.width = (int32_t)made.dims[2].size;
    return sw_build_result(b, op, b->options->compute, 3, &made);
}

/* into = x + the block's output, after a norm (-1: none) and a multiplier. */
static void add_block(struct sw_decoder *d, struct sw_ref x, int32_t block, int32_t norm,
                      struct sw_ref into)
{
    struct sw_builder *b = d->b;
    const int32_t n = b->program->regions[b->region].layers;
    block = build_norm(b, sw_builder_ref(b, block), norm,
                       (struct sw_made){"nb", d->residual, n, false});
    block = sw_build_scale(b, block, b->options->model.residual_multiplier,
                           (struct sw_made){"sb", d->residual, n, false});
    sw_build_add_into(b, x, block, into);
}

/* Names of an adapter's values in a layer, by target: (x A), scaled. */
static const char *const low[SW_LORA_TARGETS] = {"qa", "ka", "va", "oa", "ga", "ua", "da"};

/* y + scale (x A) B. The low-rank product is split along the sequence as x W is, and its rank is
 * whole. */
static int32_t build_adapter(struct sw_decoder *d, enum sw_lora_target target, int32_t x, int32_t y,
                             struct sw_made made)
{
    struct sw_builder *b = d->b;
    const int32_t *of = &d->w[SW_W_Q_A + 2 * target];
    const bool turned = sw_parameter_is_turned(b->program->values[of[1]].parameter);
    const struct sw_dim dims[3] = {
        d->batch, made.dims[1], {SW_L_NONE, b->options->lora.rank[target], 1, SW_SIZE_FIXED}};
    char plain[SW_NAME_BYTES], whole[SW_NAME_BYTES], sum[SW_NAME_BYTES];
    sw_builder_name(plain, low[target], SW_NAME_BYTES - 8, " unscaled", 9);
    sw_builder_name(whole, low[target], SW_NAME_BYTES - 8, " wide", 5);
    sw_builder_name(sum, made.name, SW_NAME_BYTES - 8, "+a", 2);
    int32_t u =
        sw_build_linear(b, false, x, of[0], -1, (struct sw_made){plain, dims, made.stack, false});
    u = sw_build_scale(b, u, b->options->lora.scale[target],
                       (struct sw_made){low[target], dims, made.stack, true});
    const int32_t z = sw_build_linear(b, turned, u, of[1], -1,
                                      (struct sw_made){whole, made.dims, made.stack, false});
    const int32_t op = sw_build_apply(b, SW_OP_ADD, y, z);
    made.name = sum;
    return sw_build_result(b, op, b->options->compute, 3, &made);
}

/* A projection of the layer, with its bias and its adapter. */
static int32_t project(struct sw_decoder *d, enum sw_lora_target target, int32_t x,
                       struct sw_made made)
{
    static const struct {
        uint8_t weight, bias;
    } of[SW_LORA_TARGETS] = {{SW_W_Q, SW_W_Q_BIAS},       {SW_W_K, SW_W_K_BIAS},
                             {SW_W_V, SW_W_V_BIAS},       {SW_W_O, SW_W_O_BIAS},
                             {SW_W_GATE, SW_W_GATE_BIAS}, {SW_W_UP, SW_W_UP_BIAS},
                             {SW_W_DOWN, SW_W_DOWN_BIAS}};
    const int32_t weight = d->w[of[target].weight];
    const bool adapted = d->w[SW_W_Q_A + 2 * target] >= 0;
    struct sw_made plain = made;
    plain.listed = made.listed && !adapted; /* backward needs only the sum */
    const int32_t y =
        sw_build_linear(d->b, sw_parameter_is_turned(d->b->program->values[weight].parameter), x,
                        weight, d->w[of[target].bias], plain);
    return adapted ? build_adapter(d, target, x, y, made) : y;
}

/* Adds one layer to the open region. */
static void add_layer(struct sw_decoder *d)
{
    struct sw_builder *b = d->b;
    struct sw_program *p = b->program;
    const struct sw_model *m = &b->options->model;
    const int32_t *w = d->w;
    const enum sw_dtype c = b->options->compute;
    const int32_t n = p->regions[b->region].layers;
    const int64_t dim = m->head_dim;
    const enum sw_logical kv_axis = (enum sw_logical)p->values[w[SW_W_K]].axis[1];
    const struct sw_dim *residual = d->residual;
    const struct sw_dim heads[3] = {
        d->batch, d->seq, {SW_L_HEADS, m->heads * dim, dim, SW_SIZE_FIXED}};
    const struct sw_dim kv[3] = {
        d->batch, d->seq, {kv_axis, m->kv_heads * dim, dim, SW_SIZE_FIXED}};
    const struct sw_dim mlp[3] = {
        d->batch, d->seq, {SW_L_MLP, m->intermediate_size, 1, SW_SIZE_FIXED}};
    const struct sw_ref x_in = {d->x, SW_INDEX_LAYER, 0}, x_out = {d->x, SW_INDEX_LAYER, 1};

    const int32_t attention_norm = w[m->both_norms ? SW_W_ATTENTION_PRE_NORM : SW_W_ATTENTION_NORM];
    const int32_t mlp_norm = w[m->both_norms ? SW_W_MLP_PRE_NORM : SW_W_MLP_NORM];

    const int32_t n1 =
        build_norm(b, x_in, attention_norm, (struct sw_made){"n1", residual, n, true});
    int32_t q = project(d, SW_LORA_Q, n1, (struct sw_made){"q0", heads, n, true});
    int32_t k = project(d, SW_LORA_K, n1, (struct sw_made){"k0", kv, n, true});
    const int32_t v = project(d, SW_LORA_V, n1, (struct sw_made){"v0", kv, n, true});
    q = build_head_norm(b, q, w[SW_W_Q_NORM], (struct sw_made){"qn", heads, n, true});
    k = build_head_norm(b, k, w[SW_W_K_NORM], (struct sw_made){"kn", kv, n, true});
    q = build_whole_norm(b, q, w[SW_W_Q_NORM_WHOLE], "qs", (struct sw_made){"qn", heads, n, true});
    k = build_whole_norm(b, k, w[SW_W_K_NORM_WHOLE], "ks", (struct sw_made){"kn", kv, n, true});
    q = sw_build_rope(b, q, d->positions, d->slots, (struct sw_made){"q1", heads, n, true});
    k = sw_build_rope(b, k, d->positions, d->slots, (struct sw_made){"k1", kv, n, true});
    const int32_t o = d->attend(d, q, k, v, n);
    const int32_t a = project(d, SW_LORA_O, o, (struct sw_made){"a", residual, n, m->post_norm});
    const int32_t mid = sw_build_value(b, c, 3, &(struct sw_made){"y", residual, n, true});
    add_block(d, x_in, a, w[SW_W_ATTENTION_POST_NORM], sw_builder_ref(b, mid));

    const int32_t n2 =
        build_norm(b, sw_builder_ref(b, mid), mlp_norm, (struct sw_made){"n2", residual, n, true});
    const int32_t gate = project(d, SW_LORA_GATE, n2, (struct sw_made){"gate", mlp, n, true});
    const int32_t up = project(d, SW_LORA_UP, n2, (struct sw_made){"up", mlp, n, true});
    const int32_t act = sw_build_apply(b, SW_OP_SWIGLU, gate, up);
    p->ops[act].as.swiglu.gelu = m->gelu;
    const int32_t h = sw_build_result(b, act, c, 3, &(struct sw_made){"h", mlp, n, true});
    const int32_t down =
        project(d, SW_LORA_DOWN, h, (struct sw_made){"m", residual, n, m->post_norm});
    add_block(d, sw_builder_ref(b, mid), down, w[SW_W_MLP_POST_NORM], x_out);
}

static void add_layers(struct sw_decoder *d, const char *name, enum sw_layer_part part)
{
    struct sw_builder *b = d->b;
    sw_builder_layers(b, name, part);
    b->program->regions[b->region].carry = d->x;
    for (int32_t i = 0; i < sw_model_period(&b->options->model) && !b->failed; i++) {
        b->position = (uint8_t)i;
        add_layer(d);
    }
    b->region = -1;
}

/* Factor of embeddings; 0: none. The root of the width is rounded to the embeddings' type, as in
 * transformers. */
static double embedding_factor(const struct sw_program_options *o)
{
    const double root = sqrt((double)o->model.hidden_size);
    if (!o->model.embedding_root)
        return o->model.embedding_multiplier;
    return o->compute == SW_F64      ? root
           : o->compute == SW_BF16_T ? sw_bf16_to_float(sw_bf16_from_float((float)root))
                                     : (double)(float)root;
}

void sw_decoder_layers(struct sw_decoder *d, int32_t tokens)
{
    struct sw_builder *b = d->b;
    d->x = sw_builder_value(b, "x", SW_ROLE_ACTIVATION, b->options->compute, 3, d->residual,
                            b->program->layers + 1);
    b->program->values[d->x].carried = true;
    sw_builder_region(b, "embed", SW_PHASE_FORWARD, 1, false);
    const double factor = embedding_factor(b->options);
    int32_t op = sw_build_lookup(b, tokens, d->w[SW_W_EMBEDDING]);
    if (factor != 0) {
        const int32_t rows = sw_build_result(b, op, b->options->compute, 3,
                                             &(struct sw_made){"rows", d->residual, 1, false});
        op = sw_build_apply(b, SW_OP_SCALE, rows, -1);
        b->program->ops[op].as.scale.factor = factor;
    }
    sw_builder_out(b, op, (struct sw_ref){d->x, SW_INDEX_FIXED, 0});
    if (sw_first_layers(b->options) == 0) {
        add_layers(d, "layer", SW_LAYERS_WHOLE);
    } else {
        add_layers(d, "first layers", SW_LAYERS_FIRST);
        add_layers(d, "last layers", SW_LAYERS_LAST);
    }
}

/* ---- Behind the layers ---- */

int32_t sw_decoder_final_norm(struct sw_decoder *d, struct sw_ref x, const struct sw_dim dims[3])
{
    const double scaling = d->b->options->model.logits_scaling;
    const int32_t n =
        build_norm(d->b, x, d->w[SW_W_FINAL_NORM], (struct sw_made){"nf", dims, 1, false});
    return sw_build_scale(d->b, n, scaling != 0 ? 1 / scaling : 0,
                          (struct sw_made){"scaled", dims, 1, false});
}

int32_t sw_decoder_head(struct sw_decoder *d, enum sw_op_kind kind, int32_t n, int32_t labels,
                        int32_t *stats)
{
    struct sw_builder *b = d->b;
    const struct sw_dim dims[3] = {
        d->batch,
        d->seq,
        {SW_L_VOCAB, d->sizes.of[SW_SIZE_STATS], SW_STATS_PER_SHARD, SW_SIZE_STATS}};
    const int32_t table = sw_build_table(b, d->w[SW_W_HEAD]);
    const int32_t op = sw_build_apply(b, kind, n, table);
    sw_builder_in(b, op, sw_builder_ref(b, labels));
    sw_build_take_scales(b, op, table);
    b->program->ops[op].as.head.softcap = b->options->model.final_softcap;
    *stats = sw_build_result(b, op, sw_accumulate_dtype(b->options->compute), 3,
                             &(struct sw_made){"stats", dims, 1, false});
    return op;
}
