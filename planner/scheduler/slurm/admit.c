#include "planner/scheduler/slurm/admit.h"

#include "core/base/text.h"
#include "planner/command/format.h"
#include "planner/scheduler/slurm/budget.h"
#include "planner/scheduler/slurm/limits.h"
#include "planner/scheduler/slurm/script.h"
#include "planner/scheduler/slurm/waits.h"
#include "planner/scheduler/slurm/settings.h"

#include <ctype.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* ---- The nodes ---- */

/* Number of nodes in a partition with all of a demand. */
static int32_t count_fitting(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                             const struct sw_slurm_demand *d)
{
    int32_t count = 0;
    for (int32_t i = 0; i < facts->nodes_count; i++)
        if (sw_slurm_node_has(&facts->nodes[i], d))
            count += sw_slurm_nodes_common(&facts->nodes[i], p, &d->excluded);
    return count;
}

/* Number of nodes in a partition with no more processors than it gives. */
static int32_t count_small(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p)
{
    int32_t count = 0;
    for (int32_t i = 0; i < facts->nodes_count; i++)
        if (facts->nodes[i].cpus <= p->max_cpus_per_node)
            count += sw_hosts_common(&facts->nodes[i].hosts, &p->hosts);
    return count;
}

/* Checks the partition's limits on the number of nodes, which a qos may lift. */
static bool count_fits(const struct sw_slurm_demand *d, const struct sw_slurm_partition *p,
                       const struct sw_slurm_qos *q, char why[WHY])
{
    char number[SW_FORMAT_RATE];
    sw_format_counted(d->nodes, "node", number);
    if (p->max_nodes > 0 && d->nodes > p->max_nodes && !(q != NULL && q->lifts_most_nodes))
        return refuse(why, "%s asked for, but partition %.60s gives a job at most %d", number,
                      p->name, p->max_nodes);
    if (p->min_nodes > 0 && d->nodes < p->min_nodes && !(q != NULL && q->lifts_least_nodes))
        return refuse(why, "%s asked for, but partition %.60s gives a job at least %d", number,
                      p->name, p->min_nodes);
    if (d->nodes > p->hosts.count)
        return refuse(why, "%s asked for, but partition %.60s has %d", number, p->name,
                      p->hosts.count);
    return true;
}

/* Fails with the part of the demand that too few nodes have. */
static bool nodes_have(const struct sw_slurm_demand *d, const struct sw_slurm_facts *facts,
                       const struct sw_slurm_partition *p, char why[WHY])
{
    char number[SW_FORMAT_RATE];
    const struct sw_slurm_demand of_cpus = {.cpus = d->cpus},
                                 of_memory = {.memory_by = SW_MEMORY_NODE,
                                              .memory_mb = sw_slurm_demand_memory(d)},
                                 of_gpus = {.gpus = d->gpus},
                                 of_feature = {.constraint = d->constraint};
    sw_format_counted(d->nodes, "node", number);
    int32_t fit = count_fitting(facts, p, &of_cpus);
    if (fit < d->nodes)
        return refuse(
            why, "%s with %" PRId64 " processors asked for (%s), but partition %.60s has %d",
            number, d->cpus,
            d->by_memory ? "by its memory and MaxMemPerCPU" : "tasks of a node times cpus_per_task",
            p->name, fit);
    fit = count_fitting(facts, p, &of_memory);
    if (fit < d->nodes)
        return refuse(why, "%s with %" PRId64 " MB of memory asked for, but partition %.60s has %d",
                      number, of_memory.memory_mb, p->name, fit);
    fit = count_fitting(facts, p, &of_gpus);
    if (fit < d->nodes)
        return refuse(why, "%s with GPUs '%.40s' asked for, but partition %.60s has %d", number,
                      d->gpus_text, p->name, fit);
    fit = count_fitting(facts, p, &of_feature);
    if (fit < d->nodes)
        return refuse(why, "%s with feature '%.40s' asked for, but partition %.60s has %d", number,
                      d->constraint, p->name, fit);
    fit = count_fitting(facts, p, d);
    if (fit < d->nodes)
        return refuse(why, "%s asked for, but partition %.60s has %d that have all of it%s", number,
                      p->name, fit, d->excluded.count > 0 ? " and are not excluded" : "");
    return true;
}

