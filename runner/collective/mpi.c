/* Ranks are MPI processes. All communication is messages between pairs: on one node without MPI if
 * possible (shm.c), else nonblocking on a duplicate of MPI_COMM_WORLD, completed by the executing
 * thread (queue.c). Groups need no communicators: every pair of ranks makes its calls in one order,
 * and MPI keeps that order. */
#include "core/base/clock.h"
#include "runner/collective/comm.h"
#include "runner/collective/inquiry.h"
#include "runner/collective/shm.h"
#include "runner/collective/queue.h"

#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MESSAGE_TAG = 1,
    /* Looks that only yield, before the first nap: an arriving message needs no longer. */
    YIELDS = 32,
    /* A neighbour wakes a sleeper, but that takes longer than a look. */
    NEAR_YIELDS = 2,
    /* Then naps, a share of the time waited so far, since other threads and ranks may need this
     * core. Messages between nodes take longer and their looks cost more: with naps up to 400 us
     * instead of 50, a step of eight ranks on four nodes of 800 Mbit/s and two cores took a tenth
     * less. After a long wait, as for a rank that saves, a nap is a small part of it. */
    NAP_FIRST_NS = 20000,
    NAP_NEAR_NS = 50000,
    NAP_FAR_NS = 400000,
    NAP_LAST_NS = 5000000,
    NAP_PART = 8,
    NAP_LONG_PART = 64,
    /* Between nodes a message goes in pieces that Open MPI's TCP sends without a handshake: by
     * default up to 64 KiB with the header. Longer ones ask the receiver first, and on a slow
     * network the answer queues behind data: gathering 262 kB over four nodes of two ranks took 28
     * ms at 200 Mbit/s whole and 22.5 ms in pieces; the line needs 21. */
    PIECE_BYTES = 63 << 10,
    ROW_BYTES_MIN = 2048, /* shorter rows cost the kernel more than a copy */
    PATIENCE_SECONDS = 2, /* for a rank's answer to an inquiry */
    PIECES = 8            /* pieces of a message at once: they keep a line busy during a nap */
};

enum message_state { OF_MPI, TO_POST, TO_RELEASE, TO_TAKE, DONE };

/* A message under way: MPI pieces are started, and arrive, in order. */
struct message {
    const struct sw_transfer *transfer;
    enum message_state state; /* TO_...: next action for a neighbour's message */
    size_t started;           /* bytes started */
    int bytes[PIECES];        /* size of each slot's piece */
};

struct mpi_transport {
    struct sw_transport transport;
    MPI_Comm comm;
    int32_t capacity;
    struct message *messages; /* [capacity] receives, then sends */
    MPI_Request *requests;    /* [capacity * PIECES]; message m in slot s: s * messages + m */
    MPI_Status *statuses;     /* [capacity * PIECES] */
    int *indices;             /* [capacity * PIECES] */
    size_t piece_bytes;       /* between nodes */
    struct sw_shm *shm;       /* NULL: MPI is used on this node too */
    int *local;               /* [ranks] on this rank's node; MPI_UNDEFINED: on another */
    int32_t *node;            /* [ranks] the node's lowest rank */
    int32_t ranks;
    double stall_seconds;
    struct sw_inquiry *inquiry;
};

/* The messages of one exchange. */
struct batch {
    int32_t receives, count; /* received messages; all messages */
    int32_t slots;           /* slots that the longest message needs */
    int32_t flying;          /* pieces under way */
    int32_t neighbours;      /* messages neither done nor MPI's */
    bool far;                /* true if some go to or come from other nodes */
};

/* Longest sleep before a rank checks that its neighbour lives. */
static const double NEAR_REST_SECONDS = 0.1;

static int fail_mpi(int code, struct sw_error *err)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        return sw_fail(err, SW_ENVIRONMENT, "MPI error %d", code);
    return sw_fail(err, SW_ENVIRONMENT, "%s", text);
}

