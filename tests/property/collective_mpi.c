/* MPI's communicator on 8 ranks (on 2 and 4: less): every collective of every dtype on several
 * meshes against a direct computation, rings, large and small messages. Run by mpirun; every rank
 * checks its own results, rank 0 reports. */
#include "tests/unit/collective_reference.h"

#include "runner/collective/comm.h"
#include "runner/collective/queue.h"

#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BATCH = 4, BATCHES = 12 };

static int random_cases(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    struct reference_random random = {seed};
    for (int batch = 0; batch < BATCHES; batch++) {
        struct reference_run runs[BATCH];
        for (int i = 0; i < BATCH; i++) {
            const struct reference_case c =
                reference_case_random(&random, &comm->mesh, batch == 0 && i == 0);
            if (reference_begin(&runs[i], comm, &c, err) != 0)
                return -1;
        }
        for (int i = 0; i < BATCH; i++)
            if (reference_end(&runs[i], comm, err) != 0)
                return -1;
    }
    return 0;
}

/* Columns of a matrix whose rows are long enough to be brought to their places by whoever copies
 * them: a message that lies in its sender's box, and one of more rows than a copy takes. */
static int gathered_columns(struct sw_comm *comm, const struct sw_axes *axes, struct sw_error *err)
{
    static const int64_t rows[] = {2, 150};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct reference_case c = {.kind = SW_ALL_GATHER,
                                         .axes = *axes,
                                         .dtype = SW_F32,
                                         .count = 1,
                                         .ndim = 2,
                                         .dim = 1,
                                         .local = {rows[i], 512},
                                         .stack = 1,
                                         .seed = 7 + i};
        struct reference_run run;
        if (reference_begin(&run, comm, &c, err) != 0 || reference_end(&run, comm, err) != 0)
            return -1;
    }
    return 0;
}

/* What goes once to each node: rows, columns, and sums, of one and of three operands that end in
 * the middle of a member's part; on all axes, also where neighbours are no consecutive members, and
 * on those that leave out some ranks of a node. */
