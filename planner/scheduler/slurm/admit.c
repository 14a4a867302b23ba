#include "planner/scheduler/slurm/admit.h"

#include "core/base/text.h"
#include "planner/command/format.h"
#include "planner/scheduler/slurm/script.h"
#include "planner/scheduler/slurm/waits.h"
#include "planner/scheduler/slurm/settings.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static int32_t number_of(const struct sw_job_request *request, const char *name, int32_t fallback)
{
    const char *value = sw_job_request_get(request, name);
    const long number = value != NULL ? strtol(value, NULL, 10) : 0;
    return number > 0 && number < INT32_MAX ? (int32_t)number : fallback;
}

/* Megabytes that it asks of a node; 0: all of it, or nothing. */
static int64_t memory_of(const struct sw_job_request *request)
{
    const char *value = sw_job_request_get(request, "mem");
    char *end = NULL;
    if (value == NULL)
        return 0;
    enum { MOST_SHIFT = 20 };
    const int64_t given = strtoll(value, &end, 10), most = INT64_MAX >> MOST_SHIFT;
    const int64_t number = given > most ? most : given > 0 ? given : 0;
    switch (toupper((unsigned char)*end)) {
    case 'K':
        return number / 1024;
    case 'G':
        return number << 10;
    case 'T':
        return number << 20;
    default:
        return number;
    }
}

/* Whether a node has the GPUs of "h100:8", "8" or "a100:4,h100:4". */
static bool has_gpus(const struct sw_slurm_nodes *node, const char *wanted)
{
    const struct sw_slurm_gpus gpus = sw_slurm_parse_gpus(node->gres);
    for (const char *p = wanted; *p != '\0'; p += strcspn(p, ","), p += *p == ',') {
        const char *colon = memchr(p, ':', strcspn(p, ","));
        const long count = strtol(colon != NULL ? colon + 1 : p, NULL, 10);
        long found = colon == NULL ? gpus.total : 0;
        for (int32_t i = 0; i < gpus.types && colon != NULL; i++)
            if (strlen(gpus.of[i].type) == (size_t)(colon - p) &&
                strncasecmp(gpus.of[i].type, p, (size_t)(colon - p)) == 0)
                found += gpus.of[i].count;
        if (found < count)
            return false;
    }
    return true;
}

/* Of a partition's nodes, those with so many processors, so much memory and such GPUs. */
static int32_t count_fitting(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                             int64_t cpus, int64_t memory, const char *gpus)
{
    int32_t count = 0;
    for (int32_t i = 0; i < facts->nodes_count; i++) {
        const struct sw_slurm_nodes *n = &facts->nodes[i];
        if (n->cpus >= cpus && n->memory_mb >= memory && (gpus == NULL || has_gpus(n, gpus)))
            count += sw_hosts_common(&n->hosts, &p->hosts);
    }
    return count;
}

static bool wants_whole_nodes(const struct sw_job_request *request)
{
    const char *value = sw_job_request_get(request, "exclusive");
    return value != NULL && value[0] == '\0'; /* those of users and labels share */
}

/* Of a partition's nodes, those that have no more processors than it gives. */
static int32_t count_small(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p)
{
    int32_t count = 0;
    for (int32_t i = 0; i < facts->nodes_count; i++)
        if (facts->nodes[i].cpus <= p->max_cpus_per_node)
            count += sw_hosts_common(&facts->nodes[i].hosts, &p->hosts);
    return count;
}

