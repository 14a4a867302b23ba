/* Compiles the options of a run into one of its programs: a model's builder, then the passes in
 * order. Owns nothing. */
#ifndef SW_PROGRAMS_COMPILE_H
#define SW_PROGRAMS_COMPILE_H

#include "core/ir/options.h"

/* Runs the pipeline: build, differentiate, partition, schedule, layout; stops after `until`. Takes
 * every kind but `save` (program_set.h); serving kinds need options of sw_serving_options. *out is
 * the caller's, free with sw_program_free. */
int sw_program_compile(const struct sw_program_options *options, enum sw_program_stage until,
                       struct sw_program **out, struct sw_error *err);

/* Cache of recent programs before partitioning. A search compiles hundreds that differ only in what
 * is split over which axes. Used by one thread. */
struct sw_logicals;
/* NULL: no memory. */
struct sw_logicals *sw_logicals_new(void);
void sw_logicals_free(struct sw_logicals *logicals); /* may be NULL */
/* Does the work of sw_program_compile until SW_SCHEDULED, with that cache. */
int sw_program_compile_with(struct sw_logicals *logicals, const struct sw_program_options *options,
                            struct sw_program **out, struct sw_error *err);

/* Numbers values that share a name, once, in a program that was compiled `unverified` up to
 * SW_PARTITIONED or further. Errors (SW_ENVIRONMENT): memory. */
int sw_program_number_names(struct sw_program *program, struct sw_error *err);

/* Lists the values of a layer in all programs that train the model or its adapters (lora; NULL:
 * none). Errors: as sw_program_compile. */
int sw_program_layer_values(const struct sw_model *model, const struct sw_lora *lora,
                            struct sw_layer_values *out, struct sw_error *err);

/* Numbers in a model's matrices and vectors, each counted once: a head that is the embedding is not
 * counted again. */
struct sw_parameter_count {
    int64_t total, trained; /* trained: without frozen ones */
    int64_t of_layer;       /* in one of the layers */
    int32_t layers;
};
/* freeze, lora: as in the options, may be NULL. Errors: as sw_program_compile. */
int sw_program_count_parameters(const struct sw_model *model, const char *freeze,
                                const struct sw_lora *lora, struct sw_parameter_count *out,
                                struct sw_error *err);

/* Flops of the matrix products and attention of one step over all ranks, each counted once and
 * without recomputation (Chowdhery et al. 2022, section 4.1): basis of `mfu`. */
int sw_program_model_flops(const struct sw_program_options *options, double *out,
                           struct sw_error *err);

#endif
