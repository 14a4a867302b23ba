/* A small model and its programs of serving on CPUs, for tests of their prices. */
#ifndef SW_TESTS_SERVING_SUPPORT_H
#define SW_TESTS_SERVING_SUPPORT_H

#include "core/cost/cost.h"
#include "core/programs/program_set.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static inline void close_to(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-9 * fabs(wanted)))
        fail_msg("%.17g, not %.17g", value, wanted);
}

/* Slots of 8 texts: 2 of a rank over dp. */
static inline struct sw_program_options options_of(enum sw_dtype compute)
{
    struct sw_program_options o = {.model.vocab_size = 1000,
                                   .model.hidden_size = 128,
                                   .model.intermediate_size = 320,
                                   .model.layers = 3,
                                   .model.heads = 4,
                                   .model.kv_heads = 2,
                                   .model.head_dim = 32,
                                   .model.tied = true,
                                   .model.rope.theta = 10000,
                                   .model.rms_norm_eps = 1e-5,
                                   .sequence_length = 16,
                                   .global_batch = 8,
                                   .micro_batch_per_rank = 2,
                                   .compute = compute,
                                   .params = SW_F32,
                                   .reduce = SW_F32,
                                   .mesh = sw_mesh_make(4, 1, 1, 1)};
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    return o;
}

static inline struct sw_cluster_config cluster_of(void)
{
    const struct sw_accelerator_config core = {.device = SW_DEVICE_CPU,
                                               .peak_fp32_flops = 100e9,
                                               .peak_bf16_flops = 100e9,
                                               .memory_bandwidth = 10e9};
    return (struct sw_cluster_config){
        .nodes = 1,
        .accelerators_per_node = 4,
        .accelerator = core,
        .profile = sw_profile_default(&core),
        .link_count = 1,
        .link = {{.name = "l", .spans = 4, .bandwidth = 1e9, .latency_s = 1e-6}}};
}

static inline struct sw_program_set *serving_on(struct sw_program_target target,
                                                enum sw_dtype compute, enum sw_dtype weights,
                                                enum sw_dtype cache)
{
    struct sw_program_options o = options_of(compute);
    o.target = target;
    const struct sw_serving want = {/* as many rows of a chunk as there are texts */
                                    .max_batch = 8,         .max_tokens = 64, .chunk = 16,
                                    .token_budget = 8 * 16, .cache = cache,   .weights = weights};
    struct sw_program_set *set = NULL;
    struct sw_error err = {0};
    if (sw_program_set_compile_serving(
            &o, &want, 1u << SW_PROGRAM_PREFILL | 1u << SW_PROGRAM_DECODE, &set, &err) != 0)
        fail_msg("%s", err.message);
    return set;
}

static inline struct sw_program_set *serving_with(enum sw_dtype compute, enum sw_dtype weights,
                                                  enum sw_dtype cache)
{
    return serving_on((struct sw_program_target){0}, compute, weights, cache);
}

static inline struct sw_program_set *serving_in(enum sw_dtype compute, enum sw_dtype weights)
{
    return serving_with(compute, weights, compute);
}

static inline struct sw_program_set *serving_of(enum sw_dtype compute)
{
    return serving_in(compute, compute);
}

/* Seconds of every op by itself, and of the matrix products among them. */
static inline double sum_of(const struct sw_program *p, const struct sw_cluster_config *cluster,
                            double *products)
{
    double all = 0;
    *products = 0;
    for (int32_t i = 0; i < p->op_count; i++) {
        const double seconds = sw_cost_compute_seconds(p, &p->ops[i], cluster, NULL);
        all += seconds;
        if (p->ops[i].kind == SW_OP_LINEAR || p->ops[i].kind == SW_OP_LINEAR_T)
            *products += seconds;
    }
    return all;
}

static inline double skinny_seconds(const struct sw_program *p, enum sw_op_kind kind,
                                    const struct sw_cluster_config *cluster,
                                    const struct sw_workload *workload)
{
    double seconds = 0;
    for (int32_t i = 0; i < p->op_count; i++)
        if (p->ops[i].kind == kind)
            seconds += sw_cost_compute_seconds(p, &p->ops[i], cluster, workload);
    return seconds;
}

#endif
