/* Where a step's time goes: each kind of op, what it took and what was planned. */
#ifndef SW_BENCH_OP_TABLE_H
#define SW_BENCH_OP_TABLE_H

#include "core/config/config.h"
#include "core/program/program.h"
#include "runner/rank/execute.h"

/* Reads batches (sw_batch_feeds) of tokens that differ from each other: rows of the embedding's
 * gradient meet as in text, rarely. context: int64_t *, the vocabulary's size. */
int sw_bench_tokens(void *context, const struct sw_ask *ask, void *to, struct sw_error *err);

/* seconds[program's op_count]: of all calls of an op in a step. Writes Markdown: a row for each
 * kind of op, the largest first, beside what `plan` says of the same ops on that cluster. */
void sw_bench_print_ops(const struct sw_program *p, const struct sw_cluster_config *cluster,
                        const double *seconds);

#endif
