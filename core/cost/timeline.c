#include "core/cost/timeline.h"

#include <stdlib.h>
#include <string.h>

struct recorder {
    struct sw_timeline *timeline;
    bool failed;
};

static void record(void *context, const struct sw_cost_event *event)
{
    struct recorder *r = context;
    struct sw_timeline *t = r->timeline;
    if (t->count == t->capacity) {
        const int32_t capacity = t->capacity == 0 ? 1024 : 2 * t->capacity;
        struct sw_cost_event *grown = realloc(t->event, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            r->failed = true;
            return;
        }
        t->event = grown;
        t->capacity = capacity;
    }
    t->event[t->count++] = *event;
}

int sw_timeline_make(const struct sw_program *program, const struct sw_cluster_config *cluster,
                     const struct sw_workload *workload, struct sw_timeline *out,
                     struct sw_error *err)
{
    struct sw_cost cost;
    struct recorder recorder = {.timeline = out};
    const struct sw_cost_observer observer = {record, &recorder};
    memset(out, 0, sizeof *out);
    int status = sw_cost_trace(program, cluster, workload, &observer, &cost, err);
    if (status == 0 && recorder.failed)
        status = sw_fail(err, SW_ENVIRONMENT, "out of memory while recording the timeline");
    if (status != 0)
        sw_timeline_free(out);
    return status;
}

void sw_timeline_free(struct sw_timeline *timeline)
{
    free(timeline->event);
    memset(timeline, 0, sizeof *timeline);
}

/* The loop of a phase over the layers. */
static int32_t find_loop(const struct sw_program *p, enum sw_phase phase)
{
    int32_t best = -1;
    for (int32_t r = 0; r < p->region_count; r++)
        if (p->regions[r].phase == phase &&
            (best < 0 || p->regions[r].repeat > p->regions[best].repeat))
            best = r;
    return best;
}

static double overlap(const struct sw_cost_event *e, const struct sw_window *w)
{
    const double from = e->start > w->start ? e->start : w->start;
    const double to = e->end < w->end ? e->end : w->end;
    return to > from ? to - from : 0;
}

static bool belongs(const struct sw_region *region, const struct sw_cost_event *e)
{
    return e->op >= region->first_op && e->op < region->first_op + region->op_count;
}

/* The event that starts the region's second iteration, or its only one, in the last micro-step,
 * which includes once-a-step reductions. -1: none. */
static int32_t find_iteration(const struct sw_timeline *t, const struct sw_region *region,
                              int32_t first_op)
{
    const int32_t wanted = region->repeat > 1 ? 1 : 0;
    int32_t found = -1, seen = 0;
    for (int32_t i = 0; i < t->count; i++) {
        if (!belongs(region, &t->event[i]))
            seen = 0; /* another micro-step's events may follow */
        else if (t->event[i].op == first_op && seen++ == wanted)
            found = i;
    }
    return found;
}

void sw_timeline_window(const struct sw_timeline *t, const struct sw_program *p,
                        enum sw_phase phase, struct sw_window *out)
{
    memset(out, 0, sizeof *out);
    out->region = find_loop(p, phase);
    if (out->region < 0)
        return;
    const struct sw_region *region = &p->regions[out->region];
    int32_t first = region->first_op; /* the first op of an iteration that belongs to it */
    while (first + 1 < region->first_op + region->op_count && p->ops[first].ahead)
        first++;
    const int32_t from = find_iteration(t, region, first);
    for (int32_t i = from; from >= 0 && i < t->count; i++) {
        const struct sw_cost_event *e = &t->event[i];
        if (i > from && (!belongs(region, e) || e->op == first))
            break;
        if (i == from)
            out->start = out->end = e->issued;
        if (e->stream != SW_STREAM_COMMUNICATION && e->end > out->end)
            out->end = e->end;
    }
    for (int32_t i = 0; i < t->count; i++) {
        const double seconds = overlap(&t->event[i], out);
        if (t->event[i].stream == SW_STREAM_COMPUTE)
            out->compute_seconds += seconds;
        else if (t->event[i].stream == SW_STREAM_WAIT)
            out->waiting_seconds += seconds;
        else
            out->communication_seconds += seconds;
    }
}
