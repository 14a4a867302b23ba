/* Collectives of one rank per GPU through NCCL, queued on a stream of their own.
 *
 * A call waits, on the GPU, for what the compute stream was given before `start`; `wait` makes the
 * compute stream wait for the call. The host waits for nothing, so calls can be recorded. One
 * communicator per set of axes (ncclCommSplit), made when it is first used, in the same order on
 * every rank. Blocks that do not lie in one piece travel as several messages of one group. */
#include "runner/collective/nccl.h"

#include "core/base/clock.h"
#include "runner/collective/call.h"
#include "runner/collective/comm.h"
#include "runner/collective/direct.h"

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* MAX_GROUPS: every ordered list of axes, 4 + 12 + 24 + 24 of them: members follow its order. */
enum { TICKETS = 64, MAX_GROUPS = 64, SMALL_BYTES = 4096, NAP_NS = 20000 };
_Static_assert(SW_AXIS_COUNT == 4, "MAX_GROUPS counts lists of four axes");

static const struct sw_axes every_axis = {SW_AXIS_COUNT, {SW_DP, SW_FSDP, SW_TP, SW_SP}};

struct group {
    struct sw_axes axes;
    ncclComm_t comm;
};

struct nccl {
    struct sw_comm comm;
    cudaStream_t compute, stream;
    cudaEvent_t ready;         /* of the compute stream, at the newest start */
    cudaEvent_t done[TICKETS]; /* of ticket t: done[t % TICKETS] */
    uint64_t started;
    ncclComm_t world;
    struct group groups[MAX_GROUPS];
    int32_t group_count;
    char *arena;
    size_t bytes;
    double stall_seconds;
    void *small; /* device memory for calls on host memory, SMALL_BYTES */
};

static int fail_nccl(const struct nccl *n, struct sw_axes axes, ncclResult_t code, const char *what,
                     struct sw_error *err)
{
    char names[64];
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

static int fail_cuda(const struct nccl *n, cudaError_t code, struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "rank %d: collectives: %s", (int)n->comm.rank,
                   cudaGetErrorString(code));
}

/* ---- Groups ---- */

/* The members' lowest rank names the group; members are ordered as sw_axes_index says. */
static int find_group(struct nccl *n, struct sw_axes axes, ncclComm_t *out, struct sw_error *err)
{
    for (int32_t i = 0; i < n->group_count; i++)
        if (sw_axes_equal(n->groups[i].axes, axes)) {
            *out = n->groups[i].comm;
            return 0;
        }
    if (n->group_count == MAX_GROUPS)
        return sw_fail(err, SW_ENVIRONMENT, "rank %d: more than %d groups", (int)n->comm.rank,
                       MAX_GROUPS);
    struct group *group = &n->groups[n->group_count];
    const int32_t size = sw_axes_size(&n->comm.mesh, axes);
    int32_t lowest = n->comm.rank;
    for (int32_t i = 0; i < size; i++) {
        const int32_t member = sw_axes_member(&n->comm.mesh, axes, n->comm.rank, i);
        lowest = member < lowest ? member : lowest;
    }
    const ncclResult_t code = ncclCommSplit(
        n->world, lowest, sw_axes_index(&n->comm.mesh, axes, n->comm.rank), &group->comm, NULL);
    if (code != ncclSuccess)
        return fail_nccl(n, axes, code, "making a communicator", err);
    group->axes = axes;
    n->group_count++;
    *out = group->comm;
    return 0;
}

/* ---- Calls ---- */

static ncclDataType_t data_type(enum sw_dtype dtype)
{
    switch (dtype) {
    case SW_BF16_T:
        return ncclBfloat16;
    case SW_F64:
        return ncclFloat64;
    case SW_I32:
        return ncclInt32;
    default:
        return ncclFloat32;
    }
}

