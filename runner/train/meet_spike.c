/* Response to a spike. Every rank decides alike. */
#include "core/checkpoint/store.h"
#include "runner/checkpoint/loader.h"
#include "runner/train/spikes.h"
#include "runner/train/training.h"

#include <inttypes.h>
#include <stdio.h>

/* Folder of that step's checkpoint. */
static const char *checkpoint_folder(const struct sw_training *t, int64_t step, char folder[4096])
{
    char name[SW_STEP_NAME_BYTES];
    const bool begun_with = t->resume.start == SW_START_RESUME || t->resume.start == SW_START_STAGE;
    if (begun_with && step == t->ending.board->attempt.first_step)
        snprintf(folder, 4096, "%s", t->resume.folder);
    else
        snprintf(folder, 4096, "%s/%s", t->rank->plan->run->checkpoint_directory,
                 sw_store_step_name(step, name));
    return folder;
}

/* Collective. Step to return to from `number`: the last regular checkpoint, so that a run
 * interrupted and saved in between returns to the same one; if it is absent, the last existing one;
 * 0: none. */
static int64_t step_to_go_back_to(const struct sw_training *t, int64_t number)
{
    const int64_t last = t->ending.board->attempt.step;
    const int64_t every = t->rank->plan->run->checkpoint_every_steps;
    const int64_t due = every > 0 ? (number - 1) / every * every : 0;
    char folder[4096];
    const bool there = t->rank->launch->rank == 0 && due > 0 && due < last &&
                       sw_store_check(checkpoint_folder(t, due, folder), NULL, NULL) == 0;
    return sw_launch_max(t->rank->launch, there) > 0 ? due : last;
}

/* Ends all ranks for the same reason. */
static int stop_at_spike(struct sw_training *t, int64_t number, const char *what, const char *why)
{
    char folder[4096] = "";
    if (t->ending.board->attempt.step > 0)
        checkpoint_folder(t, t->ending.board->attempt.step, folder);
    t->together = true;
    return sw_fail(&t->rank->err, SW_UNMET, "step %" PRId64 ": %s%s; %s%.400s", number, what, why,
                   *folder != '\0' ? "the last checkpoint is " : "there is no checkpoint", folder);
}

/* Loads the checkpoint of `step` and continues with the data after the spiking step `number`.
 * Records that first: after a kill that batch is skipped too. */
static int go_back(struct sw_training *t, int64_t step, int64_t number)
{
    struct sw_rank *rank = t->rank;
    const int64_t behind = sw_training_sequence_after(t, number),
                  rewinds = t->resume.spikes.rewinds + 1;
    char folder[4096];
    struct sw_manifest manifest;
    struct sw_loading loading = {
        .folder = checkpoint_folder(t, step, folder), .base = t->resume.base, .resume = true};
    (void)sw_loader_load(rank, &loading, &manifest);
    t->together = sw_rank_agree(rank) != SW_OK;
    if (t->together)
        return -1;
    t->resume.step = t->ending.board->step_done = manifest.step;
    t->resume.next_sequence = behind;
    t->resume.idle_steps = manifest.idle_steps;
    t->resume.spikes = manifest.spikes;
    t->resume.spikes.rewinds = rewinds;
    return sw_training_begin_save(t) != 0 ? -1 : sw_training_finish_save(t);
}

int sw_training_meet_spike(struct sw_training *t, int64_t number, double loss, double norm)
{
    const struct sw_optimizer_config *o = &t->rank->plan->run->optimizer;
    struct sw_spikes *spikes = &t->resume.spikes;
    const bool skips = o->on_spike == SW_SPIKE_SKIP;
    char what[200], why[100] = "";
    sw_spikes_describe(o, spikes, loss, norm, what);
    if (sw_training_finish_save(t) != 0) /* a save under way is of an earlier step */
        return -1;
    if (skips && spikes->skips_in_a_row == o->max_skips)
        snprintf(why, sizeof why, ", after %" PRId64 " batches in a row that were skipped",
                 o->max_skips);
    else if (o->on_spike == SW_SPIKE_REWIND && spikes->rewinds >= o->max_rewinds)
        snprintf(why, sizeof why, ", after %" PRId64 " rewinds", spikes->rewinds);
    const int64_t back = skips ? 0 : step_to_go_back_to(t, number);
    if (*why != '\0' || o->on_spike == SW_SPIKE_STOP || (!skips && back == 0))
        return stop_at_spike(t, number, what, why);
    if (t->rank->launch->rank == 0) {
        sw_progress_line_end(&t->progress);
        fprintf(stderr, "note: step %" PRId64 ": %s; ", number, what);
        if (skips)
            fprintf(stderr, "its batch is skipped\n");
        else
            fprintf(stderr, "going back to step %" PRId64 ", and on behind its batch\n", back);
    }
    if (!skips)
        return go_back(t, back, number);
    t->resume.next_sequence += t->rank->plan->run->global_batch_size;
    spikes->skips++;
    spikes->skips_in_a_row++;
    return 0;
}
