/* Matrix products through cuBLASLt: one plan per (shape, layout, dtypes, alignment), with the
 * fastest of the heuristic's first algorithms, timed once, or simply the first; and the ops made of
 * products. */
#include "core/base/number.h"
#include "core/base/quantize.h"
#include "runner/device/cuda/quantized.h"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

enum { CHOICES = 6, TRIALS = 3, SMALLEST_TRIED_FLOPS = 100 << 20 };

/* Everything that an algorithm depends on. Zero the struct before filling: it is compared as
 * bytes. */
struct key {
    int64_t m, n, k, a_ld, b_ld, c_ld;
    int32_t a_dtype, b_dtype, c_dtype;
    int32_t a_transposed, b_transposed; /* true if stored column by column */
    int32_t a_align, b_align, c_align;  /* bytes */
    int32_t has_addend;
    int32_t device_scalars; /* true if alpha and beta are read on the device */
    int32_t settled;
};

struct plan {
    struct key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulHeuristicResult_t choices[CHOICES];
    int32_t count, best;
    bool tried;
};

struct sw_cuda_matmuls {
    cublasLtHandle_t handle;
    void *workspace; /* SW_CUDA_MATMUL_BYTES */
    cudaEvent_t begin, end;
    struct plan *plans;
    int32_t count, capacity;
};

static int fail_blas(struct sw_error *err, cublasStatus_t status, const struct key *key)
{
    return sw_fail(err, SW_ENVIRONMENT,
                   "cuBLASLt has no matrix product %lld x %lld x %lld of %s and %s to %s here (%s)",
                   (long long)key->m, (long long)key->k, (long long)key->n,
                   sw_dtype_name((enum sw_dtype)key->a_dtype),
                   sw_dtype_name((enum sw_dtype)key->b_dtype),
                   sw_dtype_name((enum sw_dtype)key->c_dtype), cublasLtGetStatusName(status));
}

struct sw_cuda_matmuls *sw_cuda_matmuls_create(struct sw_error *err)
{
    struct sw_cuda_matmuls *m = calloc(1, sizeof *m);
    if (m == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while creating the cuda device");
        return NULL;
    }
    const cublasStatus_t status = cublasLtCreate(&m->handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
        sw_fail(err, SW_ENVIRONMENT, "cuBLASLt does not start: %s", cublasLtGetStatusName(status));
        sw_cuda_matmuls_free(m);
        return NULL;
    }
    cudaError_t code = cudaMalloc(&m->workspace, SW_CUDA_MATMUL_BYTES);
    if (code == cudaSuccess)
        code = cudaEventCreate(&m->begin);
    if (code == cudaSuccess)
        code = cudaEventCreate(&m->end);
    if (code != cudaSuccess) {
        (void)sw_cuda_fail(err, code, "cannot set up matrix products");
        sw_cuda_matmuls_free(m);
        return NULL;
    }
    return m;
}

static void plan_free(struct plan *plan)
{
    if (plan->desc != NULL)
        (void)cublasLtMatmulDescDestroy(plan->desc);
    if (plan->a != NULL)
        (void)cublasLtMatrixLayoutDestroy(plan->a);
    if (plan->b != NULL)
        (void)cublasLtMatrixLayoutDestroy(plan->b);
    if (plan->c != NULL)
        (void)cublasLtMatrixLayoutDestroy(plan->c);
}

void sw_cuda_matmuls_free(struct sw_cuda_matmuls *m)
{
    if (m == NULL)
        return;
    for (int32_t i = 0; i < m->count; i++)
        plan_free(&m->plans[i]);
    free(m->plans);
    if (m->begin != NULL)
        (void)cudaEventDestroy(m->begin);
    if (m->end != NULL)
        (void)cudaEventDestroy(m->end);
    (void)cudaFree(m->workspace);
    if (m->handle != NULL)
        (void)cublasLtDestroy(m->handle);
    free(m);
}

static cudaDataType_t data_type(int32_t dtype)
{
    return dtype == SW_BF16_T ? CUDA_R_16BF : CUDA_R_32F;
}

