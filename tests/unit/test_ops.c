/* Every op of the CPU device: gradients against central differences in F64, f32 and bf16 against
 * F64, and ring attention on ranks that are threads of this process. */
#include "runner/device/cpu/cpu.h"
#include "core/base/hash.h"
#include "core/ir/sampling.h"
#include "core/ir/serving.h"
#include "core/ir/workspace.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- Tensors ---- */

static uint16_t to_bf16(double value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static double from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static double get(const struct sw_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case SW_F32:
        return (double)((float *)t->data)[i];
    case SW_F64:
        return ((double *)t->data)[i];
    case SW_I32:
        return ((int32_t *)t->data)[i];
    case SW_I8:
        return ((int8_t *)t->data)[i];
    default:
        return from_bf16(((uint16_t *)t->data)[i]);
    }
}

static void set(const struct sw_tensor *t, int64_t i, double value)
{
    switch (t->dtype) {
    case SW_F32:
        ((float *)t->data)[i] = (float)value;
        break;
    case SW_F64:
        ((double *)t->data)[i] = value;
        break;
    case SW_I32:
        ((int32_t *)t->data)[i] = (int32_t)value;
        break;
    case SW_I8:
        ((int8_t *)t->data)[i] = (int8_t)value;
        break;
    default:
        ((uint16_t *)t->data)[i] = to_bf16(value);
    }
}

static struct sw_tensor tensor(enum sw_dtype dtype, uint8_t ndim, int64_t s0, int64_t s1,
                               int64_t s2)
{
    const int64_t size[3] = {s0, s1, s2};
    struct sw_tensor t;
    memset(&t, 0, sizeof t);
    t.dtype = dtype;
    t.ndim = ndim;
    t.elems = 1;
    for (uint8_t d = 0; d < ndim; d++) {
        t.size[d] = t.global[d] = size[d];
        t.elems *= size[d];
    }
    t.data = calloc((size_t)t.elems, 8);
    assert_non_null(t.data);
    return t;
}

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0 * 2 - 1;
}

/* In [-scale, scale], rounded to bf16: every dtype holds the same numbers. */
static struct sw_tensor filled(struct sw_tensor t, uint64_t seed, double scale)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < t.elems; i++)
        set(&t, i, from_bf16(to_bf16(uniform(&state) * scale)));
    return t;
}

static struct sw_tensor integers(uint8_t ndim, int64_t s0, int64_t s1, uint64_t seed, int64_t low,
                                 int64_t high)
{
    struct sw_tensor t = tensor(SW_I32, ndim, s0, s1, 0);
    uint64_t state = seed + 17;
    for (int64_t i = 0; i < t.elems; i++)
        set(&t, i, floor((double)low + (uniform(&state) + 1) / 2 * (double)(high - low)));
    return t;
}

/* Largest difference over largest magnitude of the second. */
static double distance(const struct sw_tensor *a, const struct sw_tensor *b)
{
    double most = 0, scale = 1e-30;
    assert_int_equal(a->elems, b->elems);
    for (int64_t i = 0; i < a->elems; i++) {
        const double difference = fabs(get(a, i) - get(b, i));
        most = difference > most || isnan(difference) ? difference : most;
        scale = fmax(scale, fabs(get(b, i)));
    }
    return most / scale;
}

/* ---- Running one op ---- */

enum { OPERANDS = 16 };

struct example {
    struct sw_op op;
    struct sw_tensor in[OPERANDS], out[OPERANDS];
    double loss_scale; /* of the step */
};

/* Kinds whose operands have other forms too. */
enum {
    FORM_ROPE_SLOTS = SW_OP_COUNT,
    FORM_PART,
    FORM_WHOLE,
    FORM_APPEND_INT8,
    FORM_PART_INT8,
    FORM_ROW_SQUARES,
    FORM_NORM_PLUS_ONE,
    FORM_NORM_GRAD_PLUS_ONE,
    FORM_HEAD_NORM_PLUS_ONE,
    FORM_HEAD_NORM_GRAD_PLUS_ONE,
    FORM_GELU,
    FORM_GELU_GRAD,
    FORMS
};

static enum sw_op_kind kind_of(int form)
{
    static const enum sw_op_kind kinds[FORMS - SW_OP_COUNT] = {
        SW_OP_ROPE,      SW_OP_ATTENTION,      SW_OP_ATTENTION, SW_OP_CACHE_APPEND,
        SW_OP_ATTENTION, SW_OP_ROW_SUMS,       SW_OP_RMSNORM,   SW_OP_RMSNORM_GRAD,
        SW_OP_HEAD_NORM, SW_OP_HEAD_NORM_GRAD, SW_OP_SWIGLU,    SW_OP_SWIGLU_GRAD};
    return form < SW_OP_COUNT ? (enum sw_op_kind)form
                              : kinds[(form - SW_OP_COUNT) % (FORMS - SW_OP_COUNT)];
}

static struct example example(int form)
{
    struct example e;
    memset(&e, 0, sizeof e);
    e.op.kind = (uint8_t)kind_of(form);
    return e;
}

static void add_in(struct example *e, struct sw_tensor t)
{
    e->in[e->op.n_in++] = t;
}

static void add_out(struct example *e, struct sw_tensor t)
{
    e->out[e->op.n_out++] = t;
}

/* Results in place are their operands. */
static void release(struct example *e)
{
    for (uint16_t k = 0; k < e->op.n_out; k++) {
        bool in_place = false;
        for (uint16_t i = 0; i < e->op.n_in; i++)
            in_place = in_place || e->in[i].data == e->out[k].data;
        if (!in_place)
            free(e->out[k].data);
    }
    for (uint16_t i = 0; i < e->op.n_in; i++)
        free(e->in[i].data);
}

static struct sw_device *device_with(int32_t threads)
{
    struct sw_error err = {0};
    struct sw_device *device = sw_cpu_device_create(threads, &err);
    assert_non_null(device);
    return device;
}

/* Bytes of workspace as layout would ask for them. */
static int64_t workspace_of(const struct example *e, int32_t ring)
{
    struct sw_value values[2 * OPERANDS];
    struct sw_ref refs[2 * OPERANDS];
    struct sw_program program;
    struct sw_op op = e->op;
    op.in = refs;
    op.out = refs + op.n_in;
    memset(&program, 0, sizeof program);
    memset(values, 0, sizeof values);
    program.mesh = sw_mesh_make(1, 1, 1, ring);
    program.values = values;
    int32_t n = 0;
    for (uint16_t i = 0; i < op.n_in + op.n_out; i++, n++) {
        const struct sw_tensor *t = i < op.n_in ? &e->in[i] : &e->out[i - op.n_in];
        values[n].dtype = t->dtype;
        values[n].ndim = t->ndim;
        values[n].stack = 1;
        memcpy(values[n].local, t->size, sizeof t->size);
        refs[n] = (struct sw_ref){n, SW_INDEX_FIXED, 0};
    }
    const struct sw_op_info *info = sw_op_info(op.kind);
    return info->workspace == NULL ? 0 : info->workspace(&program, &op);
}

static const struct sw_step step_one = {.step = 3,
                                        .learning_rate = 0.01,
                                        .beta1 = 0.9,
                                        .beta2 = 0.95,
                                        .eps = 1e-8,
                                        .weight_decay = 0.1,
                                        .grad_clip = 1};

static const float divisors[SW_ROPE_MOST_PAIRS] = {1, 1.5F, 4, 2, 30}; /* of longrope */

/* Runs with exactly the workspace asked for, behind it a guard. */
static void run_with(struct sw_device *device, struct example *e, const struct sw_ring *ring,
                     const struct sw_step *step)
{
    enum { GUARD = 64 };
    struct sw_error err = {0};
    struct sw_call call;
    memset(&call, 0, sizeof call);
    e->op.workspace_bytes = workspace_of(e, ring == NULL ? 1 : ring->size);
    unsigned char *workspace =
        device->vtable->allocate(device, (size_t)e->op.workspace_bytes + GUARD);
    memset(workspace, 0xff,
           (size_t)e->op.workspace_bytes + GUARD); /* NaN: nothing counts on zeros */
    call.op = &e->op;
    call.in = e->in;
    call.out = e->out;
    call.workspace = workspace;
    struct sw_step with_scale = *step;
    with_scale.loss_scale = e->loss_scale;
    call.step = &with_scale;
    call.ring = ring;
    call.rope_divisors = divisors;
    if (device->vtable->run[e->op.kind](device, &call, &err) != 0)
        fail_msg("%s: %s", sw_op_info(e->op.kind)->name, err.message);
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(workspace[e->op.workspace_bytes + i], 0xff);
    device->vtable->release(device, workspace);
}

static void run(struct sw_device *device, struct example *e)
{
    run_with(device, e, NULL, &step_one);
}

/* ---- One example of each kind. Sizes are no multiples of a vector: tails are met. ---- */

enum { B = 2, S = 13, E = 37, F = 45, DIM = 10, HEADS = 4, KV = 2, V = 67, AS = 88 };

static enum sw_dtype wide(enum sw_dtype dtype)
{
    return dtype == SW_F64 ? SW_F64 : SW_F32;
}

static void attention_attributes(struct example *e)
{
    e->op.as.attention = (struct sw_attention_attributes){.scale = 1 / sqrt((double)DIM),
                                                          .head_dim = DIM,
                                                          .group = HEADS / KV,
                                                          .sequence_shards = 1,
                                                          .sequence_layout = SW_ZIGZAG};
}

static struct example attention_example(struct sw_device *device, enum sw_op_kind kind,
                                        enum sw_dtype t)
{
    struct example e = example(SW_OP_ATTENTION);
    attention_attributes(&e);
    add_in(&e, filled(tensor(t, 3, 1, AS, HEADS * DIM), 1, 2));
    add_in(&e, filled(tensor(t, 3, 1, AS, KV * DIM), 2, 2));
    add_in(&e, filled(tensor(t, 3, 1, AS, KV * DIM), 3, 1));
    add_out(&e, tensor(t, 3, 1, AS, HEADS * DIM));
    add_out(&e, tensor(wide(t), 3, 1, AS, HEADS));
    if (kind == SW_OP_ATTENTION)
        return e;
    run(device, &e);
    struct example g = example(kind);
    attention_attributes(&g);
    for (int i = 0; i < 3; i++)
        add_in(&g, e.in[i]);
    add_in(&g, e.out[0]);
    add_in(&g, e.out[1]);
    add_in(&g, filled(tensor(t, 3, 1, AS, HEADS * DIM), 4, 1));
    add_out(&g, tensor(t, 3, 1, AS, HEADS * DIM));
    add_out(&g, tensor(t, 3, 1, AS, KV * DIM));
    add_out(&g, tensor(t, 3, 1, AS, KV * DIM));
    return g;
}

/* stats -> loss -> gradient; labels of -1 are ignored tokens. */
static struct example head_example(struct sw_device *device, enum sw_op_kind kind, enum sw_dtype t)
{
    const double scale = 1.0 / (B * S);
    struct example stats = example(SW_OP_LM_HEAD_STATS);
    add_in(&stats, filled(tensor(t, 3, B, S, E), 1, 1));
    add_in(&stats, filled(tensor(t, 2, V, E, 0), 2, 1));
    add_in(&stats, integers(2, B, S, 3, -1, V));
    set(&stats.in[2], 5, -1);
    add_out(&stats, tensor(wide(t), 3, B, S, 3));
    if (kind == SW_OP_LM_HEAD_STATS)
        return stats;
    run(device, &stats);
    struct example loss = example(SW_OP_LM_HEAD_LOSS);
    loss.loss_scale = scale;
    add_in(&loss, stats.out[0]);
    add_in(&loss, stats.in[2]);
    add_out(&loss, tensor(wide(t), 1, 1, 0, 0));
    add_out(&loss, tensor(wide(t), 2, B, S, 0));
    if (kind == SW_OP_LM_HEAD_LOSS) {
        free(stats.in[0].data);
        free(stats.in[1].data);
        return loss;
    }
    run(device, &loss);
    struct example grad = example(kind);
    grad.loss_scale = scale;
    for (int i = 0; i < 3; i++)
        add_in(&grad, stats.in[i]);
    add_in(&grad, loss.out[1]);
    add_out(&grad, tensor(t, 3, B, S, E));
    if (kind == SW_OP_LM_HEAD_GRAD)
        add_out(&grad, tensor(t, 2, V, E, 0));
    free(stats.out[0].data);
    free(loss.out[0].data);
    return grad;
}

static void norm_operands(struct example *e, enum sw_dtype t, int64_t width, int64_t weights)
{
    const bool gradient = e->op.kind == SW_OP_RMSNORM_GRAD || e->op.kind == SW_OP_HEAD_NORM_GRAD;
    e->op.as.norm.eps = 1e-3;
    add_in(e, filled(tensor(t, 3, B, S, width), 1, 1));
    add_in(e, filled(tensor(wide(t), 1, weights, 0, 0), 2, 1));
    if (gradient)
        add_in(e, filled(tensor(t, 3, B, S, width), 3, 1));
    add_out(e, tensor(t, 3, B, S, width));
    if (gradient)
        add_out(e, tensor(wide(t), 1, weights, 0, 0));
}

static struct sw_tensor with_last(struct sw_tensor t, int64_t size)
{
    t.size[t.ndim] = t.global[t.ndim] = size;
    t.ndim++;
    t.elems *= size;
    t.data = realloc(t.data, (size_t)t.elems * 8);
    assert_non_null(t.data);
    return t;
}

/* Integers of a cache in int8, and their scales. */
static struct sw_tensor integers_of_cache(uint64_t seed)
{
    const struct sw_tensor t = tensor(SW_I8, 3, B, 48, KV * DIM);
    uint64_t state = seed;
    for (int64_t i = 0; i < t.elems; i++)
        set(&t, i, nearbyint(uniform(&state) * 127));
    return t;
}

static struct sw_tensor scales_of_cache(uint64_t seed)
{
    const struct sw_tensor t = filled(tensor(SW_F32, 3, B, 48, KV), seed, 1.0 / 127);
    for (int64_t i = 0; i < t.elems; i++)
        set(&t, i, fabs(get(&t, i)));
    return t;
}

static const double sampling[B][SW_SAMPLING_SETTINGS] = {{0, 0, 1, 0, 1.25, 0.3, 0, 2},
                                                         {0.75, 20, 0.875, 0.0625, 1.5, 0.6, 0, 3}};
enum { ADJUSTMENTS = 3 };
static const double adjustments[B][ADJUSTMENTS * SW_ADJUSTMENT_NUMBERS] = {
    {3, -1.5, 0, 8, 0.25, 2}, {0, (double)SW_BANNED_BIAS, 0, 20, 0, 0.75, 66, 4, -1}};

