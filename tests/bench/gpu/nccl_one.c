/* What NCCL does with one rank on one GPU: every kind of call eager, recorded and replayed; what a
 * recording refuses; the arena's registration; memory of each communicator. Several GPUs it cannot
 * replace: nothing travels.
 *
 *   nccl_one      Markdown; exit code 0, 1 when something differs, 77 without a GPU */
#include "core/base/clock.h"
#include "runner/collective/call.h"
#include "runner/collective/nccl.h"
#include "runner/device/cuda/device.h"

#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMS = 1 << 20, HALF = ELEMS / 2, REPLAYS = 3, SPLITS = 3 };

static const struct sw_axes every = {SW_AXIS_COUNT, {SW_DP, SW_FSDP, SW_TP, SW_SP}};

struct one {
    struct sw_device *device;
    struct sw_comm *comm;
    float *arena; /* [ELEMS]: what is sent, then what is received; [ELEMS] of workspace */
    int wrong;
};

static int broadcast(void *context, void *data, size_t bytes)
{
    (void)context;
    (void)data;
    (void)bytes;
    return 0;
}

static int32_t agree(void *context, bool mine)
{
    (void)context;
    return mine ? -1 : 0;
}

static int barrier(void *context)
{
    (void)context;
    return 0;
}

static void say(struct one *o, bool good, const char *what, const struct sw_error *err)
{
    printf("- %s: %s%s%s\n", good ? "ok" : "FAIL", what, good ? "" : ": ",
           good ? "" : err->message);
    o->wrong += !good;
}

/* ---- Calls ---- */

enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, SHIFT, TRANSFER, KINDS };
static const char *const names[KINDS] = {"all_reduce", "all_gather", "reduce_scatter",
                                         "all_to_all", "shift",      "transfer"};

/* Starts it and waits: half the buffer comes as it was in the other half. */
static int call(struct one *o, enum kind kind, struct sw_error *err)
{
    static const enum sw_collective collectives[] = {SW_ALL_REDUCE, SW_ALL_GATHER,
                                                     SW_REDUCE_SCATTER, SW_ALL_TO_ALL};
    const struct sw_comm_vtable *v = o->comm->vtable;
    float *to = o->arena + HALF;
    uint64_t ticket = 0;
    int status;
    if (kind == SHIFT) {
        status = v->shift(o->comm, every, o->arena, to, HALF * sizeof *to, &ticket, err);
    } else if (kind == TRANSFER) {
        status = v->transfer(o->comm, 0, o->arena, HALF * sizeof *to, 0, to, HALF * sizeof *to,
                             &ticket, err);
    } else {
        const int64_t shape[2] = {512, HALF / 512};
        struct sw_collective_call c = {.axes = every,
                                       .dtype = SW_F32,
                                       .in[0] = o->arena,
                                       .out[0] = to,
                                       .workspace = o->arena + ELEMS};
        sw_collective_call_shape(&c, collectives[kind], 2, shape, 0, kind == ALL_TO_ALL ? 1 : 0);
        status = v->start(o->comm, &c, &ticket, err);
    }
    return status == 0 ? v->wait(o->comm, ticket, err) : -1;
}

static int fill(struct one *o, float *host, float first, struct sw_error *err)
{
    for (int i = 0; i < ELEMS; i++)
        host[i] = i < HALF ? first + (float)(i % 1000) : -1;
    return o->device->vtable->copy_in(o->device, o->arena, host, ELEMS * sizeof *host) == 0
               ? 0
               : sw_fail(err, SW_ENVIRONMENT, "cannot copy to the GPU");
}