static double nap_seconds(double waited, bool far)
{
    const double part = fmin(waited / NAP_PART, 1e-9 * (far ? NAP_FAR_NS : NAP_NEAR_NS));
    const double long_part = fmin(waited / NAP_LONG_PART, 1e-9 * NAP_LAST_NS);
    return fmax(fmax(part, long_part), 1e-9 * NAP_FIRST_NS);
}

static void take_a_nap(double waited, bool far)
{
    const struct timespec nap = {0, (long)(1e9 * nap_seconds(waited, far))};
    (void)nanosleep(&nap, NULL);
}

static bool is_on_node(const struct mpi_transport *t, int32_t rank)
{
    return t->local[rank] != MPI_UNDEFINED;
}

static size_t piece_bytes(const struct mpi_transport *t, const struct sw_transfer *x)
{
    return is_on_node(t, x->peer) || x->bytes < t->piece_bytes ? x->bytes : t->piece_bytes;
}

/* Starts a message's next piece, if any, in a free slot. */
static int start_piece(struct mpi_transport *t, struct batch *b, int32_t message, int32_t slot)
{
    struct message *m = &t->messages[message];
    const struct sw_transfer *x = m->transfer;
    const size_t left = x->bytes - m->started, piece = piece_bytes(t, x);
    MPI_Request *request = &t->requests[slot * b->count + message];
    const int bytes = (int)(left < piece ? left : piece);
    if (bytes == 0 || m->state != OF_MPI)
        return MPI_SUCCESS;
    const int code = message < b->receives
                         ? MPI_Irecv((unsigned char *)x->data.receive + m->started, bytes, MPI_BYTE,
                                     x->peer, MESSAGE_TAG, t->comm, request)
                         : MPI_Isend((const unsigned char *)x->data.send + m->started, bytes,
                                     MPI_BYTE, x->peer, MESSAGE_TAG, t->comm, request);
    if (code != MPI_SUCCESS)
        return code;
    m->bytes[slot] = bytes;
    m->started += (size_t)bytes;
    b->flying++;
    return MPI_SUCCESS;
}

/* Sets up the messages and starts the first pieces of all; returns an MPI error code. */
static int start_batch(struct mpi_transport *t, const struct sw_transfer *sends,
                       const struct sw_transfer *receives, struct batch *b)
{
    for (int32_t i = 0; i < b->count; i++) {
        const struct sw_transfer *x = i < b->receives ? &receives[i] : &sends[i - b->receives];
        const size_t piece = piece_bytes(t, x), pieces = (x->bytes + piece - 1) / piece;
        const int32_t slots = pieces < PIECES ? (int32_t)pieces : PIECES;
        t->messages[i] = (struct message){.transfer = x};
        b->far = b->far || !is_on_node(t, x->peer);
        if (t->shm != NULL && is_on_node(t, x->peer)) {
            t->messages[i].state = i < b->receives ? TO_TAKE : TO_POST;
            b->neighbours++;
        } else {
            b->slots = slots > b->slots ? slots : b->slots;
        }
    }
    for (int32_t i = 0; i < b->slots * b->count; i++)
        t->requests[i] = MPI_REQUEST_NULL;
    for (int32_t slot = 0; slot < b->slots; slot++)
        for (int32_t i = 0; i < b->count; i++) {
            const int code = start_piece(t, b, i, slot);
            if (code != MPI_SUCCESS)
                return code;
        }
    return MPI_SUCCESS;
}

