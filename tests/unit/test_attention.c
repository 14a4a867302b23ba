/* Attention of a sequence in shapes that fill no tile, in every precision, whatever products of it
 * the processor has. Operands are bf16 numbers in all of them. */
#include "core/base/number.h"
#include "core/ir/workspace.h"
#include "runner/device/cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { Q, K, V, O, LSE, DO, INPUTS, DQ = 0, DK, DV };

struct shape {
    int64_t batch, tokens, kv_heads, group, dim;
    double most; /* of queries and keys */
};

/* Forward and backward of one shape. in[O] and in[LSE] are forward's results. */
struct work {
    struct shape shape;
    struct sw_tensor in[INPUTS], gradient[3];
};

static double get(const struct sw_tensor *t, int64_t i)
{
    return t->dtype == SW_F64   ? ((const double *)t->data)[i]
           : t->dtype == SW_F32 ? (double)((const float *)t->data)[i]
                                : (double)sw_bf16_to_float(((const uint16_t *)t->data)[i]);
}

static void set(const struct sw_tensor *t, int64_t i, double value)
{
    const uint16_t narrow = sw_bf16_from_float((float)value);
    if (t->dtype == SW_F64)
        ((double *)t->data)[i] = (double)sw_bf16_to_float(narrow);
    else if (t->dtype == SW_F32)
        ((float *)t->data)[i] = sw_bf16_to_float(narrow);
    else
        ((uint16_t *)t->data)[i] = narrow;
}

/* Memory of exactly that size: who reads behind it is found. A token's numbers are its own, however
 * many tokens there are. */
static struct sw_tensor tensor(enum sw_dtype dtype, const struct shape *s, int64_t width,
                               uint64_t seed, double most)
{
    struct sw_tensor t = {.dtype = dtype, .ndim = 3, .size = {s->batch, s->tokens, width}};
    memcpy(t.global, t.size, sizeof t.size);
    t.elems = s->batch * s->tokens * width;
    t.data = malloc((size_t)t.elems * sw_dtype_bytes(dtype));
    assert_non_null(t.data);
    for (int64_t i = 0; i < t.elems; i++) {
        const int64_t row = i / width, token = row % s->tokens;
        uint64_t state = seed * 0x9e3779b97f4a7c15u + (uint64_t)(row / s->tokens) * 7919 +
                         (uint64_t)(token * width + i % width) * 0xd1342543de82ef95u;
        for (int k = 0; k < 2; k++)
            state = (state ^ (state >> 29)) * 6364136223846793005u + 1442695040888963407u;
        set(&t, i, ((double)(state >> 40) * 0x1p-23 - 1) * most);
    }
    return t;
}

static struct work work_of(const struct shape *s, enum sw_dtype dtype)
{
    struct work w = {.shape = *s};
    const enum sw_dtype wide = dtype == SW_F64 ? SW_F64 : SW_F32;
    const int64_t kv = s->kv_heads * s->dim, all = kv * s->group;
    for (int i = 0; i < 3; i++) {
        w.in[i] = tensor(dtype, s, i == Q ? all : kv, (uint64_t)i + 1, i == V ? 1 : s->most);
        w.gradient[i] = tensor(dtype, s, i == Q ? all : kv, 9, 1);
    }
    w.in[O] = tensor(dtype, s, all, 9, 1);
    w.in[LSE] = tensor(wide, s, s->kv_heads * s->group, 9, 1);
    w.in[DO] = tensor(dtype, s, all, 4, 1);
    return w;
}

static void release(struct work *w)
{
    for (int i = 0; i < INPUTS; i++)
        free(w->in[i].data);
    for (int i = 0; i < 3; i++)
        free(w->gradient[i].data);
}