/* Largest power of two dividing the address, at most 256: the alignment an algorithm may assume. */
static int32_t alignment_of(const void *address)
{
    int32_t align = 256;
    while (align > 1 && (uintptr_t)address % (uintptr_t)align != 0)
        align /= 2;
    return align;
}

/* cuBLASLt is column-major: row-major c[m,n] = a b is column-major cT[n,m] = bT aT, so b comes
 * first. A row-major operand, read by columns, is already transposed: no operation for it. */
static cublasStatus_t describe(struct plan *plan)
{
    const struct key *key = &plan->key;
    const cublasOperation_t b_op = key->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t a_op = key->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t on_device = CUBLASLT_POINTER_MODE_DEVICE;
    const uint64_t n = (uint64_t)key->n, m = (uint64_t)key->m, k = (uint64_t)key->k;
    cublasStatus_t status = cublasLtMatmulDescCreate(&plan->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, &b_op,
                                                sizeof b_op);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSB, &a_op,
                                                sizeof a_op);
    if (status == CUBLAS_STATUS_SUCCESS && key->device_scalars)
        status = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_POINTER_MODE,
                                                &on_device, sizeof on_device);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            cublasLtMatrixLayoutCreate(&plan->b, data_type(key->b_dtype), key->b_transposed ? k : n,
                                       key->b_transposed ? n : k, key->b_ld);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            cublasLtMatrixLayoutCreate(&plan->a, data_type(key->a_dtype), key->a_transposed ? m : k,
                                       key->a_transposed ? k : m, key->a_ld);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatrixLayoutCreate(&plan->c, data_type(key->c_dtype), n, m, key->c_ld);
    return status;
}

static cublasStatus_t prefer(cublasLtMatmulPreference_t preference,
                             cublasLtMatmulPreferenceAttributes_t attribute, int32_t wanted)
{
    const uint32_t value = (uint32_t)wanted;
    return cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value);
}

static cublasStatus_t find_choices(struct sw_cuda_matmuls *m, struct plan *plan)
{
    const struct key *key = &plan->key;
    const size_t most = SW_CUDA_MATMUL_BYTES;
    cublasLtMatmulPreference_t preference = NULL;
    int found = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key->b_align);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key->a_align);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key->c_align);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key->c_align);
    /* long sums of few outputs are split and their parts reduced in memory: in f32, like all sums
     * here */
    if (status == CUBLAS_STATUS_SUCCESS && key->c_dtype == SW_BF16_T)
        status = prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            cublasLtMatmulAlgoGetHeuristic(m->handle, plan->desc, plan->b, plan->a, plan->c,
                                           plan->c, preference, CHOICES, plan->choices, &found);
    if (preference != NULL)
        (void)cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    for (int i = 0; i < found; i++) /* keeps those that can run, in the heuristic's order */
        if (plan->choices[i].state == CUBLAS_STATUS_SUCCESS)
            plan->choices[plan->count++] = plan->choices[i];
    return plan->count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static struct plan *plan_find(struct sw_cuda_matmuls *m, const struct key *key,
                              struct sw_error *err)
{
    for (int32_t i = 0; i < m->count; i++)
        if (memcmp(&m->plans[i].key, key, sizeof *key) == 0)
            return &m->plans[i];
    if (m->count == m->capacity) {
        const int32_t wanted = m->capacity ? 2 * m->capacity : 32;
        struct plan *grown = realloc(m->plans, (size_t)wanted * sizeof *grown);
        if (grown == NULL) {
            sw_fail(err, SW_ENVIRONMENT, "out of memory for a matrix product");
            return NULL;
        }
        m->plans = grown;
        m->capacity = wanted;
    }
    struct plan *plan = &m->plans[m->count];
    memset(plan, 0, sizeof *plan);
    plan->key = *key;
    cublasStatus_t status = describe(plan);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = find_choices(m, plan);
    if (status != CUBLAS_STATUS_SUCCESS) {
        plan_free(plan);
        (void)fail_blas(err, status, key);
        return NULL;
    }
    m->count++;
    return plan;
}

