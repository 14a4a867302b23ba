/* Ring attention on the GPU: keys and values travel around the ring (Liu et al. 2023), hops merge
 * in f32. bf16 runs piece by piece through cuDNN. Own kernels, which take any positions, run f32,
 * shapes without a cuDNN kernel, and ops with a window, segments, a softcap or sinks. Both store
 * the same data in the same buffers, so ranks may choose differently. */
#include "core/base/number.h"
#include "runner/device/cuda/cuda.h"
#include "runner/device/cuda/serving.h"
#include "runner/device/ring.h"

#include <string.h>

enum { MAX_PIECES = 256 };

/* A fully visible rectangle of (query, key), or a causal square. */
struct piece {
    int64_t q_first, q_n, k_first, k_n; /* local rows */
    bool causal;
};

struct pieces {
    struct piece at[MAX_PIECES];
    int32_t count; /* -1: the positions form no rectangles, or too many */
};

/* State that all hops of a call share. */
struct ring {
    struct sw_cuda_device *device;
    const struct sw_call *call;
    struct sw_attention_workspace layout;
    struct sw_cuda_attention a;
    enum sw_sequence_layout order;
    int32_t shards, hops;
    int64_t length;
    bool backward;
};

static int32_t ring_size(const struct sw_call *call)
{
    return call->op->axes.count > 0 && call->ring != NULL && call->ring->size > 1 ? call->ring->size
                                                                                  : 1;
}

/* Storage index of the first key of this rank's block at `hop`. */
static int64_t key_start(const struct ring *r, int32_t hop)
{
    const struct sw_ring *ring = r->call->ring;
    if (r->hops == 1)
        return r->call->in[1].start[1];
    return sw_ring_step(ring, &r->layout, hop).owner * r->a.sk;
}

/* Reads the op's optional operands; false with err set on a mistake. */
static bool describe_mask(const struct sw_call *call, struct sw_cuda_attention *a,
                          struct sw_error *err)
{
    const struct sw_attention_attributes *as = &call->op->as.attention;
    const int32_t segments = sw_attention_operand(call->op, SW_ATTENTION_SEGMENTS);
    const struct sw_tensor *behind = segments >= 0 ? &call->in[segments] : NULL;
    const struct sw_tensor *sink = &call->in[call->op->n_in - 1];
    const char *name = sw_op_info((enum sw_op_kind)call->op->kind)->name;
    a->mask = (struct sw_cuda_mask){
        .window = as->window < call->in[0].global[1] ? as->window : 0,
        .softcap = (float)as->softcap,
    };
    if (behind != NULL && (behind[0].dtype != SW_I32 || behind[1].dtype != SW_I32)) {
        (void)sw_fail(err, SW_ENVIRONMENT, "%s takes segments in i32, got %s and %s", name,
                      sw_dtype_name(behind[0].dtype), sw_dtype_name(behind[1].dtype));
        return false;
    }
    if (as->sink &&
        ((sink->dtype != SW_F32 && sink->dtype != SW_BF16_T) || sink->elems != a->heads)) {
        (void)sw_fail(err, SW_ENVIRONMENT,
                      "%s takes a sink in f32 or bf16 for each of %lld heads, got %lld in %s", name,
                      (long long)a->heads, (long long)sink->elems, sw_dtype_name(sink->dtype));
        return false;
    }
    if (behind != NULL) {
        a->mask.q_segments = behind[0].data;
        a->mask.k_segments = behind[1].data;
        a->mask.length = behind[1].size[1];
    }
    if (as->sink) {
        a->mask.sink = sink->data;
        a->mask.sink_dtype = (int32_t)sink->dtype;
    }
    return true;
}

