/* Where a job's nodes are, against what its plan was priced with. Pure but for the price. */
#ifndef SW_PREFLIGHT_LANDING_H
#define SW_PREFLIGHT_LANDING_H

#include "core/config/config.h"
#include "core/ir/op.h"

/* Block or leaf switch of a node by Slurm's SLURM_TOPOLOGY_ADDR and SLURM_TOPOLOGY_ADDR_PATTERN,
 * each of which may be NULL; cut short if need be, "": it is not told. Returns buffer. */
const char *sw_landing_block(const char *address, const char *pattern, char *buffer, size_t bytes);
/* Neighbouring nodes that the price takes to share a block or a leaf switch: what the innermost
 * link that joins nodes spans. 0: none does, or it joins parts of nodes. */
int32_t sw_landing_predicted(const struct sw_cluster_config *cluster);
/* Neighbouring nodes that really do: the largest part of `priced` of which each stretch of the job
 * lies in one group, the last perhaps shorter. group[nodes]: of each node, in the order of ranks.
 */
int32_t sw_landing_found(const int32_t *group, int32_t nodes, int32_t priced);
/* Seconds of a step where so many nodes do. Errors: as sw_cost_price. */
int sw_landing_seconds(const struct sw_program *program, const struct sw_cluster_config *cluster,
                       int32_t priced, int32_t found, double *seconds, struct sw_error *err);

#endif
