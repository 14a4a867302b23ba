/* State of a training run: metrics, saves, communication between steps. Internal to
 * runner/train. */
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
    struct sw_resume_options from;   /* candidates for the start */
    struct sw_resume resume;         /* the chosen start */
    struct sw_metrics_loaded loaded; /* its loading, over all ranks */
    struct sw_metrics *metrics;      /* rank 0 */
    struct sw_lock *lock[2]; /* rank 0: the run's folder, and the checkpoints' if elsewhere */
    struct sw_saver *saver;
    bool background; /* true if saves are written during training */
    struct sw_progress_line progress;
    double bigram; /* bigram bits of the held-out data; NAN: not yet known */
    bool together; /* true if all ranks end at the same point: errors are agreed on */
    struct sw_ending ending;
    enum sw_request request; /* strongest of any rank's; agreed on */
    bool metrics_failing;    /* true once reported */
    double age_before_s;     /* time before rank 0's clock was 0 */
    int64_t memory_bytes;    /* rank 0's peak; 0: unknown */
    bool save_due, save_failed;
    double save_begun, pause_s, save_s; /* the current save's; the last one's */
};

/* ---- Metrics (rank 0): a disk that is full, or a file that is removed, ends no run ---- */

void sw_training_begin_metrics(struct sw_training *t);
/* Seconds since rank 0's start. */
double sw_training_elapsed_s(const struct sw_training *t);
/* Adds rank 0's time and memory, and writes the line. */
void sw_training_write_step(struct sw_training *t, struct sw_metrics_step *line);
/* Recreates the file if it was removed. */
int sw_training_renew_metrics(struct sw_training *t, struct sw_error *err);
/* Reports once that lines wait, and once that they no longer do. */
void sw_training_tell_metrics(struct sw_training *t, const struct sw_error *err);

/* ---- Between steps. Collective ---- */

/* Sets t->request if any rank was asked to stop: signals reach ranks in different steps, or only
 * some. Fails, on all ranks together, if any rank has an error. */
int sw_training_exchange(struct sw_training *t);
/* Begins a save of the last finished step; below, waits for the current save. */
int sw_training_begin_save(struct sw_training *t);
int sw_training_finish_save(struct sw_training *t);
/* Saves the last step, unless it is saved. */
int sw_training_save_last(struct sw_training *t);
/* *fits: true if a save would end within the grace time, by every rank's estimate. */
int sw_training_fits_grace(struct sw_training *t, bool *fits);
/* Responds to a spike: ends the run, or continues after board->step_done. */
int sw_training_meet_spike(struct sw_training *t, int64_t number, double loss, double norm);

/* First row after `step`: data and generator continue after the rows used. */
int64_t sw_training_sequence_after(const struct sw_training *t, int64_t step);
int64_t sw_training_data_tokens(const struct sw_training *t);

#endif
