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

/* The bytes of this rank's shard of an instance that are of that tensor: of the matrices of a stack
 * that it has; else all. */
static void find_bytes(const struct sw_executor *x, const struct sw_stored_tensor *t,
                       const struct sw_state_row *row, int64_t *begin, int64_t *end)
{
    *begin = 0;
    *end = row->instance_bytes;
    if (!sw_stored_is_of_stack(t, row))
        return;
    const struct sw_comm *comm = sw_executor_comm(x);
    const int64_t held = row->local[0], each = row->instance_bytes / held;
    const int64_t first =
        t->first_matrix - held * sw_axes_index(&comm->mesh, row->sharding.spec.dim[0], comm->rank);
    const int64_t last = first + t->matrices;
    *begin = each * (first < 0 ? 0 : first);
    *end = each * (last > held ? held : last);
}

/* *finite: of this rank's part of one tensor; `buffer` [PIECE_BYTES] is for a device's memory. */
static int look(struct sw_executor *x, const struct sw_stored_tensor *t,
                const struct sw_state_row *row, void *buffer, bool *finite, struct sw_error *err)
{
    struct sw_device *device = sw_executor_device(x);
    const char *from = sw_executor_state(x, row, t->instance);
    const int64_t width = (int64_t)sw_dtype_bytes(row->dtype);
    int64_t begin, end;
    find_bytes(x, t, row, &begin, &end);
    *finite = true;
    for (int64_t at = begin; at < end && *finite; at += PIECE_BYTES) {
        const int64_t left = end - at;
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
        if (t->dtype == SW_STORED_U8) /* what they are multiplied with is looked at */
            continue;
        status = look(x, t, telling(state, &state->row[t->row]), buffer, &finite, err);
        if (!finite)
            status = sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = folder},
                                "%s'%s' has numbers that are not finite (NaN or infinity); use %s",
                                of[t->group], t->name,
                                moments ? "an earlier checkpoint" : "other weights");
    }
    free(buffer);
    return status;
}
