/* Sizes that follow from options, and retargeting of a program from one mesh to another. */
#include "core/passes/passes.h"

#include <stdlib.h>
#include <string.h>

/* Copies of each kv head that make the heads inside attention, and the projections, divisible. */
static int32_t kv_copies(const struct sw_program_options *o)
{
    int32_t ways = sw_axes_size(&o->mesh, o->rules.axes[SW_L_ATTN_HEADS]);
    int32_t heads_ways = sw_axes_size(&o->mesh, o->rules.axes[SW_L_HEADS]);
    if (heads_ways > ways)
        ways = heads_ways;
    return o->model.kv_heads % ways == 0 ? 1 : ways / o->model.kv_heads;
}

bool sw_table_rows(const struct sw_program_options *o)
{
    return o->serving.max_tokens == 0 &&
           o->model.vocab_size % sw_axes_size(&o->mesh, o->rules.axes[SW_L_MOMENT_TABLE]) == 0;
}

static bool lie_alike(const struct sw_program_options *o, enum sw_logical a, enum sw_logical b)
{
    return sw_axes_equal(sw_axes_effective(&o->mesh, o->rules.axes[a]),
                         sw_axes_effective(&o->mesh, o->rules.axes[b]));
}

uint8_t sw_placement_differs(const struct sw_program_options *o)
{
    static const enum sw_logical rows[] = {SW_L_EMBED, SW_L_TABLE};
    uint8_t apart = 0;
    for (int i = 0; i < 2 && sw_program_traits(o->kind)->state == SW_STATE_TRAINING; i++) {
        const enum sw_logical masters = sw_logical_of(rows[i], SW_COPY_MASTER),
                              gradients = sw_logical_of(rows[i], SW_COPY_GRADIENT),
                              weights = o->keep_gathered ? sw_logical_of(rows[i], SW_COPY_GATHERED)
                                                         : rows[i];
        const int here = (lie_alike(o, masters, weights) ? 0 : SW_DIFFERS_WEIGHTS) |
                         (lie_alike(o, masters, gradients) ? 0 : SW_DIFFERS_GRADIENTS);
        apart |= (uint8_t)(here << i * SW_DIFFERS_TABLE);
    }
    return apart;
}

bool sw_table_lies_where_used(const struct sw_program_options *o)
{
    const struct sw_axes *rules = o->rules.axes;
    if (!sw_table_rows(o))
        return sw_axes_size(&o->mesh, rules[SW_L_EMBED]) == 1;
    return lie_alike(o, SW_L_TABLE, SW_L_VOCAB);
}

/* Ranks that share one token's vocabulary: those that its rule names, without axes that split
 * tokens, which the head's op claims first. */
static int32_t vocab_ways(const struct sw_program_options *o)
{
    const struct sw_axes *rules = o->rules.axes;
    const sw_axis_set tokens = sw_axes_set(rules[SW_L_BATCH]) | sw_axes_set(rules[SW_L_SEQ]);
    struct sw_axes left = {0};
    for (uint8_t i = 0; i < rules[SW_L_VOCAB].count; i++)
        if (!(tokens >> rules[SW_L_VOCAB].axis[i] & 1u))
            left.axis[left.count++] = rules[SW_L_VOCAB].axis[i];
    return sw_axes_size(&o->mesh, left);
}

void sw_sizes_of(const struct sw_program_options *o, struct sw_sizes *out)
{
    const int64_t copies = kv_copies(o), kv_heads = o->model.kv_heads * copies;
    const int64_t ways = sw_axes_size(&o->mesh, o->rules.axes[SW_L_BATCH]);
    const int64_t rows = o->micro_batch_per_rank, slots = o->serving.slots_per_rank;
    *out = (struct sw_sizes){
        .of = {[SW_SIZE_BATCH] = rows * ways,
               [SW_SIZE_EMBED] = sw_padded_size(
                   o->model.hidden_size, sw_axes_size(&o->mesh, o->rules.axes[SW_L_MOMENT_EMBED])),
               [SW_SIZE_STATS] = (int64_t)SW_STATS_PER_SHARD * vocab_ways(o),
               [SW_SIZE_KV] = kv_heads * o->model.head_dim,
               [SW_SIZE_COPIES] = copies,
               [SW_SIZE_GROUP] = o->model.heads / kv_heads,
               [SW_SIZE_SHARDS] = sw_axes_size(&o->mesh, o->rules.axes[SW_L_SEQ]),
               [SW_SIZE_PARTS] = sw_axes_size(&o->mesh, o->rules.axes[SW_L_CACHE_SEQ]),
               [SW_SIZE_SCALES] = kv_heads,
               [SW_SIZE_SLOTS] = slots * ways,
               [SW_SIZE_SAMPLED] = (slots < rows ? slots : rows) * ways,
               [SW_SIZE_INNER] = o->serving.max_tokens == 0 ? o->inner_ring : 0}};
}

