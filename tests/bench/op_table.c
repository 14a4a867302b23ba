#include "tests/bench/op_table.h"

#include "core/base/number.h"
#include "core/cost/cost.h"
#include "core/ir/op.h"
#include "core/programs/compile.h"
#include "core/ir/walk.h"
#include "runner/rank/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sw_bench_single_program(const struct sw_plan *plan, struct sw_program_set **set,
                            struct sw_error *err)
{
    struct sw_program_options options;
    if (sw_plan_program_options(plan->run, &plan->decision, &options, err) != 0)
        return -1;
    if (sw_mesh_rank_count(&options.mesh) != 1)
        return sw_fail(err, SW_BAD_INPUT, "the plan is for %d ranks; this times one",
                       (int)sw_mesh_rank_count(&options.mesh));
    struct sw_program *program = NULL;
    if (sw_program_compile(&options, SW_LAID_OUT, &program, err) != 0)
        return -1;
    return sw_program_set_single(program, SW_PROGRAM_TRAIN, set, err);
}

/* A batch (sw_batch_feeds) of tokens that differ from each other: rows of the embedding's gradient
 * meet as in text, rarely. context: int64_t *, the vocabulary's size. */
static int read_tokens(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    (void)err;
    const uint64_t vocab = (uint64_t) * (const int64_t *)context;
    const int shift = sw_batch_wants_labels(ask) ? 17 : 33;
    uint64_t x =
        (uint64_t)(ask->step->step * 1000 + ask->step->micro_step * 100 + ask->first_row) + 1;
    for (int64_t i = 0; i < ask->rows * ask->row_elems; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        ((int32_t *)to)[i] = (int32_t)((x >> shift) % vocab);
    }
    return 0;
}

int sw_bench_run_step(struct sw_executor *executor, const struct sw_plan *plan,
                      const struct sw_program *p, int64_t number, struct sw_error *err)
{
    const struct sw_step step = {.step = number,
                                 .learning_rate = 1e-4,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .eps = 1e-8,
                                 .grad_clip = 1,
                                 .loss_scale = sw_batch_loss_scale(p->tokens_per_step)};
    struct sw_feed feeds[SW_BATCH_FEEDS];
    int64_t vocab = plan->run->model.shape.vocab_size;
    const struct sw_batch batch = {read_tokens, &vocab, false};
    const int32_t fed = sw_batch_feeds(&batch, p, feeds);
    return sw_executor_run(executor, SW_PROGRAM_TRAIN, &step, feeds, fed, NULL, 0, err);
}

double sw_bench_median(double *const *of_op, int32_t steps, int32_t op)
{
    double seconds[SW_BENCH_STEPS];
    for (int32_t s = 0; s < steps; s++)
        seconds[s] = of_op[s][op];
    qsort(seconds, (size_t)steps, sizeof *seconds, sw_compare_doubles);
    return seconds[steps / 2];
}

struct row {
    const char *name;
    double calls, measured_s, planned_s;
};

static int slower_first(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return (x->measured_s < y->measured_s) - (x->measured_s > y->measured_s);
}

static void print_row(const struct row *r)
{
    printf("| %s | %.0f | %.3f | %.3f | ", r->name, r->calls, 1e3 * r->measured_s,
           1e3 * r->planned_s);
    if (r->planned_s > 0)
        printf("%.2f |\n", r->measured_s / r->planned_s);
    else
        printf("- |\n");
}

void sw_bench_print_ops(const struct sw_program *p, const struct sw_cluster_config *cluster,
                        const double *seconds)
{
    struct row rows[SW_OP_COUNT], all = {.name = "all"};
    memset(rows, 0, sizeof rows);
    for (int32_t g = 0; g < p->region_count; g++) {
        const struct sw_region *region = &p->regions[g];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            struct row *row = &rows[op->kind];
            const double calls = sw_walk_count(p, region, op);
            row->name = sw_op_info((enum sw_op_kind)op->kind)->name;
            row->calls += calls;
            row->planned_s += calls * sw_cost_compute_seconds(p, op, cluster, NULL);
            row->measured_s += seconds[i];
        }
    }
    qsort(rows, SW_OP_COUNT, sizeof *rows, slower_first);
    puts("| op | calls | measured, ms | planned, ms | measured / planned |");
    puts("| --- | --- | --- | --- | --- |");
    for (int k = 0; k < SW_OP_COUNT; k++) {
        if (rows[k].name == NULL)
            continue;
        print_row(&rows[k]);
        all.calls += rows[k].calls;
        all.measured_s += rows[k].measured_s;
        all.planned_s += rows[k].planned_s;
    }
    print_row(&all);
}
