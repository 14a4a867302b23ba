/* What Slurm's accounting (slurmdbd) lets a user do, through sacctmgr. Sites without it are
 * common: then nothing is known, which is no error. */
#ifndef SW_SLURM_ACCOUNTING_H
#define SW_SLURM_ACCOUNTING_H

#include "core/base/error.h"
#include "planner/scheduler/slurm/controller.h"

#include <stdbool.h>
#include <stdint.h>

/* Limits that hold as long as nobody changes them, by what sacctmgr calls them. */
enum sw_slurm_limit {
    SW_LIMIT_JOB,           /* MaxTRES: of a job */
    SW_LIMIT_JOB_MINUTES,   /* MaxTRESMins: times its minutes */
    SW_LIMIT_USER,          /* MaxTRESPU: of all running jobs of a user */
    SW_LIMIT_ACCOUNT,       /* MaxTRESPA: of an account */
    SW_LIMIT_GROUP,         /* GrpTRES: of all */
    SW_LIMIT_GROUP_MINUTES, /* GrpTRESMins: times their minutes, those of the past included */
    SW_LIMITS
};
enum sw_slurm_tres { SW_TRES_NODES, SW_TRES_GPUS, SW_TRES_CPUS, SW_TRES_COUNT };
struct sw_slurm_limits {
    int64_t of[SW_LIMITS][SW_TRES_COUNT]; /* 0: no limit */
};
/* "MaxTRESPU"; "nodes". */
const char *sw_slurm_limit_name(enum sw_slurm_limit limit);
const char *sw_slurm_tres_name(enum sw_slurm_tres tres);

struct sw_slurm_qos {
    char name[64];
    double max_time; /* seconds of a job; INFINITY: no limit */
    struct sw_slurm_limits limits;
};

struct sw_slurm_association {        /* of the user with an account, or of the account itself */
    char account[64], partition[64]; /* partition "": any */
    char qos[256], default_qos[64];  /* a list; "": not told */
    double max_time;
    struct sw_slurm_limits limits;
    bool whole_account;
};

struct sw_slurm_accounting {
    bool known;
    /* what Slurm does not hold jobs to (AccountingStorageEnforce) */
    bool no_associations, no_qos, no_limits;
    char default_account[64];
    struct sw_slurm_qos *qos;
    struct sw_slurm_association *association;
    int32_t qos_count, association_count;
};

/* Of the cluster whose controller it is. Errors (SW_ENVIRONMENT): memory. */
int sw_slurm_accounting_load(const struct sw_slurm *slurm, struct sw_slurm_accounting *out,
                             struct sw_error *err);
void sw_slurm_accounting_free(struct sw_slurm_accounting *accounting);

/* Of AccountingStorageEnforce, "associations,limits", what it leaves out; "": it is not told, and
 * all counts. slurm.conf(5): limits, also those of a qos, need `limits` or `safe`, which need
 * associations. */
void sw_slurm_accounting_enforce(const char *list, struct sw_slurm_accounting *out);

/* The lines of sacctmgr -nP, with the fields of SW_SACCTMGR_QOS and SW_SACCTMGR_ASSOC or with the
 * first of them, added to *out; of associations with a user or of accounts'. Errors
 * (SW_ENVIRONMENT): memory. */
#define SW_SACCTMGR_QOS "Name,MaxWall,MaxTRES,MaxTRESMins,MaxTRESPU,MaxTRESPA,GrpTRES,GrpTRESMins"
#define SW_SACCTMGR_ASSOC                                                                          \
    "Account,Partition,QOS,MaxWall,MaxTRES,MaxTRESMins,GrpTRES,GrpTRESMins,DefaultQOS,User"
int sw_slurm_accounting_read_qos(const char *text, struct sw_slurm_accounting *out,
                                 struct sw_error *err);
int sw_slurm_accounting_read_associations(const char *text, bool whole_accounts,
                                          struct sw_slurm_accounting *out, struct sw_error *err);

const struct sw_slurm_qos *sw_slurm_find_qos(const struct sw_slurm_accounting *accounting,
                                             const char *name);
/* The user's with that account (NULL: the default one) that counts in the partition; NULL: none. */
const struct sw_slurm_association *
sw_slurm_find_association(const struct sw_slurm_accounting *accounting, const char *account,
                          const char *partition);
/* The account's own; NULL: none, or none is known. */
const struct sw_slurm_association *
sw_slurm_find_account(const struct sw_slurm_accounting *accounting, const char *account);
/* The qos that a job has which names none: that of its association, or Slurm's "normal"; NULL: it
 * is not known. */
const struct sw_slurm_qos *sw_slurm_default_qos(const struct sw_slurm_accounting *accounting,
                                                const struct sw_slurm_association *association);
/* Whether a name stands in a list with commas. */
bool sw_slurm_list_has(const char *list, const char *name);

#endif
