/* Which collectives a rank of each kind of device gets, and which GPU. */
#include "runner/rank/accelerator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

/* One rank has nobody to send to: no copy of its arena, which may be larger than the host's memory.
 */
static void test_one_rank_stages_nothing(void **state)
{
    (void)state;
    const struct sw_launch launch = {.size = 1, .local_size = 1};
    const struct sw_mesh mesh = sw_mesh_make(1, 1, 1, 1);
    struct sw_error err = {0};
    struct sw_device *device = sw_cpu_device_create(1, &err);
    assert_non_null(device);
    for (int kind = 0; kind < SW_DEVICE_COUNT; kind++) {
        struct sw_comm *comm = NULL;
        if (sw_accelerator_comm(&launch, &mesh, NULL, 0, device, (enum sw_device_kind)kind, 60,
                                &comm, &err) != 0)
            fail_msg("%s", err.message);
        assert_int_equal(comm->size, 1);
        if (comm->vtable->attach != NULL && /* of more than any address */
            comm->vtable->attach(comm, (void *)4096, (size_t)1 << 62, &err) != 0)
            fail_msg("%s", err.message);
        comm->vtable->destroy(comm);
    }
    device->vtable->destroy(device);
}

/* Ranks dealt out in turns to two nodes: 1, 3, 5 and 7 are on the second. */
static void test_gpus_of_a_node(void **state)
{
    (void)state;
    static const char *const numbers[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID",
                                          "PMI_LOCAL_RANK"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        (void)unsetenv(numbers[i]);
    struct sw_launch launch = {.size = 8, .local_size = 4, .mpi = true};
    for (launch.local_rank = 0; launch.local_rank < 4; launch.local_rank++) {
        launch.rank = 2 * launch.local_rank + 1;
        assert_int_equal(sw_accelerator_gpu(&launch, 4), launch.local_rank);
        assert_int_equal(sw_accelerator_gpu(&launch, 1), 0); /* each sees its own alone */
        /* of the one task of the batch job that started mpiexec, which starts them all */
        assert_int_equal(setenv("SLURM_LOCALID", "0", 1), 0);
        assert_int_equal(sw_accelerator_gpu(&launch, 4), launch.local_rank);
        (void)unsetenv("SLURM_LOCALID");
    }
    /* each in a container that looks like a node to MPI; the launcher knows better */
    launch = (struct sw_launch){.rank = 3, .size = 8, .local_size = 1, .mpi = true};
    assert_int_equal(setenv("SLURM_LOCALID", "3", 1), 0);
    assert_int_equal(sw_accelerator_gpu(&launch, 4), 3);
    (void)unsetenv("SLURM_LOCALID");
    assert_int_equal(sw_accelerator_gpu(&launch, 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_rank_stages_nothing),
                                       cmocka_unit_test(test_gpus_of_a_node)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