/* Slots at positions 4 and 0, in a cache of two chunks of 24. */
static struct example serving_example(int kind, enum sw_dtype t, int64_t seq)
{
    struct example e = example(kind);
    /* all tokens count; the rows' slots are the other way round */
    const struct sw_tensor slots = integers(2, B, SW_SLOT_FIELDS, 1, seq, seq + 1);
    for (int64_t b = 0; b < B; b++) {
        set(&slots, b * SW_SLOT_FIELDS + SW_SLOT_FIRST, b == 0 ? 4 : 0);
        set(&slots, b * SW_SLOT_FIELDS + SW_SLOT_NUMBER, (double)(B - 1 - b));
    }
    if (kind_of(kind) == SW_OP_CACHE_APPEND)
        e.op.as.append = (struct sw_append_attributes){
            .head_dim = kind == FORM_APPEND_INT8 ? DIM : 0, .chunk = 24};
    else
        e.op.as.attention = (struct sw_attention_attributes){.scale = 1 / sqrt((double)DIM),
                                                             .head_dim = DIM,
                                                             .group = HEADS / KV,
                                                             .keys = SW_KEYS_CACHE_PART,
                                                             .sequence_layout = -1,
                                                             .chunk = 24};
    switch (kind) {
    case FORM_ROPE_SLOTS:
        memset(&e.op.as, 0, sizeof e.op.as);
        e.op.as.rope.slots = true;
        e.op.as.rope.head_dim = DIM;
        e.op.as.rope.rope.theta = 10000;
        add_in(&e, filled(tensor(t, 3, B, seq, HEADS * DIM), 1, 1));
        add_in(&e, slots);
        add_out(&e, tensor(t, 3, B, seq, HEADS * DIM));
        break;
    case SW_OP_CACHE_APPEND:
        add_in(&e, filled(tensor(t, 3, B, 48, KV * DIM), 1, 1));
        add_in(&e, filled(tensor(t, 3, B, seq, KV * DIM), 2, 1));
        add_in(&e, slots);
        add_out(&e, e.in[0]);
        break;
    case FORM_PART:
        add_in(&e, filled(tensor(t, 3, B, seq, HEADS * DIM), 1, 1));
        add_in(&e, filled(tensor(t, 3, B, 48, KV * DIM), 2, 1));
        add_in(&e, filled(tensor(t, 3, B, 48, KV * DIM), 3, 1));
        add_in(&e, slots);
        add_out(&e, with_last(tensor(wide(t), 3, B, seq, HEADS * DIM), 1));
        add_out(&e, with_last(tensor(wide(t), 3, B, seq, HEADS * 2), 1));
        break;
    case FORM_WHOLE: /* of a cache in three parts */
        e.op.as.attention.keys = SW_KEYS_CACHE;
        e.op.as.attention.parts = 3;
        add_in(&e, filled(tensor(t, 3, B, seq, HEADS * DIM), 1, 1));
        add_in(&e, filled(tensor(t, 3, B, 48, KV * DIM), 2, 1));
        add_in(&e, filled(tensor(t, 3, B, 48, KV * DIM), 3, 1));
        add_in(&e, slots);
        add_out(&e, tensor(t, 3, B, seq, HEADS * DIM));
        break;
    case SW_OP_CACHE_ROWS:
        memset(&e.op.as, 0, sizeof e.op.as);
        add_in(&e, filled(tensor(t, 3, B + 1, 48, KV * DIM), 1, 1));
        add_in(&e, slots);
        add_out(&e, tensor(t, 3, B, 48, KV * DIM));
        break;
    case FORM_APPEND_INT8:
        add_in(&e, integers_of_cache(1));
        add_in(&e, filled(tensor(t, 3, B, seq, KV * DIM), 2, 1));
        add_in(&e, slots);
        add_in(&e, scales_of_cache(4));
        add_out(&e, e.in[0]);
        add_out(&e, e.in[3]);
        break;
    case FORM_PART_INT8:
        add_in(&e, filled(tensor(t, 3, B, seq, HEADS * DIM), 1, 1));
        add_in(&e, integers_of_cache(2));
        add_in(&e, integers_of_cache(3));
        add_in(&e, slots);
        add_in(&e, scales_of_cache(4));
        add_in(&e, scales_of_cache(5));
        add_out(&e, with_last(tensor(wide(t), 3, B, seq, HEADS * DIM), 1));
        add_out(&e, with_last(tensor(wide(t), 3, B, seq, HEADS * 2), 1));
        break;
    case SW_OP_SOFTMAX_MERGE: /* the second of three parts */
        memset(&e.op.as, 0, sizeof e.op.as);
        add_in(&e, with_last(filled(tensor(wide(t), 3, B, seq, HEADS * DIM), 1, 1), 1));
        e.in[0].start[3] = 1;
        add_in(&e, filled(with_last(tensor(wide(t), 3, B, seq, HEADS * 2), 3), 2, 4));
        for (int64_t i = 0; i < e.in[1].elems; i++) /* sums are positive */
            set(&e.in[1], i, i / 3 % 2 ? fabs(get(&e.in[1], i)) + 1 : get(&e.in[1], i));
        add_out(&e, tensor(t, 3, B, seq, HEADS * DIM));
        free(slots.data);
        break;
    case SW_OP_PICK_TOKEN:
        add_in(&e, filled(tensor(t, 3, B, seq, E), 1, 1));
        add_in(&e, slots);
        add_out(&e, tensor(t, 3, B, 1, E));
        break;
    case SW_OP_TOP_TOKENS: /* of a slot each: none, a few, all that can be had */
        add_in(&e, filled(tensor(wide(t), 3, B, 1, V), 1, 4));
        add_in(&e, tensor(SW_F32, 2, B, SW_SAMPLING_SETTINGS, 0));
        for (int64_t b = 0; b < B; b++)
            set(&e.in[1], b * SW_SAMPLING_SETTINGS + SW_SAMPLING_TOP, (double)(b * 10 % 21));
        add_in(&e, filled(tensor(wide(t), 2, B, 2, 0), 2, 1));
        add_out(&e, tensor(wide(t), 2, B, SW_SAMPLED_NUMBERS, 0));
        free(slots.data);
        break;
    case SW_OP_LM_HEAD_LOGPROBS: /* of a vocabulary in two shards */
        add_in(&e, filled(tensor(wide(t), 3, B, seq, 6), 1, 4));
        for (int64_t i = 1; i < e.in[0].elems; i += 3)
            set(&e.in[0], i, fabs(get(&e.in[0], i)) + 1);
        add_in(&e, integers(2, B, seq, 2, -2, V));
        add_out(&e, tensor(wide(t), 2, B, seq, 0));
        free(slots.data);
        break;
    default:
        add_in(&e, filled(tensor(wide(t), 3, B, 1, V), 1, 4));
        add_in(&e, integers(2, B, sw_sampling_words(V), 2, -1000000, 1000000));
        add_in(&e, tensor(SW_F32, 2, B, SW_SAMPLING_SETTINGS, 0));
        for (int64_t i = 0; i < e.in[2].elems; i++)
            set(&e.in[2], i, sampling[i / SW_SAMPLING_SETTINGS][i % SW_SAMPLING_SETTINGS]);
        add_in(&e, tensor(SW_F32, 2, B, ADJUSTMENTS * SW_ADJUSTMENT_NUMBERS, 0));
        for (int64_t b = 0, i = 0; b < B; b++)
            for (int64_t n = 0; n < ADJUSTMENTS * SW_ADJUSTMENT_NUMBERS; n++)
                set(&e.in[3], i++, adjustments[b][n]);
        add_out(&e, tensor(wide(t), 2, B, 2, 0));
        free(slots.data);
    }
    return e;
}

/* Of the rows of norm_operands, or of as many of their elements; a whole row has twice as many. */
static void split_norm_operands(struct example *e, int kind, enum sw_dtype t, int64_t width)
{
    const struct sw_tensor x = filled(tensor(t, 3, B, S, width), 1, 1);
    const struct sw_tensor w = filled(tensor(wide(t), 1, width, 0, 0), 2, 1);
    const struct sw_tensor dy = filled(tensor(t, 3, B, S, width), 3, 1);
    struct sw_tensor sums[2];
    for (uint64_t i = 0; i < 2; i++)
        sums[i] = filled(tensor(wide(t), 2, B, S, 0), 4 + i, 20);
    for (int64_t i = 0; i < sums[0].elems; i++)
        set(&sums[0], i, fabs(get(&sums[0], i)));
    const bool norm = kind == SW_OP_SPLIT_NORM || kind == SW_OP_SPLIT_NORM_GRAD;
    if (norm)
        e->op.as.norm = (struct sw_norm_attributes){.eps = 1e-3, .width = (int32_t)(2 * width)};
    const struct {
        bool takes;
        struct sw_tensor tensor;
    } operands[] = {{true, x},
                    {norm, sums[0]},
                    {kind != FORM_ROW_SQUARES, w},
                    {kind == SW_OP_ROW_SUMS || kind == SW_OP_SPLIT_NORM_GRAD, dy},
                    {kind == SW_OP_SPLIT_NORM_GRAD, sums[1]}};
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        if (operands[i].takes)
            add_in(e, operands[i].tensor);
        else
            free(operands[i].tensor.data);
    add_out(e, norm ? tensor(t, 3, B, S, width) : tensor(wide(t), 2, B, S, 0));
    if (kind == SW_OP_SPLIT_NORM_GRAD)
        add_out(e, tensor(wide(t), 1, width, 0, 0));
}

/* Fails for a kind without an example: what a device runs is tested. */
static struct example make(struct sw_device *device, int kind, enum sw_dtype t)
{
    struct example e = example(kind);
    switch (kind) {
    case SW_OP_EMBEDDING:
        add_in(&e, integers(2, B, S, 1, 0, V));
        add_in(&e, filled(tensor(t, 2, V, E, 0), 2, 1));
        add_out(&e, tensor(t, 3, B, S, E));
        break;
    case SW_OP_EMBEDDING_GRAD:
        add_in(&e, integers(2, B, S, 1, 0, 5)); /* few tokens: rows are added to again */
        add_in(&e, filled(tensor(t, 3, B, S, E), 2, 1));
        add_out(&e, tensor(t, 2, V, E, 0));
        break;
    case SW_OP_RMSNORM:
    case SW_OP_RMSNORM_GRAD:
    case FORM_NORM_PLUS_ONE:
    case FORM_NORM_GRAD_PLUS_ONE:
        e.op.as.norm.plus_one = kind >= FORM_NORM_PLUS_ONE;
        norm_operands(&e, t, E, E);
        break;
    case SW_OP_HEAD_NORM:
    case SW_OP_HEAD_NORM_GRAD:
    case FORM_HEAD_NORM_PLUS_ONE:
    case FORM_HEAD_NORM_GRAD_PLUS_ONE:
        e.op.as.norm.plus_one = kind >= FORM_NORM_PLUS_ONE;
        e.op.as.norm.head_dim = DIM;
        norm_operands(&e, t, HEADS * DIM, DIM);
        break;
    case SW_OP_LINEAR:
    case SW_OP_LINEAR_T:
        add_in(&e, filled(tensor(t, 3, B, S, kind == SW_OP_LINEAR ? E : F), 1, 1));
        add_in(&e, filled(tensor(t, 2, E, F, 0), 2, 1));
        add_out(&e, tensor(t, 3, B, S, kind == SW_OP_LINEAR ? F : E));
        break;
    case SW_OP_LINEAR_DW:
        add_in(&e, filled(tensor(t, 3, B, S, E), 1, 1));
        add_in(&e, filled(tensor(t, 3, B, S, F), 2, 1));
        add_out(&e, tensor(wide(t), 2, E, F, 0));
        break;
    case SW_OP_ADD_BIAS:
        add_in(&e, filled(tensor(t, 3, B, S, F), 1, 1));
        add_in(&e, filled(tensor(wide(t), 1, F, 0, 0), 2, 1));
        add_out(&e, tensor(t, 3, B, S, F));
        break;
    case SW_OP_BIAS_GRAD:
        add_in(&e, filled(tensor(t, 3, B, S, F), 1, 1));
        add_out(&e, tensor(wide(t), 1, F, 0, 0));
        break;
    case SW_OP_ROPE:
        e.op.as.rope.head_dim = DIM;
        e.op.as.rope.rope.theta = 10000;
        add_in(&e, filled(tensor(t, 3, B, S, HEADS * DIM), 1, 1));
        add_in(&e, integers(1, S, 0, 2, 0, 1000));
        add_out(&e, tensor(t, 3, B, S, HEADS * DIM));
        break;
    case SW_OP_REPLICATE_HEADS:
    case SW_OP_REPLICATE_HEADS_GRAD:
        e.op.as.copies.head_dim = DIM;
        e.op.as.copies.copies = 2;
        add_in(&e, filled(tensor(t, 3, B, S, DIM * (kind == SW_OP_REPLICATE_HEADS ? 2 : 4)), 1, 1));
        add_out(&e, tensor(t, 3, B, S, DIM * (kind == SW_OP_REPLICATE_HEADS ? 4 : 2)));
        break;
    case SW_OP_ATTENTION:
    case SW_OP_ATTENTION_GRAD:
        return attention_example(device, kind, t);
    case SW_OP_SWIGLU:
    case SW_OP_SWIGLU_GRAD:
    case FORM_GELU:
    case FORM_GELU_GRAD:
        e.op.as.swiglu.gelu = kind >= FORM_GELU;
        for (uint64_t i = 0; i < (e.op.kind == SW_OP_SWIGLU ? 2 : 3); i++)
            add_in(&e, filled(tensor(t, 3, B, S * 7, F), 1 + i, i == 0 ? 8 : 1));
        for (int i = 0; i < (e.op.kind == SW_OP_SWIGLU ? 1 : 2); i++)
            add_out(&e, tensor(t, 3, B, S * 7, F));
        break;
    case SW_OP_ADD:
        for (uint64_t i = 0; i < 2; i++)
            add_in(&e, filled(tensor(t, 3, B, S, E), 1 + i, 1));
        add_out(&e, tensor(t, 3, B, S, E));
        break;
    case SW_OP_ACCUMULATE:
        add_in(&e, filled(tensor(wide(t), 3, B, S, E), 1, 1));
        add_in(&e, filled(tensor(t, 3, B, S, E), 2, 1));
        add_out(&e, e.in[0]);
        break;
    case SW_OP_LM_HEAD_STATS:
    case SW_OP_LM_HEAD_LOSS:
    case SW_OP_LM_HEAD_GRAD:
    case SW_OP_LM_HEAD_DX:
        return head_example(device, kind, t);
    case SW_OP_SUM_SQUARES:
        add_in(&e, filled(tensor(t, 2, 300, 301, 0), 1, 1));
        add_out(&e, tensor(wide(t), 1, 1, 0, 0));
        break;
    case SW_OP_GRAD_NORM:
        for (int i = 0; i < 3; i++) {
            add_in(&e, tensor(wide(t), 1, 1, 0, 0));
            set(&e.in[i], 0, i + 0.25);
        }
        add_out(&e, tensor(wide(t), 1, 1, 0, 0));
        break;
    case SW_OP_ADAMW:
        e.op.as.adamw.decay = true;
        for (uint64_t i = 0; i < 4; i++) /* weights, gradients, means, squares */
            add_in(&e, filled(tensor(i == 0 ? t : wide(t), 2, E, F, 0), 1 + i, i < 2 ? 1 : 0.1));
        for (int64_t i = 0; i < e.in[3].elems; i++)
            set(&e.in[3], i, fabs(get(&e.in[3], i)));
        add_in(&e, tensor(wide(t), 1, 1, 0, 0));
        set(&e.in[4], 0, 4);
        add_out(&e, e.in[0]);
        add_out(&e, e.in[2]);
        add_out(&e, e.in[3]);
        break;
    case SW_OP_SCALE:
        e.op.as.scale.factor = 0.22;
        add_in(&e, filled(tensor(t, 3, B, S, E), 1, 1));
        add_out(&e, tensor(t, 3, B, S, E));
        break;
    case SW_OP_SOFTCAP:
        e.op.as.softcap.cap = 0.75;
        add_in(&e, filled(tensor(t, 3, B, S, E), 1, 2));
        add_out(&e, tensor(t, 3, B, S, E));
        break;
    case SW_OP_ROW_SUMS:
    case FORM_ROW_SQUARES:
    case SW_OP_SPLIT_NORM:
    case SW_OP_SPLIT_NORM_GRAD:
        split_norm_operands(&e, kind, t, E);
        break;
    case SW_OP_CAST:
        add_in(&e, filled(tensor(t, 3, B, S, E), 1, 1));
        add_out(&e, tensor(t == SW_F32 ? SW_BF16_T : wide(t), 3, B, S, E));
        break;
    case SW_OP_WIDEN:
    case SW_OP_WIDEN_T:
        add_in(&e, tensor(SW_I8, 2, S, E, 0));
        for (int64_t i = 0; i < e.in[0].elems; i++)
            set(&e.in[0], i, (double)(i * 37 % 255 - 127));
        add_in(&e, filled(tensor(SW_F32, 1, kind == SW_OP_WIDEN ? E : S, 0, 0), 2, 1));
        add_out(&e, tensor(t, 2, S, E, 0));
        break;
    case SW_OP_SLICE:
        add_in(&e, filled(tensor(t, 3, B, S, E), 1, 1));
        add_out(&e, tensor(t, 3, B, S - 4, E - 9));
        e.out[0].start[1] = 3;
        e.out[0].start[2] = 5;
        break;
    case FORM_ROPE_SLOTS:
    case SW_OP_CACHE_APPEND:
    case SW_OP_CACHE_ROWS:
    case FORM_PART:
    case FORM_APPEND_INT8:
    case FORM_PART_INT8:
    case FORM_WHOLE:
    case SW_OP_SOFTMAX_MERGE:
    case SW_OP_PICK_TOKEN:
    case SW_OP_SAMPLE:
    case SW_OP_TOP_TOKENS:
    case SW_OP_LM_HEAD_LOGPROBS:
        return serving_example(kind, t, S);
    default:
        fail_msg("the device runs %s, which has no example", sw_op_info(kind_of(kind))->name);
    }
    return e;
}

/* Kinds that have no code on a device: the executor's. */
static bool runs(const struct sw_device *device, int kind)
{
    return device->vtable->run[kind_of(kind)] != NULL;
}

/* f32: 2^-24 * sqrt(terms <= 2048) * 16. bf16: results are rounded to 2^-9, intermediate ones (o,
 * p, logit gradients) too, and each enters a sum once: 2^-9 * 8. Both relative to the largest
 * result. */
static void narrow_dtypes_agree_with_f64(void **state)
{
    (void)state;
    struct sw_device *device = device_with(1);
    const double tolerance[2] = {0x1p-24 * 45 * 16, 0x1p-9 * 8};
    const enum sw_dtype dtypes[2] = {SW_F32, SW_BF16_T};
    for (int kind = 0; kind < FORMS; kind++)
        for (int d = 0; d < 2 && runs(device, kind); d++) {
            struct example exact = make(device, kind, SW_F64);
            struct example rounded = make(device, kind, dtypes[d]);
            run(device, &exact);
            run(device, &rounded);
            for (uint16_t i = 0; i < exact.op.n_out; i++) {
                const double off = distance(&rounded.out[i], &exact.out[i]);
                if (!(off <= tolerance[d]))
                    fail_msg("%s result %d in %s is off by %g", sw_op_info(kind_of(kind))->name, i,
                             sw_dtype_name(dtypes[d]), off);
            }
            release(&exact);
            release(&rounded);
        }
    device->vtable->destroy(device);
}

