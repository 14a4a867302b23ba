/* What plan asks a Slurm controller: which nodes, partitions and switches there are, when a job
 * would start, and what became of jobs.
 *
 * Two backings give the same answers: Slurm's own commands (scontrol, sbatch --test-only, squeue),
 * and `plan-slurm`, a small program beside `plan` that is built where libslurm's header is found.
 * Either runs as a process with a time limit: a controller that is down or hangs costs seconds, and
 * libslurm, which ends the process that it cannot serve, ends one of its own.
 *
 * Owns what the controller said until it is freed. Times are seconds since 1970, lengths seconds.
 * One thread at a time for each struct. */
#ifndef SW_SLURM_CONTROLLER_H
#define SW_SLURM_CONTROLLER_H

#include "core/base/error.h"
#include "planner/scheduler/job.h"
#include "planner/scheduler/hostlist.h"

#include <stdbool.h>
#include <stdint.h>

enum sw_slurm_backing { SW_SLURM_AUTO, SW_SLURM_LIBRARY, SW_SLURM_COMMANDS };

struct sw_slurm; /* how to reach the controller */

/* Makes sure that a controller answers. AUTO: plan-slurm where it is and works, else the commands.
 * Errors (SW_ENVIRONMENT), within 5 s: no Slurm here, a configuration that cannot be read, a
 * controller that is down or does not answer. */
struct sw_slurm *sw_slurm_open(enum sw_slurm_backing backing, struct sw_error *err);
void sw_slurm_close(struct sw_slurm *slurm);
enum sw_slurm_backing sw_slurm_backing(const struct sw_slurm *slurm); /* never AUTO */
const char *sw_slurm_version(const struct sw_slurm *slurm); /* the controller's: "22.05.8" */
const char *sw_slurm_cluster(const struct sw_slurm *slurm); /* its ClusterName */
/* Its AccountingStorageEnforce: "associations,limits,qos", "none"; "": it is not told. */
const char *sw_slurm_enforced(const struct sw_slurm *slurm);

/* The version of Slurm that plan-slurm is built for, into buffer; "" where there is none beside
 * plan, or it does not start here. Asks no controller. */
const char *sw_slurm_library_version(char buffer[32]);

/* Megabytes of a node or of each processor that a job has. */
struct sw_slurm_memory {
    int64_t mb; /* 0: not set */
    bool per_cpu;
};

/* Settings of the whole site that decide about jobs; what is not told is 0 or false. */
struct sw_slurm_site {
    struct sw_slurm_memory most, given; /* MaxMemPerNode and its like; DefMemPerNode */
    int64_t max_array, max_tasks;       /* MaxArraySize: its indices are smaller; max_array_tasks */
    bool whole_cores;                   /* SelectTypeParameters: no two jobs share a core */
    bool whole_nodes;                   /* select/linear: no two jobs share a node */
    bool no_memory;                     /* SelectTypeParameters: memory is no resource of jobs */
    bool billing_is_max;                /* PriorityFlags=MAX_TRES: billing is no sum */
    bool no_usage;        /* PriorityType is not priority/multifactor: nobody counts used minutes */
    bool usage_is_reset;  /* PriorityUsageResetPeriod: they become 0 every so often */
    double half_life_s;   /* PriorityDecayHalfLife of used minutes; 0: they stay */
    char topology[40];    /* TopologyPlugin: "topology/tree"; "": not told */
    bool dragonfly;       /* TopologyParam: its switches are no tree */
    double switch_wait_s; /* SchedulerParameters=max_switch_wait; 0: not told */
    char conf[512];       /* path of slurm.conf; "": not told */
};

/* Nodes that are the same in all of this. */
struct sw_slurm_nodes {
    struct sw_hosts hosts; /* sorted */
    int32_t cpus;          /* that jobs may have; sockets and cores are all */
    int32_t sockets, cores_per_socket, threads_per_core;
    int64_t memory_mb; /* likewise, without MemSpecLimit */
    char *gres;        /* "gpu:h100:8(S:0-1)"; NULL: none */
    char *features;    /* "nvme,ib"; NULL: none */
    bool usable;       /* neither down nor drained nor failing */
    bool drained;      /* then it is not usable; it may run what it began */
    const struct sw_slurm_condition *condition; /* NULL: nothing that keeps jobs away now */
};

