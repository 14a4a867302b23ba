/* Attention through cuDNN against attention in f64 on the CPU, and against the device's own
 * kernels: pieces of a hop on random shapes, and whole ops whose pieces are merged.
 *
 *   test_cudnn_attention [ROUNDS [SEED]]   on a GPU; without one, or without cuDNN, skipped (77)
 *
 * test_cudnn_attention_emulated is the same with tests/support/cudnn_stand_in.c, on the CPU. */
#include "core/base/number.h"
#include "runner/device/cuda/cuda.h"
#ifdef SW_EMULATED
#include "tests/support/cuda_streams.h"
#endif

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#ifdef SW_EMULATED
enum { LONGEST = 100, LARGEST_DIM = 64, MOST_HEADS = 3 };
#else
enum { LONGEST = 300, LARGEST_DIM = 256, MOST_HEADS = 4 };
#endif

static struct sw_device *library, *own; /* the same GPU: cuDNN, and own kernels */
static uint64_t state = 1;
static int64_t rounds = 3;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0;
}

static int64_t between(int64_t low, int64_t high)
{
    return low + (int64_t)(uniform() * (double)(high - low + 1));
}

/* ---- Operands: bf16 [batch, rows, heads * dim] on the host, and on the device ---- */

enum { POISON = 0x7fc0 }; /* NaN */

struct operand {
    int64_t elems;
    uint16_t *host;
    void *device;
};

static void *zeroed(int64_t count, size_t bytes)
{
    void *memory = calloc((size_t)count + 1, bytes);
    assert_non_null(memory);
    return memory;
}

static void send(struct operand *x)
{
    assert_int_equal(library->vtable->copy_in(library, x->device, x->host, (size_t)x->elems * 2),
                     0);
}

static struct operand operand(int64_t elems, bool result)
{
    struct operand x = {.elems = elems, .host = zeroed(elems, 2)};
    for (int64_t i = 0; i < elems; i++)
        x.host[i] = result ? POISON : sw_bf16_from_float(2 * uniform() - 1);
    x.device = library->vtable->allocate(library, (size_t)elems * 2);
    assert_non_null(x.device);
    send(&x);
    return x;
}

static void fetch(struct operand *x)
{
    assert_int_equal(library->vtable->copy_out(library, x->host, x->device, (size_t)x->elems * 2),
                     0);
}

static void drop(struct operand *x)
{
    library->vtable->release(library, x->device);
    free(x->host);
}

/* Memory that is read before it is written shows: NaN. */
static void *poisoned(struct sw_device *device, int64_t bytes)
{
    void *memory = device->vtable->allocate(device, (size_t)bytes);
    assert_non_null(memory);
    assert_int_equal(
        cudaMemsetAsync(memory, 0xff, (size_t)bytes, ((struct sw_cuda_device *)device)->stream),
        cudaSuccess);
    return memory;
}

static float *device_floats(const float *values, int64_t count)
{
    float *memory = poisoned(library, count * (int64_t)sizeof *memory);
    if (values != NULL)
        assert_int_equal(
            library->vtable->copy_in(library, memory, values, (size_t)count * sizeof *memory), 0);
    return memory;
}

static float *host_floats(const float *device, int64_t count)
{
    float *values = zeroed(count, sizeof *values);
    assert_int_equal(
        library->vtable->copy_out(library, values, device, (size_t)count * sizeof *values), 0);
    return values;
}

/* ---- Attention in f64 ---- */

/* What is computed, and the sum of the sizes of the terms that each element is a sum of. */
struct sums {
    double *value, *size;
};

struct reference {
    int64_t batch, heads, kv_heads, n_q, n_k, q_rows, k_rows;
    int32_t dim;
    double scale;
    const int64_t *q_position, *k_position; /* [n_q], [n_k] */
    const uint16_t *q, *k, *v, *o, *d_o;    /* rows as in struct sw_cudnn_shape */
    double *lse;                            /* [batch, heads, n_q]: forward's result */
    struct sums out, dq, dk, dv;            /* [batch, n, heads * dim] */
    int64_t window;                         /* 0: none */
};

static struct sums sums(int64_t elems)
{
    return (struct sums){zeroed(elems, sizeof(double)), zeroed(elems, sizeof(double))};
}

static void sums_free(struct sums *s)
{
    free(s->value);
    free(s->size);
}

