#include "planner/fit/fit.h"

#include "core/base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_WAYS = 7 }; /* directions of the pattern search; the first changes all constants alike */

static bool is_of(const struct sw_fit_run *r, const char *group)
{
    return r->program != NULL && r->skipped[0] == '\0' &&
           (group == NULL || strcmp(r->group, group) == 0);
}

/* A curve of one point: the share of large sizes (op_time.c). */
static struct sw_curve asymptote(double fraction)
{
    return (struct sw_curve){1, {{1, fraction}}};
}

static int predict(struct sw_fit_run *r, const struct sw_efficiency *constants,
                   struct sw_error *err)
{
    struct sw_cost cost;
    struct sw_profile_config *p = &r->run.cluster.profile;
    if (constants != NULL) {
        p->matmul = asymptote(constants->matmul);
        p->attention = asymptote(constants->attention);
        p->memory = asymptote(constants->memory);
        p->host_time_s = constants->host_time_s;
        p->peak_bf16_flops = p->peak_fp32_flops = p->memory_bandwidth = 0;
    }
    if (sw_cost_price(r->program, &r->run.cluster, NULL, &cost, err) != 0)
        return -1;
    r->band_low = cost.band_low_seconds / cost.step_seconds;
    r->band_high = cost.band_high_seconds / cost.step_seconds;
    r->predicted = (double)r->program->tokens_per_step /
                   (cost.step_seconds * sw_mesh_rank_count(&r->program->mesh));
    return 0;
}

int sw_fit_predict(struct sw_fit_set *set, const char *group, const struct sw_efficiency *constants,
                   struct sw_error *err)
{
    for (int32_t i = 0; i < set->count; i++)
        if (is_of(&set->run[i], group) && predict(&set->run[i], constants, err) != 0)
            return -1;
    return 0;
}

void sw_fit_mistake(struct sw_fit_mistakes *m, struct sw_error *err)
{
    if (m->count == SW_FIT_MOST_MISTAKES) {
        m->more++;
        memset(err, 0, sizeof *err);
        return;
    }
    if (m->count == m->capacity) {
        const int32_t capacity = m->capacity == 0 ? 16 : 2 * m->capacity;
        struct sw_error *grown = realloc(m->error, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            if (m->count > 0)
                sw_fail(&m->error[m->count - 1], SW_ENVIRONMENT, "out of memory");
            memset(err, 0, sizeof *err);
            return;
        }
        m->error = grown;
        m->capacity = capacity;
    }
    m->error[m->count++] = *err;
    memset(err, 0, sizeof *err);
}

double sw_fit_error(const struct sw_fit_run *run)
{
    return run->predicted / run->measured - 1;
}

/* Weight of the distance from defaults: where runs do not decide (a valley in which arithmetic and
 * memory trade), a tenth off costs as much as an error of 0.01 %. */
static const double pull = 0.01;

static int objective(struct sw_fit_set *set, const char *group, const char *without,
                     const double start[3], const double x[3], double host, double *out,
                     struct sw_error *err)
{
    const struct sw_efficiency constants = {x[0], x[1], x[2], host};
    double sum = 0, away = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < set->count; i++) {
        struct sw_fit_run *r = &set->run[i];
        if (!is_of(r, group) || (without != NULL && strcmp(r->model, without) == 0))
            continue;
        if (predict(r, &constants, err) != 0)
            return -1;
        sum += fabs(log(r->predicted / r->measured));
        count++;
    }
    for (int32_t i = 0; i < 3; i++)
        away += log(x[i] / start[i]) * log(x[i] / start[i]);
    *out = (count > 0 ? sum / count : 0) + pull * away;
    return 0;
}

static const struct sw_accelerator_config *chip_of(const struct sw_fit_set *set, const char *group)
{
    int32_t last = set->count - 1;
    while (last > 0 && !is_of(&set->run[last], group))
        last--;
    return &set->run[last].run.cluster.accelerator;
}

struct sw_efficiency sw_fit_ceilings(const struct sw_fit_set *set, const char *group)
{
    const struct sw_accelerator_config *chip = chip_of(set, group);
    const struct sw_share_ceilings *device = &sw_device_row(chip->device)->ceilings;
    const double best = sw_accelerator_best_share(chip);
    return (struct sw_efficiency){best > 0 && best < device->matmul ? best : device->matmul,
                                  device->attention, device->memory, 0};
}

/* Defaults of the device of the group's last run; attention's share is for a call of 2.5e12 FLOP,
 * in the middle of published runs. */
static struct sw_efficiency usual_of(const struct sw_fit_set *set, const char *group)
{
    const struct sw_profile_config p = sw_profile_default(chip_of(set, group));
    return (struct sw_efficiency){p.matmul.point[0].fraction,
                                  sw_cost_efficiency(&p.attention, 2.5e12, 1),
                                  p.memory.point[0].fraction, 0};
}

/* Pattern search from the defaults: each constant up and down, and pairs against each other, since
 * the valleys are oblique. */
