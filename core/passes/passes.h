/* The passes in their order, and the sizes that options come to. */
#ifndef SW_PASSES_H
#define SW_PASSES_H

#include "core/ir/builder.h"
#include "core/passes/retarget.h"

enum { SW_STATS_PER_SHARD = 3 }; /* lm_head_stats: max, sum of exponentials, label logit */

/* What the symbolic sizes are under these options. */
struct sw_sizes {
    int64_t of[SW_SIZE_COUNT];
};
/* True if embedding and head lie by rows of the vocabulary, as rules say of SW_L_TABLE. */
bool sw_table_rows(const struct sw_program_options *options);
/* True if they are used in the shards in which they lie. */
bool sw_table_lies_where_used(const struct sw_program_options *options);
/* Where the copies of a trained parameter lie otherwise than another on that mesh, bit by bit. Each
 * pair is of `embed`, and shifted by SW_DIFFERS_TABLE of `table`. */
enum sw_differs {
    SW_DIFFERS_WEIGHTS = 1,   /* products take weights otherwise than masters lie */
    SW_DIFFERS_GRADIENTS = 2, /* gradients lie otherwise than masters */
    SW_DIFFERS_TABLE = 2      /* bits */
};
uint8_t sw_placement_differs(const struct sw_program_options *options);
void sw_sizes_of(const struct sw_program_options *options, struct sw_sizes *out);
/* Gives the program what depends on these, which programs of one structure may differ in. */
void sw_sizes_apply(const struct sw_program_options *options, const struct sw_sizes *sizes,
                    struct sw_program *program);

/* Of training: as sw_program_structure, of the program before it is partitioned, which does not
 * depend on what is split over which axes. */
void sw_program_logical_structure(const struct sw_program_options *options,
                                  struct sw_program_key *out);
/* Makes a program of that stage the one that `options`, of its logical structure, would give. */
void sw_program_retarget_logical(struct sw_program *program,
                                 const struct sw_program_options *options);

/* The passes; each returns a new program or changes it in place. 0 or -1. */
/* Opens the update region with the reduction of the step's loss. */
void sw_build_mean_loss(struct sw_builder *b);
int sw_differentiate(struct sw_builder *b, struct sw_error *err);
int sw_partition(const struct sw_program *logical, struct sw_program **out, struct sw_error *err);
int sw_schedule(struct sw_program *program, struct sw_error *err);
/* Over that state (NULL: the program's own, in its order). */
int sw_layout(struct sw_program *program, const struct sw_state *state, struct sw_error *err);
/* Its halves. Shapes, for these sizes (NULL: as they are), and the least arena that could hold
 * them. Then offsets. */
int sw_layout_measure(struct sw_program *program, const struct sw_sizes *sizes,
                      const struct sw_state *state, struct sw_error *err);
void sw_layout_assign_offsets(struct sw_program *program);
/* Ops with attributes that follow from sizes, and how many. NULL: not known yet, *count stays. */
const int32_t *sw_layout_symbolic_ops(const struct sw_program *program, int32_t *count);

#endif
