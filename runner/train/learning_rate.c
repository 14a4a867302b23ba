#include "runner/train/learning_rate.h"

#include <math.h>

double sw_learning_rate(const struct sw_optimizer_config *o, int64_t step)
{
    const double pi = 3.14159265358979323846;
    if (step <= o->warmup_steps)
        return o->learning_rate * (double)step / (double)o->warmup_steps;
    if (o->schedule == SW_SCHEDULE_CONSTANT)
        return o->learning_rate;
    double progress = 1;
    if (o->total_steps > o->warmup_steps && step < o->total_steps)
        progress = (double)(step - o->warmup_steps) / (double)(o->total_steps - o->warmup_steps);
    const double left =
        o->schedule == SW_SCHEDULE_COSINE ? (1 + cos(pi * progress)) / 2 : 1 - progress;
    return o->min_learning_rate + (o->learning_rate - o->min_learning_rate) * left;
}
