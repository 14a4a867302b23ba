/* Phrases about a job's end, at its limit or when a node is lost, for the head of its script. */
#ifndef SW_SLURM_LIFE_H
#define SW_SLURM_LIFE_H

#include "core/config/config.h"

enum { SW_LIFE_WORDS = 320 };

/* signal: of the script, sent by Slurm before the limit, NULL: none. Return buffer. */
const char *sw_slurm_at_limit(const struct sw_run_config *run, const char *signal,
                              char buffer[SW_LIFE_WORDS]);
const char *sw_slurm_lost_node(const struct sw_run_config *run, char buffer[SW_LIFE_WORDS]);

/* True if the job may lower its own limit: slurm.shrink_limit is set, and neither Slurm nor the run
 * restarts the job, since a requeued job keeps the lower limit. */
bool sw_slurm_may_shrink(const struct sw_run_config *run);

#endif
