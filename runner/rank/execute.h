/* Executes the laid-out programs of a set on one rank, over one arena: the order of ops, the waits.
 * Nothing is allocated after sw_executor_create, and going from one program to another moves
 * nothing. Owns the arena; borrows device, comm and the programs.
 *
 * Of the arena only the state lasts from call to call. What lies behind it is nobody's between two
 * calls: the next one, or a save (checkpoint/move.h), writes over it. So every call writes all
 * inputs of its program, and reads nothing that an earlier one left. */
#ifndef SW_EXECUTE_H
#define SW_EXECUTE_H

#include "core/programs/program_set.h"
#include "runner/collective/collective.h"
#include "runner/device/device.h"

struct sw_executor;

struct sw_executor_options {
    /* For tests: each call begins by filling the arena behind the state with SW_POISON, so that
     * whatever relies on what lay there shows. */
    bool poisons;
};
enum { SW_POISON = 0xff }; /* of every byte: NaN in every float, -1 in every integer */

/* options: NULL: none. */
int sw_executor_create(const struct sw_program_set *set, struct sw_device *device,
                       struct sw_comm *comm, const struct sw_executor_options *options,
                       struct sw_executor **out, struct sw_error *err);
void sw_executor_free(struct sw_executor *executor);

/* Of an executor that ran nothing yet: makes the whole state what it starts as, parameters of
 * `normal` from the counter-based generator (init.h), everything else by its row. What begins as
 * zeros is not written: the arena's memory is zeroed. */
int sw_executor_init_state(struct sw_executor *executor, uint64_t seed, double stddev,
                           struct sw_error *err);
/* The same for the rows that are read from files of one origin (enum sw_origin), and nothing that
 * follows from them. */
int sw_executor_init_rows(struct sw_executor *executor, uint64_t seed, double stddev,
                          int32_t origin, struct sw_error *err);
/* Makes what follows from the state's numbers, after these were written, once: copies of weights,
 * and the layout of those that lie in tiles and were written as they are declared. tiled: bit o:
 * those of origin o (enum sw_origin) already lie in tiles. Errors: memory for one of them, the
 * device's. */
int sw_executor_settle_state(struct sw_executor *executor, unsigned tiled, struct sw_error *err);

/* What an input's reader is asked for: rows [first_row, first_row + rows) of the input as it is
 * over the whole mesh. An input of one dimension is one row. */
struct sw_ask {
    const char *name;
    const struct sw_step *step; /* and its micro-step */
    int64_t first_row, rows, row_elems;
};
typedef int (*sw_feed_reader)(void *context, const struct sw_ask *ask, void *to,
                              struct sw_error *err);

/* An input of a program, by name. It comes row-major in the input's dtype, in natural order; each
 * rank takes its part, and stores a sequence in the order of its layout (sequence.h). */
struct sw_feed {
    const char *name;
    /* All of it, the same on every rank. NULL, and no reader: what else is fed says that no op
     * looks at it; it holds anything */
    const void *data;
    size_t bytes; /* of data, if any: must be those of the input */
    size_t used;  /* of data: leading bytes of each row that any op looks at; 0: all. Columns are
                     whole */
    /* Or whoever is asked anew before each micro-step, for the rows that this rank needs but those
     * behind the step's batch, whose every byte is `padding` */
    sw_feed_reader read;
    void *context;
    int padding;
};
/* An output, complete when a run is, that every rank has all of. */
struct sw_fetch {
    const char *name;
    void *data;
    size_t bytes;
    double *number; /* not NULL: the output is a scalar, whose value goes here; data is not used */
    /* Not NULL: what the program's exchange (`save`) brings this rank, round by round. Is called in
     * place of the op, which is over when it returns (checkpoint/move.h); nothing else is used */
    int (*round)(void *context, int32_t round, struct sw_error *err);
    void *context;
};

/* Collective. Runs a program of the set once, all its passes (core/ir/walk.h). step: what its
 * ops read of the step; micro_step is the executor's. NULL: none of them reads it. Errors
 * (SW_ENVIRONMENT): the set has no such program; an input that is not fed, a feed of another size;
 * the program has no such output; nobody fetches its exchange. */
int sw_executor_run(struct sw_executor *executor, enum sw_program_kind program,
                    const struct sw_step *step, const struct sw_feed *feeds, int32_t feed_count,
                    const struct sw_fetch *fetches, int32_t fetch_count, struct sw_error *err);
/* The same of a size of the program (sw_program_set_size). */
int sw_executor_run_size(struct sw_executor *executor, enum sw_program_kind program, int32_t size,
                         const struct sw_step *step, const struct sw_feed *feeds,
                         int32_t feed_count, const struct sw_fetch *fetches, int32_t fetch_count,
                         struct sw_error *err);

/* What may be run inside another program's run: `decode`, of a set with decode_shift_bytes. Errors
 * end that run, too. */
typedef int (*sw_pause)(void *context, struct sw_error *err);
/* The next run, of a program that is not recorded, calls `pause` between its ops: on one rank
 * behind each of them, on several behind each iteration of a region, when no message is under way.
 * So all ranks call it as often. */
void sw_executor_pause(struct sw_executor *executor, sw_pause pause, void *context);

/* This rank's shard of a tensor's instance (host pointer on the CPU): of the state by its row, or
 * of a program by its value. */
void *sw_executor_state(struct sw_executor *executor, const struct sw_state_row *row,
                        int32_t instance);
void *sw_executor_value(struct sw_executor *executor, const struct sw_program *program,
                        int32_t value, int32_t instance);
/* The scratch of `save`'s exchange, of the bytes that its layout says (sw_op.workspace_bytes); a
 * device pointer, as the others; good in its rounds and between two runs. NULL: the set has no such
 * program. */
void *sw_executor_workspace(struct sw_executor *executor);
int64_t sw_executor_arena_bytes(const struct sw_executor *executor);

/* What it was made with. */
const struct sw_program_set *sw_executor_set(const struct sw_executor *executor);
struct sw_device *sw_executor_device(const struct sw_executor *executor);
struct sw_comm *sw_executor_comm(const struct sw_executor *executor);

#endif
