#include "runner/rank/accelerator.h"

#include "runner/collective/comm.h"
#include "runner/collective/nccl.h"
#include "runner/collective/staged.h"
#include "runner/rank/cuda_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Local rank. The launcher's number wins if MPI takes each rank for its own node, as in containers;
 * else MPI's does: the environment may be from an outer launcher. */
static int32_t local_rank(const struct sw_launch *launch)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID",
                                        "PMI_LOCAL_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && launch->local_size == 1; i++) {
        const char *text = getenv(names[i]);
        if (text != NULL && *text != '\0')
            return (int32_t)atoi(text);
    }
    return launch->local_rank;
}

int32_t sw_accelerator_gpu(const struct sw_launch *launch, int32_t count)
{
    return local_rank(launch) % count;
}

static void print_note(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "rank 0: %s\n", text);
}

/* Reads SW_CUDA_ATTENTION: cudnn (default if present) or own. */
static int choose_attention(bool *own, struct sw_error *err)
{
    const char *wanted = getenv("SW_CUDA_ATTENTION");
    *own = wanted != NULL && strcmp(wanted, "own") == 0;
    if (wanted == NULL || *wanted == '\0' || *own || strcmp(wanted, "cudnn") == 0)
        return 0;
    return sw_fail(err, SW_BAD_INPUT, "SW_CUDA_ATTENTION is '%s'; it may be cudnn or own", wanted);
}

static struct sw_device *create_cuda(const struct sw_launch *launch, int32_t threads,
                                     struct sw_error *err)
{
    (void)threads;
    bool own;
    if (choose_attention(&own, err) != 0)
        return NULL;
    const struct sw_cuda_module *cuda = sw_cuda_module_load(err);
    if (cuda == NULL)
        return NULL;
    const int32_t count = cuda->device_count(err);
    struct sw_device *device =
        count < 1 ? NULL : cuda->device_create(sw_accelerator_gpu(launch, count), err);
    if (device == NULL)
        return NULL;
    if (own)
        cuda->own_attention(device);
    if (launch->rank == 0) {
        char text[256], attention[256];
        fprintf(stderr, "rank 0 uses %s; attention: %s\n",
                cuda->describe(device, text, sizeof text),
                cuda->attention(device, attention, sizeof attention));
        cuda->on_note(device, print_note, NULL);
    }
    return device;
}

static struct sw_device *create_cpu(const struct sw_launch *launch, int32_t threads,
                                    struct sw_error *err)
{
    (void)launch;
    return sw_cpu_device_create(threads, err);
}

int sw_accelerator_host_comm(const struct sw_launch *launch, const struct sw_mesh *mesh,
                             double stall_seconds, struct sw_comm **out, struct sw_error *err)
{
    (void)stall_seconds; /* without MPI */
    if (launch->size == 1)
        return sw_comm_single_create(out, err);
#ifdef SW_HAVE_MPI
    const struct sw_axes every = {SW_AXIS_COUNT, {SW_DP, SW_FSDP, SW_TP, SW_SP}};
    return sw_comm_mpi_create(mesh, &every, 1, stall_seconds, out, err);
#else
    (void)mesh;
    return sw_fail(err, SW_ENVIRONMENT, "this runner was built without MPI and runs one rank only");
#endif
}

/* NCCL unless staged is requested or the build lacks NCCL. */
static int choose(bool have_nccl, bool *staged, struct sw_error *err)
{
    const char *wanted = getenv("SW_COLLECTIVES");
    *staged = !have_nccl;
    if (wanted == NULL || *wanted == '\0')
        return 0;
    if (strcmp(wanted, "staged") == 0) {
        *staged = true;
        return 0;
    }
    if (strcmp(wanted, "nccl") == 0 && have_nccl)
        return 0;
    return sw_fail(err, SW_BAD_INPUT, "SW_COLLECTIVES is '%s'; this build knows %sstaged", wanted,
                   have_nccl ? "nccl and " : "");
}

static int job_broadcast(void *launch, void *data, size_t bytes)
{
    sw_launch_broadcast(launch, data, bytes);
    return 0;
}