/* d: settled by the partition, which gives `beyond` MB less memory; 0: it gives enough. */
static bool nodes_fit(const struct sw_slurm_demand *d, int64_t beyond,
                      const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                      char why[WHY])
{
    const int64_t most = p->max_cpus_per_node;
    if (beyond > 0)
        return refuse(why,
                      "%" PRId64 " MB of memory of a node asked for, but MaxMemPerNode of %s%.60s "
                      "is %" PRId64 ": %s",
                      beyond, p->most.mb > 0 ? "partition " : "the site",
                      p->most.mb > 0 ? p->name : "", sw_slurm_most_memory(facts, p).mb,
                      "set slurm.mem");
    if (most > 0 && d->cpus > most)
        return refuse(why,
                      "%" PRId64 " processors of a node asked for, but partition %.60s gives "
                      "%" PRId64,
                      d->cpus, p->name, most);
    if (d->whole_nodes && most > 0 && count_small(facts, p) < d->nodes)
        return refuse(why,
                      "whole nodes asked for, but partition %.60s gives a job %" PRId64
                      " processors of a node: set slurm.exclusive to false",
                      p->name, most);
    return nodes_have(d, facts, p, why);
}

/* ---- Time and tasks ---- */

static bool time_fits(const struct sw_job_request *request, const struct sw_slurm_partition *p,
                      const struct sw_slurm_qos *q, char why[WHY])
{
    char longest[SW_FORMAT_BYTES];
    const char *time = sw_job_request_get(request, "time");
    const char *least = sw_job_request_get(request, "time-min");
    const double seconds = sw_slurm_time_seconds(least != NULL ? least : time);
    if (time == NULL || seconds <= p->max_time || (q != NULL && q->lifts_time))
        return true;
    return refuse(
        why,
        "its time limit, %.40s, is more than the %s of partition %.60s: it would wait for "
        "ever",
        least != NULL ? least : time, sw_format_duration(p->max_time, longest), p->name);
}

static bool array_fits(const struct sw_slurm_demand *d, const struct sw_slurm_site *site,
                       char why[WHY])
{
    if (site->max_array > 0 && d->last_index >= site->max_array)
        return refuse(why,
                      "its array has index %" PRId64 ", but MaxArraySize of the site is %" PRId64
                      ": indices are smaller",
                      d->last_index, site->max_array);
    if (site->max_tasks > 0 && d->last_index >= 0 && d->tasks > site->max_tasks)
        return refuse(
            why, "its array has %" PRId64 " tasks, but max_array_tasks of the site is %" PRId64,
            d->tasks, site->max_tasks);
    return true;
}

/* ---- Who may use the partition ---- */

/* True if the calling user is in one of a list's groups, or is root, who may use all. */
static bool in_groups(const char *list)
{
    gid_t groups[256];
    int count = sizeof groups / sizeof groups[0];
    const struct passwd *who = getpwuid(getuid());
    if (who == NULL || who->pw_uid == 0 ||
        getgrouplist(who->pw_name, who->pw_gid, groups, &count) < 0)
        return true; /* sbatch reports it */
    for (int i = 0; i < count; i++) {
        const struct group *group = getgrgid(groups[i]);
        if (group == NULL || sw_slurm_list_has(list, group->gr_name))
            return true;
    }
    return false;
}

static bool user_may(const struct sw_job_request *request, const struct sw_slurm_partition *p,
                     char why[WHY])
{
    if (p->needs_reservation && sw_job_request_get(request, "reservation") == NULL)
        return refuse(why,
                      "partition %.60s takes only jobs of a reservation: set "
                      "slurm.reservation; see 'scontrol show reservation'",
                      p->name);
    if (p->root_only && getuid() != 0)
        return refuse(why, "partition %.60s takes jobs of the root only", p->name);
    if (p->groups != NULL && !in_groups(p->groups))
        return refuse(why, "you are in none of the groups that may use partition %.60s: %.80s",
                      p->name, p->groups);
    return true;
}

/* Checks the partition's lists: with a list of allowed ones, that of denied ones has no meaning. */
static bool lists_admit(const struct sw_slurm_partition *p, const char *account, const char *qos,
                        char why[WHY])
{
    if (account != NULL && p->accounts != NULL && !sw_slurm_list_has(p->accounts, account))
        return refuse(why, "account '%.40s' may not use partition %.60s: %.80s may", account,
                      p->name, p->accounts);
    if (account != NULL && p->accounts == NULL && p->denied_accounts != NULL &&
        sw_slurm_list_has(p->denied_accounts, account))
        return refuse(why, "account '%.40s' may not use partition %.60s", account, p->name);
    if (qos != NULL && p->qos != NULL && !sw_slurm_list_has(p->qos, qos))
        return refuse(why, "qos '%.40s' may not use partition %.60s: %.80s may", qos, p->name,
                      p->qos);
    if (qos != NULL && p->qos == NULL && p->denied_qos != NULL &&
        sw_slurm_list_has(p->denied_qos, qos))
        return refuse(why, "qos '%.40s' may not use partition %.60s", qos, p->name);
    return true;
}

