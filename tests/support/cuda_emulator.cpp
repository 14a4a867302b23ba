/* See cuda_emulator.h. */
#include "tests/support/cuda_emulator.h"
#include "tests/support/emulated_products.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cublasLt.h>
#include <vector>

thread_local uint3 threadIdx, blockIdx;
thread_local dim3 blockDim, gridDim;

/* ---- Threads of a block as coroutines ---- */

enum { MAX_THREADS = 1024, STACK_BYTES = 256 << 10, WARP = 32, SHARED_BYTES = 227 << 10 };
enum state { READY, AT_BARRIER, AT_WARP_BARRIER, DONE };

struct block_runner {
    void *scheduler, *thread[MAX_THREADS]; /* stack pointers of what does not run */
    char *stack[MAX_THREADS];              /* nullptr: not begun */
    state at[MAX_THREADS];
    uint64_t exchanged[2][MAX_THREADS];
    int votes[2][MAX_THREADS];
    uint8_t turn[MAX_THREADS]; /* which half of the two a thread uses next */
    int current, count;
    bool backwards;
    char *shared;
    const std::function<void()> *body;

    ~block_runner()
    {
        for (char *s : stack)
            free(s);
        free(shared);
    }
};

static thread_local block_runner *runner;

static block_runner *get_runner()
{
    struct holder {
        block_runner *r = nullptr;
        ~holder()
        {
            delete r;
        }
    };
    static thread_local holder owned;
    if (owned.r == nullptr) {
        owned.r = new block_runner();
        if (posix_memalign(reinterpret_cast<void **>(&owned.r->shared), 256, SHARED_BYTES) != 0)
            abort();
        runner = owned.r;
    }
    return owned.r;
}

/* Leaves a stack, with what a call must keep on it, and goes on with another one. The library's own
 * ways (swapcontext, setjmp) took half of these tests' time. */
extern "C" void sw_emulated_switch(void **left, void *next);
#ifdef __x86_64__
asm(R"(
    .text
    .globl sw_emulated_switch
    .type sw_emulated_switch, @function
sw_emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size sw_emulated_switch, .-sw_emulated_switch
)");
enum { KEPT = 6 };
#else
#error "the emulator switches stacks on x86-64 only"
#endif

static void yield(state why)
{
    block_runner *r = runner;
    const int t = r->current;
    r->at[t] = why;
    sw_emulated_switch(&r->thread[t], r->scheduler);
}

static void thread_main()
{
    for (;;) {
        (*runner->body)();
        yield(DONE);
    }
}

/* A stack from which sw_emulated_switch() comes out at the begin of thread_main(), aligned as
 * after a call. */
static void begin(block_runner *r, int t)
{
    void *memory = nullptr;
    if (posix_memalign(&memory, 64, STACK_BYTES) != 0)
        abort();
    r->stack[t] = static_cast<char *>(memory);
    void **top = reinterpret_cast<void **>(r->stack[t] + STACK_BYTES) - 2;
    *top = reinterpret_cast<void *>(thread_main);
    for (int i = 0; i < KEPT; i++)
        *--top = nullptr;
    r->thread[t] = top;
}

static void resume(block_runner *r, int t)
{
    r->current = t;
    threadIdx.x = (unsigned)t;
    threadIdx.y = threadIdx.z = 0;
    if (r->stack[t] == nullptr)
        begin(r, t);
    sw_emulated_switch(&r->scheduler, r->thread[t]);
}

/* Frees the threads [first, end) if every one that is not done waits for `why`. */
static bool release(block_runner *r, int first, int end, state why)
{
    bool any = false;
    for (int t = first; t < end; t++) {
        if (r->at[t] != DONE && r->at[t] != why)
            return false;
        any = any || r->at[t] == why;
    }
    for (int t = first; t < end; t++)
        if (r->at[t] == why)
            r->at[t] = READY;
    return any;
}

/* Every thread of a warp as far as the warp gets by itself, from the other end each time. */
static void run_warp(block_runner *r, int first, int end)
{
    do {
        for (int i = first; i < end; i++) {
            const int t = r->backwards ? first + end - 1 - i : i;
            if (r->at[t] == READY)
                resume(r, t);
        }
        r->backwards = !r->backwards;
    } while (release(r, first, end, AT_WARP_BARRIER));
}

