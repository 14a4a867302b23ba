#include "planner/scheduler/slurm/client.h"

int sw_slurm_process(const char *const *argv, const char *input, double limit_seconds,
                     struct sw_process_result *out, struct sw_error *err)
{
    static const char *const kept[] = {"SLURM_CONF=", "SLURM_CONF_SERVER=", "SLURM_JWT=", NULL};
    static const char *const dropped[] = {"SBATCH_", "SLURM_", "SALLOC_", "SRUN_", NULL};
    static const struct sw_process_client slurm = {
        .kept = kept,
        .dropped = dropped,
        .set = "SLURM_TIME_FORMAT=standard",
        .where = "do this where Slurm's commands are (Debian: slurm-client)"};
    return sw_process_run(&slurm, argv, input, limit_seconds, out, err);
}
