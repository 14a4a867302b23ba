#include "runner/calibrate/skinny_gemm.h"

#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/cost/cost.h"
#include "core/ir/sampling.h"
#include "runner/calibrate/fill.h"
#include "runner/calibrate/links.h"
#include "runner/calibrate/timer.h"
#include "runner/collective/comm.h"
#include "runner/rank/execute.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_TOKENS = 15,
    MIN_TOKENS = 3,
    TEXT_TOKENS = 128, /* tokens a sequence's cache holds; full, as priced */
    CHUNK = 32,
    SHARED = 4,  /* query heads per kv head, in some programs */
    BUDGET = 32, /* tokens of a call, far fewer than `read` has */
    SLOTS = 8    /* slots of plans with several: devices choose kernels by them */
};

/* A transformer has 12 to 13 times hidden^2 weights in a layer. Most useful first: one that exceeds
 * most caches, some that fit or nearly fit, one far larger. Small ones have small heads. */
static const struct size {
    int32_t hidden, layers;
} sizes[] = {{512, 5}, {256, 2}, {256, 4}, {512, 2}, {1024, 4}, {128, 2}};
_Static_assert(sizeof sizes / sizeof sizes[0] == SW_SKINNY_GEMM_SIZES, "a bucket for each size");

/* Most useful first: the others lie between. Then those of `read`. */
static const int32_t row_order[SW_SKINNY_GEMM_COUNTS - 1] = {1, 4, 8, 2, 16};

/* Sizes with many rows: one that hardly fits a cache, and a larger one. */
static const int32_t wide_sizes[SW_SKINNY_GEMM_WIDE_SIZES] = {0, 4};

static int32_t index_of(int32_t rows)
{
    int32_t index = 0;
    while (index + 1 < SW_SKINNY_GEMM_COUNTS && sw_skinny_gemm_rows(index) < rows)
        index++;
    return index;
}

struct run {
    struct sw_program_set *set;
    enum sw_program_kind kind;        /* decode; read for many rows */
    const struct sw_program *program; /* owned by the set */
    struct sw_comm *alone;            /* the communicator of the only rank */
    struct sw_timer timer;
    struct sw_executor *executor;
    int32_t rows, texts; /* equal, or one sequence whose tokens are the rows */
    int32_t tokens;
    double *busy;    /* [op_count], current token */
    double *samples; /* [op_count][MAX_TOKENS] */
    int32_t *token, *slots;
    float *settings, *sampled;
};

static void run_free(struct run *r)
{
    sw_executor_free(r->executor);
    if (r->alone != NULL)
        r->alone->vtable->destroy(r->alone);
    sw_program_set_free(r->set);
    free(r->busy);
    free(r->samples);
    free(r->token);
    free(r->slots);
    free(r->settings);
    free(r->sampled);
}

static int compile(const struct size *size, enum sw_program_kind kind, int32_t rows,
                   enum sw_dtype compute, struct sw_program_set **out, struct sw_error *err)
{
    const int32_t head_dim = size->hidden < 512 ? 32 : 64, heads = size->hidden / head_dim;
    const int32_t group = rows == 2 || rows == 8 ? SHARED : 1;
    struct sw_program_options o = {
        .model.vocab_size = 4 * size->hidden,
        .model.hidden_size = size->hidden,
        .model.intermediate_size = size->hidden * 11 / 4,
        .model.layers = size->layers,
        .model.heads = heads,
        .model.kv_heads = heads / group,
        .model.head_dim = head_dim,
        .model.tied = true,
        .model.rope.theta = 10000,
        .model.rms_norm_eps = 1e-5,
        .sequence_length = CHUNK,
        .global_batch = rows,
        .micro_batch_per_rank = rows,
        .compute = compute,
        .params = SW_F32,
        .reduce = SW_F32,
        .mesh = sw_mesh_make(1, 1, 1, 1),
        .target = sw_device_row(SW_DEVICE_CPU)->target,
    };
    const bool reads = kind == SW_PROGRAM_READ;
    const struct sw_serving serving = {.max_batch = reads ? 1 : rows,
                                       .planned_batch = reads ? SLOTS : 0,
                                       .max_tokens = TEXT_TOKENS,
                                       .chunk = reads ? 0 : CHUNK,
                                       .token_budget = reads ? BUDGET : 0,
                                       .cache = compute};
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    return sw_program_set_compile_serving(&o, &serving, 1u << kind, out, err);
}

static int fill_state(struct run *r, struct sw_device *device, struct sw_error *err)
{
    const struct sw_state *state = &r->set->state;
    for (int32_t i = 0; i < state->count; i++) {
        const struct sw_state_row *row = &state->row[i];
        for (int32_t l = 0; l < row->stack; l++)
            if (sw_calibrate_fill(device, sw_executor_state(r->executor, row, l),
                                  row->instance_bytes, row->dtype == SW_BF16_T ? SW_BF16_T : SW_F32,
                                  err) != 0)
                return -1;
    }
    return 0;
}

