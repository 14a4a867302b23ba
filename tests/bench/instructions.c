/* One run of each kernel at a size of its own, on one thread, for callgrind to count:
 *
 *   instructions           runs all; prints their names, one a line, in the order they run
 *   instructions versions  prints those of the compiler and of libraries whose code is counted
 *
 * tests/bench/instructions.sh counts what happens inside `counted`. Kernels run once before that:
 * what is made at first (primitives of the library, pages) is not counted. */
#include "core/base/number.h"
#include "core/base/quantize.h"
#include "core/ir/sampling.h"
#include "core/ir/serving.h"
#include "core/ir/workspace.h"
#include "runner/device/cpu/cpu.h"
#include "runner/text/jinja/jinja.h"

#include <dnnl.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 8 };

/* An operand. I32 takes values below `below`, where it has slots the position of a token; others
 * take some in [-1, 1], or in [1, 2]. */
struct operand {
    enum sw_dtype dtype;
    uint8_t ndim;
    int64_t size[SW_MAX_DIMS];
    int32_t below;
    bool positive;
    const float *settings; /* f32: these, again and again */
    int32_t settings_count;
};

struct kernel {
    const char *name;
    enum sw_op_kind kind;
    bool batch_invariant;
    union sw_attributes as;
    struct operand in[OPERANDS], out[OPERANDS]; /* to the first without dimensions */
    uint8_t same[OPERANDS];                     /* n > 0: result i is operand n - 1, in place */
};

/* clang-format off */
#define M2(type, a, b)                                                                             \
    {                                                                                              \
        .dtype = (type), .ndim = 2, .size = {(a), (b) }                                            \
    }
#define M3(type, a, b, c)                                                                          \
    {                                                                                              \
        .dtype = (type), .ndim = 3, .size = {(a), (b), (c) }                                       \
    }
#define M4(type, a, b, c, d)                                                                       \
    {                                                                                              \
        .dtype = (type), .ndim = 4, .size = {(a), (b), (c), (d) }                                  \
    }
#define V1(type, a)                                                                                \
    {                                                                                              \
        .dtype = (type), .ndim = 1, .size = {(a) }                                                 \
    }
#define IDS(most, a, b)                                                                            \
    {                                                                                              \
        .dtype = SW_I32, .ndim = 2, .size = {(a), (b)}, .below = (most)                            \
    }
#define POSITIVE2(a, b)                                                                            \
    {                                                                                              \
        .dtype = SW_F32, .ndim = 2, .size = {(a), (b)}, .positive = true                           \
    }

enum { S = 256, E = 256, F = 512, HEADS = 4, KV = 2, DIM = 64, V = 2048, SLOTS = 4, CACHE = 512 };

static const float sampling[SW_SAMPLING_SETTINGS] = {0.75f, 40, 0.9f, 0.02f, 1.25f, 0.6f, 20, 0};
#define SETTINGS                                                                                   \
    {                                                                                              \
        .dtype = SW_F32, .ndim = 2, .size = {SLOTS, SW_SAMPLING_SETTINGS}, .settings = sampling,   \
        .settings_count = SW_SAMPLING_SETTINGS                                                     \
    }
#define OF_SEQUENCE                                                                                \
    {                                                                                              \
        .attention = {                                                                             \
            .scale = 0.125,                                                                        \
            .head_dim = DIM,                                                                       \
            .group = HEADS / KV,                                                                   \
            .sequence_shards = 1,                                                                  \
            .sequence_layout = SW_ZIGZAG                                                           \
        }                                                                                          \
    }
#define OF_CACHE                                                                                   \
    {                                                                                              \
        .attention = {                                                                             \
            .scale = 0.125,                                                                        \
            .head_dim = DIM,                                                                       \
            .group = HEADS / KV,                                                                   \
            .keys = SW_KEYS_CACHE_PART,                                                            \
            .sequence_layout = -1,                                                                 \
            .chunk = 64                                                                            \
        }                                                                                          \
    }