/* Rows of a block that member `peer` gets, or gives: one message a row. */
static ncclResult_t send_rows(const void *base, struct sw_block block, int peer, ncclComm_t comm,
                              cudaStream_t stream)
{
    ncclResult_t code = ncclSuccess;
    const char *from = (const char *)base + block.offset_bytes;
    for (int64_t r = 0; r < block.rows && code == ncclSuccess; r++, from += block.stride_bytes)
        code = ncclSend(from, (size_t)block.row_bytes, ncclUint8, peer, comm, stream);
    return code;
}

static ncclResult_t receive_rows(void *base, struct sw_block block, int peer, ncclComm_t comm,
                                 cudaStream_t stream)
{
    ncclResult_t code = ncclSuccess;
    char *to = (char *)base + block.offset_bytes;
    for (int64_t r = 0; r < block.rows && code == ncclSuccess; r++, to += block.stride_bytes)
        code = ncclRecv(to, (size_t)block.row_bytes, ncclUint8, peer, comm, stream);
    return code;
}

/* Two sides of one message must be cut alike: rows as long as the shorter of both. */
static struct sw_block cut(struct sw_block block, int64_t row_bytes)
{
    if (block.rows > 1 || block.row_bytes <= row_bytes)
        return block;
    const int64_t rows = block.row_bytes / row_bytes;
    return (struct sw_block){block.offset_bytes, rows, row_bytes, row_bytes};
}

/* all_gather and all_to_all of blocks that are strided on one side or both. */
static ncclResult_t exchange_blocks(const struct sw_collective_call *call, int32_t size,
                                    ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t code = ncclGroupStart();
    for (int32_t peer = 0; peer < size && code == ncclSuccess; peer++) {
        const struct sw_block send = sw_call_send_block(call, size, peer);
        const struct sw_block receive = sw_call_receive_block(call, size, peer);
        const int64_t row = send.row_bytes < receive.row_bytes ? send.row_bytes : receive.row_bytes;
        code = send_rows(call->in[0], cut(send, row), peer, comm, stream);
        if (code == ncclSuccess)
            code = receive_rows(call->out[0], cut(receive, row), peer, comm, stream);
    }
    const ncclResult_t ended = ncclGroupEnd();
    return code != ncclSuccess ? code : ended;
}

/* A strided reduce_scatter: each row of the blocks is a collective of its own, one group. */
static ncclResult_t scatter_rows(const struct sw_collective_call *call, int32_t size,
                                 ncclComm_t comm, cudaStream_t stream)
{
    const size_t element = sw_dtype_bytes(call->dtype);
    const size_t row = (size_t)(call->n * call->inner) / (size_t)size;
    ncclResult_t code = ncclGroupStart();
    for (int64_t o = 0; o < call->outer && code == ncclSuccess; o++)
        code =
            ncclReduceScatter((const char *)call->in[0] + (size_t)o * row * (size_t)size * element,
                              (char *)call->out[0] + (size_t)o * row * element, row,
                              data_type(call->dtype), ncclSum, comm, stream);
    const ncclResult_t ended = ncclGroupEnd();
    return code != ncclSuccess ? code : ended;
}

static ncclResult_t reduce_all(const struct sw_collective_call *call, ncclComm_t comm,
                               cudaStream_t stream)
{
    ncclResult_t code = ncclGroupStart();
    for (int32_t i = 0; i < call->count && code == ncclSuccess; i++)
        code = ncclAllReduce(call->in[i], call->out[i], (size_t)call->elems[i],
                             data_type(call->dtype), ncclSum, comm, stream);
    const ncclResult_t ended = ncclGroupEnd();
    return code != ncclSuccess ? code : ended;
}

static ncclResult_t run_call(const struct sw_collective_call *call, int32_t size, ncclComm_t comm,
                             cudaStream_t stream)
{
    switch (call->kind) {
    case SW_ALL_REDUCE:
        return reduce_all(call, comm, stream);
    case SW_REDUCE_SCATTER:
        return scatter_rows(call, size, comm, stream);
    case SW_ALL_GATHER:
        if (call->outer == 1)
            return ncclAllGather(call->in[0], call->out[0], (size_t)call->elems[0],
                                 data_type(call->dtype), comm, stream);
        return exchange_blocks(call, size, comm, stream);
    default:
        return exchange_blocks(call, size, comm, stream);
    }
}

