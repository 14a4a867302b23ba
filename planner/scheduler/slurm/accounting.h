/* Limits of Slurm's accounting (slurmdbd) for a user, from sacctmgr. Sites without accounting are
 * common: then nothing is known, which is no error. limits.h decides which limits count. */
#ifndef SW_SLURM_ACCOUNTING_H
#define SW_SLURM_ACCOUNTING_H

#include "core/base/error.h"
#include "planner/scheduler/slurm/controller.h"

#include <stdbool.h>
#include <stdint.h>

/* Limits on trackable resources (TRES), with sacctmgr's names. */
enum sw_slurm_limit {
    SW_LIMIT_JOB,                 /* MaxTRES: a job */
    SW_LIMIT_JOB_MINUTES,         /* MaxTRESMins: times its minutes */
    SW_LIMIT_USER,                /* MaxTRESPU: all running jobs of a user */
    SW_LIMIT_ACCOUNT,             /* MaxTRESPA: all running jobs of an account */
    SW_LIMIT_GROUP,               /* GrpTRES: all running jobs */
    SW_LIMIT_GROUP_MINUTES,       /* GrpTRESMins: times their minutes, past jobs included */
    SW_LIMIT_NODE,                /* MaxTRESPerNode: each node of a job */
    SW_LIMIT_LEAST,               /* MinTRES: least of a job */
    SW_LIMIT_GROUP_RUN_MINUTES,   /* GrpTRESRunMins: times their remaining minutes */
    SW_LIMIT_USER_RUN_MINUTES,    /* MaxTRESRunMinsPU, enforced from 24.05 on */
    SW_LIMIT_ACCOUNT_RUN_MINUTES, /* MaxTRESRunMinsPA, enforced from 24.05 on */
    SW_LIMITS
};
/* Limits on the number of jobs: running ones, and running or waiting ones. */
enum sw_slurm_count {
    SW_COUNT_GROUP_JOBS,     /* GrpJobs */
    SW_COUNT_GROUP_SUBMIT,   /* GrpSubmit */
    SW_COUNT_JOBS,           /* MaxJobsPU of a qos, or MaxJobs of an association */
    SW_COUNT_SUBMIT,         /* MaxSubmitPU, MaxSubmit */
    SW_COUNT_ACCOUNT_JOBS,   /* MaxJobsPA */
    SW_COUNT_ACCOUNT_SUBMIT, /* MaxSubmitPA */
    SW_COUNTS
};

struct sw_slurm_limits {
    char *tres[SW_LIMITS];     /* "node=4,gres/gpu:h100=16,mem=1T"; NULL: no limit */
    int64_t count[SW_COUNTS];  /* -1: no limit */
    double max_time, max_wall; /* seconds of a job; of a group (GrpWall); INFINITY: no limit */
    /* usage that the controller counts against GrpTRESMins and GrpWall (usage.h): minutes used, and
     * minutes that running jobs may still use; lists like tres; NULL, and used_wall -1: unknown */
    char *used, *running;
    double used_wall;
};
/* "MaxTRESPU". */
const char *sw_slurm_limit_name(enum sw_slurm_limit limit);
/* Amount of `tres` in a list of limits, memory in MB; -1: none, or list NULL. */
int64_t sw_slurm_limit_of(const char *list, const char *tres);

struct sw_slurm_qos {
    char name[64];
    struct sw_slurm_limits limits;
    double limit_factor;    /* factor of associations' MaxTRES and GrpTRES; 0: none */
    double usage_factor;    /* factor of a job's minutes, with UsageFactorSafe */
    bool denies;            /* DenyOnLimit: true if sbatch refuses jobs that would wait for ever */
    bool over_partition;    /* OverPartQOS: true if it precedes the partition's own qos */
    bool lifts_time;        /* PartitionTimeLimit: true if the partition's MaxTime does not count */
    bool lifts_most_nodes;  /* PartitionMaxNodes */
    bool lifts_least_nodes; /* PartitionMinNodes */
    bool needs_reservation; /* RequiresReservation */
    bool relative;          /* Relative: true if its limits are percentages */
    bool safe_factor;       /* UsageFactorSafe */
    bool keeps_usage;       /* NoDecay: true if usage does not decay */
};

