/* Time of one op alone. Its shape decides how much of the machine it can use; a profile adds three
 * measured numbers: the shares of peak that large matrix products and attention reach, and the
 * share of the memory's bandwidth. */
#include "core/base/hash.h"
#include "core/base/quantize.h"
#include "core/cost/cost.h"

#include "core/cost/links.h"
#include "core/ir/messages.h"
#include "core/ir/ring.h"

#include <math.h>

/* True if a curve has several points: shares by size as measured, for any shape; a single point is
 * the share of large sizes. */
static bool is_measured(const struct sw_curve *curve)
{
    return curve->count > 1;
}

/* Share of the multiprocessors that have a tile, times the tile's share of its full speed, for the
 * best tile. */
static double tile_share(const struct sw_device_prices *device, double m, double n, int32_t units)
{
    const struct {
        double rows, columns, share;
    } tiles[] = {{256, 128, 1}, {128, 128, device->middle_tile}, {64, 64, device->small_tile}};
    double best = 0;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        const double count = ceil(m / tiles[i].rows) * ceil(n / tiles[i].columns);
        const double waves = ceil(count / units);
        const double share =
            tiles[i].share * m * n / (waves * units * tiles[i].rows * tiles[i].columns);
        best = share > best ? share : best;
    }
    return best;
}

/* The profile's share at a size; for an unsettled profile, the default. */
static double share_of(const struct sw_cluster_config *cluster, const struct sw_curve *curve,
                       double size)
{
    if (curve->count > 0)
        return sw_cost_efficiency(curve, size, 1);
    const struct sw_profile_config assumed = sw_profile_default(&cluster->accelerator);
    return sw_cost_efficiency(curve == &cluster->profile.matmul      ? &assumed.matmul
                              : curve == &cluster->profile.attention ? &assumed.attention
                                                                     : &assumed.memory,
                              size, 1);
}

static double peak_of(const struct sw_cluster_config *cluster, enum sw_dtype dtype)
{
    const struct sw_profile_config *p = &cluster->profile;
    const struct sw_accelerator_config *a = &cluster->accelerator;
    if (dtype == SW_BF16_T)
        return p->peak_bf16_flops > 0 ? p->peak_bf16_flops : a->peak_bf16_flops;
    return p->peak_fp32_flops > 0 ? p->peak_fp32_flops : a->peak_fp32_flops;
}

double sw_cost_matmul_share(const struct sw_cluster_config *cluster, double m, double n, double k)
{
    const struct sw_accelerator_config *a = &cluster->accelerator;
    const struct sw_curve *curve = &cluster->profile.matmul;
    const double share = share_of(cluster, curve, 2 * m * n * k);
    if (is_measured(curve) || !sw_device_row(a->device)->tiled)
        return share;
    const struct sw_device_prices *device = sw_accelerator_prices(a);
    return share * k / (k + device->half_depth) *
           (a->compute_units > 0 ? tile_share(device, m, n, a->compute_units) : 1);
}

double sw_cost_attention_shape(const struct sw_accelerator_config *a, double head_dim,
                               double length)
{
    if (!sw_device_row(a->device)->tiled)
        return 1;
    const struct sw_device_prices *device = sw_accelerator_prices(a);
    return head_dim * (128 + device->half_head) / (128 * (head_dim + device->half_head)) * length /
           (length + device->diagonal_block);
}

/* flops: of one call. A curve, too, is for long calls with heads of 128. */
static double attention_share(const struct sw_cluster_config *cluster, const struct sw_curve *curve,
                              double flops, double head_dim, double length)
{
    return share_of(cluster, curve, flops) *
           sw_cost_attention_shape(&cluster->accelerator, head_dim, length);
}