static int blocks_by_node(struct sw_comm *comm, int32_t node_ranks, struct sw_error *err)
{
    static const struct sw_axes axes[] = {{4, {SW_DP, SW_FSDP, SW_TP, SW_SP}},
                                          {2, {SW_FSDP, SW_SP}},
                                          {4, {SW_SP, SW_DP, SW_TP, SW_FSDP}}};
    static const struct reference_case cases[] = {
        {.kind = SW_ALL_GATHER, .dtype = SW_BF16_T, .ndim = 2, .local = {13, 523}},
        {.kind = SW_ALL_GATHER, .dtype = SW_F32, .ndim = 2, .dim = 1, .local = {7, 601}},
        {.kind = SW_REDUCE_SCATTER, .dtype = SW_BF16_T, .ndim = 2, .local = {64, 520}},
        {.kind = SW_REDUCE_SCATTER, .dtype = SW_F32, .ndim = 2, .dim = 1, .local = {17, 1608}},
        {.kind = SW_REDUCE_SCATTER, .dtype = SW_F32, .ndim = 2, .dim = 1, .local = {431, 40}},
        {.kind = SW_ALL_REDUCE, .dtype = SW_F32, .ndim = 1, .local = {17003}, .in_place = true},
        {.kind = SW_ALL_REDUCE, .dtype = SW_F32, .count = 3, .ndim = 2, .local = {9, 701}},
        {.kind = SW_ALL_REDUCE, .dtype = SW_BF16_T, .ndim = 1, .local = {34001}},
        /* too short for that, but summed alike */
        {.kind = SW_REDUCE_SCATTER, .dtype = SW_F32, .ndim = 2, .dim = 1, .local = {3, 1024}},
        {.kind = SW_ALL_REDUCE, .dtype = SW_F32, .ndim = 1, .local = {9003}},
        {.kind = SW_ALL_REDUCE, .dtype = SW_BF16_T, .count = 2, .ndim = 1, .local = {77}},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    for (size_t a = 0; a < sizeof axes / sizeof *axes; a++) {
        struct reference_run runs[CASES];
        for (size_t i = 0; i < CASES; i++) {
            struct reference_case c = cases[i];
            c.axes = axes[a];
            c.count += c.count == 0;
            c.stack = 1;
            c.seed = 11 * a + i;
            c.node_ranks = node_ranks;
            if (reference_begin(&runs[i], comm, &c, err) != 0)
                return -1;
        }
        for (size_t i = 0; i < CASES; i++)
            if (reference_end(&runs[i], comm, err) != 0)
                return -1;
    }
    return 0;
}

/* As if the ranks lay on nodes of so many. */
static int check_nodes(const struct sw_mesh *mesh, int64_t message_bytes, int32_t node_ranks,
                       struct sw_error *err)
{
    const struct sw_axes all = {4, {SW_DP, SW_FSDP, SW_TP, SW_SP}};
    struct sw_comm *comm = NULL;
    if (sw_comm_mpi_create(mesh, &all, 1, 600, &comm, err) != 0)
        return -1;
    if (message_bytes > 0)
        sw_queue_limit_messages(comm, message_bytes);
    sw_comm_mpi_cut_messages(comm, 3000, node_ranks);
    const int result = blocks_by_node(comm, node_ranks, err);
    comm->vtable->destroy(comm);
    return result;
}

/* One mesh with a communicator of its own. piece_bytes: cut as between nodes; 0: not cut. */
static int check_mesh(const struct sw_mesh *mesh, int64_t message_bytes, size_t piece_bytes,
                      struct sw_error *err)
{
    const struct sw_axes all = {4, {SW_SP, SW_DP, SW_TP, SW_FSDP}}, ring = {1, {SW_SP}};
    struct sw_comm *comm = NULL;
    if (sw_comm_mpi_create(mesh, &all, 1, 600, &comm, err) != 0)
        return -1;
    int result = 0;
    if (message_bytes > 0)
        sw_queue_limit_messages(comm, message_bytes);
    if (piece_bytes > 0)
        sw_comm_mpi_cut_messages(comm, piece_bytes, 1);
    if (random_cases(comm, (uint64_t)message_bytes + mesh->order[0], err) != 0 ||
        gathered_columns(comm, &all, err) != 0 || reference_ring(comm, ring, 100000, err) != 0 ||
        reference_ring(comm, all, 4097, err) != 0 ||
        reference_transfers(comm, 40 + piece_bytes, 300000, err) != 0 ||
        comm->vtable->barrier(comm, err) != 0)
        result = -1;
    comm->vtable->destroy(comm);
    return result;
}

/* Mistakes that must be told, not hang. */
static int check_errors(struct sw_error *err)
{
    const struct sw_axes small = {1, {SW_DP}}, large = {1, {SW_TP}};
    const struct sw_mesh wrong = sw_mesh_make(3, 1, 1, 1), mesh = sw_mesh_make(2, 1, 4, 1);
    struct sw_comm *comm = NULL;
    struct sw_error error = {0};
    uint64_t ticket = 0;
    char message[128];
    if (sw_comm_mpi_create(&wrong, &small, 1, 600, &comm, &error) == 0 ||
        error.status != SW_BAD_INPUT ||
        strcmp(error.message, "mesh_dim 3,1,1,1 needs 3 ranks, 8 were started") != 0)
        return sw_fail(err, SW_UNMET, "wrong mesh: '%s'", error.message);
    if (sw_comm_mpi_create(&mesh, &small, 1, 600, &comm, err) != 0)
        return -1;
    error = (struct sw_error){0};
    char from = 1, to = 0;
    int result = 0;
    snprintf(message, sizeof message,
             "rank %d: shift over tp: a group of 4, but no group over 2 was declared",
             (int)comm->rank);
    if (comm->vtable->shift(comm, large, &from, &to, 1, &ticket, err) != 0 ||
        comm->vtable->wait(comm, ticket, &error) == 0 || strcmp(error.message, message) != 0)
        result = sw_fail(err, SW_UNMET, "undeclared group: '%s'", error.message);
    comm->vtable->destroy(comm);
    return result;
}

/* Rank 0 sends three bytes where rank 1 expects two: who gets more says so in MPI's own words where
 * MPI carried them, with rank and group before them. */
static int check_truncation(struct sw_error *err)
{
    const struct sw_axes pair = {1, {SW_TP}};
    const struct sw_mesh mesh = sw_mesh_make(4, 1, 2, 1);
    struct sw_comm *comm = NULL;
    struct sw_error error = {0};
    uint64_t ticket = 0;
    unsigned char from[3] = {1, 2, 3}, to[3] = {0};
    char prefix[64];
    int result = 0;
    if (sw_comm_mpi_create(&mesh, &pair, 1, 600, &comm, err) != 0)
        return -1;
    const size_t bytes = comm->rank % 2 == 0 ? 3 : 2;
    if (comm->vtable->shift(comm, pair, from, to, bytes, &ticket, err) != 0)
        result = -1;
    const int failed = comm->vtable->wait(comm, ticket, &error);
    snprintf(prefix, sizeof prefix, "rank %d: shift over tp: ", (int)comm->rank);
    if (failed == 0 || strncmp(error.message, prefix, strlen(prefix)) != 0 ||
        (strstr(error.message, comm->rank % 2 == 0 ? "sent 2 bytes instead of 3"
                                                   : "sent 3 bytes instead of 2") == NULL &&
         (comm->rank % 2 == 0 || strstr(error.message, "MPI_ERR_TRUNCATE") == NULL)))
        result = sw_fail(err, SW_UNMET, "truncation: '%s'", error.message);
    comm->vtable->destroy(comm);
    return result;
}

/* Rank 0 waits for a message that rank 1 never sends. */
static int check_stalled_transfer(struct sw_error *err)
{
    const struct sw_mesh mesh = sw_mesh_make(2, 1, 1, 1);
    struct sw_comm *comm = NULL;
    struct sw_error error = {0};
    uint64_t ticket = 0;
    char byte = 0;
    int result = 0;
    if (sw_comm_mpi_create(&mesh, NULL, 0, 1, &comm, err) != 0)
        return -1;
    if (comm->rank == 0) {
        if (comm->vtable->transfer(comm, 0, NULL, 0, 1, &byte, 1, &ticket, err) != 0)
            result = -1;
        else if (comm->vtable->wait(comm, ticket, &error) == 0 ||
                 strcmp(error.message,
                        "rank 0: transfer from rank 1: nothing from rank 1 for 1 s: it hangs, or "
                        "its node or network is gone (SHARDWRIGHT_STALL_SECONDS is how long to "
                        "wait)") != 0)
            result = sw_fail(err, SW_UNMET, "a stall: '%s'", error.message);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    comm->vtable->destroy(comm);
    return result;
}

static int check_few_ranks(int32_t ranks, struct sw_error *err)
{
    const struct sw_mesh mesh = sw_mesh_make(1, ranks / 2, 1, 2);
    static const size_t pieces[] = {0, 100, 100000};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (check_mesh(&mesh, i == 1 ? 4096 : 0, pieces[i], err) != 0)
            return -1;
    if (ranks == 4 && check_nodes(&mesh, 0, 2, err) != 0)
        return -1;
    return ranks == 2 ? check_stalled_transfer(err) : 0;
}

static bool no_memory;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return no_memory ? NULL : __real_calloc(count, bytes);
}

/* A rank that has no memory tells the others instead of leaving them to wait for it. */
static int check_no_memory(struct sw_error *err)
{
    const struct sw_mesh mesh = sw_mesh_make(1, 2, 2, 2);
    const struct sw_axes every = {SW_AXIS_COUNT, {SW_DP, SW_FSDP, SW_TP, SW_SP}};
    struct sw_comm *comm = NULL;
    struct sw_error error = {0};
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    no_memory = rank == 3;
    const int created = sw_comm_mpi_create(&mesh, &every, 1, 600, &comm, &error);
    no_memory = false;
    const char *wanted = rank == 3 ? "out of memory for a group of 8"
                                   : "another rank has no memory for a communicator";
    if (created == -1 && strcmp(error.message, wanted) == 0)
        return 0;
    return sw_fail(err, SW_UNMET, "without memory: '%s'", error.message);
}

static bool no_reading;

ssize_t __real_process_vm_readv(pid_t process, const struct iovec *here, unsigned long here_count,
                                const struct iovec *there, unsigned long there_count,
                                unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t process, const struct iovec *here, unsigned long here_count,
                                const struct iovec *there, unsigned long there_count,
                                unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t process, const struct iovec *here, unsigned long here_count,
                                const struct iovec *there, unsigned long there_count,
                                unsigned long flags)
{
    if (!no_reading)
        return __real_process_vm_readv(process, here, here_count, there, there_count, flags);
    errno = EPERM;
    return -1;
}

/* One rank may not read the others' memory, as in some containers: MPI carries all messages. */
static int check_no_reading(const struct sw_mesh *mesh, struct sw_error *err)
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    no_reading = rank == 3;
    const int result = check_mesh(mesh, 0, 0, err);
    no_reading = false;
    return result;
}

