#include "tests/property/limits_draw.h"

#include <math.h>
#include <string.h>

const char *const resource_names[RESOURCES] = {"node",     "cpu",           "mem",
                                               "gres/gpu", "gres/gpu:h100", "billing"};

/* ---- Draws ---- */

static uint64_t state;
static uint64_t next(void)
{
    /* splitmix64 */
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static int64_t below(int64_t n)
{
    return (int64_t)(next() % (uint64_t)n);
}
static bool chance(int percent)
{
    return below(100) < percent;
}

static void no_limits(struct limits *l)
{
    memset(l, -1, sizeof *l);
}

/* ---- What the job has ---- */

struct amounts {
    int64_t given[RESOURCES], asked[RESOURCES];
    bool too_much; /* for a node, or for the partition's limits */
};

static int64_t bill(const struct draw *d, const int64_t a[RESOURCES])
{
    if (!d->weights)
        return a[CPU];
    return (int64_t)((double)a[CPU] * 1.0 + (double)a[MEM] * 0.25 / 1024 + (double)a[GPU] * 2.0);
}

static struct amounts amounts_of(const struct draw *d)
{
    struct amounts a = {0};
    const bool whole = d->exclusive || d->exclusive_partition;
    int64_t cpus = d->tasks * d->cpus, mem = d->mem, of_cpu = d->mem_cpu;
    if (mem < 0 && of_cpu < 0 && d->def_mem > 0) {
        if (d->def_mem_cpu)
            of_cpu = d->def_mem;
        else
            mem = d->def_mem;
    }
    if (of_cpu >= 0 && d->max_mem > 0 && d->max_mem_cpu && of_cpu > d->max_mem) {
        const int64_t times = (of_cpu + d->max_mem - 1) / d->max_mem;
        cpus *= times;
        of_cpu = (of_cpu + times - 1) / times;
    } else if (d->max_mem > 0) {
        const int64_t of_node = of_cpu >= 0 ? of_cpu * (whole ? NODE_CPUS : cpus)
                                : mem > 0   ? mem
                                            : NODE_MEM;
        if (!d->max_mem_cpu && of_node > d->max_mem)
            a.too_much = true;
        if (d->max_mem_cpu && of_cpu < 0) {
            const int64_t least = (of_node + d->max_mem - 1) / d->max_mem;
            cpus = cpus > least ? cpus : least;
        }
    }
    const int64_t given = whole ? NODE_CPUS : cpus, gpus = whole ? NODE_GPUS : d->gpus;
    const int64_t memory = of_cpu >= 0 ? of_cpu * given : mem > 0 ? mem : NODE_MEM;
    const int64_t asked = of_cpu >= 0 ? of_cpu * cpus : mem > 0 ? mem : NODE_MEM;
    if (cpus > NODE_CPUS || d->gpus > NODE_GPUS || memory > NODE_MEM ||
        (d->max_cpus > 0 && (whole ? NODE_CPUS : cpus) > d->max_cpus))
        a.too_much = true;
    a.given[NODE] = a.asked[NODE] = d->nodes;
    a.given[CPU] = d->nodes * given;
    a.asked[CPU] = d->nodes * cpus;
    a.given[MEM] = d->nodes * memory;
    a.asked[MEM] = d->nodes * asked;
    a.given[GPU] = d->nodes * gpus;
    a.asked[GPU] = d->nodes * d->gpus;
    a.given[H100] = whole || d->typed ? a.given[GPU] : 0;
    a.asked[H100] = d->typed ? a.asked[GPU] : 0;
    a.given[BILLING] = bill(d, a.given);
    a.asked[BILLING] = bill(d, a.asked);
    return a;
}

/* ---- Drawing ---- */

/* A value that the amount keeps, or with that probability one that it does not. */
static int64_t near(int64_t amount, bool least, int percent_bad)
{
    const int64_t step = 1 + below(3) * amount / 4;
    const bool above = chance(percent_bad) == least;
    if (above)
        return amount + (least ? step : chance(40) ? 0 : step);
    return least ? (chance(40) || amount < step ? amount : amount - step)
                 : (amount < step ? 0 : amount - step);
}

/* A limit on one thing in every place where it may be, each with a value of its own. */
static void draw_focus(struct draw *d, const struct amounts *a, int bad)
{
    struct limits *const places[] = {&d->part.limits, &d->own.limits, &d->user, &d->mid, &d->top};
    const enum limit limit = (enum limit)below(LIMITS);
    const enum resource r = (enum resource)below(RESOURCES);
    const bool timed = limit == MAX_MINS || limit == GRP_MINS || limit == GRP_RUN;
    int64_t amount = limit == PER_NODE ? a->given[r] / d->nodes : a->given[r];
    if (timed)
        amount *= d->minutes;
    for (int i = 0; i < 5; i++)
        if ((i < 2 || (limit != MAX_PU && limit != MAX_PA && limit != MIN_JOB)) && chance(45))
            places[i]->tres[limit][r] = near(amount, limit == MIN_JOB, bad);
}

static void draw_walls(struct draw *d, int bad)
{
    struct limits *const places[] = {&d->part.limits, &d->own.limits, &d->user, &d->mid, &d->top};
    const bool group = chance(30);
    for (int i = 0; i < 5; i++)
        if (chance(45)) {
            const int64_t wall = near(d->minutes, false, bad);
            *(group ? &places[i]->group_wall : &places[i]->wall) = wall;
        }
}

static void draw_counts(struct draw *d)
{
    struct limits *const places[] = {&d->part.limits, &d->own.limits, &d->user, &d->mid, &d->top};
    const enum count c = (enum count)below(COUNTS);
    for (int i = 0; i < (c == JOBS_PA || c == SUBMIT_PA ? 2 : 5); i++)
        if (chance(40))
            places[i]->count[c] = chance(30) ? 0 : 1 + below(6);
}

static void draw_qos(struct qos *q)
{
    no_limits(&q->limits);
    q->usage_factor = 1;
    q->deny = chance(20);
    q->limit_factor = chance(10) ? (chance(50) ? 2 : 0.5) : 0;
}

static void draw_job(struct draw *d)
{
    d->nodes = 1 + below(NODES);
    d->tasks = 1 + below(4);
    d->cpus = 1 + below(4);
    d->gpus = chance(70) ? 1 + below(NODE_GPUS) : 0;
    d->typed = d->gpus > 0 && chance(60);
    d->gres = chance(40);
    d->exclusive = chance(40);
    d->mem = d->mem_cpu = -1;
    if (chance(60))
        d->mem = chance(40) ? 0 : 1000 * (1 + below(64));
    else if (chance(50))
        d->mem_cpu = 500 * (1 + below(8));
    d->minutes = 10 + below(600);
    d->array = chance(15) ? 2 + (int)below(4) : 0;
    d->names_qos = chance(60);
    d->no_time = chance(12);
}

static void draw_partition(struct draw *d, int bad)
{
    if (chance(35))
        d->max_time = near(d->minutes, false, bad) + 1;
    if (chance(25))
        d->max_nodes = 1 + below(NODES);
    if (chance(15))
        d->min_nodes = 1 + below(NODES);
    if (chance(10))
        d->max_cpus = 8 + below(9);
    if (chance(20)) {
        d->max_mem_cpu = chance(50);
        d->max_mem = d->max_mem_cpu ? 1000 + 500 * below(8) : 16000 + 8000 * below(8);
    }
    if (chance(20)) {
        d->def_mem_cpu = chance(50);
        d->def_mem = d->def_mem_cpu ? 500 * (1 + below(6)) : 2000 * (1 + below(20));
    }
    /* slurm.conf may not ask for more than it gives by itself */
    if (d->max_mem > 0 && d->def_mem > 0 &&
        (d->max_mem_cpu != d->def_mem_cpu || d->def_mem > d->max_mem))
        d->def_mem = 0;
    if (chance(20) && (d->max_time == 0 || d->minutes <= d->max_time))
        d->default_time = d->minutes;
    d->exclusive_partition = chance(10);
    d->weights = chance(40);
    d->lists_other_qos = chance(3);
}

void draw_site(uint64_t seed, uint64_t number, bool safe, struct draw *d)
{
    memset(d, 0, sizeof *d);
    state = seed * 0x100000001b3u + number;
    d->safe = safe;
    const int bad = 10 + (int)below(30);
    draw_job(d);
    draw_partition(d, bad);
    draw_qos(&d->part);
    draw_qos(&d->own);
    d->part.there = chance(60);
    d->own.there = true;
    d->own.over = chance(35);
    d->own.time = chance(25);
    d->own.max_nodes = chance(25);
    d->own.min_nodes = chance(25);
    no_limits(&d->user);
    no_limits(&d->mid);
    no_limits(&d->top);
    const struct amounts a = amounts_of(d);
    for (int i = 0; i < 3; i++)
        draw_focus(d, &a, bad);
    if (chance(50))
        draw_walls(d, bad);
    if (chance(25))
        draw_counts(d);
    if (chance(10) && d->own.limits.group_wall < 0 && d->part.limits.group_wall < 0) {
        d->own.factor_safe = true;
        d->own.usage_factor = chance(50) ? 2 : 0.5;
    }
    if (!d->part.there)
        no_limits(&d->part.limits);
    /* Slurm gives a job without a time what its limits leave */
    if (d->own.deny || d->part.deny)
        d->no_time = false;
}

/* ---- Naive ---- */

static const struct qos *first_qos(const struct draw *d)
{
    return d->own.over || !d->part.there ? &d->own : &d->part;
}
static const struct qos *second_qos(const struct draw *d)
{
    if (!d->part.there)
        return NULL;
    return d->own.over ? &d->part : &d->own;
}

/* The value of a limit that counts for a job, of those that go by "the first that is defined". */
static int64_t first_defined(const struct draw *d, enum limit limit, enum resource r)
{
    double factor = first_qos(d)->limit_factor;
    if (factor == 0 && second_qos(d) != NULL)
        factor = second_qos(d)->limit_factor;
    const int64_t of_first = first_qos(d)->limits.tres[limit][r],
                  of_second = second_qos(d) != NULL ? second_qos(d)->limits.tres[limit][r] : -1;
    if (of_first >= 0 || of_second >= 0)
        return of_first >= 0 ? of_first : of_second;
    const struct limits *const up[] = {&d->user, &d->mid, &d->top};
    for (int i = 0; i < 3; i++)
        if (up[i]->tres[limit][r] >= 0)
            return limit == MAX_JOB && factor > 0
                       ? (int64_t)((double)up[i]->tres[limit][r] * factor)
                       : up[i]->tres[limit][r];
    return -1;
}

static bool denies(const struct draw *d)
{
    return d->own.deny || (d->part.there && d->part.deny);
}

/* The least MaxWall or GrpWall that counts; -1: there is none. */
static int64_t minutes_without_time(const struct draw *d)
{
    const struct limits *const chain[] = {&first_qos(d)->limits,
                                          second_qos(d) != NULL ? &second_qos(d)->limits : NULL,
                                          &d->user, &d->mid, &d->top};
    int64_t wall = -1, group = -1;
    for (int i = 4; i >= 0; i--) {
        wall = chain[i] != NULL && chain[i]->wall >= 0 ? chain[i]->wall : wall;
        group = chain[i] != NULL && chain[i]->group_wall >= 0 ? chain[i]->group_wall : group;
    }
    return wall < 0 || (group >= 0 && group < wall) ? group : wall;
}

/* Minutes against which limits are held. A job without a limit on its time, neither of its own nor
 * by default, has that of its limits, else no end. */
static int64_t minutes_of(const struct draw *d)
{
    int64_t minutes = d->minutes;
    if (d->no_time && d->default_time == 0) {
        minutes = minutes_without_time(d);
        minutes = minutes > 0 ? minutes : 4000000000;
    }
    const int64_t scaled =
        d->own.factor_safe ? (int64_t)floor((double)minutes * d->own.usage_factor) : minutes;
    return denies(d) && minutes > scaled ? minutes : scaled;
}

static bool group_holds(const struct draw *d, const struct amounts *a)
{
    static const enum limit limits[] = {GRP, GRP_RUN, GRP_MINS};
    double factor = first_qos(d)->limit_factor;
    if (factor == 0 && second_qos(d) != NULL)
        factor = second_qos(d)->limit_factor;
    for (int k = 0; k < 3; k++)
        for (int r = 0; r < RESOURCES; r++) {
            const int64_t need = a->given[r] * (limits[k] == GRP ? 1 : minutes_of(d));
            const int64_t of_first = first_qos(d)->limits.tres[limits[k]][r];
            const int64_t of_second =
                second_qos(d) != NULL ? second_qos(d)->limits.tres[limits[k]][r] : -1;
            const int64_t chain[] = {of_first >= 0 ? of_first : of_second,
                                     d->user.tres[limits[k]][r], d->mid.tres[limits[k]][r],
                                     d->top.tres[limits[k]][r]};
            bool nearest = true;
            for (int i = 0; i < (chain[0] >= 0 ? 1 : 4); i++) {
                int64_t most = chain[i];
                if (most < 0)
                    continue;
                if (i > 0 && limits[k] == GRP && factor > 0)
                    most = (int64_t)((double)most * factor);
                /* without `safe` a job may begin that would use up the minutes */
                const bool counts = limits[k] != GRP_MINS || d->safe || (denies(d) && nearest);
                if ((counts && need > most) ||
                    (limits[k] == GRP_MINS && most == 0 && a->given[r] > 0))
                    return true;
                nearest = false;
            }
        }
    return false;
}

static bool job_holds(const struct draw *d, const struct amounts *a)
{
    for (int r = 0; r < RESOURCES; r++) {
        int64_t most = first_defined(d, MAX_JOB, r);
        if (most >= 0 && a->given[r] > most)
            return true;
        most = first_defined(d, PER_NODE, r);
        if (most >= 0 && a->given[r] / d->nodes > most)
            return true;
        most = first_defined(d, MAX_MINS, r);
        if (most >= 0 && a->given[r] * minutes_of(d) > most)
            return true;
        most = first_defined(d, MAX_PU, r);
        if (most >= 0 && a->given[r] > most)
            return true;
        most = first_defined(d, MAX_PA, r);
        if (most >= 0 && a->given[r] > most)
            return true;
        const int64_t least = first_defined(d, MIN_JOB, r);
        if (least >= 0 && (denies(d) ? a->asked[r] : a->given[r]) < least)
            return true;
    }
    return false;
}

static bool walls_hold(const struct draw *d)
{
    const struct limits *const chain[] = {&first_qos(d)->limits,
                                          second_qos(d) != NULL ? &second_qos(d)->limits : NULL,
                                          &d->user, &d->mid, &d->top};
    for (int i = 0; i < 5; i++)
        if (chain[i] != NULL && chain[i]->wall >= 0) {
            if (minutes_of(d) > chain[i]->wall)
                return true;
            break;
        }
    bool nearest = true;
    for (int i = 0; i < 5; i++) {
        if (chain[i] == NULL || chain[i]->group_wall < 0)
            continue;
        if (chain[i]->group_wall == 0)
            return true;
        if ((d->safe || (denies(d) && nearest)) && minutes_of(d) > chain[i]->group_wall)
            return true;
        nearest = false;
        if (i < 2)
            break;
    }
    return false;
}

static bool counts_hold(const struct draw *d)
{
    const int64_t tasks = d->array > 0 ? d->array : 1;
    const struct limits *const chain[] = {&first_qos(d)->limits,
                                          second_qos(d) != NULL ? &second_qos(d)->limits : NULL,
                                          &d->user, &d->mid, &d->top};
    int64_t of_qos[COUNTS];
    for (int c = 0; c < COUNTS; c++)
        of_qos[c] = chain[0]->count[c] >= 0 ? chain[0]->count[c]
                    : chain[1] != NULL      ? chain[1]->count[c]
                                            : -1;
    if (of_qos[GRP_JOBS] == 0 || of_qos[MAX_JOBS] == 0 || of_qos[JOBS_PA] == 0)
        return true;
    if ((of_qos[GRP_SUBMIT] >= 0 && tasks > of_qos[GRP_SUBMIT]) ||
        (of_qos[MAX_SUBMIT] >= 0 && tasks > of_qos[MAX_SUBMIT]) ||
        (of_qos[SUBMIT_PA] >= 0 && tasks > of_qos[SUBMIT_PA]))
        return true;
    for (int i = 2; i < 5; i++) {
        if (of_qos[GRP_JOBS] < 0 && chain[i]->count[GRP_JOBS] == 0)
            return true;
        if (of_qos[GRP_SUBMIT] < 0 && chain[i]->count[GRP_SUBMIT] >= 0 &&
            tasks > chain[i]->count[GRP_SUBMIT])
            return true;
    }
    int64_t jobs = -1, submit = -1;
    for (int i = 4; i >= 2; i--) {
        jobs = chain[i]->count[MAX_JOBS] >= 0 ? chain[i]->count[MAX_JOBS] : jobs;
        submit = chain[i]->count[MAX_SUBMIT] >= 0 ? chain[i]->count[MAX_SUBMIT] : submit;
    }
    if (of_qos[MAX_JOBS] < 0 && of_qos[JOBS_PA] < 0 && jobs == 0)
        return true;
    return of_qos[MAX_SUBMIT] < 0 && of_qos[SUBMIT_PA] < 0 && submit >= 0 && tasks > submit;
}

static bool partition_holds(const struct draw *d)
{
    /* a job without a time has that of its limits */
    const int64_t minutes = !d->no_time || d->default_time > 0 ? d->minutes
                            : minutes_without_time(d) >= 0     ? minutes_without_time(d)
                                                               : 0;
    return (d->max_time > 0 && minutes > d->max_time && !d->own.time) ||
           (d->max_nodes > 0 && d->nodes > d->max_nodes && !d->own.max_nodes) ||
           (d->min_nodes > 0 && d->nodes < d->min_nodes && !d->own.min_nodes) || d->lists_other_qos;
}

bool naive_starts(const struct draw *d)
{
    const struct amounts a = amounts_of(d);
    return !a.too_much && !partition_holds(d) && !job_holds(d, &a) && !group_holds(d, &a) &&
           !walls_hold(d) && !counts_hold(d);
}

/* ---- Writing ---- */

void write_tres(FILE *out, const int64_t tres[RESOURCES], const char *memory)
{
    bool any = false;
    for (int r = 0; r < RESOURCES; r++)
        if (tres[r] >= 0) {
            fprintf(out, "%s%s=%lld%s", any ? "," : "", resource_names[r], (long long)tres[r],
                    r == MEM ? memory : "");
            any = true;
        }
}

void write_job(FILE *out, const struct draw *d, const char *before, const char *end, int number)
{
    fprintf(out, "%s--nodes=%d%s", before, (int)d->nodes, end);
    fprintf(out, "%s--ntasks-per-node=%d%s", before, (int)d->tasks, end);
    fprintf(out, "%s--cpus-per-task=%d%s", before, (int)d->cpus, end);
    if (!d->no_time)
        fprintf(out, "%s--time=%d%s", before, (int)d->minutes, end);
    fprintf(out, "%s--partition=p%d%s", before, number, end);
    fprintf(out, "%s--account=m%d%s", before, number, end);
    if (d->names_qos)
        fprintf(out, "%s--qos=b%d%s", before, number, end);
    if (d->gpus > 0)
        fprintf(out, "%s--%s%s%d%s", before,
                d->gres ? "gres=gpu:" : "gpus-per-node=", d->typed ? "h100:" : "", (int)d->gpus,
                end);
    if (d->exclusive)
        fprintf(out, "%s--exclusive%s", before, end);
    if (d->mem >= 0)
        fprintf(out, "%s--mem=%d%s", before, (int)d->mem, end);
    if (d->mem_cpu >= 0)
        fprintf(out, "%s--mem-per-cpu=%d%s", before, (int)d->mem_cpu, end);
    if (d->array > 0)
        fprintf(out, "%s--array=0-%d%s", before, d->array - 1, end);
}

/* " MaxTRES=..." as sacctmgr sets it. */
static void write_limits(FILE *out, const struct limits *l, bool qos)
{
    static const char *const names[LIMITS] = {"MaxTRES",           "MaxTRESMins", "MaxTRESPerUser",
                                              "MaxTRESPerAccount", "GrpTRES",     "GrpTRESMins",
                                              "MaxTRESPerNode",    "MinTRES",     "GrpTRESRunMins"};
    static const char *const of_qos[COUNTS] = {"GrpJobs",           "GrpSubmitJobs",
                                               "MaxJobsPerUser",    "MaxSubmitJobsPerUser",
                                               "MaxJobsPerAccount", "MaxSubmitJobsPerAccount"};
    static const char *const of_account[COUNTS] = {"GrpJobs", "GrpSubmitJobs", "MaxJobs",
                                                   "MaxSubmitJobs"};
    for (int k = 0; k < LIMITS; k++) {
        bool any = false;
        for (int r = 0; r < RESOURCES; r++)
            any = any || l->tres[k][r] >= 0;
        if (!any)
            continue;
        fprintf(out, " %s=", names[k]);
        write_tres(out, l->tres[k], "M");
    }
    if (l->wall >= 0)
        fprintf(out, " MaxWall=%d", (int)l->wall);
    if (l->group_wall >= 0)
        fprintf(out, " GrpWall=%d", (int)l->group_wall);
    for (int c = 0; c < COUNTS; c++)
        if (l->count[c] >= 0)
            fprintf(out, " %s=%d", qos ? of_qos[c] : of_account[c], (int)l->count[c]);
}

static void write_qos(FILE *out, const struct qos *q, const char *name, int number)
{
    const struct {
        const char *name;
        bool set;
    } flags[] = {{"DenyOnLimit", q->deny},
                 {"OverPartQOS", q->over},
                 {"PartitionTimeLimit", q->time},
                 {"PartitionMaxNodes", q->max_nodes},
                 {"PartitionMinNodes", q->min_nodes},
                 {"UsageFactorSafe", q->factor_safe}};
    bool any = false;
    fprintf(out, "sacctmgr add qos %s%d", name, number);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flags[i].set) {
            fprintf(out, "%s%s", any ? "," : " flags=", flags[i].name);
            any = true;
        }
    if (q->limit_factor > 0)
        fprintf(out, " LimitFactor=%g", q->limit_factor);
    if (q->usage_factor != 1)
        fprintf(out, " UsageFactor=%g", q->usage_factor);
    write_limits(out, &q->limits, true);
    fputc('\n', out);
}

