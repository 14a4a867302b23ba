/* Usage that the controller counts against limits of groups: minutes of trackable resources by
 * account and qos, decayed by the site's rule, and licenses. The same figures as sshare's, which
 * leaves out qos. */
#ifndef SW_SLURM_USAGE_H
#define SW_SLURM_USAGE_H

#include "planner/scheduler/slurm/accounting.h"

/* Asks the controller for usage of GrpTRESMins and GrpWall, if a qos or an account of the user has
 * such a limit. Figures that the controller hides (PrivateData) stay unknown, which is no error.
 * Errors (SW_ENVIRONMENT): memory. */
int sw_slurm_usage_load(struct sw_slurm_accounting *accounting, struct sw_error *err);
/* Parses lines of `scontrol -o show assoc_mgr flags=assoc,qos`; user: owner of the associations.
 * Errors (SW_ENVIRONMENT): memory. */
int sw_slurm_usage_read(const char *text, const char *user, struct sw_slurm_accounting *accounting,
                        struct sw_error *err);

struct sw_slurm_license {
    char name[80]; /* "scratch", "nastran@server" */
    int64_t total, used, free, reserved;
};
struct sw_slurm_licenses {
    bool known;
    struct sw_slurm_license *of;
    int32_t count;
};
/* Asks for all licenses. Without an answer `known` stays false. Errors (SW_ENVIRONMENT): memory.
 * Free with sw_slurm_licenses_free, also after an error. */
int sw_slurm_licenses_load(struct sw_slurm_licenses *out, struct sw_error *err);
/* Parses lines of `scontrol -o show licenses`. Errors (SW_ENVIRONMENT): memory. */
int sw_slurm_licenses_read(const char *text, struct sw_slurm_licenses *out, struct sw_error *err);
void sw_slurm_licenses_free(struct sw_slurm_licenses *licenses);
/* NULL: not found. */
const struct sw_slurm_license *sw_slurm_licenses_find(const struct sw_slurm_licenses *licenses,
                                                      const char *name);

#endif
