/* Graphs that cuDNN recognizes as attention, in its backend API, and their plans.
 *
 * cuDNN matches whole graphs: operations, order and types follow its documentation
 * (docs.nvidia.com/deeplearning/cudnn, "Graph API", fused flash attention) and open frontend, from
 * 9.10. The single attention operation (CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR) has no causal
 * mask before 9.21 and is unused. */
#include "runner/device/cuda/cudnn_attention.h"

#include "core/base/number.h"

#include <cudnn_graph.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_DESCRIPTORS = 160, /* per plan; backward makes about 110 */
    MAX_OPERATIONS = 32,
    CHOICES = 8,              /* engine configurations tried, best first */
    OLDEST_VERSION = 91002,   /* backward was wrong in 9.10.0 and 9.10.1; older masks differ */
    ANY_KEYS_VERSION = 91501, /* earlier backward needs n_k a multiple of 128, or padded */
    MAX_DIM = 256,
    BUFFER_ALIGNMENT = 256 /* bytes, inside the workspace */
};

/* Ids of tensors with memory, then of scalars; virtual tensors count from FIRST_VIRTUAL. */
enum {
    ID_Q = 1,
    ID_K,
    ID_V,
    ID_O,
    ID_STATS,
    ID_D_O,
    ID_DQ,
    ID_DK,
    ID_DV,
    ID_DQ_SUM, /* f32 [batch, heads, n_q, dim] in the workspace */
    ID_DELTA,  /* f32 [batch, heads, n_q, 1] in the workspace */
    ID_SCALE,
    ID_HIDDEN,
    ID_ONE,
    ID_COUNT,
    FIRST_VIRTUAL = 100
};

typedef cudnnBackendDescriptor_t descriptor;

/* Sizes and strides of dimensions in elements: [batch, heads, rows, columns]. */
struct layout {
    int64_t size[4], stride[4];
};

struct plan {
    struct sw_cudnn_shape shape;
    descriptor all[MAX_DESCRIPTORS]; /* live as long as the plan */
    int32_t count;
    descriptor execution; /* one of `all`; NULL: cuDNN has no kernel */
    int64_t workspace_bytes, dq_sum_bytes, delta_bytes;
    float scale, hidden, one; /* scalars, read on the host when a run is queued */
};

struct sw_cudnn_attention {
    cudnnHandle_t handle;  /* NULL: for a GPU that is absent */
    descriptor properties; /* properties of the absent GPU */
    struct plan **plans;
    int32_t count, capacity;
};

/* Builder of a graph. Stops at the first error: later calls do nothing. */
struct builder {
    struct plan *plan;
    descriptor operations[MAX_OPERATIONS];
    int32_t count;
    int64_t next_virtual;
    const char *failed; /* descriptor that failed */
    cudnnStatus_t status;
};

/* ---- Descriptors ---- */

static void fail(struct builder *b, cudnnStatus_t status, const char *what)
{
    if (b->status == CUDNN_STATUS_SUCCESS && status != CUDNN_STATUS_SUCCESS) {
        b->status = status;
        b->failed = what;
    }
}

static descriptor make(struct builder *b, cudnnBackendDescriptorType_t type, const char *what)
{
    descriptor made = NULL;
    if (b->status != CUDNN_STATUS_SUCCESS)
        return NULL;
    if (b->plan->count == MAX_DESCRIPTORS)
        fail(b, CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, what);
    else
        fail(b, cudnnBackendCreateDescriptor(type, &made), what);
    if (b->status != CUDNN_STATUS_SUCCESS)
        return NULL;
    b->plan->all[b->plan->count++] = made;
    return made;
}

static void set(struct builder *b, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (b->status == CUDNN_STATUS_SUCCESS)
        fail(b, cudnnBackendSetAttribute(d, name, type, count, values), "an attribute");
}