static int search(struct sw_fit_set *set, const char *group, const char *without,
                  const double start[3], double host, size_t ways, double x[3], double *best,
                  struct sw_error *err)
{
    /* no measured share is below a twentieth */
    static const double least = 0.05, first_step = 0.16, last_step = 0.005;
    const struct sw_efficiency ceiling = sw_fit_ceilings(set, group);
    const double most[3] = {ceiling.matmul, ceiling.attention, ceiling.memory};
    static const double directions[ALL_WAYS][3] = {{1, 1, 1},  {1, 0, 0},  {0, 1, 0}, {0, 0, 1},
                                                   {1, -1, 0}, {1, 0, -1}, {0, 1, -1}};
    memcpy(x, start, 3 * sizeof *x);
    if (objective(set, group, without, start, x, host, best, err) != 0)
        return -1;
    for (double step = first_step; step >= last_step; step /= 2) {
        bool better = true;
        for (int32_t round = 0; better && round < 50; round++) {
            better = false;
            for (size_t d = 0; d < 2 * ways; d++) {
                double at[3], value;
                for (int32_t i = 0; i < 3; i++) {
                    at[i] = x[i] * exp((d % 2 != 0 ? -step : step) * directions[d / 2][i]);
                    at[i] = at[i] < least ? least : at[i] > most[i] ? most[i] : at[i];
                }
                if (objective(set, group, without, start, at, host, &value, err) != 0)
                    return -1;
                if (value < *best - 1e-9) {
                    *best = value;
                    memcpy(x, at, sizeof at);
                    better = true;
                }
            }
        }
    }
    return 0;
}

int sw_fit_constants(struct sw_fit_set *set, const char *group, const char *without,
                     struct sw_efficiency *out, struct sw_error *err)
{
    /* a host's time is fitted only if it lowers the error by a thirtieth */
    static const double hosts[] = {0, 20e-6, 80e-6}, earned = 0.97;
    const struct sw_efficiency usual = usual_of(set, group);
    const double start[3] = {usual.matmul, usual.attention, usual.memory};
    int32_t runs = 0;
    double least = 0;
    for (int32_t i = 0; i < set->count; i++)
        runs += is_of(&set->run[i], group) &&
                (without == NULL || strcmp(set->run[i].model, without) != 0);
    const size_t tries = runs < 2 * SW_FIT_ENOUGH ? 1 : sizeof hosts / sizeof hosts[0];
    for (size_t h = 0; h < tries; h++) {
        double x[3], best;
        if (search(set, group, without, start, hosts[h], runs < SW_FIT_ENOUGH ? 1 : ALL_WAYS, x,
                   &best, err) != 0)
            return -1;
        if (h > 0 && best >= earned * least)
            continue;
        least = best;
        *out = (struct sw_efficiency){x[0], x[1], x[2], hosts[h]};
    }
    return 0;
}

