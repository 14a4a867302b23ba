/* Which collectives a rank of each kind of device gets. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_rank_stages_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