static void run(struct work *w, int32_t threads)
{
    struct sw_error err = {0};
    struct sw_device *device = sw_cpu_device_create(threads, &err);
    struct sw_attention_workspace layout;
    assert_non_null(device);
#ifdef SW_AMX_EMULATED
    assert_true(((struct sw_cpu_device *)device)->amx);
#endif
    sw_attention_workspace_layout(w->in[Q].size, w->in[K].size, (int32_t)w->shape.dim,
                                  w->in[Q].dtype, false, true, &layout);
    void *workspace = malloc((size_t)layout.bytes);
    memset(workspace, 0xff, (size_t)layout.bytes); /* NaN: nothing counts on zeros */
    struct sw_op op = {.kind = SW_OP_ATTENTION, .n_in = 3, .n_out = 2};
    op.as.attention = (struct sw_attention_attributes){.scale = 1 / sqrt((double)w->shape.dim),
                                                       .head_dim = (int32_t)w->shape.dim,
                                                       .group = (int32_t)w->shape.group,
                                                       .sequence_shards = 1,
                                                       .sequence_layout = SW_CONTIGUOUS};
    op.workspace_bytes = layout.bytes;
    struct sw_call call = {.op = &op, .in = w->in, .out = &w->in[O], .workspace = workspace};
    if (device->vtable->run[op.kind](device, &call, &err) != 0)
        fail_msg("attention: %s", err.message);
    op.kind = SW_OP_ATTENTION_GRAD;
    op.n_in = INPUTS;
    op.n_out = 3;
    call.out = w->gradient;
    if (device->vtable->run[op.kind](device, &call, &err) != 0)
        fail_msg("attention_grad: %s", err.message);
    free(workspace);
    device->vtable->destroy(device);
}

/* Result 0 to 4: o, the log-sum-exp, dq, dk, dv. */
static const struct sw_tensor *result(const struct work *w, int i)
{
    return i < 2 ? &w->in[O + i] : &w->gradient[i - 2];
}

static double distance(const struct sw_tensor *a, const struct sw_tensor *b)
{
    double most = 0, scale = 1e-30;
    for (int64_t i = 0; i < a->elems; i++) {
        const double difference = fabs(get(a, i) - get(b, i));
        most = difference > most || isnan(difference) ? difference : most;
        scale = fmax(scale, fabs(get(b, i)));
    }
    return most / scale;
}

/* f32: 2^-24 * sqrt(terms <= 2048) * 16. bf16: results and what enters their sums (o, p, ds) are
 * rounded to 2^-9: 2^-9 * 8. Relative to the largest result. Gradients of large scores are
 * differences of what is nearly equal: dp and delta, of which o is rounded, so they are asked of
 * small ones only, and of tokens enough that not all of them are small. */
static void agree(const struct shape *s, int results)
{
    static const enum sw_dtype dtypes[] = {SW_F32, SW_BF16_T};
    static const double tolerance[] = {0x1p-24 * 45 * 16, 0x1p-9 * 8};
    struct work exact = work_of(s, SW_F64);
    run(&exact, 1);
    for (int d = 0; d < 2; d++) {
        struct work rounded = work_of(s, dtypes[d]);
        run(&rounded, 2);
        for (int i = 0; i < results; i++) {
            const double off = distance(result(&rounded, i), result(&exact, i));
            if (!(off <= tolerance[d]))
                fail_msg("%lld tokens, heads of %lld in groups of %lld, %s: result %d is off by %g",
                         (long long)s->tokens, (long long)s->dim, (long long)s->group,
                         sw_dtype_name(dtypes[d]), i, off);
        }
        release(&rounded);
    }
    release(&exact);
}

static void every_shape_agrees_with_f64(void **state)
{
    (void)state;
    static const int64_t dims[] = {2, 5, 10, 16, 34, 64, 100, 128, 192};
    static const int64_t tokens[] = {2, 17, 63, 64, 65, 131};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++)
            agree(&(struct shape){2, tokens[t], 2, 1 + (int64_t)(d + t) % 3, dims[d], 1},
                  tokens[t] > 2 ? 5 : 2);
}

/* Scores up to hundreds: most probabilities are nothing, maxima change from tile to tile. */
static void large_scores_agree_with_f64(void **state)
{
    (void)state;
    for (int64_t dim = 16; dim <= 128; dim *= 2)
        agree(&(struct shape){1, 200, 1, 2, dim, 12}, 2);
}

