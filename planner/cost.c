#include "planner/cost.h"

#include "planner/links.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Fraction of peak where no curve was measured. GPUs: PyTorch FSDP runs of llm-foundry reach 55-62
 * % of peak over whole steps at d_model 4096 and more, so matrix products alone do better;
 * FlashAttention-2 reaches 50-70 % of an A100's peak and 35-40 % of an H100's (Dao 2023; Shah et
 * al. 2024); copies reach about 0.8 of the data sheet's bandwidth. CPUs: oneDNN's matrix products
 * and our attention on one core of several, an estimate. */
struct defaults {
    double matmul, attention, memory;
};
static const struct defaults defaults_of[] = {
    [SW_DEVICE_CPU] = {0.70, 0.30, 0.60}, [SW_DEVICE_CUDA] = {0.70, 0.45, 0.80}};

/* Iterations of a loop or micro-steps walked one by one before the rest is extrapolated from the
 * last of them. */
enum { WARM = 3, AXIS_SETS = 1 << SW_AXIS_COUNT, MAX_FLIGHTS = 64 };

struct timing {
    double compute;       /* on the compute stream */
    double communication; /* on the communication stream */
    double inside;    /* communication that the op itself could not hide (ring attention), part of
                         compute */
    sw_axis_set axes; /* effective ones */
};

/* A collective that was issued. */
struct flight {
    double start, end;
    sw_axis_set axes;
};

struct clocks {
    double compute, communication; /* when each stream is free */
    double busy;                   /* the compute stream at work */
    double exposed[SW_AXIS_COUNT];
};

struct pricing {
    const struct sw_program *p;
    const struct sw_run_config *run;
    struct timing *timing; /* [op_count] */
    double *done;          /* [value_count]: when the last collective that writes it ends */
    struct sw_span span[AXIS_SETS];
    bool span_known[AXIS_SETS];
    struct flight flight[MAX_FLIGHTS]; /* the last ones, a ring buffer */
    uint32_t flights;
    struct clocks now;
    struct sw_cost *out;
};

double sw_cost_efficiency(const struct sw_curve *curve, double size, double fallback)
{
    const int32_t n = curve->count;
    if (n == 0)
        return fallback;
    if (size <= curve->point[0].size)
        return curve->point[0].fraction;
    for (int32_t i = 1; i < n; i++) {
        const struct sw_curve_point *a = &curve->point[i - 1], *b = &curve->point[i];
        if (size <= b->size)
            return a->fraction +
                   (b->fraction - a->fraction) * log(size / a->size) / log(b->size / a->size);
    }
    return curve->point[n - 1].fraction;
}

static double compute_seconds(const struct sw_program *p, const struct sw_op *op,
                              const struct sw_run_config *run)
{
    const struct sw_accelerator_config *a = &run->cluster.accelerator;
    const struct defaults *usual = &defaults_of[a->device];
    const struct sw_op_info *info = sw_op_info(op->kind);
    if (info->cost_class == SW_CLASS_NONE || info->cost_class == SW_CLASS_COLLECTIVE)
        return 0;
    const struct sw_op_cost cost = info->cost(p, op);
    const double bytes = (double)cost.memory_bytes;
    double seconds =
        bytes / (a->memory_bandwidth * sw_cost_efficiency(&a->memory, bytes, usual->memory));
    double rate = a->peak_fp32_flops;
    if (info->cost_class == SW_CLASS_MATMUL || info->cost_class == SW_CLASS_ATTENTION) {
        const bool matmul = info->cost_class == SW_CLASS_MATMUL;
        rate = run->compute == SW_BF16 ? a->peak_bf16_flops : a->peak_fp32_flops;
        rate *= sw_cost_efficiency(matmul ? &a->matmul : &a->attention, cost.flops,
                                   matmul ? usual->matmul : usual->attention);
    }
    if (cost.flops / rate > seconds)
        seconds = cost.flops / rate;
    return seconds + a->launch_latency_s;
}

static const struct sw_span *span_of(struct pricing *c, struct sw_axes axes)
{
    const sw_axis_set set = sw_axes_set(axes);
    if (!c->span_known[set]) {
        sw_links_span(&c->run->cluster, &c->p->mesh, axes, &c->span[set]);
        c->span_known[set] = true;
    }
    return &c->span[set];
}

/* The ring computes on one block while the next travels; the gradient's dk and dv also travel home
 * at the end, when nothing is left to compute. A rank's blocks take alike (zigzag) or the longest
 * is assumed (op.c). */
