/* Limits of an imported partition, so that jobs of its file pass plan's own checks before
 * submission. */
#include "planner/command/format.h"
#include "planner/scheduler/slurm/admit.h"
#include "planner/scheduler/slurm/import.h"
#include "planner/scheduler/slurm/limits.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WHY = 256 };

static int note_access(const struct sw_slurm_partition *p, struct sw_import *out,
                       struct sw_error *err)
{
    if (!p->up && sw_import_note(out, err, "partition %s starts no jobs now", p->name) != 0)
        return -1;
    if (p->needs_reservation && sw_import_note(out, err,
                                               "partition %s takes only jobs of a reservation: set "
                                               "slurm.reservation",
                                               p->name) != 0)
        return -1;
    if (p->accounts != NULL &&
        sw_import_note(out, err, "only these accounts may use the partition: %.300s",
                       p->accounts) != 0)
        return -1;
    return p->qos != NULL
               ? sw_import_note(out, err, "only these qos may use the partition: %.300s", p->qos)
               : 0;
}

/* Finds the memory of a node that the partition gives, if not all. */
static int take_memory(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                       struct sw_import *out, struct sw_error *err)
{
    const struct sw_slurm_memory most = sw_slurm_most_memory(facts, p);
    const int64_t cpus = (int64_t)out->cpus_per_task * out->per_node;
    const int64_t given = most.mb * (most.per_cpu ? cpus : 1);
    if (given == 0 || given >= out->memory_mb)
        return 0;
    out->given_mb = given;
    return sw_import_note(out, err,
                          "partition %s gives a job %" PRId64 " MB of a node's %" PRId64
                          ", so all of it is never given: mem is that",
                          p->name, given, out->memory_mb);
}

/* True if a job of the written file would start on that many nodes. */
static bool admits(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                   const struct sw_slurm_accounting *accounting, const struct sw_import *import,
                   int32_t nodes, char why[WHY])
{
    char number[4][32], gpus[128];
    struct sw_job_request request = {0};
    struct sw_error ignored = {0};
    snprintf(number[0], sizeof number[0], "%d", nodes);
    snprintf(number[1], sizeof number[1], "%d", import->per_node);
    snprintf(number[2], sizeof number[2], "%d", import->cpus_per_task);
    snprintf(number[3], sizeof number[3], "%" PRId64 "M", import->given_mb);
    snprintf(gpus, sizeof gpus, "%s%s%d", import->gpu_type, import->gpu_type[0] != '\0' ? ":" : "",
             import->per_node);
    const char *const memory = import->given_mb > 0                  ? number[3]
                               : import->has_gpus && !import->shared ? "0"
                                                                     : NULL;
    const char *const options[][2] = {
        {"partition", p->name},
        {"nodes", number[0]},
        {"time", "1"},
        {"ntasks-per-node", number[1]},
        {"cpus-per-task", import->cpus_per_task > 0 ? number[2] : NULL},
        {"gpus-per-node", import->has_gpus ? gpus : NULL},
        {"exclusive", import->has_gpus && !import->shared ? "" : NULL},
        {"mem", memory}};
    bool good = true;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        good = good && sw_job_request_add(&request, options[i][0], options[i][1], &ignored) == 0;
    why[0] = '\0';
    good = good && sw_slurm_admits(&request, facts, accounting, NULL, why);
    sw_job_request_free(&request);
    return good;
}

/* Lowers the number of nodes to the most that a job may have. */
static int take_nodes(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                      const struct sw_slurm_accounting *accounting, struct sw_import *out,
                      struct sw_error *err)
{
    char most[WHY] = "", why[WHY];
    int32_t nodes = out->nodes;
    while (nodes > 0 && !admits(facts, p, accounting, out, nodes, why)) {
        if (nodes == out->nodes)
            snprintf(most, sizeof most, "%s", why);
        nodes--;
    }
    if (nodes == out->nodes)
        return 0;
    if (nodes == 0)
        return sw_import_note(out, err, "a job of this file does not start: %s", most);
    const int status =
        sw_import_note(out, err, "a job may have %d of %d such nodes: %s", nodes, out->nodes, most);
    out->nodes = nodes;
    return status;
}

/* Notes limits of the qos that a job may name. */
static int note_qos(const struct sw_slurm_accounting *accounting,
                    const struct sw_slurm_association *a, struct sw_import *out,
                    struct sw_error *err)
{
    char time[SW_FORMAT_BYTES];
    for (int32_t i = 0; i < accounting->qos_count; i++) {
        const struct sw_slurm_qos *q = &accounting->qos[i];
        const char *tres = q->limits.tres[SW_LIMIT_JOB];
        const int64_t of_nodes = sw_slurm_limit_of(tres, "node"),
                      of_gpus = sw_slurm_limit_of(tres, "gres/gpu");
        const bool any = isinf(q->limits.max_time);
        if (a->qos == NULL || !sw_slurm_list_has(a->qos, q->name) || (any && tres == NULL))
            continue;
        char nodes[32] = "", gpus[32] = "";
        if (of_nodes >= 0)
            snprintf(nodes, sizeof nodes, ", %" PRId64 " nodes", of_nodes);
        if (of_gpus >= 0)
            snprintf(gpus, sizeof gpus, ", %" PRId64 " GPUs", of_gpus);
        if (sw_import_note(out, err, "qos %s limits a job to %s%s%s", q->name,
                           any ? "any time" : sw_format_duration(q->limits.max_time, time), nodes,
                           gpus) != 0)
            return -1;
    }
    return 0;
}

int sw_import_take_limits(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                          const struct sw_slurm_accounting *accounting, struct sw_import *out,
                          struct sw_error *err)
{
    struct sw_slurm_holders by;
    char who[128], time[SW_FORMAT_BYTES];
    sw_slurm_holders_find(facts, p, accounting, NULL, NULL, &by);
    out->max_time = sw_slurm_longest_time(&by, who);
    if (p->max_nodes > 0 && p->max_nodes < out->nodes &&
        !(by.qos != NULL && by.qos->lifts_most_nodes)) {
        if (sw_import_note(out, err, "partition %s has %d such nodes, and gives a job at most %d",
                           p->name, out->nodes, p->max_nodes) != 0)
            return -1;
        out->nodes = p->max_nodes;
    }
    if (note_access(p, out, err) != 0 || take_memory(facts, p, out, err) != 0)
        return -1;
    if (!accounting->known)
        return sw_import_note(out, err,
                              "no accounting (sacctmgr): limits of accounts and qos are "
                              "not known");
    snprintf(out->account, sizeof out->account, "%s", accounting->default_account);
    if (by.association == NULL || accounting->no_limits)
        return 0;
    if (who[0] != '\0' && sw_import_note(out, err, "time is the limit of %s, %s", who,
                                         sw_format_duration(out->max_time, time)) != 0)
        return -1;
    return take_nodes(facts, p, accounting, out, err) != 0
               ? -1
               : note_qos(accounting, by.association, out, err);
}
