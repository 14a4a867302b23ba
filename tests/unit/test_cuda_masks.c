/* Attention of the CUDA device with windows, segments, softcaps and sinks, forward and backward,
 * against a reference in f64: one rank, its queries with everyone's keys, and rings of 2 and 4 in
 * both layouts. On a GPU where there is one; test_cuda_masks_emulated runs the same kernels on the
 * CPU (cuda_emulator.h). ROUNDS and SEED draw other cases. */
#include "tests/unit/cuda_ops_support.h"
#include "runner/device/ring.h"

/* Segments of a case: none; documents of drawn lengths; of one token; any of three for each token;
 * those of queries drawn apart from those of keys, so that some meet nothing. */
enum kind { NO_SEGMENTS, DOCUMENTS, SINGLE_TOKENS, ANY_OF_THREE, APART, KINDS };

enum { Q, K, V, D_O, OPERANDS_OF_ROWS };

struct masked {
    int64_t batch, length, kv_heads, group, dim, window;
    double scale, softcap;
    int32_t ranks;
    enum sw_sequence_layout layout;
    bool ring, sink, bf16_hops; /* ring: else each rank has everyone's keys */
    enum kind segments;
    enum sw_dtype dtype, sink_dtype;
    /* in storage order: [batch, length, heads * dim], [batch, length], [length]; [heads] */
    float *rows[OPERANDS_OF_ROWS], *sinks;
    int32_t *q_segments, *k_segments;
    int64_t *position;
    /* expected, and the sum of the sizes of the terms of d_sink; largest size of a pair's term in
     * dq or dk, whose parts may cancel each other */
    double pair_size;
    double *o, *lse, *dq, *dk, *dv, *d_sink, *d_sink_size;
    double *got_dk, *got_dv, *got_d_sink; /* of all ranks */
};

static int64_t heads_of(const struct masked *m)
{
    return m->kv_heads * m->group;
}

static int64_t width_of(const struct masked *m, int which)
{
    return (which == Q || which == D_O ? heads_of(m) : m->kv_heads) * m->dim;
}

static void *zeroed(int64_t count, size_t bytes)
{
    void *memory = calloc((size_t)count + 1, bytes);
    assert_non_null(memory);
    return memory;
}

static float rounded(double value)
{
    return sw_bf16_to_float(sw_bf16_from_float((float)value));
}

/* ---- The reference ---- */

static bool sees(const struct masked *m, int64_t b, int64_t i, int64_t j)
{
    const int64_t behind = m->position[i] - m->position[j];
    return behind >= 0 && (m->window == 0 || behind < m->window) &&
           (m->segments == NO_SEGMENTS ||
            m->q_segments[b * m->length + i] == m->k_segments[b * m->length + j]);
}

static const float *row_at(const struct masked *m, int which, int64_t b, int64_t i, int64_t h)
{
    const int64_t head = which == Q || which == D_O ? h : h / m->group;
    return m->rows[which] + (b * m->length + i) * width_of(m, which) + head * m->dim;
}

static double dot(const struct masked *m, const float *a, const float *b)
{
    double sum = 0;
    for (int64_t d = 0; d < m->dim; d++)
        sum += (double)a[d] * (double)b[d];
    return sum;
}

static double score(const struct masked *m, int64_t b, int64_t h, int64_t i, int64_t j,
                    double *slope)
{
    const double s = m->scale * dot(m, row_at(m, Q, b, i, h), row_at(m, K, b, j, h));
    const double capped = m->softcap > 0 ? tanh(s / m->softcap) : 0;
    *slope = 1 - capped * capped;
    return m->softcap > 0 ? m->softcap * capped : s;
}