double sw_cost_attention_share(const struct sw_cluster_config *cluster, double flops,
                               double head_dim, double length)
{
    return attention_share(cluster, &cluster->profile.attention, flops, head_dim, length);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double bandwidth_of(const struct sw_cluster_config *cluster)
{
    const struct sw_profile_config *p = &cluster->profile;
    return p->memory_bandwidth > 0 ? p->memory_bandwidth : cluster->accelerator.memory_bandwidth;
}

static double memory_seconds(const struct sw_cluster_config *cluster, double bytes)
{
    return bytes / (bandwidth_of(cluster) * share_of(cluster, &cluster->profile.memory, bytes));
}

enum sw_attention_phase sw_cost_attention_phase(const struct sw_program *p, const struct sw_op *op,
                                                double met, struct sw_product *size)
{
    const struct sw_value *q = &p->values[op->in[0].value], *keys = &p->values[op->in[1].value];
    const bool cached = op->as.attention.keys != SW_KEYS_SEQUENCE;
    const double heads = (double)(q->local[2] / op->as.attention.head_dim);
    /* for a ring's blocks, the whole sequence: it has as large a part above the diagonal */
    *size = (struct sw_product){.m = cached ? (double)q->local[1] : heads * (double)q->local[0],
                                .n = cached ? met * (double)keys->local[1] : (double)q->size[1],
                                .k = op->as.attention.head_dim};
    return op->kind == SW_OP_ATTENTION_GRAD ? SW_ATTENTION_BACKWARD
           : cached                         ? SW_ATTENTION_CACHED
                                            : SW_ATTENTION_FORWARD;
}

/* Seconds by size if the profile gives it, with its memory traffic; < 0: not given. */
static double sized_attention_seconds(const struct sw_program *p, const struct sw_op *op,
                                      const struct sw_cluster_config *cluster, double flops,
                                      double met, double step_bytes)
{
    const struct sw_profile_config *profile = &cluster->profile;
    const enum sw_dtype dtype = p->values[op->in[0].value].dtype;
    struct sw_product s;
    const enum sw_attention_phase phase = sw_cost_attention_phase(p, op, met, &s);
    /* a cache of another type has other bytes and arithmetic */
    if ((dtype != SW_BF16_T && dtype != SW_F32) ||
        (phase == SW_ATTENTION_CACHED && p->values[op->in[1].value].dtype != dtype))
        return -1;
    const struct sw_products *grid =
        profile->attention_by_size[phase][dtype == SW_BF16_T ? SW_RATE_BF16 : SW_RATE_FP32];
    if (grid == NULL)
        return -1;
    const double reached = sw_cost_efficiency(&profile->attention_scale, step_bytes, 1) *
                           sw_cost_products_share(grid, s.m, s.n, s.k);
    return flops / (peak_of(cluster, dtype) * (reached < 1 ? reached : 1));
}

/* For devices with their own kernels of attention over a cache: the profile's share applies to the
 * fp32 peak if queries or cache are fp32, else to its part of the tensor cores' peak. Tiles cut in
 * half by the diagonal occur in training; a single token has none. */
static double cached_seconds(const struct sw_program *p, const struct sw_op *op,
                             const struct sw_cluster_config *cluster, double flops)
{
    const bool wide =
        p->values[op->in[0].value].dtype != SW_BF16_T || p->values[op->in[1].value].dtype == SW_F32;
    const double rate = wide ? peak_of(cluster, SW_F32)
                             : peak_of(cluster, SW_BF16_T) *
                                   sw_accelerator_prices(&cluster->accelerator)->cache_share;
    return flops / (rate * share_of(cluster, &cluster->profile.attention, flops));
}

static double attention_seconds(const struct sw_program *p, const struct sw_op *op,
                                const struct sw_cluster_config *cluster, double flops)
{
    const double length = (double)p->values[op->in[0].value].local[1];
    const double head_dim = (double)op->as.attention.head_dim;
    if (sw_accelerator_prices(&cluster->accelerator)->cache_share > 0 &&
        p->values[op->in[1].value].role == SW_ROLE_CACHE)
        return cached_seconds(p, op, cluster, flops);
    const struct sw_profile_config *profile = &cluster->profile;
    struct sw_ring_blocks blocks = {.ranks = 1, .rings = 1};
    if (sw_op_is_ring(op))
        sw_ring_blocks_of(p, op, &blocks);
    const double calls = sw_ring_sum(&blocks).attends;
    const bool backward = op->kind == SW_OP_ATTENTION_GRAD && profile->attention_backward.count > 0;
    return flops /
           (peak_of(cluster, p->values[op->in[0].value].dtype) *
            attention_share(cluster, backward ? &profile->attention_backward : &profile->attention,
                            flops / calls, head_dim, length));
}

/* Measured products: the profile's own, or in bf16 the chip's; NULL: by tiles. A profile measured
 * by sizes uses only its own. */
static const struct sw_products *products_of(const struct sw_cluster_config *cluster,
                                             enum sw_dtype dtype, enum sw_product_kind kind)
{
    const struct sw_profile_config *profile = &cluster->profile;
    if (dtype != SW_BF16_T && dtype != SW_F32)
        return NULL;
    const struct sw_products *own =
        profile->products[kind][dtype == SW_BF16_T ? SW_RATE_BF16 : SW_RATE_FP32];
    if (own != NULL || dtype != SW_BF16_T || !sw_device_row(cluster->accelerator.device)->tiled)
        return own;
    return is_measured(&profile->matmul) ? NULL : cluster->accelerator.products;
}

/* True if that grid is the chip's. */
static bool is_of_chip(const struct sw_cluster_config *cluster, const struct sw_products *grid)
{
    return grid != NULL && grid == cluster->accelerator.products;
}

/* Factor of the profile's software on the speed of such products. */
static double software_of(const struct sw_cluster_config *cluster, const struct sw_products *grid,
                          double step_bytes)
{
    const double large = 1e18; /* flops at which a profile measured by sizes is asked */
    if (!is_of_chip(cluster, grid) && cluster->profile.products_scale.count > 0)
        return sw_cost_efficiency(&cluster->profile.products_scale, step_bytes, 1);
    return share_of(cluster, &cluster->profile.matmul, large) / grid->asymptote;
}

static double product_bytes(const struct sw_product *s, enum sw_dtype dtype)
{
    return (double)sw_dtype_bytes(dtype) * (s->m * s->k + s->k * s->n + s->m * s->n);
}

/* Arithmetic alone, by tiles. */
static double tiled_seconds(const struct sw_cluster_config *cluster, double peak,
                            const struct sw_product *s)
{
    return 2 * s->m * s->n * s->k / (peak * sw_cost_matmul_share(cluster, s->m, s->n, s->k));
}

static double roofline_seconds(const struct sw_cluster_config *cluster, enum sw_dtype dtype,
                               const struct sw_product *s)
{
    return larger(memory_seconds(cluster, product_bytes(s, dtype)),
                  tiled_seconds(cluster, peak_of(cluster, dtype), s));
}

/* Time of the chip's own libraries, times the factor of the profile's software. Below the grid, the
 * distance from the roofline is that at its edge. */
double sw_cost_product_seconds(const struct sw_cluster_config *cluster, enum sw_dtype dtype,
                               const struct sw_product *s, double step_bytes)
{
    const struct sw_products *own = products_of(cluster, dtype, s->kind);
    if (own == NULL)
        return roofline_seconds(cluster, dtype, s);
    const struct sw_product edge = {.m = larger(s->m, own->row[0]),
                                    .n = larger(s->n, own->column[0]),
                                    .k = larger(s->k, own->depth[0]),
                                    .kind = s->kind};
    const double least = larger(2 * edge.m * edge.n * edge.k / peak_of(cluster, dtype),
                                product_bytes(&edge, dtype) / bandwidth_of(cluster));
    const double reached =
        software_of(cluster, own, step_bytes) * sw_cost_products_share(own, edge.m, edge.n, edge.k);
    const double seconds = least / (reached < 1 ? reached : 1); /* nothing exceeds its peak */
    if (edge.m == s->m && edge.n == s->n && edge.k == s->k)
        return seconds;
    return seconds * roofline_seconds(cluster, dtype, s) / roofline_seconds(cluster, dtype, &edge);
}

/* sw_cost_product_seconds, from the cache of recent products if there. */
static double met_product_seconds(const struct sw_cluster_config *cluster, enum sw_dtype dtype,
                                  const struct sw_product *s, double step_bytes,
                                  struct sw_cost_shared *shared)
{
    if (shared == NULL)
        return sw_cost_product_seconds(cluster, dtype, s, step_bytes);
    const uint64_t sizes =
        (uint64_t)s->m * 0x1f123bb5 ^ (uint64_t)s->n << 20 ^ (uint64_t)s->k << 40;
    struct sw_cost_product *met =
        &shared->product[sw_hash_mix(sizes ^ (uint64_t)s->kind) % SW_COST_PRODUCTS];
    if (met->size.m != s->m || met->size.n != s->n || met->size.k != s->k ||
        met->size.kind != s->kind || met->dtype != dtype || met->step_bytes != step_bytes)
        *met = (struct sw_cost_product){.size = *s,
                                        .dtype = dtype,
                                        .step_bytes = step_bytes,
                                        .seconds =
                                            sw_cost_product_seconds(cluster, dtype, s, step_bytes)};
    return met->seconds;
}

/* Peak of products with weights of that type in 8 bits; 0: the profile's software widens them. */
static double peak_in_8_bits(const struct sw_cluster_config *cluster, enum sw_dtype held)
{
    return sw_has_scales(held) ? cluster->profile.peak_int8_flops : 0;
}

/* Weights in 8 or 4 bits with rows in bf16, on a chip with measured bf16 products: their bytes are
 * those of half the depth, or less. Software that multiplies in 8 bits does so at that peak; else
 * weights are widened, and arithmetic takes bf16's time. */
static double narrow_seconds(const struct sw_cluster_config *cluster, const struct sw_product *s,
                             enum sw_dtype held, double step_bytes)
{
    const double eight = peak_in_8_bits(cluster, held), peak = peak_of(cluster, SW_BF16_T);
    const struct sw_products *grid = products_of(cluster, SW_BF16_T, s->kind);
    struct sw_product half = *s;
    half.k = larger(s->k * sw_dtype_number_bytes(held) / 2, 1);
    const double bytes = sw_cost_product_seconds(cluster, SW_BF16_T, &half, step_bytes);
    const double reached =
        software_of(cluster, grid, step_bytes) * sw_cost_products_share(grid, s->m, s->n, s->k);
    return larger(bytes, 2 * s->m * s->n * s->k /
                             ((eight > 0 ? eight : peak) * (reached < 1 ? reached : 1)));
}

double sw_cost_step_bytes(const struct sw_program *p, const struct sw_workload *workload)
{
    double bytes = 0;
    for (int32_t r = 0; r < p->region_count; r++)
        for (int32_t i = 0; i < p->regions[r].op_count; i++) {
            const struct sw_op *op = &p->ops[p->regions[r].first_op + i];
            bytes += sw_region_times(&p->regions[r], op->position) *
                     (double)sw_op_cost(p, op).memory_bytes * sw_cost_met(p, op, workload).bytes;
        }
    return bytes;
}

/* Columns of all products of a program with the same rows as an op's. */
static double joined_columns(const struct sw_program *p, const struct sw_op *op)
{
    double columns = 0;
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *other = &p->ops[i];
        struct sw_product product[SW_OP_MAX_PRODUCTS];
        if (other->kind == op->kind && other->in[0].value == op->in[0].value &&
            sw_op_info(op->kind)->products(p, other, product) == 1)
            columns += product[0].n;
    }
    return columns;
}

