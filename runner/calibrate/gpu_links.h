/* Link rates between GPUs with the production collectives (NCCL) on device memory, as plain calls
 * in a row: they are queued on the device, so no host thread delays them; batches are timed with
 * the wait for the device at their end.
 *
 * Counts latencies and shares as core/cost/links.c prices them. Owns nothing lasting. */
#ifndef SW_CALIBRATE_GPU_LINKS_H
#define SW_CALIBRATE_GPU_LINKS_H

#include "runner/calibrate/links.h"
#include "runner/device/device.h"

/* A level of the job's mesh: dp over nodes, tp over the ranks of a node. */
struct sw_gpu_level {
    int32_t parts;          /* domains it joins: ranks of a node, or nodes; > 1 */
    int32_t members;        /* ranks per domain if it joins nodes; 0: the level inside nodes */
    bool direct;            /* true for MPI's collectives through host memory, false for NCCL's */
    double inner_latency_s; /* the latency inside nodes, if any: priced apart */
};

/* Number of steps with latency in a collective on a level. */
double sw_gpu_link_steps(const struct sw_gpu_level *level, enum sw_collective kind);

/* Share of a rank's sent bytes in a collective over all ranks that crosses its own port between
 * nodes: rings use all ports, direct messages their sender's. */
double sw_gpu_link_share(const struct sw_gpu_level *level, enum sw_collective kind);

/* True if a rank's message uses only its own port (rails). ports: number of ports that one rank's
 * message used while no other rank sent. */
bool sw_gpu_link_rails(const struct sw_gpu_level *level, double ports);

/* Collective over all ranks of `comm`, each with its device; same arguments, same figures. Takes
 * about `seconds`, more on a slow link, and up to three times 512 MB of device memory. Errors: the
 * device's, the collectives'; memory. */
int sw_gpu_link(struct sw_device *device, struct sw_comm *comm, const struct sw_gpu_level *level,
                double seconds, struct sw_link_rates *out, struct sw_error *err);

#endif