static struct timing ring_timing(struct pricing *c, const struct sw_op *op, double compute,
                                 double bytes)
{
    struct timing t = {.compute = compute, .axes = sw_axes_set(op->axes)};
    const struct sw_span *span = span_of(c, op->axes);
    if (span->ranks <= 1)
        return t;
    const bool home = op->kind == SW_OP_RING_ATTENTION_GRAD;
    const double ranks = span->ranks, hops = home ? ranks : ranks - 1, block = compute / ranks;
    const double hop = sw_links_hop_seconds(&c->run->cluster, span, bytes / hops);
    t.compute = block + (ranks - 1) * (hop > block ? hop : block) + (home ? hop : 0);
    t.inside = t.compute - compute;
    return t;
}

/* Bytes by axis: a group over several axes is spread in proportion to what each adds, size - 1. */
static void count_bytes(struct pricing *c, sw_axis_set axes, double bytes)
{
    double parts = 0;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        if (axes & (1u << a))
            parts += c->p->mesh.size[a] - 1;
    for (int32_t a = 0; a < SW_AXIS_COUNT && parts > 0; a++)
        if (axes & (1u << a))
            c->out->communication_bytes[a] += bytes * (c->p->mesh.size[a] - 1) / parts;
}

static bool has_batch(const struct sw_value *value)
{
    for (uint8_t d = 0; d < value->ndim; d++)
        if (value->axis[d] == SW_L_BATCH)
            return true;
    return false;
}

/* Totals that tell how the time would change with other options. */
static void count_seconds(struct pricing *c, const struct sw_op *op, const struct timing *t,
                          double times)
{
    if (op->stage == SW_STAGE_RECOMPUTE)
        c->out->recompute_seconds += t->compute * times;
    if (op->n_in > 0 && has_batch(&c->p->values[op->in[0].value]))
        c->out->batch_seconds += t->communication * times;
    else
        c->out->weight_seconds += t->communication * times;
}

static void time_ops(struct pricing *c)
{
    const struct sw_program *p = c->p;
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        const double times = (double)region->repeat *
                             (region->phase == SW_PHASE_UPDATE ? 1 : (double)p->accumulation_steps);
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            const struct sw_axes axes = sw_axes_effective(&p->mesh, op->axes);
            const double bytes = (double)sw_op_communication_bytes(p, op);
            struct timing *t = &c->timing[i];
            *t = (struct timing){.axes = sw_axes_set(axes)};
            if (sw_op_is_collective(op->kind))
                t->communication =
                    sw_links_seconds(&c->run->cluster, span_of(c, axes), op->kind, bytes);
            else
                t->compute = compute_seconds(p, op, c->run);
            if (bytes > 0 &&
                (op->kind == SW_OP_RING_ATTENTION || op->kind == SW_OP_RING_ATTENTION_GRAD))
                *t = ring_timing(c, op, t->compute, bytes);
            count_bytes(c, t->axes, bytes * times);
            count_seconds(c, op, t, times);
        }
    }
}

static void expose(struct clocks *now, sw_axis_set axes, double seconds)
{
    int32_t count = 0;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        count += (axes >> a) & 1;
    for (int32_t a = 0; a < SW_AXIS_COUNT && count > 0; a++)
        if (axes & (1u << a))
            now->exposed[a] += seconds / count;
}

/* The compute stream waits until then: for what the communication stream does meanwhile, in its
 * order. */
static void wait_until(struct pricing *c, double until)
{
    struct clocks *now = &c->now;
    double at = until;
    for (uint32_t i = 0; i < MAX_FLIGHTS && i < c->flights && at > now->compute; i++) {
        const struct flight *f = &c->flight[(c->flights - 1 - i) % MAX_FLIGHTS];
        const double from = f->start > now->compute ? f->start : now->compute;
        if (f->end <= from || from >= at)
            continue;
        const double to = f->end < at ? f->end : at;
        if (to > from)
            expose(now, f->axes, to - from);
        at = from;
    }
    now->compute = until;
}

static double total_exposed(const struct clocks *now)
{
    double sum = 0;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        sum += now->exposed[a];
    return sum;
}

static void run_op(struct pricing *c, int32_t i)
{
    const struct sw_op *op = &c->p->ops[i];
    const struct timing *t = &c->timing[i];
    struct clocks *now = &c->now;
    if (sw_op_is_collective(op->kind)) {
        /* starts when the stream is free and what compute has issued before it is done */
        if (now->communication < now->compute)
            now->communication = now->compute;
        const double start = now->communication;
        now->communication += t->communication;
        c->flight[c->flights++ % MAX_FLIGHTS] = (struct flight){start, now->communication, t->axes};
        for (uint8_t k = 0; k < op->n_out; k++)
            c->done[op->out[k].value] = now->communication;
    } else if (op->kind == SW_OP_WAIT) {
        const double until = c->done[op->in[0].value];
        if (until > now->compute)
            wait_until(c, until);
    } else {
        now->compute += t->compute;
        now->busy += t->compute - t->inside;
        if (t->inside > 0)
            expose(now, t->axes, t->inside);
    }
}

