#include "runner/train/train.h"

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/cost/checkpoint.h"
#include "core/run/hours.h"
#include "runner/checkpoint/loader.h"
#include "runner/checkpoint/disk_space.h"
#include "core/checkpoint/store.h"
#include "runner/train/learning_rate.h"
#include "runner/train/check_finite.h"
#include "runner/train/spikes.h"
#include "runner/train/training.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The loop ---- */

static int train_batch(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    struct sw_training *t = context;
    (void)err;
    sw_trainer_read(&t->trainer, t->trainer.data, sw_dataset_train,
                    sw_training_sequence_after(t, t->ending.board->step_done) +
                        ask->step->micro_step *
                            t->rank->programs->program[SW_PROGRAM_TRAIN]->micro_batch,
                    ask, to);
    return 0;
}

/* updates: earlier ones, for AdamW's bias correction. */
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
    struct sw_training *t = context;
    if (sw_training_exchange(t) != 0)
        return -1;
    *stops = t->request != SW_REQUEST_NONE;
    return 0;
}

/* Reports the held-out loss: at the end, and during training (`evaluate`). */
static int judge(struct sw_training *t, int64_t steps)
{
    double loss;
    char text[96];
    const double begin = sw_clock_now();
    if (sw_dataset_holdout_labels(sw_trainer_held(&t->trainer)) == 0)
        return 0;
    if (sw_trainer_held_out(&t->trainer, stop_judging, t, &loss) != 0)
        return -1;
    if (t->rank->launch->rank != 0 || t->request != SW_REQUEST_NONE)
        return 0;
    sw_progress_line_end(&t->progress);
    (void)sw_trainer_describe_loss(&t->trainer, loss, &t->bigram,
                                   text); /* also computes the bigram's */
    if (!t->progress.quiet)
        fprintf(stderr, "held-out: %s\n", text);
    struct sw_error err = {0};
    if (sw_training_renew_metrics(t, &err) == 0)
        (void)sw_metrics_holdout(t->metrics, steps, loss / log(2), t->bigram,
                                 sw_clock_now() - begin, &err);
    sw_training_tell_metrics(t, &err);
    return 0;
}

/* Runs the program of a step. Without counted labels there is no gradient and nothing runs:
 * parameters, moments and AdamW's step count stay. Every rank knows that from the index. */
