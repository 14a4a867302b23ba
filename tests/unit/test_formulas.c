/* The program's own counts against the closed formulas that the field uses: parameters, flops of a
 * token, bytes that a layer sends for FSDP, TP and the ring, and bytes of memory. h hidden, q =
 * heads x head_dim, g = kv heads x head_dim, f intermediate, V vocabulary, s sequence, b sequences
 * of a micro-step on one rank, t = tp. */
#include "core/ir/workspace.h"
#include "core/cost/links.h"
#include "core/plan/plan.h"
#include "core/ir/op.h"
#include "core/models/parameters.h"
#include "core/programs/compile.h"
#include "tests/unit/plan_support.h"
#include "tests/support/recompute.h"

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
        out->flops += region->repeat * sw_op_cost(p, op).flops;
    const double bytes = (double)sw_op_communication_bytes(p, op);
    if (region->repeat > 1 && bytes > 0) {
        out->calls[op->kind]++;
        out->bytes[op->kind] += bytes;
    }
}

/* One micro-step; gradients reduced in bf16, so that all FSDP traffic is. */
struct setup {
    int kv_heads;
    struct sw_mesh mesh;
    struct sw_recompute recompute;
    bool residual_seq_tp;
    int64_t micro_batch; /* 0: 1 */
    const char *precision;
};

static struct sw_program *compile(struct setup setup)
{
    const int64_t micro_batch = setup.micro_batch > 0 ? setup.micro_batch : 1;
    struct sw_test_run t = sw_test_llama_7b;
    t.kv_heads = setup.kv_heads;
    t.layers = (int)layers;
    t.sequence_length = (long)s;
    t.global_batch_size = setup.mesh.size[SW_DP] * setup.mesh.size[SW_FSDP] * micro_batch;
    t.more = setup.precision != NULL ? setup.precision : "precision: {reduce: bf16}\n";
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_decision decision = {.mesh = setup.mesh,
                                         .train.micro_batch_size = micro_batch,
                                         .train.recompute = setup.recompute,
                                         .train.layout = SW_ZIGZAG,
                                         .train.residual_seq_tp = setup.residual_seq_tp};
    struct sw_program_options options;
    struct sw_program *p = NULL;
    struct sw_error err = {0};
    if (sw_plan_program_options(sw_config_run(config), &decision, &options, &err) != 0 ||
        sw_program_compile(&options, SW_LAID_OUT, &p, &err) != 0)
        fail_msg("%s", err.message);
    sw_config_free(config);
    return p;
}

static struct counts count(int kv_heads, struct sw_mesh mesh, struct sw_recompute recompute,
                           bool residual_seq_tp)
{
    struct sw_program *p = compile((struct setup){.kv_heads = kv_heads,
                                                  .mesh = mesh,
                                                  .recompute = recompute,
                                                  .residual_seq_tp = residual_seq_tp});
    struct counts out = {.tokens = s / mesh.size[SW_SP]};
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
        same(count(kv, sw_mesh_make(1, 1, 1, 1), sw_recompute_none(), false).parameters,
             layers * (layer_weights(kv * head_dim) + 2 * h) + h + 2 * V * h);
}

/* Hardware flops: 6 per weight and token; attention forward 2 products over the causal half, 2 q s
 * a token, and backward 2.5 times that (flash attention makes the scores again: 3.5 where model
 * flops count 3). The head's logits are made once, where the loss and its gradient are: 6 V h; in
 * shards, for the statistics and again in backward: 8 V h. */
static void flops(void **state)
{
    (void)state;
    const double tokens = s;
    for (int kv = 8; kv <= 32; kv *= 4)
        same(count(kv, sw_mesh_make(1, 1, 1, 1), sw_recompute_none(), false).flops,
             tokens * (layers * (6 * layer_weights(kv * head_dim) + 3.5 * 2 * q * s) + 6 * V * h));
    const double split = layers * (6 * layer_weights(8 * head_dim) + 3.5 * 2 * q * s) + 8 * V * h;
    same(2 * count(8, sw_mesh_make(1, 1, 2, 1), sw_recompute_none(), false).flops, tokens * split);
}

/* Full recomputation: forward once more (4/3 of the matmul flops, attention 4.5), without the last
 * product of a layer, whose result backward does not need. */