static void forward_row(struct masked *m, int64_t b, int64_t h, int64_t i)
{
    const int64_t row = (b * m->length + i) * heads_of(m) + h;
    double most = m->sink ? (double)m->sinks[h] : -INFINITY, slope;
    for (int64_t j = 0; j < m->length; j++)
        if (sees(m, b, i, j))
            most = fmax(most, score(m, b, h, i, j, &slope));
    double sum = m->sink ? exp((double)m->sinks[h] - most) : 0;
    for (int64_t j = 0; j < m->length; j++)
        if (sees(m, b, i, j))
            sum += exp(score(m, b, h, i, j, &slope) - most);
    m->lse[row] = sum > 0 ? most + log(sum) : 1e30;
    for (int64_t j = 0; j < m->length; j++) {
        if (!sees(m, b, i, j))
            continue;
        const double p = exp(score(m, b, h, i, j, &slope) - m->lse[row]);
        for (int64_t d = 0; d < m->dim; d++)
            m->o[row * m->dim + d] += p * (double)row_at(m, V, b, j, h)[d];
    }
}

static void backward_row(struct masked *m, int64_t b, int64_t h, int64_t i)
{
    const int64_t row = (b * m->length + i) * heads_of(m) + h;
    const float *q = row_at(m, Q, b, i, h), *d_o = row_at(m, D_O, b, i, h);
    double delta = 0, size = 0, slope;
    for (int64_t d = 0; d < m->dim; d++) {
        delta += m->o[row * m->dim + d] * (double)d_o[d];
        size += fabs(m->o[row * m->dim + d] * (double)d_o[d]);
    }
    if (m->sink) {
        m->d_sink[h] -= exp((double)m->sinks[h] - m->lse[row]) * delta;
        m->d_sink_size[h] += exp((double)m->sinks[h] - m->lse[row]) * size;
    }
    for (int64_t j = 0; j < m->length; j++) {
        if (!sees(m, b, i, j))
            continue;
        const double p = exp(score(m, b, h, i, j, &slope) - m->lse[row]);
        const double ds = p * (dot(m, d_o, row_at(m, V, b, j, h)) - delta) * slope * m->scale;
        m->pair_size = fmax(m->pair_size, p * size * slope * m->scale * 2);
        const int64_t to = ((b * m->length + j) * m->kv_heads + h / m->group) * m->dim;
        for (int64_t d = 0; d < m->dim; d++) {
            m->dq[row * m->dim + d] += ds * (double)row_at(m, K, b, j, h)[d];
            m->dk[to + d] += ds * (double)q[d];
            m->dv[to + d] += p * (double)d_o[d];
        }
    }
}

/* ---- Cases ---- */

static void draw_segments(struct masked *m)
{
    int32_t *of_position = zeroed(m->length, sizeof *of_position);
    m->q_segments = zeroed(m->batch * m->length, sizeof *m->q_segments);
    m->k_segments = zeroed(m->batch * m->length, sizeof *m->k_segments);
    for (int64_t b = 0; b < m->batch; b++) {
        for (int64_t p = 0, left = 0, document = 0; p < m->length; p++, left--) {
            if (left == 0) {
                left = m->segments == SINGLE_TOKENS ? 1 : between(1, 1 + m->length / 3);
                document++;
            }
            of_position[p] =
                (int32_t)(m->segments >= ANY_OF_THREE ? between(0, 2) : 7 - 3 * document);
        }
        for (int64_t i = 0; i < m->length; i++) {
            m->k_segments[b * m->length + i] = of_position[m->position[i]];
            m->q_segments[b * m->length + i] =
                m->segments == APART ? (int32_t)between(0, 3) : of_position[m->position[i]];
        }
    }
    free(of_position);
}

static void expect(struct masked *m)
{
    const int64_t q = m->batch * m->length * width_of(m, Q);
    const int64_t k = m->batch * m->length * width_of(m, K);
    double **const of_queries[] = {&m->o, &m->dq};
    double **const of_keys[] = {&m->dk, &m->dv, &m->got_dk, &m->got_dv};
    double **const of_heads[] = {&m->d_sink, &m->d_sink_size, &m->got_d_sink};
    for (int i = 0; i < 2; i++)
        *of_queries[i] = zeroed(q, sizeof(double));
    for (int i = 0; i < 4; i++)
        *of_keys[i] = zeroed(k, sizeof(double));
    for (int i = 0; i < 3; i++)
        *of_heads[i] = zeroed(heads_of(m), sizeof(double));
    m->lse = zeroed(m->batch * m->length * heads_of(m), sizeof(double));
    for (int backward = 0; backward < 2; backward++)
        for (int64_t b = 0; b < m->batch; b++)
            for (int64_t h = 0; h < heads_of(m); h++)
                for (int64_t i = 0; i < m->length; i++)
                    (backward ? backward_row : forward_row)(m, b, h, i);
}