static int run_create(struct run *r, struct sw_device *device, const struct size *size,
                      int32_t rows, enum sw_dtype compute, struct sw_error *err)
{
    const bool reads = rows == SW_SKINNY_GEMM_WIDE;
    *r = (struct run){.kind = reads ? SW_PROGRAM_READ : SW_PROGRAM_DECODE,
                      .rows = rows,
                      .texts = reads ? 1 : rows};
    if (compile(size, r->kind, rows, compute, &r->set, err) != 0 ||
        sw_comm_single_create(&r->alone, err) != 0)
        return -1;
    r->program = r->set->program[r->kind];
    const size_t ops = (size_t)r->program->op_count, texts = (size_t)r->texts;
    r->busy = calloc(ops, sizeof *r->busy);
    r->samples = calloc(ops * MAX_TOKENS, sizeof *r->samples);
    r->token = calloc((size_t)rows, sizeof *r->token);
    r->slots = calloc((size_t)rows * SW_SLOT_FIELDS, sizeof *r->slots);
    r->settings = calloc(texts * SW_SAMPLING_SETTINGS, sizeof *r->settings);
    r->sampled = calloc(texts * SW_SAMPLED_NUMBERS, sizeof *r->sampled);
    if (r->busy == NULL || r->samples == NULL || r->token == NULL || r->slots == NULL ||
        r->settings == NULL || r->sampled == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for timings");
    for (int32_t i = 0; i < rows; i++) {
        r->token[i] = i + 1;
        r->slots[i * SW_SLOT_FIELDS + SW_SLOT_FIRST] = reads ? i : TEXT_TOKENS - 1;
        r->slots[i * SW_SLOT_FIELDS + SW_SLOT_TOKENS] = 1;
        r->slots[i * SW_SLOT_FIELDS + SW_SLOT_NUMBER] = reads ? 0 : i;
    }
    for (size_t i = 0; i < texts; i++) {
        r->settings[i * SW_SAMPLING_SETTINGS + SW_SAMPLING_TOP_P] = 1;
        r->settings[i * SW_SAMPLING_SETTINGS + SW_SAMPLING_PENALTY] = 1;
    }
    sw_timer_init(&r->timer, device, r->program, r->busy);
    if (sw_executor_create(r->set, &r->timer.base, r->alone, NULL, &r->executor, err) != 0)
        return -1;
    return fill_state(r, device, err);
}

/* Runs one token of every sequence; `read`: all tokens of one. */
static int decode(struct run *r, struct sw_error *err)
{
    const size_t rows = (size_t)r->rows, texts = (size_t)r->texts;
    const struct sw_feed feeds[] = {
        {.name = "tokens", .data = r->token, .bytes = rows * sizeof *r->token},
        {.name = "slots", .data = r->slots, .bytes = rows * SW_SLOT_FIELDS * sizeof *r->slots},
        {.name = "settings",
         .data = r->settings,
         .bytes = texts * SW_SAMPLING_SETTINGS * sizeof *r->settings},
        {.name = "seen"}, /* no penalties */
        {.name = "adjustments"}};
    const struct sw_fetch fetch = {.name = "sampled",
                                   .data = r->sampled,
                                   .bytes = texts * SW_SAMPLED_NUMBERS * sizeof *r->sampled};
    memset(r->busy, 0, (size_t)r->program->op_count * sizeof *r->busy);
    return sw_executor_run(r->executor, r->kind, NULL, feeds, 5, &fetch, 1, err);
}

/* Runs the measured tokens; all ranks begin together. */
static int run_measured(struct run *r, struct sw_comm *world, struct sw_skinny_gemm_rates *rates,
                        struct sw_error *err)
{
    if (world->size > 1 && world->vtable->barrier(world, err) != 0)
        return -1;
    const double wall = sw_clock_now(), busy = sw_clock_busy();
    for (int32_t t = 0; t < r->tokens; t++) {
        if (decode(r, err) != 0)
            return -1;
        for (int32_t i = 0; i < r->program->op_count; i++)
            r->samples[(size_t)i * MAX_TOKENS + (size_t)t] = r->busy[i];
    }
    rates->wall_seconds += sw_clock_now() - wall;
    rates->busy_seconds += sw_clock_busy() - busy;
    return 0;
}

/* index: the program's size; dtype: of its weights and cache. */
static void collect(struct run *r, int32_t index, enum sw_rate_dtype dtype,
                    struct sw_skinny_gemm_rates *rates)
{
    const struct sw_program *p = r->program;
    const double reads = sw_cost_serving_bytes(p, NULL);
    for (int32_t g = 0; g < p->region_count; g++) {
        const struct sw_region *region = &p->regions[g];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const enum sw_skinny_kind kind = sw_cost_skinny_gemm_kind(p, &p->ops[i]);
            if (kind == SW_SKINNY_KINDS)
                continue;
            double rows, *samples = r->samples + (size_t)i * MAX_TOKENS;
            const double bytes = sw_cost_skinny_gemm_reads(p, &p->ops[i], &rows);
            if (r->kind == SW_PROGRAM_READ &&
                (kind == SW_SKINNY_ATTENTION || (int32_t)rows != r->rows))
                continue; /* skip a prompt's attention and the last token's logits */
            struct sw_skinny_gemm_bucket *bucket =
                &rates->bucket[kind][dtype][index_of((int32_t)rows)][index];
            qsort(samples, (size_t)r->tokens, sizeof *samples, sw_compare_doubles);
            bucket->calls += region->repeat;
            bucket->bytes += region->repeat * bytes;
            bucket->seconds += samples[r->tokens / 2];
            bucket->reads += region->repeat * reads;
        }
    }
}

