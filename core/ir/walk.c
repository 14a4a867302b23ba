#include "core/ir/walk.h"

enum { BEFORE_FIRST = -2 }; /* iteration */

static bool is_of_pass(const struct sw_walk *w, int32_t region)
{
    const bool update = w->program->regions[region].phase == SW_PHASE_UPDATE;
    return update == (w->pass == SW_PASS_UPDATE);
}

static void find_region(struct sw_walk *w)
{
    do
        w->region++;
    while (w->region < w->program->region_count && !is_of_pass(w, w->region));
}

bool sw_walk_pass(struct sw_walk *w)
{
    const int32_t left = w->program->accumulation_steps - ++w->micro_step;
    w->pass = left > 1 ? SW_PASS_MICRO_STEP : left == 1 ? SW_PASS_LAST_MICRO_STEP : SW_PASS_UPDATE;
    w->region = -1;
    if (left > 0)
        return true;
    find_region(w);
    const bool updates = left == 0 && w->region < w->program->region_count;
    w->region = -1;
    return updates;
}

bool sw_walk_region(struct sw_walk *w)
{
    find_region(w);
    w->iteration = BEFORE_FIRST;
    return w->region < w->program->region_count;
}

bool sw_walk_iteration(struct sw_walk *w)
{
    const struct sw_region *region = &w->program->regions[w->region];
    w->iteration++;
    w->skip = (uint8_t)((w->iteration < 0 ? SW_WHEN_IN_TIME : 0) |
                        (w->iteration == region->repeat - 1 ? SW_WHEN_AHEAD : 0) |
                        (w->pass == SW_PASS_MICRO_STEP ? SW_WHEN_LAST_MICRO_STEP : 0));
    w->op = region->first_op - 1;
    w->end = region->first_op + region->op_count;
    return w->iteration < region->repeat;
}

bool sw_walk_op(struct sw_walk *w)
{
    const struct sw_op *ops = w->program->ops;
    do
        w->op++;
    while (w->op < w->end && (sw_walk_when(&ops[w->op]) & w->skip) != 0);
    if (w->op < w->end)
        w->layer = sw_region_layer(&w->program->regions[w->region],
                                   w->iteration + (ops[w->op].ahead ? 1 : 0));
    return w->op < w->end;
}
