/* Whether the ranks of a job have devices of one kind: a plan, its prices and its memory are those
 * of one. Owns nothing that lasts. */
#ifndef SW_KINDS_H
#define SW_KINDS_H

#include "runner/device/device.h"
#include "runner/rank/launch.h"

/* What one rank tells the others. */
struct sw_rank_kind {
    char host[64];
    char kind[128]; /* "NVIDIA H200, compute 9.0, 140 GiB" */
};

/* The kind of a device; memory in whole GiB, of which drivers keep different small parts. */
void sw_gpu_name(const struct sw_device_facts *facts, char kind[128]);

/* 0 when all of ranks[count] have the same kind; else an error (SW_ENVIRONMENT) that names the
 * ranks and hosts of each kind, or the first rank whose kind is "": it could not tell. Pure. */
int sw_gpus_compare(const struct sw_rank_kind *ranks, int32_t count, struct sw_error *err);

/* Collective over the launched ranks, each with its own device: fails on every rank or on none.
 * Devices that have no facts (CPUs) are of one kind. Errors (SW_ENVIRONMENT): several kinds; a
 * device that does not answer. */
int sw_gpus_check_alike(const struct sw_launch *launch, struct sw_device *device,
                        struct sw_error *err);

#endif
