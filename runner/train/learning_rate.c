#include "runner/train/learning_rate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Last step before the rate falls. */
static int64_t decays_from(const struct sw_optimizer_config *o)
{
    const int64_t tenth = o->total_steps >= 10 ? o->total_steps / 10 : 1;
    const int64_t from = o->total_steps - (o->decay_steps > 0 ? o->decay_steps : tenth);
    return o->schedule == SW_SCHEDULE_WSD && from > o->warmup_steps ? from : o->warmup_steps;
}

double sw_learning_rate(const struct sw_optimizer_config *o, int64_t step)
{
    const double pi = 3.14159265358979323846;
    if (step <= o->warmup_steps)
        return o->learning_rate * (double)step / (double)o->warmup_steps;
    if (o->schedule == SW_SCHEDULE_CONSTANT)
        return o->learning_rate;
    if (o->schedule == SW_SCHEDULE_INVERSE_SQRT)
        return fmax(o->min_learning_rate,
                    o->learning_rate * sqrt((double)o->warmup_steps / (double)step));
    const int64_t from = decays_from(o);
    if (step <= from)
        return o->learning_rate;
    /* a one-step decay would train only at min_learning_rate */
    double progress = step == o->total_steps && step == from + 1 ? 0 : 1;
    if (o->total_steps > from && step < o->total_steps)
        progress = (double)(step - from) / (double)(o->total_steps - from);
    const double left =
        o->schedule == SW_SCHEDULE_COSINE ? (1 + cos(pi * progress)) / 2 : 1 - progress;
    return o->min_learning_rate + (o->learning_rate - o->min_learning_rate) * left;
}

bool sw_learning_rate_is_over(const struct sw_optimizer_config *o, int64_t last, char *note,
                              size_t bytes)
{
    if (last <= o->total_steps || sw_learning_rate(o, last) > 0)
        return false;
    snprintf(note, bytes,
             "the learning rate is 0 behind step %" PRId64 ", optimizer.total_steps: no step from "
             "there to %" PRId64 " changes the model; make a plan with more total_steps",
             o->total_steps, last);
    return true;
}
