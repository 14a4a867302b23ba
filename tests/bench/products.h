/* Matrix products of a program, each by itself through oneDNN's matmul primitive: the ceiling that
 * steps of training and of serving are held against. */
#ifndef SW_BENCH_PRODUCTS_H
#define SW_BENCH_PRODUCTS_H

#include "core/ir/op.h"

/* Seconds that all products of a program take, best of several runs of each, on the threads that
 * OpenMP has now, by that clock (core/base/clock.h). `attention`: those of ring attention as well,
 * at the causal half. operands: SW_F32, or SW_BF16_T, where logits and gradients of weights are
 * fp32.
 * *flops is set. Leaves the process where oneDNN fails. */
double sw_bench_products_seconds(const struct sw_program *p, bool attention, enum sw_dtype operands,
                                 double (*clock)(void), double *flops);

#endif
