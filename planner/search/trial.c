/* Changes of a tried run: noting and describing them, and releasing settings for the search to
 * choose. */
#include "planner/search/internal.h"

#include <inttypes.h>

void sw_suggestion_note(struct sw_suggestion *s, const char *change, const char *to)
{
    if (s->count == SW_MAX_CHANGES)
        return;
    snprintf(s->change[s->count].setting, sizeof s->change[0].setting, "%s", change);
    snprintf(s->change[s->count++].to, sizeof s->change[0].to, "%s", to);
}

void sw_trial_note(struct sw_trial *t, const char *setting, const char *to)
{
    sw_suggestion_note(&t->changes, setting, to);
}

void sw_trial_note_integer(struct sw_trial *t, const char *setting, int64_t to)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, to);
    sw_trial_note(t, setting, text);
}

void sw_suggestion_describe(const struct sw_suggestion *s, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (int32_t i = 0; i < s->count && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%s: %s", i == 0 ? "use " : " and ",
                                 s->change[i].setting, s->change[i].to);
}

bool sw_trial_relax(const struct sw_searcher *like, struct sw_trial *t)
{
    const struct sw_recompute fixed =
        sw_recompute_normal(like->recompute, t->run.model.shape.layers);
    if (!t->run.recompute_auto && !sw_recompute_equal(fixed, sw_recompute_full())) {
        t->run.recompute_auto = true;
        t->run.recompute = (struct sw_recompute_config){0};
        sw_trial_note(t, "recompute", "auto");
        return true;
    }
    if (t->run.micro_batch_size > 1) {
        t->run.micro_batch_size = 0;
        sw_trial_note(t, "micro_batch_size", "auto");
        return true;
    }
    if (t->run.zero == SW_ZERO_1 || t->run.zero == SW_ZERO_2) {
        t->run.zero = SW_ZERO_AUTO;
        sw_trial_note(t, "zero", "auto");
        return true;
    }
    if (!t->run.reshard_after_forward) {
        t->run.reshard_after_forward = true;
        sw_trial_note(t, "reshard_after_forward", "true");
        return true;
    }
    return false;
}