static cublasStatus_t execute(struct sw_cuda_device *device, struct plan *plan, int32_t choice,
                              const struct sw_cuda_matmul *matmul)
{
    const bool adds = matmul->accumulate || matmul->addend != NULL;
    const float one = 1, beta = adds ? 1.0f : 0.0f;
    const void *added = matmul->addend != NULL ? matmul->addend : matmul->c;
    const float *scale = matmul->keep != NULL ? &device->step->one : &one;
    const float *keep = matmul->keep != NULL ? matmul->keep : &beta;
    return cublasLtMatmul(device->matmuls->handle, plan->desc, scale, matmul->b, plan->b, matmul->a,
                          plan->a, keep, added, plan->c, matmul->c, plan->c,
                          &plan->choices[choice].algo, device->matmuls->workspace,
                          SW_CUDA_MATMUL_BYTES, device->stream);
}

/* Times the choices on the current operands, which is repeatable. Skips a choice that fails; the
 * caller runs the best one again. */
static cublasStatus_t try_choices(struct sw_cuda_device *device, struct plan *plan,
                                  const struct sw_cuda_matmul *matmul)
{
    struct sw_cuda_matmuls *m = device->matmuls;
    float best = -1;
    plan->tried = true;
    for (int32_t i = 0; i < plan->count; i++) {
        float time = 0;
        cublasStatus_t status = execute(device, plan, i, matmul); /* warm-up */
        if (status != CUBLAS_STATUS_SUCCESS)
            continue;
        if (cudaEventRecord(m->begin, device->stream) != cudaSuccess)
            return CUBLAS_STATUS_EXECUTION_FAILED;
        for (int t = 0; t < TRIALS && status == CUBLAS_STATUS_SUCCESS; t++)
            status = execute(device, plan, i, matmul);
        if (cudaEventRecord(m->end, device->stream) != cudaSuccess ||
            cudaEventSynchronize(m->end) != cudaSuccess ||
            cudaEventElapsedTime(&time, m->begin, m->end) != cudaSuccess)
            return CUBLAS_STATUS_EXECUTION_FAILED;
        if (status == CUBLAS_STATUS_SUCCESS && (best < 0 || time < best)) {
            best = time;
            plan->best = i;
        }
    }
    return best < 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

/* Alignment of an operand; if settled, capped at the 16 bytes that kernels use, since a larger one
 * depends on the address. */
static int32_t settled_alignment(int32_t align, bool settled)
{
    return settled && align > 16 ? 16 : align;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* True if running the product repeatedly gives the same result. */
static bool may_repeat(const struct sw_cuda_device *device, const struct sw_cuda_matmul *matmul)
{
    if (matmul->keep != NULL)
        return matmul->keep == &device->step->sum && device->micro_step == 0;
    return !matmul->accumulate;
}

int sw_cuda_matmul(struct sw_cuda_device *device, const struct sw_cuda_matmul *matmul,
                   struct sw_error *err)
{
    struct key key;
    if (matmul->m == 0 || matmul->n == 0)
        return 0;
    if (sw_is_quantized(matmul->b_dtype))
        return sw_cuda_matmul_quantized(device, matmul, err);
    if (matmul->a_dtype != matmul->b_dtype ||
        (matmul->a_dtype != SW_F32 && matmul->a_dtype != SW_BF16_T))
        return sw_fail(err, SW_UNMET, "a matrix product of %s and %s has no cuda kernel",
                       sw_dtype_name(matmul->a_dtype), sw_dtype_name(matmul->b_dtype));
    memset(&key, 0, sizeof key);
    key.m = matmul->m;
    key.n = matmul->n;
    key.k = matmul->k;
    /* with both strides 1 there is one row: its stride may be anything, and cuBLASLt wants a large
     * one */
    key.a_transposed = matmul->a_column != 1;
    key.b_transposed = matmul->b_column != 1;
    key.a_ld =
        key.a_transposed ? larger(matmul->a_column, matmul->m) : larger(matmul->a_row, matmul->k);
    key.b_ld =
        key.b_transposed ? larger(matmul->b_column, matmul->k) : larger(matmul->b_row, matmul->n);
    key.c_ld = matmul->c_row;
    key.a_dtype = (int32_t)matmul->a_dtype;
    key.b_dtype = (int32_t)matmul->b_dtype;
    key.c_dtype = (int32_t)matmul->c_dtype;
    key.a_align = settled_alignment(alignment_of(matmul->a), matmul->settled);
    key.b_align = settled_alignment(alignment_of(matmul->b), matmul->settled);
    key.c_align = settled_alignment(alignment_of(matmul->c), matmul->settled);
    key.has_addend = matmul->addend != NULL;
    key.device_scalars = matmul->keep != NULL;
    key.settled = matmul->settled;
    if (key.has_addend && alignment_of(matmul->addend) < key.c_align)
        key.c_align = alignment_of(matmul->addend);
    struct plan *plan = plan_find(device->matmuls, &key, err);
    if (plan == NULL)
        return -1;
    const double flops = 2.0 * (double)key.m * (double)key.n * (double)key.k;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (!plan->tried && !matmul->settled && may_repeat(device, matmul) && !device->recording &&
        flops > SMALLEST_TRIED_FLOPS && plan->count > 1)
        status = try_choices(device, plan, matmul);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = execute(device, plan, plan->best, matmul);
    return status == CUBLAS_STATUS_SUCCESS ? 0 : fail_blas(err, status, &key);
}

static int queued(const struct sw_call *call, cudaError_t code, struct sw_error *err)
{
    return code == cudaSuccess
               ? 0
               : sw_cuda_fail(err, code, sw_op_info((enum sw_op_kind)call->op->kind)->name);
}

/* ---- linear ---- */

/* The last dimension, and the product of the others, without padding; only matrices are padded. */
static void as_matrix(const struct sw_tensor *tensor, int64_t *rows, int64_t *columns)
{
    *columns = tensor->size[tensor->ndim - 1] - tensor->padding[tensor->ndim - 1];
    *rows = 1;
    for (int d = 0; d + 1 < tensor->ndim; d++)
        *rows *= tensor->size[d] - tensor->padding[d];
}

/* Reads the scales of weights in 8 bits, and the workspace of a product with 8 bits or fewer. */
static int take_scales(const struct sw_call *call, int64_t outputs, struct sw_cuda_matmul *matmul,
                       struct sw_error *err)
{
    const struct sw_tensor *scales = &call->in[2];
    matmul->workspace = call->workspace;
    matmul->workspace_bytes = call->op->workspace_bytes;
    if (!sw_has_scales(matmul->b_dtype))
        return 0;
    if (call->op->n_in < 3 || scales->dtype != SW_F32 || scales->ndim != 1 ||
        scales->size[0] - scales->padding[0] != outputs)
        return sw_fail(err, SW_ENVIRONMENT, "%s takes %s with a scale for each of its outputs",
                       sw_op_info((enum sw_op_kind)call->op->kind)->name,
                       sw_dtype_name(call->in[1].dtype));
    matmul->scales = scales->data;
    return 0;
}

/* Derives sizes and strides of the call's product; false if operands do not match. */
static bool shape_product(const struct sw_call *call, struct sw_cuda_matmul *matmul)
{
    const struct sw_tensor *w = &call->in[1];
    int64_t tokens, x_columns, w_rows, w_columns, y_rows, y_columns;
    as_matrix(&call->in[0], &tokens, &x_columns);
    as_matrix(w, &w_rows, &w_columns);
    *(call->op->kind == SW_OP_LINEAR_T ? &w_columns : &w_rows) *= sw_dtype_group(w->dtype);
    as_matrix(&call->out[0], &y_rows, &y_columns);
    const int64_t w_stride = w->size[w->ndim - 1];
    matmul->n = y_columns;
    switch (call->op->kind) {
    case SW_OP_LINEAR: /* [tokens, e] [e, f] */
        matmul->m = tokens;
        matmul->k = x_columns;
        matmul->a_row = x_columns, matmul->a_column = 1;
        matmul->b_row = w_stride, matmul->b_column = 1;
        return x_columns == w_rows && y_rows == tokens && y_columns == w_columns;
    case SW_OP_LINEAR_T: /* [tokens, f] [e, f]^T */
        matmul->m = tokens;
        matmul->k = x_columns;
        matmul->a_row = x_columns, matmul->a_column = 1;
        matmul->b_row = 1, matmul->b_column = w_stride;
        return x_columns == w_columns && y_rows == tokens && y_columns == w_rows;
    default: /* linear_dw: [tokens, e]^T [tokens, f] */
        matmul->m = x_columns;
        matmul->k = tokens;
        matmul->a_row = 1, matmul->a_column = x_columns;
        matmul->b_row = w_stride, matmul->b_column = 1;
        return tokens == w_rows && y_rows == x_columns && y_columns == w_columns;
    }
}

static int fail_shapes(const struct sw_call *call, struct sw_error *err)
{
    int64_t size[3][2];
    as_matrix(&call->in[0], &size[0][0], &size[0][1]);
    as_matrix(&call->in[1], &size[1][0], &size[1][1]);
    as_matrix(&call->out[0], &size[2][0], &size[2][1]);
    return sw_fail(err, SW_ENVIRONMENT,
                   "%s got [%lld, %lld] and [%lld, %lld] for a result [%lld, %lld]",
                   sw_op_info((enum sw_op_kind)call->op->kind)->name, (long long)size[0][0],
                   (long long)size[0][1], (long long)size[1][0], (long long)size[1][1],
                   (long long)size[2][0], (long long)size[2][1]);
}

static int run_product(struct sw_device *device, const struct sw_call *call, struct sw_error *err)
{
    struct sw_cuda_device *d = (struct sw_cuda_device *)device;
    const struct sw_tensor *x = &call->in[0], *w = &call->in[1], *y = &call->out[0];
    const bool adds = sw_op_adds_gradient(call->op);
    const uint16_t own = sw_has_scales(w->dtype) ? 3 : 2; /* an addend follows the operands */
    struct sw_cuda_matmul matmul = {.a = x->data,
                                    .b = w->data,
                                    .addend =
                                        call->op->n_in > own && !adds ? call->in[own].data : NULL,
                                    .keep = sw_cuda_kept_of(d, call),
                                    .settled = call->batch_invariant,
                                    .c = y->data,
                                    .a_dtype = x->dtype,
                                    .b_dtype = w->dtype,
                                    .c_dtype = y->dtype,
                                    .c_row = y->size[y->ndim - 1]};
    bool fits = shape_product(call, &matmul);
    if (sw_is_quantized(w->dtype) && take_scales(call, matmul.n, &matmul, err) != 0)
        return -1;
    if (call->op->n_in > own)
        fits = fits && call->in[own].dtype == y->dtype && call->in[own].elems == y->elems;
    if (!fits)
        return fail_shapes(call, err);
    if (sw_cuda_matmul(d, &matmul, err) != 0)
        return -1;
    return call->op->kind == SW_OP_LINEAR_DW ? queued(call, sw_cuda_zero_padding(y, d->stream), err)
                                             : 0;
}

int sw_cuda_run_linear(struct sw_device *device, const struct sw_call *call, struct sw_error *err)
{
    return run_product(device, call, err);
}

int sw_cuda_run_linear_t(struct sw_device *device, const struct sw_call *call, struct sw_error *err)
{
    return run_product(device, call, err);
}

int sw_cuda_run_linear_dw(struct sw_device *device, const struct sw_call *call,
                          struct sw_error *err)
{
    return run_product(device, call, err);
}

/* ---- The head ---- */

/* logits[n, vocab] = x[n, e] W[vocab, e]^T for n tokens from `first`, softcapped, f32, into the
 * workspace. */
static int make_logits(struct sw_cuda_device *device, const struct sw_call *call, int64_t first,
                       int64_t n, struct sw_error *err)
{
    const struct sw_tensor *x = &call->in[0], *w = &call->in[1];
    const int64_t width = x->size[x->ndim - 1], vocab = w->size[0];
    const int64_t panels = sw_lm_head_panels_at(call->in[2].elems, vocab);
    const bool narrow = sw_has_scales(w->dtype);
    const struct sw_cuda_matmul matmul = {.m = n,
                                          .n = vocab,
                                          .k = width,
                                          .a = (const char *)x->data +
                                               (size_t)(first * width) * sw_dtype_bytes(x->dtype),
                                          .b = w->data,
                                          .c = call->workspace,
                                          .a_row = width,
                                          .a_column = 1,
                                          .b_row = 1,
                                          .b_column = w->size[1],
                                          .scales = narrow ? call->in[3].data : NULL,
                                          .workspace = (char *)call->workspace + panels,
                                          .workspace_bytes = call->op->workspace_bytes - panels,
                                          .c_row = sw_lm_head_row_elems(vocab),
                                          .settled = call->batch_invariant,
                                          .a_dtype = x->dtype,
                                          .b_dtype = w->dtype,
                                          .c_dtype = SW_F32};
    const double cap = call->op->as.head.softcap;
    if (sw_cuda_matmul(device, &matmul, err) != 0)
        return -1;
    return cap == 0 ? 0
                    : queued(call,
                             sw_cuda_softcap(call->workspace, n * sw_lm_head_row_elems(vocab),
                                             (float)cap, device->stream),
                             err);
}

int sw_cuda_run_lm_head_stats(struct sw_device *device, const struct sw_call *call,
                              struct sw_error *err)
{
    struct sw_cuda_device *d = (struct sw_cuda_device *)device;
    const int64_t tokens = call->in[2].elems, vocab = call->in[1].size[0];
    const int64_t chunk = sw_lm_head_chunk_tokens(tokens, vocab);
    if (call->out[0].dtype != SW_F32)
        return sw_fail(err, SW_ENVIRONMENT, "lm_head_stats must be f32");
    for (int64_t begin = 0; begin < tokens; begin += chunk) {
        const int64_t left = tokens - begin;
        /* batch invariant: the last chunk has full length and recomputes some tokens */
        const int64_t first = call->batch_invariant && left < chunk ? tokens - chunk : begin;
        const int64_t n = tokens - first < chunk ? tokens - first : chunk;
        if (make_logits(d, call, first, n, err) != 0 ||
            queued(call, sw_cuda_logits_stats(call, call->workspace, first, n, d->stream), err) !=
                0)
            return -1;
    }
    return 0;
}

/* Products of n tokens from `first` whose logits became gradients: their rows of dx, and their part
 * of dw in f32 `sums`; NULL: no dw. */
static int head_products(struct sw_cuda_device *d, const struct sw_call *call, int64_t first,
                         int64_t n, const struct sw_tensor *sums, struct sw_error *err)
{
    const struct sw_tensor *x = &call->in[0], *w = &call->in[1], *dx = &call->out[0];
    const int64_t vocab = w->size[0], width = x->size[x->ndim - 1];
    const int64_t row_elems = (x->dtype != SW_F32 ? 2 : 1) * sw_lm_head_row_elems(vocab);
    const bool adds = sw_op_adds_gradient(call->op);
    const size_t x_offset = (size_t)(first * width) * sw_dtype_bytes(x->dtype);
    const size_t dx_offset = (size_t)(first * width) * sw_dtype_bytes(dx->dtype);
    const struct sw_cuda_matmul to_x = {.m = n,
                                        .n = width,
                                        .k = vocab,
                                        .a = call->workspace,
                                        .b = w->data,
                                        .c = (char *)dx->data + dx_offset,
                                        .a_row = row_elems,
                                        .a_column = 1,
                                        .b_row = w->size[1],
                                        .b_column = 1,
                                        .c_row = width,
                                        .a_dtype = x->dtype,
                                        .b_dtype = w->dtype,
                                        .c_dtype = dx->dtype};
    if (sums == NULL)
        return sw_cuda_matmul(d, &to_x, err);
    const struct sw_cuda_matmul to_w = {.m = vocab,
                                        .n = width,
                                        .k = n,
                                        .a = call->workspace,
                                        .b = (const char *)x->data + x_offset,
                                        .c = sums->data,
                                        .a_row = 1,
                                        .a_column = row_elems,
                                        .b_row = width,
                                        .b_column = 1,
                                        .c_row = sums->size[1],
                                        .a_dtype = x->dtype,
                                        .b_dtype = x->dtype,
                                        .c_dtype = SW_F32,
                                        .accumulate = first > 0,
                                        .keep = !adds       ? NULL
                                                : first > 0 ? &d->step->one
                                                            : sw_cuda_kept_of(d, call)};
    return sw_cuda_matmul(d, &to_x, err) != 0 ? -1 : sw_cuda_matmul(d, &to_w, err);
}

/* lm_head_grad, and lm_head_dx, which lacks dw. */
static int run_head_gradient(struct sw_device *device, const struct sw_call *call,
                             struct sw_error *err)
{
    struct sw_cuda_device *d = (struct sw_cuda_device *)device;
    const bool trained = call->op->kind == SW_OP_LM_HEAD_GRAD;
    const uint16_t n_out = call->op->n_out;
    const struct sw_tensor *x = &call->in[0], *w = &call->in[1];
    const struct sw_tensor *dw = trained ? &call->out[1] : w;
    const int64_t tokens = call->in[2].elems, vocab = w->size[0];
    const int64_t chunk = sw_lm_head_chunk_tokens(tokens, vocab);
    const size_t logits_bytes = (size_t)(chunk * sw_lm_head_row_elems(vocab)) * sizeof(float);
    const bool own_loss = n_out > 2, adds = sw_op_adds_gradient(call->op);
    struct sw_tensor sums = *dw;
    if (!own_loss && call->in[3].dtype != SW_F32)
        return sw_fail(err, SW_ENVIRONMENT, "lm_head_grad: the log-sum-exp must be f32");
    if (own_loss && (call->out[n_out - 2].dtype != SW_F32 || call->out[n_out - 1].dtype != SW_F32))
        return sw_fail(err, SW_ENVIRONMENT, "lm_head_grad: the loss must be f32");
    if (dw->dtype != SW_F32 && adds)
        return sw_fail(err, SW_ENVIRONMENT, "lm_head_grad: a sum that is added to must be f32");
    if (trained && dw->dtype != SW_F32) { /* chunks are summed in f32, rounded once */
        sums.data = (char *)call->workspace + sw_align((int64_t)logits_bytes, SW_ARENA_ALIGNMENT);
        sums.dtype = SW_F32;
    }
    const bool narrow = x->dtype != SW_F32;
    for (int64_t first = 0; first < tokens; first += chunk) {
        const int64_t n = tokens - first < chunk ? tokens - first : chunk;
        if (make_logits(d, call, first, n, err) != 0 ||
            queued(call,
                   own_loss ? sw_cuda_logits_loss(call, call->workspace, first, n, narrow, d->step,
                                                  d->stream)
                            : sw_cuda_logits_grad(call, call->workspace, first, n, narrow, d->step,
                                                  d->stream),
                   err) != 0 ||
            head_products(d, call, first, n, trained ? &sums : NULL, err) != 0)
            return -1;
    }
    if (own_loss && queued(call, sw_cuda_sum_losses(call, d->step, d->stream), err) != 0)
        return -1;
    if (!trained)
        return 0;
    if (queued(call, sw_cuda_zero_padding(&sums, d->stream), err) != 0)
        return -1;
    return sums.data == dw->data ? 0 : queued(call, sw_cuda_cast(&sums, dw, d->stream), err);
}

int sw_cuda_run_lm_head_grad(struct sw_device *device, const struct sw_call *call,
                             struct sw_error *err)
{
    return run_head_gradient(device, call, err);
}

int sw_cuda_run_lm_head_dx(struct sw_device *device, const struct sw_call *call,
                           struct sw_error *err)
{
    return run_head_gradient(device, call, err);
}