/* Sums are cut the same way whatever the number of threads. */
static void threads_do_not_change_bits(void **state)
{
    (void)state;
    struct sw_device *one = device_with(1), *three = device_with(3);
    ((struct sw_cpu_device *)three)->alone_elems = 0; /* these are small */
    for (int kind = 0; kind < FORMS; kind++) {
        if (!runs(one, kind) || kind == SW_OP_LINEAR || kind == SW_OP_LINEAR_T ||
            kind == SW_OP_LINEAR_DW || kind == SW_OP_LM_HEAD_STATS || kind == SW_OP_LM_HEAD_LOSS ||
            kind == SW_OP_LM_HEAD_GRAD || kind == SW_OP_LM_HEAD_DX)
            continue; /* oneDNN's to decide */
        struct example a = make(one, kind, SW_F32), b = make(one, kind, SW_F32);
        run(one, &a);
        run(three, &b);
        for (uint16_t i = 0; i < a.op.n_out; i++)
            assert_memory_equal(a.out[i].data, b.out[i].data,
                                (size_t)a.out[i].elems * sw_dtype_bytes(a.out[i].dtype));
        release(&a);
        release(&b);
    }
    one->vtable->destroy(one);
    three->vtable->destroy(three);
}

/* ---- Serving ---- */

/* The last token of a slot, on its way of its own, and as the last of a chunk; in every precision
 * of the cache that there is beside each precision of the queries. Tolerances as above; of bf16
 * over bf16 each of at most 48 probabilities, none above 1, of values that are not either, may be
 * rounded to bf16. */
static void a_token_attends_as_in_a_chunk(void **state)
{
    (void)state;
    static const struct {
        enum sw_dtype queries, cache;
        double tolerance;
    } cases[] = {{SW_F64, SW_F64, 1e-13},
                 {SW_F32, SW_F32, 0x1p-24 * 45 * 16},
                 {SW_BF16_T, SW_F32, 0x1p-24 * 45 * 16},
                 {SW_BF16_T, SW_BF16_T, 0x1p-9 * 48 / S}};
    struct sw_device *device = device_with(1);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct example chunk = serving_example(FORM_PART, cases[c].queries, S);
        struct example token = serving_example(FORM_PART, cases[c].queries, 1);
        for (int i = 1; i < 3; i++) {
            free(token.in[i].data);
            free(chunk.in[i].data);
            chunk.in[i] = filled(tensor(cases[c].cache, 3, B, 48, KV * DIM), (uint64_t)i + 1, 1);
            token.in[i] = filled(tensor(cases[c].cache, 3, B, 48, KV * DIM), (uint64_t)i + 1, 1);
        }
        run(device, &chunk);
        for (int64_t b = 0; b < B; b++) {
            set(&token.in[3], b * SW_SLOT_FIELDS, get(&chunk.in[3], b * SW_SLOT_FIELDS) + S - 1);
            for (int64_t i = 0; i < HEADS * DIM; i++)
                set(&token.in[0], b * HEADS * DIM + i,
                    get(&chunk.in[0], (b * S + S - 1) * HEADS * DIM + i));
        }
        run(device, &token);
        for (int k = 0; k < 2; k++) {
            const int64_t width = token.out[k].elems / B;
            for (int64_t i = 0; i < token.out[k].elems; i++) {
                const double wanted =
                    get(&chunk.out[k], (i / width * S + S - 1) * width + i % width);
                if (!(fabs(get(&token.out[k], i) - wanted) <= cases[c].tolerance * S))
                    fail_msg("case %d, result %d, element %d is %.9g, not %.9g", (int)c, k, (int)i,
                             get(&token.out[k], i), wanted);
            }
        }
        release(&chunk);
        release(&token);
    }
    device->vtable->destroy(device);
}

/* Rows whose tokens follow each other in a slot go over what they all see together, so many at a
 * time, their heads shared out among threads by what all rows gather; each is what one thread makes
 * of it alone, to the bit. */
static void rows_of_a_text_attend_as_alone(void **state)
{
    (void)state;
    enum { ROWS = 45, PLACES = 200, FIRST = 118 };
    static const enum sw_dtype dtypes[] = {SW_F64, SW_F32, SW_BF16_T};
    struct sw_device *device = device_with(2), *one = device_with(1);
    for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
        struct example e = example(FORM_PART);
        const struct sw_tensor slots = integers(2, ROWS, SW_SLOT_FIELDS, 1, 0, 1);
        e.op.as.attention = (struct sw_attention_attributes){.scale = 1 / sqrt((double)DIM),
                                                             .head_dim = DIM,
                                                             .group = HEADS / KV,
                                                             .keys = SW_KEYS_CACHE_PART,
                                                             .sequence_layout = -1,
                                                             .chunk = 1};
        add_in(&e, filled(tensor(dtypes[t], 3, ROWS, 1, HEADS * DIM), 1, 1));
        add_in(&e, filled(tensor(dtypes[t], 3, B, PLACES, KV * DIM), 2, 1));
        add_in(&e, filled(tensor(dtypes[t], 3, B, PLACES, KV * DIM), 3, 1));
        add_in(&e, slots);
        add_out(&e, with_last(tensor(wide(dtypes[t]), 3, ROWS, 1, HEADS * DIM), 1));
        add_out(&e, with_last(tensor(wide(dtypes[t]), 3, ROWS, 1, HEADS * 2), 1));
        /* one of another slot between those of the first */
        for (int64_t r = 0; r < ROWS; r++) {
            set(&slots, r * SW_SLOT_FIELDS + SW_SLOT_FIRST, (double)(FIRST + r));
            set(&slots, r * SW_SLOT_FIELDS + SW_SLOT_TOKENS, 1);
            set(&slots, r * SW_SLOT_FIELDS + SW_SLOT_NUMBER, r == 40);
        }
        run(device, &e);
        struct sw_tensor together[2] = {tensor(e.out[0].dtype, 1, e.out[0].elems, 0, 0),
                                        tensor(e.out[1].dtype, 1, e.out[1].elems, 0, 0)};
        for (int k = 0; k < 2; k++)
            memcpy(together[k].data, e.out[k].data,
                   (size_t)e.out[k].elems * sw_dtype_bytes(e.out[k].dtype));
        for (int64_t r = 0; r < ROWS; r++) {
            for (int64_t other = 0; other < ROWS; other++)
                set(&slots, other * SW_SLOT_FIELDS + SW_SLOT_TOKENS, other == r);
            run(one, &e);
            for (int k = 0; k < 2; k++) {
                const size_t row = (size_t)(e.out[k].elems / ROWS) * sw_dtype_bytes(e.out[k].dtype);
                assert_memory_equal((const char *)e.out[k].data + (size_t)r * row,
                                    (const char *)together[k].data + (size_t)r * row, row);
            }
        }
        for (int k = 0; k < 2; k++)
            free(together[k].data);
        release(&e);
    }
    device->vtable->destroy(device);
    one->vtable->destroy(one);
}

/* Which tokens of four a set of filters leaves, told by what any draw gives. */
static unsigned left_by(struct sw_device *device, const double settings[SW_SAMPLING_SETTINGS],
                        int32_t seen)
{
    static const double logits[4] = {1, 3, 2, -1}; /* shares .114, .844, .. at temperature 1 */
    struct example e = example(SW_OP_SAMPLE);
    unsigned left = 0;
    add_in(&e, tensor(SW_F32, 3, 1, 1, 4));
    add_in(&e, tensor(SW_I32, 2, 1, 1, 0));
    add_in(&e, tensor(SW_F32, 2, 1, SW_SAMPLING_SETTINGS, 0));
    add_in(&e, tensor(SW_F32, 2, 1, SW_ADJUSTMENT_NUMBERS, 0));
    add_out(&e, tensor(SW_F32, 2, 1, 2, 0));
    set(&e.in[1], 0, seen);
    for (int64_t i = 0; i < 4; i++)
        set(&e.in[0], i, logits[i]);
    for (int64_t i = 0; i < SW_SAMPLING_SETTINGS; i++)
        set(&e.in[2], i, settings[i]);
    for (int draw = 0; draw < 1024; draw++) {
        set(&e.in[2], SW_SAMPLING_DRAW, (draw + 0.5) / 1024.0);
        run(device, &e);
        const double token = get(&e.out[0], 0);
        left |= 1u << (int)token;
        /* of the logits as they are */
        const double lse = log(exp(1) + exp(3) + exp(2) + exp(-1));
        assert_true(fabs(get(&e.out[0], 1) - (logits[(int)token] - lse)) < 1e-6);
    }
    release(&e);
    return left;
}

