#include "runner/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef SW_HAVE_MPI
#include <mpi.h>
#endif

/* "error: ..." unless the message already says where it is: "FILE:LINE:COL: error: ...". */
static void print(const struct sw_launch *launch, const struct sw_error *err, bool with_rank)
{
    char line[1400];
    const char *kind = strstr(err->message, ": error: ") == NULL ? "error: " : "";
    if (with_rank)
        snprintf(line, sizeof line, "rank %d (host %s): %s%s\n", launch->rank, launch->host, kind,
                 err->message);
    else
        snprintf(line, sizeof line, "%s%s\n", kind, err->message);
    fputs(line, stderr);
    fflush(stderr);
}

#ifdef SW_HAVE_MPI

static bool under_launcher(void)
{
    static const char *const signs[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK",
                                        "PMI2_RANK"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (getenv(signs[i]) != NULL)
            return true;
    return false;
}

/* Tasks that srun starts without PMIx would each take themselves for a whole job. */
static int check_srun(struct sw_launch *launch, struct sw_error *err)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS"), *task = getenv("SLURM_PROCID");
    if (tasks == NULL || task == NULL || atoi(tasks) <= 1)
        return 0;
    launch->rank = atoi(task);
    return sw_fail(err, SW_BAD_INPUT, "srun started %s tasks without MPI; use srun --mpi=pmix",
                   tasks);
}

int sw_launch_begin(struct sw_launch *launch, struct sw_error *err)
{
    *launch = (struct sw_launch){.size = 1, .local_size = 1};
    if (gethostname(launch->host, sizeof launch->host - 1) != 0)
        snprintf(launch->host, sizeof launch->host, "unknown");
    if (!under_launcher())
        return check_srun(launch, err);
    int provided, rank, size, local;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
        return sw_fail(err, SW_ENVIRONMENT, "MPI does not start");
    launch->mpi = true;
    if (provided < MPI_THREAD_SERIALIZED)
        return sw_fail(err, SW_ENVIRONMENT,
                       "this MPI has no thread support; the communication thread needs it");
    MPI_Comm node;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &local);
    MPI_Comm_free(&node);
    launch->rank = rank;
    launch->size = size;
    launch->local_size = local;
    return 0;
}

enum sw_status sw_launch_agree(const struct sw_launch *launch, const struct sw_error *err)
{
    if (!launch->mpi) {
        if (err != NULL)
            print(launch, err, false);
        return err == NULL ? SW_OK : err->status;
    }
    struct {
        int failed_rank, status;
    } mine = {err == NULL ? launch->size : launch->rank, err == NULL ? 0 : (int)err->status}, first;
    MPI_Allreduce(&mine.failed_rank, &first.failed_rank, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first.failed_rank == launch->size)
        return SW_OK;
    if (first.failed_rank == launch->rank)
        print(launch, err, launch->rank != 0);
    MPI_Bcast(&mine.status, 1, MPI_INT, first.failed_rank, MPI_COMM_WORLD);
    MPI_Barrier(
        MPI_COMM_WORLD); /* printed before any rank leaves and the launcher ends the others */
    return (enum sw_status)mine.status;
}

void sw_launch_abort(const struct sw_launch *launch, const struct sw_error *err)
{
    print(launch, err, launch->size > 1);
    if (launch->mpi)
        MPI_Abort(MPI_COMM_WORLD, (int)err->status);
    _exit((int)err->status);
}

void sw_launch_end(struct sw_launch *launch)
{
    if (launch->mpi)
        MPI_Finalize();
    launch->mpi = false;
}

const char *sw_launch_mpi_version(char *buffer, int32_t buffer_bytes)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    snprintf(buffer, (size_t)buffer_bytes, "%s", text);
    return buffer;
}

#else

int sw_launch_begin(struct sw_launch *launch, struct sw_error *err)
{
    *launch = (struct sw_launch){.size = 1, .local_size = 1};
    if (gethostname(launch->host, sizeof launch->host - 1) != 0)
        snprintf(launch->host, sizeof launch->host, "unknown");
    if (getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMIX_RANK") != NULL)
        return sw_fail(err, SW_ENVIRONMENT,
                       "this runner was built without MPI; install libopenmpi-dev and build again");
    return 0;
}

enum sw_status sw_launch_agree(const struct sw_launch *launch, const struct sw_error *err)
{
    if (err != NULL)
        print(launch, err, false);
    return err == NULL ? SW_OK : err->status;
}

void sw_launch_abort(const struct sw_launch *launch, const struct sw_error *err)
{
    print(launch, err, false);
    _exit((int)err->status);
}

void sw_launch_end(struct sw_launch *launch)
{
    (void)launch;
}

const char *sw_launch_mpi_version(char *buffer, int32_t buffer_bytes)
{
    snprintf(buffer, (size_t)buffer_bytes, "none");
    return buffer;
}

#endif
