#include "planner/job/watch.h"

#include "core/base/clock.h"
#include "core/base/hash.h"

#include <math.h>
#include <time.h>

static const double least_between = 10, least_at_an_end = 5, most_between = 30, slower = 1.5;

static uint64_t states_of(const struct sw_statuses *all)
{
    uint64_t hash = SW_HASH_START;
    for (int32_t i = 0; i < all->count; i++) {
        const struct sw_queued_job *job = &all->run[i].job;
        hash = sw_hash_bytes(hash, &all->run[i].state, sizeof all->run[i].state);
        hash = sw_hash_bytes(hash, job->id != NULL ? job->state : "-", 1);
    }
    return hash;
}

/* Counts ended runs by the folders, which know before the scheduler does. */
static int32_t count_ended(const struct sw_statuses *all)
{
    int32_t ended = 0;
    for (int32_t i = 0; i < all->count; i++)
        ended += all->run[i].attempt.attempt > 0 &&
                 all->run[i].attempt.verdict != SW_VERDICT_RUNNING &&
                 sw_run_state_is_live(all->run[i].state);
    return ended;
}

static void note_asked(struct sw_watch *w, double now)
{
    if (w->asked++ == 0)
        w->begun = now;
    w->last = now;
    w->next = now + w->between;
}

void sw_watch_begin_asked(struct sw_watch *w)
{
    *w = (struct sw_watch){.between = least_between};
    note_asked(w, sw_clock_now());
}

int sw_watch_look(struct sw_watch *w, struct sw_statuses *all, struct sw_error *err)
{
    const double now = sw_clock_now();
    if (w->asked > 0) {
        sw_statuses_refresh(all);
        /* time saved by asking seldom */
        const double soon =
            fmax(w->last + least_at_an_end, w->begun + least_between * (double)w->asked);
        if (count_ended(all) > 0)
            w->next = fmin(w->next, soon);
        if (now < w->next)
            return 0;
    }
    if (sw_statuses_ask(all, SW_WATCH_ASK_SECONDS, err) != 0)
        return -1;
    const uint64_t seen = states_of(all);
    w->between =
        seen != w->seen || w->asked == 0 ? least_between : fmin(w->between * slower, most_between);
    w->seen = seen;
    note_asked(w, sw_clock_now()); /* after the answer, so that a slow controller gets a rest */
    return 0;
}

void sw_watch_wait(void)
{
    const struct timespec pause = {.tv_sec = 1};
    nanosleep(&pause, NULL);
}
