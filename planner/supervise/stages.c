/* Stages of a run that one job trains, one after another. */
#include "planner/supervise/supervise_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads one of "NAME/STEPS/DIGESTS NAME/...", of so many bytes; false: malformed. */
static bool read_stage(const char *text, size_t bytes, struct sw_stage *out, char **digests)
{
    const char *slash = memchr(text, '/', bytes), *end;
    char *stop;
    if (slash == NULL || slash == text || (size_t)(slash - text) >= sizeof out->name)
        return false;
    *out = (struct sw_stage){0};
    memcpy(out->name, text, (size_t)(slash - text));
    out->steps = strtoll(slash + 1, &stop, 10);
    end = text + bytes;
    if (stop == slash + 1 || *stop != '/' || stop + 1 >= end || out->steps < 0 ||
        strspn(out->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") !=
            strlen(out->name))
        return false;
    *digests = strndup(stop + 1, (size_t)(end - stop - 1));
    return *digests != NULL;
}

/* Rejects arguments that start a stage over: they would do so in each stage, or only in the current
 * one. */
static bool check_arguments(const struct sw_arguments_words *arguments, struct sw_error *err)
{
    for (int32_t i = 0; i < arguments->count; i++)
        if (sw_arguments_is(arguments->word[i], "--overwrite") ||
            sw_arguments_is(arguments->word[i], "--resume")) {
            sw_fail(err, SW_BAD_INPUT,
                    "%s is of one stage: give it to 'runner train NAME.STAGE.plan.yaml', or delete "
                    "the folders of the stages that are to begin anew",
                    arguments->word[i]);
            return false;
        }
    return true;
}

bool sw_supervise_begin_stages(struct sw_supervisor *s)
{
    struct sw_error err = {0};
    const char *text = s->set->stages;
    s->digests = s->set->digests;
    snprintf(s->folder, sizeof s->folder, "%s", s->set->folder);
    snprintf(s->checkpoints, sizeof s->checkpoints, "%s", s->set->checkpoints);
    for (const char *p = text + strspn(text, " "); *p != '\0'; p += strspn(p, " ")) {
        const size_t bytes = strcspn(p, " ");
        const int32_t i = s->stages.count;
        if (i == SW_STAGES || !read_stage(p, bytes, &s->stages.stage[i], &s->digests_of[i])) {
            sw_fail(&err, SW_BAD_INPUT,
                    "--stages has no NAME/STEPS/DIGESTS at '%.40s'; write the script again with "
                    "'plan emit'",
                    p);
            break;
        }
        s->stages.count++;
        p += bytes;
    }
    if (err.status == SW_OK && s->stages.count > 0)
        (void)check_arguments(&s->set->arguments, &err);
    if (err.status == SW_OK)
        return true;
    s->code = sw_supervise_fail(&err);
    return false;
}

void sw_supervise_free_stages(struct sw_supervisor *s)
{
    for (int32_t i = 0; i < SW_STAGES; i++)
        free(s->digests_of[i]);
}

/* Takes a stage: its checkpoints are inside its folder, unless the run has them elsewhere. */
static void take_stage(struct sw_supervisor *s, int32_t i)
{
    const char *name = s->stages.stage[i].name, *folder = s->set->folder,
               *all = s->set->checkpoints;
    char usual[PATH_MAX];
    s->stage = i;
    s->digests = s->digests_of[i];
    snprintf(s->folder, sizeof s->folder, "%.3900s/%s", folder, name);
    snprintf(usual, sizeof usual, "%.3900s", folder);
    if (strcmp(all, usual) == 0) /* the folder that contains them is the run's */
        snprintf(s->checkpoints, sizeof s->checkpoints, "%.4000s/checkpoints", s->folder);
    else
        snprintf(s->checkpoints, sizeof s->checkpoints, "%.3900s/%s", all, name);
}

bool sw_supervise_find_stage(struct sw_supervisor *s)
{
    const int32_t current = s->stages.count > 0 ? sw_stages_current(s->set->folder, &s->stages) : 0;
    if (s->stages.count == 0)
        return true;
    if (current == s->stages.count) {
        fprintf(stderr, "every stage of this job is done\n");
        return false;
    }
    take_stage(s, current);
    if (s->stages.count > 1 || s->set->next[0] != '\0')
        fprintf(stderr, "stage %s\n", s->stages.stage[current].name);
    return true;
}

bool sw_supervise_next_stage(struct sw_supervisor *s)
{
    if (s->stage + 1 >= s->stages.count)
        return false;
    fprintf(stderr, "stage %s is done; %s follows in this job\n", s->stages.stage[s->stage].name,
            s->stages.stage[s->stage + 1].name);
    take_stage(s, s->stage + 1);
    s->attempt_before = -1; /* its attempts are separate */
    return true;
}

void sw_supervise_stage_plan(const struct sw_supervisor *s, const char *ending, char plan[PATH_MAX])
{
    char first[SW_STAGE_NAME_BYTES + 64];
    if (s->stages.count == 0)
        return;
    snprintf(first, sizeof first, ".%s%s", s->stages.stage[0].name, ending);
    const size_t length = strlen(plan), tail = strlen(first);
    if (length > tail && strcmp(plan + length - tail, first) == 0)
        snprintf(plan + length - tail, PATH_MAX - (length - tail), ".%s%s",
                 s->stages.stage[s->stage].name, ending);
}