static int describe(struct sw_device *device, const struct sw_call *call, bool backward,
                    struct ring *r, struct sw_error *err)
{
    const struct sw_tensor *q = &call->in[0], *k = &call->in[1];
    const struct sw_op *op = call->op;
    const struct sw_tensor *lse = backward ? &call->in[4] : &call->out[1];
    const char *name = sw_op_info((enum sw_op_kind)op->kind)->name;
    memset(r, 0, sizeof *r);
    r->device = (struct sw_cuda_device *)device;
    r->call = call;
    r->backward = backward;
    r->hops = ring_size(call);
    r->order = (enum sw_sequence_layout)op->as.attention.sequence_layout;
    r->shards = op->as.attention.sequence_shards > 0 ? op->as.attention.sequence_shards : 1;
    r->length = q->global[1];
    r->a = (struct sw_cuda_attention){.batch = q->size[0],
                                      .sq = q->size[1],
                                      .sk = k->size[1],
                                      .heads = q->size[2] / op->as.attention.head_dim,
                                      .kv_heads = k->size[2] / op->as.attention.head_dim,
                                      .dim = op->as.attention.head_dim,
                                      .group = op->as.attention.group,
                                      .scale = (float)op->as.attention.scale,
                                      .dtype = q->dtype};
    r->a.sequence =
        (struct sw_cuda_sequence){.zigzag = r->order == SW_ZIGZAG,
                                  .shards = r->shards,
                                  .chunk = sw_sequence_chunk(r->order, r->length, r->shards),
                                  .q_start = q->start[1]};
    r->a.q = q->data;
    sw_attention_workspace_layout(q->size, k->size, op->as.attention.head_dim, q->dtype,
                                  sw_attention_hops(op, r->hops), backward, &r->layout);
    if (q->dtype != SW_F32 && q->dtype != SW_BF16_T)
        return sw_fail(err, SW_UNMET, "the cuda device computes in f32 and bf16, %s got %s", name,
                       sw_dtype_name(q->dtype));
    if (lse->dtype != SW_F32)
        return sw_fail(err, SW_ENVIRONMENT, "%s: the log-sum-exp must be f32", name);
    if (r->a.heads != r->a.kv_heads * r->a.group)
        return sw_fail(err, SW_ENVIRONMENT,
                       "%s got %lld query heads for %lld kv heads in groups of %d", name,
                       (long long)r->a.heads, (long long)r->a.kv_heads, (int)r->a.group);
    if (!describe_mask(call, &r->a, err))
        return -1;
    if (r->layout.bytes > 0 && (call->workspace == NULL || op->workspace_bytes < r->layout.bytes))
        return sw_fail(err, SW_ENVIRONMENT, "%s has %lld bytes of workspace and needs %lld", name,
                       (long long)op->workspace_bytes, (long long)r->layout.bytes);
    return 0;
}

static int queued(const struct ring *r, cudaError_t code, struct sw_error *err)
{
    return code == cudaSuccess
               ? 0
               : sw_cuda_fail(err, code, sw_op_info((enum sw_op_kind)r->call->op->kind)->name);
}

static int fill(const struct ring *r, void *to, int byte, size_t bytes, struct sw_error *err)
{
    return queued(r, cudaMemsetAsync(to, byte, bytes, r->device->stream), err);
}

static int64_t q_elems(const struct ring *r)
{
    return r->a.batch * r->a.sq * r->a.heads * r->a.dim;
}

static int64_t k_elems(const struct ring *r)
{
    return r->a.batch * r->a.sk * r->a.kv_heads * r->a.dim;
}

static void *workspace_at(const struct ring *r, int64_t offset)
{
    return (char *)r->call->workspace + offset;
}

/* Converts an f32 tensor of equal size to to's dtype. */
static int narrow(const struct ring *r, const struct sw_tensor *to, float *from,
                  struct sw_error *err)
{
    struct sw_tensor wide = *to;
    wide.data = from;
    wide.dtype = SW_F32;
    return queued(r, sw_cuda_cast(&wide, to, r->device->stream), err);
}

/* ---- Pieces ---- */

static bool add_piece(struct pieces *p, struct piece piece)
{
    for (int32_t i = 0; i < p->count; i++) {
        struct piece *other = &p->at[i];
        if (piece.causal || other->causal)
            continue;
        const bool same_q = other->q_first == piece.q_first && other->q_n == piece.q_n;
        const bool same_k = other->k_first == piece.k_first && other->k_n == piece.k_n;
        if (same_q && other->k_first + other->k_n == piece.k_first) {
            other->k_n += piece.k_n;
            return true;
        }
        if (same_k && other->q_first + other->q_n == piece.q_first) {
            other->q_n += piece.q_n;
            return true;
        }
    }
    if (p->count == MAX_PIECES) {
        p->count = -1;
        return false;
    }
    p->at[p->count++] = piece;
    return true;
}

