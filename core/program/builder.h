/* Internal to core/program: growing a program's arrays, and the passes in their order.
 *
 * Every addition may move the arrays of values, ops and regions: hold indices, not pointers, across
 * calls; an op's operands stay where they are. Running out of memory is sticky (`failed`) and
 * checked once at the end of a pass; until then additions go to the first element, which always
 * exists. */
#ifndef SW_PROGRAM_BUILDER_H
#define SW_PROGRAM_BUILDER_H

#include "core/program/op.h"
#include "core/program/state_table.h"

enum { SW_STATS_PER_SHARD = 3 }; /* lm_head_stats: max, sum of exponentials, label logit */

struct sw_builder {
    struct sw_program *program;
    const struct sw_program_options *options;
    bool failed;
    int32_t region; /* the open one, -1: none */
};

struct sw_dim {
    enum sw_logical axis;
    int64_t size, unit;
    enum sw_size symbol;
};

/* The name of a version is its value's and what was done to it: of several values of one name, all
 * but the first are numbered. -1: no memory. */
int sw_builder_number_names(struct sw_program *program);
/* At most first_max bytes of first, then at most second_max of second; together less than the name.
 * first may be the name itself. */
void sw_builder_name(char out[SW_NAME_BYTES], const char *first, size_t first_max,
                     const char *second, size_t second_max);
int32_t sw_builder_value(struct sw_builder *b, const char *name, enum sw_role role,
                         enum sw_dtype dtype, uint8_t ndim, const struct sw_dim *dims,
                         int32_t stack);
/* A copy of value `like` under another name, as a fresh activation of that dtype. */
int32_t sw_builder_value_like(struct sw_builder *b, int32_t like, const char *prefix,
                              enum sw_dtype dtype, int32_t stack);
/* That, with an instance for each iteration of the open region. */
int32_t sw_builder_value_here(struct sw_builder *b, int32_t like, const char *prefix,
                              enum sw_dtype dtype);
/* Gives the value an instance for each iteration of the region. */
void sw_builder_instances(const struct sw_region *region, struct sw_value *value);
/* Appends an op to the open region and returns its index. */
int32_t sw_builder_op(struct sw_builder *b, enum sw_op_kind kind, enum sw_op_stage stage);
/* Appends an op that was detached. */
int32_t sw_builder_add(struct sw_builder *b, const struct sw_op *op);
/* Gives a copy of an op operands of its own in this program. */
void sw_builder_detach(struct sw_builder *b, struct sw_op *op);
void sw_builder_region(struct sw_builder *b, const char *name, enum sw_phase phase, int32_t repeat,
                       bool reverse);
/* One that runs the layers of `like`. */
void sw_builder_region_like(struct sw_builder *b, const char *name, enum sw_phase phase,
                            const struct sw_region *like, bool reverse);
/* Opens a forward region of that part of the layers. */
void sw_builder_layers(struct sw_builder *b, const char *name, enum sw_layer_part part);
void sw_builder_in(struct sw_builder *b, int32_t op, struct sw_ref ref);
void sw_builder_out(struct sw_builder *b, int32_t op, struct sw_ref ref);
/* Appends to one of an op's lists; the op need not be of the program yet. -1: out of memory. */
int sw_refs_append(struct sw_program *p, struct sw_ref **refs, uint16_t *count, struct sw_ref ref);
void sw_builder_port(struct sw_builder *b, struct sw_ports *ports, const char *name, int32_t value);
/* How the open region names the instance of `value` at hand: its layer's, or the only one. */
struct sw_ref sw_builder_ref(const struct sw_builder *b, int32_t value);
struct sw_program *sw_program_new(void);
/* Copies everything but ops and regions: the start of the next stage. */
struct sw_program *sw_program_next_stage(const struct sw_program *from);

enum sw_dtype sw_accumulate_dtype(enum sw_dtype compute); /* f64 stays, everything else f32 */

/* In how many of the first layers, and no others, these options make values again: 0 where all
 * layers are alike. */
int32_t sw_first_layers(const struct sw_program_options *options);

/* What the symbolic sizes are under these options. */
struct sw_sizes {
    int64_t of[SW_SIZE_COUNT];
};
/* Whether embedding and head lie by rows of the vocabulary, as rules say of SW_L_TABLE. */
bool sw_table_rows(const struct sw_program_options *options);
/* Whether they are used in the shards in which they lie. */
bool sw_table_lies_where_used(const struct sw_program_options *options);
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
void sw_layout_place(struct sw_program *program);
/* Ops with attributes that follow from sizes, and how many. NULL: not known yet, *count stays. */
const int32_t *sw_layout_symbolic_ops(const struct sw_program *program, int32_t *count);
void sw_lifetimes_free(struct sw_lifetimes *lifetimes); /* may be NULL */

/* For VJP rules. The cotangent of an op's result, which is present; an operand or result of forward
 * as backward has it, perhaps made again. */
struct sw_ref sw_autodiff_cotangent(struct sw_autodiff *a, struct sw_ref out);
struct sw_ref sw_autodiff_use(struct sw_autodiff *a, struct sw_ref primal);
/* Whether the cotangent of an op's operand is wanted: rules leave out what makes no other. */
bool sw_autodiff_wants(const struct sw_autodiff *a, struct sw_ref primal);
int32_t sw_autodiff_op(struct sw_autodiff *a, enum sw_op_kind kind);
void sw_autodiff_in(struct sw_autodiff *a, int32_t op, struct sw_ref ref);
/* Makes a fresh value shaped as `primal`'s, the op's next result, and contributes it to primal's
 * cotangent. */
void sw_autodiff_out(struct sw_autodiff *a, int32_t op, struct sw_ref primal);
/* Passes an existing value on as cotangent of `primal`. */
void sw_autodiff_contribute(struct sw_autodiff *a, struct sw_ref primal, struct sw_ref cotangent);
struct sw_op *sw_autodiff_get(struct sw_autodiff *a, int32_t op);

/* For rows with a lowering of their own: appends what ranks do for an op on logical values, which
 * need not be of the logical program; as its row says, or by the claims of its factors. */
int sw_partition_op(struct sw_partition *partition, const struct sw_op *op);
int sw_partition_claims(struct sw_partition *partition, const struct sw_op *op);
int sw_partition_constrain(struct sw_partition *partition, const struct sw_op *op);
int sw_partition_accumulate(struct sw_partition *partition, const struct sw_op *op);
const struct sw_program *sw_partition_logical(const struct sw_partition *partition);

#endif
