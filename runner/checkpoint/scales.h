/* The scales of weights that are served in 8 bits (core/base/quantize.h), from the numbers of the
 * files: an output of a matrix is a row of its tensor there, whose numbers may be of several ranks'
 * parts. So parts are read twice, first for the largest number of every row. Owns its tables;
 * borrows state and placement. */
#ifndef SW_CHECKPOINT_SCALES_H
#define SW_CHECKPOINT_SCALES_H

#include "core/checkpoint/exchange.h"
#include "runner/rank/execute.h"

struct sw_scales {
    int64_t *first; /* [tensors of the placement]: of its rows in `value`; -1: not in 8 bits */
    enum sw_dtype dtype;
    float *value;  /* [count]: the largest |x| so far; once settled scales */
    int64_t count; /* 0: nothing is in 8 bits */
};

/* Errors (SW_ENVIRONMENT): memory. */
int sw_scales_create(const struct sw_state *state, const struct sw_placement *placement,
                     struct sw_scales *out, struct sw_error *err);
void sw_scales_free(struct sw_scales *scales); /* also a zeroed one */

/* The numbers of a stretch of an owner's stream, at `data`. Several threads may meet some at once.
 */
void sw_scales_meet(struct sw_scales *scales, const struct sw_exchange *exchange,
                    const struct sw_stretch *stretch, const char *data);
/* From the largest numbers, of all ranks' parts, to scales. */
void sw_scales_settle(struct sw_scales *scales);
/* This rank's share of them goes to their rows of the state. Errors (SW_ENVIRONMENT): memory, the
 * device's. */
int sw_scales_store(const struct sw_scales *scales, const struct sw_exchange *exchange,
                    struct sw_executor *executor, struct sw_error *err);

/* True if one of the scales of that tensor is NaN: not all of its numbers are finite. */
bool sw_scales_show_nan(const struct sw_scales *scales, const struct sw_placement *placement,
                        int32_t tensor);

/* Those of a tensor's rows; NULL: it is not in 8 bits. */
static inline const float *sw_scales_of(const struct sw_scales *scales, int32_t tensor)
{
    return scales == NULL || scales->count == 0 || scales->first[tensor] < 0
               ? NULL
               : scales->value + scales->first[tensor];
}

#endif
