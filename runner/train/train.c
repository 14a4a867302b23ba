#include "runner/train/train.h"

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/cost/checkpoint.h"
#include "runner/checkpoint/loader.h"
#include "runner/checkpoint/lock.h"
#include "runner/checkpoint/disk_space.h"
#include "runner/checkpoint/saver.h"
#include "core/checkpoint/store.h"
#include "runner/train/ending.h"
#include "runner/train/trainer.h"
#include "runner/train/learning_rate.h"
#include "runner/train/metrics.h"
#include "runner/train/check_finite.h"
#include "runner/train/spikes.h"
#include "runner/train/progress_line.h"
#include "runner/rank/version.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the ranks tell each other between steps: for each request how many ranks got it, how many
 * found something wrong, and how far the save under way is. */
enum { FLAG_ERROR = SW_REQUEST_TERMINATE, FLAG_SAVER, FLAGS = FLAG_SAVER + SW_SAVER_FLAGS };

enum { GRACE_SECONDS = 30 }; /* Slurm's KillWait, Kubernetes' default */

struct training {
    struct sw_rank *rank;
    struct sw_trainer trainer;
    int64_t last;                    /* the run's last step */
    struct sw_resume_options from;   /* where it may begin */
    struct sw_resume resume;         /* where it begins */
    struct sw_metrics_loaded loaded; /* of that, by all ranks */
    struct sw_metrics *metrics;      /* rank 0 */
    struct sw_lock *lock[2]; /* rank 0: of the run's folder, of the checkpoints' elsewhere */
    struct sw_saver *saver;
    bool background; /* it writes while training goes on */
    struct sw_progress_line progress;
    double bigram; /* bits of the held-out data; NAN: not known yet */
    bool together; /* every rank leaves at the same place: errors are agreed on */
    struct sw_ending ending;
    enum sw_request request; /* the strongest that any rank got; agreed on */
    bool metrics_failing;    /* was said */
    bool save_due, save_failed;
    double save_begun, pause_s, save_s; /* of the save at hand, of the last one */
};

/* ---- Metrics (rank 0): a disk that is full, or a file that is removed, ends no run ---- */

static int renew_metrics(struct training *t, struct sw_error *err)
{
    const int renewed = sw_metrics_renew(t->metrics, err);
    if (renewed > 0) {
        sw_progress_line_end(&t->progress);
        fprintf(stderr, "note: %s/metrics.jsonl was removed; it is begun again\n",
                t->rank->plan->run->directory);
    }
    return renewed < 0 ? -1 : 0;
}

/* Says once that lines have to wait, and once that they no longer do. */
static void tell_metrics(struct training *t, const struct sw_error *err)
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

static void begin_metrics(struct training *t)
{
    struct sw_error err = {0};
    char versions[512];
    (void)sw_metrics_header(t->metrics, t->rank->plan, sw_version_json(versions, sizeof versions),
                            t->ending.board->attempt.attempt,
                            t->loaded.folder == NULL ? NULL : &t->loaded, &err);
    tell_metrics(t, &err);
}

static void record(struct training *t, const struct sw_metrics_step *line)
{
    struct sw_error err = {0};
    (void)renew_metrics(t, &err);
    (void)sw_metrics_step(t->metrics, line, &err);
    tell_metrics(t, &err);
}

/* ---- What is said of saves, and of locks ---- */

static void tell_save(struct training *t, int64_t step)
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
    (void)renew_metrics(t, &err);
    (void)sw_metrics_save(t->metrics, &line, &err);
    tell_metrics(t, &err);
    sw_progress_line_end(&t->progress);
    if (t->progress.quiet)
        return;
    fprintf(stderr,
            "checkpoint of step %" PRId64 ": %.1f MB, paused %.3f s, durable after %.1f s\n", step,
            (double)line.bytes / 1e6, line.pause_s, line.seconds);
}

/* Collective. Another job may have taken this one for dead. */
static int check_locks(struct training *t)
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

/* One that may fit by now is due at once. */
static void note_failure(struct training *t, bool failed)
{
    t->save_failed = t->save_failed || failed;
    t->save_due = t->save_due || (failed && sw_saver_made_room(t->saver));
}

/* What came of the save under way. */
static int advance_save(struct training *t, const float *sums)
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

/* Sets t->request when any rank was asked to stop, since signals do not reach all ranks in the same
 * step, nor the same ones all ranks; fails, on all ranks together, when any found something wrong.
 */
