/* What the links between GPUs reach, measured with the production collectives (NCCL) on device
 * memory, plain calls in a row: they are queued on the device, so no thread of the host is late to
 * them, and what is timed is a batch with the wait for the device at its end.
 *
 * Latencies and shares are counted as core/cost/links.c prices them. Owns nothing that lasts. */
#ifndef SW_CALIBRATE_GPU_LINKS_H
#define SW_CALIBRATE_GPU_LINKS_H

#include "runner/calibrate/links.h"
#include "runner/device/device.h"

/* A level of the job's mesh, which is dp over nodes and tp over the ranks of a node. */
struct sw_gpu_level {
    int32_t parts;   /* domains that it joins: ranks of a node, or nodes; > 1 */
    int32_t members; /* ranks of a domain where it joins nodes; 0: it is the level inside nodes */
    bool direct;     /* as MPI's collectives through host memory go; NCCL's do not */
    double inner_latency_s; /* of the level inside nodes, where there is one: priced apart */
};

/* Steps whose latency a collective adds up on a level. */
double sw_gpu_link_steps(const struct sw_gpu_level *level, enum sw_collective kind);

/* The share of what a rank sends in a collective over everyone that crosses its own port of the
 * links between nodes: rings go over all ports, direct messages each over its sender's. */
double sw_gpu_link_share(const struct sw_gpu_level *level, enum sw_collective kind);

/* Whether the ports of a node's ranks are their own, from how many of them one message used that
 * only one rank sent. */
bool sw_gpu_link_rails(const struct sw_gpu_level *level, double ports);

/* Collective over all ranks of `comm`, each with its device: same arguments, same figures. Takes
 * about `seconds`, more on a slow link, and device memory of about three times 512 MB, or what
 * there is. Errors: the device's, the collectives'; memory. */
int sw_gpu_link(struct sw_device *device, struct sw_comm *comm, const struct sw_gpu_level *level,
                double seconds, struct sw_link_rates *out, struct sw_error *err);

#endif