static void run_block(block_runner *r)
{
    const int warps = (r->count + WARP - 1) / WARP;
    for (int t = 0; t < r->count; t++) {
        r->at[t] = READY;
        r->turn[t] = 0;
    }
    for (bool running = true; running;) {
        const bool last_first = r->backwards;
        for (int i = 0; i < warps; i++) {
            const int first = (last_first ? warps - 1 - i : i) * WARP;
            run_warp(r, first, first + WARP < r->count ? first + WARP : r->count);
        }
        r->backwards = !last_first;
        const bool freed = release(r, 0, r->count, AT_BARRIER);
        running = false;
        for (int t = 0; t < r->count; t++)
            running = running || r->at[t] != DONE;
        if (running && !freed) {
            fprintf(stderr, "cuda_emulator: threads of a block wait at different barriers\n");
            abort();
        }
    }
}

void *sw_emulated_shared(void)
{
    return runner->shared;
}

void sw_emulated_barrier(void)
{
    yield(AT_BARRIER);
}

void sw_emulated_warp_barrier(void)
{
    yield(AT_WARP_BARRIER);
}

/* Two halves in turn: whoever writes a half again has passed the barrier behind which all had
 * read it. */
int sw_emulated_any(int predicate)
{
    block_runner *r = runner;
    const int half = r->turn[r->current]++ & 1;
    r->votes[half][r->current] = predicate;
    yield(AT_BARRIER);
    int any = 0;
    for (int t = 0; t < r->count; t++)
        any |= r->votes[half][t] != 0;
    return any;
}

uint64_t sw_emulated_exchange(uint64_t bits, int lane_mask)
{
    block_runner *r = runner;
    const int t = r->current;
    const int half = r->turn[t]++ & 1;
    r->exchanged[half][t] = bits;
    yield(AT_WARP_BARRIER);
    return r->exchanged[half][t ^ lane_mask];
}

/* ---- Streams, events, graphs ---- */

typedef std::vector<std::function<void()>> work_list;

struct emulated_stream;

/* What is captured, on the stream where it began and on those that were made to wait for it, in the
 * order of the calls: one that the events allow. */
struct emulated_capture {
    uint64_t id;
    emulated_stream *origin;
    std::vector<emulated_stream *> streams;
    work_list work;
    bool invalid; /* after a mistake nothing is captured any more */
};

struct emulated_stream {
    emulated_capture *capture; /* nullptr: what is queued runs at once */
    uint64_t head;             /* how far it is in the capture: nodes of its own */
    uint64_t joined;           /* how far the capture's first stream waits for it */
};

/* Emulated time: whatever is queued takes a microsecond. */
static thread_local double clock_ms;
static thread_local int thread_captures; /* begun by this thread */
static const double work_ms = 1e-3;
static std::atomic<uint64_t> last_capture;

struct emulated_event {
    double at_ms;
    bool recorded;
    uint64_t capture; /* in which it was recorded last; 0: in none */
    emulated_stream *stream;
    uint64_t head;
};

static emulated_stream *stream_of(cudaStream_t stream)
{
    return reinterpret_cast<emulated_stream *>(stream);
}

/* A call that a capture does not take ends it, as on a device. */
static cudaError_t spoil(emulated_capture *capture, cudaError_t code)
{
    capture->invalid = true;
    return code;
}

/* Calls that may wait for the device, of a thread that captures. */
static cudaError_t refuse_unsafe()
{
    return thread_captures > 0 ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

static void run(const std::function<void()> &work)
{
    clock_ms += work_ms;
    work();
}

static void enqueue(cudaStream_t stream, std::function<void()> work)
{
    emulated_stream *s = stream_of(stream);
    if (s == nullptr || s->capture == nullptr) {
        run(work);
        return;
    }
    s->capture->work.push_back(std::move(work));
    s->head++;
}

void sw_emulated_enqueue(cudaStream_t stream, std::function<void()> work)
{
    enqueue(stream, std::move(work));
}

void sw_emulate(cudaStream_t stream, dim3 grid, dim3 block, size_t shared_bytes,
                std::function<void()> thread)
{
    if (shared_bytes > SHARED_BYTES || block.x > MAX_THREADS || grid.x == 0 || grid.y == 0 ||
        grid.z == 0) {
        fprintf(stderr, "cuda_emulator: a launch no device would take\n");
        abort();
    }
    enqueue(stream, [grid, block, thread]() {
        block_runner *r = get_runner();
        r->count = (int)block.x;
        r->body = &thread;
        gridDim = grid;
        blockDim = block;
        for (unsigned z = 0; z < grid.z; z++)
            for (unsigned y = 0; y < grid.y; y++)
                for (unsigned x = 0; x < grid.x; x++) {
                    blockIdx.x = x;
                    blockIdx.y = y;
                    blockIdx.z = z;
                    memset(r->shared, 0xff, 4096); /* NaN: nothing may count on zeros */
                    run_block(r);
                }
    });
}

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = reinterpret_cast<cudaStream_t>(new emulated_stream());
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)priority;
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    delete stream_of(stream);
    return cudaSuccess;
}

