/* sbatch, and the job settings in a script. See scheduler.h. */
#ifndef SW_SCHEDULER_SLURM_SUBMIT_H
#define SW_SCHEDULER_SLURM_SUBMIT_H

#include "planner/scheduler/scheduler.h"

void sw_slurm_read_script(const char *script, const char *folder, struct sw_job_script *out);
enum sw_submitted sw_slurm_submit(const char *script, const char *token, const char *folder,
                                  char *id, int32_t id_bytes, struct sw_error *err);

/* The number in the last line of sbatch --parsable's output, "42" or "42;cluster". Returns 0, or
 * -1: none. */
int sw_sbatch_parse_id(const char *text, char *out, int32_t bytes);

#endif
