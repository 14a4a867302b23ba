#include "runner/train/training.h"

#include "core/base/clock.h"
#include "core/base/self.h"
#include "runner/rank/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Flags between steps: per request, the ranks that got it; the ranks with an error; progress of the
 * current save. */
enum { FLAG_ERROR = SW_REQUEST_TERMINATE, FLAG_SAVER, FLAGS = FLAG_SAVER + SW_SAVER_FLAGS };

enum { GRACE_SECONDS = 30 }; /* Slurm's KillWait, Kubernetes' default */

/* ---- Metrics (rank 0): a disk that is full, or a file that is removed, ends no run ---- */

int sw_training_renew_metrics(struct sw_training *t, struct sw_error *err)
{
    const int renewed = sw_metrics_renew(t->metrics, err);
    if (renewed > 0) {
        sw_progress_line_end(&t->progress);
        fprintf(stderr, "note: %s/metrics.jsonl was removed; it is begun again\n",
                t->rank->plan->run->directory);
    }
    return renewed < 0 ? -1 : 0;
}

void sw_training_tell_metrics(struct sw_training *t, const struct sw_error *err)
{
    const bool failing = err->status != SW_OK;
    if (failing == t->metrics_failing)
        return;
    sw_progress_line_end(&t->progress);
    if (failing)
        fprintf(stderr, "note: %s; the run continues, and tries again at every step\n",
                err->message);
    else
        fprintf(stderr, "note: %s/metrics.jsonl is written again\n", t->rank->plan->run->directory);
    t->metrics_failing = failing;
}

void sw_training_begin_metrics(struct sw_training *t)
{
    struct sw_error err = {0};
    char versions[512];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const struct sw_run_config *run = t->rank->plan->run;
    const int64_t batch = run->global_batch_size;
    const struct sw_metrics_start start = {
        .attempt = t->ending.board->attempt.attempt,
        .job = t->ending.board->attempt.job,
        .time = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec,
        .elapsed_s = sw_self_age_s(),
        .ranks = t->rank->launch->size,
        .first_step = t->resume.step,
        .last_step = t->last,
        .evaluation_batches =
            (sw_dataset_holdout_sequences(sw_trainer_held(&t->trainer)) + batch - 1) / batch,
        .memory_limit = run->cluster.accelerator.memory_bytes,
        .loaded = t->loaded};
    t->age_before_s = start.elapsed_s - sw_clock_now();
    (void)sw_metrics_header(t->metrics, t->rank->plan, sw_version_json(versions, sizeof versions),
                            &start, &err);
    sw_training_tell_metrics(t, &err);
}

double sw_training_elapsed_s(const struct sw_training *t)
{
    return t->age_before_s + sw_clock_now();
}

/* Rank 0's peak memory: its device's or, if shared with the host, this process's. Measured in the
 * first steps, then now and then. */
static int64_t memory_bytes(struct sw_training *t, int64_t step)
{
    enum { FIRST_STEPS = 2, EVERY_STEPS = 32 };
    struct sw_device *device = t->rank->device;
    const struct sw_device_vtable *ops = device->vtable;
    struct sw_device_facts facts;
    int64_t used = 0;
    if (step - t->resume.step > FIRST_STEPS && step % EVERY_STEPS != 0)
        return t->memory_bytes;
    if (ops->in_host_memory) {
        used = sw_self_resident_bytes("VmHWM:");
    } else if (ops->free_bytes != NULL && ops->facts != NULL) {
        const int64_t left = ops->free_bytes(device);
        if (left >= 0 && ops->facts(device, &facts, NULL) == 0)
            used = facts.memory_bytes - left;
    }
    if (used > t->memory_bytes)
        t->memory_bytes = used;
    return t->memory_bytes;
}

void sw_training_write_step(struct sw_training *t, struct sw_metrics_step *line)
{
    struct sw_error err = {0};
    line->elapsed_s = sw_training_elapsed_s(t);
    line->memory_bytes = memory_bytes(t, line->step);
    (void)sw_training_renew_metrics(t, &err);
    (void)sw_metrics_step(t->metrics, line, &err);
    sw_training_tell_metrics(t, &err);
}

/* ---- What is said of saves, and of locks ---- */

static void tell_save(struct sw_training *t, int64_t step)
{
    const struct sw_placement *p = &t->rank->programs->placement;
    struct sw_error err = {0};
    t->save_s = sw_clock_now() - t->save_begun;
    if (t->rank->launch->rank != 0)
        return;
    const struct sw_metrics_save line = {.step = step,
                                         .bytes = sw_placement_bytes(p),
                                         .pause_s = t->pause_s,
                                         .write_s = sw_saver_times(t->saver).write_s,
                                         .seconds = t->save_s};
    (void)sw_training_renew_metrics(t, &err);
    (void)sw_metrics_save(t->metrics, &line, &err);
    sw_training_tell_metrics(t, &err);
    sw_progress_line_end(&t->progress);
    if (t->progress.quiet)
        return;
    fprintf(stderr,
            "checkpoint of step %" PRId64 ": %.1f MB, paused %.3f s, durable after %.1f s\n", step,
            (double)line.bytes / 1e6, line.pause_s, line.seconds);
}