static int64_t run_of(const struct ring *r, int64_t start, int64_t from, int64_t size,
                      int64_t *position)
{
    const int64_t chunk = r->a.sequence.chunk, storage = start + from;
    const int64_t run = chunk - storage % chunk;
    *position = sw_sequence_position(r->order, r->length, r->shards, storage);
    return run < size - from ? run : size - from;
}

/* True if own queries and own keys form one causal square: their positions only grow. */
static bool one_square(const struct ring *r, int64_t k_start)
{
    int64_t before = -1, position;
    if (r->a.sq != r->a.sk || r->a.sequence.q_start != k_start)
        return false;
    for (int64_t i = 0; i < r->a.sq; before = position) {
        i += run_of(r, k_start, i, r->a.sq, &position);
        if (position < before)
            return false;
    }
    return true;
}

/* Compares runs of consecutive positions of both sides: entirely before, equal, or after. */
static void find_pieces(const struct ring *r, int64_t k_start, struct pieces *p)
{
    int64_t q_position, k_position;
    p->count = 0;
    if (one_square(r, k_start)) {
        (void)add_piece(p, (struct piece){0, r->a.sq, 0, r->a.sk, true});
        return;
    }
    for (int64_t i = 0, q_n; i < r->a.sq; i += q_n) {
        q_n = run_of(r, r->a.sequence.q_start, i, r->a.sq, &q_position);
        for (int64_t j = 0, k_n; j < r->a.sk; j += k_n) {
            k_n = run_of(r, k_start, j, r->a.sk, &k_position);
            if (k_position >= q_position + q_n)
                continue;
            const bool whole = k_position + k_n <= q_position;
            if (!whole && (k_position != q_position || k_n != q_n)) {
                p->count = -1;
                return;
            }
            if (!add_piece(p, (struct piece){i, q_n, j, k_n, !whole}))
                return;
        }
    }
}

static struct sw_cudnn_shape shape_of(const struct ring *r, const struct piece *piece, bool dense)
{
    return (struct sw_cudnn_shape){.batch = r->a.batch,
                                   .heads = r->a.heads,
                                   .kv_heads = r->a.kv_heads,
                                   .n_q = piece->q_n,
                                   .n_k = piece->k_n,
                                   .q_rows = r->a.sq,
                                   .k_rows = r->a.sk,
                                   .dim = r->a.dim,
                                   .causal = piece->causal,
                                   .backward = r->backward,
                                   .dense_out = dense,
                                   .scale = r->a.scale};
}

/* cuDNN's workspace for a shape; -1 for no kernel, noted once. */
static int64_t prepare_shape(const struct ring *r, const struct sw_cudnn_shape *shape)
{
    char reason[SW_CUDNN_REASON_BYTES];
    const int64_t bytes = sw_cudnn_attention_prepare(r->device->library.cudnn, shape, reason);
    if (bytes < 0 && *reason != '\0')
        sw_cuda_note(
            r->device,
            "own attention kernels for %lld x %lld heads of %d, %lld queries, %lld keys%s: "
            "cuDNN has none, %s",
            (long long)shape->batch, (long long)shape->heads, (int)shape->dim,
            (long long)shape->n_q, (long long)shape->n_k, shape->backward ? ", backward" : "",
            reason);
    return bytes;
}

/* True if every operand is aligned for cuDNN's vector loads; its head sizes then align every
 * row. */
static bool aligned_operands(const struct sw_call *call)
{
    for (int i = 0; i < call->op->n_in + call->op->n_out; i++) {
        const struct sw_tensor *t =
            i < call->op->n_in ? &call->in[i] : &call->out[i - call->op->n_in];
        if ((uintptr_t)t->data % SW_CUDNN_ALIGNMENT != 0)
            return false;
    }
    return true;
}

static size_t align(size_t bytes)
{
    return (size_t)sw_align((int64_t)bytes, SW_ARENA_ALIGNMENT);
}

