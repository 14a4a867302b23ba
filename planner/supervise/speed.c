/* Lowering a job's own limit: reads the ranks' output, limit.h decides, and the scheduler is asked
 * and told only if there is a gain. */
#include "planner/supervise/supervise_internal.h"

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/plan/plan.h"
#include "planner/command/format.h"
#include "planner/scheduler/scheduler.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_SECONDS = 60 };

/* ---- Output of the ranks ---- */

static void take_line(struct sw_supervisor *s, const char *text, size_t bytes)
{
    struct sw_supervised_speed *v = &s->speed;
    struct sw_metrics_line line;
    sw_metrics_line_parse(text, bytes, &line);
    if (line.kind == SW_METRICS_HEADER) {
        v->header = line;
        sw_pace_begin(&v->pace);
        v->start_s = fmax(v->start_s, line.time - (double)v->began);
    } else if (line.kind == SW_METRICS_STEP) {
        sw_pace_add_step(&v->pace, line.step, line.step_s, line.elapsed_s);
    } else if (line.kind == SW_METRICS_SAVE) {
        sw_pace_add_save(&v->pace, line.pause_s, line.durable_s);
    } else if (line.kind == SW_METRICS_HELD_OUT) {
        sw_pace_add_evaluation(&v->pace, line.seconds);
    }
}

static int open_metrics(const struct sw_supervisor *s, struct stat *status)
{
    char *path = sw_path_join(s->folder, "metrics.jsonl");
    int file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    free(path);
    if (file >= 0 && (fstat(file, status) != 0 || !S_ISREG(status->st_mode))) {
        (void)close(file);
        file = -1;
    }
    return file;
}

/* Reads the whole lines behind those read before. */
static void read_metrics(struct sw_supervisor *s)
{
    enum { BLOCK_BYTES = 64 << 10 };
    struct sw_supervised_speed *v = &s->speed;
    struct stat status;
    char *block = malloc(BLOCK_BYTES);
    const int file = open_metrics(s, &status);
    if (file >= 0 && status.st_size < v->read) { /* it was removed, and written anew */
        v->read = 0;
        v->header.kind = SW_METRICS_OTHER;
    }
    while (file >= 0 && block != NULL) {
        const ssize_t got = pread(file, block, BLOCK_BYTES, v->read);
        const char *from = block, *end;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        for (size_t left = (size_t)got; (end = memchr(from, '\n', left)) != NULL; from = end + 1) {
            take_line(s, from, (size_t)(end - from));
            left -= (size_t)(end + 1 - from);
        }
        v->read += from - block;
        if (from == block) { /* half a line, or one of another kind */
            v->read += got == BLOCK_BYTES ? got : 0;
            break;
        }
    }
    if (file >= 0)
        (void)close(file);
    free(block);
}

void sw_supervise_prepare_speed(struct sw_supervisor *s)
{
    struct stat status;
    /* a later stage of this job needs the time that the current one leaves */
    if (!s->set->shrink_limit || s->scheduler->shorten == NULL || s->stage + 1 < s->stages.count)
        return;
    const int file = open_metrics(s, &status);
    s->speed.read = file >= 0 ? status.st_size : 0;
    s->speed.header.kind = SW_METRICS_OTHER;
    if (file >= 0)
        (void)close(file);
    s->ranks.look = sw_clock_now() + LOOK_SECONDS * s->second;
}

/* ---- Other facts ---- */

/* Seconds of a step in the plan for that many nodes; 0: unreadable. */
static double predicted_s(const struct sw_supervisor *s, int32_t nodes)
{
    char path[PATH_MAX];
    struct sw_plan plan;
    sw_supervise_plan_of(s, nodes, path);
    if (sw_plan_read(path, &sw_launchers, &plan, NULL) != 0)
        return 0;
    const double seconds = plan.prediction.step_seconds;
    sw_plan_free(&plan);
    return seconds;
}

/* Finds the number of nodes that may be lost without ending the run, and the slowdown with the
 * fewest. false: a plan is unreadable. */
static bool find_losses(const struct sw_supervisor *s, double step_s, struct sw_limit_facts *f)
{
    const int32_t nodes = s->job.node_count - s->without.count;
    f->slower = 1;
    f->losses = s->set->elastic && nodes > s->set->least ? nodes - s->set->least : 0;
    for (int32_t n = s->set->least; n < nodes && f->losses > 0; n++) {
        const double seconds = predicted_s(s, n);
        if (!(seconds > 0) || !(step_s > 0))
            return false;
        f->slower = fmax(f->slower, seconds / step_s);
    }
    return true;
}

