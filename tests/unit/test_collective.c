/* The communicators of threads and of one rank: every collective against a direct computation, many
 * calls at once, and what happens when a rank fails. */
#include "tests/unit/collective_reference.h"

#include "core/ir/workspace_collective.h"
#include "runner/collective/call.h"
#include "runner/collective/comm.h"
#include "runner/collective/queue.h"
#include "runner/collective/staged.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <cmocka.h>

enum { MAX_RANKS = 16, BATCH = 5, MANY = 150 };

/* What one rank does; uses up its communicator. */
typedef int (*rank_function)(struct sw_comm *comm, uint64_t seed, struct sw_error *err);

struct rank_thread {
    pthread_t thread;
    struct sw_comm *comm;
    rank_function function;
    uint64_t seed;
    int result;
    struct sw_error error;
};

static void *rank_main(void *argument)
{
    struct rank_thread *rank = argument;
    rank->result = rank->function(rank->comm, rank->seed, &rank->error);
    rank->comm->vtable->destroy(rank->comm);
    return NULL;
}

/* Runs the function on every rank of the mesh; ranks[] tells how each ended. Returns their number.
 */
static int32_t run_ranks(const struct sw_mesh *mesh, int64_t message_bytes, uint64_t seed,
                         rank_function function, struct rank_thread ranks[MAX_RANKS])
{
    struct sw_comm *comms[MAX_RANKS];
    struct sw_error error = {0};
    const int32_t count = sw_mesh_rank_count(mesh);
    assert_true(count <= MAX_RANKS);
    assert_int_equal(sw_comm_threads_create(mesh, comms, &error), 0);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(comms[i]->rank, i);
        assert_int_equal(comms[i]->size, count);
        if (message_bytes > 0)
            sw_queue_limit_messages(comms[i], message_bytes);
        ranks[i] = (struct rank_thread){.comm = comms[i], .function = function, .seed = seed};
    }
    for (int32_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    for (int32_t i = 0; i < count; i++)
        pthread_join(ranks[i].thread, NULL);
    return count;
}

static void expect_success(const struct sw_mesh *mesh, int64_t message_bytes, uint64_t seed,
                           rank_function function)
{
    struct rank_thread ranks[MAX_RANKS];
    const int32_t count = run_ranks(mesh, message_bytes, seed, function, ranks);
    for (int32_t i = 0; i < count; i++)
        if (ranks[i].result != 0)
            fail_msg("%s", ranks[i].error.message);
}

/* Batches of random cases under way at the same time, waited for last first. */
static int cases_of_size(struct sw_comm *comm, uint64_t seed, bool large, struct sw_error *err)
{
    struct reference_random random = {seed};
    for (int batch = 0; batch < 8; batch++) {
        struct reference_run runs[BATCH];
        int begun = 0, result = 0;
        for (int i = 0; i < BATCH && result == 0; i++) {
            const struct reference_case c =
                reference_case_random(&random, &comm->mesh, large && batch == 7 && i == 0);
            result = reference_begin(&runs[i], comm, &c, err);
            begun += result == 0;
        }
        while (begun-- > 0)
            if (reference_end(&runs[begun], comm, err) != 0)
                result = -1;
        if (result != 0)
            return -1;
    }
    return comm->vtable->barrier(comm, err);
}

/* More calls than the queue has room for, which nobody waits for yet: on some ranks none is handed
 * to the communication thread, on others every third. */
static int held_back(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    struct reference_random random = {seed};
    struct reference_run runs[MANY];
    int begun = 0, result = 0;
    for (int i = 0; i < MANY && result == 0; i++) {
        struct reference_case c = reference_case_random(&random, &comm->mesh, false);
        c.waited_next = comm->rank % 2 == 0 || i % 3 != 0;
        result = reference_begin(&runs[i], comm, &c, err);
        begun += result == 0;
    }
    for (int i = 0; i < begun; i++)
        if (reference_end(&runs[i], comm, err) != 0)
            result = -1;
    return result;
}

static void test_held_back(void **state)
{
    (void)state;
    const struct sw_mesh mesh = sw_mesh_make(1, 2, 1, 2);
    expect_success(&mesh, 0, 11, held_back);
}