static void add_to(struct sums *s, int64_t at, double term, double size)
{
    s->value[at] += term;
    s->size[at] += size;
}

static double dot(const uint16_t *a, const uint16_t *b, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)sw_bf16_to_float(a[i]) * sw_bf16_to_float(b[i]);
    return sum;
}

static int64_t q_at(const struct reference *r, int64_t b, int64_t i, int64_t h, int64_t rows)
{
    return ((b * rows + i) * r->heads + h) * r->dim;
}

static int64_t k_at(const struct reference *r, int64_t b, int64_t j, int64_t h, int64_t rows)
{
    return ((b * rows + j) * r->kv_heads + h / (r->heads / r->kv_heads)) * r->dim;
}

static double score(const struct reference *r, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return r->scale *
           dot(r->q + q_at(r, b, i, h, r->q_rows), r->k + k_at(r, b, j, h, r->k_rows), r->dim);
}

static bool sees(const struct reference *r, int64_t i, int64_t j)
{
    const int64_t behind = r->q_position[i] - r->k_position[j];
    return behind >= 0 && (r->window == 0 || behind < r->window);
}

static void forward_row(struct reference *r, int64_t b, int64_t h, int64_t i)
{
    double most = -INFINITY, sum = 0;
    const int64_t to = q_at(r, b, i, h, r->n_q);
    for (int64_t j = 0; j < r->n_k; j++)
        if (sees(r, i, j))
            most = fmax(most, score(r, b, h, i, j));
    for (int64_t j = 0; j < r->n_k; j++)
        if (sees(r, i, j))
            sum += exp(score(r, b, h, i, j) - most);
    const double lse = r->lse[(b * r->heads + h) * r->n_q + i] = most + log(sum);
    for (int64_t j = 0; j < r->n_k; j++) {
        if (!sees(r, i, j))
            continue;
        const double p = exp(score(r, b, h, i, j) - lse);
        const uint16_t *v = r->v + k_at(r, b, j, h, r->k_rows);
        for (int32_t d = 0; d < r->dim; d++)
            add_to(&r->out, to + d, p * sw_bf16_to_float(v[d]), p * fabs(sw_bf16_to_float(v[d])));
    }
}

/* Of the lse and o that are given, whatever they are. */
static void backward_row(struct reference *r, int64_t b, int64_t h, int64_t i)
{
    const uint16_t *q = r->q + q_at(r, b, i, h, r->q_rows);
    const uint16_t *d_o = r->d_o + q_at(r, b, i, h, r->q_rows);
    const double delta = dot(r->o + q_at(r, b, i, h, r->q_rows), d_o, r->dim);
    const int64_t to_q = q_at(r, b, i, h, r->n_q);
    for (int64_t j = 0; j < r->n_k; j++) {
        if (!sees(r, i, j))
            continue;
        const double p = exp(score(r, b, h, i, j) - r->lse[(b * r->heads + h) * r->n_q + i]);
        const uint16_t *k = r->k + k_at(r, b, j, h, r->k_rows);
        const uint16_t *v = r->v + k_at(r, b, j, h, r->k_rows);
        const double ds = p * (dot(d_o, v, r->dim) - delta) * r->scale;
        const int64_t to_k = k_at(r, b, j, h, r->n_k);
        for (int32_t d = 0; d < r->dim; d++) {
            add_to(&r->dq, to_q + d, ds * sw_bf16_to_float(k[d]),
                   fabs(ds * sw_bf16_to_float(k[d])));
            add_to(&r->dk, to_k + d, ds * sw_bf16_to_float(q[d]),
                   fabs(ds * sw_bf16_to_float(q[d])));
            add_to(&r->dv, to_k + d, p * sw_bf16_to_float(d_o[d]),
                   fabs(p * sw_bf16_to_float(d_o[d])));
        }
    }
}

static void each_row(struct reference *r,
                     void (*row)(struct reference *, int64_t, int64_t, int64_t))
{
    for (int64_t b = 0; b < r->batch; b++)
        for (int64_t h = 0; h < r->heads; h++)
            for (int64_t i = 0; i < r->n_q; i++)
                row(r, b, h, i);
}

