#include "runner/collective/queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum {
    QUEUE_ENTRIES = 64,
    /* Linux's shortest time slice. */
    TURN_NS = 100000
};

enum entry_kind { ENTRY_COLLECTIVE, ENTRY_SHIFT, ENTRY_TRANSFER, ENTRY_BARRIER };

struct entry {
    enum entry_kind kind;
    struct sw_collective_call call; /* ENTRY_COLLECTIVE; ENTRY_SHIFT: axes only */
    const void *send;
    void *receive;
    size_t bytes, receive_bytes; /* shift: `bytes` both ways */
    int32_t to, from;            /* ENTRY_TRANSFER */
};

struct queue {
    struct sw_comm comm;
    struct sw_direct direct;
    pthread_t thread;
    bool has_mutex, has_work, has_done, has_thread;
    pthread_mutex_t mutex;      /* guards all below */
    pthread_cond_t work;        /* signals calls for the communication thread, or stopping */
    pthread_cond_t done;        /* signals a finished call */
    uint64_t started, finished; /* last tickets given out, done */
    uint64_t handed;            /* last ticket for the communication thread to execute */
    uint64_t failed;            /* first ticket that failed; 0: none */
    bool busy;                  /* true while a thread executes ticket finished + 1 */
    bool stopping;
    struct sw_error error;
    struct entry entries[QUEUE_ENTRIES]; /* ticket t: entries[t % QUEUE_ENTRIES] */
};

static int execute(struct queue *queue, const struct entry *entry, struct sw_error *err)
{
    char axes[64], transfer[64];
    const char *name = "barrier";
    int result = 0;
    switch (entry->kind) {
    case ENTRY_COLLECTIVE:
        result = sw_direct_collective(&queue->direct, &entry->call, err);
        name =
            entry->call.kind <= SW_ALL_TO_ALL ? sw_collective_name(entry->call.kind) : "collective";
        break;
    case ENTRY_SHIFT:
        result = sw_direct_shift(&queue->direct, entry->call.axes, entry->send, entry->receive,
                                 entry->bytes, err);
        name = "shift";
        break;
    case ENTRY_TRANSFER:
        result = sw_direct_transfer(&queue->direct, entry->to, entry->send, entry->bytes,
                                    entry->from, entry->receive, entry->receive_bytes, err);
        name = sw_direct_transfer_format(entry->to, entry->bytes, entry->from, entry->receive_bytes,
                                         transfer, sizeof transfer);
        break;
    case ENTRY_BARRIER:
        result = sw_direct_barrier(&queue->direct, err);
        break;
    }
    if (result == 0)
        return 0;
    if (entry->kind == ENTRY_BARRIER || entry->kind == ENTRY_TRANSFER)
        return sw_fail_context(err, "rank %d: %s", (int)queue->comm.rank, name);
    return sw_fail_context(err, "rank %d: %s over %s", (int)queue->comm.rank, name,
                           sw_axes_format(entry->call.axes, axes, sizeof axes));
}

/* Executes the oldest unfinished call. Called with the mutex held and not busy; returns with it
 * held. */
static void execute_next(struct queue *queue)
{
    const uint64_t ticket = queue->finished + 1;
    if (queue->failed == 0) {
        /* The entry is stable until `finished` passes it. */
        const struct entry *entry = &queue->entries[ticket % QUEUE_ENTRIES];
        struct sw_error error = {0};
        queue->busy = true;
        pthread_mutex_unlock(&queue->mutex);
        const int result = execute(queue, entry, &error);
        if (result != 0)
            queue->direct.transport->vtable->leave(queue->direct.transport);
        pthread_mutex_lock(&queue->mutex);
        queue->busy = false;
        if (result != 0) {
            queue->failed = ticket;
            queue->error = error;
        }
    }
    queue->finished = ticket;
}

#ifdef __linux__
/* Asks for short time slices: the thread then runs as soon as it wakes, within a computing thread's
 * longer slice, at no larger share (EEVDF, Linux 6.12; no effect before). Without, a received
 * message waits milliseconds for ranks computing on the same core, and all ranks wait with it:
 * eight ranks on four nodes of 800 Mbit/s and two busy cores took 0.37 s a step instead of 0.32 s.
 * Between ranks of one node no line idles meanwhile, and short slices cost: eight took 3 to 6 %
 * longer. */
