/* What Slurm says about jobs: one call of squeue for any number of them, and of sacct for those
 * that the controller no longer knows. Both are asked through their columns, which have stayed the
 * same over Slurm's versions where --json has not. Owns the answer; keeps nothing between two
 * calls. */
#ifndef SW_JOB_CONTROLLER_H
#define SW_JOB_CONTROLLER_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* What is no longer than this is a job's id: its number, and all of it with the tasks of an array
 * that squeue lists behind. */
enum { SW_MOST_JOB_DIGITS = 20, SW_SHOWN_JOB_BYTES = 128 };

/* Texts are "" where Slurm does not tell; they point into the answer, and control characters in
 * them have become '?'. */
struct sw_slurm_job {
    const char *id;     /* "42"; of an array "42_3", "42_[4-15%8]" */
    const char *state;  /* Slurm's word: PENDING, RUNNING ... */
    const char *reason; /* of a pending job; of another one often None */
    const char *nodes;  /* "n[1-4]" */
    const char *starts_at, *ended_at, *submitted_at; /* local time, 2026-11-22T11:30:00 */
    const char *comment, *command, *folder;          /* command: the script's path */
    int64_t node_count;
    double elapsed_seconds; /* -1: not told */
    double limit_seconds;   /* INFINITY: none; -1: not told */
    bool is_live;    /* it waits, runs or is ending; a state that is not known counts as live */
    bool is_running; /* it has nodes */
};

struct sw_slurm_jobs {
    struct sw_slurm_job *job;
    int32_t count;
    char *text; /* what the jobs point into */
};

/* Asks squeue about the jobs with these ids, or, ids NULL, about all of the calling user's. Those
 * that ended a few minutes ago are among them; ids that nobody knows are left out. Errors
 * (SW_ENVIRONMENT): no squeue, no controller, no answer within limit_seconds. *out is to be freed
 * with sw_slurm_jobs_free, also after an error. */
int sw_controller_ask(const char *const *ids, int32_t count, double limit_seconds,
                      struct sw_slurm_jobs *out, struct sw_error *err);
/* The same of sacct, for jobs that are long over. Where there is no accounting the answer is empty
 * and no error. */
int sw_controller_ask_history(const char *const *ids, int32_t count, double limit_seconds,
                              struct sw_slurm_jobs *out, struct sw_error *err);
void sw_slurm_jobs_free(struct sw_slurm_jobs *jobs);

/* The job of this id, of an array any of its tasks; NULL: it is not among them. */
const struct sw_slurm_job *sw_slurm_jobs_find(const struct sw_slurm_jobs *jobs, const char *id);

/* What the two programs print, for tests: takes over text (malloc'ed). A line that is none of them
 * is passed over. Errors (SW_ENVIRONMENT): memory. */
int sw_squeue_parse(char *text, size_t bytes, struct sw_slurm_jobs *out, struct sw_error *err);
int sw_sacct_parse(char *text, size_t bytes, struct sw_slurm_jobs *out, struct sw_error *err);
/* "1-02:03:04", "2:00:00", "3:04", "30": seconds; UNLIMITED: INFINITY; -1: none of these. */
double sw_slurm_duration(const char *text);

#endif
