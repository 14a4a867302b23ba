/* Ranks are MPI processes. All communication is nonblocking messages on one duplicate of
 * MPI_COMM_WORLD, completed by the communication thread of queue.c: groups need no communicators of
 * their own, since every pair of ranks makes its calls in the same order and MPI keeps messages
 * between two ranks in order. */
#include "runner/collective/comm.h"
#include "runner/collective/queue.h"

#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MESSAGE_TAG = 1,
    YIELDS = 32, /* looks that only give way, before the first nap: a message on its way needs no
                    longer */
    NAP_FIRST_NS =
        20000, /* then naps, growing; a rank's other threads and other ranks may need this core */
    NAP_LAST_NS = 50000
};

struct mpi_transport {
    struct sw_transport transport;
    MPI_Comm comm;
    int32_t capacity;
    MPI_Request *requests; /* [capacity] receives, then sends */
    MPI_Status *statuses;  /* [capacity] */
    int *indices;          /* [capacity] */
    double stall_seconds;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int fail_mpi(int code, struct sw_error *err)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        return sw_fail(err, SW_ENVIRONMENT, "MPI error %d", code);
    return sw_fail(err, SW_ENVIRONMENT, "%s", text);
}

static void give_way(int32_t looks)
{
    if (looks < YIELDS) {
        (void)sched_yield();
        return;
    }
    const int64_t grown = (int64_t)NAP_FIRST_NS + (int64_t)(looks - YIELDS) * 1000;
    const struct timespec nap = {0, grown < NAP_LAST_NS ? (long)grown : (long)NAP_LAST_NS};
    (void)nanosleep(&nap, NULL);
}

/* Checks the requests that MPI_Testsome reported. */
static int check_completed(const struct mpi_transport *t, int completed, int code,
                           const struct sw_transfer *receives, int32_t receive_count,
                           struct sw_error *err)
{
    for (int i = 0; i < completed; i++) {
        const MPI_Status *status = &t->statuses[i];
        if (code == MPI_ERR_IN_STATUS && status->MPI_ERROR != MPI_SUCCESS)
            return fail_mpi(status->MPI_ERROR, err);
        const int index = t->indices[i];
        int bytes = 0;
        if (index >= receive_count)
            continue;
        if (MPI_Get_count(status, MPI_BYTE, &bytes) != MPI_SUCCESS ||
            (size_t)bytes != receives[index].bytes)
            return sw_fail(err, SW_ENVIRONMENT, "rank %d sent %d bytes instead of %zu",
                           (int)receives[index].peer, bytes, receives[index].bytes);
    }
    return 0;
}

/* Names the lowest rank that something is still expected from, or that takes nothing. */
static int fail_stalled(const struct mpi_transport *t, const struct sw_transfer *sends,
                        const struct sw_transfer *receives, int32_t receive_count, int32_t count,
                        struct sw_error *err)
{
    int32_t peer = INT32_MAX;
    for (int32_t i = 0; i < count; i++) {
        const struct sw_transfer *x = i < receive_count ? &receives[i] : &sends[i - receive_count];
        if (t->requests[i] != MPI_REQUEST_NULL && x->peer < peer)
            peer = x->peer;
    }
    return sw_fail(err, SW_ENVIRONMENT,
                   "nothing from rank %d for %.0f s: it hangs, or its node or network is gone "
                   "(SHARDWRIGHT_STALL_SECONDS is how long to wait)",
                   (int)peer, t->stall_seconds);
}

/* After an error: what is under way may not write to the caller's memory later. */
static int give_up(struct mpi_transport *t, int32_t receive_count, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        if (t->requests[i] == MPI_REQUEST_NULL)
            continue;
        if (i < receive_count)
            (void)MPI_Cancel(&t->requests[i]);
        (void)MPI_Request_free(&t->requests[i]);
    }
    return -1;
}

