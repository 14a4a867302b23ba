#include "planner/scheduler/slurm/budget.h"

#include "planner/command/format.h"
#include "planner/scheduler/slurm/demand.h"
#include "planner/scheduler/slurm/limits.h"
#include "planner/scheduler/slurm/settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A job and its limits' holders. */
struct asking {
    struct sw_slurm_holders by;
    struct sw_slurm_use use;
    int64_t tasks;     /* tasks of its array */
    double held, used; /* minutes of a task: those that `safe` counts against limits, and those
                          counted when it has run its whole time */
    bool safe;
    struct sw_budgets *out;
    struct sw_error *err;
};

/* ---- Words ---- */

/* Unit for an hour of a resource, and the end of Slurm's reason for a job that waits for it, from
 * associations and from qos. */
static const struct resource {
    const char *name, *unit, *reason, *reason_of_qos;
    double scale; /* our unit in Slurm's */
} resources[] = {
    {"cpu", "CPU-hours", "CPUMinutesLimit", "CPUMinutesLimit", 1},
    {"mem", "GiB-hours of memory", "MemMinutes", "MemoryMinutes", 1024},
    {"node", "node-hours", "NodeMinutes", "NodeMinutes", 1},
    {"gres/gpu", "GPU-hours", "GRESMinutes", "GRESMinutes", 1},
    {"billing", "billing-hours", "BillingMinutes", "BillingMinutes", 1},
    {"wall", "hours of jobs", "WallLimit", "WallLimit", 1},
};

/* Any other resource: "gres/gpu:h100", "license/scratch". */
static struct resource resource_of(const char *name)
{
    for (size_t i = 0; i < sizeof resources / sizeof resources[0]; i++)
        if (strcasecmp(resources[i].name, name) == 0)
            return resources[i];
    const char *reason = strncmp(name, "license/", 8) == 0 ? "LicenseMinutes" : "GRESMinutes";
    return (struct resource){name, NULL, reason, reason, 1};
}

/* "1,234.5" */
static char *format_hours(double minutes, double scale, char buffer[SW_FORMAT_BYTES])
{
    const double hours = minutes / 60 / scale;
    if (hours < 99.95 && hours != floor(hours))
        snprintf(buffer, SW_FORMAT_BYTES, "%.*f", hours < 0.995 ? 2 : 1, hours);
    else
        sw_format_count(hours, buffer);
    return buffer;
}

/* Adds "; with a time limit of 18:45:00 it has enough", if a limit of minutes would do. */
static void say_enough(const struct sw_budget *b, double minutes, char *out, size_t bytes)
{
    char limit[SW_TIME_BYTES];
    const double enough =
        isinf(b->asked) || b->asked <= 0 ? 0 : floor(minutes * sw_budget_left(b) / b->asked);
    out[0] = '\0';
    if (enough < 1)
        return;
    sw_slurm_time_format((int64_t)enough, limit);
    snprintf(out, bytes, "; with a time limit of %s it has enough", limit);
}

/* Decay of usage, in words. */
static const char *say_decay(const struct asking *a, const struct sw_budget *b, char *buffer,
                             size_t bytes)
{
    char half[SW_FORMAT_BYTES];
    const struct sw_slurm_site *site = &a->by.facts->site;
    const struct sw_slurm_qos *q = strncmp(b->holder, "qos ", 4) == 0
                                       ? sw_slurm_find_qos(a->by.accounting, b->holder + 4)
                                       : NULL;
    const bool decays = site->half_life_s > 0 && !(q != NULL && q->keeps_usage);
    snprintf(buffer, bytes, "%s", site->usage_is_reset ? "usage is reset from time to time" : "");
    if (decays)
        snprintf(buffer, bytes, "usage halves every %s",
                 sw_format_duration(site->half_life_s, half));
    else if (!site->usage_is_reset)
        snprintf(buffer, bytes, "usage does not decay%s",
                 q != NULL && q->keeps_usage ? " (NoDecay)" : "");
    return buffer;
}

/* "account research: 1,200 of 10,000 GPU-hours are left (GrpTRESMins), and the job may take 1,536:
 * ..." */
