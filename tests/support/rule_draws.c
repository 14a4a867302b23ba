#include "tests/support/rule_draws.h"

#include "core/base/hash.h"
#include "core/models/parameters.h"
#include "core/programs/compile.h"
#include "tests/support/recompute.h"

#include <stdio.h>

enum { MOST_MESHES = 64, ATTEMPTS = 60 };

struct draws {
    uint64_t seed, count;
};

/* Includes both ends. */
static int64_t between(struct draws *d, int64_t least, int64_t most)
{
    const uint64_t x = sw_hash_mix(d->seed + ++d->count * UINT64_C(0x9e3779b97f4a7c15));
    return least + (int64_t)((x >> 16) % (uint64_t)(most - least + 1));
}

struct meshes {
    int32_t count;
    struct sw_mesh at[MOST_MESHES];
};

static int add_mesh(const struct sw_mesh *mesh, void *context)
{
    struct meshes *meshes = context;
    meshes->at[meshes->count++] = *mesh;
    return 0;
}

static struct sw_mesh draw_mesh(struct draws *d)
{
    static const int32_t ranks[] = {2, 3, 4, 4, 6, 8, 8, 8};
    struct meshes meshes = {0};
    sw_mesh_enumerate(ranks[between(d, 0, 7)], add_mesh, &meshes);
    return meshes.at[between(d, 0, meshes.count - 1)];
}

/* Mesh axes in any order, each at most once; may be none. In a table of many rows most have none:
 * others rarely go together. */
static struct sw_axes draw_axes(struct draws *d, bool few)
{
    static const uint8_t counts[] = {0, 0, 1, 1, 1, 1, 2, 2, 3, 4};
    uint8_t left[SW_AXIS_COUNT] = {SW_DP, SW_FSDP, SW_TP, SW_SP};
    struct sw_axes axes = {.count = counts[between(d, 0, 9)]};
    if (few)
        axes.count = between(d, 0, 9) < 7 ? 0 : (uint8_t)between(d, 1, 2);
    for (uint8_t i = 0; i < axes.count; i++) {
        const int64_t at = between(d, i, SW_AXIS_COUNT - 1);
        axes.axis[i] = left[at];
        left[at] = left[i];
    }
    return axes;
}

/* On all projections but one. */
static void draw_adapters(struct draws *d, struct sw_program_options *o)
{
    const int64_t without = between(d, 0, SW_LORA_TARGETS - 1);
    for (int64_t i = 0; i < SW_LORA_TARGETS; i++)
        if (i != without) {
            o->lora.rank[i] = (int32_t)between(d, 1, 5);
            o->lora.scale[i] = 2;
        }
    o->lora.base = (int32_t)(between(d, 0, 1) == 0 ? o->params : o->compute);
    o->freeze = NULL;
}

/* All but a few parameters, or just those; some exist in no model. */
static const char *const freezes[] = {
    "model.embed_tokens",
    "model.norm,*.bias",
    "*norm.weight",
    "model.layers.*.mlp,lm_head",
    "model.layers.*.self_attn",
    "model.layers.*.self_attn.[qk]_proj.weight,model.layers.*.mlp.up_proj",
    "model.layers.*.*_proj.weight",
    "model.layers.*,model.norm",
    "model.layers.*,model.embed_tokens",
    "model",
    "model.[!l]*,lm_head,model.layers.*.[!s]*",
    "*[!d]_proj.weight,*[!_]norm.weight",
};

struct precision {
    enum sw_dtype compute, params, reduce, ring;
    bool keep_copy;
};
static const struct precision precisions[] = {
    {SW_F64, SW_F64, SW_F64, SW_F32, false},       {SW_F64, SW_F64, SW_F64, SW_F32, false},
    {SW_F32, SW_F32, SW_F32, SW_F32, false},       {SW_BF16_T, SW_F32, SW_F32, SW_F32, false},
    {SW_BF16_T, SW_F32, SW_BF16_T, SW_F32, false}, {SW_BF16_T, SW_BF16_T, SW_F32, SW_F32, false},
    {SW_BF16_T, SW_F32, SW_F32, SW_BF16_T, true},
};
enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };

/* Sizes divisible by most lists of axes; embed and the batch may be split unevenly. */
static void draw_options(struct draws *d, struct sw_program_options *o)
{
    const struct precision *p = &precisions[between(d, 0, PRECISIONS - 1)];
    const struct sw_mesh mesh = draw_mesh(d);
    const int64_t n = sw_mesh_rank_count(&mesh) % 3 == 0 ? 6 : 8;
    const int64_t heads = n * between(d, 1, 2);
    *o = (struct sw_program_options){
        .model.vocab_size = n * between(d, 2, 6) + (between(d, 0, 5) == 0),
        .model.hidden_size = between(d, 0, 3) == 0 ? 2 * between(d, 4, 14) : 24,
        .model.intermediate_size = n * between(d, 2, 4),
        .model.layers = (int32_t)between(d, 1, 3),
        .model.heads = (int32_t)heads,
        .model.kv_heads = (int32_t)(between(d, 0, 2) == 0   ? 1
                                    : between(d, 0, 1) == 0 ? heads
                                                            : heads / (heads % 2 == 0 ? 2 : 1)),
        .model.head_dim = (int32_t)(2 * between(d, 2, 4)), /* a norm of 2 elements may be near 0 */
        .model.rope.theta = 100.0,
        .model.rms_norm_eps = 1e-5,
        .model.tied = between(d, 0, 1),
        .model.qkv_bias = between(d, 0, 3) == 0,
        .model.qk_norm = between(d, 0, 3) == 0,
        .sequence_length = 48 / (between(d, 0, 1) + 1),
        .global_batch = n * between(d, 1, 2) - (between(d, 0, 3) == 0 && n > 1),
        .compute = p->compute,
        .params = p->params,
        .reduce = p->reduce,
        .ring = p->ring,
        .keep_copy = p->keep_copy,
        .mesh = mesh,
        .layout = between(d, 0, 1) ? SW_ZIGZAG : SW_CONTIGUOUS,
    };
    const int64_t blocks = between(d, 0, 4);
    if (blocks == 1) { /* Gemma 3's two kinds of layers */
        o->model.qk_norm = o->model.post_norm = o->model.both_norms = true;
        o->model.norms_plus_one = o->model.gelu = o->model.embedding_root = true;
        o->model.query_pre_attn_scalar = 5;
        o->model.period = 2;
        o->model.local = 1;
        o->model.local_rope = (struct sw_rope){.theta = 30, .factor = 1};
    } else if (blocks == 2) { /* Phi-3's positions, with either list */
        o->model.partial_rotary_factor = o->model.head_dim % 4 == 0 ? 0.5 : 0;
        o->model.rope.attention_factor = 0.8;
        o->model.rope.original_positions = 32;
        o->model.rope.scaling = SW_ROPE_LONGROPE;
        for (int32_t j = 0; j < sw_model_rotated(&o->model) / 2; j++) {
            o->model.short_divisors[j] = 1 + 0.5F * (float)j;
            o->model.long_divisors[j] = 2 + 5.0F * (float)j;
        }
    } else if (blocks ==
               0) { /* OLMo 2's norms, Granite's multipliers, Gemma 2's softcap of logits */
        o->model.qk_norm_whole = !o->model.qk_norm;
        o->model.post_norm = true;
        o->model.embedding_multiplier = 3;
        o->model.residual_multiplier = 0.25;
        o->model.logits_scaling = 0.75;
        o->model.final_softcap = 0.5;
    }
    o->recompute = sw_test_recompute((uint32_t)between(d, 0, 7), &o->model, o->model.layers);
    sw_rules_default(&o->rules, (enum sw_attention_strategy)between(d, 0, 2));
    if (between(d, 0, 3) == 0)
        o->freeze = freezes[between(d, 0, sizeof freezes / sizeof *freezes - 1)];
    if (sw_parameters_count(&o->model, o->freeze) == sw_parameters_count(&o->model, NULL))
        o->freeze = NULL; /* no parameter would be trained */
    if (between(d, 0, 4) == 0)
        draw_adapters(d, o);
}