/* Draws what the description leaves open: operands; with them what is expected. */
static void draw_operands(struct masked *m)
{
    m->scale = 1 / sqrt((double)m->dim);
    for (int which = 0; which < OPERANDS_OF_ROWS; which++) {
        const int64_t count = m->batch * m->length * width_of(m, which);
        m->rows[which] = zeroed(count, sizeof(float));
        for (int64_t i = 0; i < count; i++)
            m->rows[which][i] = rounded((2 * uniform() - 1) * (which == D_O ? 1 : 2));
    }
    m->sinks = zeroed(heads_of(m), sizeof(float));
    for (int64_t h = 0; h < heads_of(m); h++)
        m->sinks[h] = rounded(8 * uniform() - 4 + (double)(between(0, 3) == 0) * 2);
    m->position = zeroed(m->length, sizeof *m->position);
    for (int64_t i = 0; i < m->length; i++)
        m->position[i] = sw_sequence_position(m->layout, m->length, m->ranks, i);
    draw_segments(m);
    expect(m);
}

static void drop(struct masked *m)
{
    for (int which = 0; which < OPERANDS_OF_ROWS; which++)
        free(m->rows[which]);
    void *const all[] = {m->sinks,  m->q_segments, m->k_segments, m->position,   m->o,
                         m->lse,    m->dq,         m->dk,         m->dv,         m->d_sink,
                         m->got_dk, m->got_dv,     m->got_d_sink, m->d_sink_size};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* ---- A rank's calls ---- */

/* Rows of `which` from storage index `first` on into t [batch, n, width]. */
static void put_rows(const struct masked *m, int which, int64_t first, const struct sw_tensor *t)
{
    const int64_t width = width_of(m, which), rows = t->size[1];
    for (int64_t i = 0; i < t->elems; i++)
        put(t, i,
            m->rows[which]
                   [(i / width / rows * m->length + first + i / width % rows) * width + i % width]);
}

static void add_rows(const struct masked *m, struct both *b, int which, int64_t first, int64_t n)
{
    const int64_t size[3] = {m->batch, n, width_of(m, which)};
    struct sw_tensor *t = add_in(b, m->dtype, 3, size, 1);
    put_rows(m, which, first, t);
    t->global[1] = m->length;
    t->start[1] = first;
}

/* Behind the usual operands. */
static void add_mask(const struct masked *m, struct both *b, int64_t first, int64_t n)
{
    const int64_t heads = heads_of(m);
    for (int of_keys = 0; of_keys < 2 && m->segments != NO_SEGMENTS; of_keys++) {
        const int64_t rows = of_keys ? m->length : n, size[2] = {m->batch, rows};
        const int32_t *from = of_keys ? m->k_segments : m->q_segments;
        struct sw_tensor *t = add_integers(b, 2, size, 0, 0);
        for (int64_t i = 0; i < t->elems; i++) { /* keys': by position */
            const int64_t row = i / rows, token = i % rows;
            const int64_t to = of_keys ? row * rows + m->position[token] : i;
            ((int32_t *)t->data)[to] = from[row * m->length + (of_keys ? 0 : first) + token];
        }
    }
    if (m->sink) {
        struct sw_tensor *t = add_in(b, m->sink_dtype, 1, &heads, 1);
        for (int64_t h = 0; h < heads; h++)
            put(t, h, m->sinks[h]);
    }
}

/* Other ranks of a ring: keys and values that arrive are those of the case, sums of their gradients
 * zeros; what leaves is added to the case's. */
struct others {
    struct masked *m;
    struct both *b;
    struct sw_ring ring;
    struct sw_attention_workspace layout;
    int32_t keys, sums; /* messages so far */
};

static void receive_keys(struct others *x, void *receive, size_t bytes)
{
    const struct masked *m = x->m;
    const int64_t sk = m->length / m->ranks, size[3] = {m->batch, sk, width_of(m, K)};
    const int32_t owner = sw_ring_step(&x->ring, &x->layout, ++x->keys).owner;
    struct sw_tensor t = shaped(m->bf16_hops ? SW_BF16_T : m->dtype, 3, size);
    char *block = zeroed((int64_t)bytes, 1);
    for (int i = 0; i < 2; i++) {
        t.data = block + (size_t)i * bytes_of(&t);
        put_rows(m, K + i, owner * sk, &t);
    }
    assert_int_equal(2 * bytes_of(&t), bytes);
    assert_int_equal(cuda->vtable->copy_in(cuda, receive, block, bytes), 0);
    free(block);
}

static void take_sums(struct others *x, const void *send, void *receive, size_t bytes)
{
    struct masked *m = x->m;
    const int64_t sk = m->length / m->ranks, width = width_of(m, K), each = m->batch * sk * width;
    const int32_t owner = sw_ring_step(&x->ring, &x->layout, x->sums++).owner;
    void *block = zeroed((int64_t)bytes, 1);
    assert_int_equal(cuda->vtable->copy_out(cuda, block, send, bytes), 0);
    for (int64_t i = 0; i < 2 * each; i++) {
        const int64_t row = i % each / width;
        (i < each
             ? m->got_dk
             : m->got_dv)[(row / sk * m->length + owner * sk + row % sk) * width + i % width] +=
            get(m->bf16_hops ? SW_BF16_T : SW_F32, block, i);
    }
    memset(block, 0, bytes);
    assert_int_equal(cuda->vtable->copy_in(cuda, receive, block, bytes), 0);
    free(block);
}

static int start(void *context, int32_t to, int32_t from, const void *send, void *receive,
                 size_t bytes, struct sw_error *err)
{
    struct others *x = context;
    (void)to, (void)from, (void)err;
    if (x->b->op.kind == SW_OP_ATTENTION_GRAD &&
        receive == (char *)x->b->workspace + x->layout.cotangent[1])
        take_sums(x, send, receive, bytes);
    else
        receive_keys(x, receive, bytes);
    return 0;
}

static int wait(void *context, struct sw_error *err)
{
    (void)context, (void)err;
    return 0;
}

static void run(struct masked *m, struct both *b, int32_t rank)
{
    const bool backward = b->op.kind == SW_OP_ATTENTION_GRAD;
    struct others x = {.m = m, .b = b};
    b->op.axes.count = m->ring;
    x.ring = (struct sw_ring){.index = rank,
                              .size = m->ranks,
                              .inner = m->ranks,
                              .context = &x,
                              .start = start,
                              .wait = wait};
    b->call.ring = &x.ring;
    sw_attention_workspace_layout(b->in[0].size, b->in[1].size, (int32_t)m->dim, m->dtype,
                                  sw_attention_hops(&b->op, m->ring ? m->ranks : 1), backward,
                                  &x.layout);
    run_on_cuda(b, (size_t)x.layout.bytes, NULL);
    compared[b->op.kind] = true;
}

static struct both describe(const struct masked *m, enum sw_op_kind kind, int64_t first, int64_t n)
{
    struct both b = begin(kind, 0);
    b.op.as.attention = (struct sw_attention_attributes){.scale = m->scale,
                                                         .head_dim = (int32_t)m->dim,
                                                         .group = (int32_t)m->group,
                                                         .sink = m->sink,
                                                         .window = m->window,
                                                         .softcap = m->softcap,
                                                         .segments = m->segments != NO_SEGMENTS,
                                                         .sequence_shards = m->ranks,
                                                         .sequence_layout = (int32_t)m->layout,
                                                         .bf16_hops = m->bf16_hops};
    add_rows(m, &b, Q, first, n);
    for (int which = K; which <= V; which++)
        add_rows(m, &b, which, m->ring ? first : 0, m->ring ? n : m->length);
    return b;
}

/* ---- Comparing ---- */

static void fail_case(const struct masked *m, const char *what, int64_t at, double got,
                      double wanted)
{
    fail_msg("%s at %lld is %g, not %g: %lld x %lld, heads %lld x %lld of %lld, %d %s%s ranks, "
             "window %lld, softcap %g, segments %d, sink %d, %s",
             what, (long long)at, got, wanted, (long long)m->batch, (long long)m->length,
             (long long)m->kv_heads, (long long)m->group, (long long)m->dim, (int)m->ranks,
             m->layout == SW_ZIGZAG ? "zigzag" : "contiguous", m->ring ? " ring's" : "",
             (long long)m->window, m->softcap, (int)m->segments, (int)m->sink,
             sw_dtype_name(m->dtype));
}

/* As compare() has it, of the largest element of all ranks, and what else rounding may leave. */
static void compare_all(const struct masked *m, const char *what, const double *got,
                        const double *wanted, int64_t count, double tolerance, double rest)
{
    double largest = 1e-30;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(wanted[i]));
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - wanted[i]) <= tolerance * largest + rest))
            fail_case(m, what, i, got[i], wanted[i]);
}

