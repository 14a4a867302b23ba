/* GET /metrics: Prometheus' text format, version 0.0.4. */
#ifndef SW_SERVE_METRICS_H
#define SW_SERVE_METRICS_H

#include "runner/serve/queue.h"

/* Appends the counts of a server with `slots` slots of max_tokens positions. If memory runs out,
 * the text ends early. */
void sw_serve_metrics(const struct sw_request_queue_counts *c, int64_t slots, int64_t max_tokens,
                      struct sw_chars *out);

#endif