static void draw_rows(struct draws *d, struct sw_rule_draw *out)
{
    static const int32_t counts[] = {1, 1, 1, 2, 2, 3, SW_RULE_ROWS, SW_RULE_ROWS};
    enum sw_logical left[SW_RULE_ROWS];
    for (int32_t i = 0; i < SW_RULE_ROWS; i++)
        left[i] = (enum sw_logical)(i + 1);
    out->rows = counts[between(d, 0, 7)];
    for (int32_t i = 0; i < out->rows; i++) {
        const int64_t at = between(d, i, SW_RULE_ROWS - 1);
        out->row[i].logical = sw_logical_name(left[at]);
        out->row[i].axes = draw_axes(d, out->rows == SW_RULE_ROWS);
        left[at] = left[i];
        if (sw_rules_set(&out->options.rules, out->row[i].logical, out->row[i].axes, NULL) != 0)
            abort();
    }
}

/* Draws the sharding of weights, gradients and masters: a ZeRO stage, weights that stay gathered,
 * or masters and gradients over further axes. */
static void draw_sharding(struct draws *d, struct sw_rule_draw *out)
{
    struct sw_rules *rules = &out->options.rules;
    struct sw_axes more = rules->axes[SW_L_EMBED];
    out->zero = (int32_t)between(d, 0, 6);
    if (out->zero >= 1 && out->zero <= 3)
        sw_rules_set_zero(rules, out->zero);
    out->options.keep_gathered = out->zero == 4;
    if (out->zero < 5)
        return;
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++)
        if (memchr(more.axis, i, more.count) == NULL && between(d, 0, 1))
            more.axis[more.count++] = (uint8_t)i;
    if (sw_rules_set(rules, out->zero == 5 ? "moment_embed" : "grad_embed", more, NULL) != 0)
        abort();
}

static void draw_one(struct draws *d, struct sw_rule_draw *out)
{
    struct sw_program_options *o = &out->options;
    memset(out, 0, sizeof *out);
    draw_options(d, o);
    draw_rows(d, out);
    const int64_t ways = sw_axes_size(&o->mesh, o->rules.axes[SW_L_BATCH]);
    o->micro_batch_per_rank = between(d, 1, (o->global_batch + ways - 1) / ways);
    out->ignored = between(d, 0, 1) ? 7 : 0;
    draw_sharding(d, out);
}

/* Draws serving options, in double, so that no token changes. */
static void draw_serving(struct draws *d, struct sw_rule_draw *out)
{
    struct sw_program_options *o = &out->options;
    o->compute = o->params = o->reduce = SW_F64;
    o->keep_copy = false;
    o->freeze = NULL;
    out->serves = true;
    out->serving = (struct sw_serving){.max_batch = between(d, 1, 6),
                                       .max_tokens = 24,
                                       .chunk = between(d, 0, 2) * 4,
                                       .token_budget = between(d, 0, 2) * 9,
                                       .cache = SW_F64,
                                       .weights = SW_F64,
                                       .stream_weights = between(d, 0, 1),
                                       .gathers = (enum sw_prefill_gather)between(d, 0, 1)};
}