/* The shares at temperature 1 are 0.0889, 0.657, 0.242 and 0.0120. */
static void filters_leave_the_tokens_they_should(void **state)
{
    (void)state;
    struct sw_device *device = device_with(1);
    static const struct {
        double settings[SW_SAMPLING_SETTINGS];
        int32_t seen;
        unsigned left;
    } cases[] = {
        {{0, 0, 1, 0, 1, 0}, 0, 0x2},        /* the largest */
        {{1, 0, 1, 0, 1, 0}, 0, 0xf},        /* any */
        {{0.125, 0, 1, 0, 1, 0}, 0, 0x2},    /* cold: 0.9997 for the largest */
        {{1, 2, 1, 0, 1, 0}, 0, 0x6},        /* the first two */
        {{1, 4, 1, 0, 1, 0}, 0, 0xf},        /* as many as there are */
        {{1, 1000, 1, 0, 1, 0}, 0, 0xf},     /* and more */
        {{1, 0, 0.6, 0, 1, 0}, 0, 0x2},      /* 0.657 suffices */
        {{1, 0, 0.7, 0, 1, 0}, 0, 0x6},      /* it does not */
        {{1, 0, 0.98, 0, 1, 0}, 0, 0x7},     /* 0.988 of three */
        {{1, 2, 0.72, 0, 1, 0}, 0, 0x2},     /* 0.73 of the two that top_k leaves */
        {{1, 0, 1, 0.3, 1, 0}, 0, 0x6},      /* 0.37 of the largest, not 0.14 */
        {{1, 0, 1, 0.5, 1, 0}, 0, 0x2},      /* */
        {{0, 0, 1, 0, 2, 0}, 0x2, 0x4},      /* 3 / 2 is below 2 */
        {{1, 3, 1, 0, 64, 0}, 0x8 | 1, 0x7}, /* the seen last one is -64 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const unsigned left = left_by(device, cases[i].settings, cases[i].seen);
        if (left != cases[i].left)
            fail_msg("case %d leaves %x, not %x", (int)i, left, cases[i].left);
    }
    device->vtable->destroy(device);
}

/* A token of a list of whole logits: the largest, or the one in whose share the draw falls;
 * *edge: how far that is from another one's. */
static int64_t chosen_of(const double *logits, int64_t vocab, double temperature, double draw,
                         double *edge)
{
    double sum = 0, before = 0;
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        best = logits[i] > logits[best] ? i : best;
    *edge = 1;
    if (temperature == 0)
        return best;
    for (int64_t i = 0; i < vocab; i++)
        sum += exp((logits[i] - logits[best]) / temperature);
    for (int64_t i = 0; i < vocab; i++) {
        const double share = exp((logits[i] - logits[best]) / temperature) / sum;
        *edge = fmin(fabs(draw - before), fabs(draw - before - share));
        if (draw < before + share)
            return i;
        before += share;
    }
    return best;
}

struct ranked {
    double logit;
    int64_t token;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit ? 1 : -1) : x->token < y->token ? -1 : 1;
}

/* sampling.h word by word, over tokens in order; *edge: how far a sum is from where it would change
 * anything, relative to all. */
static int64_t filtered_of(struct ranked *r, int64_t vocab, const double *settings, double *edge)
{
    const double top_k = settings[SW_SAMPLING_TOP_K], top_p = settings[SW_SAMPLING_TOP_P];
    const int64_t most = top_k > 0 && top_k < (double)vocab ? (int64_t)top_k : vocab;
    double all = 0, kept = 0, before = 0;
    int64_t count = 0;
    qsort(r, (size_t)vocab, sizeof *r, by_rank);
    const double first = r[0].logit;
    for (int64_t i = 0; i < vocab; i++)
        r[i].logit = exp((r[i].logit - first) / settings[SW_SAMPLING_TEMPERATURE]);
    for (int64_t i = 0; i < most; i++)
        all += r[i].logit;
    *edge = 1;
    for (; count < most && (count == 0 || kept < top_p * all); count++) {
        if (count > 0) {
            *edge = fmin(*edge, fabs(r[count].logit / settings[SW_SAMPLING_MIN_P] - 1));
            if (r[count].logit < settings[SW_SAMPLING_MIN_P])
                break;
        }
        kept += r[count].logit;
        if (top_p < 1)
            *edge = fmin(*edge, fabs(kept / all - top_p));
    }
    for (int64_t i = 0; i < count; i++) {
        before += r[i].logit / kept;
        *edge = fmin(*edge, fabs(before - settings[SW_SAMPLING_DRAW]));
        if (before > settings[SW_SAMPLING_DRAW])
            return r[i].token;
    }
    return r[count - 1].token;
}

/* Of vocabularies of several tiles, peaked, flat and with many that are equal. A sum of 3000 fp32
 * numbers in tiles is off by less than 2^-24 sqrt(1024) 16, one of double by 1e-12. */
static void large_vocabularies_are_filtered(void **state)
{
    (void)state;
    enum { VOCAB = 3000, ROUNDS = 360 };
    static const double spread[] = {0.002, 1, 6, 30};
    static const double filters[][4] = {{0, 1, 0},     {40, 1, 0},     {0, 0.9, 0},
                                        {0, 0.3, 0},   {0, 1, 0.05},   {2999, 0.999, 0},
                                        {7, 0.8, 0.1}, {0, 0.99, 0.2}, {1500, 1, 0.4}};
    enum { FILTERS = sizeof filters / sizeof filters[0] };
    static struct ranked ranked[VOCAB];
    static double logits[VOCAB];
    struct sw_device *device = device_with(1);
    int64_t compared = 0;
    for (int64_t round = 0; round < ROUNDS; round++) {
        struct example e = example(SW_OP_SAMPLE);
        const enum sw_dtype wide = round % 2 == 0 ? SW_F32 : SW_F64;
        const uint64_t mixed = sw_hash_mix((uint64_t)round + 1);
        const double *f = filters[round / 2 % FILTERS];
        double settings[SW_SAMPLING_SETTINGS] = {
            mixed % 3 == 0 ? 1.5 : 0.75, f[0], f[1], f[2], 1, (double)(mixed >> 40) * 0x1p-24};
        double edge;
        add_in(&e, filled(tensor(wide, 3, 1, 1, VOCAB), mixed, spread[mixed % 4]));
        add_in(&e, tensor(SW_I32, 2, 1, (VOCAB + 31) / 32, 0));
        add_in(&e, tensor(SW_F32, 2, 1, SW_SAMPLING_SETTINGS, 0));
        add_in(&e, tensor(SW_F32, 2, 1, SW_ADJUSTMENT_NUMBERS, 0));
        add_out(&e, tensor(wide, 2, 1, 2, 0));
        for (int64_t i = 0; i < VOCAB; i++) {
            if (mixed / 8 % 3 == 0)
                set(&e.in[0], i, rint(get(&e.in[0], i)));
            logits[i] = get(&e.in[0], i);
            ranked[i] = (struct ranked){logits[i], i};
        }
        for (int64_t i = 0; i < SW_SAMPLING_SETTINGS; i++) {
            set(&e.in[2], i, settings[i]);
            settings[i] = get(&e.in[2], i);
        }
        run(device, &e);
        const int64_t wanted =
            f[0] == 0 && f[1] == 1 && f[2] == 0
                ? chosen_of(logits, VOCAB, settings[0], settings[SW_SAMPLING_DRAW], &edge)
                : filtered_of(ranked, VOCAB, settings, &edge);
        if (edge > (wide == SW_F32 ? 0x1p-24 * 32 * 16 : 1e-12)) {
            assert_int_equal(get(&e.out[0], 0), wanted);
            compared++;
        }
        release(&e);
    }
    assert_true(compared > ROUNDS * 3 / 4);
    device->vtable->destroy(device);
}

/* Biases, bans and what is taken off, one behind the other over the whole vocabulary: the token is
 * that of these logits, its log-probability that of the model's. */
static void adjusted_logits_are_chosen_of(void **state)
{
    (void)state;
    enum { ROUNDS = 400, VOCAB = 45, MOST = 30 };
    struct sw_device *device = device_with(1);
    int64_t others = 0, banned = 0;
    for (int64_t round = 0; round < ROUNDS; round++) {
        struct example e = example(SW_OP_SAMPLE);
        const uint64_t mixed = sw_hash_mix((uint64_t)round + 1);
        const double temperature = mixed % 2 == 0 ? 0 : 0.75;
        const double penalty = mixed / 2 % 2 == 0 ? 1 : 1.5;
        const double draw = (double)(float)((double)(mixed >> 40) * 0x1p-24);
        double wanted[VOCAB], plain[VOCAB], edge, unused, sum = 0;
        int64_t count = 0;
        add_in(&e, filled(tensor(SW_F64, 3, 1, 1, VOCAB), (uint64_t)round + 7, 3));
        add_in(&e, integers(2, 1, 2, (uint64_t)round + 8, -1000000, 1000000));
        add_in(&e, tensor(SW_F32, 2, 1, SW_SAMPLING_SETTINGS, 0));
        add_in(&e, tensor(SW_F32, 2, 1, MOST * SW_ADJUSTMENT_NUMBERS, 0));
        add_out(&e, tensor(SW_F64, 2, 1, 2, 0));
        for (int64_t i = 0; i < VOCAB; i++) {
            const uint64_t drawn = sw_hash_mix(mixed + (uint64_t)i);
            const uint32_t word = (uint32_t)(int32_t)get(&e.in[1], i / 32);
            const bool bans = drawn / 2 % 9 == 0;
            const double bias = bans ? (double)SW_BANNED_BIAS : (double)(drawn / 64 % 33) / 4 - 4;
            const double off = bans ? 0 : (double)(drawn / 4096 % 9) / 4 - 0.5;
            plain[i] = wanted[i] = get(&e.in[0], i);
            sum += exp(plain[i]);
            const bool adjusted = drawn % 2 == 0 && count < MOST && round % 10 > 0;
            if (adjusted) {
                set(&e.in[3], 3 * count, (double)i);
                set(&e.in[3], 3 * count + 1, bias);
                set(&e.in[3], 3 * count++ + 2, off);
                wanted[i] += bias;
            }
            if (word >> (i % 32) & 1u)
                wanted[i] = wanted[i] > 0 ? wanted[i] / penalty : wanted[i] * penalty;
            wanted[i] -= adjusted ? off : 0;
        }
        const double settings[SW_SAMPLING_SETTINGS] = {temperature, 0,    1, 0,
                                                       penalty,     draw, 0, (double)count};
        for (int64_t i = 0; i < SW_SAMPLING_SETTINGS; i++)
            set(&e.in[2], i, settings[i]);
        run(device, &e);
        const int64_t token = chosen_of(wanted, VOCAB, temperature, draw, &edge);
        if (edge > 1e-12)
            assert_int_equal(get(&e.out[0], 0), token);
        assert_true(fabs(get(&e.out[0], 1) - (plain[(int64_t)get(&e.out[0], 0)] - log(sum))) <
                    1e-12);
        others += token != chosen_of(plain, VOCAB, temperature, draw, &unused);
        for (int64_t i = 0; i < count; i++)
            banned += get(&e.in[3], 3 * i + 1) < -1e29 && get(&e.in[3], 3 * i) == token;
        release(&e);
    }
    assert_true(others > ROUNDS / 4 && banned == 0);
    device->vtable->destroy(device);
}

/* Where everything is banned the choice is among all. */
static void all_tokens_may_be_banned(void **state)
{
    (void)state;
    static const double logits[4] = {1, 3, 2, -1};
    struct sw_device *device = device_with(1);
    for (int kind = 0; kind < 2; kind++) {
        struct example e = example(SW_OP_SAMPLE);
        add_in(&e, tensor(SW_F32, 3, 1, 1, 4));
        add_in(&e, tensor(SW_I32, 2, 1, 1, 0));
        add_in(&e, tensor(SW_F32, 2, 1, SW_SAMPLING_SETTINGS, 0));
        add_in(&e, tensor(SW_F32, 2, 1, 4 * SW_ADJUSTMENT_NUMBERS, 0));
        add_out(&e, tensor(SW_F32, 2, 1, 2, 0));
        for (int64_t i = 0; i < 4; i++) {
            set(&e.in[0], i, logits[i]);
            set(&e.in[3], 3 * i, (double)i);
            set(&e.in[3], 3 * i + 1, (double)SW_BANNED_BIAS);
        }
        set(&e.in[2], SW_SAMPLING_TEMPERATURE, kind);
        set(&e.in[2], SW_SAMPLING_TOP_P, 1);
        set(&e.in[2], SW_SAMPLING_PENALTY, 1);
        set(&e.in[2], SW_SAMPLING_DRAW, 0.6);
        set(&e.in[2], SW_SAMPLING_ADJUSTED, 1e9); /* more than there are */
        run(device, &e);
        assert_true(get(&e.out[0], 0) == (kind ? 2 : 0));
        release(&e);
    }
    device->vtable->destroy(device);
}

/* Ties go to the lower token, wherever they begin; more than there are is all there are; what was
 * chosen comes first, untouched. */
static void the_most_probable_come_in_order(void **state)
{
    (void)state;
    enum { N = 24 };
    struct sw_device *device = device_with(1);
    static const struct {
        int64_t vocab;
        double logits[N];
        double wanted;
        int32_t count, token[SW_TOP_TOKENS];
    } cases[] = {
        {4, {1, 3, 2, -1}, 0, 0, {0}},
        {4, {1, 3, 2, -1}, 1, 1, {1}},
        {4, {1, 3, 2, -1}, 3, 3, {1, 2, 0}},
        {4, {1, 3, 2, -1}, 20, 4, {1, 2, 0, 3}},
        {4, {1, 3, 2, -1}, 1e9, 4, {1, 2, 0, 3}},
        {4, {1, 3, 2, -1}, -7, 0, {0}},
        {5, {2, 2, 2, 2, 2}, 3, 3, {0, 1, 2}},
        {6, {0, 5, 1, 5, 5, 1}, 5, 5, {1, 3, 4, 2, 5}},
        {6, {-INFINITY, 5, -INFINITY, 5, 5, 1}, 6, 6, {1, 3, 4, 5, 0, 2}},
        {N,
         {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24},
         20,
         20,
         {23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct example e = example(SW_OP_TOP_TOKENS);
        double sum = 0;
        add_in(&e, tensor(SW_F64, 3, 1, 1, cases[c].vocab));
        add_in(&e, tensor(SW_F32, 2, 1, SW_SAMPLING_SETTINGS, 0));
        add_in(&e, tensor(SW_F64, 2, 1, 2, 0));
        add_out(&e, tensor(SW_F64, 2, 1, SW_SAMPLED_NUMBERS, 0));
        for (int64_t i = 0; i < cases[c].vocab; i++) {
            set(&e.in[0], i, cases[c].logits[i]);
            sum += exp(cases[c].logits[i]);
        }
        set(&e.in[1], SW_SAMPLING_TOP, cases[c].wanted);
        set(&e.in[2], 0, 3);
        set(&e.in[2], 1, -0.25);
        run(device, &e);
        assert_true(get(&e.out[0], 0) == 3 && get(&e.out[0], 1) == -0.25);
        for (int32_t i = 0; i < SW_TOP_TOKENS; i++) {
            const double token = get(&e.out[0], 2 + 2 * i), logprob = get(&e.out[0], 3 + 2 * i);
            const int32_t wanted = i < cases[c].count ? cases[c].token[i] : -1;
            const double known = wanted < 0 ? 0 : cases[c].logits[wanted] - log(sum);
            if ((int32_t)token != wanted ||
                !(logprob == known || fabs(logprob - known) < 1e-14 * 32))
                fail_msg("case %d, number %d: token %g with %.17g, not %d with %.17g", (int)c,
                         (int)i, token, logprob, (int)wanted, known);
        }
        release(&e);
    }
    device->vtable->destroy(device);
}

/* ---- Gradients ---- */

static double dot(const struct sw_tensor *a, const struct sw_tensor *b)
{
    double sum = 0;
    for (int64_t i = 0; i < a->elems; i++)
        sum += get(a, i) * get(b, i);
    return sum;
}

/* Central differences of <cotangent, out[0]> for input `index`, at most 60 of its elements. Step
 * 1e-4: the truncation is about 1e-8 of the third derivative, the rounding 1e-12 of the value. */
static void check_gradient(struct sw_device *device, struct example *forward, int index,
                           const struct sw_tensor *cotangent, const struct sw_tensor *gradient)
{
    const struct sw_tensor *x = &forward->in[index];
    const double h = 1e-4;
    double scale = 1e-6;
    for (int64_t i = 0; i < gradient->elems; i++)
        scale = fmax(scale, fabs(get(gradient, i)));
    assert_int_equal(x->elems, gradient->elems);
    for (int64_t i = 0; i < x->elems; i += x->elems / 60 + 1) {
        const double before = get(x, i);
        double value[2];
        for (int side = 0; side < 2; side++) {
            set(x, i, before + (side ? h : -h));
            run(device, forward);
            value[side] = dot(cotangent, &forward->out[0]);
        }
        set(x, i, before);
        const double expected = (value[1] - value[0]) / (2 * h);
        if (!(fabs(expected - get(gradient, i)) <= 2e-7 * scale))
            fail_msg("%s: derivative by input %d element %d is %.10g, not %.10g",
                     sw_op_info(forward->op.kind)->name, index, (int)i, expected, get(gradient, i));
    }
}

/* With pairs of a head of DIM in all three ranges of llama3 and of yarn's ramp, which begins behind
 * pair 0 and ends before 4: wavelengths of 6, 40, 250, 1580 and 9950 positions. */
static const struct sw_rope_attributes ropes[] = {
    {.rope = {.theta = 10000}},
    {.rope = {.theta = 10000, .factor = 4, .scaling = SW_ROPE_LINEAR}},
    {.rope = {.theta = 10000,
              .factor = 8,
              .low_freq_factor = 1,
              .high_freq_factor = 4,
              .original_positions = 500,
              .scaling = SW_ROPE_LLAMA3}},
    {.rope = {.theta = 10000,
              .factor = 8,
              .low_freq_factor = 0.2,
              .high_freq_factor = 30,
              .attention_factor = 1.25,
              .original_positions = 500,
              .scaling = SW_ROPE_YARN}},
    {.rope = {.theta = 10000,
              .attention_factor = 0.75,
              .original_positions = 500,
              .scaling = SW_ROPE_LONGROPE}},
    {.rope = {.theta = 10000}, .rotated = 6},
    {.rope = {.theta = 10000,
              .attention_factor = 1.5,
              .original_positions = 500,
              .scaling = SW_ROPE_LONGROPE},
     .rotated = 4},
};

static void take_rope(struct example *e, const struct sw_rope_attributes *as)
{
    e->op.as.rope.rope = as->rope;
    e->op.as.rope.rotated = as->rotated;
}

/* The angle of pair j at position 1, in the words of the models' sources. */
static double angle_of(const struct sw_rope *rope, int64_t j, double dims)
{
    const double pi = acos(-1.0), f = pow(rope->theta, -2.0 * (double)j / dims);
    const double turns = (double)rope->original_positions * f / (2 * pi);
    if (rope->scaling == SW_ROPE_LINEAR)
        return f / rope->factor;
    if (rope->scaling == SW_ROPE_LONGROPE)
        return f / (double)divisors[j];
    if (rope->scaling == SW_ROPE_YARN) {
        /* pairs whose turns are so many: dims / 2 ln(original / 2 pi turns) / ln theta */
        const double per_pair = 2 * log(rope->theta) / dims, all = log(turns / f);
        const double low = (all - log(rope->high_freq_factor)) / per_pair;
        const double high = (all - log(rope->low_freq_factor)) / per_pair;
        const double kept = 1 - fmin(1, fmax(0, ((double)j - low) / (high - low)));
        return kept * f + (1 - kept) * f / rope->factor;
    }
    if (rope->scaling != SW_ROPE_LLAMA3)
        return f;
    const double kept = fmin(1, fmax(0, (turns - rope->low_freq_factor) /
                                            (rope->high_freq_factor - rope->low_freq_factor)));
    return kept * f + (1 - kept) * f / rope->factor;
}

/* Each pair turned by its angle, times the factor; elements behind the pairs as they are. Angles
 * are made in double: one of up to 1000 is off by 2^-43 for its frequency's rounding (yarn's: some
 * more) and 2^-44 for its own, on either side, and with it a pair of numbers up to 1 by sqrt(2)
 * times that. */
static void rope_turns_by_stretched_angles(void **state)
{
    (void)state;
    struct sw_device *device = device_with(1);
    for (size_t r = 0; r < sizeof ropes / sizeof *ropes; r++) {
        const struct sw_rope *rope = &ropes[r].rope;
        const int64_t dims = ropes[r].rotated > 0 ? ropes[r].rotated : DIM, half = dims / 2;
        const double factor = rope->attention_factor != 0 ? rope->attention_factor : 1;
        struct example e = make(device, SW_OP_ROPE, SW_F64);
        take_rope(&e, &ropes[r]);
        run(device, &e);
        for (int64_t i = 0; i < B * S * HEADS * DIM; i++) {
            const int64_t in_head = i % DIM, j = in_head % half;
            const int64_t other = in_head < half ? half : -half;
            const double angle =
                get(&e.in[1], i / (HEADS * DIM) % S) * angle_of(rope, j, (double)dims);
            const double expected =
                in_head >= dims
                    ? get(&e.in[0], i)
                    : factor * (get(&e.in[0], i) * cos(angle) -
                                get(&e.in[0], i + other) * sin(angle) * (other > 0 ? 1 : -1));
            assert_true(fabs(get(&e.out[0], i) - expected) <= 2 * 1.5 * (0x1p-43 + 0x1p-44));
        }
        release(&e);
    }
    device->vtable->destroy(device);
}

/* Sequences with positions of their own turn as each does alone, to the bit. */
static void rope_turns_each_row_by_its_positions(void **state)
{
    (void)state;
    struct sw_device *device = device_with(1);
    for (int t = 0; t < 2; t++) {
        const enum sw_dtype dtype = t == 0 ? SW_F64 : SW_F32;
        struct example rows = make(device, SW_OP_ROPE, dtype);
        const int64_t row = S * HEADS * DIM;
        free(rows.in[1].data);
        rows.in[1] = integers(2, B, S, 2, 0, 1000);
        rows.op.as.rope.rows = true;
        run(device, &rows);
        for (int64_t b = 0; b < B; b++) {
            struct example one = make(device, SW_OP_ROPE, dtype);
            for (int64_t i = 0; i < S; i++)
                ((int32_t *)one.in[1].data)[i] = ((int32_t *)rows.in[1].data)[b * S + i];
            run(device, &one);
            for (int64_t i = b * row; i < (b + 1) * row; i++)
                assert_true(get(&rows.out[0], i) == get(&one.out[0], i));
            release(&one);
        }
        release(&rows);
    }
    device->vtable->destroy(device);
}

/* Cosines and sines in fp32 are libm's doubles, rounded. Both are right to a unit or two of a
 * double's last place, so that one number in 2^26 lies so near to the middle of two floats that it
 * may be rounded to the other: of these, at most one is. The longest angles are made by libm. */
static void rope_rounds_angles_once(void **state)
{
    (void)state;
    enum { POSITIONS = 5000, HALF = 33, DIMS = 2 * HALF };
    struct sw_device *device = device_with(1);
    struct example e = example(SW_OP_ROPE);
    e.op.as.rope.head_dim = DIMS;
    e.op.as.rope.rope = (struct sw_rope){.theta = 500000};
    add_in(&e, tensor(SW_F32, 3, 1, POSITIONS, DIMS));
    add_in(&e, tensor(SW_I32, 1, POSITIONS, 0, 0));
    add_out(&e, tensor(SW_F32, 3, 1, POSITIONS, DIMS));
    for (int64_t i = 0; i < POSITIONS; i++) {
        set(&e.in[1], i, (double)(i < 3000 ? i : (i - 3000) * 1021)); /* up to 2,040,000 */
        for (int64_t j = 0; j < HALF; j++)
            set(&e.in[0], i * DIMS + j, 1);
    }
    run(device, &e);
    int differ = 0;
    for (int64_t i = 0; i < POSITIONS; i++)
        for (int64_t j = 0; j < HALF; j++) {
            const double angle = get(&e.in[1], i) * sw_rope_frequency(&e.op.as.rope, NULL, j);
            const double exact[2] = {cos(angle), sin(angle)};
            for (int part = 0; part < 2; part++) {
                const double found = get(&e.out[0], i * DIMS + part * HALF + j);
                differ += found != (double)(float)exact[part];
                assert_true(fabs(found - exact[part]) <= 0x1p-24 * fabs(exact[part]) * 1.000001);
            }
        }
    assert_true(differ <= 1);
    release(&e);
    device->vtable->destroy(device);
}

static void gradients_of_rowwise_ops(void **state)
{
    (void)state;
    struct sw_device *device = device_with(1);
    static const int pairs[][2] = {{SW_OP_RMSNORM, SW_OP_RMSNORM_GRAD},
                                   {SW_OP_HEAD_NORM, SW_OP_HEAD_NORM_GRAD},
                                   {SW_OP_SWIGLU, SW_OP_SWIGLU_GRAD},
                                   {FORM_NORM_PLUS_ONE, FORM_NORM_GRAD_PLUS_ONE},
                                   {FORM_HEAD_NORM_PLUS_ONE, FORM_HEAD_NORM_GRAD_PLUS_ONE},
                                   {FORM_GELU, FORM_GELU_GRAD}};
    struct example f, g;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        f = make(device, pairs[i][0], SW_F64);
        g = make(device, pairs[i][1], SW_F64);
        run(device, &g);
        check_gradient(device, &f, 0, &g.in[2], &g.out[0]);
        check_gradient(device, &f, 1, &g.in[2], &g.out[1]);
        release(&f);
        release(&g);
    }
    f = make(device, SW_OP_ADD_BIAS, SW_F64);
    g = make(device, SW_OP_BIAS_GRAD, SW_F64);
    run(device, &g);
    check_gradient(device, &f, 0, &g.in[0], &g.in[0]);
    check_gradient(device, &f, 1, &g.in[0], &g.out[0]);
    release(&f);
    release(&g);
    f = make(device, SW_OP_EMBEDDING, SW_F64);
    g = make(device, SW_OP_EMBEDDING_GRAD, SW_F64);
    memcpy(f.in[0].data, g.in[0].data, (size_t)f.in[0].elems * 4);
    run(device, &g);
    check_gradient(device, &f, 1, &g.in[1], &g.out[0]);
    release(&f);
    release(&g);
    for (size_t i = 0; i < sizeof ropes / sizeof *ropes; i++) { /* its VJP is itself, backwards */
        f = make(device, SW_OP_ROPE, SW_F64);
        g = make(device, SW_OP_ROPE, SW_F64);
        take_rope(&f, &ropes[i]);
        take_rope(&g, &ropes[i]);
        g.op.as.rope.inverse = true;
        run(device, &g);
        check_gradient(device, &f, 0, &g.in[0], &g.out[0]);
        release(&f);
        release(&g);
    }
    f = make(device, SW_OP_REPLICATE_HEADS, SW_F64);
    g = make(device, SW_OP_REPLICATE_HEADS_GRAD, SW_F64);
    run(device, &g);
    check_gradient(device, &f, 0, &g.in[0], &g.out[0]);
    release(&f);
    release(&g);
    device->vtable->destroy(device);
}

/* plus_one gives to the bit what the sums 1 + w give as weights; dw is the same. */
static void norms_multiply_by_one_and_the_weight(void **state)
{
    (void)state;
    static const int forms[] = {FORM_NORM_PLUS_ONE, FORM_NORM_GRAD_PLUS_ONE,
                                FORM_HEAD_NORM_PLUS_ONE, FORM_HEAD_NORM_GRAD_PLUS_ONE};
    static const enum sw_dtype dtypes[] = {SW_F64, SW_F32, SW_BF16_T};
    struct sw_device *device = device_with(1);
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            struct example asked = make(device, forms[f], dtypes[d]);
            struct example plain = make(device, forms[f], dtypes[d]);
            plain.op.as.norm.plus_one = false;
            for (int64_t i = 0; i < plain.in[1].elems; i++)
                set(&plain.in[1], i, 1 + get(&plain.in[1], i));
            run(device, &asked);
            run(device, &plain);
            for (uint16_t i = 0; i < asked.op.n_out; i++)
                assert_memory_equal(asked.out[i].data, plain.out[i].data,
                                    (size_t)asked.out[i].elems *
                                        sw_dtype_bytes(asked.out[i].dtype));
            release(&asked);
            release(&plain);
        }
    device->vtable->destroy(device);
}

/* x (1 + tanh u) / 2 of Hendrycks & Gimpel 2016 and its derivative, by functions of the C library
 * that keep their digits where tanh is near -1: 1 + tanh u = exp(u) / cosh(u), tanh' = 1 / cosh^2.
 */
static double gelu(double x, double *slope)
{
    const double rate = sqrt(2 / acos(-1));
    const double u = fmax(-40, fmin(rate * (x + 0.044715 * x * x * x), 40));
    const double share = exp(u) / cosh(u) / 2;
    *slope = share + x / 2 / (cosh(u) * cosh(u)) * rate * (1 + 3 * 0.044715 * x * x);
    return x * share;
}

/* Gates far on both sides of 0 too. In roundings of the larger of a result and 1/8: about ten,
 * those of the argument of exp, of exp, and of the products. */
static void gelu_is_that_of_the_formula(void **state)
{
    (void)state;
    enum { GATES = 20001 };
    struct sw_device *device = device_with(1);
    for (int f32 = 0; f32 < 2; f32++) {
        const enum sw_dtype t = f32 ? SW_F32 : SW_F64;
        const double tolerance = (f32 ? 0x1p-24 : 0x1p-53) * 16;
        struct example e = example(SW_OP_SWIGLU_GRAD), y = example(SW_OP_SWIGLU);
        e.op.as.swiglu.gelu = y.op.as.swiglu.gelu = true;
        for (int i = 0; i < 3; i++)
            add_in(&e, tensor(t, 3, 1, 1, GATES));
        for (int i = 0; i < 2; i++) {
            add_in(&y, tensor(t, 3, 1, 1, GATES));
            add_out(&e, tensor(t, 3, 1, 1, GATES));
        }
        add_out(&y, tensor(t, 3, 1, 1, GATES));
        for (int64_t i = 0; i < GATES; i++) {
            const double x = (double)(float)((double)(i - GATES / 2) / 1000);
            set(&e.in[0], i, i == 0 ? -1e6 : i == 1 ? 1e6 : x);
            set(&y.in[0], i, get(&e.in[0], i));
            set(&e.in[1], i, 1);
            set(&e.in[2], i, 1);
            set(&y.in[1], i, 1);
        }
        run(device, &e);
        run(device, &y);
        for (int64_t i = 0; i < GATES; i++) {
            double slope;
            const double value = gelu(get(&e.in[0], i), &slope);
            const double off[3] = {fabs(get(&y.out[0], i) - value) / fmax(0.125, fabs(value)),
                                   fabs(get(&e.out[1], i) - value) / fmax(0.125, fabs(value)),
                                   fabs(get(&e.out[0], i) - slope) / fmax(0.125, fabs(slope))};
            for (int k = 0; k < 3; k++)
                if (!(off[k] <= tolerance))
                    fail_msg("gelu(%g), result %d in %s is off by %g", get(&e.in[0], i), k,
                             sw_dtype_name(t), off[k]);
        }
        release(&e);
        release(&y);
    }
    device->vtable->destroy(device);
}

/* Copies a part of the columns of each row, or of a vector, there or back. */
static void copy_columns(const struct sw_tensor *whole, const struct sw_tensor *part, int64_t first,
                         bool back)
{
    const int64_t width = whole->size[whole->ndim - 1], n = part->size[part->ndim - 1];
    for (int64_t i = 0; i < part->elems; i++) {
        const int64_t at = i / n * width + first + i % n;
        if (back)
            set(whole, at, get(part, i));
        else
            set(part, i, get(whole, at));
    }
}

/* y, dx and dw of rows that lie in two parts, with sums of both, are those of rmsnorm. */
static void check_norm_of_parts(bool plus_one)
{
    struct sw_device *device = device_with(1);
    struct example y = make(device, plus_one ? FORM_NORM_PLUS_ONE : SW_OP_RMSNORM, SW_F64);
    struct example grad =
        make(device, plus_one ? FORM_NORM_GRAD_PLUS_ONE : SW_OP_RMSNORM_GRAD, SW_F64);
    const int64_t first[3] = {0, E / 3, E};
    const struct sw_tensor found[3] = {tensor(SW_F64, 3, B, S, E), tensor(SW_F64, 3, B, S, E),
                                       tensor(SW_F64, 1, E, 0, 0)};
    struct sw_tensor sums[2];
    run(device, &y);
    run(device, &grad);
    for (int what = 0; what < 4; what++) { /* both sums, then what goes by them */
        const int kinds[] = {FORM_ROW_SQUARES, SW_OP_ROW_SUMS, SW_OP_SPLIT_NORM,
                             SW_OP_SPLIT_NORM_GRAD};
        if (what < 2)
            sums[what] = tensor(SW_F64, 2, B, S, 0);
        for (int part = 0; part < 2; part++) {
            struct example e = example(kinds[what]);
            const int64_t width = first[part + 1] - first[part];
            split_norm_operands(&e, kinds[what], SW_F64, width);
            e.op.as.norm.width = what < 2 ? 0 : (int32_t)E;
            e.op.as.norm.plus_one = plus_one;
            int32_t k = 0;
            copy_columns(&grad.in[0], &e.in[k++], first[part], false);
            if (what >= 2)
                memcpy(e.in[k++].data, sums[0].data, (size_t)sums[0].elems * 8);
            if (what > 0)
                copy_columns(&grad.in[1], &e.in[k++], first[part], false);
            if (what == 1 || what == 3)
                copy_columns(&grad.in[2], &e.in[k++], first[part], false);
            if (what == 3)
                memcpy(e.in[k++].data, sums[1].data, (size_t)sums[1].elems * 8);
            assert_int_equal(k, e.op.n_in);
            run(device, &e);
            for (int64_t i = 0; what < 2 && i < sums[what].elems; i++)
                set(&sums[what], i, get(&sums[what], i) + get(&e.out[0], i));
            for (uint16_t i = 0; what >= 2 && i < e.op.n_out; i++)
                copy_columns(&found[what - 2 + i], &e.out[i], first[part], true);
            release(&e);
        }
    }
    assert_true(distance(&found[0], &y.out[0]) < 1e-14 * E);
    assert_true(distance(&found[1], &grad.out[0]) < 1e-14 * E);
    assert_true(distance(&found[2], &grad.out[1]) < 1e-14 * E);
    for (int i = 0; i < 3; i++)
        free(found[i].data);
    free(sums[0].data);
    free(sums[1].data);
    release(&y);
    release(&grad);
    device->vtable->destroy(device);
}

static void a_norm_of_parts_is_that_of_the_rows(void **state)
{
    (void)state;
    check_norm_of_parts(false);
    check_norm_of_parts(true);
}

/* y = x W and y = x W^T, with dx from the other one and dW from linear_dw. */
static void gradients_of_linear(void **state)
{
    (void)state;
    struct sw_device *device = device_with(1);
    for (int transposed = 0; transposed < 2; transposed++) {
        struct example f = make(device, transposed ? SW_OP_LINEAR_T : SW_OP_LINEAR, SW_F64);
        struct example dx = make(device, transposed ? SW_OP_LINEAR : SW_OP_LINEAR_T, SW_F64);
        struct example dw = make(device, SW_OP_LINEAR_DW, SW_F64);
        run(device, &dx); /* its first operand is dy, its weights are those of f */
        check_gradient(device, &f, 0, &dx.in[0], &dx.out[0]);
        memcpy(dw.in[transposed].data, f.in[0].data, (size_t)f.in[0].elems * 8);
        memcpy(dw.in[!transposed].data, dx.in[0].data, (size_t)dx.in[0].elems * 8);
        run(device, &dw);
        check_gradient(device, &f, 1, &dx.in[0], &dw.out[0]);
        release(&f);
        release(&dx);
        release(&dw);
    }
    device->vtable->destroy(device);
}

static void gradients_of_attention(void **state)
{
    (void)state;
    struct sw_device *device = device_with(1);
    struct example f = make(device, SW_OP_ATTENTION, SW_F64);
    struct example g = make(device, SW_OP_ATTENTION_GRAD, SW_F64);
    run(device, &g);
    for (int i = 0; i < 3; i++)
        check_gradient(device, &f, i, &g.in[5], &g.out[i]);
    release(&f);
    release(&g);
    device->vtable->destroy(device);
}

static void check_gradients_of_the_head(struct sw_device *device, double softcap)
{
    struct example grad = make(device, SW_OP_LM_HEAD_GRAD, SW_F64);
    struct example stats = make(device, SW_OP_LM_HEAD_STATS, SW_F64);
    struct example loss = make(device, SW_OP_LM_HEAD_LOSS, SW_F64);
    grad.op.as.head.softcap = stats.op.as.head.softcap = softcap;
    free(loss.in[0].data);
    loss.in[0] = stats.out[0];
    run(device, &stats);
    run(device, &loss);
    free(grad.in[3].data);
    grad.in[3] = loss.out[1];
    run(device, &grad);
    for (int index = 0; index < 2; index++)
        for (int64_t i = 0; i < stats.in[index].elems; i += 41) {
            const double before = get(&stats.in[index], i), h = 1e-4;
            double value[2];
            for (int side = 0; side < 2; side++) {
                set(&stats.in[index], i, before + (side ? h : -h));
                run(device, &stats);
                run(device, &loss);
                value[side] = get(&loss.out[0], 0);
            }
            set(&stats.in[index], i, before);
            assert_true(fabs((value[1] - value[0]) / (2 * h) - get(&grad.out[index], i)) < 1e-9);
        }
    loss.in[0].data = grad.in[3].data = NULL;
    release(&grad);
    release(&stats);
    release(&loss);
}

static void gradients_of_the_head(void **state)
{
    (void)state;
    struct sw_device *device = device_with(1);
    check_gradients_of_the_head(device, 0);
    check_gradients_of_the_head(device, 0.7);
    check_gradients_of_the_head(device, 50);
    device->vtable->destroy(device);
}

/* Statistics of the formula's logits, in the C library's functions, and each logit by itself. */
static void logits_have_a_softcap(void **state)
{
    (void)state;
    const double cap = 0.6;
    struct sw_device *device = device_with(1);
    struct example stats = make(device, SW_OP_LM_HEAD_STATS, SW_F64);
    struct example alone = example(SW_OP_SOFTCAP);
    add_in(&alone, tensor(SW_F64, 3, B, S, V));
    add_out(&alone, tensor(SW_F64, 3, B, S, V));
    stats.op.as.head.softcap = alone.op.as.softcap.cap = cap;
    run(device, &stats);
    for (int64_t t = 0; t < B * S; t++) {
        double largest = -1, sum = 0, at_label = 0;
        for (int64_t v = 0; v < V; v++) {
            double logit = 0;
            for (int64_t i = 0; i < E; i++)
                logit += get(&stats.in[0], t * E + i) * get(&stats.in[1], v * E + i);
            set(&alone.in[0], t * V + v, logit);
            logit = cap * tanh(logit / cap);
            largest = fmax(largest, logit);
            sum += exp(logit);
            at_label = (double)v == get(&stats.in[2], t) ? logit : at_label;
        }
        const double lse = get(&stats.out[0], 3 * t) + log(get(&stats.out[0], 3 * t + 1));
        assert_true(fabs(get(&stats.out[0], 3 * t) - largest) < 1e-14);
        assert_true(fabs(lse - log(sum)) < 1e-14);
        assert_true(fabs(get(&stats.out[0], 3 * t + 2) - at_label) < 1e-14);
    }
    run(device, &alone);
    for (int64_t i = 0; i < B * S * V; i++)
        assert_true(fabs(get(&alone.out[0], i) - cap * tanh(get(&alone.in[0], i) / cap)) < 1e-15);
    release(&alone);
    release(&stats);
    device->vtable->destroy(device);
}

/* Of a frozen table: every result of lm_head_grad but dW, to the bit. */
static void check_dx_alone(struct sw_device *device, const struct example *grad)
{
    struct example dx = example(SW_OP_LM_HEAD_DX);
    dx.loss_scale = grad->loss_scale;
    dx.op.as.head.softcap = grad->op.as.head.softcap;
    for (uint16_t i = 0; i < grad->op.n_in; i++)
        add_in(&dx, grad->in[i]);
    for (uint16_t i = 0; i < grad->op.n_out; i++)
        if (i != 1)
            add_out(&dx, tensor(grad->out[i].dtype, grad->out[i].ndim, grad->out[i].size[0],
                                grad->out[i].ndim > 1 ? grad->out[i].size[1] : 0,
                                grad->out[i].ndim > 2 ? grad->out[i].size[2] : 0));
    run(device, &dx);
    for (uint16_t i = 0; i < dx.op.n_out; i++) {
        const struct sw_tensor *same = &grad->out[i > 0 ? i + 1 : 0];
        assert_memory_equal(dx.out[i].data, same->data,
                            (size_t)same->elems * sw_dtype_bytes(same->dtype));
        free(dx.out[i].data);
    }
}

/* Without the log-sum-exp the gradient's op makes the loss as well. */
static void check_own_loss(struct sw_device *device, enum sw_dtype t, double softcap)
{
    /* of losses near log V, and of gradients whose largest are scale: a few roundings */
    const double eps = t == SW_F64 ? 1e-14 : 1e-6;
    struct example grad = make(device, SW_OP_LM_HEAD_GRAD, t);
    struct example stats = make(device, SW_OP_LM_HEAD_STATS, t);
    struct example loss = make(device, SW_OP_LM_HEAD_LOSS, t);
    struct example own = example(SW_OP_LM_HEAD_GRAD);
    own.loss_scale = grad.loss_scale;
    stats.op.as.head.softcap = grad.op.as.head.softcap = own.op.as.head.softcap = softcap;
    for (int i = 0; i < 3; i++)
        add_in(&own, grad.in[i]);
    add_out(&own, tensor(t, 3, B, S, E));
    add_out(&own, tensor(t, 2, V, E, 0));
    add_out(&own, tensor(wide(t), 1, 1, 0, 0));
    add_out(&own, tensor(wide(t), 2, B, S, 0));
    free(loss.in[0].data);
    loss.in[0] = stats.out[0];
    run(device, &stats);
    run(device, &loss);
    free(grad.in[3].data);
    grad.in[3] = loss.out[1];
    run(device, &grad);
    run(device, &own);
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < own.out[k].elems; i++)
            assert_true(fabs(get(&own.out[k], i) - get(&grad.out[k], i)) <=
                        (t == SW_BF16_T ? 0x1p-8 * fabs(get(&grad.out[k], i)) : 0) + eps);
    assert_true(fabs(get(&own.out[2], 0) / get(&loss.out[0], 0) - 1) <= eps);
    double sum = 0;
    for (int64_t i = 0; i < own.out[3].elems; i++)
        sum += get(&own.out[3], i);
    assert_true(fabs(sum * own.loss_scale / get(&loss.out[0], 0) - 1) <= eps);
    assert_true(get(&own.out[3], 5) == 0); /* an ignored token */
    check_dx_alone(device, &grad);
    check_dx_alone(device, &own);
    for (int k = 0; k < 4; k++)
        free(own.out[k].data);
    loss.in[0].data = grad.in[3].data = NULL;
    release(&grad);
    release(&stats);
    release(&loss);
}