/* Result i of a rank, [batch, n, width], as [batch, length, width] of doubles. */
static void gather(const struct masked *m, const struct both *b, int i, int64_t first, double *to)
{
    const struct sw_tensor *t = &b->out[i];
    const int64_t width = t->size[2], n = t->size[1];
    void *got = fetched(b, i);
    for (int64_t e = 0; e < t->elems; e++)
        to[(e / width / n * m->length + first + e / width % n) * width + e % width] +=
            get(t->dtype, got, e);
    free(got);
}

/* An empty row's is above every score; any that is makes probabilities 0. */
static void compare_lse(const struct masked *m, const double *got)
{
    for (int64_t i = 0; i < m->batch * m->length * heads_of(m); i++)
        if (m->lse[i] > 1e29 ? got[i] < 1e29
                             : !(fabs(got[i] - m->lse[i]) <= 2e-5 * (1 + fabs(m->lse[i]))))
            fail_case(m, "lse", i, got[i], m->lse[i]);
}

/* What travels in bf16 changes nothing of operands that are bf16's; sums of gradients are rounded
 * with each hop, one here. */
static double tolerance_of_case(const struct masked *m)
{
    return m->bf16_hops ? tolerance_of(SW_BF16_T) : tolerance_of(m->dtype);
}

static void run_case(struct masked *m)
{
    const int64_t n = m->length / m->ranks, heads = heads_of(m);
    const int64_t q_elems = m->batch * m->length * heads * m->dim;
    const int64_t k_elems = m->batch * m->length * width_of(m, K);
    const int64_t q[3] = {m->batch, n, heads * m->dim}, lse[3] = {m->batch, n, heads};
    double *o = zeroed(q_elems, sizeof *o), *dq = zeroed(q_elems, sizeof *dq);
    double *stats = zeroed(q_elems, sizeof *stats);
    draw_operands(m);
    for (int32_t rank = 0; rank < m->ranks; rank++) {
        struct both b = describe(m, SW_OP_ATTENTION, rank * n, n);
        add_mask(m, &b, rank * n, n);
        add_out(&b, m->dtype, 3, q);
        add_out(&b, SW_F32, 3, lse);
        run(m, &b, rank);
        gather(m, &b, 0, rank * n, o);
        gather(m, &b, 1, rank * n, stats);

        struct both g = describe(m, SW_OP_ATTENTION_GRAD, rank * n, n);
        for (int i = 0; i < 2; i++) { /* what forward gave */
            struct sw_tensor *t = add_in(&g, b.out[i].dtype, 3, b.out[i].size, 1);
            void *got = fetched(&b, i);
            memcpy(t->data, got, bytes_of(t));
            free(got);
        }
        add_rows(m, &g, D_O, rank * n, n);
        add_mask(m, &g, rank * n, n);
        add_out(&g, m->dtype, 3, q);
        add_out(&g, m->dtype, 3, g.in[1].size);
        add_out(&g, m->dtype, 3, g.in[1].size);
        if (m->sink)
            add_out(&g, m->sink_dtype, 1, &heads);
        run(m, &g, rank);
        gather(m, &g, 0, rank * n, dq);
        for (int i = 1; i < 3 && !m->ring; i++) /* of all keys; of a ring they left */
            gather(m, &g, i, 0, i == 1 ? m->got_dk : m->got_dv);
        void *d_sink = m->sink ? fetched(&g, 3) : NULL;
        for (int64_t h = 0; m->sink && h < heads; h++)
            m->got_d_sink[h] += get(m->sink_dtype, d_sink, h);
        free(d_sink);
        end(&b);
        end(&g);
    }
    const double forward = tolerance_of_case(m), backward = 4 * forward;
    const double rest = m->pair_size * (m->dtype == SW_F32 && !m->bf16_hops ? 0x1p-20 : 0x1p-8);
    compare_all(m, "o", o, m->o, q_elems, forward, 0);
    compare_lse(m, stats);
    compare_all(m, "dq", dq, m->dq, q_elems, backward, rest);
    compare_all(m, "dk", m->got_dk, m->dk, k_elems, backward, rest);
    compare_all(m, "dv", m->got_dv, m->dv, k_elems, backward, 0);
    for (int64_t h = 0; m->sink && h < heads; h++)
        if (!(fabs(m->got_d_sink[h] - m->d_sink[h]) <=
              (m->sink_dtype == SW_BF16_T ? tolerance_of(SW_BF16_T) : forward) * m->d_sink_size[h]))
            fail_case(m, "dsink", h, m->got_d_sink[h], m->d_sink[h]);
    free(o);
    free(dq);
    free(stats);
    drop(m);
}

