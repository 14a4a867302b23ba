/* Attention over a cache with a window, a softcap and sinks, against plain loops in double: drawn
 * shapes, parts, precisions, single tokens and chunks. Usage: test_cached_masks [DRAWS [SEED]] */
#include "core/base/number.h"
#include "core/ir/op.h"
#include "core/ir/serving.h"
#include "runner/device/cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SLOTS = 3, MOST_PARTS = 3, TILE = 64 };

static int64_t draws = 60, seed = 1;

/* ---- Drawing ---- */

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static int64_t drawn(uint64_t *state, int64_t least, int64_t most)
{
    return least + (int64_t)(next(state) % (uint64_t)(most - least + 1));
}

static double uniform(uint64_t *state) /* of [-1, 1) */
{
    return (double)next(state) / 1073741824.0 - 1;
}

enum form { TOKENS, CHUNKS, WHOLE, FORMS };

/* A call and what it is of; positions of a slot lie in `parts` parts, `block` after `block`. */
struct draw {
    enum form form;
    enum sw_dtype queries, cache;
    int64_t dim, kv, group, parts, block, positions;
    int64_t kept; /* of the positions: a ring, or all */
    int64_t rows, seq;
    double scale, softcap;
    int64_t window;
    bool sink;
    int32_t *slots; /* [rows, SW_SLOT_FIELDS] */
};

/* Text of a slot goes on in the rows behind, or another slot's does; some rest. Of a ring a slot's
 * rows are one run. */
static void draw_slots(struct draw *d, bool ring, uint64_t *state)
{
    int64_t slot = drawn(state, 0, SLOTS - 1), first = drawn(state, 0, d->positions - 1);
    int64_t behind[SLOTS];
    for (int64_t s = 0; s < SLOTS; s++)
        behind[s] = drawn(state, 0, d->positions - 1);
    for (int64_t r = 0; r < d->rows; r++) {
        int32_t *to = d->slots + r * SW_SLOT_FIELDS;
        if (drawn(state, 0, 9) == 0 || first >= d->positions || d->form != TOKENS) {
            slot = d->form == WHOLE ? r % SLOTS : drawn(state, 0, SLOTS - 1);
            first = ring ? behind[slot] : drawn(state, 0, d->positions - 1);
        }
        if (first >= d->positions) { /* rests */
            to[SW_SLOT_NUMBER] = (int32_t)slot;
            continue;
        }
        const int64_t left = d->positions - first, tokens = left < d->seq ? left : d->seq;
        to[SW_SLOT_FIRST] = (int32_t)first;
        to[SW_SLOT_TOKENS] = drawn(state, 0, 14) == 0 ? 0 : (int32_t)tokens;
        to[SW_SLOT_NUMBER] = (int32_t)slot;
        first += d->seq;
        behind[slot] = first;
    }
}

/* The fewest positions that a ring may have, if these are not all. */
static void draw_ring(struct draw *d)
{
    int64_t most = 1;
    for (int64_t r = 0; r < d->rows; r++)
        for (int64_t o = 0; o < d->rows; o++) {
            const int32_t *a = d->slots + r * SW_SLOT_FIELDS, *b = d->slots + o * SW_SLOT_FIELDS;
            const int64_t run = b[SW_SLOT_FIRST] + b[SW_SLOT_TOKENS] - a[SW_SLOT_FIRST];
            if (a[SW_SLOT_TOKENS] > 0 && b[SW_SLOT_TOKENS] > 0 &&
                a[SW_SLOT_NUMBER] == b[SW_SLOT_NUMBER] && run > most)
                most = run;
        }
    const int64_t chunk = d->block * d->parts;
    const int64_t ring = (d->window - 1 + most + chunk - 1) / chunk * chunk;
    d->kept = ring < d->positions ? ring : d->positions;
}

