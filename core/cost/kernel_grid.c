/* Attention over a cache by measured sizes of a chip's own kernels (struct
 * sw_accelerator_config). */
#include "core/cost/cost.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Keys and values of every sequence are read once; fewer positions than measured take as long as
 * the fewest. Fewer heads go at the rate of the fewest, down to a kernel's start: the smallest
 * measured size. */
static double decode_seconds(const struct sw_products *grid, double bandwidth, double heads,
                             double positions, double head_dim, double element_bytes)
{
    const double wide = 2; /* bytes of an element as measured, bf16; other types count in its
                              bytes */
    const double length = larger(positions * element_bytes / wide, grid->column[0]);
    const double of_position = 2 * wide * head_dim / bandwidth; /* one position of one head, at a
                                                                   share of 1 */
    const double start =
        of_position * grid->row[0] * grid->column[0] /
        sw_cost_attention_grid_share(grid, grid->row[0], grid->column[0], head_dim);
    return larger(of_position * heads * length /
                      sw_cost_attention_grid_share(grid, heads, length, head_dim),
                  start);
}

/* A chunk of a longer prompt meets as many positions as a prompt of twice the mean, and has some of
 * its queries: it counts as that fraction of the heads, possibly less than one. Fewer heads, and
 * starts, as above. */
static double prefill_seconds(const struct sw_products *grid, double peak, double heads,
                              double queries, double positions, double head_dim)
{
    const double length = larger(2 * positions, grid->column[0]);
    const double alike = heads * queries / length;
    const double of_pair = 2 * head_dim / peak; /* one pair of positions, of one head */
    const double start =
        of_pair * grid->row[0] * grid->column[0] * grid->column[0] /
        sw_cost_attention_grid_share(grid, grid->row[0], grid->column[0], head_dim);
    return larger(of_pair * alike * length * length /
                      sw_cost_attention_grid_share(grid, alike, length, head_dim),
                  start);
}

/* True if the profile's attention was measured by size; the chip's kernels are then ignored. */
static bool measures_attention(const struct sw_cluster_config *cluster)
{
    const struct sw_profile_config *profile = &cluster->profile;
    for (int32_t i = 0; i < SW_ATTENTION_PHASES * SW_RATE_DTYPES; i++)
        if (profile->attention_by_size[i / SW_RATE_DTYPES][i % SW_RATE_DTYPES] != NULL)
            return true;
    return profile->attention.count > 1 &&
           !sw_profile_assumes_attention(profile, &cluster->accelerator);
}

double sw_cost_kernel_grid_seconds(const struct sw_program *p, const struct sw_op *op,
                                   const struct sw_cluster_config *cluster, double met)
{
    const struct sw_accelerator_config *chip = &cluster->accelerator;
    if (measures_attention(cluster) ||
        (chip->prefill_attention == NULL && chip->decode_attention == NULL))
        return -1;
    if (op->kind != SW_OP_ATTENTION || op->as.attention.keys == SW_KEYS_SEQUENCE)
        return -1;
    const struct sw_value *q = &p->values[op->in[0].value], *keys = &p->values[op->in[1].value];
    const double head_dim = op->as.attention.head_dim, sequences = (double)q->local[0],
                 queries = (double)q->local[1], positions = met * (double)keys->local[1];
    const double query_heads = (double)(q->local[2] / op->as.attention.head_dim),
                 kv_heads = (double)(keys->local[2] / op->as.attention.head_dim);
    if (q->dtype != SW_BF16_T || keys->dtype == SW_F32)
        return -1;
    if (queries <= 1)
        return chip->decode_attention == NULL
                   ? -1
                   : decode_seconds(chip->decode_attention, chip->memory_bandwidth,
                                    sequences * kv_heads, positions, head_dim,
                                    (double)sw_dtype_bytes(keys->dtype));
    return chip->prefill_attention == NULL
               ? -1
               : prefill_seconds(chip->prefill_attention, chip->peak_bf16_flops,
                                 sequences * query_heads, queries, positions, head_dim);
}
