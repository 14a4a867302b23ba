/* Words of srun's command that follow from a run's settings, for a script that people read and for
 * `plan supervise`: container.c. */
#ifndef SW_SCHEDULER_SLURM_RANKS_H
#define SW_SCHEDULER_SLURM_RANKS_H

#include "core/config/config.h"
#include "planner/command/argv.h"

/* True if the ranks run inside an image. */
bool sw_slurm_has_container(const struct sw_run_config *run);
/* Adds srun's options (bindings, pyxis' container, slurm.srun_options) to options, and the words
 * before the runner (apptainer or singularity, with every folder that the run needs) to prefix.
 * plan, runner: absolute paths. Errors: SW_BAD_INPUT: a folder cannot be mounted; SW_ENVIRONMENT:
 * memory. */
int sw_slurm_rank_words(const struct sw_run_config *run, const char *plan, const char *runner,
                        struct sw_argv *options, struct sw_argv *prefix, struct sw_error *err);

#endif
