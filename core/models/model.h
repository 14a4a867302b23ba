/* Parts that builders of models share: ops on logical values, by their names in papers. Internal to
 * core/models.
 *
 * Every function appends to the open region and returns the value it makes. A `struct sw_made`
 * describes that value: name, dimensions, instances. */
#ifndef SW_MODELS_MODEL_H
#define SW_MODELS_MODEL_H

#include "core/ir/builder.h"

struct sw_made {
    const char *name;
    const struct sw_dim *dims; /* [3]: batch, sequence, width */
    int32_t stack;
    bool listed; /* true if the name stands in layer_values.def: backward may keep the value */
};

/* Adds a parameter, one for each layer or one in all. declared: in static memory; trained: not
 * frozen. dims: sizes in numbers, of which SW_I4 stores blocks along the inputs. */
int32_t sw_build_parameter(struct sw_builder *b, const struct sw_parameter *declared,
                           enum sw_dtype dtype, uint8_t ndim, const struct sw_dim *dims,
                           bool trained);
/* Adds the scales of a parameter in 8 bits, which must be the last value made: they stand behind
 * it. outputs: the dimension of its results. */
void sw_build_scales(struct sw_builder *b, int32_t parameter, struct sw_dim outputs);
/* Adds the scales of a weight, if any, as the op's next operand. */
void sw_build_take_scales(struct sw_builder *b, int32_t op, int32_t weight);
/* Adds a copy of a parameter, the last value made, in the precision of compute. The copy is a
 * parameter too, and stands behind it. */
void sw_build_copy(struct sw_builder *b, int32_t parameter);
/* Shards the last value made, a trained parameter, as masters are. If products take weights
 * otherwise, adds the value that they read instead: gathered once in a step, or in a micro-step,
 * where first read. It stands behind the parameter. */
void sw_build_place(struct sw_builder *b, int32_t parameter);
/* Embedding or head as ops take them: split rows are gathered to the vocabulary's axes. */
int32_t sw_build_table(struct sw_builder *b, int32_t parameter);
/* Appends the op that looks tokens up, without its result. Rows are rounded as they are looked up;
 * a gathered table is rounded before, to be gathered in the compute precision. */
int32_t sw_build_lookup(struct sw_builder *b, int32_t tokens, int32_t parameter);
/* Weight matrix as products take it: the parameter itself (in serving in 8 bits too), or its cast
 * to the compute precision. */
int32_t sw_build_weight(struct sw_builder *b, int32_t parameter);
/* Appends an op with one or two operands (w -1: none) whose result has the compute precision. */
int32_t sw_build_apply(struct sw_builder *b, enum sw_op_kind kind, int32_t x, int32_t w);
int32_t sw_build_result(struct sw_builder *b, int32_t op, enum sw_dtype dtype, uint8_t ndim,
                        const struct sw_made *made);
/* Adds a value without an op that makes it. */
int32_t sw_build_value(struct sw_builder *b, enum sw_dtype dtype, uint8_t ndim,
                       const struct sw_made *made);

/* x W (transposed: x W^T), plus a bias; -1: none. */
int32_t sw_build_linear(struct sw_builder *b, bool transposed, int32_t x, int32_t w, int32_t bias,
                        struct sw_made made);
/* positions: of each token, or of slots. */
int32_t sw_build_rope(struct sw_builder *b, int32_t x, int32_t positions, bool slots,
                      struct sw_made made);
/* factor x; factor 0: x as it is. */
int32_t sw_build_scale(struct sw_builder *b, int32_t x, double factor, struct sw_made made);
/* Logits of n, with the model's softcap. */
int32_t sw_build_logits(struct sw_builder *b, int32_t n, int32_t table, enum sw_dtype dtype,
                        const struct sw_dim dims[3]);
int32_t sw_build_constrain(struct sw_builder *b, int32_t x, struct sw_made made);
/* Copies each kv head so that heads can be split. copies 1: x unchanged; the copies' ordinal is
 * still used up, so that ordinals are the same on all meshes. */
int32_t sw_build_replicate(struct sw_builder *b, int32_t x, int32_t copies, struct sw_made made);
/* Adds x and y into an existing value. */
void sw_build_add_into(struct sw_builder *b, struct sw_ref x, int32_t y, struct sw_ref into);

#endif