static struct draw draw_call(uint64_t *state)
{
    static const struct {
        enum sw_dtype queries, cache;
    } types[] = {{SW_F64, SW_F64},    {SW_F32, SW_F32},      {SW_BF16_T, SW_BF16_T},
                 {SW_BF16_T, SW_F32}, {SW_F32, SW_I8},       {SW_BF16_T, SW_I8},
                 {SW_F64, SW_I8},     {SW_BF16_T, SW_BF16_T}};
    static const int64_t dims[] = {4, 10, 16, 64}, blocks[] = {1, 5, 24, 64, 100};
    struct draw d = {.form = (enum form)drawn(state, 0, FORMS - 1)};
    const int64_t type = drawn(state, 0, 7);
    d.queries = types[type].queries;
    d.cache = types[type].cache == SW_I8 && d.form == WHOLE ? d.queries : types[type].cache;
    d.dim = dims[drawn(state, 0, 3)];
    d.kv = drawn(state, 1, 3);
    d.group = drawn(state, 1, 4);
    d.parts = drawn(state, 1, MOST_PARTS);
    d.block = blocks[drawn(state, 0, 4)];
    d.positions = d.parts * d.block * (drawn(state, 30, 400) / (d.parts * d.block) + 1);
    d.rows = d.form == TOKENS ? drawn(state, 1, 40) : drawn(state, 1, 3);
    d.seq = d.form == TOKENS ? 1 : drawn(state, 2, 150);
    d.scale = 3 / sqrt((double)d.dim);
    d.softcap = drawn(state, 0, 1) ? 0.5 + drawn(state, 0, 8) * 0.5 : 0;
    d.window = drawn(state, 0, 4) == 0 ? 0 : drawn(state, 1, (int64_t)1 << drawn(state, 1, 9));
    d.sink = drawn(state, 0, 1) != 0;
    d.slots = calloc((size_t)(d.rows * SW_SLOT_FIELDS), sizeof *d.slots);
    assert_non_null(d.slots);
    const bool ring = d.window > 0 && drawn(state, 0, 1) != 0;
    if (ring) /* texts go round it, some of them twice */
        d.positions *= 2;
    draw_slots(&d, ring, state);
    d.kept = d.positions;
    if (ring)
        draw_ring(&d);
    return d;
}

/* ---- Tensors ---- */

static struct sw_tensor tensor(enum sw_dtype dtype, int64_t s0, int64_t s1, int64_t s2)
{
    struct sw_tensor t = {.dtype = dtype,
                          .ndim = 3,
                          .size = {s0, s1, s2, 1},
                          .global = {s0, s1, s2, 1},
                          .elems = s0 * s1 * s2};
    t.data = calloc((size_t)t.elems + 1, 8);
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
    else if (t->dtype == SW_BF16_T)
        ((uint16_t *)t->data)[i] = sw_bf16_from_float((float)value);
    else
        ((int8_t *)t->data)[i] = (int8_t)value;
}

/* Both halves of a cache [slots or rows, kept, kv dim], its parts one behind the other, and in
 * int8 the scales. */
struct halves {
    struct sw_tensor of[2], scales[2];
};

static int64_t place_of(const struct draw *d, int64_t position)
{
    const int64_t p = position % d->kept;
    return sw_cache_owner(p, d->block, d->parts) * (d->kept / d->parts) +
           sw_cache_index(p, d->block, d->parts);
}

static double cached(const struct draw *d, const struct halves *h, int half, int64_t slot,
                     int64_t position, int64_t head, int64_t i)
{
    const int64_t row = (slot * d->kept + place_of(d, position)) * d->kv + head;
    const double x = get(&h->of[half], row * d->dim + i);
    return d->cache == SW_I8 ? x * get(&h->scales[half], row) : x;
}

/* True if no tile that has this position has one that a row sees. */
static bool is_unseen(const struct draw *d, int64_t slot, int64_t position)
{
    for (int64_t r = 0; r < d->rows; r++) {
        const int32_t *row = d->slots + r * SW_SLOT_FIELDS;
        const int64_t first = row[SW_SLOT_FIRST], last = first + row[SW_SLOT_TOKENS] - 1;
        if (slot == (d->form == WHOLE ? r : row[SW_SLOT_NUMBER]) && row[SW_SLOT_TOKENS] > 0 &&
            position <= last && (d->window == 0 || position + TILE - 1 >= first - d->window + 1))
            return false;
    }
    return true;
}

