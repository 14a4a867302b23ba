#include "core/base/number.h"
#include "core/base/quantize.h"
#include "core/ir/workspace.h"

#include <string.h>

static int64_t align(int64_t bytes)
{
    return sw_align(bytes, SW_ARENA_ALIGNMENT);
}

static int64_t wide_bytes(enum sw_dtype dtype)
{
    return dtype == SW_F64 ? 8 : 4;
}

static bool is_narrow(enum sw_dtype dtype)
{
    return dtype != SW_F32 && dtype != SW_F64;
}

static const struct sw_value *operand(const struct sw_program *program, struct sw_ref ref)
{
    return &program->values[ref.value];
}

static int64_t elems(const struct sw_value *value)
{
    int64_t product = 1;
    for (uint8_t d = 0; d < value->ndim; d++)
        product *= value->local[d];
    return product;
}

/* Reserves `bytes` at the end of the workspace. */
static int64_t reserve(struct sw_attention_workspace *w, int64_t bytes)
{
    const int64_t offset = w->bytes;
    w->bytes += align(bytes);
    return offset;
}

enum sw_hops sw_attention_hops(const struct sw_op *op, int32_t ranks)
{
    if (ranks <= 1)
        return SW_HOPS_NONE;
    const int carries = op->as.attention.bf16_hops ? SW_HOPS_BF16 : SW_HOPS_AS_COMPUTED;
    const bool rings = sw_attention_inner_ring(op, ranks) < ranks;
    return (enum sw_hops)(carries | (rings ? SW_HOPS_OF_RINGS : 0));
}

int32_t sw_attention_inner_ring(const struct sw_op *op, int32_t ranks)
{
    const int32_t inner = op->as.attention.inner_ring;
    return inner > 1 && inner < ranks && ranks % inner == 0 ? inner : ranks;
}

int64_t sw_attention_halo(const struct sw_op *op, int32_t ranks, int64_t part, enum sw_dtype dtype)
{
    const struct sw_attention_attributes *as = &op->as.attention;
    const int64_t chunk = as->sequence_layout == SW_ZIGZAG ? part / 2 : part;
    const bool widened = as->bf16_hops && dtype != SW_BF16_T; /* a rank also sees its own keys
                                                                 rounded */
    return as->halo && !widened && ranks > 1 && as->window > 0 && as->window - 1 <= chunk
               ? as->window - 1
               : -1;
}

/* Lays out halos: own keys stay in place; carries are as for a ring. */
static void lay_out_halos(const struct sw_op *op, const int64_t q[3], const int64_t k[3],
                          int64_t halo, enum sw_dtype dtype, struct sw_attention_workspace *out)
{
    const struct sw_attention_attributes *as = &op->as.attention;
    const bool backward = op->kind == SW_OP_ATTENTION_GRAD;
    const int64_t wide = wide_bytes(dtype), heads = k[2] / as->head_dim;
    const int64_t q_rows = q[0] * q[1] * (q[2] / as->head_dim);
    memset(out, 0, sizeof *out);
    out->padded_dim = sw_align(as->head_dim, SW_HEAD_DIM_PADDING);
    out->halos = as->sequence_layout == SW_ZIGZAG ? 2 : 1;
    out->halo = halo;
    out->travel_bytes = 2 * k[0] * halo * k[2] * (int64_t)sw_dtype_bytes(dtype);
    for (int i = 0; i < 4; i++)
        if (halo > 0 && i % 2 < out->halos)
            out->travel[i] = reserve(out, out->travel_bytes);
    out->carry = reserve(out, q_rows * out->padded_dim * wide);
    if (!backward) {
        out->maximum = reserve(out, q_rows * wide);
        out->sum = reserve(out, q_rows * wide);
        return;
    }
    out->cotangent_bytes = 2 * k[0] * heads * k[1] * out->padded_dim * wide;
    out->sum_bytes = 2 * k[0] * heads * halo * out->padded_dim * wide;
    out->cotangent[0] = reserve(out, out->cotangent_bytes);
    for (int i = 0; i < 4; i++)
        if (halo > 0 && i % 2 < out->halos)
            out->cotangent[1 + i] = reserve(out, out->sum_bytes);
}

