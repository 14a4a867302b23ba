/* What tests of prices share: a run of two kinds of links, its price and how exact it is. */
#ifndef SW_TEST_COST_SUPPORT_H
#define SW_TEST_COST_SUPPORT_H

#include "core/cost/cost.h"
#include "core/plan/plan.h"
#include "core/programs/compile.h"
#include "tests/unit/plan_support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Sums of a few thousand doubles in another order. */
static const double sw_test_tolerance = 1e-9;

static inline void sw_test_close_to(double value, double wanted)
{
    if (!(fabs(value - wanted) <= sw_test_tolerance * fabs(wanted) + 1e-15))
        fail_msg("%.17g, not %.17g", value, wanted);
}

static inline struct sw_test_run sw_test_cost_run(int layers, long batch, const char *inner,
                                                  const char *outer)
{
    struct sw_test_run t = sw_test_llama_7b;
    t.nodes = 4;
    t.per_node = 4;
    t.sequence_length = 4096;
    t.layers = layers;
    t.global_batch_size = batch;
    t.inner = inner;
    t.outer = outer;
    return t;
}

/* change: done to the program before it is priced; NULL: nothing. Returns sw_cost_price's result.
 */
static inline int sw_test_price_changed(const struct sw_test_run *t, struct sw_mesh mesh,
                                        int64_t micro_batch, void (*change)(struct sw_program *p),
                                        struct sw_cost *cost, struct sw_error *err)
{
    struct sw_config *config = sw_test_read_run(t);
    const struct sw_run_config *run = sw_config_run(config);
    const struct sw_decision decision = {.mesh = mesh,
                                         .train.micro_batch_size = micro_batch,
                                         .train.recompute = sw_recompute_full(),
                                         .train.layout = SW_ZIGZAG};
    struct sw_program_options options;
    struct sw_program *p = NULL;
    assert_non_null(run);
    if (sw_plan_program_options(run, &decision, &options, err) != 0 ||
        sw_program_compile(&options, SW_LAID_OUT, &p, err) != 0)
        fail_msg("%s", err->message);
    if (change != NULL)
        change(p);
    const int status = sw_cost_price(p, &run->cluster, NULL, cost, err);
    sw_program_free(p);
    sw_config_free(config);
    return status;
}

static inline struct sw_cost sw_test_price(const struct sw_test_run *t, struct sw_mesh mesh,
                                           int64_t micro_batch)
{
    struct sw_cost cost = {0};
    struct sw_error err = {0};
    if (sw_test_price_changed(t, mesh, micro_batch, NULL, &cost, &err) != 0)
        fail_msg("%s", err.message);
    return cost;
}

#endif
