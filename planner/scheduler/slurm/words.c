#include "planner/scheduler/slurm/words.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Reasons in `squeue -o %r`, except those of limits: first the sentences of slurmctld, then the
 * names listed in slurm.schedmd.com/job_reason_codes.html, of releases 22.05 to 25.11. The first
 * row with which a reason begins counts; scontrol's '_' equals ' '. '@' in the words stands for the
 * job. */
static const struct {
    const char *reason;
    bool never;
    const char *words;
} reasons[] = {
    {"job requeued in held state", true,
     "it was requeued and is held: 'scontrol release @' lets it go"},
    {"job requeued in special exit state", true,
     "it was requeued for an exit code that this site looks into, and is held: 'scontrol release "
     "@' lets it go"},
    {"launch failed requeued held", true,
     "it could not be started on its nodes, and is held: 'scontrol release @' tries again"},
    {"launch failure limit exceeded requeued held", true,
     "it could not be started too often, and is held: 'scontrol release @' tries again"},
    {"user env retrieval failed requeued held", true,
     "its node could not read your login environment, and it is held: see that your shell's start "
     "files end at once; 'scontrol release @' tries again"},
    {"Job env setup error", true,
     "its node could not read your login environment, and it is held: 'scontrol release @' tries "
     "again"},
    {"slurm_cred_create error", false, "Slurm could not start it, and tries again"},
    {"Prolog error", false, "the site's checks of a node failed, and it waits for another one"},
    {"Epilog error", false, "the site's clean-up of a node failed, and it waits for another one"},
    {"Nodes required for job are DOWN", false,
     "too few of the nodes that it may have are up: others are down, drained, or reserved for jobs "
     "of partitions with a higher priority; 'sinfo -R' says which and why"},
    {"ReqNodeNotAvail, May be reserved for other job", false,
     "nodes that it needs are kept for a reservation or another job; with a shorter slurm.time it "
     "may end before that begins"},
    {"ReqNodeNotAvail, Reserved for maintenance", false,
     "nodes that it needs are reserved for maintenance before it would end: 'scontrol show "
     "reservation' says until when; with a shorter slurm.time it may start before"},
    {"ReqNodeNotAvail", false,
     "nodes that it needs are down, drained or reserved; it waits until they are back"},
    {"Reserved for maintenance", false, "the nodes are reserved for maintenance"},
    {"Required nodes are reserved", false, "nodes that it needs are reserved"},
    {"Reservation was deleted", true, "its reservation was deleted: cancel it"},
    {"Job's account not", true,
     "it will never start: the partition does not take this account; cancel it and set "
     "slurm.account or slurm.partition"},
    {"Job's QOS not", true,
     "it will never start: the partition does not take this QOS; cancel it and set slurm.qos or "
     "slurm.partition"},
    {"Job's required and excluded node lists overlap", true,
     "it will never start: slurm.nodelist and slurm.exclude name the same nodes"},
    {"Job's requested licenses are invalid", true,
     "it will never start: there are no such licenses; cancel it and correct slurm.licenses"},
    {"Job is at or exceeds", true, "it used up what its account or QOS may use"},
    {"incomplete hetjob", true, "a part of its heterogeneous job is missing"},
    {"Burst buffer ", true, "its burst buffer failed, and it is held: see 'scontrol show job @'"},
    {"burst buffer ", true, "its burst buffer failed, and it is held: see 'scontrol show job @'"},
    {"burst_buffer/", true, "its burst buffer failed, and it is held: see 'scontrol show job @'"},

    {"None", false, "Slurm has not looked at it yet"},
    {"Priority", false, "jobs with a higher priority are ahead of it"},
    {"Resources", false, "it is next: it waits until enough nodes are free"},
    {"SchedDefer", false, "Slurm has not looked at it yet"},
    {"DependencyNeverSatisfied", true,
     "it will never start: the job that it depends on did not end as the dependency requires; "
     "cancel it"},
    {"Dependency", false, "it waits for another job to end"},
    {"BeginTime", false, "its time to begin has not come (a requeued job waits two minutes)"},
    {"JobHeldUser", true, "it is held: 'scontrol release @' lets it go"},
    {"JobHeldAdmin", true, "an administrator holds it: ask the people of the cluster"},
    {"JobHoldMaxRequeue", true,
     "it was requeued too often, and is held: look at its log; 'scontrol release @' lets it go"},
    {"PartitionTimeLimit", true,
     "it will never start: its time limit is longer than the partition allows; cancel it, lower "
     "slurm.time or choose another partition"},
    {"PartitionNodeLimit", true,
     "it will never start: the partition does not allow so many nodes; cancel it and use fewer, or "
     "another partition"},
    {"PartitionDown", false, "the partition is down: wait for it, or use another one"},
    {"PartitionInactive", true, "the partition takes no jobs now: use another one"},
    {"PartitionConfig", true, "it will never start: the partition cannot run such a job"},
    {"AccountingPolicy", false, "a limit of the account or the QOS is reached"},
    {"AccountNotAllowed", true, "it will never start: the partition does not take this account"},
    {"InvalidAccount", true, "it will never start: the account is not valid"},
    {"InvalidQOS", true, "it will never start: the QOS is not valid"},
    {"QOSNotAllowed", true, "it will never start: the partition does not take this QOS"},
    {"QOSUsageThreshold", false, "the account has used more than its share in this QOS"},
    {"AssociationJobLimit", false, "the account runs as many jobs as it may: one of them must end"},
    {"AssociationResourceLimit", false, "the account uses as much as it may"},
    {"AssociationTimeLimit", false, "the account has used up its time"},
    {"QOSJobLimit", false, "the QOS runs as many jobs as it may: one of them must end"},
    {"QOSResourceLimit", false, "the QOS's jobs use as much as they may"},
    {"QOSTimeLimit", false, "the QOS has used up its time"},
    {"MaxMemPerLimit", true, "it will never start: it asks for more memory than it may"},
    {"MaxPoweredUpNodes", false,
     "as many nodes are powered up as may be: it waits for one of them"},
    {"MpiPortsBusy", false, "the ports that its MPI needs are in use on its nodes"},
    {"Licenses", false, "it waits for a license"},
    {"NodeDown", false, "a node that it needs is down: 'sinfo -R' says why"},
    {"BadConstraints", true, "it will never start: no node has what it asks for"},
    {"Constraints", true, "it will never start: no node has the features that it asks for"},
    {"ReservationDeleted", true, "its reservation was deleted: cancel it"},
    {"ReservationInvalid", true, "it will never start: its reservation is not one that it may use"},
    {"Reservation", false, "its reservation has not begun"},
    {"Prolog", false, "its nodes are being prepared"},
    {"Cleaning", false, "its nodes are being cleaned up after the previous attempt"},
    {"BurstBufferOperation", true, "its burst buffer failed: see 'scontrol show job @'"},
    {"BurstBuffer", false, "its burst buffer is being prepared"},
    {"FedJobLock", false, "another cluster of the federation is about to start it"},
    {"FrontEndDown", false, "no front end node is up"},
    {"PowerNotAvail", false, "there is not enough electric power for it now"},
    {"PowerReserved", false, "electric power is reserved for others"},
    {"BlockMaxError", false, "a block of nodes that it needs is in error"},
    {"BlockFreeAction", false, "a block of nodes that it needs is being freed"},
    {"JobArrayTaskLimit", false, "as many tasks of its array run as may at a time"},
    {"DeadLine", true, "it cannot end before its deadline"},
    /* from an earlier attempt */
    {"SystemFailure", false, "Slurm or the file system failed"},
    {"NonZeroExitCode", false, "it ended with a failure"},
    {"RaisedSignal", false, "a signal ended it"},
    {"JobLaunchFailure", false,
     "it could not be started: the folder of its log is missing or cannot be written"},
    {"InactiveLimit", false, "Slurm ended it: it was idle too long"},
    {"OutOfMemory", false, "a node ran out of memory"},
    {"TimeLimit", false, "it ran out of time"},
};

