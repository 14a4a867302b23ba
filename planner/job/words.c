#include "planner/job/words.h"

#include "core/run/attempt.h"

#include <stddef.h>
#include <stdio.h>

static const struct {
    int32_t verdict;
    bool goes_on; /* true if another attempt continues from the last checkpoint */
    const char *words, *advice;
} verdicts[] = {
    {SW_VERDICT_DONE, false, "done", ""},
    {SW_UNMET, false, "the loss or the gradient norm is zero or not finite",
     "change the run: the same would happen again"},
    {SW_BAD_INPUT, false, "the plan, its data or its checkpoint cannot be used",
     "correct what it names, and start it again"},
    {SW_ENVIRONMENT, true, "it failed", "its log says more"},
    {SW_VERDICT_REQUEUE, true, "it stopped with a durable checkpoint, to resume in another job",
     ""},
    {SW_VERDICT_BAD_NODE, true, "a node is broken", "keep it out of the next job"},
    {SW_VERDICT_NO_PROGRESS, false, "it gained no step since the attempt before",
     "a longer time limit is needed: another job like it would gain none"},
    {SW_VERDICT_INTERRUPTED, true, "a person stopped it", ""},
    {SW_VERDICT_TERMINATED, true, "it was told to end", ""},
};

const char *sw_verdict_words(int32_t verdict)
{
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++)
        if (verdicts[i].verdict == verdict)
            return verdicts[i].words;
    return "it failed";
}

const char *sw_verdict_advice(int32_t verdict, bool queued, const char *exclude, char *buffer,
                              int32_t bytes)
{
    const char *advice = "its log says more";
    bool goes_on = true;
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
        if (verdicts[i].verdict != verdict)
            continue;
        advice = verdicts[i].advice;
        goes_on = verdicts[i].goes_on;
    }
    const bool names = verdict == SW_VERDICT_BAD_NODE && exclude != NULL;
    snprintf(buffer, (size_t)bytes, "%s%s%s%s%s%s%s", advice, names ? " (" : "",
             names ? exclude : "", names ? ")" : "", goes_on && advice[0] != '\0' ? "; " : "",
             !goes_on ? ""
             : queued ? "'plan submit'"
                      : "starting it again",
             goes_on ? " resumes from the last checkpoint" : "");
    return buffer;
}