static bool nodes_fit(const struct sw_job_request *request, const struct sw_slurm_facts *facts,
                      const struct sw_slurm_partition *p, char why[WHY])
{
    char number[SW_FORMAT_RATE];
    const int32_t nodes = number_of(request, "nodes", 1);
    const int64_t cpus =
        (int64_t)number_of(request, "ntasks-per-node", 1) * number_of(request, "cpus-per-task", 1);
    const int64_t memory = memory_of(request);
    const char *gpus = sw_job_request_get(request, "gpus-per-node");
    sw_format_counted(nodes, "node", number);
    if (p->max_nodes > 0 && nodes > p->max_nodes)
        return refuse(why, "%s asked for, but partition %.60s gives a job at most %d", number,
                      p->name, p->max_nodes);
    if (p->min_nodes > 0 && nodes < p->min_nodes)
        return refuse(why, "%s asked for, but partition %.60s gives a job at least %d", number,
                      p->name, p->min_nodes);
    if (nodes > p->hosts.count)
        return refuse(why, "%s asked for, but partition %.60s has %d", number, p->name,
                      p->hosts.count);
    if (p->max_cpus_per_node > 0 && cpus > p->max_cpus_per_node)
        return refuse(why,
                      "%" PRId64 " processors of a node asked for, but partition %.60s gives %d",
                      cpus, p->name, p->max_cpus_per_node);
    if (wants_whole_nodes(request) && p->max_cpus_per_node > 0 && count_small(facts, p) < nodes)
        return refuse(why,
                      "whole nodes asked for, but partition %.60s gives a job %d processors of a "
                      "node: set slurm.exclusive to false",
                      p->name, p->max_cpus_per_node);
    int32_t fit = count_fitting(facts, p, cpus, 0, NULL);
    if (fit < nodes)
        return refuse(why,
                      "%s with %" PRId64
                      " processors asked for (tasks of a node times cpus_per_task), "
                      "but partition %.60s has %d",
                      number, cpus, p->name, fit);
    fit = count_fitting(facts, p, 0, memory, NULL);
    if (fit < nodes)
        return refuse(why, "%s with %" PRId64 " MB of memory asked for, but partition %.60s has %d",
                      number, memory, p->name, fit);
    fit = count_fitting(facts, p, 0, 0, gpus);
    if (fit < nodes)
        return refuse(why, "%s with GPUs '%.40s' asked for, but partition %.60s has %d", number,
                      gpus, p->name, fit);
    return true;
}

static bool time_fits(const struct sw_job_request *request, const struct sw_slurm_partition *p,
                      char why[WHY])
{
    char longest[SW_FORMAT_BYTES];
    const char *time = sw_job_request_get(request, "time");
    const char *least = sw_job_request_get(request, "time-min");
    const double seconds = sw_slurm_time_seconds(least != NULL ? least : time);
    if (time == NULL || seconds <= p->max_time)
        return true;
    return refuse(
        why,
        "its time limit, %.40s, is more than the %s of partition %.60s: it would wait for "
        "ever",
        least != NULL ? least : time, sw_format_duration(p->max_time, longest), p->name);
}

/* What a job asks for at least, of each kind. */
static void asks_for(const struct sw_job_request *request, int64_t out[SW_TRES_COUNT])
{
    const int64_t nodes = number_of(request, "nodes", 1);
    const char *gpus = sw_job_request_get(request, "gpus-per-node");
    const char *colon = gpus != NULL ? strrchr(gpus, ':') : NULL;
    out[SW_TRES_NODES] = nodes;
    out[SW_TRES_GPUS] =
        gpus != NULL ? nodes * strtoll(colon != NULL ? colon + 1 : gpus, NULL, 10) : 0;
    out[SW_TRES_CPUS] =
        nodes * number_of(request, "ntasks-per-node", 1) * number_of(request, "cpus-per-task", 1);
}

/* Who limits a job, in Slurm's order: the first that sets a limit decides. Of the partition's qos
 * and the job's own either may come first: the larger one counts. */
struct limiter {
    const char *kind, *name;
    const struct sw_slurm_limits *limits;
};

