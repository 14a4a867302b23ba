/* Attention over a cache on the CUDA device against the CPU device: heads that share keys, heads of
 * odd sizes, slots that are empty, short and long, fp32, bf16 and int8, caches in parts; with
 * windows and softcaps against a reference in f64. On a GPU where there is one;
 * test_cuda_cached_emulated runs the same kernels on the CPU (cuda_emulator.h). ROUNDS and SEED
 * draw other shapes. */
#include "tests/unit/cuda_ops_support.h"

/* This rank has one slot more than there are rows, from FIRST_SLOT on;
 * row i has the slot behind it, nobody the first one. */
enum { FIRST_SLOT = 8 };

struct attention_case {
    int64_t kv_heads, group, dim, seq, chunk, rank, ranks, positions, batch;
    enum sw_dtype q, cache;
    int64_t window; /* 0: none, as the softcap */
    double softcap;
    int32_t slots[4][SW_SLOT_FIELDS]; /* of each row; its slot is made below */
};

/* The newest position that lies at a place of a row's slot: place and position modulo the cache's
 * positions, as a window allows. */
static int64_t position_at(const struct attention_case *c, const int32_t *slot, int64_t index)
{
    const int64_t first = sw_cache_position(index, c->rank, c->chunk / c->ranks, c->ranks);
    const int64_t all = c->positions * c->ranks, last = slot[0] + (slot[1] > 1 ? slot[1] - 1 : 0);
    return last < first ? first : first + (last - first) / all * all;
}

/* What no token of a slot may see becomes NaN, so that it shows where it is read; of a cache in
 * int8 its scales do. */
static void hide(struct sw_tensor *cache, const struct attention_case *c)
{
    static const int32_t nobody[SW_SLOT_FIELDS] = {0};
    const int64_t row = cache->size[2];
    if (cache->dtype == SW_I8)
        return;
    for (int64_t i = 0; i < cache->elems; i++) {
        const int64_t of_row = i / row / c->positions - 1;
        const int32_t *slot = of_row < 0 ? nobody : c->slots[of_row];
        const int64_t position = position_at(c, slot, i / row % c->positions);
        if (slot[1] > 0 && position < slot[0] + slot[1] &&
            (c->window == 0 || position > slot[0] - c->window))
            continue;
        put(cache, i, NAN);
    }
}

static struct both describe(const struct attention_case *c)
{
    const int64_t q[3] = {c->batch, c->seq, c->kv_heads * c->group * c->dim};
    const int64_t k[3] = {c->batch + 1, c->positions, c->kv_heads * c->dim};
    const int64_t out[4] = {c->batch, c->seq, q[2], 1};
    const int64_t stats[4] = {c->batch, c->seq, 2 * c->kv_heads * c->group, 1};
    const bool scaled = c->cache == SW_I8;
    struct both b = begin(SW_OP_ATTENTION, 0);
    b.op.as.attention = (struct sw_attention_attributes){.scale = 1 / sqrt((double)c->dim),
                                                         .head_dim = (int32_t)c->dim,
                                                         .group = (int32_t)c->group,
                                                         .window = c->window,
                                                         .softcap = c->softcap,
                                                         .chunk = (int32_t)c->chunk,
                                                         .keys = SW_KEYS_CACHE_PART,
                                                         .sequence_layout = -1};
    add_in(&b, c->q, 3, q, 2);
    for (int i = 0; i < 2; i++) {
        struct sw_tensor *cache = scaled ? add_int8(&b, 3, k) : add_in(&b, c->cache, 3, k, 2);
        in_parts(cache, c->rank, c->ranks);
        cache->start[0] = FIRST_SLOT;
        hide(cache, c);
    }
    struct sw_tensor *slots = add_slots(&b, c->batch, c->slots);
    for (int64_t i = 0; i < c->batch; i++)
        ((int32_t *)slots->data)[i * SW_SLOT_FIELDS + SW_SLOT_NUMBER] =
            (int32_t)(FIRST_SLOT + 1 + i);
    for (int i = 0; scaled && i < 2; i++) { /* of keys and values up to 2, as the others */
        const int64_t each[3] = {c->batch + 1, c->positions, c->kv_heads};
        struct sw_tensor *scales = add_scales(&b, 3, each, 0, 2.0 / 127);
        in_parts(scales, c->rank, c->ranks);
        hide(scales, c);
    }
    add_out(&b, SW_F32, 4, out);
    add_out(&b, SW_F32, 4, stats);
    return b;
}

