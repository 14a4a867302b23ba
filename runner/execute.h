/* Executes a laid-out program on one rank: the arena, the order of ops, the waits. Nothing is
 * allocated after sw_executor_create. Owns the arena; borrows device, comm and program. */
#ifndef SW_EXECUTE_H
#define SW_EXECUTE_H

#include "runner/collective/collective.h"
#include "runner/device/device.h"

struct sw_executor;

int sw_executor_create(const struct sw_program *program, struct sw_device *device,
                       struct sw_comm *comm, struct sw_executor **out, struct sw_error *err);
void sw_executor_free(struct sw_executor *executor);

/* Fills every parameter from the counter-based generator (init.h), zeroes the rest of the state. */
int sw_executor_init_parameters(struct sw_executor *executor, uint64_t seed, double stddev,
                                struct sw_error *err);

/* Gives the tokens, labels [micro_batch, sequence_length] of one micro-step over the whole mesh,
 * natural order, to this rank's inputs: called by the executor before each micro-step. This rank
 * asks only for rows [first_row, first_row + rows). */
typedef int (*sw_batch_function)(void *context, int64_t step, int32_t micro_step, int64_t first_row,
                                 int64_t rows, int32_t *tokens, int32_t *labels,
                                 struct sw_error *err);

/* One whole step. step->micro_step is set by the executor. loss and grad_norm may be NULL. */
int sw_executor_step(struct sw_executor *executor, struct sw_step *step, sw_batch_function batch,
                     void *context, double *loss, double *grad_norm, struct sw_error *err);

/* This rank's shard of a value's instance (host pointer on the CPU), for tests, checkpoints. */
void *sw_executor_value(struct sw_executor *executor, int32_t value, int32_t instance);
int64_t sw_executor_arena_bytes(const struct sw_executor *executor);

#endif
