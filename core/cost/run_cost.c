#include "core/cost/run_cost.h"

#include <math.h>
#include <stddef.h>

static const double hour_s = 3600;

/* Running time until a stretch has passed without a failure, restarted after each. */
static double until_whole(double stretch_s, double failure_s)
{
    if (isinf(failure_s))
        return stretch_s;
    const double exponent = stretch_s / failure_s;
    return exponent > 12 * log(10) ? INFINITY : failure_s * expm1(exponent);
}

/* Running time from one durable checkpoint to the next, work_s later; again_s: the stretch that an
 * attempt must run after a failure in between. */
static double until_durable(double work_s, double again_s, double failure_s)
{
    if (isinf(failure_s))
        return work_s;
    const double fails = -expm1(-work_s / failure_s);
    return fails * (failure_s + until_whole(again_s, failure_s));
}

/* A job between its start and the time limit; ends at the limit are counted. */
struct job {
    double start_s, net_s; /* seconds before its first step; seconds of training until the limit */
    double lost_s;         /* seconds of training that a failure loses in the mean */
    double failure_s;
};

enum { CELLS = 64, LIMITS = 32 };

/* Probabilities that a job fails at each progress, in cells of net_s / CELLS. chance[k]: progress
 * k. Returns the probability of no failure. */
static double progress_chances(const struct job *job, double chance[CELLS + 1])
{
    const double cell_s = job->net_s / CELLS, in_cell = -expm1(-cell_s / job->failure_s);
    for (int32_t k = 0; k <= CELLS; k++)
        chance[k] = 0;
    chance[0] = -expm1(-job->start_s / job->failure_s);
    for (int32_t i = 0; i < CELLS; i++) {
        const double fails = exp(-(job->start_s + i * cell_s) / job->failure_s) * in_cell;
        const double progress = fmax(0, i + 0.5 - job->lost_s / cell_s);
        const int32_t whole = (int32_t)progress;
        chance[whole] += fails * (1 - (progress - whole));
        chance[whole + 1] += fails * (progress - whole);
    }
    return exp(-(job->start_s + job->net_s) / job->failure_s);
}

/* Expected ends of jobs at their limit in work_s of training: g(x) = 0 up to net_s, then
 * g(x) = P(no failure) (1 + g(x - net_s)) + sum over progress p of P(p) g(x - p). */