void sw_sizes_apply(const struct sw_program_options *o, const struct sw_sizes *sizes,
                    struct sw_program *p)
{
    p->mesh = o->mesh;
    memcpy(p->sizes, sizes->of, sizeof p->sizes);
    p->micro_batch = sizes->of[SW_SIZE_BATCH];
    p->accumulation_steps = (int32_t)((o->global_batch + p->micro_batch - 1) / p->micro_batch);
    p->padding_sequences = p->accumulation_steps * p->micro_batch - o->global_batch;
    p->tokens_per_step = o->global_batch * o->sequence_length;
    p->sequence_shards = (int32_t)sizes->of[SW_SIZE_SHARDS];
    p->target = o->target;
    p->planned_slots = o->serving.planned_slots;
    p->max_tokens = o->serving.max_tokens;
    p->sequence_layout = p->sequence_shards > 1 ? o->layout : SW_CONTIGUOUS;
}

/* Keeps the axes that split anything. */
static void split_axes(const struct sw_mesh *mesh, const struct sw_rules *rules,
                       struct sw_axes out[SW_L_COUNT])
{
    for (int32_t row = 0; row < SW_L_COUNT; row++) {
        const struct sw_axes axes = sw_axes_effective(mesh, rules->axes[row]);
        out[row].count = axes.count;
        for (uint8_t i = 0; i < axes.count; i++)
            out[row].axis[i] = axes.axis[i];
    }
}

/* Sign of ways - other; 0: one of them splits nothing. */
static int8_t wider(int32_t ways, int32_t other)
{
    return (int8_t)(ways > 1 && other > 1 ? (ways > other) - (ways < other) : 0);
}

/* Sets the key of serving, where the batch is the slots of a rank times the ranks: sizes. */
static void serving_structure(const struct sw_program_options *o, struct sw_program_key *out)
{
    if (o->serving.max_tokens == 0) {
        out->global_batch = o->global_batch;
        return;
    }
    split_axes(&o->mesh, &o->serving.weights, out->serving.weights);
    out->serving.max_tokens = o->serving.max_tokens;
    out->serving.longest = o->serving.longest;
    out->serving.ring_tokens = o->serving.ring_tokens;
    out->serving.chunk = o->serving.chunk;
    out->serving.cache = (uint8_t)o->serving.cache;
    out->serving.matrices = (uint8_t)o->serving.matrices;
    out->serving.gathers_cache = o->serving.gathers_cache;
    out->serving.mixes = o->serving.mixes;
    out->serving.tiles = o->serving.tiles;
    const int32_t batch = sw_axes_size(&o->mesh, o->rules.axes[SW_L_BATCH]);
    const int32_t seq = sw_axes_size(&o->mesh, o->rules.axes[SW_L_SEQ]);
    out->serving.batch_wider = wider(batch, seq);
    const int32_t embed = sw_axes_size(&o->mesh, o->serving.weights.axes[SW_L_EMBED]);
    for (int32_t row = 0; row < SW_L_COUNT; row++) {
        const int32_t other = sw_axes_size(&o->mesh, o->serving.weights.axes[row]) /
                              sw_axes_size(&o->mesh, o->rules.axes[row]);
        out->serving.embed_wider[row] = wider(embed, other);
    }
}

/* True if a run's rules allow several reshards between values, of which the axes' sizes decide the
 * shortest. */