/* A job that alone is more than a limit allows would wait for ever. */
static bool limits_admit(const struct sw_job_request *request, const struct sw_slurm_partition *p,
                         const struct sw_slurm_accounting *accounting,
                         const struct sw_slurm_association *a, const struct sw_slurm_qos *q,
                         char why[WHY])
{
    const struct sw_slurm_qos *own =
        p->own_qos != NULL ? sw_slurm_find_qos(accounting, p->own_qos) : NULL;
    const struct sw_slurm_association *whole =
        a != NULL ? sw_slurm_find_account(accounting, a->account) : NULL;
    const char *time = sw_job_request_get(request, "time");
    const double minutes = time != NULL ? sw_slurm_time_seconds(time) / 60 : 0;
    q = q != NULL ? q : sw_slurm_default_qos(accounting, a);
    const struct limiter limiters[] = {
        {"qos", own != NULL ? own->name : "", own != NULL ? &own->limits : NULL},
        {"qos", q != NULL ? q->name : "", q != NULL ? &q->limits : NULL},
        {"account", a != NULL ? a->account : "", a != NULL ? &a->limits : NULL},
        {"account", whole != NULL ? whole->account : "", whole != NULL ? &whole->limits : NULL}};
    enum { LIMITERS = sizeof limiters / sizeof limiters[0] };
    int64_t asked[SW_TRES_COUNT];
    asks_for(request, asked);
    for (int32_t k = 0; k < SW_LIMITS; k++)
        for (int32_t t = 0; t < SW_TRES_COUNT; t++) {
            const bool timed = k == SW_LIMIT_JOB_MINUTES || k == SW_LIMIT_GROUP_MINUTES;
            const double wanted = (double)asked[t] * (timed && !isinf(minutes) ? minutes : !timed);
            const struct limiter *by = NULL;
            for (int32_t i = 0; i < LIMITERS && (by == NULL || i == 1); i++)
                if (limiters[i].limits != NULL && limiters[i].limits->of[k][t] > 0 &&
                    (by == NULL || limiters[i].limits->of[k][t] > by->limits->of[k][t]))
                    by = &limiters[i];
            if (by != NULL && wanted > (double)by->limits->of[k][t])
                return refuse(why,
                              "%.0f %s%s asked for, but %s of %s %.60s is %lld: it would wait for "
                              "ever",
                              wanted, sw_slurm_tres_name((enum sw_slurm_tres)t),
                              timed ? " times minutes" : "",
                              sw_slurm_limit_name((enum sw_slurm_limit)k), by->kind, by->name,
                              (long long)by->limits->of[k][t]);
        }
    return true;
}

static bool account_may(const struct sw_job_request *request, const struct sw_slurm_partition *p,
                        const struct sw_slurm_accounting *accounting, char why[WHY])
{
    char time[SW_FORMAT_BYTES];
    const char *account = sw_job_request_get(request, "account");
    const char *qos = sw_job_request_get(request, "qos");
    const char *limit = sw_job_request_get(request, "time");
    /* without one it gets what the partition gives */
    const double seconds = limit != NULL ? sw_slurm_time_seconds(limit) : 0;
    const char *of =
        account != NULL
            ? account
            : (accounting->default_account[0] != '\0' ? accounting->default_account : NULL);
    if (of != NULL && p->accounts != NULL && !sw_slurm_list_has(p->accounts, of))
        return refuse(why, "account '%.40s' may not use partition %.60s: %.80s may", of, p->name,
                      p->accounts);
    if (of != NULL && p->denied_accounts != NULL && sw_slurm_list_has(p->denied_accounts, of))
        return refuse(why, "account '%.40s' may not use partition %.60s", of, p->name);
    if (qos != NULL && p->qos != NULL && !sw_slurm_list_has(p->qos, qos))
        return refuse(why, "qos '%.40s' may not use partition %.60s: %.80s may", qos, p->name,
                      p->qos);
    if (qos != NULL && p->denied_qos != NULL && sw_slurm_list_has(p->denied_qos, qos))
        return refuse(why, "qos '%.40s' may not use partition %.60s", qos, p->name);
    if (!accounting->known)
        return true;
    const struct sw_slurm_association *a = sw_slurm_find_association(accounting, account, p->name);
    if (account != NULL && a == NULL && !accounting->no_associations)
        return refuse(why,
                      "you have no account '%.60s' for partition %.60s; see 'sacctmgr show "
                      "assoc'",
                      account, p->name);
    if (qos != NULL && sw_slurm_find_qos(accounting, qos) == NULL && !accounting->no_qos)
        return refuse(why, "there is no qos '%.60s'; see 'sacctmgr show qos'", qos);
    if (qos != NULL && a != NULL && a->qos[0] != '\0' && !sw_slurm_list_has(a->qos, qos) &&
        !accounting->no_qos)
        return refuse(why, "account '%.60s' may not use qos '%.60s': it has %.80s", a->account, qos,
                      a->qos);
    if (accounting->no_limits)
        return true;
    const struct sw_slurm_qos *q = qos != NULL ? sw_slurm_find_qos(accounting, qos) : NULL;
    if (q != NULL && seconds > q->max_time)
        return refuse(why,
                      "its time limit is more than the %s of qos %.60s: it would wait for ever",
                      sw_format_duration(q->max_time, time), q->name);
    if (a != NULL && seconds > a->max_time)
        return refuse(why,
                      "its time limit is more than the %s of account %.60s: it would wait for "
                      "ever",
                      sw_format_duration(a->max_time, time), a->account);
    return limits_admit(request, p, accounting, a, q, why);
}