/* Parts are as large as their maxima make them: compared are what they are of, o = sum(p v) /
 * sum(p) and log(sum of exponentials). Scores are sums of `dim` products up to 4 / sqrt(dim), in
 * another order: 2e-5 of the largest is above eps sqrt(dim) of them. On tensor cores, of queries in
 * bf16 unless the cache is in fp32, probabilities are rounded to bf16 before their product with the
 * values, by 2^-9 of each at most, and so the result, by 2^-9 of the largest value at most; their
 * sum is not. */
static void compare_attention(struct both *b, const struct attention_case *c)
{
    const double tolerance = 2e-5;
    const bool rounds = c->q == SW_BF16_T && c->cache != SW_F32;
    const double of_value = tolerance + (rounds ? 0x1p-9 : 0);
    const int64_t rows = c->batch * c->seq * c->kv_heads * c->group;
    float *out = fetched(b, 0), *stats = fetched(b, 1);
    const float *cpu_out = b->out[0].data, *cpu_stats = b->out[1].data;
    compared[b->op.kind] = true;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t heads = c->kv_heads * c->group, token = row / heads % c->seq;
        if (token >= c->slots[row / heads / c->seq][1]) { /* nobody's: no device may leave NaN */
            for (int64_t d = 0; d < c->dim; d++)
                assert_true(out[row * c->dim + d] == 0 && cpu_out[row * c->dim + d] == 0);
            assert_true(stats[2 * row] == -1e30f && stats[2 * row + 1] == 0);
            continue;
        }
        const double sum = (double)stats[2 * row + 1], cpu_sum = (double)cpu_stats[2 * row + 1];
        const bool seen = cpu_sum > 0;
        if (seen != (sum > 0) ||
            (seen && !(fabs((double)stats[2 * row] + log(sum) - (double)cpu_stats[2 * row] -
                            log(cpu_sum)) <= tolerance * 8)) ||
            (!seen && stats[2 * row] != cpu_stats[2 * row]))
            fail_msg("group %d, head_dim %d, row %d: maximum %g, sum %g; cpu %g, %g", (int)c->group,
                     (int)c->dim, (int)row, (double)stats[2 * row], sum, (double)cpu_stats[2 * row],
                     cpu_sum);
        for (int64_t d = 0; d < c->dim; d++) {
            const double got = (double)out[row * c->dim + d] / (seen ? sum : 1);
            const double wanted = (double)cpu_out[row * c->dim + d] / (seen ? cpu_sum : 1);
            if (!(fabs(got - wanted) <= of_value * 2)) /* values are up to 2 */
                fail_msg("group %d, head_dim %d, row %d, %d: %g, cpu %g", (int)c->group,
                         (int)c->dim, (int)row, (int)d, got, wanted);
        }
    }
    free(out);
    free(stats);
}

static size_t workspace_of(const struct attention_case *c)
{
    struct sw_decode_ranges ranges;
    sw_decode_ranges_of(c->batch, c->kv_heads * c->group, c->kv_heads, c->positions,
                        (int32_t)c->dim, &ranges);
    return c->seq == 1 ? (size_t)ranges.bytes : 0;
}

/* Element d of head h of a place of row r's slot, of keys or values (which: 1, 2). */
static double cached_at(const struct both *b, const struct attention_case *c, int which, int64_t r,
                        int64_t index, int64_t h, int64_t d)
{
    const struct sw_tensor *t = &b->in[which];
    const int64_t head = ((r + 1) * c->positions + index) * c->kv_heads + h / c->group;
    const double scale = t->dtype == SW_I8 ? get(SW_F32, b->in[which + 3].data, head) : 1;
    return get(t->dtype, t->data, head * c->dim + d) * scale;
}

/* Of row r's token at `position` and head h with a place; -INFINITY where it does not see it. */
static double score_of(const struct both *b, const struct attention_case *c, int64_t r,
                       int64_t token, int64_t h, int64_t index)
{
    const int64_t at = position_at(c, c->slots[r], index);
    const int64_t behind = c->slots[r][0] + token - at, heads = c->kv_heads * c->group;
    double sum = 0;
    if (behind < 0 || (c->window > 0 && behind >= c->window))
        return -INFINITY;
    for (int64_t d = 0; d < c->dim; d++)
        sum += get(c->q, b->in[0].data, ((r * c->seq + token) * heads + h) * c->dim + d) *
               cached_at(b, c, 1, r, index, h, d);
    sum *= b->op.as.attention.scale;
    return c->softcap > 0 ? c->softcap * tanh(sum / c->softcap) : sum;
}