static void take_short_turns(void)
{
    struct { /* kernel's first struct sched_attr: C libraries lack it */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } turns = {.size = sizeof turns};
    if (syscall(SYS_sched_getattr, 0, &turns, sizeof turns, 0) != 0 ||
        (turns.policy != SCHED_OTHER && turns.policy != SCHED_BATCH))
        return;
    turns.runtime_ns = TURN_NS;
    (void)syscall(SYS_sched_setattr, 0, &turns, 0);
}
#else
static void take_short_turns(void)
{
}
#endif

static void *communicate(void *argument)
{
    struct queue *queue = argument;
    if (queue->direct.transport->network)
        take_short_turns();
    pthread_mutex_lock(&queue->mutex);
    for (;;) {
        while (!queue->stopping && (queue->busy || queue->finished >= queue->handed))
            pthread_cond_wait(&queue->work, &queue->mutex);
        if (queue->finished == queue->started)
            break;
        execute_next(queue);
        pthread_mutex_unlock(&queue->mutex);
        pthread_cond_broadcast(&queue->done);
        pthread_mutex_lock(&queue->mutex);
    }
    pthread_mutex_unlock(&queue->mutex);
    return NULL;
}

/* Finishes one more call. A waiting thread executes the call itself if no other does, which saves
 * two wake-ups. Called and returns with the mutex held. */
static void advance(struct queue *queue)
{
    if (queue->busy)
        pthread_cond_wait(&queue->done, &queue->mutex);
    else
        execute_next(queue);
}

/* Keeps *err if it already holds an error. */
static int report(const struct queue *queue, struct sw_error *err)
{
    return sw_fail_as(err, &queue->error);
}

/* Waits for a free entry and returns it with the mutex held; NULL (mutex free) if the queue has
 * failed. */
static struct entry *begin(struct queue *queue, struct sw_error *err)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->started - queue->finished == QUEUE_ENTRIES && queue->failed == 0)
        advance(queue);
    if (queue->failed != 0) {
        (void)report(queue, err);
        pthread_mutex_unlock(&queue->mutex);
        return NULL;
    }
    return &queue->entries[(queue->started + 1) % QUEUE_ENTRIES];
}

/* Issues the entry's ticket and frees the mutex. waited_next: true if the caller will execute the
 * call itself. */
static uint64_t commit(struct queue *queue, bool waited_next)
{
    const uint64_t ticket = ++queue->started;
    if (!waited_next)
        queue->handed = ticket;
    pthread_mutex_unlock(&queue->mutex);
    if (waited_next)
        return ticket;
    /* Without the lock, which the woken thread would wait for. */
    pthread_cond_signal(&queue->work);
    return ticket;
}

static int queue_start(struct sw_comm *comm, const struct sw_collective_call *call,
                       uint64_t *ticket, struct sw_error *err)
{
    struct queue *queue = (struct queue *)comm;
    struct entry *entry = begin(queue, err);
    if (entry == NULL)
        return -1;
    entry->kind = ENTRY_COLLECTIVE;
    entry->call = *call;
    *ticket = commit(queue, call->waited_next);
    return 0;
}

static int queue_shift(struct sw_comm *comm, struct sw_axes axes, const void *send, void *receive,
                       size_t bytes, uint64_t *ticket, struct sw_error *err)
{
    struct queue *queue = (struct queue *)comm;
    struct entry *entry = begin(queue, err);
    if (entry == NULL)
        return -1;
    entry->kind = ENTRY_SHIFT;
    entry->call.axes = axes;
    entry->send = send;
    entry->receive = receive;
    entry->bytes = bytes;
    *ticket = commit(queue, false);
    return 0;
}

static int queue_transfer(struct sw_comm *comm, int32_t to, const void *send, size_t send_bytes,
                          int32_t from, void *receive, size_t receive_bytes, uint64_t *ticket,
                          struct sw_error *err)
{
    struct queue *queue = (struct queue *)comm;
    struct entry *entry = begin(queue, err);
    if (entry == NULL)
        return -1;
    entry->kind = ENTRY_TRANSFER;
    entry->to = to;
    entry->send = send;
    entry->bytes = send_bytes;
    entry->from = from;
    entry->receive = receive;
    entry->receive_bytes = receive_bytes;
    *ticket = commit(queue, false);
    return 0;
}

