/* The CUDA device: memory, the stream, per-step values, recordings, and the table from op kinds to
 * functions. */
#include "core/base/number.h"
#include "core/base/quantize.h"
#include "runner/device/cuda/serving.h"

#include <cublasLt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sw_recording {
    cudaGraphExec_t graph;
};

static struct sw_cuda_device *cuda_of(struct sw_device *device)
{
    return (struct sw_cuda_device *)device;
}

/* ---- Memory ---- */

static void *cuda_allocate(struct sw_device *device, size_t bytes)
{
    void *memory = NULL;
    if (cudaMalloc(&memory, bytes > 0 ? bytes : SW_ARENA_ALIGNMENT) != cudaSuccess) {
        (void)cudaGetLastError(); /* not sticky: the caller reports the shortage */
        return NULL;
    }
    if (cudaMemsetAsync(memory, 0, bytes, cuda_of(device)->stream) != cudaSuccess) {
        (void)cudaFree(memory);
        return NULL;
    }
    return memory;
}

static void cuda_release(struct sw_device *device, void *memory)
{
    (void)cudaStreamSynchronize(cuda_of(device)->stream);
    (void)cudaFree(memory);
}

static int64_t cuda_free_bytes(struct sw_device *device)
{
    (void)device;
    size_t available = 0, total = 0;
    if (cudaMemGetInfo(&available, &total) != cudaSuccess)
        return -1;
    return (int64_t)available;
}

static int cuda_facts(struct sw_device *device, struct sw_device_facts *out, struct sw_error *err)
{
    struct cudaDeviceProp properties;
    size_t available = 0, total = 0;
    cudaError_t code = cudaGetDeviceProperties(&properties, cuda_of(device)->index);
    if (code == cudaSuccess)
        code = cudaMemGetInfo(&available, &total);
    if (code != cudaSuccess)
        return sw_cuda_fail(err, code, "the GPU does not say what it is");
    *out = (struct sw_device_facts){.major = properties.major,
                                    .minor = properties.minor,
                                    .units = properties.multiProcessorCount,
                                    .memory_bytes = (int64_t)total};
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, properties.name);
    return 0;
}

/* Bytes of the stage that holds the bytes from `at`. */
static size_t stage_bytes(size_t bytes, size_t at)
{
    return bytes - at < SW_CUDA_STAGE_BYTES ? bytes - at : SW_CUDA_STAGE_BYTES;
}

/* Copies through pinned buffers in rotation, in stream order: the host continues once the bytes
 * left its memory. */
static int cuda_copy_in(struct sw_device *device, void *to, const void *host, size_t bytes)
{
    struct sw_cuda_device *d = cuda_of(device);
    for (size_t at = 0; at < bytes;) {
        const size_t n = stage_bytes(bytes, at);
        const int32_t s = d->stage_next;
        d->stage_next = (s + 1) % SW_CUDA_STAGES;
        if (cudaEventSynchronize(d->stage_free[s]) != cudaSuccess)
            return -1;
        memcpy(d->stage[s], (const char *)host + at, n);
        if (cudaMemcpyAsync((char *)to + at, d->stage[s], n, cudaMemcpyHostToDevice, d->stream) !=
                cudaSuccess ||
            cudaEventRecord(d->stage_free[s], d->stream) != cudaSuccess)
            return -1;
        at += n;
    }
    return 0;
}

/* The host empties one stage while others fill. */
static int cuda_copy_out(struct sw_device *device, void *host, const void *from, size_t bytes)
{
    struct sw_cuda_device *d = cuda_of(device);
    int32_t oldest = d->stage_next, in_flight = 0;
    for (size_t sent = 0, got = 0; got < bytes;) {
        if (sent < bytes && in_flight < SW_CUDA_STAGES) {
            const int32_t s = d->stage_next;
            const size_t n = stage_bytes(bytes, sent);
            if (cudaEventSynchronize(d->stage_free[s]) != cudaSuccess ||
                cudaMemcpyAsync(d->stage[s], (const char *)from + sent, n, cudaMemcpyDeviceToHost,
                                d->stream) != cudaSuccess ||
                cudaEventRecord(d->stage_free[s], d->stream) != cudaSuccess)
                return -1;
            d->stage_next = (s + 1) % SW_CUDA_STAGES;
            in_flight++;
            sent += n;
            continue;
        }
        if (cudaEventSynchronize(d->stage_free[oldest]) != cudaSuccess)
            return -1;
        const size_t n = stage_bytes(bytes, got);
        memcpy((char *)host + got, d->stage[oldest], n);
        oldest = (oldest + 1) % SW_CUDA_STAGES;
        in_flight--;
        got += n;
    }
    return 0;
}