/* ---- Limits ---- */

/* A reason that names a limit: "AssocGrpCpuLimit", "QOSMaxGRESMinutesPerJob". */
enum limit_kind { GROUP, MOST, LEAST };
struct limit {
    enum limit_kind kind;
    const char *who;         /* "account", "QOS" */
    const char *what, *much; /* "CPUs", "many"; what NULL: jobs that wait or run */
    bool is_time, is_jobs;   /* true if it counts time, or jobs, instead of resources */
    bool per_job, per_node, per_user, per_account;
    bool minutes, run_minutes; /* true for resources times the time of all jobs, of running jobs */
};

static const struct {
    const char *text, *words, *much;
} resources[] = {
    {"CPU", "CPUs", "many"},         {"Cpu", "CPUs", "many"},
    {"Memory", "memory", "much"},    {"Mem", "memory", "much"},
    {"Node", "nodes", "many"},       {"GRES", "accelerators", "many"},
    {"License", "licenses", "many"}, {"BB", "burst buffers", "many"},
    {"Energy", "energy", "much"},    {"Billing", "billing units", "many"},
    {"SubmitJob", NULL, "many"},     {"Jobs", "jobs", "many"},
    {"Wall", "time", "much"},        {"Unknown", "of a resource", "much"},
};

static bool begins(const char **at, const char *with)
{
    const size_t length = strlen(with);
    if (strncmp(*at, with, length) != 0)
        return false;
    *at += length;
    return true;
}