/* In place of the CPU device's results. */
static void expect(struct both *b, const struct attention_case *c)
{
    const int64_t heads = c->kv_heads * c->group;
    double *scores = calloc((size_t)c->positions, sizeof *scores);
    assert_non_null(scores);
    for (int64_t row = 0; row < c->batch * c->seq * heads; row++) {
        const int64_t r = row / heads / c->seq, token = row / heads % c->seq, h = row % heads;
        const bool rests = token >= c->slots[r][1];
        float *out = (float *)b->out[0].data + row * c->dim;
        float *stats = (float *)b->out[1].data + 2 * row;
        double most = -1e30, sum = 0;
        for (int64_t i = 0; i < c->positions; i++) {
            scores[i] = rests ? -INFINITY : score_of(b, c, r, token, h, i);
            most = fmax(most, scores[i]);
        }
        for (int64_t i = 0; i < c->positions; i++)
            sum += scores[i] = exp(scores[i] - most);
        for (int64_t d = 0; d < c->dim; d++) {
            double value = 0;
            for (int64_t i = 0; i < c->positions; i++)
                value += scores[i] > 0 ? scores[i] * cached_at(b, c, 2, r, i, h, d) : 0;
            out[d] = (float)value;
        }
        stats[0] = (float)most;
        stats[1] = (float)sum;
    }
    free(scores);
}

/* planned: with room in the arena, as plans for a GPU have it. */
static void attend(const struct attention_case *c, bool planned)
{
    struct both b = describe(c);
    const size_t workspace = planned ? workspace_of(c) : 0;
    if (c->window > 0 || c->softcap > 0) {
        run_on_cuda(&b, workspace, NULL);
        expect(&b, c);
    } else {
        run_both(&b, workspace, NULL);
    }
    compare_attention(&b, c);
    end(&b);
}

/* The slots of one token: an empty one, and lengths at the ends of ranges, blocks and tiles. */
static void test_decode_attention(void **unused)
{
    (void)unused;
    static const int64_t groups[] = {1, 4, 8, 3, 11}, dims[] = {64, 128, 96, 20, 256, 6};
    enum { GROUPS = sizeof groups / sizeof *groups, DIMS = sizeof dims / sizeof *dims };
    FOR_EACH_CASE(dtype)
    {
        for (int64_t i = 0; i < GROUPS * DIMS; i++) {
            const bool whole = i / GROUPS == i % GROUPS; /* each group and size once */
            struct attention_case c = {.kv_heads = 1 + i % 2,
                                       .group = groups[i % GROUPS],
                                       .dim = dims[i / GROUPS],
                                       .seq = 1,
                                       .chunk = 32,
                                       .ranks = 1 + i % 3 / 2,
                                       .positions = whole ? 4128 : 288,
                                       .batch = 4,
                                       .q = dtype,
                                       .cache = i % 4 == 3 ? SW_F32 : dtype,
                                       .slots = {{0, 1}, {126, 1}, {0, 0}, {287, 1}}};
            c.rank = c.ranks - 1;
            if (whole)
                c.slots[3][0] = (int32_t)(4096 * c.ranks);
            if (i % 5 == 4)
                c.slots[1][0] = (int32_t)between(0, c.positions * c.ranks - 1);
            attend(&c, i % 2 == 0);
            c.cache = SW_I8;
            if (round_ == narrow_) /* once with each kind of queries */
                attend(&c, i % 2 == 1);
        }
    }
}

