#include "runner/train/spikes.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Least standard deviation, as a share of the mean. */
static const double least_deviation = 1e-3;

static double limit(const struct sw_optimizer_config *o, int64_t seen, double mean, double variance)
{
    if (seen < o->spike_window)
        return DBL_MAX;
    const double most =
        mean + o->spike_threshold * fmax(sqrt(variance), least_deviation * fabs(mean));
    return fmin(most, DBL_MAX);
}

void sw_spikes_limits(const struct sw_optimizer_config *o, const struct sw_spikes *s,
                      double *most_loss, double *most_norm)
{
    *most_loss = limit(o, s->seen, s->loss_mean, s->loss_variance);
    *most_norm = limit(o, s->seen, s->norm_mean, s->norm_variance);
}

static void add(double weight, double x, double *mean, double *variance)
{
    const double d = x - *mean;
    *mean += weight * d;
    *variance = fmin((1 - weight) * (*variance + weight * d * d), DBL_MAX);
}

void sw_spikes_add(const struct sw_optimizer_config *o, struct sw_spikes *s, double loss,
                   double norm)
{
    if (s->seen < o->spike_window)
        s->seen++;
    const double weight = 1 / (double)(s->seen < o->spike_window ? s->seen : o->spike_window);
    add(weight, loss, &s->loss_mean, &s->loss_variance);
    add(weight, norm, &s->norm_mean, &s->norm_variance);
    s->skips_in_a_row = 0;
}

const char *sw_spikes_describe(const struct sw_optimizer_config *o, const struct sw_spikes *s,
                               double loss, double norm, char text[200])
{
    double most[2];
    sw_spikes_limits(o, s, &most[0], &most[1]);
    const bool of_loss = !(loss <= most[0]);
    const char *what = of_loss ? "loss" : "gradient norm";
    const double is = of_loss ? loss : norm, least = most[of_loss ? 0 : 1];
    if (isfinite(is))
        snprintf(text, 200,
                 "the %s is %.6g, more than %.6g, which is %g standard deviations above its mean "
                 "of %" PRId64 " steps",
                 what, is, least, o->spike_threshold, o->spike_window);
    else
        snprintf(text, 200, "the %s is not finite", what);
    return text;
}
