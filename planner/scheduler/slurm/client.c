#include "planner/scheduler/slurm/client.h"

#include "planner/scheduler/slurm/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Prefixes of variables that Slurm's commands read as options; most are in their man pages. */
static const char *const dropped[] = {
    "SLURM",     "SACCT",  "SALLOC_", "SATTACH_", "SBATCH_", "SBCAST_",  "SCANCEL_",
    "SCONTROL_", "SCRON",  "SDIAG_",  "SINFO_",   "SPRIO_",  "SQUEUE_",  "SREPORT_",
    "SRUN_",     "SSHARE", "SSTAT_",  "STRIGGER", "SVIEW_",  "COLUMNS=", NULL};
static const char *const kept[] = {"SLURM_CONF=", "SLURM_CONF_SERVER=", "SLURM_JWT=", NULL};
static const struct sw_process_client slurm = {
    .kept = kept,
    .dropped = dropped,
    .set = "SLURM_TIME_FORMAT=standard",
    .where = "do this where Slurm's commands are (Debian: slurm-client)"};

int sw_slurm_complain(struct sw_process_result *result, double seconds, struct sw_error *err)
{
    char text[256];
    snprintf(text, sizeof text, "%s", sw_process_complaint(result));
    /* report the cause from output before the timeout */
    const char *fatal = strstr(text, "fatal: ");
    const char *said = fatal != NULL ? fatal + strlen("fatal: ") : text;
    if (result->timed_out && said[0] == '\0')
        return sw_fail(err, SW_ENVIRONMENT,
                       "the Slurm controller does not answer within %.2g s; see 'scontrol ping'",
                       seconds);
    if (result->timed_out)
        return sw_fail(err, SW_ENVIRONMENT, "Slurm does not answer within %.2g s: %s", seconds,
                       said);
    if (strstr(said, "onfiguration") != NULL)
        return sw_fail(err, SW_ENVIRONMENT,
                       "cannot query Slurm: %s; do this on a machine of the cluster, or set "
                       "SLURM_CONF to its slurm.conf",
                       said);
    if (said[0] == '\0')
        return sw_fail(err, SW_ENVIRONMENT, "cannot query Slurm: it ended with exit code %d",
                       result->exit_code);
    return sw_fail(err, SW_ENVIRONMENT, "cannot query Slurm: %s", said);
}

/* "Name                = value" */
void sw_slurm_config_value(const char *text, const char *key, char *out, size_t bytes)
{
    const size_t length = strlen(key);
    for (const char *p = text; p != NULL; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (strncmp(p, key, length) != 0 || p[length] != ' ')
            continue;
        const char *value = strchr(p, '=');
        if (value == NULL)
            return;
        value += 1 + strspn(value + 1, " ");
        snprintf(out, bytes, "%.*s", (int)strcspn(value, "\n"), value);
        return;
    }
}

/* Refuses SLURM_CLUSTERS unless it names the cluster that is asked anyway. A run's record has job
 * numbers without a cluster, so jobs of two clusters could be confused. */
static int check_cluster(struct sw_error *err)
{
    static const char *const argv[] = {"scontrol", "show", "config", NULL};
    const char *wanted = getenv("SLURM_CLUSTERS");
    struct sw_process_result result = {0};
    char own[128] = "";
    int status = 0;
    if (wanted == NULL || *wanted == '\0')
        return 0;
    if (sw_process_run(&slurm, argv, NULL, SW_SLURM_FIRST_SECONDS, &result, err) != 0) {
        status = -1;
    } else if (result.timed_out || result.exit_code != 0) {
        status = sw_slurm_complain(&result, SW_SLURM_FIRST_SECONDS, err);
    } else {
        sw_slurm_config_value(result.out, "ClusterName", own, sizeof own);
        if (strcasecmp(own, wanted) != 0)
            status = sw_fail(err, SW_ENVIRONMENT,
                             "SLURM_CLUSTERS is '%.100s', and plan asks one cluster only, here "
                             "'%s'; unset it, or set SLURM_CONF to the slurm.conf of the other",
                             wanted, own);
    }
    sw_process_free(&result);
    return status;
}

int sw_slurm_process(const char *const *argv, const char *input, double limit_seconds,
                     struct sw_process_result *out, struct sw_error *err)
{
    *out = (struct sw_process_result){.exit_code = 127};
    if (check_cluster(err) != 0)
        return -1;
    return sw_process_run(&slurm, argv, input, limit_seconds, out, err);
}

int sw_slurm_run(const char *const *argv, const char *input, double seconds, const char *what,
                 struct sw_process_result *out, struct sw_error *err)
{
    if (sw_slurm_process(argv, input, seconds, out, err) != 0)
        return -1;
    if (!out->timed_out && out->exit_code == 0)
        return 0;
    sw_slurm_complain(out, seconds, err);
    return what != NULL ? sw_fail_context(err, "%s", what) : -1;
}
