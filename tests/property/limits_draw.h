/* Sites and jobs drawn at random, and a second, naive implementation of Slurm's limits: written
 * from its page on resource limits, sacctmgr(1) and slurm.conf(5), without a look at plan's. */
#ifndef SW_TEST_LIMITS_DRAW_H
#define SW_TEST_LIMITS_DRAW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum resource { NODE, CPU, MEM, GPU, H100, BILLING, RESOURCES };
enum limit { MAX_JOB, MAX_MINS, MAX_PU, MAX_PA, GRP, GRP_MINS, PER_NODE, MIN_JOB, GRP_RUN, LIMITS };
enum count { GRP_JOBS, GRP_SUBMIT, MAX_JOBS, MAX_SUBMIT, JOBS_PA, SUBMIT_PA, COUNTS };
extern const char *const resource_names[RESOURCES];

struct limits {
    int64_t tres[LIMITS][RESOURCES]; /* -1: none */
    int64_t wall, group_wall;        /* minutes; -1: none */
    int64_t count[COUNTS];           /* -1: none */
};
struct qos {
    bool there, deny, over, time, max_nodes, min_nodes, factor_safe;
    double limit_factor; /* 0: none */
    double usage_factor;
    struct limits limits;
};

enum { NODES = 4, NODE_CPUS = 16, NODE_MEM = 64000, NODE_GPUS = 4 };
struct draw {
    bool safe; /* AccountingStorageEnforce */
    /* the partition, of NODES nodes of type h100 */
    int64_t max_time, max_nodes, min_nodes, max_cpus, max_mem, def_mem; /* 0: none */
    bool max_mem_cpu, def_mem_cpu, exclusive_partition, weights, lists_other_qos;
    struct qos part, own;         /* own: the job's */
    struct limits user, mid, top; /* of associations: MAX_PU, MAX_PA, MIN_JOB are none */
    /* the job */
    int64_t nodes, tasks, cpus, gpus, mem, mem_cpu, minutes; /* mem, mem_cpu -1: not asked */
    int array;                                               /* tasks; 0: none */
    bool typed, gres, exclusive, names_qos;
    bool no_time;         /* minutes are not asked for */
    int64_t default_time; /* of the partition; 0: none */
};

void draw_site(uint64_t seed, uint64_t number, bool safe, struct draw *out);
/* True if Slurm would start the job on an idle cluster. */
bool naive_starts(const struct draw *d);
/* "node=4,mem=1000M"; "": none. memory: its unit. */
void write_tres(FILE *out, const int64_t tres[RESOURCES], const char *memory);
/* sbatch's options, one a line as a script has them. */
void write_job(FILE *out, const struct draw *d, const char *before, const char *end, int number);
/* Writes what sets up the site under a real controller: lines "conf ...", "sacctmgr ...", "job
 * ...". number: in its names; place: of its nodes among those of others, from 0. */
void write_commands(FILE *out, const struct draw *d, int number, int place);

#endif