/* Collective. Fails if another job took over the lock, believing this one dead. */
static int check_locks(struct sw_training *t)
{
    float lost = 0;
    for (int32_t i = 0; i < 2; i++)
        if (t->lock[i] != NULL && !sw_lock_held(t->lock[i])) {
            lost = 1;
            sw_fail(&t->rank->err, SW_ENVIRONMENT,
                    "another job took over '%s' while this one did not answer",
                    i == 0 ? t->rank->plan->run->directory
                           : t->rank->plan->run->checkpoint_directory);
        }
    if (sw_rank_vote(t->rank, &lost, 1, &t->rank->err) != 0)
        return -1;
    t->together = lost > 0;
    return t->together ? -1 : 0;
}

/* ---- Between steps ---- */

/* After a failed save: if one may fit by now, it is due at once. */
static void note_failure(struct sw_training *t, bool failed)
{
    t->save_failed = t->save_failed || failed;
    t->save_due = t->save_due || (failed && sw_saver_made_room(t->saver));
}

/* Handles the result of the current save. */
static int advance_save(struct sw_training *t, const float *sums)
{
    struct sw_watch_board *board = t->ending.board;
    int64_t done;
    bool failed;
    if (t->saver == NULL)
        return 0;
    if (sw_saver_advance(t->saver, sums, &done, &failed, &t->rank->err) != 0)
        return -1;
    note_failure(t, failed);
    if (done > 0)
        tell_save(t, done);
    if (done > 0)
        board->attempt.step = done;
    return 0;
}

int sw_training_exchange(struct sw_training *t)
{
    float flags[FLAGS] = {0};
    const enum sw_request mine = sw_life_requested(t->ending.life);
    if (mine != SW_REQUEST_NONE)
        flags[mine - 1] = 1;
    flags[FLAG_ERROR] = t->rank->err.status != SW_OK ? 1 : 0;
    if (t->saver != NULL)
        sw_saver_flags(t->saver, flags + FLAG_SAVER);
    if (sw_rank_vote(t->rank, flags, FLAGS, &t->rank->err) != 0)
        return -1;
    t->request = SW_REQUEST_NONE;
    for (int32_t i = 0; i < FLAG_ERROR; i++)
        if (flags[i] > 0)
            t->request = (enum sw_request)(i + 1);
    t->together = flags[FLAG_ERROR] > 0;
    return t->together ? -1 : advance_save(t, flags + FLAG_SAVER);
}

/* ---- Checkpoints ---- */

int64_t sw_training_sequence_after(const struct sw_training *t, int64_t step)
{
    return t->resume.next_sequence +
           (step - t->resume.step) * t->rank->plan->run->global_batch_size;
}

int64_t sw_training_data_tokens(const struct sw_training *t)
{
    return sw_dataset_train_tokens(t->trainer.data) + sw_dataset_holdout_tokens(t->trainer.data);
}

int sw_training_begin_save(struct sw_training *t)
{
    const int64_t step = t->ending.board->step_done;
    struct sw_manifest facts;
    bool begun;
    sw_resume_facts(t->rank->plan, t->ending.board->attempt.attempt, step,
                    sw_training_sequence_after(t, step), sw_training_data_tokens(t),
                    step == t->last, &facts);
    memcpy(facts.base_path, t->resume.base, sizeof facts.base_path);
    facts.base_digest = t->resume.base_digest;
    facts.spikes = t->resume.spikes;
    facts.spikes.watched = t->rank->plan->run->optimizer.on_spike != SW_SPIKE_NONE;
    facts.idle_steps = t->resume.idle_steps;
    facts.earlier_updates = t->resume.earlier_updates;
    t->save_due = false;
    t->save_begun = sw_clock_now();
    if (check_locks(t) != 0)
        return -1;
    if (sw_saver_begin(t->saver, &facts, &begun, &t->pause_s, &t->rank->err) != 0)
        return sw_fail_context(&t->rank->err, "the checkpoint of step %" PRId64, step);
    note_failure(t, !begun);
    return 0;
}

int sw_training_finish_save(struct sw_training *t)
{
    int64_t done;
    bool failed;
    if (sw_saver_finish(t->saver, &done, &failed, &t->rank->err) != 0)
        return -1;
    note_failure(t, failed);
    if (done > 0) {
        t->ending.board->attempt.step = done;
        tell_save(t, done);
    }
    return 0;
}

int sw_training_save_last(struct sw_training *t)
{
    const struct sw_watch_board *board = t->ending.board;
    if (sw_training_finish_save(t) != 0)
        return -1;
    t->save_failed = false; /* refers to the last save from here on */
    if (board->attempt.step >= board->step_done)
        return 0;
    if (sw_training_begin_save(t) != 0 || sw_training_finish_save(t) != 0)
        return -1;
    if (!t->save_failed || !sw_saver_made_room(t->saver))
        return 0;
    t->save_failed = false;
    return sw_training_begin_save(t) != 0 || sw_training_finish_save(t) != 0 ? -1 : 0;
}

int sw_training_fits_grace(struct sw_training *t, bool *fits)
{
    const double asked = sw_life_requested_at(t->ending.life);
    const double needs = t->save_s > 0 ? t->save_s : t->rank->plan->prediction.save_seconds;
    const double left =
        asked > 0 ? asked + sw_launch_grace_seconds(GRACE_SECONDS) - sw_clock_now() : needs;
    float late = left < needs ? 1 : 0;
    if (sw_rank_vote(t->rank, &late, 1, &t->rank->err) != 0)
        return -1;
    *fits = late == 0;
    return 0;
}
