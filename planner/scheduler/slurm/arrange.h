/* Order in which a job's nodes get ranks: block by block, or leaf switch by leaf switch. Slurm's
 * own order is by name, unless a site sets TopologyParam=BlockAsNodeRank (25.11) or
 * SwitchAsNodeRank. */
#ifndef SW_SCHEDULER_SLURM_ARRANGE_H
#define SW_SCHEDULER_SLURM_ARRANGE_H

#include "planner/scheduler/allocation.h"
#include "planner/scheduler/slurm/controller.h"

/* `arrange` of struct sw_allocation_ops. Asks the controller; without an answer the order stays. */
bool sw_slurm_arrange(const struct sw_allocation *job, struct sw_argv *nodes);
/* The same with the switches or blocks of these facts, in Slurm's order. Nodes in none come
 * last. */
bool sw_slurm_arrange_by(const struct sw_slurm_facts *facts, struct sw_argv *nodes);

#endif
