#include "runner/calibrate/attention.h"

#include "core/ir/serving.h"
#include "core/ir/workspace.h"
#include "runner/collective/comm.h"

#include <math.h>
#include <string.h>

/* Heads of a shard and of a model; queries per block of a kernel and fewer; usual head sizes from
 * the narrowest. */
static const double head_counts[] = {2, 8}, lengths[] = {64, 128, 256, 512, 1024};
static const double queries[] = {1, 16, 64, 256}, positions[] = {128, 256, 512, 1024};
static const double head_dims[] = {32, 64, 128};
enum {
    HEAD_COUNTS = sizeof head_counts / sizeof head_counts[0],
    LENGTHS = sizeof lengths / sizeof lengths[0],
    QUERIES = sizeof queries / sizeof queries[0],
    POSITIONS = sizeof positions / sizeof positions[0],
    HEAD_DIMS = sizeof head_dims / sizeof head_dims[0],
    CACHED_HEADS = 4 /* heads of the op timed over a cache, each with its own keys */
};
_Static_assert(HEAD_COUNTS *LENGTHS *HEAD_DIMS <= SW_GRID_POINTS &&
                   QUERIES * POSITIONS * HEAD_DIMS <= SW_GRID_POINTS,
               "every point has its seconds");

int32_t sw_attention_levels(enum sw_attention_phase phase)
{
    return phase == SW_ATTENTION_CACHED ? POSITIONS : LENGTHS;
}

void sw_attention_sizes(enum sw_attention_phase phase, int32_t levels, struct sw_products *out)
{
    const bool cached = phase == SW_ATTENTION_CACHED;
    *out = (struct sw_products){
        .rows = cached ? QUERIES : HEAD_COUNTS, .columns = levels, .depths = HEAD_DIMS};
    memcpy(out->row, cached ? queries : head_counts, (size_t)out->rows * sizeof *out->row);
    memcpy(out->column, cached ? positions : lengths, (size_t)levels * sizeof *out->column);
    memcpy(out->depth, head_dims, sizeof head_dims);
}

double sw_attention_flops(enum sw_attention_phase phase, const struct sw_product *s)
{
    if (phase == SW_ATTENTION_CACHED)
        return 4 * CACHED_HEADS * s->m * s->n * s->k;
    /* two products, five backward, over half of the pairs of query and key */
    return (phase == SW_ATTENTION_BACKWARD ? 5 : 2) * s->m * s->n * s->n * s->k;
}

struct timing {
    struct sw_grid_memory memory;
    enum sw_attention_phase phase;
    enum sw_dtype dtype;
};

static struct sw_tensor rows(struct sw_grid_region *region, enum sw_dtype dtype, int64_t tokens,
                             int64_t width)
{
    const int64_t size[4] = {1, tokens, width, 1};
    return sw_grid_tensor(region, dtype, 3, size);
}

static struct sw_attention_attributes attributes_of(int64_t head_dim)
{
    return (struct sw_attention_attributes){.scale = 1 / sqrt((double)head_dim),
                                            .head_dim = (int32_t)head_dim,
                                            .group = 1,
                                            .sequence_shards = 1,
                                            .sequence_layout = SW_ZIGZAG};
}

/* Runs a sequence forward or backward. Backward reads forward's results from far memory. */
static int run_sequence(struct timing *t, const struct sw_product *s, double *seconds,
                        struct sw_error *err)
{
    const bool backward = t->phase == SW_ATTENTION_BACKWARD;
    const int64_t heads = (int64_t)s->m, length = (int64_t)s->n, dim = (int64_t)s->k;
    struct sw_grid_region *from = backward ? &t->memory.far : &t->memory.near;
    struct sw_grid_region *results = &t->memory.results;
    struct sw_tensor in[6], out[3];
    for (int32_t i = 0; i < (backward ? 4 : 3); i++)
        in[i] = rows(from, t->dtype, length, heads * dim);
    in[4] = rows(from, SW_F32, length, heads);
    in[5] = rows(&t->memory.near, t->dtype, length, heads * dim);
    struct sw_attention_workspace layout;
    sw_attention_workspace_layout(in[0].size, in[1].size, (int32_t)dim, t->dtype, false, backward,
                                  &layout);
    const int64_t written = (int64_t)sw_dtype_bytes(t->dtype) * length * heads * dim;
    sw_grid_keep_together(results, 3 * written + layout.bytes + 8 * SW_ARENA_ALIGNMENT);
    for (int32_t i = 0; i < 3; i++)
        out[i] = rows(results, t->dtype, length, heads * dim);
    if (!backward)
        out[1] = rows(results, SW_F32, length, heads);
    const struct sw_op op = {.kind = backward ? SW_OP_ATTENTION_GRAD : SW_OP_ATTENTION,
                             .n_in = backward ? 6 : 3,
                             .n_out = backward ? 3 : 2,
                             .as.attention = attributes_of(dim),
                             .workspace_bytes = layout.bytes};
    const struct sw_step step = {.step = 1};
    const struct sw_call call = {.op = &op,
                                 .in = in,
                                 .out = out,
                                 .step = &step,
                                 .workspace = sw_grid_take(results, layout.bytes + 1)};
    return sw_grid_call(&t->memory, &call, seconds, err);
}