static void reference_sums(struct reference *r)
{
    const int64_t q = r->batch * r->n_q * r->heads * r->dim;
    const int64_t k = r->batch * r->n_k * r->kv_heads * r->dim;
    r->lse = zeroed(r->batch * r->heads * r->n_q, sizeof *r->lse);
    r->out = sums(q);
    r->dq = sums(q);
    r->dk = sums(k);
    r->dv = sums(k);
}

static void reference_free(struct reference *r)
{
    free(r->lse);
    sums_free(&r->out);
    sums_free(&r->dq);
    sums_free(&r->dk);
    sums_free(&r->dv);
}

/* ---- Comparing ---- */

/* Probabilities and their cotangents are rounded to bf16 (2^-9 of each term), so is the result of
 * a query head and, for grouped queries, of the group; so is a piece's result before it is merged.
 * Each is at most 2^-9 of the sum of the terms' sizes. What f32 adds is below a fifth of that. */
static double tolerance(double size, double floor)
{
    return 4.2 * ldexp(size, -9) + floor;
}

/* Cancellation inside ds, and exponentials of scores that f32 rounds: relative to one whole term.
 */
static double floor_of(const struct reference *r)
{
    return ldexp((double)r->dim, -18) * fmax(r->scale, 1.0 / 16);
}

/* got: [batch, rows, width], of which the first n rows of a sequence are the result. */
static void compare_rows(const char *what, const uint16_t *got, int64_t batch, int64_t rows,
                         int64_t n, int64_t width, const struct sums *expected, double floor)
{
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t d = 0; d < width; d++) {
                const uint16_t bits = got[(b * rows + i) * width + d];
                if (i >= n && bits == POISON)
                    continue;
                if (i >= n)
                    fail_msg("%s: row %lld of %lld was written", what, (long long)i, (long long)n);
                const int64_t at = (b * n + i) * width + d;
                const double value = sw_bf16_to_float(bits), wanted = expected->value[at];
                if (!(fabs(value - wanted) <= tolerance(expected->size[at], floor)))
                    fail_msg("%s: sequence %lld row %lld element %lld is %g, not %g; may differ by "
                             "%g",
                             what, (long long)b, (long long)i, (long long)d, value, wanted,
                             tolerance(expected->size[at], floor));
            }
}

/* Scores are sums of dim products in f32, exponentials are approximated. */
static void compare_lse(const struct reference *r, const float *got, bool heads_last)
{
    for (int64_t b = 0; b < r->batch; b++)
        for (int64_t h = 0; h < r->heads; h++)
            for (int64_t i = 0; i < r->n_q; i++) {
                const int64_t at =
                    heads_last ? (b * r->n_q + i) * r->heads + h : (b * r->heads + h) * r->n_q + i;
                const double wanted = r->lse[(b * r->heads + h) * r->n_q + i];
                if (!(fabs((double)got[at] - wanted) <=
                      ldexp(1 + fabs(wanted) + (double)r->dim * r->scale, -18)))
                    fail_msg("log-sum-exp of sequence %lld head %lld query %lld is %g, not %g",
                             (long long)b, (long long)h, (long long)i, (double)got[at], wanted);
            }
}

/* ---- Pieces ---- */

static struct sw_cudnn_attention *cudnn(void)
{
    return sw_cuda_cudnn((struct sw_cuda_device *)library);
}

static int64_t any_dim(void)
{
    return 8 * between(1, between(0, 1) == 0 ? LARGEST_DIM / 8 : LARGEST_DIM / 16 + 1);
}

static int64_t any_length(void)
{
    return between(0, 2) == 0 ? 8 * between(1, LONGEST / 8) : between(2, LONGEST);
}

static struct sw_cudnn_shape any_shape(bool causal, bool dense)
{
    const int64_t kv = between(1, 2), group = between(1, MOST_HEADS);
    struct sw_cudnn_shape s = {.batch = between(1, 2),
                               .heads = kv * group,
                               .kv_heads = kv,
                               .n_q = any_length(),
                               .n_k = any_length(),
                               .dim = (int32_t)any_dim(),
                               .causal = causal,
                               .dense_out = dense};
    if (causal)
        s.n_k = s.n_q;
    s.q_rows = s.n_q + between(0, 9);
    s.k_rows = s.n_k + between(0, 9);
    s.scale = (float)(1 / sqrt((double)s.dim));
    return s;
}