/* One iteration; `ahead` ops belong to the next, which the last does not have. */
static void run_iteration(struct pricing *c, const struct sw_region *region, bool last)
{
    for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++)
        if (!last || !c->p->ops[i].ahead)
            run_op(c, i);
}

/* Everything `times` more as between `before` and now: the clocks move on, and with them what is in
 * flight. */
static void extrapolate(struct pricing *c, const struct clocks *before, double times)
{
    struct clocks *now = &c->now;
    const double step = now->compute - before->compute, shift = step * times;
    for (int32_t v = 0; v < c->p->value_count; v++)
        c->done[v] += shift;
    for (int32_t i = 0; i < MAX_FLIGHTS; i++) {
        c->flight[i].start += shift;
        c->flight[i].end += shift;
    }
    now->communication += shift;
    now->compute += shift;
    now->busy += (now->busy - before->busy) * times;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        now->exposed[a] += (now->exposed[a] - before->exposed[a]) * times;
}

static void run_region(struct pricing *c, const struct sw_region *region)
{
    for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++)
        if (c->p->ops[i].ahead)
            run_op(c, i); /* the first iteration's, before the loop */
    struct clocks before = c->now;
    for (int32_t iteration = 0; iteration < region->repeat; iteration++) {
        if (iteration == WARM && region->repeat > WARM + 1) {
            extrapolate(c, &before, region->repeat - WARM - 1);
            iteration = region->repeat - 1;
        }
        before = c->now;
        run_iteration(c, region, iteration == region->repeat - 1);
    }
}

static void run_phase(struct pricing *c, bool update)
{
    for (int32_t r = 0; r < c->p->region_count; r++) {
        const struct sw_region *region = &c->p->regions[r];
        if ((region->phase == SW_PHASE_UPDATE) != update)
            continue;
        const struct clocks before = c->now;
        run_region(c, region);
        struct sw_region_cost *cost = &c->out->region[r];
        cost->seconds += c->now.compute - before.compute;
        cost->compute_seconds += c->now.busy - before.busy;
        cost->exposed_seconds += total_exposed(&c->now) - total_exposed(&before);
    }
}

static void run_step(struct pricing *c)
{
    const int32_t steps = c->p->accumulation_steps;
    struct clocks before = c->now;
    struct sw_region_cost region_before[SW_COST_MAX_REGIONS];
    for (int32_t step = 0; step < steps && step < WARM; step++) {
        before = c->now;
        memcpy(region_before, c->out->region, sizeof region_before);
        run_phase(c, false);
    }
    if (steps > WARM) {
        const double times = steps - WARM;
        for (int32_t r = 0; r < c->p->region_count; r++) {
            struct sw_region_cost *now = &c->out->region[r], *old = &region_before[r];
            now->seconds += (now->seconds - old->seconds) * times;
            now->compute_seconds += (now->compute_seconds - old->compute_seconds) * times;
            now->exposed_seconds += (now->exposed_seconds - old->exposed_seconds) * times;
        }
        extrapolate(c, &before, times);
    }
    run_phase(c, true);
    /* a step ends when both streams have */
    if (c->now.communication > c->now.compute)
        wait_until(c, c->now.communication);
}

int sw_cost_price(const struct sw_program *program, const struct sw_run_config *run,
                  struct sw_cost *out, struct sw_error *err)
{
    int status = -1;
    memset(out, 0, sizeof *out);
    if (program->region_count > SW_COST_MAX_REGIONS)
        return sw_fail(err, SW_ENVIRONMENT, "a program of %d regions cannot be priced",
                       program->region_count);
    struct pricing *c = calloc(1, sizeof *c);
    if (c == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while pricing the program");
    c->p = program;
    c->run = run;
    c->out = out;
    c->timing = calloc((size_t)program->op_count + 1, sizeof *c->timing);
    c->done = calloc((size_t)program->value_count + 1, sizeof *c->done);
    if (c->timing == NULL || c->done == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while pricing the program");
        goto out;
    }
    out->region_count = program->region_count;
    for (int32_t r = 0; r < program->region_count; r++)
        memcpy(out->region[r].name, program->regions[r].name, SW_NAME_BYTES);
    time_ops(c);
    run_step(c);
    out->step_seconds = c->now.compute;
    out->compute_seconds = c->now.busy;
    memcpy(out->exposed_seconds, c->now.exposed, sizeof out->exposed_seconds);
    status = 0;
out:
    free(c->timing);
    free(c->done);
    free(c);
    return status;
}

double sw_cost_op_seconds(const struct sw_program *program, const struct sw_op *op,
                          const struct sw_run_config *run)
{
    if (!sw_op_is_collective(op->kind))
        return compute_seconds(program, op, run);
    struct sw_span span;
    sw_links_span(&run->cluster, &program->mesh, sw_axes_effective(&program->mesh, op->axes),
                  &span);
    return sw_links_seconds(&run->cluster, &span, op->kind,
                            (double)sw_op_communication_bytes(program, op));
}