/* Runs a sequence's queries, placed so that the middle one sees the wanted number of positions. */
static int run_cached(struct timing *t, const struct sw_product *s, double *seconds,
                      struct sw_error *err)
{
    const int64_t count = (int64_t)s->m, dim = (int64_t)s->k, width = CACHED_HEADS * dim;
    const int64_t first = (int64_t)s->n - (count + 1) / 2, cached_positions = first + count;
    struct sw_grid_memory *m = &t->memory;
    const int64_t parts[4] = {1, count, width, 1}, stats[4] = {1, count, 2 * CACHED_HEADS, 1};
    const int64_t fields[4] = {1, SW_SLOT_FIELDS};
    int32_t slot[SW_SLOT_FIELDS] = {0};
    slot[SW_SLOT_FIRST] = (int32_t)first;
    slot[SW_SLOT_TOKENS] = (int32_t)count;
    struct sw_tensor in[4] = {rows(&m->near, t->dtype, count, width),
                              rows(&m->near, t->dtype, cached_positions, width),
                              rows(&m->near, t->dtype, cached_positions, width),
                              sw_grid_tensor(&m->results, SW_I32, 2, fields)};
    struct sw_tensor out[2] = {sw_grid_tensor(&m->results, SW_F32, 4, parts),
                               sw_grid_tensor(&m->results, SW_F32, 4, stats)};
    struct sw_op op = {
        .kind = SW_OP_ATTENTION, .n_in = 4, .n_out = 2, .as.attention = attributes_of(dim)};
    op.as.attention.keys = SW_KEYS_CACHE_PART;
    op.as.attention.sequence_layout = -1;
    op.as.attention.chunk = (int32_t)count;
    const struct sw_step step = {.step = 1};
    const struct sw_call call = {
        .op = &op, .in = in, .out = out, .step = &step, .batch_invariant = true};
    if (m->device->vtable->copy_in(m->device, in[3].data, slot, sizeof slot) != 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot copy to the device");
    return sw_grid_call(m, &call, seconds, err);
}

static void sizes(const void *context, int32_t levels, struct sw_products *out)
{
    const struct timing *t = context;
    sw_attention_sizes(t->phase, levels, out);
}

static double flops(const void *context, const struct sw_product *s)
{
    const struct timing *t = context;
    return sw_attention_flops(t->phase, s);
}

static int run(void *context, const struct sw_product *s, double *seconds, struct sw_error *err)
{
    struct timing *t = context;
    return t->phase == SW_ATTENTION_CACHED ? run_cached(t, s, seconds, err)
                                           : run_sequence(t, s, seconds, err);
}

int sw_calibrate_attention(struct sw_device *device, struct sw_comm *world,
                           enum sw_attention_phase phase, enum sw_rate_dtype dtype, double seconds,
                           struct sw_grid_rates *out, struct sw_error *err)
{
    static const enum sw_dtype dtypes[SW_RATE_DTYPES] = {SW_F32, SW_BF16_T};
    struct timing t = {.phase = phase, .dtype = dtypes[dtype]};
    const struct sw_grid_source source = {
        .context = &t,
        .sizes = sizes,
        .flops = flops,
        .run = run,
        .levels = sw_attention_levels(phase),
        .middle = {.m = phase == SW_ATTENTION_CACHED ? 16 : 8, .n = 256, .k = 64}};
    int status = sw_grid_memory_make(&t.memory, device, t.dtype, err);
    if (status == 0)
        status = sw_grid_time(&source, world, seconds, out, err);
    sw_grid_memory_free(&t.memory);
    return status;
}