static void head_with_its_own_loss(void **state)
{
    (void)state;
    struct sw_device *device = device_with(2);
    static const enum sw_dtype dtypes[] = {SW_F64, SW_F32, SW_BF16_T};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        check_own_loss(device, dtypes[d], 0);
        check_own_loss(device, dtypes[d], 0.7);
    }
    device->vtable->destroy(device);
}

/* A vocabulary in two shards has the same loss, and each shard its rows of the gradient. Many
 * tokens: several chunks. */
static void head_is_vocabulary_parallel(void **state)
{
    (void)state;
    enum { TOKENS = 2051, VOCAB = 4000, WIDTH = 4 };
    struct sw_device *device = device_with(2);
    assert_true(sw_lm_head_chunk_tokens(TOKENS, VOCAB) < TOKENS);
    struct sw_tensor x = filled(tensor(SW_F32, 3, 1, TOKENS, WIDTH), 1, 2);
    struct sw_tensor w = filled(tensor(SW_F32, 2, VOCAB, WIDTH, 0), 2, 2);
    struct sw_tensor labels = integers(2, 1, TOKENS, 3, 0, VOCAB);
    struct sw_tensor lse[2], value[2], dx[2], dw[2];
    for (int64_t shards = 1; shards <= 2; shards++) {
        const int64_t rows = VOCAB / shards;
        struct sw_tensor stats = tensor(SW_F32, 3, 1, TOKENS, 3 * shards);
        lse[shards - 1] = tensor(SW_F32, 2, 1, TOKENS, 0);
        value[shards - 1] = tensor(SW_F32, 1, 1, 0, 0);
        dx[shards - 1] = tensor(SW_F32, 3, 1, TOKENS, WIDTH);
        dw[shards - 1] = tensor(SW_F32, 2, VOCAB, WIDTH, 0);
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t r = 0; r < shards; r++) {
                struct sw_tensor part = w;
                part.size[0] = rows;
                part.elems = rows * WIDTH;
                part.start[0] = r * rows;
                part.data = (float *)w.data + r * rows * WIDTH;
                struct example e = example(pass ? SW_OP_LM_HEAD_GRAD : SW_OP_LM_HEAD_STATS);
                e.loss_scale = 1.0 / TOKENS;
                add_in(&e, x);
                add_in(&e, part);
                add_in(&e, labels);
                if (pass == 0) {
                    add_out(&e, tensor(SW_F32, 3, 1, TOKENS, 3));
                    run(device, &e);
                    for (int64_t i = 0; i < TOKENS * 3; i++)
                        set(&stats, i / 3 * 3 * shards + 3 * r + i % 3, get(&e.out[0], i));
                    free(e.out[0].data);
                    continue;
                }
                struct sw_tensor dpart = part;
                dpart.data = (float *)dw[shards - 1].data + r * rows * WIDTH;
                add_in(&e, lse[shards - 1]);
                add_out(&e, tensor(SW_F32, 3, 1, TOKENS, WIDTH));
                add_out(&e, dpart);
                run(device, &e);
                for (int64_t i = 0; i < dx[0].elems; i++)
                    set(&dx[shards - 1], i, get(&dx[shards - 1], i) + get(&e.out[0], i));
                free(e.out[0].data);
            }
            if (pass == 0) {
                struct example e = example(SW_OP_LM_HEAD_LOSS);
                e.loss_scale = 1.0 / TOKENS;
                add_in(&e, stats);
                add_in(&e, labels);
                add_out(&e, value[shards - 1]);
                add_out(&e, lse[shards - 1]);
                run(device, &e);
            }
        }
        free(stats.data);
    }
    /* an lse of 8 to 16 is rounded by up to 2^-21: every probability is off by that factor. Eight
     * times it. */
    assert_true(distance(&value[1], &value[0]) < 4e-6);
    assert_true(distance(&lse[1], &lse[0]) < 4e-6);
    assert_true(distance(&dx[1], &dx[0]) < 4e-6);
    assert_true(distance(&dw[1], &dw[0]) < 4e-6);
    for (int i = 0; i < 2; i++) {
        free(lse[i].data);
        free(value[i].data);
        free(dx[i].data);
        free(dw[i].data);
    }
    free(x.data);
    free(w.data);
    free(labels.data);
    device->vtable->destroy(device);
}

