/* One kind of device in a job: what is said when there are more.
 *
 *   test_kinds                   the messages
 *   mpirun -np N test_kinds mpi  the ranks of a job with stand-ins for GPUs; the exit code is 0
 * when every rank got the answer that it should */
#include "runner/rank/gpu_kinds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const struct sw_device_facts h200 = {
    .name = "NVIDIA H200", .major = 9, .minor = 0, .units = 132, .memory_bytes = 150120103936};

static void fill(struct sw_rank_kind *ranks, int32_t first, int32_t end, const char *host,
                 const char *kind)
{
    for (int32_t r = first; r < end; r++) {
        snprintf(ranks[r].host, sizeof ranks[r].host, "%s", host);
        snprintf(ranks[r].kind, sizeof ranks[r].kind, "%s", kind);
    }
}

static void a_kind_is_a_name_a_generation_and_memory(void **state)
{
    char kind[128], other[128];
    struct sw_device_facts facts = h200;
    (void)state;
    sw_gpu_name(&facts, kind);
    assert_string_equal(kind, "NVIDIA H200, compute 9.0, 140 GiB");
    facts.memory_bytes -= 40 << 20; /* another driver keeps more */
    sw_gpu_name(&facts, other);
    assert_string_equal(other, kind);
    facts.memory_bytes /= 2; /* a slice of one */
    sw_gpu_name(&facts, other);
    assert_string_equal(other, "NVIDIA H200, compute 9.0, 70 GiB");
}

static void one_kind_is_fine(void **state)
{
    struct sw_rank_kind ranks[3];
    struct sw_error err = {0};
    (void)state;
    fill(ranks, 0, 1, "n1", "H200");
    fill(ranks, 1, 3, "n2", "H200");
    assert_int_equal(sw_gpus_compare(ranks, 1, &err), 0);
    assert_int_equal(sw_gpus_compare(ranks, 3, &err), 0);
    assert_string_equal(err.message, "");
}

#define BEFORE "the job's GPUs are not of one kind, which a plan is for: "
#define AFTER "; start it on nodes of one kind (Slurm: --constraint, --gres)"

static void several_are_named_with_ranks_and_hosts(void **state)
{
    struct sw_rank_kind ranks[8];
    struct sw_error err = {0};
    (void)state;
    fill(ranks, 0, 4, "n1", "H200");
    fill(ranks, 4, 7, "n2", "A100");
    fill(ranks, 7, 8, "n2", "H200");
    assert_int_equal(sw_gpus_compare(ranks, 8, &err), -1);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_string_equal(err.message,
                        BEFORE "ranks 0-3, 7 on n1, n2: H200; ranks 4-6 on n2: A100" AFTER);
    fill(ranks, 1, 8, "n2", "A100");
    err = (struct sw_error){0};
    assert_int_equal(sw_gpus_compare(ranks, 8, &err), -1);
    assert_string_equal(err.message, BEFORE "rank 0 on n1: H200; ranks 1-7 on n2: A100" AFTER);
}

static void a_long_list_is_cut_and_keeps_its_end(void **state)
{
    enum { RANKS = 64 };
    struct sw_rank_kind ranks[RANKS];
    struct sw_error err = {0};
    char host[64], kind[128];
    (void)state;
    for (int32_t r = 0; r < RANKS; r++) {
        snprintf(host, sizeof host, "n%d", (int)r);
        fill(ranks, r, r + 1, host, r % 2 == 0 ? "H200" : "A100");
    }
    assert_int_equal(sw_gpus_compare(ranks, RANKS, &err), -1);
    assert_string_equal(err.message,
                        BEFORE "ranks 0, 2, 4, 6 and more on n0, n2, n4 and more: H200; "
                               "ranks 1, 3, 5, 7 and more on n1, n3, n5 and more: A100" AFTER);
    for (int32_t r = 0; r < RANKS; r++) {
        snprintf(kind, sizeof kind, "%0120d", (int)r);
        snprintf(host, sizeof host, "%060d", (int)r);
        fill(ranks, r, r + 1, host, kind);
    }
    err = (struct sw_error){0};
    assert_int_equal(sw_gpus_compare(ranks, RANKS, &err), -1);
    assert_non_null(strstr(err.message, AFTER));
}