static bool sizes_say_the_way(const struct sw_program_options *o)
{
    const struct sw_axes *is = o->rules.axes;
    const struct sw_axes sp_tp = {2, {SW_SP, SW_TP}};
    struct sw_rules usual;
    if (o->serving.max_tokens != 0)
        return false;
    sw_rules_default(&usual, is[SW_L_KEY_SEQ].count > 0      ? SW_ATTENTION_RING
                             : is[SW_L_ATTN_HEADS].count > 1 ? SW_ATTENTION_ULYSSES
                                                             : SW_ATTENTION_GATHER);
    if (sw_axes_equal(is[SW_L_RESIDUAL_SEQ], sp_tp))
        usual.axes[SW_L_RESIDUAL_SEQ] = sp_tp; /* same as in the search */
    for (int32_t row = 0; row < SW_L_COUNT; row++)
        if (!sw_axes_equal(is[row], usual.axes[row]))
            return true;
    return false;
}

void sw_program_structure(const struct sw_program_options *o, struct sw_program_key *out)
{
    struct sw_sizes sizes;
    const int32_t first = sw_first_layers(o);
    sw_sizes_of(o, &sizes);
    memset(out, 0, sizeof *out);
    out->model = o->model;
    out->lora = o->lora;
    out->sequence_length = o->sequence_length;
    out->compute = (uint8_t)o->compute;
    out->params = (uint8_t)o->params;
    out->reduce = (uint8_t)o->reduce;
    out->ring = (uint8_t)o->ring;
    out->keep_copy = o->keep_copy;
    out->keep_gathered = o->keep_gathered;
    out->differs = sw_placement_differs(o);
    out->guarded = o->guarded;
    out->moments = (uint8_t)o->moments;
    out->layout = (uint8_t)o->layout;
    if (sw_program_traits(o->kind)->backward)
        out->recompute = sw_recompute_normal(o->recompute, o->model.layers);
    /* both parts are loops, and every position of a period has a stack */
    const int32_t period = sw_model_period(&o->model);
    if (first > 2 * period - 1 && o->model.layers - first > 2 * period - 1)
        out->recompute.layers = 0;
    out->freeze = o->freeze;
    out->no_decay = o->no_decay;
    out->kind = (uint8_t)o->kind;
    out->logits = o->logits;
    out->target = o->target;
    out->one_micro_step = sizes.of[SW_SIZE_BATCH] >= o->global_batch;
    out->padded = sizes.of[SW_SIZE_EMBED] != o->model.hidden_size;
    out->kv_copies = sizes.of[SW_SIZE_COPIES] > 1;
    out->table_rows = sw_table_rows(o);
    out->split_kv = o->model.kv_heads % sw_axes_size(&o->mesh, o->rules.axes[SW_L_KV_HEADS]) == 0;
    split_axes(&o->mesh, &o->rules, out->axes);
    if (sizes_say_the_way(o))
        memcpy(out->ways, o->mesh.size, sizeof out->ways);
    serving_structure(o, out);
}

void sw_program_logical_structure(const struct sw_program_options *o, struct sw_program_key *out)
{
    sw_program_structure(o, out);
    memset(out->axes, 0, sizeof out->axes);
    memset(out->ways, 0, sizeof out->ways);
    out->table_lies_where_used = sw_table_lies_where_used(o);
}

/* Sets attributes that depend on the mesh; an attribute of 0 belongs to another form. */
static void resize_attributes(struct sw_op *op, const struct sw_sizes *sizes)
{
    for (const struct sw_attribute *a = sw_op_info(op->kind)->attributes;
         a != NULL && a->type != SW_ATTRIBUTE_END; a++)
        if (a->symbol != SW_SIZE_FIXED && (a->may_be_zero || sw_attribute_int(op, a) != 0))
            *(int32_t *)(void *)((char *)&op->as + a->offset) = (int32_t)sizes->of[a->symbol];
}

static void resize_ops(struct sw_program *p, const struct sw_sizes *sizes)
{
    int32_t count = p->op_count;
    const int32_t *symbolic = sw_layout_symbolic_ops(p, &count);
    for (int32_t i = 0; i < count; i++)
        resize_attributes(&p->ops[symbolic != NULL ? symbolic[i] : i], sizes);
}

