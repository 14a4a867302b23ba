#include "core/ir/walk.h"

enum { BEFORE_FIRST = -2 }; /* index of an iteration */

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
    w->pass = left < 1                                         ? SW_PASS_UPDATE
              : left == 1                                      ? SW_PASS_LAST_MICRO_STEP
              : w->micro_step == 0 && w->program->gathers_once ? SW_PASS_FIRST_MICRO_STEP
                                                               : SW_PASS_MICRO_STEP;
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
                        (w->pass < SW_PASS_LAST_MICRO_STEP ? SW_WHEN_LAST_MICRO_STEP : 0) |
                        (w->micro_step > 0 ? SW_WHEN_FIRST_MICRO_STEP : 0));
    w->op = region->first_op - 1;
    w->end = region->first_op + region->op_count;
    return w->iteration < region->repeat;
}

bool sw_walk_op(struct sw_walk *w)
{
    const struct sw_op *ops = w->program->ops;
    const struct sw_region *region = &w->program->regions[w->region];
    for (w->op++; w->op < w->end; w->op++) {
        const struct sw_op *op = &ops[w->op];
        if ((sw_walk_when(op) & w->skip) != 0)
            continue;
        w->layer = sw_region_layer(region, w->iteration + (op->ahead ? 1 : 0), op->position);
        if (sw_region_has(region, w->layer))
            return true;
    }
    return false;
}

/* Tells if the first, and the last, iteration have positions outside the region. */
static void find_ends(const struct sw_region *region, bool *first, bool *last)
{
    const bool low = region->first_layer % region->period != 0;
    const bool high = (region->first_layer + region->layers) % region->period != 0;
    *first = region->reverse ? high : low;
    *last = region->reverse ? low : high;
}

bool sw_walk_is_whole(const struct sw_walk *w)
{
    const struct sw_region *region = &w->program->regions[w->region];
    bool first, last;
    find_ends(region, &first, &last);
    return !(first && w->iteration <= 0) && !(last && w->iteration >= region->repeat - 1);
}

void sw_walk_whole(const struct sw_walk *w, int32_t *begin, int32_t *count)
{
    const struct sw_region *region = &w->program->regions[w->region];
    bool first, last;
    find_ends(region, &first, &last);
    *begin = first ? 1 : 0;
    *count = region->repeat - *begin - 1; /* the last iteration has none to be ahead of */
}