/* Checks the pieces reported by MPI_Testsome and starts the next ones in their slots. */
static int go_on(struct mpi_transport *t, struct batch *b, int completed, int code,
                 struct sw_error *err)
{
    for (int i = 0; i < completed; i++) {
        const MPI_Status *status = &t->statuses[i];
        if (code == MPI_ERR_IN_STATUS && status->MPI_ERROR != MPI_SUCCESS)
            return fail_mpi(status->MPI_ERROR, err);
        const int32_t message = t->indices[i] % b->count, slot = t->indices[i] / b->count;
        const struct message *m = &t->messages[message];
        int bytes = 0;
        b->flying--;
        if (message < b->receives &&
            (MPI_Get_count(status, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes != m->bytes[slot]))
            return sw_fail(err, SW_ENVIRONMENT, "rank %d sent %d bytes instead of %d",
                           (int)m->transfer->peer, bytes, m->bytes[slot]);
        const int started = start_piece(t, b, message, slot);
        if (started != MPI_SUCCESS)
            return fail_mpi(started, err);
    }
    return 0;
}

/* Lowest rank that a receive or a send waits for. */
static int32_t waits_for(const struct mpi_transport *t, const struct batch *b)
{
    int32_t peer = INT32_MAX;
    for (int32_t i = 0; i < b->slots * b->count; i++) {
        const struct sw_transfer *x = t->messages[i % b->count].transfer;
        if (t->requests[i] != MPI_REQUEST_NULL && x->peer < peer)
            peer = x->peer;
    }
    for (int32_t i = 0; b->neighbours > 0 && i < b->count; i++) {
        const struct message *m = &t->messages[i];
        if (m->state != OF_MPI && m->state != DONE && m->transfer->peer < peer)
            peer = m->transfer->peer;
    }
    return peer;
}

static int fail_stalled(const struct mpi_transport *t, int32_t culprit, struct sw_error *err)
{
    if (culprit < 0)
        return sw_fail(err, SW_ENVIRONMENT,
                       "deadlock: the ranks have waited for each other for %.0f s",
                       t->stall_seconds);
    if (err != NULL && err->status == SW_OK)
        err->culprit = culprit + 1;
    return sw_fail(err, SW_ENVIRONMENT,
                   "nothing from rank %d for %.0f s: it hangs, or its node or network is gone "
                   "(SHARDWRIGHT_STALL_SECONDS is how long to wait)",
                   (int)culprit, t->stall_seconds);
}

/* After `waited` seconds without a message: fails if that is too long and the culprit is found,
 * which may be a rank this one does not wait for. */
static int look_around(struct mpi_transport *t, const struct batch *b, double waited,
                       struct sw_error *err)
{
    const double patience =
        t->stall_seconds < 2 * PATIENCE_SECONDS ? t->stall_seconds / 2 : PATIENCE_SECONDS;
    int32_t culprit = -1;
    if (waited > t->stall_seconds - patience) {
        const bool found = sw_inquiry_ask(t->inquiry, waits_for(t, b), patience, &culprit);
        return found && waited > t->stall_seconds ? fail_stalled(t, culprit, err) : 0;
    }
    if (waited > patience / 2)
        sw_inquiry_answer(t->inquiry, waits_for(t, b));
    return 0;
}

/* After an error: messages under way must not write to the caller's memory later. */
static int give_up(struct mpi_transport *t, const struct batch *b)
{
    for (int32_t i = 0; i < b->slots * b->count; i++) {
        if (t->requests[i] == MPI_REQUEST_NULL)
            continue;
        if (i % b->count < b->receives)
            (void)MPI_Cancel(&t->requests[i]);
        (void)MPI_Request_free(&t->requests[i]);
    }
    return -1;
}

/* Handles MPI's progress since the last look. */
static int look_at_mpi(struct mpi_transport *t, struct batch *b, int32_t *progress,
                       struct sw_error *err)
{
    int completed = 0;
    if (b->flying == 0)
        return 0;
    const int code =
        MPI_Testsome(b->slots * b->count, t->requests, &completed, t->indices, t->statuses);
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)
        return fail_mpi(code, err);
    if (completed == MPI_UNDEFINED)
        return sw_fail(err, SW_ENVIRONMENT, "MPI has lost %d messages", (int)b->flying);
    *progress += completed;
    return go_on(t, b, completed, code, err);
}