/* ---- The ring: ranks are threads ---- */

enum { RING_MAX = 8, RING_STARTS = 64, RS = 192, RDIM = 16 };

struct exchange {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int32_t size;
    int32_t posted[RING_MAX], received[RING_MAX];
    int64_t sent_bytes; /* of all */
    const void *send[RING_MAX][RING_STARTS];
};

struct member {
    struct exchange *exchange;
    int32_t index, inner;
    int32_t waited;
    int32_t to[RING_STARTS], from[RING_STARTS];
    void *receive[RING_STARTS];
    size_t bytes[RING_STARTS];
};

static int ring_start(void *context, int32_t to, int32_t from, const void *send, void *receive,
                      size_t bytes, struct sw_error *err)
{
    (void)err;
    struct member *m = context;
    struct exchange *x = m->exchange;
    pthread_mutex_lock(&x->lock);
    const int32_t n = x->posted[m->index]++;
    m->to[n] = to;
    m->from[n] = from;
    m->receive[n] = receive;
    m->bytes[n] = bytes;
    x->sent_bytes += (int64_t)bytes;
    x->send[m->index][n] = send;
    /* until it is waited for, nothing may be read from here */
    memset(receive, 0xff, bytes);
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
    return 0;
}

static int ring_wait(void *context, struct sw_error *err)
{
    (void)err;
    struct member *m = context;
    struct exchange *x = m->exchange;
    const int32_t n = m->waited++;
    const int32_t previous = m->from[n], next = m->to[n];
    pthread_mutex_lock(&x->lock);
    while (x->posted[previous] <= n)
        pthread_cond_wait(&x->changed, &x->lock);
    memcpy(m->receive[n], x->send[previous][n], m->bytes[n]);
    x->received[m->index]++;
    pthread_cond_broadcast(&x->changed);
    while (x->received[next] <= n)
        pthread_cond_wait(&x->changed, &x->lock);
    pthread_mutex_unlock(&x->lock);
    return 0;
}

/* How a sequence is attended to by `size` ranks. */
struct way {
    int32_t size;
    enum sw_sequence_layout layout;
    bool gather; /* keys whole, no ring */
    bool bf16_hops;
    int32_t inner_ring; /* 0: one ring */
};

struct rank_job {
    struct member member;
    struct way way;
    const struct sw_tensor *global; /* q, k, v, do in natural order */
    struct sw_tensor
        *results; /* o, lse, dq, dk, dv in natural order; each rank writes its own tokens */
};

/* Room for this rank's tokens of a tensor shaped like `like`. */
static struct sw_tensor room(const struct rank_job *job, const struct sw_tensor *like, bool whole)
{
    const int64_t n = whole ? RS : RS / job->way.size;
    struct sw_tensor t = tensor(like->dtype, 3, like->size[0], n, like->size[2]);
    t.global[1] = RS;
    t.start[1] = whole ? 0 : job->member.index * n;
    return t;
}

/* This rank's tokens, in storage order. */
static struct sw_tensor shard(const struct rank_job *job, const struct sw_tensor *from, bool whole)
{
    struct sw_tensor t = room(job, from, whole);
    const int64_t n = t.size[1];
    for (int64_t b = 0; b < t.size[0]; b++)
        for (int64_t i = 0; i < n; i++) {
            const int64_t position =
                sw_sequence_position(job->way.layout, RS, job->way.size, t.start[1] + i);
            for (int64_t j = 0; j < t.size[2]; j++)
                set(&t, (b * n + i) * t.size[2] + j,
                    get(from, (b * RS + position) * t.size[2] + j));
        }
    return t;
}

static void unshard(const struct rank_job *job, const struct sw_tensor *from, struct sw_tensor *to,
                    bool add)
{
    const int64_t n = from->size[1];
    for (int64_t b = 0; b < from->size[0]; b++)
        for (int64_t i = 0; i < n; i++) {
            const int64_t position =
                sw_sequence_position(job->way.layout, RS, job->way.size, from->start[1] + i);
            for (int64_t j = 0; j < from->size[2]; j++) {
                const int64_t at = (b * RS + position) * from->size[2] + j;
                set(to, at, (add ? get(to, at) : 0) + get(from, (b * n + i) * from->size[2] + j));
            }
        }
}

static void *rank_main(void *argument)
{
    struct rank_job *job = argument;
    struct sw_device *device = device_with(1);
    const bool hops = job->way.size > 1 && !job->way.gather;
    const struct sw_ring ring = {.index = hops ? job->member.index : 0,
                                 .size = hops ? job->way.size : 1,
                                 .inner = hops ? job->member.inner : 1,
                                 .context = &job->member,
                                 .start = ring_start,
                                 .wait = ring_wait};
    const struct sw_ring *used = hops ? &ring : NULL;
    struct example f = example(SW_OP_ATTENTION);
    f.op.as.attention =
        (struct sw_attention_attributes){.scale = 0.25,
                                         .head_dim = RDIM,
                                         .group = 2,
                                         .sequence_shards = job->way.size,
                                         .sequence_layout = (int32_t)job->way.layout,
                                         .bf16_hops = job->way.bf16_hops,
                                         .inner_ring = job->way.inner_ring};
    if (hops)
        f.op.axes = (struct sw_axes){1, {SW_SP}};
    struct example g = f;
    g.op.kind = SW_OP_ATTENTION_GRAD;
    for (int i = 0; i < 3; i++)
        add_in(&f, shard(job, &job->global[i], job->way.gather && i > 0));
    add_out(&f, room(job, &job->results[0], false));
    add_out(&f, room(job, &job->results[1], false));
    run_with(device, &f, used, &step_one);
    for (int i = 0; i < 3; i++)
        add_in(&g, f.in[i]);
    add_in(&g, f.out[0]);
    add_in(&g, f.out[1]);
    add_in(&g, shard(job, &job->global[3], false));
    for (int i = 0; i < 3; i++)
        add_out(&g, room(job, &job->results[2 + i], job->way.gather && i > 0));
    run_with(device, &g, used, &step_one);
    pthread_mutex_lock(&job->member.exchange->lock);
    unshard(job, &f.out[0], &job->results[0], false);
    unshard(job, &f.out[1], &job->results[1], false);
    for (int i = 0; i < 3; i++)
        unshard(job, &g.out[i], &job->results[2 + i], job->way.gather && i > 0);
    pthread_mutex_unlock(&job->member.exchange->lock);
    release(&g);
    device->vtable->destroy(device);
    return NULL;
}

/* Returns the bytes that all ranks sent. */
static int64_t attend_on(struct way way, const struct sw_tensor *global,
                         struct sw_tensor results[5])
{
    const int32_t size = way.size, inner = way.inner_ring > 0 ? way.inner_ring : size;
    const enum sw_dtype t = global[0].dtype;
    struct exchange exchange = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .size = size};
    struct rank_job jobs[RING_MAX];
    pthread_t threads[RING_MAX];
    results[0] = tensor(t, 3, 2, RS, 4 * RDIM);
    results[1] = tensor(wide(t), 3, 2, RS, 4);
    results[2] = tensor(t, 3, 2, RS, 4 * RDIM);
    results[3] = tensor(t, 3, 2, RS, 2 * RDIM);
    results[4] = tensor(t, 3, 2, RS, 2 * RDIM);
    memset(jobs, 0, sizeof jobs);
    for (int32_t r = 0; r < size; r++) {
        jobs[r] = (struct rank_job){.member = {.exchange = &exchange, .index = r, .inner = inner},
                                    .way = way,
                                    .global = global,
                                    .results = results};
        assert_int_equal(pthread_create(&threads[r], NULL, rank_main, &jobs[r]), 0);
    }
    for (int32_t r = 0; r < size; r++)
        pthread_join(threads[r], NULL);
    return exchange.sent_bytes;
}

/* The next way of 2 to RING_MAX ranks that hold parts of one length, all inner rings of each, both
 * layouts; false: there is none. From {0} on. */
static bool next_way(struct way *way)
{
    if (way->layout == SW_CONTIGUOUS && way->size > 0) {
        way->layout = SW_ZIGZAG;
        return true;
    }
    way->layout = SW_CONTIGUOUS;
    do {
        if (way->size == 0 || ++way->inner_ring >= way->size)
            *way = (struct way){.size = way->size == 0 ? 2 : way->size + 1};
    } while (RS % (2 * way->size) != 0 || way->inner_ring == 1 ||
             (way->inner_ring > 0 && way->size % way->inner_ring != 0));
    return way->size <= RING_MAX;
}

/* Rings, also of inner rings, and gathered keys, on 1 to 8 ranks: what one rank computes, to 1e-5
 * of the largest element (fp32; bf16 as in narrow_dtypes_agree_with_f64), and what F64 computes. */
static void attention_does_not_depend_on_sp(void **state)
{
    (void)state;
    enum { DTYPES = 3 };
    const enum sw_dtype dtypes[DTYPES] = {SW_F64, SW_F32, SW_BF16_T};
    const double tolerance[DTYPES] = {1e-12, 1e-5, 0x1p-9 * 8};
    struct sw_tensor one[DTYPES][5];
    for (int d = 0; d < DTYPES; d++) {
        struct sw_tensor global[4];
        for (int i = 0; i < 4; i++)
            global[i] = filled(tensor(dtypes[d], 3, 2, RS, (i == 1 || i == 2 ? 2 : 4) * RDIM),
                               (uint64_t)i + 1, 2);
        (void)attend_on((struct way){.size = 1}, global, one[d]);
        struct way way = {0};
        for (int tried = 0; tried == 0 || next_way(&way); tried++)
            for (int gather = 0; gather < (way.inner_ring > 0 ? 1 : 2); gather++) {
                struct sw_tensor results[5];
                const struct way now = {.size = tried == 0 ? 1 : way.size,
                                        .layout = way.layout,
                                        .gather = gather == 1,
                                        .inner_ring = way.inner_ring};
                (void)attend_on(now, global, results);
                for (int i = 0; i < 5; i++) {
                    const double off = distance(&results[i], &one[d][i]);
                    if (!(off <= tolerance[d]))
                        fail_msg("sp %d of %d layout %d gather %d result %d is off by %g", now.size,
                                 now.inner_ring, now.layout, gather, i, off);
                    free(results[i].data);
                }
            }
        for (int i = 0; i < 4; i++)
            free(global[i].data);
    }
    for (int i = 0; i < 5; i++) {
        for (int d = 1; d < DTYPES; d++)
            assert_true(distance(&one[d][i], &one[0][i]) < tolerance[d]);
        for (int d = 0; d < DTYPES; d++)
            free(one[d][i].data);
    }
}

/* Of a ring whose hops are bf16 everyone sees keys and values rounded to it: o, lse and dq are
 * those of one rank with such keys and values, as exactly as without. dk and dv are sums of a part
 * of each rank, rounded to bf16 with each of `size` hops, and between inner rings: each rounding is
 * at most 2^-9 of the sum so far, which (parts may cancel) is taken to be at most twice the largest
 * element there is. All messages have two bytes for each element: with RDIM a multiple of the
 * padding, of keys and values size - 1, twice, and of their gradients size and one for each inner
 * ring. */
static void bf16_hops_round_what_travels(void **state)
{
    (void)state;
    enum { DTYPES = 3, KEYS = 2 * 2 * RS * 2 * RDIM };
    const enum sw_dtype dtypes[DTYPES] = {SW_F64, SW_F32, SW_BF16_T};
    const double exact[DTYPES] = {1e-12, 1e-5, 0x1p-9 * 8};
    for (int d = 0; d < DTYPES; d++) {
        struct sw_tensor given[4], rounded[4], one[5], results[5];
        for (int i = 0; i < 4; i++) {
            const bool key = i == 1 || i == 2;
            const int64_t width = (key ? 2 : 4) * RDIM;
            rounded[i] = filled(tensor(dtypes[d], 3, 2, RS, width), (uint64_t)i + 1, 2);
            given[i] = tensor(dtypes[d], 3, 2, RS, width);
            /* off by less than half of a bf16's last bit */
            for (int64_t e = 0; e < given[i].elems; e++)
                set(&given[i], e, get(&rounded[i], e) * (key ? 1 + 0x1p-11 : 1));
        }
        (void)attend_on((struct way){.size = 1}, rounded, one);
        for (struct way way = {0}; next_way(&way);) {
            const int32_t rings = way.inner_ring > 0 ? way.size / way.inner_ring : 0;
            struct way now = way;
            now.bf16_hops = true;
            const int64_t sent = attend_on(now, given, results);
            assert_int_equal(sent, (3 * way.size - 2 + rings) * KEYS * 2);
            for (int i = 0; i < 5; i++) {
                const bool travels = i >= 3;
                const double off = distance(&results[i], &one[i]);
                if (!(off <= exact[d] + (travels ? 2 * (way.size + rings) * 0x1p-9 : 0)))
                    fail_msg("sp %d of %d layout %d result %d is off by %g", way.size,
                             way.inner_ring, way.layout, i, off);
                assert_true(!travels || off > 0x1p-13);
                free(results[i].data);
            }
        }
        for (int i = 0; i < 5; i++)
            free(one[i].data);
        for (int i = 0; i < 4; i++) {
            free(given[i].data);
            free(rounded[i].data);
        }
    }
}