static int compare(struct one *o, float *host, float first, struct sw_error *err)
{
    if (o->comm->vtable->settle(o->comm, err) != 0 ||
        o->device->vtable->copy_out(o->device, host, o->arena, ELEMS * sizeof *host) != 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot copy from the GPU");
    for (int i = 0; i < HALF; i++)
        if (host[HALF + i] != first + (float)(i % 1000))
            return sw_fail(err, SW_ENVIRONMENT, "element %d is %g, not %g", i, host[HALF + i],
                           first + (float)(i % 1000));
    return 0;
}

static void check_eager(struct one *o, float *host)
{
    for (int k = 0; k < KINDS; k++) {
        struct sw_error err = {0};
        char what[64];
        const bool good = fill(o, host, (float)k, &err) == 0 && call(o, (enum kind)k, &err) == 0 &&
                          compare(o, host, (float)k, &err) == 0;
        snprintf(what, sizeof what, "%s, eager", names[k]);
        say(o, good, what, &err);
    }
}

/* All kinds in one recording, replayed on other data each time. */
static void check_recorded(struct one *o, float *host)
{
    struct sw_error err = {0};
    struct sw_recording *recording = NULL;
    int status = o->device->vtable->record_begin(o->device, &err);
    for (int k = 0; k < KINDS && status == 0; k++)
        status = call(o, (enum kind)k, &err);
    if (o->device->vtable->record_end(o->device, &recording, &err) != 0)
        status = -1;
    say(o, status == 0, "every kind of call is taken into a recording", &err);
    for (int r = 0; r < REPLAYS && status == 0; r++) {
        char what[64];
        const double begun = sw_clock_now();
        status = fill(o, host, 100.0f * (float)r, &err) != 0 ||
                         o->device->vtable->replay(o->device, recording, &err) != 0 ||
                         compare(o, host, 100.0f * (float)r, &err) != 0
                     ? -1
                     : 0;
        snprintf(what, sizeof what, "replay %d, %.1f ms with its copies", r + 1,
                 1e3 * (sw_clock_now() - begun));
        say(o, status == 0, what, &err);
    }
    if (recording != NULL)
        o->device->vtable->recording_free(o->device, recording);
}

/* A recording must not wait for what is not in it: CUDA refuses (cudaErrorStreamCaptureIsolation),
 * and goes on afterwards. */
static void check_isolation(struct one *o, float *host)
{
    struct sw_error err = {0}, refused = {0}, ended = {0};
    struct sw_recording *recording = NULL;
    const struct sw_comm_vtable *v = o->comm->vtable;
    uint64_t before = 0;
    char what[400];
    int status = v->shift(o->comm, every, o->arena, o->arena + HALF, 4096, &before, &err);
    status = status == 0 ? o->device->vtable->record_begin(o->device, &err) : status;
    const int waited = status == 0 ? v->wait(o->comm, before, &refused) : -1;
    const int taken =
        status == 0 ? o->device->vtable->record_end(o->device, &recording, &ended) : -1;
    if (recording != NULL)
        o->device->vtable->recording_free(o->device, recording);
    snprintf(what, sizeof what, "a wait for an earlier call spoils a recording (%.300s)",
             waited != 0 ? refused.message : ended.message);
    if (status == 0 && waited == 0 && taken == 0)
        (void)sw_fail(&err, SW_ENVIRONMENT, "it was taken");
    say(o, status == 0 && (waited != 0 || taken != 0), what, &err);
    err = (struct sw_error){0};
    say(o,
        fill(o, host, 7, &err) == 0 && call(o, ALL_REDUCE, &err) == 0 &&
            compare(o, host, 7, &err) == 0,
        "calls go on after a spoiled recording", &err);
}

/* ---- Memory ---- */

static double free_mib(struct one *o)
{
    return (double)o->device->vtable->free_bytes(o->device) / (1 << 20);
}

/* Whether the arena can be a window, which the collectives of several ranks use without copies. */
static void check_window(struct one *o, ncclComm_t world)
{
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    struct sw_error err = {0};
    ncclWindow_t window = NULL;
    ncclResult_t code = ncclCommWindowRegister(world, o->arena, 2 * ELEMS * sizeof *o->arena,
                                               &window, NCCL_WIN_COLL_SYMMETRIC);
    const bool opened = window != NULL;
    if (code == ncclSuccess && opened)
        code = ncclCommWindowDeregister(world, window);
    if (code != ncclSuccess)
        (void)sw_fail(&err, SW_ENVIRONMENT, "%s", ncclGetErrorString(code));
    say(o, code == ncclSuccess,
        opened ? "the arena is a symmetric window" : "no symmetric windows here; calls go without",
        &err);
#else
    (void)o;
    (void)world;
#endif
}

static void check_memory(struct one *o)
{
    ncclUniqueId id;
    ncclComm_t world = NULL, comm[2 * SPLITS] = {NULL};
    int version = 0;
    struct sw_error err = {0};
    ncclResult_t code = ncclGetVersion(&version);
    printf(
        "\nNCCL %d.%d.%d, built against %d.%d.%d. MiB of the GPU that a communicator of one rank "
        "takes:\n\n| communicator | MiB |\n| --- | --- |\n",
        version / 10000, version / 100 % 100, version % 100, NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
    double before = free_mib(o);
    code = code == ncclSuccess ? ncclGetUniqueId(&id) : code;
    code = code == ncclSuccess ? ncclCommInitRank(&world, 1, id, 0) : code;
    printf("| the first | %.0f |\n", before - free_mib(o));
    for (int i = 0; i < 2 * SPLITS && code == ncclSuccess; i++) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.splitShare = i >= SPLITS;
        before = free_mib(o);
        code = ncclCommSplit(world, 0, 0, &comm[i], &config);
        printf("| split %d, %s | %.0f |\n", i % SPLITS + 1,
               i >= SPLITS ? "resources shared" : "resources of its own", before - free_mib(o));
    }
    puts("");
    if (code == ncclSuccess)
        check_window(o, world);
    for (int i = 2 * SPLITS - 1; i >= 0; i--)
        if (comm[i] != NULL)
            (void)ncclCommDestroy(comm[i]);
    if (world != NULL)
        (void)ncclCommDestroy(world);
    if (code != ncclSuccess)
        (void)sw_fail(&err, SW_ENVIRONMENT, "%s", ncclGetErrorString(code));
    say(o, code == ncclSuccess, "communicators are made and ended", &err);
}

/* ---- */

static int open_all(struct one *o, struct sw_error *err)
{
    const struct sw_mesh mesh = sw_mesh_make(1, 1, 1, 1);
    const struct sw_nccl_job job = {
        .rank = 0, .context = NULL, .broadcast = broadcast, .agree = agree, .barrier = barrier};
    if (sw_comm_nccl_create(&mesh, &job, &every, 1, sw_cuda_device_stream(o->device), 30, &o->comm,
                            err) != 0)
        return -1;
    o->arena = o->comm->vtable->allocate(o->comm, 2 * ELEMS * sizeof *o->arena);
    if (o->arena == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "ncclMemAlloc gives no memory");
    return o->comm->vtable->attach(o->comm, o->arena, 2 * ELEMS * sizeof *o->arena, err);
}

int main(void)
{
    struct one o = {.device = NULL};
    struct sw_error err = {0};
    float *host = malloc(ELEMS * sizeof *host);
    o.device = sw_cuda_device_create(0, &err);
    if (o.device == NULL || host == NULL) {
        printf("SKIP: no GPU: %s\n", err.message);
        free(host);
        return 77;
    }
    const bool open = open_all(&o, &err) == 0;
    say(&o, open, "a communicator of one rank, its arena from ncclMemAlloc and attached", &err);
    if (open) {
        check_eager(&o, host);
        check_recorded(&o, host);
        check_isolation(&o, host);
        check_memory(&o);
        err = (struct sw_error){0};
        say(&o, o.comm->vtable->attach(o.comm, NULL, 0, &err) == 0, "the arena is let go", &err);
    }
    if (o.arena != NULL)
        o.comm->vtable->release(o.comm, o.arena);
    if (o.comm != NULL)
        o.comm->vtable->destroy(o.comm);
    o.device->vtable->destroy(o.device);
    free(host);
    return o.wrong != 0;
}
