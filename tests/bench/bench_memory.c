/* What the CPU device takes for an arena, beside one thread that zeroes as much memory.
 *
 *   bench_memory [GIB [THREADS]]
 *
 * Seconds, and GB/s; the best of five, in turn. */
#include "core/base/clock.h"
#include "runner/device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { REPEATS = 5, HUGE_PAGE_BYTES = 2 << 20 };

static double zeroed(size_t bytes)
{
    const double begin = sw_clock_now();
    char *memory = aligned_alloc(HUGE_PAGE_BYTES, bytes);
    if (memory == NULL)
        exit(3);
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 0, bytes);
    const double seconds = sw_clock_now() - begin;
    if (memory[bytes / 2] != 0) /* else a compiler takes calloc */
        exit(3);
    free(memory);
    return seconds;
}

static double allocated(struct sw_device *device, size_t bytes)
{
    const double begin = sw_clock_now();
    void *memory = device->vtable->allocate(device, bytes);
    if (memory == NULL)
        exit(3);
    const double seconds = sw_clock_now() - begin;
    device->vtable->release(device, memory);
    return seconds;
}

int main(int argc, char **argv)
{
    const size_t gib = argc > 1 ? strtoull(argv[1], NULL, 10) : 2;
    const int32_t threads = argc > 2 ? atoi(argv[2]) : 2;
    struct sw_error err = {0};
    struct sw_device *device = sw_cpu_device_create(threads, &err);
    if (gib < 1 || device == NULL) {
        fprintf(stderr, "bench_memory: %s\n", device == NULL ? err.message : "at least 1 GiB");
        return 2;
    }
    const size_t bytes = gib << 30;
    double one = 1e9, ours = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        const double a = zeroed(bytes), b = allocated(device, bytes);
        one = a < one ? a : one;
        ours = b < ours ? b : ours;
    }
    printf(
        "%zu GiB: one thread zeroes it in %.3f s (%.2f GB/s), the device's %d threads have it in "
        "%.3f s (%.2f GB/s), %.2f of it\n",
        gib, one, (double)bytes / one * 1e-9, (int)threads, ours, (double)bytes / ours * 1e-9,
        ours / one);
    device->vtable->destroy(device);
    return 0;
}
