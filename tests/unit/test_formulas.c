/* The program's own counts against the closed formulas that the field uses: parameters, flops of a
 * token, bytes of a layer for FSDP, TP and the ring. h hidden, q = heads x head_dim, g = kv heads x
 * head_dim, f intermediate, V vocabulary, s sequence, b sequences of a micro-step on one rank, t =
 * tp. */
#include "core/plan/plan.h"
#include "core/program/op.h"
#include "tests/unit/plan_support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const double h = 4096, q = 4096, f = 11008, V = 32000, layers = 8, s = 4096, head_dim = 128;

struct counts {
    double parameters, flops;
    double calls[SW_OP_COUNT], bytes[SW_OP_COUNT]; /* of one layer, forward and backward; sent */
    double tokens;                                 /* of one rank in a micro-step */
};

static void count_op(const struct sw_program *p, const struct sw_region *region,
                     const struct sw_op *op, struct counts *out)
{
    const struct sw_op_info *info = sw_op_info(op->kind);
    if (info->cost_class == SW_CLASS_MATMUL || info->cost_class == SW_CLASS_ATTENTION)
        out->flops += region->repeat * info->cost(p, op).flops;
    const double bytes = (double)sw_op_communication_bytes(p, op);
    if (region->repeat > 1 && bytes > 0) {
        out->calls[op->kind]++;
        out->bytes[op->kind] += bytes;
    }
}

/* micro-batch 1, one micro-step; gradients reduced in bf16, so that all FSDP traffic is. */
static struct counts count(int kv_heads, struct sw_mesh mesh, enum sw_recompute recompute,
                           bool residual_seq_tp)
{
    struct sw_test_run t = sw_test_llama_7b;
    t.kv_heads = kv_heads;
    t.layers = (int)layers;
    t.sequence_length = (long)s;
    t.global_batch_size = mesh.size[SW_DP] * mesh.size[SW_FSDP];
    t.more = "precision: {reduce: bf16}\n";
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_decision decision = {.mesh = mesh,
                                         .micro_batch_size = 1,
                                         .recompute = recompute,
                                         .layout = SW_LAYOUT_ZIGZAG,
                                         .residual_seq_tp = residual_seq_tp};
    struct sw_program_options options;
    struct sw_program *p = NULL;
    struct sw_error err = {0};
    struct counts out = {.tokens = s / mesh.size[SW_SP]};
    if (sw_plan_program_options(sw_config_run(config), &decision, &options, &err) != 0 ||
        sw_program_compile(&options, SW_LAID_OUT, &p, &err) != 0)
        fail_msg("%s", err.message);
    for (int32_t v = 0; v < p->value_count; v++) {
        double elems = p->values[v].stack;
        for (uint8_t d = 0; d < p->values[v].ndim; d++)
            elems *= (double)p->values[v].size[d];
        if (p->values[v].role == SW_ROLE_PARAMETER)
            out.parameters += elems;
    }
    for (int32_t r = 0; r < p->region_count; r++)
        for (int32_t i = 0; i < p->regions[r].op_count; i++)
            count_op(p, &p->regions[r], &p->ops[p->regions[r].first_op + i], &out);
    sw_program_free(p);
    sw_config_free(config);
    return out;
}

static void same(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-12 * fabs(wanted)))
        fail_msg("%.17g, not %.17g", value, wanted);
}

/* Weights in matrix products of a layer: h (q + 2 g) + q h + 3 h f. */
static double layer_weights(double g)
{
    return h * (q + 2 * g) + q * h + 3 * h * f;
}

/* Two norms of h a layer, one at the end; embedding and head, untied. */
static void parameters(void **state)
{
    (void)state;
    for (int kv = 8; kv <= 32; kv *= 4)
        same(count(kv, sw_mesh_make(1, 1, 1, 1), SW_RECOMPUTE_NONE, false).parameters,
             layers * (layer_weights(kv * head_dim) + 2 * h) + h + 2 * V * h);
}

/* Hardware flops: 6 per weight and token; attention forward 2 products over the causal half, 2 q s
 * a token, and backward 2.5 times that (flash attention makes the scores again: 3.5 where model
 * flops count 3). The head makes its logits once more in backward: 8 V h, not 6. */