/* "USR1@300", "B:TERM@60" */
static double lead_s(const char *signal)
{
    const char *at = strchr(signal, '@');
    return at != NULL ? strtod(at + 1, NULL) : 0;
}

/* false: a necessary fact is unreadable. */
static bool find_facts(const struct sw_supervisor *s, struct sw_limit_facts *f)
{
    const struct sw_metrics_line *h = &s->speed.header;
    struct sw_plan plan;
    struct timespec now;
    if (sw_plan_read(s->plan, &sw_launchers, &plan, NULL) != 0)
        return false;
    clock_gettime(CLOCK_REALTIME, &now);
    *f = (struct sw_limit_facts){.now_s = h->elapsed_s + (double)now.tv_sec +
                                          1e-9 * (double)now.tv_nsec - h->time,
                                 .left_s = difftime(s->end, now.tv_sec),
                                 .last_step = h->last_step,
                                 .save_every = plan.run->checkpoint_every_steps,
                                 .evaluate_every = plan.run->evaluate_every_steps,
                                 .first_step = h->first_step,
                                 .evaluation_batches = h->evaluation_batches,
                                 .save_s = plan.prediction.save_seconds,
                                 .lead_s = lead_s(s->set->signal),
                                 .start_s = s->speed.start_s};
    const bool found = find_losses(s, plan.prediction.step_seconds, f);
    sw_plan_free(&plan);
    return found;
}

/* ---- Actions ---- */

/* The end may have been changed by others: it is asked for before every order. */
static enum sw_supervise_event lower(struct sw_supervisor *s, struct sw_limit_facts *f)
{
    char step[SW_FORMAT_BYTES], steps[SW_FORMAT_BYTES], took[SW_FORMAT_BYTES],
        left[SW_FORMAT_BYTES], most[SW_FORMAT_BYTES];
    double needs;
    time_t end;
    if (!s->scheduler->ends_at(s->job.itself, &end))
        return SW_SUPERVISE_SILENT_EVENT;
    s->end = end;
    if (end == 0) { /* no limit */
        s->ranks.look = INFINITY;
        return SW_SUPERVISE_REFUSED_EVENT;
    }
    f->left_s = difftime(end, time(NULL));
    const int64_t minutes = sw_limit_shrink(&s->speed.pace, f, &needs);
    if (minutes == 0)
        return SW_SUPERVISE_REFUSED_EVENT;
    if (!s->scheduler->shorten(s->job.itself, minutes)) {
        fprintf(stderr, "%s does not lower the job's time limit; it stays as it is\n",
                s->scheduler->title);
        s->ranks.look = INFINITY;
        return SW_SUPERVISE_REFUSED_EVENT;
    }
    s->end -= minutes * 60;
    fprintf(
        stderr,
        "step %s of %s: the job's time limit is lowered by %s; it ends in %s, and the run needs "
        "%s at most (slurm.shrink_limit)\n",
        sw_format_count((double)s->speed.pace.step, step),
        sw_format_count((double)f->last_step, steps),
        sw_format_duration((double)minutes * 60, took),
        sw_format_duration(f->left_s - (double)minutes * 60, left),
        sw_format_duration(needs, most));
    return SW_SUPERVISE_DONE_EVENT;
}

enum sw_supervise_event sw_supervise_shrink(struct sw_supervisor *s)
{
    struct sw_limit_facts facts;
    const bool signals = isfinite(s->ranks.timer);
    s->ranks.look = sw_clock_now() + LOOK_SECONDS * s->second;
    read_metrics(s);
    if (s->speed.header.kind != SW_METRICS_HEADER || s->speed.header.time <= 0 ||
        !find_facts(s, &facts))
        return SW_SUPERVISE_REFUSED_EVENT;
    if (s->end == 0)
        facts.left_s = 1e9; /* not asked for yet */
    if (sw_limit_shrink(&s->speed.pace, &facts, NULL) == 0)
        return SW_SUPERVISE_REFUSED_EVENT;
    const enum sw_supervise_event event = lower(s, &facts);
    if (event == SW_SUPERVISE_DONE_EVENT && signals) /* the signal comes earlier, too */
        s->ranks.timer = sw_clock_now();
    return event;
}
