#include "core/ir/op.h"
#include "core/programs/compile.h"

int sw_program_model_flops(const struct sw_program_options *options, double *out,
                           struct sw_error *err)
{
    struct sw_program_options one = *options;
    struct sw_program *p = NULL;
    one.mesh = sw_mesh_make(1, 1, 1, 1);
    one.global_batch = one.micro_batch_per_rank = 1;
    one.recompute = sw_recompute_none();
    *out = 0;
    if (sw_program_compile(&one, SW_LAID_OUT, &p, err) != 0)
        return -1;
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            const struct sw_op_info *info = sw_op_info(op->kind);
            if (op->stage == SW_STAGE_RECOMPUTE ||
                (info->cost_class != SW_CLASS_MATMUL && info->cost_class != SW_CLASS_ATTENTION))
                continue;
            const double share = info->model_share != NULL ? info->model_share(op) : 1;
            *out += sw_op_cost(p, op).flops * share * sw_region_times(region, op->position);
        }
    }
    *out *= (double)options->global_batch;
    sw_program_free(p);
    return 0;
}