static int compute_step(struct sw_training *t, int64_t number, const struct sw_step *step,
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

/* Runs a step and the ranks' agreement on it. Sets board->step_done to `number`, unless it
 * spiked. */
static int run_step(struct sw_training *t, int64_t number)
{
    const struct sw_rank *rank = t->rank;
    const struct sw_run_config *run = rank->plan->run;
    double loss, grad_norm;
    struct sw_step step = make_step(&run->optimizer, number,
                                    number - 1 - t->resume.idle_steps + t->resume.earlier_updates);
    sw_spikes_limits(&run->optimizer, &t->resume.spikes, &step.most_loss, &step.most_norm);
    const double begin = sw_clock_now();
    const int64_t counted = sw_dataset_train_counted(
        t->trainer.data, sw_training_sequence_after(t, number - 1), run->global_batch_size);
    step.loss_scale = sw_batch_loss_scale(counted);
    sw_dataset_prefetch(t->trainer.data, sw_training_sequence_after(t, number),
                        run->global_batch_size);
    if (compute_step(t, number, &step, &loss, &grad_norm) != 0)
        return -1;
    const double seconds = sw_clock_now() - begin;
    if (sw_training_exchange(t) != 0)
        return -1;
    static const char *const answers[] = {NULL, "stop", "skip", "rewind"};
    const bool watched = run->optimizer.on_spike != SW_SPIKE_NONE && step.loss_scale > 0;
    const bool spiked = watched && !sw_step_updates(&step, true, loss, grad_norm);
    if (!spiked)
        t->ending.board->step_done = number;
    if (rank->launch->rank == 0) {
        struct sw_metrics_step line = {.step = number,
                                       .tokens = rank->programs->tokens_per_step,
                                       .labels = counted,
                                       .varies = sw_dataset_varies(t->trainer.data),
                                       .loss = loss,
                                       .grad_norm = grad_norm,
                                       .learning_rate = step.learning_rate,
                                       .step_seconds = seconds,
                                       .mfu = (counted > 0 ? t->trainer.flops_per_step : 0) /
                                              seconds / (peak_flops(run) * rank->launch->size),
                                       .arena_bytes = sw_executor_arena_bytes(rank->executor),
                                       .spike = spiked ? answers[run->optimizer.on_spike] : NULL};
        sw_training_write_step(t, &line);
        sw_progress_line_step(&t->progress, number, t->last, loss, (double)line.tokens / seconds,
                              number == t->last || t->request != SW_REQUEST_NONE);
    }
    if (spiked)
        return sw_training_meet_spike(t, number, loss, grad_norm);
    t->together = counted > 0 && sw_check_finite(number, loss, grad_norm, &t->rank->err) != 0;
    if (watched)
        sw_spikes_add(&run->optimizer, &t->resume.spikes, loss, grad_norm);
    return t->together ? -1 : 0; /* every rank has the same numbers */
}

/* Work between a finished step and the next one. */
static int between_steps(struct sw_training *t, int64_t number)
{
    const struct sw_run_config *run = t->rank->plan->run;
    const int64_t save = run->checkpoint_every_steps, every = run->evaluate_every_steps;
    if (number == t->last || t->request != SW_REQUEST_NONE)
        return 0;
    /* a save due during another one follows as soon as that is durable */
    t->save_due = t->save_due || (save > 0 && number % save == 0);
    /* except if spikes return to a checkpoint: that must not depend on the disk */
    if (t->save_due && run->optimizer.on_spike == SW_SPIKE_REWIND &&
        sw_training_finish_save(t) != 0)
        return -1;
    if (t->save_due && !sw_saver_busy(t->saver) &&
        (sw_training_begin_save(t) != 0 || (!t->background && sw_training_finish_save(t) != 0)))
        return -1;
    return every > 0 && number % every == 0 ? judge(t, number) : 0;
}

static int run_steps(struct sw_training *t)
{
    sw_progress_line_begin(&t->progress, t->resume.step);
    if (sw_training_exchange(t) != 0)
        return -1;
    /* an attempt without a step would end its chain */
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

/* Reports the filling of packed rows, and what they leave out. */
static void say_data(const struct sw_training *t)
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

static void announce(const struct sw_training *t)
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

/* Tidies the checkpoints' folder on rank 0 after a copy or a kill. */
static int tidy(struct sw_training *t)
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

/* Locks on rank 0: one job at a time in the run's folder and the checkpoints' folder. */
static int take_locks(struct sw_training *t)
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

/* Collective: sums over all ranks. */
static void sum_loading(struct sw_training *t, const struct sw_loading *mine)
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

/* Fills the state. True if another source must be tried. */
static bool fill_state(struct sw_training *t, struct sw_resume_options *options)
{
    struct sw_rank *rank = t->rank;
    const struct sw_run_config *run = rank->plan->run;
    struct sw_loading loading = {.folder = t->resume.folder,
                                 .base = t->resume.base,
                                 .resume = t->resume.start == SW_START_RESUME ||
                                           t->resume.start == SW_START_STAGE};
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

/* Runs on rank 0, after a whole checkpoint was read. */
static int keep_damaged(struct sw_training *t)
{
    const char *folder = t->rank->plan->run->checkpoint_directory;
    char note[SW_STORE_NOTE_BYTES];
    if (sw_store_keep_damaged(folder, t->resume.folder, t->from.damage, note, &t->rank->err) != 0)
        return -1;
    if (note[0] != '\0')
        fprintf(stderr, "%s\n", note);
    return 0;
}

/* Collective. Finds the best whole checkpoint, or another start. *finished: true if no step is
 * left. */
static enum sw_status find_start(struct sw_training *t, bool *finished)
{
    struct sw_rank *rank = t->rank;
    bool again = true;
    while (again) {
        (void)sw_resume_find(rank->launch, rank->plan, rank->plan_path, &t->from,
                             sw_training_data_tokens(t), t->last, &t->resume, &rank->err);
        const enum sw_status status = sw_rank_agree(rank);
        *finished =
            status == SW_OK && t->resume.start == SW_START_RESUME && t->resume.step >= t->last;
        if (status != SW_OK || *finished)
            return status;
        again = fill_state(t, &t->from);
    }
    /* a checkpoint that some rank could not read may not be whole */
    const enum sw_status status = sw_rank_agree(rank);
    if (status != SW_OK)
        return status;
    if (rank->launch->rank == 0 && sw_resume_is_auto(&t->from) &&
        t->resume.start == SW_START_RESUME)
        (void)keep_damaged(t);
    return sw_rank_agree(rank);
}

static int open_saver(struct sw_training *t)
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

/* Runs on rank 0: fails if no checkpoint can be written, before hours of steps are lost. */
static int check_folder(struct sw_training *t)
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
        return 0; /* a save reports it */
    if ((mkdir(probe, 0777) != 0 && errno != EEXIST) || rmdir(probe) != 0)
        return sw_fail(&t->rank->err, SW_ENVIRONMENT,
                       "checkpoints cannot be written to '%s': %s; make it writable, or name "
                       "another folder as checkpoint.directory",
                       folder, strerror(errno));
    return 0;
}

/* One at the end, and those before it. */
static void tell_room(const struct sw_training *t)
{
    const struct sw_run_config *run = t->rank->plan->run;
    const int64_t steps = t->last - t->resume.step, every = run->checkpoint_every_steps;
    sw_disk_space_warn(run->checkpoint_directory, sw_placement_bytes(&t->rank->programs->placement),
                       run->checkpoint_keep, every > 0 ? (steps + every - 1) / every : 1);
}

/* Does everything before the first step. *finished: true if no step is left. */
static enum sw_status begin(struct sw_training *t, const struct sw_train_options *options,
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

/* Reports the time, on rank 0, if no process of the job does. */
static void tell_time(const struct sw_training *t)
{
    struct sw_hours efficiency;
    const char *job = sw_launch_job();
    if (t->metrics == NULL || job[0] == '\0' || t->progress.quiet ||
        sw_hours_read(t->rank->plan->run->directory, job, false, &efficiency, NULL) != 0 ||
        efficiency.supervised || efficiency.attempts == 0)
        return;
    fprintf(stderr, "where the time of job %s went:\n", job);
    sw_hours_write(stderr, &efficiency, "  ");
}

static void end(struct sw_training *t)
{
    sw_metrics_close(t->metrics);
    tell_time(t);
    sw_saver_free(t->saver);
    sw_trainer_close(&t->trainer);
    sw_ending_free(&t->ending);
    sw_store_free_damage(t->from.damage);
    for (int32_t i = 0; i < 2; i++)
        sw_lock_release(t->lock[i]);
}

/* ---- The end ---- */

/* Ends on a request: every rank at the same point. */
static int leave(struct sw_training *t, bool judging)
{
    static const char *const names[] = {[SW_REQUEST_REQUEUE] = "the checkpoint signal",
                                        [SW_REQUEST_INTERRUPT] = "SIGINT",
                                        [SW_REQUEST_TERMINATE] = "SIGTERM"};
    const struct sw_watch_board *board = t->ending.board;
    const int64_t done = board->step_done;
    const int code = sw_request_exit_code(t->request);
    bool fits = true;
    char cause[160];
    if ((t->request == SW_REQUEST_TERMINATE && sw_training_fits_grace(t, &fits) != 0) ||
        (fits && sw_training_save_last(t) != 0)) {
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

/* Ends with an unsaved step: the lowest rank that knows the reason reports it; the last rank knows
 * at least that. */
static void fail_unsaved(struct sw_training *t)
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
static int run(struct sw_training *t)
{
    sw_ending_begin(&t->ending, t->rank->plan->run->directory, t->resume.step);
    sw_launch_started(t->rank->launch);
    if (t->rank->launch->rank == 0) {
        sw_training_begin_metrics(t);
        if (!t->progress.quiet)
            announce(t);
    }
    bool failed = run_steps(t) != 0;
    const bool judging = !failed && t->request == SW_REQUEST_NONE;
    if (judging) /* save first: evaluating takes long and may be interrupted */
        failed = sw_training_save_last(t) != 0 || judge(t, t->ending.board->step_done) != 0;
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

/* Collective. True if the last step's held-out loss is missing: the previous attempt ended while
 * computing it. */
static bool lacks_held_out(const struct sw_training *t)
{
    const bool lacks = t->rank->launch->rank == 0 &&
                       sw_dataset_holdout_labels(sw_trainer_held(&t->trainer)) > 0 &&
                       !sw_metrics_has_holdout(t->rank->plan->run->directory, t->resume.step);
    return sw_launch_max(t->rank->launch, lacks) > 0;
}

/* Computes the missing loss of the finished model. Returns as run(). */
static int make_up_held_out(struct sw_training *t)
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
        sw_training_begin_metrics(t);
    return judge(t, t->resume.step);
}

/* Ends without a step left. An attempt killed after the last save did not record that. */
static int leave_finished(struct sw_training *t)
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
    struct sw_training t = {
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