/* Seconds of one product by measured ones, and the part of *bytes that they include; -1: none were
 * measured. */
static double measured_seconds(const struct sw_program *p, const struct sw_op *op,
                               const struct sw_cluster_config *cluster,
                               const struct sw_product *product, double step_bytes,
                               struct sw_cost_shared *shared, double *bytes)
{
    const enum sw_dtype dtype = p->values[op->in[0].value].dtype,
                        held = p->values[op->in[1].value].dtype;
    const struct sw_products *grid = products_of(cluster, dtype, product->kind);
    const bool of_chip = is_of_chip(cluster, grid);
    const bool narrow = sw_is_quantized(held) && dtype == SW_BF16_T && of_chip;
    if (grid == NULL || (held != dtype && !narrow))
        return -1;
    *bytes -= product_bytes(product, dtype);
    struct sw_product all = *product; /* joined product that this is a part of */
    if (cluster->profile.joins_products && of_chip && op->kind == SW_OP_LINEAR)
        all.n = joined_columns(p, op);
    if (!narrow)
        return met_product_seconds(cluster, dtype, &all, step_bytes, shared) * product->n / all.n;
    *bytes += product->n * product->k * sw_dtype_number_bytes(held); /* instead of two bytes each */
    if (peak_in_8_bits(cluster, held) > 0)
        *bytes = 0; /* nothing is widened */
    return narrow_seconds(cluster, &all, held, step_bytes) * product->n / all.n;
}