/* Advances a neighbour's message; 1 if it moved. */
static int step_of_neighbour(struct mpi_transport *t, struct message *m, struct sw_error *err)
{
    const struct sw_transfer *x = m->transfer;
    const int32_t local = (int32_t)t->local[x->peer];
    size_t sent = 0;
    switch (m->state) {
    case TO_POST:
        if (!sw_shm_post(t->shm, local, x->data.send, x->bytes))
            return 0;
        m->state = sw_shm_is_released(t->shm, local) ? DONE : TO_RELEASE;
        return 1;
    case TO_RELEASE:
        if (!sw_shm_is_released(t->shm, local))
            return 0;
        m->state = DONE;
        return 1;
    case TO_TAKE:
        switch (sw_shm_take(t->shm, local, x, &sent)) {
        case 0:
            return 0;
        case 1:
            m->state = DONE;
            return sent == x->bytes
                       ? 1
                       : sw_fail(err, SW_ENVIRONMENT, "rank %d sent %zu bytes instead of %zu",
                                 (int)x->peer, sent, x->bytes);
        default:
            return sw_fail(err, SW_ENVIRONMENT, "cannot read %zu bytes of rank %d: %s", x->bytes,
                           (int)x->peer, strerror(errno));
        }
    default:
        return 0;
    }
}

/* Sends first: others should not wait while this rank copies. */
static int look_at_neighbours(struct mpi_transport *t, struct batch *b, int32_t *progress,
                              struct sw_error *err)
{
    for (int32_t i = b->count; b->neighbours > 0 && i-- > 0;) {
        const int step = step_of_neighbour(t, &t->messages[i], err);
        if (step < 0)
            return -1;
        *progress += step;
        b->neighbours -= step > 0 && t->messages[i].state == DONE;
    }
    return 0;
}

/* Neighbour that this rank may sleep for; -1: none. One that still holds an earlier message comes
 * first: others may wait for a message that cannot be posted yet. */
static int32_t sleeps_for(const struct mpi_transport *t, const struct batch *b)
{
    static const enum message_state order[] = {TO_POST, TO_TAKE, TO_RELEASE};
    for (size_t k = 0; b->neighbours > 0 && k < sizeof order / sizeof *order; k++)
        for (int32_t i = 0; i < b->count; i++)
            if (t->messages[i].state == order[k])
                return (int32_t)t->local[t->messages[i].transfer->peer];
    return -1;
}

/* Sleeps until there may be progress since `heard`. */
static void rest(struct mpi_transport *t, const struct batch *b, uint32_t heard, double waited)
{
    const int32_t neighbour = sleeps_for(t, b);
    if (neighbour < 0)
        take_a_nap(waited, b->far);
    else
        sw_shm_sleep(t->shm, heard, neighbour,
                     b->flying > 0 ? nap_seconds(waited, b->far)
                                   : fmin(NEAR_REST_SECONDS, t->stall_seconds / 20));
}

static int exchange(struct mpi_transport *t, struct batch *b, struct sw_error *err)
{
    int32_t looks = 0;
    double last = 0, looked = 0; /* start of the wait; last look */
    while (b->flying > 0 || b->neighbours > 0) {
        const uint32_t heard = t->shm != NULL ? sw_shm_heard(t->shm) : 0;
        int32_t progress = 0;
        if (look_at_neighbours(t, b, &progress, err) != 0 || look_at_mpi(t, b, &progress, err) != 0)
            return -1;
        looks = progress > 0 ? 0 : looks + (looks < 1000);
        if (looks < (b->flying > 0 ? YIELDS : NEAR_YIELDS)) {
            if (progress == 0)
                (void)sched_yield();
            last = 0;
            continue;
        }
        /* a long time between two looks: this rank was stopped itself */
        const double look = sw_clock_now();
        if (last <= 0 || look - looked > t->stall_seconds / 2)
            last = look;
        looked = look;
        if (look_around(t, b, look - last, err) != 0)
            return -1;
        rest(t, b, heard, look - last);
    }
    return 0;
}