static int exchange(struct training *t)
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

/* Data and generator go on behind the sequences that were trained on. */
static int64_t sequence_after(const struct training *t, int64_t step)
{
    return t->resume.next_sequence +
           (step - t->resume.step) * t->rank->plan->run->global_batch_size;
}

static int64_t data_tokens(const struct training *t)
{
    return sw_dataset_train_tokens(t->trainer.data) + sw_dataset_holdout_tokens(t->trainer.data);
}

static int begin_save(struct training *t)
{
    const int64_t step = t->ending.board->step_done;
    struct sw_manifest facts;
    bool begun;
    sw_resume_facts(t->rank->plan, t->ending.board->attempt.attempt, step, sequence_after(t, step),
                    data_tokens(t), step == t->last, &facts);
    memcpy(facts.base_path, t->resume.base, sizeof facts.base_path);
    facts.base_digest = t->resume.base_digest;
    facts.spikes = t->resume.spikes;
    facts.spikes.watched = t->rank->plan->run->optimizer.on_spike != SW_SPIKE_NONE;
    facts.idle_steps = t->resume.idle_steps;
    t->save_due = false;
    t->save_begun = sw_clock_now();
    if (check_locks(t) != 0)
        return -1;
    if (sw_saver_begin(t->saver, &facts, &begun, &t->pause_s, &t->rank->err) != 0)
        return sw_fail_context(&t->rank->err, "the checkpoint of step %" PRId64, step);
    note_failure(t, !begun);
    return 0;
}

static int finish_save(struct training *t)
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

/* Makes the last step durable, unless it is. Collective. */
static int save_last(struct training *t)
{
    const struct sw_watch_board *board = t->ending.board;
    if (finish_save(t) != 0)
        return -1;
    t->save_failed = false; /* from here on it is the last one's */
    if (board->attempt.step >= board->step_done)
        return 0;
    if (begin_save(t) != 0 || finish_save(t) != 0)
        return -1;
    if (!t->save_failed || !sw_saver_made_room(t->saver))
        return 0;
    t->save_failed = false;
    return begin_save(t) != 0 || finish_save(t) != 0 ? -1 : 0;
}

/* Whether a save ends before the grace time does, as far as any rank can tell. */
static int fits_grace(struct training *t, bool *fits)
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

/* ---- The loop ---- */

static int train_batch(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    struct training *t = context;
    (void)err;
    sw_trainer_read(&t->trainer, t->trainer.data, sw_dataset_train,
                    sequence_after(t, t->ending.board->step_done) +
                        ask->step->micro_step *
                            t->rank->programs->program[SW_PROGRAM_TRAIN]->micro_batch,
                    ask, to);
    return 0;
}

/* updates: those before, by which AdamW corrects its moments. */
static struct sw_step make_step(const struct sw_optimizer_config *o, int64_t number,
                                int64_t updates)
{
    return (struct sw_step){.step = updates + 1,
                            .learning_rate = sw_learning_rate(o, number),
                            .beta1 = o->beta1,
                            .beta2 = o->beta2,
                            .eps = o->eps,
                            .weight_decay = o->weight_decay,
                            .grad_clip = o->grad_clip};
}

static double peak_flops(const struct sw_run_config *run)
{
    const struct sw_accelerator_config *a = &run->cluster.accelerator;
    return run->compute == SW_BF16_T ? a->peak_bf16_flops : a->peak_fp32_flops;
}

static int stop_judging(void *context, bool *stops)
{
    struct training *t = context;
    if (exchange(t) != 0)
        return -1;
    *stops = t->request != SW_REQUEST_NONE;
    return 0;
}

/* Says how the model does on what was held out: at the end, and during training (`evaluate`). */
static int judge(struct training *t, int64_t steps)
{
    double loss;
    char text[96];
    if (sw_dataset_holdout_labels(sw_trainer_held(&t->trainer)) == 0)
        return 0;
    if (sw_trainer_held_out(&t->trainer, stop_judging, t, &loss) != 0)
        return -1;
    if (t->rank->launch->rank != 0 || t->request != SW_REQUEST_NONE)
        return 0;
    sw_progress_line_end(&t->progress);
    (void)sw_trainer_describe_loss(&t->trainer, loss, &t->bigram,
                                   text); /* which finds the bigram's, too */
    if (!t->progress.quiet)
        fprintf(stderr, "held-out: %s\n", text);
    struct sw_error err = {0};
    if (renew_metrics(t, &err) == 0)
        (void)sw_metrics_holdout(t->metrics, steps, loss / log(2), t->bigram, &err);
    tell_metrics(t, &err);
    return 0;
}