/* Attention of one position at a time, written down plainly. */
static void attention_is_softmax(void **state)
{
    (void)state;
    struct sw_device *device = device_with(1);
    struct example e = make(device, SW_OP_ATTENTION, SW_F64);
    run(device, &e);
    for (int64_t i = 0; i < AS; i += 29)
        for (int64_t h = 0; h < HEADS; h++) {
            double sum = 0, out[DIM] = {0};
            for (int64_t j = 0; j <= i; j++) {
                double score = 0;
                const int64_t key = j * KV * DIM + h / (HEADS / KV) * DIM;
                for (int64_t d = 0; d < DIM; d++)
                    score += get(&e.in[0], (i * HEADS + h) * DIM + d) * get(&e.in[1], key + d);
                const double p = exp(score / sqrt((double)DIM));
                sum += p;
                for (int64_t d = 0; d < DIM; d++)
                    out[d] += p * get(&e.in[2], key + d);
            }
            assert_true(fabs(log(sum) - get(&e.out[1], i * HEADS + h)) < 1e-12);
            for (int64_t d = 0; d < DIM; d++)
                assert_true(fabs(out[d] / sum - get(&e.out[0], (i * HEADS + h) * DIM + d)) < 1e-12);
        }
    release(&e);
    device->vtable->destroy(device);
}

/* ---- State and movement ---- */

static void adamw_is_the_formula(void **state)
{
    (void)state;
    enum { N = 2500 };
    struct sw_device *device = device_with(2);
    const enum sw_dtype dtypes[3] = {SW_F64, SW_F32, SW_BF16_T};
    /* bf16 weights are stored with 2^-9 */
    const double tolerance[3] = {1e-13, 1e-6, 0x1p-8};
    for (int d = 0; d < 3; d++)
        for (int clipped = 0; clipped < 2; clipped++) {
            struct example e = example(SW_OP_ADAMW);
            e.op.as.adamw.decay = true;
            struct sw_tensor w = filled(tensor(dtypes[d], 1, N, 0, 0), 1, 1);
            struct sw_tensor g = filled(tensor(wide(dtypes[d]), 1, N, 0, 0), 2, 1);
            struct sw_tensor m = filled(tensor(wide(dtypes[d]), 1, N, 0, 0), 3, 0.1);
            struct sw_tensor v = filled(tensor(wide(dtypes[d]), 1, N, 0, 0), 4, 0.1);
            struct sw_tensor norm = tensor(wide(dtypes[d]), 1, 1, 0, 0);
            struct sw_tensor expected = tensor(SW_F64, 1, N, 0, 0);
            const struct sw_step *s = &step_one;
            set(&norm, 0, clipped ? 4 : 0.5);
            for (int64_t i = 0; i < N; i++) {
                set(&v, i, fabs(get(&v, i)));
                const double d_i = get(&g, i) * (clipped ? 0.25 : 1);
                const double m_i = s->beta1 * get(&m, i) + (1 - s->beta1) * d_i;
                const double v_i = s->beta2 * get(&v, i) + (1 - s->beta2) * d_i * d_i;
                const double mean = m_i / (1 - pow(s->beta1, 3));
                const double square = v_i / (1 - pow(s->beta2, 3));
                set(&expected, i,
                    get(&w, i) - s->learning_rate * (mean / (sqrt(square) + s->eps) +
                                                     s->weight_decay * get(&w, i)));
            }
            add_in(&e, w);
            add_in(&e, g);
            add_in(&e, m);
            add_in(&e, v);
            add_in(&e, norm);
            add_out(&e, w);
            add_out(&e, m);
            add_out(&e, v);
            run(device, &e);
            assert_true(distance(&w, &expected) <= tolerance[d]);
            release(&e);
            free(expected.data);
        }
    device->vtable->destroy(device);
}

/* The nearest entry, found by looking at all; of squares that are not 0 not that of 0. */
static double nearest(const struct sw_blockwise_table *table, double ratio, bool squares)
{
    double best = 2;
    for (int i = squares && ratio > 0; i < SW_BLOCKWISE_CODES; i++)
        best = fmin(best, fabs((double)table->value[i] - ratio));
    return best;
}

/* Moments in codes: the numbers that they stand for go through the formula, and the codes that come
 * out are those of the nearest entries. */
static void adamw_of_codes_is_the_formula(void **state)
{
    (void)state;
    enum { ROWS = 7, WIDTH = 96, BLOCK = 32, N = ROWS * WIDTH };
    struct sw_device *device = device_with(2);
    struct sw_blockwise_table table[2];
    sw_blockwise_fill(true, &table[0]);
    sw_blockwise_fill(false, &table[1]);
    for (int d = 0; d < 2; d++) {
        const enum sw_dtype dtype = d == 0 ? SW_F64 : SW_F32;
        const struct sw_step *s = &step_one;
        struct example e = example(SW_OP_ADAMW);
        double weight[N], moment[2][N], most[2][N / BLOCK] = {{0}};
        uint64_t seed = 5;
        e.op.as.adamw.decay = true;
        e.op.as.adamw.block = BLOCK;
        add_in(&e, filled(tensor(dtype, 2, ROWS, WIDTH, 0), 1, 1));
        add_in(&e, filled(tensor(dtype, 2, ROWS, WIDTH, 0), 2, 1));
        for (int k = 0; k < 2; k++)
            add_in(&e, tensor(SW_CODES, 2, ROWS, WIDTH, 0));
        for (int k = 0; k < 2; k++)
            add_in(&e, filled(tensor(SW_F32, 2, ROWS, WIDTH / BLOCK, 0), 3, 0.1));
        add_in(&e, tensor(dtype, 1, 1, 0, 0));
        set(&e.in[6], 0, 4); /* clipped to 1 */
        for (int64_t i = 0; i < N; i++) {
            if (i % 5 == 0) /* numbers over many decades, and 0 */
                set(&e.in[1], i, i % 10 == 0 ? 0 : 1e-6 * get(&e.in[1], i));
            double *largest[2] = {&most[0][i / BLOCK], &most[1][i / BLOCK]};
            const double g = get(&e.in[1], i) / 4;
            for (int k = 0; k < 2; k++) {
                uint8_t *code = (uint8_t *)e.in[2 + k].data + i;
                const double scale = fabs(get(&e.in[4 + k], i / BLOCK));
                *code = (uint8_t)(128 + 127 * uniform(&seed));
                if (i % 10 == 0)
                    *code = k == 0 ? 127 : 0; /* 0 */
                if (i % BLOCK == 0)
                    set(&e.in[4 + k], i / BLOCK, scale);
                const double beta = k == 0 ? s->beta1 : s->beta2;
                moment[k][i] = beta * (double)table[k].value[*code] * scale +
                               (1 - beta) * (k == 0 ? g : g * g);
                *largest[k] = fmax(*largest[k], fabs(moment[k][i]));
            }
            const double mean = moment[0][i] / (1 - pow(s->beta1, 3));
            const double square = moment[1][i] / (1 - pow(s->beta2, 3));
            weight[i] = get(&e.in[0], i) - s->learning_rate * (mean / (sqrt(square) + s->eps) +
                                                               s->weight_decay * get(&e.in[0], i));
        }
        static const int in_place[] = {0, 4, 5, 2, 3};
        for (int k = 0; k < 5; k++)
            add_out(&e, e.in[in_place[k]]);
        run(device, &e);
        for (int64_t i = 0; i < N; i++) {
            assert_true(fabs(get(&e.out[0], i) - weight[i]) <= (d == 0 ? 1e-13 : 2e-6));
            for (int k = 0; k < 2; k++) {
                const double is = get(&e.out[1 + k], i / BLOCK), wanted = most[k][i / BLOCK];
                const double ratio = moment[k][i] / wanted;
                const uint8_t code = ((uint8_t *)e.out[3 + k].data)[i];
                assert_true(fabs(is - wanted) <= 1e-6 * wanted);
                assert_true(fabs((double)table[k].value[code] - ratio) <=
                            nearest(&table[k], ratio, k == 1) + 1e-6);
                assert_true(k == 0 || (code > 0) == (moment[1][i] > 0));
            }
        }
        release(&e);
    }
    device->vtable->destroy(device);
}

