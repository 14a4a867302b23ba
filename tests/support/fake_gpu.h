/* A device that computes nothing and keeps time instead: every op takes a launch, and what its
 * flops and bytes take at fixed rates; marks take some themselves. Queues, records and replays as
 * the CUDA device does. Its memory is addresses that nobody may look at. */
#ifndef SW_TEST_FAKE_GPU_H
#define SW_TEST_FAKE_GPU_H

#include "runner/device/device.h"

struct sw_fake_gpu {
    struct sw_device base;
    struct sw_device_vtable table;
    /* seconds, flops per second (of bf16 and fp32 operands), bytes per second */
    double launch_s, mark_s, bf16_flops, fp32_flops, bandwidth;
    int64_t memory_bytes, used_bytes;
    int64_t most_bytes; /* in use at once, so far */
    int32_t arenas;     /* allocated so far */
    double clock_s, passed_s[4096];
    int32_t mark_count;
    struct sw_recording *recording; /* that is being made */
};

/* An H200 of even rates; the caller may change them. It stays where it is. */
void sw_fake_gpu_init(struct sw_fake_gpu *gpu);

#endif
