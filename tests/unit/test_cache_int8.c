/* A cache of keys and values in int8 (core/ir/serving.h): the integers and scales that
 * `cache_append` writes, and attention over what they stand for, against plain loops in
 * double. */
#include "core/base/number.h"
#include "core/ir/op.h"
#include "core/ir/serving.h"
#include "runner/device/cpu/cpu.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Sizes are no multiples of a vector: tails are met. Places: two chunks of 24. */
enum { B = 3, S = 13, DIM = 10, HEADS = 6, KV = 2, PLACES = 48, CHUNK = 24 };

static const struct sw_op attend_op = {.as.attention = {.scale = 0.31,
                                                        .head_dim = DIM,
                                                        .group = HEADS / KV,
                                                        .keys = SW_KEYS_CACHE_PART,
                                                        .sequence_layout = -1,
                                                        .chunk = CHUNK}},
                          append_op = {.as.append = {.head_dim = DIM, .chunk = CHUNK}};

static struct sw_device *device_of(int32_t threads)
{
    struct sw_error err = {0};
    struct sw_device *device = sw_cpu_device_create(threads, &err);
    assert_non_null(device);
    return device;
}

static struct sw_tensor tensor(enum sw_dtype dtype, int64_t s0, int64_t s1, int64_t s2)
{
    struct sw_tensor t = {.dtype = dtype,
                          .ndim = 3,
                          .size = {s0, s1, s2},
                          .global = {s0, s1, s2},
                          .elems = s0 * s1 * s2};
    t.data = calloc((size_t)t.elems, 8);
    assert_non_null(t.data);
    return t;
}

static double get(const struct sw_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case SW_F64:
        return ((const double *)t->data)[i];
    case SW_F32:
        return (double)((const float *)t->data)[i];
    case SW_BF16_T:
        return (double)sw_bf16_to_float(((const uint16_t *)t->data)[i]);
    default:
        return (double)((const int8_t *)t->data)[i];
    }
}

static void set(const struct sw_tensor *t, int64_t i, double value)
{
    if (t->dtype == SW_F64)
        ((double *)t->data)[i] = value;
    else if (t->dtype == SW_F32)
        ((float *)t->data)[i] = (float)value;
    else
        ((uint16_t *)t->data)[i] = sw_bf16_from_float((float)value);
}

/* Each row of another size, from 2^-20 to 2^10. */
static struct sw_tensor filled(struct sw_tensor t, uint64_t seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    double size = 1;
    for (int64_t i = 0; i < t.elems; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const double uniform = (double)(state >> 11) / 9007199254740992.0 * 2 - 1;
        if (i % t.size[2] == 0)
            size = exp2(uniform * 15 - 5);
        else
            set(&t, i, uniform * size);
    }
    return t;
}

/* First positions, numbers of tokens and slots; the last row rests. */
static int32_t wheres[B][SW_SLOT_FIELDS] = {{4, S, 0}, {30, 5, 1}, {7, 0, 2}};

static struct sw_tensor slots_of(int32_t (*where)[SW_SLOT_FIELDS])
{
    return (struct sw_tensor){.data = where,
                              .dtype = SW_I32,
                              .ndim = 2,
                              .size = {B, SW_SLOT_FIELDS},
                              .global = {B, SW_SLOT_FIELDS},
                              .elems = B * SW_SLOT_FIELDS};
}

static void run(struct sw_device *device, enum sw_op_kind kind, const struct sw_tensor *in,
                uint16_t n_in, const struct sw_tensor *out, uint16_t n_out)
{
    struct sw_op op = kind == SW_OP_ATTENTION ? attend_op : append_op;
    struct sw_error err = {0};
    op.kind = (uint8_t)kind;
    op.n_in = n_in;
    op.n_out = n_out;
    const struct sw_call call = {.op = &op, .in = in, .out = out, .batch_invariant = true};
    if (device->vtable->run[kind](device, &call, &err) != 0)
        fail_msg("%s: %s", sw_op_info(kind)->name, err.message);
}

