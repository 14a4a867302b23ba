#include "planner/scheduler/slurm/words.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The first row whose word the reason begins with; as slurm_protocol_defs.h names them. */
static const struct {
    const char *reason;
    bool never;
    const char *words;
} reasons[] = {
    {"PartitionTimeLimit", true,
     "it will never start: its time limit is longer than the partition allows; cancel it, lower "
     "slurm.time or choose another partition"},
    {"PartitionNodeLimit", true,
     "it will never start: the partition does not allow so many nodes; cancel it and use fewer, or "
     "another partition"},
    {"PartitionDown", false, "the partition is down: wait for it, or use another one"},
    {"PartitionInactive", true, "the partition takes no jobs now: use another one"},
    {"PartitionConfig", true, "it will never start: the partition cannot run such a job"},
    {"Priority", false, "jobs with a higher priority are ahead of it"},
    {"Resources", false, "it is next: it waits until enough nodes are free"},
    {"AssocMaxWallDurationPerJobLimit", true,
     "it will never start: its time limit is longer than the account allows; lower slurm.time"},
    {"QOSMaxWallDurationPerJobLimit", true,
     "it will never start: its time limit is longer than the QOS allows; lower slurm.time"},
    {"AssocMaxNodePerJobLimit", true,
     "it will never start: the account does not allow so many nodes in a job"},
    {"QOSMaxNodePerJobLimit", true,
     "it will never start: the QOS does not allow so many nodes in a job"},
    {"AssocMaxJobsLimit", false, "the account runs as many jobs as it may: one of them must end"},
    {"AssociationJobLimit", false, "the account runs as many jobs as it may: one of them must end"},
    {"AssociationResourceLimit", false, "the account uses as much as it may"},
    {"AssociationTimeLimit", false, "the account has used up its time"},
    {"AssocGrp", false, "the account's jobs together use as much as they may: some must end"},
    {"AssocMax", false, "the account's limit for one job or user is reached"},
    {"QOSJobLimit", false, "the QOS runs as many jobs as it may: one of them must end"},
    {"QOSResourceLimit", false, "the QOS's jobs use as much as they may"},
    {"QOSTimeLimit", false, "the QOS has used up its time"},
    {"QOSNotAllowed", true, "it will never start: the partition does not take this QOS"},
    {"QOSUsageThreshold", false, "the account has used more than its share in this QOS"},
    {"QOSGrp", false, "the QOS's jobs together use as much as they may: some must end"},
    {"QOSMax", false, "the QOS's limit for one job or user is reached"},
    {"QOSMin", true, "it will never start: it asks for less than the QOS wants of a job"},
    {"MaxGRES", true, "it will never start: it asks for more accelerators than it may"},
    {"ReqNodeNotAvail", false,
     "nodes that it needs are down, drained or reserved; it waits until they are back"},
    {"Reserved for maintenance", false, "the nodes are reserved for maintenance"},
    {"DependencyNeverSatisfied", true,
     "it will never start: the job that it depends on did not end as the dependency requires; "
     "cancel it"},
    {"Dependency", false, "it waits for another job to end"},
    {"BeginTime", false, "its time to begin has not come (a requeued job waits two minutes)"},
    {"JobHeldUser", true, "it is held: 'scontrol release' lets it go"},
    {"JobHeldAdmin", true, "an administrator holds it: ask the people of the cluster"},
    {"job_requeued_in_held_state", true,
     "it was requeued and is held: 'scontrol release' lets it go"},
    {"launch_failed_requeued_held", true,
     "it could not be started, and is held: 'scontrol release' tries again"},
    {"launch failed requeued held", true,
     "it could not be started, and is held: 'scontrol release' tries again"},
    {"JobHoldMaxRequeue", true, "it was requeued too often, and is held: look at its log"},
    {"Licenses", false, "it waits for a license"},
    {"NodeDown", false, "a node that it needs is down"},
    {"BadConstraints", true, "it will never start: no node has what it asks for"},
    {"Constraint", true, "it will never start: no node has the features that it asks for"},
    {"ReservationDeleted", true, "its reservation was deleted"},
    {"Reservation", false, "its reservation has not begun"},
    {"Prolog", false, "its nodes are being prepared"},
    {"Cleaning", false, "its nodes are being cleaned up after the previous attempt"},
    {"InvalidAccount", true, "it will never start: the account is not valid"},
    {"InvalidQOS", true, "it will never start: the QOS is not valid"},
    {"AccountNotAllowed", true, "it will never start: the partition does not take this account"},
    {"BurstBuffer", false, "its burst buffer is being prepared"},
    {"FrontEndDown", false, "no front end node is up"},
    {"SystemFailure", false, "Slurm or the file system failed"},
    {"NonZeroExitCode", false, "it ended with a failure"},
    {"JobLaunchFailure", false,
     "it could not be started: the folder of its log is missing or cannot be written"},
    {"JobArrayTaskLimit", false, "as many tasks of its array run as may at a time"},
    {"DeadLine", true, "it cannot end before its deadline"},
    {"MaxMemPerLimit", true, "it will never start: it asks for more memory than it may"},
    {"TimeLimit", false, "it ran out of time"},
    {"None", false, "Slurm has not looked at it yet"},
};

const char *sw_slurm_reason_words(const char *reason, char *buffer, int32_t bytes, bool *never)
{
    if (never != NULL)
        *never = false;
    if (reason[0] == '\0')
        reason = "None";
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (strncmp(reason, reasons[i].reason, strlen(reasons[i].reason)) != 0)
            continue;
        if (never != NULL)
            *never = reasons[i].never;
        /* "ReqNodeNotAvail, UnavailableNodes:n[1-3]" */
        const char *nodes = strstr(reason, "UnavailableNodes:");
        const char *which = nodes != NULL ? nodes + strlen("UnavailableNodes:") : "";
        snprintf(buffer, (size_t)bytes, "%s%s%.100s", reasons[i].words,
                 which[0] != '\0' ? ": " : "", which);
        return buffer;
    }
    snprintf(buffer, (size_t)bytes, "Slurm says '%.100s'", reason);
    return buffer;
}

const char *sw_slurm_end_words(const char *state)
{
    static const char *const words[][2] = {
        {"CANCELLED", "it was cancelled"},
        {"TIMEOUT", "its time limit was reached"},
        {"NODE_FAIL", "one of its nodes failed"},
        {"PREEMPTED", "another job took its nodes"},
        {"BOOT_FAIL", "a node did not boot"},
        {"DEADLINE", "its deadline was reached"},
        {"OUT_OF_MEMORY", "a node ran out of memory"},
        {"FAILED", "it failed"},
        {"REVOKED", "another cluster runs it"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(state, words[i][0]) == 0)
            return words[i][1];
    return "";
}
