#include "planner/scheduler/slurm/life.h"

#include "planner/scheduler/slurm/settings.h"

#include <stdio.h>
#include <string.h>

bool sw_slurm_may_shrink(const struct sw_run_config *run)
{
    const struct sw_slurm_config *s = sw_slurm_settings(&run->cluster);
    return s->shrink_limit && run->job.type == SW_JOB_TRAIN && s->continues == SW_CONTINUE_NONE &&
           (s->requeue == SW_REQUEUE_AUTO || s->requeue == SW_REQUEUE_NO);
}

/* Phrases for the continuation of a training that its job's end interrupted. */
static const char *resumes(enum sw_continue continues)
{
    switch (continues) {
    case SW_CONTINUE_REQUEUE:
        return "Slurm requeues the job, which resumes from there";
    case SW_CONTINUE_CHAIN:
        return "the next job of the chain resumes from there";
    default:
        return "the next submit resumes from there";
    }
}

/* "300" of "B:USR1@300" */
static const char *lead_of(const char *signal)
{
    const char *at = strchr(signal, '@');
    return at != NULL ? at + 1 : "60";
}

static const char *at_limit_of_texts(const struct sw_run_config *run, const char *signal,
                                     char buffer[SW_LIFE_WORDS])
{
    const bool serves = run->job.type == SW_JOB_SERVE;
    if (serves && signal != NULL)
        snprintf(
            buffer, SW_LIFE_WORDS,
            "%s s before it the server takes no more requests, finishes those at hand and ends",
            lead_of(signal));
    else if (serves)
        snprintf(buffer, SW_LIFE_WORDS, "Slurm ends the server");
    else
        snprintf(buffer, SW_LIFE_WORDS, "lines that are finished are kept; %s",
                 sw_slurm_settings(&run->cluster)->continues == SW_CONTINUE_REQUEUE
                     ? "Slurm requeues the job, which makes the others"
                     : "the next submit makes the others");
    return buffer;
}

const char *sw_slurm_at_limit(const struct sw_run_config *run, const char *signal,
                              char buffer[SW_LIFE_WORDS])
{
    const enum sw_continue continues = sw_slurm_settings(&run->cluster)->continues;
    if (run->job.type != SW_JOB_TRAIN)
        return at_limit_of_texts(run, signal, buffer);
    int used;
    if (signal != NULL)
        used = snprintf(buffer, SW_LIFE_WORDS, "%s s before it the ranks save and end; %s",
                        lead_of(signal), resumes(continues));
    else
        used = snprintf(buffer, SW_LIFE_WORDS,
                        "no signal comes before it: the ranks save if Slurm's KillWait leaves them "
                        "the time; %s",
                        resumes(continues));
    if (sw_slurm_may_shrink(run) && used > 0 && used < SW_LIFE_WORDS)
        snprintf(buffer + used, (size_t)(SW_LIFE_WORDS - used),
                 ". The job lowers its limit once its speed is known (slurm.shrink_limit)");
    return buffer;
}

const char *sw_slurm_lost_node(const struct sw_run_config *run, char buffer[SW_LIFE_WORDS])
{
    const enum sw_continue continues = sw_slurm_settings(&run->cluster)->continues;
    const char *from = run->checkpoint_every_steps > 0
                           ? "the last checkpoint"
                           : "the beginning, for no checkpoint is saved before the end";
    if (run->job.type != SW_JOB_TRAIN)
        snprintf(buffer, SW_LIFE_WORDS, "the job ends%s",
                 run->job.type == SW_JOB_SERVE ? "" : "; lines that are finished are kept");
    else if (run->nodes_least < run->nodes_most)
        snprintf(buffer, SW_LIFE_WORDS,
                 "the other nodes continue from %s while %d are left; else %s", from,
                 (int)run->nodes_least, resumes(continues));
    else if (continues == SW_CONTINUE_NONE)
        snprintf(buffer, SW_LIFE_WORDS, "the job ends; the next submit resumes from %s", from);
    else
        snprintf(buffer, SW_LIFE_WORDS, "%s resumes from %s, without that node",
                 continues == SW_CONTINUE_CHAIN ? "the next job of the chain"
                                                : "Slurm requeues the job, which",
                 from);
    return buffer;
}
