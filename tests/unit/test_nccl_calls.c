/* Collectives through NCCL (runner/collective/nccl.c), every rank a thread with an emulated GPU and
 * a stand-in for the library: results bit for bit, how many messages they take, and what a
 * recording takes. */
#include "core/base/clock.h"
#include "core/ir/messages.h"
#include "runner/collective/call.h"
#include "runner/device/cuda/device.h"
#include "tests/support/cuda_streams.h"
#include "tests/support/nccl_stand_in.h"
#include "tests/support/thread_job.h"
#include "tests/unit/collective_reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_RANKS = 8, CASES = 60 };

struct rank {
    struct sw_thread_rank job;
    struct sw_mesh mesh;
    struct sw_device *device;
    struct sw_comm *comm;
    int (*function)(struct rank *rank, struct sw_error *err);
    double stall_seconds;
    void *memory; /* on the device; NULL: none */
    pthread_t thread;
    struct sw_error err;
    int result;
};

static void *rank_main(void *argument)
{
    struct rank *r = argument;
    const struct sw_nccl_job job = sw_thread_job_of(&r->job);
    r->result = -1;
    r->device = sw_cuda_device_create(0, &r->err);
    if (r->device == NULL ||
        sw_comm_nccl_create(&r->mesh, &job, NULL, 0, sw_cuda_device_stream(r->device),
                            r->stall_seconds, &r->comm, &r->err) != 0)
        return NULL;
    /* the emulator's memory is the host's: all of it is the arena */
    r->result = r->comm->vtable->attach(r->comm, (void *)1, SIZE_MAX / 2, &r->err) != 0 ||
                        r->function(r, &r->err) != 0
                    ? -1
                    : 0;
    r->comm->vtable->destroy(r->comm);
    sw_emulated_stall(false); /* that ended it; the device's destructor waits for its stream */
    if (r->memory != NULL)
        r->device->vtable->release(r->device, r->memory);
    r->device->vtable->destroy(r->device);
    return NULL;
}

