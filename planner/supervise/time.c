/* Parts of a job's accelerator-hours: noted in the run's folder, and printed at the end of its
 * log. */
#include "planner/supervise/supervise_internal.h"

#include "core/run/hours.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void sw_supervise_begin_time(struct sw_supervisor *s)
{
    struct sw_error err = {0};
    s->began_s = now();
    if (sw_allocation_note_begin(s->set->folder, s->job.id, s->job.restarts,
                                 (int64_t)s->job.node_count * s->set->ranks_per_node, s->began_s,
                                 &err) != 0)
        (void)sw_supervise_fail(&err);
}

/* Schedulers count a limit in minutes, from a moment before this process began. */
static double limit_s(const struct sw_supervisor *s)
{
    return s->end > 0 ? ceil(((double)s->end - s->began_s) / 60) * 60 : 0;
}

void sw_supervise_end_time(struct sw_supervisor *s, int32_t code)
{
    struct sw_hours efficiency;
    struct sw_error err = {0};
    if (s->told)
        return;
    s->told = true;
    if (sw_allocation_note_end(s->set->folder, s->job.id, s->job.restarts, now(), code, limit_s(s),
                               &err) != 0 ||
        sw_hours_read(s->set->folder, s->job.id, false, &efficiency, &err) != 0) {
        (void)sw_supervise_fail(&err);
        return;
    }
    if (efficiency.attempts > 0)
        fprintf(stderr, "where the time of job %s went:\n", s->job.id);
    sw_hours_write(stderr, &efficiency, "  ");
}
