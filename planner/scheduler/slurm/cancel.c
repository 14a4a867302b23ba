/* Ends jobs: scancel, and scontrol to keep them from restarting. */
#include "planner/scheduler/slurm/cancel.h"

#include "planner/scheduler/slurm/client.h"

#include <stdio.h>
#include <string.h>

static const double command_seconds = 4;

static int run(const char *const *argv, struct sw_error *err)
{
    struct sw_process_result result = {0};
    int status = sw_slurm_process(argv, NULL, command_seconds, &result, err);
    if (status == 0 && result.timed_out)
        status = sw_fail(err, SW_ENVIRONMENT, "Slurm does not answer: %s took longer than %.0f s",
                         argv[0], command_seconds);
    else if (status == 0 && result.exit_code != 0)
        status = sw_fail(err, SW_ENVIRONMENT, "%s: %.300s", argv[0], sw_process_complaint(&result));
    sw_process_free(&result);
    return status;
}

/* Asks squeue for a job's steps in a format. The caller frees result. false: no answer. */
static bool list_steps(const char *id, const char *format, struct sw_process_result *result)
{
    char which[192];
    struct sw_error ignored = {0};
    snprintf(which, sizeof which, "--jobs=%s", id);
    const char *const list[] = {"squeue", "--noheader", "-a", "--steps", which, "-o", format, NULL};
    return sw_slurm_process(list, NULL, command_seconds, result, &ignored) == 0 &&
           result->exit_code == 0 && result->out != NULL;
}

/* Sends KILL to every step, which would otherwise get TERM at the job's end and save. Steps that
 * survive end when the job is cancelled. */
static void kill_steps(const char *id)
{
    enum { MOST_STEPS = 16 };
    struct sw_process_result result = {0};
    struct sw_error ignored = {0};
    const char *kill[MOST_STEPS + 3] = {"scancel", "--signal=KILL"};
    int32_t count = 0;
    if (list_steps(id, "%i", &result)) {
        char *rest = NULL;
        for (char *step = strtok_r(result.out, " \n", &rest); step != NULL && count < MOST_STEPS;
             step = strtok_r(NULL, " \n", &rest)) {
            const char *dot = strchr(step, '.'); /* "42.0"; not "42.batch", "42.extern" */
            if (dot != NULL && dot[1] >= '0' && dot[1] <= '9')
                kill[2 + count++] = step;
        }
    }
    if (count > 0)
        (void)run(kill, &ignored);
    sw_process_free(&result);
}

int sw_slurm_end(const char *id, bool kill, struct sw_error *err)
{
    const char *const plain[] = {"scancel", id, NULL};
    if (kill)
        kill_steps(id);
    return run(plain, err);
}

/* Keeps Slurm from restarting the job when a node fails or its script asks meanwhile; some sites do
 * not let users do so. */
void sw_slurm_forbid_requeue(const char *id)
{
    char job[192];
    struct sw_error ignored = {0};
    snprintf(job, sizeof job, "JobId=%s", id);
    const char *const argv[] = {"scontrol", "update", job, "Requeue=0", NULL};
    (void)run(argv, &ignored);
}

/* True if the ranks are not a step: mpirun's daemons are the steps ("orted", in Open MPI 5
 * "prted"), or it needs none, on one node. */
static bool is_of_mpirun(const char *id)
{
    struct sw_process_result result = {0};
    bool answered = list_steps(id, "%i %j", &result), of_srun = false;
    char *rest = NULL;
    for (char *step = answered ? strtok_r(result.out, "\n", &rest) : NULL; step != NULL;
         step = strtok_r(NULL, "\n", &rest)) {
        const char *dot = strchr(step, '.'), *name = strchr(step, ' ');
        if (dot != NULL && dot[1] >= '0' && dot[1] <= '9' && name != NULL)
            of_srun = of_srun || (strcmp(name, " orted") != 0 && strcmp(name, " prted") != 0);
    }
    sw_process_free(&result);
    return answered && !of_srun;
}

/* The signal would end mpirun's daemons, so the job's process passes it on. */
int sw_slurm_interrupt(const char *id, struct sw_error *err)
{
    const char *const argv[] = {"scancel", "--signal=INT", id, NULL};
    const char *const batch[] = {"scancel", "--batch", "--signal=INT", id, NULL};
    return run(is_of_mpirun(id) ? batch : argv, err);
}

/* Turns squeue's "42_[4-15%8]" into scancel's form, without the limit of concurrent tasks. false:
 * not accepted, as "42_[0-98:2]" and lists cut short, with or without dots. */
bool sw_slurm_plain_id(const char *id, char out[SW_SHOWN_JOB_BYTES])
{
    const size_t length = strcspn(id, "%]");
    memcpy(out, id, length);
    out[length] = id[length] != '\0' ? ']' : '\0';
    out[length + (id[length] != '\0')] = '\0';
    return strpbrk(id, ":.") == NULL && (strchr(id, '[') == NULL || strchr(id, ']') != NULL);
}