static void append(struct sw_device *device, const struct sw_tensor *cache,
                   const struct sw_tensor *scales, const struct sw_tensor *x,
                   int32_t (*where)[SW_SLOT_FIELDS])
{
    const struct sw_tensor in[4] = {*cache, *x, slots_of(where), *scales};
    const struct sw_tensor out[2] = {*cache, *scales};
    run(device, SW_OP_CACHE_APPEND, in, 4, out, 2);
}

/* ---- What is written ---- */

/* A scale of max|x| / 127 in fp32, integers that are x / scale rounded to the nearest, nothing
 * beside the rows that were appended. */
static void each_head_has_its_scale(void **state)
{
    (void)state;
    static const enum sw_dtype dtypes[] = {SW_F32, SW_BF16_T, SW_F64};
    for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
        struct sw_device *device = device_of(1);
        const struct sw_tensor x = filled(tensor(dtypes[t], B, S, KV * DIM), 3);
        const struct sw_tensor cache = tensor(SW_I8, B, PLACES, KV * DIM);
        const struct sw_tensor scales = tensor(SW_F32, B, PLACES, KV);
        memset(cache.data, 99, (size_t)cache.elems);
        for (int64_t i = 0; i < scales.elems; i++)
            set(&scales, i, -7);
        append(device, &cache, &scales, &x, wheres);
        for (int64_t row = 0; row < B * PLACES * KV; row++) {
            const int64_t b = row / KV / PLACES, token = row / KV % PLACES - wheres[b][0];
            const double scale = get(&scales, row);
            double most = 0;
            if (token < 0 || token >= wheres[b][1]) {
                assert_true(scale == -7);
                for (int64_t d = 0; d < DIM; d++)
                    assert_true(get(&cache, row * DIM + d) == 99);
                continue;
            }
            const int64_t from = ((b * S + token) * KV + row % KV) * DIM;
            for (int64_t d = 0; d < DIM; d++)
                most = fmax(most, fabs(get(&x, from + d)));
            assert_true(most > 0 && fabs(scale * 127 / most - 1) <= FLT_EPSILON);
            bool largest = false;
            for (int64_t d = 0; d < DIM; d++) {
                const double q = get(&cache, row * DIM + d), real = get(&x, from + d);
                assert_true(fabs(q - real / scale) <= 0.5);
                assert_true(fabs(q) <= 127);
                largest = largest || fabs(q) == 127;
            }
            assert_true(largest);
        }
        free(x.data);
        free(cache.data);
        free(scales.data);
        device->vtable->destroy(device);
    }
}

/* Zeros, what is too small for a scale, the smallest scales, what is no number: and the heads
 * beside them are as ever. */
static void edges_of_a_scale(void **state)
{
    (void)state;
    const double least = (double)FLT_TRUE_MIN;
    const struct {
        double x[2]; /* a head's first elements; the others are 0 */
        double scale, q[2];
    } cases[] = {
        {{0, -0.0}, 0, {0, 0}},
        {{least * 50, -least}, 0, {0, 0}},
        {{least * 190, least * -190}, least, {127, -127}},
        {{254, 1}, 2, {127, 0}}, /* ties go to the even one */
        {{-254, 3}, 2, {-127, 2}},
        {{(double)FLT_MAX, -(double)FLT_MAX}, (double)(FLT_MAX / 127), {127, -127}},
        {{(double)NAN, 1}, (double)NAN, {0, 0}},
        {{1, (double)INFINITY}, (double)NAN, {0, 0}},
        {{-(double)INFINITY, (double)INFINITY}, (double)NAN, {0, 0}},
    };
    struct sw_device *device = device_of(1);
    const struct sw_tensor x = tensor(SW_F32, B, 1, KV * DIM);
    const struct sw_tensor cache = tensor(SW_I8, B, PLACES, KV * DIM);
    const struct sw_tensor scales = tensor(SW_F32, B, PLACES, KV);
    int32_t where[B][SW_SLOT_FIELDS] = {{0, 1, 0}, {0, 0, 1}, {0, 0, 2}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        set(&x, 3, cases[c].x[0]);
        set(&x, 4, cases[c].x[1]);
        set(&x, DIM, 127); /* of the next head */
        append(device, &cache, &scales, &x, where);
        const double scale = get(&scales, 0);
        if (isnan(cases[c].scale) ? !isnan(scale) : scale != cases[c].scale)
            fail_msg("case %d: scale %g, not %g", (int)c, scale, cases[c].scale);
        assert_true(get(&cache, 3) == cases[c].q[0] && get(&cache, 4) == cases[c].q[1]);
        assert_true(get(&cache, 0) == 0 && get(&cache, 5) == 0);
        assert_true(get(&scales, 1) == 1 && get(&cache, DIM) == 127);
    }
    free(x.data);
    free(cache.data);
    free(scales.data);
    device->vtable->destroy(device);
}

