#include "planner/scheduler/slurm/internal.h"
#include "planner/scheduler/slurm/queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Asking ---- */

/* Checks for a configuration: without one libslurm and the commands wait a minute. */
static int look_at_configuration(struct sw_error *err)
{
    const char *path = getenv("SLURM_CONF");
    if (path == NULL || *path == '\0' || access(path, R_OK) == 0)
        return 0;
    return sw_fail(err, SW_ENVIRONMENT,
                   "Slurm's configuration '%s' cannot be read: %s; set SLURM_CONF to the "
                   "slurm.conf of the cluster, or unset it",
                   path, strerror(errno));
}

struct sw_slurm *sw_slurm_open(enum sw_slurm_backing backing, struct sw_error *err)
{
    struct sw_error first = {0};
    bool timed_out = false;
    if (look_at_configuration(err) != 0)
        return NULL;
    struct sw_slurm *slurm = calloc(1, sizeof *slurm);
    if (slurm == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while asking Slurm");
        return NULL;
    }
    const bool library = backing != SW_SLURM_COMMANDS && sw_slurm_library_find(slurm->program);
    if (backing == SW_SLURM_LIBRARY && !library) {
        sw_fail(err, SW_ENVIRONMENT,
                "there is no plan-slurm beside plan; build with libslurm-dev, or go without");
        goto fail;
    }
    slurm->backing = SW_SLURM_LIBRARY;
    if (library && sw_slurm_library_open(slurm, &timed_out, &first) == 0)
        return slurm;
    /* other mistakes, such as a different release, do not affect the site's own commands */
    if (library && (backing == SW_SLURM_LIBRARY || timed_out)) {
        sw_fail_as(err, &first);
        goto fail;
    }
    slurm->backing = SW_SLURM_COMMANDS;
    if (sw_slurm_commands_open(slurm, err) == 0)
        return slurm;
fail:
    free(slurm);
    return NULL;
}

void sw_slurm_close(struct sw_slurm *slurm)
{
    free(slurm);
}

enum sw_slurm_backing sw_slurm_backing(const struct sw_slurm *slurm)
{
    return slurm->backing;
}

const char *sw_slurm_version(const struct sw_slurm *slurm)
{
    return slurm->version;
}

const char *sw_slurm_cluster(const struct sw_slurm *slurm)
{
    return slurm->cluster;
}

const char *sw_slurm_enforced(const struct sw_slurm *slurm)
{
    return slurm->enforced;
}

/* ---- Facts ---- */

static int compare_switches(const void *a, const void *b)
{
    const struct sw_slurm_switch *x = a, *y = b;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void sort_switches(struct sw_slurm_facts *facts)
{
    for (int32_t i = 0; i < facts->switch_count; i++)
        sw_hosts_sort(&facts->switches[i].hosts);
    if (facts->switch_count > 0)
        qsort(facts->switches, (size_t)facts->switch_count, sizeof *facts->switches,
              compare_switches);
}

int sw_slurm_load_topology(const char *name, struct sw_slurm_facts *facts, struct sw_error *err)
{
    sw_slurm_free_switches(facts);
    const int status = sw_slurm_commands_load_switches(name, facts, err);
    sort_switches(facts);
    return status;
}

int sw_slurm_load(struct sw_slurm *slurm, struct sw_slurm_facts *out, struct sw_error *err)
{
    *out = (struct sw_slurm_facts){0};
    const int status = slurm->backing == SW_SLURM_LIBRARY ? sw_slurm_library_load(slurm, out, err)
                                                          : sw_slurm_commands_load(out, err);
    if (status != 0)
        return -1;
    out->site = slurm->site;
    for (int32_t i = 0; i < out->nodes_count; i++)
        sw_hosts_sort(&out->nodes[i].hosts);
    for (int32_t i = 0; i < out->partition_count; i++)
        sw_hosts_sort(&out->partition[i].hosts);
    sort_switches(out);
    return 0;
}

/* ---- When a job would start ---- */

int sw_slurm_will_run(struct sw_slurm *slurm, const struct sw_job_request *requests, int32_t count,
                      struct sw_job_start *out, struct sw_error *err)
{
    int status = -1;
    bool *asked = calloc((size_t)count + 1, sizeof *asked);
    if (asked == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for what Slurm says");
    memset(out, 0, (size_t)count * sizeof *out);
    if (slurm->backing == SW_SLURM_LIBRARY &&
        sw_slurm_library_will_run(slurm, requests, count, out, asked, err) != 0)
        goto out;
    for (int32_t i = 0; i < count; i++)
        if (!asked[i] && sw_slurm_commands_will_run(&requests[i], &out[i], err) != 0)
            goto out;
    status = 0;
out:
    free(asked);
    return status;
}

int sw_slurm_queue(struct sw_slurm *slurm, struct sw_queued_jobs *out, struct sw_error *err)
{
    *out = (struct sw_queued_jobs){0};
    return slurm->backing == SW_SLURM_LIBRARY ? sw_slurm_library_jobs(slurm, out, err)
                                              : sw_slurm_ask_all(SW_SLURM_LATER_SECONDS, out, err);
}