static int small_cases(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    return cases_of_size(comm, seed, false, err);
}

static int random_cases(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    return cases_of_size(comm, seed, true, err);
}

static struct sw_mesh random_mesh(struct reference_random *random)
{
    struct sw_mesh mesh = sw_mesh_make(1, 1, 1, 1);
    for (int32_t left = 1 + reference_random_below(random, 12), factor = 2; left > 1;) {
        if (left % factor != 0) {
            factor++;
            continue;
        }
        mesh.size[reference_random_below(random, SW_AXIS_COUNT)] *= factor;
        left /= factor;
    }
    for (int i = SW_AXIS_COUNT - 1; i > 0; i--) {
        const int32_t j = reference_random_below(random, i + 1);
        const uint8_t axis = mesh.order[i];
        mesh.order[i] = mesh.order[j];
        mesh.order[j] = axis;
    }
    return mesh;
}

static void test_random_cases(void **state)
{
    (void)state;
    struct reference_random random = {2024};
    for (int round = 0; round < 24; round++) {
        const struct sw_mesh mesh = random_mesh(&random);
        expect_success(&mesh, 0, random.state, random_cases);
    }
}

static void test_random_cases_in_small_messages(void **state)
{
    (void)state;
    struct reference_random random = {77};
    for (int round = 0; round < 20; round++) {
        const struct sw_mesh mesh = random_mesh(&random);
        expect_success(&mesh, round % 2 ? 64 : 512, random.state, small_cases);
    }
}