/* A chunk of each slot: none of it, some, all of it, with nothing before it and with much. */
static void test_chunk_attention(void **unused)
{
    (void)unused;
    static const int64_t groups[] = {1, 4, 8, 3}, dims[] = {64, 128, 96, 20, 256, 6};
    enum { GROUPS = sizeof groups / sizeof *groups, DIMS = sizeof dims / sizeof *dims };
    FOR_EACH_CASE(dtype)
    {
        for (int64_t i = 0; i < GROUPS * DIMS; i++) {
            const int64_t seq = i % GROUPS == 0 ? 70 : between(2, 40);
            struct attention_case c = {.kv_heads = 1 + i % 2,
                                       .group = groups[i % GROUPS],
                                       .dim = dims[i / GROUPS],
                                       .seq = seq,
                                       .chunk = 2 * seq,
                                       .ranks = 1 + i % 3 / 2,
                                       .positions = 6 * seq,
                                       .batch = 4,
                                       .q = dtype,
                                       .cache = i % 4 == 3 ? SW_F32 : dtype};
            c.rank = c.ranks - 1;
            c.slots[0][1] = (int32_t)seq;
            c.slots[1][0] = (int32_t)(4 * seq), c.slots[1][1] = (int32_t)seq;
            c.slots[3][0] = (int32_t)(2 * seq), c.slots[3][1] = (int32_t)between(1, seq);
            attend(&c, false);
            c.cache = SW_I8;
            if (round_ == narrow_)
                attend(&c, false);
        }
    }
}

/* Windows that end within tiles, ranges and blocks of positions and at their ends, of one token, no
 * shorter than the text, and with texts of several times the cache; softcaps. What is too old for
 * everyone is NaN (hide). */
static void test_masks(void **unused)
{
    (void)unused;
    static const int64_t windows[] = {0, 1, 2, 31, 32, 33, 63, 64, 65, 255, 256, 257, 300, 5000};
    static const int64_t dims[] = {64, 128, 96, 20, 256, 6};
    enum { WINDOWS = sizeof windows / sizeof *windows, DIMS = sizeof dims / sizeof *dims };
    FOR_EACH_CASE(dtype)
    {
        for (int64_t i = 0; i < 2 * DIMS; i++) {
            const bool decodes = i % 2 == 0;
            const int64_t seq = decodes ? 1 : between(2, 30), ranks = between(1, 2);
            const int64_t chunk = decodes ? 32 : 2 * seq;
            struct attention_case c = {.kv_heads = between(1, 2),
                                       .group = between(1, decodes ? 9 : 3),
                                       .dim = dims[i / 2],
                                       .seq = seq,
                                       .chunk = chunk,
                                       .rank = between(0, ranks - 1),
                                       .ranks = ranks,
                                       .positions = decodes ? 544 : chunk / ranks * 8,
                                       .batch = between(1, 3),
                                       .q = dtype,
                                       .cache = (enum sw_dtype[]){SW_F32, dtype, SW_I8}[i % 3],
                                       .window = windows[between(0, WINDOWS - 1)],
                                       .softcap = between(0, 1) ? 0 : 0.3 + 10 * uniform()};
            const int64_t all = c.positions * ranks;
            const bool wraps = between(0, 1) == 1;
            if (wraps)
                c.window = between(1, between(0, 1) ? seq : all - seq + 1);
            if (c.window == 0 && c.softcap == 0)
                c.window = between(1, c.positions * ranks);
            for (int64_t r = 0; r < c.batch; r++) {
                c.slots[r][1] = between(0, 4) == 0 ? 0 : (int32_t)between(1, seq);
                const int64_t latest = (wraps ? 4 : 1) * all - seq,
                              edge = c.window - between(-1, 2);
                c.slots[r][0] =
                    (int32_t)(!wraps && edge >= 0 && edge <= latest && between(0, 1)
                                  ? edge /* the first position is just hidden, or seen */
                                  : between(0, latest));
            }
            attend(&c, i % 4 < 2);
        }
    }
}

/* To the bit: what becomes of a slot depends neither on which it is nor on who is beside it. */
static void test_slots_are_alike(void **unused)
{
    (void)unused;
    for (int k = 0; k < 8; k++) {
        const int64_t seq = k % 2 ? 24 : 1;
        struct attention_case c = {.kv_heads = 2,
                                   .group = 4,
                                   .dim = 64,
                                   .seq = seq,
                                   .chunk = 24,
                                   .ranks = 1,
                                   .positions = 1200,
                                   .batch = 4,
                                   .q = SW_BF16_T,
                                   .cache = k / 2 % 2 ? SW_I8 : SW_BF16_T,
                                   .window = k < 4 ? 0 : 300,
                                   .slots = {{700, 1}, {3, 1}, {700, 1}, {1100, 1}}};
        for (int i = 0; i < 4; i++)
            c.slots[i][1] = (int32_t)seq;
        struct both b = describe(&c);
        for (int i = 0; i < b.op.n_in; i++) { /* slot 2 is as slot 0 */
            const size_t slot = bytes_of(&b.in[i]) / 4;
            memcpy((char *)b.in[i].data + 2 * slot, b.in[i].data, slot);
        }
        run_both(&b, workspace_of(&c), NULL);
        for (int i = 0; i < 2; i++) {
            float *got = fetched(&b, i);
            const size_t slot = (size_t)b.out[i].elems / 4;
            assert_memory_equal(got, got + 2 * slot, slot * sizeof *got);
            free(got);
        }
        end(&b);
    }
}