/* Every number of "afterok:17:18,afterany:19" must be a job. */
static bool dependency_exists(const struct sw_job_request *request,
                              const struct sw_queued_jobs *queue, char why[WHY])
{
    const char *p = sw_job_request_get(request, "dependency");
    while (p != NULL && *p != '\0') {
        if (p[0] != ':' || !isdigit((unsigned char)p[1])) {
            p++;
            continue;
        }
        char *end = NULL;
        const int64_t id = strtoll(p + 1, &end, 10);
        int32_t i = 0;
        while (i < queue->count && queue->job[i].number != id)
            i++;
        if (i == queue->count)
            return refuse(why,
                          "it depends on job %lld, which the controller does not know (any "
                          "more)",
                          (long long)id);
        p = end;
        /* "after:17+10": minutes */
        if (*p == '+')
            p += 1 + strspn(p + 1, "0123456789");
    }
    return true;
}

bool sw_slurm_admits(const struct sw_job_request *request, const struct sw_slurm_facts *facts,
                     const struct sw_slurm_accounting *accounting,
                     const struct sw_queued_jobs *queue, char why[256])
{
    char name[128];
    const char *names = sw_job_request_get(request, "partition");
    why[0] = '\0';
    snprintf(name, sizeof name, "%.*s", names != NULL ? (int)strcspn(names, ",") : 0,
             names != NULL ? names : "");
    const struct sw_slurm_partition *p =
        sw_slurm_find_partition(facts, names != NULL ? name : NULL);
    if (p == NULL && names != NULL)
        return refuse(why, "there is no partition '%.100s'; see 'sinfo'", name);
    if (p == NULL)
        return refuse(why, "the controller has no default partition: set slurm.partition");
    if (!p->up)
        return refuse(why, "partition %.60s starts no jobs now", p->name);
    return time_fits(request, p, why) && nodes_fit(request, facts, p, why) &&
           account_may(request, p, accounting, why) &&
           (queue == NULL || dependency_exists(request, queue, why));
}

/* In any of its partitions. */
static bool admits_any(const struct sw_job_request *request, const struct sw_slurm_facts *facts,
                       const struct sw_slurm_accounting *accounting,
                       const struct sw_queued_jobs *queue, char why[WHY])
{
    const char *names = sw_job_request_get(request, "partition");
    if (names == NULL)
        return sw_slurm_admits(request, facts, accounting, queue, why);
    for (const char *p = names; *p != '\0'; p += strcspn(p, ","), p += *p == ',') {
        struct sw_job_request one = {0};
        struct sw_error err = {0};
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, ","), p);
        const bool good = sw_job_request_vary(request, "partition", name, &one, &err) != 0 ||
                          sw_slurm_admits(&one, facts, accounting, queue, why);
        sw_job_request_free(&one);
        if (good)
            return true;
    }
    return false;
}

