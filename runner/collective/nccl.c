/* Collectives through NCCL, one rank per GPU, queued on their own stream.
 *
 * A call waits, on the GPU, for the compute stream's work before `start`; `wait` makes the compute
 * stream wait for the call. The host waits for nothing, so calls can be recorded. One communicator
 * per set of axes (ncclCommSplit), made before the arena, in the same order on every rank; they
 * share the first one's channels and buffers. */
#include "runner/collective/nccl.h"

#include "core/base/clock.h"
#include "runner/collective/call.h"
#include "runner/collective/comm.h"
#include "runner/collective/direct.h"
#include "runner/collective/nccl_calls.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A buffer at the same offsets on all ranks of a communicator may be registered as its window. */
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
#define HAVE_WINDOWS 1
#else
#define HAVE_WINDOWS 0
typedef void *ncclWindow_t;
#endif

enum { TICKETS = 64, SMALL_BYTES = 4096, NAP_NS = 20000 };

static const struct sw_axes every_axis = {SW_AXIS_COUNT, {SW_DP, SW_FSDP, SW_TP, SW_SP}};

struct group {
    struct sw_axes axes; /* effective */
    ncclComm_t comm;
    bool borrowed;       /* true for the world's communicator */
    ncclWindow_t window; /* the arena's; NULL: none */
};

struct nccl {
    struct sw_comm comm;
    struct sw_nccl_job job;
    cudaStream_t compute, stream;
    cudaEvent_t ready;         /* the compute stream at the latest start */
    cudaEvent_t followed;      /* the compute stream at the latest `follow` */
    cudaEvent_t done[TICKETS]; /* ticket t: done[t % TICKETS] */
    uint64_t started;
    ncclComm_t world;
    struct group groups[SW_MESH_GROUPS];
    int32_t group_count;
    char *arena;
    size_t bytes;
    void *own; /* memory from nccl_allocate; the arena may equal it */
    double stall_seconds;
    void *small, *pinned; /* SMALL_BYTES each, on device and host, for calls on host memory */
    bool failed;          /* true if a stream may never finish */
};

static int fail_nccl(struct nccl *n, struct sw_axes axes, ncclResult_t code, const char *what,
                     struct sw_error *err)
{
    char names[64];
    n->failed = true;
    const int32_t size = sw_axes_size(&n->comm.mesh, axes);
    const int32_t index = sw_axes_index(&n->comm.mesh, axes, n->comm.rank);
    return sw_fail(
        err, SW_ENVIRONMENT,
        "rank %d: %s over %s (member %d of %d, beside ranks %d and %d): NCCL: %s",
        (int)n->comm.rank, what, sw_axes_format(axes, names, sizeof names), (int)index, (int)size,
        (int)sw_axes_member(&n->comm.mesh, axes, n->comm.rank, (index + size - 1) % size),
        (int)sw_axes_member(&n->comm.mesh, axes, n->comm.rank, (index + 1) % size),
        ncclGetErrorString(code));
}

static int fail_cuda(struct nccl *n, cudaError_t code, struct sw_error *err)
{
    n->failed = true;
    return sw_fail(err, SW_ENVIRONMENT, "rank %d: collectives: %s", (int)n->comm.rank,
                   cudaGetErrorString(code));
}

static int fail_status(struct nccl *n, struct sw_axes axes, struct sw_nccl_status status,
                       const char *what, struct sw_error *err)
{
    return status.nccl != ncclSuccess ? fail_nccl(n, axes, status.nccl, what, err)
                                      : fail_cuda(n, status.cuda, err);
}

/* ---- Groups ---- */

/* True if the group is all ranks in order, as in the first communicator. */
static bool is_world(const struct nccl *n, struct sw_axes axes)
{
    if (sw_axes_size(&n->comm.mesh, axes) != n->comm.size)
        return false;
    for (int32_t i = 0; i < n->comm.size; i++)
        if (sw_axes_member(&n->comm.mesh, axes, n->comm.rank, i) != i)
            return false;
    return true;
}