void sw_attention_workspace_of(const struct sw_op *op, int32_t ranks, const int64_t q[3],
                               const int64_t k[3], enum sw_dtype dtype,
                               struct sw_attention_workspace *out)
{
    const int64_t halo = sw_attention_halo(op, ranks, k[1], dtype);
    if (halo >= 0)
        lay_out_halos(op, q, k, halo, dtype, out);
    else
        sw_attention_workspace_layout(q, k, op->as.attention.head_dim, dtype,
                                      sw_attention_hops(op, ranks),
                                      op->kind == SW_OP_ATTENTION_GRAD, out);
}

void sw_attention_workspace_layout(const int64_t q[3], const int64_t k[3], int32_t head_dim,
                                   enum sw_dtype dtype, enum sw_hops hops, bool backward,
                                   struct sw_attention_workspace *out)
{
    const int64_t wide = wide_bytes(dtype), k_elems = 2 * k[0] * k[1] * k[2];
    const bool bf16 = (hops & SW_HOPS_BF16) != 0, rings = (hops & SW_HOPS_OF_RINGS) != 0;
    const int64_t sent = (int64_t)sw_dtype_bytes(bf16 ? SW_BF16_T : dtype);
    const int64_t sum = bf16 ? (int64_t)sw_dtype_bytes(SW_BF16_T) : wide;
    const int64_t q_rows = q[0] * q[1] * (q[2] / head_dim);
    const int64_t k_rows = k[0] * k[1] * (k[2] / head_dim);
    memset(out, 0, sizeof *out);
    out->padded_dim =
        (head_dim + SW_HEAD_DIM_PADDING - 1) / SW_HEAD_DIM_PADDING * SW_HEAD_DIM_PADDING;
    out->travel_bytes = k_elems * sent;
    out->cotangent_bytes = backward ? 2 * k_rows * out->padded_dim * wide : 0;
    out->sum_bytes = backward ? 2 * k_rows * out->padded_dim * sum : 0;
    out->widened = bf16 && dtype != SW_BF16_T;
    if (hops != SW_HOPS_NONE) {
        for (int i = 0; i < (rings ? 4 : 2); i++)
            out->travel[i] = reserve(out, out->travel_bytes);
        if (out->widened)
            out->at_hand = reserve(out, k_elems * (int64_t)sw_dtype_bytes(dtype));
        out->carry = reserve(out, q_rows * out->padded_dim * wide);
        if (!backward) {
            out->maximum = reserve(out, q_rows * wide);
            out->sum = reserve(out, q_rows * wide);
        }
    }
    if (backward)
        for (int i = 0; i < (rings ? 5 : hops != SW_HOPS_NONE ? 3 : 1); i++)
            out->cotangent[i] = reserve(out, i == 0 ? out->cotangent_bytes : out->sum_bytes);
}

/* Bytes of f32 sums of dq and of its products with o, and dk and dv of each query head where
 * several share a kv head. */
static int64_t cudnn_bytes(int64_t batch, int64_t heads, int64_t group, int64_t sq, int64_t sk,
                           int64_t dim, bool backward)
{
    if (!backward)
        return 256;
    return batch * heads * (sq * dim + (sq + 31) / 32 * 32) * 4 +
           (group > 1 ? 2 * 2 * batch * heads * sk * dim : 0) + 256;
}

int64_t sw_attention_library_bytes(const int64_t q[3], const int64_t k[3], int32_t head_dim,
                                   enum sw_dtype dtype, bool hops, bool direct, bool backward)
{
    const int64_t heads = q[2] / head_dim, kv_heads = k[2] / head_dim;
    const int64_t q_elems = q[0] * q[1] * q[2], k_elems = k[0] * k[1] * k[2];
    const int64_t rows = align(q[0] * q[1] * heads * 4), wide_q = hops ? 0 : align(q_elems * 4);
    if (dtype != SW_BF16_T)
        return backward ? rows + wide_q : 0;
    const int64_t library =
        cudnn_bytes(q[0], heads, heads / kv_heads, q[1], k[1], head_dim, backward);
    if (direct)
        return rows + align(library);
    return rows + wide_q + align(q_elems * 2) + (backward ? 2 * align(k_elems * 2) : 0) +
           align(library);
}

