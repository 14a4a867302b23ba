/* The emulator's streams, events, graphs and memory. See cuda_emulator.h and cuda_streams.h.
 *
 * A lane is a queue: a stream's, or one of a launched graph. Queued items wait there. Waiting for
 * an item runs exactly what it needs, by event waits, one item after another, from lanes in random
 * order: the oldest lane first, the newest first, or any. Items that nothing waits for do not
 * run. */
#include "tests/support/cuda_streams.h"
#include "tests/support/cuda_emulator.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

namespace
{

enum { MOST_IN_A_ROW = 64 };
const size_t poisoned_bytes = 1 << 20; /* limit per allocation, for speed */
const int poison = 0xff;               /* NaN in every float */

struct lane;
typedef std::shared_ptr<lane> lane_pointer;

struct event_body {
    double at_ms = 0;
    int64_t pending = 0; /* queued records that did not run */
};

struct item {
    /* BEGIN: runs as early as possible, to show a missing wait */
    enum { BEGIN, WORK, WAIT, RECORD } kind;
    std::function<void()> run;
    lane_pointer of; /* WAIT: for the lane's first `until` items */
    uint64_t until;
    std::shared_ptr<event_body> event;
    const char *host; /* host memory of a copy */
    size_t host_bytes;
};

struct lane {
    std::deque<item> items;
    uint64_t pushed = 0, done = 0;
    uint64_t needed = 0; /* items needed by a wait */
    bool of_stream = true;
};

struct capture;

struct stream {
    lane_pointer queue = std::make_shared<lane>();
    capture *in = nullptr; /* capture that it joined */
    lane_pointer captured; /* items captured */
    uint64_t joined = 0;   /* items that the capture's first stream waits for */
};

struct capture {
    uint64_t id;
    stream *origin;
    std::vector<stream *> streams;
    bool invalid; /* true after a mistake: captures nothing more */
};

typedef std::vector<lane_pointer> graph; /* the first is the origin's */

struct event {
    std::shared_ptr<event_body> body = std::make_shared<event_body>();
    bool recorded = false;
    uint64_t capture = 0; /* latest capture that recorded it; 0: none */
    stream *by = nullptr;
    lane_pointer of;
    uint64_t until = 0;
};

thread_local std::vector<lane_pointer> lanes; /* this thread's, oldest first */
thread_local double clock_ms;
thread_local int thread_captures; /* begun by this thread */
thread_local int64_t waits;
thread_local uint64_t draws;
thread_local int order, left_in_order;
thread_local bool stalled;
thread_local size_t largest;
thread_local std::vector<std::pair<const char *, size_t>> pinned; /* host memory */
std::atomic<uint64_t> last_capture;
std::atomic<int64_t> dropped;
std::atomic<uint64_t> seed{UINT64_MAX};
const double work_ms = 1e-3; /* emulated time: every item takes a microsecond */

void die(const char *what)
{
    fprintf(stderr, "cuda_emulator: %s\n", what);
    abort();
}

uint64_t seed_now()
{
    uint64_t unset = UINT64_MAX;
    if (seed == UINT64_MAX) {
        const char *text = getenv("SW_EMULATED_SEED");
        const uint64_t wanted = text != nullptr ? strtoull(text, nullptr, 10) : 1;
        if (seed.compare_exchange_strong(unset, wanted))
            fprintf(stderr, "cuda_emulator: streams in the order of SW_EMULATED_SEED=%llu\n",
                    (unsigned long long)wanted);
    }
    return seed;
}

uint64_t draw_below(uint64_t below) /* splitmix64 */
{
    uint64_t x = seed_now() * 0x2545f4914f6cdd1du + ++draws * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return ((x ^ (x >> 31)) >> 16) % below;
}

/* ---- Running ---- */

void pop(lane &l)
{
    item now = std::move(l.items.front());
    l.items.pop_front();
    if (now.kind == item::WORK)
        clock_ms += work_ms;
    if (now.kind == item::RECORD) {
        now.event->at_ms = clock_ms;
        now.event->pending--;
    } else if (now.kind != item::WAIT) {
        now.run();
    }
    l.done++;
}

/* Runs the items of all lanes that take no work and may run. */
void run_free_items()
{
    for (bool any = true; any;) {
        any = false;
        for (const lane_pointer &l : lanes)
            while (!l->items.empty()) {
                const item &head = l->items.front();
                if (head.kind == item::WORK ||
                    (head.kind == item::WAIT && head.of->done < head.until))
                    break;
                pop(*l);
                any = true;
            }
    }
}

/* Marks the items needed by one: its lane before it, and those that its waits wait for. */
void mark_needed(lane *target, uint64_t until)
{
    std::vector<std::pair<lane *, uint64_t>> open{{target, until}};
    while (!open.empty()) {
        lane *l = open.back().first;
        const uint64_t end = open.back().second;
        open.pop_back();
        const uint64_t from = l->needed > l->done ? l->needed : l->done;
        if (end <= from)
            continue;
        l->needed = end;
        for (uint64_t i = from - l->done; i < end - l->done; i++)
            if (l->items[i].kind == item::WAIT)
                open.push_back({l->items[i].of.get(), l->items[i].until});
    }
}

lane *choose()
{
    std::vector<lane *> ready;
    for (const lane_pointer &l : lanes)
        if (l->done < l->needed && l->items.front().kind == item::WORK)
            ready.push_back(l.get());
    if (ready.empty())
        die("streams wait for each other");
    if (ready.size() == 1)
        return ready[0];
    if (left_in_order-- <= 0) {
        order = (int)draw_below(3);
        left_in_order = (int)draw_below(MOST_IN_A_ROW);
    }
    return order == 0 ? ready.front() : order == 1 ? ready.back() : ready[draw_below(ready.size())];
}

void reach(lane &target, uint64_t until)
{
    run_free_items();
    if (target.done >= until)
        return;
    mark_needed(&target, until);
    while (target.done < until) {
        pop(*choose());
        run_free_items();
    }
    for (size_t i = 0; i < lanes.size();) {
        lanes[i]->needed = 0;
        if (!lanes[i]->of_stream && lanes[i]->items.empty())
            lanes.erase(lanes.begin() + (ptrdiff_t)i);
        else
            i++;
    }
}

void reach_all()
{
    const std::vector<lane_pointer> all = lanes;
    for (const lane_pointer &l : all)
        reach(*l, l->pushed);
}

/* ---- Queueing ---- */

stream *stream_of(cudaStream_t s)
{
    return reinterpret_cast<stream *>(s);
}

event *event_of(cudaEvent_t e)
{
    return reinterpret_cast<event *>(e);
}

void push(lane &l, item i)
{
    l.items.push_back(std::move(i));
    l.pushed++;
}

lane &lane_of(stream &s)
{
    return s.in != nullptr ? *s.captured : *s.queue;
}

item work_of(std::function<void()> run)
{
    return {item::WORK, std::move(run), nullptr, 0, nullptr, nullptr, 0};
}

item wait_of(lane_pointer of, uint64_t until)
{
    return {item::WAIT, nullptr, std::move(of), until, nullptr, nullptr, 0};
}

/* A call not allowed in a capture ends it, as on a device. */
cudaError_t spoil(capture *c, cudaError_t code)
{
    c->invalid = true;
    return code;
}

/* Refuses calls that may wait for the device, on a capturing thread. */
cudaError_t refuse_unsafe()
{
    return thread_captures > 0 ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

void join_capture(stream &s, capture *c)
{
    s.in = c;
    s.captured = std::make_shared<lane>();
    s.joined = 0;
    c->streams.push_back(&s);
}

/* False for other host memory, for which the driver uses its own: the host then waits for the
 * stream. */
bool is_pinned(const char *memory, size_t bytes)
{
    for (const auto &p : pinned)
        if (p.first <= memory && memory + bytes <= p.first + p.second)
            return true;
    return false;
}

/* True if a copy from or to this host memory is queued. */
bool is_in_flight(const void *memory, size_t bytes)
{
    const char *begin = static_cast<const char *>(memory);
    for (const lane_pointer &l : lanes)
        for (const item &i : l->items)
            if (i.host != nullptr && i.host < begin + bytes && begin < i.host + i.host_bytes)
                return true;
    return false;
}

} // namespace

void sw_emulated_enqueue(cudaStream_t s, std::function<void()> work)
{
    if (s == nullptr)
        die("work for the default stream");
    push(lane_of(*stream_of(s)), work_of(std::move(work)));
}

void sw_emulated_enqueue_flight(cudaStream_t s, std::function<void()> begin,
                                std::function<void()> work)
{
    item first = work_of(std::move(begin));
    first.kind = item::BEGIN;
    push(lane_of(*stream_of(s)), std::move(first));
    sw_emulated_enqueue(s, std::move(work));
}

extern "C" {

void sw_emulated_drop_wait(int64_t n)
{
    dropped = n;
}

int64_t sw_emulated_waits(void)
{
    return waits;
}

void sw_emulated_order(uint64_t wanted)
{
    seed = wanted;
}

void sw_emulated_rank(int32_t rank)
{
    draws = (uint64_t)rank << 40;
}

void sw_emulated_largest(size_t bytes)
{
    largest = bytes;
}

void sw_emulated_stall(bool on)
{
    stalled = on;
}

/* ---- Streams ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    (void)flags;
    stream *s = new stream();
    lanes.push_back(s->queue);
    *out = reinterpret_cast<cudaStream_t>(s);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    (void)priority;
    return cudaStreamCreateWithFlags(out, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

/* Queued items still run, except those that never end. */
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    lane &queue = *stream_of(s)->queue;
    if (!stalled)
        reach(queue, queue.pushed);
    queue.items.clear();
    queue.done = queue.pushed;
    queue.of_stream = false;
    delete stream_of(s);
    return cudaSuccess;
}

/* Waiting for a captured stream is an error, as on a device. */
cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    stream *one = stream_of(s);
    if (one->in != nullptr)
        return spoil(one->in, cudaErrorStreamCaptureUnsupported);
    if (stalled)
        die("the host waits for a stream that never ends");
    reach(*one->queue, one->queue->pushed);
    return cudaSuccess;
}