static void recomputation(void **state)
{
    (void)state;
    const double tokens = s, g = 32 * head_dim;
    same(count(32, sw_mesh_make(1, 1, 1, 1), sw_recompute_full(), false).flops,
         tokens * (layers * (8 * layer_weights(g) - 2 * h * f + 4.5 * 2 * q * s) + 6 * V * h));
}

/* FSDP: gathered in forward, gathered in backward, gradients scattered: 3 x 2 bytes x weights / t,
 * of which a rank sends (n-1)/n. Norms are not sharded. Recomputation adds no gather. */
static void fsdp(void **state)
{
    (void)state;
    for (int32_t t = 1; t <= 4; t *= 2)
        for (uint32_t level = 0; level < 3; level++) { /* layers that are all alike */
            const struct counts c = count(8, sw_mesh_make(1, 16, t, 1),
                                          sw_test_recompute(level, NULL, (int32_t)layers), false);
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
    const struct counts c = count(32, sw_mesh_make(1, 1, 4, 1), sw_recompute_none(), false);
    same(c.calls[SW_OP_ALL_REDUCE], 4);
    same(c.bytes[SW_OP_ALL_REDUCE], 4 * 2 * s * h * 2 * 3 / 4);
}

/* With it: 4 all_gather + 4 reduce_scatter of 2 b s h bytes (Korthikanti et al. 2022, 4.2.2), and
 * two all_gather more, since the inputs of the two column-parallel blocks are kept sharded and
 * gathered again in backward (they count one: they keep the others). */
static void sequence_parallel(void **state)
{
    (void)state;
    const struct counts c = count(32, sw_mesh_make(1, 1, 4, 1), sw_recompute_none(), true);
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
        const struct counts c = count(8, sw_mesh_make(1, 1, 1, sp), sw_recompute_none(), false);
        const double g = 8 * head_dim, block = 2 * 2 * g * s / sp;
        same(c.bytes[SW_OP_ATTENTION], (sp - 1) * block);
        same(c.bytes[SW_OP_ATTENTION_GRAD], (sp - 1) * block + sp * 2 * block);
        same(c.bytes[SW_OP_ALL_GATHER], 2 * 2 * layer_weights(g) * (sp - 1) / sp);
    }
}

/* ---- Memory ---- */

#define DEFAULT_ORDER .order = {SW_DP, SW_FSDP, SW_SP, SW_TP}
static const struct sw_mesh meshes[] = {
    {.size = {1, 1, 1, 1}, DEFAULT_ORDER}, {.size = {4, 1, 1, 1}, DEFAULT_ORDER},
    {.size = {1, 8, 1, 1}, DEFAULT_ORDER}, {.size = {1, 1, 4, 1}, DEFAULT_ORDER},
    {.size = {1, 1, 1, 4}, DEFAULT_ORDER}, {.size = {2, 2, 2, 2}, DEFAULT_ORDER},
    {.size = {1, 4, 4, 8}, DEFAULT_ORDER},
};
enum { MESHES = sizeof meshes / sizeof meshes[0] };

static bool is_gradient_of(const struct sw_op *op, int32_t value)
{
    return op->kind == SW_OP_REDUCE_SCATTER && op->in[0].value == value;
}

static bool is_gathered(const struct sw_op *op, int32_t value)
{
    return op->kind == SW_OP_ALL_GATHER && op->out[0].value == value;
}

/* The most bytes at once of buffers that an op of a layer's loop, of which `is` says so, has. */
static double most_at_once(const struct sw_program *p, enum sw_phase phase,
                           bool (*is)(const struct sw_op *, int32_t))
{
    double most = 0;
    for (int32_t at = 0; at < p->op_count; at++) {
        double bytes = 0;
        for (int32_t i = 0; i < sw_program_block_count(p); i++) {
            const struct sw_arena_block block = sw_program_block(p, i);
            bool wanted = false;
            if (block.value < 0 || block.first > at || block.last < at)
                continue;
            for (int32_t r = 0; r < p->region_count; r++)
                for (int32_t k = 0; k < p->regions[r].op_count && p->regions[r].repeat > 1; k++)
                    wanted = wanted || (p->regions[r].phase == phase &&
                                        is(&p->ops[p->regions[r].first_op + k], block.value));
            bytes += wanted ? (double)block.bytes : 0;
        }
        most = fmax(most, bytes);
    }
    return most;
}

