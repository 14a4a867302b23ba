/* The CPU device's memory: zeros where others wrote before, sizes around a page and a huge page,
 * and a stop behind the end. */
#include "runner/device/cpu/cpu.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static const size_t sizes[] = {0,
                               1,
                               4095,
                               4096,
                               4097,
                               (2 << 20) - 1,
                               2 << 20,
                               (2 << 20) + 1,
                               (6 << 20) - 4096,
                               (9 << 20) + 5000};

static struct sw_device *device_of(int32_t threads)
{
    struct sw_error err = {0};
    struct sw_device *device = sw_cpu_device_create(threads, &err);
    assert_non_null(device);
    return device;
}

static void memory_is_zeroed_and_aligned(void **state)
{
    (void)state;
    for (int32_t threads = 1; threads <= 4; threads += 3) {
        struct sw_device *device = device_of(threads);
        for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
            const size_t bytes = sizes[i / 2]; /* twice: the second is likely to be the first's */
            unsigned char *memory = device->vtable->allocate(device, bytes);
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % (bytes < 2 << 20 ? 4096 : 2 << 20), 0);
            for (size_t at = 0; at < bytes; at++)
                if (memory[at] != 0)
                    fail_msg("byte %zu of %zu is %d", at, bytes, memory[at]);
            memset(memory, 0xa5, bytes);
            device->vtable->release(device, memory);
        }
        device->vtable->release(device, NULL);
        device->vtable->destroy(device);
    }
}

static void a_write_behind_the_end_stops(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct sw_device *device = device_of(1);
    for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++) {
        char *memory = device->vtable->allocate(device, sizes[i]);
        assert_non_null(memory);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            const struct rlimit none = {0};
            (void)setrlimit(RLIMIT_CORE, &none);
            (void)signal(SIGSEGV, SIG_DFL);
            ((volatile char *)memory)[(sizes[i] + page - 1) / page * page] = 1;
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSEGV);
        device->vtable->release(device, memory);
    }
    device->vtable->destroy(device);
}

static void what_no_machine_has_is_refused(void **state)
{
    (void)state;
    struct sw_device *device = device_of(1);
    assert_null(device->vtable->allocate(device, SIZE_MAX));
    assert_null(device->vtable->allocate(device, (size_t)1 << 60));
    device->vtable->destroy(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(a_write_behind_the_end_stops),
        cmocka_unit_test(what_no_machine_has_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