/* Waiting for a stream that is captured is an error, as on a device. */
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    const emulated_stream *s = stream_of(stream);
    return s != nullptr && s->capture != nullptr
               ? spoil(s->capture, cudaErrorStreamCaptureUnsupported)
               : cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return cudaStreamSynchronize(stream);
}

/* What was recorded in a capture makes the stream that waits for it part of it; a stream that is
 * captured cannot wait for anything else. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    emulated_stream *s = stream_of(stream);
    const emulated_event *e = reinterpret_cast<const emulated_event *>(event);
    if (!e->recorded)
        return cudaSuccess;
    emulated_capture *other =
        e->capture != 0 && e->stream->capture != nullptr && e->stream->capture->id == e->capture
            ? e->stream->capture
            : nullptr;
    if (s->capture == nullptr) {
        if (e->capture == 0)
            return cudaSuccess;
        if (other == nullptr)
            return cudaErrorCapturedEvent; /* of a capture that is over */
        s->capture = other;
        s->head = s->joined = 0;
        other->streams.push_back(s);
        return cudaSuccess;
    }
    if (s->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (e->capture == 0)
        return spoil(s->capture, cudaErrorStreamCaptureIsolation);
    if (other != s->capture)
        return spoil(s->capture,
                     other == nullptr ? cudaErrorCapturedEvent : cudaErrorStreamCaptureMerge);
    if (s == s->capture->origin && e->stream->joined < e->head)
        e->stream->joined = e->head;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = reinterpret_cast<cudaEvent_t>(new emulated_event());
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete reinterpret_cast<emulated_event *>(event);
    return cudaSuccess;
}

/* A captured record tells the time only when it is external, as on a device. */
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    emulated_stream *s = stream_of(stream);
    emulated_event *e = reinterpret_cast<emulated_event *>(event);
    const bool capturing = s != nullptr && s->capture != nullptr;
    if (capturing && s->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (flags == cudaEventRecordExternal && !capturing)
        return cudaErrorIllegalState;
    if (flags == cudaEventRecordExternal) {
        enqueue(stream, [e]() { e->at_ms = clock_ms; });
        return cudaSuccess;
    }
    e->recorded = true;
    e->capture = capturing ? s->capture->id : 0;
    e->stream = s;
    e->head = capturing ? s->head : 0;
    if (!capturing)
        e->at_ms = clock_ms;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return reinterpret_cast<emulated_event *>(event)->capture != 0 ? cudaErrorCapturedEvent
                                                                   : cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    *ms = (float)(reinterpret_cast<emulated_event *>(end)->at_ms -
                  reinterpret_cast<emulated_event *>(begin)->at_ms);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)mode;
    emulated_stream *s = stream_of(stream);
    if (s->capture != nullptr)
        return cudaErrorIllegalState;
    s->capture = new emulated_capture{++last_capture, s, {s}, {}, false};
    thread_captures++;
    return cudaSuccess;
}