/* The communication stream goes on when the compute stream has come this far. */
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

static int fail_stalled(const struct nccl *n, struct sw_error *err)
{
    char what[64];
    snprintf(what, sizeof what, "no end of a step's work for %.0f s", n->stall_seconds);
    return fail_nccl(n, every_axis, ncclRemoteError, what, err);
}

/* Waits for a stream on the host; an asynchronous error of NCCL, or a stall, ends the wait. */
static int wait_for_stream(struct nccl *n, cudaStream_t stream, struct sw_error *err)
{
    const double begun = sw_clock_now();
    for (;;) {
        const cudaError_t code = cudaStreamQuery(stream);
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
    return wait_for_stream(n, n->stream, err);
}

/* A small all_reduce of host memory (the runner asks whether anyone stops): at once, not queued. */
static int start_host(struct nccl *n, const struct sw_collective_call *call, ncclComm_t comm,
                      uint64_t *ticket, struct sw_error *err)
{
    const size_t bytes = (size_t)call->elems[0] * sw_dtype_bytes(call->dtype);
    if (call->kind != SW_ALL_REDUCE || call->count != 1 || bytes > SMALL_BYTES)
        return sw_fail(err, SW_BAD_INPUT, "rank %d: NCCL cannot reach host memory",
                       (int)n->comm.rank);
    cudaError_t code =
        cudaMemcpyAsync(n->small, call->in[0], bytes, cudaMemcpyHostToDevice, n->stream);
    if (code != cudaSuccess)
        return fail_cuda(n, code, err);
    const ncclResult_t result = ncclAllReduce(n->small, n->small, (size_t)call->elems[0],
                                              data_type(call->dtype), ncclSum, comm, n->stream);
    if (result != ncclSuccess)
        return fail_nccl(n, call->axes, result, "all_reduce", err);
    code = cudaMemcpyAsync(call->out[0], n->small, bytes, cudaMemcpyDeviceToHost, n->stream);
    if (code != cudaSuccess)
        return fail_cuda(n, code, err);
    return drain(n, err) != 0 ? -1 : end(n, ticket, err);
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
    const ncclResult_t code =
        sw_call_total_elems(call) == 0 ? ncclSuccess : run_call(call, size, group, n->stream);
    if (code != ncclSuccess)
        return fail_nccl(n, call->axes, code, sw_collective_name(call->kind), err);
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

/* Between ranks of the mesh, which are numbered as the first communicator's. Counts are size_t: not
 * cut. */
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
    if (code != ncclSuccess || ended != ncclSuccess)
        return sw_fail(
            err, SW_ENVIRONMENT, "rank %d: %s: NCCL: %s", (int)comm->rank,
            sw_direct_transfer_format(to, send_bytes, from, receive_bytes, what, sizeof what),
            ncclGetErrorString(code != ncclSuccess ? code : ended));
    return end(n, ticket, err);
}

/* The stream is in order: a newer event in the place of an old one is as good. */
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
    return MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS
               ? 0
               : sw_fail(err, SW_ENVIRONMENT, "rank %d: MPI barrier failed", (int)comm->rank);
}

/* The compute stream waits for the other one, and so for the other ranks. */
static int nccl_settle(struct sw_comm *comm, struct sw_error *err)
{
    struct nccl *n = (struct nccl *)comm;
    return wait_for_stream(n, n->compute, err);
}

static int nccl_attach(struct sw_comm *comm, void *arena, size_t bytes, struct sw_error *err)
{
    struct nccl *n = (struct nccl *)comm;
    if (drain(n, err) != 0)
        return -1;
    n->arena = arena;
    n->bytes = bytes;
    return 0;
}