/* Splits the world: the members' lowest rank is the color; members are ordered by sw_axes_index. */
static int split_world(struct nccl *n, struct sw_axes axes, ncclComm_t *out, struct sw_error *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    const int32_t size = sw_axes_size(&n->comm.mesh, axes);
    int32_t lowest = n->comm.rank;
    for (int32_t i = 0; i < size; i++) {
        const int32_t member = sw_axes_member(&n->comm.mesh, axes, n->comm.rank, i);
        lowest = member < lowest ? member : lowest;
    }
    config.splitShare = 1; /* saves hundreds of MB of buffers per communicator */
    const ncclResult_t code = ncclCommSplit(
        n->world, lowest, sw_axes_index(&n->comm.mesh, axes, n->comm.rank), out, &config);
    return code == ncclSuccess ? 0 : fail_nccl(n, axes, code, "making a communicator", err);
}

static int find_group(struct nccl *n, struct sw_axes wanted, ncclComm_t *out, struct sw_error *err)
{
    const struct sw_axes axes = sw_axes_effective(&n->comm.mesh, wanted);
    for (int32_t i = 0; i < n->group_count; i++)
        if (sw_axes_equal(n->groups[i].axes, axes)) {
            *out = n->groups[i].comm;
            return 0;
        }
    if (n->group_count == SW_MESH_GROUPS)
        return sw_fail(err, SW_ENVIRONMENT, "rank %d: more than %d groups", (int)n->comm.rank,
                       SW_MESH_GROUPS);
    struct group *group = &n->groups[n->group_count];
    *group = (struct group){.axes = axes, .comm = n->world, .borrowed = is_world(n, axes)};
    if (!group->borrowed && split_world(n, axes, &group->comm, err) != 0)
        return -1;
    n->group_count++;
    *out = group->comm;
    return 0;
}

/* Makes NCCL connect and allocate, which it does at a kind's first call, before the arena takes the
 * rest. */
static int warm_up(struct nccl *n, const struct group *group, struct sw_error *err)
{
    const int32_t size = sw_axes_size(&n->comm.mesh, group->axes);
    const int32_t index = sw_axes_index(&n->comm.mesh, group->axes, n->comm.rank);
    char *at = n->small;
    const size_t half = SMALL_BYTES / 2, floats = half / sizeof(float) / (size_t)size;
    if (size <= 1 || floats == 0)
        return 0;
    ncclResult_t code = ncclAllReduce(at, at, floats, ncclFloat32, ncclSum, group->comm, n->stream);
    if (code == ncclSuccess)
        code = ncclAllGather(at, at + half, floats, ncclFloat32, group->comm, n->stream);
    if (code == ncclSuccess)
        code =
            ncclReduceScatter(at, at + half, floats, ncclFloat32, ncclSum, group->comm, n->stream);
    if (code == ncclSuccess)
        code = ncclGroupStart();
    if (code == ncclSuccess)
        code = ncclSend(at, 1, ncclUint8, (index + 1) % size, group->comm, n->stream);
    if (code == ncclSuccess)
        code = ncclRecv(at + half, 1, ncclUint8, (index + size - 1) % size, group->comm, n->stream);
    const ncclResult_t ended = ncclGroupEnd();
    if (code != ncclSuccess || ended != ncclSuccess)
        return fail_nccl(n, group->axes, code != ncclSuccess ? code : ended, "a first call", err);
    return 0;
}

/* Makes the communication stream wait for the compute stream. */
static int begin(struct nccl *n, struct sw_error *err)
{
    cudaError_t code = cudaEventRecord(n->ready, n->compute);
    if (code == cudaSuccess)
        code = cudaStreamWaitEvent(n->stream, n->ready, 0);
    return code == cudaSuccess ? 0 : fail_cuda(n, code, err);
}

static int end(struct nccl *n, uint64_t *ticket, struct sw_error *err)
{
    *ticket = ++n->started;
    const cudaError_t code = cudaEventRecord(n->done[*ticket % TICKETS], n->stream);
    return code == cudaSuccess ? 0 : fail_cuda(n, code, err);
}

static int fail_stalled(struct nccl *n, struct sw_error *err)
{
    char what[64];
    snprintf(what, sizeof what, "no end of a step's work for %.0f s", n->stall_seconds);
    return fail_nccl(n, every_axis, ncclRemoteError, what, err);
}

/* Waits on the host for an event or, if NULL, for a stream; NCCL's asynchronous error or a stall
 * ends the wait. */