void write_commands(FILE *out, const struct draw *d, int number, int place)
{
    fprintf(out, "conf PartitionName=p%d Nodes=gpu[%d-%d] State=UP", number, place * NODES,
            place * NODES + NODES - 1);
    if (d->max_time > 0)
        fprintf(out, " MaxTime=%d", (int)d->max_time);
    if (d->default_time > 0)
        fprintf(out, " DefaultTime=%d", (int)d->default_time);
    if (d->max_nodes > 0)
        fprintf(out, " MaxNodes=%d", (int)d->max_nodes);
    if (d->min_nodes > 0)
        fprintf(out, " MinNodes=%d", (int)d->min_nodes);
    if (d->max_cpus > 0)
        fprintf(out, " MaxCPUsPerNode=%d", (int)d->max_cpus);
    if (d->max_mem > 0)
        fprintf(out, " MaxMemPer%s=%d", d->max_mem_cpu ? "CPU" : "Node", (int)d->max_mem);
    if (d->def_mem > 0)
        fprintf(out, " DefMemPer%s=%d", d->def_mem_cpu ? "CPU" : "Node", (int)d->def_mem);
    if (d->exclusive_partition)
        fprintf(out, " OverSubscribe=EXCLUSIVE");
    if (d->weights)
        fprintf(out, " TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=2.0");
    if (d->lists_other_qos)
        fprintf(out, " AllowQos=normal");
    if (d->part.there)
        fprintf(out, " QOS=a%d", number);
    fputc('\n', out);
    if (d->part.there)
        write_qos(out, &d->part, "a", number);
    write_qos(out, &d->own, "b", number);
    fprintf(out, "sacctmgr add account t%d", number);
    write_limits(out, &d->top, false);
    fprintf(out, "\nsacctmgr add account m%d parent=t%d", number, number);
    write_limits(out, &d->mid, false);
    fprintf(out, "\nsacctmgr add user root account=m%d qos=b%d,normal DefaultQOS=b%d", number,
            number, number);
    write_limits(out, &d->user, false);
    fputs("\njob", out);
    write_job(out, d, " ", "", number);
    fputc('\n', out);
}