static void nccl_destroy(struct sw_comm *comm)
{
    struct nccl *n = (struct nccl *)comm;
    if (n == NULL)
        return;
    if (n->stream != NULL)
        (void)cudaStreamSynchronize(n->stream);
    for (int32_t i = 0; i < n->group_count; i++)
        (void)ncclCommDestroy(n->groups[i].comm);
    if (n->world != NULL)
        (void)ncclCommDestroy(n->world);
    for (int32_t i = 0; i < TICKETS; i++)
        if (n->done[i] != NULL)
            (void)cudaEventDestroy(n->done[i]);
    if (n->ready != NULL)
        (void)cudaEventDestroy(n->ready);
    (void)cudaFree(n->small);
    if (n->stream != NULL)
        (void)cudaStreamDestroy(n->stream);
    free(n);
}

static const struct sw_comm_vtable nccl_vtable = {.start = nccl_start,
                                                  .wait = nccl_wait,
                                                  .shift = nccl_shift,
                                                  .transfer = nccl_transfer,
                                                  .barrier = nccl_barrier,
                                                  .destroy = nccl_destroy,
                                                  .attach = nccl_attach,
                                                  .settle = nccl_settle};

static int create_queues(struct nccl *n, struct sw_error *err)
{
    int least = 0, greatest = 0;
    cudaError_t code = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (code == cudaSuccess) /* messages first: others wait for them */
        code = cudaStreamCreateWithPriority(&n->stream, cudaStreamNonBlocking, greatest);
    if (code == cudaSuccess)
        code = cudaEventCreateWithFlags(&n->ready, cudaEventDisableTiming);
    for (int32_t i = 0; i < TICKETS && code == cudaSuccess; i++)
        code = cudaEventCreateWithFlags(&n->done[i], cudaEventDisableTiming);
    if (code == cudaSuccess)
        code = cudaMalloc(&n->small, SMALL_BYTES);
    return code == cudaSuccess ? 0 : fail_cuda(n, code, err);
}

int sw_comm_nccl_create(const struct sw_mesh *mesh, void *compute_stream, double stall_seconds,
                        struct sw_comm **out, struct sw_error *err)
{
    struct nccl *n = calloc(1, sizeof *n);
    ncclUniqueId id;
    int rank = 0;
    ncclResult_t code = ncclSuccess;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (n != NULL) {
        n->comm = (struct sw_comm){.vtable = &nccl_vtable,
                                   .rank = rank,
                                   .size = sw_mesh_rank_count(mesh),
                                   .mesh = *mesh,
                                   .queued = true};
        n->compute = compute_stream;
        n->stall_seconds = stall_seconds;
    }
    /* starting NCCL takes all ranks: one that cannot must not leave the others waiting there */
    int ready = n != NULL && create_queues(n, err) == 0, all_ready = 0;
    const int code_of_all = MPI_Allreduce(&ready, &all_ready, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (n == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a communicator");
    if (code_of_all != MPI_SUCCESS || all_ready == 0) {
        (void)sw_fail(err, SW_ENVIRONMENT,
                      "rank %d: NCCL does not start: another rank cannot use its GPU", rank);
        goto fail;
    }
    memset(&id, 0, sizeof id);
    if (rank == 0)
        code = ncclGetUniqueId(&id);
    /* all ranks take part even when rank 0 has none: the next call then fails on each of them */
    if (MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS) {
        (void)sw_fail(err, SW_ENVIRONMENT, "rank %d: cannot share NCCL's id over MPI", rank);
        goto fail;
    }
    if (code == ncclSuccess)
        code = ncclCommInitRank(&n->world, n->comm.size, id, rank);
    if (code != ncclSuccess) {
        (void)fail_nccl(n, every_axis, code,
                        code == ncclInvalidUsage
                            ? "starting NCCL (ranks that share a GPU need SW_COLLECTIVES=staged)"
                            : "starting NCCL",
                        err);
        goto fail;
    }
    *out = &n->comm;
    return 0;

fail:
    nccl_destroy(&n->comm);
    return -1;
}