/* Larger than the bounded workspace: packed, summed and coalesced in pieces of a slot. */
static int huge_cases(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    const struct sw_axes both = {2, {SW_FSDP, SW_SP}};
    static const struct reference_case cases[] = {
        {.kind = SW_REDUCE_SCATTER,
         .dtype = SW_BF16_T,
         .count = 1,
         .ndim = 2,
         .dim = 1,
         .stack = 1,
         .local = {3, 4 * 900001}},
        {.kind = SW_ALL_REDUCE,
         .dtype = SW_BF16_T,
         .count = 2,
         .ndim = 2,
         .stack = 1,
         .local = {3, 2000003},
         .in_place = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reference_case c = cases[i];
        struct reference_run run;
        c.axes = both;
        c.seed = seed;
        if (reference_begin(&run, comm, &c, err) != 0 || reference_end(&run, comm, err) != 0)
            return -1;
    }
    return 0;
}

static void test_larger_than_workspace(void **state)
{
    (void)state;
    const struct sw_mesh mesh = sw_mesh_make(1, 2, 1, 2);
    expect_success(&mesh, 0, 5, huge_cases);
}

static int rings(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    const struct sw_axes one = {1, {SW_SP}}, two = {2, {SW_SP, SW_TP}}, none = {0};
    (void)seed;
    if (reference_ring(comm, one, 1000, err) != 0 || reference_ring(comm, two, 777, err) != 0)
        return -1;
    return reference_ring(comm, none, 10, err);
}

static void test_ring(void **state)
{
    (void)state;
    const struct sw_mesh mesh = sw_mesh_make(1, 1, 2, 4), pair = sw_mesh_make(1, 2, 1, 2);
    expect_success(&mesh, 0, 0, rings);
    expect_success(&mesh, 128, 0, rings);
    expect_success(&pair, 0, 0, rings);
}

static int transfers(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    return reference_transfers(comm, seed, 300000, err);
}

static void test_transfers(void **state)
{
    (void)state;
    struct reference_random random = {4711};
    for (int round = 0; round < 16; round++) {
        const struct sw_mesh mesh = random_mesh(&random);
        expect_success(&mesh, 0, random.state, transfers);
        expect_success(&mesh, 1 << (6 + round % 8), random.state, transfers);
    }
}

/* Lengths that two ranks do not agree on; ranks that there are not; one's own letters. */
static int bad_transfers(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    static const struct {
        int32_t to, from;
        size_t sends, receives;
    } calls[] = {{1, 1, 4, 4}, {2, 0, 4, 0}, {0, -1, 0, 4}, {0, 0, 4, 3}};
    const int32_t other = 1 - comm->rank;
    unsigned char out[4] = {0}, in[4] = {0};
    uint64_t ticket = 0;
    const bool mismatch = seed == 0;
    if (comm->vtable->transfer(comm, mismatch ? other : calls[seed].to, out,
                               calls[seed].sends - (mismatch && comm->rank == 0),
                               mismatch ? other : calls[seed].from, in, calls[seed].receives,
                               &ticket, err) != 0)
        return -1;
    return comm->vtable->wait(comm, ticket, err);
}

static void test_bad_transfers(void **state)
{
    (void)state;
    struct rank_thread ranks[MAX_RANKS];
    const struct sw_mesh mesh = sw_mesh_make(2, 1, 1, 1);
    static const char *const messages[] = {
        NULL, "rank 0: transfer to rank 2: there is no rank 2, there are 2",
        "rank 0: transfer from rank -1: there is no rank -1, there are 2",
        "rank 0: transfer to rank 0, from rank 0: 4 bytes go to itself and 3 come from itself"};
    run_ranks(&mesh, 0, 0, bad_transfers, ranks);
    assert_int_equal(ranks[1].result, -1);
    assert_true(strcmp(ranks[1].error.message, "rank 1: transfer to rank 0, from rank 0: rank 0 "
                                               "sent 3 bytes instead of 4") == 0 ||
                strcmp(ranks[1].error.message,
                       "rank 1: transfer to rank 0, from rank 0: rank 0 has left") == 0);
    for (uint64_t i = 1; i < sizeof messages / sizeof *messages; i++) {
        run_ranks(&mesh, 0, i, bad_transfers, ranks);
        assert_int_equal(ranks[0].result, -1);
        assert_int_equal(ranks[0].error.status, SW_BAD_INPUT);
        assert_string_equal(ranks[0].error.message, messages[i]);
    }
}

static int copy_bytes(struct sw_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
    return 0;
}

/* From one place of the arena to another around all ranks, then from and to the host's memory. */
static int staged_transfers(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    unsigned char arena[4096], host[2][100];
    const int32_t next = (comm->rank + 1) % comm->size;
    const int32_t previous = (comm->rank + comm->size - 1) % comm->size;
    uint64_t ticket[2];
    memset(arena, 100 + comm->rank, sizeof arena);
    memset(host, 200 + comm->rank, sizeof host);
    const int32_t bytes = (int32_t)seed;
    if (comm->vtable->attach(comm, arena, sizeof arena, err) != 0 ||
        comm->vtable->transfer(comm, next, arena, (size_t)bytes, previous, arena + 2048,
                               (size_t)bytes, &ticket[0], err) != 0 ||
        comm->vtable->transfer(comm, previous, host[0], 100, next, host[1], 100, &ticket[1], err) !=
            0 ||
        comm->vtable->wait(comm, ticket[1], err) != 0)
        return -1;
    for (int32_t i = 0; i < 2048; i++)
        if (arena[2048 + i] != 100 + (i < bytes ? previous : comm->rank))
            return sw_fail(err, SW_UNMET, "rank %d: byte %d is %d", (int)comm->rank, (int)i,
                           arena[2048 + i]);
    if (host[1][0] != 200 + next || host[1][99] != 200 + next)
        return sw_fail(err, SW_UNMET, "rank %d: the host's bytes did not come", (int)comm->rank);
    return comm->vtable->attach(comm, NULL, 0, err);
}

static void *staged_main(void *argument)
{
    static const struct sw_device_vtable vtable = {.copy_in = copy_bytes, .copy_out = copy_bytes};
    struct sw_device device = {.vtable = &vtable};
    struct rank_thread *rank = argument;
    rank->result = sw_comm_staged_create(rank->comm, &device, &rank->comm, &rank->error);
    return rank->result == 0 ? rank_main(rank) : NULL;
}

static void run_staged(rank_function function, uint64_t seed)
{
    struct rank_thread ranks[3] = {{0}};
    struct sw_comm *comms[3];
    struct sw_error error = {0};
    const struct sw_mesh mesh = sw_mesh_make(3, 1, 1, 1);
    assert_int_equal(sw_comm_threads_create(&mesh, comms, &error), 0);
    for (int i = 0; i < 3; i++) {
        ranks[i] = (struct rank_thread){.comm = comms[i], .function = function, .seed = seed};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, staged_main, &ranks[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < 3; i++)
        if (ranks[i].result != 0)
            fail_msg("%s", ranks[i].error.message);
}

static void test_staged_transfer(void **state)
{
    (void)state;
    for (uint64_t bytes = 0; bytes <= 1000; bytes += 500)
        run_staged(staged_transfers, bytes);
}

/* Calls are in order: one may read what an earlier one writes without waiting for it. */
static int staged_chain(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    const int64_t shape[] = {3};
    _Alignas(16) unsigned char arena[4096] = {0};
    float *values = (float *)(arena + 1024);
    uint64_t ticket = 0;
    struct sw_collective_call call = {.axes = {1, {SW_DP}}, .dtype = SW_F32};
    sw_collective_call_shape(&call, SW_ALL_REDUCE, 1, shape, 0, 0);
    call.in[0] = call.out[0] = values;
    call.workspace = arena;
    const struct sw_collective_slots slots = sw_call_slots(&call, comm->size);
    if (slots.slots * slots.slot_bytes > 1024)
        return sw_fail(err, SW_UNMET, "workspace");
    if (comm->vtable->attach(comm, arena, sizeof arena, err) != 0)
        return -1;
    values[0] = 1;
    values[1] = 2;
    values[2] = -3;
    for (uint64_t i = 0; i < seed; i++) {
        if (comm->vtable->start(comm, &call, &ticket, err) != 0)
            return -1;
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); /* likely done by then */
    }
    if (comm->vtable->wait(comm, ticket, err) != 0)
        return -1;
    float power = 1;
    for (uint64_t i = 0; i < seed; i++)
        power *= 3;
    if (values[0] != power || values[1] != 2 * power || values[2] != -3 * power)
        return sw_fail(err, SW_UNMET, "%d sums of sums of three ranks: %g, not %g", (int)seed,
                       (double)values[0], (double)power);
    return comm->vtable->attach(comm, NULL, 0, err);
}

static void test_staged_chain(void **state)
{
    (void)state;
    for (uint64_t calls = 1; calls <= 12; calls += calls == 1 ? 1 : 10)
        run_staged(staged_chain, calls); /* 3^13 is exact in f32 */
}

/* More calls than the queue holds, none waited for but the last: sums that build on each other. */
static int many_calls(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    const int64_t shape[] = {3};
    unsigned char workspace[1024];
    float values[3] = {1, 2, 3};
    uint64_t ticket = 0;
    struct sw_collective_call call = {.axes = {1, {SW_DP}}, .dtype = SW_F32};
    (void)seed;
    sw_collective_call_shape(&call, SW_ALL_REDUCE, 1, shape, 0, 0);
    call.in[0] = call.out[0] = values;
    call.workspace = workspace;
    const struct sw_collective_slots slots = sw_call_slots(&call, comm->size);
    if (slots.slots * slots.slot_bytes > (int64_t)sizeof workspace)
        return sw_fail(err, SW_UNMET, "workspace");
    for (int i = 0; i < 100; i++)
        if (comm->vtable->start(comm, &call, &ticket, err) != 0)
            return -1;
    if (ticket != 100 || comm->vtable->wait(comm, ticket, err) != 0)
        return sw_fail(err, SW_UNMET, "ticket %d", (int)ticket);
    /* 2^100 is exact in f32. */
    if (values[0] != 0x1p100f || values[1] != 0x1p101f || values[2] != 3 * 0x1p100f)
        return sw_fail(err, SW_UNMET, "sum %g", (double)values[0]);
    return comm->vtable->wait(comm, 1, err); /* long done */
}

static void test_many_calls(void **state)
{
    (void)state;
    const struct sw_mesh mesh = sw_mesh_make(2, 1, 1, 1);
    expect_success(&mesh, 0, 0, many_calls);
}

static int start_sum(struct sw_comm *comm, struct sw_axes axes, int64_t elems, float *values,
                     void *workspace, uint64_t *ticket, struct sw_error *err)
{
    struct sw_collective_call call = {.axes = axes, .dtype = SW_F32};
    sw_collective_call_shape(&call, SW_ALL_REDUCE, 1, &elems, 0, 0);
    call.in[0] = call.out[0] = values;
    call.workspace = workspace;
    return comm->vtable->start(comm, &call, ticket, err);
}

/* Rank 2 takes part once and then gives up. */
static int one_gives_up(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    const struct sw_axes axes = {2, {SW_DP, SW_TP}};
    unsigned char workspace[1024];
    float values[4] = {1, 1, 1, 1};
    uint64_t first = 0, second = 0;
    struct sw_error late = {0};
    (void)seed;
    if (start_sum(comm, axes, 4, values, workspace, &first, err) != 0)
        return -1;
    if (comm->rank == 2)
        return comm->vtable->wait(comm, first, err);
    if (start_sum(comm, axes, 4, values, workspace, &second, err) != 0)
        return -1;
    if (comm->vtable->wait(comm, first, err) != 0)
        return -1;
    (void)comm->vtable->wait(comm, second, err);
    /* The first error stays. */
    if (comm->vtable->barrier(comm, &late) == 0 || strcmp(late.message, err->message) != 0)
        return sw_fail_context(err, "rank %d: later: '%s'", (int)comm->rank, late.message);
    return comm->vtable->wait(comm, first, err) == 0 ? -1 : 0;
}

static void test_rank_that_gives_up(void **state)
{
    (void)state;
    struct rank_thread ranks[MAX_RANKS];
    const struct sw_mesh mesh = sw_mesh_make(2, 1, 2, 1);
    for (int round = 0; round < 50; round++) {
        assert_int_equal(run_ranks(&mesh, 0, 0, one_gives_up, ranks), 4);
        assert_int_equal(ranks[2].result, 0);
        bool named = false;
        for (int i = 0; i < 4; i++) {
            if (i == 2)
                continue;
            char prefix[64];
            snprintf(prefix, sizeof prefix, "rank %d: all_reduce over dp,tp: rank ", i);
            assert_int_equal(ranks[i].result, -1);
            assert_int_equal(ranks[i].error.status, SW_ENVIRONMENT);
            assert_memory_equal(ranks[i].error.message, prefix, strlen(prefix));
            assert_non_null(strstr(ranks[i].error.message, " has left"));
            named = named || strstr(ranks[i].error.message, ": rank 2 has left") != NULL;
        }
        assert_true(named); /* whoever noticed first */
    }
}

/* Rank 1's tensor is larger than rank 0's: a program that differs between ranks. */
static int sizes_differ(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    const struct sw_axes axes = {1, {SW_SP}};
    unsigned char workspace[1024];
    float values[4] = {1, 1, 1, 1};
    uint64_t ticket = 0;
    (void)seed;
    if (start_sum(comm, axes, 2 + comm->rank, values, workspace, &ticket, err) != 0)
        return -1;
    return comm->vtable->wait(comm, ticket, err);
}

static void test_sizes_differ(void **state)
{
    (void)state;
    struct rank_thread ranks[MAX_RANKS];
    const struct sw_mesh mesh = sw_mesh_make(1, 1, 1, 2);
    assert_int_equal(run_ranks(&mesh, 0, 0, sizes_differ, ranks), 2);
    const bool first =
        strcmp(ranks[0].error.message, "rank 0: all_reduce over sp: rank 1 sent 12 bytes "
                                       "instead of 8") == 0;
    const bool second =
        strcmp(ranks[1].error.message, "rank 1: all_reduce over sp: rank 0 sent 8 bytes "
                                       "instead of 12") == 0;
    assert_int_equal(ranks[0].result, -1);
    assert_int_equal(ranks[1].result, -1);
    assert_true(first || second); /* the slower of the two may only see that the other left */
}

/* Mistakes of the caller, each on a fresh communicator. */
static int does_not_divide(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    const int64_t shape[] = {3, 2};
    float values[6] = {0}, sums[6] = {0};
    unsigned char workspace[1024];
    uint64_t ticket = 0;
    struct sw_collective_call call = {
        .axes = {1, {SW_FSDP}}, .dtype = SW_F32, .in = {values}, .out = {sums}};
    sw_collective_call_shape(&call, seed == 1 ? SW_ALL_REDUCE : SW_REDUCE_SCATTER, 2, shape, 0, 0);
    if (seed == 0)
        call.workspace = workspace;
    if (seed == 2)
        call.count = 2;
    if (seed == 3)
        call.dtype = SW_I8;
    if (comm->vtable->start(comm, &call, &ticket, err) != 0)
        return -1;
    return comm->vtable->wait(comm, ticket, err);
}

static int unknown_ticket(struct sw_comm *comm, uint64_t seed, struct sw_error *err)
{
    (void)seed;
    return comm->vtable->wait(comm, 7, err);
}

static void test_callers_mistakes(void **state)
{
    (void)state;
    struct rank_thread ranks[MAX_RANKS];
    const struct sw_mesh mesh = sw_mesh_make(1, 2, 1, 1);
    static const char *const messages[] = {
        "rank 1: reduce_scatter over fsdp: size 3 is not divisible by the group of 2",
        "rank 1: all_reduce over fsdp: no workspace, it needs 64 bytes",
        "rank 1: reduce_scatter over fsdp: 2 operands, it takes 1 to 1",
        "rank 1: reduce_scatter over fsdp: i8 is moved, not summed"};
    for (uint64_t i = 0; i < 4; i++) {
        run_ranks(&mesh, 0, i, does_not_divide, ranks);
        assert_int_equal(ranks[1].result, -1);
        assert_int_equal(ranks[1].error.status, SW_BAD_INPUT);
        assert_string_equal(ranks[1].error.message, messages[i]);
    }
    run_ranks(&mesh, 0, 0, unknown_ticket, ranks);
    assert_string_equal(ranks[0].error.message, "rank 0: ticket 7 was never given out");
}

static void test_single(void **state)
{
    (void)state;
    struct sw_comm *comm = NULL;
    struct sw_error error = {0};
    assert_int_equal(sw_comm_single_create(&comm, &error), 0);
    assert_int_equal(comm->size, 1);
    assert_int_equal(random_cases(comm, 3, &error), 0);
    assert_int_equal(rings(comm, 0, &error), 0);
    assert_int_equal(transfers(comm, 8, &error), 0);
    assert_int_equal(comm->vtable->wait(comm, 1u << 30, &error), -1);
    assert_string_equal(error.message, "rank 0: ticket 1073741824 was never given out");
    comm->vtable->destroy(comm);
}

/* The arena's share: what layout plans, for shapes whose need can be counted by hand. */
static void test_workspace(void **state)
{
    (void)state;
    /* [512, 64] f32 over 4: dimension 0 needs no packing, dimension 1 a slot for each of 3 blocks
     * of 128 KiB. */
    struct sw_collective_slots s = sw_collective_slots(SW_ALL_GATHER, 4, 512 * 64, 4, false, false);
    assert_int_equal(s.slots, 0);
    s = sw_collective_slots(SW_ALL_GATHER, 4, 512 * 64, 4, false, true);
    assert_int_equal(s.slots * s.slot_bytes, 3 * 128 * 1024);
    s = sw_collective_slots(SW_REDUCE_SCATTER, 4, 512 * 64, 4, false, false);
    assert_int_equal(s.slots * s.slot_bytes, 3 * 32 * 1024);
    s = sw_collective_slots(SW_ALL_REDUCE, 4, 512 * 64, 4, false, false);
    assert_int_equal(s.slots * s.slot_bytes, 3 * 32 * 1024);
    s = sw_collective_slots(SW_ALL_REDUCE, 4, 1, 4, false, false);
    assert_int_equal(s.slots * s.slot_bytes, 3 * 64);
    /* A gigabyte passes through the bounded workspace; nothing moves in a group of one. */
    s = sw_collective_slots(SW_ALL_TO_ALL, 8, 1 << 28, 4, true, true);
    assert_true(s.slots * s.slot_bytes <= SW_COLLECTIVE_WORKSPACE_MAX && s.slots == 14);
    s = sw_collective_slots(SW_ALL_TO_ALL, 1, 1 << 28, 4, true, true);
    assert_int_equal(s.slots, 0);
}

static void test_sum_rounds_to_nearest_even(void **state)
{
    (void)state;
    /* bf16 1 + 2^-8 is half way between 1 and 1 + 2^-7; 1 + 2^-7 + 2^-8 half way to the next, even
     * one. */
    const uint16_t one = 0x3f80, odd = 0x3f81, half = 0x3b80, infinity = 0x7f80, minus = 0xff80;
    uint16_t sum;
    sw_sum(SW_BF16_T, &sum, (const void *[]){&one, &half}, 2, 1);
    assert_int_equal(sum, one);
    sw_sum(SW_BF16_T, &sum, (const void *[]){&odd, &half}, 2, 1);
    assert_int_equal(sum, 0x3f82);
    /* Rounded once, at the end: 1 + 2^-8 + 2^-8. */
    sw_sum(SW_BF16_T, &sum, (const void *[]){&one, &half, &half}, 3, 1);
    assert_int_equal(sum, odd);
    sw_sum(SW_BF16_T, &sum, (const void *[]){&infinity, &one}, 2, 1);
    assert_int_equal(sum, infinity);
    sw_sum(SW_BF16_T, &sum, (const void *[]){&infinity, &minus}, 2, 1);
    assert_true((sum & 0x7f80) == 0x7f80 && (sum & 0x7f) != 0); /* NaN */
}

#ifdef __linux__
/* A thread's turn on a core, of Linux's sched_attr; 0: the kernel has none, or no such thread. */
static uint64_t turn_ns(int thread)
{
    uint64_t attributes[6] = {0}; /* the fourth: sched_runtime */
    return syscall(SYS_sched_getattr, thread, attributes, sizeof attributes, 0) == 0 ? attributes[3]
                                                                                     : 0;
}

static int32_t count_short_turns(void)
{
    int32_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        const uint64_t turn = turn_ns(atoi(task->d_name));
        count += task->d_name[0] != '.' && turn > 0 && turn < turn_ns(0);
    }
    closedir(tasks);
    return count;
}