static const struct kernel kernels[] = {
    {"attention", SW_OP_ATTENTION, false, OF_SEQUENCE,
     {M3(SW_F32, 1, S, HEADS *DIM), M3(SW_F32, 1, S, KV *DIM), M3(SW_F32, 1, S, KV *DIM)},
     {M3(SW_F32, 1, S, HEADS *DIM), M3(SW_F32, 1, S, HEADS)}, {0}},
    {"attention bf16", SW_OP_ATTENTION, false, OF_SEQUENCE,
     {M3(SW_BF16_T, 1, S, HEADS *DIM), M3(SW_BF16_T, 1, S, KV *DIM), M3(SW_BF16_T, 1, S, KV *DIM)},
     {M3(SW_BF16_T, 1, S, HEADS *DIM), M3(SW_F32, 1, S, HEADS)}, {0}},
    {"attention_grad", SW_OP_ATTENTION_GRAD, false, OF_SEQUENCE,
     {M3(SW_F32, 1, S, HEADS *DIM), M3(SW_F32, 1, S, KV *DIM), M3(SW_F32, 1, S, KV *DIM),
      M3(SW_F32, 1, S, HEADS *DIM), M3(SW_F32, 1, S, HEADS), M3(SW_F32, 1, S, HEADS *DIM)},
     {M3(SW_F32, 1, S, HEADS *DIM), M3(SW_F32, 1, S, KV *DIM), M3(SW_F32, 1, S, KV *DIM)}, {0}},
    {"attention of a cache bf16", SW_OP_ATTENTION, true, OF_CACHE,
     {M3(SW_BF16_T, SLOTS, 1, HEADS *DIM), M3(SW_BF16_T, SLOTS, CACHE, KV *DIM),
      M3(SW_BF16_T, SLOTS, CACHE, KV *DIM), IDS(CACHE - 16, SLOTS, SW_SLOT_FIELDS)},
     {M4(SW_F32, SLOTS, 1, HEADS *DIM, 1), M4(SW_F32, SLOTS, 1, HEADS * 2, 1)}, {0}},
    {"softmax_merge bf16", SW_OP_SOFTMAX_MERGE, true, {.attention = {.head_dim = DIM}},
     {M4(SW_F32, SLOTS, 16, HEADS *DIM, 1),
      {.dtype = SW_F32, .ndim = 4, .size = {SLOTS, 16, HEADS * 2, 2}, .positive = true}},
     {M3(SW_BF16_T, SLOTS, 16, HEADS *DIM)}, {0}},
    {"cache_append int8", SW_OP_CACHE_APPEND, true, {.append = {.head_dim = DIM, .chunk = 64}},
     {M3(SW_I8, SLOTS, CACHE, KV *DIM), M3(SW_BF16_T, SLOTS, 1, KV *DIM),
      IDS(CACHE - 16, SLOTS, SW_SLOT_FIELDS), M3(SW_F32, SLOTS, CACHE, KV)},
     {M3(SW_I8, SLOTS, CACHE, KV *DIM), M3(SW_F32, SLOTS, CACHE, KV)},
     {1, 4}},
    {"rmsnorm", SW_OP_RMSNORM, false, {.norm = {.eps = 1e-5}},
     {M3(SW_F32, 1, S, E), V1(SW_F32, E)},
     {M3(SW_F32, 1, S, E)}, {0}},
    {"rmsnorm_grad", SW_OP_RMSNORM_GRAD, false, {.norm = {.eps = 1e-5}},
     {M3(SW_F32, 1, S, E), V1(SW_F32, E), M3(SW_F32, 1, S, E)},
     {M3(SW_F32, 1, S, E), V1(SW_F32, E)}, {0}},
    {"swiglu bf16", SW_OP_SWIGLU, false, {.norm = {0}},
     {M3(SW_BF16_T, 1, S, F), M3(SW_BF16_T, 1, S, F)},
     {M3(SW_BF16_T, 1, S, F)}, {0}},
    {"swiglu_grad", SW_OP_SWIGLU_GRAD, false, {.norm = {0}},
     {M3(SW_F32, 1, S, F), M3(SW_F32, 1, S, F), M3(SW_F32, 1, S, F)},
     {M3(SW_F32, 1, S, F), M3(SW_F32, 1, S, F)}, {0}},
    {"rope", SW_OP_ROPE, false, {.rope = {.rope = {.theta = 10000}, .head_dim = DIM}},
     {M3(SW_F32, 1, S, HEADS *DIM), {.dtype = SW_I32, .ndim = 1, .size = {S}, .below = 1000}},
     {M3(SW_F32, 1, S, HEADS *DIM)}, {0}},
    {"embedding", SW_OP_EMBEDDING, false, {.norm = {0}},
     {IDS(V, 1, S), M2(SW_F32, V, E)},
     {M3(SW_F32, 1, S, E)}, {0}},
    {"embedding_grad", SW_OP_EMBEDDING_GRAD, false, {.norm = {0}},
     {IDS(V, 1, S), M3(SW_F32, 1, S, E)},
     {M2(SW_F32, V, E)}, {0}},
    {"lm_head_stats", SW_OP_LM_HEAD_STATS, false, {.norm = {0}},
     {M3(SW_F32, 1, 64, E), M2(SW_F32, V, E), IDS(V, 1, 64)},
     {M3(SW_F32, 1, 64, 3)}, {0}},
    {"lm_head_grad", SW_OP_LM_HEAD_GRAD, false, {.norm = {0}},
     {M3(SW_F32, 1, 64, E), M2(SW_F32, V, E), IDS(V, 1, 64), POSITIVE2(1, 64)},
     {M3(SW_F32, 1, 64, E), M2(SW_F32, V, E)}, {0}},
    {"adamw", SW_OP_ADAMW, false, {.adamw = {.decay = true}},
     {M2(SW_F32, E, F), M2(SW_F32, E, F), M2(SW_F32, E, F), POSITIVE2(E, F), V1(SW_F32, 1)},
     {M2(SW_F32, E, F), M2(SW_F32, E, F), M2(SW_F32, E, F)},
     {1, 3, 4}},
    {"sum_squares", SW_OP_SUM_SQUARES, false, {.norm = {0}},
     {M2(SW_F32, E, F)},
     {V1(SW_F32, 1)}, {0}},
    {"cast to bf16", SW_OP_CAST, false, {.norm = {0}},
     {M3(SW_F32, 1, S, F)},
     {M3(SW_BF16_T, 1, S, F)}, {0}},
    {"cast to fp32", SW_OP_CAST, false, {.norm = {0}},
     {M3(SW_BF16_T, 1, S, F)},
     {M3(SW_F32, 1, S, F)}, {0}},
    {"linear, rows alike", SW_OP_LINEAR, true, {.norm = {0}},
     {M3(SW_F32, 1, 128, E), M2(SW_F32, E, F)},
     {M3(SW_F32, 1, 128, F)}, {0}},
    {"linear of one row bf16", SW_OP_LINEAR, true, {.norm = {0}},
     {M3(SW_BF16_T, 1, 1, E), M2(SW_BF16_T, E, F)},
     {M3(SW_BF16_T, 1, 1, F)}, {0}},
    {"linear_t of four rows bf16", SW_OP_LINEAR_T, true, {.norm = {0}},
     {M3(SW_BF16_T, SLOTS, 1, F), M2(SW_BF16_T, E, F)},
     {M3(SW_BF16_T, SLOTS, 1, E)}, {0}},
    {"linear of four rows int8", SW_OP_LINEAR, true, {.norm = {0}},
     {M3(SW_BF16_T, SLOTS, 1, E), M2(SW_I8, E, F), V1(SW_F32, F)},
     {M3(SW_BF16_T, SLOTS, 1, F)}, {0}},
    {"linear int8", SW_OP_LINEAR, true, {.norm = {0}},
     {M3(SW_BF16_T, 1, 96, E), M2(SW_I8, E, F), V1(SW_F32, F)},
     {M3(SW_BF16_T, 1, 96, F)}, {0}},
    {"linear of four rows e4m3", SW_OP_LINEAR, true, {.norm = {0}},
     {M3(SW_BF16_T, SLOTS, 1, E), M2(SW_E4M3, E, F), V1(SW_F32, F)},
     {M3(SW_BF16_T, SLOTS, 1, F)}, {0}},
    {"linear e4m3", SW_OP_LINEAR, true, {.norm = {0}},
     {M3(SW_BF16_T, 1, 96, E), M2(SW_E4M3, E, F), V1(SW_F32, F)},
     {M3(SW_BF16_T, 1, 96, F)}, {0}},
    {"linear_dw", SW_OP_LINEAR_DW, false, {.norm = {0}},
     {M3(SW_BF16_T, 1, 128, E), M3(SW_BF16_T, 1, 128, E)},
     {M2(SW_F32, E, E)}, {0}},
    {"sample", SW_OP_SAMPLE, true, {.norm = {0}},
     {M3(SW_F32, SLOTS, 1, V), IDS(1 << 30, SLOTS, V / 32), SETTINGS, M2(SW_F32, SLOTS, 3)},
     {M2(SW_F32, SLOTS, 2)}, {0}},
    {"top_tokens", SW_OP_TOP_TOKENS, true, {.norm = {0}},
     {M3(SW_F32, SLOTS, 1, V), SETTINGS, M2(SW_F32, SLOTS, 2)},
     {M2(SW_F32, SLOTS, SW_SAMPLED_NUMBERS)}, {0}},
};
/* clang-format on */