static struct masked any_case(enum sw_dtype dtype, int32_t ranks, bool ring)
{
    const int64_t chunks = 2 * ranks;
    struct masked m = {.batch = between(1, 2),
                       .length = chunks * between(1, 160 / chunks),
                       .kv_heads = between(1, 2),
                       .group = between(1, 2),
                       .dim = between(0, 1) ? 20 : 2 * between(1, 12),
                       .ranks = ranks,
                       .layout = between(0, 1) ? SW_ZIGZAG : SW_CONTIGUOUS,
                       .ring = ring,
                       .sink = between(0, 1) == 1,
                       .bf16_hops = ring && between(0, 2) == 0,
                       .segments = (enum kind)between(0, KINDS - 1),
                       .dtype = dtype,
                       .sink_dtype = between(0, 1) ? SW_F32 : SW_BF16_T};
    const int64_t windows[] = {0, 1, 31, 32, 33, between(1, m.length), m.length, m.length + 5};
    m.window = windows[between(0, 7)];
    m.softcap = between(0, 1) ? 0.5 + 20 * uniform() * uniform() : 0;
    return m;
}

static void test_drawn(void **unused)
{
    (void)unused;
    FOR_EACH_CASE(dtype)
    {
        static const int32_t ranks[] = {1, 2, 3, 2, 4};
        for (int i = 0; i < 5; i++) {
            struct masked m = any_case(dtype, ranks[i], i >= 3);
            run_case(&m);
        }
    }
}