static void read_scope(const char *rest, struct limit *out)
{
    out->per_job = strstr(rest, "PerJob") != NULL;
    out->per_node = strstr(rest, "PerNode") != NULL;
    out->per_user = strstr(rest, "PerUser") != NULL;
    out->per_account = strstr(rest, "PerAccount") != NULL;
    out->run_minutes = strstr(rest, "RunMin") != NULL;
    out->minutes = !out->run_minutes && strstr(rest, "Min") != NULL;
}

static bool read_limit(const char *reason, struct limit *out)
{
    const char *p = reason;
    const bool account = begins(&p, "Assoc");
    const bool qos = !account && begins(&p, "QOS");
    *out = (struct limit){.who = account ? "account" : "QOS"};
    if ((account || qos) && begins(&p, "Grp"))
        out->kind = GROUP;
    else if (begins(&p, "Max"))
        out->kind = MOST;
    else if (qos && begins(&p, "Min"))
        out->kind = LEAST;
    else
        return false;
    for (size_t i = 0; i < sizeof resources / sizeof resources[0]; i++) {
        if (!begins(&p, resources[i].text))
            continue;
        out->what = resources[i].words;
        out->much = resources[i].much;
        out->is_time = strcmp(resources[i].text, "Wall") == 0;
        out->is_jobs = strcmp(resources[i].text, "Jobs") == 0;
        read_scope(p, out);
        return true;
    }
    return false;
}

/* Says that the job itself asks for too much. */
static void tell_never(const struct limit *l, char *buffer, size_t bytes)
{
    static const char never[] = "it will never start: ";
    if (l->kind == LEAST)
        snprintf(buffer, bytes,
                 "%sit asks for less %s than the QOS wants of a job; cancel it and ask for more, "
                 "or set another slurm.qos",
                 never, l->what);
    else if (l->is_time)
        snprintf(buffer, bytes,
                 "%sits time limit is longer than the %s allows; cancel it and lower slurm.time",
                 never, l->who);
    else if (l->minutes)
        snprintf(buffer, bytes,
                 "%sits %s times its time limit are more than the %s allows; cancel it and lower "
                 "slurm.time",
                 never, l->what, l->who);
    else
        snprintf(buffer, bytes, "%sthe %s does not allow so %s %s %s; cancel it and ask for less",
                 never, l->who, l->much, l->what, l->per_job ? "in a job" : "on a node");
}

/* Says that other jobs use up the limit. */
static void tell_reached(const struct limit *l, char *buffer, size_t bytes)
{
    const char *of = l->per_user ? " for you" : l->per_account ? " for the account" : "";
    if (l->what == NULL)
        snprintf(buffer, bytes,
                 "the %s's limit of jobs that wait or run is reached%s: one of them must end",
                 l->who, of);
    else if (l->is_jobs)
        snprintf(buffer, bytes,
                 "the %s's limit of jobs that run is reached%s: one of them must end", l->who, of);
    else if (l->run_minutes)
        snprintf(buffer, bytes,
                 "the time limits of the %s's running jobs hold as %s %s as they may%s: some must "
                 "end; a lower slurm.time needs less",
                 l->who, l->much, l->what, of);
    else if (l->minutes || l->is_time)
        snprintf(buffer, bytes,
                 "the %s has used up its time%s%s: ask the people of the cluster, or set another "
                 "slurm.%s",
                 l->who, l->is_time ? "" : " of ", l->is_time ? "" : l->what,
                 l->who[0] == 'a' ? "account" : "qos");
    else
        snprintf(buffer, bytes, "the %s's jobs together use as %s %s as they may%s: some must end",
                 l->who, l->much, l->what, of);
}