/* NaN stands where nothing may be read. */
static void fill_caches(const struct draw *d, struct halves *h, uint64_t *state)
{
    const int64_t slots = d->form == WHOLE ? d->rows : SLOTS;
    for (int half = 0; half < 2; half++) {
        h->of[half] = tensor(d->cache, slots, d->kept, d->kv * d->dim);
        h->scales[half] = tensor(SW_F32, slots, d->kept, d->kv);
        for (int64_t i = 0; i < h->scales[half].elems; i++)
            set(&h->scales[half], i, (1.5 + uniform(state)) / 254);
        for (int64_t i = 0; i < h->of[half].elems; i++)
            set(&h->of[half], i,
                d->cache == SW_I8 ? nearbyint(uniform(state) * 127) : uniform(state));
    }
    for (int64_t slot = 0; slot < slots; slot++)
        for (int64_t p = 0; p < d->kept; p++) {
            bool unseen = true;
            for (int64_t same = p; same < d->positions; same += d->kept)
                unseen = unseen && is_unseen(d, slot, same);
            for (int half = 0; half < 2 && unseen; half++) {
                const int64_t row = slot * d->kept + place_of(d, p);
                for (int64_t i = 0; i < d->kv; i++)
                    set(&h->scales[half], row * d->kv + i, (double)NAN);
                for (int64_t i = 0; i < d->kv * d->dim && d->cache != SW_I8; i++)
                    set(&h->of[half], row * d->kv * d->dim + i, (double)NAN);
            }
        }
}

/* What a rank has of it. */
static struct sw_tensor part_of_cache(const struct draw *d, const struct sw_tensor *whole,
                                      int64_t part)
{
    const int64_t here = d->kept / d->parts, slots = whole->size[0], width = whole->size[2];
    const size_t bytes = (size_t)(here * width) * sw_dtype_bytes(whole->dtype);
    struct sw_tensor t = tensor(whole->dtype, slots, here, width);
    t.global[1] = d->kept;
    t.start[1] = part * here;
    for (int64_t s = 0; s < slots; s++)
        memcpy((char *)t.data + (size_t)s * bytes,
               (const char *)whole->data + ((size_t)(s * d->parts + part)) * bytes, bytes);
    return t;
}

/* ---- The op ---- */

static void run(struct sw_device *device, const struct sw_op *op, const struct sw_tensor *in,
                const struct sw_tensor *out)
{
    struct sw_error err = {0};
    const struct sw_call call = {.op = op, .in = in, .out = out, .batch_invariant = true};
    if (device->vtable->run[op->kind](device, &call, &err) != 0)
        fail_msg("%s: %s", sw_op_info((enum sw_op_kind)op->kind)->name, err.message);
}

static struct sw_op op_of(const struct draw *d)
{
    const bool whole = d->form == WHOLE;
    return (struct sw_op){.kind = SW_OP_ATTENTION,
                          .n_in = (uint16_t)(d->cache == SW_I8  ? 6
                                             : whole && d->sink ? 5
                                                                : 4),
                          .n_out = whole ? 1 : 2,
                          .as.attention = {.scale = d->scale,
                                           .head_dim = (int32_t)d->dim,
                                           .group = (int32_t)d->group,
                                           .window = d->window,
                                           .softcap = d->softcap,
                                           .sink = whole && d->sink,
                                           .keys = whole ? SW_KEYS_CACHE : SW_KEYS_CACHE_PART,
                                           .sequence_layout = -1,
                                           .chunk = (int32_t)(d->block * d->parts),
                                           .parts = whole ? (int32_t)d->parts : 0}};
}

static struct sw_tensor slots_of(const struct draw *d)
{
    return (struct sw_tensor){.data = d->slots,
                              .dtype = SW_I32,
                              .ndim = 2,
                              .size = {d->rows, SW_SLOT_FIELDS},
                              .global = {d->rows, SW_SLOT_FIELDS},
                              .elems = d->rows * SW_SLOT_FIELDS};
}

/* Each rank's part of the softmax, and what they become when merged: out [rows, seq, heads dim]. */
static void attend_in_parts(struct sw_device *device, const struct draw *d, const struct halves *h,
                            const struct sw_tensor *q, const struct sw_tensor *sinks,
                            const struct sw_tensor *out)
{
    const int64_t heads = d->kv * d->group;
    const struct sw_op op = op_of(d);
    struct sw_tensor parts[MOST_PARTS];
    struct sw_tensor all = tensor(out->dtype, d->rows, d->seq, 2 * heads * d->parts);
    all.ndim = 4;
    all.size[2] = 2 * heads;
    all.size[3] = d->parts;
    for (int64_t p = 0; p < d->parts; p++) {
        struct sw_tensor stats = tensor(out->dtype, d->rows, d->seq, 2 * heads);
        struct sw_tensor in[6] = {*q, {0}, {0}, slots_of(d)};
        for (int half = 0; half < 2; half++) {
            in[1 + half] = part_of_cache(d, &h->of[half], p);
            in[4 + half] = part_of_cache(d, &h->scales[half], p);
        }
        parts[p] = tensor(out->dtype, d->rows, d->seq, heads * d->dim);
        parts[p].start[3] = p;
        const struct sw_tensor results[2] = {parts[p], stats};
        run(device, &op, in, results);
        for (int64_t i = 0; i < stats.elems; i++)
            set(&all, i * d->parts + p, get(&stats, i));
        for (int i = 1; i < 6; i++)
            if (i != 3)
                free(in[i].data);
        free(stats.data);
    }
    const struct sw_op merge = {
        .kind = SW_OP_SOFTMAX_MERGE, .n_in = d->sink ? 3 : 2, .n_out = 1, .as.merge.sink = d->sink};
    const struct sw_tensor share = tensor(out->dtype, d->rows, d->seq, heads * d->dim);
    for (int64_t p = 0; p < d->parts; p++) {
        const struct sw_tensor in[3] = {parts[p], all, *sinks};
        run(device, &merge, in, &share);
        for (int64_t i = 0; i < out->elems; i++)
            set(out, i, get(&share, i) + (p > 0 ? get(out, i) : 0));
        free(parts[p].data);
    }
    free(share.data);
    free(all.data);
}

