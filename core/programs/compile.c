/* The pipeline: from options to the program of one rank. */
#include "core/programs/compile.h"

#include "core/passes/passes.h"
#include "core/models/build.h"

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

/* Moves an array to memory without spare room: a search keeps many programs, and the large array
 * that this one grew in is free for the next. True if moved. */
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

/* Verifies after a pass. */
static int verify(const struct sw_program_options *o, const struct sw_program *p,
                  struct sw_error *err)
{
    return o->unverified ? 0 : sw_program_verify(p, err);
}

/* Compiles the program before partitioning, or at an earlier stage. *out is the caller's. */
static int make_logical(const struct sw_program_options *options, enum sw_program_stage until,
                        struct sw_program **out, struct sw_error *err)
{
    struct sw_program *logical = sw_program_new();
    if (logical == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while building the program");
    if (logical_program(options, until, logical, err) != 0 || verify(options, logical, err) != 0) {
        sw_program_free(logical);
        return -1;
    }
    *out = logical;
    return 0;
}

/* Compiles the rest, up to the ranks' program. */
static int lower(const struct sw_program_options *options, const struct sw_program *logical,
                 enum sw_program_stage until, struct sw_program **out, struct sw_error *err)
{
    struct sw_program *p = NULL;
    if (sw_partition(logical, &p, err) != 0)
        return -1;
    if ((!options->unverified && sw_program_number_names(p, err) != 0) ||
        verify(options, p, err) != 0)
        goto fail;
    if (until >= SW_SCHEDULED && (sw_schedule(p, err) != 0 || verify(options, p, err) != 0))
        goto fail;
    trim(p);
    if (until >= SW_LAID_OUT && sw_layout(p, NULL, err) != 0)
        goto fail;
    *out = p;
    return 0;
fail:
    sw_program_free(p);
    return -1;
}

static int admit(const struct sw_program_options *options, struct sw_error *err)
{
    char detail[256], help[256];
    if (sw_program_admits(options, detail, help) != SW_FITS)
        return sw_fail(err, SW_UNMET, "%s; %s", detail, help);
    return 0;
}

int sw_program_compile(const struct sw_program_options *options, enum sw_program_stage until,
                       struct sw_program **out, struct sw_error *err)
{
    struct sw_program *logical = NULL;
    if (admit(options, err) != 0 || make_logical(options, until, &logical, err) != 0)
        return -1;
    if (until <= SW_DIFFERENTIATED) {
        *out = logical;
        return 0;
    }
    const int status = lower(options, logical, until, out, err);
    sw_program_free(logical);
    return status;
}

/* ---- Kept logical programs ---- */

enum { LOGICALS = 16 };

struct sw_logicals {
    uint64_t now;
    struct {
        struct sw_program_key key;
        uint64_t used;              /* time of the last use */
        struct sw_program *program; /* NULL: empty */
    } kept[LOGICALS];
};

struct sw_logicals *sw_logicals_new(void)
{
    return calloc(1, sizeof(struct sw_logicals));
}

void sw_logicals_free(struct sw_logicals *l)
{
    for (int32_t i = 0; l != NULL && i < LOGICALS; i++)
        sw_program_free(l->kept[i].program);
    free(l);
}

/* The kept logical program of those options, compiled, or retargeted from one of the same
 * structure. */
static const struct sw_program *
find_logical(struct sw_logicals *l, const struct sw_program_options *options, struct sw_error *err)
{
    struct sw_program_key key;
    int32_t at = 0;
    sw_program_logical_structure(options, &key);
    for (int32_t i = 0; i < LOGICALS; i++) {
        if (l->kept[i].program != NULL && memcmp(&l->kept[i].key, &key, sizeof key) == 0) {
            l->kept[i].used = ++l->now;
            sw_program_retarget_logical(l->kept[i].program, options);
            return l->kept[i].program;
        }
        at = l->kept[i].used < l->kept[at].used ? i : at;
    }
    sw_program_free(l->kept[at].program);
    l->kept[at].program = NULL;
    if (make_logical(options, SW_DIFFERENTIATED, &l->kept[at].program, err) != 0)
        return NULL;
    l->kept[at].key = key;
    l->kept[at].used = ++l->now;
    return l->kept[at].program;
}

int sw_program_compile_with(struct sw_logicals *logicals, const struct sw_program_options *options,
                            struct sw_program **out, struct sw_error *err)
{
    if (sw_program_traits(options->kind)->state == SW_STATE_SERVING)
        return sw_program_compile(options, SW_SCHEDULED, out, err);
    if (admit(options, err) != 0)
        return -1;
    const struct sw_program *logical = find_logical(logicals, options, err);
    return logical != NULL ? lower(options, logical, SW_SCHEDULED, out, err) : -1;
}

int sw_program_number_names(struct sw_program *p, struct sw_error *err)
{
    return sw_builder_number_names(p) == 0
               ? 0
               : sw_fail(err, SW_ENVIRONMENT, "out of memory while naming a program's values");
}

int sw_program_layer_values(const struct sw_model *model, const struct sw_lora *lora,
                            struct sw_layer_values *out, struct sw_error *err)
{
    struct sw_program_options options = {.model = *model,
                                         .sequence_length = 1,
                                         .global_batch = 1,
                                         .micro_batch_per_rank = 1,
                                         .mesh = sw_mesh_make(1, 1, 1, 1),
                                         .kind = SW_PROGRAM_TRAIN,
                                         .unverified = true};
    struct sw_program *p = NULL;
    /* small sizes, as the model's may be too large for any program */
    options.model.vocab_size = options.model.hidden_size = options.model.intermediate_size = 2;
    options.model.layers = options.model.heads = options.model.kv_heads = 1;
    options.model.head_dim = 2;
    if (lora != NULL)
        options.lora = *lora;
    sw_rules_default(&options.rules, SW_ATTENTION_RING);
    if (sw_program_compile(&options, SW_LOGICAL, &p, err) != 0)
        return -1;
    *out = p->layer_values;
    sw_program_free(p);
    return 0;
}
