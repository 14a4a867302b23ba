/* One line of metrics.jsonl for readers (docs/reference/json.md; runner/train/metrics.h writes
 * them). Missing or wrong members are 0, NAN or "". */
#ifndef SW_METRICS_LINE_H
#define SW_METRICS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sw_metrics_kind {
    SW_METRICS_OTHER, /* another program's, or incomplete */
    SW_METRICS_HEADER,
    SW_METRICS_STEP,
    SW_METRICS_HELD_OUT,
    SW_METRICS_SAVE
};

struct sw_metrics_line {
    enum sw_metrics_kind kind;
    double elapsed_s; /* seconds since rank 0 was started: header, step */

    int64_t attempt; /* header */
    char plan_digest[20], mesh[64], job[64];
    double predicted_s;       /* predicted seconds of a step */
    int64_t predicted_memory; /* predicted bytes of an accelerator */
    int64_t memory_limit;
    double time; /* seconds since 1970 */
    int64_t ranks, first_step, last_step, evaluation_batches;

    int64_t step; /* step, held-out, save */
    double loss, step_s, tokens_per_second, mfu;
    int64_t memory_bytes;

    double held_out_bits, seconds; /* held-out: result, and seconds it took */

    double pause_s, durable_s; /* save */
};

void sw_metrics_line_parse(const char *text, size_t bytes, struct sw_metrics_line *out);

#endif
