/* metrics.jsonl: a header line per start of the run, then a line per step. Owns the open file. */
#ifndef SW_METRICS_H
#define SW_METRICS_H

#include "core/plan/plan.h"

struct sw_metrics;

struct sw_metrics_step {
    int64_t step, tokens;
    int64_t labels; /* counted ones; written if steps differ */
    bool varies;
    double loss, grad_norm, learning_rate, step_seconds, mfu;
    int64_t arena_bytes;
    double elapsed_s;     /* since rank 0's start */
    int64_t memory_bytes; /* rank 0's peak, on its device if that has memory of its own */
    const char *spike;    /* response: "stop", "skip", "rewind"; NULL: no spike */
};

/* Appends to DIRECTORY/metrics.jsonl; creates the directory and its parents. Errors, here and
 * below: SW_ENVIRONMENT. A line that cannot be written leaves nothing in the file: it waits in
 * memory (at most 4 MiB of lines) and is retried, in order, with the next line and on close. */
int sw_metrics_open(const char *directory, struct sw_metrics **out, struct sw_error *err);
/* Source of the state at a start. */
struct sw_metrics_loaded {
    const char *folder;
    int64_t bytes, reads;          /* tensor data, over all ranks */
    double seconds;                /* the slowest rank's */
    int64_t resident_growth_bytes; /* the largest of all ranks' */
};
/* A start of the run, for tools that add up its time or predict its end. */
struct sw_metrics_start {
    int64_t attempt;  /* the run's, from 1 */
    const char *job;  /* "": none */
    double time;      /* seconds since 1970 when the line is written */
    double elapsed_s; /* since rank 0's start, until then */
    int32_t ranks;
    int64_t first_step, last_step;   /* step it begins after; the run's last step */
    int64_t evaluation_batches;      /* per evaluation; 0: none */
    int64_t memory_limit;            /* per accelerator */
    struct sw_metrics_loaded loaded; /* folder NULL: fresh start */
};
/* versions: text of a JSON object. */
int sw_metrics_header(struct sw_metrics *metrics, const struct sw_plan *plan, const char *versions,
                      const struct sw_metrics_start *start, struct sw_error *err);
/* Before a line: recreates the file, header first, if it was removed or replaced. Returns 1 if it
 * did, 0 if not. */
int sw_metrics_renew(struct sw_metrics *metrics, struct sw_error *err);
int sw_metrics_step(struct sw_metrics *metrics, const struct sw_metrics_step *step,
                    struct sw_error *err);
/* bigram NaN: unknown. seconds: time taken. */
int sw_metrics_holdout(struct sw_metrics *metrics, int64_t step, double bits_per_token,
                       double bigram_bits, double seconds, struct sw_error *err);
/* A saved checkpoint. */
struct sw_metrics_save {
    int64_t step, bytes;
    double pause_s; /* pause of training, rank 0 */
    double write_s; /* rank 0's part of the files */
    double seconds; /* from the pause's start until durable */
};
int sw_metrics_save(struct sw_metrics *metrics, const struct sw_metrics_save *save,
                    struct sw_error *err);
/* True if the directory's metrics.jsonl has the held-out loss after that step. */
bool sw_metrics_has_holdout(const char *directory, int64_t step);
void sw_metrics_close(struct sw_metrics *metrics);

#endif