static void *prepared(const struct sw_cudnn_shape *s)
{
    char reason[SW_CUDNN_REASON_BYTES];
    const int64_t bytes = sw_cudnn_attention_prepare(cudnn(), s, reason);
    if (bytes < 0)
        fail_msg("no kernel for %lld x %lld/%lld heads of %d, %lld x %lld%s%s: %s",
                 (long long)s->batch, (long long)s->heads, (long long)s->kv_heads, (int)s->dim,
                 (long long)s->n_q, (long long)s->n_k, s->causal ? ", causal" : "",
                 s->backward ? ", backward" : "", reason);
    return poisoned(library, bytes);
}

static void queue(const struct sw_cudnn_shape *s, const struct sw_cudnn_pointers *p,
                  void *workspace)
{
    struct sw_error err = {0};
    if (sw_cudnn_attention_run(cudnn(), s, p, workspace, &err) != 0)
        fail_msg("%s", err.message);
}

static void finish(void)
{
    struct sw_error err = {0};
    if (library->vtable->synchronize(library, &err) != 0)
        fail_msg("%s", err.message);
}

static void piece_case(bool causal, bool dense)
{
    struct sw_cudnn_shape s = any_shape(causal, dense);
    const int64_t q_elems = s.batch * s.q_rows * s.heads * s.dim, rows = s.batch * s.heads * s.n_q;
    const int64_t k_elems = s.batch * s.k_rows * s.kv_heads * s.dim;
    struct operand q = operand(q_elems, false), k = operand(k_elems, false);
    struct operand v = operand(k_elems, false), d_o = operand(q_elems, false);
    struct operand o = operand(q_elems, true), dq = operand(q_elems, true);
    struct operand dk = operand(k_elems, true), dv = operand(k_elems, true);
    int64_t *q_position = zeroed(s.n_q, sizeof *q_position);
    int64_t *k_position = zeroed(s.n_k, sizeof *k_position);
    for (int64_t i = 0; i < s.n_q; i++)
        q_position[i] = causal ? i : s.n_k;
    for (int64_t j = 0; j < s.n_k; j++)
        k_position[j] = j;
    struct reference r = {
        s.batch, s.heads,         s.kv_heads, s.n_q,      s.n_k,  s.q_rows, s.k_rows,
        s.dim,   (double)s.scale, q_position, k_position, q.host, k.host,   v.host,
        o.host,  d_o.host,        NULL,       {0},        {0},    {0},      {0},
        0};
    reference_sums(&r);
    float *stats = device_floats(NULL, rows);
    struct sw_cudnn_pointers p = {
        .q = q.device, .k = k.device, .v = v.device, .o = o.device, .stats = stats};
    void *workspace = prepared(&s);
    queue(&s, &p, workspace);
    finish();
    each_row(&r, forward_row);
    fetch(&o);
    compare_rows("o", o.host, s.batch, dense ? s.n_q : s.q_rows, s.n_q, s.heads * s.dim, &r.out,
                 floor_of(&r));
    float *got = host_floats(stats, rows);
    compare_lse(&r, got, false);
    free(got);
    library->vtable->release(library, workspace);
    library->vtable->release(library, stats);

    /* as in a hop: o and the log-sum-exp are those of more keys than these */
    float *wider = zeroed(rows, sizeof *wider);
    for (int64_t i = 0; i < rows; i++)
        r.lse[i] = wider[i] = (float)(r.lse[i] + uniform());
    for (int64_t i = 0; i < q_elems; i++)
        o.host[i] = sw_bf16_from_float(2 * uniform() - 1);
    send(&o);
    s.backward = true;
    p = (struct sw_cudnn_pointers){
        q.device,   k.device,  v.device,  o.device, device_floats(wider, rows),
        d_o.device, dq.device, dk.device, dv.device};
    if (s.n_q > 1 || s.n_k > 1) {
        workspace = prepared(&s);
        queue(&s, &p, workspace);
        finish();
        each_row(&r, backward_row);
        fetch(&dq);
        fetch(&dk);
        fetch(&dv);
        compare_rows("dq", dq.host, s.batch, dense ? s.n_q : s.q_rows, s.n_q, s.heads * s.dim,
                     &r.dq, floor_of(&r));
        compare_rows("dk", dk.host, s.batch, dense ? s.n_k : s.k_rows, s.n_k, s.kv_heads * s.dim,
                     &r.dk, floor_of(&r) * (double)s.n_q);
        compare_rows("dv", dv.host, s.batch, dense ? s.n_k : s.k_rows, s.n_k, s.kv_heads * s.dim,
                     &r.dv, floor_of(&r) * (double)s.n_q);
        library->vtable->release(library, workspace);
    }
    library->vtable->release(library, p.stats);
    struct operand *all[] = {&q, &k, &v, &o, &d_o, &dq, &dk, &dv};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        drop(all[i]);
    free(wider);
    free(q_position);
    free(k_position);
    reference_free(&r);
}

