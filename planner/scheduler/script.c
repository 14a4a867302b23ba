#include "planner/scheduler/scheduler.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A limit is 1.5 times the predicted time, since predictions are off by up to a third, plus a start
 * of minutes; rounded up to a usual value. */
static const double limit_margin = 1.5, start_seconds = 600;

int64_t sw_script_lead_s(double step_and_save_seconds)
{
    /* a shared file system answers within seconds, but not always within one */
    const double least = 30;
    /* schedulers store the lead time as a 16 bit number of seconds */
    const double most = 65535;
    return (int64_t)fmin(ceil(fmax(least, 2 * step_and_save_seconds)), most);
}

const char *sw_script_time_limit(const struct sw_scheduler *row, const struct sw_run_config *run,
                                 double step_seconds, int64_t lead_seconds,
                                 char buffer[SW_TIME_BYTES])
{
    const struct sw_job_terms terms = row->terms(&run->cluster);
    const double steps_s = (double)sw_run_steps(run) * step_seconds;
    if ((terms.time != NULL && !run->time_is_ceiling) || !run->says_steps ||
        run->job.type != SW_JOB_TRAIN || row->script->format_time == NULL)
        return terms.time;
    const double least = row->script->least_limit_s != NULL
                             ? row->script->least_limit_s(&run->cluster, lead_seconds)
                             : 0;
    const double minutes = fmax(steps_s * limit_margin + start_seconds, least) / 60;
    if (!(minutes < 1e7)) /* 19 years: the range of schedulers' numbers */
        return terms.time;
    const int64_t whole = (int64_t)ceil(minutes / SW_LIMIT_STEP_MINUTES) * SW_LIMIT_STEP_MINUTES;
    if ((double)whole * 60 >= terms.time_s)
        return terms.time;
    row->script->format_time(whole, buffer);
    return buffer;
}

const char *sw_script_keep(struct sw_argv *texts, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) {
        text = NULL;
        texts->failed = true;
    }
    va_end(arguments);
    const int32_t before = texts->count;
    if (text != NULL)
        sw_argv_add(texts, "%s", text);
    free(text);
    return texts->count > before ? texts->item[before] : NULL;
}
