#include "planner/supervise/limit.h"

#include <math.h>
#include <string.h>

/* Steps after a start warm caches up, and are not counted. */
enum { WARM_STEPS = 2, LEAST_STEPS = 30, RECENT_PART = 8 };
static const double least_s = 60, least_part = 0.03; /* least part of an attempt that must be
                                                        seen */
static const double band_of_left = 0.3, band_of_all = 0.05;
static const double early_s = 60;                   /* sbatch(1), --signal */
static const double gain_s = 120, gain_part = 0.15; /* least worth of a change */

/* ---- Observations ---- */

void sw_pace_begin(struct sw_pace *p)
{
    *p = (struct sw_pace){.block_steps = 1};
}

static void close_block(struct sw_pace *p)
{
    if (p->blocks == SW_PACE_BLOCKS) { /* `open` has one step more than they hold */
        for (int32_t i = 0; i < SW_PACE_BLOCKS / 2; i++)
            p->block[i] = p->block[2 * i] + p->block[2 * i + 1];
        p->blocks = SW_PACE_BLOCKS / 2;
        p->block_steps *= 2;
    }
    if (p->open_steps < p->block_steps)
        return;
    p->block[p->blocks++] = p->open;
    p->open = 0;
    p->open_steps = 0;
}

void sw_pace_add_step(struct sw_pace *p, int64_t step, double seconds, double at_s)
{
    p->step = step;
    p->at_s = at_s;
    if (p->warm < WARM_STEPS) {
        p->warm++;
        p->begin_s = at_s;
        p->saves = p->evaluations = 0;
        p->save_pauses_s = p->evaluations_s = 0;
        return;
    }
    p->steps++;
    p->open += seconds;
    p->open_steps++;
    if (p->open_steps >= p->block_steps)
        close_block(p);
}

void sw_pace_add_save(struct sw_pace *p, double pause_s, double durable_s)
{
    p->saves++;
    p->save_pauses_s += pause_s;
    p->save_most_s = fmax(p->save_most_s, fmax(pause_s, durable_s));
}

void sw_pace_add_evaluation(struct sw_pace *p, double seconds)
{
    p->evaluations++;
    p->evaluations_s += seconds;
    p->evaluation_most_s = fmax(p->evaluation_most_s, seconds);
}

/* ---- Conclusions ---- */

/* Seconds of a step: the slower of the mean and the recent mean, which may be in a slow phase. */
static double step_s(const struct sw_pace *p)
{
    double all = p->open, recent = p->open;
    const int32_t last = (p->blocks + RECENT_PART - 1) / RECENT_PART;
    for (int32_t i = 0; i < p->blocks; i++) {
        all += p->block[i];
        recent += i >= p->blocks - last ? p->block[i] : 0;
    }
    const double recent_steps = (double)(last * p->block_steps + p->open_steps);
    return fmax(all / (double)p->steps, recent / recent_steps);
}

/* The longest delay: largest excess of consecutive steps over as many average ones. */
static double delay_s(const struct sw_pace *p)
{
    double all = 0, sum = 0, most = 0;
    for (int32_t i = 0; i < p->blocks; i++)
        all += p->block[i];
    for (int32_t i = 0; i < p->blocks; i++) {
        sum = fmax(0, sum + p->block[i] - all / p->blocks);
        most = fmax(most, sum);
    }
    return most;
}

/* Number of saves or evaluations left, behind each `every`-th step but the last. */
static double times_left(int64_t every, int64_t step, int64_t last)
{
    return every > 0 ? (double)((last - 1) / every - step / every) : 0;
}

/* Seconds between steps that no line covers. */
static double between_s(const struct sw_pace *p)
{
    double steps = p->open;
    for (int32_t i = 0; i < p->blocks; i++)
        steps += p->block[i];
    const double rest = p->at_s - p->begin_s - steps - p->save_pauses_s - p->evaluations_s;
    return fmax(0, rest) / (double)p->steps;
}

/* True if saves and evaluations are known: one was seen, or only the last is left. */
static bool is_known(const struct sw_pace *p, const struct sw_limit_facts *f)
{
    return p->steps >= LEAST_STEPS && p->at_s - p->begin_s >= least_s && p->step < f->last_step &&
           (p->saves > 0 || times_left(f->save_every, p->step, f->last_step) == 0) &&
           (p->evaluations > 0 || times_left(f->evaluate_every, p->step, f->last_step) == 0);
}

/* Silence of its ranks after which a node counts as lost, by the runner's rule
 * (docs/architecture.md), with its questions to the others. */
static double notice_s(double longest_s)
{
    return fmax(60, fmax(fmin(20 * longest_s, 240), 4 * longest_s)) + 60;
}

int64_t sw_limit_shrink(const struct sw_pace *p, const struct sw_limit_facts *f, double *needs_s)
{
    if (needs_s != NULL)
        *needs_s = 0;
    if (!is_known(p, f))
        return 0;
    const double step = step_s(p) + between_s(p), seen = p->at_s - p->begin_s;
    const double save = p->saves > 0 ? p->save_pauses_s / (double)p->saves : 0;
    const double durable = p->saves > 0 ? 2 * p->save_most_s : 3 * f->save_s + 30;
    const double evaluation = p->evaluations > 0 ? p->evaluations_s / (double)p->evaluations : 0;
    /* forward alone takes less than a step */
    const double last_evaluation =
        p->evaluations > 0 ? 1.5 * p->evaluation_most_s : (double)f->evaluation_batches * step;
    const double left = (double)(f->last_step - p->step) * step +
                        times_left(f->save_every, p->step, f->last_step) * save +
                        times_left(f->evaluate_every, p->step, f->last_step) * evaluation;
    if (seen < least_part * (seen + left))
        return 0;
    const double most = left * f->slower; /* with the fewest nodes */
    const double band = band_of_left * most + 3 * step +
                        fmax(band_of_all * (f->now_s + most), 2 * delay_s(p) * f->slower);
    /* a running save is lost, too */
    const double repeated = f->save_every > 0 ? (double)f->save_every * step + durable
                                              : (double)(f->last_step - f->first_step) * step;
    const double lost = f->losses * (notice_s(fmax(step, durable)) + 2 * f->start_s + early_s +
                                     repeated * f->slower);
    const double needs =
        most + band + lost + (durable + last_evaluation) * f->slower + f->lead_s + early_s;
    if (needs_s != NULL)
        *needs_s = needs;
    const double off = floor((f->left_s - needs) / 60) * 60;
    const double spare = f->left_s - left;
    return off >= gain_s && off >= gain_part * spare ? (int64_t)(off / 60) : 0;
}