static int check_eight_ranks(struct sw_error *err)
{
    struct sw_mesh meshes[] = {sw_mesh_make(1, 2, 2, 2), sw_mesh_make(8, 1, 1, 1),
                               sw_mesh_make(2, 1, 4, 1), sw_mesh_make(1, 2, 1, 4)};
    static const uint8_t reversed[] = {SW_SP, SW_TP, SW_FSDP, SW_DP};
    memcpy(meshes[3].order, reversed, sizeof reversed);
    int result = 0;
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes && result == 0; i++)
        result = check_mesh(&meshes[i], i % 2 ? 256 : 0, 0, err);
    /* many pieces, a last one that is shorter, and fewer than go at once */
    static const size_t pieces[] = {100, 1000, 100000};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces && result == 0; i++)
        result = check_mesh(&meshes[0], 0, pieces[i], err);
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes && result == 0; i += 3)
        result = check_nodes(&meshes[i], i % 2 ? 4096 : 0, i < 2 ? 2 : 4, err);
    /* groups of four, not all of them with two members on each node: no sum goes by node */
    const struct sw_mesh cut = sw_mesh_make(2, 1, 1, 4);
    if (result == 0)
        result = check_nodes(&cut, 0, 6, err);
    if (result == 0)
        result = check_errors(err);
    if (result == 0)
        result = check_truncation(err);
    if (result == 0)
        result = check_no_memory(err);
    if (result == 0)
        result = check_no_reading(&meshes[0], err);
    return result;
}

int main(int argc, char **argv)
{
    int provided = 0, rank = 0, ranks = 0;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
        return 3;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct sw_error error = {0};
    if (ranks != 2 && ranks != 4 && ranks != 8)
        return 3;
    const int result = ranks < 8 ? check_few_ranks(ranks, &error) : check_eight_ranks(&error);
    if (result != 0) {
        fprintf(stderr, "collective_mpi: %s\n", error.message);
        _exit(1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        puts("collective_mpi: ok");
    MPI_Finalize();
    return 0;
}
