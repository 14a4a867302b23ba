/* Slurm's row. */
#ifndef SW_SCHEDULER_SLURM_ROW_H
#define SW_SCHEDULER_SLURM_ROW_H

#include "planner/scheduler/scheduler.h"
#include "planner/scheduler/slurm/settings.h"

extern const struct sw_scheduler sw_scheduler_slurm;
extern const struct sw_forecast_row sw_slurm_forecast;
extern const struct sw_allocation_ops sw_slurm_allocation_ops;

/* import_command.c */
int sw_slurm_import_cluster(const struct sw_options *options);

#endif