static void a_rank_that_cannot_tell_is_named(void **state)
{
    struct sw_rank_kind ranks[3];
    struct sw_error err = {0};
    (void)state;
    fill(ranks, 0, 3, "n1", "H200");
    ranks[2].kind[0] = '\0';
    assert_int_equal(sw_gpus_compare(ranks, 3, &err), -1);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_string_equal(err.message, "the GPU of rank 2 on n1 does not answer");
}

/* ---- As ranks of a job ---- */

struct stand_in {
    struct sw_device base;
    struct sw_device_facts facts;
};

static int tell(struct sw_device *device, struct sw_device_facts *out, struct sw_error *err)
{
    const struct stand_in *d = (const struct stand_in *)device;
    if (d->facts.units == 0)
        return sw_fail(err, SW_ENVIRONMENT, "it fell off the bus");
    *out = d->facts;
    return 0;
}

static int expect(const struct sw_launch *launch, struct sw_device *device, const char *message)
{
    struct sw_error err = {0};
    const int status = sw_gpus_check_alike(launch, device, &err);
    if (status == (*message == '\0' ? 0 : -1) && strcmp(err.message, message) == 0)
        return 0;
    fprintf(stderr, "rank %d got %d '%s', not '%s'\n", (int)launch->rank, status, err.message,
            message);
    return 1;
}

/* The last rank fails, and the others because of it: what they agree on is its error. */
static int blame(const struct sw_launch *launch)
{
    const bool last = launch->rank == launch->size - 1;
    struct sw_error err = {.culprit = last ? 0 : launch->size};
    (void)sw_fail(&err, last ? SW_UNMET : SW_ENVIRONMENT, last ? "mine" : "another's");
    const enum sw_status status = sw_launch_agree(launch, &err);
    if (status != SW_UNMET)
        fprintf(stderr, "rank %d agrees on %d\n", (int)launch->rank, (int)status);
    return status != SW_UNMET;
}

static int run_job(void)
{
    const struct sw_device_vtable silent = {.name = "cpu"},
                                  telling = {.name = "gpu", .facts = tell};
    struct stand_in device = {.base = {.vtable = &silent}, .facts = h200};
    struct sw_launch launch;
    struct sw_error err = {0};
    char message[1024];
    int wrong = 0;
    if (sw_launch_begin(&launch, &err) != 0 || launch.size < 3) {
        fprintf(stderr, "three ranks are needed: %s\n", err.message);
        return 1;
    }
    wrong += expect(&launch, &device.base, "");
    device.base.vtable = &telling;
    wrong += expect(&launch, &device.base, "");
    const bool last = launch.rank == launch.size - 1;
    device.facts.memory_bytes = last ? 80LL << 30 : h200.memory_bytes;
    snprintf(message, sizeof message,
             BEFORE "ranks 0-%d on %s: NVIDIA H200, compute 9.0, 140 GiB; rank %d on %s: NVIDIA "
                    "H200, compute 9.0, 80 GiB" AFTER,
             (int)launch.size - 2, launch.host, (int)launch.size - 1, launch.host);
    wrong += expect(&launch, &device.base, message);
    device.facts.units = last ? 0 : h200.units;
    snprintf(message, sizeof message, "the GPU of rank %d on %s does not answer",
             (int)launch.size - 1, launch.host);
    wrong += expect(&launch, &device.base, last ? "it fell off the bus" : message);
    wrong += blame(&launch);
    sw_launch_end(&launch);
    return wrong == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "mpi") == 0)
        return run_job();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kind_is_a_name_a_generation_and_memory),
        cmocka_unit_test(one_kind_is_fine),
        cmocka_unit_test(several_are_named_with_ranks_and_hosts),
        cmocka_unit_test(a_long_list_is_cut_and_keeps_its_end),
        cmocka_unit_test(a_rank_that_cannot_tell_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