/* A token's bytes are its own, whatever slot it has, where in a chunk it comes and how many threads
 * there are. */
static void rows_are_alike(void **state)
{
    (void)state;
    struct sw_device *one = device_of(1), *three = device_of(3);
    const struct sw_tensor x = filled(tensor(SW_F32, B, S, KV * DIM), 5);
    const struct sw_tensor alone = tensor(SW_F32, B, 1, KV * DIM);
    const struct sw_tensor cache = tensor(SW_I8, B, PLACES, KV * DIM);
    const struct sw_tensor scales = tensor(SW_F32, B, PLACES, KV);
    const struct sw_tensor again = tensor(SW_I8, B, PLACES, KV * DIM);
    const struct sw_tensor again_scales = tensor(SW_F32, B, PLACES, KV);
    append(three, &cache, &scales, &x, wheres);
    for (int64_t b = 0; b < B; b++)
        for (int64_t token = 0; token < wheres[b][1]; token++) {
            const int64_t slot = (b + 1) % B, place = wheres[b][0] + token;
            int32_t where[B][SW_SLOT_FIELDS] = {{0}};
            where[b][SW_SLOT_FIRST] = (int32_t)place;
            where[b][SW_SLOT_TOKENS] = 1;
            where[b][SW_SLOT_NUMBER] = (int32_t)slot;
            memcpy((float *)alone.data + b * KV * DIM,
                   (const float *)x.data + (b * S + token) * KV * DIM, sizeof(float) * KV * DIM);
            append(one, &again, &again_scales, &alone, where);
            assert_memory_equal((const int8_t *)again.data + (slot * PLACES + place) * KV * DIM,
                                (const int8_t *)cache.data + (b * PLACES + place) * KV * DIM,
                                KV * DIM);
            assert_memory_equal((const float *)again_scales.data + (slot * PLACES + place) * KV,
                                (const float *)scales.data + (b * PLACES + place) * KV,
                                sizeof(float) * KV);
        }
    free(x.data);
    free(alone.data);
    free(cache.data);
    free(scales.data);
    free(again.data);
    free(again_scales.data);
    one->vtable->destroy(one);
    three->vtable->destroy(three);
}

/* ---- Attention ---- */

/* Keys and values of every position up to the last that a slot's queries see, in both caches. */
struct caches {
    struct sw_tensor real[2];                /* fp32 */
    struct sw_tensor integers[2], scales[2]; /* int8 */
};

static void fill_caches(struct sw_device *device, struct caches *c)
{
    int32_t all[B][SW_SLOT_FIELDS] = {{0, PLACES, 0}, {0, PLACES, 1}, {0, PLACES, 2}};
    for (int i = 0; i < 2; i++) {
        c->real[i] = tensor(SW_F32, B, PLACES, KV * DIM);
        uint64_t state = 77 + (uint64_t)i;
        for (int64_t j = 0; j < c->real[i].elems; j++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            set(&c->real[i], j, (double)(state >> 11) / 9007199254740992.0 * 2 - 1);
        }
        c->integers[i] = tensor(SW_I8, B, PLACES, KV * DIM);
        c->scales[i] = tensor(SW_F32, B, PLACES, KV);
        append(device, &c->integers[i], &c->scales[i], &c->real[i], all);
    }
}

static void free_caches(struct caches *c)
{
    for (int i = 0; i < 2; i++) {
        free(c->real[i].data);
        free(c->integers[i].data);
        free(c->scales[i].data);
    }
}

static double quantized(const struct caches *c, int half, int64_t row, int64_t d)
{
    return get(&c->integers[half], row * DIM + d) * get(&c->scales[half], row);
}

