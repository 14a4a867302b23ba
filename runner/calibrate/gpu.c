#include "runner/calibrate/gpu.h"

#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/cost/cost.h"
#include "core/programs/compile.h"
#include "runner/collective/comm.h"
#include "runner/rank/execute.h"
#include "runner/rank/init.h"
#include "runner/calibrate/marker.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 15, MIN_STEPS = 3, LAYERS = 2, HEAD_DIM = 128, VOCABULARY = 32768 };
enum { FILL_BYTES = 4 << 20, FILL_FLOATS = FILL_BYTES / 4 };

/* Smaller ops take a launch's time: the first bucket holds sizes up to 2^17. */
static const double bucket_unit = 64;

/* Leaves an eighth of the memory to the workspaces of cuBLASLt, cuDNN and our kernels. */
static const double usable = 0.875;

static const struct sw_gpu_shape shapes_by_default[] = {
    {128, 4, 1, 32},     {2048, 1, 1, 2048},  {4096, 1, 1, 8192},  {1024, 1, 1, 512},
    {8192, 8, 1, 4096},  {2048, 2, 4, 2048},  {512, 1, 1, 256},    {4096, 4, 1, 32768},
    {8192, 1, 1, 2048},  {2048, 1, 1, 16384}, {1024, 1, 2, 2048},  {4096, 1, 4, 4096},
    {2048, 8, 1, 32768}, {8192, 2, 1, 16384}, {8192, 1, 1, 32768},
};

const struct sw_gpu_shape *sw_gpu_shapes(int32_t *count)
{
    *count = sizeof shapes_by_default / sizeof shapes_by_default[0];
    return shapes_by_default;
}

bool sw_gpu_fits(int64_t arena_bytes, int64_t free_bytes)
{
    return free_bytes < 0 || (double)arena_bytes <= usable * (double)free_bytes;
}

double sw_gpu_estimate(const struct sw_gpu_pace *pace, int64_t arena_bytes, double flops)
{
    return pace->set_up_per_byte * (double)arena_bytes + pace->step_per_flop * flops * MIN_STEPS;
}

static double median(double *values, int32_t count)
{
    qsort(values, (size_t)count, sizeof *values, sw_compare_doubles);
    return values[count / 2];
}

/* ---- One program ---- */