static int queue_wait(struct sw_comm *comm, uint64_t ticket, struct sw_error *err)
{
    struct queue *queue = (struct queue *)comm;
    int result = 0;
    pthread_mutex_lock(&queue->mutex);
    if (ticket > queue->started) {
        result = sw_fail(err, SW_BAD_INPUT, "rank %d: ticket %llu was never given out",
                         (int)comm->rank, (unsigned long long)ticket);
    } else {
        while (queue->finished < ticket)
            advance(queue);
        if (queue->handed > queue->finished && !queue->busy)
            pthread_cond_signal(&queue->work);
        if (queue->failed != 0 && ticket >= queue->failed)
            result = report(queue, err);
    }
    pthread_mutex_unlock(&queue->mutex);
    return result;
}

static int queue_barrier(struct sw_comm *comm, struct sw_error *err)
{
    struct queue *queue = (struct queue *)comm;
    struct entry *entry = begin(queue, err);
    if (entry == NULL)
        return -1;
    entry->kind = ENTRY_BARRIER;
    return queue_wait(comm, commit(queue, true), err);
}

static void queue_destroy(struct sw_comm *comm)
{
    if (comm == NULL)
        return;
    struct queue *queue = (struct queue *)comm;
    if (queue->has_thread) {
        pthread_mutex_lock(&queue->mutex);
        queue->stopping = true;
        pthread_cond_signal(&queue->work);
        pthread_mutex_unlock(&queue->mutex);
        pthread_join(queue->thread, NULL);
    }
    struct sw_transport *transport = queue->direct.transport;
    transport->vtable->leave(transport);
    transport->vtable->destroy(transport);
    sw_direct_free(&queue->direct);
    if (queue->has_done)
        pthread_cond_destroy(&queue->done);
    if (queue->has_work)
        pthread_cond_destroy(&queue->work);
    if (queue->has_mutex)
        pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

static const struct sw_comm_vtable queue_vtable = {.start = queue_start,
                                                   .wait = queue_wait,
                                                   .shift = queue_shift,
                                                   .transfer = queue_transfer,
                                                   .barrier = queue_barrier,
                                                   .destroy = queue_destroy};

int sw_queue_create(const struct sw_mesh *mesh, int32_t rank, int32_t group_max,
                    struct sw_transport *transport, struct sw_comm **out, struct sw_error *err)
{
    struct queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL) {
        transport->vtable->destroy(transport);
        return sw_fail(err, SW_ENVIRONMENT, "rank %d: out of memory for a communicator", (int)rank);
    }
    queue->comm = (struct sw_comm){
        .vtable = &queue_vtable, .rank = rank, .size = sw_mesh_rank_count(mesh), .mesh = *mesh};
    int failure = 0;
    if (sw_direct_init(&queue->direct, transport, mesh, rank, group_max, err) != 0)
        goto fail;
    queue->has_mutex = (failure = pthread_mutex_init(&queue->mutex, NULL)) == 0;
    queue->has_work = failure == 0 && (failure = pthread_cond_init(&queue->work, NULL)) == 0;
    queue->has_done = failure == 0 && (failure = pthread_cond_init(&queue->done, NULL)) == 0;
#ifdef __linux__
    /* mpi.c naps for tens of microseconds in this thread and the one it starts; the default timer
     * slack would add 50 to each. */
    (void)prctl(PR_SET_TIMERSLACK, 2000UL, 0UL, 0UL, 0UL);
#endif
    queue->has_thread =
        failure == 0 && (failure = pthread_create(&queue->thread, NULL, communicate, queue)) == 0;
    if (failure != 0) {
        (void)sw_fail(err, SW_ENVIRONMENT, "rank %d: cannot start a communication thread: %s",
                      (int)rank, strerror(failure));
        goto fail;
    }
    *out = &queue->comm;
    return 0;

fail:
    queue_destroy(&queue->comm);
    return -1;
}

void sw_queue_limit_messages(struct sw_comm *comm, int64_t bytes)
{
    struct queue *queue = (struct queue *)comm;
    queue->direct.message_bytes_max = bytes;
    queue->direct.shift_bytes_max = bytes;
}

struct sw_transport *sw_queue_transport(struct sw_comm *comm)
{
    return ((struct queue *)comm)->direct.transport;
}
