/* A device that computes nothing and counts time: every op takes a launch plus its flops and bytes
 * at fixed rates; marks take time too. Queues, records and replays like the CUDA device. Its memory
 * is addresses that must not be accessed. */
#ifndef SW_TEST_FAKE_GPU_H
#define SW_TEST_FAKE_GPU_H

#include "runner/device/device.h"

struct sw_fake_gpu {
    struct sw_device base;
    struct sw_device_vtable table;
    /* seconds, flops per second (of bf16 and fp32 operands), bytes per second */
    double launch_s, mark_s, bf16_flops, fp32_flops, bandwidth;
    int64_t memory_bytes, used_bytes;
    int64_t most_bytes; /* peak in use */
    int32_t arenas;     /* number of allocations */
    double clock_s, passed_s[4096];
    int32_t mark_count;
    struct sw_recording *recording; /* being recorded */
};

/* Initialises an H200 with even rates, which the caller may change. Must not be moved. */
void sw_fake_gpu_init(struct sw_fake_gpu *gpu);

#endif