static struct sw_program_options options_of(const struct sw_gpu_shape *shape, enum sw_dtype compute)
{
    const int32_t heads = shape->hidden / HEAD_DIM / shape->split;
    struct sw_program_options o = {
        .model.vocab_size = VOCABULARY / shape->split,
        .model.hidden_size = shape->hidden,
        .model.intermediate_size = shape->hidden / 2 * 7 / shape->split,
        .model.layers = LAYERS,
        .model.heads = heads > 0 ? heads : 1,
        .model.kv_heads = heads > 4 ? heads / 4 : 1,
        .model.head_dim = HEAD_DIM,
        .model.rope.theta = 500000,
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

struct run {
    struct sw_program_options options;
    struct sw_program_set *set;
    const struct sw_program *program; /* owned by the set */
    struct sw_comm *alone;            /* the communicator of the only rank */
    struct sw_marker marker;
    struct sw_executor *executor;
    double flops;            /* model flops per step */
    double *busy;            /* [op_count], current step */
    double *samples;         /* [op_count][MAX_STEPS] */
    double whole[MAX_STEPS]; /* a step's recordings, marks included */
    int32_t steps;
};

static void run_free(struct run *r)
{
    sw_executor_free(r->executor);
    if (r->alone != NULL)
        r->alone->vtable->destroy(r->alone);
    sw_program_set_free(r->set);
    sw_marker_free(&r->marker);
    free(r->busy);
    free(r->samples);
}

static int run_compile(struct run *r, const struct sw_gpu_shape *shape, enum sw_dtype compute,
                       struct sw_error *err)
{
    struct sw_program *program = NULL;
    *r = (struct run){.options = options_of(shape, compute)};
    if (sw_program_compile(&r->options, SW_LAID_OUT, &program, err) != 0 ||
        sw_program_set_single(program, SW_PROGRAM_TRAIN, &r->set, err) != 0)
        return -1;
    r->program = r->set->program[SW_PROGRAM_TRAIN];
    if (sw_program_model_flops(&r->options, &r->flops, err) != 0 ||
        sw_comm_single_create(&r->alone, err) != 0)
        return -1;
    const size_t ops = (size_t)r->program->op_count;
    r->busy = calloc(ops, sizeof *r->busy);
    r->samples = calloc(ops * MAX_STEPS, sizeof *r->samples);
    return r->busy != NULL && r->samples != NULL
               ? 0
               : sw_fail(err, SW_ENVIRONMENT, "out of memory for timings");
}

static int copy_repeatedly(struct sw_device *device, char *to, const void *from, size_t bytes)
{
    int failed = 0;
    for (size_t at = 0; at < bytes && !failed; at += FILL_BYTES) {
        const size_t n = bytes - at < FILL_BYTES ? bytes - at : FILL_BYTES;
        failed = device->vtable->copy_in(device, to + at, from, n);
    }
    return failed;
}

/* FILL_BYTES of floats for weights, then ones for norm weights; the caller frees them. Values are
 * random like trained weights: multiplying zeros draws less power and runs faster than training. A
 * short sequence repeats, since drawing billions would take minutes. */
static float *make_fill(struct sw_error *err)
{
    float *fill = malloc(2 * FILL_BYTES);
    const uint64_t key = sw_init_key(1, "calibrate");
    if (fill == NULL)
        (void)sw_fail(err, SW_ENVIRONMENT, "out of memory for parameters");
    for (size_t i = 0; fill != NULL && i < FILL_FLOATS; i++) {
        fill[i] = (float)(0.02 * sw_init_normal(key, i));
        fill[FILL_FLOATS + i] = 1;
    }
    return fill;
}

static int fill_parameters(struct run *r, struct sw_device *device, const float *fill,
                           struct sw_error *err)
{
    int failed = 0;
    for (int32_t i = 0; i < r->set->state.count; i++) {
        const struct sw_state_row *row = &r->set->state.row[i];
        for (int32_t l = 0; l < row->stack && row->initial != SW_INITIAL_ZEROS; l++)
            failed |= copy_repeatedly(device, sw_executor_state(r->executor, row, l),
                                      row->initial == SW_INITIAL_ONES ? fill + FILL_FLOATS : fill,
                                      (size_t)row->instance_bytes);
    }
    return failed ? sw_fail(err, SW_ENVIRONMENT, "cannot copy parameters to the device") : 0;
}

static int run_step(struct run *r, int64_t number, struct sw_error *err)
{
    return sw_rate_step(r->executor, r->options.model.vocab_size, number, err);
}

/* Runs two steps before measuring: the first chooses kernels, the second makes the recordings. */
static int run_set_up(struct run *r, struct sw_device *device, const float *fill, bool every,
                      struct sw_error *err)
{
    if (sw_marker_init(&r->marker, device, r->program, every, err) != 0 ||
        sw_executor_create(r->set, &r->marker.base, r->alone, NULL, &r->executor, err) != 0 ||
        fill_parameters(r, device, fill, err) != 0 || run_step(r, 1, err) != 0 ||
        run_step(r, 2, err) != 0)
        return -1;
    return r->marker.count > 0 ? 0 : sw_fail(err, SW_ENVIRONMENT, "the step was not recorded");
}

/* Reads the marks of the latest step as sample s. */
static int read_marks(struct run *r, int32_t s, struct sw_error *err)
{
    const struct sw_marker *m = &r->marker;
    memset(r->busy, 0, (size_t)r->program->op_count * sizeof *r->busy);
    r->whole[s] = 0;
    for (int32_t i = 0; i < m->count; i++) {
        if (m->what[i] == SW_MARK_BEGINS)
            continue;
        const double seconds = m->inner->vtable->mark_seconds(m->inner, i - 1, i);
        if (seconds < 0)
            return sw_fail(err, SW_ENVIRONMENT, "the device's clock does not answer");
        r->whole[s] += seconds;
        if (m->what[i] >= 0)
            r->busy[m->what[i]] += seconds;
    }
    for (int32_t i = 0; i < r->program->op_count; i++)
        r->samples[(size_t)i * MAX_STEPS + (size_t)s] = r->busy[i];
    return 0;
}

static int mean(struct sw_comm *world, double *value, struct sw_error *err)
{
    if (sw_calibrate_sum(world, value, 1, err) != 0)
        return -1;
    *value /= world->size;
    return 0;
}

/* Runs the measured steps; all ranks begin together and run equally many. *step_seconds: wall time
 * of one. */
static int run_measured(struct run *r, struct sw_comm *world, double slot, double *step_seconds,
                        struct sw_error *err)
{
    double begin = sw_clock_now();
    if (run_step(r, 3, err) != 0)
        return -1;
    *step_seconds = sw_clock_now() - begin;
    if (mean(world, step_seconds, err) != 0)
        return -1;
    const double steps = slot / (*step_seconds > 1e-6 ? *step_seconds : 1e-6);
    r->steps = steps < MIN_STEPS ? MIN_STEPS : steps > MAX_STEPS ? MAX_STEPS : (int32_t)steps;
    if (world->size > 1 && world->vtable->barrier(world, err) != 0)
        return -1;
    for (int32_t s = 0; s < r->steps; s++)
        if (run_step(r, s + 4, err) != 0 || read_marks(r, s, err) != 0)
            return -1;
    return 0;
}

/* ---- All programs ---- */

struct measuring {
    struct sw_device *device;
    struct sw_comm *world;
    float *fill;         /* for parameters */
    double slot;         /* seconds for one program's steps */
    double mark_seconds; /* duration of a mark */
    double launch_seconds;
    double begin; /* start of all measurements */
    struct sw_gpu_pace pace;
    struct sw_kernel_rates rates;
};

/* Seconds of all calls of op i in a step, without marks. */
static double net_seconds(struct run *r, int32_t i, double calls, double mark)
{
    const double whole = median(r->samples + (size_t)i * MAX_STEPS, r->steps);
    const double net = whole - calls * mark;
    return net > 0.1 * whole ? net : 0.1 * whole; /* clocks have ticks */
}

/* For attention, the fraction of a long call's rate at its heads and length; else 1. */
static double shape_of(const struct sw_program *p, const struct sw_op *op)
{
    static const struct sw_accelerator_config gpu = {.device = SW_DEVICE_CUDA};
    if (sw_op_info(op->kind)->cost_class != SW_CLASS_ATTENTION)
        return 1;
    return sw_cost_attention_shape(&gpu, op->as.attention.head_dim,
                                   (double)p->values[op->in[0].value].local[1]);
}

/* Adds every op's time to its curve, and matrix products without launches to *matmul_seconds. */
static void collect(struct measuring *m, struct run *r, double *matmul_seconds)
{
    const struct sw_program *p = r->program;
    for (int32_t g = 0; g < p->region_count; g++) {
        const struct sw_region *region = &p->regions[g];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const int32_t kind = sw_rate_kind(&p->ops[i]);
            if (kind < 0)
                continue;
            const double seconds = net_seconds(r, i, region->repeat, m->mark_seconds);
            const double launches = region->repeat * m->launch_seconds;
            if (kind == SW_RATE_MATMUL && seconds > launches)
                *matmul_seconds += seconds - launches;
            /* sums subtract a launch per part, prices one per op */
            const double missing = (sw_rate_parts(p, &p->ops[i]) - 1) * launches;
            /* attention's curve is for long calls with heads of 128 */
            const double as_long = launches + (seconds - launches) * shape_of(p, &p->ops[i]);
            if (r->options.compute == SW_BF16_T)
                sw_rate_add(&m->rates, p, &p->ops[i], region->repeat, as_long + missing,
                            bucket_unit);
        }
    }
}

/* Launch time: the smallest program's replay per op, as a median, since some ops are several
 * kernels. */
static int find_launch(struct measuring *m, struct run *r, struct sw_error *err)
{
    const struct sw_program *p = r->program;
    double *seconds = calloc((size_t)p->op_count, sizeof *seconds);
    int32_t count = 0;
    if (seconds == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for timings");
    for (int32_t g = 0; g < p->region_count; g++) {
        const struct sw_region *region = &p->regions[g];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++)
            if (sw_rate_kind(&p->ops[i]) >= 0)
                seconds[count++] =
                    net_seconds(r, i, region->repeat, m->mark_seconds) / region->repeat;
    }
    m->launch_seconds = count > 0 ? median(seconds, count) : 0;
    free(seconds);
    return 0;
}

/* *out: true if every rank has the memory, and all together the time. */
static int can_measure(struct measuring *m, const struct run *r, double seconds, bool *out,
                       struct sw_error *err)
{
    struct sw_device *device = m->device;
    const int64_t arena = r->program->arena_bytes;
    const int64_t available =
        device->vtable->free_bytes == NULL ? -1 : device->vtable->free_bytes(device);
    double told[2] = {sw_gpu_fits(arena, available) ? 0 : 1, sw_clock_now() - m->begin};
    if (sw_calibrate_sum(m->world, told, 2, err) != 0)
        return -1;
    *out = told[0] < 0.5 &&
           told[1] / m->world->size + sw_gpu_estimate(&m->pace, arena, r->flops) <= seconds;
    return 0;
}

/* Least value so far, 0: none. Small programs are slow for their size and say nothing about large
 * ones. */
static double least(double before, double seen)
{
    return before > 0 && before < seen ? before : seen;
}

/* Runs a compiled program; results stay in r. */
static int measure(struct measuring *m, struct run *r, bool every, struct sw_error *err)
{
    double begin = sw_clock_now(), step;
    if (run_set_up(r, m->device, m->fill, every, err) != 0)
        return -1;
    double set_up = sw_clock_now() - begin;
    if (mean(m->world, &set_up, err) != 0 || run_measured(r, m->world, m->slot, &step, err) != 0)
        return -1;
    m->pace.set_up_per_byte =
        least(m->pace.set_up_per_byte, set_up / (double)r->program->arena_bytes);
    m->pace.step_per_flop = least(m->pace.step_per_flop, step / r->flops);
    m->rates.programs++;
    m->rates.steps += r->steps;
    return 0;
}

/* Measures the smallest program with and without marks: duration of a mark, and of a launch. */
static int measure_smallest(struct measuring *m, const struct sw_gpu_shape *shape,
                            struct sw_error *err)
{
    struct run plain, marked = {.program = NULL};
    double ignored = 0;
    int status = run_compile(&plain, shape, SW_BF16_T, err);
    if (status == 0)
        status = measure(m, &plain, false, err);
    if (status == 0)
        status = run_compile(&marked, shape, SW_BF16_T, err);
    if (status == 0)
        status = measure(m, &marked, true, err);
    if (status == 0) {
        const double more = median(marked.whole, marked.steps) - median(plain.whole, plain.steps);
        const int32_t marks = marked.marker.count - plain.marker.count;
        m->mark_seconds = more > 0 ? more / marks : 0;
        status = find_launch(m, &marked, err);
    }
    if (status == 0)
        collect(m, &marked, &ignored);
    run_free(&marked);
    run_free(&plain);
    return status;
}

/* seconds < 0: no limit. */
static int measure_shape(struct measuring *m, const struct sw_gpu_shape *shape,
                         enum sw_dtype compute, double seconds, double *matmul_seconds,
                         struct sw_error *err)
{
    struct run r;
    bool can = true;
    int status = run_compile(&r, shape, compute, err);
    if (status == 0 && seconds >= 0)
        status = can_measure(m, &r, seconds, &can, err);
    if (status == 0 && can) {
        status = measure(m, &r, true, err);
        if (status == 0)
            collect(m, &r, matmul_seconds);
    }
    run_free(&r);
    return status;
}

static int measure_shapes(struct measuring *m, double seconds, const struct sw_gpu_shape *shapes,
                          int32_t count, struct sw_error *err)
{
    double ignored = 0;
    if (measure_smallest(m, &shapes[0], err) != 0 ||
        measure_shape(m, &shapes[1], SW_F32, -1, &m->rates.fp32_seconds, err) != 0 ||
        measure_shape(m, &shapes[1], SW_BF16_T, -1, &m->rates.bf16_seconds, err) != 0)
        return -1;
    for (int32_t i = 2; i < count; i++)
        if (measure_shape(m, &shapes[i], SW_BF16_T, seconds, &ignored, err) != 0)
            return -1;
    return 0;
}

int sw_gpu_kernels(struct sw_device *device, struct sw_comm *world, double seconds,
                   const struct sw_gpu_shape *shapes, int32_t count, struct sw_kernel_rates *out,
                   struct sw_error *err)
{
    const struct sw_device_vtable *table = device->vtable;
    struct measuring m = {
        .device = device, .world = world, .slot = seconds / count, .begin = sw_clock_now()};
    if (table->mark == NULL || table->mark_seconds == NULL || table->record_begin == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "the %s device cannot time what it queues",
                       table->name);
    m.fill = make_fill(err);
    const int status = m.fill == NULL ? -1 : measure_shapes(&m, seconds, shapes, count, err);
    free(m.fill);
    if (status != 0)
        return -1;
    m.rates.least_seconds = m.launch_seconds;
    m.rates.busy_seconds = m.rates.wall_seconds = 1; /* no other thread takes the device's time */
    *out = m.rates;
    return sw_calibrate_sum(world, (double *)out, sizeof *out / sizeof(double), err);
}

/* ---- From sums to figures ---- */

/* Ops shorter than this many launches: their time without a launch is uncertain. */
static const double trusted_launches = 4;

/* Best fraction among the curve's points with little launch time; among all if every point is
 * small. */
static double best_share(const struct sw_calibration_curve *curve, double unit_per_s,
                         double launch_s)
{
    double best = 0, trusted = 0;
    for (int32_t i = 0; i < curve->count; i++) {
        const struct sw_calibration_point *p = &curve->point[i];
        best = p->fraction > best ? p->fraction : best;
        if (p->size / (p->fraction * unit_per_s) >= trusted_launches * launch_s)
            trusted = p->fraction > trusted ? p->fraction : trusted;
    }
    return trusted > 0 ? trusted : best;
}

static void rescale(struct sw_calibration_curve *curve, double share)
{
    for (int32_t i = 0; i < curve->count; i++) {
        const double fraction = curve->point[i].fraction * share;
        /* caches can exceed the memory's rate; small ops are uncertain */
        curve->point[i].fraction = fraction < 1 ? fraction : 1;
    }
}

int sw_gpu_calibration(const struct sw_kernel_rates *rates, int32_t ranks,
                       const struct sw_data_sheet *sheet, struct sw_calibration *out,
                       struct sw_error *err)
{
    if (sw_calibration_make(rates, ranks, out, err) != 0)
        return -1;
    struct sw_calibration_curve *matmul = &out->curve[SW_RATE_MATMUL];
    struct sw_calibration_curve *memory = &out->curve[SW_RATE_MEMORY];
    /* sw_calibration_make takes the curve for fp32's; here bf16's is given */
    const double flops = out->fp32_flops, bandwidth = out->memory_bandwidth;
    const double launch = out->launch_latency_s;
    const double fp32_share = rates->fp32_seconds > 0 && rates->bf16_seconds > 0
                                  ? rates->bf16_seconds / rates->fp32_seconds
                                  : 1;
    out->bf16_flops = sheet != NULL ? sheet->bf16_flops : flops * best_share(matmul, flops, launch);
    out->memory_bandwidth =
        sheet != NULL ? sheet->memory_bandwidth : bandwidth * best_share(memory, bandwidth, launch);
    rescale(matmul, flops / out->bf16_flops);
    rescale(&out->curve[SW_RATE_ATTENTION], flops / out->bf16_flops);
    rescale(&out->curve[SW_RATE_ATTENTION_BACKWARD], flops / out->bf16_flops);
    rescale(memory, bandwidth / out->memory_bandwidth);
    out->fp32_flops = out->bf16_flops * fp32_share;
    return 0;
}
