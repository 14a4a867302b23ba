#include "runner/collective/nccl_calls.h"

#include "core/ir/messages.h"
#include "runner/collective/call.h"
#include "runner/device/cuda/move.h"

ncclDataType_t sw_nccl_type(enum sw_dtype dtype)
{
    switch (dtype) {
    case SW_BF16_T:
        return ncclBfloat16;
    case SW_F64:
        return ncclFloat64;
    case SW_I32:
        return ncclInt32;
    case SW_I8:
    case SW_E4M3:
    case SW_CODES:
    case SW_I4: /* bytes: moved, not summed */
        return ncclInt8;
    default:
        return ncclFloat32;
    }
}

/* Bytes per NCCL element of that dtype; blocks count bytes. */
static size_t type_bytes(enum sw_dtype dtype)
{
    return dtype == SW_I4 ? 1 : sw_dtype_bytes(dtype);
}

/* State shared by the functions below. */
struct way {
    const struct sw_collective_call *call;
    struct sw_collective_route route;
    struct sw_block send, receive;   /* member 0's blocks */
    int64_t send_next, receive_next; /* bytes between members' blocks */
    int32_t group;
    ncclComm_t comm;
    cudaStream_t stream;
};

static const char *input(const struct way *w)
{
    return w->call->in[0];
}

static char *output(const struct way *w)
{
    return w->call->out[0];
}

static struct sw_nccl_status of_nccl(ncclResult_t code)
{
    return (struct sw_nccl_status){.nccl = code};
}

static bool is_well(struct sw_nccl_status status)
{
    return status.nccl == ncclSuccess && status.cuda == cudaSuccess;
}

static struct way find_way(const struct sw_collective_call *call, int32_t group, ncclComm_t comm,
                           cudaStream_t stream)
{
    struct way w = {.call = call, .group = group, .comm = comm, .stream = stream};
    struct sw_collective_blocks blocks = {
        .group = group, .send_rows = 1, .receive_rows = 1, .operands = call->count};
    const struct sw_collective_slots slots = sw_call_slots(call, group);
    blocks.workspace_bytes = call->workspace != NULL ? slots.slots * slots.slot_bytes : 0;
    if (call->kind != SW_ALL_REDUCE) {
        w.send = sw_call_send_block(call, group, 0);
        w.receive = sw_call_receive_block(call, group, 0);
        if (group > 1) {
            w.send_next = sw_call_send_block(call, group, 1).offset_bytes - w.send.offset_bytes;
            w.receive_next =
                sw_call_receive_block(call, group, 1).offset_bytes - w.receive.offset_bytes;
        }
        blocks.send_rows = w.send.rows;
        blocks.receive_rows = w.receive.rows;
        blocks.block_bytes = sw_block_bytes(&w.send);
    }
    w.route = sw_collective_route(SW_CARRIER_QUEUED, call->kind, &blocks);
    return w;
}

/* ---- As they lie: a message for each row, one group ---- */

/* Cuts a block's rows to row_bytes: both sides of a message need equal rows. */
static struct sw_block cut(struct sw_block block, int64_t row_bytes)
{
    if (block.rows > 1 || block.row_bytes <= row_bytes)
        return block;
    const int64_t rows = block.row_bytes / row_bytes;
    return (struct sw_block){block.offset_bytes, rows, row_bytes, row_bytes};
}

static ncclResult_t exchange_rows(const struct way *w)
{
    const int64_t row =
        w->send.row_bytes < w->receive.row_bytes ? w->send.row_bytes : w->receive.row_bytes;
    const struct sw_block send = cut(w->send, row), receive = cut(w->receive, row);
    ncclResult_t code = ncclGroupStart();
    for (int32_t peer = 0; peer < w->group; peer++)
        for (int64_t r = 0; r < send.rows && code == ncclSuccess; r++) {
            const char *from =
                input(w) + send.offset_bytes + peer * w->send_next + r * send.stride_bytes;
            char *to = output(w) + receive.offset_bytes + peer * w->receive_next +
                       r * receive.stride_bytes;
            code = ncclSend(from, (size_t)row, ncclUint8, peer, w->comm, w->stream);
            if (code == ncclSuccess)
                code = ncclRecv(to, (size_t)row, ncclUint8, peer, w->comm, w->stream);
        }
    const ncclResult_t ended = ncclGroupEnd();
    return code != ncclSuccess ? code : ended;
}

/* Runs a collective per row of the larger side, in which all members' parts are adjacent. */
static ncclResult_t collect_rows(const struct way *w)
{
    const struct sw_collective_call *call = w->call;
    const bool gather = call->kind == SW_ALL_GATHER;
    const size_t element = type_bytes(call->dtype);
    const size_t part = (size_t)(gather ? w->receive.row_bytes : w->send.row_bytes);
    ncclResult_t code = ncclGroupStart();
    for (int64_t o = 0; o < call->outer && code == ncclSuccess; o++) {
        const size_t one = (size_t)o * part, all = one * (size_t)w->group;
        if (gather)
            code = ncclAllGather(input(w) + one, output(w) + all, part / element,
                                 sw_nccl_type(call->dtype), w->comm, w->stream);
        else
            code = ncclReduceScatter(input(w) + all, output(w) + one, part / element,
                                     sw_nccl_type(call->dtype), ncclSum, w->comm, w->stream);
    }
    const ncclResult_t ended = ncclGroupEnd();
    return code != ncclSuccess ? code : ended;
}