static double limit_ends(double work_s, const struct job *job)
{
    if (work_s <= job->net_s)
        return 0;
    if (isinf(job->failure_s))
        return ceil(work_s / job->net_s) - 1;
    double g[CELLS * LIMITS + 1], chance[CELLS + 1], mean = 0;
    const double whole = progress_chances(job, chance), wanted = work_s / job->net_s * CELLS;
    const int32_t last = (int32_t)fmin(ceil(wanted), CELLS * LIMITS);
    for (int32_t j = 0; j <= last; j++) {
        g[j] = 0;
        if (j <= CELLS)
            continue;
        double sum = whole * (1 + g[j - CELLS]);
        for (int32_t k = 1; k <= CELLS; k++)
            sum += chance[k] * g[j - k];
        g[j] = sum / (1 - chance[0]);
    }
    if (wanted <= last)
        return g[last - 1] + (g[last] - g[last - 1]) * (wanted - (last - 1));
    for (int32_t k = 1; k <= CELLS; k++) /* far from the start, ends come at a constant rate */
        mean += chance[k] * k;
    return g[last] + (wanted - last) * whole / (mean + whole * CELLS);
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Steps between two saves: as configured, but no more than a job trains. */
static int64_t saved_interval(const struct sw_run_terms *t, double step_s)
{
    const int64_t interval = t->interval > 0 && t->interval < t->steps ? t->interval : t->steps;
    const double net_s = t->limit_s - t->start_s - t->load_s;
    if (net_s >= (double)interval * step_s)
        return interval;
    return net_s <= step_s ? 1 : (int64_t)ceil(net_s / step_s);
}

/* Running time of all attempts without ends at limits; *trained: training in it that counts. */
static double run_through(const struct sw_run_terms *t, int64_t interval, double step_s,
                          double last_evaluation_s, struct sw_run_time *out)
{
    const int64_t saves = divide_up(t->steps, interval);
    const double work_s = (double)interval * step_s + (saves == 1 ? last_evaluation_s : 0);
    const double last_s = (double)(t->steps - (saves - 1) * interval) * step_s + last_evaluation_s;
    /* a save waits for the one before */
    const double wait_s = fmax(0, t->durable_s - work_s);
    const double last_wait_s = saves > 1 ? fmax(0, t->durable_s - last_s) : 0;
    const double again_s = t->start_s + t->load_s + t->durable_s + t->pause_s;
    const double between = saves > 2 ? (double)(saves - 2) : 0;
    out->save_s = (double)saves * t->pause_s + between * wait_s + last_wait_s + t->durable_s;
    double running_s = until_whole(t->start_s + work_s + t->pause_s + t->durable_s, t->failure_s);
    if (saves > 2)
        running_s +=
            between * until_durable(work_s + wait_s + t->pause_s, again_s + work_s, t->failure_s);
    if (saves > 1)
        running_s +=
            until_durable(last_s + last_wait_s + t->pause_s, again_s + last_s, t->failure_s);
    return running_s;
}

/* Wait for a running save at a random moment, if one begins every every_s. */
static double waited_for(double durable_s, double every_s)
{
    if (durable_s >= every_s)
        return durable_s - every_s / 2;
    return every_s > 0 ? durable_s * durable_s / (2 * every_s) : 0;
}

void sw_run_time(const struct sw_run_terms *t, struct sw_run_time *out)
{
    *out = (struct sw_run_time){.steps_s = (double)t->steps * t->step_s, .jobs = 1};
    const int64_t evaluations =
        t->evaluate_interval > 0 ? divide_up(t->steps, t->evaluate_interval) : 1;
    out->evaluate_s = (double)evaluations * t->evaluate_s;
    /* evaluations are spread over the steps; the last steps may be too few for one */
    const double step_s =
        t->step_s + (t->evaluate_interval > 0 ? t->evaluate_s / (double)t->evaluate_interval : 0);
    const double last_s = out->steps_s + out->evaluate_s - (double)t->steps * step_s;
    const int64_t interval = saved_interval(t, step_s);
    const double running_s = run_through(t, interval, step_s, last_s, out);
    const double start_s = t->start_s + t->load_s, save_s = t->pause_s + t->durable_s;
    /* At a limit the last save is waited for, and another follows unless the interval was shortened
     * to a job's training. */
    const double pending_s = waited_for(t->durable_s, (double)interval * step_s + t->pause_s);
    const bool cut = interval < (t->interval > 0 ? t->interval : t->steps);
    const double end_save_s = cut ? t->durable_s : save_s + pending_s;
    double ends = 0, again_s = 0;
    if (!isinf(t->limit_s) && !isinf(running_s)) {
        const struct job job = {.start_s = start_s,
                                /* the current step is finished */
                                .net_s = t->limit_s - start_s + step_s / 2,
                                .lost_s = (double)interval * step_s / 2 + t->durable_s,
                                .failure_s = t->failure_s};
        /* the first job reads no checkpoint; the last one may begin its last step at the limit */
        const double work_s = out->steps_s + out->evaluate_s + out->save_s - save_s - t->load_s;
        ends = t->limit_s <= start_s ? INFINITY : limit_ends(work_s - step_s / 2, &job);
        /* a failure at a job's end or start loses half of these, and unsaved training */
        again_s = ((start_s + end_save_s) * (start_s + end_save_s) / 2 + end_save_s * job.lost_s) /
                  t->failure_s;
    }
    const double trained_s = running_s + (ends > 0 ? ends * (start_s + end_save_s + again_s) : 0);
    out->failures = isinf(t->failure_s) ? 0 : trained_s / t->failure_s;
    out->jobs += ends;
    const double again = out->failures + ends;
    out->save_s += ends > 0 ? ends * end_save_s : 0;
    out->restart_s = out->failures > 0 ? out->failures * t->restart_s : 0;
    out->queue_s = again > 0 && t->queue_s > 0 ? again * t->queue_s : 0;
    out->held_s = trained_s + out->restart_s;
    out->wall_s = out->held_s + out->queue_s;
    if (isinf(out->held_s)) { /* the run never ends: its parts have no meaning */
        out->repeated_s = INFINITY;
        return;
    }
    out->start_s = t->start_s + (again > 0 ? again * start_s : 0);
    out->repeated_s = trained_s - out->steps_s - out->save_s - out->evaluate_s - out->start_s;
    if (out->repeated_s < 0) { /* attempts that failed while starting up did not start whole */
        out->start_s += out->repeated_s;
        out->repeated_s = 0;
    }
}

/* Seconds from the start of an attempt to its first step, beside reading a checkpoint. */
static double start_seconds(const struct sw_cluster_config *cluster)
{
    if (cluster->start_s > 0)
        return cluster->start_s;
    return cluster->accelerator.device == SW_DEVICE_CPU ? 2 : 60;
}

void sw_run_cost_price(const struct sw_run_config *run, const struct sw_checkpoint_cost *save,
                       const struct sw_run_step *step, struct sw_run_cost *out)
{
    const struct sw_cluster_config *cluster = &run->cluster;
    const int64_t set = run->checkpoint_every_steps;
    const double held = (double)cluster->nodes * cluster->accelerators_per_node / hour_s;
    const double watts = cluster->accelerator.power_watts, price = cluster->price_per_hour;
    out->terms = (struct sw_run_terms){
        .steps = step->steps,
        .interval = set >= 0 ? set : save->interval_steps,
        .pause_s = save->stall_s,
        .durable_s = save->background ? save->write_s : 0,
        .evaluate_interval = run->evaluate_every_steps,
        .evaluate_s = step->evaluate_s,
        .start_s = start_seconds(cluster),
        .load_s = (double)save->bytes / save->bandwidth,
        .failure_s = save->failure_s,
        .restart_s = cluster->restart_s,
        .queue_s = cluster->queue_s,
        .limit_s = step->limit_s,
    };
    const double steps_s[] = {step->step_s, step->low_s, step->high_s};
    double *const wall[] = {&out->wall_s.value, &out->wall_s.low, &out->wall_s.high};
    double *const hours[] = {&out->accelerator_hours.value, &out->accelerator_hours.low,
                             &out->accelerator_hours.high};
    double *const energy[] = {&out->energy_joules.value, &out->energy_joules.low,
                              &out->energy_joules.high};
    double *const money[] = {&out->money.value, &out->money.low, &out->money.high};
    for (int32_t i = 2; i >= 0; i--) { /* the predicted one last, since its parts are kept */
        out->terms.step_s = steps_s[i];
        sw_run_time(&out->terms, &out->time);
        *wall[i] = out->time.wall_s;
        *hours[i] = out->time.held_s * held;
        *energy[i] = watts > 0 ? *hours[i] * hour_s * watts : NAN;
        *money[i] = price > 0 ? *hours[i] * price : NAN;
    }
}

static void add_figure(struct sw_run_estimate *sum, const struct sw_run_estimate *part)
{
    sum->value += part->value;
    sum->low += part->low;
    sum->high += part->high;
}

void sw_run_cost_add(struct sw_run_cost *sum, const struct sw_run_cost *part)
{
    static const size_t parts[] = {
        offsetof(struct sw_run_time, steps_s),    offsetof(struct sw_run_time, save_s),
        offsetof(struct sw_run_time, evaluate_s), offsetof(struct sw_run_time, start_s),
        offsetof(struct sw_run_time, repeated_s), offsetof(struct sw_run_time, restart_s),
        offsetof(struct sw_run_time, queue_s),    offsetof(struct sw_run_time, wall_s),
        offsetof(struct sw_run_time, held_s),     offsetof(struct sw_run_time, failures),
        offsetof(struct sw_run_time, jobs)};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        *(double *)((char *)&sum->time + parts[i]) +=
            *(const double *)((const char *)&part->time + parts[i]);
    add_figure(&sum->wall_s, &part->wall_s);
    add_figure(&sum->accelerator_hours, &part->accelerator_hours);
    add_figure(&sum->energy_joules, &part->energy_joules);
    add_figure(&sum->money, &part->money);
}