static int64_t attention_bytes(const struct sw_program *program, const struct sw_op *op,
                               bool backward)
{
    const struct sw_value *q = operand(program, op->in[0]), *k = operand(program, op->in[1]);
    const struct sw_attention_attributes *as = &op->as.attention;
    const int32_t ranks = sw_axes_size(&program->mesh, op->axes);
    const enum sw_hops hops = sw_attention_hops(op, ranks);
    const bool in_order = as->sequence_shards <= 1 || as->sequence_layout == SW_CONTIGUOUS;
    struct sw_attention_workspace layout;
    sw_attention_workspace_of(op, ranks, q->local, k->local, q->dtype, &layout);
    if (!program->target.cudnn_attention)
        return layout.bytes;
    return layout.bytes + sw_attention_library_bytes(
                              q->local, k->local, as->head_dim, q->dtype, hops != SW_HOPS_NONE,
                              hops == SW_HOPS_NONE && in_order && q->local[1] == k->local[1],
                              backward);
}

int64_t sw_workspace_attention_grad(const struct sw_program *program, const struct sw_op *op)
{
    return attention_bytes(program, op, true);
}

/* Enough ranges to occupy a GPU with one sequence, few enough that their results are small beside
 * the cache. */
enum { LEAST_RANGE = 256, MOST_RANGES = 1024, MOST_TASKS = 1 << 14 };

void sw_decode_ranges_of(int64_t slots, int64_t heads, int64_t kv_heads, int64_t positions,
                         int32_t head_dim, struct sw_decode_ranges *out)
{
    *out = (struct sw_decode_ranges){.positions = LEAST_RANGE};
    out->count = (positions + LEAST_RANGE - 1) / LEAST_RANGE;
    while (out->count > 1 &&
           (out->count > MOST_RANGES || slots * kv_heads * out->count > MOST_TASKS)) {
        out->positions *= 2;
        out->count = (positions + out->positions - 1) / out->positions;
    }
    if (out->count <= 1)
        return;
    out->stats = align(slots * heads * out->count * head_dim * (int64_t)sizeof(float));
    out->bytes = out->stats + align(slots * heads * out->count * 2 * (int64_t)sizeof(float));
}

/* Bytes for one token of each slot. */
static int64_t cached_bytes(const struct sw_program *program, const struct sw_op *op)
{
    const struct sw_value *q = operand(program, op->in[0]), *keys = operand(program, op->in[1]);
    const int32_t head_dim = op->as.attention.head_dim;
    struct sw_decode_ranges ranges;
    if (!program->target.cache_ranges || q->local[1] != 1)
        return 0;
    sw_decode_ranges_of(q->local[0], q->local[2] / head_dim, keys->local[2] / head_dim,
                        keys->local[1], head_dim, &ranges);
    return ranges.bytes;
}

int64_t sw_workspace_attention(const struct sw_program *program, const struct sw_op *op)
{
    switch ((enum sw_attention_keys)op->as.attention.keys) {
    case SW_KEYS_SEQUENCE:
        return attention_bytes(program, op, false);
    case SW_KEYS_CACHE_PART:
        return cached_bytes(program, op);
    case SW_KEYS_CACHE:
        break;
    }
    return 0;
}

/* QUANTIZED_ROWS: accumulators of one warp. The kernel takes whole pieces of inputs and outputs; a
 * panel is large enough to keep a GPU busy, and small beside the weights. */
enum { QUANTIZED_ROWS = 64, QUANTIZED_INPUTS = 64, QUANTIZED_OUTPUTS = 32, PANEL_BYTES = 64 << 20 };

bool sw_quantized_in_kernel(int64_t rows, int64_t inputs, int64_t outputs, enum sw_dtype dtype)
{
    return dtype == SW_BF16_T && rows <= QUANTIZED_ROWS && inputs % QUANTIZED_INPUTS == 0 &&
           outputs % QUANTIZED_OUTPUTS == 0;
}

void sw_quantized_panels_of(int64_t rows, int64_t inputs, int64_t outputs, enum sw_dtype dtype,
                            struct sw_quantized_panels *out)
{
    const int64_t each = inputs * (int64_t)sw_dtype_bytes(dtype) + rows * (int64_t)sizeof(float);
    int64_t most = each > 0 ? PANEL_BYTES / each / QUANTIZED_OUTPUTS * QUANTIZED_OUTPUTS : outputs;
    most = most < QUANTIZED_OUTPUTS ? QUANTIZED_OUTPUTS : most;
    out->outputs = most < outputs ? most : outputs;
    out->results = align(out->outputs * inputs * (int64_t)sw_dtype_bytes(dtype));
    out->bytes = out->results + align(out->outputs * rows * (int64_t)sizeof(float));
}