/* True if the profile's software multiplies an op's weights in 8 bits. */
static bool multiplies_narrow(const struct sw_program *p, const struct sw_op *op,
                              const struct sw_cluster_config *cluster)
{
    return cluster->profile.peak_int8_flops > 0 && p->values[op->in[0].value].dtype == SW_BF16_T &&
           sw_has_scales(p->values[op->in[1].value].dtype);
}

/* Seconds of a matrix op without its launch; bytes: those it moves. Measured products include
 * theirs. */
static double matmul_seconds(const struct sw_program *p, const struct sw_op *op,
                             const struct sw_cluster_config *cluster, double bytes,
                             double step_bytes, struct sw_cost_shared *shared)
{
    struct sw_product product[SW_OP_MAX_PRODUCTS];
    const int32_t count = sw_op_info(op->kind)->products(p, op, product);
    const bool narrow = multiplies_narrow(p, op, cluster);
    const double peak = narrow ? cluster->profile.peak_int8_flops
                               : peak_of(cluster, p->values[op->in[0].value].dtype);
    double seconds = 0;
    for (int32_t i = 0; i < count; i++) {
        const double own =
            measured_seconds(p, op, cluster, &product[i], step_bytes, shared, &bytes);
        seconds += own >= 0 ? own : tiled_seconds(cluster, peak, &product[i]);
        if (own < 0 && narrow) /* nothing is widened */
            bytes = (double)sw_operand_bytes(p, op);
    }
    return larger(memory_seconds(cluster, larger(bytes, 0)), seconds);
}

