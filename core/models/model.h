/* What builders of models share: ops on logical values, by what they are called in papers. Internal
 * to core/models.
 *
 * Every function appends to the open region and returns the value it makes. A `struct sw_made` says
 * what that value is: name, dimensions, instances. */
#ifndef SW_MODELS_MODEL_H
#define SW_MODELS_MODEL_H

#include "core/ir/builder.h"

struct sw_made {
    const char *name;
    const struct sw_dim *dims; /* [3]: batch, sequence, width */
    int32_t stack;
    bool listed; /* true if layer_values.def has the name: backward may keep it */
};

/* A parameter, of each layer or once. declared: in static memory; trained: not frozen. dims: of its
 * numbers, which SW_I4 has blocks of along the inputs. */
int32_t sw_build_parameter(struct sw_builder *b, const struct sw_parameter *declared,
                           enum sw_dtype dtype, uint8_t ndim, const struct sw_dim *dims,
                           bool trained);
/* The scales of a parameter in 8 bits, which is the last value that was made: they stand behind it.
 * outputs: the dimension of its results. */
void sw_build_scales(struct sw_builder *b, int32_t parameter, struct sw_dim outputs);
/* The scales of a weight that products take as it is, if it has some: the op's next operand. */
void sw_build_take_scales(struct sw_builder *b, int32_t op, int32_t weight);
/* A copy of a parameter in the precision of compute, which lasts as it does: a parameter as well,
 * which stands behind it. The parameter is the last value that was made. */
void sw_build_copy(struct sw_builder *b, int32_t parameter);
/* Lets the last value that was made, a parameter that is trained, lie where masters do, and makes
 * what products read in its place if they take weights otherwise: gathered once in a step, or in a
 * micro-step, where it is first read. Such a value stands behind the parameter. */
void sw_build_place(struct sw_builder *b, int32_t parameter);
/* Embedding or head as ops take them: rows that lie split are gathered to the vocabulary's axes. */
int32_t sw_build_table(struct sw_builder *b, int32_t parameter);
/* The op that looks tokens up, without its result. Where the table is not gathered, which it is in
 * the compute precision, rows are rounded as they are looked up, not the table before. */
int32_t sw_build_lookup(struct sw_builder *b, int32_t tokens, int32_t parameter);
/* A weight matrix as products take it: the parameter itself, in serving in 8 bits, too, or its cast
 * to the compute precision. */
int32_t sw_build_weight(struct sw_builder *b, int32_t parameter);
/* Op with one or two operands (w -1: none) of the compute precision's result. */
int32_t sw_build_apply(struct sw_builder *b, enum sw_op_kind kind, int32_t x, int32_t w);
int32_t sw_build_result(struct sw_builder *b, int32_t op, enum sw_dtype dtype, uint8_t ndim,
                        const struct sw_made *made);
/* A value that no op makes yet. */
int32_t sw_build_value(struct sw_builder *b, enum sw_dtype dtype, uint8_t ndim,
                       const struct sw_made *made);

/* x W (transposed: x W^T), and a bias, -1: none. */
int32_t sw_build_linear(struct sw_builder *b, bool transposed, int32_t x, int32_t w, int32_t bias,
                        struct sw_made made);
/* positions: of each token, or those that slots have. */
int32_t sw_build_rope(struct sw_builder *b, int32_t x, int32_t positions, bool slots,
                      struct sw_made made);
/* factor x; factor 0: x as it is. */
int32_t sw_build_scale(struct sw_builder *b, int32_t x, double factor, struct sw_made made);
/* Logits of n, by the model's softcap. */
int32_t sw_build_logits(struct sw_builder *b, int32_t n, int32_t table, enum sw_dtype dtype,
                        const struct sw_dim dims[3]);
int32_t sw_build_constrain(struct sw_builder *b, int32_t x, struct sw_made made);
/* Copies of each kv head so that heads can be split; copies 1: x as it is, with an ordinal for the
 * copies all the same, so that ordinals are the model's. */
int32_t sw_build_replicate(struct sw_builder *b, int32_t x, int32_t copies, struct sw_made made);
/* x + y into a value that exists already. */
void sw_build_add_into(struct sw_builder *b, struct sw_ref x, int32_t y, struct sw_ref into);

#endif