/* Contiguous rows are copied as one piece: the runtime's pitch is limited to 2 GiB. */
static int cuda_copy_box(struct sw_device *device, void *to, size_t to_stride_bytes,
                         const void *from, size_t from_stride_bytes, size_t width_bytes,
                         size_t rows)
{
    cudaStream_t stream = cuda_of(device)->stream;
    if (width_bytes == 0 || rows == 0)
        return 0;
    const bool whole =
        rows == 1 || (to_stride_bytes == width_bytes && from_stride_bytes == width_bytes);
    const cudaError_t code =
        whole ? cudaMemcpyAsync(to, from, width_bytes * rows, cudaMemcpyDeviceToDevice, stream)
              : cudaMemcpy2DAsync(to, to_stride_bytes, from, from_stride_bytes, width_bytes, rows,
                                  cudaMemcpyDeviceToDevice, stream);
    return code == cudaSuccess ? 0 : -1;
}

static int cuda_synchronize(struct sw_device *device, struct sw_error *err)
{
    const cudaError_t code = cudaStreamSynchronize(cuda_of(device)->stream);
    return code == cudaSuccess ? 0 : sw_cuda_fail(err, code, "the GPU failed");
}

/* ---- Steps and recordings ---- */

static int cuda_set_step(struct sw_device *device, const struct sw_step *step, struct sw_error *err)
{
    struct sw_cuda_device *d = cuda_of(device);
    const int32_t slot = d->step_next;
    if (d->first_step == 0)
        d->first_step = step->step;
    if (d->first_step != step->step && !d->scratch_noted) { /* all shapes are known */
        d->scratch_noted = true;
        sw_cuda_note(d,
                     "library workspace beside the arena, from reserved_memory: %zu MiB, and %d "
                     "MiB of cuBLASLt's",
                     (d->scratch.bytes + d->scratch.retired_bytes) >> 20,
                     SW_CUDA_MATMUL_BYTES >> 20);
    }
    d->step_next = (slot + 1) % SW_CUDA_STEPS;
    d->micro_step = step->micro_step;
    cudaError_t code = cudaEventSynchronize(d->step_free[slot]);
    if (code != cudaSuccess)
        return sw_cuda_fail(err, code, "the GPU failed");
    const double correction1 = 1 - pow(step->beta1, (double)step->step);
    const double correction2 = 1 - pow(step->beta2, (double)step->step);
    d->steps[slot] = (struct sw_cuda_step){
        .micro_step = step->micro_step,
        .clip = (float)step->grad_clip,
        .beta1 = (float)step->beta1,
        .fresh1 = (float)(1 - step->beta1),
        .beta2 = (float)step->beta2,
        .fresh2 = (float)(1 - step->beta2),
        .rate = (float)(step->learning_rate / correction1),
        .root = (float)(1 / sqrt(correction2)),
        .eps = (float)step->eps,
        .keep = (float)(1 - step->learning_rate * step->weight_decay),
        .one = 1,
        .sum = step->micro_step > 0 ? 1.0f : 0.0f,
        .loss_scale = step->loss_scale,
        .most_loss = step->most_loss,
        .most_norm = step->most_norm,
        .no_update = step->no_update,
    };
    code = cudaMemcpyAsync(d->step, &d->steps[slot], sizeof *d->step, cudaMemcpyHostToDevice,
                           d->stream);
    if (code == cudaSuccess)
        code = cudaEventRecord(d->step_free[slot], d->stream);
    return code == cudaSuccess ? 0 : sw_cuda_fail(err, code, "cannot send a step to the GPU");
}

static int cuda_record_begin(struct sw_device *device, struct sw_error *err)
{
    struct sw_cuda_device *d = cuda_of(device);
    const cudaError_t code = cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal);
    if (code != cudaSuccess)
        return sw_cuda_fail(err, code, "cannot begin a CUDA graph");
    d->recording = true;
    return 0;
}