struct sw_slurm_association {      /* the user's with an account, or of the account itself */
    char account[64], parent[64];  /* parent: for the account itself; "": the root, or unknown */
    char partition[64];            /* "": any */
    char default_qos[64];          /* "": unknown */
    char *qos;                     /* a list; "": unknown */
    struct sw_slurm_limits limits; /* includes those inherited from accounts above */
    bool whole_account;
};

struct sw_slurm_accounting {
    bool known;
    /* true for limits that Slurm does not enforce (AccountingStorageEnforce) */
    bool no_associations, no_qos, no_limits;
    bool no_run_minutes; /* limits of users and accounts on run minutes: not before 24.05 */
    bool no_safe;        /* true if a job may begin that would use up its group's minutes */
    char default_account[64];
    struct sw_slurm_qos *qos;
    struct sw_slurm_association *association;
    int32_t qos_count, association_count;
};

/* Loads the accounting of this controller's cluster. Errors (SW_ENVIRONMENT): memory. */
int sw_slurm_accounting_load(const struct sw_slurm *slurm, struct sw_slurm_accounting *out,
                             struct sw_error *err);
void sw_slurm_accounting_free(struct sw_slurm_accounting *accounting);

/* Reads AccountingStorageEnforce, "associations,limits", for limits that are not enforced; "":
 * unknown, all are. slurm.conf(5): limits, also those of a qos, need `limits` or `safe`, which need
 * associations. */
void sw_slurm_accounting_enforce(const char *list, struct sw_slurm_accounting *out);

/* Parses lines of sacctmgr -nP, with the fields of SW_SACCTMGR_QOS and SW_SACCTMGR_ASSOC or with
 * the first of them, and adds them to *out; associations with a user or of accounts. Errors
 * (SW_ENVIRONMENT): memory. */
#define SW_SACCTMGR_QOS                                                                            \
    "Name,MaxWall,MaxTRES,MaxTRESMins,MaxTRESPU,MaxTRESPA,GrpTRES,GrpTRESMins,Flags,"              \
    "MaxTRESPerNode,MinTRES,GrpTRESRunMins,MaxTRESRunMinsPU,MaxTRESRunMinsPA,GrpWall,GrpJobs,"     \
    "GrpSubmit,MaxJobsPU,MaxSubmitPU,MaxJobsPA,MaxSubmitPA,LimitFactor,UsageFactor"
#define SW_SACCTMGR_ASSOC                                                                          \
    "Account,Partition,QOS,MaxWall,MaxTRES,MaxTRESMins,GrpTRES,GrpTRESMins,DefaultQOS,User,"       \
    "ParentName,MaxTRESPerNode,GrpTRESRunMins,GrpWall,GrpJobs,GrpSubmit,MaxJobs,MaxSubmit"
int sw_slurm_accounting_read_qos(const char *text, struct sw_slurm_accounting *out,
                                 struct sw_error *err);
int sw_slurm_accounting_read_associations(const char *text, bool whole_accounts,
                                          struct sw_slurm_accounting *out, struct sw_error *err);

/* NULL: not found, or name NULL. */
const struct sw_slurm_qos *sw_slurm_find_qos(const struct sw_slurm_accounting *accounting,
                                             const char *name);
/* The user's association with that account (NULL: the default one) that counts in the partition;
 * NULL: none. */
const struct sw_slurm_association *
sw_slurm_find_association(const struct sw_slurm_accounting *accounting, const char *account,
                          const char *partition);
/* The account's own association; NULL: none, or unknown. */
const struct sw_slurm_association *
sw_slurm_find_account(const struct sw_slurm_accounting *accounting, const char *account);
/* Name of the account above an account's own association; "": the root. */
const char *sw_slurm_parent(const struct sw_slurm_association *account);
/* Name of the default qos of a job: its association's default or only one, the root's default, or
 * "normal". NULL: unknown. */
const char *sw_slurm_default_qos(const struct sw_slurm_accounting *accounting,
                                 const struct sw_slurm_association *association);
/* True if a comma-separated list has a name. */
bool sw_slurm_list_has(const char *list, const char *name);

#endif
