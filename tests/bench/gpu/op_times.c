/* Every op of a plan's training step: the time measured on the GPU beside the time that was
 * planned.
 *
 *   op_times PLAN.yaml [STEPS]      default 6 steps after the two that choose kernels and record
 *
 * The plan is for one rank and device: cuda. Each op of the recordings is followed by a mark of the
 * GPU's clock; a time is the median over steps of the sum over an op's calls, without what marks
 * take. Planned: as `plan` prices the same ops. Writes Markdown: a row for each kind of op, the
 * largest first. Exit code 0, 1 for anything that fails, 2 for a plan it cannot use, 77 without a
 * GPU. */
#include "core/base/number.h"
#include "core/plan/plan.h"
#include "core/programs/compile.h"
#include "core/ir/walk.h"
#include "runner/calibrate/marker.h"
#include "runner/collective/comm.h"
#include "runner/device/cuda/device.h"
#include "tests/bench/op_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct timing {
    struct sw_plan plan;
    struct sw_program_set *set;
    const struct sw_program *program; /* the set's */
    struct sw_device *device;
    struct sw_comm *alone;
    struct sw_marker marker;
    struct sw_executor *executor;
    double *of_op[SW_BENCH_STEPS]; /* [steps][op_count] seconds */
    int32_t steps;
};

static int run_step(struct timing *t, int64_t number, struct sw_error *err)
{
    return sw_bench_run_step(t->executor, &t->plan, t->program, number, err);
}

static int set_up(struct timing *t, struct sw_error *err)
{
    if (sw_bench_single_program(&t->plan, &t->set, err) != 0 ||
        sw_comm_single_create(&t->alone, err) != 0)
        return -1;
    t->program = t->set->program[SW_PROGRAM_TRAIN];
    if (sw_marker_init(&t->marker, t->device, t->program, true, err) != 0 ||
        sw_executor_create(t->set, &t->marker.base, t->alone, NULL, &t->executor, err) != 0 ||
        sw_executor_init_state(t->executor, 1, 0.02, err) != 0 || run_step(t, 1, err) != 0 ||
        run_step(t, 2, err) != 0)
        return -1;
    return t->marker.count > 0
               ? 0
               : sw_fail(err, SW_ENVIRONMENT, "the step was not recorded: no marks");
}

/* The shortest time between two marks is what a mark takes: some op is nothing beside it. */
static int read_marks(struct timing *t, double *of_op, struct sw_error *err)
{
    const struct sw_marker *m = &t->marker;
    double least = -1;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 1; i < m->count; i++) {
            if (m->what[i] < 0)
                continue;
            const double seconds = m->inner->vtable->mark_seconds(m->inner, i - 1, i);
            if (seconds < 0)
                return sw_fail(err, SW_ENVIRONMENT, "the device's clock does not answer");
            least = pass == 0 && (least < 0 || seconds < least) ? seconds : least;
            if (pass == 1)
                of_op[m->what[i]] += seconds - least;
        }
    return 0;
}

static int measure(struct timing *t, struct sw_error *err)
{
    for (int32_t s = 0; s < t->steps; s++) {
        t->of_op[s] = calloc((size_t)t->program->op_count, sizeof **t->of_op);
        if (t->of_op[s] == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for timings");
        if (run_step(t, s + 3, err) != 0 || t->device->vtable->synchronize(t->device, err) != 0 ||
            read_marks(t, t->of_op[s], err) != 0)
            return -1;
    }
    return 0;
}

/* Marks are those of a recording's last replay; of several micro-steps the last has a recording of
 * its own. */
static int print_table(const struct timing *t, struct sw_error *err)
{
    const struct sw_program *p = t->program;
    double *seconds = calloc((size_t)p->op_count, sizeof *seconds);
    if (seconds == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for timings");
    for (int32_t g = 0; g < p->region_count; g++) {
        const struct sw_region *region = &p->regions[g];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            const bool once = p->accumulation_steps == 1 || region->phase == SW_PHASE_UPDATE ||
                              op->last_micro_step;
            seconds[i] = sw_walk_count(p, region, op) / region->repeat *
                         sw_bench_median(t->of_op, t->steps, i) / (once ? 1 : 2);
        }
    }
    sw_bench_print_ops(p, &t->plan.run->cluster, seconds);
    free(seconds);
    return 0;
}

static void tear_down(struct timing *t)
{
    sw_executor_free(t->executor);
    if (t->alone != NULL)
        t->alone->vtable->destroy(t->alone);
    sw_program_set_free(t->set);
    sw_marker_free(&t->marker);
    for (int32_t s = 0; s < SW_BENCH_STEPS; s++)
        free(t->of_op[s]);
    if (t->device != NULL)
        t->device->vtable->destroy(t->device);
    sw_plan_free(&t->plan);
}

static int fail(struct timing *t, const struct sw_error *err, int code)
{
    char text[SW_ERROR_TEXT_BYTES];
    fprintf(stderr, "%s\n", sw_error_format(err, "op_times", text));
    tear_down(t);
    return code;
}

int main(int argc, char **argv)
{
    static struct timing t; /* too large for a stack */
    struct sw_error err = {0};
    char text[256];
    t.steps = argc > 2 ? atoi(argv[2]) : 6;
    if (argc < 2 || t.steps < 1 || t.steps > SW_BENCH_STEPS) {
        fprintf(stderr, "usage: op_times PLAN.yaml [STEPS], 1 to %d\n", SW_BENCH_STEPS);
        return 2;
    }
    if (sw_plan_read(argv[1], NULL, &t.plan, &err) != 0)
        return fail(&t, &err, 2);
    t.device = sw_cuda_device_create(0, &err);
    if (t.device == NULL) {
        puts("SKIP: no GPU");
        return fail(&t, &err, 77);
    }
    if (set_up(&t, &err) != 0 || measure(&t, &err) != 0)
        return fail(&t, &err, err.status == SW_BAD_INPUT ? 2 : 1);
    printf("attention: %s\n\n", sw_cuda_device_attention(t.device, text, sizeof text));
    if (print_table(&t, &err) != 0)
        return fail(&t, &err, 1);
    tear_down(&t);
    return 0;
}