static int cuda_record_end(struct sw_device *device, struct sw_recording **out,
                           struct sw_error *err)
{
    struct sw_cuda_device *d = cuda_of(device);
    cudaGraph_t graph = NULL;
    d->recording = false;
    cudaError_t code = cudaStreamEndCapture(d->stream, &graph);
    if (out == NULL || code != cudaSuccess) { /* discarded, or failed */
        if (graph != NULL)
            (void)cudaGraphDestroy(graph);
        return code == cudaSuccess ? 0 : sw_cuda_fail(err, code, "cannot end a CUDA graph");
    }
    struct sw_recording *recording = calloc(1, sizeof *recording);
    if (recording == NULL) {
        (void)cudaGraphDestroy(graph);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a CUDA graph");
    }
    code = cudaGraphInstantiate(&recording->graph, graph, 0);
    (void)cudaGraphDestroy(graph);
    if (code != cudaSuccess) {
        free(recording);
        return sw_cuda_fail(err, code, "cannot make a CUDA graph");
    }
    d->recordings++;
    *out = recording;
    return 0;
}

static int cuda_replay(struct sw_device *device, struct sw_recording *recording,
                       struct sw_error *err)
{
    const cudaError_t code = cudaGraphLaunch(recording->graph, cuda_of(device)->stream);
    return code == cudaSuccess ? 0 : sw_cuda_fail(err, code, "cannot start a CUDA graph");
}

/* CUDA frees a running recording when it ends. Does not wait: it may hang on another rank until
 * NCCL aborts, which needs all recordings of its calls freed. */
static void cuda_recording_free(struct sw_device *device, struct sw_recording *recording)
{
    if (recording == NULL)
        return;
    (void)cudaGraphExecDestroy(recording->graph);
    cuda_of(device)->recordings--;
    free(recording);
}

/* ---- Marks ---- */

