/* metrics.jsonl: a header line for each start of the run, then one line per step. Owns the open
 * file. */
#ifndef SW_METRICS_H
#define SW_METRICS_H

#include "core/plan/plan.h"

struct sw_metrics;

struct sw_metrics_step {
    int64_t step, tokens;
    int64_t labels; /* that count; written where steps differ in them */
    bool varies;
    double loss, grad_norm, learning_rate, step_seconds, mfu;
    int64_t arena_bytes;
    double elapsed_s;     /* since rank 0 was started */
    int64_t memory_bytes; /* that rank 0 has used at most; of its device where that has its own */
    const char *spike;    /* the answer to it: "stop", "skip", "rewind"; NULL: it is none */
};

/* Appends to DIRECTORY/metrics.jsonl, creating the directory and its parents. Here and below,
 * errors are SW_ENVIRONMENT. Of a line that cannot be written nothing stays in the file: it waits
 * in memory (4 MiB of such lines at most), and is tried again, in its order, with the next one and
 * when the file is closed. */
int sw_metrics_open(const char *directory, struct sw_metrics **out, struct sw_error *err);
/* What a start of the run began from. */
struct sw_metrics_loaded {
    const char *folder;
    int64_t bytes, reads;          /* of tensors' data, by all ranks */
    double seconds;                /* of the slowest rank */
    int64_t resident_growth_bytes; /* of the rank where it is most */
};
/* A start of the run, for who sums its time up or tells when it ends. */
struct sw_metrics_start {
    int64_t attempt;  /* of the run, from 1 */
    const char *job;  /* "": none */
    double time;      /* seconds since 1970 when the line is written */
    double elapsed_s; /* since rank 0 was started, until then */
    int32_t ranks;
    int64_t first_step, last_step;   /* behind which it begins; the run's last */
    int64_t evaluation_batches;      /* of an evaluation; 0: there is none */
    int64_t memory_limit;            /* of an accelerator */
    struct sw_metrics_loaded loaded; /* folder NULL: it began anew */
};
/* versions: a JSON object's text. */
int sw_metrics_header(struct sw_metrics *metrics, const struct sw_plan *plan, const char *versions,
                      const struct sw_metrics_start *start, struct sw_error *err);
/* Before a line: begins the file again, header first, where it was removed or something else stands
 * in its place. 1: it did, 0: nothing to do. */
int sw_metrics_renew(struct sw_metrics *metrics, struct sw_error *err);
int sw_metrics_step(struct sw_metrics *metrics, const struct sw_metrics_step *step,
                    struct sw_error *err);
/* bigram NaN: not known. seconds: that it took. */
int sw_metrics_holdout(struct sw_metrics *metrics, int64_t step, double bits_per_token,
                       double bigram_bits, double seconds, struct sw_error *err);
/* A checkpoint that is durable now. */
struct sw_metrics_save {
    int64_t step, bytes;
    double pause_s; /* training stood still, rank 0 */
    double write_s; /* rank 0's part of the files */
    double seconds; /* from the pause's beginning until it was durable */
};
int sw_metrics_save(struct sw_metrics *metrics, const struct sw_metrics_save *save,
                    struct sw_error *err);
/* True if the directory's metrics.jsonl has the held-out loss behind that step. */
bool sw_metrics_has_holdout(const char *directory, int64_t step);
void sw_metrics_close(struct sw_metrics *metrics);

#endif
