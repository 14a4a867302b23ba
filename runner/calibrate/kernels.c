#include "runner/calibrate/kernels.h"

#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/cost/cost.h"
#include "core/programs/compile.h"
#include "runner/calibrate/links.h"
#include "runner/calibrate/timer.h"
#include "runner/collective/comm.h"
#include "runner/rank/batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 15, MIN_STEPS = 3, LAYERS = 2, BF16_SHAPES = 2 };

/* A transformer so narrow that its ops have the sizes of a rank's shards: `split` divides heads,
 * MLP and vocabulary like tp. Most useful first: the first ones cover the usual sizes, later ones
 * fill gaps and extend the ends. */
struct shape {
    int32_t hidden, split, batch, sequence;
};
static const struct shape shapes[] = {
    {256, 1, 1, 256},  {128, 2, 1, 64},   {256, 2, 2, 256},   {512, 4, 1, 128},  {256, 4, 4, 256},
    {64, 1, 1, 32},    {512, 2, 1, 512},  {128, 1, 1, 512},   {256, 1, 8, 128},  {256, 2, 1, 1024},
    {512, 1, 4, 256},  {64, 2, 1, 2048},  {1024, 8, 1, 256},  {1024, 2, 1, 512}, {256, 1, 16, 256},
    {1024, 1, 2, 512}, {512, 1, 2, 2048}, {2048, 4, 1, 1024},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* ---- One program ---- */

static struct sw_program_options options_of(const struct shape *shape, enum sw_dtype compute)
{
    const int32_t head_dim = shape->hidden < 512 ? 32 : 64;
    const int32_t heads = shape->hidden / head_dim / shape->split;
    struct sw_program_options o = {
        .model.vocab_size = 1024 / shape->split,
        .model.hidden_size = shape->hidden,
        .model.intermediate_size = shape->hidden * 11 / 4 / shape->split,
        .model.layers = LAYERS,
        .model.heads = heads > 0 ? heads : 1,
        .model.kv_heads = heads > 1 ? heads / 2 : 1,
        .model.head_dim = head_dim,
        .model.rope.theta = 10000,
        .model.rms_norm_eps = 1e-5,
        .sequence_length = shape->sequence,
        .global_batch = shape->batch,
        .micro_batch_per_rank = shape->batch,
        .compute = compute,
        .params = SW_F32,
        .reduce = SW_F32,
        .mesh = sw_mesh_make(1, 1, 1, 1),
        .layout = SW_ZIGZAG,
    };
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    return o;
}

/* context: vocabulary size. */
static int read_batch(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    const uint64_t vocab = *(const uint64_t *)context;
    const int shift = sw_batch_wants_labels(ask) ? 20 : 16;
    int32_t *token = to;
    (void)err;
    for (int64_t i = 0; i < ask->rows * ask->row_elems; i++) {
        const uint64_t draw =
            (uint64_t)(ask->first_row * ask->row_elems + i + ask->step->step) * 2654435761u;
        token[i] = (int32_t)((draw >> shift) % vocab);
    }
    return 0;
}

int sw_rate_step(struct sw_executor *x, int64_t vocab_size, int64_t number, struct sw_error *err)
{
    const struct sw_program *p = sw_executor_set(x)->program[SW_PROGRAM_TRAIN];
    uint64_t vocab = (uint64_t)vocab_size;
    struct sw_feed feeds[SW_BATCH_FEEDS];
    const struct sw_step step = {.step = number,
                                 .learning_rate = 1e-4,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .eps = 1e-8,
                                 .grad_clip = 1,
                                 .loss_scale = sw_batch_loss_scale(p->tokens_per_step)};
    const struct sw_batch batch = {read_batch, &vocab, false};
    const int32_t fed = sw_batch_feeds(&batch, p, feeds);
    return sw_executor_run(x, SW_PROGRAM_TRAIN, &step, feeds, fed, NULL, 0, err);
}

struct run {
    struct sw_program_options options;
    struct sw_program_set *set;
    const struct sw_program *program; /* owned by the set */
    struct sw_comm *alone;            /* the communicator of the only rank */
    struct sw_timer timer;
    struct sw_executor *executor;
    double *busy;    /* [op_count], current step */
    double *samples; /* [op_count][MAX_STEPS] */
    int32_t steps;
};

static void run_free(struct run *r)
{
    sw_executor_free(r->executor);
    if (r->alone != NULL)
        r->alone->vtable->destroy(r->alone);
    sw_program_set_free(r->set);
    free(r->busy);
    free(r->samples);
}

static int run_create(struct run *r, struct sw_device *device, const struct shape *shape,
                      enum sw_dtype compute, struct sw_error *err)
{
    struct sw_program *program = NULL;
    *r = (struct run){.options = options_of(shape, compute)};
    if (sw_program_compile(&r->options, SW_LAID_OUT, &program, err) != 0 ||
        sw_program_set_single(program, SW_PROGRAM_TRAIN, &r->set, err) != 0)
        return -1;
    r->program = r->set->program[SW_PROGRAM_TRAIN];
    if (sw_comm_single_create(&r->alone, err) != 0)
        return -1;
    const size_t ops = (size_t)r->program->op_count;
    r->busy = calloc(ops, sizeof *r->busy);
    r->samples = calloc(ops * MAX_STEPS, sizeof *r->samples);
    if (r->busy == NULL || r->samples == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for timings");
    sw_timer_init(&r->timer, device, r->program, r->busy);
    if (sw_executor_create(r->set, &r->timer.base, r->alone, NULL, &r->executor, err) != 0)
        return -1;
    return sw_executor_init_state(r->executor, 1, 0.02, err);
}

static int run_step(struct run *r, int64_t number, struct sw_error *err)
{
    memset(r->busy, 0, (size_t)r->program->op_count * sizeof *r->busy);
    return sw_rate_step(r->executor, r->options.model.vocab_size, number, err);
}

/* Runs the measured steps; all ranks begin together. */
static int run_measured(struct run *r, struct sw_comm *world, struct sw_kernel_rates *rates,
                        struct sw_error *err)
{
    if (world->size > 1 && world->vtable->barrier(world, err) != 0)
        return -1;
    const double wall = sw_clock_now(), busy = sw_clock_busy();
    for (int32_t s = 0; s < r->steps; s++) {
        if (run_step(r, s + 2, err) != 0)
            return -1;
        for (int32_t i = 0; i < r->program->op_count; i++)
            r->samples[(size_t)i * MAX_STEPS + (size_t)s] = r->busy[i];
    }
    rates->wall_seconds += sw_clock_now() - wall;
    rates->busy_seconds += sw_clock_busy() - busy;
    rates->steps += r->steps;
    rates->programs++;
    return 0;
}

/* ---- From samples to buckets ---- */

int32_t sw_rate_bucket_index(double size)
{
    const int32_t index = size < 1 ? 0 : (int32_t)floor(log2(size)) - SW_RATE_FIRST_LOG2;
    if (index < 0)
        return 0;
    return index < SW_RATE_BUCKETS ? index : SW_RATE_BUCKETS - 1;
}

int32_t sw_rate_kind(const struct sw_op *op)
{
    switch (sw_op_info(op->kind)->cost_class) {
    case SW_CLASS_MATMUL:
        return SW_RATE_MATMUL;
    case SW_CLASS_ATTENTION:
        return op->kind == SW_OP_ATTENTION_GRAD ? SW_RATE_ATTENTION_BACKWARD : SW_RATE_ATTENTION;
    case SW_CLASS_MEMORY:
        return SW_RATE_MEMORY;
    default:
        return -1;
    }
}

int32_t sw_rate_parts(const struct sw_program *program, const struct sw_op *op)
{
    struct sw_product product[SW_OP_MAX_PRODUCTS];
    const struct sw_op_info *info = sw_op_info(op->kind);
    return info->products == NULL ? 1 : info->products(program, op, product);
}

void sw_rate_add(struct sw_kernel_rates *rates, const struct sw_program *program,
                 const struct sw_op *op, double calls, double seconds, double unit)
{
    const int32_t kind = sw_rate_kind(op);
    if (kind < 0)
        return;
    const struct sw_op_cost cost = sw_op_cost(program, op);
    const double size = kind == SW_RATE_MEMORY ? (double)cost.memory_bytes : cost.flops;
    if (size <= 0)
        return;
    const double parts = sw_rate_parts(program, op);
    struct sw_rate_bucket *bucket = &rates->bucket[kind][sw_rate_bucket_index(size / parts / unit)];
    bucket->calls += calls * parts;
    bucket->size += calls * size;
    bucket->seconds += seconds;
}

/* Adds a product that is an op by itself, while there is room; the first programs fill it. */
static void add_step_product(struct sw_kernel_rates *rates, const struct sw_program *p,
                             double step_bytes, const struct sw_op *op, double calls,
                             double seconds)
{
    struct sw_product s[SW_OP_MAX_PRODUCTS];
    if (sw_rate_kind(op) != SW_RATE_MATMUL || sw_op_addend_bytes(p, op) > 0 ||
        sw_op_info(op->kind)->products(p, op, s) != 1 || rates->step_products >= SW_STEP_PRODUCTS)
        return;
    rates->step_product[(int32_t)rates->step_products++] =
        (struct sw_step_product){s[0].kind, s[0].m, s[0].n, s[0].k, step_bytes, calls, seconds};
}

static void add_step_attention(struct sw_kernel_rates *rates, const struct sw_program *p,
                               double step_bytes, const struct sw_op *op, double calls,
                               double seconds)
{
    struct sw_product s;
    if (sw_op_info(op->kind)->cost_class != SW_CLASS_ATTENTION ||
        rates->step_attentions >= SW_STEP_ATTENTIONS)
        return;
    const enum sw_attention_phase phase = sw_cost_attention_phase(p, op, 1, &s);
    rates->step_attention[(int32_t)rates->step_attentions++] =
        (struct sw_step_product){phase, s.m, s.n, s.k, step_bytes, calls, seconds};
}

static void add_rope(struct sw_kernel_rates *rates, const struct sw_program *p,
                     const struct sw_op *op, double calls, double seconds)
{
    const double bytes = (double)sw_op_cost(p, op).memory_bytes;
    struct sw_rate_bucket *bucket = &rates->rope[sw_rate_bucket_index(bytes)];
    bucket->calls += calls;
    bucket->size += calls * bytes;
    bucket->seconds += seconds;
    rates->angles += calls * sw_cost_angles(p, op);
}

static void collect(struct run *r, struct sw_kernel_rates *rates, double *matmul_seconds,
                    double *least)
{
    const struct sw_program *p = r->program;
    const double step_bytes = sw_cost_step_bytes(p, NULL);
    for (int32_t g = 0; g < p->region_count; g++) {
        const struct sw_region *region = &p->regions[g];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const int32_t kind = sw_rate_kind(&p->ops[i]);
            if (kind < 0)
                continue;
            double *samples = r->samples + (size_t)i * MAX_STEPS;
            qsort(samples, (size_t)r->steps, sizeof *samples, sw_compare_doubles);
            const double calls = region->repeat, seconds = samples[r->steps / 2];
            *matmul_seconds += kind == SW_RATE_MATMUL ? seconds : 0;
            *least = seconds / calls < *least ? seconds / calls : *least;
            if (r->options.compute != SW_F32)
                continue;
            if (p->ops[i].kind == SW_OP_ROPE)
                add_rope(rates, p, &p->ops[i], calls, seconds);
            else
                sw_rate_add(rates, p, &p->ops[i], calls, seconds, 1);
            add_step_product(rates, p, step_bytes, &p->ops[i], calls, seconds);
            add_step_attention(rates, p, step_bytes, &p->ops[i], calls, seconds);
        }
    }
}

/* ---- All programs ---- */

static int mean(struct sw_comm *world, double *value, struct sw_error *err)
{
    if (sw_calibrate_sum(world, value, 1, err) != 0)
        return -1;
    *value /= world->size;
    return 0;
}

/* Work of one program, to estimate if the next is affordable. */
static double work_of(const struct shape *shape)
{
    return (double)shape->batch * shape->sequence * shape->hidden * shape->hidden / shape->split;
}

/* *step_seconds: wall time of the program's first step, equal on every rank. */
static int measure(struct sw_device *device, struct sw_comm *world, const struct shape *shape,
                   enum sw_dtype compute, double slot, struct sw_kernel_rates *rates,
                   double *matmul_seconds, double *least, double *step_seconds,
                   struct sw_error *err)
{
    struct run r;
    int status = run_create(&r, device, shape, compute, err);
    if (status == 0)
        status = run_step(&r, 1, err); /* creates the kernels, touches the memory */
    const double begin = sw_clock_now();
    if (status == 0)
        status = run_step(&r, 1, err);
    *step_seconds = sw_clock_now() - begin;
    if (status == 0)
        status = mean(world, step_seconds, err);
    if (status == 0) {
        const double steps = slot / (*step_seconds > 1e-6 ? *step_seconds : 1e-6);
        r.steps = steps < MIN_STEPS ? MIN_STEPS : steps > MAX_STEPS ? MAX_STEPS : (int32_t)steps;
        status = run_measured(&r, world, rates, err);
    }
    if (status == 0)
        collect(&r, rates, matmul_seconds, least);
    run_free(&r);
    return status;
}

int sw_calibrate_kernels(struct sw_device *device, struct sw_comm *world, double seconds,
                         struct sw_kernel_rates *out, struct sw_error *err)
{
    struct sw_kernel_rates rates = {0}, ignored;
    const double begin = sw_clock_now(), slot = seconds / SHAPES;
    double least = 1, per_work = 0;
    for (int32_t i = 0; i < SHAPES; i++) {
        double spent = sw_clock_now() - begin, matmul_seconds = 0, other_seconds = 0, step;
        if (mean(world, &spent, err) != 0)
            return -1;
        if (i > 0 && spent + per_work * work_of(&shapes[i]) * (MIN_STEPS + 2) > seconds)
            continue; /* a smaller one may still fit */
        if (measure(device, world, &shapes[i], SW_F32, slot, &rates, &matmul_seconds, &least, &step,
                    err) != 0)
            return -1;
        per_work = step / work_of(&shapes[i]);
        if (i >= BF16_SHAPES)
            continue;
        memset(&ignored, 0, sizeof ignored);
        double no_least = 1;
        if (measure(device, world, &shapes[i], SW_BF16_T, slot, &ignored, &other_seconds, &no_least,
                    &step, err) != 0)
            return -1;
        rates.fp32_seconds += matmul_seconds;
        rates.bf16_seconds += other_seconds;
    }
    rates.least_seconds = least;
    *out = rates;
    return sw_calibrate_sum(world, (double *)out, sizeof *out / sizeof(double), err);
}
