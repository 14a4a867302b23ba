/* Shared by the files of Slurm's settings. */
#ifndef SW_SCHEDULER_SLURM_INTERNAL_SETTINGS_H
#define SW_SCHEDULER_SLURM_INTERNAL_SETTINGS_H

#include "core/config/internal.h"
#include "planner/scheduler/slurm/settings.h"

/* checks.c: true if Slurm accepts a value */
bool sw_text_is_slurm_constraint(const char *text);
bool sw_text_is_slurm_nodes(const char *text);
bool sw_text_is_slurm_time(const char *text);
bool sw_text_is_slurm_switches(const char *text);
bool sw_text_is_slurm_gpus(const char *text);
bool sw_text_is_slurm_gres(const char *text);
bool sw_text_is_slurm_memory(const char *text);
bool sw_text_is_slurm_version(const char *text);
bool sw_text_is_slurm_cpu_bind(const char *text);
bool sw_text_is_slurm_gpu_bind(const char *text);
bool sw_text_is_slurm_dependency(const char *text);
bool sw_text_is_slurm_begin(const char *text);
bool sw_text_is_slurm_mail(const char *text);
bool sw_text_is_slurm_signal(const char *text);
bool sw_text_is_slurm_log(const char *text);
bool sw_text_is_slurm_mpi(const char *text);
bool sw_text_is_mail_address(const char *text);
/* 2311 of "23.11.4"; NULL: 0 */
int32_t sw_slurm_release(const char *text);

/* tables.c */
extern const struct field sw_slurm_fields[];
/* An option of sbatch or srun that directives may not use, with its key or the reason. With neither
 * it is allowed: it is listed because another option begins like it. */
struct sw_option_row {
    const char *name, *key, *why;
};
extern const struct sw_option_row sw_option_rows[]; /* ascending, ends with a NULL name */

#endif
