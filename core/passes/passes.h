/* The passes in their order, and the sizes that follow from options. */
#ifndef SW_PASSES_H
#define SW_PASSES_H

#include "core/ir/builder.h"
#include "core/passes/retarget.h"

enum { SW_STATS_PER_SHARD = 3 }; /* lm_head_stats: max, sum of exponentials, label logit */

/* Values of the symbolic sizes under these options. */
struct sw_sizes {
    int64_t of[SW_SIZE_COUNT];
};
/* True if embedding and head are sharded by rows of the vocabulary, by the rule of SW_L_TABLE. */
bool sw_table_rows(const struct sw_program_options *options);
/* True if they are used as sharded, without a gather. */
bool sw_table_lies_where_used(const struct sw_program_options *options);
/* Bits that tell which copies of a trained parameter are sharded otherwise than another on that
 * mesh. Each bit is for `embed`; shifted by SW_DIFFERS_TABLE it is for `table`. */
enum sw_differs {
    SW_DIFFERS_WEIGHTS = 1,   /* weights of products, from masters */
    SW_DIFFERS_GRADIENTS = 2, /* gradients, from masters */
    SW_DIFFERS_TABLE = 2      /* bits */
};
uint8_t sw_placement_differs(const struct sw_program_options *options);
void sw_sizes_of(const struct sw_program_options *options, struct sw_sizes *out);
/* Sets the members of a program that depend on sizes, in which programs of one structure may
 * differ. */
void sw_sizes_apply(const struct sw_program_options *options, const struct sw_sizes *sizes,
                    struct sw_program *program);

/* Key of a training program before partition: as sw_program_structure, without the axes that split
 * values. */
void sw_program_logical_structure(const struct sw_program_options *options,
                                  struct sw_program_key *out);
/* Makes a program of that stage the one that `options`, of the same logical structure, would
 * give. */
void sw_program_retarget_logical(struct sw_program *program,
                                 const struct sw_program_options *options);

/* The passes; each returns a new program or changes one in place. 0 or -1. */
/* Opens the update region with the reduction of the step's loss. */
void sw_build_mean_loss(struct sw_builder *b);
int sw_differentiate(struct sw_builder *b, struct sw_error *err);
int sw_partition(const struct sw_program *logical, struct sw_program **out, struct sw_error *err);
int sw_schedule(struct sw_program *program, struct sw_error *err);
/* Lays out over that state (NULL: the program's own, in its order). */
int sw_layout(struct sw_program *program, const struct sw_state *state, struct sw_error *err);
/* Halves of layout. The first sets shapes for these sizes (NULL: unchanged), and the least arena
 * that could hold them; the second sets offsets. */
int sw_layout_measure(struct sw_program *program, const struct sw_sizes *sizes,
                      const struct sw_state *state, struct sw_error *err);
void sw_layout_assign_offsets(struct sw_program *program);
/* Ops with attributes that depend on sizes, and their number. NULL: not known yet, *count
 * unchanged. */
const int32_t *sw_layout_symbolic_ops(const struct sw_program *program, int32_t *count);

#endif
