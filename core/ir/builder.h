/* Growing a program's arrays. Internal to the rooms that make programs: core/ir, passes, ops,
 * models, checkpoint, programs.
 *
 * Every addition may move the arrays of values, ops and regions: hold indices, not pointers, across
 * calls; an op's operands stay where they are. Running out of memory is sticky (`failed`) and
 * checked once at the end of a pass; until then additions go to the first element, which always
 * exists. */
#ifndef SW_IR_BUILDER_H
#define SW_IR_BUILDER_H

#include "core/ir/op.h"
#include "core/ir/options.h"
#include "core/ir/state_table.h"

struct sw_builder {
    struct sw_program *program;
    const struct sw_program_options *options;
    bool failed;
    int32_t region;   /* index of the open region; -1: none */
    uint8_t position; /* layer position in the period, for ops that are added */
};

struct sw_dim {
    enum sw_logical axis;
    int64_t size, unit;
    enum sw_size symbol;
};

/* Numbers the values of one name, all but the first, so that each version of a value has a name of
 * its own. -1: no memory. */
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
/* sw_builder_value_like with one instance for each layer at this position of the open region. */
int32_t sw_builder_value_here(struct sw_builder *b, int32_t like, const char *prefix,
                              enum sw_dtype dtype);
/* Declares a value that is shaped like a parameter sharded as that copy of a parameter is. */
void sw_builder_place_as(struct sw_builder *b, int32_t value, enum sw_parameter_copy copy);
/* Gives the value an instance for each layer of the region at that position. */
void sw_builder_instances(const struct sw_region *region, int32_t position, struct sw_value *value);
/* Appends an op to the open region and returns its index. */
int32_t sw_builder_op(struct sw_builder *b, enum sw_op_kind kind, enum sw_op_stage stage);
/* Appends an op that was detached. */
int32_t sw_builder_add(struct sw_builder *b, const struct sw_op *op);
/* Gives an op's copy operands of its own in this program. */
void sw_builder_detach(struct sw_builder *b, struct sw_op *op);
void sw_builder_region(struct sw_builder *b, const char *name, enum sw_phase phase, int32_t repeat,
                       bool reverse);
/* Opens a region over the same layers as `like`. */
void sw_builder_region_like(struct sw_builder *b, const char *name, enum sw_phase phase,
                            const struct sw_region *like, bool reverse);
/* Opens a forward region over that part of the layers. */
void sw_builder_layers(struct sw_builder *b, const char *name, enum sw_layer_part part);
void sw_builder_in(struct sw_builder *b, int32_t op, struct sw_ref ref);
void sw_builder_out(struct sw_builder *b, int32_t op, struct sw_ref ref);
/* Appends to one of an op's lists; the op need not be of the program yet. -1: out of memory. */
int sw_refs_append(struct sw_program *p, struct sw_ref **refs, uint16_t *count, struct sw_ref ref);
void sw_builder_port(struct sw_builder *b, struct sw_ports *ports, const char *name, int32_t value);
/* Reference to the current layer's instance of `value`, or to its only instance. */
struct sw_ref sw_builder_ref(const struct sw_builder *b, int32_t value);
struct sw_program *sw_program_new(void);
/* Copies everything but ops and regions: the start of the next stage. */
struct sw_program *sw_program_next_stage(const struct sw_program *from);

enum sw_dtype sw_accumulate_dtype(enum sw_dtype compute); /* f64 for f64, else f32 */

/* Number of first layers that these options recompute more than the others; 0: all layers are
 * alike. */
int32_t sw_first_layers(const struct sw_program_options *options);

void sw_lifetimes_free(struct sw_lifetimes *lifetimes); /* may be NULL */

#endif