/* True if the user has the account and the qos. */
static bool account_has(const struct sw_slurm_holders *by, const char *account, const char *name,
                        bool reserved, char why[WHY])
{
    const struct sw_slurm_accounting *accounting = by->accounting;
    const struct sw_slurm_association *a = by->association;
    if (account != NULL && a == NULL && !accounting->no_associations)
        return refuse(why,
                      "you have no account '%.60s' for partition %.60s; see 'sacctmgr show "
                      "assoc'",
                      account, by->partition->name);
    if (name != NULL && by->qos == NULL && !accounting->no_qos)
        return refuse(why, "there is no qos '%.60s'; see 'sacctmgr show qos'", name);
    if (name != NULL && a != NULL && a->qos != NULL && a->qos[0] != '\0' &&
        !sw_slurm_list_has(a->qos, name) && !accounting->no_qos)
        return refuse(why, "account '%.60s' may not use qos '%.60s': it has %.80s", a->account,
                      name, a->qos);
    if (by->qos != NULL && by->qos->needs_reservation && !reserved)
        return refuse(why, "qos '%.60s' is for jobs of a reservation: set slurm.reservation", name);
    return true;
}

static bool account_may(const struct sw_job_request *request, const struct sw_slurm_holders *by,
                        const struct sw_slurm_demand *d, char why[WHY])
{
    struct sw_slurm_use use;
    const struct sw_slurm_partition *p = by->partition;
    const struct sw_slurm_accounting *accounting = by->accounting;
    const char *account = sw_job_request_get(request, "account");
    const char *qos = sw_job_request_get(request, "qos");
    const char *time = sw_job_request_get(request, "time");
    const char *of =
        account != NULL
            ? account
            : (accounting->default_account[0] != '\0' ? accounting->default_account : NULL);
    /* without a time it gets the partition's default */
    const double seconds = time != NULL ? sw_slurm_time_seconds(time) : p->default_time;
    const bool reserved = sw_job_request_get(request, "reservation") != NULL;
    if (!lists_admit(p, of, qos != NULL ? qos : by->qos_name, why))
        return false;
    if (!accounting->known)
        return true;
    if (!account_has(by, account, by->qos_name, reserved, why))
        return false;
    if (accounting->no_limits)
        return true;
    sw_slurm_use_find(d, by->facts, p, &use);
    return sw_slurm_limits_admit(by, &use, seconds, d->tasks, why);
}

/* ---- Dependencies ---- */

/* Checks that every number of "afterok:17:18,afterany:19" is a job. */
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

/* Judges a job for one partition and one qos. */
static bool admits_one(const struct sw_job_request *request, const struct sw_slurm_facts *facts,
                       const struct sw_slurm_accounting *accounting,
                       const struct sw_queued_jobs *queue, char why[WHY])
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
    struct sw_slurm_holders by;
    struct sw_slurm_demand demand;
    sw_slurm_holders_find(facts, p, accounting, sw_job_request_get(request, "account"),
                          sw_job_request_get(request, "qos"), &by);
    sw_slurm_demand_read(request, &demand);
    const bool counts = count_fits(&demand, p, by.qos, why);
    const int64_t beyond = sw_slurm_demand_settle(&demand, facts, p);
    const bool good = counts && time_fits(request, p, by.qos, why) &&
                      nodes_fit(&demand, beyond, facts, p, why) &&
                      array_fits(&demand, &facts->site, why) && user_may(request, p, why) &&
                      account_may(request, &by, &demand, why) &&
                      (queue == NULL || dependency_exists(request, queue, why));
    sw_slurm_demand_free(&demand);
    return good;
}

typedef bool judge_fn(const struct sw_job_request *request, const struct sw_slurm_facts *facts,
                      const struct sw_slurm_accounting *accounting,
                      const struct sw_queued_jobs *queue, char why[WHY]);

/* True if the job is admitted with any of the names in an option's list. */
static bool admits_any(const struct sw_job_request *request, const char *option, judge_fn *judge,
                       const struct sw_slurm_facts *facts,
                       const struct sw_slurm_accounting *accounting,
                       const struct sw_queued_jobs *queue, char why[WHY])
{
    const char *names = sw_job_request_get(request, option);
    if (names == NULL || strchr(names, ',') == NULL)
        return judge(request, facts, accounting, queue, why);
    for (const char *p = names; *p != '\0'; p += strcspn(p, ","), p += *p == ',') {
        struct sw_job_request one = {0};
        struct sw_error err = {0};
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, ","), p);
        const bool good = sw_job_request_vary(request, option, name, &one, &err) != 0 ||
                          judge(&one, facts, accounting, queue, why);
        sw_job_request_free(&one);
        if (good)
            return true;
    }
    return false;
}