static int mpi_exchange(struct sw_transport *transport, const struct sw_transfer *sends,
                        int32_t send_count, const struct sw_transfer *receives,
                        int32_t receive_count, struct sw_error *err)
{
    struct mpi_transport *t = (struct mpi_transport *)transport;
    struct batch b = {.receives = receive_count, .count = receive_count + send_count};
    if (b.count > t->capacity)
        return sw_fail(err, SW_BAD_INPUT, "%d messages, room for %d", (int)b.count,
                       (int)t->capacity);
    const int code = start_batch(t, sends, receives, &b);
    if (code != MPI_SUCCESS)
        (void)fail_mpi(code, err);
    if (code != MPI_SUCCESS || exchange(t, &b, err) != 0)
        return give_up(t, &b);
    sw_inquiry_stop(t->inquiry);
    return 0;
}

static bool mpi_scatters(const struct sw_transport *transport, int32_t peer, int64_t row_bytes)
{
    const struct mpi_transport *t = (const struct mpi_transport *)transport;
    return t->shm != NULL && is_on_node(t, peer) && row_bytes >= ROW_BYTES_MIN;
}

static void mpi_leave(struct sw_transport *transport)
{
    (void)transport; /* the launcher ends the other processes when this one exits */
}

static void mpi_destroy(struct sw_transport *transport)
{
    struct mpi_transport *t = (struct mpi_transport *)transport;
    sw_inquiry_free(t->inquiry);
    if (t->comm != MPI_COMM_NULL)
        (void)MPI_Comm_free(&t->comm);
    free(t->messages);
    free(t->requests);
    free(t->statuses);
    free(t->indices);
    free(t->local);
    free(t->node);
    sw_shm_free(t->shm);
    free(t);
}

static const struct sw_transport_vtable mpi_vtable = {
    .exchange = mpi_exchange, .scatters = mpi_scatters, .leave = mpi_leave, .destroy = mpi_destroy};

static int check_environment(const struct sw_mesh *mesh, struct sw_error *err)
{
    int initialised = 0, provided = MPI_THREAD_SINGLE, processes = 0;
    if (MPI_Initialized(&initialised) != MPI_SUCCESS || !initialised)
        return sw_fail(err, SW_ENVIRONMENT, "MPI is not initialised");
    if (MPI_Query_thread(&provided) != MPI_SUCCESS || provided < MPI_THREAD_MULTIPLE)
        return sw_fail(err, SW_ENVIRONMENT, "MPI gives no MPI_THREAD_MULTIPLE");
    const int code = MPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (code != MPI_SUCCESS)
        return fail_mpi(code, err);
    const int32_t ranks = sw_mesh_rank_count(mesh);
    char sizes[64];
    if (processes != ranks)
        return sw_fail(err, SW_BAD_INPUT, "mesh_dim %s needs %d ranks, %d were started",
                       sw_mesh_format(mesh, sizes, sizeof sizes), (int)ranks, processes);
    return 0;
}

/* Finds the ranks on this rank's node and sets up shared memory with them; returns an MPI error
 * code. */
