/* The pipeline: from options to the program of one rank. */
#include "core/program/set/compile.h"

#include "core/program/builder.h"
#include "core/program/model/build.h"

#include <stdlib.h>
#include <string.h>

static int logical_program(const struct sw_program_options *o, enum sw_program_stage until,
                           struct sw_program *p, struct sw_error *err)
{
    struct sw_builder b = {.program = p, .options = o, .region = -1};
    const struct sw_program_traits *traits = sw_program_traits(o->kind);
    struct sw_sizes sizes;
    sw_sizes_of(o, &sizes);
    p->kind = o->kind;
    p->layers = o->model.layers;
    p->sequence_length = o->sequence_length;
    sw_sizes_apply(o, &sizes, p);
    p->stage = SW_LOGICAL;
    if (traits->state == SW_STATE_SERVING) {
        if (sw_build_cached(&b, err) != 0)
            return -1;
        p->stage = until == SW_LOGICAL ? SW_LOGICAL : SW_DIFFERENTIATED;
        return 0;
    }
    if (sw_build_sequence(&b, err) != 0)
        return -1;
    if (until == SW_LOGICAL)
        return 0;
    if (!traits->backward) {
        sw_build_mean_loss(&b);
        if (b.failed)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory while building the program");
    } else if (sw_differentiate(&b, err) != 0) {
        return -1;
    }
    p->stage = SW_DIFFERENTIATED;
    return 0;
}

/* Moves an array to where it has no more room than it needs: a search keeps many programs, and the
 * large place that this one grew in is free for the next. Returns whether it did. */
static bool pack(void **array, int32_t count, size_t element_bytes)
{
    const size_t bytes = (size_t)count * element_bytes;
    void *packed = malloc(bytes);
    if (packed == NULL)
        return false;
    memcpy(packed, *array, bytes);
    free(*array);
    *array = packed;
    return true;
}

static void trim(struct sw_program *p)
{
    void *values = p->values, *ops = p->ops;
    if (pack(&values, p->value_count, sizeof *p->values))
        p->value_capacity = p->value_count;
    if (pack(&ops, p->op_count, sizeof *p->ops))
        p->op_capacity = p->op_count;
    p->values = values;
    p->ops = ops;
}

/* After a pass. */
static int verify(const struct sw_program_options *o, const struct sw_program *p,
                  struct sw_error *err)
{
    return o->unverified ? 0 : sw_program_verify(p, err);
}

int sw_program_compile(const struct sw_program_options *options, enum sw_program_stage until,
                       struct sw_program **out, struct sw_error *err)
{
    char detail[256], help[256];
    if (sw_program_admits(options, detail, help) != SW_FITS)
        return sw_fail(err, SW_UNMET, "%s; %s", detail, help);
    struct sw_program *logical = sw_program_new(), *p = NULL;
    if (logical == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while building the program");
    if (logical_program(options, until, logical, err) != 0 || verify(options, logical, err) != 0)
        goto fail;
    if (until <= SW_DIFFERENTIATED) {
        *out = logical;
        return 0;
    }
    if (sw_partition(logical, &p, err) != 0 ||
        (!options->unverified && sw_program_number_names(p, err) != 0) ||
        verify(options, p, err) != 0)
        goto fail;
    sw_program_free(logical);
    logical = NULL;
    if (until >= SW_SCHEDULED && (sw_schedule(p, err) != 0 || verify(options, p, err) != 0))
        goto fail;
    trim(p);
    if (until >= SW_LAID_OUT && sw_layout(p, NULL, err) != 0)
        goto fail;
    *out = p;
    return 0;
fail:
    sw_program_free(logical);
    sw_program_free(p);
    return -1;
}

int sw_program_number_names(struct sw_program *p, struct sw_error *err)
{
    return sw_builder_number_names(p) == 0
               ? 0
               : sw_fail(err, SW_ENVIRONMENT, "out of memory while naming a program's values");
}

int sw_program_layer_values(const struct sw_model *model, struct sw_layer_values *out,
                            struct sw_error *err)
{
    struct sw_program_options options = {.model = *model,
                                         .sequence_length = 1,
                                         .global_batch = 1,
                                         .micro_batch_per_rank = 1,
                                         .mesh = sw_mesh_make(1, 1, 1, 1),
                                         .kind = SW_PROGRAM_TRAIN,
                                         .unverified = true};
    struct sw_program *p = NULL;
    /* whatever the model's sizes, which may be too large for any program */
    options.model.vocab_size = options.model.hidden_size = options.model.intermediate_size = 2;
    options.model.layers = options.model.heads = options.model.kv_heads = 1;
    options.model.head_dim = 2;
    sw_rules_default(&options.rules, SW_ATTENTION_RING);
    if (sw_program_compile(&options, SW_LOGICAL, &p, err) != 0)
        return -1;
    *out = p->layer_values;
    sw_program_free(p);
    return 0;
}