static int mpi_exchange(struct sw_transport *transport, const struct sw_transfer *sends,
                        int32_t send_count, const struct sw_transfer *receives,
                        int32_t receive_count, struct sw_error *err)
{
    struct mpi_transport *t = (struct mpi_transport *)transport;
    const int32_t count = receive_count + send_count;
    if (count > t->capacity)
        return sw_fail(err, SW_BAD_INPUT, "%d messages, room for %d", (int)count, (int)t->capacity);
    int code = MPI_SUCCESS;
    for (int32_t i = 0; i < count; i++)
        t->requests[i] = MPI_REQUEST_NULL;
    for (int32_t i = 0; i < receive_count && code == MPI_SUCCESS; i++)
        code = MPI_Irecv(receives[i].data.receive, (int)receives[i].bytes, MPI_BYTE,
                         receives[i].peer, MESSAGE_TAG, t->comm, &t->requests[i]);
    for (int32_t i = 0; i < send_count && code == MPI_SUCCESS; i++)
        code = MPI_Isend(sends[i].data.send, (int)sends[i].bytes, MPI_BYTE, sends[i].peer,
                         MESSAGE_TAG, t->comm, &t->requests[receive_count + i]);
    if (code != MPI_SUCCESS) {
        (void)fail_mpi(code, err);
        return give_up(t, receive_count, count);
    }

    int32_t pending = count, looks = 0;
    double last = 0, looked = 0; /* when waiting began; when it was last looked */
    while (pending > 0) {
        int completed = 0;
        code = MPI_Testsome(count, t->requests, &completed, t->indices, t->statuses);
        if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
            (void)fail_mpi(code, err);
            return give_up(t, receive_count, count);
        }
        if (completed == MPI_UNDEFINED)
            break;
        if (check_completed(t, completed, code, receives, receive_count, err) != 0)
            return give_up(t, receive_count, count);
        pending -= completed;
        looks = completed > 0 ? 0 : looks + (looks < 1000);
        if (completed == 0)
            give_way(looks);
        if (looks < YIELDS) {
            last = 0;
            continue;
        }
        /* a long time between two looks: it was this rank that stood still */
        const double look = now();
        if (last <= 0 || look - looked > t->stall_seconds / 2)
            last = look;
        looked = look;
        if (look - last > t->stall_seconds) {
            (void)fail_stalled(t, sends, receives, receive_count, count, err);
            return give_up(t, receive_count, count);
        }
    }
    return 0;
}

static void mpi_leave(struct sw_transport *transport)
{
    (void)transport; /* the launcher ends the other processes when this one exits */
}

static void mpi_destroy(struct sw_transport *transport)
{
    struct mpi_transport *t = (struct mpi_transport *)transport;
    if (t->comm != MPI_COMM_NULL)
        (void)MPI_Comm_free(&t->comm);
    free(t->requests);
    free(t->statuses);
    free(t->indices);
    free(t);
}

static const struct sw_transport_vtable mpi_vtable = {
    .exchange = mpi_exchange, .leave = mpi_leave, .destroy = mpi_destroy};

static int check_environment(const struct sw_mesh *mesh, struct sw_error *err)
{
    int initialised = 0, provided = MPI_THREAD_SINGLE, processes = 0;
    if (MPI_Initialized(&initialised) != MPI_SUCCESS || !initialised)
        return sw_fail(err, SW_ENVIRONMENT, "MPI is not initialised");
    if (MPI_Query_thread(&provided) != MPI_SUCCESS || provided < MPI_THREAD_SERIALIZED)
        return sw_fail(err, SW_ENVIRONMENT,
                       "MPI gives thread level %d, MPI_THREAD_SERIALIZED is needed", provided);
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

int sw_comm_mpi_create(const struct sw_mesh *mesh, const struct sw_axes *groups, int32_t count,
                       struct sw_comm **out, struct sw_error *err)
{
    if (check_environment(mesh, err) != 0)
        return -1;
    int32_t group_max = 1;
    for (int32_t i = 0; i < count; i++) {
        const int32_t group = sw_axes_size(mesh, groups[i]);
        if (group > group_max)
            group_max = group;
    }
    struct mpi_transport *t = calloc(1, sizeof *t);
    if (t == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a communicator");
    t->transport.vtable = &mpi_vtable;
    t->comm = MPI_COMM_NULL;
    t->stall_seconds = sw_comm_stall_seconds();
    t->capacity = 2 * group_max;
    t->requests = calloc((size_t)t->capacity, sizeof *t->requests);
    t->statuses = calloc((size_t)t->capacity, sizeof *t->statuses);
    t->indices = calloc((size_t)t->capacity, sizeof *t->indices);
    int rank = 0, code = MPI_SUCCESS;
    if (t->requests == NULL || t->statuses == NULL || t->indices == NULL) {
        (void)sw_fail(err, SW_ENVIRONMENT, "out of memory for a group of %d", (int)group_max);
        goto fail;
    }
    code = MPI_Comm_dup(MPI_COMM_WORLD, &t->comm);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(t->comm, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_rank(t->comm, &rank);
    if (code != MPI_SUCCESS) {
        (void)fail_mpi(code, err);
        goto fail;
    }
    return sw_queue_create(mesh, rank, group_max, &t->transport, out, err);

fail:
    mpi_destroy(&t->transport);
    return -1;
}
