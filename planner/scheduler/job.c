#include "planner/scheduler/job.h"

#include "core/run/submission.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void sw_queued_jobs_free(struct sw_queued_jobs *jobs)
{
    free(jobs->job);
    free(jobs->text);
    *jobs = (struct sw_queued_jobs){0};
}

const struct sw_queued_job *sw_queued_jobs_find(const struct sw_queued_jobs *jobs, const char *id)
{
    for (int32_t i = 0; i < jobs->count; i++)
        if (sw_job_id_is_of(jobs->job[i].id, id))
            return &jobs->job[i];
    return NULL;
}

int sw_job_request_add(struct sw_job_request *request, const char *name, const char *value,
                       struct sw_error *err)
{
    if (value == NULL)
        return 0;
    if (request->count == SW_JOB_OPTIONS)
        return sw_fail(err, SW_BAD_INPUT, "more than %d settings of a job", SW_JOB_OPTIONS);
    char *copy = strdup(name), *text = strdup(value);
    if (copy == NULL || text == NULL) {
        free(copy);
        free(text);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the settings of a job");
    }
    request->option[request->count].name = copy;
    request->option[request->count++].value = text;
    return 0;
}

const char *sw_job_request_get(const struct sw_job_request *request, const char *name)
{
    for (int32_t i = request->count - 1; i >= 0; i--)
        if (strcmp(request->option[i].name, name) == 0)
            return request->option[i].value;
    return NULL;
}

void sw_job_request_free(struct sw_job_request *request)
{
    for (int32_t i = 0; i < request->count; i++) {
        free(request->option[i].name);
        free(request->option[i].value);
    }
    request->count = 0;
}

int sw_job_request_vary(const struct sw_job_request *from, const char *name, const char *value,
                        struct sw_job_request *out, struct sw_error *err)
{
    out->count = 0;
    for (int32_t i = 0; i < from->count; i++)
        if ((name == NULL || strcmp(from->option[i].name, name) != 0) &&
            sw_job_request_add(out, from->option[i].name, from->option[i].value, err) != 0)
            return -1;
    return name != NULL ? sw_job_request_add(out, name, value, err) : 0;
}

void sw_job_starts_free(struct sw_job_start *starts, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        free(starts[i].nodes);
        starts[i].nodes = NULL;
    }
}

/* ---- Budgets ---- */

const char *sw_budget_end_name(enum sw_budget_end end)
{
    static const char *const names[] = {[SW_BUDGET_ENOUGH] = "enough",
                                        [SW_BUDGET_WAITS] = "waits",
                                        [SW_BUDGET_KILLED] = "killed",
                                        [SW_BUDGET_REFUSED] = "refused"};
    return names[end];
}

struct sw_budget *sw_budgets_add(struct sw_budgets *budgets, struct sw_error *err)
{
    struct sw_budget *grown =
        realloc(budgets->of, ((size_t)budgets->count + 1) * sizeof *budgets->of);
    if (grown == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory for what is left to an account");
        return NULL;
    }
    budgets->of = grown;
    return memset(&budgets->of[budgets->count++], 0, sizeof *budgets->of);
}

void sw_budgets_free(struct sw_budgets *budgets)
{
    free(budgets->of);
    *budgets = (struct sw_budgets){0};
}

double sw_budget_left(const struct sw_budget *budget)
{
    if (budget->used < 0 || budget->held < 0)
        return (double)NAN;
    return fmax(0, budget->most - budget->used - budget->held);
}