static void test_pieces(void **unused)
{
    (void)unused;
    for (int64_t i = 0; i < rounds; i++)
        for (int kind = 0; kind < 4; kind++)
            piece_case(kind % 2 == 1, kind / 2 == 1);
}

/* ---- Whole ops ---- */

static int32_t notes;

static void count_note(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "note: %s\n", text);
    notes++;
}

static struct sw_tensor tensor(void *data, enum sw_dtype dtype, int64_t a, int64_t b, int64_t c)
{
    return (struct sw_tensor){.data = data,
                              .dtype = dtype,
                              .ndim = 3,
                              .size = {a, b, c},
                              .global = {a, b, c},
                              .elems = a * b * c};
}

/* The operands came through the library's stream, which another device's does not wait for. */
static void run_op(struct sw_device *device, struct sw_call *call, struct sw_op *op,
                   const struct sw_attention_workspace *layout)
{
    struct sw_error err = {0};
    op->workspace_bytes = layout->bytes;
    call->op = op;
    call->workspace = poisoned(device, layout->bytes);
    if (library->vtable->synchronize(library, &err) != 0 ||
        device->vtable->run[op->kind](device, call, &err) != 0 ||
        device->vtable->synchronize(device, &err) != 0)
        fail_msg("%s: %s", sw_op_info((enum sw_op_kind)op->kind)->name, err.message);
    device->vtable->release(device, call->workspace);
}

/* The queries of one rank, everyone's keys in storage order: rectangles and squares of many sizes,
 * or, with one shard, a single square. With a window the own kernels, on both devices. */