/* Each mask alone, on a ring of four and on one rank, over several tiles. */
static void test_each(void **unused)
{
    (void)unused;
    for (int i = 0; i < 8; i++) {
        const enum sw_dtype dtype = i % 2 ? SW_BF16_T : SW_F32;
        struct masked m = any_case(dtype, i / 2 % 2 ? 4 : 1, i / 2 % 2 == 1);
        m.batch = 1;
        m.length = 8 * (17 + i);
        m.layout = i % 2 ? SW_CONTIGUOUS : SW_ZIGZAG;
        m.window = i < 2 ? 1 : i < 4 ? 37 : i == 5 ? m.length : 0;
        m.softcap = i == 4 ? 1.5 : 0;
        m.sink = i == 6;
        m.segments = i == 5 ? APART : i == 7 ? SINGLE_TOKENS : NO_SEGMENTS;
        run_case(&m);
    }
}

/* Whole tiles that no query sees are not read: values that are NaN would show. */
static void test_tiles_are_skipped(void **unused)
{
    (void)unused;
    enum { LENGTH = 256, DIM = 8, WINDOW = 20, TILE = 32 };
    const int64_t size[3] = {1, LENGTH, DIM}, lse[3] = {1, LENGTH, 1};
    const int64_t all[2] = {1, LENGTH};
    for (int documents = 0; documents < 2; documents++) {
        struct both b = begin(SW_OP_ATTENTION, 0);
        b.op.as.attention = (struct sw_attention_attributes){.scale = 1,
                                                             .head_dim = DIM,
                                                             .group = 1,
                                                             .window = documents ? 0 : WINDOW,
                                                             .segments = documents == 1,
                                                             .sequence_shards = 1,
                                                             .sequence_layout = SW_CONTIGUOUS};
        for (int i = 0; i < 3; i++)
            add_in(&b, SW_F32, 3, size, 1);
        for (int i = 0; i < 2 && documents; i++) {
            struct sw_tensor *t = add_integers(&b, 2, all, 0, 0);
            for (int64_t p = 0; p < LENGTH; p++)
                ((int32_t *)t->data)[p] = p < LENGTH / 2;
        }
        for (int64_t i = 0; i < LENGTH / 4 * DIM; i++)
            put(&b.in[2], i, NAN);
        add_out(&b, SW_F32, 3, size);
        add_out(&b, SW_F32, 3, lse);
        run_on_cuda(&b, 0, NULL);
        float *o = fetched(&b, 0);
        const int64_t reach = documents ? LENGTH / 2 : (LENGTH / 4 + WINDOW + TILE) / TILE * TILE;
        for (int64_t i = reach * DIM; i < LENGTH * DIM; i++)
            assert_false(isnan(o[i]));
        assert_true(isnan(o[0]));
        free(o);
        end(&b);
    }
}

