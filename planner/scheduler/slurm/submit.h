/* sbatch, and what a script says of its job. As scheduler.h has it. */
#ifndef SW_SCHEDULER_SLURM_SUBMIT_H
#define SW_SCHEDULER_SLURM_SUBMIT_H

#include "planner/scheduler/scheduler.h"

void sw_slurm_read_script(const char *script, const char *folder, struct sw_job_script *out);
enum sw_submitted sw_slurm_submit(const char *script, const char *token, const char *folder,
                                  char *id, int32_t id_bytes, struct sw_error *err);

/* The number of what sbatch --parsable prints, "42" or "42;cluster", in its last line. Returns 0,
 * or -1: there is none. */
int sw_sbatch_parse_id(const char *text, char *out, int32_t bytes);

#endif