static void op_case(struct sw_device *device, int32_t shards, enum sw_sequence_layout layout,
                    int64_t window)
{
    const int64_t length = 2 * shards * between(2, LONGEST / (2 * shards)), sq = length / shards;
    const int64_t batch = between(1, 2), kv = between(1, 2), group = between(1, MOST_HEADS);
    const int64_t rank = between(0, shards - 1), heads = kv * group, dim = any_dim();
    const int64_t q_size[3] = {batch, sq, heads * dim}, k_size[3] = {batch, length, kv * dim};
    int64_t *q_position = zeroed(sq, sizeof *q_position);
    int64_t *k_position = zeroed(length, sizeof *k_position);
    struct operand q = operand(batch * sq * heads * dim, false), o = operand(q.elems, true);
    struct operand k = operand(batch * length * kv * dim, false), v = operand(k.elems, false);
    struct operand d_o = operand(q.elems, false), dq = operand(q.elems, true);
    struct operand dk = operand(k.elems, true), dv = operand(k.elems, true);
    struct sw_attention_workspace places[2];
    float *lse = device_floats(NULL, batch * sq * heads);
    for (int64_t i = 0; i < sq; i++)
        q_position[i] = sw_sequence_position(layout, length, shards, rank * sq + i);
    for (int64_t j = 0; j < length; j++)
        k_position[j] = sw_sequence_position(layout, length, shards, j);
    for (int backward = 0; backward < 2; backward++)
        sw_attention_workspace_layout(q_size, k_size, (int32_t)dim, SW_BF16_T, false, backward,
                                      &places[backward]);
    struct sw_op op = {.kind = SW_OP_ATTENTION,
                       .n_in = 3,
                       .n_out = 2,
                       .as.attention = {.scale = 1 / sqrt((double)dim),
                                        .head_dim = (int32_t)dim,
                                        .group = (int32_t)group,
                                        .window = window,
                                        .sequence_shards = shards,
                                        .sequence_layout = (int32_t)layout}};
    struct sw_tensor in[6], out[3];
    struct sw_call call = {.in = in, .out = out};
    in[0] = tensor(q.device, SW_BF16_T, batch, sq, heads * dim);
    in[0].global[1] = length;
    in[0].start[1] = rank * sq;
    in[1] = tensor(k.device, SW_BF16_T, batch, length, kv * dim);
    in[2] = tensor(v.device, SW_BF16_T, batch, length, kv * dim);
    out[0] = tensor(o.device, SW_BF16_T, batch, sq, heads * dim);
    out[1] = tensor(lse, SW_F32, batch, sq, heads);
    run_op(device, &call, &op, &places[0]);

    struct reference r = {batch,      heads,        kv,
                          sq,         length,       sq,
                          length,     (int32_t)dim, (double)(float)op.as.attention.scale,
                          q_position, k_position,   q.host,
                          k.host,     v.host,       o.host,
                          d_o.host,   NULL,         {0},
                          {0},        {0},          {0},
                          window};
    reference_sums(&r);
    each_row(&r, forward_row);
    fetch(&o);
    compare_rows("o of an op", o.host, batch, sq, sq, heads * dim, &r.out, floor_of(&r));
    float *got = host_floats(lse, batch * sq * heads);
    compare_lse(&r, got, true);

    op.kind = SW_OP_ATTENTION_GRAD;
    op.n_in = 6;
    op.n_out = 3;
    in[3] = out[0];
    in[4] = out[1];
    in[5] = tensor(d_o.device, SW_BF16_T, batch, sq, heads * dim);
    out[0] = tensor(dq.device, SW_BF16_T, batch, sq, heads * dim);
    out[1] = tensor(dk.device, SW_BF16_T, batch, length, kv * dim);
    out[2] = tensor(dv.device, SW_BF16_T, batch, length, kv * dim);
    run_op(device, &call, &op, &places[1]);
    for (int64_t b = 0; b < batch; b++) /* what forward really gave */
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < sq; i++)
                r.lse[(b * heads + h) * sq + i] = (double)got[(b * sq + i) * heads + h];
    each_row(&r, backward_row);
    fetch(&dq);
    fetch(&dk);
    fetch(&dv);
    compare_rows("dq of an op", dq.host, batch, sq, sq, heads * dim, &r.dq, floor_of(&r));
    compare_rows("dk of an op", dk.host, batch, length, length, kv * dim, &r.dk,
                 floor_of(&r) * (double)sq);
    compare_rows("dv of an op", dv.host, batch, length, length, kv * dim, &r.dv,
                 floor_of(&r) * (double)sq);
    library->vtable->release(library, lse);
    struct operand *all[] = {&q, &k, &v, &o, &d_o, &dq, &dk, &dv};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        drop(all[i]);
    free(got);
    free(q_position);
    free(k_position);
    reference_free(&r);
}

static void test_ops(void **unused)
{
    (void)unused;
    notes = 0;
    sw_cuda_device_on_note(library, count_note, NULL);
    for (int64_t i = 0; i < rounds; i++)
        for (int which = 0; which < 2; which++) {
            struct sw_device *device = which == 0 ? library : own;
            op_case(device, 1, SW_CONTIGUOUS, 0);
            op_case(device, 2, SW_ZIGZAG, 0);
            op_case(device, 3, SW_CONTIGUOUS, 0);
            op_case(device, 4, SW_ZIGZAG, 0);
            op_case(device, between(1, 2), SW_ZIGZAG, between(1, 3));
        }
    sw_cuda_device_on_note(library, NULL, NULL);
    assert_int_equal(notes, 0); /* nothing was left to the own kernels */
}

#ifdef SW_EMULATED
/* A GPU whose blocks have less shared memory than the own kernels take is told so; cuDNN's would do
 * there. */
static void test_little_shared_memory(void **unused)
{
    (void)unused;
    enum { DIM = 128, ROWS = 4 };
    struct sw_error err = {0};
    sw_emulated_shared_limit(99 << 10);
    struct sw_device *small = sw_cuda_device_create(0, &err);
    sw_emulated_shared_limit(0);
    assert_non_null(small);
    sw_cuda_device_own_attention(small);
    struct sw_tensor in[6], out[3];
    struct sw_op op = {.kind = SW_OP_ATTENTION_GRAD,
                       .n_in = 6,
                       .n_out = 3,
                       .workspace_bytes = 1 << 20,
                       .as.attention = {.scale = 1,
                                        .head_dim = DIM,
                                        .group = 1,
                                        .sequence_shards = 1,
                                        .sequence_layout = SW_CONTIGUOUS}};
    void *memory = small->vtable->allocate(small, 1 << 20);
    for (int i = 0; i < 6; i++)
        in[i] = tensor(memory, SW_BF16_T, 1, ROWS, DIM);
    in[4] = tensor(memory, SW_F32, 1, ROWS, 1);
    for (int i = 0; i < 3; i++)
        out[i] = tensor(memory, SW_BF16_T, 1, ROWS, DIM);
    const struct sw_call call = {.op = &op, .in = in, .out = out, .workspace = memory};
    assert_int_equal(small->vtable->run[op.kind](small, &call, &err), -1);
    assert_int_equal(err.status, SW_UNMET);
    assert_string_equal(
        err.message, "attention_grad: heads of 128 take 107 KB of a block's shared memory without "
                     "cuDNN, this GPU gives 101; compute in bf16 where cuDNN is installed, or use "
                     "another GPU");
    small->vtable->release(small, memory);
    small->vtable->destroy(small);
}
#endif