/* True if every program that the draw runs can be partitioned. */
static bool is_admitted(const struct sw_rule_draw *d)
{
    struct sw_program *p = NULL;
    struct sw_program_options o = d->options;
    bool good = true;
    for (int32_t kind = 0; kind < SW_PROGRAM_KINDS && good; kind++) {
        const bool serves =
            sw_program_traits((enum sw_program_kind)kind)->state == SW_STATE_SERVING;
        if (serves != d->serves || kind == SW_PROGRAM_SAVE ||
            (serves && !sw_serving_has(&d->options, &d->serving, (enum sw_program_kind)kind)))
            continue;
        o.kind = (enum sw_program_kind)kind;
        good = (!serves || sw_serving_options(&d->options, &d->serving, o.kind, &o, NULL) == 0) &&
               sw_program_compile(&o, SW_PARTITIONED, &p, NULL) == 0;
        sw_program_free(p);
        p = NULL;
    }
    return good;
}

/* Most lists of axes do not go together: three of four draws are repeated until they do. */
void sw_rule_draw_make(uint64_t seed, int64_t number, struct sw_rule_draw *out)
{
    struct draws d = {.seed = sw_hash_mix(sw_hash_mix(seed + 1) + (uint64_t)number)};
    for (int64_t left = between(&d, 0, 3) == 0 ? 1 : ATTEMPTS; left > 0; left--) {
        draw_one(&d, out);
        if (between(&d, 0, 3) == 0)
            draw_serving(&d, out);
        if (is_admitted(out))
            left = 0;
    }
}

const char *sw_rule_draw_describe(const struct sw_rule_draw *d, char text[SW_RULE_DRAW_BYTES])
{
    const struct sw_program_options *o = &d->options;
    const struct sw_model *m = &o->model;
    char mesh[64], axes[48], again[SW_RECOMPUTE_BYTES];
    int used = snprintf(
        text, SW_RULE_DRAW_BYTES,
        "mesh %s; vocabulary %lld, hidden %lld, intermediate %lld, %d layers, %d heads, %d kv "
        "heads of %d%s%s%s%s; %lld sequences of %lld, %lld at a time; compute %s, params %s, "
        "reduce "
        "%s%s; "
        "%s; recompute %s; freeze %s%s; rules:",
        sw_mesh_format(&o->mesh, mesh, sizeof mesh), (long long)m->vocab_size,
        (long long)m->hidden_size, (long long)m->intermediate_size, (int)m->layers, (int)m->heads,
        (int)m->kv_heads, (int)m->head_dim, m->tied ? ", tied" : "", m->qkv_bias ? ", biases" : "",
        m->qk_norm ? ", head norms" : "",
        m->both_norms  ? ", two kinds"
        : m->post_norm ? ", other blocks"
                       : "",
        (long long)o->global_batch, (long long)o->sequence_length,
        (long long)o->micro_batch_per_rank, sw_dtype_name(o->compute), sw_dtype_name(o->params),
        sw_dtype_name(o->reduce), o->keep_copy ? ", copies" : "",
        o->layout == SW_ZIGZAG ? "zigzag" : "contiguous",
        sw_recompute_describe(sw_recompute_normal(o->recompute, m->layers), m->layers, again),
        o->freeze != NULL ? o->freeze : "nothing", sw_lora_is_set(&o->lora) ? "; adapters" : "");
    for (int32_t i = 0; i < d->rows && used < SW_RULE_DRAW_BYTES - 60; i++)
        used += snprintf(text + used, (size_t)(SW_RULE_DRAW_BYTES - used), " %s: [%s]",
                         d->row[i].logical, sw_axes_format(d->row[i].axes, axes, sizeof axes));
    for (int32_t row = SW_L_GRAD_EMBED; row <= SW_L_MOMENT_EMBED && d->zero > 0; row++)
        used += snprintf(text + used, (size_t)(SW_RULE_DRAW_BYTES - used), " %s: [%s]",
                         sw_logical_name((enum sw_logical)row),
                         sw_axes_format(o->rules.axes[row], axes, sizeof axes));
    if (o->keep_gathered)
        snprintf(text + used, (size_t)(SW_RULE_DRAW_BYTES - used), " and gathered weights stay");
    return text;
}