/* ---- Nodes that are away ---- */

/* Adds names of a list of sbatch's; one that cannot be read names nobody. */
static void expand(const struct sw_job_request *request, const char *name, struct sw_hosts *out)
{
    struct sw_error ignored = {0};
    (void)sw_hosts_expand(sw_job_request_get(request, name), out, &ignored);
    sw_hosts_sort(out);
}

/* A constraint that is one feature; others are not understood, and everybody may have them. */
static bool has_constraint(const struct sw_slurm_nodes *n, const char *constraint)
{
    return constraint == NULL || strpbrk(constraint, "&|*[](),") != NULL ||
           (n->features != NULL && sw_slurm_list_has(n->features, constraint));
}

struct away {
    struct sw_hosts down, drained;
    int32_t left; /* others that fit */
};

static int find_away(const struct sw_job_request *request, const struct sw_slurm_facts *facts,
                     const struct sw_slurm_partition *p, struct away *out)
{
    const int64_t cpus =
        (int64_t)number_of(request, "ntasks-per-node", 1) * number_of(request, "cpus-per-task", 1);
    const char *gpus = sw_job_request_get(request, "gpus-per-node");
    struct sw_hosts excluded = {0};
    struct sw_error err = {0};
    int status = 0;
    expand(request, "exclude", &excluded);
    for (int32_t i = 0; i < facts->nodes_count && status == 0; i++) {
        const struct sw_slurm_nodes *n = &facts->nodes[i];
        if (n->cpus < cpus || n->memory_mb < memory_of(request) ||
            (gpus != NULL && !has_gpus(n, gpus)) ||
            !has_constraint(n, sw_job_request_get(request, "constraint")))
            continue;
        for (int32_t k = 0; k < n->hosts.count && status == 0; k++) {
            const char *name = n->hosts.name[k];
            if (!sw_hosts_contain(&p->hosts, name) || sw_hosts_contain(&excluded, name))
                continue;
            out->left += n->usable;
            if (!n->usable)
                status = sw_hosts_add(n->drained ? &out->drained : &out->down, name, &err);
        }
    }
    sw_hosts_sort(&out->down);
    sw_hosts_sort(&out->drained);
    sw_hosts_free(&excluded);
    return status;
}

static size_t name_hosts(const struct sw_hosts *hosts, const char *state, char *out, size_t bytes)
{
    enum { SHOWN = 80 };
    char shown[SHOWN + 4];
    char *names = hosts->count > 0 ? sw_hosts_compress(hosts) : NULL;
    int wrote = 0;
    if (names != NULL)
        wrote = snprintf(out, bytes, "%s (%s)", sw_text_shorten(names, SHOWN, shown), state);
    free(names);
    return wrote > 0 ? (size_t)wrote : 0;
}

bool sw_slurm_waits_for_nodes(const struct sw_job_request *request,
                              const struct sw_slurm_facts *facts, char why[WHY], int32_t *left)
{
    const int32_t nodes = number_of(request, "nodes", 1);
    const char *names = sw_job_request_get(request, "partition");
    struct away away = {0};
    char name[128];
    snprintf(name, sizeof name, "%.*s", names != NULL ? (int)strcspn(names, ",") : 0,
             names != NULL ? names : "");
    const struct sw_slurm_partition *p =
        sw_slurm_find_partition(facts, names != NULL ? name : NULL);
    why[0] = '\0';
    *left = 0;
    if (p == NULL)
        return false;
    const bool known = find_away(request, facts, p, &away) == 0;
    const bool waits =
        known && away.left < nodes && away.left + away.down.count + away.drained.count >= nodes;
    if (waits) {
        size_t used = (size_t)snprintf(why, WHY, "waits for ");
        used += name_hosts(&away.drained, "drained", why + used, WHY - used);
        if (away.drained.count > 0 && away.down.count > 0)
            used += (size_t)snprintf(why + used, WHY - used, " and ");
        name_hosts(&away.down, "down", why + used, WHY - used);
        *left = away.left;
    }
    sw_hosts_free(&away.down);
    sw_hosts_free(&away.drained);
    return waits;
}

