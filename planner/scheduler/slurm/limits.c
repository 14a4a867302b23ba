#include "planner/scheduler/slurm/limits.h"

#include "planner/command/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHY = 256 };

static bool refuse(char why[WHY], const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(char why[WHY], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, WHY, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- Holders of limits ---- */

static void add_holder(struct sw_slurm_holders *out, const struct sw_slurm_qos *qos,
                       const char *name, const struct sw_slurm_limits *limits)
{
    if (out->count == SW_SLURM_HOLDERS)
        return;
    out->of[out->count].qos = qos;
    out->of[out->count].name = name;
    out->of[out->count++].limits = limits;
}

void sw_slurm_holders_find(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                           const struct sw_slurm_accounting *accounting, const char *account,
                           const char *qos, struct sw_slurm_holders *out)
{
    const struct sw_slurm_association *a = sw_slurm_find_association(accounting, account, p->name);
    const struct sw_slurm_qos *own = sw_slurm_find_qos(accounting, p->own_qos);
    *out = (struct sw_slurm_holders){
        .facts = facts, .partition = p, .accounting = accounting, .association = a};
    out->qos_name = qos != NULL ? qos : sw_slurm_default_qos(accounting, a);
    out->qos = sw_slurm_find_qos(accounting, out->qos_name);
    const bool over = out->qos != NULL && out->qos->over_partition;
    const struct sw_slurm_qos *const order[2] = {over ? out->qos : own, over ? own : out->qos};
    for (int32_t i = 0; i < 2; i++)
        if (order[i] != NULL && (i == 0 || order[i] != order[0]))
            add_holder(out, order[i], order[i]->name, &order[i]->limits);
    out->qos_count = out->count;
    if (a == NULL)
        return;
    add_holder(out, NULL, a->account, &a->limits);
    /* a loop of parents ends when there is no room */
    for (const char *name = a->account; out->count < SW_SLURM_HOLDERS;) {
        const struct sw_slurm_association *above = sw_slurm_find_account(accounting, name);
        if (above == NULL)
            return;
        add_holder(out, NULL, above->account, &above->limits);
        name = sw_slurm_parent(above);
    }
}

/* ---- Resources ---- */

struct rule {
    enum sw_slurm_limit limit;
    bool of_qos; /* true if associations have no such limit */
    bool group, timed, of_node, least;
};

static const struct rule rules[] = {
    {.limit = SW_LIMIT_JOB},
    {.limit = SW_LIMIT_NODE, .of_node = true},
    {.limit = SW_LIMIT_LEAST, .of_qos = true, .least = true},
    {.limit = SW_LIMIT_USER, .of_qos = true},
    {.limit = SW_LIMIT_ACCOUNT, .of_qos = true},
    {.limit = SW_LIMIT_GROUP, .group = true},
    {.limit = SW_LIMIT_JOB_MINUTES, .timed = true},
    {.limit = SW_LIMIT_GROUP_MINUTES, .group = true, .timed = true},
    {.limit = SW_LIMIT_GROUP_RUN_MINUTES, .group = true, .timed = true},
    {.limit = SW_LIMIT_USER_RUN_MINUTES, .of_qos = true, .timed = true},
    {.limit = SW_LIMIT_ACCOUNT_RUN_MINUTES, .of_qos = true, .timed = true},
};

/* A job being judged. */
struct judged {
    const struct sw_slurm_holders *by;
    const struct sw_slurm_use *use;
    double minutes;   /* time limit; 0: unknown */
    double scaled;    /* the same with UsageFactorSafe */
    double factor;    /* LimitFactor; 0: none */
    bool denies;      /* DenyOnLimit: true if sbatch judges as well, by the request */
    const char *then; /* outcome for the job */
};

/* Value of a limit; -1: not defined by the holder. */
static int64_t value_of(const struct judged *j, int32_t holder, const struct rule *rule,
                        const char *tres)
{
    const struct sw_slurm_qos *qos = j->by->of[holder].qos;
    const int64_t value = sw_slurm_limit_of(j->by->of[holder].limits->tres[rule->limit], tres);
    if (value < 0 || (qos != NULL && !qos->relative))
        return value;
    if (qos == NULL)
        return j->factor > 0 && (rule->limit == SW_LIMIT_JOB || rule->limit == SW_LIMIT_GROUP)
                   ? (int64_t)fmin((double)value * j->factor, 9e18)
                   : value;
    const bool of_partition =
        j->by->partition->own_qos != NULL && strcmp(j->by->partition->own_qos, qos->name) == 0;
    const double total = sw_slurm_total(j->by->facts, of_partition ? j->by->partition : NULL, tres);
    return (int64_t)floor((double)(value > 100 ? 100 : value) * total / 100);
}

/* Words for an amount of a resource. */
static const char *words_of(const char *tres)
{
    static const char *const rows[][2] = {{"node", "nodes"},
                                          {"cpu", "processors"},
                                          {"mem", "MB of memory"},
                                          {"gres/gpu", "GPUs"},
                                          {"billing", "of billing (TRESBillingWeights)"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcasecmp(rows[i][0], tres) == 0)
            return rows[i][1];
    return tres;
}

/* Name of the highest account above with the same value, which users inherit. */
static const char *name_of(const struct judged *j, int32_t holder, const struct rule *rule,
                           const char *tres, int64_t value)
{
    while (!rule->group && j->by->of[holder].qos == NULL && holder + 1 < j->by->count &&
           value_of(j, holder + 1, rule, tres) == value)
        holder++;
    return j->by->of[holder].name;
}

/* True if the job passes the value that counts. */
static bool passes(const struct judged *j, int32_t holder, const struct rule *rule, int32_t tres,
                   int64_t value, char why[WHY])
{
    const char *name = j->use->of[tres].name;
    const bool whole = j->use->whole_nodes && strcmp(name, "cpu") == 0 &&
                       j->use->of[tres].least > j->use->of[tres].asked;
    const double minutes = fmax(j->scaled, j->denies ? j->minutes : 0);
    const double nodes = fmax(1, j->use->of[0].least);
    double amount = rule->least ? (j->denies ? fmin(j->use->of[tres].asked, j->use->of[tres].most)
                                             : j->use->of[tres].most)
                                : j->use->of[tres].least;
    if (rule->of_node)
        amount = floor(amount / nodes);
    if (rule->timed)
        amount = amount > 0 && minutes > 0 ? amount * minutes : 0;
    /* nothing starts in a group without any minutes */
    const bool none =
        rule->limit == SW_LIMIT_GROUP_MINUTES && value == 0 && j->use->of[tres].least > 0;
    if (rule->least ? amount >= (double)value : amount <= (double)value && !none)
        return true;
    return refuse(why, "%.0f %.90s%s%s%s asked for, but %s of %s %.60s is %lld: %s", amount,
                  words_of(name), rule->of_node ? " of a node" : "", whole ? " of whole nodes" : "",
                  rule->timed ? " times minutes" : "", sw_slurm_limit_name(rule->limit),
                  j->by->of[holder].qos != NULL ? "qos" : "account",
                  name_of(j, holder, rule, name, value), (long long)value, j->then);
}

/* Checks one limit on one resource. */
static bool resource_passes(const struct judged *j, const struct rule *rule, int32_t tres,
                            char why[WHY])
{
    const char *name = j->use->of[tres].name;
    const bool counted = rule->limit != SW_LIMIT_GROUP_MINUTES || !j->by->accounting->no_safe;
    bool first = true;
    for (int32_t i = 0; i < (rule->of_qos ? j->by->qos_count : j->by->count); i++) {
        const int64_t value = value_of(j, i, rule, name);
        if (value < 0)
            continue;
        /* minutes of a group are enforced only with `safe`, and by sbatch with DenyOnLimit */
        if ((counted || value == 0 || (j->denies && first)) &&
            !passes(j, i, rule, tres, value, why))
            return false;
        if (!rule->group || i < j->by->qos_count)
            return true;
        first = false;
    }
    return true;
}

/* Checks MinTRES, which may name a resource that the job does not use. */
static bool lacks(const struct judged *j, char why[WHY])
{
    static const struct rule rule = {.limit = SW_LIMIT_LEAST, .of_qos = true, .least = true};
    for (int32_t i = 0; i < j->by->qos_count; i++)
        for (const char *p = j->by->of[i].limits->tres[SW_LIMIT_LEAST]; p != NULL && *p != '\0';
             p += strcspn(p, ","), p += *p == ',') {
            struct sw_slurm_use none = {.count = 2};
            char name[80];
            bool used = false;
            snprintf(name, sizeof name, "%.*s", (int)strcspn(p, "="), p);
            for (int32_t k = 0; k < j->use->count; k++)
                used = used || strcasecmp(j->use->of[k].name, name) == 0;
            if (used)
                continue;
            memcpy(none.of[1].name, name, sizeof name);
            struct judged other = *j;
            other.use = &none;
            if (!resource_passes(&other, &rule, 1, why))
                return true;
        }
    return false;
}

/* ---- Time and numbers of jobs ---- */

/* Index of the first holder that limits a job's time; -1: none. */
static int32_t wall_holder(const struct sw_slurm_holders *by)
{
    for (int32_t i = 0; i < by->count; i++)
        if (!isinf(by->of[i].limits->max_time))
            return i;
    return -1;
}

static bool time_passes(const struct judged *j, char why[WHY])
{
    char time[SW_FORMAT_BYTES];
    const struct sw_slurm_holders *by = j->by;
    const double minutes = fmax(j->scaled, j->denies ? j->minutes : 0);
    int32_t holder = wall_holder(by);
    if (holder >= 0 && minutes > by->of[holder].limits->max_time / 60) {
        const double longest = by->of[holder].limits->max_time;
        while (by->of[holder].qos == NULL && holder + 1 < by->count &&
               by->of[holder + 1].limits->max_time == longest)
            holder++;
        return refuse(why, "its time limit is more than the %s of %s %.60s: %s",
                      sw_format_duration(longest, time),
                      by->of[holder].qos != NULL ? "qos" : "account", by->of[holder].name, j->then);
    }
    bool first = true;
    for (int32_t i = 0; i < by->count; i++) {
        const double wall = by->of[i].limits->max_wall;
        if (isinf(wall))
            continue;
        const bool counted = !by->accounting->no_safe || (j->denies && first);
        if (wall == 0 || (counted && minutes > wall / 60))
            return refuse(why, "its time limit is more than the %s of GrpWall of %s %.60s: %s",
                          sw_format_duration(wall, time), by->of[i].qos != NULL ? "qos" : "account",
                          by->of[i].name, j->then);
        if (i < by->qos_count)
            break;
        first = false;
    }
    return true;
}

/* Checks numbers of jobs: a limit of 0 lets none start, and an array counts as all of its tasks. */
static bool counts_pass(const struct judged *j, int64_t tasks, char why[WHY])
{
    static const struct {
        enum sw_slurm_count count;
        const char *of_qos, *of_association; /* NULL: none */
        bool group, submit;
    } rows[] = {
        {SW_COUNT_GROUP_JOBS, "GrpJobs", "GrpJobs", true, false},
        {SW_COUNT_GROUP_SUBMIT, "GrpSubmit", "GrpSubmit", true, true},
        {SW_COUNT_ACCOUNT_JOBS, "MaxJobsPA", NULL, false, false},
        {SW_COUNT_ACCOUNT_SUBMIT, "MaxSubmitPA", NULL, false, true},
        {SW_COUNT_JOBS, "MaxJobsPU", "MaxJobs", false, false},
        {SW_COUNT_SUBMIT, "MaxSubmitPU", "MaxSubmit", false, true},
    };
    bool of_account[2] = {false, false}; /* true once a qos limits the jobs of accounts:
                                            running, waiting */
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        for (int32_t i = 0; i < j->by->count; i++) {
            const bool qos = i < j->by->qos_count;
            const int64_t most = j->by->of[i].limits->count[rows[k].count];
            const char *name = qos ? rows[k].of_qos : rows[k].of_association;
            /* MaxJobs of an association gives way to either limit of a qos */
            if (most < 0 || name == NULL || (!qos && !rows[k].group && of_account[rows[k].submit]))
                continue;
            if (rows[k].submit ? tasks > most : most == 0)
                return refuse(why, "%s of %s %.60s is %" PRId64 ": %s", name,
                              qos ? "qos" : "account", j->by->of[i].name, most,
                              rows[k].submit ? "sbatch would refuse it" : j->then);
            if (rows[k].count == SW_COUNT_ACCOUNT_JOBS || rows[k].count == SW_COUNT_ACCOUNT_SUBMIT)
                of_account[rows[k].submit] = true;
            if (!rows[k].group || qos)
                break;
        }
    return true;
}

/* ---- Admission ---- */

/* Minutes of a job without a time limit in a partition without a default: the least of the limits
 * on time, else unlimited; with DenyOnLimit the value that others leave (0). */
static double minutes_without_time(const struct sw_slurm_holders *by, bool denies)
{
    const int32_t holder = wall_holder(by);
    double seconds = holder >= 0 ? by->of[holder].limits->max_time : INFINITY;
    for (int32_t i = 0; i < by->count; i++)
        if (!isinf(by->of[i].limits->max_wall)) {
            seconds = fmin(seconds, by->of[i].limits->max_wall);
            break;
        }
    /* a limit of no time does not count */
    if (seconds == 0)
        seconds = INFINITY;
    return isinf(seconds) && denies ? 0 : ceil(seconds / 60);
}

static struct judged judge_of(const struct sw_slurm_holders *by, double seconds)
{
    struct judged j = {.by = by, .minutes = ceil(seconds / 60)};
    const struct sw_slurm_qos *q = by->qos;
    for (int32_t i = 0; i < by->qos_count; i++) {
        j.denies = j.denies || by->of[i].qos->denies;
        if (j.factor <= 0)
            j.factor = by->of[i].qos->limit_factor;
    }
    if (seconds == 0)
        j.minutes = minutes_without_time(by, j.denies);
    j.scaled = j.minutes;
    if (q != NULL && q->safe_factor && q->usage_factor >= 0 &&
        (!isinf(j.minutes) || q->usage_factor < 1))
        j.scaled = floor(j.minutes * q->usage_factor);
    j.then = j.denies ? "sbatch would refuse it" : "it would wait for ever";
    return j;
}

bool sw_slurm_limits_admit(const struct sw_slurm_holders *by, const struct sw_slurm_use *use,
                           double seconds, int64_t tasks, char why[WHY])
{
    struct judged j = judge_of(by, seconds);
    const struct sw_slurm_qos *q = by->qos;
    j.use = use;
    /* the partition's limit applies to that time, too */
    if (seconds == 0 && !isinf(j.minutes) && j.minutes > by->partition->max_time / 60 &&
        !(q != NULL && q->lifts_time))
        return refuse(why,
                      "it asks for no time, and has the %.0f minutes that limits allow, more than "
                      "partition %.60s does: it would wait for ever; set slurm.time",
                      j.minutes, by->partition->name);
    for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++)
        for (int32_t i = 0; i < use->count; i++)
            if (!(by->accounting->no_run_minutes &&
                  (rules[k].limit == SW_LIMIT_USER_RUN_MINUTES ||
                   rules[k].limit == SW_LIMIT_ACCOUNT_RUN_MINUTES)) &&
                !resource_passes(&j, &rules[k], i, why))
                return false;
    return !lacks(&j, why) && time_passes(&j, why) && counts_pass(&j, tasks, why);
}

/* ---- Minutes of groups ---- */

int32_t sw_slurm_group_minutes(const struct sw_slurm_holders *by, const char *tres,
                               struct sw_slurm_group out[SW_SLURM_HOLDERS])
{
    static const struct rule rule = {.limit = SW_LIMIT_GROUP_MINUTES, .group = true, .timed = true};
    const struct judged j = judge_of(by, 0);
    int32_t count = 0;
    for (int32_t i = 0; i < by->count; i++) {
        const double wall = by->of[i].limits->max_wall;
        const int64_t value = tres != NULL  ? value_of(&j, i, &rule, tres)
                              : isinf(wall) ? -1
                                            : (int64_t)(wall / 60);
        if (value < 0)
            continue;
        out[count++] = (struct sw_slurm_group){.holder = i, .minutes = value};
        if (i < by->qos_count)
            break;
    }
    return count;
}

void sw_slurm_job_minutes(const struct sw_slurm_holders *by, double seconds, double *held,
                          double *used)
{
    const struct judged j = judge_of(by, seconds);
    const struct sw_slurm_qos *q = by->qos;
    *held = j.scaled;
    *used = q != NULL && q->usage_factor >= 0 ? j.minutes * q->usage_factor : j.minutes;
    if (isnan(*used)) /* no limit on time, and usage is not counted */
        *used = 0;
}

double sw_slurm_longest_time(const struct sw_slurm_holders *by, char why[128])
{
    const int32_t holder = by->accounting->no_limits ? -1 : wall_holder(by);
    const bool lifts = by->qos != NULL && by->qos->lifts_time;
    const double of_partition = lifts ? INFINITY : by->partition->max_time;
    why[0] = '\0';
    if (holder < 0 || by->of[holder].limits->max_time >= of_partition)
        return of_partition;
    snprintf(why, 128, "%s %.60s", by->of[holder].qos != NULL ? "qos" : "account",
             by->of[holder].name);
    return by->of[holder].limits->max_time;
}
