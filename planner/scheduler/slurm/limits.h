/* Limits of Slurm's accounting on a job, by Slurm's page on resource limits and sacctmgr(1): for
 * each limit and resource, the first defined value counts among the partition's qos, the job's
 * (first with OverPartQOS), the user's association and the accounts above. Limits of groups hold up
 * the tree, unless a qos defines them. Pure functions; any thread. */
#ifndef SW_SLURM_LIMITS_H
#define SW_SLURM_LIMITS_H

#include "planner/scheduler/slurm/accounting.h"
#include "planner/scheduler/slurm/demand.h"

enum { SW_SLURM_HOLDERS = 24 };
/* Holders of limits on an account's jobs in a partition, in Slurm's order. Points into its
 * arguments. */
struct sw_slurm_holders {
    const struct sw_slurm_facts *facts;
    const struct sw_slurm_partition *partition;
    const struct sw_slurm_accounting *accounting;
    const struct sw_slurm_association *association; /* the user's; NULL: unknown */
    const struct sw_slurm_qos *qos;                 /* the job's; NULL: unknown */
    const char *qos_name;                           /* NULL: unknown */
    int32_t count, qos_count;                       /* the first qos_count are qos */
    struct {
        const struct sw_slurm_qos *qos; /* NULL: an association */
        const char *name;               /* name of the qos or account */
        const struct sw_slurm_limits *limits;
    } of[SW_SLURM_HOLDERS];
};
/* account, qos: named by the job; NULL: its defaults. */
void sw_slurm_holders_find(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                           const struct sw_slurm_accounting *accounting, const char *account,
                           const char *qos, struct sw_slurm_holders *out);

/* True if a job with such uses would start when nobody else runs any; else why names the limit that
 * blocks it for ever, in one line. seconds: its time limit; 0: none, and the partition has no
 * default. tasks: of its array. */
bool sw_slurm_limits_admit(const struct sw_slurm_holders *by, const struct sw_slurm_use *use,
                           double seconds, int64_t tasks, char why[256]);
/* A group's limit on minutes of a resource, GrpTRESMins, or on minutes of its jobs, GrpWall. */
struct sw_slurm_group {
    int32_t holder; /* index in `of` */
    int64_t minutes;
};
/* The limits that count for a job which uses a resource; tres NULL: GrpWall. Returns their
 * number. */
int32_t sw_slurm_group_minutes(const struct sw_slurm_holders *by, const char *tres,
                               struct sw_slurm_group out[SW_SLURM_HOLDERS]);
/* Minutes of a job with a time limit of so many seconds (0: none): *held, those that `safe` counts
 * against limits; *used, those counted when the job has run that long (UsageFactor). INFINITY: no
 * limit. */
void sw_slurm_job_minutes(const struct sw_slurm_holders *by, double seconds, double *held,
                          double *used);
/* Longest time limit of a job in seconds, including the partition's; INFINITY: none. why: its
 * holder, "qos short"; "": the partition, or none. */
double sw_slurm_longest_time(const struct sw_slurm_holders *by, char why[128]);

#endif