static int leave(const char *what, const struct sw_error *err)
{
    fprintf(stderr, "instructions: %s: %s\n", what, err->message);
    exit(3);
}

/* ---- Kernels ---- */

/* What one of them works on. */
struct work {
    struct sw_device *device;
    struct sw_op op;
    struct sw_tensor in[OPERANDS], out[OPERANDS];
    struct sw_call call;
};

static const struct sw_step step = {.step = 3,
                                    .learning_rate = 0.01,
                                    .beta1 = 0.9,
                                    .beta2 = 0.95,
                                    .eps = 1e-8,
                                    .weight_decay = 0.1,
                                    .grad_clip = 1,
                                    .loss_scale = 1.0 / 64};

static struct sw_tensor tensor_of(struct sw_device *device, const struct operand *operand)
{
    struct sw_tensor t = {.dtype = operand->dtype, .ndim = operand->ndim, .elems = 1};
    for (uint8_t d = 0; d < t.ndim; d++) {
        t.size[d] = t.global[d] = operand->size[d];
        t.elems *= t.size[d];
    }
    t.data = device->vtable->allocate(device, (size_t)t.elems * sw_dtype_bytes(t.dtype));
    if (t.data == NULL)
        leave("memory", &(struct sw_error){.message = "there is none"});
    return t;
}