static int find_shm(struct mpi_transport *t)
{
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Group all = MPI_GROUP_NULL, here = MPI_GROUP_NULL;
    int32_t lowest = -1;
    int code = MPI_Comm_split_type(t->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_group(t->comm, &all);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_group(node, &here);
    for (int rank = 0; rank < t->ranks && code == MPI_SUCCESS; rank++) {
        t->local[rank] = MPI_UNDEFINED;
        code = MPI_Group_translate_ranks(all, 1, &rank, here, &t->local[rank]);
        t->transport.network |= t->local[rank] == MPI_UNDEFINED;
        lowest = lowest < 0 && t->local[rank] != MPI_UNDEFINED ? rank : lowest;
    }
    if (code == MPI_SUCCESS)
        code = MPI_Allgather(&lowest, 1, MPI_INT32_T, t->node, 1, MPI_INT32_T, t->comm);
    if (code == MPI_SUCCESS)
        t->shm = sw_shm_create(&node);
    if (here != MPI_GROUP_NULL)
        (void)MPI_Group_free(&here);
    if (all != MPI_GROUP_NULL)
        (void)MPI_Group_free(&all);
    if (node != MPI_COMM_NULL)
        (void)MPI_Comm_free(&node);
    return code;
}

/* NULL: no memory. */
static struct mpi_transport *transport_new(int32_t ranks, int32_t group_max, double stall_seconds)
{
    struct mpi_transport *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->transport.vtable = &mpi_vtable;
    t->comm = MPI_COMM_NULL;
    t->stall_seconds = stall_seconds;
    t->capacity = 2 * group_max;
    t->piece_bytes = PIECE_BYTES;
    t->ranks = ranks;
    const size_t pieces = (size_t)t->capacity * PIECES;
    t->messages = calloc((size_t)t->capacity, sizeof *t->messages);
    t->requests = calloc(pieces, sizeof *t->requests);
    t->statuses = calloc(pieces, sizeof *t->statuses);
    t->indices = calloc(pieces, sizeof *t->indices);
    t->local = calloc((size_t)t->ranks, sizeof *t->local);
    t->node = calloc((size_t)t->ranks, sizeof *t->node);
    t->transport.node = t->node;
    if (t->messages != NULL && t->requests != NULL && t->statuses != NULL && t->indices != NULL &&
        t->local != NULL && t->node != NULL)
        return t;
    mpi_destroy(&t->transport);
    return NULL;
}

int sw_comm_mpi_create(const struct sw_mesh *mesh, const struct sw_axes *groups, int32_t count,
                       double stall_seconds, struct sw_comm **out, struct sw_error *err)
{
    if (check_environment(mesh, err) != 0)
        return -1;
    int32_t group_max = 1;
    for (int32_t i = 0; i < count; i++) {
        const int32_t group = sw_axes_size(mesh, groups[i]);
        if (group > group_max)
            group_max = group;
    }
    struct mpi_transport *t = transport_new(sw_mesh_rank_count(mesh), group_max, stall_seconds);
    /* duplicating needs all ranks: one that cannot must not leave the others waiting */
    int rank = 0, ready = t != NULL, all_ready = 0;
    int code = MPI_Allreduce(&ready, &all_ready, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (t == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a group of %d", (int)group_max);
    if (code == MPI_SUCCESS && !all_ready) {
        (void)sw_fail(err, SW_ENVIRONMENT, "another rank has no memory for a communicator");
        goto fail;
    }
    if (code == MPI_SUCCESS)
        code = MPI_Comm_dup(MPI_COMM_WORLD, &t->comm);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(t->comm, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_rank(t->comm, &rank);
    if (code == MPI_SUCCESS)
        code = find_shm(t);
    if (code == MPI_SUCCESS && (t->inquiry = sw_inquiry_create(&t->comm, t->ranks)) == NULL)
        code = MPI_ERR_NO_MEM;
    if (code != MPI_SUCCESS) {
        (void)fail_mpi(code, err);
        goto fail;
    }
    return sw_queue_create(mesh, rank, group_max, &t->transport, out, err);

fail:
    mpi_destroy(&t->transport);
    return -1;
}

void sw_comm_mpi_cut_messages(struct sw_comm *comm, size_t bytes, int32_t node_ranks)
{
    struct mpi_transport *t = (struct mpi_transport *)sw_queue_transport(comm);
    t->piece_bytes = bytes;
    for (int32_t rank = 0; rank < t->ranks; rank++) {
        t->node[rank] = rank - rank % node_ranks;
        if (node_ranks == 1 || t->node[rank] != comm->rank - comm->rank % node_ranks)
            t->local[rank] = MPI_UNDEFINED;
    }
}
