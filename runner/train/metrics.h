/* metrics.jsonl: a header line for each start of the run, then one line per step. Owns the open
 * file. */
#ifndef SW_METRICS_H
#define SW_METRICS_H

#include "core/plan/plan.h"

struct sw_metrics;

struct sw_metrics_step {
    int64_t step, tokens;
    double loss, grad_norm, learning_rate, step_seconds, mfu;
    int64_t arena_bytes;
};

/* Appends to DIRECTORY/metrics.jsonl, creating the directory and its parents. Here and below,
 * errors are SW_ENVIRONMENT; of a line that cannot be written nothing stays in the file. */
int sw_metrics_open(const char *directory, struct sw_metrics **out, struct sw_error *err);
/* versions: a JSON object's text. */
int sw_metrics_header(struct sw_metrics *metrics, const struct sw_plan *plan, const char *versions,
                      struct sw_error *err);
int sw_metrics_step(struct sw_metrics *metrics, const struct sw_metrics_step *step,
                    struct sw_error *err);
/* bigram NaN: not known. */
int sw_metrics_holdout(struct sw_metrics *metrics, int64_t step, double bits_per_token,
                       double bigram_bits, struct sw_error *err);
void sw_metrics_close(struct sw_metrics *metrics);

#endif
