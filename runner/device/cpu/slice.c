/* Copies a part of a tensor, in any precision. */
#include "runner/device/cpu/cpu.h"

#include <string.h>

int sw_cpu_slice(const struct sw_call *call, struct sw_error *err)
{
    const struct sw_tensor *in = &call->in[0], *out = &call->out[0];
    if (in->ndim != out->ndim || in->dtype != out->dtype)
        return sw_fail(err, SW_ENVIRONMENT, "slice between tensors of different kinds");
    /* four dimensions, leading ones of size 1 */
    int64_t from[SW_MAX_DIMS], to[SW_MAX_DIMS], offset[SW_MAX_DIMS];
    const int missing = SW_MAX_DIMS - in->ndim;
    for (int d = 0; d < SW_MAX_DIMS; d++) {
        from[d] = d < missing ? 1 : in->size[d - missing];
        to[d] = d < missing ? 1 : out->size[d - missing];
        offset[d] = d < missing ? 0 : out->start[d - missing] - in->start[d - missing];
        if (offset[d] < 0 || offset[d] + to[d] > from[d])
            return sw_fail(err, SW_ENVIRONMENT, "slice outside of its operand");
    }
    const size_t element = sw_dtype_bytes(in->dtype);
    const size_t row = (size_t)to[3] * element;
    char *destination = out->data;
    for (int64_t i = 0; i < to[0]; i++)
        for (int64_t j = 0; j < to[1]; j++)
            for (int64_t k = 0; k < to[2]; k++, destination += row) {
                const int64_t index =
                    ((offset[0] + i) * from[1] + offset[1] + j) * from[2] + offset[2] + k;
                memcpy(destination,
                       (const char *)in->data + (size_t)(index * from[3] + offset[3]) * element,
                       row);
            }
    return 0;
}
