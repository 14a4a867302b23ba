#include "core/cost/device.h"

/* GPUs: compute beside a collective, which takes multiprocessors, memory bandwidth and power from
 * it, is 18.9 % slower on average over A100, H100, MI210 and MI250 (Lee et al. 2025,
 * arXiv:2507.03114). CPUs: not told. To the host: what pinned copies reach over PCIe 4.0 x16, 25 of
 * 32 GB/s, an estimate; newer ones have twice that. */
static const struct sw_device_row rows[] = {
    [SW_DEVICE_CPU] = {.adds_apart = true},
    [SW_DEVICE_CUDA] = {.contention = 0.19,
                        .host_bandwidth = 25e9,
                        .tiled = true,
                        .allocated = true},
};
_Static_assert(sizeof rows / sizeof rows[0] == SW_DEVICE_COUNT, "a row for each kind of device");

const struct sw_device_row *sw_device_row(enum sw_device_kind kind)
{
    return &rows[kind];
}