static void flops(void **state)
{
    (void)state;
    const double tokens = s;
    for (int kv = 8; kv <= 32; kv *= 4)
        same(count(kv, sw_mesh_make(1, 1, 1, 1), SW_RECOMPUTE_NONE, false).flops,
             tokens * (layers * (6 * layer_weights(kv * head_dim) + 3.5 * 2 * q * s) + 8 * V * h));
}

/* Full recomputation: forward once more (4/3 of the matmul flops, attention 4.5), without the last
 * product of a layer, whose result backward does not need. */
static void recomputation(void **state)
{
    (void)state;
    const double tokens = s, g = 32 * head_dim;
    same(count(32, sw_mesh_make(1, 1, 1, 1), SW_RECOMPUTE_FULL, false).flops,
         tokens * (layers * (8 * layer_weights(g) - 2 * h * f + 4.5 * 2 * q * s) + 8 * V * h));
}

/* FSDP: gathered in forward, gathered in backward, gradients scattered: 3 x 2 bytes x weights / t,
 * of which a rank sends (n-1)/n. Norms are not sharded. Recomputation adds no gather. */
static void fsdp(void **state)
{
    (void)state;
    for (int32_t t = 1; t <= 4; t *= 2)
        for (int level = SW_RECOMPUTE_NONE; level <= SW_RECOMPUTE_FULL; level++) {
            const struct counts c =
                count(8, sw_mesh_make(1, 16, t, 1), (enum sw_recompute)level, false);
            const double all = 2 * layer_weights(8 * head_dim) / t * 15 / 16;
            same(c.bytes[SW_OP_ALL_GATHER], 2 * all);
            same(c.bytes[SW_OP_REDUCE_SCATTER], all);
            same(c.calls[SW_OP_ALL_GATHER], 14);
            same(c.calls[SW_OP_REDUCE_SCATTER], 7);
        }
}

/* TP without sequence parallelism: two all_reduce of 2 b s h bytes in each direction, of which a
 * rank sends 2 (t-1)/t (Shoeybi et al. 2019). */
static void tensor_parallel(void **state)
{
    (void)state;
    const struct counts c = count(32, sw_mesh_make(1, 1, 4, 1), SW_RECOMPUTE_NONE, false);
    same(c.calls[SW_OP_ALL_REDUCE], 4);
    same(c.bytes[SW_OP_ALL_REDUCE], 4 * 2 * s * h * 2 * 3 / 4);
}

/* With it: 4 all_gather + 4 reduce_scatter of 2 b s h bytes (Korthikanti et al. 2022, 4.2.2), and
 * two all_gather more, since the inputs of the two column-parallel blocks are kept sharded and
 * gathered again in backward (they count one: they keep the others). */
static void sequence_parallel(void **state)
{
    (void)state;
    const struct counts c = count(32, sw_mesh_make(1, 1, 4, 1), SW_RECOMPUTE_NONE, true);
    const double one = 2 * s * h * 3 / 4;
    same(c.calls[SW_OP_ALL_GATHER], 6);
    same(c.bytes[SW_OP_ALL_GATHER], 6 * one);
    same(c.calls[SW_OP_REDUCE_SCATTER], 4);
    same(c.bytes[SW_OP_REDUCE_SCATTER], 4 * one);
}

/* The ring: sp-1 hops of a block's keys and values, 2 x 2 g s/sp bytes, forward and again backward;
 * there dk and dv travel in fp32 as well, and sp hops, home. sp also shards the weights. */
static void ring(void **state)
{
    (void)state;
    for (int32_t sp = 2; sp <= 8; sp *= 2) {
        const struct counts c = count(8, sw_mesh_make(1, 1, 1, sp), SW_RECOMPUTE_NONE, false);
        const double g = 8 * head_dim, block = 2 * 2 * g * s / sp;
        same(c.bytes[SW_OP_RING_ATTENTION], (sp - 1) * block);
        same(c.bytes[SW_OP_RING_ATTENTION_GRAD], (sp - 1) * block + sp * 2 * block);
        same(c.bytes[SW_OP_ALL_GATHER], 2 * 2 * layer_weights(g) * (sp - 1) / sp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters),
        cmocka_unit_test(flops),
        cmocka_unit_test(recomputation),
        cmocka_unit_test(fsdp),
        cmocka_unit_test(tensor_parallel),
        cmocka_unit_test(sequence_parallel),
        cmocka_unit_test(ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
