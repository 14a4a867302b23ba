/* Questions to a Slurm controller: its nodes, partitions and switches, the start of a job, and the
 * state of jobs.
 *
 * Two backings give the same answers: Slurm's own commands (scontrol, sbatch --test-only, squeue),
 * and `plan-slurm`, a small program beside `plan` that is built if libslurm's header is found. Both
 * run as processes with a time limit: a controller that is down or hangs costs seconds, and
 * libslurm, which exits when it fails, ends only its own process.
 *
 * Owns the controller's answers until freed. Times are seconds since 1970, lengths seconds. One
 * thread at a time for each struct. */
#ifndef SW_SLURM_CONTROLLER_H
#define SW_SLURM_CONTROLLER_H

#include "core/base/error.h"
#include "planner/scheduler/job.h"
#include "planner/scheduler/hostlist.h"

#include <stdbool.h>
#include <stdint.h>

enum sw_slurm_backing { SW_SLURM_AUTO, SW_SLURM_LIBRARY, SW_SLURM_COMMANDS };

struct sw_slurm; /* way to reach the controller */

/* Checks that a controller answers. AUTO: plan-slurm if it exists and works, else the commands.
 * Errors (SW_ENVIRONMENT), within 5 s: no Slurm here, an unreadable configuration, a controller
 * that is down or does not answer. */
struct sw_slurm *sw_slurm_open(enum sw_slurm_backing backing, struct sw_error *err);
void sw_slurm_close(struct sw_slurm *slurm);
enum sw_slurm_backing sw_slurm_backing(const struct sw_slurm *slurm); /* never AUTO */
const char *sw_slurm_version(const struct sw_slurm *slurm); /* the controller's: "22.05.8" */
const char *sw_slurm_cluster(const struct sw_slurm *slurm); /* its ClusterName */
/* Its AccountingStorageEnforce: "associations,limits,qos", "none"; "": unknown. */
const char *sw_slurm_enforced(const struct sw_slurm *slurm);

/* The version of Slurm that plan-slurm is built for, into buffer; "": no plan-slurm beside plan, or
 * it does not start. Asks no controller. */
const char *sw_slurm_library_version(char buffer[32]);

/* Megabytes that a job has for each node or processor. */
struct sw_slurm_memory {
    int64_t mb; /* 0: not set */
    bool per_cpu;
};

/* Site settings about jobs; unknown ones are 0 or false. */
struct sw_slurm_site {
    struct sw_slurm_memory most, given; /* MaxMemPerNode and its like; DefMemPerNode */
    int64_t max_array, max_tasks;       /* MaxArraySize: above its indices; max_array_tasks */
    bool whole_cores;                   /* SelectTypeParameters: true if no two jobs share a core */
    bool whole_nodes;                   /* select/linear: true if no two jobs share a node */
    bool no_memory;                     /* SelectTypeParameters: true if memory is no resource
                                           of jobs */
    bool billing_is_max;                /* PriorityFlags=MAX_TRES: true if billing is no sum */
    bool no_usage;        /* true if PriorityType is not priority/multifactor: used minutes are
                             not counted */
    bool usage_is_reset;  /* PriorityUsageResetPeriod: true if usage is reset periodically */
    double half_life_s;   /* PriorityDecayHalfLife of used minutes; 0: no decay */
    char topology[40];    /* TopologyPlugin: "topology/tree"; "": unknown */
    bool dragonfly;       /* TopologyParam: true if its switches are no tree */
    double switch_wait_s; /* SchedulerParameters=max_switch_wait; 0: unknown */
    char conf[512];       /* path of slurm.conf; "": unknown */
};

/* Nodes that are equal in all of this. */
struct sw_slurm_nodes {
    struct sw_hosts hosts; /* sorted */
    int32_t cpus;          /* available to jobs; sockets and cores are totals */
    int32_t sockets, cores_per_socket, threads_per_core;
    int64_t memory_mb; /* available to jobs, without MemSpecLimit */
    char *gres;        /* "gpu:h100:8(S:0-1)"; NULL: none */
    char *features;    /* "nvme,ib"; NULL: none */
    bool usable;       /* true if neither down nor drained nor failing */
    bool drained;      /* true if not usable, but may finish running jobs */
    const struct sw_slurm_condition *condition; /* NULL: no condition keeps jobs away now */
};

