#include "runner/checkpoint/finite.h"

#include "core/base/quantize.h"

#include <stdlib.h>

enum { PIECE_BYTES = 1 << 20 };

/* An exponent of ones alone: infinity or NaN. */
static bool all_finite(enum sw_dtype dtype, const void *numbers, int64_t count)
{
    int64_t others = 0;
    if (dtype == SW_F64)
        for (int64_t i = 0; i < count; i++)
            others += (~((const uint64_t *)numbers)[i] & UINT64_C(0x7ff0000000000000)) == 0;
    else if (dtype == SW_BF16_T)
        for (int64_t i = 0; i < count; i++)
            others += (~((const uint16_t *)numbers)[i] & 0x7f80u) == 0;
    else
        for (int64_t i = 0; i < count; i++)
            others += (~((const uint32_t *)numbers)[i] & UINT32_C(0x7f800000)) == 0;
    return others == 0;
}

/* *finite: of this rank's part of one tensor; `buffer` [PIECE_BYTES] is for a device's memory. */
static int look(struct sw_executor *x, const struct sw_state_row *row, int32_t instance,
                void *buffer, bool *finite, struct sw_error *err)
{
    struct sw_device *device = sw_executor_device(x);
    const char *from = sw_executor_state(x, row, instance);
    const int64_t width = (int64_t)sw_dtype_bytes(row->dtype);
    *finite = true;
    for (int64_t at = 0; at < row->instance_bytes && *finite; at += PIECE_BYTES) {
        const int64_t left = row->instance_bytes - at;
        const int64_t bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
        if (!device->vtable->in_host_memory &&
            device->vtable->copy_out(device, buffer, from + at, (size_t)bytes) != 0)
            return sw_fail(err, SW_ENVIRONMENT, "cannot read the weights from the device");
        *finite = all_finite(row->dtype, device->vtable->in_host_memory ? from + at : buffer,
                             bytes / width);
    }
    return 0;
}

/* Numbers in 8 bits are finite; where those that they were made of were not, their scale is NaN. */
static const struct sw_state_row *telling(const struct sw_state *state,
                                          const struct sw_state_row *row)
{
    return sw_has_scales(row->dtype) ? sw_state_scales(state, row) : row;
}

int sw_check_finite_loaded(struct sw_executor *x, const struct sw_placement *placement,
                           const char *folder, bool moments, struct sw_error *err)
{
    static const char *const of[] = {[SW_STORED_MODEL] = "",
                                     [SW_STORED_EXP_AVG] = "the optimizer's exp_avg of ",
                                     [SW_STORED_EXP_AVG_SQ] = "the optimizer's exp_avg_sq of "};
    const struct sw_state *state = &sw_executor_set(x)->state;
    void *buffer = malloc(PIECE_BYTES);
    int status =
        buffer != NULL ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory for checking weights");
    for (int32_t i = 0; i < placement->tensor_count && status == 0; i++) {
        const struct sw_stored_tensor *t = &placement->tensor[i];
        bool finite = true;
        status = look(x, telling(state, &state->row[t->row]), t->instance, buffer, &finite, err);
        if (!finite)
            status = sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = folder},
                                "%s'%s' has numbers that are not finite (NaN or infinity); use %s",
                                of[t->group], t->name,
                                moments ? "an earlier checkpoint" : "other weights");
    }
    free(buffer);
    return status;
}
