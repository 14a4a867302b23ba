/* Requests to Slurm about node placement, for its row of scheduler.h. */
#ifndef SW_SCHEDULER_SLURM_PLACE_H
#define SW_SCHEDULER_SLURM_PLACE_H

#include "planner/scheduler/scheduler.h"

/* `place` of struct sw_scheduler. */
void sw_slurm_place(struct sw_cluster_config *cluster, struct sw_node_request *placement);

#endif