/* Positions have their angles once for all sequences and heads, unless each sequence or slot of a
 * cache has its own. */
double sw_cost_angles(const struct sw_program *p, const struct sw_op *op)
{
    if (op->kind != SW_OP_ROPE)
        return 0;
    const struct sw_value *x = &p->values[op->in[0].value];
    const bool of_rows = op->as.rope.slots || op->as.rope.rows;
    return (double)((of_rows ? x->local[0] : 1) * x->local[1] *
                    (sw_rope_rotated(&op->as.rope) / 2));
}

/* Seconds to convert messages of a ring in bf16 (precision.ring) from a wider type. */
static double conversion_seconds(const struct sw_program *p, const struct sw_op *op,
                                 const struct sw_cluster_config *cluster)
{
    const double launch = cluster->profile.launch_latency_s;
    struct sw_ring_blocks blocks;
    double seconds = 0;
    if (!sw_op_is_ring(op) || !op->as.attention.bf16_hops)
        return 0;
    sw_ring_blocks_of(p, op, &blocks);
    const struct sw_ring_sum sum = sw_ring_sum(&blocks);
    if (blocks.widen_bytes > 0)
        seconds += sum.attends * (memory_seconds(cluster, (double)blocks.widen_bytes) + launch);
    if (blocks.narrow_bytes > 0)
        seconds +=
            (sum.attends + 1) * (memory_seconds(cluster, (double)blocks.narrow_bytes) + launch);
    return seconds;
}

/* Seconds to copy the gradient of a weight that fsdp splits, whole in each micro-step. */
static double gradient_copies_seconds(const struct sw_program *p, const struct sw_op *op,
                                      const struct sw_cluster_config *cluster)
{
    const int32_t copies = cluster->profile.gradient_copies;
    const uint8_t result = sw_op_info(op->kind)->gradient;
    if (copies == 0 || result == 0 || p->mesh.size[SW_FSDP] <= 1)
        return 0;
    const struct sw_value *whole = &p->values[op->out[result - 1].value];
    const double bytes = (double)sw_value_local_elems(whole) * (double)sw_dtype_bytes(whole->dtype);
    return copies * (memory_seconds(cluster, 2 * bytes) + cluster->profile.launch_latency_s);
}