static void fill(const struct sw_tensor *t, const struct operand *operand, uint64_t seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < t->elems; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const float drawn = (float)(state >> 40) * 0x1p-23f - 1;
        const float value = operand->settings != NULL
                                ? operand->settings[i % operand->settings_count]
                            : operand->positive ? (drawn + 1) / 2 + 1
                                                : drawn;
        if (t->dtype == SW_F32)
            ((float *)t->data)[i] = value;
        else if (t->dtype == SW_BF16_T)
            ((uint16_t *)t->data)[i] = sw_bf16_from_float(value);
        else if (t->dtype == SW_I8)
            ((int8_t *)t->data)[i] = (int8_t)(drawn * 127);
        else if (t->dtype == SW_E4M3)
            ((uint8_t *)t->data)[i] = sw_e4m3_of((double)drawn, 1.0f / SW_E4M3_MOST);
        else
            ((int32_t *)t->data)[i] = (int32_t)((state >> 33) % (uint64_t)operand->below);
    }
}

/* Every row's slot is its own, its last token behind `below` others. */
static void fill_slots(const struct sw_tensor *t, int32_t below)
{
    for (int32_t b = 0; b < SLOTS; b++) {
        int32_t *slot = (int32_t *)t->data + b * SW_SLOT_FIELDS;
        slot[SW_SLOT_FIRST] = below;
        slot[SW_SLOT_TOKENS] = 1;
        slot[SW_SLOT_NUMBER] = b;
    }
}

