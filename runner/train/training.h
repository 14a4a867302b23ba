/* A run that trains, as its steps know it: what is told in its metrics, its saves, the ranks' word
 * between steps. Internal to runner/train. */
#ifndef SW_TRAINING_H
#define SW_TRAINING_H

#include "runner/checkpoint/lock.h"
#include "runner/checkpoint/resume.h"
#include "runner/checkpoint/saver.h"
#include "runner/train/ending.h"
#include "runner/train/metrics.h"
#include "runner/train/progress_line.h"
#include "runner/train/trainer.h"

struct sw_training {
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
    double age_before_s;     /* of rank 0, when its clock was 0 */
    int64_t memory_bytes;    /* that rank 0 has used at most; 0: not known */
    bool save_due, save_failed;
    double save_begun, pause_s, save_s; /* of the save at hand, of the last one */
};

/* ---- Metrics (rank 0): a disk that is full, or a file that is removed, ends no run ---- */

void sw_training_begin_metrics(struct sw_training *t);
/* Seconds since rank 0 was started. */
double sw_training_elapsed_s(const struct sw_training *t);
/* Fills in the time and the memory of rank 0. */
void sw_training_write_step(struct sw_training *t, struct sw_metrics_step *line);
/* Begins the file again if it was removed. */
int sw_training_renew_metrics(struct sw_training *t, struct sw_error *err);
/* Says once that lines have to wait, and once that they no longer do. */
void sw_training_tell_metrics(struct sw_training *t, const struct sw_error *err);

/* ---- Between steps. Collective ---- */

/* Sets t->request when any rank was asked to stop, since signals do not reach all ranks in the same
 * step, nor the same ones all ranks; fails, on all ranks together, when any found something wrong.
 */
int sw_training_exchange(struct sw_training *t);
/* The first begins a save of the last step that is done, the second waits for the one under way. */
int sw_training_begin_save(struct sw_training *t);
int sw_training_finish_save(struct sw_training *t);
/* Makes the last step durable, unless it is. */
int sw_training_save_last(struct sw_training *t);
/* *fits: true if a save ends before the grace time does, as far as any rank can tell. */
int sw_training_fits_grace(struct sw_training *t, bool *fits);
/* Answers a spike: the run ends, or goes on behind board->step_done. */
int sw_training_meet_spike(struct sw_training *t, int64_t number, double loss, double norm);

/* Number of the first row behind `step`: data and generator go on behind what was trained on. */
int64_t sw_training_sequence_after(const struct sw_training *t, int64_t step);
int64_t sw_training_data_tokens(const struct sw_training *t);

#endif