/* Memory beyond the op's own layout. The planned part lies in the arena; what another cuDNN release
 * needs beyond it, or a plan made without a GPU, is device scratch, from reserved_memory. Notes
 * that once. */
static char *extra_memory(const struct ring *r, size_t bytes, struct sw_error *err)
{
    struct sw_cuda_library *library = &r->device->library;
    const int64_t planned = r->call->op->workspace_bytes - r->layout.bytes;
    if ((int64_t)bytes <= planned)
        return workspace_at(r, r->layout.bytes);
    if (planned > 0 && !library->more_noted) {
        library->more_noted = true;
        sw_cuda_note(r->device,
                     "attention works in %zu bytes with this cuDNN, %lld are planned in the arena: "
                     "it takes reserved_memory instead",
                     bytes, (long long)planned);
    }
    return sw_cuda_scratch(r->device, bytes, err);
}

/* Buffers that assemble a library's pieces: from extra_memory, valid after `prepare`. */
struct assembly {
    bool direct; /* true if one piece covers the hop: results go straight to the op's */
    float *carry, *stats;
    void *out[3]; /* a piece's forward o; backward dq, dk, dv */
    void *workspace;
};

/* Tests if the library can run all hops and reserves its memory. Returns 1, 0 for no, -1 for an
 * error. */
static int prepare(const struct ring *r, struct assembly *as, struct sw_error *err)
{
    struct pieces p;
    int64_t workspace = 0, most_q = 0, most_k = 0;
    const size_t element = sw_dtype_bytes(r->a.dtype);
    memset(as, 0, sizeof *as);
    if (r->a.dtype != SW_BF16_T || sw_cuda_is_masked(&r->a.mask) ||
        sw_cuda_cudnn(r->device) == NULL || !aligned_operands(r->call))
        return 0;
    for (int32_t hop = 0; hop < r->hops; hop++) {
        find_pieces(r, key_start(r, hop), &p);
        if (p.count < 0)
            return 0;
        as->direct =
            r->hops == 1 && p.count == 1 && p.at[0].q_n == r->a.sq && p.at[0].k_n == r->a.sk;
        for (int32_t i = 0; i < p.count; i++) {
            const struct sw_cudnn_shape shape = shape_of(r, &p.at[i], !as->direct);
            const int64_t bytes = prepare_shape(r, &shape);
            if (bytes < 0)
                return 0;
            workspace = bytes > workspace ? bytes : workspace;
            most_q = p.at[i].q_n > most_q ? p.at[i].q_n : most_q;
            most_k = p.at[i].k_n > most_k ? p.at[i].k_n : most_k;
        }
    }
    const size_t q_piece = align((size_t)(r->a.batch * most_q * r->a.heads * r->a.dim) * element);
    const size_t k_piece =
        align((size_t)(r->a.batch * most_k * r->a.kv_heads * r->a.dim) * element);
    const size_t stats = align((size_t)(r->a.batch * most_q * r->a.heads) * sizeof(float));
    const size_t carry =
        r->hops == 1 && !as->direct ? align((size_t)q_elems(r) * sizeof(float)) : 0;
    const size_t pieces = as->direct ? 0 : q_piece + (r->backward ? 2 * k_piece : 0);
    char *at = extra_memory(r, stats + carry + pieces + (size_t)workspace, err);
    if (at == NULL)
        return -1;
    as->stats = (float *)at;
    as->carry = r->hops == 1 ? (float *)(at + stats) : workspace_at(r, r->layout.carry);
    at += stats + carry;
    as->out[0] = at;
    as->out[1] = at + q_piece;
    as->out[2] = at + q_piece + k_piece;
    as->workspace = at + pieces;
    return 1;
}

static void *row_of(const void *data, int64_t row, int64_t width)
{
    return (char *)(uintptr_t)data + (size_t)(row * width) * 2; /* bf16 */
}

static struct sw_cuda_piece describe_piece(const struct ring *r, const struct piece *piece)
{
    return (struct sw_cuda_piece){.batch = r->a.batch,
                                  .sq = r->a.sq,
                                  .heads = r->a.heads,
                                  .dim = r->a.dim,
                                  .first = piece->q_first,
                                  .n = piece->q_n,
                                  .dtype = r->a.dtype};
}