static void say(const struct asking *a, struct sw_budget *b)
{
    char left[SW_FORMAT_BYTES], most[SW_FORMAT_BYTES], job[SW_FORMAT_BYTES], held[SW_FORMAT_BYTES],
        busy[96] = "", enough[96], decay[96], unit[112];
    const struct resource r = resource_of(b->resource);
    const bool of_qos = strncmp(b->holder, "qos ", 4) == 0;
    if (r.unit != NULL)
        snprintf(unit, sizeof unit, "%s", r.unit);
    else
        snprintf(unit, sizeof unit, "hours of %.90s", b->resource);
    if (isinf(b->asked))
        snprintf(job, sizeof job, "any number");
    else
        format_hours(b->asked, r.scale, job);
    if (b->used < 0) {
        snprintf(b->message, sizeof b->message,
                 "%s: at most %s %s (%s), and the controller does not tell what is used; the job "
                 "may take %s",
                 b->holder, format_hours(b->most, r.scale, most), unit, b->limit, job);
        return;
    }
    if (b->held > 0)
        snprintf(busy, sizeof busy, " beside the %s that running jobs may take",
                 format_hours(b->held, r.scale, held));
    const int used = snprintf(b->message, sizeof b->message,
                              "%s: %s of %s %s are left%s (%s); the job may take %s", b->holder,
                              format_hours(sw_budget_left(b), r.scale, left),
                              format_hours(b->most, r.scale, most), unit, busy, b->limit, job);
    const size_t length = used > 0 ? (size_t)used : 0, room = sizeof b->message - length;
    char *rest = b->message + length;
    say_enough(b, a->safe ? a->held : a->used, enough, sizeof enough);
    say_decay(a, b, decay, sizeof decay);
    if (b->end == SW_BUDGET_KILLED)
        snprintf(rest, room,
                 ": it starts and is killed when they are used up, for AccountingStorageEnforce "
                 "lacks 'safe'%s",
                 enough);
    else if (b->end == SW_BUDGET_WAITS)
        snprintf(rest, room, ": it waits (%sGrp%s) until there are more; %s%s",
                 of_qos ? "QOS" : "Assoc", of_qos ? r.reason_of_qos : r.reason, decay, enough);
}

/* ---- Minutes ---- */

/* Figure in a list of usage; -1: unknown. */
static double usage_of(const char *list, const char *tres)
{
    return list != NULL ? (double)sw_slurm_limit_of(list, tres) : -1;
}

static enum sw_budget_end end_of(const struct asking *a, const struct sw_budget *b)
{
    if (b->used < 0)
        return SW_BUDGET_ENOUGH;
    if (b->used >= b->most)
        return SW_BUDGET_WAITS; /* a group without any starts no job */
    if (b->asked <= b->most - b->used - b->held)
        return SW_BUDGET_ENOUGH;
    return a->safe ? SW_BUDGET_WAITS : SW_BUDGET_KILLED;
}

/* tres NULL: GrpWall. amount: of the resource. */
static int add_minutes(const struct asking *a, const char *tres, double amount)
{
    struct sw_slurm_group group[SW_SLURM_HOLDERS];
    const int32_t count = amount > 0 ? sw_slurm_group_minutes(&a->by, tres, group) : 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t holder = group[i].holder;
        const struct sw_slurm_limits *limits = a->by.of[holder].limits;
        struct sw_budget *b = sw_budgets_add(a->out, a->err);
        if (b == NULL)
            return -1;
        const bool of_qos = a->by.of[holder].qos != NULL;
        snprintf(b->holder, sizeof b->holder, "%s %.80s", of_qos ? "qos" : "account",
                 a->by.of[holder].name);
        /* two associations of one account: the user's own and the account's */
        if (!of_qos && holder == a->by.qos_count)
            snprintf(b->holder, sizeof b->holder, "your share of account %.60s",
                     a->by.of[holder].name);
        snprintf(b->limit, sizeof b->limit, "%s", tres != NULL ? "GrpTRESMins" : "GrpWall");
        snprintf(b->resource, sizeof b->resource, "%s", tres != NULL ? tres : "wall");
        b->most = (double)group[i].minutes;
        b->used = tres != NULL ? usage_of(limits->used, tres) : limits->used_wall;
        b->held = tres == NULL ? 0 : usage_of(limits->running, tres);
        b->asked = amount * (a->safe ? a->held : a->used) * (double)a->tasks;
        b->end = end_of(a, b);
        say(a, b);
    }
    return 0;
}

/* ---- Licenses ---- */