static void set_descriptor(struct builder *b, descriptor d, cudnnBackendAttributeName_t name,
                           descriptor value)
{
    set(b, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(struct builder *b, descriptor d, const char *what)
{
    if (b->status == CUDNN_STATUS_SUCCESS)
        fail(b, cudnnBackendFinalize(d), what);
}

/* ---- Tensors ---- */

enum storage { MEMORY, VIRTUAL, BY_VALUE };

static descriptor tensor(struct builder *b, int64_t id, cudnnDataType_t type,
                         const struct layout *layout, enum storage storage)
{
    const int64_t alignment = SW_CUDNN_ALIGNMENT;
    const bool yes = true;
    descriptor d = make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
    set(b, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(b, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(b, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(b, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, layout->size);
    set(b, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, layout->stride);
    if (storage == VIRTUAL)
        set(b, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (storage == BY_VALUE)
        set(b, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    finish(b, d, "a tensor");
    return d;
}

static descriptor in_memory(struct builder *b, int64_t id, cudnnDataType_t type,
                            struct layout layout)
{
    return tensor(b, id, type, &layout, MEMORY);
}

static descriptor in_passing(struct builder *b, cudnnDataType_t type, struct layout layout)
{
    return tensor(b, b->next_virtual++, type, &layout, VIRTUAL);
}

static descriptor scalar(struct builder *b, int64_t id)
{
    const struct layout one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    return tensor(b, id, CUDNN_DATA_FLOAT, &one, BY_VALUE);
}

static struct layout packed(int64_t batch, int64_t heads, int64_t rows, int64_t columns)
{
    return (struct layout){{batch, heads, rows, columns},
                           {heads * rows * columns, rows * columns, columns, 1}};
}

/* Heads are adjacent within a row; a sequence has `stride_rows` rows in memory. */
static struct layout interleaved(int64_t batch, int64_t heads, int64_t rows, int64_t dim,
                                 int64_t stride_rows)
{
    return (struct layout){{batch, heads, rows, dim},
                           {stride_rows * heads * dim, dim, heads * dim, 1}};
}

/* The same memory with rows and columns exchanged. */
static struct layout transposed(struct layout l)
{
    return (struct layout){{l.size[0], l.size[1], l.size[3], l.size[2]},
                           {l.stride[0], l.stride[1], l.stride[3], l.stride[2]}};
}

/* ---- Operations ---- */

static void add_operation(struct builder *b, descriptor operation, const char *what)
{
    finish(b, operation, what);
    if (b->status != CUDNN_STATUS_SUCCESS)
        return;
    if (b->count == MAX_OPERATIONS)
        fail(b, CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, what);
    else
        b->operations[b->count++] = operation;
}

/* c = a x; a or x may have fewer heads (grouped queries). */
static void matmul(struct builder *b, descriptor a, descriptor x, descriptor c, const char *what)
{
    const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    descriptor kind = make(b, CUDNN_BACKEND_MATMUL_DESCRIPTOR, what);
    set(b, kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    finish(b, kind, what);
    descriptor op = make(b, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, what);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, x);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
    add_operation(b, op, what);
}

/* y = mode(x, operand, choice), the last two NULL if the mode lacks them; axis: of GEN_INDEX. */
static void pointwise(struct builder *b, cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                      int64_t axis, descriptor x, descriptor operand, descriptor choice,
                      descriptor y, const char *what)
{
    const float one = 1.0f;
    descriptor kind = make(b, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what);
    set(b, kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(b, kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    if (mode == CUDNN_POINTWISE_GEN_INDEX)
        set(b, kind, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finish(b, kind, what);
    descriptor op = make(b, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (operand != NULL)
        set_descriptor(b, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, operand);
    if (choice != NULL)
        set_descriptor(b, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, choice);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    set(b, op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, &one);
    set(b, op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &one);
    add_operation(b, op, what);
}

/* Creates a virtual f32 tensor y = mode(x, operand). */
static descriptor compute(struct builder *b, cudnnPointwiseMode_t mode, descriptor x,
                          descriptor operand, struct layout layout, const char *what)
{
    descriptor y = in_passing(b, CUDNN_DATA_FLOAT, layout);
    pointwise(b, mode, CUDNN_DATA_FLOAT, -1, x, operand, NULL, y, what);
    return y;
}

/* Reduces dimensions in which y has size 1 or fewer heads. */
static void reduce(struct builder *b, cudnnReduceTensorOp_t how, descriptor x, descriptor y,
                   const char *what)
{
    const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    descriptor kind = make(b, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, what);
    set(b, kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    set(b, kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    finish(b, kind, what);
    descriptor op = make(b, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, what);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add_operation(b, op, what);
}

/* y: x's elements in another shape. */
static void reshape(struct builder *b, descriptor x, descriptor y, const char *what)
{
    descriptor op = make(b, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, what);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add_operation(b, op, what);
}

/* Scores of keys after the query become -infinity. */
static descriptor hide_later_keys(struct builder *b, descriptor scores, struct layout layout)
{
    descriptor query = in_passing(b, CUDNN_DATA_INT32, layout);
    pointwise(b, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2, scores, NULL, NULL, query,
              "queries' indices");
    descriptor key = in_passing(b, CUDNN_DATA_INT32, layout);
    pointwise(b, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3, scores, NULL, NULL, key,
              "keys' indices");
    descriptor visible = in_passing(b, CUDNN_DATA_BOOLEAN, layout);
    pointwise(b, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1, query, key, NULL, visible,
              "the causal comparison");
    descriptor masked = in_passing(b, CUDNN_DATA_FLOAT, layout);
    pointwise(b, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, scores, scalar(b, ID_HIDDEN),
              visible, masked, "the causal mask");
    return masked;
}

/* ---- Forward ---- */

/* o = softmax(scale q kT, masked) v; stats = log of the sum of the exponentials. */
static void build_forward(struct builder *b, const struct sw_cudnn_shape *s)
{
    const struct layout keys = interleaved(s->batch, s->kv_heads, s->n_k, s->dim, s->k_rows);
    const struct layout square = packed(s->batch, s->heads, s->n_q, s->n_k);
    const struct layout column = packed(s->batch, s->heads, s->n_q, 1);
    descriptor q = in_memory(b, ID_Q, CUDNN_DATA_BFLOAT16,
                             interleaved(s->batch, s->heads, s->n_q, s->dim, s->q_rows));
    descriptor k = in_memory(b, ID_K, CUDNN_DATA_BFLOAT16, transposed(keys));
    descriptor v = in_memory(b, ID_V, CUDNN_DATA_BFLOAT16, keys);
    descriptor o = in_memory(
        b, ID_O, CUDNN_DATA_BFLOAT16,
        interleaved(s->batch, s->heads, s->n_q, s->dim, s->dense_out ? s->n_q : s->q_rows));
    descriptor stats = in_memory(b, ID_STATS, CUDNN_DATA_FLOAT, column);

    descriptor products = in_passing(b, CUDNN_DATA_FLOAT, square);
    matmul(b, q, k, products, "q kT");
    descriptor scores =
        compute(b, CUDNN_POINTWISE_MUL, products, scalar(b, ID_SCALE), square, "the scores' scale");
    if (s->causal)
        scores = hide_later_keys(b, scores, square);
    descriptor most = in_passing(b, CUDNN_DATA_FLOAT, column);
    reduce(b, CUDNN_REDUCE_TENSOR_MAX, scores, most, "the largest scores");
    descriptor below = compute(b, CUDNN_POINTWISE_SUB, scores, most, square, "scores below");
    descriptor weights = compute(b, CUDNN_POINTWISE_EXP, below, NULL, square, "exponentials");
    descriptor sum = in_passing(b, CUDNN_DATA_FLOAT, column);
    reduce(b, CUDNN_REDUCE_TENSOR_ADD, weights, sum, "their sum");
    descriptor log_sum = compute(b, CUDNN_POINTWISE_LOG, sum, NULL, column, "its logarithm");
    pointwise(b, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, -1, most, log_sum, NULL, stats,
              "the log-sum-exp");
    descriptor p = in_passing(b, CUDNN_DATA_BFLOAT16, square);
    pointwise(b, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, -1, weights, sum, NULL, p, "probabilities");
    matmul(b, p, v, o, "p v");
}

/* ---- Backward ---- */

/* to = pT x, summed over a kv head's query heads. */
static void transposed_product(struct builder *b, const struct sw_cudnn_shape *s, descriptor p,
                               descriptor x, descriptor to, const char *what)
{
    descriptor turned =
        in_passing(b, CUDNN_DATA_BFLOAT16, transposed(packed(s->batch, s->heads, s->n_q, s->n_k)));
    reshape(b, p, turned, what);
    if (s->heads == s->kv_heads) {
        matmul(b, turned, x, to, what);
        return;
    }
    descriptor of_heads =
        in_passing(b, CUDNN_DATA_BFLOAT16, packed(s->batch, s->heads, s->n_k, s->dim));
    matmul(b, turned, x, of_heads, what);
    reduce(b, CUDNN_REDUCE_TENSOR_ADD, of_heads, to, what);
}

/* p = exp(scale q kT - stats); dv = pT do; ds = p (do vT - delta) scale; dk = dsT q; dq = ds k;
 * delta = rows' sums of o do. */
static void build_backward(struct builder *b, const struct sw_cudnn_shape *s)
{
    const int64_t q_out = s->dense_out ? s->n_q : s->q_rows;
    const int64_t k_out = s->dense_out ? s->n_k : s->k_rows;
    const struct layout queries = interleaved(s->batch, s->heads, s->n_q, s->dim, s->q_rows);
    const struct layout keys = interleaved(s->batch, s->kv_heads, s->n_k, s->dim, s->k_rows);
    const struct layout keys_out = interleaved(s->batch, s->kv_heads, s->n_k, s->dim, k_out);
    const struct layout square = packed(s->batch, s->heads, s->n_q, s->n_k);
    const struct layout column = packed(s->batch, s->heads, s->n_q, 1);
    const struct layout wide = packed(s->batch, s->heads, s->n_q, s->dim);
    descriptor q = in_memory(b, ID_Q, CUDNN_DATA_BFLOAT16, queries);
    descriptor k = in_memory(b, ID_K, CUDNN_DATA_BFLOAT16, transposed(keys));
    descriptor v = in_memory(b, ID_V, CUDNN_DATA_BFLOAT16, transposed(keys));
    descriptor o = in_memory(b, ID_O, CUDNN_DATA_BFLOAT16, queries);
    descriptor d_o = in_memory(b, ID_D_O, CUDNN_DATA_BFLOAT16, queries);
    descriptor stats = in_memory(b, ID_STATS, CUDNN_DATA_FLOAT, column);
    descriptor dq = in_memory(b, ID_DQ, CUDNN_DATA_BFLOAT16,
                              interleaved(s->batch, s->heads, s->n_q, s->dim, q_out));
    descriptor dk = in_memory(b, ID_DK, CUDNN_DATA_BFLOAT16, keys_out);
    descriptor dv = in_memory(b, ID_DV, CUDNN_DATA_BFLOAT16, keys_out);
    descriptor scale = scalar(b, ID_SCALE);

    descriptor products = compute(b, CUDNN_POINTWISE_MUL, d_o, o, wide, "do o");
    descriptor sums = in_passing(b, CUDNN_DATA_FLOAT, column);
    reduce(b, CUDNN_REDUCE_TENSOR_ADD, products, sums, "the sums of do o");
    descriptor delta = in_memory(b, ID_DELTA, CUDNN_DATA_FLOAT, column);
    pointwise(b, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, -1, sums, scalar(b, ID_ONE), NULL, delta,
              "delta");

    descriptor scores = in_passing(b, CUDNN_DATA_FLOAT, square);
    matmul(b, q, k, scores, "q kT");
    scores = compute(b, CUDNN_POINTWISE_MUL, scores, scale, square, "the scores' scale");
    scores = compute(b, CUDNN_POINTWISE_SUB, scores, stats, square, "scores below");
    if (s->causal)
        scores = hide_later_keys(b, scores, square);
    descriptor p = compute(b, CUDNN_POINTWISE_EXP, scores, NULL, square, "probabilities");
    transposed_product(b, s, p, d_o, dv, "pT do");

    descriptor ds = in_passing(b, CUDNN_DATA_FLOAT, square);
    matmul(b, d_o, v, ds, "do vT");
    ds = compute(b, CUDNN_POINTWISE_SUB, ds, delta, square, "do vT - delta");
    ds = compute(b, CUDNN_POINTWISE_MUL, ds, p, square, "ds");
    ds = compute(b, CUDNN_POINTWISE_MUL, ds, scale, square, "ds' scale");
    transposed_product(b, s, ds, q, dk, "dsT q");

    descriptor k_rows = in_passing(b, CUDNN_DATA_BFLOAT16, keys);
    reshape(b, k, k_rows, "keys in rows");
    descriptor dq_sum = in_memory(b, ID_DQ_SUM, CUDNN_DATA_FLOAT, wide);
    matmul(b, ds, k_rows, dq_sum, "ds k");
    pointwise(b, CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, -1, dq_sum, NULL, NULL, dq, "dq");
}

/* ---- Plans ---- */

/* Takes the heuristic's first configuration that becomes a plan. */
static void choose(struct builder *b, const struct sw_cudnn_attention *attention, descriptor graph,
                   cudnnBackendHeurMode_t mode)
{
    struct plan *plan = b->plan;
    descriptor configurations[CHOICES];
    int64_t found = 0;
    descriptor heuristic = make(b, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "a heuristic");
    set_descriptor(b, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(b, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (attention->properties != NULL)
        set_descriptor(b, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, attention->properties);
    finish(b, heuristic, "the heuristic");
    for (int i = 0; i < CHOICES; i++)
        configurations[i] = make(b, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "an engine");
    if (b->status == CUDNN_STATUS_SUCCESS)
        fail(b,
             cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, CHOICES, &found,
                                      configurations),
             "the heuristic's choices");
    for (int64_t i = 0; i < found && i < CHOICES && b->status == CUDNN_STATUS_SUCCESS; i++) {
        int64_t bytes = 0, count = 0;
        descriptor execution = make(b, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan");
        set_descriptor(b, execution, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configurations[i]);
        if (b->status != CUDNN_STATUS_SUCCESS || cudnnBackendFinalize(execution) != 0 ||
            cudnnBackendGetAttribute(execution, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &count, &bytes) != 0)
            continue;
        plan->execution = execution;
        plan->workspace_bytes = bytes;
        return;
    }
    fail(b, CUDNN_STATUS_NOT_SUPPORTED, "any engine");
}

static void build(struct builder *b, const struct sw_cudnn_attention *attention)
{
    const struct sw_cudnn_shape *s = &b->plan->shape;
    if (s->backward)
        build_backward(b, s);
    else
        build_forward(b, s);
    descriptor graph = make(b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "the graph");
    set(b, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, b->count,
        b->operations);
    if (attention->handle != NULL)
        set(b, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &attention->handle);
    finish(b, graph, "the graph");
    if (b->status != CUDNN_STATUS_SUCCESS)
        return;
    choose(b, attention, graph, CUDNN_HEUR_MODE_A);
    if (b->plan->execution == NULL) {
        b->status = CUDNN_STATUS_SUCCESS;
        choose(b, attention, graph, CUDNN_HEUR_MODE_FALLBACK);
    }
}

static void plan_free(struct plan *plan)
{
    if (plan == NULL)
        return;
    while (plan->count > 0)
        (void)cudnnBackendDestroyDescriptor(plan->all[--plan->count]);
    free(plan);
}

static bool same(const struct sw_cudnn_shape *a, const struct sw_cudnn_shape *b)
{
    return a->batch == b->batch && a->heads == b->heads && a->kv_heads == b->kv_heads &&
           a->n_q == b->n_q && a->n_k == b->n_k && a->q_rows == b->q_rows &&
           a->k_rows == b->k_rows && a->dim == b->dim && a->causal == b->causal &&
           a->backward == b->backward && a->dense_out == b->dense_out && a->scale == b->scale;
}

static struct plan *plan_find(const struct sw_cudnn_attention *attention,
                              const struct sw_cudnn_shape *shape)
{
    for (int32_t i = 0; i < attention->count; i++)
        if (same(&attention->plans[i]->shape, shape))
            return attention->plans[i];
    return NULL;
}

static struct plan *plan_add(struct sw_cudnn_attention *attention,
                             const struct sw_cudnn_shape *shape)
{
    if (attention->count == attention->capacity) {
        const int32_t wanted = attention->capacity ? 2 * attention->capacity : 16;
        struct plan **grown = realloc(attention->plans, (size_t)wanted * sizeof *grown);
        if (grown == NULL)
            return NULL;
        attention->plans = grown;
        attention->capacity = wanted;
    }
    struct plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return NULL;
    plan->shape = *shape;
    plan->scale = shape->scale;
    plan->hidden = -INFINITY;
    plan->one = 1.0f;
    attention->plans[attention->count++] = plan;
    return plan;
}

/* Reason to refuse a shape known to fail or to be wrong; NULL: try it. */
static const char *refuse(const struct sw_cudnn_shape *s)
{
    if (s->dim % 8 != 0)
        return "the head size is not a multiple of 8";
    if (s->dim > MAX_DIM)
        return "the head size is above 256";
    if (s->heads % s->kv_heads != 0)
        return "the heads do not divide into groups";
    if (s->causal && s->n_q != s->n_k)
        return "a causal piece must be square";
    if (s->backward && s->n_q == 1 && s->n_k == 1)
        return "backward of one query and one key";
    if (s->backward && s->n_k % 128 != 0 && sw_cudnn_version() < ANY_KEYS_VERSION)
        return "backward of keys that are not a multiple of 128 needs cuDNN 9.15.1";
    return NULL;
}

/* ---- The module ---- */

int32_t sw_cudnn_version(void)
{
    return (int32_t)cudnnGetVersion();
}

static cudnnStatus_t describe_gpu(struct sw_cudnn_attention *attention, const char *properties)
{
    cudnnStatus_t status =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &attention->properties);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(attention->properties,
                                          CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                          CUDNN_TYPE_CHAR, (int64_t)strlen(properties), properties);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(attention->properties);
    return status;
}

struct sw_cudnn_attention *sw_cudnn_attention_create(cudaStream_t stream, const char *properties,
                                                     struct sw_error *err)
{
    const int32_t version = sw_cudnn_version();
    if (version < OLDEST_VERSION) {
        sw_fail(err, SW_ENVIRONMENT, "cuDNN %d.%d.%d is older than 9.10.2", version / 10000,
                version / 100 % 100, version % 100);
        return NULL;
    }
    struct sw_cudnn_attention *attention = calloc(1, sizeof *attention);
    if (attention == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory for cuDNN");
        return NULL;
    }
    cudnnStatus_t status;
    if (properties != NULL) {
        status = describe_gpu(attention, properties);
    } else {
        status = cudnnCreate(&attention->handle);
        if (status == CUDNN_STATUS_SUCCESS)
            status = cudnnSetStream(attention->handle, stream);
    }
    if (status != CUDNN_STATUS_SUCCESS) {
        sw_fail(err, SW_ENVIRONMENT, "cuDNN does not start: %s", cudnnGetErrorString(status));
        sw_cudnn_attention_free(attention);
        return NULL;
    }
    return attention;
}

void sw_cudnn_attention_free(struct sw_cudnn_attention *attention)
{
    if (attention == NULL)
        return;
    for (int32_t i = 0; i < attention->count; i++)
        plan_free(attention->plans[i]);
    free(attention->plans);
    if (attention->properties != NULL)
        (void)cudnnBackendDestroyDescriptor(attention->properties);
    if (attention->handle != NULL)
        (void)cudnnDestroy(attention->handle);
    free(attention);
}

int64_t sw_cudnn_attention_prepare(struct sw_cudnn_attention *attention,
                                   const struct sw_cudnn_shape *shape, char *reason)
{
    struct plan *plan = plan_find(attention, shape);
    if (reason != NULL)
        *reason = '\0';
    if (plan != NULL)
        return plan->execution == NULL
                   ? -1
                   : plan->dq_sum_bytes + plan->delta_bytes + plan->workspace_bytes;
    const char *refused = refuse(shape);
    plan = plan_add(attention, shape);
    if (plan == NULL)
        refused = "out of memory";
    if (refused == NULL) {
        struct builder b = {.plan = plan, .next_virtual = FIRST_VIRTUAL};
        build(&b, attention);
        if (plan->execution == NULL && reason != NULL)
            snprintf(reason, SW_CUDNN_REASON_BYTES, "%s (%s)", cudnnGetErrorString(b.status),
                     b.failed);
    } else if (reason != NULL) {
        snprintf(reason, SW_CUDNN_REASON_BYTES, "%s", refused);
    }
    if (plan == NULL || plan->execution == NULL)
        return -1;
    if (shape->backward) {
        const int64_t rows = shape->batch * shape->heads * shape->n_q;
        plan->dq_sum_bytes = sw_align(rows * shape->dim * (int64_t)sizeof(float), BUFFER_ALIGNMENT);
        plan->delta_bytes = sw_align(rows * (int64_t)sizeof(float), BUFFER_ALIGNMENT);
    }
    return plan->dq_sum_bytes + plan->delta_bytes + plan->workspace_bytes;
}

/* ---- Runs ---- */

struct binding {
    int64_t id;
    void *data;
};

static int32_t bind(struct plan *plan, const struct sw_cudnn_pointers *p, char *workspace,
                    struct binding to[ID_COUNT])
{
    const struct sw_cudnn_shape *s = &plan->shape;
    int32_t n = 0;
    to[n++] = (struct binding){ID_Q, p->q};
    to[n++] = (struct binding){ID_K, p->k};
    to[n++] = (struct binding){ID_V, p->v};
    to[n++] = (struct binding){ID_O, p->o};
    to[n++] = (struct binding){ID_STATS, p->stats};
    to[n++] = (struct binding){ID_SCALE, &plan->scale};
    if (s->causal)
        to[n++] = (struct binding){ID_HIDDEN, &plan->hidden};
    if (!s->backward)
        return n;
    to[n++] = (struct binding){ID_D_O, p->d_o};
    to[n++] = (struct binding){ID_DQ, p->dq};
    to[n++] = (struct binding){ID_DK, p->dk};
    to[n++] = (struct binding){ID_DV, p->dv};
    to[n++] = (struct binding){ID_ONE, &plan->one};
    to[n++] = (struct binding){ID_DQ_SUM, workspace};
    to[n++] = (struct binding){ID_DELTA, workspace + plan->dq_sum_bytes};
    return n;
}

int sw_cudnn_attention_run(struct sw_cudnn_attention *attention, const struct sw_cudnn_shape *shape,
                           const struct sw_cudnn_pointers *pointers, void *workspace,
                           struct sw_error *err)
{
    struct plan *plan = plan_find(attention, shape);
    struct binding bindings[ID_COUNT];
    int64_t ids[ID_COUNT];
    void *addresses[ID_COUNT];
    if (plan == NULL || plan->execution == NULL || attention->handle == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "attention through cuDNN was not prepared");
    const int32_t count = bind(plan, pointers, workspace, bindings);
    for (int32_t i = 0; i < count; i++) {
        ids[i] = bindings[i].id;
        addresses[i] = bindings[i].data;
    }
    void *own = (char *)workspace + plan->dq_sum_bytes + plan->delta_bytes;
    descriptor pack = NULL;
    cudnnStatus_t status =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                          CUDNN_TYPE_INT64, count, ids);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                          CUDNN_TYPE_VOID_PTR, count, addresses);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                          CUDNN_TYPE_VOID_PTR, 1, &own);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendExecute(attention->handle, plan->execution, pack);
    if (pack != NULL)
        (void)cudnnBackendDestroyDescriptor(pack);
    if (status != CUDNN_STATUS_SUCCESS)
        return sw_fail(err, SW_ENVIRONMENT,
                       "attention through cuDNN failed (%s); SW_CUDA_ATTENTION=own does without it",
                       cudnnGetErrorString(status));
    return 0;
}