/* ---- Forward ---- */

static int forward_pieces(const struct ring *r, const struct assembly *as, const void *k,
                          const void *v, int64_t k_start, struct sw_error *err)
{
    struct pieces p;
    const int64_t q_width = r->a.heads * r->a.dim, k_width = r->a.kv_heads * r->a.dim;
    float *lse = r->call->out[1].data;
    find_pieces(r, k_start, &p);
    for (int32_t i = 0; i < p.count; i++) {
        const struct piece *piece = &p.at[i];
        const struct sw_cuda_piece rows = describe_piece(r, piece);
        const struct sw_cudnn_shape shape = shape_of(r, piece, !as->direct);
        const struct sw_cudnn_pointers pointers = {.q = row_of(r->a.q, piece->q_first, q_width),
                                                   .k = row_of(k, piece->k_first, k_width),
                                                   .v = row_of(v, piece->k_first, k_width),
                                                   .o = as->direct ? r->call->out[0].data
                                                                   : as->out[0],
                                                   .stats = as->stats};
        if (sw_cudnn_attention_run(r->device->library.cudnn, &shape, &pointers, as->workspace,
                                   err) != 0)
            return -1;
        const cudaError_t code =
            as->direct ? sw_cuda_piece_stats(&rows, true, as->stats, lse, r->device->stream)
                       : sw_cuda_piece_merge(&rows, as->out[0], as->stats, as->carry, lse,
                                             r->device->stream);
        if (queued(r, code, err) != 0)
            return -1;
    }
    return 0;
}

/* Runs a hop by either kernels. Own kernels carry in place and finish in the last hop. */
static int forward_hop(const struct ring *r, const struct assembly *as, const void *k,
                       const void *v, int32_t hop, struct sw_error *err)
{
    if (as != NULL)
        return forward_pieces(r, as, k, v, key_start(r, hop), err);
    struct sw_cuda_attention a = r->a;
    a.k = k;
    a.v = v;
    a.sequence.k_start = key_start(r, hop);
    return queued(
        r,
        sw_cuda_attention_forward(&a, hop == 0, hop == r->hops - 1,
                                  r->hops > 1 ? (float *)workspace_at(r, r->layout.carry) : NULL,
                                  r->call->out[0].data, r->call->out[1].data, r->device->stream),
        err);
}

static int convert(const struct ring *r, const struct sw_tensor *from, const struct sw_tensor *to,
                   struct sw_error *err)
{
    return queued(r, sw_cuda_cast(from, to, r->device->stream), err);
}

/* Copies this rank's k and v, adjacent and in the travelling dtype, into the first travelling
 * block. */
static int pack(const struct ring *r, struct sw_error *err)
{
    char *block = workspace_at(r, sw_ring_first(r->call->ring, &r->layout, 0));
    for (int i = 0; i < 2; i++) {
        const struct sw_tensor *from = &r->call->in[1 + i];
        const struct sw_tensor to = {.data = block + i * r->layout.travel_bytes / 2,
                                     .dtype = r->layout.widened ? SW_BF16_T : from->dtype,
                                     .elems = from->elems};
        if (convert(r, from, &to, err) != 0)
            return -1;
    }
    return 0;
}

/* k and v, adjacent, of a step; NULL with err set on failure. All ranks, the owner included, use
 * the travelling dtype. */
static char *unpack(const struct ring *r, int32_t step, struct sw_error *err)
{
    char *block = workspace_at(r, sw_ring_at_hand(r->call->ring, &r->layout, step));
    const struct sw_tensor from = {.data = block, .dtype = SW_BF16_T, .elems = 2 * k_elems(r)};
    struct sw_tensor to = {.dtype = r->a.dtype, .elems = 2 * k_elems(r)};
    if (!r->layout.widened)
        return block;
    to.data = workspace_at(r, r->layout.at_hand);
    return convert(r, &from, &to, err) == 0 ? to.data : NULL;
}