static void attend(struct sw_device *device, const struct draw *d, const struct halves *h,
                   const struct sw_tensor *q, const struct sw_tensor *sinks,
                   const struct sw_tensor *out)
{
    if (d->form != WHOLE) {
        attend_in_parts(device, d, h, q, sinks, out);
        return;
    }
    const struct sw_op op = op_of(d);
    const struct sw_tensor in[5] = {*q, h->of[0], h->of[1], slots_of(d), *sinks};
    run(device, &op, in, out);
}

/* ---- What it should be ---- */

/* A query's result [dim]; returns the largest score. */
static double attend_plainly(const struct draw *d, const struct halves *h,
                             const struct sw_tensor *q, const struct sw_tensor *sinks, int64_t row,
                             int64_t token, int64_t head, double *out)
{
    const int32_t *slot = d->slots + row * SW_SLOT_FIELDS;
    const int64_t from = d->form == WHOLE ? row : slot[SW_SLOT_NUMBER], kv = head / d->group;
    const int64_t at = slot[SW_SLOT_FIRST] + token, heads = d->kv * d->group;
    double most = d->sink ? get(sinks, head) : -INFINITY, sum = 0, largest = 0, *score;
    memset(out, 0, (size_t)d->dim * sizeof *out);
    if (token >= slot[SW_SLOT_TOKENS])
        return 0;
    score = calloc((size_t)at + 1, sizeof *score);
    assert_non_null(score);
    for (int64_t p = 0; p <= at; p++) {
        score[p] = -INFINITY;
        if (d->window > 0 && p <= at - d->window)
            continue;
        score[p] = 0;
        for (int64_t i = 0; i < d->dim; i++)
            score[p] += get(q, ((row * d->seq + token) * heads + head) * d->dim + i) *
                        cached(d, h, 0, from, p, kv, i) * d->scale;
        if (d->softcap > 0)
            score[p] = d->softcap * tanh(score[p] / d->softcap);
        most = fmax(most, score[p]);
        largest = fmax(largest, fabs(score[p]));
    }
    sum = d->sink ? exp(get(sinks, head) - most) : 0;
    for (int64_t p = 0; p <= at; p++)
        sum += exp(score[p] - most);
    for (int64_t p = 0; p <= at; p++)
        for (int64_t i = 0; i < d->dim && !isinf(score[p]); i++)
            out[i] += exp(score[p] - most) / sum * cached(d, h, 1, from, p, kv, i);
    free(score);
    return largest;
}

/* Values are within 1, so a result is off by what shares are, relatively: scores, of dim terms, by
 * (dim + 4) eps |score|, sums by a unit for each vector of keys and part. In bf16 shares and the
 * result are rounded besides, to 2^-9 each. */
static double tolerance_of(const struct draw *d, double largest)
{
    const double eps = d->queries == SW_F64 ? 0x1p-53 : 0x1p-24;
    const double terms = (double)(d->dim + 4) * (1 + 3 * largest) + (double)d->positions;
    const bool narrow = d->queries == SW_BF16_T && (d->cache == SW_BF16_T || d->form == WHOLE);
    return 4 * eps * terms + (narrow ? 0x1p-8 : 0);
}

