/* Predicted starts of jobs: the controller's answers, kept for all choices of a run. */
#include "planner/scheduler/slurm/admit.h"
#include "planner/scheduler/slurm/budget.h"
#include "planner/scheduler/slurm/client.h"
#include "planner/scheduler/slurm/row.h"
#include "planner/scheduler/slurm/script.h"
#include "planner/scheduler/slurm/waits.h"

#include <stdlib.h>
#include <unistd.h>

struct sw_forecast {
    struct sw_slurm *slurm;
    struct sw_slurm_facts facts;
    struct sw_slurm_accounting accounting;
    struct sw_slurm_licenses licenses; /* if a job requests some */
    struct sw_waits waits;
    struct sw_quantiles ratio;
    struct sw_queued_jobs queue; /* if the job depends on another one */
    bool depends;
};

static void close_forecast(struct sw_forecast *f)
{
    if (f == NULL)
        return;
    sw_queued_jobs_free(&f->queue);
    sw_waits_free(&f->waits);
    sw_slurm_licenses_free(&f->licenses);
    sw_slurm_accounting_free(&f->accounting);
    sw_slurm_facts_free(&f->facts);
    sw_slurm_close(f->slurm);
    free(f);
}

static struct sw_forecast *open_forecast(struct sw_error *err)
{
    struct sw_forecast *f = calloc(1, sizeof *f);
    if (f == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while asking Slurm");
        return NULL;
    }
    f->slurm = sw_slurm_open(SW_SLURM_AUTO, err);
    if (f->slurm != NULL)
        return f;
    free(f);
    return NULL;
}

/* True if slurm.conf is where slurm.conf(5) and sackd(8) look for it; without it the commands wait
 * a minute. */
static bool is_here(void)
{
    static const char *const files[] = {"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf",
                                        "/run/slurm/conf/slurm.conf"};
    static const char *const variables[] = {"SLURM_CONF", "SLURM_CONF_SERVER"};
    bool is_set = false;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        is_set = is_set || (value != NULL && value[0] != '\0');
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        is_set = is_set || access(files[i], R_OK) == 0;
    return is_set && sw_process_exists("scontrol");
}

static const char *cluster(const struct sw_forecast *f)
{
    return sw_slurm_cluster(f->slurm);
}

static const char *version(const struct sw_forecast *f)
{
    return sw_slurm_version(f->slurm);
}

/* Loads limits and their usage. */
static int load_limits(struct sw_forecast *f, struct sw_error *err)
{
    return sw_slurm_load(f->slurm, &f->facts, err) != 0 ||
                   sw_slurm_accounting_load(f->slurm, &f->accounting, err) != 0 ||
                   sw_slurm_usage_load(&f->accounting, err) != 0
               ? -1
               : 0;
}

static int load(struct sw_forecast *f, const struct sw_job_request *base, struct sw_error *err)
{
    if (load_limits(f, err) != 0 || sw_waits_load(&f->waits, err) != 0 ||
        sw_starts_ratio(f->slurm, &f->ratio, err) != 0)
        return -1;
    f->depends = sw_job_request_get(base, "dependency") != NULL;
    return f->depends ? sw_slurm_queue(f->slurm, &f->queue, err) : 0;
}

static const char *partition(const struct sw_forecast *f, const char *name)
{
    const struct sw_slurm_partition *p = sw_slurm_find_partition(&f->facts, name);
    return p != NULL ? p->name : NULL;
}

static bool admits(const struct sw_forecast *f, const struct sw_job_request *request, char why[256])
{
    return sw_slurm_admits(request, &f->facts, &f->accounting, f->depends ? &f->queue : NULL, why);
}

static int budgets(struct sw_forecast *f, const struct sw_job_request *request,
                   struct sw_budgets *out, struct sw_error *err)
{
    if (f->facts.partition_count == 0 && load_limits(f, err) != 0)
        return -1;
    if (!f->licenses.known && sw_job_request_get(request, "licenses") != NULL &&
        sw_slurm_licenses_load(&f->licenses, err) != 0)
        return -1;
    return sw_slurm_budgets_find(request, &f->facts, &f->accounting, &f->licenses, out, err);
}

static int starts(struct sw_forecast *f, const struct sw_job_request *requests, int32_t count,
                  struct sw_job_start *out, struct sw_error *err)
{
    if (sw_slurm_will_run(f->slurm, requests, count, out, err) != 0)
        return -1;
    for (int32_t i = 0; i < count; i++) {
        char why[sizeof out[i].refusal];
        int32_t left;
        if (out[i].starts)
            continue;
        out[i].waits = sw_slurm_refusal_waits(&requests[i], &f->facts, out[i].refusal, why, &left);
        snprintf(out[i].refusal, sizeof out[i].refusal, "%s", why);
    }
    return 0;
}

static struct sw_quantiles waits(const struct sw_forecast *f, const char *name, int32_t nodes,
                                 double limit_s)
{
    return sw_waits_like(&f->waits, name, nodes, limit_s);
}

static struct sw_quantiles ratio(const struct sw_forecast *f)
{
    return f->ratio;
}

const struct sw_forecast_row sw_slurm_forecast = {
    .is_here = is_here,
    .open = open_forecast,
    .close = close_forecast,
    .cluster = cluster,
    .version = version,
    .read = sw_slurm_request_read,
    .load = load,
    .partition = partition,
    .admits = admits,
    .budgets = budgets,
    .starts = starts,
    .waits = waits,
    .ratio = ratio,
};
