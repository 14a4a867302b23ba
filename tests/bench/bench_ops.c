/* Every op of a plan's training step on this machine's processors, and the step's matrix products
 * alone.
 *
 *   bench_ops PLAN.yaml [STEPS [THREADS]]      default 5 steps after the first, one thread
 *
 * The plan is for one rank and device: cpu. A time is the median over steps of the sum over an op's
 * calls, in processor time of all threads (OMP_WAIT_POLICY=passive: one that waits takes none).
 * Planned: as `plan` prices the same ops. Writes Markdown: a row for each kind of op, the largest
 * first; behind it what the step's products take, each by itself through oneDNN's matmul primitive
 * in the step's precision, and their share of the step, with attention's and without. Exit code 0,
 * 1 for anything that fails, 2 for a plan it cannot use. */
#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/plan/plan.h"
#include "core/programs/compile.h"
#include "runner/collective/comm.h"
#include "tests/bench/op_table.h"
#include "tests/bench/products.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#endif

struct timing {
    struct sw_device base;         /* what the executor uses */
    struct sw_device_vtable timed; /* the device's, but for what runs ops */
    struct sw_device *inner;
    struct sw_plan plan;
    struct sw_program_set *set;
    const struct sw_program *program; /* the set's */
    struct sw_comm *alone;
    struct sw_executor *executor;
    double *of_op[SW_BENCH_STEPS]; /* [steps][op_count] seconds */
    int32_t steps, step;           /* the one that runs; -1: not timed */
};

/* Of all threads. */
static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int run_timed(struct sw_device *device, const struct sw_call *call, struct sw_error *err)
{
    struct timing *t = (struct timing *)device;
    const double begin = processor_seconds();
    const int status = t->inner->vtable->run[call->op->kind](t->inner, call, err);
    if (t->step >= 0)
        t->of_op[t->step][call->op - t->program->ops] += processor_seconds() - begin;
    return status;
}

static void *allocate(struct sw_device *device, size_t bytes)
{
    struct timing *t = (struct timing *)device;
    return t->inner->vtable->allocate(t->inner, bytes);
}

static void release(struct sw_device *device, void *memory)
{
    struct timing *t = (struct timing *)device;
    t->inner->vtable->release(t->inner, memory);
}

static void wrap(struct timing *t)
{
    t->timed = *t->inner->vtable;
    t->timed.allocate = allocate;
    t->timed.release = release;
    for (int k = 0; k < SW_OP_COUNT; k++)
        if (t->timed.run[k] != NULL)
            t->timed.run[k] = run_timed;
    t->base.vtable = &t->timed;
}

static int run_step(struct timing *t, int64_t number, struct sw_error *err)
{
    return sw_bench_run_step(t->executor, &t->plan, t->program, number, err);
}

static int measure(struct timing *t, struct sw_error *err)
{
    if (sw_bench_single_program(&t->plan, &t->set, err) != 0 ||
        sw_comm_single_create(&t->alone, err) != 0)
        return -1;
    t->program = t->set->program[SW_PROGRAM_TRAIN];
    if (sw_executor_create(t->set, &t->base, t->alone, NULL, &t->executor, err) != 0 ||
        sw_executor_init_state(t->executor, 1, 0.02, err) != 0)
        return -1;
    t->step = -1; /* makes the primitives */
    if (run_step(t, 1, err) != 0)
        return -1;
    for (t->step = 0; t->step < t->steps; t->step++) {
        t->of_op[t->step] = calloc((size_t)t->program->op_count, sizeof **t->of_op);
        if (t->of_op[t->step] == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for timings");
        if (run_step(t, t->step + 2, err) != 0)
            return -1;
    }
    return 0;
}

/* The products' share of a step of so many seconds. */
static void print_products(const struct timing *t, double step_s)
{
    const enum sw_dtype operands = t->plan.run->compute == SW_BF16_T ? SW_BF16_T : SW_F32;
    for (int attention = 0; attention < 2; attention++) {
        double flops;
        const double seconds = sw_bench_products_seconds(t->program, attention == 1, operands,
                                                         processor_seconds, &flops);
        printf("%s of %s alone%s: %.1f ms, %.0f GFLOP/s, %.3f of the step\n",
               attention ? "and" : "\nproducts", sw_dtype_name(operands),
               attention ? ", with attention's" : "", seconds * 1e3, flops / seconds / 1e9,
               seconds / step_s);
    }
}

static int report(const struct timing *t, struct sw_error *err)
{
    const struct sw_program *p = t->program;
    double *seconds = calloc((size_t)p->op_count, sizeof *seconds), step_s = 0;
    if (seconds == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for timings");
    for (int32_t i = 0; i < p->op_count; i++)
        step_s += seconds[i] = sw_bench_median(t->of_op, t->steps, i);
    sw_bench_print_ops(p, &t->plan.run->cluster, seconds);
    print_products(t, step_s);
    free(seconds);
    return 0;
}

static void tear_down(struct timing *t)
{
    sw_executor_free(t->executor);
    if (t->alone != NULL)
        t->alone->vtable->destroy(t->alone);
    sw_program_set_free(t->set);
    for (int32_t s = 0; s < SW_BENCH_STEPS; s++)
        free(t->of_op[s]);
    if (t->inner != NULL)
        t->inner->vtable->destroy(t->inner);
    sw_plan_free(&t->plan);
}

int main(int argc, char **argv)
{
    static struct timing t; /* too large for a stack */
    struct sw_error err = {0};
    char text[SW_ERROR_TEXT_BYTES];
    const int threads = argc > 3 ? atoi(argv[3]) : 1;
    t.steps = argc > 2 ? atoi(argv[2]) : 5;
    if (argc < 2 || t.steps < 1 || t.steps > SW_BENCH_STEPS || threads < 1) {
        fprintf(stderr, "usage: bench_ops PLAN.yaml [STEPS, 1 to %d [THREADS]]\n", SW_BENCH_STEPS);
        return 2;
    }
#ifdef _OPENMP
    omp_set_num_threads(threads);
#endif
    int status = sw_plan_read(argv[1], NULL, &t.plan, &err) != 0 ? 2 : 0;
    if (status == 0 && (t.inner = sw_cpu_device_create(threads, &err)) == NULL)
        status = 1;
    if (status == 0) {
        wrap(&t);
        if (measure(&t, &err) != 0 || report(&t, &err) != 0)
            status = err.status == SW_BAD_INPUT ? 2 : 1;
    }
    if (status != 0)
        fprintf(stderr, "%s\n", sw_error_format(&err, "bench_ops", text));
    tear_down(&t);
    return status;
}
