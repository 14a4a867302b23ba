/* Stops a rank with SIGSTOP at its first call of an MPI function, for LD_PRELOAD:
 *
 *     STOP_RANK=3 STOP_IN=init|split|bcast */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void stop_in(const char *here)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *which = getenv("STOP_RANK"),
               *where = getenv("STOP_IN");
    if (rank != NULL && which != NULL && where != NULL && strcmp(rank, which) == 0 &&
        strcmp(where, here) == 0)
        (void)raise(SIGSTOP);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    stop_in("init");
    return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    stop_in("bcast");
    return PMPI_Bcast(buffer, count, type, root, comm);
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out)
{
    stop_in("split");
    return PMPI_Comm_split_type(comm, type, key, info, out);
}
