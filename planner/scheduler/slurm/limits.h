/* Limits of Slurm's accounting that hold a job, by the rules of Slurm's page on resource limits and
 * of sacctmgr(1): for each limit and each resource the first that is defined by the partition's
 * qos, the job's (before it with OverPartQOS), the user's association and the accounts above
 * counts. Limits of groups hold up the tree, unless a qos defines them. Pure functions; any thread.
 */
#ifndef SW_SLURM_LIMITS_H
#define SW_SLURM_LIMITS_H

#include "planner/scheduler/slurm/accounting.h"
#include "planner/scheduler/slurm/demand.h"

enum { SW_SLURM_HOLDERS = 24 };
/* Who limits jobs of an account in a partition, in Slurm's order. Points into its arguments. */
struct sw_slurm_holders {
    const struct sw_slurm_facts *facts;
    const struct sw_slurm_partition *partition;
    const struct sw_slurm_accounting *accounting;
    const struct sw_slurm_association *association; /* of the user; NULL: none is known */
    const struct sw_slurm_qos *qos;                 /* the job's; NULL: none is known */
    const char *qos_name;                           /* NULL: it is not known */
    int32_t count, qos_count;                       /* the first qos_count are qos */
    struct {
        const struct sw_slurm_qos *qos; /* NULL: an association */
        const char *name;               /* of the qos or account */
        const struct sw_slurm_limits *limits;
    } of[SW_SLURM_HOLDERS];
};
/* account, qos: as the job names them; NULL: its defaults. */
void sw_slurm_holders_find(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                           const struct sw_slurm_accounting *accounting, const char *account,
                           const char *qos, struct sw_slurm_holders *out);

/* True if a job that uses so much would start when nobody else does; else why says in one line
 * which limit holds it for ever. seconds: its time limit; 0: it has none, and the
 * partition no default. tasks: of its array. */
bool sw_slurm_limits_admit(const struct sw_slurm_holders *by, const struct sw_slurm_use *use,
                           double seconds, int64_t tasks, char why[256]);
/* A limit of a group on minutes of a resource, GrpTRESMins, or on those of its jobs, GrpWall. */
struct sw_slurm_group {
    int32_t holder; /* index in `of` */
    int64_t minutes;
};
/* Those that count for a job which uses a resource; tres NULL: GrpWall. Returns how many. */
int32_t sw_slurm_group_minutes(const struct sw_slurm_holders *by, const char *tres,
                               struct sw_slurm_group out[SW_SLURM_HOLDERS]);
/* Minutes of a job with a time limit of so many seconds (0: none): *held, those that `safe` holds
 * against limits; *used, those that are counted when the job has run so long (UsageFactor).
 * INFINITY: it has no limit. */
void sw_slurm_job_minutes(const struct sw_slurm_holders *by, double seconds, double *held,
                          double *used);
/* Longest time limit of a job in seconds, the partition's included; INFINITY: none. why: who sets
 * it, "qos short"; "": the partition, or nobody. */
double sw_slurm_longest_time(const struct sw_slurm_holders *by, char why[128]);

#endif