static int make_marks(struct sw_cuda_device *d, int32_t count, struct sw_error *err)
{
    if (d->recording)
        return sw_fail(err, SW_ENVIRONMENT, "mark %d is too many while a recording is made",
                       (int)count - 1);
    cudaEvent_t *grown = realloc(d->marks, (size_t)count * sizeof *grown);
    if (grown == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for %d marks", (int)count);
    d->marks = grown;
    while (d->mark_count < count) {
        const cudaError_t code = cudaEventCreate(&d->marks[d->mark_count]);
        if (code != cudaSuccess)
            return sw_cuda_fail(err, code, "cannot make a mark on the GPU");
        d->mark_count++;
    }
    return 0;
}

/* External: a graph node that each replay executes. A plain record would only order streams within
 * the capture. */
static int cuda_mark(struct sw_device *device, int32_t index, struct sw_error *err)
{
    struct sw_cuda_device *d = cuda_of(device);
    if (index >= d->mark_count && make_marks(d, index + 1, err) != 0)
        return -1;
    const cudaError_t code =
        cudaEventRecordWithFlags(d->marks[index], d->stream,
                                 d->recording ? cudaEventRecordExternal : cudaEventRecordDefault);
    return code == cudaSuccess ? 0 : sw_cuda_fail(err, code, "cannot queue a mark on the GPU");
}

static double cuda_mark_seconds(struct sw_device *device, int32_t from, int32_t to)
{
    const struct sw_cuda_device *d = cuda_of(device);
    float ms = 0;
    if (from >= d->mark_count || to >= d->mark_count ||
        cudaEventElapsedTime(&ms, d->marks[from], d->marks[to]) != cudaSuccess)
        return -1;
    return 1e-3 * (double)ms;
}

/* ---- Ops ---- */

/* Checks an op's dtypes: f32 and bf16, integers for indices. */
static int check_dtypes(const struct sw_call *call, struct sw_error *err)
{
    const struct sw_op *op = call->op;
    for (int i = 0; i < op->n_in + op->n_out; i++) {
        const struct sw_tensor *t = i < op->n_in ? &call->in[i] : &call->out[i - op->n_in];
        const bool coded =
            (sw_has_scales(t->dtype) && i == 0 &&
             (op->kind == SW_OP_WIDEN || op->kind == SW_OP_WIDEN_T)) ||
            (t->dtype == SW_I8 && i == 1 && op->kind == SW_OP_EMBEDDING); /* an embedding table */
        if (t->dtype != SW_F32 && t->dtype != SW_BF16_T && t->dtype != SW_I32 &&
            t->dtype != SW_CODES && !coded)
            return sw_fail(err, SW_UNMET, "the cuda device computes in f32 and bf16, %s got %s",
                           sw_op_info((enum sw_op_kind)op->kind)->name, sw_dtype_name(t->dtype));
    }
    return 0;
}

static int check_wide(const struct sw_tensor *t, const struct sw_call *call, struct sw_error *err)
{
    if (t->dtype == SW_F32)
        return 0;
    return sw_fail(err, SW_ENVIRONMENT, "%s: an operand must be f32, it is %s",
                   sw_op_info((enum sw_op_kind)call->op->kind)->name, sw_dtype_name(t->dtype));
}

static int launched(const struct sw_call *call, cudaError_t code, struct sw_error *err)
{
    return code == cudaSuccess
               ? 0
               : sw_cuda_fail(err, code, sw_op_info((enum sw_op_kind)call->op->kind)->name);
}

int sw_cuda_run_launch(struct sw_device *device, const struct sw_call *call,
                       sw_cuda_launch_function *launch, struct sw_error *err)
{
    if (check_dtypes(call, err) != 0)
        return -1;
    return launched(call, launch(call, cuda_of(device)->stream), err);
}

int sw_cuda_run_head_norm(struct sw_device *device, const struct sw_call *call,
                          struct sw_error *err)
{
    return sw_cuda_run_rmsnorm(device, call, err);
}

int sw_cuda_run_add(struct sw_device *device, const struct sw_call *call, struct sw_error *err)
{
    if (check_dtypes(call, err) != 0)
        return -1;
    return launched(
        call, sw_cuda_add(&call->in[0], &call->in[1], &call->out[0], cuda_of(device)->stream), err);
}

int sw_cuda_run_accumulate(struct sw_device *device, const struct sw_call *call,
                           struct sw_error *err)
{
    struct sw_cuda_device *d = cuda_of(device);
    if (check_dtypes(call, err) != 0)
        return -1;
    return launched(call,
                    sw_cuda_accumulate(&call->in[0], &call->in[1], &call->out[0],
                                       call->op->as.accumulate.first, d->step, d->stream),
                    err);
}

int sw_cuda_run_cast(struct sw_device *device, const struct sw_call *call, struct sw_error *err)
{
    if (check_dtypes(call, err) != 0)
        return -1;
    return launched(call, sw_cuda_cast(&call->in[0], &call->out[0], cuda_of(device)->stream), err);
}

int sw_cuda_run_slice(struct sw_device *device, const struct sw_call *call, struct sw_error *err)
{
    if (call->in[0].ndim != call->out[0].ndim || call->in[0].dtype != call->out[0].dtype)
        return sw_fail(err, SW_ENVIRONMENT, "slice between tensors of different kinds");
    return launched(call, sw_cuda_slice(&call->in[0], &call->out[0], cuda_of(device)->stream), err);
}

/* Runs with a scratch number per row. */
static int run_norm_grad(struct sw_device *device, const struct sw_call *call, int64_t width,
                         cudaError_t (*launch)(const struct sw_call *, float *, cudaStream_t),
                         struct sw_error *err)
{
    struct sw_cuda_device *d = cuda_of(device);
    const int64_t rows = call->in[0].elems / width;
    if (check_dtypes(call, err) != 0)
        return -1;
    float *inverse = sw_cuda_scratch(d, (size_t)rows * sizeof *inverse, err);
    if (inverse == NULL)
        return -1;
    return launched(call, launch(call, inverse, d->stream), err);
}

int sw_cuda_run_rmsnorm_grad(struct sw_device *device, const struct sw_call *call,
                             struct sw_error *err)
{
    const struct sw_tensor *x = &call->in[0];
    const int64_t head_dim = call->op->as.norm.head_dim;
    return run_norm_grad(device, call, head_dim > 0 ? head_dim : x->size[x->ndim - 1],
                         sw_cuda_rmsnorm_grad, err);
}

int sw_cuda_run_split_norm_grad(struct sw_device *device, const struct sw_call *call,
                                struct sw_error *err)
{
    const struct sw_tensor *x = &call->in[0];
    return run_norm_grad(device, call, x->size[x->ndim - 1], sw_cuda_split_norm_grad, err);
}

int sw_cuda_run_head_norm_grad(struct sw_device *device, const struct sw_call *call,
                               struct sw_error *err)
{
    return sw_cuda_run_rmsnorm_grad(device, call, err);
}

int sw_cuda_run_embedding_grad(struct sw_device *device, const struct sw_call *call,
                               struct sw_error *err)
{
    struct sw_cuda_device *d = cuda_of(device);
    if (check_dtypes(call, err) != 0)
        return -1;
    void *scratch = sw_cuda_scratch(d, sw_cuda_embedding_grad_bytes(call), err);
    if (scratch == NULL)
        return -1;
    return launched(
        call, sw_cuda_embedding_grad(call, sw_cuda_kept_of(d, call), scratch, d->stream), err);
}

int sw_cuda_run_lm_head_loss(struct sw_device *device, const struct sw_call *call,
                             struct sw_error *err)
{
    if (check_wide(&call->in[0], call, err) != 0 || check_wide(&call->out[0], call, err) != 0 ||
        check_wide(&call->out[1], call, err) != 0)
        return -1;
    return launched(
        call, sw_cuda_lm_head_loss(call, cuda_of(device)->step, cuda_of(device)->stream), err);
}

int sw_cuda_run_sum_squares(struct sw_device *device, const struct sw_call *call,
                            struct sw_error *err)
{
    struct sw_cuda_device *d = cuda_of(device);
    if (check_dtypes(call, err) != 0)
        return -1;
    double *parts = sw_cuda_scratch(d, SW_CUDA_SQUARE_PARTS * sizeof *parts, err);
    if (parts == NULL)
        return -1;
    return launched(call, sw_cuda_sum_squares(call, parts, d->stream), err);
}

int sw_cuda_run_adamw(struct sw_device *device, const struct sw_call *call, struct sw_error *err)
{
    struct sw_cuda_device *d = cuda_of(device);
    if (check_dtypes(call, err) != 0)
        return -1;
    return launched(call, sw_cuda_adamw(call, d->step, d->tables, d->stream), err);
}

/* ---- The device ---- */

static void cuda_destroy(struct sw_device *device)
{
    struct sw_cuda_device *d = cuda_of(device);
    if (d == NULL)
        return;
    if (d->stream != NULL)
        (void)cudaStreamSynchronize(d->stream);
    sw_cuda_matmuls_free(d->matmuls);
    sw_cudnn_attention_free(d->library.cudnn);
    for (int32_t i = 0; i < d->scratch.retired_count; i++)
        (void)cudaFree(d->scratch.retired[i]);
    free(d->scratch.retired);
    (void)cudaFree(d->scratch.data);
    (void)cudaFree(d->step);
    (void)cudaFree(d->tables);
    if (d->steps != NULL)
        (void)cudaFreeHost(d->steps);
    for (int i = 0; i < SW_CUDA_STEPS; i++)
        if (d->step_free[i] != NULL)
            (void)cudaEventDestroy(d->step_free[i]);
    for (int i = 0; i < SW_CUDA_STAGES; i++) {
        if (d->stage[i] != NULL)
            (void)cudaFreeHost(d->stage[i]);
        if (d->stage_free[i] != NULL)
            (void)cudaEventDestroy(d->stage_free[i]);
    }
    for (int32_t i = 0; i < d->mark_count; i++)
        (void)cudaEventDestroy(d->marks[i]);
    free(d->marks);
    if (d->stream != NULL)
        (void)cudaStreamDestroy(d->stream);
    free(d);
}

static const struct sw_device_vtable cuda_vtable = {
    .name = "cuda",
    .takes = " window softcap sink segments ring ",
    .allocate = cuda_allocate,
    .release = cuda_release,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .copy_box = cuda_copy_box,
    .synchronize = cuda_synchronize,
    .destroy = cuda_destroy,
    .set_step = cuda_set_step,
    .free_bytes = cuda_free_bytes,
    .facts = cuda_facts,
    .record_begin = cuda_record_begin,
    .record_end = cuda_record_end,
    .replay = cuda_replay,
    .recording_free = cuda_recording_free,
    .mark = cuda_mark,
    .mark_seconds = cuda_mark_seconds,
    .run =
        {
#define SW_KERNEL(KIND, name) [SW_OP_##KIND] = sw_cuda_run_##name,
#include "core/ir/ops.def"
        },
};

/* Creates all queues; 0 or the first error. */
static cudaError_t create_queues(struct sw_cuda_device *d)
{
    cudaError_t code = cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking);
    for (int i = 0; i < SW_CUDA_STAGES && code == cudaSuccess; i++) {
        code = cudaMallocHost(&d->stage[i], SW_CUDA_STAGE_BYTES);
        if (code == cudaSuccess)
            code = cudaEventCreateWithFlags(&d->stage_free[i], cudaEventDisableTiming);
    }
    for (int i = 0; i < SW_CUDA_STEPS && code == cudaSuccess; i++)
        code = cudaEventCreateWithFlags(&d->step_free[i], cudaEventDisableTiming);
    if (code == cudaSuccess)
        code = cudaMallocHost((void **)&d->steps, SW_CUDA_STEPS * sizeof *d->steps);
    if (code == cudaSuccess)
        code = cudaMalloc((void **)&d->step, sizeof *d->step);
    if (code == cudaSuccess)
        code = cudaMemsetAsync(d->step, 0, sizeof *d->step, d->stream);
    struct sw_blockwise_table tables[2];
    sw_blockwise_fill(true, &tables[0]);
    sw_blockwise_fill(false, &tables[1]);
    if (code == cudaSuccess)
        code = cudaMalloc((void **)&d->tables, sizeof tables);
    if (code == cudaSuccess)
        code = cudaMemcpyAsync(d->tables, tables, sizeof tables, cudaMemcpyHostToDevice, d->stream);
    if (code == cudaSuccess)
        code = cudaStreamSynchronize(d->stream);
    return code;
}