/* ---- Spikes: every rank decides alike ---- */

/* The folder of the checkpoint of that step. */
static const char *checkpoint_folder(const struct training *t, int64_t step, char folder[4096])
{
    char name[SW_STEP_NAME_BYTES];
    if (t->resume.start == SW_START_RESUME && step == t->ending.board->attempt.first_step)
        snprintf(folder, 4096, "%s", t->resume.folder);
    else
        snprintf(folder, 4096, "%s/%s", t->rank->plan->run->checkpoint_directory,
                 sw_store_step_name(step, name));
    return folder;
}

/* Collective. The step to go back to from `number`: that of the last checkpoint that was due, so
 * that a run which was ended and saved in between goes back as one that was not; where it is not
 * there, of the last one; 0: there is none. */
static int64_t step_to_go_back_to(const struct training *t, int64_t number)
{
    const int64_t last = t->ending.board->attempt.step;
    const int64_t every = t->rank->plan->run->checkpoint_every_steps;
    const int64_t due = every > 0 ? (number - 1) / every * every : 0;
    char folder[4096];
    const bool there = t->rank->launch->rank == 0 && due > 0 && due < last &&
                       sw_store_check(checkpoint_folder(t, due, folder), NULL, NULL) == 0;
    return sw_launch_max(t->rank->launch, there) > 0 ? due : last;
}

/* All ranks leave for the same reason. */
static int stop_at_spike(struct training *t, int64_t number, const char *what, const char *why)
{
    char folder[4096] = "";
    if (t->ending.board->attempt.step > 0)
        checkpoint_folder(t, t->ending.board->attempt.step, folder);
    t->together = true;
    return sw_fail(&t->rank->err, SW_UNMET, "step %" PRId64 ": %s%s; %s%.400s", number, what, why,
                   *folder != '\0' ? "the last checkpoint is " : "there is no checkpoint", folder);
}

/* The state of the checkpoint of `step`, and the data behind `number`, which spiked. Durable before
 * it goes on: after a kill that batch is not met again. */
static int go_back(struct training *t, int64_t step, int64_t number)
{
    struct sw_rank *rank = t->rank;
    const int64_t behind = sequence_after(t, number), rewinds = t->resume.spikes.rewinds + 1;
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
    return begin_save(t) != 0 ? -1 : finish_save(t);
}