/* Figures of bitsandbytes' create_dynamic_map; rows are cut alike for up to eight ranks. */
static void tables_of_codes(void **state)
{
    (void)state;
    struct sw_blockwise_table table[2];
    sw_blockwise_fill(true, &table[0]);
    sw_blockwise_fill(false, &table[1]);
    for (int k = 0; k < 2; k++)
        for (int i = 1; i < SW_BLOCKWISE_CODES; i++) {
            assert_true(table[k].value[i] > table[k].value[i - 1]);
            assert_true(table[k].middle[i - 1] > table[k].value[i - 1] &&
                        table[k].middle[i - 1] < table[k].value[i]);
        }
    assert_true(table[0].value[127] == 0 && table[0].value[255] == 1);
    assert_true(table[0].value[254] == 0.99296875F && table[0].value[0] == -0.99296875F);
    assert_true(table[0].value[128] == 5.5e-7F && table[0].value[126] == -5.5e-7F);
    assert_true(table[1].value[0] == 0 && table[1].value[255] == 1);
    assert_true(table[1].value[254] == 0.996484375F && table[1].value[1] == 3.25e-7F);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < SW_BLOCKWISE_CODES; i++)
            assert_int_equal(sw_blockwise_code(&table[k], table[k].value[i], 0), i);
    assert_int_equal(sw_blockwise_code(&table[1], 1e-9F, 0), 0);
    assert_int_equal(sw_blockwise_code(&table[1], 1e-9F, 1), 1);
    static const int64_t rows[][2] = {{4096, 128}, {14336, 128}, {11008, 32}, {1024, 128},
                                      {64, 16},    {128, 16},    {32, 16},    {50257, 0},
                                      {24, 0},     {48, 16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(sw_blockwise_elems(rows[i][0]), rows[i][1]);
}

/* Weights, moments and copy of a step that does not update stay to the bit, whatever the
 * gradient. */
static void adamw_leaves_all_where_it_does_not_update(void **state)
{
    (void)state;
    enum { N = 2500, CASES = 10 };
    static const struct {
        bool no_update, guarded;
        double loss, norm;
        bool updates;
    } cases[CASES] = {{false, false, 0, 4, true},        {true, false, 0, 4, false},
                      {false, false, 0, 1e30, true},     {false, true, 2, 3, true},
                      {false, true, 2.5, 3, false},      {false, true, 2, 3.5, false},
                      {false, true, NAN, 3, false},      {false, true, 2, NAN, false},
                      {false, true, INFINITY, 3, false}, {true, true, 2, 3, false}};
    struct sw_device *device = device_with(2);
    for (int32_t c = 0; c < CASES; c++)
        for (int32_t d = 0; d < 2; d++) {
            const enum sw_dtype dtype = d == 0 ? SW_F64 : SW_F32;
            struct sw_step step = step_one;
            struct example e = example(SW_OP_ADAMW);
            struct sw_tensor before[4], now[4];
            step.no_update = cases[c].no_update;
            step.most_loss = 2;
            step.most_norm = 3;
            e.op.as.adamw.guarded = cases[c].guarded;
            for (uint64_t i = 0; i < 4; i++) { /* weights, means, squares, copy */
                now[i] = filled(tensor(i == 3 ? SW_BF16_T : dtype, 1, N, 0, 0), 1 + i, 0.1);
                before[i] = filled(tensor(now[i].dtype, 1, N, 0, 0), 1 + i, 0.1);
            }
            for (int64_t i = 0; i < N; i++) {
                set(&now[2], i, fabs(get(&now[2], i)));
                set(&before[2], i, fabs(get(&before[2], i)));
            }
            add_in(&e, now[0]);
            add_in(&e, filled(tensor(dtype, 1, N, 0, 0), 9, 1));
            add_in(&e, now[1]);
            add_in(&e, now[2]);
            add_in(&e, tensor(dtype, 1, 1, 0, 0));
            set(&e.in[4], 0, cases[c].norm);
            if (cases[c].guarded) {
                add_in(&e, tensor(dtype, 1, 1, 0, 0));
                set(&e.in[5], 0, cases[c].loss);
            }
            for (int32_t i = 0; i < 4; i++)
                add_out(&e, now[i]);
            run_with(device, &e, NULL, &step);
            for (int32_t i = 0; i < 4; i++) {
                const size_t bytes = (size_t)N * sw_dtype_bytes(now[i].dtype);
                assert_int_equal(memcmp(now[i].data, before[i].data, bytes) != 0, cases[c].updates);
                free(before[i].data);
            }
            release(&e);
        }
    device->vtable->destroy(device);
}

static void accumulate_adds_narrow_to_wide(void **state)
{
    (void)state;
    struct sw_device *device = device_with(1);
    for (int micro_step = 0; micro_step < 2; micro_step++)
        for (int first = 0; first < 2; first++) {
            struct sw_step step = step_one;
            step.micro_step = micro_step;
            struct example e = example(SW_OP_ACCUMULATE);
            e.op.as.accumulate.first = first;
            add_in(&e, filled(tensor(SW_F32, 2, 33, 65, 0), 1, 1));
            add_in(&e, filled(tensor(SW_BF16_T, 2, 33, 65, 0), 2, 1));
            add_out(&e, e.in[0]);
            struct sw_tensor before = filled(tensor(SW_F32, 2, 33, 65, 0), 1, 1);
            run_with(device, &e, NULL, &step);
            for (int64_t i = 0; i < before.elems; i++) {
                const double kept = first && micro_step == 0 ? 0 : get(&before, i);
                assert_true(get(&e.out[0], i) == (double)(float)(kept + get(&e.in[1], i)));
            }
            release(&e);
            free(before.data);
        }
    device->vtable->destroy(device);
}

/* What makes weight gradients adds them to a sum in place; the first of a step writes
 * over what stood there, which may be anything. Nothing but the order of the sum is another. */
static void makers_add_gradients(void **state)
{
    (void)state;
    static const enum sw_dtype dtypes[] = {SW_F64, SW_F32, SW_BF16_T};
    static const enum sw_op_kind kinds[] = {SW_OP_LINEAR_DW, SW_OP_LM_HEAD_GRAD,
                                            SW_OP_EMBEDDING_GRAD};
    struct sw_device *device = device_with(2);
    for (int k = 0; k < 3; k++)
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
            for (int turn = 0; turn < 4; turn++) {
                const enum sw_op_kind kind = kinds[k];
                const int head = kind == SW_OP_LM_HEAD_GRAD;
                struct example alone = make(device, kind, dtypes[d]);
                struct sw_tensor *made = &alone.out[head];
                free(made->data);
                *made = tensor(wide(dtypes[d]), 2, made->size[0], made->size[1], 0);
                struct sw_step step = step_one;
                step.loss_scale = alone.loss_scale;
                run_with(device, &alone, NULL, &step);
                struct example adds = alone;
                struct sw_tensor sum = tensor(made->dtype, 2, made->size[0], made->size[1], 0);
                const bool first = turn >= 2, over = turn == 2;
                for (int64_t i = 0; i < sum.elems; i++)
                    set(&sum, i, over ? NAN : (double)(i % 7) / 4);
                adds.op.as.gradient = (struct sw_gradient_attributes){first, true};
                add_in(&adds, sum);
                adds.out[head] = sum;
                if (head)
                    adds.out[0] = tensor(dtypes[d], 3, B, S, E);
                step.micro_step = turn % 2;
                run_with(device, &adds, NULL, &step);
                for (int64_t i = 0; i < sum.elems; i++) {
                    const double wanted = get(made, i) + (over ? 0 : (double)(i % 7) / 4);
                    /* rows of tokens are added up apart: rounded as a sum of the two is */
                    if (kind == SW_OP_EMBEDDING_GRAD && d > 0)
                        assert_true(get(&sum, i) == (double)((float)get(made, i) +
                                                             (over ? 0 : (float)(i % 7) / 4)));
                    if (!(fabs(get(&sum, i) - wanted) <= /* as many roundings as tokens */
                          B * S * (dtypes[d] == SW_F64 ? 0x1p-53 : 0x1p-24) * (2 + fabs(wanted))))
                        fail_msg("%s, turn %d, element %d is %.9g, not %.9g",
                                 sw_op_info(kind)->name, turn, (int)i, get(&sum, i), wanted);
                }
                if (head)
                    free(adds.out[0].data);
                free(sum.data);
                release(&alone);
            }
    device->vtable->destroy(device);
}

/* However many the tokens of a micro-step are, and the rows they are added to: rows are added up
 * apart, token by token in F32, and those without a token stay as they are, a zero's sign, too. */
static void embedding_gradients_of_many_tokens_are_added(void **state)
{
    (void)state;
    enum { TOKENS = (12 << 20) / 4 + 1, ROWS = 800000, WIDTH = 17 };
    struct sw_device *device = device_with(2);
    struct example e = example(SW_OP_EMBEDDING_GRAD);
    add_in(&e, tensor(SW_I32, 2, 1, TOKENS, 0));
    add_in(&e, tensor(SW_BF16_T, 3, 1, TOKENS, WIDTH));
    add_in(&e, tensor(SW_F32, 2, ROWS, WIDTH, 0));
    add_out(&e, e.in[2]);
    e.op.as.gradient.adds = true;
    float *sums = calloc((size_t)ROWS * WIDTH, sizeof *sums);
    uint16_t *dy = e.in[1].data;
    assert_non_null(sums);
    for (int64_t t = 0; t < TOKENS; t++) {
        const int32_t row = (int32_t)(t * 7919 % (ROWS / 2) * 2); /* the even ones */
        ((int32_t *)e.in[0].data)[t] = row;
        for (int64_t j = 0; j < WIDTH; j++) {
            dy[t * WIDTH + j] = to_bf16(1.0F / (float)(1 + (t + j) % 97));
            sums[row * WIDTH + j] += from_bf16(dy[t * WIDTH + j]);
        }
    }
    for (int64_t i = 0; i < e.in[2].elems; i++)
        ((float *)e.in[2].data)[i] = i / WIDTH % 2 == 0 ? (float)(i % 7) / 3 : -0.0F;
    run(device, &e);
    for (int64_t i = 0; i < e.out[0].elems; i++) {
        const float got = ((float *)e.out[0].data)[i];
        const float wanted = i / WIDTH % 2 == 0 ? (float)(i % 7) / 3 + sums[i] : -0.0F;
        assert_memory_equal(&got, &wanted, sizeof got);
    }
    free(sums);
    release(&e);
    device->vtable->destroy(device);
}

static void movement_ops(void **state)
{
    (void)state;
    struct sw_device *device = device_with(1);
    /* slice: this rank's block, from an operand that starts elsewhere itself */
    struct example e = example(SW_OP_SLICE);
    add_in(&e, filled(tensor(SW_BF16_T, 3, 4, 6, 5), 1, 1));
    add_out(&e, tensor(SW_BF16_T, 3, 2, 6, 3));
    e.in[0].start[0] = 4;
    e.out[0].start[0] = 6;
    e.out[0].start[2] = 2;
    run(device, &e);
    for (int64_t i = 0; i < 2; i++)
        for (int64_t j = 0; j < 6; j++)
            for (int64_t k = 0; k < 3; k++)
                assert_true(get(&e.out[0], (i * 6 + j) * 3 + k) ==
                            get(&e.in[0], ((i + 2) * 6 + j) * 5 + k + 2));
    release(&e);
    /* cast rounds to nearest even: 1 + 2^-8 lies between two bf16, 1 is even */
    e = example(SW_OP_CAST);
    add_in(&e, filled(tensor(SW_F32, 1, 3000, 0, 0), 1, 1));
    add_out(&e, tensor(SW_BF16_T, 1, 3000, 0, 0));
    const double special[] = {1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-20, (double)INFINITY, (double)NAN};
    for (int i = 0; i < 4; i++)
        set(&e.in[0], i, special[i]);
    run(device, &e);
    assert_true(get(&e.out[0], 0) == 1);
    assert_true(get(&e.out[0], 1) == 1 + 0x1p-7);
    assert_true(isinf(get(&e.out[0], 2)));
    assert_true(isnan(get(&e.out[0], 3)));
    for (int64_t i = 4; i < 3000; i++)
        assert_true(get(&e.out[0], i) == get(&e.in[0], i));
    release(&e);
    /* a vocabulary shard: tokens of other ranks give zero, and nothing to the gradient */
    e = make(device, SW_OP_EMBEDDING, SW_F32);
    e.in[1].start[0] = 30;
    set(&e.in[0], 0, 30);
    set(&e.in[0], 1, 29);
    run(device, &e);
    assert_true(get(&e.out[0], 3) == get(&e.in[1], 3));
    assert_true(get(&e.out[0], E + 3) == 0);
    release(&e);
    /* heads of a rank whose shard begins in the middle; its copies alone are summed, other heads
     * are zero */
    e = make(device, SW_OP_REPLICATE_HEADS, SW_F32);
    e.out[0].size[2] = DIM;
    e.out[0].elems /= 4;
    e.out[0].start[2] = 2 * DIM;
    run(device, &e);
    assert_true(get(&e.out[0], DIM + 1) == get(&e.in[0], 3 * DIM + 1));
    release(&e);
    e = make(device, SW_OP_REPLICATE_HEADS_GRAD, SW_F32);
    e.in[0].size[2] = DIM;
    e.in[0].elems /= 4;
    e.in[0].start[2] = 2 * DIM;
    run(device, &e);
    assert_true(get(&e.out[0], 1) == 0);
    assert_true(get(&e.out[0], DIM + 1) == get(&e.in[0], 1));
    release(&e);
    /* norm of several sums */
    e = example(SW_OP_GRAD_NORM);
    for (int i = 0; i < 3; i++)
        add_in(&e, tensor(SW_F32, 1, 1, 0, 0));
    add_out(&e, tensor(SW_F32, 1, 1, 0, 0));
    set(&e.in[0], 0, 9);
    set(&e.in[2], 0, 16);
    run(device, &e);
    assert_true(get(&e.out[0], 0) == 5);
    release(&e);
    device->vtable->destroy(device);
}

/* Rounding once per result, not once per token: 4096 times 1 in bf16 would stop at 256. */
static void bf16_sums_are_wide(void **state)
{
    (void)state;
    struct sw_device *device = device_with(1);
    struct example e = example(SW_OP_EMBEDDING_GRAD);
    add_in(&e, integers(2, 1, 4096, 1, 0, 1));
    add_in(&e, tensor(SW_BF16_T, 3, 1, 4096, 3));
    add_out(&e,
            tensor(SW_BF16_T, 2, 900000, 3, 0)); /* its columns do not all fit into the scratch */
    for (int64_t i = 0; i < e.in[1].elems; i++)
        set(&e.in[1], i, 1);
    run(device, &e);
    for (int64_t i = 0; i < 6; i++)
        assert_true(get(&e.out[0], i) == (i < 3 ? 4096 : 0));
    release(&e);
    device->vtable->destroy(device);
}

/* In a process that may have no more memory, as under ulimit -v: its exit code; 77: it cannot, for
 * a sanitizer has most of the address space. */
static int multiply_without_memory(void)
{
    static float a[77 * 53], b[53 * 91], c[77 * 91];
    struct sw_device *device = device_with(1);
    struct sw_error err = {0};
    struct rlimit limit;
    long pages = 0;
    FILE *status = fopen("/proc/self/statm", "r");
    if (status == NULL || fscanf(status, "%ld", &pages) != 1 || fclose(status) != 0)
        return 2;
    if (pages > 1L << 28)
        return 77;
    limit.rlim_cur = limit.rlim_max = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (1 << 20);
    const struct sw_cpu_matmul g = {.m = 77,
                                    .n = 91,
                                    .k = 53,
                                    .a = a,
                                    .b = b,
                                    .c = c,
                                    .a_row = 53,
                                    .a_column = 1,
                                    .b_row = 91,
                                    .b_column = 1,
                                    .c_row = 91,
                                    .a_dtype = SW_F32,
                                    .b_dtype = SW_F32,
                                    .c_dtype = SW_F32};
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 2;
    return sw_cpu_matmul((struct sw_cpu_device *)device, &g, &err) == -1 &&
                   err.status == SW_ENVIRONMENT &&
                   strcmp(err.message, "oneDNN makes no matrix product 77 x 53 x 91 of f32 and "
                                       "f32 to f32 here: out of memory; allow the process more "
                                       "(ulimit -v, or the job's memory), or start fewer ranks on "
                                       "a node") == 0
               ? 0
               : 1;
}

static void products_without_memory_say_so(void **state)
{
    (void)state;
    int status = -1;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(multiply_without_memory());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

/* Products of bf16 through fp32 blocks, as a processor without bf16 products runs them, against the
 * same in F64. Each size meets several blocks and a tail. The sum of k products of numbers up to 1
 * has an error of at most k 2^-24 times their sum of magnitudes, which is under k; a bf16 result is
 * rounded to 2^-9 of itself. */
static void widened_products_agree_with_f64(void **state)
{
    (void)state;
    enum { M = 837, N = 901, K = 1700 };
    static const struct {
        bool a_by_column, b_by_column, accumulate;
        enum sw_dtype c;
    } cases[] = {{false, false, false, SW_BF16_T},
                 {false, true, false, SW_F32},
                 {true, false, true, SW_F32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sw_tensor c[2];
        struct sw_device *device = device_with(2);
        for (int exact = 0; exact < 2; exact++) {
            const enum sw_dtype t = exact ? SW_F64 : SW_BF16_T;
            const struct sw_tensor a = filled(tensor(t, 2, M, K, 0), 1, 1);
            const struct sw_tensor b = filled(tensor(t, 2, K, N, 0), 2, 1);
            c[exact] = filled(tensor(exact ? SW_F64 : cases[i].c, 2, M, N, 0), 3, 1);
            struct sw_cpu_matmul g = {.m = M,
                                      .n = N,
                                      .k = K,
                                      .a = a.data,
                                      .b = b.data,
                                      .c = c[exact].data,
                                      .a_row = cases[i].a_by_column ? 1 : K,
                                      .a_column = cases[i].a_by_column ? M : 1,
                                      .b_row = cases[i].b_by_column ? 1 : N,
                                      .b_column = cases[i].b_by_column ? K : 1,
                                      .c_row = N,
                                      .a_dtype = t,
                                      .b_dtype = t,
                                      .c_dtype = c[exact].dtype,
                                      .accumulate = cases[i].accumulate};
            struct sw_cpu_device *cpu = (struct sw_cpu_device *)device;
            if (exact)
                sw_cpu_gemm_f64(cpu, &g);
            else
                assert_int_equal(sw_cpu_matmul_widened(cpu, &g, NULL), 0);
            free(a.data);
            free(b.data);
        }
        for (int64_t j = 0; j < c[0].elems; j++) {
            const double rounding = cases[i].c == SW_BF16_T ? fabs(get(&c[1], j)) * 0x1p-9 : 0;
            const double difference = fabs(get(&c[0], j) - get(&c[1], j));
            assert_true(difference <= rounding * (1 + 0x1p-8) + K * 0x1p-24 * K);
        }
        free(c[0].data);
        free(c[1].data);
        device->vtable->destroy(device);
    }
}

/* One product of `rows` rows; the weights [k, n] lie by their columns, or by their rows. */
static struct sw_cpu_matmul skinny_gemm(int64_t rows, const int64_t size[2], bool by_column,
                                        const struct sw_tensor *a, const struct sw_tensor *b,
                                        const struct sw_tensor *c)
{
    const int64_t k = size[0], n = size[1];
    return (struct sw_cpu_matmul){.m = rows,
                                  .n = n,
                                  .k = k,
                                  .a = a->data,
                                  .b = b->data,
                                  .c = c->data,
                                  .a_row = k,
                                  .a_column = 1,
                                  .b_row = by_column ? 1 : n,
                                  .b_column = by_column ? k : 1,
                                  .c_row = n,
                                  .a_dtype = a->dtype,
                                  .b_dtype = b->dtype,
                                  .c_dtype = c->dtype};
}

/* What decoding multiplies: against F64, with tails in both directions (the bound of sums as for
 * widened products; bf16 rounds by half of its last place, at most 2^-8 of a number); and a row is
 * the same to the bit whatever the number of rows and of threads. */
static void products_of_few_rows_agree_with_f64_and_with_themselves(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1100, 301}, {37, 640}, {1, 3}, {8, 8}, {515, 1}};
    static const enum sw_dtype dtypes[] = {SW_F32, SW_BF16_T};
    enum { MOST = 8 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes * 2 * 2; i++) {
        const int64_t *size = sizes[i / 4], k = size[0], n = size[1];
        const enum sw_dtype t = dtypes[i % 2];
        const bool by_column = i / 2 % 2 == 1;
        struct sw_device *alone = device_with(1), *three = device_with(3);
        const struct sw_tensor a = filled(tensor(t, 2, MOST, k, 0), 1, 1);
        const struct sw_tensor b = filled(tensor(t, 2, k, n, 0), 2, 1);
        const struct sw_tensor wide_a = filled(tensor(SW_F64, 2, MOST, k, 0), 1, 1);
        const struct sw_tensor wide_b = filled(tensor(SW_F64, 2, k, n, 0), 2, 1);
        const struct sw_tensor c = tensor(t, 2, MOST, n, 0), other = tensor(t, 2, MOST, n, 0);
        const struct sw_tensor exact = tensor(SW_F64, 2, MOST, n, 0);
        const struct sw_cpu_matmul all = skinny_gemm(MOST, size, by_column, &a, &b, &c);
        const struct sw_cpu_matmul truth =
            skinny_gemm(MOST, size, by_column, &wide_a, &wide_b, &exact);
        sw_cpu_gemm_f64((struct sw_cpu_device *)alone, &truth);
        assert_true(sw_cpu_matmul_is_streamed(&all));
        assert_int_equal(sw_cpu_matmul((struct sw_cpu_device *)alone, &all, NULL), 0);
        for (int64_t j = 0; j < c.elems; j++) {
            const double rounding = t == SW_BF16_T ? fabs(get(&exact, j)) * 0x1p-8 : 0;
            assert_true(fabs(get(&c, j) - get(&exact, j)) <= rounding + (double)(k * k) * 0x1p-24);
        }
        for (int64_t rows = 1; rows <= MOST; rows++) {
            struct sw_cpu_matmul fewer = skinny_gemm(rows, size, by_column, &a, &b, &other);
            const size_t bytes = (size_t)(rows * n) * sw_dtype_bytes(t), skip = MOST - (size_t)rows;
            fewer.a = (const char *)a.data + skip * (size_t)k * sw_dtype_bytes(t);
            assert_int_equal(sw_cpu_matmul((struct sw_cpu_device *)three, &fewer, NULL), 0);
            assert_memory_equal(other.data,
                                (const char *)c.data + skip * (size_t)n * sw_dtype_bytes(t), bytes);
        }
        const struct sw_tensor *made[] = {&a, &b, &wide_a, &wide_b, &c, &other, &exact};
        for (size_t j = 0; j < sizeof made / sizeof *made; j++)
            free(made[j]->data);
        alone->vtable->destroy(alone);
        three->vtable->destroy(three);
    }
}

static void device_allocates_and_reports(void **state)
{
    (void)state;
    struct sw_error err = {0};
    assert_null(sw_cpu_device_create(0, &err));
    assert_string_equal(err.message, "a cpu device needs at least one thread, not 0");
    struct sw_device *device = device_with(1);
    unsigned char *memory = device->vtable->allocate(device, 1000);
    assert_int_equal((uintptr_t)memory % SW_ARENA_ALIGNMENT, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(memory[i], 0);
    device->vtable->release(device, memory);
    for (int kind = 0; kind < SW_OP_COUNT; kind++)
        assert_int_equal(device->vtable->run[kind] == NULL,
                         sw_op_is_collective((enum sw_op_kind)kind) || kind == SW_OP_CONSTRAIN ||
                             kind == SW_OP_WAIT || kind == SW_OP_LM_HEAD ||
                             sw_op_is_exchange((enum sw_op_kind)kind));
    struct example e = make(device, SW_OP_LINEAR, SW_F32);
    const struct sw_call call = {.op = &e.op, .in = e.in, .out = e.out};
    e.in[1].size[0]--;
    memset(&err, 0, sizeof err);
    assert_int_equal(device->vtable->run[SW_OP_LINEAR](device, &call, &err), -1);
    assert_string_equal(err.message, "linear got [26, 37] and [36, 45] for a result [26, 45]");
    release(&e);
    device->vtable->destroy(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_allocates_and_reports),
        cmocka_unit_test(narrow_dtypes_agree_with_f64),
        cmocka_unit_test(a_norm_of_parts_is_that_of_the_rows),
        cmocka_unit_test(widened_products_agree_with_f64),
        cmocka_unit_test(products_of_few_rows_agree_with_f64_and_with_themselves),
        cmocka_unit_test(a_token_attends_as_in_a_chunk),
        cmocka_unit_test(rows_of_a_text_attend_as_alone),
        cmocka_unit_test(filters_leave_the_tokens_they_should),
        cmocka_unit_test(large_vocabularies_are_filtered),
        cmocka_unit_test(adjusted_logits_are_chosen_of),
        cmocka_unit_test(all_tokens_may_be_banned),
        cmocka_unit_test(the_most_probable_come_in_order),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(rope_turns_by_stretched_angles),
        cmocka_unit_test(rope_turns_each_row_by_its_positions),
        cmocka_unit_test(rope_rounds_angles_once),
        cmocka_unit_test(gradients_of_rowwise_ops),
        cmocka_unit_test(norms_multiply_by_one_and_the_weight),
        cmocka_unit_test(gelu_is_that_of_the_formula),
        cmocka_unit_test(gradients_of_linear),
        cmocka_unit_test(gradients_of_attention),
        cmocka_unit_test(gradients_of_the_head),
        cmocka_unit_test(logits_have_a_softcap),
        cmocka_unit_test(head_with_its_own_loss),
        cmocka_unit_test(head_is_vocabulary_parallel),
        cmocka_unit_test(attention_is_softmax),
        cmocka_unit_test(attention_does_not_depend_on_sp),
        cmocka_unit_test(bf16_hops_round_what_travels),
        cmocka_unit_test(adamw_is_the_formula),
        cmocka_unit_test(adamw_of_codes_is_the_formula),
        cmocka_unit_test(tables_of_codes),
        cmocka_unit_test(adamw_leaves_all_where_it_does_not_update),
        cmocka_unit_test(accumulate_adds_narrow_to_wide),
        cmocka_unit_test(products_without_memory_say_so),
        cmocka_unit_test(makers_add_gradients),
        cmocka_unit_test(embedding_gradients_of_many_tokens_are_added),
        cmocka_unit_test(movement_ops),
        cmocka_unit_test(bf16_sums_are_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