/* Word of a node's state that keeps jobs away. */
struct sw_slurm_condition {
    const char *word; /* scontrol's: "DRAIN" */
    const char *said; /* for people: "drained" */
    bool usable;      /* true if jobs may start there in this state */
    bool counted;     /* true if import-cluster counts the node */
};
/* All conditions, worst first, ending with one without a word. */
const struct sw_slurm_condition *sw_slurm_conditions(void);

struct sw_slurm_partition {
    char *name;
    struct sw_hosts hosts;              /* sorted */
    bool is_default, up;                /* up: true if it takes jobs and starts them */
    int32_t min_nodes, max_nodes;       /* nodes of a job; 0: no limit */
    int32_t max_cpus_per_node;          /* 0: no limit */
    double max_time, default_time;      /* seconds of a job; INFINITY: no limit; default 0: none */
    struct sw_slurm_memory most, given; /* like the site's; mb 0: the site's applies */
    bool whole_nodes;                   /* OverSubscribe=EXCLUSIVE */
    bool needs_reservation, root_only;  /* ReqResv, RootOnly */
    char *billing;  /* TRESBillingWeights: "CPU=1.0,Mem=0.25G"; NULL: processors */
    char *topology; /* its own topology (topology.yaml, from 25.05); NULL: the cluster's */
    char *own_qos;  /* qos whose limits hold for all of its jobs; NULL: none */
    char *accounts, *denied_accounts, *qos, *denied_qos, *groups; /* lists; NULL: all, or none */
};

struct sw_slurm_switch {
    char *name;
    int32_t level; /* 0: it connects nodes directly */
    bool block;    /* true for topology/block: level is 0, or the nodes of an aggregated block */
    int32_t size;  /* BlockSize of a block, from Slurm 24.11 on; 0: unknown */
    struct sw_hosts hosts;
};

struct sw_slurm_facts {
    struct sw_slurm_nodes *nodes;
    int32_t nodes_count;
    struct sw_slurm_partition *partition;
    int32_t partition_count;
    struct sw_slurm_switch *switches; /* leaves first; none if the topology is unknown */
    int32_t switch_count;
    struct sw_slurm_site site;
};

/* Errors: SW_ENVIRONMENT. Free with sw_slurm_facts_free, also after an error. */
int sw_slurm_load(struct sw_slurm *slurm, struct sw_slurm_facts *out, struct sw_error *err);
/* Replaces the cluster's switches or blocks by those of the topology with that name (topology.yaml,
 * from 25.05). Errors: SW_ENVIRONMENT. */
int sw_slurm_load_topology(const char *name, struct sw_slurm_facts *facts, struct sw_error *err);
void sw_slurm_facts_free(struct sw_slurm_facts *facts);
/* NULL: not found. name NULL: the default one. */
const struct sw_slurm_partition *sw_slurm_find_partition(const struct sw_slurm_facts *facts,
                                                         const char *name);

/* GPUs of a node by their gres types; "gpu:h100:4,gpu:a100:4" has two. */
enum { SW_SLURM_GPU_TYPES = 8 };
struct sw_slurm_gpus {
    int32_t types, total;
    struct {
        char type[64]; /* "": unknown */
        int32_t count;
    } of[SW_SLURM_GPU_TYPES];
};
struct sw_slurm_gpus sw_slurm_parse_gpus(const char *gres);

/* Estimated start of each; out has room for count. Does not free the requests. Errors
 * (SW_ENVIRONMENT): the controller does not answer; a refused request is no error. */
int sw_slurm_will_run(struct sw_slurm *slurm, const struct sw_job_request *requests, int32_t count,
                      struct sw_job_start *out, struct sw_error *err);

/* All jobs that the controller knows and the caller may see, of all users. plan-slurm gives only
 * id, number, state and start. Errors: SW_ENVIRONMENT. Free with sw_queued_jobs_free, also after an
 * error. */
int sw_slurm_queue(struct sw_slurm *slurm, struct sw_queued_jobs *out, struct sw_error *err);

#endif