static bool tell_limit(const char *reason, char *buffer, size_t bytes, bool *never)
{
    struct limit l;
    if (!read_limit(reason, &l))
        return false;
    *never = l.kind == LEAST || (l.kind == MOST && (l.per_job || l.per_node));
    (*never ? tell_never : tell_reached)(&l, buffer, bytes);
    return true;
}

/* ---- Words ---- */

static bool is_same(const char *reason, const char *row)
{
    for (; *row != '\0'; row++, reason++)
        if (*reason != *row && !(*reason == '_' && *row == ' '))
            return false;
    return true;
}

/* "Reservation NAME was deleted" */
static bool is_deleted_reservation(const char *reason)
{
    static const char end[] = "was deleted";
    const size_t length = strlen(reason);
    return strncmp(reason, "Reservation", 11) == 0 && length > sizeof end &&
           is_same(reason + length + 1 - sizeof end, end);
}

/* Replaces '@' by the job's number. */
static void fill(const char *words, const char *job, char *buffer, size_t bytes)
{
    size_t used = 0;
    for (const char *p = words; *p != '\0' && used + 1 < bytes; p++) {
        if (*p != '@') {
            buffer[used++] = *p;
            continue;
        }
        const int wrote = snprintf(buffer + used, bytes - used, "%s", job);
        used += (size_t)wrote < bytes - used ? (size_t)wrote : bytes - used - 1;
    }
    buffer[used] = '\0';
}

const char *sw_slurm_reason_words(const char *reason, const char *job, char *buffer, int32_t bytes,
                                  bool *never)
{
    bool ignored;
    const size_t room = (size_t)bytes;
    never = never != NULL ? never : &ignored;
    *never = false;
    if (reason[0] == '\0')
        reason = "None";
    if (is_deleted_reservation(reason))
        reason = "ReservationDeleted";
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (!is_same(reason, reasons[i].reason))
            continue;
        *never = reasons[i].never;
        fill(reasons[i].words, job, buffer, room);
        /* "ReqNodeNotAvail, UnavailableNodes:n[1-3]" */
        const char *nodes = strstr(reason, "UnavailableNodes:");
        const size_t used = strlen(buffer);
        if (nodes != NULL && nodes[strlen("UnavailableNodes:")] != '\0')
            snprintf(buffer + used, room - used, ": %.100s", nodes + strlen("UnavailableNodes:"));
        return buffer;
    }
    if (!tell_limit(reason, buffer, room, never))
        snprintf(buffer, room, "Slurm says '%.200s'", reason);
    return buffer;
}

/* ---- Ends ---- */

static const struct {
    const char *state, *words, *advice;
} ends[] = {
    {"CANCELLED", "it was cancelled", ""},
    {"TIMEOUT", "its time limit was reached", "a longer slurm.time gives it more steps a job"},
    {"NODE_FAIL", "one of its nodes failed", ""},
    {"PREEMPTED", "another job took its nodes", "another slurm.qos or slurm.partition may keep it"},
    {"BOOT_FAIL", "a node did not boot", ""},
    {"DEADLINE", "its deadline was reached", ""},
    {"OUT_OF_MEMORY", "a node ran out of memory", "slurm.mem asks for more"},
    {"FAILED", "it failed", ""},
    {"REVOKED", "another cluster runs it", ""},
};

const char *sw_slurm_end_words(const char *state)
{
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (strcmp(state, ends[i].state) == 0)
            return ends[i].words;
    return "";
}

const char *sw_slurm_end_advice(const char *state)
{
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (strcmp(state, ends[i].state) == 0)
            return ends[i].advice;
    return "";
}