/* Answers a spike: the run ends, or goes on behind board->step_done. */
static int meet_spike(struct training *t, int64_t number, double loss, double norm)
{
    const struct sw_optimizer_config *o = &t->rank->plan->run->optimizer;
    struct sw_spikes *spikes = &t->resume.spikes;
    const bool skips = o->on_spike == SW_SPIKE_SKIP;
    char what[200], why[100] = "";
    sw_spikes_describe(o, spikes, loss, norm, what);
    if (finish_save(t) != 0) /* one under way is of a step before */
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

/* The program of a step. Where no label counts there is no gradient: nothing runs; parameters,
 * moments and AdamW's count of steps stay. Every rank knows that from the index. */
static int compute_step(struct training *t, int64_t number, const struct sw_step *step,
                        double *loss, double *grad_norm)
{
    const struct sw_rank *rank = t->rank;
    const struct sw_fetch fetches[] = {{.name = "loss", .number = loss},
                                       {.name = "grad_norm", .number = grad_norm}};
    const struct sw_batch batch = {train_batch, t, true};
    struct sw_feed feeds[SW_BATCH_FEEDS];
    *loss = *grad_norm = 0;
    if (step->loss_scale == 0) {
        t->resume.idle_steps++;
        if (rank->launch->rank != 0)
            return 0;
        sw_progress_line_end(&t->progress);
        fprintf(stderr, "note: no label of step %" PRId64 " counts: it changes nothing\n", number);
        return 0;
    }
    const int32_t fed = sw_batch_feeds(&batch, rank->programs->program[SW_PROGRAM_TRAIN], feeds);
    return sw_executor_run(rank->executor, SW_PROGRAM_TRAIN, step, feeds, fed, fetches, 2,
                           &t->rank->err) != 0
               ? sw_fail_context(&t->rank->err, "step %" PRId64, number)
               : 0;
}

/* One step and the ranks' word about it. board->step_done is `number` then, unless it spiked. */
static int run_step(struct training *t, int64_t number)
{
    const struct sw_rank *rank = t->rank;
    const struct sw_run_config *run = rank->plan->run;
    double loss, grad_norm;
    struct sw_step step = make_step(&run->optimizer, number, number - 1 - t->resume.idle_steps);
    sw_spikes_limits(&run->optimizer, &t->resume.spikes, &step.most_loss, &step.most_norm);
    const double begin = sw_clock_now();
    const int64_t counted = sw_dataset_train_counted(t->trainer.data, sequence_after(t, number - 1),
                                                     run->global_batch_size);
    step.loss_scale = sw_batch_loss_scale(counted);
    sw_dataset_prefetch(t->trainer.data, sequence_after(t, number), run->global_batch_size);
    if (compute_step(t, number, &step, &loss, &grad_norm) != 0)
        return -1;
    const double seconds = sw_clock_now() - begin;
    if (exchange(t) != 0)
        return -1;
    static const char *const answers[] = {NULL, "stop", "skip", "rewind"};
    const bool watched = run->optimizer.on_spike != SW_SPIKE_NONE && step.loss_scale > 0;
    const bool spiked = watched && !sw_step_updates(&step, true, loss, grad_norm);
    if (!spiked)
        t->ending.board->step_done = number;
    if (rank->launch->rank == 0) {
        const struct sw_metrics_step line = {
            .step = number,
            .tokens = rank->programs->tokens_per_step,
            .labels = counted,
            .varies = sw_dataset_varies(t->trainer.data),
            .loss = loss,
            .grad_norm = grad_norm,
            .learning_rate = step.learning_rate,
            .step_seconds = seconds,
            .mfu = (counted > 0 ? t->trainer.flops_per_step : 0) / seconds /
                   (peak_flops(run) * rank->launch->size),
            .arena_bytes = sw_executor_arena_bytes(rank->executor),
            .spike = spiked ? answers[run->optimizer.on_spike] : NULL};
        record(t, &line);
        sw_progress_line_step(&t->progress, number, t->last, loss, (double)line.tokens / seconds,
                              number == t->last || t->request != SW_REQUEST_NONE);
    }
    if (spiked)
        return meet_spike(t, number, loss, grad_norm);
    t->together = counted > 0 && sw_check_finite(number, loss, grad_norm, &t->rank->err) != 0;
    if (watched)
        sw_spikes_add(&run->optimizer, &t->resume.spikes, loss, grad_norm);
    return t->together ? -1 : 0; /* every rank has the same numbers */
}

/* What a step that is done brings with it, before the next one. */
static int between_steps(struct training *t, int64_t number)
{
    const struct sw_run_config *run = t->rank->plan->run;
    const int64_t save = run->checkpoint_every_steps, every = run->evaluate_every_steps;
    if (number == t->last || t->request != SW_REQUEST_NONE)
        return 0;
    /* one that is due while another is under way comes as soon as that is durable */
    t->save_due = t->save_due || (save > 0 && number % save == 0);
    /* but where a spike goes back to one: that does not depend on the disk */
    if (t->save_due && run->optimizer.on_spike == SW_SPIKE_REWIND && finish_save(t) != 0)
        return -1;
    if (t->save_due && !sw_saver_busy(t->saver) &&
        (begin_save(t) != 0 || (!t->background && finish_save(t) != 0)))
        return -1;
    return every > 0 && number % every == 0 ? judge(t, number) : 0;
}

static int run_steps(struct training *t)
{
    sw_progress_line_begin(&t->progress, t->resume.step);
    if (exchange(t) != 0)
        return -1;
    /* an attempt without a step would be the last of its chain */
    if (t->request == SW_REQUEST_REQUEUE)
        t->request = SW_REQUEST_NONE;
    if (t->rank->launch->rank == 0 && t->request == SW_REQUEST_NONE)
        sw_progress_line_first(&t->progress, t->last, t->rank->plan->prediction.step_seconds);
    const int64_t *done = &t->ending.board->step_done;
    for (int64_t number = t->resume.step + 1; number <= t->last && t->request == SW_REQUEST_NONE;
         number = *done + 1)
        if (run_step(t, number) != 0 || (*done == number && between_steps(t, number) != 0))
            return -1;
    return 0;
}

/* ---- The beginning ---- */

/* Says how full packed rows are, and what does not go into them. */
static void say_data(const struct training *t)
{
    int64_t rows;
    const struct sw_packing_sums sums = sw_dataset_sums(t->trainer.data, &rows);
    if (rows == 0)
        return;
    fprintf(stderr, "data: %" PRId64 " documents in %" PRId64 " rows an epoch, %.1f %% full\n",
            sums.documents, rows,
            100 * (double)sums.tokens /
                ((double)rows * (double)t->rank->plan->run->sequence_length));
    if (sums.cut_tokens > 0)
        fprintf(stderr,
                "note: %" PRId64 " document%s longer than sequence_length: %" PRId64
                " tokens of theirs (%.1f %% of all) are cut off\n",
                sums.cut_documents, sums.cut_documents == 1 ? " is" : "s are", sums.cut_tokens,
                100 * (double)sums.cut_tokens / (double)(sums.tokens + sums.cut_tokens));
}

static void announce(const struct training *t)
{
    const struct sw_rank *rank = t->rank;
    char mesh[64], attempt[40] = "", note[240];
    if (t->ending.board->attempt.attempt > 1)
        snprintf(attempt, sizeof attempt, ", attempt %" PRId64, t->ending.board->attempt.attempt);
    fprintf(stderr,
            "training %s: %" PRId64 " step%s of %" PRId64
            " tokens on mesh %s (%d rank%s), arena %.1f MB per rank%s\n",
            rank->plan->run->name, t->last, t->last == 1 ? "" : "s",
            rank->programs->tokens_per_step,
            sw_mesh_format(&rank->plan->decision.mesh, mesh, sizeof mesh), rank->launch->size,
            rank->launch->size == 1 ? "" : "s",
            (double)sw_executor_arena_bytes(rank->executor) / 1e6, attempt);
    say_data(t);
    if (sw_learning_rate_is_over(&rank->plan->run->optimizer, t->last, note, sizeof note))
        fprintf(stderr, "note: %s\n", note);
}

/* Rank 0. What a copy of the folder, or a kill, has left in that of the checkpoints. */
static int tidy(struct training *t)
{
    const char *folder = t->rank->plan->run->checkpoint_directory;
    char note[SW_STORE_NOTE_BYTES];
    if (sw_store_clean(folder, &t->rank->err) != 0 ||
        sw_store_mend(folder, note, &t->rank->err) != 0)
        return -1;
    if (note[0] != '\0')
        fprintf(stderr, "%s\n", note);
    return 0;
}

/* Rank 0. One job at a time in the run's folder, and in that of the checkpoints where it is
 * another's.
 */
static int take_locks(struct training *t)
{
    const struct sw_run_config *run = t->rank->plan->run;
    struct sw_lock_owner me = {.pid = getpid()};
    struct sw_attempt before;
    char note[SW_LOCK_NOTE_BYTES] = "";
    const size_t length = strlen(run->directory);
    (void)sw_attempt_read(run->directory, &before, note, NULL);
    me.attempt = before.attempt + 1;
    snprintf(me.host, sizeof me.host, "%s", t->rank->launch->host);
    snprintf(me.job, sizeof me.job, "%s", sw_launch_job());
    const bool inside = strncmp(run->checkpoint_directory, run->directory, length) == 0 &&
                        run->checkpoint_directory[length] == '/';
    const char *const folder[2] = {run->directory, inside ? NULL : run->checkpoint_directory};
    for (int32_t i = 0; i < 2; i++) {
        if (folder[i] == NULL)
            continue;
        if (sw_lock_take(folder[i], &me, 0, &t->lock[i], note, &t->rank->err) != 0)
            return -1;
        if (note[0] != '\0')
            fprintf(stderr, "note: %s\n", note);
    }
    return tidy(t);
}

/* Collective: of all ranks. */
static void sum_loading(struct training *t, const struct sw_loading *mine)
{
    const struct sw_launch *launch = t->rank->launch;
    const int64_t counts[2] = {mine->bytes_read, mine->reads};
    int64_t(*all)[2] = calloc((size_t)launch->size, sizeof *all);
    const bool room = sw_launch_max(launch, all == NULL) == 0;
    t->loaded = (struct sw_metrics_loaded){
        .folder = t->resume.folder[0] != '\0' ? t->resume.folder : t->resume.base,
        .seconds = (double)sw_launch_max(launch, (int64_t)(mine->seconds * 1e6)) / 1e6,
        .resident_growth_bytes = sw_launch_max(launch, mine->resident_growth_bytes)};
    if (room)
        sw_launch_gather(launch, counts, sizeof counts, all);
    for (int32_t r = 0; room && r < launch->size; r++) {
        t->loaded.bytes += all[r][0];
        t->loaded.reads += all[r][1];
    }
    free(all);
}

/* The state's contents. Returns whether they are to be looked for once more. */
static bool fill_state(struct training *t, struct sw_resume_options *options)
{
    struct sw_rank *rank = t->rank;
    const struct sw_run_config *run = rank->plan->run;
    struct sw_loading loading = {.folder = t->resume.folder,
                                 .base = t->resume.base,
                                 .resume = t->resume.start == SW_START_RESUME};
    struct sw_manifest manifest;
    if (t->resume.start == SW_START_FRESH && t->resume.base[0] == '\0') {
        (void)sw_executor_init_state(rank->executor, run->data_seed,
                                     run->model.shape.initializer_range, &rank->err);
        return false;
    }
    (void)sw_loader_load(rank, &loading, &manifest);
    sum_loading(t, &loading);
    return sw_resume_again(rank->launch, &t->resume, &loading, options, &rank->err);
}

/* Rank 0, once a checkpoint was read and is whole. */
static int keep_damaged(struct training *t)
{
    const char *folder = t->rank->plan->run->checkpoint_directory;
    char note[SW_STORE_NOTE_BYTES];
    if (sw_store_keep_damaged(folder, t->resume.folder, t->from.damage, note, &t->rank->err) != 0)
        return -1;
    if (note[0] != '\0')
        fprintf(stderr, "%s\n", note);
    return 0;
}

/* Collective. The best checkpoint that proves to be whole, or another beginning. *finished: no step
 * is left to do. */
static enum sw_status find_start(struct training *t, bool *finished)
{
    struct sw_rank *rank = t->rank;
    bool again = true;
    while (again) {
        (void)sw_resume_find(rank->launch, rank->plan, rank->plan_path, &t->from, data_tokens(t),
                             t->last, &t->resume, &rank->err);
        const enum sw_status status = sw_rank_agree(rank);
        *finished =
            status == SW_OK && t->resume.start == SW_START_RESUME && t->resume.step >= t->last;
        if (status != SW_OK || *finished)
            return status;
        again = fill_state(t, &t->from);
    }
    /* one that some rank could not read was not shown to be whole */
    const enum sw_status status = sw_rank_agree(rank);
    if (status != SW_OK)
        return status;
    if (rank->launch->rank == 0 && sw_resume_is_auto(&t->from) &&
        t->resume.start == SW_START_RESUME)
        (void)keep_damaged(t);
    return sw_rank_agree(rank);
}

static int open_saver(struct training *t)
{
    const struct sw_run_config *run = t->rank->plan->run;
    t->background =
        sw_checkpoint_background(&run->cluster, t->rank->plan->prediction.memory_total,
                                 sw_placement_most_bytes(&t->rank->programs->placement));
    const struct sw_saver_options options = {
        .folder = run->checkpoint_directory,
        .keep = run->checkpoint_keep,
        .keep_every = run->checkpoint_keep_every,
        .bytes_per_second = run->checkpoint_bandwidth / t->rank->launch->size,
        .background = t->background,
        .run = run,
        .source = t->resume.folder[0] != '\0' ? t->resume.folder : NULL,
        .base = t->resume.base[0] != '\0' ? t->resume.base : NULL};
    return sw_saver_create(t->rank, &options, &t->saver);
}

/* Rank 0. Fails where no checkpoint can be made, before hours of steps that would be lost. */
static int check_folder(struct training *t)
{
    const char *folder = t->rank->plan->run->checkpoint_directory;
    char probe[4096], target[1024];
    const ssize_t length = readlink(folder, target, sizeof target - 1);
    if (length >= 0 && access(folder, F_OK) != 0) {
        target[length] = '\0';
        return sw_fail(&t->rank->err, SW_ENVIRONMENT,
                       "checkpoints cannot be written to '%s', a symlink to '%s', which is not "
                       "there; make that folder, or remove the link",
                       folder, target);
    }
    if (sw_file_make_folder(folder, &t->rank->err) != 0)
        return sw_fail_context(&t->rank->err, "checkpoints cannot be written");
    if (snprintf(probe, sizeof probe, "%s/.writable", folder) >= (int)sizeof probe)
        return 0; /* a save says so */
    if ((mkdir(probe, 0777) != 0 && errno != EEXIST) || rmdir(probe) != 0)
        return sw_fail(&t->rank->err, SW_ENVIRONMENT,
                       "checkpoints cannot be written to '%s': %s; make it writable, or name "
                       "another folder as checkpoint.directory",
                       folder, strerror(errno));
    return 0;
}

/* One at the end, and those before it. */
static void tell_room(const struct training *t)
{
    const struct sw_run_config *run = t->rank->plan->run;
    const int64_t steps = t->last - t->resume.step, every = run->checkpoint_every_steps;
    sw_disk_space_warn(run->checkpoint_directory, sw_placement_bytes(&t->rank->programs->placement),
                       run->checkpoint_keep, every > 0 ? (steps + every - 1) / every : 1);
}

/* Everything up to the first step. *finished: there is none, the run is over. */
static enum sw_status begin(struct training *t, const struct sw_train_options *options,
                            bool *finished)
{
    struct sw_rank *rank = t->rank;
    enum sw_status status =
        sw_trainer_open(&t->trainer, rank->plan->run->data_holdout, options->steps);
    if (status != SW_OK)
        return status;
    if (rank->launch->rank == 0)
        (void)take_locks(t);
    status = sw_rank_agree(rank);
    if (status != SW_OK)
        return status;
    status = find_start(t, finished);
    if (status != SW_OK || *finished)
        return status;
    if (open_saver(t) == 0 && rank->launch->rank == 0 && check_folder(t) == 0 &&
        sw_metrics_open(rank->plan->run->directory, &t->metrics, &rank->err) == 0)
        tell_room(t);
    return sw_rank_agree(rank);
}

static void end(struct training *t)
{
    sw_metrics_close(t->metrics);
    sw_saver_free(t->saver);
    sw_trainer_close(&t->trainer);
    sw_ending_free(&t->ending);
    sw_store_free_damage(t->from.damage);
    for (int32_t i = 0; i < 2; i++)
        sw_lock_release(t->lock[i]);
}

/* ---- The end ---- */

/* On a request: every rank leaves at the same place. */
static int leave(struct training *t, bool judging)
{
    static const char *const names[] = {[SW_REQUEST_REQUEUE] = "the checkpoint signal",
                                        [SW_REQUEST_INTERRUPT] = "SIGINT",
                                        [SW_REQUEST_TERMINATE] = "SIGTERM"};
    const struct sw_watch_board *board = t->ending.board;
    const int64_t done = board->step_done;
    const int code = sw_request_exit_code(t->request);
    bool fits = true;
    char cause[160];
    if ((t->request == SW_REQUEST_TERMINATE && fits_grace(t, &fits) != 0) ||
        (fits && save_last(t) != 0)) {
        if (t->together)
            return sw_ending_fail(&t->ending, t->rank->err.status == SW_OK ? NULL : &t->rank->err);
        sw_ending_abort(&t->ending, &t->rank->err);
    }
    const int64_t kept = board->attempt.step;
    const char *const why = fits ? "it could not be saved" : "there was no time to save it";
    if (t->rank->launch->rank == 0) {
        fprintf(stderr, "stopped after step %" PRId64 " of %" PRId64 "%s; ", done, t->last,
                judging ? ", before the held-out loss was known" : "");
        if (kept == done && done > 0)
            fprintf(stderr, "the checkpoint is in %s\n", t->rank->plan->run->checkpoint_directory);
        else if (done == 0)
            fprintf(stderr, "there is nothing to save yet\n");
        else if (kept == 0)
            fprintf(stderr, "%s: there is no checkpoint\n", why);
        else
            fprintf(stderr, "%s: the last checkpoint is of step %" PRId64 "\n", why, kept);
    }
    const bool hung_up = t->request == SW_REQUEST_TERMINATE && sw_life_hung_up(t->ending.life);
    snprintf(cause, sizeof cause, "%s, after step %" PRId64 " of %" PRId64,
             hung_up ? "SIGHUP" : names[t->request], done, t->last);
    return sw_ending_leave(&t->ending, (enum sw_verdict)code, cause);
}

/* The lowest rank that knows why says it; the last one knows at least that. */
static void fail_unsaved(struct training *t)
{
    const struct sw_error *why = sw_saver_failure(t->saver);
    const bool told = why->status != SW_OK;
    if (told || t->rank->launch->rank == t->rank->launch->size - 1)
        (void)sw_fail(&t->rank->err, SW_ENVIRONMENT,
                      "the run is done, but its last checkpoint could not be written to %.250s%s%s",
                      t->rank->plan->run->checkpoint_directory, told ? ": " : "",
                      told ? why->message : "");
}

/* Returns the exit code. */
static int run(struct training *t)
{
    sw_ending_begin(&t->ending, t->rank->plan->run->directory, t->resume.step);
    sw_launch_started(t->rank->launch);
    if (t->rank->launch->rank == 0) {
        begin_metrics(t);
        if (!t->progress.quiet)
            announce(t);
    }
    bool failed = run_steps(t) != 0;
    const bool judging = !failed && t->request == SW_REQUEST_NONE;
    if (judging) /* what is done is kept first: judging takes long, and may be ended */
        failed = save_last(t) != 0 || judge(t, t->ending.board->step_done) != 0;
    sw_progress_line_end(&t->progress);
    if (judging && !failed && t->save_failed) {
        t->together = failed = true;
        fail_unsaved(t);
    }
    if (failed && !t->together)
        sw_ending_abort(&t->ending, &t->rank->err);
    if (failed)
        return sw_ending_fail(&t->ending, t->rank->err.status == SW_OK ? NULL : &t->rank->err);
    if (t->request != SW_REQUEST_NONE)
        return leave(t, judging);
    return sw_ending_leave(&t->ending, SW_VERDICT_DONE, "every step was done");
}

/* Collective. True if the held-out loss of the last step was never written: the attempt before was
 * ended while it judged. */
static bool lacks_held_out(const struct training *t)
{
    const bool lacks = t->rank->launch->rank == 0 &&
                       sw_dataset_holdout_labels(sw_trainer_held(&t->trainer)) > 0 &&
                       !sw_metrics_has_holdout(t->rank->plan->run->directory, t->resume.step);
    return sw_launch_max(t->rank->launch, lacks) > 0;
}

/* The loss that was cut off, of the finished model. Errors as run(). */
static int make_up_held_out(struct training *t)
{
    struct sw_rank *rank = t->rank;
    if (rank->launch->rank == 0 && !t->progress.quiet)
        fprintf(stderr, "its held-out loss was cut off; it is made now\n");
    (void)fill_state(t, &t->from);
    if (rank->launch->rank == 0 && rank->err.status == SW_OK)
        (void)sw_metrics_open(rank->plan->run->directory, &t->metrics, &rank->err);
    t->together = sw_rank_agree(rank) != SW_OK;
    if (t->together)
        return -1;
    if (rank->launch->rank == 0)
        begin_metrics(t);
    return judge(t, t->resume.step);
}

/* No step is left to do. An attempt that was killed behind the last save did not say so. */
static int leave_finished(struct training *t)
{
    if (t->rank->launch->rank == 0 && !t->progress.quiet)
        fprintf(stderr, "%s is finished: step %" PRId64 " of %" PRId64 " is in %s\n",
                t->rank->plan->run->name, t->resume.step, t->last, t->resume.folder);
    const bool lacks = lacks_held_out(t);
    sw_ending_begin(&t->ending, t->rank->plan->run->directory, t->resume.step);
    if (lacks && make_up_held_out(t) != 0) {
        if (!t->together)
            sw_ending_abort(&t->ending, &t->rank->err);
        return sw_ending_fail(&t->ending, t->rank->err.status == SW_OK ? NULL : &t->rank->err);
    }
    if (lacks && t->request != SW_REQUEST_NONE) {
        if (t->rank->launch->rank == 0)
            fprintf(stderr, "stopped before the held-out loss was known\n");
        return sw_ending_leave(&t->ending, (enum sw_verdict)sw_request_exit_code(t->request),
                               "stopped before the held-out loss was known");
    }
    return sw_ending_leave(&t->ending, SW_VERDICT_DONE, "every step was done before");
}

int sw_train(struct sw_rank *rank, const void *given)
{
    const struct sw_train_options *options = given;
    struct training t = {
        .rank = rank,
        .trainer = {.rank = rank},
        .from = options->resume,
        .last = options->steps > 0 ? options->steps : rank->plan->run->optimizer.total_steps,
        .bigram = NAN,
        .progress = {.quiet = options->quiet},
        .ending = {.launch = rank->launch, .life = options->life, .board = options->board}};
    bool finished = false;
    sw_life_set_checkpoint_signal(options->life, rank->plan->run->checkpoint_signal);
    int status = (int)begin(&t, options, &finished);
    if (status == SW_OK)
        status = finished ? leave_finished(&t) : run(&t);
    end(&t);
    return status;
}
