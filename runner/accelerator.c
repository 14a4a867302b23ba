#include "runner/accelerator.h"

#include "runner/collective/comm.h"
#include "runner/collective/staged.h"
#ifdef SW_HAVE_CUDA
#include "runner/device/cuda/device.h"
#endif
#ifdef SW_HAVE_NCCL
#include "runner/collective/nccl.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SW_HAVE_CUDA
/* Launchers number the ranks of a node; without a number, ranks are dealt out in blocks. */
static int32_t local_rank(const struct sw_launch *launch)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID",
                                        "PMI_LOCAL_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = getenv(names[i]);
        if (text != NULL && *text != '\0')
            return (int32_t)atoi(text);
    }
    return launch->rank % launch->local_size;
}

static void print_note(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "rank 0: %s\n", text);
}

/* SW_CUDA_ATTENTION: cudnn (the default, where it is there) or own. */
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
    const int32_t count = sw_cuda_device_count(err);
    struct sw_device *device =
        count < 1 ? NULL : sw_cuda_device_create(local_rank(launch) % count, err);
    if (device == NULL)
        return NULL;
    if (own)
        sw_cuda_device_own_attention(device);
    if (launch->rank == 0) {
        char text[256], attention[256];
        fprintf(stderr, "rank 0 uses %s; attention: %s\n",
                sw_cuda_device_describe(device, text, sizeof text),
                sw_cuda_device_attention(device, attention, sizeof attention));
        sw_cuda_device_on_note(device, print_note, NULL);
    }
    return device;
}
#else
static struct sw_device *create_cuda(const struct sw_launch *launch, int32_t threads,
                                     struct sw_error *err)
{
    (void)launch;
    (void)threads;
    sw_fail(err, SW_ENVIRONMENT, "cuda devices are asked for, which this runner was built without");
    return NULL;
}
#endif

static struct sw_device *create_cpu(const struct sw_launch *launch, int32_t threads,
                                    struct sw_error *err)
{
    (void)launch;
    return sw_cpu_device_create(threads, err);
}

static int host_comm(const struct sw_launch *launch, const struct sw_mesh *mesh,
                     struct sw_device *device, double stall_seconds, struct sw_comm **out,
                     struct sw_error *err)
{
    (void)device;
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

/* nccl unless asked for staged; without NCCL in the build there is only staged. */
static int choose(bool *staged, struct sw_error *err)
{
    const char *wanted = getenv("SW_COLLECTIVES");
#ifdef SW_HAVE_NCCL
    *staged = false;
#else
    *staged = true;
#endif
    if (wanted == NULL || *wanted == '\0')
        return 0;
    if (strcmp(wanted, "staged") == 0) {
        *staged = true;
        return 0;
    }
    if (strcmp(wanted, "nccl") == 0 && !*staged)
        return 0;
    return sw_fail(err, SW_BAD_INPUT, "SW_COLLECTIVES is '%s'; this build knows %sstaged", wanted,
                   *staged ? "" : "nccl and ");
}

static int cuda_comm(const struct sw_launch *launch, const struct sw_mesh *mesh,
                     struct sw_device *device, double stall_seconds, struct sw_comm **out,
                     struct sw_error *err)
{
    bool staged = true;
    if (launch->size > 1 && choose(&staged, err) != 0)
        return -1;
    if (launch->size > 1 && launch->rank == 0)
        fprintf(stderr, "collectives: %s\n", staged ? "MPI, staged through host memory" : "NCCL");
#ifdef SW_HAVE_NCCL
    if (!staged)
        return sw_comm_nccl_create(mesh, sw_cuda_device_stream(device), stall_seconds, out, err);
#endif
    struct sw_comm *inner = NULL;
    if (host_comm(launch, mesh, device, stall_seconds, &inner, err) != 0)
        return -1;
    return sw_comm_staged_create(inner, device, out, err);
}

/* ---- The kinds; what prices know of them is in core/cost/device.c ---- */

static const struct {
    struct sw_device *(*create)(const struct sw_launch *launch, int32_t threads,
                                struct sw_error *err);
    int (*comm)(const struct sw_launch *launch, const struct sw_mesh *mesh,
                struct sw_device *device, double stall_seconds, struct sw_comm **out,
                struct sw_error *err);
} kinds[] = {
    [SW_DEVICE_CPU] = {create_cpu, host_comm}, [SW_DEVICE_CUDA] = {create_cuda, cuda_comm}};
_Static_assert(sizeof kinds / sizeof kinds[0] == SW_DEVICE_COUNT, "a row for each kind of device");

struct sw_device *sw_accelerator_device(const struct sw_launch *launch, enum sw_device_kind kind,
                                        int32_t threads, struct sw_error *err)
{
    return kinds[kind].create(launch, threads, err);
}

int sw_accelerator_comm(const struct sw_launch *launch, const struct sw_mesh *mesh,
                        struct sw_device *device, enum sw_device_kind kind, double stall_seconds,
                        struct sw_comm **out, struct sw_error *err)
{
    return kinds[kind].comm(launch, mesh, device, stall_seconds, out, err);
}

const char *sw_accelerator_versions(char *buffer, size_t buffer_bytes)
{
#ifdef SW_HAVE_CUDA
    sw_cuda_versions(buffer, buffer_bytes);
#ifdef SW_HAVE_NCCL
    const size_t used = strlen(buffer);
    snprintf(buffer + used, buffer_bytes - used, ", NCCL");
#endif
#else
    snprintf(buffer, buffer_bytes, "not in this build");
#endif
    return buffer;
}