/* A head size that cuDNN has nothing for is said once, and done by the own kernels. */
static void test_refused(void **unused)
{
    (void)unused;
    struct sw_cudnn_shape s = any_shape(true, false);
    char reason[SW_CUDNN_REASON_BYTES];
    s.dim = 6;
    assert_int_equal(sw_cudnn_attention_prepare(cudnn(), &s, reason), -1);
    assert_true(strlen(reason) > 0);
    assert_int_equal(sw_cudnn_attention_prepare(cudnn(), &s, reason), -1);
    assert_string_equal(reason, "");
    assert_int_equal(sw_cudnn_attention_prepare(cudnn(), &s, NULL), -1);
}

/* What is recorded gives the same again. */
static void test_recording(void **unused)
{
    (void)unused;
    struct sw_cudnn_shape s = any_shape(true, false);
    struct sw_error err = {0};
    struct sw_recording *recording = NULL;
    const int64_t q_elems = s.batch * s.q_rows * s.heads * s.dim, rows = s.batch * s.heads * s.n_q;
    const int64_t k_elems = s.batch * s.k_rows * s.kv_heads * s.dim;
    struct operand q = operand(q_elems, false), k = operand(k_elems, false);
    struct operand v = operand(k_elems, false), o = operand(q_elems, true);
    float *stats = device_floats(NULL, rows);
    const struct sw_cudnn_pointers p = {
        .q = q.device, .k = k.device, .v = v.device, .o = o.device, .stats = stats};
    void *workspace = prepared(&s);
    queue(&s, &p, workspace);
    fetch(&o);
    uint16_t *first = o.host;
    o.host = zeroed(q_elems, 2);
    for (int64_t i = 0; i < q_elems; i++)
        o.host[i] = POISON;
    assert_int_equal(library->vtable->record_begin(library, &err), 0);
    queue(&s, &p, workspace);
    assert_int_equal(library->vtable->record_end(library, &recording, &err), 0);
    send(&o);
    assert_int_equal(library->vtable->replay(library, recording, &err), 0);
    fetch(&o);
    assert_memory_equal(o.host, first, (size_t)q_elems * 2);
    library->vtable->recording_free(library, recording);
    library->vtable->release(library, workspace);
    library->vtable->release(library, stats);
    struct operand *all[] = {&q, &k, &v, &o};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        drop(all[i]);
    free(first);
}

int main(int argc, char **argv)
{
    struct sw_error err = {0};
    char text[256];
    if (argc > 1)
        rounds = strtoll(argv[1], NULL, 10);
    if (argc > 2)
        state = strtoull(argv[2], NULL, 10) * 2 + 1;
    if (sw_cuda_device_count(&err) < 1) {
        printf("SKIP: no GPU: %s\n", err.message);
        return 77;
    }
    library = sw_cuda_device_create(0, &err);
    own = sw_cuda_device_create(0, &err);
    if (library == NULL || own == NULL) {
        fprintf(stderr, "test_cudnn_attention: %s\n", err.message);
        return 1;
    }
    sw_cuda_device_own_attention(own);
    printf("attention: %s\n", sw_cuda_device_attention(library, text, sizeof text));
    if (cudnn() == NULL) {
        printf("SKIP: no cuDNN\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_ops),
#ifdef SW_EMULATED
        cmocka_unit_test(test_little_shared_memory),
#endif
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_recording),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    own->vtable->destroy(own);
    library->vtable->destroy(library);
    return failed;
}