static void say_license(struct sw_budget *b, const struct sw_slurm_license *license)
{
    char asked[SW_FORMAT_BYTES], all[SW_FORMAT_BYTES], left[SW_FORMAT_BYTES], reserved[48] = "";
    sw_format_count(b->asked, asked);
    if (license == NULL) {
        snprintf(
            b->message, sizeof b->message,
            "there is no license '%.80s': sbatch refuses the job; see 'scontrol show licenses'",
            b->resource);
        return;
    }
    if (b->held > 0)
        snprintf(reserved, sizeof reserved, ", %s are reserved", sw_format_count(b->held, left));
    snprintf(b->message, sizeof b->message,
             "licenses %.80s: %s of %s are free%s; the job takes %s%s", b->resource,
             sw_format_count((double)license->free, left), sw_format_count(b->most, all), reserved,
             asked,
             b->end == SW_BUDGET_REFUSED ? ": sbatch refuses it"
             : b->end == SW_BUDGET_WAITS ? ": it waits (Licenses) until they are free"
                                         : "");
}

/* Adds the entries of --licenses: "scratch:2,nastran@server". */
static int add_licenses(const struct sw_job_request *request,
                        const struct sw_slurm_licenses *licenses, struct asking *a)
{
    const char *asked = sw_job_request_get(request, "licenses");
    /* "a|b": either suffices (24.11), and the controller chooses */
    if (asked == NULL || !licenses->known || strchr(asked, '|') != NULL)
        return 0;
    for (const char *p = asked; *p != '\0'; p += strcspn(p, ",;"), p += strspn(p, ",;")) {
        const size_t name = strcspn(p, ":,;");
        struct sw_budget *b = name > 0 ? sw_budgets_add(a->out, a->err) : NULL;
        if (b == NULL && name > 0)
            return -1;
        if (b == NULL)
            continue;
        snprintf(b->resource, sizeof b->resource, "%.*s", (int)name, p);
        snprintf(b->holder, sizeof b->holder, "the site");
        snprintf(b->limit, sizeof b->limit, "Licenses");
        const struct sw_slurm_license *license = sw_slurm_licenses_find(licenses, b->resource);
        b->is_license = true;
        b->asked = p[name] == ':' ? strtod(p + name + 1, NULL) : 1;
        if (license != NULL) {
            b->most = (double)license->total;
            b->used = (double)license->used;
            b->held = (double)license->reserved;
        }
        b->end = license == NULL || b->asked > b->most ? SW_BUDGET_REFUSED
                 : b->asked > (double)license->free    ? SW_BUDGET_WAITS
                                                       : SW_BUDGET_ENOUGH;
        say_license(b, license);
    }
    return 0;
}

/* ---- All budgets ---- */

static int add_all(const struct sw_job_request *request, const struct sw_slurm_licenses *licenses,
                   struct asking *a)
{
    const struct sw_slurm_accounting *accounting = a->by.accounting;
    const bool counted = accounting->known && !accounting->no_limits && !a->by.facts->site.no_usage;
    for (int32_t i = 0; i < a->use.count && counted; i++)
        if (add_minutes(a, a->use.of[i].name, a->use.of[i].least) != 0)
            return -1;
    if (counted && add_minutes(a, NULL, 1) != 0)
        return -1;
    return add_licenses(request, licenses, a);
}

int sw_slurm_budgets_find(const struct sw_job_request *request, const struct sw_slurm_facts *facts,
                          const struct sw_slurm_accounting *accounting,
                          const struct sw_slurm_licenses *licenses, struct sw_budgets *out,
                          struct sw_error *err)
{
    char partition[128], qos[128];
    struct asking a = {.safe = !accounting->no_safe, .out = out, .err = err};
    struct sw_slurm_demand demand;
    const char *names = sw_job_request_get(request, "partition"),
               *qoses = sw_job_request_get(request, "qos"),
               *time = sw_job_request_get(request, "time");
    snprintf(partition, sizeof partition, "%.*s", names != NULL ? (int)strcspn(names, ",") : 0,
             names != NULL ? names : "");
    snprintf(qos, sizeof qos, "%.*s", qoses != NULL ? (int)strcspn(qoses, ",") : 0,
             qoses != NULL ? qoses : "");
    const struct sw_slurm_partition *p =
        sw_slurm_find_partition(facts, names != NULL ? partition : NULL);
    if (p == NULL)
        return 0;
    sw_slurm_holders_find(facts, p, accounting, sw_job_request_get(request, "account"),
                          qoses != NULL ? qos : NULL, &a.by);
    sw_slurm_demand_read(request, &demand);
    (void)sw_slurm_demand_settle(&demand, facts, p);
    sw_slurm_use_find(&demand, facts, p, &a.use);
    a.tasks = demand.tasks;
    sw_slurm_job_minutes(&a.by, time != NULL ? sw_slurm_time_seconds(time) : p->default_time,
                         &a.held, &a.used);
    const int status = add_all(request, licenses, &a);
    sw_slurm_demand_free(&demand);
    return status;
}