/* True if products go in panels. */
static bool in_panels(const struct sw_program *program, const struct sw_op *op)
{
    return program->target.quantized_panels && sw_is_quantized(operand(program, op->in[1])->dtype);
}

int64_t sw_workspace_linear(const struct sw_program *program, const struct sw_op *op)
{
    struct sw_quantized_panels panels;
    if (!in_panels(program, op))
        return 0;
    const struct sw_value *x = operand(program, op->in[0]), *y = operand(program, op->out[0]);
    const int64_t inputs = x->local[x->ndim - 1], outputs = y->local[y->ndim - 1];
    const int64_t rows = inputs > 0 ? elems(x) / inputs : 0;
    if (sw_quantized_in_kernel(rows, inputs, outputs, x->dtype))
        return 0;
    sw_quantized_panels_of(rows, inputs, outputs, x->dtype, &panels);
    return panels.bytes;
}

bool sw_workspace_wanted(const struct sw_program *program, const struct sw_op *op)
{
    const struct sw_op_info *info = sw_op_info((enum sw_op_kind)op->kind);
    return info->workspace != NULL &&
           (info->workspace != sw_workspace_linear || in_panels(program, op));
}

int64_t sw_lm_head_chunk_tokens(int64_t tokens, int64_t local_vocab)
{
    int64_t most = SW_LM_HEAD_CHUNK_ELEMS / (local_vocab > 0 ? local_vocab : 1);
    if (most < SW_LM_HEAD_CHUNK_TOKENS)
        most = SW_LM_HEAD_CHUNK_TOKENS;
    if (most >= tokens)
        return tokens;
    /* chunks of nearly equal size: no short, slow last one */
    const int64_t chunks = (tokens + most - 1) / most;
    return (tokens + chunks - 1) / chunks;
}

/* Bytes of one chunk's wide logits. */
static int64_t logits_bytes(const struct sw_program *program, const struct sw_op *op)
{
    const struct sw_value *x = operand(program, op->in[0]), *table = operand(program, op->in[1]);
    const int64_t vocab = table->local[0];
    return align(sw_lm_head_chunk_tokens(x->local[0] * x->local[1], vocab) *
                 sw_lm_head_row_elems(vocab) * wide_bytes(x->dtype));
}

int64_t sw_lm_head_panels_at(int64_t tokens, int64_t vocab)
{
    return align(sw_lm_head_chunk_tokens(tokens, vocab) * sw_lm_head_row_elems(vocab) *
                 (int64_t)sizeof(float));
}

/* Adds panels of a table in 8 bits, widened, behind the logits. */
int64_t sw_workspace_lm_head_stats(const struct sw_program *program, const struct sw_op *op)
{
    const struct sw_value *x = operand(program, op->in[0]), *table = operand(program, op->in[1]);
    const int64_t tokens = x->local[0] * x->local[1], vocab = table->local[0];
    const int64_t rows = sw_lm_head_chunk_tokens(tokens, vocab), width = x->local[2];
    struct sw_quantized_panels panels;
    if (!in_panels(program, op) || sw_quantized_in_kernel(rows, width, vocab, x->dtype))
        return logits_bytes(program, op);
    sw_quantized_panels_of(rows, width, vocab, x->dtype, &panels);
    return sw_lm_head_panels_at(tokens, vocab) + panels.bytes;
}

int64_t sw_workspace_lm_head_grad(const struct sw_program *program, const struct sw_op *op)
{
    const struct sw_value *dw = operand(program, op->out[1]);
    return logits_bytes(program, op) +
           (is_narrow(dw->dtype) ? align(elems(dw) * wide_bytes(dw->dtype)) : 0);
}

static int64_t slices_bytes(const struct sw_program *program, struct sw_ref dw, struct sw_ref x)
{
    return align(SW_NORM_SLICES * elems(operand(program, dw)) *
                 wide_bytes(operand(program, x)->dtype));
}

int64_t sw_workspace_norm_grad(const struct sw_program *program, const struct sw_op *op)
{
    return slices_bytes(program, op->out[1], op->in[0]);
}

int64_t sw_workspace_bias_grad(const struct sw_program *program, const struct sw_op *op)
{
    return slices_bytes(program, op->out[0], op->in[0]);
}
