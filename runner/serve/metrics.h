/* What GET /metrics shows: the text format of Prometheus, version 0.0.4. */
#ifndef SW_SERVE_METRICS_H
#define SW_SERVE_METRICS_H

#include "runner/serve/queue.h"

/* Appends the counts of a server of so many slots, of max_tokens positions each. Memory that runs
 * out ends the text. */
void sw_serve_metrics(const struct sw_request_queue_counts *c, int64_t slots, int64_t max_tokens,
                      struct sw_chars *out);

#endif
