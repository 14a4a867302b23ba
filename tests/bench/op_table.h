/* Where a step's time goes: each kind of op, what it took and what was planned. */
#ifndef SW_BENCH_OP_TABLE_H
#define SW_BENCH_OP_TABLE_H

#include "core/config/config.h"
#include "core/plan/plan.h"
#include "core/ir/program.h"
#include "runner/rank/execute.h"

/* The training step of a plan for one rank. Errors (SW_BAD_INPUT): it is for more. The caller frees
 * *set. */
int sw_bench_single_program(const struct sw_plan *plan, struct sw_program_set **set,
                            struct sw_error *err);

/* One step of it (p: the program of the set) on tokens drawn alike in every run. */
int sw_bench_run_step(struct sw_executor *executor, const struct sw_plan *plan,
                      const struct sw_program *p, int64_t number, struct sw_error *err);

enum { SW_BENCH_STEPS = 64 }; /* that are timed, at most */

/* Of an op's seconds in each of so many steps: of_op[step][op]. */
double sw_bench_median(double *const *of_op, int32_t steps, int32_t op);

/* seconds[program's op_count]: of all calls of an op in a step. Writes Markdown: a row for each
 * kind of op, the largest first, beside what `plan` says of the same ops on that cluster. */
void sw_bench_print_ops(const struct sw_program *p, const struct sw_cluster_config *cluster,
                        const double *seconds);

#endif