bool sw_slurm_admits(const struct sw_job_request *request, const struct sw_slurm_facts *facts,
                     const struct sw_slurm_accounting *accounting,
                     const struct sw_queued_jobs *queue, char why[WHY])
{
    /* lists of qos are accepted from 24.11 on, the best first */
    return admits_any(request, "qos", admits_one, facts, accounting, queue, why);
}

/* ---- Missing nodes ---- */

struct away {
    struct sw_hosts down, drained;
    int32_t left; /* other nodes that fit */
};

static int find_away(const struct sw_slurm_demand *d, const struct sw_slurm_facts *facts,
                     const struct sw_slurm_partition *p, struct away *out)
{
    struct sw_error err = {0};
    int status = 0;
    for (int32_t i = 0; i < facts->nodes_count && status == 0; i++) {
        const struct sw_slurm_nodes *n = &facts->nodes[i];
        if (!sw_slurm_node_has(n, d))
            continue;
        for (int32_t k = 0; k < n->hosts.count && status == 0; k++) {
            const char *name = n->hosts.name[k];
            if (!sw_hosts_contain(&p->hosts, name) || sw_hosts_contain(&d->excluded, name))
                continue;
            out->left += n->usable;
            if (!n->usable)
                status = sw_hosts_add(n->drained ? &out->drained : &out->down, name, &err);
        }
    }
    sw_hosts_sort(&out->down);
    sw_hosts_sort(&out->drained);
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
    const char *names = sw_job_request_get(request, "partition");
    struct sw_slurm_demand demand;
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
    sw_slurm_demand_read(request, &demand);
    (void)sw_slurm_demand_settle(&demand, facts, p);
    const bool known = find_away(&demand, facts, p, &away) == 0;
    const int32_t nodes = demand.nodes;
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
    sw_slurm_demand_free(&demand);
    sw_hosts_free(&away.down);
    sw_hosts_free(&away.drained);
    return waits;
}

/* --test-only refuses jobs that sbatch queues, since too few nodes are up now. sbatch itself knows
 * if there ever are enough. */
bool sw_slurm_refusal_waits(const struct sw_job_request *request,
                            const struct sw_slurm_facts *facts, const char *refusal,
                            char why[SW_JOB_REFUSAL_BYTES], int32_t *left)
{
    if (sw_slurm_waits_for_nodes(request, facts, why, left))
        return true;
    const bool waits = strstr(refusal, "node configuration is not available") != NULL;
    snprintf(why, SW_JOB_REFUSAL_BYTES, "%sSlurm says%s: %.850s", waits ? "waits for nodes: " : "",
             waits ? " now" : "", refusal);
    return waits;
}

/* Asks the controller when the job starts. */
static int ask_start(struct sw_slurm *slurm, const struct sw_job_request *request,
                     const struct sw_slurm_facts *facts, struct sw_admission *out,
                     struct sw_error *err)
{
    struct sw_job_start start = {0};
    char why[SW_JOB_REFUSAL_BYTES];
    int status = sw_slurm_will_run(slurm, request, 1, &start, err);
    if (status == 0 && !start.starts) {
        if (sw_slurm_refusal_waits(request, facts, start.refusal, why, &out->left))
            snprintf(out->waits, sizeof out->waits, "%s", why);
        else
            status = sw_fail(err, SW_UNMET, "the job cannot start: %s", why);
    }
    snprintf(out->cluster, sizeof out->cluster, "%s", sw_slurm_cluster(slurm));
    out->asked = (int64_t)time(NULL);
    out->estimate = start.at;
    sw_job_starts_free(&start, 1);
    return status;
}

/* Asks for the remaining budgets of the admitted job. */
static int find_budgets(const struct sw_job_request *request, const struct sw_slurm_facts *facts,
                        struct sw_slurm_accounting *accounting, struct sw_budgets *out,
                        struct sw_error *err)
{
    struct sw_slurm_licenses licenses = {0};
    int status = sw_slurm_usage_load(accounting, err);
    if (status == 0 && sw_job_request_get(request, "licenses") != NULL)
        status = sw_slurm_licenses_load(&licenses, err);
    if (status == 0)
        status = sw_slurm_budgets_find(request, facts, accounting, &licenses, out, err);
    sw_slurm_licenses_free(&licenses);
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
    if (admits_any(&request, "partition", sw_slurm_admits, &facts, &accounting,
                   depends ? &queue : NULL, why))
        status = find_budgets(&request, &facts, &accounting, &out->budgets, err) != 0
                     ? -1
                     : ask_start(slurm, &request, &facts, out, err);
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
