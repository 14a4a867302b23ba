/* Executes a set's laid-out programs on one rank, over one arena: the order of ops, and the waits.
 * Allocates only in sw_executor_create; switching programs moves no data. Owns the arena; borrows
 * device, comm and programs.
 *
 * Only the state persists in the arena between calls. The rest may be overwritten by the next call
 * or a save (checkpoint/move.h). So every call writes all inputs of its program and reads nothing
 * that an earlier one left. */
#ifndef SW_EXECUTE_H
#define SW_EXECUTE_H

#include "core/programs/program_set.h"
#include "runner/collective/collective.h"
#include "runner/device/device.h"

struct sw_executor;

struct sw_executor_options {
    /* For tests: true to fill the arena after the state with SW_POISON at each call, so that code
     * that relies on old contents fails. */
    bool poisons;
};
enum { SW_POISON = 0xff }; /* a byte value: NaN in every float, -1 in every integer */

/* options: NULL: none. */
int sw_executor_create(const struct sw_program_set *set, struct sw_device *device,
                       struct sw_comm *comm, const struct sw_executor_options *options,
                       struct sw_executor **out, struct sw_error *err);
void sw_executor_free(struct sw_executor *executor);

/* Initialises the whole state of an executor that ran nothing: `normal` parameters from the
 * counter-based generator (init.h), others by their row. Skips zeros: the arena's memory is
 * zeroed. */
int sw_executor_init_state(struct sw_executor *executor, uint64_t seed, double stddev,
                           struct sw_error *err);
/* sw_executor_init_state for rows read from files of one origin (enum sw_origin), without rows
 * derived from them. */
int sw_executor_init_rows(struct sw_executor *executor, uint64_t seed, double stddev,
                          int32_t origin, struct sw_error *err);
/* Derives, once after the state was written, copies of weights, and tiles weights written untiled.
 * tiled: bit o: weights of origin o (enum sw_origin) are already tiled. Errors: memory, the
 * device's. */
int sw_executor_settle_state(struct sw_executor *executor, unsigned tiled, struct sw_error *err);

/* Request to an input's reader: rows [first_row, first_row + rows) of the whole mesh's input. An
 * input of one dimension is one row. */
struct sw_ask {
    const char *name;
    const struct sw_step *step; /* with micro_step set */
    int64_t first_row, rows, row_elems;
};
typedef int (*sw_feed_reader)(void *context, const struct sw_ask *ask, void *to,
                              struct sw_error *err);

/* An input of a program, by name: row-major in the input's dtype, in natural order. Each rank takes
 * its part, and stores a sequence in its layout's order (sequence.h). */
struct sw_feed {
    const char *name;
    /* The whole input, the same on every rank. NULL without a reader: no op reads it, as other
     * inputs tell; its contents are undefined */
    const void *data;
    size_t bytes; /* size of data; must be the input's */
    size_t used;  /* leading bytes of each row of data that ops read; 0: all. Columns are whole */
    /* A reader instead, called before each micro-step for this rank's rows; rows behind the step's
     * batch are filled with `padding` */
    sw_feed_reader read;
    void *context;
    int padding;
};
/* An output complete after the run, present in full on every rank. */
struct sw_fetch {
    const char *name;
    void *data;
    size_t bytes;
    double *number; /* not NULL: takes a scalar output's value; data is unused */
    /* Not NULL: called for each round of the program's exchange (`save`), in place of the op, which
     * ends when it returns (checkpoint/move.h); other members are unused */
    int (*round)(void *context, int32_t round, struct sw_error *err);
    void *context;
};

/* Collective. Runs a program of the set once, all its passes (core/ir/walk.h). step: for the ops,
 * micro_step being set by the executor; NULL: no op reads it. Errors (SW_ENVIRONMENT): no such
 * program; a missing input, or a feed of another size; no such output; no fetch for its
 * exchange. */
int sw_executor_run(struct sw_executor *executor, enum sw_program_kind program,
                    const struct sw_step *step, const struct sw_feed *feeds, int32_t feed_count,
                    const struct sw_fetch *fetches, int32_t fetch_count, struct sw_error *err);
/* sw_executor_run in one of the program's sizes (sw_program_set_size). */
int sw_executor_run_size(struct sw_executor *executor, enum sw_program_kind program, int32_t size,
                         const struct sw_step *step, const struct sw_feed *feeds,
                         int32_t feed_count, const struct sw_fetch *fetches, int32_t fetch_count,
                         struct sw_error *err);

/* Runs another program within a run: `decode`, of a set with decode_shift_bytes. Errors end the run
 * too. */
typedef int (*sw_pause)(void *context, struct sw_error *err);
/* Makes the next run, on one rank and of a program that is not recorded, call `pause` after each
 * op. */
void sw_executor_pause(struct sw_executor *executor, sw_pause pause, void *context);

/* This rank's shard of a tensor's instance (host pointer on the CPU): a state row; below, a
 * program's value. */
void *sw_executor_state(struct sw_executor *executor, const struct sw_state_row *row,
                        int32_t instance);
void *sw_executor_value(struct sw_executor *executor, const struct sw_program *program,
                        int32_t value, int32_t instance);
/* Scratch of `save`'s exchange, with its layout's sw_op.workspace_bytes; a device pointer like the
 * others; valid in its rounds and between runs. NULL: no such program. */
void *sw_executor_workspace(struct sw_executor *executor);
int64_t sw_executor_arena_bytes(const struct sw_executor *executor);

/* Arguments of sw_executor_create. */
const struct sw_program_set *sw_executor_set(const struct sw_executor *executor);
struct sw_device *sw_executor_device(const struct sw_executor *executor);
struct sw_comm *sw_executor_comm(const struct sw_executor *executor);

#endif
