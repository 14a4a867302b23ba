/* See nccl_stand_in.h. */
#include "tests/support/nccl_stand_in.h"

#include "tests/support/cuda_emulator.h"
#include "tests/support/cuda_streams.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <vector>

namespace
{

enum { PATIENCE_S = 120 };

struct counters {
    std::atomic<int64_t> most_messages, calls, communicators, unshared, late, aborted, arenas,
        windows, open;
    std::atomic<bool> broken;
};
counters counts;

void die(const char *what)
{
    fprintf(stderr, "nccl_stand_in: %s\n", what);
    abort();
}

struct message {
    const void *data;
    size_t bytes;
    bool *taken;
};

/* State shared by a communicator's members. */
struct shared {
    explicit shared(int members) : size(members), pointer(members), number(members), key(members)
    {
    }
    int size, arrived = 0;
    uint64_t generation = 0;
    std::mutex lock;
    std::condition_variable changed;
    std::vector<const void *> pointer;
    std::vector<int64_t> number, key;
    std::map<std::pair<int, int>, std::deque<message>> mail;
    std::map<int64_t, std::shared_ptr<shared>> children; /* by colour, of the split at hand */

    template <typename CONDITION> void wait(std::unique_lock<std::mutex> &held, CONDITION condition)
    {
        if (!changed.wait_for(held, std::chrono::seconds(PATIENCE_S), condition))
            die("ranks wait for each other");
    }

    void meet()
    {
        std::unique_lock<std::mutex> held(lock);
        const uint64_t now = generation;
        if (++arrived == size) {
            arrived = 0;
            generation++;
            changed.notify_all();
            return;
        }
        wait(held, [&] { return generation != now; });
    }
};

struct call {
    ncclComm_t comm;
    cudaStream_t stream;
    enum { GATHER, SCATTER, REDUCE, SEND, RECEIVE } kind;
    const void *in;
    void *out;
    size_t count;
    ncclDataType_t type;
    int peer;
};

thread_local int group_depth;
thread_local std::vector<call> grouped;

std::mutex worlds_lock;
std::map<uint64_t, std::weak_ptr<shared>> worlds;
std::atomic<uint64_t> last_id;

} // namespace

struct ncclComm {
    std::shared_ptr<shared> s;
    int rank;
};