/* As layout would ask for it. */
static int64_t workspace_of(const struct work *work)
{
    struct sw_value values[2 * OPERANDS];
    struct sw_ref refs[2 * OPERANDS];
    struct sw_program program;
    struct sw_op op = work->op;
    memset(&program, 0, sizeof program);
    memset(values, 0, sizeof values);
    program.mesh = sw_mesh_make(1, 1, 1, 1);
    program.values = values;
    op.in = refs;
    op.out = refs + op.n_in;
    for (int32_t i = 0; i < op.n_in + op.n_out; i++) {
        const struct sw_tensor *t = i < op.n_in ? &work->in[i] : &work->out[i - op.n_in];
        values[i].dtype = t->dtype;
        values[i].ndim = t->ndim;
        values[i].stack = 1;
        memcpy(values[i].local, t->size, sizeof t->size);
        refs[i] = (struct sw_ref){i, SW_INDEX_FIXED, 0};
    }
    const struct sw_op_info *info = sw_op_info(op.kind);
    return info->workspace == NULL ? 0 : info->workspace(&program, &op);
}

static void prepare(struct work *work, const struct kernel *kernel, struct sw_device *device)
{
    memset(work, 0, sizeof *work);
    work->device = device;
    work->op.kind = (uint8_t)kernel->kind;
    work->op.as = kernel->as;
    for (uint16_t i = 0; i < OPERANDS && kernel->in[i].ndim > 0; i++, work->op.n_in++) {
        const struct operand *operand = &kernel->in[i];
        work->in[i] = tensor_of(device, operand);
        fill(&work->in[i], operand, i + 1);
        if (operand->ndim == 2 && operand->size[1] == SW_SLOT_FIELDS)
            fill_slots(&work->in[i], operand->below);
    }
    for (uint16_t i = 0; i < OPERANDS && kernel->out[i].ndim > 0; i++, work->op.n_out++)
        work->out[i] = kernel->same[i] > 0 ? work->in[kernel->same[i] - 1]
                                           : tensor_of(device, &kernel->out[i]);
    work->op.workspace_bytes = workspace_of(work);
    work->call = (struct sw_call){
        .op = &work->op,
        .in = work->in,
        .out = work->out,
        .step = &step,
        .batch_invariant = kernel->batch_invariant,
        .workspace = device->vtable->allocate(device, (size_t)work->op.workspace_bytes + 64)};
}

static void release(struct work *work, const struct kernel *kernel)
{
    struct sw_device *device = work->device;
    for (uint16_t i = 0; i < work->op.n_in; i++)
        device->vtable->release(device, work->in[i].data);
    for (uint16_t i = 0; i < work->op.n_out; i++)
        if (kernel->same[i] == 0)
            device->vtable->release(device, work->out[i].data);
    device->vtable->release(device, work->call.workspace);
}

static void run_kernel(void *context)
{
    struct work *work = context;
    struct sw_error err = {0};
    if (work->device->vtable->run[work->op.kind](work->device, &work->call, &err) != 0)
        leave(sw_op_info(work->op.kind)->name, &err);
}

/* ---- Texts ---- */

static const char tokenizer_json[] =
    "{\"added_tokens\":[],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{"
    "\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"e\":4,\"\304\240\":5,\"ab\":6,\"cd\":7,\"abcd\":8,"
    "\"\304\240ab\":9,\"ee\":10,\"\304\240a\":11},"
    "\"merges\":[\"a b\",\"c d\",\"ab cd\",\"\304\240 ab\",\"e e\",\"\304\240 a\"]}}";

