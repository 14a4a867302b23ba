/* A cluster as its Slurm controller knows it, and the YAML file that says so.
 *
 * What no controller knows (bandwidths, the accelerator behind a name) is taken from what is
 * shipped and marked as assumed; every such thing and every limit that matters is a note. */
#ifndef SW_SLURM_IMPORT_H
#define SW_SLURM_IMPORT_H

#include "planner/scheduler/slurm/accounting.h"
#include "planner/scheduler/slurm/controller.h"
#include "planner/scheduler/slurm/gpu_catalog.h"
#include "planner/scheduler/slurm/settings.h"

#include <stdio.h>

enum { SW_IMPORT_NOTES = 32, SW_IMPORT_LEVELS = 4 };

struct sw_import {
    char slurm_cluster[128], version[32], partition[128], name[65];
    int32_t nodes, per_node;              /* that a job may have; accelerators of each */
    char gpu_type[64];                    /* as gres has it; "": not told, or no GPUs */
    bool has_gpus;                        /* else its cores are the accelerators */
    const struct sw_catalog_entry *sheet; /* NULL: a GPU that none is shipped of */
    bool named;              /* the user named the accelerator: nothing of it is assumed */
    const char *accelerator; /* the file of it, as the cluster's names it; NULL: the sheet */
    int64_t memory_mb;       /* of the node with the least */
    int64_t given_mb;        /* of a node's memory, for a job; 0: all of it */
    int32_t cpus_per_task;   /* 0: not told */
    char constraint[64];     /* feature that only these nodes have; "": none is needed */
    bool shared;             /* a job may not have whole nodes */
    double max_time;         /* seconds of a job; INFINITY: no limit */
    char account[64];        /* "": not told */
    int32_t levels;          /* of switches that part the nodes */
    struct {
        char name[64];
        int32_t nodes; /* under one switch, or in one block */
        bool block;
    } level[SW_IMPORT_LEVELS];
    enum sw_slurm_topology topology;
    int32_t block_nodes, leaf_nodes; /* of the topology; 0: not told */
    double switch_wait_s;            /* of a tree */
    int32_t note_count;
    char *note[SW_IMPORT_NOTES];
};

/* An accelerator that the user names: a shipped one, or a file. */
struct sw_import_accelerator {
    const struct sw_catalog_entry *sheet; /* NULL: not shipped */
    const char *path;                     /* as the cluster file names it; NULL: the sheet's */
};

/* accelerator NULL: told by gres and features. partition NULL: the default one, or where that has
 * no GPUs the one with most of them. Errors: SW_BAD_INPUT: no such partition; SW_UNMET: it has no
 * nodes that could run a job; SW_ENVIRONMENT: memory. Free with sw_import_free, also after an
 * error. */
int sw_import_gather(const struct sw_slurm *slurm, const struct sw_slurm_facts *facts,
                     const struct sw_slurm_accounting *accounting, const char *partition,
                     const struct sw_import_accelerator *accelerator, struct sw_import *out,
                     struct sw_error *err);
void sw_import_free(struct sw_import *import);
int sw_import_note(struct sw_import *import, struct sw_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Time, nodes, memory and account that a job may have (import_limits.c); the rest is gathered. */
int sw_import_take_limits(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                          const struct sw_slurm_accounting *accounting, struct sw_import *out,
                          struct sw_error *err);

/* How the nodes are joined, and what a job may ask of that (import_topology.c). */
int sw_import_take_topology(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                            const struct sw_hosts *nodes, struct sw_import *out,
                            struct sw_error *err);

/* The YAML of a new file. folder: where it will lie, whose shipped neighbours (../accelerators,
 * ../curves) it names where they are there; else what they hold is written in their place. */
void sw_import_write(FILE *out, const struct sw_import *import, const char *folder);
/* The text of an existing file with what the controller knows better: numbers of nodes, GPUs,
 * memory, the partition and its limits. All else stays as it is, to the byte. malloc'ed, NULL: err.
 * Adds notes on what was kept though the controller says otherwise. */
char *sw_import_merge(struct sw_import *import, const char *text, struct sw_error *err);

#endif