/* What attention works in on a GPU is added to the op's own, which the papers count. */
static double library_of(const struct sw_program *p, const struct sw_op *op)
{
    if (!sw_op_is_ring(op) || !p->target.cudnn_attention)
        return 0;
    const struct sw_value *q = &p->values[op->in[0].value], *k = &p->values[op->in[1].value];
    const bool hops = sw_axes_size(&p->mesh, op->axes) > 1;
    return (double)sw_attention_library_bytes(q->local, k->local, op->as.attention.head_dim,
                                              q->dtype, hops, !hops,
                                              op->kind == SW_OP_ATTENTION_GRAD);
}

static double workspace_of(const struct sw_program *p, enum sw_op_kind kind)
{
    double bytes = 0;
    for (int32_t i = 0; i < p->op_count; i++)
        if (p->ops[i].kind == kind)
            bytes = fmax(bytes, (double)p->ops[i].workspace_bytes - library_of(p, &p->ops[i]));
    return bytes;
}

/* Bytes of what forward keeps for backward: an instance for each layer, and the residual stream's
 * one more behind the last. */
static double saved(const struct sw_program *p)
{
    double bytes = 0;
    for (int32_t v = 0; v < p->value_count; v++) {
        const struct sw_value *value = &p->values[v];
        if (value->role == SW_ROLE_ACTIVATION && sw_program_is_stored(p, v) &&
            value->slots >= p->layers)
            bytes += (double)value->slot_bytes * value->slots;
    }
    return bytes;
}

/* 4 bytes each of weight, gradient and Adam's two moments, divided by fsdp, tp and sp, not by dp
 * (ZeRO-3 with fp32 states: 16 P / (fsdp t); sp shards weights as in LWM). Norms are not sharded:
 * 16 (2 L + 1) h bytes more than a rank's part of them. Gradients that are reduced in bf16 are kept
 * in it: 14 bytes. */
static void states(void **state)
{
    (void)state;
    for (int32_t i = 0; i < MESHES; i++)
        for (int narrow = 0; narrow <= 1; narrow++) {
            struct sw_program *p =
                compile((struct setup){.kv_heads = 8,
                                       .mesh = meshes[i],
                                       .precision = narrow == 1 ? NULL : "precision: {}\n"});
            const double ways = sw_mesh_rank_count(&meshes[i]) / meshes[i].size[SW_DP];
            const double norms = (2 * layers + 1) * h;
            const double weights = layers * layer_weights(8 * head_dim) + 2 * V * h + norms;
            const double each = weights / ways + norms * (1 - 1 / ways);
            same((double)p->parameter_bytes, 4 * each);
            same((double)p->gradient_bytes, (narrow == 1 ? 2 : 4) * each);
            same((double)p->optimizer_bytes, 8 * each);
            sw_program_free(p);
        }
}

/* The minimal set that a block of RMSNorm, grouped-query attention, RoPE, flash attention and
 * SwiGLU keeps, in bytes of bf16: s b (8 h + 4 q + 4 g + 4 n_q + 6 f). Inputs of both norms and
 * their results (8 h), q and k turned, v, o, the softmax's log-sum-exp in fp32 (4 n_q), and gate,
 * up and their product. sp divides s. tp divides all but 8 h; with sequence parallelism that too
 * (Korthikanti et al. 2022, table 2). One residual stream more stands behind the last layer: 2 s b
 * h. */
static void activations(void **state)
{
    (void)state;
    const double g = 8 * head_dim;
    for (int32_t i = 0; i < MESHES; i++)
        for (int64_t b = 1; b <= 2; b++)
            for (int megatron = 0; megatron <= 1; megatron++) {
                struct sw_program *p = compile((struct setup){.kv_heads = 8,
                                                              .mesh = meshes[i],
                                                              .residual_seq_tp = megatron == 1,
                                                              .micro_batch = b});
                const double t = meshes[i].size[SW_TP],
                             tokens = s / meshes[i].size[SW_SP] * (double)b;
                const double residual = megatron == 1 ? h / t : h;
                same(saved(p),
                     tokens * (layers * (8 * residual + (4 * q + 4 * g + 4 * 32 + 6 * f) / t) +
                               2 * residual));
                sw_program_free(p);
            }
}