static int32_t job_agree(void *launch, bool mine)
{
    const struct sw_launch *l = launch;
    const int64_t from_end = sw_launch_max(l, mine ? 0 : l->size - l->rank);
    return from_end == 0 ? -1 : l->size - (int32_t)from_end;
}

static int job_barrier(void *launch)
{
    (void)sw_launch_max(launch, 0);
    return 0;
}

/* Sets NCCL's variables for this program before it starts, unless the user set them. */
static void set_up_nccl(void)
{
    (void)setenv("NCCL_RUNTIME_CONNECT", "0", 0);      /* allocate at the start, not in a step */
    (void)setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 0); /* no call runs beside a recording */
}

static int cuda_comm(const struct sw_launch *launch, const struct sw_mesh *mesh,
                     const struct sw_axes *groups, int32_t group_count, struct sw_device *device,
                     double stall_seconds, struct sw_comm **out, struct sw_error *err)
{
    bool staged = true;
    if (launch->size == 1)
        return sw_accelerator_host_comm(launch, mesh, stall_seconds, out, err);
    const struct sw_cuda_module *cuda = sw_cuda_module_load(err);
    if (cuda == NULL || choose(cuda->nccl_create != NULL, &staged, err) != 0)
        return -1;
    if (launch->rank == 0)
        fprintf(stderr, "collectives: %s\n", staged ? "MPI, staged through host memory" : "NCCL");
    if (!staged) {
        const struct sw_nccl_job job = {.rank = launch->rank,
                                        .context = (void *)(uintptr_t)launch,
                                        .broadcast = job_broadcast,
                                        .agree = job_agree,
                                        .barrier = job_barrier};
        set_up_nccl();
        return cuda->nccl_create(mesh, &job, groups, group_count, cuda->stream(device),
                                 stall_seconds, out, err);
    }
    struct sw_comm *inner = NULL;
    if (sw_accelerator_host_comm(launch, mesh, stall_seconds, &inner, err) != 0)
        return -1;
    return sw_comm_staged_create(inner, device, out, err);
}

/* ---- The kinds; what is known of them before is in core/base/device.c ---- */

static const struct {
    struct sw_device *(*create)(const struct sw_launch *launch, int32_t threads,
                                struct sw_error *err);
    /* NULL: the host's communicator */
    int (*comm)(const struct sw_launch *launch, const struct sw_mesh *mesh,
                const struct sw_axes *groups, int32_t group_count, struct sw_device *device,
                double stall_seconds, struct sw_comm **out, struct sw_error *err);
} kinds[] = {[SW_DEVICE_CPU] = {create_cpu, NULL}, [SW_DEVICE_CUDA] = {create_cuda, cuda_comm}};
_Static_assert(sizeof kinds / sizeof kinds[0] == SW_DEVICE_COUNT, "a row for each kind of device");

struct sw_device *sw_accelerator_device(const struct sw_launch *launch, enum sw_device_kind kind,
                                        int32_t threads, struct sw_error *err)
{
    return kinds[kind].create(launch, threads, err);
}

int sw_accelerator_comm(const struct sw_launch *launch, const struct sw_mesh *mesh,
                        const struct sw_axes *groups, int32_t group_count, struct sw_device *device,
                        enum sw_device_kind kind, double stall_seconds, struct sw_comm **out,
                        struct sw_error *err)
{
    if (kinds[kind].comm == NULL)
        return sw_accelerator_host_comm(launch, mesh, stall_seconds, out, err);
    return kinds[kind].comm(launch, mesh, groups, group_count, device, stall_seconds, out, err);
}

const char *sw_accelerator_versions(char *buffer, size_t buffer_bytes)
{
    struct sw_error err = {0};
    const struct sw_cuda_module *cuda = sw_cuda_module_load(&err);
    if (cuda == NULL) {
        snprintf(buffer, buffer_bytes, "none (%s)", err.message);
        return buffer;
    }
    cuda->versions(buffer, buffer_bytes);
    const size_t used = strlen(buffer);
    if (cuda->nccl_create != NULL)
        snprintf(buffer + used, buffer_bytes - used, ", NCCL");
    return buffer;
}
