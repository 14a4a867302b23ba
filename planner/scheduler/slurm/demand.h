/* Demand of a job on nodes, from sbatch's options, and the resources that it gets when it runs:
 * whole nodes give more than requested. Pure functions; any thread. */
#ifndef SW_SLURM_DEMAND_H
#define SW_SLURM_DEMAND_H

#include "planner/scheduler/slurm/controller.h"

enum sw_slurm_memory_by {
    SW_MEMORY_DEFAULT, /* not given: DefMemPerNode, else all of a node's */
    SW_MEMORY_NODE,    /* 0: all */
    SW_MEMORY_CPU,
    SW_MEMORY_GPU
};

struct sw_slurm_demand {
    int32_t nodes;              /* at least */
    int64_t cpus;               /* processors of a node */
    int64_t all_cpus, all_gpus; /* the job's, if more than nodes times a node's */
    struct sw_slurm_gpus gpus;  /* on a node */
    const char *gpus_text;      /* text of the option; NULL: none */
    enum sw_slurm_memory_by memory_by;
    int64_t memory_mb;
    bool by_memory;            /* cpus: true if MaxMemPerCPU derives them from memory */
    bool whole_nodes;          /* true for --exclusive */
    const char *licenses;      /* "scratch:2"; NULL: none */
    int64_t tasks, last_index; /* tasks and last index of its array; 1 and -1: no array */
    const char *constraint;    /* NULL: none */
    struct sw_hosts excluded;  /* sorted */
};

/* Points into the request's texts, and does not free them. Free with sw_slurm_demand_free. */
void sw_slurm_demand_read(const struct sw_job_request *request, struct sw_slurm_demand *out);
void sw_slurm_demand_free(struct sw_slurm_demand *demand);

/* Limit on memory in a partition, its own before the site's; mb 0: none. */
struct sw_slurm_memory sw_slurm_most_memory(const struct sw_slurm_facts *facts,
                                            const struct sw_slurm_partition *p);
/* Applies the partition to the demand: its default memory, whole nodes, and with MaxMemPerCPU more
 * processors for the same memory, as in slurm.conf(5). Returns the MB of a node beyond the limit;
 * 0: none. */
int64_t sw_slurm_demand_settle(struct sw_slurm_demand *demand, const struct sw_slurm_facts *facts,
                               const struct sw_slurm_partition *p);

/* True if a node has all of it. */
bool sw_slurm_node_has(const struct sw_slurm_nodes *node, const struct sw_slurm_demand *demand);
/* True if the node has these GPUs. */
bool sw_slurm_node_has_gpus(const struct sw_slurm_nodes *node, const struct sw_slurm_gpus *gpus);
/* True if the node has the constraint, or if that is more than one feature. */
bool sw_slurm_node_has_feature(const struct sw_slurm_nodes *node, const char *constraint);
/* Megabytes of a node that a job requests; 0: all, or none. */
int64_t sw_slurm_demand_memory(const struct sw_slurm_demand *demand);
/* Nodes of a group that are in the partition and not excluded. */
int32_t sw_slurm_nodes_common(const struct sw_slurm_nodes *node, const struct sw_slurm_partition *p,
                              const struct sw_hosts *excluded);

/* Trackable resources (TRES) of a running job. */
enum { SW_SLURM_USES = 32 };
struct sw_slurm_use {
    bool whole_nodes;
    int32_t count;
    struct {
        char name[80];      /* "node", "cpu", "mem", "billing", "gres/gpu", "gres/gpu:h100" */
        double asked;       /* in sbatch's options */
        double least, most; /* depend on the nodes */
    } of[SW_SLURM_USES];
};
/* Finds the uses on nodes of the partition that have all of the settled demand. */
void sw_slurm_use_find(const struct sw_slurm_demand *demand, const struct sw_slurm_facts *facts,
                       const struct sw_slurm_partition *p, struct sw_slurm_use *out);
/* Total of a resource in a partition's nodes, or with p NULL in the cluster's. */
double sw_slurm_total(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                      const char *tres);

#endif