/* The device says of each what it takes. */
static void test_takes(void **unused)
{
    (void)unused;
    static const char *const names[] = {" window ", " softcap ", " sink ", " segments "};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_non_null(strstr(cuda->vtable->takes, names[i]));
}

static void test_errors(void **unused)
{
    (void)unused;
    for (int wrong = 0; wrong < 2; wrong++) {
        struct sw_error err = {0};
        struct masked m = any_case(SW_F32, 1, false);
        m.sink = true;
        m.segments = DOCUMENTS;
        m.length = 4;
        draw_operands(&m);
        struct both b = describe(&m, SW_OP_ATTENTION, 0, 4);
        add_mask(&m, &b, 0, 4);
        add_out(&b, SW_F32, 3, b.in[0].size);
        add_out(&b, SW_F32, 3, (const int64_t[]){m.batch, 4, heads_of(&m)});
        if (wrong == 0)
            b.in[4].dtype = SW_F32;
        else
            b.in[5].elems = 99;
        b.op.workspace_bytes = 0;
        const struct sw_call call = {.op = &b.op, .in = b.in, .out = b.out};
        assert_int_equal(cuda->vtable->run[SW_OP_ATTENTION](cuda, &call, &err), -1);
        assert_non_null(strstr(err.message, wrong == 0 ? "attention takes segments in i32, got i32"
                                                       : "got 99 in"));
        end(&b);
        drop(&m);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_tiles_are_skipped),
        cmocka_unit_test(test_takes),
        cmocka_unit_test(test_errors),
    };
    RUN_ON_BOTH_DEVICES(argc, argv, tests);
}
