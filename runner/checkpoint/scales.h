/* Scales of weights served in 8 bits (core/base/quantize.h), from the files' numbers: a matrix
 * output is a tensor row there, possibly spread over several ranks' parts. So parts are read twice,
 * first for each row's largest number. Owns its tables; borrows state and placement. */
#ifndef SW_CHECKPOINT_SCALES_H
#define SW_CHECKPOINT_SCALES_H

#include "core/checkpoint/exchange.h"
#include "runner/rank/execute.h"

struct sw_scales {
    int64_t *first; /* [tensors of the placement]: its rows' index in `value`; -1: none */
    enum sw_dtype dtype;
    float *value;  /* [count]: largest |x| so far; after sw_scales_settle scales */
    int64_t count; /* 0: no tensor in 8 bits */
};

/* Errors (SW_ENVIRONMENT): memory. */
int sw_scales_create(const struct sw_state *state, const struct sw_placement *placement,
                     struct sw_scales *out, struct sw_error *err);
void sw_scales_free(struct sw_scales *scales); /* may be zeroed */

/* Takes the numbers of a stretch at `data`. Several threads may call it at once. */
void sw_scales_meet(struct sw_scales *scales, const struct sw_exchange *exchange,
                    const struct sw_stretch *stretch, const char *data);
/* Turns the largest numbers, over all ranks, into scales. */
void sw_scales_settle(struct sw_scales *scales);
/* Stores this rank's scales in their state rows. Errors (SW_ENVIRONMENT): memory, the device's. */
int sw_scales_store(const struct sw_scales *scales, const struct sw_exchange *exchange,
                    struct sw_executor *executor, struct sw_error *err);

/* True if a scale of that tensor is NaN: it has a number that is not finite. */
bool sw_scales_show_nan(const struct sw_scales *scales, const struct sw_placement *placement,
                        int32_t tensor);

/* Scales of a tensor's rows; NULL: not in 8 bits. */
static inline const float *sw_scales_of(const struct sw_scales *scales, int32_t tensor)
{
    return scales == NULL || scales->count == 0 || scales->first[tensor] < 0
               ? NULL
               : scales->value + scales->first[tensor];
}

#endif
