/* Location of a job's nodes, against the one its plan was priced with. Pure but for the price. */
#ifndef SW_PREFLIGHT_LANDING_H
#define SW_PREFLIGHT_LANDING_H

#include "core/config/config.h"
#include "core/ir/op.h"

/* Block or leaf switch of a node from Slurm's SLURM_TOPOLOGY_ADDR and SLURM_TOPOLOGY_ADDR_PATTERN
 * (either may be NULL), truncated if too long; "": unknown. Returns buffer. */
const char *sw_landing_block(const char *address, const char *pattern, char *buffer, size_t bytes);
/* Number of neighbouring nodes priced as sharing a block or leaf switch: the span of the innermost
 * link between nodes. 0: no such link, or it joins parts of nodes. */
int32_t sw_landing_predicted(const struct sw_cluster_config *cluster);
/* Number of neighbouring nodes that really share one: the largest divisor of `priced` whose
 * stretches of the job each lie in one group; the last may be shorter. group[nodes]: in rank
 * order. */
int32_t sw_landing_found(const int32_t *group, int32_t nodes, int32_t priced);
/* Seconds of a step with `found` instead of `priced` nodes. Errors: see sw_cost_price. */
int sw_landing_seconds(const struct sw_program *program, const struct sw_cluster_config *cluster,
                       int32_t priced, int32_t found, double *seconds, struct sw_error *err);

#endif