static int check_own(const struct ring *r, bool backward, struct sw_error *err)
{
    if (r->a.dim > SW_CUDA_MAX_ATTENTION_DIM)
        return sw_fail(err, SW_UNMET, "head_dim %d is above %d", (int)r->a.dim,
                       SW_CUDA_MAX_ATTENTION_DIM);
    return sw_cuda_check_shared(r->device, sw_cuda_attention_shared(r->a.dim, backward),
                                sw_op_info((enum sw_op_kind)r->call->op->kind)->name, r->a.dim,
                                err);
}

static int forward_ring(const struct ring *r, const struct assembly *as, struct sw_error *err)
{
    const struct sw_ring *ring = r->call->ring;
    const size_t values = (size_t)k_elems(r) * sw_dtype_bytes(r->a.dtype);
    if (pack(r, err) != 0)
        return -1;
    for (int32_t step = 0; step < r->hops; step++) {
        const int keys = sw_ring_start_keys(ring, &r->layout, r->call->workspace, step, err);
        char *k = keys < 0 ? NULL : unpack(r, step, err);
        if (k == NULL || forward_hop(r, as, k, k + values, step, err) != 0 ||
            sw_ring_wait(ring, keys, err) != 0)
            return -1;
    }
    return 0;
}

int sw_cuda_run_attention(struct sw_device *device, const struct sw_call *call,
                          struct sw_error *err)
{
    struct ring r;
    struct assembly assembly;
    if (call->op->as.attention.keys != SW_KEYS_SEQUENCE)
        return sw_cuda_attend_cached(device, call, err);
    if (describe(device, call, false, &r, err) != 0)
        return -1;
    const int library = prepare(&r, &assembly, err);
    const struct assembly *as = library == 1 ? &assembly : NULL;
    if (library < 0 || (as == NULL && check_own(&r, false, err) != 0))
        return -1;
    if (as != NULL && !as->direct && /* far below every score: no piece yet */
        fill(&r, call->out[1].data, 0xfe, (size_t)(r.a.batch * r.a.sq * r.a.heads) * sizeof(float),
             err) != 0)
        return -1;
    if (r.hops == 1 ? forward_hop(&r, as, call->in[1].data, call->in[2].data, 0, err) != 0
                    : forward_ring(&r, as, err) != 0)
        return -1;
    return as != NULL && !as->direct ? narrow(&r, &call->out[0], as->carry, err) : 0;
}

/* ---- Backward ---- */

/* Adds the pieces of one hop: dq to its carry, dk and dv to `to` (f32, zeroed). */
static int backward_pieces(const struct ring *r, const struct assembly *as, const void *k,
                           const void *v, int64_t k_start, float *to, struct sw_error *err)
{
    struct pieces p;
    const struct sw_call *call = r->call;
    const int64_t q_width = r->a.heads * r->a.dim, k_width = r->a.kv_heads * r->a.dim;
    cudaStream_t stream = r->device->stream;
    find_pieces(r, k_start, &p);
    for (int32_t i = 0; i < p.count; i++) {
        const struct piece *piece = &p.at[i];
        const struct sw_cuda_piece rows = describe_piece(r, piece);
        struct sw_cuda_piece keys = rows;
        const struct sw_cudnn_shape shape = shape_of(r, piece, !as->direct);
        const struct sw_cudnn_pointers pointers = {
            .q = row_of(r->a.q, piece->q_first, q_width),
            .k = row_of(k, piece->k_first, k_width),
            .v = row_of(v, piece->k_first, k_width),
            .o = row_of(call->in[3].data, piece->q_first, q_width),
            .d_o = row_of(call->in[5].data, piece->q_first, q_width),
            .stats = as->stats,
            .dq = as->direct ? call->out[0].data : as->out[0],
            .dk = as->direct ? call->out[1].data : as->out[1],
            .dv = as->direct ? call->out[2].data : as->out[2]};
        if (queued(r, sw_cuda_piece_stats(&rows, false, as->stats, call->in[4].data, stream),
                   err) != 0 ||
            sw_cudnn_attention_run(r->device->library.cudnn, &shape, &pointers, as->workspace,
                                   err) != 0)
            return -1;
        if (as->direct)
            continue;
        keys.sq = r->a.sk;
        keys.first = piece->k_first;
        keys.n = piece->k_n;
        if (queued(r, sw_cuda_piece_add(&rows, q_width, as->out[0], as->carry, stream), err) != 0 ||
            queued(r, sw_cuda_piece_add(&keys, k_width, as->out[1], to, stream), err) != 0 ||
            queued(r, sw_cuda_piece_add(&keys, k_width, as->out[2], to + k_elems(r), stream),
                   err) != 0)
            return -1;
    }
    return 0;
}