static void on_ranks_for(struct sw_mesh mesh, double stall_seconds,
                         int (*function)(struct rank *rank, struct sw_error *err))
{
    static struct rank ranks[MAX_RANKS];
    struct sw_thread_job job;
    const int32_t count = sw_mesh_rank_count(&mesh);
    sw_thread_job_init(&job, count);
    sw_nccl_counts_reset();
    for (int32_t i = 0; i < count; i++) {
        ranks[i] = (struct rank){
            .job = {&job, i}, .mesh = mesh, .function = function, .stall_seconds = stall_seconds};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (int32_t i = 0; i < count; i++)
        pthread_join(ranks[i].thread, NULL);
    sw_thread_job_free(&job);
    for (int32_t i = 0; i < count; i++)
        if (ranks[i].result != 0)
            fail_msg("rank %d: %s", (int)i, ranks[i].err.message);
}

static void on_ranks(struct sw_mesh mesh, int (*function)(struct rank *rank, struct sw_error *err))
{
    on_ranks_for(mesh, 60, function);
}

static int random_cases(struct rank *r, struct sw_error *err)
{
    struct reference_random random = {77};
    for (int i = 0; i < CASES; i++) {
        struct reference_run run;
        char text[256];
        const struct reference_case c = reference_case_random(&random, &r->mesh, i % 6 == 5);
        reference_case_format(&c, text, sizeof text);
        if (reference_begin(&run, r->comm, &c, err) != 0 || reference_end(&run, r->comm, err) != 0)
            return sw_fail_context(err, "%s", text);
    }
    const struct sw_axes ring = {2, {SW_FSDP, SW_SP}};
    return reference_ring(r->comm, ring, 1000, err) != 0 ||
                   reference_transfers(r->comm, 5, 3000, err) != 0
               ? -1
               : 0;
}

static void test_results(void **state)
{
    (void)state;
    on_ranks(sw_mesh_make(1, 2, 1, 2), random_cases);
    on_ranks(sw_mesh_make(2, 2, 2, 1), random_cases);
    on_ranks(sw_mesh_make(1, 3, 1, 1), random_cases);
}

/* Tables split by their columns, and heads exchanged for tokens: a thousand rows each. */
static int tables(struct rank *r, struct sw_error *err)
{
    const struct reference_case cases[] = {
        {SW_ALL_GATHER, {1, {SW_FSDP}}, SW_BF16_T, 1, 2, 1, 0, {1000, 6}, 1, false, 0, false, 1},
        {SW_REDUCE_SCATTER, {1, {SW_FSDP}}, SW_F32, 1, 2, 1, 0, {1003, 8}, 1, false, 0, false, 2},
        {SW_ALL_TO_ALL, {1, {SW_FSDP}}, SW_BF16_T, 1, 3, 1, 2, {2, 300, 8}, 1, false, 0, false, 3},
        {SW_ALL_TO_ALL, {1, {SW_FSDP}}, SW_F32, 1, 3, 2, 1, {3, 400, 2}, 1, false, 0, false, 4},
        {SW_ALL_GATHER, {1, {SW_FSDP}}, SW_F32, 1, 3, 1, 0, {70, 3, 5}, 1, false, 0, false, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reference_run run;
        if (reference_begin(&run, r->comm, &cases[i], err) != 0 ||
            reference_end(&run, r->comm, err) != 0)
            return sw_fail_context(err, "case %zu", i);
    }
    return 0;
}

static void test_messages(void **state)
{
    (void)state;
    on_ranks(sw_mesh_make(1, 4, 1, 1), tables);
    const struct sw_nccl_counts counts = sw_nccl_counts_get();
    assert_true(counts.most_messages <= SW_MESSAGES_FEW);
    assert_int_equal(counts.communicators, 4); /* fsdp is the world */
    assert_int_equal(counts.unshared, 0);
}

/* What a stream may not wait for while it is captured. */
static int captures(struct rank *r, struct sw_error *err)
{
    float *data = r->device->vtable->allocate(r->device, 4096);
    struct sw_collective_call call = {
        .axes = {1, {SW_FSDP}}, .dtype = SW_F32, .in[0] = data, .out[0] = data};
    const int64_t shape[1] = {16};
    uint64_t before, inside;
    struct sw_recording *recording = NULL;
    sw_collective_call_shape(&call, SW_ALL_REDUCE, 1, shape, 0, 0);
    int status = data != NULL && r->comm->vtable->start(r->comm, &call, &before, err) == 0 &&
                         r->device->vtable->record_begin(r->device, err) == 0
                     ? 0
                     : -1;
    /* a call from before: refused, and the recording with it */
    if (status == 0 && r->comm->vtable->wait(r->comm, before, err) == 0)
        status = sw_fail(err, SW_ENVIRONMENT, "a recording waits for what is not in it");
    if (status == 0 && r->device->vtable->record_end(r->device, &recording, err) == 0)
        status = sw_fail(err, SW_ENVIRONMENT, "a spoiled recording was taken");
    /* one that nobody waits for: refused at the end */
    if (status == 0)
        status = r->device->vtable->record_begin(r->device, NULL) |
                 r->comm->vtable->start(r->comm, &call, &inside, NULL);
    if (status == 0 && r->device->vtable->record_end(r->device, &recording, err) == 0)
        status = sw_fail(err, SW_ENVIRONMENT, "a recording was taken that leaves a call behind");
    /* as it should be */
    if (status == 0)
        status = r->device->vtable->record_begin(r->device, NULL) |
                 r->comm->vtable->start(r->comm, &call, &inside, NULL) |
                 r->comm->vtable->wait(r->comm, inside, NULL) |
                 r->device->vtable->record_end(r->device, &recording, err) |
                 r->device->vtable->replay(r->device, recording, err) |
                 r->device->vtable->replay(r->device, recording, err);
    if (recording != NULL)
        r->device->vtable->recording_free(r->device, recording);
    r->device->vtable->release(r->device, data);
    return status;
}

static void test_captures(void **state)
{
    (void)state;
    on_ranks(sw_mesh_make(1, 2, 1, 1), captures);
}

/* The arena is a window of every communicator that has peers, for as long as it is the arena; other
 * memory is none. */
static int registers(struct rank *r, struct sw_error *err)
{
    const struct sw_comm_vtable *v = r->comm->vtable;
    char *arena = v->allocate(r->comm, 1 << 20);
    uint64_t ticket; /* a call makes its communicator */
    int status = arena != NULL ? v->shift(r->comm, (struct sw_axes){1, {SW_FSDP}}, arena,
                                          arena + 4096, 4096, &ticket, err)
                               : -1;
    status = status == 0 ? v->attach(r->comm, arena, 1 << 20, err) : status;
    status = status == 0 ? v->barrier(r->comm, err) : status;
    if (status == 0 && sw_nccl_counts_get().open != 4 * 2) /* all ranks, and pairs over fsdp */
        status =
            sw_fail(err, SW_ENVIRONMENT, "%d windows are open", (int)sw_nccl_counts_get().open);
    status = v->barrier(r->comm, NULL) | status;
    status = v->attach(r->comm, NULL, 0, NULL) | status;
    v->release(r->comm, arena);
    return status;
}

static void test_windows(void **state)
{
    (void)state;
    on_ranks(sw_mesh_make(1, 2, 1, 2), registers);
    const struct sw_nccl_counts counts = sw_nccl_counts_get();
    assert_int_equal(counts.communicators, 8); /* those over fsdp are split from the first */
    assert_int_equal(counts.unshared, 0);
    assert_int_equal(counts.windows, 8);
    assert_int_equal(counts.open, 0);
}

/* After an error a communicator may never end by itself: it is aborted, not waited for. */
static int breaks(struct rank *r, struct sw_error *err)
{
    float *data = r->device->vtable->allocate(r->device, 4096);
    struct sw_collective_call call = {
        .axes = {1, {SW_FSDP}}, .dtype = SW_F32, .in[0] = data, .out[0] = data};
    const int64_t shape[1] = {16};
    uint64_t ticket;
    struct sw_error failed = {0};
    sw_collective_call_shape(&call, SW_ALL_REDUCE, 1, shape, 0, 0);
    int status = r->comm->vtable->start(r->comm, &call, &ticket, err);
    (void)r->comm->vtable->barrier(r->comm, err);
    sw_nccl_break();
    if (status == 0 && r->comm->vtable->start(r->comm, &call, &ticket, &failed) == 0)
        status = sw_fail(err, SW_ENVIRONMENT, "a call through a broken library succeeds");
    if (status == 0 && strstr(failed.message, "all_reduce over fsdp (member") == NULL)
        status = sw_fail(err, SW_ENVIRONMENT, "it fails with '%s'", failed.message);
    r->device->vtable->release(r->device, data);
    return status;
}

static void test_abort(void **state)
{
    (void)state;
    on_ranks(sw_mesh_make(1, 2, 1, 1), breaks);
    assert_int_equal(sw_nccl_counts_get().aborted, 2); /* one a rank: fsdp is the world */
}

/* The ranks ask each other something in the host's memory, as they do between steps. */
static int vote(struct rank *r, struct sw_error *err)
{
    float flags[2] = {1, 2};
    struct sw_collective_call call;
    const int64_t shape[1] = {2};
    uint64_t ticket;
    sw_collective_call_shape(&call, SW_ALL_REDUCE, 1, shape, 0, 0);
    call.axes = (struct sw_axes){1, {SW_FSDP}};
    call.dtype = SW_F32;
    call.in[0] = call.out[0] = flags;
    if (r->comm->vtable->start(r->comm, &call, &ticket, err) != 0 ||
        r->comm->vtable->wait(r->comm, ticket, err) != 0)
        return -1;
    return flags[0] == 2 && flags[1] == 4
               ? 0
               : sw_fail(err, SW_ENVIRONMENT, "a vote gave %g and %g", flags[0], flags[1]);
}

static int settle(struct rank *r, struct sw_error *err)
{
    return r->comm->vtable->settle(r->comm, err);
}

/* What stalled is waited for once, not again by whoever lets the arena go. */
static int stalls_in(struct rank *r, int (*wait)(struct rank *rank, struct sw_error *err),
                     struct sw_error *err)
{
    const struct sw_comm_vtable *v = r->comm->vtable;
    struct sw_error failed = {0};
    (void)v->barrier(r->comm, err); /* all are here: none waits for another one in what follows */
    sw_emulated_stall(true);
    int status =
        wait(r, &failed) == 0 ? sw_fail(err, SW_ENVIRONMENT, "what never ends was waited for") : 0;
    if (status == 0 && strstr(failed.message, "no end of a step's work for 1 s") == NULL)
        status = sw_fail(err, SW_ENVIRONMENT, "it fails with '%s'", failed.message);
    const double begun = sw_clock_now();
    if (status == 0 && v->attach(r->comm, NULL, 0, err) != 0)
        status = -1;
    if (status == 0 && sw_clock_now() - begun > 0.5)
        status = sw_fail(err, SW_ENVIRONMENT, "the stall was waited for once more");
    return status;
}

/* Nor by whoever lets a recording go, before the library may abort. */
static int stalls(struct rank *r, struct sw_error *err)
{
    const struct sw_device_vtable *device = r->device->vtable;
    struct sw_recording *recording = NULL;
    if (device->record_begin(r->device, err) != 0 ||
        device->record_end(r->device, &recording, err) != 0 ||
        device->replay(r->device, recording, err) != 0)
        return -1;
    const int status = stalls_in(r, settle, err);
    device->recording_free(r->device, recording);
    return status;
}

static int stalls_in_a_vote(struct rank *r, struct sw_error *err)
{
    /* no memory is the arena's any more */
    return r->comm->vtable->attach(r->comm, NULL, 0, err) != 0 || vote(r, err) != 0
               ? -1
               : stalls_in(r, vote, err);
}

static int follow(struct rank *r, struct sw_error *err)
{
    return r->comm->vtable->follow(r->comm, err);
}

/* Between micro-steps: what was queued since is not waited for, nor what is done. */
static int stalls_in_a_step(struct rank *r, struct sw_error *err)
{
    if (follow(r, err) != 0 || settle(r, err) != 0)
        return -1;
    r->memory = r->device->vtable->allocate(r->device, 64); /* zeroed when its turn comes */
    return r->memory == NULL || follow(r, err) != 0 ? -1 : stalls_in(r, follow, err);
}

static void test_stall(void **state)
{
    (void)state;
    on_ranks_for(sw_mesh_make(1, 2, 1, 1), 1, stalls);
    assert_int_equal(sw_nccl_counts_get().aborted, 2);
    on_ranks_for(sw_mesh_make(1, 2, 1, 1), 1, stalls_in_a_vote);
    assert_int_equal(sw_nccl_counts_get().aborted, 2);
    on_ranks_for(sw_mesh_make(1, 2, 1, 1), 1, stalls_in_a_step);
    assert_int_equal(sw_nccl_counts_get().aborted, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),  cmocka_unit_test(test_messages),
        cmocka_unit_test(test_captures), cmocka_unit_test(test_windows),
        cmocka_unit_test(test_abort),    cmocka_unit_test(test_stall)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