namespace
{

size_t bytes_of(ncclDataType_t type)
{
    switch (type) {
    case ncclFloat64:
        return 8;
    case ncclFloat32:
    case ncclInt32:
        return 4;
    case ncclBfloat16:
        return 2;
    default:
        return 1;
    }
}

float widen(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t narrow(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* out = sum of every member's elements [first, first + count). */
void sum(shared &s, size_t first, size_t count, ncclDataType_t type, void *out)
{
    for (size_t i = 0; i < count; i++) {
        double total = 0;
        for (int m = 0; m < s.size; m++) {
            const void *from = s.pointer[m];
            if (type == ncclFloat64)
                total += static_cast<const double *>(from)[first + i];
            else if (type == ncclFloat32)
                total = (float)total + static_cast<const float *>(from)[first + i];
            else if (type == ncclBfloat16)
                total = (float)total + widen(static_cast<const uint16_t *>(from)[first + i]);
            else if (type == ncclInt32)
                total += static_cast<const int32_t *>(from)[first + i];
            else if (s.size == 1) /* a message to itself is not summed */
                total += static_cast<const int8_t *>(from)[first + i];
            else
                die("a sum of bytes");
        }
        if (type == ncclFloat64)
            static_cast<double *>(out)[i] = total;
        else if (type == ncclFloat32)
            static_cast<float *>(out)[i] = (float)total;
        else if (type == ncclBfloat16)
            static_cast<uint16_t *>(out)[i] = narrow((float)total);
        else if (type != ncclInt32)
            static_cast<int8_t *>(out)[i] = (int8_t)total;
        else
            static_cast<int32_t *>(out)[i] = (int32_t)total;
    }
}

void run_collective(const call &c)
{
    shared &s = *c.comm->s;
    const int rank = c.comm->rank;
    const size_t size = bytes_of(c.type);
    s.pointer[rank] = c.in;
    s.number[rank] = (int64_t)c.count;
    s.meet();
    for (int m = 0; m < s.size; m++)
        if (s.number[m] != (int64_t)c.count)
            die("members call a collective with different counts");
    std::vector<char> result; /* separate: outputs may be inputs */
    if (c.kind == call::GATHER) {
        result.resize(c.count * size * s.size);
        for (int m = 0; m < s.size; m++)
            memcpy(result.data() + m * c.count * size, s.pointer[m], c.count * size);
    } else {
        result.resize(c.count * size);
        sum(s, c.kind == call::SCATTER ? rank * c.count : 0, c.count, c.type, result.data());
    }
    s.meet();
    memcpy(c.out, result.data(), result.size());
    s.meet();
}

/* All sends of the group are ready before any receive, as in one kernel. */
void run_messages(const std::vector<call> &calls)
{
    std::deque<bool> taken;
    for (const call &c : calls)
        if (c.kind == call::SEND) {
            shared &s = *c.comm->s;
            std::lock_guard<std::mutex> held(s.lock);
            taken.push_back(false);
            s.mail[{c.comm->rank, c.peer}].push_back(
                {c.in, c.count * bytes_of(c.type), &taken.back()});
            s.changed.notify_all();
        }
    for (const call &c : calls)
        if (c.kind == call::RECEIVE) {
            shared &s = *c.comm->s;
            std::unique_lock<std::mutex> held(s.lock);
            std::deque<message> &box = s.mail[{c.peer, c.comm->rank}];
            s.wait(held, [&] { return !box.empty(); });
            if (box.front().bytes != c.count * bytes_of(c.type))
                die("a message is longer on one side than on the other");
            memmove(c.out, box.front().data, box.front().bytes);
            *box.front().taken = true;
            box.pop_front();
            s.changed.notify_all();
        }
    size_t i = 0;
    for (const call &c : calls)
        if (c.kind == call::SEND) {
            shared &s = *c.comm->s;
            std::unique_lock<std::mutex> held(s.lock);
            bool *mine = &taken[i++];
            s.wait(held, [&] { return *mine; });
        }
}

/* ---- In flight ---- */

const unsigned char poison = 0xff;

/* Calls of a group in progress. Inputs are read at the begin and must not change until the end;
 * outputs are poisoned meanwhile and must not change either. */
struct flight {
    std::vector<call> calls;
    std::vector<std::vector<char>> held; /* inputs, by call */
};

size_t input_bytes(const call &c)
{
    return c.kind == call::RECEIVE ? 0
                                   : c.count * bytes_of(c.type) *
                                         (c.kind == call::SCATTER ? (size_t)c.comm->s->size : 1);
}

size_t output_bytes(const call &c)
{
    return c.kind == call::SEND ? 0
                                : c.count * bytes_of(c.type) *
                                      (c.kind == call::GATHER ? (size_t)c.comm->s->size : 1);
}

void begin_flight(flight &f)
{
    f.held.resize(f.calls.size());
    for (size_t i = 0; i < f.calls.size(); i++) {
        const char *in = static_cast<const char *>(f.calls[i].in);
        f.held[i].assign(in, in + input_bytes(f.calls[i]));
    }
    for (const call &c : f.calls)
        if (output_bytes(c) > 0)
            memset(c.out, poison, output_bytes(c));
}

/* True if some bytes are also a call's output. */
bool is_output(const flight &f, const void *bytes, size_t count)
{
    const char *begin = static_cast<const char *>(bytes);
    for (const call &c : f.calls) {
        const char *out = static_cast<const char *>(c.out);
        if (out < begin + count && begin < out + output_bytes(c))
            return true;
    }
    return false;
}

/* True, with a message, if a wait is missing. */
bool is_raced(const flight &f)
{
    bool raced = false;
    for (size_t i = 0; i < f.calls.size(); i++) {
        const call &c = f.calls[i];
        const unsigned char *out = static_cast<const unsigned char *>(c.out);
        raced = raced || (!f.held[i].empty() && !is_output(f, c.in, f.held[i].size()) &&
                          memcmp(c.in, f.held[i].data(), f.held[i].size()) != 0);
        for (size_t b = 0; b < output_bytes(c) && !raced; b++)
            raced = out[b] != poison;
    }
    if (raced)
        fprintf(stderr, "nccl_stand_in: memory of a call was written before the call was done\n");
    return raced;
}

/* Delivers results; poison where a wait was missing. */
void end_flight(const flight &f)
{
    const bool raced = is_raced(f);
    std::vector<call> calls = f.calls;
    for (size_t i = 0; i < calls.size(); i++)
        calls[i].in = f.held[i].data();
    for (const call &c : calls)
        if (c.kind != call::SEND && c.kind != call::RECEIVE)
            run_collective(c);
    run_messages(calls);
    for (const call &c : calls)
        if (raced && output_bytes(c) > 0)
            memset(c.out, poison, output_bytes(c));
}

void raise_most(int64_t messages)
{
    int64_t before = counts.most_messages;
    while (before < messages && !counts.most_messages.compare_exchange_weak(before, messages))
        ;
}

ncclResult_t queue(const std::vector<call> &calls)
{
    if (calls.empty())
        return ncclSuccess;
    std::map<std::pair<ncclComm_t, int>, int64_t> messages;
    int64_t collectives = 0;
    for (const call &c : calls) {
        if (c.stream != calls[0].stream)
            return ncclInvalidUsage;
        if (c.kind == call::SEND)
            raise_most(++messages[{c.comm, c.peer}]);
        else if (c.kind != call::RECEIVE)
            raise_most(++collectives);
    }
    counts.calls++;
    const std::shared_ptr<flight> f = std::make_shared<flight>();
    f->calls = calls;
    sw_emulated_enqueue_flight(
        calls[0].stream, [f]() { begin_flight(*f); }, [f]() { end_flight(*f); });
    return ncclSuccess;
}

ncclResult_t add(const call &c)
{
    if (c.comm == nullptr || c.peer >= c.comm->s->size)
        return ncclInvalidArgument;
    if (counts.broken)
        return ncclRemoteError;
    if (group_depth == 0)
        return queue({c});
    grouped.push_back(c);
    return ncclSuccess;
}

} // namespace

extern "C" {

void sw_nccl_counts_reset(void)
{
    counts.most_messages = counts.calls = counts.communicators = 0;
    counts.unshared = counts.late = counts.aborted = counts.arenas = 0;
    counts.windows = counts.open = 0;
    counts.broken = false;
}

struct sw_nccl_counts sw_nccl_counts_get(void)
{
    return {counts.most_messages, counts.calls,   counts.communicators, counts.unshared,
            counts.late,          counts.aborted, counts.windows,       counts.open};
}

void sw_nccl_break(void)
{
    counts.broken = true;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess ? "no error" : "stand-in's error";
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const uint64_t number = ++last_id;
    memset(id, 0, sizeof *id);
    memcpy(id, &number, sizeof number);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank)
{
    uint64_t number;
    memcpy(&number, &id, sizeof number);
    std::shared_ptr<shared> s;
    {
        std::lock_guard<std::mutex> held(worlds_lock);
        s = worlds[number].lock();
        if (s == nullptr)
            worlds[number] = s = std::make_shared<shared>(size);
    }
    s->meet();
    counts.communicators++;
    sw_emulated_rank(rank);
    *comm = new ncclComm{s, rank};
    return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *comm,
                           ncclConfig_t *config)
{
    shared &s = *parent->s;
    const int rank = parent->rank;
    s.number[rank] = color;
    s.key[rank] = key;
    s.meet();
    std::vector<std::pair<int64_t, int>> members;
    for (int m = 0; m < s.size; m++)
        if (s.number[m] == color)
            members.push_back({s.key[m], m});
    std::sort(members.begin(), members.end());
    std::shared_ptr<shared> child;
    {
        std::lock_guard<std::mutex> held(s.lock);
        std::shared_ptr<shared> &slot = s.children[color];
        if (slot == nullptr)
            slot = std::make_shared<shared>((int)members.size());
        child = slot;
    }
    int mine = 0;
    while (members[(size_t)mine].second != rank)
        mine++;
    s.meet();
    {
        std::lock_guard<std::mutex> held(s.lock);
        s.children.clear();
    }
    s.meet();
    counts.communicators++;
    counts.late += counts.arenas > 0;
    counts.unshared += config == nullptr || config->splitShare != 1;
    *comm = new ncclComm{child, mine};
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    counts.aborted++;
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    (void)comm;
    *state = ncclSuccess;
    return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    counts.arenas++;
    return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

/* Like the real function: collective, equal bytes on every rank, memory from NCCL. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t bytes,
                                    ncclWindow_t *window, int flags)
{
    shared &s = *comm->s;
    s.number[comm->rank] = (int64_t)bytes;
    s.meet();
    bool same = true;
    for (int m = 0; m < s.size; m++)
        same = same && s.number[m] == (int64_t)bytes;
    s.meet();
    if (!same || buffer == nullptr || bytes == 0 || counts.arenas == 0 ||
        (flags != NCCL_WIN_DEFAULT && flags != NCCL_WIN_COLL_SYMMETRIC))
        return ncclInvalidArgument;
    counts.windows++;
    counts.open++;
    *window = static_cast<ncclWindow_t>(buffer);
    return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    (void)comm;
    counts.open -= window != nullptr;
    return window != nullptr ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclMemFree(void *memory)
{
    return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclGroupStart(void)
{
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (group_depth <= 0)
        return ncclInvalidUsage;
    if (--group_depth > 0)
        return ncclSuccess;
    std::vector<call> calls;
    calls.swap(grouped);
    return queue(calls);
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add({comm, stream, call::SEND, in, nullptr, count, type, peer});
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add({comm, stream, call::RECEIVE, nullptr, out, count, type, peer});
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return add({comm, stream, call::GATHER, in, out, count, type, 0});
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    if (op != ncclSum)
        return ncclInvalidArgument;
    return add({comm, stream, call::SCATTER, in, out, count, type, 0});
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    if (op != ncclSum)
        return ncclInvalidArgument;
    return add({comm, stream, call::REDUCE, in, out, count, type, 0});
}

} // extern "C"