/* What comes before attention made again from the layer's input, attention's output and its
 * log-sum-exp kept: 6 h + 2 q + 4 x 32 heads + 6 f. Full recomputation keeps the inputs of layers:
 * 2 s b h each. */
static void recomputed_activations(void **state)
{
    (void)state;
    for (int32_t i = 0; i < MESHES; i++)
        for (int megatron = 0; megatron <= 1; megatron++) {
            struct setup setup = {
                .kv_heads = 8, .mesh = meshes[i], .residual_seq_tp = megatron == 1};
            const double t = meshes[i].size[SW_TP], tokens = s / meshes[i].size[SW_SP];
            const double residual = megatron == 1 ? h / t : h;
            setup.recompute = sw_recompute_all(sw_test_values_before(NULL, "o"));
            struct sw_program *p = compile(setup);
            same(saved(p),
                 tokens * (layers * (6 * residual + (2 * q + 4 * 32 + 6 * f) / t) + 2 * residual));
            sw_program_free(p);
            setup.recompute = sw_recompute_full();
            p = compile(setup);
            same(saved(p), tokens * (layers + 1) * 2 * residual);
            sw_program_free(p);
        }
}

/* FSDP gathers a layer while it computes with another: PyTorch holds two gathered layers, 2 x 2
 * bytes x weights / t. Here it is one: the next layer's matrix goes into the buffer of this layer's
 * once that was used. Beside it stands the unsharded gradient of one matrix and not of a layer,
 * since each is reduced and scattered before the next is made; in fp32 unless reduced in bf16. */
static void fsdp_transients(void **state)
{
    (void)state;
    for (int32_t t = 1; t <= 4; t *= 2)
        for (uint32_t level = 0; level < 5; level++)
            for (int wide = 0; wide <= 1; wide++) {
                struct sw_program *p = compile(
                    (struct setup){.kv_heads = 8,
                                   .mesh = sw_mesh_make(1, 8, t, 1),
                                   .recompute = sw_test_recompute(level, NULL, (int32_t)layers),
                                   .precision = wide == 1 ? "precision: {reduce: fp32}\n" : NULL});
                const double gathered = 2 * layer_weights(8 * head_dim) / t;
                same(most_at_once(p, SW_PHASE_FORWARD, is_gathered), gathered);
                same(most_at_once(p, SW_PHASE_BACKWARD, is_gathered), gathered);
                same(most_at_once(p, SW_PHASE_BACKWARD, is_gradient_of),
                     (wide == 1 ? 4 : 2) * h * f / t);
                sw_program_free(p);
            }
}

/* The ring's keys and values, the block at hand and the one arriving: 2 x 2 x 2 g (s/sp) b bytes of
 * bf16; where kv heads are as many as query heads these, q and o are the 6 b c h elements of Liu et
 * al. 2023, whatever s is. Beside them the running result in fp32: o and its two softmax rows,
 * backward dq. dk and dv travel in fp32, 2 x 4 g (s/sp) b, three times: one is computed while one
 * arrives and one is sent. */
static void ring_buffers(void **state)
{
    (void)state;
    for (int kv = 8; kv <= 32; kv *= 4)
        for (int32_t sp = 2; sp <= 8; sp *= 2)
            for (int32_t t = 1; t <= 2; t++)
                for (int64_t b = 1; b <= 2; b++) {
                    struct sw_program *p = compile((struct setup){
                        .kv_heads = kv, .mesh = sw_mesh_make(1, 1, t, sp), .micro_batch = b});
                    const double c = s / sp * (double)b, g = kv * head_dim;
                    const double rotating = 2 * 2 * 2 * g * c / t, wide = 4 * c / t;
                    same(workspace_of(p, SW_OP_ATTENTION), rotating + wide * (q + 2 * 32));
                    same(workspace_of(p, SW_OP_ATTENTION_GRAD),
                         rotating + wide * q + 3 * 2 * wide * g);
                    if (kv == 32)
                        same(rotating / 2 + 2 * c * q / t, 6 * c * h / t);
                    sw_program_free(p);
                }
}

