/* A cluster as its Slurm controller knows it, and the YAML file for it.
 *
 * Facts that no controller knows (bandwidths, the accelerator behind a name) come from shipped
 * files and are marked as assumed; each of these, and each important limit, gets a note. */
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
    int32_t nodes, per_node;              /* available to a job; accelerators of each node */
    char gpu_type[64];                    /* gres type; "": unknown, or no GPUs */
    bool has_gpus;                        /* false: its cores are the accelerators */
    const struct sw_catalog_entry *sheet; /* NULL: a GPU that is not shipped */
    bool named;              /* true if the user named the accelerator: nothing about it is
                                assumed */
    const char *accelerator; /* its file, as named in the cluster file; NULL: the sheet */
    int64_t memory_mb;       /* the smallest node's */
    int64_t given_mb;        /* MB of a node's memory for a job; 0: all */
    int32_t cpus_per_task;   /* 0: unknown */
    char constraint[64];     /* feature of these nodes only; "": not needed */
    bool shared;             /* true if a job may not have whole nodes */
    double max_time;         /* seconds of a job; INFINITY: no limit */
    char account[64];        /* "": unknown */
    int32_t levels;          /* levels of switches that divide the nodes */
    struct {
        char name[64];
        int32_t nodes; /* below one switch, or in one block */
        bool block;
    } level[SW_IMPORT_LEVELS];
    enum sw_slurm_topology topology;
    int32_t block_nodes, leaf_nodes; /* from the topology; 0: unknown */
    double switch_wait_s;            /* for a tree */
    int32_t note_count;
    char *note[SW_IMPORT_NOTES];
};

/* An accelerator named by the user: a shipped one, or a file. */
struct sw_import_accelerator {
    const struct sw_catalog_entry *sheet; /* NULL: not shipped */
    const char *path;                     /* name in the cluster file; NULL: the sheet's */
};

/* accelerator NULL: by gres and features. partition NULL: the default one or, if that has no GPUs,
 * the one with most. Errors: SW_BAD_INPUT: no such partition; SW_UNMET: no nodes that could run a
 * job; SW_ENVIRONMENT: memory. Free with sw_import_free, also after an error. */
int sw_import_gather(const struct sw_slurm *slurm, const struct sw_slurm_facts *facts,
                     const struct sw_slurm_accounting *accounting, const char *partition,
                     const struct sw_import_accelerator *accelerator, struct sw_import *out,
                     struct sw_error *err);
void sw_import_free(struct sw_import *import);
int sw_import_note(struct sw_import *import, struct sw_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a job's limits of time, nodes, memory and account (import_limits.c) to the gathered
 * facts. */
int sw_import_take_limits(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                          const struct sw_slurm_accounting *accounting, struct sw_import *out,
                          struct sw_error *err);

/* Adds the connections of nodes, and a job's possible requests about them (import_topology.c). */
int sw_import_take_topology(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                            const struct sw_hosts *nodes, struct sw_import *out,
                            struct sw_error *err);

/* Writes the YAML of a new file. folder: its future folder, whose shipped neighbours
 * (../accelerators, ../curves) it names if they exist; else their contents are written inline. */
void sw_import_write(FILE *out, const struct sw_import *import, const char *folder);
/* Updates the text of an existing file from the controller: numbers of nodes, GPUs, memory, the
 * partition and its limits. All other bytes stay. malloc'ed, NULL: err. Adds notes on values kept
 * against the controller's. */
char *sw_import_merge(struct sw_import *import, const char *text, struct sw_error *err);

#endif
