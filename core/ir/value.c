/* Sizes of types, values and operands. */
#include "core/ir/op.h"

#include "core/base/int4.h"

size_t sw_dtype_bytes(enum sw_dtype dtype)
{
    static const size_t bytes[SW_DTYPE_COUNT] = {
        [SW_F32] = 4, [SW_BF16_T] = 2, [SW_F64] = 8,   [SW_I32] = 4,
        [SW_I8] = 1,  [SW_E4M3] = 1,   [SW_CODES] = 1, [SW_I4] = 18};
    return bytes[dtype];
}

int64_t sw_dtype_group(enum sw_dtype dtype)
{
    return dtype == SW_I4 ? SW_INT4_GROUP : 1;
}

const char *sw_dtype_name(enum sw_dtype dtype)
{
    static const char *const names[SW_DTYPE_COUNT] = {
        [SW_F32] = "f32", [SW_BF16_T] = "bf16", [SW_F64] = "f64",  [SW_I32] = "i32",
        [SW_I8] = "i8",   [SW_E4M3] = "e4m3",   [SW_CODES] = "u8", [SW_I4] = "i4"};
    return names[dtype];
}

int64_t sw_value_group(const struct sw_program *program, const struct sw_value *value, uint8_t d)
{
    const struct sw_parameter *parameter = program->values[value->base].parameter;
    return d == sw_parameter_inputs(parameter) ? sw_dtype_group(value->dtype) : 1;
}

bool sw_role_is_state(enum sw_role role)
{
    return role == SW_ROLE_PARAMETER || role == SW_ROLE_OPTIMIZER || role == SW_ROLE_CACHE;
}

static int64_t instances(const struct sw_program *p, struct sw_ref ref)
{
    return ref.mode == SW_INDEX_WHOLE ? p->values[ref.value].stack : 1;
}

int64_t sw_ref_elems(const struct sw_program *p, struct sw_ref ref)
{
    return sw_value_local_elems(&p->values[ref.value]) * instances(p, ref);
}

int64_t sw_ref_bytes(const struct sw_program *p, struct sw_ref ref)
{
    return p->values[ref.value].slot_bytes * instances(p, ref);
}

int64_t sw_refs_bytes(const struct sw_program *p, const struct sw_ref *refs, uint16_t count)
{
    int64_t bytes = 0;
    for (uint16_t i = 0; i < count; i++)
        bytes += sw_ref_bytes(p, refs[i]);
    return bytes;
}

int64_t sw_operand_bytes(const struct sw_program *p, const struct sw_op *op)
{
    return sw_refs_bytes(p, op->in, op->n_in) + sw_refs_bytes(p, op->out, op->n_out);
}

double sw_tokens_of(const struct sw_program *p, struct sw_ref activation)
{
    const struct sw_value *value = &p->values[activation.value];
    return (double)value->local[0] * (double)value->local[1];
}

int64_t sw_value_local_elems(const struct sw_value *value)
{
    int64_t elems = 1;
    for (uint8_t d = 0; d < value->ndim; d++)
        elems *= value->local[d];
    return elems;
}