/* To the bit: what is said of a token does not depend on where its chunk begins. The same tokens in
 * one row, and from their `skipped`th on. */
static void test_chunks_are_alike(void **unused)
{
    (void)unused;
    static const enum sw_dtype kinds[][2] = {
        {SW_BF16_T, SW_BF16_T}, {SW_BF16_T, SW_I8}, {SW_F32, SW_F32}};
    static const int64_t skips[] = {1, 13, 16, 61}, dims[] = {64, 96};
    enum { SEQ = 70, FIRST = 37 };
    for (int k = 0; k < 2 * 3 * 4; k++) { /* then with a window */
        const int64_t skipped = skips[k % 4];
        struct attention_case c = {.kv_heads = 2,
                                   .group = 3,
                                   .dim = dims[k % 2],
                                   .seq = SEQ,
                                   .chunk = 280,
                                   .ranks = 1,
                                   .positions = 280,
                                   .batch = 1,
                                   .q = kinds[k / 4 % 3][0],
                                   .cache = kinds[k / 4 % 3][1],
                                   .window = k < 3 * 4 ? 0 : 45,
                                   .softcap = k < 3 * 4 ? 0 : 2,
                                   .slots = {{FIRST, SEQ}}};
        struct both whole = describe(&c);
        c.slots[0][0] = (int32_t)(FIRST + skipped);
        c.slots[0][1] = (int32_t)(SEQ - skipped);
        struct both rest = describe(&c);
        const size_t row = bytes_of(&whole.in[0]) / SEQ;
        memcpy(rest.in[0].data, (char *)whole.in[0].data + (size_t)skipped * row,
               (size_t)(SEQ - skipped) * row);
        for (int i = 1; i < whole.op.n_in; i++)
            if (i != 3) /* the slots */
                memcpy(rest.in[i].data, whole.in[i].data, bytes_of(&whole.in[i]));
        run_both(&whole, 0, NULL);
        run_both(&rest, 0, NULL);
        for (int i = 0; i < 2; i++) {
            float *all = fetched(&whole, i), *some = fetched(&rest, i);
            const size_t each = (size_t)whole.out[i].elems / SEQ;
            assert_memory_equal(all + (size_t)skipped * each, some,
                                (size_t)(SEQ - skipped) * each * sizeof *all);
            free(all);
            free(some);
        }
        end(&whole);
        end(&rest);
    }
}

static void test_errors(void **unused)
{
    (void)unused;
    struct sw_error err = {0};
    struct attention_case c = {.kv_heads = 1,
                               .group = 1,
                               .dim = 264,
                               .seq = 1,
                               .chunk = 4,
                               .ranks = 1,
                               .positions = 4,
                               .batch = 1,
                               .q = SW_F32,
                               .cache = SW_F32,
                               .slots = {{0, 1}}};
    struct both b = describe(&c);
    const struct sw_call call = {.op = &b.op, .in = b.in, .out = b.out};
    assert_int_equal(cuda->vtable->run[SW_OP_ATTENTION](cuda, &call, &err), -1);
    assert_int_equal(err.status, SW_UNMET);
    assert_string_equal(err.message, "head_dim 264 is above 256");
    end(&b);
    c.dim = 16;
    c.cache = SW_I8;
    for (int which = 4; which < 6; which++) { /* a scale for each element */
        b = describe(&c);
        b.in[which].size[2] = 16;
        err = (struct sw_error){0};
        const struct sw_call scaled = {.op = &b.op, .in = b.in, .out = b.out};
        assert_int_equal(cuda->vtable->run[SW_OP_ATTENTION](cuda, &scaled, &err), -1);
        assert_string_equal(err.message, "attention takes i8 with a scale for each head");
        end(&b);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_attention),
        cmocka_unit_test(test_chunk_attention),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_slots_are_alike),
        cmocka_unit_test(test_chunks_are_alike),
        cmocka_unit_test(test_errors),
    };
    RUN_ON_BOTH_DEVICES(argc, argv, tests);
}
