/* Slurm's settings of a run, the section `slurm` of a cluster and a run: tables.c has the keys,
 * checks.c what a value may look like, settings.c the checks between them. */
#ifndef SW_SCHEDULER_SLURM_SETTINGS_H
#define SW_SCHEDULER_SLURM_SETTINGS_H

#include "core/config/config.h"
#include "planner/scheduler/script.h"

enum sw_exclusive {
    SW_EXCLUSIVE_AUTO, /* where whole nodes are used */
    SW_EXCLUSIVE_YES,
    SW_EXCLUSIVE_NO,
    SW_EXCLUSIVE_USER,
    SW_EXCLUSIVE_MCS
};
/* Network topology by which the cluster's Slurm places jobs (its TopologyPlugin). */
enum sw_slurm_topology {
    SW_TOPOLOGY_UNKNOWN,
    SW_TOPOLOGY_FLAT,
    SW_TOPOLOGY_TREE,
    SW_TOPOLOGY_BLOCK
};
enum sw_requeue { SW_REQUEUE_AUTO, SW_REQUEUE_YES, SW_REQUEUE_NO, SW_REQUEUE_EXPEDITE };

/* NULL / 0: not set. Each string is checked against what Slurm allows. Lists that Slurm wants with
 * commas are one string. */
struct sw_slurm_config {
    const char *version; /* "23.11"; what newer ones have is refused */
    const char *partition, *account, *qos, *reservation, *constraint, *nodelist, *exclude;
    enum sw_exclusive exclusive;
    const char *gres, *gpus_per_node;
    int32_t cpus_per_task;
    const char *cpu_bind, *gpu_bind;             /* of srun */
    const char *mem, *mem_per_cpu, *mem_per_gpu; /* one of them: '0' */
    const char *time, *time_min, *switches;
    int32_t segment; /* nodes */
    enum sw_slurm_topology topology;
    int32_t block_nodes;      /* of a base block; 0: unknown */
    int32_t leaf_nodes;       /* under a leaf switch; 0: unknown */
    double max_switch_wait_s; /* the most that a job may wait for few switches; 0: Slurm's own */
    const char *dependency, *begin;
    int32_t nice;
    const char *licenses, *mail_type, *mail_user, *comment, *job_name, *wckey;
    const char *log;    /* a name inside the run's directory; with Slurm's %j */
    const char *signal; /* "USR1", "USR1@300", "none" */
    enum sw_requeue requeue;
    const char *mpi; /* of srun; or mpirun, which starts the ranks instead */
    struct sw_texts modules, setup, setup_node;
    struct sw_environment environment;
    struct sw_fabric_config fabric;
    struct sw_container_config container;
    struct sw_texts directives, srun_options; /* "--name" or "--name=value" */
    enum sw_continue continues;               /* how a job goes on that ended before its run did */
    enum sw_preflight preflight; /* what is tried of the nodes before a job trains on them */
    int32_t max_attempts;        /* of a run that goes on by itself; 0: SW_MAX_ATTEMPTS */
    bool shrink_limit;           /* the job lowers its own limit when its speed is known */
};
enum { SW_MAX_ATTEMPTS = 100 };
/* Slurm's default of SchedulerParameters=max_switch_wait (slurm.conf(5)). */
#define SW_SWITCH_WAIT_S 300.0
_Static_assert(sizeof(struct sw_slurm_config) <= SW_SETTINGS_BYTES, "a cluster has room for it");
/* Seconds that a time limit of Slurm means ("90", "24:00:00", "2-12"); INFINITY where there is
 * none: UNLIMITED, 0, NULL. */
double sw_slurm_time_seconds(const char *time);
/* Writes a limit of whole minutes as people write it: "2:30:00", "1-12:00:00". */
void sw_slurm_time_format(int64_t minutes, char out[SW_TIME_BYTES]);
/* GPUs of a node that gpus_per_node, or else gres, asks for; -1: neither says. */
int64_t sw_slurm_gpus(const struct sw_slurm_config *slurm);
const struct sw_slurm_config *sw_slurm_settings(const struct sw_cluster_config *cluster);
/* true if mpirun starts the ranks, not srun; mpi: slurm.mpi, may be NULL. */
bool sw_slurm_is_mpirun(const char *mpi);

extern const struct sw_launcher sw_launcher_slurm;

#endif