/* A word of a node's state that keeps jobs away now. */
struct sw_slurm_condition {
    const char *word; /* scontrol's: "DRAIN" */
    const char *said; /* for people: "drained" */
    bool usable;      /* true if jobs may start there while it lasts */
    bool counted;     /* true if the node still is one of its cluster's, as import-cluster counts */
};
/* All of them, the worst first, ending with one without a word. */
const struct sw_slurm_condition *sw_slurm_conditions(void);

struct sw_slurm_partition {
    char *name;
    struct sw_hosts hosts;              /* sorted */
    bool is_default, up;                /* up: takes jobs and starts them */
    int32_t min_nodes, max_nodes;       /* of a job; 0: no limit */
    int32_t max_cpus_per_node;          /* 0: no limit */
    double max_time, default_time;      /* of a job; INFINITY: no limit; default 0: there is none */
    struct sw_slurm_memory most, given; /* as of the site; mb 0: the site's count */
    bool whole_nodes;                   /* OverSubscribe=EXCLUSIVE */
    bool needs_reservation, root_only;  /* ReqResv, RootOnly */
    char *billing;  /* TRESBillingWeights: "CPU=1.0,Mem=0.25G"; NULL: processors */
    char *topology; /* one of its own (topology.yaml, from 25.05); NULL: the cluster's */
    char *own_qos;  /* whose limits hold for all of its jobs; NULL: none */
    char *accounts, *denied_accounts, *qos, *denied_qos, *groups; /* lists; NULL: all, or none */
};

struct sw_slurm_switch {
    char *name;
    int32_t level; /* 0: its nodes are its own */
    bool block;    /* of topology/block: level is 0, or the nodes of an aggregated one */
    int32_t size;  /* BlockSize, of a block from Slurm 24.11 on; 0: not told */
    struct sw_hosts hosts;
};

struct sw_slurm_facts {
    struct sw_slurm_nodes *nodes;
    int32_t nodes_count;
    struct sw_slurm_partition *partition;
    int32_t partition_count;
    struct sw_slurm_switch *switches; /* leaves first; none where the topology is not told */
    int32_t switch_count;
    struct sw_slurm_site site;
};

/* Errors: SW_ENVIRONMENT. Free with sw_slurm_facts_free, also after an error. */
int sw_slurm_load(struct sw_slurm *slurm, struct sw_slurm_facts *out, struct sw_error *err);
/* Puts the switches or blocks of the topology with that name (topology.yaml, from 25.05) in the
 * place of those of the cluster. Errors: SW_ENVIRONMENT. */
int sw_slurm_load_topology(const char *name, struct sw_slurm_facts *facts, struct sw_error *err);
void sw_slurm_facts_free(struct sw_slurm_facts *facts);
/* NULL: none of that name. name NULL: the default one. */
const struct sw_slurm_partition *sw_slurm_find_partition(const struct sw_slurm_facts *facts,
                                                         const char *name);

/* GPUs of a node by what gres calls them; "gpu:h100:4,gpu:a100:4" has two types. */
enum { SW_SLURM_GPU_TYPES = 8 };
struct sw_slurm_gpus {
    int32_t types, total;
    struct {
        char type[64]; /* "": not told */
        int32_t count;
    } of[SW_SLURM_GPU_TYPES];
};
struct sw_slurm_gpus sw_slurm_parse_gpus(const char *gres);

/* When each would start; out has room for count. Frees nothing of theirs. Errors (SW_ENVIRONMENT):
 * the controller does not answer; a request that is refused is none. */
int sw_slurm_will_run(struct sw_slurm *slurm, const struct sw_job_request *requests, int32_t count,
                      struct sw_job_start *out, struct sw_error *err);

/* All jobs that the controller still knows, of everybody that the caller may see. With plan-slurm
 * only their id, number, state and start are told. Errors: SW_ENVIRONMENT. Free with
 * sw_queued_jobs_free, also after an error. */
int sw_slurm_queue(struct sw_slurm *slurm, struct sw_queued_jobs *out, struct sw_error *err);

#endif
