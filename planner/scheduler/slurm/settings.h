/* Slurm's settings of a run, the section `slurm` of a cluster and a run: tables.c has the keys,
 * checks.c the checks of values, settings.c the checks between them. */
#ifndef SW_SCHEDULER_SLURM_SETTINGS_H
#define SW_SCHEDULER_SLURM_SETTINGS_H

#include "core/config/config.h"
#include "planner/scheduler/script.h"

enum sw_exclusive {
    SW_EXCLUSIVE_AUTO, /* if whole nodes are used */
    SW_EXCLUSIVE_YES,
    SW_EXCLUSIVE_NO,
    SW_EXCLUSIVE_USER,
    SW_EXCLUSIVE_MCS
};
/* Network topology that the cluster's Slurm uses to place jobs (its TopologyPlugin). */
enum sw_slurm_topology {
    SW_TOPOLOGY_UNKNOWN,
    SW_TOPOLOGY_FLAT,
    SW_TOPOLOGY_TREE,
    SW_TOPOLOGY_BLOCK
};
enum sw_requeue { SW_REQUEUE_AUTO, SW_REQUEUE_YES, SW_REQUEUE_NO, SW_REQUEUE_EXPEDITE };

/* NULL / 0: not set. Each string is checked by Slurm's rules. Lists that Slurm writes with commas
 * are one string. */
struct sw_slurm_config {
    const char *version; /* "23.11"; options of newer versions are refused */
    const char *partition, *account, *qos, *reservation, *constraint, *nodelist, *exclude;
    enum sw_exclusive exclusive;
    const char *gres, *gpus_per_node;
    int32_t cpus_per_task;
    const char *cpu_bind, *gpu_bind;             /* srun's */
    const char *mem, *mem_per_cpu, *mem_per_gpu; /* one of them: '0' */
    const char *time, *time_min, *switches;
    int32_t segment; /* nodes */
    enum sw_slurm_topology topology;
    int32_t block_nodes;      /* nodes of a base block; 0: unknown */
    int32_t leaf_nodes;       /* nodes below a leaf switch; 0: unknown */
    double max_switch_wait_s; /* longest wait of a job for few switches; 0: Slurm's default */
    const char *dependency, *begin;
    int32_t nice;
    const char *licenses, *mail_type, *mail_user, *comment, *job_name, *wckey;
    const char *log;    /* a name inside the run's directory; with Slurm's %j */
    const char *signal; /* "USR1", "USR1@300", "none" */
    enum sw_requeue requeue;
    const char *mpi; /* srun's; or mpirun, which starts the ranks instead */
    struct sw_texts modules, setup, setup_node;
    struct sw_environment environment;
    struct sw_fabric_config fabric;
    struct sw_container_config container;
    struct sw_texts directives, srun_options; /* "--name" or "--name=value" */
    enum sw_continue continues;               /* continuation of a job that ended before its
                                                 run did */
    enum sw_preflight preflight;              /* test of nodes before a job trains on them */
    int32_t max_attempts; /* for a run that continues itself; 0: SW_MAX_ATTEMPTS */
    bool shrink_limit;    /* true if the job lowers its own limit once its speed is known */
};
enum { SW_MAX_ATTEMPTS = 100 };
/* Slurm's default of SchedulerParameters=max_switch_wait (slurm.conf(5)). */
#define SW_SWITCH_WAIT_S 300.0
_Static_assert(sizeof(struct sw_slurm_config) <= SW_SETTINGS_BYTES, "a cluster has room for it");
/* Seconds of Slurm's time limit ("90", "24:00:00", "2-12"); INFINITY: UNLIMITED, 0, NULL. */
double sw_slurm_time_seconds(const char *time);
/* Writes a limit of whole minutes in usual form: "2:30:00", "1-12:00:00". */
void sw_slurm_time_format(int64_t minutes, char out[SW_TIME_BYTES]);
/* GPUs of a node requested by gpus_per_node, or else gres; -1: neither is set. */
int64_t sw_slurm_gpus(const struct sw_slurm_config *slurm);
const struct sw_slurm_config *sw_slurm_settings(const struct sw_cluster_config *cluster);
/* True if mpirun starts the ranks, not srun; mpi: slurm.mpi, may be NULL. */
bool sw_slurm_is_mpirun(const char *mpi);

extern const struct sw_launcher sw_launcher_slurm;

#endif
