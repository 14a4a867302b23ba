/* Checks that the ranks of a job have devices of one kind, as plans assume for prices and memory.
 * Owns nothing lasting. */
#ifndef SW_KINDS_H
#define SW_KINDS_H

#include "runner/device/device.h"
#include "runner/rank/launch.h"

/* A rank's record for the others. */
struct sw_rank_kind {
    char host[64];
    char kind[128]; /* "NVIDIA H200, compute 9.0, 140 GiB" */
};

/* Kind of a device; memory in whole GiB, since drivers reserve slightly different amounts. */
void sw_gpu_name(const struct sw_device_facts *facts, char kind[128]);

/* 0 if all of ranks[count] have one kind; else an error (SW_ENVIRONMENT) that names the ranks and
 * hosts of each kind, or the first rank with unknown kind "". Pure. */
int sw_gpus_compare(const struct sw_rank_kind *ranks, int32_t count, struct sw_error *err);

/* Collective over the launched ranks, each with its own device: fails on all ranks or none. Devices
 * without facts (CPUs) are of one kind. Errors (SW_ENVIRONMENT): several kinds; a device that does
 * not answer. */
int sw_gpus_check_alike(const struct sw_launch *launch, struct sw_device *device,
                        struct sw_error *err);

#endif