/* Unfinished work is done at the next query. */
cudaError_t cudaStreamQuery(cudaStream_t s)
{
    stream *one = stream_of(s);
    if (one->in != nullptr)
        return spoil(one->in, cudaErrorStreamCaptureUnsupported);
    if (stalled)
        return cudaErrorNotReady;
    const bool done = one->queue->items.empty();
    reach(*one->queue, one->queue->pushed);
    return done ? cudaSuccess : cudaErrorNotReady;
}

/* Waiting for a captured event adds the stream to the capture; a captured stream may wait for no
 * other events. */
cudaError_t cudaStreamWaitEvent(cudaStream_t waiting, cudaEvent_t awaited, unsigned flags)
{
    (void)flags;
    stream *s = stream_of(waiting);
    const event *e = event_of(awaited);
    if (++waits == dropped)
        return cudaSuccess;
    if (!e->recorded)
        return cudaSuccess;
    capture *other = e->capture != 0 && e->by->in != nullptr && e->by->in->id == e->capture
                         ? e->by->in
                         : nullptr;
    if (s->in == nullptr) {
        if (e->capture != 0 && other == nullptr)
            return cudaErrorCapturedEvent; /* from a finished capture */
        if (e->capture != 0)
            join_capture(*s, other);
        push(lane_of(*s), wait_of(e->of, e->until));
        return cudaSuccess;
    }
    if (s->in->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (e->capture == 0)
        return spoil(s->in, cudaErrorStreamCaptureIsolation);
    if (other != s->in)
        return spoil(s->in,
                     other == nullptr ? cudaErrorCapturedEvent : cudaErrorStreamCaptureMerge);
    if (s == s->in->origin && e->by->joined < e->until)
        e->by->joined = e->until;
    push(*s->captured, wait_of(e->of, e->until));
    return cudaSuccess;
}

/* ---- Events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    (void)flags;
    *out = reinterpret_cast<cudaEvent_t>(new event());
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    delete event_of(e);
    return cudaSuccess;
}

/* A captured record is timed only if external, as on a device. */
cudaError_t cudaEventRecordWithFlags(cudaEvent_t recorded, cudaStream_t on, unsigned flags)
{
    stream *s = stream_of(on);
    event *e = event_of(recorded);
    const bool external = flags == cudaEventRecordExternal;
    if (s->in != nullptr && s->in->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (external && s->in == nullptr)
        return cudaErrorIllegalState;
    if (external || s->in == nullptr) {
        push(lane_of(*s), {item::RECORD, nullptr, nullptr, 0, e->body, nullptr, 0});
        e->body->pending += s->in == nullptr;
    }
    if (external)
        return cudaSuccess;
    e->recorded = true;
    e->capture = s->in != nullptr ? s->in->id : 0;
    e->by = s;
    e->of = s->in != nullptr ? s->captured : s->queue;
    e->until = e->of->pushed;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    return cudaEventRecordWithFlags(e, s, cudaEventRecordDefault);
}

/* See cudaStreamQuery. */
cudaError_t cudaEventQuery(cudaEvent_t asked)
{
    const event *e = event_of(asked);
    if (e->capture != 0)
        return cudaErrorCapturedEvent;
    const bool done = !e->recorded || e->of->done >= e->until;
    if (!done && !stalled)
        reach(*e->of, e->until);
    return done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t awaited)
{
    const event *e = event_of(awaited);
    if (e->capture != 0)
        return cudaErrorCapturedEvent;
    if (stalled && e->recorded && e->of->done < e->until)
        die("the host waits for an event that never comes");
    if (e->recorded)
        reach(*e->of, e->until);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    const event_body &from = *event_of(begin)->body, &to = *event_of(end)->body;
    if (from.pending > 0 || to.pending > 0)
        return cudaErrorNotReady;
    *ms = (float)(to.at_ms - from.at_ms);
    return cudaSuccess;
}

/* ---- Graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t on, enum cudaStreamCaptureMode mode)
{
    (void)mode;
    stream *s = stream_of(on);
    if (s->in != nullptr)
        return cudaErrorIllegalState;
    join_capture(*s, new capture{++last_capture, s, {}, false});
    thread_captures++;
    return cudaSuccess;
}

/* The first stream must have waited for all streams of the capture. */
cudaError_t cudaStreamEndCapture(cudaStream_t on, cudaGraph_t *out)
{
    stream *s = stream_of(on);
    capture *c = s->in;
    *out = nullptr;
    if (c == nullptr || c->origin != s)
        return cudaErrorStreamCaptureUnmatched;
    cudaError_t code = c->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    graph *made = new graph();
    for (stream *one : c->streams) {
        if (code == cudaSuccess && one != s && one->joined < one->captured->pushed)
            code = cudaErrorStreamCaptureUnjoined;
        made->push_back(std::move(one->captured));
        one->in = nullptr;
    }
    if (code == cudaSuccess)
        *out = reinterpret_cast<cudaGraph_t>(made);
    else
        delete made;
    delete c;
    thread_captures--;
    return code;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t from, unsigned long long flags)
{
    (void)flags;
    *out = reinterpret_cast<cudaGraphExec_t>(new graph(*reinterpret_cast<graph *>(from)));
    return cudaSuccess;
}

/* The origin's items go to the stream, the others' to their own lanes, which start after the
 * origin's items at their joining. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t launched, cudaStream_t on)
{
    const graph &g = *reinterpret_cast<graph *>(launched);
    graph to{stream_of(on)->queue};
    const uint64_t base = to[0]->pushed;
    while (to.size() < g.size()) {
        to.push_back(std::make_shared<lane>());
        to.back()->of_stream = false;
        lanes.push_back(to.back());
    }
    for (size_t l = 0; l < g.size(); l++)
        for (item one : g[l]->items) {
            for (size_t o = 0; one.kind == item::WAIT && o < g.size(); o++)
                if (one.of == g[o]) {
                    one.of = to[o];
                    one.until += o == 0 ? base : 0;
                    break;
                }
            if (one.kind == item::RECORD)
                one.event->pending++;
            push(*to[l], std::move(one));
        }
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    delete reinterpret_cast<graph *>(g);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g)
{
    delete reinterpret_cast<graph *>(g);
    return cudaSuccess;
}

/* ---- Memory ---- */

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = nullptr;
    if (refuse_unsafe() != cudaSuccess)
        return refuse_unsafe();
    if (bytes > (size_t)1 << 40 || (largest > 0 && bytes > largest))
        return cudaErrorMemoryAllocation;
    const size_t rounded = (bytes + 255) / 256 * 256;
    if (posix_memalign(memory, 256, rounded ? rounded : 256) != 0)
        return cudaErrorMemoryAllocation;
    memset(*memory, poison, bytes < poisoned_bytes ? bytes : poisoned_bytes);
    return cudaSuccess;
}

/* Waits for the device, as the real function does. */
cudaError_t cudaFree(void *memory)
{
    if (memory == nullptr)
        return cudaSuccess;
    if (thread_captures == 0 && !stalled)
        reach_all();
    free(memory);
    return refuse_unsafe();
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    const cudaError_t code = cudaMalloc(memory, bytes);
    if (code == cudaSuccess)
        pinned.push_back({static_cast<const char *>(*memory), bytes});
    return code;
}

cudaError_t cudaFreeHost(void *memory)
{
    if (is_in_flight(memory, 1))
        die("memory of the host is given back while a copy of it is queued");
    for (size_t i = 0; i < pinned.size(); i++)
        if (pinned[i].first == memory) {
            pinned.erase(pinned.begin() + (ptrdiff_t)i);
            break;
        }
    free(memory);
    return cudaSuccess;
}

/* The host sees poison until it waited, unless a queued item needs the old contents. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t on)
{
    stream *s = stream_of(on);
    if (bytes == 0)
        return cudaSuccess;
    item copy = work_of([=]() { memcpy(to, from, bytes); });
    if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToDevice) {
        copy.host = static_cast<const char *>(kind == cudaMemcpyDeviceToHost ? to : from);
        copy.host_bytes = bytes;
    }
    if (kind == cudaMemcpyDeviceToHost && s->in == nullptr && !is_in_flight(to, bytes))
        memset(to, poison, bytes);
    const bool waits_for_it = copy.host != nullptr && !is_pinned(copy.host, bytes);
    push(lane_of(*s), std::move(copy));
    return waits_for_it && s->in == nullptr ? cudaStreamSynchronize(on) : cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t on)
{
    (void)kind;
    if (width > to_pitch || width > from_pitch || to_pitch > INT32_MAX || from_pitch > INT32_MAX)
        return cudaErrorInvalidPitchValue;
    sw_emulated_enqueue(on, [=]() {
        for (size_t i = 0; i < height; i++)
            memcpy(static_cast<char *>(to) + i * to_pitch,
                   static_cast<const char *>(from) + i * from_pitch, width);
    });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t on)
{
    if (bytes > 0)
        sw_emulated_enqueue(on, [=]() { memset(to, value, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t on)
{
    for (size_t i = 0; i < height; i++)
        (void)cudaMemsetAsync(static_cast<char *>(to) + i * pitch, value, width, on);
    return cudaSuccess;
}

} // extern "C"