/* A query's attention over positions [0, last], in plain loops; *most: the largest score. */
static void attend_plainly(const struct caches *c, bool real, const struct sw_tensor *q, int64_t b,
                           int64_t token, int64_t head, int64_t last, double out[DIM], double *most,
                           double *sum)
{
    double score[PLACES];
    *most = -INFINITY;
    *sum = 0;
    memset(out, 0, DIM * sizeof *out);
    for (int64_t p = 0; p <= last; p++) {
        const int64_t row = (b * PLACES + p) * KV + head / (HEADS / KV);
        score[p] = 0;
        for (int64_t d = 0; d < DIM; d++)
            score[p] += attend_op.as.attention.scale *
                        get(q, ((b * q->size[1] + token) * HEADS + head) * DIM + d) *
                        (real ? get(&c->real[0], row * DIM + d) : quantized(c, 0, row, d));
        *most = fmax(*most, score[p]);
    }
    for (int64_t p = 0; p <= last; p++) {
        const int64_t row = (b * PLACES + p) * KV + head / (HEADS / KV);
        *sum += exp(score[p] - *most);
        for (int64_t d = 0; d < DIM; d++)
            out[d] += exp(score[p] - *most) *
                      (real ? get(&c->real[1], row * DIM + d) : quantized(c, 1, row, d));
    }
}

/* Elements are off by half a scale, so scores by e = scale sum|q| s_k / 2; each share of the
 * softmax changes by a factor of exp(2 e) at most, and what is averaged by s_v / 2. */
static double bound_of(const struct caches *c, const struct sw_tensor *q, int64_t b, int64_t token,
                       int64_t head, int64_t last)
{
    double sum = 0, scale[2] = {0}, largest = 0;
    for (int64_t d = 0; d < DIM; d++)
        sum += fabs(get(q, ((b * q->size[1] + token) * HEADS + head) * DIM + d));
    for (int64_t p = 0; p <= last; p++) {
        const int64_t row = (b * PLACES + p) * KV + head / (HEADS / KV);
        for (int i = 0; i < 2; i++)
            scale[i] = fmax(scale[i], get(&c->scales[i], row));
        for (int64_t d = 0; d < DIM; d++)
            largest = fmax(largest, fabs(get(&c->real[1], row * DIM + d)));
    }
    const double e = attend_op.as.attention.scale * sum * scale[0] / 2;
    return (exp(2 * e) - 1) * largest + scale[1] / 2 + 1e-6;
}

/* Of a token and of a chunk, in every precision: to the rounding of the computation what the
 * integers and scales stand for (tolerances of test_ops.c), and within the bound what an fp32 cache
 * gives. */