static void print_draw(const struct draw *d, int64_t number)
{
    print_error(
        "draw %lld of seed %lld: form %d, types %d %d, dim %lld, kv %lld, group %lld, parts "
        "%lld, block %lld, positions %lld, kept %lld, rows %lld, seq %lld, softcap %g, window "
        "%lld, "
        "sink %d\n",
        (long long)number, (long long)seed, (int)d->form, (int)d->queries, (int)d->cache,
        (long long)d->dim, (long long)d->kv, (long long)d->group, (long long)d->parts,
        (long long)d->block, (long long)d->positions, (long long)d->kept, (long long)d->rows,
        (long long)d->seq, d->softcap, (long long)d->window, d->sink);
}

/* ---- Tests ---- */

static void compare(const struct draw *d, const struct halves *h, const struct sw_tensor *q,
                    const struct sw_tensor *sinks, const struct sw_tensor *out, int64_t number)
{
    const int64_t heads = d->kv * d->group;
    for (int64_t query = 0; query < d->rows * d->seq * heads; query++) {
        double wanted[64];
        const double largest = attend_plainly(d, h, q, sinks, query / heads / d->seq,
                                              query / heads % d->seq, query % heads, wanted);
        for (int64_t i = 0; i < d->dim; i++) {
            const double made = get(out, query * d->dim + i);
            if (fabs(made - wanted[i]) <= tolerance_of(d, largest))
                continue;
            print_draw(d, number);
            fail_msg("query %lld, element %lld is %.9g, not %.9g", (long long)query, (long long)i,
                     made, wanted[i]);
        }
    }
}

/* Each row, all others resting, has the bits that it has among them. */
static void compare_alone(struct sw_device *one, struct draw *d, const struct halves *h,
                          const struct sw_tensor *q, const struct sw_tensor *sinks,
                          const struct sw_tensor *out, int64_t number)
{
    const struct sw_tensor again = tensor(out->dtype, d->rows, d->seq, d->kv * d->group * d->dim);
    const size_t row = (size_t)(out->elems / d->rows) * sw_dtype_bytes(out->dtype);
    int32_t tokens[64];
    for (int64_t r = 0; r < d->rows; r++)
        tokens[r] = d->slots[r * SW_SLOT_FIELDS + SW_SLOT_TOKENS];
    for (int64_t r = number % 3; r < d->rows; r += 3) {
        for (int64_t other = 0; other < d->rows; other++)
            d->slots[other * SW_SLOT_FIELDS + SW_SLOT_TOKENS] = other == r ? tokens[r] : 0;
        attend(one, d, h, q, sinks, &again);
        if (memcmp((const char *)again.data + (size_t)r * row,
                   (const char *)out->data + (size_t)r * row, row) != 0) {
            print_draw(d, number);
            fail_msg("row %lld is another one alone", (long long)r);
        }
    }
    free(again.data);
}

static void masks_are_those_of_plain_loops(void **unused)
{
    (void)unused;
    struct sw_error err = {0};
    struct sw_device *one = sw_cpu_device_create(1, &err), *two = sw_cpu_device_create(2, &err);
    uint64_t state = (uint64_t)seed * 0x9e3779b97f4a7c15u;
    assert_true(one != NULL && two != NULL);
    for (int64_t n = 0; n < draws; n++) {
        struct draw d = draw_call(&state);
        const int64_t heads = d.kv * d.group;
        const enum sw_dtype wide = d.queries == SW_F64 ? SW_F64 : SW_F32;
        const struct sw_tensor q = tensor(d.queries, d.rows, d.seq, heads * d.dim);
        const struct sw_tensor sinks = tensor(d.queries, 1, 1, heads);
        const struct sw_tensor out =
            tensor(d.form == WHOLE ? d.queries : wide, d.rows, d.seq, heads * d.dim);
        struct halves caches;
        fill_caches(&d, &caches, &state);
        for (int64_t i = 0; i < q.elems; i++)
            set(&q, i, uniform(&state));
        for (int64_t i = 0; i < heads; i++)
            set(&sinks, i, 4 * uniform(&state));
        attend(two, &d, &caches, &q, &sinks, &out);
        compare(&d, &caches, &q, &sinks, &out, n);
        compare_alone(one, &d, &caches, &q, &sinks, &out, n);
        for (int half = 0; half < 2; half++) {
            free(caches.of[half].data);
            free(caches.scales[half].data);
        }
        free(q.data);
        free(sinks.data);
        free(out.data);
        free(d.slots);
    }
    one->vtable->destroy(one);
    two->vtable->destroy(two);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks_are_those_of_plain_loops)};
    if (argc > 1)
        draws = strtoll(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoll(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