/* Sets each part's number of layers. */
static void resize_parts(struct sw_program *p, int32_t first)
{
    const int32_t count[] = {
        [SW_LAYERS_WHOLE] = 0, [SW_LAYERS_FIRST] = first, [SW_LAYERS_LAST] = p->layers - first};
    const struct sw_region *of[SW_LAYERS_COUNT] = {NULL};
    bool any = false;
    for (int32_t r = 0; r < p->region_count; r++) {
        struct sw_region *region = &p->regions[r];
        if (region->part == SW_LAYERS_WHOLE)
            continue;
        if (region->layers == count[region->part])
            return; /* unchanged */
        any = true;
        sw_region_span(region, region->part == SW_LAYERS_LAST ? first : 0, count[region->part],
                       region->period);
        of[region->part] = region;
    }
    for (int32_t v = 0; any && v < p->value_count; v++) {
        struct sw_value *value = &p->values[v];
        if (value->part == SW_LAYERS_WHOLE)
            continue;
        const bool kept = value->slots > 1;
        sw_builder_instances(of[value->part], value->first_layer % value->period, value);
        value->slots = kept ? value->stack : value->slots;
    }
}

int sw_program_resize(struct sw_program *p, const struct sw_program_options *o,
                      struct sw_error *err)
{
    struct sw_sizes sizes;
    sw_sizes_of(o, &sizes);
    const bool same_ops = sizes.of[SW_SIZE_COPIES] == p->sizes[SW_SIZE_COPIES] &&
                          sizes.of[SW_SIZE_SHARDS] == p->sizes[SW_SIZE_SHARDS] &&
                          sizes.of[SW_SIZE_PARTS] == p->sizes[SW_SIZE_PARTS] &&
                          sizes.of[SW_SIZE_INNER] == p->sizes[SW_SIZE_INNER];
    sw_sizes_apply(o, &sizes, p);
    if (!same_ops)
        resize_ops(p, &sizes);
    resize_parts(p, sw_first_layers(o));
    return sw_layout_measure(p, &sizes, NULL, err);
}

/* Sets the sequence's layout, which depends on the sequence being split at all. */
static void set_layout(struct sw_op *op, enum sw_sequence_layout layout)
{
    for (const struct sw_attribute *a = sw_op_info(op->kind)->attributes;
         a != NULL && a->type != SW_ATTRIBUTE_END; a++)
        if (a->words == sw_words_layout && sw_attribute_int(op, a) >= 0)
            *(int32_t *)(void *)((char *)&op->as + a->offset) = (int32_t)layout;
}

/* Sets axes by the rule table, and sizes. */
static void retarget_value(struct sw_value *value, const struct sw_sizes *sizes,
                           const struct sw_axes split[SW_L_COUNT])
{
    for (uint8_t d = 0; d < value->ndim; d++) {
        const enum sw_logical axis = (enum sw_logical)value->axis[d];
        if (value->symbol[d] != SW_SIZE_FIXED)
            value->size[d] = sizes->of[value->symbol[d]];
        value->padded[d] = sw_value_pads(value, d) ? sizes->of[SW_SIZE_EMBED] : value->size[d];
        value->declared.spec.dim[d] = split[axis];
    }
    value->sharding = value->declared;
}

void sw_program_retarget_logical(struct sw_program *p, const struct sw_program_options *o)
{
    struct sw_sizes sizes;
    struct sw_axes split[SW_L_COUNT] = {{0, {0}}};
    sw_sizes_of(o, &sizes);
    sw_sizes_apply(o, &sizes, p);
    split_axes(&o->mesh, &o->rules, split);
    resize_ops(p, &sizes);
    for (int32_t i = 0; i < p->op_count; i++)
        set_layout(&p->ops[i], p->sequence_layout);
    resize_parts(p, sw_first_layers(o));
    for (int32_t v = 0; v < p->value_count; v++)
        retarget_value(&p->values[v], &sizes, split);
}

void sw_program_assign_offsets(struct sw_program *p)
{
    sw_layout_assign_offsets(p);
}

int sw_program_retarget(struct sw_program *p, const struct sw_program_options *o,
                        struct sw_error *err)
{
    if (sw_program_resize(p, o, err) != 0)
        return -1;
    sw_layout_assign_offsets(p);
    return 0;
}
