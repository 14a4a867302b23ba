#include "core/programs/compile.h"

int sw_program_count_parameters(const struct sw_model *model, const char *freeze,
                                const struct sw_lora *lora, struct sw_parameter_count *out,
                                struct sw_error *err)
{
    struct sw_program_options options = {.model = *model,
                                         .sequence_length = 1,
                                         .global_batch = 1,
                                         .micro_batch_per_rank = 1,
                                         .mesh = sw_mesh_make(1, 1, 1, 1),
                                         .freeze = freeze,
                                         .kind = SW_PROGRAM_TRAIN,
                                         .unverified = true};
    struct sw_program *p = NULL;
    *out = (struct sw_parameter_count){.layers = model->layers};
    if (lora != NULL)
        options.lora = *lora;
    sw_rules_default(&options.rules, SW_ATTENTION_RING);
    if (sw_program_compile(&options, SW_LOGICAL, &p, err) != 0)
        return -1;
    for (int32_t i = 0; i < p->value_count; i++) {
        const struct sw_value *v = &p->values[i];
        int64_t elems = 1;
        if (v->role != SW_ROLE_PARAMETER || v->scales || v->copy || v->parameter == NULL)
            continue;
        for (int32_t d = 0; d < v->ndim; d++)
            elems *= v->size[d];
        out->total += elems * v->stack;
        out->trained += v->frozen ? 0 : elems * v->stack;
        out->of_layer += v->parameter->part == SW_OF_LAYER ? elems : 0;
    }
    sw_program_free(p);
    return 0;
}