static void attention_is_over_what_they_stand_for(void **state)
{
    (void)state;
    static const struct {
        enum sw_dtype queries;
        int64_t seq;
        double tolerance;
    } cases[] = {{SW_F64, S, 1e-13},
                 {SW_F64, 1, 1e-13},
                 {SW_F32, S, 0x1p-24 * 45 * 16},
                 {SW_F32, 1, 0x1p-24 * 45 * 16},
                 {SW_BF16_T, S, 0x1p-24 * 45 * 16},
                 {SW_BF16_T, 1, 0x1p-24 * 45 * 16}};
    struct sw_device *device = device_of(1);
    struct caches c;
    fill_caches(device, &c);
    double furthest = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const enum sw_dtype wide = cases[i].queries == SW_F64 ? SW_F64 : SW_F32;
        const int64_t seq = cases[i].seq;
        const struct sw_tensor q = filled(tensor(cases[i].queries, B, seq, HEADS * DIM), 9);
        for (int64_t j = 0; j < q.elems; j++)
            set(&q, j, fmax(fmin(get(&q, j), 2), -2));
        int32_t where[B][SW_SLOT_FIELDS] = {{4, 1, 0}, {30, 1, 1}, {7, 0, 2}};
        if (seq > 1)
            memcpy(where, wheres, sizeof where);
        const struct sw_tensor in[6] = {q,           c.integers[0], c.integers[1], slots_of(where),
                                        c.scales[0], c.scales[1]};
        struct sw_tensor out[2] = {tensor(wide, B, seq, HEADS * DIM),
                                   tensor(wide, B, seq, HEADS * 2)};
        for (int k = 0; k < 2; k++) {
            out[k].ndim = 4;
            out[k].size[3] = out[k].global[3] = 1;
        }
        run(device, SW_OP_ATTENTION, in, 6, out, 2);
        for (int64_t row = 0; row < B * seq * HEADS; row++) {
            const int64_t b = row / HEADS / seq, token = row / HEADS % seq, head = row % HEADS;
            double wanted[DIM], real[DIM], most, sum, real_most, real_sum;
            if (token >= where[b][1]) {
                for (int64_t d = 0; d < DIM; d++)
                    assert_true(get(&out[0], row * DIM + d) == 0);
                continue;
            }
            const int64_t last = where[b][0] + token;
            attend_plainly(&c, false, &q, b, token, head, last, wanted, &most, &sum);
            attend_plainly(&c, true, &q, b, token, head, last, real, &real_most, &real_sum);
            assert_true(fabs(get(&out[1], row * 2) - most) <= cases[i].tolerance * 8);
            const double made = get(&out[1], row * 2 + 1) * exp(get(&out[1], row * 2) - most);
            assert_true(fabs(made - sum) <= cases[i].tolerance * sum * 8);
            const double bound = bound_of(&c, &q, b, token, head, last);
            for (int64_t d = 0; d < DIM; d++) {
                const double got = get(&out[0], row * DIM + d) / get(&out[1], row * 2 + 1);
                if (!(fabs(got - wanted[d] / sum) <= cases[i].tolerance * 8))
                    fail_msg("case %d: row %d, element %d is %.9g, not %.9g", (int)i, (int)row,
                             (int)d, got, wanted[d] / sum);
                if (!(fabs(got - real[d] / real_sum) <= bound))
                    fail_msg("case %d: row %d, element %d is %.9g, of an fp32 cache %.9g; they "
                             "may be %.3g apart",
                             (int)i, (int)row, (int)d, got, real[d] / real_sum, bound);
                furthest = fmax(furthest, fabs(got - real[d] / real_sum));
            }
        }
        free(q.data);
        free(out[0].data);
        free(out[1].data);
    }
    /* and it was int8 that was read: fp32 would agree to 1e-6 */
    assert_true(furthest > 1e-4);
    free_caches(&c);
    device->vtable->destroy(device);
}

/* Operands of another kind are an error, not a guess. */
static void other_operands_are_refused(void **state)
{
    (void)state;
    struct sw_device *device = device_of(1);
    struct sw_error err = {0};
    const struct sw_tensor cache = tensor(SW_I8, B, PLACES, KV * DIM);
    const struct sw_tensor scales = tensor(SW_F32, B, PLACES, KV * 2);
    const struct sw_tensor x = tensor(SW_F32, B, S, KV * DIM);
    const struct sw_tensor in[4] = {cache, x, slots_of(wheres), scales}, out[2] = {cache, scales};
    struct sw_op op = append_op;
    op.kind = SW_OP_CACHE_APPEND;
    op.n_in = 4;
    op.n_out = 2;
    const struct sw_call call = {.op = &op, .in = in, .out = out};
    assert_int_equal(device->vtable->run[op.kind](device, &call, &err), -1);
    assert_string_equal(err.message, "cache_append takes i8 with a scale for each head");
    err = (struct sw_error){0};
    op = attend_op;
    op.kind = SW_OP_ATTENTION;
    op.n_in = 6;
    op.n_out = 2;
    const struct sw_tensor q = tensor(SW_F32, B, S, HEADS * DIM);
    const struct sw_tensor over[6] = {q, cache, cache, slots_of(wheres), scales, scales};
    const struct sw_call attention = {.op = &op, .in = over, .out = out};
    assert_int_equal(device->vtable->run[op.kind](device, &attention, &err), -1);
    assert_string_equal(err.message, "attention over a cache takes i8 with a scale for each head");
    free(cache.data);
    free(scales.data);
    free(x.data);
    free(q.data);
    device->vtable->destroy(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_head_has_its_scale),
        cmocka_unit_test(edges_of_a_scale),
        cmocka_unit_test(rows_are_alike),
        cmocka_unit_test(attention_is_over_what_they_stand_for),
        cmocka_unit_test(other_operands_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