/* Every stream that took part must have been waited for by the first. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    emulated_stream *s = stream_of(stream);
    emulated_capture *capture = s->capture;
    *graph = nullptr;
    if (capture == nullptr || capture->origin != s)
        return cudaErrorStreamCaptureUnmatched;
    cudaError_t code = capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    for (emulated_stream *one : capture->streams) {
        if (code == cudaSuccess && one != s && one->joined < one->head)
            code = cudaErrorStreamCaptureUnjoined;
        one->capture = nullptr;
    }
    if (code == cudaSuccess)
        *graph = reinterpret_cast<cudaGraph_t>(new work_list(std::move(capture->work)));
    delete capture;
    thread_captures--;
    return code;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    *out = reinterpret_cast<cudaGraphExec_t>(new work_list(*reinterpret_cast<work_list *>(graph)));
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    (void)stream;
    for (const std::function<void()> &work : *reinterpret_cast<work_list *>(graph))
        run(work);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete reinterpret_cast<work_list *>(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    delete reinterpret_cast<work_list *>(graph);
    return cudaSuccess;
}

/* ---- Memory and the device ---- */

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = nullptr;
    if (refuse_unsafe() != cudaSuccess)
        return refuse_unsafe();
    if (bytes > (size_t)1 << 40)
        return cudaErrorMemoryAllocation;
    const size_t rounded = (bytes + 255) / 256 * 256;
    if (posix_memalign(memory, 256, rounded ? rounded : 256) != 0)
        return cudaErrorMemoryAllocation;
    memset(*memory, 0xff, bytes < 4096 ? bytes : 4096); /* not zeros */
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return memory != nullptr ? refuse_unsafe() : cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return cudaMalloc(memory, bytes);
}