struct sw_device *sw_cuda_device_create(int32_t index, struct sw_error *err)
{
    const int32_t count = sw_cuda_device_count(err);
    if (count < 0)
        return NULL;
    if (index < 0 || index >= count) {
        sw_fail(err, SW_ENVIRONMENT, "GPU %d was asked for, this node has %d", (int)index,
                (int)count);
        return NULL;
    }
    struct sw_cuda_device *d = calloc(1, sizeof *d);
    if (d == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while creating the cuda device");
        return NULL;
    }
    d->base.vtable = &cuda_vtable;
    d->index = index;
    int shared = 0;
    cudaError_t code = cudaSetDevice(index);
    if (code == cudaSuccess)
        code = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
    d->shared_bytes = (size_t)shared;
    if (code == cudaSuccess)
        code = create_queues(d);
    if (code != cudaSuccess) {
        (void)sw_cuda_fail(err, code, "cannot set up the GPU");
        cuda_destroy(&d->base);
        return NULL;
    }
    d->matmuls = sw_cuda_matmuls_create(err);
    if (d->matmuls == NULL) {
        cuda_destroy(&d->base);
        return NULL;
    }
    return &d->base;
}

void sw_cuda_device_own_attention(struct sw_device *device)
{
    struct sw_cuda_library *library = &cuda_of(device)->library;
    sw_cudnn_attention_free(library->cudnn);
    library->cudnn = NULL;
    library->own = true;
}

void sw_cuda_device_on_note(struct sw_device *device, void (*note)(void *context, const char *text),
                            void *context)
{
    cuda_of(device)->note = note;
    cuda_of(device)->note_context = context;
}

const char *sw_cuda_device_attention(struct sw_device *device, char *buffer, size_t buffer_bytes)
{
    struct sw_cuda_device *d = cuda_of(device);
    const int32_t version = sw_cudnn_version();
    if (sw_cuda_cudnn(d) != NULL)
        snprintf(buffer, buffer_bytes, "cuDNN %d.%d.%d in bf16, own kernels in f32",
                 version / 10000, version / 100 % 100, version % 100);
    else
        snprintf(buffer, buffer_bytes, "own kernels (%s)",
                 d->library.own ? "as asked" : d->library.why);
    return buffer;
}

void *sw_cuda_device_stream(struct sw_device *device)
{
    return cuda_of(device)->stream;
}
