#include "runner/calibrate/fill.h"

#include "core/base/number.h"

#include <stdlib.h>

enum { FILL_BYTES = 1 << 20 };

static void make_values(void *fill, enum sw_dtype dtype)
{
    const int32_t count = FILL_BYTES / (int32_t)sw_dtype_bytes(dtype);
    for (int32_t i = 0; i < count; i++) {
        const uint32_t draw = (uint32_t)((uint64_t)i * 0x9e3779b97f4a7c15u >> 32);
        const float value = ((float)(draw >> 8) * 0x1p-24f - 0.5f) * 0.06f;
        if (dtype == SW_BF16_T)
            ((uint16_t *)fill)[i] = sw_bf16_from_float(value);
        else
            ((float *)fill)[i] = value;
    }
}

int sw_calibrate_fill(struct sw_device *device, void *to, int64_t bytes, enum sw_dtype dtype,
                      struct sw_error *err)
{
    void *fill = malloc(FILL_BYTES);
    int failed = fill == NULL;
    if (!failed)
        make_values(fill, dtype);
    for (int64_t at = 0; at < bytes && !failed; at += FILL_BYTES) {
        const int64_t left = bytes - at;
        failed = device->vtable->copy_in(device, (char *)to + at, fill,
                                         (size_t)(left < FILL_BYTES ? left : FILL_BYTES)) != 0;
    }
    free(fill);
    return failed ? sw_fail(err, SW_ENVIRONMENT, "cannot fill what is timed with values") : 0;
}
