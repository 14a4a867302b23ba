#include "core/program/op/op.h"

/* The part of an op's flops that is not done a second time: attention's gradient scores its pairs
 * again (4 products of 5), the head's makes its logits again (2 of 3) unless the loss is its own.
 */
static double model_share(const struct sw_op *op)
{
    if (op->stage == SW_STAGE_RECOMPUTE)
        return 0;
    switch (op->kind) {
    case SW_OP_RING_ATTENTION_GRAD:
        return 4.0 / 5.0;
    case SW_OP_LM_HEAD_GRAD:
        return op->n_in == 3 ? 1 : 2.0 / 3.0;
    default:
        return 1;
    }
}

int sw_program_model_flops(const struct sw_program_options *options, double *out,
                           struct sw_error *err)
{
    struct sw_program_options one = *options;
    struct sw_program *p = NULL;
    one.mesh = sw_mesh_make(1, 1, 1, 1);
    one.global_batch = one.micro_batch_per_rank = 1;
    one.recompute = 0;
    *out = 0;
    if (sw_program_compile(&one, SW_LAID_OUT, &p, err) != 0)
        return -1;
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const struct sw_op_info *info = sw_op_info(p->ops[i].kind);
            if (info->cost_class == SW_CLASS_MATMUL || info->cost_class == SW_CLASS_ATTENTION)
                *out += info->cost(p, &p->ops[i]).flops * model_share(&p->ops[i]) * region->repeat;
        }
    }
    *out *= (double)options->global_batch;
    sw_program_free(p);
    return 0;
}