static int mean(struct sw_comm *world, double *value, struct sw_error *err)
{
    if (sw_calibrate_sum(world, value, 1, err) != 0)
        return -1;
    *value /= world->size;
    return 0;
}

static int measure(struct sw_device *device, struct sw_comm *world, int32_t size, int32_t rows,
                   enum sw_rate_dtype dtype, double slot, struct sw_skinny_gemm_rates *rates,
                   struct sw_error *err)
{
    static const enum sw_dtype dtypes[SW_RATE_DTYPES] = {SW_F32, SW_BF16_T};
    struct run r;
    int status = run_create(&r, device, &sizes[size], rows, dtypes[dtype], err);
    if (status == 0)
        status = decode(&r, err); /* creates the kernels, touches the memory */
    const double begin = sw_clock_now();
    if (status == 0)
        status = decode(&r, err);
    double token = sw_clock_now() - begin;
    if (status == 0)
        status = mean(world, &token, err);
    if (status == 0) {
        const double tokens = slot / (token > 1e-6 ? token : 1e-6);
        r.tokens = tokens < MIN_TOKENS   ? MIN_TOKENS
                   : tokens > MAX_TOKENS ? MAX_TOKENS
                                         : (int32_t)tokens;
        status = run_measured(&r, world, rates, err);
    }
    if (status == 0)
        collect(&r, size, dtype, rates);
    run_free(&r);
    return status;
}

static double work_of(const struct size *size)
{
    return (double)size->hidden * size->hidden * size->layers;
}

int sw_calibrate_skinny_gemm(struct sw_device *device, struct sw_comm *world, double seconds,
                             struct sw_skinny_gemm_rates *out, struct sw_error *err)
{
    enum {
        EACH = SW_RATE_DTYPES * (SW_SKINNY_GEMM_COUNTS - 1),
        NARROW = EACH * SW_SKINNY_GEMM_SIZES,
        PROGRAMS = NARROW + SW_RATE_DTYPES * SW_SKINNY_GEMM_WIDE_SIZES,
        WIDE_TIMES = 8 /* at most as long as the slowest skinny program */
    };
    struct sw_skinny_gemm_rates rates = {.wall_seconds = 0};
    const double begin = sw_clock_now();
    double per_work = 0, before = 0;
    for (int32_t i = 0; i < PROGRAMS; i++) {
        const bool is_wide = i >= NARROW;
        const int32_t s = is_wide ? wide_sizes[(i - NARROW) / SW_RATE_DTYPES] : i / EACH;
        const int32_t rows = is_wide ? SW_SKINNY_GEMM_WIDE : row_order[i % EACH / SW_RATE_DTYPES];
        const enum sw_rate_dtype dtype = i % SW_RATE_DTYPES;
        double spent = sw_clock_now() - begin;
        if (mean(world, &spent, err) != 0)
            return -1;
        if (i > 0 && i <= EACH) {
            const double last = (spent - before) / work_of(&sizes[0]);
            per_work = last > per_work ? last : per_work;
        }
        before = spent;
        const double wanted = (is_wide ? WIDE_TIMES : 1) * per_work * work_of(&sizes[s]);
        if (i > 0 && spent + wanted > seconds)
            continue; /* a smaller one may still fit */
        if (measure(device, world, s, rows, dtype, seconds / PROGRAMS / 2, &rates, err) != 0)
            return -1;
    }
    *out = rates;
    return sw_calibrate_sum(world, (double *)out, sizeof *out / sizeof(double), err);
}