/* Whole logits would be 2 + 4 + 4 bytes (bf16, fp32 and their gradient) for each token and word:
 * 10 s b V / t. They never exist: the loss takes chunks of tokens, so that the largest there ever
 * is are 4 bytes of a chunk, as many chunks as keep one within 2^22 elements or 2048 tokens. */
static void logits(void **state)
{
    (void)state;
    for (int32_t t = 1; t <= 4; t *= 2)
        for (int64_t b = 1; b <= 4; b *= 4) {
            struct sw_program *p =
                compile((struct setup){.kv_heads = 8,
                                       .mesh = sw_mesh_make(1, 1, t, 1),
                                       .micro_batch = b,
                                       .precision = "precision: {reduce: fp32}\n"});
            const double tokens = s * (double)b, words = V / t;
            const double chunks = ceil(tokens / fmax(floor((1 << 22) / words), 2048));
            const double chunk = 4 * ceil(tokens / chunks) * words;
            assert_true(chunk <= fmax(4 * (1 << 22), 4 * 2048 * words));
            if (t > 1) /* where the vocabulary is whole, the gradient makes the loss */
                same(workspace_of(p, SW_OP_LM_HEAD_STATS), chunk);
            same(workspace_of(p, SW_OP_LM_HEAD_GRAD), chunk);
            for (int32_t v = 0; v < p->value_count; v++)
                if (p->values[v].role == SW_ROLE_ACTIVATION && p->values[v].ndim == 3 &&
                    p->values[v].axis[2] == SW_L_VOCAB) /* the statistics of each token */
                    assert_true((double)p->values[v].slot_bytes <= tokens * t * 3 * 4);
            sw_program_free(p);
        }
}

/* Nothing else of that size: the arena is the states, what is saved, the largest workspace (the
 * head's), and either what stands beside that, the head's weights with, where they are sharded,
 * their unsharded gradient, its input and its cotangent; or what a layer's loop needs: the gathered
 * matrices, a gradient and its shard, and cotangents, at most three of f, three of q and seven of h
 * at once. */
static void the_rest(void **state)
{
    (void)state;
    for (int32_t i = 0; i < MESHES; i++) {
        struct sw_program *p = compile((struct setup){.kv_heads = 8, .mesh = meshes[i]});
        const double t = meshes[i].size[SW_TP], tokens = s / meshes[i].size[SW_SP];
        const bool sharded = meshes[i].size[SW_FSDP] * meshes[i].size[SW_SP] > 1;
        const double head = (sharded ? 4 : 2) * V * h / t + 2 * 2 * tokens * h;
        const double layer = 2 * layer_weights(8 * head_dim) / t + 4 * h * f / t +
                             2 * tokens * (3 * (f + q) / t + 7 * h);
        const double known = (double)(p->parameter_bytes + p->gradient_bytes + p->optimizer_bytes) +
                             saved(p) + workspace_of(p, SW_OP_LM_HEAD_GRAD),
                     rest = (double)p->arena_bytes - known;
        assert_true(rest >= head);
        assert_true(rest <= fmax(layer, head));
        sw_program_free(p);
    }
}

static double local_bytes(const struct sw_program *p, const struct sw_ref *refs, uint8_t count)
{
    double bytes = 0;
    for (uint8_t i = 0; i < count; i++) {
        const struct sw_value *value = &p->values[refs[i].value];
        bytes += (double)value->slot_bytes * (refs[i].mode == SW_INDEX_WHOLE ? value->stack : 1);
    }
    return bytes;
}

/* What collectives of a program send, and the factor that measured ones are priced with. */
static void bus_factors(void **state)
{
    (void)state;
    struct sw_program *p =
        compile((struct setup){.kv_heads = 32, .mesh = sw_mesh_make(2, 4, 2, 2)});
    int32_t seen[SW_OP_COUNT] = {0};
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        const int32_t ranks = sw_axes_size(&p->mesh, op->axes);
        if (!sw_op_is_collective(op->kind) || op->kind == SW_OP_SLICE || ranks == 1)
            continue;
        const double in = local_bytes(p, op->in, op->n_in);
        const double out = local_bytes(p, op->out, op->n_out);
        const double wanted =
            sw_links_sent_share(sw_op_collective(op->kind), ranks) * fmax(in, out);
        /* whole bytes: a sum of one number has no part for each rank */
        assert_true(fabs((double)sw_op_communication_bytes(p, op) - wanted) < 2 * ranks);
        seen[op->kind]++;
    }
    assert_true(seen[SW_OP_ALL_GATHER] > 0 && seen[SW_OP_REDUCE_SCATTER] > 0 &&
                seen[SW_OP_ALL_REDUCE] > 0);
    sw_program_free(p);
}