cudaError_t cudaFreeHost(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind;
    if (bytes > 0)
        enqueue(stream, [=]() { memcpy(to, from, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    (void)kind;
    if (width > to_pitch || width > from_pitch || to_pitch > INT32_MAX || from_pitch > INT32_MAX)
        return cudaErrorInvalidPitchValue;
    enqueue(stream, [=]() {
        for (size_t i = 0; i < height; i++)
            memcpy(static_cast<char *>(to) + i * to_pitch,
                   static_cast<const char *>(from) + i * from_pitch, width);
    });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    if (bytes > 0)
        enqueue(stream, [=]() { memset(to, value, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    for (size_t i = 0; i < height; i++)
        (void)cudaMemsetAsync((char *)to + i * pitch, value, width, stream);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = *total = (size_t)1 << 30;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
{
    (void)kernel;
    (void)attribute;
    return value <= SHARED_BYTES ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int index)
{
    return index == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int index)
{
    (void)index;
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "emulated");
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t code)
{
    switch (code) {
    case cudaSuccess:
        return "no error";
    case cudaErrorStreamCaptureIsolation:
        return "905: a wait for an event from outside of the capture";
    case cudaErrorStreamCaptureUnjoined:
        return "904: a captured stream that was not waited for";
    case cudaErrorStreamCaptureUnsupported:
        return "900: not while a stream is captured";
    case cudaErrorStreamCaptureInvalidated:
        return "901: the capture was spoiled before";
    default:
        return "emulated error";
    }
}

/* ---- cuBLASLt ---- */

struct emulated_desc {
    cublasOperation_t a, b;
    bool device_scalars;
};

struct emulated_matrix {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t ld;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = static_cast<cublasLtHandle_t>(malloc(1));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 0;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "emulated failure";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *desc =
        reinterpret_cast<cublasLtMatmulDesc_t>(new emulated_desc{CUBLAS_OP_N, CUBLAS_OP_N, false});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    emulated_desc *d = reinterpret_cast<emulated_desc *>(desc);
    int32_t mode;
    if (bytes != sizeof(cublasOperation_t) || bytes != sizeof mode)
        return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        memcpy(&d->a, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        memcpy(&d->b, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
        memcpy(&mode, value, bytes);
        d->device_scalars = mode == CUBLASLT_POINTER_MODE_DEVICE;
        return d->device_scalars || mode == CUBLASLT_POINTER_MODE_HOST
                   ? CUBLAS_STATUS_SUCCESS
                   : CUBLAS_STATUS_INVALID_VALUE;
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    delete reinterpret_cast<emulated_desc *>(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
    if (ld < (int64_t)rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    *layout =
        reinterpret_cast<cublasLtMatrixLayout_t>(new emulated_matrix{type, rows, columns, ld});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete reinterpret_cast<emulated_matrix *>(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = static_cast<cublasLtMatmulPreference_t>(malloc(1));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    (void)preference;
    (void)value;
    const size_t wanted =
        attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? sizeof(uint64_t) : sizeof(uint32_t);
    return bytes == wanted ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
    (void)handle;
    (void)preference;
    const emulated_desc *e = reinterpret_cast<emulated_desc *>(desc);
    const emulated_matrix *x = reinterpret_cast<emulated_matrix *>(a);
    const emulated_matrix *y = reinterpret_cast<emulated_matrix *>(b);
    const emulated_matrix *z = reinterpret_cast<emulated_matrix *>(d);
    const uint64_t m = e->a == CUBLAS_OP_N ? x->rows : x->columns;
    const uint64_t k = e->a == CUBLAS_OP_N ? x->columns : x->rows;
    const uint64_t k2 = e->b == CUBLAS_OP_N ? y->rows : y->columns;
    const uint64_t n = e->b == CUBLAS_OP_N ? y->columns : y->rows;
    *found = 0;
    if (c != d || m != z->rows || n != z->columns || k != k2 || wanted < 3)
        return CUBLAS_STATUS_INVALID_VALUE;
    memset(results, 0, 3 * sizeof *results);
    results[0].state = CUBLAS_STATUS_NOT_SUPPORTED; /* is passed over */
    results[1].state = CUBLAS_STATUS_SUCCESS;
    results[2].state = CUBLAS_STATUS_SUCCESS;
    results[2].algo.data[0] = 1;
    *found = 3;
    return CUBLAS_STATUS_SUCCESS;
}

static thread_local sw_emulated_products products;

sw_emulated_products sw_emulated_products_take(void)
{
    const sw_emulated_products taken = products;
    products = {};
    return taken;
}

static double element(const emulated_matrix &m, const void *data, uint64_t row, uint64_t column)
{
    const int64_t i = (int64_t)column * m.ld + (int64_t)row;
    if (m.type == CUDA_R_32F)
        return (double)static_cast<const float *>(data)[i];
    const uint32_t bits = (uint32_t) static_cast<const uint16_t *>(data)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    (void)handle;
    (void)workspace;
    (void)workspace_bytes;
    const emulated_desc e = *reinterpret_cast<emulated_desc *>(desc);
    const emulated_matrix x = *reinterpret_cast<emulated_matrix *>(a_layout);
    const emulated_matrix y = *reinterpret_cast<emulated_matrix *>(b_layout);
    const emulated_matrix z = *reinterpret_cast<emulated_matrix *>(d_layout);
    const int64_t rows = (int64_t)z.columns; /* it thinks in columns */
    products.least_rows =
        products.count == 0 || rows < products.least_rows ? rows : products.least_rows;
    products.most_rows = rows > products.most_rows ? rows : products.most_rows;
    products.second += algo->data[0] == 1;
    products.count++;
    const float *by_at = static_cast<const float *>(alpha);
    const float *keep_at = static_cast<const float *>(beta);
    const double by_now = e.device_scalars ? 0 : (double)*by_at;
    const double keep_now = e.device_scalars ? 0 : (double)*keep_at;
    const uint64_t k = e.a == CUBLAS_OP_N ? x.columns : x.rows;
    if (c_layout != d_layout)
        return CUBLAS_STATUS_INVALID_VALUE;
    enqueue(stream, [=]() {
        const double by = e.device_scalars ? (double)*by_at : by_now;
        const double keep = e.device_scalars ? (double)*keep_at : keep_now;
        for (uint64_t j = 0; j < z.columns; j++)
            for (uint64_t i = 0; i < z.rows; i++) {
                double sum = 0;
                for (uint64_t l = 0; l < k; l++)
                    sum += (e.a == CUBLAS_OP_N ? element(x, a, i, l) : element(x, a, l, i)) *
                           (e.b == CUBLAS_OP_N ? element(y, b, l, j) : element(y, b, j, l));
                sum = by * sum + (keep != 0 ? keep * element(z, c, i, j) : 0);
                const int64_t at = (int64_t)j * z.ld + (int64_t)i;
                if (z.type == CUDA_R_32F) {
                    static_cast<float *>(d)[at] = (float)sum;
                } else {
                    const float narrow = (float)sum;
                    uint32_t bits;
                    memcpy(&bits, &narrow, sizeof bits);
                    static_cast<uint16_t *>(d)[at] =
                        (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
                }
            }
    });
    return CUBLAS_STATUS_SUCCESS;
}
}