/* sw_cost_compute_seconds in a step of that many bytes. */
static double seconds_in_step(const struct sw_program *p, const struct sw_op *op,
                              const struct sw_cluster_config *cluster,
                              const struct sw_workload *workload, double step_bytes,
                              struct sw_cost_shared *shared)
{
    const double launch = cluster->profile.launch_latency_s;
    const struct sw_op_info *info = sw_op_info(op->kind);
    if (info->cost_class == SW_CLASS_NONE || info->cost_class == SW_CLASS_COLLECTIVE ||
        info->cost_class == SW_CLASS_WAIT)
        return 0;
    const double skinny_gemm_s = sw_cost_skinny_gemm_seconds(p, op, &cluster->profile, workload);
    if (skinny_gemm_s >= 0)
        return skinny_gemm_s + launch;
    struct sw_op_cost cost = sw_op_cost(p, op);
    const struct sw_op_met met = sw_cost_met(p, op, workload);
    cost.flops *= met.flops;
    cost.memory_bytes = (int64_t)((double)cost.memory_bytes * met.bytes);
    double after = gradient_copies_seconds(p, op, cluster);
    if (sw_device_row(cluster->accelerator.device)->adds_apart && sw_op_addend_bytes(p, op) > 0) {
        const int64_t addend = sw_op_addend_bytes(p, op);
        cost.memory_bytes -= addend;
        after += memory_seconds(cluster, 3.0 * (double)addend) + launch;
    }
    if (info->cost_class == SW_CLASS_MATMUL)
        return matmul_seconds(p, op, cluster, (double)cost.memory_bytes, step_bytes, shared) +
               launch + after;
    if (info->cost_class == SW_CLASS_ATTENTION) {
        after += conversion_seconds(p, op, cluster);
        const double sized =
            sized_attention_seconds(p, op, cluster, cost.flops, met.flops, step_bytes);
        if (sized >= 0)
            return sized + launch + after;
        const double chip = sw_cost_kernel_grid_seconds(p, op, cluster, met.flops);
        if (chip >= 0)
            return launch +
                   chip / sw_cost_efficiency(&cluster->profile.attention_scale, step_bytes, 1);
    }
    after += sw_cost_angles(p, op) * cluster->profile.angle_time_s;
    const double seconds = info->cost_class == SW_CLASS_ATTENTION
                               ? attention_seconds(p, op, cluster, cost.flops)
                               : cost.flops / peak_of(cluster, SW_F32);
    return larger(memory_seconds(cluster, (double)cost.memory_bytes), seconds) + launch + after;
}

double sw_cost_compute_seconds_within(const struct sw_program *p, const struct sw_op *op,
                                      const struct sw_cluster_config *cluster,
                                      const struct sw_workload *workload, double *step_bytes,
                                      struct sw_cost_shared *shared)
{
    const bool asked =
        cluster->profile.products_scale.count > 1 || cluster->profile.attention_scale.count > 1;
    if (*step_bytes < 0 && asked)
        *step_bytes = sw_cost_step_bytes(p, workload);
    return seconds_in_step(p, op, cluster, workload, *step_bytes, shared);
}

double sw_cost_compute_seconds(const struct sw_program *p, const struct sw_op *op,
                               const struct sw_cluster_config *cluster,
                               const struct sw_workload *workload)
{
    double step_bytes = -1;
    return sw_cost_compute_seconds_within(p, op, cluster, workload, &step_bytes, NULL);
}

double sw_cost_message_seconds(const struct sw_program *program, const struct sw_op *op,
                               const struct sw_cluster_config *cluster)
{
    const struct sw_device_row *device = sw_device_row(cluster->accelerator.device);
    if (!sw_op_is_collective(op->kind) || sw_axes_size(&program->mesh, op->axes) <= 1)
        return 0;
    const struct sw_collective_blocks blocks = sw_collective_blocks(program, op);
    const struct sw_collective_route route =
        sw_collective_route(device->transport, sw_op_collective(op->kind), &blocks);
    return (double)(route.messages - 1) * sw_accelerator_prices(&cluster->accelerator)->message_s;
}

double sw_cost_op_seconds(const struct sw_program *program, const struct sw_op *op,
                          const struct sw_cluster_config *cluster,
                          const struct sw_workload *workload)
{
    const bool exchange = sw_op_is_exchange(op->kind);
    if (!sw_op_is_collective(op->kind) && !exchange)
        return sw_cost_compute_seconds(program, op, cluster, workload);
    struct sw_span span;
    sw_links_span(cluster, &program->mesh, sw_axes_effective(&program->mesh, op->axes), &span);
    if (exchange)
        return sw_cost_compute_seconds(program, op, cluster, workload) +
               sw_links_exchange_seconds(cluster, &span,
                                         (double)sw_op_communication_bytes(program, op),
                                         sw_op_info(op->kind)->messages(op));
    return sw_links_seconds(cluster, &span, sw_op_collective(op->kind),
                            (double)sw_op_communication_bytes(program, op)) +
           sw_cost_message_seconds(program, op, cluster);
}