/* dk and dv of one hop into `to` [2, batch, sk, kv_heads, dim] f32; dq into its carry. */
static int backward_hop(const struct ring *r, const struct assembly *as, const float *delta,
                        float *dq, const void *k, const void *v, int32_t hop, float *to,
                        struct sw_error *err)
{
    if (as != NULL) {
        if (!as->direct && fill(r, to, 0, (size_t)(2 * k_elems(r)) * sizeof(float), err) != 0)
            return -1;
        return backward_pieces(r, as, k, v, key_start(r, hop), to, err);
    }
    struct sw_cuda_attention a = r->a;
    a.k = k;
    a.v = v;
    a.sequence.k_start = key_start(r, hop);
    return queued(r,
                  sw_cuda_attention_backward(&a, hop == 0, r->call->in[5].data, r->call->in[4].data,
                                             delta, dq, to, to + k_elems(r), r->device->stream),
                  err);
}

/* dk and dv in transit. */
struct sums {
    struct sw_tensor computed, leaving, arriving; /* computed: of the step's block */
    struct sw_tensor left,
        came; /* inner rings: sums left for the next ring, and come from the previous one */
};

static struct sw_tensor sums_at(const struct ring *r, int32_t which, bool travels)
{
    const bool narrow = travels && r->layout.sum_bytes < r->layout.cotangent_bytes;
    return (struct sw_tensor){.data = workspace_at(r, r->layout.cotangent[which]),
                              .dtype = narrow ? SW_BF16_T : SW_F32,
                              .elems = 2 * k_elems(r)};
}

static int add(const struct ring *r, const struct sw_tensor *a, const struct sw_tensor *b,
               const struct sw_tensor *to, struct sw_error *err)
{
    return queued(r, sw_cuda_add(a, b, to, r->device->stream), err);
}

/* Adds the sums that arrived to the step's block. At a round's start these are an inner ring's sums
 * for the previous round's first block: adds the earlier rings' sums and passes them on. */
static int take_arrived(const struct ring *r, const struct sw_ring_hop *s, const struct sums *sums,
                        struct sw_error *err)
{
    if (s->at > 0)
        return add(r, &sums->computed, &sums->arriving, &sums->computed, err);
    return s->round > 1 ? add(r, &sums->came, &sums->arriving, &sums->left, err)
                        : convert(r, &sums->arriving, &sums->left, err);
}

/* Receives dk and dv of this rank's own keys after the last step. */
static int bring_home(const struct ring *r, const struct sums *sums, float **home,
                      struct sw_error *err)
{
    const struct sw_ring *ring = r->call->ring;
    const struct sw_tensor *last = &sums->arriving;
    if (ring->inner < ring->size) {
        const struct sw_ring_hop behind = sw_ring_step(ring, &r->layout, ring->size);
        int sent;
        if (take_arrived(r, &behind, sums, err) != 0 ||
            (sent = sw_ring_start_sums(ring, &r->layout, r->call->workspace, ring->size, NULL,
                                       err)) < 0 ||
            sw_ring_wait(ring, sent, err) != 0)
            return -1;
        last = &sums->came;
    }
    *home = last->dtype != SW_F32 ? sums->computed.data : last->data;
    return last->dtype != SW_F32 ? convert(r, last, &sums->computed, err) : 0;
}

/* dk and dv follow their block: a rank computes its part while the earlier ranks' sum arrives, adds
 * both and sends them on; the ring's last rank sends them home. Narrow dtypes are rounded at each
 * hop. */