static void do_nothing(struct sw_transport *transport)
{
    (void)transport;
}

/* A communication thread wakes into the turn of a thread that computes, where messages come over a
 * network. */
static void test_short_turns(void **state)
{
    (void)state;
    const struct timespec moment = {0, 1000000};
    const struct sw_transport_vtable vtable = {.leave = do_nothing, .destroy = do_nothing};
    const struct sw_mesh mesh = sw_mesh_make(1, 1, 1, 1);
    struct sw_error err = {0};
    if (turn_ns(0) == 0)
        skip();
    for (int32_t network = 1; network >= 0; network--) {
        struct sw_transport transport = {.vtable = &vtable, .network = network == 1};
        struct sw_comm *comm = NULL;
        assert_int_equal(sw_queue_create(&mesh, 0, 1, &transport, &comm, &err), 0);
        for (int i = 0; i < (network == 1 ? 10000 : 20) && count_short_turns() < 1; i++)
            nanosleep(&moment, NULL);
        assert_int_equal(count_short_turns(), network);
        comm->vtable->destroy(comm);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_cases),
        cmocka_unit_test(test_held_back),
        cmocka_unit_test(test_random_cases_in_small_messages),
        cmocka_unit_test(test_larger_than_workspace),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_bad_transfers),
        cmocka_unit_test(test_staged_transfer),
        cmocka_unit_test(test_staged_chain),
        cmocka_unit_test(test_many_calls),
        cmocka_unit_test(test_rank_that_gives_up),
        cmocka_unit_test(test_sizes_differ),
        cmocka_unit_test(test_callers_mistakes),
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_sum_rounds_to_nearest_even),
#ifdef __linux__
        cmocka_unit_test(test_short_turns),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