static ncclResult_t reduce_all(const struct way *w)
{
    const struct sw_collective_call *call = w->call;
    ncclResult_t code = ncclGroupStart();
    for (int32_t i = 0; i < call->count && code == ncclSuccess; i++)
        code = ncclAllReduce(call->in[i], call->out[i], (size_t)call->elems[i],
                             sw_nccl_type(call->dtype), ncclSum, w->comm, w->stream);
    const ncclResult_t ended = ncclGroupEnd();
    return code != ncclSuccess ? code : ended;
}

/* ---- Packed, piece by piece ---- */

/* Move of bytes [first, first + bytes) of every member's block between input or output and
 * `packed`. */
static struct sw_cuda_move move_of(const struct way *w, bool send, void *packed, int64_t first,
                                   int64_t bytes)
{
    const struct sw_block *block = send ? &w->send : &w->receive;
    char *base = send ? (char *)(uintptr_t)input(w) : output(w);
    return (struct sw_cuda_move){.strided = base + block->offset_bytes,
                                 .packed = packed,
                                 .row_bytes = block->row_bytes,
                                 .stride_bytes = block->stride_bytes,
                                 .member_bytes = send ? w->send_next : w->receive_next,
                                 .first_bytes = first,
                                 .bytes = bytes,
                                 .packed_bytes = bytes,
                                 .members = w->group};
}

static struct sw_nccl_status gather_piece(const struct way *w, int64_t first, int64_t bytes)
{
    const ncclResult_t code = ncclAllGather(input(w) + first, w->call->workspace, (size_t)bytes,
                                            ncclUint8, w->comm, w->stream);
    if (code != ncclSuccess)
        return of_nccl(code);
    const struct sw_cuda_move move = move_of(w, false, w->call->workspace, first, bytes);
    return (struct sw_nccl_status){.cuda = sw_cuda_move_unpack(&move, w->stream)};
}

static struct sw_nccl_status scatter_piece(const struct way *w, int64_t first, int64_t bytes)
{
    const struct sw_cuda_move move = move_of(w, true, w->call->workspace, first, bytes);
    const cudaError_t packed = sw_cuda_move_pack(&move, w->stream);
    if (packed != cudaSuccess)
        return (struct sw_nccl_status){.cuda = packed};
    return of_nccl(ncclReduceScatter(w->call->workspace, output(w) + first,
                                     (size_t)bytes / sw_dtype_bytes(w->call->dtype),
                                     sw_nccl_type(w->call->dtype), ncclSum, w->comm, w->stream));
}

/* Exchanges a piece; a contiguous side needs no workspace. */
static struct sw_nccl_status exchange_piece(const struct way *w, int64_t first, int64_t bytes)
{
    char *sends = w->call->workspace, *receives = sends;
    const bool pack = w->send.rows > 1, unpack = w->receive.rows > 1;
    if (pack && unpack)
        receives += w->route.piece_bytes * w->group;
    struct sw_nccl_status status = {0};
    if (pack) {
        const struct sw_cuda_move move = move_of(w, true, sends, first, bytes);
        status.cuda = sw_cuda_move_pack(&move, w->stream);
    }
    if (!is_well(status))
        return status;
    ncclResult_t code = ncclGroupStart();
    for (int32_t peer = 0; peer < w->group && code == ncclSuccess; peer++) {
        const char *from = pack ? sends + peer * bytes
                                : input(w) + w->send.offset_bytes + peer * w->send_next + first;
        char *to = unpack ? receives + peer * bytes
                          : output(w) + w->receive.offset_bytes + peer * w->receive_next + first;
        code = ncclSend(from, (size_t)bytes, ncclUint8, peer, w->comm, w->stream);
        if (code == ncclSuccess)
            code = ncclRecv(to, (size_t)bytes, ncclUint8, peer, w->comm, w->stream);
    }
    const ncclResult_t ended = ncclGroupEnd();
    status.nccl = code != ncclSuccess ? code : ended;
    if (is_well(status) && unpack) {
        const struct sw_cuda_move move = move_of(w, false, receives, first, bytes);
        status.cuda = sw_cuda_move_unpack(&move, w->stream);
    }
    return status;
}

static struct sw_nccl_status pack_pieces(const struct way *w)
{
    const int64_t block = sw_block_bytes(&w->send);
    struct sw_nccl_status status = {0};
    for (int64_t first = 0; first < block && is_well(status); first += w->route.piece_bytes) {
        const int64_t left = block - first;
        const int64_t bytes = left < w->route.piece_bytes ? left : w->route.piece_bytes;
        status = w->call->kind == SW_ALL_GATHER       ? gather_piece(w, first, bytes)
                 : w->call->kind == SW_REDUCE_SCATTER ? scatter_piece(w, first, bytes)
                                                      : exchange_piece(w, first, bytes);
    }
    return status;
}

struct sw_nccl_status sw_nccl_call(const struct sw_collective_call *call, int32_t group,
                                   ncclComm_t comm, cudaStream_t stream)
{
    const struct way w = find_way(call, group, comm, stream);
    if (call->kind == SW_ALL_REDUCE || group == 1) /* with one member every kind is a copy */
        return of_nccl(reduce_all(&w));
    if (w.route.packed)
        return pack_pieces(&w);
    return of_nccl(call->kind == SW_ALL_TO_ALL ? exchange_rows(&w) : collect_rows(&w));
}