static int backward_ring(const struct ring *r, const struct assembly *as, const float *delta,
                         float *dq, float **home, struct sw_error *err)
{
    const struct sw_ring *ring = r->call->ring;
    const size_t values = (size_t)k_elems(r) * sw_dtype_bytes(r->a.dtype);
    void *workspace = r->call->workspace;
    struct sums sums = {sums_at(r, 0, false), sums_at(r, 2, true), sums_at(r, 1, true),
                        sums_at(r, 3, true), sums_at(r, 4, true)};
    int sent = 0; /* messages of sums under way */
    if (pack(r, err) != 0)
        return -1;
    for (int32_t step = 0; step < r->hops; step++) {
        const struct sw_ring_hop s = sw_ring_step(ring, &r->layout, step);
        const int keys = sw_ring_start_keys(ring, &r->layout, workspace, step, err);
        char *k = keys < 0 ? NULL : unpack(r, step, err);
        if (k == NULL ||
            backward_hop(r, as, delta, dq, k, k + values, step, sums.computed.data, err) != 0)
            return -1;
        /* in the order of their starts: the previous step's dk, dv, then this step's k, v */
        if (sw_ring_wait(ring, sent, err) != 0 ||
            (step > 0 && take_arrived(r, &s, &sums, err) != 0) ||
            sw_ring_wait(ring, keys, err) != 0)
            return -1;
        if (sums.leaving.dtype != SW_F32) {
            if (convert(r, &sums.computed, &sums.leaving, err) != 0)
                return -1;
        } else {
            void *memory = sums.computed.data;
            sums.computed.data = sums.leaving.data;
            sums.leaving.data = memory;
        }
        sent = sw_ring_start_sums(ring, &r->layout, workspace, step, sums.leaving.data, err);
        if (sent < 0)
            return -1;
    }
    return sw_ring_wait(ring, sent, err) != 0 ? -1 : bring_home(r, &sums, home, err);
}

int sw_cuda_run_attention_grad(struct sw_device *device, const struct sw_call *call,
                               struct sw_error *err)
{
    struct ring r;
    struct assembly assembly;
    if (describe(device, call, true, &r, err) != 0)
        return -1;
    const int library = prepare(&r, &assembly, err);
    const struct assembly *as = library == 1 ? &assembly : NULL;
    if (library < 0 || (as == NULL && check_own(&r, true, err) != 0))
        return -1;
    float *delta = NULL, *dq;
    if (as != NULL) {
        dq = as->carry;
        if (!as->direct && fill(&r, dq, 0, (size_t)q_elems(&r) * sizeof *dq, err) != 0)
            return -1;
    } else {
        const size_t delta_bytes = align((size_t)(r.a.batch * r.a.sq * r.a.heads) * sizeof *delta);
        const size_t dq_bytes = r.hops == 1 ? (size_t)q_elems(&r) * sizeof *dq : 0;
        char *scratch = extra_memory(&r, delta_bytes + dq_bytes, err);
        if (scratch == NULL)
            return -1;
        delta = (float *)scratch;
        dq = r.hops == 1 ? (float *)(scratch + delta_bytes) : workspace_at(&r, r.layout.carry);
        if (queued(&r,
                   sw_cuda_attention_delta(&r.a, call->in[3].data, call->in[5].data, delta,
                                           r.device->stream),
                   err) != 0 ||
            (r.a.mask.sink != NULL &&
             queued(&r,
                    sw_cuda_attention_sink(&r.a, call->in[4].data, delta, call->out[3].data,
                                           call->out[3].dtype, r.device->stream),
                    err) != 0))
            return -1;
    }
    float *home = workspace_at(&r, r.layout.cotangent[0]);
    if (r.hops == 1) {
        if (backward_hop(&r, as, delta, dq, call->in[1].data, call->in[2].data, 0, home, err) != 0)
            return -1;
    } else if (backward_ring(&r, as, delta, dq, &home, err) != 0) {
        return -1;
    }
    if (as != NULL && as->direct)
        return 0;
    return narrow(&r, &call->out[0], dq, err) != 0 || narrow(&r, &call->out[1], home, err) != 0 ||
                   narrow(&r, &call->out[2], home + k_elems(&r), err) != 0
               ? -1
               : 0;
}