/* Interpolates between the two nearest of a sorted list. */
static double percentile(const double *sorted, int32_t count, double fraction)
{
    const double at = fraction * (count - 1);
    const int32_t below = (int32_t)at;
    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

/* The same for runs that stand for unseen ones: the i-th of n is at (i - 1/2) / n (Hazen 1914),
 * where percentile takes the outermost two as the ends of the whole population. */
static double band_end(const double *sorted, int32_t count, double fraction)
{
    const double most = (count - 0.5) / count, least = 0.5 / count;
    const double at = fraction < least ? least : fraction > most ? most : fraction;
    return count > 1 ? percentile(sorted, count, (at * count - 0.5) / (count - 1)) : sorted[0];
}

double sw_fit_widening(double worth)
{
    enum { TERMS = 3 };
    static const double term[TERMS] = {0.6606, 0.4455, 0.2018}; /* for the normal's 1.2816 */
    double ratio = 1, power = 1;
    for (int i = 0; i < TERMS && worth > 1; i++) {
        power /= worth - 1;
        ratio += term[i] * power;
    }
    return worth < 2 ? 1 : ratio * sqrt(1 + 1 / worth);
}

static bool is_first_of_model(const struct sw_fit_set *set, const char *group, int32_t index)
{
    for (int32_t i = 0; i < index; i++)
        if (is_of(&set->run[i], group) && strcmp(set->run[i].model, set->run[index].model) == 0)
            return false;
    return true;
}

static bool counts(const struct sw_fit_run *r, const char *group, const char *without)
{
    return is_of(r, group) && (without == NULL || strcmp(r->model, without) != 0);
}

/* Effective number of runs, each of a model of its own: n / (1 + (k - 1) rho), with k the runs of
 * the mean run's model and rho the share of variance between models (one-way analysis of variance;
 * Kish, Survey Sampling, 1965, 5.4). Between the number of models and that of runs. */
static double worth_of(const struct sw_fit_set *set, const char *group, const char *without,
                       const struct sw_fit_summary *all)
{
    double mean = 0, between = 0, squares = 0, within = 0;
    const double n = all->count, models = all->models;
    for (int32_t i = 0; i < set->count; i++)
        if (counts(&set->run[i], group, without))
            mean += log(set->run[i].predicted / set->run[i].measured) / n;
    for (int32_t i = 0; i < set->count; i++) {
        double own = 0, square = 0;
        int32_t count = 0;
        if (!counts(&set->run[i], group, without) || !is_first_of_model(set, group, i))
            continue;
        for (int32_t k = i; k < set->count; k++) {
            if (!is_of(&set->run[k], group) || strcmp(set->run[k].model, set->run[i].model) != 0)
                continue;
            const double off = log(set->run[k].predicted / set->run[k].measured) - mean;
            own += off;
            square += off * off;
            count++;
        }
        between += own * own / count;
        within += square - own * own / count;
        squares += (double)count * count;
    }
    if (models < 2 || n <= models)
        return models;
    between /= models - 1;
    within /= n - models;
    const double shared = (between - within) * (models - 1) / (n - squares / n);
    const double rho = shared > 0 ? shared / (shared + within) : 0;
    const double worth = n / (1 + (squares / n - 1) * rho);
    return worth > models ? worth : models;
}

void sw_fit_band(const struct sw_fit_summary *runs, double *low, double *high)
{
    const double wider = sw_fit_widening(runs->worth);
    *low = 1 - wider * (runs->low < 1 ? 1 - runs->low : 0);
    *high = 1 + wider * (runs->high > 1 ? runs->high - 1 : 0);
}

/* without: a model whose runs do not count, NULL: none. */
static int summarize(const struct sw_fit_set *set, const char *group, const char *without,
                     struct sw_fit_summary *out, struct sw_error *err)
{
    memset(out, 0, sizeof *out);
    double *errors = malloc(2 * ((size_t)set->count + 1) * sizeof *errors);
    if (errors == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while summing up");
    double *ratios = errors + set->count + 1;
    for (int32_t i = 0; i < set->count; i++) {
        const struct sw_fit_run *r = &set->run[i];
        if (!counts(r, group, without))
            continue;
        out->models += is_first_of_model(set, group, i) ? 1 : 0;
        errors[out->count] = fabs(sw_fit_error(r));
        ratios[out->count] = r->predicted / r->measured;
        out->inside += ratios[out->count] >= r->band_low && ratios[out->count] <= r->band_high;
        out->bias += sw_fit_error(r);
        out->mean += errors[out->count++];
    }
    if (out->count > 0) {
        qsort(errors, (size_t)out->count, sizeof *errors, sw_compare_doubles);
        qsort(ratios, (size_t)out->count, sizeof *ratios, sw_compare_doubles);
        out->mean /= out->count;
        out->bias /= out->count;
        out->inside /= out->count;
        out->p90 = percentile(errors, out->count, 0.9);
        out->worst = errors[out->count - 1];
        out->low = band_end(ratios, out->count, 0.1);
        out->high = band_end(ratios, out->count, 0.9);
        out->worth = worth_of(set, group, without, out);
    }
    free(errors);
    return 0;
}

int sw_fit_summarize(const struct sw_fit_set *set, const char *group, struct sw_fit_summary *out,
                     struct sw_error *err)
{
    return summarize(set, group, NULL, out, err);
}

int sw_fit_covered(const struct sw_fit_set *set, const char *group, double *share,
                   struct sw_error *err)
{
    int32_t inside = 0, count = 0;
    for (int32_t i = 0; i < set->count; i++) {
        struct sw_fit_summary others;
        double low, high;
        const char *model = set->run[i].model;
        if (!is_of(&set->run[i], group) || !is_first_of_model(set, group, i))
            continue;
        if (summarize(set, group, model, &others, err) != 0)
            return -1;
        sw_fit_band(&others, &low, &high);
        for (int32_t k = i; k < set->count && others.count > 0; k++) {
            const struct sw_fit_run *r = &set->run[k];
            if (!is_of(r, group) || strcmp(r->model, model) != 0)
                continue;
            const double ratio = r->predicted / r->measured;
            inside += ratio >= low && ratio <= high;
            count++;
        }
    }
    *share = count > 0 ? (double)inside / count : 0;
    return 0;
}

int sw_fit_leave_one_out(struct sw_fit_set *set, const char *group, struct sw_error *err)
{
    int status = -1;
    double *kept = calloc((size_t)set->count + 1, sizeof *kept);
    if (kept == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while fitting");
    for (int32_t i = 0; i < set->count; i++) {
        struct sw_efficiency constants; /* searched from the start: no model left out */
        const char *model = set->run[i].model;
        if (!is_of(&set->run[i], group) || !is_first_of_model(set, group, i))
            continue;
        if (sw_fit_constants(set, group, model, &constants, err) != 0)
            goto out;
        for (int32_t k = i; k < set->count; k++)
            if (is_of(&set->run[k], group) && strcmp(set->run[k].model, model) == 0) {
                if (predict(&set->run[k], &constants, err) != 0)
                    goto out;
                kept[k] = set->run[k].predicted;
            }
    }
    for (int32_t i = 0; i < set->count; i++)
        if (is_of(&set->run[i], group))
            set->run[i].predicted = kept[i];
    status = 0;
out:
    free(kept);
    return status;
}