/* The sums of the tensors in the files that were published with these configurations. */
static void published_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int64_t parameters;
    } cases[] = {{"llama-3.2-1b", 1235814400},    {"smollm2-1.7b", 1711376384},
                 {"mistral-7b-v0.3", 7248023552}, {"qwen2.5-7b", 7615616512},
                 {"llama-3.1-8b", 8030261248},    {"qwen3-8b", 8190735360},
                 {"qwen3-32b", 32762123264},      {"llama-3.1-70b", 70553706496},
                 {"llama-3.1-405b", 405853388800}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[128];
        struct sw_parameter_count count;
        snprintf(path, sizeof path, "configs/models/%s.yaml", cases[i].model);
        struct sw_config *config = sw_config_read(path, SW_CONFIG_MODEL, NULL, NULL, 0, NULL);
        assert_non_null(config);
        assert_int_equal(
            sw_program_count_parameters(&sw_config_model(config)->shape, NULL, NULL, &count, NULL),
            0);
        if (count.total != cases[i].parameters)
            fail_msg("%s: %lld parameters, published %lld", cases[i].model, (long long)count.total,
                     (long long)cases[i].parameters);
        assert_int_equal(count.trained, count.total);
        sw_config_free(config);
    }
}

/* Models of all kinds, counted by hand; what is frozen is not trained. */
static void drawn_parameters(void **state)
{
    (void)state;
    uint32_t seed = 5;
    for (int i = 0; i < 200; i++) {
        uint32_t d[12];
        for (int k = 0; k < 12; k++)
            d[k] = (seed = seed * 1664525u + 1013904223u) >> 16;
        struct sw_model m = {.vocab_size = 1 + d[0] % 50000,
                             .hidden_size = 2 + d[1] % 9000,
                             .intermediate_size = 1 + d[2] % 30000,
                             .layers = 1 + (int32_t)(d[3] % 130),
                             .kv_heads = 1 + (int32_t)(d[4] % 16),
                             .head_dim = 2 * (1 + (int32_t)(d[5] % 128)),
                             .tied = d[6] % 2 == 0,
                             .qkv_bias = d[7] % 2 == 0,
                             .output_bias = d[8] % 2 == 0,
                             .mlp_bias = d[9] % 2 == 0,
                             .qk_norm = d[10] % 2 == 0};
        m.heads = m.kv_heads * (1 + (int32_t)(d[11] % 8));
        const int64_t hidden = m.hidden_size, wide = m.intermediate_size,
                      queries = (int64_t)m.heads * m.head_dim,
                      keys = (int64_t)m.kv_heads * m.head_dim;
        const int64_t mlp = 3 * hidden * wide + (m.mlp_bias ? 2 * wide + hidden : 0);
        const int64_t layer = 2 * hidden + hidden * (2 * queries + 2 * keys) + mlp +
                              (m.qkv_bias ? queries + 2 * keys : 0) + (m.output_bias ? hidden : 0) +
                              (m.qk_norm ? 2 * m.head_dim : 0);
        struct sw_parameter_count count;
        assert_int_equal(sw_program_count_parameters(&m, "model.layers.*.mlp", NULL, &count, NULL),
                         0);
        assert_int_equal(count.of_layer, layer);
        assert_int_equal(count.total,
                         m.layers * layer + hidden + (m.tied ? 1 : 2) * m.vocab_size * hidden);
        assert_int_equal(count.total - count.trained, m.layers * mlp);
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
        cmocka_unit_test(states),
        cmocka_unit_test(activations),
        cmocka_unit_test(recomputed_activations),
        cmocka_unit_test(fsdp_transients),
        cmocka_unit_test(ring_buffers),
        cmocka_unit_test(logits),
        cmocka_unit_test(the_rest),
        cmocka_unit_test(bus_factors),
        cmocka_unit_test(published_parameters),
        cmocka_unit_test(drawn_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