static void threads_do_not_change_bits(void **state)
{
    (void)state;
    static const enum sw_dtype dtypes[] = {SW_F32, SW_BF16_T};
    const struct shape shape = {1, 700, 2, 2, 24, 1};
    for (int d = 0; d < 2; d++) {
        struct work one = work_of(&shape, dtypes[d]);
        run(&one, 1);
        for (int32_t threads = 2; threads <= 8; threads += 3) {
            struct work many = work_of(&shape, dtypes[d]);
            run(&many, threads);
            for (int i = 0; i < 5; i++)
                assert_memory_equal(result(&many, i)->data, result(&one, i)->data,
                                    (size_t)result(&one, i)->elems *
                                        sw_dtype_bytes(result(&one, i)->dtype));
            release(&many);
        }
        release(&one);
    }
}

/* What is behind a token changes no bit of it. */
static void tokens_do_not_depend_on_later_ones(void **state)
{
    (void)state;
    static const enum sw_dtype dtypes[] = {SW_F32, SW_BF16_T};
    for (int d = 0; d < 2; d++)
        for (int64_t tokens = 1; tokens < 150; tokens += 37) {
            struct work few = work_of(&(struct shape){1, tokens, 1, 2, 48, 2}, dtypes[d]);
            struct work more = work_of(&(struct shape){1, 150, 1, 2, 48, 2}, dtypes[d]);
            run(&few, 1);
            run(&more, 1);
            for (int i = 0; i < 2; i++)
                assert_memory_equal(result(&few, i)->data, result(&more, i)->data,
                                    (size_t)result(&few, i)->elems *
                                        sw_dtype_bytes(result(&few, i)->dtype));
            release(&few);
            release(&more);
        }
}

/* A query whose maximum stands from the first key on, beside one that finds a larger score in every
 * tile and beside none. */
static void tokens_do_not_depend_on_neighbours(void **state)
{
    (void)state;
    enum { FEW = 64 * 60 + 40, DIM = 32 };
    static const enum sw_dtype dtypes[] = {SW_F32, SW_BF16_T};
    for (int d = 0; d < 2; d++) {
        struct work work[2];
        for (int w = 0; w < 2; w++) {
            work[w] = work_of(&(struct shape){1, FEW + w, 1, 1, DIM, 1}, dtypes[d]);
            for (int64_t i = 0; i < (FEW + w) * DIM; i++) {
                const int64_t token = i / DIM;
                set(&work[w].in[Q], i, i % DIM > 0 ? 0 : token < FEW ? 1 : -1);
                set(&work[w].in[K], i, i % DIM > 0 ? 0 : token == 0 ? 8 : -1 - token / 1024.0);
            }
            run(&work[w], 1);
        }
        for (int i = 0; i < 2; i++)
            assert_memory_equal(result(&work[0], i)->data, result(&work[1], i)->data,
                                (size_t)result(&work[0], i)->elems *
                                    sw_dtype_bytes(result(&work[0], i)->dtype));
        release(&work[0]);
        release(&work[1]);
    }
}

/* In what reads it, and in no tile before. */
static void not_a_number_stays_visible(void **state)
{
    (void)state;
    static const enum sw_dtype dtypes[] = {SW_F32, SW_BF16_T};
    enum { TOKENS = 100, TILE = 64, AT = 70 };
    const struct shape shape = {1, TOKENS, 1, 1, 32, 1};
    for (int d = 0; d < 2; d++)
        for (int of = K; of <= V; of++) {
            struct work w = work_of(&shape, dtypes[d]);
            set(&w.in[of], AT * shape.dim + 3, (double)NAN);
            run(&w, 1);
            for (int64_t token = 0; token < TOKENS; token += token + 1 == TILE ? 1 + AT - TILE : 1)
                if ((isnan(get(&w.in[O], token * shape.dim + 3)) != 0) != (token >= AT))
                    fail_msg("%s, operand %d: token %lld is %g", sw_dtype_name(dtypes[d]), of,
                             (long long)token, get(&w.in[O], token * shape.dim + 3));
            release(&w);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_agrees_with_f64),
        cmocka_unit_test(large_scores_agree_with_f64),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(tokens_do_not_depend_on_later_ones),
        cmocka_unit_test(tokens_do_not_depend_on_neighbours),
        cmocka_unit_test(not_a_number_stays_visible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
