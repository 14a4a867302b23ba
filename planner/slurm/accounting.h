/* What Slurm's accounting (slurmdbd) lets a user do, through sacctmgr. Sites without it are
 * common: then nothing is known, which is no error. */
#ifndef SW_SLURM_ACCOUNTING_H
#define SW_SLURM_ACCOUNTING_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sw_slurm_qos {
    char name[64];
    double max_time;   /* seconds of a job; INFINITY: no limit */
    int32_t max_nodes; /* of a job; 0: no limit */
    int32_t max_gpus;  /* of a job, 0: no limit */
};

struct sw_slurm_association {        /* of the user with an account */
    char account[64], partition[64]; /* partition "": any */
    char qos[256];                   /* list */
    double max_time;
    int32_t max_nodes, max_gpus;
};

struct sw_slurm_accounting {
    bool known;
    char default_account[64];
    struct sw_slurm_qos *qos;
    struct sw_slurm_association *association;
    int32_t qos_count, association_count;
};

/* cluster: its ClusterName. Errors (SW_ENVIRONMENT): memory. */
int sw_slurm_accounting_load(const char *cluster, struct sw_slurm_accounting *out,
                             struct sw_error *err);
void sw_slurm_accounting_free(struct sw_slurm_accounting *accounting);

/* The lines of `sacctmgr -nP show qos format=Name,MaxWall,MaxTRES` and `... show assoc
 * format=Account,Partition,QOS,MaxWall,MaxTRES`, added to *out. Errors (SW_ENVIRONMENT): memory. */
int sw_slurm_accounting_read_qos(const char *text, struct sw_slurm_accounting *out,
                                 struct sw_error *err);
int sw_slurm_accounting_read_associations(const char *text, struct sw_slurm_accounting *out,
                                          struct sw_error *err);

const struct sw_slurm_qos *sw_slurm_find_qos(const struct sw_slurm_accounting *accounting,
                                             const char *name);
/* The one of that account (NULL: the default one) that counts in the partition; NULL: none. */
const struct sw_slurm_association *
sw_slurm_find_association(const struct sw_slurm_accounting *accounting, const char *account,
                          const char *partition);
/* Whether a name stands in a list with commas. */
bool sw_slurm_list_has(const char *list, const char *name);

#endif