static int look_after(struct nccl *n, cudaStream_t stream, cudaEvent_t event, struct sw_error *err)
{
    const double begun = sw_clock_now();
    for (;;) {
        const cudaError_t code = event != NULL ? cudaEventQuery(event) : cudaStreamQuery(stream);
        if (code == cudaSuccess)
            return 0;
        if (code != cudaErrorNotReady)
            return fail_cuda(n, code, err);
        ncclResult_t state = ncclSuccess;
        for (int32_t i = 0; i < n->group_count && state == ncclSuccess; i++) {
            if (ncclCommGetAsyncError(n->groups[i].comm, &state) != ncclSuccess)
                state = ncclInternalError;
            if (state != ncclSuccess && state != ncclInProgress)
                return fail_nccl(n, n->groups[i].axes, state, "a collective", err);
            state = ncclSuccess;
        }
        if (ncclCommGetAsyncError(n->world, &state) != ncclSuccess)
            state = ncclInternalError;
        if (state != ncclSuccess && state != ncclInProgress)
            return fail_nccl(n, every_axis, state, "a transfer", err);
        const double waited = sw_clock_now() - begun;
        if (waited > n->stall_seconds)
            return fail_stalled(n, err);
        if (waited < 1e-3)
            (void)sched_yield();
        else
            (void)nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
}

static int drain(struct nccl *n, struct sw_error *err)
{
    return look_after(n, n->stream, NULL, err);
}

/* Runs a small all_reduce of host memory (does any rank stop?) at once, through pinned memory:
 * copying other memory would block on the stream, unwatched. */
static int start_host(struct nccl *n, const struct sw_collective_call *call, ncclComm_t comm,
                      uint64_t *ticket, struct sw_error *err)
{
    const size_t bytes = (size_t)call->elems[0] * sw_dtype_bytes(call->dtype);
    if (call->kind != SW_ALL_REDUCE || call->count != 1 || bytes > SMALL_BYTES)
        return sw_fail(err, SW_BAD_INPUT, "rank %d: NCCL cannot reach host memory",
                       (int)n->comm.rank);
    memcpy(n->pinned, call->in[0], bytes);
    cudaError_t code =
        cudaMemcpyAsync(n->small, n->pinned, bytes, cudaMemcpyHostToDevice, n->stream);
    if (code != cudaSuccess)
        return fail_cuda(n, code, err);
    const ncclResult_t result = ncclAllReduce(n->small, n->small, (size_t)call->elems[0],
                                              sw_nccl_type(call->dtype), ncclSum, comm, n->stream);
    if (result != ncclSuccess)
        return fail_nccl(n, call->axes, result, "all_reduce", err);
    code = cudaMemcpyAsync(n->pinned, n->small, bytes, cudaMemcpyDeviceToHost, n->stream);
    if (code != cudaSuccess)
        return fail_cuda(n, code, err);
    if (drain(n, err) != 0)
        return -1;
    memcpy(call->out[0], n->pinned, bytes);
    return end(n, ticket, err);
}

static int nccl_start(struct sw_comm *comm, const struct sw_collective_call *call, uint64_t *ticket,
                      struct sw_error *err)
{
    struct nccl *n = (struct nccl *)comm;
    const int32_t size = sw_axes_size(&comm->mesh, call->axes);
    ncclComm_t group;
    if (sw_collective_call_check(call, size, err) != 0 ||
        find_group(n, call->axes, &group, err) != 0)
        return -1;
    const uintptr_t at = (uintptr_t)call->in[0], base = (uintptr_t)n->arena;
    if (at < base || at >= base + n->bytes)
        return start_host(n, call, group, ticket, err);
    if (begin(n, err) != 0)
        return -1;
    struct sw_nccl_status status = {0};
    if (sw_call_total_elems(call) > 0)
        status = sw_nccl_call(call, size, group, n->stream);
    if (status.nccl != ncclSuccess || status.cuda != cudaSuccess)
        return fail_status(n, call->axes, status, sw_collective_name(call->kind), err);
    return end(n, ticket, err);
}

static int nccl_shift(struct sw_comm *comm, struct sw_axes axes, const void *send, void *receive,
                      size_t bytes, uint64_t *ticket, struct sw_error *err)
{
    struct nccl *n = (struct nccl *)comm;
    const int32_t size = sw_axes_size(&comm->mesh, axes);
    const int32_t index = sw_axes_index(&comm->mesh, axes, comm->rank);
    ncclComm_t group;
    if (find_group(n, axes, &group, err) != 0 || begin(n, err) != 0)
        return -1;
    ncclResult_t code = ncclGroupStart();
    if (code == ncclSuccess)
        code = ncclSend(send, bytes, ncclUint8, (index + 1) % size, group, n->stream);
    if (code == ncclSuccess)
        code = ncclRecv(receive, bytes, ncclUint8, (index + size - 1) % size, group, n->stream);
    const ncclResult_t ended = ncclGroupEnd();
    if (code != ncclSuccess || ended != ncclSuccess)
        return fail_nccl(n, axes, code != ncclSuccess ? code : ended, "shift", err);
    return end(n, ticket, err);
}

/* Between ranks of the mesh, numbered as in the first communicator. Counts are size_t: no
 * pieces. */
static int nccl_transfer(struct sw_comm *comm, int32_t to, const void *send, size_t send_bytes,
                         int32_t from, void *receive, size_t receive_bytes, uint64_t *ticket,
                         struct sw_error *err)
{
    struct nccl *n = (struct nccl *)comm;
    char what[64];
    if (sw_direct_transfer_check(&comm->mesh, comm->rank, to, send_bytes, from, receive_bytes,
                                 err) != 0)
        return sw_fail_context(err, "rank %d: transfer", (int)comm->rank);
    if (begin(n, err) != 0)
        return -1;
    ncclResult_t code = ncclGroupStart();
    if (code == ncclSuccess && send_bytes > 0)
        code = ncclSend(send, send_bytes, ncclUint8, to, n->world, n->stream);
    if (code == ncclSuccess && receive_bytes > 0)
        code = ncclRecv(receive, receive_bytes, ncclUint8, from, n->world, n->stream);
    const ncclResult_t ended = ncclGroupEnd();
    n->failed = n->failed || code != ncclSuccess || ended != ncclSuccess;
    if (code != ncclSuccess || ended != ncclSuccess)
        return sw_fail(
            err, SW_ENVIRONMENT, "rank %d: %s: NCCL: %s", (int)comm->rank,
            sw_direct_transfer_format(to, send_bytes, from, receive_bytes, what, sizeof what),
            ncclGetErrorString(code != ncclSuccess ? code : ended));
    return end(n, ticket, err);
}

/* The stream is in order: an event reused by a newer call is as good. */
static int nccl_wait(struct sw_comm *comm, uint64_t ticket, struct sw_error *err)
{
    struct nccl *n = (struct nccl *)comm;
    if (ticket > n->started)
        return sw_fail(err, SW_BAD_INPUT, "rank %d: ticket %llu was never given out",
                       (int)comm->rank, (unsigned long long)ticket);
    const cudaError_t code = cudaStreamWaitEvent(n->compute, n->done[ticket % TICKETS], 0);
    return code == cudaSuccess ? 0 : fail_cuda(n, code, err);
}

static int nccl_barrier(struct sw_comm *comm, struct sw_error *err)
{
    struct nccl *n = (struct nccl *)comm;
    if (drain(n, err) != 0)
        return -1;
    return n->job.barrier(n->job.context) == 0
               ? 0
               : sw_fail(err, SW_ENVIRONMENT, "rank %d: the job's barrier failed", (int)comm->rank);
}

/* Memory that NCCL can register by itself for recorded calls; not safe for cudaMalloc's (NCCL's
 * manual, user buffer registration). */
static void *nccl_allocate(struct sw_comm *comm, size_t bytes)
{
    struct nccl *n = (struct nccl *)comm;
    void *memory = NULL;
    if (ncclMemAlloc(&memory, bytes > 0 ? bytes : SW_ARENA_ALIGNMENT) != ncclSuccess) {
        (void)cudaGetLastError(); /* not sticky: the caller reports the shortage */
        return NULL;
    }
    if (cudaMemsetAsync(memory, 0, bytes, n->compute) != cudaSuccess) {
        (void)ncclMemFree(memory);
        return NULL;
    }
    ((struct nccl *)comm)->own = memory;
    return memory;
}

static void nccl_release(struct sw_comm *comm, void *memory)
{
    struct nccl *n = (struct nccl *)comm;
    if (!n->failed)
        (void)cudaStreamSynchronize(n->compute);
    if (n->own == memory)
        n->own = NULL;
    (void)ncclMemFree(memory);
}

/* Waits for the compute stream, which waits for the communication stream and thereby for the other
 * ranks. */
static int nccl_settle(struct sw_comm *comm, struct sw_error *err)
{
    struct nccl *n = (struct nccl *)comm;
    return look_after(n, n->compute, NULL, err);
}

static int nccl_follow(struct sw_comm *comm, struct sw_error *err)
{
    struct nccl *n = (struct nccl *)comm;
    if (look_after(n, NULL, n->followed, err) != 0)
        return -1;
    const cudaError_t code = cudaEventRecord(n->followed, n->compute);
    return code == cudaSuccess ? 0 : fail_cuda(n, code, err);
}

/* ---- The arena as a window ---- */

/* All ranks lay out the program alike, so values have the same offsets everywhere, as NCCL's
 * symmetric memory needs; its kernels save copies. */
#if HAVE_WINDOWS
static int open_windows(struct nccl *n, struct sw_error *err)
{
    for (int32_t i = 0; i < n->group_count; i++) {
        struct group *group = &n->groups[i];
        if (sw_axes_size(&n->comm.mesh, group->axes) <= 1)
            continue;
        /* NULL if ranks cannot access each other's memory: calls work without */
        const ncclResult_t code = ncclCommWindowRegister(group->comm, n->arena, n->bytes,
                                                         &group->window, NCCL_WIN_COLL_SYMMETRIC);
        if (code != ncclSuccess)
            return fail_nccl(n, group->axes, code,
                             "registering the arena (NCCL_WIN_ENABLE=0 goes without)", err);
    }
    return 0;
}

static void close_windows(struct nccl *n)
{
    for (int32_t i = 0; i < n->group_count; i++) {
        if (n->groups[i].window != NULL && !n->failed)
            (void)ncclCommWindowDeregister(n->groups[i].comm, n->groups[i].window);
        n->groups[i].window = NULL;
    }
}
#else
static int open_windows(struct nccl *n, struct sw_error *err)
{
    (void)n;
    (void)err;
    return 0;
}

static void close_windows(struct nccl *n)
{
    (void)n;
}
#endif

/* Registering a window needs all members and never ends without one of them. */
static int nccl_agree(struct sw_comm *comm, bool ready, struct sw_error *err)
{
    const struct nccl *n = (struct nccl *)comm;
    const int32_t lacking = n->job.agree(n->job.context, ready);
    if (lacking < 0)
        return 0;
    if (ready && err != NULL)
        err->culprit = lacking + 1;
    return sw_fail(err, SW_ENVIRONMENT, "rank %d: rank %d has no arena", (int)comm->rank,
                   (int)lacking);
}

static int nccl_attach(struct sw_comm *comm, void *arena, size_t bytes, struct sw_error *err)
{
    struct nccl *n = (struct nccl *)comm;
    /* a failed stream may never finish: do not wait for it */
    if (arena != NULL || !n->failed)
        if (drain(n, err) != 0)
            return -1;
    close_windows(n);
    n->arena = arena;
    n->bytes = bytes;
    return arena != NULL && arena == n->own ? open_windows(n, err) : 0;
}

/* A failed communicator may never finish: aborts it. */
static void end_group(const struct nccl *n, ncclComm_t comm)
{
    (void)(n->failed ? ncclCommAbort(comm) : ncclCommDestroy(comm));
}

static void nccl_destroy(struct sw_comm *comm)
{
    struct nccl *n = (struct nccl *)comm;
    if (n == NULL)
        return;
    if (n->stream != NULL && !n->failed)
        (void)cudaStreamSynchronize(n->stream);
    close_windows(n);
    for (int32_t i = 0; i < n->group_count; i++)
        if (!n->groups[i].borrowed)
            end_group(n, n->groups[i].comm);
    if (n->world != NULL)
        end_group(n, n->world);
    for (int32_t i = 0; i < TICKETS; i++)
        if (n->done[i] != NULL)
            (void)cudaEventDestroy(n->done[i]);
    if (n->ready != NULL)
        (void)cudaEventDestroy(n->ready);
    if (n->followed != NULL)
        (void)cudaEventDestroy(n->followed);
    if (n->small != NULL)
        (void)cudaFree(n->small);
    if (n->stream != NULL)
        (void)cudaStreamDestroy(n->stream);
    if (n->pinned != NULL)
        (void)cudaFreeHost(n->pinned);
    free(n);
}

static const struct sw_comm_vtable nccl_vtable = {.start = nccl_start,
                                                  .wait = nccl_wait,
                                                  .shift = nccl_shift,
                                                  .transfer = nccl_transfer,
                                                  .barrier = nccl_barrier,
                                                  .destroy = nccl_destroy,
                                                  .allocate = nccl_allocate,
                                                  .release = nccl_release,
                                                  .agree = nccl_agree,
                                                  .attach = nccl_attach,
                                                  .settle = nccl_settle,
                                                  .follow = nccl_follow};

static int create_queues(struct nccl *n, struct sw_error *err)
{
    int least = 0, greatest = 0;
    cudaError_t code = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (code == cudaSuccess) /* high priority: other ranks wait for messages */
        code = cudaStreamCreateWithPriority(&n->stream, cudaStreamNonBlocking, greatest);
    if (code == cudaSuccess)
        code = cudaEventCreateWithFlags(&n->ready, cudaEventDisableTiming);
    if (code == cudaSuccess)
        code = cudaEventCreateWithFlags(&n->followed, cudaEventDisableTiming);
    for (int32_t i = 0; i < TICKETS && code == cudaSuccess; i++)
        code = cudaEventCreateWithFlags(&n->done[i], cudaEventDisableTiming);
    if (code == cudaSuccess)
        code = cudaMalloc(&n->small, SMALL_BYTES);
    if (code == cudaSuccess)
        code = cudaMallocHost(&n->pinned, SMALL_BYTES);
    if (code == cudaSuccess)
        code = cudaMemsetAsync(n->small, 0, SMALL_BYTES, n->stream);
    return code == cudaSuccess ? 0 : fail_cuda(n, code, err);
}

/* Creates the first communicator, collective over the job. */
static int start_world(struct nccl *n, struct sw_error *err)
{
    ncclUniqueId id;
    ncclResult_t code = ncclSuccess;
    memset(&id, 0, sizeof id);
    if (n->comm.rank == 0)
        code = ncclGetUniqueId(&id);
    /* all ranks take part even if rank 0 has no id: then the next call fails on each */
    if (n->job.broadcast(n->job.context, &id, sizeof id) != 0)
        return sw_fail(err, SW_ENVIRONMENT, "rank %d: cannot share NCCL's id", (int)n->comm.rank);
    if (code == ncclSuccess)
        code = ncclCommInitRank(&n->world, n->comm.size, id, n->comm.rank);
    if (code == ncclSuccess)
        return 0;
    return fail_nccl(n, every_axis, code,
                     code == ncclInvalidUsage
                         ? "starting NCCL (ranks that share a GPU need SW_COLLECTIVES=staged)"
                         : "starting NCCL",
                     err);
}

static int start_groups(struct nccl *n, const struct sw_axes *axes, int32_t count,
                        struct sw_error *err)
{
    ncclComm_t comm;
    if (find_group(n, every_axis, &comm, err) != 0) /* for the runner's own calls */
        return -1;
    for (int32_t i = 0; i < count; i++)
        if (find_group(n, axes[i], &comm, err) != 0)
            return -1;
    for (int32_t i = 0; i < n->group_count; i++)
        if (warm_up(n, &n->groups[i], err) != 0)
            return -1;
    return drain(n, err);
}

int sw_comm_nccl_create(const struct sw_mesh *mesh, const struct sw_nccl_job *job,
                        const struct sw_axes *groups, int32_t count, void *compute_stream,
                        double stall_seconds, struct sw_comm **out, struct sw_error *err)
{
    struct nccl *n = calloc(1, sizeof *n);
    if (n != NULL) {
        n->comm = (struct sw_comm){.vtable = &nccl_vtable,
                                   .rank = job->rank,
                                   .size = sw_mesh_rank_count(mesh),
                                   .mesh = *mesh,
                                   .queued = true};
        n->job = *job;
        n->compute = compute_stream;
        n->stall_seconds = stall_seconds;
    }
    /* starting NCCL needs all ranks: one that cannot must not leave the others waiting */
    const bool ready = n != NULL && create_queues(n, err) == 0;
    const int32_t lacking = job->agree(job->context, ready);
    if (n == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a communicator");
    if (lacking >= 0) {
        if (ready && err != NULL)
            err->culprit = lacking + 1;
        (void)sw_fail(err, SW_ENVIRONMENT,
                      "rank %d: NCCL does not start: rank %d cannot use its GPU", (int)job->rank,
                      (int)lacking);
        goto fail;
    }
    if (start_world(n, err) != 0 || start_groups(n, groups, count, err) != 0)
        goto fail;
    *out = &n->comm;
    return 0;

fail:
    n->failed = n->world != NULL;
    nccl_destroy(&n->comm);
    return -1;
}