/* Whether a job on so many nodes would start at once. */
static bool starts_now(struct sw_slurm *slurm, const struct sw_job_request *request, int32_t nodes)
{
    struct sw_job_request fewer = {0};
    struct sw_job_start start = {0};
    struct sw_error ignored = {0};
    char number[16];
    snprintf(number, sizeof number, "%d", (int)nodes);
    const bool now = nodes > 0 &&
                     sw_job_request_vary(request, "nodes", number, &fewer, &ignored) == 0 &&
                     sw_slurm_will_run(slurm, &fewer, 1, &start, &ignored) == 0 && start.starts &&
                     start.at <= (int64_t)time(NULL) + 60;
    sw_job_starts_free(&start, 1);
    sw_job_request_free(&fewer);
    return now;
}

/* What the controller itself says. --test-only refuses what sbatch queues: a job for which there
 * are not enough nodes just now. sbatch itself says whether there ever are. */
static int ask_start(struct sw_slurm *slurm, const struct sw_job_request *request,
                     const struct sw_slurm_facts *facts, struct sw_admission *out,
                     struct sw_error *err)
{
    struct sw_job_start start = {0};
    char why[WHY];
    int32_t left = 0;
    int status = sw_slurm_will_run(slurm, request, 1, &start, err);
    if (status == 0 && !start.starts && sw_slurm_waits_for_nodes(request, facts, why, &left)) {
        snprintf(out->waits, sizeof out->waits, "%.200s", why);
        if (starts_now(slurm, request, left))
            snprintf(out->waits, sizeof out->waits, "%.200s; --set nodes=%d starts now", why,
                     (int)left);
    } else if (status == 0 && !start.starts &&
               strstr(start.refusal, "node configuration is not available") != NULL) {
        snprintf(out->waits, sizeof out->waits, "waits for nodes: Slurm says now: %.150s",
                 start.refusal);
    } else if (status == 0 && !start.starts) {
        status = sw_fail(err, SW_UNMET, "the job cannot start: Slurm says: %s", start.refusal);
    }
    snprintf(out->cluster, sizeof out->cluster, "%s", sw_slurm_cluster(slurm));
    out->asked = (int64_t)time(NULL);
    out->estimate = start.at;
    sw_job_starts_free(&start, 1);
    return status;
}

int sw_slurm_admit_script(const char *script, struct sw_admission *out, struct sw_error *err)
{
    struct sw_slurm_facts facts = {0};
    struct sw_slurm_accounting accounting = {0};
    struct sw_job_request request = {0};
    struct sw_queued_jobs queue = {0};
    char why[WHY];
    int status = -1;
    struct sw_slurm *slurm = sw_slurm_open(SW_SLURM_AUTO, err);
    if (slurm == NULL || sw_slurm_request_read(script, &request, err) != 0 ||
        sw_slurm_load(slurm, &facts, err) != 0 ||
        sw_slurm_accounting_load(slurm, &accounting, err) != 0)
        goto out;
    const bool depends = sw_job_request_get(&request, "dependency") != NULL;
    if (depends && sw_slurm_queue(slurm, &queue, err) != 0)
        goto out;
    if (admits_any(&request, &facts, &accounting, depends ? &queue : NULL, why))
        status = ask_start(slurm, &request, &facts, out, err);
    else
        sw_fail(err, SW_UNMET, "the job cannot start: %s", why);
out:
    sw_queued_jobs_free(&queue);
    sw_job_request_free(&request);
    sw_slurm_accounting_free(&accounting);
    sw_slurm_facts_free(&facts);
    sw_slurm_close(slurm);
    return status;
}

void sw_slurm_admitted(const struct sw_admission *admission, const char *job)
{
    const int64_t id = strtoll(job, NULL, 10);
    if (id > 0 && admission->estimate > 0)
        sw_starts_note(admission->cluster, id, admission->asked, admission->estimate);
}