struct texts {
    struct sw_tokenizer *tokenizer;
    char text[8192];
    struct sw_jinja *template;
    json_t *messages;
};

static const char chat_template[] =
    "{% for m in messages %}{% if loop.first and m.role == 'system' %}{{ m.content | trim }}\n"
    "{% else %}<|{{ m.role }}|>{{ m.content }}{% if not loop.last %}\n{% endif %}{% endif %}"
    "{% endfor %}";

static void prepare_texts(struct texts *texts)
{
    struct sw_error err = {0};
    uint64_t state = 7;
    for (size_t i = 0; i + 1 < sizeof texts->text; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        texts->text[i] = "abcde "[(state >> 33) % 6];
    }
    texts->text[sizeof texts->text - 1] = '\0';
    if (sw_tokenizer_parse("tokenizer", tokenizer_json, sizeof tokenizer_json - 1,
                           &texts->tokenizer, &err) != 0)
        leave("tokenizer", &err);
    if (sw_jinja_parse("template", chat_template, sizeof chat_template - 1, &texts->template,
                       &err) != 0)
        leave("jinja", &err);
    texts->messages = json_array();
    for (int i = 0; i < 64; i++)
        json_array_append_new(texts->messages,
                              json_pack("{s:s,s:s}", "role", i % 2 ? "user" : "assistant",
                                        "content", "what is said, in a few words"));
}

/* The scratch is new: its words are not known from before. */
static void tokenize(void *context)
{
    struct texts *texts = context;
    struct sw_error err = {0};
    struct sw_text_scratch *scratch;
    struct sw_ids ids = {0};
    if (sw_text_scratch_new(texts->tokenizer, &scratch, &err) != 0 ||
        sw_tokenizer_encode(texts->tokenizer, scratch, texts->text, sizeof texts->text - 1, NULL,
                            &ids, &err) != 0)
        leave("tokenizer", &err);
    sw_ids_free(&ids);
    sw_text_scratch_free(scratch);
}

static void render(void *context)
{
    struct texts *texts = context;
    struct sw_error err = {0};
    struct sw_chars text = {0};
    const struct sw_jinja_variable messages = {.name = "messages", .value = texts->messages};
    if (sw_jinja_render(texts->template, &messages, 1, &SW_JINJA_USUAL_LIMITS, 0, &text, NULL, NULL,
                        &err) != 0)
        leave("jinja", &err);
    sw_chars_free(&text);
}

/* ---- All of them ---- */

/* callgrind finds it by its name, so it is never made a part of its callers. */
__attribute__((noinline, noclone)) void counted(void (*run)(void *context), void *context);
void counted(void (*run)(void *context), void *context)
{
    run(context);
    __asm__ volatile("" ::: "memory"); /* no jump in place of the call */
}

static void count(const char *name, void (*run)(void *context), void *context)
{
    run(context);
    counted(run, context);
    printf("%s\n", name);
}

int main(int argc, char **argv)
{
    struct sw_error err = {0};
    static struct texts texts;
    if (argc == 2 && strcmp(argv[1], "versions") == 0) {
        const dnnl_version_t *v = dnnl_version();
        printf("gcc %s, glibc %s, oneDNN %d.%d.%d\n", __VERSION__, gnu_get_libc_version(), v->major,
               v->minor, v->patch);
        return 0;
    }
    struct sw_device *device = sw_cpu_device_create(1, &err);
    if (device == NULL)
        leave("device", &err);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        struct work work;
        prepare(&work, &kernels[i], device);
        count(kernels[i].name, run_kernel, &work);
        release(&work, &kernels[i]);
    }
    prepare_texts(&texts);
    count("tokenizer", tokenize, &texts);
    count("jinja", render, &texts);
    sw_jinja_free(texts.template);
    sw_tokenizer_free(texts.tokenizer);
    json_decref(texts.messages);
    device->vtable->destroy(device);
    return 0;
}
